/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_remove_test.c - peers come and go: their numbers are used again, and no memory of them
 * stays.
 *
 * Two endpoints stay; the third one, the guest, is opened and closed again and again.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/core.h"

#define CONTEXT 61
#define GUEST   2 /* index and peer number of the guest */
#define LONG    100000
#define ROUNDS  200
#define NAMED   500

/* Does the transport report that a peer is gone? */
static bool is_supported(const struct mbx_ep *ep)
{
    return peer_get(ep, GUEST)->link->transport->ops->is_over != NULL && ep->offload == NULL;
}

static void guest_open(struct cluster *cl)
{
    struct mbx_address address;
    uint32_t number;

    cl->count = GUEST + 1;
    cl->eps[GUEST] = cluster_open_one(cl->config, NULL);
    for (int i = 0; i < cl->count; i++) {
        assert_int_equal(mbx_address_get(cl->eps[i], &address), 0);
        assert_int_equal(mbx_peer_add(cl->eps[GUEST], &address, &number), 0);
        assert_int_equal(number, i);
    }
    assert_int_equal(mbx_address_get(cl->eps[GUEST], &address), 0);
    for (int i = 0; i < GUEST; i++) {
        assert_int_equal(mbx_peer_add(cl->eps[i], &address, &number), 0);
        assert_int_equal(number, GUEST);
    }
}

/* Moves a message, and checks its source and its bytes. */
static void talk(struct cluster *cl, int from, int to, size_t size)
{
    static unsigned char recv_buf[LONG];
    struct mbx_completion completion;
    mbx_request send, recv;

    memset(recv_buf, 0, size);
    assert_int_equal(mbx_recv(cl->eps[to], MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, recv_buf,
                              size, NULL, &recv),
                     0);
    assert_int_equal(mbx_send(cl->eps[from], (uint32_t)to, CONTEXT, (uint64_t)from,
                              seeded_bytes((unsigned)from, size), size, NULL, &send),
                     0);
    cluster_wait(cl, from, send, &completion);
    assert_int_equal(completion.error, 0);
    cluster_wait(cl, to, recv, &completion);
    assert_int_equal(completion.error, 0);
    assert_int_equal(completion.status.source, from);
    assert_int_equal(completion.status.tag, from);
    assert_memory_equal(recv_buf, seeded_bytes((unsigned)from, size), size);
}

static void talk_all(struct cluster *cl)
{
    for (int i = 0; i < GUEST; i++) {
        talk(cl, GUEST, i, 8);
        talk(cl, i, GUEST, LONG);
        talk(cl, GUEST, i, LONG);
    }
    talk(cl, 0, 1, 8);
    talk(cl, 1, 0, LONG);
}

/* Sends a message that leaves at once, if it can: its receiver has it, but has not read it. */
static bool send_late(struct cluster *cl, int from, int to)
{
    return mbx_try_send(cl->eps[from], (uint32_t)to, CONTEXT, (uint64_t)from, "late", 4, 0) ==
           1;
}

static void receive_late(struct cluster *cl, int who)
{
    struct mbx_completion completion;
    mbx_request recv;
    char recv_buf[4];

    assert_int_equal(mbx_recv(cl->eps[who], GUEST, CONTEXT, GUEST, 0, recv_buf, sizeof recv_buf,
                              NULL, &recv),
                     0);
    cluster_wait(cl, who, recv, &completion);
    assert_int_equal(completion.error, 0);
    assert_int_equal(completion.status.source, GUEST);
    assert_memory_equal(recv_buf, "late", 4);
}

/* Retries until nothing uses the number any more. */
static void remove_guest(struct cluster *cl, int who)
{
    int err;

    for (int n = 0; (err = mbx_peer_remove(cl->eps[who], GUEST)) == -EBUSY; n++) {
        assert_true(n < test_patience());
        cluster_progress(cl);
    }
    assert_int_equal(err, 0);
}

/* ---- numbers ---- */

/* The guest's last messages are unread when it closes.  They are delivered with its number, and
 * only then the number becomes free. */
static void come_and_go(struct cluster *cl)
{
    bool is_late[GUEST];

    guest_open(cl);
    talk_all(cl);
    for (int i = 0; i < GUEST; i++)
        assert_int_equal(mbx_peer_remove(cl->eps[i], GUEST), -EBUSY);
    for (int i = 0; i < GUEST; i++)
        is_late[i] = send_late(cl, GUEST, i);
    assert_int_equal(cluster_close_one(cl, GUEST), 0);
    cl->count = GUEST;
    for (int i = 0; i < GUEST; i++) {
        if (is_late[i]) {
            assert_int_equal(mbx_peer_remove(cl->eps[i], GUEST), -EBUSY);
            cluster_settle(cl);
            assert_int_equal(mbx_peer_remove(cl->eps[i], GUEST), -EBUSY);
            receive_late(cl, i);
        }
        remove_guest(cl, i);
    }
}

static void test_two_hundred_guests_take_the_memory_of_one(void **state)
{
    int rounds = test_is_quick() ? ROUNDS / 10 : ROUNDS;
    uint64_t mem = 0;
    struct cluster cl;

    cluster_open(&cl, *state, GUEST, NULL);
    guest_open(&cl);
    talk_all(&cl);
    if (!is_supported(cl.eps[0])) {
        assert_int_equal(mbx_peer_remove(cl.eps[0], GUEST), -EOPNOTSUPP);
        cluster_close(&cl);
        return;
    }
    assert_int_equal(cluster_close_one(&cl, GUEST), 0);
    cl.count = GUEST;
    for (int i = 0; i < GUEST; i++)
        remove_guest(&cl, i);
    for (int n = 0; n < rounds; n++) {
        come_and_go(&cl);
        if (n == 1)
            mem = mem_live();
    }
    /* a pool or a table that grows on first use does so once for each endpoint that stays */
    assert_in_range(mem_live(), mem, mem + (uint64_t)rounds / 5);
    for (int i = 0; i < GUEST; i++)
        assert_int_equal(cluster_stats(&cl, i).peers, GUEST);
    cluster_close(&cl);
}

/* The first message of the guest is unread when the guest closes. */
static void test_the_first_message_keeps_its_sender(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, GUEST, NULL);
    guest_open(&cl);
    talk(&cl, 0, GUEST, 8);
    if (is_supported(cl.eps[0]) && send_late(&cl, GUEST, 0)) {
        assert_int_equal(cluster_close_one(&cl, GUEST), 0);
        cl.count = GUEST;
        assert_int_equal(mbx_peer_remove(cl.eps[0], GUEST), -EBUSY);
        receive_late(&cl, 0);
        remove_guest(&cl, 0);
    }
    cluster_close(&cl);
}

/* ---- references to a peer ---- */

static void test_a_request_keeps_its_peer(void **state)
{
    struct mbx_completion completion;
    struct mbx_address address;
    struct cluster cl;
    mbx_request recv;
    char byte;

    cluster_open(&cl, *state, GUEST, NULL);
    guest_open(&cl);
    talk_all(&cl);
    if (!is_supported(cl.eps[0])) {
        cluster_close(&cl);
        return;
    }
    assert_int_equal(mbx_recv(cl.eps[0], GUEST, CONTEXT, 9, 0, &byte, 1, NULL, &recv), 0);
    assert_int_equal(cluster_close_one(&cl, GUEST), 0);
    cl.count = GUEST;
    cluster_settle(&cl);
    assert_int_equal(mbx_peer_remove(cl.eps[0], GUEST), -EBUSY);
    assert_int_equal(mbx_cancel(cl.eps[0], recv), 0);
    cluster_wait(&cl, 0, recv, &completion);
    remove_guest(&cl, 0);
    /* the number names nobody */
    assert_int_equal(mbx_peer_remove(cl.eps[0], GUEST), -EINVAL);
    assert_int_equal(mbx_peer_address(cl.eps[0], GUEST, &address), -EINVAL);
    assert_int_equal(mbx_name_peer(cl.eps[0], GUEST, 0, 0), -EINVAL);
    assert_int_equal(mbx_inject(cl.eps[0], GUEST, CONTEXT, 1, "x", 1, 0), -EINVAL);
    assert_int_equal(mbx_peer_remove(cl.eps[0], 99), -EINVAL);
    cluster_close(&cl);
}

/* ---- the index ---- */

/* Makes the address of another endpoint, as well-formed as our own. */
static void make_address(const struct mbx_address *own, uint32_t i, struct mbx_address *address)
{
    const size_t cookie = offsetof(struct transport_address, cookie);

    *address = *own;
    address->bytes[cookie] ^= (unsigned char)(i + 1);
    address->bytes[cookie + 1] ^= (unsigned char)((i + 1) >> 8);
}

/* Adds and removes peers at random, and compares with a plain list: each address keeps its
 * number, and no two have the same one. */
static void names_come_and_go(struct mbx_ep *ep, const struct mbx_address *own,
                              struct random *random)
{
    uint32_t numbers[NAMED], number;

    memset(numbers, 0xff, sizeof numbers);
    for (int n = 0; n < 20 * NAMED; n++) {
        uint64_t i = random_below(random, NAMED);
        struct mbx_address address;

        if (numbers[i] != UINT32_MAX && random_below(random, 2) == 0) {
            assert_int_equal(mbx_peer_remove(ep, numbers[i]), 0);
            numbers[i] = UINT32_MAX;
            continue;
        }
        make_address(own, (uint32_t)i, &address);
        assert_int_equal(mbx_peer_add(ep, &address, &number), 0);
        for (uint32_t j = 0; j < NAMED; j++)
            assert_int_equal(numbers[j] == number, j == i && numbers[i] != UINT32_MAX);
        numbers[i] = number;
    }
    for (int i = 0; i < NAMED; i++)
        if (numbers[i] != UINT32_MAX)
            assert_int_equal(mbx_peer_remove(ep, numbers[i]), 0);
}

static void test_addresses_keep_their_numbers(void **state)
{
    struct mbx_address own;
    struct random random;
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_address_get(cl.eps[0], &own), 0);
    if (own.bytes[0] == ADDRESS_SHM && cl.eps[0]->offload == NULL)
        for (uint64_t seed = 1; seed <= (test_is_quick() ? 1 : 5); seed++) {
            print_message("seed %d\n", (int)seed);
            random_seed(&random, seed);
            names_come_and_go(cl.eps[0], &own, &random);
            assert_int_equal(cluster_stats(&cl, 0).peers, 1);
        }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hundred_guests_take_the_memory_of_one),
        cmocka_unit_test(test_the_first_message_keeps_its_sender),
        cmocka_unit_test(test_a_request_keeps_its_peer),
        cmocka_unit_test(test_addresses_keep_their_numbers),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
