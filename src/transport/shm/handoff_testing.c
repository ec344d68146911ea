/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff_testing.c - see handoff_testing.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "base/unit.h"
#include "transport/shm/handoff_testing.h"

struct notes *notes;

/* ---- events of a half ---- */

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    struct half *half = arg;

    for (uint32_t i = 0; i < PEERS; i++) {
        if (memcmp(address, &board->address[i], sizeof *address) != 0)
            continue;
        CHECK(half->link[i] == NULL); /* each address is one peer, with any number of rings */
        half->link[i] = link;
        *peer = i;
        return 0;
    }
    return -EPERM;
}

static void on_repeats(void *arg, uint32_t peer)
{
    struct half *half = arg;

    CHECK(peer < PEERS);
    half->announced = true;
}

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    uint64_t count = atomic_load(&notes->count);
    bool announced = ((struct half *)arg)->announced;
    struct half *half = arg;
    struct wire_header header;

    half->announced = false;
    if (half->refuses != 0 && ++half->offered % half->refuses == 0)
        return -EAGAIN;
    CHECK(count < NOTES_MAX);
    memcpy(&header, packet, sizeof header);
    CHECK(is_packet(header.tag, packet, size));
    notes->note[count] =
        (struct note){.peer = peer, .announced = announced, .number = header.tag};
    atomic_store(&notes->count, count + 1);
    if (half->noted != NULL)
        half->noted();
    return 0;
}

static void on_dropped(UNUSED void *arg, const char *reason)
{
    fprintf(stderr, "dropped: %s\n", reason);
    CHECK(reason == NULL);
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_deliver,
    .dropped = on_dropped,
    .repeats = on_repeats,
};

/* ---- halves ---- */

static struct transport_config config_of(struct half *half)
{
    struct transport_config config = config_for(NULL);

    config.events = &events;
    config.arg = half;
    return config;
}

void half_open(struct half *half, unsigned i)
{
    struct transport_config config = config_of(half);

    *half = (struct half){0};
    CHECK(transport_shm.open(&config, &half->t) == 0);
    transport_shm.address(half->t, &board->address[i]);
}

int half_take_over(struct half *half)
{
    struct transport_config config = config_of(half);

    *half = (struct half){0};
    return transport_take_over(&transport_shm, &config, &notes->handle, &half->t);
}

void half_hand_over(struct half *half)
{
    CHECK(transport_hand_over(half->t, &notes->handle) == 0);
}

void half_take_back(struct half *half)
{
    CHECK(transport_take_back(half->t) == 0);
}

void half_close(struct half *half)
{
    half->t->ops->close(half->t);
}

struct link *half_link(struct half *half, unsigned i)
{
    struct link *link = half->link[i];

    if (link == NULL) {
        CHECK(half->t->ops->connect(half->t, &board->address[i], &link) == 0);
        link->peer = i;
        half->link[i] = link;
    }
    return link;
}

void half_await(struct half *half, uint64_t count)
{
    while (atomic_load(&notes->count) < count)
        if (half->t->ops->poll(half->t, 16) == 0)
            CHECK(half->t->ops->wait(half->t, PATIENCE_NS) == 0);
}

void half_serve(struct half *half)
{
    while (atomic_load(&notes->stop) == 0)
        if (half->t->ops->poll(half->t, 16) == 0)
            CHECK(half->t->ops->wait(half->t, PATIENCE_NS) == 0);
}

void half_drain(struct half *half)
{
    while (half->t->ops->poll(half->t, 16) != 0 || half->t->ops->wait(half->t, CLOCK_MS) == 0)
        continue;
}

/* ---- recorded packets ---- */

static void wrong_note(uint64_t i, uint64_t wanted)
{
    const struct note *note = &notes->note[i];

    fprintf(stderr, "note %llu: packet %llu of peer %u%s, wanted %llu\n", (unsigned long long)i,
            (unsigned long long)note->number, note->peer, note->announced ? " (announced)" : "",
            (unsigned long long)wanted);
    CHECK(note->number == wanted);
}

unsigned notes_check(const uint64_t first[PEERS], const uint64_t end[PEERS])
{
    uint64_t next[PEERS];
    unsigned again = 0;

    memcpy(next, first, sizeof next);
    for (uint64_t i = 0; i < atomic_load(&notes->count); i++) {
        const struct note *note = &notes->note[i];

        CHECK(note->peer < PEERS);
        if (note->number == next[note->peer])
            next[note->peer]++;
        else if (note->announced && note->number + 1 == next[note->peer])
            again++;
        else
            wrong_note(i, next[note->peer]);
    }
    for (unsigned i = 0; i < PEERS; i++)
        CHECK(next[i] == end[i]);
    atomic_store(&notes->count, 0);
    return again;
}

/* ---- around each test, and around all ---- */

int set_up_notes(void **state)
{
    atomic_store(&notes->count, 0);
    atomic_store(&notes->stop, 0);
    return set_up(state);
}

int set_up_all_notes(void **state)
{
    notes = sys_mmap(sizeof *notes, -1, 0);
    return notes != NULL ? set_up_all(state) : -1;
}

int tear_down_all_notes(void **state)
{
    return sys_munmap(notes, sizeof *notes) == 0 ? tear_down_all(state) : -1;
}
