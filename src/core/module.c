/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * module.c - the loops over the modules of an endpoint.
 *
 * There are about ten modules, and one to three of them have a given hook, so that a loop costs
 * some thirty instructions: the path of a short message uses none of these functions.
 */
#include "core/module.h"

#include "core/core.h"

#define module_for_each(ep, m, hook)                                                           \
    for (const struct module *const *m = (ep)->modules.list; *m != NULL; m++)                  \
        if ((*m)->hook != NULL)

struct module module_extension = {.name = "no extension"};

static void register_packets(struct mbx_ep *ep, const struct packet_handler *handler)
{
    for (; handler->type != 0; handler++) {
        assert(ep->modules.packets[handler->type] == NULL);
        ep->modules.packets[handler->type] = handler->handle;
    }
}

static void register_controls(struct mbx_ep *ep, const struct control *control)
{
    for (; control->what != 0; control++) {
        const struct control **at = &ep->modules.controls[__builtin_ctz(control->what)];

        assert(*at == NULL);
        *at = control;
        ep->modules.owes_closing |= control->is_closing ? (uint8_t)control->what : 0;
        ep->modules.owes_behind |= control->is_behind ? (uint8_t)control->what : 0;
        ep->modules.owes_first |= control->is_first ? (uint8_t)control->what : 0;
    }
}

void module_register(struct mbx_ep *ep)
{
    module_for_each (ep, m, proto) {
        assert(ep->modules.protos[(*m)->proto->id] == NULL);
        ep->modules.protos[(*m)->proto->id] = (*m)->proto;
    }
    module_for_each (ep, m, packets)
        register_packets(ep, (*m)->packets);
    module_for_each (ep, m, controls)
        register_controls(ep, (*m)->controls);
}

static void watch_from(struct ep_modules *modules)
{
    modules->watched_from = modules->watches_all ? 0 : modules->watched_always;
}

void module_watch(struct mbx_ep *ep, size_t from)
{
    ep->modules.watched_always = min_size(ep->modules.watched_always, from);
    watch_from(&ep->modules);
}

void module_watch_all(struct mbx_ep *ep, bool watches)
{
    ep->modules.watches_all = watches;
    watch_from(&ep->modules);
}

/* ---- from open to close ---- */

int module_open(struct mbx_ep *ep)
{
    module_for_each (ep, m, open) {
        int err = (*m)->open(ep);

        if (err == 0)
            continue;
        while (m-- != ep->modules.list)
            if ((*m)->close != NULL)
                (*m)->close(ep);
        return err;
    }
    return 0;
}

void module_stop(struct mbx_ep *ep)
{
    module_for_each (ep, m, stop)
        (*m)->stop(ep);
}

bool module_is_flushed(const struct mbx_ep *ep)
{
    module_for_each (ep, m, is_flushed)
        if (!(*m)->is_flushed(ep))
            return false;
    return true;
}

void module_close(struct mbx_ep *ep)
{
    module_for_each (ep, m, close)
        (*m)->close(ep);
}

void module_fini(struct mbx_ep *ep)
{
    module_for_each (ep, m, fini)
        (*m)->fini(ep);
}

/* ---- peers ---- */

void module_peer_made(struct mbx_ep *ep, struct peer *peer,
                      const struct transport_address *address)
{
    module_for_each (ep, m, peer_made)
        (*m)->peer_made(ep, peer, address);
}

void module_peer_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    module_for_each (ep, m, peer_gone)
        (*m)->peer_gone(ep, peer, error, is_new);
}

bool module_peer_refers(struct mbx_ep *ep, const struct peer *peer)
{
    bool refers = false;

    module_for_each (ep, m, peer_refers)
        refers |= (*m)->peer_refers(ep, peer);
    return refers;
}

/* ---- progress ---- */

OUT_OF_LINE void module_event_read(struct mbx_ep *ep, const struct request *req)
{
    module_for_each (ep, m, event_read)
        (*m)->event_read(ep, req);
}

/* ---- receives ---- */

OUT_OF_LINE void module_recv_posted(struct mbx_ep *ep, struct request *req)
{
    module_for_each (ep, m, recv_posted)
        (*m)->recv_posted(ep, req);
}

OUT_OF_LINE void module_recv_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                                  const struct peer *by)
{
    module_for_each (ep, m, recv_left)
        (*m)->recv_left(ep, req, cause, by);
}

/* ---- messages ---- */

OUT_OF_LINE void module_message_came(struct mbx_ep *ep, struct peer *peer)
{
    module_for_each (ep, m, message_came)
        (*m)->message_came(ep, peer);
}

OUT_OF_LINE int module_probe(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                             uint64_t ignore, struct mbx_status *status,
                             struct message **message)
{
    module_for_each (ep, m, probe) {
        int found = (*m)->probe(ep, envelope, ignore, status, message);

        if (found != 0)
            return found;
    }
    return 0;
}

OUT_OF_LINE bool module_read(struct mbx_ep *ep, struct request *req)
{
    module_for_each (ep, m, read)
        if ((*m)->read(ep, req))
            return true;
    return false;
}

OUT_OF_LINE int module_send(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    module_for_each (ep, m, send)
        return (*m)->send(ep, peer, req);
    return -ENOTSUP; /* then peer.advert is never set */
}

OUT_OF_LINE int module_defer(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    module_for_each (ep, m, defer)
        return (*m)->defer(ep, peer, req);
    return -ENOTSUP;
}

void module_deferring(struct mbx_ep *ep, struct peer *peer)
{
    module_for_each (ep, m, deferring)
        (*m)->deferring(ep, peer);
}

OUT_OF_LINE int module_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    module_for_each (ep, m, credit_came) {
        int result = (*m)->credit_came(ep, peer, envelopes);

        if (result != 1)
            return result;
    }
    return 1;
}

OUT_OF_LINE void module_credit_sent(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    module_for_each (ep, m, credit_sent)
        (*m)->credit_sent(ep, peer, envelopes);
}

bool module_is_valid(const struct mbx_ep *ep)
{
    module_for_each (ep, m, is_valid)
        if (!(*m)->is_valid(ep))
            return false;
    return true;
}
