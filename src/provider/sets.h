/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sets.h - several objects at once: poll sets, wait sets, fi_trywait(): sets.c.
 */
#ifndef PROVIDER_SETS_H
#define PROVIDER_SETS_H

#include "provider/compat.h"

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
                   struct fid_poll **poll);
int prov_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                   struct fid_wait **wait);
int prov_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

#endif
