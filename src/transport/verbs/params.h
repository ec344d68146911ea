/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.h - what users can set of the transport over verbs; known in builds without libibverbs, too.
 */
#ifndef IB_PARAMS_H
#define IB_PARAMS_H

#include "base/param.h"

#define IB_PARAMS 5

extern const struct param ib_params[IB_PARAMS];

#endif
