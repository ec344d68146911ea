/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket.h - the frames that two ranks exchange over a socket.
 *
 * There is one frame for each fence, always of the same size.  Numbers are little-endian, as on
 * all machines that Matchbox supports.
 */
#ifndef BOOT_SOCKET_H
#define BOOT_SOCKET_H

#include "base/base.h"
#include "boot/boot.h"

#define FRAME_MAGIC    UINT64_C(0x4d42582d50414952) /* "MBX-PAIR" */
#define FRAME_VERSION  1
#define FRAME_NO_VALUE UINT32_MAX

struct frame {
    uint64_t magic;
    uint64_t round;   /* the number of fences that its sender has passed */
    uint32_t version; /* of this layout */
    uint32_t size;    /* of the value, or FRAME_NO_VALUE */
    uint8_t value[BOOT_VALUE_MAX];
};

/* The value of frame 0. */
struct frame_hello {
    uint64_t host; /* base/host.h */
    uint8_t key[BOOT_KEY_SIZE];
};

static_assert(sizeof(struct frame) == 24 + BOOT_VALUE_MAX, "it travels");

#endif
