/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon.h - what the files of the daemon share.
 *
 *   main.c       the process
 *   loop.c       one thread: looks for work, sleeps when there is none
 *   client.c     the applications, and their requests
 *   object.c     what they made, by handle
 *   memory.c     regions, and access to the memory of an application
 *   cq.c         completions and events
 *   queue.c      receive queues: of a queue pair, or shared
 *   pair.c       queue pairs: how they are made and end
 *   qp.c         their states
 *   request.c    what was posted to a send queue
 *   requester.c  what a queue pair sends
 *   responder.c  what it answers
 *   tm.c         shared receive queues that match tags
 *   step.c       works piece by piece, for tests
 *   ud.c         datagrams
 *   wire.c       frames between hosts, over TCP; within a host a frame is a call
 *   beneath.c    what is beneath the objects: here nothing
 *
 * Without the adapter's own emulation (qp.c, requester.c, responder.c, step.c, ud.c, wire.c, beneath.c and
 * main.c) the same files serve over the queue pairs of another adapter: adapter/over.
 *
 * A message is cut into frames of at most FRAME_DATA bytes.  The requester numbers its requests,
 * the responder takes them in that order alone and answers with the number, so a frame that is
 * lost with its connection, or refused because no receive was posted, is sent again with all that
 * follow it.
 */
#ifndef ADAPTER_DAEMON_H
#define ADAPTER_DAEMON_H

#include "adapter/abi.h"
#include "base/clock.h"
#include "base/list.h"

#include <infiniband/tm_types.h>

#define FRAME_DATA  (128u << 10)
#define SPIN_NS     (50 * CLOCK_US)  /* without work, until the daemon sleeps */
#define CROWDED_NS  (100 * CLOCK_MS) /* in which it sleeps at once, having waited for a core */
#define NEVER       UINT64_MAX
#define HOST_ITSELF 0 /* as an address: this host */

/* ---- objects ---- */

enum kind { KIND_PD = 1, KIND_MR, KIND_CHANNEL, KIND_CQ, KIND_SRQ, KIND_QP };

struct object {
    enum kind kind;
    uint32_t handle; /* 24 bits: index and generation; a queue pair's is its number */
    struct client *client;
    uint32_t users;   /* objects that name this one */
    struct list node; /* of the client */
};

struct client {
    struct list node;
    int sock, pidfd, doorbell_fd, async_fd;
    int32_t pid;
    struct adapter_page *page;
    uint64_t doorbell; /* seen */
    struct list objects;
    struct list matching; /* shared receive queues that match tags */
    bool is_greeted, is_gone;
};

struct pd {
    struct object object;
    void *beneath; /* here and below: what another adapter has for it */
};

struct mr {
    struct object object;
    struct pd *pd;
    uint64_t addr, length, iova;
    uint32_t access;
    uint32_t lkey, rkey;
    void *beneath;
    struct list keyed; /* of those whose key has the same hash */
};

struct channel {
    struct object object;
    int fd;
};

struct mapping {
    int fd; /* -1: it was given away */
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

/* A work request as it was copied out of its ring. */
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
    struct tm_list *tm;   /* NULL: it matches nothing */
    struct list matching; /* of the client */
    void *beneath;
};

/* An RDMA read or atomic that a responder answers. */
struct read_job {
    uint32_t op, rkey;
    uint64_t addr, length, done;
    bool is_atomic;
    uint64_t result;
};

struct qp {
    struct object object;
    uint32_t number; /* by which its peers know it */
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
    uint32_t host; /* of the other queue pair; HOST_ITSELF, or an IPv4 address */
    bool is_reachable;

    struct mapping memory;
    struct recv_queue recv;
    struct adapter_ring *send_ring;
    unsigned char *send_entries;
    uint32_t send_size;
    size_t send_stride;

    struct list run; /* there is something to do */

    /* requester: [acked, next) have left; of next, sent bytes have */
    uint64_t base; /* where the numbers of requests begin, with sq_psn */
    uint64_t acked, next;
    uint64_t sent;
    uint64_t read_done; /* bytes, of the read at acked */
    uint32_t reads_out;
    uint64_t wait_until; /* 0: nothing is waited for; nothing is sent */
    uint64_t deadline;   /* the other side has to answer; NEVER */
    uint32_t retries, rnr_retries;

    /* responder */
    uint32_t expected; /* the number of the next request */
    bool is_receiving; /* a message that is not whole */
    bool has_recv;
    struct recv_work recv_work;
    uint64_t received; /* bytes of it */
    struct read_job jobs[ADAPTER_READS_MAX];
    uint32_t jobs_first, jobs_count;
    uint32_t owed; /* enum frame_type, an answer behind these reads; 0: none */
    uint32_t owed_op, owed_status;
    uint32_t atomic_op; /* the last, for a request that comes again */
    uint64_t atomic_result;
    bool has_atomic;

    /* attached to a queue that matches: its requests are the adapter's */
    uint32_t tm_handle; /* the entry that a message has matched, while it arrives; TM_NONE */
    bool tm_is_apart;   /* its match was told */
    struct ibv_tmh tmh;
};

#define TM_NONE UINT32_MAX

/* ---- frames ---- */

enum frame_type {
    FRAME_REQUEST = 1, /* SEND, WRITE, READ, atomics */
    FRAME_ACK,
    FRAME_ERROR, /* status: how the request ends */
    FRAME_RNR,   /* status: the timer */
    FRAME_LOST,  /* there is no such queue pair, or it does not receive */
    FRAME_DATA_OF_READ,
    FRAME_DATAGRAM,
    FRAME_TYPES
};

enum frame_flags { FRAME_FIRST = 1, FRAME_LAST = 2, FRAME_SOLICITED = 4, FRAME_GRH = 8 };

struct frame {
    uint32_t type, size; /* of the data behind */
    uint32_t to, from;   /* numbers of queue pairs */
    uint32_t op;         /* the request */
    uint32_t opcode, flags, imm;
    uint32_t rkey, status, qkey, slid;
    uint64_t total;  /* bytes of the message */
    uint64_t offset; /* of this data in it */
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
    bool is_over;    /* another adapter, whose attributes it has */
    int32_t only;    /* the one process that it serves; 0: any of this user */
};

/* What adapters may do differently: MBX_ADAPTER_QUIRKS. */
enum quirk {
    QUIRK_PLAIN_RECV = 1, /* recv: an unexpected message completes as IBV_WC_RECV */
    QUIRK_FIN_RECV = 2,   /* fin-recv: a FIN at such a queue, too */
    QUIRK_SYNC = 4,       /* sync: it is asked to synchronise without need */
    QUIRK_APART = 8, /* apart: match and data are told apart, however short the message is */
    QUIRK_EAGER_ONLY = 16, /* eager-only: no rendezvous */
    QUIRK_DAWDLE = 32,     /* dawdle: commands wait, as long as chance says */
    QUIRK_HASTY = 64,      /* hasty, and wrong: an entry matches at once, whatever was found */
    QUIRK_UNFENCED = 128   /* unfenced, and wrong: a request with a fence waits for no read */
};

extern struct host host;
extern struct adapter_counters counters;
extern struct list clients, runnable;
extern unsigned char bounce[FRAME_DATA];

/* object.c */
int object_add(struct object *object, enum kind kind, struct client *client);
void object_remove(struct object *object);
void objects_forget(void); /* there are none */
/* Of this client and kind; NULL. */
void *object_find(const struct client *client, enum kind kind, uint32_t handle);
/* Of anybody. */
void *object_any(enum kind kind, uint32_t handle);
/* Every object of a kind: the next behind *cursor, which begins with 0; NULL. */
void *object_next(enum kind kind, uint32_t *cursor);

/* client.c */
void client_accept(int listener);
void client_serve(struct client *client); /* a request, or its end */
void client_end(struct client *client);
/* Says in the client's page why something failed. */
void client_say(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* It broke the rules of a ring: it is disconnected when this round is over. */
void client_broke(struct client *client, const char *what);
void client_event(struct client *client, enum ibv_event_type type, uint64_t cookie);
bool clients_are_gone(void);
/* Has its process ended?  It ends when this round is over. */
bool client_is_dead(struct client *client);

/* beneath.c: what an object needs of another adapter; 0, or a negative errno.  A region gets its keys there. */
int beneath_pd(struct pd *pd);
void beneath_pd_end(struct pd *pd);
int beneath_mr(struct mr *mr);
/* `changed` replaces it. */
int beneath_mr_change(struct mr *mr, const struct mr *changed, uint32_t flags);
void beneath_mr_end(struct mr *mr);
struct mr *beneath_mr_of_key(uint32_t lkey);
int beneath_cq(struct cq *cq);
void beneath_cq_end(struct cq *cq);
int beneath_srq(struct srq *srq, const struct ibv_srq_attr *attr);
void beneath_srq_end(struct srq *srq);
/* Gives it its number; of what is wrong with it reply may say why. */
int beneath_qp(struct qp *qp, struct adapter_reply *reply);
/* What it had to do ends with it. */
void beneath_qp_end(struct qp *qp);
/* 0 and the limit is another adapter's business; -ENOSYS it is that of the queue. */
int beneath_srq_limit(struct srq *srq, uint32_t limit);
int beneath_query(const struct adapter_request *request, struct adapter_reply *reply);
/* Takes what has completed there; has anything? */
bool beneath_poll(void);
/* Before it sleeps: has nothing completed?  From now on a descriptor says so. */
bool beneath_is_quiet(void);
/* There is no such adapter any more. */
bool beneath_is_lost(void);

/* memory.c */
int memory_map(struct mapping *mapping, const char *name, size_t bytes);
void memory_unmap(struct mapping *mapping);
int region_create(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply);
int region_change(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply);
/* NULL: [addr, addr+length) with this key is not accessible so, within this domain; why says what is wrong. */
const struct mr *region_find(const struct pd *pd, uint32_t key, uint64_t addr, uint64_t length,
                             uint32_t access, const char **why);
/* Between an application's memory and ours; 0, -EFAULT. */
int memory_read(const struct mr *mr, uint64_t addr, void *to, size_t size);
int memory_write(const struct mr *mr, uint64_t addr, const void *from, size_t size);
/* Of a list, the bytes [offset, offset+size); -EACCES: the keys do not allow it, why says so. */
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
/* The oldest receive is copied and leaves the queue: 1; 0: there is none. */
int queue_take(struct recv_queue *queue, struct client *client, struct recv_work *work);
/* Whatever is posted leaves it, and is forgotten. */
void queue_empty(struct recv_queue *queue);
/* For a queue pair, from where it receives. */
int qp_take_recv(struct qp *qp, struct recv_work *work);

/* pair.c */
int qp_create(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply, int *fd);
void qp_destroy(struct qp *qp);
void qp_wake(struct qp *qp); /* it has something to do */
bool qp_can_receive(const struct qp *qp);

/* qp.c */
int qp_modify(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply);
int qp_query(struct client *client, const struct adapter_request *request,
             struct adapter_reply *reply);
void qp_fail(struct qp *qp); /* to ERR: what waits is flushed */
void qp_run(struct qp *qp);  /* does some of it */
void qp_flush(struct qp *qp);
void client_doorbell(struct client *client);
/* A queue pair waits for this moment. */
void qp_wait_until(uint64_t moment);
/* The earliest of these moments, or NEVER. */
uint64_t qps_wait_until(void);
void qps_look_at_clock(uint64_t now);

/* request.c */
uint64_t request_tail(struct qp *qp);
/* The request at index, copied and validated; false: it is not there, or the client broke the ring. */
bool request_read(struct qp *qp, uint64_t index, struct send_work *work);
uint64_t request_length(const struct send_work *work);
void request_complete(struct qp *qp, const struct send_work *work, enum ibv_wc_status status);

/* requester.c */
void requester_reset(struct qp *qp);
void requester_run(struct qp *qp);
void requester_answered(struct qp *qp, const struct frame *frame, const unsigned char *data);
void requester_clock(struct qp *qp, uint64_t now);
void requester_flush(struct qp *qp);
/* Everything that was not answered is sent again. */
void requester_again(struct qp *qp);
bool requester_has_work(const struct qp *qp);

/* responder.c */
void responder_reset(struct qp *qp);
void responder_take(struct qp *qp, const struct frame *frame, const unsigned char *data);
void responder_run(struct qp *qp);
void responder_flush(struct qp *qp);

/* tm.c */
/* Of these variables; an error was said. */
int tm_read_environment(const char *tags_name, const char *quirks_name, const char *seed_name);
int tm_create(struct srq *srq, struct cq *cq, void *ring, uint32_t tags, uint32_t ops);
void tm_destroy(struct srq *srq);
/* Performs what has been posted. */
void tm_commands(struct srq *srq);
/* QUIRK_DAWDLE: performs more of it.  Is there more? */
bool tm_dawdle(void);
/* One of them, of a list that has some. */
bool tm_has_commands(struct srq *srq);
void tm_command_once(struct srq *srq);
/* The ring of what the adapter itself sends on a queue pair; ends when the queue pair does. */
int tm_attach(struct qp *qp);
void tm_detach(struct qp *qp);
/* A message begins, a part of it has come, it is whole.  False: an answer was given, or will be. */
enum tm_begun { TM_REFUSED, TM_NOT_READY, TM_TOO_SHORT, TM_BEGUN };
enum tm_begun tm_begin(struct qp *qp, const struct frame *frame, const unsigned char *data);
int tm_land(struct qp *qp, const struct frame *frame, const unsigned char *data,
            const char **why);
void tm_end(struct qp *qp, const struct frame *frame, const unsigned char *data);
/* It never will be whole. */
void tm_abandon(struct qp *qp, enum ibv_wc_status status);
/* A request of the adapter has ended. */
void tm_sent(struct qp *qp, const struct send_work *work, enum ibv_wc_status status);

/* step.c */
/* The adapter does nothing but what it is told to, and no time passes for it. */
bool step_is_held(void);
/* How many frames a queue pair may send in its turn: so many, or fewer. */
uint32_t step_frames(uint32_t usual);
void step_client_ends(const struct client *client);
int step_perform(const struct client *client, const struct adapter_request *request,
                 struct adapter_reply *reply);

/* loop.c: has anybody posted something?  Its queue pairs have something to do then. */
bool look_at_doorbells(void);
/* Works until the last client has gone. */
void work(int listener);

/* ud.c */
void ud_run(struct qp *qp);
void ud_take(struct qp *qp, const struct frame *frame, const unsigned char *data);

/* wire.c */
struct pollfd;
/* Finds out who this host is, and listens; an error was said. */
int wire_open(const char *interface);
void wire_close(void); /* what waits in a connection leaves */
/* Where an address leads: false if nowhere. */
bool wire_route(const struct adapter_address *to, uint32_t *address);
/* Sends a frame, or calls the queue pair that it is for.  false: it is lost. */
bool wire_send(uint32_t to, const struct frame *frame, const void *data);
/* Is there space for data to this host? */
bool wire_has_space(uint32_t to);
uint32_t wire_count(void); /* descriptors that it wants to be looked at */
bool wire_is_open(void);   /* often, because nothing else tells what has come */
void wire_fds(struct pollfd *fds);
void wire_serve(const struct pollfd *fds, uint32_t count);
/* A frame has arrived here. */
void frame_arrived(uint32_t from, const struct frame *frame, const unsigned char *data);

#endif
