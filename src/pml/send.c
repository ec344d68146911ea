/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - MPI's sends, in all modes.
 *
 *   standard, ready   mbx_try_send a message that has left at once has no request: MPI gets its
 *                                  empty one, or the call returns
 *                     mbx_send     otherwise
 *   synchronous       mbx_ssend
 *   buffered          mbx_send of a copy in the memory of MPI_Buffer_attach: for MPI it is
 *                                  complete at once, and our request frees itself
 */
#include "pml/pml.h"

#include <errno.h>

static_assert(MCA_PML_BASE_SEND_STANDARD > MCA_PML_BASE_SEND_READY &&
                  MCA_PML_BASE_SEND_READY > MCA_PML_BASE_SEND_BUFFERED,
              "ready and standard sends are told by one comparison");

/* Sends bytes, or by layout if it is not NULL.  1: the message has left; 0: it is active; or
 * Open MPI's error. */
static inline int send_bytes(pml_send_t *send, const void *bytes, size_t size,
                             const struct mbx_layout *layout, int dst, int tag,
                             bool is_synchronous, ompi_communicator_t *comm)
{
    const struct pml_comm *own = pml_comm_of(comm);
    struct mbx_options options = {
        .user = send,
        .data = own->rank,
        .flags = MBX_AT_ONCE | MBX_DONE | (layout != NULL ? MBX_LAYOUT : 0u),
        .layout = layout,
        .done =
            send->own.is_converted || send->own.copy != NULL ? pml_later_done : pml_send_done};
    uint32_t peer;
    int rc = pml_comm_peer(comm, dst, &peer);

    if (unlikely(rc != OMPI_SUCCESS))
        return rc;
    rc = is_synchronous ? mbx_ssend(pml.ep, peer, own->context_id, pml_comm_tag(own, tag),
                                    bytes, size, &options, &send->own.handle)
                        : mbx_send(pml.ep, peer, own->context_id, pml_comm_tag(own, tag), bytes,
                                   size, &options, &send->own.handle);
    return likely(rc >= 0) ? rc : pml_error(rc);
}

/* Sends non-contiguous or buffered data; returns as send_bytes() does. */
static OUT_OF_LINE int send_packed(pml_send_t *send, const void *buf, size_t count,
                                   ompi_datatype_t *type, int dst, int tag,
                                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    mca_pml_base_request_t *base = &send->super.req_base;
    bool is_buffered = mode == MCA_PML_BASE_SEND_BUFFERED;
    struct mbx_layout layout;
    int rc = OMPI_SUCCESS;

    if (is_buffered)
        rc = pml_data_buffer(base, &send->own, buf, count, type);
    else
        pml_data_send(base, &send->own, buf, count, type, &layout);
    if (rc != OMPI_SUCCESS)
        return rc;
    rc = send_bytes(send, send->own.copy, pml_data_size(type, count),
                    is_buffered ? NULL : &layout, dst, tag,
                    mode == MCA_PML_BASE_SEND_SYNCHRONOUS, comm);
    if (rc != 0)
        pml_data_release(base, &send->own);
    return rc;
}

static inline int send_go(pml_send_t *send, const void *buf, size_t count,
                          ompi_datatype_t *type, int dst, int tag,
                          mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    if (unlikely(mode == MCA_PML_BASE_SEND_BUFFERED) || !pml_data_is_flat(type, count))
        return send_packed(send, buf, count, type, dst, tag, mode, comm);
    return send_bytes(send, pml_data_flat(buf, type), pml_data_size(type, count), NULL, dst,
                      tag, mode == MCA_PML_BASE_SEND_SYNCHRONOUS, comm);
}

/* A buffered send: MPI never sees the request, which is marked as freed from the beginning. */
static OUT_OF_LINE int send_buffered(pml_send_t *send, const void *buf, size_t count,
                                     ompi_datatype_t *type, int dst, int tag,
                                     ompi_communicator_t *comm)
{
    int rc;

    pml_send_describe(send, buf, count, type, dst, tag, MCA_PML_BASE_SEND_BUFFERED, comm,
                      false);
    send->super.req_base.req_free_called = true;
    rc = send_go(send, buf, count, type, dst, tag, MCA_PML_BASE_SEND_BUFFERED, comm);
    if (rc != 0)
        pml_request_give_back(&send->super.req_base);
    else
        pml_send_let_go(send);
    return rc < 0 ? rc : 1;
}

/* Starts a send with a request.  MPI's request stays valid until this call returns, even if
 * another thread completes it.  So fields that only MPI and debuggers read are written later,
 * if the request is kept.  The destination is written first: another thread may complete the
 * request with an error that names the rank.  1: the request was not needed. */
static inline int send_begin(pml_send_t *send, const void *buf, size_t count,
                             ompi_datatype_t *type, int dst, int tag,
                             mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    int rc;

    pml_request_begin(&send->super.req_base);
    if (unlikely(mode == MCA_PML_BASE_SEND_BUFFERED))
        return send_buffered(send, buf, count, type, dst, tag, comm);
    send->super.req_base.req_comm = comm;
    send->super.req_base.req_peer = dst;
    rc = send_go(send, buf, count, type, dst, tag, mode, comm);
    if (unlikely(rc == 0)) {
        pml_send_describe(send, buf, count, type, dst, tag, mode, comm, false);
        return 0;
    }
    send->super.req_base.req_ompi.req_state = OMPI_REQUEST_INVALID; /* for debuggers */
    pml_send_drop(send);
    return rc;
}

/* 1: the message has left, and needs no request; 0: send_with_request() must send it, and
 * reports errors. */
static inline int send_at_once(const void *buf, size_t count, const ompi_datatype_t *type,
                               int dst, int tag, mca_pml_base_send_mode_t mode,
                               ompi_communicator_t *comm)
{
    const struct pml_comm *own = pml_comm_of(comm);
    uint32_t peer = pml_comm_known(own, (size_t)dst);

    return likely(mode >= MCA_PML_BASE_SEND_READY) && likely(pml_data_is_flat(type, count)) &&
           likely(peer != PML_NO_PEER) &&
           likely(mbx_try_send(pml.ep, peer, own->context_id, pml_comm_tag(own, tag),
                               pml_data_flat(buf, type), pml_data_size(type, count),
                               own->rank) == 1);
}

static int send_with_request(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                             int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                             pml_send_t **out)
{
    pml_send_t *send = pml_send_take();

    *out = send;
    return unlikely(send == NULL) ? OMPI_ERR_OUT_OF_RESOURCE
                                  : send_begin(send, buf, count, type, dst, tag, mode, comm);
}

/* Sends a message that could not leave at once. */
static OUT_OF_LINE int isend_rest(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                                  int tag, mca_pml_base_send_mode_t mode,
                                  ompi_communicator_t *comm, ompi_request_t **request)
{
    pml_send_t *send;
    int rc = send_with_request(buf, count, type, dst, tag, mode, comm, &send);

    if (unlikely(rc < 0))
        return pml_error_of_call(comm, dst, rc);
    *request = rc == 1 ? &ompi_request_empty : &send->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

FLATTEN int pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    if (!send_at_once(buf, count, type, dst, tag, mode, comm))
        return isend_rest(buf, count, type, dst, tag, mode, comm, request);
    *request = &ompi_request_empty;
    return OMPI_SUCCESS;
}

static OUT_OF_LINE int send_rest(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                                 int tag, mca_pml_base_send_mode_t mode,
                                 ompi_communicator_t *comm)
{
    ompi_request_t *request;
    int err = isend_rest(buf, count, type, dst, tag, mode, comm, &request);

    if (err != OMPI_SUCCESS || request == &ompi_request_empty)
        return err;
    pml_wait(request);
    err = request->req_status.MPI_ERROR;
    ompi_request_free(&request);
    return err;
}

FLATTEN int pml_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                     mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    if (send_at_once(buf, count, type, dst, tag, mode, comm))
        return OMPI_SUCCESS;
    return send_rest(buf, count, type, dst, tag, mode, comm);
}

int pml_send_start(pml_send_t *send)
{
    mca_pml_base_request_t *base = &send->super.req_base;
    ompi_request_t *internal;
    int rc;

    if (send->super.req_send_mode == MCA_PML_BASE_SEND_BUFFERED) {
        rc = pml_isend(base->req_addr, base->req_count, base->req_datatype, base->req_peer,
                       base->req_tag, MCA_PML_BASE_SEND_BUFFERED, base->req_comm, &internal);
        if (rc != OMPI_SUCCESS)
            return rc;
        rc = 1;
    } else {
        rc = send_go(send, base->req_addr, base->req_count, base->req_datatype, base->req_peer,
                     base->req_tag, send->super.req_send_mode, base->req_comm);
    }
    if (rc == 1)
        pml_request_complete(base, &send->own);
    return rc < 0 ? rc : OMPI_SUCCESS;
}

void pml_send_completed(pml_send_t *send, const struct mbx_completion *completion)
{
    mca_pml_base_request_t *base = &send->super.req_base;

    pml_data_release(base, &send->own);
    base->req_ompi.req_status._ucount = completion->received;
    if (completion->error == -ECANCELED) /* MPI also cancels requests that it found failed */
        base->req_ompi.req_status._cancelled =
            base->req_ompi.req_status.MPI_ERROR == OMPI_SUCCESS;
    else if (unlikely(completion->error != 0))
        base->req_ompi.req_status.MPI_ERROR =
            pml_error_of_rank(base->req_comm, base->req_peer, completion->error);
}

/* Called inside the library. */
void pml_send_done(const struct mbx_completion *completion)
{
    pml_send_t *send = completion->user;
    mca_pml_base_request_t *base = &send->super.req_base;

    if (unlikely(!pml_request_is_plain(base, completion))) {
        pml_report_later(&send->own.later, completion);
        return;
    }
    base->req_ompi.req_status._ucount = completion->received;
    pml_request_done(base, &send->own, completion);
}
