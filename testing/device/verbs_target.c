/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/patience.h"
#include "testing/device/verbs_target.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "device/verbs/verbs_state.h"

#define SLOTS     300 /* sends of a peer that may wait: more than the untagged buffers */
#define SLOT_SIZE 8448
#define FINS      64
#define FIN_SIZE  64
#define REGIONS   16
#define NOBODY    UINT32_MAX

/* The sending end of a link to the device. */
struct verbs_peer {
    struct ibv_qp *qp;
    struct ibv_cq *sends, *recvs;
    unsigned char *slots; /* [SLOTS] of SLOT_SIZE, followed by FINS of FIN_SIZE */
    struct ibv_mr *mr;
    struct ibv_mr *regions[REGIONS]; /* of rendezvous */
    uint32_t region_count;
    uint64_t sent, acked, arrived;
    uint64_t fins, fins_due;
    bool has_failed;
};

const char *verbs_target_name;

/* ---- connecting ---- */

static void move_pair(struct ibv_qp *qp, uint32_t to)
{
    const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct ibv_port_attr port = {0};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags =
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    union ibv_gid gid;

    assert_int_equal(ibv_query_port(qp->context, 1, &port), 0);
    assert_int_equal(ibv_query_gid(qp->context, 1, 0, &gid), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, init), 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = port.active_mtu,
        .dest_qp_num = to,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 1,
        .ah_attr = {.dlid = port.lid,
                    .port_num = 1,
                    .is_global = port.link_layer == IBV_LINK_LAYER_ETHERNET,
                    .grh = {.dgid = gid, .hop_limit = 1}},
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

static unsigned char *fin_memory(struct verbs_peer *peer, uint64_t number)
{
    return peer->slots + (size_t)SLOTS * SLOT_SIZE + number * FIN_SIZE;
}

static void post_fin_buffer(struct verbs_peer *peer, uint64_t number)
{
    struct ibv_sge sge = {(uintptr_t)fin_memory(peer, number), FIN_SIZE, peer->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;

    assert_int_equal(ibv_post_recv(peer->qp, &wr, &bad), 0);
}

static void connect_peer(struct verbs_target *t, uint32_t number)
{
    struct verbs_peer *peer = &t->peers[number];
    struct verbs *v = verbs_of(t->device);
    struct ibv_cq_init_attr_ex sends = {.cqe = SLOTS}, recvs = {.cqe = FINS};
    const size_t size = (size_t)SLOTS * SLOT_SIZE + (size_t)FINS * FIN_SIZE;
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = SLOTS,
                                            .max_recv_wr = FINS,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC,
                                    .sq_sig_all = 1};
    struct ibv_cq_ex *send_queue = ibv_create_cq_ex(v->context, &sends);
    struct ibv_cq_ex *recv_queue = ibv_create_cq_ex(v->context, &recvs);
    struct ibv_qp *in;

    assert_true(send_queue != NULL && recv_queue != NULL);
    peer->sends = attr.send_cq = ibv_cq_ex_to_cq(send_queue);
    peer->recvs = attr.recv_cq = ibv_cq_ex_to_cq(recv_queue);
    peer->slots = mem_alloc(size);
    assert_non_null(peer->slots);
    peer->mr =
        ibv_reg_mr(v->pd, peer->slots, size,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(peer->mr);
    peer->qp = ibv_create_qp(v->pd, &attr);
    assert_non_null(peer->qp);
    assert_int_equal(verbs_attach(t->device, number, &in), 0);
    move_pair(in, peer->qp->qp_num);
    move_pair(peer->qp, in->qp_num);
    for (uint64_t i = 0; i < FINS; i++)
        post_fin_buffer(peer, i);
}

static void connect_peers(struct verbs_target *t)
{
    if (t->peers != NULL)
        return;
    t->peers = mem_calloc(CONFORMANCE_PEERS, sizeof *t->peers);
    assert_non_null(t->peers);
    for (uint32_t i = 0; i < CONFORMANCE_PEERS; i++)
        connect_peer(t, i);
}

static void disconnect_peer(struct verbs_peer *peer)
{
    if (peer->qp != NULL)
        ibv_destroy_qp(peer->qp);
    for (uint32_t i = 0; i < peer->region_count; i++)
        ibv_dereg_mr(peer->regions[i]);
    if (peer->mr != NULL)
        ibv_dereg_mr(peer->mr);
    if (peer->sends != NULL)
        ibv_destroy_cq(peer->sends);
    if (peer->recvs != NULL)
        ibv_destroy_cq(peer->recvs);
    mem_free(peer->slots);
}

/* ---- the peers work ---- */

static bool check_sends(struct verbs_peer *peer)
{
    struct ibv_wc wc;
    bool has_moved = false;

    while (ibv_poll_cq(peer->sends, 1, &wc) == 1) {
        peer->acked++;
        peer->has_failed |= wc.status != IBV_WC_SUCCESS;
        has_moved = true;
    }
    return has_moved;
}

static bool check_fins(struct verbs_peer *peer)
{
    struct ibv_wc wc;
    struct ibv_tmh tmh;
    bool has_moved = false;

    while (ibv_poll_cq(peer->recvs, 1, &wc) == 1) {
        has_moved = true;
        if (wc.status != IBV_WC_SUCCESS)
            continue;
        assert_int_equal(wc.byte_len, sizeof tmh + sizeof(struct ibv_rvh));
        memcpy(&tmh, fin_memory(peer, wc.wr_id), sizeof tmh);
        assert_int_equal(tmh.opcode, IBV_TMH_FIN);
        peer->fins++;
        post_fin_buffer(peer, wc.wr_id);
    }
    return has_moved;
}

static bool look_at(struct verbs_peer *peer)
{
    const bool has_sent = check_sends(peer), has_received = check_fins(peer);

    return has_sent || has_received;
}

/* ---- the proxy ---- */

static struct verbs_target *target_of(struct mbx_device *device)
{
    return container_of(device, struct verbs_target, proxy);
}

static void account(struct verbs_target *t, const struct mbx_device_event *event)
{
    switch ((enum mbx_device_event_type)event->type) {
    case MBX_DEVICE_UNEXPECTED:
    case MBX_DEVICE_PASSED:
        t->peers[event->peer].arrived++;
        t->free--;
        break;
    case MBX_DEVICE_MATCHED:
        t->peers[event->envelope.source].arrived++;
        t->moving += !(event->flags & MBX_DEVICE_WHOLE);
        t->from[event->handle] =
            (event->flags & (MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN)) == MBX_DEVICE_BY_RNDV
                ? event->envelope.source
                : NOBODY;
        if (event->flags & MBX_DEVICE_WHOLE && t->from[event->handle] != NOBODY)
            t->peers[event->envelope.source].fins_due++;
        break;
    case MBX_DEVICE_DATA_VALID:
        t->moving--;
        if (event->error == 0 && t->from[event->handle] != NOBODY)
            t->peers[t->from[event->handle]].fins_due++;
        break;
    case MBX_DEVICE_INCOMPLETE:
        t->moving--;
        break;
    case MBX_DEVICE_LOST:
        t->is_lost = true;
        break;
    case MBX_DEVICE_FIN_SENT:
    case MBX_DEVICE_REVOKED:
    case MBX_DEVICE_UNHELD:
        break;
    }
}

static bool pull(struct verbs_target *t)
{
    int n;

    if (t->count + t->first == t->capacity) {
        memmove(t->events, t->events + t->first, t->count * sizeof *t->events);
        t->first = 0;
    }
    assert_true(t->count < t->capacity);
    n = t->device->ops->poll(t->device, t->events + t->first + t->count,
                             (int)(t->capacity - t->first - t->count));
    assert_true(n >= 0);
    for (int i = 0; i < n; i++)
        account(t, &t->events[t->first + t->count + (uint32_t)i]);
    t->count += (uint32_t)n;
    return n > 0;
}

/* Is nothing in flight? */
static bool is_settled(const struct verbs_target *t)
{
    const struct verbs *v = verbs_of(t->device);

    if (t->is_lost)
        return true;
    if (v->in_flight > 0 || t->moving > 0)
        return false;
    for (int i = 0; t->peers != NULL && i < CONFORMANCE_PEERS; i++) {
        const struct verbs_peer *peer = &t->peers[i];

        if (!peer->has_failed &&
            (peer->fins < peer->fins_due || (peer->arrived < peer->sent && t->free > 0)))
            return false;
    }
    return true;
}

void verbs_target_run(void *instance)
{
    struct verbs_target *t = instance;
    const uint64_t until = clock_now() + PATIENCE_NS;
    bool has_moved;

    do {
        has_moved = pull(t);
        for (int i = 0; t->peers != NULL && i < CONFORMANCE_PEERS; i++)
            has_moved |= look_at(&t->peers[i]);
        if (!has_moved && clock_now() > until)
            fail_msg("the adapter does not go on");
        if (!has_moved)
            sys_yield();
    } while (has_moved || !is_settled(t));
}

static void proxy_limits(const struct mbx_device *device, struct mbx_device_limits *limits)
{
    const struct verbs_target *t = container_of(device, const struct verbs_target, proxy);

    t->device->ops->limits(t->device, limits);
}

static int proxy_configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                           uint32_t untagged)
{
    struct verbs_target *t = target_of(device);
    int err = t->device->ops->configure(t->device, list, commands, untagged);

    if (err != 0)
        return err;
    t->capacity = 4 * list + 2 * untagged + 64;
    t->events = mem_calloc(t->capacity, sizeof *t->events);
    t->from = mem_calloc(list, sizeof *t->from);
    assert_true(t->events != NULL && t->from != NULL);
    return 0;
}

static void proxy_prepare(struct mbx_device *device, void *memory, size_t size)
{
    struct mbx_device *inner = target_of(device)->device;

    inner->ops->prepare(inner, memory, size);
}

static int proxy_replenish(struct mbx_device *device, uint32_t buffer, void *memory)
{
    struct verbs_target *t = target_of(device);
    int err = t->device->ops->replenish(t->device, buffer, memory);

    t->free += err == 0;
    return err;
}

static int proxy_append(struct mbx_device *device, const struct mbx_device_recv *recv,
                        uint16_t handled)
{
    struct mbx_device *inner = target_of(device)->device;

    return inner->ops->append(inner, recv, handled);
}

static int proxy_revoke(struct mbx_device *device, uint32_t handle, uint16_t handled)
{
    struct mbx_device *inner = target_of(device)->device;

    return inner->ops->revoke(inner, handle, handled);
}

static int proxy_sync(struct mbx_device *device, uint16_t handled)
{
    struct mbx_device *inner = target_of(device)->device;

    return inner->ops->sync(inner, handled);
}

static int proxy_poll(struct mbx_device *device, struct mbx_device_event *events, int count)
{
    struct verbs_target *t = target_of(device);
    int n = 0;

    while (n < count && (t->count > 0 || (n == 0 && pull(t)))) {
        events[n++] = t->events[t->first++];
        t->count--;
    }
    return n;
}

static const struct mbx_device_ops proxy_ops = {
    .name = "verbs",
    .about = "the verbs device, watched",
    .limits = proxy_limits,
    .configure = proxy_configure,
    .prepare = proxy_prepare,
    .replenish = proxy_replenish,
    .append = proxy_append,
    .revoke = proxy_revoke,
    .sync = proxy_sync,
    .poll = proxy_poll,
};

/* ---- open, send, close ---- */

static bool on_fin(void *arg, UNUSED uint32_t peer, const struct verbs_fin *fin,
                   uint64_t *sender)
{
    struct verbs_target *t = arg;

    t->fin = *fin;
    *sender = t->fin_sender;
    return t->knows_fin;
}

static void on_link_failed(void *arg, uint32_t peer, UNUSED const char *why)
{
    struct verbs_target *t = arg;

    t->failed++;
    t->last_failed = peer;
    t->peers[peer].has_failed = true;
}

void *verbs_target_open(struct mbx_device **device)
{
    struct verbs_target *t = mem_calloc(1, sizeof *t);

    assert_non_null(t);
    t->proxy.ops = &proxy_ops;
    assert_int_equal(verbs_open(&(struct verbs_config){.name = verbs_target_name,
                                                       .peers = CONFORMANCE_PEERS,
                                                       .fin = on_fin,
                                                       .link_failed = on_link_failed,
                                                       .arg = t},
                                &t->device),
                     0);
    *device = &t->proxy;
    return t;
}

void verbs_target_close(void *instance)
{
    struct verbs_target *t = instance;

    for (int i = 0; t->peers != NULL && i < CONFORMANCE_PEERS; i++)
        disconnect_peer(&t->peers[i]);
    t->device->ops->close(t->device);
    mem_free(t->peers);
    mem_free(t->events);
    mem_free(t->from);
    mem_free(t);
}

struct ibv_tmh verbs_target_header(enum ibv_tmh_op opcode, uint32_t app_ctx, uint64_t tag)
{
    return (struct ibv_tmh){
        .opcode = (uint8_t)opcode, .app_ctx = htobe32(app_ctx), .tag = htobe64(tag)};
}

void verbs_target_send_raw(struct verbs_target *t, uint32_t number, const struct ibv_tmh *tmh,
                           const void *behind, size_t size)
{
    struct verbs_peer *peer;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    unsigned char *slot;

    connect_peers(t);
    peer = &t->peers[number];
    assert_true(sizeof *tmh + size <= SLOT_SIZE);
    while (peer->sent - peer->acked == SLOTS && !t->is_lost)
        check_sends(peer);
    slot = peer->slots + peer->sent % SLOTS * SLOT_SIZE;
    memcpy(slot, tmh, sizeof *tmh);
    if (size > 0)
        memcpy(slot + sizeof *tmh, behind, size);
    sge = (struct ibv_sge){(uintptr_t)slot, (uint32_t)(sizeof *tmh + size), peer->mr->lkey};
    if (ibv_post_send(peer->qp, &wr, &bad) == 0)
        peer->sent++;
}

void verbs_target_write_imm(struct verbs_target *t, uint32_t number)
{
    struct verbs_peer *peer;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM},
                       *bad;

    connect_peers(t);
    peer = &t->peers[number];
    sge = (struct ibv_sge){(uintptr_t)peer->slots, FIN_SIZE, peer->mr->lkey};
    wr.wr.rdma.remote_addr = (uintptr_t)peer->slots;
    wr.wr.rdma.rkey = peer->mr->rkey;
    if (ibv_post_send(peer->qp, &wr, &bad) == 0)
        peer->sent++;
}

void verbs_target_send_rndv(struct verbs_target *t, uint32_t number, uint64_t tag,
                            uint32_t data, const void *bytes, uint32_t size, uint64_t sender,
                            uint32_t rkey)
{
    const struct ibv_tmh tmh = verbs_target_header(IBV_TMH_RNDV, VERBS_RNDV | data, tag);
    const struct verbs_rndv rndv = {.sender = sender};
    unsigned char behind[sizeof(struct ibv_rvh) + sizeof rndv];
    struct verbs_peer *peer;
    struct ibv_rvh rvh;

    connect_peers(t);
    peer = &t->peers[number];
    if (rkey == 0 && size > 0) {
        assert_true(peer->region_count < REGIONS);
        peer->regions[peer->region_count] =
            ibv_reg_mr(verbs_of(t->device)->pd, (void *)(uintptr_t)bytes, size,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        assert_non_null(peer->regions[peer->region_count]);
        rkey = peer->regions[peer->region_count++]->rkey;
    }
    rvh = (struct ibv_rvh){.va = htobe64((uintptr_t)bytes),
                           .rkey = htobe32(size > 0 ? rkey : peer->mr->rkey),
                           .len = htobe32(size)};
    if (size == 0)
        rvh.va = htobe64((uintptr_t)peer->slots);
    memcpy(behind, &rvh, sizeof rvh);
    memcpy(behind + sizeof rvh, &rndv, sizeof rndv);
    verbs_target_send_raw(t, number, &tmh, behind, sizeof behind);
}

/* The hardware checks only one byte of it. */
static void send_other(struct verbs_target *t, uint32_t peer, uint64_t sender)
{
    struct {
        struct wire_header header;
        struct wire_fin body;
    } packet = {.header = {.what = wire_what(WIRE_FIN)}, .body = {.sender = sender}};
    struct ibv_tmh tmh;

    memcpy(&tmh, &packet, sizeof tmh);
    assert_int_equal(tmh.opcode, IBV_TMH_NO_TAG);
    verbs_target_send_raw(t, peer, &tmh, (const unsigned char *)&packet + sizeof tmh,
                          sizeof packet - sizeof tmh);
}

void verbs_target_send(void *instance, uint32_t peer, const struct conformance_message *message)
{
    struct verbs_target *t = instance;
    const uint64_t tag =
        verbs_tag((struct verbs_layout){.kind = VERBS_NATIVE}, &message->envelope);
    const struct verbs_rts rts = {.size = message->size, .data = message->data};
    struct mbx_device_limits limits;
    enum conformance_kind kind = message->kind;
    struct ibv_tmh tmh;

    t->device->ops->limits(t->device, &limits);
    if (kind == CONFORMANCE_RENDEZVOUS && !(limits.caps & MBX_DEVICE_RENDEZVOUS))
        kind = CONFORMANCE_UNREADABLE;
    if (kind == CONFORMANCE_OTHER) {
        send_other(t, peer, message->data);
    } else if (kind == CONFORMANCE_UNREADABLE) {
        tmh = verbs_target_header(IBV_TMH_EAGER, VERBS_ANNOUNCED, tag);
        verbs_target_send_raw(t, peer, &tmh, &rts, sizeof rts);
    } else if (kind == CONFORMANCE_RENDEZVOUS) {
        verbs_target_send_rndv(t, peer, tag, (uint32_t)message->data, message->payload,
                               (uint32_t)message->size, message->data, 0);
    } else {
        tmh = verbs_target_header(IBV_TMH_EAGER, (uint32_t)message->data, tag);
        verbs_target_send_raw(t, peer, &tmh, message->payload, message->size);
    }
}

void verbs_target_read(UNUSED void *instance, const struct mbx_device_event *event,
                       const void *memory, struct conformance_message *message)
{
    struct wire_packet packet;
    const char *reason;

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

uint64_t verbs_target_fins(void *instance, uint32_t peer)
{
    const struct verbs_target *t = instance;

    return t->peers != NULL ? t->peers[peer].fins : 0;
}

const struct conformance_target verbs_target = {
    .name = "device conformance: verbs",
    .kinds = 1 << CONFORMANCE_EAGER | 1 << CONFORMANCE_RENDEZVOUS |
             1 << CONFORMANCE_UNREADABLE | 1 << CONFORMANCE_OTHER,
    .open = verbs_target_open,
    .close = verbs_target_close,
    .send = verbs_target_send,
    .run = verbs_target_run,
    .read = verbs_target_read,
    .fins = verbs_target_fins,
};
