/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.c - a worker is an endpoint of Matchbox, and what is due to its client.
 *
 *   ucp_worker_progress:  mbx_progress ──> callbacks of completions ──> handlers of active messages ──> flushes
 *
 * A callback that calls ucp_worker_progress() makes progress, and nothing is reported in that call: so the
 * recursion is bounded.
 *
 * Threads   a worker of UCS_THREAD_MODE_MULTI has one lock, which each function takes.  It is released
 *           while a callback of the client runs; functions that pack and unpack data run under it.
 */
#include "ucp/door.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/environ.h"
#include "base/hash.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

/* ---- create and destroy ---- */

static bool is_oversubscribed(void)
{
    return launcher_is_oversubscribed(environ_get("MBX_OVERSUBSCRIBED"));
}

static int open_mbx(struct ucp_worker *worker)
{
    /* the lock of the worker guards also what is ours */
    const char *params[] = {"THREADS=one", is_oversubscribed() ? "OVERSUBSCRIBED=yes" : NULL,
                            NULL};
    struct mbx_limits limits;
    int err = mbx_open(&(struct mbx_config){.params = params}, &worker->mbx);

    if (err == 0 && mbx_limits_get(worker->mbx, &limits, sizeof limits) == 0)
        worker->inject = limits.inject;
    return err;
}

static void worker_fill(struct ucp_worker *worker, struct ucp_context *context,
                        const ucp_worker_params_t *params)
{
    uint64_t fields = params->field_mask;

    worker->context = context;
    worker->mode = fields & UCP_WORKER_PARAM_FIELD_THREAD_MODE ? params->thread_mode
                                                               : UCS_THREAD_MODE_SINGLE;
    /* whichever thread maps memory registers it with all workers */
    worker->has_lock = worker->mode == UCS_THREAD_MODE_MULTI || context->is_shared;
    snprintf(worker->name, sizeof worker->name, "%s",
             fields & UCP_WORKER_PARAM_FIELD_NAME ? params->name : "matchbox");
    list_init(&worker->ready);
    list_init(&worker->due);
    list_init(&worker->endpoints);
    list_init(&worker->failed);
    list_init(&worker->flushes);
    door_idle_init(&worker->idle, is_oversubscribed());
    ucpx_pool_init(&worker->pool, context);
    pthread_mutex_init(&worker->lock, NULL);
    worker->peeked.worker = worker;
}

static ucs_status_t check_params(const ucp_worker_params_t *params)
{
    if (params->field_mask & UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT &&
        params->am_alignment > UCPX_AM_ALIGN) {
        LOG_ERROR("libucp: active messages aligned to %zu bytes are not supported, only to %u "
                  "(UCS_ERR_UNSUPPORTED); run without `mbx exec`",
                  params->am_alignment, UCPX_AM_ALIGN);
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

static void worker_free(struct ucp_worker *worker)
{
    pthread_mutex_destroy(&worker->lock);
    mem_free(worker->peers);
    mem_free(worker);
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params,
                               ucp_worker_h *worker_p)
{
    struct ucp_worker *worker;
    ucs_status_t status = check_params(params);
    int err;

    if (status != UCS_OK)
        return status;
    worker = mem_calloc(1, sizeof *worker);
    if (worker == NULL)
        return UCS_ERR_NO_MEMORY;
    worker_fill(worker, context, params);
    err = open_mbx(worker);
    if (err < 0) {
        LOG_ERROR("libucp: no worker: %s; `mbx info` says what it needs", mbx_strerror(err));
        worker_free(worker);
        return ucpx_status(err);
    }
    status = ucpx_am_open(worker);
    if (status == UCS_OK)
        status = ucpx_wait_open(worker, params);
    if (status == UCS_OK)
        status = ucpx_regions_enter(worker);
    if (status != UCS_OK) {
        ucp_worker_destroy(worker);
        return status;
    }
    *worker_p = worker;
    return UCS_OK;
}

/* Sends that could not be delivered in time are logged by the library; what is still open has no callback any more. */
void ucp_worker_destroy(ucp_worker_h worker)
{
    ucpx_regions_leave(worker);
    mbx_close(worker->mbx);
    ucpx_am_close(worker);
    ucpx_eps_free(worker);
    ucpx_pool_fini(&worker->pool);
    worker_free(worker);
}

/* ---- peers ---- */

static void peers_moved(struct ucp_worker *worker, struct ucpx_peer *old, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct list *waiting = &worker->peers[i].waiting;

        if (waiting->next == &old[i].waiting) {
            list_init(waiting);
        } else {
            waiting->next->prev = waiting;
            waiting->prev->next = waiting;
        }
    }
}

static bool peers_grow(struct ucp_worker *worker, uint32_t count)
{
    struct ucpx_peer *peers, *old = worker->peers;

    count = count < 2 * worker->peer_count ? 2 * worker->peer_count : count;
    peers = mem_calloc(count, sizeof *peers);
    if (peers == NULL)
        return false;
    if (old != NULL)
        memcpy(peers, old, worker->peer_count * sizeof *old);
    worker->peers = peers;
    peers_moved(worker, old, worker->peer_count);
    for (uint32_t i = worker->peer_count; i < count; i++) {
        peers[i].rank = UCPX_NO_RANK;
        list_init(&peers[i].waiting);
    }
    worker->peer_count = count;
    mem_free(old);
    return true;
}

struct ucpx_peer *ucpx_peer(struct ucp_worker *worker, uint32_t number)
{
    if (unlikely(number >= worker->peer_count) && !peers_grow(worker, number + 1))
        return NULL;
    if (unlikely(number >= worker->peers_known)) {
        worker->peers_known = number + 1;
        worker->am.lacks = true;
    }
    return &worker->peers[number];
}

/* ---- progress ---- */

/* Another thread may be about to sleep until what is reported here. */
static unsigned worker_report(struct ucp_worker *worker)
{
    unsigned count;

    worker->depth++;
    count = ucpx_records_report(worker);
    count += ucpx_am_report(worker);
    if (unlikely(!list_is_empty(&worker->failed)))
        count += ucpx_failures_report(worker);
    if (!list_is_empty(&worker->flushes))
        count += ucpx_flushes_report(worker);
    worker->depth--;
    worker->reports += count != 0 && worker->has_lock;
    return count;
}

static inline bool has_something_due(const struct ucp_worker *worker)
{
    return !list_is_empty(&worker->ready) || !list_is_empty(&worker->am.arrived) ||
           !list_is_empty(&worker->am.collected) || worker->am.may_resume ||
           (worker->am.crowds != 0 && worker->am.lacks) || !list_is_empty(&worker->flushes) ||
           !list_is_empty(&worker->failed);
}

static unsigned progress(struct ucp_worker *worker)
{
    unsigned moved;

    if (!has_something_due(worker) && mbx_idle(worker->mbx))
        return 0;
    moved = (unsigned)mbx_progress(worker->mbx);
    if (worker->depth == 0)
        moved += worker_report(worker);
#if MBX_CHECKS
    assert(ucpx_worker_is_valid(worker));
#endif
    return moved;
}

/* A record that is being reported, by this thread or another one, is in none of these lists. */
bool ucpx_worker_has_due(const struct ucp_worker *worker)
{
    return worker->depth != 0 || has_something_due(worker);
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    bool tires = false;
    unsigned moved;

    ucpx_lock(worker);
    moved = progress(worker);
    if (moved == 0)
        tires = door_idle_tires(&worker->idle);
    else
        door_idle_ends(&worker->idle);
    ucpx_unlock(worker);
    if (unlikely(tires))
        sys_yield();
    return moved;
}

/* A peer performs the accesses of one worker in the order of the calls, and UCX orders nothing between peers. */
ucs_status_t ucp_worker_fence(ucp_worker_h worker)
{
    (void)worker;
    return UCS_OK;
}

/* ---- its address, and what it says of itself ---- */

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address_p,
                                    size_t *address_length_p)
{
    struct ucpx_address address;
    unsigned char *bytes = mem_alloc(UCPX_ADDRESS_MAX);

    if (bytes == NULL)
        return UCS_ERR_NO_MEMORY;
    (void)mbx_address_get(worker->mbx, &address.address);
    address.identity = hash_bytes(&address.address, sizeof address.address);
    ucpx_address_describe(&address);
    *address_length_p = ucpx_address_pack(&address, bytes);
    *address_p = (ucp_address_t *)bytes;
    return UCS_OK;
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address)
{
    (void)worker;
    mem_free(address);
}

ucs_status_t ucp_worker_address_query(ucp_address_t *address, ucp_worker_address_attr_t *attr)
{
    struct ucpx_address read;

    if (ucpx_address_check(&read, address) != UCS_OK)
        return UCS_ERR_INVALID_ADDR;
    if (attr->field_mask & UCP_WORKER_ADDRESS_ATTR_FIELD_UID)
        attr->worker_uid = read.identity;
    return UCS_OK;
}

ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
    uint64_t fields = attr->field_mask;

    if (fields & UCP_WORKER_ATTR_FIELD_THREAD_MODE)
        attr->thread_mode = worker->mode;
    if (fields & UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER)
        attr->max_am_header = UCPX_AM_HEADER;
    if (fields & UCP_WORKER_ATTR_FIELD_NAME)
        snprintf(attr->name, sizeof attr->name, "%s", worker->name);
    if (fields & UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING)
        attr->max_debug_string = UCPX_INFO_SIZE;
    if (fields & UCP_WORKER_ATTR_FIELD_ADDRESS)
        return ucp_worker_get_address(worker, &attr->address, &attr->address_length);
    return UCS_OK;
}

void ucp_worker_print_info(ucp_worker_h worker, FILE *stream)
{
    fprintf(stream, "#\n# worker %s of libucp over Matchbox %s\n#\n", worker->name,
            mbx_version());
}
