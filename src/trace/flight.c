/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flight.c - the last events of an endpoint, in a ring.
 *
 *   header  slots, count │ slot 0 │ slot 1 │ ... │ slot n - 1 │ name │ name │ ... zeros
 *
 * Event number k lies in slot k mod n.  A record is stored first, and then the count, so the
 * events that are counted are whole, whoever ends the process.  Names are never overwritten:
 * they are appended after the ring as they come, because an event may refer to a name of long
 * ago.
 *
 * The whole file is mapped, so that a core file has it.  The ring is filled with zeros at first,
 * so that no later store can fail because a disk, or the memory, is full.  Names are written by a
 * call that returns this error.
 */
#include "trace/flight.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/sys.h"
#include "trace/format.h"

#define ZEROS ((size_t)64 << 10) /* written at a time */

struct flight {
    unsigned char *bytes; /* the whole file */
    size_t size;
    uint64_t slots, names;
    int fd; /* its offset is where the next name goes; -1: names are left out */
};

static int write_zeros(int fd, size_t size)
{
    static const unsigned char zeros[ZEROS];

    while (size != 0) {
        ssize_t more = sys_write_file(fd, zeros, min_size(size, sizeof zeros));

        if (more < 0)
            return -errno;
        if (more == 0)
            return -ENOSPC;
        size -= (size_t)more;
    }
    return 0;
}

static int flight_map(struct flight *f)
{
    size_t ring = FLIGHT_HEADER_SIZE + f->slots * TRACE_RECORD_SIZE;
    int err = write_zeros(f->fd, ring);

    f->size = ring + FLIGHT_NAMES_MAX * TRACE_RECORD_SIZE;
    if (err == 0 && sys_ftruncate(f->fd, (off_t)f->size) < 0)
        err = -errno;
    if (err == 0 && (f->bytes = sys_mmap(f->size, f->fd, 0)) == NULL)
        err = -errno;
    return err;
}

int flight_open(int fd, uint64_t slots, const struct trace_info *info, struct flight **out)
{
    struct flight *f = mem_calloc(1, sizeof *f);
    int err;

    assert(slots > 0 && slots <= FLIGHT_SLOTS_MAX);
    if (f == NULL)
        return -ENOMEM;
    f->fd = fd;
    f->slots = slots;
    err = flight_map(f);
    if (err < 0) {
        mem_free(f);
        return err;
    }
    put64(f->bytes + FLIGHT_SLOTS_AT, slots);
    header_put(f->bytes, FLIGHT_MAGIC, info);
    *out = f;
    return 0;
}

unsigned char *flight_ring(const struct flight *f)
{
    return f->bytes + FLIGHT_HEADER_SIZE;
}

/* The release keeps the stores of a record before the store of the count that includes it: the
 * reader is another process, or reads a core file. */
void flight_count(struct flight *f, uint64_t count)
{
    _Atomic uint64_t *counted = (_Atomic uint64_t *)(void *)(f->bytes + FLIGHT_COUNT_AT);

    atomic_store_explicit(counted, htole64(count), memory_order_release);
}

int flight_name(struct flight *f, const struct trace_event *event)
{
    unsigned char bytes[TRACE_RECORD_SIZE];
    int err = -ENOSPC;

    if (f->fd < 0)
        return 0;
    record_put(bytes, event, 0, f->names, 0);
    if (f->names < FLIGHT_NAMES_MAX) {
        ssize_t done = sys_write_file(f->fd, bytes, sizeof bytes);

        if (done == (ssize_t)sizeof bytes) {
            f->names++;
            return 0;
        }
        err = done < 0 ? -errno : -ENOSPC;
    }
    f->fd = -1;
    return err;
}

void flight_close(struct flight *f)
{
    sys_munmap(f->bytes, f->size);
    mem_free(f);
}
