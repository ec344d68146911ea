/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * single.c - a process without a launcher is a job of one rank.
 *
 * It stores two values, like a board: one for this round, and the value of the last round,
 * which can be read.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "boot/kvs_shm.h"
#include "boot/methods.h"

struct single_value {
    bool is_put;
    size_t size;
    uint8_t bytes[BOOT_VALUE_MAX];
};

struct single {
    struct boot boot;
    struct single_value next, last;
};

static struct single *single_of(struct boot *b)
{
    return container_of(b, struct single, boot);
}

static int single_put(struct boot *b, const void *value, size_t size)
{
    struct single *single = single_of(b);

    if (size > BOOT_VALUE_MAX)
        return -EMSGSIZE;
    single->next.is_put = true;
    single->next.size = size;
    memcpy(single->next.bytes, value, size);
    return 0;
}

static int single_get(struct boot *b, uint32_t rank, void *value, size_t size)
{
    struct single *single = single_of(b);

    assert(rank == 0);
    (void)rank;
    if (!single->last.is_put)
        return -ENOENT;
    if (single->last.size != size)
        return -EPROTO;
    memcpy(value, single->last.bytes, size);
    return 0;
}

static int single_fence(struct boot *b)
{
    struct single *single = single_of(b);

    single->last = single->next;
    single->next.is_put = false;
    return 0;
}

static void single_close(struct boot *b)
{
    mem_free(single_of(b));
}

static const struct boot_ops single_ops = {
    .name = "single",
    .put = single_put,
    .get = single_get,
    .fence = single_fence,
    .close = single_close,
};

int single_open(struct boot **out)
{
    struct single *single = mem_calloc(1, sizeof *single);
    int err;

    if (single == NULL)
        return -ENOMEM;
    single->boot = (struct boot){.ops = &single_ops, .rank = 0, .size = 1};
    if (sys_getrandom(single->boot.key, BOOT_KEY_SIZE) < 0) {
        err = -errno;
        mem_free(single);
        return err;
    }
    *out = &single->boot;
    return 0;
}
