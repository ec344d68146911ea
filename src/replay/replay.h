/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.h - the order of a job: what each rank's calls returned that could have returned something else.
 *
 *   order.c (src/pml)  ── event ──>  write.c ──> DIR/rank-R.mbxrec ──> read.c ──>  judge.c  ──> order.c
 *                                       ├── code.c: items <-> bytes ──┤             └── words.c: texts
 *                                       └── places.c: lines of code ──┘
 *
 * lane.c is what src/pml and src/native do alike with one sequence of events.
 *
 * An event is a call of the program whose result depends on time; its signature is what the program asked for, its outcome
 * the part of the result that is recorded (docs/same-answer.md).  The files are described in format.h.
 *
 * Threads    one at a time for each writer and each reader
 * Errors     negative errno; a reader has a text that says what is wrong with a file
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Stands for MPI_ANY_SOURCE and MPI_ANY_TAG, whatever these are in an MPI. */
#define REPLAY_ANY INT32_MIN

/* More requests than this are not told apart. */
#define REPLAY_REQUESTS_MAX 15u

#define REPLAY_TEXT         256

/* The folder of a job that was spawned, with its number, in the folder of the job that was started. */
#define REPLAY_SPAWNED "spawn-"

/* The folder of the events of one communicator, with MPI_THREAD_MULTIPLE. */
#define REPLAY_COMM "comm-"

/* The folder of the events of one endpoint, from the second one on, of a program that calls matchbox.h itself. */
#define REPLAY_ENDPOINT "ep-"

/* Is it the name of such a folder: "spawn-2", "comm-5", "ep-2"? */
bool replay_is_part(const char *name);

/* Is it the folder of a communicator or endpoint? */
bool replay_is_sequence(const char *name);

/* Instead of a version of MPI: the program calls matchbox.h itself. */
#define REPLAY_NATIVE      UINT64_C(0x6d61746368626f78)

#define REPLAY_NOT_COUNTED UINT64_MAX

enum replay_kind {
    REPLAY_RECV = 1,
    REPLAY_IRECV,
    REPLAY_START,
    REPLAY_IPROBE,
    REPLAY_IMPROBE,
    REPLAY_PROBE,
    REPLAY_MPROBE,
    REPLAY_TEST,
    REPLAY_TESTALL,
    REPLAY_TESTANY,
    REPLAY_WAITANY,
    REPLAY_TESTSOME,
    REPLAY_WAITSOME,
    /* Not an event by itself: one of the requests that the Testsome or Waitsome before it has completed.  With a tag that is not
     * 0, the upper half of the tag of the message that the probe of matchbox.h before it has found. */
    REPLAY_INDEX,
    REPLAY_GET_STATUS,
    REPLAY_CHOICE, /* mbx_choice(): source << 32 | tag is its site */
    /* of matchbox.h: comm is the context id, and requests is not 0 if the tag is more than source and tag say */
    REPLAY_MBX_RECV,
    REPLAY_MBX_TRY_RECV,
    REPLAY_MBX_PROBE,
    REPLAY_MBX_MPROBE,
    REPLAY_MBX_RECV_TAG, /* the upper half of the tag of the receive before it: not an event by itself */
    REPLAY_MBX_TEST,
    REPLAY_MBX_WAIT,
    REPLAY_MBX_WAIT_ALL,
    REPLAY_MBX_WAIT_SOME,
    REPLAY_MBX_WAIT_ANY,
    REPLAY_MBX_POLL, /* tag: the queues */
    REPLAY_MBX_CANCEL,
    REPLAY_MBX_CALL, /* its result is a number; tag: enum replay_call */
    REPLAY_KINDS
};

enum replay_result {
    REPLAY_OPEN,      /* a receive that has met no message */
    REPLAY_FALSE,     /* a test or probe that found nothing */
    REPLAY_TRUE,      /* a test of one, or of all */
    REPLAY_NONE,      /* no request was active */
    REPLAY_AT,        /* value: the index; of Testsome and Waitsome, how many follow */
    REPLAY_MESSAGE,   /* value: source << 32 | tag */
    REPLAY_CANCELLED, /* a receive, in time */
    REPLAY_FAILED,    /* it ended by an error: a process has failed */
    REPLAY_VALUE,     /* value: what the program has chosen, or a number */
    REPLAY_ERROR,     /* value: a positive errno */
    REPLAY_RESULTS
};

enum replay_call {
    REPLAY_PROGRESS,
    REPLAY_READY,
    REPLAY_IDLE,
    REPLAY_WAIT_QUEUES,
    REPLAY_SLEEP,
    REPLAY_TRY_SEND,
    REPLAY_SEND_AT_ONCE,
    REPLAY_CLOSE, /* 1: all sends were complete */
    REPLAY_CALLS
};

enum replay_flags {
    REPLAY_COMPLETE = 1 << 0, /* the rank has closed its record */
    REPLAY_CUT = 1 << 1,      /* nothing could be written any more */
    REPLAY_THREADS = 1 << 2,  /* a second thread has made events, which are not here */
    REPLAY_UNSEEN = 1 << 3,   /* a call had a result that is not here */
    REPLAY_BEGINNING =
        1 << 4, /* mbx explore has made it: an open receive is posted as the program asks */
    REPLAY_SINGLE = 1 << 5 /* the events of all communicators are here, as mbx races needs */
};

/* The class of the size of a message that is not known: no message has it. */
#define REPLAY_SIZE_UNKNOWN 15u

struct replay_signature {
    uint64_t
        comm; /* which of the communicators that this rank has used so: 1, 2, ...; 0: none */
    int32_t source, tag; /* or REPLAY_ANY */
    uint8_t kind, requests;
    uint16_t
        place; /* in the program, from 1 on; 0: not known.  Two runs are not compared by it */
};

/* A record has so many bits of the number of a communicator. */
#define REPLAY_COMM_MASK ((UINT64_C(1) << 19) - 1)

/* Do both ask for the same, from wherever in the program? */
static inline bool replay_is_alike(const struct replay_signature *a,
                                   const struct replay_signature *b)
{
    return a->kind == b->kind && ((a->comm ^ b->comm) & REPLAY_COMM_MASK) == 0 &&
           a->source == b->source && a->tag == b->tag && a->requests == b->requests;
}

/* Outcome: the part of an event's result that is recorded */
struct replay_outcome {
    uint64_t value;
    uint8_t result, size_class;
};

/* Glossary: event (of a record) - a call whose result depends on time, or on the order of messages */
/* Glossary: order - all events of a job, in the order of each rank's calls (`mbx order`) */
struct replay_event {
    struct replay_signature signature;
    struct replay_outcome outcome;
    uint64_t times;  /* in a row */
    uint64_t number; /* of the first of them, from 1 on */
};

/* The process that records. */
struct replay_job {
    uint32_t rank, size, pid, threads;
    uint64_t wall_ns, arguments, mpi; /* when it began; hashes */
    unsigned char build[20];          /* of the program; all 0: it has none */
    /* not in the record */
    bool sees_get_status; /* MPI_Request_get_status is recorded */
    bool is_part;   /* a part of a rank's record: warnings about the program are said already */
    bool is_native; /* the program calls matchbox.h itself */
};

static inline bool replay_is_receive(uint8_t kind)
{
    return (kind >= REPLAY_RECV && kind <= REPLAY_START) || kind == REPLAY_MBX_RECV ||
           kind == REPLAY_MBX_RECV_TAG;
}

/* Does it only tell more of the event before it? */
static inline bool replay_is_detail(uint8_t kind)
{
    return kind == REPLAY_INDEX || kind == REPLAY_MBX_RECV_TAG;
}

static inline struct replay_outcome replay_message(int32_t source, int32_t tag, size_t size)
{
    uint8_t size_class = 0;

    for (; size > 0; size /= 64)
        size_class++;
    return (struct replay_outcome){.value = (uint64_t)(uint32_t)source << 32 | (uint32_t)tag,
                                   .result = REPLAY_MESSAGE,
                                   .size_class = size_class};
}

static inline int32_t replay_source(const struct replay_outcome *outcome)
{
    return (int32_t)(uint32_t)(outcome->value >> 32);
}

static inline int32_t replay_tag(const struct replay_outcome *outcome)
{
    return (int32_t)(uint32_t)outcome->value;
}

/* Identifies this process: its program's build id, and a hash of its arguments. */
void replay_identify(struct replay_job *job);

/* Names of calls that the objects of this process, without MPI's or the library's own, call and whose results are not
 * recorded: "MPI_Request_get_status, MPI_Accumulate", or "". */
void replay_unseen_calls(const struct replay_job *job, char *text, size_t size);

/* ---- write.c ---- */

struct replay_writer;

/* Makes the record of a rank in a folder, which is also made if it is not there.  0; or a negative errno after a line that
 * says why not, -EEXIST it has one.  Rank 0 warns of calls that the program can make and that are not recorded. */
int replay_write_open(const char *folder, const struct replay_job *job,
                      struct replay_writer **out);

/* Where the program has called MPI: for the signature of an event.  For the thread that makes events; others may write at the
 * same time. */
uint16_t replay_write_place(struct replay_writer *w);

/* The end of a record.  A test or probe that finds nothing, as the last event did, is that event once more. */
struct replay_tail {
    uint64_t *
        word; /* of the last event in the file's mapping, if it found nothing; NULL: it is another one */
    uint64_t events;
    struct replay_signature is; /* of the last event */
};

/* Added to the word when the event happens once more.  From REPLAY_OFTEN on there is no space for more. */
#define REPLAY_ONCE  (UINT64_C(1) << 28)
#define REPLAY_OFTEN (UINT64_MAX - REPLAY_ONCE)

/* Until replay_write_close(). */
struct replay_tail *replay_write_tail(struct replay_writer *w);

static inline bool replay_tail_repeat(struct replay_tail *tail)
{
    uint64_t word = *tail->word;

    if (word > REPLAY_OFTEN)
        return false;
    /* whoever reads the file after a kill finds the old or the new word */
    atomic_store_explicit((_Atomic uint64_t *)tail->word, word + REPLAY_ONCE,
                          memory_order_release);
    tail->events++;
    return true;
}

/* Records a test of one request that found nothing, if the last event was one.  False: nothing is recorded. */
static inline bool replay_test_again(struct replay_tail *tail)
{
    return tail->word != NULL && tail->is.kind == REPLAY_TEST && replay_tail_repeat(tail);
}

/* Records a test or probe that found nothing, if the last event was one and asked for the same.  It is then one event that
 * happens once more, and needs no place.  False: nothing is recorded. */
bool replay_write_again(struct replay_writer *w, const struct replay_signature *signature);

/* Writes an event.  The outcome of a receive is open: replay_write_post() returns its number, for replay_write_fill().  A detail of it
 * (replay_is_detail()) has a number as well, and is no event. */
void replay_write_event(struct replay_writer *w, const struct replay_signature *signature,
                        const struct replay_outcome *outcome);
uint64_t replay_write_post(struct replay_writer *w, const struct replay_signature *signature);
uint64_t replay_write_post_detail(struct replay_writer *w,
                                  const struct replay_signature *signature);
void replay_write_fill(struct replay_writer *w, uint64_t number,
                       const struct replay_outcome *outcome);

/* The program's receive of this number, without wildcards, was cancelled in time. */
void replay_write_cancelled(struct replay_writer *w, uint64_t receive);

void replay_write_flag(struct replay_writer *w, enum replay_flags flag);

/* Events so far. */
uint64_t replay_write_events(const struct replay_writer *w);

/* The record is complete, or, with REPLAY_BEGINNING, ends here.  NULL is allowed.  0; a negative errno if some of it could not be
 * written, which a line has said unless REPLAY_BEGINNING is set. */
int replay_write_close(struct replay_writer *w);

/* ---- read.c ---- */

struct replay_reader;

/* Reads and checks a rank's record.  0; -ENOENT there is none; -EBADMSG or another errno, with what is wrong in error. */
int replay_read_open(const char *folder, uint32_t rank, struct replay_reader **out, char *error,
                     size_t error_size);

const struct replay_job *replay_read_job(const struct replay_reader *r);
unsigned replay_read_flags(const struct replay_reader *r);

/* How many events it has; events after damage are not counted. */
uint64_t replay_read_events(const struct replay_reader *r);

/* Says what is damaged, or "". */
const char *replay_read_damage(const struct replay_reader *r);

/* The next one; false at the end. */
bool replay_read_next(struct replay_reader *r, struct replay_event *event);

/* Was this exact receive of the program cancelled in time? */
bool replay_read_is_cancelled(const struct replay_reader *r, uint64_t receive);

/* The n-th of these receives, from 0 on; 0: there are no more. */
uint64_t replay_read_cancelled(const struct replay_reader *r, size_t n);

/* The file that has a place, and the address in it as its symbols count; NULL: not known. */
const char *replay_read_place(const struct replay_reader *r, uint16_t place, uint64_t *at);

/* Says why places are not known, or "". */
const char *replay_read_unplaced(const struct replay_reader *r);

void replay_read_close(struct replay_reader *r);

/* ---- judge.c ---- */

enum replay_verdict {
    REPLAY_AGREES,  /* with the outcome that is to come */
    REPLAY_OVER,    /* the record was cut short here: the rank continues freely */
    REPLAY_DIFFERS, /* replay_judge_say() tells */
};

/* Withheld: a receive that a replay does not post, because no message came for it in the record */
/* Glossary: divergence - the call at which a replayed program differs from its record */
struct replay_judge;

/* Is in what a rank prints whose record cannot be replayed. */
#define REPLAY_REFUSAL "this record cannot be replayed"

/* Opens a rank's record for a job of so many ranks.  0; or a negative errno after a line that says why not. */
int replay_judge_open(const char *folder, const struct replay_job *job,
                      struct replay_judge **out);

/* The next event of the program is this one. */
enum replay_verdict replay_judge(struct replay_judge *j, const struct replay_signature *now,
                                 struct replay_outcome *out);

/* The outcome that was given last cannot be: why, in a few words. */
void replay_judge_refuse(struct replay_judge *j, const char *why);

/* Has a record that was cut short no event any more? */
bool replay_judge_is_over(const struct replay_judge *j);

/* Is it a record that was cut short? */
bool replay_judge_is_cut(const struct replay_judge *j);

/* Is it only the beginning of an order, after which the rank continues freely (REPLAY_BEGINNING)? */
bool replay_judge_is_beginning(const struct replay_judge *j);

/* Has it the events of all communicators (REPLAY_SINGLE)? */
bool replay_judge_is_single(const struct replay_judge *j);

bool replay_judge_is_cancelled(const struct replay_judge *j, uint64_t receive);

/* The line of a program, as source_line_in() has it (base/source_line.h): whoever can load libdw sets this. */
extern const char *(*replay_line_of)(const char *path, uint64_t at, char *words);

/* Lines that say where and how the program differs.  now: the call that it makes, NULL: its end; comm: the name of its
 * communicator, or NULL; goes_on: the rank continues freely. */
void replay_judge_say(const struct replay_judge *j, const struct replay_signature *now,
                      const char *comm, bool goes_on);

/* The program ends.  False, after saying so, if the record has more events.  held: how many outcomes were held back, or
 * REPLAY_NOT_COUNTED. */
bool replay_judge_ends(const struct replay_judge *j, uint64_t held, bool goes_on);

void replay_judge_close(struct replay_judge *j);

/* ---- lane.c ---- */

/* The exit status of a rank, or job, that diverged. */
#define REPLAY_STATUS_DIVERGED 87

struct replay_lane;

/* The difference between programs of MPI and others. */
struct replay_user {
    /* The rank continues freely: posts the receives that were withheld. */
    void (*go_free)(struct replay_lane *lane);
    void (*end_job)(void); /* after a divergence; does not return */
    const char *failed;    /* why an event with the result REPLAY_FAILED cannot be replayed */
    bool goes_on;          /* after a divergence */
};

/* One sequence of events: of a rank, a communicator or an endpoint.  All zero: nothing is recorded or replayed. */
struct replay_lane {
    struct replay_writer *writer; /* or NULL */
    struct replay_judge *judge;   /* or NULL */
    pthread_mutex_t *lock;        /* of the writer; NULL: one thread uses it */
    const struct replay_user *user;
    bool is_free; /* the record has ended, or the program has diverged */
};

/* The folder that a variable names, or NULL. */
const char *replay_folder(const char *variable);

/* Opens the record in record_to, and the replay of replay_from; each may be NULL.  0; or a negative errno after a line that
 * says why there is no replay.  Without a record the job goes on. */
int replay_lane_open(struct replay_lane *lane, const char *record_to, const char *replay_from,
                     const struct replay_job *job);

/* As replay_judge_ends(), unless the lane is free; then closes both. */
bool replay_lane_close(struct replay_lane *lane, uint64_t held);

/* Is it replayed, and has it neither diverged nor reached the end of its record? */
static inline bool replay_lane_is_replaying(const struct replay_lane *lane)
{
    return unlikely(lane->judge != NULL) && !lane->is_free;
}

/* An event has this outcome.  Nothing if nothing is recorded, as the following three. */
void replay_lane_record(struct replay_lane *lane, const struct replay_signature *signature,
                        struct replay_outcome outcome);

/* The number of a receive that is open now; 0: nothing is recorded. */
uint64_t replay_lane_post(struct replay_lane *lane, const struct replay_signature *signature);
void replay_lane_fill(struct replay_lane *lane, uint64_t number, struct replay_outcome outcome);
void replay_lane_cancelled(struct replay_lane *lane, uint64_t receive);

/* Compares an event with the next one in the record.  comm: the name of its communicator, or NULL.  True: they agree, and
 * *outcome is the recorded outcome.  False: the call does what it would do without a record. */
bool replay_lane_agrees(struct replay_lane *lane, const struct replay_signature *now,
                        const char *comm, struct replay_outcome *outcome);

/* The recorded outcome is not possible here: the program diverges.  why: the reason. */
void replay_lane_refuse(struct replay_lane *lane, const struct replay_signature *now,
                        const char *comm, const char *why);

/* The reason that this outcome does not fit a call. */
const char *replay_lane_why_not(const struct replay_lane *lane,
                                const struct replay_outcome *outcome);

/* To be called after each event: at the end of its record, the lane continues freely. */
static inline void replay_lane_event_ends(struct replay_lane *lane)
{
    if (replay_lane_is_replaying(lane) && replay_judge_is_over(lane->judge))
        lane->user->go_free(lane);
}

/* mbx_choice() of the program, with its result. */
int replay_lane_choice(struct replay_lane *lane, uint64_t site, uint64_t *value);

/* ---- words.c ---- */

/* "MPI_Irecv from any source, tag 7, on communicator 1"; comm: its name, or NULL.  Returns text. */
const char *replay_signature_text(const struct replay_signature *signature, const char *comm,
                                  char text[REPLAY_TEXT]);

/* "rank 3, tag 7".  Returns text. */
const char *replay_outcome_text(const struct replay_outcome *outcome, char text[REPLAY_TEXT]);

#endif
