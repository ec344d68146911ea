/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * door.h - the objects of libucp's interface, as this library has them.
 *
 *   context   what the client has asked for at ucp_init_version()
 *   worker    one Matchbox endpoint, its records, the completions that are due, its peers
 *   endpoint  a handle of the client for a peer of a worker; several may refer to one peer
 *
 * Matchbox's context ids: tagged messages, active messages, and the data of long active messages.
 */
#ifndef UCP_DOOR_H
#define UCP_DOOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/list.h"
#include "door/idle.h"
#include "ucp/address.h"
#include "ucp/am.h"
#include "ucp/interface.h"
#include "ucp/record.h"

enum ucpx_id { UCPX_ID_TAGS = 1, UCPX_ID_MESSAGES = 2, UCPX_ID_DATA = 3 };

#define UCPX_NO_RANK   UINT32_MAX
#define UCPX_INFO_SIZE 128 /* of the text of ucp_request_query() */

/* Glossary: door - a front end that offers the interface of another library over Matchbox */
struct ucp_context {
    uint64_t features; /* enum ucp_feature */
    size_t request_size;
    ucp_request_init_callback_t request_init;
    ucp_request_cleanup_callback_t request_cleanup;
    bool is_shared; /* by threads, of which each has a worker of its own */
    pthread_mutex_t lock;
    struct list workers, regions;
    uint64_t next_key; /* of a region */
    char name[UCP_ENTITY_NAME_MAX];
};

/* A peer of a worker, by its number. */
struct ucpx_peer {
    uint32_t rank;       /* of the launcher's job; UCPX_NO_RANK */
    struct ucpx_who who; /* from its address */
    bool is_loss_said;
    unsigned
        errors_reported; /* handles that want errors of the peer (UCP_ERR_HANDLING_MODE_PEER) */
    struct ucp_ep *reply;    /* for handlers of active messages; made when it is first needed */
    struct ucpx_slot *comes; /* a long active message whose data is on its way, or NULL */
    struct ucpx_slot
        *directed;  /* posted for the next active message of this peer alone, or NULL */
    uint32_t drops; /* long active messages whose data is on its way, and dropped */
    struct list
        waiting; /* of slots: active messages after those, or after one that is not here */
    uint32_t waiting_count;
    uint16_t sent, expected; /* numbers of the next active messages, to this peer and from it */
};

/* A thread that wants to sleep over a worker, and how many reports there were when it last looked. */
struct ucpx_looker {
    pthread_t thread;
    uint64_t seen;
};

#define UCPX_LOOKERS 8 /* with more threads nobody sleeps for long */

struct ucp_worker {
    struct list link; /* in the list of the context */
    struct mbx_ep *mbx;
    size_t inject; /* mbx_limits.inject */
    struct ucp_context *context;
    const struct ucpx_record *held; /* the present call handles its end itself */
    struct list ready,
        due; /* of records that are ENDED: new ones, and the ones that are being reported */
    unsigned depth; /* of ucp_worker_progress() that reports: 0 or 1 */
    struct door_idle idle;
    struct ucpx_pool pool;
    struct list endpoints, failed; /* all, and those whose error callback is due */
    struct list flushes;           /* of records: they wait for counters */
    uint64_t messages, accesses;   /* active messages and accesses under way */
    ucs_status_t lost;             /* of an access, for the next flush of the worker */
    struct ucpx_peer *peers;
    uint32_t peer_count, peers_known; /* the size of the array, and how many are in use */
    struct ucpx_am am;
    struct ucpx_record
        peeked; /* what a probe that leaves the message returns; it cannot be received */
    ucs_thread_mode_t mode;
    uint64_t reports; /* rounds in which something was reported to one of several threads */
    struct ucpx_looker lookers[UCPX_LOOKERS]; /* the last ones */
    unsigned next_looker;
    bool has_lock, is_named;
    bool is_watched;         /* by a descriptor of the client's: it has none to ask for */
    bool is_armed;           /* who sleeps is to be woken when an operation begins */
    atomic_bool is_signaled; /* ucp_worker_signal(); not taken yet */
    pthread_mutex_t lock;
    char name[UCP_ENTITY_NAME_MAX];
};

struct ucp_ep {
    struct ucp_worker *worker;
    struct list link, failed_link; /* in the lists of the worker */
    struct list open;              /* of records: sends and accesses under way */
    uint64_t waits;                /* records in the list of flushes that name this endpoint */
    uint64_t callers;              /* calls that wait for this endpoint */
    uint64_t messages, accesses;   /* active messages and accesses under way */
    ucs_status_t lost;             /* of an access, for the next flush of the endpoint */
    uint32_t peer;
    bool is_closed; /* the client has given the handle up */
    bool reports_errors, has_failed;
    ucs_status_t error;
    ucp_err_handler_cb_t on_error;
    void *on_error_arg;
    char name[UCP_ENTITY_NAME_MAX];
};

/* Does it have so much data on its way that its next messages wait? */
static inline bool ucpx_peer_is_ahead(const struct ucpx_peer *peer)
{
    return peer->comes != NULL || peer->drops >= UCPX_DROPS_MAX;
}

static inline void ucpx_lock(struct ucp_worker *worker)
{
    if (unlikely(worker->has_lock))
        pthread_mutex_lock(&worker->lock);
}

static inline void ucpx_unlock(struct ucp_worker *worker)
{
    if (unlikely(worker->has_lock))
        pthread_mutex_unlock(&worker->lock);
}

/* ---- worker.c ---- */

/* The peer of this number; NULL: memory is short.  Stays where it is until another peer is added. */
struct ucpx_peer *ucpx_peer(struct ucp_worker *worker, uint32_t number);

/* Is there something for ucp_worker_progress() to report, or does it report now?  Under the lock. */
bool ucpx_worker_has_due(const struct ucp_worker *worker);

/* ---- wait.c ---- */

/* Adds the descriptor of a new worker to the client's own (UCP_WORKER_PARAM_FIELD_EVENT_FD), if there is one. */
ucs_status_t ucpx_wait_open(struct ucp_worker *worker, const ucp_worker_params_t *params);
/* Wakes who sleeps until this worker has something to do.  Under the lock. */
void ucpx_worker_wake(struct ucp_worker *worker);
/* A request completes outside of ucp_worker_progress(): another thread may sleep for it, or be about to.  Under the lock. */
void ucpx_worker_has_news(struct ucp_worker *worker);

/* ---- endpoint.c.  The caller holds the lock of the worker. ---- */

/* A handle of the door's own for a peer, or NULL. */
struct ucp_ep *ucpx_ep_of_peer(struct ucp_worker *worker, uint32_t number);
/* Frees a handle whose close is complete, if no send and no access needs it any more. */
void ucpx_ep_let_go(struct ucp_ep *ep);
/* All of them. */
void ucpx_eps_free(struct ucp_worker *worker);

/* A send or an access of this endpoint is under way, and is no longer. */
void ucpx_ep_adds(struct ucp_ep *ep, struct ucpx_record *record);
void ucpx_ep_removes(struct ucpx_record *record);

/* Does this error of the library say that the peer is gone? */
bool ucpx_is_loss(int error);
/* The peer is gone: does the client get an error for its operations with this peer?  If so, the error callbacks are due. */
bool ucpx_loss_shows(struct ucp_worker *worker, uint32_t peer, int error);
/* Calls the error callbacks that are due.  How many. */
unsigned ucpx_failures_report(struct ucp_worker *worker);

/* The end of a send or an access: the completion callback of the library. */
void ucpx_send_done(const struct mbx_completion *completion);

/* ---- flush.c ---- */

/* How many active messages and accesses of the endpoint are under way, or of the worker if ep is NULL. */
static inline uint64_t ucpx_under_way(const struct ucp_worker *worker, const struct ucp_ep *ep)
{
    return ep != NULL ? ep->messages + ep->accesses : worker->messages + worker->accesses;
}

/* The record waits until none is.  ep may be NULL. */
void ucpx_flush_add(struct ucpx_record *record, struct ucp_ep *ep);
/* Waits until nothing is under way, with the lock given back meanwhile.  ep, which may be NULL, stays: ucpx_ep_let_go() is due
 * afterwards. */
void ucpx_flush_wait(struct ucp_worker *worker, struct ucp_ep *ep);
/* Completes the flushes that need not wait any longer. */
unsigned ucpx_flushes_report(struct ucp_worker *worker);

/* ---- request.c ---- */

/* The name of memory of a GPU, or NULL: it is the host's, or nobody knows. */
const char *ucpx_device_memory(ucs_memory_type_t type);

/* ---- region.c ---- */

/* Registers the regions of the context with a new worker.  UCS_OK; UCS_ERR_NO_MEMORY. */
ucs_status_t ucpx_regions_enter(struct ucp_worker *worker);
/* Regions of the context are none of this worker's any more. */
void ucpx_regions_leave(struct ucp_worker *worker);

/* ---- say.c ---- */

/* Logs once for each function that it is not supported. */
ucs_status_t ucpx_unsupported(const char *function);
/* The status of a client for an error of the library. */
ucs_status_t ucpx_status(int error);
/* "rank 3 (process 4711 on node7)", or as much of it as is known; for messages.  Returns text. */
#define UCPX_PEER_TEXT 80
const char *ucpx_peer_text(const struct ucp_worker *worker, uint32_t number,
                           char text[UCPX_PEER_TEXT]);
/* Which MPI runs over this worker: the library hears it with the first peer. */
void ucpx_name_program(struct ucp_worker *worker);

/* ---- valid.c ---- */

bool ucpx_worker_is_valid(const struct ucp_worker *worker);

#endif
