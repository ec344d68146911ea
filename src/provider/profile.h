/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.h - fi_profile(3) of an endpoint: profile.c.
 */
#ifndef PROVIDER_PROFILE_H
#define PROVIDER_PROFILE_H

#include "provider/compat.h"
#include "provider/ep.h"

/* fi_open_ops() of an endpoint: knows only fi_profile_open(). */
int prov_profile_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                          void *context);
/* Detaches the profiles, if any, of an endpoint that closes. */
void prov_profiles_leave(struct prov_ep *ep);

#endif
