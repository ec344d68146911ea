/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death_scenes.c - the scenes of death_test.c: how messages travel and are received, probed or taken back, and how
 * memory is accessed, while a rank may die at any point.
 *
 * Rank 0 receives, or has memory that the others access; ranks 1 and 2 send, or access it.  victim is the rank that is
 * to die, or -1.  MUST ends a rank with a number that says where.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"
#include "death.h"
#include "forked_job.h"

#define MESSAGES 4 /* from each sender */
#define LONG     ((size_t)200000)
#define POISON   0x77

/* context ids */
enum { DATA = 1, GO, BEGUN, AMONG, DONE };

/* ---- the ranks ---- */

static unsigned char content(int rank, int message, size_t at)
{
    return (unsigned char)(rank * 31 + message * 7 + (int)(at % 251));
}

static void fill(unsigned char *buf, int rank, int message, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = content(rank, message, i);
}

static bool is_whole(const unsigned char *buf, int rank, int message, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (buf[i] != content(rank, message, i))
            return false;
    return true;
}

/* May a request that involves rank `other` end with this error? */
static bool fits(int error, int other, int victim)
{
    return error == 0 || (other == victim && (error == -ENOTCONN || error == -EHOSTUNREACH));
}

static struct mbx_completion await(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;
    int err;

    do
        err = mbx_wait(ep, request, PATIENCE_NS, &done);
    while (err == -EHOSTDOWN);
    MUST(err == 0, 30);
    return done;
}

/* The surviving sender can still reach the other one. */
static void meet_others(struct mbx_ep *ep, int rank, int victim)
{
    int other = 3 - rank;
    mbx_request heard;

    MUST(mbx_recv(ep, (uint32_t)other, AMONG, 0, 0, NULL, 0, NULL, &heard) == 0, 31);
    MUST(fits(forked_signal(ep, (uint32_t)other, AMONG), other, victim), 32);
    MUST(fits(await(ep, heard).error, other, victim), 39);
}

static void sender_end(struct mbx_ep *ep, int rank, int victim)
{
    meet_others(ep, rank, victim);
    MUST(fits(forked_signal(ep, 0, DONE), 0, victim), 33);
}

/* A buffer as a vector of two parts. */
struct vector {
    struct mbx_iovec parts[2];
    struct mbx_layout layout;
    struct mbx_options options;
};

static const struct mbx_options *vector_of(struct vector *v, const void *buf, size_t size)
{
    char *bytes = (char *)(uintptr_t)buf;

    v->parts[0] = (struct mbx_iovec){bytes, size / 3};
    v->parts[1] = (struct mbx_iovec){bytes + size / 3, size - size / 3};
    v->layout = (struct mbx_layout){.parts = v->parts, .count = 2};
    v->options = (struct mbx_options){.flags = MBX_LAYOUT, .layout = &v->layout};
    return &v->options;
}

static mbx_request send_one(struct mbx_ep *ep, const struct scene *scene, uint64_t tag,
                            const void *buf)
{
    static struct vector vectors[MESSAGES];
    const struct mbx_options *options =
        scene->is_packed ? vector_of(&vectors[tag], buf, scene->size) : NULL;
    mbx_request request;

    MUST((scene->is_sync || (scene->is_waited && tag == 0) ? mbx_ssend : mbx_send)(
             ep, 0, DATA, tag, options == NULL ? buf : NULL, scene->size, options, &request) ==
             0,
         34);
    return request;
}

static void send_messages(struct forked_job *job, const struct scene *scene, int victim,
                          struct mbx_ep *ep, int rank)
{
    static unsigned char bufs[MESSAGES][LONG];
    mbx_request requests[MESSAGES], begun = 0;

    (void)job;
    if (!scene->is_late)
        MUST(fits(forked_receive(ep, 0, GO), 0, victim), 35);
    for (int i = 0; i < MESSAGES; i++) {
        fill(bufs[i], rank, i, scene->size);
        requests[i] = send_one(ep, scene, (uint64_t)i, bufs[i]);
        if (scene->is_waited && i == 0)
            MUST(fits(await(ep, requests[i]).error, 0, victim), 39);
    }
    if (scene->is_late)
        MUST(mbx_send(ep, 0, BEGUN, 0, NULL, 0, NULL, &begun) == 0, 36);
    for (int i = scene->is_waited; i < MESSAGES; i++)
        MUST(fits(await(ep, requests[i]).error, 0, victim), 37);
    if (scene->is_late)
        MUST(fits(await(ep, begun).error, 0, victim), 38);
    sender_end(ep, rank, victim);
}

/* ---- the receiver ---- */

/* The first receives are from any source, then there are as many from each sender. */
#define RECEIVES (3 * MESSAGES)

struct receiver {
    unsigned char bufs[RECEIVES][LONG];
    mbx_request requests[RECEIVES];
    bool is_poisoned[RECEIVES];
    int got[RANKS][MESSAGES];
    bool is_dead[RANKS];
};

static uint32_t source_of(const struct scene *scene, int receive)
{
    return receive < MESSAGES && !scene->is_directed ? MBX_ANY_SOURCE
                                                     : 1 + (uint32_t)receive % 2;
}

static void post(struct receiver *r, struct mbx_ep *ep, const struct scene *scene)
{
    static struct vector vectors[RECEIVES];
    mbx_request vain;

    for (int i = 0; i < RECEIVES; i++) {
        const struct mbx_options *options =
            scene->is_unpacked ? vector_of(&vectors[i], r->bufs[i], scene->size) : NULL;

        MUST(mbx_recv(ep, source_of(scene, i), DATA, 0, MBX_IGNORE_ALL,
                      options == NULL ? r->bufs[i] : NULL, scene->size, options,
                      &r->requests[i]) == 0,
             40);
    }
    MUST(mbx_recv(ep, 1, DONE, 99, 0, NULL, 0, NULL, &vain) == 0, 41);
    MUST(mbx_cancel(ep, vain) == 0 && await(ep, vain).error == -ECANCELED, 42);
}

/* Waits for the last message of each sender, after which no other comes from it. */
static void hear_done(struct receiver *r, struct mbx_ep *ep, int victim)
{
    for (int rank = 1; rank < RANKS; rank++) {
        int error = forked_receive(ep, (uint32_t)rank, DONE);

        MUST(fits(error, rank, victim), 43);
        r->is_dead[rank] = error != 0;
    }
}

/* Does a receive from any source report a death, if has_died?  Over a network nobody can know
 * whether a peer that was never met has died or closed. */
static bool is_told(struct mbx_ep *ep, bool has_died)
{
    return has_died && (!death_is_network || mbx_failed(ep, NULL, 0) != 0);
}

/* Ends a receive that may not have matched.  Returns its completion. */
static struct mbx_completion finish(const struct receiver *r, struct mbx_ep *ep,
                                    const struct scene *scene, int receive)
{
    mbx_request request = r->requests[receive];
    uint32_t source = source_of(scene, receive);
    struct mbx_completion done;
    int err = -EHOSTDOWN;

    if (source == MBX_ANY_SOURCE && is_told(ep, r->is_dead[1] || r->is_dead[2]))
        err = mbx_wait(ep, request, PATIENCE_NS, &done); /* reports the death, or has ended */
    else if (source != MBX_ANY_SOURCE && r->is_dead[source])
        err = mbx_wait(ep, request, PATIENCE_NS, &done); /* ends */
    if (err == 0)
        return done;
    MUST(err == -EHOSTDOWN && (source == MBX_ANY_SOURCE || !r->is_dead[source]), 44);
    mbx_cancel(ep, request);
    return await(ep, request);
}

/* A rank that dies while it closes has sent its last message. */
static void take_stock(struct receiver *r, struct mbx_ep *ep, const struct scene *scene,
                       int victim)
{
    for (int i = 0; i < RECEIVES; i++) {
        struct mbx_completion done = finish(r, ep, scene, i);
        int source = (int)done.status.source, tag = (int)done.status.tag;

        if (done.error == 0) {
            MUST(source < RANKS && tag < MESSAGES && done.received == scene->size, 45);
            MUST(is_whole(r->bufs[i], source, tag, scene->size), 46);
            MUST(r->got[source][tag]++ == 0, 47);
            continue;
        }
        MUST(done.error == -ECANCELED || (done.error == -ENOTCONN && source == victim), 48);
        memset(r->bufs[i], POISON, scene->size);
        r->is_poisoned[i] = true;
    }
}

static void check_stock(const struct receiver *r, struct mbx_ep *ep, const struct scene *scene)
{
    for (int i = 0; i < 200; i++)
        mbx_progress(ep);
    for (int i = 0; i < RECEIVES; i++)
        for (size_t at = 0; r->is_poisoned[i] && at < scene->size; at++)
            MUST(r->bufs[i][at] == POISON, 50);
    for (int rank = 1; rank < RANKS; rank++)
        for (int tag = 0; tag < MESSAGES; tag++)
            MUST(r->is_dead[rank] || r->got[rank][tag] == 1, 51);
}

static void receive_messages(struct forked_job *job, const struct scene *scene, int victim,
                             struct mbx_ep *ep)
{
    static struct receiver r;

    (void)job;
    for (uint32_t rank = 1; scene->is_late && rank < RANKS; rank++)
        MUST(fits(forked_receive(ep, rank, BEGUN), (int)rank, victim), 52);
    post(&r, ep, scene);
    for (uint32_t rank = 1; !scene->is_late && rank < RANKS; rank++)
        MUST(fits(forked_signal(ep, rank, GO), (int)rank, victim), 53);
    hear_done(&r, ep, victim);
    take_stock(&r, ep, scene, victim);
    check_stock(&r, ep, scene);
}

/* ---- two claims for one receive ---- */

/* Each sender defers a message.  Then there is one receive, and both send a claim for it before
 * the receiver makes progress. */
static void send_claims(struct forked_job *job, const struct scene *scene, int victim,
                        struct mbx_ep *ep, int rank)
{
    static unsigned char buf[LONG];
    struct stats stats;
    mbx_request request;
    uint64_t before;

    fill(buf, rank, 0, scene->size);
    request = send_one(ep, scene, 0, buf);
    MUST(fits(forked_signal(ep, 0, BEGUN), 0, victim), 60);
    stats_read(ep, &stats);
    before = stats.claims;
    job->shared->words[0]++;
    while (stats.claims == before && job->shared->ended == 0) {
        mbx_progress(ep);
        stats_read(ep, &stats);
    }
    job->shared->words[1]++;
    MUST(fits(await(ep, request).error, 0, victim), 61);
    sender_end(ep, rank, victim);
}

static void receive_claims(struct forked_job *job, const struct scene *scene, int victim,
                           struct mbx_ep *ep)
{
    static unsigned char bufs[2][LONG];
    mbx_request requests[2];
    bool is_dead = false;

    for (uint32_t rank = 1; rank < RANKS; rank++)
        MUST(fits(forked_receive(ep, rank, BEGUN), (int)rank, victim), 62);
    forked_await(job, ep, 0, 2);
    for (int i = 0; i < 2; i++) {
        MUST(mbx_recv(ep, MBX_ANY_SOURCE, DATA, 0, 0, bufs[i], scene->size, NULL,
                      &requests[i]) == 0,
             63);
        if (i == 0)
            forked_await(job, NULL, 1, 2);
    }
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        int error = forked_receive(ep, rank, DONE);

        MUST(fits(error, (int)rank, victim), 67);
        is_dead |= error != 0;
    }
    for (int i = 0; i < 2; i++) {
        struct mbx_completion done;
        int err = -EHOSTDOWN;

        if (!is_dead || is_told(ep, is_dead))
            err = mbx_wait(ep, requests[i], PATIENCE_NS, &done);
        if (err == -EHOSTDOWN && victim > 0) {
            mbx_cancel(ep, requests[i]);
            done = await(ep, requests[i]);
            MUST(done.error == -ECANCELED || fits(done.error, (int)done.status.source, victim),
                 64);
        } else {
            MUST(err == 0 && fits(done.error, (int)done.status.source, victim), 65);
        }
        MUST(done.error != 0 || is_whole(bufs[i], (int)done.status.source, 0, scene->size), 66);
    }
}

/* ---- useless advertisements ---- */

/* Each sender has sent a message of which the receiver does not know when it advertises a
 * receive for another message. */
static void send_before_advertised(struct forked_job *job, const struct scene *scene,
                                   int victim, struct mbx_ep *ep, int rank)
{
    static unsigned char bufs[2][LONG];
    mbx_request requests[2];

    for (int i = 0; i < 2; i++)
        fill(bufs[i], rank, i, scene->size);
    requests[0] = send_one(ep, scene, 0, bufs[0]);
    job->shared->words[0]++;
    forked_await(job, NULL, 1, 1);
    mbx_progress(ep);
    requests[1] = send_one(ep, scene, 1, bufs[1]);
    for (int i = 0; i < 2; i++)
        MUST(fits(await(ep, requests[i]).error, 0, victim), 70);
    sender_end(ep, rank, victim);
}

static void advertise_to_the_dead(struct forked_job *job, const struct scene *scene, int victim,
                                  struct mbx_ep *ep)
{
    static unsigned char bufs[RANKS][2][LONG];
    mbx_request requests[RANKS][2];

    forked_await(job, NULL, 0, 2);
    for (uint32_t tag = 2; tag-- > 0;)
        for (uint32_t rank = 1; rank < RANKS; rank++)
            MUST(mbx_recv(ep, rank, DATA, tag, 0, bufs[rank][tag], scene->size, NULL,
                          &requests[rank][tag]) == 0,
                 71);
    job->shared->words[1] = 1;
    for (int rank = 1; rank < RANKS; rank++) {
        for (int tag = 0; tag < 2; tag++) {
            struct mbx_completion done = await(ep, requests[rank][tag]);

            MUST(fits(done.error, rank, victim), 72);
            MUST(done.error != 0 || is_whole(bufs[rank][tag], rank, tag, scene->size), 73);
        }
        MUST(fits(forked_receive(ep, (uint32_t)rank, DONE), rank, victim), 74);
    }
}

/* ---- matched probes ---- */

/* Takes the next message of rank.  False: the rank is dead, as its last message has
 * reported. */
static bool probe_one(struct mbx_ep *ep, uint32_t rank, mbx_request last_word, int victim,
                      struct mbx_status *status, mbx_message *message)
{
    struct mbx_completion done;

    while (mbx_mprobe(ep, rank, DATA, 0, MBX_IGNORE_ALL, status, message) != 1)
        if (mbx_test(ep, last_word, &done) == 1) {
            MUST(done.error != 0 && fits(done.error, (int)rank, victim), 80);
            return false;
        }
    return true;
}

/* Takes all messages of rank, and discards one.  False: the rank has died. */
static bool probe_all(struct mbx_ep *ep, const struct scene *scene, uint32_t rank,
                      mbx_request last_word, int victim)
{
    static unsigned char buf[LONG];
    struct mbx_completion done;
    struct mbx_status status;
    mbx_message message;
    mbx_request request;

    for (uint64_t tag = 0; tag < MESSAGES; tag++) {
        if (!probe_one(ep, rank, last_word, victim, &status, &message))
            return false;
        MUST(status.tag == tag && status.size == scene->size, 81);
        if (tag == 1) {
            MUST(mbx_discard(ep, message) == 0, 82);
            continue;
        }
        MUST(mbx_mrecv(ep, message, buf, scene->size, NULL, &request) == 0, 83);
        done = await(ep, request);
        MUST(fits(done.error, (int)rank, victim), 84);
        MUST(done.error != 0 || is_whole(buf, (int)rank, (int)tag, scene->size), 85);
    }
    return true;
}

static void probe_messages(struct forked_job *job, const struct scene *scene, int victim,
                           struct mbx_ep *ep)
{
    mbx_request last_word[RANKS];
    bool is_there[RANKS];

    (void)job;
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        MUST(fits(forked_receive(ep, rank, BEGUN), (int)rank, victim), 86);
        MUST(mbx_recv(ep, rank, DONE, 0, 0, NULL, 0, NULL, &last_word[rank]) == 0, 87);
        is_there[rank] = probe_all(ep, scene, rank, last_word[rank], victim);
    }
    for (int rank = 1; rank < RANKS; rank++)
        if (is_there[rank])
            MUST(fits(await(ep, last_word[rank]).error, rank, victim), 88);
}

/* ---- messages that nobody receives ---- */

/* One message is cancelled, and one is dropped. */
static void take_back(struct forked_job *job, const struct scene *scene, int victim,
                      struct mbx_ep *ep, int rank)
{
    static unsigned char buf[LONG];
    mbx_request requests[2];
    int error;

    (void)job;
    fill(buf, rank, 0, scene->size);
    for (int i = 0; i < 2; i++)
        requests[i] = send_one(ep, scene, (uint64_t)i, buf);
    mbx_cancel(ep, requests[0]);
    error = await(ep, requests[0]).error;
    MUST(error == -ECANCELED || (error != 0 && fits(error, 0, victim)), 110);
    MUST(fits(forked_signal(ep, 0, BEGUN), 0, victim), 111);
    MUST(fits(await(ep, requests[1]).error, 0, victim), 112);
    sender_end(ep, rank, victim);
}

static void receive_nothing(struct forked_job *job, const struct scene *scene, int victim,
                            struct mbx_ep *ep)
{
    (void)job;
    (void)scene;
    for (uint32_t rank = 1; rank < RANKS; rank++)
        MUST(fits(forked_receive(ep, rank, BEGUN), (int)rank, victim), 113);
    MUST(mbx_context_open(ep, DATA, UINT64_C(1) << 32, UINT32_MAX) == 0, 114);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        MUST(fits(forked_receive(ep, rank, DONE), (int)rank, victim), 115);
}

/* ---- one-sided ---- */

#define KEY   7
#define AREA  ((size_t)300000) /* for each rank in the region */
#define SHORT ((size_t)64)

static void own_memory(struct forked_job *job, const struct scene *scene, int victim,
                       struct mbx_ep *ep)
{
    static unsigned char memory[RANKS * AREA];
    const struct mbx_region region = {
        .buf = memory, .size = sizeof memory, .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE};
    struct mbx_completion event;
    int events[RANKS] = {0};

    (void)job;
    (void)scene;
    MUST(mbx_register(ep, KEY, &region) == 0, 90);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        MUST(fits(forked_signal(ep, rank, GO), (int)rank, victim), 91);
    for (int rank = 1; rank < RANKS; rank++) {
        int error = forked_receive(ep, (uint32_t)rank, DONE);

        MUST(fits(error, rank, victim), 92);
        if (error != 0)
            continue;
        MUST(is_whole(memory + (size_t)rank * AREA, rank, 0, LONG), 93);
        while (mbx_poll(ep, MBX_EVENTS, &event, 1) == 1)
            events[event.status.source] += event.status.data == event.status.source;
        MUST(events[rank] == 1, 94);
    }
    MUST(mbx_deregister(ep, KEY) == 0, 95);
    memset(memory, POISON, sizeof memory);
    for (int i = 0; i < 200; i++)
        mbx_progress(ep);
    for (size_t i = 0; i < sizeof memory; i++)
        MUST(memory[i] == POISON, 96);
    while (mbx_poll(ep, MBX_EVENTS, &event, 1) == 1)
        ;
}

static void access_memory(struct forked_job *job, const struct scene *scene, int victim,
                          struct mbx_ep *ep, int rank)
{
    static unsigned char mine[LONG], back[LONG];
    const struct mbx_options tells = {.flags = MBX_REMOTE_DATA, .data = (uint64_t)rank};
    uint64_t one = 1, before = 99, base = (uint64_t)rank * AREA, word = base + LONG;
    const struct mbx_atomic_args add = {.op = MBX_SUM,
                                        .type = MBX_UINT64,
                                        .count = 1,
                                        .operand = &one,
                                        .result = &before,
                                        .key = KEY,
                                        .address = word};
    mbx_request requests[4];

    (void)job;
    (void)scene;
    fill(mine, rank, 0, LONG);
    MUST(fits(forked_receive(ep, 0, GO), 0, victim), 100);
    MUST(mbx_write(ep, 0, mine, LONG, KEY, base, &tells, &requests[0]) == 0, 101);
    MUST(mbx_write(ep, 0, mine, SHORT, KEY, base, NULL, &requests[1]) == 0, 102);
    MUST(mbx_atomic(ep, 0, &add, NULL, &requests[2]) == 0, 103);
    MUST(mbx_read(ep, 0, back, LONG, KEY, base, NULL, &requests[3]) == 0, 104);
    for (int i = 0; i < 4; i++) {
        int error = await(ep, requests[i]).error;

        MUST(fits(error, 0, victim), 105);
        MUST(error != 0 || i != 2 || before == 0, 106);
        MUST(error != 0 || i != 3 || is_whole(back, rank, 0, LONG), 107);
    }
    sender_end(ep, rank, victim);
}

/* ---- scenes ---- */

#define MESSAGES_OF receive_messages, send_messages
#define HELD        "WINDOW=0", "SENDTABLE=no"

const struct scene death_scenes[] = {
    {"eager", MESSAGES_OF, .size = 8},
    {"sync-late", MESSAGES_OF, .size = 8, .is_sync = true, .is_late = true},
    {"narrow", MESSAGES_OF, {"WINDOW=2"}, .size = 100},
    {"fragments",
     MESSAGES_OF,
     {"EAGER_LIMIT=1M", "SHM_RING_SIZE=8K", "WINDOW_PAYLOAD=unlimited"},
     .size = 50000,
     .is_sync = true},
    {"fragments-in-buffers",
     MESSAGES_OF,
     {"EAGER_LIMIT=1M", "WINDOW_PAYLOAD=unlimited", "OVERSUBSCRIBED=no"},
     .size = 50000,
     .is_sync = true,
     .is_waited = true},
    {"read", MESSAGES_OF, {"ADVERT=off", "READ_CHUNK=64K"}, .size = LONG},
    {"read-late", MESSAGES_OF, {"ADVERT=off"}, .size = LONG, .is_late = true},
    {"shared",
     MESSAGES_OF,
     {"ADVERT=off", "SPLIT_COPY=always", "READ_CHUNK=64K"},
     .size = LONG},
    {"data", MESSAGES_OF, {"RNDV=data"}, .size = LONG},
    {"pieces", MESSAGES_OF, .size = LONG, .is_packed = true, .is_unpacked = true},
    {"pieces-short",
     MESSAGES_OF,
     {"EAGER_LIMIT=16K"},
     .size = 12000,
     .is_packed = true,
     .is_unpacked = true,
     .is_waited = true},
    {"pieces-read",
     MESSAGES_OF,
     {"ADVERT=off", "READ_CHUNK=64K"},
     .size = LONG,
     .is_unpacked = true},
    {"pieces-held", MESSAGES_OF, {HELD}, .size = LONG, .is_late = true, .is_packed = true},
    {"held", MESSAGES_OF, {HELD}, .size = 8},
    {"held-long", MESSAGES_OF, {HELD}, .size = LONG, .is_late = true},
    {"taken", MESSAGES_OF, {"WINDOW=0"}, .size = 8, .is_late = true},
    {"taken-long", MESSAGES_OF, {"WINDOW=0"}, .size = LONG, .is_late = true},
    {"words", MESSAGES_OF, {"MATCH_AT=sender"}, .size = LONG},
    {"early",
     MESSAGES_OF,
     {"ADVERT=always", "READ_CHUNK=64K"},
     .size = LONG,
     .is_directed = true},
    {"early-whole", MESSAGES_OF, {"ADVERT=always"}, .size = LONG, .is_directed = true},
    {"claims", receive_claims, send_claims, {HELD}, .size = 8},
    {"claims-long", receive_claims, send_claims, {HELD}, .size = LONG},
    {"locks", receive_claims, send_claims, {"MATCH_AT=sender"}, .size = LONG},
    {"void", advertise_to_the_dead, send_before_advertised, {"ADVERT=always"}, .size = LONG},
    {"probe", probe_messages, send_messages, .size = 8, .is_late = true},
    {"probe-long", probe_messages, send_messages, .size = LONG, .is_sync = true,
     .is_late = true},
    {"probe-held", probe_messages, send_messages, {HELD}, .size = LONG, .is_late = true},
    {"taken-back", receive_nothing, take_back, .size = 8, .is_sync = true},
    {"taken-back-long", receive_nothing, take_back, .size = LONG, .is_sync = true},
    {"access", own_memory, access_memory, {"READ_CHUNK=64K"}, .size = 0},
    {"access-packets", own_memory, access_memory, {"SHM_ATTACH=no"}, .size = 0},
};

static_assert(ARRAY_COUNT(death_scenes) <= SCENES_MAX, "there is space");

const int death_scene_count = (int)ARRAY_COUNT(death_scenes);
