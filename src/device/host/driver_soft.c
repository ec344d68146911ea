/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_soft.c - the software device in the loop, on a thread, in a process (device/soft/softdev.h).
 */
#include "device/host/driver.h"

#include "base/log.h"
#include "device/soft/softdev.h"
#include "transport/handoff.h"

static int soft_number(void *arg, const struct transport_address *address, uint32_t *peer)
{
    return peer_know(arg, address, peer);
}

/* No hand-over while another thread sleeps in the transport. */
static bool soft_may_hand_over(void *arg)
{
    struct mbx_ep *ep = arg;

    if (ep->wait.is_asleep && ep->wait.event_fd != NULL && !ep->wait.has_threads)
        return event_fd_steps_aside(ep->wait.event_fd) && !ep->wait.is_asleep;
    return !ep->wait.is_asleep;
}

static struct link *soft_link(void *arg, uint32_t peer)
{
    struct mbx_ep *ep = arg;

    return peer_is_used(ep, peer) ? peer_get(ep, peer)->link : NULL;
}

static int soft_open(struct mbx_ep *ep, enum softdev_driver driver, struct mbx_device **device)
{
    const struct settings *s = &ep->settings;

    return softdev_open(
        &(struct softdev_config){
            .driver = driver,
            .transport = ep->net.transport,
            .transport_config = &ep->net.config,
            .read_chunk = s->tuning.read_chunk,
            .spin_ns = s->tuning.device_spin_ns,
            .check_ns = (uint64_t)liveness_ns(ep),
            .answer_ns = s->tuning.device_answer_ns,
            .seed = ep->contexts.seed,
            .program = s->tuning.device_program,
            .number = soft_number,
            .may_hand_over = soft_may_hand_over,
            .link = soft_link,
            .arg = ep,
        },
        device);
}

static int open_loop(struct mbx_ep *ep, struct mbx_device **device)
{
    return soft_open(ep, SOFTDEV_LOOP, device);
}

static int open_thread(struct mbx_ep *ep, struct mbx_device **device)
{
    return soft_open(ep, SOFTDEV_THREAD, device);
}

static int open_process(struct mbx_ep *ep, struct mbx_device **device)
{
    return soft_open(ep, SOFTDEV_PROCESS, device);
}

static int check_loop(const struct mbx_ep *ep)
{
    (void)ep;
    return 0; /* works with every transport */
}

static int check_thread(const struct mbx_ep *ep)
{
    if (transport_can_hand_over(ep->net.transport))
        return 0;
    LOG_ERROR("MBX_DEVICE=soft-thread and soft-process need MBX_TRANSPORT=shm, not %s; "
              "MBX_DEVICE=soft works with every transport",
              ep->net.transport->ops->name);
    return -EINVAL;
}

static int check_process(const struct mbx_ep *ep)
{
    int err = check_thread(ep);

    if (err != 0 || ep->settings.transports.shm.attach)
        return err;
    LOG_ERROR("MBX_DEVICE=soft-process needs MBX_SHM_ATTACH=yes: it reaches this process's "
              "memory in no other way");
    return -EINVAL;
}

static int take_back(struct mbx_ep *ep)
{
    return transport_take_back(ep->net.transport);
}

#define USUAL .buffers = 128, .threshold = (uint64_t)32 << 10

const struct offload_driver offload_driver_soft = {
    .in_loop = true,
    USUAL,
    .check = check_loop,
    .open = open_loop,
    .stop = softdev_stop,
    .has_events = softdev_has_events,
    .lie_down = softdev_lie_down,
    .get_up = softdev_get_up,
    .run = softdev_run,
    .deliver = softdev_deliver,
    .read_done = softdev_read_done,
    .repeated = softdev_repeated,
};

#define ELSEWHERE                                                                              \
    USUAL, .take_over = take_back, .stop = softdev_stop, .has_events = softdev_has_events,     \
           .lie_down = softdev_lie_down, .get_up = softdev_get_up,                             \
           .is_there = softdev_is_there, .detach = softdev_detach,                             \
           .idle_rounds = softdev_idle_rounds, .is_calm = softdev_is_calm,                     \
           .repeated = softdev_repeated

const struct offload_driver offload_driver_soft_thread = {
    .check = check_thread,
    .open = open_thread,
    ELSEWHERE,
};

const struct offload_driver offload_driver_soft_process = {
    .check = check_process,
    .open = open_process,
    ELSEWHERE,
};
