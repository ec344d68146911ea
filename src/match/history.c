/* SPDX-License-Identifier: BSD-3-Clause */
#include "match/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NOBODY = -1, BROKEN = -2 }; /* BROKEN: an answer that the contract does not allow */

void history_begin(struct history_run *run, uint64_t first_seq, int ids)
{
    match_init(&run->m, &(struct match_options){.first_seq = first_seq});
    oracle_init(&run->oracle);
    run->want = (struct match_counters){0};
    run->why = NULL;
    memset(run->recvs, 0, sizeof run->recvs[0] * (size_t)ids);
    memset(run->msgs, 0, sizeof run->msgs[0] * (size_t)ids);
}

static int recv_id(const struct history_run *run, const struct match_recv *recv)
{
    return recv == NULL ? NOBODY : (int)(recv - run->recvs);
}

static int msg_id(const struct history_run *run, const struct match_msg *msg)
{
    return msg == NULL ? NOBODY : (int)(msg - run->msgs);
}

static int do_post(struct history_run *run, const struct op *op)
{
    struct match_recv *recv = &run->recvs[op->id];
    struct match_msg *met;

    recv->envelope = op->envelope;
    recv->ignore = op->ignore;
    return match_post(&run->m, recv, &met) == 0 ? msg_id(run, met) : BROKEN;
}

static int do_arrive(struct history_run *run, const struct op *op)
{
    struct match_msg *msg = &run->msgs[op->id];
    struct match_recv *met;

    msg->envelope = op->envelope;
    return match_arrive(&run->m, msg, &met) == 0 ? recv_id(run, met) : BROKEN;
}

static int do_meet(struct history_run *run, const struct op *op)
{
    int id = recv_id(run, match_find(&run->m, &op->envelope));

    return id == NOBODY ? do_arrive(run, op) : id;
}

static int do_probe(struct history_run *run, const struct op *op)
{
    struct match_msg *msg = match_peek(&run->m, &op->envelope, op->ignore);

    if (msg == NULL)
        return NOBODY;
    return match_claim(&run->m, msg) ? msg_id(run, msg) : BROKEN;
}

static int engine_answer(struct history_run *run, const struct op *op)
{
    switch (op->kind) {
    case OP_POST:
        return do_post(run, op);
    case OP_ARRIVE:
        return do_arrive(run, op);
    case OP_FIND:
        return recv_id(run, match_find(&run->m, &op->envelope));
    case OP_MEET:
        return do_meet(run, op);
    case OP_PEEK:
        return msg_id(run, match_peek(&run->m, &op->envelope, op->ignore));
    case OP_PROBE:
        return do_probe(run, op);
    case OP_CANCEL:
        return match_cancel(&run->m, &run->recvs[op->target]);
    case OP_CLAIM:
        return match_claim(&run->m, &run->msgs[op->target]);
    case OP_KINDS:
        break;
    }
    return BROKEN;
}

static int oracle_answer(struct oracle *o, const struct op *op)
{
    int id;

    switch (op->kind) {
    case OP_POST:
        return oracle_post(o, op->envelope, op->ignore, op->id);
    case OP_ARRIVE:
    case OP_MEET:
        return oracle_arrive(o, op->envelope, op->id);
    case OP_FIND:
        return oracle_find(o, op->envelope);
    case OP_PEEK:
        return oracle_peek(o, op->envelope, op->ignore);
    case OP_PROBE:
        id = oracle_peek(o, op->envelope, op->ignore);
        oracle_claim(o, id);
        return id;
    case OP_CANCEL:
        return oracle_cancel(o, op->target);
    case OP_CLAIM:
        return oracle_claim(o, op->target);
    case OP_KINDS:
        break;
    }
    return BROKEN;
}

/* What the counters must say after op got the oracle's answer. */
static void count(struct match_counters *want, const struct oracle *o, const struct op *op,
                  int answer)
{
    bool met = answer != NOBODY;

    switch (op->kind) {
    case OP_POST:
        want->posted++;
        want->met_posts += met;
        want->matched_arrivals += met;
        break;
    case OP_ARRIVE:
    case OP_MEET:
        want->arrived++;
        want->met_arrivals += met;
        want->matched_posts += met;
        break;
    case OP_FIND:
        want->arrived += met;
        want->met_arrivals += met;
        want->matched_posts += met;
        break;
    case OP_PROBE:
        want->claimed += met;
        break;
    case OP_CANCEL:
        want->cancelled += (uint64_t)answer;
        break;
    case OP_CLAIM:
        want->claimed += (uint64_t)answer;
        break;
    case OP_PEEK:
    case OP_KINDS:
        break;
    }
    want->recvs = (uint64_t)o->recvs.count;
    want->msgs = (uint64_t)o->msgs.count;
    if (want->recvs > want->recvs_max)
        want->recvs_max = want->recvs;
    if (want->msgs > want->msgs_max)
        want->msgs_max = want->msgs;
}

bool history_do(struct history_run *run, const struct op *op)
{
    run->got = engine_answer(run, op);
    run->expected = oracle_answer(&run->oracle, op);
    count(&run->want, &run->oracle, op, run->expected);
    if (run->got == run->expected)
        return true;
    run->why = "the answers differ";
    return false;
}

/* The walk cannot run away: it stops at the first entry that the oracle does not have. */
static bool recvs_agree(const struct history_run *run)
{
    const struct oracle_queue *want = &run->oracle.recvs;
    const struct match_recv *recv = NULL;

    for (int i = 0; i < want->count; i++)
        if (recv_id(run, recv = match_next_recv(&run->m, recv)) != want->entries[i].id)
            return false;
    return match_next_recv(&run->m, recv) == NULL;
}

static bool msgs_agree(const struct history_run *run)
{
    const struct oracle_queue *want = &run->oracle.msgs;
    const struct match_msg *msg = NULL;

    for (int i = 0; i < want->count; i++)
        if (msg_id(run, msg = match_next_msg(&run->m, msg)) != want->entries[i].id)
            return false;
    return match_next_msg(&run->m, msg) == NULL;
}

/* The searches are the engine's own affair: how many it compares is not a rule. */
static bool counters_agree(const struct match_counters *got, const struct match_counters *want)
{
    return got->posted == want->posted && got->arrived == want->arrived &&
           got->matched_posts == want->matched_posts &&
           got->matched_arrivals == want->matched_arrivals &&
           got->met_posts == want->met_posts && got->met_arrivals == want->met_arrivals &&
           got->cancelled == want->cancelled && got->claimed == want->claimed &&
           got->recvs == want->recvs && got->recvs_max == want->recvs_max &&
           got->msgs == want->msgs && got->msgs_max == want->msgs_max;
}

bool history_check(struct history_run *run)
{
    if (!recvs_agree(run))
        run->why = "the receive queues differ";
    else if (!msgs_agree(run))
        run->why = "the message queues differ";
    else if (!counters_agree(&run->m.count, &run->want))
        run->why = "the counters are wrong";
    else if (!match_is_valid(&run->m))
        run->why = "match_is_valid() is false";
    return run->why == NULL;
}

int history_replay(struct history_run *run, const struct history *h)
{
    history_begin(run, h->first_seq, HISTORY_MAX);
    for (int i = 0; i < h->count; i++)
        if (!history_do(run, &h->ops[i]) || !history_check(run))
            return i;
    return -1;
}

static struct history without(const struct history *h, int i)
{
    struct history shorter = *h;

    shorter.count--;
    memmove(&shorter.ops[i], &shorter.ops[i + 1],
            sizeof shorter.ops[0] * (size_t)(shorter.count - i));
    return shorter;
}

/* Becomes h with operation i dropped if that still fails. */
static bool drop(struct history *h, int i)
{
    struct history shorter = without(h, i);
    struct history_run run;

    if (history_replay(&run, &shorter) < 0)
        return false;
    *h = shorter;
    return true;
}

static bool drop_one(struct history *h)
{
    for (int i = h->count - 1; i >= 0; i--)
        if (drop(h, i))
            return true;
    return false;
}

/* Two that only go together, such as a receive and the message that it met. */
static bool drop_pair(struct history *h)
{
    for (int i = h->count - 1; i > 0; i--) {
        struct history shorter = without(h, i);

        for (int j = i - 1; j >= 0; j--) {
            if (drop(&shorter, j)) {
                *h = shorter;
                return true;
            }
        }
    }
    return false;
}

void history_shrink(struct history *h)
{
    struct history_run run;

    do
        h->count = history_replay(&run, h) + 1;
    while (drop_one(h) || drop_pair(h));
}

/* Where in h the operation with this id stands, or -1. */
static int position(const struct history *h, int id)
{
    for (int i = 0; i < h->count; i++)
        if (h->ops[i].id == id)
            return i;
    return -1;
}

static void print_envelope(const struct op *op)
{
    fprintf(stderr, " ctx %" PRIu32, op->envelope.context_id);
    if (op->envelope.source == MATCH_ANY_SOURCE)
        fprintf(stderr, " src any");
    else
        fprintf(stderr, " src %" PRIu32, op->envelope.source);
    fprintf(stderr, " tag 0x%" PRIx64, op->envelope.tag);
    if (op->ignore == UINT64_MAX)
        fprintf(stderr, " any-tag");
    else if (op->ignore != 0)
        fprintf(stderr, " ignore 0x%" PRIx64, op->ignore);
}

static void print_op(const struct history *h, int i)
{
    static const char *const names[OP_KINDS] = {
        [OP_POST] = "post",     [OP_ARRIVE] = "arrive", [OP_FIND] = "find",
        [OP_MEET] = "meet",     [OP_PEEK] = "peek",     [OP_PROBE] = "probe",
        [OP_CANCEL] = "cancel", [OP_CLAIM] = "claim",
    };
    const struct op *op = &h->ops[i];

    fprintf(stderr, "  %d %-6s", i, names[op->kind]);
    if (op->kind != OP_CANCEL && op->kind != OP_CLAIM)
        print_envelope(op);
    else if (position(h, op->target) >= 0)
        fprintf(stderr, " %d", position(h, op->target));
    else
        fprintf(stderr, " what was never queued");
    fprintf(stderr, "\n");
}

/* An answer in words: an id is said as its position in h. */
static void print_answer(const struct history *h, const struct op *op, int answer)
{
    if (answer == BROKEN)
        fprintf(stderr, "an error");
    else if (op->kind == OP_CANCEL || op->kind == OP_CLAIM)
        fprintf(stderr, "%s", answer ? "taken back" : "refused");
    else if (answer == NOBODY)
        fprintf(stderr, "nobody");
    else
        fprintf(stderr, "%d", position(h, answer));
}

void history_report(struct history *h, const char *label, unsigned long long number)
{
    struct history_run run;
    const struct op *last;

    history_shrink(h);
    fprintf(stderr, "FAIL %s %llu, shortest history:\n", label, number);
    for (int i = 0; i < h->count; i++)
        print_op(h, i);
    if (h->first_seq != 0)
        fprintf(stderr, "  first_seq 0x%" PRIx64 "\n", h->first_seq);
    history_replay(&run, h);
    last = &h->ops[h->count - 1];
    fprintf(stderr, "  %s", run.why);
    if (run.got != run.expected) {
        fprintf(stderr, ": engine ");
        print_answer(h, last, run.got);
        fprintf(stderr, ", oracle ");
        print_answer(h, last, run.expected);
    }
    fprintf(stderr, "\n");
}
