/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compat.h - libfabric's headers, of 1.x or 2.x, and the library's public one: what every file of
 * the provider is written against.
 */
#ifndef PROVIDER_COMPAT_H
#define PROVIDER_COMPAT_H

#include <matchbox/matchbox.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "base/compiler.h"
#include "provider/old_names.h"

#endif
