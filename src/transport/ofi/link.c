/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - a way to another endpoint over the network, from the greeting to the end.
 *
 *   NEW ──> CALLING ──────────> OPEN ──────> DEAD      a packet is to leave; WELCOME came
 *    │         │                 ^            ^
 *    └─────────┴──> ANSWERING ───┘            │        HELLO came; PROOF came
 *              └─────────┴────────────────────┘        refused, closed, broken
 *
 * Between two calls of ours, and of the peer's, may lie an hour.  So who is greeted and does
 * not answer is greeted again, ever more rarely, and who was answered and is silent may still
 * prove himself when his place among the strangers is others' again (forget_call()).
 *
 * What is sent before the link is open waits in its queue.  What cannot leave because the
 * provider is full waits there, too; beyond OFI_QUEUE_MAX packets send() says "full".
 *
 * A peer that closes says BYE, so a connection that breaks without one is a death.  Who only
 * waits sends nothing that could break: so check() asks a silent peer whether it is there, and
 * tend() does for who has packets that do not leave.  An answer is waited for only if there is
 * a time limit, because a peer that computes does not answer; but the question to one that is
 * no more fails, or does not leave, and then listener.c finds out why.
 *
 * If the host of who was never met refuses a connection, its endpoint, which had an address,
 * is no more; whether it has closed or died nobody can know (is_lost).
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "transport/ofi/ofi.h"

#define SILENCE_NS  (500 * CLOCK_MS) /* then it is asked */
#define STUCK_NS    (100 * CLOCK_MS) /* a question that leaves no sooner may never do */
#define GREETING_NS (10 * CLOCK_S)   /* so long a greeting may take that nobody wonders */
#define AGAIN_NS    (250 * CLOCK_MS) /* then it is said again: there may have been no memory */
#define AGAIN_MAX   (32 * CLOCK_S)
#define BREAKS_MAX  8 /* connections that end in a greeting */

static struct ofi_link *busy_link(struct list *node)
{
    return container_of(node, struct ofi_link, in_busy);
}

/* ---- being there ---- */

/* The same in all but the core's word. */
static bool is_same(const struct transport_address *a, const struct transport_address *b)
{
    struct transport_address x = *a, y = *b;

    memset(&x.bytes[TRANSPORT_WELCOME], 0, 4);
    memset(&y.bytes[TRANSPORT_WELCOME], 0, 4);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Do packets to the one reach the other? */
static bool is_same_place(const struct transport_address *a, const struct transport_address *b)
{
    return memcmp(&a->bytes[TRANSPORT_NETWORK_HEAD], &b->bytes[TRANSPORT_NETWORK_HEAD], 3) ==
               0 &&
           memcmp(&a->bytes[TRANSPORT_NETWORK], &b->bytes[TRANSPORT_NETWORK],
                  TRANSPORT_NETWORK_SIZE) == 0;
}

int ofi_check_address(const struct ofi *ofi, const struct transport_address *address)
{
    const uint8_t *head = &address->bytes[TRANSPORT_NETWORK_HEAD];
    const uint8_t *own = &ofi->self.bytes[TRANSPORT_NETWORK_HEAD];

    if (address->bytes[0] != TRANSPORT_OFI && address->bytes[0] != TRANSPORT_SHM)
        return -EINVAL;
    if (head[0] == 0)
        return address->bytes[0] == TRANSPORT_SHM ? -EHOSTUNREACH : -EINVAL;
    if (head[0] > TRANSPORT_NETWORK_SIZE)
        return -EINVAL;
    return memcmp(head, own, 3) == 0 ? 0 : -EHOSTUNREACH; /* of another provider */
}

static int ids_grow(struct ofi *ofi)
{
    uint32_t room = ofi->id_room == 0 ? 8 : ofi->id_room * 2;
    struct ofi_link **by_id = mem_realloc(ofi->by_id, room * sizeof *by_id);

    if (by_id == NULL)
        return -ENOMEM;
    ofi->by_id = by_id;
    ofi->id_room = room;
    return 0;
}

static int link_init(struct ofi *ofi, struct ofi_link *link,
                     const struct transport_address *address)
{
    int known, err = random_secret(&link->ours, sizeof link->ours);

    if (err != 0)
        return err;
    list_init(&link->queue);
    list_init(&link->moving);
    list_init_node(&link->in_busy);
    list_init_node(&link->in_holding);
    link->member.link.transport = &ofi->base;
    link->member.address = *address;
    link->look_fd = -1;
    link->is_self = is_same(address, &ofi->self);
    link->state = link->is_self ? OFI_OPEN : OFI_NEW;
    link->id = ofi->id_count + 1;
    link->ours.id = link->id;
    link->ours.zero = 0;
    known = fi_av_insert(ofi->av, &address->bytes[TRANSPORT_NETWORK], 1, &link->to, 0, NULL);
    if (known == -FI_ENOMEM)
        return -ENOMEM; /* another time there may be */
    if (known != 1) {
        link->state = OFI_DEAD; /* well-formed, and no address to the provider */
        link->error = -EHOSTUNREACH;
    }
    return 0;
}

int ofi_link_get(struct ofi *ofi, const struct transport_address *address,
                 struct ofi_link **out)
{
    struct links_member *known = links_find(&ofi->links, address);
    struct ofi_link *link;
    int err = known != NULL ? 0 : ofi_check_address(ofi, address);

    if (known != NULL)
        *out = container_of(known, struct ofi_link, member);
    if (known != NULL || err != 0)
        return err;
    if (ofi->id_count == ofi->id_room && ids_grow(ofi) != 0)
        return -ENOMEM;
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return -ENOMEM;
    err = link_init(ofi, link, address);
    if (err == 0)
        err = links_add(&ofi->links, &link->member);
    if (err != 0) {
        mem_free(link);
        return err;
    }
    ofi->by_id[ofi->id_count++] = link;
    *out = link;
    return 0;
}

void ofi_link_destroy(struct ofi_link *link)
{
    list_remove(&link->in_busy);
    list_remove(&link->in_holding);
    ofi_listener_forget(link);
    mem_free(link);
}

static void set_state(struct ofi_link *link, enum ofi_state state)
{
    struct ofi *ofi = ofi_of_link(link);

    ofi->strangers += state == OFI_ANSWERING;
    ofi->strangers -= link->state == OFI_ANSWERING;
    link->state = state;
}

static void heard(struct ofi_link *link)
{
    link->heard_ns = 0; /* until somebody looks at the clock */
    link->silent_ns = 0;
}

/* ---- buffers ---- */

static struct ofi_buffer *buffer_take(struct ofi *ofi, uint32_t reserve)
{
    struct list *node = ofi->free_count > reserve ? list_pop_head(&ofi->free) : NULL;

    if (node == NULL)
        return NULL;
    ofi->free_count--;
    return container_of(node, struct ofi_buffer, node);
}

static void buffer_give(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer->link = NULL;
    list_add_head(&ofi->free, &buffer->node); /* the one that the cache still has */
    ofi->free_count++;
}

static void write_prefix(unsigned char *bytes, const struct ofi_link *link, enum ofi_kind kind,
                         size_t padding)
{
    const struct ofi_prefix prefix = {
        .kind = (uint8_t)kind,
        .version = OFI_VERSION,
        .count =
            (uint16_t)(padding | (ofi_counts(kind) ? link->left & OFI_COUNT_MASK : 0) << 3),
        .to = kind == OFI_HELLO ? 0 : link->theirs.id,
        .token = kind == OFI_HELLO ? 0 : link->theirs.token,
    };

    memcpy(bytes, &prefix, sizeof prefix);
}

/* ---- the end ---- */

void ofi_link_kill(struct ofi_link *link, int error, bool has_died)
{
    struct ofi *ofi = ofi_of_link(link);
    struct list *node;

    if (link->state == OFI_DEAD)
        return;
    LOG_DEBUG("ofi: link %u ends, error %d %s", link->id, -error, strerror(-error));
    set_state(link, OFI_DEAD);
    link->error = error;
    link->has_died = has_died;
    link->owes = 0;
    while ((node = list_pop_head(&link->queue)) != NULL)
        buffer_give(ofi, container_of(node, struct ofi_buffer, node));
    link->queued = 0;
    list_remove(&link->in_busy);
    ofi_listener_forget(link);
    ofi_moving_failed(link);
}

void ofi_link_broken(struct ofi_link *link)
{
    LOG_WARN("ofi: link %u: packets were lost when a connection broke", link->id);
    ofi_link_kill(link, -ENOTCONN, true);
    ofi_owe(link, OFI_BROKEN);
}

void ofi_link_told_late(struct ofi_link *link)
{
    if (link->state == OFI_DEAD && link->has_died)
        ofi_owe(link, OFI_BROKEN);
}

void ofi_sent(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer_give(ofi, buffer);
}

/* It was not the caller who called, or he is gone, or he computes: whoever greets next has his
 * place.  What he is called stays known, since he may have our answer before him. */
static void forget_call(struct ofi_link *link)
{
    set_state(link, OFI_NEW);
    link->owes = 0;
    if (link->queued != 0)
        ofi_call(link);
}

/* Did a connection end that there was? */
static bool is_break(int error)
{
    return error == FI_ENOTCONN || error == FI_ECONNRESET || error == FI_ECONNABORTED ||
           error == EPIPE || error == FI_ESHUTDOWN;
}

/* Something of a greeting did not arrive.  If the connection broke, it may come again: the
 * greeting is said again, and whether somebody is there to hear it is seen then. */
static void greeting_failed(struct ofi_link *link, int error)
{
    bool may_heal = is_break(error) && ++link->breaks < BREAKS_MAX;

    if (may_heal && link->state == OFI_ANSWERING)
        forget_call(link);
    if (may_heal)
        return;
    link->is_lost = is_break(error) || error == FI_ECONNREFUSED;
    ofi_link_kill(link, -EHOSTUNREACH, false);
}

void ofi_send_failed(struct ofi *ofi, struct ofi_buffer *buffer, int error)
{
    struct ofi_link *link = buffer->link;

    buffer_give(ofi, buffer);
    if ((error == FI_ECANCELED && ofi->is_closing) || link->state == OFI_DEAD)
        return;
    LOG_DEBUG("ofi: a packet was not sent, error %d %s", error, ofi->library->strerror(error));
    if (link->state == OFI_OPEN)
        ofi_link_kill(link, -ENOTCONN, true);
    else
        greeting_failed(link, error);
}

/* ---- leaving ---- */

static void mark_busy(struct ofi_link *link)
{
    if (!list_is_linked(&link->in_busy))
        list_add_tail(&ofi_of_link(link)->busy, &link->in_busy);
}

void ofi_owe(struct ofi_link *link, enum ofi_kind kind)
{
    link->owes |= (uint16_t)(1u << kind);
    mark_busy(link);
}

/* As far as `kind` goes. */
static struct ofi_greeting greeting_of(const struct ofi_link *link, bool we_call,
                                       enum ofi_kind kind)
{
    const struct ofi *ofi = ofi_of_link(link);
    struct ofi_greeting greeting = {
        .caller = we_call ? ofi->self : link->member.address,
        .callee = we_call ? link->member.address : ofi->self,
        .from_caller = we_call ? link->ours : link->theirs,
    };

    if (kind != OFI_HELLO) {
        greeting.from_callee = we_call ? link->theirs : link->ours;
        greeting.words_of_callee = we_call ? link->words : ofi->words.place;
    }
    if (kind == OFI_PROOF)
        greeting.words_of_caller = we_call ? ofi->words.place : link->words;
    return greeting;
}

static size_t write_body(struct ofi_link *link, enum ofi_kind kind, unsigned char *body)
{
    const struct ofi *ofi = ofi_of_link(link);
    const struct ofi_greeting greeting = greeting_of(link, kind != OFI_WELCOME, kind);
    struct ofi_hello hello = {
        .from = ofi->self, .to = link->member.address, .caller = link->ours};
    struct ofi_welcome welcome = {.callee = link->ours, .words = ofi->words.place};
    struct ofi_proof proof = {.words = ofi->words.place};

    if (kind == OFI_HELLO) {
        ofi_prove(ofi->key, kind, &greeting, hello.proof);
        memcpy(body, &hello, sizeof hello);
    } else if (kind == OFI_WELCOME) {
        ofi_prove(ofi->key, kind, &greeting, welcome.proof);
        memcpy(body, &welcome, sizeof welcome);
    } else if (kind == OFI_PROOF) {
        ofi_prove(ofi->key, kind, &greeting, proof.proof);
        memcpy(body, &proof, sizeof proof);
    }
    return ofi_body_size(kind);
}

/* 0; -EAGAIN; or the link is dead. */
static int hand_over(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);
    ssize_t err;

    buffer->link = link;
    err = fi_send(ofi->ep, buffer->bytes, buffer->size, buffer->descriptor, link->to,
                  &buffer->operation.context);
    if (err == -FI_EAGAIN)
        return -EAGAIN;
    if (err != 0)
        ofi_send_failed(ofi, buffer, (int)-err);
    return err == 0 ? 0 : link->error;
}

static int pay_one(struct ofi_link *link, enum ofi_kind kind)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer = buffer_take(ofi, 0);
    int err;

    if (buffer == NULL)
        return -EAGAIN;
    write_prefix(buffer->bytes, link, kind, 0);
    buffer->size = sizeof(struct ofi_prefix) +
                   write_body(link, kind, buffer->bytes + sizeof(struct ofi_prefix));
    err = hand_over(link, buffer);
    if (err == -EAGAIN)
        buffer_give(ofi, buffer);
    else
        link->owes &= (uint16_t) ~(1u << kind);
    return err;
}

/* Of what a link owes, what goes in front of its packets, and behind. */
static const enum ofi_kind before[] = {OFI_HELLO, OFI_WELCOME, OFI_PROOF, OFI_REFUSED,
                                       OFI_PING,  OFI_PONG,    OFI_BROKEN};

static int pay(struct ofi_link *link, const enum ofi_kind *kinds, size_t count, int *paid)
{
    int err = 0;

    for (size_t i = 0; i < count && err == 0 && link->owes != 0; i++)
        if (link->owes & 1u << kinds[i]) {
            err = pay_one(link, kinds[i]);
            *paid += err == 0;
        }
    return err;
}

static int leave(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);

    if (!link->is_self) {
        int err;

        /* only now: what it is called there may be known since a moment ago */
        write_prefix(buffer->bytes, link, OFI_DATA, buffer->padding);
        err = hand_over(link, buffer);
        ofi->begun += err == 0;
        link->left += err == 0;
        return err;
    }
    if (!ofi->is_closing &&
        ofi_deliver(link, buffer->bytes + sizeof(struct ofi_prefix), buffer->size) == -EAGAIN)
        return -EAGAIN;
    buffer_give(ofi, buffer);
    return 0;
}

static int push_queue(struct ofi_link *link, int *pushed)
{
    uint32_t most = link->queued; /* to ourselves there may be ever more */
    int err = 0;

    while (link->state == OFI_OPEN && !list_is_empty(&link->queue) && most-- != 0) {
        struct list *node = list_pop_head(&link->queue);

        err = leave(link, container_of(node, struct ofi_buffer, node));
        if (err == -EAGAIN)
            list_add_head(&link->queue, node);
        if (err != 0)
            return err;
        link->queued--;
        ++*pushed;
    }
    return err;
}

static int push(struct ofi_link *link)
{
    static const enum ofi_kind behind = OFI_BYE;
    int moved = 0;
    int err = pay(link, before, ARRAY_COUNT(before), &moved);

    if (err == 0)
        err = push_queue(link, &moved);
    if (err == 0 && list_is_empty(&link->queue))
        pay(link, &behind, 1, &moved);
    if (link->owes == 0 && list_is_empty(&link->queue))
        list_remove(&link->in_busy);
    return moved;
}

int ofi_push_all(struct ofi *ofi)
{
    struct list now;
    struct list *node;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ofi->busy);
    while ((node = list_pop_head(&now)) != NULL) {
        list_add_tail(&ofi->busy, node);
        moved += push(busy_link(node));
    }
    return moved;
}

/* ---- sending ---- */

void ofi_call(struct ofi_link *link)
{
    set_state(link, OFI_CALLING);
    link->since_ns = link->asked_ns = clock_now();
    ofi_owe(link, OFI_HELLO);
}

static void write_packet(unsigned char *bytes, const struct transport_packet *packet)
{
    memcpy(bytes, packet->header, sizeof *packet->header);
    bytes += sizeof *packet->header;
    if (packet->body_size != 0)
        memcpy(bytes, packet->body, packet->body_size);
    if (packet->payload_size != 0)
        memcpy(bytes + packet->body_size, packet->payload, packet->payload_size);
}

/* The short way of a short packet.  0; or it has to take the long one. */
static int inject(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                  size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    alignas(8) unsigned char bytes[256];

    write_prefix(bytes, link, OFI_DATA, padding);
    write_packet(bytes + sizeof(struct ofi_prefix), packet);
    memset(bytes + size - padding, 0, padding);
    if (fi_inject(ofi->ep, bytes, size, link->to) != 0)
        return -EAGAIN;
    ofi->begun++;
    link->left++;
    return 0;
}

static int enqueue(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                   size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer =
        link->queued < OFI_QUEUE_MAX ? buffer_take(ofi, OFI_RESERVE) : NULL;

    if (buffer == NULL)
        return -EAGAIN;
    write_packet(buffer->bytes + sizeof(struct ofi_prefix), packet);
    memset(buffer->bytes + size - padding, 0, padding);
    buffer->size = link->is_self ? size - padding - sizeof(struct ofi_prefix) : size;
    buffer->padding = padding;
    buffer->link = link;
    list_add_tail(&link->queue, &buffer->node);
    link->queued++;
    return 0;
}

int ofi_send(struct link *l, const struct transport_packet *packet)
{
    struct ofi_link *link = ofi_link_of(l);
    struct ofi *ofi = ofi_of_link(link);
    size_t used = sizeof(struct ofi_prefix) + sizeof *packet->header + packet->body_size +
                  packet->payload_size;
    size_t padding = -used % 8, size = used + padding;
    int moved = 0, err;

    assert(used - sizeof(struct ofi_prefix) <= OFI_PACKET_MAX);
    if (link->state == OFI_DEAD)
        return link->error;
    if (link->state == OFI_NEW)
        ofi_call(link);
    if (size <= ofi->inject_max && link->state == OFI_OPEN && !link->is_self &&
        !list_is_linked(&link->in_busy) && inject(link, packet, size, padding) == 0)
        return 0;
    err = enqueue(link, packet, size, padding);
    if (err != 0)
        return err;
    if (link->is_self || list_is_linked(&link->in_busy)) {
        mark_busy(link);
        return 0;
    }
    push_queue(link, &moved);
    if (link->state == OFI_DEAD)
        return link->error;
    if (!list_is_empty(&link->queue))
        mark_busy(link);
    return 0;
}

/* ---- greeting ---- */

/* What is owed to who called before, under the same address, would go to who calls now. */
static void answer(struct ofi_link *link)
{
    link->owes &= (uint16_t) ~(1u << OFI_HELLO | 1u << OFI_REFUSED);
    link->since_ns = clock_now();
    set_state(link, OFI_ANSWERING);
    ofi_owe(link, OFI_WELCOME);
}

void ofi_greeted(struct ofi *ofi, const struct ofi_hello *hello)
{
    const struct ofi_greeting greeting = {
        .caller = hello->from, .callee = hello->to, .from_caller = hello->caller};
    struct ofi_link *link;

    if (!ofi_is_proved(ofi->key, OFI_HELLO, &greeting, hello->proof)) {
        ofi->events->dropped(ofi->arg, "a greeting of another job");
        return;
    }
    if (!is_same_place(&hello->to, &ofi->self)) {
        ofi->events->dropped(ofi->arg, "a greeting that was sent elsewhere");
        return; /* refused by us it would end what is others' */
    }
    if (ofi->strangers >= OFI_STRANGERS || ofi_link_get(ofi, &hello->from, &link) != 0) {
        ofi->events->dropped(ofi->arg, "a greeting that cannot be answered now");
        return;
    }
    if (link->is_self || (link->state != OFI_NEW && link->state != OFI_CALLING) ||
        (link->state == OFI_CALLING &&
         memcmp(&ofi->self, &hello->from, sizeof hello->from) < 0))
        return; /* said before, or our own call counts */
    link->theirs = hello->caller;
    if (!is_same(&hello->to, &ofi->self))
        ofi_owe(link, OFI_REFUSED); /* for who was here before us */
    else
        answer(link);
}

static void welcomed(struct ofi *ofi, struct ofi_link *link, const struct ofi_welcome *welcome)
{
    const struct ofi_name theirs = link->theirs;
    struct ofi_greeting greeting;

    if (link->state != OFI_CALLING)
        return;
    link->theirs = welcome->callee;
    link->words = welcome->words;
    greeting = greeting_of(link, true, OFI_WELCOME);
    if (!ofi_is_proved(ofi->key, OFI_WELCOME, &greeting, welcome->proof)) {
        link->theirs = theirs;
        memset(&link->words, 0, sizeof link->words);
        ofi->events->dropped(ofi->arg, "a welcome without proof");
        return;
    }
    set_state(link, OFI_OPEN);
    ofi_owe(link, OFI_PROOF);
}

/* Was it answered, and is not open?  Then it has been forgotten, if it is not ANSWERING. */
static bool may_prove(const struct ofi_link *link)
{
    return link->state == OFI_ANSWERING ||
           ((link->state == OFI_NEW || link->state == OFI_CALLING) && link->theirs.id != 0);
}

static void proved(struct ofi *ofi, struct ofi_link *link, const struct ofi_proof *proof)
{
    struct ofi_greeting greeting = greeting_of(link, false, OFI_PROOF);

    greeting.words_of_caller = proof->words;
    if (!may_prove(link) || !ofi_is_proved(ofi->key, OFI_PROOF, &greeting, proof->proof)) {
        ofi->events->dropped(ofi->arg, "a greeting without proof");
        return;
    }
    link->words = proof->words;
    link->owes &= (uint16_t) ~(1u << OFI_HELLO | 1u << OFI_WELCOME);
    set_state(link, OFI_OPEN);
    if (!list_is_empty(&link->queue))
        mark_busy(link);
}

/* It was never met, and is no more. */
static void lose(struct ofi_link *link)
{
    link->is_lost = true;
    ofi_link_kill(link, -EHOSTUNREACH, false);
}

void ofi_link_told(struct ofi *ofi, struct ofi_link *link, enum ofi_kind kind, const void *body)
{
    heard(link);
    switch (kind) {
    case OFI_WELCOME:
        welcomed(ofi, link, body);
        break;
    case OFI_PROOF:
        proved(ofi, link, body);
        break;
    case OFI_REFUSED:
        if (link->state == OFI_CALLING)
            lose(link);
        break;
    case OFI_PING:
        if (link->state == OFI_OPEN)
            ofi_owe(link, OFI_PONG);
        ofi_link_told_late(link);
        break;
    case OFI_BYE:
        if (link->state == OFI_OPEN)
            ofi_link_kill(link, -ENOTCONN, false);
        break;
    case OFI_BROKEN:
        if (link->state == OFI_OPEN)
            ofi_link_kill(link, -ENOTCONN, true);
        break;
    case OFI_DATA:
    case OFI_HELLO:
    case OFI_PONG:
    case OFI_KINDS:
        break;
    }
}

/* Has a packet of this kind been owed for long, and does not leave? */
static bool is_stuck(const struct ofi_link *link, enum ofi_kind kind, uint64_t since_ns,
                     uint64_t now)
{
    return (link->owes & 1u << kind) != 0 && now - since_ns > STUCK_NS;
}

static void tend_answering(struct ofi_link *link, uint64_t now)
{
    if (now - link->since_ns >= GREETING_NS)
        forget_call(link);
}

/* Nobody has answered for so long that the user is to hear of it, once. */
static void wonder(struct ofi_link *link, uint64_t now)
{
    if (link->is_wondered_at || now - link->since_ns < GREETING_NS)
        return;
    link->is_wondered_at = true;
    LOG_WARN("ofi: link %u: no answer to a greeting in 10 s: the other side computes, or has "
             "another MBX_KEY, or is not there",
             link->id);
}

static void greet_again(struct ofi_link *link, uint64_t now)
{
    uint64_t pause = link->asked_ns - link->since_ns; /* as long as all that was before */

    pause = pause < AGAIN_NS ? AGAIN_NS : pause < AGAIN_MAX ? pause : AGAIN_MAX;
    if (now - link->asked_ns <= pause)
        return;
    link->asked_ns = now;
    ofi_owe(link, OFI_HELLO);
}

static void tend_calling(struct ofi_link *link, uint64_t now)
{
    uint64_t timeout_ns = ofi_of_link(link)->timeout_ns;

    if (is_stuck(link, OFI_HELLO, link->since_ns, now) &&
        ofi_listener_look(link, now) == -ECONNREFUSED) {
        LOG_WARN("ofi: link %u: who is to be greeted has ended", link->id);
        lose(link);
        return;
    }
    if (timeout_ns != 0 && now - link->since_ns > timeout_ns) {
        LOG_WARN("ofi: link %u: no answer to a greeting within MBX_OFI_TIMEOUT", link->id);
        ofi_link_kill(link, -EHOSTUNREACH, true);
        return;
    }
    wonder(link, now);
    greet_again(link, now);
}

/* ---- is it there? ---- */

static void ask(struct ofi_link *link, uint64_t now)
{
    link->asked_ns = now;
    if (link->silent_ns == 0) {
        link->silent_ns = now;
        ofi_listener_forget(link);
    }
    ofi_owe(link, OFI_PING);
    push(link);
}

static void tend_open(struct ofi_link *link, uint64_t now)
{
    const struct ofi *ofi = ofi_of_link(link);

    if (link->heard_ns == 0)
        link->heard_ns = now;
    if (ofi->timeout_ns != 0 && link->silent_ns != 0 &&
        now - link->silent_ns > ofi->timeout_ns) {
        LOG_WARN("ofi: link %u: no answer within MBX_OFI_TIMEOUT", link->id);
        ofi_link_kill(link, -ENOTCONN, true);
    } else if (is_stuck(link, OFI_PING, link->asked_ns, now) &&
               ofi_listener_look(link, now) == -ECONNREFUSED) {
        LOG_DEBUG("ofi: link %u: its peer listens no more", link->id);
        ofi_link_kill(link, -ENOTCONN, true);
    } else if (now - link->heard_ns > SILENCE_NS && now - link->asked_ns > SILENCE_NS) {
        ask(link, now);
    }
}

/* Somebody waits for it. */
static void tend(struct ofi_link *link, uint64_t now)
{
    link->is_wanted = false;
    switch (link->state) {
    case OFI_CALLING:
        tend_calling(link, now);
        break;
    case OFI_ANSWERING:
        tend_answering(link, now);
        break;
    case OFI_OPEN:
        if (!link->is_self)
            tend_open(link, now);
        break;
    case OFI_DEAD: /* its last word is not tried for long */
        link->owes = 0;
        list_remove(&link->in_busy);
        break;
    case OFI_NEW:
        break;
    }
}

/* Does something of this link's own wait for its peer? */
static bool is_waiting(const struct ofi_link *link)
{
    return link->state != OFI_OPEN || list_is_linked(&link->in_busy) ||
           !list_is_empty(&link->moving) || link->is_wanted;
}

void ofi_tend(struct ofi *ofi)
{
    uint64_t now = clock_now();

    for (uint32_t i = 0; i < ofi->id_count; i++)
        if (is_waiting(ofi->by_id[i]))
            tend(ofi->by_id[i], now);
}

int ofi_link_check(struct link *l)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->state == OFI_NEW)
        ofi_call(link); /* somebody waits for it */
    else
        tend(link, clock_now());
    if (link->state != OFI_DEAD)
        return 0;
    if (link->is_lost)
        return -ECONNREFUSED;
    return link->has_died ? -EHOSTDOWN : link->error;
}
