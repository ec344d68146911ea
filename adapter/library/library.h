/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.h - declarations that the files of libmbx-adapter.so share.
 *
 *   program ── verbs.h ──> device.c, memory.c, cq.c, queue.c, qp.c, qp_ex.c, events.c
 *                              │ tables of verbs.h, and functions with the names of libibverbs
 *                              v
 *                          control.c: requests to the daemon; starts it if there is none
 *
 * Each structure begins with the structure of verbs.h that the program knows.  Posting and
 * polling touch only shared memory; everything else is a request and a reply.
 */
#ifndef ADAPTER_LIBRARY_LIBRARY_H
#define ADAPTER_LIBRARY_LIBRARY_H

#include "adapter/abi.h"
#include "base/list.h"

/* verbs.h wraps these in macros of the same name */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define API             __attribute__((visibility("default")))

#define LIB_DEVICE_NAME "mbx"
#define LIB_VENDOR      0x4d4258 /* "MBX" */

struct lib_context {
    struct verbs_context verbs;
    int sock, doorbell_fd;
    struct adapter_page *page;
    pthread_mutex_t lock; /* of requests */
    _Atomic bool is_lost; /* the adapter is gone */
    uint32_t said;        /* how many of its texts were printed */
    uint64_t guid;
    uint16_t lid;
    pid_t pid; /* of the daemon */
    uint32_t tags;
    bool has_rendezvous;
    bool is_over; /* works over another adapter, with its attributes */
};

struct lib_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    };
    pthread_mutex_t lock;
    struct adapter_ring *ring;
    struct adapter_cqe *entries;
    size_t bytes;
    uint32_t size, empties;
    uint64_t head;
    struct adapter_cqe now;   /* current completion of the extended interface */
    struct lib_srq *matching; /* matching queues that complete here, linked by next */
    uint32_t told;            /* completion events that the program got */
    struct list live;
};

struct lib_channel {
    struct ibv_comp_channel channel;
    uint32_t handle;
};

/* The producer's half of a ring. */
struct lib_ring {
    struct adapter_ring *ring;
    unsigned char *entries;
    uint32_t size;
    size_t stride;
    uint64_t tail;
};

struct lib_srq {
    struct ibv_srq srq;
    pthread_mutex_t lock;
    void *memory;
    size_t bytes;
    struct lib_ring recv;
    uint32_t max_sge;
    struct list live;
    /* tag matching */
    struct lib_cq *cq; /* NULL: it does not match tags */
    struct lib_srq *next;
    struct lib_ring commands;
    uint64_t performed; /* commands whose completion was polled */
    uint32_t tags;
    uint8_t *expected; /* [tags] by handle: completions that can still name it; 0: free */
};

struct lib_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex ex;
    };
    pthread_mutex_t send_lock, recv_lock;
    void *memory;
    size_t bytes;
    struct lib_ring send, recv;
    struct ibv_qp_cap cap;
    bool all_signaled, has_ex;
    struct ibv_qp_init_attr init;
    /* wr_start() to wr_complete() */
    struct adapter_send *building; /* the request under construction, in the ring */
    uint64_t built;                /* the tail after wr_complete() */
    int error;
    struct list live;
};

struct lib_ah {
    struct ibv_ah ah;
    struct adapter_address to;
};

static inline struct lib_context *lib_context(struct ibv_context *context)
{
    return container_of(context, struct lib_context, verbs.context);
}

/* ---- control.c ---- */

/* Connects, and starts the daemon if there is none; 0, or errno. */
int control_open(struct lib_context *context);
void control_close(struct lib_context *context);
/* 0, or errno.  fds: the descriptors of the reply, or -1; may be NULL.  given: a descriptor to
 * send, or -1. */
int control(struct lib_context *context, const struct adapter_request *request,
            struct adapter_reply *reply, int given, int fds[2]);
int control_destroy(struct ibv_context *context, uint32_t handle);
/* Rings the doorbell, and wakes the daemon if it sleeps. */
void control_ring(struct lib_context *context);
/* Is the adapter gone?  Checks the connection. */
bool control_is_lost(struct lib_context *context);
/* Prints the adapter's error texts since the last call. */
void control_complain(struct lib_context *context);
/* ADAPTER_QUERY: 0, or errno. */
int control_query(struct ibv_context *context, enum adapter_query what, uint32_t port,
                  uint32_t index, struct adapter_reply *reply);
/* Maps the memory of a reply. */
void *control_map(int fd, size_t bytes);

/* reach.c, or over/helper.c: connects to the daemon or helper; the caller holds the lock of
 * connections. */
int reach_connect(void); /* a socket, or -1: there is none */
int reach_start(void);   /* 0, or errno */
/* Lets the process access our memory: 0, or errno. */
int reach_allow(int sock);
/* A connection to the process has been made, or has ended. */
void reach_opened(void);
void reach_closed(pid_t pid);

/* If this library is loaded in front of libibverbs and libibverbs is used beneath
 * (adapter/over), internal calls of libibverbs and its drivers also come here, with objects
 * that they have opened.  They are passed on to libibverbs' function of that name (NULL: there
 * is none). */
void *reach_foreign(const char *name);

/* device.c */
bool lib_device_is_own(const struct ibv_device *which);
static inline bool lib_is_own(const struct ibv_context *context)
{
    return lib_device_is_own(context->device);
}

/* events.c: an event may name an object that has been destroyed meanwhile. */
void live_add(struct list *live);
void live_remove(struct list *live);

/* ---- the tables of verbs.h ---- */

struct ibv_cq_ex *lib_create_cq_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr);
int lib_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
void lib_clean_cq(struct ibv_cq *cq, uint32_t qp_num);
int lib_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_srq *lib_create_srq_ex(struct ibv_context *context,
                                  struct ibv_srq_init_attr_ex *attr);
/* The adapter itself uses the send queue of a queue pair whose SRQ matches tags. */
static inline bool lib_is_matching(struct ibv_srq *srq)
{
    return srq != NULL && container_of(srq, struct lib_srq, srq)->cq != NULL;
}
int lib_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
/* A completion of a matching queue was polled; the caller holds the lock of the CQ. */
void lib_tm_polled(struct lib_cq *cq, const struct adapter_cqe *cqe);
void lib_tm_begin(struct lib_srq *srq, struct ibv_cq *cq, const struct adapter_request *request,
                  void *commands);
void lib_tm_end(struct lib_srq *srq);
int lib_get_srq_num(struct ibv_srq *srq, uint32_t *number);
int lib_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *lib_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int lib_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int lib_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* queue.c: posts receives into a ring; the caller holds the lock. */
void ring_init(struct lib_ring *ring, void *memory, uint32_t size, size_t stride);
bool ring_has_space(const struct lib_ring *ring, uint64_t tail);
int ring_post_recv(struct lib_ring *ring, uint32_t max_sge, struct ibv_recv_wr *wr,
                   struct ibv_recv_wr **bad);

/* qp_ex.c */
void qp_ex_fill(struct lib_qp *qp);

#endif
