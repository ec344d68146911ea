/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_array.c - waiting for requests of an array.
 *
 *   mbx_wait_all     one request after the other: each is looked at once
 *   mbx_wait_some    all that are complete, as soon as one is
 *   mbx_wait_any     one of them
 *
 * An entry that is taken leaves 0 in the array.  A receive from any source that has a failure to
 * tell stays in it, as its handle stays alive.
 */
#include "core/waiter.h"

#include "core/core.h"

/* What is waited for, and where the answers go. */
struct array {
    mbx_request *requests;
    int count;
    int *indices;                       /* of the entries, or NULL: entry i is of request i */
    struct mbx_completion *completions; /* or NULL: nobody reads them */
    int taken, errors;
};

static bool array_is_valid(const mbx_request *requests, int count)
{
    return count >= 0 && (requests != NULL || count == 0);
}

/* Of it, or where to put an index, something is wrong.  -EINVAL. */
static int array_refused(const char *call, const mbx_request *requests, int count)
{
    if (count < 0)
        return log_argument(call, "count", (uint64_t)(int64_t)count, "negative");
    return requests == NULL && count > 0
               ? log_argument(call, "requests", 0, "NULL, and count is not 0")
               : log_argument(call, "indices", 0, "NULL");
}

/* Is there a request in it? */
static bool array_has_any(const mbx_request *requests, int count)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != 0)
            return true;
    return false;
}

/* The entry of request number i goes where it belongs. */
static void array_put(struct array *a, int i, const struct mbx_completion *entry)
{
    if (a->indices != NULL)
        a->indices[a->taken] = i;
    if (a->completions != NULL)
        a->completions[a->indices != NULL ? a->taken : i] = *entry;
    a->errors += entry->error != 0;
    a->taken++;
}

/* Takes request number i if its wait is over. */
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

/* Takes up to most of those whose wait is over; how many. */
static int array_sweep(struct mbx_ep *ep, struct array *a, int most)
{
    int before = a->taken;

    for (int i = 0; i < a->count && a->taken < most; i++)
        if (a->requests[i] != 0)
            array_take(ep, a, i);
    return a->taken - before;
}

/* ---- all ---- */

/* Waits for request number i and takes it. */
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

/* Time is up, or there is none, or a signal came: those from request number first on are taken if
 * they are complete.  0: all of them were; else err. */
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

/* One round of progress if something is missing: no wait. */
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

/* None is complete: from now on wait.c is notified of each that will be. */
static void array_await(struct mbx_ep *ep, const struct array *a)
{
    for (int i = 0; i < a->count; i++) {
        struct request *req = a->requests[i] != 0 ? request_find(ep, a->requests[i]) : NULL;

        if (req != NULL)
            req->flags |= REQUEST_AWAITED;
    }
}

/* How many were taken, at most so many; 0: there is no request; -ETIMEDOUT; -EINTR. */
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
    do /* again if another thread has taken what ended the wait */
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
