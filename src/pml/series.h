/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * series.h - Open MPI's headers, and what differs from one series to the next.
 *
 * The component is built for one series, that of the headers, and checks when it is loaded that
 * it is that one (component.c): structures are laid out in another way in the next.
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

#endif
