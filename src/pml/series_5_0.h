/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * series_5_0.h - Open MPI 5.0.
 *
 * A communicator has two numbers in this series: one of 128 bits, and an index.  A component that
 * does not declare support for the first gets an index that all members have agreed on, and uses it
 * as the library's context id.
 */
#ifndef PML_SERIES_5_0_H
#define PML_SERIES_5_0_H

#include <ompi_config.h>

#if !__has_include(<opal/mca/threads/pthreads/threads_pthreads_mutex.h>)
#undef MCA_threads_base_include_HEADER
#undef MCA_threads_mutex_base_include_HEADER
#undef MCA_threads_tsd_base_include_HEADER
#define MCA_threads_base_include_HEADER       "pml/series_5_0_threads.h"
#define MCA_threads_mutex_base_include_HEADER "pml/series_5_0_threads.h"
#define MCA_threads_tsd_base_include_HEADER   "pml/series_5_0_threads.h"
#endif

/* The base's requests include a header of a tool interface (PERUSE).  That header includes
 * another one, which is not installed if Open MPI was built without the interface.  The
 * requests use nothing of it. */
#if !__has_include(<ompi/peruse/peruse.h>)
#define _PERUSE_INTERNAL_H_
#endif

#include <mpi.h>
#include <ompi/constants.h>
#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/bml/base/base.h>
#include <ompi/mca/pml/base/base.h>
#include <ompi/mca/pml/base/pml_base_bsend.h>
#include <ompi/mca/pml/base/pml_base_recvreq.h>
#include <ompi/mca/pml/base/pml_base_sendreq.h>
#include <ompi/mca/pml/pml.h>
#include <ompi/message/message.h>
#include <ompi/proc/proc.h>
#include <ompi/request/request.h>
#include <ompi/request/request_default.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/datatype/opal_datatype_internal.h>
#include <opal/mca/pmix/pmix-internal.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#define PML_SERIES "5.0"

/* Symbols of this series only.  They are weak, so that another series can load the component,
 * which then reports the mismatch. */
#pragma weak ompi_ftmpi_enabled
#pragma weak ompi_ftmpi_output_handle
#pragma weak opal_threads_base_wait_sync_list

#define PML_COMPONENT_TYPE    mca_pml_base_component_2_1_0_t
#define PML_COMPONENT_VERSION MCA_PML_BASE_VERSION_2_1_0

/* All members agree on an index, up to Open MPI's own maximum. */
#define PML_CONTEXT_MAX INT32_MAX

static inline uint32_t pml_series_context_id(const ompi_communicator_t *comm)
{
    return comm->c_index;
}

/* The number that Open MPI agrees on with a context id, for the revocations of ULFM.  It grows
 * from one communicator to the next with the same members.  False: there is none. */
static inline bool pml_series_number(const ompi_communicator_t *comm, uint32_t *number)
{
#if OPAL_ENABLE_FT_MPI
    *number = comm->c_epoch;
    return true;
#else
    (void)comm;
    (void)number;
    return false;
#endif
}

static inline int pml_series_bsend_init(bool has_threads)
{
    (void)has_threads;
    return mca_pml_base_bsend_init();
}

/* Publishes bytes for all processes; Open MPI's error. */
static inline int pml_series_publish(const mca_base_component_t *component, const void *bytes,
                                     size_t size)
{
    int err;

    OPAL_MODEX_SEND(err, PMIX_GLOBAL, component, bytes, size);
    return err == PMIX_SUCCESS ? OMPI_SUCCESS : OMPI_ERROR;
}

/* The bytes that a process has published, to be freed by the caller; Open MPI's error. */
static inline int pml_series_lookup(const mca_base_component_t *component,
                                    const ompi_proc_t *proc, void **bytes, size_t *size)
{
    int err;

    OPAL_MODEX_RECV(err, component, &proc->super.proc_name, (uint8_t **)bytes, size);
    return err == PMIX_SUCCESS ? OMPI_SUCCESS : OMPI_ERR_NOT_FOUND;
}

/* No addresses are requested ahead of need: PMIx does not answer all of several concurrent
 * queries. */
typedef void pml_series_answer(void *arg, const void *bytes, size_t size);

static inline uint32_t pml_series_ranks(void)
{
    return opal_process_info.num_procs;
}

static inline bool pml_series_ask(const mca_base_component_t *component, uint32_t rank,
                                  pml_series_answer *answer, void *arg)
{
    (void)component;
    (void)rank;
    (void)answer;
    (void)arg;
    return false;
}

static inline void pml_series_settle(const mca_base_component_t *component)
{
    (void)component;
}

/* 0 for a process of our own job; otherwise a number for its job. */
static inline uint32_t pml_series_job(const ompi_proc_t *proc)
{
    uint32_t job = proc->super.proc_name.jobid;

    return job == ompi_proc_local()->super.proc_name.jobid ? 0 : job;
}

/* The host of a process, or NULL. */
static inline const char *pml_series_host(const ompi_proc_t *proc)
{
    return opal_get_proc_hostname(&proc->super);
}

/* One-sided calls, and the agreements of ULFM, use Open MPI's own transports (BTL).  Open MPI
 * opens these on request, before addresses are exchanged; messages do not use them.  Open MPI's
 * error. */
static inline int pml_series_open(bool has_threads)
{
    int err = mca_base_framework_open(&ompi_bml_base_framework, 0);

    return err == OMPI_SUCCESS ? mca_bml_base_init(false, has_threads) : err;
}

static inline void pml_series_close(void)
{
    (void)mca_base_framework_close(&ompi_bml_base_framework);
}

/* True if MPI continues after failures of ranks (ULFM, mpiexec --with-ft ulfm).  Its own loops
 * then wait, because they check for failures. */
static inline bool pml_series_survives(void)
{
    return ompi_ftmpi_enabled;
}

/* ---- failures.c ---- */

int pml_revoke_comm(ompi_communicator_t *comm, bool is_collective_only);

/* Removes a communicator that is freed from the list of revoked ones. */
struct pml_comm;
void pml_failures_forget(struct pml_comm *own);

/* Reports failures that a completion has found, which must wait until after the completion;
 * drops messages that have arrived for revoked communicators. */
void pml_failures_progress(void);

/* Notes a failed process: MPI's error, or `other` if MPI does not continue after failures. */
int pml_failures_found(ompi_proc_t *proc, int other);

/* Completes a blocking receive with the error that MPI found while it waited. */
void pml_failures_end(ompi_request_t *request);

/* The reason why no message can be expected: MPI's error, or OMPI_SUCCESS. */
int pml_failures_of(ompi_communicator_t *comm, int src, int tag);

/* Adds the processes to the transports of agreements. */
int pml_failures_add_procs(ompi_proc_t **procs, size_t count);

/* A receive completes without an error: clears the one that a check for failures left in the
 * status. */
static inline void pml_series_clear(ompi_status_public_t *status)
{
    status->MPI_ERROR = OMPI_SUCCESS;
}

/* Sets the functions of the module that only this series has. */
static inline void pml_series_module(mca_pml_base_module_t *module)
{
    module->pml_revoke_comm = pml_revoke_comm;
}

#endif
