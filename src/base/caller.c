/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller.c - see caller.h.
 */
#include "base/caller.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "MPI_Recv" of PMPI_Recv; NULL: it is no call of MPI. */
static const char *mpi_call(const char *symbol)
{
    if (strcmp(symbol, "ompi_mpi_finalize") == 0) /* which Open MPI's function jumps to */
        return "MPI_Finalize";
    if (strncmp(symbol, "PMPI_", 5) == 0)
        symbol++;
    return strncmp(symbol, "MPI_", 4) == 0 ? symbol : NULL;
}

void caller_find(struct caller *caller)
{
    void *frames[CALLER_FRAMES];
    bool has_mpi = false;

    *caller = (struct caller){.count = backtrace(frames, CALLER_FRAMES)};
    for (int i = 0; i < caller->count; i++) {
        Dl_info info;
        const char *call;

        caller->frames[i] = (uint64_t)(uintptr_t)frames[i];
        if (dladdr((char *)frames[i] - 1, &info) == 0 || info.dli_sname == NULL)
            continue;
        call = mpi_call(info.dli_sname);
        if (call == NULL && (has_mpi || strncmp(info.dli_sname, "mbx_", 4) != 0))
            continue;
        has_mpi |= call != NULL;
        snprintf(caller->call, sizeof caller->call, "%s", call != NULL ? call : info.dli_sname);
        caller->address = i + 1 < caller->count ? (uint64_t)(uintptr_t)frames[i + 1] : 0;
    }
}

int caller_place(uint64_t address, char path[CALLER_PATH], uint64_t *at)
{
    struct link_map *map = NULL;
    Dl_info info;
    ssize_t length;

    if (dladdr1((void *)(uintptr_t)address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL)
        return -ENOENT;
    if (map->l_name[0] == '\0') /* the program itself */
        length = readlink("/proc/self/exe", path, CALLER_PATH);
    else
        length = snprintf(path, CALLER_PATH, "%s", map->l_name);
    if (length <= 0 || length >= CALLER_PATH)
        return -ENOENT;
    path[length] = '\0';
    *at = address - (uint64_t)map->l_addr;
    return 0;
}
