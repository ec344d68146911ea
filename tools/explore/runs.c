/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runs.c - a run, what CMD says of it, and its replay.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "explore.h"
#include "replay/replay.h"

#define TIMES_FIRST 10
#define LIMIT_LEAST (60 * CLOCK_S)
#define WORDS_MORE  10 /* than the command has, at most */

/* The files of DIR/order-N that belong to a run, or to a replay. */
struct files {
    char out[EXPLORE_PATH], err[EXPLORE_PATH], check[EXPLORE_PATH];
};

static void name_file(const struct explore_search *s, uint64_t n, uint32_t replay,
                      const char *name, char path[EXPLORE_PATH])
{
    char full[48];

    if (replay == 0)
        snprintf(full, sizeof full, "%s", name);
    else if (replay == 1)
        snprintf(full, sizeof full, "replay-%s", name);
    else
        snprintf(full, sizeof full, "replay-%u-%s", replay, name);
    explore_path(s->options, n, full, path);
}

/* replay: its number, or 0: the run. */
static void name_files(const struct explore_search *s, uint64_t n, uint32_t replay,
                       struct files *files)
{
    name_file(s, n, replay, "stdout", files->out);
    name_file(s, n, replay, "stderr", files->err);
    name_file(s, n, replay, "check", files->check);
}

/* ---- words ---- */

/* The words that make a run what it is.  Returns how many there are. */
static size_t put_kind(const struct explore_search *s, uint64_t n, char **w)
{
    static char shuffle[] = "--shuffle", record[] = "--record", replay[] = "--replay", seed[24],
                cut[EXPLORE_PATH], races[EXPLORE_PATH + 8], folder[EXPLORE_PATH];
    size_t at = 0;

    explore_path(s->options, n, "", folder);
    if (explore_is_shuffled(s->options, n)) {
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)(s->options->seed + n - 1));
        w[at++] = shuffle;
        w[at++] = seed;
    } else if (s->runs[n - 1].is_forced) {
        w[at++] = replay;
        w[at++] = strcpy(cut, explore_path(s->options, n, EXPLORE_CUT, races));
    }
    if (explore_is_traced(s->options)) {
        snprintf(races, sizeof races, "--races=%s", folder);
        w[at++] = races;
    } else {
        w[at++] = record;
        w[at++] = folder;
    }
    return at;
}

/* The words of `mbx exec`, which runs the command in another order, or replays it.  False: no memory. */
static bool exec_words(const struct explore_search *s, uint64_t n, bool is_replay,
                       char ***words)
{
    static char name[] = "exec", replay[] = "--replay", end[] = "--", folder[EXPLORE_PATH];
    char **command = s->options->command, **w;
    size_t count = 0, at = 0;

    while (command[count] != NULL)
        count++;
    w = mem_calloc(count + WORDS_MORE, sizeof *w);
    if (w == NULL)
        return false;
    w[at++] = name;
    if (is_replay) {
        w[at++] = replay;
        explore_path(s->options, n, "", folder);
        w[at++] = folder;
    } else {
        at += put_kind(s, n, w + at);
    }
    w[at++] = end;
    memcpy(w + at, command, count * sizeof *w);
    *words = w;
    return true;
}

static void set_number(const char *name, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    setenv(name, text, 1);
}

/* ---- results ---- */

/* CMD decides about a run. */
static bool ask_check(struct explore_search *s, uint64_t n, const struct files *files,
                      const struct explore_ended *run, struct explore_result *result)
{
    static char shell[] = "sh", option[] = "-c";
    char *command = strdup(s->options->check);
    char *words[] = {shell, option, command, NULL};
    const struct explore_task task = {
        .words = words, .out = files->check, .limit_ns = s->limit_ns};
    struct explore_ended ended;

    set_number(EXPLORE_RUN, n);
    set_number(EXPLORE_STATUS, (uint64_t)(run->how == EXPLORE_KILLED ? TOOL_SIGNAL : 0) +
                                   (uint64_t)run->number);
    setenv(EXPLORE_STDOUT, files->out, 1);
    setenv(EXPLORE_STDERR, files->err, 1);
    ended = explore_execute(&task, &s->held);
    unsetenv(EXPLORE_STATUS);
    unsetenv(EXPLORE_STDOUT);
    unsetenv(EXPLORE_STDERR);
    free(command);
    s->is_interrupted = s->is_interrupted || ended.how == EXPLORE_INTERRUPTED;
    if (ended.how == EXPLORE_REFUSED || ended.how == EXPLORE_FAILED)
        tool_error(s->tool, "--check: sh cannot be run");
    *result = (struct explore_result){.kind = ended.how == EXPLORE_EXITED && ended.number == 0
                                                  ? EXPLORE_CHECK_PASSES
                                                  : EXPLORE_CHECK_FAILS};
    return ended.how != EXPLORE_INTERRUPTED;
}

/* Does its output differ from the output of run number `as`? */
static bool is_other_output(struct explore_search *s, uint64_t as, const char *out)
{
    char first[EXPLORE_PATH], ours[EXPLORE_LINE_SIZE], theirs[EXPLORE_LINE_SIZE];
    bool is_other = false;
    size_t line;
    int err;

    if (s->options->output == EXPLORE_NONE)
        return false;
    err = explore_compare_output(s->options->output,
                                 explore_path(s->options, as, "stdout", first), out, &is_other,
                                 ours, theirs, &line);
    if (err < 0)
        tool_error(s->tool, "%s and %s cannot be compared: %s", first, out, strerror(-err));
    return is_other;
}

/* False: it was interrupted. */
static bool judge(struct explore_search *s, uint64_t n, bool is_replay,
                  const struct files *files, const struct explore_ended *ended,
                  struct explore_result *result)
{
    const struct explore_result *first = &s->runs[0].result;

    if (s->options->check != NULL && ended->how != EXPLORE_TOO_LONG)
        return ask_check(s, n, files, ended, result);
    *result = explore_result_of(ended, files->err);
    if (result->kind == EXPLORE_STATUS_IS && result->number == 0 && !is_replay &&
        !explore_is_complete(s, n))
        result->kind = EXPLORE_ABORTED;
    if (n > 1 && result->kind == first->kind && result->number == first->number)
        result->is_other_output = is_other_output(s, 1, files->out);
    return true;
}

/* ---- runs ---- */

static void say_refusal(const struct explore_search *s, const struct files *files)
{
    char line[1024];
    FILE *file = fopen(files->err, "re");

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stderr);
    if (file != NULL)
        fclose(file);
    tool_error(s->tool, "mbx exec refuses the command");
}

static struct explore_ended run_job(struct explore_search *s, uint64_t n, bool is_replay,
                                    const struct files *files)
{
    struct explore_ended ended = {.how = EXPLORE_FAILED, .number = ENOMEM};
    struct explore_task task = {
        .tool = &tool_exec, .out = files->out, .err = files->err, .limit_ns = s->limit_ns};

    if (!exec_words(s, n, is_replay, &task.words))
        return ended;
    set_number(EXPLORE_RUN, n);
    ended = explore_execute(&task, &s->held);
    unsetenv(EXPLORE_RUN);
    mem_free(task.words);
    explore_remove_hang_files(files->err);
    return ended;
}

/* The first run says how long the others may take, unless the user has. */
static void learn_limit(struct explore_search *s, const struct explore_run *run)
{
    if (s->options->limit_ns != 0)
        return;
    s->limit_ns = TIMES_FIRST * run->ns;
    if (s->limit_ns < LIMIT_LEAST)
        s->limit_ns = LIMIT_LEAST;
}

static bool has_no_record(const struct explore_search *s, uint64_t n,
                          const struct explore_ended *ended)
{
    char path[EXPLORE_PATH], line[EXPLORE_LINE_SIZE];

    if (n > 1 || s->runs[0].order != 0 || ended->how == EXPLORE_TOO_LONG)
        return false;
    explore_first_line(explore_path(s->options, 1, "stderr", path), line);
    tool_error(s->tool,
               "run 1 has left no record: no rank came to MPI_Init over Matchbox, so no orders "
               "can be compared; its output is in %s%s%s",
               explore_path(s->options, 1, "", path), line[0] != '\0' ? ", and begins: " : "",
               line);
    return true;
}

/* It has failed by itself: this counts, even if the forced match had not happened yet.  A deadlock or a divergence may come from
 * the match. */
static bool has_failed(const struct explore_ended *ended, const struct files *files)
{
    const struct explore_result result = explore_result_of(ended, files->err);

    return result.kind == EXPLORE_SIGNALLED ||
           (result.kind == EXPLORE_STATUS_IS && result.number != 0 &&
            result.number != REPLAY_STATUS_DIVERGED);
}

bool explore_run(struct explore_search *s, uint64_t n)
{
    struct explore_run *run = &s->runs[n - 1];
    struct explore_ended ended;
    struct files files;

    if (!explore_make_order(s->tool, s->options, n))
        return false;
    name_files(s, n, 0, &files);
    ended = run_job(s, n, false, &files);
    s->is_interrupted = s->is_interrupted || ended.how == EXPLORE_INTERRUPTED;
    if (ended.how == EXPLORE_INTERRUPTED)
        return false;
    if (ended.how == EXPLORE_REFUSED)
        say_refusal(s, &files);
    if (ended.how == EXPLORE_FAILED)
        tool_error(s->tool, "run %llu cannot be started: %s", (unsigned long long)n,
                   strerror(ended.number));
    if (ended.how == EXPLORE_REFUSED || ended.how == EXPLORE_FAILED) {
        if (n == 1)
            explore_remove_folder(s->options);
        return false;
    }
    run->ns = ended.ns;
    if (n == 1)
        learn_limit(s, run);
    run->is_missed = run->is_forced && !explore_was_forced(s, n) && !has_failed(&ended, &files);
    if (!run->is_missed)
        explore_find_order(s, n);
    if (has_no_record(s, n, &ended) ||
        (!run->is_missed && !judge(s, n, false, &files, &ended, &run->result)))
        return false;
    s->count = n;
    return true;
}

/* ---- replays ---- */

/* Has the replay the same result, and, if this was another output, the same output? */
static bool repeats(struct explore_search *s, uint64_t n, const struct files *files)
{
    const struct explore_run *run = &s->runs[n - 1];

    if (!explore_is_same(&run->result, &run->replayed))
        return false;
    return !run->result.is_other_output || !is_other_output(s, n, files->out);
}

static bool replay_once(struct explore_search *s, uint64_t n)
{
    struct explore_run *run = &s->runs[n - 1];
    struct explore_ended ended;
    struct files files;

    name_files(s, n, ++run->replays, &files);
    ended = run_job(s, n, true, &files);
    s->is_interrupted = s->is_interrupted || ended.how == EXPLORE_INTERRUPTED;
    if (ended.how == EXPLORE_INTERRUPTED)
        return false;
    if (ended.how == EXPLORE_REFUSED || ended.how == EXPLORE_FAILED ||
        explore_has_text(files.err, REPLAY_REFUSAL)) {
        run->replay = EXPLORE_REPLAY_REFUSED;
        return true;
    }
    if (!judge(s, n, true, &files, &ended, &run->replayed))
        return false;
    run->replay = repeats(s, n, &files) ? EXPLORE_REPEATS : EXPLORE_REPEATS_NOT;
    run->repeated += run->replay == EXPLORE_REPEATS;
    return true;
}

bool explore_replay(struct explore_search *s, uint64_t n)
{
    struct explore_run *run = &s->runs[n - 1];
    struct explore_result replayed;

    if (!replay_once(s, n))
        return false;
    if (run->replay != EXPLORE_REPEATS_NOT)
        return true;
    replayed = run->replayed;
    while (run->replays < EXPLORE_REPLAYS)
        if (!replay_once(s, n))
            return false;
    run->replayed = replayed;
    run->replay = EXPLORE_REPEATS_NOT;
    return true;
}
