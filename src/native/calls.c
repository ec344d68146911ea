/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.c - the functions of matchbox.h that are recorded and replayed, and others that this library must observe.
 *
 * A call goes on to libmatchbox.so unchanged if its endpoint has no lane, or if it is not made by the endpoint's thread.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "native/native.h"

#define SHOWN __attribute__((visibility("default")))

/* libmatchbox.so looks this up: while it is not 0, its mbx_job_connect() is called from here. */
SHOWN int mbx_native_connects;

/* ---- libmatchbox.so ---- */

struct native_next native_found;

/* The next function of this name after ours.  If the program has loaded libmatchbox.so with RTLD_LOCAL, RTLD_NEXT does not
 * find it: then that library is searched. */
static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found == NULL ? dlopen("libmatchbox.so.0", RTLD_LAZY | RTLD_NOLOAD) : NULL;

    return library != NULL ? dlsym(library, name) : found;
}

void native_find(void)
{
    void *found;

#define NATIVE_FIND(name)                                                                      \
    found = find(#name);                                                                       \
    memcpy(&native_found.name, &found, sizeof found);
    NATIVE_CALLS(NATIVE_FIND)
#undef NATIVE_FIND
}

static void ends(int status, void *arg)
{
    (void)arg;
    lane_exit(status);
}

/* The program registers its own handlers of exit() later, so that they run before ends(). */
__attribute__((constructor)) static void native_start(void)
{
    native_find();
    (void)on_exit(ends, NULL);
}

/* ---- jobs and endpoints ---- */

SHOWN int mbx_job_connect(struct mbx_job *job, struct mbx_ep *ep)
{
    int err = lane_fence_to_connect(job);

    if (err < 0)
        return err;
    mbx_native_connects++;
    err = native_next()->mbx_job_connect(job, ep);
    mbx_native_connects--;
    if (err == 0)
        lane_open(job, ep);
    return err;
}

SHOWN int mbx_job_fence(struct mbx_job *job)
{
    return lane_fence(job);
}

/* Records receives that are complete although the program has not read their entries: they have matched.  The same for
 * sends. */
static void read_rest(struct lane *lane)
{
    struct mbx_completion entry;

    while (native_next()->mbx_poll(lane->ep, MBX_RECVS | MBX_SENDS, &entry, 1) == 1)
        (void)op_reported(lane, &entry);
}

/* If all sends were complete in the record, they will be here. */
static void finish_all_sends(struct lane *lane)
{
    struct op *op;

    while ((op = op_any_send(lane)) != NULL && wait_take(lane, op->handle, NULL))
        ;
}

/* The last event. */
static void record_close(struct lane *lane)
{
    int are_complete;

    if (lane_call_is_replayed(lane, REPLAY_CLOSE, &are_complete) && are_complete == 1)
        finish_all_sends(lane);
    if (lane->events.writer != NULL)
        read_rest(lane);
    lane_call_ends(lane, REPLAY_CLOSE, op_any_send(lane) == NULL);
}

SHOWN int mbx_close(struct mbx_ep *ep)
{
    struct lane *lane = lane_of(ep);
    int err;

    if (lane != NULL)
        record_close(lane);
    else
        lane_forget_early(ep);
    err = native_next()->mbx_close(ep);
    if (lane != NULL && err != -EPERM) /* a forked child gets -EPERM, and its parent goes on */
        lane_close(lane);
    return err;
}

/* ---- sends ---- */

/* Adds an operation that has started, so that a poll can name it. */
static int started(struct lane *lane, int result, enum op_kind kind, mbx_request handle,
                   mbx_request *request)
{
    if (result < 0)
        return result;
    if (handle != 0 && !op_add(lane, (struct op){.handle = handle, .kind = kind}))
        lane_spoil(lane, "no memory");
    if (request != NULL)
        *request = handle;
    return result;
}

/* A callback can run in any call that makes progress, and no record says in which. */
static void check_options(struct lane *lane, const struct mbx_options *options)
{
    if (options != NULL && options->flags & MBX_DONE)
        lane_spoil(lane, "an operation has MBX_DONE, so its callback can run in any call");
}

/* The send left at once in the record.  If it has a request here, it did not do so again: waits for it. */
static int finish_send(struct lane *lane, int result, mbx_request *handle)
{
    struct mbx_completion entry;

    while (result == 0 && *handle != 0 && lane_wait(lane, *handle, &entry) == -EINTR)
        ;
    if (result == 0)
        *handle = 0;
    return result == 0 ? 1 : result;
}

/* mbx_send() with MBX_AT_ONCE. */
static int send_at_once(struct lane *lane, uint32_t peer, uint32_t context_id, uint64_t tag,
                        const void *buf, size_t size, const struct mbx_options *options,
                        mbx_request *handle)
{
    struct mbx_options own = *options;
    int then, result;
    bool is_replayed = lane_call_is_replayed(lane, REPLAY_SEND_AT_ONCE, &then);

    if (is_replayed && then == 0)
        own.flags &= ~(unsigned)MBX_AT_ONCE;
    if (is_replayed && then == 1)
        own.flags &= ~(unsigned)MBX_SILENT; /* so that it has a handle to wait for */
    result = native_next()->mbx_send(lane->ep, peer, context_id, tag, buf, size, &own, handle);
    if (is_replayed && then == 1)
        result = finish_send(lane, result, handle);
    lane_call_ends(lane, REPLAY_SEND_AT_ONCE, result);
    return result;
}

SHOWN int mbx_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                   const void *buf, size_t size, const struct mbx_options *options,
                   mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;
    int result;

    if (lane == NULL)
        return native_next()->mbx_send(ep, peer, context_id, tag, buf, size, options, request);
    check_options(lane, options);
    if (options != NULL && options->flags & MBX_AT_ONCE)
        result = send_at_once(lane, peer, context_id, tag, buf, size, options, &handle);
    else
        result =
            native_next()->mbx_send(ep, peer, context_id, tag, buf, size, options, &handle);
    return started(lane, result, OP_SEND, handle, request);
}

SHOWN int mbx_ssend(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                    const void *buf, size_t size, const struct mbx_options *options,
                    mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;
    int result;

    if (lane == NULL)
        return native_next()->mbx_ssend(ep, peer, context_id, tag, buf, size, options, request);
    check_options(lane, options);
    result = native_next()->mbx_ssend(ep, peer, context_id, tag, buf, size, options, &handle);
    return started(lane, result, OP_SEND, handle, request);
}

SHOWN int mbx_try_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                       const void *buf, size_t size, uint64_t data)
{
    const struct native_next *next = native_next();
    struct mbx_options options = {.data = data};
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;
    int result;

    if (lane == NULL)
        return next->mbx_try_send(ep, peer, context_id, tag, buf, size, data);
    if (!lane_call_is_replayed(lane, REPLAY_TRY_SEND, &result))
        result = next->mbx_try_send(ep, peer, context_id, tag, buf, size, data);
    else if (result == 1)
        result = finish_send(
            lane, next->mbx_send(ep, peer, context_id, tag, buf, size, &options, &handle),
            &handle);
    lane_call_ends(lane, REPLAY_TRY_SEND, result);
    return result;
}

/* Has no result to record; another thread that only calls this must be noticed all the same. */
SHOWN int mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                     const void *buf, size_t size, uint64_t data)
{
    (void)lane_of(ep);
    return native_next()->mbx_inject(ep, peer, context_id, tag, buf, size, data);
}

/* ---- receives ---- */

SHOWN int mbx_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                   uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
                   mbx_request *request)
{
    const struct envelope asked = {source, context_id, tag, ignore};
    struct lane *lane = lane_of(ep);

    if (lane == NULL) {
        lane_note_early(ep);
        return native_next()->mbx_recv(ep, source, context_id, tag, ignore, buf, size, options,
                                       request);
    }
    check_options(lane, options);
    return recv_post(lane, &asked, buf, size, options, request);
}

SHOWN int mbx_try_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                       uint64_t ignore, void *buf, size_t size, struct mbx_status *status)
{
    const struct envelope asked = {source, context_id, tag, ignore};
    struct lane *lane = lane_of(ep);

    if (lane == NULL)
        return native_next()->mbx_try_recv(ep, source, context_id, tag, ignore, buf, size,
                                           status);
    return recv_try(lane, &asked, buf, size, status);
}

SHOWN int mbx_probe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                    uint64_t ignore, struct mbx_status *status)
{
    const struct envelope asked = {source, context_id, tag, ignore};
    struct lane *lane = lane_of(ep);

    if (lane == NULL)
        return native_next()->mbx_probe(ep, source, context_id, tag, ignore, status);
    return recv_probe(lane, &asked, status, NULL);
}

SHOWN int mbx_mprobe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                     uint64_t ignore, struct mbx_status *status, mbx_message *message)
{
    const struct envelope asked = {source, context_id, tag, ignore};
    struct lane *lane = lane_of(ep);

    if (lane == NULL)
        return native_next()->mbx_mprobe(ep, source, context_id, tag, ignore, status, message);
    return recv_probe(lane, &asked, status, message);
}

SHOWN int mbx_mrecv(struct mbx_ep *ep, mbx_message message, void *buf, size_t size,
                    const struct mbx_options *options, mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;
    int result;

    if (lane == NULL)
        return native_next()->mbx_mrecv(ep, message, buf, size, options, request);
    check_options(lane, options);
    result = native_next()->mbx_mrecv(ep, message, buf, size, options, &handle);
    return started(lane, result, OP_OTHER, handle, request);
}

/* As mbx_inject(). */
SHOWN int mbx_discard(struct mbx_ep *ep, mbx_message message)
{
    (void)lane_of(ep);
    return native_next()->mbx_discard(ep, message);
}

SHOWN int mbx_cancel(struct mbx_ep *ep, mbx_request request)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_cancel(lane, request) : native_next()->mbx_cancel(ep, request);
}

/* ---- waiting ---- */

SHOWN int mbx_test(struct mbx_ep *ep, mbx_request request, struct mbx_completion *completion)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_test(lane, request, completion)
                        : native_next()->mbx_test(ep, request, completion);
}

SHOWN int mbx_wait(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
                   struct mbx_completion *completion)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_one(lane, request, timeout_ns, completion)
                        : native_next()->mbx_wait(ep, request, timeout_ns, completion);
}

SHOWN int mbx_wait_all(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                       struct mbx_completion *completions)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL
               ? wait_all(lane, requests, count, timeout_ns, completions)
               : native_next()->mbx_wait_all(ep, requests, count, timeout_ns, completions);
}

SHOWN int mbx_wait_some(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                        int *indices, struct mbx_completion *completions)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_some(lane, requests, count, timeout_ns, indices, completions)
                        : native_next()->mbx_wait_some(ep, requests, count, timeout_ns, indices,
                                                       completions);
}

SHOWN int mbx_wait_any(struct mbx_ep *ep, mbx_request *requests, int count, int64_t timeout_ns,
                       int *index, struct mbx_completion *completion)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_any(lane, requests, count, timeout_ns, index, completion)
                        : native_next()->mbx_wait_any(ep, requests, count, timeout_ns, index,
                                                      completion);
}

/* ---- event loops ---- */

SHOWN int mbx_progress(struct mbx_ep *ep)
{
    struct lane *lane = lane_of(ep);
    int moved, then;

    if (lane == NULL)
        return native_next()->mbx_progress(ep);
    if (lane_call_is_replayed(lane, REPLAY_PROGRESS, &then)) {
        (void)native_next()->mbx_progress(ep);
        moved = then;
    } else {
        moved = native_next()->mbx_progress(ep);
    }
    lane_call_ends(lane, REPLAY_PROGRESS, moved);
    return moved;
}

SHOWN int mbx_poll(struct mbx_ep *ep, unsigned queues, struct mbx_completion *entries,
                   int count)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_poll(lane, queues, entries, count)
                        : native_next()->mbx_poll(ep, queues, entries, count);
}

SHOWN const struct mbx_completion *mbx_peek(struct mbx_ep *ep, unsigned queues)
{
    struct lane *lane = lane_of(ep);

    return lane != NULL ? wait_peek(lane, queues) : native_next()->mbx_peek(ep, queues);
}

SHOWN void mbx_release(struct mbx_ep *ep, const struct mbx_completion *completion)
{
    struct lane *lane = lane_of(ep);

    if (lane != NULL)
        wait_release(lane, completion);
    else
        native_next()->mbx_release(ep, completion);
}

SHOWN int mbx_ready(struct mbx_ep *ep, unsigned queues)
{
    struct lane *lane = lane_of(ep);
    int result;

    if (lane == NULL)
        return native_next()->mbx_ready(ep, queues);
    if (wait_has_peeked(lane, queues))
        return 1;
    if (!lane_call_is_replayed(lane, REPLAY_READY, &result))
        result = native_next()->mbx_ready(ep, queues);
    lane_call_ends(lane, REPLAY_READY, result);
    return result;
}

SHOWN int mbx_idle(struct mbx_ep *ep)
{
    struct lane *lane = lane_of(ep);
    int result;

    if (lane == NULL)
        return native_next()->mbx_idle(ep);
    if (!lane_call_is_replayed(lane, REPLAY_IDLE, &result))
        result = native_next()->mbx_idle(ep) && !wait_has_peeked(lane, ~0U);
    lane_call_ends(lane, REPLAY_IDLE, result);
    return result;
}

/* A replay does not wait here: the call that reads an entry waits for it. */
SHOWN int mbx_wait_queues(struct mbx_ep *ep, unsigned queues, int64_t timeout_ns)
{
    struct lane *lane = lane_of(ep);
    int result;

    if (lane == NULL)
        return native_next()->mbx_wait_queues(ep, queues, timeout_ns);
    if (wait_has_peeked(lane, queues))
        return 0;
    if (lane_call_is_replayed(lane, REPLAY_WAIT_QUEUES, &result))
        (void)native_next()->mbx_progress(ep);
    else
        result = native_next()->mbx_wait_queues(ep, queues, timeout_ns);
    lane_call_ends(lane, REPLAY_WAIT_QUEUES, result);
    return result;
}

SHOWN int mbx_sleep(struct mbx_ep *ep, int64_t timeout_ns, const struct mbx_sleep_hooks *hooks)
{
    struct lane *lane = lane_of(ep);
    int result;

    if (lane == NULL)
        return native_next()->mbx_sleep(ep, timeout_ns, hooks);
    if (lane_call_is_replayed(lane, REPLAY_SLEEP, &result))
        (void)native_next()->mbx_sleep(ep, 0, hooks);
    else
        result = native_next()->mbx_sleep(ep, timeout_ns, hooks);
    lane_call_ends(lane, REPLAY_SLEEP, result);
    return result;
}

SHOWN int mbx_arm(struct mbx_ep *ep)
{
    struct lane *lane = lane_of(ep);

    if (lane != NULL)
        lane_spoil(lane, "the program waits for the descriptor of mbx_fd(), whose readiness is "
                         "not recorded");
    return native_next()->mbx_arm(ep);
}

/* ---- one-sided accesses ---- */

SHOWN int mbx_write(struct mbx_ep *ep, uint32_t peer, const void *buf, size_t size,
                    uint64_t key, uint64_t address, const struct mbx_options *options,
                    mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;

    if (lane == NULL)
        return native_next()->mbx_write(ep, peer, buf, size, key, address, options, request);
    check_options(lane, options);
    return started(
        lane, native_next()->mbx_write(ep, peer, buf, size, key, address, options, &handle),
        OP_OTHER, handle, request);
}

SHOWN int mbx_read(struct mbx_ep *ep, uint32_t peer, void *buf, size_t size, uint64_t key,
                   uint64_t address, const struct mbx_options *options, mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;

    if (lane == NULL)
        return native_next()->mbx_read(ep, peer, buf, size, key, address, options, request);
    check_options(lane, options);
    return started(lane,
                   native_next()->mbx_read(ep, peer, buf, size, key, address, options, &handle),
                   OP_OTHER, handle, request);
}

SHOWN int mbx_atomic(struct mbx_ep *ep, uint32_t peer, const struct mbx_atomic_args *atomic,
                     const struct mbx_options *options, mbx_request *request)
{
    struct lane *lane = lane_of(ep);
    mbx_request handle = 0;

    if (lane == NULL)
        return native_next()->mbx_atomic(ep, peer, atomic, options, request);
    check_options(lane, options);
    return started(lane, native_next()->mbx_atomic(ep, peer, atomic, options, &handle),
                   OP_OTHER, handle, request);
}

/* ---- choices ---- */

SHOWN int mbx_choice(uint64_t site, uint64_t *value)
{
    struct lane *lane = lane_first();

    if (value == NULL)
        return -EINVAL;
    if (lane != NULL)
        return replay_lane_choice(&lane->events, site, value);
    return native_next()->mbx_choice != NULL ? native_next()->mbx_choice(site, value)
                                             : MBX_CHOICE_FREE;
}
