/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - wait objects, and how a blocking call waits for them: wait.c.
 */
#ifndef PROVIDER_WAIT_H
#define PROVIDER_WAIT_H

#include "provider/compat.h"

#include <stdatomic.h>

/* A wait set as its members see it; sets.c makes it. */
struct prov_wait_group {
    struct fid_wait fid;
    int (*join)(struct prov_wait_group *group, struct fid *member);
    void (*leave)(struct prov_wait_group *group, struct fid *member);
    void (*ring)(struct prov_wait_group *group);
};

/* A wait object. */
struct prov_wait {
    enum fi_wait_obj object;     /* FI_WAIT_NONE: no waiting */
    int fd;                      /* an eventfd, or -1 */
    struct prov_wait_group *set; /* a set to ring as well; or NULL */
    _Atomic uint32_t rings;      /* futex word: twice the rings, plus 1 if a thread may sleep */
    atomic_bool raised;          /* fd is readable, or about to be */
    atomic_bool closed;          /* the owner is closed */
    atomic_uint users;           /* the owner while it is open, and active blocking calls */
};

int64_t prov_now_ns(void);
/* INT64_MAX: never (timeout_ms is negative). */
int64_t prov_deadline(int timeout_ms);
/* A short sleep, where nobody would ring. */
void prov_sleep_once(void);

/* The state of a blocking call that waits for a wait object. */
struct prov_waiter {
    struct prov_wait *wait;
    int64_t spin_until_ns; /* polls without sleep until then: an answer may be coming */
    int64_t deadline_ns;
    uint32_t rings;
    bool is_armed;
};
struct prov_waiter prov_waiter_begin(struct prov_wait *wait, int64_t deadline_ns);
/* Called between two polls that found nothing; arm(arg) requests a ring for the next thing that
 * comes. 0: poll again; -FI_ETIMEDOUT; -FI_ECANCELED: the object is closed. */
int prov_waiter_wait(struct prov_waiter *waiter, int (*arm)(void *arg), void *arg);

/* owner joins the set, if the object is FI_WAIT_SET. 0; -FI_EINVAL, -FI_ENOSYS. */
int prov_wait_init(struct prov_wait *w, enum fi_wait_obj object, struct fid_wait *set,
                   struct fid *owner);
/* A blocking call begins; its object stays until the call ends, even if it is closed
 * meanwhile. */
void prov_wait_enter(struct prov_wait *w);
/* The call ends; or the object, owner, is closed: all sleepers are woken, and their calls fail.
 * True: that was the last user, and the caller frees the object. */
bool prov_wait_leave(struct prov_wait *w);
bool prov_wait_close(struct prov_wait *w, struct fid *owner);
/* FI_GETWAIT and FI_GETWAITOBJ. */
int prov_wait_control(struct prov_wait *w, int command, void *arg);
void prov_wait_ring(struct prov_wait *w);
/* Rings, if this flag is set; a flag is for one ring. */
void prov_wait_ring_armed(struct prov_wait *w, atomic_bool *armed);
/* Makes the descriptor unreadable until the next ring. */
void prov_wait_lower(struct prov_wait *w);
/* The number of rings; and a sleep until the number differs from rings. 0: poll again;
 * -FI_ETIMEDOUT; -FI_ECANCELED: the object is closed. */
uint32_t prov_wait_rings(struct prov_wait *w);
int prov_wait_sleep(struct prov_wait *w, uint32_t rings, int64_t deadline_ns);

#endif
