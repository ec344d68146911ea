/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_rank.c - measures the time that a transfer adds to a computation of the receiver.
 *
 *   receiver (rank 0)                      sender (rank 1)
 *   post the receives of a window
 *   GO       ───────────────────────────>
 *            <───────────────────────────  READY: we begin at moment t
 *   until t: nothing                       until t: nothing
 *   t: compute, with no call at all        t: send the window, then mbx_wait() for it
 *      wait for the window
 *      stop the clock
 *
 * The ranks are processes of one machine and have one clock, so they agree on a moment
 * shortly after the READY, and no time includes a handshake.  A round that the receiver
 * could not begin in time is repeated, with a longer lead.
 *
 * Three times are measured in turn, so that a disturbance affects all of them:
 *
 *   comm      a round with nothing to compute
 *   compute   the same computation alone, made to last about as long as comm (--compute:
 *             a percentage of that)
 *   both      a round with the computation
 *
 *   overlap = 1 - (both - max(comm, compute)) / min(comm, compute)
 *
 * 1 if the shorter of the two cost nothing, 0 if both took as long as one after the other.
 * overlap_percent is computed from the medians, overlap_min_percent from the fastest of each.
 * Both are limited to 0..100, which noise may exceed; overlap_raw_percent, from the medians,
 * is not.
 *
 * The computation works in registers: it leaves caches and memory to the transfer.
 *
 * The first and last bytes of each message contain its round and position, and the
 * receiver checks both after the clock has stopped.
 */
#include "overlap.h"
#include "overlap_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/mem.h"
#include "base/sys.h"

#define GO_TAG       4
#define READY_TAG    5
#define MESSAGE_TAG  6
#define CLOCK_TAG    7

#define WINDOW_BYTES (256 * 1024) /* per window, if that is at most WINDOW_MAX messages */
#define WINDOW_MAX   64

#define LEAD_NS      (20 * CLOCK_US) /* from the READY to the beginning, initially */
#define LEAD_MAX_NS  (100 * CLOCK_MS)
#define LATE_NS      (5 * CLOCK_US) /* a sender that begins later is counted */
#define LATE_MOST    1000           /* repeated rounds for one size */
#define WARM_ROUNDS  9
#define SHORT_SPIN   "SPIN=10us"

/* Requests a round; round 0: there are no more. */
struct go {
    uint64_t round, lead_ns;
};

struct ready {
    uint64_t start_ns;
    uint64_t late; /* rounds of this size that the sender began late */
};

struct rank {
    const struct overlap *o;
    struct perf perf;
    struct overlap_place place;
    struct overlap_mode mode;
    mbx_request *requests; /* for a window */
    double step_ns;        /* of the computation */
    bool sleeps;           /* the sender yields its core while it waits */
};

/* The results for one size. */
struct times {
    double *comm, *compute, *both; /* repeats of each */
    uint64_t late;
};

uint32_t overlap_window(const struct overlap *o, size_t size)
{
    if (o->window != 0)
        return o->window;
    return (uint32_t)max_size(1, min_size(WINDOW_MAX, WINDOW_BYTES / max_size(size, 1)));
}

/* ---- messages ---- */

/* The buffer of message i of the window. */
static uint8_t *message_at(uint8_t *buffers, size_t size, uint32_t i)
{
    return buffers + (size_t)i * size;
}

/* ---- the sender ---- */

/* Waits, and lets other threads on this core run. */
static void await_moment(uint64_t moment_ns)
{
    while (clock_now() < moment_ns)
        sched_yield();
}

static int send_window(struct rank *r, size_t size, uint32_t window)
{
    struct perf *p = &r->perf;
    int err = 0;

    for (uint32_t i = 0; i < window && err == 0; i++)
        err = mbx_send(p->ep, p->peer, 0, MESSAGE_TAG, message_at(p->send, size, i), size, NULL,
                       &r->requests[i]);
    for (uint32_t i = 0; i < window && err == 0; i++)
        err = perf_wait(p, r->requests[i], size);
    return err;
}

static int hear_go(struct rank *r, struct go *go)
{
    struct perf *p = &r->perf;
    mbx_request request;
    int err = mbx_recv(p->ep, p->peer, 0, GO_TAG, 0, go, sizeof *go, NULL, &request);

    return err != 0 ? err : perf_wait(p, request, sizeof *go);
}

static int say_ready(struct rank *r, const struct ready *ready)
{
    struct perf *p = &r->perf;

    return mbx_inject(p->ep, p->peer, 0, READY_TAG, ready, sizeof *ready, 0);
}

/* The sender's part: serves the rounds that the receiver requests for this size. */
static int serve_size(struct rank *r, size_t size)
{
    uint32_t window = overlap_window(r->o, size);
    struct ready ready = {0};
    struct go go;
    int err;

    for (;;) {
        if ((err = hear_go(r, &go)) != 0)
            return err;
        for (uint32_t i = 0; i < window; i++)
            work_stamp(message_at(r->perf.send, size, i), size, go.round + i);
        ready.start_ns = clock_now() + go.lead_ns;
        if ((err = say_ready(r, &ready)) != 0 || go.round == 0)
            return err;
        await_moment(ready.start_ns);
        ready.late += clock_now() - ready.start_ns > LATE_NS;
        if ((err = send_window(r, size, window)) != 0)
            return err;
    }
}

/* ---- the receiver ---- */

static int post_window(struct rank *r, size_t size, uint32_t window)
{
    struct perf *p = &r->perf;
    int err = 0;

    for (uint32_t i = 0; i < window && err == 0; i++)
        err = mbx_recv(p->ep, p->peer, 0, MESSAGE_TAG, 0, message_at(p->recv, size, i), size,
                       NULL, &r->requests[i]);
    return err;
}

static int wait_window(struct rank *r, size_t size, uint32_t window)
{
    int err = 0;

    for (uint32_t i = 0; i < window && err == 0; i++)
        err = perf_wait(&r->perf, r->requests[i], size);
    return err;
}

static int ask(struct rank *r, const struct go *go, struct ready *ready)
{
    struct perf *p = &r->perf;
    mbx_request request;
    int err = mbx_recv(p->ep, p->peer, 0, READY_TAG, 0, ready, sizeof *ready, NULL, &request);

    if (err == 0)
        err = mbx_inject(p->ep, p->peer, 0, GO_TAG, go, sizeof *go, 0);
    return err != 0 ? err : perf_wait(p, request, sizeof *ready);
}

static int check_window(const struct rank *r, size_t size, uint32_t window, uint64_t round)
{
    for (uint32_t i = 0; i < window; i++)
        if (!work_is_stamped(message_at(r->perf.recv, size, i), size, round + i)) {
            tool_error(r->o->tool, "message %u of %zu bytes came with other bytes", i, size);
            return -EBADMSG;
        }
    return 0;
}

/* One round.  0 and *ns; -EAGAIN: this rank was too late to begin with the sender. */
static int try_round(struct rank *r, size_t size, uint64_t steps, const struct go *go,
                     double *ns)
{
    uint32_t window = overlap_window(r->o, size);
    struct ready ready;
    uint64_t end_ns;
    int err = post_window(r, size, window);

    if (err != 0 || (err = ask(r, go, &ready)) != 0)
        return err;
    if (clock_now() >= ready.start_ns) {
        err = wait_window(r, size, window);
        return err != 0 ? err : -EAGAIN;
    }
    while (clock_now() < ready.start_ns)
        ;
    work_compute(steps);
    err = wait_window(r, size, window);
    end_ns = clock_now();
    *ns = (double)(end_ns - ready.start_ns);
    return err != 0 ? err : check_window(r, size, window, go->round);
}

/* A round that counts.  The numbers of rounds make the marks in messages of neighbouring rounds
 * differ. */
static int round_of(struct rank *r, size_t size, uint64_t steps, struct go *go, double *ns)
{
    int err;

    for (int tries = 0; tries < LATE_MOST; tries++) {
        go->round += overlap_window(r->o, size);
        if ((err = try_round(r, size, steps, go, ns)) != -EAGAIN)
            return err;
        go->lead_ns = min_size(2 * go->lead_ns, LEAD_MAX_NS);
    }
    tool_error(r->o->tool, "this rank is never on time: another process uses its core; "
                           "--no-bind lets the system choose");
    return -ETIMEDOUT;
}

/* Chooses the amount of computation for this size: as long as its transfer, or the requested
 * percentage of it. */
static int find_steps(struct rank *r, size_t size, struct go *go, uint64_t *steps)
{
    double ns[WARM_ROUNDS];
    int err;

    for (int i = 0; i < WARM_ROUNDS; i++)
        if ((err = round_of(r, size, 0, go, &ns[i])) != 0)
            return err;
    *steps =
        1 + (uint64_t)(perf_summary(ns, WARM_ROUNDS).min / r->step_ns * r->o->percent / 100);
    return 0;
}

static int take_times(struct rank *r, size_t size, struct times *t)
{
    struct go go = {.lead_ns = LEAD_NS};
    struct ready last;
    uint64_t steps;
    int err = find_steps(r, size, &go, &steps);

    for (uint32_t i = 0; i < r->o->repeats && err == 0; i++) {
        if ((err = round_of(r, size, 0, &go, &t->comm[i])) != 0)
            break;
        t->compute[i] = work_compute_timed(steps);
        err = round_of(r, size, steps, &go, &t->both[i]);
    }
    go.round = 0;
    if (err == 0 && (err = ask(r, &go, &last)) == 0)
        t->late = last.late;
    return err;
}

/* ---- output ---- */

static const char *protocol_of(const struct rank *r, size_t size)
{
    struct mbx_protocol_row row;

    for (unsigned i = 0; mbx_protocol_get(r->perf.ep, r->perf.peer, i, &row, sizeof row) == 0;
         i++)
        if (size <= row.max_size)
            return mbx_protocol_name(row.protocol);
    return "unknown";
}

/* The definition, not limited to 0..100. */
static double overlap_of(double comm, double work, double both)
{
    double longer = comm > work ? comm : work, shorter = comm > work ? work : comm;

    return 100 * (1 - (both - longer) / shorter);
}

static double kept_within(double percent)
{
    return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

static void print_size(const struct rank *r, size_t size, const struct times *t)
{
    struct perf_times comm = perf_summary(t->comm, r->o->repeats);
    struct perf_times work = perf_summary(t->compute, r->o->repeats);
    struct perf_times both = perf_summary(t->both, r->o->repeats);
    double raw = overlap_of(comm.median, work.median, both.median);
    double fastest = overlap_of(comm.min, work.min, both.min);
    double longer = comm.median > work.median ? comm.median : work.median;

    perf_say(r->o->json,
             "perf=overlap mode=%s size=%zu window=%u protocol=%s overlap_percent=%.1f "
             "overlap_raw_percent=%.1f overlap_min_percent=%.1f both_ratio=%.3f "
             "comm_median_ns=%.0f compute_median_ns=%.0f both_median_ns=%.0f comm_min_ns=%.0f "
             "compute_min_ns=%.0f both_min_ns=%.0f sender_late=%llu disturbed=%s repeats=%u",
             r->mode.name, size, overlap_window(r->o, size), protocol_of(r, size),
             kept_within(raw), raw, kept_within(fastest), both.median / longer, comm.median,
             work.median, both.median, comm.min, work.min, both.min,
             (unsigned long long)t->late, overlap_is_disturbed(raw) ? "yes" : "no",
             r->o->repeats);
}

static void print_places(const struct rank *r)
{
    char receiver[64] = "any", sender[64] = "any", others[64] = "any", ran[64];

    if (r->o->bind) {
        overlap_place_text(&r->place.rank[0], receiver, sizeof receiver);
        overlap_place_text(&r->place.rank[1], sender, sizeof sender);
        overlap_place_text(&r->place.others, others, sizeof others);
    }
    perf_say(r->o->json,
             "perf=overlap_places mode=%s receiver_cpus=%s receiver_ran_on=%d sender_cpus=%s "
             "sender_waits=%s others_cpus=%s others_ran_on=%s",
             r->mode.name, receiver, sched_getcpu(), sender, r->sleeps ? "asleep" : "polling",
             others, overlap_place_others(ran, sizeof ran));
}

/* ---- a rank ---- */

static int measure_size(struct rank *r, size_t size)
{
    double *ns = mem_calloc(3 * (size_t)r->o->repeats, sizeof *ns);
    struct times t = {ns, ns + r->o->repeats, ns + 2 * (size_t)r->o->repeats, 0};
    int err = ns != NULL ? take_times(r, size, &t) : -ENOMEM;

    if (err == 0)
        print_size(r, size, &t);
    mem_free(ns);
    return err;
}

static int measure(struct rank *r)
{
    const struct perf_sizes *sizes = &r->o->sizes;
    int err = 0;

    if (r->perf.rank == 0)
        r->step_ns = work_calibrate();
    for (unsigned i = 0; i < sizes->count && err == 0; i++)
        err =
            r->perf.rank == 0 ? measure_size(r, sizes->size[i]) : serve_size(r, sizes->size[i]);
    if (err == 0 && r->perf.rank == 0)
        print_places(r);
    return err;
}

/* Buffers for the rank's own messages; a rank either sends or receives. */
static int alloc_buffers(struct rank *r)
{
    const struct overlap *o = r->o;
    uint32_t most = 1;
    uint8_t *buffers;

    for (unsigned i = 0; i < o->sizes.count; i++) {
        uint32_t window = overlap_window(o, o->sizes.size[i]);

        most = window > most ? window : most;
        r->perf.capacity = max_size(r->perf.capacity, max_size(1, window * o->sizes.size[i]));
    }
    buffers = mem_alloc_aligned(4096, r->perf.capacity);
    r->requests = mem_calloc(most, sizeof *r->requests);
    *(r->perf.rank == 0 ? &r->perf.recv : &r->perf.send) = buffers;
    if (buffers == NULL || r->requests == NULL)
        return -ENOMEM;
    memset(buffers, 0x5a, r->perf.capacity); /* touches all pages before the clock runs */
    return 0;
}

static int open_endpoint(struct rank *r)
{
    struct perf *p = &r->perf;
    const char *const params[] = {r->sleeps ? SHORT_SPIN : NULL, NULL};
    struct mbx_config config = {.params = params, .key = mbx_job_key(p->job)};
    int err = mbx_open(&config, &p->ep);

    return err != 0 ? err : mbx_job_connect(p->job, p->ep);
}

/* Both ranks compare the boot ids of their machines: different machines have different
 * clocks. */
static int check_clock(struct rank *r)
{
    struct perf *p = &r->perf;
    struct host own;
    uint64_t other;
    mbx_request received;
    int err = host_read(&own);

    if (err == 0)
        err = mbx_recv(p->ep, p->peer, 0, CLOCK_TAG, 0, &other, sizeof other, NULL, &received);
    if (err == 0)
        err = mbx_inject(p->ep, p->peer, 0, CLOCK_TAG, &own.boot, sizeof own.boot, 0);
    if (err == 0)
        err = perf_wait(p, received, sizeof other);
    if (err != 0 || own.boot == other)
        return err;
    tool_error(p->tool, "the ranks are on two machines, which have no clock in common; overlap "
                        "is measured on one, mbx perf lat and bw between two");
    return -ENOTSUP;
}

/* Opens the endpoint on the cores for its device, then moves to the rank's own core. */
static int open_rank(struct rank *r)
{
    struct perf *p = &r->perf;
    bool bind = r->o->bind;
    int err;

    if (mbx_job_size(p->job) != 2) {
        tool_error(p->tool, "two ranks are needed, this job has %u", mbx_job_size(p->job));
        return -EINVAL;
    }
    p->rank = mbx_job_rank(p->job);
    p->peer = 1 - p->rank;
    if (bind && (err = overlap_place_plan(&r->place)) != 0) {
        tool_error(p->tool, "cannot find the cores of this process; use --no-bind");
        return err;
    }
    r->sleeps =
        overlap_mode_is_apart(&r->mode) && (bind ? r->place.is_shared : sys_cores() < 3);
    if (bind && (err = overlap_place_enter(&r->place.others)) != 0)
        return err;
    if ((err = open_endpoint(r)) != 0 || (err = check_clock(r)) != 0)
        return err;
    return bind ? overlap_place_enter(&r->place.rank[p->rank]) : 0;
}

int overlap_rank(const struct overlap *o)
{
    struct rank r = {.o = o, .perf = {.tool = o->tool}};
    int err = mbx_job_open(&r.perf.job);

    overlap_mode_now(&r.mode);
    if (err == 0 && (err = open_rank(&r)) == 0 && (err = alloc_buffers(&r)) == 0)
        err = measure(&r);
    if (err != 0)
        tool_error(o->tool, "rank %u cannot measure: %s", r.perf.rank, mbx_strerror(err));
    if (r.perf.ep != NULL)
        mbx_close(r.perf.ep);
    if (r.perf.job != NULL)
        mbx_job_close(r.perf.job);
    mem_free(r.perf.send);
    mem_free(r.perf.recv);
    mem_free(r.requests);
    return err == 0 ? TOOL_DONE : TOOL_FAILED;
}
