/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_test.c - the verbs device: the conformance suite, and what only such hardware does.
 *
 *   verbs.c  <──  queue pair of verbs_attach  <══  queue pair of the peer  <──  here
 *
 * The peers are queue pairs of the same device, which are connected to it and send packets
 * with the header of tag matching; all through libibverbs, with the fake loaded in front of it.
 */
#include "testing/device/conformance.h"
#include "verbs/verbs.h"
#include "verbs/verbs_state.h"

#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"

#define EVENTS 64

/* ---- peers ---------------------------------------------------------------------------- */

struct fixture {
    struct mbx_device *device;
    struct ibv_pd *pd;
    struct ibv_cq_ex *cq; /* of what peers send; nothing asks for a completion */
    struct ibv_qp *peers[CONFORMANCE_PEERS];
};

static void move_pair(struct ibv_qp *qp, uint32_t to)
{
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    assert_int_equal(ibv_query_port(qp->context, 1, &port), 0);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu,
        .dest_qp_num = to,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = port.lid, .port_num = 1},
    };
    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
                     0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = 1};
    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

/* Two queue pairs for each peer: the one that the device receives from, and the sender's. */
static void connect_peers(struct fixture *fix)
{
    struct ibv_context *context = verbs_of(fix->device)->context;
    struct ibv_cq_init_attr_ex queue = {.cqe = 16};

    if (fix->pd != NULL)
        return;
    fix->pd = ibv_alloc_pd(context);
    fix->cq = ibv_create_cq_ex(context, &queue);
    assert_true(fix->pd != NULL && fix->cq != NULL);
    for (int i = 0; i < CONFORMANCE_PEERS; i++) {
        struct ibv_qp_init_attr attr = {.send_cq = ibv_cq_ex_to_cq(fix->cq),
                                        .recv_cq = ibv_cq_ex_to_cq(fix->cq),
                                        .cap = {.max_send_wr = 64, .max_send_sge = 2},
                                        .qp_type = IBV_QPT_RC};
        struct ibv_qp *in;

        assert_int_equal(verbs_attach(fix->device, &in), 0);
        fix->peers[i] = ibv_create_qp(fix->pd, &attr);
        assert_non_null(fix->peers[i]);
        move_pair(in, fix->peers[i]->qp_num);
        move_pair(fix->peers[i], in->qp_num);
    }
}

static void *open_instance(struct mbx_device **device)
{
    struct fixture *fix = mem_calloc(1, sizeof *fix);

    assert_non_null(fix);
    assert_int_equal(
        verbs_open(&(struct verbs_config){.peers = CONFORMANCE_PEERS}, &fix->device), 0);
    *device = fix->device;
    return fix;
}

static void close_instance(void *instance)
{
    struct fixture *fix = instance;

    if (fix->pd != NULL) {
        for (int i = 0; i < CONFORMANCE_PEERS; i++)
            ibv_destroy_qp(fix->peers[i]);
        ibv_destroy_cq(ibv_cq_ex_to_cq(fix->cq));
        ibv_dealloc_pd(fix->pd);
    }
    fix->device->ops->close(fix->device);
    mem_free(fix);
}

static void send_packet(struct fixture *fix, uint32_t peer, const struct ibv_tmh *tmh,
                        const void *behind, size_t size)
{
    unsigned char *packet = mem_alloc(sizeof *tmh + size);
    struct ibv_mr *mr;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

    assert_non_null(packet);
    connect_peers(fix);
    memcpy(packet, tmh, sizeof *tmh);
    if (size > 0)
        memcpy(packet + sizeof *tmh, behind, size);
    mr = ibv_reg_mr(fix->pd, packet, sizeof *tmh + size, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    sge = (struct ibv_sge){(uintptr_t)packet, (uint32_t)(sizeof *tmh + size), mr->lkey};
    assert_int_equal(ibv_post_send(fix->peers[peer], &wr, &bad), 0);
    ibv_dereg_mr(mr); /* the fake has copied it */
    mem_free(packet);
}

static struct ibv_tmh make_header(enum ibv_tmh_op opcode, uint32_t context, uint64_t tag)
{
    return (struct ibv_tmh){
        .opcode = (uint8_t)opcode, .app_ctx = htobe32(context), .tag = htobe64(tag)};
}

/* ---- the target of the suite ---------------------------------------------------------- */

static void send_message(void *instance, uint32_t peer,
                         const struct conformance_message *message)
{
    const uint64_t tag = verbs_tag(&message->envelope);
    const struct verbs_rts rts = {.size = message->size, .data = message->data};
    struct ibv_tmh tmh = make_header(IBV_TMH_EAGER, (uint32_t)message->data, tag);

    if (message->kind == CONFORMANCE_OTHER) {
        tmh = make_header(IBV_TMH_NO_TAG, wire_what(WIRE_FIN),
                          verbs_tag(&(struct mbx_device_envelope){.source = peer}));
        send_packet(instance, peer, &tmh, &message->data, sizeof(struct wire_fin));
    } else if (message->kind == CONFORMANCE_RENDEZVOUS) {
        tmh = make_header(IBV_TMH_EAGER, VERBS_ANNOUNCED, tag);
        send_packet(instance, peer, &tmh, &rts, sizeof rts);
    } else {
        send_packet(instance, peer, &tmh, message->payload, message->size);
    }
}

/* What the fake adds to libibverbs; NULL if it is not there. */
static void (*find_fake(const char *name))(struct ibv_context *)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    void (*function)(struct ibv_context *);

    memcpy(&function, &symbol, sizeof function);
    return function;
}

static void run(void *instance)
{
    struct fixture *fix = instance;

    find_fake("fake_verbs_run")(verbs_of(fix->device)->context);
}

static void lose(void *instance)
{
    struct fixture *fix = instance;

    find_fake("fake_verbs_lose")(verbs_of(fix->device)->context);
}

static void read_packet(void *instance, const struct mbx_device_event *event,
                        const void *memory, struct conformance_message *message)
{
    struct wire_packet packet;
    const char *reason;

    (void)instance;
    assert_int_equal(wire_check(memory, event->bytes, &packet, &reason), 0);
    message->envelope =
        (struct mbx_device_envelope){packet.header.context_id, event->peer, packet.header.tag};
    message->data = packet.header.data;
    if (packet.header.type == WIRE_RTS) {
        message->kind = CONFORMANCE_RENDEZVOUS;
        message->size = packet.body.rts.size;
    } else {
        assert_int_equal(packet.header.type, WIRE_EAGER);
        message->kind = CONFORMANCE_EAGER;
        message->size = packet.payload_size;
        message->payload = packet.payload;
    }
}

/* Who announces a message is told by software. */
static uint64_t fins(void *instance, uint32_t peer)
{
    (void)instance;
    (void)peer;
    return 0;
}

/* ---- what only such hardware does ------------------------------------------------------ */

struct bench {
    struct fixture *instance;
    struct mbx_device *device;
    struct mbx_device_limits limits;
    unsigned char *buffers;
    struct mbx_device_event events[EVENTS];
    int count;
};

static void *buffer_memory(const struct bench *b, uint32_t buffer)
{
    return b->buffers + buffer * b->limits.untagged_size;
}

static void bench_open(struct bench *b, uint32_t list, uint32_t untagged)
{
    *b = (struct bench){0};
    b->instance = open_instance(&b->device);
    b->device->ops->limits(b->device, &b->limits);
    assert_int_equal(b->device->ops->configure(b->device, list, 2 * list + 2, untagged), 0);
    b->buffers = mem_calloc(untagged, b->limits.untagged_size);
    assert_non_null(b->buffers);
    for (uint32_t i = 0; i < untagged; i++)
        assert_int_equal(b->device->ops->replenish(b->device, i, buffer_memory(b, i)), 0);
}

static void bench_close(struct bench *b)
{
    close_instance(b->instance);
    mem_free(b->buffers);
}

static void poll_all(struct bench *b)
{
    int n;

    run(b->instance);
    b->count = 0;
    do {
        n = b->device->ops->poll(b->device, &b->events[b->count], EVENTS - b->count);
        b->count += n;
        assert_true(b->count < EVENTS);
        run(b->instance);
    } while (n > 0);
}

static void append(struct bench *b, uint32_t handle, uint64_t tag, void *buf, size_t size)
{
    const struct mbx_device_recv recv = {
        .handle = handle, .envelope = {1, 2, tag}, .buf = buf, .size = size};

    assert_int_equal(b->device->ops->append(b->device, &recv, 0), 0);
}

static void send_eager(struct bench *b, uint64_t tag, uint32_t data, const void *payload,
                       size_t size)
{
    const struct ibv_tmh tmh =
        make_header(IBV_TMH_EAGER, data, verbs_tag(&(struct mbx_device_envelope){1, 2, tag}));

    send_packet(b->instance, 2, &tmh, payload, size);
}

/* The story in so many orders in which its devices may work. */
static void for_seeds(unsigned seeds, void (*story)(void))
{
    for (unsigned seed = 0; seed < seeds; seed++) {
        char text[16];

        snprintf(text, sizeof text, "%u", seed);
        setenv("FAKE_VERBS_SEED", text, 1);
        story();
    }
}

/* A device, and a receive of tag 7 in it. */
static void open_with_receive(struct bench *b, uint32_t list, void *buf, size_t size)
{
    bench_open(b, list, list);
    append(b, 0, 7, buf, size);
    run(b->instance);
}

static void an_envelope_survives_its_tag(void **state)
{
    const struct mbx_device_envelope envelope = {0xfedc, 0xba98, 0x76543210};
    const struct mbx_device_envelope got = verbs_envelope(verbs_tag(&envelope));
    const struct mbx_device_envelope anybody = {1, MBX_DEVICE_ANY_SOURCE_ID, 0};

    (void)state;
    assert_int_equal(verbs_tag(&envelope), 0xfedcba9876543210);
    assert_int_equal(got.context_id, envelope.context_id);
    assert_int_equal(got.source, envelope.source);
    assert_int_equal(got.tag, envelope.tag);
    assert_int_equal(verbs_mask(&envelope, 0), UINT64_MAX);
    assert_int_equal(verbs_mask(&envelope, 0xff), 0xffffffffffffff00);
    assert_int_equal(verbs_mask(&anybody, UINT64_MAX), 0xffff000000000000);
}

/* Polls what the device does by itself, in the order of this seed. */
static void poll_slowly(struct bench *b, int wanted)
{
    for (b->count = 0; b->count < wanted;)
        b->count += b->device->ops->poll(b->device, &b->events[b->count], 1);
}

/* Several packets: matched with the first, there with the last; the length comes then. */
static void receive_long(void)
{
    unsigned char sent[6000], got[VERBS_EAGER_MAX];
    struct bench b;

    bench_open(&b, 4, 4);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i * 7 / 3);
    append(&b, 3, 7, got, sizeof got);
    run(b.instance);
    send_eager(&b, 7, 99, sent, sizeof sent);
    poll_slowly(&b, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_SIZE_LATER);
    assert_int_equal(b.events[0].handle, 3);
    assert_int_equal(b.events[0].envelope.tag, 7);
    assert_int_equal(b.events[0].data, 99);
    assert_int_equal(b.events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b.events[1].handle, 3);
    assert_int_equal(b.events[1].size, sizeof sent);
    assert_int_equal(b.events[1].done, sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
    bench_close(&b);
}

static void a_long_message_is_matched_before_it_is_there(void **state)
{
    (void)state;
    for_seeds(50, receive_long);
}

static void an_announced_message_says_where_it_is(void **state)
{
    const struct verbs_rts rts = {11, 1 << 20, 0x1234, 0x5678, UINT64_MAX};
    unsigned char got[VERBS_EAGER_MAX];
    struct bench b;

    (void)state;
    open_with_receive(&b, 4, got, sizeof got);
    for (int i = 0; i < 2; i++)
        send_eager(&b, 7, VERBS_ANNOUNCED, &rts, sizeof rts);
    poll_all(&b);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN);
    assert_int_equal(b.events[1].type, MBX_DEVICE_INCOMPLETE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.events[i].handle, 0);
        assert_int_equal(b.events[i].sender, rts.sender);
        assert_int_equal(b.events[i].size, rts.size);
        assert_int_equal(b.events[i].address, rts.address);
        assert_int_equal(b.events[i].key, rts.key);
        assert_int_equal(b.events[i].data, rts.data);
        assert_int_equal(b.events[i].done, 0);
    }
    assert_int_equal(b.events[2].type, MBX_DEVICE_UNEXPECTED);
    bench_close(&b);
}

/* Counted, because the hardware has counted them, and refused by wire_check(). */
static void packets_that_make_no_sense_are_recognised(void **state)
{
    const uint64_t tag = verbs_tag(&(struct mbx_device_envelope){1, 2, 7});
    const struct ibv_tmh bad[] = {
        make_header(IBV_TMH_RNDV, 0, tag),
        make_header(IBV_TMH_EAGER, VERBS_ANNOUNCED, tag),
        make_header(IBV_TMH_FIN, 0, tag),
        make_header((enum ibv_tmh_op)77, 0, tag),
    };
    struct wire_packet packet;
    const char *reason;
    struct bench b;

    (void)state;
    bench_open(&b, 4, 4);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        send_packet(b.instance, 2, &bad[i], "short", 5);
    poll_all(&b);
    assert_int_equal(b.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b.events[i].type, i < 2 ? MBX_DEVICE_UNEXPECTED : MBX_DEVICE_PASSED);
        assert_int_equal(wire_check(buffer_memory(&b, b.events[i].buffer), b.events[i].bytes,
                                    &packet, &reason),
                         -EPROTO);
    }
    bench_close(&b);
}

static void a_wrong_announcement_is_an_error_of_its_receive(void **state)
{
    unsigned char got[VERBS_EAGER_MAX];
    struct bench b;

    (void)state;
    open_with_receive(&b, 4, got, sizeof got);
    send_eager(&b, 7, VERBS_ANNOUNCED, "short", 5);
    poll_all(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[1].type, MBX_DEVICE_INCOMPLETE);
    assert_int_equal(b.events[1].error, -EPROTO);
    bench_close(&b);
}

static void expect_lost(struct bench *b)
{
    poll_all(b);
    assert_int_equal(b->count, 1);
    assert_int_equal(b->events[0].type, MBX_DEVICE_LOST);
    assert_int_equal(b->device->ops->sync(b->device, 0), -ENODEV);
    poll_all(b);
    assert_int_equal(b->count, 0);
    bench_close(b);
}

static void a_peer_that_does_not_exist_ends_it(void **state)
{
    const struct mbx_device_envelope envelope = {1, CONFORMANCE_PEERS, 7};
    const struct ibv_tmh tmh = make_header(IBV_TMH_EAGER, 0, verbs_tag(&envelope));
    const struct mbx_device_recv recv = {.envelope = {1, MBX_DEVICE_ANY_SOURCE_ID, 7}};
    struct bench b;

    (void)state;
    bench_open(&b, 4, 4);
    send_packet(b.instance, 2, &tmh, "1234", 4);
    expect_lost(&b);

    bench_open(&b, 4, 4);
    assert_int_equal(b.device->ops->append(b.device, &recv, 0), 0);
    run(b.instance);
    send_packet(b.instance, 2, &tmh, NULL, 0);
    expect_lost(&b);
}

/* A receive that was matched must not be matched again when software goes on alone. */
static void what_was_done_before_the_end_is_told(void **state)
{
    const struct mbx_device_envelope nobody = {1, CONFORMANCE_PEERS, 7};
    const struct ibv_tmh tmh = make_header(IBV_TMH_EAGER, 0, verbs_tag(&nobody));
    unsigned char got[VERBS_EAGER_MAX];
    struct bench b;

    (void)state;
    bench_open(&b, 4, 4);
    append(&b, 1, 7, got, sizeof got);
    run(b.instance);
    send_packet(b.instance, 2, &tmh, "bad", 3);
    send_eager(&b, 7, 5, "good", 4);
    run(b.instance);
    poll_all(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].handle, 1);
    assert_memory_equal(got, "good", 4);
    assert_int_equal(b.events[1].type, MBX_DEVICE_LOST);
    bench_close(&b);
}

static void nothing_is_matched_after_the_end(void **state)
{
    unsigned char small[4], got[VERBS_EAGER_MAX] = "untouched";
    struct bench b;

    (void)state;
    bench_open(&b, 4, 4);
    append(&b, 0, 6, small, sizeof small);
    append(&b, 1, 7, got, sizeof got);
    run(b.instance);
    send_eager(&b, 6, 0, "12345", 5);
    poll_all(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_LOST);
    send_eager(&b, 7, 0, "good", 4);
    run(b.instance);
    assert_string_equal(got, "untouched");
    bench_close(&b);
}

/* Why receives that do not hold the longest eager message must not be handed over. */
static void an_eager_message_that_does_not_fit_ends_it(void **state)
{
    unsigned char got[4];
    struct bench b;

    (void)state;
    open_with_receive(&b, 4, got, sizeof got);
    send_eager(&b, 7, 0, "12345", 5);
    expect_lost(&b);
}

/* ---- taking back while messages arrive ------------------------------------------------- */

#define ALIKE 6

/* ALIKE receives and messages that all fit each other: those matched before the receives are
 * back must be the oldest of both, in order, and the other messages unexpected. */
static void take_back_once(void)
{
    unsigned char got[ALIKE][VERBS_EAGER_MAX];
    struct bench b;
    uint32_t matched = 0, passed = 0, ends = 0;

    bench_open(&b, ALIKE, ALIKE);
    for (uint32_t i = 0; i < ALIKE; i++)
        append(&b, i, 7, got[i], sizeof got[i]);
    run(b.instance);
    for (uint32_t i = 0; i < ALIKE / 2; i++)
        send_eager(&b, 7, i, "abc", 3);
    assert_int_equal(b.device->ops->take_back(b.device, 0), 0);
    assert_int_equal(b.device->ops->take_back(b.device, 0), -EAGAIN);
    for (uint32_t i = ALIKE / 2; i < ALIKE; i++)
        send_eager(&b, 7, i, "abc", 3);
    poll_all(&b);
    for (int i = 0; i < b.count; i++) {
        const struct mbx_device_event *event = &b.events[i];

        if (event->type == MBX_DEVICE_MATCHED) {
            assert_int_equal(event->handle, matched);
            assert_int_equal(event->data, matched++);
            assert_int_equal(ends, 0);
        } else if (event->type == MBX_DEVICE_UNEXPECTED) {
            passed++;
        } else {
            assert_int_equal(event->type, MBX_DEVICE_REVOKED_ALL);
            ends++;
        }
    }
    assert_int_equal(matched + passed, ALIKE);
    assert_int_equal(ends, 1);
    bench_close(&b);
}

static void what_is_left_is_the_head_while_all_is_taken_back(void **state)
{
    (void)state;
    for_seeds(200, take_back_once);
}

static void a_consumed_receive_can_be_revoked(void **state)
{
    unsigned char got[2][VERBS_EAGER_MAX];
    struct bench b;

    (void)state;
    open_with_receive(&b, 2, got[0], sizeof got[0]);
    send_eager(&b, 7, 1, "abc", 3);
    poll_all(&b);
    assert_int_equal(b.count, 1);
    append(&b, 1, 7, got[1], sizeof got[1]); /* the hardware may use the number again */
    assert_int_equal(b.device->ops->revoke(b.device, 0, 0), 0);
    poll_all(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_REVOKED);
    assert_int_equal(b.events[0].handle, 0);
    assert_int_equal(b.events[0].error, -ENOENT);
    bench_close(&b);
}

/* ---- which hardware -------------------------------------------------------------------- */

static void explain(const char *name, const char *value, bool is_there, const char *expected)
{
    char line[160];

    if (name != NULL)
        setenv(name, value, 1);
    assert_int_equal(verbs_explain(line, sizeof line), is_there);
    assert_string_equal(line, expected);
    if (name != NULL)
        unsetenv(name);
}

static void one_line_says_what_there_is(void **state)
{
    (void)state;
    explain(NULL, NULL, true, "available (fake0: max_num_tags 127)");
    explain("FAKE_VERBS_TAGS", "0", false,
            "no device matches tags in hardware (fake0: max_num_tags 0)");
    explain("FAKE_VERBS_DEVICES", "0", false, "libibverbs finds no device");
    explain("FAKE_VERBS_DEVICES", "2", true,
            "available (fake0: max_num_tags 127, fake1: max_num_tags 127)");
}

static void a_device_can_be_named(void **state)
{
    struct mbx_device *device = NULL;

    (void)state;
    setenv("FAKE_VERBS_DEVICES", "2", 1);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "fake1"}, &device), 0);
    assert_string_equal(ibv_get_device_name(verbs_of(device)->context->device), "fake1");
    device->ops->close(device);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "fake2"}, &device), -ENODEV);
    setenv("FAKE_VERBS_TAGS", "0", 1);
    assert_int_equal(verbs_open(&(struct verbs_config){0}, &device), -EOPNOTSUPP);
    unsetenv("FAKE_VERBS_TAGS");
    unsetenv("FAKE_VERBS_DEVICES");
}

int main(void)
{
    const struct conformance_target target = {
        .name = "device conformance: verbs",
        .kinds = 1 << CONFORMANCE_EAGER | 1 << CONFORMANCE_RENDEZVOUS | 1 << CONFORMANCE_OTHER,
        .open = open_instance,
        .close = close_instance,
        .send = send_message,
        .run = run,
        .read = read_packet,
        .fins = fins,
        .lose = lose,
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_envelope_survives_its_tag),
        cmocka_unit_test(a_long_message_is_matched_before_it_is_there),
        cmocka_unit_test(an_announced_message_says_where_it_is),
        cmocka_unit_test(packets_that_make_no_sense_are_recognised),
        cmocka_unit_test(a_wrong_announcement_is_an_error_of_its_receive),
        cmocka_unit_test(a_peer_that_does_not_exist_ends_it),
        cmocka_unit_test(what_was_done_before_the_end_is_told),
        cmocka_unit_test(nothing_is_matched_after_the_end),
        cmocka_unit_test(an_eager_message_that_does_not_fit_ends_it),
        cmocka_unit_test(what_is_left_is_the_head_while_all_is_taken_back),
        cmocka_unit_test(a_consumed_receive_can_be_revoked),
        cmocka_unit_test(one_line_says_what_there_is),
        cmocka_unit_test(a_device_can_be_named),
    };

    if (find_fake("fake_verbs_run") == NULL) {
        fprintf(stderr, "verbs_test: skipped, the fake device is not loaded (LD_PRELOAD)\n");
        return 77;
    }
    return conformance_run(&target) + cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
