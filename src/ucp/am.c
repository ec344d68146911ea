/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am.c - active messages that arrive, and their handlers.
 *
 *   POSTED ──> ARRIVED ──> HANDLED ──> posted again
 *                 │           ├──> KEPT, ANNOUNCED     the client keeps the data, or a descriptor of it
 *                 │           └──> TAKEN               it has given it up while the handler runs
 *                 └──> WAITING                         for data of long messages of the same peer
 *
 * POSTED_COUNT receives are always posted, so that an active message never waits for a tagged receive.  If a
 * client keeps a buffer, or a message waits in one, another buffer takes its place, up to UCPX_BUFFERS_MAX; then senders
 * wait.  While one peer has many that wait, only the others are received from (am_crowd.c).
 *
 * The messages of one peer are handled in the order in which it has sent them, by their numbers.  One that the library sends
 * by rendezvous is received after later ones, which wait for it.  While the data of a long one is on its way, the later ones
 * wait as well.  A handler that receives the data itself is called at once, with a descriptor.  Data that
 * nobody wants is dropped when it comes, and later messages need not wait for that, except for UCPX_DROPS_MAX of them.
 *
 * Messages that arrive are data of another process: each is checked (ucpx_message_read) before it is used.
 *
 * Invariants (ucpx_worker_is_valid)
 *   I1  a slot is in the list that its state names
 *   I2  posted_count is the length of the list of posted slots, and kept_count is the number of slots that the client has
 *   I3  outside of handlers, a peer has messages that wait only while it is ahead with data (ucpx_peer_is_ahead), or while the
 *       message whose turn it is is not here
 *   I4  waiting_count is the number of a peer's messages that wait, and crowds counts the peers with UCPX_WAITING_MAX or more
 *   I5  directed counts the posted slots that are some peer's directed one
 */
#include "ucp/am.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "ucp/door.h"

#define POSTED_COUNT        64u
#define SIZE_MAX_OF_MESSAGE ((size_t)1 << 39) /* bytes; who announces more is no correct peer */

/* ---- buffers ---- */

static void directed_done(struct ucpx_slot *slot)
{
    struct ucp_worker *worker = slot->worker;

    slot->is_directed = false;
    worker->peers[slot->peer].directed = NULL;
    worker->am.directed--;
    worker->am.lacks = true;
    if (ucpx_is_loss(slot->error))
        (void)ucpx_loss_shows(worker, slot->peer, slot->error);
}

static void slot_done(const struct mbx_completion *completion)
{
    struct ucpx_slot *slot = completion->user;
    struct ucpx_am *am = &slot->worker->am;

    slot->error = completion->error;
    slot->peer = completion->status.source;
    slot->tag = completion->status.tag;
    slot->words = completion->status.data;
    slot->size = completion->received;
    slot->state = UCPX_SLOT_ARRIVED;
    list_remove(&slot->link);
    list_add_tail(&am->arrived, &slot->link);
    am->posted_count--;
    if (unlikely(slot->is_directed))
        directed_done(slot);
}

struct ucpx_slot *ucpx_slot_make(struct ucp_worker *worker, size_t capacity)
{
    struct ucpx_slot *slot = mem_alloc_aligned(UCPX_AM_ALIGN, sizeof *slot + capacity);

    if (slot == NULL)
        return NULL;
    memset(slot, 0, sizeof *slot);
    slot->worker = worker;
    slot->capacity = capacity;
    worker->am.buffer_count++;
    return slot;
}

void ucpx_slot_free(struct ucpx_slot *slot)
{
    if (slot == NULL)
        return;
    slot->worker->am.buffer_count--;
    slot->worker->am.lacks = true; /* there is room for another one */
    mem_free(slot);
}

/* The next message from this source.  False: the library cannot take it. */
static bool slot_begin(struct ucpx_slot *slot, uint32_t source)
{
    const struct mbx_options options = {.user = slot, .flags = MBX_DONE, .done = slot_done};
    struct ucp_worker *worker = slot->worker;
    int err;

    slot->state = UCPX_SLOT_POSTED;
    list_add_tail(&worker->am.posted, &slot->link);
    worker->am.posted_count++;
    err = mbx_recv(worker->mbx, source, UCPX_ID_MESSAGES, 0, MBX_IGNORE_ALL, slot->bytes,
                   slot->capacity, &options, &slot->request);
    if (err == 0)
        return true;
    list_remove(&slot->link);
    worker->am.posted_count--;
    return false;
}

/* It may be complete before the call returns. */
bool ucpx_slot_direct(struct ucpx_slot *slot, uint32_t number)
{
    struct ucp_worker *worker = slot->worker;

    slot->is_directed = true;
    slot->peer = number;
    worker->peers[number].directed = slot;
    worker->am.directed++;
    if (slot_begin(slot, number))
        return true;
    slot->is_directed = false;
    worker->peers[number].directed = NULL;
    worker->am.directed--;
    return false;
}

static void announcement_release(struct ucpx_slot *data)
{
    if (data->announced_by != NULL)
        ucpx_slot_release(data->announced_by);
    data->announced_by = NULL;
}

void ucpx_slot_release(struct ucpx_slot *slot)
{
    struct ucpx_am *am = &slot->worker->am;

    assert(!list_is_linked(&slot->link));
    announcement_release(slot);
    if (slot->capacity != UCPX_AM_SHORT || am->posted_count >= POSTED_COUNT ||
        am->crowds != 0 || !slot_begin(slot, MBX_ANY_SOURCE))
        ucpx_slot_free(slot);
}

/* False: memory is short. */
static bool post_all(struct ucp_worker *worker)
{
    struct ucpx_am *am = &worker->am;

    while (am->posted_count < POSTED_COUNT && ucpx_am_has_room(am)) {
        struct ucpx_slot *slot = ucpx_slot_make(worker, UCPX_AM_SHORT);

        if (slot == NULL)
            return false;
        if (!slot_begin(slot, MBX_ANY_SOURCE)) {
            ucpx_slot_free(slot);
            return false;
        }
    }
    return true;
}

/* ---- open and close ---- */

ucs_status_t ucpx_am_open(struct ucp_worker *worker)
{
    struct ucpx_am *am = &worker->am;

    list_init(&am->arrived);
    list_init(&am->posted);
    list_init(&am->collecting);
    list_init(&am->collected);
    list_init(&am->kept);
    am->is_on = worker->context->features & UCP_FEATURE_AM;
    return !am->is_on || post_all(worker) ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static void free_slots(struct list *slots)
{
    struct list *node;

    while ((node = list_pop_head(slots)) != NULL) {
        struct ucpx_slot *slot = container_of(node, struct ucpx_slot, link);

        ucpx_slot_free(slot->announced_by);
        ucpx_slot_free(slot);
    }
}

void ucpx_am_close(struct ucp_worker *worker)
{
    struct ucpx_am *am = &worker->am;

    free_slots(&am->arrived);
    free_slots(&am->posted);
    free_slots(&am->collecting);
    free_slots(&am->collected);
    free_slots(&am->kept);
    for (uint32_t i = 0; i < worker->peer_count; i++)
        free_slots(&worker->peers[i].waiting);
    mem_free(am->handlers);
}

/* ---- handlers ---- */

static struct ucpx_handler *handler_of(struct ucpx_am *am, unsigned id)
{
    struct ucpx_handler *handler = id < am->handler_count ? &am->handlers[id] : NULL;

    return handler != NULL && (handler->whole != NULL || handler->recv != NULL) ? handler
                                                                                : NULL;
}

static ucs_status_t handler_set(struct ucp_worker *worker, unsigned id,
                                const struct ucpx_handler *handler)
{
    struct ucpx_am *am = &worker->am;
    struct ucpx_handler *handlers;

    if (!am->is_on || id > UINT16_MAX)
        return UCS_ERR_INVALID_PARAM;
    if (id >= am->handler_count) {
        handlers = mem_realloc(am->handlers, (id + 1) * sizeof *handlers);
        if (handlers == NULL)
            return UCS_ERR_NO_MEMORY;
        memset(handlers + am->handler_count, 0,
               (id + 1 - am->handler_count) * sizeof *handlers);
        am->handlers = handlers;
        am->handler_count = id + 1;
    }
    am->handlers[id] = *handler;
    return UCS_OK;
}

static ucs_status_t handler_set_locked(struct ucp_worker *worker, unsigned id,
                                       const struct ucpx_handler *handler)
{
    ucs_status_t status;

    ucpx_lock(worker);
    status = handler_set(worker, id, handler);
    ucpx_unlock(worker);
    return status;
}

ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb,
                                       void *arg, uint32_t flags)
{
    const struct ucpx_handler handler = {.whole = cb, .arg = arg, .flags = flags};

    return handler_set_locked(worker, id, &handler);
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker,
                                            const ucp_am_handler_param_t *param)
{
    uint64_t fields = param->field_mask;
    struct ucpx_handler handler = {0};

    if (!(fields & UCP_AM_HANDLER_PARAM_FIELD_ID) || !(fields & UCP_AM_HANDLER_PARAM_FIELD_CB))
        return UCS_ERR_INVALID_PARAM;
    handler.recv = param->cb;
    if (fields & UCP_AM_HANDLER_PARAM_FIELD_ARG)
        handler.arg = param->arg;
    if (fields & UCP_AM_HANDLER_PARAM_FIELD_FLAGS)
        handler.flags = param->flags;
    return handler_set_locked(worker, param->id, &handler);
}

/* ---- what arrives ---- */

static bool sizes_fit(size_t size, size_t header, size_t data)
{
    if (header > UCPX_AM_HEADER || data > UCPX_AM_SHORT)
        return false;
    return size == (header == 0 ? data : round_up(data, 8) + header);
}

uint16_t ucpx_am_distance(const struct ucpx_slot *slot)
{
    return (uint16_t)((slot->words >> 16) - slot->worker->peers[slot->peer].expected);
}

bool ucpx_message_read(struct ucpx_message *message, const struct ucpx_slot *slot)
{
    size_t header = slot->words & UINT16_MAX, data = slot->words >> 32;
    struct ucpx_long parts;

    if (slot->error != 0 || slot->tag & ~UCPX_AM_KNOWN || !sizes_fit(slot->size, header, data))
        return false;
    *message = (struct ucpx_message){.peer = slot->peer,
                                     .id = (uint16_t)slot->tag,
                                     .flags = slot->tag & ~UINT64_C(0xffff),
                                     .header = slot->bytes + slot->size - header,
                                     .header_size = header,
                                     .data = (void *)(uintptr_t)slot->bytes,
                                     .size = data};
    if (!(slot->tag & UCPX_AM_LONG))
        return true;
    if (data != sizeof parts)
        return false;
    memcpy(&parts, slot->bytes, sizeof parts);
    message->data = NULL;
    message->number = parts.number;
    message->size = parts.size;
    return true;
}

static ucs_status_t call_whole(const struct ucpx_handler *handler,
                               const struct ucpx_message *message, void *data,
                               struct ucp_ep *reply)
{
    return handler->whole(handler->arg, data, message->size, reply, UCP_CB_PARAM_FLAG_DATA);
}

static ucs_status_t call_recv(const struct ucpx_handler *handler,
                              const struct ucpx_message *message, void *data,
                              struct ucp_ep *reply)
{
    ucp_am_recv_param_t param = {.reply_ep = reply};

    if (reply != NULL)
        param.recv_attr |= UCP_AM_RECV_ATTR_FIELD_REPLY_EP;
    if (message->data == NULL)
        param.recv_attr |= UCP_AM_RECV_ATTR_FLAG_RNDV;
    else if (message->size != 0)
        param.recv_attr |= UCP_AM_RECV_ATTR_FLAG_DATA;
    return handler->recv(handler->arg, message->header, message->header_size, data,
                         message->size, &param);
}

/* The client's pointer to the data, or to its descriptor, is that to the bytes of the slot. */
static ucs_status_t call(struct ucp_worker *worker, struct ucpx_slot *slot,
                         const struct ucpx_message *message, const struct ucpx_handler *set)
{
    struct ucp_ep *reply =
        message->flags & UCPX_AM_REPLY ? ucpx_ep_of_peer(worker, message->peer) : NULL;
    const struct ucpx_handler handler = *set;
    ucs_status_t status;

    ucpx_unlock(worker);
    if (handler.whole != NULL)
        status = call_whole(&handler, message, slot->bytes, reply);
    else
        status = call_recv(&handler, message, slot->bytes, reply);
    ucpx_lock(worker);
    return status;
}

/* slot has the data, or is the descriptor.  A header is the client's only while its handler runs. */
static void handle(struct ucp_worker *worker, struct ucpx_slot *slot,
                   const struct ucpx_message *message, const struct ucpx_handler *handler)
{
    ucs_status_t status;

    slot->state = UCPX_SLOT_HANDLED;
    slot->is_descriptor = message->data == NULL;
    if (!slot->is_descriptor)
        slot->size = message->size;
    status = call(worker, slot, message, handler);
    if (slot->state == UCPX_SLOT_HANDLED && status == UCS_INPROGRESS) {
        slot->state = message->data == NULL ? UCPX_SLOT_ANNOUNCED : UCPX_SLOT_KEPT;
        list_add_tail(&worker->am.kept, &slot->link);
        worker->am.kept_count++;
        announcement_release(slot);
        return;
    }
    if (slot->state == UCPX_SLOT_HANDLED && message->data == NULL)
        ucpx_am_drop(worker, message);
    ucpx_slot_release(slot);
}

static void say_nobody(const struct ucp_worker *worker, const struct ucpx_message *message)
{
    static atomic_bool is_said;
    char text[UCPX_PEER_TEXT];

    if (!atomic_exchange(&is_said, true))
        LOG_WARN("libucp: an active message of %s for id %u, for which the program has set no "
                 "handler, was dropped; set it before peers send",
                 ucpx_peer_text(worker, message->peer, text), message->id);
}

/* An error of the library that is none of the message is one of this worker: usually it has no memory. */
static void say_dropped(const struct ucpx_slot *slot)
{
    static atomic_bool is_damage_said, is_error_said;
    bool is_damaged = slot->error == 0 || slot->error == -EMSGSIZE;
    char text[UCPX_PEER_TEXT];

    if (slot->error == -ECANCELED || ucpx_is_loss(slot->error) ||
        atomic_exchange(is_damaged ? &is_damage_said : &is_error_said, true))
        return;
    if (is_damaged)
        LOG_ERROR("libucp: %s sends active messages that no correct peer sends; they are "
                  "dropped; look at that process",
                  ucpx_peer_text(slot->worker, slot->peer, text));
    else
        LOG_ERROR("libucp: an active message of %s was dropped, as are others: %s",
                  ucpx_peer_text(slot->worker, slot->peer, text), mbx_strerror(slot->error));
}

static void long_begins(struct ucp_worker *worker, struct ucpx_slot *slot,
                        const struct ucpx_message *message)
{
    static atomic_bool is_said;
    char text[UCPX_PEER_TEXT];

    if (ucpx_am_collect(slot, message)) {
        slot->state = UCPX_SLOT_WAITING;
        worker->peers[slot->peer].comes = slot;
        return;
    }
    if (!atomic_exchange(&is_said, true))
        LOG_ERROR("libucp: no memory for an active message of %zu bytes of %s; it was dropped, "
                  "as are "
                  "others of this kind; let this process have more, or send less at a time",
                  message->size, ucpx_peer_text(worker, message->peer, text));
    ucpx_am_drop(worker, message);
    ucpx_slot_release(slot);
}

/* Its turn has come. */
static void slot_handle(struct ucp_worker *worker, struct ucpx_slot *slot)
{
    const struct ucpx_handler *handler;
    struct ucpx_message message;

    worker->peers[slot->peer].expected++;
    if (!ucpx_message_read(&message, slot)) {
        say_dropped(slot);
        ucpx_slot_release(slot);
        return;
    }
    handler = handler_of(&worker->am, message.id);
    if (handler == NULL || message.size > SIZE_MAX_OF_MESSAGE) {
        if (handler == NULL)
            say_nobody(worker, &message);
        else
            say_dropped(slot);
        if (message.data == NULL)
            ucpx_am_drop(worker, &message);
        ucpx_slot_release(slot);
    } else if (message.data == NULL &&
               (handler->whole != NULL || message.flags & UCPX_AM_WHOLE)) {
        long_begins(worker, slot, &message);
    } else {
        handle(worker, slot, &message, handler);
    }
}

/* The messages that had to wait, up to the next one that must. */
static unsigned handle_waiting(struct ucp_worker *worker, uint32_t number)
{
    unsigned count = 0;

    while (!ucpx_peer_is_ahead(&worker->peers[number])) {
        struct ucpx_slot *slot = ucpx_am_next(worker, &worker->peers[number]);

        if (slot == NULL)
            break;
        slot_handle(worker, slot);
        count++;
    }
    return count;
}

/* Otherwise the receive has ended without one.  One that was lost with its peer has a number, and later ones wait for it. */
static bool is_message(const struct ucpx_slot *slot)
{
    return slot->error != -ECANCELED && (slot->words != 0 || !ucpx_is_loss(slot->error));
}

/* False: memory is short, and the message stays where it is. */
static bool slot_arrived(struct ucp_worker *worker, struct ucpx_slot *slot)
{
    struct ucpx_peer *peer;

    if (!is_message(slot)) {
        ucpx_slot_release(slot);
        return true;
    }
    peer = ucpx_peer(worker, slot->peer);
    if (peer == NULL)
        return false;
    if (ucpx_am_distance(slot) == 0 && !ucpx_peer_is_ahead(peer)) {
        uint32_t number = slot->peer;

        slot_handle(worker, slot);
        (void)handle_waiting(worker, number);
    } else if (!ucpx_am_wait(worker, peer, slot)) {
        say_dropped(slot);
        ucpx_slot_release(slot);
    }
    return true;
}

/* The data of a long message is here, or will never be. */
static unsigned long_arrived(struct ucp_worker *worker, struct ucpx_slot *slot)
{
    const struct ucpx_handler *handler;
    struct ucpx_message message;
    uint32_t peer = slot->peer;
    bool is_right = ucpx_message_read(&message, slot->announced_by) && slot->error == 0 &&
                    slot->size == slot->capacity;

    worker->peers[peer].comes = NULL;
    handler = is_right ? handler_of(&worker->am, message.id) : NULL;
    if (handler == NULL) {
        if (!is_right)
            say_dropped(slot);
        ucpx_slot_release(slot);
    } else {
        message.data = slot->bytes;
        handle(worker, slot, &message, handler);
    }
    return 1 + handle_waiting(worker, peer);
}

/* Data that was dropped has arrived, or data that was announced is void. */
static unsigned resume(struct ucp_worker *worker)
{
    unsigned count;

    worker->am.may_resume = false;
    count = ucpx_voids_tell(worker);
    for (uint32_t i = 0; i < worker->peer_count; i++)
        count += handle_waiting(worker, i);
    return count;
}

unsigned ucpx_am_report(struct ucp_worker *worker)
{
    struct ucpx_am *am = &worker->am;
    struct list *node;
    unsigned count = 0;

    if (!am->is_on)
        return 0;
    while ((node = list_pop_head(&am->collected)) != NULL)
        count += long_arrived(worker, container_of(node, struct ucpx_slot, link));
    if (unlikely(am->may_resume))
        count += resume(worker);
    if (unlikely(am->directed != 0 && am->crowds == 0))
        ucpx_am_call_off(worker);
    for (; (node = list_pop_head(&am->arrived)) != NULL; count++) {
        if (slot_arrived(worker, container_of(node, struct ucpx_slot, link)))
            continue;
        list_add_head(&am->arrived, node);
        break;
    }
    if (unlikely(am->crowds != 0))
        ucpx_am_direct(worker);
    else if (unlikely(am->posted_count < POSTED_COUNT))
        (void)post_all(worker);
    return count;
}
