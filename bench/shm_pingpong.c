/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how far is the latency of a packet through shared memory from the minimum between
 *            two cores?
 * Method     two processes, each pinned to a core, in turns: a bare ping-pong of one
 *            word in one cache line, then a packet of 32 + 8 bytes each way through the
 *            shm transport.  Repeated in short slices; the median and the fastest repeat of
 *            each, as half round trips.  Then the cost of single calls: a poll that finds
 *            nothing, and a send with a poll of the own packet.
 *
 *   shm_pingpong [ROUNDS [REPEATS]]
 */
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/sys.h"
#include "transport/transport.h"

#define REPEATS_MAX 10000

struct shared {
    alignas(CACHE_LINE) _Atomic uint64_t word;
    alignas(CACHE_LINE) _Atomic uint32_t ready[2];
    struct transport_address address[2];
};

static struct shared *shared;
static uint64_t arrived;

static void fail(const char *what, int err)
{
    fprintf(stderr, "shm_pingpong: %s: %s\n", what, strerror(-err));
    exit(1);
}

static int on_accept(void *arg, struct link *link, const struct transport_address *address,
                     uint32_t *peer)
{
    (void)arg;
    (void)link;
    (void)address;
    *peer = 0;
    return 0;
}

static int on_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    (void)arg;
    (void)peer;
    (void)packet;
    arrived += size == sizeof(struct wire_header) + 8;
    return 0;
}

static void on_dropped(void *arg, const char *reason)
{
    (void)arg;
    fprintf(stderr, "shm_pingpong: dropped: %s\n", reason);
    exit(1);
}

static const struct transport_events events = {
    .accept = on_accept, .deliver = on_deliver, .dropped = on_dropped};

static void pin(unsigned which)
{
    cpu_set_t allowed, one;
    unsigned seen = 0;

    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == which % (unsigned)CPU_COUNT(&allowed))
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void meet(unsigned who)
{
    uint32_t turn = atomic_fetch_add(&shared->ready[who], 1) + 1;

    while (atomic_load(&shared->ready[1 - who]) < turn)
        cpu_relax();
}

static void flip(unsigned who, uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        while (atomic_load_explicit(&shared->word, memory_order_acquire) != 2 * i + who)
            continue;
        atomic_store_explicit(&shared->word, 2 * i + who + 1, memory_order_release);
    }
}

static void send_one(struct link *link)
{
    /* made for each packet, as the core does */
    const struct wire_header header = {
        .type = WIRE_EAGER, .version = WIRE_VERSION, .tag = arrived, .context_id = 1};
    uint64_t payload = arrived;
    int err = link->transport->ops->send(
        link, &(struct transport_packet){
                  .header = &header, .payload = &payload, .payload_size = sizeof payload});

    if (err != 0)
        fail("send", err);
}

static void await(struct transport *t, uint64_t count)
{
    while (arrived < count)
        t->ops->poll(t, 16);
}

static void bounce(unsigned who, struct link *link, uint64_t rounds)
{
    struct transport *t = link->transport;

    for (uint64_t i = 0; i < rounds; i++) {
        if (who == 0)
            send_one(link);
        await(t, arrived + 1);
        if (who == 1)
            send_one(link);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double elapsed_ns(uint64_t start, uint64_t count)
{
    return (double)(clock_now() - start) / (double)count;
}

/* Measures a poll that finds nothing, and a packet to this endpoint itself. */
static void measure_calls(struct transport *t, struct link *self, uint64_t rounds)
{
    uint64_t start = clock_now();
    double idle_ns;

    for (uint64_t i = 0; i < rounds; i++)
        t->ops->poll(t, 16);
    idle_ns = elapsed_ns(start, rounds);
    start = clock_now();
    for (uint64_t i = 0; i < rounds; i++) {
        send_one(self);
        await(t, arrived + 1);
    }
    printf("bench=shm_calls idle_poll_ns=%.1f self_send_poll_ns=%.1f\n", idle_ns,
           elapsed_ns(start, rounds));
}

static void run(unsigned who, uint64_t rounds, int repeats)
{
    static double bare[REPEATS_MAX], shm[REPEATS_MAX];
    struct transport_config config = {.events = &events};
    struct transport *t;
    struct link *link, *self;
    int err;

    pin(who);
    err = transport_shm.open(&config, &t);
    if (err != 0)
        fail("open", err);
    t->ops->address(t, &shared->address[who]);
    meet(who);
    err = t->ops->connect(t, &shared->address[1 - who], &link);
    if (err == 0)
        err = t->ops->connect(t, &shared->address[who], &self);
    if (err != 0)
        fail("connect", err);
    for (int i = -1; i < repeats; i++) { /* -1: warm-up */
        int slot = i < 0 ? 0 : i;
        uint64_t start;

        meet(who);
        start = clock_now();
        flip(who, rounds);
        bare[slot] = elapsed_ns(start, 2 * rounds);
        meet(who);
        if (who == 0)
            atomic_store(&shared->word, 0);
        meet(who);
        start = clock_now();
        bounce(who, link, rounds);
        shm[slot] = elapsed_ns(start, 2 * rounds);
    }
    if (who == 0) {
        qsort(bare, (size_t)repeats, sizeof bare[0], compare);
        qsort(shm, (size_t)repeats, sizeof shm[0], compare);
        printf("bench=shm_pingpong bytes=40 bare_median_ns=%.1f bare_min_ns=%.1f "
               "shm_median_ns=%.1f shm_min_ns=%.1f ratio_median=%.2f ratio_min=%.2f "
               "rounds=%llu repeats=%d\n",
               bare[repeats / 2], bare[0], shm[repeats / 2], shm[0],
               shm[repeats / 2] / bare[repeats / 2], shm[0] / bare[0],
               (unsigned long long)rounds, repeats);
        measure_calls(t, self, 100 * rounds);
    }
    meet(who);
    t->ops->close(t);
}

/* The number in text, from 1 to max; otherwise the program ends. */
static uint64_t to_number(const char *name, const char *text, uint64_t max)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    if (*text >= '0' && *text <= '9' && *end == '\0' && value >= 1 && value <= max)
        return value;
    fprintf(stderr, "shm_pingpong: %s is a number from 1 to %llu, not '%s'\n", name,
            (unsigned long long)max, text);
    exit(2);
}

int main(int argc, char **argv)
{
    static const char usage[] = "usage: shm_pingpong [ROUNDS [REPEATS]]\n";
    uint64_t rounds = 1000;
    int repeats = 900, status = 0;
    pid_t child;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc > 3) {
        fprintf(stderr, "shm_pingpong: there is no argument '%s'\n%s", argv[3], usage);
        return 2;
    }
    if (argc > 1)
        rounds = to_number("ROUNDS", argv[1], UINT32_MAX);
    if (argc > 2)
        repeats = (int)to_number("REPEATS", argv[2], REPEATS_MAX);
    shared = sys_mmap(sizeof *shared, -1, 0);
    if (shared == NULL)
        fail("mmap", -1);
    child = sys_fork();
    if (child == 0) {
        sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(1, rounds, repeats);
        _exit(0);
    }
    run(0, rounds, repeats);
    waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
}
