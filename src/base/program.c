/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - see program.h.
 */
#include "base/program.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"

static bool find_beside(const char *name, char *path, size_t size)
{
    static const char *const places[] = {"",       "matchbox/", "../",         "../../",
                                         "tools/", "../tools/", "../../tools/"};
    Dl_info info;
    const char *slash;

    if (dladdr((const void *)&program_find, &info) == 0 || info.dli_fname == NULL)
        return false;
    slash = strrchr(info.dli_fname, '/');
    if (slash == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        int used = snprintf(path, size, "%.*s/%s%s", (int)(slash - info.dli_fname),
                            info.dli_fname, places[i], name);

        if (used > 0 && (size_t)used < size && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

bool program_find(const char *name, const char *installed, char *path, size_t size)
{
    /* the caller of a privileged program may have chosen its folder, and the files in it */
    if (!environ_is_privileged() && find_beside(name, path, size))
        return true;
    snprintf(path, size, "%s", installed);
    return access(path, X_OK) == 0;
}

bool program_stays(void)
{
    struct link_map *map;
    Dl_info info;

    if (dladdr1((const void *)&program_stays, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return false;
    return map->l_name[0] == '\0' || /* the program itself */
           dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
}
