/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access.h - an access to memory of a peer: access.c, and atomic.c for its atomics.
 */
#ifndef UCP_ACCESS_H
#define UCP_ACCESS_H

#include "ucp/door.h"
#include "ucp/region.h"

struct ucpx_access {
    struct ucp_ep *ep;
    const struct ucp_rkey *key;
    uint64_t at;
    size_t size;
    unsigned rights; /* that it needs: enum mbx_rights */
    bool
        leaves_data; /* the client's memory is free when the call returns: the access has no result */
    const void *from;    /* puts; the operand of an atomic */
    void *to;            /* gets; the result of an atomic, or NULL */
    const void *compare; /* atomics that compare */
    enum mbx_op op;      /* atomics */
    /* Starts it with the library.  0, or a negative error and nothing was done. */
    int (*start)(const struct ucpx_access *access, const struct mbx_options *options,
                 mbx_request *request);
};

/* As the client wants it: what the call returns. */
ucs_status_ptr_t ucpx_access_go(const struct ucpx_access *access, const struct ucpx_how *how);
/* Without a request: UCS_OK, UCS_INPROGRESS, or an error. */
ucs_status_t ucpx_access_post(const struct ucpx_access *access);
/* Until it is complete, or the client's memory is free. */
ucs_status_t ucpx_access_wait(const struct ucpx_access *access);

#endif
