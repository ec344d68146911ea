/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * owner.c - with MPI_THREAD_MULTIPLE, the first thread that calls after MPI_Init owns the
 * component and its endpoint, until a second one calls (base/bias.h).
 *
 *   MPI_Init's thread ── MPI_Init returns ──> the first caller owns ── second caller ──> all is shared
 *   (no other may call)
 *
 * While a thread owns them, the endpoint takes no lock and the component works as without
 * threads.  The functions here replace the module's: they enter and leave.  Functions that Open
 * MPI reaches by a request (request.c, waits.c) do so themselves.
 *
 * All is shared from the start where membarrier(2) is missing, and with MBX_RECORD, MBX_REPLAY and
 * MBX_SHUFFLE, whose functions wait in their own ways.
 */
#include "core/own.h"
#include "pml/pml.h"

#include <ompi/runtime/mpiruntime.h>

/* ---- the end of the ownership ---- */

static void owner_share(struct bias *bias)
{
    (void)bias;
    pml.is_shared = pml.is_mpi_waiting = true;
    pml_requests_share();
    ep_share(pml.ep);
}

/* In MPI_Init no other thread may call. */
static bool owner_has_begun(void)
{
    return ompi_mpi_state != OMPI_MPI_STATE_INIT_STARTED;
}

/* After fork() the child's first call of the library ends it. */
static bool owner_is_gone(void)
{
    return pml.ep == NULL || forked_is_parents(pml.ep);
}

static const struct bias_use owner_use = {.meets = pml_threads_meet,
                                          .share = owner_share,
                                          .has_begun = owner_has_begun,
                                          .is_gone = owner_is_gone};

/* ---- the module ---- */

/* NAME with pml_enter() and pml_leave(), which need not look at may_share here. */
#define ENTERED(how, name, parameters, arguments)                                              \
    static how int owned_##name parameters                                                     \
    {                                                                                          \
        int result;                                                                            \
                                                                                               \
        bias_enter(&pml.bias);                                                                 \
        result = pml_##name arguments;                                                         \
        bias_leave(&pml.bias);                                                                 \
        return result;                                                                         \
    }

#define OWNED(name, parameters, arguments) ENTERED(FLATTEN, name, parameters, arguments)

/* a poll that finds nothing is short: what it rarely does is not inlined */
ENTERED(, progress, (void), ())
OWNED(add_comm, (ompi_communicator_t * comm), (comm))
OWNED(del_comm, (ompi_communicator_t * comm), (comm))
OWNED(irecv_init,
      (void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
       ompi_communicator_t *comm, ompi_request_t **request),
      (buf, count, type, src, tag, comm, request))
OWNED(irecv,
      (void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
       ompi_communicator_t *comm, ompi_request_t **request),
      (buf, count, type, src, tag, comm, request))
OWNED(recv,
      (void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
       ompi_communicator_t *comm, ompi_status_public_t *status),
      (buf, count, type, src, tag, comm, status))
OWNED(isend_init,
      (const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request),
      (buf, count, type, dst, tag, mode, comm, request))
OWNED(isend,
      (const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, ompi_request_t **request),
      (buf, count, type, dst, tag, mode, comm, request))
OWNED(send,
      (const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm),
      (buf, count, type, dst, tag, mode, comm))
OWNED(iprobe,
      (int src, int tag, ompi_communicator_t *comm, int *matched, ompi_status_public_t *status),
      (src, tag, comm, matched, status))
OWNED(probe, (int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status),
      (src, tag, comm, status))
OWNED(improbe,
      (int src, int tag, ompi_communicator_t *comm, int *matched, ompi_message_t **message,
       ompi_status_public_t *status),
      (src, tag, comm, matched, message, status))
OWNED(mprobe,
      (int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
       ompi_status_public_t *status),
      (src, tag, comm, message, status))
OWNED(imrecv,
      (void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
       ompi_request_t **request),
      (buf, count, type, message, request))
OWNED(mrecv,
      (void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
       ompi_status_public_t *status),
      (buf, count, type, message, status))

static void owner_take(mca_pml_base_module_t *module)
{
    module->pml_progress = owned_progress;
    module->pml_add_comm = owned_add_comm;
    module->pml_del_comm = owned_del_comm;
    module->pml_irecv_init = owned_irecv_init;
    module->pml_irecv = owned_irecv;
    module->pml_recv = owned_recv;
    module->pml_isend_init = owned_isend_init;
    module->pml_isend = owned_isend;
    module->pml_send = owned_send;
    module->pml_iprobe = owned_iprobe;
    module->pml_probe = owned_probe;
    module->pml_improbe = owned_improbe;
    module->pml_mprobe = owned_mprobe;
    module->pml_imrecv = owned_imrecv;
    module->pml_mrecv = owned_mrecv;
}

void pml_owner_open(mca_pml_base_module_t *module)
{
    owner_take(module);
    if (bias_open(&pml.bias, &owner_use, !pml_order_is_wanted()))
        ep_own(pml.ep);
    else
        pml.is_shared = pml.is_mpi_waiting = true;
}
