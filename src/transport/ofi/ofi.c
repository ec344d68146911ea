/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.c - a network endpoint over libfabric: opening, polling, waiting, closing.
 *
 * ofi.h lists the files, net/packet.h shows how two endpoints meet.
 *
 * wait() sleeps on the descriptor of the completion queue and on an eventfd, for wake().
 * fi_trywait() says whether the provider will signal completions; if it will not, or there is
 * no descriptor, or a packet waits for something that is not signalled, wait() sleeps for a
 * short slice.
 *
 * close() sends BYE on each link and waits briefly until the provider has sent it; packets that
 * were sent before and for which is_flushed() was true are delivered, if the network works.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "transport/network.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/params.h"
#include "transport/ofi/provider.h"

#define ENTRIES_MAX    16   /* completions read at once */
#define TEND_POLLS     4096 /* between two checks of handshakes and stuck packets */
#define TEND_SLEEPS    16   /* between two such checks of an endpoint that sleeps */
#define BYE_NS         (200 * CLOCK_MS)
#define SLICE_MS       50 /* the longest sleep: a provider may fail to signal */
#define SLICE_BLIND_MS 1  /* the longest sleep if nothing signals */

/* ---- addresses ---- */

static uint8_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return (uint8_t)(hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24);
}

static int ofi_make_address(struct ofi *ofi, const struct transport_config *config)
{
    struct transport_address address = {.kind = ADDRESS_OFI, .credit = config->credit};
    size_t size = sizeof address.network;
    int err = fi_getname(&ofi->domain.ep->fid, address.network, &size);

    if (err == -FI_ETOOSMALL || size > sizeof address.network) {
        LOG_ERROR("ofi: addresses of provider %s are %zu bytes long, more than %zu; choose "
                  "another one by MBX_OFI_PROVIDER",
                  ofi->domain.info->fabric_attr->prov_name, size, sizeof address.network);
        return -ENOTSUP;
    }
    if (err == 0)
        err = random_secret(&address.cookie, sizeof address.cookie);
    if (err == 0)
        err = host_id(&address.host);
    if (err != 0)
        return err;
    address.network_size = (uint8_t)size;
    address.network_format = (uint8_t)ofi->domain.info->addr_format;
    address.network_provider = hash_of(ofi->domain.info->fabric_attr->prov_name);
    ofi->net.self = address;
    return 0;
}

static void ofi_address(const struct transport *t, struct transport_address *address)
{
    *address = ofi_of(t)->net.self;
}

static void ofi_rename(struct transport *t, const struct transport_address *address)
{
    assert(ofi_of(t)->conns.id_count == 0);
    ofi_of(t)->net.self = *address;
}

static bool ofi_is_used(const struct transport *t)
{
    return ofi_of(t)->conns.id_count != 0;
}

static void ofi_count(const struct transport *t, uint64_t *begun, uint64_t *ended)
{
    const struct ofi *ofi = ofi_of(t);

    *begun = ofi->tx.begun + ofi->rdma.begun;
    *ended = ofi->rx.ended + ofi->rdma.ended;
}

static int ofi_reaches(const struct transport *t, const struct transport_address *address)
{
    int err = ofi_link_check_address(ofi_of(t), address);

    if (err == -EHOSTUNREACH && address->network_size == 0)
        LOG_WARN(
            "ofi: pid %u cannot be reached: it is on another machine, in another pid or user "
            "namespace (a container), or not dumpable, and has opened no network; "
            "MBX_TRANSPORT=shm+ofi for all ranks opens it",
            address->process);
    else if (err == -EHOSTUNREACH)
        LOG_WARN(
            "ofi: a peer cannot be reached: it uses another provider or kind of address than "
            "this process, which uses %s; set MBX_OFI_PROVIDER alike for all ranks",
            ofi_of(t)->domain.info->fabric_attr->prov_name);
    return err;
}

static struct transport_who ofi_who(struct link *link)
{
    return net_who(&ofi_link_of(link)->net);
}

static int ofi_connect(struct transport *t, const struct transport_address *address,
                       struct link **out)
{
    struct ofi_link *link;
    int err = ofi_link_get(ofi_of(t), address, &link);

    if (err != 0)
        return err;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

/* ---- polling ---- */

static struct ofi_buffer *buffer_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_buffer, operation);
}

static struct ofi_rdma_op *rdma_op_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_rdma_op, operation);
}

static struct ofi_receive *receive_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_receive, operation);
}

static struct ofi_operation *operation_of(void *context)
{
    return container_of((struct fi_context2 *)context, struct ofi_operation, context);
}

static void completed(struct ofi *ofi, const struct fi_cq_data_entry *entry)
{
    struct ofi_operation *operation = operation_of(entry->op_context);

    switch (operation->kind) {
    case OFI_SENDING:
        ofi_tx_sent(ofi, buffer_of(operation));
        break;
    case OFI_MOVING:
    case OFI_SWAPPING:
        ofi_rdma_ended(ofi, rdma_op_of(operation), 0);
        break;
    case OFI_OWN:
        break; /* the operation's result is not needed */
    case OFI_RECEIVING: {
        struct ofi_receive *receive = receive_of(operation);
        bool has_packet = (entry->flags & FI_RECV) != 0 && entry->len != 0;
        unsigned char *bytes = ofi->rx.has_multi ? entry->buf : receive->bytes;

        ofi_rx_received(ofi, receive, has_packet ? bytes : NULL, entry->len,
                        (entry->flags & FI_MULTI_RECV) != 0);
        break;
    }
    }
}

/* A truncated packet has taken all the space of its buffer: the provider cannot use the buffer
 * further, but not every provider reports that it releases it. */
static void receive_failed(struct ofi *ofi, struct ofi_receive *receive, uint64_t flags,
                           int error)
{
    bool is_released =
        (flags & FI_MULTI_RECV) != 0 || error == FI_ECANCELED || error == FI_ETRUNC;

    ofi_rx_received(ofi, receive, NULL, 0, is_released);
    if (error != FI_ECANCELED && !ofi->is_closing)
        ofi->events->dropped(ofi->arg, "a packet that the provider could not receive");
}

static void operation_failed(struct ofi *ofi, void *context, uint64_t flags, int error)
{
    struct ofi_operation *operation = operation_of(context);

    LOG_DEBUG("ofi: operation of kind %d failed, error %d %s", (int)operation->kind, error,
              ofi->domain.dl->strerror(error));
    switch (operation->kind) {
    case OFI_SENDING:
        ofi_tx_failed(ofi, buffer_of(operation), error);
        break;
    case OFI_MOVING:
    case OFI_SWAPPING:
        ofi_rdma_ended(ofi, rdma_op_of(operation), -EIO);
        break;
    case OFI_RECEIVING:
        receive_failed(ofi, receive_of(operation), flags, error);
        break;
    case OFI_OWN:
        break;
    }
}

static void take_error(struct ofi *ofi)
{
    struct fi_cq_err_entry entry = {.err_data_size = 0};

    if (fi_cq_readerr(ofi->domain.cq, &entry, 0) == 1 && entry.op_context != NULL)
        operation_failed(ofi, entry.op_context, entry.flags, entry.err);
}

/* Handles completions that cswap.c has put aside. */
static OUT_OF_LINE int take_aside(struct ofi *ofi, int budget)
{
    struct ofi_entry aside;
    int taken = 0;

    for (; taken < budget && ofi_cswap_entry(ofi, &aside); taken++)
        if (aside.error == 0)
            completed(ofi, &aside.entry);
        else if (aside.entry.op_context != NULL)
            operation_failed(ofi, aside.entry.op_context, aside.entry.flags, aside.error);
    return taken;
}

static int take_completions(struct ofi *ofi, int budget)
{
    struct fi_cq_data_entry entries[ENTRIES_MAX];
    size_t most = min_size(ENTRIES_MAX, max_size(1, (size_t)budget));
    ssize_t count;

    if (unlikely(ofi->cswap.count != 0))
        return take_aside(ofi, (int)most);
    count = fi_cq_read(ofi->domain.cq, entries, most);
    for (ssize_t i = 0; i < count; i++)
        completed(ofi, &entries[i]);
    if (unlikely(count == -FI_EAVAIL)) {
        take_error(ofi);
        return 1;
    }
    return count > 0 ? (int)count : 0;
}

static OUT_OF_LINE void ofi_tend(struct ofi *ofi)
{
    ofi->keepalive.until_tend = TEND_POLLS;
    ofi_keepalive_tend(ofi);
}

static int ofi_poll(struct transport *t, int budget)
{
    struct ofi *ofi = ofi_of(t);
    int moved = take_completions(ofi, budget);

    if (unlikely(!list_is_empty(&ofi->rx.holding)))
        moved += ofi_rx_deliver_held(ofi);
    if (unlikely(!list_is_empty(&ofi->tx.busy)))
        moved += ofi_tx_push_all(ofi);
    if (unlikely(ofi->rx.to_give != 0))
        ofi_rx_give(ofi);
    if (unlikely(ofi->keepalive.until_tend-- == 0))
        ofi_tend(ofi);
    if (MBX_CHECKS && moved > 0)
        assert(ofi_is_valid(ofi));
    return moved;
}

static bool ofi_is_flushed(struct transport *t)
{
    return ofi_of(t)->tx.free_count == OFI_BUFFERS;
}

/* ---- waiting ---- */

/* Does something wait that no completion will signal? */
static bool is_blind(const struct ofi *ofi)
{
    return ofi->domain.fd < 0 || !list_is_empty(&ofi->tx.busy) ||
           !list_is_empty(&ofi->rx.holding);
}

static int ofi_prepare(struct transport *t, int *fd)
{
    struct ofi *ofi = ofi_of(t);
    struct fid *fids[1] = {&ofi->domain.cq->fid};
    int err;

    *fd = ofi->domain.fd;
    if (ofi->keepalive.until_tend > TEND_SLEEPS)
        ofi->keepalive.until_tend = TEND_SLEEPS;
    if (ofi->cswap.count != 0)
        return 1;
    if (is_blind(ofi))
        return -EAGAIN;
    err = ofi->domain.fabric->ops->trywait(ofi->domain.fabric, fids, 1);
    return err == 0 ? 0 : err == -FI_EAGAIN ? 1 : -EAGAIN;
}

static int slice_ms(int64_t left_ns, int most)
{
    int64_t ms = (left_ns + (int64_t)CLOCK_MS - 1) / (int64_t)CLOCK_MS;

    return left_ns < 0 || ms > most ? most : (int)ms;
}

static int sleep_on(struct ofi *ofi, int fd, int ms)
{
    struct pollfd fds[2] = {{.fd = ofi->bell, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int n, err;
    uint64_t count;

    if (ofi->events->sleeps != NULL)
        ofi->events->sleeps(ofi->arg);
    n = sys_poll(fds, 2, ms);
    err = n < 0 ? errno : 0;
    if (n > 0 && fds[0].revents != 0)
        (void)!sys_read(ofi->bell, &count, sizeof count);
    if (ofi->events->slept != NULL)
        ofi->events->slept(ofi->arg);
    if (n < 0)
        return err == EINTR ? -EINTR : 0;
    return n == 0 ? -ETIMEDOUT : 0;
}

static int ofi_wait(struct transport *t, int64_t timeout_ns)
{
    struct ofi *ofi = ofi_of(t);
    int fd, err, ready = ofi_prepare(t, &fd);
    int most = ready == 0 ? SLICE_MS : SLICE_BLIND_MS;

    if (ready == 1)
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    err = sleep_on(ofi, ready == 0 ? fd : -1, slice_ms(timeout_ns, most));
    if (err == -ETIMEDOUT && (timeout_ns < 0 || timeout_ns > most * (int64_t)CLOCK_MS))
        return 0; /* there is time left: poll, and sleep again */
    return err;
}

static void ofi_wake(struct transport *t)
{
    const uint64_t one = 1;

    (void)!sys_write(ofi_of(t)->bell, &one, sizeof one);
}

/* ---- open ---- */

static void set_limits(struct ofi *ofi)
{
    size_t least = sizeof(struct net_prefix) + sizeof(struct wire_header);

    ofi->base.limits = (struct transport_limits){
        .packet_max = OFI_PACKET_MAX,
        .inline_max = max_size(ofi->tx.inject_max, least) - sizeof(struct net_prefix),
        .can_read = (ofi->domain.info->caps & FI_RMA) != 0,
        .cswap_words = ofi->cswap.bytes != NULL ? OFI_WORDS : 0,
    };
}

static void ofi_release(struct ofi *ofi)
{
    ofi_domain_close_endpoint(ofi);
    ofi_rx_close(ofi);
    ofi_cswap_close(ofi);
    ofi_rdma_close(ofi);
    ofi_tx_close(ofi);
    ofi_domain_close(ofi);
    ofi_conns_close(ofi);
    if (ofi->bell >= 0)
        sys_close(ofi->bell);
    explicit_bzero(ofi->net.key, sizeof ofi->net.key);
    mem_free(ofi);
}

static struct ofi *ofi_create(const struct transport_config *config)
{
    struct ofi *ofi = mem_calloc(1, sizeof *ofi);

    if (ofi == NULL)
        return NULL;
    ofi->base.ops = &transport_ofi;
    ofi->net.ops = &ofi_net_ops;
    ofi->net.name = "ofi";
    ofi->net.timeout = "MBX_OFI_TIMEOUT";
    ofi->net.events = config->events;
    ofi->net.arg = config->arg;
    ofi->events = config->events;
    ofi->arg = config->arg;
    ofi->net.timeout_ns = config->settings.ofi.timeout_ns;
    ofi->keepalive.until_tend = TEND_POLLS;
    ofi->domain.fd = -1;
    memcpy(ofi->net.key, config->key, sizeof ofi->net.key);
    ofi->net.rank = config->rank;
    ofi_conns_init(ofi);
    ofi->bell = sys_eventfd(0, EFD_NONBLOCK);
    if (ofi->bell < 0)
        ofi->bell = -errno; /* open_all() reports it */
    return ofi;
}

static int open_all(struct ofi *ofi, const struct transport_config *config)
{
    int err = ofi->bell < 0 ? ofi->bell : ofi_dl_get(&ofi->domain.dl);

    if (err == 0)
        err = ofi_provider_choose(ofi->domain.dl, config->settings.ofi.provider,
                                  config->settings.ofi.interface, config->wants_cswap,
                                  &ofi->domain.info);
    if (err == 0)
        err = ofi_domain_open(ofi);
    if (err == 0)
        err = ofi_tx_open(ofi);
    if (err == 0)
        err = ofi_rdma_open(ofi);
    if (err == 0)
        err = ofi_rx_open(ofi);
    if (err == 0)
        err = ofi_make_address(ofi, config);
    if (err == 0 && config->wants_cswap)
        err = ofi_cswap_open(ofi);
    return err;
}

static int ofi_open(const struct transport_config *config, struct transport **out)
{
    struct ofi *ofi = ofi_create(config);
    int err;

    if (ofi == NULL)
        return -ENOMEM;
    err = open_all(ofi, config);
    if (err != 0) {
        ofi_release(ofi);
        return err;
    }
    set_limits(ofi);
    net_warn_without_key(&ofi->net);
    LOG_DEBUG("ofi: provider %s, domain %s", ofi->domain.info->fabric_attr->prov_name,
              ofi->domain.info->domain_attr->name);
    *out = &ofi->base;
    return 0;
}

/* ---- close ---- */

/* Has everything left, and are all reads and writes over?  tcp;ofi_rxm of libfabric 1.17
 * crashes if an endpoint is closed while it reads from an endpoint that is gone. */
static bool has_sent_bye(const struct ofi *ofi)
{
    return ofi->tx.free_count == OFI_BUFFERS && list_is_empty(&ofi->tx.busy) &&
           ofi->rdma.count == 0;
}

/* A peer that was answered treats the link as open, or soon will. */
static bool expects_bye(const struct ofi_link *link)
{
    return (link->net.state == NET_OPEN || link->net.state == NET_ANSWERING) &&
           !link->net.is_self;
}

static void send_bye(struct ofi *ofi)
{
    uint64_t start = clock_now();

    for (uint32_t i = 0; i < ofi->conns.id_count; i++)
        if (expects_bye(ofi->conns.by_id[i]))
            ofi_tx_control(ofi->conns.by_id[i], NET_BYE);
    do {
        ofi_tx_push_all(ofi);
        take_completions(ofi, ENTRIES_MAX);
    } while (!has_sent_bye(ofi) && clock_now() - start < BYE_NS);
}

static void ofi_close(struct transport *t)
{
    struct ofi *ofi = ofi_of(t);

    ofi->is_closing = true;
    send_bye(ofi);
    ofi_release(ofi);
}

static const struct transport_network_ops network_ops = {
    .rename = ofi_rename,
    .is_used = ofi_is_used,
    .count = ofi_count,
    .prepare = ofi_prepare,
    .describe = ofi_describe,
};

const struct transport_ops transport_ofi = {
    .name = "ofi",
    .about = "processes of other machines, over a network, through libfabric",
    .params = ofi_params,
    .param_count = OFI_PARAMS,
    .memory = &ofi_memory,
    .atomics = &ofi_atomics,
    .network = &network_ops,
    .open = ofi_open,
    .close = ofi_close,
    .address = ofi_address,
    .reaches = ofi_reaches,
    .connect = ofi_connect,
    .send = ofi_tx_send,
    .check = ofi_keepalive_check,
    .check_address = ofi_keepalive_check_address,
    .who = ofi_who,
    .poll = ofi_poll,
    .wait = ofi_wait,
    .wake = ofi_wake,
    .is_flushed = ofi_is_flushed,
};
