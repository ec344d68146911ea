/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_random.c - schedules from seeds.
 *
 * Envelopes come from a tiny domain, so that most receives and messages fit several others.
 * A schedule has phases, each with a random frequency of each kind of step: the queues
 * between the contexts run full in one phase and empty in another, and a device is slow with
 * its commands and fast with its arrivals, or vice versa.
 */
#include "base/base.h"
#include "base/random.h"
#include "testing/device/schedule.h"

/* The state of the generator. */
struct maker {
    struct random random;
    bool is_tame; /* no wildcards */
    bool cancels, recalls;
    int posts[SCHEDULE_MAX]; /* steps that post */
    uint32_t post_count;
};

static uint32_t draw(struct random *r, uint32_t bound)
{
    return (uint32_t)random_below(r, bound);
}

static bool one_in(struct random *r, uint32_t n)
{
    return draw(r, n) == 0;
}

static uint32_t pick(struct random *r, const uint32_t *from, uint32_t count)
{
    return from[draw(r, count)];
}

static void make_device(struct schedule *s, struct random *r)
{
    static const uint32_t lists[] = {1, 2, 3, 16, 16, 16};

    s->list = pick(r, lists, ARRAY_COUNT(lists));
    s->untagged = one_in(r, 3) ? 1 + draw(r, 15) : 1 + draw(r, 4);
    s->counter_bits = 4 + draw(r, 13); /* untagged < 2^4 */
    s->caps =
        MBX_DEVICE_MASKS | MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_TRUNCATES | MBX_DEVICE_RENDEZVOUS;
    if (one_in(r, 8))
        s->caps &= ~(1u << draw(r, 4)); /* fewer capabilities */
    s->tag_bits = one_in(r, 8) ? 1 : 64;
    s->threshold = one_in(r, 4) ? 1 + draw(r, 48) : 0;
    s->bypass = one_in(r, 2) ? 1 + draw(r, (1u << SCHEDULE_PEERS) - 1) : 0;
}

static struct mbx_match_envelope make_envelope(struct random *r, bool has_wildcards)
{
    return (struct mbx_match_envelope){
        .context_id = 1 + one_in(r, 8),
        .source =
            has_wildcards && one_in(r, 3) ? MBX_MATCH_ANY_SOURCE : draw(r, SCHEDULE_PEERS),
        .tag = draw(r, 3),
    };
}

static uint64_t make_ignore(struct random *r)
{
    static const uint32_t masks[] = {0, 0, 0, 1, 2, 3};

    return one_in(r, 4) ? UINT64_MAX : pick(r, masks, ARRAY_COUNT(masks));
}

static void make_post(struct schedule_step *step, struct maker *maker)
{
    struct random *r = &maker->random;

    step->envelope = make_envelope(r, !maker->is_tame);
    step->ignore = maker->is_tame ? 0 : make_ignore(r);
    maker->posts[maker->post_count++] = step->id;
    step->size = one_in(r, 2) ? 64 : draw(r, SCHEDULE_BYTES + 1);
}

static void make_send(struct schedule_step *step, struct random *r)
{
    step->envelope = make_envelope(r, false);
    step->breaks_at = UINT32_MAX;
    if (one_in(r, 4)) {
        step->message = STEPPED_RENDEZVOUS;
        step->wants_fin = true;
        step->size = draw(r, SCHEDULE_BYTES + 1);
        if (one_in(r, 3))
            step->breaks_at = draw(r, SCHEDULE_BYTES);
    } else {
        step->message = STEPPED_EAGER;
        step->wants_fin = one_in(r, 4);
        step->size =
            one_in(r, 3) ? draw(r, STEPPED_EAGER_MAX + 1) : draw(r, STEPPED_INLINE + 1);
    }
}

static enum step_kind draw_kind(struct random *r, const uint32_t *weights, uint32_t sum)
{
    uint32_t at = draw(r, sum);
    int kind = 0;

    while (at >= weights[kind])
        at -= weights[kind++];
    return (enum step_kind)kind;
}

/* Usually one of the last. */
static int make_target(struct maker *maker)
{
    uint32_t n = maker->post_count;

    if (n == 0)
        return 0;
    return maker
        ->posts[n - 1 - draw(&maker->random, one_in(&maker->random, 2) && n > 4 ? 4 : n)];
}

static void make_step(struct schedule_step *step, struct maker *maker, int id)
{
    struct random *r = &maker->random;

    step->id = id;
    switch (step->kind) {
    case STEP_FOLLOW:
        step->target = make_target(maker);
        make_post(step, maker);
        break;
    case STEP_POST:
        make_post(step, maker);
        break;
    case STEP_SEND:
        make_send(step, r);
        break;
    case STEP_CANCEL:
    case STEP_CLAIM:
        step->target = make_target(maker);
        break;
    case STEP_ARRIVE:
        step->envelope.source = draw(r, SCHEDULE_PEERS);
        break;
    case STEP_MOVE:
        step->target = (int)draw(r, 4);
        break;
    case STEP_POLL:
        step->target = (int)draw(r, 4);
        break;
    case STEP_DENY:
        step->target = 1 + (int)draw(r, 3);
        break;
    case STEP_TAKE:
    case STEP_COMMAND:
    case STEP_LOSE:
    case STEP_RECALL:
    case STEP_RESUME:
    case STEP_KINDS:
        break;
    }
}

/* One of the ways in which an application and a device can be busy for some time. */
static uint32_t make_phase(struct maker *maker, uint32_t *weights)
{
    static const uint32_t speeds[] = {0, 1, 4, 16};
    struct random *r = &maker->random;
    uint32_t sum = 0;

    weights[STEP_POST] = one_in(r, 3) ? 0 : 2 + draw(r, 10);
    weights[STEP_FOLLOW] = one_in(r, 3) ? 1 + draw(r, 4) : 0;
    weights[STEP_SEND] = one_in(r, 3) ? 0 : 2 + draw(r, 14);
    weights[STEP_CANCEL] = maker->cancels && one_in(r, 2) ? 1 + draw(r, 6) : 0;
    weights[STEP_CLAIM] = maker->cancels && one_in(r, 4) ? 1 + draw(r, 4) : 0;
    weights[STEP_TAKE] = 0; /* make_holds() */
    weights[STEP_ARRIVE] = pick(r, speeds, 4);
    weights[STEP_COMMAND] = 1 + pick(r, speeds, 4);
    weights[STEP_MOVE] = pick(r, speeds, 3);
    weights[STEP_POLL] = pick(r, speeds, 4);
    weights[STEP_DENY] = one_in(r, 8);
    weights[STEP_LOSE] = 0;
    weights[STEP_RECALL] = maker->recalls && one_in(r, 2) ? 1 + draw(r, 2) : 0;
    weights[STEP_RESUME] = maker->recalls ? 1 + draw(r, 4) : 0;
    for (int i = 0; i < STEP_KINDS; i++)
        sum += weights[i];
    return sum;
}

/* Often an application posts its receives, and the device gets them, before any message
 * comes. */
static uint32_t make_start(uint32_t *weights)
{
    for (int i = 0; i < STEP_KINDS; i++)
        weights[i] = 0;
    weights[STEP_POST] = weights[STEP_COMMAND] = 4;
    weights[STEP_POLL] = 1;
    return 9;
}

/* From a separate generator, so that the other steps of each seed stay the same. */
static void make_clashes(struct schedule *s, uint64_t seed)
{
    struct random random;

    random_seed(&random, seed ^ UINT64_C(0x636c617368));
    s->clashes = one_in(&random, 4) ? 1 + draw(&random, 5) : 0;
}

/* As make_clashes(); a probe replaces another step. */
static void make_holds(struct schedule *s, uint64_t seed)
{
    struct random random;

    random_seed(&random, seed ^ UINT64_C(0x686f6c64));
    s->holds = one_in(&random, 2);
    if (one_in(&random, 2))
        return;
    for (int i = 0; i < s->count; i++)
        if (one_in(&random, 16))
            s->steps[i] = (struct schedule_step){
                .kind = STEP_TAKE,
                .id = s->steps[i].id,
                .envelope = make_envelope(&random, true),
                .ignore = make_ignore(&random),
                .size = SCHEDULE_BYTES,
            };
}

static void make_steps(struct schedule *s, struct maker *maker)
{
    struct random *r = &maker->random;
    uint32_t weights[STEP_KINDS], sum = 0;

    for (int i = 0, phase = 0; i < s->count; i++) {
        if (i == phase) {
            bool starts = i == 0 && !one_in(r, 3);

            sum = starts ? make_start(weights) : make_phase(maker, weights);
            phase = i + 4 + (int)draw(r, starts ? 36 : 20);
        }
        s->steps[i].kind = draw_kind(r, weights, sum);
        make_step(&s->steps[i], maker, i);
    }
}

void schedule_make(struct schedule *s, uint64_t seed)
{
    struct maker maker = {0};
    struct random *r = &maker.random;

    random_seed(r, seed);
    maker.is_tame = one_in(r, 3);
    maker.cancels = one_in(r, 2);
    maker.recalls = one_in(r, 4);
    *s = (struct schedule){.count = 16 + (int)draw(r, SCHEDULE_MAX - 15)};
    make_device(s, r);
    make_clashes(s, seed);
    make_steps(s, &maker);
    make_holds(s, seed);
    if (one_in(r, 6)) {
        int at = (int)draw(r, (uint32_t)s->count);

        s->steps[at] = (struct schedule_step){.kind = STEP_LOSE, .id = at};
    }
}
