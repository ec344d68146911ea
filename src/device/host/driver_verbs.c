/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_verbs.c - an RDMA adapter that matches tags (verbs/verbs.h); it replaces the receiving
 * half of an endpoint over verbs (transport/verbs/verbs_inlet.h).
 *
 *   adapter ── matched ────────────> transport: credit ──> matched.c
 *           └─ a packet ───────────> transport: its frame ─┬─> the core: a peer that tags its messages
 *                                                          └─> bypass: one that does not
 *   shared memory (shm+verbs),
 *   the endpoint to itself ────────> transport ──> offload_deliver ──> bypass
 */
#include "device/host/inside.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/verbs/verbs.h"
#include "transport/mux.h"
#include "transport/verbs/verbs_inlet.h"

/* Untagged buffers: enough for the windows of some tens of peers. */
#define BUFFERS_USUAL 1024

/* Published measurements find hardware matching worth while from this size on. */
#define THRESHOLD_USUAL 1024

static struct link *driver_verbs_link_of(const struct mbx_ep *ep, uint32_t peer)
{
    return peer_get(ep, peer)->link;
}

/* The whole transport, or its part that is not shared memory. */
static struct transport *network_of(const struct mbx_ep *ep)
{
    return transport_network(ep->net.transport);
}

/* ---- for the transport ---- */

/* Peers that the endpoint meets after the device is lost send to the endpoint itself. */
static int on_attach(void *arg, uint32_t peer, struct ibv_qp **qp)
{
    struct mbx_ep *ep = arg;

    if (peer >= 1u << VERBS_SOURCE_BITS || ep->offload->shadow.is_lost)
        return -ERANGE;
    return verbs_attach(ep->offload->device, peer, qp);
}

static void on_detach(void *arg, uint32_t peer)
{
    struct mbx_ep *ep = arg;

    verbs_detach(ep->offload->device, peer);
}

static uint64_t on_empties(void *arg)
{
    const struct mbx_ep *ep = arg;

    return verbs_empties(ep->offload->device);
}

/* ---- for the device ---- */

static void on_link_failed(void *arg, uint32_t peer, const char *why)
{
    transport_verbs_failed(driver_verbs_link_of(arg, peer), why);
}

/* ---- open and close ---- */

/* The fields that the adapter compares.  0; -EINVAL the setting cannot be parsed, which is
 * logged. */
static int find_layout(const struct mbx_ep *ep, struct verbs_layout *layout)
{
    const char *text = ep->settings.device_tag_format;
    uint64_t format;
    char *end;

    *layout = (struct verbs_layout){.kind = VERBS_NATIVE};
    if (text[0] == '\0')
        return 0;
    format = strtoull(text, &end, 16);
    if (!isxdigit((unsigned char)text[0]) || *end != '\0' || format == 0 || format >> 63 != 0) {
        LOG_ERROR("MBX_DEVICE_TAG_FORMAT=%s is no format of tags: hexadecimal digits of a "
                  "number that is not 0 and has at most 63 bits",
                  text);
        return -EINVAL;
    }
    *layout = verbs_layout_of(format);
    return 0;
}

static int check_verbs(const struct mbx_ep *ep)
{
    struct transport_verbs_parts parts;
    struct verbs_layout layout;
    int err = find_layout(ep, &layout);

    if (err != 0)
        return err;
    if (transport_verbs_parts(network_of(ep), &parts))
        return 0;
    if (ep->settings.match != MATCH_DEVICE) {
        LOG_WARN(
            "MBX_DEVICE=verbs: matching is done in software, because only MBX_TRANSPORT=verbs "
            "and shm+verbs give their messages to an adapter's matching, not %s",
            ep->net.transport->ops->name);
        return -EOPNOTSUPP;
    }
    LOG_ERROR("MBX_DEVICE=verbs needs MBX_TRANSPORT=verbs or shm+verbs, not %s",
              ep->net.transport->ops->name);
    return -EINVAL;
}

static int open_verbs(struct mbx_ep *ep, struct mbx_device **device)
{
    const size_t packet_max = network_of(ep)->limits.packet_max;
    struct transport_verbs_parts parts;
    struct verbs_layout layout;
    int err = find_layout(ep, &layout);

    if (err != 0)
        return err;
    transport_verbs_parts(network_of(ep), &parts);
    err = verbs_open(
        &(struct verbs_config){
            .peers = 1u << VERBS_SOURCE_BITS,
            .eager_max = (uint32_t)(packet_max - sizeof(struct wire_header)),
            .layout = layout,
            .context = parts.context,
            .pd = parts.pd,
            .regions = parts.regions,
            .channel = parts.channel,
            .link_failed = on_link_failed,
            .arg = ep,
        },
        device);
    if (err != -EOPNOTSUPP)
        return err;
    if (ep->settings.match == MATCH_DEVICE) {
        LOG_ERROR("MBX_MATCH=device: the adapter does not match tags (mbx info --devices)");
        return -EINVAL;
    }
    LOG_WARN(
        "MBX_DEVICE=verbs: matching is done in software, because the adapter does not match "
        "tags (mbx info --devices)");
    return err;
}

static int started(struct mbx_ep *ep)
{
    struct mbx_device *device = ep->offload->device;
    struct verbs_layout layout;
    int err = find_layout(ep, &layout);

    if (err != 0)
        return err;
    return transport_verbs_set_inlet(network_of(ep), &(struct transport_verbs_inlet){
                                                         .layout = layout,
                                                         .buffers = verbs_untagged(device),
                                                         .cq = verbs_queue(device),
                                                         .attach = on_attach,
                                                         .detach = on_detach,
                                                         .empties = on_empties,
                                                         .arg = ep,
                                                     });
}

static void driver_verbs_leave(struct mbx_ep *ep)
{
    transport_verbs_end_inlet(network_of(ep));
}

/* All events of the adapter have been handled before this call. */
static int take_over(struct mbx_ep *ep)
{
    transport_verbs_lose_inlet(network_of(ep));
    return 0;
}

static void stop_verbs(struct mbx_device *device)
{
    verbs_lose(device, "it is not used any more");
}

/* ---- arrivals ---- */

static bool is_beside(const struct mbx_ep *ep, uint32_t peer)
{
    struct link *link = peer_is_used(ep, peer) ? driver_verbs_link_of(ep, peer) : NULL;

    return link != NULL &&
           (link->transport != network_of(ep) || transport_verbs_is_beside(link));
}

static void matched(struct mbx_ep *ep, uint32_t peer)
{
    transport_verbs_matched(driver_verbs_link_of(ep, peer));
}

/* A packet that the core had no space for is offered again before anything else. */
static int packet(struct mbx_ep *ep, uint32_t peer, const void *bytes, size_t size)
{
    struct offload *offload = ep->offload;
    struct link *link = driver_verbs_link_of(ep, peer);
    int err;

    if (!offload->is_offered && !transport_verbs_arrived(link, bytes, size))
        return 0;
    err = transport_verbs_is_tagged(link) ? deliver_packet(ep, peer, bytes, size)
                                          : offload_bypass(ep, peer, bytes, size);
    offload->is_offered = err == -EAGAIN;
    if (err != -EAGAIN)
        transport_verbs_read(link);
    return err == -EAGAIN ? err : 0;
}

/* ---- sleeping, and the end of a peer ---- */

/* The driver cannot know: only polling the completion queue shows it. */
static bool has_events(const struct mbx_device *device)
{
    (void)device;
    return true;
}

static void get_up(struct mbx_device *device)
{
    (void)device;
}

static bool driver_verbs_is_there(const struct mbx_device *device)
{
    (void)device;
    return true;
}

/* This device always receives. */
static void detach(struct mbx_device *device)
{
    (void)device;
}

static uint64_t idle_rounds(struct mbx_device *device)
{
    return verbs_idles(device);
}

static bool is_calm(struct mbx_device *device, uint64_t *rounds)
{
    const uint64_t before = *rounds;

    *rounds = verbs_idles(device);
    return *rounds != before;
}

static bool repeated(const struct mbx_device *device)
{
    (void)device;
    return false;
}

const struct offload_driver offload_driver_verbs = {
    .is_inlet = true,
    .buffers = BUFFERS_USUAL,
    .threshold = THRESHOLD_USUAL,
    .check = check_verbs,
    .open = open_verbs,
    .started = started,
    .leave = driver_verbs_leave,
    .stop = stop_verbs,
    .take_over = take_over,
    .has_events = has_events,
    .lie_down = verbs_lie_down,
    .get_up = get_up,
    .is_beside = is_beside,
    .matched = matched,
    .packet = packet,
    .is_there = driver_verbs_is_there,
    .detach = detach,
    .idle_rounds = idle_rounds,
    .is_calm = is_calm,
    .repeated = repeated,
};
