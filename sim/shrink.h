/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink.h - a plan that fails, without what it does not need for that.
 */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "plan.h"

/* Drops operations for as long as less still fails, or until so many jobs were run. */
void plan_shrink(struct plan *plan, bool (*fails)(const struct plan *plan), uint32_t jobs);

#endif
