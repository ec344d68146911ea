/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hca.c - the adapter of an endpoint, and objects that all of its links share.
 *
 *   MBX_VERBS_DEVICE, or the first with a port that is up ─> context ─> protection domain
 *     ├─ completion channel ─ completion queues: for sends, for receives
 *     └─ shared receive queue
 *
 * The network part of an address (address.h), 28 bytes:
 *
 *    0  16  GID          16  2  LID          20  4  number of the UD queue pair
 *                        18  2  zero         24  4  its queue key
 *
 * Within a subnet packets use the LID if there is one; otherwise, and always over Ethernet, the
 * GID.
 */
#include "transport/verbs/hca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "transport/verbs/ib.h"
#include "transport/verbs/verbs_library.h"

#define RECEIVES_MAX 16384
#define GIDS_MAX     32
#define LID_UNICAST  0xc000 /* unicast LIDs are below */
#define HOPS         64

struct place {
    uint8_t gid[16];
    uint16_t lid;
    uint16_t zero;
    uint32_t number, key;
};
static_assert(sizeof(struct place) == 28, "address format");

int ib_hca_failed(const struct ib *ib, const char *call, int err)
{
    err = err != 0 ? err : EIO;
    LOG_ERROR("verbs: %s of %s failed, error %d %s", call,
              ib->hca.name[0] != '\0' ? ib->hca.name : "libibverbs", err, strerror(err));
    return -err;
}

/* ---- which device ---- */

/* Splits "mlx5_0:1" into the name, and the port or 0. */
static void split(const char *wanted, char *name, size_t size, uint8_t *port)
{
    const char *colon = strchr(wanted, ':');
    size_t length = colon != NULL ? (size_t)(colon - wanted) : strlen(wanted);

    snprintf(name, size, "%.*s", (int)length, wanted);
    *port = colon != NULL ? (uint8_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* This port, or the first active one; 0: there is none. */
static uint8_t find_port(struct ibv_context *context, uint8_t port, uint8_t count,
                         struct ibv_port_attr *attr)
{
    for (uint8_t p = 1; p <= count; p++)
        if ((port == 0 || port == p) && ibv_query_port(context, p, attr) == 0 &&
            attr->state == IBV_PORT_ACTIVE)
            return p;
    return 0;
}

static bool is_ipv4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

/* Over Ethernet: the last GID of the first IPv4 address; its GIDs are in the order of the RoCE
 * versions.  Otherwise the first GID. */
static uint8_t choose_gid(struct ibv_context *context, uint8_t port,
                          const struct ibv_port_attr *attr)
{
    union ibv_gid first = {.raw = {0}}, gid;
    int chosen = 0;
    bool is_found = false;

    if (attr->link_layer != IBV_LINK_LAYER_ETHERNET)
        return 0;
    for (int i = 0; i < attr->gid_tbl_len && i < GIDS_MAX; i++) {
        if (ibv_query_gid(context, port, i, &gid) != 0 || !is_ipv4(&gid))
            continue;
        if (is_found && memcmp(&first, &gid, sizeof gid) != 0)
            break;
        first = gid;
        is_found = true;
        chosen = i;
    }
    return (uint8_t)chosen;
}

static int take_port(struct ib *ib, struct ibv_context *context, uint8_t port,
                     const struct transport_config *config)
{
    struct ib_hca *hca = &ib->hca;
    const uint64_t gid = config->settings.verbs.gid;
    struct ibv_device_attr attr;
    struct ibv_port_attr of_port;
    int err = ibv_query_device(context, &attr);

    if (err != 0)
        return ib_hca_failed(ib, "ibv_query_device", err);
    port = find_port(context, port, attr.phys_port_cnt, &of_port);
    if (port == 0)
        return -ENODATA;
    hca->port = port;
    hca->lid = of_port.lid;
    hca->link_layer = of_port.link_layer;
    hca->mtu = of_port.active_mtu;
    hca->gid_index =
        gid == UINT64_MAX ? choose_gid(context, port, &of_port) : (uint8_t)min_size(gid, 255);
    if (ibv_query_gid(context, port, hca->gid_index, &hca->gid) != 0)
        return ib_hca_failed(ib, "ibv_query_gid", errno);
    hca->message_max = of_port.max_msg_sz;
    hca->reads_out =
        (uint8_t)min_size(16, (size_t)max_size(1, (size_t)attr.max_qp_init_rd_atom));
    hca->reads_in = (uint8_t)min_size(16, (size_t)max_size(1, (size_t)attr.max_qp_rd_atom));
    hca->receives_max = (uint32_t)min_size(
        min_size((size_t)attr.max_srq_wr, (size_t)attr.max_cqe - IB_UD_RECEIVES), RECEIVES_MAX);
    return 0;
}

/* 0; -ENODATA: another device may be suitable. */
static int try_device(struct ib *ib, struct ibv_device *device, uint8_t port,
                      const struct transport_config *config)
{
    struct ibv_context *context = ibv_open_device(device);
    int err;

    if (context == NULL) {
        LOG_INFO("verbs: %s cannot be opened, error %d %s", ibv_get_device_name(device), errno,
                 strerror(errno));
        return -ENODATA;
    }
    snprintf(ib->hca.name, sizeof ib->hca.name, "%s", ibv_get_device_name(device));
    err = take_port(ib, context, port, config);
    if (err == 0)
        ib->hca.context = context;
    else
        ibv_close_device(context);
    return err;
}

static int find_device(struct ib *ib, const struct transport_config *config)
{
    const char *wanted = config->settings.verbs.device;
    char name[64];
    uint8_t port;
    int count = 0, err = -ENODATA;
    struct ibv_device **devices = ibv_get_device_list(&count);

    split(wanted, name, sizeof name, &port);
    for (int i = 0; devices != NULL && i < count && err == -ENODATA; i++)
        if (name[0] == '\0' || strcmp(name, ibv_get_device_name(devices[i])) == 0)
            err = try_device(ib, devices[i], port, config);
    if (devices != NULL)
        ibv_free_device_list(devices);
    if (err != -ENODATA)
        return err;
    if (count == 0)
        LOG_ERROR("verbs: this machine has no RDMA adapter that libibverbs knows: ibv_devices "
                  "shows them, and the package ibverbs-providers has their drivers; "
                  "MBX_TRANSPORT=ofi needs none");
    else if (name[0] != '\0')
        LOG_ERROR("verbs: MBX_VERBS_DEVICE=%s: there is no such adapter with an active port; "
                  "ibv_devinfo lists them",
                  wanted);
    else
        LOG_ERROR("verbs: no adapter has a port that is active: ibv_devinfo shows them; "
                  "MBX_TRANSPORT=ofi needs none");
    return -ENODATA;
}

/* ---- shared objects of links ---- */

static int make_shared(struct ib *ib)
{
    struct ib_hca *hca = &ib->hca;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = hca->receives_max, .max_sge = 1}};

    hca->pd = ibv_alloc_pd(hca->context);
    if (hca->pd == NULL)
        return ib_hca_failed(ib, "ibv_alloc_pd", errno);
    hca->channel = ibv_create_comp_channel(hca->context);
    if (hca->channel == NULL)
        return ib_hca_failed(ib, "ibv_create_comp_channel", errno);
    hca->send_cq = ibv_create_cq(hca->context, IB_SEND_ENTRIES, NULL, hca->channel, 0);
    if (hca->send_cq == NULL)
        return ib_hca_failed(ib, "ibv_create_cq", errno);
    hca->recv_cq = ibv_create_cq(hca->context, (int)(hca->receives_max + IB_UD_RECEIVES), NULL,
                                 hca->channel, 0);
    if (hca->recv_cq == NULL)
        return ib_hca_failed(ib, "ibv_create_cq", errno);
    hca->srq = ibv_create_srq(hca->pd, &srq);
    if (hca->srq == NULL)
        return ib_hca_failed(ib, "ibv_create_srq", errno);
    return 0;
}

/* Makes reading an event of either kind non-blocking. */
static int never_block(struct ib *ib, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0
               ? ib_hca_failed(ib, "fcntl", errno)
               : 0;
}

int ib_hca_open(struct ib *ib, const struct transport_config *config)
{
    int err = verbs_library_load();

    if (err != 0) {
        LOG_ERROR("verbs: %s; the packages libibverbs1 and ibverbs-providers have it, and "
                  "MBX_VERBS_LIBRARY names another one",
                  verbs_library_error());
        return -ENODATA;
    }
    err = find_device(ib, config);
    if (err == 0)
        err = make_shared(ib);
    if (err == 0)
        err = never_block(ib, ib->hca.channel->fd);
    return err == 0 ? never_block(ib, ib->hca.context->async_fd) : err;
}

void ib_hca_close(struct ib *ib)
{
    struct ib_hca *hca = &ib->hca;

    if (hca->srq != NULL)
        ibv_destroy_srq(hca->srq);
    if (hca->recv_cq != NULL)
        ibv_destroy_cq(hca->recv_cq);
    if (hca->send_cq != NULL)
        ibv_destroy_cq(hca->send_cq);
    if (hca->channel != NULL)
        ibv_destroy_comp_channel(hca->channel);
    if (hca->pd != NULL)
        ibv_dealloc_pd(hca->pd);
    if (hca->context != NULL)
        ibv_close_device(hca->context);
}

bool ib_hca_take_events(struct ib *ib)
{
    struct ibv_async_event event;

    while (!ib->is_lost && ibv_get_async_event(ib->hca.context, &event) == 0) {
        const enum ibv_event_type type = event.event_type;

        ibv_ack_async_event(&event);
        if (type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR ||
            type == IBV_EVENT_SRQ_ERR)
            return true;
        LOG_DEBUG("verbs: %s tells of event %d", ib->hca.name, (int)type);
    }
    return false;
}

/* ---- addresses ---- */

static struct place place_of(const struct transport_address *address)
{
    struct place place;

    memcpy(&place, address->network, sizeof place);
    return place;
}

void ib_hca_address(const struct ib *ib, uint32_t ud_number, uint32_t ud_key,
                    struct transport_address *address)
{
    struct place place = {.lid = ib->hca.lid, .number = ud_number, .key = ud_key};

    memcpy(place.gid, ib->hca.gid.raw, sizeof place.gid);
    memcpy(address->network, &place, sizeof place);
    address->network_size = sizeof place;
    address->network_format = (uint8_t)(ADDRESS_FORMAT_VERBS + ib->hca.link_layer);
}

bool ib_hca_is_address(const struct ib *ib, const struct transport_address *address)
{
    static const uint8_t zero[sizeof address->network - sizeof(struct place)];
    const struct place place = place_of(address);

    (void)ib;
    return address->network_size == sizeof place && place.zero == 0 &&
           place.number >> 24 == 0 &&
           memcmp(address->network + sizeof place, zero, sizeof zero) == 0;
}

struct ibv_ah_attr ib_hca_route(const struct ib *ib, const struct transport_address *address)
{
    const struct ib_hca *hca = &ib->hca;
    const struct place place = place_of(address);
    const bool is_near = hca->link_layer == IBV_LINK_LAYER_INFINIBAND && place.lid != 0 &&
                         place.lid < LID_UNICAST &&
                         memcmp(place.gid, hca->gid.raw, 8) == 0; /* the subnet's prefix */
    struct ibv_ah_attr attr = {.dlid = place.lid, .port_num = hca->port, .is_global = !is_near};

    attr.grh.sgid_index = hca->gid_index;
    attr.grh.hop_limit = HOPS;
    memcpy(attr.grh.dgid.raw, place.gid, sizeof place.gid);
    return attr;
}

void ib_hca_datagrams(const struct transport_address *address, uint32_t *number, uint32_t *key)
{
    const struct place place = place_of(address);

    *number = place.number;
    *key = place.key;
}
