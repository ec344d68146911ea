/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_process.c - the software device in a process of its own.
 *
 * The program matchbox-device inherits the channel as descriptor 3, besides 0 to 2; the channel
 * has all that it needs (device_main.c).  The program ends when its parent is gone.  This
 * driver kills it without waiting for it to finish: as others may also kill it, its shared
 * state is valid at every instruction.
 *
 * The program is a child of the application, which may reap it by a wait for any child, or by
 * ignoring SIGCHLD; another process may then get its pid.  So this driver uses a pidfd.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/program.h"
#include "base/sys.h"
#include "device/soft/driver.h"

#define PROGRAM "matchbox-device"

/* Finds the path of the program.  False: it cannot be executed, and errno says why. */
static bool find_program(const char *given, char *path, size_t size)
{
    if (given[0] == '\0')
        return program_find(PROGRAM, MBX_DEVICE_INSTALLED, path, size);
    snprintf(path, size, "%s", given);
    return access(path, X_OK) == 0;
}

bool soft_process_explain(char *line, size_t size)
{
    char path[PATH_MAX];
    bool found = find_program("", path, sizeof path);

    snprintf(line, size, found ? "can be used: %s" : "cannot execute %s", path);
    return found;
}

static void driver_process_describe(struct softdev *device)
{
    struct channel *channel = device->channel;
    const struct transport_config *config = device->config.transport_config;

    channel->pid = (uint32_t)getpid();
    channel->attach = config->settings.shm.attach;
    channel->ring_size = config->settings.shm.ring_size;
    memcpy(channel->key, config->key, sizeof channel->key);
}

static int process_start(struct softdev *device)
{
    char *path = device->program;
    int err;

    if (!find_program(device->config.program, path, sizeof device->program)) {
        err = -errno;
        LOG_ERROR("soft-process: cannot execute %s, error %d %s; install " PROGRAM
                  " next to the library",
                  path, -err, strerror(-err));
        return err;
    }
    driver_process_describe(device);
    device->pid = sys_spawn(path, device->channel_fd);
    if (device->pid < 0) {
        err = -errno;
        LOG_ERROR("soft-process: cannot start %s, error %d %s; it must be the " PROGRAM
                  " of this version of Matchbox",
                  path, -err, strerror(-err));
        return err;
    }
    device->pidfd = sys_pidfd_open(device->pid);
    if (device->pidfd < 0) {
        err = -errno;
        kill(device->pid, SIGKILL);
        while (waitpid(device->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return err;
    }
    return 0;
}

/* Direct calls, because tests must not make them fail. */
static void process_stop(struct softdev *device)
{
    siginfo_t info;

    syscall(SYS_pidfd_send_signal, device->pidfd, SIGKILL, NULL, 0);
    while (waitid(P_PIDFD, (id_t)device->pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
    sys_close(device->pidfd);
}

/* A pidfd becomes readable when the process ends. */
static bool process_is_alive(struct softdev *device)
{
    struct pollfd poll = {.fd = device->pidfd, .events = POLLIN};

    return sys_poll(&poll, 1, 0) <= 0;
}

const struct softdev_driver_ops softdev_driver_process = {
    .start = process_start,
    .stop = process_stop,
    .is_alive = process_is_alive,
};
