/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * series.h - Open MPI's headers, and the differences between its series.
 *
 * The component is built for the series of its headers, and checks the series when it is
 * loaded (component.c): the layout of structures differs between series.
 */
#ifndef PML_SERIES_H
#define PML_SERIES_H

#include <ompi_config.h>

#if OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1
#include "pml/series_4_1.h"
#elif OMPI_MAJOR_VERSION == 5
#include "pml/series_5_0.h"
#else
#error "the component knows the series 4.1 and 5.0 of Open MPI"
#endif

/* True if Open MPI's structures have the sizes of the headers.  Some of their members depend on
 * its configuration. */
static inline bool pml_series_fits(void)
{
    return OBJ_CLASS(ompi_request_t)->cls_sizeof == sizeof(ompi_request_t) &&
           OBJ_CLASS(ompi_communicator_t)->cls_sizeof == sizeof(ompi_communicator_t) &&
           OBJ_CLASS(ompi_proc_t)->cls_sizeof == sizeof(ompi_proc_t) &&
           OBJ_CLASS(ompi_group_t)->cls_sizeof == sizeof(ompi_group_t) &&
           OBJ_CLASS(ompi_message_t)->cls_sizeof == sizeof(ompi_message_t) &&
           OBJ_CLASS(opal_convertor_t)->cls_sizeof == sizeof(opal_convertor_t) &&
           OBJ_CLASS(opal_mutex_t)->cls_sizeof == sizeof(opal_mutex_t) &&
           OBJ_CLASS(opal_free_list_t)->cls_sizeof == sizeof(opal_free_list_t) &&
           OBJ_CLASS(mca_pml_base_send_request_t)->cls_sizeof ==
               sizeof(mca_pml_base_send_request_t) &&
           OBJ_CLASS(mca_pml_base_recv_request_t)->cls_sizeof ==
               sizeof(mca_pml_base_recv_request_t);
}

#endif
