/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - programs whose operations depend on what their calls return (sim --replays).
 *
 *   operation of the plan ──┬──> the operation that is done ──> a call: a test or a wait, a probe
 *   what the rank knows   ──┘                                                 │
 *            ^                                                                │
 *            └────────────────────────────── its outcome, and the messages that it reports
 *
 * A rank knows the outcomes of its calls, and envelope and content of the messages that they reported.  It does not know the
 * time, nor what has completed and was not reported.  So its operations are a function of its outcomes: destination, tag and
 * size of sends, patterns of receives and probes, what is cancelled, whether a probed message is received, and which call
 * follows, for which requests.  The content of a message depends on what its sender knows.
 *
 * A send counts as complete once its message has been received, as MPI allows.  In a plan that is buffered a standard send
 * is complete when the library says so.
 */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum call_kind {
    CALL_NOT,
    CALL_WAIT,
    CALL_WAITALL,
    CALL_WAITANY,
    CALL_WAITSOME,
    CALL_TEST,
    CALL_TESTALL,
    CALL_TESTANY,
    CALL_TESTSOME,
    CALL_IPROBE,
    CALL_PROBE,
    CALL_KINDS
};

extern const char *const program_calls[CALL_KINDS];

#define CALL_MAX 8

/* The call in which a rank is. */
struct call {
    enum call_kind kind;
    uint32_t ids[CALL_MAX]; /* of operations; a probe has its own */
    uint32_t count;
    uint32_t
        tries; /* a test, or a probe that does not wait, is repeated so often while it finds nothing */
    uint64_t ask_ns; /* not before; 0: whenever the rank is woken */
    bool has_waited; /* for its recorded outcome */
};

/* The program of a rank, while it runs. */
struct program {
    uint64_t knows;       /* a hash */
    uint32_t last_source; /* of the message that it was told of last, or PLAN_ANYBODY */
    struct call call;
};

/* mask: the requests of the call that are complete, 0: none.  A probe that found a message has 1, and its envelope. */
struct outcome {
    uint32_t mask, source;
    uint64_t tag;
};

struct job;
struct item;
struct plan;

static inline bool call_is_test(enum call_kind kind)
{
    return kind >= CALL_TEST && kind <= CALL_IPROBE;
}

static inline bool call_is_probe(enum call_kind kind)
{
    return kind == CALL_IPROBE || kind == CALL_PROBE;
}

/* Makes a plan of such programs, in which nobody dies and no allocation fails. */
void program_draw(struct plan *plan);

void program_begin(struct program *program);

/* Does the plan's operation in item, as the rank's knowledge changes it; the rank may be in a call then. */
void program_do(struct job *job, uint32_t who, struct item *item);

/* Returns from the call in which the rank is, if it can.  True: it is in none. */
bool program_return(struct job *job, uint32_t who);

/* When to try again although nothing wakes the rank; 0: never. */
uint64_t program_again_ns(const struct job *job, uint32_t who);

/* Which of the call's requests are complete, as a mask. */
uint32_t program_complete(struct job *job, const struct call *call);

#endif
