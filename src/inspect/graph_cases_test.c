/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph_cases_test.c - the graph of jobs of two and three ranks, one case for each rule of
 * graph.h, and for each rule of polls.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/unit.h"
#include "inspect/polls.h"

#define RANKS   3
#define ENTRIES 6
#define TASKS   3

struct scene {
    struct inspect_job job;
    struct inspect_rank ranks[RANKS];
    struct inspect_entry entries[RANKS][ENTRIES];
    struct inspect_task tasks[RANKS][TASKS];
};

static const char open_mpi[] = "component Open MPI v4.1.4";

/* Makes ranks in these calls; NULL: it computes. */
static void begin(struct scene *s, uint32_t count, const char *const *calls)
{
    memset(s, 0, sizeof *s);
    s->job = (struct inspect_job){.ranks = s->ranks, .count = count, .size = count};
    for (uint32_t r = 0; r < count; r++) {
        s->ranks[r] = (struct inspect_rank){
            .head = {.pid = r + 1, .ep = 1, .rank = r, .address = r + 1},
            .how = calls[r] != NULL ? INSPECT_ASKED : INSPECT_READ,
            .entries = s->entries[r],
            .layout = inspect_mpi_layout(open_mpi),
        };
        snprintf(s->ranks[r].state.call, sizeof s->ranks[r].state.call, "%s",
                 calls[r] != NULL ? calls[r] : "");
    }
}

#define BEGIN(s, ...)                                                                          \
    begin(s, (uint32_t)ARRAY_COUNT(((const char *const[]){__VA_ARGS__})),                      \
          (const char *const[]){__VA_ARGS__})

static struct inspect_entry *add(struct scene *s, uint32_t rank, enum inspect_kind kind,
                                 uint32_t peer, uint64_t tag, uint16_t needs)
{
    struct inspect_rank *at = &s->ranks[rank];
    struct inspect_entry *entry = &at->entries[at->count++];

    *entry = (struct inspect_entry){.kind = (uint8_t)kind,
                                    .peer = peer,
                                    .tag = (uint32_t)tag,
                                    .needs = needs,
                                    .id = at->count,
                                    .whom = peer != INSPECT_NOBODY ? peer + 1 : 0};
    at->state.counts[kind]++;
    return entry;
}

/* The result for two looks; a letter for each rank. */
static const char *verdict_of(enum inspect_assume assume, struct scene *before,
                              struct scene *now)
{
    static const char letters[] = {
        [INSPECT_ALIVE] = 'a', [INSPECT_OVER] = 'o', [INSPECT_DEADLOCKED] = 'd'};
    static char text[RANKS + 1];
    enum inspect_node nodes[RANKS];

    inspect_judge(&before->job, &now->job, assume, nodes);
    for (uint32_t r = 0; r < now->job.count; r++)
        text[r] = letters[nodes[r]];
    text[now->job.count] = '\0';
    return text;
}

static const char *verdict(struct scene *before, struct scene *now)
{
    return verdict_of(INSPECT_CERTAIN, before, now);
}

static const char *verdict_unless(struct scene *before, struct scene *now)
{
    return verdict_of(INSPECT_UNLESS, before, now);
}

static const char *verdict_if_polls(struct scene *before, struct scene *now)
{
    return verdict_of(INSPECT_IF_POLLS, before, now);
}

#define BARRIER  ((uint32_t)-16)
#define IBARRIER ((uint32_t)-27)

/* Rank 0 waits for 1 and 2, rank 1 waits for 0, and rank 2 computes. */
static void wait_for_both(struct scene *s, const char *call, uint16_t needs)
{
    BEGIN(s, call, "MPI_Recv", NULL);
    add(s, 0, INSPECT_POSTED, 1, 7, needs);
    add(s, 0, INSPECT_POSTED, 2, 7, needs);
    add(s, 1, INSPECT_POSTED, 0, 1, 1);
}

static void test_all_or_any(UNUSED void **state)
{
    struct scene s;

    wait_for_both(&s, "MPI_Waitall", 2);
    assert_string_equal(verdict(&s, &s), "dda");
    wait_for_both(&s, "MPI_Waitany", 1);
    assert_string_equal(verdict(&s, &s), "aaa");
    wait_for_both(&s, "MPI_Waitsome", 1);
    assert_string_equal(verdict(&s, &s), "aaa");
    wait_for_both(&s, "MPI_Waitall", 0); /* not known: any of them */
    assert_string_equal(verdict(&s, &s), "aaa");
    wait_for_both(&s, "MPI_Waitall", 1); /* one is enough, whatever the call is */
    assert_string_equal(verdict(&s, &s), "aaa");
    wait_for_both(&s, "MPI_Waitall", 2);
    s.entries[0][0].needs = 1; /* two values differ: the least counts */
    assert_string_equal(verdict(&s, &s), "aaa");
    wait_for_both(&s, "MPI_Waitall",
                  3); /* another operation, which is not ours, is also needed */
    assert_string_equal(verdict(&s, &s), "dda");
}

/* Over the component, a wait that marks no message waits for something else, such as a file. */
static void test_waits_for_no_message(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Wait", "MPI_Recv");
    add(&s, 0, INSPECT_POSTED, 1, 7, 0);
    add(&s, 1, INSPECT_POSTED, 0, 7, 1);
    assert_string_equal(verdict(&s, &s), "dd");
    snprintf(s.ranks[0].head.mpi, sizeof s.ranks[0].head.mpi, "component Open MPI v4.1.4");
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[0][0].needs = 1;
    assert_string_equal(verdict(&s, &s), "dd");
    s.entries[0][0].needs = 0;
    s.entries[0][0].tag = BARRIER; /* it may wait for a nonblocking collective */
    assert_string_equal(verdict(&s, &s), "dd");
}

static void test_what_is_not_awaited(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Recv", "MPI_Recv", NULL);
    add(&s, 0, INSPECT_POSTED, 1, 7, 0); /* of an MPI_Irecv */
    add(&s, 0, INSPECT_POSTED, 2, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 1, 1);
    assert_string_equal(verdict(&s, &s), "aaa");
    s.entries[0][0].needs = 1;
    s.entries[0][1].needs = 0;
    assert_string_equal(verdict(&s, &s), "dda");
    BEGIN(&s, "mbx_wait", "mbx_wait");
    add(&s, 0, INSPECT_POSTED, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 7, 0); /* with a time-out */
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[1][0].needs = 1;
    assert_string_equal(verdict(&s, &s), "dd");
    BEGIN(&s, "MPI_Recv"); /* waits for something other than our messages */
    add(&s, 0, INSPECT_UNEXPECTED, 0, 7, 0);
    assert_string_equal(verdict(&s, &s), "a");
}

/* Rank 0 sends to 1, which waits for 2, which is over; 1 has another entry. */
static const char *sends_to(enum inspect_kind kind, uint64_t tag)
{
    struct scene s;

    BEGIN(&s, "MPI_Ssend", "MPI_Recv", "MPI_Finalize");
    add(&s, 0, INSPECT_SEND, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 2, 7, 1);
    add(&s, 1, kind, 0, tag, 0);
    return verdict(&s, &s);
}

static void test_what_fits_besides(UNUSED void **state)
{
    struct scene s;

    assert_string_equal(sends_to(INSPECT_POSTED, 7), "ado");
    assert_string_equal(sends_to(INSPECT_POSTED, 8), "ddo");
    assert_string_equal(sends_to(INSPECT_RECEIVING, 7), "ado");
    BEGIN(&s, "MPI_Probe", "MPI_Ssend");
    add(&s, 0, INSPECT_PROBE, 1, 7, 0);
    add(&s, 1, INSPECT_SEND, 0, 7, 1);
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[1][0].tag = 8;
    assert_string_equal(verdict(&s, &s), "dd");
    s.entries[1][0].whom = 99; /* to a rank that is not seen */
    assert_string_equal(verdict(&s, &s), "aa");
}

/* MPI_Waitany may also wait for a nonblocking collective, which is not an operation here. */
static void test_any_and_a_collective(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Waitany", "MPI_Recv", NULL);
    add(&s, 0, INSPECT_POSTED, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 1, 1);
    add(&s, 0, INSPECT_POSTED, 2, BARRIER, 0);
    assert_string_equal(verdict(&s, &s), "aaa");
    s.entries[0][1].tag = 5; /* of an MPI_Irecv that is not waited for */
    assert_string_equal(verdict(&s, &s), "dda");
}

static void test_collectives(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Barrier", "MPI_Recv", NULL);
    add(&s, 0, INSPECT_POSTED, 1, BARRIER, 0);
    add(&s, 0, INSPECT_POSTED, 2, 7, 0); /* not a part of the collective */
    add(&s, 1, INSPECT_POSTED, 0, 1, 0);
    assert_string_equal(verdict(&s, &s), "dda");
    BEGIN(&s, "MPI_Barrier", "MPI_Recv"); /* through shared memory */
    add(&s, 1, INSPECT_POSTED, 0, 1, 0);
    assert_string_equal(verdict(&s, &s), "aa");
    BEGIN(&s, "MPI_Intercomm_create",
          "MPI_Recv"); /* a leader: a message with the program's tag */
    add(&s, 0, INSPECT_POSTED, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 1, 1);
    assert_string_equal(verdict(&s, &s), "dd");
}

/* These calls also wait for accesses or for memory. */
static void test_windows(UNUSED void **state)
{
    static const char *const calls[] = {"MPI_Win_create",   "MPI_Win_create_dynamic",
                                        "MPI_Win_allocate", "MPI_Win_allocate_shared",
                                        "MPI_Win_fence",    "MPI_Win_free"};
    struct scene s;

    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        BEGIN(&s, calls[i], "MPI_Barrier");
        add(&s, 0, INSPECT_POSTED, 1, BARRIER, 1);
        add(&s, 1, INSPECT_POSTED, 0, BARRIER, 1);
        assert_string_equal(verdict(&s, &s), "dd");
        s.entries[0][0].needs = 0; /* of a barrier: the call's own */
        assert_string_equal(verdict(&s, &s), "dd");
        s.entries[0][0].tag = IBARRIER; /* the program's, begun before */
        assert_string_equal(verdict(&s, &s), "aa");
        s.entries[0][0].tag = 7;
        assert_string_equal(verdict(&s, &s), "aa");
    }
}

/* Rank 0 receives from 1, which is in this call. */
static const char *receives_from(const char *call, bool is_any)
{
    struct scene s;

    BEGIN(&s, "MPI_Recv", call);
    add(&s, 0, INSPECT_POSTED, is_any ? INSPECT_NOBODY : 1, 7, 1);
    return verdict(&s, &s);
}

static void test_other_sides(UNUSED void **state)
{
    assert_string_equal(receives_from("MPI_Finalize", false), "do");
    assert_string_equal(receives_from("MPI_Finalize", true), "do");
    assert_string_equal(receives_from("MPI_Iprobe", false), "aa");
    assert_string_equal(receives_from("MPI_Test", true), "aa");
    assert_string_equal(receives_from("", false), "aa");
    assert_string_equal(receives_from(NULL, false), "aa");
}

static void test_itself(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Recv");
    add(&s, 0, INSPECT_POSTED, 0, 7, 1);
    assert_string_equal(verdict(&s, &s), "d");
    s.entries[0][0].peer = INSPECT_NOBODY;
    s.entries[0][0].whom = 0;
    assert_string_equal(verdict(&s, &s), "d");
}

/* A cycle of two; the tests then change something. */
static void cycle(struct scene *s)
{
    BEGIN(s, "MPI_Recv", "MPI_Recv");
    add(s, 0, INSPECT_POSTED, 1, 7, 1);
    add(s, 1, INSPECT_POSTED, 0, 7, 1);
}

static void test_two_looks(UNUSED void **state)
{
    struct scene before, now;

    cycle(&before);
    cycle(&now);
    assert_string_equal(verdict(&before, &now), "dd");
    now.ranks[0].state.pulse.arrived++;
    assert_string_equal(verdict(&before, &now), "aa");
    cycle(&now);
    now.ranks[1].state.pulse.sent++;
    assert_string_equal(verdict(&before, &now), "aa");
    cycle(&now);
    now.ranks[0].state.caller = 5; /* another line of the program */
    assert_string_equal(verdict(&before, &now), "aa");
    cycle(&now);
    before.ranks[1].how = INSPECT_READ;
    assert_string_equal(verdict(&before, &now), "aa");
    assert_string_equal(verdict(&now, &before), "aa");
    cycle(&before);
    now.ranks[1].head.pid = 9; /* another process */
    assert_string_equal(verdict(&before, &now), "aa");
    before.job.count = 1;
    cycle(&now);
    assert_string_equal(verdict(&before, &now), "aa");
}

static void test_ranks_that_are_not_known(UNUSED void **state)
{
    struct scene s;

    cycle(&s);
    s.job.size = 3;
    assert_string_equal(verdict(&s, &s), "dd"); /* its receive names a source */
    s.entries[0][0].whom = 99;                  /* which is a rank that is not seen */
    assert_string_equal(verdict(&s, &s), "aa");
    cycle(&s);
    s.entries[0][0].peer = INSPECT_NOBODY;
    s.entries[0][0].whom = 0;
    assert_string_equal(verdict(&s, &s), "dd");
    s.job.size = 3;
    assert_string_equal(verdict(&s, &s), "aa");
    s.job.size = INSPECT_NOBODY;
    assert_string_equal(verdict(&s, &s), "aa");
}

static void test_several_of_a_rank(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Recv", "MPI_Iprobe"); /* it polls, and has another receive */
    add(&s, 0, INSPECT_POSTED, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 7, 0);
    assert_string_equal(verdict(&s, &s), "aa");
    cycle(&s);
    s.ranks[0].state.flags = INSPECT_STATE_THREADS;
    assert_string_equal(verdict(&s, &s), "aa");
    BEGIN(&s, "MPI_Recv", "MPI_Recv", "MPI_Recv");
    add(&s, 0, INSPECT_POSTED, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 7, 1);
    add(&s, 2, INSPECT_POSTED, 0, 7, 1);
    assert_string_equal(verdict(&s, &s), "ddd");
    s.ranks[2].head.pid = 2; /* another endpoint of rank 1 */
    s.ranks[2].head.ep = 2;
    assert_string_equal(verdict(&s, &s), "aaa");
    cycle(&s);
    s.ranks[0].state.counts[INSPECT_POSTED] = 2; /* one of them was not shown */
    assert_string_equal(verdict(&s, &s), "aa");
    cycle(&s);
    s.ranks[0].state.counts[INSPECT_UNEXPECTED] =
        16384; /* no rank waits for them, and few are shown */
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].state.counts[INSPECT_PROBED] = 2;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].state.counts[INSPECT_SEND] = 1;
    assert_string_equal(verdict(&s, &s), "aa");
}

/* Two hosts may have processes with the same process id, and endpoints with the same
 * address. */
static void test_ranks_of_two_hosts(UNUSED void **state)
{
    struct scene before, now;

    cycle(&now);
    now.ranks[0].host = 1;
    now.ranks[1].host = 2;
    now.ranks[1].head.pid = now.ranks[0].head.pid;
    assert_string_equal(verdict(&now, &now), "dd");
    cycle(&before);
    before.ranks[0].host = 1;
    before.ranks[1].host = 3; /* in the first look that process was on another host */
    before.ranks[1].head.pid = now.ranks[1].head.pid;
    assert_string_equal(verdict(&before, &now), "aa");
}

/* Messages between hosts may be in flight for long; on one host they have arrived at the next
 * look. */
static void test_under_way(UNUSED void **state)
{
    struct scene s;

    cycle(&s);
    s.ranks[0].state.pulse.sent = 5;
    s.ranks[1].state.pulse.arrived = 4;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[1].host = 2;
    assert_string_equal(verdict(&s, &s), "aa");
    assert_int_equal(inspect_under_way(&s.job, &s.job), 1);
    s.job.size = 3; /* the rank that is not seen may have it */
    assert_string_equal(verdict(&s, &s), "dd");
    s.job.size = 2;
    s.ranks[1].state.pulse.arrived = 5;
    assert_string_equal(verdict(&s, &s), "dd");
}

/* A message that has arrived, and whose send is not complete, does not hide another one that is
 * in flight. */
static void test_under_way_with_rendezvous(UNUSED void **state)
{
    struct inspect_entry *message;
    struct scene s;

    cycle(&s);
    s.ranks[1].host = 2;
    s.ranks[0].state.pulse.sent = 5;
    s.ranks[1].state.pulse.arrived = 5;
    message = add(&s, 1, INSPECT_UNEXPECTED, 0, 70, 0);
    message->flags = INSPECT_ENTRY_RTS;
    assert_string_equal(verdict(&s, &s), "aa");
    assert_int_equal(inspect_under_way(&s.job, &s.job), 1);
    s.ranks[1].state.pulse.arrived = 6; /* the other one has arrived */
    assert_string_equal(verdict(&s, &s), "dd");
    message->flags = 0;
    s.ranks[1].state.pulse.arrived = 5;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[1].state.counts[INSPECT_UNEXPECTED] =
        2; /* one was not shown, and may be a rendezvous */
    assert_string_equal(verdict(&s, &s), "aa");
}

static void test_what_fits(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Ssend", "MPI_Recv");
    add(&s, 0, INSPECT_SEND, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 7, 1);
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[1][0].tag = 8;
    assert_string_equal(verdict(&s, &s), "dd");
    s.entries[1][0].ignore = UINT64_MAX;
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[1][0].context_id = 3;
    assert_string_equal(verdict(&s, &s), "dd");
    s.entries[1][0].kind = INSPECT_RECEIVING;
    assert_string_equal(verdict(&s, &s), "aa");
}

static void test_probed(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Ssend", "MPI_Recv");
    add(&s, 0, INSPECT_SEND, 1, 7, 1);
    add(&s, 1, INSPECT_POSTED, 0, 7, 1);
    add(&s, 1, INSPECT_PROBED, 0, 7, 0);
    assert_string_equal(verdict(&s, &s), "dd");
    add(&s, 0, INSPECT_SEND, 1, 7, 0); /* there are two, and one is not taken */
    assert_string_equal(verdict(&s, &s), "aa");
}

static void test_probes(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Probe", "MPI_Recv", NULL);
    add(&s, 0, INSPECT_PROBE, 1, 4, 0);
    add(&s, 0, INSPECT_POSTED, 2, 4, 0); /* not waited for */
    add(&s, 1, INSPECT_POSTED, 0, 1, 1);
    add(&s, 1, INSPECT_PROBE, 2, 1, 0); /* an old one */
    assert_string_equal(verdict(&s, &s), "dda");
}

static void test_what_moves(UNUSED void **state)
{
    struct scene s;

    cycle(&s);
    s.entries[0][0].kind = INSPECT_SENDING;
    s.ranks[0].state.counts[INSPECT_SENDING] = 1;
    s.ranks[0].state.counts[INSPECT_POSTED] = 0;
    assert_string_equal(verdict(&s, &s), "aa");
    s.entries[0][0].kind = INSPECT_ACCESS;
    assert_string_equal(verdict(&s, &s), "aa");
    cycle(&s);
    s.entries[0][0].flags = INSPECT_ENTRY_INTERNAL; /* no rank waits for it */
    assert_string_equal(verdict(&s, &s), "aa");
}

/* ---- through libucp, where the tag names the sender ---- */

static const char ucp_mpich[] = "ucp MPICH Version:\t4.0.2";

#define ERRORS     (UINT64_C(3) << 29) /* which no receive of MPICH compares */
#define ANY_SOURCE (UINT64_C(0xffff) << 32)

/* A receive from this rank of a communicator, tag 7; and one that is kept posted for active messages. */
static struct inspect_entry *add_ucp(struct scene *s, uint32_t rank, uint64_t communicator,
                                     uint64_t source)
{
    struct inspect_entry *kept = add(s, rank, INSPECT_POSTED, INSPECT_NOBODY, 0, 0);
    struct inspect_entry *entry = add(s, rank, INSPECT_POSTED, INSPECT_NOBODY, 0, 0);

    snprintf(s->ranks[rank].head.mpi, sizeof s->ranks[rank].head.mpi, "%s", ucp_mpich);
    s->ranks[rank].layout = inspect_mpi_layout(ucp_mpich);
    kept->context_id = 2;
    kept->ignore = UINT64_MAX;
    entry->context_id = 1;
    entry->tag = communicator << 52 | source << 32 | 7;
    entry->ignore = ERRORS;
    return entry;
}

static void look_through_ucp(struct scene *s)
{
    for (uint32_t i = 0; i < s->job.count; i++)
        inspect_mark_kept(&s->ranks[i]);
    inspect_resolve(&s->job);
}

/* Two ranks wait for each other; the third one is in its own call. */
static void cycle_through_ucp(struct scene *s, const char *call, const char *third,
                              uint64_t communicator)
{
    BEGIN(s, call, call, third);
    add_ucp(s, 0, communicator, 1);
    add_ucp(s, 1, communicator, 0);
    if (third != NULL)
        add_ucp(s, 2, communicator, 0);
    look_through_ucp(s);
}

static void test_sources_in_tags(UNUSED void **state)
{
    struct scene s;

    cycle_through_ucp(&s, "MPI_Recv", NULL, 0);
    assert_int_equal(s.entries[0][0].flags, INSPECT_ENTRY_INTERNAL);
    assert_int_equal(s.entries[0][1].flags, 0);
    assert_int_equal(inspect_whose(&s.job, 0, &s.entries[0][1]), 1);
    assert_int_equal(inspect_whose(&s.job, 1, &s.entries[1][1]), 0);
    assert_string_equal(verdict(&s, &s), "dda");
    cycle_through_ucp(&s, "MPI_Recv", NULL, 4); /* whose ranks are not known */
    assert_int_equal(s.entries[0][1].peer, INSPECT_NOBODY);
    assert_string_equal(verdict(&s, &s), "aaa");
    cycle_through_ucp(&s, "MPI_Recv", "MPI_Recv", 4);
    assert_string_equal(verdict(&s, &s), "ddd");
    BEGIN(&s, "MPI_Recv", "MPI_Recv", NULL);
    add_ucp(&s, 0, 0, 0)->ignore |= ANY_SOURCE;
    add_ucp(&s, 1, 0, 9); /* which is not seen */
    look_through_ucp(&s);
    assert_int_equal(s.entries[0][1].peer, INSPECT_NOBODY);
    assert_int_equal(s.entries[1][1].peer, INSPECT_SOMEBODY);
    assert_int_equal(s.entries[1][1].whom, 0);
    assert_string_equal(verdict(&s, &s), "aaa");
}

/* The ranks of each host have their own communicator within MPI_COMM_WORLD: in the order of the job. */
static void test_sources_of_a_node(UNUSED void **state)
{
    static const uint64_t barrier = 3, of_a_node = UINT64_C(1) << 48;
    struct scene s;

    BEGIN(&s, "MPI_Barrier", "MPI_Barrier", "MPI_Recv");
    s.ranks[0].host = s.ranks[2].host = 7;
    for (uint32_t r = 0; r < 3; r++)
        add_ucp(&s, r, 0, 1)->tag = barrier * of_a_node | UINT64_C(1) << 32 | 1;
    look_through_ucp(&s);
    assert_int_equal(inspect_whose(&s.job, 0, &s.entries[0][1]), 2);
    assert_int_equal(s.entries[1][1].peer, INSPECT_NOBODY); /* its host has one rank */
    assert_int_equal(inspect_whose(&s.job, 2, &s.entries[2][1]), 2);
    s.entries[0][1].peer = INSPECT_NOBODY;
    s.entries[0][1].whom = 0;
    s.job.size = 4; /* one is not seen, and may be between them */
    look_through_ucp(&s);
    assert_int_equal(s.entries[0][1].peer, INSPECT_NOBODY);
}

/* ---- ranks with several threads ---- */

enum { CALLER = 10, OTHER = 20, THIRD = 30 };

/* A cycle of two ranks.  In rank 0 two threads are left, one of which has communicated. */
static void cycle_with_threads(struct scene *s)
{
    cycle(s);
    s->ranks[0].state.flags = INSPECT_STATE_THREADS;
    s->ranks[0].state.answerer = CALLER;
    s->ranks[0].state.callers = 1;
    s->ranks[0].state.caller_ids[0] = CALLER;
    s->ranks[0].tasks = s->tasks[0];
    s->ranks[0].task_count = 2;
    s->tasks[0][0] = (struct inspect_task){.id = CALLER, .started = 1};
    s->tasks[0][1] = (struct inspect_task){.id = OTHER, .started = 2, .ran_ns = 5, .word = 6};
}

static void test_other_threads(UNUSED void **state)
{
    struct scene s;

    cycle_with_threads(&s); /* the other one may communicate */
    assert_string_equal(verdict(&s, &s), "aa");
    assert_string_equal(verdict_unless(&s, &s), "dd");
    s.tasks[0][1].kind = INSPECT_TASK_OF_LIBRARY;
    assert_string_equal(verdict(&s, &s), "dd");
    s.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].task_count = 1; /* the other one has ended */
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].task_count = 0; /* none was seen */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    cycle_with_threads(&s); /* the program must not communicate after MPI_Finalize */
    snprintf(s.ranks[0].state.call, sizeof s.ranks[0].state.call, "MPI_Finalize");
    assert_string_equal(verdict(&s, &s), "od");
}

static void test_sleepers(UNUSED void **state)
{
    struct scene before, now;

    cycle_with_threads(&before);
    before.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    cycle_with_threads(&now);
    now.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    assert_string_equal(verdict(&before, &now), "dd");
    now.tasks[0][1].ran_ns++; /* it has run in between */
    assert_string_equal(verdict(&before, &now), "aa");
    assert_string_equal(verdict_unless(&before, &now), "dd");
    now.tasks[0][1].ran_ns--;
    now.tasks[0][1].word++; /* it sleeps on another word */
    assert_string_equal(verdict(&before, &now), "aa");
    now.tasks[0][1].word--;
    before.tasks[0][1].kind = INSPECT_TASK_BUSY; /* it has just gone to sleep */
    assert_string_equal(verdict(&before, &now), "aa");
    before.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    now.tasks[0][1].kind = INSPECT_TASK_BUSY; /* it has just woken up */
    assert_string_equal(verdict(&before, &now), "aa");
}

/* Two threads of rank 0 wait in MPI. */
static void test_threads_in_mpi(UNUSED void **state)
{
    struct scene before, s;
    struct inspect_entry *entry;

    cycle_with_threads(&s);
    s.tasks[0][1].kind = INSPECT_TASK_IN_MPI;
    s.ranks[0].state.callers = 2;
    s.ranks[0].state.caller_ids[1] = OTHER;
    assert_string_equal(verdict_unless(&s, &s), "aa"); /* for what it waits is not known */
    entry = add(&s, 0, INSPECT_POSTED, 1, 8, INSPECT_NEEDS_MOST + 2);
    assert_string_equal(verdict(&s, &s), "dd");
    add(&s, 1, INSPECT_SEND, 0, 8, 0); /* its message can come */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.ranks[1].count--;
    s.ranks[1].state.counts[INSPECT_SEND]--;
    s.entries[0][0].needs = 0; /* of the thread that answers nothing is marked */
    assert_string_equal(verdict(&s, &s), "dd");
    add(&s, 1, INSPECT_SEND, 0, 7, 0); /* its own message can come */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.ranks[1].count--;
    s.ranks[1].state.counts[INSPECT_SEND]--;
    entry->needs = INSPECT_NEEDS_MOST + 1; /* the other one waits for nothing that is known */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    entry->needs = INSPECT_NEEDS_MOST + 3; /* a thread that is not listed */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    entry->needs = INSPECT_NEEDS_MOST + 2;
    s.tasks[0][1].kind = INSPECT_TASK_SLEEPS; /* it may be asleep outside of MPI */
    assert_string_equal(verdict(&s, &s), "dd");
    s.tasks[0][1].kind = INSPECT_TASK_IN_MPI;
    before = s;
    before.ranks[0].tasks = before.tasks[0];
    before.job.ranks = before.ranks;
    for (int r = 0; r < 2; r++)
        before.ranks[r].entries = before.entries[r];
    assert_string_equal(verdict(&before, &s), "dd");
    before.tasks[0][1].ran_ns--; /* it has run in between */
    assert_string_equal(verdict_unless(&before, &s), "aa");
    before.tasks[0][1].ran_ns++;
    before.entries[0][1].needs = 0; /* it was not known before */
    assert_string_equal(verdict_unless(&before, &s), "aa");
}

/* A thread that sleeps does not wait if a third one can wake it. */
static void test_sleepers_that_are_woken(UNUSED void **state)
{
    enum inspect_thread kinds[INSPECT_TASKS];
    struct scene s;

    cycle_with_threads(&s);
    s.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    s.tasks[0][2] = (struct inspect_task){.id = THIRD};
    s.ranks[0].task_count = 3;
    assert_string_equal(verdict(&s, &s), "aa");
    assert_string_equal(verdict_unless(&s, &s), "dd");
    inspect_threads(&s.ranks[0], &s.ranks[0], kinds);
    assert_int_equal(kinds[1], INSPECT_THREAD_FREE);
    s.ranks[0].state.callers = 2; /* the one that sleeps has communicated */
    s.ranks[0].state.caller_ids[1] = OTHER;
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.tasks[0][2].kind = INSPECT_TASK_OF_LIBRARY;
    assert_string_equal(verdict(&s, &s), "dd");
}

static void test_threads_that_come_and_go(UNUSED void **state)
{
    struct scene before, now;

    cycle_with_threads(&before);
    cycle_with_threads(&now);
    before.tasks[0][1].kind = now.tasks[0][1].kind = INSPECT_TASK_OF_LIBRARY;
    now.tasks[0][1].started++; /* another one with the number of one that has ended */
    assert_string_equal(verdict_unless(&before, &now), "aa");
    now.tasks[0][1].started--;
    now.tasks[0][2] = (struct inspect_task){.id = THIRD, .kind = INSPECT_TASK_OF_LIBRARY};
    now.ranks[0].task_count = 3;
    assert_string_equal(verdict_unless(&before, &now), "aa");
    now.ranks[0].task_count = 1;
    assert_string_equal(verdict_unless(&before, &now), "aa");
}

static void test_threads_that_have_communicated(UNUSED void **state)
{
    struct scene before, s;

    cycle_with_threads(&s);
    s.ranks[0].state.callers = 2;
    s.ranks[0].state.caller_ids[1] = THIRD; /* which has ended */
    assert_string_equal(verdict_unless(&s, &s), "dd");
    s.ranks[0].state.caller_ids[1] = OTHER;
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.tasks[0][1].kind = INSPECT_TASK_OF_LIBRARY;
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].state.callers = INSPECT_CALLERS + 1; /* not all are listed */
    s.ranks[0].state.caller_ids[1] = THIRD;
    assert_string_equal(verdict(&s, &s), "dd");
    s.tasks[0][1].kind = INSPECT_TASK_OF_LIBRARY;
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.ranks[0].state.callers = 0; /* not known */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    s.ranks[0].state.callers = 1;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].state.answerer = THIRD; /* a thread that has not communicated */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    cycle_with_threads(&s);
    s.tasks[0][1].kind = INSPECT_TASK_OF_LIBRARY;
    assert_string_equal(verdict(&s, &s), "dd");
    s.ranks[0].state.caller_ids[0] =
        THIRD; /* the only one that has communicated, and has ended */
    assert_string_equal(verdict_unless(&s, &s), "aa");
    cycle_with_threads(&before); /* another thread has answered before */
    cycle_with_threads(&s);
    before.ranks[0].state.callers = s.ranks[0].state.callers = 2;
    before.ranks[0].state.caller_ids[1] = s.ranks[0].state.caller_ids[1] = OTHER;
    before.tasks[0][1].kind = s.tasks[0][1].kind = INSPECT_TASK_SLEEPS;
    assert_string_equal(verdict(&before, &s), "dd");
    before.ranks[0].state.answerer = OTHER;
    assert_string_equal(verdict_unless(&before, &s), "aa");
}

/* One rank is deadlocked for certain, although another one may go on. */
static void test_certain_in_part(UNUSED void **state)
{
    struct scene s;

    cycle_with_threads(&s);
    s.job.count = s.job.size = 3;
    s.ranks[2] = s.ranks[1];
    s.ranks[2].head.pid = 3;
    s.ranks[2].head.rank = 2;
    s.ranks[2].head.address = 3;
    s.ranks[2].entries = s.entries[2];
    s.ranks[2].count = 0;
    memset(s.ranks[2].state.counts, 0, sizeof s.ranks[2].state.counts);
    add(&s, 2, INSPECT_POSTED, 2, 7, 1); /* it waits for itself */
    assert_string_equal(verdict(&s, &s), "aad");
    assert_string_equal(verdict_unless(&s, &s), "ddd");
}

/* A request may be one of a window, which an active message ends. */
static void test_waits_through_ucp(UNUSED void **state)
{
    struct scene s;

    cycle_through_ucp(&s, "MPI_Wait", NULL, 0);
    assert_string_equal(verdict(&s, &s), "aaa");
    cycle_through_ucp(&s, "MPI_Waitall", "MPI_Recv", 0);
    assert_string_equal(verdict(&s, &s), "ddd");
}

/* ---- ranks that poll ---- */

/* Rank 0 polls for rank 1 by this call, and rank 1 receives from rank 0. */
static void poll_and_receive(struct scene *s, const char *call)
{
    BEGIN(s, call, "MPI_Recv");
    add(s, 0, strstr(call, "probe") != NULL ? INSPECT_PROBE : INSPECT_POSTED, 1, 7, 0);
    add(s, 1, INSPECT_POSTED, 0, 9, 1);
}

static void test_polls(UNUSED void **state)
{
    static const char *const calls[] = {
        "MPI_Test",   "MPI_Testall", "MPI_Testany",  "MPI_Testsome",
        "MPI_Iprobe", "MPI_Improbe", "MPI_Win_test", "MPI_Request_get_status"};
    struct scene s;

    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        poll_and_receive(&s, calls[i]);
        assert_string_equal(verdict(&s, &s), "aa");
        assert_string_equal(verdict_unless(&s, &s), "aa");
        assert_string_equal(verdict_if_polls(&s, &s), "dd");
        s.ranks[0].count = 0; /* it may poll for a file */
        memset(s.ranks[0].state.counts, 0, sizeof s.ranks[0].state.counts);
        assert_string_equal(verdict_if_polls(&s, &s), "aa");
    }
    poll_and_receive(&s, "MPI_Test_cancelled"); /* it is no call in a loop */
    assert_string_equal(verdict_if_polls(&s, &s), "aa");
    poll_and_receive(&s, "MPI_Test");
    add(&s, 1, INSPECT_SEND, 0, 7, 0); /* what the poll is for is there */
    assert_string_equal(verdict_if_polls(&s, &s), "aa");
    poll_and_receive(&s, "MPI_Test");
    s.entries[0][0].flags = INSPECT_ENTRY_INTERNAL;
    assert_string_equal(verdict_if_polls(&s, &s), "aa");
}

/* One of several is enough for a rank that polls, also if it has asked for all. */
static void test_polls_for_several(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Testall", "MPI_Recv", NULL);
    add(&s, 0, INSPECT_POSTED, 1, 7, 0);
    add(&s, 1, INSPECT_POSTED, 0, 9, 1);
    assert_string_equal(verdict_if_polls(&s, &s), "dda");
    add(&s, 0, INSPECT_POSTED, 2, 7, 0); /* rank 2 computes */
    assert_string_equal(verdict_if_polls(&s, &s), "aaa");
    s.entries[0][1].whom = 2;
    assert_string_equal(verdict_if_polls(&s, &s), "dda");
    add(&s, 0, INSPECT_PROBE, 2, 7, 0); /* its last probe may have a message as well */
    assert_string_equal(verdict_if_polls(&s, &s), "aaa");
    BEGIN(&s, "MPI_Recv", "MPI_Recv", NULL); /* but not in another call */
    add(&s, 0, INSPECT_POSTED, 1, 7, 0);
    add(&s, 0, INSPECT_PROBE, 2, 7, 0);
    add(&s, 1, INSPECT_POSTED, 0, 9, 1);
    assert_string_equal(verdict(&s, &s), "dda");
}

static void test_polls_from_any_source(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Iprobe", "MPI_Test", "MPI_Recv");
    for (uint32_t r = 0; r < 3; r++)
        add(&s, r, r == 0 ? INSPECT_PROBE : INSPECT_POSTED, INSPECT_NOBODY, 7, r == 2);
    assert_string_equal(verdict_unless(&s, &s), "aaa");
    assert_string_equal(verdict_if_polls(&s, &s), "ddd");
    s.job.size = 4; /* a rank is not seen */
    assert_string_equal(verdict_if_polls(&s, &s), "aaa");
    s.job.size = 3;
    s.ranks[1].how = INSPECT_READ; /* one computes */
    assert_string_equal(verdict_if_polls(&s, &s), "aaa");
}

/* The calls of a rank that polls may differ; nothing else may. */
static void test_polls_in_two_looks(UNUSED void **state)
{
    struct scene before, now;

    poll_and_receive(&before, "MPI_Test");
    poll_and_receive(&now, "MPI_Testany");
    now.ranks[0].state.caller = 7;
    assert_string_equal(verdict_if_polls(&before, &now), "dd");
    assert_int_equal(inspect_apart(&before.job, &now.job, &now.ranks[0], INSPECT_UNLESS),
                     INSPECT_APART_POLLS);
    now.ranks[0].state.pulse.received++;
    assert_string_equal(verdict_if_polls(&before, &now), "aa");
    now.ranks[0].state.pulse.received--;
    now.ranks[0].state.counts[INSPECT_POSTED]++;
    assert_string_equal(verdict_if_polls(&before, &now), "aa");
    poll_and_receive(&before, "MPI_Recv"); /* it has just begun */
    poll_and_receive(&now, "MPI_Test");
    before.ranks[0].state.counts[INSPECT_POSTED] = now.ranks[0].state.counts[INSPECT_POSTED];
    assert_string_equal(verdict_if_polls(&before, &now), "aa");
    poll_and_receive(&before, "MPI_Test");
    poll_and_receive(&now, "MPI_Recv");
    assert_string_equal(verdict_if_polls(&before, &now), "aa");
    poll_and_receive(&before, "MPI_Test");
    poll_and_receive(&now, "MPI_Test");
    now.ranks[1].state.caller = 7; /* a rank that waits has done so twice */
    assert_string_equal(verdict_if_polls(&before, &now), "aa");
}

#define QUIET 1000u

/* Nothing has happened in any rank for this long. */
static void be_quiet(struct scene *s, uint64_t ns)
{
    for (uint32_t r = 0; r < s->job.count; r++) {
        s->ranks[r].state.still_ns = 1;
        s->ranks[r].state.now_ns = 1 + ns;
    }
}

/* Is it a verdict, after `count` looks like `before` and one like `now`? */
static bool is_polls(const struct scene *before, uint32_t count, const struct scene *now)
{
    struct inspect_job looks[4];
    enum inspect_node nodes[RANKS];

    for (uint32_t i = 0; i < count; i++)
        looks[i] = before->job;
    return inspect_only_polls(looks, count, &now->job, QUIET, nodes);
}

static void test_verdict_of_polls(UNUSED void **state)
{
    static const char *const pairs[][2] = {
        {"MPI_Iprobe", "MPI_Recv"}, {"MPI_Test", "MPI_Test"}, {"MPI_Test", "MPI_Finalize"}};
    struct scene s;

    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        BEGIN(&s, pairs[i][0], pairs[i][1]);
        add(&s, 0, i == 0 ? INSPECT_PROBE : INSPECT_POSTED, 1, 7, 0);
        if (strcmp(pairs[i][1], "MPI_Finalize") != 0)
            add(&s, 1, INSPECT_POSTED, 0, 9, i == 0);
        be_quiet(&s, QUIET);
        assert_true(is_polls(&s, 4, &s));
        assert_false(is_polls(&s, 0, &s));
        be_quiet(&s, QUIET - 1);
        assert_false(is_polls(&s, 4, &s));
        be_quiet(&s, QUIET);
        s.ranks[1].state.still_ns =
            0; /* not known; a rank in MPI_Finalize does not measure it */
        assert_int_equal(is_polls(&s, 4, &s), i == 2);
    }
    poll_and_receive(&s, "MPI_Recv"); /* a deadlock without polls is another verdict */
    be_quiet(&s, QUIET);
    assert_false(is_polls(&s, 4, &s));
}

/* Each rank of the job is in it: another one might know better. */
static void test_polls_of_a_part(UNUSED void **state)
{
    struct scene s;

    BEGIN(&s, "MPI_Test", "MPI_Recv", NULL); /* one computes */
    add(&s, 0, INSPECT_POSTED, 1, 7, 0);
    add(&s, 1, INSPECT_POSTED, 0, 9, 1);
    be_quiet(&s, QUIET);
    assert_string_equal(verdict_if_polls(&s, &s), "dda");
    assert_false(is_polls(&s, 4, &s));
    poll_and_receive(&s, "MPI_Test");
    be_quiet(&s, QUIET);
    assert_true(is_polls(&s, 1, &s));
    s.job.size = 3; /* one is outside: on another host */
    assert_false(is_polls(&s, 1, &s));
    s.job.size = INSPECT_NOBODY; /* jobs that were joined */
    assert_false(is_polls(&s, 1, &s));
}

/* Each of the looks counts. */
static void test_polls_in_each_look(UNUSED void **state)
{
    struct scene good, bad;
    enum inspect_node nodes[RANKS];

    poll_and_receive(&good, "MPI_Test");
    poll_and_receive(&bad, "MPI_Test");
    be_quiet(&good, QUIET);
    bad.ranks[0].state.call[0] = '\0'; /* it was in no call */
    for (uint32_t at = 0; at < 3; at++) {
        struct inspect_job looks[3] = {good.job, good.job, good.job};

        assert_true(inspect_only_polls(looks, 3, &good.job, QUIET, nodes));
        looks[at] = bad.job;
        assert_false(inspect_only_polls(looks, 3, &good.job, QUIET, nodes));
    }
}

static void test_poll_rate(UNUSED void **state)
{
    struct scene before, now;

    poll_and_receive(&before, "MPI_Iprobe");
    poll_and_receive(&now, "MPI_Iprobe");
    now.ranks[0].state.now_ns = 500000000;
    assert_int_equal(inspect_poll_rate(&before.ranks[0], &now.ranks[0]), 0);
    now.entries[0][0].count = 30;
    assert_int_equal(inspect_poll_rate(&before.ranks[0], &now.ranks[0]), 60);
    before.ranks[0].state.now_ns = 500000000; /* no time has passed */
    assert_int_equal(inspect_poll_rate(&before.ranks[0], &now.ranks[0]), 0);
    poll_and_receive(&before, "MPI_Test");
    poll_and_receive(&now, "MPI_Test");
    now.ranks[0].state.now_ns = 2000000000;
    now.ranks[0].state.checks = 10;
    assert_int_equal(inspect_poll_rate(&before.ranks[0], &now.ranks[0]),
                     5 * INSPECT_CHECK_ROUNDS);
    before.ranks[0].state.checks = 11; /* a page may hold anything */
    assert_int_equal(inspect_poll_rate(&before.ranks[0], &now.ranks[0]), 0);
}

/* A process of another job may send, except in MPI_COMM_WORLD and MPI_COMM_SELF. */
static void test_other_jobs(UNUSED void **state)
{
    struct scene s;

    for (uint32_t context = 0; context < 4; context++) {
        BEGIN(&s, "MPI_Recv", "MPI_Recv");
        add(&s, 0, INSPECT_POSTED, INSPECT_NOBODY, 7, 1)->context_id = context;
        add(&s, 1, INSPECT_POSTED, 0, 7, 1);
        assert_string_equal(verdict(&s, &s), "dd");
        s.ranks[1].state.flags = INSPECT_STATE_OTHERS;
        assert_string_equal(verdict(&s, &s), context <= 1 ? "dd" : "aa");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_jobs),
        cmocka_unit_test(test_polls),
        cmocka_unit_test(test_polls_for_several),
        cmocka_unit_test(test_polls_from_any_source),
        cmocka_unit_test(test_polls_in_two_looks),
        cmocka_unit_test(test_verdict_of_polls),
        cmocka_unit_test(test_polls_of_a_part),
        cmocka_unit_test(test_polls_in_each_look),
        cmocka_unit_test(test_poll_rate),
        cmocka_unit_test(test_all_or_any),
        cmocka_unit_test(test_waits_for_no_message),
        cmocka_unit_test(test_what_is_not_awaited),
        cmocka_unit_test(test_what_fits_besides),
        cmocka_unit_test(test_any_and_a_collective),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_other_sides),
        cmocka_unit_test(test_itself),
        cmocka_unit_test(test_two_looks),
        cmocka_unit_test(test_ranks_that_are_not_known),
        cmocka_unit_test(test_several_of_a_rank),
        cmocka_unit_test(test_ranks_of_two_hosts),
        cmocka_unit_test(test_under_way),
        cmocka_unit_test(test_under_way_with_rendezvous),
        cmocka_unit_test(test_what_fits),
        cmocka_unit_test(test_probed),
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_what_moves),
        cmocka_unit_test(test_sources_in_tags),
        cmocka_unit_test(test_sources_of_a_node),
        cmocka_unit_test(test_other_threads),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_threads_in_mpi),
        cmocka_unit_test(test_sleepers_that_are_woken),
        cmocka_unit_test(test_threads_that_come_and_go),
        cmocka_unit_test(test_threads_that_have_communicated),
        cmocka_unit_test(test_certain_in_part),
        cmocka_unit_test(test_waits_through_ucp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
