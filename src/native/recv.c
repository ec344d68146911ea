/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c - receives and probes.
 *
 * A receive that ignores bits of the tag, or takes any source, is recorded with the message that it got.  The replay posts
 * it with the source and tag of this message, and ignores no bit.  So the argument of docs/same-answer.md#how-it-works
 * holds: all receives with one source and tag are exact, and get the messages in the order of the sends.
 *
 * A record has the source and the lower half of the tag.  If bits of the upper half are ignored, that half follows as an item
 * of its own.
 */
#include <sched.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"
#include "native/native.h"

/* A withheld receive has a handle, and can be cancelled.  So the library gets a receive from this rank itself with this
 * context id, the last one, and a random tag. */
#define NOWHERE MBX_CONTEXT_MAX

struct message {
    uint32_t source;
    uint64_t tag;
};

/* ---- in a record ---- */

static bool is_wild(const struct envelope *asked)
{
    return asked->source == MBX_ANY_SOURCE || asked->ignore != 0;
}

/* May the upper half of the message's tag differ from the one that was asked for? */
static bool is_wide(const struct envelope *asked)
{
    return asked->ignore >> 32 != 0;
}

/* A record has 32 bits of the tag, and a checksum of 4 bits for the whole tag and the ignored bits. */
static struct replay_signature signature_of(enum replay_kind kind, const struct envelope *asked)
{
    uint64_t wanted = asked->tag & ~asked->ignore;
    struct replay_signature now = {
        .kind = (uint8_t)kind,
        .comm = asked->context_id,
        .source = asked->source == MBX_ANY_SOURCE ? REPLAY_ANY : (int32_t)asked->source,
        .tag = asked->ignore == MBX_IGNORE_ALL ? REPLAY_ANY : (int32_t)(uint32_t)wanted};

    if (asked->ignore != MBX_IGNORE_ALL && (asked->ignore != 0 || wanted >> 32 != 0))
        now.requests = (uint8_t)(1 + hash_spread(asked->ignore ^ hash_spread(wanted)) %
                                         REPLAY_REQUESTS_MAX);
    return now;
}

static const struct replay_signature upper_half = {.kind = REPLAY_INDEX, .tag = 1};
static const struct replay_signature upper_half_of_recv = {.kind = REPLAY_MBX_RECV_TAG};

struct replay_outcome recv_outcome(uint32_t source, uint64_t tag, size_t size)
{
    return replay_message((int32_t)source, (int32_t)(uint32_t)tag, size);
}

struct replay_outcome recv_outcome_of_upper(uint64_t tag)
{
    return lane_outcome(REPLAY_VALUE, tag >> 32);
}

/* The message that the record names, with the upper half of its tag, which is read here.  False: the record names none, or
 * this call does not accept it. */
static bool message_of(struct lane *lane, const struct replay_signature *half,
                       const struct envelope *asked, const struct replay_outcome *outcome,
                       struct message *message)
{
    struct replay_outcome upper = {.value = asked->tag >> 32, .result = REPLAY_VALUE};

    if (is_wide(asked) && (outcome->result == REPLAY_MESSAGE || half == &upper_half_of_recv) &&
        !lane_replays(lane, half, &upper))
        return false;
    if (outcome->result != REPLAY_MESSAGE)
        return false;
    *message = (struct message){.source = (uint32_t)replay_source(outcome),
                                .tag = upper.value << 32 | (uint32_t)replay_tag(outcome)};
    return upper.result == REPLAY_VALUE && upper.value <= UINT32_MAX &&
           message->source < lane->size &&
           (asked->source == MBX_ANY_SOURCE || asked->source == message->source) &&
           ((asked->tag ^ message->tag) & ~asked->ignore) == 0;
}

/* ---- receives ---- */

/* How a receive is carried out. */
struct plan {
    struct envelope post;
    struct op op;
    bool is_withheld;
    enum withheld_why why;
    int result; /* < 0: nothing is posted, and the call returns this */
};

static void plan_recorded(struct lane *lane, struct plan *plan,
                          const struct replay_signature *now,
                          const struct replay_outcome *outcome)
{
    const struct envelope asked = plan->post;
    struct message message;
    bool is_found = message_of(lane, &upper_half_of_recv, &asked, outcome, &message);

    if (lane->events.is_free)
        return;
    if (is_found)
        plan->post =
            (struct envelope){message.source, asked.context_id, message.tag, .ignore = 0};
    else if (outcome->result == REPLAY_OPEN || outcome->result == REPLAY_CANCELLED) {
        plan->is_withheld = !replay_judge_is_over(lane->events.judge);
        plan->why = outcome->result == REPLAY_OPEN ? WITHHELD_OPEN : WITHHELD_CANCELLED;
    } else if (outcome->result != REPLAY_ERROR ||
               !lane_result_of_outcome(outcome, &plan->result))
        lane_refuse(lane, now, lane_why_not(lane, outcome));
}

/* A receive without wildcards is not in the record. */
static void plan_exact(struct lane *lane, struct plan *plan)
{
    plan->op.event = ++lane->receives;
    if (!lane_is_replaying(lane))
        return;
    if (replay_judge_is_cancelled(lane->events.judge, lane->receives)) {
        plan->is_withheld = true;
    } else if (replay_judge_is_cut(lane->events.judge) && op_is_later(lane, &plan->post)) {
        plan->is_withheld = true;
        plan->why = WITHHELD_LATER;
    }
}

static struct plan plan_of(struct lane *lane, const struct envelope *asked)
{
    struct plan plan = {.post = *asked, .op = {.kind = OP_EXACT}};
    struct replay_signature now = signature_of(REPLAY_MBX_RECV, asked);
    struct replay_outcome outcome;

    if (!is_wild(asked)) {
        plan_exact(lane, &plan);
        return plan;
    }
    plan.op.kind = OP_WILD;
    plan.op.is_wide = is_wide(asked);
    if (lane_replays(lane, &now, &outcome))
        plan_recorded(lane, &plan, &now, &outcome);
    plan.op.event = replay_lane_post(&lane->events, &now);
    if (plan.op.is_wide)
        lane_record_post_upper(lane, &upper_half_of_recv);
    return plan;
}

/* Withholds a receive: the library gets one that no message can match. */
static int post_nowhere(struct lane *lane, const struct plan *plan, void *buf, size_t size,
                        const struct mbx_options *options, struct op *op)
{
    const struct native_next *next = native_next();
    struct mbx_options own = {.user = options != NULL ? options->user : NULL};
    struct withheld *w = mem_calloc(1, sizeof *w);
    uint64_t tag;
    int err = w != NULL ? random_secret(&tag, sizeof tag) : -ENOMEM;

    if (err == 0)
        err = next->mbx_recv(lane->ep, lane->rank, NOWHERE, tag, 0, NULL, 0, &own, &op->handle);
    if (err < 0) {
        mem_free(w);
        return err;
    }
    *w = (struct withheld){.why = plan->why, .asked = plan->post, .buf = buf, .size = size};
    if (options != NULL)
        w->options = *options;
    if (options != NULL && options->flags & MBX_LAYOUT) {
        w->layout = *options->layout;
        w->options.layout = &w->layout;
    }
    op->withheld = w;
    return 0;
}

/* The call has failed, so no message will come. */
static void record_error(struct lane *lane, const struct plan *plan, int err)
{
    if (plan->op.event != 0 && plan->op.kind == OP_WILD)
        replay_lane_fill(&lane->events, plan->op.event, lane_outcome_of_result(err));
}

int recv_post(struct lane *lane, const struct envelope *asked, void *buf, size_t size,
              const struct mbx_options *options, mbx_request *request)
{
    struct plan plan = plan_of(lane, asked);
    const struct envelope *post = &plan.post;
    int err = plan.result;

    if (options != NULL && options->flags & MBX_SILENT && plan.op.kind == OP_WILD)
        lane_spoil(lane, "a receive of any source or of several tags has MBX_SILENT, so the "
                         "message that it gets is not known");
    if (err == 0 && plan.is_withheld)
        err = post_nowhere(lane, &plan, buf, size, options, &plan.op);
    else if (err == 0)
        err = native_next()->mbx_recv(lane->ep, post->source, post->context_id, post->tag,
                                      post->ignore, buf, size, options, &plan.op.handle);
    if (err < 0)
        record_error(lane, &plan, err);
    else if (plan.op.handle != 0 && !op_add(lane, plan.op))
        lane_spoil(lane, "no memory");
    if (err == 0 && request != NULL)
        *request = plan.op.handle;
    lane_event_ends(lane);
    return err;
}

/* ---- messages that have arrived ---- */

/* The program diverges if the message has another size than the recorded one. */
static void compare_size(struct lane *lane, const struct replay_signature *now,
                         const struct replay_outcome *then, const struct mbx_status *status)
{
    if (recv_outcome(status->source, status->tag, status->size).size_class != then->size_class)
        lane_refuse(lane, now, "its message has another size than the recorded one");
}

static void record_found(struct lane *lane, const struct envelope *asked,
                         const struct replay_signature *now, int result,
                         const struct mbx_status *status)
{
    if (result == -ENOTCONN || result == -EHOSTDOWN)
        lane_record(lane, now, lane_outcome(REPLAY_FAILED, 0));
    else if (result != 1)
        lane_record(lane, now, lane_outcome_of_result(result));
    else
        lane_record(lane, now, recv_outcome(status->source, status->tag, status->size));
    if (result == 1 && is_wide(asked))
        lane_record(lane, &upper_half, recv_outcome_of_upper(status->tag));
    lane_event_ends(lane);
}

/* How a call looks for a message in the replay. */
enum look {
    LOOK_FREELY, /* as without a record */
    LOOK_NOT,    /* it returns *result */
    LOOK_FOR     /* it waits for *message */
};

static enum look look(struct lane *lane, const struct envelope *asked,
                      const struct replay_signature *now, struct replay_outcome *outcome,
                      struct message *message, int *result)
{
    if (!lane_replays(lane, now, outcome))
        return LOOK_FREELY;
    if (lane_result_of_outcome(outcome, result))
        return LOOK_NOT;
    if (message_of(lane, &upper_half, asked, outcome, message))
        return LOOK_FOR;
    if (!lane->events.is_free)
        lane_refuse(lane, now, lane_why_not(lane, outcome));
    return LOOK_FREELY;
}

/* Receives the message, and waits: it may not have arrived yet, or some of its data may be missing. */
static int recv_take_message(struct lane *lane, uint32_t context_id,
                             const struct message *message, void *buf, size_t size,
                             struct mbx_status *status)
{
    const struct native_next *next = native_next();
    struct mbx_completion entry;
    mbx_request request;
    int err = next->mbx_recv(lane->ep, message->source, context_id, message->tag, 0, buf, size,
                             NULL, &request);

    while (err == 0 && (err = lane_wait(lane, request, &entry)) == -EINTR)
        err = 0;
    if (err < 0)
        return err;
    *status = entry.status;
    return entry.error < 0 ? entry.error : 1;
}

int recv_try(struct lane *lane, const struct envelope *asked, void *buf, size_t size,
             struct mbx_status *status)
{
    struct replay_signature now = signature_of(REPLAY_MBX_TRY_RECV, asked);
    struct mbx_status own, *out = status != NULL ? status : &own;
    struct replay_outcome outcome;
    struct message message;
    int result = 0;

    switch (look(lane, asked, &now, &outcome, &message, &result)) {
    case LOOK_FREELY:
        result = native_next()->mbx_try_recv(lane->ep, asked->source, asked->context_id,
                                             asked->tag, asked->ignore, buf, size, out);
        break;
    case LOOK_NOT:
        break;
    case LOOK_FOR:
        result = recv_take_message(lane, asked->context_id, &message, buf, size, out);
        if (result < 0)
            lane_refuse(lane, &now, "its message cannot be received here");
        else
            compare_size(lane, &now, &outcome, out);
        break;
    }
    record_found(lane, asked, &now, result, out);
    return result;
}

/* Probes once.  message: or NULL. */
static int probe(struct lane *lane, const struct envelope *asked, struct mbx_status *status,
                 mbx_message *message)
{
    const struct native_next *next = native_next();

    return message == NULL ? next->mbx_probe(lane->ep, asked->source, asked->context_id,
                                             asked->tag, asked->ignore, status)
                           : next->mbx_mprobe(lane->ep, asked->source, asked->context_id,
                                              asked->tag, asked->ignore, status, message);
}

static int probe_until_there(struct lane *lane, const struct envelope *asked,
                             struct mbx_status *status, mbx_message *message)
{
    int found, checks = 0;

    while ((found = probe(lane, asked, status, message)) == 0) {
        (void)lane_move_others(lane);
        if (++checks % LANE_CHECKS_BEFORE_YIELD == 0)
            sched_yield();
    }
    return found;
}

int recv_probe(struct lane *lane, const struct envelope *asked, struct mbx_status *status,
               mbx_message *matched)
{
    struct replay_signature now =
        signature_of(matched == NULL ? REPLAY_MBX_PROBE : REPLAY_MBX_MPROBE, asked);
    struct envelope exact = *asked;
    struct replay_outcome outcome;
    struct message message;
    int result = 0;

    switch (look(lane, asked, &now, &outcome, &message, &result)) {
    case LOOK_FREELY:
        result = probe(lane, asked, status, matched);
        break;
    case LOOK_NOT:
        (void)native_next()->mbx_progress(lane->ep);
        break;
    case LOOK_FOR:
        exact = (struct envelope){message.source, asked->context_id, message.tag, .ignore = 0};
        result = probe_until_there(lane, &exact, status, matched);
        if (result == 1)
            compare_size(lane, &now, &outcome, status);
        else
            lane_refuse(lane, &now, "its message cannot be found here");
        break;
    }
    record_found(lane, asked, &now, result, status);
    return result;
}
