/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_main.c - matchbox-device: a software device in an address space of its own.
 *
 * The library starts it (driver_process.c).  Descriptor 3 is the channel; the process copies
 * across to and from the application's memory.  All signals are blocked: those from the
 * terminal are for the application, and this process ends when the application does.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sys.h"
#include "device/soft/agent_main.h"
#include "transport/transport.h"

#define REGION_FD 3

static int write_across(void *arg, uint64_t to, const void *from, size_t size)
{
    const struct channel *channel = arg;
    const unsigned char *bytes = from;

    while (size > 0) {
        ssize_t done = sys_process_vm_writev((pid_t)channel->pid, bytes, to, size);

        if (done <= 0)
            return done < 0 ? -errno : -EFAULT;
        bytes += done;
        to += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

static bool parent_is_there(void *arg)
{
    const struct channel *channel = arg;

    return (uint32_t)getppid() == channel->pid;
}

/* May this process write to the application?  It writes into the channel by the application's
 * address, and looks whether the value has arrived. */
static int try_memory(struct channel *channel)
{
    const uint64_t mark = ~channel->seed;
    int err = write_across(channel, channel->self + offsetof(struct channel, probe), &mark,
                           sizeof mark);

    return err != 0 ? err : *(volatile uint64_t *)&channel->probe == mark ? 0 : -EFAULT;
}

static int device_main_run(struct channel *channel)
{
    struct transport_config transport = {
        .settings.shm = {.attach = channel->attach, .ring_size = channel->ring_size}};

    memcpy(transport.key, channel->key, sizeof transport.key);
    return agent_main(&(struct agent_main_config){
        .channel = channel,
        .transport = &transport,
        .handle = &channel->handle,
        .ops = &transport_shm,
        .memory = {.write = write_across, .arg = channel},
        .spin_ns = channel->spin_ns,
        .may_go_on = parent_is_there,
        .arg = channel,
    });
}

int main(int argc, char **argv)
{
    struct channel *channel;
    size_t size;
    int err;

    (void)argv;
    err = argc == 1 ? channel_attach(REGION_FD, &size, &channel) : -EINVAL;
    if (err == -EPROTONOSUPPORT)
        return 2; /* channel_attach() has said why */
    if (err != 0) {
        fprintf(stderr, "matchbox-device is started by the matchbox library, with "
                        "MBX_DEVICE=soft-process; it cannot be run by hand\n");
        return 2;
    }
    if (!parent_is_there(channel))
        return 1;
    channel_say(channel, CHANNEL_ANSWERED, 0);
    err = try_memory(channel);
    if (err != 0) {
        LOG_ERROR("device: writing to the memory of pid %u is forbidden, error %d %s (see "
                  "kernel.yama.ptrace_scope); MBX_DEVICE=soft-thread does without",
                  channel->pid, -err, strerror(-err));
        channel_say(channel, CHANNEL_FAILED, err);
        return 1;
    }
    err = device_main_run(channel);
    if (err != 0)
        LOG_ERROR("device: %s", strerror(-err));
    sys_munmap(channel, size);
    return err != 0;
}
