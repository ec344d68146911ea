/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_library.h - libibverbs, loaded when somebody asks for an adapter: one that matches tags,
 * or the transport over verbs.
 *
 *   src/device/verbs, transport/verbs, inline functions of <infiniband/verbs.h>
 *        └── ibv_alloc_pd() ... of verbs_library.c, hidden ──> libibverbs.so.1
 *
 * Neither the library nor a program that links it needs libibverbs: where it is missing there is
 * no adapter.  The inline functions of its header call functions by their names, so
 * verbs_library.c defines these names, hidden, and each passes the call on.
 *
 * A function that the process has already, because the program is linked with libibverbs or
 * because something was loaded in front of it, is preferred to that of the file, unless
 * verbs_use() has named another file.
 */
#ifndef TRANSPORT_VERBS_LIBRARY_H
#define TRANSPORT_VERBS_LIBRARY_H

#include <stdbool.h>

/* Loads libibverbs, once; it stays loaded until the process ends.  0; -EOPNOTSUPP it cannot be
 * loaded or lacks something.  Before it has succeeded no ibv_ function may be called.
 * Threads: any. */
int verbs_library_load(void);

/* verbs_use - from now on, this file is loaded as libibverbs; until one has been.
 * Threads: any. */
void verbs_use(const char *library);

/* Does libibverbs mark registered memory, so that it is not this process's child's
 * (ibv_fork_init())?  Behind verbs_library_load(). */
bool verbs_library_minds_fork(void);

/* Why verbs_library_load() has failed, in one line. */
const char *verbs_library_error(void);

#endif
