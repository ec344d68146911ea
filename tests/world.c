/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.c - opening, moving and closing a world of endpoints.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"

/* Rounds without movement after which a world is taken to be at rest; far more than
 * faults hold back in a row. */
#define SETTLED_ROUNDS 100

/* Of the data: no multiple of anything that is a power of two, but of 8. */
#define PERIOD     ((size_t)8 * 125003)

#define GUARD      64
#define GUARD_BYTE 0xA5

const struct world_config world_configs[] = {
    {"loop", false, false, {"TRANSPORT=loop"}},
    {"loop-fault", false, true, {"TRANSPORT=loop", "FAULT_PERCENT=30", "FAULT_SEED=3"}},
    {"loop-depth-1", false, false, {"TRANSPORT=loop", "LOOP_DEPTH=1", "READ_CHUNK=4K"}},
    {"loop-data", false, false, {"TRANSPORT=loop", "RNDV=data", "EARLY_DATA=0"}},
    {"loop-eager-0", false, false, {"TRANSPORT=loop", "EAGER_LIMIT=0", "INJECT_LIMIT=100"}},
    {"loop-eager-1m",
     false,
     true,
     {"TRANSPORT=loop", "EAGER_LIMIT=1M", "INJECT_LIMIT=1M", "FAULT_PERCENT=10"}},
    {"shm", true, false, {"TRANSPORT=shm"}},
    {"shm-fault", true, true, {"TRANSPORT=shm", "FAULT_PERCENT=30", "FAULT_SEED=5"}},
    {"shm-no-attach", true, false, {"TRANSPORT=shm", "SHM_ATTACH=no"}},
    {"shm-data-fault", true, true, {"TRANSPORT=shm", "RNDV=data", "FAULT_PERCENT=10"}},
    {"shm-ring-4k", true, false, {"TRANSPORT=shm", "SHM_RING_SIZE=4K", "READ_CHUNK=4K"}},
    {"shm-eager-64", true, false, {"TRANSPORT=shm", "EAGER_LIMIT=64", "EARLY_DATA=0"}},
    {"shm-eager-1m", true, false, {"TRANSPORT=shm", "EAGER_LIMIT=1M", "SHM_RING_SIZE=8K"}},
    {NULL, false, false, {NULL}},
};

static bool is_quick;

bool world_is_quick(void)
{
    return is_quick;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    int named = 0;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;
        named++;
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return named == 0;
}

/* Was the library built with the transport of this configuration? */
static bool is_built(const struct world_config *config)
{
    const char *name, *about;

    for (unsigned i = 0; mbx_transport_get(i, &name, &about) == 0; i++)
        if (strcmp(config->params[0] + strlen("TRANSPORT="), name) == 0)
            return true;
    return false;
}

static bool is_known(const char *name)
{
    for (const struct world_config *c = world_configs; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return true;
    return false;
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            is_quick = true;
        } else if (!is_known(argv[i])) {
            fprintf(stderr, "unknown argument '%s'; --quick, or of:", argv[i]);
            for (const struct world_config *c = world_configs; c->name != NULL; c++)
                fprintf(stderr, " %s", c->name);
            fprintf(stderr, "\n");
            exit(2);
        }
    }
}

int world_main(int argc, char **argv, const struct CMUnitTest *each, size_t count)
{
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    int failed = 0;

    read_arguments(argc, argv);
    for (const struct world_config *c = world_configs; c->name != NULL; c++) {
        if (!is_wanted(c->name, argc, argv) || !is_built(c))
            continue;
        memcpy(tests, each, count * sizeof *tests);
        for (size_t i = 0; i < count; i++)
            tests[i].initial_state = (void *)(uintptr_t)c;
        failed += _cmocka_run_group_tests(c->name, tests, count, NULL, NULL);
    }
    free(tests);
    return failed == 0 ? 0 : 1;
}

struct mbx_ep *world_open_one(const struct world_config *config, const char *const *more)
{
    const char *params[WORLD_PARAMS_MAX] = {NULL};
    struct mbx_config open = {.params = params};
    struct mbx_ep *ep = NULL;
    int count = 0;

    for (int i = 0; config->params[i] != NULL; i++)
        params[count++] = config->params[i];
    for (int i = 0; more != NULL && more[i] != NULL; i++)
        params[count++] = more[i];
    assert_true(count < WORLD_PARAMS_MAX);
    assert_int_equal(mbx_open(&open, &ep), 0);
    return ep;
}

static void world_connect(struct world *w)
{
    struct mbx_address address;
    uint32_t number = 99;

    for (int i = 0; i < w->count; i++) {
        for (int j = 0; j < w->count; j++) {
            assert_int_equal(mbx_address_get(w->eps[j], &address), 0);
            assert_int_equal(mbx_peer_add(w->eps[i], &address, &number), 0);
            assert_int_equal(number, j);
        }
    }
}

void world_open(struct world *w, const struct world_config *config, int count,
                const char *const *more)
{
    *w = (struct world){.config = config, .count = count};
    w->mem = mem_live();
    w->fds = sys_fds_live();
    w->maps = sys_maps_live();
    for (int i = 0; i < count; i++)
        w->eps[i] = world_open_one(config, more);
    world_connect(w);
}

int world_close_one(struct world *w, int who)
{
    int err = mbx_close(w->eps[who]);

    w->eps[who] = NULL;
    return err;
}

void world_close(struct world *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->eps[i] != NULL)
            world_close_one(w, i);
    assert_int_equal(mem_live(), w->mem);
    assert_int_equal(sys_fds_live(), w->fds);
    assert_int_equal(sys_maps_live(), w->maps);
}

int world_progress(struct world *w)
{
    int moved = 0;

    for (int i = 0; i < w->count; i++)
        if (w->eps[i] != NULL)
            moved += mbx_progress(w->eps[i]);
    return moved;
}

void world_settle(struct world *w)
{
    for (int idle = 0; idle < SETTLED_ROUNDS; idle++)
        if (world_progress(w) > 0)
            idle = 0;
}

void world_wait(struct world *w, int who, mbx_request request,
                struct mbx_completion *completion)
{
    for (int idle = 0; idle < WORLD_IDLE_ROUNDS; idle++) {
        int done = mbx_test(w->eps[who], request, completion);

        assert_true(done >= 0);
        if (done == 1)
            return;
        if (world_progress(w) > 0)
            idle = 0;
    }
    fail_msg("request %llx of endpoint %d never completes", (unsigned long long)request, who);
}

void world_wait_error(struct world *w, int who, mbx_request request, int error)
{
    struct mbx_completion completion;

    world_wait(w, who, request, &completion);
    assert_int_equal(completion.error, error);
}

struct mbx_stats world_stats(const struct world *w, int who)
{
    struct mbx_stats stats;

    assert_int_equal(mbx_stats_get(w->eps[who], &stats), 0);
    return stats;
}

int world_protocols(struct mbx_ep *ep, uint32_t peer, struct mbx_protocol_row *rows)
{
    int count = 0;

    while (mbx_protocol_get(ep, peer, (unsigned)count, &rows[count]) == 0)
        count++;
    return count;
}

size_t world_size_of(const struct world *w, enum mbx_protocol protocol)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    int count = world_protocols(w->eps[0], 1, rows);
    size_t below = 0;

    for (int i = 0; i < count; i++) {
        if (rows[i].protocol == protocol)
            return min_size(rows[i].max_size, below + 3000);
        below = rows[i].max_size;
    }
    return 0;
}

const unsigned char *world_data(unsigned seed, size_t size)
{
    static uint64_t *data;
    struct random r;

    assert_true(size + 4096 <= WORLD_DATA_MAX);
    if (data == NULL) {
        data = aligned_alloc(4096, WORLD_DATA_MAX);
        random_seed(&r, 1);
        for (size_t i = 0; i < PERIOD / sizeof *data; i++)
            data[i] = random_next(&r);
        for (size_t at = PERIOD; at < WORLD_DATA_MAX; at += PERIOD)
            memcpy((char *)data + at, data, min_size(PERIOD, WORLD_DATA_MAX - at));
    }
    return (unsigned char *)data + seed % 4096;
}

void world_buffer_init(struct world_buffer *b, size_t size, unsigned align)
{
    b->size = size;
    b->memory = aligned_alloc(64, round_up(size + 2 * GUARD + align, 64));
    b->bytes = b->memory + GUARD + align;
    memset(b->memory, GUARD_BYTE, round_up(size + 2 * GUARD + align, 64));
}

void world_buffer_fini(struct world_buffer *b, size_t used)
{
    for (unsigned char *p = b->memory; p < b->bytes; p++)
        assert_int_equal(*p, GUARD_BYTE);
    for (unsigned char *p = b->bytes + used; p < b->bytes + b->size + GUARD; p++)
        assert_int_equal(*p, GUARD_BYTE);
    free(b->memory);
}
