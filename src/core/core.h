/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h - endpoint, peer, request, message: the header of src/core, and its only header that
 * other folders include.
 *
 * Its parts come with it: ep.h (the endpoint, a list of parts), request.h, peer.h, context.h,
 * progress.h, wait.h, liveness.h, failure.h, settings.h, proto.h (a protocol is a table), module.h (a
 * capability is a module), outq.h (what leaves for a peer), pieces.h (data that is not one buffer),
 * lockword.h (which sender wins a receive), event_fd.h (a descriptor for poll()), names.h
 * (names that a program sets), parts.h (the state of the folders above), stats.h, tuning.h,
 * backoff.h, and valid.h in checks.
 *
 *   endpoint ── transport                    one transport moves everything
 *      ├── contexts: id -> matching engine   (context.c)
 *      ├── peers:    number -> address, and peer with its link once it is used (peer.c)
 *      │      └── out: requests that have something to send, first in, first out
 *      ├── requests: a pool; a request is its own completion entry (request.c)
 *      ├── messages: a pool; unexpected or extracted messages (message.c)
 *      ├── regions:  what peers may access (region.c)
 *      ├── works:    of modules: run in each round
 *      ├── busy:     peers with outgoing packets that wait
 *      ├── active:   receives that read their sender's memory, sends that write into their
 *      │             receiver's
 *      ├── done:     completed requests that the user has not yet seen
 *      └── waiters:  threads in a wait (wait.c)
 *
 * Threads: with MBX_THREADS=many, everything in an endpoint that can change is touched only
 * under its lock.  Only the public functions take it; the functions that they call are written
 * as if there were one thread.
 *
 * Invariants (ep_is_valid(), valid.h)
 *   I1  a request is on at most one of: a matching engine, active, done; and on at most one
 *       peer's out.  Its state says on which
 *   I2  a peer is on busy while its out is not empty or something is owed to it; after that it
 *       leaves busy in the next round
 *   I3  the first packet of a send leaves only with credit (credit.h), and only if no request
 *       is before it in its peer's out and none is deferred: so messages leave in the order of
 *       the calls
 *   I4  a request that the user consumes while it is still on an out is in REQUEST_LINGER: its
 *       handle is dead, and it is freed when the packet has left
 *   I5  while the bytes of a request move, done <= total <= size
 *   I6  DUE_MOVE is set while one of the endpoint's lists is not empty, DUE_READ while there is
 *       an unread completion
 *   I7  a complete request has released its exposed memory, lent buffers and copies; injected
 *       counts the incomplete sends that have no completion
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <errno.h>
#include <string.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/pool.h"
#include "core/backoff.h"
#include "core/ep.h"
#include "core/event_fd.h"
#include "core/lockword.h"
#include "core/module.h"
#include "core/outq.h"
#include "core/parts.h"
#include "core/pieces.h"
#include "core/proto.h"
#include "core/stats.h"
#include "core/tuning.h"
#include "core/valid.h"
#include "transport/labels.h"
#include "transport/mux.h"
#include "transport/transport.h"
#include "wire/wire.h"

#endif
