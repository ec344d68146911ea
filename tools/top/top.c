/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top.c - `mbx top`: shows repeatedly how the ranks of jobs spend their time.
 *
 *   find all ranks ──> inspect them for an interval, every LOOK_EACH_NS ──> show ──> find ...
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"
#include "top.h"

#define LOOK_EACH_NS (50 * CLOCK_MS)
#define LOOK_WAIT_NS (20 * CLOCK_MS) /* time in it that a rank has to answer */

static const char usage[] =
    "usage: mbx top [OPTIONS]\n"
    "\n"
    "Examples:\n"
    "  mbx top                      all jobs of this user on this host\n"
    "  mbx top --job ./solver --once --interval 10\n"
    "\n"
    "Shows how the ranks spend their time: how long each rank waits and in which call,\n"
    "how many messages it sends and receives, and how long its queues are.  The rank that\n"
    "never waits is the one that the others wait for.  It stops no rank.  The job must\n"
    "run over Matchbox: start it by mbx exec.\n"
    "\n"
    "  --job JOB           only this job: its id, its program, one of its processes, or\n"
    "                      the process that has started it\n"
    "  --all-users         for root: jobs of all users, not only of root\n"
    "  --interval SECONDS  how long each table observes the ranks (default 2)\n"
    "  --once              print one table and end\n"
    "  --plain             print tables one after the other, as without a terminal\n"
    "  -h, --help          this text\n"
    "\n"
    "mbx checks each rank 20 times a second.  The columns are shares of these checks:\n"
    "\n"
    "  waits   in a call that blocks, and no data of its messages has arrived\n"
    "  data    in a call that blocks, and the data is being transferred\n"
    "  calls   in a call that does not block (MPI_Test), or between two such calls\n"
    "  comp.   computes: it runs, and makes no call\n"
    "  ready   could run, and has no core\n"
    "  other   sleeps, reads a file, is stopped, or has ended\n"
    "\n"
    "Further columns: messages per second, megabytes per second, posted receives,\n"
    "unexpected messages, and the call in which the rank waits longest, with the rank\n"
    "that it waits for.\n"
    "\n"
    "Keys on the screen: q ends, w sorts ranks that wait least first, r sorts by rank, up\n"
    "and down scroll.  The screen needs ncurses.\n"
    "\n"
    "Exit status: 1 if --once finds no job.\n";

static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                        {"interval", required_argument, NULL, 'i'},
                                        {"once", no_argument, NULL, 'o'},
                                        {"plain", no_argument, NULL, 'p'},
                                        {"all-users", no_argument, NULL, 'a'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static const char no_job[] = "no job of this user runs over Matchbox on this host (or it runs "
                             "with MBX_INSPECT=no)";

struct view {
    struct observe_options wanted;
    uint64_t interval_ns;
    bool once, plain, by_waits, quit;
    uint32_t first; /* first visible line */
    char *text;     /* the text on the screen, or NULL */
};

/* ---- an interval ---- */

static void show(const struct view *view)
{
    if (!view->plain && view->text != NULL)
        top_screen_show(view->text, view->first);
}

/* Handles a key; a new order of ranks takes effect with the next table. */
static void take_key(struct view *view, enum top_key key)
{
    view->quit |= key == TOP_KEY_QUIT;
    if (key == TOP_KEY_WAITS || key == TOP_KEY_RANK)
        view->by_waits = key == TOP_KEY_WAITS;
    if (key == TOP_KEY_UP && view->first > 0)
        view->first--;
    else if (key == TOP_KEY_DOWN)
        view->first++;
    if (key != TOP_KEY_NONE && key != TOP_KEY_QUIT)
        show(view);
}

/* Handles keys until that time. */
static void rest(struct view *view, uint64_t until_ns)
{
    uint64_t now_ns;

    while (!view->quit && (now_ns = clock_now()) < until_ns) {
        uint64_t left_ns = until_ns - now_ns;

        if (view->plain)
            usleep((useconds_t)(left_ns / CLOCK_US + 1));
        else
            take_key(view, top_screen_key((int)(left_ns / CLOCK_MS + 1)));
    }
}

/* Inspects all present ranks for an interval.  0 or a negative errno. */
static int look(struct view *view, struct top *top)
{
    struct observer *observer = NULL;
    uint64_t end_ns = clock_now() + view->interval_ns, next_ns;
    int err = observer_open(&view->wanted, &observer);

    *top = (struct top){.count = 0};
    do {
        next_ns = clock_now() + LOOK_EACH_NS;
        if (err == 0)
            err = top_look(top, observer);
        rest(view, next_ns);
    } while (err == 0 && !view->quit && clock_now() < end_ns);
    observer_close(observer);
    return err;
}

/* ---- output ---- */

/* Prints text without the marks of lines. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text != TOP_HEADING && *text != TOP_VERDICT)
            putchar(*text);
    putchar('\n');
    fflush(stdout);
}

static int show_table(struct view *view, const struct top *top)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return -ENOMEM;
    outside_begin();
    if (!view->plain)
        fprintf(out,
                "%cmbx top: %g s for each table; q ends, w: the rank that waits least first, "
                "r: by rank\n",
                TOP_VERDICT, (double)view->interval_ns / (double)CLOCK_S);
    if (top->count == 0)
        fprintf(out, "%s\n", no_job);
    top_print(out, top, view->by_waits);
    if (fclose(out) != 0) {
        free(text);
        return -ENOMEM;
    }
    if (view->plain)
        print_plain(text);
    free(view->text);
    view->text = text;
    show(view);
    return 0;
}

static int watch(const struct tool *tool, struct view *view)
{
    struct top top;
    int err = 0, status = TOOL_DONE;

    while (err == 0 && !view->quit) {
        err = look(view, &top);
        if (err == 0 && view->once && top.count == 0) {
            tool_error(tool, "%s%s", no_job, observe_hint(&view->wanted));
            status = TOOL_FAILED;
        } else if (err == 0 && !view->quit) {
            err = show_table(view, &top);
        }
        top_free(&top);
        if (view->once)
            break;
        if (ferror(stdout)) {
            status = TOOL_FAILED;
            break;
        }
    }
    free(view->text);
    if (err != 0) {
        if (!view->plain)
            top_screen_close();
        view->plain = true;
        tool_error(tool, "cannot look at the processes of this host: %s", strerror(-err));
        return TOOL_FAILED;
    }
    return status;
}

/* ---- the command ---- */

static int parse(const struct tool *tool, int argc, char **argv, struct view *view)
{
    int c, status;

    while ((c = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        int err = 0;

        if (c == 'j') {
            observe_take_job(&view->wanted, optarg);
        } else if (c == 'i') {
            err = tool_time(tool, "--interval", optarg, "s", 100 * CLOCK_MS, 3600 * CLOCK_S,
                            &view->interval_ns);
        }
        view->once |= c == 'o';
        view->wanted.all_users |= c == 'a';
        view->plain |= c == 'p' || c == 'o';
        if (err != 0)
            return err;
    }
    return tool_options_end(tool, argc, argv, c, status);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct view view = {.wanted = {.rank = INSPECT_NOBODY, .wait_ns = LOOK_WAIT_NS},
                        .interval_ns = 2 * CLOCK_S};
    int status = parse(tool, argc, argv, &view);
    const char *why;

    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    status = observe_choose(tool, &view.wanted);
    if (status != 0)
        return status;
    if (!view.plain && isatty(STDOUT_FILENO)) {
        why = top_screen_open();
        if (why != NULL)
            tool_error(tool, "no screen, but tables: %s", why);
        view.plain = why != NULL;
    } else {
        view.plain = true;
    }
    status = watch(tool, &view);
    if (!view.plain)
        top_screen_close();
    return status;
}

const struct tool tool_top = {
    .name = "top",
    .about = "show which ranks wait, in which call, and for which rank",
    .usage = usage,
    .options = options,
    .run = run,
};
