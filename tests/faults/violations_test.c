/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations_test.c - a well-formed packet that does not fit the state is counted and has no
 * other effect.
 *
 * Endpoint 0 gets forged packets in the name of its peers 1 and 2, between real ones.
 */
#include "cluster.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>

#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/backlog.h"
#include "defer/receiver.h"
#include "transport/bounce.h"

#define CONTEXT 15
#define CLAIMS  20000 /* more than any ring has space for */
#define SIZE    20000 /* a rendezvous in most configurations */

static uint64_t dropped; /* the count of endpoint 0 so far */

/* Delivers a packet in the name of peer. */
static void deliver(struct cluster *cl, uint32_t peer, const struct wire_header *header,
                    const void *body, const void *payload, size_t payload_size)
{
    size_t body_size = wire_body_size(header->type);
    alignas(8) unsigned char packet[2048];

    memcpy(packet, header, sizeof *header);
    if (body_size != 0)
        memcpy(packet + sizeof *header, body, body_size);
    if (payload_size != 0)
        memcpy(packet + sizeof *header + body_size, payload, payload_size);
    assert_int_equal(peer_use(cl->eps[0], peer), 0); /* the peer may have sent nothing yet */
    assert_int_equal(
        deliver_packet(cl->eps[0], peer, packet, sizeof *header + body_size + payload_size), 0);
}

static void tell(struct cluster *cl, uint32_t peer, enum wire_type type, const void *body,
                 const void *payload, size_t size)
{
    const struct wire_header header = {.type = (uint8_t)type, .version = WIRE_VERSION};

    deliver(cl, peer, &header, body, payload, size);
}

/* As tell(); the packet must be dropped. */
static void forge(struct cluster *cl, uint32_t peer, enum wire_type type, const void *body,
                  const void *payload, size_t size)
{
    tell(cl, peer, type, body, payload, size);
    assert_int_equal(cluster_stats(cl, 0).dropped_packets, ++dropped);
}

/* As tell(), for a packet whose bytes are in a bounce buffer of the peer. */
static void tell_in_buffer(struct cluster *cl, uint32_t peer, enum wire_type type,
                           const void *body, const struct wire_buffer *in)
{
    const struct wire_header header = {
        .type = (uint8_t)type, .version = WIRE_VERSION, .flags = WIRE_IN_BUFFER};

    deliver(cl, peer, &header, body, in, sizeof *in);
}

static void forge_in_buffer(struct cluster *cl, uint32_t peer, enum wire_type type,
                            const void *body, const struct wire_buffer *in)
{
    tell_in_buffer(cl, peer, type, body, in);
    assert_int_equal(cluster_stats(cl, 0).dropped_packets, ++dropped);
}

static void tell_message(struct cluster *cl, uint32_t peer, enum wire_type type,
                         const void *body, const void *payload, size_t size)
{
    const struct wire_header header = {
        .type = (uint8_t)type, .version = WIRE_VERSION, .tag = 1, .context_id = CONTEXT};

    deliver(cl, peer, &header, body, payload, size);
}

static void open_world(struct cluster *cl, const struct configuration *config)
{
    dropped = 0;
    cluster_open(cl, config, 3,
                 (const char *const[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error", NULL});
}

/* As open_world(), and peers may send eagerly, whatever the configuration says. */
static void open_wide(struct cluster *cl, const struct configuration *config)
{
    dropped = 0;
    cluster_open(cl, config, 3,
                 (const char *const[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error",
                                       "MATCH_AT=receiver", "WINDOW=auto",
                                       "WINDOW_PAYLOAD=auto", "OVERSUBSCRIBED=no", NULL});
}

static mbx_request post(struct cluster *cl, void *buf, size_t size)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[0], 1, CONTEXT, 1, 0, buf, size, NULL, &recv), 0);
    return recv;
}

/* Fragments go into a posted receive, and into memory for an unexpected message. */
static void test_fragments(void **state)
{
    const unsigned char *data = seeded_bytes(0, 1000);
    const struct wire_first first = {.size = 1000}, longer = {.size = WIRE_EAGER_MAX + 1};
    const struct wire_more at[] = {{100}, {99}, {101}, {0}, {400}};
    unsigned char got[1000];
    struct cluster cl;

    open_wide(&cl, *state);
    for (int late = 0; late < 2; late++) {
        mbx_request recv = 0;

        memset(got, 0, sizeof got);
        if (!late)
            recv = post(&cl, got, sizeof got);
        forge(&cl, 1, WIRE_MORE, &at[0], data, 10); /* no such message */
        forge(&cl, 1, WIRE_MORE, &at[3], data, 10);
        tell_message(&cl, 1, WIRE_FIRST, &longer, data, 100); /* too long: not matched */
        assert_int_equal(cluster_stats(&cl, 0).dropped_packets, ++dropped);
        tell_message(&cl, 1, WIRE_FIRST, &first, data, 100);
        tell_message(&cl, 1, WIRE_FIRST, &first, data, 100); /* inside another message */
        assert_int_equal(cluster_stats(&cl, 0).dropped_packets, ++dropped);
        forge(&cl, 1, WIRE_MORE, &at[1], data, 10);
        forge(&cl, 1, WIRE_MORE, &at[2], data, 10);
        forge(&cl, 1, WIRE_MORE, &at[3], data, 10);
        forge(&cl, 1, WIRE_MORE, &at[0], data, 901); /* beyond the end */
        forge(&cl, 2, WIRE_MORE, &at[0], data, 10);  /* from another peer */
        tell(&cl, 1, WIRE_MORE, &at[0], data + 100, 300);
        forge(&cl, 1, WIRE_MORE, &at[0], data, 300); /* the same part again */
        tell(&cl, 1, WIRE_MORE, &at[4], data + 400, 600);
        forge(&cl, 1, WIRE_MORE, &at[4], data, 10);
        if (late)
            recv = post(&cl, got, sizeof got);
        cluster_wait_error(&cl, 0, recv, 0);
        assert_memory_equal(got, data, sizeof got);
        assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    }
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, dropped);
    cluster_close(&cl);
}

/* The data of a send is packed in ascending order: the peer asks for other bytes, or asks it to
 * write them. */
static void test_pieces(void **state)
{
    const unsigned char *data = seeded_bytes(0, 100000);
    const struct mbx_iovec parts[] = {{(void *)(uintptr_t)data, 100000}};
    const struct mbx_layout layout = {.parts = parts, .count = 1};
    const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};
    static unsigned char got[100000];
    mbx_request send, recv;
    struct wire_cts cts;
    struct wire_split_copy split_copy;
    struct cluster cl;

    open_wide(&cl, *state);
    memset(got, 0, sizeof got);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, NULL, sizeof got, &options, &send), 0);
    cluster_settle(&cl);
    cts = (struct wire_cts){.sender = send, .receiver = 5, .offset = 100, .size = 1000};
    forge(&cl, 1, WIRE_CTS, &cts, NULL, 0);
    split_copy = (struct wire_split_copy){
        .sender = send, .receiver = 5, .size = 100, .word = 1, .address = (uintptr_t)got};
    forge(&cl, 1, WIRE_SPLIT_COPY, &split_copy, NULL, 0);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, got, sizeof got, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    cluster_wait_error(&cl, 0, send, 0);
    assert_memory_equal(got, data, sizeof got);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, dropped);
    cluster_close(&cl);
}

/* A receive waits for the data that it has asked for. */
static void test_data(void **state)
{
    const unsigned char *data = seeded_bytes(0, 1000);
    const struct wire_rts rts = {.sender = 5, .size = 1000}; /* cannot be read */
    struct wire_data good = {.offset = 100}, bad;
    struct mbx_completion done;
    unsigned char got[800];
    mbx_request recv, other;
    struct cluster cl;

    if (config_window(*state) == 0)
        return; /* the peer has no credit for a message */
    open_world(&cl, *state);
    recv = post(&cl, got, sizeof got);
    other = post(&cl, got, 1); /* waits for its match */
    tell_message(&cl, 1, WIRE_RTS, &rts, data, 100);
    good.receiver = recv;
    forge(&cl, 1, WIRE_DATA, &good, data, 600); /* more than was asked for, or not asked for */
    cluster_settle(&cl);
    for (int i = 0; i < 6; i++) {
        bad = good;
        if (i == 0)
            bad.offset = 0;
        if (i == 1)
            bad.offset = 101;
        if (i == 2)
            bad.receiver = other;
        if (i == 3)
            bad.receiver = 0;
        if (i == 4)
            bad.receiver ^= UINT64_C(1) << 40;
        forge(&cl, i == 5 ? 2 : 1, WIRE_DATA, &bad, data, 10);
    }
    forge(&cl, 1, WIRE_DATA, &good, data, 701);
    tell(&cl, 1, WIRE_DATA, &good, data + 100, 300);
    good.offset = 400;
    tell(&cl, 1, WIRE_DATA, &good, data + 400, 400);
    assert_int_equal(mbx_test(cl.eps[0], recv, &done), 1);
    assert_int_equal(done.error, -EMSGSIZE);
    assert_int_equal(done.received, sizeof got);
    assert_memory_equal(got, data, sizeof got);
    forge(&cl, 1, WIRE_DATA, &good, data, 400);
    assert_int_equal(mbx_cancel(cl.eps[0], other), 0);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, dropped);
    cluster_close(&cl);
}

/* Packets name bounce buffers which their sender has not filled. */
static void test_buffers(void **state)
{
    const struct wire_rts rts = {.sender = 5, .size = 1000}; /* cannot be read */
    struct wire_buffer in = {.size = 10};
    struct wire_data part = {.offset = 0};
    const struct wire_header whole = {.type = WIRE_EAGER,
                                      .version = WIRE_VERSION,
                                      .flags = WIRE_IN_BUFFER,
                                      .tag = 2,
                                      .context_id = CONTEXT};
    unsigned char got[1000];
    struct cluster cl;
    mbx_request recv;

    if (config_window(*state) == 0)
        return; /* the peer has no credit for a message */
    open_world(&cl, *state);
    recv = post(&cl, got, sizeof got);
    tell_message(&cl, 1, WIRE_RTS, &rts, NULL, 0);
    cluster_settle(&cl); /* it allows buffers, if it can */
    part.receiver = recv;
    for (int i = 0; i < 4; i++) {
        const uint64_t buffers[] = {UINT64_MAX, 1u << 20, UINT32_MAX, 4096};

        in.buffer = buffers[i];
        forge_in_buffer(&cl, 1, WIRE_DATA, &part, &in);
        deliver(&cl, 1, &whole, NULL, &in, sizeof in);
        assert_int_equal(cluster_stats(&cl, 0).dropped_packets, ++dropped);
    }
    in = (struct wire_buffer){.size = 100000}; /* more than fits, and than was asked for */
    forge_in_buffer(&cl, 1, WIRE_DATA, &part, &in);
    deliver(&cl, 1, &whole, NULL, &in, sizeof in);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, ++dropped);
    in.size = 10;
    part.offset = 1;
    forge_in_buffer(&cl, 1, WIRE_DATA, &part, &in);
    part.offset = 0;
    part.receiver ^= UINT64_C(1) << 40;
    forge_in_buffer(&cl, 1, WIRE_DATA, &part, &in);
    forge_in_buffer(&cl, 2, WIRE_DATA, &part, &in);
    cluster_close(&cl);
}

/* Fills a buffer for endpoint 0, as peer 1 does before it names the buffer.  Returns its
 * number. */
static uint64_t take_buffer(const struct cluster *cl, const unsigned char *data, size_t size)
{
    struct link *link = peer_get(cl->eps[1], 0)->link;
    uint32_t buffer = 0;
    void *place = NULL;
    size_t capacity = 0;

    for (int i = 0; i < test_patience() && place == NULL; i++)
        place = transport_bounce_take(link, &buffer, &capacity);
    assert_non_null(place);
    assert_true(size <= capacity);
    memcpy(place, data, size);
    return buffer;
}

/* Sends a part of a message in a bounce buffer of peer 1. */
static void tell_part(struct cluster *cl, mbx_request recv, uint64_t offset, size_t size,
                      bool fits)
{
    const struct wire_data part = {.receiver = recv, .offset = offset};
    const struct wire_buffer in = {take_buffer(cl, seeded_bytes(0, 4000) + offset, size), size};

    tell_in_buffer(cl, 1, WIRE_DATA, &part, &in);
    assert_int_equal(cluster_stats(cl, 0).dropped_packets, fits ? dropped : ++dropped);
    cluster_check_buffers(cl, 1, 0); /* the buffer is free again in any case */
}

/* A peer names a bounce buffer for another offset, or with another length, than it was asked
 * for. */
static void test_buffer_parts(void **state)
{
    const struct wire_rts rts = {.sender = 5, .size = 1000}; /* cannot be read */
    unsigned char got[3000];
    mbx_request send, recv;
    struct cluster cl;
    char byte = 1;

    if (config_window(*state) == 0)
        return; /* the peer has no credit for a message */
    open_world(&cl, *state);
    recv = post(&cl, &byte, 1);
    assert_int_equal(mbx_send(cl.eps[1], 0, CONTEXT, 1, &byte, 1, NULL, &send), 0);
    cluster_wait_error(&cl, 0, recv, 0); /* makes the buffers of peer 1 readable */
    cluster_wait_error(&cl, 1, send, 0);
    memset(got, 0xee, sizeof got);
    recv = post(&cl, got, 1000);
    tell_message(&cl, 1, WIRE_RTS, &rts, NULL, 0);
    cluster_settle(&cl);
    if (cluster_has_buffers(&cl, 1, 0)) {
        tell_part(&cl, recv, 1, 10, false);
        tell_part(&cl, recv, 600, 400, false);
        tell_part(&cl, recv, 0, 1001, false);
        tell_part(&cl, recv ^ UINT64_C(1) << 40, 0, 10, false);
        tell_part(&cl, recv, 0, 600, true);
        tell_part(&cl, recv, 0, 400, false); /* the same part again */
        tell_part(&cl, recv, 600, 401, false);
        tell_part(&cl, recv, 600, 400, true);
        cluster_wait_error(&cl, 0, recv, 0);
        assert_memory_equal(got, seeded_bytes(0, 4000), 1000);
        tell_part(&cl, recv, 1000, 10, false); /* the receive is over */
        assert_int_equal(count_of_byte(got + 1000, 2000, 0xee), 2000);
    } else {
        assert_string_not_equal(((const struct configuration *)*state)->name, "shm");
    }
    cluster_close(&cl);
}

/* Sends the next part of the message that peer 1 has begun, in a bounce buffer. */
static void tell_more(struct cluster *cl, uint64_t offset, size_t size, bool fits)
{
    const struct wire_more more = {.offset = offset};
    const struct wire_buffer in = {take_buffer(cl, seeded_bytes(0, 4000) + offset, size), size};

    tell_in_buffer(cl, 1, WIRE_MORE, &more, &in);
    assert_int_equal(cluster_stats(cl, 0).dropped_packets, fits ? dropped : ++dropped);
    cluster_check_buffers(cl, 1, 0); /* the buffer is free again in any case */
}

/* Parts of messages in bounce buffers: without a first part, with an offset or a length that
 * does not follow; into a receive, and into memory for an unexpected message. */
static void test_buffer_more(void **state)
{
    const struct wire_first begun = {.size = 3000}, longer = {.size = 9000};
    const unsigned char *data = seeded_bytes(0, 4000);
    unsigned char got[9000];
    const struct configuration *config = *state;
    mbx_request send, recv;
    struct cluster cl;
    char byte = 1;

    open_wide(&cl, config);
    recv = post(&cl, &byte, 1);
    assert_int_equal(mbx_send(cl.eps[1], 0, CONTEXT, 1, &byte, 1, NULL, &send), 0);
    cluster_wait_error(&cl, 0, recv, 0);
    cluster_wait_error(&cl, 1, send, 0);
    recv = post(&cl, got, sizeof got);
    tell_message(&cl, 1, WIRE_FIRST, &longer, data, 100); /* it allows buffers, if it can */
    for (struct wire_more more = {.offset = 100}; more.offset < 9000; more.offset += 100)
        tell(&cl, 1, WIRE_MORE, &more, data, 100);
    cluster_wait_error(&cl, 0, recv, 0);
    assert_true(cluster_has_buffers(&cl, 1, 0) || strcmp(config->name, "shm") != 0);
    for (int is_posted = 0; is_posted <= 1 && cluster_has_buffers(&cl, 1, 0); is_posted++) {
        const struct wire_more next = {.offset = 100};
        struct wire_buffer unknown = {UINT32_MAX, 10};

        tell_more(&cl, 0, 10, false);
        memset(got, 0xee, sizeof got);
        if (is_posted)
            recv = post(&cl, got, sizeof got);
        tell_message(&cl, 1, WIRE_FIRST, &begun, data, 100);
        forge_in_buffer(&cl, 1, WIRE_MORE, &next, &unknown);
        unknown = (struct wire_buffer){1, 100000}; /* more than a buffer holds */
        forge_in_buffer(&cl, 1, WIRE_MORE, &next, &unknown);
        tell_more(&cl, 99, 10, false);
        tell_more(&cl, 101, 10, false);
        tell_more(&cl, 100, 2901, false);
        tell_more(&cl, 100, 1000, true);
        tell_more(&cl, 100, 1000, false); /* the same part again */
        tell_more(&cl, 1100, 1900, true);
        tell_more(&cl, 3000, 10, false); /* the message is over */
        if (!is_posted)
            recv = post(&cl, got, sizeof got);
        cluster_wait_error(&cl, 0, recv, 0);
        assert_memory_equal(got, data, 3000);
        assert_int_equal(count_of_byte(got + 3000, 6000, 0xee), 6000);
    }
    cluster_close(&cl);
}

/* A send that waits for the receiver, which sends no packet while it has not received. */
static void sent(struct cluster *cl, size_t size)
{
    const unsigned char *data = seeded_bytes(0, size);
    unsigned char got[SIZE];
    mbx_request send, never, recv;
    struct wire_fin fin;
    struct wire_cts cts;

    assert_int_equal(mbx_ssend(cl->eps[0], 1, CONTEXT, 2, data, size, NULL, &send), 0);
    never = post(cl, got, 1);
    cluster_settle(cl);
    fin.sender = send;
    cts = (struct wire_cts){.sender = send, .receiver = 7, .size = size};
    forge(cl, 2, WIRE_FIN, &fin, NULL, 0); /* from another peer */
    forge(cl, 2, WIRE_CTS, &cts, NULL, 0);
    fin.sender = cts.sender = never; /* a receive */
    forge(cl, 1, WIRE_FIN, &fin, NULL, 0);
    forge(cl, 1, WIRE_CTS, &cts, NULL, 0);
    fin.sender = cts.sender = send ^ UINT64_C(1) << 40; /* no such request */
    forge(cl, 1, WIRE_FIN, &fin, NULL, 0);
    forge(cl, 1, WIRE_CTS, &cts, NULL, 0);
    cts.sender = send;
    cts.offset = size + 1; /* beyond the end */
    cts.size = 0;
    forge(cl, 1, WIRE_CTS, &cts, NULL, 0);
    cts.offset = 1;
    cts.size = size;
    forge(cl, 1, WIRE_CTS, &cts, NULL, 0);
    assert_int_equal(mbx_test(cl->eps[0], send, NULL), 0);
    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 2, 0, got, size, NULL, &recv), 0);
    cluster_wait_error(cl, 1, recv, 0);
    cluster_wait_error(cl, 0, send, 0);
    assert_memory_equal(got, data, size);
    fin.sender = cts.sender = send; /* the send is over */
    cts.offset = 0;
    forge(cl, 1, WIRE_FIN, &fin, NULL, 0);
    forge(cl, 1, WIRE_CTS, &cts, NULL, 0);
    assert_int_equal(mbx_cancel(cl->eps[0], never), 0);
    cluster_wait_error(cl, 0, never, -ECANCELED);
}

static void test_answers(void **state)
{
    struct cluster cl;

    open_world(&cl, *state);
    sent(&cl, 20);   /* eager: a CTS never fits */
    sent(&cl, SIZE); /* rendezvous */
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, dropped);
    cluster_close(&cl);
}

/* An eager synchronous send has no use for a CTS, even a plausible one. */
static void test_cts_for_an_eager_send(void **state)
{
    struct wire_cts cts = {.receiver = 7, .offset = 0, .size = 1};
    mbx_request send, recv;
    struct cluster cl;
    char byte = 1, got;

    open_world(&cl, *state);
    if (cluster_size_of(&cl, MBX_INLINE) > 0 &&
        cl.eps[0]->net.transport->limits.data_max == 0) { /* otherwise it is a rendezvous */
        assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, 2, &byte, 1, NULL, &send), 0);
        cluster_settle(&cl);
        cts.sender = send;
        forge(&cl, 1, WIRE_CTS, &cts, NULL, 0);
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 2, 0, &got, 1, NULL, &recv), 0);
        cluster_wait_error(&cl, 1, recv, 0);
        cluster_wait_error(&cl, 0, send, 0);
    }
    cluster_close(&cl);
}

/* ---- floods ---- */

#define FLOOD 20000

/* A peer sends synchronous messages and seldom reads a packet: each message needs a FIN. */
static void test_fins_that_nobody_reads_are_bounded(void **state)
{
    const struct configuration *config = *state;
    const struct wire_sync sync = {.sender = 77};
    mbx_request recv;
    struct cluster cl;
    struct peer *peer;
    uint64_t bound;

    if (config_has_faults(config) || config_has_device(config))
        skip();
    open_wide(&cl, config);
    assert_int_equal(peer_use(cl.eps[0], 1), 0);
    peer = peer_get(cl.eps[0], 1);
    for (int i = 0; i < FLOOD; i++) {
        uint64_t before = cluster_stats(&cl, 0).dropped_packets;

        recv = post(&cl, NULL, 0);
        tell_message(&cl, 1, WIRE_SYNC, &sync, NULL, 0);
        if (cluster_stats(&cl, 0).dropped_packets != before) /* it had no credit */
            mbx_cancel(cl.eps[0], recv);
        assert_int_equal(mbx_wait(cl.eps[0], recv, -1, NULL), 0);
        if (i % 16 == 0)
            cl.eps[1]->net.transport->ops->poll(cl.eps[1]->net.transport, 1);
        mbx_progress(cl.eps[0]);
        bound = FINS_MOST + peer_credit(peer)->window;
        assert_in_range(peer->outq.fins, 0, bound);
        assert_in_range(cluster_stats(&cl, 0).requests_now, 0, bound);
    }
    if (strcmp(config->name, "loop") == 0 || strcmp(config->name, "shm") == 0)
        assert_true(peer->outq.fins > FINS_MOST); /* otherwise the test tested nothing */
    dropped = cluster_stats(&cl, 0).dropped_packets;
    while (peer->outq.fins != 0) /* an adapter is a separate process and takes its time */
        cluster_progress(&cl);
    cluster_close(&cl);
}

/* The work for a DEFER packet is bounded, however many receives wait. */
static void test_a_flood_of_holds_walks_no_list(void **state)
{
    const struct configuration *config = *state;
    mbx_request recvs[2000], wanted;
    struct wire_defer defer = {.capacity = 8};
    uint64_t before;
    struct cluster cl;

    if (config_has_faults(config) || config_has_device(config))
        skip();
    cluster_open(&cl, config, 3, /* without extra credit, which would end the deferral */
                 (const char *const[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error",
                                       "MATCH_AT=receiver", "WINDOW=0", NULL});
    for (size_t i = 0; i < ARRAY_COUNT(recvs); i++)
        assert_int_equal(mbx_recv(cl.eps[0], 2, CONTEXT, 1, 0, NULL, 0, NULL, &recvs[i]), 0);
    wanted = post(&cl, NULL, 0);
    before = cluster_stats(&cl, 0).rtr_checks;
    for (defer.epoch = 1; defer.epoch <= 500; defer.epoch++)
        tell(&cl, 1, WIRE_DEFER, &defer, NULL, 0);
    assert_in_range(cluster_stats(&cl, 0).rtr_checks - before, 500, 500 * 200);
    /* the walk ends in time, and announces the receive that peer 1 may match */
    before = cluster_stats(&cl, 0).rtrs;
    for (int i = 0; i < 100; i++)
        mbx_progress(cl.eps[0]);
    assert_int_equal(cluster_stats(&cl, 0).rtrs, before + 1);
    assert_int_equal(mbx_cancel(cl.eps[0], wanted), 0);
    for (size_t i = 0; i < ARRAY_COUNT(recvs); i++)
        assert_int_equal(mbx_cancel(cl.eps[0], recvs[i]), 0);
    cluster_close(&cl);
}

/* Answers that cannot leave take space for a bounded number of claims of a peer. */
static void test_claims_that_are_not_answered_are_refused(void **state)
{
    const struct configuration *config = *state;
    const struct wire_defer defer = {.capacity = 8, .epoch = 1};
    struct wire_claim claim = {.receiver = 1, .size = 8};
    struct cluster cl;

    if (config_has_faults(config) || config_has_device(config))
        skip();
    cluster_open(&cl, config, 3,
                 (const char *const[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error",
                                       "MATCH_AT=receiver", "WINDOW=0", NULL});
    tell(&cl, 1, WIRE_DEFER, &defer, NULL, 0);
    for (claim.sender = 1; claim.sender <= CLAIMS; claim.sender++)
        tell_message(&cl, 1, WIRE_CLAIM, &claim, NULL, 0);
    /* the ring takes some answers, and BACKLOG_CLAIMS + 1 others may wait */
    ep_check(cl.eps[0]);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets + cluster_stats(&cl, 0).retires +
                         peer_get(cl.eps[0], 1)->deferrer->answer_count,
                     CLAIMS);
    cluster_close(&cl);
}

/* A peer has much extra credit, fills it, and sends more payload than its credit.  The payload
 * matches, so it needs no memory, but the credit for it does not become extra credit again. */
static void test_payload_beyond_credit_makes_none(void **state)
{
    const struct configuration *config = *state;
    const struct wire_rts short_of = {.sender = 7, .size = 1000};
    struct wire_first first = {0};
    static const unsigned char zeros[1000];
    const struct credit *credit;
    struct cluster cl;

    if (config_has_faults(config) || config_has_device(config))
        skip();
    dropped = 0;
    cluster_open(&cl, config, 3,
                 (const char *const[]){"CLOSE_TIMEOUT=0", "LOG_LEVEL=error",
                                       "MATCH_AT=receiver", "WINDOW=auto",
                                       "WINDOW_PAYLOAD=auto", "ADVERT=off",
                                       "UNEXPECTED_MEMORY=1M", "PEERS_MAX=16", NULL});
    assert_int_equal(peer_use(cl.eps[0], 1), 0);
    credit = peer_credit(peer_get(cl.eps[0], 1));
    for (int i = 0; ep_credit(cl.eps[0])->extra >= ep_credit(cl.eps[0])->extra_all / 8; i++) {
        const struct wire_header header = {
            .type = WIRE_RTS, .version = WIRE_VERSION, .flags = WIRE_SHORT_OF, .tag = 2};

        assert_in_range(i, 0, 100);
        deliver(&cl, 1, &header, &short_of, NULL, 0);
        for (int k = 0; k < 20; k++)
            cluster_progress(&cl); /* CREDIT leaves: unsent credit would be taken back */
    }
    first.size = credit->window_payload - credit->kept_payload - 256;
    tell_message(&cl, 1, WIRE_FIRST, &first, zeros, 100);
    assert_in_range(credit->kept_payload, credit->window_payload / 2, credit->window_payload);
    for (int i = 0; i < 2000; i++) {
        const struct wire_header header = {
            .type = WIRE_EAGER, .version = WIRE_VERSION, .tag = 3, .context_id = CONTEXT};
        mbx_request recv;

        assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 3, 0, NULL, 0, NULL, &recv), 0);
        deliver(&cl, 1, &header, NULL, zeros, sizeof zeros);
        cluster_progress(&cl);
        if (mbx_cancel(cl.eps[0], recv) != 0)
            assert_int_equal(mbx_wait(cl.eps[0], recv, -1, NULL), 0);
        assert_in_range(credit->kept_payload, 0, credit->window_payload);
        assert_in_range(ep_credit(cl.eps[0])->extra, 0, ep_credit(cl.eps[0])->extra_all);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fragments),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_buffer_parts),
        cmocka_unit_test(test_buffer_more),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_cts_for_an_eager_send),
        cmocka_unit_test(test_fins_that_nobody_reads_are_bounded),
        cmocka_unit_test(test_a_flood_of_holds_walks_no_list),
        cmocka_unit_test(test_claims_that_are_not_answered_are_refused),
        cmocka_unit_test(test_payload_beyond_credit_makes_none),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
