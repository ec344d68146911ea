/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - see waits.h.
 *
 * The entries are read out of the endpoints as mbx doctor reads them; what the component for Open MPI tells of a request, whether a
 * call waits for it, is told here by who knows it.
 */
#include "waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"
#include "core/core.h"
#include "job.h"
#include "lib/inspect.h"
#include "inspect/graph.h"

#define ENTRIES 512 /* of a rank; one that has more is not judged, and alive */

/* A blocking probe asks so often; and no more when nothing has happened in the job for so long, and no rank stalls that may
 * still answer. */
#define ASK_NS     CLOCK_MS
#define ASK_ALL_NS (50 * CLOCK_MS)

static const char *const call_names[WAIT_KINDS] = {
    [WAIT_NOT] = "",
    [WAIT_ONE] = "MPI_Wait",
    [WAIT_ALL] = "MPI_Waitall",
    [WAIT_ANY] = "MPI_Waitany",
    [WAIT_SOME] = "MPI_Waitsome",
    [WAIT_PROBE] = "MPI_Probe",
};

/* ---- plans ---- */

void waits_draw(struct plan *plan)
{
    struct random r;
    uint32_t kept = 0;

    random_seed(&r, plan->seed ^ UINT64_C(0x77616974));
    plan->percent_waits = 5 + (uint32_t)random_below(&r, 60);
    plan->tells_waits = random_below(&r, 4) != 0;
    plan->has_deaths = false;
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->ops[i].kind != OP_DIE && plan->ops[i].kind != OP_LEAVE)
            plan->ops[kept++] = plan->ops[i];
    plan->count = kept;
}

/* ---- waiting ---- */

static bool is_open(const struct item *item)
{
    return item_has_request(item) && item->completions == 0;
}

/* Open operations of the rank, this one first, and then any. */
static void choose(struct job *job, uint32_t who, const struct item *item, struct wait *wait,
                   struct random *r)
{
    const struct rank *rank = &job->ranks[who];

    if (is_open(item))
        wait->ids[wait->count++] = item->op.id;
    for (uint32_t i = rank->first; i < rank->next && wait->count < WAIT_MAX; i++) {
        const struct item *other = job_item(job, job->plan->ops[i].id);

        if (other != item && is_open(other) && random_below(r, 2) == 0)
            wait->ids[wait->count++] = other->op.id;
    }
}

void waits_begin(struct job *job, uint32_t who, const struct item *item)
{
    static const enum wait_kind kinds[] = {WAIT_ONE, WAIT_ONE, WAIT_ALL,
                                           WAIT_ALL, WAIT_ANY, WAIT_SOME};
    struct wait *wait = &job->ranks[who].wait;
    struct random r;

    random_seed(&r, job->plan->seed * 8191 + item->op.id);
    if (random_below(&r, 100) >= job->plan->percent_waits)
        return;
    wait->count = 0;
    if (item->op.kind == OP_PROBE) {
        wait->ids[wait->count++] = item->op.id;
        wait->kind = WAIT_PROBE;
    } else {
        wait->kind = kinds[random_below(&r, ARRAY_COUNT(kinds))];
        choose(job, who, item, wait, &r);
        if (wait->kind == WAIT_ONE && wait->count > 1)
            wait->count = 1;
    }
    if (wait->count == 0)
        wait->kind = WAIT_NOT;
    wait->ask_ns = 0;
    wait->serial++;
}

/* The probe asks again. */
static bool probe_finds(struct job *job, uint32_t who, const struct op *op)
{
    struct mbx_status status;
    uint32_t peer = rank_peer(job, who, op->peer);
    int found =
        mbx_probe(job->ranks[who].ep, peer, op->context_id, op->tag, op->ignore, &status);

    if (found < 0)
        job_wrong(job, "probe %" PRIu32 " returns %d", op->id, found);
    return found != 0;
}

/* Nothing comes of asking from then on. */
static uint64_t quiet_ns(const struct job *job)
{
    uint64_t last_ns = job->last_ns;

    for (uint32_t who = 0; who < job->plan->ranks; who++)
        if (job->ranks[who].stalls_until_ns > last_ns)
            last_ns = job->ranks[who].stalls_until_ns;
    return last_ns + ASK_ALL_NS;
}

static bool is_over(struct job *job, uint32_t who, struct wait *wait)
{
    uint32_t open = 0;

    if (wait->kind == WAIT_PROBE && (sim_now() < wait->ask_ns || sim_now() >= quiet_ns(job)))
        return false;
    wait->ask_ns = sim_now() + ASK_NS;
    if (wait->kind == WAIT_PROBE)
        return probe_finds(job, who, &job_item(job, wait->ids[0])->op);
    for (uint32_t i = 0; i < wait->count; i++)
        open += is_open(job_item(job, wait->ids[i]));
    return wait->kind == WAIT_ANY || wait->kind == WAIT_SOME ? open < wait->count : open == 0;
}

bool waits_on(struct job *job, uint32_t who)
{
    struct wait *wait = &job->ranks[who].wait;

    if (wait->kind == WAIT_NOT || job->is_over)
        return false;
    if (!is_over(job, who, wait))
        return true;
    if (wait->doomed == wait->serial)
        job_wrong(job, "rank %" PRIu32 " is called deadlocked in %s, and goes on", who,
                  call_names[wait->kind]);
    job->waits.over[wait->kind]++;
    wait->kind = WAIT_NOT;
    return false;
}

uint64_t waits_again_ns(const struct job *job, uint32_t who)
{
    const struct wait *wait = &job->ranks[who].wait;

    return wait->kind == WAIT_PROBE && sim_now() < quiet_ns(job) ? wait->ask_ns : 0;
}

/* ---- looks ---- */

struct looks {
    struct inspect_job job[2];
    struct inspect_rank *ranks[2];
    struct inspect_entry *entries[2]; /* ENTRIES of each rank */
    uint64_t at_ns;
    int which;     /* of the two is being taken */
    uint32_t next; /* the rank that is looked at next */
    struct random r;
};

static int read_here(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    (void)source;
    memcpy(to, (const void *)(uintptr_t)at, size);
    return 0;
}

static void mark(struct job *job, uint32_t who, struct inspect_rank *seen)
{
    const struct wait *wait = &job->ranks[who].wait;
    uint32_t open = 0;

    for (uint32_t i = 0; i < wait->count; i++)
        open += is_open(job_item(job, wait->ids[i]));
    for (uint32_t i = 0; i < wait->count && wait->kind != WAIT_PROBE; i++) {
        const struct item *item = job_item(job, wait->ids[i]);

        for (uint32_t e = 0; is_open(item) && e < seen->count; e++)
            if (seen->entries[e].id == item->request &&
                seen->entries[e].kind != INSPECT_UNEXPECTED &&
                seen->entries[e].kind != INSPECT_PROBED)
                seen->entries[e].needs =
                    (uint16_t)(wait->kind == WAIT_ALL || wait->kind == WAIT_ONE ? open : 1);
    }
}

static void look_at(struct job *job, struct looks *looks, int which, uint32_t who)
{
    static const struct inspect_source here = {.read = read_here};
    const struct rank *rank = &job->ranks[who];
    struct inspect_rank *seen = &looks->ranks[which][who];
    uint64_t ep = (uint64_t)(uintptr_t)rank->ep;
    struct transport_address own;

    rank->ep->net.transport->ops->address(rank->ep->net.transport, &own);
    *seen = (struct inspect_rank){
        .head = {.pid = who + 1,
                 .rank = who,
                 .ep = ep,
                 .address = inspect_address_name(&own, sizeof own,
                                                 offsetof(struct transport_address, credit))},
        .how = rank->stalls_until_ns > sim_now() ? INSPECT_READ : INSPECT_ASKED,
        .entries = looks->entries[which] + (size_t)who * ENTRIES,
    };
    if (inspect_walk(&inspect_own_map, &here, ep, seen->entries, ENTRIES, &seen->count,
                     seen->state.counts) != 0 ||
        inspect_walk_pulse(&inspect_own_map, &here, ep, &seen->state.pulse) != 0)
        job_wrong(job, "the queues of rank %" PRIu32 " cannot be walked", who);
    snprintf(seen->state.call, sizeof seen->state.call, "%s",
             rank->wait.kind != WAIT_NOT ? call_names[rank->wait.kind]
             : rank->next == rank->end   ? "MPI_Finalize"
                                         : "");
    if (job->plan->tells_waits)
        mark(job, who, seen);
}

static struct looks *looks_of(struct job *job)
{
    uint32_t ranks = job->plan->ranks;
    struct looks *looks = job->looks;

    if (looks != NULL)
        return looks;
    looks = job->looks = calloc(1, sizeof *looks);
    for (int i = 0; looks != NULL && i < 2; i++) {
        looks->ranks[i] = calloc(ranks, sizeof *looks->ranks[i]);
        looks->entries[i] = calloc((size_t)ranks * ENTRIES, sizeof *looks->entries[i]);
        looks->job[i] =
            (struct inspect_job){.ranks = looks->ranks[i], .count = ranks, .size = ranks};
    }
    if (looks == NULL || looks->entries[1] == NULL || looks->entries[0] == NULL ||
        looks->ranks[0] == NULL || looks->ranks[1] == NULL)
        abort();
    random_seed(&looks->r, job->plan->seed ^ UINT64_C(0x6c6f6f6b));
    looks->at_ns = sim_now() + random_below(&looks->r, 400 * CLOCK_US);
    return looks;
}

static void judge(struct job *job, struct looks *looks)
{
    enum inspect_node *nodes = calloc(job->plan->ranks, sizeof *nodes);

    if (nodes == NULL)
        abort();
    inspect_judge(&looks->job[0], &looks->job[1], INSPECT_CERTAIN, nodes);
    job->waits.diagnoses++;
    for (uint32_t who = 0; who < job->plan->ranks; who++) {
        struct wait *wait = &job->ranks[who].wait;

        if (nodes[who] == INSPECT_DEADLOCKED && wait->doomed != wait->serial) {
            wait->doomed = wait->serial;
            if (wait->kind == WAIT_NOT)
                job_wrong(job, "rank %" PRIu32 " is called deadlocked, and does not wait", who);
        }
    }
    free(nodes);
}

/* One rank at a time, so that the job goes on between them. */
void waits_look(struct job *job)
{
    struct looks *looks;

    if (job->plan->percent_waits == 0 || job->is_over)
        return;
    looks = looks_of(job);
    if (sim_now() < looks->at_ns)
        return;
    for (uint64_t count = random_below(&looks->r, 4);
         count > 0 && looks->next < job->plan->ranks; count--)
        look_at(job, looks, looks->which, looks->next++);
    if (looks->next < job->plan->ranks)
        return;
    looks->next = 0;
    if (looks->which == 0) {
        looks->at_ns = sim_now() + CLOCK_MS + random_below(&looks->r, 300 * CLOCK_MS);
    } else {
        judge(job, looks);
        looks->at_ns = sim_now() + random_below(&looks->r, 200 * CLOCK_US);
    }
    looks->which = 1 - looks->which;
}

static void tell(const struct inspect_job *job, const enum inspect_node *nodes)
{
    static const char *const names[] = {[INSPECT_ALIVE] = "alive",
                                        [INSPECT_OVER] = "over",
                                        [INSPECT_DEADLOCKED] = "deadlocked"};

    for (uint32_t who = 0; who < job->count; who++) {
        const struct inspect_rank *rank = &job->ranks[who];

        printf("rank %" PRIu32 " is in '%s': %s; sent %" PRIu64 ", arrived %" PRIu64 "\n", who,
               rank->state.call, names[nodes[who]], rank->state.pulse.sent,
               rank->state.pulse.arrived);
        for (uint32_t i = 0; i < rank->count; i++) {
            const struct inspect_entry *entry = &rank->entries[i];
            uint32_t whose = inspect_whose(job, who, entry);

            printf("  %-10s rank %" PRId64 " ctx %" PRIu32 " tag %" PRIu64 " ignore %" PRIx64
                   " needs %u: %s\n",
                   inspect_kind_name(entry->kind),
                   whose == INSPECT_NOBODY ? -1 : (int64_t)whose, entry->context_id, entry->tag,
                   entry->ignore, entry->needs,
                   inspect_can_end(job, nodes, who, entry) ? "can end" : "cannot end");
        }
    }
}

void waits_end(struct job *job)
{
    struct looks *looks;
    enum inspect_node *nodes;

    if (job->plan->percent_waits == 0)
        return;
    looks = looks_of(job);
    nodes = calloc(job->plan->ranks, sizeof *nodes);
    if (nodes == NULL)
        abort();
    for (uint32_t who = 0; who < job->plan->ranks; who++)
        look_at(job, looks, 0, who);
    inspect_judge(&looks->job[0], &looks->job[0], INSPECT_CERTAIN, nodes);
    if (job->is_verbose)
        tell(&looks->job[0], nodes);
    for (uint32_t who = 0; who < job->plan->ranks && job->why[0] == '\0'; who++) {
        struct wait *wait = &job->ranks[who].wait;
        bool is_named = nodes[who] == INSPECT_DEADLOCKED;

        if (wait->kind == WAIT_NOT) {
            if (is_named || job->ranks[who].next < job->ranks[who].end)
                job_wrong(job, "rank %" PRIu32 " does not wait, and %s", who,
                          is_named ? "is called deadlocked" : "does not come to its end");
            continue;
        }
        job->waits.stuck[wait->kind]++;
        job->waits.named[wait->kind] += is_named;
        job->waits.early[wait->kind] += wait->doomed == wait->serial;
        job->waits.silent += !is_named;
        if (!is_named && job->plan->tells_waits)
            job_wrong(job, "rank %" PRIu32 " is in %s for ever, and is not called deadlocked",
                      who, call_names[wait->kind]);
    }
    free(nodes);
    for (int i = 0; i < 2; i++) {
        free(looks->ranks[i]);
        free(looks->entries[i]);
    }
    free(looks);
    job->looks = NULL;
    job->is_over = true;
    for (uint32_t who = 0; who < job->plan->ranks; who++)
        job->ranks[who].next = job->ranks[who].end; /* what it never came to */
}
