/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - where the project's own programs are: beside what the library is in, be it itself, the
 * provider, the component or a program; in the build tree; or where they are installed.  And that what the library is in
 * stays loaded.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* True, with its path, if there is such a program that can be executed; else errno, and path is
 * `installed`. */
bool program_find(const char *name, const char *installed, char *path, size_t size);

/* Keeps the library loaded until the process ends, for a thread that may run when its user has closed all.
 * False: it may be unloaded. */
bool program_stays(void);

#endif
