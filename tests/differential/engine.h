/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - a matcher that executes a history and reports its answers.  Test code.
 *
 * An engine is one receiver and ENGINE_SOURCES senders.  It executes operations one at a time
 * and answers each as the oracle does: with the id of the receive or message that matched,
 * ANSWER_NOBODY, or a bool for a cancel.  To answer "nobody" it must know that the operation
 * will have no other result: it has settled.  The head of the file of an engine that works
 * asynchronously explains how it knows.
 *
 * The length identifies a message, so that a probe can also tell it: a message has
 * engine_message_size(id) bytes, and begins with the id.
 *
 * Sources are 0 .. ENGINE_SOURCES-1, context ids 0 .. ENGINE_CONTEXT_MAX, and tags have
 * ENGINE_TAG_BITS bits; an engine gets nothing else.
 */
#ifndef DIFFERENTIAL_ENGINE_H
#define DIFFERENTIAL_ENGINE_H

#include "match/history.h"

#define ENGINE_SOURCES      4
#define ENGINE_CONTEXT_MAX  31 /* every engine has space for these in its tag, */
#define ENGINE_TAG_BITS     48 /* in addition to the source */
#define ENGINE_MESSAGE_MAX  (sizeof(int) + HISTORY_MAX)
#define ENGINE_STALLED_MS   20000 /* an operation that has not settled by then never will */
#define ENGINE_VERSION_SIZE 64

enum {
    ANSWER_STALLED = -4, /* never settled */
    ANSWER_DIED = -5,    /* and the process with it */
};

struct engine_kind;

struct engine {
    const struct engine_kind *kind;
    char version[ENGINE_VERSION_SIZE];
    unsigned can;    /* 1u << OP_POST and so on */
    bool is_patient; /* waits longer before it answers "nobody" */
};

struct engine_kind {
    const char *name;
    const char *about;

    /* Makes an engine; argument is the text after the colon, or NULL. 0; -ENODEV: not on this
     * machine; -EINVAL: no such argument. */
    int (*create)(const char *argument, struct engine **e);
    void (*destroy)(struct engine *e);

    /* Empties the queues and forgets all earlier operations. 0 or a negative errno. */
    int (*begin)(struct engine *e);
    void (*end)(struct engine *e);

    /* Executes op and settles. */
    int (*answer)(struct engine *e, const struct op *op);
};

#define ENGINE_CAN_ALL                                                                         \
    (1u << OP_POST | 1u << OP_ARRIVE | 1u << OP_PEEK | 1u << OP_PROBE | 1u << OP_CANCEL)

/* Every kind that this program was built with; NULL ends the list. */
extern const struct engine_kind *const engine_kinds[];
extern const struct engine_kind engine_wrong, engine_match, engine_ofi, engine_ucx;

static inline size_t engine_message_size(int id)
{
    return sizeof id + (size_t)id;
}

static inline int engine_message_id(size_t size)
{
    return size >= sizeof(int) && size < ENGINE_MESSAGE_MAX ? (int)(size - sizeof(int))
                                                            : ANSWER_BROKEN;
}

/* ---- meetings.c: the result of an operation ---- */

/* Receives that completed since the operation began. */
struct meetings {
    int count;
    int recv, msg; /* the first */
};

/* Receive recv got size bytes at data. */
void meetings_add(struct meetings *m, int recv, const void *data, size_t size);

/* Returns the answer to op: its match.  ANSWER_BROKEN if others have also matched. */
int meetings_answer(const struct meetings *m, const struct op *op);

#endif
