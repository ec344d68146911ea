/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_place.c - where the provider, the component, libucp and the library for debuggers are, seen from this program: in the
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
#define PRELOAD   "libmatchbox-preload.so"
#define NATIVE    "libmatchbox-native.so"
#define UCP       "libucp.so.0"

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
static char *own_folder(void)
{
    char *own = tool_own_path();

    if (own != NULL && cut_name(own))
        return own;
    mem_free(own);
    return NULL;
}

/* Where a file of this name may be, in path[2 * PATH_MAX]. */
static void name_place(const char *own, const char *place, const char *name, char *path)
{
    if (place[0] == '/')
        snprintf(path, 2 * PATH_MAX, "%s/%s", place, name);
    else
        snprintf(path, 2 * PATH_MAX, "%s/%s/%s", own, place, name);
}

/* As an absolute path in folder[PATH_MAX]. */
static bool find(const char *name, const char *const places[2], char *folder)
{
    char *own = own_folder();
    bool is_found = false;

    for (size_t i = 0; own != NULL && i < 2 && !is_found; i++) {
        char path[2 * PATH_MAX];

        name_place(own, places[i], name, path);
        is_found = realpath(path, folder) != NULL && cut_name(folder);
    }
    mem_free(own);
    return is_found;
}

static const char *const provider_places[2] = {"../src/provider", MBX_PROVIDER_PLACE};

bool exec_find_provider(char *folder)
{
    return find(PROVIDER, provider_places, folder);
}

static void say_none(const struct tool *tool, const char *place, const char *name)
{
    char *own = own_folder(), path[2 * PATH_MAX];

    if (own == NULL) {
        tool_error(tool, "cannot find %s, because /proc/self/exe cannot be read; mount /proc",
                   name);
        return;
    }
    name_place(own, place, name, path);
    tool_error(tool,
               "there is no %s; build it, or run mbx from the folder in which it was built or "
               "installed",
               path);
    mem_free(own);
}

void exec_say_no_provider(const struct tool *tool)
{
    say_none(tool, provider_places[1], PROVIDER);
}

static const char *const ucp_places[2] = {"../src/ucp", MBX_UCP_PLACE};

bool exec_find_ucp(char *folder)
{
    return find(UCP, ucp_places, folder);
}

void exec_say_no_ucp(const struct tool *tool)
{
    say_none(tool, ucp_places[1], UCP);
}

bool exec_find_component(char *folder)
{
    static const char *const places[] = {"../src/pml", MBX_COMPONENT_PLACE};

    return find(COMPONENT, places, folder);
}

/* As find(), with the name of the file. */
static bool find_file(const char *name, const char *const places[2], char *path)
{
    size_t length;

    if (!find(name, places, path))
        return false;
    length = strlen(path);
    return snprintf(path + length, PATH_MAX - length, "/%s", name) < (int)(PATH_MAX - length);
}

bool exec_find_queues(char *path)
{
    static const char *const places[] = {"../src/msgq", MBX_PROVIDER_PLACE};

    return find_file(QUEUES, places, path);
}

bool exec_find_preload(char *path)
{
    static const char *const places[] = {"../src/pml", MBX_PROVIDER_PLACE};

    return find_file(PRELOAD, places, path);
}

bool exec_find_native(char *path)
{
    static const char *const places[] = {"../src/native", MBX_PROVIDER_PLACE};

    return find_file(NATIVE, places, path);
}
