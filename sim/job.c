/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - job.h says it all.
 */
#include "job.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "check.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "replays.h"
#include "windows.h"

/* When nothing has happened for so long, nothing will: longer than a rank stalls, and than it
 * takes to find that a peer is gone. */
#define QUIET_NS (CLOCK_S)

/* Steps between two looks at the credit of all pairs. */
#define WINDOWS_EACH 8

/* A job that goes on for so long never ends. */
#define ENDLESS_NS (30 * CLOCK_S)

void job_wrong(struct job *job, const char *format, ...)
{
    va_list args;

    if (job->why[0] != '\0')
        return;
    va_start(args, format);
    vsnprintf(job->why, sizeof job->why, format, args);
    va_end(args);
}

bool item_accepts(const struct item *receive, const struct item *message)
{
    const struct op *r = &receive->op, *m = &message->op;

    return (r->peer == PLAN_ANYBODY || r->peer == m->rank) && r->rank == m->peer &&
           r->context_id == m->context_id && ((r->tag ^ m->tag) & ~r->ignore) == 0;
}

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fprintf(stderr, "sim: no memory\n");
        exit(1);
    }
    return memory;
}

/* ---- phases ---- */

/* Lets time go on until nothing has happened for a while, from then on. */
static void settle(struct job *job, uint64_t from_ns)
{
    uint32_t who;

    while (job->why[0] == '\0') {
        uint64_t last_ns = sim_stirred() > from_ns ? sim_stirred() : from_ns;

        if (!sim_next(&who, sim_is_moving() ? SIM_NEVER : last_ns + QUIET_NS)) {
            windows_check(job, true);
            return;
        }
        rank_run(job, who);
        waits_look(job);
        if (++job->steps % WINDOWS_EACH == 0)
            windows_check(job, false);
        if (sim_now() - job->begin_ns > ENDLESS_NS)
            job_wrong(job, "it never ends");
    }
}

static void open_all(struct job *job)
{
    const struct plan *plan = job->plan;
    uint32_t op = 0;

    for (uint32_t who = 0; who < plan->ranks; who++) {
        struct rank *rank = &job->ranks[who];

        program_begin(&rank->program);
        rank->first = rank->next = op;
        while (op < plan->count && plan->ops[op].rank == who)
            op++;
        rank->end = op;
        rank_open(job, who);
    }
    job->begin_ns = sim_now();
}

static bool has_ended(const struct job *job)
{
    for (uint32_t who = 0; who < job->plan->ranks; who++)
        if (!job->ranks[who].is_dead && job->ranks[who].next < job->ranks[who].end)
            return false;
    return true;
}

/* Each rank begins with its first operation, and goes on by itself. */
static void run_program(struct job *job)
{
    uint64_t end_ns = 0;

    for (uint32_t i = 0; i < job->plan->count; i++)
        if (job->plan->ops[i].at_ns > end_ns)
            end_ns = job->plan->ops[i].at_ns;
    for (uint32_t who = 0; who < job->plan->ranks; who++)
        sim_alarm(who, sim_now());
    settle(job, job->begin_ns + end_ns);
    if (job->why[0] == '\0')
        waits_end(job);
    if (job->why[0] == '\0' && job->replay != NULL)
        replay_stop(job);
    if (!has_ended(job))
        job_wrong(job, "a rank does not come to the end of its program");
}

/* Another operation of the end, done now. */
static struct item *do_now(struct job *job, const struct op *op)
{
    struct item *item = &job->items[job->item_count++];

    assert(job->item_count <= job->item_capacity);
    item->op = *op;
    item->op.id = job->item_count - 1;
    item->op.at_ns = sim_now() - job->begin_ns;
    rank_do(job, item);
    return item;
}

static bool is_open(const struct job *job, const struct item *item)
{
    return item_has_request(item) && item->op.kind == OP_RECV && item->completions == 0 &&
           !job->ranks[item->op.rank].is_dead && !item->is_asked;
}

/* Takes back what still waits for a message, and drops what is claimed. */
static void run_cancels(struct job *job)
{
    uint32_t count = job->item_count;
    struct item spare = {.op = {.kind = OP_CANCEL}};

    for (uint32_t id = 1; id < count && job->why[0] == '\0'; id++) {
        struct item *item = &job->items[id];

        if (job->ranks[item->op.rank].is_dead)
            continue;
        spare.op.rank = item->op.rank;
        spare.op.target = id;
        spare.op.kind = item->is_claimed ? OP_DISCARD : OP_CANCEL;
        if (item->is_claimed || is_open(job, item)) {
            rank_do(job, &spare);
            sim_alarm(item->op.rank, sim_now());
        }
    }
    settle(job, sim_now());
}

/* Posts the receives that a replay has withheld: no message may come for them. */
static void run_withheld(struct job *job)
{
    for (uint32_t i = 0; i < job->plan->count && job->why[0] == '\0'; i++) {
        struct item *item = job_item(job, job->plan->ops[i].id);

        if (!item->is_withheld || item->is_cancelled)
            continue;
        item->is_withheld = false;
        rank_do(job, item);
        sim_alarm(item->op.rank, sim_now());
    }
    settle(job, sim_now());
    if (job->why[0] == '\0')
        check_met(job);
    if (job->why[0] == '\0')
        replay_compare(job);
}

/* A receive for each message that nobody has received. */
static void run_drain(struct job *job)
{
    uint32_t count = job->item_count;

    for (uint32_t id = 1; id < count && job->why[0] == '\0'; id++) {
        const struct item *message = &job->items[id];
        struct op op = {.kind = OP_RECV,
                        .rank = message->op.peer,
                        .peer = PLAN_ANYBODY,
                        .context_id = message->op.context_id,
                        .ignore = MBX_IGNORE_ALL,
                        .size = id % 3 == 0 ? 100 : PLAN_SIZE_MAX};

        if (!message->is_live || !op_is_message(&message->op) || message->taken_by != 0 ||
            message->is_void || job->ranks[message->op.peer].is_dead)
            continue;
        do_now(job, &op)->is_drain = true;
        sim_alarm(op.rank, sim_now());
    }
    settle(job, sim_now());
}

static void run(struct job *job)
{
    open_all(job);
    run_program(job);
    if (job->why[0] == '\0')
        check_met(job);
    if (job->why[0] == '\0' && job->replay != NULL)
        replay_compare(job);
    if (job->why[0] == '\0' && job->replay != NULL)
        run_withheld(job);
    if (job->why[0] == '\0')
        run_cancels(job);
    if (job->why[0] == '\0')
        run_drain(job);
    if (job->why[0] == '\0')
        run_cancels(job); /* what a dead rank did not send after all */
    if (job->why[0] == '\0')
        check_end(job);
}

/* ---- the whole ---- */

static void add_stats(struct job *job, const struct mbx_ep *ep)
{
    struct stats s;

    stats_read(ep, &s);
    job->counts.deferred += s.deferrals;
    job->counts.claims_met += s.claims_met;
    job->counts.pulled += s.pulled;
    job->counts.advert += s.advert_won;
    job->counts.held += s.device_held_matched;
    job->counts.rendezvous += s.received[MBX_RNDV_READ] + s.received[MBX_RNDV_DATA];
}

/* A simulated device is never lost: one that is was given up, for what it had said. */
static void check_device(struct job *job, uint32_t who)
{
    const struct offload *offload = job->ranks[who].ep->offload;

    if (offload != NULL && offload->shadow.is_stopped)
        job_wrong(job, "rank %" PRIu32 " does not trust its device any more", who);
}

static void close_all(struct job *job)
{
    job->counts.virtual_ns = sim_now() - job->begin_ns;
    job->counts.packets = sim_packets();
    for (uint32_t who = 0; who < job->plan->ranks; who++) {
        if (job->ranks[who].ep == NULL)
            continue;
        add_stats(job, job->ranks[who].ep);
        check_device(job, who);
        rank_close(job, who);
    }
    sim_end();
    if (mem_live() != job->live)
        job_wrong(job, "%" PRId64 " blocks of memory are lost",
                  (int64_t)(mem_live() - job->live));
    for (uint32_t id = 1; id < job->item_count; id++)
        rank_forget(&job->items[id]);
}

static const char *packet_name(uint8_t type)
{
    const char *name = wire_type_name(type);

    return name != NULL ? name : "?";
}

static void tell_packet(void *arg, uint32_t from, uint32_t to, const void *packet, size_t size)
{
    const struct job *job = arg;
    struct wire_header header;

    memcpy(&header, packet, sizeof header);
    printf("%10.3f us  %" PRIu32 " -> %" PRIu32 ": %s ctx %" PRIu32 " tag %" PRIu64
           " data %" PRIu64 ", %zu bytes\n",
           (double)(sim_now() - job->begin_ns) / 1000, from, to, packet_name(header.type),
           header.context_id, header.tag, header.data, size);
}

static uint32_t message_count(const struct plan *plan)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan->count; i++)
        count += op_is_message(&plan->ops[i]);
    return count;
}

static struct wait_counts all_waits;

const struct wait_counts *job_waits(void)
{
    return &all_waits;
}

static void waits_add(const struct wait_counts *more)
{
    all_waits.diagnoses += more->diagnoses;
    all_waits.silent += more->silent;
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        all_waits.stuck[kind] += more->stuck[kind];
        all_waits.named[kind] += more->named[kind];
        all_waits.early[kind] += more->early[kind];
        all_waits.over[kind] += more->over[kind];
    }
}

void job_counts_add(struct job_counts *sum, const struct job_counts *counts)
{
    sum->operations += counts->operations;
    sum->packets += counts->packets;
    sum->sent += counts->sent;
    sum->received += counts->received;
    sum->cancelled += counts->cancelled;
    sum->truncated += counts->truncated;
    sum->failed += counts->failed;
    sum->deaths += counts->deaths;
    sum->deferred += counts->deferred;
    sum->claims_met += counts->claims_met;
    sum->pulled += counts->pulled;
    sum->held += counts->held;
    sum->advert += counts->advert;
    sum->rendezvous += counts->rendezvous;
    sum->virtual_ns += counts->virtual_ns;
    sum->digest = sum->digest * 31 + counts->digest;
}

bool job_run(const struct plan *plan, struct replay *replay, bool is_verbose,
             struct job_counts *counts, char *why, size_t size)
{
    struct job job = {
        .plan = plan, .replay = replay, .is_verbose = is_verbose, .live = mem_live()};
    struct sim_config network = plan->network;

    random_seed(&job.chance, ~plan->seed);
    job.counts.digest = UINT64_C(0xcbf29ce484222325);
    job.item_count = plan->last_id + 1;
    job.item_capacity = job.item_count + message_count(plan);
    job.items = zeroed(job.item_capacity, sizeof *job.items);
    job.ranks = zeroed(plan->ranks, sizeof *job.ranks);
    if (is_verbose) {
        network.delivered = tell_packet;
        network.arg = &job;
    }
    if (sim_begin(&network) != 0)
        abort();
    run(&job);
    close_all(&job);
    *counts = job.counts;
    waits_add(&job.waits);
    snprintf(why, size, "%s", job.why);
    free(job.items);
    free(job.ranks);
    return job.why[0] == '\0';
}
