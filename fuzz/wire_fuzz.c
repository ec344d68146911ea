/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_fuzz.c - whatever arrives, an endpoint survives it and matches nothing wrongly.
 *
 * An input is a program: each byte chooses an action, the following ones its
 * arguments, and every input means something.
 *
 *   victim   receives, sends, probes, cancels, reads and writes as a user would: its
 *            requests come into all states; some of its memory may be accessed
 *   liar     hands packets to the victim in the name of one of its two peers: raw
 *            bytes, or packets of the right shape with request numbers that exist,
 *            existed, or nearly exist
 *   peers    two honest endpoints that the victim's answers really reach, and that send and
 *            receive, too
 *
 * After each action the engines and pools of the victim must be valid, a packet that
 * wire_check() refuses must be counted and do nothing else, and what completes must
 * fit its request.  Buffers have their exact size, for AddressSanitizer.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/core.h"

#define REQUESTS_MAX 64
#define PACKET_MAX   512
#define REGION_KEY   3
#define REGION_SIZE  1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

/* A request of the victim, and what it may be given. */
struct user {
    mbx_request request;
    unsigned char *buf;
    size_t size;
    bool is_send, is_access;
    struct match_envelope envelope;
    uint64_t ignore;
    bool was_claimed; /* mrecv: any envelope */
};

struct fuzz {
    struct mbx_ep *victim, *peers[2];
    struct user users[REQUESTS_MAX];
    int count;
    mbx_message message;
    unsigned char *memory;        /* of its region */
    uint64_t results[64];         /* of its atomics */
    unsigned char heap[2][20000]; /* of the peers: they send it, and receive there */
};

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "wire_fuzz: %s\n", what);
    abort();
}

static uint8_t take(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

static size_t take_size(struct input *in)
{
    static const size_t sizes[] = {0, 1, 8, 33, 100, 470, 600, 5000, 9000, 20000};

    return sizes[take(in) % ARRAY_COUNT(sizes)];
}

/* ---- the user ---- */

static struct user *user_new(struct fuzz *f, size_t size)
{
    struct user *u;

    if (f->count == REQUESTS_MAX)
        return NULL;
    u = &f->users[f->count];
    u->buf = calloc(1, size != 0 ? size : 1);
    u->size = size;
    f->count++;
    return u;
}

static void user_recv(struct fuzz *f, struct input *in)
{
    static const uint64_t ignores[] = {0, 1, 3, MBX_ANY_TAG};
    struct user *u = user_new(f, take_size(in));
    struct mbx_options options = {.user = u};
    uint8_t what = take(in);

    if (u == NULL)
        return;
    u->envelope.source = what % 3 == 2 ? MBX_ANY_SOURCE : what % 3;
    u->envelope.context_id = what >> 2 & 1;
    u->envelope.tag = what >> 3 & 3;
    u->ignore = ignores[what >> 5 & 3];
    mbx_recv(f->victim, u->envelope.source, u->envelope.context_id, u->envelope.tag, u->ignore,
             u->buf, u->size, &options, &u->request);
}

static void user_send(struct fuzz *f, struct input *in)
{
    struct user *u = user_new(f, take_size(in));
    struct mbx_options options = {.user = u};
    uint8_t what = take(in);

    if (u == NULL)
        return;
    u->is_send = true;
    (what & 2 ? mbx_ssend : mbx_send)(f->victim, what & 1, what >> 2 & 1, what >> 3 & 3, u->buf,
                                      u->size, &options, &u->request);
}

static void user_claim(struct fuzz *f, struct input *in)
{
    struct mbx_status status;
    uint8_t what = take(in);

    mbx_mprobe(f->victim, MBX_ANY_SOURCE, what & 1, what >> 1 & 3, what & 8 ? MBX_ANY_TAG : 0,
               &status, &f->message);
}

static void user_use_claimed(struct fuzz *f, struct input *in)
{
    uint8_t what = take(in);
    struct mbx_options options;
    struct user *u;

    if (what & 1) {
        mbx_discard(f->victim, f->message);
        return;
    }
    u = user_new(f, take_size(in));
    options = (struct mbx_options){.user = u};
    if (u == NULL)
        return;
    u->was_claimed = true;
    mbx_mrecv(f->victim, f->message, u->buf, u->size, &options, &u->request);
}

static void user_access(struct fuzz *f, struct input *in)
{
    struct user *u = user_new(f, take_size(in));
    struct mbx_options options = {.user = u};
    uint8_t what = take(in);
    struct mbx_atomic atomic = {
        .op = (enum mbx_op)(what >> 1 & 15), .type = MBX_UINT64, .count = 8, .key = REGION_KEY};

    if (u == NULL)
        return;
    u->is_access = true;
    atomic.operand = atomic.op == MBX_ATOMIC_READ ? NULL : f->results;
    atomic.compare = atomic.op >= MBX_CSWAP ? f->results : NULL;
    atomic.result = f->results + 32;
    if (what & 128)
        mbx_atomic(f->victim, what & 1, &atomic, &options, &u->request);
    else if (what & 64)
        mbx_read(f->victim, what & 1, u->buf, u->size, REGION_KEY, 0, &options, &u->request);
    else
        mbx_write(f->victim, what & 1, u->buf, u->size, REGION_KEY, 0, &options, &u->request);
}

/* Shares the region, or ends that. */
static void user_share(struct fuzz *f, struct input *in)
{
    const struct mbx_region region = {
        .buf = f->memory, .size = REGION_SIZE, .rights = take(in) % 4};

    if (mbx_register(f->victim, REGION_KEY, &region) == -EEXIST)
        mbx_deregister(f->victim, REGION_KEY);
}

static bool accepts(const struct user *u, const struct mbx_status *s)
{
    return u->was_claimed ||
           (s->context_id == u->envelope.context_id &&
            (u->envelope.source == MBX_ANY_SOURCE || u->envelope.source == s->source) &&
            ((s->tag ^ u->envelope.tag) & ~u->ignore) == 0);
}

static void user_poll(struct fuzz *f)
{
    struct mbx_completion done;

    while (mbx_poll(f->victim, MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS, &done, 1) ==
           1) {
        struct user *u = done.user;

        if (done.kind == MBX_EVENTS) {
            require(done.error == 0 && done.status.source < 2, "an event of nobody's");
            continue;
        }
        require(u >= f->users && u < f->users + f->count && u->request == done.request,
                "a completion of nobody's");
        require((done.kind == MBX_SENDS) == u->is_send, "a completion of the wrong kind");
        require((done.kind == MBX_ACCESS) == u->is_access, "a completion of another kind");
        u->request = 0;
        if (u->is_send || u->is_access || done.error == -ECANCELED || done.error == -ENOTCONN)
            continue;
        require(accepts(u, &done.status), "a receive got a message that it does not accept");
        require(done.received <= u->size, "a receive got more than its buffer holds");
        require(done.error == (done.status.size > u->size ? -EMSGSIZE : 0),
                "a receive ended with the wrong error");
    }
}

/* ---- the liar ---- */

/* A request number: of the victim's, changed a little, or anything. */
static uint64_t take_handle(const struct fuzz *f, struct input *in)
{
    uint8_t what = take(in);
    uint64_t handle = f->count != 0 ? f->users[(what & 63) % f->count].request : what;

    if (what & 64)
        handle ^= UINT64_C(1) << take(in) % 64;
    return what & 128 ? what : handle;
}

static uint64_t take_number(struct input *in)
{
    uint8_t what = take(in);
    uint64_t number = what & 1 ? take_size(in) : take(in);

    return what & 2 ? number << what % 64 : what & 4 ? UINT64_MAX - number : number;
}

/* By type: does it have an envelope and payload, which fields of its body are request
 * numbers (a mask), and its flags. */
static const struct {
    bool has_envelope, has_payload;
    uint8_t handles;
    uint16_t flags;
} shapes[WIRE_TYPES] = {
    [WIRE_EAGER] = {true, true, 0, 0},
    [WIRE_SYNC] = {true, true, 1, 0},
    [WIRE_FIRST] = {true, true, 1, WIRE_WANTS_FIN},
    [WIRE_MORE] = {false, true, 0, 0},
    [WIRE_RTS] = {true, true, 1, WIRE_SHORT_OF},
    [WIRE_CTS] = {false, false, 3, 0},
    [WIRE_DATA] = {false, true, 1, 0},
    [WIRE_FIN] = {false, false, 1, 0},
    [WIRE_CREDIT] = {false, false, 0, 0},
    [WIRE_HOLD] = {false, false, 0, 0},
    [WIRE_RTR] = {true, false, 1, WIRE_ANY_SOURCE | WIRE_ROOM_USED},
    [WIRE_CLAIM] = {true, true, 3, WIRE_WON},
    [WIRE_GRANT] = {false, false, 1, 0},
    [WIRE_RETIRE] = {false, false, 3, 0},
    [WIRE_PEEK] = {true, false, 0, WIRE_ANY_SOURCE},
    [WIRE_PEEKED] = {true, false, 2, 0},
    [WIRE_PUT] = {false, true, 0, WIRE_HAS_DATA},
    [WIRE_GET] = {false, false, 0, 0},
    [WIRE_ATOMIC] = {false, true, 0, 0},
    [WIRE_ANSWER] = {false, true, 1, WIRE_LAST},
    [WIRE_PUSH] = {false, true, 0, 0},
    [WIRE_EARLY] = {true, false, 1, 0},
    [WIRE_WRITE] = {true, false, 3, WIRE_STOPPED},
    [WIRE_WRITTEN] = {false, false, 1, WIRE_STOPPED},
};

/* Epochs, numbers of RTRs, questions: small ones mean most. */
static uint64_t take_field(struct input *in, enum wire_type type)
{
    bool is_small = type == WIRE_HOLD || type == WIRE_RTR || type == WIRE_PEEK ||
                    type == WIRE_PEEKED || type == WIRE_CREDIT || type == WIRE_EARLY;
    uint8_t what = is_small ? take(in) : 128;

    return what < 128 ? what & 7 : take_number(in);
}

/* Makes of a body one that means something more often than by chance: it names the region,
 * and the length of its payload; or wants a push. */
static size_t mend_access(struct wire_header *header, uint64_t *body, uint8_t what,
                          size_t payload)
{
    struct wire_atomic atomic = {.sender = body[0], .key = REGION_KEY, .at = what};

    switch ((int)header->type) {
    case WIRE_PUT:
        payload = what & 4 ? payload : 0;
        body[3] = payload != 0 ? payload : body[3];
        break;
    case WIRE_ATOMIC:
        atomic.what =
            (what % MBX_OPS) | (uint32_t)(what >> 4) << 8 | (what & 2 ? WIRE_ATOMIC_FETCH : 0);
        atomic.count = 1 + (what & 7);
        memcpy(body, &atomic, sizeof atomic);
        payload = mbx_atomic_size(what % MBX_OPS, what >> 4) * atomic.count *
                  (what % MBX_OPS >= MBX_CSWAP ? 2 : 1);
        return payload % 400;
    case WIRE_ANSWER:
        header->flags = what & 4 ? WIRE_PULL : header->flags;
        body[1] = what & 8 ? body[1] & 31 : 0;
        return what & 4 ? 0 : payload;
    default:
        return payload;
    }
    body[1] = REGION_KEY;
    body[2] &= 1023;
    return payload;
}

static size_t craft(const struct fuzz *f, struct input *in, unsigned char *packet)
{
    struct wire_header header = {.version = WIRE_VERSION};
    uint64_t body[9] = {0};
    uint8_t kind = take(in), what = take(in);
    size_t body_size, payload;

    header.type = 1 + kind % (WIRE_TYPES - 1);
    if (shapes[header.type].has_envelope) {
        header.context_id = what >> 3 & 1;
        header.tag = what >> 4 & 3;
        if (header.type == WIRE_RTR || header.type == WIRE_PEEK || header.type == WIRE_EARLY)
            header.data = what & 1 ? MBX_ANY_TAG : what >> 1 & 3;
    }
    header.flags = what & 64 ? shapes[header.type].flags : 0;
    body_size = wire_body_size(header.type);
    require(body_size <= sizeof body, "a body that is longer than the longest");
    for (size_t i = 0; i < body_size / sizeof body[0]; i++)
        body[i] = shapes[header.type].handles >> i & 1 ? take_handle(f, in)
                                                       : take_field(in, header.type);
    if (header.type == WIRE_FIRST && !header.flags)
        body[0] = 0;
    payload = shapes[header.type].has_payload ? take_number(in) % 400 : 0;
    if (header.type >= WIRE_PUT && what & 1)
        payload = mend_access(&header, body, take(in), payload);
    memcpy(packet, &header, sizeof header);
    memcpy(packet + sizeof header, body, body_size);
    memset(packet + sizeof header + body_size, what, payload);
    return sizeof header + body_size + payload;
}

static size_t raw(struct input *in, unsigned char *packet)
{
    size_t size = take(in);

    for (size_t i = 0; i < size; i++)
        packet[i] = take(in);
    return size;
}

static void lie(struct fuzz *f, struct input *in, bool is_raw)
{
    unsigned char packet[PACKET_MAX], *exact;
    uint32_t peer = take(in) & 1;
    size_t size = is_raw ? raw(in, packet) : craft(f, in, packet);
    struct wire_packet parsed;
    struct mbx_stats before, after;
    const char *reason;
    int err;

    exact = malloc(size != 0 ? size : 1);
    memcpy(exact, packet, size);
    mbx_stats_get(f->victim, &before);
    err = progress_deliver(f->victim, peer, exact, size);
    mbx_stats_get(f->victim, &after);
    require(err == 0 || err == -EAGAIN, "a packet ends with another error");
    if (wire_check(exact, size, &parsed, &reason) < 0) {
        before.dropped_packets++;
        require(memcmp(&before, &after, sizeof before) == 0,
                "a malformed packet is more than counted");
    }
    free(exact);
}

/* ---- the peers ---- */

static void peer_act(struct fuzz *f, struct input *in, int who)
{
    static const struct mbx_options silent = {.flags = MBX_SILENT};
    uint8_t what = take(in);
    size_t size = take_size(in);
    struct mbx_completion done;

    if (what & 1)
        mbx_recv(f->peers[who], 0, what >> 2 & 1, what >> 3 & 3, what & 32 ? MBX_ANY_TAG : 0,
                 f->heap[who], size, &silent, NULL);
    else
        mbx_send(f->peers[who], 0, what >> 2 & 1, what >> 3 & 3, f->heap[who], size, &silent,
                 NULL);
    while (mbx_poll(f->peers[who], MBX_SENDS | MBX_RECVS, &done, 1) == 1)
        ;
}

/* ---- the whole ---- */

/* Every input begins with the window of all endpoints: wide, or so small that messages are
 * held; and says whether receives are told in advance. */
static struct mbx_ep *open_one(uint8_t window)
{
    static const char *const windows[] = {"WINDOW=auto", "WINDOW=0", "WINDOW=1", "WINDOW=2"};
    const char *const params[] = {"TRANSPORT=loop",
                                  "LOOP_DEPTH=2",
                                  "EAGER_LIMIT=2K",
                                  "READ_CHUNK=4K",
                                  "LOG_LEVEL=error",
                                  "CLOSE_TIMEOUT=0",
                                  "REQUESTS=256",
                                  windows[window % 4],
                                  window & 4 ? "WINDOW_PAYLOAD=0" : "WINDOW_PAYLOAD=auto",
                                  "EARLY_SIZE=1",
                                  window & 8 ? "EARLY_RECV=always" : "EARLY_RECV=off",
                                  NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;

    require(mbx_open(&config, &ep) == 0, "mbx_open");
    return ep;
}

static void connect_to(struct mbx_ep *ep, const struct mbx_ep *other)
{
    struct mbx_address address;
    uint32_t number;

    mbx_address_get(other, &address);
    require(mbx_peer_add(ep, &address, &number) == 0, "mbx_peer_add");
}

static void check_victim(const struct mbx_ep *ep)
{
    require(pool_is_valid(&ep->requests) && pool_is_valid(&ep->messages), "a pool is damaged");
    for (uint32_t i = 0; i < ep->context_slots; i++)
        require(ep->contexts[i] == NULL || match_is_valid(&ep->contexts[i]->match),
                "an engine is damaged");
}

static void act(struct fuzz *f, struct input *in)
{
    uint8_t action = take(in);

    switch (action % 15) {
    case 0:
        lie(f, in, true);
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        lie(f, in, false);
        break;
    case 5:
        user_recv(f, in);
        break;
    case 6:
        user_send(f, in);
        break;
    case 7:
        mbx_cancel(f->victim, take_handle(f, in));
        break;
    case 8:
        user_claim(f, in);
        break;
    case 9:
        user_use_claimed(f, in);
        break;
    case 10:
        mbx_progress(f->victim);
        user_poll(f);
        break;
    case 11:
        mbx_progress(f->peers[action >> 4 & 1]);
        break;
    case 12:
        user_access(f, in);
        break;
    case 13:
        user_share(f, in);
        break;
    case 14:
        peer_act(f, in, action >> 4 & 1);
        break;
    }
    check_victim(f->victim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t window = take(&in);
    static struct fuzz f;
    uint64_t mem;

    memset(&f, 0, sizeof f);
    f.victim = open_one(window);
    for (int i = 0; i < 2; i++)
        f.peers[i] = open_one(window);
    for (int i = 0; i < 2; i++) {
        connect_to(f.victim, f.peers[i]);
        connect_to(f.peers[i], f.victim);
    }
    f.memory = calloc(1, REGION_SIZE);
    mbx_register(f.peers[0], REGION_KEY,
                 &(struct mbx_region){.buf = f.results, .size = 64, .rights = 3});
    while (in.size != 0)
        act(&f, &in);
    mbx_close(f.victim);
    for (int i = 0; i < 2; i++)
        mbx_close(f.peers[i]);
    for (int i = 0; i < f.count; i++)
        free(f.users[i].buf);
    free(f.memory);
    mem = mem_live();
    require(mem == 0, "memory is lost");
    return 0;
}
