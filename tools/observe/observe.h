/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - the endpoints of this user on this host, found, asked, and read; or those of core files.
 */
#ifndef TOOLS_OBSERVE_H
#define TOOLS_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/job.h"

struct observe_options {
    uint64_t job;       /* of this job alone; 0: of all */
    const char *called; /* what --job says, until it is known which job that is; or NULL */
    uint32_t rank;      /* of this rank alone; INSPECT_NOBODY: of all */
    uint64_t wait_ns;   /* so long a rank has time to answer */
    bool all_users;     /* also processes that are not this user's, if it may look into them */
};

#define OBSERVE_REFUSED 192

/* A host that was asked from this one (hosts.h). */
struct observed_host {
    char name[INSPECT_HOST_TEXT]; /* its own; of one that has not answered, how it was called */
    uint64_t id;                  /* host_id() */
    bool has_answered;
    char library[16]; /* the version of its mbx */
    uint32_t cores;
    uint32_t refused;          /* as below, there */
    char why[OBSERVE_REFUSED]; /* it has not answered, or has refused some */
    char *others;              /* its lines of outside_say_others(); or NULL */
};

struct observed {
    struct inspect_job *jobs;
    uint32_t count;
    uint32_t
        refused; /* endpoints that were not read: of another version of Matchbox, or damaged */
    char why[OBSERVE_REFUSED];   /* of the last one */
    struct observed_host *hosts; /* none: this one was looked at */
    uint32_t host_count;
};

/* Do these ranks belong to one job?  Numbers of jobs are no secret: processes of two users never do. */
bool observed_is_one_job(const struct inspect_rank *a, const struct inspect_rank *b);

/* Sorts ranks into the jobs of out, which owns them then, with what they refer to. 0; -ENOMEM, and they are the caller's. */
int observed_sort(struct inspect_rank *ranks, uint32_t count, struct observed *out);

/* Makes one job of those whose ranks wait for each other: a job and those that it has spawned, or has accepted.  0; -ENOMEM. */
int observed_join(struct observed *observed);

/* 0; -ENOMEM, or why /proc cannot be read.  Undone by observe_free(). */
int observe(const struct observe_options *options, struct observed *out);

#define OBSERVE_WHY 4608

/* The endpoints in these core files, of which several may be of one job.  0; a negative errno, and in why which file it
 * is, and what is wrong with it.  Undone by observe_free() in any case. */
int observe_cores(const struct observe_options *options, const char *const *paths,
                  uint32_t count, struct observed *out, char why[OBSERVE_WHY]);
void observe_free(struct observed *observed);

/* Endpoints that are found once, and asked again and again. */
struct observer;

/* 0; -ENOMEM, or why /proc cannot be read.  Undone by observer_close(). */
int observer_open(const struct observe_options *options, struct observer **out);

/* What each of them answers within options->wait_ns.  One that does not answer is INSPECT_FAILED, and nothing of it is read.  All calls
 * give the same endpoints in the same order, also those that have closed since (`run` is 0).  0; -ENOMEM.  Undone by
 * observe_free(). */
int observer_ask(struct observer *observer, struct observed *out);

/* NULL is allowed. */
void observer_close(struct observer *observer);

/* The endpoints of this host alone, each INSPECT_FAILED: nothing of them is read, and nobody is asked.  As observe(). */
int observe_find(const struct observe_options *options, struct observed *out);

/* Leaves the job of this number alone; 0: none. */
void observed_keep(struct observed *observed, uint64_t number);

/* What to add when no job was found: root may have looked for one of another user.  May be empty. */
const char *observe_hint(const struct observe_options *options);

struct tool;

/* ---- job_choose.c ---- */

/* What an option --job says. */
void observe_take_job(struct observe_options *options, const char *text);

/* As observed_choose(), among the jobs of this host. */
int observe_choose(const struct tool *tool, struct observe_options *options);

/* If options->called is not NULL: which of these jobs it means.  The others are taken out, and options->job is the number of
 * the one.  0; else the exit status, after saying that it is none, or naming those that it may be. */
int observed_choose(const struct tool *tool, struct observe_options *options,
                    struct observed *observed);

#endif
