/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_loss_test.c - a device is lost at any moment, and no message is lost.
 *
 *   device_loss_test [--quick] [--long] [--rounds N] [--seed N] [CONFIGURATION...]
 *
 * A round is made from a seed.  Three endpoints, each with a device, send messages by every
 * protocol to each other and to themselves, and post receives of every shape.  Meanwhile one or
 * two of the devices are lost.  How it is lost:
 *
 *   killed    the process, by a signal, at any instruction
 *   hung      the process is stopped, and killed some steps later
 *   stopped   by the library's own call
 *   refusing  it gets an invalid command, refuses it, and ends
 *   lying     it posts an invalid event among valid ones (only in the loop)
 *
 * A device elsewhere acts at times of its own, so the same seed gives the same operations, but
 * not the same moments.
 *
 * These must hold:
 *   L1  each receive ends once, and each send without an error
 *   L2  each message is received once, by a receive that accepts it, with its bytes
 *   L3  of two messages of a sender that a receive accepts, the later one is not received
 *       by it unless the earlier one is by a receive posted before; and no message by a
 *       receive while one posted before, which accepts it, gets nothing
 *   L4  -EIO ends only a receive whose message came eagerly in fragments, and of these at most
 *       one for each sender and device that is lost
 *   L5  nothing is written around a buffer, nor into it once its receive has ended
 *   L6  receives posted after the loss match in software, as the statistics show
 *   L7  no memory, descriptor, mapping or process is left
 */
#include "device.h"
#include "cluster.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/random.h"
#include "core/core.h"
#include "device/host/offload.h"

#define ENDPOINTS 3
#define CONTEXT   71
#define TAGS      3

#define STEPS     200
#define SENT_MAX  (STEPS + 2 * BURST + ENDPOINTS * AFTER)
#define POSTS_MAX (2 * SENT_MAX)
#define BURST     24 /* messages that keep the device busy when it is lost */
#define AFTER     4  /* messages for each endpoint after the loss */

#define ENDED     0x5C /* fills a buffer when its receive has ended */

enum loss { LOSS_KILLED, LOSS_HUNG, LOSS_STOPPED, LOSS_REFUSING, LOSS_CONTRACT_BROKEN, LOSSES };
static const char *const loss_names[LOSSES] = {"killed", "hung", "stopped", "refusing",
                                               "lying"};

struct sent {
    uint32_t from, to;
    uint64_t tag;
    size_t size;
    bool is_sync, is_injected, is_complete, is_received;
};

enum post_state { POST_WAITS, POST_RECEIVED, POST_FAILED, POST_CANCELLED };

struct post {
    uint32_t at, source;
    uint64_t tag, ignore;
    struct guarded_buffer buffer;
    mbx_request request;
    enum post_state state;
    bool was_cancelled;
    struct sent *got;
};

struct round {
    struct cluster cl;
    struct random random;
    size_t size_max, short_max, eager_max;
    struct sent sent[SENT_MAX];
    int sent_count;
    struct post posts[ENDPOINTS][POSTS_MAX]; /* in the order of posting */
    int post_count[ENDPOINTS];
    pid_t pids[ENDPOINTS];
    pid_t hung[ENDPOINTS]; /* 0: not hung */
    enum loss losses[ENDPOINTS];
    bool is_lost[ENDPOINTS];
    int failed; /* receives with -EIO */
};

/* The sums over all rounds of a configuration. */
static struct {
    uint64_t rounds, messages, handed, matched, taken, failed, noticed, held, held_matched;
    uint64_t losses[LOSSES];
} total;

static uint64_t first_seed = 1, wanted_rounds;
static uint64_t seed_now; /* 0: no round is running */

static uint64_t below(struct round *r, uint64_t bound)
{
    return random_below(&r->random, bound);
}

/* ---- opening ---- */

/* Draws the parameters that the configuration does not set. */
static void round_open(struct round *r, const struct configuration *config)
{
    static const char *const eager[] = {"EAGER_LIMIT=64", "EAGER_LIMIT=16K", "EAGER_LIMIT=1M"};
    static const char *const lists[] = {"DEVICE_LIST=1", "DEVICE_LIST=3", "DEVICE_LIST=16",
                                        "DEVICE_LIST=1024"};
    static const char *const buffers[] = {"DEVICE_BUFFERS=2", "DEVICE_BUFFERS=16",
                                          "DEVICE_BUFFERS=128"};
    static const char *const thresholds[] = {"DEVICE_THRESHOLD=0", "DEVICE_THRESHOLD=0",
                                             "DEVICE_THRESHOLD=1K"};
    const char *more[] = {
        eager[below(r, ARRAY_COUNT(eager))],
        lists[below(r, ARRAY_COUNT(lists))],
        buffers[below(r, ARRAY_COUNT(buffers))],
        thresholds[below(r, ARRAY_COUNT(thresholds))],
        below(r, 2) ? "READ_CHUNK=4K" : "READ_CHUNK=64K",
        below(r, 4) ? "RNDV=auto" : "RNDV=data",
        below(r, 2) ? "RTS_PAYLOAD=0" : "RTS_PAYLOAD=1K",
        below(r, 3) ? "SHM_RING_SIZE=4K" : "SHM_RING_SIZE=16K",
        below(r, 2) ? "DEVICE_HOLDS=yes" : "DEVICE_HOLDS=no",
        "LOG_LEVEL=error",
        NULL,
    };

    cluster_open(&r->cl, config, ENDPOINTS, more);
    r->size_max = below(r, 4) ? 40000 : 200000;
    r->short_max = r->cl.eps[0]->limits.short_max;
    r->eager_max = r->cl.eps[0]->settings.eager_limit;
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        r->pids[i] = device_pid(r->cl.eps[i]);
}

/* ---- completions ---- */

static const unsigned char *bytes_of(const struct round *r, const struct sent *sent)
{
    return seeded_bytes((unsigned)(sent - r->sent) * 20, sent->size);
}

static bool accepts(const struct post *post, const struct sent *sent)
{
    return (post->source == MBX_ANY_SOURCE || post->source == sent->from) &&
           ((post->tag ^ sent->tag) & ~post->ignore) == 0;
}

static bool is_fragmented(const struct round *r, const struct sent *sent)
{
    return (sent->is_injected || sent->size <= r->eager_max) &&
           sent->size + (sent->is_sync ? sizeof(struct wire_sync) : 0) > r->short_max;
}

/* Returns the message that a receive of endpoint `at` has matched. */
static struct sent *sent_of(struct round *r, uint32_t at, const struct mbx_status *status)
{
    struct sent *sent = &r->sent[status->data];

    assert_in_range(status->data, 0, r->sent_count - 1);
    assert_int_equal(sent->to, at);
    assert_int_equal(sent->from, status->source);
    assert_int_equal(sent->tag, status->tag);
    assert_int_equal(sent->size, status->size);
    return sent;
}

static void received(struct round *r, struct post *post, const struct mbx_completion *done)
{
    struct sent *sent = sent_of(r, post->at, &done->status);
    size_t fits = min_size(sent->size, post->buffer.size);

    assert_true(accepts(post, sent));
    assert_false(sent->is_received);
    sent->is_received = true;
    post->got = sent;
    post->state = POST_RECEIVED;
    if (done->error == -EIO) {
        assert_true(is_fragmented(r, sent));
        assert_true(r->is_lost[post->at]);
        post->state = POST_FAILED;
        r->failed++;
        return;
    }
    assert_int_equal(done->error, fits < sent->size ? -EMSGSIZE : 0);
    assert_int_equal(done->received, fits);
    assert_memory_equal(post->buffer.bytes, bytes_of(r, sent), fits);
}

static void post_ended(struct round *r, struct post *post, const struct mbx_completion *done)
{
    assert_int_equal(post->state, POST_WAITS);
    if (done->error == -ECANCELED) {
        assert_true(post->was_cancelled);
        post->state = POST_CANCELLED;
    } else {
        received(r, post, done);
    }
    memset(post->buffer.bytes, ENDED, post->buffer.size);
}

static void sent_ended(struct sent *sent, const struct mbx_completion *done)
{
    assert_false(sent->is_complete);
    assert_int_equal(done->error, 0);
    sent->is_complete = true;
}

static void collect(struct round *r, uint32_t who)
{
    struct mbx_completion done[8];
    int count = mbx_poll(r->cl.eps[who], MBX_SENDS | MBX_RECVS, done, ARRAY_COUNT(done));

    for (int i = 0; i < count; i++)
        if (done[i].kind == MBX_SENDS)
            sent_ended(done[i].user, &done[i]);
        else
            post_ended(r, done[i].user, &done[i]);
}

static int progress(struct round *r, uint32_t who)
{
    int moved = mbx_progress(r->cl.eps[who]);

    collect(r, who);
    return moved;
}

/* ---- operations ---- */

static size_t some_size(struct round *r)
{
    static const size_t classes[] = {1, 41, 300, 4000, 4100, 12000};
    uint64_t class = below(r, ARRAY_COUNT(classes) + 2);

    return below(r, class < ARRAY_COUNT(classes) ? classes[class] : r->size_max);
}

static void post(struct round *r, uint32_t at, uint32_t source, uint64_t tag, uint64_t ignore,
                 size_t size)
{
    struct post *post = &r->posts[at][r->post_count[at]];
    const struct mbx_options options = {.user = post};

    assert_true(r->post_count[at] < POSTS_MAX);
    *post = (struct post){.at = at, .source = source, .tag = tag, .ignore = ignore};
    guarded_buffer_init(&post->buffer, size, (unsigned)below(r, 8));
    r->post_count[at]++;
    assert_int_equal(mbx_recv(r->cl.eps[at], source, CONTEXT, tag, ignore, post->buffer.bytes,
                              size, &options, &post->request),
                     0);
}

static void post_some(struct round *r)
{
    uint32_t source = below(r, 2) ? (uint32_t)below(r, ENDPOINTS) : MBX_ANY_SOURCE;
    uint64_t ignore = below(r, 4) ? 0 : MBX_IGNORE_ALL;
    size_t size = below(r, 4) ? r->size_max : some_size(r);

    post(r, (uint32_t)below(r, ENDPOINTS), source, below(r, TAGS), ignore, size);
}

static void send_to(struct round *r, uint32_t from, uint32_t to, size_t size)
{
    struct sent *sent = &r->sent[r->sent_count];
    const struct mbx_options options = {.user = sent, .data = (uint64_t)r->sent_count};
    struct mbx_ep *ep = r->cl.eps[from];

    assert_true(r->sent_count < SENT_MAX);
    *sent = (struct sent){
        .from = from, .to = to, .tag = below(r, TAGS), .size = size, .is_sync = !below(r, 4)};
    r->sent_count++;
    if (!sent->is_sync && size <= ep->limits.reported.inject && !below(r, 4)) {
        assert_int_equal(
            mbx_inject(ep, to, CONTEXT, sent->tag, bytes_of(r, sent), size, options.data), 0);
        sent->is_injected = sent->is_complete = true;
        return;
    }
    assert_int_equal((sent->is_sync ? mbx_ssend : mbx_send)(
                         ep, to, CONTEXT, sent->tag, bytes_of(r, sent), size, &options, NULL),
                     0);
}

static void send_some(struct round *r)
{
    uint32_t from = (uint32_t)below(r, ENDPOINTS);

    send_to(r, from, (uint32_t)below(r, ENDPOINTS), some_size(r));
}

static void cancel(struct round *r, struct post *post)
{
    int err =
        post->state != POST_WAITS ? -EALREADY : mbx_cancel(r->cl.eps[post->at], post->request);

    assert_true(err == 0 || err == -EALREADY ||
                (post->was_cancelled && (err == -EINPROGRESS || err == -ECANCELED)));
    if (err == 0)
        post->was_cancelled = true;
}

static void cancel_some(struct round *r)
{
    uint32_t at = (uint32_t)below(r, ENDPOINTS);

    if (r->post_count[at] != 0)
        cancel(r, &r->posts[at][below(r, (uint64_t)r->post_count[at])]);
}

static void step(struct round *r)
{
    switch (below(r, 10)) {
    case 0:
    case 1:
    case 2:
        post_some(r);
        break;
    case 3:
    case 4:
    case 5:
        send_some(r);
        break;
    case 6:
        cancel_some(r);
        break;
    case 7:
        for (uint32_t i = 0; i < ENDPOINTS; i++)
            progress(r, i);
        break;
    default:
        progress(r, (uint32_t)below(r, ENDPOINTS));
        break;
    }
}

/* ---- loss ---- */

/* Gives the device much work, and time for some of it. */
static void keep_busy(struct round *r, uint32_t who)
{
    if (below(r, 2)) {
        for (int i = 0; i < BURST; i++) {
            if (below(r, 3))
                post(r, who, MBX_ANY_SOURCE, 0, MBX_IGNORE_ALL, 300);
            send_to(r, (uint32_t)below(r, ENDPOINTS), who, below(r, 300));
        }
    }
    if (below(r, 8) == 0)
        sched_yield();
    for (uint64_t n = below(r, below(r, 2) ? 20000 : 500); n > 0; n--)
        cpu_relax();
}

static enum loss some_loss(struct round *r, uint32_t who)
{
    if (r->pids[who] != 0)
        return (enum loss)below(r, LOSS_CONTRACT_BROKEN);
    return (enum loss)(LOSS_STOPPED +
                       below(r, device_of(r->cl.eps[who])->driver == NULL ? 3 : 2));
}

static bool break_contract(struct round *r, uint32_t who)
{
    struct agent *agent = device_of(r->cl.eps[who])->agent;
    struct channel_event *event;

    if (device_is_unused(r->cl.eps[who]))
        return false; /* it posts no event */
    event = ring_reserve(&agent->events, sizeof *event);
    if (event == NULL)
        return false;
    event->type = CHANNEL_EVENT;
    event->event = (struct mbx_device_event){.type = MBX_DEVICE_LOST + 1};
    ring_publish(&agent->events, event, sizeof *event);
    return true;
}

static void lose(struct round *r, uint32_t who)
{
    struct mbx_device *device = r->cl.eps[who]->offload->device;

    if (r->is_lost[who])
        return;
    keep_busy(r, who);
    r->losses[who] = some_loss(r, who);
    switch (r->losses[who]) {
    case LOSS_KILLED:
        kill(r->pids[who], SIGKILL);
        break;
    case LOSS_HUNG:
        kill(r->pids[who], SIGSTOP);
        r->hung[who] = r->pids[who];
        break;
    case LOSS_STOPPED:
        softdev_stop(device);
        break;
    case LOSS_REFUSING:
        if (device->ops->replenish(device, UINT32_MAX, NULL) != 0)
            return; /* no space for the command now */
        break;
    case LOSS_CONTRACT_BROKEN:
        if (!break_contract(r, who))
            return;
        break;
    case LOSSES:
        break;
    }
    r->is_lost[who] = true;
    total.losses[r->losses[who]]++;
}

static void kill_hung(struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++)
        if (r->hung[i] != 0) {
            kill(r->hung[i], SIGKILL);
            r->hung[i] = 0;
        }
}

/* Makes steps, with one or two losses among them. */
static void round_run(struct round *r)
{
    int steps = 40 + (int)below(r, STEPS - 40);
    int first = (int)below(r, (uint64_t)steps), second = (int)below(r, 2 * (uint64_t)steps);
    int end = first + 1 + (int)below(r, 60);

    for (int i = 0; i < steps; i++) {
        if (i == first || i == second)
            lose(r, (uint32_t)below(r, ENDPOINTS));
        step(r);
        if (i == end)
            kill_hung(r);
    }
    kill_hung(r);
}

/* ---- the end of a round ---- */

typedef bool round_fn(const struct round *r);

static void tell_what_is_missing(const struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++)
        fprintf(stderr, "endpoint %d: its device is %s\n", i,
                r->is_lost[i] ? loss_names[r->losses[i]] : "well");
    for (int i = 0; i < r->sent_count; i++) {
        const struct sent *sent = &r->sent[i];

        if (!sent->is_received || !sent->is_complete)
            fprintf(stderr, "message %d, %u to %u, tag %u, %zu bytes%s%s: %s, %s\n", i,
                    sent->from, sent->to, (unsigned)sent->tag, sent->size,
                    sent->is_sync ? ", synchronous" : "",
                    is_fragmented(r, sent) ? ", in fragments" : "",
                    sent->is_received ? "received" : "not received",
                    sent->is_complete ? "send complete" : "send not complete");
    }
}

static void round_until(struct round *r, round_fn *is_so, const char *what)
{
    for (int idle = 0; !is_so(r); idle++) {
        int moved = 0;

        if (idle > test_patience()) {
            tell_what_is_missing(r);
            fail_msg("it does not come about that %s", what);
        }
        for (uint32_t i = 0; i < ENDPOINTS; i++)
            moved += progress(r, i);
        if (moved > 0)
            idle = 0;
        else
            sched_yield();
    }
}

static bool all_losses_are_known(const struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++) {
        const struct offload *offload = r->cl.eps[i]->offload;

        if (r->is_lost[i] && !offload->shadow.is_lost && !device_is_unused(r->cl.eps[i]))
            return false;
    }
    return true;
}

static bool all_is_received(const struct round *r)
{
    for (int i = 0; i < r->sent_count; i++)
        if (!r->sent[i].is_received || !r->sent[i].is_complete)
            return false;
    return true;
}

static bool all_posts_have_ended(const struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++)
        for (int n = 0; n < r->post_count[i]; n++)
            if (r->posts[i][n].state == POST_WAITS)
                return false;
    return true;
}

/* Posts a receive for each message that may have none. */
static void post_the_rest(struct round *r)
{
    for (int i = 0; i < r->sent_count; i++)
        if (!r->sent[i].is_received)
            post(r, r->sent[i].to, MBX_ANY_SOURCE, 0, MBX_IGNORE_ALL, r->size_max);
}

static void cancel_the_rest(struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++)
        for (int n = 0; n < r->post_count[i]; n++)
            if (r->posts[i][n].state == POST_WAITS && !r->posts[i][n].was_cancelled) {
                cancel(r, &r->posts[i][n]);
                assert_true(r->posts[i][n].was_cancelled);
            }
}

/* L6 */
static void go_on_in_software(struct round *r)
{
    struct stats before[ENDPOINTS], after;
    bool in_software[ENDPOINTS];

    for (int i = 0; i < ENDPOINTS; i++) {
        before[i] = cluster_stats(&r->cl, i);
        in_software[i] = r->cl.eps[i]->offload->shadow.is_lost;
        total.noticed += in_software[i];
    }
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        for (uint32_t n = 0; n < AFTER; n++) {
            post(r, i, (i + n) % ENDPOINTS, 0, MBX_IGNORE_ALL, r->size_max);
            send_to(r, (i + n) % ENDPOINTS, i, some_size(r));
        }
    round_until(r, all_is_received, "messages after the loss are received");
    for (int i = 0; i < ENDPOINTS; i++) {
        after = cluster_stats(&r->cl, i);
        assert_int_equal(after.expected + after.unexpected,
                         before[i].expected + before[i].unexpected + AFTER);
        if (!in_software[i])
            continue;
        assert_int_equal(after.device_handed, before[i].device_handed);
        assert_int_equal(after.device_matched, before[i].device_matched);
        assert_true(r->cl.eps[i]->offload->is_receiving);
    }
}

/* L3: does this receive have the first of the messages that it accepts? */
static void check_order_of(const struct round *r, int at, int n)
{
    const struct post *post = &r->posts[at][n];

    for (int later = n + 1; later < r->post_count[at]; later++) {
        const struct sent *sent = r->posts[at][later].got;

        if (sent == NULL || !accepts(post, sent))
            continue;
        if (post->got == NULL)
            fail_msg("endpoint %d: receive %d passed over for receive %d", at, n, later);
        if (post->got->from == sent->from && post->got > sent)
            fail_msg("endpoint %d: message %d overtaken by %d in receive %d", at,
                     (int)(sent - r->sent), (int)(post->got - r->sent), n);
    }
}

/* A receive that was cancelled on the way may have been gone when the message came. */
static void check_order(const struct round *r, const bool *on_the_way)
{
    for (int i = 0; i < ENDPOINTS; i++)
        for (int n = 0; n < r->post_count[i]; n++)
            if (!on_the_way[i * POSTS_MAX + n])
                check_order_of(r, i, n);
}

/* L5 */
static void check_buffers(struct round *r)
{
    for (int i = 0; i < ENDPOINTS; i++)
        for (int n = 0; n < r->post_count[i]; n++) {
            struct guarded_buffer *buffer = &r->posts[i][n].buffer;
            size_t at = count_of_byte(buffer->bytes, buffer->size, ENDED);

            if (at < buffer->size)
                fail_msg("endpoint %d: receive %d was written to at %zu when it had ended", i,
                         n, at);
            guarded_buffer_fini(buffer, buffer->size);
        }
}

static void count(struct round *r)
{
    int losses = 0;

    for (int i = 0; i < ENDPOINTS; i++) {
        struct stats stats = cluster_stats(&r->cl, i);

        assert_int_equal(stats.send_errors, 0);
        losses += r->is_lost[i];
        total.handed += stats.device_handed;
        total.matched += stats.device_matched;
        total.taken += stats.device_taken;
        total.held += stats.device_held;
        total.held_matched += stats.device_held_matched;
    }
    assert_true(r->failed <= losses * ENDPOINTS); /* L4 */
    total.failed += (uint64_t)r->failed;
    total.messages += (uint64_t)r->sent_count;
    total.rounds++;
}

static void round_finish(struct round *r)
{
    bool *on_the_way = calloc((size_t)ENDPOINTS * POSTS_MAX, sizeof *on_the_way);

    post_the_rest(r);
    round_until(r, all_is_received, "everything is received");
    round_until(r, all_losses_are_known, "the losses are noticed");
    go_on_in_software(r);
    for (int i = 0; i < ENDPOINTS; i++)
        for (int n = 0; n < r->post_count[i]; n++)
            on_the_way[i * POSTS_MAX + n] = r->posts[i][n].was_cancelled;
    cancel_the_rest(r);
    round_until(r, all_posts_have_ended, "all receives end");
    check_order(r, on_the_way);
    free(on_the_way);
    count(r);
    cluster_close(&r->cl);
    for (int i = 0; i < ENDPOINTS; i++) /* L7 */
        if (r->pids[i] != 0 && (kill(r->pids[i], 0) == 0 || errno != ESRCH))
            fail_msg("endpoint %d: its device is still there, pid %d, %s", i, (int)r->pids[i],
                     r->is_lost[i] ? loss_names[r->losses[i]] : "not lost");
    check_buffers(r);
}

static void round_of(uint64_t seed, const struct configuration *config)
{
    struct round *r = calloc(1, sizeof *r);

    seed_now = seed;
    random_seed(&r->random, seed);
    round_open(r, config);
    round_run(r);
    round_finish(r);
    seed_now = 0;
    free(r);
}

/* ---- all rounds ---- */

#define ROUNDS_MOST 500

static uint64_t rounds_of(const struct configuration *config)
{
    if (wanted_rounds != 0)
        return wanted_rounds;
    if (config_is_elsewhere(config))
        return test_is_quick() ? 5 : 30;
    return test_is_quick() ? 10 : 40;
}

static bool has_all_happened(const struct configuration *config)
{
    return wanted_rounds != 0 || !config_is_elsewhere(config) ||
           (total.matched > 0 && total.noticed > 0 &&
            (total.held_matched > 0 || test_is_quick()));
}

static void test_a_lost_device_loses_nothing(void **state)
{
    const struct configuration *config = *state;
    uint64_t rounds = rounds_of(config);

    memset(&total, 0, sizeof total);
    /* a device elsewhere is as slow as its machine: runs until it has matched something */
    for (uint64_t i = 0; i < rounds || (!has_all_happened(config) && i < ROUNDS_MOST); i++) {
        round_of(first_seed + i, config);
        if (wanted_rounds != 0 && (i + 1) % 100 == 0)
            printf("%s: %llu of %llu rounds\n", config->name, (unsigned long long)i + 1,
                   (unsigned long long)rounds);
    }
    printf("%s: %llu rounds, %llu messages; receives: %llu handed over, %llu matched by the "
           "device, %llu taken back, %llu ended with -EIO; messages: %llu held by the device, "
           "%llu of them matched there; devices:",
           config->name, (unsigned long long)total.rounds, (unsigned long long)total.messages,
           (unsigned long long)total.handed, (unsigned long long)total.matched,
           (unsigned long long)total.taken, (unsigned long long)total.failed,
           (unsigned long long)total.held, (unsigned long long)total.held_matched);
    for (int i = 0; i < LOSSES; i++)
        printf(" %llu %s", (unsigned long long)total.losses[i], loss_names[i]);
    printf("; %llu losses noticed\n", (unsigned long long)total.noticed);
    assert_true(total.matched > 0);
    assert_true(total.held_matched > 0 || test_is_quick() || wanted_rounds != 0);
    assert_true(total.noticed > 0);
}

static int tell_seed(void **state)
{
    const struct configuration *config = *state;

    if (seed_now != 0)
        fprintf(stderr, "FAIL %s; again: --rounds 100 --seed %llu %s (the moments differ)\n",
                config->name, (unsigned long long)seed_now, config->name);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_lost_device_loses_nothing, tell_seed),
    };

    bool is_long = false;

    argc = test_take_flag(argc, argv, "--long", &is_long);
    wanted_rounds = is_long ? 1000 : 0;
    argc = test_take_number(argc, argv, "--rounds", &wanted_rounds);
    argc = test_take_number(argc, argv, "--seed", &first_seed);
    return test_main_for(argc, argv, config_has_soft_device, tests, ARRAY_COUNT(tests));
}
