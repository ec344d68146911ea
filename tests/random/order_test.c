/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_test.c - random programs on two or three endpoints, compared with the oracle.
 *
 *   order_test [--quick] [--seed N [--count N]] [--loop | --ofi] [--window | --early]
 *
 * --loop: not over shm; --ofi: over the network of this machine instead; --window: without
 * MBX_MATCH_AT=sender; --early: also without a window or protocol that prevents the
 * advertisement of receives, nearly all of which are advertised.
 *
 * Each seed makes a short program of sends, receives, probes, cancels and progress, and the
 * settings of its endpoints (order_program.h).  An interposer between transport and core
 * (order_interposer.h) reports arrivals to the oracle of each endpoint, and the test reports
 * receives as they are posted.  Then the oracle and the test check:
 *
 *   which receive gets which message, what a probe shows, whether a cancel is in time;
 *   that each operation completes exactly once, with the right error and content;
 *   that a synchronous send completes only after its message was received;
 *   the length of both queues after every step, and that nothing is left at the end;
 *   that a message which waits at its sender matches no receive, or probe, that accepts an
 *   earlier message of that sender.
 *
 * Everything over the loop transport follows from the seed.  A program that fails is shrunk:
 * operations that the failure does not need are dropped, and the rest is printed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "core/core.h"
#include "order_interposer.h"

#define SETTLED_ROUNDS 100

static uint64_t current_seed; /* printed after a crash */

/* Receives advertised in all programs so far, and their results. */
static uint64_t told, written, missed, nothing, stopped;

/* ---- completions ---- */

static const unsigned char *content(int id, size_t size)
{
    return seeded_bytes((unsigned)id * 61 % 4096, size);
}

static void check_recv(struct run *run, struct item *item, const struct mbx_completion *c)
{
    const struct op *sent;
    size_t size;

    if (item->is_cancelled) {
        if (c->error != -ECANCELED)
            wrong(run, "cancelled receive %d ends with %d", item->op.id, c->error);
        return;
    }
    if (item->got == NOBODY) {
        wrong(run, "receive %d completes without a message", item->op.id);
        return;
    }
    sent = &run->items[item->got].op;
    size = min_size(sent->size, item->op.size);
    if (c->status.data != (uint64_t)item->got)
        wrong(run, "receive %d gets message %d, not %d", item->op.id, (int)c->status.data,
              item->got);
    else if (c->status.tag != sent->tag || c->status.source != (uint32_t)sent->ep ||
             c->status.context_id != sent->context_id || c->status.size != sent->size)
        wrong(run, "receive %d has another envelope than message %d", item->op.id, item->got);
    else if (c->error != (sent->size > item->op.size ? -EMSGSIZE : 0) || c->received != size)
        wrong(run, "receive %d ends with %d, %zu bytes", item->op.id, c->error, c->received);
    else if (memcmp(item->buf, content(item->got, size), size) != 0)
        wrong(run, "receive %d: message %d has changed", item->op.id, item->got);
}

/* Has the sender of this message taken the lock word of a receive that accepts it? */
static bool is_bound(const struct run *run, const struct item *item)
{
    const struct oracle *oracle = &run->oracles[item->op.peer];
    const struct mbx_ep *ep = run->interposers[item->op.peer].ep;

    for (int i = 0; i < oracle->recvs.count; i++) {
        const struct item *recv = &run->items[oracle->recvs.entries[i].id];
        const struct request *req = request_find(ep, recv->request);

        if (req != NULL && accepts(&recv->op, &item->op) &&
            lockword_owner(ep, req->open.word) == (uint32_t)item->op.ep)
            return true;
    }
    return false;
}

static void check_send(struct run *run, struct item *item, const struct mbx_completion *c)
{
    if (c->error == -ECANCELED && item->is_asked) {
        if (item->is_taken || (item->is_here && !item->is_withdrawn))
            wrong(run, "send %d is taken back, and was received", item->op.id);
        item->is_withdrawn = true;
        return;
    }
    if (item->is_withdrawn)
        wrong(run, "send %d was taken back, and ends with %d", item->op.id, c->error);
    if (c->error != 0 || c->received != item->op.size || c->status.tag != item->op.tag ||
        c->status.source != (uint32_t)item->op.peer)
        wrong(run, "send %d ends with %d, %zu bytes", item->op.id, c->error, c->received);
    else if (item->op.kind == SSEND && !item->is_taken && !is_bound(run, item))
        wrong(run, "synchronous send %d completes before it is taken", item->op.id);
}

static void check_completion(struct run *run, int who, const struct mbx_completion *c)
{
    struct item *item = c->user;

    if (item < run->items || item >= run->items + IDS_MAX || item->op.ep != who ||
        item->request != c->request || item->completions++ != 0) {
        wrong(run, "a completion of nobody's, or a second one");
        return;
    }
    if (item->op.kind == SEND || item->op.kind == SSEND)
        check_send(run, item, c);
    else
        check_recv(run, item, c);
}

static void poll_some(struct run *run, int who, unsigned queues, int most)
{
    struct mbx_completion entries[8];
    int count = mbx_poll(run->interposers[who].ep, queues, entries, most);

    for (int i = 0; i < count; i++)
        check_completion(run, who, &entries[i]);
}

/* ---- operations ---- */

static int64_t pack(void *context, size_t offset, void *to, size_t size)
{
    memcpy(to, (const unsigned char *)context + offset, size);
    return (int64_t)size;
}

static int unpack(void *context, size_t offset, const void *from, size_t size)
{
    memcpy((unsigned char *)context + offset, from, size);
    return 0;
}

/* Sets the options of an operation.  Its data is contiguous, or with odd seeds in a vector or
 * packed by callbacks.  Draws from a generator of its own, so that older seeds keep their
 * meaning.  Returns the buf argument. */
static void *lay_out(const struct run *run, struct item *item, unsigned char *bytes,
                     struct mbx_options *options)
{
    const size_t size = item->op.size;
    struct random r;

    *options = (struct mbx_options){.user = item, .data = (uint64_t)item->op.id};
    random_seed(&r, ~(run->program->seed * 64 + (uint64_t)item->op.id));
    item->parts[0] = (struct mbx_iovec){bytes, size / 3};
    item->parts[1] = (struct mbx_iovec){NULL, 0};
    item->parts[2] = (struct mbx_iovec){bytes + size / 3, size - size / 3};
    switch (run->program->seed % 2 != 0 ? random_below(&r, 4) : 3) {
    case 0:
        item->layout = (struct mbx_layout){.parts = item->parts, .count = 3};
        break;
    case 1:
        item->layout = (struct mbx_layout){.pack = pack, .unpack = unpack, .context = bytes};
        break;
    default:
        return bytes;
    }
    options->flags = MBX_LAYOUT;
    options->layout = &item->layout;
    return NULL;
}

static void do_send(struct run *run, struct item *item)
{
    const struct op *op = &item->op;
    struct mbx_ep *ep = run->interposers[op->ep].ep;
    const unsigned char *data = content(op->id, op->size);
    struct mbx_options options;
    const void *buf = lay_out(run, item, (unsigned char *)(uintptr_t)data, &options);
    unsigned char copy[OPS_MAX];
    int err;

    item->is_live = true;
    if (op->kind == INJECT) {
        memcpy(copy, data, op->size);
        err = mbx_inject(ep, (uint32_t)op->peer, op->context_id, op->tag, copy, op->size,
                         (uint64_t)op->id);
        memset(copy, 0, sizeof copy);
    } else {
        err = (op->kind == SSEND ? mbx_ssend : mbx_send)(ep, (uint32_t)op->peer, op->context_id,
                                                         op->tag, buf, op->size, &options,
                                                         &item->request);
    }
    if (err != 0)
        wrong(run, "%s %d returns %d", kind_names[op->kind], op->id, err);
}

static uint32_t source_of(const struct op *op)
{
    return op->peer == NOBODY ? MBX_ANY_SOURCE : (uint32_t)op->peer;
}

static void do_recv(struct run *run, struct item *item)
{
    const struct op *op = &item->op;
    const struct mbx_match_envelope envelope = {op->context_id, source_of(op), op->tag};
    struct mbx_options options;
    void *buf;
    int err;

    item->buf = malloc(op->size + 1);
    buf = lay_out(run, item, item->buf, &options);
    err = mbx_recv(run->interposers[op->ep].ep, source_of(op), op->context_id, op->tag,
                   op->ignore, buf, op->size, &options, &item->request);
    if (err != 0) {
        wrong(run, "recv %d returns %d", op->id, err);
        return;
    }
    item->is_live = true;
    item->got = oracle_post(&run->oracles[op->ep], envelope, op->ignore, op->id);
    if (item->got != NOBODY)
        message_taken(run, op->id, item->got);
}

/* A probe shows a message that has not arrived: is it the right one? */
static bool probe_deferred(struct run *run, struct item *item, int id)
{
    const struct op *op = &item->op;
    struct oracle *oracle = &run->oracles[op->ep];
    const struct op *message = &run->items[id].op;
    struct oracle after = *oracle;

    if (id < 0 || id >= IDS_MAX || run->items[id].is_here || !run->items[id].is_live ||
        oldest_held(run, op->ep, op, message->ep, id + 1) != id ||
        oracle_find(&after, (struct mbx_match_envelope){message->context_id,
                                                        (uint32_t)message->ep, message->tag}) !=
            NOBODY)
        return false;
    if (op->kind == MPROBE) {
        run->items[id].is_here = true;
        item->is_live = item->is_claimed = true;
        item->got = id;
    }
    return true;
}

static void do_probe(struct run *run, struct item *item)
{
    const struct op *op = &item->op;
    const struct mbx_match_envelope envelope = {op->context_id, source_of(op), op->tag};
    struct mbx_ep *ep = run->interposers[op->ep].ep;
    struct mbx_status status = {.data = IDS_MAX};
    int found = op->kind == PROBE
                    ? mbx_probe(ep, source_of(op), op->context_id, op->tag, op->ignore, &status)
                    : mbx_mprobe(ep, source_of(op), op->context_id, op->tag, op->ignore,
                                 &status, &item->message);
    int want;

    interposer_taken(&run->interposers[op->ep]); /* before the look */
    want = oracle_peek(&run->oracles[op->ep], envelope, op->ignore);
    if (found == 1 && want == NOBODY && probe_deferred(run, item, (int)status.data))
        return;
    if (found != (want != NOBODY) || (found == 1 && status.data != (uint64_t)want)) {
        wrong(run, "%s %d returns %d and shows message %d, not %d", kind_names[op->kind],
              op->id, found, found == 1 ? (int)status.data : NOBODY, want);
        return;
    }
    if (found == 1 && op->kind == MPROBE) {
        oracle_extract(&run->oracles[op->ep], want);
        item->is_live = item->is_claimed = true;
        item->got = want;
    }
}

/* Executes mrecv and discard, of the message of an mprobe; the second time is an error. */
static void do_claimed(struct run *run, struct item *item)
{
    const struct op *op = &item->op;
    struct item *probe = &run->items[op->target];
    struct mbx_options options;
    int err, want = probe->is_claimed ? 0 : -ESTALE;

    if (!probe->is_live || probe->op.kind != MPROBE || probe->op.ep != op->ep)
        return;
    if (op->kind == MRECV) {
        void *buf;

        item->buf = malloc(op->size + 1);
        buf = lay_out(run, item, item->buf, &options);
        err = mbx_mrecv(run->interposers[op->ep].ep, probe->message, buf, op->size, &options,
                        &item->request);
        item->is_live = err == 0;
    } else {
        err = mbx_discard(run->interposers[op->ep].ep, probe->message);
    }
    if (err != want)
        wrong(run, "%s %d returns %d, not %d", kind_names[op->kind], op->id, err, want);
    if (err == 0) {
        probe->is_claimed = false;
        message_taken(run, op->id, probe->got);
    }
}

static bool has_request(const struct item *item)
{
    return item->is_live && (item->op.kind == SEND || item->op.kind == SSEND ||
                             item->op.kind == RECV || item->op.kind == MRECV);
}

/* Has a sender won the lock word of this receive, and not sent its claim yet? */
static bool is_won(const struct run *run, const struct item *item)
{
    const struct mbx_ep *ep = run->interposers[item->op.ep].ep;
    const struct request *req = request_find(ep, item->request);

    return req != NULL && req->state == REQUEST_POSTED &&
           lockword_owner(ep, req->open.word) != MBX_ANY_SOURCE;
}

static bool is_complete(const struct run *run, const struct item *item);

/* A synchronous send that has not matched, and that is not being written, can be cancelled. */
static void check_cancel_of_send(struct run *run, struct item *send, int err)
{
    bool may_be_late = send->op.kind == SEND || send->is_taken || is_bound(run, send) ||
                       is_complete(run, send);

    if (send->is_asked && err != -EINPROGRESS && !(is_complete(run, send) && err != 0))
        wrong(run, "second cancel of send %d returns %d", send->op.id, err);
    else if (!send->is_asked && err != 0 && !(may_be_late && err == -EALREADY))
        wrong(run, "cancel of send %d returns %d", send->op.id, err);
    send->is_asked |= err == 0;
}

static void do_cancel(struct run *run, struct item *item)
{
    struct item *target = &run->items[item->op.target];
    bool is_too_late;
    int err, want;

    if (!has_request(target))
        return;
    is_too_late = is_won(run, target);
    err = mbx_cancel(run->interposers[target->op.ep].ep, target->request);
    if (target->completions != 0) {
        want = -ESTALE;
    } else if (target->op.kind == SEND || target->op.kind == SSEND) {
        check_cancel_of_send(run, target, err);
        return;
    } else if (is_too_late) {
        want = -EALREADY;
    } else if (oracle_cancel(&run->oracles[target->op.ep], target->op.id)) {
        want = 0;
        target->is_cancelled = true;
    } else {
        want = target->is_cancelled ? -ECANCELED : -EALREADY;
    }
    if (err != want && !(want == -ECANCELED && err == -EINPROGRESS)) /* a device is asked */
        wrong(run, "cancel of %d returns %d, not %d", target->op.id, err, want);
}

/* Is the operation complete, or was its completion read? */
static bool is_complete(const struct run *run, const struct item *item)
{
    const struct request *req = request_find(run->interposers[item->op.ep].ep, item->request);

    return req == NULL || req->state == REQUEST_COMPLETE;
}

static void do_test(struct run *run, struct item *item)
{
    struct item *target = &run->items[item->op.target];
    struct mbx_completion completion;
    int done;

    if (!has_request(target))
        return;
    if (!is_complete(run, target))
        interposer_progress(&run->interposers[target->op.ep]);
    if (!is_complete(run, target))
        return; /* a receive that pulls and completes in one call would leave no trace */
    done = mbx_test(run->interposers[target->op.ep].ep, target->request, &completion);
    if (target->completions != 0 ? done != -ESTALE : done < 0)
        wrong(run, "test of %d returns %d", target->op.id, done);
    else if (done == 1)
        check_completion(run, target->op.ep, &completion);
}

static void do_op(struct run *run, const struct op *op)
{
    struct item *item = &run->items[op->id];

    item->op = *op;
    item->got = NOBODY;
    switch (op->kind) {
    case SEND:
    case SSEND:
    case INJECT:
        do_send(run, item);
        break;
    case RECV:
        do_recv(run, item);
        break;
    case PROBE:
    case MPROBE:
        do_probe(run, item);
        break;
    case MRECV:
    case DISCARD:
        do_claimed(run, item);
        break;
    case CANCEL:
        do_cancel(run, item);
        break;
    case PROGRESS:
        interposer_progress(&run->interposers[op->ep]);
        break;
    case POLL:
        poll_some(run, op->ep, op->queues, 3);
        break;
    case TEST:
        do_test(run, item);
        break;
    case KINDS:
        break;
    }
    for (int i = 0; i < run->program->eps; i++)
        interposer_taken(&run->interposers[i]);
}

/* Both queues are as long as the oracle's. */
static void check_queues(struct run *run)
{
    for (int i = 0; i < run->program->eps; i++) {
        struct stats stats;

        stats_read(run->interposers[i].ep, &stats);
        if (stats.posted_now != (uint64_t)run->oracles[i].recvs.count ||
            stats.unexpected_now != (uint64_t)run->oracles[i].msgs.count)
            wrong(run, "endpoint %d has %d posted, %d unexpected, not %d and %d", i,
                  (int)stats.posted_now, (int)stats.unexpected_now, run->oracles[i].recvs.count,
                  run->oracles[i].msgs.count);
    }
}

/* ---- the end ---- */

static bool is_under_way(const struct run *run)
{
    struct mbx_ep *eps[EPS_MAX];

    for (int i = 0; i < run->program->eps; i++)
        eps[i] = run->interposers[i].ep;
    return run->program->over == OVER_OFI && cluster_is_under_way(eps, run->program->eps);
}

static void settle(struct run *run)
{
    for (int idle = 0; idle < SETTLED_ROUNDS; idle++) {
        for (int i = 0; i < run->program->eps; i++)
            if (interposer_progress(&run->interposers[i]) > 0)
                idle = 0;
        if (is_under_way(run))
            idle = 0;
    }
}

/* Everything is quiet: no open receive matches a message that waits at its sender. */
static void check_met(struct run *run)
{
    for (int id = 0; id < IDS_MAX; id++) {
        const struct item *message = &run->items[id];

        if (!message->is_live || !is_message(&message->op) || message->is_here ||
            is_withdrawn(run, message))
            continue;
        for (int i = 0; i < run->oracles[message->op.peer].recvs.count; i++) {
            int recv = run->oracles[message->op.peer].recvs.entries[i].id;

            if (accepts(&run->items[recv].op, &message->op))
                wrong(run, "receive %d and message %d never meet", recv, id);
        }
    }
}

/* Receives until no message waits at its sender any more. */
static void finish_held(struct run *run)
{
    for (int id = 0; id < IDS_MAX && run->why[0] == '\0'; id++) {
        const struct op *message = &run->items[id].op;
        struct op op = {.kind = RECV, .peer = NOBODY, .ignore = MBX_IGNORE_ALL, .size = 1};

        if (!run->items[id].is_live || !is_message(message) || run->items[id].is_here ||
            is_withdrawn(run, &run->items[id]) || run->next_id == IDS_MAX - 1)
            continue;
        op.ep = message->peer;
        op.context_id = message->context_id;
        op.id = run->next_id++;
        do_op(run, &op);
        settle(run);
        id = -1;
    }
}

/* Receives queued messages, cancels open receives, drops claimed messages. */
static void finish(struct run *run)
{
    struct op op = {.kind = RECV, .peer = NOBODY, .ignore = MBX_IGNORE_ALL, .size = 1};

    settle(run);
    check_met(run);
    finish_held(run);
    for (op.ep = 0; op.ep < run->program->eps; op.ep++) {
        while (run->oracles[op.ep].msgs.count > 0 && run->why[0] == '\0') {
            op.id = run->next_id++;
            op.context_id = run->oracles[op.ep].msgs.entries[0].envelope.context_id;
            do_op(run, &op);
        }
    }
    for (int id = 0; id < IDS_MAX && run->why[0] == '\0'; id++) {
        const struct op cancel = {.kind = CANCEL, .target = id},
                        discard = {.kind = DISCARD,
                                   .target = id,
                                   .ep = run->items[id].op.ep,
                                   .id = IDS_MAX - 1};
        struct item spare = {.op = cancel};

        if (run->items[id].is_claimed)
            do_op(run, &discard);
        else if (run->items[id].op.kind == RECV && run->items[id].completions == 0)
            do_cancel(run, &spare);
    }
    settle(run);
    for (int i = 0; i < run->program->eps; i++)
        for (int round = 0; round < IDS_MAX; round++)
            poll_some(run, i, MBX_SENDS | MBX_RECVS, 8);
}

static void check_end(struct run *run)
{
    for (int id = 0; id < IDS_MAX; id++)
        if (has_request(&run->items[id]) && run->items[id].completions != 1)
            wrong(run, "%s %d never completes", kind_names[run->items[id].op.kind], id);
    for (int i = 0; i < run->program->eps; i++) {
        struct stats s;

        stats_read(run->interposers[i].ep, &s);
        told += s.advert_sent;
        written += s.advert_won;
        missed += s.advert_missed;
        nothing += s.advert_void;
        stopped += s.advert_stopped;
        if (s.requests_now != 0 || s.posted_now != 0 || s.unexpected_now != 0 ||
            s.unexpected_bytes_now != 0)
            wrong(run, "endpoint %d has something left", i);
        if (s.dropped_packets != 0)
            wrong(run, "endpoint %d dropped a packet", i);
    }
}

static void open_all(struct run *run)
{
    struct mbx_address address;
    uint32_t number;

    for (int i = 0; i < run->program->eps; i++) {
        run->interposers[i] = (struct interposer){.run = run, .who = i};
        oracle_init(&run->oracles[i]);
        interposer_open(&run->interposers[i]);
    }
    for (int i = 0; i < run->program->eps; i++)
        for (int j = 0; j < run->program->eps; j++) {
            mbx_address_get(run->interposers[j].ep, &address);
            if (mbx_peer_add(run->interposers[i].ep, &address, &number) != 0 ||
                number != (uint32_t)j)
                wrong(run, "peer %d of endpoint %d has number %u", j, i, number);
        }
}

/* Returns true if everything was right; otherwise why has the first error. */
static bool program_run(const struct program *program, char *why, size_t size)
{
    struct run *run = calloc(1, sizeof *run);
    uint64_t mem = mem_live();
    bool ok;

    current_seed = program->seed;
    run->program = program;
    run->next_id = OPS_MAX;
    open_all(run);
    for (int i = 0; i < program->count && run->why[0] == '\0'; i++) {
        do_op(run, &program->ops[i]);
        check_queues(run);
        for (int who = 0; who < program->eps; who++)
            ep_check(run->interposers[who].ep);
    }
    if (run->why[0] == '\0')
        finish(run);
    if (run->why[0] == '\0')
        check_end(run);
    for (int i = 0; i < program->eps; i++)
        mbx_close(run->interposers[i].ep);
    if (mem_live() != mem)
        wrong(run, "memory is lost");
    for (int i = 0; i < IDS_MAX; i++)
        free(run->items[i].buf);
    ok = run->why[0] == '\0';
    snprintf(why, size, "%s", run->why);
    free(run);
    return ok;
}

/* ---- failures ---- */

static bool fails(const struct program *program)
{
    char why[256];

    return !program_run(program, why, sizeof why);
}

static void program_report(struct program *p)
{
    char why[256];

    program_shrink(p, fails);
    program_run(p, why, sizeof why);
    printf("FAIL seed %llu over %s: %s\nshortest program:\n", (unsigned long long)p->seed,
           over_names[p->over], why[0] != '\0' ? why : "(not every time)");
    program_print(p);
}

enum only { ONLY_ANY, ONLY_WINDOW, ONLY_EARLY };

/* Replaces the drawn parameter that has this name. */
static void draw(struct program *p, const char *param)
{
    size_t name = (size_t)(strchr(param, '=') - param) + 1;

    for (int i = 0; i < PARAMS_MAX; i++)
        if (strncmp(p->params[i], param, name) == 0)
            snprintf(p->params[i], sizeof p->params[i], "%s", param);
}

static void draw_only(struct program *p, enum only only)
{
    if (only == ONLY_ANY)
        return;
    draw(p, "MATCH_AT=receiver");
    if (only == ONLY_WINDOW)
        return;
    draw(p, "RNDV=auto");
    draw(p, "ADVERT=always");
    draw(p, "ADVERT_SIZE=1");
    draw(p, p->seed % 4 == 0 ? "WINDOW=1" : p->seed % 4 == 1 ? "WINDOW=3" : "WINDOW=auto");
}

static int run_seeds(uint64_t first, uint64_t count, enum over over, enum only only)
{
    static struct program p;
    char why[256];

    for (uint64_t seed = first; seed < first + count; seed++) {
        program_make(&p, seed, over);
        draw_only(&p, only);
        if (program_run(&p, why, sizeof why))
            continue;
        program_report(&p);
        return 1;
    }
    printf("%llu programs over %s; so far %llu receives were told early: %llu written, %llu of "
           "these not whole, %llu missed, %llu void\n",
           (unsigned long long)count, over_names[over], (unsigned long long)told,
           (unsigned long long)written, (unsigned long long)stopped, (unsigned long long)missed,
           (unsigned long long)nothing);
    return 0;
}

static void on_abort(int signal)
{
    char text[64];
    int size =
        snprintf(text, sizeof text, "aborted at seed %llu\n", (unsigned long long)current_seed);

    (void)signal;
    if (write(2, text, (size_t)size) < 0)
        _exit(2);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, loops = 20000, shms = 2000, ofis = 500;
    bool is_loop = false, is_ofi = getenv("MATCHBOX_TEST_NETWORK") != NULL;
    bool is_quick = getenv("MATCHBOX_TEST_QUICK") != NULL;
    enum only only = ONLY_ANY;

    for (int i = 1; i < argc; i++)
        is_quick |= strcmp(argv[i], "--quick") == 0;
    if (is_quick) {
        loops = 1000;
        shms = 80;
        ofis = 40;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            continue;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            loops = shms = ofis = 1;
        } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
            loops = shms = ofis = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--loop") == 0) {
            is_loop = true;
        } else if (strcmp(argv[i], "--ofi") == 0) {
            is_ofi = true;
        } else if (strcmp(argv[i], "--window") == 0) {
            only = ONLY_WINDOW;
        } else if (strcmp(argv[i], "--early") == 0) {
            only = ONLY_EARLY;
        } else if (strcmp(argv[i], "--help") == 0) {
            printf("usage: order_test [--quick] [--seed N [--count N]] [--loop | --ofi] "
                   "[--window | --early]\n");
            return 0;
        } else {
            fprintf(stderr,
                    "unknown argument '%s'; --quick, --seed N, --count N, --loop, --ofi, "
                    "--window, "
                    "--early\n",
                    argv[i]);
            return 2;
        }
    }
    signal(SIGABRT, on_abort);
    if (is_ofi)
        return run_seeds(first, ofis, OVER_OFI, only);
    return run_seeds(first, loops, OVER_LOOP, only) |
           (is_loop ? 0 : run_seeds(first, shms, OVER_SHM, only));
}
