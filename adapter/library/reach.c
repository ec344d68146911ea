/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.c - connects to the daemon of this host, and starts it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/environ.h"

#define PROGRAM    "mbx-adapter" /* next to the library */
#define ENV_LENGTH 4096

extern char **environ;

static int program_path(char *path, size_t size)
{
    const char *named = environ_get(ADAPTER_ENV_PROGRAM);
    const char *slash;
    Dl_info info;

    if (named != NULL) {
        snprintf(path, size, "%s", named);
        return 0;
    }
    if (dladdr((void *)(uintptr_t)program_path, &info) == 0 || info.dli_fname == NULL)
        return ENOENT;
    slash = strrchr(info.dli_fname, '/');
    snprintf(path, size, "%.*s" PROGRAM, slash != NULL ? (int)(slash + 1 - info.dli_fname) : 0,
             info.dli_fname);
    return 0;
}

/* Copies the environment without LD_PRELOAD, which would load this library into the daemon.  Variables that a
 * privileged program does not read are left out as well: the daemon would read them. */
static void copy_environment(char *copy[ENV_LENGTH])
{
    size_t n = 0;

    for (char **each = environ; *each != NULL && n < ENV_LENGTH - 1; each++)
        if (strncmp(*each, "LD_PRELOAD=", 11) != 0 &&
            !(environ_is_privileged() && strncmp(*each, "MBX_", 4) == 0))
            copy[n++] = *each;
    copy[n] = NULL;
}

int reach_start(void)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    static char *environment[ENV_LENGTH]; /* the caller's lock protects it */
    char path[PATH_MAX];
    char *argv[] = {path, NULL};
    int err = program_path(path, sizeof path), status;
    pid_t pid;

    if (err != 0)
        return err;
    copy_environment(environment);
    sigemptyset(&none);
    sigfillset(&defaults);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    err = posix_spawn(&pid, path, &actions, &attr, argv, environment);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (err != 0) {
        fprintf(stderr,
                "mbx-adapter: cannot start %s: %s; MBX_ADAPTER_PROGRAM names the program\n",
                path, strerror(err));
        return err;
    }
    /* the child forks the listening daemon and ends; ECHILD: the program has reaped the child
     * itself */
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

int reach_connect(void)
{
    struct sockaddr_un name;
    const socklen_t size = adapter_address(&name);
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (sock < 0)
        return -1;
    if (connect(sock, (const struct sockaddr *)&name, size) == 0)
        return sock;
    close(sock);
    return -1;
}

/* The adapter reads and writes our memory: with Yama, the kernel requires our permission. */
int reach_allow(int sock)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid() ||
        peer.pid <= 0)
        return EACCES;
    prctl(PR_SET_PTRACER, (unsigned long)peer.pid);
    return 0;
}

void *reach_foreign(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

void reach_opened(void)
{
}

/* The daemon sees for itself that its last client is gone. */
void reach_closed(pid_t pid)
{
    (void)pid;
}
