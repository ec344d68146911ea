/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * params.h - the user parameters of the network; also present in builds without libfabric.
 */
#ifndef OFI_PARAMS_H
#define OFI_PARAMS_H

#include "base/param.h"

#define OFI_PARAMS 3

extern const struct param ofi_params[OFI_PARAMS];

#endif
