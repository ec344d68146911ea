/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * polls.c - see polls.h.
 */
#include "inspect/polls.h"

#include <string.h>

#include "base/clock.h"

#define MOST_PER_S 1e12

/* Has nothing happened in the rank for so long?  A rank in MPI_Finalize does not measure this. */
static bool is_quiet(const struct inspect_rank *rank, uint64_t quiet_ns)
{
    if (inspect_call_of(rank->state.call) == INSPECT_CALL_FINISHES)
        return true;
    return rank->state.still_ns != 0 && rank->state.now_ns >= rank->state.still_ns &&
           rank->state.now_ns - rank->state.still_ns >= quiet_ns;
}

/* Is no rank of the job INSPECT_ALIVE, and does at least one poll? */
static bool is_stuck(const struct inspect_job *job, const enum inspect_node *nodes)
{
    bool polls = false;

    for (uint32_t i = 0; i < job->count; i++) {
        if (nodes[i] == INSPECT_ALIVE)
            return false;
        polls |= inspect_polls(&job->ranks[i]);
    }
    return polls;
}

bool inspect_only_polls(const struct inspect_job *looks, uint32_t count,
                        const struct inspect_job *now, uint64_t quiet_ns,
                        enum inspect_node *nodes)
{
    if (now->count != now->size || count == 0)
        return false;
    for (uint32_t i = 0; i < now->count; i++)
        if (!is_quiet(&now->ranks[i], quiet_ns))
            return false;
    for (uint32_t i = 0; i < count; i++) {
        inspect_judge(&looks[i], now, INSPECT_IF_POLLS, nodes);
        if (!is_stuck(now, nodes))
            return false;
    }
    return true;
}

/* The polls of a rank up to this look: probes that found nothing, or rounds of progress.  A call that tests makes
 * one round. */
static uint64_t polls_of(const struct inspect_rank *rank, bool probes)
{
    for (uint32_t i = 0; probes && i < rank->count; i++)
        if (rank->entries[i].kind == INSPECT_PROBE)
            return rank->entries[i].count;
    return probes ? 0 : rank->state.checks * INSPECT_CHECK_ROUNDS;
}

uint64_t inspect_poll_rate(const struct inspect_rank *was, const struct inspect_rank *rank)
{
    bool probes = strcmp(rank->state.call, "MPI_Iprobe") == 0 ||
                  strcmp(rank->state.call, "MPI_Improbe") == 0;
    uint64_t before = polls_of(was, probes), now = polls_of(rank, probes);
    uint64_t ns = rank->state.now_ns - was->state.now_ns;
    double rate;

    if (rank->state.now_ns <= was->state.now_ns || now <= before)
        return 0;
    rate = (double)(now - before) * (double)CLOCK_S / (double)ns;
    return rate < MOST_PER_S ? (uint64_t)rate : 0; /* a page may hold anything */
}
