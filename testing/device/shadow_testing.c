/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/shadow_testing.h"

#include <errno.h>

#include "base/log.h"

/* ---- events of the shadow ---- */

static struct posted *tell(struct shadow_recv *shadow, enum outcome outcome)
{
    struct posted *recv = container_of(shadow, struct posted, shadow);

    recv->outcome = outcome;
    recv->notified++;
    return recv;
}

static void on_matched(void *arg, struct shadow_recv *shadow,
                       const struct mbx_device_event *event)
{
    struct owner *o = arg;
    struct posted *recv = tell(shadow, MATCHED);

    (void)event;
    assert_int_equal(mbx_match_cancel(&o->match, &recv->match), !recv->is_cancelled);
    if (recv->next != 0)
        owner_post(o, recv->next, 2, 7);
}

static void on_moved(void *arg, struct shadow_recv *shadow,
                     const struct mbx_device_event *event)
{
    (void)arg;
    tell(shadow, event->type == MBX_DEVICE_DATA_VALID   ? VALID
                 : event->type == MBX_DEVICE_INCOMPLETE ? INCOMPLETE
                                                        : LOST);
}

static void on_revoked(void *arg, struct shadow_recv *shadow)
{
    (void)arg;
    tell(shadow, REVOKED);
}

static int on_packet(void *arg, uint32_t peer, const void *memory, size_t size)
{
    struct owner *o = arg;
    const struct stepped_packet *packet = memory;
    const struct mbx_match_envelope envelope = {packet->envelope.context_id, peer,
                                                packet->envelope.tag};
    struct mbx_match_recv *met;

    assert_int_equal(size, sizeof *packet);
    o->offered++;
    o->handled_within = o->shadow.handled;
    if (o->refusals > 0) {
        o->refusals--;
        return -EAGAIN;
    }
    if (packet->kind == STEPPED_OTHER)
        return 0;
    met = mbx_match_find(&o->match, &envelope);
    if (met == NULL) {
        o->msgs[o->kept].envelope = envelope;
        assert_int_equal(mbx_match_keep(&o->match, &o->msgs[o->kept]), 0);
        o->held[o->kept] = held_keep(&o->shadow, &envelope, &o->msgs[o->kept]);
        o->kept++;
        return 0;
    }
    tell(&container_of(met, struct posted, match)->shadow, TAKEN);
    shadow_taken(&o->shadow, &container_of(met, struct posted, match)->shadow);
    return 0;
}

static void on_paired(void *arg, struct shadow_recv *shadow, void *message)
{
    (void)arg;
    tell(shadow, GIVEN)->given = message;
}

/* Called for any reason; the device does nothing any more. */
static void on_lost(void *arg)
{
    struct owner *o = arg;

    o->lost++;
    stepped_lose(&o->stepped);
}

static void on_owed(void *arg, uint32_t peer, uint64_t sender)
{
    struct owner *o = arg;

    (void)peer;
    o->owed++;
    o->owed_sender = sender;
}

static bool on_knows(void *arg, uint32_t peer)
{
    (void)arg;
    return peer < 8;
}

const struct shadow_events owner_events = {
    .knows = on_knows,
    .owed = on_owed,
    .matched = on_matched,
    .moved = on_moved,
    .revoked = on_revoked,
    .packet = on_packet,
    .paired = on_paired,
    .lost = on_lost,
};

/* ---- around each test ---- */

static void count_line(void *arg, enum log_level level, const char *text)
{
    struct owner *o = arg;

    (void)level;
    assert_non_null(text);
    o->logged++;
}

static void open_shadow(struct owner *o, const struct stepped_config *device, uint32_t list,
                        uint64_t threshold, bool holds)
{
    static const struct stepped_config able;

    *o = (struct owner){0};
    mbx_match_init(&o->match, NULL);
    stepped_init(&o->stepped, device != NULL ? device : &able);
    assert_int_equal(
        shadow_init(&o->shadow, &(struct shadow_config){.device = &o->stepped.device,
                                                        .list = list,
                                                        .untagged = 8,
                                                        .threshold = threshold,
                                                        .holds = holds,
                                                        .events = &owner_events,
                                                        .arg = o}),
        0);
    stepped_run(&o->stepped);
}

static void close_shadow(struct owner *o)
{
    bool is_valid = stepped_is_valid(&o->stepped) && shadow_is_valid(&o->shadow);

    shadow_fini(&o->shadow);
    stepped_fini(&o->stepped);
    mbx_match_fini(&o->match);
    assert_true(is_valid);
}

void owner_reopen(struct owner *o, const struct stepped_config *device, uint32_t list,
                  uint64_t threshold)
{
    close_shadow(o);
    open_shadow(o, device, list, threshold, false);
}

void owner_reopen_holding(struct owner *o, const struct stepped_config *device, uint32_t list,
                          uint64_t threshold)
{
    close_shadow(o);
    open_shadow(o, device, list, threshold, true);
}

int owner_set_up(void **state)
{
    struct owner *o = malloc(sizeof *o);

    assert_non_null(o);
    log_set_sink(count_line, o);
    open_shadow(o, NULL, 8, 0, false);
    *state = o;
    return 0;
}

int owner_tear_down(void **state)
{
    log_set_sink(NULL, NULL);
    close_shadow(*state);
    free(*state);
    return 0;
}

void owner_lacks_memory(bool holds, uint64_t pieces)
{
    struct shadow shadow;
    struct stepped stepped;
    uint64_t live = mem_live(), n = 0;
    int err;

    do {
        stepped_init(&stepped, &(struct stepped_config){0});
        mem_fail_at(++n);
        err = shadow_init(&shadow, &(struct shadow_config){.device = &stepped.device,
                                                           .holds = holds,
                                                           .events = &owner_events});
        if (err == 0)
            shadow_fini(&shadow);
        else
            assert_int_equal(err, -ENOMEM);
        mem_fail_at(0);
        stepped_fini(&stepped);
        assert_int_equal(mem_live(), live);
    } while (err != 0);
    assert_int_equal(n, pieces + 1);
}

/* ---- the user ---- */

struct shadow_recv *owner_post_sized(struct owner *o, int i, uint32_t source, uint64_t tag,
                                     uint64_t ignore, size_t size)
{
    struct posted *recv = &o->recvs[i];
    struct mbx_match_msg *met;

    *recv = (struct posted){.match = {.envelope = {1, source, tag}, .ignore = ignore}};
    assert_int_equal(mbx_match_post(&o->match, &recv->match, &met), 0);
    assert_null(met);
    shadow_post(&o->shadow, &recv->shadow, &recv->match, recv->buf, size);
    return &recv->shadow;
}

struct shadow_recv *owner_post(struct owner *o, int i, uint32_t source, uint64_t tag)
{
    return owner_post_sized(o, i, source, tag, 0, STEPPED_EAGER_MAX);
}

void owner_place(struct owner *o, int i, uint32_t source, uint64_t tag)
{
    owner_post(o, i, source, tag);
    stepped_run(&o->stepped);
}

bool owner_find(struct owner *o, int i, int message, uint64_t tag, size_t size)
{
    struct posted *recv = &o->recvs[i];
    struct mbx_match_msg *met;

    *recv = (struct posted){.match = {.envelope = {1, 2, tag}}};
    assert_int_equal(mbx_match_post(&o->match, &recv->match, &met), 0);
    assert_ptr_equal(met, &o->msgs[message]);
    return held_post(&o->shadow, &recv->shadow, &recv->match, recv->buf, size,
                     o->held[message]);
}

static void leave_engine(struct owner *o, int i)
{
    o->recvs[i].is_cancelled = true;
    assert_true(mbx_match_cancel(&o->match, &o->recvs[i].match));
}

bool owner_cancel(struct owner *o, int i)
{
    leave_engine(o, i);
    return shadow_cancel(&o->shadow, &o->recvs[i].shadow);
}

bool owner_claim(struct owner *o, int i)
{
    leave_engine(o, i);
    return shadow_reclaim(&o->shadow, &o->recvs[i].shadow);
}

/* ---- the peer, and the device ---- */

void owner_put(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
               bool wants_fin)
{
    static const unsigned char bytes[256];

    stepped_send_message(&o->stepped, 2,
                         &(struct stepped_packet){.kind = (uint8_t)kind,
                                                  .wants_fin = wants_fin,
                                                  .envelope = {1, 2, tag},
                                                  .size = size,
                                                  .breaks_at = UINT64_MAX},
                         bytes);
}

void owner_begin(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
                 bool wants_fin)
{
    owner_put(o, kind, tag, size, wants_fin);
    assert_true(stepped_arrive(&o->stepped, 2));
}

void owner_arrive(struct owner *o, uint64_t tag)
{
    owner_begin(o, STEPPED_EAGER, tag, 8, false);
}

void owner_say(struct owner *o, const struct mbx_device_event *event)
{
    o->stepped.events[(o->stepped.events_first + o->stepped.events_count++) % STEPPED_EVENTS] =
        *event;
}

/* ---- the shadow ---- */

void owner_poll(struct owner *o)
{
    shadow_poll(&o->shadow);
    assert_true(shadow_is_valid(&o->shadow));
    assert_true(stepped_is_valid(&o->stepped));
}

void owner_settle(struct owner *o)
{
    for (int i = 0; i < 8; i++) {
        stepped_run(&o->stepped);
        owner_poll(o);
    }
}

void owner_hears(struct owner *o, enum outcome outcome, uint32_t free_handles)
{
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, outcome);
    assert_int_equal(owner_free_handles(o), free_handles);
}

uint32_t owner_free_handles(const struct owner *o)
{
    return o->shadow.free_count;
}

const struct tm_command *owner_waiting_command(const struct owner *o, uint32_t number)
{
    uint32_t capacity = sizeof o->stepped.queue / sizeof o->stepped.queue[0];

    for (uint32_t i = 0; i < o->stepped.queue_count; i++) {
        const struct stepped_queued *queued =
            &o->stepped.queue[(o->stepped.queue_first + i) % capacity];

        if (!queued->is_buffer && number-- == 0)
            return &queued->command;
    }
    fail_msg("there is no such command");
    return NULL;
}
