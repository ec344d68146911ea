/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ud.c - handshake packets as datagrams.
 *
 * A datagram may be lost, by the network or because the other side has no receive posted:
 * net/net.c repeats a packet without an answer.  A datagram that reaches the queue pair with
 * its key may be forged; net_check() and the tokens and MACs of net.c decide.
 */
#include "transport/verbs/ud.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "transport/verbs/ib.h"

#define STRIDE    round_up(IB_UD_GRH + IB_UD_SIZE, 64)
#define RECEIVING (IB_UD_SENDS * (size_t)IB_UD_SIZE) /* offset of the receives */
#define BYTES     (RECEIVING + IB_UD_RECEIVES * STRIDE)

/* The kinds of datagrams; a BYE must follow earlier packets, so it uses the queue pair. */
#define KINDS                                                                                  \
    (1u << NET_HELLO | 1u << NET_WELCOME | 1u << NET_AUTH | 1u << NET_READY |                  \
     1u << NET_REFUSED | 1u << NET_BROKEN | 1u << NET_OTHER)

static_assert(NET_CONTROL_MAX <= IB_UD_SIZE, "it fits the smallest MTU");

/* ---- sending ---- */

int ib_ud_route(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    struct ibv_ah_attr attr = ib_hca_route(ib, &link->member.address);

    link->ud.way = ibv_create_ah(ib->hca.pd, &attr);
    if (link->ud.way == NULL)
        LOG_DEBUG("verbs: no way to a peer, error %d %s", errno, strerror(errno));
    return link->ud.way != NULL ? 0 : -EHOSTUNREACH;
}

void ib_ud_unroute(struct ib_link *link)
{
    if (link->ud.way != NULL)
        ibv_destroy_ah(link->ud.way);
    link->ud.way = NULL;
}

void ib_ud_control(struct ib_link *link, enum net_kind kind)
{
    struct ib *ib = ib_of_link(link);

    if (link->ud.way == NULL)
        return;
    link->ud.pending |= (uint16_t)(1u << kind);
    ib->is_meeting = true;
    if (!list_is_linked(&link->ud.in_busy))
        list_add_tail(&ib->ud.busy, &link->ud.in_busy);
}

void ib_ud_forget(struct ib_link *link, unsigned kinds)
{
    link->ud.pending &= (uint16_t)~kinds;
    if (link->ud.pending == 0)
        list_remove(&link->ud.in_busy);
}

/* Sends one control packet.  0; -EAGAIN: no space. */
static int send_one(struct ib_link *link, enum net_kind kind)
{
    struct ib *ib = ib_of_link(link);
    uint32_t slot = (uint32_t)__builtin_ctz(ib->ud.free | 1u << (IB_UD_SENDS - 1));
    unsigned char *bytes = ib->ud.bytes + slot * (size_t)IB_UD_SIZE;
    struct ibv_sge sge = {.addr = (uintptr_t)bytes, .lkey = ib->ud.mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = ib_wr_id(IB_UD_SEND, slot),
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.ud.ah = link->ud.way};

    if (ib->ud.free == 0 || ib->is_lost)
        return -EAGAIN;
    sge.length = (uint32_t)net_write(&link->net, kind, 0, bytes);
    ib_hca_datagrams(&link->member.address, &wr.wr.ud.remote_qpn, &wr.wr.ud.remote_qkey);
    if (ibv_post_send(ib->ud.qp, &wr, &bad) != 0)
        return -EAGAIN;
    ib->ud.free &= ~(1u << slot);
    return 0;
}

int ib_ud_push(struct ib *ib)
{
    struct list *node, *next;
    int moved = 0;

    list_for_each_safe (node, next, &ib->ud.busy) {
        struct ib_link *link = container_of(node, struct ib_link, ud.in_busy);

        while (link->ud.pending != 0) {
            const enum net_kind kind = (enum net_kind)__builtin_ctz(link->ud.pending);

            if (send_one(link, kind) != 0)
                return moved;
            ib_ud_forget(link, 1u << kind);
            moved++;
        }
    }
    return moved;
}

void ib_ud_sent(struct ib *ib, uint32_t slot)
{
    if (slot < IB_UD_SENDS)
        ib->ud.free |= 1u << slot;
}

/* ---- receiving ---- */

static void ib_ud_post(struct ib *ib, uint32_t number)
{
    unsigned char *bytes = ib->ud.bytes + RECEIVING + number * STRIDE;
    struct ibv_sge sge = {
        .addr = (uintptr_t)bytes, .length = IB_UD_GRH + IB_UD_SIZE, .lkey = ib->ud.mr->lkey};
    struct ibv_recv_wr *bad,
        wr = {.wr_id = ib_wr_id(IB_UD_RECEIVE, number), .sg_list = &sge, .num_sge = 1};

    if (ibv_post_recv(ib->ud.qp, &wr, &bad) != 0 && !ib->is_lost)
        LOG_WARN("verbs: cannot post a receive for handshakes, so peers may wait for an "
                 "answer; please report this");
}

static struct ib_link *ib_ud_find(const struct ib *ib, const struct net_prefix *prefix)
{
    struct ib_link *link;

    if (prefix->to == 0 || prefix->to > ib->conns.id_count)
        return NULL;
    link = ib->conns.by_id[prefix->to - 1];
    return link->net.ours.token == prefix->token ? link : NULL;
}

static void ib_ud_arrived(struct ib *ib, const unsigned char *bytes, size_t size)
{
    struct net_prefix prefix;
    const char *wrong = net_check(bytes, size, 0, &prefix);
    const unsigned char *body = bytes + sizeof prefix;
    struct ib_link *link = wrong == NULL ? ib_ud_find(ib, &prefix) : NULL;

    if (wrong == NULL && (KINDS & 1u << prefix.kind) == 0)
        wrong = "a datagram that is no part of a handshake";
    if (wrong == NULL && prefix.kind != NET_HELLO && link == NULL)
        wrong = "a datagram for no link";
    if (wrong != NULL)
        ib->events->dropped(ib->arg, wrong);
    else
        net_arrived(&ib->net, link != NULL ? &link->net : NULL, &prefix, body);
}

void ib_ud_received(struct ib *ib, uint32_t number, const struct ibv_wc *wc)
{
    const unsigned char *bytes = ib->ud.bytes + RECEIVING + number * STRIDE;
    alignas(8) unsigned char copy[IB_UD_SIZE];
    const bool is_whole = wc->status == IBV_WC_SUCCESS && wc->byte_len > IB_UD_GRH &&
                          wc->byte_len <= IB_UD_GRH + IB_UD_SIZE;
    const size_t size = is_whole ? wc->byte_len - IB_UD_GRH : 0;

    if (number >= IB_UD_RECEIVES)
        return;
    memcpy(copy, bytes + IB_UD_GRH, size);
    if (wc->status != IBV_WC_WR_FLUSH_ERR && !ib->is_closing)
        ib_ud_post(ib, number);
    if (size > 0 && !ib->is_closing)
        ib_ud_arrived(ib, copy, size);
}

/* ---- open and close ---- */

static int make_ready(struct ib *ib)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = ib->hca.port, .qkey = ib->ud.key};
    int err = ibv_modify_qp(ib->ud.qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    for (uint32_t i = 0; i < IB_UD_RECEIVES && err == 0; i++)
        ib_ud_post(ib, i);
    attr.qp_state = IBV_QPS_RTR;
    if (err == 0)
        err = ibv_modify_qp(ib->ud.qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (err == 0)
        err = ibv_modify_qp(ib->ud.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    return err == 0 ? 0 : ib_hca_failed(ib, "ibv_modify_qp(UD)", err);
}

int ib_ud_open(struct ib *ib)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = ib->hca.send_cq,
        .recv_cq = ib->hca.recv_cq,
        .cap = {.max_send_wr = IB_UD_SENDS,
                .max_recv_wr = IB_UD_RECEIVES,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
    };
    int err = random_secret(&ib->ud.key, sizeof ib->ud.key);

    list_init(&ib->ud.busy);
    if (err != 0)
        return err;
    ib->ud.key &= 0x7fffffff; /* higher keys are privileged */
    ib->ud.free = UINT32_MAX;
    ib->ud.bytes = mem_alloc_aligned(4096, BYTES);
    if (ib->ud.bytes == NULL)
        return -ENOMEM;
    memset(ib->ud.bytes, 0, BYTES);
    ib->ud.mr = ibv_reg_mr(ib->hca.pd, ib->ud.bytes, BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (ib->ud.mr == NULL)
        return ib_hca_failed(ib, "ibv_reg_mr", errno);
    ib->ud.qp = ibv_create_qp(ib->hca.pd, &attr);
    return ib->ud.qp != NULL ? make_ready(ib) : ib_hca_failed(ib, "ibv_create_qp(UD)", errno);
}

void ib_ud_close(struct ib *ib)
{
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        ib_ud_unroute(ib->conns.by_id[i]);
    if (ib->ud.qp != NULL)
        ibv_destroy_qp(ib->ud.qp);
    if (ib->ud.mr != NULL)
        ibv_dereg_mr(ib->ud.mr);
    mem_free(ib->ud.bytes);
}
