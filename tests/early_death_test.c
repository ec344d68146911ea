/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early_death_test.c - a process dies while a receive is told, or written into, in advance.
 *
 * A receiver and a sender as processes of their own, one of which kills itself at a step that
 * MBX_FAULT_DIE names:
 *
 *   early    the receiver, when it has told the sender of a receive
 *   lock     the sender, when it has taken the word of the receive: nobody has been told
 *   write    the sender, when it has told of the message: nothing of it is written, or all
 *
 * The other one must come to an end: its request fails with -ENOTCONN, or succeeds with the
 * right content; and no buffer changes after its receive has ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "world.h"

#define SIZE       ((size_t)200000)
#define TIMEOUT_NS ((int64_t)8 * 1000 * 1000 * 1000)
#define POISON     0x77

/* Shared by both, before the fork. */
struct board {
    struct mbx_address addresses[2];
    _Atomic int open;
};

struct scene {
    const char *step, *chunk;
    int victim; /* 0 receives, 1 sends */
};

/* In a child: an assertion that fails is its exit code. */
#define MUST(condition, code)                                                                  \
    do                                                                                         \
        if (!(condition))                                                                      \
            _exit(code);                                                                       \
    while (0)

static unsigned char content(size_t at)
{
    return (unsigned char)(at % 251);
}

static struct mbx_ep *join(const struct scene *scene, struct board *board, int rank)
{
    char die[32], chunk[32];
    const char *params[] = {"TRANSPORT=shm", "EARLY_RECV=always", die, chunk, NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;
    uint32_t number;

    snprintf(die, sizeof die, "FAULT_DIE=%s", rank == scene->victim ? scene->step : "never");
    snprintf(chunk, sizeof chunk, "READ_CHUNK=%s", scene->chunk);
    MUST(mbx_open(&config, &ep) == 0, 10);
    MUST(mbx_address_get(ep, &board->addresses[rank]) == 0, 11);
    board->open++;
    while (board->open < 2)
        usleep(100);
    for (int i = 0; i < 2; i++)
        MUST(mbx_peer_add(ep, &board->addresses[i], &number) == 0 && number == (uint32_t)i, 12);
    return ep;
}

/* Until an empty message of the other one has come, which stands behind all else, or it is
 * dead. */
static void await_signal(struct mbx_ep *ep, uint32_t from)
{
    mbx_request recv;
    struct mbx_completion done;

    MUST(mbx_recv(ep, from, 2, 0, 0, NULL, 0, NULL, &recv) == 0, 13);
    MUST(mbx_wait(ep, recv, TIMEOUT_NS, &done) == 0, 14);
}

static void be_sender(const struct scene *scene, struct board *board)
{
    static unsigned char buf[SIZE];
    struct mbx_ep *ep = join(scene, board, 1);
    struct mbx_completion done;
    mbx_request sent;

    for (size_t i = 0; i < SIZE; i++)
        buf[i] = content(i);
    MUST(mbx_inject(ep, 0, 2, 0, NULL, 0, 0) == 0, 23);
    await_signal(ep, 0);
    MUST(mbx_send(ep, 0, 1, 5, buf, SIZE, NULL, &sent) == 0, 20);
    MUST(mbx_wait(ep, sent, TIMEOUT_NS, &done) == 0, 21);
    MUST(done.error == 0 ||
             (scene->victim == 0 && (done.error == -ENOTCONN || done.error == -EHOSTUNREACH)),
         22);
    mbx_close(ep);
    _exit(0);
}

static void be_receiver(const struct scene *scene, struct board *board)
{
    static unsigned char buf[SIZE], after[SIZE];
    struct mbx_ep *ep = join(scene, board, 0);
    struct mbx_completion done;
    mbx_request recv;

    memset(after, POISON, sizeof after);
    await_signal(ep, 1); /* so that nothing of it is under way */
    MUST(mbx_recv(ep, 1, 1, 5, 0, buf, SIZE, NULL, &recv) == 0, 30);
    MUST(mbx_inject(ep, 1, 2, 0, NULL, 0, 0) == 0, 31);
    MUST(mbx_wait(ep, recv, TIMEOUT_NS, &done) == 0, 32);
    if (done.error == 0) {
        for (size_t i = 0; i < SIZE; i++)
            MUST(buf[i] == content(i), 33);
    } else {
        MUST(done.error == -ENOTCONN && done.status.source == 1 && scene->victim == 1, 34);
    }
    memset(buf, POISON, sizeof buf);
    for (int i = 0; i < 1000; i++)
        mbx_progress(ep);
    MUST(memcmp(buf, after, sizeof buf) == 0, 35);
    mbx_close(ep);
    _exit(0);
}

static void play(const char *step, const char *chunk, int victim)
{
    const struct scene scene = {step, chunk, victim};
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[2];

    assert_true(board != MAP_FAILED);
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0 && rank == 0)
            be_receiver(&scene, board);
        if (pids[rank] == 0)
            be_sender(&scene, board);
    }
    for (int rank = 0; rank < 2; rank++) {
        int status;
        bool has_died;

        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        has_died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (has_died != (rank == victim) || (!has_died && status != 0))
            fail_msg("%s dies at %s, chunks of %s: rank %d ends with %x",
                     victim == 0 ? "receiver" : "sender", step, chunk, rank, (unsigned)status);
    }
    munmap(board, sizeof *board);
}

static void the_receiver_dies(void **state)
{
    (void)state;
    play("early", "1M", 0);
}

static void the_sender_dies_with_the_word(void **state)
{
    (void)state;
    play("lock", "1M", 1);
    play("lock", "4K", 1);
}

static void the_sender_dies_when_it_has_told(void **state)
{
    (void)state;
    play("write", "1M", 1);
    play("write", "4K", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_receiver_dies),
        cmocka_unit_test(the_sender_dies_with_the_word),
        cmocka_unit_test(the_sender_dies_when_it_has_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
