/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explore.h - the parts of `mbx explore`.
 *
 *   explore.c        options; run after run
 *   alternatives.c   which message each receive could have taken instead, and which of them is next
 *   cut.c            the order that makes a receive take another message
 *   runs.c           a run, its check and its replay  ──>  execute.c   a process and all that descends from it, to their end
 *   judge.c          how a run ended, and which order it had
 *   lines.c          the first line in which two outputs differ
 *   folder.c         DIR
 *   report.c         what is said at the end
 *
 * DIR/order-K has the files of run K:
 *   cut/                          the beginning of an order, with which it was made to begin
 *   its record, traces, job.txt   made by the ranks and by mbx exec
 *   stdout, stderr, check         of the run, and of CMD
 *   replay-stdout, -stderr, -check    of its replay, if there was one; replay-2-..., replay-3-... of further ones
 */
#ifndef TOOLS_EXPLORE_H
#define TOOLS_EXPLORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/common/interrupt.h"
#include "tools/common/tool.h"
#include "tools/order/compare.h"
#include "tools/races/races.h"

#define EXPLORE_RUNS_MAX 10000

#define EXPLORE_RUN      "MBX_EXPLORE_RUN" /* its number: of the run, its replay, and CMD */
#define EXPLORE_STDOUT                                                                         \
    "MBX_EXPLORE_STDOUT" /* these, of CMD alone: files, and the exit status */
#define EXPLORE_STDERR    "MBX_EXPLORE_STDERR"
#define EXPLORE_STATUS    "MBX_EXPLORE_STATUS"
#define EXPLORE_PATH      (PATH_MAX + 64)
#define EXPLORE_LINE_SIZE 128
#define EXPLORE_CUT       "cut" /* a folder in DIR/order-K */
#define EXPLORE_REPLAYS   3     /* of a run that does not repeat in the first one */

enum explore_output { EXPLORE_SORTED, EXPLORE_SAME, EXPLORE_NONE };

struct explore_options {
    uint64_t runs, seed, time_ns,
        limit_ns;      /* time_ns UINT64_MAX: no end; limit_ns 0: by the first run */
    uint64_t shuffled; /* so many runs are made with mbx exec --shuffle, the first ones */
    uint64_t mix;      /* a run has at most so many forced matches */
    enum explore_output output;
    const char *check; /* or NULL */
    const char *folder;
    bool is_forced;
    char **command;
};

/* ---- execute.c ---- */

enum explore_end {
    EXPLORE_EXITED,
    EXPLORE_KILLED,      /* number: the signal */
    EXPLORE_TOO_LONG,    /* it was ended */
    EXPLORE_REFUSED,     /* mbx exec did not start the command; number: what it returned */
    EXPLORE_INTERRUPTED, /* it was ended because a signal came */
    EXPLORE_FAILED       /* nothing could be started; number: errno */
};

struct explore_ended {
    enum explore_end how;
    int number; /* the exit status, or as above */
    uint64_t ns;
};

struct explore_task {
    const struct tool *tool; /* a command of mbx with these words; NULL: a program */
    char **words;            /* up to NULL */
    const char *out, *err;   /* new files; err NULL: both go to out */
    uint64_t limit_ns;       /* UINT64_MAX: none */
};

/* Runs it until it, and all that it has started, has ended. */
struct explore_ended explore_execute(const struct explore_task *task,
                                     const struct interrupt *held);

/* ---- judge.c ---- */

enum explore_kind {
    EXPLORE_STATUS_IS, /* number: the exit status */
    EXPLORE_SIGNALLED, /* number: the signal */
    EXPLORE_DEADLOCK,
    EXPLORE_ABORTED, /* its exit status is 0, but a rank did not come to MPI_Finalize */
    EXPLORE_LONG,
    EXPLORE_CHECK_FAILS,
    EXPLORE_CHECK_PASSES
};

/* How a run, or a replay, ended. */
struct explore_result {
    enum explore_kind kind;
    int number;
    bool is_other_output; /* other than in run 1 */
};

enum explore_replay {
    EXPLORE_NOT_REPLAYED,
    EXPLORE_REPEATS,
    EXPLORE_REPEATS_NOT,
    EXPLORE_REPLAY_REFUSED
};

/* A receive or probe of a run could have taken another message. */
struct explore_alternative {
    uint64_t run, event;       /* event: of rank */
    uint32_t rank, from;       /* from: the sender of the other message */
    uint32_t taken;            /* the sender of the message that it took */
    uint32_t receive, message; /* of the job that the traces of the run make */
    int32_t source, tag;       /* of the other message, as MPI_Recv returns them */
    uint32_t group;            /* of races_groups */
    bool is_first, is_last;    /* of its group in its run */
    bool is_done;              /* it was tried, or has occurred */
    bool is_repeated;          /* the same match was forced in another order */
    bool is_wanted;            /* it tries a failed order with fewer forced matches */
};

struct explore_alternatives {
    struct explore_alternative *all;
    size_t count;
    uint32_t slots;
    uint64_t known; /* also those for which there was no space */
};

struct explore_run {
    struct explore_result result, replayed;
    enum explore_replay replay;
    uint64_t ns, hash;
    uint32_t
        order; /* the number of its order, in the sequence of their discovery; 0: it has no record */
    uint32_t replays, repeated; /* how many replays there were, and how many were alike */
    bool is_forced, is_missed;  /* is_missed: the forced match did not happen */
    struct explore_alternative forced;      /* last */
    struct explore_alternative *all_forced; /* also the earlier ones that are kept */
    uint32_t forced_count;
};

struct explore_search {
    const struct tool *tool;
    const struct explore_options *options;
    struct interrupt held;
    struct explore_run *runs; /* of options->runs; run 1 is runs[0] */
    uint64_t count;           /* so many have ended */
    uint32_t ranks, orders;   /* of the job; different ones */
    uint64_t limit_ns;
    uint64_t end_ns; /* when no other run is to be started; UINT64_MAX: never */
    bool is_interrupted, is_exhausted; /* is_exhausted: no other order is known */
    bool is_unforceable;               /* what a run could have done otherwise is not known */
    char problem[RACES_PROBLEM];       /* why some of it is not known, or "" */
    struct explore_alternatives alternatives;
    struct races_groups groups; /* of all runs */
    struct races_run run;       /* the traces of run number `loaded`; 0: of none */
    uint64_t loaded;
};

/* Is it made in order to be compared, and does not force a match? */
static inline bool explore_is_shuffled(const struct explore_options *options, uint64_t n)
{
    return n <= options->shuffled;
}

/* Are there runs that force matches, so that the others are traced? */
static inline bool explore_is_traced(const struct explore_options *options)
{
    return options->shuffled < options->runs;
}

/* err: what it wrote to standard error. */
struct explore_result explore_result_of(const struct explore_ended *ended, const char *err);
bool explore_is_same(const struct explore_result *a, const struct explore_result *b);

/* Is there something to say of run number n: does it end in another way than run 1, or is it run 1 and fails? */
bool explore_is_told(const struct explore_search *s, uint64_t n);

/* "deadlock", "exit status 1"; with a count "2 deadlock", "1 exits with status 1".  Returns text. */
const char *explore_result_text(const struct explore_result *result, char text[96]);
const char *explore_count_text(const struct explore_result *result, uint64_t count,
                               char text[96]);

/* Finds the order of run number n among those before.  True: it is a new one. */
bool explore_find_order(struct explore_search *s, uint64_t n);

/* Has each rank that has a record closed it? */
bool explore_is_complete(const struct explore_search *s, uint64_t n);

/* Can matches be forced that follow from run n?  Not if a rank's record lacks events. */
bool explore_is_forceable(const struct explore_search *s, uint64_t n);

/* ---- alternatives.c ---- */

/* Adds the alternatives of run number n. */
void explore_add_alternatives(struct explore_search *s, uint64_t n);

/* The one that is to be tried next; NULL: there is none. */
struct explore_alternative *explore_choose(struct explore_search *s);

void explore_note_tried(struct explore_search *s, const struct explore_alternative *tried);

/* How many were not tried. */
uint64_t explore_untried(const struct explore_search *s);

/* Run number n fails.  If it has several forced matches, those alternatives come next that leave one of them out. */
void explore_want_fewer(struct explore_search *s, uint64_t n);

/* The run that ends as run number n does and forces the fewest of its matches, and no others; 0: none forces fewer. */
uint64_t explore_find_fewer(const struct explore_search *s, uint64_t n);

/* Some orders are not known for want of memory: the search is not complete. */
void explore_lacks_memory(struct explore_search *s);

/* ---- cut.c ---- */

struct explore_cut;

/* The traces of run number n; NULL after saying that there is no memory. */
struct races_run *explore_load(struct explore_search *s, uint64_t n);
void explore_unload(struct explore_search *s);

/* Makes the cut before an alternative.  NULL: there is none. */
struct explore_cut *explore_cut_make(struct explore_search *s,
                                     const struct explore_alternative *forced);
void explore_cut_free(struct explore_cut *cut);

/* The number of a run whose order begins so; or 0. */
uint64_t explore_cut_met(const struct explore_cut *cut);

/* Writes the records with which run number n begins.  False after saying why not. */
bool explore_cut_write(const struct explore_cut *cut, uint64_t n);

/* The forced matches are kept in the run. */
void explore_cut_give(struct explore_cut *cut, struct explore_run *to);

/* Has the receive taken the message in run number n? */
bool explore_was_forced(const struct explore_search *s, uint64_t n);

/* ---- lines.c ---- */

/* Is the output in two files other?  ours, theirs: the first line of the one that the other has not, or "".  line: its number,
 * if the order of lines counts.  0; a negative errno. */
int explore_compare_output(enum explore_output how, const char *first, const char *second,
                           bool *is_other, char ours[EXPLORE_LINE_SIZE],
                           char theirs[EXPLORE_LINE_SIZE], size_t *line);

/* The first line of a file that is not empty, or "". */
void explore_first_line(const char *path, char line[EXPLORE_LINE_SIZE]);

bool explore_has_text(const char *path, const char *text);

/* ---- folder.c ---- */

/* Makes DIR, or empties it.  False after saying why not. */
bool explore_open_folder(const struct tool *tool, const struct explore_options *options);

/* Removes what was made there: nothing was run. */
void explore_remove_folder(const struct explore_options *options);

/* DIR/order-N, and a file there.  Returns path. */
const char *explore_path(const struct explore_options *options, uint64_t n, const char *name,
                         char path[EXPLORE_PATH]);

/* Makes DIR/order-N.  False after saying why not. */
bool explore_make_order(const struct tool *tool, const struct explore_options *options,
                        uint64_t n);

/* The report of a deadlock is in the error output of the run; removes what is the same in files of the working folder. */
void explore_remove_hang_files(const char *err);

/* ---- runs.c ---- */

/* Run number n, with its record.  False after saying why nothing more can be run. */
bool explore_run(struct explore_search *s, uint64_t n);

/* Its replay, and whether it ends as the run did. */
bool explore_replay(struct explore_search *s, uint64_t n);

/* ---- report.c ---- */

void explore_report(const struct explore_search *s);

#endif
