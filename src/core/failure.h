/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h - peers that have died, and receives from any source; failure.c.
 */
#ifndef CORE_FAILURE_H
#define CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

struct mbx_ep;
struct peer;
struct request;

/* Written by failure.c. */
struct ep_failures {
    uint32_t first, last; /* list of peers that have died, linked by health.next_failed */
    uint32_t count, known;
    bool is_unnotified; /* a receive may not have been notified yet */
};

/* peer has died: from now on receives from any source are notified. */
void failure_add(struct mbx_ep *ep, struct peer *peer);
/* req, open, from any source, has to be notified: it was posted while deaths are not
 * acknowledged, or a peer has died since. */
void failure_unnotified(struct mbx_ep *ep, struct request *req);
/* Makes the MBX_FAILURES entry of req, for which failure_concerns() is true. */
void failure_entry(const struct mbx_ep *ep, struct request *req, struct mbx_completion *entry);
/* Reads entries of MBX_FAILURES. */
int failure_poll(struct mbx_ep *ep, struct mbx_completion *entries, int count);
/* Is there an entry of MBX_FAILURES? */
bool failure_any(struct mbx_ep *ep);

/* Marks req as notified of the failures so far.  Returns -EHOSTDOWN, for the caller to return. */
int failure_notify(struct request *req);

#endif
