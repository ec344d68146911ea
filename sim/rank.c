/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c - one rank at work: operations, progress, completions.
 *
 * A buffer that was lent to the library is spoilt and freed as soon as the library gives it
 * back, so who reads or writes it later is found: by what arrives, or by the sanitizer.
 */
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/core.h"
#include "defer/defer.h"

#define ROUNDS_MAX  4 /* of progress, before others have their turn */
#define MPROBES_MAX 6

/* ---- contents ---- */

static unsigned char content_at(uint32_t id, size_t i)
{
    return (unsigned char)(id * 131 + i * 7 + (i >> 8) * 3 + 1);
}

static void content_fill(unsigned char *buf, uint32_t id, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = content_at(id, i);
}

static bool content_is(const unsigned char *buf, uint32_t id, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (buf[i] != content_at(id, i))
            return false;
    return true;
}

/* The number from which the content of this message is made. */
static uint32_t content_of(const struct item *message)
{
    return message->op.id + message->key;
}

static unsigned char *buffer(size_t size)
{
    unsigned char *buf = malloc(size + 1);

    if (buf == NULL)
        abort();
    memset(buf, 0x5a, size + 1);
    return buf;
}

static void buffer_free(struct item *item)
{
    if (item->buf != NULL)
        memset(item->buf, 0xee, item->op.size);
    free(item->buf);
    item->buf = NULL;
}

/* ---- peers ---- */

/* The number of that rank among the peers of who. */
uint32_t rank_peer(struct job *job, uint32_t who, uint32_t rank)
{
    uint32_t number = 0;
    int err, tries = 0;

    if (rank == PLAN_ANYBODY)
        return MBX_ANY_SOURCE;
    do /* of allocations one fails at a time */
        err = mbx_peer_add(job->ranks[who].ep, &job->ranks[rank].address, &number);
    while (err == -ENOMEM && tries++ < 4);
    if (err != 0)
        job_wrong(job, "rank %" PRIu32 " cannot know rank %" PRIu32 ": %d", who, rank, err);
    return number;
}

/* ... and the rank of a number. */
static uint32_t rank_of(struct job *job, uint32_t who, uint32_t number)
{
    struct rank *rank = &job->ranks[who];
    struct mbx_address address;

    while (number >= rank->known && mbx_peer_address(rank->ep, rank->known, &address) == 0) {
        if ((rank->known & (rank->known - 1)) == 0)
            rank->whose = realloc(rank->whose, (rank->known + 1) * 2 * sizeof *rank->whose);
        if (rank->whose == NULL)
            abort();
        rank->whose[rank->known++] = sim_whose(address.bytes);
    }
    return number < rank->known ? rank->whose[number] : SIM_NOBODY;
}

/* ---- completions ---- */

/* A receive or probe of who has met the message that says it is this one. */
static void message_met(struct job *job, struct item *item, const struct mbx_status *status)
{
    struct item *message = job_item(job, (uint32_t)status->data);
    bool takes = item->op.kind != OP_PROBE;

    if (status->data == 0 || status->data >= job->item_count || !message->is_live ||
        !op_is_message(&message->op) || message->op.peer != item->op.rank)
        job_wrong(job, "%s %" PRIu32 " meets a message that nobody sent there",
                  op_names[item->op.kind], item->op.id);
    else if (message->op.tag != status->tag || message->op.context_id != status->context_id ||
             message->op.size != status->size ||
             rank_of(job, item->op.rank, status->source) != message->op.rank)
        job_wrong(job, "%s %" PRIu32 " sees another envelope than that of message %" PRIu32,
                  op_names[item->op.kind], item->op.id, message->op.id);
    else if (takes && message->is_cancelled)
        job_wrong(job, "message %" PRIu32 " is taken by %" PRIu32 ", and was taken back",
                  message->op.id, item->op.id);
    else if (takes && message->taken_by != 0)
        job_wrong(job, "message %" PRIu32 " is taken by %" PRIu32 " and by %" PRIu32,
                  message->op.id, message->taken_by, item->op.id);
    if (job->why[0] != '\0')
        return;
    item->got = message->op.id;
    if (takes)
        message->taken_by = item->op.id;
}

/* The rank whose death explains that the operation has failed, if there is one. */
static bool is_explained(struct job *job, const struct item *item,
                         const struct mbx_completion *c)
{
    uint32_t other = rank_of(job, item->op.rank, c->status.source);

    return other != SIM_NOBODY && job->ranks[other].is_dead &&
           (c->error == -ENOTCONN || c->error == -EHOSTUNREACH || c->error == -EHOSTDOWN);
}

/* Its send is complete now: program.h. */
static void message_received(struct job *job, struct item *message)
{
    message->is_received = true;
    if (job->replay != NULL)
        sim_alarm(message->op.rank, sim_now());
}

static void receive_failed(struct job *job, struct item *item, const struct mbx_completion *c)
{
    if (c->error == -ECANCELED && item->is_asked) {
        item->is_cancelled = true;
        job->counts.cancelled++;
        return;
    }
    if (!is_explained(job, item, c))
        job_wrong(job, "%s %" PRIu32 " ends with %d", op_names[item->op.kind], item->op.id,
                  c->error);
    if (c->status.data != 0 && item->op.kind == OP_RECV)
        message_met(job, item, &c->status);
    job->counts.failed++;
}

static void receive_done(struct job *job, struct item *item, const struct mbx_completion *c)
{
    size_t fits = min_size(c->status.size, item->op.size);

    if (c->error != 0 && c->error != -EMSGSIZE) {
        receive_failed(job, item, c);
        return;
    }
    if (item->is_asked && !job->plan->has_device)
        job_wrong(job, "receive %" PRIu32 " was cancelled and ends with %d", item->op.id,
                  c->error);
    if (item->op.kind == OP_RECV)
        message_met(job, item, &c->status);
    if (job->why[0] != '\0')
        return;
    if (c->status.data != item->got)
        job_wrong(job, "mrecv %" PRIu32 " gets message %" PRIu64 ", not %" PRIu32, item->op.id,
                  c->status.data, item->got);
    else if (c->error != (c->status.size > item->op.size ? -EMSGSIZE : 0) ||
             c->received != fits)
        job_wrong(job, "receive %" PRIu32 " ends with %d, %zu bytes", item->op.id, c->error,
                  c->received);
    else if (!content_is(item->buf, content_of(job_item(job, item->got)), fits))
        job_wrong(job, "receive %" PRIu32 ": message %" PRIu32 " has changed", item->op.id,
                  item->got);
    else if (item->buf[item->op.size] != 0x5a)
        job_wrong(job, "receive %" PRIu32 ": written beyond its end", item->op.id);
    message_received(job, job_item(job, item->got));
    job->counts.received++;
    job->counts.truncated += c->error != 0;
}

/* Nobody has the message. */
static void send_taken_back(struct job *job, struct item *item)
{
    if (item->taken_by != 0)
        job_wrong(job, "%s %" PRIu32 " was taken back, and taken by %" PRIu32,
                  op_names[item->op.kind], item->op.id, item->taken_by);
    item->is_void = true;
    item->is_cancelled = true;
    job->counts.cancelled++;
}

static void send_done(struct job *job, struct item *item, const struct mbx_completion *c)
{
    if (c->error == -ECANCELED && item->is_asked) {
        send_taken_back(job, item);
        return;
    }
    if (rank_of(job, item->op.rank, c->status.source) != item->op.peer)
        job_wrong(job, "%s %" PRIu32 " ends with another peer", op_names[item->op.kind],
                  item->op.id);
    else if (c->error == -ENOMEM && job->plan->percent_memory != 0 && item->taken_by == 0)
        item->is_void = true;
    else if (c->error != 0 && !is_explained(job, item, c))
        job_wrong(job, "%s %" PRIu32 " ends with %d", op_names[item->op.kind], item->op.id,
                  c->error);
    else if (c->error == 0 && op_is_message(&item->op) && c->received != item->op.size)
        job_wrong(job, "%s %" PRIu32 " ends with %zu bytes", op_names[item->op.kind],
                  item->op.id, c->received);
    job->counts.sent += c->error == 0;
    job->counts.failed += c->error != 0;
}

static void digest_add(struct job *job, uint64_t value)
{
    job->counts.digest = (job->counts.digest ^ value) * UINT64_C(0x100000001b3);
}

static void completed(struct job *job, uint32_t who, const struct mbx_completion *c)
{
    struct item *item = job_item(job, (uint32_t)(uintptr_t)c->user);

    if (!item_has_request(item) || item->op.rank != who || item->request != c->request ||
        item->completions++ != 0) {
        job_wrong(job, "rank %" PRIu32 " sees a completion of nobody's, or a second one", who);
        return;
    }
    item->error = c->error;
    item->done = ++job->ranks[who].clock;
    item->done_ns = job->last_ns = sim_now();
    if (item_is_receive(item))
        receive_done(job, item, c);
    else
        send_done(job, item, c);
    digest_add(job, item->op.id);
    digest_add(job, item->got);
    digest_add(job, (uint64_t)(int64_t)c->error);
    digest_add(job, sim_now());
    if (job->is_verbose)
        printf("%10.3f us  rank %" PRIu32 ": %s %" PRIu32 " ends with %d, message %" PRIu32
               "\n",
               (double)(sim_now() - job->begin_ns) / 1000, who, op_names[item->op.kind],
               item->op.id, c->error, item->got);
    if (op_is_message(&item->op) || item_is_receive(item))
        buffer_free(item);
}

uint32_t rank_dead_peers(struct job *job, uint32_t who)
{
    uint32_t dead = 0, rank;

    for (uint32_t peer = 0; (rank = rank_of(job, who, peer)) != SIM_NOBODY; peer++)
        dead += job->ranks[rank].is_dead && !job->ranks[rank].has_left;
    return dead;
}

/* A receive from any source, which waits as before, is told that a peer has died. */
static void on_notified(struct job *job, uint32_t who, const struct mbx_completion *c)
{
    struct item *item = job_item(job, (uint32_t)(uintptr_t)c->user);
    uint32_t dead = rank_of(job, who, c->status.source);

    if (!item_has_request(item) || item->op.kind != OP_RECV || item->op.rank != who ||
        item->op.peer != PLAN_ANYBODY || item->request != c->request ||
        item->completions != 0 || c->error != -EHOSTDOWN)
        job_wrong(job, "rank %" PRIu32 " is told of a death for a receive that does not wait",
                  who);
    else if (dead == SIM_NOBODY || !job->ranks[dead].is_dead || job->ranks[dead].has_left)
        job_wrong(job, "receive %" PRIu32 " is told of the death of somebody who lives",
                  item->op.id);
    else if (++item->notified > rank_dead_peers(job, who))
        job_wrong(job, "receive %" PRIu32 " is told of a death twice", item->op.id);
}

static void poll_all(struct job *job, uint32_t who)
{
    struct mbx_completion entries[8];
    int count;

    while ((count = mbx_poll(job->ranks[who].ep, MBX_SENDS | MBX_RECVS | MBX_ACCESS, entries,
                             8)) > 0)
        for (int i = 0; i < count; i++)
            completed(job, who, &entries[i]);
    while (job->counts.deaths != 0 &&
           (count = mbx_poll(job->ranks[who].ep, MBX_FAILURES, entries, 8)) > 0)
        for (int i = 0; i < count; i++)
            on_notified(job, who, &entries[i]);
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

/* Fills the options of an operation whose data is at buf: the library gets it there, or through
 * callbacks.  Returns the argument to pass as the buffer. */
static void *lay_out(const struct job *job, const struct op *op, unsigned char *buf,
                     struct mbx_options *options, struct mbx_layout *layout)
{
    struct random r;

    *options = (struct mbx_options){.user = (void *)(uintptr_t)op->id, .data = op->id};
    *layout = (struct mbx_layout){.pack = pack, .unpack = unpack, .context = buf};
    random_seed(&r, job->plan->seed * 4096 + op->id);
    if (random_below(&r, 100) >= job->plan->percent_pieces)
        return buf;
    options->flags = MBX_LAYOUT;
    options->layout = layout;
    return NULL;
}

static int do_send(struct job *job, struct item *item)
{
    const struct op *op = &item->op;
    struct mbx_ep *ep = job->ranks[op->rank].ep;
    struct mbx_options options;
    struct mbx_layout layout;
    uint32_t peer = rank_peer(job, op->rank, op->peer);
    unsigned char *buf = buffer(op->size);
    int err;

    item->is_live = true;
    content_fill(buf, content_of(item), op->size);
    if (op->kind == OP_INJECT) {
        err = mbx_inject(ep, peer, op->context_id, op->tag, buf, op->size, op->id);
        memset(buf, 0xee, op->size);
        free(buf);
        if (err == -ENOTCONN && job->ranks[op->peer].is_dead)
            err = 0;
        return err;
    }
    item->buf = buf;
    buf = lay_out(job, op, buf, &options, &layout);
    return (op->kind == OP_SSEND ? mbx_ssend : mbx_send)(ep, peer, op->context_id, op->tag, buf,
                                                         op->size, &options, &item->request);
}

static int do_recv(struct job *job, struct item *item)
{
    const struct op *op = &item->op;
    uint32_t peer = rank_peer(job, op->rank, op->peer);
    struct mbx_options options;
    struct mbx_layout layout;
    void *buf;

    item->is_live = true;
    item->buf = buffer(op->size);
    buf = lay_out(job, op, item->buf, &options, &layout);
    return mbx_recv(job->ranks[op->rank].ep, peer, op->context_id, op->tag, op->ignore, buf,
                    op->size, &options, &item->request);
}

static int do_probe(struct job *job, struct item *item)
{
    const struct op *op = &item->op;
    struct mbx_ep *ep = job->ranks[op->rank].ep;
    uint32_t peer = rank_peer(job, op->rank, op->peer);
    struct mbx_status status;
    int found = op->kind == OP_PROBE
                    ? mbx_probe(ep, peer, op->context_id, op->tag, op->ignore, &status)
                    : mbx_mprobe(ep, peer, op->context_id, op->tag, op->ignore, &status,
                                 &item->message);

    if ((found == -ENOTCONN || found == -EHOSTDOWN) && job->counts.deaths != 0)
        found = 0; /* nothing is there, and somebody has died */
    if (found <= 0)
        return found;
    poll_all(job, op->rank); /* it has made progress: what that completed was before it */
    item->posted = ++job->ranks[op->rank].clock;
    item->is_live = true;
    item->is_claimed = op->kind == OP_MPROBE;
    job->ranks[op->rank].claims += item->is_claimed;
    message_met(job, item, &status);
    return 0;
}

bool rank_probe(struct job *job, struct item *item)
{
    int err = do_probe(job, item);

    if (err != 0)
        job_wrong(job, "%s %" PRIu32 " returns %d", op_names[item->op.kind], item->op.id, err);
    if (item->is_live)
        job->last_ns = sim_now();
    return item->is_live;
}

static int do_claimed(struct job *job, struct item *item)
{
    const struct op *op = &item->op;
    struct item *probe = job_item(job, op->target);
    struct mbx_ep *ep = job->ranks[op->rank].ep;
    struct mbx_options options;
    struct mbx_layout layout;
    void *buf;

    if (!probe->is_claimed || probe->op.rank != op->rank)
        return 0;
    probe->is_claimed = false;
    item->got = probe->got;
    if (op->kind == OP_DISCARD) {
        message_received(job, job_item(job, item->got));
        return mbx_discard(ep, probe->message);
    }
    item->is_live = true;
    item->buf = buffer(op->size);
    buf = lay_out(job, op, item->buf, &options, &layout);
    return mbx_mrecv(ep, probe->message, buf, op->size, &options, &item->request);
}

/* Checks the result of mbx_cancel() for a send that was not seen complete: 0, or -EBADMSG if it
 * is not allowed. */
static int cancel_send(struct item *send, int err)
{
    if (!op_is_message(&send->op))
        return err == -EOPNOTSUPP ? 0 : -EBADMSG;
    if (send->is_asked)
        return err == -EINPROGRESS || err == -ECANCELED || err == -EALREADY ? 0 : -EBADMSG;
    send->is_asked = err == 0;
    return err == 0 || err == -EALREADY ? 0 : -EBADMSG;
}

static int do_cancel(struct job *job, struct item *item)
{
    struct item *target = job_item(job, item->op.target);
    int err;

    if (!item_has_request(target) || target->op.rank != item->op.rank)
        return 0;
    err = mbx_cancel(job->ranks[item->op.rank].ep, target->request);
    if (err == 0 && target->op.kind == OP_RECV && !target->is_asked &&
        target->completions == 0) {
        target->is_asked = true;
        target->cancelled = ++job->ranks[item->op.rank].clock;
        return 0;
    }
    if (target->completions != 0)
        return err == -ESTALE ? 0 : -EBADMSG;
    if (!item_is_receive(target))
        return cancel_send(target, err);
    if (job->plan->has_device && (err == -EINPROGRESS || err == -EALREADY))
        return 0;
    return err == (target->is_asked ? -ECANCELED : -EALREADY) ? 0 : -EBADMSG;
}

static int do_add(struct job *job, struct item *item)
{
    static const uint64_t one = 1;
    const struct op *op = &item->op;
    const struct mbx_options options = {.user = (void *)(uintptr_t)op->id};
    const struct mbx_atomic_args atomic = {.op = MBX_SUM,
                                           .type = MBX_UINT64,
                                           .count = 1,
                                           .operand = &one,
                                           .result = &item->result,
                                           .key = PLAN_REGION_KEY,
                                           .address = op->tag % PLAN_CELLS * sizeof one};

    item->is_live = true;
    return mbx_atomic(job->ranks[op->rank].ep, rank_peer(job, op->rank, op->peer), &atomic,
                      &options, &item->request);
}

static void do_die(struct job *job, uint32_t who, enum op_kind kind)
{
    struct rank *rank = &job->ranks[who];

    if (kind == OP_DIE)
        sim_kill(who);
    rank->is_dead = true;
    rank->has_left = kind == OP_LEAVE;
    job->counts.deaths++;
    rank_close(job, who);
}

/* There was no memory for it: it was not done. */
static void undo(struct job *job, struct item *item)
{
    item->is_live = false;
    buffer_free(item);
    if (item->op.kind == OP_MRECV || item->op.kind == OP_DISCARD)
        job_item(job, item->op.target)->is_claimed = true;
}

void rank_do(struct job *job, struct item *item)
{
    struct rank *rank = &job->ranks[item->op.rank];
    int err = 0;

    if (job->is_verbose) {
        printf("%10.3f us", (double)(sim_now() - job->begin_ns) / 1000);
        op_print(&item->op);
    }
    job->last_ns = sim_now();
    job->counts.operations++;
    item->posted = ++rank->clock;
    item->posted_ns = sim_now();
    switch (item->op.kind) {
    case OP_SEND:
    case OP_SSEND:
    case OP_INJECT:
        err = do_send(job, item);
        break;
    case OP_RECV:
        err = do_recv(job, item);
        break;
    case OP_PROBE:
    case OP_MPROBE:
        err = do_probe(job, item);
        break;
    case OP_MRECV:
    case OP_DISCARD:
        err = do_claimed(job, item);
        break;
    case OP_CANCEL:
        err = do_cancel(job, item);
        break;
    case OP_ADD:
        err = do_add(job, item);
        break;
    case OP_STALL:
        rank->stalls_until_ns = job->begin_ns + item->op.until_ns;
        break;
    case OP_DIE:
    case OP_LEAVE:
        mem_fail_at(0);
        do_die(job, item->op.rank, item->op.kind);
        break;
    case OP_KINDS:
        break;
    }
    if (err == -ENOMEM && job->plan->percent_memory != 0)
        undo(job, item);
    else if (err != 0)
        job_wrong(job, "%s %" PRIu32 " returns %d", op_names[item->op.kind], item->op.id, err);
}

/* ---- the rank as a whole ---- */

void rank_progress(struct job *job, uint32_t who)
{
    mbx_progress(job->ranks[who].ep);
    poll_all(job, who);
}

/* Does an mprobe have another try, a little later? */
static bool asks_again(const struct job *job, struct rank *rank, struct item *item)
{
    if (item->op.kind != OP_MPROBE || item->is_live || job->replay != NULL ||
        ++item->tries >= MPROBES_MAX)
        return false;
    rank->again_ns = sim_now() + 10 * CLOCK_US;
    return true;
}

/* When its next operation is due. */
static uint64_t next_ns(const struct job *job, const struct rank *rank)
{
    uint64_t at_ns = job->begin_ns + job->plan->ops[rank->next].at_ns;

    return at_ns > rank->again_ns ? at_ns : rank->again_ns;
}

/* Does what is due.  False: it is dead, or stalls. */
static bool do_due(struct job *job, uint32_t who)
{
    struct rank *rank = &job->ranks[who];

    while (rank->next < rank->end && job->why[0] == '\0') {
        const struct op *op = &job->plan->ops[rank->next];
        struct item *item = job_item(job, op->id);

        if (waits_on(job, who) || !program_return(job, who) || next_ns(job, rank) > sim_now())
            break;
        item->op = *op;
        if (job->replay != NULL)
            program_do(job, who, item);
        else
            rank_do(job, item);
        if (rank->is_dead)
            return false;
        ep_check(rank->ep);
        if (asks_again(job, rank, item))
            break;
        rank->next++;
        waits_begin(job, who, item);
        if (rank->stalls_until_ns > sim_now()) {
            sim_alarm(who, rank->stalls_until_ns);
            return false;
        }
    }
    return job->why[0] == '\0';
}

void rank_run(struct job *job, uint32_t who)
{
    struct rank *rank = &job->ranks[who];
    bool is_blocked = false;
    int rounds = 0;

    if (rank->stalls_until_ns > sim_now()) {
        sim_alarm(who, rank->stalls_until_ns);
        return;
    }
    if (random_below(&job->chance, 100) < job->plan->percent_memory)
        mem_fail_at(1 + random_below(&job->chance, 12));
    if (!do_due(job, who)) {
        mem_fail_at(0);
        return;
    }
    while (mbx_progress(rank->ep) != 0 && ++rounds < ROUNDS_MAX)
        continue;
    mem_fail_at(0);
    poll_all(job, who);
    ep_check(rank->ep);
    if (waits_on(job, who) || !program_return(job, who))
        is_blocked = true; /* until something wakes it */
    if (is_blocked && waits_again_ns(job, who) != 0)
        sim_alarm(who, waits_again_ns(job, who));
    if (is_blocked && program_again_ns(job, who) != 0)
        sim_alarm(who, program_again_ns(job, who));
    if (rank->next < rank->end && !is_blocked)
        sim_alarm(who, next_ns(job, rank));
    if (rounds != ROUNDS_MAX)
        mbx_sleep(rank->ep, -1, NULL);
    if (!sim_sleeps(who))
        sim_alarm(who, sim_now() + CLOCK_US);
}

void rank_open(struct job *job, uint32_t who)
{
    const struct plan *plan = job->plan;
    struct rank *rank = &job->ranks[who];
    const char *params[PLAN_PARAMS + 2] = {"INSPECT=off",
                                           NULL}; /* 100,000 have no descriptors left */
    const struct mbx_config config = {.params = params};
    const struct mbx_region region = {rank->cells, sizeof rank->cells, 0,
                                      MBX_REMOTE_READ | MBX_REMOTE_WRITE, 0};
    int err;

    for (int i = 0, count = 1; i < PLAN_PARAMS; i++)
        if (plan->params[who % plan->variants][i][0] != '\0')
            params[count++] = plan->params[who % plan->variants][i];
    err = mbx_open(&config, &rank->ep);
    if (err == 0)
        err = mbx_register(rank->ep, PLAN_REGION_KEY, &region);
    if (err != 0) {
        fprintf(stderr, "sim: rank %" PRIu32 " cannot be opened: %s\n", who, mbx_strerror(err));
        exit(1);
    }
    ep_defer(rank->ep)->capacity = plan->capacity;
    mbx_address_get(rank->ep, &rank->address);
}

void rank_forget(struct item *item)
{
    if (item->is_live)
        buffer_free(item);
}

void rank_close(struct job *job, uint32_t who)
{
    struct rank *rank = &job->ranks[who];
    int err = mbx_close(rank->ep);

    if (err != 0 && !rank->is_dead)
        job_wrong(job, "the close of rank %" PRIu32 " returns %d", who, err);
    rank->ep = NULL;
    for (uint32_t i = rank->first; i < rank->end; i++) /* what it has lent is nobody's now */
        rank_forget(job_item(job, job->plan->ops[i].id));
    free(rank->whose);
    rank->whose = NULL;
}
