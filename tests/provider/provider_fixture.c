/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_fixture.c - see provider_fixture.h.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QUIET_READS 200

struct fi_info *fixture_hints(const struct setup *setup)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->caps =
        setup->caps != 0 ? setup->caps : FI_TAGGED | FI_MSG | FI_DIRECTED_RECV | FI_SOURCE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->ep_attr->mem_tag_format = setup->tag_format;
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

static void node_count(struct fixture *fix, struct node *n, const struct setup *setup)
{
    static const uint64_t flags[NODE_COUNTERS] = {
        FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
    };
    struct fi_cntr_attr attr = {.wait_obj = setup->cntr_wait != FI_WAIT_NONE ? setup->cntr_wait
                                                                             : FI_WAIT_UNSPEC};

    for (int i = 0; i < NODE_COUNTERS; i++) {
        if (!(setup->counts & flags[i]))
            continue;
        assert_int_equal(fi_cntr_open(fix->domain, &attr, &n->cntr[i], NULL), 0);
        assert_int_equal(fi_ep_bind(n->ep, &n->cntr[i]->fid, flags[i]), 0);
    }
}

static void node_open(struct fixture *fix, struct node *n, const struct setup *setup)
{
    struct fi_cq_attr cq = {
        .format = setup->format != FI_CQ_FORMAT_UNSPEC ? setup->format : FI_CQ_FORMAT_TAGGED,
        .wait_obj = setup->wait,
        .wait_cond = setup->wait_cond};
    struct fi_av_attr av = {.type = setup->av_type};
    size_t len = sizeof n->address;

    assert_int_equal(fi_endpoint(fix->domain, fix->info, &n->ep, NULL), 0);
    assert_int_equal(fi_av_open(fix->domain, &av, &n->av, NULL), 0);
    if (setup->shared_cq && n != &fix->node[0])
        n->cq = fix->node[0].cq;
    else
        assert_int_equal(fi_cq_open(fix->domain, &cq, &n->cq, NULL), 0);
    assert_int_equal(fi_ep_bind(n->ep, &n->av->fid, 0), 0);
    if (!setup->queueless)
        assert_int_equal(
            fi_ep_bind(n->ep, &n->cq->fid,
                       FI_TRANSMIT | (setup->sends_only ? 0 : FI_RECV) | setup->bind_flags),
            0);
    node_count(fix, n, setup);
    assert_int_equal(fi_enable(n->ep), 0);
    assert_int_equal(fi_getname(&n->ep->fid, n->address, &len), 0);
    assert_int_equal(len, sizeof n->address);
}

static void fixture_introduce(struct fixture *fix)
{
    for (int to = 0; to < FIXTURE_NODES; to++)
        for (int i = 0; i < FIXTURE_NODES; i++)
            assert_int_equal(
                fi_av_insert(fix->node[to].av, fix->node[i].address, 1, &fix->addr[i], 0, NULL),
                1);
}

bool fixture_has_shm(void)
{
    const char *transport = getenv("MBX_TRANSPORT");

    if (transport == NULL && getenv("MATCHBOX_TEST_NETWORK") != NULL)
        transport = "ofi"; /* see fixture_open() */
    if (transport == NULL || strcmp(transport, "auto") == 0 || strstr(transport, "shm") != NULL)
        return true;
    printf("skipped: needs shared memory, and MBX_TRANSPORT is '%s'\n", transport);
    return false;
}

void fixture_open(struct fixture *fix, const struct setup *setup)
{
    struct fi_info *hints = fixture_hints(setup);

    if (getenv("MATCHBOX_TEST_NETWORK") != NULL) /* as in the library's own tests */
        setenv("MBX_TRANSPORT", "ofi", 0);
    memset(fix, 0, sizeof *fix);
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &fix->info), 0);
    fi_freeinfo(hints);
    if (setup->mr_mode != 0)
        fix->info->domain_attr->mr_mode = setup->mr_mode; /* not needed, but accepted */
    assert_int_equal(fi_fabric(fix->info->fabric_attr, &fix->fabric, NULL), 0);
    assert_int_equal(fi_domain(fix->fabric, fix->info, &fix->domain, NULL), 0);
    for (int i = 0; i < FIXTURE_NODES; i++)
        node_open(fix, &fix->node[i], setup);
    if (!setup->unknown_peers)
        fixture_introduce(fix);
}

void fixture_close(struct fixture *fix)
{
    for (int i = 0; i < FIXTURE_NODES; i++)
        assert_int_equal(fi_close(&fix->node[i].ep->fid), 0);
    for (int i = 0; i < FIXTURE_NODES; i++) {
        assert_int_equal(fi_close(&fix->node[i].av->fid), 0);
        for (int k = 0; k < NODE_COUNTERS; k++)
            if (fix->node[i].cntr[k] != NULL)
                assert_int_equal(fi_close(&fix->node[i].cntr[k]->fid), 0);
        if (i == 0 || fix->node[i].cq != fix->node[0].cq)
            assert_int_equal(fi_close(&fix->node[i].cq->fid), 0);
    }
    assert_int_equal(fi_close(&fix->domain->fid), 0);
    assert_int_equal(fi_close(&fix->fabric->fid), 0);
    fi_freeinfo(fix->info);
}

void fixture_progress(struct fixture *fix)
{
    for (int i = 0; i < FIXTURE_NODES; i++)
        fi_cq_read(fix->node[i].cq, NULL, 0);
}

/* There is one path per pair of endpoints, in order: once the mark has come, all before it
 * has. */
void fixture_arrived(struct fixture *fix, int from, int to)
{
    static const uint64_t mark = INT64_MAX;
    uint64_t word = 0;

    assert_int_equal(
        fi_trecv(EP(*fix, to), &word, sizeof word, NULL, fix->addr[from], mark, 0, &word), 0);
    inject_word(fix, from, to, mark, mark);
    expect_recv(fix, to, &word, sizeof word, mark);
}

time_t fixture_end(void)
{
    return time(NULL) + PATIENCE_S;
}

ssize_t fixture_read(struct fixture *fix, int node, struct fi_cq_tagged_entry *entry,
                     fi_addr_t *source)
{
    time_t end = fixture_end();
    ssize_t n;

    do {
        fixture_progress(fix);
        n = source == NULL ? fi_cq_read(fix->node[node].cq, entry, 1)
                           : fi_cq_readfrom(fix->node[node].cq, entry, 1, source);
    } while (n == -FI_EAGAIN && time(NULL) < end);
    return n;
}

void fixture_read_error(struct fixture *fix, int node, struct fi_cq_err_entry *error)
{
    struct fi_cq_tagged_entry entry;

    memset(error, 0, sizeof *error);
    assert_int_equal(fixture_read(fix, node, &entry, NULL), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(fix->node[node].cq, error, 0), 1);
}

void fixture_is_quiet(struct fixture *fix, int node)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < QUIET_READS; i++) {
        fixture_progress(fix);
        assert_int_equal(fi_cq_read(fix->node[node].cq, &entry, 1), -FI_EAGAIN);
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

void expect_send(struct fixture *fix, int node, void *context)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(fixture_read(fix, node, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags & (FI_SEND | FI_RECV), FI_SEND);
}

void expect_recv(struct fixture *fix, int node, void *context, size_t len, uint64_t tag)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(fixture_read(fix, node, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags & (FI_SEND | FI_RECV), FI_RECV);
    assert_int_equal(e.len, len);
    assert_int_equal(e.tag, tag);
}

void inject_word(struct fixture *fix, int from, int to, uint64_t tag, uint64_t word)
{
    assert_int_equal(fi_tinject(EP(*fix, from), &word, sizeof word, fix->addr[to], tag), 0);
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
