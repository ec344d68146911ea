/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peers_test.c - the cost of a known address, and the moment in which it becomes a peer.
 */
#include "cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/core.h"
#include "transport/atomics.h"

#define CONTEXT     17
#define NAMES       (4096 + 1) /* the tables have just grown: each name costs the most */
#define IDLE_MOST   200        /* bytes */
#define LINKED_MOST 1024
#define GONE        64
#define COOKIE      16 /* the offset of the endpoint's number in an address */

/* Makes the address of an endpoint that nobody has ever opened. */
static void address_make(struct mbx_address *address, const struct mbx_ep *ep, uint32_t n)
{
    mbx_address_get(ep, address);
    n++;
    for (size_t i = 0; i < sizeof n; i++)
        address->bytes[COOKIE + i] ^= ((const uint8_t *)&n)[i];
}

static void name_many(struct mbx_ep *ep, uint32_t count)
{
    struct mbx_address address;
    uint32_t number;

    for (uint32_t i = 0; i < count; i++) {
        address_make(&address, ep, i);
        assert_int_equal(mbx_peer_add(ep, &address, &number), 0);
        assert_int_equal(number, i);
    }
}

static void test_a_name_costs_little(void **state)
{
    struct mbx_ep *ep = cluster_open_one(*state, NULL);
    uint64_t before = mem_bytes(), blocks = mem_live();
    struct mbx_address address, told;
    uint32_t number;

    name_many(ep, NAMES);
    assert_in_range((mem_bytes() - before) / NAMES, 64, IDLE_MOST);
    assert_in_range(mem_live() - blocks, 1, 3); /* the allocator adds to each block */
    address_make(&address, ep, NAMES / 2);
    assert_int_equal(mbx_peer_add(ep, &address, &number), 0);
    assert_int_equal(number, NAMES / 2);
    assert_int_equal(mbx_peer_address(ep, number, &told), 0);
    assert_memory_equal(&told, &address, sizeof told);
    assert_int_equal(mbx_peer_address(ep, NAMES, &told), -EINVAL);
    assert_int_equal(mbx_close(ep), 0);
}

/* Measures a link to nobody, before anything is sent; and an endpoint. */
static void test_a_peer_with_a_link(void **state)
{
    uint64_t before = mem_bytes(), opened, named;
    struct mbx_ep *ep = cluster_open_one(*state, NULL);

    opened = mem_bytes();
    name_many(ep, NAMES);
    named = mem_bytes();
    for (uint32_t i = 0; i < NAMES; i++)
        assert_int_equal(peer_use(ep, i), 0);
    assert_in_range((mem_bytes() - named) / NAMES, sizeof(struct peer), LINKED_MOST);
    print_message("bytes: endpoint %" PRIu64 ", name %" PRIu64 ", and its link %" PRIu64 "\n",
                  opened - before, (named - opened) / NAMES, (mem_bytes() - named) / NAMES);
    assert_int_equal(mbx_close(ep), 0);
}

/* One of many names is used; the others stay names. */
static void test_a_process_that_is_used_is_a_peer(void **state)
{
    struct cluster cl;
    struct mbx_completion done;
    mbx_request send, recv;
    uint64_t blocks;
    char got = 0;

    cluster_open(&cl, *state, 1, NULL);
    for (uint32_t i = 0; i < NAMES; i++) {
        struct mbx_address address;
        uint32_t number;

        address_make(&address, cl.eps[0], i);
        assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), 0);
    }
    blocks = mem_live();
    assert_int_equal(mbx_recv(cl.eps[0], 0, CONTEXT, 1, 0, &got, 1, NULL, &recv), 0);
    assert_int_equal(mbx_send(cl.eps[0], 0, CONTEXT, 1, "x", 1, NULL, &send), 0);
    assert_int_equal(mbx_wait(cl.eps[0], recv, -1, &done), 0);
    assert_int_equal(done.error, 0);
    assert_int_equal(mbx_wait(cl.eps[0], send, -1, &done), 0);
    assert_int_equal(got, 'x');
    assert_in_range(mem_live() - blocks, 2, 64);
    for (uint32_t i = 1; i <= NAMES; i++)
        assert_false(peer_is_used(cl.eps[0], i));
    cluster_close(&cl);
}

/* ---- peers that a receive from any source may wait for ---- */

#define JOB   1000
#define FEW   16 /* contacted because of it */
#define LOOKS 64 /* enough to check all peers more than once */

static uint32_t count_used(const struct mbx_ep *ep)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++)
        used += peer_is_used(ep, i);
    return used;
}

/* Makes a round that checks peers, however soon after the last one. */
static void look_around(struct mbx_ep *ep)
{
    ep->progress.rounds = UINT32_MAX - 1;
    ep->liveness.last_ns = 1; /* 0: nobody has waited yet */
    mbx_progress(ep);
}

/* A receive from any source contacts only a few of a thousand names, once and for all: over
 * a network a peer cannot be checked without a connection, and in shared memory none is
 * needed. */
static void test_a_rank_that_waits_for_anybody_meets_few(void **state)
{
    struct mbx_ep *ep = cluster_open_one(*state, (const char *[]){"CLOSE_TIMEOUT=0", NULL});
    bool is_network = strcmp(((const struct configuration *)*state)->name, "ofi") == 0;
    struct mbx_completion done;
    mbx_request recv;

    name_many(ep, JOB);
    assert_int_equal(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, 1, 0, NULL, 0, NULL, &recv), 0);
    for (int i = 0; i < LOOKS; i++)
        look_around(ep);
    assert_int_equal(count_used(ep), is_network ? FEW : 0);
    assert_int_equal(mbx_cancel(ep, recv), 0);
    assert_int_equal(mbx_wait(ep, recv, -1, &done), 0);
    assert_int_equal(done.error, -ECANCELED);
    mbx_close(ep);
}

#define WAITS 20

static struct transport_ops counted;
static struct transport_atomics counted_atomics;
static const struct transport_atomics *inner;
static unsigned swaps;

static int count_cswap(struct transport *t, uint64_t index, uint64_t expected, uint64_t desired,
                       uint64_t *found)
{
    swaps++;
    return inner->cswap_local(t, index, expected, desired, found);
}

/* Each look checks for each receive from any source whether a sender has won its lock word.  If
 * the provider swaps our own words, and we would have to wait, the word is not swapped. */
static void test_a_look_waits_for_no_word(void **state)
{
    struct mbx_ep *ep =
        cluster_open_one(*state, (const char *[]){"CLOSE_TIMEOUT=0", "MATCH_AT=sender", NULL});
    const struct transport_ops *ops = ep->net.transport->ops;
    struct mbx_completion done;
    mbx_request recv[WAITS];

    counted = *ops;
    inner = ops->atomics;
    if (inner != NULL) {
        counted_atomics = *inner;
        counted_atomics.cswap_local = count_cswap;
        counted.atomics = &counted_atomics;
    }
    ep->net.transport->ops = &counted;
    swaps = 0;
    for (int i = 0; i < WAITS; i++) { /* as if each had been advertised to a sender */
        assert_int_equal(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, 1, 0, NULL, 0, NULL, &recv[i]),
                         0);
        lockword_open(ep, &request_find(ep, recv[i])->open.word);
    }
    assert_int_equal(swaps, ep->net.transport->limits.cswap_words != 0 ? WAITS : 0);
    swaps = 0;
    for (int i = 0; i < LOOKS; i++)
        look_around(ep);
    if (inner != NULL && inner->load_local != NULL)
        assert_int_equal(swaps, 0);
    for (int i = 0; i < WAITS; i++) {
        assert_true(lockword_close(ep, &request_find(ep, recv[i])->open.word, MBX_ANY_SOURCE));
        assert_int_equal(mbx_cancel(ep, recv[i]), 0);
        assert_int_equal(mbx_wait(ep, recv[i], -1, &done), 0);
    }
    ep->net.transport->ops = ops;
    mbx_close(ep);
}

static void test_wrong_addresses_are_refused(void **state)
{
    struct mbx_ep *ep = cluster_open_one(*state, NULL);
    struct mbx_address address = {.bytes = {0}};
    uint32_t number = 7;

    assert_int_equal(mbx_peer_add(ep, &address, &number), -EINVAL);
    memset(&address, 0xff, sizeof address);
    assert_int_equal(mbx_peer_add(ep, &address, &number), -EINVAL);
    assert_int_equal(number, 7);
    assert_int_equal(ep->peers.count, 0);
    assert_int_equal(mbx_close(ep), 0);
}

/* ---- no memory ---- */

enum call { SEND, SSEND, INJECT, WRITE, READ, ATOMIC, CALLS };

static int call(struct mbx_ep *ep, enum call what, uint64_t *word)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    const struct mbx_atomic_args add = {
        .op = MBX_SUM, .type = MBX_UINT64, .count = 1, .operand = word, .key = 5};

    switch (what) {
    case SEND:
        return mbx_send(ep, 0, CONTEXT, 1, word, 8, &silent, NULL);
    case SSEND:
        return mbx_ssend(ep, 0, CONTEXT, 1, word, 8, &silent, NULL);
    case INJECT:
        return mbx_inject(ep, 0, CONTEXT, 1, word, 8, 0);
    case WRITE:
        return mbx_write(ep, 0, word, 8, 5, 0, &silent, NULL);
    case READ:
        return mbx_read(ep, 0, word, 8, 5, 0, &silent, NULL);
    case ATOMIC:
        return mbx_atomic(ep, 0, &add, &silent, NULL);
    case CALLS:
        break;
    }
    return -ENOSYS;
}

/* Each call that needs more than a name reports that there is no memory for it, and changes
 * nothing. */
static void test_no_memory_for_a_peer(void **state)
{
    static uint64_t word;

    for (enum call what = SEND; what < CALLS; what++) {
        struct mbx_ep *ep = cluster_open_one(*state, (const char *[]){"CLOSE_TIMEOUT=0", NULL});
        struct mbx_address address;
        uint32_t number;

        mbx_address_get(ep, &address);
        assert_int_equal(mbx_peer_add(ep, &address, &number), 0);
        mem_fail_at(1);
        assert_int_equal(call(ep, what, &word), -ENOMEM);
        assert_int_equal(mem_fail_left(), 0);
        assert_false(peer_is_used(ep, 0));
        assert_int_equal(pool_live(&ep->requests.pool), 0);
        assert_int_equal(call(ep, what, &word), 0);
        assert_true(peer_is_used(ep, 0));
        mbx_close(ep);
    }
}

/* ---- closed peers ---- */

static void meet(struct mbx_ep *a, struct mbx_ep *b, uint32_t *b_of_a, uint32_t *a_of_b)
{
    struct mbx_address address;

    mbx_address_get(b, &address);
    assert_int_equal(mbx_peer_add(a, &address, b_of_a), 0);
    mbx_address_get(a, &address);
    assert_int_equal(mbx_peer_add(b, &address, a_of_b), 0);
}

static void send_one(struct mbx_ep *from, uint32_t to, struct mbx_ep *at, uint32_t source)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    mbx_request request;
    char byte;
    int rc;

    assert_int_equal(mbx_recv(at, source, CONTEXT, 1, 0, &byte, 1, NULL, &request), 0);
    assert_int_equal(mbx_send(from, to, CONTEXT, 1, "x", 1, &silent, NULL), 0);
    while ((rc = mbx_test(at, request, NULL)) == 0)
        mbx_progress(from);
    assert_int_equal(rc, 1);
}

/* A peer opens, exchanges messages in both directions, and closes. */
static void come_and_go(struct mbx_ep *ep, const struct configuration *config)
{
    struct mbx_ep *other = cluster_open_one(config, NULL);
    uint32_t there, here;

    meet(ep, other, &there, &here);
    send_one(other, here, ep, there);
    send_one(ep, there, other, here);
    assert_int_equal(mbx_close(other), 0);
    while (mbx_progress(ep) != 0)
        ;
}

/* A job that spawns in a loop meets more and more peers: of each closed peer only a name and a
 * dead link remain, and none of its memory. */
static void test_a_peer_that_has_gone_costs_little(void **state)
{
    const struct configuration *config = *state;
    struct mbx_ep *ep = cluster_open_one(config, NULL);
    bool is_network = strcmp(config->name, "ofi") == 0;
    int64_t maps;
    uint64_t bytes;

    come_and_go(ep, config);
    maps = sys_maps_live();
    bytes = mem_bytes();
    for (int i = 0; i < GONE; i++)
        come_and_go(ep, config);
    assert_in_range(sys_maps_live(), 0, maps + 1); /* the last one may not have been noticed */
    if (!is_network) /* its connections have memory of their own */
        assert_in_range((mem_bytes() - bytes) / GONE, 0, IDLE_MOST + LINKED_MOST);
    assert_int_equal(mbx_close(ep), 0);
}

/* Other transports have other addresses, and faults are not useful here. */
static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0 || strcmp(config->name, "ofi") == 0 ||
           strcmp(config->name, "both") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_costs_little),
        cmocka_unit_test(test_a_peer_with_a_link),
        cmocka_unit_test(test_a_process_that_is_used_is_a_peer),
        cmocka_unit_test(test_a_rank_that_waits_for_anybody_meets_few),
        cmocka_unit_test(test_a_look_waits_for_no_word),
        cmocka_unit_test(test_wrong_addresses_are_refused),
        cmocka_unit_test(test_no_memory_for_a_peer),
        cmocka_unit_test(test_a_peer_that_has_gone_costs_little),
    };

    mem_count_bytes();
    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
