/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - tests, waits, polls and cancels.
 *
 * In a replay, a call that returned "no" returns it again.  A call that returned "yes" waits for the recorded requests, and
 * takes only their entries.  A record names an entry of a queue by the number of its operation, counted back from the
 * operation that was started last.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/mem.h"
#include "native/native.h"

static struct replay_signature signature_of(enum replay_kind kind, int count)
{
    unsigned most = REPLAY_REQUESTS_MAX;

    return (struct replay_signature){
        .kind = (uint8_t)kind,
        .requests = (uint8_t)(count >= 0 && (unsigned)count < most ? (unsigned)count : most)};
}

bool wait_take(struct lane *lane, mbx_request handle, struct mbx_completion *entry)
{
    struct op *op = op_find(lane, handle);
    struct mbx_completion own, *out = entry != NULL ? entry : &own;
    int err;

    if (op == NULL || !op_can_end(lane, op))
        return false;
    do
        err = lane_wait(lane, op->real, out);
    while (err == -EINTR);
    if (err < 0)
        return false;
    op_reported(lane, out);
    return true;
}

/* ---- one request ---- */

/* The outcome of a test of one request, or of a wait for it with a timeout. */
static struct replay_outcome outcome_of_one(int result, int found, int not_yet,
                                            const struct mbx_completion *entry)
{
    if (result == found)
        return lane_outcome(op_has_failed(entry) ? REPLAY_FAILED : REPLAY_TRUE, 0);
    if (result == not_yet)
        return lane_outcome(REPLAY_FALSE, 0);
    return result == -EHOSTDOWN ? lane_outcome(REPLAY_FAILED, 0)
                                : lane_outcome_of_result(result);
}

/* True: *result is what the call returned in the record. */
static bool one_replayed(struct lane *lane, const struct replay_signature *now,
                         mbx_request handle, struct mbx_completion *completion, bool *is_found,
                         int *result)
{
    struct replay_outcome outcome;

    if (!lane_replays(lane, now, &outcome))
        return false;
    *is_found = outcome.result == REPLAY_TRUE;
    if (*is_found && wait_take(lane, handle, completion))
        return true;
    if (lane_result_of_outcome(&outcome, result)) {
        (void)native_next()->mbx_progress(lane->ep);
        return true;
    }
    lane_refuse(lane, now, lane_why_not(lane, &outcome));
    return false;
}

int wait_test(struct lane *lane, mbx_request handle, struct mbx_completion *completion)
{
    struct mbx_completion own, *out = completion != NULL ? completion : &own;
    struct replay_signature now = signature_of(REPLAY_MBX_TEST, 1);
    bool is_found;
    int result = 0;

    if (op_find(lane, handle) == NULL)
        return native_next()->mbx_test(lane->ep, handle, completion);
    if (one_replayed(lane, &now, handle, out, &is_found, &result)) {
        result = is_found ? 1 : result;
    } else {
        result = native_next()->mbx_test(lane->ep, op_real(lane, handle), out);
        if (result == 1)
            op_reported(lane, out);
    }
    lane_record(lane, &now, outcome_of_one(result, 1, 0, out));
    lane_event_ends(lane);
    return result;
}

/* A wait without a timeout is no event: it ends when the request is complete. */
static int wait_for_ever(struct lane *lane, mbx_request handle, struct mbx_completion *out)
{
    struct op *op = op_find(lane, handle);
    struct replay_signature now = signature_of(REPLAY_MBX_WAIT, 1);
    int err;

    if (lane_is_replaying(lane) && op != NULL && !op_can_end(lane, op))
        lane_refuse(lane, &now, "it waits for a receive that got no message in the record");
    err = lane_wait(lane, op_real(lane, handle), out);
    if (err == 0)
        op_reported(lane, out);
    return err;
}

int wait_one(struct lane *lane, mbx_request handle, int64_t timeout_ns,
             struct mbx_completion *completion)
{
    struct mbx_completion own, *out = completion != NULL ? completion : &own;
    struct replay_signature now = signature_of(REPLAY_MBX_WAIT, 1);
    bool is_found;
    int result = 0;

    if (op_find(lane, handle) == NULL)
        return native_next()->mbx_wait(lane->ep, handle, timeout_ns, completion);
    if (timeout_ns < 0)
        return wait_for_ever(lane, handle, out);
    if (one_replayed(lane, &now, handle, out, &is_found, &result)) {
        result = is_found ? 0 : result == 0 ? -ETIMEDOUT : result;
    } else {
        result = native_next()->mbx_wait(lane->ep, op_real(lane, handle), timeout_ns, out);
        if (result == 0)
            op_reported(lane, out);
    }
    lane_record(lane, &now, outcome_of_one(result, 0, -ETIMEDOUT, out));
    lane_event_ends(lane);
    return result;
}

/* ---- arrays ---- */

/* Replaces the program's handles by the library's.  array_exchange_back() restores them. */
static void array_exchange(struct lane *lane, mbx_request *requests, int count,
                           mbx_request *of_program)
{
    for (int i = 0; i < count; i++) {
        of_program[i] = requests[i];
        requests[i] = op_real(lane, requests[i]);
    }
}

static void array_exchange_back(mbx_request *requests, int count, const mbx_request *of_program)
{
    for (int i = 0; i < count; i++)
        requests[i] = requests[i] != 0 ? of_program[i] : 0;
}

static bool is_array(const mbx_request *requests, int count)
{
    return count > 0 && requests != NULL;
}

/* The library's own wait for some of an array.  completions is not NULL.  Handles of the program and of the library differ
 * only if receives were withheld when the replay ended. */
static int usual_some(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
                      int *indices, struct mbx_completion *completions, int most)
{
    const struct native_next *next = native_next();
    mbx_request *kept = lane->by_real.count > 0 && is_array(requests, count)
                            ? mem_alloc((size_t)count * sizeof *kept)
                            : NULL;
    int found;

    if (kept != NULL)
        array_exchange(lane, requests, count, kept);
    found =
        most == 1
            ? next->mbx_wait_any(lane->ep, requests, count, timeout_ns, indices, completions)
            : next->mbx_wait_some(lane->ep, requests, count, timeout_ns, indices, completions);
    if (kept != NULL)
        array_exchange_back(requests, count, kept);
    mem_free(kept);
    for (int i = 0; i < found; i++)
        op_reported(lane, &completions[i]);
    return found;
}

/* Takes the entry of request i of an array, which is complete in the record. */
static bool wait_take_at(struct lane *lane, mbx_request *requests, int i,
                         struct mbx_completion *entry)
{
    struct mbx_completion stale = {.request = requests[i], .error = -ESTALE};

    if (requests[i] == 0)
        return false;
    if (op_find(lane, requests[i]) == NULL)
        *entry = stale;
    else if (!wait_take(lane, requests[i], entry))
        return false;
    requests[i] = 0;
    return true;
}

static bool has_any(const mbx_request *requests, int count)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != 0)
            return true;
    return false;
}

static bool has_failure(const struct mbx_completion *entries, int count)
{
    for (int i = 0; i < count; i++)
        if (op_has_failed(&entries[i]))
            return true;
    return false;
}

static struct replay_outcome outcome_of_any(int result, int index,
                                            const struct mbx_completion *entry)
{
    if (result == 0)
        return lane_outcome(REPLAY_NONE, 0);
    if (result == -ETIMEDOUT)
        return lane_outcome(REPLAY_FALSE, 0);
    if (result < 0)
        return lane_outcome_of_result(result);
    return has_failure(entry, 1) ? lane_outcome(REPLAY_FAILED, 0)
                                 : lane_outcome(REPLAY_AT, (uint64_t)index);
}

/* True: the call returns *result, because nothing was complete, or the array has no request. */
static bool nothing_replayed(struct lane *lane, const struct replay_outcome *outcome,
                             const mbx_request *requests, int count, int *result)
{
    if (outcome->result == REPLAY_NONE && !has_any(requests, count)) {
        *result = 0;
        return true;
    }
    if (!lane_result_of_outcome(outcome, result))
        return false;
    if (*result == 0)
        *result = -ETIMEDOUT;
    (void)native_next()->mbx_progress(lane->ep);
    return true;
}

static bool any_replayed(struct lane *lane, const struct replay_signature *now,
                         mbx_request *requests, int count, int *index,
                         struct mbx_completion *entry, int *result)
{
    struct replay_outcome outcome;

    if (!lane_replays(lane, now, &outcome))
        return false;
    if (nothing_replayed(lane, &outcome, requests, count, result))
        return true;
    if (outcome.result == REPLAY_AT && outcome.value < (uint64_t)count &&
        wait_take_at(lane, requests, (int)outcome.value, entry)) {
        *index = (int)outcome.value;
        *result = 1;
        return true;
    }
    lane_refuse(lane, now, lane_why_not(lane, &outcome));
    return false;
}

int wait_any(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
             int *index, struct mbx_completion *completion)
{
    struct mbx_completion own, *out = completion != NULL ? completion : &own;
    struct replay_signature now = signature_of(REPLAY_MBX_WAIT_ANY, count);
    int result;

    if (!is_array(requests, count) || index == NULL)
        return native_next()->mbx_wait_any(lane->ep, requests, count, timeout_ns, index, out);
    if (!any_replayed(lane, &now, requests, count, index, out, &result))
        result = usual_some(lane, requests, count, timeout_ns, index, out, 1);
    lane_record(lane, &now, outcome_of_any(result, *index, out));
    lane_event_ends(lane);
    return result;
}

static const struct replay_signature detail = {.kind = REPLAY_INDEX};

/* Reads the next index of a list from the record.  False: there is none. */
static bool next_index(struct lane *lane, const struct replay_signature *now, uint64_t *index)
{
    struct replay_outcome outcome;

    if (!lane_replays(lane, &detail, &outcome))
        return false;
    *index = outcome.value;
    if (outcome.result == REPLAY_AT)
        return true;
    lane_refuse(lane, now, lane_why_not(lane, &outcome));
    return false;
}

/* Takes the entries that the record has of an array.  Returns their number; -1: nothing is replayed any more. */
static int some_replayed(struct lane *lane, const struct replay_signature *now,
                         mbx_request *requests, int count, uint64_t wanted, int *indices,
                         struct mbx_completion *entries)
{
    uint64_t index;
    int taken = 0;

    for (; (uint64_t)taken < wanted && next_index(lane, now, &index); taken++) {
        if (index >= (uint64_t)count ||
            !wait_take_at(lane, requests, (int)index, &entries[taken])) {
            lane_refuse(lane, now, "the recorded outcome does not fit this call");
            break;
        }
        indices[taken] = (int)index;
    }
    return taken > 0 ? taken : -1;
}

static void record_list(struct lane *lane, const struct replay_signature *now, int found,
                        const int *indices, const struct mbx_completion *entries)
{
    if (has_failure(entries, found)) {
        lane_record(lane, now, lane_outcome(REPLAY_FAILED, 0));
        return;
    }
    lane_record(lane, now, lane_outcome(REPLAY_AT, (uint64_t)found));
    for (int i = 0; i < found; i++)
        lane_record(lane, &detail, lane_outcome(REPLAY_AT, (uint64_t)indices[i]));
}

/* mbx_wait_some() with space for all entries. */
static int some_with_entries(struct lane *lane, enum replay_kind kind, mbx_request *requests,
                             int count, int64_t timeout_ns, int *indices,
                             struct mbx_completion *entries)
{
    struct replay_signature now = signature_of(kind, count);
    struct replay_outcome outcome;
    int result = -1;
    bool is_replayed = lane_replays(lane, &now, &outcome);

    if (is_replayed && !nothing_replayed(lane, &outcome, requests, count, &result)) {
        if (outcome.result == REPLAY_AT && outcome.value > 0)
            result =
                some_replayed(lane, &now, requests, count, outcome.value, indices, entries);
        else
            lane_refuse(lane, &now, lane_why_not(lane, &outcome));
        is_replayed = result > 0;
    }
    if (!is_replayed)
        result = usual_some(lane, requests, count, timeout_ns, indices, entries, count + 1);
    if (result > 0)
        record_list(lane, &now, result, indices, entries);
    else
        lane_record(lane, &now, outcome_of_any(result, 0, NULL));
    lane_event_ends(lane);
    return result;
}

int wait_some(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
              int *indices, struct mbx_completion *completions)
{
    struct mbx_completion *own = NULL;
    int result;

    if (!is_array(requests, count) || indices == NULL)
        return native_next()->mbx_wait_some(lane->ep, requests, count, timeout_ns, indices,
                                            completions);
    if (completions == NULL && (own = mem_alloc((size_t)count * sizeof *own)) == NULL)
        return -ENOMEM;
    result = some_with_entries(lane, REPLAY_MBX_WAIT_SOME, requests, count, timeout_ns, indices,
                               own != NULL ? own : completions);
    mem_free(own);
    return result;
}

/* ---- all of an array ---- */

/* Waits for each request in turn.  Without a timeout the result is the same as of a wait for all at once. */
static int all_for_ever(struct lane *lane, mbx_request *requests, int count,
                        struct mbx_completion *completions)
{
    struct mbx_completion entry;
    int errors = 0;

    for (int i = 0; i < count; i++) {
        int err;

        if (requests[i] == 0)
            continue;
        entry = (struct mbx_completion){.request = requests[i]};
        err = wait_for_ever(lane, requests[i], &entry);
        if (err == -EINTR)
            return err;
        if (err < 0)
            entry.error = err;
        if (err == -EHOSTDOWN)
            entry.kind = MBX_FAILURES;
        else
            requests[i] = 0;
        if (completions != NULL)
            completions[i] = entry;
        errors += entry.error != 0;
    }
    return errors;
}

/* With a timeout: takes complete requests as mbx_wait_some() does, until all are complete or the time is over. */
static int all_until(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
                     struct mbx_completion *completions, int *indices,
                     struct mbx_completion *entries)
{
    const uint64_t start_ns = timeout_ns > 0 ? clock_now() : 0;
    bool has_ended = false;
    int errors = 0;

    while (!has_ended && has_any(requests, count)) {
        int64_t gone_ns = timeout_ns > 0 ? (int64_t)(clock_now() - start_ns) : 0;
        int found = some_with_entries(lane, REPLAY_MBX_WAIT_ALL, requests, count,
                                      gone_ns < timeout_ns ? timeout_ns - gone_ns : 0, indices,
                                      entries);

        if (found < 0)
            return found;
        for (int i = 0; i < found; i++) {
            if (completions != NULL)
                completions[indices[i]] = entries[i];
            errors += entries[i].error != 0;
            has_ended = has_ended || entries[i].kind == MBX_FAILURES; /* it waits on */
        }
    }
    return errors;
}

int wait_all(struct lane *lane, mbx_request *requests, int count, int64_t timeout_ns,
             struct mbx_completion *completions)
{
    struct mbx_completion *entries;
    int *indices, result = -ENOMEM;

    if (!is_array(requests, count))
        return native_next()->mbx_wait_all(lane->ep, requests, count, timeout_ns, completions);
    if (timeout_ns < 0)
        return all_for_ever(lane, requests, count, completions);
    entries = mem_alloc((size_t)count * sizeof *entries);
    indices = mem_alloc((size_t)count * sizeof *indices);
    if (entries != NULL && indices != NULL)
        result = all_until(lane, requests, count, timeout_ns, completions, indices, entries);
    mem_free(entries);
    mem_free(indices);
    return result;
}

/* ---- queues ---- */

/* Takes the recorded entries.  Returns their number; -1: nothing is replayed any more. */
static int poll_replayed(struct lane *lane, const struct replay_signature *now,
                         struct mbx_completion *entries, int count, uint64_t wanted,
                         uint64_t *numbers)
{
    uint64_t age;
    int found = 0;

    for (; (uint64_t)found < wanted && next_index(lane, now, &age); found++) {
        const struct op *op =
            found < count && age < lane->started ? op_number(lane, lane->started - age) : NULL;

        if (op == NULL || !wait_take(lane, op->handle, &entries[found])) {
            lane_refuse(lane, now, "the recorded outcome does not fit this call");
            break;
        }
        numbers[found] = lane->started - age;
    }
    return found > 0 ? found : -1;
}

static int poll_usual(struct lane *lane, unsigned queues, struct mbx_completion *entries,
                      int count, uint64_t *numbers)
{
    int found = native_next()->mbx_poll(lane->ep, queues, entries, count);

    for (int i = 0; i < found; i++)
        numbers[i] = op_reported(lane, &entries[i]);
    return found;
}

/* An entry that reports a write or the death of a peer belongs to no operation. */
static void record_poll(struct lane *lane, const struct replay_signature *now, int found,
                        const struct mbx_completion *entries, const uint64_t *numbers)
{
    lane_record(lane, now,
                found > 0 ? lane_outcome(REPLAY_AT, (uint64_t)found)
                          : lane_outcome_of_result(found));
    for (int i = 0; i < found; i++)
        lane_record(lane, &detail,
                    numbers[i] != 0 && !op_has_failed(&entries[i])
                        ? lane_outcome(REPLAY_AT, lane->started - numbers[i])
                        : lane_outcome(REPLAY_FAILED, 0));
}

int wait_poll(struct lane *lane, unsigned queues, struct mbx_completion *entries, int count)
{
    struct replay_signature now = signature_of(REPLAY_MBX_POLL, count);
    struct replay_outcome outcome;
    bool is_replayed = false;
    int found = -1;

    if (!array_reserve(lane->numbers, lane->number_slots, count > 0 ? (uint64_t)count : 1))
        return 0; /* nothing is read: the program asks again */
    now.tag = (int32_t)queues;
    if (entries != NULL && count > 0 && lane_replays(lane, &now, &outcome)) {
        is_replayed = lane_result_of_outcome(&outcome, &found);
        if (outcome.result == REPLAY_AT && outcome.value > 0)
            is_replayed = (found = poll_replayed(lane, &now, entries, count, outcome.value,
                                                 lane->numbers)) > 0;
        else if (!is_replayed)
            lane_refuse(lane, &now, lane_why_not(lane, &outcome));
    }
    if (!is_replayed)
        found = poll_usual(lane, queues, entries, count, lane->numbers);
    if (entries != NULL && count > 0)
        record_poll(lane, &now, found, entries, lane->numbers);
    lane_event_ends(lane);
    return found;
}

/* ---- entries that are read in place ---- */

#define PEEKED (sizeof((struct lane *)NULL)->peeked / sizeof((struct lane *)NULL)->peeked[0])

/* Returns a copy of the entry, which the library has already released. */
const struct mbx_completion *wait_peek(struct lane *lane, unsigned queues)
{
    size_t i = 0;

    queues &= MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS;
    for (size_t at = 0; at < PEEKED; at++)
        if (lane->peeked[at].is_there && lane->peeked[at].entry.kind & queues)
            return &lane->peeked[at].entry;
    while (i < PEEKED && lane->peeked[i].is_there)
        i++;
    if (queues == 0 || i == PEEKED || wait_poll(lane, queues, &lane->peeked[i].entry, 1) != 1)
        return NULL;
    lane->peeked[i].is_there = true;
    return &lane->peeked[i].entry;
}

void wait_release(struct lane *lane, const struct mbx_completion *completion)
{
    for (size_t i = 0; i < PEEKED; i++)
        if (completion == &lane->peeked[i].entry)
            lane->peeked[i].is_there = false;
}

bool wait_has_peeked(const struct lane *lane, unsigned queues)
{
    for (size_t i = 0; i < PEEKED; i++)
        if (lane->peeked[i].is_there && lane->peeked[i].entry.kind & queues)
            return true;
    return false;
}

/* ---- cancels ---- */

/* The cancel of a send cannot be replayed if it returned 0: the receiver decides whether it is in time. */
static struct replay_outcome outcome_of_cancel(const struct op *op, int result)
{
    if (result == 0)
        return lane_outcome(op->kind == OP_SEND ? REPLAY_FAILED : REPLAY_TRUE, 0);
    return lane_outcome_of_result(result);
}

/* A receive whose cancel was in time is withheld.  If it is not, a device had it and it got a message nevertheless: then
 * there is nothing to do. */
static int cancel_again(struct lane *lane, struct op *op)
{
    if (op->withheld == NULL)
        return 0;
    if (op->withheld->why == WITHHELD_LATER) {
        (void)op_can_end(lane, op);
        return 0;
    }
    op->withheld->is_cancelled = true;
    op_post_freed(lane);
    return native_next()->mbx_cancel(lane->ep, op->real);
}

int wait_cancel(struct lane *lane, mbx_request handle)
{
    struct replay_signature now = signature_of(REPLAY_MBX_CANCEL, 1);
    struct op *op = op_find(lane, handle);
    struct replay_outcome outcome;
    int result = 0;

    if (op == NULL)
        return native_next()->mbx_cancel(lane->ep, handle);
    if (!lane_replays(lane, &now, &outcome)) {
        result = native_next()->mbx_cancel(lane->ep, op->real);
    } else if (outcome.result == REPLAY_TRUE && op->kind != OP_SEND) {
        result = cancel_again(lane, op);
    } else if (outcome.result != REPLAY_ERROR || !lane_result_of_outcome(&outcome, &result)) {
        lane_refuse(lane, &now, lane_why_not(lane, &outcome));
        result = native_next()->mbx_cancel(lane->ep, op->real);
    }
    lane_record(lane, &now, outcome_of_cancel(op, result));
    lane_event_ends(lane);
    return result;
}
