/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_interposer.c - see order_interposer.h.
 */
#include "order_interposer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/backlog.h"
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
    if (run->items[message].is_withdrawn)
        wrong(run, "receive %d gets message %d, which was taken back", recv, message);
    run->items[recv].got = message;
    run->items[message].is_taken = true;
}

bool is_withdrawn(const struct run *run, const struct item *message)
{
    const struct request *req =
        message->is_asked ? request_find(run->interposers[message->op.ep].ep, message->request)
                          : NULL;

    return message->is_withdrawn || (req != NULL && req->state == REQUEST_COMPLETE &&
                                     req->completion.error == -ECANCELED);
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
            item->op.peer == who && accepts(recv, &item->op) && !is_withdrawn(run, item))
            return id;
    }
    return NOBODY;
}

/* ---- packets for the oracle ---- */

static struct item *item_of(struct run *run, int who, uint64_t request)
{
    for (int id = 0; id < IDS_MAX; id++)
        if (run->items[id].is_live && run->items[id].request == request &&
            run->items[id].op.kind == RECV && run->items[id].op.ep == who)
            return &run->items[id];
    return NULL;
}

/* A message has claimed a receive.  An earlier receive whose lock word another sender has won,
 * and whose claim is still under way, does not count any more.  Returns the oracle's answer:
 * the claimed receive, or an earlier one that should have been claimed. */
static int interposer_claimed(struct interposer *interposer, struct mbx_match_envelope envelope,
                              uint64_t request)
{
    struct oracle *oracle = &interposer->run->oracles[interposer->who];
    struct item *won = item_of(interposer->run, interposer->who, request);

    for (int i = 0; won != NULL && i < oracle->recvs.count; i++) {
        struct item *item = &interposer->run->items[oracle->recvs.entries[i].id];
        struct oracle only = {.recvs.count = 1, .recvs.entries = {oracle->recvs.entries[i]}};
        struct request *req = request_find(interposer->ep, item->request);

        if (item == won)
            break;
        if (oracle_find(&only, envelope) != NOBODY &&
            (req == NULL || lockword_owner(interposer->ep, req->open.word) == MBX_ANY_SOURCE))
            return item->op.id; /* open and earlier */
    }
    if (won == NULL || !oracle_cancel(oracle, won->op.id))
        return NOBODY;
    return won->op.id;
}

/* Returns the receive that a CLAIM or WRITE names. */
static uint64_t interposer_receiver(const struct wire_header *header, const void *packet)
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

/* Receive recv gets message id of this peer: does recv also accept an earlier message of the
 * peer that still waits there? */
static void interposer_check_order(struct interposer *interposer, int recv, int peer, int id)
{
    int earlier = oldest_held(interposer->run, interposer->who,
                              &interposer->run->items[recv].op, peer, id);

    if (earlier != NOBODY)
        wrong(interposer->run,
              "receive %d%s gets message %d, but also accepts message %d, which the same peer "
              "sent earlier and which waits",
              recv,
              recv >= OPS_MAX ? " (from any, any tag; posted by the test after the program)"
                              : "",
              id, earlier);
}

/* Reports a packet that begins a message, and has been delivered, to the oracle. */
static void interposer_arrived(struct interposer *interposer, uint32_t peer,
                               const struct wire_header *header, const void *packet)
{
    struct mbx_match_envelope envelope = {header->context_id, peer, header->tag};
    int id = (int)header->data, recv;

    if (header->data >= IDS_MAX || !interposer->run->items[id].is_live) {
        wrong(interposer->run, "a message that nobody sent arrives");
        return;
    }
    if (header->type == WIRE_CLAIM || header->type == WIRE_WRITE) {
        uint64_t receiver = interposer_receiver(header, packet);

        recv = interposer_claimed(interposer, envelope, receiver);
        if (recv == NOBODY || interposer->run->items[recv].request != receiver)
            wrong(interposer->run, "message %d has claimed a receive that is not the first",
                  id);
    } else {
        recv = oracle_arrive(&interposer->run->oracles[interposer->who], envelope, id);
    }
    interposer->run->items[id].is_here = true;
    if (recv == NOBODY)
        return;
    message_taken(interposer->run, recv, id);
    interposer_check_order(interposer, recv, (int)peer, id);
}

/* Receive recv has matched a message that has not arrived. */
static void interposer_met(struct interposer *interposer, int recv,
                           struct mbx_match_envelope envelope, uint64_t data)
{
    struct run *run = interposer->run;
    int id = (int)data;

    if (data >= IDS_MAX || !run->items[id].is_live || run->items[id].is_here ||
        run->items[id].op.ep != (int)envelope.source ||
        run->items[id].op.peer != interposer->who)
        wrong(run, "receive %d takes a message that is not held for it", recv);
    else if (oracle_arrive(&run->oracles[interposer->who], envelope, id) != recv)
        wrong(run, "receive %d is not the first for message %d", recv, id);
    else
        interposer_check_order(interposer, recv, (int)envelope.source, id);
    if (run->why[0] != '\0')
        return;
    run->items[id].is_here = true;
    message_taken(run, recv, id);
}

/* A receive that waits in the oracle and not in its endpoint has pulled a message from its
 * sender.  Its completion names the message, and the oracle checks it.  This is done in posting
 * order, in which the endpoint pulls for several receives. */
void interposer_taken(struct interposer *interposer)
{
    struct oracle *oracle = &interposer->run->oracles[interposer->who];

    for (int i = 0; i < oracle->recvs.count && interposer->run->why[0] == '\0'; i++) {
        struct item *item = &interposer->run->items[oracle->recvs.entries[i].id];
        const struct request *req = request_find(interposer->ep, item->request);
        const struct mbx_status *status;

        if (req == NULL || req->match.state == MBX_MATCH_QUEUED ||
            req->state == REQUEST_REVOKING || req->completion.error == -ECANCELED)
            continue;
        status = &req->completion.status;
        interposer_met(
            interposer, item->op.id,
            (struct mbx_match_envelope){status->context_id, status->source, status->tag},
            status->data);
        i = -1; /* the receive has left the oracle */
    }
}

/* A sender withdraws its message: if it waits in the oracle, it is removed. */
static void interposer_withdrawn(struct interposer *interposer, uint32_t peer,
                                 const void *packet)
{
    struct run *run = interposer->run;
    struct wire_withdraw withdraw;

    memcpy(&withdraw, (const char *)packet + sizeof(struct wire_header), sizeof withdraw);
    for (int id = 0; id < IDS_MAX; id++) {
        struct item *item = &run->items[id];

        if (item->is_live && (item->op.kind == SEND || item->op.kind == SSEND) &&
            item->op.ep == (int)peer && item->op.peer == interposer->who &&
            item->request == withdraw.sender)
            item->is_withdrawn = oracle_extract(&run->oracles[interposer->who], id);
    }
}

/* ---- between transport and core ---- */

static int interposer_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct interposer *interposer = arg;
    struct wire_header header;
    uint64_t reached = interposer->ep->stats.claims_met + interposer->ep->stats.advert_won;
    int err;

    interposer_taken(interposer);
    err = deliver_packet(interposer->ep, peer, packet, size);
    memcpy(&header, packet, sizeof header);
    if (err == 0 &&
        (header.type == WIRE_EAGER || header.type == WIRE_SYNC || header.type == WIRE_FIRST ||
         header.type == WIRE_RTS ||
         interposer->ep->stats.claims_met + interposer->ep->stats.advert_won != reached))
        interposer_arrived(interposer, peer, &header, packet);
    if (err == 0 && header.type == WIRE_WITHDRAW)
        interposer_withdrawn(interposer, peer, packet);
    interposer_taken(interposer);
    return err;
}

int interposer_progress(struct interposer *interposer)
{
    int moved = mbx_progress(interposer->ep);

    interposer_taken(interposer);
    return moved;
}

static int interposer_accept(void *arg, struct link *link,
                             const struct transport_address *address, uint32_t *peer)
{
    return peer_accept(((struct interposer *)arg)->ep, link, address, peer);
}

static void interposer_read_done(void *arg, void *cookie, int error)
{
    progress_io_done(((struct interposer *)arg)->ep, cookie, error);
}

static void interposer_cswap_done(void *arg, uint64_t cookie, int error, bool is_swapped)
{
    by_sender_exchanged(((struct interposer *)arg)->ep, cookie, error, is_swapped);
}

static void interposer_dropped(void *arg, const char *reason)
{
    progress_dropped(((struct interposer *)arg)->ep, reason);
}

static const struct transport_events interposer_events = {
    .accept = interposer_accept,
    .deliver = interposer_deliver,
    .read_done = interposer_read_done,
    .cswap_done = interposer_cswap_done,
    .dropped = interposer_dropped,
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

void interposer_open(struct interposer *interposer)
{
    const struct program *program = interposer->run->program;
    const char *params[PARAMS_MAX + 1] = {NULL};
    const struct mbx_config config = {.params = params};
    const struct transport_ops *ops = ops_of(program->over);
    struct transport_config again = {.events = &interposer_events, .arg = interposer};
    struct settings *s;
    int err;

    for (int i = 0; i < PARAMS_MAX && program->params[i][0] != '\0'; i++)
        params[i] = program->params[i];
    err = mbx_open(&config, &interposer->ep);
    if (err < 0)
        abort();
    ep_defer(interposer->ep)->capacity = (uint32_t)program->capacity;
    s = &interposer->ep->settings;
    again.credit = credit_welcome(interposer->ep);
    again.peers = s->peers_max;
    again.settings = s->transports;
    testing_settings(&again.settings)->fault_seed =
        program->seed * 4 + (uint64_t)interposer->who;
    interposer->ep->net.transport->ops->close(interposer->ep->net.transport);
    err = transport_open(ops, &again, &interposer->ep->net.transport);
    if (err < 0)
        abort();
    progress_polled(interposer->ep);
}
