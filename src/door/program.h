/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - names the MPI that is the client: program.c.
 */
#ifndef DOOR_PROGRAM_H
#define DOOR_PROGRAM_H

#include <stdbool.h>

struct mbx_ep;

/* Says to the library which MPI the client of this door is.  False: it is none. */
bool door_name_program(struct mbx_ep *ep, const char *door);

#endif
