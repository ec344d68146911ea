/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * persistent.c - requests that MPI_Start starts again and again.
 *
 * While such a request is not active it is complete, and so MPI_Request_free() gives it back at
 * once; while it is active, its completion does.
 */
#include "pml/pml.h"

/* It is complete, and starts nothing. */
static void persistent_rest(mca_pml_base_request_t *base, struct pml_own *own)
{
    pml_request_begin(base, own);
    base->req_ompi.req_state = OMPI_REQUEST_INACTIVE;
    base->req_ompi.req_complete = REQUEST_COMPLETED;
    base->req_pml_complete = true;
    atomic_store(&own->ends, PML_COMPLETE);
}

int pml_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                   ompi_request_t **request)
{
    pml_send_t *send = pml_send_take();

    if (send == NULL)
        return MPI_ERR_NO_MEM;
    pml_send_describe(send, buf, count, type, dst, tag, mode, comm, true);
    persistent_rest(&send->super.req_base, &send->own);
    *request = &send->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

int pml_irecv_init(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                   ompi_communicator_t *comm, ompi_request_t **request)
{
    pml_recv_t *recv = pml_recv_take();

    if (recv == NULL)
        return MPI_ERR_NO_MEM;
    pml_recv_describe(recv, buf, count, type, src, tag, comm, true);
    persistent_rest(&recv->super.req_base, &recv->own);
    *request = &recv->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

static int persistent_start(mca_pml_base_request_t *base)
{
    bool is_send = base->req_type == MCA_PML_REQUEST_SEND;
    struct pml_own *own = is_send ? &((pml_send_t *)base)->own : &((pml_recv_t *)base)->own;
    int err;

    pml_request_settle(own);
    if (is_send)
        pml_request_begin(base, own);
    else
        pml_recv_begin((pml_recv_t *)base, base->req_peer);
    err = is_send ? pml_send_start((pml_send_t *)base) : pml_recv_start((pml_recv_t *)base);
    if (err == OMPI_SUCCESS)
        return OMPI_SUCCESS;
    persistent_rest(base, own);
    return pml_error_of_call(base->req_comm, base->req_peer, err);
}

int pml_start(size_t count, ompi_request_t **requests)
{
    int err = OMPI_SUCCESS;

    for (size_t i = 0; i < count && err == OMPI_SUCCESS; i++)
        if (requests[i] != NULL && requests[i]->req_type == OMPI_REQUEST_PML)
            err = persistent_start((mca_pml_base_request_t *)requests[i]);
    return err;
}
