/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * directory.c - see directory.h.
 */
#include "transport/shm/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define DIRECTORY_MAGIC UINT64_C(0x33746e6f7266626d) /* "mbfront3" */
#define DIRECTORY_TURNS 4 /* attempts, each lost to a faster process */
#define SEALS           (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The first process of a job locks a range of this file; its length encodes where the directory
 * is. */
#define MARK_FILE         "/dev/zero"
#define MARK_PROCESS_BITS 22 /* the kernel's pids are not longer */
#define MARK_PLACE_BITS   16
#define MARK_BITS         (MARK_PROCESS_BITS + MARK_PLACE_BITS)

struct directory_label {
    _Atomic uint64_t label;  /* 0: unused */
    _Atomic uint64_t cookie; /* 0: not set yet */
};

struct directory_head {
    uint64_t magic;
    uint64_t job;
    uint64_t parts;
    uint64_t zero[5];
    _Atomic uint64_t table[DIRECTORY_PLACES];
    struct directory_label labels[DIRECTORY_PLACES];
};

static_assert(sizeof(struct directory_head) <= DIRECTORY_UNIT,
              "before the first control block");

struct directory {
    struct directory_head *head;
    uint32_t parts; /* validated */
    uint64_t job;
    int fd;
    int mark; /* in the process that made it: the descriptor with the lock; otherwise -1 */
    unsigned users;
    struct list node;
};

/* The directories that this process has joined. */
static struct {
    pthread_mutex_t lock;
    struct list all;
} joined = {.lock = PTHREAD_MUTEX_INITIALIZER, .all = {&joined.all, &joined.all}};

/* ---- files ---- */

int shared_file_create(size_t size)
{
    int fd = sys_memfd_create("matchbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int err;

    if (fd < 0)
        return -errno;
    if (sys_fchmod(fd, 0600) < 0 || sys_ftruncate(fd, (off_t)size) < 0 ||
        sys_fcntl_seal(fd, F_ADD_SEALS, SEALS) < 0) {
        err = -errno;
        sys_close(fd);
        return err;
    }
    return fd;
}

int shared_file_check(int fd, size_t *size)
{
    struct stat status;
    int seals;

    if (sys_fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -ENOENT;
    if (status.st_uid != geteuid())
        return -EPERM;
    seals = sys_fcntl_seal(fd, F_GET_SEALS, 0);
    if (seals < 0)
        return errno == EINVAL ? -ENOENT : -errno; /* no memfd */
    *size = (size_t)status.st_size;
    return (seals & F_SEAL_SHRINK) != 0 ? 0 : -EPROTO;
}

/* Converts errno: the file does not exist, or is not for us. */
static int open_error(void)
{
    if (errno == EACCES || errno == EPERM)
        return -EPERM; /* -EACCES means another key */
    /* the descriptor is not a file any more, or of another kind */
    return errno == ESRCH || errno == ENXIO || errno == EISDIR ? -ENOENT : -errno;
}

/* Opens a path only if it is a file of our user: another user's process may have got the number
 * meanwhile, with any kind of file there, and root could open it. */
static int open_own(int path)
{
    char name[64];
    struct stat status;
    int fd;

    if (sys_fstat(path, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -ENOENT;
    if (status.st_uid != geteuid())
        return -EPERM;
    snprintf(name, sizeof name, "/proc/self/fd/%d", path);
    fd = sys_open(name, O_RDWR | O_NONBLOCK, 0);
    return fd >= 0 ? fd : open_error();
}

int shared_file_open(uint32_t process, uint32_t place)
{
    char name[64];
    int path, fd;

    snprintf(name, sizeof name, "/proc/%u/fd/%u", process, place);
    path = sys_open(name, O_PATH, 0);
    if (path < 0)
        return open_error();
    fd = open_own(path);
    sys_close(path);
    return fd;
}

/* ---- layout ---- */

static size_t size_of(uint32_t parts)
{
    return DIRECTORY_UNIT + parts * DIRECTORY_STRIDE;
}

static void *block_of(const struct directory *d, uint32_t place)
{
    return (unsigned char *)d->head + (1 + place) * DIRECTORY_UNIT;
}

void *directory_take(struct directory *d, uint64_t cookie, uint32_t *at)
{
    for (uint32_t place = 0; place < DIRECTORY_PLACES; place++) {
        uint64_t nobody = 0;

        if (atomic_load_explicit(&d->head->table[place], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(&d->head->table[place], &nobody, cookie)) {
            *at = 1 + place;
            return block_of(d, place);
        }
    }
    LOG_DEBUG("shm: all %u places of the job's directory are taken", DIRECTORY_PLACES);
    return NULL;
}

void directory_drop(struct directory *d, uint32_t at, uint32_t parts)
{
    size_t kept = (size_t)sysconf(_SC_PAGESIZE);

    for (uint32_t part = 0; part < parts; part++, kept = 0)
        (void)sys_fallocate_punch(d->fd,
                                  (off_t)(at * DIRECTORY_UNIT + part * DIRECTORY_STRIDE + kept),
                                  (off_t)(DIRECTORY_UNIT - kept));
}

void *directory_find(const struct directory *d, uint64_t cookie)
{
    for (uint32_t place = 0; place < DIRECTORY_PLACES; place++) {
        /* pairs with the exchange in directory_take() */
        uint64_t whose = atomic_load_explicit(&d->head->table[place], memory_order_acquire);

        if (whose == cookie)
            return block_of(d, place);
        if (whose == 0)
            break;
    }
    return NULL;
}

/* The entry of this label, created if `makes`.  NULL: there is none, or no space. */
static struct directory_label *label_entry(const struct directory *d, uint64_t label,
                                           bool makes)
{
    for (uint32_t i = 0; i < DIRECTORY_PLACES; i++) {
        struct directory_label *entry = &d->head->labels[(label + i) % DIRECTORY_PLACES];
        uint64_t found = atomic_load_explicit(&entry->label, memory_order_relaxed);

        if (found == 0 &&
            (!makes || atomic_compare_exchange_strong(&entry->label, &found, label)))
            return makes ? entry : NULL;
        if (found == label)
            return entry;
    }
    return NULL;
}

int directory_label(struct directory *d, uint64_t label, uint64_t now, uint64_t cookie)
{
    struct directory_label *entry = label_entry(d, label, true);

    if (entry == NULL)
        return -ENOSPC;
    return atomic_compare_exchange_strong(&entry->cookie, &now, cookie) ? 0 : -EEXIST;
}

uint64_t directory_labelled(const struct directory *d, uint64_t label)
{
    const struct directory_label *entry = label_entry(d, label, false);

    /* pairs with the exchange in directory_label(): sees the control block as its owner wrote
     * it */
    return entry != NULL ? atomic_load_explicit(&entry->cookie, memory_order_acquire) : 0;
}

uint32_t directory_parts(const struct directory *d)
{
    return d->parts;
}

int directory_fd(const struct directory *d)
{
    return d->fd;
}

/* ---- making and finding ---- */

/* 0; system errors. */
static int map(struct directory *d, int fd)
{
    d->head = sys_mmap(size_of(d->parts), fd, 0);
    if (d->head == NULL)
        return -errno;
    d->fd = fd;
    return 0;
}

static void unmap(struct directory *d)
{
    sys_munmap(d->head, size_of(d->parts));
    sys_close(d->fd);
}

/* The first byte of the range of MARK_FILE that the job's first process locks. */
static struct flock mark_of(uint64_t job)
{
    uint64_t mixed = (job + geteuid()) * UINT64_C(0x9e3779b97f4a7c15);

    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)(mixed >> (MARK_BITS + 1) << MARK_BITS),
                          .l_len = 1};
}

/* Lets others find descriptor fd of this process.  0; -EAGAIN another process was faster; other
 * errors. */
static int lock_mark(uint64_t job, int mark, int fd)
{
    struct flock lock = mark_of(job);

    if (fd >= 1 << MARK_PLACE_BITS)
        return -EMFILE;
    lock.l_len = (off_t)getpid() << MARK_PLACE_BITS | fd;
    if (sys_fcntl_lock(mark, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EACCES ? -EAGAIN : -errno;
}

static int make(struct directory *d, int mark)
{
    int fd = shared_file_create(size_of(d->parts));
    int err = fd < 0 ? fd : map(d, fd);

    if (err != 0)
        goto close_file;
    d->head->job = d->job;
    d->head->parts = d->parts;
    d->head->magic = DIRECTORY_MAGIC;
    err = lock_mark(d->job, mark, fd); /* from now on others find it */
    if (err == 0)
        d->mark = mark;
    else
        unmap(d);
    return err;

close_file:
    if (fd >= 0)
        sys_close(fd);
    return err;
}

/* Is this the file of the job?  0; -ENOENT; other errors. */
static int directory_check(const struct directory *d, int fd)
{
    struct directory_head head;
    size_t size = 0;
    int err = shared_file_check(fd, &size);

    if (err != 0)
        return err;
    if (size != size_of(d->parts))
        return -ENOENT; /* also for control blocks of another size */
    if (sys_read(fd, &head, offsetof(struct directory_head, table)) !=
        (ssize_t)offsetof(struct directory_head, table))
        return -ENOENT;
    return head.magic == DIRECTORY_MAGIC && head.job == d->job && head.parts == d->parts
               ? 0
               : -ENOENT;
}

/* The directory may be descriptor `place` of process.  0; errors. */
static int find_at(struct directory *d, uint32_t process, uint32_t place)
{
    int fd = shared_file_open(process, place);
    int err = fd < 0 ? fd : directory_check(d, fd);

    if (err == 0)
        err = map(d, fd);
    if (err != 0 && fd >= 0)
        sys_close(fd);
    return err;
}

/* Follows a lock, which anyone may have made, to the file.  0; errors. */
static int directory_find_owner(struct directory *d, const struct flock *lock)
{
    if (lock->l_type != F_WRLCK || lock->l_start != mark_of(d->job).l_start ||
        lock->l_len >> MARK_BITS != 0)
        return -EPERM;
    return find_at(d, (uint32_t)(lock->l_len >> MARK_PLACE_BITS),
                   (uint32_t)(lock->l_len & ((1 << MARK_PLACE_BITS) - 1)));
}

/* One attempt: 0 joined; -EAGAIN try again; other errors. */
static int directory_meet(struct directory *d, int mark)
{
    struct flock lock = mark_of(d->job);

    if (sys_fcntl_lock(mark, F_OFD_GETLK, &lock) < 0)
        return -errno;
    return lock.l_type == F_UNLCK ? make(d, mark) : directory_find_owner(d, &lock);
}

static int join(struct directory *d)
{
    int mark = sys_open(MARK_FILE, O_RDWR, 0), err = -EAGAIN;

    if (mark < 0)
        return -errno;
    for (int i = 0; i < DIRECTORY_TURNS && err == -EAGAIN; i++)
        err = directory_meet(d, mark);
    if (d->mark < 0)
        sys_close(mark);
    return err;
}

static struct directory *directory_create(uint64_t job, uint32_t parts)
{
    struct directory *d = mem_calloc(1, sizeof *d);
    int err;

    if (d == NULL)
        return NULL;
    d->job = job;
    d->parts = parts;
    d->mark = -1;
    err = join(d);
    if (err == 0)
        return d;
    LOG_DEBUG("shm: no directory for the job, error %d %s: each endpoint has its own", -err,
              strerror(-err));
    mem_free(d);
    return NULL;
}

static void directory_destroy(struct directory *d)
{
    if (d->mark >= 0)
        sys_close(d->mark);
    unmap(d);
    mem_free(d);
}

/* ---- users ---- */

static struct directory *find_joined(uint64_t job, uint32_t parts)
{
    struct list *node;

    list_for_each (node, &joined.all) {
        struct directory *d = container_of(node, struct directory, node);

        if (d->job == job && d->parts == parts)
            return d;
    }
    return NULL;
}

struct directory *directory_join(uint64_t job, uint32_t parts)
{
    struct directory *d;

    assert(parts >= 1);
    pthread_mutex_lock(&joined.lock);
    d = find_joined(job, parts);
    if (d == NULL) {
        d = directory_create(job, parts);
        if (d != NULL)
            list_add_tail(&joined.all, &d->node);
    }
    if (d != NULL)
        d->users++;
    pthread_mutex_unlock(&joined.lock);
    return d;
}

void directory_leave(struct directory *d)
{
    bool is_last;

    pthread_mutex_lock(&joined.lock);
    is_last = --d->users == 0;
    if (is_last)
        list_remove(&d->node);
    pthread_mutex_unlock(&joined.lock);
    if (is_last)
        directory_destroy(d);
}
