/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loaded.c - see loaded.h.
 */
#include "base/loaded.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static bool fill_in(void *handle, const struct loaded *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(handle, all[i].name);

        if (found == NULL)
            return false;
        memcpy(all[i].to, &found, sizeof found);
    }
    return true;
}

void *loaded_open(const char *const *libraries, const struct loaded *all, size_t count)
{
    for (; *libraries != NULL; libraries++) {
        void *handle = dlopen(*libraries, RTLD_NOW | RTLD_LOCAL);

        if (handle != NULL && fill_in(handle, all, count))
            return handle;
        if (handle != NULL)
            dlclose(handle);
    }
    return NULL;
}
