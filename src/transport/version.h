/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version.h - processes with different versions of the library may not understand each other.
 *
 * The first data that each side shows the other (the head of a segment, HELLO on a network) has
 * a mark with the same format in all versions.  So a side that does not understand the other
 * can report its version.
 */
#ifndef TRANSPORT_VERSION_H
#define TRANSPORT_VERSION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct version {
    uint8_t format;  /* of the data that carries the mark: SEGMENT_VERSION, NET_VERSION */
    uint8_t packets; /* WIRE_VERSION */
    uint8_t major, minor, patch; /* of the library */
    uint8_t zero[3];
};

static_assert(sizeof(struct version) == 8, "of all versions");

/* The mark of this library, for data of this format. */
struct version version_own(uint8_t format);

/* Does this library understand the sender of this mark, in data of this format? */
bool version_is_understood(const struct version *theirs, uint8_t format);

/* Logs a warning: `who` ("pid 4711") shows this mark, this library another one, and the
 * remedy. */
void version_warn(const char *transport, const char *who, const struct version *theirs,
                  uint8_t format);

#endif
