/* SPDX-License-Identifier: BSD-3-Clause */
#include "provider_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET_READS  200
#define PATIENCE_SEC 120

struct fi_info *world_hints(const struct setup *setup)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->caps =
        setup->caps != 0 ? setup->caps : FI_TAGGED | FI_MSG | FI_DIRECTED_RECV | FI_SOURCE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading =
        setup->threading != FI_THREAD_UNSPEC ? setup->threading : FI_THREAD_DOMAIN;
    hints->domain_attr->av_type = setup->av_type;
    hints->domain_attr->data_progress = setup->progress;
    hints->domain_attr->mr_mode = setup->mr_mode | setup->mr_offer;
    hints->tx_attr->op_flags = setup->send_flags;
    hints->rx_attr->op_flags = setup->recv_flags;
    hints->fabric_attr->prov_name = strdup("matchbox");
    return hints;
}

static void node_count(struct world *w, struct node *n, const struct setup *setup)
{
    static const uint64_t flags[NODE_COUNTERS] = {
        FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
    };
    struct fi_cntr_attr attr = {.wait_obj = setup->cntr_wait != FI_WAIT_NONE ? setup->cntr_wait
                                                                             : FI_WAIT_UNSPEC};

    for (int i = 0; i < NODE_COUNTERS; i++) {
        if (!(setup->counts & flags[i]))
            continue;
        assert_int_equal(fi_cntr_open(w->domain, &attr, &n->cntr[i], NULL), 0);
        assert_int_equal(fi_ep_bind(n->ep, &n->cntr[i]->fid, flags[i]), 0);
    }
}

static void node_open(struct world *w, struct node *n, const struct setup *setup)
{
    struct fi_cq_attr cq = {
        .format = setup->format != FI_CQ_FORMAT_UNSPEC ? setup->format : FI_CQ_FORMAT_TAGGED,
        .wait_obj = setup->wait,
        .wait_cond = setup->wait_cond};
    struct fi_av_attr av = {.type = setup->av_type};
    size_t len = sizeof n->address;

    assert_int_equal(fi_endpoint(w->domain, w->info, &n->ep, NULL), 0);
    assert_int_equal(fi_av_open(w->domain, &av, &n->av, NULL), 0);
    if (setup->shared_cq && n != &w->node[0])
        n->cq = w->node[0].cq;
    else
        assert_int_equal(fi_cq_open(w->domain, &cq, &n->cq, NULL), 0);
    assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
    if (!setup->queueless)
        assert_int_equal(
            fi_ep_bind(n->ep, &n->cq->fid,
                       FI_TRANSMIT | (setup->sends_only ? 0 : FI_RECV) | setup->bind_flags),
            0);
    node_count(w, n, setup);
    assert_int_equal(fi_enable(n->ep), 0);
    assert_int_equal(fi_getname(&n->ep->fid, n->address, &len), 0);
    assert_int_equal(len, sizeof n->address);
}

static void world_introduce(struct world *w)
{
    for (int to = 0; to < WORLD_NODES; to++)
        for (int i = 0; i < WORLD_NODES; i++)
            assert_int_equal(
                fi_av_insert(w->node[to].av, w->node[i].address, 1, &w->addr[i], 0, NULL), 1);
}

bool world_has_shm(void)
{
    const char *transport = getenv("MBX_TRANSPORT");

    if (transport == NULL && getenv("MATCHBOX_TEST_NETWORK") != NULL)
        transport = "ofi"; /* see world_open() */
    if (transport == NULL || strcmp(transport, "auto") == 0 || strstr(transport, "shm") != NULL)
        return true;
    printf("skipped: needs shared memory, and MBX_TRANSPORT is '%s'\n", transport);
    return false;
}

void world_open(struct world *w, const struct setup *setup)
{
    struct fi_info *hints = world_hints(setup);

    if (getenv("MATCHBOX_TEST_NETWORK") != NULL) /* as the library's own tests */
        setenv("MBX_TRANSPORT", "ofi", 0);
    memset(w, 0, sizeof *w);
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &w->info), 0);
    fi_freeinfo(hints);
    if (setup->mr_mode != 0)
        w->info->domain_attr->mr_mode = setup->mr_mode; /* not needed, but liked */
    assert_int_equal(fi_fabric(w->info->fabric_attr, &w->fabric, NULL), 0);
    assert_int_equal(fi_domain(w->fabric, w->info, &w->domain, NULL), 0);
    for (int i = 0; i < WORLD_NODES; i++)
        node_open(w, &w->node[i], setup);
    if (!setup->strangers)
        world_introduce(w);
}

void world_close(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        assert_int_equal(fi_close(&w->node[i].ep->fid), 0);
    for (int i = 0; i < WORLD_NODES; i++) {
        assert_int_equal(fi_close(&w->node[i].av->fid), 0);
        for (int k = 0; k < NODE_COUNTERS; k++)
            if (w->node[i].cntr[k] != NULL)
                assert_int_equal(fi_close(&w->node[i].cntr[k]->fid), 0);
        if (i == 0 || w->node[i].cq != w->node[0].cq)
            assert_int_equal(fi_close(&w->node[i].cq->fid), 0);
    }
    assert_int_equal(fi_close(&w->domain->fid), 0);
    assert_int_equal(fi_close(&w->fabric->fid), 0);
    fi_freeinfo(w->info);
}

void world_progress(struct world *w)
{
    for (int i = 0; i < WORLD_NODES; i++)
        fi_cq_read(w->node[i].cq, NULL, 0);
}

/* One path per pair of endpoints, in order: what is behind it has come, so it has, too. */
void world_arrived(struct world *w, int from, int to)
{
    static const uint64_t mark = INT64_MAX;
    uint64_t word = 0;

    assert_int_equal(
        fi_trecv(EP(*w, to), &word, sizeof word, NULL, w->addr[from], mark, 0, &word), 0);
    inject_word(w, from, to, mark, mark);
    expect_recv(w, to, &word, sizeof word, mark);
}

ssize_t world_read(struct world *w, int node, struct fi_cq_tagged_entry *entry,
                   fi_addr_t *source)
{
    time_t end = time(NULL) + PATIENCE_SEC;
    ssize_t n;

    do {
        world_progress(w);
        n = source == NULL ? fi_cq_read(w->node[node].cq, entry, 1)
                           : fi_cq_readfrom(w->node[node].cq, entry, 1, source);
    } while (n == -FI_EAGAIN && time(NULL) < end);
    return n;
}

void world_read_error(struct world *w, int node, struct fi_cq_err_entry *error)
{
    struct fi_cq_tagged_entry entry;

    memset(error, 0, sizeof *error);
    assert_int_equal(world_read(w, node, &entry, NULL), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(w->node[node].cq, error, 0), 1);
}

void world_is_quiet(struct world *w, int node)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < QUIET_READS; i++) {
        world_progress(w);
        assert_int_equal(fi_cq_read(w->node[node].cq, &entry, 1), -FI_EAGAIN);
    }
}

static unsigned char pattern_at(size_t i, unsigned seed)
{
    return (unsigned char)((i * 131 + (i >> 8) * 17 + seed * 29 + 7) & 0xff);
}

void pattern_fill(void *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)buf)[i] = pattern_at(i, seed);
}

bool pattern_is(const void *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)buf)[i] != pattern_at(i, seed))
            return false;
    return true;
}

void expect_send(struct world *w, int node, void *context)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(world_read(w, node, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags & (FI_SEND | FI_RECV), FI_SEND);
}

void expect_recv(struct world *w, int node, void *context, size_t len, uint64_t tag)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(world_read(w, node, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags & (FI_SEND | FI_RECV), FI_RECV);
    assert_int_equal(e.len, len);
    assert_int_equal(e.tag, tag);
}

void inject_word(struct world *w, int from, int to, uint64_t tag, uint64_t word)
{
    assert_int_equal(fi_tinject(EP(*w, from), &word, sizeof word, w->addr[to], tag), 0);
}

void thread_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "FAIL in a thread: %s\n", what);
    abort();
}

pthread_t thread_start(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}
