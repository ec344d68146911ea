/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_place.c - where the provider, the component and the library for debuggers are, seen from this program: in the
 * build tree, and installed (MBX_..._PLACE is below the prefix, or absolute).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "exec.h"

#define PROVIDER  "libmatchbox-fi.so"
#define COMPONENT "mca_pml_matchbox.so"
#define QUEUES    "libmatchbox-msgq.so"

/* Cuts the last component off path; false if there is none. */
static bool cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* The folder of this program, or NULL; mem_free(). */
static char *own_folder(const struct tool *tool)
{
    char *own = tool_own_path();

    if (own != NULL && cut_name(own))
        return own;
    tool_error(tool, "/proc/self/exe does not tell where this program is");
    mem_free(own);
    return NULL;
}

/* As an absolute path in folder[PATH_MAX]. */
static bool find(const struct tool *tool, const char *name, const char *const places[2],
                 char *folder)
{
    char *own = own_folder(tool);
    bool is_found = false;

    for (size_t i = 0; own != NULL && i < 2 && !is_found; i++) {
        char path[2 * PATH_MAX];

        if (places[i][0] == '/')
            snprintf(path, sizeof path, "%s/%s", places[i], name);
        else
            snprintf(path, sizeof path, "%s/%s/%s", own, places[i], name);
        is_found = realpath(path, folder) != NULL && cut_name(folder);
    }
    mem_free(own);
    return is_found;
}

bool exec_find_provider(const struct tool *tool, char *folder)
{
    static const char *const places[] = {"../src/provider", MBX_PROVIDER_PLACE};

    return find(tool, PROVIDER, places, folder);
}

bool exec_find_component(const struct tool *tool, char *folder)
{
    static const char *const places[] = {"../src/pml", MBX_COMPONENT_PLACE};

    return find(tool, COMPONENT, places, folder);
}

bool exec_find_queues(const struct tool *tool, char *path)
{
    static const char *const places[] = {"../src/msgq", MBX_PROVIDER_PLACE};

    if (!find(tool, QUEUES, places, path) || strlen(path) + sizeof "/" QUEUES > PATH_MAX)
        return false;
    strcat(path, "/" QUEUES);
    return true;
}
