/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - finds, asks and reads the endpoints of this user on this host, or of core files.
 */
#ifndef TOOLS_OBSERVE_H
#define TOOLS_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/job.h"

struct observe_options {
    uint64_t job;       /* only this job; 0: all */
    const char *called; /* the text of --job, until the job is known; or NULL */
    uint32_t rank;      /* only this rank; INSPECT_NOBODY: all */
    uint64_t wait_ns;   /* time that a rank has to answer */
    bool tasks;         /* also read the threads of ranks that may have several (tasks.h) */
    bool all_users;     /* also processes of other users, if permitted */
};

#define OBSERVE_REFUSED 192

/* A host that this host has asked (hosts.h). */
struct observed_host {
    char name[INSPECT_HOST_TEXT]; /* its own name; the user's if it has not answered */
    uint64_t id;                  /* host_id() */
    bool has_answered;
    char library[16]; /* the version of its mbx */
    uint32_t cores;
    uint32_t refused;          /* as below, on that host */
    char why[OBSERVE_REFUSED]; /* why it has not answered, or has refused some */
    char *others;              /* its lines from outside_say_others(); or NULL */
};

struct observed {
    struct inspect_job *jobs;
    uint32_t count;
    uint32_t
        refused; /* endpoints that were not read: of another version of Matchbox, or damaged */
    char why[OBSERVE_REFUSED];   /* the reason for the last one */
    struct observed_host *hosts; /* none: this host was inspected */
    uint32_t host_count;
};

/* Do these ranks belong to one job?  Numbers of jobs are not secret: processes of two users
 * never do. */
bool observed_is_one_job(const struct inspect_rank *a, const struct inspect_rank *b);

/* Sorts ranks into the jobs of out, which then owns them and everything that they refer to.  0;
 * -ENOMEM: the caller still owns them. */
int observed_sort(struct inspect_rank *ranks, uint32_t count, struct observed *out);

/* Joins jobs whose ranks wait for each other: a job and the jobs that it has spawned, or
 * has accepted.  0; -ENOMEM. */
int observed_join(struct observed *observed);

/* 0; -ENOMEM, or the reason why /proc cannot be read.  Undone by observe_free(). */
int observe(const struct observe_options *options, struct observed *out);

#define OBSERVE_WHY 4608

/* The endpoints in these core files, several of which may belong to one job.  0; a negative
 * errno, and in why the file and its fault.  Undone by observe_free() in any case. */
int observe_cores(const struct observe_options *options, const char *const *paths,
                  uint32_t count, struct observed *out, char why[OBSERVE_WHY]);
void observe_free(struct observed *observed);

/* Frees what a rank points to. */
void observed_free_rank(struct inspect_rank *rank);

/* Endpoints that are found once, and asked repeatedly. */
struct observer;

/* Finds the endpoints of ranks, without further ones.  0; -ENOMEM, or the reason why /proc cannot be read.  Undone by
 * observer_close(). */
int observer_open(const struct observe_options *options, struct observer **out);

/* Asks each endpoint for an answer within options->wait_ns.  One that does not answer is
 * INSPECT_FAILED, and its memory is not read.  All calls give the same endpoints in the same
 * order, including closed ones (`run` is 0).  0; -ENOMEM.  Undone by
 * observe_free(). */
int observer_ask(struct observer *observer, struct observed *out);

/* NULL is allowed. */
void observer_close(struct observer *observer);

/* Finds the endpoints of this host without asking or reading them: each is INSPECT_FAILED.
 * Otherwise as observe(). */
int observe_find(const struct observe_options *options, struct observed *out);

/* A process may have several endpoints, of which only one carries the messages of MPI.  Is the endpoint of `rank` such
 * a further one, because `other` is of the same process and carries them? */
bool observed_has_more(const struct inspect_rank *rank, const struct inspect_rank *other);

/* Is job->ranks[at] a further endpoint of a rank?  It does not change what a call of MPI waits for. */
bool observed_is_other(const struct inspect_job *job, uint32_t at);

/* The number of ranks, without their further endpoints. */
uint32_t observed_ranks(const struct inspect_job *job);

/* Removes the further endpoints.  0; -ENOMEM, and all are kept. */
int observed_keep_matching(struct observed *observed);

/* Removes all jobs except the one with this number; 0: removes none. */
void observed_keep(struct observed *observed, uint64_t number);

/* A hint for the case that no job was found: root may have wanted another user's.  May be
 * empty. */
const char *observe_hint(const struct observe_options *options);

struct tool;

/* ---- job_choose.c ---- */

/* Stores the text of an option --job. */
void observe_take_job(struct observe_options *options, const char *text);

/* As observed_choose(), among the jobs of this host. */
int observe_choose(const struct tool *tool, struct observe_options *options);

/* If options->called is not NULL: removes all jobs except the one that it means, and sets
 * options->job to its number.  0; otherwise the exit status, after an error message with the
 * jobs that it may mean. */
int observed_choose(const struct tool *tool, struct observe_options *options,
                    struct observed *observed);

#endif
