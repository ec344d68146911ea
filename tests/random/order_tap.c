/* SPDX-License-Identifier: BSD-3-Clause */
#include "order_tap.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "p2p/p2p.h"
#include "sendside/backlog.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"

void wrong(struct run *run, const char *format, ...)
{
    va_list args;

    if (run->why[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(run->why, sizeof run->why, format, args);
    va_end(args);
}

/* ---- operations and messages ---- */

void message_taken(struct run *run, int recv, int message)
{
    run->items[recv].got = message;
    run->items[message].is_taken = true;
}

bool is_message(const struct op *op)
{
    return op->kind == SEND || op->kind == SSEND || op->kind == INJECT;
}

bool accepts(const struct op *recv, const struct op *message)
{
    return (recv->peer == NOBODY || recv->peer == message->ep) &&
           recv->context_id == message->context_id &&
           ((recv->tag ^ message->tag) & ~recv->ignore) == 0;
}

int oldest_held(const struct run *run, int who, const struct op *recv, int peer, int before)
{
    for (int id = 0; id < before; id++) {
        const struct item *item = &run->items[id];

        if (item->is_live && is_message(&item->op) && !item->is_here && item->op.ep == peer &&
            item->op.peer == who && accepts(recv, &item->op))
            return id;
    }
    return NOBODY;
}

/* ---- what is told ---- */

static struct item *item_of(struct run *run, int who, uint64_t request)
{
    for (int id = 0; id < IDS_MAX; id++)
        if (run->items[id].is_live && run->items[id].request == request &&
            run->items[id].op.kind == RECV && run->items[id].op.ep == who)
            return &run->items[id];
    return NULL;
}

/* A message has claimed a receive, and has it.  One whose word another sender has won, and
 * whose claim is still under way, does not stand before it any more.  The oracle's answer: that
 * receive, or an earlier one that it should have been. */
static int tap_claimed(struct tap *tap, struct mbx_match_envelope envelope, uint64_t request)
{
    struct oracle *oracle = &tap->run->oracles[tap->who];
    struct item *won = item_of(tap->run, tap->who, request);

    for (int i = 0; won != NULL && i < oracle->recvs.count; i++) {
        struct item *item = &tap->run->items[oracle->recvs.entries[i].id];
        struct oracle only = {.recvs.count = 1, .recvs.entries = {oracle->recvs.entries[i]}};
        struct request *req = request_find(tap->ep, item->request);

        if (item == won)
            break;
        if (oracle_find(&only, envelope) != NOBODY &&
            (req == NULL || lockword_owner(tap->ep, req->open.word) == MBX_ANY_SOURCE))
            return item->op.id; /* it is open, and earlier */
    }
    if (won == NULL || !oracle_cancel(oracle, won->op.id))
        return NOBODY;
    return won->op.id;
}

/* The receive that a CLAIM or WRITE names. */
static uint64_t tap_receiver(const struct wire_header *header, const void *packet)
{
    const char *body = (const char *)packet + sizeof *header;
    struct wire_claim claim;
    struct wire_write write;

    if (header->type == WIRE_CLAIM) {
        memcpy(&claim, body, sizeof claim);
        return claim.receiver;
    }
    memcpy(&write, body, sizeof write);
    return write.receiver;
}

/* Receive recv gets message id of this peer: has the peer sent an earlier one that recv accepts,
 * too, and that waits there still? */
static void tap_check_order(struct tap *tap, int recv, int peer, int id)
{
    int earlier = oldest_held(tap->run, tap->who, &tap->run->items[recv].op, peer, id);

    if (earlier != NOBODY)
        wrong(tap->run,
              "receive %d%s gets message %d, but accepts message %d, too, which the same peer "
              "sent earlier and which waits",
              recv,
              recv >= OPS_MAX ? " (from any, any tag; posted by the test after the program)"
                              : "",
              id, earlier);
}

/* A packet that begins a message has been delivered: the oracle hears of it. */
static void tap_arrived(struct tap *tap, uint32_t peer, const struct wire_header *header,
                        const void *packet)
{
    struct mbx_match_envelope envelope = {header->context_id, peer, header->tag};
    int id = (int)header->data, recv;

    if (header->data >= IDS_MAX || !tap->run->items[id].is_live) {
        wrong(tap->run, "a message that nobody sent arrives");
        return;
    }
    if (header->type == WIRE_CLAIM || header->type == WIRE_WRITE) {
        uint64_t receiver = tap_receiver(header, packet);

        recv = tap_claimed(tap, envelope, receiver);
        if (recv == NOBODY || tap->run->items[recv].request != receiver)
            wrong(tap->run, "message %d has claimed a receive that is not the first", id);
    } else {
        recv = oracle_arrive(&tap->run->oracles[tap->who], envelope, id);
    }
    tap->run->items[id].is_here = true;
    if (recv == NOBODY)
        return;
    message_taken(tap->run, recv, id);
    tap_check_order(tap, recv, (int)peer, id);
}

/* Receive recv has met a message that has not come. */
static void tap_met(struct tap *tap, int recv, struct mbx_match_envelope envelope,
                    uint64_t data)
{
    struct run *run = tap->run;
    int id = (int)data;

    if (data >= IDS_MAX || !run->items[id].is_live || run->items[id].is_here ||
        run->items[id].op.ep != (int)envelope.source || run->items[id].op.peer != tap->who)
        wrong(run, "receive %d takes a message that is not held for it", recv);
    else if (oracle_arrive(&run->oracles[tap->who], envelope, id) != recv)
        wrong(run, "receive %d is not the first for message %d", recv, id);
    else
        tap_check_order(tap, recv, (int)envelope.source, id);
    if (run->why[0] != '\0')
        return;
    run->items[id].is_here = true;
    message_taken(run, recv, id);
}

/* Receives that wait in the oracle and no longer in their endpoint have taken a message where
 * it waits: which one, it is asked, and whether that is right, the oracle.  In posting order:
 * that is how they take in one go. */
void tap_taken(struct tap *tap)
{
    struct oracle *oracle = &tap->run->oracles[tap->who];

    for (int i = 0; i < oracle->recvs.count && tap->run->why[0] == '\0'; i++) {
        struct item *item = &tap->run->items[oracle->recvs.entries[i].id];
        const struct request *req = request_find(tap->ep, item->request);
        const struct mbx_status *status;

        if (req == NULL || req->match.state == MBX_MATCH_QUEUED ||
            req->state == REQUEST_REVOKING || req->completion.error == -ECANCELED)
            continue;
        status = &req->completion.status;
        tap_met(tap, item->op.id,
                (struct mbx_match_envelope){status->context_id, status->source, status->tag},
                status->data);
        i = -1; /* it has left the oracle */
    }
}

/* ---- between transport and core ---- */

static int tap_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct tap *tap = arg;
    struct wire_header header;
    uint64_t reached = tap->ep->stats.claims_met + tap->ep->stats.rput_won;
    int err;

    tap_taken(tap);
    err = deliver_packet(tap->ep, peer, packet, size);
    memcpy(&header, packet, sizeof header);
    if (err == 0 && (header.type == WIRE_EAGER || header.type == WIRE_SYNC ||
                     header.type == WIRE_FIRST || header.type == WIRE_RTS ||
                     tap->ep->stats.claims_met + tap->ep->stats.rput_won != reached))
        tap_arrived(tap, peer, &header, packet);
    tap_taken(tap);
    return err;
}

int tap_progress(struct tap *tap)
{
    int moved = mbx_progress(tap->ep);

    tap_taken(tap);
    return moved;
}

static int tap_accept(void *arg, struct link *link, const struct transport_address *address,
                      uint32_t *peer)
{
    return peer_accept(((struct tap *)arg)->ep, link, address, peer);
}

static void tap_read_done(void *arg, void *cookie, int error)
{
    progress_io_done(((struct tap *)arg)->ep, cookie, error);
}

static void tap_cswap_done(void *arg, uint64_t cookie, int error, bool is_swapped)
{
    backlog_locked(((struct tap *)arg)->ep, cookie, error, is_swapped);
}

static void tap_dropped(void *arg, const char *reason)
{
    progress_dropped(((struct tap *)arg)->ep, reason);
}

static const struct transport_events tap_events = {
    .accept = tap_accept,
    .deliver = tap_deliver,
    .read_done = tap_read_done,
    .cswap_done = tap_cswap_done,
    .dropped = tap_dropped,
};

static const struct transport_ops *ops_of(enum over over)
{
    switch (over) {
    case OVER_LOOP:
        return &transport_loop;
    case OVER_SHM:
        return &transport_shm;
    case OVER_OFI:
        break;
    }
    return &transport_ofi;
}

void tap_open(struct tap *tap)
{
    const struct program *program = tap->run->program;
    const char *params[PARAMS_MAX + 1] = {NULL};
    const struct mbx_config config = {.params = params};
    const struct transport_ops *ops = ops_of(program->over);
    struct transport_config again = {.events = &tap_events, .arg = tap};
    struct settings *s;
    int err;

    for (int i = 0; i < PARAMS_MAX && program->params[i][0] != '\0'; i++)
        params[i] = program->params[i];
    err = mbx_open(&config, &tap->ep);
    if (err < 0)
        abort();
    tap->ep->sendside.room = (uint32_t)program->room;
    s = &tap->ep->settings;
    again.credit = credit_welcome(tap->ep);
    again.peers = s->peers_max;
    again.settings = s->transports;
    testing_settings(&again.settings)->fault_seed = program->seed * 4 + (uint64_t)tap->who;
    tap->ep->net.transport->ops->close(tap->ep->net.transport);
    err = transport_open(ops, &again, &tap->ep->net.transport);
    if (err < 0)
        abort();
    progress_polled(tap->ep);
}
