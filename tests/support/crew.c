/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew.c - forking, meeting, and ending.
 */
#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "core/core.h"

void crew_start(struct crew *crew, int count, crew_fn *fn, const void *arg)
{
    *crew = (struct crew){.count = count, .left = count};
    crew->board = mmap(NULL, sizeof *crew->board, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(crew->board != MAP_FAILED);
    fflush(NULL);
    for (int rank = 0; rank < count; rank++) {
        crew->pids[rank] = fork();
        assert_true(crew->pids[rank] >= 0);
        if (crew->pids[rank] == 0) {
            fn(crew, rank, arg);
            _exit(0);
        }
    }
}

/* In the order in which they end: the others learn of it. */
void crew_wait(struct crew *crew)
{
    while (crew->left > 0) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        assert_true(pid > 0 || errno == EINTR);
        if (pid < 0)
            continue;
        for (int rank = 0; rank < crew->count; rank++)
            if (crew->pids[rank] == pid)
                crew->statuses[rank] = status;
        crew->board->ended++;
        crew->left--;
    }
}

void crew_end(struct crew *crew)
{
    crew_wait(crew);
    munmap(crew->board, sizeof *crew->board);
    crew->board = NULL;
}

bool crew_was_killed(const struct crew *crew, int rank)
{
    return WIFSIGNALED(crew->statuses[rank]) && WTERMSIG(crew->statuses[rank]) == SIGKILL;
}

/* ---- in a child ---- */

/* Lets others run. */
static void crew_nap(void)
{
    const struct timespec nap = {.tv_nsec = 50000};

    nanosleep(&nap, NULL);
}

struct mbx_ep *crew_open(struct crew *crew, int rank, const char *const *params)
{
    /* what closes waits for others, which may be slow; the last one of a name counts */
    const char *all[CREW_PARAMS + 1] = {"CLOSE_TIMEOUT=60s"};
    const struct mbx_config config = {.params = all};
    struct crew_board *board = crew->board;
    struct mbx_ep *ep;
    uint32_t number;

    for (int i = 0; params[i] != NULL; i++) {
        MUST(i + 1 < CREW_PARAMS, 9);
        all[i + 1] = params[i];
    }
    MUST(mbx_open(&config, &ep) == 0, 10);
    MUST(mbx_address_get(ep, &board->addresses[rank]) == 0, 11);
    board->open++;
    while (board->open < crew->count)
        crew_nap();
    for (int i = 0; i < crew->count; i++)
        MUST(mbx_peer_add(ep, &board->addresses[i], &number) == 0 && number == (uint32_t)i, 12);
    return ep;
}

void crew_await(struct crew *crew, struct mbx_ep *ep, int word, int value)
{
    while (crew->board->words[word] < value && crew->board->ended == 0)
        if (ep == NULL || mbx_progress(ep) == 0)
            crew_nap();
}

static int crew_finish(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;

    MUST(mbx_wait(ep, request, CREW_WAIT_NS, &done) == 0, 13);
    return done.error;
}

int crew_signal(struct mbx_ep *ep, uint32_t to, uint32_t context_id)
{
    mbx_request request;

    MUST(mbx_send(ep, to, context_id, 0, NULL, 0, NULL, &request) == 0, 14);
    return crew_finish(ep, request);
}

int crew_hear(struct mbx_ep *ep, uint32_t from, uint32_t context_id)
{
    mbx_request request;

    MUST(mbx_recv(ep, from, context_id, 0, 0, NULL, 0, NULL, &request) == 0, 15);
    return crew_finish(ep, request);
}

/* What is owed to who is dead goes when somebody looks. */
static void crew_settle(struct mbx_ep *ep)
{
    uint64_t until_ns = clock_now() + (uint64_t)CREW_WAIT_NS;
    struct stats stats;

    do {
        MUST(clock_now() < until_ns, 16);
        if (mbx_progress(ep) == 0)
            crew_nap();
        stats_read(ep, &stats);
    } while (stats.requests_now != 0);
}

void crew_close(struct mbx_ep *ep)
{
    crew_settle(ep);
    MUST(mbx_close(ep) == 0, 17);
    MUST(mem_live() == 0, 18);
    MUST(sys_maps_live() == 0 && sys_fds_live() == 0, 19);
}
