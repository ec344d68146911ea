/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memwatch.c - see memwatch.h.
 *
 * The kernel resumes the thread that unmaps when its message has been read.  So the watch
 * thread reads messages with the lock held: a call that comes after the munmap() finds the
 * ranges marked.
 *
 * The message of an munmap() or mremap() comes after the memory was unmapped.  But while a
 * message is on its way the kernel refuses to change the protection of memory (EAGAIN):
 * memwatch_check() tries that on a page of ours.
 *
 * Ranges are registered with the descriptor for write protection, and nothing is protected: no
 * access ever faults.
 */
#include "base/memwatch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/thread.h"

#define PAGE ((size_t)4096)

/* Not in the headers of older kernels. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif

/* The last feature is not needed.  It came with Linux 5.18, where a page that an adapter uses
 * stays with this process when it forks, and the child gets the copy. */
#define FEATURES                                                                               \
    (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP |         \
     UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EXACT_ADDRESS)

static struct {
    pthread_mutex_t opening; /* guards users, thread, bell and page */
    uint32_t users;
    pthread_t thread;
    int bell;   /* eventfd: ends the thread */
    void *page; /* registered, and not used otherwise */

    pthread_mutex_t lock; /* guards the members below */
    int fd;
    struct list ranges;
    uint64_t gone;
} watch = {.opening = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .ranges = {&watch.ranges, &watch.ranges}};

/* ---- the thread ---- */

static void mark(uintptr_t begin, uintptr_t end)
{
    struct list *node;

    list_for_each (node, &watch.ranges) {
        struct memwatch_range *range = container_of(node, struct memwatch_range, node);

        if (range->begin < end && begin < range->end && !range->is_gone) {
            range->is_gone = true;
            watch.gone++;
        }
    }
}

static void memwatch_take(const struct uffd_msg *msg)
{
    if (msg->event == UFFD_EVENT_REMOVE || msg->event == UFFD_EVENT_UNMAP)
        mark((uintptr_t)msg->arg.remove.start, (uintptr_t)msg->arg.remove.end);
    else if (msg->event == UFFD_EVENT_REMAP)
        mark((uintptr_t)msg->arg.remap.from,
             (uintptr_t)(msg->arg.remap.from + msg->arg.remap.len));
}

static void *memwatch_run(void *arg)
{
    struct pollfd fds[2] = {{.fd = watch.bell, .events = POLLIN},
                            {.fd = watch.fd, .events = POLLIN}};
    struct uffd_msg msg;

    (void)arg;
    while (fds[0].revents == 0) {
        if (sys_poll(fds, 2, -1) <= 0) {
            fds[0].revents = 0;
            continue;
        }
        pthread_mutex_lock(&watch.lock);
        while (sys_read(watch.fd, &msg, sizeof msg) == (ssize_t)sizeof msg)
            memwatch_take(&msg);
        pthread_mutex_unlock(&watch.lock);
    }
    /* threads that wait for a message to be read go on, and no thread waits from here on */
    pthread_mutex_lock(&watch.lock);
    sys_close(watch.fd);
    watch.fd = -1;
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

/* ---- open and close ---- */

static int open_fd(int *fd)
{
    struct uffdio_api api = {.api = UFFD_API, .features = FEATURES};
    int err = 0;

    *fd = sys_userfaultfd(O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (*fd < 0)
        err = errno;
    else if (sys_ioctl(*fd, UFFDIO_API, &api) != 0) {
        err = errno;
        sys_close(*fd);
    }
    return err == EINVAL || err == EPERM || err == ENOSYS ? -EOPNOTSUPP : -err;
}

static int register_page(int fd)
{
    struct uffdio_register what = {.range = {.start = (uintptr_t)watch.page, .len = PAGE},
                                   .mode = UFFDIO_REGISTER_MODE_WP};

    return sys_ioctl(fd, UFFDIO_REGISTER, &what) == 0 ? 0
           : errno == EINVAL                          ? -EOPNOTSUPP
                                                      : -errno;
}

static int memwatch_start(void)
{
    int fd, err = open_fd(&fd);

    if (err != 0)
        return err;
    watch.page = mem_alloc_aligned(PAGE, PAGE);
    err = watch.page != NULL ? register_page(fd) : -ENOMEM;
    if (err != 0)
        goto close_fd;
    watch.bell = sys_eventfd(0, 0);
    if (watch.bell < 0) {
        err = -errno;
        goto close_fd;
    }
    watch.fd = fd;
    err = thread_start(&watch.thread, memwatch_run, NULL);
    if (err == 0)
        return 0;
    sys_close(watch.bell);
close_fd:
    sys_close(fd);
    mem_free(watch.page);
    return err;
}

int memwatch_open(void)
{
    int err;

    pthread_mutex_lock(&watch.opening);
    err = watch.users == 0 ? memwatch_start() : 0;
    watch.users += err == 0;
    pthread_mutex_unlock(&watch.opening);
    return err;
}

void memwatch_close(void)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&watch.opening);
    if (--watch.users == 0) {
        while (sys_write(watch.bell, &one, sizeof one) < 0)
            sys_yield();
        pthread_join(watch.thread, NULL);
        sys_close(watch.bell);
        mem_free(watch.page);
    }
    pthread_mutex_unlock(&watch.opening);
}

/* ---- which memory ---- */

/* A mapping in /proc/self/maps. */
struct mapping {
    uintptr_t begin, end;
    bool is_ours; /* private, anonymous, writable */
};

/* Reads that file line by line, without an allocation. */
struct maps {
    int fd;
    size_t from, to;
    char text[4096];
};

static int next_byte(struct maps *maps)
{
    if (maps->from == maps->to) {
        ssize_t n = sys_read(maps->fd, maps->text, sizeof maps->text);

        if (n <= 0)
            return -1;
        maps->from = 0;
        maps->to = (size_t)n;
    }
    return (unsigned char)maps->text[maps->from++];
}

/* False: there are no more. */
static bool next_mapping(struct maps *maps, struct mapping *mapping)
{
    unsigned long long begin, end, inode;
    char line[128], rights[8];
    size_t length = 0;
    int byte;

    while ((byte = next_byte(maps)) >= 0 && byte != '\n')
        if (length < sizeof line - 1)
            line[length++] = (char)byte;
    line[length] = '\0';
    if (sscanf(line, "%llx-%llx %7s %*s %*s %llu", &begin, &end, rights, &inode) != 4)
        return false;
    *mapping =
        (struct mapping){.begin = (uintptr_t)begin,
                         .end = (uintptr_t)end,
                         .is_ours = strcmp(rights, "rw-p") == 0 || strcmp(rights, "rwxp") == 0};
    mapping->is_ours &= inode == 0;
    return true;
}

/* Is the whole range private anonymous memory that can be written? */
static bool is_watchable(uintptr_t begin, uintptr_t end)
{
    struct maps maps = {.fd = sys_open("/proc/self/maps", O_RDONLY, 0)};
    struct mapping mapping;

    if (maps.fd < 0)
        return false;
    while (begin < end && next_mapping(&maps, &mapping) && mapping.begin <= begin)
        if (begin < mapping.end) {
            if (!mapping.is_ours)
                break;
            begin = mapping.end;
        }
    sys_close(maps.fd);
    return begin >= end;
}

/* ---- ranges ---- */

static bool is_shared(const struct memwatch_range *range)
{
    const struct list *node;

    list_for_each (node, &watch.ranges) {
        const struct memwatch_range *other = container_of(node, struct memwatch_range, node);

        if (other != range && other->begin < range->end && range->begin < other->end)
            return true;
    }
    return false;
}

int memwatch_add(struct memwatch_range *range, uintptr_t begin, size_t size)
{
    struct uffdio_register what = {.range = {.start = begin, .len = size},
                                   .mode = UFFDIO_REGISTER_MODE_WP};
    int err;

    *range = (struct memwatch_range){.begin = begin, .end = begin + size};
    list_init_node(&range->node);
    pthread_mutex_lock(&watch.lock);
    err = sys_ioctl(watch.fd, UFFDIO_REGISTER, &what) == 0 ? 0 : errno;
    if (err == 0)
        list_add_tail(&watch.ranges, &range->node);
    pthread_mutex_unlock(&watch.lock);
    if (err == 0 && !is_watchable(begin, range->end)) {
        memwatch_remove(range);
        return -EOPNOTSUPP;
    }
    return err == EINVAL || err == EPERM ? -EOPNOTSUPP : -err;
}

/* The pages of a range that is gone may belong to another mapping by now. */
void memwatch_remove(struct memwatch_range *range)
{
    struct uffdio_range what = {.start = range->begin, .len = range->end - range->begin};

    pthread_mutex_lock(&watch.lock);
    if (!range->is_gone && !is_shared(range))
        sys_ioctl(watch.fd, UFFDIO_UNREGISTER, &what);
    list_remove(&range->node);
    pthread_mutex_unlock(&watch.lock);
}

bool memwatch_check(uint64_t *gone)
{
    struct uffdio_writeprotect nothing = {
        .range = {.start = (uintptr_t)watch.page, .len = PAGE}};
    int err;

    pthread_mutex_lock(&watch.lock);
    err = sys_ioctl(watch.fd, UFFDIO_WRITEPROTECT, &nothing);
    *gone = watch.gone;
    pthread_mutex_unlock(&watch.lock);
    return err == 0;
}

bool memwatch_is_gone(const struct memwatch_range *range)
{
    bool is_gone;

    pthread_mutex_lock(&watch.lock);
    is_gone = range->is_gone;
    pthread_mutex_unlock(&watch.lock);
    return is_gone;
}
