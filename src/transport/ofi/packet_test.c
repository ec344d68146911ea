/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet_test.c - packets of an unauthenticated process are refused before they are read
 * further; greetings between sides that are late, or close, or have another version, or lose
 * packets.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/patience.h"
#include "base/unit.h"
#include "matchbox/matchbox.h"
#include "transport/memory.h"
#include "transport/ofi/ofi.h"
#include "transport/network.h"

static const uint8_t key[TRANSPORT_KEY_SIZE] = "one job, one key";

/* ---- the format ---- */

static const char *check(enum net_kind kind, size_t size, unsigned count)
{
    unsigned char bytes[512];
    struct net_prefix prefix = {
        .kind = (uint8_t)kind, .version = NET_VERSION, .count = (uint16_t)count};

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &prefix, sizeof prefix);

    return net_check(bytes, size, OFI_PACKET_MAX, &prefix);
}

static void only_whole_packets_are_read(UNUSED void **state)
{
    for (size_t size = 0; size < 512; size++) {
        bool is_aligned = size % 8 == 0;

        assert_int_equal(check(NET_HELLO, size, 0) == NULL,
                         size == sizeof(struct net_prefix) + sizeof(struct net_hello));
        assert_int_equal(check(NET_WELCOME, size, 0) == NULL,
                         size == sizeof(struct net_prefix) + sizeof(struct net_welcome));
        assert_int_equal(check(NET_PING, size, 0) == NULL, size == sizeof(struct net_prefix));
        for (unsigned count = 0; count < 65536; count += 1021)
            assert_int_equal(check(NET_DATA, size, count) == NULL,
                             is_aligned && size >= sizeof(struct net_prefix) +
                                                       sizeof(struct wire_header) + count % 8);
    }
}

static void only_what_follows_a_greeting_counts(UNUSED void **state)
{
    for (unsigned count = 0; count < 65536; count++) {
        assert_int_equal(check(NET_PING, sizeof(struct net_prefix), count) == NULL,
                         count % 8 == 0);
        assert_int_equal(check(NET_BYE, sizeof(struct net_prefix), count) == NULL,
                         count % 8 == 0);
        assert_int_equal(check(NET_REFUSED, sizeof(struct net_prefix), count) == NULL,
                         count == 0);
        assert_int_equal(check(NET_BROKEN, sizeof(struct net_prefix), count) == NULL,
                         count == 0);
    }
}

/* A longer packet would not fit into the buffer that it is copied to. */
static void no_packet_is_longer_than_any_that_is_sent(UNUSED void **state)
{
    static unsigned char bytes[2 * OFI_MESSAGE_MAX] = {NET_DATA, NET_VERSION};
    struct net_prefix prefix;

    for (bytes[2] = 0; bytes[2] < 8; bytes[2]++)
        for (size_t size = OFI_PACKET_MAX / 8 * 8; size <= sizeof bytes; size += 8)
            assert_int_equal(net_check(bytes, size, OFI_PACKET_MAX, &prefix) == NULL,
                             size <= sizeof prefix + OFI_PACKET_MAX + bytes[2]);
}

static void no_other_kind_or_version_is_read(UNUSED void **state)
{
    unsigned char bytes[72] = {NET_DATA, NET_VERSION}; /* longer than any other kind */
    struct net_prefix prefix;

    assert_null(net_check(bytes, sizeof bytes, OFI_PACKET_MAX, &prefix));
    bytes[1]++;
    assert_non_null(net_check(bytes, sizeof bytes, OFI_PACKET_MAX, &prefix));
    bytes[1]--;
    for (unsigned kind = 0; kind < 256; kind++) {
        bytes[0] = (unsigned char)kind;
        assert_int_equal(net_check(bytes, sizeof bytes, OFI_PACKET_MAX, &prefix) == NULL,
                         kind == NET_DATA);
    }
}

static void a_mac_is_for_all_that_was_said(UNUSED void **state)
{
    struct net_transcript greeting;
    unsigned char *bytes = (unsigned char *)&greeting;
    uint8_t other[TRANSPORT_KEY_SIZE];
    uint64_t mac[2];

    for (size_t i = 0; i < sizeof greeting; i++)
        bytes[i] = (unsigned char)(i * 37);
    net_sign(key, NET_AUTH, &greeting, mac);
    assert_true(net_is_authentic(key, NET_AUTH, &greeting, mac));
    assert_false(net_is_authentic(key, NET_WELCOME, &greeting, mac));
    for (size_t bit = 0; bit < 8 * sizeof greeting; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(net_is_authentic(key, NET_AUTH, &greeting, mac));
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    memcpy(other, key, sizeof other);
    other[15] ^= 1;
    assert_false(net_is_authentic(other, NET_AUTH, &greeting, mac));
    for (unsigned half = 0; half < 2; half++) {
        mac[half] ^= 1;
        assert_false(net_is_authentic(key, NET_AUTH, &greeting, mac));
        mac[half] ^= 1;
    }
}

/* ---- endpoints of two jobs ---- */

struct side {
    struct transport *t;
    unsigned accepted, delivered, dropped;
};

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct side *side = arg;

    (void)link, (void)address;
    *peer = side->accepted++;
    return 0;
}

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct side *side = arg;

    (void)peer, (void)packet, (void)size;
    side->delivered++;
    return 0;
}

static void on_dropped(void *arg, const char *reason)
{
    struct side *side = arg;

    assert_non_null(reason);
    side->dropped++;
}

static void on_read_done(void *arg, void *cookie, int error)
{
    (void)arg, (void)cookie, (void)error;
}

static const struct transport_events events = {.accept = on_accept,
                                               .deliver = on_deliver,
                                               .dropped = on_dropped,
                                               .read_done = on_read_done};

static void side_open(struct side *side, uint8_t last)
{
    struct transport_config config = {
        .events = &events, .arg = side, .settings.ofi.provider = "tcp;ofi_rxm"};

    *side = (struct side){.t = NULL};
    memcpy(config.key, key, sizeof config.key);
    config.key[15] = last;
    assert_int_equal(transport_ofi.open(&config, &side->t), 0);
}

static struct link *send_one(struct side *from, const struct side *to)
{
    const struct wire_header header = {.version = WIRE_VERSION};
    struct transport_address address;
    struct link *link;

    transport_ofi.address(to->t, &address);
    assert_int_equal(transport_ofi.connect(from->t, &address, &link), 0);
    assert_int_equal(transport_ofi.send(link, &(struct transport_packet){.header = &header}),
                     0);
    return link;
}

static void poll_until(struct side *sides, unsigned count, const unsigned *counter)
{
    uint64_t start = clock_now();

    while (*counter == 0 && clock_now() - start < PATIENCE_NS)
        for (unsigned i = 0; i < count; i++)
            transport_ofi.poll(sides[i].t, 16);
    assert_true(*counter > 0);
}

/* Polls until the second side has received the first one's greeting, and has answered. */
static void poll_until_greeted(struct side *sides)
{
    uint64_t start = clock_now();

    while (!transport_ofi.network->is_used(sides[1].t) && clock_now() - start < PATIENCE_NS)
        for (unsigned i = 0; i < 2; i++)
            transport_ofi.poll(sides[i].t, 16);
    assert_true(transport_ofi.network->is_used(sides[1].t));
}

static void another_jobs_key_is_refused(UNUSED void **state)
{
    struct side sides[3];

    side_open(&sides[0], 1);
    side_open(&sides[1], 2);
    side_open(&sides[2], 2);
    send_one(&sides[0], &sides[1]);
    poll_until(sides, 3, &sides[1].dropped);
    send_one(&sides[2], &sides[1]);
    poll_until(sides, 3, &sides[1].delivered);
    assert_int_equal(sides[1].delivered, 1);
    assert_int_equal(sides[1].accepted, 1);
    for (unsigned i = 0; i < 3; i++)
        transport_ofi.close(sides[i].t);
}

/* Sends a packet that fits into no receive buffer, past all checks of the sender. */
static void send_too_long(struct side *from, struct link *link)
{
    static unsigned char bytes[2 * OFI_MULTI_SIZE];
    static struct ofi_operation operation = {.kind = OFI_OWN};
    uint64_t start = clock_now();
    ssize_t err;

    while ((err = fi_send(ofi_of(from->t)->domain.ep, bytes, sizeof bytes, NULL,
                          ofi_link_of(link)->to, &operation.context)) == -FI_EAGAIN &&
           clock_now() - start < PATIENCE_NS)
        transport_ofi.poll(from->t, 16);
    assert_int_equal(err, 0);
}

static void what_is_too_long_takes_no_buffer_along(UNUSED void **state)
{
    struct side sides[2];
    struct link *link;

    side_open(&sides[0], 1);
    side_open(&sides[1], 1);
    link = send_one(&sides[0], &sides[1]);
    poll_until(sides, 2, &sides[1].delivered);
    for (unsigned i = 0; i < 2 * OFI_RECEIVES; i++) { /* more than buffers of either kind */
        sides[1].dropped = 0;
        send_too_long(&sides[0], link);
        poll_until(sides, 2, &sides[1].dropped);
    }
    sides[1].delivered = 0;
    send_one(&sides[0], &sides[1]);
    poll_until(sides, 2, &sides[1].delivered);
    for (unsigned i = 0; i < 2; i++)
        transport_ofi.close(sides[i].t);
}

/* ---- checking addresses ---- */

static int look(const struct side *from, const struct side *at)
{
    struct transport_address address;

    transport_ofi.address(at->t, &address);
    return transport_ofi.check_address(from->t, &address);
}

/* A check makes no link, but there may be one: a peer that has greeted is found, and found gone
 * later. */
static void a_peer_that_has_greeted_can_be_looked_at(UNUSED void **state)
{
    struct side sides[3];
    struct transport_address first;
    int err = 0;

    for (unsigned i = 0; i < 3; i++)
        side_open(&sides[i], 1);
    assert_int_equal(look(&sides[1], &sides[1]), 0);
    assert_int_equal(look(&sides[1], &sides[0]), -ENOTSUP);
    send_one(&sides[0], &sides[1]);
    poll_until(sides, 2, &sides[1].delivered);
    assert_int_equal(look(&sides[1], &sides[0]), 0);
    assert_int_equal(look(&sides[1], &sides[2]), -ENOTSUP);
    transport_ofi.address(sides[0].t, &first);
    transport_ofi.close(sides[0].t);
    for (uint64_t start = clock_now(); err == 0 && clock_now() - start < PATIENCE_NS;) {
        transport_ofi.poll(sides[1].t, 16);
        err = transport_ofi.check_address(sides[1].t, &first);
    }
    assert_int_equal(err, -ENOTCONN);
    for (unsigned i = 1; i < 3; i++)
        transport_ofi.close(sides[i].t);
}

/* ---- reading ---- */

static unsigned char there[8], here[8];

/* Begins reads from `at` until no more can begin; returns how many began. */
static unsigned read_many(struct link *link, struct side *at, unsigned most)
{
    struct transport_address address;
    struct link *back;
    uint64_t where, name;
    unsigned begun = 0;

    transport_ofi.address(link->transport, &address);
    assert_int_equal(transport_ofi.connect(at->t, &address, &back), 0);
    assert_int_equal(transport_expose(back, there, sizeof there, &where, &name), 0);
    while (begun < most &&
           transport_read(link, here, where, name, sizeof here, here) == -EINPROGRESS)
        begun++;
    return begun;
}

/* Reads from a peer that makes no calls do not use up all operations. */
static void a_silent_caller_leaves_space_for_others(UNUSED void **state)
{
    struct side sides[3];
    struct link *links[3];

    for (unsigned i = 0; i < 3; i++)
        side_open(&sides[i], 1);
    for (unsigned i = 1; i < 3; i++) {
        links[i] = send_one(&sides[0], &sides[i]);
        poll_until(sides, 3, &sides[i].delivered);
    }
    assert_in_range(read_many(links[1], &sides[1], 2 * OFI_RDMA_MAX), 1, OFI_RDMA_LINK);
    assert_int_equal(read_many(links[2], &sides[2], 1), 1);
    for (unsigned i = 0; i < 3; i++)
        transport_ofi.close(sides[i].t);
}

/* ---- closing ---- */

static void nothing_is_delivered_by_a_close(UNUSED void **state)
{
    struct side side;

    side_open(&side, 1);
    send_one(&side, &side);
    transport_ofi.close(side.t);
    assert_int_equal(side.accepted + side.delivered, 0);
}

/* One side greets, and the other one closes after its answer.  Returns the first side's
 * error. */
static int greet_and_lose(void)
{
    struct side sides[2];
    struct link *link;
    int err = 0;

    side_open(&sides[0], 1);
    side_open(&sides[1], 1);
    link = send_one(&sides[0], &sides[1]);
    poll_until_greeted(sides);
    transport_ofi.close(sides[1].t);
    for (uint64_t start = clock_now(); err == 0 && clock_now() - start < PATIENCE_NS;) {
        transport_ofi.poll(sides[0].t, 16);
        err = transport_ofi.check(link);
    }
    transport_ofi.close(sides[0].t);
    return err;
}

/* The answer may not have left when its side closes: then there is no BYE to send. */
static void a_peer_that_closes_after_its_answer_has_not_died(UNUSED void **state)
{
    int err = 0;

    for (unsigned tries = 0; err != -ENOTCONN && tries < 100; tries++)
        err = greet_and_lose();
    assert_int_equal(err, -ENOTCONN);
}

/* ---- peers that compute between two calls ---- */

static uint64_t skipped_ns;

/* The system's clock, plus the skipped time. */
static uint64_t late_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_S + (uint64_t)now.tv_nsec + skipped_ns;
}

/* Polls long enough for handshakes to be checked. */
static void poll_for_long(struct side *side)
{
    for (unsigned i = 0; i < 20000; i++)
        transport_ofi.poll(side->t, 16);
}

/* Both sides have a message, and one of them makes no calls for 20 s: the caller after the
 * answer, or the callee. */
static void meet_late(bool caller_is_late)
{
    struct side sides[2];

    clock_set(late_clock);
    side_open(&sides[0], 1);
    side_open(&sides[1], 1);
    send_one(&sides[0], &sides[1]);
    if (caller_is_late)
        poll_until_greeted(sides);
    for (unsigned i = 0; i < 2; i++) {
        poll_for_long(&sides[caller_is_late]);
        skipped_ns += 10 * CLOCK_S;
    }
    poll_for_long(&sides[caller_is_late]);
    send_one(&sides[1], &sides[0]);
    poll_until(sides, 2, &sides[1].delivered);
    poll_until(sides, 2, &sides[0].delivered);
    for (unsigned i = 0; i < 2; i++)
        transport_ofi.close(sides[i].t);
    clock_set(NULL);
}

static void an_answered_peer_that_computes_is_not_forgotten(UNUSED void **state)
{
    meet_late(true);
}

static void a_greeted_peer_that_computes_is_not_given_up(UNUSED void **state)
{
    meet_late(false);
}

/* ---- packets of a greeting that are lost ---- */

/* `count` packets of this kind are sent to nobody; so_far counts them. */
static struct {
    enum net_kind kind;
    unsigned count, so_far;
    bool is_told; /* the provider reports an error */
} lost;

static struct fi_ops_msg provider_msg;

static ssize_t send_or_lose(struct fid_ep *ep, const void *bytes, size_t size, void *desc,
                            fi_addr_t to, void *context)
{
    unsigned char *kind = (unsigned char *)(uintptr_t)bytes; /* the buffer is the test's */
    bool is_lost = *kind == lost.kind && lost.count != 0;
    ssize_t err;

    if (is_lost && lost.is_told) {
        lost.count--;
        return -FI_ENOTCONN;
    }
    *kind = is_lost ? NET_KINDS : *kind;
    err = provider_msg.send(ep, bytes, size, desc, to, context);
    lost.count -= is_lost && err == 0;
    lost.so_far += is_lost && err == 0;
    return err;
}

static uint64_t test_ns;

static uint64_t test_clock(void)
{
    return test_ns;
}

/* Two sides whose clock stands still, and that lose `count` packets of this kind. */
static void open_losing(struct side *sides, enum net_kind kind, unsigned count)
{
    static struct fi_ops_msg losing;

    test_ns = CLOCK_S;
    clock_set(test_clock);
    lost.kind = kind;
    lost.count = count;
    lost.so_far = 0;
    lost.is_told = false;
    for (unsigned i = 0; i < 2; i++) {
        struct fid_ep *ep;

        side_open(&sides[i], 1);
        ep = ofi_of(sides[i].t)->domain.ep;
        provider_msg = losing = *ep->msg;
        losing.send = send_or_lose;
        ep->msg = &losing;
    }
}

/* Only the lost packets were dropped. */
static void close_losing(struct side *sides)
{
    assert_int_equal(sides[0].dropped + sides[1].dropped, lost.so_far);
    clock_set(late_clock); /* a close waits briefly */
    for (unsigned i = 0; i < 2; i++)
        transport_ofi.close(sides[i].t);
    clock_set(NULL);
}

static struct ofi_link *only_link(const struct side *side)
{
    assert_int_equal(ofi_of(side->t)->conns.id_count, 1);
    return ofi_of(side->t)->conns.by_id[0];
}

static bool is_in(const struct side *side, enum net_state state)
{
    return ofi_of(side->t)->conns.id_count == 1 &&
           ofi_of(side->t)->conns.by_id[0]->net.state == state;
}

/* Polls both sides so often that each packet arrives and each link is checked; the clock stands
 * still. */
static void poll_both(struct side *sides)
{
    for (unsigned i = 0; i < 20000; i++)
        transport_ofi.poll(sides[i % 2].t, 16);
}

/* Polls until the second side is in that state, or the first has waited long enough for it. */
static void poll_until_in(struct side *sides, enum net_state state)
{
    for (unsigned i = 0; !is_in(&sides[1], state) && i < 300; i++)
        poll_both(sides);
    assert_true(is_in(&sides[1], state));
}

/* Calls without a message, as a side that waits for one does. */
static void call(struct side *from, const struct side *to)
{
    struct transport_address address;
    struct link *link;

    transport_ofi.address(to->t, &address);
    assert_int_equal(transport_ofi.connect(from->t, &address, &link), 0);
    assert_int_equal(transport_ofi.check(link), 0);
}

static void expect_they_talk(struct side *sides)
{
    for (unsigned i = 0; i < 2; i++)
        send_one(&sides[i], &sides[1 - i]);
    for (unsigned i = 0; (sides[0].delivered == 0 || sides[1].delivered == 0) && i < 300; i++)
        poll_both(sides);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(sides[i].delivered, 1);
}

/* Polls both, a second apart, before the callee forgets the caller. */
static void let_seconds_pass(struct side *sides, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++, test_ns += CLOCK_S)
        poll_both(sides);
}

/* The first three packets of this kind are lost, and the link opens all the same. */
static void expect_said_again(enum net_kind kind)
{
    struct side sides[2];

    open_losing(sides, kind, 3);
    call(&sides[0], &sides[1]);
    poll_until_in(sides, NET_ANSWERING);
    let_seconds_pass(sides, 9);
    poll_until_in(sides, NET_OPEN);
    assert_int_equal(lost.count, 0);
    expect_they_talk(sides);
    close_losing(sides);
}

/* A repeated HELLO alone would change nothing. */
static void a_lost_answer_is_said_again(UNUSED void **state)
{
    expect_said_again(NET_WELCOME);
}

static void a_lost_proof_is_said_again(UNUSED void **state)
{
    expect_said_again(NET_AUTH);
}

/* No AUTH arrives for so long that the callee forgets the caller, which treats the link as
 * open. */
static void forget_proof(struct side *sides)
{
    open_losing(sides, NET_AUTH, 1000);
    call(&sides[0], &sides[1]);
    poll_until_in(sides, NET_ANSWERING);
    let_seconds_pass(sides, 12);
    poll_until_in(sides, NET_NEW);
    assert_true(is_in(&sides[0], NET_OPEN));
    lost.count = 0;
}

static void a_forgotten_peer_that_asks_is_answered(UNUSED void **state)
{
    struct side sides[2];

    forget_proof(sides);
    for (unsigned i = 0; i < 3; i++, test_ns += CLOCK_S) {
        transport_ofi.check(&only_link(&sides[0])->member.link);
        poll_both(sides);
    }
    poll_until_in(sides, NET_OPEN);
    expect_they_talk(sides);
    close_losing(sides);
}

static void a_peer_that_forgets_and_greets_is_answered(UNUSED void **state)
{
    struct side sides[2];

    forget_proof(sides);
    call(&sides[1], &sides[0]);
    poll_until_in(sides, NET_OPEN);
    expect_they_talk(sides);
    close_losing(sides);
}

static void a_proof_that_cannot_leave_is_said_again(UNUSED void **state)
{
    struct side sides[2];

    open_losing(sides, NET_AUTH, 2);
    lost.is_told = true;
    call(&sides[0], &sides[1]);
    poll_until_in(sides, NET_OPEN);
    assert_int_equal(lost.count, 0);
    expect_they_talk(sides);
    close_losing(sides);
}

/* The loss of a connection's packets is reported late: meanwhile the link was opened over
 * another one, or AUTH is repeated. */
static void what_is_known_not_to_have_arrived_ends_no_link(UNUSED void **state)
{
    static const enum net_kind kinds[] = {NET_HELLO, NET_WELCOME, NET_AUTH};
    struct side sides[2];

    open_losing(sides, NET_KINDS, 0);
    call(&sides[0], &sides[1]);
    poll_until_in(sides, NET_OPEN);
    for (unsigned i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct ofi *ofi = ofi_of(sides[0].t);
        struct ofi_buffer *buffer =
            container_of(list_pop_head(&ofi->tx.free), struct ofi_buffer, node);

        ofi->tx.free_count--;
        buffer->link = only_link(&sides[0]);
        buffer->bytes[0] = (unsigned char)kinds[i];
        ofi_tx_failed(ofi, buffer, FI_ECONNRESET);
        assert_true(is_in(&sides[0], NET_OPEN));
        assert_null(buffer->link);
        assert_int_equal(only_link(&sides[0])->tx.pending,
                         kinds[i] == NET_AUTH ? 1 << NET_AUTH : 0);
    }
    expect_they_talk(sides);
    close_losing(sides);
}

/* A side that has given up a peer does not answer its greeting, but sends BROKEN. */
static void a_greeting_to_a_peer_that_gave_up_is_told_so(UNUSED void **state)
{
    struct side sides[2];

    open_losing(sides, NET_HELLO, 1000);
    call(&sides[0], &sides[1]);
    poll_both(sides);
    net_kill(&only_link(&sides[0])->net, -EHOSTUNREACH, NET_DIED);
    lost.count = 0;
    call(&sides[1], &sides[0]);
    poll_until_in(sides, NET_DEAD);
    assert_int_equal(transport_ofi.check(&only_link(&sides[1])->member.link), -EHOSTDOWN);
    close_losing(sides);
}

/* The peer has answered already, and does not know that it was given up. */
static void an_answer_to_a_peer_that_gave_up_is_told_so(UNUSED void **state)
{
    struct side sides[2];

    open_losing(sides, NET_WELCOME, 1);
    call(&sides[0], &sides[1]);
    poll_until_in(sides, NET_ANSWERING);
    net_kill(&only_link(&sides[0])->net, -ENOTCONN, NET_DIED);
    let_seconds_pass(sides, 9);
    poll_until_in(sides, NET_DEAD);
    assert_int_equal(transport_ofi.check(&only_link(&sides[1])->member.link), -EHOSTDOWN);
    close_losing(sides);
}

static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

/* ---- sides of different versions ---- */

static uint8_t shared[TRANSPORT_KEY_SIZE]; /* the key of both */
static struct version other; /* the mark that replaces the one in HELLO and OTHER */
static bool is_for_another;  /* HELLO is for an earlier endpoint at the address */

static ssize_t send_as_other(struct fid_ep *ep, const void *bytes, size_t size, void *desc,
                             fi_addr_t to, void *context)
{
    unsigned char *packet = (unsigned char *)(uintptr_t)bytes; /* the buffer is the test's */
    struct net_hello *hello = (struct net_hello *)(void *)(packet + sizeof(struct net_prefix));
    struct net_prefix *prefix = (struct net_prefix *)(void *)packet;

    if (prefix->kind == NET_HELLO && is_for_another)
        hello->to.cookie++;
    if (prefix->kind == NET_HELLO) {
        const struct net_transcript said = {.version = other,
                                            .caller = hello->from,
                                            .callee = hello->to,
                                            .from_caller = hello->caller};

        net_sign(shared, NET_HELLO, &said, hello->mac);
        memcpy(&prefix->token, &other, sizeof other);
    }
    if (prefix->kind == NET_OTHER)
        memcpy(packet + sizeof *prefix, &other, sizeof other);
    if (prefix->kind == NET_HELLO || prefix->kind == NET_OTHER)
        prefix->version = other.format;
    return provider_msg.send(ep, bytes, size, desc, to, context);
}

static unsigned told; /* warnings that name both versions and the remedy */

static void count_told(UNUSED void *arg, enum log_level level, const char *text)
{
    char theirs[96], ours[96];

    snprintf(theirs, sizeof theirs, "has Matchbox 7.8.9 (formats %u and %u),", other.format,
             other.packets);
    snprintf(ours, sizeof ours,
             "this process has Matchbox %s (formats %u and %u):", mbx_version(), NET_VERSION,
             WIRE_VERSION);
    told += level == LOG_LEVEL_WARN && strstr(text, theirs) != NULL &&
            strstr(text, ours) != NULL && strstr(text, "must use the same version") != NULL;
}

/* Two sides that show each other another version. */
static void open_others(struct side *sides, uint8_t format, uint8_t packets)
{
    static struct fi_ops_msg as_other;

    other = (struct version){
        .format = format, .packets = packets, .major = 7, .minor = 8, .patch = 9};
    memcpy(shared, key, sizeof shared);
    shared[15] = 1;
    told = 0;
    log_set_sink(count_told, NULL);
    for (unsigned i = 0; i < 2; i++) {
        struct fid_ep *ep;

        side_open(&sides[i], 1);
        ep = ofi_of(sides[i].t)->domain.ep;
        provider_msg = as_other = *ep->msg;
        as_other.send = send_as_other;
        ep->msg = &as_other;
    }
}

static void close_others(struct side *sides)
{
    for (unsigned i = 0; i < 2; i++)
        transport_ofi.close(sides[i].t);
    log_set_sink(be_quiet, NULL);
}

/* One side calls the other; or both call. */
static void meet_other(uint8_t format, uint8_t packets, bool both)
{
    struct link *link, *back = NULL;
    struct side sides[2];

    open_others(sides, format, packets);
    link = send_one(&sides[0], &sides[1]);
    if (both)
        back = send_one(&sides[1], &sides[0]);
    for (uint64_t start = clock_now();
         (transport_ofi.check(link) == 0 || (both && transport_ofi.check(back) == 0)) &&
         clock_now() - start < PATIENCE_NS;)
        poll_both(sides);
    assert_int_equal(transport_ofi.check(link), -EPROTONOSUPPORT);
    if (both)
        assert_int_equal(transport_ofi.check(back), -EPROTONOSUPPORT);
    poll_both(sides);
    assert_int_equal(told, 2); /* once by each side */
    assert_int_equal(sides[0].accepted + sides[1].accepted, 0);
    close_others(sides);
}

static void sides_of_different_versions_say_so(UNUSED void **state)
{
    meet_other(NET_VERSION, WIRE_VERSION + 1, false);
    meet_other(NET_VERSION, WIRE_VERSION + 1, true);
    meet_other(NET_VERSION + 1, WIRE_VERSION, false);
    meet_other(NET_VERSION + 1, WIRE_VERSION, true);
}

/* The caller learns that the endpoint is gone, as a caller of our version does; we have not met
 * the caller. */
static void a_call_of_another_version_for_somebody_else_ends_nothing(UNUSED void **state)
{
    struct transport_address caller;
    struct side sides[2];
    struct link *link, *back;

    open_others(sides, NET_VERSION, WIRE_VERSION + 1);
    is_for_another = true;
    link = send_one(&sides[0], &sides[1]);
    for (uint64_t start = clock_now();
         transport_ofi.check(link) == 0 && clock_now() - start < PATIENCE_NS;)
        poll_both(sides);
    is_for_another = false;
    assert_int_equal(transport_ofi.check(link), -ECONNREFUSED);
    transport_ofi.address(sides[0].t, &caller);
    assert_int_equal(transport_ofi.connect(sides[1].t, &caller, &back), 0);
    assert_int_equal(transport_ofi.check(back), 0);
    assert_int_equal(told, 0);
    close_others(sides);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_packets_are_read),
        cmocka_unit_test(no_packet_is_longer_than_any_that_is_sent),
        cmocka_unit_test(only_what_follows_a_greeting_counts),
        cmocka_unit_test(no_other_kind_or_version_is_read),
        cmocka_unit_test(a_mac_is_for_all_that_was_said),
        cmocka_unit_test(another_jobs_key_is_refused),
        cmocka_unit_test(what_is_too_long_takes_no_buffer_along),
        cmocka_unit_test(a_peer_that_has_greeted_can_be_looked_at),
        cmocka_unit_test(a_silent_caller_leaves_space_for_others),
        cmocka_unit_test(nothing_is_delivered_by_a_close),
        cmocka_unit_test(a_peer_that_closes_after_its_answer_has_not_died),
        cmocka_unit_test(an_answered_peer_that_computes_is_not_forgotten),
        cmocka_unit_test(a_greeted_peer_that_computes_is_not_given_up),
        cmocka_unit_test(a_lost_answer_is_said_again),
        cmocka_unit_test(a_lost_proof_is_said_again),
        cmocka_unit_test(a_forgotten_peer_that_asks_is_answered),
        cmocka_unit_test(a_peer_that_forgets_and_greets_is_answered),
        cmocka_unit_test(a_proof_that_cannot_leave_is_said_again),
        cmocka_unit_test(what_is_known_not_to_have_arrived_ends_no_link),
        cmocka_unit_test(a_greeting_to_a_peer_that_gave_up_is_told_so),
        cmocka_unit_test(an_answer_to_a_peer_that_gave_up_is_told_so),
        cmocka_unit_test(sides_of_different_versions_say_so),
        cmocka_unit_test(a_call_of_another_version_for_somebody_else_ends_nothing),
    };

    log_set_sink(be_quiet, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
