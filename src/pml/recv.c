/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c - MPI's receives, including receives of a message that a matched probe has taken.
 *
 * A matched message is the library's handle, in the pointer that Open MPI's message reserves for
 * us.
 */
#include "pml/pml.h"

#include <errno.h>

static_assert(sizeof(void *) == sizeof(mbx_message), "a message's handle is kept in a pointer");

/* Arguments of the library's receive calls; layout is for non-contiguous buffers. */
struct recv_args {
    struct mbx_options options;
    struct mbx_layout layout;
};

/* Returns the buffer to receive into, and sets the options in *args. */
static inline void *recv_buffer(pml_recv_t *recv, void *buf, size_t count,
                                const ompi_datatype_t *type, struct recv_args *args)
{
    args->options =
        (struct mbx_options){.user = recv, .flags = MBX_DONE, .done = pml_recv_done};
    if (likely(pml_data_is_flat(type, count)))
        return pml_data_flat(buf, type);
    pml_data_recv(&recv->super.req_base, &recv->own, buf, count, type, &args->layout);
    args->options.flags |= MBX_LAYOUT;
    args->options.layout = &args->layout;
    if (recv->own.is_converted)
        args->options.done = pml_later_done;
    return NULL;
}

static OUT_OF_LINE int recv_failed(pml_recv_t *recv, int err)
{
    pml_data_release(&recv->super.req_base, &recv->own);
    return pml_error(err);
}

/* Posts for a non-contiguous buffer. */
static OUT_OF_LINE int recv_post(pml_recv_t *recv, struct pml_wanted wanted, void *buf,
                                 size_t count, ompi_datatype_t *type)
{
    struct recv_args args;
    void *bytes = recv_buffer(recv, buf, count, type, &args);
    int err = mbx_recv(pml.ep, wanted.source, wanted.context_id, wanted.tag, wanted.ignore,
                       bytes, pml_data_size(type, count), &args.options, &recv->own.handle);

    return likely(err == 0) ? OMPI_SUCCESS : recv_failed(recv, err);
}

/* Posts to a contiguous buffer.  The library is compiled into this call: constant options cost
 * nothing. */
static inline int recv_post_flat(pml_recv_t *recv, struct pml_wanted wanted, void *buf,
                                 size_t count, const ompi_datatype_t *type)
{
    const struct mbx_options options = {.user = recv, .flags = MBX_DONE, .done = pml_recv_done};
    int err = mbx_recv(pml.ep, wanted.source, wanted.context_id, wanted.tag, wanted.ignore,
                       pml_data_flat(buf, type), pml_data_size(type, count), &options,
                       &recv->own.handle);

    return likely(err == 0) ? OMPI_SUCCESS : recv_failed(recv, err);
}

static inline int recv_go(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                          int src, int tag, ompi_communicator_t *comm)
{
    struct pml_wanted wanted;
    int err = pml_comm_wanted(comm, src, tag, &wanted);

    if (unlikely(err != OMPI_SUCCESS))
        return err;
    return likely(pml_data_is_flat(type, count))
               ? recv_post_flat(recv, wanted, buf, count, type)
               : recv_post(recv, wanted, buf, count, type);
}

static inline int recv_begin(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                             int src, int tag, ompi_communicator_t *comm)
{
    int err;

    pml_recv_begin(recv, src);
    pml_recv_describe(recv, buf, count, type, src, tag, comm, false);
    err = recv_go(recv, buf, count, type, src, tag, comm);
    if (unlikely(err != OMPI_SUCCESS))
        pml_request_give_back(&recv->super.req_base);
    return err;
}

FLATTEN int pml_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                      ompi_communicator_t *comm, ompi_request_t **request)
{
    pml_recv_t *recv = pml_recv_take();
    int err;

    if (unlikely(recv == NULL))
        return MPI_ERR_NO_MEM;
    err = recv_begin(recv, buf, count, type, src, tag, comm);
    if (unlikely(err != OMPI_SUCCESS))
        return pml_error_of_call(comm, src, err);
    *request = &recv->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

/* Waits for the request, and frees it.  Returns its error. */
static int recv_wait(ompi_request_t *request, ompi_status_public_t *status)
{
    int err;

    pml_wait(request);
    if (unlikely(!REQUEST_COMPLETE(request)))
        pml_failures_end(request);
    err = request->req_status.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, request->req_status, false);
    ompi_request_free(&request);
    return err;
}

/* The rank of the sender, if it is known without a call of the library; otherwise
 * MPI_UNDEFINED. */
static inline int recv_source(const ompi_communicator_t *comm, int wanted,
                              const struct mbx_status *status)
{
    const struct pml_comm *own = pml_comm_of(comm);

    if (likely(wanted != OMPI_ANY_SOURCE))
        return wanted;
    return status->data < own->size && pml_comm_known(own, status->data) == status->source
               ? (int)status->data
               : MPI_UNDEFINED;
}

/* Receives a message that has not arrived, or that needs a request. */
static OUT_OF_LINE int recv_with_request(void *buf, size_t count, ompi_datatype_t *type,
                                         int src, int tag, ompi_communicator_t *comm,
                                         ompi_status_public_t *status)
{
    ompi_request_t *request;
    int err = pml_irecv(buf, count, type, src, tag, comm, &request);

    return likely(err == OMPI_SUCCESS) ? recv_wait(request, status) : err;
}

/* True: the message had arrived, and has been received. */
static inline bool recv_at_once(void *buf, size_t count, const ompi_datatype_t *type, int src,
                                int tag, ompi_communicator_t *comm,
                                ompi_status_public_t *status)
{
    struct mbx_status found;
    struct pml_wanted wanted;
    int source;

    if (unlikely(!pml_data_is_flat(type, count)) ||
        unlikely(pml_comm_wanted(comm, src, tag, &wanted) != OMPI_SUCCESS) ||
        mbx_try_recv(pml.ep, wanted.source, wanted.context_id, wanted.tag, wanted.ignore,
                     pml_data_flat(buf, type), pml_data_size(type, count), &found) != 1)
        return false;
    if (status == MPI_STATUS_IGNORE)
        return true;
    source = recv_source(comm, src, &found);
    if (unlikely(source == MPI_UNDEFINED))
        source = pml_comm_rank(comm, &found);
    pml_status_fill(status, source, found.tag, found.size);
    return true;
}

FLATTEN int pml_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                     ompi_communicator_t *comm, ompi_status_public_t *status)
{
    if (recv_at_once(buf, count, type, src, tag, comm, status))
        return OMPI_SUCCESS;
    return recv_with_request(buf, count, type, src, tag, comm, status);
}

static int recv_take_message(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                             const ompi_message_t *message)
{
    struct recv_args args;
    void *bytes = recv_buffer(recv, buf, count, type, &args);
    int err = mbx_mrecv(pml.ep, (mbx_message)(uintptr_t)message->req_ptr, bytes,
                        pml_data_size(type, count), &args.options, &recv->own.handle);

    return err == 0 ? OMPI_SUCCESS : recv_failed(recv, err);
}

int pml_imrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
               ompi_request_t **request)
{
    pml_recv_t *recv = pml_recv_take();
    int err;

    if (recv == NULL)
        return MPI_ERR_NO_MEM;
    pml_recv_begin(recv, (*message)->peer);
    pml_recv_describe(recv, buf, count, type, (*message)->peer, OMPI_ANY_TAG, (*message)->comm,
                      false);
    err = recv_take_message(recv, buf, count, type, *message);
    if (err != OMPI_SUCCESS) {
        pml_request_give_back(&recv->super.req_base);
        return err;
    }
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    *request = &recv->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

int pml_mrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
              ompi_status_public_t *status)
{
    ompi_request_t *request;
    int err = pml_imrecv(buf, count, type, message, &request);

    return err == OMPI_SUCCESS ? recv_wait(request, status) : err;
}

int pml_recv_start(pml_recv_t *recv)
{
    mca_pml_base_request_t *base = &recv->super.req_base;

    return recv_go(recv, base->req_addr, base->req_count, base->req_datatype, base->req_peer,
                   base->req_tag, base->req_comm);
}

static OUT_OF_LINE void recv_ended(pml_recv_t *recv, int error)
{
    mca_pml_base_request_t *base = &recv->super.req_base;
    ompi_status_public_t *status = &base->req_ompi.req_status;

    pml_data_release(base, &recv->own);
    /* MPI also cancels requests that it has found to have failed */
    if (error == -ECANCELED) {
        if (unlikely(pml_deaths_ended(recv)))
            status->MPI_ERROR = MPI_ERR_OTHER;
        status->_cancelled = status->MPI_ERROR == OMPI_SUCCESS;
    } else if (error != 0)
        status->MPI_ERROR = pml_error_of_rank(base->req_comm, status->MPI_SOURCE, error);
}

void pml_recv_completed(pml_recv_t *recv, const struct mbx_completion *completion)
{
    mca_pml_base_request_t *base = &recv->super.req_base;
    ompi_status_public_t *status = &base->req_ompi.req_status;

    status->MPI_SOURCE = base->req_peer != OMPI_ANY_SOURCE
                             ? base->req_peer
                             : pml_comm_rank(base->req_comm, &completion->status);
    status->MPI_TAG = (int)(uint32_t)completion->status.tag;
    status->_ucount = completion->received;
    if (likely(completion->error != -ECANCELED))
        pml_series_clear(status);
    if (unlikely(completion->error != 0) || unlikely(recv->own.is_converted))
        recv_ended(recv, completion->error);
}

/* Called inside the library. */
void pml_recv_done(const struct mbx_completion *completion)
{
    pml_recv_t *recv = completion->user;
    mca_pml_base_request_t *base = &recv->super.req_base;
    ompi_status_public_t *status = &base->req_ompi.req_status;
    int source = recv_source(base->req_comm, status->MPI_SOURCE, &completion->status);

    if (unlikely(!pml_request_is_plain(base, completion)) ||
        unlikely(source == MPI_UNDEFINED)) {
        pml_report_later(&recv->own.later, completion);
        return;
    }
    pml_status_fill(status, source, completion->status.tag, completion->received);
    pml_series_clear(status);
    pml_request_done(base, &recv->own, completion);
}
