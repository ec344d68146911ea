/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alive.h - described in alive.c.
 */
#ifndef SHM_ALIVE_H
#define SHM_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Does this process, a pid or a number of passing.h, still run?  Also true if the system does
 * not say. */
bool process_is_alive(uint32_t pid);

#endif
