/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvs_shm.h - the board: memory shared by the ranks of one job and their launcher.
 *
 *   offset 0     head        magic, version, rank count, bytes, key; constant
 *          64    arrivals    number of times that a rank has entered a fence
 *          128   bell        futex word; counts finished fences and ended ranks
 *          192   slot[0]     rank 0: joined, ended, value[2]
 *          ...   slot[ranks - 1]
 *
 * The launcher makes the board (kvs_shm_create) before it starts the ranks; they
 * inherit the descriptor.  It is a memfd: it has no name, and it is gone with the
 * last process that holds it.  Its size is sealed, so a mapping of it cannot fault.
 * It is the only place where the job's key is.
 *
 * Rounds     Fence number n ends round n.  The value that a rank puts in round n is stored in
 *            value[n % 2] and read in round n + 1; it is overwritten in round n + 2 at the
 *            earliest, when every rank has entered fence n + 1 and so has finished reading.
 *
 * Fence n    A rank sets its joined to n, adds 1 to arrivals and, if the sum is n * ranks,
 *            rings the bell.  The others sleep on the bell.
 *
 * Invariants (for each rank in round n + 1, before it enters fence n + 1)
 *   I1  n * ranks <= arrivals < (n + 1) * ranks
 *   I2  every joined is n or n + 1
 *   I3  joined and ended never go back
 *
 * Any rank can write anything here at any time.  So readers copy first, then check,
 * and use only the copy; a board that breaks the invariants is -EPROTO.
 */
#ifndef BOOT_KVS_SHM_H
#define BOOT_KVS_SHM_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "boot/boot.h"

#define KVS_SHM_MAGIC     UINT64_C(0x4d42582d424f4152) /* "MBX-BOAR" */
#define KVS_SHM_VERSION   3
#define KVS_SHM_RANKS_MAX 4096

/* The environment variable with the board of a rank: "FD:RANK". */
#define KVS_SHM_ENVIRONMENT "MBX_BOOT"

struct kvs_shm_head {
    uint64_t magic;
    uint32_t version;
    uint32_t ranks;
    uint64_t bytes; /* of the whole board */
    uint8_t key[BOOT_KEY_SIZE];
};

struct kvs_shm_value {
    uint64_t round; /* the round in which it was put; 0 = never */
    uint32_t size;
    uint32_t unused;
    uint64_t check; /* kvs_shm_check() of the other members */
    uint8_t bytes[BOOT_VALUE_MAX];
};

struct kvs_shm_slot {
    _Atomic uint64_t joined; /* last fence that the rank entered */
    _Atomic uint32_t ended;  /* 1: the rank's process has ended */
    struct kvs_shm_value value[2];
};

struct kvs_shm_shared {
    struct kvs_shm_head head;
    alignas(CACHE_LINE) _Atomic uint64_t arrivals;
    alignas(CACHE_LINE) _Atomic uint32_t bell;
    alignas(CACHE_LINE) struct kvs_shm_slot slot[];
};

static_assert(sizeof(struct kvs_shm_value) == 280, "board layout");
static_assert(sizeof(struct kvs_shm_slot) == 576, "board layout");
static_assert(offsetof(struct kvs_shm_shared, arrivals) == 64, "board layout");
static_assert(offsetof(struct kvs_shm_shared, bell) == 128, "board layout");
static_assert(offsetof(struct kvs_shm_shared, slot) == 192, "board layout");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes");

/* The view of one process: the checked constants, and the mapping. */
struct kvs_shm {
    struct kvs_shm_shared *shared;
    size_t bytes;
    uint32_t ranks;
    uint8_t key[BOOT_KEY_SIZE];
};

/* Launcher: makes a board for 1..KVS_SHM_RANKS_MAX ranks with a fresh random key; the ranks
 * inherit *fd (it is close-on-exec; clear that in the child).  Returns 0 or the error of the
 * system call that failed.  Released by kvs_shm_close() and sys_close(*fd). */
int kvs_shm_create(struct kvs_shm *kvs_shm, uint32_t ranks, int *fd);

/* Launcher: rank's process has ended; fences that it has not entered will fail. */
void kvs_shm_rank_ended(struct kvs_shm *kvs_shm, uint32_t rank);

/* Rank: maps the board in fd after checking it; fd stays open.  Returns 0; -EPROTO the board is
 * not valid; or the error of the system call that failed. */
int kvs_shm_open(struct kvs_shm *kvs_shm, int fd);

void kvs_shm_close(struct kvs_shm *kvs_shm);

/* The checksum of value, put by rank: finds torn and misplaced values, not malice. */
uint64_t kvs_shm_check(uint32_t rank, const struct kvs_shm_value *value);

#endif
