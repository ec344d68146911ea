/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * "first" is the first message of a pair, "later" the fourth of its size.  The clock stands
 * still, so no copy is slow, and a peer is far, or a cache large, only if the test says so.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "transport/shm/shm.h"

static const size_t sizes[] = {
    0,     1,     16,    24,    32,    33,     40,     41,     64,     65,      100,    101,
    1024,  4096,  4097,  8192,  8193,  8240,   8288,   8289,   12288,  16384,   16385,  32768,
    32769, 49152, 65536, 65537, 98304, 131072, 262144, 524288, 524289, 1 << 20, 3 << 20};

#define LONGEST ((size_t)3 << 20)

/* If a second cache is as large as all bounce buffers, rings are larger, and fewer buffers are
 * in use. */
enum distance { NEAR, LARGE_CACHE, FAR, SHARES_CORES, DISTANCES };
static const char *const distances[] = {"near", "near, large cache", "far", "shares cores"};

enum kind { POSTED, UNEXPECTED, SYNCHRONOUS, INJECTED, IN_PIECES, KINDS };
static const char *const kinds[] = {"posted", "unexpected", "synchronous", "injected",
                                    "in pieces"};

enum { FIRST, LATER, TIMES };
static const char *const times[] = {"first", "later"};

static const struct golden {
    const char *name, *ways;
} golden[] = {
#include "paths.inc"
};

static bool is_written;

static uint64_t clock_stands(void)
{
    return UINT64_C(1) << 40;
}

static int stop_clock(UNUSED void **state)
{
    clock_set(clock_stands);
    return 0;
}

static int start_clock(UNUSED void **state)
{
    clock_set(NULL);
    return 0;
}

static void open_pair(struct cluster *cl, const struct configuration *config,
                      enum distance distance)
{
    const char *more[4] = {distance == SHARES_CORES ? "OVERSUBSCRIBED=yes"
                                                    : "OVERSUBSCRIBED=no"};
    int count = 1;

    if (!config_has_param(config, "EAGER_LIMIT="))
        more[count++] = "EAGER_LIMIT=auto";
    if (!config_has_param(config, "SHM_RING_SIZE="))
        more[count++] = distance == LARGE_CACHE ? "SHM_RING_SIZE=64K" : "SHM_RING_SIZE=16K";
    cluster_open(cl, config, 2, more);
    for (int i = 0; i < 2; i++)
        if (cl->eps[i]->net.transport->ops == &transport_shm)
            shm_of(cl->eps[i]->net.transport)->bounce_rotation =
                bounce_rotation(distance == LARGE_CACHE ? 4 << 20 : 512 << 10);
    for (uint32_t i = 0; i < 2 && distance == FAR; i++) {
        assert_int_equal(peer_use(cl->eps[i], 1 - i), 0);
        peer_path(peer_get(cl->eps[i], 1 - i))->is_far = true;
    }
}

/* Starts a message of this kind; false: it is refused. */
static bool start(struct cluster *cl, enum kind kind, const unsigned char *data, size_t size,
                  mbx_request *request)
{
    static struct mbx_iovec parts[2]; /* used until the message has left */
    const struct mbx_layout layout = {.parts = parts, .count = ARRAY_COUNT(parts)};
    const struct mbx_options in_pieces = {.flags = MBX_LAYOUT, .layout = &layout};
    int err = -EINVAL;

    parts[0] = (struct mbx_iovec){(void *)(uintptr_t)data, size / 2};
    parts[1] = (struct mbx_iovec){(void *)(uintptr_t)(data + size / 2), size - size / 2};

    switch (kind) {
    case SYNCHRONOUS:
        err = mbx_ssend(cl->eps[0], 1, 7, 1, data, size, NULL, request);
        break;
    case INJECTED:
        while ((err = mbx_inject(cl->eps[0], 1, 7, 1, data, size, 0)) == -EAGAIN)
            cluster_progress(cl);
        break;
    case IN_PIECES:
        err = mbx_send(cl->eps[0], 1, 7, 1, NULL, size, &in_pieces, request);
        break;
    case POSTED:
    case UNEXPECTED:
    case KINDS:
        err = mbx_send(cl->eps[0], 1, 7, 1, data, size, NULL, request);
        break;
    }
    assert_true(err == 0 || (kind == INJECTED && err == -EMSGSIZE));
    return err == 0;
}

static void receive(struct cluster *cl, void *to, size_t size, mbx_request *request)
{
    assert_int_equal(mbx_recv(cl->eps[1], 0, 7, 1, 0, to, size, NULL, request), 0);
    cluster_settle(cl);
}

/* Returns the protocol by mbx_protocol_get() for a message of this size to the receiver. */
static enum mbx_protocol said(const struct cluster *cl, size_t size)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    int count = cluster_protocols(cl->eps[0], 1, rows), i = 0;

    while (i < count && rows[i].max_size < size)
        i++;
    assert_in_range(i, 0, count - 1);
    return rows[i].protocol;
}

/* A statistic counts a message that travels by another protocol. */
static void assert_as_said(enum mbx_protocol said, enum mbx_protocol protocol, enum kind kind,
                           size_t size, const struct stats *before, const struct stats *after)
{
    if (protocol == said || kind == INJECTED || kind == IN_PIECES ||
        protocol == MBX_RNDV_WRITE || after->rerouted != before->rerouted ||
        after->deferrals != before->deferrals ||
        after->read_fallbacks != before->read_fallbacks)
        return;
    print_error("%s, %zu bytes: mbx_protocol_get() says %s, it travels %s\n", kinds[kind], size,
                mbx_protocol_name(said), mbx_protocol_name(protocol));
    fail();
}

/* Sends one message; `word` gets the word for its path. */
static void travel(struct cluster *cl, enum kind kind, size_t size, char *word, size_t capacity)
{
    static unsigned char to[LONGEST];
    const unsigned char *data = seeded_bytes(5, size);
    const struct stats before = cluster_stats(cl, 0), receiver = cluster_stats(cl, 1);
    mbx_request send = 0, recv = 0;
    enum mbx_protocol expected;
    struct stats after;
    int protocol = 0;

    memset(to, 0, size);
    if (kind != UNEXPECTED)
        receive(cl, to, size, &recv);
    expected = said(cl, size);
    if (!start(cl, kind, data, size, &send)) {
        assert_int_equal(mbx_cancel(cl->eps[1], recv), 0);
        cluster_wait_error(cl, 1, recv, -ECANCELED);
        snprintf(word, capacity, "refused");
        return;
    }
    if (kind == UNEXPECTED) {
        cluster_settle(cl);
        receive(cl, to, size, &recv);
    }
    cluster_wait_error(cl, 1, recv, 0);
    if (kind != INJECTED)
        cluster_wait_error(cl, 0, send, 0);
    cluster_settle(cl);
    assert_memory_equal(to, data, size);

    after = cluster_stats(cl, 0);
    while (protocol < MBX_PROTOCOLS - 1 && after.sent[protocol] == before.sent[protocol])
        protocol++;
    assert_as_said(expected, (enum mbx_protocol)protocol, kind, size, &before, &after);
    snprintf(word, capacity, "%s%s%s%s", mbx_protocol_name((enum mbx_protocol)protocol),
             after.buffers != before.buffers ? "+buffers" : "",
             after.split_copy_parts != before.split_copy_parts ||
                     cluster_stats(cl, 1).split_copy_parts != receiver.split_copy_parts
                 ? "+both"
                 : "",
             after.deferrals != before.deferrals ? "+waits" : "");
}

/* Writes "inline 40, short 8240, ...": for a sequence of equal words, the longest size. */
static void describe(const struct configuration *config, enum distance distance, enum kind kind,
                     int time, char *text, size_t capacity)
{
    char word[64], last[64] = "";
    struct cluster cl;
    size_t used = 0;

    if (time == LATER)
        open_pair(&cl, config, distance);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        if (time == FIRST)
            open_pair(&cl, config, distance);
        for (int n = time == LATER ? 3 : 0; n >= 0; n--)
            travel(&cl, kind, sizes[i], word, sizeof word);
        if (i > 0 && strcmp(word, last) != 0)
            used +=
                (size_t)snprintf(text + used, capacity - used, "%s %zu, ", last, sizes[i - 1]);
        memcpy(last, word, sizeof last);
        if (time == FIRST)
            cluster_close(&cl);
    }
    if (time == LATER)
        cluster_close(&cl);
    snprintf(text + used, capacity - used, "%s", last);
}

static const char *ways_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(golden); i++)
        if (strcmp(golden[i].name, name) == 0)
            return golden[i].ways;
    return NULL;
}

static void test_messages_travel_as_the_table_says(void **state)
{
    const struct configuration *config = *state;
    FILE *out = is_written ? fopen("paths.inc", "ae") : NULL;
    unsigned wrong = 0;
    char name[128], text[1024];

    assert_true(!is_written || out != NULL);
    for (int distance = 0; distance < DISTANCES; distance++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int time = 0; time < TIMES; time++) {
                const char *ways;

                if (config_is_network(config) ? distance != NEAR || time == FIRST
                                              : test_is_quick() && distance != NEAR)
                    continue; /* over a network no peer is far, and a connection takes long */
                snprintf(name, sizeof name, "%s; %s; %s; %s", config->name, distances[distance],
                         kinds[kind], times[time]);
                describe(config, (enum distance)distance, (enum kind)kind, time, text,
                         sizeof text);
                if (is_written) {
                    fprintf(out, "{\"%s\", \"%s\"},\n", name, text);
                    continue;
                }
                ways = ways_of(name);
                if (ways == NULL || strcmp(ways, text) != 0) {
                    print_error("%s\n  travels %s\n  table:  %s\n", name, text,
                                ways != NULL ? ways : "has no row");
                    wrong++;
                }
            }
    if (out != NULL)
        assert_int_equal(fclose(out), 0);
    assert_int_equal(wrong, 0);
}

/* Configurations in which the path does not depend on chance, or on concurrent work. */
static bool is_certain(const struct configuration *config)
{
    return config_is_usual(config) && !config_has_faults(config) &&
           !config_is_elsewhere(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages_travel_as_the_table_says, stop_clock,
                                        start_clock),
    };

    argc = test_take_flag(argc, argv, "--write", &is_written);
    return test_main_for(argc, argv, is_certain, tests, ARRAY_COUNT(tests));
}
