/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - reads and writes a peer's memory, and exposes our own to peers.
 *
 * Registrations belong to verbs_regions.h, which may keep them longer than the exposure that
 * they were made for.  So several exposures may have the same adapter key: the core's key has a
 * number above the adapter's 32 bits, which is unique.  In a FIN the peer's adapter repeats the
 * low half of the key, the other contents of the request, and a number that is unique among the
 * requests that wait for a FIN of that peer.
 *
 * An operation longer than the adapter's limit is posted in pieces.  A write is done when the
 * peer's adapter has all of it; a later packet finds the bytes there.
 *
 * The adapter refuses an access that was not allowed, and then the queue pair has failed: a
 * peer that accesses memory that is not exposed ends the link.
 */
#include "transport/verbs/rma.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/verbs/ib.h"

/* ---- exposing ---- */

#define NUMBER_SHIFT 32 /* of an exposure's number in its key */

static struct list *exposures_of(struct ib *ib, uint64_t key)
{
    return &ib->rma.exposures[(key >> NUMBER_SHIFT) % IB_EXPOSURE_LISTS];
}

/* Memory that cannot be written, such as constants, is registered for reading only: the kernel
 * returns EFAULT.  Other failures say nothing about the memory.  A peer that writes to
 * read-only memory loses its link. */
static struct verbs_region *register_exposed(struct ib *ib, const void *buf, size_t size)
{
    struct verbs_region *region = verbs_region_get(
        ib->rma.regions, buf, size,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);

    return region != NULL || errno != EFAULT
               ? region
               : verbs_region_get(ib->rma.regions, buf, size, IBV_ACCESS_REMOTE_READ);
}

static int ib_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                     uint64_t *key)
{
    struct ib *ib = ib_of(l->transport);
    struct ib_exposure *exposure = mem_calloc(1, sizeof *exposure);

    if (exposure == NULL)
        return -ENOMEM;
    if (size ==
        0) { /* an empty rendezvous also needs a key, but 0 bytes cannot be registered */
        buf = &exposure->nothing;
        size = 1;
    }
    exposure->region = register_exposed(ib, buf, size);
    if (exposure->region == NULL) {
        LOG_DEBUG("verbs: %zu bytes cannot be registered, error %d %s", size, errno,
                  strerror(errno));
        mem_free(exposure);
        return -ENOMEM;
    }
    exposure->key = (uint64_t)++ib->rma.exposed << NUMBER_SHIFT | exposure->region->mr->rkey;
    list_init_node(&exposure->node);
    list_init_node(&exposure->in_expected);
    list_add_tail(exposures_of(ib, exposure->key), &exposure->node);
    *key = exposure->key;
    *address = (uintptr_t)buf;
    return 0;
}

static struct ib_exposure *exposure_find(struct ib *ib, uint64_t key)
{
    struct list *node;

    list_for_each (node, exposures_of(ib, key)) {
        struct ib_exposure *exposure = container_of(node, struct ib_exposure, node);

        if (exposure->key == key)
            return exposure;
    }
    return NULL;
}

/* ---- FINs and their requests ---- */

static uint64_t *word_of(struct ib_link_rma *rma, uint32_t number, uint64_t *bit)
{
    *bit = UINT64_C(1) << number % 64;
    return &rma->numbered[number / 64];
}

/* Takes the first free number from next_number on, which has been free for long.  False: none
 * is free. */
static bool take_number(struct ib_link_rma *rma, uint32_t *number)
{
    for (uint32_t i = 0; i < VERBS_NUMBERS; i++) {
        const uint32_t tried = (rma->next_number + i) % VERBS_NUMBERS;
        uint64_t bit, *word = word_of(rma, tried, &bit);

        if ((*word & bit) == 0) {
            *word |= bit;
            rma->next_number = tried + 1;
            *number = tried;
            return true;
        }
    }
    return false;
}

static void ib_rma_give_number(struct ib_link_rma *rma, uint32_t number)
{
    uint64_t bit, *word = word_of(rma, number, &bit);

    *word &= ~bit;
}

static void expect_no_more(struct ib_exposure *exposure)
{
    if (exposure->expects == NULL)
        return;
    exposure->expects->rma.expected_count--;
    ib_rma_give_number(&exposure->expects->rma, exposure->number);
    exposure->expects = NULL;
    list_remove(&exposure->in_expected);
}

bool ib_rma_expect(struct ib_link *link, struct verbs_fin *fin, uint64_t key, uint64_t sender)
{
    struct ib_exposure *exposure =
        fin->address != 0 ? exposure_find(ib_of_link(link), key) : NULL;

    if (exposure == NULL ||
        (exposure->expects == NULL && link->rma.expected_count >= link->rx.window))
        return false;
    expect_no_more(exposure); /* an earlier attempt may have failed: the adapter was full */
    if (!take_number(&link->rma, &exposure->number))
        return false;
    fin->app_ctx |= exposure->number << VERBS_NUMBER_SHIFT;
    link->rma.expected_count++;
    exposure->expects = link;
    exposure->fin = *fin;
    exposure->sender = sender;
    list_add_tail(&link->rma.expected, &exposure->in_expected);
    return true;
}

static bool is_answer(const struct ib_exposure *exposure, const struct verbs_fin *fin)
{
    return exposure->fin.tag == fin->tag && exposure->fin.address == fin->address &&
           exposure->fin.key == fin->key && exposure->fin.size == fin->size &&
           exposure->fin.app_ctx == fin->app_ctx;
}

bool ib_rma_answered(struct ib_link *link, const struct verbs_fin *fin, uint64_t *sender)
{
    struct list *node;

    list_for_each (node, &link->rma.expected) {
        struct ib_exposure *exposure = container_of(node, struct ib_exposure, in_expected);

        if (is_answer(exposure, fin)) {
            *sender = exposure->sender;
            expect_no_more(exposure);
            return true;
        }
    }
    return false;
}

static void exposure_destroy(struct ib_exposure *exposure)
{
    expect_no_more(exposure);
    list_remove(&exposure->node);
    verbs_region_put(exposure->region);
    mem_free(exposure);
}

static void ib_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    struct ib_exposure *exposure = exposure_find(ib_of(l->transport), key);

    (void)address;
    if (exposure != NULL)
        exposure_destroy(exposure);
}

/* ---- operations ---- */

static struct ib_rma_op *ib_rma_take(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    struct list *node =
        link->rma.moving_count < IB_LINK_RMA ? list_pop_head(&ib->rma.free) : NULL;
    struct ib_rma_op *op;

    if (node == NULL)
        return NULL;
    op = container_of(node, struct ib_rma_op, node);
    *op = (struct ib_rma_op){.link = link, .counted = link};
    list_init_node(&op->node);
    return op;
}

static void ib_rma_begin(struct ib_rma_op *op)
{
    list_add_tail(&op->link->rma.moving, &op->node);
    op->link->rma.moving_count++;
    ib_of_link(op->link)->rma.begun++;
}

static void ib_rma_give(struct ib *ib, struct ib_rma_op *op)
{
    if (op->region != NULL)
        verbs_region_put(op->region);
    op->region = NULL;
    op->link = op->counted = NULL;
    op->cookie = NULL;
    list_add_tail(&ib->rma.free, &op->node);
}

/* Posts the next piece; for a probe, a write of 0 bytes.  0; -EAGAIN. */
static int ib_rma_post(struct ib *ib, struct ib_rma_op *op)
{
    struct ib_link *link = op->counted;
    const uint32_t size = (uint32_t)min_size(op->left, ib->rma.chunk_max);
    struct ibv_sge part = {.addr = (uintptr_t)op->here,
                           .length = size,
                           .lkey = op->region != NULL ? op->region->mr->lkey : 0};
    struct ibv_send_wr *bad,
        wr = {.wr_id = ib_wr_id(IB_RMA, (uint32_t)(op - ib->rma.operations)),
              .sg_list = &part,
              .num_sge = size > 0 ? 1 : 0,
              .opcode = op->is_write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
              .send_flags = IBV_SEND_SIGNALED,
              .wr.rdma = {.remote_addr = op->there, .rkey = op->key}};

    if (ibv_post_send(link->pair.out, &wr, &bad) != 0)
        return -EAGAIN;
    link->rma.in_flight++;
    op->here += size;
    op->there += size;
    op->left -= size;
    return 0;
}

static int reach(struct ib_link *link)
{
    if (link->net.state == NET_NEW)
        net_call(&link->net);
    if (link->net.state == NET_DEAD)
        return link->net.error;
    return link->net.state == NET_OPEN ? 0 : -EAGAIN;
}

static int ib_rma_move(struct ib_link *link, bool is_write, void *here, uint64_t address,
                       uint64_t key, size_t size, void *cookie)
{
    struct ib *ib = ib_of_link(link);
    struct ib_rma_op *op;
    int err;

    if (link->net.is_self)
        return -ENOTSUP; /* an endpoint's messages to itself are copied */
    if ((err = reach(link)) != 0)
        return err;
    if (size == 0)
        return 0;
    op = ib_rma_take(link);
    if (op == NULL) {
        link->rma.is_full = true;
        return -EAGAIN;
    }
    op->cookie = cookie;
    op->is_write = is_write;
    op->here = here;
    op->there = address;
    op->left = size;
    op->key = (uint32_t)key;
    op->region =
        verbs_region_get(ib->rma.regions, here, size, is_write ? 0 : IBV_ACCESS_LOCAL_WRITE);
    if (op->region == NULL) {
        LOG_WARN(
            "verbs: %zu bytes cannot be registered, error %d %s: the message comes in packets "
            "(slower); raise ulimit -l, the limit of such memory",
            size, errno, strerror(errno));
        ib_rma_give(ib, op);
        return -ENOTSUP;
    }
    err = ib_rma_post(ib, op);
    if (err != 0) {
        link->rma.is_full = true;
        ib_rma_give(ib, op);
        return err;
    }
    ib_rma_begin(op);
    return -EINPROGRESS;
}

static int ib_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                   void *cookie)
{
    return ib_rma_move(ib_link_of(l), false, dst, address, key, size, cookie);
}

static int ib_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                    size_t size, void *cookie)
{
    return ib_rma_move(ib_link_of(l), true, (void *)(uintptr_t)src, address, key, size, cookie);
}

void ib_rma_ask(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    struct ib_rma_op *op = ib_rma_take(link);

    if (op == NULL)
        return; /* pending operations show as much */
    op->is_write = true;
    if (ib_rma_post(ib, op) == 0)
        ib_rma_begin(op);
    else
        ib_rma_give(ib, op);
}

/* ---- completion ---- */

static void unlink_op(struct ib_rma_op *op)
{
    if (op->link == NULL)
        return;
    list_remove(&op->node);
    op->link->rma.moving_count--;
}

struct ib_link *ib_rma_done(struct ib *ib, uint32_t number, bool is_success)
{
    struct ib_rma_op *op = &ib->rma.operations[number];
    struct ib_link *link;
    void *cookie;
    int error;

    if (number >= IB_RMA_MAX || op->counted == NULL)
        return NULL;
    op->counted->rma.in_flight--;
    if (is_success && op->left > 0 && op->link != NULL) {
        if (ib_rma_post(ib, op) == 0)
            return op->link;
        is_success = false; /* its queue pair accepts nothing any more */
    }
    link = op->counted;
    cookie = op->cookie;
    error = op->link == NULL ? -ENOTCONN : -EIO;
    is_success = is_success && op->left == 0;
    unlink_op(op);
    ib_rma_give(ib, op);
    ib->rma.ended++;
    if (cookie != NULL && !ib->is_closing)
        ib->events->read_done(ib->arg, cookie, is_success ? 0 : error);
    return link;
}

/* The queue pair has failed.  The adapter may write to an operation's memory until it
 * completes, so the caller is not told before. */
void ib_rma_fail(struct ib_link *link)
{
    struct list *node;

    while ((node = list_pop_head(&link->rma.moving)) != NULL)
        container_of(node, struct ib_rma_op, node)->link = NULL;
    link->rma.moving_count = 0;
}

void ib_rma_lose(struct ib *ib)
{
    for (size_t i = 0; i < IB_RMA_MAX; i++) {
        void *cookie = ib->rma.operations[i].cookie;

        ib->rma.operations[i].cookie = NULL;
        if (cookie != NULL && !ib->is_closing)
            ib->events->read_done(ib->arg, cookie, -ENOTCONN);
    }
}

/* ---- waiting ---- */

bool ib_rma_is_waiting(const struct ib_link *link)
{
    return !list_is_empty(&link->rma.moving) || link->rma.is_full;
}

void ib_rma_checked(struct ib_link *link)
{
    link->rma.is_full = false;
}

/* ---- open and close ---- */

int ib_rma_open(struct ib *ib, uint64_t pinned)
{
    list_init(&ib->rma.free);
    for (size_t i = 0; i < IB_EXPOSURE_LISTS; i++)
        list_init(&ib->rma.exposures[i]);
    ib->rma.chunk_max = min_size(ib->hca.message_max, (size_t)1 << 30);
    ib->rma.operations = mem_calloc(IB_RMA_MAX, sizeof *ib->rma.operations);
    if (ib->rma.operations == NULL)
        return -ENOMEM;
    ib->rma.regions = verbs_regions_open(ib->hca.pd, pinned);
    if (ib->rma.regions == NULL) {
        mem_free(ib->rma.operations);
        ib->rma.operations = NULL;
        return -ENOMEM;
    }
    for (size_t i = 0; i < IB_RMA_MAX; i++) {
        list_init_node(&ib->rma.operations[i].node);
        list_add_tail(&ib->rma.free, &ib->rma.operations[i].node);
    }
    return 0;
}

void ib_rma_close(struct ib *ib)
{
    if (ib->rma.operations == NULL)
        return;
    for (size_t i = 0; i < IB_EXPOSURE_LISTS; i++)
        while (!list_is_empty(&ib->rma.exposures[i]))
            exposure_destroy(container_of(ib->rma.exposures[i].next, struct ib_exposure, node));
    for (size_t i = 0; i < IB_RMA_MAX; i++)
        if (ib->rma.operations[i].region != NULL)
            verbs_region_put(ib->rma.operations[i].region);
    verbs_regions_close(ib->rma.regions);
    mem_free(ib->rma.operations);
}

void ib_rma_init_link(struct ib_link_rma *rma)
{
    list_init(&rma->moving);
    list_init(&rma->expected);
}

const struct transport_memory ib_memory = {
    .expose = ib_expose,
    .unexpose = ib_unexpose,
    .read = ib_read,
    .write = ib_write,
};
