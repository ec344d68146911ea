/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - the software device on a thread of the application.
 */
#include <errno.h>
#include <signal.h>

#include "base/sys.h"
#include "softdev/driver.h"
#include "softdev/agent_main.h"

static void *run(void *arg)
{
    struct soft_device *device = arg;

    serve(&(struct serve_config){
        .region = device->region,
        .transport = device->config.transport_config,
        .handle = &device->handle,
        .ops = device->config.transport->ops,
        .memory = {.is_ours = true},
        .spin_ns = device->config.spin_ns,
    });
    return NULL;
}

/* The application's signals are for its own threads. */
static int thread_start(struct soft_device *device)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&device->thread, NULL, run, device);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

static void thread_stop(struct soft_device *device)
{
    atomic_store(&device->region->stop, 1);
    atomic_store(&device->region->wanted, 1); /* so that it does not sleep */
    sys_futex_wake(&device->region->wanted, 1);
    if (device->attachment != SOFT_AWAY)
        soft_device_wake(device);
    pthread_join(device->thread, NULL);
}

static bool thread_is_alive(struct soft_device *device)
{
    (void)device; /* it says so when it ends */
    return true;
}

const struct soft_driver_ops soft_driver_thread = {
    .start = thread_start,
    .stop = thread_stop,
    .is_alive = thread_is_alive,
};
