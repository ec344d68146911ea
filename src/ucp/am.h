/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am.h - active messages: what a worker keeps for them: am.c.
 */
#ifndef UCP_AM_H
#define UCP_AM_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "base/list.h"
#include "ucp/interface.h"

#define UCPX_AM_SHORT                                                                          \
    8192u /* bytes of the message that announces or carries an active message */
#define UCPX_AM_HEADER 8128u /* bytes of a client's header */
#define UCPX_AM_ALIGN  64u   /* of data that a handler gets */

/* The message on UCPX_ID_MESSAGES:
 *
 *   tag    bits 0-15 the handler's id, 16 long, 17 the handler gets an endpoint for its reply, 18 the
 *          handler gets the data as a whole; the others are 0
 *   data   bits 0-15 the length of the client's header, 16-31 the number of the message among those
 *          between the two workers, 32-63 the length of the data in this message
 *   bytes  the data, 0 to 7 bytes that mean nothing, the header.  The data of a long message is
 *          struct ucpx_long, and the message of that number on UCPX_ID_DATA is the client's data */
#define UCPX_AM_LONG  (UINT64_C(1) << 16)
#define UCPX_AM_REPLY (UINT64_C(1) << 17)
#define UCPX_AM_WHOLE (UINT64_C(1) << 18)
#define UCPX_AM_KNOWN (UINT64_C(0xffff) | UCPX_AM_LONG | UCPX_AM_REPLY | UCPX_AM_WHOLE)

struct ucpx_peer;

struct ucpx_long {
    uint64_t number, size;
};

/* The data of the message on UCPX_ID_DATA whose sender has announced more than it had memory for: it has no bytes. */
#define UCPX_AM_VOID UINT64_C(1)

/* An active message that has arrived, once it has been checked. */
struct ucpx_message {
    uint32_t peer;
    uint16_t id;
    uint64_t flags; /* UCPX_AM_... */
    const void *header;
    size_t header_size;
    void *data; /* or NULL: it is on its way, under number */
    size_t size;
    uint64_t number;
};

enum ucpx_slot_state {
    UCPX_SLOT_POSTED,  /* a receive of the library */
    UCPX_SLOT_ARRIVED, /* in the list of messages that have arrived */
    UCPX_SLOT_WAITING, /* in the list of its peer, or the message whose data that peer still sends */
    UCPX_SLOT_HANDLED,   /* the handler runs */
    UCPX_SLOT_KEPT,      /* the client has kept the data */
    UCPX_SLOT_ANNOUNCED, /* the client has kept the descriptor of data that it will receive */
    UCPX_SLOT_TAKEN,     /* while the handler runs the client has received or released it */
};

/* The buffer of a message.  A client's pointer to data is that to its bytes. */
struct ucpx_slot {
    struct list link;
    struct ucp_worker *worker;
    struct ucpx_slot
        *announced_by; /* of data of a long message: the slot with its header; or NULL */
    enum ucpx_slot_state state;
    bool is_descriptor; /* from HANDLED on: of data that is on its way */
    bool is_directed;   /* POSTED: it receives from this peer alone */
    int error;
    uint32_t peer;
    mbx_request request; /* of the receive, if is_directed */
    uint64_t tag, words; /* of the message: its tag and data */
    size_t size;         /* of the message; from HANDLED on, of the data that is here */
    size_t capacity;
    alignas(UCPX_AM_ALIGN) unsigned char bytes[];
};

/* The handler that the client has set for an id. */
struct ucpx_handler {
    ucp_am_callback_t whole; /* ucp_worker_set_am_handler() */
    ucp_am_recv_callback_t recv;
    void *arg;
    uint32_t flags;
};

struct ucpx_am {
    bool is_on; /* UCP_FEATURE_AM */
    bool lacks; /* while there are crowds: a peer may be without its receive */
    /* a peer's messages that waited for drops need not wait any longer, or a peer is to hear that data is void */
    bool may_resume;
    struct list arrived, posted;
    unsigned posted_count, buffer_count,
        kept_count;         /* all, and how many of them the client has */
    struct list collected;  /* of slots: data of long messages that are complete */
    struct list kept;       /* of slots that the client has */
    struct list collecting; /* of slots: data of long messages on its way */
    struct ucpx_handler *handlers;
    uint32_t handler_count;
    uint64_t next_number; /* of long messages of ours */
    uint32_t crowds;      /* peers with as many messages that wait as they may have */
    uint32_t directed;    /* posted receives from one peer each */
    uint32_t voids; /* sends of ours whose data is void, and whose peer does not know it */
};

/* Messages of one peer that wait.  The messages of eight such peers fill all buffers. */
#define UCPX_WAITING_MAX 128u
#define UCPX_BUFFERS_MAX 1024u /* that the client has not kept */
#define UCPX_AHEAD_MAX                                                                         \
    2048u /* messages between one that is missing and one that is here: fewer than have buffers */

/* May there be another buffer?  Receives from one peer each do not count: otherwise many peers that send nothing
 * would leave none for others. */
static inline bool ucpx_am_has_room(const struct ucpx_am *am)
{
    return am->buffer_count - am->kept_count - am->directed < UCPX_BUFFERS_MAX;
}

/* ---- am.c ---- */

/* Posts receives.  UCS_OK; UCS_ERR_NO_MEMORY. */
ucs_status_t ucpx_am_open(struct ucp_worker *worker);
/* The library's endpoint is closed. */
void ucpx_am_close(struct ucp_worker *worker);
/* Calls handlers for what has arrived.  How many messages. */
unsigned ucpx_am_report(struct ucp_worker *worker);

/* A buffer, or NULL. */
struct ucpx_slot *ucpx_slot_make(struct ucp_worker *worker, size_t capacity);
void ucpx_slot_free(struct ucpx_slot *slot);
/* The buffer is not needed any more: it is posted again, or freed. */
void ucpx_slot_release(struct ucpx_slot *slot);
/* Posts it for the next message of one peer.  False: the library cannot take it. */
bool ucpx_slot_direct(struct ucpx_slot *slot, uint32_t number);
/* How many messages of its peer are to be handled before this one; more than there can be: no correct peer sends it. */
uint16_t ucpx_am_distance(const struct ucpx_slot *slot);
/* Checks a message that has arrived.  False: no correct peer sends it. */
bool ucpx_message_read(struct ucpx_message *message, const struct ucpx_slot *slot);

/* ---- am_crowd.c ---- */

/* The message waits for earlier ones of its peer.  False: no correct peer sends one with this number. */
bool ucpx_am_wait(struct ucp_worker *worker, struct ucpx_peer *peer, struct ucpx_slot *slot);
/* The message whose turn it is, which waits no longer; NULL: it is not here. */
struct ucpx_slot *ucpx_am_next(struct ucp_worker *worker, struct ucpx_peer *peer);
/* While a peer has many: each of the others has a receive of its own. */
void ucpx_am_direct(struct ucp_worker *worker);
/* No peer has many any more: those receives end. */
void ucpx_am_call_off(struct ucp_worker *worker);

/* ---- am_send.c ---- */

/* Tells peers which data is void, while there is memory for that.  How many sends have ended by it. */
unsigned ucpx_voids_tell(struct ucp_worker *worker);

/* ---- am_long.c ---- */

/* Receives the data of a message for its handler, which gets it as a whole.  False: memory is short. */
bool ucpx_am_collect(struct ucpx_slot *slot, const struct ucpx_message *message);
/* Data of one peer that is dropped, at a time: then its next messages wait.  So a peer that announces data and never sends it
 * makes no more receives than this, besides one for each message that the client keeps. */
#define UCPX_DROPS_MAX 64u

/* Drops data that is on its way. */
void ucpx_am_drop(struct ucp_worker *worker, const struct ucpx_message *message);

#endif
