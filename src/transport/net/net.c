/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * net.c - two endpoints meet over a network: who calls, who answers, when their link is open,
 * and how it ends.
 *
 *   NEW ──> CALLING ─> (CONFIRMING) ─> OPEN ──> DEAD   a packet is to be sent; WELCOME; READY
 *    │         │                        ^         ^
 *    └─────────┴──> ANSWERING ──────────┘         │     HELLO came; AUTH came
 *              └─────────┴────────────────────────┘     refused, closed, broken
 *
 * packet.h shows the packets.  Between two calls of ours, or of the peer's, an hour may pass.
 * So HELLO is repeated until the peer answers, at growing intervals; and a caller that was
 * answered and is silent may still authenticate itself after its place among the
 * unauthenticated callers was given to others (forget_call()).
 *
 * A connection that breaks may lose any of the three packets, without notice.
 *
 *   HELLO, WELCOME   repeated, until the next packet comes, or forget_call()
 *   AUTH             the caller treats the link as open once AUTH has left, and repeats AUTH when it
 *                    learns that the other side does not: from a WELCOME, or from a HELLO of
 *                    the other side
 *
 * If messages use another path than these packets (net_ops.confirms), the peer has to be ready
 * for them first: the caller is CONFIRMING, and repeats AUTH until READY comes, or a packet
 * that only a ready peer sends.  It also repeats HELLO: the peer may have closed meanwhile, and
 * another endpoint in its place answers REFUSED.
 *
 * A forgotten caller that sends PING is answered with WELCOME, so that it learns that it was
 * forgotten.  A peer that calls or answers us after our link to it has ended is told so.
 *
 * A HELLO of another version is answered with OTHER.  Both sides then know the other's version,
 * log it once, and there is no link.
 *
 * If the host of a peer that was never met refuses a connection, the peer, which had an
 * address, is gone; whether it has closed or died is unknown (NET_LOST).
 */
#include "transport/net/net.h"
#include "transport/shm/passing.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

#define HANDSHAKE_NS (10 * CLOCK_S)   /* the user is warned after this time */
#define AGAIN_NS     (250 * CLOCK_MS) /* the first repetition: there may have been no memory */
#define AGAIN_MAX    (32 * CLOCK_S)
#define BREAKS_MAX   8 /* connections that may end during a handshake */

static void control(struct net_link *link, enum net_kind kind)
{
    link->net->ops->control(link, kind);
}

static void net_forget(struct net_link *link, unsigned kinds)
{
    link->net->ops->forget(link, kinds);
}

static void dropped(const struct net *net, const char *reason)
{
    net->events->dropped(net->arg, reason);
}

int net_link_init(struct net *net, struct net_link *link,
                  const struct transport_address *address, uint32_t id)
{
    int err = random_secret(&link->ours, sizeof link->ours);

    if (err != 0)
        return err;
    link->net = net;
    link->address = address;
    link->is_self = address_is_same(address, &net->self);
    link->state = link->is_self ? NET_OPEN : NET_NEW;
    link->id = id;
    link->ours.id = id;
    link->ours.rank = net->rank;
    return 0;
}

static void set(struct net_link *link, enum net_state state)
{
    link->net->unauthenticated += state == NET_ANSWERING;
    link->net->unauthenticated -= link->state == NET_ANSWERING;
    link->state = state;
}

struct transport_who net_who(const struct net_link *link)
{
    const struct transport_address *address = link->address;
    bool is_passed = address->kind == ADDRESS_SHM && passing_is_number(address->process);

    return (struct transport_who){.rank = link->theirs.rank,
                                  .pid = is_passed ? address->place : address->process};
}

const char *net_peer_text(const struct net_link *link, char text[NET_PEER_TEXT])
{
    const struct net_ops *ops = link->net->ops;
    const struct transport_who who = net_who(link);
    char rank[24] = "a peer", process[32] = "", place[NET_PLACE] = "";

    if (who.rank != 0)
        snprintf(rank, sizeof rank, "rank %u", who.rank - 1);
    if (who.pid != 0)
        snprintf(process, sizeof process, " (process %u)", who.pid);
    if (ops->place != NULL)
        ops->place(link, place);
    snprintf(text, NET_PEER_TEXT, "%s%s%s%s", rank, process, place[0] != '\0' ? " at " : "",
             place);
    return text;
}

/* ---- the end ---- */

void net_kill(struct net_link *link, int error, enum net_end end)
{
    if (link->state == NET_DEAD)
        return;
    LOG_DEBUG("%s: link %u ends, error %d %s", link->net->name, link->id, -error,
              strerror(-error));
    set(link, NET_DEAD);
    link->error = error;
    link->end = end;
    net_forget(link, ~0u);
    link->net->ops->ended(link);
}

void net_break(struct net_link *link)
{
    char peer[NET_PEER_TEXT];

    LOG_WARN("%s: packets were lost when the connection to %s broke: operations with it end "
             "with errors; check the network",
             link->net->name, net_peer_text(link, peer));
    net_kill(link, -ENOTCONN, NET_DIED);
    control(link, NET_BROKEN);
}

void net_late(struct net_link *link)
{
    if (link->end == NET_DIED)
        control(link, NET_BROKEN);
}

int net_verdict(const struct net_link *link)
{
    switch (link->end) {
    case NET_LIVES:
        return 0;
    case NET_LOST:
        return -ECONNREFUSED;
    case NET_DIED:
        return -EHOSTDOWN;
    case NET_CLOSED:
        break;
    }
    return link->error;
}

/* ---- contents of packets ---- */

static struct net_offer offer_of(const struct net_link *link)
{
    struct net_offer offer;

    link->net->ops->offer(link, &offer);
    return offer;
}

/* The contents of a link's handshake up to the packet `kind`. */
static struct net_transcript transcript_of(const struct net_link *link, bool we_call,
                                           enum net_kind kind)
{
    const struct transport_address *self = &link->net->self;
    struct net_transcript said = {
        .caller = we_call ? *self : *link->address,
        .callee = we_call ? *link->address : *self,
        .from_caller = we_call ? link->ours : link->theirs,
    };

    if (kind == NET_HELLO) {
        said.version = version_own(NET_VERSION);
    } else {
        said.from_callee = we_call ? link->theirs : link->ours;
        said.offer_of_callee = we_call ? link->offer : offer_of(link);
    }
    if (kind == NET_AUTH)
        said.offer_of_caller = we_call ? offer_of(link) : link->offer;
    return said;
}

static void fill_hello(const struct net_link *link, unsigned char *body)
{
    const struct net_transcript said = transcript_of(link, true, NET_HELLO);
    struct net_hello hello = {
        .from = link->net->self, .to = *link->address, .caller = link->ours};

    net_sign(link->net->key, NET_HELLO, &said, hello.mac);
    memcpy(body, &hello, sizeof hello);
}

static void fill_welcome(const struct net_link *link, unsigned char *body)
{
    const struct net_transcript said = transcript_of(link, false, NET_WELCOME);
    struct net_welcome welcome = {.callee = link->ours, .offer = said.offer_of_callee};

    net_sign(link->net->key, NET_WELCOME, &said, welcome.mac);
    memcpy(body, &welcome, sizeof welcome);
}

static void fill_auth(const struct net_link *link, unsigned char *body)
{
    const struct net_transcript said = transcript_of(link, true, NET_AUTH);
    struct net_auth auth = {.offer = said.offer_of_caller};

    net_sign(link->net->key, NET_AUTH, &said, auth.mac);
    memcpy(body, &auth, sizeof auth);
}

uint64_t net_own_mark(void)
{
    const struct version own = version_own(NET_VERSION);
    uint64_t mark;

    memcpy(&mark, &own, sizeof mark);
    return mark;
}

size_t net_write(const struct net_link *link, enum net_kind kind, unsigned count,
                 unsigned char *bytes)
{
    unsigned char *body = bytes + sizeof(struct net_prefix);

    net_write_prefix(link, kind, count, 0, bytes);
    if (kind == NET_HELLO)
        fill_hello(link, body);
    if (kind == NET_WELCOME)
        fill_welcome(link, body);
    if (kind == NET_AUTH)
        fill_auth(link, body);
    if (kind == NET_OTHER)
        memcpy(body, &(uint64_t){net_own_mark()}, sizeof(uint64_t));
    return sizeof(struct net_prefix) + net_body_size(kind);
}

/* ---- versions ---- */

static bool is_unmet(const struct net_link *link)
{
    return link->state == NET_NEW || link->state == NET_CALLING;
}

/* The peer, which was never met, has an incompatible version. */
static void differ(struct net_link *link, const struct version *theirs)
{
    const struct transport_who who = net_who(link);
    char text[64];

    if (who.rank != 0)
        snprintf(text, sizeof text, "rank %u (pid %u)", who.rank - 1, who.pid);
    else
        snprintf(text, sizeof text, "pid %u", who.pid);
    version_warn(link->net->name, text, theirs, NET_VERSION);
    net_kill(link, -EPROTONOSUPPORT, NET_CLOSED);
}

/* A HELLO of the job in another version, for us or for an earlier endpoint at our address. */
static void hear_other(struct net_link *link, const struct net_hello *hello,
                       const struct version *theirs)
{
    if (!is_unmet(link) && link->error != -EPROTONOSUPPORT)
        return;
    link->theirs = hello->caller;
    if (!address_is_same(&hello->to, &link->net->self)) {
        control(link, NET_REFUSED); /* if it does not understand this, it gets no answer */
        return;
    }
    if (is_unmet(link))
        differ(link, theirs);
    control(link, NET_OTHER);
}

static void on_other(struct net_link *link, const struct version *theirs)
{
    if (is_unmet(link) && !version_is_understood(theirs, NET_VERSION))
        differ(link, theirs);
}

/* ---- calling ---- */

/* HELLO or WELCOME is sent for the first time. */
static void net_begin(struct net_link *link, enum net_state state, enum net_kind kind)
{
    set(link, state);
    link->since_ns = link->said_ns = clock_now();
    control(link, kind);
}

void net_call(struct net_link *link)
{
    net_begin(link, NET_CALLING, NET_HELLO);
}

/* The peer is still in the handshake: it does not know that our call has opened the link, or
 * that the link has ended without a BYE. */
static void notify_again(struct net_link *link, const struct net_name *theirs)
{
    bool has_ended = link->state == NET_DEAD && !link->is_nowhere &&
                     (link->end == NET_DIED || link->error == -EHOSTUNREACH);

    if ((link->state == NET_OPEN || link->state == NET_CONFIRMING) && link->has_called)
        control(link, NET_AUTH);
    if (!has_ended)
        return;
    link->theirs = *theirs;
    control(link, NET_BROKEN);
}

/* Both offers are known.  False: there can be no link. */
static bool net_meet(struct net_link *link)
{
    int err = link->net->ops->meet != NULL ? link->net->ops->meet(link) : 0;

    if (err == 0)
        return true;
    net_kill(link, err, NET_DIED); /* so that the peer is also told */
    control(link, NET_BROKEN);
    return false;
}

static bool prepare(struct net_link *link)
{
    return link->net->ops->prepare == NULL || link->net->ops->prepare(link) == 0;
}

bool net_confirm(struct net_link *link)
{
    if (link->state == NET_CONFIRMING) {
        net_forget(link, 1u << NET_HELLO | 1u << NET_AUTH);
        set(link, NET_OPEN);
        link->net->ops->opened(link);
    }
    return link->state == NET_OPEN;
}

static void on_welcome(struct net_link *link, const struct net_welcome *welcome)
{
    struct net_transcript said = transcript_of(link, true, NET_WELCOME);
    bool is_authentic;

    said.from_callee = welcome->callee;
    said.offer_of_callee = welcome->offer;
    is_authentic = net_is_authentic(link->net->key, NET_WELCOME, &said, welcome->mac);
    if (is_authentic)
        notify_again(link, &welcome->callee);
    if (link->state != NET_CALLING)
        return;
    if (!is_authentic) {
        dropped(link->net, "a WELCOME with a wrong MAC");
        return;
    }
    if (!prepare(link)) {
        dropped(link->net, "a WELCOME that cannot be answered now"); /* WELCOME is repeated */
        return;
    }
    link->theirs = welcome->callee;
    link->offer = welcome->offer;
    link->has_called = true;
    if (!net_meet(link))
        return;
    set(link, link->net->ops->confirms ? NET_CONFIRMING : NET_OPEN);
    link->since_ns = link->said_ns = clock_now();
    control(link, NET_AUTH);
}

/* ---- answering ---- */

/* A HELLO of the job, for us or for an earlier endpoint at our address. */
static void hear(struct net_link *link, const struct net_hello *hello)
{
    const struct transport_address *self = &link->net->self;
    bool is_for_us = address_is_same(&hello->to, self);

    if (is_for_us)
        notify_again(link, &hello->caller);
    if (!is_unmet(link) ||
        (link->state == NET_CALLING && memcmp(self, &hello->from, sizeof hello->from) < 0))
        return; /* a repetition, or our own call counts */
    link->theirs = hello->caller;
    if (!is_for_us) {
        control(link, NET_REFUSED);
        return;
    }
    if (!prepare(link)) {
        dropped(link->net, "a HELLO that cannot be answered now");
        return;
    }
    /* packets pending for the last caller from this address would reach this one */
    net_forget(link, 1u << NET_HELLO | 1u << NET_REFUSED);
    net_begin(link, NET_ANSWERING, NET_WELCOME);
}

static void on_hello(struct net *net, const struct net_hello *hello,
                     const struct version *theirs)
{
    const struct net_transcript said = {.version = *theirs,
                                        .caller = hello->from,
                                        .callee = hello->to,
                                        .from_caller = hello->caller};
    struct net_link *link;

    if (!net_is_authentic(net->key, NET_HELLO, &said, hello->mac)) {
        dropped(net, "a HELLO of another job");
        return;
    }
    if (!address_is_same_network(&hello->to, &net->self)) {
        dropped(net, "a HELLO that was sent elsewhere");
        return; /* our REFUSED would end a link of others */
    }
    if (net->unauthenticated >= NET_UNAUTHENTICATED_MAX ||
        net->ops->get(net, &hello->from, &link) != 0) {
        dropped(net, "a HELLO that cannot be answered now");
        return;
    }
    if (link->is_self)
        return;
    if (version_is_understood(theirs, NET_VERSION))
        hear(link, hello);
    else
        hear_other(link, hello, theirs);
}

/* Was the caller answered, and is the link not open?  A link that is not ANSWERING has been
 * forgotten then. */
static bool may_authenticate(const struct net_link *link)
{
    return link->state == NET_ANSWERING || (is_unmet(link) && link->theirs.id != 0);
}

static void on_auth(struct net_link *link, const struct net_auth *auth)
{
    struct net_transcript said = transcript_of(link, false, NET_AUTH);
    bool is_authentic;

    said.offer_of_caller = auth->offer;
    is_authentic = net_is_authentic(link->net->key, NET_AUTH, &said, auth->mac);
    if (is_authentic && link->state == NET_OPEN) {
        if (link->net->ops->confirms && !link->has_called)
            control(link, NET_READY);
        return; /* repeated, because WELCOME was repeated, or READY is missing */
    }
    if (!is_authentic || !may_authenticate(link)) {
        dropped(link->net, "an AUTH with a wrong MAC, or of no caller");
        return;
    }
    link->offer = auth->offer;
    link->has_called = false;
    net_forget(link, 1u << NET_HELLO | 1u << NET_WELCOME);
    if (!net_meet(link))
        return;
    set(link, NET_OPEN);
    if (link->net->ops->confirms)
        control(link, NET_READY);
    link->net->ops->opened(link);
}

static void on_ping(struct net_link *link)
{
    if (link->state == NET_OPEN)
        control(link, NET_PONG);
    else if (may_authenticate(link))
        control(link, NET_WELCOME);
    net_late(link);
}

static void on_broken(struct net_link *link)
{
    if (link->state != NET_NEW) /* otherwise a peer that we never called has given us up */
        net_kill(link, link->state == NET_OPEN ? -ENOTCONN : -EHOSTUNREACH, NET_DIED);
}

void net_arrived(struct net *net, struct net_link *link, const struct net_prefix *prefix,
                 const void *body)
{
    const enum net_kind kind = (enum net_kind)prefix->kind;
    union {
        struct net_hello hello;
        struct net_welcome welcome;
        struct net_auth auth;
        struct version version;
    } copy; /* another process may change the original */
    struct version mark;

    memcpy(&copy, body, net_body_size(kind));
    switch (kind) {
    case NET_HELLO:
        memcpy(&mark, &prefix->token, sizeof mark);
        if (mark.format == prefix->version)
            on_hello(net, &copy.hello, &mark);
        else
            dropped(net, "a HELLO of two versions");
        break;
    case NET_WELCOME:
        on_welcome(link, &copy.welcome);
        break;
    case NET_AUTH:
        on_auth(link, &copy.auth);
        break;
    case NET_REFUSED:
        if (link->state == NET_CALLING || link->state == NET_CONFIRMING)
            net_kill(link, -EHOSTUNREACH, NET_LOST);
        break;
    case NET_PING:
        on_ping(link);
        break;
    case NET_BYE:
        if (link->state == NET_OPEN)
            net_kill(link, -ENOTCONN, NET_CLOSED);
        break;
    case NET_BROKEN:
        on_broken(link);
        break;
    case NET_READY:
        net_confirm(link);
        break;
    case NET_OTHER:
        on_other(link, &copy.version);
        break;
    case NET_DATA:
    case NET_PONG:
    case NET_KINDS:
        break;
    }
}

/* ---- lost packets ---- */

/* The caller was replaced, is gone, or computes: frees its place for others.  Its name stays
 * known, because it may have our answer already. */
static void forget_call(struct net_link *link)
{
    set(link, NET_NEW);
    net_forget(link, ~0u);
    if (link->net->ops->is_wanted(link))
        net_call(link);
}

static bool is_of_handshake(enum net_kind kind)
{
    return kind == NET_HELLO || kind == NET_WELCOME || kind == NET_AUTH;
}

/* A lost HELLO or WELCOME does not matter: a repetition has arrived.  The loss of any other
 * packet ends the link. */
static void failed_when_open(struct net_link *link, enum net_kind kind, bool may_heal)
{
    if (kind == NET_HELLO || kind == NET_WELCOME)
        return;
    if (kind == NET_AUTH && may_heal)
        control(link, NET_AUTH);
    else
        net_kill(link, -ENOTCONN, NET_DIED);
}

/* A broken connection may be made again: the packet is repeated, and shows whether the peer is
 * still there. */
void net_failed(struct net_link *link, enum net_kind kind, enum net_failure failure)
{
    bool is_known = link->state == NET_OPEN && !is_of_handshake(kind);
    bool is_break = failure == NET_BREAK;
    bool may_heal = !is_known && is_break && ++link->breaks < BREAKS_MAX;

    if (link->state == NET_OPEN) {
        failed_when_open(link, kind, may_heal);
        return;
    }
    if (may_heal && link->state == NET_ANSWERING)
        forget_call(link);
    if (may_heal)
        return;
    if (is_break || failure == NET_REFUSAL)
        net_kill(link, -EHOSTUNREACH, NET_LOST);
    else
        net_kill(link, -EHOSTUNREACH, NET_CLOSED);
}

/* ---- waiting ---- */

/* The peer has not answered for so long that the user is warned, once. */
static void warn(struct net_link *link, uint64_t now)
{
    char peer[NET_PEER_TEXT];

    if (link->has_warned || now - link->since_ns < HANDSHAKE_NS)
        return;
    link->has_warned = true;
    LOG_WARN("%s: %s has not answered a handshake in %llu s: it computes, or has another "
             "MBX_KEY, or a firewall is in between; still waiting (%s ends this)",
             link->net->name, net_peer_text(link, peer),
             (unsigned long long)(HANDSHAKE_NS / CLOCK_S), link->net->timeout);
}

/* Pauses grow: each is as long as the whole time before it. */
static bool say_again(struct net_link *link, enum net_kind kind, uint64_t now)
{
    uint64_t pause = link->said_ns - link->since_ns;

    pause = pause < AGAIN_NS ? AGAIN_NS : pause < AGAIN_MAX ? pause : AGAIN_MAX;
    if (now - link->said_ns <= pause)
        return false;
    link->said_ns = now;
    control(link, kind);
    return true;
}

static void tend_calling(struct net_link *link, uint64_t now)
{
    uint64_t timeout_ns = link->net->timeout_ns;
    char peer[NET_PEER_TEXT];

    if (link->net->ops->is_gone(link, now)) {
        LOG_WARN("%s: %s has ended before it answered: look at the output of that rank%s",
                 link->net->name, net_peer_text(link, peer),
                 link->net->ops->or_else != NULL ? link->net->ops->or_else(link) : "");
        net_kill(link, -EHOSTUNREACH, NET_LOST);
        return;
    }
    if (timeout_ns != 0 && now - link->since_ns > timeout_ns) {
        LOG_WARN("%s: %s has not answered a handshake within %llu ms (%s): raise the variable "
                 "if that rank computes",
                 link->net->name, net_peer_text(link, peer),
                 (unsigned long long)(timeout_ns / CLOCK_MS), link->net->timeout);
        net_kill(link, -EHOSTUNREACH, NET_DIED);
        return;
    }
    warn(link, now);
    if (say_again(link, NET_HELLO, now) && link->state == NET_CONFIRMING)
        control(link, NET_AUTH);
}

static void tend_answering(struct net_link *link, uint64_t now)
{
    if (now - link->since_ns >= HANDSHAKE_NS)
        forget_call(link);
    else
        say_again(link, NET_WELCOME, now);
}

void net_tend(struct net_link *link, uint64_t now)
{
    if (link->state == NET_CALLING || link->state == NET_CONFIRMING)
        tend_calling(link, now);
    else if (link->state == NET_ANSWERING)
        tend_answering(link, now);
}

/* ---- the endpoint ---- */

void net_warn_without_key(const struct net *net)
{
    static const uint8_t none[sizeof net->key];
    static atomic_flag is_said = ATOMIC_FLAG_INIT;

    if (memcmp(net->key, none, sizeof none) == 0 && !atomic_flag_test_and_set(&is_said))
        LOG_WARN("%s: there is no key (MBX_KEY is empty): any process on this network can "
                 "join; mbx run, mbx exec and mbx_job_key() make one",
                 net->name);
}
