/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.h - the door's memory of one request: record.c.
 *
 *   | struct ucpx_record ... | the client's request_size bytes ... |
 *                            ^ the client's request
 *
 * The record is short and refers to nothing that lies next to it, because a client may provide its memory
 * (UCP_OP_ATTR_FIELD_REQUEST), usually on its stack and with noise in it.
 */
#ifndef UCP_RECORD_H
#define UCP_RECORD_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "base/list.h"
#include "ucp/interface.h"

/* ucp_context_query() reports this length: a client that provides memory has so many bytes before its request. */
#define UCPX_RECORD_SIZE 128

struct ucpx_generic; /* datatype.c */

enum ucpx_state {
    UCPX_FREE,     /* in the pool, or memory of a client that is not in use */
    UCPX_OPEN,     /* the operation is under way */
    UCPX_ENDED,    /* the record has the result; its callback is due */
    UCPX_COMPLETE, /* the client may see the result */
};

enum ucpx_kind {
    UCPX_SEND,      /* a tagged send */
    UCPX_RECV,      /* a tagged receive */
    UCPX_MESSAGE,   /* the send of an active message */
    UCPX_DATA,      /* the receive of the data of an active message */
    UCPX_ACCESS,    /* a put, a get or an atomic */
    UCPX_FLUSH,     /* of an endpoint or a worker */
    UCPX_CLOSE,     /* of an endpoint */
    UCPX_PROBED,    /* a message that a probe has taken; not a request */
    UCPX_ALLOCATED, /* ucp_request_alloc(): not used yet */
};

/* Which member of the callback the record calls. */
enum ucpx_calls {
    UCPX_CALLS_NONE,
    UCPX_CALLS_SEND,
    UCPX_CALLS_SEND_NB,
    UCPX_CALLS_RECV,
    UCPX_CALLS_RECV_NB,
    UCPX_CALLS_DATA,
};

union ucpx_callback {
    ucp_send_nbx_callback_t send;
    ucp_send_callback_t send_nb;
    ucp_tag_recv_nbx_callback_t recv;
    ucp_tag_recv_callback_t recv_nb;
    ucp_am_recv_data_nbx_callback_t data;
};

struct ucpx_record {
    _Atomic uint8_t state; /* enum ucpx_state; other threads test it without a lock */
    uint8_t kind, calls;   /* enum ucpx_kind, enum ucpx_calls */
    bool
        is_released : 1; /* the client has given it up: it goes to the pool when it is complete */
    bool is_lent : 1;    /* the client's memory */
    bool is_withheld : 1;  /* its peer is gone, which the client is not to see (endpoint.c) */
    bool is_cancelled : 1; /* whatever its result is, the client sees UCS_ERR_CANCELED */
    bool is_reported : 1;  /* its callback runs */
    bool is_void : 1; /* of an active message: its peer has to be told that number is void */
    ucs_status_t status;
    ucs_status_t failure; /* that an unpack function has returned; or UCS_OK */
    struct ucp_worker *worker;
    struct list
        link; /* by state: the pool, open sends of an endpoint, completions of a worker */
    union ucpx_callback callback;
    void *user_data;
    ucp_tag_recv_info_t info; /* receives */
    uint64_t number; /* of the library: mbx_request; PROBED: mbx_message; is_void: its data's */
    struct ucp_ep *ep; /* sends, accesses and waits */
    struct ucpx_generic *generic;
    void *generic_state;
    void *copy; /* what is sent, where the client's memory is free already */
};

static_assert(sizeof(struct ucpx_record) <= UCPX_RECORD_SIZE, "clients provide so much");

/* How the client wants an operation done, whichever function it has called. */
struct ucpx_how {
    uint32_t mask;  /* ucp_op_attr_t */
    uint32_t flags; /* of the operation */
    void *request;  /* the client's memory, or NULL */
    enum ucpx_calls calls;
    union ucpx_callback callback;
    void *user_data;
    ucp_datatype_t datatype;
};

/* Slabs of records, which grow with the operations in flight. */
struct ucpx_pool {
    struct list free, slabs;
    size_t size;                 /* of a record with the client's part */
    size_t allocated;            /* by ucp_request_alloc(), all together */
    size_t live;                 /* that are not in the list of free ones */
    struct ucp_context *context; /* whose constructor and destructor are called */
};

static inline void *ucpx_request_of(struct ucpx_record *record)
{
    return (char *)record + UCPX_RECORD_SIZE;
}

static inline struct ucpx_record *ucpx_record_of(void *request)
{
    return (struct ucpx_record *)((char *)request - UCPX_RECORD_SIZE);
}

static inline enum ucpx_state ucpx_state_of(const struct ucpx_record *record)
{
    return (enum ucpx_state)atomic_load_explicit(&record->state, memory_order_acquire);
}

/* Readers without a lock see the result with the state. */
static inline void ucpx_state_set(struct ucpx_record *record, enum ucpx_state state)
{
    atomic_store_explicit(&record->state, (uint8_t)state, memory_order_release);
}

/* ---- record.c.  The caller holds the lock of the worker. ---- */

void ucpx_pool_init(struct ucpx_pool *pool, struct ucp_context *context);
/* Destroys the client's part of each record. */
void ucpx_pool_fini(struct ucpx_pool *pool);

/* A record from the pool, or NULL. */
struct ucpx_record *ucpx_record_take(struct ucp_worker *worker, enum ucpx_kind kind);
/* Back to the pool, if it is from there; nothing else may be done with it. */
void ucpx_record_put(struct ucpx_record *record);

/* A record that is OPEN: the client's, or from the pool; NULL if memory is short. */
struct ucpx_record *ucpx_record_begin(struct ucp_worker *worker, enum ucpx_kind kind,
                                      const struct ucpx_how *how);
/* The operation has ended within the call that starts it.  Returns the value that the call returns. */
ucs_status_ptr_t ucpx_record_at_once(struct ucpx_record *record, const struct ucpx_how *how,
                                     ucs_status_t status);
/* The operation has not begun.  Returns the value that the call returns. */
ucs_status_ptr_t ucpx_record_refuse(struct ucpx_record *record, ucs_status_t status);

/* The operation has ended: within a call of the library, or not.  The callback is due. */
void ucpx_record_end(struct ucpx_record *record, ucs_status_t status);
/* The callback of a record that is ENDED and in no list, without the lock. */
void ucpx_record_complete(struct ucpx_record *record);
/* All callbacks that are due now, in the order in which they became so.  How many. */
unsigned ucpx_records_report(struct ucp_worker *worker);

/* ---- request.c ---- */

/* Reads a param of the nbx functions, whose callback is a member of this kind.  Not UCS_OK: it is refused, and the log says why. */
ucs_status_t ucpx_how_read(struct ucpx_how *how, const ucp_request_param_t *param,
                           enum ucpx_calls calls);
/* A receive whose param is refused.  The client's memory also says so: clients may ask it, whatever the call has returned. */
ucs_status_ptr_t ucpx_param_refuse(struct ucp_worker *worker, enum ucpx_kind kind,
                                   const ucp_request_param_t *param, ucs_status_t status);

#endif
