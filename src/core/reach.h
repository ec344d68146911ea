/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.h - receives that reach messages at their senders.  Private to src/core; reach.c
 * tells how.
 */
#ifndef CORE_REACH_H
#define CORE_REACH_H

#include "core/core.h"

/* Does this peer hold messages, as far as is known? */
bool reach_holds(const struct peer *peer);

extern const struct module reach_module;

#endif
