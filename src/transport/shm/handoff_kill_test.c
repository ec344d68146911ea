/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff_kill_test.c - a process that has taken over is killed at any moment.
 *
 *   this process                                child
 *   owner 0, senders 1 to 3
 *   hand over                        --->       take over, poll: record each packet
 *   the senders send                            ...
 *   kill it, take back, receive the rest        dead
 *   check the records of both
 *
 * No packet may be missing or out of order, and for each death at most one packet may come
 * twice, announced.  One test kills at random times; the others kill after a given number of
 * instructions of take_over() and of poll().
 *
 *   transport_shm_handoff_kill [--long]    --long: thousands of random kills, and each instruction
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "base/unit.h"
#include "transport/shm/handoff_testing.h"

#define SEED 20261121

static unsigned random_kills = 40;
static bool each_instruction;

/* ---- an endpoint and its senders ---- */

struct fixture {
    struct half owner;
    struct node sender[PEERS]; /* 1 .. */
    struct link *link[PEERS];
    uint64_t first[PEERS], next[PEERS]; /* since the last check; to be sent */
    unsigned kills;                     /* since the last check */
    struct random random;
};

static void sender_open(struct fixture *fix, unsigned i)
{
    CHECK(node_open_as(&fix->sender[i], i) == 0);
    fix->link[i] = connect_to(&fix->sender[i], 0);
    fix->owner.link[i] = NULL; /* a new address */
}

static void sender_send(struct fixture *fix, unsigned i)
{
    int err = send_number(fix->link[i], fix->next[i]);

    CHECK(err == 0 || err == -EAGAIN);
    fix->next[i] += err == 0;
}

static void fixture_open(struct fixture *fix)
{
    memset(fix, 0, sizeof *fix);
    random_seed(&fix->random, SEED);
    half_open(&fix->owner, 0);
    for (unsigned i = 1; i < PEERS; i++)
        sender_open(fix, i);
}

static void fixture_close(struct fixture *fix)
{
    for (unsigned i = 1; i < PEERS; i++)
        if (fix->sender[i].t != NULL)
            node_close(&fix->sender[i]);
    half_drain(&fix->owner);
    half_close(&fix->owner);
}

/* Receives all packets that were sent, and checks them. */
static void fixture_check(struct fixture *fix)
{
    half_drain(&fix->owner);
    CHECK(notes_check(fix->first, fix->next) <= fix->kills);
    memcpy(fix->first, fix->next, sizeof fix->first);
    fix->kills = 0;
}

static unsigned owner_slots(const struct fixture *fix)
{
    return slots_taken(&(struct node){.t = fix->owner.t});
}

/* ---- killed at random ---- */

static void answer(struct half *joined)
{
    for (unsigned i = 1; i < PEERS; i++)
        if (joined->link[i] != NULL)
            send_number(joined->link[i], atomic_load(&notes->count));
}

/* Receives, refuses, sleeps and answers; may be killed at any moment. */
static void live_dangerously(void)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    stage_set(1);
    joined.refuses = 7;
    for (;;) {
        if (joined.t->ops->poll(joined.t, 16) != 0)
            answer(&joined);
        else
            joined.t->ops->wait(joined.t, CLOCK_MS);
    }
}

static void send_at_random(struct fixture *fix)
{
    for (uint64_t n = random_below(&fix->random, 300); n > 0; n--) {
        unsigned i = 1 + (unsigned)random_below(&fix->random, PEERS - 1);

        sender_send(fix, i);
        if (random_below(&fix->random, 8) == 0) {
            transport_shm.poll(fix->sender[i].t, 16); /* the answers */
            sched_yield();
        }
    }
}

static void kill_at_random(struct fixture *fix)
{
    pid_t child;

    half_hand_over(&fix->owner);
    stage_set(0);
    child = start(live_dangerously);
    if (random_below(&fix->random, 4) != 0)
        stage_await(1);
    send_at_random(fix);
    CHECK(fix->owner.t->ops->poll(fix->owner.t, 16) == 0);
    kill_unreaped(child);
    fix->kills++;
    half_take_back(&fix->owner);
    reap(child);
}

/* Another endpoint replaces a sender. */
static void replace_a_sender(struct fixture *fix)
{
    unsigned i = 1 + (unsigned)random_below(&fix->random, PEERS - 1);

    node_close(&fix->sender[i]);
    sender_open(fix, i);
}

static void nothing_is_lost_by_a_kill(UNUSED void **state)
{
    static struct fixture fix;

    fixture_open(&fix);
    for (unsigned n = 1; n <= random_kills; n++) {
        kill_at_random(&fix);
        send_at_random(&fix); /* also before the receiver has looked again */
        for (uint64_t polls = random_below(&fix.random, 20); polls > 0; polls--)
            fix.owner.t->ops->poll(fix.owner.t, 4);
        if (n % 4 == 0)
            fixture_check(&fix);
        if (n % 8 == 0)
            replace_a_sender(&fix);
    }
    fixture_check(&fix);
    for (unsigned i = 1; i < PEERS; i++)
        await_free_slots(&fix.sender[i]); /* slots of dead halves, while their endpoint lives */
    fixture_close(&fix);
}

/* ---- killed after a number of instructions ---- */

/*
 * The life of a half that has taken over, in spans; one span at a time is single-stepped:
 *
 *   span   FROM_JOIN        0         1          ...   6
 *          take_over()      poll      deliver 1        deliver 6, the last; the slot of the
 *                                                      sender that left; an answer; close
 *
 * Each span ends where the next one begins; the stepped one also ends the child.
 */
#define FROM_JOIN (-1)
#define PACKETS   6
/*
 * How often each span is killed, and the instructions that a span may have.  Under
 * AddressSanitizer there are many more instructions, most of them the sanitizer's.
 */
#if defined(__SANITIZE_ADDRESS__)
#define POLL_KILLS 2
#define JOIN_KILLS 3
#define LIFE_MAX   1000000
#else
#define POLL_KILLS 6
#define JOIN_KILLS 10
#define LIFE_MAX   100000
#endif

static int span_stepped;    /* the span that is single-stepped */
static int span;            /* the current span */
static uint64_t steps_left; /* instructions to live in it; or until this is true */
static bool (*dies_when)(void);
static const struct segment *seen; /* the segment, as taken over */

/* Not under ThreadSanitizer, where each step would be a hundred. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define CAN_STEP true

/* Called after each instruction. */
static void on_step(UNUSED int signal)
{
    atomic_fetch_add_explicit(&board->number, 1, memory_order_relaxed);
    if (--steps_left == 0 || (dies_when != NULL && dies_when()))
        kill(getpid(), SIGKILL);
}

/* The processor's trap flag: the system sends SIGTRAP after each instruction, except within the
 * handler. */
static void steps_begin(void)
{
    CHECK(signal(SIGTRAP, on_step) != SIG_ERR);
    __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

#else
#define CAN_STEP false

static void steps_begin(void)
{
    CHECK(CAN_STEP);
}
#endif

static void span_begin(int next)
{
    if (span == span_stepped)
        kill(getpid(), SIGKILL);
    span = next;
    if (span == span_stepped)
        steps_begin();
}

static void span_of_packet(void)
{
    span_begin(span + 1);
}

static void live_by_steps(void)
{
    struct half joined;

    span = FROM_JOIN - 1;
    span_begin(FROM_JOIN);
    CHECK(half_take_over(&joined) == 0);
    span_begin(0);
    joined.noted = span_of_packet;
    seen = shm_of(joined.t)->own;
    for (unsigned i = 0; i < 2 * PACKETS; i++)
        joined.t->ops->poll(joined.t, 2);
    answer(&joined);
    half_close(&joined);
    CHECK(span == PACKETS);
    stage_set(1);
    kill(getpid(), SIGKILL);
}

/* One sender continues, one has just left.  Some packets have several cells, so that there is a
 * skip record sometimes. */
static void send_a_few(struct fixture *fix)
{
    sender_open(fix, 2);
    for (unsigned n = 0; n < PACKETS / 2; n++) {
        sender_send(fix, 1);
        sender_send(fix, 2);
    }
    node_close(&fix->sender[2]);
    fix->sender[2].t = NULL;
}

/* Returns how many instructions it executed. */
static uint64_t kill_behind(struct fixture *fix, uint64_t steps)
{
    send_a_few(fix);
    half_hand_over(&fix->owner);
    steps_left = steps;
    atomic_store(&board->number, 0);
    reap(start(live_by_steps));
    fix->kills++;
    half_take_back(&fix->owner);
    fixture_check(fix);
    assert_int_equal(owner_slots(fix), 1);
    inbound_sweep(inside(&fix->sender[1]), 8);
    await_free_slots(&fix->sender[1]); /* the dead half has answered, or begun to */
    return atomic_load(&board->number);
}

static void kill_everywhere(struct fixture *fix, uint64_t kills)
{
    uint64_t life = kill_behind(fix, UINT64_MAX);

    assert_in_range(life, 50, LIFE_MAX);
    if (each_instruction)
        kills = min_size(life, 3000);
    for (uint64_t n = 1; n <= kills; n++)
        kill_behind(fix, kills == life ? n : 1 + random_below(&fix->random, life));
}

static void step_through(int first, int last, uint64_t kills)
{
    static struct fixture fix;

    if (!CAN_STEP)
        skip();
    payload_limit = 300;
    fixture_open(&fix);
    node_close(&fix.sender[2]);
    fix.sender[2].t = NULL;
    for (span_stepped = first; span_stepped <= last; span_stepped++)
        kill_everywhere(&fix, kills);
    fixture_close(&fix);
}

static void nothing_is_lost_wherever_poll_is_killed(UNUSED void **state)
{
    step_through(0, PACKETS, POLL_KILLS);
}

static void nothing_is_lost_wherever_join_is_killed(UNUSED void **state)
{
    step_through(FROM_JOIN, FROM_JOIN, JOIN_KILLS);
}

/* Slot 1 belongs to the sender that has left. */
static bool is_half_cleared(void)
{
    return seen != NULL && atomic_load(&segment_mailbox(seen, 1)->closed) == 0 &&
           slot_state_of(atomic_load(&seen->slots[1].sender)) != SLOT_FREE;
}

/* The mailbox does not show any more that its sender has left, and the slot is not yet free. */
static void a_slot_that_was_being_cleared_is_cleared_again(UNUSED void **state)
{
    static struct fixture fix;

    if (!CAN_STEP)
        skip();
    fixture_open(&fix);
    node_close(&fix.sender[2]);
    fix.sender[2].t = NULL;
    span_stepped = PACKETS;
    dies_when = is_half_cleared;
    kill_behind(&fix, UINT64_MAX);
    dies_when = NULL;
    assert_true(atomic_load(&board->stage) == 0); /* it did not reach its end */
    fixture_close(&fix);
}

/* ---- twice in a row ---- */

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void die_in_delivery(void)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    joined.noted = die;
    half_serve(&joined);
}

static void refuse_and_die(void)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    joined.refuses = 1;
    for (unsigned i = 0; i < 3; i++)
        joined.t->ops->poll(joined.t, 16);
    CHECK(joined.offered == 3);
    die();
}

static void be_replaced(struct fixture *fix, void (*story)(void))
{
    half_hand_over(&fix->owner);
    reap(start(story));
    half_take_back(&fix->owner);
}

static void a_repeat_stays_one_until_it_is_taken(UNUSED void **state)
{
    static struct fixture fix;

    fixture_open(&fix);
    sender_send(&fix, 1);
    sender_send(&fix, 1);
    be_replaced(&fix, die_in_delivery);
    fix.owner.refuses = 1;
    fix.owner.t->ops->poll(fix.owner.t, 16);
    be_replaced(&fix, refuse_and_die);
    fix.owner.t->ops->poll(fix.owner.t, 16);
    fix.owner.refuses = 0;
    half_drain(&fix.owner);
    assert_true(notes->note[1].announced && !notes->note[2].announced);
    assert_int_equal(notes_check(fix.first, fix.next), 1);
    memcpy(fix.first, fix.next, sizeof fix.first);
    fixture_close(&fix);
}

/* ---- a half that is slow ---- */

static void be_slow(void)
{
    struct half joined;

    CHECK(half_take_over(&joined) == 0);
    stage_set(1);
    for (;;)
        pause();
}

static void a_living_peer_is_not_taken_for_dead(UNUSED void **state)
{
    static struct fixture fix;
    pid_t child;

    fixture_open(&fix);
    half_hand_over(&fix.owner);
    child = start(be_slow);
    stage_await(1);
    sender_send(&fix, 1);
    assert_int_equal(transport_take_back(fix.owner.t), -EBUSY);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(transport_take_back(fix.owner.t), -EBUSY);
    kill_unreaped(child);
    half_take_back(&fix.owner);
    reap(child);
    fix.kills = 0; /* the killed half never looked */
    fixture_check(&fix);
    fixture_close(&fix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NOTES_TEST(nothing_is_lost_by_a_kill),
        NOTES_TEST(nothing_is_lost_wherever_poll_is_killed),
        NOTES_TEST(nothing_is_lost_wherever_join_is_killed),
        NOTES_TEST(a_slot_that_was_being_cleared_is_cleared_again),
        NOTES_TEST(a_repeat_stays_one_until_it_is_taken),
        NOTES_TEST(a_living_peer_is_not_taken_for_dead),
    };

    if (argc == 2 && strcmp(argv[1], "--long") == 0) {
        each_instruction = true;
        random_kills = 5000;
    } else if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: split_kill_test [--long]\n"
               "  --long  5000 random kills, and one at each instruction of poll\n");
        return 0;
    } else if (argc != 1) {
        fprintf(stderr, "split_kill_test: what is %s? usage: split_kill_test [--long]\n",
                argv[1]);
        return 2;
    }
    return cmocka_run_group_tests(tests, set_up_all_notes, tear_down_all_notes);
}
