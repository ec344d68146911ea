/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ticks.c - see ticks.h.
 *
 * The counter of x86-64 is usable if it counts at one rate in all states of the processor
 * (CPUID), and if the system uses it as its own clock source: then the system has found the
 * counters of all cores to be synchronized.
 */
#include "base/ticks.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/sys.h"

#define PERIOD       (20 * CLOCK_US) /* between two anchors, at most */
#define LEARN        (10 * CLOCK_MS) /* the rate is measured over at least this time */
#define FORGET       (1 * CLOCK_S)   /* and over at most this time */
#define ANCHOR_WIDTH 200             /* ns: between the two clock reads of an anchor, at most */
#define NARROW       4 /* ns: a narrow sample is at most this much wider than the narrowest */
#define TRIES        4
#define FIRST_TRIES  16             /* until the narrowest is known */
#define OFF_MAX      (1 * CLOCK_US) /* an anchor may be off by this, plus 1 ns in OFF_PART */
#define OFF_PART     4096
#define STRIKES_MAX  8
#define LED_MOST                                                                               \
    CLOCK_MS /* within this time the error of the rate is less than the error of a sample */

/* Nanoseconds of 2^32 ticks, for 20 GHz and 50 MHz.  A rate outside is wrong, as when the host
 * slept while it was measured. */
#define RATE_MIN    ((UINT64_C(1) << 32) / 20)
#define RATE_MAX    ((UINT64_C(1) << 32) * 20)

#define SOURCE_PATH "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static ticks_counter_fn *_Atomic counter_replaced;

/* ---- the counter of the processor ---- */

#if defined(__x86_64__)

#include <cpuid.h>

/* May be executed before earlier loads. */
static inline uint64_t counter_read(void)
{
    return __builtin_ia32_rdtsc();
}

static inline uint64_t counter_read_behind(void)
{
    unsigned core;

    return __builtin_ia32_rdtscp(&core);
}

static bool counter_is_steady(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1u << 8) != 0 && /* invariant */
           __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (d & 1u << 27) != 0;  /* rdtscp */
}

static bool counter_is_good(void)
{
    char name[16] = {0};
    int fd = counter_is_steady() ? sys_open(SOURCE_PATH, O_RDONLY, 0) : -1;

    if (fd < 0)
        return false;
    if (sys_read(fd, name, sizeof name - 1) < 0)
        name[0] = '\0';
    sys_close(fd);
    return strcmp(name, "tsc\n") == 0;
}

#else

static inline uint64_t counter_read(void)
{
    return 0;
}

static inline uint64_t counter_read_behind(void)
{
    return 0;
}

static bool counter_is_good(void)
{
    return false;
}

#endif

/* The acquire pairs with the release in ticks_set(): makes visible what the test prepared. */
static inline uint64_t counter_now(bool is_behind)
{
    ticks_counter_fn *counter = atomic_load_explicit(&counter_replaced, memory_order_acquire);

    if (unlikely(counter != NULL))
        return counter();
    return is_behind ? counter_read_behind() : counter_read();
}

static bool counter_is_usable(void)
{
    if (atomic_load_explicit(&counter_replaced, memory_order_acquire) != NULL)
        return true;
    return !clock_is_replaced() && counter_is_good();
}

void ticks_set(ticks_counter_fn *counter)
{
    atomic_store_explicit(&counter_replaced, counter, memory_order_release);
}

/* ---- the time ---- */

static uint64_t scale(const struct ticks *t, uint64_t gone)
{
    return gone * t->rate >> 32;
}

static inline uint64_t say(struct ticks *t, uint64_t ns)
{
    if (ns > t->last_ns)
        t->last_ns = ns;
    return t->last_ns;
}

/* A value of the counter, and two times between which it was read. */
struct sample {
    uint64_t at, before, after;
};

static uint64_t width_of(const struct sample *sample)
{
    return sample->after - sample->before;
}

static bool is_narrow(const struct ticks *t, const struct sample *sample)
{
    return width_of(sample) <= t->narrowest + NARROW;
}

static struct sample sample_once(void)
{
    struct sample sample;

    sample.before = clock_now();
    sample.at = counter_now(true);
    sample.after = clock_now();
    return sample;
}

/* Takes the narrowest of several samples, usually of one.  False: each was interrupted. */
static bool anchor_sample(struct ticks *t, struct sample *best)
{
    bool is_first = t->base_ns == 0;

    *best = sample_once();
    for (int i = 1; i < (is_first ? FIRST_TRIES : TRIES) && (is_first || !is_narrow(t, best));
         i++) {
        struct sample sample = sample_once();

        if (width_of(&sample) < width_of(best))
            *best = sample;
    }
    if (width_of(best) < t->narrowest)
        t->narrowest = width_of(best);
    else if (!is_narrow(t, best))
        t->narrowest++; /* the processor may have become slower */
    return width_of(best) <= ANCHOR_WIDTH;
}

/* The time that counter and rate give, counted from the anchor; 0: not known, or too far from
 * it. */
static uint64_t anchor_led(const struct ticks *t, const struct sample *sample)
{
    if (t->rate == 0 || sample->before - t->at_ns > FORGET)
        return 0;
    return t->at_ns + scale(t, sample->at - t->at); /* a meaningless value, if the counter has
                                                       gone back */
}

static bool is_off(const struct ticks *t, const struct sample *sample, uint64_t led_ns)
{
    uint64_t most = OFF_MAX + (sample->before - t->at_ns) / OFF_PART;

    return led_ns != 0 && (led_ns + most < sample->before || led_ns > sample->after + most);
}

/* The time of the sample.  For a narrow one this is the middle; a wide one was interrupted, and
 * gets the time predicted from a recent anchor, clamped to the sample. */
static uint64_t anchor_time(const struct ticks *t, const struct sample *sample, uint64_t led_ns)
{
    if (is_narrow(t, sample) || led_ns == 0 || sample->before - t->at_ns > LED_MOST)
        return sample->before + width_of(sample) / 2;
    return led_ns < sample->before  ? sample->before
           : led_ns > sample->after ? sample->after
                                    : led_ns;
}

/* The counter did not count as expected: the rate has to be measured again. */
static void strike(struct ticks *t)
{
    t->strikes++;
    t->rate = t->base = t->base_ns = 0;
}

static void measure(struct ticks *t, uint64_t at, uint64_t at_ns)
{
    uint64_t gone_ns = at_ns - t->base_ns;

    if (t->base_ns != 0 && gone_ns < LEARN)
        return;
    if (t->base_ns != 0 && gone_ns <= FORGET && at > t->base) {
        uint64_t rate = (gone_ns << 32) / (at - t->base);

        t->rate = rate >= RATE_MIN && rate <= RATE_MAX ? rate : 0;
    }
    t->base = at;
    t->base_ns = at_ns;
}

/* While the rate is not known: is it too soon for another anchor, or for ever too late? */
static bool is_too_soon(const struct ticks *t, uint64_t now_ns)
{
    return t->strikes >= STRIKES_MAX || (t->base_ns != 0 && now_ns - t->base_ns < LEARN);
}

/* Takes a new anchor when the reach of the last one has ended. */
static OUT_OF_LINE uint64_t ticks_anchor(struct ticks *t)
{
    struct sample sample;
    uint64_t led_ns, at_ns;

    t->reach = 0;
    if (clock_is_replaced() &&
        atomic_load_explicit(&counter_replaced, memory_order_acquire) == NULL)
        t->strikes = STRIKES_MAX; /* the clock was replaced after ticks_start() */
    if (t->rate == 0 || t->strikes >= STRIKES_MAX) {
        uint64_t now_ns = clock_now();

        if (is_too_soon(t, now_ns))
            return say(t, now_ns);
    }
    if (!anchor_sample(t, &sample)) {
        strike(t);
        return say(t, clock_now());
    }
    led_ns = anchor_led(t, &sample);
    if (is_off(t, &sample, led_ns)) {
        strike(t);
        led_ns = 0;
    }
    at_ns = anchor_time(t, &sample, led_ns);
    if (is_narrow(t, &sample))
        measure(t, sample.at, at_ns);
    t->at = sample.at;
    t->at_ns = at_ns;
    if (t->rate != 0)
        t->reach = (PERIOD << 32) / t->rate;
    return say(t, at_ns);
}

static inline uint64_t ticks_read(struct ticks *t, bool is_behind)
{
    uint64_t gone;

    if (unlikely(t->reach == 0))
        return ticks_anchor(t);
    gone = counter_now(is_behind) - t->at;
    return likely(gone < t->reach) ? say(t, t->at_ns + scale(t, gone)) : ticks_anchor(t);
}

void ticks_start(struct ticks *t)
{
    *t = (struct ticks){.narrowest = ANCHOR_WIDTH,
                        .strikes = counter_is_usable() ? 0 : STRIKES_MAX};
}

uint64_t ticks_now(struct ticks *t)
{
    return ticks_read(t, false);
}

uint64_t ticks_now_behind(struct ticks *t)
{
    return ticks_read(t, true);
}
