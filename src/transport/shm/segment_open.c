/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment_open.c - opens the segments of other endpoints.
 *
 * segment_open() tries these places, in this order (placements[]):
 *
 *   place           found by                         what SEGMENT_BLOCK maps
 *   this process    the list of open segments        nothing: the segment is shared, and counted
 *   the job's file  its cookie, in the directory     nothing: that file is mapped already
 *   its own file    /proc/<pid>/fd/<fd>, or a        the control block; if that is in the file of
 *                   passed descriptor (passing.h)    another job, only the control block there
 *
 * The rest (SEGMENT_ALL) is always in the segment's own file.  segment_layout.h says how files
 * and control blocks are validated.
 */
#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/shm/segment_layout.h"

/* ---- its own file ---- */

/* Takes the constants of a validated head. */
static void take_head(struct segment *s, const struct segment_head *head)
{
    layout_set(s, head_layout(head));
    s->needs_fence = head->needs_fence != 0;
    s->users = 1;
}

/* Maps the control block in another file of the owner, after validating it against head. */
static int map_block(struct segment *s, int fd, const struct segment_head *head)
{
    size_t size = 0, at = head->block_at * DIRECTORY_UNIT, spread = layout_spread(s->peers);
    struct segment_file *file = s->file;
    struct segment_head found;
    void *block;
    int err = shared_file_check(fd, &size);

    if (err != 0)
        return err;
    if (at > size || size - at < spread)
        return -EPROTO;
    block = sys_mmap(spread, fd, (off_t)at);
    if (block == NULL)
        return -errno;
    found = *(volatile struct segment_head *)block;
    err = head_check(&found, file->size, file->cookie, file->key_check);
    if (err == 0 && !layouts_agree(head_layout(&found), head_layout(head)))
        err = -EPROTO;
    if (err != 0) {
        sys_munmap(block, spread);
        return err;
    }
    file->block = block;
    s->is_apart = true;
    layout_place_block(s, block);
    return 0;
}

static int open_block(struct segment *s, uint32_t process, const struct segment_head *head)
{
    int fd = shared_file_open(process, head->block_place);
    int err = fd < 0 ? fd : map_block(s, fd, head);

    if (fd >= 0)
        sys_close(fd);
    return err;
}

/* The head of the file of s is valid.  It defines the layout and where the control block is; if
 * these are known already, they must agree.  0; -EPROTO; the errors of opening a control
 * block. */
static int believe_head(struct segment *s, const struct transport_address *address,
                        const struct segment_head *head)
{
    struct segment_file *file = s->file;

    if (s->control != NULL && !layouts_agree(head_layout(head), layout_of(s)))
        return -EPROTO;
    file->size = layout_size(head_layout(head));
    if (s->control != NULL)
        return 0;
    take_head(s, head);
    file->host = head->host;
    return head->block_place != 0 ? open_block(s, address->process, head) : 0;
}

/* Maps the file of fd up to `extent`; nothing of it is mapped yet. */
static int map_file(struct segment *s, int fd, const struct transport_address *address,
                    enum segment_extent extent)
{
    struct segment_head head;
    int err = head_check_file(fd, s->file->cookie, s->file->key_check, &head);

    if (err == -EPROTONOSUPPORT)
        head_warn_version(&head, address);
    if (err == 0)
        err = believe_head(s, address, &head);
    if (err != 0)
        return err;
    if (extent != SEGMENT_BLOCK)
        return segment_map(s, fd, s->file->size);
    return s->is_apart ? 0 : segment_map(s, fd, layout_block_size(layout_of(s)));
}

static int open_descriptor(const struct segment_source *from)
{
    const struct transport_address *address = from->address;

    if (!passing_is_number(address->process))
        return shared_file_open(address->process, address->place);
    return from->request != NULL
               ? passing_ask(address->process, address->cookie, from->key_check, from->request)
               : -EINVAL;
}

/* Opens the file of s.  The mapping keeps the memory; the descriptor is kept only to
 * receive. */
static int open_file(struct segment *s, const struct segment_source *from,
                     enum segment_extent extent)
{
    int fd = open_descriptor(from);
    int err = fd < 0 ? fd : map_file(s, fd, from->address, extent);

    if (err == 0 && extent == SEGMENT_TO_RECEIVE)
        s->file->fd = fd;
    else if (fd >= 0)
        sys_close(fd);
    return err;
}

static int open_own_file(const struct segment_source *from, enum segment_extent extent,
                         struct segment **out)
{
    struct segment *s = mem_calloc(1, sizeof *s);
    int err;

    if (s == NULL)
        return -ENOMEM;
    err = segment_add_file(s, from->address->cookie, from->key_check);
    if (err == 0)
        err = open_file(s, from, extent);
    if (err != 0)
        segment_destroy(s);
    else
        *out = s;
    return err;
}

/* ---- this process, and the job's file ---- */

static bool is_local(const struct transport_address *address)
{
    return passing_is_number(address->process) ? passing_is_own(address->process)
                                               : address->process == (uint32_t)getpid();
}

static int open_local(const struct segment_source *from, enum segment_extent extent,
                      struct segment **out)
{
    struct segment *s = segment_find_local(from->address);

    (void)extent; /* the owner has mapped all of it */
    if (s == NULL)
        return -ENOENT;
    if (s->file->key_check != from->key_check) {
        segment_detach(s);
        return -EACCES;
    }
    *out = s;
    return 0;
}

/* Makes no system call.  -ENOENT: the control block is missing or invalid, and the segment's
 * own file will show why. */
static int open_in_job(const struct segment_source *from, enum segment_extent extent,
                       struct segment **out)
{
    const struct transport_address *address = from->address;
    void *block = directory_find(from->directory, address->cookie);
    struct segment_head head;
    struct segment *s;

    assert(extent == SEGMENT_BLOCK);
    if (block == NULL)
        return -ENOENT;
    head = *(volatile struct segment_head *)block;
    if (!layout_is_valid(head_layout(&head)) ||
        head_check(&head, layout_size(head_layout(&head)), address->cookie, from->key_check) !=
            0 ||
        head.place != address->place || head.host != address->host ||
        layout_parts(head.peers, head.peers) != directory_parts(from->directory))
        return -ENOENT;
    s = mem_calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    take_head(s, &head);
    s->is_apart = true;
    layout_place_block(s, block);
    *out = s;
    return 0;
}

/* ---- places ---- */

/* A place where a segment may be. */
struct placement {
    bool (*may_be_there)(const struct segment_source *from);
    int (*open)(const struct segment_source *from, enum segment_extent extent,
                struct segment **out);
    bool is_last; /* if it may be there, no other place is tried */
};

static bool may_be_here(const struct segment_source *from)
{
    return is_local(from->address);
}

static bool may_be_in_job(const struct segment_source *from)
{
    return from->directory != NULL;
}

static bool may_have_file(const struct segment_source *from)
{
    (void)from;
    return true;
}

static const struct placement placements[] = {
    {may_be_here, open_local, true},
    {may_be_in_job, open_in_job, false},
    {may_have_file, open_own_file, true},
};

static int open_new(const struct segment_source *from, enum segment_extent extent,
                    struct segment **out)
{
    int err = -ENOENT;

    for (size_t i = 0; err == -ENOENT && i < ARRAY_COUNT(placements); i++) {
        if (!placements[i].may_be_there(from))
            continue;
        err = placements[i].open(from, extent, out);
        if (placements[i].is_last)
            break;
    }
    return err;
}

/* ---- opening ---- */

/* Maps the rest of its file, of which a part is mapped. */
static int map_rest(struct segment *s)
{
    struct segment_file *file = s->file;
    void *base = sys_mremap(file->base, file->mapped, file->size);

    if (base == NULL)
        return errno == EAGAIN ? -ENOMEM : -errno;
    layout_place_file(s, base, file->size);
    return 0;
}

/* The control block is in the job's directory, and the segment's file was not opened yet. */
static int meet_file(struct segment *s, const struct segment_source *from)
{
    int err = segment_add_file(s, from->address->cookie, from->key_check);

    if (err != 0)
        return err;
    s->file->host = from->address->host; /* open_in_job() has checked it against the head */
    err = open_file(s, from, SEGMENT_ALL);
    if (err != 0) {
        mem_free(s->file);
        s->file = NULL;
    }
    return err;
}

int segment_open(const struct segment_source *from, enum segment_extent extent,
                 struct segment **s)
{
    if (extent == SEGMENT_TO_RECEIVE && passing_is_number(from->address->process))
        return -EINVAL; /* endpoints with a device do not pass segments */
    if (*s == NULL)
        return open_new(from, extent, s);
    assert(extent != SEGMENT_TO_RECEIVE);
    if (extent == SEGMENT_BLOCK || segment_has_all(*s))
        return 0;
    if ((*s)->file == NULL)
        return meet_file(*s, from);
    return (*s)->file->base != NULL ? map_rest(*s) : open_file(*s, from, extent);
}

int segment_probe(const struct transport_address *address)
{
    struct segment_head head;
    int fd = shared_file_open(address->process, address->place);
    int err;

    if (fd < 0)
        return fd;
    err = head_read(fd, &head);
    sys_close(fd);
    if (err == 0 && (head.magic != SEGMENT_MAGIC || head.cookie != address->cookie))
        err = -ENOENT;
    return err;
}
