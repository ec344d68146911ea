/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - what soft_device.c and the drivers that run a port elsewhere share; never leaves
 * this folder.
 */
#ifndef PORT_DRIVER_H
#define PORT_DRIVER_H

#include <limits.h>
#include <pthread.h>

#include "softdev/agent.h"
#include "softdev/softdev.h"
#include "transport/handoff.h"

struct soft_device;

/* Who receives.  A driver's port does between the two. */
enum soft_attachment {
    SOFT_AWAY,   /* the transport's owner */
    SOFT_THERE,  /* the device, or soon */
    SOFT_LEAVING /* the device, until it says that it has left */
};

struct soft_driver_ops {
    /* Starts the device's other half; region and handle are ready.  0 or an error. */
    int (*start)(struct soft_device *device);
    /* Ends it, whatever it is doing, and waits until it is gone. */
    void (*stop)(struct soft_device *device);
    /* May it still do something? */
    bool (*is_alive)(struct soft_device *device);
};

extern const struct soft_driver_ops soft_driver_thread, soft_driver_process;

struct soft_device {
    struct mbx_device base;
    struct soft_device_config config;
    const struct soft_driver_ops *driver; /* NULL: LOOP */
    struct region *region;
    size_t region_size;
    int region_fd; /* PROCESS */
    struct ring_producer commands;
    struct ring_consumer events;
    uint64_t written; /* commands */
    uint64_t sync_at; /* the number of the last SYNC; 0: there was none */
    uint64_t mark;    /* of the last event that was polled */
    uint32_t until_look;
    bool is_configured;
    enum soft_attachment attachment;
    bool is_stopped; /* nothing runs any more */
    bool is_over;    /* LOST has been told */
    struct transport_handle handle;
    struct port *port; /* LOOP */
    pthread_t thread;  /* THREAD */
    pid_t pid;         /* PROCESS */
    int pidfd;
    char program[PATH_MAX]; /* what it executes */
};

/* Of a device elsewhere that receives. */
void soft_device_wake(struct soft_device *device);

#endif
