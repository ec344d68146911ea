/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - what softdev.c and the drivers that run an agent elsewhere share; never leaves
 * this folder.
 */
#ifndef DEVICE_SOFT_DRIVER_H
#define DEVICE_SOFT_DRIVER_H

#include <limits.h>
#include <pthread.h>

#include "device/soft/agent.h"
#include "device/soft/softdev.h"
#include "transport/handoff.h"

struct softdev;

/* Who receives.  A driver's agent does between the two. */
enum softdev_attachment {
    SOFTDEV_AWAY,   /* the transport's owner */
    SOFTDEV_THERE,  /* the device, or soon */
    SOFTDEV_LEAVING /* the device, until it says that it has left */
};

struct softdev_driver_ops {
    /* Starts the device's other half; channel and handle are ready.  0 or an error. */
    int (*start)(struct softdev *device);
    /* Ends it, whatever it is doing, and waits until it is gone. */
    void (*stop)(struct softdev *device);
    /* May it still do something? */
    bool (*is_alive)(struct softdev *device);
};

extern const struct softdev_driver_ops softdev_driver_thread, softdev_driver_process;

struct softdev {
    struct mbx_device base;
    struct softdev_config config;
    const struct softdev_driver_ops *driver; /* NULL: LOOP */
    struct channel *channel;
    size_t channel_size;
    int channel_fd; /* PROCESS */
    struct ring_producer commands;
    struct ring_consumer events;
    uint64_t written; /* commands */
    uint64_t sync_at; /* the number of the last SYNC; 0: there was none */
    uint64_t mark;    /* of the last event that was polled */
    uint32_t until_check;
    bool is_configured;
    enum softdev_attachment attachment;
    bool is_stopped; /* nothing runs any more */
    bool is_over;    /* LOST has been told */
    struct transport_handle handle;
    struct agent *agent; /* LOOP */
    pthread_t thread;    /* THREAD */
    pid_t pid;           /* PROCESS */
    int pidfd;
    char program[PATH_MAX]; /* what it executes */
};

/* Of a device elsewhere that receives. */
void softdev_wake(struct softdev *device);

#endif
