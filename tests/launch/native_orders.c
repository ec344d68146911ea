/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_orders.c ROUNDS SEED [CASE] - what every rank gets depends on which message comes first.
 *
 * Each rank sends a message to each rank in each round, and receives as many, by a random way: every call of matchbox.h whose
 * result may differ from run to run.  All results, failed tests included, go into a hash, and the hash into the data of later
 * messages.  A replay prints the same hashes.
 *
 *   time       makes another call than the record says, at the call number that the variable NATIVE_EXTRA gives
 *   callback   a receive with MBX_DONE
 *   killed     rank 1 is killed after half of the rounds, while a receive that no message meets is posted
 *   spared     the same calls, but it cancels that receive and goes on
 *   threads    a second thread receives on the first endpoint
 *   injects    a second thread only sends, by mbx_inject()
 *   forks      a child of fork() calls mbx_choice() and mbx_close()
 *   empty      rank 1 makes calls that find nothing, and is killed
 *   fence, second, close   a call of rank 0 returned in the record what it can return here only later: rank 1 is slower if the
 *              variable NATIVE_EXTRA is set.  Then rank 0 waits in a fence, on the second endpoint, or closes the first one
 *   later      rank 1 is killed while two receives wait; if NATIVE_EXTRA is set, it goes on, and rank 0 has sent them messages
 *   early      receives before mbx_job_connect()
 *   exits      rank 1 exits after half of the rounds if NATIVE_EXTRA is set
 *   flood      rank 1 sends messages with MBX_AT_ONCE and MBX_SILENT, and overwrites each buffer that has left; rank 0 answers
 *              each, unless the variable NATIVE_EXTRA is set
 */
#include <errno.h>
#include <inttypes.h>
#include <matchbox/matchbox.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 8
#define BIGGEST   100000
#define MAIN      1
#define NOBODY    2 /* no message has this context id */
#define EXACT     3
#define EXACT_TAG 5
#define FLOOD     4
#define FLOODS    1000
#define SPARE     5 /* never received */
#define STEPS     6
#define FLOODED   4000
#define ANYTHING  MBX_IGNORE_ALL
#define TAG_OF(i) ((uint64_t)((i) % 3) << 40 | (uint64_t)((i) % 5))
#define LOW_BITS  UINT64_C(0xffff)
#define HIGH_BITS (UINT64_C(0xff) << 40)
#define ALL_TAGS  (LOW_BITS | HIGH_BITS)

static struct mbx_ep *ep, *second;
static uint32_t rank, ranks;
static uint64_t hash = 1, random_state;
static unsigned char in[2][BIGGEST];
/* Never two at a time: of a killed rank it is not known which receives have matched. */
static bool has_one_receive;

static void fail(const char *what, int err)
{
    fprintf(stderr, "native_orders: rank %" PRIu32 ": %s: %s\n", rank, what, mbx_strerror(err));
    exit(1);
}

static void must(int err, const char *what)
{
    if (err < 0)
        fail(what, err);
}

static void mix(uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 29;
}

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* ---- sends ---- */

struct sent {
    mbx_request request;
    unsigned char *data;
};

static struct sent *sends;
static size_t sent_count;

static size_t size_of(uint64_t i)
{
    static const size_t sizes[] = {8, 8, 600, 8, 20000, 8, BIGGEST};

    return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

static void send_one(uint32_t peer, uint64_t i)
{
    struct mbx_options options = {.user = (void *)(uintptr_t)(sent_count + 1)};
    struct sent *sent = &sends[sent_count];
    size_t size = size_of(i + rank + peer);
    int left = 0;

    sent->data = calloc(1, size);
    if (sent->data == NULL)
        fail("calloc", -12);
    memcpy(sent->data, &hash, sizeof hash);
    if (i % 4 == 1 && size == 8) {
        left = mbx_try_send(ep, peer, MAIN, TAG_OF(i), sent->data, size, 0);
        must(left, "mbx_try_send");
        mix((uint64_t)left);
    }
    if (i % 4 == 2)
        options.flags = MBX_AT_ONCE;
    if (left == 0) {
        left = mbx_send(ep, peer, MAIN, TAG_OF(i), sent->data, size, &options, &sent->request);
        must(left, "mbx_send");
        mix((uint64_t)left);
    }
    sent_count++;
}

/* In the order of their completions. */
static void finish_sends(void)
{
    struct mbx_completion entries[3];
    size_t pending = 0;

    for (size_t i = 0; i < sent_count; i++)
        pending += sends[i].request != 0;
    while (pending > 0) {
        int found = mbx_poll(ep, MBX_SENDS, entries, 3);

        must(found, "mbx_poll");
        for (int i = 0; i < found; i++)
            mix((uintptr_t)entries[i].user);
        pending -= (size_t)found;
        if (found == 0)
            (void)mbx_progress(ep);
    }
    for (size_t i = 0; i < sent_count; i++)
        free(sends[i].data);
}

/* ---- receives ---- */

static void got(uint32_t source, uint64_t tag, size_t size, const void *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof word);
    mix(source);
    mix(tag);
    mix(size);
    mix(word);
}

static void got_entry(const struct mbx_completion *entry, const void *data)
{
    must(entry->error, "a receive");
    got(entry->status.source, entry->status.tag, entry->status.size, data);
}

static void post(mbx_request *request, int which)
{
    uint64_t ignore = draw(2) ? ANYTHING : ALL_TAGS;

    must(mbx_recv(ep, MBX_ANY_SOURCE, MAIN, 0, ignore, in[which], BIGGEST, NULL, request),
         "mbx_recv");
}

static void by_test(void)
{
    struct mbx_completion entry;
    mbx_request request;
    uint64_t tests = 0;
    int done;

    post(&request, 0);
    while ((done = mbx_test(ep, request, &entry)) == 0)
        tests++;
    must(done, "mbx_test");
    mix(tests);
    got_entry(&entry, in[0]);
}

static void by_wait(void)
{
    struct mbx_completion entry;
    mbx_request request;
    uint64_t timeouts = 0;
    int err;

    post(&request, 0);
    while ((err = mbx_wait(ep, request, draw(2) ? 0 : -1, &entry)) == -ETIMEDOUT)
        timeouts++;
    must(err, "mbx_wait");
    mix(timeouts);
    got_entry(&entry, in[0]);
}

static void by_probe(void)
{
    struct mbx_completion entry;
    struct mbx_status status;
    mbx_request request;
    uint64_t probes = 0;

    while (mbx_probe(ep, MBX_ANY_SOURCE, MAIN, 0, ANYTHING, &status) == 0)
        probes++;
    mix(probes);
    must(mbx_recv(ep, status.source, MAIN, status.tag, 0, in[0], BIGGEST, NULL, &request),
         "mbx_recv");
    must(mbx_wait(ep, request, -1, &entry), "mbx_wait");
    got_entry(&entry, in[0]);
}

static void by_mprobe(void)
{
    struct mbx_completion entry;
    struct mbx_status status;
    mbx_request request;
    mbx_message message;
    uint64_t probes = 0;

    while (mbx_mprobe(ep, MBX_ANY_SOURCE, MAIN, 0, ALL_TAGS, &status, &message) == 0)
        probes++;
    mix(probes);
    must(mbx_mrecv(ep, message, in[0], BIGGEST, NULL, &request), "mbx_mrecv");
    while (mbx_wait_all(ep, &request, 1, 0, &entry) == -ETIMEDOUT)
        mix(1);
    got_entry(&entry, in[0]);
}

static void by_try_recv(void)
{
    struct mbx_completion entry;
    struct mbx_status status;
    mbx_request request;
    int done = 0;

    for (int tries = 0; tries < 50 && done == 0; tries++) {
        done = mbx_try_recv(ep, MBX_ANY_SOURCE, MAIN, 0, ANYTHING, in[0], BIGGEST, &status);
        must(done, "mbx_try_recv");
        mix((uint64_t)mbx_progress(ep));
    }
    if (done == 1) {
        got(status.source, status.tag, status.size, in[0]);
        return;
    }
    post(&request, 0);
    must(mbx_wait(ep, request, -1, &entry), "mbx_wait");
    got_entry(&entry, in[0]);
}

/* A second receive is posted first, which no message meets; it is cancelled. */
static void by_wait_any(void)
{
    struct mbx_completion entry;
    mbx_request requests[2];
    int index, err;

    must(mbx_recv(ep, MBX_ANY_SOURCE, NOBODY, 0, ANYTHING, in[1], 8, NULL, &requests[0]),
         "mbx_recv");
    post(&requests[1], 0);
    while ((err = mbx_wait_any(ep, requests, 2, draw(2) ? 0 : -1, &index, &entry)) ==
           -ETIMEDOUT)
        mix(2);
    must(err, "mbx_wait_any");
    mix((uint64_t)index);
    got_entry(&entry, in[0]);
    must(mbx_cancel(ep, requests[0]), "mbx_cancel");
    must(mbx_wait(ep, requests[0], -1, &entry), "mbx_wait");
    mix((uint64_t)-entry.error);
    mix(entry.status.context_id);
}

/* Both are received, in whatever order. */
static void by_wait_some(void)
{
    struct mbx_completion entries[2];
    mbx_request requests[2];
    int indices[2], left = 2;

    post(&requests[0], 0);
    post(&requests[1], 1);
    while (left > 0) {
        int found = mbx_wait_some(ep, requests, 2, draw(2) ? 0 : -1, indices, entries);

        if (found != -ETIMEDOUT)
            must(found, "mbx_wait_some");
        mix((uint64_t)found);
        for (int i = 0; i < found; i++) {
            mix((uint64_t)indices[i]);
            got_entry(&entries[i], in[indices[i]]);
        }
        left -= found > 0 ? found : 0;
    }
}

static void by_poll(void)
{
    struct mbx_completion entries[2];
    mbx_request request;
    int found;

    post(&request, 0);
    while ((found = mbx_poll(ep, MBX_RECVS, entries, 2)) == 0) {
        if (draw(2))
            mix((uint64_t)mbx_wait_queues(ep, MBX_RECVS, 1000000));
        else
            mix((uint64_t)mbx_progress(ep));
        mix((uint64_t)mbx_ready(ep, MBX_RECVS));
    }
    must(found, "mbx_poll");
    got_entry(&entries[0], in[0]);
}

static void by_peek(void)
{
    const struct mbx_completion *entry;
    mbx_request request;

    post(&request, 0);
    while ((entry = mbx_peek(ep, MBX_RECVS)) == NULL) {
        mix((uint64_t)mbx_idle(ep));
        mix((uint64_t)mbx_progress(ep));
    }
    got_entry(entry, in[0]);
    mbx_release(ep, entry);
}

/* One message, or two.  How many. */
static uint64_t receive(uint64_t left)
{
    static void (*const ways[])(void) = {by_test,     by_wait,     by_probe, by_mprobe,
                                         by_try_recv, by_wait_any, by_poll,  by_peek};
    uint64_t way = draw(9);

    if (way == 8 && left >= 2 && !has_one_receive) {
        by_wait_some();
        return 2;
    }
    ways[way % 8]();
    return 1;
}

/* ---- others ---- */

/* Exact receives that are cancelled, in time or not. */
static void cancel_exact(void)
{
    struct mbx_completion entry;
    mbx_request request;
    uint64_t data = rank;
    int err;

    for (uint32_t peer = 0; peer < ranks; peer++)
        must(mbx_inject(ep, peer, EXACT, EXACT_TAG, &data, sizeof data, 0), "mbx_inject");
    for (uint32_t peer = 0; peer < ranks; peer++)
        do {
            must(mbx_recv(ep, peer, EXACT, EXACT_TAG, 0, in[0], BIGGEST, NULL, &request),
                 "mbx_recv");
            (void)mbx_progress(ep);
            mix((uint64_t)mbx_cancel(ep, request));
            must(mbx_wait(ep, request, -1, &entry), "mbx_wait");
            mix((uint64_t)entry.error);
            err = entry.error;
            if (err == -ECANCELED)
                (void)mbx_progress(ep);
        } while (err == -ECANCELED);
}

static void take(uint32_t peer, void *buf, size_t size)
{
    struct mbx_completion entry;
    mbx_request request;

    must(mbx_recv(ep, peer, FLOOD, 0, 0, buf, size, NULL, &request), "mbx_recv");
    must(mbx_wait(ep, request, -1, &entry), "mbx_wait");
    must(entry.error, "a receive");
}

static void flood_from(unsigned char *data, bool has_answers)
{
    const struct mbx_options options = {.flags = MBX_AT_ONCE | MBX_SILENT};
    uint64_t answer;

    for (int i = 0; i < FLOODS; i++) {
        unsigned char *buf = data + (size_t)i * FLOODED;
        int left;

        memset(buf, i, FLOODED);
        left = mbx_send(ep, 0, FLOOD, 0, buf, FLOODED, &options, NULL);
        must(left, "mbx_send");
        if (left == 1)
            memset(buf, ~i, FLOODED);
        if (has_answers)
            take(0, &answer, sizeof answer);
    }
}

static void flood_to(unsigned char *data, bool has_answers)
{
    for (int i = 0; i < FLOODS; i++) {
        take(1, data, FLOODED);
        for (size_t at = 0; at < FLOODED; at++)
            if (data[at] != (unsigned char)i)
                fail("a message has other data than was sent", -EBADMSG);
        if (has_answers)
            must(mbx_inject(ep, 1, FLOOD, 0, &hash, sizeof hash, 0), "mbx_inject");
    }
}

static void flood(unsigned char *data)
{
    const bool has_answers = getenv("NATIVE_EXTRA") == NULL;

    if (rank == 0)
        flood_to(data, has_answers);
    else if (rank == 1)
        flood_from(data, has_answers);
}

/* ---- rank 1 is slower in the replay ---- */

static bool is_slow(void)
{
    return getenv("NATIVE_EXTRA") != NULL;
}

static void step(uint32_t peer, uint64_t tag)
{
    must(mbx_inject(ep, peer, STEPS, tag, &tag, sizeof tag, 0), "mbx_inject");
}

static void finish(struct mbx_ep *on, mbx_request request)
{
    struct mbx_completion entry;

    must(mbx_wait(on, request, -1, &entry), "mbx_wait");
    must(entry.error, "a message");
}

static void take_on(struct mbx_ep *on, uint32_t peer, uint64_t tag, void *buf, size_t size)
{
    mbx_request request;

    must(mbx_recv(on, peer, STEPS, tag, 0, buf, size, NULL, &request), "mbx_recv");
    finish(on, request);
}

static void take_step(uint32_t peer, uint64_t tag)
{
    uint64_t data;

    take_on(ep, peer, tag, &data, sizeof data);
}

static void ask_rank_0(mbx_request *request)
{
    must(mbx_ssend(ep, 0, STEPS, 1, &hash, sizeof hash, NULL, request), "mbx_ssend");
}

/* Rank 0 needs no progress for its receive in the record, since mbx_ready() says that it is complete. */
static void wait_elsewhere(const char *name, struct mbx_job *job)
{
    const bool is_second = strcmp(name, "second") == 0;
    uint64_t asked = 0, data = 0;
    mbx_request request;

    if (rank == 0) {
        must(mbx_recv(ep, 1, STEPS, 1, 0, &asked, sizeof asked, NULL, &request), "mbx_recv");
        take_step(1, 2);
        mix((uint64_t)mbx_ready(ep, MBX_RECVS));
        step(1, 3);
        if (is_second)
            take_on(second, 1, 4, &data, sizeof data);
    } else if (rank == 1) {
        if (!is_slow())
            ask_rank_0(&request);
        step(0, 2);
        if (is_slow()) {
            take_step(0, 3);
            ask_rank_0(&request);
        }
        finish(ep, request);
        if (is_second) {
            must(mbx_send(second, 0, STEPS, 4, &hash, sizeof hash, NULL, &request), "mbx_send");
            finish(second, request);
        }
        if (!is_slow())
            take_step(0, 3);
    }
    if (!is_second)
        must(mbx_job_fence(job), "mbx_job_fence");
    if (rank == 0)
        finish(ep, request);
}

/* Rank 0 reads no completion of its send. */
static void close_early(void)
{
    mbx_request request;

    if (rank == 0) {
        memset(in[0], 7, BIGGEST);
        must(mbx_send(ep, 1, STEPS, 1, in[0], BIGGEST, NULL, &request), "mbx_send");
        take_step(1, 2);
        mix((uint64_t)mbx_ready(ep, MBX_SENDS));
        step(1, 3);
    } else if (rank == 1) {
        if (!is_slow())
            take_on(ep, 0, 1, in[1], BIGGEST);
        step(0, 2);
        take_step(0, 3);
        if (is_slow())
            take_on(ep, 0, 1, in[1], BIGGEST);
    }
}

/* The message that comes first is for the receive that was posted first. */
static void receive_later(void)
{
    uint64_t first = 0, then = 0;
    mbx_request requests[2];

    if (rank == 0) {
        for (uint64_t data = 1; data <= 2 && is_slow(); data++)
            must(mbx_inject(ep, 1, STEPS, 1, &data, sizeof data, 0), "mbx_inject");
        step(1, 2);
        take_step(1, 3); /* never comes in the record */
    }
    if (rank != 1)
        return;
    must(mbx_recv(ep, MBX_ANY_SOURCE, STEPS, 1, 0, &first, sizeof first, NULL, &requests[0]),
         "mbx_recv");
    must(mbx_recv(ep, 0, STEPS, 1, 0, &then, sizeof then, NULL, &requests[1]), "mbx_recv");
    take_step(0, 2);
    (void)mbx_test(ep, requests[0], NULL);
    if (!is_slow())
        raise(SIGKILL);
    finish(ep, requests[0]);
    finish(ep, requests[1]);
    if (first != 1 || then != 2)
        fail("a receive got the message of another one", -EBADMSG);
    step(0, 3);
}

/* True: the program ends after it. */
static bool run_steps(const char *name, struct mbx_job *job)
{
    if (strcmp(name, "fence") == 0 || strcmp(name, "second") == 0)
        wait_elsewhere(name, job);
    else if (strcmp(name, "close") == 0)
        close_early();
    else if (strcmp(name, "later") == 0)
        receive_later();
    else
        return false;
    return true;
}

static void find_nothing(void)
{
    struct mbx_completion entry;
    struct mbx_status status;
    mbx_request request;
    mbx_message message;
    int index;

    must(mbx_recv(ep, 0, NOBODY, 0, 0, in[0], 8, NULL, &request), "mbx_recv");
    mix((uint64_t)mbx_try_recv(ep, 0, NOBODY, 0, 0, in[1], 8, &status));
    mix((uint64_t)mbx_probe(ep, 0, NOBODY, 0, 0, &status));
    mix((uint64_t)mbx_mprobe(ep, 0, NOBODY, 0, 0, &status, &message));
    mix((uint64_t)mbx_test(ep, request, &entry));
    mix((uint64_t)mbx_wait(ep, request, 0, &entry));
    mix((uint64_t)mbx_wait_all(ep, &request, 1, 0, &entry));
    mix((uint64_t)mbx_wait_some(ep, &request, 1, 0, &index, &entry));
    mix((uint64_t)mbx_wait_any(ep, &request, 1, 0, &index, &entry));
    mix((uint64_t)mbx_poll(ep, MBX_RECVS, &entry, 1));
    mix((uint64_t)mbx_ready(ep, MBX_RECVS));
    must(mbx_cancel(ep, request), "mbx_cancel");
    raise(SIGKILL);
}

/* All messages have left at the end: the fence that follows makes no progress. */
static void on_the_second(void)
{
    struct mbx_completion entry;
    mbx_request request, of_sends[RANKS_MAX];
    uint64_t data = hash;

    for (uint32_t peer = 0; peer < ranks; peer++)
        must(mbx_send(second, peer, MAIN, rank, &data, sizeof data, NULL, &of_sends[peer]),
             "mbx_send");
    for (uint32_t peer = 0; peer < ranks; peer++) {
        must(
            mbx_recv(second, MBX_ANY_SOURCE, MAIN, 0, LOW_BITS, in[0], BIGGEST, NULL, &request),
            "mbx_recv");
        must(mbx_wait(second, request, -1, &entry), "mbx_wait");
        got_entry(&entry, in[0]);
    }
    must(mbx_wait_all(second, of_sends, (int)ranks, -1, NULL), "mbx_wait_all");
}

static void choose(void)
{
    struct timespec now;
    uint64_t value;

    clock_gettime(CLOCK_MONOTONIC, &now);
    value = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32;
    must(mbx_choice(7, &value), "mbx_choice");
    mix(value);
}

static void is_called(const struct mbx_completion *entry)
{
    (void)entry;
}

static void *in_thread(void *arg)
{
    struct mbx_status status;

    (void)mbx_probe(ep, MBX_ANY_SOURCE, NOBODY, 0, ANYTHING, &status);
    return arg;
}

static void *in_sending_thread(void *arg)
{
    must(mbx_inject(ep, rank, SPARE, 0, NULL, 0, 0), "mbx_inject");
    return arg;
}

static void run_thread(void *(*run)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, NULL) == 0)
        pthread_join(thread, NULL);
}

/* The child exits with 0 if its calls return what matchbox.h says. */
static void run_child(void)
{
    uint64_t value = 1000;
    int status;
    pid_t child = fork();

    if (child == 0) {
        for (int i = 0; i < 4; i++)
            (void)mbx_choice(8, &value);
        _exit(value == 1000 && mbx_close(ep) == -EPERM ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("a child of fork()", -ECHILD);
}

static void special(const char *name, uint64_t round, uint64_t rounds)
{
    const struct mbx_options options = {.flags = MBX_DONE, .done = is_called};
    const char *extra = getenv("NATIVE_EXTRA");
    struct mbx_completion entry;
    struct mbx_status status;
    mbx_request request;

    if (strcmp(name, "time") == 0 && extra != NULL && round == strtoull(extra, NULL, 10) &&
        rank == 1)
        (void)mbx_probe(ep, 0, NOBODY, 7, 0, &status);
    if (strcmp(name, "callback") == 0 && round == 1)
        must(mbx_recv(ep, MBX_ANY_SOURCE, NOBODY, 0, 0, in[1], 8, &options, &request),
             "mbx_recv");
    if (strcmp(name, "threads") == 0 && round == 1)
        run_thread(in_thread);
    if (strcmp(name, "exits") == 0 && extra != NULL && round == rounds / 2 && rank == 1)
        exit(0);
    if (strcmp(name, "injects") == 0 && round == 1)
        run_thread(in_sending_thread);
    if (strcmp(name, "forks") == 0 && round == 1)
        run_child();
    if (has_one_receive && round == rounds / 2 && rank == 1) {
        must(mbx_recv(ep, MBX_ANY_SOURCE, NOBODY, 0, ANYTHING, in[1], 8, NULL, &request),
             "mbx_recv");
        (void)mbx_test(ep, request, NULL);
        printf("rank 1: %016" PRIx64 " at its end\n", hash);
        fflush(stdout);
        if (strcmp(name, "killed") == 0)
            raise(SIGKILL);
        must(mbx_cancel(ep, request), "mbx_cancel");
        must(mbx_wait(ep, request, -1, &entry), "mbx_wait");
        if (entry.error != -ECANCELED || entry.request != request)
            fail("a receive that was withheld is not the one that was cancelled", entry.error);
    }
}

static void open_all(struct mbx_job *job, bool is_early)
{
    static uint64_t data;
    mbx_request request;
    const struct mbx_config config = {.key = mbx_job_key(job)};

    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_open(&config, &second), "mbx_open");
    if (is_early)
        must(mbx_recv(ep, MBX_ANY_SOURCE, NOBODY, 0, ANYTHING, &data, sizeof data, NULL,
                      &request),
             "mbx_recv");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    must(mbx_job_connect(job, second), "mbx_job_connect");
}

static int end(struct mbx_job *job)
{
    printf("rank %" PRIu32 ": %016" PRIx64 "\n", rank, hash);
    must(mbx_job_fence(job), "mbx_job_fence");
    must(mbx_close(ep), "mbx_close");
    must(mbx_close(second), "mbx_close");
    mbx_job_close(job);
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 3 ? argv[3] : "";
    const uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
    uint64_t received = 0;
    unsigned char *flooded = calloc(FLOODS, FLOODED);
    struct mbx_job *job;

    has_one_receive = strcmp(name, "killed") == 0 || strcmp(name, "spared") == 0;
    must(mbx_job_open(&job), "mbx_job_open");
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);
    random_state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 1000 + rank;
    sends = calloc(rounds * ranks, sizeof *sends);
    if (sends == NULL || flooded == NULL)
        fail("calloc", -12);
    open_all(job, strcmp(name, "early") == 0);
    if (run_steps(name, job)) {
        if (strcmp(name, "close") != 0)
            return end(job);
        must(mbx_close(ep), "mbx_close");
        must(mbx_close(second), "mbx_close");
        printf("rank %" PRIu32 ": %016" PRIx64 "\n", rank, hash);
        must(mbx_job_fence(job), "mbx_job_fence");
        return 0;
    }
    if (strcmp(name, "empty") == 0) {
        must(mbx_job_fence(job), "mbx_job_fence"); /* all ranks have made their records */
        if (rank == 1)
            find_nothing();
    }
    cancel_exact();
    if (strcmp(name, "flood") == 0)
        flood(flooded);
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t peer = 0; peer < ranks; peer++)
            send_one(peer, round);
        special(name, round, rounds);
        while (received < (round + 1) * ranks / 2 * 2 && received < rounds * ranks)
            received += receive((round + 1) * ranks - received);
    }
    while (received < rounds * ranks)
        received += receive(rounds * ranks - received);
    finish_sends();
    choose();
    on_the_second();
    free(sends);
    free(flooded);
    return end(job);
}
