/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preload.h - what libmatchbox-preload.so and the component know of each other: preload.c.
 */
#ifndef PML_PRELOAD_H
#define PML_PRELOAD_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>

typedef int pml_get_status_fn(MPI_Request request, int *flag, MPI_Status *status);
typedef int pml_choice_fn(uint64_t site, uint64_t *value);

/* The component sets these from MPI_Init to MPI_Finalize; NULL: the call does what it does without. */
struct pml_preload {
    pml_get_status_fn *_Atomic get_status;
    pml_choice_fn *_Atomic choice;
};

/* The component looks this up by its name. */
extern struct pml_preload mbx_preload;

#endif
