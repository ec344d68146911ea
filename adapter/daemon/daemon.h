/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon.h - declarations that the files of the daemon share.
 *
 *   main.c       the process
 *   loop.c       the thread: looks for work, sleeps when there is none
 *   client.c     the applications, and their requests
 *   object.c     the objects of applications, by handle
 *   memory.c     regions, and access to the memory of an application
 *   cq.c         completions and events
 *   queue.c      receive queues: of a queue pair, or shared
 *   pair.c       queue pairs: creation and destruction
 *   qp.c         queue pair states
 *   request.c    requests in send queues
 *   requester.c  the sending side of a queue pair
 *   responder.c  the answering side of a queue pair
 *   tm.c         shared receive queues that match tags
 *   step.c       works piece by piece, for tests
 *   ud.c         datagrams
 *   wire.c       frames between hosts, over TCP; within a host a frame is a call
 *   beneath.c    the objects of an adapter beneath: here there is none
 *
 * The same files, without the adapter's own emulation (qp.c, requester.c, responder.c, step.c,
 * ud.c, wire.c, beneath.c and main.c), work over the queue pairs of another adapter:
 * adapter/over.
 *
 * A message is cut into frames of at most FRAME_DATA bytes.  The requester numbers its
 * requests; the responder takes them only in that order and answers with the number.  So a
 * frame that was lost with its connection, or refused because no receive was posted, is sent
 * again with all frames that follow it.
 */
#ifndef ADAPTER_DAEMON_H
#define ADAPTER_DAEMON_H

#include "adapter/abi.h"
#include "base/clock.h"
#include "base/list.h"

#include <infiniband/tm_types.h>

#define FRAME_DATA  (128u << 10)
#define SPIN_NS     (50 * CLOCK_US)  /* time without work until the daemon sleeps */
#define CROWDED_NS  (100 * CLOCK_MS) /* after waiting for a core, it does not spin */
#define NEVER       UINT64_MAX
#define HOST_ITSELF 0 /* an address: this host */

/* ---- objects ---- */

enum kind { KIND_PD = 1, KIND_MR, KIND_CHANNEL, KIND_CQ, KIND_SRQ, KIND_QP };

struct object {
    enum kind kind;
    uint32_t handle; /* 24 bits: index and generation; a queue pair's is its number */
    struct client *client;
    uint32_t users;   /* objects that refer to this one */
    struct list node; /* of the client */
};

struct client {
    struct list node;
    int sock, pidfd, doorbell_fd, async_fd;
    int32_t pid;
    struct adapter_page *page;
    uint64_t doorbell; /* the last value seen */
    struct list objects;
    struct list matching; /* shared receive queues that match tags */
    bool is_greeted, is_gone;
};

struct pd {
    struct object object;
    void *beneath; /* here and below: the object of the adapter beneath */
};

struct mr {
    struct object object;
    struct pd *pd;
    uint64_t addr, length, iova;
    uint32_t access;
    uint32_t lkey, rkey;
    void *beneath;
    struct list keyed; /* regions whose keys have the same hash */
};

struct channel {
    struct object object;
    int fd;
};

struct mapping {
    int fd; /* -1: it was passed to the client */
    void *base;
    size_t bytes;
};

struct tm_list;

struct cq {
    struct object object;
    struct channel *channel;
    uint64_t cookie;
    struct mapping memory;
    struct adapter_ring *ring;
    struct adapter_cqe *entries;
    uint32_t size;
    uint64_t tail;
    bool is_overrun;
    void *beneath;
};

/* Receives of a queue pair or of an SRQ. */
struct recv_queue {
    struct adapter_ring *ring; /* NULL: there is none */
    unsigned char *entries;
    uint32_t size, max_sge;
    size_t stride;
    uint64_t head;
};

/* A work request, copied out of its ring. */
struct recv_work {
    struct adapter_recv wr;
    struct ibv_sge sge[ADAPTER_SGE_MAX];
};

struct send_work {
    struct adapter_send wr;
    union {
        struct ibv_sge sge[ADAPTER_SGE_MAX];
        unsigned char data[ADAPTER_INLINE_MAX];
    };
};

struct srq {
    struct object object;
    struct pd *pd;
    uint64_t cookie;
    struct mapping memory;
    struct recv_queue queue;
    uint32_t limit;       /* 0: none */
    struct tm_list *tm;   /* NULL: it does not match tags */
    struct list matching; /* of the client */
    void *beneath;
};

/* An RDMA read or atomic that the responder is answering. */
struct read_job {
    uint32_t op, rkey;
    uint64_t addr, length, done;
    bool is_atomic;
    uint64_t result;
};

struct qp {
    struct object object;
    uint32_t number; /* the QP number for its peers */
    void *beneath;
    uint64_t cookie;
    struct pd *pd;
    struct cq *send_cq, *recv_cq;
    struct srq *srq;
    enum ibv_qp_type type;
    enum ibv_qp_state state;
    bool all_signaled;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr;
    uint32_t host; /* of the remote queue pair: HOST_ITSELF, or an IPv4 address */
    bool is_reachable;

    struct mapping memory;
    struct recv_queue recv;
    struct adapter_ring *send_ring;
    unsigned char *send_entries;
    uint32_t send_size;
    size_t send_stride;

    struct list run; /* on runnable: it has work */

    /* requester: requests [acked, next) have left; so have `sent` bytes of request next */
    uint64_t base; /* the index of the request with number sq_psn */
    uint64_t acked, next;
    uint64_t sent;
    uint64_t read_done; /* bytes that have come of the read at acked */
    uint32_t reads_out;
    uint64_t wait_until; /* nothing is sent until then; 0: no wait */
    uint64_t deadline;   /* for an answer of the other side; or NEVER */
    uint32_t retries, rnr_retries;

    /* responder */
    uint32_t expected; /* the number of the next request */
    bool is_receiving; /* a message has come in part */
    bool has_recv;
    struct recv_work recv_work;
    uint64_t received; /* bytes of the message so far */
    struct read_job jobs[ADAPTER_READS_MAX];
    uint32_t jobs_first, jobs_count;
    uint32_t owed; /* enum frame_type: an answer that follows these reads; 0: none */
    uint32_t owed_op, owed_status;
    uint32_t atomic_op; /* the last one, in case its request is repeated */
    uint64_t atomic_result;
    bool has_atomic;

    /* attached to a queue that matches tags: the adapter itself posts its requests */
    uint32_t tm_handle; /* the entry of a matched message while it arrives; or TM_NONE */
    bool tm_is_apart;   /* its MATCH has its own completion */
    struct ibv_tmh tmh;
};

#define TM_NONE UINT32_MAX

/* ---- frames ---- */

enum frame_type {
    FRAME_REQUEST = 1, /* SEND, WRITE, READ, atomics */
    FRAME_ACK,
    FRAME_ERROR, /* status: the result of the request */
    FRAME_RNR,   /* status: the timer */
    FRAME_LOST,  /* the queue pair does not exist, or does not receive */
    FRAME_DATA_OF_READ,
    FRAME_DATAGRAM,
    FRAME_TYPES
};

enum frame_flags { FRAME_FIRST = 1, FRAME_LAST = 2, FRAME_SOLICITED = 4, FRAME_GRH = 8 };

struct frame {
    uint32_t type, size; /* size of the data that follows */
    uint32_t to, from;   /* numbers of queue pairs */
    uint32_t op;         /* the request */
    uint32_t opcode, flags, imm;
    uint32_t rkey, status, qkey, slid;
    uint64_t total;  /* bytes of the message */
    uint64_t offset; /* of this data in the message */
    uint64_t remote_addr;
    uint64_t compare_add, swap;
    uint8_t sgid[16], dgid[16];
};

/* ---- the daemon ---- */

struct host {
    uint32_t address; /* IPv4, host byte order; 0: no wire */
    uint64_t guid;
    uint16_t lid;
    uint16_t port;
    char interface[ADAPTER_INTERFACE];
    uint32_t tags;
    uint32_t quirks; /* enum quirk */
    bool is_over;    /* works over another adapter, with its attributes */
    int32_t only;    /* the only process that it serves; 0: all of this user */
};

/* Permitted (or wrong) differences between adapters: MBX_ADAPTER_QUIRKS. */
enum quirk {
    QUIRK_PLAIN_RECV = 1,  /* recv: an unexpected message completes as IBV_WC_RECV */
    QUIRK_FIN_RECV = 2,    /* fin-recv: a FIN also completes as IBV_WC_RECV */
    QUIRK_SYNC = 4,        /* sync: completions carry IBV_WC_TM_SYNC_REQ needlessly */
    QUIRK_APART = 8,       /* apart: separate completions for match and data, for any size */
    QUIRK_EAGER_ONLY = 16, /* eager-only: no rendezvous */
    QUIRK_DAWDLE = 32,     /* dawdle: commands wait for random times */
    QUIRK_HASTY = 64,      /* hasty, wrong: appended entries are active at once */
    QUIRK_UNFENCED = 128   /* unfenced, wrong: a request with a fence does not wait for reads */
};

extern struct host host;
extern struct adapter_counters counters;
extern struct list clients, runnable;
extern unsigned char bounce[FRAME_DATA];

/* object.c */
int object_add(struct object *object, enum kind kind, struct client *client);
void object_remove(struct object *object);
void objects_forget(void); /* empties the table */
/* An object of this client and kind; or NULL. */
void *object_find(const struct client *client, enum kind kind, uint32_t handle);
/* An object of any client. */
void *object_any(enum kind kind, uint32_t handle);
/* Iterates over the objects of a kind: the one after *cursor, which starts at 0; or NULL. */
void *object_next(enum kind kind, uint32_t *cursor);

/* client.c */
void client_accept(int listener);
void client_serve(struct client *client); /* handles a request, or the end of the connection */
void client_end(struct client *client);
/* Writes the reason of a failure to the client's page. */
void client_say(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The client broke the rules of a ring: it is disconnected when this round is over. */
void client_broke(struct client *client, const char *what);
void client_event(struct client *client, enum ibv_event_type type, uint64_t cookie);
bool clients_are_gone(void);
/* Has the client's process ended?  If so, the client ends when this round is over. */
bool client_is_dead(struct client *client);

/* beneath.c: creates an object's counterpart in the adapter beneath; 0, or a negative errno.  A
 * region gets its keys there. */
int beneath_pd(struct pd *pd);
void beneath_pd_end(struct pd *pd);
int beneath_mr(struct mr *mr);
/* Re-registers mr as `changed`. */
int beneath_mr_change(struct mr *mr, const struct mr *changed, uint32_t flags);
void beneath_mr_end(struct mr *mr);
struct mr *beneath_mr_of_key(uint32_t lkey);
int beneath_cq(struct cq *cq);
void beneath_cq_end(struct cq *cq);
int beneath_srq(struct srq *srq, const struct ibv_srq_attr *attr);
void beneath_srq_end(struct srq *srq);
/* Sets the queue pair's number; on failure reply may have the reason. */
int beneath_qp(struct qp *qp, struct adapter_reply *reply);
/* Destroys the counterpart; its pending work ends. */
void beneath_qp_end(struct qp *qp);
/* 0: the adapter beneath handles the limit; -ENOSYS: the queue itself does. */
int beneath_srq_limit(struct srq *srq, uint32_t limit);
int beneath_query(const struct adapter_request *request, struct adapter_reply *reply);
/* Takes completions of the adapter beneath; were there any? */
bool beneath_poll(void);
/* Before a sleep: is the completion queue empty?  From now on a descriptor reports
 * completions. */
bool beneath_is_quiet(void);
/* Is the adapter beneath gone? */
bool beneath_is_lost(void);

/* memory.c */
int memory_map(struct mapping *mapping, const char *name, size_t bytes);
void memory_unmap(struct mapping *mapping);
int region_create(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply);
int region_change(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply);
/* NULL: the key does not allow this access to [addr, addr+length) within this domain; why has
 * the reason. */
const struct mr *region_find(const struct pd *pd, uint32_t key, uint64_t addr, uint64_t length,
                             uint32_t access, const char **why);
/* Copy between an application's memory and ours; 0, -EFAULT. */
int memory_read(const struct mr *mr, uint64_t addr, void *to, size_t size);
int memory_write(const struct mr *mr, uint64_t addr, const void *from, size_t size);
/* Copy the bytes [offset, offset+size) of a list; -EACCES: the keys do not allow it, why has
 * the reason. */
int gather(const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
           void *to, size_t size, const char **why);
int scatter(const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
            const void *from, size_t size, const char **why);
uint64_t sge_length(const struct ibv_sge *sge, uint32_t count);

/* cq.c */
int channel_create(struct client *client, int fd, struct adapter_reply *reply);
int cq_create(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply, int *fd);
void cq_push(struct cq *cq, const struct adapter_cqe *cqe, bool is_solicited);

/* queue.c */
int srq_create(struct client *client, const struct adapter_request *request,
               struct adapter_reply *reply, int *fd);
int srq_modify(struct client *client, const struct adapter_request *request,
               struct adapter_reply *reply);
int srq_query(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply);
void queue_init(struct recv_queue *queue, void *ring, uint32_t size, uint32_t max_sge);
/* Copies the oldest receive and removes it: 1; 0: there is none. */
int queue_take(struct recv_queue *queue, struct client *client, struct recv_work *work);
/* Discards all posted receives. */
void queue_empty(struct recv_queue *queue);
/* Takes a receive of the queue that this queue pair receives from. */
int qp_take_recv(struct qp *qp, struct recv_work *work);

/* pair.c */
int qp_create(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply, int *fd);
void qp_destroy(struct qp *qp);
void qp_wake(struct qp *qp); /* it has work */
bool qp_can_receive(const struct qp *qp);

/* qp.c */
int qp_modify(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply);
int qp_query(struct client *client, const struct adapter_request *request,
             struct adapter_reply *reply);
void qp_fail(struct qp *qp); /* to ERR: pending work is flushed */
void qp_run(struct qp *qp);  /* does some of its work */
void qp_flush(struct qp *qp);
void client_doorbell(struct client *client);
/* A queue pair waits until this moment. */
void qp_wait_until(uint64_t moment);
/* The earliest of these moments, or NEVER. */
uint64_t qps_wait_until(void);
void qps_look_at_clock(uint64_t now);

/* request.c */
uint64_t request_tail(struct qp *qp);
/* Copies and validates the request at index; false: there is none, or the client broke the
 * ring. */
bool request_read(struct qp *qp, uint64_t index, struct send_work *work);
uint64_t request_length(const struct send_work *work);
void request_complete(struct qp *qp, const struct send_work *work, enum ibv_wc_status status);

/* requester.c */
void requester_reset(struct qp *qp);
void requester_run(struct qp *qp);
void requester_answered(struct qp *qp, const struct frame *frame, const unsigned char *data);
void requester_clock(struct qp *qp, uint64_t now);
void requester_flush(struct qp *qp);
/* Sends all unanswered requests again. */
void requester_again(struct qp *qp);
bool requester_has_work(const struct qp *qp);

/* responder.c */
void responder_reset(struct qp *qp);
void responder_take(struct qp *qp, const struct frame *frame, const unsigned char *data);
void responder_run(struct qp *qp);
void responder_flush(struct qp *qp);

/* tm.c */
/* Reads these environment variables; an error was printed. */
int tm_read_environment(const char *tags_name, const char *quirks_name, const char *seed_name);
int tm_create(struct srq *srq, struct cq *cq, void *ring, uint32_t tags, uint32_t ops);
void tm_destroy(struct srq *srq);
/* Performs the commands that were posted. */
void tm_commands(struct srq *srq);
/* QUIRK_DAWDLE: performs more commands.  Are there more? */
bool tm_dawdle(void);
/* Performs one command of a list that has some. */
bool tm_has_commands(struct srq *srq);
void tm_command_once(struct srq *srq);
/* Makes the ring for requests that the adapter itself posts to a queue pair; it ends with the
 * queue pair. */
int tm_attach(struct qp *qp);
void tm_detach(struct qp *qp);
/* A message begins, a part of it has come, it is complete.  False: an answer was sent, or will
 * be. */
enum tm_begun { TM_REFUSED, TM_NOT_READY, TM_TOO_SHORT, TM_BEGUN };
enum tm_begun tm_begin(struct qp *qp, const struct frame *frame, const unsigned char *data);
int tm_land(struct qp *qp, const struct frame *frame, const unsigned char *data,
            const char **why);
void tm_end(struct qp *qp, const struct frame *frame, const unsigned char *data);
/* The rest of the message will never come. */
void tm_abandon(struct qp *qp, enum ibv_wc_status status);
/* A request that the adapter posted has ended. */
void tm_sent(struct qp *qp, const struct send_work *work, enum ibv_wc_status status);

/* step.c */
/* Held: the adapter does only the pieces that it is told to do, and its clock stands still. */
bool step_is_held(void);
/* Frames that a queue pair may send in its turn: `usual`, or fewer. */
uint32_t step_frames(uint32_t usual);
void step_client_ends(const struct client *client);
int step_perform(const struct client *client, const struct adapter_request *request,
                 struct adapter_reply *reply);

/* loop.c: has a client rung its doorbell?  Then its queue pairs have work. */
bool look_at_doorbells(void);
/* Works until the last client has gone. */
void work(int listener);

/* ud.c */
void ud_run(struct qp *qp);
void ud_take(struct qp *qp, const struct frame *frame, const unsigned char *data);

/* wire.c */
struct pollfd;
/* Finds this host's address, and listens; an error was printed. */
int wire_open(const char *interface);
void wire_close(void); /* sends what connections still hold */
/* The host that an address belongs to; false: none. */
bool wire_route(const struct adapter_address *to, uint32_t *address);
/* Sends a frame, or delivers it to a queue pair of this host.  False: it is lost. */
bool wire_send(uint32_t to, const struct frame *frame, const void *data);
/* Is there space for data to this host? */
bool wire_has_space(uint32_t to);
uint32_t wire_count(void); /* descriptors for poll() */
bool wire_is_open(void);   /* then the descriptors must be polled often */
void wire_fds(struct pollfd *fds);
void wire_serve(const struct pollfd *fds, uint32_t count);
/* A frame has arrived at this host. */
void frame_arrived(uint32_t from, const struct frame *frame, const unsigned char *data);

#endif
