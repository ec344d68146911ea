/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_program.c - races_program FOLDER RANKS MESSAGES: the traces and records of a job that has never run, for mbx races.
 *
 * Rank 0 is a master: it receives from any source, and answers.  Each worker sends, and receives the answer:
 *
 *   rank 0     receive from any source, tag 7 ── send, tag 8 ── ...
 *   worker     send, tag 7 ── receive from rank 0, tag 8 ── ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "replay/replay.h"
#include "trace/trace.h"

#define CONTEXT 1
#define HOST    5
#define SIZE    8

enum { ASK = 7, ANSWER };

static unsigned long ranks, rounds;
static struct trace_recorder *trace;
static uint64_t receives; /* of this rank */

static void fail(const char *what)
{
    fprintf(stderr, "races_program: %s\n", what);
    exit(1);
}

static uint32_t worker_of(unsigned long round)
{
    return (uint32_t)(1 + round * 7919 % (ranks - 1));
}

static uint32_t address_of(uint32_t rank)
{
    return 1000 + rank;
}

static void open_trace(const char *folder, uint32_t rank)
{
    const struct trace_info info = {
        .rank = rank, .size = (uint32_t)ranks, .host = HOST, .address = address_of(rank)};

    receives = 0;
    if (trace_start(folder, &info, &trace) < 0)
        fail("no trace can be written");
    for (uint32_t peer = 0; peer < ranks; peer++)
        trace_record(trace, &(struct trace_event){.type = TRACE_PEER,
                                                  .context_id = address_of(peer),
                                                  .source = peer,
                                                  .tag = HOST,
                                                  .entry = peer + 1,
                                                  .partner = peer + 1});
}

static void send_to(uint32_t to, uint64_t tag, uint64_t n)
{
    trace_record(trace, &(struct trace_event){.type = TRACE_SEND,
                                              .context_id = CONTEXT,
                                              .source = to,
                                              .tag = tag,
                                              .amount = SIZE,
                                              .entry = n,
                                              .partner = 1});
    trace_done(trace);
}

/* The number of the receive. */
static uint64_t post_for(uint32_t from, uint64_t tag)
{
    trace_record(trace, &(struct trace_event){.type = TRACE_POST,
                                              .context_id = CONTEXT,
                                              .source = from,
                                              .tag = tag,
                                              .entry = ++receives});
    return receives;
}

static void arrive_from(uint32_t from, uint64_t tag, uint64_t receive)
{
    trace_record(trace, &(struct trace_event){.type = TRACE_ARRIVE,
                                              .context_id = CONTEXT,
                                              .source = from,
                                              .tag = tag,
                                              .amount = SIZE + 1,
                                              .partner = receive});
    trace_done(trace);
    trace_record(trace, &(struct trace_event){.type = TRACE_REPORTED, .entry = receive});
}

static void be_master(struct replay_writer *record)
{
    const struct replay_signature any = {
        .comm = 1, .source = REPLAY_ANY, .tag = ASK, .kind = REPLAY_IRECV};

    for (unsigned long round = 0; round < rounds; round++) {
        const struct replay_outcome outcome =
            replay_message((int32_t)worker_of(round), ASK, SIZE);
        uint64_t receive = post_for(TRACE_ANY_SOURCE, ASK);

        replay_write_fill(record, replay_write_post(record, &any), &outcome);
        trace_record(trace, &(struct trace_event){.type = TRACE_EVENT,
                                                  .entry = replay_write_events(record),
                                                  .partner = receive});
        arrive_from(worker_of(round), ASK, receive);
        send_to(worker_of(round), ANSWER, round / (ranks - 1) + 1);
    }
}

static void be_worker(uint32_t rank)
{
    uint64_t n = 0;

    for (unsigned long round = 0; round < rounds; round++) {
        if (worker_of(round) != rank)
            continue;
        send_to(0, ASK, ++n);
        arrive_from(0, ANSWER, post_for(0, ANSWER));
    }
}

int main(int argc, char **argv)
{
    ranks = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;
    rounds = argc == 4 ? strtoul(argv[3], NULL, 10) / 2 : 0;
    if (ranks < 2)
        fail("usage: races_program FOLDER RANKS MESSAGES");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct replay_job job = {
            .rank = rank, .size = (uint32_t)ranks, .pid = (uint32_t)getpid()};
        struct replay_writer *record;

        if (replay_write_open(argv[1], &job, &record) < 0)
            fail("no record can be written");
        open_trace(argv[1], rank);
        if (rank == 0)
            be_master(record);
        else
            be_worker(rank);
        trace_stop(trace);
        replay_write_close(record);
    }
    return 0;
}
