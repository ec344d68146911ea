/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * further.c - a process may have several endpoints: which one carries the messages of MPI, and which are further ones.
 */
#include <string.h>

#include "observe.h"

#define COMPONENT "component "

/* How certain is it that the messages of MPI travel over this endpoint?  Over the component they all do.  An
 * endpoint that another library of the process has opened, such as Open MPI's btl/ofi, names no MPI. */
static int matching_level(const struct inspect_rank *rank)
{
    return strncmp(rank->head.mpi, COMPONENT, strlen(COMPONENT)) == 0
               ? 2
               : rank->head.mpi[0] != '\0';
}

bool observed_has_more(const struct inspect_rank *rank, const struct inspect_rank *other)
{
    return other->host == rank->host && other->head.pid == rank->head.pid &&
           matching_level(other) > matching_level(rank);
}

bool observed_is_other(const struct inspect_job *job, uint32_t at)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (observed_has_more(&job->ranks[at], &job->ranks[i]))
            return true;
    return false;
}

uint32_t observed_ranks(const struct inspect_job *job)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++)
        count += !observed_is_other(job, i);
    return count;
}
