/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loaded.h - functions of a library that is loaded when they are used.
 */
#ifndef TOOLS_LOADED_H
#define TOOLS_LOADED_H

#include <stddef.h>

struct loaded {
    const char *name; /* of a function or an object */
    void *to;         /* the pointer that is set to it: its address */
};

/* Loads the first of these libraries (libraries ends with NULL) that has all of these functions
 * and objects, and sets their pointers.  Its handle, for dlclose(); NULL: there is none. */
void *loaded_open(const char *const *libraries, const struct loaded *all, size_t count);

#endif
