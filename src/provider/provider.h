/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider.h - the libfabric provider: its objects and who holds whom.
 *
 *   fabric <- domain <- av <-----+
 *                    <- cq <---- endpoint -> mbx_ep
 *                    <- cntr <---+
 *                    <- mr
 *          <- eq <---------------+
 *
 * An arrow is a counted reference: an object that is still referred to refuses to
 * close (-FI_EBUSY).  An endpoint is one Matchbox endpoint; a completion queue is
 * a list of endpoints to poll, so completions wait in the endpoints and a queue
 * cannot overrun.
 *
 * What travels
 *   context id  PROV_TAGGED or PROV_UNTAGGED: the two never match each other; nor anything
 *               PROV_SENTINEL
 *   tag         63 bits of the client; bit 63 (PROV_HAS_DATA) says that data is
 *               remote CQ data and not merely zero.  Receives ignore it.
 *   data        remote CQ data
 *   user        struct prov_op, always
 *
 * Locks      An endpoint and a queue have a mutex each, taken only if the client
 *            asked for a threading model that needs them (prov_needs_locks; for an
 *            endpoint that peers access, prov_is_accessed), or an endpoint has a thread of
 *            ours (thread.c); an address vector always takes its own.
 *            Order: counter, domain, queue, endpoint, vector, bell.
 *            The library's own lock is never on (MBX_THREADS).
 */
#ifndef PROVIDER_PROVIDER_H
#define PROVIDER_PROVIDER_H

#include <matchbox/matchbox.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "provider/old_names.h"

#define PROV_NAME         "matchbox"
#define PROV_VERSION      FI_VERSION(MBX_VERSION_MAJOR * 100 + MBX_VERSION_MINOR, MBX_VERSION_PATCH)
#define PROV_ADDR_FORMAT  (FI_PROV_SPECIFIC | 0x4d42)
#define PROV_PROTOCOL     (FI_PROV_SPECIFIC | 0x4d42)
#define PROV_IOV_LIMIT    8
#define PROV_INJECT_SIZE  4096
#define PROV_MESSAGE_MAX  ((size_t)1 << 46)
#define PROV_QUEUE_SIZE   1024 /* announced depth of send and receive queues; a hint only */

#define PROV_TAGGED       1u
#define PROV_UNTAGGED     2u
#define PROV_SENTINEL     3u /* nobody sends there (multi.c) */
#define PROV_HAS_DATA     (UINT64_C(1) << 63)
#define PROV_TAG_FORMAT   UINT64_C(0x5555555555555555) /* one field, top bit not usable */

#define PROV_PEER_UNKNOWN UINT32_MAX
#define PROV_MULTI_MIN    64 /* FI_OPT_MIN_MULTI_RECV at first */

#define likely(x)         __builtin_expect(!!(x), 1)
#define unlikely(x)       __builtin_expect(!!(x), 0)

/* Before a function that the short path calls seldom: it stays a call. */
#define OUT_OF_LINE __attribute__((noinline))

/* Before a function that exists to be compiled into each of its callers, with what they know
 * of its arguments. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The libfabric that loaded us; nothing of it is linked. */
struct prov_library {
    uint32_t (*version)(void);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
};
extern struct prov_library prov_library;

/* ---- objects ------------------------------------------------------------------ */

struct prov_fabric {
    struct fid_fabric fid;
    atomic_uint users; /* domains and event queues */
};

struct prov_domain {
    struct fid_domain fid;
    struct prov_fabric *fabric;
    atomic_uint users; /* address vectors, completion queues, endpoints */
    enum fi_threading threading;
    enum fi_av_type av_type;
    bool auto_progress;                        /* each endpoint has a thread (thread.c) */
    bool mr_virtual, mr_prov_key, mr_endpoint; /* mr_mode */
    pthread_mutex_t lock;                      /* for all below */
    struct prov_ep *eps;                       /* that may be accessed; linked by domain_next */
    struct prov_mr *mrs;
    uint64_t next_key;
    size_t atomic_limit; /* of its endpoints; 0: not known yet */
    /* Counters of regions, which any endpoint may change (counter.c); and its own lock. */
    pthread_mutex_t bell;
    struct prov_cntr *region_cntrs;
    atomic_bool bell_armed; /* one of them wants to be rung */
};

/* What peers may access.  Constant, or guarded by the domain's lock. */
struct prov_mr {
    struct fid_mr fid;
    struct prov_mr *next;
    struct prov_domain *domain;
    struct prov_ep *ep; /* the only one, or NULL: all */
    bool enabled;       /* registered with them */
    struct mbx_region region;
    struct prov_cntr *reads, *writes; /* or NULL */
    struct mbx_served past;           /* with endpoints that are closed */
    struct mbx_served seen;           /* already counted */
};

struct prov_av_entry {
    struct mbx_address address;
    uint32_t next; /* of the same hash, or of the free list; PROV_AV_NONE ends */
    bool used;
};

#define PROV_AV_NONE UINT32_MAX

/*
 * Addresses by number (fi_addr_t) and back.  An address may stand here several
 * times; the way back gives one of its numbers, the one inserted first.
 *
 * entries[0..count) with used set are on the list of their hash, the others on the
 * free list.  heads has hash_size (a power of two) lists, each in order of
 * insertion.
 */
struct prov_av {
    struct fid_av fid;
    struct prov_domain *domain;
    pthread_mutex_t lock;
    atomic_uint users;   /* endpoints */
    struct prov_ep *eps; /* linked by av_next */
    struct prov_eq *eq;  /* FI_EVENT: is told of insertions */
    bool has_events;
    struct prov_av_entry *entries;
    uint32_t *heads;
    uint32_t count, capacity, hash_size, free;
};

/* Looks of a client at one object that have found nothing (idle.c). */
struct prov_idle {
    unsigned looks;   /* in a row */
    int64_t since_ns; /* the time of the PROV_IDLE_LOOKS-th of them */
    int64_t limit_ns; /* so long behind that the core is given away */
};

#define PROV_IDLE_LOOKS 32u

/* What clients sleep on (wait.c). */
struct prov_wait {
    enum fi_wait_obj object; /* FI_WAIT_NONE: nobody does */
    int fd;                  /* an eventfd, or -1 */
    struct fid_wait *set;    /* that is rung, too; or NULL */
    _Atomic uint32_t rings;  /* futex word: twice their number, and whether somebody sleeps */
    atomic_bool raised;      /* fd is readable, or about to be */
    atomic_bool closed;      /* its object is */
    atomic_uint users;       /* the object while it is open, and blocking calls under way */
};

/* An endpoint's thread (thread.c).  All guarded by the endpoint's lock. */
struct prov_thread {
    pthread_t id;
    pthread_cond_t wanted;
    bool is_there;
    bool always; /* automatic progress */
    bool stops;
    bool is_asleep;         /* in Matchbox, */
    bool is_deep;           /* without a limit */
    bool used;              /* the client was here meanwhile */
    struct mbx_served told; /* accesses of peers, when counters were last told */
};

/* Something that a queue has to report before it polls its endpoints again. */
struct prov_event {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf; /* where the message lies, if the receive took many; else NULL */
    uint64_t data;
    uint64_t tag;
    fi_addr_t source;
    size_t olen;
    int error; /* 0, or a positive FI_ error */
    int prov_errno;
};

/* An endpoint bound to a queue, for its sends, its receives or both. */
struct prov_cq_source {
    struct prov_ep *ep;
    unsigned queues; /* enum mbx_queue */
};

/* What the next read of a queue does, if there are no events. */
enum prov_cq_next {
    PROV_CQ_PROGRESS, /* progress and poll */
    PROV_CQ_POLL,     /* poll: the last read filled the client's array */
    PROV_CQ_EMPTY,    /* nothing: the last one had room left, so that was all */
};

struct prov_cq {
    struct fid_cq fid;
    struct prov_domain *domain;
    enum fi_cq_format format;
    bool locks;
    bool has_threshold; /* FI_CQ_COND_THRESHOLD */
    pthread_mutex_t lock;
    atomic_uint users; /* poll sets */
    struct prov_cq_source *sources;
    unsigned source_count;
    unsigned turn;        /* the source that is read first */
    struct prov_ep *only; /* the only source, if there is no lock either; else NULL */
    unsigned only_queues; /* of that */
    enum prov_cq_next next;
    struct prov_idle idle;
    struct prov_wait wait;
    atomic_bool armed; /* somebody wants to be rung */
    atomic_bool signalled;
    /* Ring of events: event_count of them from event_head on. */
    struct prov_event *events;
    uint32_t event_head, event_count, event_capacity, event_reserved;
};

enum prov_op_kind {
    PROV_OP_FREE,
    PROV_OP_SEND,
    PROV_OP_RECV,
    PROV_OP_READ,              /* and atomics that bring a result */
    PROV_OP_WRITE,             /* and other atomics */
    PROV_OP_MULTI_QUEUED = 32, /* a receive that multi.c matches; not in Matchbox's hands */
    PROV_OP_PART,              /* a message that goes to the buffer of one of these */
    PROV_OP_SENTINEL, /* a receive of ours that ends when the peer of one of these does */
};

/* What a counter may count.  The first are operations: their kind, less one. */
enum prov_count {
    PROV_COUNT_SEND,
    PROV_COUNT_RECV,
    PROV_COUNT_READ,
    PROV_COUNT_WRITE,
    PROV_COUNT_REMOTE_READ,
    PROV_COUNT_REMOTE_WRITE,
    PROV_COUNTS
};

struct prov_cntr {
    struct fid_cntr fid;
    struct prov_domain *domain;
    atomic_uint users; /* bindings */
    pthread_mutex_t lock;
    struct prov_ep **eps; /* in which it makes progress */
    unsigned ep_count;
    struct prov_mr **mrs; /* whose accesses it counts */
    unsigned mr_count;
    struct prov_cntr *bell_next; /* of the domain's region_cntrs, while mr_count is not 0 */
    _Atomic uint64_t value, errors;
    _Atomic uint64_t seen_value, seen_errors; /* by the client: what fi_trywait() compares */
    struct prov_idle idle;                    /* guarded by lock */
    struct prov_wait wait;
    atomic_bool armed; /* somebody wants to be rung */
};

/* A gathered send or a receive to be scattered: data stands behind it. */
struct prov_bounce {
    size_t count;
    struct iovec iov[PROV_IOV_LIMIT];
    char data[];
};

/* One operation under way: what must be known when it completes. */
struct prov_op {
    struct prov_op *next; /* free list */
    void *context;
    mbx_request request;
    struct prov_bounce *bounce; /* ours; NULL for most */
    enum prov_op_kind kind;
    bool quiet;     /* report errors only */
    uint8_t plain;  /* the queue (enum mbx_queue) from which it comes back as usual, with
                       nothing to do or to leave out; or 0 */
    uint8_t parts;  /* one-sided: accesses that have not completed */
    int error;      /* of those that have: the first one, or 0 */
    uint64_t flags; /* what it was, for the completion */
    struct prov_op **same_at; /* what points here in the index; NULL: it is not there */
    struct prov_op *same;     /* the next one there (cancel.c) */
    struct prov_multi *multi; /* LISTED, PART; WATCH: or NULL */
    void *buf;                /* PART: where it begins */
};

#define PROV_OPS_PER_SLAB 128

struct prov_multi; /* multi.c */

struct prov_op_slab {
    struct prov_op_slab *next;
    struct prov_op ops[PROV_OPS_PER_SLAB];
};

/* A message taken by PEEK and CLAIM, until a CLAIM with the same context. */
struct prov_claim {
    struct prov_claim *next;
    void *context;
    mbx_message message;
    struct mbx_status status;
};

struct prov_ep {
    struct fid_ep fid;
    /* used by every operation */
    struct mbx_ep *mbx;
    _Atomic uint32_t *peers; /* peer number by fi_addr, or PROV_PEER_UNKNOWN */
    uint64_t peer_limit;     /* entries of peers */
    struct prov_op *free_ops;
    struct prov_op *sent, **sent_end; /* sends that were complete at once, to be reported */
    size_t inject_limit;              /* of mbx_inject(); longer ones are copied here */
    uint64_t send_flags, recv_flags;  /* for operations that pass no flags */
    bool send_quiet, recv_quiet;      /* they make no completion (selective) */
    bool send_selective, recv_selective;
    bool locks;
    bool directed; /* receives heed their source address */
    bool enabled;
    bool counts;       /* some counter is bound */
    bool drops_events; /* remote CQ data of writes: there is no queue to tell it */
    pthread_mutex_t lock;
    /* the way back: fi_addr by peer number, or FI_ADDR_NOTAVAIL */
    _Atomic fi_addr_t *addrs;
    uint32_t addr_limit;
    struct prov_domain *domain;
    struct prov_av *av;
    struct prov_ep *av_next, *domain_next;
    unsigned send_queues, recv_queues; /* enum mbx_queue */
    struct mbx_served served;          /* already counted */
    size_t atomic_limit;
    struct prov_cq *send_cq, *recv_cq;
    struct prov_cntr *cntrs[PROV_COUNTS]; /* or NULL */
    struct prov_eq *eq;
    struct prov_op_slab *slabs;
    size_t slab_count;
    struct prov_claim *claims;
    uint64_t caps;
    /* multi.c: untagged receives that are matched there, and a message for one of them */
    struct prov_multi *multis, *multi_last;
    unsigned multi_any, multi_unguarded;
    mbx_message multi_message; /* 0: none */
    struct mbx_status multi_status;
    struct prov_multi *multi_taker;
    size_t multi_min; /* FI_OPT_MIN_MULTI_RECV */
    /* cancel.c: receives by context; NULL before the first fi_cancel() */
    struct prov_op **index;
    size_t index_size;
    size_t send_size, recv_size; /* queue depths as announced */
    struct prov_idle idle;       /* calls that were refused, probes that found nothing */
    struct prov_thread thread;
    struct mbx_address name; /* as published, */
    int name_fd;             /* unless this is -1 */
};

struct prov_eq_entry;

struct prov_eq {
    struct fid_eq fid;
    struct prov_fabric *fabric;
    atomic_uint users;
    pthread_mutex_t lock;
    struct prov_wait wait;
    bool is_writable;
    bool overran; /* an event was lost, for want of memory */
    struct prov_idle idle;
    struct prov_eq_entry *first, **last;
};

static inline struct prov_ep *prov_ep_of(struct fid_ep *fid)
{
    return container_of(fid, struct prov_ep, fid);
}

/* Peers may access the domain's memory through an endpoint with these capabilities.  So also
 * with FI_THREAD_COMPLETION several threads meet in it and in its queues: who registers
 * memory, or looks at the counter of a region, need not be who uses the endpoint. */
static inline bool prov_is_accessed(uint64_t caps)
{
    return caps & (FI_RMA | FI_ATOMIC);
}

/* Models in which the client serialises all calls that meet in one endpoint: by
 * domain, or by everything bound to one queue.  In the others a thread may read
 * the queue while another sends. */
static inline bool prov_needs_locks(enum fi_threading threading)
{
    return threading != FI_THREAD_DOMAIN && threading != FI_THREAD_COMPLETION;
}

static inline void prov_ep_lock(struct prov_ep *ep)
{
    if (unlikely(ep->locks))
        pthread_mutex_lock(&ep->lock);
}

void prov_thread_used(struct prov_ep *ep); /* see below */

static inline void prov_ep_unlock(struct prov_ep *ep)
{
    if (likely(!ep->locks))
        return;
    if (unlikely(ep->thread.is_asleep))
        prov_thread_used(ep);
    pthread_mutex_unlock(&ep->lock);
}

static inline void prov_cq_lock(struct prov_cq *cq)
{
    if (unlikely(cq->locks))
        pthread_mutex_lock(&cq->lock);
}

static inline void prov_cq_unlock(struct prov_cq *cq)
{
    if (unlikely(cq->locks))
        pthread_mutex_unlock(&cq->lock);
}

/* ---- info.c -------------------------------------------------------------------- */

int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct fi_info *hints, struct fi_info **info);

/* ---- fabric.c ------------------------------------------------------------------- */

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* ---- av.c ------------------------------------------------------------------------ */

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                 void *context);
void prov_av_attach(struct prov_av *av, struct prov_ep *ep);
void prov_av_detach(struct prov_av *av, struct prov_ep *ep);
/* Makes addr a peer of ep and remembers its number. */
int prov_av_resolve(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer);
/* The way back: FI_ADDR_NOTAVAIL if the peer's address is not in the vector. */
fi_addr_t prov_av_find(struct prov_ep *ep, uint32_t peer);

/* The peer number of a client's address; err from prov_av_resolve(). */
static inline int prov_peer(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer)
{
    if (likely(addr < ep->peer_limit)) {
        *peer = atomic_load_explicit(&ep->peers[addr], memory_order_relaxed);
        if (likely(*peer != PROV_PEER_UNKNOWN))
            return 0;
    }
    return prov_av_resolve(ep, addr, peer);
}

/* ---- name.c ----------------------------------------------------------------------------- */

/* The name of a service on a node, which must be this machine; node may be NULL.
 * 0; -FI_ENODATA another machine, or an unknown one; -FI_EINVAL no service. */
int prov_name_make(const char *node, const char *service, uint64_t flags,
                   struct mbx_address *address);
bool prov_is_name(const struct mbx_address *address);
/* Removes what processes that were killed have published. */
void prov_name_sweep(void);
/* ep can be found under this name until it closes.  -FI_EADDRINUSE: another one can. */
int prov_name_publish(struct prov_ep *ep, const struct mbx_address *address);
void prov_name_withdraw(struct prov_ep *ep);
/* The address of who has published it; -FI_EADDRNOTAVAIL: nobody. */
int prov_name_find(const struct mbx_address *address, struct mbx_address *real);

/* ---- cq_open.c ------------------------------------------------------------------------ */

/* A power of two, and room for what cq.c wants to set aside at a time. */
#define PROV_FIRST_EVENTS 64

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                 void *context);
int prov_cq_bind(struct prov_cq *cq, struct prov_ep *ep, unsigned queues);
/* The queue and the endpoint know each other no longer. */
void prov_cq_unbind(struct prov_cq *cq, struct prov_ep *ep);
/* Of a queue that is closed, behind the last who waited there. */
void prov_cq_free(struct prov_cq *cq);

/* ---- cq.c -------------------------------------------------------------------------- */

extern struct fi_ops_cq prov_cq_ops;
/* Wakes who has armed it. */
void prov_cq_ring(struct prov_cq *cq);
/* Room for one event that the provider itself makes, then the event, or the room
 * back.  All with the endpoint unlocked. */
int prov_cq_reserve(struct prov_cq *cq);
void prov_cq_push(struct prov_cq *cq, const struct prov_event *event);
void prov_cq_unreserve(struct prov_cq *cq);
/* Progress; what completes becomes events of the queue, and is counted. */
void prov_cq_collect(struct prov_cq *cq);
/* Progress in ep; what completes for which it has no queue is counted, and forgotten. */
void prov_ep_forget(struct prov_ep *ep);
/* What is reported of an untagged receive that was taken back here. */
void prov_event_cancelled(struct prov_event *event, void *context, bool many);

ssize_t prov_cq_readfrom(struct prov_cq *cq, void *buf, size_t count, fi_addr_t *src_addr);

/* ---- cq_wait.c ------------------------------------------------------------------------ */

ssize_t prov_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond,
                      int timeout);
ssize_t prov_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                          const void *cond, int timeout);
int prov_cq_signal(struct fid_cq *cq);
/* The next completion rings the queue. */
int prov_cq_arm(struct prov_cq *cq);
/* Progress; is there something to read? */
bool prov_cq_is_ready(struct prov_cq *cq);
/* fi_trywait(): 0, or -FI_EAGAIN: do not sleep. */
int prov_cq_try(struct prov_cq *cq);

/* ---- idle.c ---------------------------------------------------------------------------- */

void prov_idle_init(struct prov_idle *idle);
/* Behind PROV_IDLE_LOOKS looks more: has the client looked for long enough?  If so, it begins
 * anew. */
bool prov_idle_is_long(struct prov_idle *idle);
/* Gives the core away. */
void prov_yield(void);

/* One more look has found nothing.  True: it is time for prov_yield(), without a lock. */
static inline bool prov_idle_tires(struct prov_idle *idle)
{
    return unlikely(++idle->looks % PROV_IDLE_LOOKS == 0) && prov_idle_is_long(idle);
}

/* A look has found something. */
static inline void prov_idle_ends(struct prov_idle *idle)
{
    idle->looks = 0;
}

/* ---- wait.c ---------------------------------------------------------------------------- */

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
/* The descriptor is not readable any more until the next ring. */
void prov_wait_lower(struct prov_wait *w);
/* How often it was rung; sleeps while it is still so.  0: look again; -FI_ETIMEDOUT;
 * -FI_ECANCELED the object is closed. */
uint32_t prov_wait_rings(struct prov_wait *w);
int prov_wait_sleep(struct prov_wait *w, uint32_t rings, int64_t deadline_ns);

/* ---- thread.c --------------------------------------------------------------------------- */

void prov_thread_init(struct prov_ep *ep);
void prov_thread_fini(struct prov_ep *ep);
/* What next completes in ep rings the queue or counter whose flag this is; starts the thread.
 * The endpoint has locks. */
int prov_thread_arm(struct prov_ep *ep, atomic_bool *armed);
/* Makes progress from now on. */
int prov_thread_always(struct prov_ep *ep);

/* ---- sets.c ----------------------------------------------------------------------------- */

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
                   struct fid_poll **poll);
int prov_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                   struct fid_wait **wait);
int prov_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int prov_wait_set_add(struct fid_wait *set, struct fid *member);
void prov_wait_set_remove(struct fid_wait *set, struct fid *member);
void prov_wait_set_ring(struct fid_wait *set);

/* ---- counter.c ---------------------------------------------------------------------- */

int prov_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                   void *context);
/* flags say of what kind of operation. */
int prov_cntr_bind(struct prov_cntr *cntr, struct prov_ep *ep, uint64_t flags);
/* Takes all of ep's away. */
void prov_cntr_unbind(struct prov_ep *ep);
int prov_cntr_add_mr(struct prov_cntr *cntr, struct prov_mr *mr);
void prov_cntr_remove_mr(struct prov_cntr *cntr, struct prov_mr *mr);
/* Progress; values and errors together. */
uint64_t prov_cntr_total(struct prov_cntr *cntr);
/* The next change rings the counter.  -FI_EAGAIN: nothing would; look again instead. */
int prov_cntr_arm(struct prov_cntr *cntr);
/* fi_trywait(): 0, or -FI_EAGAIN: do not sleep. */
int prov_cntr_try(struct prov_cntr *cntr);
/* Wakes who has armed it. */
void prov_cntr_ring(struct prov_cntr *cntr);
/* The same of all counters of regions, if one of them is armed. */
void prov_cntr_ring_regions(struct prov_domain *domain);

/* One more, or one error more. */
static inline void prov_cntr_count(struct prov_cntr *cntr, int error, uint64_t count)
{
    atomic_fetch_add(error == 0 ? &cntr->value : &cntr->errors, count);
    if (unlikely(atomic_load(&cntr->armed)))
        prov_cntr_ring(cntr);
}

/* An operation of ours, of that kind, has ended. */
static inline void prov_count_op(struct prov_ep *ep, enum prov_op_kind kind, int error)
{
    struct prov_cntr *cntr = ep->cntrs[(kind < PROV_OP_MULTI_QUEUED ? kind : PROV_OP_RECV) - 1];

    if (cntr != NULL)
        prov_cntr_count(cntr, error, 1);
}

/* ---- multi.c ------------------------------------------------------------------------- */

/* Must untagged receives of this endpoint wait there? */
static inline bool prov_multi_is_busy(const struct prov_ep *ep)
{
    return ep->multis != NULL || ep->multi_message != 0;
}

/* Puts a receive on the list; many: its buffer takes messages until it is full. */
int prov_multi_post(struct prov_ep *ep, struct prov_op *op, uint32_t source, void *buf,
                    size_t len, bool many);
/* Gives the receives on the list what has come for them. */
void prov_multi_pull(struct prov_ep *ep);

enum prov_multi_end {
    PROV_MULTI_STAYS,     /* the buffer is still in use */
    PROV_MULTI_RELEASED,  /* it is the client's again */
    PROV_MULTI_CANCELLED, /* and that is said by an event, for which there is room */
};
/* The message of this record has come; the record stays the caller's. */
enum prov_multi_end prov_multi_part_done(struct prov_ep *ep, struct prov_op *part);
/* 0 the receive is gone; -FI_EINPROGRESS PROV_MULTI_CANCELLED will be its end; -FI_ENOENT. */
int prov_multi_cancel(struct prov_ep *ep, struct prov_op *op);
/* The record of a sentinel has completed.  True: so its receive ends, and event says how. */
bool prov_multi_sentinel_done(struct prov_ep *ep, struct prov_op *sentinel, int error,
                              struct prov_event *event);
/* Is the buffer of this receive for many messages? */
bool prov_multi_is_many(const struct prov_op *op);
/* Of an endpoint that closes. */
void prov_multi_free(struct prov_op *op);

/* ---- endpoint.c ---------------------------------------------------------------------- */

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);
int prov_op_slab_add(struct prov_ep *ep);

/* ---- cancel.c ------------------------------------------------------------------------- */

/* The receives under way by context: from the first fi_cancel() on. */
void prov_index_add(struct prov_ep *ep, struct prov_op *op);
void prov_index_remove(struct prov_op *op);
ssize_t prov_cancel(fid_t fid, void *context);

/* An operation's record; NULL if memory is short.  Released by prov_op_put(). */
static inline struct prov_op *prov_op_get(struct prov_ep *ep)
{
    struct prov_op *op = ep->free_ops;

    if (unlikely(op == NULL)) {
        if (prov_op_slab_add(ep) < 0)
            return NULL;
        op = ep->free_ops;
    }
    ep->free_ops = op->next;
    op->plain = 0;
    return op;
}

static inline void prov_op_put(struct prov_ep *ep, struct prov_op *op)
{
    if (unlikely(op->same_at != NULL))
        prov_index_remove(op);
    op->kind = PROV_OP_FREE;
    op->next = ep->free_ops;
    ep->free_ops = op;
}

/* A send that is complete, and that no queue of Matchbox's tells of, joins those that are to be
 * reported; and the oldest of them, of which there is one, leaves them. */
static inline void prov_sent_add(struct prov_ep *ep, struct prov_op *op)
{
    op->next = NULL;
    *ep->sent_end = op;
    ep->sent_end = &op->next;
}

static inline struct prov_op *prov_sent_take(struct prov_ep *ep)
{
    struct prov_op *op = ep->sent;

    ep->sent = op->next;
    if (ep->sent == NULL)
        ep->sent_end = &ep->sent;
    return op;
}

/* Short of memory or requests: those that are under way free theirs as they
 * complete, so the client shall try again, and this is what moves them.  Also a call in
 * vain, see below. */
ssize_t prov_ep_again(struct prov_ep *ep, int err);
/* A call that the client will repeat has found or done nothing: as an empty read of a queue.
 * May give the endpoint's lock, and take it again. */
void prov_ep_in_vain(struct prov_ep *ep);

void prov_events_drop(struct prov_ep *ep); /* rma.c, see below */

/* Progress, of receives that multi.c matches, too. */
static inline int prov_ep_progress(struct prov_ep *ep)
{
    int moved = mbx_progress(ep->mbx);

    if (unlikely(prov_multi_is_busy(ep)))
        prov_multi_pull(ep);
    if (unlikely(ep->drops_events))
        prov_events_drop(ep);
    return moved;
}

/* ---- send.c, receive.c: the data operations; endpoint.c puts them into tables --------- */

ssize_t prov_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                   uint64_t tag, void *context);
ssize_t prov_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t dest, uint64_t tag, void *context);
ssize_t prov_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t prov_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                     uint64_t tag);
ssize_t prov_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                       uint64_t data, fi_addr_t dest, uint64_t tag, void *context);
ssize_t prov_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                         fi_addr_t dest, uint64_t tag);
ssize_t prov_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                  void *context);
ssize_t prov_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t dest, void *context);
ssize_t prov_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t prov_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest);
ssize_t prov_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                      fi_addr_t dest, void *context);
ssize_t prov_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                        fi_addr_t dest);

ssize_t prov_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                   uint64_t tag, uint64_t ignore, void *context);
ssize_t prov_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t src, uint64_t tag, uint64_t ignore, void *context);
ssize_t prov_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t prov_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                  void *context);
ssize_t prov_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t src, void *context);
ssize_t prov_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);

/* Total length, or -1 if the vector is not one that we take. */
ssize_t prov_iov_size(const struct iovec *iov, size_t count);

/* ---- mr.c ---------------------------------------------------------------------------- */

extern struct fi_ops_mr prov_mr_ops;
/* The regions of its domain are ep's from now on, and no longer. */
int prov_mr_join(struct prov_ep *ep);
void prov_mr_leave(struct prov_ep *ep);
/* Tells its counters of new accesses. */
void prov_mr_count(struct prov_mr *mr);

/* ---- rma.c, atomic.c ------------------------------------------------------------------- */

extern struct fi_ops_rma prov_rma_ops;
extern struct fi_ops_atomic prov_atomic_ops;
int prov_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                      struct fi_atomic_attr *attr, uint64_t flags);
/* A record for a one-sided call; its accesses are counted in parts as they begin.  NULL: no
 * memory. */
struct prov_op *prov_access_op(struct prov_ep *ep, enum prov_op_kind kind, void *context,
                               bool quiet, uint64_t flags);
/* All accesses of op have begun, or err says why the next has not.  What the call returns. */
ssize_t prov_access_begun(struct prov_ep *ep, struct prov_op *op, int err);
/* Remote CQ data for an endpoint without a queue for it is taken and forgotten. */
void prov_events_drop(struct prov_ep *ep);
/* A completion of MBX_ACCESS or MBX_EVENTS.  False: there is nothing to report. */
bool prov_access_event(struct prov_ep *ep, const struct mbx_completion *c,
                       struct prov_event *event);

/* ---- eq.c --------------------------------------------------------------------------- */

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                 void *context);

bool prov_eq_is_ready(struct prov_eq *eq);
/* What the provider itself has to say; if memory is short, fi_eq_readerr() says that something
 * was lost. */
void prov_eq_event(struct prov_eq *eq, uint32_t event, const void *entry, size_t size);
void prov_eq_error(struct prov_eq *eq, const struct fi_eq_err_entry *error);

/* ---- unsupported.c: complete tables and entries that answer -FI_ENOSYS --------------- */

extern struct fi_ops_rma prov_no_rma_ops;
extern struct fi_ops_atomic prov_no_atomic_ops;
extern struct fi_ops_collective prov_no_collective_ops;

int prov_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int prov_no_control(struct fid *fid, int command, void *arg);
int prov_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                     void *context);
int prov_no_tostr(const struct fid *fid, char *buf, size_t len);
int prov_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops,
                    void *context);
int prov_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                       void *context);
int prov_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                        void *context);
int prov_no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context);
int prov_no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx,
                    void *context);
int prov_no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                             struct fi_collective_attr *attr, uint64_t flags);

#endif
