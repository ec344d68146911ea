/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - declarations shared by softdev.c and the drivers that run an agent elsewhere; only
 * for this folder.
 */
#ifndef DEVICE_SOFT_DRIVER_H
#define DEVICE_SOFT_DRIVER_H

#include <limits.h>
#include <pthread.h>

#include "device/soft/agent.h"
#include "device/soft/softdev.h"
#include "transport/handoff.h"

struct softdev;

/* Which side receives. */
enum softdev_attachment {
    SOFTDEV_AWAY,   /* the transport's owner receives */
    SOFTDEV_THERE,  /* the device receives, or will soon */
    SOFTDEV_LEAVING /* the device receives until it reports that it has left */
};

struct softdev_driver_ops {
    /* Starts the thread or process of the device; channel and handle are ready.  0 or an
     * error. */
    int (*start)(struct softdev *device);
    /* Ends the device, whatever it is doing, and waits until it is gone. */
    void (*stop)(struct softdev *device);
    /* May the device still be running? */
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
    uint64_t written; /* commands written */
    uint64_t sync_at; /* the number of the last SYNC; 0: there was none */
    uint64_t mark;    /* channel.begun of the last event that was polled */
    uint32_t until_check;
    bool is_configured;
    enum softdev_attachment attachment;
    bool is_stopped; /* nothing runs any more */
    bool is_over;    /* LOST has been reported */
    struct transport_handle handle;
    struct agent *agent; /* LOOP */
    pthread_t thread;    /* THREAD */
    pid_t pid;           /* PROCESS */
    int pidfd;
    char program[PATH_MAX]; /* the path of the program */
};

/* Wakes a device elsewhere that receives. */
void softdev_wake(struct softdev *device);

#endif
