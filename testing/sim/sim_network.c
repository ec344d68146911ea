/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim_network.c - time, chance, and the endpoints.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define FIRST_MOMENT CLOCK_S /* not 0, because a clock at 0 means that it is not set */

/* One delay in LATE_ONE_IN is LATE_TIMES as long. */
#define LATE_ONE_IN 16
#define LATE_TIMES  8

struct sim_network sim_network;

/* ---- begin and end ---- */

static uint64_t sim_network_clock(void)
{
    return sim_network.now_ns;
}

int sim_begin(const struct sim_config *config)
{
    assert(config->words <= SIM_WORDS_MAX && config->depth != 0 &&
           config->delay_min_ns <= config->delay_max_ns);
    if (sim_network.is_on)
        return -EBUSY;
    sim_network =
        (struct sim_network){.is_on = true, .config = *config, .now_ns = FIRST_MOMENT};
    sim_network.name = (uint32_t)(config->seed * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    random_seed(&sim_network.random, config->seed);
    random_secret_set(config->seed);
    clock_set(sim_network_clock);
    return 0;
}

/* Frees the queues that only wait for their event. */
static void sim_network_drop_events(void)
{
    while (sim_network.events.count != 0) {
        struct event event = events_take(&sim_network.events);

        if (event.kind == EVENT_PACKET && event.what != NULL)
            queue_due(event.what);
    }
}

void sim_end(void)
{
    sim_network_drop_events();
    events_fini(&sim_network.events);
    mem_free(sim_network.places);
    sim_network = (struct sim_network){0};
    clock_set(NULL);
    random_secret_reset();
}

/* ---- chance and time ---- */

uint64_t sim_now(void)
{
    return sim_network.now_ns;
}

bool sim_sleeps(uint32_t who)
{
    return sim_network.places[who].sleeps;
}

uint64_t sim_stirred(void)
{
    return sim_network.stirred_ns;
}

bool sim_is_moving(void)
{
    return sim_network.moving != 0;
}

uint64_t sim_packets(void)
{
    return sim_network.packets;
}

bool sim_network_chance(uint32_t percent)
{
    return percent != 0 && random_below(&sim_network.random, 100) < percent;
}

uint64_t sim_network_later(void)
{
    const struct sim_config *c = &sim_network.config;
    uint64_t delay = c->delay_min_ns +
                     random_below(&sim_network.random, c->delay_max_ns - c->delay_min_ns + 1);

    if (random_below(&sim_network.random, LATE_ONE_IN) == 0)
        delay *= LATE_TIMES;
    return sim_network.now_ns + delay;
}

/* ---- events ---- */

int sim_network_add_event(enum event_kind kind, uint64_t at_ns, uint32_t who, void *what)
{
    const struct event event = {.at_ns = at_ns, .kind = kind, .who = who, .what = what};
    int err = events_add(&sim_network.events, event);

    sim_network.moving += err == 0 && kind != EVENT_ALARM;
    return err;
}

int sim_alarm(uint32_t who, uint64_t at_ns)
{
    struct sim_place *place = &sim_network.places[who];
    int err;

    at_ns = at_ns < sim_network.now_ns ? sim_network.now_ns : at_ns;
    if (place->alarm_ns <= at_ns)
        return 0;
    err = sim_network_add_event(EVENT_ALARM, at_ns, who, NULL);
    if (err == 0)
        place->alarm_ns = at_ns;
    return err;
}

/* Performs the event.  True if it concerns its endpoint. */
static bool event_happens(const struct event *event)
{
    struct sim_place *place = &sim_network.places[event->who];

    switch (event->kind) {
    case EVENT_PACKET:
        queue_due(event->what); /* it checks whether its receiver exists */
        break;
    case EVENT_SPACE:
        if (place->sim != NULL && event->what != NULL)
            ((struct sim_link *)event->what)->is_notified = false;
        break;
    case EVENT_MOVED:
        if (place->sim != NULL)
            remote_due(place->sim, event->what);
        break;
    case EVENT_ALARM:
        if (place->alarm_ns != event->at_ns)
            return false; /* an earlier alarm has replaced it */
        place->alarm_ns = SIM_NEVER;
        break;
    }
    return place->sim != NULL && !place->is_dead;
}

bool sim_next(uint32_t *who, uint64_t until_ns)
{
    const struct event *first;

    while ((first = events_first(&sim_network.events)) != NULL && first->at_ns <= until_ns) {
        struct event event = events_take(&sim_network.events);

        sim_network.now_ns = event.at_ns;
        if (event.kind != EVENT_ALARM) {
            sim_network.moving--;
            sim_network.stirred_ns = sim_network.now_ns;
        }
        if (event_happens(&event)) {
            *who = event.who;
            sim_network.places[event.who].sleeps = false;
            return true;
        }
    }
    return false;
}

/* ---- endpoints of the network ---- */

static int sim_network_grow(void)
{
    uint32_t capacity = sim_network.capacity == 0 ? 16 : sim_network.capacity * 2;
    struct sim_place *places = mem_realloc(sim_network.places, capacity * sizeof *places);

    if (places == NULL)
        return -ENOMEM;
    sim_network.places = places;
    sim_network.capacity = capacity;
    return 0;
}

int sim_network_add(struct sim *sim)
{
    if (sim_network.count == sim_network.capacity && sim_network_grow() != 0)
        return -ENOMEM;
    sim->index = sim_network.count++;
    sim_network.places[sim->index] = (struct sim_place){.sim = sim, .alarm_ns = SIM_NEVER};
    return 0;
}

void sim_network_remove(struct sim *sim)
{
    sim_network.places[sim->index].sim = NULL;
}

int sim_network_find(uint32_t index, struct sim **out)
{
    const struct sim_place *place = &sim_network.places[index];

    if (index >= sim_network.count)
        return -EHOSTUNREACH;
    if (place->is_dead)
        return -EHOSTDOWN;
    if (place->sim == NULL)
        return -ENOTCONN;
    *out = place->sim;
    return 0;
}

void sim_kill(uint32_t who)
{
    struct sim_place *place = &sim_network.places[who];

    assert(place->sim != NULL && !place->is_dead);
    place->is_dead = place->sim->is_dead = true;
    queue_leave(place->sim, true);
}

/* ---- addresses ---- */

void sim_network_address(const struct sim *sim, struct transport_address *address)
{
    *address = (struct transport_address){.kind = ADDRESS_SIM,
                                          .process = sim_network.name,
                                          .place = sim->index,
                                          .credit = sim->credit};
}

int sim_network_check(const struct transport_address *address, uint32_t *index)
{
    const struct transport_address expected = {
        .kind = ADDRESS_SIM, .process = address->process, .place = address->place};

    if (!address_is_same(address, &expected))
        return -EINVAL;
    if (address->process != sim_network.name || address->place >= sim_network.count)
        return -EHOSTUNREACH;
    *index = address->place;
    return 0;
}

uint32_t sim_whose(const uint8_t *address)
{
    struct transport_address bytes;
    uint32_t index;

    memcpy(&bytes, address, sizeof bytes);
    return sim_network_check(&bytes, &index) == 0 ? index : SIM_NOBODY;
}
