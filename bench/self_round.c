/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how many instructions does a message of 8 bytes cost, from the posting of its
 *            receive to the end of both requests, and which functions spend them?
 * Method     one endpoint is its own peer over shared memory: {post, send, wait for the
 *            receive, wait for the send}, ROUNDS times, all in round_trips().  It is linked
 *            with the shared library, as a user's program is, so the compiler cannot optimise
 *            calls for constant arguments.  On a shared machine a clock is unreliable;
 *            instructions can be counted exactly:
 *
 *              valgrind --tool=callgrind --toggle-collect=round_trips ./self_round
 *
 *            divided by ROUNDS, in the build of ./dev build; callgrind_annotate splits it by
 *            function.  With "unexpected" each message arrives before its receive is posted.  With
 *            "there" 16 messages arrive, and mbx_try_recv() receives each; only these calls are in
 *            receives_there().
 *            MBX_TRANSPORT=shm+ofi also opens a network, which carries nothing.
 *
 *   self_round [expected|unexpected|there] [ROUNDS]
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <matchbox/matchbox.h>

#define ROUNDS 10000
#define THERE  16

void receives_there(struct mbx_ep *ep, uint32_t self, uint64_t *in);
void round_trips(struct mbx_ep *ep, uint32_t self, uint64_t rounds, bool is_unexpected);

static void require(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "self_round: %s: %s\n", what, mbx_strerror(result));
    exit(1);
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void open_self(struct mbx_ep **ep, uint32_t *self)
{
    struct mbx_address address;

    require(mbx_open(NULL, ep), "mbx_open");
    require(mbx_address_get(*ep, &address), "mbx_address_get");
    require(mbx_peer_add(*ep, &address, self), "mbx_peer_add");
}

/* A separate function with external linkage, because callgrind selects functions by name. */
__attribute__((noinline)) void round_trips(struct mbx_ep *ep, uint32_t self, uint64_t rounds,
                                           bool is_unexpected)
{
    mbx_request sent, received;
    uint64_t in = 0, out;

    for (uint64_t i = 0; i < rounds; i++) {
        out = i;
        if (!is_unexpected)
            require(mbx_recv(ep, self, 0, 1, 0, &in, sizeof in, NULL, &received), "mbx_recv");
        require(mbx_send(ep, self, 0, 1, &out, sizeof out, NULL, &sent), "mbx_send");
        if (is_unexpected) {
            mbx_progress(ep);
            require(mbx_recv(ep, self, 0, 1, 0, &in, sizeof in, NULL, &received), "mbx_recv");
        }
        require(mbx_wait(ep, received, -1, NULL), "mbx_wait of the receive");
        require(mbx_wait(ep, sent, -1, NULL), "mbx_wait of the send");
        require(in == out ? 0 : -EBADMSG, "the content of a message");
    }
}

__attribute__((noinline)) void receives_there(struct mbx_ep *ep, uint32_t self, uint64_t *in)
{
    for (uint64_t i = 0; i < THERE; i++) {
        struct mbx_status status;

        if (mbx_try_recv(ep, self, 0, 2 + i, 0, &in[i], sizeof in[i], &status) != 1)
            require(-EBADMSG, "mbx_try_recv");
    }
}

/* Receives messages that have arrived, until `rounds` were received. */
static void make_there(struct mbx_ep *ep, uint32_t self, uint64_t rounds)
{
    for (uint64_t done = 0; done < rounds; done += THERE) {
        uint64_t in[THERE];

        for (uint64_t i = 0, out; i < THERE; i++) {
            out = done + i;
            require(mbx_inject(ep, self, 0, 2 + i, &out, sizeof out, 0), "mbx_inject");
        }
        while (mbx_progress(ep) > 0)
            continue;
        receives_there(ep, self, in);
        for (uint64_t i = 0; i < THERE; i++)
            require(in[i] == done + i ? 0 : -EBADMSG, "the content of a message");
    }
}

int main(int argc, char **argv)
{
    bool is_unexpected = argc > 1 && strcmp(argv[1], "unexpected") == 0;
    bool is_there = argc > 1 && strcmp(argv[1], "there") == 0;
    char *end = NULL;
    uint64_t rounds = argc > 2 ? strtoull(argv[2], &end, 10) : ROUNDS;
    struct mbx_ep *ep;
    uint32_t self;
    double start;

    if (argc > 3 || rounds == 0 || (end != NULL && *end != '\0') ||
        (argc > 1 && !is_unexpected && !is_there && strcmp(argv[1], "expected") != 0)) {
        bool is_asked = argc == 2 && strcmp(argv[1], "--help") == 0;

        if (!is_asked)
            fprintf(stderr, "self_round: wrong argument '%s'\n", argv[argc > 3 ? 3 : argc - 1]);
        fprintf(is_asked ? stdout : stderr,
                "usage: self_round [expected|unexpected|there] [ROUNDS]\n");
        return is_asked ? 0 : 2;
    }
    open_self(&ep, &self);
    start = now_ns();
    if (is_there)
        make_there(ep, self, rounds);
    else
        round_trips(ep, self, rounds, is_unexpected);
    printf("bench=self_round messages=%s rounds=%llu round_ns=%.1f\n",
           is_there        ? "there"
           : is_unexpected ? "unexpected"
                           : "expected",
           (unsigned long long)rounds, (now_ns() - start) / (double)rounds);
    require(mbx_close(ep), "mbx_close");
    return 0;
}
