/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_library.h - libpmix, which is loaded only under a launcher that speaks PMIx.
 *
 * It is loaded and not linked: a program that runs under `mbx run` or alone does not need it,
 * and without it only these launchers cannot be used.  If an MPI library has already loaded it
 * into the process, that copy is used, so both are one client of the launcher's server:
 * PMIx_Init() counts its calls.
 *
 * Versions 3 to 5 have the same interface (libpmix.so.2) for everything that is used here: byte
 * objects and numbers in pmix_value_t, and the calls below.
 */
#ifndef BOOT_PMIX_LIBRARY_H
#define BOOT_PMIX_LIBRARY_H

#include <pmix.h>

struct pmix_library {
    pmix_status_t (*init)(pmix_proc_t *self, pmix_info_t *info, size_t count);
    pmix_status_t (*finalize)(const pmix_info_t *info, size_t count);
    pmix_status_t (*put)(pmix_scope_t scope, const char *key, pmix_value_t *value);
    pmix_status_t (*commit)(void);
    pmix_status_t (*fence_nb)(const pmix_proc_t *procs, size_t proc_count,
                              const pmix_info_t *info, size_t info_count, pmix_op_cbfunc_t done,
                              void *arg);
    pmix_status_t (*get_nb)(const pmix_proc_t *proc, const char *key, const pmix_info_t *info,
                            size_t info_count, pmix_value_cbfunc_t done, void *arg);
    const char *(*error_string)(pmix_status_t status);
};

/* Fills *library; it stays loaded until the process ends.  0; -ENOSYS it is missing, or lacks a
 * function, which is logged. */
int pmix_library_load(struct pmix_library *library);

/* From now on modules of an MPI library that call libpmix also stay loaded.
 *
 * Open MPI waits in MPI_Finalize() until libpmix has called it back for the last time, calls
 * PMIx_Finalize(), which ends the thread of libpmix, and unloads its module.  With a session of
 * ours the thread does not end: it may still be returning from the module, whose code would be
 * gone. */
void pmix_library_keep_users(void);

#endif
