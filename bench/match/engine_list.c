/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_list.c - two doubly linked lists in age order and nothing else: no sequence
 * numbers, no counters.  The first entry that matches is the oldest.
 * Invariant: a queued entry is linked; an entry that is not queued has next == NULL.
 */
#include "accepts.h"
#include "base/base.h"
#include "base/mem.h"

struct node {
    struct node *next, *prev;
};

struct list_recv {
    struct node node;
    struct bench_pattern wanted;
};

struct list_msg {
    struct node node;
    struct mbx_match_envelope envelope;
};

struct lists {
    struct bench_engine engine;
    struct node posted, unexpected;
    struct list_recv *recvs;
    struct list_msg *msgs;
};

static struct lists *lists_of(struct bench_engine *engine)
{
    return container_of(engine, struct lists, engine);
}

static inline void append(struct node *head, struct node *node)
{
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}

static inline void take_out(struct node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = NULL;
}

static void list_destroy(struct bench_engine *engine)
{
    struct lists *e = lists_of(engine);

    mem_free(e->recvs);
    mem_free(e->msgs);
    mem_free(e);
}

static struct bench_engine *list_create(uint32_t recvs, uint32_t msgs)
{
    struct lists *e = mem_calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    e->engine.ops = &bench_list;
    e->posted.next = e->posted.prev = &e->posted;
    e->unexpected.next = e->unexpected.prev = &e->unexpected;
    e->recvs = mem_calloc(recvs, sizeof *e->recvs);
    e->msgs = mem_calloc(msgs, sizeof *e->msgs);
    if (e->recvs == NULL || e->msgs == NULL) {
        list_destroy(&e->engine);
        return NULL;
    }
    return &e->engine;
}

static inline struct list_msg *
find_msg(struct lists *e, const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    for (struct node *n = e->unexpected.next; n != &e->unexpected; n = n->next) {
        struct list_msg *msg = container_of(n, struct list_msg, node);

        if (accepts(wanted, ignore, &msg->envelope))
            return msg;
    }
    return NULL;
}

static uint32_t list_post(struct bench_engine *engine, uint32_t recv,
                          struct mbx_match_envelope envelope, uint64_t ignore)
{
    struct lists *e = lists_of(engine);
    struct list_msg *msg = find_msg(e, &envelope, ignore);

    if (msg != NULL) {
        take_out(&msg->node);
        return (uint32_t)(msg - e->msgs);
    }
    e->recvs[recv].wanted = (struct bench_pattern){envelope, ignore};
    append(&e->posted, &e->recvs[recv].node);
    return BENCH_NONE;
}

static uint32_t list_arrive(struct bench_engine *engine, uint32_t msg,
                            struct mbx_match_envelope envelope)
{
    struct lists *e = lists_of(engine);

    for (struct node *n = e->posted.next; n != &e->posted; n = n->next) {
        struct list_recv *recv = container_of(n, struct list_recv, node);

        if (accepts(&recv->wanted.envelope, recv->wanted.ignore, &envelope)) {
            take_out(n);
            return (uint32_t)(recv - e->recvs);
        }
    }
    e->msgs[msg].envelope = envelope;
    append(&e->unexpected, &e->msgs[msg].node);
    return BENCH_NONE;
}

static bool list_cancel(struct bench_engine *engine, uint32_t recv)
{
    struct lists *e = lists_of(engine);

    if (e->recvs[recv].node.next == NULL)
        return false;
    take_out(&e->recvs[recv].node);
    return true;
}

static bool list_peek(struct bench_engine *engine, struct mbx_match_envelope envelope,
                      uint64_t ignore, uint64_t *tag)
{
    struct list_msg *msg = find_msg(lists_of(engine), &envelope, ignore);

    if (msg == NULL)
        return false;
    *tag = msg->envelope.tag;
    return true;
}

static bool list_extract(struct bench_engine *engine, uint32_t msg)
{
    struct lists *e = lists_of(engine);

    if (e->msgs[msg].node.next == NULL)
        return false;
    take_out(&e->msgs[msg].node);
    return true;
}

static struct bench_memory list_recv_memory(const struct bench_engine *engine)
{
    (void)engine;
    return (struct bench_memory){sizeof(struct list_recv), 0};
}

static struct bench_memory list_msg_memory(const struct bench_engine *engine)
{
    (void)engine;
    return (struct bench_memory){sizeof(struct list_msg), 0};
}

const struct bench_ops bench_list = {
    .name = "list",
    .is_measured = true,
    .create = list_create,
    .destroy = list_destroy,
    .post = list_post,
    .arrive = list_arrive,
    .cancel = list_cancel,
    .peek = list_peek,
    .extract = list_extract,
    .recv_memory = list_recv_memory,
    .msg_memory = list_msg_memory,
};
