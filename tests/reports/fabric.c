/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - cases with the right answers to public reports of libfabric's providers: queues,
 * wait objects, cancel, buffers for many messages, truncation, probes, addresses.  Two
 * endpoints of one process exchange messages.
 *
 *   fabric [--provider NAME] [CASE...]    all cases, or these; the default of NAME is matchbox
 *   fabric --list                         names of the cases and numbers of the public reports
 *
 * The sections have the names of libfabric's manual pages.  The program prints "right CASE" for
 * each case, "skipped CASE" if the provider does not support it; a wrong answer gives one line
 * and status 1.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "../../src/base/patience.h"

#define LONG     200000
#define CONTEXTS 5000

struct fabric_case {
    const char *name, *reports;
    void (*run)(void);
};

struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *sends;
    char address[256];
    size_t address_size;
    fi_addr_t peer; /* in av */
};

struct setup {
    enum fi_wait_obj wait;
    uint64_t bind_flags;
    size_t cq_size;
    size_t min_multi_recv;
    uint64_t caps;
};

static const char *provider = "matchbox";
static const struct fabric_case *now;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct side side[2];
static struct fi_context2 context[CONTEXTS];
static char out[LONG], in[LONG];

static void wrong_at(long long got, long long want, const char *what, int line)
{
    if (got == want)
        return;
    fprintf(stderr, "wrong: %s (%s), line %d: %s: got %lld, want %lld\n", now->name,
            now->reports, line, what, got, want);
    exit(1);
}

#define EXPECT_EQUAL(got, want) wrong_at((long long)(got), (long long)(want), #got, __LINE__)
#define EXPECT(condition)       wrong_at((condition) ? 1 : 0, 1, #condition, __LINE__)

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(char *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        buf[i] = (char)(i * 131 + (i >> 8) * 17 + seed * 29 + 7);
}

static size_t filled(const char *buf, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (buf[i] != (char)(i * 131 + (i >> 8) * 17 + seed * 29 + 7))
            return i;
    return size;
}

/* ---- two endpoints ------------------------------------------------------------------ */

static void open_side(struct side *s, const struct setup *setup)
{
    struct fi_cq_attr cq = {
        .format = FI_CQ_FORMAT_TAGGED, .wait_obj = setup->wait, .size = setup->cq_size};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};

    EXPECT_EQUAL(fi_endpoint(domain, info, &s->ep, NULL), 0);
    EXPECT_EQUAL(fi_av_open(domain, &av, &s->av, NULL), 0);
    EXPECT_EQUAL(fi_cq_open(domain, &cq, &s->cq, NULL), 0);
    EXPECT_EQUAL(fi_cntr_open(domain, &cntr, &s->sends, NULL), 0);
    EXPECT_EQUAL(fi_ep_bind(s->ep, &s->av->fid, 0), 0);
    EXPECT_EQUAL(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV | setup->bind_flags), 0);
    EXPECT_EQUAL(fi_ep_bind(s->ep, &s->sends->fid, FI_SEND), 0);
    if (setup->min_multi_recv != 0)
        EXPECT_EQUAL(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
                               &setup->min_multi_recv, sizeof setup->min_multi_recv),
                     0);
    EXPECT_EQUAL(fi_enable(s->ep), 0);
    s->address_size = sizeof s->address;
    EXPECT_EQUAL(fi_getname(&s->ep->fid, s->address, &s->address_size), 0);
}

/* False: the provider does not support it. */
static bool open_both(const struct setup *setup)
{
    struct fi_info *hints = fi_allocinfo();
    int err;

    hints->caps = FI_TAGGED | FI_MSG | setup->caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(provider);
    err = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info);
    fi_freeinfo(hints);
    if (err == -FI_ENODATA) {
        printf("skipped %s\n", now->name);
        return false;
    }
    EXPECT_EQUAL(err, 0);
    EXPECT_EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    EXPECT_EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
    for (int i = 0; i < 2; i++)
        open_side(&side[i], setup);
    for (int i = 0; i < 2; i++)
        EXPECT_EQUAL(fi_av_insert(side[i].av, side[1 - i].address, 1, &side[i].peer, 0, NULL),
                     1);
    return true;
}

static void close_both(void)
{
    for (int i = 0; i < 2; i++) {
        EXPECT_EQUAL(fi_close(&side[i].ep->fid), 0);
        EXPECT_EQUAL(fi_close(&side[i].sends->fid), 0);
        EXPECT_EQUAL(fi_close(&side[i].cq->fid), 0);
        EXPECT_EQUAL(fi_close(&side[i].av->fid), 0);
    }
    EXPECT_EQUAL(fi_close(&domain->fid), 0);
    EXPECT_EQUAL(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    printf("right %s\n", now->name);
}

static void progress(void)
{
    for (int i = 0; i < 2; i++)
        fi_cq_read(side[i].cq, NULL, 0);
}

/* Returns the next completion of a side, or -FI_EAVAIL. */
static ssize_t next(int i, struct fi_cq_tagged_entry *entry)
{
    double end = seconds() + PATIENCE_S;
    ssize_t n;

    do {
        progress();
        n = fi_cq_read(side[i].cq, entry, 1);
    } while (n == -FI_EAGAIN && seconds() < end);
    return n;
}

static struct fi_cq_tagged_entry expect_next(int i, void *of)
{
    struct fi_cq_tagged_entry entry = {0};

    EXPECT_EQUAL(next(i, &entry), 1);
    EXPECT(entry.op_context == of);
    return entry;
}

static struct fi_cq_err_entry expect_error(int i, int err)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;

    EXPECT_EQUAL(next(i, &entry), -FI_EAVAIL);
    EXPECT_EQUAL(fi_cq_readerr(side[i].cq, &error, 0), 1);
    EXPECT_EQUAL(error.err, err);
    return error;
}

static void expect_quiet(int i)
{
    struct fi_cq_tagged_entry entry;

    for (int n = 0; n < 200; n++) {
        progress();
        EXPECT_EQUAL(fi_cq_read(side[i].cq, &entry, 1), -FI_EAGAIN);
    }
}

/* Repeats the call until it is accepted. */
#define POST(call)                                                                             \
    do {                                                                                       \
        double end_ = seconds() + PATIENCE_S;                                                  \
        ssize_t err_;                                                                          \
        while ((err_ = (call)) == -FI_EAGAIN && seconds() < end_)                              \
            progress();                                                                        \
        EXPECT_EQUAL(err_, 0);                                                                 \
    } while (0)

static void send_word(uint64_t tag)
{
    POST(fi_tinject(side[0].ep, &tag, sizeof tag, side[0].peer, tag));
}

/* ---- cancel (fi_endpoint) ------------------------------------------------------------ */

/* Repeating the call does not help if there is nothing to cancel, so the answer is not
 * -FI_EAGAIN. */
static void cancel_of_nothing(void)
{
    if (!open_both(&(struct setup){0}))
        return;
    EXPECT(fi_cancel(&side[1].ep->fid, &context[0]) != -FI_EAGAIN);
    expect_quiet(1);
    close_both();
}

/* Each receive has one completion, cancelled or not, whatever fi_cancel() returns, also if it
 * is called twice. */
static void one_completion_of_each(void)
{
    uint64_t word[2] = {0};

    if (!open_both(&(struct setup){0}))
        return;
    for (int i = 0; i < 2; i++)
        POST(fi_trecv(side[1].ep, &word[i], sizeof word[i], NULL, FI_ADDR_UNSPEC, 7, 0,
                      &context[i]));
    fi_cancel(&side[1].ep->fid, &context[0]);
    fi_cancel(&side[1].ep->fid, &context[0]);
    EXPECT(expect_error(1, FI_ECANCELED).op_context == &context[0]);
    expect_quiet(1);
    send_word(7);
    expect_next(1, &context[1]);
    EXPECT_EQUAL(word[1], 7);
    EXPECT(fi_cancel(&side[1].ep->fid, &context[1]) != -FI_EAGAIN);
    expect_quiet(1);
    close_both();
}

/* A cancelled buffer for many messages is returned, with FI_MULTI_RECV, also one that was never
 * used. */
static void cancelled_buffers_come_back(void)
{
    static char many[2][4096];

    if (!open_both(&(struct setup){.caps = FI_MULTI_RECV, .min_multi_recv = 64}))
        return;
    for (int i = 0; i < 2; i++) {
        struct iovec iov = {many[i], sizeof many[i]};
        struct fi_msg msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &context[i]};

        POST(fi_recvmsg(side[1].ep, &msg, FI_MULTI_RECV));
    }
    for (int i = 2; i-- > 0;) {
        struct fi_cq_err_entry error;

        EXPECT_EQUAL(fi_cancel(&side[1].ep->fid, &context[i]), 0);
        error = expect_error(1, FI_ECANCELED);
        EXPECT(error.op_context == &context[i]);
        EXPECT(error.flags & FI_MULTI_RECV);
    }
    expect_quiet(1);
    close_both();
}

/* ---- buffers for many messages (fi_msg, fi_cq) ---------------------------------------- */

static void post_many(char *buf, size_t size, void *of)
{
    struct iovec iov = {buf, size};
    struct fi_msg msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = of};

    POST(fi_recvmsg(side[1].ep, &msg, FI_MULTI_RECV));
}

/* FI_MULTI_RECV reports that the buffer was released: once, when less than the minimum is left
 * in it, which may be nothing. */
static void released_once(void)
{
    enum { SIZE = 64, MESSAGES = 16 };
    static char many[SIZE * MESSAGES];
    struct fi_cq_tagged_entry entry;
    int received = 0, released = 0;

    if (!open_both(&(struct setup){.caps = FI_MULTI_RECV, .min_multi_recv = SIZE}))
        return;
    post_many(many, sizeof many, &context[0]);
    for (int i = 0; i < MESSAGES; i++) {
        fill(out, SIZE, (unsigned)i);
        POST(fi_inject(side[0].ep, out, SIZE, side[0].peer));
    }
    while (received < MESSAGES || released == 0) {
        entry = expect_next(1, &context[0]);
        if (entry.flags & FI_RECV) {
            EXPECT_EQUAL(entry.len, SIZE);
            EXPECT(entry.buf == many + received * SIZE);
            EXPECT_EQUAL(filled(entry.buf, SIZE, (unsigned)received), SIZE);
            received++;
        }
        if (entry.flags & FI_MULTI_RECV) {
            EXPECT_EQUAL(received, MESSAGES);
            released++;
        }
    }
    EXPECT_EQUAL(released, 1);
    expect_quiet(1);
    close_both();
}

/* No message is lost while buffers run out and are posted again. */
static void nothing_lost_between_buffers(void)
{
    enum { MESSAGES = 2000, CAPACITY = 700 };
    static char many[2][CAPACITY];
    struct fi_cq_tagged_entry entry;
    int received = 0;

    if (!open_both(&(struct setup){.caps = FI_MULTI_RECV, .min_multi_recv = 100}))
        return;
    for (int i = 0; i < 2; i++)
        post_many(many[i], CAPACITY, &context[i]);
    for (int sent = 0; received < MESSAGES;) {
        uint64_t words[12] = {(uint64_t)sent};

        if (sent < MESSAGES &&
            fi_inject(side[0].ep, words, sizeof words[0] * (size_t)(1 + sent % 12),
                      side[0].peer) == 0)
            sent++;
        progress();
        while (fi_cq_read(side[1].cq, &entry, 1) == 1) {
            int i = entry.op_context == &context[1];

            EXPECT(entry.op_context == &context[i]);
            if (entry.flags & FI_RECV) {
                uint64_t number;

                memcpy(&number, entry.buf, sizeof number);
                EXPECT_EQUAL(number, received);
                EXPECT_EQUAL(entry.len, sizeof number * (size_t)(1 + received % 12));
                received++;
            }
            if (entry.flags & FI_MULTI_RECV)
                post_many(many[i], CAPACITY, &context[i]);
        }
    }
    close_both();
}

/* ---- queues and wait objects (fi_cq, fi_poll) ------------------------------------------ */

/* fi_cq_sread() of an empty queue returns -FI_EAGAIN when its time is over, not before. */
static void sread_waits_its_time(void)
{
    struct fi_cq_tagged_entry entry;
    double begin;

    if (!open_both(&(struct setup){.wait = FI_WAIT_UNSPEC}))
        return;
    send_word(1); /* a packet has arrived, which is no completion */
    for (int i = 0; i < 3; i++) {
        begin = seconds();
        EXPECT_EQUAL(fi_cq_sread(side[1].cq, &entry, 1, NULL, 30), -FI_EAGAIN);
        EXPECT(seconds() - begin > 0.028);
    }
    POST(fi_trecv(side[1].ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context[0]));
    EXPECT_EQUAL(fi_cq_sread(side[1].cq, &entry, 1, NULL, PATIENCE_MS), 1);
    close_both();
}

static void *signal_it(void *arg)
{
    (void)arg;
    EXPECT_EQUAL(fi_cq_signal(side[1].cq), 0);
    return NULL;
}

/* fi_cq_signal() ends a wait of another thread, and one that begins after it. */
static void signal_ends_a_wait(void)
{
    struct fi_cq_tagged_entry entry;
    pthread_t thread;

    if (!open_both(&(struct setup){.wait = FI_WAIT_UNSPEC}))
        return;
    for (int i = 0; i < 3; i++) {
        double begin = seconds();

        EXPECT_EQUAL(pthread_create(&thread, NULL, signal_it, NULL), 0);
        EXPECT(fi_cq_sread(side[1].cq, &entry, 1, NULL, PATIENCE_MS) < 0);
        EXPECT(seconds() - begin < PATIENCE_S - 1);
        pthread_join(thread, NULL);
    }
    close_both();
}

/* fi_trywait() returns -FI_EAGAIN while a completion is there, and finally 0.  Then the
 * descriptor is not readable until there is something, so that a poll does not return without
 * reason, and readable when a message has arrived. */
static void trywait_lets_wait(void)
{
    struct fi_cq_tagged_entry entry;
    struct fid *fids[1];
    struct pollfd poll_fd = {.events = POLLIN};

    if (!open_both(&(struct setup){.wait = FI_WAIT_FD}))
        return;
    fids[0] = &side[1].cq->fid;
    EXPECT_EQUAL(fi_control(&side[1].cq->fid, FI_GETWAIT, &poll_fd.fd), 0);
    for (int round = 0; round < 5; round++) {
        double end = seconds() + PATIENCE_S;
        int quiet = 0;

        POST(fi_trecv(side[1].ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, &context[round]));
        while (!quiet && seconds() < end) {
            progress();
            quiet = fi_trywait(fabric, fids, 1) == 0 && poll(&poll_fd, 1, 0) == 0;
        }
        EXPECT(quiet);
        send_word(5);
        while (fi_trywait(fabric, fids, 1) == 0) {
            EXPECT(poll(&poll_fd, 1, PATIENCE_MS) == 1);
            if (fi_cq_read(side[1].cq, NULL, 0) != -FI_EAGAIN)
                break;
        }
        fi_cq_read(side[1].cq, NULL, 0);
        EXPECT_EQUAL(fi_trywait(fabric, fids, 1), -FI_EAGAIN);
        EXPECT_EQUAL(fi_cq_read(side[1].cq, &entry, 1), 1);
        EXPECT(entry.op_context == &context[round]);
    }
    close_both();
}

/* fi_cq_read() of several completions writes them in consecutive entries. */
static void several_are_read_at_once(void)
{
    struct fi_cq_tagged_entry entries[16];
    int received = 0;
    ssize_t n;

    if (!open_both(&(struct setup){0}))
        return;
    for (int i = 0; i < 40; i++)
        POST(fi_trecv(side[1].ep, in + 8 * i, 8, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0,
                      &context[i]));
    for (int i = 0; i < 40; i++)
        send_word((uint64_t)i);
    while (received < 40) {
        progress();
        n = fi_cq_read(side[1].cq, entries, 16);
        EXPECT(n == -FI_EAGAIN || (n >= 1 && n <= 16));
        for (ssize_t i = 0; i < n; i++, received++) {
            EXPECT(entries[i].op_context == &context[received]);
            EXPECT_EQUAL(entries[i].tag, received);
        }
    }
    close_both();
}

/* With FI_RM_ENABLED no completion is lost, although the queue was opened for only a few. */
static void small_queues_lose_nothing(void)
{
    enum { MESSAGES = 400 };
    struct fi_cq_tagged_entry entry;
    int sent = 0, received = 0;

    if (!open_both(&(struct setup){.cq_size = 8}))
        return;
    for (int i = 0; i < MESSAGES; i++)
        POST(fi_trecv(side[1].ep, in + 8 * i, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context[i]));
    for (int i = 0; i < MESSAGES; i++)
        POST(fi_tsend(side[0].ep, out, 8, NULL, side[0].peer, 1, &context[MESSAGES + i]));
    while (sent < MESSAGES || received < MESSAGES) {
        for (int i = 0; i < 50; i++)
            progress();
        while (sent < MESSAGES && fi_cq_read(side[0].cq, &entry, 1) == 1)
            EXPECT(entry.op_context >= (void *)&context[MESSAGES] && ++sent <= MESSAGES);
        while (received < MESSAGES && fi_cq_read(side[1].cq, &entry, 1) == 1)
            EXPECT(entry.op_context == &context[received++]);
    }
    expect_quiet(0);
    expect_quiet(1);
    close_both();
}

/* With FI_SELECTIVE_COMPLETION only sends that request it have a completion, also with
 * FI_INJECT; the counter counts all. */
static void completions_by_choice(void)
{
    struct iovec iov = {out, 8};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .tag = 1};
    double end = seconds() + PATIENCE_S;

    if (!open_both(&(struct setup){.bind_flags = FI_SELECTIVE_COMPLETION}))
        return;
    msg.addr = side[0].peer;
    for (int i = 0; i < 8; i++)
        POST(fi_trecv(side[1].ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context[i]));
    for (int i = 0; i < 4; i++) {
        uint64_t flags = (i % 2 == 0 ? 0 : FI_COMPLETION) | (i < 2 ? 0 : FI_INJECT);

        msg.context = &context[100 + i];
        POST(fi_tsendmsg(side[0].ep, &msg, flags));
        if (flags & FI_COMPLETION)
            expect_next(0, &context[100 + i]);
    }
    send_word(1);
    POST(fi_tsend(side[0].ep, out, 8, NULL, side[0].peer, 1, &context[200]));
    while (fi_cntr_read(side[0].sends) < 6 && seconds() < end)
        progress();
    EXPECT_EQUAL(fi_cntr_read(side[0].sends), 6);
    expect_quiet(0);
    for (int i = 0; i < 8; i++)
        fi_cancel(&side[1].ep->fid, &context[i]);
    close_both();
}

/* fi_cntr: fi_cntr_wait() ends with -FI_ETIMEDOUT when its time is over, and with another error when the counter's error
 * value changes meanwhile. */
static atomic_bool has_ended;

static void *add_errors(void *arg)
{
    (void)arg;
    while (!has_ended) {
        EXPECT_EQUAL(fi_cntr_adderr(side[0].sends, 1), 0);
        sched_yield();
    }
    return NULL;
}

static void counters_wait(void)
{
    double begin = seconds();
    pthread_t thread;
    int err;

    if (!open_both(&(struct setup){0}))
        return;
    EXPECT_EQUAL(fi_cntr_wait(side[0].sends, 1, 30), -FI_ETIMEDOUT);
    EXPECT(seconds() - begin > 0.028);
    EXPECT_EQUAL(pthread_create(&thread, NULL, add_errors, NULL), 0);
    err = fi_cntr_wait(side[0].sends, 1, PATIENCE_MS);
    has_ended = true;
    pthread_join(thread, NULL);
    EXPECT(err < 0 && err != -FI_ETIMEDOUT);
    EXPECT(fi_cntr_readerr(side[0].sends) >= 1);
    EXPECT_EQUAL(fi_cntr_read(side[0].sends), 0);
    close_both();
}

/* ---- messages (fi_tagged, fi_msg) ------------------------------------------------------- */

/* A receive that is too short reports FI_ETRUNC and how much is missing; no byte beyond its
 * buffer is written, and the next message is whole. */
static void short_receives(void)
{
    static const size_t sizes[] = {8, 3000, LONG};

    if (!open_both(&(struct setup){0}))
        return;
    for (int round = 0; round < 6; round++) {
        size_t size = sizes[round % 3], capacity = size / 2;
        bool is_early = round < 3; /* the receive is posted first */
        struct fi_cq_err_entry error;
        struct fi_cq_tagged_entry entry;

        fill(out, size, (unsigned)round);
        memset(in, 0x5a, sizeof in);
        if (is_early)
            POST(fi_trecv(side[1].ep, in, capacity, NULL, FI_ADDR_UNSPEC, 3, 0, &context[0]));
        POST(fi_tsend(side[0].ep, out, size, NULL, side[0].peer, 3, &context[10]));
        for (int i = 0; i < 200 && !is_early; i++)
            progress();
        if (!is_early)
            POST(fi_trecv(side[1].ep, in, capacity, NULL, FI_ADDR_UNSPEC, 3, 0, &context[0]));
        error = expect_error(1, FI_ETRUNC);
        EXPECT(error.op_context == &context[0]);
        EXPECT_EQUAL(error.olen, size - capacity);
        EXPECT_EQUAL(error.tag, 3);
        for (size_t i = capacity; i < capacity + 64 && i < LONG; i++)
            EXPECT_EQUAL(in[i], 0x5a);
        while ((next(0, &entry)) == -FI_EAVAIL)
            expect_error(0, FI_ETRUNC); /* a sender may also get the error */
        EXPECT(entry.op_context == &context[10]);
        POST(fi_trecv(side[1].ep, in, size, NULL, FI_ADDR_UNSPEC, 3, 0, &context[1]));
        POST(fi_tsend(side[0].ep, out, size, NULL, side[0].peer, 3, &context[11]));
        EXPECT_EQUAL(expect_next(1, &context[1]).len, size);
        EXPECT_EQUAL(filled(in, size, (unsigned)round), size);
        expect_next(0, &context[11]);
    }
    close_both();
}

static void look(uint64_t tag, uint64_t flags, void *of)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = of};

    POST(fi_trecvmsg(side[1].ep, &msg, flags));
}

/* FI_PEEK finds, FI_CLAIM keeps for its own receive, FI_DISCARD removes. */
static void peek_claim_discard(void)
{
    struct iovec iov = {in, 8};
    struct fi_msg_tagged claim = {.msg_iov = &iov,
                                  .iov_count = 1,
                                  .addr = FI_ADDR_UNSPEC,
                                  .tag = 1,
                                  .context = &context[2]};
    struct fi_cq_tagged_entry entry;
    double end = seconds() + PATIENCE_S;
    uint64_t word = 0;
    bool found = false;

    if (!open_both(&(struct setup){0}))
        return;
    look(1, FI_PEEK, &context[0]);
    EXPECT(expect_error(1, FI_ENOMSG).op_context == &context[0]);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        uint64_t value = 10 + tag;

        POST(fi_tinject(side[0].ep, &value, sizeof value, side[0].peer, tag == 3 ? 1 : tag));
    }
    while (!found && seconds() < end) { /* until it has arrived */
        look(2, FI_PEEK, &context[1]);
        found = next(1, &entry) == 1;
        if (!found)
            expect_error(1, FI_ENOMSG);
    }
    EXPECT_EQUAL(entry.len, 8);
    EXPECT_EQUAL(entry.tag, 2);
    look(1, FI_PEEK | FI_CLAIM, &context[2]);
    EXPECT_EQUAL(expect_next(1, &context[2]).len, 8);
    do { /* not the claimed message: the other one with this tag */
        look(1, FI_PEEK | FI_DISCARD, &context[3]);
        found = next(1, &entry) == 1;
        if (!found)
            expect_error(1, FI_ENOMSG);
    } while (!found && seconds() < end);
    look(1, FI_PEEK, &context[4]);
    expect_error(1, FI_ENOMSG);
    POST(fi_trecvmsg(side[1].ep, &claim, FI_CLAIM));
    expect_next(1, &context[2]);
    memcpy(&word, in, sizeof word);
    EXPECT_EQUAL(word, 11);
    POST(fi_trecv(side[1].ep, &word, sizeof word, NULL, FI_ADDR_UNSPEC, 2, 0, &context[5]));
    expect_next(1, &context[5]);
    EXPECT_EQUAL(word, 12);
    close_both();
}

/* Thousands of messages arrive before their receives, which are posted in another order. */
static void many_unexpected(void)
{
    enum { MESSAGES = 1000, SIZE = 5000 };
    static char places[MESSAGES][SIZE];
    static char sent[MESSAGES][SIZE];
    struct fi_cq_tagged_entry entry;
    int left = MESSAGES;

    if (!open_both(&(struct setup){0}))
        return;
    for (int i = 0; i < MESSAGES; i++) {
        fill(sent[i], SIZE, (unsigned)i);
        POST(fi_tsend(side[0].ep, sent[i], SIZE, NULL, side[0].peer, (uint64_t)i, &context[i]));
    }
    for (int i = MESSAGES; i-- > 0;)
        POST(fi_trecv(side[1].ep, places[i], SIZE, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0,
                      &context[MESSAGES + i]));
    while (left > 0) {
        EXPECT_EQUAL(next(1, &entry), 1);
        EXPECT_EQUAL(entry.len, SIZE);
        EXPECT_EQUAL(filled(places[entry.tag], SIZE, (unsigned)entry.tag), SIZE);
        left--;
    }
    close_both();
}

/* An early message without a tag is received by fi_recv(), also while messages with tags
 * wait. */
static void untagged_unexpected(void)
{
    uint64_t word = 77, got[2] = {0};

    if (!open_both(&(struct setup){0}))
        return;
    send_word(1);
    POST(fi_inject(side[0].ep, &word, sizeof word, side[0].peer));
    for (int i = 0; i < 100; i++)
        progress();
    POST(fi_recv(side[1].ep, &got[0], 8, NULL, FI_ADDR_UNSPEC, &context[0]));
    expect_next(1, &context[0]);
    POST(fi_trecv(side[1].ep, &got[1], 8, NULL, FI_ADDR_UNSPEC, 1, 0, &context[1]));
    expect_next(1, &context[1]);
    EXPECT_EQUAL(got[0], 77);
    EXPECT_EQUAL(got[1], 1);
    close_both();
}

/* ---- addresses (fi_av) ------------------------------------------------------------------- */

/* An address can be inserted, used, removed and inserted again. */
static void inserted_again(void)
{
    uint64_t word;

    if (!open_both(&(struct setup){0}))
        return;
    for (uint64_t round = 1; round <= 5; round++) {
        POST(fi_trecv(side[1].ep, &word, 8, NULL, FI_ADDR_UNSPEC, round, 0, &context[0]));
        send_word(round);
        expect_next(1, &context[0]);
        EXPECT_EQUAL(word, round);
        EXPECT_EQUAL(fi_av_remove(side[0].av, &side[0].peer, 1, 0), 0);
        EXPECT_EQUAL(fi_av_insert(side[0].av, side[1].address, 1, &side[0].peer, 0, NULL), 1);
        EXPECT(side[0].peer != FI_ADDR_NOTAVAIL);
    }
    close_both();
}

/* An address that is not in the vector cannot be removed from it. */
static void removed_only_once(void)
{
    fi_addr_t unknown, none = FI_ADDR_NOTAVAIL, peer;

    if (!open_both(&(struct setup){0}))
        return;
    unknown = side[0].peer + 32;
    peer = side[0].peer;
    EXPECT_EQUAL(fi_av_remove(side[0].av, &unknown, 1, 0), -FI_EINVAL);
    EXPECT_EQUAL(fi_av_remove(side[0].av, &none, 1, 0), -FI_EINVAL);
    EXPECT_EQUAL(fi_av_remove(side[0].av, &peer, 1, 0), 0);
    EXPECT_EQUAL(fi_av_remove(side[0].av, &peer, 1, 0), -FI_EINVAL);
    close_both();
}

static const struct fabric_case cases[] = {
    {"cancel_of_nothing", "ofiwg/libfabric#7795", cancel_of_nothing},
    {"one_completion_of_each", "ofiwg/libfabric#5904 ofiwg/libfabric#7287",
     one_completion_of_each},
    {"cancelled_buffers_come_back", "ofiwg/libfabric#10721", cancelled_buffers_come_back},
    {"released_once", "ofi-cray/libfabric-cray#965 ofiwg/libfabric#9271", released_once},
    {"nothing_lost_between_buffers", "ofiwg/libfabric#3217", nothing_lost_between_buffers},
    {"sread_waits_its_time", "ofiwg/libfabric#6068 ofiwg/libfabric#5115", sread_waits_its_time},
    {"signal_ends_a_wait", "ofiwg/libfabric#697", signal_ends_a_wait},
    {"trywait_lets_wait", "ofiwg/libfabric#8981 ofiwg/libfabric#1645", trywait_lets_wait},
    {"several_are_read_at_once", "ofiwg/libfabric#6420", several_are_read_at_once},
    {"small_queues_lose_nothing", "ofiwg/libfabric#1723 ofiwg/libfabric#4250",
     small_queues_lose_nothing},
    {"completions_by_choice", "ofiwg/libfabric#4783", completions_by_choice},
    {"counters_wait", "ofiwg/libfabric#2700 ofiwg/libfabric#2798", counters_wait},
    {"short_receives", "ofiwg/libfabric#8274 ofiwg/libfabric#5002 openucx/ucx#632",
     short_receives},
    {"peek_claim_discard", "ofiwg/libfabric#11882 ofiwg/libfabric#3046", peek_claim_discard},
    {"many_unexpected", "ofiwg/libfabric#9143", many_unexpected},
    {"untagged_unexpected", "ofiwg/libfabric#5525", untagged_unexpected},
    {"inserted_again", "ofiwg/libfabric#2504", inserted_again},
    {"removed_only_once", "ofiwg/libfabric#11689", removed_only_once},
};

static bool is_named(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    int from = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2 && strcmp(argv[1], "--provider") == 0) {
        provider = argv[2];
        from = 3;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        now = &cases[i];
        if (argc == 2 && strcmp(argv[1], "--list") == 0)
            printf("%s 1 quick %s\n", now->name, now->reports);
        else if (argc == from || is_named(now->name, argc - from, argv + from))
            now->run();
    }
    return 0;
}
