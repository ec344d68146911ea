/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.c - see channel.h.
 */
#include "device/soft/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/sys.h"

/* device.h does not count questions about peers, their answers, and CHANNEL_LEFT. */
#define SPARE (CHANNEL_QUESTIONS + 1)

/* A ring offers at least half of its cells, whatever the sizes of the records. */
static uint32_t cells_for(uint64_t records, uint64_t cells_each)
{
    uint64_t wanted = 2 * records * cells_each;
    uint32_t cells = 64;

    while (cells < wanted && cells < RING_MAX_CELLS)
        cells *= 2;
    return cells >= wanted ? cells : 0;
}

uint32_t channel_command_cells(uint32_t commands, uint32_t untagged)
{
    return cells_for((uint64_t)commands + untagged + SPARE, 1);
}

uint32_t channel_event_cells(uint32_t list, uint32_t untagged)
{
    return cells_for((uint64_t)tm_events(list, untagged) + SPARE, CHANNEL_EVENT_CELLS);
}

size_t channel_bytes(uint32_t list, uint32_t commands, uint32_t untagged)
{
    return sizeof(struct channel) + ring_bytes(channel_command_cells(commands, untagged)) +
           ring_bytes(channel_event_cells(list, untagged));
}

void channel_init(struct channel *channel, uint32_t list, uint32_t commands, uint32_t untagged)
{
    channel->version = version_own(CHANNEL_VERSION);
    channel->layout = CHANNEL_LAYOUT;
    channel->self = (uintptr_t)channel;
    channel->list = list;
    channel->commands = commands;
    channel->untagged = untagged;
    channel->command_cells = channel_command_cells(commands, untagged);
    channel->event_cells = channel_event_cells(list, untagged);
}

void channel_say(struct channel *channel, enum channel_state state, int error)
{
    atomic_store(&channel->error, error);
    atomic_store(&channel->state, state);
    sys_futex_wake(&channel->state, 1);
}

int channel_create(size_t size, int *fd, struct channel **channel)
{
    int new = sys_memfd_create("matchbox-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int err;

    if (new < 0)
        return -errno;
    if (sys_ftruncate(new, (off_t)size) < 0 ||
        sys_fcntl_seal(new, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ||
        (*channel = sys_mmap(size, new, 0)) == NULL) {
        err = -errno;
        sys_close(new);
        return err;
    }
    *fd = new;
    return 0;
}

/* Is this a channel that we understand?  0; -EPROTO; -EPROTONOSUPPORT. */
static int channel_check(const struct channel *found, size_t size)
{
    const struct version theirs = found->version;

    if (theirs.packets != 0 && !version_is_understood(&theirs, CHANNEL_VERSION)) {
        version_warn("device", "the library that has started this process", &theirs,
                     CHANNEL_VERSION);
        return -EPROTONOSUPPORT;
    }
    return theirs.packets != 0 && found->layout == CHANNEL_LAYOUT &&
                   size == channel_bytes(found->list, found->commands, found->untagged)
               ? 0
               : -EPROTO;
}

int channel_attach(int fd, size_t *size, struct channel **channel)
{
    struct stat status;
    struct channel *found;
    int err;

    if (sys_fstat(fd, &status) < 0)
        return -errno;
    if (status.st_size < (off_t)sizeof(struct channel))
        return -EPROTO;
    found = sys_mmap((size_t)status.st_size, fd, 0);
    if (found == NULL)
        return -errno;
    err = channel_check(found, (size_t)status.st_size);
    if (err != 0) {
        sys_munmap(found, (size_t)status.st_size);
        return err;
    }
    *size = (size_t)status.st_size;
    *channel = found;
    return 0;
}

void channel_destroy(struct channel *channel, size_t size, int fd)
{
    sys_munmap(channel, size);
    sys_close(fd);
}
