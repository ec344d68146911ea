/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * component.c - registration, opening, selection and end of the component in Open MPI.
 *
 *   mca_pml_matchbox.so
 *      └── mca_pml_matchbox_component
 *             register   pml_matchbox_priority
 *             open       checks that Open MPI is the series that we were built for
 *             init       opens the endpoint, publishes its address, offers the module
 *             finalize   closes the endpoint
 *
 * Without `pml = matchbox` its priority is below Open MPI's own components: only users who request
 * it get it.
 */
#include "pml/pml.h"

#include <string.h>

#define PRIORITY 5

struct pml pml;
_Thread_local unsigned pml_calling_back;

static int priority;

static mca_pml_base_module_t module; /* what Open MPI calls */
static const mca_pml_base_module_t
    untouched; /* the same, before others have put functions there */

static int component_register(void)
{
    extern PML_COMPONENT_TYPE mca_pml_matchbox_component;

    priority = PRIORITY;
    (void)mca_base_component_var_register(
        &mca_pml_matchbox_component.pmlm_version, "priority",
        "Priority of the component; if it is higher than "
        "the priorities of ob1 and ucx, the component is chosen "
        "although nobody asks for it",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_READONLY,
        &priority);
    return OMPI_SUCCESS;
}

/* "Open MPI v4.1.4, package: ..." begins with "Open MPI v" PML_SERIES ".". */
static int component_open(void)
{
    static const char wanted[] = "Open MPI v" PML_SERIES ".";
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;

    MPI_Get_library_version(version, &length);
    if (strncmp(version, wanted, sizeof wanted - 1) == 0 && pml_series_fits())
        return OMPI_SUCCESS;
    opal_output(0,
                "matchbox: mca_pml_matchbox.so was built for %s, and this is %.*s: it is not "
                "used",
                strncmp(version, wanted, sizeof wanted - 1) == 0
                    ? "an Open MPI " PML_SERIES " that was configured in another way"
                    : "Open MPI " PML_SERIES,
                (int)strcspn(version, ","), version);
    return OPAL_ERR_NOT_AVAILABLE;
}

static int component_close(void)
{
    return OMPI_SUCCESS;
}

/* Reports to the library that the component is used, and the meaning of envelopes. */
static void component_name(void)
{
    char text[sizeof "component " + MPI_MAX_LIBRARY_VERSION_STRING] = "component ";
    int length;

    MPI_Get_library_version(text + strlen(text), &length);
    (void)mbx_name_program(pml.ep, text);
}

static bool is_strict(void);
static void be_strict(void);

static mca_pml_base_module_t *component_init(int *out, bool has_progress_threads,
                                             bool has_threads)
{
    const char *const params[] = {has_threads ? "THREADS=many" : "THREADS=one",
                                  pml_is_oversubscribed() ? "OVERSUBSCRIBED=yes" : NULL, NULL};
    const struct mbx_config config = {.params = params};

    (void)has_progress_threads;
    module = untouched; /* MPI may be opened again */
    if (mbx_open(&config, &pml.ep) < 0)
        return NULL; /* the log has the reason */
    pml.may_share = has_threads;
    pml.is_shared = false;
    pml.is_mpi_waiting = pml_series_survives();
    if (pml_procs_open() != OMPI_SUCCESS ||
        pml_series_bsend_init(has_threads) != OMPI_SUCCESS ||
        pml_series_open(has_threads) != OMPI_SUCCESS) {
        mbx_close(pml.ep);
        pml.ep = NULL;
        return NULL;
    }
    if (has_threads)
        pml_owner_open(&module);
    if (is_strict())
        be_strict();
    pml_order_open(&module);
    pml_series_module(&module);
    *out = priority;
    return &module;
}

static int component_finalize(void)
{
    if (pml.ep == NULL)
        return OMPI_SUCCESS;
    pml_order_close();
    pml_progress_close(module.pml_progress);
    pml_lookup_close();
    pml_series_close();
    mbx_close(pml.ep);
    pml_procs_close();
    pml_generations_close();
    pml.ep = NULL;
    pml.spare = NULL;
    return OMPI_SUCCESS;
}

static int module_enable(bool enable)
{
    int err;

    if (!enable)
        return OMPI_SUCCESS;
    err = pml_requests_open();
    if (err == OMPI_SUCCESS)
        err = pml_progress_open();
    if (err == OMPI_SUCCESS)
        err = pml_order_start();
    if (err == OMPI_SUCCESS)
        component_name();
    return err;
}

static int module_dump(ompi_communicator_t *comm, int verbose)
{
    const struct pml_comm *own = pml_comm_of(comm);

    (void)verbose;
    opal_output(0, "matchbox: communicator %s, context id %u, rank %u, %u ranks", comm->c_name,
                own->context_id, own->rank, own->size);
    return OMPI_SUCCESS;
}

static const mca_pml_base_module_t untouched = {
    .pml_add_procs = pml_add_procs,
    .pml_del_procs = pml_del_procs,
    .pml_enable = module_enable,
    .pml_progress = pml_progress,
    .pml_add_comm = pml_add_comm,
    .pml_del_comm = pml_del_comm,
    .pml_irecv_init = pml_irecv_init,
    .pml_irecv = pml_irecv,
    .pml_recv = pml_recv,
    .pml_isend_init = pml_isend_init,
    .pml_isend = pml_isend,
    .pml_send = pml_send,
    .pml_iprobe = pml_iprobe,
    .pml_probe = pml_probe,
    .pml_start = pml_start,
    .pml_improbe = pml_improbe,
    .pml_mprobe = pml_mprobe,
    .pml_imrecv = pml_imrecv,
    .pml_mrecv = pml_mrecv,
    .pml_dump = module_dump,
    .pml_max_contextid = PML_CONTEXT_MAX,
    .pml_max_tag = INT32_MAX,
};

/* ---- MBX_STRICT_SENDS ---- */

static mca_pml_base_module_t lenient; /* the usual functions */

/* Collectives (negative tags) keep the standard mode: their ranks know each other's algorithm,
 * and may rely on it. */
static mca_pml_base_send_mode_t strict_mode(mca_pml_base_send_mode_t mode, int tag)
{
    return mode == MCA_PML_BASE_SEND_STANDARD && tag >= 0 ? MCA_PML_BASE_SEND_SYNCHRONOUS
                                                          : mode;
}

static int strict_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst,
                             int tag, mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                             ompi_request_t **request)
{
    return lenient.pml_isend_init(buf, count, type, dst, tag, strict_mode(mode, tag), comm,
                                  request);
}

static int strict_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                        ompi_request_t **request)
{
    return lenient.pml_isend(buf, count, type, dst, tag, strict_mode(mode, tag), comm, request);
}

static int strict_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    return lenient.pml_send(buf, count, type, dst, tag, strict_mode(mode, tag), comm);
}

static bool is_strict(void)
{
    struct mbx_param param;

    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        if (strcmp(param.name, "MBX_STRICT_SENDS") == 0)
            return strcmp(param.value, "on") == 0 || strcmp(param.value, "yes") == 0;
    return false;
}

/* Replaces the send functions, so that the usual ones need no check of the mode. */
static void be_strict(void)
{
    lenient = module;
    module.pml_isend_init = strict_isend_init;
    module.pml_isend = strict_isend;
    module.pml_send = strict_send;
}

/* `mbx exec` reads this symbol before it starts anything. */
extern const char mca_pml_matchbox_series[];
__attribute__((visibility("default"))) const char mca_pml_matchbox_series[] = PML_SERIES;

/* Open MPI looks up the component by this name. */
extern PML_COMPONENT_TYPE mca_pml_matchbox_component;

__attribute__((visibility("default"))) PML_COMPONENT_TYPE mca_pml_matchbox_component = {
    .pmlm_version =
        {
            PML_COMPONENT_VERSION,
            .mca_component_name = PML_NAME,
            MCA_BASE_MAKE_VERSION(component, MBX_VERSION_MAJOR, MBX_VERSION_MINOR,
                                  MBX_VERSION_PATCH),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
    .pmlm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .pmlm_init = component_init,
    .pmlm_finalize = component_finalize,
};
