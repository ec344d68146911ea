/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sets.c - several objects at once: poll sets, wait sets, and fi_trywait().
 *
 *   poll set   fi_poll() makes progress and returns the queues and counters that are ready: a queue
 *              with an entry, a counter whose value has changed since it was last reported
 *   wait set   fi_wait() sleeps until one of the queues and counters that were opened with it
 *              is ready
 *   fi_trywait says whether the caller may sleep: nothing is ready, and the next completion rings
 *
 * Both sets are lists of members.  An object in a poll set refuses to close; an object that was
 * opened with a wait set leaves the set when it closes.
 */
#include "base/sys.h"
#include "provider/counter.h"
#include "provider/cq.h"
#include "provider/eq.h"
#include "provider/fabric.h"
#include "provider/param.h"
#include "provider/sets.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct member {
    struct fid *fid;
    uint64_t seen; /* for a counter: value + errors when it was last reported */
};

struct members {
    pthread_mutex_t lock;
    struct member *items;
    unsigned count;
};

struct poll_set {
    struct fid_poll fid;
    struct prov_domain *domain;
    struct members members;
    struct door_idle idle; /* guarded by the lock of members */
};

struct wait_set {
    struct prov_wait_group group; /* its members refer to the set by this */
    struct prov_fabric *fabric;
    struct members members;
    struct prov_wait wait;
};

/* ---- one object -----------------------------------------------------------------------------
 */

static struct prov_cq *prov_sets_cq(struct fid *fid)
{
    return container_of(fid, struct prov_cq, fid.fid);
}

static struct prov_eq *eq_of(struct fid *fid)
{
    return container_of(fid, struct prov_eq, fid.fid);
}

static struct prov_cntr *cntr_of(struct fid *fid)
{
    return container_of(fid, struct prov_cntr, fid.fid);
}

/* The reference count of a member; NULL: this object cannot be in a set. */
static atomic_uint *users_of(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return &prov_sets_cq(fid)->users;
    case FI_CLASS_EQ:
        return &eq_of(fid)->users;
    case FI_CLASS_CNTR:
        return &cntr_of(fid)->users;
    default:
        return NULL;
    }
}

static bool member_is_ready(struct member *m)
{
    uint64_t before = m->seen;

    switch (m->fid->fclass) {
    case FI_CLASS_CQ:
        return prov_cq_is_ready(prov_sets_cq(m->fid));
    case FI_CLASS_EQ:
        return prov_eq_is_ready(eq_of(m->fid));
    default:
        m->seen = prov_cntr_total(cntr_of(m->fid));
        return m->seen != before;
    }
}

/* ---- lists ----------------------------------------------------------------------------------
 */

static int members_add(struct members *members, struct fid *fid)
{
    struct member *items;
    int err = 0;

    pthread_mutex_lock(&members->lock);
    items = realloc(members->items, (members->count + 1) * sizeof *items);
    if (items == NULL) {
        err = -FI_ENOMEM;
    } else {
        items[members->count++] = (struct member){.fid = fid};
        members->items = items;
    }
    pthread_mutex_unlock(&members->lock);
    return err;
}

/* False if it was not there. */
static bool members_remove(struct members *members, struct fid *fid)
{
    unsigned i = 0;
    bool found;

    pthread_mutex_lock(&members->lock);
    while (i < members->count && members->items[i].fid != fid)
        i++;
    found = i < members->count;
    if (found)
        members->items[i] = members->items[--members->count];
    pthread_mutex_unlock(&members->lock);
    return found;
}

static void members_fini(struct members *members)
{
    pthread_mutex_destroy(&members->lock);
    free(members->items);
}

/* Puts the contexts of the ready members into found; returns their number.  The caller holds the
 * lock. */
static int members_poll(struct members *members, void **found, int count)
{
    int n = 0;

    for (unsigned i = 0; i < members->count && n < count; i++)
        if (member_is_ready(&members->items[i]))
            found[n++] = members->items[i].fid->context;
    return n;
}

/* ---- poll sets
 * ------------------------------------------------------------------------------- */

static struct poll_set *poll_of(struct fid_poll *fid)
{
    return container_of(fid, struct poll_set, fid);
}

static int poll_poll(struct fid_poll *fid, void **context, int count)
{
    struct poll_set *set = poll_of(fid);
    bool tires = false;
    int n;

    if (count < 0 || (context == NULL && count != 0))
        return -FI_EINVAL;
    pthread_mutex_lock(&set->members.lock);
    n = members_poll(&set->members, context, count);
    if (n == 0)
        tires = door_idle_tires(&set->idle);
    else
        door_idle_ends(&set->idle);
    pthread_mutex_unlock(&set->members.lock);
    if (unlikely(tires))
        sys_yield();
    return n;
}

static int poll_add(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
    struct poll_set *set = poll_of(fid);
    atomic_uint *users = users_of(member);
    int err;

    if (flags != 0)
        return -FI_EBADFLAGS;
    if (users == NULL)
        return -FI_EINVAL;
    err = members_add(&set->members, member);
    if (err == 0)
        atomic_fetch_add(users, 1);
    return err;
}

static int poll_del(struct fid_poll *fid, struct fid *member, uint64_t flags)
{
    if (flags != 0)
        return -FI_EBADFLAGS;
    if (!members_remove(&poll_of(fid)->members, member))
        return -FI_EINVAL;
    atomic_fetch_sub(users_of(member), 1);
    return 0;
}

static struct fi_ops_poll poll_ops = {
    .size = sizeof(struct fi_ops_poll),
    .poll = poll_poll,
    .poll_add = poll_add,
    .poll_del = poll_del,
};

static int poll_close(struct fid *fid)
{
    struct poll_set *set = container_of(fid, struct poll_set, fid.fid);

    for (unsigned i = 0; i < set->members.count; i++)
        atomic_fetch_sub(users_of(set->members.items[i].fid), 1);
    members_fini(&set->members);
    atomic_fetch_sub(&set->domain->users, 1);
    free(set);
    return 0;
}

static struct fi_ops poll_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = poll_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **fid)
{
    struct poll_set *set;

    if (attr != NULL && attr->flags != 0)
        return -FI_EBADFLAGS;
    set = calloc(1, sizeof *set);
    if (set == NULL)
        return -FI_ENOMEM;
    set->fid.fid.fclass = FI_CLASS_POLL;
    set->fid.fid.ops = &poll_fid_ops;
    set->fid.ops = &poll_ops;
    set->domain = container_of(domain, struct prov_domain, fid);
    door_idle_init(&set->idle, prov_is_oversubscribed());
    pthread_mutex_init(&set->members.lock, NULL);
    atomic_fetch_add(&set->domain->users, 1);
    *fid = &set->fid;
    return 0;
}

/* ---- wait sets
 * ------------------------------------------------------------------------------- */

static struct wait_set *wait_of(struct fid_wait *fid)
{
    return container_of(fid, struct wait_set, group.fid);
}

static int set_join(struct prov_wait_group *group, struct fid *member)
{
    return members_add(&container_of(group, struct wait_set, group)->members, member);
}

static void set_drop(struct prov_wait_group *group, struct fid *member)
{
    members_remove(&container_of(group, struct wait_set, group)->members, member);
}

static void set_ring(struct prov_wait_group *group)
{
    prov_wait_ring(&container_of(group, struct wait_set, group)->wait);
}

/* Arms a member.  An event queue always rings. */
static int member_arm(struct fid *fid)
{
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return prov_cq_arm(prov_sets_cq(fid));
    case FI_CLASS_CNTR:
        return prov_cntr_arm(cntr_of(fid));
    default:
        return 0;
    }
}

/* Arms all members: the next completion rings the set. */
static int set_arm(struct wait_set *set)
{
    int err = 0;

    pthread_mutex_lock(&set->members.lock);
    for (unsigned i = 0; i < set->members.count && err == 0; i++)
        err = member_arm(set->members.items[i].fid);
    pthread_mutex_unlock(&set->members.lock);
    return err;
}

static bool set_is_ready(struct wait_set *set)
{
    void *first;
    bool is;

    pthread_mutex_lock(&set->members.lock);
    is = members_poll(&set->members, &first, 1) == 1;
    pthread_mutex_unlock(&set->members.lock);
    return is;
}

/* Sleeps briefly, where nobody would end a longer sleep. */
static int set_nap(struct wait_set *set, int64_t deadline_ns)
{
    if (prov_now_ns() >= deadline_ns)
        return -FI_ETIMEDOUT;
    prov_sleep_once();
    return atomic_load(&set->wait.closed) ? -FI_ECANCELED : 0;
}

static int set_await(struct wait_set *set, int64_t deadline_ns)
{
    int err = 0;

    while (err == 0) {
        uint32_t rings = prov_wait_rings(&set->wait);
        int armed = set_arm(set);

        if (armed < 0 && armed != -FI_EAGAIN)
            return armed;
        if (set_is_ready(set))
            return 0;
        err = armed < 0 ? set_nap(set, deadline_ns)
                        : prov_wait_sleep(&set->wait, rings, deadline_ns);
    }
    return err;
}

static void set_free(struct wait_set *set)
{
    members_fini(&set->members);
    free(set);
}

static void set_leave(void *arg)
{
    struct wait_set *set = arg;

    if (prov_wait_leave(&set->wait))
        set_free(set);
}

static int wait_wait(struct fid_wait *fid, int timeout)
{
    struct wait_set *set = wait_of(fid);
    int err;

    prov_wait_enter(&set->wait);
    pthread_cleanup_push(set_leave, set);
    err = set_await(set, prov_deadline(timeout));
    pthread_cleanup_pop(1);
    return err;
}

static struct fi_ops_wait wait_ops = {
    .size = sizeof(struct fi_ops_wait),
    .wait = wait_wait,
};

static int wait_close(struct fid *fid)
{
    struct wait_set *set = container_of(fid, struct wait_set, group.fid.fid);

    if (set->members.count != 0)
        return -FI_EBUSY;
    atomic_fetch_sub(&set->fabric->users, 1);
    if (prov_wait_close(&set->wait, fid))
        set_free(set);
    return 0;
}

static int wait_control(struct fid *fid, int command, void *arg)
{
    return prov_wait_control(&container_of(fid, struct wait_set, group.fid.fid)->wait, command,
                             arg);
}

static struct fi_ops wait_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = wait_close,
    .bind = prov_no_bind,
    .control = wait_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

/* FI_WAIT_NONE is refused, because nobody could wait; a set cannot wait in another set. */
static int wait_attr_check(const struct fi_wait_attr *attr)
{
    if (attr == NULL)
        return 0;
    if (attr->flags != 0)
        return -FI_EBADFLAGS;
    return attr->wait_obj == FI_WAIT_NONE || attr->wait_obj == FI_WAIT_SET ? -FI_EINVAL : 0;
}

int prov_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **fid)
{
    struct wait_set *set;
    int err = wait_attr_check(attr);

    if (err < 0)
        return err;
    set = calloc(1, sizeof *set);
    if (set == NULL)
        return -FI_ENOMEM;
    err = prov_wait_init(&set->wait, attr == NULL ? FI_WAIT_UNSPEC : attr->wait_obj, NULL,
                         &set->group.fid.fid);
    if (err < 0) {
        free(set);
        return err;
    }
    set->group = (struct prov_wait_group){
        .fid = {.fid = {.fclass = FI_CLASS_WAIT, .ops = &wait_fid_ops}, .ops = &wait_ops},
        .join = set_join,
        .leave = set_drop,
        .ring = set_ring,
    };
    set->fabric = container_of(fabric, struct prov_fabric, fid);
    pthread_mutex_init(&set->members.lock, NULL);
    atomic_fetch_add(&set->fabric->users, 1);
    *fid = &set->group.fid;
    return 0;
}

/* ---- fi_trywait
 * ------------------------------------------------------------------------------- */

static int eq_try(struct prov_eq *eq)
{
    if (eq->wait.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    prov_wait_lower(&eq->wait);
    return prov_eq_is_ready(eq) ? -FI_EAGAIN : 0;
}

static int set_try(struct wait_set *set)
{
    int err;

    prov_wait_lower(&set->wait);
    err = set_arm(set);
    if (err < 0)
        return err;
    return set_is_ready(set) ? -FI_EAGAIN : 0;
}

int prov_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int err = 0;

    (void)fabric;
    for (int i = 0; i < count && err == 0; i++) {
        switch (fids[i]->fclass) {
        case FI_CLASS_CQ:
            err = prov_cq_try(prov_sets_cq(fids[i]));
            break;
        case FI_CLASS_EQ:
            err = eq_try(eq_of(fids[i]));
            break;
        case FI_CLASS_CNTR:
            err = prov_cntr_try(cntr_of(fids[i]));
            break;
        case FI_CLASS_WAIT:
            err = set_try(container_of(fids[i], struct wait_set, group.fid.fid));
            break;
        default:
            return -FI_EINVAL;
        }
    }
    return err;
}
