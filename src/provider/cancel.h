/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.h - fi_cancel(): cancel.c.
 */
#ifndef PROVIDER_CANCEL_H
#define PROVIDER_CANCEL_H

#include "provider/compat.h"

#include <sys/types.h>

ssize_t prov_cancel(fid_t fid, void *context);

#endif
