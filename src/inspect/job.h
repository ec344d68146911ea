/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.h - the ranks of a job as an observer has seen them.
 */
#ifndef INSPECT_JOB_H
#define INSPECT_JOB_H

#include "inspect/mpi.h"
#include "inspect/page.h"

/* How an observer has got its view of a rank. */
enum inspect_how {
    INSPECT_ASKED,  /* the rank has answered: exact */
    INSPECT_READ,   /* it makes no progress, and its memory was read: exact */
    INSPECT_MOVING, /* its memory was read while it changed: not exact */
    INSPECT_CORE,   /* its memory was read out of a core file: exact */
    INSPECT_FAILED  /* the rank exists; nothing else is known */
};

#define INSPECT_HOST_TEXT     64
#define INSPECT_REPORTED_TEXT 160
#define INSPECT_PROGRAM_TEXT  64

/* Facts of a rank that only its host knows, from the observer there.  Empty: none. */
struct inspect_reported {
    char host[INSPECT_HOST_TEXT];      /* its name */
    char line[INSPECT_REPORTED_TEXT];  /* the line of the program at which the rank is in its
                                          call */
    char does[INSPECT_REPORTED_TEXT];  /* while it makes no progress: "computes" */
    char apart[INSPECT_REPORTED_TEXT]; /* why it cannot read the memory of its peers */
    uint32_t cores;                    /* of that host; 0: not known */
};

enum inspect_task_kind {
    INSPECT_TASK_BUSY,       /* it may go on by itself, or it is not known */
    INSPECT_TASK_OF_LIBRARY, /* of Open MPI, PMIx, Matchbox, ...: it communicates for no program */
    INSPECT_TASK_SLEEPS, /* without a time limit, on a word of the private memory of its process:
                            only a thread of this process wakes it */
    INSPECT_TASK_IN_MPI  /* likewise, and it may be in a call of MPI */
};

#define INSPECT_TASKS     1024u /* of a process, at most */
#define INSPECT_TASK_TEXT 64

/* Task: a thread of a rank's process as its host sees it from outside */
struct inspect_task {
    uint32_t id; /* the kernel's number */
    enum inspect_task_kind kind;
    uint64_t started;             /* with id it names the thread: numbers are reused */
    uint64_t ran_ns;              /* its processor time, plus how often it has run */
    uint64_t word;                /* SLEEPS: the address that it sleeps on */
    char does[INSPECT_TASK_TEXT]; /* "sleeps (clock_nanosleep)" */
};

struct inspect_rank {
    struct inspect_head head;
    uint64_t
        host; /* host_id() of its host; 0: the observer's host, if only that one is looked at */
    uint32_t
        owner; /* 1 + the number of the user whose process it is; 0: the observer's, or not known */
    struct inspect_reported *reported; /* NULL: the observer is on its host */
    struct inspect_state state;
    uint64_t checks;
    enum inspect_how how;
    uint32_t part; /* in joined jobs, the job of the rank: 0 is the first one */
    char program[INSPECT_PROGRAM_TEXT]; /* the program; empty: not known */
    uint32_t started;                   /* its start, in s since 1970; 0: not known */
    char run; /* 'R' running, 'T' stopped, ...: from /proc/PID/stat; 0 not known */
    struct inspect_entry *entries; /* by kind, then by age */
    uint32_t count;
    char *text;                 /* as in its page, or NULL */
    struct inspect_task *tasks; /* with INSPECT_STATE_THREADS; NULL: not known */
    uint32_t task_count;
    const struct inspect_layout *layout;
};

struct inspect_job {
    struct inspect_rank *ranks; /* by rank */
    uint32_t count;
    uint32_t size; /* of the job; INSPECT_NOBODY: not known, or several jobs were joined */
};

/* Sorts by kind, then context id, then age. */
void inspect_sort(struct inspect_entry *entries, uint32_t count);

/* Marks the receives of a rank that are none of its program (INSPECT_ENTRY_INTERNAL). */
void inspect_mark_kept(struct inspect_rank *rank);

/* Through libucp receives and probes are from any source, and their tags name the rank in the communicator.  On
 * MPI_COMM_WORLD this is a rank of the job, and on its part of a node one of the host's.  Here the entry gets it. */
void inspect_resolve(struct inspect_job *job);

/* The index of the rank that an entry of job->ranks[at] names; INSPECT_NOBODY: any source, or a rank that was not seen. */
uint32_t inspect_whose(const struct inspect_job *job, uint32_t at,
                       const struct inspect_entry *entry);

/* Would this receive, of job->ranks[to], match that message, which `from` has sent or will
 * send?  Sources are compared by address, since each endpoint has its own peer numbers. */
bool inspect_accepts(const struct inspect_job *job, uint32_t to,
                     const struct inspect_entry *receive, uint32_t from,
                     const struct inspect_entry *message);

/* Has no message come or gone in a rank between two looks, and no operation begun or ended?  Neither may have failed. */
bool inspect_is_quiet(const struct inspect_rank *before, const struct inspect_rank *now);

/* And has it stayed in one call? */
bool inspect_is_still(const struct inspect_rank *before, const struct inspect_rank *now);

#endif
