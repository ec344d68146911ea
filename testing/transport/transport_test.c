/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_test.c - the guarantees of transport.h for packets and links, over every transport.
 */
#include "testing/transport/transport_fixture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/atomics.h"
#include "transport/compose.h"
#include "transport/handoff.h"
#include "transport/memory.h"

/* ---- order, sizes, space ---- */

/* Polls until all packets of node i have left it. */
static void poll_until_flushed(unsigned i)
{
    unsigned round = 0;

    while (is_patient(round++) && !fixture.nodes[i].t->ops->is_flushed(fixture.nodes[i].t))
        poll_all();
    assert_true(fixture.nodes[i].t->ops->is_flushed(fixture.nodes[i].t));
}

static void packets_arrive_in_order_in_both_directions(void **state)
{
    struct link *there, *back;

    fixture_init(state, 2);
    there = link_to(0, 1);
    back = link_to(1, 0);
    for (uint32_t i = 0; i < 300; i += 3) {
        send_all(there, i, 3);
        send_all(back, i, 3);
    }
    poll_until(&fixture.nodes[0].arrived[0], 300);
    poll_until(&fixture.nodes[1].arrived[0], 300);
    assert_int_equal(fixture.nodes[0].accepted + fixture.nodes[1].accepted, 0);
    if (fixture.kind->network != NULL)
        poll_until_flushed(0);
    assert_true(fixture.nodes[0].t->ops->is_flushed(fixture.nodes[0].t));
    fixture_fini();
}

static void every_size_arrives_whole(void **state)
{
    size_t size = sizeof(struct wire_header);
    struct link *link;
    uint32_t number = 0;

    fixture_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    for (; size <= link->transport->limits.packet_max; size++, number++) {
        int err = -EAGAIN;

        for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++)
            if ((err = send_sized(link, number, size)) == -EAGAIN)
                poll_all();
        assert_int_equal(err, 0);
    }
    poll_until(&fixture.nodes[1].arrived[0], number);
    fixture_fini();
}

static void a_full_link_takes_nothing_and_recovers(void **state)
{
    struct link *link;
    uint32_t taken;

    fixture_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    taken = send_until_full(link, 0);
    assert_true(taken > 0);
    for (unsigned i = 0; i < 20; i++) {
        poll_until(&fixture.nodes[1].arrived[0], taken);
        poll_idle();
        assert_int_equal(fixture.nodes[1].arrived[0], taken);
        taken = send_until_full(link, taken);
    }
    assert_true(taken > 21);
    fixture_fini();
}

struct composer {
    const unsigned char *payload;
    size_t capacity, gives; /* the space that it must be offered, and the bytes it writes */
    unsigned calls;
};

static size_t compose(void *arg, void *to, size_t size)
{
    struct composer *composer = arg;

    composer->calls++;
    assert_int_equal(size, composer->capacity);
    memset(to, 0xab, size); /* it may write more than it reports */
    memcpy(to, composer->payload, composer->gives);
    return composer->gives;
}

/* Sends a packet with space for the maximum payload, or for a few bytes. */
static int send_composed(struct link *link, uint32_t number, struct composer *composer)
{
    alignas(8) static unsigned char bytes[MAX_PACKET];
    const size_t head = sizeof(struct wire_header) + 8;

    fill(bytes, number, sizeof bytes);
    composer->payload = bytes + head;
    composer->calls = 0;
    return transport_compose(link,
                             &(struct transport_packet){
                                 .header = (struct wire_header *)(void *)bytes,
                                 .body = bytes + sizeof(struct wire_header),
                                 .body_size = 8,
                                 .payload_size = composer->capacity,
                             },
                             compose, composer);
}

/* The packet has the size of its actual payload; and a packet with no payload at all is not
 * sent. */
static void a_packet_is_composed_where_it_leaves_from(void **state)
{
    struct composer composer = {.capacity = 1};
    uint32_t number = 0;
    struct link *link;
    size_t most;
    int err = 0;

    fixture_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    most = link->transport->limits.packet_max - sizeof(struct wire_header) - 8;
    if (link->transport->ops->compose == NULL) {
        assert_int_equal(send_composed(link, 0, &composer), -ENOTSUP);
        assert_int_equal(composer.calls, 0);
        fixture_fini();
        return;
    }
    for (unsigned round = 0; is_patient(round) && number < 400; round++) {
        composer.capacity = round % 3 == 0 ? 1 + round % 24 : most;
        composer.gives = round % 5 == 4 ? 0 : 1 + round * 7 % composer.capacity;
        err = send_composed(link, number, &composer);
        assert_int_equal(err, composer.calls == 0   ? -EAGAIN
                              : composer.gives == 0 ? -ECANCELED
                                                    : 0);
        number += err == 0;
        if (round % 7 == 0 && send_number(link, number) == 0)
            number++;
        if (err == -EAGAIN || round % 11 == 0)
            poll_all();
    }
    assert_true(number >= 400);
    poll_until(&fixture.nodes[1].arrived[0], number);
    fixture_fini();
}

static void three_endpoints_do_not_mix(void **state)
{
    struct link *link[3][3];

    fixture_init(state, 3);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            link[i][k] = link_to(i, k);
    for (uint32_t number = 0; number < 60; number++)
        for (unsigned i = 0; i < 3; i++)
            for (unsigned k = 0; k < 3; k++)
                send_all(link[i][k], number, 1);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            poll_until(&fixture.nodes[i].arrived[k], 60);
    fixture_fini();
}

static void a_flood_does_not_starve_others(void **state)
{
    struct link *flood, *quiet;
    uint32_t number = 0;

    fixture_init(state, 3);
    flood = link_to(0, 2);
    quiet = link_to(1, 2);
    link_to(2, 0);
    link_to(2, 1);
    send_all(quiet, 0, 1);
    if (fixture.kind->network != NULL) /* the quiet one has to meet first */
        poll_until(&fixture.nodes[2].arrived[1], 1);
    for (unsigned round = 0; round < 1000 && fixture.nodes[2].arrived[1] == 0; round++) {
        number = send_until_full(flood, number);
        fixture.nodes[2].t->ops->poll(fixture.nodes[2].t, 2);
    }
    assert_int_equal(fixture.nodes[2].arrived[1], 1);
    fixture_fini();
}

static void an_endpoint_can_talk_to_itself(void **state)
{
    fixture_init(state, 1);
    send_all(link_to(0, 0), 0, 200);
    poll_until(&fixture.nodes[0].arrived[0], 200);
    assert_int_equal(fixture.nodes[0].accepted, 0);
    fixture_fini();
}

/* ---- unknown peers, refusals ---- */

static void an_unknown_peer_is_accepted_and_can_be_answered(void **state)
{
    fixture_init(state, 2);
    send_all(link_to(0, 1), 0, 20);
    poll_until(&fixture.nodes[1].arrived[0], 20);
    assert_int_equal(fixture.nodes[1].accepted, 1);
    send_all(fixture.nodes[1].links[0], 0, 20);
    poll_until(&fixture.nodes[0].arrived[0], 20);
    assert_int_equal(fixture.nodes[0].accepted, 0);
    fixture_fini();
}

static void a_refused_peer_is_dropped_and_counted(void **state)
{
    struct node *node = &fixture.nodes[2];

    fixture_init(state, 3);
    node->accept_error = -EPERM;
    send_until_full(link_to(0, 2), 0);
    for (unsigned round = 0; is_patient(round) && node->dropped == 0; round++)
        poll_all();
    assert_true(node->dropped > 0);
    assert_int_equal(node->accepted, 0);
    node->accept_error = 0;
    send_all(link_to(1, 2), 0, 20);
    poll_until(&node->arrived[0], 20);
    assert_int_equal(node->accepted, 1);
    fixture_fini();
}

static void an_undecided_accept_is_asked_again(void **state)
{
    struct node *node = &fixture.nodes[1];
    uint32_t taken;

    fixture_init(state, 2);
    node->accept_error = -EAGAIN;
    taken = send_until_full(link_to(0, 1), 0);
    poll_idle();
    assert_int_equal(node->accepted + node->dropped, 0);
    node->accept_error = 0;
    poll_until(&node->arrived[0], taken);
    assert_int_equal(node->accepted, 1);
    fixture_fini();
}

static void what_deliver_refuses_is_offered_again_in_order(void **state)
{
    struct node *node = &fixture.nodes[1];
    struct link *link;
    uint32_t taken = 0;

    fixture_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    for (unsigned i = 0; i < 20; i++) {
        taken = send_until_full(link, taken);
        node->deliver_again = 5;
        poll_until(&node->refusals, 5 * (i + 1));
        poll_until(&node->arrived[0], taken);
    }
    fixture_fini();
}

/* ---- addresses, ends ---- */

static void connecting_twice_gives_the_same_link(void **state)
{
    struct link *first, *second;

    fixture_init(state, 2);
    first = link_to(0, 1);
    second = link_to(0, 1);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, link_to(0, 0));
    fixture_fini();
}

static void malformed_addresses_are_refused(void **state)
{
    struct transport_address address;
    struct link *link = NULL;
    struct transport *t;

    fixture_init(state, 2);
    t = fixture.nodes[0].t;
    memset(&address, 0, sizeof address);
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    memset(&address, 0xff, sizeof address);
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    address = fixture.nodes[1].address;
    address.kind++;
    assert_int_equal(t->ops->connect(t, &address, &link), -EINVAL);
    assert_null(link);
    /* one bit changed: refused now, or a link that leads nowhere; except in the core's word,
     * which no transport checks */
    for (unsigned bit = 8; bit < 8 * TRANSPORT_ADDRESS_SIZE; bit++) {
        int err;

        if (bit / 8 - offsetof(struct transport_address, credit) < 4)
            continue;
        if (fixture.kind->network != NULL &&
            bit / 8 >= offsetof(struct transport_address, network))
            break; /* the address of another machine, perhaps */
        address = fixture.nodes[1].address;
        ((uint8_t *)&address)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        err = t->ops->connect(t, &address, &link);
        if (err == 0)
            err = send_until_error(link);
        assert_true(err == -EINVAL || err == -EHOSTUNREACH || err == -ENOTCONN);
    }
    poll_idle();
    assert_int_equal(fixture.nodes[1].accepted, 0);
    fixture_fini();
}

static bool is_gone(int err)
{
    return err == -ENOTCONN || err == -EHOSTUNREACH;
}

static unsigned warnings;

static void count_warnings(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)text;
    warnings += level <= LOG_LEVEL_WARN;
}

/* A segment has to be opened only for another process: the test changes the pid. */
static void a_lack_of_descriptors_is_told_once_and_tried_again(void **state)
{
    struct link *link;
    struct wire_header header = {.version = WIRE_VERSION};

    fixture_init(state, 1);
    if (fixture.kind->ops != &transport_shm || fixture.kind->fault_percent != 0) {
        fixture_fini();
        skip();
    }
    fixture.nodes[0].address.process = (uint32_t)getppid();
    link = link_to(0, 0);
    warnings = 0;
    log_set_sink(count_warnings, NULL);
    assert_int_equal(sys_fail_name("open", SYS_FAIL_ALWAYS, EMFILE), 0);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(
            link->transport->ops->send(link, &(struct transport_packet){.header = &header}),
            -EAGAIN);
    sys_fail_none();
    log_set_sink(be_quiet, NULL);
    assert_int_equal(warnings, 1);
    assert_int_equal(send_until_error(link), -EHOSTUNREACH);
    fixture_fini();
}

static uint32_t rank_at(struct link *link)
{
    return link->transport->ops->who(link).rank;
}

/* For the log: also for a peer that has ended, or that was only sent to or only received
 * from. */
static void a_peer_says_its_rank(void **state)
{
    struct link *there, *back;

    fixture_init(state, 2);
    there = link_to(0, 1);
    if (fixture.kind->ops->who == NULL) {
        fixture_fini();
        skip();
    }
    send_all(there, 0, 3);
    poll_until(&fixture.nodes[1].arrived[0], 3);
    back = fixture.nodes[1].links[0];
    assert_int_equal(rank_at(there), 11);
    assert_int_equal(rank_at(back), 10);
    node_close(1);
    assert_int_not_equal(send_until_error(there), 0);
    assert_int_equal(rank_at(there), 11);
    fixture_fini();
}

static void a_closed_endpoint_cannot_be_reached(void **state)
{
    struct link *link;

    fixture_init_within(state, 2, 2 * CLOCK_S);
    node_close(1);
    link = link_to(0, 1);
    assert_true(is_gone(send_until_error(link)));
    assert_true(is_gone(send_until_error(link)));
    fixture_fini();
}

static void a_new_endpoint_does_not_inherit_links(void **state)
{
    struct link *link;

    fixture_init_within(state, 2, 10 * CLOCK_S);
    link = link_to(0, 1);
    send_all(link, 0, 1);
    node_close(1);
    assert_int_equal(node_open(1), 0);
    assert_true(is_gone(send_until_error(link)));
    poll_idle();
    assert_int_equal(fixture.nodes[1].accepted, 0);
    assert_ptr_not_equal(link_to(0, 1), link);
    send_all(fixture.nodes[0].links[1], 0, 5);
    poll_until(&fixture.nodes[1].arrived[0], 5);
    fixture_fini();
}

static void what_was_sent_outlives_its_sender(void **state)
{
    uint32_t taken;

    fixture_init(state, 2);
    taken = send_until_full(link_to(0, 1), 0);
    if (fixture.kind->network != NULL)
        poll_until_flushed(0);
    node_close(0);
    poll_until(&fixture.nodes[1].arrived[0], taken);
    assert_int_equal(send_until_error(fixture.nodes[1].links[0]), -ENOTCONN);
    poll_idle();
    fixture_fini();
}

static void sending_to_one_that_closed_fails(void **state)
{
    struct link *link;

    fixture_init_within(state, 2, 2 * CLOCK_S);
    link = link_to(0, 1);
    send_until_full(link, 0);
    node_close(1);
    assert_true(is_gone(send_until_error(link)));
    assert_true(is_gone(send_until_error(link)));
    poll_idle();
    fixture_fini();
}

/* ---- splitting ---- */

/* Loads the words; repeats while the transport returns -EAGAIN. */
static int look_at(struct link *link, uint64_t index, uint64_t *words, size_t count)
{
    int err = -EAGAIN;

    for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++)
        err = transport_load(link, index, words, count);
    return err;
}

static void what_is_shown_is_seen_and_can_be_exchanged(void **state)
{
    static const uint64_t shown[] = {1, UINT64_MAX, 3, 4};
    uint64_t seen[5] = {0}, found, end, board;
    struct transport *owner;
    struct link *link;

    fixture_init(state, 2);
    owner = fixture.nodes[1].t;
    link = link_to(0, 1);
    board = owner->limits.cswap_words;
    if (owner->limits.table_words == 0) {
        assert_int_equal(look_at(link, 0, seen, 5), -ENOTSUP);
        assert_int_equal(transport_cswap(link, 0, 0, 1, &found, 0), -ENOTSUP);
        fixture_fini();
        return;
    }
    end = board + owner->limits.table_words;
    assert_int_equal(look_at(link, end - 5, seen, 5), 0);
    assert_int_equal(seen[0] | seen[4], 0);
    assert_int_equal(transport_store(owner, end - 4, shown, 4), 0);
    assert_int_equal(look_at(link, end - 5, seen, 5), 0);
    assert_int_equal(seen[0], 0);
    assert_memory_equal(&seen[1], shown, sizeof shown);
    assert_int_equal(transport_cswap(link, end - 1, 4, 5, &found, 0), 0);
    assert_int_equal(found, 4);
    assert_int_equal(transport_cswap_local(owner, end - 1, 4, 6, &found), 0);
    assert_int_equal(found, 5);

    assert_int_equal(look_at(link, end - 4, seen, 5), -EINVAL);
    assert_int_equal(look_at(link, UINT64_MAX - 2, seen, 5), -EINVAL);
    assert_int_equal(transport_store(owner, end - 3, shown, 4), -EINVAL);
    assert_int_equal(transport_store(owner, UINT64_MAX, shown, 4), -EINVAL);
    assert_int_equal(transport_cswap(link, end, 0, 1, &found, 0), -EINVAL);
    node_close(1);
    assert_int_equal(look_at(link, board, seen, 5), -ENOTCONN);
    fixture_fini();
}

static void handing_over_holds_back_what_arrives_or_is_refused(void **state)
{
    struct transport_handle handle;
    struct transport *t, *other;
    bool can;

    fixture_init(state, 2);
    t = fixture.nodes[0].t;
    can = fixture.kind->ops == &transport_shm;
    link_to(0, 1);
    assert_int_equal(transport_take_back(t), can ? -EINVAL : -ENOTSUP);
    assert_int_equal(transport_hand_over(t, &handle), can ? 0 : -ENOTSUP);
    if (!can)
        assert_int_equal(transport_take_over(t->ops, NULL, &handle, &other), -ENOTSUP);
    send_all(link_to(1, 0), 0, 3);
    if (can) {
        poll_idle();
        assert_int_equal(fixture.nodes[0].arrived[0], 0);
        assert_int_equal(transport_take_back(t), 0);
    }
    transport_wake_other(t);
    poll_until(&fixture.nodes[0].arrived[0], 3);
    fixture_fini();
}

/* ---- everything fails once ---- */

/* A short life: two endpoints, a few packets, an answer to an unknown peer.  Returns the
 * first error that is not "again"; closes nothing. */
static int short_life(void)
{
    struct link *link;
    int err = node_open(0);

    if (err == 0)
        err = node_open(1);
    if (err == 0)
        err = try_link(0, 1, &link);
    for (uint32_t number = 0; err == 0 && number < 10; number++) {
        err = -EAGAIN;
        for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++)
            if ((err = send_number(link, number)) == -EAGAIN)
                poll_all();
    }
    if (err == 0) {
        poll_until(&fixture.nodes[1].arrived[0], 10);
        err = -EAGAIN;
        for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++)
            if ((err = send_number(fixture.nodes[1].links[0], 0)) == -EAGAIN)
                poll_all();
    }
    if (err == 0)
        poll_until(&fixture.nodes[0].arrived[0], 1);
    return err;
}

static void no_allocation_is_needed_for_good(void **state)
{
    unsigned failed = 0;

    for (uint64_t n = 1;; n++) {
        uint64_t live;
        int err;

        fixture_init(state, 0);
        mem_fail_at(n);
        err = short_life();
        mem_fail_at(0);
        live = mem_live();
        fixture_fini();
        assert_true(err == 0 || err == -ENOMEM);
        failed += err != 0;
        if (err == 0 && n > 40)
            break;
        assert_true(live >= fixture.mem_before);
    }
    assert_true(failed >= 2); /* two endpoints were allocated */
}

/* A peer that could not be connected for lack of memory is still unknown when it sends. */
static void a_connect_without_memory_changes_nothing(void **state)
{
    struct link *link;
    uint64_t n = 0;
    int err = -ENOMEM;

    while (err == -ENOMEM) {
        fixture_init(state, 2);
        mem_fail_at(++n);
        err = try_link(0, 1, &link);
        mem_fail_at(0);
        assert_true(err == 0 || err == -ENOMEM);
        if (err != 0) {
            send_all(link_to(1, 0), 0, 3);
            poll_until(&fixture.nodes[0].arrived[0], 3);
            assert_int_equal(fixture.nodes[0].accepted, 1);
        }
        fixture_fini();
    }
    assert_true(n > 1);
}

static void no_system_call_is_needed_for_good(void **state)
{
    static const int errors[] = {EMFILE, EACCES, EINTR, ENOMEM};
    const struct kind *kind = *state;

    if (kind->network != NULL)
        skip(); /* a network does not give up a peer that nobody answers for */
    for (unsigned i = 0; i < ARRAY_COUNT(errors); i++)
        for (uint64_t n = 1; n <= 60; n++) {
            int err;

            fixture_init(state, 0);
            sys_fail_at(n, errors[i]);
            err = short_life();
            sys_fail_at(0, 0);
            /* the error of the call, or a peer that could not be reached because of it */
            if (err != 0 && err != -EAGAIN && err != -EHOSTUNREACH)
                assert_int_equal(err, -errors[i]);
            fixture_fini();
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_arrive_in_order_in_both_directions),
        cmocka_unit_test(every_size_arrives_whole),
        cmocka_unit_test(a_full_link_takes_nothing_and_recovers),
        cmocka_unit_test(a_packet_is_composed_where_it_leaves_from),
        cmocka_unit_test(three_endpoints_do_not_mix),
        cmocka_unit_test(a_flood_does_not_starve_others),
        cmocka_unit_test(an_endpoint_can_talk_to_itself),
        cmocka_unit_test(an_unknown_peer_is_accepted_and_can_be_answered),
        cmocka_unit_test(a_refused_peer_is_dropped_and_counted),
        cmocka_unit_test(an_undecided_accept_is_asked_again),
        cmocka_unit_test(what_deliver_refuses_is_offered_again_in_order),
        cmocka_unit_test(connecting_twice_gives_the_same_link),
        cmocka_unit_test(malformed_addresses_are_refused),
        cmocka_unit_test(a_lack_of_descriptors_is_told_once_and_tried_again),
        cmocka_unit_test(a_peer_says_its_rank),
        cmocka_unit_test(a_closed_endpoint_cannot_be_reached),
        cmocka_unit_test(a_new_endpoint_does_not_inherit_links),
        cmocka_unit_test(what_was_sent_outlives_its_sender),
        cmocka_unit_test(sending_to_one_that_closed_fails),
        cmocka_unit_test(what_is_shown_is_seen_and_can_be_exchanged),
        cmocka_unit_test(handing_over_holds_back_what_arrives_or_is_refused),
        cmocka_unit_test(no_allocation_is_needed_for_good),
        cmocka_unit_test(a_connect_without_memory_changes_nothing),
        cmocka_unit_test(no_system_call_is_needed_for_good),
    };

    return run_over_all(argc, argv, tests, ARRAY_COUNT(tests), NEEDS_NOTHING);
}
