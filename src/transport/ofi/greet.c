/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * greet.c - two endpoints that meet: who greets, who answers, and when their link is open.
 *
 * packet.h shows what is said.  Between two calls of ours, and of the peer's, may lie an hour.
 * So who is greeted and does not answer is greeted again, ever more rarely, and who was
 * answered and is silent may still prove himself when his place among the strangers is
 * others' again (forget_call()).
 *
 * A connection that breaks may take any of the three packets along, and nobody says so.
 *
 *   HELLO, WELCOME   said again, until the next one comes, or forget_call()
 *   PROOF            who sent it takes the link for open, and says it again when he hears
 *                    that the other side does not: by a WELCOME, or by a HELLO of its own
 *
 * Who was forgotten and asks whether we are there (PING) is answered with WELCOME, so that he
 * learns it, too.  Who greets or answers us when our link to him has ended is told that.
 *
 * If the host of who was never met refuses a connection, its endpoint, which had an address,
 * is no more; whether it has closed or died nobody can know (is_lost).
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/ofi/ofi.h"

#define GREETING_NS (10 * CLOCK_S)   /* so long a greeting may take that nobody wonders */
#define AGAIN_NS    (250 * CLOCK_MS) /* then it is said again: there may have been no memory */
#define AGAIN_MAX   (32 * CLOCK_S)
#define BREAKS_MAX  8 /* connections that end in a greeting */

/* ---- what is said ---- */

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

size_t ofi_write_greeting(struct ofi_link *link, enum ofi_kind kind, unsigned char *body)
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

/* ---- calling ---- */

/* The first packet of a greeting, or the answer, goes out. */
static void begin(struct ofi_link *link, enum ofi_state state, enum ofi_kind kind)
{
    ofi_link_set(link, state);
    link->since_ns = link->asked_ns = clock_now();
    ofi_owe(link, kind);
}

void ofi_call(struct ofi_link *link)
{
    begin(link, OFI_CALLING, OFI_HELLO);
}

/* Its peer is still greeting: it does not know that the link is open, by our call, or that it
 * has ended, if that was not by a farewell. */
static void tell_again(struct ofi_link *link, const struct ofi_name *theirs)
{
    bool has_ended = link->state == OFI_DEAD && link->to != FI_ADDR_NOTAVAIL &&
                     (link->has_died || link->error == -EHOSTUNREACH);

    if (link->state == OFI_OPEN && link->has_called)
        ofi_owe(link, OFI_PROOF);
    if (!has_ended)
        return;
    link->theirs = *theirs;
    ofi_owe(link, OFI_BROKEN);
}

void ofi_welcomed(struct ofi *ofi, struct ofi_link *link, const struct ofi_welcome *welcome)
{
    struct ofi_greeting greeting = greeting_of(link, true, OFI_WELCOME);
    bool is_proved;

    greeting.from_callee = welcome->callee;
    greeting.words_of_callee = welcome->words;
    is_proved = ofi_is_proved(ofi->key, OFI_WELCOME, &greeting, welcome->proof);
    if (is_proved)
        tell_again(link, &welcome->callee);
    if (link->state != OFI_CALLING)
        return;
    if (!is_proved) {
        ofi->events->dropped(ofi->arg, "a welcome without proof");
        return;
    }
    link->theirs = welcome->callee;
    link->words = welcome->words;
    link->has_called = true;
    ofi_link_set(link, OFI_OPEN);
    ofi_owe(link, OFI_PROOF);
}

void ofi_refused(struct ofi_link *link)
{
    link->is_lost = true;
    ofi_link_kill(link, -EHOSTUNREACH, false);
}

/* ---- answering ---- */

/* What is owed to who called before, under the same address, would go to who calls now. */
static void answer(struct ofi_link *link)
{
    link->owes &= (uint16_t) ~(1u << OFI_HELLO | 1u << OFI_REFUSED);
    begin(link, OFI_ANSWERING, OFI_WELCOME);
}

/* A greeting of the job, for us or for who was here before us. */
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
    link->theirs = hello->caller;
    if (!is_for_us)
        ofi_owe(link, OFI_REFUSED);
    else
        answer(link);
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
    if (!address_is_same_network(&hello->to, &ofi->self)) {
        ofi->events->dropped(ofi->arg, "a greeting that was sent elsewhere");
        return; /* refused by us it would end what is others' */
    }
    if (ofi->strangers >= OFI_STRANGERS || ofi_link_get(ofi, &hello->from, &link) != 0) {
        ofi->events->dropped(ofi->arg, "a greeting that cannot be answered now");
        return;
    }
    if (!link->is_self)
        hear(link, hello);
}

/* Was it answered, and is not open?  Then it has been forgotten, if it is not ANSWERING. */
static bool may_prove(const struct ofi_link *link)
{
    return link->state == OFI_ANSWERING ||
           ((link->state == OFI_NEW || link->state == OFI_CALLING) && link->theirs.id != 0);
}

void ofi_proved(struct ofi *ofi, struct ofi_link *link, const struct ofi_proof *proof)
{
    struct ofi_greeting greeting = greeting_of(link, false, OFI_PROOF);
    bool is_proved;

    greeting.words_of_caller = proof->words;
    is_proved = ofi_is_proved(ofi->key, OFI_PROOF, &greeting, proof->proof);
    if (is_proved && link->state == OFI_OPEN)
        return; /* said again, because we had */
    if (!is_proved || !may_prove(link)) {
        ofi->events->dropped(ofi->arg, "a greeting without proof");
        return;
    }
    link->words = proof->words;
    link->has_called = false;
    link->owes &= (uint16_t) ~(1u << OFI_HELLO | 1u << OFI_WELCOME);
    ofi_link_set(link, OFI_OPEN);
    if (!list_is_empty(&link->queue))
        ofi_mark_busy(link);
}

void ofi_pinged(struct ofi_link *link)
{
    if (link->state == OFI_OPEN)
        ofi_owe(link, OFI_PONG);
    else if (may_prove(link))
        ofi_owe(link, OFI_WELCOME);
    ofi_link_told_late(link);
}

/* ---- what does not arrive ---- */

/* It was not the caller who called, or he is gone, or he computes: whoever greets next has his
 * place.  What he is called stays known, since he may have our answer before him. */
static void forget_call(struct ofi_link *link)
{
    ofi_link_set(link, OFI_NEW);
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

/* If the connection broke, it may come again: the
 * greeting is said again, and whether somebody is there to hear it is seen then. */
void ofi_greeting_failed(struct ofi_link *link, enum ofi_kind kind, int error)
{
    bool may_heal = is_break(error) && ++link->breaks < BREAKS_MAX;

    if (link->state == OFI_OPEN) {
        if (kind != OFI_PROOF)
            return; /* another one has arrived */
        if (may_heal)
            ofi_owe(link, OFI_PROOF);
        else
            ofi_link_kill(link, -ENOTCONN, true);
        return;
    }
    if (may_heal && link->state == OFI_ANSWERING)
        forget_call(link);
    if (may_heal)
        return;
    link->is_lost = is_break(error) || error == FI_ECONNREFUSED;
    ofi_link_kill(link, -EHOSTUNREACH, false);
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

static void say_again(struct ofi_link *link, enum ofi_kind kind, uint64_t now)
{
    uint64_t pause = link->asked_ns - link->since_ns; /* as long as all that was before */

    pause = pause < AGAIN_NS ? AGAIN_NS : pause < AGAIN_MAX ? pause : AGAIN_MAX;
    if (now - link->asked_ns <= pause)
        return;
    link->asked_ns = now;
    ofi_owe(link, kind);
}

void ofi_tend_calling(struct ofi_link *link, uint64_t now)
{
    uint64_t timeout_ns = ofi_of_link(link)->timeout_ns;

    if (ofi_is_stuck(link, OFI_HELLO, link->since_ns, now) &&
        ofi_listener_look(link, now) == -ECONNREFUSED) {
        LOG_WARN("ofi: link %u: who is to be greeted has ended", link->id);
        ofi_refused(link);
        return;
    }
    if (timeout_ns != 0 && now - link->since_ns > timeout_ns) {
        LOG_WARN("ofi: link %u: no answer to a greeting within MBX_OFI_TIMEOUT", link->id);
        ofi_link_kill(link, -EHOSTUNREACH, true);
        return;
    }
    wonder(link, now);
    say_again(link, OFI_HELLO, now);
}

void ofi_tend_answering(struct ofi_link *link, uint64_t now)
{
    if (now - link->since_ns >= GREETING_NS)
        forget_call(link);
    else
        say_again(link, OFI_WELCOME, now);
}
