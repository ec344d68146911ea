/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_library.h - libibverbs, loaded when an adapter is needed: for tag matching, or for the
 * transport over verbs.
 *
 *   src/device/verbs, transport/verbs, inline functions of <infiniband/verbs.h>
 *        └── ibv_alloc_pd() ... of verbs_library.c, hidden ──> libibverbs.so.1
 *
 * Neither this library nor a program that links it needs libibverbs: without it there is no
 * adapter.  The inline functions of its header call functions by name, so verbs_library.c
 * defines hidden functions with these names, which pass the calls on.
 *
 * A function that the process has already, because the program is linked with libibverbs or has
 * preloaded one, takes precedence over the file's, unless verbs_use() has named another file.
 */
#ifndef TRANSPORT_VERBS_LIBRARY_H
#define TRANSPORT_VERBS_LIBRARY_H

#include <stdbool.h>

/* Loads libibverbs, once; it stays loaded until the process ends.  0; -EOPNOTSUPP it cannot be
 * loaded or lacks a function.  Before this has succeeded no ibv_ function may be called.
 * Threads: any. */
int verbs_library_load(void);

/* verbs_use - from now on this file is loaded as libibverbs, unless one has been loaded
 * already.
 * Threads: any. */
void verbs_use(const char *library);

/* Does libibverbs exclude registered memory from forked children (ibv_fork_init())?  Call after
 * verbs_library_load(). */
bool verbs_library_minds_fork(void);

/* The reason why verbs_library_load() has failed, in one line. */
const char *verbs_library_error(void);

#endif
