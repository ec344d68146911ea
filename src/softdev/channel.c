/* SPDX-License-Identifier: BSD-3-Clause */
#include "softdev/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/sys.h"

/* Questions about peers and their answers, and PORT_LEFT, are beside what device.h counts. */
#define SPARE (PORT_QUESTIONS + 1)

/* A ring gives out half of its cells at least, whatever the records. */
static uint32_t cells_for(uint64_t records, uint64_t cells_each)
{
    uint64_t wanted = 2 * records * cells_each;
    uint32_t cells = 64;

    while (cells < wanted && cells < RING_MAX_CELLS)
        cells *= 2;
    return cells >= wanted ? cells : 0;
}

uint32_t region_command_cells(uint32_t list, uint32_t untagged)
{
    return cells_for(2 * (uint64_t)list + untagged + SPARE, 1);
}

uint32_t region_event_cells(uint32_t list, uint32_t untagged)
{
    return cells_for((uint64_t)soft_events(list, untagged) + SPARE, PORT_EVENT_CELLS);
}

size_t region_bytes(uint32_t list, uint32_t untagged)
{
    return sizeof(struct region) + ring_bytes(region_command_cells(list, untagged)) +
           ring_bytes(region_event_cells(list, untagged));
}

void region_init(struct region *region, uint32_t list, uint32_t untagged)
{
    region->layout = REGION_LAYOUT;
    region->self = (uintptr_t)region;
    region->list = list;
    region->untagged = untagged;
    region->command_cells = region_command_cells(list, untagged);
    region->event_cells = region_event_cells(list, untagged);
}

void region_say(struct region *region, enum region_state state, int error)
{
    atomic_store(&region->error, error);
    atomic_store(&region->state, state);
    sys_futex_wake(&region->state, 1);
}

int region_create(size_t size, int *fd, struct region **region)
{
    int new = sys_memfd_create("matchbox-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int err;

    if (new < 0)
        return -errno;
    if (sys_ftruncate(new, (off_t)size) < 0 ||
        sys_fcntl_seal(new, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
        (*region = sys_mmap(size, new, 0)) == NULL) {
        err = -errno;
        sys_close(new);
        return err;
    }
    *fd = new;
    return 0;
}

int region_attach(int fd, size_t *size, struct region **region)
{
    struct stat status;
    struct region *found;

    if (sys_fstat(fd, &status) < 0)
        return -errno;
    if (status.st_size < (off_t)sizeof(struct region))
        return -EPROTO;
    found = sys_mmap((size_t)status.st_size, fd, 0);
    if (found == NULL)
        return -errno;
    if (found->layout != REGION_LAYOUT ||
        (size_t)status.st_size != region_bytes(found->list, found->untagged)) {
        sys_munmap(found, (size_t)status.st_size);
        return -EPROTO;
    }
    *size = (size_t)status.st_size;
    *region = found;
    return 0;
}

void region_destroy(struct region *region, size_t size, int fd)
{
    sys_munmap(region, size);
    sys_close(fd);
}
