/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_test.c - a callback gets the lines of the log, and one line names the wrong argument of a
 * call.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define KEY 4

static struct {
    unsigned count;
    enum mbx_log_level level;
    char text[256];
} last;

static int user;

static void keep(void *arg, enum mbx_log_level level, const char *text)
{
    assert_ptr_equal(arg, &user);
    last.count++;
    last.level = level;
    strncpy(last.text, text, sizeof last.text - 1);
}

/* The call was refused, and one line gave the reason. */
static void refused(int result, const char *begin)
{
    assert_int_equal(result, -EINVAL);
    assert_int_equal(last.count, 1);
    assert_int_equal(last.level, MBX_LOG_DEBUG);
    if (strncmp(last.text, begin, strlen(begin)) != 0)
        fail_msg("the line is '%s', not '%s...'", last.text, begin);
    last.count = 0;
}

static void open_with(struct cluster *cl, void **state, const char *level)
{
    cluster_open(cl, *state, 1, (const char *[]){level, NULL});
    mbx_log_callback(keep, &user);
    last.count = 0;
}

static void close_all(struct cluster *cl)
{
    mbx_log_callback(NULL, NULL);
    cluster_close(cl);
}

static void the_argument_of_a_message_is_named(void **state)
{
    static const struct mbx_options unknown = {.flags = 1u << 20}, none = {.flags = MBX_LAYOUT};
    struct mbx_status status;
    mbx_message message;
    struct mbx_ep *ep;
    struct cluster cl;

    open_with(&cl, state, "LOG_LEVEL=debug");
    ep = cl.eps[0];
    refused(mbx_send(ep, 9, 1, 2, NULL, 0, NULL, NULL), "an operation: peer 9 : no such peer");
    refused(mbx_send(ep, 0, UINT32_MAX, 2, NULL, 0, NULL, NULL),
            "mbx_send: context_id 4294967295 :");
    refused(mbx_ssend(ep, 0, 1, 2, NULL, 7, NULL, NULL), "mbx_ssend: buf 0 : NULL");
    refused(mbx_send(ep, 0, 1, 2, "", UINT64_C(1) << 60, NULL, NULL),
            "mbx_send: size 1152921504606846976 :");
    refused(mbx_send(ep, 0, 1, 2, NULL, 0, &unknown, NULL),
            "mbx_send: options->flags 1048576 : unknown flag");
    refused(mbx_send(ep, 0, 1, 2, NULL, 0, &none, NULL), "mbx_send: options->layout 0 :");
    refused(mbx_inject(ep, 0, 1, 2, NULL, 7, 0), "mbx_inject: buf 0 :");
    refused(mbx_recv(ep, 9, 1, 2, 0, NULL, 0, NULL, NULL), "mbx_recv: source 9 : no such peer");
    refused(mbx_recv(ep, 0, UINT32_MAX, 2, 0, NULL, 0, NULL, NULL), "mbx_recv: context_id 429");
    refused(mbx_recv(ep, 0, 1, 2, 0, NULL, 7, NULL, NULL), "mbx_recv: buf 0 : NULL");
    refused(mbx_recv(ep, 0, 1, 2, 0, NULL, 0, &unknown, NULL), "mbx_recv: options->flags 104");
    refused(mbx_mrecv(ep, 5, NULL, 7, NULL, NULL), "mbx_mrecv: buf 0 :");
    refused(mbx_probe(ep, 9, 1, 2, 0, &status), "mbx_probe: source 9 :");
    refused(mbx_mprobe(ep, 9, 1, 2, 0, &status, &message), "mbx_mprobe: source 9 :");
    close_all(&cl);
}

static void the_argument_of_a_wait_is_named(void **state)
{
    const struct mbx_sleep_hooks hooks = {.flags = 2};
    struct mbx_completion entry;
    mbx_request request = 0;
    struct mbx_ep *ep;
    struct cluster cl;
    int index;

    open_with(&cl, state, "LOG_LEVEL=debug");
    ep = cl.eps[0];
    refused(mbx_poll(ep, 0, &entry, 1), "mbx_poll: queues 0 :");
    refused(mbx_poll(ep, MBX_SENDS, NULL, 1), "mbx_poll: entries 0 : NULL");
    refused(mbx_ready(ep, 4096), "mbx_ready: queues 4096 :");
    refused(mbx_wait_queues(ep, 0, 0), "mbx_wait_queues: queues 0 :");
    refused(mbx_sleep(ep, 0, &hooks), "mbx_sleep: hooks->flags 2 :");
    refused(mbx_wait_all(ep, &request, -1, 0, NULL), "mbx_wait_all: count 184467440737095516");
    refused(mbx_wait_some(ep, NULL, 1, 0, &index, NULL), "mbx_wait_some: requests 0 :");
    refused(mbx_wait_any(ep, &request, 1, 0, NULL, NULL), "mbx_wait_any: indices 0 :");
    refused(mbx_arm(ep), "mbx_arm: ep 0 : mbx_fd()");
    refused(mbx_disarm(ep), "mbx_disarm: ep 0 : mbx_fd()");
    close_all(&cl);
}

static void the_argument_of_an_access_is_named(void **state)
{
    uint64_t word = 0;
    const struct mbx_options unknown = {.flags = 1u << 20};
    const struct mbx_region rights = {.buf = &word, .size = 8, .rights = 64};
    const struct mbx_region wraps = {.buf = &word, .size = 8, .address = UINT64_MAX};
    struct mbx_atomic_args atomic = {.op = MBX_SUM, .type = MBX_UINT64, .operand = &word};
    struct mbx_ep *ep;
    struct cluster cl;

    open_with(&cl, state, "LOG_LEVEL=debug");
    ep = cl.eps[0];
    refused(mbx_register(ep, KEY, &rights), "mbx_register: region->rights 64 :");
    refused(mbx_register(ep, KEY, &wraps), "mbx_register: region->address 184467");
    refused(mbx_write(ep, 0, NULL, 8, KEY, 0, NULL, NULL), "mbx_write: buf 0 :");
    refused(mbx_read(ep, 0, &word, 8, KEY, UINT64_MAX, NULL, NULL), "mbx_read: address 18446");
    refused(mbx_read(ep, 0, &word, 8, KEY, 0, &unknown, NULL), "mbx_read: options->flags 104");
    refused(mbx_atomic(ep, 0, &atomic, NULL, NULL), "mbx_atomic: atomic->count 0 :");
    atomic.count = 1;
    refused(mbx_atomic(ep, 0, &atomic, &unknown, NULL), "mbx_atomic: options->flags 10485");
    atomic.address = UINT64_MAX;
    refused(mbx_atomic(ep, 0, &atomic, NULL, NULL), "mbx_atomic: atomic->address 184467");
    close_all(&cl);
}

static void the_argument_of_a_question_is_named(void **state)
{
    static const struct mbx_address address;
    const struct mbx_config config = {.flags = 4};
    struct mbx_address found;
    struct mbx_protocol_row row;
    struct mbx_limits limits;
    uint64_t value;
    uint32_t number;
    struct mbx_ep *other;
    struct mbx_ep *ep;
    struct cluster cl;

    open_with(&cl, state, "LOG_LEVEL=debug");
    ep = cl.eps[0];
    refused(mbx_open(&config, &other), "mbx_open: config->flags 4 :");
    refused(mbx_peer_add(ep, &address, &number), "mbx_peer_add: address 0000");
    refused(mbx_peer_address(ep, 9, &found), "mbx_peer_address: peer 9 :");
    refused(mbx_protocol_get(ep, 9, 0, &row, sizeof row), "mbx_protocol_get: peer 9 :");
    refused(mbx_limits_get(ep, &limits, 1), "mbx_limits_get: size 1 :");
    refused(mbx_stats_read(ep, &value, -1), "mbx_stats_read: count 1844");
    refused(mbx_stats_read(ep, NULL, 1), "mbx_stats_read: values 0 :");
    close_all(&cl);
}

/* Below the debug level there is no line.  No line comes to a callback that was removed. */
static void nobody_else_is_told(void **state)
{
    struct cluster cl;

    open_with(&cl, state, "LOG_LEVEL=info");
    assert_int_equal(mbx_recv(cl.eps[0], 9, 1, 2, 0, NULL, 0, NULL, NULL), -EINVAL);
    assert_int_equal(last.count, 0);
    close_all(&cl);
    open_with(&cl, state, "LOG_LEVEL=debug");
    mbx_log_callback(NULL, NULL);
    assert_int_equal(mbx_recv(cl.eps[0], 9, 1, 2, 0, NULL, 0, NULL, NULL), -EINVAL);
    assert_int_equal(last.count, 0);
    cluster_close(&cl);
}

/* The log is the same over every transport. */
static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0 || strcmp(config->name, "loop-soft") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_argument_of_a_message_is_named),
        cmocka_unit_test(the_argument_of_a_wait_is_named),
        cmocka_unit_test(the_argument_of_an_access_is_named),
        cmocka_unit_test(the_argument_of_a_question_is_named),
        cmocka_unit_test(nobody_else_is_told),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
