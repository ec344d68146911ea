/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spread_program.c - a rank of a job on several hosts: some peers through shared memory, some
 * over a network, and the guarantees that hold for all of them together.
 *
 * usage: spread_program messages | order | access ...     one after the other, each a job
 *
 *   messages  from every rank to every rank, by every protocol; all messages arrive
 *   order     receives from any source take the messages of each peer in the order of the
 *             sends, whichever way they come and however long they are
 *   access    reads, writes and atomics: a sum to which all add is correct
 *
 * Exit code 0 if all was correct, 1 if not, 2 for wrong arguments.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/base.h"

#define CONTEXT    1
#define TAG_DONE   UINT64_C(1000)
#define ORDER_MOST 40000
#define ORDER_EACH 40
#define ADDS       20
#define SLOT       ((size_t)100000)
#define KEY        77

static const size_t sizes[] = {0, 1, 8, 100, 5000, 9000, 16384, 16385, 100000, 1 << 20};

static struct mbx_job *job;
static struct mbx_ep *ep;
static uint32_t rank, ranks;

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "spread_program: rank %u of %u: %s\n", rank, ranks, what);
    exit(1);
}

static void must(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "spread_program: rank %u of %u: %s: %s\n", rank, ranks, what,
            mbx_strerror(result));
    exit(1);
}

static void *zeroed(size_t size)
{
    void *memory = calloc(size != 0 ? size : 1, 1);

    check(memory != NULL, "memory");
    return memory;
}

static struct mbx_completion wait_for(mbx_request request, const char *what)
{
    struct mbx_completion completion;
    int err;

    while ((err = mbx_wait(ep, request, -1, &completion)) == -EINTR)
        ;
    must(err, what);
    must(completion.error, what);
    return completion;
}

/* Byte i of the message from `from` to `to`. */
static uint8_t byte_of(uint32_t from, uint32_t to, size_t size, size_t i)
{
    return (uint8_t)(from * 31 + to * 7 + size + i + i / 251);
}

static void fill(uint8_t *bytes, uint32_t from, uint32_t to, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_of(from, to, size, i);
}

static bool is_filled(const uint8_t *bytes, uint32_t from, uint32_t to, size_t size)
{
    size_t i = 0;

    while (i < size && bytes[i] == byte_of(from, to, size, i))
        i++;
    return i == size;
}

/* All ranks are done; until then each makes progress for the others. */
static void part(void)
{
    mbx_request *done = zeroed(ranks * sizeof *done);

    for (uint32_t peer = 0; peer < ranks; peer++)
        must(mbx_recv(ep, peer, CONTEXT, TAG_DONE, 0, NULL, 0, NULL, &done[peer]), "recv");
    for (uint32_t peer = 0; peer < ranks; peer++)
        must(mbx_inject(ep, peer, CONTEXT, TAG_DONE, NULL, 0, 0), "inject");
    for (uint32_t peer = 0; peer < ranks; peer++)
        wait_for(done[peer], "the end of a peer");
    free(done);
}

/* ---- messages ---- */

struct exchange {
    mbx_request sent, received;
    uint8_t *out, *in;
};

static void exchange_start(struct exchange *exchange, uint32_t peer, size_t kind)
{
    size_t size = sizes[kind];

    exchange->in = zeroed(size);
    exchange->out = zeroed(size);
    fill(exchange->out, rank, peer, size);
    must(mbx_recv(ep, peer, CONTEXT, kind, 0, exchange->in, size, NULL, &exchange->received),
         "recv");
    must(mbx_send(ep, peer, CONTEXT, kind, exchange->out, size, NULL, &exchange->sent), "send");
}

static void exchange_end(struct exchange *exchange, uint32_t peer, size_t kind)
{
    struct mbx_completion completion = wait_for(exchange->received, "a receive");

    check(completion.received == sizes[kind] && completion.status.source == peer,
          "another message");
    check(is_filled(exchange->in, peer, rank, sizes[kind]), "a message is damaged");
    wait_for(exchange->sent, "a send");
    free(exchange->in);
    free(exchange->out);
}

static void run_messages(void)
{
    struct exchange *exchanges = zeroed(ranks * ARRAY_COUNT(sizes) * sizeof *exchanges);

    must(mbx_job_connect(job, ep), "connect");
    for (uint32_t peer = 0; peer < ranks; peer++)
        for (size_t kind = 0; kind < ARRAY_COUNT(sizes); kind++)
            exchange_start(&exchanges[peer * ARRAY_COUNT(sizes) + kind], peer, kind);
    for (uint32_t peer = 0; peer < ranks; peer++)
        for (size_t kind = 0; kind < ARRAY_COUNT(sizes); kind++)
            exchange_end(&exchanges[peer * ARRAY_COUNT(sizes) + kind], peer, kind);
    free(exchanges);
}

/* ---- order ---- */

/* Short and long messages in turn, in a different turn for each sender. */
static size_t order_size(uint32_t from, uint32_t number)
{
    static const size_t turn[] = {8, ORDER_MOST, 100, 17000, 8, 9000};

    return turn[(from + number) % ARRAY_COUNT(turn)];
}

static void order_send(mbx_request *requests, uint8_t *bytes)
{
    for (uint32_t number = 0; number < ORDER_EACH; number++)
        for (uint32_t peer = 0; peer < ranks; peer++) {
            uint8_t *at = bytes + (size_t)number * ORDER_MOST;

            memcpy(at, &number, sizeof number);
            must((number % 5 == 0 ? mbx_ssend : mbx_send)(ep, peer, CONTEXT, number, at,
                                                          order_size(rank, number), NULL,
                                                          &requests[number * ranks + peer]),
                 "send");
        }
}

static void order_receive(void)
{
    uint32_t *next = zeroed(ranks * sizeof *next), number;
    uint8_t *in = zeroed(ORDER_MOST);

    for (uint32_t i = 0; i < ranks * ORDER_EACH; i++) {
        struct mbx_completion completion;
        mbx_request request;

        must(mbx_recv(ep, MBX_ANY_SOURCE, CONTEXT, 0, UINT64_C(511), in, ORDER_MOST, NULL,
                      &request),
             "recv");
        completion = wait_for(request, "a receive");
        check(completion.status.source < ranks, "a source that is no rank");
        memcpy(&number, in, sizeof number);
        check(number == next[completion.status.source]++ && completion.status.tag == number,
              "a message has overtaken another one");
        check(completion.received == order_size(completion.status.source, number),
              "a message of another size");
    }
    free(in);
    free(next);
}

static void run_order(void)
{
    mbx_request *requests = zeroed((size_t)ORDER_EACH * ranks * sizeof *requests);
    uint8_t *bytes = zeroed((size_t)ORDER_EACH * ORDER_MOST);

    must(mbx_job_connect(job, ep), "connect");
    order_send(requests, bytes);
    order_receive();
    for (uint32_t i = 0; i < ORDER_EACH * ranks; i++)
        wait_for(requests[i], "a send");
    free(bytes);
    free(requests);
}

/* ---- access ---- */

/* A rank's window: each rank has a slot to write to, and all add to the sum. */
struct window {
    uint64_t sum;
    uint8_t slots[];
};

static void add(uint32_t peer)
{
    const uint64_t mine = rank + 1;
    uint64_t before;
    struct mbx_atomic_args atomic = {.op = MBX_SUM,
                                     .type = MBX_UINT64,
                                     .count = 1,
                                     .operand = &mine,
                                     .result = &before,
                                     .key = KEY,
                                     .address = offsetof(struct window, sum)};
    mbx_request request;

    must(mbx_atomic(ep, peer, &atomic, NULL, &request), "atomic");
    wait_for(request, "an atomic");
}

static void write_and_read(uint32_t peer, uint8_t *out, uint8_t *in)
{
    uint64_t address = offsetof(struct window, slots) + rank * SLOT;
    mbx_request request;

    fill(out, rank, peer, SLOT);
    must(mbx_write(ep, peer, out, SLOT, KEY, address, NULL, &request), "write");
    wait_for(request, "a write");
    memset(in, 0, SLOT);
    must(mbx_read(ep, peer, in, SLOT, KEY, address, NULL, &request), "read");
    wait_for(request, "a read");
    check(is_filled(in, rank, peer, SLOT), "what was read is not what was written");
}

static void run_access(void)
{
    size_t size = sizeof(struct window) + ranks * SLOT;
    struct window *window = zeroed(size);
    struct mbx_region region = {
        .buf = window, .size = size, .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE};
    uint8_t *out = zeroed(SLOT), *in = zeroed(SLOT);

    must(mbx_register(ep, KEY, &region), "register");
    must(mbx_job_connect(job, ep), "connect"); /* all have registered */
    for (uint32_t peer = 0; peer < ranks; peer++) {
        for (int i = 0; i < ADDS; i++)
            add(peer);
        write_and_read(peer, out, in);
    }
    part();
    check(window->sum == (uint64_t)ADDS * ranks * (ranks + 1) / 2, "the sum is wrong");
    for (uint32_t peer = 0; peer < ranks; peer++)
        check(is_filled(window->slots + peer * SLOT, peer, rank, SLOT), "a slot is damaged");
    must(mbx_deregister(ep, KEY), "deregister");
    free(in);
    free(out);
    free(window);
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {{"messages", run_messages}, {"order", run_order}, {"access", run_access}};

static void run(size_t which)
{
    static const char *const params[] = {"CLOSE_TIMEOUT=900s", NULL};
    struct mbx_config config = {.params = params};

    must(mbx_job_open(&job), "job");
    rank = mbx_job_rank(job);
    ranks = mbx_job_size(job);
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "open");
    programs[which].run();
    part();
    must(mbx_close(ep), "close");
    mbx_job_close(job);
    if (rank == 0)
        printf("%s right, %u ranks\n", programs[which].name, ranks);
}

static size_t find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(programs); i++)
        if (strcmp(name, programs[i].name) == 0)
            return i;
    fprintf(stderr,
            "spread_program: there is no '%s'\n"
            "usage: spread_program messages | order | access ...\n",
            name);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        find("");
    for (int i = 1; i < argc; i++)
        run(find(argv[i]));
    return 0;
}
