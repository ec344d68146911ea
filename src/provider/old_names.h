/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * old_names.h - names from libfabric 1.17's headers that 2.x's lack, or warn of.
 *
 * The provider serves clients of both, whatever it was compiled with, and its tests are clients of
 * both.  Include it after libfabric's own headers.
 */
#ifndef PROVIDER_OLD_NAMES_H
#define PROVIDER_OLD_NAMES_H

#include <stddef.h>

#ifndef container_of
#define container_of(pointer, type, field) ((type *)((char *)(pointer)-offsetof(type, field)))
#endif
#ifndef count_of
#define count_of(array) (sizeof(array) / sizeof((array)[0]))
#endif

/* Registration modes by name: an enumeration in 1.17, macros that warn in 2.x. */
#ifdef FI_MR_BASIC
#undef FI_MR_BASIC
#undef FI_MR_SCALABLE
#define FI_MR_BASIC    (1 << 0)
#define FI_MR_SCALABLE (1 << 1)
#endif

#undef FI_ORDER_NONE
#undef FI_ORDER_STRICT
#define FI_ORDER_NONE   0ULL
#define FI_ORDER_STRICT 0x1FFULL

#endif
