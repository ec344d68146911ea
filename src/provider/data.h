/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.h - the data operations, which endpoint.c puts into libfabric's tables: send.c, receive.c;
 * and functions that these share with the one-sided calls: data.c.
 */
#ifndef PROVIDER_DATA_H
#define PROVIDER_DATA_H

#include "provider/compat.h"
#include "provider/ep.h"

#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The peer number of a client's address; or the error of prov_av_resolve(). */
static inline int prov_peer(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer)
{
    if (likely(addr < ep->av.peer_limit)) {
        *peer = atomic_load_explicit(&ep->av.peers[addr], memory_order_relaxed);
        if (likely(*peer != PROV_PEER_UNKNOWN))
            return 0;
    }
    return prov_av_resolve(ep, addr, peer);
}

/* For a call that lacks memory or a request.  Makes progress and returns -FI_EAGAIN if active
 * operations will free some; -FI_ENOMEM if none will.  Counts as an unsuccessful call, see
 * below. */
ssize_t prov_ep_again(struct prov_ep *ep, int err);
/* Counts a call that has found or done nothing, and that the client will repeat, as an empty
 * poll (idle.h).  May release the endpoint's lock, and take it again. */
void prov_ep_in_vain(struct prov_ep *ep);

/* Total length, or -1 if the vector is invalid or too long. */
ssize_t prov_iov_size(const struct iovec *iov, size_t count);

ssize_t prov_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                   uint64_t tag, void *context);
ssize_t prov_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t dest, uint64_t tag, void *context);
ssize_t prov_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t prov_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                     uint64_t tag);
ssize_t prov_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                       uint64_t data, fi_addr_t dest, uint64_t tag, void *context);
ssize_t prov_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                         fi_addr_t dest, uint64_t tag);
ssize_t prov_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest,
                  void *context);
ssize_t prov_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t dest, void *context);
ssize_t prov_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
ssize_t prov_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest);
ssize_t prov_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
                      fi_addr_t dest, void *context);
ssize_t prov_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                        fi_addr_t dest);

ssize_t prov_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                   uint64_t tag, uint64_t ignore, void *context);
ssize_t prov_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                    fi_addr_t src, uint64_t tag, uint64_t ignore, void *context);
ssize_t prov_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
ssize_t prov_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                  void *context);
ssize_t prov_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                   fi_addr_t src, void *context);
ssize_t prov_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);

#endif
