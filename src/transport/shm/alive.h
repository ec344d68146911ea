/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * alive.h - alive.c says it all.
 */
#ifndef SHM_ALIVE_H
#define SHM_ALIVE_H

#include <stdbool.h>
#include <stdint.h>

/* Does this process, a pid or a number of passing.h, still run?  Also true where the system does not tell. */
bool process_is_alive(uint32_t pid);

#endif
