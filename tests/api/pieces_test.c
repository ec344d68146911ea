/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pieces_test.c - data in a vector, or packed and unpacked by callbacks, arrives as if it lay
 * in one buffer, whichever side uses it.
 *
 * The callbacks here check the promises of the header: offsets that ascend without a gap, space
 * for at least 256 bytes, one call of end(), and no call after it.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "testing/fault/fault.h"

#define CONTEXT   9
#define PARTS_MAX 64
#define GAP       3 /* bytes between the parts of a vector */
#define LEAST     256
#define FOREIGN   0xee
#define NEVER     UINT32_MAX

/* The placement of the data of one side. */
enum placement {
    FLAT,
    VECTOR,
    CALLBACKS,
    STINGY,
    PLACEMENTS
}; /* STINGY: pack() returns less than the space that it gets */

struct side {
    enum placement placement;
    size_t size;
    unsigned char *memory; /* the data to send, or the space for the data received */
    size_t memory_size;
    struct mbx_iovec parts[PARTS_MAX];
    struct mbx_layout layout;
    struct mbx_options options;
    /* used by the callbacks */
    size_t next;
    unsigned calls, ends;
    unsigned fail_at; /* the number of the call, from 0 on, that returns: */
    int64_t answer;
};

static uint64_t chance = 1;

static size_t draw(size_t below)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(chance >> 33) % below;
}

/* ---- callbacks ---- */

static bool fails_now(struct side *side)
{
    assert_int_equal(side->ends, 0);
    return side->calls++ == side->fail_at;
}

static int64_t pack(void *context, size_t offset, void *to, size_t size)
{
    struct side *side = context;
    size_t some = side->placement == STINGY ? 1 + draw(size) : size;

    assert_int_equal(offset, side->next);
    assert_true(size <= side->size - offset);
    assert_true(size >= LEAST || size == side->size - offset);
    if (fails_now(side))
        return side->answer;
    memcpy(to, side->memory + offset, some);
    side->next += some;
    return (int64_t)some;
}

static int unpack(void *context, size_t offset, const void *from, size_t size)
{
    struct side *side = context;

    assert_int_equal(offset, side->next);
    assert_true(size != 0 && size <= side->size - offset);
    if (fails_now(side))
        return (int)side->answer;
    memcpy(side->memory + offset, from, size);
    side->next += size;
    return 0;
}

static void end(void *context)
{
    struct side *side = context;

    side->ends++;
}

/* ---- sides ---- */

/* Cuts size bytes into parts, some of them empty, with gaps between them. */
static void make_vector(struct side *side)
{
    size_t left = side->size, at = 0, count = 0;

    while (left != 0 && count < PARTS_MAX - 1) {
        size_t most = count % 7 == 3 ? left : max_size(2 * side->size / PARTS_MAX, 2);
        size_t size = count % 5 == 1 ? 0 : min_size(left, 1 + draw(most));

        side->parts[count++] = (struct mbx_iovec){size != 0 ? side->memory + at : NULL, size};
        at += size + GAP;
        left -= size;
    }
    side->parts[count++] = (struct mbx_iovec){side->memory + at, left};
    side->layout = (struct mbx_layout){.parts = side->parts, .count = count};
    assert_true(at + left <= side->memory_size);
}

static void make(struct side *side, enum placement placement, size_t size, unsigned flags)
{
    *side = (struct side){
        .placement = placement,
        .size = size,
        .memory_size = size + PARTS_MAX * GAP,
        .fail_at = NEVER,
        .options = {.flags = flags | (placement != FLAT ? MBX_LAYOUT : 0),
                    .layout = &side->layout},
    };
    side->memory = malloc(side->memory_size);
    memset(side->memory, FOREIGN, side->memory_size);
    side->layout = (struct mbx_layout){.pack = pack, .unpack = unpack};
    if (placement == VECTOR)
        make_vector(side);
    side->layout.end = end;
    side->layout.context = side;
}

/* fill() writes data to its places; check() compares.  The first `have` bytes of the data have
 * arrived; the bytes after them, and between the parts, must be untouched. */
static void fill(struct side *side, const unsigned char *data)
{
    size_t at = 0;

    if (side->placement != VECTOR) {
        memcpy(side->memory, data, side->size);
        return;
    }
    for (size_t i = 0; i < side->layout.count; i++) {
        if (side->parts[i].size != 0)
            memcpy(side->parts[i].base, data + at, side->parts[i].size);
        at += side->parts[i].size;
    }
}

static void check_range(const unsigned char *bytes, size_t size, const unsigned char *data,
                        size_t have)
{
    size_t same = min_size(size, have);

    if (same != 0 && memcmp(bytes, data, same) != 0)
        fail_msg("of %zu bytes some arrive changed", same);
    assert_int_equal(count_of_byte(bytes + same, size - same, FOREIGN), size - same);
}

static void check(const struct side *side, const unsigned char *data, size_t have)
{
    size_t at = 0;

    if (side->placement != VECTOR) {
        check_range(side->memory, side->memory_size, data, have);
        return;
    }
    for (size_t i = 0; i < side->layout.count; i++) {
        const struct mbx_iovec *part = &side->parts[i];

        if (part->size != 0)
            check_range(part->base, part->size, data + at, at < have ? have - at : 0);
        at += part->size;
        if (i + 1 < side->layout.count && part->size != 0)
            assert_int_equal(
                count_of_byte((unsigned char *)part->base + part->size, GAP, FOREIGN), GAP);
    }
}

static void discard(struct side *side)
{
    if (side->placement != FLAT)
        assert_int_equal(side->ends, 1);
    free(side->memory);
}

static void *buffer_of(struct side *side)
{
    return side->placement == FLAT ? side->memory : NULL;
}

/* ---- one message ---- */

struct sample {
    enum placement from, to;
    uint32_t peer;
    size_t size, capacity;
    unsigned flags; /* flags of the send */
    bool is_sync, is_late, is_probed;
};

static int start_send(struct cluster *cl, const struct sample *m, struct side *from,
                      mbx_request *request)
{
    int (*call)(struct mbx_ep *, uint32_t, uint32_t, uint64_t, const void *, size_t,
                const struct mbx_options *, mbx_request *) = m->is_sync ? mbx_ssend : mbx_send;
    int err = call(cl->eps[0], m->peer, CONTEXT, m->size, buffer_of(from), m->size,
                   &from->options, request);

    assert_true(err == 0 || (err == 1 && (m->flags & MBX_AT_ONCE)));
    assert_true(err == 0 || *request == 0);
    assert_true(!(m->flags & MBX_SILENT) || *request == 0);
    if ((m->flags & MBX_COPY) && from->placement != FLAT)
        assert_int_equal(from->ends, 1);
    if (m->flags & MBX_COPY)
        memset(from->memory, 0, from->memory_size);
    return err;
}

static void start_recv(struct cluster *cl, const struct sample *m, struct side *to,
                       mbx_request *request)
{
    struct mbx_status status;
    mbx_message message;
    int who = (int)m->peer;

    if (!m->is_probed) {
        assert_int_equal(mbx_recv(cl->eps[who], 0, CONTEXT, m->size, 0, buffer_of(to),
                                  m->capacity, &to->options, request),
                         0);
        return;
    }
    assert_int_equal(cluster_mprobe(cl, who, 0, CONTEXT, m->size, 0, &status, &message), 1);
    assert_int_equal(status.size, m->size);
    assert_int_equal(
        mbx_mrecv(cl->eps[who], message, buffer_of(to), m->capacity, &to->options, request), 0);
}

/* Moves the message; the two sides end with these errors. */
static void exchange(struct cluster *cl, const struct sample *m, struct side *from,
                     struct side *to, int send_error, int recv_error)
{
    mbx_request send = 0, recv = 0;
    struct mbx_completion done;

    if (m->is_late || m->is_probed) {
        start_send(cl, m, from, &send);
        cluster_settle(cl);
        start_recv(cl, m, to, &recv);
    } else {
        start_recv(cl, m, to, &recv);
        if (draw(2) == 0)
            cluster_settle(cl); /* then the sender may know of the receive */
        start_send(cl, m, from, &send);
    }
    cluster_wait(cl, (int)m->peer, recv, &done);
    assert_int_equal(done.error, recv_error);
    assert_int_equal(done.status.size, m->size);
    if (recv_error == 0 || recv_error == -EMSGSIZE)
        assert_int_equal(done.received, min_size(m->size, m->capacity));
    if (send != 0)
        cluster_wait_error(cl, 0, send, send_error);
    else
        cluster_settle(cl);
}

static void transfer(struct cluster *cl, const struct sample *m)
{
    const unsigned char *data = seeded_bytes((unsigned)m->size, m->size);
    struct side from, to;

    make(&from, m->from, m->size, m->flags);
    make(&to, m->to, m->capacity, 0);
    fill(&from, data);
    exchange(cl, m, &from, &to, 0, m->size > m->capacity ? -EMSGSIZE : 0);
    check(&to, data, min_size(m->size, m->capacity));
    discard(&from);
    discard(&to);
}

/* Moves the message with each pair of placements of which at least one is not flat; `few`: with
 * some of them. */
static void transfer_placements(struct cluster *cl, struct sample m, bool few)
{
    for (int placements = 1; placements < PLACEMENTS * PLACEMENTS; placements++) {
        m.from = (enum placement)(placements % PLACEMENTS);
        m.to = (enum placement)(placements / PLACEMENTS);
        m.is_late = draw(3) == 0;
        m.is_probed = !m.is_late && draw(6) == 0;
        m.is_sync = draw(4) == 0;
        if (m.to == STINGY || (few && draw(3) != 0))
            continue;
        transfer(cl, &m);
    }
}

static void transfer_size(struct cluster *cl, uint32_t peer, size_t size)
{
    bool few = test_is_quick() || size > (size_t)64 << 10;

    transfer_placements(cl, (struct sample){.peer = peer, .size = size, .capacity = size}, few);
}

static void around(struct cluster *cl, uint32_t peer, size_t size)
{
    for (int d = -1; d <= 1; d++)
        if (size > 0 || d >= 0)
            transfer_size(cl, peer, size + (size_t)d);
}

/* ---- tests ---- */

static void test_sizes(void **state)
{
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    struct mbx_limits limits;
    size_t packet, longest = (size_t)(test_is_quick() ? 1 : 4) << 20;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    packet = cl.eps[0]->net.transport->limits.packet_max;
    for (uint32_t peer = 0; peer < 2; peer++) {
        int count = cluster_protocols(cl.eps[0], peer, rows);

        for (int i = 0; i < count - 1; i++)
            around(&cl, peer, rows[i].max_size);
        around(&cl, peer, PACK_SIZE);
    }
    around(&cl, 1, limits.inject);
    around(&cl, 1, packet);
    around(&cl, 1, 2 * packet);
    around(&cl, 1, 2 * PACK_SIZE);
    for (size_t size = 0; size < 40; size++)
        transfer_size(&cl, 1, size);
    for (size_t size = 64; size < longest; size *= 4)
        transfer_size(&cl, 1, size + draw(size));
    transfer_size(&cl, 1, longest);
    cluster_close(&cl);
}

static void test_truncated(void **state)
{
    static const size_t sizes[] = {1, 100, 5000, 20000, 100000, 300000};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i];
        const size_t capacities[] = {0, 1, size / 3, size - 1, size + 1, 2 * size};

        for (size_t k = 0; k < ARRAY_COUNT(capacities); k++)
            transfer_placements(
                &cl, (struct sample){.peer = 1, .size = size, .capacity = capacities[k]}, true);
    }
    cluster_close(&cl);
}

/* Bounce buffers exist, and nothing interferes with their use. */
static bool buffers_for_certain(const struct cluster *cl)
{
    struct transport *transport = cl->eps[0]->net.transport;

    return transport->ops->bounce != NULL && cl->eps[1]->offload == NULL &&
           transport_fault_inner(transport) == transport;
}

enum { SHORT = 3000 }; /* bytes; fits into a packet */

/* Short messages also use bounce buffers, because they leave in the call. */
static bool buffers_short_for_certain(const struct cluster *cl)
{
    const struct mbx_ep *ep = cl->eps[0];

    return buffers_for_certain(cl) && ep->limits.at_once_max >= SHORT &&
           ep->settings.window != 0 && ep->settings.match_at == MATCH_AT_RECEIVER;
}

/* Over shared memory the peer unpacks from the memory of the sender.  Each piece of that memory
 * becomes free again. */
static void test_buffers(void **state)
{
    enum { MESSAGES = 160 }; /* more than there are buffers */
    const struct sample first = {
        .from = CALLBACKS, .to = CALLBACKS, .peer = 1, .size = 100000, .capacity = 100000};
    struct sample next = {.from = CALLBACKS, .to = VECTOR, .peer = 1, .size = 12000};
    struct cluster cl;
    uint64_t before;

    cluster_open(&cl, *state, 2, NULL);
    transfer(&cl, &first);
    cluster_check_buffers(&cl, 0, 1);
    before = cluster_stats(&cl, 0).buffers;
    if (buffers_for_certain(&cl))
        assert_in_range(before, 1, first.size);
    for (unsigned i = 0; i < MESSAGES; i++) {
        next.size = i % 2 == 0 ? 12000 : SHORT;
        next.is_late = draw(2);
        next.is_probed = draw(4) == 0;
        next.capacity = i % 8 == 0 ? draw(next.size) : next.size;
        transfer(&cl, &next);
    }
    if (buffers_for_certain(&cl))
        assert_true(cluster_stats(&cl, 0).buffers - before >=
                    (buffers_short_for_certain(&cl) ? MESSAGES : MESSAGES / 2) * 7 / 8);
    cluster_check_buffers(&cl, 0, 1);
    cluster_close(&cl);
}

/* Data is packed into a buffer and then not needed: the buffer becomes free again. */
static void test_buffer_for_nothing(void **state)
{
    struct sample m = {
        .from = CALLBACKS, .to = CALLBACKS, .peer = 1, .size = 100000, .capacity = 100000};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    transfer(&cl, &m);
    m.from = STINGY; /* a buffer has a part of the message, so the message waits */
    m.size = SHORT;
    m.capacity = 0;
    for (int i = 0; i < 4; i++)
        transfer(&cl, &m);
    cluster_check_buffers(&cl, 0, 1);
    cluster_close(&cl);
}

/* A receiver allows bounce buffers after the first message that could have used one. */
static void test_buffers_second(void **state)
{
    const struct sample m = {
        .from = CALLBACKS, .to = CALLBACKS, .peer = 1, .size = SHORT, .capacity = SHORT};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t taken = 0; buffers_short_for_certain(&cl) && taken < 3; taken++) {
        transfer(&cl, &m);
        assert_int_equal(cluster_stats(&cl, 0).buffers, taken);
    }
    cluster_close(&cl);
}

/* Tests every flag of a send. */
static void test_modes(void **state)
{
    static const unsigned flags[] = {MBX_SILENT, MBX_AT_ONCE, MBX_COPY, MBX_COPY | MBX_SILENT,
                                     MBX_COPY | MBX_AT_ONCE};
    static const size_t sizes[] = {0, 8, 100, 3000, 20000, 200000};
    struct mbx_limits limits;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    for (size_t i = 0; i < ARRAY_COUNT(flags) * ARRAY_COUNT(sizes); i++)
        for (int from = 0; from < PLACEMENTS; from++) {
            struct sample m = {.flags = flags[i % ARRAY_COUNT(flags)], .peer = 1};

            m.size = m.capacity = sizes[i / ARRAY_COUNT(flags)];
            m.from = (enum placement)from;
            m.is_late = draw(2);
            m.is_sync = draw(2) && !(m.flags & MBX_AT_ONCE);
            if (m.size <= limits.inject || !(m.flags & MBX_COPY))
                transfer(&cl, &m);
        }
    cluster_close(&cl);
}

/* A synchronous send, however short, completes when a receive has matched it, and not
 * before. */
static void test_synchronous(void **state)
{
    static const size_t sizes[] = {8, 100, 3000, 20000, 200000};
    struct mbx_completion done;
    mbx_request send, recv;
    struct side from, to;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        make(&from, CALLBACKS, sizes[i], 0);
        make(&to, VECTOR, sizes[i], 0);
        fill(&from, seeded_bytes(1, sizes[i]));
        assert_int_equal(
            mbx_ssend(cl.eps[0], 1, CONTEXT, 5, NULL, sizes[i], &from.options, &send), 0);
        cluster_settle(&cl);
        assert_int_equal(mbx_test(cl.eps[0], send, &done), 0);
        assert_int_equal(
            mbx_recv(cl.eps[1], 0, CONTEXT, 5, 0, NULL, sizes[i], &to.options, &recv), 0);
        cluster_wait_error(&cl, 1, recv, 0);
        cluster_wait_error(&cl, 0, send, 0);
        check(&to, seeded_bytes(1, sizes[i]), sizes[i]);
        discard(&from);
        discard(&to);
    }
    cluster_close(&cl);
}

/* The callback call with this number fails on one side.  False: there are fewer calls. */
static bool fails(struct cluster *cl, struct sample m, unsigned call, int64_t answer, int error,
                  bool is_send)
{
    const unsigned char *data = seeded_bytes(5, m.size);
    struct side from, to;
    bool has_failed;
    mbx_request send = 0, recv = 0;
    struct mbx_completion sent, received;

    make(&from, is_send ? m.from : FLAT, m.size, 0);
    make(&to, is_send ? m.to : CALLBACKS, m.capacity, 0);
    fill(&from, data);
    (is_send ? &from : &to)->fail_at = call;
    (is_send ? &from : &to)->answer = answer;
    if (m.is_late)
        start_send(cl, &m, &from, &send);
    else
        start_recv(cl, &m, &to, &recv);
    if (m.is_late)
        cluster_settle(cl);
    if (m.is_late)
        start_recv(cl, &m, &to, &recv);
    else
        start_send(cl, &m, &from, &send);
    cluster_wait(cl, 1, recv, &received);
    cluster_wait(cl, 0, send, &sent);
    has_failed = (is_send ? &from : &to)->calls > call;
    assert_int_equal((is_send ? &sent : &received)->error, has_failed ? error : 0);
    assert_int_equal((is_send ? &received : &sent)->error, has_failed && is_send ? -EIO : 0);
    if (has_failed)
        assert_int_equal((is_send ? &from : &to)->calls, call + 1);
    if (!is_send && has_failed)
        assert_int_equal(received.received, to.next);
    assert_true(received.received <= m.size);
    if (to.placement == FLAT || to.placement == CALLBACKS)
        check(&to, data, received.received);
    discard(&from);
    discard(&to);
    return has_failed;
}

static void test_callbacks_that_fail(void **state)
{
    static const size_t sizes[] = {10, 1000, 12000, 40000, 150000};
    static const struct {
        int64_t answer;
        int error;
    } answers[] = {{-EBADMSG, -EBADMSG}, {-ENOMEM, -ENOMEM}, {0, -EIO}, {1 << 30, -EIO}};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        for (int kind = 0; kind < 8; kind++) {
            struct sample m = {.from = kind % 2 ? STINGY : CALLBACKS,
                               .to = kind & 2 ? CALLBACKS : FLAT,
                               .peer = 1,
                               .size = sizes[i],
                               .capacity = sizes[i],
                               .is_late = kind & 4};
            unsigned step = test_is_quick() || config_is_elsewhere(*state) ? 5 : 1;

            for (unsigned call = 0, k = 0;
                 fails(&cl, m, call, answers[k % 4].answer, answers[k % 4].error, true);
                 call += step, k++)
                ;
            for (unsigned call = 0, k = 0;
                 fails(&cl, m, call, k % 2 ? 3 : -EBADMSG, k % 2 ? -EIO : -EBADMSG, false);
                 call += step, k++)
                ;
        }
    transfer(
        &cl,
        &(struct sample){
            .from = CALLBACKS, .to = VECTOR, .peer = 1, .size = 100000, .capacity = 100000});
    cluster_close(&cl);
}

/* Sends in a row arrive in this order, whatever their size, placement or flags. */
static void test_order(void **state)
{
    enum { MESSAGES = 60 };
    struct side from[MESSAGES], to[MESSAGES];
    mbx_request sends[MESSAGES], recvs[MESSAGES];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MESSAGES; i++) {
            size_t size = (size_t)1 << draw(18);

            make(&from[i], (enum placement)draw(PLACEMENTS), size + draw(size), 0);
            make(&to[i], (enum placement)draw(STINGY), 2 * size, 0);
            fill(&from[i], seeded_bytes((unsigned)i, from[i].size));
        }
        for (int i = 0; i < 2 * MESSAGES; i++) {
            struct side *side = i / MESSAGES == round ? &from[i % MESSAGES] : &to[i % MESSAGES];

            if (side == &from[i % MESSAGES])
                assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, buffer_of(side), side->size,
                                          &side->options, &sends[i % MESSAGES]),
                                 0);
            else
                assert_int_equal(mbx_recv(cl.eps[1], i % 2 ? 0 : MBX_ANY_SOURCE, CONTEXT, 1, 0,
                                          buffer_of(side), side->size, &side->options,
                                          &recvs[i % MESSAGES]),
                                 0);
            if (i == MESSAGES - 1)
                cluster_settle(&cl);
        }
        for (int i = 0; i < MESSAGES; i++) {
            cluster_wait_error(&cl, 1, recvs[i], from[i].size > to[i].size ? -EMSGSIZE : 0);
            cluster_wait_error(&cl, 0, sends[i], 0);
            check(&to[i], seeded_bytes((unsigned)i, from[i].size),
                  min_size(from[i].size, to[i].size));
        }
        for (int i = 0; i < MESSAGES; i++) {
            discard(&from[i]);
            discard(&to[i]);
        }
    }
    cluster_close(&cl);
}

/* The number of messages limits the pack buffers in use, whatever the size of the messages; all
 * become free again. */
static void test_memory(void **state)
{
    enum { MESSAGES = 40 };
    const size_t size = (size_t)(test_is_quick() ? 300 : 1000) << 10;
    struct side from[MESSAGES], to[MESSAGES];
    mbx_request sends[MESSAGES], recvs[MESSAGES];
    uint32_t most;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < MESSAGES; i++) {
        make(&from[i], i % 3 ? CALLBACKS : FLAT, size, 0);
        make(&to[i], i % 3 == 1 ? FLAT : CALLBACKS, size, 0);
        fill(&from[i], seeded_bytes((unsigned)i, size));
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, buffer_of(&to[i]), size,
                                  &to[i].options, &recvs[i]),
                         0);
        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, buffer_of(&from[i]), size,
                                  &from[i].options, &sends[i]),
                         0);
    }
    for (int i = 0; i < MESSAGES; i++) {
        cluster_wait_error(&cl, 1, recvs[i], 0);
        cluster_wait_error(&cl, 0, sends[i], 0);
        check(&to[i], seeded_bytes((unsigned)i, size), size);
        discard(&from[i]);
        discard(&to[i]);
    }
    assert_int_equal(pieces_pack_buffers(cl.eps[0], &most), 0);
    assert_true(most <= MESSAGES);
    assert_int_equal(pieces_pack_buffers(cl.eps[1], &most), 0);
    assert_true(most <= PIECES_PACK_BUFFERS * MESSAGES);
    cluster_close(&cl);
}

/* Receives that wait, and hold all pack buffers. */
static void hog(struct cluster *cl, int who, mbx_request *hogs)
{
    static unsigned char byte;
    static const struct mbx_iovec part = {&byte, 1};
    const struct mbx_layout layout = {.parts = &part, .count = 1};
    const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};

    for (int i = 0; i < PACK_BUFFERS_MOST; i++) {
        struct mbx_ep *ep = cl->eps[who];
        size_t size;

        assert_int_equal(mbx_recv(ep, 0, CONTEXT + 1, 0, 0, NULL, 1, &options, &hogs[i]), 0);
        pieces_pack_buffer(ep, request_find(ep, hogs[i])->pieces, &size);
        assert_int_equal(size, PACK_SIZE);
    }
}

/* Transfers succeed without a free pack buffer. */
static void test_no_memory(void **state)
{
    mbx_request hogs[2][PACK_BUFFERS_MOST];
    struct cluster cl;
    uint32_t most;

    cluster_open(&cl, *state, 2, NULL);
    for (int who = 0; who < 2; who++)
        hog(&cl, who, hogs[who]);
    for (int round = 0; round < 2; round++)
        transfer_placements(&cl, (struct sample){.peer = 1, .size = 100000, .capacity = 90000},
                            false);
    for (int who = 0; who < 2; who++) {
        assert_int_equal(pieces_pack_buffers(cl.eps[who], &most), PACK_BUFFERS_MOST);
        for (int i = 0; i < PACK_BUFFERS_MOST; i++) {
            assert_int_equal(mbx_cancel(cl.eps[who], hogs[who][i]), 0);
            cluster_wait_error(&cl, who, hogs[who][i], -ECANCELED);
        }
        assert_int_equal(pieces_pack_buffers(cl.eps[who], &most), 0);
    }
    cluster_close(&cl);
}

static void test_cancel_and_discard(void **state)
{
    struct mbx_completion done;
    struct mbx_status status;
    mbx_message message;
    mbx_request request;
    struct side side;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (enum placement placement = VECTOR; placement < STINGY; placement++) {
        make(&side, placement, 5000, 0);
        assert_int_equal(
            mbx_recv(cl.eps[1], 0, CONTEXT, 5, 0, NULL, 5000, &side.options, &request), 0);
        assert_int_equal(side.ends, 0);
        assert_int_equal(mbx_cancel(cl.eps[1], request), 0);
        cluster_wait(&cl, 1, request, &done);
        assert_int_equal(done.error, -ECANCELED);
        check(&side, NULL, 0);
        discard(&side);
        for (size_t size = 10; size < 1000000; size *= 10) {
            make(&side, placement, size, 0);
            fill(&side, seeded_bytes(1, size));
            assert_int_equal(
                mbx_ssend(cl.eps[0], 1, CONTEXT, 5, NULL, size, &side.options, &request), 0);
            cluster_settle(&cl);
            assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 5, 0, &status, &message), 1);
            assert_int_equal(mbx_discard(cl.eps[1], message), 0);
            cluster_wait_error(&cl, 0, request, 0);
            discard(&side);
        }
    }
    cluster_close(&cl);
}

static void test_arguments(void **state)
{
    unsigned char bytes[8] = {0};
    const struct mbx_iovec parts[] = {{bytes, 4}, {NULL, 0}, {bytes + 4, 3}};
    const struct mbx_iovec wrong[] = {{NULL, 7}};
    const struct mbx_layout good = {.parts = parts, .count = 3};
    const struct mbx_layout bad[] = {
        {.parts = parts, .count = 2},                                 /* too short */
        {.parts = wrong, .count = 1},                                 /* no memory */
        {.parts = parts, .count = 3, .flags = 1},                     /* unknown flag */
        {.parts = parts, .count = 3, .pack = pack, .unpack = unpack}, /* both callbacks */
        {.count = 3},                                                 /* neither callback */
    };
    struct mbx_limits limits;
    struct mbx_options options = {.flags = MBX_LAYOUT};
    mbx_request request = 77;
    struct mbx_ep *ep;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    ep = cl.eps[0];
    mbx_limits_get(ep, &limits, sizeof limits);
    for (size_t i = 0; i <= ARRAY_COUNT(bad); i++) {
        options.layout = i < ARRAY_COUNT(bad) ? &bad[i] : NULL;
        assert_int_equal(mbx_send(ep, 1, 1, 2, NULL, 7, &options, &request), -EINVAL);
        assert_int_equal(mbx_ssend(ep, 1, 1, 2, NULL, 7, &options, &request), -EINVAL);
        assert_int_equal(mbx_recv(ep, 1, 1, 2, 0, NULL, 7, &options, &request), -EINVAL);
        assert_int_equal(mbx_mrecv(ep, 5, NULL, 7, &options, &request), -EINVAL);
    }
    options.layout = &good;
    assert_int_equal(mbx_send(ep, 9, 1, 2, NULL, 7, &options, &request), -EINVAL);
    assert_int_equal(mbx_recv(ep, 9, 1, 2, 0, NULL, 7, &options, &request), -EINVAL);
    assert_int_equal(mbx_send(ep, 1, UINT32_MAX, 2, NULL, 7, &options, &request), -EINVAL);
    assert_int_equal(mbx_recv(ep, 1, UINT32_MAX, 2, 0, NULL, 7, &options, &request), -EINVAL);
    assert_int_equal(mbx_send(ep, 1, 1, 2, NULL, 8, &options, &request), -EINVAL);
    assert_int_equal(mbx_mrecv(ep, 5, NULL, 7, &options, &request), -ESTALE);
    assert_int_equal(mbx_write(ep, 1, NULL, 7, 0, 0, &options, &request), -EINVAL);
    assert_int_equal(mbx_read(ep, 1, NULL, 7, 0, 0, &options, &request), -EINVAL);
    options.flags = MBX_COPY;
    assert_int_equal(mbx_send(ep, 1, 1, 2, NULL, 7, &options, &request), -EINVAL);
    assert_int_equal(mbx_send(ep, 1, 1, 2, bytes, limits.inject + 1, &options, &request),
                     -EMSGSIZE);
    assert_int_equal(request, 77);
    cluster_close(&cl);
}

/* The endpoint checks periodically whether its peer is alive. */
static void await_end(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;
    int err;

    for (int i = 0; (err = mbx_wait(ep, request, 1000000, &done)) != 0; i++) {
        assert_true(err == -EINTR || err == -ETIMEDOUT);
        assert_true(i < test_patience());
    }
    assert_true(done.error == 0 || done.error == -ENOTCONN || done.error == -EHOSTUNREACH);
}

/* A pending operation is over when an endpoint closes: at once at the closing endpoint, and at
 * the other when it detects the close. */
static void test_close(void **state)
{
    enum { SENDS = 4 };
    static const size_t sizes[SENDS] = {100, 5000, 100000, 1000000};
    struct side from[SENDS], to;
    mbx_request sends[SENDS], recv;
    struct cluster cl;

    for (int closes = 0; closes < 2; closes++) {
        cluster_open(&cl, *state, 2,
                     (const char *[]){"CLOSE_TIMEOUT=100ms", "PEER_TIMEOUT=20ms", NULL});
        make(&to, CALLBACKS, 100, 0);
        assert_int_equal(mbx_recv(cl.eps[closes], (uint32_t)!closes, CONTEXT, 5, 0, NULL, 100,
                                  &to.options, &recv),
                         0);
        for (int i = 0; i < SENDS; i++) {
            make(&from[i], CALLBACKS, sizes[i], 0);
            fill(&from[i], seeded_bytes(1, sizes[i]));
            assert_int_equal(
                mbx_send(cl.eps[0], 1, CONTEXT, 6, NULL, sizes[i], &from[i].options, &sends[i]),
                0);
        }
        cluster_settle(&cl);
        cluster_close_one(&cl, closes);
        assert_int_equal(to.ends, 1);
        for (int i = 0; i < SENDS; i++) {
            if (closes == 1)
                await_end(cl.eps[0], sends[i]);
            discard(&from[i]);
        }
        discard(&to);
        cluster_close(&cl);
    }
}

/* An endpoint closes while its last message is packed in a buffer and there is no space for the
 * packet that names the buffer. */
static void test_close_with_buffer(void **state)
{
    enum { FLATS = 10, MOST = 120 }; /* fewer than there are buffers */
    const struct sample first = {
        .from = CALLBACKS, .to = CALLBACKS, .peer = 1, .size = 100000, .capacity = 100000};
    static const struct mbx_options silent = {.flags = MBX_SILENT};
    static const char bytes[1000];
    static struct side from[MOST];
    struct cluster cl;
    mbx_request send = 0;
    int count = 0, err = 1;

    cluster_open(&cl, *state, 2,
                 (const char *[]){"CLOSE_TIMEOUT=0", "SHM_RING_SIZE=16K", "WINDOW=unlimited",
                                  "WINDOW_PAYLOAD=unlimited", NULL});
    transfer(&cl, &first);
    for (int i = 0; i < FLATS; i++) /* these fill most of the ring */
        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 8, bytes, sizeof bytes, &silent, NULL),
                         0);
    while (err == 1 && count < MOST) {
        make(&from[count], CALLBACKS, SHORT, MBX_AT_ONCE);
        fill(&from[count], seeded_bytes(1, SHORT));
        err = mbx_send(cl.eps[0], 1, CONTEXT, 6, NULL, SHORT, &from[count++].options, &send);
        assert_true(err == 0 || err == 1);
    }
    if (buffers_short_for_certain(&cl)) {
        assert_int_equal(err, 0);
        assert_non_null(request_find(cl.eps[0], send)->pieces->buffer_for);
    }
    cluster_close_one(&cl, 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(from[i].ends, 1);
        discard(&from[i]);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_buffers_second),
        cmocka_unit_test(test_buffer_for_nothing),
        cmocka_unit_test(test_close_with_buffer),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_callbacks_that_fail),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cancel_and_discard),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_close),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
