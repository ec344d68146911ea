/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.h - peers that have died, and receives that any of them might have met; failure.c.
 */
#ifndef CORE_FAILURE_H
#define CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

struct mbx_ep;
struct peer;
struct request;

/* failure.c */
struct ep_failures {
    uint32_t first, last; /* peers that have died, by health.next_failed */
    uint32_t count, known;
    bool is_unnotified; /* there may be a receive that has not been notified */
};

/* peer has died: from now on receives from any source are notified. */
void failure_add(struct mbx_ep *ep, struct peer *peer);
/* req, open, from any source: it has been posted when deaths are not acknowledged, or there is
 * a new one. */
void failure_unnotified(struct mbx_ep *ep, struct request *req);
/* Tells of req, which failure_concerns(), as an entry of MBX_FAILURES. */
void failure_entry(const struct mbx_ep *ep, struct request *req, struct mbx_completion *entry);
/* Entries of MBX_FAILURES. */
int failure_poll(struct mbx_ep *ep, struct mbx_completion *entries, int count);
/* Is there one? */
bool failure_any(struct mbx_ep *ep);

/* Marks req as notified of the failures so far.  Returns -EHOSTDOWN, for the caller to return. */
int failure_notify(struct request *req);

#endif
