/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * over.h - tag matching over the queue pairs of an adapter that has none: shared declarations.
 *
 *   helper.c    the process that matches
 *   beneath.c   the adapter beneath, and its counterpart of each object of a program
 *   pairs.c     queue pairs: passes requests down and completions up
 *   inlet.c     a matching list: receives into its own buffers, and gives messages to tm.c
 *
 * The files of adapter/library and adapter/daemon also serve the adapter that is emulated
 * completely.  Here each protection domain, region, completion queue, receive queue and queue
 * pair has a counterpart of the same size in the adapter beneath.  Keys and numbers are the
 * counterpart's, so a peer needs nothing of this library.
 *
 *   program ── rings ──> helper ── ibv_post_*, ibv_poll_cq ──> the other adapter
 *                          └── tm.c: the tag list, received messages, READ and FIN
 */
#ifndef ADAPTER_OVER_OVER_H
#define ADAPTER_OVER_OVER_H

#include "adapter/daemon/daemon.h"

#define OVER_ENV_LIBRARY "MBX_ADAPTER_OVER_LIBRARY"
#define OVER_ENV_DEVICE  "MBX_ADAPTER_OVER_DEVICE"
#define OVER_ENV_LIST    "MBX_ADAPTER_OVER_TAGS"
#define OVER_ENV_QUIRKS  "MBX_ADAPTER_OVER_QUIRKS"
#define OVER_ENV_SEED    "MBX_ADAPTER_OVER_SEED"
#define OVER_ENV_EAGER   "MBX_ADAPTER_OVER_EAGER"
#define OVER_ENV_STATS   "MBX_ADAPTER_OVER_STATS_FILE"
#define OVER_ENV_THREAD  "MBX_ADAPTER_OVER_THREAD"

#define LIBRARY_USUAL    "libibverbs.so.1"
#define EAGER_USUAL      (64u << 10)
#define EAGER_LEAST      1024u
#define EAGER_MOST       (1u << 20)
#define BUFFERS          256 /* of a list: for messages that were not matched yet */

/* verbs.h wraps these in macros of the same name */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* The functions of libibverbs that are called beneath. */
#define OVER_CALLS(X)                                                                          \
    X(get_device_list)                                                                         \
    X(free_device_list)                                                                        \
    X(get_device_name)                                                                         \
    X(open_device)                                                                             \
    X(close_device)                                                                            \
    X(query_device)                                                                            \
    X(query_gid)                                                                               \
    X(query_pkey)                                                                              \
    X(alloc_pd)                                                                                \
    X(dealloc_pd)                                                                              \
    X(reg_mr)                                                                                  \
    X(reg_mr_iova2)                                                                            \
    X(rereg_mr)                                                                                \
    X(dereg_mr)                                                                                \
    X(create_comp_channel)                                                                     \
    X(destroy_comp_channel)                                                                    \
    X(get_cq_event)                                                                            \
    X(ack_cq_events)                                                                           \
    X(create_cq)                                                                               \
    X(destroy_cq)                                                                              \
    X(create_srq)                                                                              \
    X(modify_srq)                                                                              \
    X(destroy_srq)                                                                             \
    X(create_qp)                                                                               \
    X(modify_qp)                                                                               \
    X(query_qp)                                                                                \
    X(destroy_qp)                                                                              \
    X(create_ah)                                                                               \
    X(destroy_ah)                                                                              \
    X(get_async_event)                                                                         \
    X(ack_async_event)

struct over_calls {
#define OVER_CALL(name) __typeof__(&ibv_##name) name;
    OVER_CALLS(OVER_CALL)
#undef OVER_CALL
};

/* A completion queue of the adapter beneath. */
struct outlet {
    struct ibv_cq *cq;
    struct cq *of;       /* the program's queue that gets its completions; or NULL */
    struct inlet *inlet; /* or the list whose messages complete here */
    struct list node;    /* of all */
};

struct over {
    void *library;
    struct over_calls calls;
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    struct ibv_device_attr device;
    uint32_t eager; /* the longest message that a list receives */
    bool is_lost;
};

extern struct over over;

/* beneath.c */
void *over_library(void); /* a handle of dlopen(); or NULL */
/* Loads libibverbs and opens the adapter; 0, or a negative errno, after printing the reason. */
int over_open(void);
void over_close(void);
int outlet_open(struct outlet *outlet, uint32_t size);
void outlet_close(struct outlet *outlet);
/* Takes the completions that are there, once; were there any? */
bool outlet_poll(struct outlet *outlet);

/* A shared receive queue beneath, and a receive that waits for space there. */
struct shared {
    struct ibv_srq *srq;
    struct srq *of;
    struct list node; /* of all */
    bool has_recv;
    struct recv_work recv;
};

/* pairs.c */
void pairs_reset(void); /* forgets all queue pairs */
struct qp *pair_of_number(uint32_t number);
struct ibv_qp *pair_beneath(const struct qp *qp);
void pair_completed(struct cq *cq, struct qp *qp, const struct ibv_wc *wc);
/* Something has completed: retries requests that wait for space. */
void pairs_have_space(void);

/* inlet.c */
struct inlet;
/* Creates the queue that the list's queue pairs receive from, and their completion queue. */
int inlet_open(struct srq *srq);
void inlet_close(struct srq *srq);
struct ibv_srq *inlet_srq(const struct srq *srq);
struct ibv_cq *inlet_cq(const struct srq *srq);
/* A completion of one of the list's queue pairs; qp NULL: the queue pair is gone. */
void inlet_completed(struct inlet *inlet, struct qp *qp, const struct ibv_wc *wc);
/* A queue pair ends: handles all completions that are there. */
void inlet_drain(struct inlet *inlet);
struct inlet *inlet_of(const struct srq *srq);
/* Retries messages that could not be taken before. */
void inlet_try_again(struct srq *srq);
/* A queue pair ends: drops its received messages that were not taken. */
void inlet_forget(struct qp *qp);

#define WR_IS_BUFFER (UINT64_C(1) << 63) /* a list's receive: wr_id, with the index */

#endif
