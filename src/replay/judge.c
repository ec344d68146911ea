/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * judge.c - is the program's next event the one that was recorded?
 *
 *   the call's signature ── equal? ──> the recorded outcome, which the caller then makes true
 *                        └── not equal, or the record has no more ──> the divergence, told in lines
 *
 * A record that was cut short ends without a divergence: the rank continues freely.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/caller.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/source_line.h"
#include "replay/replay.h"

struct replay_judge {
    struct replay_reader *reader;
    struct replay_event next, last; /* times 0: none */
    uint64_t at;                    /* events that agreed */
    uint32_t pid;
    bool is_same_program, is_native;
    const char *why; /* why the outcome that was given cannot be, or NULL */
    char folder[PATH_MAX];
};

/* ---- opening ---- */

static bool is_zero(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Warns of differences that do not prevent a replay, but may make it diverge. */
static void compare_programs(struct replay_judge *j, const struct replay_job *job)
{
    const struct replay_job *then = replay_read_job(j->reader);

    j->is_same_program = memcmp(then->build, job->build, sizeof job->build) == 0 &&
                         !is_zero(job->build, sizeof job->build);
    if (job->rank != 0 || job->is_part)
        return;
    if (!j->is_same_program && !is_zero(then->build, sizeof then->build))
        LOG_WARN("replay: this is not the recorded program (its build id differs)");
    if (then->arguments != job->arguments)
        LOG_WARN("replay: the arguments of the program differ from the recorded ones");
}

/* 0, or -EINVAL after saying why this record is not for this job. */
static int compare_jobs(const struct replay_judge *j, const struct replay_job *job)
{
    const struct replay_job *then = replay_read_job(j->reader);

    if (then->size != job->size)
        LOG_ERROR("replay: %s has records of %u ranks, but this job has %u", j->folder,
                  then->size, job->size);
    else if (then->mpi != job->mpi)
        LOG_ERROR("replay: %s was recorded with another version of MPI%s", j->folder,
                  job->is_native ? ", and this program calls the library without MPI" : "");
    else if (replay_read_flags(j->reader) & REPLAY_THREADS)
        LOG_ERROR("replay: rank %u: two threads made the recorded calls: their order cannot be "
                  "replayed",
                  job->rank);
    else if (replay_read_flags(j->reader) & REPLAY_UNSEEN)
        LOG_ERROR(
            "replay: rank %u made a call whose result is not recorded: a warning named it "
            "when it was recorded",
            job->rank);
    else
        return 0;
    return -EINVAL;
}

/* The event that is to come. */
static void judge_read(struct replay_judge *j)
{
    if (replay_read_next(j->reader, &j->next))
        return;
    j->next.times = 0;
    if (replay_judge_is_over(j) && !replay_judge_is_beginning(j))
        LOG_WARN("replay: rank %u: the record ends after event %" PRIu64
                 ", where %s: from here on the rank continues freely",
                 replay_read_job(j->reader)->rank, j->at,
                 replay_read_flags(j->reader) & REPLAY_CUT ? "nothing more could be written"
                                                           : "the recorded rank was killed");
}

int replay_judge_open(const char *folder, const struct replay_job *job,
                      struct replay_judge **out)
{
    struct replay_judge *j = mem_calloc(1, sizeof *j);
    char error[PATH_MAX + 128];
    int err;

    if (j == NULL)
        return -ENOMEM;
    snprintf(j->folder, sizeof j->folder, "%s", folder);
    j->pid = job->pid;
    j->is_native = job->is_native;
    err = replay_read_open(folder, job->rank, &j->reader, error, sizeof error);
    if (err < 0)
        LOG_ERROR("replay: rank %u: %s", job->rank, error);
    else
        err = compare_jobs(j, job);
    if (err < 0) {
        LOG_ERROR("replay: rank %u ends: " REPLAY_REFUSAL, job->rank);
        replay_judge_close(j);
        return err;
    }
    compare_programs(j, job);
    if (replay_read_damage(j->reader)[0] != '\0')
        LOG_WARN("replay: rank %u: %s", job->rank, replay_read_damage(j->reader));
    if (replay_read_unplaced(j->reader)[0] != '\0')
        LOG_WARN("replay: rank %u: %s", job->rank, replay_read_unplaced(j->reader));
    judge_read(j);
    *out = j;
    return 0;
}

/* ---- events ---- */

bool replay_judge_is_cut(const struct replay_judge *j)
{
    return !(replay_read_flags(j->reader) & REPLAY_COMPLETE);
}

bool replay_judge_is_over(const struct replay_judge *j)
{
    return j->next.times == 0 && !(replay_read_flags(j->reader) & REPLAY_COMPLETE);
}

bool replay_judge_is_beginning(const struct replay_judge *j)
{
    return (replay_read_flags(j->reader) & REPLAY_BEGINNING) != 0;
}

bool replay_judge_is_single(const struct replay_judge *j)
{
    return (replay_read_flags(j->reader) & REPLAY_SINGLE) != 0;
}

static void judge_step(struct replay_judge *j)
{
    if (!replay_is_detail(j->next.signature.kind)) {
        j->last = j->next;
        j->at++;
    }
    if (--j->next.times == 0)
        judge_read(j);
}

enum replay_verdict replay_judge(struct replay_judge *j, const struct replay_signature *now,
                                 struct replay_outcome *out)
{
    j->why = NULL;
    if (replay_judge_is_over(j))
        return REPLAY_OVER;
    if (j->next.times == 0 || !replay_is_alike(&j->next.signature, now))
        return REPLAY_DIFFERS;
    *out = j->next.outcome;
    judge_step(j);
    return REPLAY_AGREES;
}

void replay_judge_refuse(struct replay_judge *j, const char *why)
{
    j->why = why;
}

bool replay_judge_is_cancelled(const struct replay_judge *j, uint64_t receive)
{
    return replay_read_is_cancelled(j->reader, receive);
}

/* ---- a divergence ---- */

const char *(*replay_line_of)(const char *path, uint64_t at, char *words);

#define WHERE_MAX (CALLER_PATH + 32)

/* " at solve.c:88"; without debug information " at /home/ann/solve+0x1234", as addr2line takes it; "" if path is NULL. */
static const char *where_text(const char *path, uint64_t at, char text[WHERE_MAX])
{
    char words[SOURCE_LINE_MAX];
    const char *line =
        path != NULL && replay_line_of != NULL ? replay_line_of(path, at, words) : NULL;

    text[0] = '\0';
    if (line != NULL)
        snprintf(text, WHERE_MAX, " at %s", line);
    else if (path != NULL)
        snprintf(text, WHERE_MAX, " at %s+0x%" PRIx64, path, at);
    return text;
}

static void say_event(const struct replay_judge *j, const char *title,
                      const struct replay_event *event)
{
    char call[REPLAY_TEXT], outcome[REPLAY_TEXT], where[WHERE_MAX];
    uint64_t at = 0;
    const char *path = replay_read_place(j->reader, event->signature.place, &at);

    LOG_ERROR("  %s %s%s: %s", title, replay_signature_text(&event->signature, NULL, call),
              where_text(path, at, where), replay_outcome_text(&event->outcome, outcome));
}

/* Where the program calls from now. */
static const char *where_now(char text[WHERE_MAX])
{
    char path[CALLER_PATH];
    struct caller caller;
    uint64_t at = 0;
    bool is_known;

    caller_find(&caller);
    is_known = caller.address != 0 && caller_place(caller.address, path, &at) == 0;
    return where_text(is_known ? path : NULL, at, text);
}

void replay_judge_say(const struct replay_judge *j, const struct replay_signature *now,
                      const char *comm, bool goes_on)
{
    uint32_t rank = replay_read_job(j->reader)->rank;
    uint64_t at = j->at + (j->why == NULL);
    char call[REPLAY_TEXT], where[WHERE_MAX];

    LOG_ERROR("replay: rank %u (pid %u) diverged from %s at its event %" PRIu64 " of %" PRIu64,
              rank, j->pid, j->folder, at, replay_read_events(j->reader));
    if (j->why != NULL)
        say_event(j, "recorded:", &j->last);
    else if (j->next.times != 0)
        say_event(j, "recorded:", &j->next);
    else
        LOG_ERROR("  recorded: no further event");
    LOG_ERROR("  now:      %s%s%s%s",
              now != NULL    ? replay_signature_text(now, comm, call)
              : j->is_native ? "the program ends"
                             : "MPI_Finalize",
              where_now(where), j->why != NULL ? ": " : "", j->why != NULL ? j->why : "");
    if (j->why == NULL && j->last.times != 0)
        say_event(j, "last event that agreed:", &j->last);
    LOG_ERROR("  something other than messages differs: time, random numbers, files, memory%s",
              j->is_same_program ? " (the program is the recorded one)"
                                 : ", or a rebuilt program");
    if (goes_on)
        LOG_ERROR("  rank %u continues freely", rank);
}

bool replay_judge_ends(const struct replay_judge *j, uint64_t held, bool goes_on)
{
    if (j->next.times != 0) {
        replay_judge_say(j, NULL, NULL, goes_on);
        return false;
    }
    if (held == REPLAY_NOT_COUNTED)
        LOG_INFO("replay: rank %u: %" PRIu64 " events, all as recorded",
                 replay_read_job(j->reader)->rank, j->at);
    else
        LOG_INFO("replay: rank %u: %" PRIu64 " events, all as recorded; %" PRIu64 " held back",
                 replay_read_job(j->reader)->rank, j->at, held);
    return true;
}

void replay_judge_close(struct replay_judge *j)
{
    if (j == NULL)
        return;
    replay_read_close(j->reader);
    mem_free(j);
}
