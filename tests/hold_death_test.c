/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hold_death_test.c - a process dies at each step of messages that wait at their sender.
 *
 * A receiver and two senders without any window, as processes of their own.  One of them kills
 * itself at a step that MBX_FAULT_DIE names.  The others must come to an end, in time:
 *
 *   every request completes, with success or -ENOTCONN (a receive for which nothing is left may
 *   also remain, and is cancelled); what succeeds has its content; what comes from the sender
 * that lives is there in full; and no buffer changes after its receive has ended.
 *
 * The steps and victims that cannot meet (a receiver never locks) are left out; one that could
 * and did not is a failure, or the test would test nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "world.h"

#define RANKS          3 /* 0 receives */
#define MESSAGES       4 /* of each sender */
#define SIZE_MAX_BYTES 200000
#define TIMEOUT_NS     ((int64_t)8 * 1000 * 1000 * 1000)
#define POISON         0x77
#define GAVE_UP        77

/* Shared by all, before the fork. */
struct board {
    struct mbx_address addresses[RANKS];
    _Atomic int open, done;
};

struct scene {
    const char *mode; /* of MBX_ANY_SOURCE */
    const char *take; /* of MBX_HOLD_TAKE */
    const char *step;
    int victim;
    size_t size;
};

static unsigned char content(int rank, int message, size_t at)
{
    return (unsigned char)(rank * 31 + message * 7 + (int)(at % 251));
}

static void fill(unsigned char *buf, int rank, int message, size_t size)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = content(rank, message, i);
}

/* In a child: an assertion that fails is its exit code. */
#define MUST(condition, code)                                                                  \
    do                                                                                         \
        if (!(condition))                                                                      \
            _exit(code);                                                                       \
    while (0)

static struct mbx_ep *join(const struct scene *scene, struct board *board, int rank)
{
    char any[64], take[64], die[64];
    const char *params[] = {"TRANSPORT=shm", "WINDOW=0", any, take, die, NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;
    uint32_t number;

    snprintf(any, sizeof any, "ANY_SOURCE=%s", scene->mode);
    snprintf(take, sizeof take, "HOLD_TAKE=%s", scene->take);
    snprintf(die, sizeof die, "FAULT_DIE=%s", rank == scene->victim ? scene->step : "never");
    MUST(mbx_open(&config, &ep) == 0, 10);
    MUST(mbx_address_get(ep, &board->addresses[rank]) == 0, 11);
    board->open++;
    while (board->open < RANKS)
        usleep(100);
    for (int i = 0; i < RANKS; i++)
        MUST(mbx_peer_add(ep, &board->addresses[i], &number) == 0 && number == (uint32_t)i, 12);
    return ep;
}

static void send_all(const struct scene *scene, struct board *board, int rank)
{
    static unsigned char bufs[MESSAGES][SIZE_MAX_BYTES];
    struct mbx_ep *ep = join(scene, board, rank);
    mbx_request requests[MESSAGES];
    struct mbx_completion done;

    for (int i = 0; i < MESSAGES; i++) {
        fill(bufs[i], rank, i, scene->size);
        MUST(mbx_send(ep, 0, 1, (uint64_t)i, bufs[i], scene->size, NULL, &requests[i]) == 0,
             20);
    }
    for (int i = 0; i < MESSAGES; i++) {
        MUST(mbx_wait(ep, requests[i], TIMEOUT_NS, &done) == 0, 21);
        MUST(done.error == 0 || ((scene->victim == 0 || scene->victim == rank) &&
                                 (done.error == -ENOTCONN || done.error == -EHOSTUNREACH)),
             22);
    }
    board->done++;
    mbx_close(ep);
    _exit(0);
}

static bool is_whole(const unsigned char *buf, const struct mbx_completion *done)
{
    for (size_t i = 0; i < done->received; i++)
        if (buf[i] != content((int)done->status.source, (int)done->status.tag, i))
            return false;
    return true;
}

static void receive_all(const struct scene *scene, struct board *board)
{
    static unsigned char bufs[2 * MESSAGES][SIZE_MAX_BYTES], after[SIZE_MAX_BYTES];
    struct mbx_ep *ep = join(scene, board, 0);
    mbx_request requests[2 * MESSAGES];
    bool is_poisoned[2 * MESSAGES] = {false};
    int from[RANKS] = {0};
    bool gave_up = false; /* a receive from the victim alone */
    struct mbx_completion done;

    memset(after, POISON, sizeof after);
    for (int i = 0; i < 2 * MESSAGES; i++) {
        /* the first ones from anybody, then one from each in turn */
        uint32_t source = i < MESSAGES ? MBX_ANY_SOURCE : 1 + (uint32_t)i % 2;

        MUST(mbx_recv(ep, source, 1, 0, MBX_ANY_TAG, bufs[i], scene->size, NULL,
                      &requests[i]) == 0,
             30);
    }
    for (int i = 0; i < 2 * MESSAGES; i++) {
        int err = mbx_wait(ep, requests[i], TIMEOUT_NS / 8, &done);

        if (err == -EHOSTDOWN) /* told once */
            err = mbx_wait(ep, requests[i], TIMEOUT_NS / 8, &done);
        if (err == -ETIMEDOUT) {
            gave_up |= i >= MESSAGES && 1 + i % 2 == scene->victim;
            mbx_cancel(ep, requests[i]); /* others have taken what there was */
            err = mbx_wait(ep, requests[i], TIMEOUT_NS, &done);
            MUST(err == 0 && done.error == -ECANCELED, 31);
            continue;
        }
        MUST(err == 0, 32);
        MUST(done.error == 0 || done.error == -ENOTCONN, 33);
        MUST(done.error == 0 || done.status.source == (uint32_t)scene->victim, 34);
        if (done.error == 0) {
            MUST(is_whole(bufs[i], &done), 35);
            from[done.status.source]++;
        } else {
            memset(bufs[i], POISON, scene->size);
            is_poisoned[i] = true;
        }
    }
    for (int i = 0; i < 100; i++)
        mbx_progress(ep);
    for (int i = 0; i < 2 * MESSAGES; i++)
        MUST(!is_poisoned[i] || memcmp(bufs[i], after, scene->size) == 0, 36);
    /* the receives from anybody and those from who lives suffice for what it sends */
    for (int rank = 1; rank < RANKS; rank++)
        MUST(rank == scene->victim || from[rank] >= MESSAGES / 2, 37);
    /* what is left of who lives */
    for (int rank = 1; rank < RANKS; rank++)
        while (rank != scene->victim && from[rank] < MESSAGES) {
            MUST(mbx_recv(ep, (uint32_t)rank, 1, 0, MBX_ANY_TAG, bufs[0], scene->size, NULL,
                          &requests[0]) == 0 &&
                     mbx_wait(ep, requests[0], TIMEOUT_NS, &done) == 0 && done.error == 0,
                 38);
            from[rank]++;
        }
    mbx_close(ep);
    _exit(gave_up ? GAVE_UP : 0);
}

/* One scene.  False: nobody died. */
static bool play(const struct scene *scene)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[RANKS];
    bool died = false, gave_up = false;

    assert_true(board != MAP_FAILED);
    for (int rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0) {
            if (rank == 0)
                receive_all(scene, board);
            send_all(scene, board, rank);
        }
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status;

        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        gave_up |= WIFEXITED(status) && WEXITSTATUS(status) == GAVE_UP;
        if (WIFSIGNALED(status) && rank == scene->victim && WTERMSIG(status) == SIGKILL)
            died = true;
        else if (!WIFEXITED(status) ||
                 (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != GAVE_UP))
            fail_msg("%s, take %s, %s at %s, %zu bytes: rank %d ends with %x", scene->mode,
                     scene->take, scene->victim == 0 ? "receiver" : "sender", scene->step,
                     scene->size, rank, (unsigned)status);
    }
    munmap(board, sizeof *board);
    if (died && gave_up)
        fail_msg("%s, %s at %s: a receive from the dead waits for ever", scene->mode,
                 scene->victim == 0 ? "receiver" : "sender", scene->step);
    return died;
}

/* Until somebody dies there. */
static void play_until(const struct scene *scene)
{
    bool died = false;

    for (int round = 0; round < 20 && !died; round++)
        died = play(scene);
    if (!died)
        fail_msg("%s, take %s: nobody died at %s", scene->mode, scene->take, scene->step);
}

static void play_steps(const char *mode, int victim, const char *const *steps)
{
    static const size_t sizes[] = {8, SIZE_MAX_BYTES};

    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        for (int step = 0; steps[step] != NULL; step++)
            play_until(&(struct scene){mode, "no", steps[step], victim, sizes[i]});
}

static void a_sender_dies_in_claims(void **state)
{
    (void)state;
    play_steps("window", 1, (const char *const[]){"match", "lost", "grant", NULL});
}

static void a_sender_dies_with_words(void **state)
{
    (void)state;
    play_steps("sender", 1, (const char *const[]){"match", "lock", "lost", NULL});
}

/* With its table busy, and knowing that something was taken. */
static void a_sender_dies_with_a_table(void **state)
{
    (void)state;
    play_until(&(struct scene){"window", "yes", "offer", 1, 8});
    play_until(&(struct scene){"window", "yes", "given", 1, SIZE_MAX_BYTES});
}

static void the_receiver_dies(void **state)
{
    (void)state;
    play_steps("window", 0, (const char *const[]){"hold", "rtr", "retire", NULL});
    play_until(&(struct scene){"window", "yes", "pick", 0, 8});
    play_until(&(struct scene){"window", "yes", "pick", 0, SIZE_MAX_BYTES});
    play_steps("sender", 0, (const char *const[]){"hold", "rtr", "retire", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_dies_in_claims),
        cmocka_unit_test(a_sender_dies_with_words),
        cmocka_unit_test(a_sender_dies_with_a_table),
        cmocka_unit_test(the_receiver_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
