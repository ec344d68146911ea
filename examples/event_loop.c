/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_loop.c - an endpoint together with other descriptors, in one loop with epoll(7).
 *
 * Each rank sends a message to the next one at every tick of a timer, and prints the messages that
 * it gets.  In between it sleeps until the next tick or message.
 *
 * Run:  mbx run -n 3 ./event_loop
 */
#include <matchbox/matchbox.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { CONTEXT = 1, TICK = 1 };

#define TICKS   5
#define TICK_NS (20 * 1000 * 1000)

struct loop {
    struct mbx_ep *ep;
    uint32_t rank, next;
    int epoll, timer, matchbox;
    int ticks;          /* started sends */
    int sent, received; /* completed ones: TICKS each */
    int numbers[TICKS]; /* to be sent */
    int got;            /* by the posted receive */
};

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "event_loop: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

static void must_errno(int result, const char *what)
{
    must(result < 0 ? -errno : 0, what);
}

/* ---- events ---- */

static void post(struct loop *l)
{
    must(mbx_recv(l->ep, MBX_ANY_SOURCE, CONTEXT, TICK, 0, &l->got, sizeof l->got, NULL, NULL),
         "mbx_recv");
}

static void serve_completion(struct loop *l, const struct mbx_completion *done)
{
    must(done->error, "a message");
    if (done->kind == MBX_SENDS) {
        l->sent++;
        return;
    }
    printf("rank %u: tick %d of rank %u\n", l->rank, l->got, done->status.source);
    if (++l->received < TICKS)
        post(l);
}

/* Handles everything that has come; returns when nothing is left to do. */
static void serve_matchbox(struct loop *l)
{
    const unsigned queues = MBX_SENDS | MBX_RECVS;
    struct mbx_completion done;

    while (mbx_progress(l->ep) > 0 || mbx_ready(l->ep, queues))
        while (mbx_poll(l->ep, queues, &done, 1) == 1)
            serve_completion(l, &done);
}

static void serve_timer(struct loop *l)
{
    uint64_t ticks;

    must_errno((int)read(l->timer, &ticks, sizeof ticks), "read");
    for (; ticks > 0 && l->ticks < TICKS; ticks--, l->ticks++) {
        int *number = &l->numbers[l->ticks];

        *number = l->ticks;
        must(mbx_send(l->ep, l->next, CONTEXT, TICK, number, sizeof *number, NULL, NULL),
             "mbx_send");
    }
}

/* ---- the loop ---- */

static void watch(struct loop *l, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

    must_errno(epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void run(struct loop *l)
{
    struct epoll_event events[2];
    int count;

    while (l->sent < TICKS || l->received < TICKS) {
        serve_matchbox(l);
        if (mbx_arm(l->ep) != 0) /* something has come in the meantime */
            continue;
        count = epoll_wait(l->epoll, events, 2, -1);
        if (count < 0 && errno != EINTR)
            must_errno(count, "epoll_wait");
        for (int i = 0; i < count; i++)
            if (events[i].data.fd == l->timer)
                serve_timer(l);
    }
}

static void open_loop(struct loop *l)
{
    const struct itimerspec ticks = {.it_interval = {.tv_nsec = TICK_NS},
                                     .it_value = {.tv_nsec = TICK_NS}};

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    must_errno(l->epoll, "epoll_create1");
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    must_errno(l->timer, "timerfd_create");
    must_errno(timerfd_settime(l->timer, 0, &ticks, NULL), "timerfd_settime");
    l->matchbox = mbx_fd(l->ep);
    must(l->matchbox, "mbx_fd");
    watch(l, l->timer);
    watch(l, l->matchbox);
}

int main(void)
{
    struct mbx_config config = {.params = NULL};
    struct loop loop = {.sent = 0};
    struct mbx_job *job;

    must(mbx_job_open(&job), "mbx_job_open");
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &loop.ep), "mbx_open");
    must(mbx_job_connect(job, loop.ep), "mbx_job_connect");
    loop.rank = mbx_job_rank(job);
    loop.next = (loop.rank + 1) % mbx_job_size(job);
    open_loop(&loop);
    post(&loop);
    run(&loop);
    must(mbx_job_fence(job), "mbx_job_fence");
    close(loop.timer);
    close(loop.epoll);
    mbx_close(loop.ep);
    mbx_job_close(job);
    return 0;
}
