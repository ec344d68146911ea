/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * series_4_1.h - Open MPI 4.1.
 */
#ifndef PML_SERIES_4_1_H
#define PML_SERIES_4_1_H

#include <ompi_config.h>

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
#include <opal/mca/pmix/pmix.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#define PML_SERIES "4.1"

/* Symbols of this series only.  They are weak, so that another series can load the component,
 * which then reports the mismatch. */
#pragma weak opal_pmix
#pragma weak orte_process_info
#pragma weak opal_value_t_class

#define PML_COMPONENT_TYPE    mca_pml_base_component_2_0_0_t
#define PML_COMPONENT_VERSION MCA_PML_BASE_VERSION_2_0_0

/* All members agree on a context id, up to Open MPI's own maximum. */
#define PML_CONTEXT_MAX INT32_MAX

static inline uint32_t pml_series_context_id(const ompi_communicator_t *comm)
{
    return comm->c_contextid;
}

/* There is no agreed number with a context id: generation.c counts. */
static inline bool pml_series_number(const ompi_communicator_t *comm, uint32_t *number)
{
    (void)comm;
    (void)number;
    return false;
}

static inline int pml_series_bsend_init(bool has_threads)
{
    return mca_pml_base_bsend_init(has_threads);
}

/* Publishes bytes for all processes; Open MPI's error. */
static inline int pml_series_publish(const mca_base_component_t *component, const void *bytes,
                                     size_t size)
{
    int err;

    OPAL_MODEX_SEND(err, OPAL_PMIX_GLOBAL, component, bytes, size);
    return err;
}

/* The bytes that a process has published, to be freed by the caller; Open MPI's error. */
static inline int pml_series_lookup(const mca_base_component_t *component,
                                    const ompi_proc_t *proc, void **bytes, size_t *size)
{
    int err;

    OPAL_MODEX_RECV(err, component, &proc->super.proc_name, (uint8_t **)bytes, size);
    return err;
}

/* The number of processes of our job. */
static inline uint32_t pml_series_ranks(void)
{
    return ompi_process_info.num_procs;
}

/* Receives an answer: its bytes, which belong to PMIx, or NULL.  Called in PMIx's thread. */
typedef void pml_series_answer(void *arg, const void *bytes, size_t size);

struct pml_series_question {
    pml_series_answer *answer;
    void *arg;
    char *key; /* PMIx reads it in its thread, until it has answered */
};

static inline void pml_series_answered(int status, opal_value_t *value, void *arg)
{
    struct pml_series_question question = *(struct pml_series_question *)arg;
    bool is_there = status == OPAL_SUCCESS && value != NULL && value->type == OPAL_BYTE_OBJECT;

    free(question.key);
    free(arg);
    question.answer(question.arg, is_there ? value->data.bo.bytes : NULL,
                    is_there ? value->data.bo.size : 0);
}

/* Requests the data that the process of this rank of our job has published, if the server on
 * this host has it.  answer is called once, soon; not at all after false. */
static inline bool pml_series_ask(const mca_base_component_t *component, uint32_t rank,
                                  pml_series_answer *answer, void *arg)
{
    opal_process_name_t name = {ompi_proc_local()->super.proc_name.jobid, rank};
    struct pml_series_question *question = malloc(sizeof *question);
    char *key = mca_base_component_to_string(component);
    opal_value_t known;
    opal_list_t how;
    int err = OPAL_ERR_OUT_OF_RESOURCE;

    OBJ_CONSTRUCT(&how, opal_list_t);
    OBJ_CONSTRUCT(&known, opal_value_t);
    known.key = (char *)OPAL_PMIX_OPTIONAL;
    known.type = OPAL_BOOL;
    known.data.flag = true;
    opal_list_append(&how, &known.super);
    if (question != NULL && key != NULL) {
        *question = (struct pml_series_question){answer, arg, key};
        err = opal_pmix.get_nb(&name, key, &how, pml_series_answered, question);
    }
    opal_list_remove_item(&how, &known.super);
    known.key = NULL;
    OBJ_DESTRUCT(&known);
    OBJ_DESTRUCT(&how);
    if (err == OPAL_SUCCESS)
        return true;
    free(key);
    free(question);
    return false;
}

/* Waits until PMIx's thread has returned from all earlier answers: it handles queries in order,
 * and this call waits for one more. */
static inline void pml_series_settle(const mca_base_component_t *component)
{
    void *bytes = NULL;
    size_t size;

    (void)pml_series_lookup(component, ompi_proc_local(), &bytes, &size);
    free(bytes);
}

/* 0 for a process of our own job; otherwise a number for its job. */
static inline uint32_t pml_series_job(const ompi_proc_t *proc)
{
    uint32_t job = proc->super.proc_name.jobid;

    return job == ompi_proc_local()->super.proc_name.jobid
               ? 0
               : job & 0xffff /* the lower half; the upper half is the launcher's */;
}

/* The host of a process, or NULL. */
static inline const char *pml_series_host(const ompi_proc_t *proc)
{
    return proc->super.proc_hostname;
}

/* One-sided calls become messages (osc/pt2pt): there is nothing to open. */
static inline int pml_series_open(bool has_threads)
{
    (void)has_threads;
    return OMPI_SUCCESS;
}

static inline void pml_series_close(void)
{
}

/* MPI does not continue after failures of ranks. */
static inline bool pml_series_survives(void)
{
    return false;
}

static inline void pml_failures_progress(void)
{
}

static inline int pml_failures_found(ompi_proc_t *proc, int other)
{
    (void)proc;
    return other;
}

struct pml_comm;

static inline void pml_failures_forget(struct pml_comm *own)
{
    (void)own;
}

static inline void pml_failures_end(ompi_request_t *request)
{
    (void)request;
}

static inline int pml_failures_of(ompi_communicator_t *comm, int src, int tag)
{
    (void)comm;
    (void)src;
    (void)tag;
    return OMPI_SUCCESS;
}

static inline int pml_failures_add_procs(ompi_proc_t **procs, size_t count)
{
    (void)procs;
    (void)count;
    return OMPI_SUCCESS;
}

static inline void pml_series_clear(ompi_status_public_t *status)
{
    (void)status;
}

/* Checkpoints are not supported. */
static inline int pml_series_ft_event(int state)
{
    (void)state;
    return OMPI_ERR_NOT_SUPPORTED;
}

/* Sets the functions of the module that only this series has. */
static inline void pml_series_module(mca_pml_base_module_t *module)
{
    module->pml_ft_event = pml_series_ft_event;
}

#endif
