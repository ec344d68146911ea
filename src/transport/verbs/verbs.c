/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.c - an endpoint over verbs (InfiniBand, RoCE): opening, polling, waiting, closing.
 *
 * ib.h lists the files, net/packet.h shows how two endpoints meet.
 *
 * A failed queue pair may belong to a peer that has closed and whose BYE was received before.
 * So links end only when all received packets were read (ib_conns_end_failing()).
 *
 * wait() sleeps on the completion channel, on the adapter's async events, and on an eventfd for
 * wake().  The channel is armed first, and completions that came before are read and put aside;
 * while nothing has completed since, the channel need not be armed again.
 *
 * close() sends BYE on each link and waits briefly until the peers' adapters have it; packets
 * that were sent before and for which is_flushed() was true are delivered.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/base.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "transport/network.h"
#include "transport/verbs/ib.h"
#include "transport/verbs/params.h"

#define TEND_POLLS     4096 /* between two checks of handshakes and stuck packets */
#define TEND_SLEEPS    4    /* between two such checks of an endpoint that sleeps */
#define BYE_NS         (200 * CLOCK_MS)
#define SLICE_MS       50 /* the longest sleep: the adapter may be lost */
#define SLICE_BLIND_MS 5  /* the longest sleep if a packet must be repeated or offered again */
#define WINDOW_USUAL   16

/* ---- addresses ---- */

static int ib_make_address(struct ib *ib, const struct transport_config *config)
{
    struct transport_address address = {
        .kind = ADDRESS_VERBS, .credit = config->credit, .process = (uint32_t)getpid()};
    int err = random_secret(&address.cookie, sizeof address.cookie);

    if (err == 0)
        err = host_id(&address.host);
    if (err != 0)
        return err;
    ib_hca_address(ib, ib->ud.qp->qp_num, ib->ud.key, &address);
    ib->net.self = address;
    return 0;
}

static void verbs_address(const struct transport *t, struct transport_address *address)
{
    *address = ib_of(t)->net.self;
}

static int verbs_reaches(const struct transport *t, const struct transport_address *address)
{
    int err = ib_link_check_address(ib_of(t), address);

    if (err == -EHOSTUNREACH && address->network_size == 0)
        LOG_WARN(
            "verbs: pid %u cannot be reached: it is on another machine, or in another pid or "
            "user namespace (a container), and has opened no network; "
            "MBX_TRANSPORT=shm+verbs for all ranks opens it",
            address->process);
    else if (err == -EHOSTUNREACH)
        LOG_WARN(
            "verbs: a peer cannot be reached: it uses another network than this process; set "
            "MBX_TRANSPORT alike for all ranks");
    return err;
}

static struct transport_who verbs_who(struct link *link)
{
    return net_who(&ib_link_of(link)->net);
}

static int verbs_connect(struct transport *t, const struct transport_address *address,
                         struct link **out)
{
    struct ib_link *link;
    int err = ib_link_get(ib_of(t), address, &link);

    if (err != 0)
        return err;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

/* ---- polling ---- */

static void sent(struct ib *ib, const struct ibv_wc *wc)
{
    const bool is_success = wc->status == IBV_WC_SUCCESS;
    const uint32_t number = ib_number_of(wc->wr_id);
    struct ib_link *link = NULL;

    if (ib_kind_of(wc->wr_id) == IB_UD_SEND)
        ib_ud_sent(ib, number);
    else if (ib_kind_of(wc->wr_id) == IB_SEND)
        link = ib_tx_sent(ib, number);
    else if (ib_kind_of(wc->wr_id) == IB_RMA)
        link = ib_rma_done(ib, number, is_success);
    if (link == NULL)
        return;
    if (is_success)
        ib_link_heard(link);
    else
        ib_link_failed(link, ibv_wc_status_str(wc->status));
}

static void received(struct ib *ib, const struct ibv_wc *wc)
{
    if (ib_kind_of(wc->wr_id) == IB_UD_RECEIVE)
        ib_ud_received(ib, ib_number_of(wc->wr_id), wc);
    else
        ib_rx_received(ib, ib_number_of(wc->wr_id), wc);
}

/* Reads at most `most` completions, first the ones that prepare() has put aside.  Returns how
 * many; -EIO: the adapter is lost. */
static int ib_take(struct ib *ib, enum ib_queue queue, int most)
{
    struct ib_aside *aside = &ib->aside[queue];
    struct ibv_wc wcs[IB_ASIDE];
    int count = aside->count;

    if (unlikely(count > 0))
        memcpy(wcs, aside->wcs, (size_t)count * sizeof *wcs);
    else if (likely(count == 0))
        count = ibv_poll_cq(queue == IB_SENT ? ib->hca.send_cq : ib->hca.recv_cq, most, wcs);
    aside->count = 0;
    if (unlikely(count < 0))
        return -EIO;
    for (int i = 0; i < count; i++)
        if (queue == IB_SENT)
            sent(ib, &wcs[i]);
        else
            received(ib, &wcs[i]);
    return count;
}

static OUT_OF_LINE int lose(struct ib *ib)
{
    if (!ib->is_lost)
        ib_conns_lose(ib);
    return 1;
}

/* Reads earlier completions first. */
static OUT_OF_LINE int end_failing(struct ib *ib)
{
    int count, moved = 1;

    while ((count = ib_take(ib, IB_RECEIVED, IB_ASIDE)) > 0)
        moved += count;
    if (count < 0)
        return lose(ib);
    ib_conns_end_failing(ib);
    return moved;
}

static OUT_OF_LINE void ib_tend(struct ib *ib)
{
    ib->until_tend = TEND_POLLS;
    if (ib_hca_take_events(ib))
        lose(ib);
    verbs_regions_tend(ib->rma.regions);
    ib_conns_tend(ib);
}

static int take_all(struct ib *ib, int budget)
{
    const int most = (int)min_size(IB_ASIDE, max_size(1, (size_t)budget));
    int there = ib_take(ib, IB_SENT, IB_ASIDE);
    int here = there >= 0 ? ib_take(ib, IB_RECEIVED, most) : there;

    return here < 0 ? lose(ib) : there + here;
}

static int verbs_poll(struct transport *t, int budget)
{
    struct ib *ib = ib_of(t);
    int moved = likely(!ib->is_lost) ? take_all(ib, budget) : 0;

    if (moved > 0)
        ib->has_moved = true;
    if (unlikely(!list_is_empty(&ib->failing)) && !ib->is_lost)
        moved += end_failing(ib);
    if (unlikely(!list_is_empty(&ib->rx.holding)))
        moved += ib_rx_deliver_held(ib);
    if (ib->rx.batch_count != 0)
        ib_rx_post(ib);
    if (unlikely(!list_is_empty(&ib->tx.busy)))
        moved += ib_tx_push_all(ib);
    if (unlikely(!list_is_empty(&ib->ud.busy)))
        moved += ib_ud_push(ib);
    if (unlikely(ib->until_tend-- == 0))
        ib_tend(ib);
    if (MBX_CHECKS && moved > 0)
        assert(ib_is_valid(ib));
    return moved;
}

static bool verbs_is_flushed(struct transport *t)
{
    return ib_of(t)->is_lost || ib_of(t)->tx.free_count == IB_SLOTS;
}

/* ---- waiting ---- */

/* Does something wait that no completion will signal? */
static bool is_blind(const struct ib *ib)
{
    return ib->is_meeting || !list_is_empty(&ib->tx.busy) || !list_is_empty(&ib->rx.holding);
}

/* Has the channel reported the device's completion queue? */
static bool drain_channel(struct ib *ib)
{
    struct ibv_cq *cq;
    void *context;
    bool is_inlet = false;

    while (ibv_get_cq_event(ib->hca.channel, &cq, &context) == 0) {
        is_inlet |= cq == ib->conns.inlet.cq;
        ibv_ack_cq_events(cq, 1);
    }
    return is_inlet;
}

/* Puts completions aside that came before the channel was armed, for the next poll().  True:
 * there are some. */
static bool put_aside(struct ib *ib)
{
    struct ibv_cq *const queues[] = {
        [IB_SENT] = ib->hca.send_cq, [IB_RECEIVED] = ib->hca.recv_cq};

    for (int i = 0; i < IB_QUEUES; i++)
        if (ib->aside[i].count == 0)
            ib->aside[i].count = ibv_poll_cq(queues[i], IB_ASIDE, ib->aside[i].wcs);
    return ib->aside[IB_SENT].count != 0 || ib->aside[IB_RECEIVED].count != 0;
}

static int verbs_prepare(struct transport *t, int *fd)
{
    struct ib *ib = ib_of(t);
    bool is_inlet;

    *fd = ib->hca.channel->fd;
    if (ib->until_tend > TEND_SLEEPS)
        ib->until_tend = TEND_SLEEPS;
    if (ib->is_lost)
        return -EAGAIN;
    if (!ib->is_armed || ib->has_moved) {
        is_inlet = drain_channel(ib);
        ib->has_moved = false;
        ib->is_armed = ibv_req_notify_cq(ib->hca.send_cq, 0) == 0 &&
                       ibv_req_notify_cq(ib->hca.recv_cq, 0) == 0;
        if (put_aside(ib) || is_inlet)
            return 1;
    }
    return is_blind(ib) ? -EAGAIN : 0;
}

static int slice_ms(int64_t left_ns, int most)
{
    int64_t ms = (left_ns + (int64_t)CLOCK_MS - 1) / (int64_t)CLOCK_MS;

    return left_ns < 0 || ms > most ? most : (int)ms;
}

static int sleep_on(struct ib *ib, int fd, int ms)
{
    struct pollfd fds[3] = {{.fd = ib->bell, .events = POLLIN},
                            {.fd = fd, .events = POLLIN},
                            {.fd = fd >= 0 ? ib->hca.context->async_fd : -1, .events = POLLIN}};
    int n, err;
    uint64_t count;

    if (ib->events->sleeps != NULL)
        ib->events->sleeps(ib->arg);
    n = sys_poll(fds, 3, ms);
    err = n < 0 ? errno : 0;
    if (n > 0 && fds[0].revents != 0)
        (void)!sys_read(ib->bell, &count, sizeof count);
    if (ib->events->slept != NULL)
        ib->events->slept(ib->arg);
    if (n > 0 && fds[1].revents != 0)
        ib->has_moved = true; /* armed again, even if another caller has polled */
    if (n > 0 && fds[2].revents != 0)
        ib->until_tend = 0;
    if (n < 0)
        return err == EINTR ? -EINTR : 0;
    return n == 0 ? -ETIMEDOUT : 0;
}

static int verbs_wait(struct transport *t, int64_t timeout_ns)
{
    struct ib *ib = ib_of(t);
    int fd, err, ready = verbs_prepare(t, &fd);
    int most = ready == 0 ? SLICE_MS : SLICE_BLIND_MS;

    if (ready == 1)
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    err = sleep_on(ib, ib->is_lost ? -1 : fd, slice_ms(timeout_ns, most));
    if (err == -ETIMEDOUT && (timeout_ns < 0 || timeout_ns > most * (int64_t)CLOCK_MS))
        return 0; /* there is time left: poll, and sleep again */
    return err;
}

static void verbs_wake(struct transport *t)
{
    const uint64_t one = 1;

    (void)!sys_write(ib_of(t)->bell, &one, sizeof one);
}

/* ---- open ---- */

static void set_limits(struct ib *ib)
{
    ib->base.limits = (struct transport_limits){
        .packet_max = IB_PACKET_MAX,
        .inline_max = max_size(ib->hca.inline_max, sizeof(struct wire_header)),
        .can_read = true,
    };
}

static void ib_release(struct ib *ib)
{
    ib_ud_close(ib);
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        ib_pair_destroy(ib->conns.by_id[i]);
    ib_rma_close(ib);
    ib_rx_close(ib);
    ib_tx_close(ib);
    ib_hca_close(ib);
    ib_conns_close(ib);
    if (ib->bell >= 0)
        sys_close(ib->bell);
    explicit_bzero(ib->net.key, sizeof ib->net.key);
    mem_free(ib);
}

static struct ib *ib_create(const struct transport_config *config)
{
    struct ib *ib = mem_calloc(1, sizeof *ib);

    if (ib == NULL)
        return NULL;
    ib->base.ops = &transport_verbs;
    ib->events = config->events;
    ib->arg = config->arg;
    ib->net = (struct net){.ops = &ib_net_ops,
                           .name = "verbs",
                           .timeout = "MBX_VERBS_TIMEOUT",
                           .events = config->events,
                           .arg = config->arg,
                           .timeout_ns = config->settings.verbs.timeout_ns};
    memcpy(ib->net.key, config->key, sizeof ib->net.key);
    ib->net.rank = config->rank;
    ib->until_tend = TEND_POLLS;
    ib->hca.inline_max = IB_INLINE_MAX;
    ib_conns_init(ib);
    ib->bell = sys_eventfd(0, EFD_NONBLOCK);
    if (ib->bell < 0)
        ib->bell = -errno; /* open_all() reports it */
    return ib;
}

static int open_all(struct ib *ib, const struct transport_config *config)
{
    const uint64_t window = config->settings.verbs.window;
    int err = ib->bell < 0 ? ib->bell : ib_hca_open(ib, config);

    if (err == 0)
        err = ib_tx_open(ib);
    if (err == 0)
        err = ib_rma_open(ib, config->settings.verbs.pinned);
    if (err == 0)
        err = ib_rx_open(ib, window != 0 ? (uint32_t)window : WINDOW_USUAL);
    if (err == 0)
        err = ib_ud_open(ib);
    if (err == 0)
        err = ib_make_address(ib, config);
    return err;
}

static int verbs_open_endpoint(const struct transport_config *config, struct transport **out)
{
    struct ib *ib = ib_create(config);
    int err;

    if (ib == NULL)
        return -ENOMEM;
    err = open_all(ib, config);
    if (err != 0) {
        ib_release(ib);
        return err;
    }
    set_limits(ib);
    net_warn_without_key(&ib->net);
    LOG_DEBUG("verbs: %s, port %u", ib->hca.name, ib->hca.port);
    *out = &ib->base;
    return 0;
}

/* ---- close ---- */

static bool has_sent_bye(const struct ib *ib)
{
    return verbs_is_flushed((struct transport *)(uintptr_t)&ib->base) &&
           list_is_empty(&ib->tx.busy) && list_is_empty(&ib->ud.busy) &&
           ib->ud.free == UINT32_MAX;
}

/* The peer of a CONFIRMING link may treat it as open; an ANSWERING one soon will. */
static void say_bye(struct ib_link *link)
{
    if (link->net.state == NET_OPEN || link->net.state == NET_CONFIRMING)
        ib_tx_control(link, IB_FRAME_BYE);
    else if (link->net.state == NET_ANSWERING)
        ib_ud_control(link, NET_REFUSED);
}

static void send_bye(struct ib *ib)
{
    uint64_t start = clock_now();

    ib->is_closing = true;
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        if (!ib->conns.by_id[i]->net.is_self)
            say_bye(ib->conns.by_id[i]);
    while (!ib->is_lost) {
        ib_tx_push_all(ib);
        ib_ud_push(ib);
        if (take_all(ib, IB_ASIDE) == 0 && (has_sent_bye(ib) || clock_now() - start >= BYE_NS))
            break;
        ib_conns_end_failing(ib);
    }
}

void ib_end(struct ib *ib)
{
    if (!ib->is_closing)
        send_bye(ib);
}

static void verbs_close_endpoint(struct transport *t)
{
    ib_end(ib_of(t));
    ib_release(ib_of(t));
}

struct ib *ib_own(const struct transport *t)
{
    return t->ops->close == verbs_close_endpoint ? ib_of(t) : NULL;
}

/* ---- the network ---- */

static void verbs_rename(struct transport *t, const struct transport_address *address)
{
    assert(ib_of(t)->conns.id_count == 0);
    ib_of(t)->net.self = *address;
}

static bool verbs_is_used(const struct transport *t)
{
    return ib_of(t)->conns.id_count != 0;
}

static void verbs_count(const struct transport *t, uint64_t *begun, uint64_t *ended)
{
    const struct ib *ib = ib_of(t);

    *begun = ib->tx.begun + ib->rma.begun;
    *ended = ib->rx.ended + ib->rma.ended;
}

static int verbs_describe(const struct transport_config *config,
                          struct transport_network *network)
{
    struct transport *t;
    int err = verbs_open_endpoint(config, &t);

    if (err != 0)
        return err;
    *network = (struct transport_network){
        .provider = "verbs", .threading = "domain", .can_read = true};
    network->message_max = ib_of(t)->hca.message_max;
    snprintf(network->interface, sizeof network->interface, "%.50s:%u", ib_of(t)->hca.name,
             ib_of(t)->hca.port);
    verbs_close_endpoint(t);
    return 0;
}

static const struct transport_network_ops network_ops = {
    .rename = verbs_rename,
    .is_used = verbs_is_used,
    .count = verbs_count,
    .prepare = verbs_prepare,
    .describe = verbs_describe,
};

const struct transport_ops transport_verbs = {
    .name = "verbs",
    .about = "processes of other machines, over RDMA adapters, through libibverbs",
    .params = ib_params,
    .param_count = IB_PARAMS,
    .memory = &ib_memory,
    .network = &network_ops,
    .open = verbs_open_endpoint,
    .close = verbs_close_endpoint,
    .address = verbs_address,
    .reaches = verbs_reaches,
    .connect = verbs_connect,
    .send = ib_tx_send,
    .send_eager = ib_tx_send_eager,
    .check = ib_conns_check,
    .check_address = ib_conns_check_address,
    .who = verbs_who,
    .poll = verbs_poll,
    .wait = verbs_wait,
    .wake = verbs_wake,
    .is_flushed = verbs_is_flushed,
};
