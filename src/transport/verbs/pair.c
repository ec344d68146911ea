/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.c - the two queue pairs of a link: create, connect, fail, destroy.
 *
 *        we                      the peer
 *   out  ─────────────────────>  in       we send, read and write
 *   in   <─────────────────────  out      the peer sends, reads and writes
 *
 * An offer (net/packet.h) holds, in words of 32 bits:
 *
 *   0  number of out, and above 24 bits the MTU           3  first number (PSN) of in's packets
 *   1  number of in, and above that reads at a time       4  how many packets of ours may be unread
 *   2  first number of out's packets                      5  tag, or 0: messages are not tagged
 *
 * Tag: above 16 bits, the layout of the tags that our adapter matches; below, the number by
 * which our adapter knows the peer.  If both sides have such an adapter, with the same layout,
 * messages are tagged.
 *
 * A peer that does not answer for RETRIES times the timeout is dead.  If a peer has no receive
 * posted (RNR), requests are retried without limit: credit (tx.h) prevents this case.
 */
#include "transport/verbs/pair.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/random.h"
#include "transport/verbs/ib.h"

#define PSN_MASK   0xffffffu
#define TIMEOUT    14 /* 4.096 us << 14: 67 ms */
#define RETRIES    7
#define RNR_ALWAYS 7
#define RNR_TIMER  12 /* 0.64 ms */
#define SEND_QUEUE (IB_LINK_SENDS + IB_LINK_RMA + 8)
#define TAG_LAYOUT 16 /* the first bit of the layout in tag */
#define TAG_SOURCE 0xffffu

struct offer {
    uint32_t out, in, out_psn, in_psn, window, tag;
};
static_assert(sizeof(struct offer) == sizeof(struct net_offer), "it is one");

/* ---- making ---- */

static struct ibv_qp *ib_pair_create(struct ib *ib, uint32_t entries, uint32_t *inline_max)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = ib->hca.send_cq,
        .recv_cq = ib->hca.recv_cq,
        .srq = ib->hca.srq,
        .cap = {.max_send_wr = entries,
                .max_send_sge = IB_PARTS,
                .max_inline_data = *inline_max},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(ib->hca.pd, &attr);

    /* the limit of an adapter for inline data cannot be queried */
    while (qp == NULL && attr.cap.max_inline_data > 0) {
        attr.cap.max_inline_data = *inline_max = *inline_max / 2;
        qp = ibv_create_qp(ib->hca.pd, &attr);
    }
    return qp;
}

static int initialise(struct ib *ib, struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = ib->hca.port,
        .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
    };
    int err = ibv_modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

    return err == 0 ? 0 : ib_hca_failed(ib, "ibv_modify_qp(INIT)", err);
}

/* Makes `in`: the device's if there is a device, otherwise our own.  0; -errno. */
static int make_in(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    struct ib_link_pair *pair = &link->pair;
    const struct transport_verbs_inlet *inlet = &ib->conns.inlet;
    uint32_t none = 0;
    int err = ib_has_inlet(ib) ? inlet->attach(inlet->arg, link->member.link.peer, &pair->in)
                               : -ERANGE;

    pair->is_inlet = err == 0;
    if (err != -ERANGE)
        return err;
    pair->in = ib_pair_create(ib, 1, &none);
    return pair->in != NULL ? 0 : ib_hca_failed(ib, "ibv_create_qp", errno);
}

int ib_pair_make(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    struct ib_link_pair *pair = &link->pair;
    uint32_t psn[2];
    int err = random_secret(psn, sizeof psn);

    if (pair->state != IB_PAIR_NONE || err != 0)
        return err;
    pair->out_psn = psn[0] & PSN_MASK;
    pair->in_psn = psn[1] & PSN_MASK;
    pair->out = ib_pair_create(ib, SEND_QUEUE, &ib->hca.inline_max);
    pair->inline_max = ib->hca.inline_max;
    err = pair->out != NULL ? make_in(link) : ib_hca_failed(ib, "ibv_create_qp", errno);
    if (err == 0)
        err = initialise(ib, pair->out);
    if (err == 0)
        err = initialise(ib, pair->in);
    pair->state = IB_PAIR_MADE;
    if (err != 0)
        ib_pair_destroy(link);
    return err;
}

/* ---- offers ---- */

/* The word of an offer with the layout, and the number by which our adapter knows the peer. */
static uint32_t tag_of(const struct ib_link *link)
{
    const struct ib *ib = ib_of_link(link);

    return link->pair.is_inlet ? verbs_layout_word(ib->conns.inlet.layout) << TAG_LAYOUT |
                                     (link->member.link.peer & TAG_SOURCE)
                               : 0;
}

void ib_pair_offer(const struct ib_link *link, struct net_offer *offer)
{
    const struct ib_hca *hca = &ib_of_link(link)->hca;
    const struct ib_link_pair *pair = &link->pair;
    struct offer own = {.tag = 0};

    if (pair->out != NULL && pair->in != NULL)
        own = (struct offer){
            .out = pair->out->qp_num | (uint32_t)hca->mtu << 24,
            .in = pair->in->qp_num | (uint32_t)hca->reads_in << 24,
            .out_psn = pair->out_psn,
            .in_psn = pair->in_psn,
            .window = link->rx.window,
            .tag = tag_of(link),
        };
    memcpy(offer, &own, sizeof own);
}

static bool is_offer(const struct offer *offer)
{
    const uint32_t mtu = offer->out >> 24, reads = offer->in >> 24;

    return (offer->out & PSN_MASK) != 0 && (offer->in & PSN_MASK) != 0 &&
           offer->out_psn <= PSN_MASK && offer->in_psn <= PSN_MASK && mtu >= IBV_MTU_256 &&
           mtu <= IBV_MTU_4096 && reads >= 1 && reads <= 16 && offer->window >= 1 &&
           offer->window <= IB_WINDOW_MAX && offer->tag >> TAG_LAYOUT <= VERBS_LAYOUT_WORD_MAX;
}

/* ---- connecting ---- */

struct ends {
    struct ibv_qp *qp;
    uint32_t number, psn, peer_psn; /* of the remote queue pair; first PSNs, ours and theirs */
};

static int connect(struct ib_link *link, const struct ends *ends, const struct offer *offer)
{
    struct ib *ib = ib_of_link(link);
    const uint8_t reads = (uint8_t)(offer->in >> 24);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .ah_attr = ib_hca_route(ib, &link->member.address),
        .path_mtu = (enum ibv_mtu)min_size(ib->hca.mtu, offer->out >> 24),
        .dest_qp_num = ends->number,
        .rq_psn = ends->peer_psn,
        .max_dest_rd_atomic = ib->hca.reads_in,
        .min_rnr_timer = RNR_TIMER,
    };
    int err =
        ibv_modify_qp(ends->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

    if (err != 0)
        return ib_hca_failed(ib, "ibv_modify_qp(RTR)", err);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .sq_psn = ends->psn,
        .timeout = TIMEOUT,
        .retry_cnt = RETRIES,
        .rnr_retry = RNR_ALWAYS,
        .max_rd_atomic = (uint8_t)min_size(ib->hca.reads_out, reads),
    };
    err = ibv_modify_qp(ends->qp, &attr,
                        IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
    return err == 0 ? 0 : ib_hca_failed(ib, "ibv_modify_qp(RTS)", err);
}

/* Are messages tagged?  Only if the peer's adapter compares the same bits as ours. */
static bool is_tagged(struct ib_link *link, uint32_t tag)
{
    struct ib_conns *conns = &ib_of_link(link)->conns;
    const uint32_t layout = tag >> TAG_LAYOUT;
    char peer[NET_PEER_TEXT];

    if (!link->pair.is_inlet || layout == tag_of(link) >> TAG_LAYOUT)
        return link->pair.is_inlet;
    if (layout != 0 && !conns->has_warned_layout)
        LOG_WARN("verbs: software matches messages of %s, because the peer's adapter compares "
                 "other bits of a message (MBX_DEVICE_TAG_FORMAT); use the same MPI on both "
                 "sides",
                 net_peer_text(&link->net, peer));
    conns->has_warned_layout |= layout != 0;
    return false;
}

int ib_pair_connect(struct ib_link *link, const struct net_offer *from, uint32_t *window)
{
    struct ib_link_pair *pair = &link->pair;
    struct offer offer;
    int err;

    memcpy(&offer, from, sizeof offer);
    if (!is_offer(&offer))
        return -EPROTO;
    assert(pair->state == IB_PAIR_MADE);
    err = connect(link,
                  &(struct ends){.qp = pair->in,
                                 .number = offer.out & PSN_MASK,
                                 .psn = pair->in_psn,
                                 .peer_psn = offer.out_psn},
                  &offer);
    if (err == 0)
        err = connect(link,
                      &(struct ends){.qp = pair->out,
                                     .number = offer.in & PSN_MASK,
                                     .psn = pair->out_psn,
                                     .peer_psn = offer.in_psn},
                      &offer);
    if (err != 0)
        return err;
    pair->state = IB_PAIR_CONNECTED;
    pair->is_tagged = is_tagged(link, offer.tag);
    pair->number = offer.tag & TAG_SOURCE;
    *window = offer.window;
    return 0;
}

/* ---- the end ---- */

void ib_pair_fail(struct ib_link *link)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ib_link_pair *pair = &link->pair;

    if (pair->state == IB_PAIR_NONE || pair->state == IB_PAIR_FAILED)
        return;
    /* `in` first: the peer's adapter must write nothing from here on */
    if (pair->in != NULL)
        ibv_modify_qp(pair->in, &attr, IBV_QP_STATE);
    ibv_modify_qp(pair->out, &attr, IBV_QP_STATE);
    pair->state = IB_PAIR_FAILED;
}

void ib_pair_destroy_in(struct ib_link *link)
{
    const struct transport_verbs_inlet *inlet = &ib_of_link(link)->conns.inlet;
    struct ib_link_pair *pair = &link->pair;

    if (pair->in != NULL && pair->is_inlet)
        inlet->detach(inlet->arg, link->member.link.peer);
    else if (pair->in != NULL)
        ibv_destroy_qp(pair->in);
    pair->in = NULL;
}

void ib_pair_destroy(struct ib_link *link)
{
    struct ib_link_pair *pair = &link->pair;

    ib_pair_destroy_in(link);
    if (pair->out != NULL)
        ibv_destroy_qp(pair->out);
    pair->out = NULL;
    pair->state = IB_PAIR_NONE;
}
