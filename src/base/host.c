/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.c - the boot id and the namespaces, as one number.
 *
 * The boot id is 122 random bits; what is made of it needs no secret, only to use them all.
 */
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sys.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE 64 /* it is 36 characters and a newline */

static const char *const namespace_paths[] = {"/proc/self/ns/pid", "/proc/self/ns/user"};

static int fail(const char *path, int err)
{
    LOG_ERROR("the host cannot be told from others: %s, error %d %s; is /proc there?", path,
              -err, strerror(-err));
    return err;
}

static int open_path(const char *path)
{
    int fd = sys_open(path, O_RDONLY, 0);

    return fd < 0 ? fail(path, -errno) : fd;
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
        err = fail(BOOT_ID_PATH, -errno);
    else if (size == 0)
        err = fail(BOOT_ID_PATH, -ENODATA);
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
        err = fail(path, -errno);
    else
        *inode = status.st_ino;
    sys_close(fd);
    return err;
}

/* A permutation of 64 bits (the last step of splitmix64). */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int host_id(uint64_t *id)
{
    char boot_id[BOOT_ID_SIZE];
    uint64_t word, sum = 0;
    int err = read_boot_id(boot_id);

    for (size_t at = 0; err == 0 && at < BOOT_ID_SIZE; at += sizeof word) {
        memcpy(&word, boot_id + at, sizeof word);
        sum = mix(sum ^ word);
    }
    for (size_t i = 0; err == 0 && i < ARRAY_COUNT(namespace_paths); i++) {
        err = read_namespace(namespace_paths[i], &word);
        sum = mix(sum ^ word);
    }
    if (err == 0)
        *id = sum != 0 ? sum : 1;
    return err;
}
