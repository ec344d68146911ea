/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.c - two endpoints that meet: who calls, who answers, and when their link is open.
 *
 * packet.h shows what is said.  Between two calls of ours, and of the peer's, may lie an hour.
 * So HELLO is sent again while nobody answers, ever more rarely; and a caller that was answered
 * and is silent may still authenticate itself when its place among the unauthenticated ones has been given
 * to others (forget_call()).
 *
 * A connection that breaks may take any of the three packets along, and nobody says so.
 *
 *   HELLO, WELCOME   sent again, until the next one comes, or forget_call()
 *   AUTH             the caller takes the link for open once AUTH has left, and sends it again
 *                    when it hears that the other side does not: by a WELCOME, or by a HELLO of
 *                    the other side
 *
 * A caller that was forgotten and asks whether we are there (PING) is answered with WELCOME, so
 * that it learns of that, too.  A peer that calls or answers us when our link to it has ended is
 * told that.
 *
 * If the host of a peer that was never met refuses a connection, its endpoint, which had an
 * address, is no more; whether it has closed or died nobody can know (is_lost).
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/ofi/ofi.h"

#define HANDSHAKE_NS (10 * CLOCK_S)   /* it may take so long before the user is warned */
#define AGAIN_NS     (250 * CLOCK_MS) /* then it is sent again: there may have been no memory */
#define AGAIN_MAX    (32 * CLOCK_S)
#define BREAKS_MAX   8 /* connections that end in a handshake */

/* ---- what is said ---- */

/* All that was said of a link until kind, which is the last of it. */
static struct ofi_transcript transcript_of(const struct ofi_link *link, bool we_call,
                                           enum ofi_kind kind)
{
    const struct ofi *ofi = ofi_of_link(link);
    struct ofi_transcript said = {
        .caller = we_call ? ofi->self : link->member.address,
        .callee = we_call ? link->member.address : ofi->self,
        .from_caller = we_call ? link->ours : link->handshake.theirs,
    };

    if (kind != OFI_HELLO) {
        said.from_callee = we_call ? link->handshake.theirs : link->ours;
        said.words_of_callee = we_call ? link->handshake.words : ofi->cswap.place;
    }
    if (kind == OFI_AUTH)
        said.words_of_caller = we_call ? ofi->cswap.place : link->handshake.words;
    return said;
}

void ofi_handshake_fill_hello(struct ofi_link *link, unsigned char *body)
{
    const struct ofi *ofi = ofi_of_link(link);
    const struct ofi_transcript said = transcript_of(link, true, OFI_HELLO);
    struct ofi_hello hello = {
        .from = ofi->self, .to = link->member.address, .caller = link->ours};

    ofi_sign(ofi->key, OFI_HELLO, &said, hello.mac);
    memcpy(body, &hello, sizeof hello);
}

void ofi_handshake_fill_welcome(struct ofi_link *link, unsigned char *body)
{
    const struct ofi *ofi = ofi_of_link(link);
    const struct ofi_transcript said = transcript_of(link, false, OFI_WELCOME);
    struct ofi_welcome welcome = {.callee = link->ours, .words = ofi->cswap.place};

    ofi_sign(ofi->key, OFI_WELCOME, &said, welcome.mac);
    memcpy(body, &welcome, sizeof welcome);
}

void ofi_handshake_fill_auth(struct ofi_link *link, unsigned char *body)
{
    const struct ofi *ofi = ofi_of_link(link);
    const struct ofi_transcript said = transcript_of(link, true, OFI_AUTH);
    struct ofi_auth auth = {.words = ofi->cswap.place};

    ofi_sign(ofi->key, OFI_AUTH, &said, auth.mac);
    memcpy(body, &auth, sizeof auth);
}

/* ---- calling ---- */

/* HELLO or WELCOME is to leave for the first time. */
static void begin(struct ofi_link *link, enum ofi_state state, enum ofi_kind kind)
{
    ofi_link_set(link, state);
    link->handshake.since_ns = link->handshake.said_ns = clock_now();
    ofi_tx_control(link, kind);
}

void ofi_handshake_call(struct ofi_link *link)
{
    begin(link, OFI_CALLING, OFI_HELLO);
}

/* The peer is still in the handshake: it does not know that the link is open, by our call, or
 * that the link has ended, if that was not by a BYE. */
static void tell_again(struct ofi_link *link, const struct ofi_name *theirs)
{
    bool has_ended = link->state == OFI_DEAD && link->to != FI_ADDR_NOTAVAIL &&
                     (link->has_died || link->error == -EHOSTUNREACH);

    if (link->state == OFI_OPEN && link->handshake.has_called)
        ofi_tx_control(link, OFI_AUTH);
    if (!has_ended)
        return;
    link->handshake.theirs = *theirs;
    ofi_tx_control(link, OFI_BROKEN);
}

void ofi_handshake_on_welcome(struct ofi *ofi, struct ofi_link *link, const void *body)
{
    const struct ofi_welcome *welcome = body;
    struct ofi_transcript said = transcript_of(link, true, OFI_WELCOME);
    bool is_authentic;

    said.from_callee = welcome->callee;
    said.words_of_callee = welcome->words;
    is_authentic = ofi_is_authentic(ofi->key, OFI_WELCOME, &said, welcome->mac);
    if (is_authentic)
        tell_again(link, &welcome->callee);
    if (link->state != OFI_CALLING)
        return;
    if (!is_authentic) {
        ofi->events->dropped(ofi->arg, "a WELCOME with a wrong MAC");
        return;
    }
    link->handshake.theirs = welcome->callee;
    link->handshake.words = welcome->words;
    link->handshake.has_called = true;
    ofi_link_set(link, OFI_OPEN);
    ofi_tx_control(link, OFI_AUTH);
}

void ofi_handshake_on_refused(struct ofi *ofi, struct ofi_link *link, const void *none)
{
    (void)ofi, (void)none;
    if (link->state == OFI_CALLING)
        ofi_link_lose(link);
}

/* ---- answering ---- */

/* A HELLO of the job, for us or for an endpoint that was here before us. */
static void hear(struct ofi_link *link, const struct ofi_hello *hello)
{
    const struct transport_address *self = &ofi_of_link(link)->self;
    bool is_for_us = address_is_same(&hello->to, self);
    bool is_answered = link->state == OFI_NEW || link->state == OFI_CALLING;

    if (is_for_us)
        tell_again(link, &hello->caller);
    if (!is_answered ||
        (link->state == OFI_CALLING && memcmp(self, &hello->from, sizeof hello->from) < 0))
        return; /* said before, or our own call counts */
    link->handshake.theirs = hello->caller;
    if (!is_for_us) {
        ofi_tx_control(link, OFI_REFUSED);
        return;
    }
    /* what was pending for the last caller from this address would go to this one */
    ofi_tx_forget(link, 1u << OFI_HELLO | 1u << OFI_REFUSED);
    begin(link, OFI_ANSWERING, OFI_WELCOME);
}

void ofi_handshake_on_hello(struct ofi *ofi, struct ofi_link *none, const void *body)
{
    const struct ofi_hello *hello = body;
    const struct ofi_transcript said = {
        .caller = hello->from, .callee = hello->to, .from_caller = hello->caller};
    struct ofi_link *link;

    (void)none;
    if (!ofi_is_authentic(ofi->key, OFI_HELLO, &said, hello->mac)) {
        ofi->events->dropped(ofi->arg, "a HELLO of another job");
        return;
    }
    if (!address_is_same_network(&hello->to, &ofi->self)) {
        ofi->events->dropped(ofi->arg, "a HELLO that was sent elsewhere");
        return; /* REFUSED from us would end a link of others */
    }
    if (ofi->conns.unauthenticated >= OFI_UNAUTHENTICATED_MAX ||
        ofi_link_get(ofi, &hello->from, &link) != 0) {
        ofi->events->dropped(ofi->arg, "a HELLO that cannot be answered now");
        return;
    }
    if (!link->is_self)
        hear(link, hello);
}

/* Was the caller answered, and the link is not open?  A link that is not ANSWERING was forgotten
 * then. */
static bool may_authenticate(const struct ofi_link *link)
{
    return link->state == OFI_ANSWERING ||
           ((link->state == OFI_NEW || link->state == OFI_CALLING) &&
            link->handshake.theirs.id != 0);
}

void ofi_handshake_on_auth(struct ofi *ofi, struct ofi_link *link, const void *body)
{
    const struct ofi_auth *auth = body;
    struct ofi_transcript said = transcript_of(link, false, OFI_AUTH);
    bool is_authentic;

    said.words_of_caller = auth->words;
    is_authentic = ofi_is_authentic(ofi->key, OFI_AUTH, &said, auth->mac);
    if (is_authentic && link->state == OFI_OPEN)
        return; /* sent again, because WELCOME was */
    if (!is_authentic || !may_authenticate(link)) {
        ofi->events->dropped(ofi->arg, "an AUTH with a wrong MAC, or of no caller");
        return;
    }
    link->handshake.words = auth->words;
    link->handshake.has_called = false;
    ofi_tx_forget(link, 1u << OFI_HELLO | 1u << OFI_WELCOME);
    ofi_link_set(link, OFI_OPEN);
    if (!list_is_empty(&link->tx.queue))
        ofi_tx_mark_busy(link);
}

void ofi_handshake_on_ping(struct ofi *ofi, struct ofi_link *link, const void *none)
{
    (void)ofi, (void)none;
    if (link->state == OFI_OPEN)
        ofi_tx_control(link, OFI_PONG);
    else if (may_authenticate(link))
        ofi_tx_control(link, OFI_WELCOME);
    ofi_link_late(link);
}

/* ---- what does not arrive ---- */

/* The caller was another one, or is gone, or computes: the next one has its place.  Its name
 * stays known, since it may have our answer before it. */
static void forget_call(struct ofi_link *link)
{
    ofi_link_set(link, OFI_NEW);
    ofi_tx_forget(link, ~0u);
    if (link->tx.queued != 0)
        ofi_handshake_call(link);
}

/* Did a connection end that there was? */
static bool is_break(int error)
{
    return error == FI_ENOTCONN || error == FI_ECONNRESET || error == FI_ECONNABORTED ||
           error == EPIPE || error == FI_ESHUTDOWN;
}

static bool is_of_handshake(enum ofi_kind kind)
{
    return kind == OFI_HELLO || kind == OFI_WELCOME || kind == OFI_AUTH;
}

/* HELLO and WELCOME are not missed: others of them have arrived.  Whatever else is lost ends the
 * link. */
static void failed_when_open(struct ofi_link *link, enum ofi_kind kind, bool may_heal)
{
    if (kind == OFI_HELLO || kind == OFI_WELCOME)
        return;
    if (kind == OFI_AUTH && may_heal)
        ofi_tx_control(link, OFI_AUTH);
    else
        ofi_link_kill(link, -ENOTCONN, true);
}

/* A connection that broke may come again: the packet is sent again, and whether somebody is
 * there to hear it is seen then. */
void ofi_handshake_failed(struct ofi_link *link, enum ofi_kind kind, int error)
{
    bool is_known = link->state == OFI_OPEN && !is_of_handshake(kind);
    bool may_heal = !is_known && is_break(error) && ++link->handshake.breaks < BREAKS_MAX;

    if (link->state == OFI_OPEN) {
        failed_when_open(link, kind, may_heal);
        return;
    }
    if (may_heal && link->state == OFI_ANSWERING)
        forget_call(link);
    if (may_heal)
        return;
    if (is_break(error) || error == FI_ECONNREFUSED)
        ofi_link_lose(link);
    else
        ofi_link_kill(link, -EHOSTUNREACH, false);
}

/* ---- waiting ---- */

/* Nobody has answered for so long that the user is to hear of it, once. */
static void warn(struct ofi_link *link, uint64_t now)
{
    if (link->handshake.has_warned || now - link->handshake.since_ns < HANDSHAKE_NS)
        return;
    link->handshake.has_warned = true;
    LOG_WARN("ofi: link %u: no answer to a handshake in 10 s: the other side computes, or has "
             "another MBX_KEY, or is not there",
             link->id);
}

/* Pauses grow: each is as long as all that was before. */
static void say_again(struct ofi_link *link, enum ofi_kind kind, uint64_t now)
{
    struct ofi_link_handshake *handshake = &link->handshake;
    uint64_t pause = handshake->said_ns - handshake->since_ns;

    pause = pause < AGAIN_NS ? AGAIN_NS : pause < AGAIN_MAX ? pause : AGAIN_MAX;
    if (now - handshake->said_ns <= pause)
        return;
    handshake->said_ns = now;
    ofi_tx_control(link, kind);
}

void ofi_handshake_tend_calling(struct ofi_link *link, uint64_t now)
{
    uint64_t timeout_ns = ofi_of_link(link)->keepalive.timeout_ns;

    if (ofi_tx_is_stuck(link, OFI_HELLO, link->handshake.since_ns, now) &&
        ofi_tcp_probe(link, now) == -ECONNREFUSED) {
        LOG_WARN("ofi: link %u: the peer that it calls has ended", link->id);
        ofi_link_lose(link);
        return;
    }
    if (timeout_ns != 0 && now - link->handshake.since_ns > timeout_ns) {
        LOG_WARN("ofi: link %u: no answer to a handshake within MBX_OFI_TIMEOUT", link->id);
        ofi_link_kill(link, -EHOSTUNREACH, true);
        return;
    }
    warn(link, now);
    say_again(link, OFI_HELLO, now);
}

void ofi_handshake_tend_answering(struct ofi_link *link, uint64_t now)
{
    if (now - link->handshake.since_ns >= HANDSHAKE_NS)
        forget_call(link);
    else
        say_again(link, OFI_WELCOME, now);
}
