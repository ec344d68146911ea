/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * across.h - invariants that folders have in common.  Private to src/lib: it may look into all of
 * them.
 */
#ifndef LIB_ACROSS_H
#define LIB_ACROSS_H

#include <stdbool.h>

struct mbx_ep;

bool credit_is_valid(const struct mbx_ep *ep); /* credit.h; with defer and offload */

#endif
