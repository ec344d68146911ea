/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races.h - the parts of `mbx races`.
 *
 *   DIR: traces, records ── races_pair.c, races_read.c ──> a job ── races_order.c ──> alternatives ── races_group.c ──> groups
 *                                                                                           └── races_report.c: text, JSON
 */
#ifndef TOOLS_RACES_H
#define TOOLS_RACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "races_order.h"
#include "replay/replay.h"
#include "tools/trace/trace_job.h"

/* The exit status if there are races. */
#define RACES_FOUND        3

#define RACES_PROBLEM      640 /* a line */
#define RACES_PROBLEMS_MAX 100 /* more are not told */
#define RACES_TEXT         640

/* A receive or probe of the job has this in addition, and a message the next one. */
struct races_event {
    uint64_t number; /* in the record of its rank; 0: it is no event */
    struct replay_signature signature;
    int32_t source; /* of its message, as its communicator numbers ranks; -1: it has none */
    uint32_t place; /* index, or JOB_NOBODY */
};

struct races_send {
    uint32_t place; /* where it was sent: index, or JOB_NOBODY */
    bool is_empty;  /* it has no bytes */
};

struct races_run {
    const char *folder;
    struct job traces;
    struct races_job job; /* a rank is a trace */
    uint64_t **counts;    /* of each rank and operation: so many events its record had then */
    struct races_event *events; /* of each receive */
    struct races_send *sends;   /* of each message */
    uint64_t *comms; /* of each communicator of the job: generation << 32 | context id */
    size_t comm_count;
    uint64_t unchecked; /* receives from any source that are no events */
    char (*problems)[RACES_PROBLEM];
    size_t problem_count;
    bool lacks_memory; /* this is the last problem */
};

/* ---- races_read.c ---- */

/* Reads the traces and records of a folder.  0, also if there are problems; -ENOMEM.  Undone by races_run_free(). */
int races_read(struct races_run *run, const char *folder);
void races_run_free(struct races_run *run);

static inline size_t races_problems(const struct races_run *run)
{
    return run->problem_count + run->lacks_memory;
}

static inline const char *races_problem_at(const struct races_run *run, size_t i)
{
    return i < run->problem_count ? run->problems[i] : "no memory";
}

/* ---- races_group.c ---- */

/* Alternative: a message that a receive could have matched first, instead of the one that it took (`mbx races`) */
/* Calls of one line that ask for the same. */
struct races_site {
    char text[RACES_TEXT];      /* "receive at solve.c:88 (MPI_Irecv from any source, ...)" */
    uint64_t times;             /* calls that got a message */
    uint64_t races;             /* calls that have an alternative */
    uint32_t first_rank, ranks; /* ranks: how many have called it; at most two are told apart */
    uint64_t last_raced; /* while they are counted: the last receive with an alternative, + 1 */
    size_t first_group, group_count; /* of groups, after races_finish() */
};

/* Messages of two places, of which one was taken and the other could have come first. */
struct races_group {
    uint32_t site;
    char taken[RACES_TEXT / 2], other[RACES_TEXT / 2]; /* "tag 4, MPI_Send at setup.c:9" */
    uint64_t times, last; /* receives and probes; while they are counted: the last one, + 1 */
    uint64_t pairs, reversed; /* pairs of ranks; how many of them the mirrored group has */
    size_t site_order;        /* while they are sorted */
    bool is_empty;            /* all these messages have no bytes */
    /* the first one */
    uint32_t run, rank, taken_rank, other_rank;
    uint64_t event;        /* of rank */
    uint64_t other_number; /* the message is the n-th of other_rank's to rank */
};

/* An alternative, while a run is added. */
struct races_found {
    const struct races_run *run;
    uint32_t receive, message; /* that it could have taken */
    uint32_t group;            /* until races_finish() */
};

struct races_groups {
    /* is told each alternative, or NULL */
    void (*found)(void *arg, const struct races_found *found);
    void *arg;
    struct races_site *sites;
    struct races_group *groups;
    size_t site_count, group_count;
    uint32_t site_slots, group_slots;
    struct races_index *index;
    uint64_t undecided, unchecked;
};

/* Adds what is found in a run, whose number is this.  0, also if there are problems; -ENOMEM. */
int races_add(struct races_groups *groups, struct races_run *run, uint32_t number);

/* Finds which orders were seen so far. */
void races_see(struct races_groups *groups);

/* Call it when all runs are there: finds which orders were seen, and sorts the groups.  The groups of a site are together. */
void races_finish(struct races_groups *groups);
void races_groups_free(struct races_groups *groups);

/* Was the other order of none of its pairs of ranks seen? */
static inline bool races_is_never_seen(const struct races_group *group)
{
    return group->reversed == 0;
}

/* ---- races_report.c ---- */

/* Something is missing or wrong.  False: no memory. */
bool races_problem(struct races_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct races_report {
    const struct races_groups *groups;
    const struct races_run *problems; /* of all runs */
    char *const *folders;
    size_t folder_count;
    bool shows_all;
};

void races_print(const struct races_report *report);
void races_print_json(const struct races_report *report);
/* To standard error: "matchbox: 2 receives could have matched differently (1 in an order that was never seen): mbx races run" */
void races_print_line(const struct races_report *report, const char *folder);

#endif
