/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.c - see history.h.
 */
#include "match/history.h"

#include <string.h>

#include "base/mem.h"
#include "match/take.h"

#define ALWAYS_CHECKED 64 /* operations */

enum { NOBODY = ANSWER_NOBODY, BROKEN = ANSWER_BROKEN };

void history_begin(struct history_run *run, const struct mbx_match_options *options, int ids)
{
    mbx_match_init(&run->m, options);
    oracle_init(&run->oracle);
    run->want = (struct mbx_match_counters){0};
    run->live = mem_live();
    run->why = NULL;
    memset(run->recvs, 0, sizeof run->recvs[0] * (size_t)ids);
    memset(run->msgs, 0, sizeof run->msgs[0] * (size_t)ids);
}

void history_end(struct history_run *run)
{
    mbx_match_fini(&run->m);
}

static int recv_id(const struct history_run *run, const struct mbx_match_recv *recv)
{
    return recv == NULL ? NOBODY : (int)(recv - run->recvs);
}

static int msg_id(const struct history_run *run, const struct mbx_match_msg *msg)
{
    return msg == NULL ? NOBODY : (int)(msg - run->msgs);
}

/* mbx_match_first() must have found the same receive before. */
static int do_find(struct history_run *run, const struct op *op)
{
    const struct mbx_match_recv *first = mbx_match_first(&run->m, &op->envelope);
    int id = recv_id(run, mbx_match_find(&run->m, &op->envelope));

    return recv_id(run, first) == id ? id : BROKEN;
}

static struct mbx_match_recv *make_recv(struct history_run *run, const struct op *op)
{
    struct mbx_match_recv *recv = &run->recvs[op->id];

    recv->envelope = op->envelope;
    recv->ignore = op->ignore;
    return recv;
}

static struct mbx_match_msg *make_msg(struct history_run *run, const struct op *op)
{
    struct mbx_match_msg *msg = &run->msgs[op->id];

    msg->envelope = op->envelope;
    return msg;
}

/* The answer of a verb that returned err: none may fail, even without memory. */
static int answer_of(int err, int id)
{
    return err == 0 ? id : BROKEN;
}

static int do_post(struct history_run *run, const struct op *op)
{
    struct mbx_match_recv *recv = make_recv(run, op);
    struct mbx_match_msg *met = NULL;
    int err = mbx_match_post(&run->m, recv, &met);

    return answer_of(err, msg_id(run, met));
}

static int do_arrive(struct history_run *run, const struct op *op)
{
    struct mbx_match_msg *msg = make_msg(run, op);
    struct mbx_match_recv *met = NULL;
    int err = mbx_match_arrive(&run->m, msg, &met);

    return answer_of(err, recv_id(run, met));
}

static int do_meet(struct history_run *run, const struct op *op)
{
    int id = recv_id(run, mbx_match_find(&run->m, &op->envelope));

    return id == NOBODY ? do_arrive(run, op) : id;
}

static int do_keep(struct history_run *run, const struct op *op)
{
    int id = recv_id(run, mbx_match_find(&run->m, &op->envelope));
    struct mbx_match_msg *msg = make_msg(run, op);

    return id == NOBODY ? answer_of(mbx_match_keep(&run->m, msg), NOBODY) : id;
}

static int do_probe(struct history_run *run, const struct op *op)
{
    struct mbx_match_msg *msg = mbx_match_peek(&run->m, &op->envelope, op->ignore);

    if (msg == NULL)
        return NOBODY;
    return mbx_match_extract(&run->m, msg) ? msg_id(run, msg) : BROKEN;
}

/* The calls of `fits` by mbx_match_take(): the last message, and the number of calls. */
struct asked {
    const struct mbx_match_msg *msg;
    int times;
    bool fits;
};

static bool on_asked(const void *arg, const struct mbx_match_msg *msg)
{
    struct asked *asked = *(struct asked *const *)arg;

    asked->msg = msg;
    asked->times++;
    return asked->fits;
}

/* A first test that answers only for messages that fit; on_asked() has to be called for the
 * others. */
static bool on_asked_soon(const void *arg, const struct mbx_match_msg *msg)
{
    return (*(struct asked *const *)arg)->fits && on_asked(arg, msg);
}

static struct mbx_match_msg *take_glance(struct mbx_match *m, struct match_key key,
                                         struct match_mask mask, mbx_match_fits_fn *fits,
                                         const void *arg)
{
    return match_take_glance(m, key, mask, on_asked_soon, fits, arg);
}

/* Calls the function of the public header, or, for every other tag, the one for callers inside
 * the library. */
static struct mbx_match_msg *history_take(struct history_run *run, const struct op *op,
                                          struct asked *asked)
{
    if (op->envelope.tag % 2 != 0)
        return match_take(&run->m, &op->envelope, op->ignore, on_asked, &asked, take_glance);
    return mbx_match_take(&run->m, &op->envelope, op->ignore, on_asked, &asked);
}

/* `fits` was called once for the message that is taken, and not for others. */
static int do_take(struct history_run *run, const struct op *op)
{
    struct asked asked = {.fits = true};
    const struct mbx_match_msg *taken = history_take(run, op, &asked);

    return taken == asked.msg && asked.times == (taken != NULL) ? msg_id(run, taken) : BROKEN;
}

/* The message that did not fit is taken by the receive that is posted next. */
static int do_try(struct history_run *run, const struct op *op)
{
    struct asked asked = {.fits = false};
    const struct mbx_match_msg *taken = history_take(run, op, &asked);
    int id = do_post(run, op);

    return taken == NULL && msg_id(run, asked.msg) == id && asked.times == (id != NOBODY)
               ? id
               : BROKEN;
}

static void do_post_many(struct history_run *run, const struct op *ops, size_t count,
                         int *answers)
{
    struct mbx_match_recv *recvs[HISTORY_MAX];
    struct mbx_match_msg *met[HISTORY_MAX];
    size_t done;

    for (size_t i = 0; i < count; i++)
        recvs[i] = make_recv(run, &ops[i]);
    done = mbx_match_post_many(&run->m, recvs, met, count);
    for (size_t i = 0; i < count; i++)
        answers[i] = i < done ? msg_id(run, met[i]) : BROKEN;
}

static void do_arrive_many(struct history_run *run, const struct op *ops, size_t count,
                           int *answers)
{
    struct mbx_match_msg *msgs[HISTORY_MAX];
    struct mbx_match_recv *met[HISTORY_MAX];
    size_t done;

    for (size_t i = 0; i < count; i++)
        msgs[i] = make_msg(run, &ops[i]);
    done = mbx_match_arrive_many(&run->m, msgs, met, count);
    for (size_t i = 0; i < count; i++)
        answers[i] = i < done ? recv_id(run, met[i]) : BROKEN;
}

/* The engine's answers to ops[0 .. count), which are one call. */
static void engine_answers(struct history_run *run, const struct op *ops, int count,
                           int *answers)
{
    const struct op *op = &ops[0];

    switch (op->kind) {
    case OP_POST:
        *answers = do_post(run, op);
        break;
    case OP_ARRIVE:
        *answers = do_arrive(run, op);
        break;
    case OP_POST_MANY:
        do_post_many(run, ops, (size_t)count, answers);
        break;
    case OP_ARRIVE_MANY:
        do_arrive_many(run, ops, (size_t)count, answers);
        break;
    case OP_FIND:
        *answers = do_find(run, op);
        break;
    case OP_MEET:
        *answers = do_meet(run, op);
        break;
    case OP_KEEP:
        *answers = do_keep(run, op);
        break;
    case OP_PEEK:
        *answers = msg_id(run, mbx_match_peek(&run->m, &op->envelope, op->ignore));
        break;
    case OP_PROBE:
        *answers = do_probe(run, op);
        break;
    case OP_CANCEL:
        *answers = mbx_match_cancel(&run->m, &run->recvs[op->target]);
        break;
    case OP_EXTRACT:
        *answers = mbx_match_extract(&run->m, &run->msgs[op->target]);
        break;
    case OP_TAKE:
        *answers = do_take(run, op);
        break;
    case OP_TRY:
        *answers = do_try(run, op);
        break;
    case OP_KINDS:
        *answers = BROKEN;
        break;
    }
}

int history_oracle_answer(struct oracle *o, const struct op *op)
{
    int id;

    switch (op->kind) {
    case OP_POST:
    case OP_POST_MANY:
    case OP_TRY:
        return oracle_post(o, op->envelope, op->ignore, op->id);
    case OP_ARRIVE:
    case OP_ARRIVE_MANY:
    case OP_MEET:
    case OP_KEEP:
        return oracle_arrive(o, op->envelope, op->id);
    case OP_FIND:
        return oracle_find(o, op->envelope);
    case OP_PEEK:
        return oracle_peek(o, op->envelope, op->ignore);
    case OP_PROBE:
    case OP_TAKE:
        id = oracle_peek(o, op->envelope, op->ignore);
        oracle_extract(o, id);
        return id;
    case OP_CANCEL:
        return oracle_cancel(o, op->target);
    case OP_EXTRACT:
        return oracle_extract(o, op->target);
    case OP_KINDS:
        break;
    }
    return BROKEN;
}

/* Updates the expected counters after op had the oracle's answer. */
static void history_count(struct mbx_match_counters *want, const struct oracle *o,
                          const struct op *op, int answer)
{
    bool met = answer != NOBODY;

    switch (op->kind) {
    case OP_POST:
    case OP_POST_MANY:
    case OP_TRY:
        want->searches++; /* a search for a message that does not fit is not counted */
        want->posted++;
        want->met_posts += met;
        want->matched_arrivals += met;
        break;
    case OP_ARRIVE:
    case OP_ARRIVE_MANY:
    case OP_MEET:
    case OP_KEEP:
        want->searches += op->kind == OP_MEET && !met ? 2 : 1; /* the arrival searches again */
        want->arrived++;
        want->met_arrivals += met;
        want->matched_posts += met;
        break;
    case OP_FIND:
        want->searches++;
        want->arrived += met;
        want->met_arrivals += met;
        want->matched_posts += met;
        break;
    case OP_TAKE:
        want->searches += met;
        want->posted += met;
        want->met_posts += met;
        want->matched_arrivals += met;
        break;
    case OP_PROBE:
        want->searches++;
        want->extracted += met;
        break;
    case OP_CANCEL:
        want->cancelled += (uint64_t)answer;
        break;
    case OP_EXTRACT:
        want->extracted += (uint64_t)answer;
        break;
    case OP_PEEK:
        want->searches++;
        break;
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

/* The number of ops[0 .. count) in the first call. */
static int call_length(const struct op *ops, int count)
{
    int length = 1;

    if (ops[0].kind == OP_POST_MANY || ops[0].kind == OP_ARRIVE_MANY)
        while (length < count && ops[length].kind == ops[0].kind)
            length++;
    return length;
}

/* Does the oracle give the same answer to op? */
static bool agrees(struct history_run *run, const struct op *op, int answer)
{
    run->got = answer;
    run->expected = history_oracle_answer(&run->oracle, op);
    history_count(&run->want, &run->oracle, op, run->expected);
    if (run->got == run->expected)
        return true;
    run->why = "the answers differ";
    return false;
}

/* Runs one call, of ops[0] and perhaps more, on both sides.  Adds the number of equal answers
 * to *done. */
static bool do_call(struct history_run *run, const struct op *ops, int count, int *done)
{
    int answers[HISTORY_MAX];
    int length = call_length(ops, count);

    engine_answers(run, ops, length, answers);
    for (int i = 0; i < length; i++, ++*done)
        if (!agrees(run, &ops[i], answers[i]))
            return false;
    return true;
}

bool history_do(struct history_run *run, const struct op *op)
{
    int done = 0;

    return do_call(run, op, 1, &done);
}

/* The walk is bounded: it stops at the first entry that the oracle does not have. */
static bool recvs_agree(const struct history_run *run)
{
    const struct oracle_queue *want = &run->oracle.recvs;
    const struct mbx_match_recv *recv = NULL;

    for (int i = 0; i < want->count; i++)
        if (recv_id(run, recv = mbx_match_next_recv(&run->m, recv)) != want->entries[i].id)
            return false;
    return mbx_match_next_recv(&run->m, recv) == NULL;
}

static bool msgs_agree(const struct history_run *run)
{
    const struct oracle_queue *want = &run->oracle.msgs;
    const struct mbx_match_msg *msg = NULL;

    for (int i = 0; i < want->count; i++)
        if (msg_id(run, msg = mbx_match_next_msg(&run->m, msg)) != want->entries[i].id)
            return false;
    return mbx_match_next_msg(&run->m, msg) == NULL;
}

/* The steps of searches are not compared: no rule fixes their number. */
static bool counters_agree(const struct mbx_match_counters *got,
                           const struct mbx_match_counters *want)
{
    return got->posted == want->posted && got->arrived == want->arrived &&
           got->matched_posts == want->matched_posts &&
           got->matched_arrivals == want->matched_arrivals &&
           got->met_posts == want->met_posts && got->met_arrivals == want->met_arrivals &&
           got->cancelled == want->cancelled && got->extracted == want->extracted &&
           got->recvs == want->recvs && got->recvs_max == want->recvs_max &&
           got->msgs == want->msgs && got->msgs_max == want->msgs_max &&
           got->searches == want->searches;
}

bool history_check(struct history_run *run)
{
    struct mbx_match_counters got;

    mbx_match_counters_get(&run->m, &got);
    if (!recvs_agree(run))
        run->why = "the receive queues differ";
    else if (!msgs_agree(run))
        run->why = "the message queues differ";
    else if (!counters_agree(&got, &run->want))
        run->why = "the counters are wrong";
    else if ((mbx_match_memory(&run->m) != 0) != (mem_live() != run->live))
        run->why = "mbx_match_memory() is wrong";
    else if (!mbx_match_is_valid(&run->m))
        run->why = "mbx_match_is_valid() is false";
    return run->why == NULL;
}

/* A check costs as much as the queues hold, so a long history is checked less often, but always
 * at its end, where a shorter one must still fail. */
static bool is_checked(const struct history *h, int done)
{
    return done <= ALWAYS_CHECKED || done % 8 == 0 || done == h->count;
}

/* Runs all of h, which has begun. */
static int replay(struct history_run *run, const struct history *h)
{
    for (int i = 0, done; i < h->count; i += done) {
        done = 0;
        if (!do_call(run, &h->ops[i], h->count - i, &done))
            return i + done;
        if (is_checked(h, i + done) && !history_check(run))
            return i + done - 1; /* the last operation that was run */
    }
    return -1;
}

int history_replay(struct history_run *run, const struct history *h)
{
    int wrong;

    history_begin(run, &h->options, HISTORY_MAX);
    mem_fail_at(h->fail_at);
    wrong = replay(run, h);
    run->has_failed = h->fail_at != 0 && mem_fail_left() == 0;
    mem_fail_at(0);
    history_end(run);
    if (wrong < 0 && mem_live() != run->live) {
        run->why = "memory is lost";
        wrong = h->count - 1;
    }
    return wrong;
}

/* ---- shrinking ------------------------------------------------------------- */

static struct history without(const struct history *h, int first, int count)
{
    struct history shorter = *h;

    shorter.count -= count;
    memmove(&shorter.ops[first], &shorter.ops[first + count],
            sizeof shorter.ops[0] * (size_t)(shorter.count - first));
    return shorter;
}

/* Drops these operations of h, and all after the failure, if h still fails without them. */
static bool drop(struct history *h, int first, int count, history_fails_fn *fails, void *arg)
{
    struct history shorter = without(h, first, count);
    int last = fails(arg, &shorter);

    if (last < 0)
        return false;
    shorter.count = last + 1;
    *h = shorter;
    return true;
}

/* Drops all runs of this length that can be dropped. */
static bool drop_runs(struct history *h, int length, history_fails_fn *fails, void *arg)
{
    bool dropped = false;

    for (int i = h->count - length; i >= 0; i -= length)
        if (i + length <= h->count && drop(h, i, length, fails, arg))
            dropped = true;
    return dropped;
}

/* Drops two operations that can only be dropped together, such as a receive and the message
 * that it matched. */
static bool drop_pair(struct history *h, history_fails_fn *fails, void *arg)
{
    for (int i = h->count - 1; i > 0; i--) {
        struct history shorter = without(h, i, 1);

        for (int j = i - 1; j >= 0; j--) {
            if (drop(&shorter, j, 1, fails, arg)) {
                *h = shorter;
                return true;
            }
        }
    }
    return false;
}

void history_shrink(struct history *h, history_fails_fn *fails, void *arg)
{
    h->count = fails(arg, h) + 1;
    for (int length = h->count / 2; length > 1; length /= 2)
        drop_runs(h, length, fails, arg);
    while (drop_runs(h, 1, fails, arg) || drop_pair(h, fails, arg))
        ;
}

static int replay_fails(void *arg, const struct history *h)
{
    return history_replay(arg, h);
}

void history_report(struct history *h, const char *label, unsigned long long number)
{
    struct history_run run;
    const struct op *last;

    history_shrink(h, replay_fails, &run);
    fprintf(stderr, "FAIL %s %llu, shortest history:\n", label, number);
    history_print(stderr, h);
    history_replay(&run, h);
    last = &h->ops[h->count - 1];
    fprintf(stderr, "# %s", run.why);
    if (run.got != run.expected) {
        fprintf(stderr, ": engine ");
        history_print_answer(stderr, h, last, run.got);
        fprintf(stderr, ", oracle ");
        history_print_answer(stderr, h, last, run.expected);
    }
    fprintf(stderr, "\n");
}
