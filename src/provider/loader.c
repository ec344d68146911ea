/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader.c - what libfabric calls when it loads this library.
 *
 * libfabric exports none of its helpers to providers, and a program may hold a
 * newer libfabric than the one whose headers we were built with.  So nothing of it
 * is linked: the library that called us is found by our return address, and its
 * own fi_version() is what we claim to be built for.  A lower number would make
 * the provider invisible to clients that ask for the newer interface.
 *
 * fi_dupinfo(NULL) of that library allocates our infos: struct fi_domain_attr grew
 * in 2.x, and an info of the old size would be read beyond its end.
 *
 * libfabric holds its initialisation lock while fi_prov_ini() runs: calling
 * fi_getinfo() or fi_fabric() from here would never return.
 */
#include "provider/fabric.h"

#include <dlfcn.h>
#include <string.h>
#include <rdma/providers/fi_prov.h>

struct prov_library prov_library;
static void *library_handle;

static void prov_cleanup(void)
{
    if (library_handle != NULL)
        dlclose(library_handle);
    library_handle = NULL;
}

static struct fi_provider provider = {
    .version = PROV_VERSION,
    .name = PROV_NAME,
    .getinfo = prov_getinfo,
    .fabric = prov_fabric_open,
    .cleanup = prov_cleanup,
};

/* A handle of the library that holds caller; RTLD_DEFAULT's NULL if it is linked
 * into the program itself. */
static void *library_of(void *caller)
{
    Dl_info where;

    if (dladdr(caller, &where) == 0 || where.dli_fname == NULL)
        return NULL;
    return dlopen(where.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

/* Finds what we need in the library; false if it is not a libfabric. */
static bool library_find(void *handle)
{
    void *scope = handle == NULL ? RTLD_DEFAULT : handle;
    void *version = dlsym(scope, "fi_version");
    void *dupinfo = dlsym(scope, "fi_dupinfo");
    void *freeinfo = dlsym(scope, "fi_freeinfo");

    if (version == NULL || dupinfo == NULL || freeinfo == NULL)
        return false;
    memcpy(&prov_library.version, &version, sizeof version);
    memcpy(&prov_library.dupinfo, &dupinfo, sizeof dupinfo);
    memcpy(&prov_library.freeinfo, &freeinfo, sizeof freeinfo);
    return true;
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    library_handle = library_of(__builtin_return_address(0));
    if (!library_find(library_handle)) {
        prov_cleanup();
        return NULL;
    }
    provider.fi_version = prov_library.version();
    return &provider;
}
