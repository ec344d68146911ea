/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile_checks.h - checks that fi_profile(3) reports the true state of an endpoint.  For
 * tests that are their own libfabric, and for tests that use the installed one.
 */
#ifndef TESTS_PROVIDER_PROFILE_CHECKS_H
#define TESTS_PROVIDER_PROFILE_CHECKS_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

/* An endpoint with no operation in progress, its own address as it knows it, and its queue. */
struct profiled {
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t self;
};

/* fi_profile_open(). */
struct fid_profile;
int profile_open(struct fid_ep *ep, struct fid_profile **profile);

/* Needs a libfabric with profiles. mbx: the tool, whose `mbx queues` has to agree; NULL: not
 * run. */
void check_profile(const struct profiled *p, const char *mbx);

#endif
