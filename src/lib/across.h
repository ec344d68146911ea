/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * across.h - invariants that span several folders.  src/lib may use all folders.  Private to
 * src/lib.
 */
#ifndef LIB_ACROSS_H
#define LIB_ACROSS_H

#include <stdbool.h>

struct mbx_ep;

bool credit_is_valid(const struct mbx_ep *ep); /* credit.h; includes defer and offload */

#endif
