/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_adapter_test.c - which of a client's receives are posted to an adapter: the receives
 * that compare no bit of a tag that the adapter does not compare
 * (src/transport/verbs/verbs_frame.h).
 *
 *   provider_adapter_test     with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * The tags are laid out as in MPICH 4.0: 31 bits of tag, 20 of context id, and above them the
 * kind of the message.  Each receive ignores three of the bits of the kind.
 */
#include "../../src/base/temporary.h"
#include "provider_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT     UINT64_C(0x007000007fffffff) /* mem_tag_format, as MPICH asks for it */
#define KINDS      (UINT64_C(7) << 52)
#define SYNC       (UINT64_C(1) << 52)
#define ACK        (UINT64_C(1) << 51) /* no receive of messages ignores this bit */
#define CONTEXT(n) ((uint64_t)(n) << 31)
#define ANY_TAG    UINT64_C(0x7fffffff)
#define MESSAGES   20
#define SIZE       2000

static char path[TEMPORARY_SIZE];
static unsigned char in_buf[MESSAGES][SIZE], out_buf[MESSAGES][SIZE];
static int contexts[MESSAGES];

/* The sum over all endpoints that were closed since the last call. */
static unsigned long matched_by_adapter(void)
{
    static const char name[] = "device_matched=";
    unsigned long sum = 0;
    char line[4096];
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *found = strstr(line, name);

        if (found != NULL)
            sum += strtoul(found + strlen(name), NULL, 10);
    }
    fclose(file);
    assert_int_equal(truncate(path, 0), 0);
    return sum;
}

/* Receive i of node 1 accepts the message with the i-th of these tags; the last four accept
 * any. */
static uint64_t tag_of(int i, uint64_t more)
{
    return CONTEXT(5) | more | (uint64_t)i;
}

/* Returns how many of the messages, each with these bits, the adapter has matched. */
static unsigned long exchange(uint64_t format, uint64_t more)
{
    const struct setup setup = {.tag_format = format};
    struct fi_cq_tagged_entry e;
    struct fixture fix;

    fixture_open(&fix, &setup);
    for (int i = 0; i < MESSAGES; i++) {
        const bool is_any = i >= MESSAGES - 4;

        memset(in_buf[i], 0, SIZE);
        memset(out_buf[i], i + 1, SIZE);
        assert_int_equal(fi_trecv(fix.node[1].ep, in_buf[i], SIZE, NULL, fix.addr[0],
                                  is_any ? CONTEXT(5) | more : tag_of(i, more),
                                  is_any ? KINDS | ANY_TAG : KINDS, &contexts[i]),
                         0);
    }
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(fi_tsenddata(fix.node[0].ep, out_buf[i], SIZE, NULL, 7, fix.addr[1],
                                      tag_of(i, more) | (i % 3 == 0 ? SYNC : 0), NULL),
                         0);
    for (int i = 0; i < MESSAGES; i++) {
        int at;

        assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
        at = (int)((int *)e.op_context - contexts);
        assert_in_range(at, 0, MESSAGES - 1);
        assert_int_equal(e.tag, tag_of(at, more) | (at % 3 == 0 ? SYNC : 0));
        assert_int_equal(e.data, 7);
        assert_memory_equal(in_buf[at], out_buf[at], SIZE);
    }
    fixture_close(&fix);
    return matched_by_adapter();
}

static void the_highest_field_and_the_lowest_bits_are_compared(void **state)
{
    (void)state;
    assert_int_equal(exchange(FORMAT, 0), MESSAGES);
    assert_int_equal(exchange(FORMAT, CONTEXT(1) << 12), MESSAGES);
}

static void messages_with_other_bits_meet_their_receives_in_software(void **state)
{
    (void)state;
    assert_int_equal(exchange(FORMAT, CONTEXT(1) << 13), 0);
    assert_int_equal(exchange(FORMAT, ACK), 0);
}

/* The bits are above the 47 that were announced. */
static void receives_that_ignore_other_bits_are_softwares(void **state)
{
    (void)state;
    assert_int_equal(exchange(0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_field_and_the_lowest_bits_are_compared),
        cmocka_unit_test(messages_with_other_bits_meet_their_receives_in_software),
        cmocka_unit_test(receives_that_ignore_other_bits_are_softwares),
    };
    const int file = mkstemp(temporary_name(path, "stats"));
    int failed;

    if (file < 0) {
        perror(path);
        return 1;
    }
    close(file);
    setenv("MBX_TRANSPORT", "verbs", 1);
    setenv("MBX_DEVICE", "verbs", 1);
    setenv("MBX_STATS_FILE", path, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
