/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.c - making, finding and believing a segment.
 *
 * What another process offers as its segment is believed in this order:
 *
 *   the descriptor   a regular file of our user, sealed against shrinking
 *   its head         read once into our memory: magic, cookie, key check, sizes
 *   its size         what the numbers in the head make must be what the file has
 *
 * After that nothing in it can make us touch memory that is not there; its contents
 * are checked where they are read.
 */
#include "transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

/* A multiple of all sizes of a page. */
#define FRONT_UNIT ((size_t)65536)

#define SEALS      (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The segments whose owners are in this process. */
static struct {
    pthread_mutex_t lock;
    struct list segments;
} local = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .segments = {&local.segments, &local.segments},
};

/* ---- layout ---- */

static size_t control_size(uint32_t peers)
{
    size_t bits = round_up(peers, 8 * CACHE_LINE) / 8;

    return sizeof(struct segment_control) + bits;
}

static size_t segment_size(uint32_t peers, uint32_t ring_cells)
{
    return control_size(peers) + (size_t)peers * sizeof(struct segment_slot) +
           (SEGMENT_WORDS + SEGMENT_TABLE) * sizeof(uint64_t) +
           (size_t)peers * ring_bytes(ring_cells);
}

/* What everybody needs who has found it, in pages. */
static size_t front_size(uint32_t peers)
{
    return round_up(control_size(peers) + (size_t)peers * sizeof(struct segment_slot),
                    FRONT_UNIT);
}

static bool geometry_is_valid(uint32_t peers, uint32_t ring_cells)
{
    return peers >= 1 && peers <= SEGMENT_PEERS_MAX && ring_count_is_valid(ring_cells);
}

/* It lies at base, so much of it. */
static void place(struct segment *s, void *base, size_t mapped)
{
    s->control = base;
    s->slots = (struct segment_slot *)(void *)((unsigned char *)base + control_size(s->peers));
    s->mapped = mapped;
    if (mapped < s->size)
        return;
    s->words = (_Atomic uint64_t *)(void *)(s->slots + s->peers);
    s->rings = (unsigned char *)(s->words + SEGMENT_WORDS + SEGMENT_TABLE);
}

static int map(struct segment *s, int fd, uint32_t peers, uint32_t ring_cells, bool all)
{
    size_t size = segment_size(peers, ring_cells);
    size_t mapped = all ? size : min_size(size, front_size(peers));
    void *base = sys_mmap(mapped, fd, 0);

    if (base == NULL)
        return -errno;
    s->size = size;
    s->ring_stride = ring_bytes(ring_cells);
    s->peers = peers;
    s->ring_cells = ring_cells;
    place(s, base, mapped);
    return 0;
}

int segment_map_all(struct segment *s)
{
    void *base;

    if (s->mapped == s->size)
        return 0;
    base = sys_mremap(s->control, s->mapped, s->size);
    if (base == NULL)
        return errno == EAGAIN ? -ENOMEM : -errno;
    place(s, base, s->size);
    return 0;
}

/* ---- making ---- */

/* A sealed file of size bytes; its descriptor, or an error. */
static int create_file(size_t size)
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

static void publish(struct segment *s)
{
    pthread_mutex_lock(&local.lock);
    list_add_tail(&local.segments, &s->in_local);
    pthread_mutex_unlock(&local.lock);
}

int segment_create(const struct segment_config *config, struct segment **out)
{
    struct segment *s = mem_calloc(1, sizeof *s);
    int err;

    assert(geometry_is_valid(config->peers, config->ring_cells));
    if (s == NULL)
        return -ENOMEM;
    s->fd = create_file(segment_size(config->peers, config->ring_cells));
    if (s->fd < 0) {
        err = s->fd;
        goto free_segment;
    }
    err = map(s, s->fd, config->peers, config->ring_cells, true);
    if (err != 0)
        goto close_file;
    s->cookie = config->cookie;
    s->key_check = config->key_check;
    s->needs_fence = config->needs_fence;
    s->users = 1;
    s->control->head = (struct segment_head){
        .magic = SEGMENT_MAGIC,
        .cookie = config->cookie,
        .key_check = config->key_check,
        .size = s->size,
        .peers = config->peers,
        .ring_cells = config->ring_cells,
        .needs_fence = config->needs_fence,
    };
    publish(s);
    *out = s;
    return 0;

close_file:
    sys_close(s->fd);
free_segment:
    mem_free(s);
    return err;
}

/* ---- finding ---- */

/* The segment at address, whose owner is in this process, with one more user. */
static struct segment *find_local(const struct transport_address *address)
{
    struct segment *found = NULL;
    struct list *node;

    pthread_mutex_lock(&local.lock);
    list_for_each (node, &local.segments) {
        struct segment *s = container_of(node, struct segment, in_local);

        if (s->cookie == address->cookie && s->fd == (int)address->place) {
            found = s;
            found->users++;
            break;
        }
    }
    pthread_mutex_unlock(&local.lock);
    return found;
}

static int open_foreign(const struct transport_address *address)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%u/fd/%u", address->process, address->place);
    fd = sys_open(path, O_RDWR | O_NONBLOCK | O_NOCTTY, 0);
    if (fd >= 0)
        return fd;
    if (errno == EACCES || errno == EPERM)
        return -EPERM; /* -EACCES says that its contents are not for us */
    /* a descriptor that is not a file any more, or not of this kind */
    return errno == ESRCH || errno == ENXIO || errno == EISDIR ? -ENOENT : -errno;
}

static int check_file(int fd, size_t *size)
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

static int check_head(const struct segment_head *head, size_t size, uint64_t cookie,
                      uint64_t key_check)
{
    if (head->magic != SEGMENT_MAGIC || head->cookie != cookie)
        return -ENOENT;
    if (head->key_check != key_check)
        return -EACCES;
    if (!geometry_is_valid(head->peers, head->ring_cells) || head->size != size ||
        size != segment_size(head->peers, head->ring_cells))
        return -EPROTO;
    return 0;
}

static int read_head(int fd, struct segment_head *head)
{
    ssize_t size = sys_read(fd, head, sizeof *head);

    if (size < 0)
        return -errno;
    return size == (ssize_t)sizeof *head ? 0 : -ENOENT;
}

static int attach_file(struct segment *s, int fd, uint64_t cookie, uint64_t key_check, bool all)
{
    struct segment_head head;
    size_t size = 0;
    int err = check_file(fd, &size);

    if (err == 0)
        err = read_head(fd, &head);
    if (err == 0)
        err = check_head(&head, size, cookie, key_check);
    if (err == 0)
        err = map(s, fd, head.peers, head.ring_cells, all);
    if (err != 0)
        return err;
    s->cookie = cookie;
    s->key_check = key_check;
    s->needs_fence = head.needs_fence != 0;
    s->fd = -1;
    s->users = 1;
    return 0;
}

/* The mapping keeps the memory: the descriptor is kept only if all of it is mapped, to receive. */
static int attach_foreign(const struct transport_address *address, uint64_t key_check, bool all,
                          struct segment **out)
{
    struct segment *s = mem_calloc(1, sizeof *s);
    int err, fd;

    if (s == NULL)
        return -ENOMEM;
    fd = open_foreign(address);
    if (fd < 0) {
        err = fd;
        goto free_segment;
    }
    err = attach_file(s, fd, address->cookie, key_check, all);
    if (err == 0 && all)
        s->fd = fd;
    else
        sys_close(fd);
    if (err != 0)
        goto free_segment;
    *out = s;
    return 0;

free_segment:
    mem_free(s);
    return err;
}

static int attach_local(const struct transport_address *address, uint64_t key_check,
                        struct segment **out)
{
    struct segment *s = find_local(address);

    if (s == NULL)
        return -ENOENT;
    if (s->key_check != key_check) {
        segment_detach(s);
        return -EACCES;
    }
    *out = s;
    return 0;
}

int segment_attach(const struct transport_address *address, uint64_t key_check,
                   struct segment **out)
{
    return address->process == (uint32_t)getpid()
               ? attach_local(address, key_check, out)
               : attach_foreign(address, key_check, false, out);
}

int segment_take_over(const struct transport_address *address, uint64_t key_check,
                      struct segment **out)
{
    return address->process == (uint32_t)getpid()
               ? attach_local(address, key_check, out)
               : attach_foreign(address, key_check, true, out);
}

int segment_probe(const struct transport_address *address)
{
    struct segment_head head;
    int fd = open_foreign(address);
    int err;

    if (fd < 0)
        return fd;
    err = read_head(fd, &head);
    sys_close(fd);
    if (err == 0 && (head.magic != SEGMENT_MAGIC || head.cookie != address->cookie))
        err = -ENOENT;
    return err;
}

/* ---- ends ---- */

void segment_detach(struct segment *s)
{
    unsigned users;

    pthread_mutex_lock(&local.lock);
    users = --s->users;
    pthread_mutex_unlock(&local.lock);
    if (users != 0)
        return;
    if (s->fd >= 0)
        sys_close(s->fd);
    sys_munmap(s->control, s->mapped);
    mem_free(s);
}

void segment_close(struct segment *s)
{
    pthread_mutex_lock(&local.lock);
    list_remove(&s->in_local);
    pthread_mutex_unlock(&local.lock);
    sys_close(s->fd); /* now, and not with the last user: nobody shall find it any more */
    s->fd = -1;
    segment_detach(s);
}

void segment_clear_ring(struct segment *s, uint32_t i)
{
    struct ring *starter = segment_starter(s, i), *ring = segment_ring(s, i);
    off_t offset = (off_t)((unsigned char *)ring - (unsigned char *)s->control);

    /* the ring first: whoever is killed in between is followed by one who sees that there is one */
    if (atomic_load_explicit(&starter->moved, memory_order_relaxed) != 0 &&
        sys_fallocate_punch(s->fd, offset, (off_t)s->ring_stride) < 0)
        memset((void *)ring, 0, s->ring_stride);
    memset((void *)starter, 0, SEGMENT_STARTER_BYTES);
}
