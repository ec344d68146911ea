/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment.c - making, finding and believing a segment.
 *
 * What another process offers as its segment is believed in this order:
 *
 *   the descriptor   a regular file of our user, sealed against shrinking, however it came
 *   its head         read once into our memory: magic, cookie, version, key check, sizes
 *   its size         what the numbers in the head make must be what the file has
 *   its front        if that is in another file: a file as above, a head as above
 *
 * A front that is in a file that we have mapped already, as one of our job, is believed by its head
 * alone; its sizes must be those of a front there.
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
#include "transport/shm/fronts.h"

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

/* What says where everything lies. */
struct geometry {
    uint32_t peers, ring_cells;
    unsigned long_shift;
};

static struct geometry geometry_of(const struct segment *s)
{
    return (struct geometry){s->peers, s->ring_cells, s->long_shift};
}

static struct geometry geometry_in(const struct segment_head *head)
{
    return (struct geometry){head->peers, head->ring_cells, head->long_shift};
}

static bool geometries_agree(struct geometry one, struct geometry other)
{
    return one.peers == other.peers && one.ring_cells == other.ring_cells &&
           one.long_shift == other.long_shift;
}

static size_t rings_size(struct geometry g)
{
    size_t longs = min_size(g.peers, SEGMENT_LONG_RINGS);

    return longs * ring_bytes(g.ring_cells << g.long_shift) +
           (g.peers - longs) * ring_bytes(g.ring_cells);
}

static size_t lent_offset(struct geometry g)
{
    return round_up(control_size(g.peers) + (size_t)g.peers * sizeof(struct segment_slot) +
                        (SEGMENT_WORDS + SEGMENT_TABLE) * sizeof(uint64_t) + rings_size(g),
                    SEGMENT_PAGE);
}

static size_t segment_size(struct geometry g)
{
    return lent_offset(g) + SEGMENT_PAGE + SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE;
}

/* What everybody needs who has found it, in its own file. */
static size_t front_size(uint32_t peers)
{
    return round_up(control_size(peers) + (size_t)peers * sizeof(struct segment_slot),
                    FRONT_UNIT);
}

/* Among the fronts of a job it is in parts of a FRONT_UNIT: control and the first slots, and then so many in each. */
#define PART_SLOTS ((uint32_t)(FRONT_UNIT / sizeof(struct segment_slot)))

static uint32_t first_slots(uint32_t peers)
{
    return (uint32_t)((FRONT_UNIT - control_size(peers)) / sizeof(struct segment_slot));
}

static_assert(sizeof(struct segment_control) + SEGMENT_PEERS_MAX / 8 +
                      sizeof(struct segment_slot) <=
                  FRONT_UNIT,
              "the first part has a slot");

/* Of a front with this number of used slots. */
static uint32_t parts_of(uint32_t peers, uint32_t used)
{
    uint32_t first = first_slots(peers);

    return used <= first ? 1 : 1 + (used - first + PART_SLOTS - 1) / PART_SLOTS;
}

static bool geometry_is_valid(struct geometry g)
{
    return g.peers >= 1 && g.peers <= SEGMENT_PEERS_MAX && ring_count_is_valid(g.ring_cells) &&
           g.long_shift <= SEGMENT_LONG_SHIFT_MAX &&
           ring_count_is_valid(g.ring_cells << g.long_shift);
}

static size_t mapped_front(const struct segment *s)
{
    return min_size(segment_size(geometry_of(s)), front_size(s->peers));
}

/* From the first part of a front to the end of the last one, in a file of fronts. */
static size_t spread_front(const struct segment *s)
{
    return (parts_of(s->peers, s->peers) - 1) * FRONTS_STRIDE + FRONT_UNIT;
}

struct segment_slot *segment_far_slot(const struct segment *s, uint32_t i)
{
    uint32_t behind = i - s->first_slots;
    unsigned char *part =
        (unsigned char *)s->control + (1 + behind / PART_SLOTS) * FRONTS_STRIDE;

    assert(s->is_apart && i >= s->first_slots && i < s->peers);
    return (struct segment_slot *)(void *)part + behind % PART_SLOTS;
}

/* Its front lies at front. */
static void place_front(struct segment *s, void *front)
{
    s->control = front;
    s->slots = (struct segment_slot *)(void *)((unsigned char *)front + control_size(s->peers));
    s->first_slots = (uint16_t)first_slots(s->peers);
}

/* Its file lies at base, so much of it. */
static void place(struct segment *s, void *base, size_t mapped)
{
    size_t words = control_size(s->peers) + s->peers * sizeof(struct segment_slot);
    struct segment_file *file = s->file;

    file->base = base;
    file->mapped = mapped;
    if (!s->is_apart)
        place_front(s, base);
    if (mapped < file->size)
        return;
    file->words = (_Atomic uint64_t *)(void *)((unsigned char *)base + words);
    file->rings = (unsigned char *)(file->words + SEGMENT_WORDS + SEGMENT_TABLE);
    file->lent =
        (_Atomic uint32_t *)(void *)((unsigned char *)base + lent_offset(geometry_of(s)));
}

/* Maps so much of its file. */
static int map(struct segment *s, int fd, size_t mapped)
{
    void *base = sys_mmap(mapped, fd, 0);

    if (base == NULL)
        return -errno;
    place(s, base, mapped);
    return 0;
}

static void unmap(const struct segment *s)
{
    const struct segment_file *file = s->file;

    if (file->base != NULL)
        sys_munmap(file->base, file->mapped);
    if (file->front != NULL)
        sys_munmap(file->front, spread_front(s));
    if (file->fronts != NULL)
        fronts_leave(file->fronts);
}

static void set_geometry(struct segment *s, struct geometry g)
{
    s->peers = g.peers;
    s->ring_cells = g.ring_cells;
    s->long_shift = (uint8_t)g.long_shift;
}

/* Room for what is known of its file, which has this geometry; nothing of it is mapped.  0; -ENOMEM. */
static int add_file(struct segment *s, uint64_t cookie, uint64_t key_check)
{
    s->file = mem_calloc(1, sizeof *s->file);
    if (s->file == NULL)
        return -ENOMEM;
    s->file->cookie = cookie;
    s->file->key_check = key_check;
    s->file->fd = -1;
    return 0;
}

static void set_file_geometry(struct segment *s)
{
    s->file->size = segment_size(geometry_of(s));
}

/* Undoes all that was done for it. */
static void destroy(struct segment *s)
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

/* Its front goes among those of its job, if it can. */
static void place_among_fronts(struct segment *s, uint64_t job)
{
    struct fronts *fronts = job != 0 ? fronts_join(job, parts_of(s->peers, s->peers)) : NULL;
    void *front =
        fronts != NULL ? fronts_take(fronts, s->file->cookie, &s->file->front_at) : NULL;

    if (front != NULL) {
        s->file->fronts = fronts;
        s->is_apart = true;
        place_front(s, front);
    } else if (fronts != NULL) {
        fronts_leave(fronts);
    }
}

/* In its file, and where its front is if that is elsewhere. */
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
        .front_place = file->fronts != NULL ? (uint32_t)fronts_fd(file->fronts) : 0,
        .front_at = file->front_at,
    };

    *(struct segment_head *)file->base = head;
    s->control->head = head;
}

static int create_file(struct segment *s, const struct segment_config *config)
{
    int err = add_file(s, config->cookie, config->key_check);

    if (err != 0)
        return err;
    set_file_geometry(s);
    s->file->host = config->host;
    s->file->fd = shared_file_create(s->file->size);
    if (s->file->fd < 0)
        return s->file->fd;
    err = map(s, s->file->fd, s->file->size);
    if (err != 0)
        sys_close(s->file->fd);
    return err;
}

int segment_create(const struct segment_config *config, struct segment **out)
{
    const struct geometry g = {config->peers, config->ring_cells, config->long_shift};
    struct segment *s = mem_calloc(1, sizeof *s);
    int err;

    assert(geometry_is_valid(g));
    if (s == NULL)
        return -ENOMEM;
    set_geometry(s, g);
    s->needs_fence = config->needs_fence;
    s->users = 1;
    err = create_file(s, config);
    if (err != 0) {
        destroy(s);
        return err;
    }
    place_among_fronts(s, config->job);
    s->control->rank = config->rank;
    write_head(s);
    publish(s);
    *out = s;
    return 0;
}

/* ---- finding ---- */

static bool is_local(const struct transport_address *address)
{
    return passing_is_number(address->process) ? passing_is_own(address->process)
                                               : address->process == (uint32_t)getpid();
}

/* The segment at address, whose owner is in this process, with one more user. */
static struct segment *find_local(const struct transport_address *address)
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

int segment_lend(uint64_t cookie, uint64_t key_check, int (*lend)(void *arg, int fd), void *arg)
{
    const struct segment_file *file;
    int err = -ENOENT;

    pthread_mutex_lock(&local.lock);
    file = open_file_with(cookie);
    if (file != NULL)
        err = file->key_check == key_check ? lend(arg, file->fd) : -EACCES;
    pthread_mutex_unlock(&local.lock);
    return err;
}

/* One without a mark? */
static bool head_is_early(const struct segment_head *head)
{
    unsigned last = head->magic >> 56, ours = SEGMENT_MAGIC >> 56;

    return (head->magic ^ SEGMENT_MAGIC) << 8 == 0 && last > '0' && last < ours - 1;
}

/* Why it is not understood. */
static void say_version(const struct transport_address *address,
                        const struct segment_head *head)
{
    const struct version theirs = head_is_early(head) ? (struct version){0} : head->version;
    char who[32];

    snprintf(who, sizeof who, "pid %u",
             passing_is_number(address->process) ? address->place : address->process);
    version_warn("shm", who, &theirs, SEGMENT_VERSION);
}

static uint64_t cookie_of(const struct segment_head *head)
{
    uint64_t early;

    memcpy(&early, &head->version, sizeof early);
    return head_is_early(head) ? early : head->cookie;
}

/* First whose it is: pid and descriptor may be those of another endpoint by now, whose version says nothing of the
 * one that is looked for. */
static int check_head(const struct segment_head *head, size_t size, uint64_t cookie,
                      uint64_t key_check)
{
    if ((head->magic != SEGMENT_MAGIC && !head_is_early(head)) || cookie_of(head) != cookie)
        return -ENOENT;
    if (head_is_early(head) || !version_is_understood(&head->version, SEGMENT_VERSION))
        return -EPROTONOSUPPORT;
    if (head->key_check != key_check)
        return -EACCES;
    if (!geometry_is_valid(geometry_in(head)) || size != segment_size(geometry_in(head)))
        return -EPROTO;
    return 0;
}

static int read_head(int fd, struct segment_head *head)
{
    ssize_t size = sys_pread(fd, head, sizeof *head, 0); /* its offset may be the owner's */

    if (size < 0)
        return errno == ESPIPE ? -ENOENT : -errno;
    return size == (ssize_t)sizeof *head ? 0 : -ENOENT;
}

/* The geometry and all that is constant of a head that was found good. */
static void take_head(struct segment *s, const struct segment_head *head)
{
    set_geometry(s, geometry_in(head));
    s->needs_fence = head->needs_fence != 0;
    s->users = 1;
}

/* The file is good, and this is its head.  0; -ENOENT; -EACCES; -EPROTO; -EPROTONOSUPPORT; system errors. */
static int examine_file(int fd, uint64_t cookie, uint64_t key_check, struct segment_head *head)
{
    size_t size = 0;
    int err = shared_file_check(fd, &size);

    if (err == 0)
        err = read_head(fd, head);
    return err != 0 ? err : check_head(head, size, cookie, key_check);
}

/* Maps the front, which is in another file of the owner, if that is what head says it is. */
static int map_apart(struct segment *s, int fd, const struct segment_head *head)
{
    size_t size = 0, at = head->front_at * FRONT_UNIT;
    struct segment_file *file = s->file;
    struct segment_head found;
    void *front;
    int err = shared_file_check(fd, &size);

    if (err != 0)
        return err;
    if (at > size || size - at < spread_front(s))
        return -EPROTO;
    front = sys_mmap(spread_front(s), fd, (off_t)at);
    if (front == NULL)
        return -errno;
    found = *(volatile struct segment_head *)front;
    err = check_head(&found, file->size, file->cookie, file->key_check);
    if (err == 0 && !geometries_agree(geometry_in(&found), geometry_in(head)))
        err = -EPROTO;
    if (err != 0) {
        sys_munmap(front, spread_front(s));
        return err;
    }
    file->front = front;
    s->is_apart = true;
    place_front(s, front);
    return 0;
}

static int attach_apart(struct segment *s, uint32_t process, const struct segment_head *head)
{
    int fd = shared_file_open(process, head->front_place);
    int err = fd < 0 ? fd : map_apart(s, fd, head);

    if (fd >= 0)
        sys_close(fd);
    return err;
}

static int attach_file(struct segment *s, int fd, const struct transport_address *address,
                       bool all)
{
    struct segment_head head;
    int err = examine_file(fd, s->file->cookie, s->file->key_check, &head);

    if (err == -EPROTONOSUPPORT)
        say_version(address, &head);
    if (err != 0)
        return err;
    take_head(s, &head);
    set_file_geometry(s);
    s->file->host = head.host;
    if (head.front_place != 0)
        err = attach_apart(s, address->process, &head);
    if (err == 0 && (all || head.front_place == 0))
        err = map(s, fd, all ? s->file->size : mapped_front(s));
    return err;
}

static int open_file(const struct transport_address *address, uint64_t key_check,
                     struct passing_request *request)
{
    return passing_is_number(address->process)
               ? passing_ask(address->process, address->cookie, key_check, request)
               : shared_file_open(address->process, address->place);
}

/* The mapping keeps the memory: the descriptor is kept only if all of it is mapped, to receive. */
static int attach_foreign(const struct transport_address *address, uint64_t key_check,
                          struct passing_request *request, bool all, struct segment **out)
{
    struct segment *s = mem_calloc(1, sizeof *s);
    int err, fd;

    if (s == NULL)
        return -ENOMEM;
    err = add_file(s, address->cookie, key_check);
    if (err != 0)
        goto destroy_segment;
    fd = open_file(address, key_check, request);
    if (fd < 0) {
        err = fd;
        goto destroy_segment;
    }
    err = attach_file(s, fd, address, all);
    if (err == 0 && all)
        s->file->fd = fd;
    else
        sys_close(fd);
    if (err != 0)
        goto destroy_segment;
    *out = s;
    return 0;

destroy_segment:
    destroy(s);
    return err;
}

/* The one at address, whose front is among those of the job: nothing is asked of the system.  -ENOENT: it is not there,
 * or not as it should be, and its file will tell why. */
static int attach_front(const struct transport_address *address, uint64_t key_check,
                        const struct fronts *fronts, struct segment **out)
{
    void *front = fronts_find(fronts, address->cookie);
    struct segment_head head;
    struct segment *s;

    if (front == NULL)
        return -ENOENT;
    head = *(volatile struct segment_head *)front;
    if (!geometry_is_valid(geometry_in(&head)) ||
        check_head(&head, segment_size(geometry_in(&head)), address->cookie, key_check) != 0 ||
        head.place != address->place || head.host != address->host ||
        parts_of(head.peers, head.peers) != fronts_parts(fronts))
        return -ENOENT;
    s = mem_calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    take_head(s, &head);
    s->is_apart = true;
    place_front(s, front);
    *out = s;
    return 0;
}

/* The control of the segment with this cookie among the fronts, while its owner is open, or NULL. */
static struct segment_control *open_front(const struct fronts *fronts, uint64_t cookie)
{
    struct segment_control *control = cookie != 0 ? fronts_find(fronts, cookie) : NULL;
    struct segment_head head;

    if (control == NULL)
        return NULL;
    head = *(volatile struct segment_head *)&control->head;
    return head.magic == SEGMENT_MAGIC && head.cookie == cookie ? control : NULL;
}

int segment_share(struct segment *s, uint64_t label, const struct transport_address *address)
{
    struct fronts *fronts = s->file->fronts;
    uint64_t now;

    if (fronts == NULL)
        return -ENOTSUP;
    now = fronts_labelled(fronts, label);
    if (open_front(fronts, now) != NULL)
        return -EEXIST;
    if (s->control->address.cookie != s->file->cookie) /* others read it once it has a label */
        s->control->address = *address;
    return fronts_label(fronts, label, now, s->file->cookie);
}

int segment_find(const struct segment *s, uint64_t label, struct transport_address *address)
{
    const struct fronts *fronts = s->file->fronts;
    const struct segment_control *control;
    uint64_t cookie;

    if (fronts == NULL)
        return -ENOENT;
    cookie = fronts_labelled(fronts, label);
    control = open_front(fronts, cookie);
    if (control == NULL)
        return -ENOENT;
    *address = *(volatile const struct transport_address *)&control->address;
    return address->cookie == cookie ? 0 : -ENOENT;
}

static int attach_local(const struct transport_address *address, uint64_t key_check,
                        struct segment **out)
{
    struct segment *s = find_local(address);

    if (s == NULL)
        return -ENOENT;
    if (s->file->key_check != key_check) {
        segment_detach(s);
        return -EACCES;
    }
    *out = s;
    return 0;
}

int segment_attach(const struct transport_address *address, uint64_t key_check,
                   struct fronts *fronts, struct passing_request *request, struct segment **out)
{
    int err = -ENOENT;

    if (is_local(address))
        return attach_local(address, key_check, out);
    if (fronts != NULL)
        err = attach_front(address, key_check, fronts, out);
    return err != -ENOENT ? err : attach_foreign(address, key_check, request, false, out);
}

/* Maps all of the file behind fd, of which nothing is mapped yet. */
static int map_new(struct segment *s, int fd)
{
    struct segment_head head;
    int err = examine_file(fd, s->file->cookie, s->file->key_check, &head);

    if (err == 0 && !geometries_agree(geometry_in(&head), geometry_of(s)))
        err = -EPROTO;
    return err == 0 ? map(s, fd, s->file->size) : err;
}

/* Its front is elsewhere: the first that is mapped of its file. */
static int map_file(struct segment *s, const struct transport_address *address)
{
    int fd = shared_file_open(address->process, address->place);
    int err;

    if (fd < 0)
        return fd;
    err = map_new(s, fd);
    sys_close(fd);
    return err;
}

/* Its front is among those of the job, and nothing was known of its file. */
static int meet_file(struct segment *s, const struct transport_address *address,
                     uint64_t key_check)
{
    int err = add_file(s, address->cookie, key_check);

    if (err != 0)
        return err;
    set_file_geometry(s);
    s->file->host = address->host; /* as the head of its front has it: attach_front() */
    err = map_file(s, address);
    if (err != 0) {
        mem_free(s->file);
        s->file = NULL;
    }
    return err;
}

int segment_map_all(struct segment *s, const struct transport_address *address,
                    uint64_t key_check)
{
    struct segment_file *file = s->file;
    void *base;

    if (file == NULL)
        return meet_file(s, address, key_check);
    assert(!segment_has_all(s));
    if (file->base == NULL)
        return map_file(s, address);
    base = sys_mremap(file->base, file->mapped, file->size);
    if (base == NULL)
        return errno == EAGAIN ? -ENOMEM : -errno;
    place(s, base, file->size);
    return 0;
}

int segment_take_over(const struct transport_address *address, uint64_t key_check,
                      struct segment **out)
{
    if (passing_is_number(address->process))
        return -EINVAL; /* endpoints with a device pass nothing */
    return is_local(address) ? attach_local(address, key_check, out)
                             : attach_foreign(address, key_check, NULL, true, out);
}

int segment_probe(const struct transport_address *address)
{
    struct segment_head head;
    int fd = shared_file_open(address->process, address->place);
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
    destroy(s);
}

void segment_close(struct segment *s)
{
    pthread_mutex_lock(&local.lock);
    list_remove(&s->file->in_local);
    pthread_mutex_unlock(&local.lock);
    sys_close(s->file->fd); /* now, and not with the last user: nobody shall find it any more */
    s->file->fd = -1;
    if (s->file->fronts != NULL) {
        s->control->head.magic = 0;
        fronts_drop(s->file->fronts, s->file->front_at,
                    parts_of(s->peers, segment_slots_used(s)));
    }
    segment_detach(s);
}

void segment_clear_ring(struct segment *s, uint32_t i)
{
    struct ring *starter = segment_starter(s, i), *ring = segment_ring(s, i);
    size_t size = ring_bytes(segment_ring_cells(s, i));
    off_t offset = (off_t)((unsigned char *)ring - (unsigned char *)s->file->base);

    /* the ring first: whoever is killed in between is followed by one who sees that there is one */
    if (atomic_load_explicit(&starter->moved, memory_order_relaxed) != 0 &&
        sys_fallocate_punch(s->file->fd, offset, (off_t)size) < 0)
        memset((void *)ring, 0, size);
    memset((void *)starter, 0, offsetof(struct ring, keeper));
    memset(starter->cells, 0, SEGMENT_STARTER_CELLS * RING_CELL_SIZE);
}
