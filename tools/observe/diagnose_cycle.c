/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose_cycle.c - where a deadlock closes: the cycles of ranks that wait for each other, and which ranks are in
 * which collective.
 */
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "diagnose_lines.h"
#include "words.h"

/* ---- cycles ---- */

/* An operation for which this rank waits for a deadlocked one, *whose; or NULL. */
static const struct inspect_entry *next_wait(const struct inspect_job *job,
                                             const enum inspect_node *nodes, uint32_t at,
                                             uint32_t *whose)
{
    const struct inspect_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        *whose = inspect_whose(job, at, entry);
        if (inspect_is_awaited(rank, entry) && *whose != INSPECT_NOBODY &&
            nodes[*whose] == INSPECT_DEADLOCKED && !inspect_can_end(job, nodes, at, entry))
            return entry;
    }
    *whose = INSPECT_NOBODY;
    return NULL;
}

static uint32_t next_of(const struct inspect_job *job, const enum inspect_node *nodes,
                        uint32_t at)
{
    uint32_t whose;

    next_wait(job, nodes, at, &whose);
    return whose;
}

/* The likely cause of a cycle of ranks in one collective.  Ranks that call the same collectives
 * in the same order, with the same root, count and type, never wait in a cycle: the message
 * that a rank waits for is sent before its sender waits for that rank.  Messages do not contain
 * these arguments, so it is unknown which of them differs. */
static const char *why_of_collective(const struct inspect_mpi *mpi)
{
    static const char *const rooted[] = {"bcast",   "gather",   "gatherv",
                                         "scatter", "scatterv", "reduce"};

    if (mpi->is_nonblocking)
        return "likely they have begun different ones, or with different roots, "
               "counts or types";
    for (size_t i = 0; i < ARRAY_COUNT(rooted); i++)
        if (mpi->operation != NULL && strcmp(mpi->operation, rooted[i]) == 0)
            return "likely the roots differ, or the counts or types";
    return "likely the counts or types differ";
}

/* Do both messages belong to one collective?  Each nonblocking collective has its own tag. */
static bool is_same_collective(const struct inspect_mpi *a, const struct inspect_mpi *b)
{
    return a->communicator == b->communicator && !diagnose_is_other_part(a, b) &&
           a->tag == b->tag && a->is_of_group == b->is_of_group;
}

/* Does every rank of the cycle wait for a message of the same collective, to receive it or, if it
 * is long, to have it received?  *one: the envelope that the first one waits for. */
static bool is_within_collective(const struct inspect_job *job, const enum inspect_node *nodes,
                                 uint32_t from, struct inspect_mpi *one,
                                 const struct inspect_entry **first)
{
    uint32_t at = from, whose;

    *first = NULL;
    do {
        const struct inspect_entry *entry = next_wait(job, nodes, at, &whose);
        struct inspect_mpi mpi;

        if (!inspect_mpi_decode(job->ranks[at].layout, entry->context_id, entry->tag,
                                entry->ignore, &mpi) ||
            !mpi.is_collective)
            return false;
        if (*first == NULL) {
            *first = entry;
            *one = mpi;
        }
        if (!is_same_collective(one, &mpi))
            return false;
        at = whose;
    } while (at != from);
    return true;
}

/* "all of them wait within one bcast on MPI_COMM_WORLD: likely the roots differ, or the counts
 * or types" */
static void say_collective(FILE *out, const struct inspect_job *job,
                           const enum inspect_node *nodes, uint32_t from)
{
    const struct inspect_entry *entry;
    char words[WORDS_MAX];
    struct inspect_mpi mpi = {.tag = 0};

    if (next_of(job, nodes, from) != from &&
        is_within_collective(job, nodes, from, &mpi, &entry))
        fprintf(out, "  all of them wait within one %s: %s\n",
                words_of_envelope(&job->ranks[from], entry, words), why_of_collective(&mpi));
}

static void say_cycle(FILE *out, const struct inspect_job *job, const enum inspect_node *nodes,
                      uint32_t from)
{
    char words[WORDS_MAX];
    uint32_t at = from;

    fprintf(out, "cycle: %s", words_of_rank(&job->ranks[at], words));
    do {
        at = next_of(job, nodes, at);
        fprintf(out, " -> %s", words_of_rank(&job->ranks[at], words));
    } while (at != from);
    fputc('\n', out);
}

/* Follows the waits of each rank; a cycle is reported once, from its first rank. */
void diagnose_say_cycles(FILE *out, const struct inspect_job *job,
                         const enum inspect_node *nodes)
{
    uint32_t *seen = mem_calloc(job->count, sizeof *seen);

    for (uint32_t start = 0; seen != NULL && start < job->count; start++) {
        uint32_t at = start;

        while (at != INSPECT_NOBODY && nodes[at] == INSPECT_DEADLOCKED && seen[at] == 0) {
            seen[at] = start + 1;
            at = next_of(job, nodes, at);
        }
        if (at != INSPECT_NOBODY && nodes[at] == INSPECT_DEADLOCKED && seen[at] == start + 1) {
            say_cycle(out, job, nodes, at);
            say_collective(out, job, nodes, at);
        }
    }
    mem_free(seen);
}

/* ---- roll call ---- */

/* The communicator of the collective that a rank is in, if its operations show it; otherwise
 * NULL. */
static const char *collective_of(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    if (inspect_call_of(rank->state.call) != INSPECT_CALL_COLLECTIVE)
        return NULL;
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]))
            return words_of_communicator(rank, &rank->entries[i], words);
    return NULL;
}

/* Lists the ranks that are in a collective of each communicator, a line per call: "roll call on
 * MPI_COMM_WORLD: 0, 2, 3 in MPI_Allreduce". */
void diagnose_say_roll_call(FILE *out, const struct inspect_job *job)
{
    char on[WORDS_MAX], other[WORDS_MAX], words[WORDS_MAX];

    for (uint32_t i = 0; i < job->count; i++) {
        const char *name = collective_of(&job->ranks[i], on);
        bool is_first = name != NULL;

        for (uint32_t k = 0; is_first && k < i; k++)
            if (strcmp(job->ranks[k].state.call, job->ranks[i].state.call) == 0 &&
                collective_of(&job->ranks[k], other) != NULL && strcmp(on, other) == 0)
                is_first = false;
        if (!is_first)
            continue;
        fprintf(out, "roll call on %s:", on);
        for (uint32_t k = i, shown = 0; k < job->count; k++)
            if (strcmp(job->ranks[k].state.call, job->ranks[i].state.call) == 0 &&
                collective_of(&job->ranks[k], other) != NULL && strcmp(on, other) == 0)
                fprintf(out, "%s %s", shown++ > 0 ? "," : "",
                        words_of_rank(&job->ranks[k], words));
        fprintf(out, " in %s\n", job->ranks[i].state.call);
    }
}
