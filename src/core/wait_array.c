/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_array.c - waits for the requests of an array.
 *
 *   mbx_wait_all     one request after the other: each is checked once
 *   mbx_wait_some    all that are complete, as soon as one is
 *   mbx_wait_any     one of them
 *
 * A request that is taken leaves 0 in the array.  A receive from any source that reports a
 * failure stays in the array, as its handle stays valid.
 */
#include "core/waiter.h"

#include "core/core.h"

/* The requests of a wait, and where their completions go. */
struct array {
    mbx_request *requests;
    int count;
    int *indices;                       /* of the entries, or NULL: entry i belongs to
                                           request i */
    struct mbx_completion *completions; /* or NULL: they are not needed */
    int taken, errors;
};

static bool array_is_valid(const mbx_request *requests, int count)
{
    return count >= 0 && (requests != NULL || count == 0);
}

/* Logs what is wrong with an array, or with `indices`.  -EINVAL. */
static int array_refused(const char *call, const mbx_request *requests, int count)
{
    if (count < 0)
        return log_argument(call, "count", (uint64_t)(int64_t)count, "negative");
    return requests == NULL && count > 0
               ? log_argument(call, "requests", 0, "NULL, and count is not 0")
               : log_argument(call, "indices", 0, "NULL");
}

/* Does it have a request? */
static bool array_has_any(const mbx_request *requests, int count)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != 0)
            return true;
    return false;
}

/* Stores the entry of request i. */
static void array_put(struct array *a, int i, const struct mbx_completion *entry)
{
    if (a->indices != NULL)
        a->indices[a->taken] = i;
    if (a->completions != NULL)
        a->completions[a->indices != NULL ? a->taken : i] = *entry;
    a->errors += entry->error != 0;
    a->taken++;
}

/* Takes request i if its wait is over. */
static bool array_take(struct mbx_ep *ep, struct array *a, int i)
{
    const mbx_request handle = a->requests[i];
    struct request *req = request_find(ep, handle);
    struct mbx_completion entry = {.request = handle, .error = -ESTALE};

    if (req != NULL && (req->flags & REQUEST_DONE)) {
        entry.error = request_refuse_callback("mbx_wait_all, _some or _any", handle);
        a->requests[i] = 0;
    } else if (req != NULL && req->state != REQUEST_COMPLETE) {
        if (!failure_concerns(ep, req))
            return false;
        failure_entry(ep, req, &entry);
    } else {
        if (req != NULL)
            request_consume(ep, req, &entry);
        a->requests[i] = 0;
    }
    array_put(a, i, &entry);
    return true;
}

/* Takes up to most requests whose wait is over.  Returns their number. */
static int array_sweep(struct mbx_ep *ep, struct array *a, int most)
{
    int before = a->taken;

    for (int i = 0; i < a->count && a->taken < most; i++)
        if (a->requests[i] != 0)
            array_take(ep, a, i);
    return a->taken - before;
}

/* ---- all ---- */

/* Waits for request i and takes it. */
static int array_wait_one(struct mbx_ep *ep, struct array *a, int i, struct waiter *w)
{
    struct request *req = request_find(ep, a->requests[i]);
    int err;

    if (array_take(ep, a, i))
        return 0;
    if (ep->wait.has_threads)
        req->flags |= REQUEST_AWAITED;
    w->request = a->requests[i];
    err = wait_until(ep, w);
    if (err == 0)
        array_take(ep, a, i);
    return err;
}

/* After a timeout or a signal: takes the requests from `first` on that are complete.  0: all of
 * them were; otherwise err. */
static int array_rest(struct mbx_ep *ep, struct array *a, int first, int err)
{
    bool are_all = true;

    for (int i = first; i < a->count; i++)
        if (a->requests[i] != 0 && !array_take(ep, a, i))
            are_all = false;
    return are_all ? 0 : err;
}

static int array_wait_all(struct mbx_ep *ep, struct array *a, struct waiter *w)
{
    w->array = a->requests;
    w->array_count = a->count;
    for (int i = 0; i < a->count; i++) {
        int err = a->requests[i] != 0 ? array_wait_one(ep, a, i, w) : 0;

        if (err != 0)
            return array_rest(ep, a, i, err);
    }
    return 0;
}

/* A wait with a timeout of 0: one round of progress if a request is not complete. */
static int array_test_all(struct mbx_ep *ep, struct array *a)
{
    if (array_rest(ep, a, 0, -ETIMEDOUT) == 0)
        return 0;
    progress_round(ep);
    return array_rest(ep, a, 0, -ETIMEDOUT);
}

static uint64_t start_of(int64_t timeout_ns)
{
    return timeout_ns > 0 ? clock_now() : 0;
}

int mbx_wait_all(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                 struct mbx_completion *completions)
{
    struct array a = {.requests = requests, .count = count, .completions = completions};
    struct waiter w = {.timeout_ns = timeout_ns, .start_ns = start_of(timeout_ns)};
    int err;

    if (!array_is_valid(requests, count))
        return array_refused("mbx_wait_all", requests, count);
    ep_lock(ep);
    err = timeout_ns == 0 ? array_test_all(ep, &a) : array_wait_all(ep, &a, &w);
    ep_unlock(ep);
    return err != 0 ? err : a.errors;
}

/* ---- some, any ---- */

/* None is complete: marks them, so that wait.c is notified of each completion. */
static void array_await(struct mbx_ep *ep, const struct array *a)
{
    for (int i = 0; i < a->count; i++) {
        struct request *req = a->requests[i] != 0 ? request_find(ep, a->requests[i]) : NULL;

        if (req != NULL)
            req->flags |= REQUEST_AWAITED;
    }
}

/* The number of requests taken, at most `most`; 0: there is no request; -ETIMEDOUT; -EINTR. */
static int array_wait_some(struct mbx_ep *ep, struct array *a, int most, int64_t timeout_ns)
{
    struct waiter w = {.array = a->requests,
                       .array_count = a->count,
                       .most = most,
                       .timeout_ns = timeout_ns,
                       .start_ns = start_of(timeout_ns)};
    int err = -ETIMEDOUT;

    if (!array_has_any(a->requests, a->count))
        return 0;
    if (array_sweep(ep, a, most) != 0)
        return a->taken;
    if (timeout_ns == 0) {
        progress_round(ep);
        return array_sweep(ep, a, most) != 0 ? a->taken : -ETIMEDOUT;
    }
    array_await(ep, a);
    do /* again if another thread has taken the request that ended the wait */
        err = wait_until(ep, &w);
    while (array_sweep(ep, a, most) == 0 && err == 0);
    return a->taken != 0 ? a->taken : err;
}

int mbx_wait_some(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                  int *indices, struct mbx_completion *completions)
{
    struct array a = {
        .requests = requests, .count = count, .indices = indices, .completions = completions};
    int result;

    if (!array_is_valid(requests, count) || (indices == NULL && count > 0))
        return array_refused("mbx_wait_some", requests, count);
    ep_lock(ep);
    result = array_wait_some(ep, &a, count, timeout_ns);
    ep_unlock(ep);
    return result;
}

int mbx_wait_any(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                 int *index, struct mbx_completion *completion)
{
    struct array a = {
        .requests = requests, .count = count, .indices = index, .completions = completion};
    int result;

    if (!array_is_valid(requests, count) || index == NULL)
        return array_refused("mbx_wait_any", requests, count);
    ep_lock(ep);
    result = array_wait_some(ep, &a, 1, timeout_ns);
    ep_unlock(ep);
    return result;
}
