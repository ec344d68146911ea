/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * persistent.c - persistent requests, which MPI_Start starts.
 *
 * While such a request is not active it is complete, so MPI_Request_free() gives it back at
 * once; while it is active, its completion does.
 */
#include "pml/pml.h"

/* ---- requests that were never started ---- */

static struct pml_unstarted *unstarted; /* the newest; not with may_share */

static void unstarted_add(struct pml_own *own, const struct mbx_unstarted *what)
{
    own->is_unstarted = true;
    own->unstarted = (struct pml_unstarted){.next = unstarted, .previous = NULL, .what = *what};
    if (unstarted != NULL)
        unstarted->previous = &own->unstarted;
    unstarted = &own->unstarted;
}

static OUT_OF_LINE void unstarted_remove(struct pml_own *own)
{
    struct pml_unstarted *one = &own->unstarted;

    own->is_unstarted = false;
    if (one->next != NULL)
        one->next->previous = one->previous;
    *(one->previous != NULL ? &one->previous->next : &unstarted) = one->next;
}

int pml_persistent_unstarted(unsigned index, struct mbx_unstarted *out)
{
    const struct pml_unstarted *one = unstarted;

    for (unsigned i = 0; i < index && one != NULL; i++)
        one = one->next;
    if (one != NULL)
        *out = one->what;
    return one != NULL;
}

static struct pml_own *own_of(mca_pml_base_request_t *base)
{
    return base->req_type == MCA_PML_REQUEST_SEND ? &((pml_send_t *)base)->own
                                                  : &((pml_recv_t *)base)->own;
}

void pml_persistent_end(mca_pml_base_request_t *base)
{
    struct pml_own *own = own_of(base);

    base->req_ompi.req_persistent = false;
    if (own->is_unstarted)
        unstarted_remove(own);
}

/* Lists a request that was not started.  The look-up adds its peer now; an unreachable peer is
 * reported when the request is started. */
static void persistent_note(struct pml_own *own, bool is_send, int peer, int tag,
                            ompi_communicator_t *comm)
{
    struct pml_wanted wanted;

    if (!pml.may_share && pml_comm_wanted(comm, peer, tag, &wanted) == OMPI_SUCCESS)
        unstarted_add(own, &(struct mbx_unstarted){.is_send = is_send,
                                                   .context_id = wanted.context_id,
                                                   .peer = wanted.source,
                                                   .tag = wanted.tag,
                                                   .ignore = wanted.ignore});
}

/* ---- MPI's calls ---- */

/* Makes the request complete and inactive. */
static void persistent_rest(mca_pml_base_request_t *base)
{
    pml_request_begin(base);
    base->req_ompi.req_state = OMPI_REQUEST_INACTIVE;
    base->req_ompi.req_complete = REQUEST_COMPLETED;
    base->req_pml_complete = true;
}

int pml_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                   ompi_request_t **request)
{
    pml_send_t *send = pml_send_take();

    if (send == NULL)
        return MPI_ERR_NO_MEM;
    pml_send_describe(send, buf, count, type, dst, tag, mode, comm, true);
    persistent_rest(&send->super.req_base);
    persistent_note(&send->own, true, dst, tag, comm);
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
    persistent_rest(&recv->super.req_base);
    persistent_note(&recv->own, false, src, tag, comm);
    *request = &recv->super.req_base.req_ompi;
    return OMPI_SUCCESS;
}

static inline void persistent_begin(mca_pml_base_request_t *base)
{
    struct pml_own *own = own_of(base);

    if (own->is_unstarted)
        unstarted_remove(own);

    pml_request_settle(base);
    if (base->req_type == MCA_PML_REQUEST_SEND)
        pml_request_begin(base);
    else
        pml_recv_begin((pml_recv_t *)base, base->req_peer);
}

void pml_persistent_begin(mca_pml_base_request_t *base)
{
    persistent_begin(base);
}

static int persistent_start(mca_pml_base_request_t *base)
{
    bool is_send = base->req_type == MCA_PML_REQUEST_SEND;
    int err;

    persistent_begin(base);
    err = is_send ? pml_send_start((pml_send_t *)base) : pml_recv_start((pml_recv_t *)base);
    if (err == OMPI_SUCCESS)
        return OMPI_SUCCESS;
    persistent_rest(base);
    return pml_error_of_call(base->req_comm, base->req_peer, err);
}

int pml_start(size_t count, ompi_request_t **requests)
{
    int err = OMPI_SUCCESS;

    pml_enter();
    for (size_t i = 0; i < count && err == OMPI_SUCCESS; i++)
        if (requests[i] != NULL && requests[i]->req_type == OMPI_REQUEST_PML)
            err = persistent_start((mca_pml_base_request_t *)requests[i]);
    pml_leave();
    return err;
}
