/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_ucx_like.c - the scheme of UCX, written for comparison.
 *
 *   posted receives                     unexpected messages
 *
 *   bins[0]  r2 - r7                    bins[0]  m1 - m4
 *   bins[1]  ...                        bins[1]  m3
 *   wild     r1 - r5                    all      m1 - m3 - m4
 *
 * A receive without wildcards waits in the bin of its whole tag (context id, source,
 * tag), any other in `wild`.  Both are singly linked in the order of their sequence
 * numbers, so the removal of one walks to it, as in UCX.  A message matches the oldest
 * receive that fits, in its bin or in `wild`.  A message waits in its bin and in `all`,
 * which are doubly linked; an exact receive searches one bin, any other walks `all`.
 *
 * The number of bins is fixed, about a thousand, as in UCX.
 */
#include "accepts.h"
#include "base/base.h"
#include "base/list.h"
#include "base/mem.h"

#define PRIME 1021
#define BINS  1024

struct like_recv {
    struct like_recv *next;
    struct bench_pattern wanted;
    uint64_t seq;
    bool is_queued;
};

/* Singly linked; tail points to the link for the next entry. */
struct queue {
    struct like_recv *head, **tail;
};

struct like_msg {
    struct list in_bin, in_all;
    struct mbx_match_envelope envelope;
};

struct like {
    struct bench_engine engine;
    uint64_t next_seq;
    struct queue wild;
    struct list all;
    struct queue recv_bins[BINS];
    struct list msg_bins[BINS];
    struct like_recv *recvs;
    struct like_msg *msgs;
};

static struct like *like_of(struct bench_engine *engine)
{
    return container_of(engine, struct like, engine);
}

static inline unsigned bin_of(const struct mbx_match_envelope *envelope)
{
    uint32_t low = (uint32_t)envelope->tag;
    uint32_t high = (uint32_t)(envelope->tag >> 32) ^ envelope->source ^
                    (envelope->context_id << BENCH_SOURCE_BITS);

    return (low % PRIME) ^ (high % PRIME);
}

static inline struct queue *queue_of(struct like *e, const struct mbx_match_envelope *wanted,
                                     uint64_t ignore)
{
    return is_exact(wanted, ignore) ? &e->recv_bins[bin_of(wanted)] : &e->wild;
}

static void queue_init(struct queue *queue)
{
    queue->head = NULL;
    queue->tail = &queue->head;
}

static inline void queue_append(struct queue *queue, struct like_recv *recv)
{
    recv->next = NULL;
    *queue->tail = recv;
    queue->tail = &recv->next;
}

/* Removes the entry that *at points to. */
static inline void queue_take(struct queue *queue, struct like_recv **at)
{
    struct like_recv *recv = *at;

    *at = recv->next;
    if (queue->tail == &recv->next)
        queue->tail = at;
    recv->is_queued = false;
}

/* The link to the oldest receive that fits; the link is NULL if there is none. */
static inline struct like_recv **queue_find(struct queue *queue,
                                            const struct mbx_match_envelope *message)
{
    struct like_recv **at = &queue->head;

    while (*at != NULL && !accepts(&(*at)->wanted.envelope, (*at)->wanted.ignore, message))
        at = &(*at)->next;
    return at;
}

static void like_destroy(struct bench_engine *engine)
{
    struct like *e = like_of(engine);

    mem_free(e->recvs);
    mem_free(e->msgs);
    mem_free(e);
}

static struct bench_engine *like_create(uint32_t recvs, uint32_t msgs)
{
    struct like *e = mem_calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    e->engine.ops = &bench_ucx_like;
    queue_init(&e->wild);
    list_init(&e->all);
    for (int i = 0; i < BINS; i++) {
        queue_init(&e->recv_bins[i]);
        list_init(&e->msg_bins[i]);
    }
    e->recvs = mem_calloc(recvs, sizeof *e->recvs);
    e->msgs = mem_calloc(msgs, sizeof *e->msgs);
    if (e->recvs == NULL || e->msgs == NULL) {
        like_destroy(&e->engine);
        return NULL;
    }
    return &e->engine;
}

static inline struct like_msg *
find_in_bin(struct like *e, const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    struct list *head = &e->msg_bins[bin_of(wanted)], *at;

    list_for_each (at, head) {
        struct like_msg *msg = container_of(at, struct like_msg, in_bin);

        if (accepts(wanted, ignore, &msg->envelope))
            return msg;
    }
    return NULL;
}

static inline struct like_msg *
find_in_all(struct like *e, const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    struct list *at;

    list_for_each (at, &e->all) {
        struct like_msg *msg = container_of(at, struct like_msg, in_all);

        if (accepts(wanted, ignore, &msg->envelope))
            return msg;
    }
    return NULL;
}

static inline struct like_msg *find_msg(struct like *e, const struct mbx_match_envelope *wanted,
                                        uint64_t ignore)
{
    return is_exact(wanted, ignore) ? find_in_bin(e, wanted, ignore)
                                    : find_in_all(e, wanted, ignore);
}

static inline void take_msg(struct like_msg *msg)
{
    list_remove(&msg->in_bin);
    list_remove(&msg->in_all);
}

static uint32_t like_post(struct bench_engine *engine, uint32_t recv,
                          struct mbx_match_envelope envelope, uint64_t ignore)
{
    struct like *e = like_of(engine);
    struct like_msg *msg = find_msg(e, &envelope, ignore);
    struct like_recv *r = &e->recvs[recv];

    if (msg != NULL) {
        take_msg(msg);
        return (uint32_t)(msg - e->msgs);
    }
    r->wanted = (struct bench_pattern){envelope, ignore};
    r->seq = e->next_seq++;
    r->is_queued = true;
    queue_append(queue_of(e, &envelope, ignore), r);
    return BENCH_NONE;
}

static uint32_t like_arrive(struct bench_engine *engine, uint32_t msg,
                            struct mbx_match_envelope envelope)
{
    struct like *e = like_of(engine);
    unsigned bin = bin_of(&envelope);
    struct queue *queue = &e->recv_bins[bin];
    struct like_recv **at = queue_find(queue, &envelope);
    struct like_recv **wild = queue_find(&e->wild, &envelope), *met;
    struct like_msg *m = &e->msgs[msg];

    if (*wild != NULL && (*at == NULL || (*wild)->seq < (*at)->seq)) {
        queue = &e->wild;
        at = wild;
    }
    met = *at;
    if (met != NULL) {
        queue_take(queue, at);
        return (uint32_t)(met - e->recvs);
    }
    m->envelope = envelope;
    list_add_tail(&e->msg_bins[bin], &m->in_bin);
    list_add_tail(&e->all, &m->in_all);
    return BENCH_NONE;
}

static bool like_cancel(struct bench_engine *engine, uint32_t recv)
{
    struct like *e = like_of(engine);
    struct like_recv *r = &e->recvs[recv], **at;
    struct queue *queue;

    if (!r->is_queued)
        return false;
    queue = queue_of(e, &r->wanted.envelope, r->wanted.ignore);
    for (at = &queue->head; *at != r; at = &(*at)->next)
        continue;
    queue_take(queue, at);
    return true;
}

static bool like_peek(struct bench_engine *engine, struct mbx_match_envelope envelope,
                      uint64_t ignore, uint64_t *tag)
{
    struct like_msg *msg = find_msg(like_of(engine), &envelope, ignore);

    if (msg == NULL)
        return false;
    *tag = msg->envelope.tag;
    return true;
}

static bool like_extract(struct bench_engine *engine, uint32_t msg)
{
    struct like_msg *m = &like_of(engine)->msgs[msg];

    if (!list_is_linked(&m->in_all))
        return false;
    take_msg(m);
    return true;
}

static struct bench_memory like_recv_memory(const struct bench_engine *engine)
{
    (void)engine;
    return (struct bench_memory){sizeof(struct like_recv), BINS * sizeof(struct queue)};
}

static struct bench_memory like_msg_memory(const struct bench_engine *engine)
{
    (void)engine;
    return (struct bench_memory){sizeof(struct like_msg), BINS * sizeof(struct list)};
}

const struct bench_ops bench_ucx_like = {
    .name = "ucx-like",
    .is_measured = true,
    .create = like_create,
    .destroy = like_destroy,
    .post = like_post,
    .arrive = like_arrive,
    .cancel = like_cancel,
    .peek = like_peek,
    .extract = like_extract,
    .recv_memory = like_recv_memory,
    .msg_memory = like_msg_memory,
};
