/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calm.c - checks whether the device has passed on all that peers had sent before they died, or
 * before the endpoint began to close.
 *
 * Only for a device elsewhere: a device in the loop has always done so.
 */
#include "device/host/inside.h"

#include "base/clock.h"
#include "base/sys.h"

/* The first calm look may come while the answer about an unknown peer is under way: the device
 * asks about the peer of a packet, and takes the packet after the answer. */
#define CALM_CHECKS 2

/* Packets of the peer may still be with the device, which may be slow. */
void offload_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    struct offload *offload = ep->offload;

    (void)peer, (void)error;
    if (!is_new || offload == NULL || offload->driver->in_loop)
        return;
    offload->is_watched = true;
    offload->calm = 0;
    if (!offload->shadow.is_lost)
        offload->driver->is_calm(offload->device, &offload->rounds);
}

/* A device in the loop has always passed on everything. */
bool offload_on_has_seen_all(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;
    bool is_calm;

    if (!offload->is_watched)
        return true;
    is_calm = offload->shadow.is_lost
                  ? offload->is_receiving /* the host receives */
                  : offload->driver->is_calm(offload->device, &offload->rounds);
    offload->calm = is_calm ? offload->calm + 1 : 0;
    offload->is_watched = offload->calm < CALM_CHECKS;
    return !offload->is_watched;
}

/* Has the device had nothing to do since it had done `rounds` idle rounds? */
static bool offload_is_calm(const struct offload *offload, uint64_t rounds)
{
    return offload->shadow.is_lost ? offload->is_receiving
                                   : offload->driver->is_calm(offload->device, &rounds);
}

/* Waits until the device is calm, or until until_ns. */
static void offload_await_calm(struct mbx_ep *ep, uint64_t until_ns)
{
    struct offload *offload = ep->offload;
    uint64_t rounds =
        offload->shadow.is_lost ? 0 : offload->driver->idle_rounds(offload->device);

    while (!offload_is_calm(offload, rounds) && clock_now() < until_ns)
        if (progress_round(ep) == 0)
            sys_yield(); /* the device may have no core to run on */
}

/* The device passes on what had arrived when the endpoint began to close. */
void offload_on_stop(struct mbx_ep *ep)
{
    uint64_t until_ns = clock_now() + ep->settings.close_timeout_ns;

    for (int check = 0;
         check < CALM_CHECKS && ep->offload != NULL && !ep->offload->driver->in_loop; check++)
        offload_await_calm(ep, until_ns);
}
