/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - what a client sleeps on, and how a blocking call waits for it: wait.c.
 */
#ifndef PROVIDER_WAIT_H
#define PROVIDER_WAIT_H

#include "provider/compat.h"

#include <stdatomic.h>

/* What a wait object knows of the wait set that it was opened with; sets.c makes it. */
struct prov_wait_group {
    struct fid_wait fid;
    int (*join)(struct prov_wait_group *group, struct fid *member);
    void (*leave)(struct prov_wait_group *group, struct fid *member);
    void (*ring)(struct prov_wait_group *group);
};

/* A wait object. */
struct prov_wait {
    enum fi_wait_obj object;     /* FI_WAIT_NONE: nobody does */
    int fd;                      /* an eventfd, or -1 */
    struct prov_wait_group *set; /* that is rung, too; or NULL */
    _Atomic uint32_t rings; /* futex word: twice their number, and whether somebody sleeps */
    atomic_bool raised;     /* fd is readable, or about to be */
    atomic_bool closed;     /* its object is */
    atomic_uint users;      /* the object while it is open, and blocking calls under way */
};

int64_t prov_now_ns(void);
/* INT64_MAX: never (timeout_ms is negative). */
int64_t prov_deadline(int timeout_ms);
/* Instead of a sleep, if nobody would ring. */
void prov_sleep_once(void);

/* How a blocking call waits for what rings a wait object. */
struct prov_waiter {
    struct prov_wait *wait;
    int64_t spin_until_ns; /* looks before the first sleep: an answer may be under way */
    int64_t deadline_ns;
    uint32_t rings;
    bool is_armed;
};
struct prov_waiter prov_waiter_begin(struct prov_wait *wait, int64_t deadline_ns);
/* Between two looks that found nothing; arm(arg) has the object rung for what comes next.
 * 0: look again; -FI_ETIMEDOUT; -FI_ECANCELED the object is closed. */
int prov_waiter_wait(struct prov_waiter *waiter, int (*arm)(void *arg), void *arg);

/* owner joins the set, if the object is FI_WAIT_SET.  0; -FI_EINVAL, -FI_ENOSYS. */
int prov_wait_init(struct prov_wait *w, enum fi_wait_obj object, struct fid_wait *set,
                   struct fid *owner);
/* A blocking call begins; its object is there until it ends, also if it is closed meanwhile. */
void prov_wait_enter(struct prov_wait *w);
/* The call ends; or the object, owner, is closed: then whoever sleeps is woken, and told.  True:
 * that was the last of them, who frees the object. */
bool prov_wait_leave(struct prov_wait *w);
bool prov_wait_close(struct prov_wait *w, struct fid *owner);
/* FI_GETWAIT and FI_GETWAITOBJ. */
int prov_wait_control(struct prov_wait *w, int command, void *arg);
void prov_wait_ring(struct prov_wait *w);
/* Rings, if somebody has asked for it by this flag, which is for one ring. */
void prov_wait_ring_armed(struct prov_wait *w, atomic_bool *armed);
/* The descriptor is not readable any more until the next ring. */
void prov_wait_lower(struct prov_wait *w);
/* How often it was rung; sleeps while it is still so.  0: look again; -FI_ETIMEDOUT;
 * -FI_ECANCELED the object is closed. */
uint32_t prov_wait_rings(struct prov_wait *w);
int prov_wait_sleep(struct prov_wait *w, uint32_t rings, int64_t deadline_ns);

#endif
