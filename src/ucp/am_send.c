/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_send.c - active messages that are sent.
 *
 *   short   one message: [data][gap][header]; contiguous data without a header leaves from the client's memory
 *   long    an announcement, [number, size][header], and the data as a message of its own (am_long.c)
 *
 * The messages to a peer are numbered, because the library receives one that it sends by rendezvous after later ones.
 *
 * A peer waits for data that was announced.  If there is no memory to send it, the record stays OPEN until the peer has been
 * told that the data is void, and ends with UCS_ERR_NO_MEMORY then.
 *
 * A client may reuse its header when the call returns.  So what does not leave at once is copied, unless it has to leave at
 * once (UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL): then it is not sent.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "ucp/am.h"
#include "ucp/datatype.h"
#include "ucp/door.h"

/* of UCX 1.14; our headers may be older */
#define FLAG_COPY_HEADER (1u << 3)

#define FLAGS_KNOWN                                                                            \
    (UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_RNDV | FLAG_COPY_HEADER)

/* One active message, as the client wants it. */
struct sending {
    struct ucp_ep *ep;
    uint64_t tag;
    const void *header;
    size_t header_size;
    bool must_leave; /* now, or it is not sent */
    struct ucpx_data data;
};

static uint64_t words_of(size_t header, size_t data)
{
    return (uint64_t)header | (uint64_t)data << 32;
}

static size_t size_with_header(size_t data, size_t header)
{
    return header == 0 ? data : round_up(data, 8) + header;
}

/* Adds the header after the data. */
static void add_header(unsigned char *bytes, size_t data, const struct sending *s)
{
    if (s->header_size == 0)
        return;
    memset(bytes + data, 0, round_up(data, 8) - data);
    memcpy(bytes + round_up(data, 8), s->header, s->header_size);
}

/* ---- the message on UCPX_ID_MESSAGES ---- */

static struct ucpx_peer *peer_of(const struct sending *s)
{
    return &s->ep->worker->peers[s->ep->peer];
}

static uint64_t numbered(const struct sending *s, uint64_t words)
{
    return words | (uint64_t)peer_of(s)->sent << 16;
}

static int try_send(const struct sending *s, const void *bytes, size_t size, uint64_t words)
{
    int result = mbx_try_send(s->ep->worker->mbx, s->ep->peer, UCPX_ID_MESSAGES, s->tag, bytes,
                              size, numbered(s, words));

    if (result == 1)
        peer_of(s)->sent++;
    return result;
}

/* From memory that is the record's, or the client's.  1: it has left.  A message for which the library has no memory is not
 * sent, and leaves its number to the next one. */
static int send_later(const struct sending *s, const void *bytes, size_t size, uint64_t words,
                      struct ucpx_record *record)
{
    const struct mbx_options options = {.user = record,
                                        .data = numbered(s, words),
                                        .flags = MBX_DONE | MBX_AT_ONCE,
                                        .done = ucpx_send_done};
    int err = mbx_send(s->ep->worker->mbx, s->ep->peer, UCPX_ID_MESSAGES, s->tag, bytes, size,
                       &options, &record->number);

    if (err >= 0 && record->status != UCS_ERR_NO_MEMORY)
        peer_of(s)->sent++;
    return err;
}

static int send_copy(const struct sending *s, const void *bytes, size_t size, uint64_t words,
                     struct ucpx_record *record)
{
    int result = try_send(s, bytes, size, words);

    if (result != 0)
        return result;
    if (s->must_leave)
        return -EAGAIN;
    record->copy = mem_alloc(size);
    if (record->copy == NULL)
        return -ENOMEM;
    memcpy(record->copy, bytes, size);
    return send_later(s, record->copy, size, words, record);
}

/* ---- short ---- */

static int send_short(const struct sending *s, struct ucpx_record *record)
{
    size_t size = s->data.size;
    alignas(8) unsigned char bytes[UCPX_AM_SHORT + 8];

    if (s->header_size == 0 && !s->data.has_layout && !s->must_leave)
        return send_later(s, s->data.bytes, size, words_of(0, size), record);
    if (ucpx_data_pack(&s->data, record, bytes) != UCS_OK)
        return -EIO;
    add_header(bytes, size, s);
    return send_copy(s, bytes, size_with_header(size, s->header_size),
                     words_of(s->header_size, size), record);
}

/* ---- long ---- */

/* The copy of an announcement has a record of its own, which nobody sees. */
static int announce(const struct sending *s, const void *bytes, size_t size)
{
    const struct ucpx_how how = {.calls = UCPX_CALLS_NONE};
    struct ucpx_record *record = ucpx_record_begin(s->ep->worker, UCPX_MESSAGE, &how);
    int result;

    if (record == NULL)
        return -ENOMEM;
    record->is_released = true;
    ucpx_ep_adds(s->ep, record);
    result =
        send_copy(s, bytes, size, words_of(s->header_size, sizeof(struct ucpx_long)), record);
    if (result == 0) /* the record is there until it is reported */
        return record->status == UCS_ERR_NO_MEMORY ? -ENOMEM : 0;
    ucpx_ep_removes(record);
    ucpx_record_put(record);
    return result < 0 ? result : 0;
}

/* ---- data that is void ---- */

static int tell_void(const struct ucp_ep *ep, uint64_t number)
{
    return mbx_inject(ep->worker->mbx, ep->peer, UCPX_ID_DATA, number, NULL, 0, UCPX_AM_VOID);
}

/* There is no memory to tell the peer now. */
static void void_add(struct ucpx_record *record, uint64_t number)
{
    struct ucpx_am *am = &record->worker->am;

    record->is_void = true;
    record->number = number;
    am->voids++;
    am->may_resume = true;
}

static struct ucpx_record *void_in(const struct list *records)
{
    const struct list *node;

    list_for_each (node, records) {
        struct ucpx_record *record = container_of(node, struct ucpx_record, link);

        if (record->is_void)
            return record;
    }
    return NULL;
}

static struct ucpx_record *first_void(const struct ucp_worker *worker)
{
    struct ucpx_record *record = NULL;
    const struct list *node;

    list_for_each (node, &worker->endpoints) {
        record = void_in(&container_of(node, const struct ucp_ep, link)->open);
        if (record != NULL)
            break;
    }
    assert(record != NULL);
    return record;
}

/* A peer that is gone waits for nothing. */
unsigned ucpx_voids_tell(struct ucp_worker *worker)
{
    unsigned count = 0;

    for (; worker->am.voids != 0; worker->am.voids--, count++) {
        struct ucpx_record *record = first_void(worker);

        if (tell_void(record->ep, record->number) == -ENOMEM) {
            worker->am.may_resume = true;
            break;
        }
        record->is_void = false;
        ucpx_send_done(&(struct mbx_completion){.user = record, .error = -ENOMEM});
    }
    return count;
}

/* ---- the data of a long message ---- */

/* The library has no memory for a send that has to wait: it was not sent. */
static void number_done(const struct mbx_completion *completion)
{
    if (completion->error == -ENOMEM)
        void_add(completion->user, completion->status.tag);
    else
        ucpx_send_done(completion);
}

static int send_number(const struct sending *s, uint64_t number, struct ucpx_record *record)
{
    const struct mbx_options options = {.user = record,
                                        .flags = MBX_DONE | MBX_AT_ONCE |
                                                 (s->data.has_layout ? MBX_LAYOUT : 0u),
                                        .layout = &s->data.layout,
                                        .done = number_done};
    int result = mbx_send(s->ep->worker->mbx, s->ep->peer, UCPX_ID_DATA, number, s->data.bytes,
                          s->data.size, &options, NULL);

    if (result >= 0 || tell_void(s->ep, number) != -ENOMEM)
        return result;
    ucpx_data_end(record);
    void_add(record, number);
    return 0;
}

static int send_long(const struct sending *s, struct ucpx_record *record)
{
    struct ucpx_am *am = &s->ep->worker->am;
    struct ucpx_long parts = {.number = am->next_number++, .size = s->data.size};
    alignas(8) unsigned char bytes[sizeof parts + UCPX_AM_HEADER];
    int result;

    memcpy(bytes, &parts, sizeof parts);
    add_header(bytes, sizeof parts, s);
    result = announce(s, bytes, size_with_header(sizeof parts, s->header_size));
    return result < 0 ? result : send_number(s, parts.number, record);
}

/* ---- all ---- */

static bool is_long(const struct sending *s, const struct ucpx_how *how)
{
    return how->flags & UCP_AM_SEND_FLAG_RNDV ||
           size_with_header(s->data.size, s->header_size) > UCPX_AM_SHORT;
}

static uint64_t tag_of(unsigned id, const struct ucpx_how *how)
{
    return id | (how->flags & UCP_AM_SEND_FLAG_REPLY ? UCPX_AM_REPLY : 0) |
           (how->flags & UCP_AM_SEND_FLAG_EAGER ? UCPX_AM_WHOLE : 0);
}

static ucs_status_ptr_t send_data(struct sending *s, struct ucpx_record *record,
                                  const struct ucpx_how *how)
{
    bool must_announce = is_long(s, how);
    int result;

    if (must_announce && s->must_leave) {
        ucpx_data_end(record);
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    }
    if (must_announce)
        s->tag |= UCPX_AM_LONG;
    ucpx_ep_adds(s->ep, record);
    result = must_announce ? send_long(s, record) : send_short(s, record);
    if (result == 0)
        return ucpx_request_of(record);
    ucpx_ep_removes(record);
    ucpx_data_end(record);
    if (result < 0)
        return ucpx_record_refuse(record, ucpx_status(result));
    return ucpx_record_at_once(record, how, UCS_OK);
}

/* Contiguous data without a header, if it leaves now. */
static bool leaves(const struct sending *s, const void *buffer, size_t count,
                   const struct ucpx_how *how)
{
    size_t size;

    return s->header_size == 0 && !(how->flags & UCP_AM_SEND_FLAG_RNDV) &&
           ucpx_is_contiguous(how->datatype) &&
           ucpx_contiguous_size(how->datatype, count, &size) && size <= UCPX_AM_SHORT &&
           try_send(s, buffer, size, words_of(0, size)) == 1;
}

static ucs_status_ptr_t send_message(struct sending *s, const void *buffer, size_t count,
                                     const struct ucpx_how *how)
{
    struct ucpx_record *record = ucpx_record_begin(s->ep->worker, UCPX_MESSAGE, how);
    ucs_status_t status;

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    if (leaves(s, buffer, count, how))
        return ucpx_record_at_once(record, how, UCS_OK);
    status = ucpx_data_begin(&s->data, record, UCPX_PACKS, (void *)(uintptr_t)buffer, count,
                             how->datatype);
    if (status != UCS_OK)
        return ucpx_record_refuse(record, status);
    return send_data(s, record, how);
}

static ucs_status_ptr_t send_locked(struct ucp_ep *ep, unsigned id, const void *header,
                                    size_t header_size, const void *buffer, size_t count,
                                    const struct ucpx_how *how)
{
    struct sending s = {.ep = ep,
                        .tag = tag_of(id, how),
                        .header = header,
                        .header_size = header_size,
                        .must_leave = how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL};
    struct ucp_worker *worker = ep->worker; /* a callback may close ep */
    ucs_status_ptr_t result;

    if (!worker->am.is_on || id > UINT16_MAX || header_size > UCPX_AM_HEADER)
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    if (how->flags & ~(uint32_t)FLAGS_KNOWN)
        return UCS_STATUS_PTR(ucpx_unsupported("ucp_am_send with unknown flags"));
    ucpx_lock(worker);
    result = send_message(&s, buffer, count, how);
    ucpx_unlock(worker);
    return result;
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header,
                                 size_t header_length, const void *buffer, size_t count,
                                 const ucp_request_param_t *param)
{
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_SEND);

    if (status != UCS_OK)
        return UCS_STATUS_PTR(status);
    return send_locked(ep, id, header, header_length, buffer, count, &how);
}

ucs_status_ptr_t ucp_am_send_nb(ucp_ep_h ep, uint16_t id, const void *buffer, size_t count,
                                ucp_datatype_t datatype, ucp_send_callback_t cb, unsigned flags)
{
    const struct ucpx_how how = {.flags = flags,
                                 .calls = cb != NULL ? UCPX_CALLS_SEND_NB : UCPX_CALLS_NONE,
                                 .callback.send_nb = cb,
                                 .datatype = datatype};

    return send_locked(ep, id, NULL, 0, buffer, count, &how);
}
