/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.h - the user parameters of the transport over verbs; also present in builds
 * without libibverbs.
 */
#ifndef IB_PARAMS_H
#define IB_PARAMS_H

#include "base/param.h"

#define IB_PARAMS 5

extern const struct param ib_params[IB_PARAMS];

#endif
