/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - `mbx order`: a record of mbx exec --record as text, and the first difference of two.
 *
 * A comparison tells apart whether messages differ, or tests and probes that found nothing (compare.h).
 */
#include <dirent.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "compare.h"
#include "replay/replay.h"
#include "tools/common/tool.h"

/* The exit status if two records differ. */
#define ORDER_DIFFERS 3

static const char usage[] =
    "usage: mbx order [OPTIONS] DIR\n"
    "       mbx order [OPTIONS] DIR --compare DIR2\n"
    "\n"
    "Examples:\n"
    "  mbx exec --record orders mpiexec -n 4 ./program\n"
    "  mbx order orders --rank 0                 the results that depended on time\n"
    "  mbx order orders --compare more-orders    where two runs differ first\n"
    "\n"
    "Prints what `mbx exec --record DIR` has recorded: for each rank one line for each\n"
    "call whose result depends on time, with what it asked for and what it got.  The line\n"
    "of the program is there if the program was compiled with -g.  The communicators are\n"
    "numbered in the order of their first such call.  If several threads call MPI, each\n"
    "communicator but MPI_COMM_WORLD has lines of its own.  So has each endpoint of a program\n"
    "that calls the library without MPI, but the first one.\n"
    "\n"
    "  -r, --rank=R       this rank alone (default: all)\n"
    "  -f, --from=N       from event N on (default: 1)\n"
    "  -c, --compare=DIR2\n"
    "                     the first event of each rank, also of spawned jobs, that differs\n"
    "                     from that in DIR2.  The exit status is 3 if messages or ranks\n"
    "                     differ, and 0 if nothing differs but tests and probes that found\n"
    "                     nothing\n"
    "  -h, --help         this text\n";

static const struct option options[] = {{"rank", required_argument, NULL, 'r'},
                                        {"from", required_argument, NULL, 'f'},
                                        {"compare", required_argument, NULL, 'c'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct arguments {
    const char *folder, *other;
    uint64_t rank, from; /* UINT64_MAX: all ranks */
    const char *part;    /* ", comm-5": both folders are of this communicator; or "" */
};

static bool read_rank(const struct tool *tool, const char *folder, uint32_t rank,
                      struct replay_reader **reader)
{
    char error[PATH_MAX + 128];

    if (replay_read_open(folder, rank, reader, error, sizeof error) == 0)
        return true;
    tool_error(tool, "%s", error);
    return false;
}

static const char *state_of(const struct replay_reader *reader)
{
    unsigned flags = replay_read_flags(reader);

    if (replay_read_damage(reader)[0] != '\0')
        return "damaged";
    if (flags & REPLAY_CUT)
        return "cut: nothing more could be written";
    if (flags & REPLAY_THREADS)
        return "two threads: it cannot be replayed";
    if (flags & REPLAY_UNSEEN)
        return "a result is not recorded: it cannot be replayed";
    return flags & REPLAY_COMPLETE ? "complete" : "it ends where the rank was killed";
}

static void print_event(const char *before, const struct replay_event *event, const char *line)
{
    char call[REPLAY_TEXT], outcome[REPLAY_TEXT];

    printf("%s%s%s: %s", before, replay_signature_text(&event->signature, NULL, call), line,
           replay_outcome_text(&event->outcome, outcome));
    if (event->times > 1)
        printf(", %" PRIu64 " times", event->times);
    putchar('\n');
}

/* ---- one record ---- */

/* Says what is damaged. */
static bool is_undamaged(const struct tool *tool, const struct replay_reader *reader)
{
    if (replay_read_damage(reader)[0] == '\0')
        return true;
    tool_error(tool, "%s", replay_read_damage(reader));
    return false;
}

/* The line of an event.  Many events come from few lines: each is looked up once, and kept in `lines` by its place, if there is
 * memory. */
static const char *line_of_event(const struct replay_reader *reader,
                                 const struct replay_event *event, char **lines)
{
    char **line = lines != NULL ? &lines[event->signature.place] : NULL;
    struct order_place place;

    if (line == NULL)
        return "";
    if (*line == NULL && (*line = mem_alloc(ORDER_LINE)) != NULL) {
        order_place_of(reader, event, &place);
        order_line(&place, *line);
    }
    return *line != NULL ? *line : "";
}

static bool print_rank(const struct tool *tool, const struct arguments *args, uint32_t rank)
{
    bool is_whole;
    struct replay_reader *reader;
    struct replay_event event;
    char number[32], **lines;

    if (!read_rank(tool, args->folder, rank, &reader))
        return false;
    if (replay_read_unplaced(reader)[0] != '\0')
        tool_error(tool, "%s", replay_read_unplaced(reader));
    lines = mem_calloc(UINT16_MAX + 1, sizeof *lines);
    printf("rank %" PRIu32 "%s: %" PRIu64 " events, %s\n", rank, args->part,
           replay_read_events(reader), state_of(reader));
    while (replay_read_next(reader, &event)) {
        if (event.number + event.times <= args->from)
            continue;
        snprintf(number, sizeof number, "%8" PRIu64 "  ", event.number);
        print_event(replay_is_detail(event.signature.kind) ? "          " : number, &event,
                    line_of_event(reader, &event, lines));
    }
    is_whole = is_undamaged(tool, reader);
    replay_read_close(reader);
    for (size_t i = 0; lines != NULL && i <= UINT16_MAX; i++)
        mem_free(lines[i]);
    mem_free(lines);
    return is_whole;
}

static bool is_spawned(const char *name)
{
    return strncmp(name, REPLAY_SPAWNED, strlen(REPLAY_SPAWNED)) == 0;
}

/* Names the folders of jobs that ranks have spawned. */
static void print_spawned(const char *folder)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL)
        if (is_spawned(entry->d_name))
            printf("spawned job: mbx order %s/%s\n", folder, entry->d_name);
    if (entries != NULL)
        closedir(entries);
}

/* ---- two records ---- */

static void print_side(const char *folder, const struct replay_event *event,
                       const struct order_place *place)
{
    char before[PATH_MAX + 64], line[ORDER_LINE];

    if (event->times == 0) {
        printf("  %s: no further event\n", folder);
        return;
    }
    snprintf(before, sizeof before, "  %s, event %" PRIu64 ": ", folder, event->number);
    print_event(before, event, order_line(place, line));
}

/* 0; 1 they differ, which is printed; -1 a record cannot be read. */
static int compare_events(const struct tool *tool, const struct arguments *args, uint32_t rank,
                          bool is_found)
{
    const char *const folders[2] = {args->folder, args->other};
    struct order_difference difference;
    char error[ORDER_ERROR];
    int err = order_compare(folders, rank, is_found, &difference, error);

    if (difference.is_there) {
        printf("rank %" PRIu32 "%s: %s\n", rank, args->part,
               is_found ? "differs first here"
                        : "the same messages; tests or probes that found nothing differ "
                          "first here");
        for (int i = 0; i < 2; i++)
            print_side(folders[i], &difference.events[i], &difference.places[i]);
    }
    if (err < 0)
        tool_error(tool, "%s", error);
    return err < 0 ? -1 : difference.is_there;
}

static int compare_rank(const struct tool *tool, const struct arguments *args, uint32_t rank)
{
    int differ = compare_events(tool, args, rank, true);

    if (differ != 0)
        return differ;
    differ = compare_events(tool, args, rank, false);
    if (differ == 0)
        printf("rank %" PRIu32 "%s: equal\n", rank, args->part);
    return differ < 0 ? differ : 0;
}

/* ---- the command ---- */

/* One record, or two.  0; 1 they differ; -1 something cannot be read. */
static int show_rank(const struct tool *tool, const struct arguments *args, uint32_t rank)
{
    if (args->other != NULL)
        return compare_rank(tool, args, rank);
    return print_rank(tool, args, rank) ? 0 : -1;
}

static bool has_rank(const char *folder, uint32_t rank)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof path, "%s/rank-%" PRIu32 ".mbxrec", folder, rank);
    return access(path, F_OK) == 0;
}

/* Says which sequences of the rank, or which spawned jobs, have a record in the first folder, and none in the second.
 * True: there is one. */
static bool show_lone(const char *folder, const char *other, bool (*is_wanted)(const char *),
                      uint32_t rank)
{
    DIR *entries = opendir(folder);
    char mine[PATH_MAX], others[PATH_MAX];
    bool is_one = false;
    struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (!is_wanted(entry->d_name))
            continue;
        snprintf(mine, sizeof mine, "%s/%s", folder, entry->d_name);
        snprintf(others, sizeof others, "%s/%s", other, entry->d_name);
        if (!has_rank(mine, rank) || has_rank(others, rank))
            continue;
        printf("rank %" PRIu32 ", %.60s: only in %s\n", rank, entry->d_name, folder);
        is_one = true;
    }
    if (entries != NULL)
        closedir(entries);
    return is_one;
}

typedef int show_fn(const struct tool *tool, const struct arguments *args, uint32_t rank);

/* Shows the rank in each folder of a record that is_of() names, of both records if two are compared.
 * As show_rank(). */
static int show_folders(const struct tool *tool, const struct arguments *args, uint32_t rank,
                        bool (*is_of)(const char *name), show_fn *show)
{
    DIR *entries = opendir(args->folder);
    char folder[PATH_MAX], other[PATH_MAX], part[128];
    struct dirent *entry;
    bool is_read = true, differ = false;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct arguments of_part = *args;
        int shown;

        if (!is_of(entry->d_name))
            continue;
        snprintf(folder, sizeof folder, "%s/%s", args->folder, entry->d_name);
        snprintf(part, sizeof part, "%.60s, %.60s", args->part, entry->d_name);
        if (!has_rank(folder, rank))
            continue; /* show_lone() names it */
        of_part.folder = folder;
        of_part.part = part;
        if (args->other != NULL) {
            snprintf(other, sizeof other, "%s/%s", args->other, entry->d_name);
            of_part.other = other;
            if (!has_rank(other, rank))
                continue;
        }
        shown = show(tool, &of_part, rank);
        is_read = is_read && shown >= 0;
        differ = differ || shown > 0;
    }
    if (entries != NULL)
        closedir(entries);
    if (args->other != NULL) {
        differ = show_lone(args->folder, args->other, is_of, rank) || differ;
        differ = show_lone(args->other, args->folder, is_of, rank) || differ;
    }
    return !is_read ? -1 : differ;
}

/* How many ranks were recorded; 0 after saying that there is no record. */
static uint32_t ranks_of(const struct tool *tool, const char *folder)
{
    char error[ORDER_ERROR];
    uint32_t ranks;

    if (order_ranks(folder, 0, &ranks, error) == 0)
        return ranks;
    tool_error(tool, "%s", error);
    return 0;
}

/* Says which ranks, from `first` on, have a record in this folder alone.  True: there is one. */
static bool show_lone_ranks(const struct arguments *args, const char *folder, uint32_t first,
                            uint32_t end)
{
    for (uint32_t rank = first; rank < end; rank++)
        printf("rank %" PRIu32 "%s: only in %s\n", rank, args->part, folder);
    return first < end;
}

/* All ranks of a job, or the one that is asked for.  As show_rank(). */
static int show_job(const struct tool *tool, const struct arguments *args)
{
    bool is_one = args->rank != UINT64_MAX, is_read = true, differ = false;
    uint32_t first = is_one ? (uint32_t)args->rank : 0;
    uint32_t end = is_one ? first + 1 : ranks_of(tool, args->folder), other_end = end;

    if (args->other != NULL && !is_one && end != 0)
        other_end = ranks_of(tool, args->other);
    if (end == 0 || other_end == 0)
        return -1;
    for (uint32_t rank = first; rank < end && rank < other_end; rank++) {
        int shown = show_rank(tool, args, rank),
            parts = show_folders(tool, args, rank, replay_is_sequence, show_rank);

        is_read = is_read && shown >= 0 && parts >= 0;
        differ = differ || shown > 0 || parts > 0;
    }
    differ = show_lone_ranks(args, args->folder, other_end, end) || differ;
    differ = show_lone_ranks(args, args->other, end, other_end) || differ;
    return !is_read ? -1 : differ;
}

/* Shows a job that ranks have spawned: show_folders() has found it by its rank 0. */
static int show_spawned(const struct tool *tool, const struct arguments *args, uint32_t rank)
{
    (void)rank;
    return show_job(tool, args);
}

static int read_arguments(const struct tool *tool, int argc, char **argv,
                          struct arguments *args)
{
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:r:f:c:h", options, &status)) >= 0) {
        if (option == 'c')
            args->other = optarg;
        if (option == 'r' && (status = tool_number(tool, "--rank", optarg, 0,
                                                   ORDER_RANKS_MAX - 1, &args->rank)) != 0)
            return status;
        if (option == 'f' &&
            (status = tool_number(tool, "--from", optarg, 1, UINT64_MAX, &args->from)) != 0)
            return status;
        /* options may follow DIR */
        if (optind < argc && argv[optind][0] != '-' && args->folder == NULL)
            args->folder = argv[optind++];
    }
    if (option == -2)
        return status != 0 ? status : -1;
    return 0;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct arguments args = {.rank = UINT64_MAX, .from = 1, .part = ""};
    int status, shown, spawned = 0;

    if (argc > 1 && argv[1][0] != '-') {
        args.folder = argv[1];
        argv++;
        argc--;
    }
    status = read_arguments(tool, argc, argv, &args);
    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    if (args.folder == NULL && optind < argc)
        args.folder = argv[optind++];
    if (args.folder == NULL)
        return tool_usage_error(tool, "DIR is missing");
    if (optind < argc)
        return tool_usage_error(tool, "one DIR, and --compare DIR2; got '%s'", argv[optind]);
    shown = show_job(tool, &args);
    if (args.rank == UINT64_MAX && args.other != NULL)
        spawned = show_folders(tool, &args, 0, is_spawned, show_spawned);
    else if (args.rank == UINT64_MAX && shown >= 0)
        print_spawned(args.folder);
    if (shown < 0 || spawned < 0)
        return TOOL_FAILED;
    return shown > 0 || spawned > 0 ? ORDER_DIFFERS : TOOL_DONE;
}

const struct tool tool_order = {
    .name = "order",
    .about = "what the calls of a recorded job returned, and where two runs differ",
    .usage = usage,
    .options = options,
    .run = run,
};
