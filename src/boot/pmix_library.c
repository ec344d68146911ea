/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_library.c - loading libpmix.
 */
#include "boot/pmix_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

#define LIBRARY_NAME "libpmix.so.2"

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
            LOG_ERROR("libpmix is of a version that cannot be used, " LIBRARY_NAME " lacks %s",
                      calls[i].name);
            dlclose(handle);
            return -ENOSYS;
        }
        memcpy((char *)&loaded + calls[i].offset, &symbol, sizeof symbol);
    }
    *library = loaded;
    return 0;
}
