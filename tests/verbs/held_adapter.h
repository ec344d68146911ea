/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held_adapter.h - makes the software adapter of this host work only on request: piece by
 * piece, in an order drawn from a seed (adapter/daemon/step.c).
 */
#ifndef HELD_ADAPTER_H
#define HELD_ADAPTER_H

#include <stdint.h>

/* Holds the running adapter, which nothing else may be using: 0, or an error. */
int held_adapter_begin(void);

/* Does so many pieces of its work; returns how many there were. */
uint32_t held_adapter_step(uint32_t count, uint64_t seed);

/* The adapter works by itself again. */
void held_adapter_end(void);

#endif
