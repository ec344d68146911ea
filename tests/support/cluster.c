/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.c - opening, moving and closing a cluster of endpoints; main() of a test program.
 */
#include "cluster.h"

#include "device/host/driver.h"
#include "device/host/offload.h"
#include "hosts.h"
#include "p2p/p2p.h"
#include "transport/bounce.h"
#include "transport/mux.h"
#include "transport/network.h"
#include "transport/shm/segment.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "testing/fault/fault.h"

/* Rounds without movement after which a cluster is taken to be at rest; far more than faults
 * hold anything back in a row. */
#define SETTLED_ROUNDS 100

/* The number of such rounds while something is in progress over a network: after the first
 * number it must be on its way to a closed endpoint; if none is closed, the machine is slow. */
#define UNDER_WAY_ROUNDS 100000
#define SLOW_ROUNDS      (1000 * (uint64_t)UNDER_WAY_ROUNDS)

/* for a device */
#define IDLE_ROUNDS 8
/* of the data: divisible by no power of two above 8 */
#define PERIOD     ((size_t)8 * 125003)
#define DATA_STEP  ((size_t)4 << 20)

#define GUARD      64
#define GUARD_BYTE 0xA5

static bool is_quick, is_elsewhere, is_network;

int test_patience(void)
{
    return is_elsewhere || is_network ? 100 * 1000 * 1000 : 10000;
}

bool test_is_quick(void)
{
    return is_quick;
}

static bool is_wanted(const struct configuration *config, int argc, char **argv)
{
    int named = 0;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;
        named++;
        if (strcmp(argv[i], config->name) == 0)
            return true;
    }
    return named == 0 && config_is_usual(config);
}

/* Was the library built with the transport of this configuration? */
static bool is_built(const struct configuration *config)
{
    const char *name, *about;

    for (unsigned i = 0; mbx_transport_get(i, &name, &about) == 0; i++)
        if (strcmp(config->params[0] + strlen("TRANSPORT="), name) == 0)
            return true;
    return false;
}

static bool is_known(const char *name)
{
    for (const struct configuration *c = configurations; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

static void read_arguments(int argc, char **argv)
{
    is_quick = getenv("MATCHBOX_TEST_QUICK") != NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            printf("usage: %s [--quick] [CONFIGURATION...]\n", argv[0]);
            exit(0);
        } else if (strcmp(argv[i], "--quick") == 0) {
            is_quick = true;
        } else if (!is_known(argv[i])) {
            fprintf(stderr, "unknown argument '%s'; --quick, or of:", argv[i]);
            for (const struct configuration *c = configurations; c->name != NULL; c++)
                fprintf(stderr, " %s", c->name);
            fprintf(stderr, "\n");
            exit(2);
        }
    }
}

int test_main(int argc, char **argv, const struct CMUnitTest *each, size_t count)
{
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    int failed = 0;

    read_arguments(argc, argv);
    for (const struct configuration *c = configurations; c->name != NULL; c++) {
        if (!is_wanted(c, argc, argv) || !is_built(c))
            continue;
        is_elsewhere = config_is_elsewhere(c);
        is_network = config_is_network(c);
        memcpy(tests, each, count * sizeof *tests);
        for (size_t i = 0; i < count; i++)
            tests[i].initial_state = (void *)(uintptr_t)c;
        failed += _cmocka_run_group_tests(c->name, tests, count, NULL, NULL);
    }
    free(tests);
    return failed == 0 ? 0 : 1;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

/* The program has no test for any of the configurations that were named, or that these variables select. */
static int nothing_meant(const char *program)
{
    static const char *const names[] = {"MATCHBOX_TEST_VERBS", "MATCHBOX_TEST_NETWORK",
                                        "MATCHBOX_TEST_RARE", "MATCHBOX_TEST_THREADS"};

    printf("%s: skipped, it has no test for these configurations", program);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (getenv(names[i]) != NULL)
            printf(" (%s)", names[i]);
    printf("\n");
    return 77;
}

/* Does the program have no test for the named network configuration?  Prints that. */
static bool is_in_vain(const char *program, const char *name, test_meant_fn *is_meant)
{
    for (const struct configuration *c = configurations; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0 && config_is_network(c) && !is_meant(c)) {
            printf("%s has nothing for %s\n", program, name);
            return true;
        }
    return false;
}

int test_main_for(int argc, char **argv, test_meant_fn *is_meant, const struct CMUnitTest *each,
                  size_t count)
{
    const char *names[64] = {argv[0]};
    int named = 1, given = 0, meant = 0;

    for (int i = 1; i < argc && named < 32; i++) {
        given += argv[i][0] != '-';
        if (is_in_vain(argv[0], argv[i], is_meant))
            continue;
        meant += argv[i][0] != '-';
        names[named++] = argv[i];
    }
    for (const struct configuration *c = configurations; given == 0 && c->name != NULL; c++)
        if (is_meant(c) && config_is_usual(c)) {
            meant++;
            names[named++] = c->name;
        }
    if (meant == 0 && !asks_for_help(argc, argv))
        return nothing_meant(argv[0]);
    assert_true(named < (int)ARRAY_COUNT(names));
    return test_main(named, (char **)(uintptr_t)names, each, count);
}

/* Removes argv[i] and the count - 1 after it. */
static int take_out(int argc, char **argv, int i, int count)
{
    for (int k = i; k + count < argc; k++)
        argv[k] = argv[k + count];
    argv[argc - count] = NULL;
    return argc - count;
}

int test_take_flag(int argc, char **argv, const char *option, bool *is_there)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], option) == 0) {
            *is_there = true;
            argc = take_out(argc, argv, i--, 1);
        }
    return argc;
}

int test_take_number(int argc, char **argv, const char *option, uint64_t *value)
{
    for (int i = 1; i < argc; i++) {
        const char *text = i + 1 < argc ? argv[i + 1] : "nothing";
        char *end;

        if (strcmp(argv[i], option) != 0)
            continue;
        *value = strtoull(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end != '\0') {
            fprintf(stderr, "%s takes a number, got '%s'\n", option, text);
            exit(2);
        }
        argc = take_out(argc, argv, i--, 2);
    }
    return argc;
}

pid_t test_fork(int *down, int *up)
{
    int to[2], from[2];
    pid_t pid;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    *down = to[pid != 0];
    *up = from[pid == 0];
    close(to[pid == 0]);
    close(from[pid != 0]);
    return pid;
}

struct mbx_ep *cluster_open_one(const struct configuration *config, const char *const *more)
{
    const char *params[CLUSTER_PARAMS_MAX] = {NULL};
    struct mbx_config open = {.params = params};
    struct mbx_ep *ep = NULL;
    int count = 0;

    params[count++] = "EAGER_LIMIT=16K"; /* however long copies take */
    for (int i = 0; config->params[i] != NULL; i++)
        params[count++] = config->params[i];
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        params[count++] = more[i];
    assert_true(count < CLUSTER_PARAMS_MAX);
    assert_int_equal(mbx_open(&open, &ep), 0);
    return ep;
}

/* Opens an endpoint that knows more than one host. */
static struct mbx_ep *open_on_host(const struct configuration *config, int host,
                                   const char *const *more)
{
    const char *with[CLUSTER_PARAMS_MAX] = {host == 0 ? "FAULT_HOST=1" : "FAULT_HOST=2"};

    if (!config_has_param(config, "TRANSPORT=shm+ofi"))
        return cluster_open_one(config, more);
    for (int i = 0; more != NULL && more[i] != NULL; i++) {
        assert_true(i + 2 < CLUSTER_PARAMS_MAX);
        with[i + 1] = more[i];
    }
    return cluster_open_one(config, with);
}

static void cluster_connect(struct cluster *cl)
{
    struct mbx_address address;
    uint32_t number = 99;

    for (int i = 0; i < cl->count; i++) {
        for (int j = 0; j < cl->count; j++) {
            assert_int_equal(mbx_address_get(cl->eps[j], &address), 0);
            assert_int_equal(mbx_peer_add(cl->eps[i], &address, &number), 0);
            assert_int_equal(number, j);
        }
    }
}

void cluster_open(struct cluster *cl, const struct configuration *config, int count,
                  const char *const *more)
{
    *cl = (struct cluster){.config = config, .count = count};
    cl->mem = mem_live();
    cl->fds = sys_fds_live();
    cl->maps = sys_maps_live();
    for (int i = 0; i < count; i++)
        cl->eps[i] = open_on_host(config, i % 2, more);
    cluster_connect(cl);
}

void cluster_check_extra_credit(const struct mbx_ep *ep)
{
    const struct credit_pool *pool = ep_credit(ep);
    uint64_t sum = pool->extra;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        const struct credit *credit;

        if (!peer_is_used(ep, i))
            continue;
        credit = peer_credit(peer_get(ep, i));
        sum += (credit->window - pool->window) * CREDIT_ENVELOPE;
        sum += credit->window_payload - pool->window_payload;
    }
    assert_int_equal(sum, pool->extra_all);
}

int cluster_close_one(struct cluster *cl, int who)
{
    int err;

    cluster_check_extra_credit(cl->eps[who]);
    err = mbx_close(cl->eps[who]);

    cl->eps[who] = NULL;
    return err;
}

void cluster_close(struct cluster *cl)
{
    for (int i = 0; i < cl->count; i++)
        if (cl->eps[i] != NULL)
            cluster_close_one(cl, i);
    assert_int_equal(mem_live(), cl->mem);
    assert_int_equal(sys_fds_live(), cl->fds);
    assert_int_equal(sys_maps_live(), cl->maps);
}

int cluster_progress(struct cluster *cl)
{
    int moved = 0;

    for (int i = 0; i < cl->count; i++)
        if (cl->eps[i] != NULL)
            moved += mbx_progress(cl->eps[i]);
    return moved;
}

/* Returns how often the device of an endpoint found nothing to do. */
static uint64_t idle_rounds(const struct cluster *cl, int who)
{
    struct offload *offload = cl->eps[who] != NULL ? cl->eps[who]->offload : NULL;

    return offload == NULL || offload->shadow.is_lost
               ? UINT64_MAX
               : offload->driver->idle_rounds(offload->device);
}

/* Waits until every device in another thread or process has polled and found nothing to do;
 * returns how much moved here. */
static int devices_settle(struct cluster *cl)
{
    uint64_t before[CLUSTER_MAX];
    int moved = 0;

    for (int i = 0; i < cl->count; i++)
        before[i] = idle_rounds(cl, i);
    for (int i = 0; i < cl->count; i++)
        while (before[i] != UINT64_MAX && idle_rounds(cl, i) < before[i] + IDLE_ROUNDS) {
            moved += cluster_progress(cl);
            sched_yield();
        }
    return moved;
}

/* Returns the part of an endpoint that is the network; or NULL. */
static struct transport *network_of(const struct mbx_ep *ep)
{
    struct transport *t =
        ep != NULL ? transport_network(transport_fault_inner(ep->net.transport)) : NULL;

    return t != NULL && hosts_is_network(t) ? t : NULL;
}

bool cluster_is_under_way(struct mbx_ep *const *eps, int count)
{
    uint64_t begun, ended, balance = 0;

    for (int i = 0; i < count; i++) {
        struct transport *t = network_of(eps[i]);

        if (t == NULL)
            continue;
        if (!t->ops->is_flushed(t))
            return true;
        t->ops->network->count(t, &begun, &ended);
        balance += begun - ended;
    }
    return balance != 0;
}

static bool is_anybody_closed(const struct cluster *cl)
{
    for (int i = 0; i < cl->count; i++)
        if (cl->eps[i] == NULL)
            return true;
    return false;
}

void cluster_settle(struct cluster *cl)
{
    uint64_t most = is_anybody_closed(cl) ? UNDER_WAY_ROUNDS : SLOW_ROUNDS, under_way = 0;

    for (int idle = 0; idle < SETTLED_ROUNDS; idle++) {
        bool has_moved = cluster_progress(cl) > 0;

        under_way = has_moved ? 0 : under_way + 1;
        if (has_moved || (under_way < most && cluster_is_under_way(cl->eps, cl->count)))
            idle = 0;
        if (under_way > SETTLED_ROUNDS)
            sched_yield(); /* let the process or thread run that carries it */
    }
    /* twice: a device may have been waiting for the results of the first pass */
    for (int pass = 0; is_elsewhere && pass < 2; pass++)
        if (devices_settle(cl) + cluster_progress(cl) > 0)
            pass = -1;
}

void cluster_wait(struct cluster *cl, int who, mbx_request request,
                  struct mbx_completion *completion)
{
    for (int idle = 0; idle < test_patience(); idle++) {
        int done = mbx_test(cl->eps[who], request, completion);

        assert_true(done >= 0);
        if (done == 1)
            return;
        if (cluster_progress(cl) > 0)
            idle = 0;
    }
    fail_msg("request %llx of endpoint %d never completes", (unsigned long long)request, who);
}

void cluster_wait_error(struct cluster *cl, int who, mbx_request request, int error)
{
    struct mbx_completion completion;

    cluster_wait(cl, who, request, &completion);
    assert_int_equal(completion.error, error);
}

/* How often a probe is repeated: it queries the sender, finds nothing although a message was
 * about to be held there, and queries it again. */
static int probe_rounds(const struct cluster *cl)
{
    return config_window(cl->config) == UINT64_MAX ? 1 : 4;
}

int cluster_probe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                  uint64_t tag, uint64_t ignore, struct mbx_status *status)
{
    int found = 0;

    for (int round = 0; found == 0 && round < probe_rounds(cl); round++) {
        if (round != 0)
            cluster_settle(cl);
        found = mbx_probe(cl->eps[who], source, context_id, tag, ignore, status);
    }
    return found;
}

int cluster_mprobe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                   uint64_t tag, uint64_t ignore, struct mbx_status *status,
                   mbx_message *message)
{
    int found = 0;

    for (int round = 0; found == 0 && round < probe_rounds(cl); round++) {
        if (round != 0)
            cluster_settle(cl);
        found = mbx_mprobe(cl->eps[who], source, context_id, tag, ignore, status, message);
    }
    return found;
}

uint64_t cluster_waiting(const struct cluster *cl)
{
    uint64_t waiting = 0;

    for (int i = 0; i < cl->count; i++)
        if (cl->eps[i] != NULL)
            waiting += cluster_stats(cl, i).unexpected_now + cluster_stats(cl, i).deferred_now +
                       cluster_stats(cl, i).pulled_by_peers - cluster_stats(cl, i).pulled;
    return waiting;
}

struct stats cluster_stats(const struct cluster *cl, int who)
{
    struct stats stats;

    stats_read(cl->eps[who], &stats);
    return stats;
}

bool cluster_has_buffers(const struct cluster *cl, int who, uint32_t peer)
{
    return transport_bounce_can_take(peer_get(cl->eps[who], peer)->link);
}

void cluster_check_buffers(const struct cluster *cl, int who, uint32_t peer)
{
    struct link *link = peer_get(cl->eps[who], peer)->link;
    uint32_t buffers[SEGMENT_BUFFERS + 1], count = 0;
    size_t size;

    if (!transport_bounce_can_take(link))
        return;
    /* faults refuse a buffer sometimes, but not so often in a row */
    for (unsigned refused = 0; refused < SETTLED_ROUNDS && count <= SEGMENT_BUFFERS;)
        if (transport_bounce_take(link, &buffers[count], &size) != NULL)
            count++;
        else
            refused++;
    assert_int_equal(count, SEGMENT_BUFFERS);
    while (count > 0)
        transport_bounce_untake(link, buffers[--count]);
}

int cluster_protocols(struct mbx_ep *ep, uint32_t peer, struct mbx_protocol_row *rows)
{
    struct mbx_protocol_row row;
    int count = 0;

    while (mbx_protocol_get(ep, peer, (unsigned)count, &row, sizeof row) == 0) {
        assert_true(count < MBX_PROTOCOLS);
        rows[count++] = row;
    }
    return count;
}

size_t cluster_size_of(const struct cluster *cl, enum mbx_protocol protocol)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    int count = cluster_protocols(cl->eps[0], 1, rows);
    size_t below = 0;

    for (int i = 0; i < count; i++) {
        if (rows[i].protocol == protocol)
            return min_size(rows[i].max_size, below + 3000);
        below = rows[i].max_size;
    }
    return 0;
}

static void data_begin(uint64_t *words)
{
    struct random r;

    random_seed(&r, 1);
    for (size_t i = 0; i < PERIOD / sizeof *words; i++)
        words[i] = random_next(&r);
}

const unsigned char *seeded_bytes(unsigned seed, size_t size)
{
    static unsigned char *data;
    static size_t made; /* bytes made so far; unused pages cost nothing */
    size_t wanted = min_size(round_up(size + 4096, DATA_STEP), SEEDED_BYTES_MAX);

    assert_true(size + 4096 <= SEEDED_BYTES_MAX);
    if (data == NULL) {
        data = aligned_alloc(4096, SEEDED_BYTES_MAX);
        data_begin((uint64_t *)(uintptr_t)data);
        made = PERIOD;
    }
    for (; made < wanted; made += min_size(PERIOD, wanted - made))
        memcpy(data + made, data + made % PERIOD, min_size(PERIOD, wanted - made));
    return data + seed % 4096;
}

void guarded_buffer_init(struct guarded_buffer *b, size_t size, unsigned align)
{
    b->size = size;
    b->memory = aligned_alloc(64, round_up(size + 2 * GUARD + align, 64));
    b->bytes = b->memory + GUARD + align;
    memset(b->memory, GUARD_BYTE, round_up(size + 2 * GUARD + align, 64));
}

/* One memcmp() compares each byte with the next one, and is one access for a sanitizer. */
size_t count_of_byte(const unsigned char *bytes, size_t size, unsigned char byte)
{
    size_t at = 0;

    if (size == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, size - 1) == 0))
        return size;
    while (bytes[at] == byte)
        at++;
    return at;
}

void guarded_buffer_fini(struct guarded_buffer *b, size_t used)
{
    size_t before = (size_t)(b->bytes - b->memory), behind = b->size - used + GUARD;

    assert_int_equal(count_of_byte(b->memory, before, GUARD_BYTE), before);
    assert_int_equal(count_of_byte(b->bytes + used, behind, GUARD_BYTE), behind);
    free(b->memory);
}
