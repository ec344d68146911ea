/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * version.h - processes whose versions of the library differ may not understand each other.
 *
 * What each shows the other first (the head of a segment, HELLO on a network) has a mark, which reads
 * alike in all versions.  So whoever does not understand the other can say which version that has.
 */
#ifndef TRANSPORT_VERSION_H
#define TRANSPORT_VERSION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

struct version {
    uint8_t format;              /* of what has the mark: SEGMENT_VERSION, NET_VERSION */
    uint8_t packets;             /* WIRE_VERSION */
    uint8_t major, minor, patch; /* of the library */
    uint8_t zero[3];
};

static_assert(sizeof(struct version) == 8, "of all versions");

/* The mark of this library, for what has this format. */
struct version version_own(uint8_t format);

/* Does it understand who shows this mark in what has this format? */
bool version_is_understood(const struct version *theirs, uint8_t format);

/* One warning: who ("pid 4711") shows this mark, this library has another, and what helps. */
void version_warn(const char *transport, const char *who, const struct version *theirs,
                  uint8_t format);

#endif
