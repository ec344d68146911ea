/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * softdev.c - commands into one ring, events out of the other.
 *
 * A device that has ended, for whatever reason, has written its last event.  So once the device
 * has ended and the ring is empty, the caller gets LOST, once.
 */
#include "device/soft/softdev.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "device/soft/driver.h"
#include "transport/handoff.h"

/* Polls without an event between two checks that the device is alive. */
#define CHECK_EVERY  4096

#define LIST_MAX     65536u
#define COMMANDS_MAX (4 * LIST_MAX + 2) /* for receives and for held messages */
#define UNTAGGED_MAX 16384u

static struct softdev *device_of(const struct mbx_device *device)
{
    return container_of((struct mbx_device *)(uintptr_t)device, struct softdev, base);
}

/* ---- commands ---- */

/* Wakes the device from both kinds of sleep: in the transport, or held back (agent_main.c). */
void softdev_wake(struct softdev *device)
{
    atomic_fetch_add(&device->channel->bell, 1);
    sys_futex_wake(&device->channel->bell, 1);
    transport_wake_other(device->config.transport);
}

/* Space for a command; NULL: none, or the device is gone. */
static struct channel_command *command_reserve(struct softdev *device)
{
    return device->is_configured
               ? ring_reserve(&device->commands, sizeof(struct channel_command))
               : NULL;
}

static int command_error(const struct softdev *device)
{
    return !device->is_configured ? -EINVAL : device->is_over ? -ENODEV : -EAGAIN;
}

static int command_write(struct softdev *device, struct channel_command *command)
{
    ring_publish(&device->commands, command, sizeof *command);
    device->written++;
    if (device->attachment != SOFTDEV_AWAY && channel_sleeps(&device->channel->device_sleeps))
        softdev_wake(device);
    return 0;
}

static int command_tm(struct softdev *device, const struct tm_command *unit)
{
    struct channel_command *command = device->is_over ? NULL : command_reserve(device);

    if (command == NULL)
        return command_error(device);
    command->type = CHANNEL_TM;
    command->unit = *unit;
    return command_write(device, command);
}

/* Makes the device receive.  0 it does, or will; -EAGAIN it is just leaving. */
static int attach(struct softdev *device)
{
    struct transport *t = device->config.transport;
    int err;

    if (device->driver == NULL || device->attachment == SOFTDEV_THERE || device->is_over)
        return 0;
    if (device->attachment == SOFTDEV_LEAVING ||
        (device->config.may_hand_over != NULL &&
         !device->config.may_hand_over(device->config.arg)))
        return -EAGAIN;
    err = transport_hand_over(t, &device->handle);
    if (err != 0)
        return err;
    device->attachment = SOFTDEV_THERE;
    device->channel->handle = device->handle;
    /* pairs with the acquire in agent_main.c's agent_main_is_wanted() */
    atomic_store_explicit(&device->channel->wanted, 1, memory_order_release);
    sys_futex_wake(&device->channel->wanted, 1);
    return 0;
}

void softdev_detach(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    if (device->attachment != SOFTDEV_THERE || device->is_over)
        return;
    device->attachment = SOFTDEV_LEAVING;
    atomic_store(&device->channel->wanted, 0);
    softdev_wake(device);
}

/* The device has reported that it has left; it may still be about to. */
static bool receive_again(struct softdev *device)
{
    int err;

    if (device->config.may_hand_over != NULL &&
        !device->config.may_hand_over(device->config.arg))
        return false; /* the close() of the device wakes a sleeping thread */
    err = transport_take_back(device->config.transport);
    if (err == -EBUSY)
        return false;
    if (err != 0)
        LOG_ERROR("cannot receive again after the device has ended: error %d; please report "
                  "this",
                  err);
    device->attachment = SOFTDEV_AWAY;
    return true;
}

bool softdev_is_there(const struct mbx_device *d)
{
    const struct softdev *device = device_of(d);

    return device->driver == NULL || device->attachment != SOFTDEV_AWAY;
}

static int soft_append(struct mbx_device *d, const struct mbx_device_recv *recv,
                       uint16_t handled)
{
    int err = attach(device_of(d));

    if (err != 0)
        return err;
    return command_tm(device_of(d), &(struct tm_command){
                                        .type = TM_APPEND,
                                        .handled = handled,
                                        .handle = recv->handle,
                                        .envelope = recv->envelope,
                                        .ignore = recv->ignore,
                                        .buf = (uintptr_t)recv->buf,
                                        .size = recv->size,
                                    });
}

static int soft_revoke(struct mbx_device *d, uint32_t handle, uint16_t handled)
{
    return command_tm(
        device_of(d),
        &(struct tm_command){.type = TM_REVOKE, .handled = handled, .handle = handle});
}

/* One SYNC at a time: more would take the space of other commands. */
static int soft_sync(struct mbx_device *d, uint16_t handled)
{
    struct softdev *device = device_of(d);
    int err;

    if (device->is_configured && !device->is_over && device->sync_at != 0 &&
        atomic_load_explicit(&device->channel->performed, memory_order_relaxed) <
            device->sync_at)
        return -EAGAIN;
    err = command_tm(device, &(struct tm_command){.type = TM_SYNC, .handled = handled});
    if (err == 0)
        device->sync_at = device->written;
    return err;
}

static int soft_hold(struct mbx_device *d, uint32_t message,
                     const struct mbx_device_envelope *envelope, uint16_t handled)
{
    return command_tm(device_of(d), &(struct tm_command){.type = TM_HOLD,
                                                         .handled = handled,
                                                         .handle = message,
                                                         .envelope = *envelope});
}

static int soft_unhold(struct mbx_device *d, uint32_t message, uint16_t handled)
{
    return command_tm(
        device_of(d),
        &(struct tm_command){.type = TM_UNHOLD, .handled = handled, .handle = message});
}

static int soft_replenish(struct mbx_device *d, uint32_t buffer, void *memory)
{
    struct softdev *device = device_of(d);
    struct channel_command *command = device->is_over ? NULL : command_reserve(device);

    if (command == NULL)
        return command_error(device);
    command->type = CHANNEL_BUFFER;
    command->number = buffer;
    command->address = (uintptr_t)memory;
    return command_write(device, command);
}

/* ---- events ---- */

/* Answers the device's question for the number of a peer.  False: the answer has to wait. */
static bool answer(struct softdev *device, const struct channel_event *event)
{
    struct channel_command *command = command_reserve(device);
    uint32_t peer = 0;
    int err;

    if (command == NULL)
        return false;
    err = device->config.number(device->config.arg, &event->address, &peer);
    if (err == -ENOMEM)
        return false;
    command->type = err == 0 ? CHANNEL_PEER : CHANNEL_REFUSE;
    command->number = peer;
    command->question = event->question;
    command->error = err;
    command_write(device, command);
    return true;
}

/* Has the device ended?  Called when the ring is empty; a device that has ended has written all
 * its events. */
static bool has_ended(struct softdev *device)
{
    if (device->driver == NULL) /* its reads still write to memory */
        return (device->is_stopped || device->agent->is_broken) && device->agent->reading == 0;
    if (device->is_stopped)
        return true;
    if (atomic_load(&device->channel->state) != CHANNEL_RUNNING)
        return true;
    if (--device->until_check != 0)
        return false;
    device->until_check = CHECK_EVERY;
    return !device->driver->is_alive(device);
}

/* Copies the next event.  False: there is none. */
static bool next_event(struct softdev *device, struct channel_event *event)
{
    uint32_t size;
    const void *record = ring_peek(&device->events, &size);

    if (record == NULL)
        return false;
    if (size != sizeof *event) {
        device->events.error = -EPROTO;
        return false;
    }
    memcpy(event, record, sizeof *event);
    return true;
}

/* Skips records that a device that has ended needs no answer to.  True: an event follows. */
static bool skip_notes(struct softdev *device)
{
    struct channel_event event;

    while (next_event(device, &event)) {
        if (event.type == CHANNEL_EVENT)
            return true;
        ring_release(&device->events);
    }
    return false;
}

static bool event_lost(struct softdev *device, struct mbx_device_event *event)
{
    if (device->is_over)
        return false;
    if (device->events.error == 0 && (!has_ended(device) || skip_notes(device)))
        return false; /* it may have written an event before it ended: look again */
    if (device->events.error != 0)
        LOG_ERROR("the device wrote an invalid event; please report this");
    device->is_over = true;
    *event = (struct mbx_device_event){.type = MBX_DEVICE_LOST};
    return true;
}

/* Handles a record that is no event for the caller.  False: later, and no record after it may
 * be handled before. */
static bool take_note(struct softdev *device, const struct channel_event *event)
{
    if (device->is_stopped)
        return true;
    return event->type == CHANNEL_LEFT ? receive_again(device) : answer(device, event);
}

static int soft_poll(struct mbx_device *d, struct mbx_device_event *events, int count)
{
    struct softdev *device = device_of(d);
    struct channel_event event;
    int n = 0, notes = 0;

    while (n < count && next_event(device, &event)) {
        if (event.type == CHANNEL_EVENT) {
            events[n++] = event.event;
            device->mark = event.event.mark;
        } else if (take_note(device, &event)) {
            notes++;
        } else {
            break;
        }
        ring_release(&device->events);
    }
    if (n + notes != 0)
        ring_consumer_flush(&device->events);
    else if (unlikely(event_lost(device, &events[n])))
        n++;
    return n;
}

/* ---- the loop driver ---- */

int softdev_run(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    return device->agent != NULL && !device->is_stopped ? agent_run(device->agent) : 0;
}

int softdev_deliver(struct mbx_device *d, uint32_t peer, const void *packet, size_t size)
{
    struct softdev *device = device_of(d);

    return device->is_stopped ? -EAGAIN : agent_deliver(device->agent, peer, packet, size);
}

bool softdev_read_done(struct mbx_device *d, void *cookie, int error)
{
    struct softdev *device = device_of(d);

    if (device->agent == NULL || !agent_owns(device->agent, cookie))
        return false;
    agent_read_done(device->agent, cookie, error);
    return true;
}

static int start_loop(struct softdev *device)
{
    struct agent *agent = mem_calloc(1, sizeof *agent);
    int err;

    if (agent == NULL)
        return -ENOMEM;
    err = agent_init(agent, &(struct agent_config){
                                .channel = device->channel,
                                .link = device->config.link,
                                .arg = device->config.arg,
                                .memory = {.is_ours = true},
                            });
    if (err != 0) {
        mem_free(agent);
        return err;
    }
    device->agent = agent;
    return 0;
}

/* ---- device elsewhere ---- */

/* Waits until the device leaves this state.  0; -ENODEV it has ended; -ETIMEDOUT. */
static int await_state(struct softdev *device, enum channel_state state)
{
    struct channel *channel = device->channel;
    uint64_t start = clock_now();

    while (atomic_load(&channel->state) == state) {
        if (!device->driver->is_alive(device))
            return -ENODEV;
        if (clock_now() - start > device->config.answer_ns)
            return -ETIMEDOUT;
        sys_futex_wait(&channel->state, state, 10 * CLOCK_MS);
    }
    return 0;
}

/* Waits until the device runs, or has failed. */
static int await_start(struct softdev *device)
{
    int err = await_state(device, CHANNEL_STARTING);

    if (err == 0)
        err = await_state(device, CHANNEL_ANSWERED);
    if (err == 0)
        return atomic_load(&device->channel->state) == CHANNEL_FAILED
                   ? atomic_load(&device->channel->error)
                   : 0;
    LOG_ERROR("the device %s: %s", err == -ENODEV ? "ended before it began" : "does not begin",
              device->config.driver == SOFTDEV_PROCESS ? device->program : "a thread");
    if (device->config.driver == SOFTDEV_PROCESS)
        LOG_ERROR("the program %s must be the matchbox-device of this version of Matchbox; "
                  "MBX_DEVICE=soft-thread needs none",
                  device->program);
    return err;
}

static int start_elsewhere(struct softdev *device)
{
    int err = device->driver->start(device);

    if (err != 0)
        return err;
    err = await_start(device);
    if (err != 0)
        device->driver->stop(device);
    return err;
}

/* ---- open, configure, stop, close ---- */

static void soft_limits(const struct mbx_device *d, struct mbx_device_limits *limits)
{
    *limits = (struct mbx_device_limits){
        .list = LIST_MAX,
        .commands = COMMANDS_MAX,
        .untagged = UNTAGGED_MAX,
        .untagged_min = 1,
        .context_bits = 32,
        .source_bits = 32,
        .tag_mask = UINT64_MAX,
        .untagged_size = device_of(d)->config.transport->limits.packet_max,
        .eager_max = WIRE_EAGER_MAX,
        .caps = MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_RENDEZVOUS |
                MBX_DEVICE_TRUNCATES | MBX_DEVICE_HOLDS | MBX_DEVICE_READS_PART,
    };
}

static int make_region(struct softdev *device, uint32_t list, uint32_t commands,
                       uint32_t untagged)
{
    device->channel_size = channel_bytes(list, commands, untagged);
    if (device->config.driver == SOFTDEV_PROCESS) {
        int err = channel_create(device->channel_size, &device->channel_fd, &device->channel);

        if (err != 0)
            return err;
    } else {
        device->channel = mem_alloc_aligned(CACHE_LINE, device->channel_size);
        if (device->channel == NULL)
            return -ENOMEM;
        memset(device->channel, 0, device->channel_size);
    }
    channel_init(device->channel, list, commands, untagged);
    device->channel->read_chunk = device->config.read_chunk;
    device->channel->spin_ns = device->config.spin_ns;
    device->channel->check_ns = device->config.check_ns;
    device->channel->seed = device->config.seed;
    return 0;
}

static void drop_region(struct softdev *device)
{
    if (device->channel == NULL)
        return;
    if (device->config.driver == SOFTDEV_PROCESS)
        channel_destroy(device->channel, device->channel_size, device->channel_fd);
    else
        mem_free(device->channel);
    device->channel = NULL;
}

static int soft_configure(struct mbx_device *d, uint32_t list, uint32_t commands,
                          uint32_t untagged)
{
    struct softdev *device = device_of(d);
    int err;

    if (device->is_configured || list == 0 || list > LIST_MAX || untagged == 0 ||
        untagged > UNTAGGED_MAX || commands < 2 * list + 2 || commands > COMMANDS_MAX)
        return -EINVAL;
    err = make_region(device, list, commands, untagged);
    if (err != 0)
        return err;
    err = device->driver == NULL ? start_loop(device) : start_elsewhere(device);
    if (err != 0) {
        drop_region(device);
        return err;
    }
    ring_producer_init(&device->commands, channel_commands(device->channel),
                       device->channel->command_cells);
    ring_consumer_init(&device->events, channel_events(device->channel),
                       device->channel->event_cells);
    device->is_configured = true;
    return 0;
}

void softdev_stop(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    if (device->is_stopped || !device->is_configured)
        return;
    device->is_stopped = true;
    if (device->driver != NULL)
        device->driver->stop(device);
}

bool softdev_repeated(const struct mbx_device *d)
{
    const struct softdev *device = device_of(d);

    return device->mark == atomic_load(&device->channel->begun);
}

bool softdev_lie_down(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    if (device->is_over)
        return true;
    if (device->driver == NULL)
        return agent_is_idle(device->agent) && ring_is_empty(&device->events);
    if (device->attachment == SOFTDEV_AWAY)
        return true;
    device->until_check = 1; /* the first poll after a sleep checks the device */
    channel_lie_down(&device->channel->software_sleeps);
    return ring_is_empty(&device->events);
}

void softdev_get_up(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    channel_get_up(&device->channel->software_sleeps);
}

bool softdev_has_events(const struct mbx_device *d)
{
    return !ring_is_empty(&device_of(d)->events);
}

uint64_t softdev_idle_rounds(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    if (device->attachment != SOFTDEV_AWAY)
        softdev_wake(device);
    else
        sys_futex_wake(&device->channel->wanted, 1);
    return atomic_load(&device->channel->idle);
}

bool softdev_is_calm(struct mbx_device *d, uint64_t *rounds)
{
    struct softdev *device = device_of(d);
    uint64_t before = *rounds;

    *rounds = softdev_idle_rounds(d);
    if (!softdev_is_there(d))
        return true;                /* no packets go through it; its commands can wait */
    return *rounds >= before + 2 && /* one may have been under way */
           ring_is_empty(&device->events) &&
           atomic_load(&device->channel->performed) >= device->written;
}

static void soft_close(struct mbx_device *d)
{
    struct softdev *device = device_of(d);

    softdev_stop(d);
    if (device->agent != NULL)
        agent_fini(device->agent);
    mem_free(device->agent);
    drop_region(device);
    mem_free(device);
}

static const struct mbx_device_ops ops = {
    .name = "soft",
    .about = "matches in software, in the progress loop, on a thread or in a process",
    .close = soft_close,
    .limits = soft_limits,
    .configure = soft_configure,
    .replenish = soft_replenish,
    .append = soft_append,
    .revoke = soft_revoke,
    .sync = soft_sync,
    .hold = soft_hold,
    .unhold = soft_unhold,
    .poll = soft_poll,
};

int softdev_open(const struct softdev_config *config, struct mbx_device **out)
{
    static const struct softdev_driver_ops *const drivers[] = {
        [SOFTDEV_LOOP] = NULL,
        [SOFTDEV_THREAD] = &softdev_driver_thread,
        [SOFTDEV_PROCESS] = &softdev_driver_process,
    };
    struct softdev *device = mem_calloc(1, sizeof *device);

    if (device == NULL)
        return -ENOMEM;
    device->base.ops = &ops;
    device->config = *config;
    device->driver = drivers[config->driver];
    device->until_check = CHECK_EVERY;
    device->channel_fd = -1;
    *out = &device->base;
    return 0;
}
