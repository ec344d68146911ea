/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c - the boot id, the namespaces, and whether others may look into this process.
 *
 * The boot id is 122 random bits; its hash need not be secret, but has to use them all.
 */
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sys.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64 /* 36 characters and a newline */

/* Fixed numbers in the kernel (PROC_PID_INIT_INO, PROC_USER_INIT_INO). */
#define FIRST_PID_NAMESPACE  UINT64_C(0xEFFFFFFC)
#define FIRST_USER_NAMESPACE UINT64_C(0xEFFFFFFD)

#define PID_PATH             "/proc/self/ns/pid"
#define USER_PATH            "/proc/self/ns/user"
#define NET_PATH             "/proc/self/ns/net"
#define UID_MAP_PATH         "/proc/self/uid_map"
#define UID_MAP_SIZE         4096 /* the kernel's limit for this file */

#define MEETING              UINT64_C(0x6d656574696e6773) /* unlike host_id() */

static int host_fail(const char *path, int err)
{
    LOG_ERROR("cannot identify this host: %s, error %d %s; mount /proc", path, -err,
              strerror(-err));
    return err;
}

static int open_path(const char *path)
{
    int fd = sys_open(path, O_RDONLY, 0);

    return fd < 0 ? host_fail(path, -errno) : fd;
}

static int read_boot_id(char text[BOOT_ID_SIZE])
{
    int fd = open_path(BOOT_ID_PATH);
    ssize_t size;
    int err = 0;

    if (fd < 0)
        return fd;
    memset(text, 0, BOOT_ID_SIZE);
    size = sys_read(fd, text, BOOT_ID_SIZE);
    if (size < 0)
        err = host_fail(BOOT_ID_PATH, -errno);
    else if (size == 0)
        err = host_fail(BOOT_ID_PATH, -ENODATA);
    sys_close(fd);
    return err;
}

static int read_namespace(const char *path, uint64_t *inode)
{
    int fd = open_path(path);
    struct stat status;
    int err = 0;

    if (fd < 0)
        return fd;
    if (sys_fstat(fd, &status) < 0)
        err = host_fail(path, -errno);
    else
        *inode = status.st_ino;
    sys_close(fd);
    return err;
}

/* A permutation of 64 bits (the last step of splitmix64). */
static uint64_t host_mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int hash_boot_id(uint64_t *hash)
{
    char boot_id[BOOT_ID_SIZE];
    uint64_t word, sum = 0;
    int err = read_boot_id(boot_id);

    for (size_t at = 0; err == 0 && at < BOOT_ID_SIZE; at += sizeof word) {
        memcpy(&word, boot_id + at, sizeof word);
        sum = host_mix(sum ^ word);
    }
    *hash = sum;
    return err;
}

/* If the dumpable state is not known, the process is not closed. */
static bool is_closed(void)
{
    int dumpable = sys_prctl(PR_GET_DUMPABLE, 0);

    return dumpable == 0 || dumpable == 2; /* 2: readable by root alone */
}

int host_read(struct host *host)
{
    struct host new = {.closed_process = is_closed() ? (uint32_t)getpid() : 0};
    int err = hash_boot_id(&new.boot);

    if (err == 0)
        err = read_namespace(PID_PATH, &new.pid_namespace);
    if (err == 0)
        err = read_namespace(USER_PATH, &new.user_namespace);
    if (err == 0)
        *host = new;
    return err;
}

int host_id(uint64_t *id)
{
    struct host host;
    int err = host_read(&host);
    uint64_t sum;

    if (err != 0)
        return err;
    sum = host_mix(host_mix(host.boot ^ host.pid_namespace) ^ host.user_namespace);
    if (host.closed_process != 0)
        sum = host_mix(sum ^ host.closed_process);
    *id = sum != 0 ? sum : 1;
    return 0;
}

/* Our user id in the outer user namespace; UINT64_MAX: it has none. */
static int read_outer_user(uint64_t *user)
{
    char text[UID_MAP_SIZE], *at = text, *end;
    uint64_t own = geteuid();
    int fd = open_path(UID_MAP_PATH);
    ssize_t size;

    *user = UINT64_MAX;
    if (fd < 0)
        return fd;
    size = sys_read(fd, text, sizeof text - 1);
    if (size < 0)
        size = host_fail(UID_MAP_PATH, -errno);
    sys_close(fd);
    if (size < 0)
        return (int)size;
    text[size] = '\0';
    for (;;) {
        uint64_t inside = strtoull(at, &end, 10), outside, count;

        if (end == at)
            return 0;
        outside = strtoull(end, &at, 10);
        count = strtoull(at, &at, 10);
        if (own >= inside && own - inside < count)
            *user = outside + (own - inside);
    }
}

int host_meeting_id(uint64_t *id)
{
    uint64_t boot, net = 0, user;
    int err = hash_boot_id(&boot);

    if (err == 0)
        err = read_namespace(NET_PATH, &net);
    if (err == 0)
        err = read_outer_user(&user);
    if (err != 0)
        return err;
    *id = host_mix(host_mix(host_mix(boot ^ MEETING) ^ net) ^ user);
    *id += *id == 0;
    return 0;
}

/* ---- for processes of one launcher ---- */

void host_text(const struct host *host, char text[HOST_TEXT_SIZE])
{
    snprintf(text, HOST_TEXT_SIZE, "%016" PRIx64 ":%" PRIu64 ":%" PRIu64, host->boot,
             host->pid_namespace, host->user_namespace);
}

bool host_parse(const char *text, struct host *host)
{
    struct host new = {.closed_process = 0};
    char again[HOST_TEXT_SIZE];

    if (sscanf(text, "%" SCNx64 ":%" SCNu64 ":%" SCNu64, &new.boot, &new.pid_namespace,
               &new.user_namespace) != 3)
        return false;
    host_text(&new, again); /* no sign, no blank, nothing after it */
    if (strcmp(text, again) != 0)
        return false;
    *host = new;
    return true;
}

const char *host_difference(const struct host *own, const struct host *other)
{
    if (own->boot != other->boot)
        return "on another machine";
    if (own->user_namespace != other->user_namespace)
        return own->pid_namespace != other->pid_namespace ? "in other user and pid namespaces"
                                                          : "in another user namespace";
    if (own->pid_namespace != other->pid_namespace)
        return "in another pid namespace";
    return NULL;
}

bool host_is_contained(const struct host *host)
{
    return host->pid_namespace != FIRST_PID_NAMESPACE ||
           host->user_namespace != FIRST_USER_NAMESPACE;
}
