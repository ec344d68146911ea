/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board.c - making and mapping the board that board.h describes.
 *
 * What travels over it is in run.c.
 */
#include "boot/board.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/sys.h"

#define BOARD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static size_t board_bytes(uint32_t ranks)
{
    return sizeof(struct board_shared) + ranks * sizeof(struct board_slot);
}

static void head_write(struct board_head *head, const struct board *board)
{
    head->magic = BOARD_MAGIC;
    head->version = BOARD_VERSION;
    head->ranks = board->ranks;
    head->bytes = board->bytes;
    memcpy(head->key, board->key, BOOT_KEY_SIZE);
}

int board_create(struct board *board, uint32_t ranks, int *fd)
{
    struct board new = {.bytes = board_bytes(ranks), .ranks = ranks};
    int err, memory;

    assert(ranks > 0 && ranks <= BOARD_RANKS_MAX);
    if (sys_getrandom(new.key, sizeof new.key) < 0)
        return -errno;
    memory = sys_memfd_create("matchbox-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return -errno;
    if (sys_ftruncate(memory, (off_t) new.bytes) < 0 ||
        sys_fcntl_seal(memory, F_ADD_SEALS, BOARD_SEALS) < 0 ||
        (new.shared = sys_mmap(new.bytes, memory, 0)) == NULL) {
        err = -errno;
        goto close_memory;
    }
    head_write(&new.shared->head, &new);
    *board = new;
    *fd = memory;
    return 0;

close_memory:
    sys_close(memory);
    return err;
}

void board_rank_ended(struct board *board, uint32_t rank)
{
    assert(rank < board->ranks);
    /* pairs with the acquire in fence_has_failed() */
    atomic_store_explicit(&board->shared->slot[rank].ended, 1, memory_order_release);
    atomic_fetch_add_explicit(&board->shared->bell, 1, memory_order_release);
    sys_futex_wake(&board->shared->bell, INT_MAX);
}

/* Says once why a board is not believed. */
static int board_refuse(int fd, const char *why)
{
    LOG_ERROR("the board of `mbx run` (" BOARD_ENVIRONMENT ") is damaged: %s, fd %d", why, fd);
    return -EPROTO;
}

/* The size of a file that cannot shrink, or an error. */
static int sealed_size(int fd, size_t *size)
{
    struct stat status;
    int seals = sys_fcntl_seal(fd, F_GET_SEALS, 0);

    if (seals < 0 && errno == EBADF)
        return board_refuse(fd, "the descriptor is not open");
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return board_refuse(fd, "it is no sealed memory");
    if (sys_fstat(fd, &status) < 0)
        return -errno;
    *size = (size_t)status.st_size;
    return 0;
}

static const char *head_fault(const struct board_head *head, size_t bytes)
{
    if (head->magic != BOARD_MAGIC)
        return "wrong magic number";
    if (head->version != BOARD_VERSION)
        return "made by another version";
    if (head->ranks == 0 || head->ranks > BOARD_RANKS_MAX)
        return "impossible number of ranks";
    if (head->bytes != board_bytes(head->ranks) || head->bytes != bytes)
        return "wrong size";
    return NULL;
}

int board_open(struct board *board, int fd)
{
    struct board_shared *shared;
    struct board_head head;
    const char *fault;
    size_t bytes = 0;
    int err = sealed_size(fd, &bytes);

    if (err != 0)
        return err;
    if (bytes < sizeof *shared || bytes > board_bytes(BOARD_RANKS_MAX))
        return board_refuse(fd, "wrong size");
    shared = sys_mmap(bytes, fd, 0);
    if (shared == NULL)
        return -errno;
    head = *(volatile struct board_head *)&shared->head;
    fault = head_fault(&head, bytes);
    if (fault != NULL) {
        sys_munmap(shared, bytes);
        return board_refuse(fd, fault);
    }
    *board = (struct board){.shared = shared, .bytes = bytes, .ranks = head.ranks};
    memcpy(board->key, head.key, BOOT_KEY_SIZE);
    return 0;
}

void board_close(struct board *board)
{
    sys_munmap(board->shared, board->bytes);
    board->shared = NULL;
}

/* FNV-1a */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t board_check(uint32_t rank, const struct board_value *value)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = hash_bytes(hash, &rank, sizeof rank);
    hash = hash_bytes(hash, &value->round, sizeof value->round);
    hash = hash_bytes(hash, &value->size, sizeof value->size);
    return hash_bytes(hash, value->bytes, sizeof value->bytes);
}
