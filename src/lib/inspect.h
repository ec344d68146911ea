/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect.h - the page of an endpoint (inspect/page.h): opened and closed with it, and filled
 * for observers.
 */
#ifndef LIB_INSPECT_H
#define LIB_INSPECT_H

#include "core/core.h"
#include "inspect/walk.h"
#include "transport/transport.h"

/* ages.c: the object seen at each place of a pool, and the time when it was first seen */
struct inspect_age {
    uint64_t id, since_ns;
};

struct inspect_ages {
    struct inspect_age *seen;
    uint32_t places, next;
};

/* Part of an endpoint: inspect.c, hang.c, ages.c. */
struct ep_inspect {
    struct mbx_ep *next; /* the next endpoint with a page */
    struct mbx_ep **at;  /* the pointer to this endpoint in that list; or NULL */
    uint32_t turn;
    int fd;
    uint64_t answered_ns;
    /* hang.c */
    uint64_t happened;             /* changes with each event */
    uint64_t still_ns, watched_ns; /* the time of the last event; of the last check */
    uint64_t retry_ns;             /* no report is started before this time */
    int reporter;                  /* the eventfd of the process that reports; or -1 */
    /* ages.c */
    struct inspect_ages requests, messages;
    uint64_t checked_ns; /* the time of the last check */
};
PART_FITS(mbx_ep, inspect, struct ep_inspect);
#define ep_inspect(ep) PART((ep)->inspect, struct ep_inspect)

/* The layout of this library; and its form for observers, at this address.  inspect_root.c */
extern const struct inspect_map inspect_own_map;
uint64_t inspect_root_address(void);

/* The first endpoint with a page; ep_inspect(ep)->next is the next.  inspect.c writes the list
 * under a lock; a debugger reads it while the process is stopped. */
extern struct mbx_ep *inspect_endpoints;

/* A number that the endpoints of one job share, from its key and its launcher's names for it,
 * and that other jobs are unlikely to have.  0: there is neither. */
uint64_t inspect_job(const uint8_t key[TRANSPORT_KEY_SIZE]);

/* Makes the page, with MBX_INSPECT=on.  An endpoint without a page also works, but observers do
 * not see it. */
void inspect_open(struct mbx_ep *ep);
void inspect_close(struct mbx_ep *ep);

/* debugger_announce() sets the library for debuggers where Open MPI's debuggers look for it,
 * and debugger_forget() clears it.  Call both under the lock of the list of endpoints.
 * debugger.c */
void debugger_announce(void);
void debugger_forget(void);

/* Shows observers the number of ranks in the job of an endpoint, unless its launcher has set it
 * in the environment. */
void inspect_ranks(struct mbx_ep *ep, uint32_t ranks);

/* Checks whether something has happened since the last check, and with MBX_HANG starts a report
 * if nothing has for too long.  hang.c */
void hang_open(struct mbx_ep *ep);
void hang_close(struct mbx_ep *ep);

/* Notes new objects in the pools.  ages.c */
void ages_update(struct mbx_ep *ep, uint64_t now_ns);
void ages_close(struct mbx_ep *ep);

/* With MBX_LEAKS=warn: logs messages that were not received, and receives that matched none. */
void inspect_leaks(const struct mbx_ep *ep);

#endif
