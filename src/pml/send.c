/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - MPI's sends, in all modes.
 *
 *   standard, ready   mbx_send     a message that has left at once has no request: MPI gets its
 *                                  empty one, or the call returns
 *   synchronous       mbx_ssend
 *   buffered          mbx_send of a copy in the memory of MPI_Buffer_attach: for MPI it is
 *                                  complete at once, our request frees itself
 */
#include "pml/pml.h"

static_assert(MCA_PML_BASE_SEND_STANDARD > MCA_PML_BASE_SEND_READY &&
                  MCA_PML_BASE_SEND_READY > MCA_PML_BASE_SEND_BUFFERED,
              "ready and standard sends are told by one comparison");

/* The bytes leave, or are on their way: 1; 0; Open MPI's error.  layout: or NULL, they lie at
 * bytes. */
static inline int send_bytes(pml_send_t *send, const void *bytes, size_t size,
                             const struct mbx_layout *layout, int dst, int tag,
                             bool is_synchronous, ompi_communicator_t *comm)
{
    const struct pml_comm *own = pml_comm_of(comm);
    struct mbx_options options = {.user = send,
                                  .data = own->rank,
                                  .flags = MBX_AT_ONCE | (layout != NULL ? MBX_LAYOUT : 0u),
                                  .layout = layout};
    uint32_t peer;
    int rc = pml_comm_peer(comm, dst, &peer);

    if (unlikely(rc != OMPI_SUCCESS))
        return rc;
    rc = is_synchronous ? mbx_ssend(pml.ep, peer, own->context_id, (uint32_t)tag, bytes, size,
                                    &options, &send->own.handle)
                        : mbx_send(pml.ep, peer, own->context_id, (uint32_t)tag, bytes, size,
                                   &options, &send->own.handle);
    return likely(rc >= 0) ? rc : pml_error(rc);
}

/* What is packed, in pieces or before.  As send_bytes(). */
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

/* MPI never sees the request: it is freed from the beginning. */
static OUT_OF_LINE int send_buffered(pml_send_t *send, const void *buf, size_t count,
                                     ompi_datatype_t *type, int dst, int tag,
                                     ompi_communicator_t *comm)
{
    int rc;

    pml_send_describe(send, buf, count, type, dst, tag, MCA_PML_BASE_SEND_BUFFERED, comm,
                      false);
    send->super.req_base.req_free_called = true;
    atomic_store(&send->own.ends, PML_FREED);
    rc = send_go(send, buf, count, type, dst, tag, MCA_PML_BASE_SEND_BUFFERED, comm);
    if (rc != 0)
        pml_request_give_back(&send->super.req_base);
    return rc < 0 ? rc : 1;
}

/* MPI's request stays valid until this call returns, whoever completes it meanwhile: so what
 * only MPI and debuggers ask for is written when it is known that it is needed.  1: it was not. */
static inline int send_begin(pml_send_t *send, const void *buf, size_t count,
                             ompi_datatype_t *type, int dst, int tag,
                             mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    int rc;

    pml_request_begin(&send->super.req_base, &send->own);
    if (unlikely(mode == MCA_PML_BASE_SEND_BUFFERED))
        return send_buffered(send, buf, count, type, dst, tag, comm);
    send->super.req_base.req_ompi.req_complete_cb = NULL;
    rc = send_go(send, buf, count, type, dst, tag, mode, comm);
    if (unlikely(rc == 0)) {
        pml_send_describe(send, buf, count, type, dst, tag, mode, comm, false);
        return 0;
    }
    send->super.req_base.req_ompi.req_state = OMPI_REQUEST_INVALID; /* for debuggers */
    pml_send_drop(send);
    return rc;
}

/* Without threads nothing completes before this call returns: a message that leaves at once needs
 * no request, and the spare one, which is named all the same, stays spare.  As send_begin(). */
static inline int send_at_once(pml_send_t *spare, const void *buf, size_t count,
                               ompi_datatype_t *type, int dst, int tag,
                               mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    int rc = send_bytes(spare, pml_data_flat(buf, type), pml_data_size(type, count), NULL, dst,
                        tag, false, comm);

    if (unlikely(rc == 0)) {
        pml_request_begin(&spare->super.req_base, &spare->own);
        pml_send_describe(spare, buf, count, type, dst, tag, mode, comm, false);
        pml.spare = pml_send_take();
    }
    return rc;
}

static inline bool send_may_leave_at_once(const ompi_datatype_t *type, size_t count,
                                          mca_pml_base_send_mode_t mode)
{
    return likely(pml.spare != NULL) && likely(pml_data_is_flat(type, count)) &&
           likely(mode >= MCA_PML_BASE_SEND_READY);
}

static OUT_OF_LINE int send_with_request(const void *buf, size_t count, ompi_datatype_t *type,
                                         int dst, int tag, mca_pml_base_send_mode_t mode,
                                         ompi_communicator_t *comm, pml_send_t **out)
{
    pml_send_t *send = pml_send_take();

    *out = send;
    return unlikely(send == NULL) ? OMPI_ERR_OUT_OF_RESOURCE
                                  : send_begin(send, buf, count, type, dst, tag, mode, comm);
}

/* 1: it has left; 0: *send is its request; Open MPI's error. */
static inline int send_any(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                           int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                           pml_send_t **send)
{
    if (unlikely(!send_may_leave_at_once(type, count, mode)))
        return send_with_request(buf, count, type, dst, tag, mode, comm, send);
    *send = pml.spare;
    return send_at_once(*send, buf, count, type, dst, tag, mode, comm);
}

int pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
              mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
              ompi_request_t **request)
{
    pml_send_t *send;
    int rc = send_any(buf, count, type, dst, tag, mode, comm, &send);

    if (unlikely(rc < 0))
        return pml_error_of_call(comm, dst, rc);
    *request = rc == 1 ? &ompi_request_empty : &send->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

static OUT_OF_LINE int send_wait(pml_send_t *send)
{
    ompi_request_t *request = &send->super.req_base.req_ompi;
    int err;

    pml_wait(request);
    err = request->req_status.MPI_ERROR;
    ompi_request_free(&request);
    return err;
}

int pml_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
             mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    pml_send_t *send;
    int rc = send_any(buf, count, type, dst, tag, mode, comm, &send);

    if (unlikely(rc < 0))
        return pml_error_of_call(comm, dst, rc);
    return likely(rc == 1) ? OMPI_SUCCESS : send_wait(send);
}

int pml_send_start(pml_send_t *send)
{
    mca_pml_base_request_t *base = &send->super.req_base;
    ompi_request_t *internal;
    int rc;

    if (send->super.req_send_mode == MCA_PML_BASE_SEND_BUFFERED) {
        rc = pml_isend(base->req_addr, base->req_count, base->req_datatype, base->req_peer,
                       base->req_tag, MCA_PML_BASE_SEND_BUFFERED, base->req_comm, &internal);
        rc = rc == OMPI_SUCCESS ? 1 : rc;
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
    if (unlikely(completion->error != 0))
        base->req_ompi.req_status.MPI_ERROR =
            pml_error_of_rank(base->req_comm, base->req_peer, completion->error);
}
