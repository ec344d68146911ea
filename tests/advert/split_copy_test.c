/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_copy_test.c - long messages of which the receiver copies one part and the sender the
 * other.
 *
 * Endpoint 0 sends, endpoint 1 receives, and each makes progress only when a test says so.  A
 * single system call would copy its whole part and leave the other side no time.  So the first
 * read, or write, is made to fail with an error after which it is tried again.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/sys.h"
#include "advert/split_copy.h"

#define CONTEXT 31
#define SIZE    ((size_t)100000)
#define POISON  0x77
#define SHARED  "ADVERT=off", "SPLIT_COPY=always", "SPLIT_COPY_SIZE=1000", "LOG_LEVEL=error"

static const char *const shared[] = {SHARED, NULL};
static const char *const hasty[] = {SHARED, "CLOSE_TIMEOUT=0", "PEER_TIMEOUT=20ms", NULL};

static unsigned char buf[2 * SIZE];

static void step(struct cluster *cl, int who)
{
    for (int i = 0; i < 20; i++)
        mbx_progress(cl->eps[who]);
}

static mbx_request send(struct cluster *cl, size_t size)
{
    mbx_request request;

    assert_int_equal(
        mbx_send(cl->eps[0], 1, CONTEXT, 1, seeded_bytes(5, size), size, NULL, &request), 0);
    return request;
}

static mbx_request post(struct cluster *cl, size_t size)
{
    mbx_request request;

    memset(buf, POISON, sizeof buf);
    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, buf, size, NULL, &request), 0);
    return request;
}

static void expect(struct cluster *cl, mbx_request recv, size_t size)
{
    struct mbx_completion done;

    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.received, size);
    assert_memory_equal(buf, seeded_bytes(5, size), size);
    assert_int_equal(buf[size], POISON);
}

static void expect_sent(struct cluster *cl, mbx_request sent)
{
    struct mbx_completion done;

    cluster_wait(cl, 0, sent, &done);
    assert_int_equal(done.error, 0);
}

static unsigned state_of(struct cluster *cl, mbx_request recv)
{
    return request_find(cl->eps[1], recv)->state;
}

/* The receiver has asked the sender to copy a part, and has read nothing yet. */
static mbx_request ask(struct cluster *cl, void **state, const char *const *params,
                       mbx_request *sent)
{
    mbx_request recv;

    cluster_open(cl, *state, 2, params);
    *sent = send(cl, SIZE);
    step(cl, 1);
    sys_fail_name("process_vm_readv", 1, EAGAIN);
    recv = post(cl, SIZE);
    assert_int_equal(state_of(cl, recv), SPLIT_COPY_READ);
    assert_int_equal(ep_advert(cl->eps[1])->announced, 1);
    return recv;
}

/* As ask(), and then the sender has taken its part and written nothing yet, and the receiver
 * has read its own part. */
static mbx_request wait_for_sender(struct cluster *cl, void **state, const char *const *params,
                                   mbx_request *sent)
{
    mbx_request recv = ask(cl, state, params, sent);

    sys_fail_name("process_vm_writev", SYS_FAIL_ALWAYS, EAGAIN);
    step(cl, 0);
    step(cl, 1);
    assert_int_equal(state_of(cl, recv), SPLIT_COPY_FILLING);
    return recv;
}

/* ---- the parts of sender and receiver ---- */

static void test_the_sender_is_first(void **state)
{
    mbx_request recv, sent;
    struct cluster cl;

    recv = ask(&cl, state, shared, &sent);
    step(&cl, 0);
    assert_int_equal(buf[0], POISON);
    assert_memory_equal(buf + SIZE / 2, seeded_bytes(5, SIZE) + SIZE / 2, SIZE / 2);
    expect(&cl, recv, SIZE);
    expect_sent(&cl, sent);
    assert_int_equal(cluster_stats(&cl, 1).split_copy_parts, 1);
    assert_int_equal(cluster_stats(&cl, 1).received_bytes[MBX_RNDV_READ], SIZE);
    assert_int_equal(cluster_stats(&cl, 0).sent[MBX_RNDV_READ], 1);
    assert_int_equal(ep_advert(cl.eps[1])->announced, 0);
    cluster_close(&cl);
}

static void test_the_receiver_waits_for_the_sender(void **state)
{
    mbx_request recv, sent;
    struct cluster cl;

    recv = wait_for_sender(&cl, state, shared, &sent);
    assert_memory_equal(buf, seeded_bytes(5, SIZE), SIZE / 4);
    assert_int_equal(buf[SIZE - 1], POISON);
    assert_int_equal(mbx_cancel(cl.eps[1], recv), -EALREADY);
    sys_fail_none();
    expect(&cl, recv, SIZE);
    expect_sent(&cl, sent);
    assert_int_equal(cluster_stats(&cl, 1).split_copy_parts, 1);
    cluster_close(&cl);
}

static void test_a_sender_that_does_not_look_is_not_waited_for(void **state)
{
    struct mbx_completion done;
    mbx_request recv, sent;
    struct cluster cl;

    recv = ask(&cl, state, shared, &sent);
    step(&cl, 1);
    assert_int_equal(mbx_test(cl.eps[1], recv, &done), 1);
    assert_memory_equal(buf, seeded_bytes(5, SIZE), SIZE);
    assert_int_equal(cluster_stats(&cl, 1).split_copy_parts, 0);
    assert_int_equal(ep_advert(cl.eps[1])->announced, 0);
    memset(buf, POISON, sizeof buf);
    step(&cl, 0); /* too late */
    assert_int_equal(buf[SIZE - 1], POISON);
    expect_sent(&cl, sent);
    cluster_close(&cl);
}

/* Each chunk is shared by itself, and bytes that do not fit are neither read nor written. */
static void test_a_message_that_is_cut(void **state)
{
    static const char *const chunks[] = {SHARED, "READ_CHUNK=8K", NULL};
    struct mbx_completion done;
    mbx_request recv, sent;
    struct cluster cl;

    for (int i = 0; i < 2; i++) {
        cluster_open(&cl, *state, 2, i == 0 ? shared : chunks);
        sent = send(&cl, SIZE + 5000);
        step(&cl, 1);
        sys_fail_name("process_vm_readv", 1, EAGAIN);
        recv = post(&cl, SIZE - 5000);
        step(&cl, 0);
        cluster_wait(&cl, 1, recv, &done);
        assert_int_equal(done.error, -EMSGSIZE);
        assert_int_equal(done.received, SIZE - 5000);
        assert_memory_equal(buf, seeded_bytes(5, SIZE + 5000), SIZE - 5000);
        assert_int_equal(buf[SIZE - 5000], POISON);
        expect_sent(&cl, sent);
        assert_int_equal(cluster_stats(&cl, 1).split_copy_parts,
                         1); /* it did not see the later ones */
        cluster_close(&cl);
    }
}

/* ---- which sender is asked ---- */

static void test_nobody_is_asked(void **state)
{
    static const char *const without[][2] = {{"SPLIT_COPY=off"},
                                             {"RNDV=data"},
                                             {"DEVICE=soft"},
                                             {"SHM_ATTACH=no"},
                                             {"SPLIT_COPY_SIZE=200K"},
                                             {"SPLIT_COPY=rndv", "RNDV=read"},
                                             {"SPLIT_COPY=rndv", "RNDV=read+write"},
                                             {"SPLIT_COPY=rndv", "RNDV=write"}};
    struct cluster cl;

    for (size_t i = 0; i < ARRAY_COUNT(without); i++) {
        const char *const params[] = {SHARED, without[i][0], without[i][1], NULL};
        mbx_request recv, sent;

        cluster_open(&cl, *state, 2, params);
        sent = send(&cl, SIZE);
        recv = post(&cl, SIZE);
        expect(&cl, recv, SIZE);
        expect_sent(&cl, sent);
        assert_int_equal(cluster_stats(&cl, 1).control, 0);
        cluster_close(&cl);
    }
}

/* MBX_RNDV alone decides, without the parameters of the other tests. */
static void test_a_sender_that_may_copy_is_asked(void **state)
{
    static const char *const with[] = {"RNDV=auto", "RNDV=read+split", "RNDV=split"};
    struct cluster cl;

    for (size_t i = 0; i < ARRAY_COUNT(with); i++) {
        const char *const params[] = {"ADVERT=off", "SPLIT_COPY_SIZE=1000", "OVERSUBSCRIBED=no",
                                      with[i], NULL};
        mbx_request recv, sent;

        cluster_open(&cl, *state, 2, params);
        sent = send(&cl, SIZE);
        recv = post(&cl, SIZE);
        expect(&cl, recv, SIZE);
        expect_sent(&cl, sent);
        assert_true(cluster_stats(&cl, 1).control > 0);
        cluster_close(&cl);
    }
}

static void test_it_is_given_up_where_it_is_of_no_use(void **state)
{
    static const char *const params[] = {"ADVERT=off", "SPLIT_COPY_SIZE=1000", NULL};
    enum { MESSAGES = 100 };
    mbx_request sent[MESSAGES];
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    cl.eps[1]->limits.cores = UINT32_MAX;
    for (int i = 0; i < MESSAGES; i++)
        sent[i] = send(&cl, SIZE);
    for (int i = 0; i < MESSAGES; i++) {
        struct mbx_completion done;
        mbx_request recv = post(&cl, SIZE);

        while (mbx_test(cl.eps[1], recv, &done) == 0)
            ; /* the sender makes no progress */
        assert_int_equal(done.error, 0);
    }
    /* 7 messages are asked for; between them 1, 3, 7, 15, 31 and 31 are not */
    assert_int_equal(cluster_stats(&cl, 1).control - cluster_stats(&cl, 1).credits, 7);
    for (int i = 0; i < MESSAGES; i++)
        expect_sent(&cl, sent[i]);
    cluster_close(&cl);
}

/* Is the copy shared, with this number of cores and this parameter? */
static bool is_shared(void **state, uint32_t cores, const char *told)
{
    const char *const params[] = {"ADVERT=off", "SPLIT_COPY_SIZE=1000", told, NULL};
    mbx_request recv;
    struct cluster cl;
    bool is;

    cluster_open(&cl, *state, 2, params);
    cl.eps[1]->limits.cores = cores;
    send(&cl, SIZE);
    recv = post(&cl, SIZE);
    expect(&cl, recv, SIZE);
    is = cluster_stats(&cl, 1).control != 0;
    cluster_close(&cl);
    return is;
}

static void test_more_peers_than_cores(void **state)
{
    assert_false(is_shared(state, 0, "OVERSUBSCRIBED=auto"));
    assert_false(is_shared(state, UINT32_MAX, "OVERSUBSCRIBED=yes"));
    assert_true(is_shared(state, 0, "OVERSUBSCRIBED=no"));
    assert_true(is_shared(state, UINT32_MAX, "OVERSUBSCRIBED=auto"));
}

/* ---- failures ---- */

static void test_a_write_that_fails(void **state)
{
    static const int errors[] = {EFAULT, EPERM};
    mbx_request recv, sent;
    struct cluster cl;

    for (size_t i = 0; i < 2 * ARRAY_COUNT(errors); i++) {
        recv = i % 2 == 0 ? ask(&cl, state, shared, &sent)
                          : wait_for_sender(&cl, state, shared, &sent);
        sys_fail_name("process_vm_writev", SYS_FAIL_ALWAYS, errors[i / 2]);
        step(&cl, 0);
        expect(&cl, recv, SIZE);
        expect_sent(&cl, sent);
        assert_int_equal(cluster_stats(&cl, 1).split_copy_parts, 0);
        assert_int_equal(cluster_stats(&cl, 0).advert_stopped, 1);
        assert_int_equal(cluster_stats(&cl, 1).received[MBX_RNDV_READ], 1);
        assert_int_equal(ep_advert(cl.eps[1])->announced, 0);
        sys_fail_none();
        cluster_close(&cl);
    }
}

/* The receiver asks for the rest, but not before the sender has ended. */
static void test_a_read_that_fails(void **state)
{
    mbx_request recv, sent;
    struct cluster cl;

    for (int i = 0; i < 3; i++) {
        recv = ask(&cl, state, shared, &sent);
        sys_fail_name("process_vm_readv", SYS_FAIL_ALWAYS, EFAULT);
        sys_fail_name("process_vm_writev", i == 1 ? SYS_FAIL_ALWAYS : 0, EAGAIN);
        if (i != 0)
            step(&cl, 0); /* it takes the part, and writes it or not */
        step(&cl, 1);
        assert_int_equal(state_of(&cl, recv), i == 1 ? SPLIT_COPY_FILLING : RNDV_WAIT_DATA);
        sys_fail_name("process_vm_writev", 0, 0);
        expect(&cl, recv, SIZE);
        expect_sent(&cl, sent);
        assert_int_equal(cluster_stats(&cl, 1).received[MBX_RNDV_DATA], 1);
        assert_int_equal(ep_advert(cl.eps[1])->announced, 0);
        sys_fail_none();
        cluster_close(&cl);
    }
}

/* ---- the end ---- */

static void test_the_sender_closes(void **state)
{
    struct mbx_completion done;
    mbx_request recv, sent;
    struct cluster cl;

    recv = wait_for_sender(&cl, state, hasty, &sent);
    assert_int_equal(cluster_close_one(&cl, 0), -ETIMEDOUT);
    assert_int_equal(mbx_wait(cl.eps[1], recv, -1, &done), 0);
    assert_int_equal(done.error, -ENOTCONN);
    assert_int_equal(ep_advert(cl.eps[1])->announced, 0);
    sys_fail_none();
    cluster_close(&cl);
}

/* The receiver does not get its buffer back in time, and reports that.  Then nothing is written
 * any more. */
static void test_the_receiver_closes(void **state)
{
    struct mbx_completion done;
    mbx_request sent;
    struct cluster cl;

    wait_for_sender(&cl, state, hasty, &sent);
    assert_int_equal(cluster_close_one(&cl, 1), -ETIMEDOUT);
    sys_fail_none();
    cluster_wait(&cl, 0, sent, &done);
    assert_int_equal(done.error, -ENOTCONN);
    assert_int_equal(buf[SIZE - 1], POISON);
    cluster_close(&cl);
}

/* A part that nobody has taken does not delay the close. */
static void test_the_receiver_closes_before_the_part_is_taken(void **state)
{
    mbx_request sent;
    struct cluster cl;

    ask(&cl, state, hasty, &sent);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    step(&cl, 0);
    assert_int_equal(buf[SIZE - 1], POISON);
    cluster_close(&cl);
}

/* Endpoint 0 closes while it still has to write a part.  It can take back only the part that it
 * offered for its own receive. */
static void test_a_sender_that_writes_closes(void **state)
{
    static unsigned char back[SIZE];
    mbx_request recv, sent;
    struct cluster cl;

    recv = wait_for_sender(&cl, state, hasty, &sent);
    assert_int_equal(
        mbx_send(cl.eps[1], 0, CONTEXT, 2, seeded_bytes(6, SIZE), SIZE, NULL, &sent), 0);
    step(&cl, 0);
    sys_fail_name("process_vm_readv", 1, EAGAIN);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 2, 0, back, SIZE, NULL, NULL), 0);
    assert_int_equal(ep_advert(cl.eps[0])->announced, 1);
    assert_int_equal(cluster_close_one(&cl, 0), -ETIMEDOUT);
    assert_int_equal(mbx_wait(cl.eps[1], recv, -1, NULL), 0);
    sys_fail_none();
    cluster_close(&cl);
}

/* ---- protocol violations ---- */

static bool forge(struct cluster *cl, int to, enum wire_type type, unsigned flags,
                  const void *body)
{
    const struct wire_header header = {
        .type = (uint8_t)type, .version = WIRE_VERSION, .flags = (uint16_t)flags};
    unsigned char packet[sizeof header + sizeof(struct wire_split_copy)];
    uint64_t dropped = cluster_stats(cl, to).dropped_packets;

    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, body, wire_body_size(type));
    assert_int_equal(peer_use(cl->eps[to], (uint32_t)(1 - to)),
                     0); /* it may have sent nothing */
    assert_int_equal(deliver_packet(cl->eps[to], (uint32_t)(1 - to), packet,
                                    sizeof header + wire_body_size(type)),
                     0);
    return cluster_stats(cl, to).dropped_packets == dropped + 1;
}

static void test_violations_to_a_receiver(void **state)
{
    struct wire_written written = {.done = SIZE};
    mbx_request sent;
    struct cluster cl;

    written.receiver = ask(&cl, state, shared, &sent);
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, &written)); /* before its lock word is taken */
    sys_fail_name("process_vm_writev", SYS_FAIL_ALWAYS, EAGAIN);
    step(&cl, 0);
    written.done = SIZE + 1;
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, &written));
    written.done = 5000; /* outside its part */
    assert_true(forge(&cl, 1, WIRE_WRITTEN, WIRE_STOPPED, &written));
    written.done = SIZE - 1; /* neither all of it nor stopped */
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, &written));
    written.done = SIZE;
    assert_true(forge(&cl, 1, WIRE_WRITTEN, WIRE_STOPPED, &written));
    sys_fail_none();
    expect(&cl, written.receiver, SIZE);
    assert_true(forge(&cl, 1, WIRE_WRITTEN, 0, &written)); /* the receive is over */
    expect_sent(&cl, sent);
    cluster_close(&cl);
}

static void test_violations_to_a_sender(void **state)
{
    struct wire_split_copy split_copy = {.receiver = 1, .size = SIZE, .word = 1, .owner_id = 1};
    mbx_request recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, shared);
    split_copy.sender = 12345;
    assert_true(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy)); /* there is no such send */
    split_copy.sender = send(&cl, SIZE);
    assert_false(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy)); /* no such lock word */
    split_copy.offset = 1;
    assert_true(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy)); /* beyond the message */
    split_copy.offset = SIZE + 1;
    split_copy.size = 1;
    assert_true(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy));
    split_copy.word = 0;
    assert_true(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy));
    recv = post(&cl, SIZE);
    expect(&cl, recv, SIZE);
    expect_sent(&cl, split_copy.sender);
    assert_true(forge(&cl, 0, WIRE_SPLIT_COPY, 0, &split_copy)); /* the send is over */
    cluster_close(&cl);
}

static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "shm") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sender_is_first),
        cmocka_unit_test(test_the_receiver_waits_for_the_sender),
        cmocka_unit_test(test_a_sender_that_does_not_look_is_not_waited_for),
        cmocka_unit_test(test_a_message_that_is_cut),
        cmocka_unit_test(test_nobody_is_asked),
        cmocka_unit_test(test_a_sender_that_may_copy_is_asked),
        cmocka_unit_test(test_it_is_given_up_where_it_is_of_no_use),
        cmocka_unit_test(test_more_peers_than_cores),
        cmocka_unit_test(test_a_write_that_fails),
        cmocka_unit_test(test_a_read_that_fails),
        cmocka_unit_test(test_the_sender_closes),
        cmocka_unit_test(test_the_receiver_closes),
        cmocka_unit_test(test_the_receiver_closes_before_the_part_is_taken),
        cmocka_unit_test(test_a_sender_that_writes_closes),
        cmocka_unit_test(test_violations_to_a_receiver),
        cmocka_unit_test(test_violations_to_a_sender),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
