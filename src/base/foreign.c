/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foreign.c - see foreign.h.
 */
#include "base/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/sys.h"

#define LINK_SIZE 64

/* Memory files are on an internal device of the kernel, on which nobody else can create a
 * file.  Is this file on it? */
static bool is_in_memory(const struct stat *file)
{
    struct stat own;
    int fd = sys_memfd_create("matchbox-foreign", MFD_CLOEXEC);
    bool is = fd >= 0 && sys_fstat(fd, &own) == 0 && own.st_dev == file->st_dev;

    if (fd >= 0)
        sys_close(fd);
    return is;
}

/* Does the link read "/memfd:NAME (deleted)", NAME being the name that the file's creator gave
 * to it? */
static bool is_called(const char *link, const char *name)
{
    char text[LINK_SIZE];
    size_t prefix = (size_t)snprintf(text, sizeof text, "/memfd:%s", name);
    ssize_t size = readlink(link, text, sizeof text - 1);

    return size >= (ssize_t)prefix &&
           memcmp(text + strlen("/memfd:"), name, strlen(name)) == 0 &&
           (size == (ssize_t)prefix || text[prefix] == ' ');
}

/* fd was opened with O_PATH through link.  Returns 0, or an error of foreign_open(). */
static int foreign_check(int fd, const char *link, const struct foreign *wanted)
{
    struct stat file;

    if (sys_fstat(fd, &file) < 0)
        return -errno;
    if (S_ISDIR(file.st_mode))
        return -EISDIR;
    if (!S_ISREG(file.st_mode) || (wanted->kind == FOREIGN_SINGLE && file.st_nlink > 1))
        return -EINVAL;
    if (wanted->user != FOREIGN_ANYBODY && file.st_uid != wanted->user)
        return -EPERM;
    if (wanted->kind == FOREIGN_MEMORY &&
        (!is_called(link, wanted->memory) || !is_in_memory(&file)))
        return -EINVAL;
    return 0;
}

int foreign_open(const char *path, int flags, const struct foreign *wanted)
{
    int links = wanted->kind == FOREIGN_SINGLE ? O_NOFOLLOW : 0;
    int seen = sys_open(path, O_PATH | links, 0), fd = -1, err;
    char link[LINK_SIZE];

    if (seen < 0)
        return -errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", seen);
    err = foreign_check(seen, link, wanted);
    if (err == 0 && (fd = sys_open(link, flags | O_NONBLOCK, 0)) < 0)
        err = -errno;
    sys_close(seen);
    return err < 0 ? err : fd;
}

uint32_t foreign_user(uint32_t pid)
{
    uint32_t real, effective, saved;
    char path[LINK_SIZE], text[1024];
    const char *line;
    ssize_t size;
    int fd;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/status", pid);
    fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return FOREIGN_ANYBODY;
    size = sys_read(fd, text, sizeof text - 1);
    sys_close(fd);
    text[size > 0 ? size : 0] = '\0';
    line = strstr(text, "\nUid:");
    if (line == NULL ||
        sscanf(line, "\nUid: %" SCNu32 " %" SCNu32 " %" SCNu32, &real, &effective, &saved) !=
            3 ||
        real != effective || real != saved)
        return FOREIGN_ANYBODY;
    return real;
}
