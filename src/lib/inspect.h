/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect.h - the page of an endpoint (inspect/page.h): opened and closed with it, and filled when an observer
 * asks.
 */
#ifndef LIB_INSPECT_H
#define LIB_INSPECT_H

#include "core/core.h"
#include "inspect/walk.h"
#include "transport/transport.h"

/* ages.c: which object was seen at each place of a pool, and when first */
struct inspect_age {
    uint64_t id, since_ns;
};

struct inspect_ages {
    struct inspect_age *seen;
    uint32_t places, next;
};

/* Of an endpoint that shows itself: inspect.c, hang.c, ages.c. */
struct ep_inspect {
    struct mbx_ep *next; /* of those that show themselves */
    struct mbx_ep **at;  /* what points to this one among them; or NULL */
    uint32_t turn;
    int fd;
    uint64_t answered_ns;
    /* hang.c */
    uint64_t happened;             /* grows with what happens */
    uint64_t still_ns, watched_ns; /* since when nothing has; the last check */
    uint64_t retry_ns;             /* no report is asked for before */
    int reporter;                  /* what the process that reports tells us by; or -1 */
    /* ages.c */
    struct inspect_ages requests, messages;
    uint64_t checked_ns; /* the last check */
};
PART_FITS(mbx_ep, inspect, struct ep_inspect);
#define ep_inspect(ep) PART((ep)->inspect, struct ep_inspect)

/* Where what lies in this library; and the same for others, at this address.  inspect_root.c */
extern const struct inspect_map inspect_own_map;
uint64_t inspect_root_address(void);

/* The first of the endpoints that show themselves; ep_inspect(ep)->next is the next.  inspect.c writes it under a lock; a
 * debugger reads it while the process stands still. */
extern struct mbx_ep *inspect_endpoints;

/* A number that endpoints of one job share, of its key and of what its launcher calls it, and others hardly have.  0: there is
 * neither. */
uint64_t inspect_job(const uint8_t key[TRANSPORT_KEY_SIZE]);

/* Makes the page, with MBX_INSPECT=on.  An endpoint that gets none works as well, and nobody sees it. */
void inspect_open(struct mbx_ep *ep);
void inspect_close(struct mbx_ep *ep);

/* debugger_announce() names the library for debuggers where Open MPI's debuggers look for it, and
 * debugger_forget() takes that back.  Both under the lock of the list of endpoints.
 * debugger.c */
void debugger_announce(void);
void debugger_forget(void);

/* Tells observers how many ranks the job of an endpoint has, unless its launcher has said it
 * in the environment. */
void inspect_ranks(struct mbx_ep *ep, uint32_t ranks);

/* Looks whether something has happened since the last check, and with MBX_HANG has it reported if that is long
 * ago.  hang.c */
void hang_open(struct mbx_ep *ep);
void hang_close(struct mbx_ep *ep);

/* Notes what is new in the pools.  ages.c */
void ages_update(struct mbx_ep *ep, uint64_t now_ns);
void ages_close(struct mbx_ep *ep);

/* With MBX_LEAKS=warn: says which messages nobody has received, and which receives met none. */
void inspect_leaks(const struct mbx_ep *ep);

#endif
