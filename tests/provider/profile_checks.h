/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile_checks.h - does fi_profile(3) of an endpoint say what is there?  For tests that are their own
 * libfabric, and for those that have the installed one.
 */
#ifndef TESTS_PROVIDER_PROFILE_CHECKS_H
#define TESTS_PROVIDER_PROFILE_CHECKS_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* An endpoint with nothing under way, that knows itself by this address, and its queue. */
struct profiled {
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t self;
};

/* fi_profile_open(). */
struct fid_profile;
int profile_open(struct fid_ep *ep, struct fid_profile **profile);

/* Of a libfabric that knows of profiles.  mbx: the tool, whose `mbx queues` has to say the same; NULL: it is not asked. */
void check_profile(const struct profiled *p, const char *mbx);

#endif
