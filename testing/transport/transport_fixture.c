/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_fixture.c - see transport_fixture.h.
 */
#include "base/patience.h"
#include "testing/transport/transport_fixture.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "testing/count/count.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"
#include "transport/verbs/verbs_library.h"

#define TESTS_MAX 32

struct fixture fixture;

static unsigned char scratch[MAX_PACKET];

void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    assert_non_null(text);
}

/* ---- packets ---- */

void fill(unsigned char *bytes, uint32_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)((number * 0x9e3779b1u + (uint32_t)i * 0x85ebca6bu) >> 16);
}

static size_t size_of(const struct transport *t, uint32_t number)
{
    size_t span = t->limits.packet_max - sizeof(struct wire_header) + 1;

    return sizeof(struct wire_header) + number * 37u % span;
}

int send_sized(struct link *link, uint32_t number, size_t size)
{
    static const size_t body_sizes[] = {0, 8, 16, 32};
    alignas(8) static unsigned char bytes[MAX_PACKET];
    size_t body_size = body_sizes[number % 4];
    size_t rest = size - sizeof(struct wire_header);

    fill(bytes, number, size);
    body_size = min_size(body_size, rest);
    return link->transport->ops->send(
        link, &(struct transport_packet){
                  .header = (struct wire_header *)(void *)bytes,
                  .body = bytes + sizeof(struct wire_header),
                  .body_size = body_size,
                  .payload = bytes + sizeof(struct wire_header) + body_size,
                  .payload_size = rest - body_size,
              });
}

int send_number(struct link *link, uint32_t number)
{
    return send_sized(link, number, size_of(link->transport, number));
}

/* ---- events ---- */

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct node *node = arg;
    struct link *again;

    if (node->accept_error != 0)
        return node->accept_error;
    assert_true(node->link_count < MAX_LINKS);
    assert_int_equal(node->t->ops->connect(node->t, address, &again), 0);
    assert_ptr_equal(again, link);
    node->links[node->link_count] = link;
    *peer = node->link_count++;
    node->accepted++;
    return 0;
}

/* The packets of each peer are numbered from 0. */
static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct node *node = arg;

    assert_true(peer < node->link_count);
    assert_int_equal((uintptr_t)packet % 8, 0);
    if (node->deliver_again != 0) {
        node->deliver_again--;
        node->refusals++;
        return -EAGAIN;
    }
    assert_in_range(size, sizeof(struct wire_header), MAX_PACKET);
    fill(scratch, node->arrived[peer], size);
    if (memcmp(scratch + 4, (const char *)packet + 4, size - 4) != 0)
        node->wrong++;
    node->arrived[peer]++;
    return 0;
}

static void on_read_done(void *arg, void *cookie, int error)
{
    struct node *node = arg;

    node->read_cookie = cookie;
    node->read_error = error;
    node->done++;
}

static void on_cswap_done(void *arg, uint64_t cookie, int error, bool is_swapped)
{
    struct node *node = arg;

    assert_int_equal(cookie, node->swap_cookie);
    assert_true(error == 0 || !is_swapped);
    node->swap_error = error;
    node->is_swapped = is_swapped;
    node->swaps++;
}

static void on_dropped(void *arg, const char *reason)
{
    struct node *node = arg;

    assert_non_null(reason);
    node->dropped++;
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_deliver,
    .read_done = on_read_done,
    .cswap_done = on_cswap_done,
    .dropped = on_dropped,
};

/* ---- the fixture ---- */

int node_open(unsigned i)
{
    struct node *node = &fixture.nodes[i];
    struct transport_config config = {
        .events = &events,
        .arg = node,
        .key = "one job, one key",
        .peers = 8,
        .rank = i + 10,
        .wants_cswap = true,
        .settings.shm = {.ring_size = 16 << 10, .attach = true},
        .settings.verbs.timeout_ns = fixture.answer_ns,
    };
    struct testing_settings *settings = testing_settings(&config.settings);
    int err;

    settings->fault_seed = i + 1;
    settings->fault_percent = fixture.kind->fault_percent;

    if (fixture.kind->network != NULL)
        snprintf(config.settings.ofi.provider, sizeof config.settings.ofi.provider, "%s",
                 fixture.kind->network);
    *node = (struct node){0};
    err = transport_open(fixture.kind->ops, &config, &node->t);
    if (err == 0)
        node->t->ops->address(node->t, &node->address);
    return err;
}

void node_close(unsigned i)
{
    if (fixture.nodes[i].t != NULL)
        fixture.nodes[i].t->ops->close(fixture.nodes[i].t);
    fixture.nodes[i].t = NULL;
}

void fixture_init_within(void **state, unsigned nodes, uint64_t answer_ns)
{
    fixture = (struct fixture){
        .kind = *state,
        .answer_ns = answer_ns,
        .mem_before = mem_live(),
        .fds_before = sys_fds_live(),
        .maps_before = sys_maps_live(),
    };
    for (unsigned i = 0; i < nodes; i++)
        assert_int_equal(node_open(i), 0);
}

void fixture_init(void **state, unsigned nodes)
{
    fixture_init_within(state, nodes, PATIENCE_NS);
}

void fixture_fini(void)
{
    for (unsigned i = 0; i < MAX_NODES; i++) {
        assert_int_equal(fixture.nodes[i].wrong, 0);
        node_close(i);
    }
    assert_int_equal(mem_live(), fixture.mem_before);
    assert_int_equal(sys_fds_live(), fixture.fds_before);
    assert_int_equal(sys_maps_live(), fixture.maps_before);
}

int try_link(unsigned from, unsigned to, struct link **out)
{
    struct node *node = &fixture.nodes[from];
    int err = node->t->ops->connect(node->t, &fixture.nodes[to].address, out);

    if (err == 0) {
        (*out)->peer = node->link_count;
        node->links[node->link_count++] = *out;
    }
    return err;
}

struct link *link_to(unsigned from, unsigned to)
{
    struct link *link = NULL;

    assert_int_equal(try_link(from, to, &link), 0);
    assert_ptr_equal(link->transport, fixture.nodes[from].t);
    return link;
}

int poll_all(void)
{
    int n = 0;

    for (unsigned i = 0; i < MAX_NODES; i++)
        if (fixture.nodes[i].t != NULL)
            n += fixture.nodes[i].t->ops->poll(fixture.nodes[i].t, 16);
    return n;
}

bool is_patient(unsigned round)
{
    static uint64_t start;

    if (round == 0)
        start = clock_now();
    return round < PATIENCE || (!clock_is_replaced() && clock_now() - start < PATIENCE_NS);
}

void poll_until(const uint32_t *counter, uint32_t value)
{
    for (unsigned round = 0; is_patient(round) && *counter < value; round++)
        poll_all();
    assert_int_equal(*counter, value);
}

void poll_idle(void)
{
    for (unsigned round = 0; round < 50; round++)
        poll_all();
}

void send_all(struct link *link, uint32_t first, uint32_t count)
{
    for (uint32_t number = first; number < first + count; number++) {
        int err = -EAGAIN;

        for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++)
            if ((err = send_number(link, number)) == -EAGAIN)
                poll_all();
        assert_int_equal(err, 0);
    }
}

uint32_t send_until_full(struct link *link, uint32_t number)
{
    for (unsigned refused = 0; refused < 100;) {
        int err = send_number(link, number);

        if (err == 0) {
            number++;
            refused = 0;
        } else {
            assert_int_equal(err, -EAGAIN);
            refused++;
        }
    }
    return number;
}

int send_until_error(struct link *link)
{
    int err = -EAGAIN;

    for (unsigned round = 0; is_patient(round) && (err == -EAGAIN || err == 0); round++) {
        err = send_number(link, 0);
        if (fixture.kind->network != NULL)
            poll_all();
    }
    return err;
}

/* ---- the suite ---- */

static const struct kind kinds[] = {
    {"loop", &transport_loop, 0, NULL},
    {"fault(loop)", &transport_loop, 30, NULL},
    {"count", &transport_count, 0, NULL},
    {"fault(count)", &transport_count, 30, NULL},
    {"shm", &transport_shm, 0, NULL},
    {"fault(shm)", &transport_shm, 30, NULL},
    {"tcp", &transport_ofi, 0, "tcp;ofi_rxm"},
    {"fault(tcp)", &transport_ofi, 30, "tcp;ofi_rxm"},
    {"net", &transport_ofi, 0, "net"},
    {"verbs", &transport_verbs, 0, "verbs"},
    {"fault(verbs)", &transport_verbs, 30, "verbs"},
};

static bool is_wanted(const struct kind *kind, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], kind->name) == 0)
            return true;
    return argc < 2 && kind->network == NULL;
}

static bool has_table(const struct kind *kind, enum needs needs)
{
    return needs == NEEDS_NOTHING || (needs == NEEDS_MEMORY && kind->ops->memory != NULL) ||
           (needs == NEEDS_ATOMICS && kind->ops->atomics != NULL);
}

int run_over_all(int argc, char **argv, const struct CMUnitTest *tests, size_t count,
                 enum needs needs)
{
    struct CMUnitTest bound[TESTS_MAX];
    int failed = 0;

    assert_true(count <= TESTS_MAX);
    if (getenv("MBX_VERBS_LIBRARY") != NULL)
        verbs_use(getenv("MBX_VERBS_LIBRARY"));
    log_set_sink(be_quiet, NULL);
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        if (!is_wanted(&kinds[k], argc, argv) || !has_table(&kinds[k], needs))
            continue;
        for (size_t i = 0; i < count; i++) {
            bound[i] = tests[i];
            bound[i].initial_state = (void *)(uintptr_t)&kinds[k];
        }
        failed += _cmocka_run_group_tests(kinds[k].name, bound, count, NULL, NULL);
    }
    return failed;
}
