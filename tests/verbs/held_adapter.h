/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held_adapter.h - the software adapter of this host works only when a test says so: piece by piece, in an
 * order that a seed draws (adapter/daemon/step.c).
 */
#ifndef HELD_ADAPTER_H
#define HELD_ADAPTER_H

#include <stdint.h>

/* The adapter that runs, and that nobody else uses, is held: 0, or an error. */
int held_adapter_begin(void);

/* So many pieces of its work; how many there were. */
uint32_t held_adapter_step(uint32_t count, uint64_t seed);

/* It works by itself again. */
void held_adapter_end(void);

#endif
