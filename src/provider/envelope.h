/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * envelope.h - the mapping of a libfabric message to a Matchbox message.
 *
 *   context id  PROV_TAGGED or PROV_UNTAGGED: the two never match each other; nor anything
 *               PROV_SENTINEL
 *   tag         63 bits of the client; bit 63 (PROV_HAS_DATA) says that data is
 *               remote CQ data and not merely zero.  Receives ignore it.  An adapter that
 *               matches compares bit 63 and 47 others (docs/internals/devices-verbs.md), so with MBX_DEVICE=verbs
 *               a format of 47 bits is announced, and a longer one to a client that asks for it
 *   data        remote CQ data
 *   user        struct prov_op, always (op.h)
 */
#ifndef PROVIDER_ENVELOPE_H
#define PROVIDER_ENVELOPE_H

#include <stdint.h>

#define PROV_TAGGED            1u
#define PROV_UNTAGGED          2u
#define PROV_SENTINEL          3u /* matches no message (multi.c) */
#define PROV_HAS_DATA          (UINT64_C(1) << 63)
#define PROV_TAG_FORMAT        UINT64_C(0x5555555555555555) /* one field, top bit not usable */
#define PROV_TAG_FORMAT_DEVICE UINT64_C(0x555555555555)     /* 47 bits */
#define PROV_TAG_MAX_DEVICE    UINT64_C(0x7fffffffffff)

#endif
