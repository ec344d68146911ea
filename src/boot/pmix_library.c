/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_library.c - loads libpmix.
 */
#include "boot/pmix_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

#define LIBRARY_NAME "libpmix.so.2"

/* Modules of Open MPI. */
#define USER_NAME "mca_pmix_"
#define USERS_MAX 4

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct pmix_library */
} calls[] = {
    {"PMIx_Init", offsetof(struct pmix_library, init)},
    {"PMIx_Finalize", offsetof(struct pmix_library, finalize)},
    {"PMIx_Put", offsetof(struct pmix_library, put)},
    {"PMIx_Commit", offsetof(struct pmix_library, commit)},
    {"PMIx_Fence_nb", offsetof(struct pmix_library, fence_nb)},
    {"PMIx_Get_nb", offsetof(struct pmix_library, get_nb)},
    {"PMIx_Error_string", offsetof(struct pmix_library, error_string)},
};
static_assert(sizeof(struct pmix_library) == ARRAY_COUNT(calls) * sizeof(void *), "all calls");

int pmix_library_load(struct pmix_library *library)
{
    struct pmix_library loaded;
    void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);

    if (handle == NULL) {
        LOG_ERROR("the launcher speaks PMIx, and libpmix cannot be loaded: %s; install it "
                  "(Debian: libpmix2), or start the job with mbx run",
                  dlerror());
        return -ENOSYS;
    }
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        void *symbol = dlsym(handle, calls[i].name);

        if (symbol == NULL) {
            LOG_ERROR("libpmix is of a version that cannot be used, " LIBRARY_NAME
                      " lacks %s; install a newer libpmix, or start the job with mbx run",
                      calls[i].name);
            dlclose(handle);
            return -ENOSYS;
        }
        memcpy((char *)&loaded + calls[i].offset, &symbol, sizeof symbol);
    }
    *library = loaded;
    return 0;
}

/* ---- other callers of PMIx ---- */

struct users {
    size_t count;
    char paths[USERS_MAX][PATH_MAX];
};

static int users_note(struct dl_phdr_info *object, size_t size, void *arg)
{
    const char *slash = strrchr(object->dlpi_name, '/');
    struct users *users = arg;

    (void)size;
    if (slash != NULL && strncmp(slash + 1, USER_NAME, strlen(USER_NAME)) == 0 &&
        users->count < USERS_MAX && strlen(object->dlpi_name) < PATH_MAX)
        snprintf(users->paths[users->count++], PATH_MAX, "%s", object->dlpi_name);
    return 0;
}

void pmix_library_keep_users(void)
{
    struct users users = {.count = 0};

    dl_iterate_phdr(users_note, &users); /* no library can be loaded meanwhile */
    for (size_t i = 0; i < users.count; i++) {
        void *handle = dlopen(users.paths[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);

        if (handle != NULL)
            dlclose(handle);
    }
}
