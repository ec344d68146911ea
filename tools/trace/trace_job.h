/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_job.h - the traces of a job side by side: messages from one rank to another, and waits.
 *
 *   file of rank 0   send ... sent            the k-th message of one envelope that 0 sends to 1
 *                      \                      is the k-th of it that arrives at 1 from 0
 *   file of rank 1      arrive, post ... received
 *
 * Times are ns since the job's first event.  The hosts' clocks are aligned (trace_clock.c).
 */
#ifndef TOOLS_TRACE_JOB_H
#define TOOLS_TRACE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/trace.h"
#include "trace_words.h"

#define JOB_NOBODY UINT32_MAX
#define JOB_NEVER  UINT64_MAX

/* Where a program calls MPI, as its trace says it: `CALL ADDRESS FILE`. */
struct job_place {
    uint32_t rank, number;
    char text[1200];
};

/* The program came back to MPI there, after it had been away: by its first send or receive. */
struct job_come {
    uint32_t rank, place; /* place: its index */
    uint64_t time;
};

/* One file. */
struct job_rank {
    struct trace_info info;
    const char *path;
    char error[TRACE_ERROR_MAX]; /* "": the file is whole; or where it ends, and why */
    bool is_read;                /* its header was */
    bool is_flight;              /* its last events alone: its messages do not pair up */
    uint64_t events;
    uint64_t first, last; /* its first and last event */
    bool has_own_clock;   /* another one than the first file's */
    uint64_t slack;       /* it may be wrong by so much, against that; 0: no messages say so */
    uint64_t waited;      /* the sum of its waits */
    struct trace_words words;
};

struct job_message {
    uint32_t from,
        to; /* indices of ranks; JOB_NOBODY: of that side there is no trace, or not so far */
    uint32_t peer; /* the number that the side that is there has for the other one */
    uint32_t context_id;
    uint64_t tag, size;                          /* size: JOB_NEVER, not known */
    uint64_t n;                                  /* the n-th to that rank; 0: not known */
    uint64_t send, sent, arrive, post, received; /* JOB_NEVER: not seen */
    /* which events of their files these are */
    uint64_t send_event, sent_event, arrive_event, post_event, received_event;
    uint64_t order; /* of the half it came from */
    int error;
    int8_t protocol; /* enum mbx_protocol; -1: not known */
    bool is_unexpected;
};

enum job_wait_kind {
    WAIT_LATE_SENDER,
    WAIT_LATE_RECEIVER,
    WAIT_COLLECTIVE,
    WAIT_TRANSFER, /* both sides were there: the message was on its way */
    WAIT_UNKNOWN,
    WAIT_KINDS
};

struct job_wait {
    uint32_t rank;
    uint64_t from, to;
    bool is_open;       /* the trace ends in it */
    uint64_t end_event; /* of its file: that says that it is over */
    /* trace_waits.c: what it was for, and who could have ended it before */
    enum job_wait_kind kind;
    uint32_t guilty; /* the rank that it was for longest; or JOB_NOBODY */
    uint64_t late; /* of it, for so long: from its begin on, until somebody has done his part */
    uint32_t message; /* that ended it; or JOB_NOBODY */
    uint32_t place;   /* where it was; or JOB_NOBODY */
};

/* A part of a wait, and the rank that could have ended it before.  In a collective that is often not the
 * one whose message is awaited, but one that this one waits for. */
struct job_charge {
    uint32_t wait, guilty; /* guilty: a rank; or JOB_NOBODY, its trace is not there */
    uint64_t ns, until;    /* until: the guilty one has done his part then */
};

/* All charges of a rank of one kind against another one, of one operation. */
struct job_blame {
    uint32_t rank, guilty;
    enum job_wait_kind kind;
    uint32_t message;   /* one that was awaited */
    bool has_others;    /* also messages of other envelopes */
    uint64_t ns, times; /* times: waits */
    /* where the rank waited, and where the guilty one came back to MPI, in the longest part for
     * which that is known; or JOB_NOBODY */
    uint32_t place, came;
    uint64_t place_ns, came_ns;
};

/* A step of a message: for charts. */
struct job_step {
    uint32_t rank, message; /* JOB_NOBODY: of none */
    enum trace_type type;
    uint64_t time, amount;
    uint64_t event; /* of its file */
    uint64_t key;   /* used while the files are read: trace_reading.h */
};

/* How deep the queues of a rank are: the most of each slice of the job's time. */
#define JOB_SLICES 600

struct job_depths {
    uint32_t posted[JOB_SLICES], unexpected[JOB_SLICES];
};

struct job {
    struct job_rank *ranks;
    struct job_message *messages; /* by the time of their first event */
    struct job_wait *waits;       /* by rank, then time */
    struct job_step *steps;       /* by time */
    struct job_place *places;     /* by rank */
    struct job_come *comes;       /* by rank, then time */
    size_t place_count, come_count;
    struct job_charge *charges;
    struct job_blame *blames;  /* the longest first */
    struct job_depths *depths; /* of each rank */
    size_t rank_count, message_count, wait_count, step_count, charge_count, blame_count;
    uint64_t duration, events;
    uint32_t size; /* ranks that the job had; 0: not known */
    /* used while the files are read: trace_reading.h */
    const struct trace_info **infos;
    struct trace_ranks trace_ranks;
};

/* Reads files.  0, also if some of them are not whole or cannot be read (ranks[].error); -ENOMEM.
 * Undone by job_free(). */
int job_read(struct job *job, char **paths, size_t count);

/* As job_read(), for a caller that pairs messages itself: the job has its ranks and places, and no messages, waits or steps.  each
 * gets the other events: the number of an event in its file, from 1 on, and the rank of its source, or JOB_NOBODY.  It returns
 * false if there is no memory. */
typedef bool job_event_fn(void *arg, uint32_t rank, uint64_t number, uint32_t peer,
                          const struct trace_event *event);
int job_read_events(struct job *job, char **paths, size_t count, job_event_fn *each, void *arg);
void job_free(struct job *job);

/* "rank 3"; or "process 4711-0" where nobody said which rank it was. */
const char *job_rank_text(const struct job *job, uint32_t rank, char text[32]);

/* "MPI_COMM_WORLD tag 7", or "context 1 tag 7": the envelope of a message. */
const char *job_message_text(const struct job *job, const struct job_message *message,
                             char text[TRACE_ENVELOPE_TEXT]);

/* "MPI_COMM_WORLD", or "context 1"; and its tag in the program's words: of one that is not
 * known the lower 32 bits. */
#define JOB_COMMUNICATOR_TEXT 192
const char *job_message_communicator(const struct job *job, const struct job_message *message,
                                     char text[JOB_COMMUNICATOR_TEXT]);
uint32_t job_message_tag(const struct job *job, const struct job_message *message);

/* Is it of a collective?  Then its name, or "collective". */
const char *job_collective(const struct job *job, const struct job_message *message);

/* ---- trace_waits.c ---- */

/* Finds for each wait what it was for. */
int job_explain(struct job *job);

const char *job_wait_text(enum job_wait_kind kind);

/* "MPI_Recv at solve.c:212"; without the line, if it is not known.  NULL: there is no such
 * place. */
#define JOB_PLACE_TEXT 256
const char *job_place_text(const struct job *job, uint32_t place, char text[JOB_PLACE_TEXT]);

/* Tells the line that an address of a file belongs to, "solve.c:212", or NULL; words has
 * JOB_PLACE_TEXT bytes.  NULL, unless the command sets it (to source_line_in()). */
extern const char *(*job_line_of)(const char *path, uint64_t at, char *words);

/* Is it worth to be said: JOB_WORTH per cent of the rank's time? */
#define JOB_WORTH 2
bool job_is_worth(const struct job *job, const struct job_blame *blame);

/* "rank 0 waited 1.000 of 1.040 s for rank 1 (20 times): late sender, MPI_COMM_WORLD tag 7" */
#define JOB_BLAME_TEXT 1280
const char *job_blame_text(const struct job *job, const struct job_blame *blame,
                           char text[JOB_BLAME_TEXT]);

/* Prints who waited for whom; nothing if no rank waited. */
void job_print_waits(const struct job *job);

/* ---- trace_chart.c ---- */

/* Prints the first messages as a sequence chart, as SVG or as text of mermaid.  0; -ENOMEM;
 * -ENOENT: no message is in the traces of both its ranks, and nothing is printed. */
int job_print_chart(const struct job *job, bool is_svg, size_t messages);

/* ---- trace_html.c ---- */

/* Writes a page that needs nothing else.  0; or the error of the system. */
int job_write_html(const struct job *job, const char *path);

/* ---- trace_perfetto.c ---- */

/* Writes a trace of Perfetto.  0; or the error of the system. */
int job_write_perfetto(const struct job *job, const char *path);

#endif
