/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dl.c - see dl.h.
 */
#include "transport/ofi/dl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/log.h"

#define LIBRARY_NAME "libfabric.so.1"
#define OLDEST       FI_VERSION(1, 5) /* the first version with this struct fi_info */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ofi_dl dl;
static bool is_loaded;

static bool ofi_dl_find(void *handle, const char *name, void *function, size_t size)
{
    void *found = dlsym(handle, name);

    if (found == NULL)
        LOG_ERROR("ofi: " LIBRARY_NAME " has no %s: it is damaged, or too old; install another "
                  "one (Debian: libfabric1)",
                  name);
    else
        memcpy(function, &found, size);
    return found != NULL;
}

/* The library stays loaded: its providers have threads, and handlers that run at exit.  A
 * privileged program uses libfabric only if it has loaded the library itself. */
static int ofi_dl_load(void)
{
    bool is_trusted = !environ_is_privileged();
    void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | (is_trusted ? 0 : RTLD_NOLOAD));
    struct ofi_dl l;

    if (handle == NULL && !is_trusted) {
        LOG_ERROR("ofi: this program has more rights than its caller (set-user-ID, or file "
                  "capabilities), so it does not load libfabric, which loads what its "
                  "environment names (FI_PROVIDER_PATH)");
        return -ENOTSUP;
    }
    if (handle == NULL) {
        LOG_ERROR("ofi: the network needs libfabric, which cannot be loaded: %s; install it "
                  "(Debian: libfabric1), or stay on one host with MBX_TRANSPORT=shm",
                  dlerror());
        return -ENOTSUP;
    }
    if (!ofi_dl_find(handle, "fi_getinfo", &l.getinfo, sizeof l.getinfo) ||
        !ofi_dl_find(handle, "fi_freeinfo", &l.freeinfo, sizeof l.freeinfo) ||
        !ofi_dl_find(handle, "fi_dupinfo", &l.dupinfo, sizeof l.dupinfo) ||
        !ofi_dl_find(handle, "fi_fabric", &l.fabric, sizeof l.fabric) ||
        !ofi_dl_find(handle, "fi_strerror", &l.strerror, sizeof l.strerror) ||
        !ofi_dl_find(handle, "fi_version", &l.version, sizeof l.version))
        return -ENOTSUP;
    if (FI_VERSION_LT(l.version(), OLDEST)) {
        LOG_ERROR("ofi: libfabric %u.%u is too old: install version %u.%u or later",
                  FI_MAJOR(l.version()), FI_MINOR(l.version()), FI_MAJOR(OLDEST),
                  FI_MINOR(OLDEST));
        return -ENOTSUP;
    }
    dl = l;
    is_loaded = true;
    return 0;
}

int ofi_dl_get(const struct ofi_dl **out)
{
    int err;

    pthread_mutex_lock(&lock);
    err = is_loaded ? 0 : ofi_dl_load();
    pthread_mutex_unlock(&lock);
    if (err == 0)
        *out = &dl;
    return err;
}
