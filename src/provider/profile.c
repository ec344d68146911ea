/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.c - fi_profile(3): the unexpected messages of an endpoint, and callbacks when one arrives
 * or is taken.
 *
 *   fi_profile_open ──> profile ──> endpoint        several profiles may watch one endpoint
 *       mbx_watch_unexpected ──> profile_notify ──> callbacks of all of them
 *
 * The library watches only while a profile has a callback: without one a message costs nothing
 * more.
 *
 * A callback runs under the endpoint's lock, wherever progress is made, and may read variables; so
 * a read within a callback takes no lock (ep->notifying).
 *
 * An endpoint may close before its profiles: libfabric's own trace hook never closes its profile.
 * The profile then stays, without an endpoint.
 */
#include "provider/profile.h"
#include "provider/envelope.h"
#include "provider/fabric.h"
#include "provider/library.h"
#include "provider/profile_names.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef int callback_fn(struct fid_profile *fid, struct fi_profile_desc *event, void *param,
                        size_t size, void *context);

/* The values of the variables at one time. */
struct values {
    uint64_t connections, memory;
    size_t count; /* entries of queue */
    struct prov_profile_entry *queue;
};

struct prov_profile {
    struct fid_profile fid;
    struct prov_ep *ep;        /* NULL: the endpoint was closed */
    struct prov_profile *next; /* of the endpoint */
    struct {
        callback_fn *call; /* or NULL */
        void *context;
    } callbacks[PROV_PROFILE_EVENTS];
    bool is_reading; /* between start_reads() and end_reads(): reads give these values */
    int error;
    struct values values;
};

static struct prov_profile *profile_of(struct fid_profile *fid)
{
    return container_of(fid, struct prov_profile, fid);
}

/* Does this thread run a callback of the endpoint?  No other thread writes the number of this
 * thread. */
static bool is_notifying(struct prov_ep *ep)
{
    return atomic_load_explicit(&ep->notifying, memory_order_relaxed) ==
           (uintptr_t)pthread_self();
}

static void profile_lock(struct prov_ep *ep)
{
    if (!is_notifying(ep))
        prov_ep_lock(ep);
}

static void profile_unlock(struct prov_ep *ep)
{
    if (!is_notifying(ep))
        prov_ep_unlock(ep);
}

/* ---- variables -------------------------------------------------------------------------- */

#define OF_64_BITS .datatype_sel = fi_primitive_type, .datatype.primitive = FI_UINT64, .size = 8
#define OF_ENTRIES                                                                             \
    .datatype_sel = fi_defined_type, .datatype.defined = (enum fi_type)PROV_CQ_ERR_ENTRY,      \
    .size = sizeof(struct prov_profile_entry)

static const struct fi_profile_desc vars[] = {
    {.id = PROV_VAR_UNEXPECTED_COUNT,
     OF_64_BITS,
     .name = "unexpected_messages",
     .desc = "messages that wait for a receive"},
    {.id = PROV_VAR_UNEXPECTED_QUEUE,
     OF_ENTRIES,
     .name = "unexpected_queue",
     .desc = "an entry for each message that waits for a receive"},
    {.id = PROV_VAR_CONNECTIONS,
     OF_64_BITS,
     .name = "peers",
     .desc = "peers that this endpoint knows"},
    {.id = PROV_VAR_MEMORY,
     OF_64_BITS,
     .name = "memory_bytes",
     .desc = "bytes of memory of operations and of messages that wait for a receive"},
};

/* Descriptions of the events.  A callback gets a pointer to its own; it is not const there. */
static struct fi_profile_desc events[PROV_PROFILE_EVENTS] = {
    {.id = PROV_EVENT_UNEXPECTED_CAME,
     OF_ENTRIES,
     .name = "unexpected_message_came",
     .desc = "a message has come that no receive waits for"},
    {.id = PROV_EVENT_UNEXPECTED_TAKEN,
     OF_ENTRIES,
     .name = "unexpected_message_taken",
     .desc = "such a message has been taken: by a receive, or by a probe that claims it"},
};

static ssize_t query(const struct fi_profile_desc *known, size_t known_count,
                     struct fi_profile_desc *list, size_t *count)
{
    size_t copied;

    if (count == NULL)
        return -FI_EINVAL;
    copied = list == NULL ? 0 : *count < known_count ? *count : known_count;
    if (copied != 0)
        memcpy(list, known, copied * sizeof *list);
    *count = known_count;
    return (ssize_t)copied;
}

static ssize_t profile_query_vars(struct fid_profile *fid, struct fi_profile_desc *list,
                                  size_t *count)
{
    (void)fid;
    return query(vars, count_of(vars), list, count);
}

static ssize_t profile_query_events(struct fid_profile *fid, struct fi_profile_desc *list,
                                    size_t *count)
{
    (void)fid;
    return query(events, PROV_PROFILE_EVENTS, list, count);
}

/* ---- values ------------------------------------------------------------------------------ */

static void entry_fill(struct prov_ep *ep, struct prov_profile_entry *entry,
                       const struct mbx_status *message)
{
    const bool is_tagged = message->context_id == PROV_TAGGED;
    const bool has_data = message->tag & PROV_HAS_DATA;

    *entry = (struct prov_profile_entry){
        .flags =
            FI_RECV | (is_tagged ? FI_TAGGED : FI_MSG) | (has_data ? FI_REMOTE_CQ_DATA : 0),
        .len = message->size,
        .data = has_data ? message->data : 0,
        .tag = is_tagged ? message->tag & ~PROV_HAS_DATA : 0,
        .src_addr = prov_av_find(ep, message->source),
    };
}

/* Copies all unexpected messages to values->queue, which the caller frees. 0; -FI_ENOMEM. */
static int values_queue(struct prov_ep *ep, struct values *values)
{
    int count = mbx_unexpected(ep->mbx, NULL, 0);
    struct mbx_status *messages;

    if (count <= 0)
        return 0;
    messages = calloc((size_t)count, sizeof *messages);
    values->queue = calloc((size_t)count, sizeof *values->queue);
    if (messages == NULL || values->queue == NULL ||
        mbx_unexpected(ep->mbx, messages, count) != count) {
        free(messages);
        free(values->queue);
        values->queue = NULL;
        return -FI_ENOMEM;
    }
    values->count = (size_t)count;
    for (int i = 0; i < count; i++)
        entry_fill(ep, &values->queue[i], &messages[i]);
    free(messages);
    return 0;
}

static uint64_t stat_of(const struct prov_ep *ep, const char *name)
{
    uint64_t value = 0;

    mbx_stat_read(ep->mbx, name, &value);
    return value;
}

static uint64_t memory_of(const struct prov_ep *ep)
{
    return stat_of(ep, "pools_bytes_now") + ep->ops.slab_count * sizeof(struct prov_op_slab);
}

static int values_take(struct prov_ep *ep, struct values *values)
{
    values->connections = stat_of(ep, "peers");
    values->memory = memory_of(ep);
    return values_queue(ep, values);
}

static void values_free(struct values *values)
{
    free(values->queue);
    *values = (struct values){0};
}

/* Copies a value to the client, if *size bytes are enough; *size becomes its size. */
static ssize_t prov_profile_give(void *data, size_t *size, const void *from, size_t bytes)
{
    const size_t capacity = *size;

    *size = bytes;
    if (capacity < bytes || (data == NULL && bytes != 0))
        return -FI_ETOOSMALL;
    if (bytes != 0)
        memcpy(data, from, bytes);
    return (ssize_t)bytes;
}

static ssize_t prov_profile_give_number(void *data, size_t *size, uint64_t number)
{
    return prov_profile_give(data, size, &number, sizeof number);
}

static ssize_t give_queue(void *data, size_t *size, const struct values *values)
{
    return prov_profile_give(data, size, values->queue, values->count * sizeof *values->queue);
}

/* A read between start_reads() and end_reads(). */
static ssize_t read_kept(const struct prov_profile *profile, uint32_t id, void *data,
                         size_t *size)
{
    const struct values *values = &profile->values;

    if (profile->error < 0)
        return profile->error;
    switch (id) {
    case PROV_VAR_UNEXPECTED_COUNT:
        return prov_profile_give_number(data, size, values->count);
    case PROV_VAR_UNEXPECTED_QUEUE:
        return give_queue(data, size, values);
    case PROV_VAR_CONNECTIONS:
        return prov_profile_give_number(data, size, values->connections);
    case PROV_VAR_MEMORY:
        return prov_profile_give_number(data, size, values->memory);
    default:
        return -FI_EINVAL;
    }
}

static ssize_t read_now(struct prov_ep *ep, uint32_t id, void *data, size_t *size)
{
    struct values values = {0};
    ssize_t result;

    switch (id) {
    case PROV_VAR_UNEXPECTED_COUNT:
        return prov_profile_give_number(data, size, stat_of(ep, "unexpected_now"));
    case PROV_VAR_UNEXPECTED_QUEUE:
        result = values_queue(ep, &values);
        if (result == 0)
            result = give_queue(data, size, &values);
        values_free(&values);
        return result;
    case PROV_VAR_CONNECTIONS:
        return prov_profile_give_number(data, size, stat_of(ep, "peers"));
    case PROV_VAR_MEMORY:
        return prov_profile_give_number(data, size, memory_of(ep));
    default:
        return -FI_EINVAL;
    }
}

/* Number of bytes written; -FI_EINVAL; -FI_ETOOSMALL with the required bytes in *size;
 * -FI_ENOMEM. */
static ssize_t profile_read_var(struct fid_profile *fid, uint32_t id, void *data, size_t *size)
{
    struct prov_profile *profile = profile_of(fid);
    struct prov_ep *ep = profile->ep;
    ssize_t result;

    if (size == NULL || ep == NULL)
        return -FI_EINVAL;
    profile_lock(ep);
    result =
        profile->is_reading ? read_kept(profile, id, data, size) : read_now(ep, id, data, size);
    profile_unlock(ep);
    return result;
}

static void reads_end(struct prov_profile *profile)
{
    values_free(&profile->values);
    profile->is_reading = false;
    profile->error = 0;
}

static void profile_start_reads(struct fid_profile *fid, uint64_t flags)
{
    struct prov_profile *profile = profile_of(fid);

    (void)flags;
    if (profile->ep == NULL)
        return;
    profile_lock(profile->ep);
    reads_end(profile);
    profile->error = values_take(profile->ep, &profile->values);
    profile->is_reading = true;
    profile_unlock(profile->ep);
}

static void profile_end_reads(struct fid_profile *fid, uint64_t flags)
{
    struct prov_profile *profile = profile_of(fid);

    (void)flags;
    if (profile->ep == NULL)
        return;
    profile_lock(profile->ep);
    reads_end(profile);
    profile_unlock(profile->ep);
}

/* Variables show the present state, so there are only kept values to reset. */
static void profile_reset(struct fid_profile *fid, uint64_t flags)
{
    profile_end_reads(fid, flags);
}

/* ---- events ------------------------------------------------------------------------------- */

/* Called by the library as mbx_watch_unexpected() says, under the endpoint's lock. */
static void profile_notify(void *user, int has_come, const struct mbx_status *message)
{
    const int id = has_come ? PROV_EVENT_UNEXPECTED_CAME : PROV_EVENT_UNEXPECTED_TAKEN;
    struct prov_ep *ep = user;
    struct prov_profile_entry entry;

    atomic_store_explicit(&ep->notifying, (uintptr_t)pthread_self(), memory_order_relaxed);
    for (struct prov_profile *p = ep->profiles; p != NULL; p = p->next) {
        if (p->callbacks[id].call == NULL)
            continue;
        entry_fill(ep, &entry, message); /* each callback gets a fresh entry */
        p->callbacks[id].call(&p->fid, &events[id], &entry, sizeof entry,
                              p->callbacks[id].context);
    }
    atomic_store_explicit(&ep->notifying, 0, memory_order_relaxed);
}

static bool is_watched(const struct prov_ep *ep)
{
    for (const struct prov_profile *p = ep->profiles; p != NULL; p = p->next)
        for (size_t id = 0; id < PROV_PROFILE_EVENTS; id++)
            if (p->callbacks[id].call != NULL)
                return true;
    return false;
}

static void watch_if_needed(struct prov_ep *ep)
{
    mbx_watch_unexpected(ep->mbx, is_watched(ep) ? profile_notify : NULL, ep);
}

/* A NULL callback removes the present one. */
static int profile_reg_callback(struct fid_profile *fid, uint32_t id, callback_fn *callback,
                                void *context)
{
    struct prov_profile *profile = profile_of(fid);
    struct prov_ep *ep = profile->ep;

    if (id >= PROV_PROFILE_EVENTS || ep == NULL)
        return -FI_EINVAL;
    if (is_notifying(ep))
        return -FI_EBUSY; /* a callback may only read */
    prov_ep_lock(ep);
    profile->callbacks[id].call = callback;
    profile->callbacks[id].context = context;
    watch_if_needed(ep);
    prov_ep_unlock(ep);
    return 0;
}

/* ---- from open to close --------------------------------------------------------------------- */

static void profile_unlink(struct prov_profile *profile)
{
    struct prov_profile **at = &profile->ep->profiles;

    while (*at != profile)
        at = &(*at)->next;
    *at = profile->next;
}

static int profile_close(struct fid *fid)
{
    struct prov_profile *profile = container_of(fid, struct prov_profile, fid.fid);
    struct prov_ep *ep = profile->ep;

    if (ep != NULL && is_notifying(ep))
        return -FI_EBUSY;
    if (ep != NULL) {
        prov_ep_lock(ep);
        profile_unlink(profile);
        watch_if_needed(ep);
        prov_ep_unlock(ep);
    }
    values_free(&profile->values);
    free(profile);
    return 0;
}

void prov_profiles_leave(struct prov_ep *ep)
{
    if (ep->profiles == NULL)
        return;
    mbx_watch_unexpected(ep->mbx, NULL, NULL);
    for (struct prov_profile *p = ep->profiles; p != NULL; p = p->next)
        p->ep = NULL;
    ep->profiles = NULL;
}

static struct fi_ops profile_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = profile_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static struct fi_profile_ops profile_ops = {
    .size = sizeof(struct fi_profile_ops),
    .reset = profile_reset,
    .query_vars = profile_query_vars,
    .query_events = profile_query_events,
    .read_var = profile_read_var,
    .reg_callback = profile_reg_callback,
    .start_reads = profile_start_reads,
    .end_reads = profile_end_reads,
};

/* fi_profile_open() takes the result for the address of the member ops. */
int prov_profile_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                          void *context)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    struct prov_profile *profile;

    if (name == NULL || ops == NULL)
        return -FI_EINVAL;
    if (strcmp(name, PROV_PROFILE_OPS) != 0 || prov_library.version() < PROV_PROFILE_SINCE)
        return -FI_ENOSYS;
    if (flags != 0)
        return -FI_EBADFLAGS;
    if (is_notifying(ep))
        return -FI_EBUSY;
    profile = calloc(1, sizeof *profile);
    if (profile == NULL)
        return -FI_ENOMEM;
    profile->fid.fid.fclass = PROV_CLASS_PROFILE;
    profile->fid.fid.context = context;
    profile->fid.fid.ops = &profile_fid_ops;
    profile->fid.ops = &profile_ops;
    profile->ep = ep;
    prov_ep_lock(ep);
    profile->next = ep->profiles;
    ep->profiles = profile;
    prov_ep_unlock(ep);
    *ops = &profile->fid.ops;
    return 0;
}
