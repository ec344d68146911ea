/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot.c - finds the launcher of this process in its environment.
 */
#include "boot/boot.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/launcher.h"
#include "base/log.h"
#include "boot/kvs_shm.h"
#include "boot/methods.h"

/* Launchers that set a rank and a size, but offer no way for ranks to communicate. */
static const struct {
    const char *rank, *size;
    const char *who;
    const char *advice;
} other_launchers[] = {
    {"PMI_RANK", "PMI_SIZE", "a launcher that speaks PMI and no PMIx",
     "MPICH's mpiexec does, and srun --mpi=pmi2; use srun --mpi=pmix"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's launcher without PMIx",
     "its PMIX_RANK and PMIX_NAMESPACE do not reach this process"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun without PMIx", "use srun --mpi=pmix"},
};

/* Is this process one of many, but would take itself for a job of one? */
static int refuse_other_launchers(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(other_launchers); i++) {
        const char *rank = environ_get(other_launchers[i].rank),
                   *size = environ_get(other_launchers[i].size);

        if (rank == NULL || size == NULL || strtol(size, NULL, 10) <= 1)
            continue;
        LOG_ERROR(
            "rank %s of %s was started by %s, so it cannot meet the others: %s, Open MPI's "
            "mpiexec, prterun or mbx run; or set " KVS_SHM_ENVIRONMENT
            "=single if each is to be a job of its own",
            rank, size, other_launchers[i].who, other_launchers[i].advice);
        return -ENOTSUP;
    }
    return 0;
}

static bool has_pmix(void)
{
    return environ_get("PMIX_NAMESPACE") != NULL && environ_get("PMIX_RANK") != NULL;
}

bool boot_has_launcher(void)
{
    const char *text = environ_get(KVS_SHM_ENVIRONMENT);

    return text != NULL ? strcmp(text, "single") != 0 : has_pmix();
}

/* A number set by a launcher, or 0. */
static long said(const char *name)
{
    const char *text = environ_get(name);

    return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* Do the variables of launchers show more ranks than on this machine? */
static bool is_said_to_be_spread(void)
{
    uint32_t local = launcher_number(launcher_local_ranks());
    uint32_t all = launcher_number(launcher_ranks());

    if (local != LAUNCHER_UNKNOWN && local > 0)
        return all != LAUNCHER_UNKNOWN && all > local;
    return said("SLURM_STEP_NUM_NODES") > 1;
}

/* The number of ranks according to a launcher, or 0. */
static long said_ranks(void)
{
    uint32_t ranks = launcher_number(launcher_ranks());

    return ranks != LAUNCHER_UNKNOWN && ranks > 0 ? (long)ranks : said("SLURM_STEP_NUM_TASKS");
}

bool boot_has_others(void)
{
    const char *text = environ_get(KVS_SHM_ENVIRONMENT);
    bool is_spread;

    if (text != NULL && strcmp(text, "single") == 0)
        return false;
    if (socket_is_meant(text))
        return socket_is_spread(&is_spread) == -ENOENT;
    if (text != NULL && strcmp(text, "pmix") != 0)
        return true;
    return pmix_is_spread(&is_spread) == -ENOENT && (said_ranks() > 1 || has_pmix());
}

int boot_is_spread(bool *is_spread)
{
    const char *text = environ_get(KVS_SHM_ENVIRONMENT);
    int err = -ENOENT;

    if (socket_is_meant(text)) {
        if (socket_is_spread(is_spread) != 0)
            *is_spread = true; /* no job is open: it may be */
        return 0;
    }
    if (text != NULL && strcmp(text, "single") != 0 && strcmp(text, "pmix") != 0) {
        *is_spread = false; /* all ranks have inherited the memory of the board */
        return 0;
    }
    if (text == NULL || strcmp(text, "single") != 0)
        err = pmix_is_spread(is_spread);
    if (err != -ENOENT)
        return err;
    *is_spread = is_said_to_be_spread();
    return 0;
}

int boot_open(uint64_t timeout_ns, struct boot **out)
{
    const char *text = environ_get(KVS_SHM_ENVIRONMENT);
    int err;

    if (text != NULL && strcmp(text, "single") == 0)
        return single_open(out);
    if (socket_is_meant(text))
        return socket_open(text, timeout_ns, out);
    if (text != NULL && strcmp(text, "pmix") != 0)
        return run_open(text, out);
    if (text != NULL || has_pmix())
        return pmix_open(timeout_ns, out);
    err = refuse_other_launchers();
    return err != 0 ? err : single_open(out);
}
