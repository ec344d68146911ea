/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_thread.c - the software device on a thread of the application.
 */
#include "base/sys.h"
#include "base/thread.h"
#include "device/soft/driver.h"
#include "device/soft/agent_main.h"

static void *driver_thread_run(void *arg)
{
    struct softdev *device = arg;

    agent_main(&(struct agent_main_config){
        .channel = device->channel,
        .transport = device->config.transport_config,
        .handle = &device->handle,
        .ops = device->config.transport->ops,
        .memory = {.is_ours = true},
        .spin_ns = device->config.spin_ns,
    });
    return NULL;
}

static int agent_start(struct softdev *device)
{
    return thread_start(&device->thread, driver_thread_run, device);
}

static void thread_stop(struct softdev *device)
{
    atomic_store(&device->channel->stop, 1);
    atomic_store(&device->channel->wanted, 1); /* so that it does not sleep */
    sys_futex_wake(&device->channel->wanted, 1);
    if (device->attachment != SOFTDEV_AWAY)
        softdev_wake(device);
    pthread_join(device->thread, NULL);
}

static bool thread_is_alive(struct softdev *device)
{
    (void)device; /* it reports its own end */
    return true;
}

const struct softdev_driver_ops softdev_driver_thread = {
    .start = agent_start,
    .stop = thread_stop,
    .is_alive = thread_is_alive,
};
