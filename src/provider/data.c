/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - parts common to all data operations: the length of a vector, and a call that must be
 * repeated.
 */
#include "base/sys.h"
#include "provider/data.h"

#include <errno.h>

void prov_ep_in_vain(struct prov_ep *ep)
{
    if (likely(!door_idle_tires(&ep->idle)))
        return;
    prov_ep_unlock(ep);
    sys_yield();
    prov_ep_lock(ep);
}

static uint64_t statistic_of(struct prov_ep *ep, const char *name)
{
    uint64_t value = 0;

    mbx_stat_read(ep->mbx, name, &value);
    return value;
}

/* Is there a request that completes if the client only calls again and reads its queues?  A
 * receive that waits for its message does not count: its peer may wait for us. */
static bool memory_may_come(struct prov_ep *ep)
{
    return statistic_of(ep, "requests_now") > statistic_of(ep, "posted_now");
}

ssize_t prov_ep_again(struct prov_ep *ep, int err)
{
    if (err != -ENOMEM)
        return err;
    if (prov_ep_progress(ep) <= 0 && !memory_may_come(ep))
        return -FI_ENOMEM;
    prov_ep_in_vain(ep);
    return -FI_EAGAIN;
}

ssize_t prov_iov_size(const struct iovec *iov, size_t count)
{
    size_t size = 0;

    if (count > PROV_IOV_LIMIT || (iov == NULL && count != 0))
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len > PROV_MESSAGE_MAX || (iov[i].iov_base == NULL && iov[i].iov_len))
            return -1;
        size += iov[i].iov_len;
    }
    return size > PROV_MESSAGE_MAX ? -1 : (ssize_t)size;
}
