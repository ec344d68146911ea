/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launcher.h - what the launcher of a job passes to its ranks in their environment.
 */
#ifndef BASE_LAUNCHER_H
#define BASE_LAUNCHER_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"

#define LAUNCHER_UNKNOWN UINT32_MAX

/* The value of the first of these two variables that is set; or NULL. */
static inline const char *launcher_says(const char *name, const char *or_else)
{
    return environ_get(name) != NULL ? environ_get(name) : environ_get(or_else);
}

/* The rank of this process, as text; NULL: not set. */
static inline const char *launcher_rank(void)
{
    const char *boot = environ_get("MBX_BOOT"), *rank;
    const char *colon = boot != NULL ? strrchr(boot, ':') : NULL;

    if (colon != NULL)
        return colon + 1;
    rank = launcher_says("OMPI_COMM_WORLD_RANK", "PMIX_RANK");
    return rank != NULL ? rank : environ_get("PMI_RANK");
}

/* The number of ranks in the job, and the number of them on this machine, as text; NULL: not
 * set. */
static inline const char *launcher_ranks(void)
{
    return launcher_says("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
}

static inline const char *launcher_local_ranks(void)
{
    return launcher_says("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS");
}

/* One of these as a number; LAUNCHER_UNKNOWN if it is NULL, or not a number. */
static inline uint32_t launcher_number(const char *text)
{
    unsigned long number;
    char *end;

    if (text == NULL || *text < '0' || *text > '9')
        return LAUNCHER_UNKNOWN;
    number = strtoul(text, &end, 10);
    return *end == '\0' && number < LAUNCHER_UNKNOWN ? (uint32_t)number : LAUNCHER_UNKNOWN;
}

/* Cores for each rank on this machine, at least 1: no more than the rank is bound to, and its share. */
static inline uint32_t launcher_cores_per_rank(void)
{
    uint32_t ranks = launcher_number(launcher_local_ranks());
    cpu_set_t set;
    long cores = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);
    long share = sysconf(_SC_NPROCESSORS_ONLN);

    if (ranks != LAUNCHER_UNKNOWN && ranks > 1)
        share /= (long)ranks;
    if (cores > share)
        cores = share;
    return cores < 1 ? 1 : (uint32_t)cores;
}

/* Ranks on this machine for each core, rounded up; 0: not known.  If a rank is bound to one
 * core, the cores of the machine count. */
static inline uint32_t launcher_ranks_per_core(void)
{
    uint32_t ranks = launcher_number(launcher_local_ranks());
    cpu_set_t set;
    long cores = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);

    if (cores == 1)
        cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (ranks == LAUNCHER_UNKNOWN || cores < 1)
        return 0;
    return (uint32_t)((ranks + (uint64_t)cores - 1) / (uint64_t)cores);
}

/* Do ranks share cores?  The user's choice (MBX_OVERSUBSCRIBED: yes or no) overrides the
 * launcher; other values and NULL do not. */
static inline bool launcher_is_oversubscribed(const char *user)
{
    if (user != NULL && (strcmp(user, "yes") == 0 || strcmp(user, "no") == 0))
        return strcmp(user, "yes") == 0;
    return launcher_ranks_per_core() > 1;
}

#endif
