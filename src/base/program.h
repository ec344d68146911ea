/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - finds the project's own programs: in the folder of the file that contains the
 * library (the library itself, the provider, the component or a program), in the build tree, or
 * where they are installed.  It also keeps that file loaded.
 */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* True, with its path, if there is such an executable program; otherwise errno, and path is
 * `installed`. */
bool program_find(const char *name, const char *installed, char *path, size_t size);

/* Keeps the library loaded until the process ends, for a thread that may still run after
 * everything was closed.  False: the library may be unloaded. */
bool program_stays(void);

#endif
