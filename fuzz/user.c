/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * user.c - users of two endpoints, and their guarantees in spite of a byzantine endpoint:
 *
 *   content   data from the other user is one of its messages, once, byte for byte, and
 *             as much of it as fits
 *   order     if a receive accepts two messages, it does not get the younger one while
 *             the older one goes to a later receive, or to a later probe
 *   secrets   data from the byzantine endpoint has only bytes that it sends, and bytes
 *             that were in the buffer before
 *   the end   all messages between the two arrive, and all requests end
 *   memory    a buffer is freed when its request has ended: AddressSanitizer catches any later
 *             access.  Kept messages and requests stay within their bounds
 */
#include "fuzz/user.h"

#include <stdio.h>
#include <stdlib.h>

#include "rma/rma.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/backlog.h"

#define REGION_SIZE 1000
#define BUFFER_BYTE 0x11 /* content of a receive buffer before the receive */
#define PATIENCE    400  /* rounds without any progress that mean a hang */
#define ROUNDS_MOST 100000
#define BIGGEST     20000
#define END_WAIT_NS (3 * CLOCK_MS)

static uint64_t now_ns;

uint64_t fuzz_clock(void)
{
    return now_ns;
}

void fuzz_time_pass(uint64_t ns)
{
    now_ns += ns;
}

/* The content of message `number`.  Contains neither BYZANTINE_BYTE nor BUFFER_BYTE. */
static const unsigned char *content(uint32_t number)
{
    static unsigned char bytes[BIGGEST + MESSAGES];

    for (size_t i = 0; bytes[0] == 0 && i < sizeof bytes; i++)
        bytes[sizeof bytes - 1 - i] = (unsigned char)(0x20 + ((i * 7 + (i >> 5)) & 0x7f));
    return bytes + number;
}

static size_t take_size(struct input *in)
{
    static const size_t sizes[] = {0, 1, 8, 24, 100, 470, 600, 5000, 9000, BIGGEST};

    return sizes[take(in) % ARRAY_COUNT(sizes)];
}

/* ---- slots ---- */

static struct slot *slot_new(struct user *user, enum slot_kind kind, size_t size, size_t most)
{
    for (size_t i = 0; i < most; i++) {
        struct slot *slot = &user->slots[i];

        if (slot->kind != SLOT_FREE)
            continue;
        *slot = (struct slot){.kind = kind, .size = size, .number = MESSAGES};
        slot->buf = malloc(size != 0 ? size : 1);
        require(slot->buf != NULL, "no memory");
        memset(slot->buf, BUFFER_BYTE, size);
        return slot;
    }
    return NULL;
}

static void slot_free(struct slot *slot)
{
    free(slot->buf);
    *slot = (struct slot){.kind = SLOT_FREE};
}

static size_t slot_used(const struct user *user, uint8_t which)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (user->slots[(which + i) % SLOTS].kind != SLOT_FREE)
            return (which + i) % SLOTS;
    return SLOTS;
}

mbx_request user_request(const struct user *user, uint8_t which)
{
    size_t used = slot_used(user, which);

    return used != SLOTS ? user->slots[used].request : 0;
}

/* ---- operations ---- */

/* Records a message to the other user that has left, or will. */
static void note(struct user *user, uint32_t context, uint64_t tag, size_t size)
{
    user->sent[user->sent_count++] =
        (struct sent){.context = context, .tag = tag, .size = size};
}

static void act_send(struct user *user, struct input *in)
{
    uint8_t what = take(in);
    struct slot *slot = slot_new(user, SLOT_SEND, take_size(in), SLOTS);
    uint32_t context = what >> 2 & 1;
    uint64_t tag = what >> 3 & 3;
    struct mbx_options options = {.user = slot, .data = user->sent_count};
    bool is_told = slot != NULL && (what & 64) == 0;
    int err;

    if (slot == NULL)
        return;
    slot->peer = (what >> 1 & 1) % user->peers;
    if (slot->peer == OTHER && user->sent_count == MESSAGES) {
        slot_free(slot);
        return;
    }
    if (slot->peer == OTHER)
        memcpy(slot->buf, content(user->sent_count), slot->size);
    slot->number = slot->peer == OTHER ? user->sent_count : MESSAGES;
    if (is_told)
        err = (what & 1 ? mbx_ssend : mbx_send)(user->ep, slot->peer, context, tag, slot->buf,
                                                slot->size, &options, &slot->request);
    else
        err =
            mbx_inject(user->ep, slot->peer, context, tag, slot->buf, slot->size, options.data);
    if (err == 0 && slot->peer == OTHER)
        note(user, context, tag, slot->size);
    if (err != 0 || !is_told)
        slot_free(slot);
}

static void post(struct user *user, struct slot *slot, const struct wanted *wanted)
{
    struct mbx_options options = {.user = slot};

    if (slot == NULL)
        return;
    slot->wanted = *wanted;
    slot->wanted.since = ++user->now;
    if (mbx_recv(user->ep, wanted->source, wanted->context, wanted->tag, wanted->ignore,
                 slot->buf, slot->size, &options, &slot->request) != 0)
        slot_free(slot);
}

static struct wanted take_wanted(const struct user *user, struct input *in)
{
    static const uint64_t ignores[] = {0, 1, 3, MBX_IGNORE_ALL};
    uint8_t what = take(in);

    return (struct wanted){
        .source = (what & 3) == 3 ? MBX_ANY_SOURCE : (what & 3) % user->peers,
        .context = what >> 2 & 1,
        .tag = what >> 3 & 3,
        .ignore = ignores[what >> 5 & 3],
    };
}

static void act_recv(struct user *user, struct input *in)
{
    struct wanted wanted = take_wanted(user, in);

    post(user, slot_new(user, SLOT_RECV, take_size(in), SLOTS), &wanted);
}

static void act_probe(struct user *user, struct input *in)
{
    struct wanted wanted = take_wanted(user, in);
    struct mbx_status status;

    wanted.since = ++user->now;
    if (user->has_message) {
        mbx_probe(user->ep, wanted.source, wanted.context, wanted.tag, wanted.ignore, &status);
        return;
    }
    if (mbx_mprobe(user->ep, wanted.source, wanted.context, wanted.tag, wanted.ignore,
                   &user->status, &user->message) != 1)
        return;
    user->has_message = true;
    user->probe = wanted;
}

static bool accepts(const struct wanted *wanted, const struct mbx_status *status)
{
    return (wanted->source == MBX_ANY_SOURCE || wanted->source == status->source) &&
           wanted->context == status->context_id &&
           ((wanted->tag ^ status->tag) & ~wanted->ignore) == 0;
}

/* Is there a pair of messages in the wrong order, one of which `by` got? */
static bool is_overtaken(const struct user *from, uint32_t number)
{
    const struct sent *this = &from->sent[number];

    for (uint32_t i = 0; i < from->sent_count; i++) {
        const struct sent *that = &from->sent[i];
        const struct sent *elder = i < number ? that : this;
        const struct sent *younger = i < number ? this : that;
        const struct mbx_status status = {
            .context_id = elder->context, .source = OTHER, .tag = elder->tag};

        if (i != number && that->is_received && younger->by.since < elder->by.since &&
            accepts(&younger->by, &status))
            return true;
    }
    return false;
}

/* `by` has received, or dropped, a message of the other user. */
static void receive(struct user *user, const struct mbx_status *status, const struct wanted *by)
{
    struct sent *sent = &user->other->sent[status->data];

    require(status->data < user->other->sent_count, "a message that was not sent");
    require(!sent->is_received, "a message comes twice");
    require(sent->context == status->context_id && sent->tag == status->tag &&
                sent->size == status->size,
            "a message has another envelope");
    sent->is_received = true;
    sent->by = *by;
    require(!is_overtaken(user->other, (uint32_t)status->data), "a message is overtaken");
}

/* Receives or drops the message of a matched probe. */
static void use_message(struct user *user, bool discards, struct slot *slot)
{
    struct mbx_options options = {.user = slot};

    if (!user->has_message || (!discards && slot == NULL))
        return;
    require(accepts(&user->probe, &user->status), "a probe found what it does not accept");
    if (discards) {
        int err = mbx_discard(user->ep, user->message);

        require(err == 0 || err == -ENOMEM, "mbx_discard");
        if (err != 0)
            return; /* the message is still held */
        if (user->status.source == OTHER)
            receive(user, &user->status, &user->probe);
    } else {
        slot->wanted = user->probe;
        if (mbx_mrecv(user->ep, user->message, slot->buf, slot->size, &options,
                      &slot->request) != 0) {
            slot_free(slot);
            return;
        }
    }
    user->has_message = false;
}

static void act_use(struct user *user, struct input *in)
{
    uint8_t what = take(in);

    if (!user->has_message)
        return;
    use_message(user, what & 1,
                what & 1 ? NULL : slot_new(user, SLOT_RECV, take_size(in), SLOTS));
}

static void act_access(struct user *user, struct input *in)
{
    uint8_t what = take(in), how = take(in);
    struct slot *slot = slot_new(user, SLOT_ACCESS, take_size(in), SLOTS);
    struct mbx_options options = {.user = slot, .flags = what & 4 ? MBX_REMOTE_DATA : 0};
    struct mbx_atomic_args atomic = {
        .op = (enum mbx_op)(how & 31) % MBX_OPS, .type = MBX_UINT64, .key = REGION_KEY};
    int err;

    if (slot == NULL)
        return;
    slot->peer = (what & 1) % user->peers;
    atomic.count = 1 + (how >> 5);
    atomic.operand = atomic.op == MBX_ATOMIC_READ ? NULL : user->results;
    atomic.compare = atomic.op >= MBX_CSWAP ? user->results + 64 : NULL;
    atomic.result = how & 16 || atomic.op == MBX_ATOMIC_READ ? slot->buf : NULL;
    if ((what & 24) == 24 && (atomic.result == NULL || slot->size >= 64))
        err = mbx_atomic(user->ep, slot->peer, &atomic, &(struct mbx_options){.user = slot},
                         &slot->request);
    else if (what & 8)
        err = mbx_read(user->ep, slot->peer, slot->buf, slot->size, REGION_KEY, how,
                       &(struct mbx_options){.user = slot}, &slot->request);
    else
        err = mbx_write(user->ep, slot->peer, slot->buf, slot->size, REGION_KEY, how, &options,
                        &slot->request);
    if (err != 0)
        slot_free(slot);
}

/* Registers the region, or deregisters it. */
static void act_share(struct user *user, struct input *in)
{
    const struct mbx_region region = {
        .buf = user->region, .size = REGION_SIZE, .rights = take(in) % 4};

    if (mbx_register(user->ep, REGION_KEY, &region) == -EEXIST)
        mbx_deregister(user->ep, REGION_KEY);
}

static void act_cancel(struct user *user, uint8_t which)
{
    size_t used = slot_used(user, which);

    if (used != SLOTS)
        user->slots[used].is_asked |= mbx_cancel(user->ep, user->slots[used].request) == 0;
}

void user_act(struct user *user, struct input *in)
{
    uint8_t what = take(in);

    switch (what % 8) {
    case 0:
    case 1:
        act_send(user, in);
        break;
    case 2:
    case 3:
        act_recv(user, in);
        break;
    case 4:
        act_probe(user, in);
        break;
    case 5:
        act_use(user, in);
        break;
    case 6:
        if (what & 128)
            act_share(user, in);
        else
            act_access(user, in);
        break;
    case 7:
        act_cancel(user, what >> 3);
        break;
    }
}

/* ---- checks ---- */

static bool is_all(const unsigned char *bytes, size_t size, unsigned char byte)
{
    return size == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static void check_from_other(struct user *user, const struct slot *slot,
                             const struct mbx_completion *done)
{
    require(done->error == 0 || done->error == -EMSGSIZE, "a receive failed");
    receive(user, &done->status, &slot->wanted);
    require(done->received == min_size(slot->size, done->status.size),
            "a receive got more or less than there is");
    require(memcmp(slot->buf, content((uint32_t)done->status.data), done->received) == 0,
            "a receive got other bytes than were sent");
    require(is_all(slot->buf + done->received, slot->size - done->received, BUFFER_BYTE),
            "more was written than was received");
}

static void check_from_byzantine(const struct user *user, const struct slot *slot,
                                 const struct mbx_completion *done)
{
    require(user->peers == 2 && done->status.source == BYZANTINE, "a message of nobody");
    require(done->received <= slot->size, "a receive got more than its buffer holds");
    for (size_t i = 0; i < slot->size; i++)
        require(slot->buf[i] == BUFFER_BYTE || slot->buf[i] == BYZANTINE_BYTE,
                "a message brings bytes that its sender did not have");
}

static void check_recv(struct user *user, const struct slot *slot,
                       const struct mbx_completion *done)
{
    if (done->error == -ECANCELED)
        return;
    if (done->error == -ENOTCONN) {
        require(user->peers == 2 && (slot->wanted.source == BYZANTINE ||
                                     (slot->wanted.source == MBX_ANY_SOURCE &&
                                      done->status.source == BYZANTINE)),
                "a receive of the living failed");
        return;
    }
    require(accepts(&slot->wanted, &done->status),
            "a receive got a message that it does not accept");
    if (done->status.source == OTHER)
        check_from_other(user, slot, done);
    else
        check_from_byzantine(user, slot, done);
    if (done->error != -EIO ||
        done->status.source != BYZANTINE) /* the sender may report that the rest will not
                                           * come */
        require(done->error == (done->status.size > slot->size ? -EMSGSIZE : 0),
                "a receive ended with the wrong error");
}

static void check_send(struct user *user, const struct slot *slot,
                       const struct mbx_completion *done)
{
    require(done->error != -ECANCELED || slot->is_asked,
            "a send was taken back, and nobody had asked");
    if (done->error == 0 || slot->peer == BYZANTINE)
        return;
    require((done->error == -ENOMEM || done->error == -ECANCELED) &&
                slot->number < user->sent_count,
            "a send failed");
    require(!user->sent[slot->number].is_received, "what was not sent was received");
    user->sent[slot->number].is_received = true; /* so that nobody waits for it */
    user->sent[slot->number].by = (struct wanted){.context = UINT32_MAX};
    user->sent[slot->number].context = UINT32_MAX;
}

static void take_one(struct user *user, const struct mbx_completion *done)
{
    struct slot *slot = done->user;

    user->done++;
    if (done->kind == MBX_EVENTS) {
        require(done->error == 0 && done->status.source < user->peers, "an event of nobody's");
        return;
    }
    require(slot >= user->slots && slot < user->slots + SLOTS_ALL &&
                slot->request == done->request,
            "a completion of nobody's");
    require((done->kind == MBX_SENDS) == (slot->kind == SLOT_SEND) &&
                (done->kind == MBX_ACCESS) == (slot->kind == SLOT_ACCESS) &&
                (done->kind == MBX_RECVS) == (slot->kind == SLOT_RECV),
            "a completion of the wrong kind");
    if (slot->kind == SLOT_RECV)
        check_recv(user, slot, done);
    else if (slot->kind == SLOT_SEND)
        check_send(user, slot, done);
    slot_free(slot);
}

void user_take_completions(struct user *user)
{
    struct mbx_completion done;

    while (mbx_poll(user->ep, MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS, &done, 1) == 1)
        take_one(user, &done);
}

/* ---- bounds ---- */

static uint32_t slots_used(const struct user *user)
{
    uint32_t used = 0;

    for (size_t i = 0; i < SLOTS_ALL; i++)
        used += user->slots[i].kind != SLOT_FREE;
    return used;
}

/* Maximum number of requests other than the user's: accesses of peers, FINs that peers do not
 * read, injected messages that have not left. */
static uint64_t requests_most(const struct user *user)
{
    uint64_t most = slots_used(user) + user->ep->requests.injected;

    for (uint32_t i = 0; i < user->peers; i++) {
        const struct peer *peer = peer_get(user->ep, i);

        most += ACCESS_WINDOW + EVENT_WINDOW + FINS_MOST + BACKLOG_CLAIMS;
        most += min_size(peer_credit(peer)->window, 65536) + MESSAGES;
    }
    return most;
}

void user_check(const struct user *user)
{
    const struct mbx_ep *ep = user->ep;
    const struct context *context;
    uint64_t capacity = ep_credit(ep)->extra_all;
    size_t position = 0;

    require(pool_is_valid(&ep->requests.pool) && pool_is_valid(&ep->messages),
            "a pool is damaged");
    while ((context = context_next(ep, &position)) != NULL)
        require(mbx_match_is_valid(&context->match), "an engine is damaged");
    for (uint32_t i = 0; i < user->peers; i++) {
        const struct credit *credit = peer_credit(peer_get(ep, i));

        capacity += ep_credit(ep)->window * CREDIT_ENVELOPE + ep_credit(ep)->window_payload;
        require(credit->kept_envelopes <= credit->window &&
                    credit->kept_payload <= credit->window_payload,
                "a peer has more here than it was given");
    }
    /* and the message that a matched probe has taken from its sender, or keeps */
    require(ep->stats.unexpected_bytes_now <= capacity + 2 * BIGGEST,
            "kept messages need more memory than was given for them");
    require(ep->stats.requests_now <= requests_most(user), "requests are lost");
}

/* ---- the end ---- */

/* The number of messages to user on this context that were not received. */
static uint32_t missing(const struct user *user, uint32_t context)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < user->other->sent_count; i++)
        count += !user->other->sent[i].is_received && user->other->sent[i].context == context;
    return count;
}

/* Posts a receive for the missing messages of each context, unless there is one. */
static void ask(struct user *user)
{
    for (uint32_t context = 0; context < 2; context++) {
        const struct wanted wanted = {
            .source = OTHER, .context = context, .ignore = MBX_IGNORE_ALL};
        bool is_asked = false;

        for (size_t i = SLOTS; i < SLOTS_ALL; i++)
            is_asked |= user->slots[i].kind == SLOT_RECV &&
                        user->slots[i].wanted.context == context &&
                        user->slots[i].wanted.source == OTHER;
        if (is_asked || missing(user, context) == 0)
            continue;
        for (size_t i = SLOTS; i < SLOTS_ALL; i++)
            if (user->slots[i].kind == SLOT_FREE) {
                user->slots[i] = (struct slot){.kind = SLOT_RECV, .size = BIGGEST};
                user->slots[i].buf = malloc(BIGGEST);
                memset(user->slots[i].buf, BUFFER_BYTE, BIGGEST);
                post(user, &user->slots[i], &wanted);
                break;
            }
    }
}

/* Is there an operation between the two that has not ended? */
static bool is_waiting(const struct user *user)
{
    for (size_t i = 0; i < SLOTS_ALL; i++)
        if (user->slots[i].peer == OTHER &&
            (user->slots[i].kind == SLOT_SEND || user->slots[i].kind == SLOT_ACCESS))
            return true;
    return missing(user, 0) + missing(user, 1) != 0;
}

/* Rounds of progress in both.  False: there was no progress for too long. */
static bool round_of(struct user *a, struct user *b, int *quiet)
{
    uint64_t done = a->done + b->done;
    int moved = mbx_progress(a->ep) + mbx_progress(b->ep);

    user_take_completions(a);
    user_take_completions(b);
    *quiet = moved + (int)(a->done + b->done - done) != 0 ? 0 : *quiet + 1;
    fuzz_time_pass(END_WAIT_NS);
    return *quiet < PATIENCE;
}

void user_finish(struct user *a, struct user *b)
{
    int quiet = 0;

    for (int rounds = 0; is_waiting(a) || is_waiting(b); rounds++) {
        for (int i = 0; i < 2; i++) {
            struct user *user = i == 0 ? a : b;

            if (user->has_message)
                use_message(user, false, slot_new(user, SLOT_RECV, BIGGEST, SLOTS_ALL));
            ask(user);
        }
        require(round_of(a, b, &quiet) && rounds < ROUNDS_MOST,
                "what one correct peer has sent to another does not arrive");
    }
}

/* Cancels all receives; returns the number of active requests of any kind. */
static int cancel_all(struct user *user)
{
    int count = 0;

    for (size_t i = 0; i < SLOTS_ALL; i++) {
        count += user->slots[i].kind != SLOT_FREE;
        if (user->slots[i].kind == SLOT_RECV)
            mbx_cancel(user->ep, user->slots[i].request);
    }
    return count;
}

void user_end(struct user *a, struct user *b)
{
    int quiet = 0;

    for (int rounds = 0; cancel_all(a) + cancel_all(b) != 0; rounds++)
        require(round_of(a, b, &quiet) && rounds < ROUNDS_MOST, "a request never ends");
}

void user_open(struct user *user, struct mbx_ep *ep, struct user *other, uint32_t peers)
{
    memset(user, 0, sizeof *user);
    user->ep = ep;
    user->other = other;
    user->peers = peers;
    user->region = calloc(1, REGION_SIZE);
}

void user_free(struct user *user)
{
    free(user->region);
    for (size_t i = 0; i < SLOTS_ALL; i++)
        require(user->slots[i].kind == SLOT_FREE, "a request is left");
}
