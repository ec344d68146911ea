/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kvs_shm.c - makes and maps the board that kvs_shm.h describes.
 *
 * run.c uses it.
 */
#include "boot/kvs_shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/sys.h"

#define KVS_SHM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t kvs_shm_bytes(uint32_t ranks)
{
    return sizeof(struct kvs_shm_shared) + ranks * sizeof(struct kvs_shm_slot);
}

static void head_write(struct kvs_shm_head *head, const struct kvs_shm *kvs_shm)
{
    head->magic = KVS_SHM_MAGIC;
    head->version = KVS_SHM_VERSION;
    head->ranks = kvs_shm->ranks;
    head->bytes = kvs_shm->bytes;
    memcpy(head->key, kvs_shm->key, BOOT_KEY_SIZE);
}

int kvs_shm_create(struct kvs_shm *kvs_shm, uint32_t ranks, int *fd)
{
    struct kvs_shm new = {.bytes = kvs_shm_bytes(ranks), .ranks = ranks};
    int err, memory;

    assert(ranks > 0 && ranks <= KVS_SHM_RANKS_MAX);
    if (sys_getrandom(new.key, sizeof new.key) < 0)
        return -errno;
    memory = sys_memfd_create("matchbox-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return -errno;
    if (sys_ftruncate(memory, (off_t) new.bytes) < 0 ||
        sys_fcntl_seal(memory, F_ADD_SEALS, KVS_SHM_SEALS) < 0 ||
        (new.shared = sys_mmap(new.bytes, memory, 0)) == NULL) {
        err = -errno;
        goto close_memory;
    }
    head_write(&new.shared->head, &new);
    *kvs_shm = new;
    *fd = memory;
    return 0;

close_memory:
    sys_close(memory);
    return err;
}

void kvs_shm_rank_ended(struct kvs_shm *kvs_shm, uint32_t rank)
{
    assert(rank < kvs_shm->ranks);
    /* pairs with the acquire in fence_has_failed() */
    atomic_store_explicit(&kvs_shm->shared->slot[rank].ended, 1, memory_order_release);
    atomic_fetch_add_explicit(&kvs_shm->shared->bell, 1, memory_order_release);
    sys_futex_wake(&kvs_shm->shared->bell, INT_MAX);
}

/* Logs why a board is refused. */
static int kvs_shm_refuse(int fd, const char *why)
{
    LOG_ERROR("the board of `mbx run` (" KVS_SHM_ENVIRONMENT
              ") is damaged: %s, fd %d; use mbx and "
              "the library of the same version of Matchbox",
              why, fd);
    return -EPROTO;
}

/* The size of a file that cannot shrink, or an error. */
static int sealed_size(int fd, size_t *size)
{
    struct stat status;
    int seals = sys_fcntl_seal(fd, F_GET_SEALS, 0);

    if (seals < 0 && errno == EBADF)
        return kvs_shm_refuse(fd, "the descriptor is not open");
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return kvs_shm_refuse(fd, "it is no sealed memory");
    if (sys_fstat(fd, &status) < 0)
        return -errno;
    *size = (size_t)status.st_size;
    return 0;
}

static const char *head_fault(const struct kvs_shm_head *head, size_t bytes)
{
    if (head->magic != KVS_SHM_MAGIC)
        return "wrong magic number";
    if (head->ranks == 0 || head->ranks > KVS_SHM_RANKS_MAX)
        return "impossible number of ranks";
    if (head->bytes != kvs_shm_bytes(head->ranks) || head->bytes != bytes)
        return "wrong size";
    return NULL;
}

int kvs_shm_open(struct kvs_shm *kvs_shm, int fd)
{
    struct kvs_shm_shared *shared;
    struct kvs_shm_head head;
    const char *fault;
    size_t bytes = 0;
    int err = sealed_size(fd, &bytes);

    if (err != 0)
        return err;
    if (bytes < sizeof *shared || bytes > kvs_shm_bytes(KVS_SHM_RANKS_MAX))
        return kvs_shm_refuse(fd, "wrong size");
    shared = sys_mmap(bytes, fd, 0);
    if (shared == NULL)
        return -errno;
    head = *(volatile struct kvs_shm_head *)&shared->head;
    if (head.magic == KVS_SHM_MAGIC && head.version != KVS_SHM_VERSION) {
        sys_munmap(shared, bytes);
        LOG_ERROR("the board of `mbx run` is of version %u, and this library reads version %u: "
                  "use the mbx "
                  "and the library of the same version of Matchbox",
                  head.version, KVS_SHM_VERSION);
        return -EPROTO;
    }
    fault = head_fault(&head, bytes);
    if (fault != NULL) {
        sys_munmap(shared, bytes);
        return kvs_shm_refuse(fd, fault);
    }
    *kvs_shm = (struct kvs_shm){.shared = shared, .bytes = bytes, .ranks = head.ranks};
    memcpy(kvs_shm->key, head.key, BOOT_KEY_SIZE);
    return 0;
}

void kvs_shm_close(struct kvs_shm *kvs_shm)
{
    sys_munmap(kvs_shm->shared, kvs_shm->bytes);
    kvs_shm->shared = NULL;
}

/* FNV-1a */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t kvs_shm_check(uint32_t rank, const struct kvs_shm_value *value)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = hash_bytes(hash, &rank, sizeof rank);
    hash = hash_bytes(hash, &value->round, sizeof value->round);
    hash = hash_bytes(hash, &value->size, sizeof value->size);
    return hash_bytes(hash, value->bytes, sizeof value->bytes);
}
