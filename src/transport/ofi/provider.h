/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - described in provider.c.
 */
#ifndef OFI_PROVIDER_H
#define OFI_PROVIDER_H

#include "transport/ofi/dl.h"

/* Chooses the provider, one with atomics if wanted and possible.  0 and *info; -ENODATA,
 * logged. */
int ofi_provider_choose(const struct ofi_dl *dl, const char *provider, const char *interface,
                        bool wants_atomics, struct fi_info **info);

#endif
