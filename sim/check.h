/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.h - was what happened right?  check.c says by which law.
 */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "job.h"

/* All is quiet: no receive waits for what waits for it. */
void check_met(struct job *job);

/* All is over. */
void check_end(struct job *job);

#endif
