/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corruption_test.c - another process of the same user writes whatever it likes into the
 * segment of a shared memory endpoint, at any time, while the endpoint is used.
 *
 *   victim    sends, receives, probes, waits as a user would
 *   correct   an endpoint that talks to the victim
 *   corruptor changes the words of slots, addresses, proofs, frame words, heads, bells, packets; it
 *             may know the key, so its proofs can be right
 *
 * Nothing that it writes may crash the victim, make it hang, or leak: the victim ends what it
 * began and closes.  The test does not check which messages arrive.
 *
 *   corruption_test [--quick] [FIRST-SEED]
 */
#include <errno.h>
#include <matchbox/matchbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/siphash.h"
#include "transport/shm/segment.h"
#include "wire/wire.h"

#define STEPS    600
#define BIG      (40 << 10) /* travels by rendezvous */
#define REQUESTS 8          /* of the victim at a time */

static uint64_t first_seed = 1, seeds = 300;

static struct cluster {
    struct random random;
    uint64_t rate; /* one step in this many belongs to the corruptor */
    struct mbx_ep *victim, *correct;
    struct segment *segment; /* the victim's segment, as the corruptor maps it */
    struct transport_address address;
    mbx_request requests[REQUESTS];
    unsigned char bufs[REQUESTS][BIG];
} cl;

static unsigned char source[BIG];
static uint64_t now_ns = 1;

/* Runs faster than real time, so that the endpoints often check whether peers are alive. */
static uint64_t fast_clock(void)
{
    return now_ns += 5 * CLOCK_MS;
}

static uint64_t below(uint64_t bound)
{
    return random_below(&cl.random, bound);
}

/* ---- the corruptor ---- */

static uint32_t some_pid(void)
{
    const uint32_t pids[] = {0,         1,         (uint32_t)getpid(), (uint32_t)getppid(),
                             INT32_MAX, UINT32_MAX};

    return pids[below(ARRAY_COUNT(pids))];
}

static uint64_t some_number(void)
{
    switch (below(6)) {
    case 0:
        return 0;
    case 1:
        return below(16);
    case 2:
        return below(BIG);
    case 3:
        return UINT64_MAX - below(16);
    case 4: /* the number of one of their requests, or the next number */
        return cl.requests[below(REQUESTS)] + below(2);
    default:
        return random_next(&cl.random);
    }
}

static void corrupt_anywhere(unsigned char *from, size_t size)
{
    uint64_t word = some_number();

    memcpy(from + below(size / sizeof word) * sizeof word, &word, sizeof word);
}

static void corrupt_slot(struct segment_slot *slot)
{
    atomic_store(&slot->sender, slot_word((enum slot_state)below(6), some_pid()));
}

/* Writes another address, often with the right proof, sometimes that address is the victim's
 * own. */
static void corrupt_sender(struct segment_slot *slot)
{
    static const uint8_t key[TRANSPORT_KEY_SIZE];
    struct transport_address address = cl.address;
    struct {
        uint64_t cookie;
        struct transport_address sender;
    } text = {.cookie = cl.segment->file->cookie};

    switch (below(4)) {
    case 0:
        break;
    case 1:
        address.process = some_pid();
        break;
    case 2:
        address.place = (uint32_t)below(16);
        break;
    default:
        address.cookie = some_number();
        break;
    }
    memcpy(&slot->address, &address, sizeof address);
    memcpy(&text.sender, &address, sizeof address);
    slot->proof = below(4) != 0 ? siphash(key, &text, sizeof text) : random_next(&cl.random);
}

/* Returns the cell after the packet. */
static unsigned char *corrupt_packet(unsigned char *cell)
{
    struct wire_header header = {
        .frame = (uint32_t)(sizeof header + below(64)),
        .type = (uint8_t)below(WIRE_TYPES + 1),
        .version = WIRE_VERSION,
        .flags = (uint16_t)below(2),
    };
    uint64_t body[4];

    if (header.type <= WIRE_FIRST || header.type == WIRE_RTS) {
        header.tag = below(3);
        header.context_id = (uint32_t)below(3);
    }
    for (size_t i = 0; i < ARRAY_COUNT(body); i++)
        body[i] = some_number();
    if (header.type == WIRE_RTS && below(2) != 0)
        body[3] = cl.address.cookie; /* so that the preceding address is read */
    memcpy(cell + RING_FRAME_SIZE, &header.type, sizeof header - RING_FRAME_SIZE);
    memcpy(cell + sizeof header, body, sizeof body);
    memcpy(cell, &header.frame, sizeof header.frame);
    return cell + round_up(header.frame, RING_CELL_SIZE);
}

static void corrupt_ring(struct ring *ring, uint32_t cells)
{
    static const uint32_t frames[] = {0, 1, 4, 32, 40, 64, 1280, RING_SKIP, RING_SKIP - 1};
    unsigned char *cell = ring->cells + below(cells) * RING_CELL_SIZE;

    switch (below(6)) {
    case 0:
        atomic_store(&ring->head, some_number());
        break;
    case 1:
        atomic_store(&ring->armed, (uint32_t)below(2));
        atomic_store(&ring->producer_waiting, (uint32_t)below(2));
        break;
    case 2:
        atomic_store(&ring->closed, (uint32_t)below(2));
        atomic_store(&ring->moved, (uint32_t)below(2));
        break;
    case 3:
        memcpy(cell, &frames[below(ARRAY_COUNT(frames))], sizeof frames[0]);
        break;
    case 4:
        corrupt_anywhere(ring->cells, (size_t)cells * RING_CELL_SIZE);
        break;
    default:
        corrupt_packet(cell);
        break;
    }
}

/* Sends as a sender does, from the beginning of a ring, after an empty mailbox; every packet is
 * invalid. */
static void corrupt_stream(uint32_t slot)
{
    unsigned char *cell = segment_ring(cl.segment, slot)->cells;

    for (unsigned i = 0; i < 12; i++)
        cell = corrupt_packet(cell);
    corrupt_sender(segment_slot(cl.segment, slot));
    atomic_store(&segment_mailbox(cl.segment, slot)->moved, 1);
    atomic_store(&segment_slot(cl.segment, slot)->sender,
                 slot_word(SLOT_READY, (uint32_t)getpid()));
}

static void corrupt(void)
{
    struct segment *s = cl.segment;
    uint32_t slot = (uint32_t)below(s->peers);
    unsigned char *control = (unsigned char *)s->control;

    switch (below(9)) {
    case 0: /* after the head, without which correct processes could not continue */
        corrupt_anywhere(control + sizeof s->control->head,
                         (size_t)((unsigned char *)s->slots - control) -
                             sizeof s->control->head);
        break;
    case 1:
        corrupt_slot(segment_slot(s, slot));
        break;
    case 2:
        corrupt_sender(segment_slot(s, slot));
        break;
    case 3:
    case 4:
        corrupt_stream(slot);
        break;
    case 5:
        corrupt_ring(segment_mailbox(s, slot), SEGMENT_MAILBOX_CELLS);
        break;
    default:
        corrupt_ring(segment_ring(s, slot), segment_ring_cells(s, slot));
        break;
    }
    atomic_fetch_or(&s->control->ready[0], UINT64_C(1) << slot);
    atomic_fetch_add(&s->control->doorbell.count, 1);
}

/* ---- the victim and the correct endpoint ---- */

static void take_completions(struct mbx_ep *ep)
{
    struct mbx_completion done[REQUESTS];
    int count = mbx_poll(ep, MBX_SENDS | MBX_RECVS, done, REQUESTS);

    for (int i = 0; i < count; i++)
        for (unsigned r = 0; ep == cl.victim && r < REQUESTS; r++)
            if (cl.requests[r] == done[i].request)
                cl.requests[r] = 0;
}

static void victim_starts(unsigned r)
{
    uint32_t context = (uint32_t)below(3);
    size_t size = below(2) != 0 ? below(64) : BIG;
    int err;

    if (cl.requests[r] != 0)
        return;
    if (below(2) != 0)
        err = mbx_recv(cl.victim, MBX_ANY_SOURCE, context, 0, MBX_IGNORE_ALL, cl.bufs[r], size,
                       NULL, &cl.requests[r]);
    else /* also to peers that do not exist */
        err = (below(2) != 0 ? mbx_send : mbx_ssend)(cl.victim, (uint32_t)below(6), context, 1,
                                                     source, size, NULL, &cl.requests[r]);
    assert_true(err == 0 || err == -EINVAL);
}

static void victim_probes(void)
{
    struct mbx_status status;
    mbx_message message;

    if (mbx_mprobe(cl.victim, MBX_ANY_SOURCE, (uint32_t)below(3), 0, MBX_IGNORE_ALL, &status,
                   &message) == 1)
        assert_int_equal(mbx_discard(cl.victim, message), 0);
}

static void victim_step(void)
{
    unsigned r = (unsigned)below(REQUESTS);

    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        victim_starts(r);
        break;
    case 4:
        victim_probes();
        break;
    case 5:
        if (cl.requests[r] != 0)
            mbx_cancel(cl.victim, cl.requests[r]);
        break;
    case 6:
        mbx_wait_queues(cl.victim, MBX_RECVS, 6 * (int64_t)CLOCK_MS);
        break;
    default:
        mbx_progress(cl.victim);
        break;
    }
    take_completions(cl.victim);
}

static void correct_step(void)
{
    static unsigned char to[BIG];

    if (below(8) == 0)
        mbx_send(cl.correct, 0, (uint32_t)below(3), below(3), source,
                 below(4) == 0 ? BIG : below(64), NULL, NULL);
    if (below(8) == 0)
        mbx_recv(cl.correct, 0, (uint32_t)below(3), 0, MBX_IGNORE_ALL, to, sizeof to, NULL,
                 NULL);
    mbx_progress(cl.correct);
    take_completions(cl.correct);
}

/* ---- the processes ---- */

static struct mbx_ep *open_one(void)
{
    static const char *const params[] = {"TRANSPORT=shm",   "PEERS_MAX=16", "SHM_RING_SIZE=4K",
                                         "CLOSE_TIMEOUT=0", "SPIN=0",       NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep = NULL;

    assert_int_equal(mbx_open(&config, &ep), 0);
    return ep;
}

static void cluster_open(uint64_t seed)
{
    struct mbx_address address;
    struct segment_head head;
    uint32_t peer;
    char path[64];
    int fd;

    memset(&cl, 0, sizeof cl);
    random_seed(&cl.random, seed);
    cl.rate = 2 + below(40);
    cl.victim = open_one();
    cl.correct = open_one();
    mbx_address_get(cl.victim, &address);
    assert_int_equal(mbx_peer_add(cl.correct, &address, &peer), 0);
    memcpy(&cl.address, &address, sizeof cl.address);
    snprintf(path, sizeof path, "/proc/self/fd/%u", cl.address.place);
    fd = sys_open(path, 0, 0);
    assert_true(fd >= 0);
    assert_int_equal(sys_read(fd, &head, sizeof head), sizeof head);
    sys_close(fd);
    assert_int_equal(segment_open(&(struct segment_source){.address = &cl.address,
                                                           .key_check = head.key_check},
                                  SEGMENT_ALL, &cl.segment),
                     0);
}

static void cluster_close(void)
{
    segment_detach(cl.segment);
    mbx_close(cl.victim);
    mbx_close(cl.correct);
}

static void a_corruptor_cannot_crash_its_victim(UNUSED void **state)
{
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        uint64_t mem = mem_live();
        int64_t fds = sys_fds_live(), maps = sys_maps_live();

        cluster_open(seed);
        for (unsigned step = 0; step < STEPS; step++) {
            if (below(cl.rate) == 0)
                corrupt();
            victim_step();
            correct_step();
        }
        cluster_close();
        if (mem_live() != mem || sys_fds_live() != fds || sys_maps_live() != maps)
            fail_msg("something leaked, seed %llu", (unsigned long long)seed);
    }
}

static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    assert_non_null(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_corruptor_cannot_crash_its_victim),
    };

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            seeds = 40;
        else
            first_seed = strtoull(argv[i], NULL, 10);
    }
    log_set_sink(be_quiet, NULL);
    clock_set(fast_clock);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
