/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loaded.h - loads a library when its functions are first used.
 */
#ifndef BASE_LOADED_H
#define BASE_LOADED_H

#include <stddef.h>

struct loaded {
    const char *name; /* of a function or an object */
    void *to;         /* the pointer that receives its address */
};

/* Loads the first of these libraries (the list ends with NULL) that has all of these functions
 * and objects, and sets their pointers.  Returns its handle, for dlclose(); NULL: there is
 * none. */
void *loaded_open(const char *const *libraries, const struct loaded *all, size_t count);

#endif
