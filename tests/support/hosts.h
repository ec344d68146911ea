/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - the endpoints of one test program, each on a host of its own.  Test code.
 *
 * Within a command of scripts/hosts/netns-hosts each endpoint of this program, and of its children, that
 * opens the network opens it on the next host: its sockets are those of that host's network
 * namespace, and what it sends leaves by that host's interface.  Elsewhere nothing changes.
 *
 * A socket belongs to the namespace of the thread that makes it, and libfabric makes some
 * when it opens and some later, when it sends or makes progress (src/transport/ofi asks for
 * progress by hand: in the thread that calls).  So every call of the transport begins with a
 * look whether the thread is on the endpoint's host.  tests/support/meson.build has the linker
 * put these operations in the place of transport_ofi; nothing of the library knows of it.
 *
 * Endpoints that take each other for those of numbered hosts (MBX_FAULT_HOST) are put there:
 * number 1 on h1.
 */
#ifndef TESTS_HOSTS_H
#define TESTS_HOSTS_H

#include <stdbool.h>

#include "transport/transport.h"

/* Is it the network's, on whatever host? */
bool hosts_is_network(const struct transport *t);
/* Is it on one of the hosts?  Then its table of operations leads there, and stays in its place.
 */
bool hosts_is_placed(const struct transport *t);

#endif
