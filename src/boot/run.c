/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - a rank that `mbx run` started.
 *
 * All communication uses the board (kvs_shm.h has the layout and the rounds).  The state of a
 * rank is the number of fences that it has passed; it is stored on the board (joined), so a
 * process may close and open again, and a second program of the same rank continues where the
 * first one stopped.
 */
#include "boot/methods.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "boot/kvs_shm.h"

struct run {
    struct boot boot;
    struct kvs_shm kvs_shm;
    uint64_t fences; /* passed */
    bool joined;     /* entered the next one and was interrupted */
};

static struct run *run_of(struct boot *b)
{
    return container_of(b, struct run, boot);
}

static int run_put(struct boot *b, const void *value, size_t size)
{
    struct run *run = run_of(b);
    struct kvs_shm_value new = {.round = run->fences + 1, .size = (uint32_t)size};

    if (size > BOOT_VALUE_MAX)
        return -EMSGSIZE;
    memcpy(new.bytes, value, size);
    new.check = kvs_shm_check(b->rank, &new);
    run->kvs_shm.shared->slot[b->rank].value[new.round % 2] = new;
    return 0;
}

static int run_get(struct boot *b, uint32_t rank, void *value, size_t size)
{
    struct run *run = run_of(b);
    struct kvs_shm_value copy;

    assert(rank < b->size && size <= BOOT_VALUE_MAX);
    copy = *(volatile struct kvs_shm_value *)&run->kvs_shm.shared->slot[rank]
                .value[run->fences % 2];
    if (run->fences == 0 || copy.round != run->fences)
        return -ENOENT;
    if (copy.size != size || copy.check != kvs_shm_check(rank, &copy)) {
        LOG_ERROR("rank %u has published damaged data: all ranks must use the same version of "
                  "Matchbox",
                  rank);
        return -EPROTO;
    }
    memcpy(value, copy.bytes, size);
    return 0;
}

/* Enters fence number n; the last one rings the bell. */
static void fence_enter(struct run *run, uint64_t n)
{
    struct kvs_shm_shared *shared = run->kvs_shm.shared;

    if (run->joined)
        return;
    run->joined = true;
    atomic_store_explicit(&shared->slot[run->boot.rank].joined, n, memory_order_release);
    /* releases our value; pairs with the acquire in run_fence() */
    if (atomic_fetch_add_explicit(&shared->arrivals, 1, memory_order_acq_rel) + 1 !=
        n * run->boot.size)
        return;
    atomic_fetch_add_explicit(&shared->bell, 1, memory_order_release);
    sys_futex_wake(&shared->bell, INT_MAX);
}

/* Has a rank ended that has not entered fence n? */
static bool fence_has_failed(struct run *run, uint64_t n)
{
    for (uint32_t rank = 0; rank < run->boot.size; rank++) {
        struct kvs_shm_slot *slot = &run->kvs_shm.shared->slot[rank];

        /* pairs with the release in kvs_shm_rank_ended(): joined is final */
        if (atomic_load_explicit(&slot->ended, memory_order_acquire) != 0 &&
            atomic_load_explicit(&slot->joined, memory_order_acquire) < n)
            return true;
    }
    return false;
}

/* All ranks have entered fence n: checks the board. */
static int fence_leave(struct run *run, uint64_t n, uint64_t arrivals)
{
    if (arrivals >= (n + 1) * run->boot.size)
        goto damaged;
    for (uint32_t rank = 0; rank < run->boot.size; rank++) {
        uint64_t joined =
            atomic_load_explicit(&run->kvs_shm.shared->slot[rank].joined, memory_order_acquire);

        if (joined != n && joined != n + 1)
            goto damaged;
    }
    run->fences = n;
    run->joined = false;
    return 0;

damaged:
    LOG_ERROR(
        "the memory that the ranks of mbx run share is damaged (fence %llu); if the program "
        "does not write into foreign memory, please report this",
        (unsigned long long)n);
    return -EPROTO;
}

static int run_fence(struct boot *b)
{
    struct run *run = run_of(b);
    struct kvs_shm_shared *shared = run->kvs_shm.shared;
    uint64_t n = run->fences + 1;

    fence_enter(run, n);
    for (;;) {
        /* pairs with the releases that ring it: later reads are not older */
        uint32_t bell = atomic_load_explicit(&shared->bell, memory_order_acquire);
        uint64_t arrivals = atomic_load_explicit(&shared->arrivals, memory_order_acquire);

        if (arrivals >= n * b->size)
            return fence_leave(run, n, arrivals);
        if (fence_has_failed(run, n))
            return -ECONNRESET;
        if (sys_futex_wait(&shared->bell, bell, UINT64_MAX) < 0 && errno != EAGAIN)
            return -errno;
    }
}

static void run_close(struct boot *b)
{
    struct run *run = run_of(b);

    kvs_shm_close(&run->kvs_shm);
    mem_free(run);
}

static const struct boot_ops run_ops = {
    .name = "mbx run",
    .put = run_put,
    .get = run_get,
    .fence = run_fence,
    .close = run_close,
};

/* Reads one decimal number up to end, or -1. */
static long parse_number(const char *text, const char *end)
{
    long number = 0;

    if (text == end)
        return -1;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || number > (INT_MAX - 9) / 10)
            return -1;
        number = number * 10 + (*text - '0');
    }
    return number;
}

/* Reads "FD:RANK". */
static int parse_environment(const char *text, int *fd, uint32_t *rank)
{
    const char *colon = strchr(text, ':');
    long first = colon != NULL ? parse_number(text, colon) : -1;
    long second = colon != NULL ? parse_number(colon + 1, text + strlen(text)) : -1;

    if (first < 0 || second < 0) {
        LOG_ERROR(KVS_SHM_ENVIRONMENT "=%s is not FD:RANK; unset it: mbx run sets it", text);
        return -EPROTO;
    }
    *fd = (int)first;
    *rank = (uint32_t)second;
    return 0;
}

int run_open(const char *text, struct boot **out)
{
    struct run *run = mem_calloc(1, sizeof *run);
    uint32_t rank;
    int err, fd;

    if (run == NULL)
        return -ENOMEM;
    if ((err = parse_environment(text, &fd, &rank)) != 0 ||
        (err = kvs_shm_open(&run->kvs_shm, fd)) != 0)
        goto free_run;
    if (rank >= run->kvs_shm.ranks) {
        LOG_ERROR(KVS_SHM_ENVIRONMENT "=%s names a rank that the job does not have; unset it: "
                                      "mbx run sets it",
                  text);
        err = -EPROTO;
        goto close_kvs_shm;
    }
    run->boot = (struct boot){.ops = &run_ops, .rank = rank, .size = run->kvs_shm.ranks};
    memcpy(run->boot.key, run->kvs_shm.key, BOOT_KEY_SIZE);
    run->fences =
        atomic_load_explicit(&run->kvs_shm.shared->slot[rank].joined, memory_order_acquire);
    *out = &run->boot;
    return 0;

close_kvs_shm:
    kvs_shm_close(&run->kvs_shm);
free_run:
    mem_free(run);
    return err;
}
