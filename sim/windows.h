/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.h - credit.h I1 over both sides of each pair: windows.c.
 */
#ifndef SIM_WINDOWS_H
#define SIM_WINDOWS_H

#include "job.h"

/* Is the credit of each pair what its receiver's window says?  Between the steps of a network; or
 * where nothing has moved for a while, and nothing is on its way any more. */
void windows_check(struct job *job, bool is_quiet);

#endif
