/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * structures_test.c - structures of the interface can grow without harm to programs that were
 * compiled earlier (matchbox.h, "Structures").
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include <matchbox/device.h>

#include "base/base.h"

/* ---- fixed sizes, and the fields of the first version ---- */

#if defined(__LP64__)
static_assert(sizeof(struct mbx_address) == 64, "fixed");
static_assert(sizeof(struct mbx_status) == 32, "fixed");
static_assert(sizeof(struct mbx_completion) == 64, "fixed");
static_assert(offsetof(struct mbx_completion, status) == 32, "fixed");
/* A structure that a caller passes may only grow, and a flag says so. */
static_assert(sizeof(struct mbx_config) >= 24, "only grows");
static_assert(sizeof(struct mbx_options) >= 24, "only grows");
static_assert(sizeof(struct mbx_region) >= 32, "only grows");
static_assert(sizeof(struct mbx_atomic_args) >= 64, "only grows");
static_assert(sizeof(struct mbx_sleep_hooks) >= 32, "only grows");
static_assert(offsetof(struct mbx_config, flags) == 16, "in its place");
static_assert(offsetof(struct mbx_options, flags) == 16, "in its place");
static_assert(offsetof(struct mbx_region, flags) == 28, "in its place");
static_assert(offsetof(struct mbx_atomic_args, flags) == 56, "in its place");
static_assert(offsetof(struct mbx_sleep_hooks, flags) == 24, "in its place");
#endif

/* ---- structures that the library fills ---- */

#define CAPACITY 2048
#define MARK     0xa5

static const uint64_t key = 5;

static int fill_param(struct cluster *cl, void *out, size_t size)
{
    (void)cl;
    return mbx_param_get(0, out, size);
}

static int fill_limits(struct cluster *cl, void *out, size_t size)
{
    return mbx_limits_get(cl->eps[0], out, size);
}

static int fill_served(struct cluster *cl, void *out, size_t size)
{
    return mbx_served_get(cl->eps[0], out, size);
}

static int fill_region_served(struct cluster *cl, void *out, size_t size)
{
    return mbx_region_served(cl->eps[0], key, out, size);
}

static int fill_stat(struct cluster *cl, void *out, size_t size)
{
    (void)cl;
    return mbx_stat_get(0, out, size);
}

static int fill_protocol(struct cluster *cl, void *out, size_t size)
{
    return mbx_protocol_get(cl->eps[0], MBX_ANY_SOURCE, 0, out, size);
}

static int fill_device(struct cluster *cl, void *out, size_t size)
{
    (void)cl;
    return mbx_device_get(0, out, size);
}

/* first: the size in the first version, on a 64-bit machine */
static const struct filled {
    const char *name;
    int (*fill)(struct cluster *cl, void *out, size_t size);
    size_t now, first;
} filled[] = {
    {"mbx_param", fill_param, sizeof(struct mbx_param), 704},
    {"mbx_limits", fill_limits, sizeof(struct mbx_limits), 56},
    {"mbx_served", fill_served, sizeof(struct mbx_served), 24},
    {"mbx_served of a region", fill_region_served, sizeof(struct mbx_served), 24},
    {"mbx_stat", fill_stat, sizeof(struct mbx_stat), 24},
    {"mbx_protocol_row", fill_protocol, sizeof(struct mbx_protocol_row), 16},
    {"mbx_device_info", fill_device, sizeof(struct mbx_device_info), 184},
};

static bool is_all(const unsigned char *bytes, size_t count, unsigned char value)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

/* A program of the first version gets its members and not a byte more.  A program of a later
 * version finds 0 in members that do not exist yet.  A size below the first version is
 * refused. */
static void check_filled(struct cluster *cl, const struct filled *f)
{
    unsigned char now[CAPACITY], out[CAPACITY];

    print_message("             %s\n", f->name);
    memset(now, MARK, sizeof now);
    assert_int_equal(f->fill(cl, now, f->now), 0);
    assert_true(is_all(now + f->now, CAPACITY - f->now, MARK));
    memset(out, MARK, sizeof out);
    assert_int_equal(f->fill(cl, out, f->first), 0);
    assert_memory_equal(out, now, f->first - sizeof(uint64_t)); /* without padding at the end */
    assert_true(is_all(out + f->first, CAPACITY - f->first, MARK));
    memset(out, MARK, sizeof out);
    assert_int_equal(f->fill(cl, out, CAPACITY - 1), 0);
    assert_true(is_all(out + f->now, CAPACITY - 1 - f->now, 0));
    assert_int_equal(out[CAPACITY - 1], MARK);
    memset(out, MARK, sizeof out);
    assert_int_equal(f->fill(cl, out, 0), -EINVAL);
    assert_int_equal(f->fill(cl, out, 8), -EINVAL);
    assert_true(is_all(out, CAPACITY, MARK));
}

static void what_is_filled_has_a_size(void **state)
{
    struct cluster cl;
    uint64_t memory = 0;
    const struct mbx_region region = {
        .buf = &memory, .size = sizeof memory, .rights = MBX_REMOTE_READ};

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_register(cl.eps[0], key, &region), 0);
    for (size_t i = 0; i < ARRAY_COUNT(filled); i++)
        check_filled(&cl, &filled[i]);
    assert_int_equal(mbx_deregister(cl.eps[0], key), 0);
    cluster_close(&cl);
}

/* ---- structures that the caller passes ---- */

static void an_unknown_flag_is_refused(void **state)
{
    struct cluster cl;
    uint64_t memory = 0;

    cluster_open(&cl, *state, 1, NULL);
    for (int bit = 4; bit < 32;
         bit++) { /* the first four are known to mbx_options, and two need a member besides */
        const unsigned flags = 1u << bit;
        const struct mbx_options options = {.flags = flags};
        const struct mbx_region region = {.flags = flags};
        const struct mbx_atomic_args atomic = {
            .op = MBX_SUM, .type = MBX_UINT64, .count = 1, .operand = &memory, .flags = flags};
        const struct mbx_sleep_hooks hooks = {.flags = flags};
        const struct mbx_config config = {.flags = flags};
        struct mbx_ep *ep = NULL;
        mbx_request request = 77;

        assert_int_equal(mbx_open(&config, &ep), -EINVAL);
        assert_null(ep);
        assert_int_equal(mbx_sleep(cl.eps[0], 0, &hooks), -EINVAL);
        assert_int_equal(mbx_register(cl.eps[0], key, &region), -EINVAL);
        assert_int_equal(mbx_atomic(cl.eps[0], 0, &atomic, NULL, &request), -EINVAL);
        assert_int_equal(mbx_send(cl.eps[0], 0, 1, 2, NULL, 0, &options, &request), -EINVAL);
        assert_int_equal(mbx_ssend(cl.eps[0], 0, 1, 2, NULL, 0, &options, &request), -EINVAL);
        assert_int_equal(mbx_recv(cl.eps[0], 0, 1, 2, 0, NULL, 0, &options, &request), -EINVAL);
        assert_int_equal(mbx_write(cl.eps[0], 0, NULL, 0, key, 0, &options, &request), -EINVAL);
        assert_int_equal(mbx_read(cl.eps[0], 0, NULL, 0, key, 0, &options, &request), -EINVAL);
        assert_int_equal(request, 77);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_filled_has_a_size),
        cmocka_unit_test(an_unknown_flag_is_refused),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
