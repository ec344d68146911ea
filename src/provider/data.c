/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - what all data operations have in common: a vector's length, and what a call does that
 * can do nothing now.
 */
#include "provider/data.h"

#include <errno.h>

void prov_ep_in_vain(struct prov_ep *ep)
{
    if (likely(!prov_idle_tires(&ep->idle)))
        return;
    prov_ep_unlock(ep);
    prov_yield();
    prov_ep_lock(ep);
}

ssize_t prov_ep_again(struct prov_ep *ep, int err)
{
    if (err != -ENOMEM)
        return err;
    prov_ep_progress(ep);
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
