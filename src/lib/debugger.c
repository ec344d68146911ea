/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * debugger.c - announces the library that reads the queues to parallel debuggers (src/msgq).
 *
 * Open MPI exports `mpimsgq_dll_locations`, from which a debugger reads the paths of such
 * libraries, and leaves it NULL.  While an endpoint has a page, we set it to our library,
 * unless it is already set.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lib/inspect.h"

#define LIBRARY "libmatchbox-msgq.so"

static char library[PATH_MAX];
static char *locations[] = {library, NULL};

/* Possible places, relative to the folder of this library, component or provider: installed,
 * and in the build tree. */
static const char *const places[] = {"", "../", "matchbox/", "../msgq/", "src/msgq/"};

static bool find_library(void)
{
    char path[PATH_MAX], *end;
    Dl_info info;

    if (dladdr((const void *)places, &info) == 0 || info.dli_fname == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        if ((size_t)snprintf(path, sizeof path, "%s", info.dli_fname) >= sizeof path)
            return false;
        end = strrchr(path, '/');
        end = end != NULL ? end + 1 : path;
        if ((size_t)snprintf(end, sizeof path - (size_t)(end - path), "%s" LIBRARY,
                             places[i]) >= sizeof path - (size_t)(end - path))
            return false;
        if (realpath(path, library) != NULL)
            return true;
    }
    return false;
}

/* The variable of the MPI; NULL: there is none. */
static char ***variable(void)
{
    return (char ***)dlsym(RTLD_DEFAULT, "mpimsgq_dll_locations");
}

void debugger_announce(void)
{
    char ***reported = variable();

    if (reported != NULL && *reported == NULL && find_library())
        *reported = locations;
}

void debugger_forget(void)
{
    char ***reported = variable();

    if (reported != NULL && *reported == locations)
        *reported = NULL;
}
