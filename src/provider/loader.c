/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader.c - the entry point that libfabric calls when it loads this library.
 *
 * A program may load a newer libfabric than the one whose headers we were built with.  So we do
 * not link to it.  We find the library that called us by our return address, and claim the
 * version that its fi_version() returns.  A lower number would make the provider
 * invisible to clients that request the newer interface.
 *
 * fi_dupinfo(NULL) of that library allocates our infos: struct fi_domain_attr grew
 * in 2.x, and an info of the old size would be read beyond its end.
 *
 * libfabric holds its initialisation lock while fi_prov_ini() runs: calling
 * fi_getinfo() or fi_fabric() from here would never return.
 */
#include "provider/fabric.h"
#include "provider/library.h"
#include "provider/param.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 512

struct prov_library prov_library;
static void *library_handle;

static void prov_cleanup(void)
{
    if (library_handle != NULL)
        dlclose(library_handle);
    library_handle = NULL;
}

struct fi_provider prov_provider = {
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

/* A function of the library: function is a pointer to where its address goes. */
static bool prov_loader_find(void *scope, const char *name, void *function)
{
    void *found = dlsym(scope, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Finds the required and the optional functions of the library; false if it is not a
 * libfabric. */
static bool library_find(void *handle)
{
    void *scope = handle == NULL ? RTLD_DEFAULT : handle;

    prov_library = (struct prov_library){.version = NULL};
    prov_loader_find(scope, "fi_tostr", &prov_library.tostr);
    if (prov_loader_find(scope, "fi_log_enabled", &prov_library.log_enabled))
        prov_loader_find(scope, "fi_log", &prov_library.log);
    if (prov_loader_find(scope, "fi_param_define", &prov_library.param_define))
        prov_loader_find(scope, "fi_param_get", &prov_library.param_get);
    return prov_loader_find(scope, "fi_version", &prov_library.version) &&
           prov_loader_find(scope, "fi_dupinfo", &prov_library.dupinfo) &&
           prov_loader_find(scope, "fi_freeinfo", &prov_library.freeinfo);
}

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    library_handle = library_of(__builtin_return_address(0));
    if (!library_find(library_handle)) {
        prov_cleanup();
        return NULL;
    }
    prov_provider.fi_version = prov_library.version();
    prov_params_define();
    return &prov_provider;
}

/* ---- log messages ------------------------------------------------------------------------ */

bool prov_logs(enum fi_log_level level)
{
    return prov_library.log != NULL &&
           prov_library.log_enabled(&prov_provider, level, FI_LOG_CORE);
}

void prov_log(enum fi_log_level level, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    int saved = errno;
    va_list arguments;

    if (!prov_logs(level))
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    prov_library.log(&prov_provider, level, FI_LOG_CORE, PROV_NAME, 0, "%s\n", line);
    errno = saved;
}

const char *prov_names(const void *data, enum fi_type type, uint64_t number)
{
    static _Thread_local char text[32];
    const char *names = prov_library.tostr == NULL ? NULL : prov_library.tostr(data, type);

    if (names != NULL && names[0] != '\0')
        return names;
    snprintf(text, sizeof text, "0x%" PRIx64, number);
    return text;
}
