/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.c - our own segments, from creation to close, and the segments within this process.
 */
#include "transport/shm/segment.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/shm/segment_layout.h"

/* The segments whose owners are in this process. */
static struct {
    pthread_mutex_t lock;
    struct list segments;
} local = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .segments = {&local.segments, &local.segments},
};

int segment_map(struct segment *s, int fd, size_t mapped)
{
    void *base = sys_mmap(mapped, fd, 0);

    if (base == NULL)
        return -errno;
    layout_place_file(s, base, mapped);
    return 0;
}

static void unmap(const struct segment *s)
{
    const struct segment_file *file = s->file;

    if (file->base != NULL)
        sys_munmap(file->base, file->mapped);
    if (file->block != NULL)
        sys_munmap(file->block, layout_spread(s->peers));
    if (file->directory != NULL)
        directory_leave(file->directory);
}

int segment_add_file(struct segment *s, uint64_t cookie, uint64_t key_check)
{
    s->file = mem_calloc(1, sizeof *s->file);
    if (s->file == NULL)
        return -ENOMEM;
    s->file->cookie = cookie;
    s->file->key_check = key_check;
    s->file->fd = -1;
    return 0;
}

void segment_destroy(struct segment *s)
{
    if (s->file != NULL)
        unmap(s);
    mem_free(s->file);
    mem_free(s);
}

/* ---- making ---- */

static void publish(struct segment *s)
{
    s->file->owned = s;
    pthread_mutex_lock(&local.lock);
    list_add_tail(&local.segments, &s->file->in_local);
    pthread_mutex_unlock(&local.lock);
}

/* Places the control block in the directory of the job, if possible. */
static void place_in_directory(struct segment *s, uint64_t job)
{
    struct directory *directory =
        job != 0 ? directory_join(job, layout_parts(s->peers, s->peers)) : NULL;
    void *block = directory != NULL
                      ? directory_take(directory, s->file->cookie, &s->file->block_at)
                      : NULL;

    if (block != NULL) {
        s->file->directory = directory;
        s->is_apart = true;
        layout_place_block(s, block);
    } else if (directory != NULL) {
        directory_leave(directory);
    }
}

/* Writes the head into the segment's file, and to its control block if that is elsewhere. */
static void write_head(struct segment *s)
{
    const struct segment_file *file = s->file;
    struct segment_head head = {
        .magic = SEGMENT_MAGIC,
        .version = version_own(SEGMENT_VERSION),
        .cookie = file->cookie,
        .key_check = file->key_check,
        .peers = s->peers,
        .ring_cells = s->ring_cells,
        .needs_fence = s->needs_fence,
        .long_shift = s->long_shift,
        .host = file->host,
        .place = (uint32_t)file->fd,
        .block_place = file->directory != NULL ? (uint32_t)directory_fd(file->directory) : 0,
        .block_at = file->block_at,
    };

    *(struct segment_head *)file->base = head;
    s->control->head = head;
}

static int create_file(struct segment *s, const struct segment_config *config)
{
    int err = segment_add_file(s, config->cookie, config->key_check);

    if (err != 0)
        return err;
    s->file->size = layout_size(layout_of(s));
    s->file->host = config->host;
    s->file->fd = shared_file_create(s->file->size);
    if (s->file->fd < 0)
        return s->file->fd;
    err = segment_map(s, s->file->fd, s->file->size);
    if (err != 0)
        sys_close(s->file->fd);
    return err;
}

int segment_create(const struct segment_config *config, struct segment **out)
{
    const struct segment_layout layout = {config->peers, config->rings};
    struct segment *s = mem_calloc(1, sizeof *s);
    int err;

    assert(layout_is_valid(layout));
    if (s == NULL)
        return -ENOMEM;
    layout_set(s, layout);
    s->needs_fence = config->needs_fence;
    s->users = 1;
    err = create_file(s, config);
    if (err != 0) {
        segment_destroy(s);
        return err;
    }
    place_in_directory(s, config->job);
    s->control->rank = config->rank;
    write_head(s);
    publish(s);
    *out = s;
    return 0;
}

/* ---- segments of this process ---- */

struct segment *segment_find_local(const struct transport_address *address)
{
    struct segment *found = NULL;
    struct list *node;

    pthread_mutex_lock(&local.lock);
    list_for_each (node, &local.segments) {
        struct segment_file *file = container_of(node, struct segment_file, in_local);

        if (file->cookie == address->cookie &&
            (passing_is_number(address->process) || file->fd == (int)address->place)) {
            found = file->owned;
            found->users++;
            break;
        }
    }
    pthread_mutex_unlock(&local.lock);
    return found;
}

/* The caller has the lock. */
static const struct segment_file *open_file_with(uint64_t cookie)
{
    struct list *node;

    list_for_each (node, &local.segments) {
        const struct segment_file *file = container_of(node, struct segment_file, in_local);

        if (file->cookie == cookie)
            return file;
    }
    return NULL;
}

bool segment_is_open(uint64_t cookie)
{
    bool is_open;

    pthread_mutex_lock(&local.lock);
    is_open = open_file_with(cookie) != NULL;
    pthread_mutex_unlock(&local.lock);
    return is_open;
}

int segment_pass(uint64_t cookie, uint64_t key_check, int (*pass)(void *arg, int fd), void *arg)
{
    const struct segment_file *file;
    int err = -ENOENT;

    pthread_mutex_lock(&local.lock);
    file = open_file_with(cookie);
    if (file != NULL)
        err = file->key_check == key_check ? pass(arg, file->fd) : -EACCES;
    pthread_mutex_unlock(&local.lock);
    return err;
}

/* ---- labels ---- */

/* The control block with this cookie in the directory, if its owner is open; or NULL. */
static struct segment_control *live_block(const struct directory *directory, uint64_t cookie)
{
    struct segment_control *control = cookie != 0 ? directory_find(directory, cookie) : NULL;
    struct segment_head head;

    if (control == NULL)
        return NULL;
    head = *(volatile struct segment_head *)&control->head;
    return head.magic == SEGMENT_MAGIC && head.cookie == cookie ? control : NULL;
}

int segment_share(struct segment *s, uint64_t label, const struct transport_address *address)
{
    struct directory *directory = s->file->directory;
    uint64_t now;

    if (directory == NULL)
        return -ENOTSUP;
    now = directory_labelled(directory, label);
    if (live_block(directory, now) != NULL)
        return -EEXIST;
    if (s->control->address.cookie != s->file->cookie) /* others read it after labelling */
        s->control->address = *address;
    return directory_label(directory, label, now, s->file->cookie);
}

int segment_find(const struct segment *s, uint64_t label, struct transport_address *address)
{
    const struct directory *directory = s->file->directory;
    const struct segment_control *control;
    uint64_t cookie;

    if (directory == NULL)
        return -ENOENT;
    cookie = directory_labelled(directory, label);
    control = live_block(directory, cookie);
    if (control == NULL)
        return -ENOENT;
    *address = *(volatile const struct transport_address *)&control->address;
    return address->cookie == cookie ? 0 : -ENOENT;
}

/* ---- users and close ---- */

struct segment *segment_hold(struct segment *s)
{
    pthread_mutex_lock(&local.lock);
    s->users++;
    pthread_mutex_unlock(&local.lock);
    return s;
}

void segment_detach(struct segment *s)
{
    unsigned users;

    pthread_mutex_lock(&local.lock);
    users = --s->users;
    pthread_mutex_unlock(&local.lock);
    if (users != 0)
        return;
    if (s->file != NULL && s->file->fd >= 0)
        sys_close(s->file->fd);
    segment_destroy(s);
}

void segment_close(struct segment *s)
{
    pthread_mutex_lock(&local.lock);
    list_remove(&s->file->in_local);
    pthread_mutex_unlock(&local.lock);
    sys_close(s->file->fd); /* now, not with the last user: nobody must find it any more */
    s->file->fd = -1;
    if (s->file->directory != NULL) {
        s->control->head.magic = 0;
        directory_drop(s->file->directory, s->file->block_at,
                       layout_parts(s->peers, segment_slots_used(s)));
    }
    segment_detach(s);
}

void segment_clear_ring(struct segment *s, uint32_t i)
{
    struct ring *mailbox = segment_mailbox(s, i), *ring = segment_ring(s, i);
    size_t size = ring_bytes(segment_ring_cells(s, i));
    off_t offset = (off_t)((unsigned char *)ring - (unsigned char *)s->file->base);

    /* the ring first: after a kill in between, `moved` tells the next receiver that there is a
     * ring */
    if (atomic_load_explicit(&mailbox->moved, memory_order_relaxed) != 0 &&
        sys_fallocate_punch(s->file->fd, offset, (off_t)size) < 0)
        memset((void *)ring, 0, size);
    memset((void *)mailbox, 0, offsetof(struct ring, keeper));
    memset(mailbox->cells, 0, SEGMENT_MAILBOX_CELLS * RING_CELL_SIZE);
}
