/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h - the protocol between libmbx-adapter.so and the daemon mbx-adapter.
 *
 *   application                                            daemon
 *   libmbx-adapter.so ── requests, one at a time ───────>  client.c    (SOCK_SEQPACKET, abstract name)
 *                     <─ replies, with descriptors ──────
 *                     ── work requests ─────────────────>  rings in memfds that the daemon made
 *                     <─ completions ────────────────────  and sealed
 *                     ── doorbell ──────────────────────>  a counter in the client's page; an eventfd
 *                     <─ events ─────────────────────────  pipes: completion channels, async events
 *
 * Both halves come from one build: the first request compares the sizes of the structures.  A
 * ring has one producer and one consumer.  Its indices count up without wrapping, and each side
 * validates the other side's index before use: the daemon never trusts the contents of a ring,
 * and copies an entry before it looks at it.
 *
 * There is one daemon for each network namespace, user, and value of MBX_ADAPTER_NAME.  Its socket has an abstract
 * name; each network namespace has its own abstract names.
 */
#ifndef ADAPTER_ABI_H
#define ADAPTER_ABI_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"

/* Glossary: software adapter - an RDMA adapter in a process, with the interface of libibverbs;
 * not the software device */
#define ADAPTER_VERSION 1

/* Environment variables that both halves read (docs/contributing/adapter.md). */
#define ADAPTER_ENV_NAME      "MBX_ADAPTER_NAME"
#define ADAPTER_ENV_INTERFACE "MBX_ADAPTER_INTERFACE"
#define ADAPTER_ENV_PORT      "MBX_ADAPTER_PORT"
#define ADAPTER_ENV_PROGRAM   "MBX_ADAPTER_PROGRAM"
#define ADAPTER_ENV_STATS     "MBX_ADAPTER_STATS_FILE"
#define ADAPTER_ENV_LOG       "MBX_ADAPTER_LOG"
#define ADAPTER_ENV_CPU       "MBX_ADAPTER_CPU"
#define ADAPTER_ENV_TAGS      "MBX_ADAPTER_TAGS"
#define ADAPTER_ENV_QUIRKS    "MBX_ADAPTER_QUIRKS"
#define ADAPTER_ENV_SEED      "MBX_ADAPTER_SEED"
#define ADAPTER_ENV_DEVICES   "MBX_ADAPTER_DEVICES"

/* A list that matches tags: a message that matches nothing needs an untagged buffer, and the
 * queue does not work before it has had ADAPTER_UNTAGGED_MIN (as on mlx5: XRQ_MIN_UWQ_POST). */
#define ADAPTER_TAGS_USUAL   127
#define ADAPTER_TAGS_MAX     4095
#define ADAPTER_UNTAGGED_MIN 33
#define ADAPTER_RNDV_MAX     64 /* bytes of a rendezvous message: its headers, and more */

#define ADAPTER_SGE_MAX      16
#define ADAPTER_INLINE_MAX   256
#define ADAPTER_WR_MAX       16384
#define ADAPTER_CQE_MAX      (1 << 20)
#define ADAPTER_READS_MAX    16 /* RDMA reads and atomics in flight, of a queue pair */
#define ADAPTER_MESSAGE_MAX  (UINT32_C(1) << 30)
#define ADAPTER_MTU          4096
#define ADAPTER_GRH          40
#define ADAPTER_OBJECTS_MAX  65535
#define ADAPTER_PKEY         0xffff
#define ADAPTER_TEXT_MAX     200
#define ADAPTER_INTERFACE    16

/* Fills in the address of the daemon's socket; returns its size. */
static inline socklen_t adapter_address(struct sockaddr_un *address)
{
    const char *name = environ_get(ADAPTER_ENV_NAME);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* abstract names begin with a zero */
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "matchbox-adapter-%u%s%.64s",
             (unsigned)geteuid(), name != NULL ? "-" : "", name != NULL ? name : "");
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       strlen(address->sun_path + 1));
}

/* ---- rings ---- */

/* The header of a ring.  A cache line for each side. */
struct adapter_ring {
    _Atomic uint64_t tail;  /* written by the producer */
    _Atomic uint32_t armed; /* completions: enum adapter_arm, by both */
    char apart[CACHE_APART - 12];
    _Atomic uint64_t head; /* written by the consumer */
    char apart_too[CACHE_APART - 8];
};
static_assert(sizeof(struct adapter_ring) == (size_t)2 * CACHE_APART, "no hole");

enum adapter_arm { ADAPTER_NOT_ARMED, ADAPTER_ARMED_SOLICITED, ADAPTER_ARMED };

/* The destination of a datagram or a connection. */
struct adapter_address {
    uint8_t gid[16];
    uint16_t lid;
    uint8_t is_global, sl;
    uint8_t port, sgid_index, hop_limit, traffic_class;
    uint32_t flow_label;
};

/* A send queue's entry; num_sge struct ibv_sge, or the inline data, follow it. */
struct adapter_send {
    uint64_t wr_id;
    uint32_t opcode; /* enum ibv_wr_opcode */
    uint32_t flags;  /* enum ibv_send_flags */
    uint32_t imm;
    uint32_t num_sge;
    uint32_t inline_size; /* with IBV_SEND_INLINE */
    uint32_t rkey;
    uint64_t remote_addr;
    uint64_t compare_add, swap;
    uint32_t remote_qpn, remote_qkey;
    struct adapter_address to;
};

/* A receive queue's entry; num_sge struct ibv_sge follow it. */
struct adapter_recv {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t reserved;
};

struct adapter_cqe {
    uint64_t wr_id;
    uint32_t status, opcode, vendor_err, byte_len;
    uint32_t imm, qp_num, src_qp, flags;
    uint64_t timestamp_ns;
    uint64_t tag;
    uint32_t app_ctx;
    uint16_t slid;
    uint8_t sl;
    uint8_t releases; /* how many of the handle's expected completions this one ends */
    uint32_t srq;     /* with tag matching: its number, and the handle */
    uint32_t handle;
    uint64_t commands; /* performed by that queue so far; 0: not the completion of a command */
};

/* An operation on a matching list. */
struct adapter_command {
    uint64_t wr_id, recv_wr_id, tag, mask;
    struct ibv_sge sge;
    uint32_t opcode, flags, unexpected, handle; /* enum ibv_ops_wr_opcode, enum ibv_ops_flags */
};

static inline size_t adapter_send_stride(uint32_t max_sge, uint32_t max_inline)
{
    return sizeof(struct adapter_send) +
           round_up(max_size(max_sge * sizeof(struct ibv_sge), max_inline), 8);
}

static inline size_t adapter_recv_stride(uint32_t max_sge)
{
    return sizeof(struct adapter_recv) + max_sge * sizeof(struct ibv_sge);
}

static inline size_t adapter_ring_bytes(uint32_t count, size_t stride)
{
    return round_up(sizeof(struct adapter_ring) + count * stride, 4096);
}

/* The page of a client, in a memfd of its own. */
struct adapter_page {
    _Atomic uint64_t doorbell; /* counts what was posted */
    char apart[CACHE_APART - 8];
    _Atomic uint32_t sleeps;     /* the daemon sleeps: a doorbell also needs the eventfd */
    _Atomic uint32_t said;       /* how many texts there have been */
    char text[ADAPTER_TEXT_MAX]; /* the last text: why something ended with an error */
};

/* ---- requests ---- */

enum adapter_op {
    ADAPTER_HELLO = 1,
    ADAPTER_ALLOC_PD,
    ADAPTER_REG_MR,
    ADAPTER_REREG_MR,
    ADAPTER_CREATE_CHANNEL, /* with the writing end of a pipe */
    ADAPTER_CREATE_CQ,
    ADAPTER_CREATE_SRQ,
    ADAPTER_MODIFY_SRQ,
    ADAPTER_QUERY_SRQ,
    ADAPTER_CREATE_QP,
    ADAPTER_MODIFY_QP,
    ADAPTER_QUERY_QP,
    ADAPTER_DESTROY, /* the object of handle, of any kind */
    ADAPTER_COUNTERS,
    ADAPTER_STEP,  /* holds the adapter, steps it, or ends the hold (step.c) */
    ADAPTER_QUERY, /* attributes of the adapter beneath */
    ADAPTER_OPS
};

/* The counters; ADAPTER_COUNTERS returns all of them. */
#define ADAPTER_COUNTERS_OF(X)                                                                 \
    X(sends)                                                                                   \
    X(sends_past_reads)                                                                        \
    X(rdma_writes)                                                                             \
    X(rdma_reads)                                                                              \
    X(atomics)                                                                                 \
    X(datagrams)                                                                               \
    X(datagrams_dropped)                                                                       \
    X(bytes_sent)                                                                              \
    X(rnr_naks)                                                                                \
    X(retries)                                                                                 \
    X(retries_exceeded)                                                                        \
    X(access_errors)                                                                           \
    X(completions)                                                                             \
    X(wire_frames_out)                                                                         \
    X(wire_frames_in)                                                                          \
    X(tm_matched_eager)                                                                        \
    X(tm_matched_rndv)                                                                         \
    X(tm_unexpected)                                                                           \
    X(tm_no_tag)                                                                               \
    X(tm_incomplete)                                                                           \
    X(tm_fins)

struct adapter_counters {
#define ADAPTER_COUNTER(name) uint64_t name;
    ADAPTER_COUNTERS_OF(ADAPTER_COUNTER)
#undef ADAPTER_COUNTER
};

enum adapter_query {
    ADAPTER_QUERY_DEVICE = 1,
    ADAPTER_QUERY_PORT,
    ADAPTER_QUERY_GID,
    ADAPTER_QUERY_PKEY
};

struct adapter_request {
    uint32_t op;
    uint32_t handle;
    union {
        struct {
            uint32_t version, size_request, size_reply, size_send;
            char interface[ADAPTER_INTERFACE]; /* "": no wire to other hosts */
        } hello;
        struct {
            uint64_t addr, length, iova;
            uint32_t pd, access;
            uint32_t flags; /* REREG: enum ibv_rereg_mr_flags */
        } mr;
        struct {
            uint64_t cookie;
            uint32_t cqe, channel;
        } cq;
        struct {
            uint64_t cookie;
            uint32_t pd, mask;
            struct ibv_srq_attr attr;
            uint32_t cq, tags, ops; /* tags 0: no tag matching */
        } srq;
        struct {
            uint64_t cookie;
            uint32_t pd, send_cq, recv_cq, srq;
            struct ibv_qp_cap cap;
            uint32_t type, all_signaled;
        } qp;
        struct {
            uint32_t mask;
            struct ibv_qp_attr attr;
        } modify;
        struct {
            uint32_t what, port, index; /* enum adapter_query */
        } query;
        struct {
            uint32_t hold;  /* 1: holds the adapter; 0: ends the hold */
            uint32_t count; /* pieces to do first, in an order drawn from seed; 0 unless held */
            uint64_t seed;
        } step;
    };
};

struct adapter_reply {
    int32_t error; /* 0, or a positive errno */
    uint32_t handle;
    char text[ADAPTER_TEXT_MAX]; /* the reason of an error, or "" */
    union {
        struct {
            uint64_t guid; /* host byte order */
            uint16_t lid;
            uint32_t pid;
            uint32_t tags; /* 0: no tag matching */
            uint32_t has_rendezvous;
            uint32_t is_over; /* works over another adapter: ADAPTER_QUERY */
        } hello;              /* comes with the page and the eventfd */
        struct {
            uint64_t send_offset, recv_offset,
                bytes; /* with tag matching: send_offset of commands */
            uint32_t entries;
            uint32_t number; /* of a queue pair */
            struct ibv_qp_cap cap;
        } ring; /* comes with the memfd */
        struct ibv_srq_attr srq;
        struct {
            struct ibv_qp_attr attr;
        } qp;
        struct {
            uint32_t lkey, rkey;
        } mr;
        struct ibv_device_attr device;
        struct ibv_port_attr port;
        struct {
            uint8_t raw[16];
            uint32_t type, interface;
        } gid;
        uint16_t pkey; /* in the byte order of verbs.h */
        struct adapter_counters counters;
        uint32_t done; /* pieces done; fewer than requested: there were no more */
    };
};

/* The events in the pipes. */
struct adapter_completion_event {
    uint64_t cookie; /* of the completion queue */
};

struct adapter_async_event {
    uint32_t type; /* enum ibv_event_type */
    uint32_t reserved;
    uint64_t cookie; /* of the queue pair, completion queue or shared receive queue */
};

#endif
