/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - provider.c says it all.
 */
#ifndef OFI_PROVIDER_H
#define OFI_PROVIDER_H

#include "transport/ofi/dl.h"

/* The provider to use, with atomics if they are wanted and it has them.  0 and *info; -ENODATA,
 * logged. */
int ofi_provider_choose(const struct ofi_dl *dl, const char *provider, const char *interface,
                        bool wants_atomics, struct fi_info **info);

#endif
