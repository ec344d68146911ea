/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_flight.c - finds flight recordings: memory files of the name FLIGHT_NAME among the
 * descriptors of processes, and segments of core files that begin as one.
 */
#include "trace_flight.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "tools/common/core_file.h"
#include "tools/common/tool.h"
#include "trace/trace.h"

#define LINK_NAME "/memfd:" FLIGHT_NAME " "

static bool paths_add(struct trace_paths *out, const char *path, int fd)
{
    if (!array_reserve(out->paths, out->path_slots, out->count + 1) ||
        !array_reserve(out->fds, out->fd_slots, out->count + 1))
        return false;
    out->fds[out->count] = fd;
    out->paths[out->count] = mem_alloc(strlen(path) + 1);
    if (out->paths[out->count] == NULL)
        return false;
    memcpy(out->paths[out->count++], path, strlen(path) + 1);
    return true;
}

void trace_paths_free(struct trace_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        mem_free(paths->paths[i]);
        if (paths->fds[i] >= 0)
            close(paths->fds[i]);
    }
    mem_free(paths->paths);
    mem_free(paths->fds);
    *paths = (struct trace_paths){.count = 0};
}

static int no_memory(const struct tool *tool)
{
    tool_error(tool, "no memory");
    return TOOL_FAILED;
}

/* ---- living processes ---- */

/* Does this process record there?  Its children also have the descriptor.  path: a descriptor of ours. */
static bool is_its_own(const char *path, unsigned long pid)
{
    static struct trace_reader reader;
    bool is_own;

    if (trace_open(&reader, path) < 0)
        return true; /* what is wrong is said when it is read */
    is_own = reader.info.pid == pid;
    trace_close(&reader);
    return is_own;
}

/* Adds the recording of this process that its descriptor is, if it is one.  False: no memory. */
static bool take(unsigned long pid, const char *path, uint32_t user, struct trace_paths *out)
{
    const struct foreign wanted = {.kind = FOREIGN_MEMORY, .memory = FLIGHT_NAME, .user = user};
    int fd = foreign_open(path, O_RDONLY, &wanted);
    bool is_done = true;
    char own[64];

    if (fd < 0)
        return true;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    if (is_its_own(own, pid)) {
        is_done = paths_add(out, own, fd);
        if (is_done)
            return true;
    }
    close(fd);
    return is_done;
}

/* Among the descriptors of a process of this user.  False: no memory. */
static bool find_in(unsigned long pid, uint32_t user, struct trace_paths *out)
{
    char path[320], link[sizeof LINK_NAME + 16];
    struct dirent *entry;
    bool is_done = true;
    DIR *folder;

    if (user == FOREIGN_ANYBODY || foreign_user((uint32_t)pid) != user)
        return true;
    snprintf(path, sizeof path, "/proc/%lu/fd", pid);
    folder = opendir(path);
    if (folder == NULL)
        return true; /* gone, or it may not be looked into */
    while (is_done && (entry = readdir(folder)) != NULL) {
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);

        if (size < (ssize_t)sizeof LINK_NAME - 1 ||
            memcmp(link, LINK_NAME, sizeof LINK_NAME - 1) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/%lu/fd/%s", pid, entry->d_name);
        is_done = take(pid, path, user, out);
    }
    closedir(folder);
    return is_done;
}

/* 0; or TOOL_FAILED. */
static int find_all(const struct tool *tool, struct trace_paths *out)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    bool is_done = true;

    if (proc == NULL) {
        tool_error(tool, "/proc cannot be read: %s", strerror(errno));
        return TOOL_FAILED;
    }
    while (is_done && (entry = readdir(proc)) != NULL) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);

        if (*end == '\0' && pid != 0)
            is_done = find_in(pid, geteuid(), out);
    }
    closedir(proc);
    return is_done ? 0 : no_memory(tool);
}

int trace_paths_living(const struct tool *tool, char **processes, int count,
                       struct trace_paths *out)
{
    if (count == 0) {
        int status = find_all(tool, out);

        if (status == 0 && out->count == 0) {
            tool_error(tool, "no process of this user on this host keeps events in memory "
                             "(MBX_FLIGHT=4096 without MBX_FLIGHT_FOLDER)");
            status = TOOL_FAILED;
        }
        return status;
    }
    for (int i = 0; i < count; i++) {
        size_t before = out->count;
        uint64_t pid;
        int status = tool_number(tool, "--flight", processes[i], 1, INT32_MAX, &pid);

        if (status != 0)
            return status;
        /* root may name a process of anybody */
        if (!find_in((unsigned long)pid, foreign_user((uint32_t)pid), out))
            return no_memory(tool);
        if (out->count == before) {
            tool_error(tool,
                       "process %s keeps no events in memory (MBX_FLIGHT=4096 without "
                       "MBX_FLIGHT_FOLDER), is another user's, or is gone",
                       processes[i]);
            return TOOL_FAILED;
        }
    }
    return 0;
}

/* ---- core files ---- */

static bool is_elf(const char *path)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    char magic[SELFMAG] = "";
    int fd = foreign_open(path, O_RDONLY, &wanted);
    bool is = fd >= 0 && read(fd, magic, sizeof magic) == (ssize_t)sizeof magic &&
              memcmp(magic, ELFMAG, SELFMAG) == 0;

    if (fd >= 0)
        close(fd);
    return is;
}

/* Copies a segment into a memory file of our own: as much of it as a recording can have at most,
 * because a segment of a sparse file has any size.  Its descriptor; or a negative errno. */
static int copy_out(const struct core_file *core, uint64_t address, uint64_t size)
{
    static unsigned char bytes[1 << 16];
    int fd = memfd_create("core", MFD_CLOEXEC), err = fd < 0 ? -errno : 0;

    size = min_size(size, FLIGHT_SIZE_MAX);
    for (uint64_t at = 0; err == 0 && at < size;) {
        size_t part = min_size(sizeof bytes, size - at);

        err = core->source.read(&core->source, address + at, bytes, part);
        if (err == 0 && write(fd, bytes, part) != (ssize_t)part)
            err = -EIO;
        at += part;
    }
    if (err == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return err;
}

static int add_core(const struct tool *tool, const char *file, struct trace_paths *out)
{
    size_t before = out->count;
    struct core_file core;
    char why[CORE_WHY];
    uint64_t address, size;
    uint32_t at = 0;
    int status = 0;

    if (core_open(&core, file, why) != 0) {
        tool_error(tool, "%s: %s", file, why);
        return TOOL_FAILED;
    }
    while (status == 0 && (address = core_shared(&core, FLIGHT_MAGIC, &size, &at)) != 0) {
        int fd = copy_out(&core, address, size);
        char path[64];

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (fd < 0) {
            tool_error(tool, "%s: the events in it cannot be copied: %s", file,
                       strerrordesc_np(-fd));
            status = TOOL_FAILED;
        } else if (!paths_add(out, path, fd)) {
            close(fd);
            status = no_memory(tool);
        }
    }
    core_close(&core);
    if (status == 0 && out->count == before) {
        tool_error(
            tool,
            "%s: no events are in this core file: the process ran without MBX_FLIGHT, or "
            "the file was written without shared memory (coredump_filter)",
            file);
        status = TOOL_FAILED;
    }
    return status;
}

int trace_paths_files(const struct tool *tool, char **files, int count, struct trace_paths *out)
{
    int status = 0;

    for (int i = 0; i < count && status == 0; i++) {
        if (is_elf(files[i]))
            status = add_core(tool, files[i], out);
        else if (!paths_add(out, files[i], -1))
            status = no_memory(tool);
    }
    return status;
}
