/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av.c - the address vector: fi_addr_t -> address -> peer number, and back.
 *
 *   fi_addr --entries--> address --mbx_peer_add--> peer     prov_av_resolve
 *   fi_addr <--hash----- address <--mbx_peer_address-- peer prov_av_find
 *
 * Both ways end in a cache of the endpoint (ep->av.peers, ep->av.addrs), so an operation
 * comes here once per address.  A fi_addr is an index for both types of vector.
 *
 * A message that arrived before its sender was inserted still meets a directed
 * receive posted after the insertion: Matchbox numbered the sender when it arrived,
 * and mbx_peer_add() gives that number for its address.
 *
 * Invariants
 *   I1  ep->av.addrs[p] = a implies ep->av.peers[a] = p: so fi_av_remove() finds all that
 *       an endpoint remembers of a through ep->av.peers[a]
 *   I2  only the endpoint's own thread (or lock) moves the caches; fi_av_remove() may
 *       reset entries from another thread.  Both hold the vector's lock, and entries
 *       are atomic because the endpoint reads them without it.
 */
#include "door/program.h"
#include "provider/av.h"
#include "provider/ep.h"
#include "provider/eq.h"
#include "provider/fabric.h"
#include "provider/name.h"
#include "provider/text.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AV_FIRST_CAPACITY 16

static struct prov_av *av_of(struct fid_av *fid)
{
    return container_of(fid, struct prov_av, fid);
}

/* ---- the table ------------------------------------------------------------------ */

static uint64_t address_hash(const struct mbx_address *address)
{
    return hash_bytes(address->bytes, sizeof address->bytes);
}

static uint64_t entry_hash(const void *av, const void *slot)
{
    return address_hash(&((const struct prov_av *)av)->entries[hash_number(slot) - 1].address);
}

static bool entry_is(const void *av, const void *slot, const void *address)
{
    return memcmp(&((const struct prov_av *)av)->entries[hash_number(slot) - 1].address,
                  address, sizeof(struct mbx_address)) == 0;
}

static bool number_is(const void *av, const void *slot, const void *number)
{
    (void)av;
    return hash_number(slot) == *(const uint32_t *)number;
}

static const struct hash_kind by_address = {sizeof(uint32_t), entry_hash, entry_is};
static const struct hash_kind by_number = {sizeof(uint32_t), entry_hash, number_is};

static void av_unlink(struct prov_av *av, uint32_t index)
{
    const uint32_t number = index + 1;

    hash_remove(&av->numbers, &by_number, av,
                hash_find(&av->numbers, &by_number, av, entry_hash(av, &number), &number));
}

/* Space for one more entry at the end. */
static int av_grow(struct prov_av *av, uint32_t capacity)
{
    struct prov_av_entry *entries;

    if (capacity <= av->capacity || capacity > UINT32_C(1) << 30)
        return -FI_ENOMEM;
    entries = realloc(av->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return -FI_ENOMEM;
    av->entries = entries;
    av->capacity = capacity;
    return 0;
}

static int av_add(struct prov_av *av, const struct mbx_address *address, fi_addr_t *addr)
{
    uint32_t index = av->free, number;
    int err;

    if (hash_reserve(&av->numbers, &by_address, av) < 0)
        return -FI_ENOMEM;
    if (index != PROV_AV_NONE) {
        av->free = av->entries[index].next;
    } else {
        if (av->count == av->capacity && (err = av_grow(av, av->capacity * 2)) < 0)
            return err;
        index = av->count++;
    }
    av->entries[index].address = *address;
    av->entries[index].used = true;
    number = index + 1;
    (void)hash_add(&av->numbers, &by_address, av, &number);
    *addr = index;
    return 0;
}

static bool av_has(const struct prov_av *av, fi_addr_t addr)
{
    return addr < av->count && av->entries[addr].used;
}

/* ---- the endpoints' caches --------------------------------------------------------- */

static void ep_forget(struct prov_ep *ep, fi_addr_t addr)
{
    uint32_t peer;

    if (addr >= ep->av.peer_limit)
        return;
    peer =
        atomic_exchange_explicit(&ep->av.peers[addr], PROV_PEER_UNKNOWN, memory_order_relaxed);
    if (peer < ep->av.addr_limit &&
        atomic_load_explicit(&ep->av.addrs[peer], memory_order_relaxed) == addr)
        atomic_store_explicit(&ep->av.addrs[peer], FI_ADDR_NOTAVAIL, memory_order_relaxed);
}

static int ep_peers_grow(struct prov_ep *ep, uint64_t limit)
{
    _Atomic uint32_t *peers = realloc(ep->av.peers, limit * sizeof *peers);

    if (peers == NULL)
        return -FI_ENOMEM;
    for (uint64_t i = ep->av.peer_limit; i < limit; i++)
        atomic_init(&peers[i], PROV_PEER_UNKNOWN);
    ep->av.peers = peers;
    ep->av.peer_limit = limit;
    return 0;
}

static int ep_addrs_grow(struct prov_ep *ep, uint32_t limit)
{
    _Atomic fi_addr_t *addrs = realloc(ep->av.addrs, limit * sizeof *addrs);

    if (addrs == NULL)
        return -FI_ENOMEM;
    for (uint32_t i = ep->av.addr_limit; i < limit; i++)
        atomic_init(&addrs[i], FI_ADDR_NOTAVAIL);
    ep->av.addrs = addrs;
    ep->av.addr_limit = limit;
    return 0;
}

static bool is_reported(struct prov_ep *ep)
{
    return atomic_load_explicit(&ep->av.is_reported, memory_order_relaxed);
}

/* An MPI matches by tagged messages.  It may open another endpoint, for one-sided accesses: Open MPI's btl/ofi
 * does, also while its messages travel over the component. */
static bool is_for_messages(const struct prov_ep *ep)
{
    return (ep->caps & FI_TAGGED) != 0;
}

/* Called once.  Inlined, it would make each receive slower. */
static OUT_OF_LINE void report_locked(struct prov_ep *ep)
{
    if (!is_reported(ep) && is_for_messages(ep))
        (void)door_name_program(ep->mbx, "provider");
    atomic_store_explicit(&ep->av.is_reported, true, memory_order_relaxed);
}

void prov_av_report(struct prov_ep *ep)
{
    if (ep->av.vector == NULL)
        return;
    pthread_mutex_lock(&ep->av.vector->lock);
    report_locked(ep);
    pthread_mutex_unlock(&ep->av.vector->lock);
}

static int resolve_locked(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer)
{
    struct prov_av *av = ep->av.vector;
    uint32_t number;
    int err;

    if (!av_has(av, addr))
        return -FI_EINVAL;
    if (addr >= ep->av.peer_limit && (err = ep_peers_grow(ep, av->capacity)) < 0)
        return err;
    err = mbx_peer_add(ep->mbx, &av->entries[addr].address, &number);
    if (err < 0)
        return err;
    if (!is_reported(ep))
        report_locked(ep);
    atomic_store_explicit(&ep->av.peers[addr], number, memory_order_relaxed);
    *peer = number;
    return 0;
}

int prov_av_resolve(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer)
{
    int err;

    if (ep->av.vector == NULL)
        return -FI_ENOAV;
    pthread_mutex_lock(&ep->av.vector->lock);
    err = resolve_locked(ep, addr, peer);
    pthread_mutex_unlock(&ep->av.vector->lock);
    return err;
}

static fi_addr_t find_locked(struct prov_ep *ep, uint32_t peer)
{
    struct prov_av *av = ep->av.vector;
    struct mbx_address address;
    uint32_t index, same;

    if (mbx_peer_address(ep->mbx, peer, &address) < 0)
        return FI_ADDR_NOTAVAIL;
    index =
        hash_number(hash_find(&av->numbers, &by_address, av, address_hash(&address), &address));
    if (index-- == 0)
        return FI_ADDR_NOTAVAIL;
    if ((peer < ep->av.addr_limit || ep_addrs_grow(ep, (peer | 15) * 2) == 0) &&
        resolve_locked(ep, index, &same) == 0)
        atomic_store_explicit(&ep->av.addrs[peer], index, memory_order_relaxed);
    return index;
}

fi_addr_t prov_av_find(struct prov_ep *ep, uint32_t peer)
{
    fi_addr_t addr = FI_ADDR_NOTAVAIL;

    if (peer < ep->av.addr_limit)
        addr = atomic_load_explicit(&ep->av.addrs[peer], memory_order_relaxed);
    if (addr != FI_ADDR_NOTAVAIL || ep->av.vector == NULL)
        return addr;
    pthread_mutex_lock(&ep->av.vector->lock);
    addr = find_locked(ep, peer);
    pthread_mutex_unlock(&ep->av.vector->lock);
    return addr;
}

int prov_av_bind(struct prov_av *av, struct prov_ep *ep)
{
    if (av->domain != ep->domain)
        return -FI_EDOMAIN;
    if (ep->av.vector != NULL)
        return -FI_EINVAL;
    pthread_mutex_lock(&av->lock);
    ep->av.vector = av;
    ep->av.next = av->eps;
    av->eps = ep;
    pthread_mutex_unlock(&av->lock);
    atomic_fetch_add(&av->users, 1);
    return 0;
}

static void ep_leave(struct prov_av *av, struct prov_ep *ep)
{
    struct prov_ep **at = &av->eps;

    pthread_mutex_lock(&av->lock);
    while (*at != ep)
        at = &(*at)->av.next;
    *at = ep->av.next;
    pthread_mutex_unlock(&av->lock);
    atomic_fetch_sub(&av->users, 1);
}

void prov_av_unbind(struct prov_ep *ep)
{
    if (ep->av.vector != NULL)
        ep_leave(ep->av.vector, ep);
    ep->av.vector = NULL;
    free(ep->av.peers);
    free(ep->av.addrs);
    ep->av.peers = NULL;
    ep->av.addrs = NULL;
    ep->av.peer_limit = 0;
    ep->av.addr_limit = 0;
}

/* ---- operations of the client -------------------------------------------------------- */

/* A name is resolved at once: the vector keeps the address that is published under it now. */
static int av_insert_one(struct prov_av *av, const struct mbx_address *address, fi_addr_t *addr)
{
    struct mbx_address real = *address;
    int err = prov_is_name(address) ? prov_name_find(address, &real) : 0;

    if (err < 0)
        return err;
    pthread_mutex_lock(&av->lock);
    err = av_add(av, &real, addr);
    pthread_mutex_unlock(&av->lock);
    return err;
}

static void event_failed(struct prov_av *av, size_t index, int err, void *context)
{
    const struct fi_eq_err_entry error = {.fid = &av->fid.fid,
                                          .context = context,
                                          .data = index,
                                          .err = -err,
                                          .prov_errno = -err};

    prov_eq_error(av->eq, &error);
}

static void event_inserted(struct prov_av *av, size_t count, void *context)
{
    const struct fi_eq_entry entry = {.fid = &av->fid.fid, .context = context, .data = count};

    prov_eq_event(av->eq, FI_AV_COMPLETE, &entry, sizeof entry);
}

/*
 * One insertion, of one address or of many.
 *
 * Returns the number of inserted addresses.  An address that was not inserted gets
 * FI_ADDR_NOTAVAIL, and with FI_SYNC_ERR context is an array of errors.  A vector with FI_EVENT
 * reports all this by events, and the call returns 0.
 */
struct insertion {
    struct prov_av *av;
    fi_addr_t *fi_addr; /* or NULL */
    int *errors;        /* or NULL */
    void *context;
    size_t index;
    int inserted;
};

static int insertion_begin(struct insertion *in, struct fid_av *fid, fi_addr_t *fi_addr,
                           uint64_t flags, void *context)
{
    *in = (struct insertion){.av = av_of(fid),
                             .fi_addr = fi_addr,
                             .errors = flags & FI_SYNC_ERR ? context : NULL,
                             .context = context};
    if (flags & ~(FI_SYNC_ERR | FI_MORE))
        return -FI_EBADFLAGS;
    if (in->av->has_events && in->av->eq == NULL)
        return -FI_ENOEQ;
    return in->av->has_events && (flags & FI_SYNC_ERR) ? -FI_EINVAL : 0;
}

/* Inserts the next address. made is negative if making the address has already failed. */
static void insertion_add(struct insertion *in, const struct mbx_address *address, int made)
{
    fi_addr_t addr = FI_ADDR_NOTAVAIL;
    int err = made < 0 ? made : av_insert_one(in->av, address, &addr);

    in->inserted += err == 0;
    if (in->fi_addr != NULL)
        in->fi_addr[in->index] = addr;
    if (in->errors != NULL)
        in->errors[in->index] = -err;
    if (err < 0 && in->av->has_events)
        event_failed(in->av, in->index, err, in->context);
    in->index++;
}

static int insertion_end(struct insertion *in)
{
    if (!in->av->has_events)
        return in->inserted;
    event_inserted(in->av, (size_t)in->inserted, in->context);
    return 0;
}

/* In the array of a client, addresses follow each other without gaps. */
static const void *address_next(uint32_t format, const void *addr)
{
    size_t size = format == FI_ADDR_STR ? strlen(addr) + 1 : sizeof(struct mbx_address);

    return (const char *)addr + size;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
                     uint64_t flags, void *context)
{
    struct insertion in;
    int err = insertion_begin(&in, fid, fi_addr, flags, context);

    if (err < 0)
        return err;
    if ((addr == NULL && count != 0) || count > INT32_MAX)
        return -FI_EINVAL;
    for (size_t i = 0; i < count; i++) {
        struct mbx_address address;

        err = prov_address_take(in.av->domain->addr_format, addr, &address);
        insertion_add(&in, &address, err);
        addr = address_next(in.av->domain->addr_format, addr);
    }
    return insertion_end(&in);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
                        fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    struct mbx_address name;
    struct insertion in;
    int err = insertion_begin(&in, fid, fi_addr, flags, context);

    if (err < 0)
        return err;
    err = prov_name_make(node, service, 0, &name);
    insertion_add(&in, &name, err);
    return insertion_end(&in);
}

/* Writes text, with the number at its end raised by offset; text itself if offset is 0.  False
 * if text ends with no number, or does not fit. */
static bool numbered(const char *text, size_t offset, char *to, size_t size)
{
    size_t length = strlen(text), digits = 0;
    int used;

    while (digits < length && digits < 9 && text[length - digits - 1] >= '0' &&
           text[length - digits - 1] <= '9')
        digits++;
    if (offset == 0)
        used = snprintf(to, size, "%s", text);
    else if (digits == 0)
        return false;
    else
        used = snprintf(to, size, "%.*s%0*lu", (int)(length - digits), text, (int)digits,
                        strtoul(text + length - digits, NULL, 10) + offset);
    return used >= 0 && (size_t)used < size;
}

/* Inserts all services of each node, node by node: node7, node8, ... and 100, 101, ... */
static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt,
                        const char *service, size_t svccnt, fi_addr_t *fi_addr, uint64_t flags,
                        void *context)
{
    struct insertion in;
    int err = insertion_begin(&in, fid, fi_addr, flags, context);

    if (err < 0)
        return err;
    if (node == NULL || service == NULL || nodecnt == 0 || svccnt == 0 ||
        nodecnt > INT32_MAX / svccnt)
        return -FI_EINVAL;
    for (size_t i = 0; i < nodecnt * svccnt; i++) {
        char one_node[256], one_service[32];
        struct mbx_address name;

        if (numbered(node, i / svccnt, one_node, sizeof one_node) &&
            numbered(service, i % svccnt, one_service, sizeof one_service))
            err = prov_name_make(one_node, one_service, 0, &name);
        else
            err = -FI_EINVAL;
        insertion_add(&in, &name, err);
    }
    return insertion_end(&in);
}

static void av_drop(struct prov_av *av, uint32_t index)
{
    for (struct prov_ep *ep = av->eps; ep != NULL; ep = ep->av.next)
        ep_forget(ep, index);
    av_unlink(av, index);
    av->entries[index].used = false;
    av->entries[index].next = av->free;
    av->free = index;
}

/* Removes all entries, or none if one of them is not in the vector. */
static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    struct prov_av *av = av_of(fid);
    int err = 0;

    if (flags != 0)
        return -FI_EBADFLAGS;
    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < count && err == 0; i++)
        if (!av_has(av, fi_addr[i]))
            err = -FI_EINVAL;
    for (size_t i = 0; i < count && err == 0; i++)
        if (av_has(av, fi_addr[i])) /* the array may name an entry twice */
            av_drop(av, (uint32_t)fi_addr[i]);
    pthread_mutex_unlock(&av->lock);
    return err;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    struct prov_av *av = av_of(fid);
    size_t capacity = *addrlen;
    int err = -FI_EINVAL;

    pthread_mutex_lock(&av->lock);
    if (av_has(av, fi_addr)) {
        (void)prov_address_put(av->domain->addr_format, &av->entries[fi_addr].address, addr,
                               capacity, addrlen); /* too long: truncated, see fi_av(3) */
        err = 0;
    }
    pthread_mutex_unlock(&av->lock);
    return err;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
    char text[PROV_TEXT_SIZE] = "";
    struct mbx_address address;

    if (av_of(fid)->domain->addr_format == FI_ADDR_STR) {
        *len = (size_t)snprintf(buf, *len, "%s", (const char *)addr) + 1;
        return buf;
    }
    memcpy(&address, addr, sizeof address);
    prov_text_make(&address, text);
    *len = (size_t)snprintf(buf, *len, "%s", text) + 1;
    return buf;
}

static int av_set_open(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set,
                       void *context)
{
    (void)fid, (void)attr, (void)set, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = av_set_open,
};

static int av_close(struct fid *fid)
{
    struct prov_av *av = container_of(fid, struct prov_av, fid.fid);

    if (atomic_load(&av->users) != 0)
        return -FI_EBUSY;
    if (av->eq != NULL)
        atomic_fetch_sub(&av->eq->users, 1);
    atomic_fetch_sub(&av->domain->users, 1);
    pthread_mutex_destroy(&av->lock);
    hash_fini(&av->numbers);
    free(av->entries);
    free(av);
    return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct prov_av *av = container_of(fid, struct prov_av, fid.fid);

    if (bfid->fclass != FI_CLASS_EQ || av->eq != NULL)
        return -FI_EINVAL;
    if (flags != 0)
        return -FI_EBADFLAGS;
    av->eq = container_of(bfid, struct prov_eq, fid.fid);
    atomic_fetch_add(&av->eq->users, 1);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = av_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

/* Named (shared) vectors and receive contexts are not supported. */
static int av_attr_check(const struct fi_av_attr *attr)
{
    if (attr->name != NULL || (attr->flags & FI_READ))
        return -FI_ENOSYS;
    if (attr->flags & ~(FI_EVENT | FI_SYMMETRIC))
        return -FI_EBADFLAGS;
    if (attr->type > FI_AV_TABLE || attr->rx_ctx_bits != 0)
        return -FI_EINVAL;
    return 0;
}

static uint32_t av_first_capacity(size_t count)
{
    uint32_t capacity = AV_FIRST_CAPACITY;

    while (capacity < count && capacity < UINT32_C(1) << 20)
        capacity *= 2;
    return capacity;
}

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **fid,
                 void *context)
{
    struct prov_av *av;
    int err = attr == NULL ? -FI_EINVAL : av_attr_check(attr);

    if (err < 0)
        return err;
    av = calloc(1, sizeof *av);
    if (av == NULL)
        return -FI_ENOMEM;
    av->free = PROV_AV_NONE;
    err = av_grow(av, av_first_capacity(attr->count));
    if (err < 0)
        goto free_av;
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &av_fid_ops;
    av->fid.ops = &av_ops;
    av->domain = container_of(domain, struct prov_domain, fid);
    av->has_events = attr->flags & FI_EVENT;
    atomic_init(&av->users, 0);
    pthread_mutex_init(&av->lock, NULL);
    atomic_fetch_add(&av->domain->users, 1);
    if (attr->type == FI_AV_UNSPEC)
        attr->type = av->domain->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : av->domain->av_type;
    *fid = &av->fid;
    return 0;

free_av:
    free(av);
    return err;
}
