/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot.h - who is in the job: rank, size, put, get, fence.
 *
 * Start-up differs by launcher, so this is an ops table.  `mbx run` is one
 * implementation (run.c), a process without a launcher another (single.c).
 *
 * Under `mbx run` all ranks and the launcher share one memory object, the board,
 * inherited as a file descriptor: it never has a name.  board.h describes it.
 */
#ifndef BOOT_BOOT_H
#define BOOT_BOOT_H

#include <stddef.h>
#include <stdint.h>

#define BOOT_KEY_SIZE  16
#define BOOT_VALUE_MAX 128

struct boot;

struct boot_ops {
    const char *name;

    /* Publishes one value of at most BOOT_VALUE_MAX bytes under this rank and
     * round; visible to the others after the next fence.
     * 0; -EMSGSIZE. */
    int (*put)(struct boot *b, const void *value, size_t size);

    /* Copies what rank put before the last fence; size must be what was put.
     * 0; -ENOENT it put nothing; -EPROTO it is damaged or of another size. */
    int (*get)(struct boot *b, uint32_t rank, void *value, size_t size);

    /* Waits until every rank has called it.
     * 0; -ECONNRESET a rank has ended without joining; -EINTR. */
    int (*fence)(struct boot *b);

    void (*close)(struct boot *b);
};

struct boot {
    const struct boot_ops *ops;
    uint32_t rank, size;
    uint8_t key[BOOT_KEY_SIZE];
};

/* Opens what the environment offers.  0; -EPROTO what the launcher left is damaged;
 * -ENOMEM; system errors.  MBX_BOOT (set by `mbx run`): "FD:RANK". */
int boot_open(struct boot **out);

#endif
