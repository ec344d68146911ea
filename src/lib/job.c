/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - makes the processes that were started together peers.
 */
#include <dlfcn.h>

#include "base/environ.h"
#include "boot/boot.h"
#include "core/core.h"
#include "lib/inspect.h"

struct mbx_job {
    struct boot *boot;
};

int mbx_job_open(struct mbx_job **out)
{
    struct settings settings;
    struct mbx_job *job;
    int err = settings_load(&settings, NULL);

    if (err < 0)
        return err;
    job = mem_alloc(sizeof *job);
    if (job == NULL)
        return -ENOMEM;
    err = boot_open(settings.boot_timeout_ns, &job->boot);
    if (err < 0) {
        mem_free(job);
        return err;
    }
    *out = job;
    return 0;
}

void mbx_job_close(struct mbx_job *job)
{
    job->boot->ops->close(job->boot);
    mem_free(job);
}

uint32_t mbx_job_rank(const struct mbx_job *job)
{
    return job->boot->rank;
}

uint32_t mbx_job_size(const struct mbx_job *job)
{
    return job->boot->size;
}

const uint8_t *mbx_job_key(const struct mbx_job *job)
{
    return job->boot->key;
}

int mbx_job_fence(struct mbx_job *job)
{
    return job->boot->ops->fence(job->boot);
}

/* Makes the address that rank has put a peer of ep. */
static int job_add(struct mbx_job *job, struct mbx_ep *ep, uint32_t rank)
{
    struct mbx_address address;
    uint32_t number;
    int err = job->boot->ops->get(job->boot, rank, &address, sizeof address);

    if (err == -ENOENT) /* a launcher let the fence pass without this rank */
        err = -ECONNRESET;
    if (err == 0)
        err = mbx_peer_add(ep, &address, &number);
    if (err == 0 && number != rank) /* another thread added a peer meanwhile */
        err = -EBUSY;
    if (err < 0)
        LOG_ERROR("rank %u cannot be made a peer: %s", rank, mbx_strerror(err));
    return err;
}

static bool job_has_peers(const struct mbx_ep *ep)
{
    bool has_peers;

    ep_lock(ep);
    has_peers = ep->peers.count != 0;
    ep_unlock_unchanged(ep);
    return has_peers;
}

/* A record, or replay, that does not happen must not go unnoticed: `mbx exec` preloads a library whose mbx_job_connect()
 * calls this one (src/native/calls.c). */
static void warn_of_order(const struct mbx_job *job)
{
    static const char *const names[] = {"MBX_RECORD", "MBX_REPLAY"};
    const int *connects = dlsym(RTLD_DEFAULT, "mbx_native_connects");

    if (mbx_job_rank(job) != 0 || (connects != NULL && *connects > 0))
        return;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *value = environ_get(names[i]);

        if (value != NULL && value[0] != '\0')
            LOG_WARN(
                "%s has no effect on the calls of this program: use mbx exec, and link with "
                "libmatchbox.so, not with libmatchbox.a",
                names[i]);
    }
}

int mbx_job_connect(struct mbx_job *job, struct mbx_ep *ep)
{
    struct mbx_address address;
    int err;

    if (job_has_peers(ep))
        return -EBUSY;
    mbx_address_get(ep, &address);
    err = job->boot->ops->put(job->boot, &address, sizeof address);
    if (err == 0)
        err = job->boot->ops->fence(job->boot);
    for (uint32_t rank = 0; err == 0 && rank < job->boot->size; rank++)
        err = job_add(job, ep, rank);
    if (err == 0) {
        inspect_ranks(ep, job->boot->size);
        warn_of_order(job);
    }
    return err;
}
