/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - the endpoints of one test program, each on a host of its own.  Test code.
 *
 * Within a command of scripts/hosts/netns-hosts, each endpoint of this program and of its
 * children opens the network on the next host: its sockets are in that host's network
 * namespace, and its packets leave by that host's interface.  Elsewhere nothing changes.
 *
 * A socket belongs to the namespace of the thread that makes it, and libfabric makes some when
 * it opens and some later, when it sends or makes progress (src/transport/ofi requests manual
 * progress: in the calling thread).  So every call of the transport first checks that the
 * thread is on the endpoint's host. tests/support/meson.build has the linker substitute these
 * operations for transport_ofi; the library does not know.
 *
 * Endpoints that claim to be on a numbered host (MBX_FAULT_HOST) are put there: number 1 on h1.
 */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include <stdbool.h>

#include "transport/transport.h"

/* Is this the network transport, on whatever host? */
bool hosts_is_network(const struct transport *t);
/* Is it on one of the hosts?  Then its table of operations goes there, and must not be
 * replaced. */
bool hosts_is_placed(const struct transport *t);

#endif
