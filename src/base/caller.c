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

/* "MPI_Recv" for PMPI_Recv; NULL: not a call of MPI. */
static const char *mpi_call(const char *symbol)
{
    if (strcmp(symbol, "ompi_mpi_finalize") == 0) /* Open MPI's function jumps to this one */
        return "MPI_Finalize";
    if (strncmp(symbol, "PMPI_", 5) == 0)
        symbol++;
    return strncmp(symbol, "MPI_", 4) == 0 ? symbol : NULL;
}

#if defined __x86_64__

static bool is_of(const void *base, uintptr_t address)
{
    Dl_info info;

    return dladdr((const void *)address, &info) != 0 && info.dli_fbase == base;
}

/* The slot that an entry of a procedure linkage table jumps through (`jmp *offset(%rip)`), or
 * 0. */
static uintptr_t caller_slot_of(const void *base, uintptr_t entry)
{
    static const unsigned char mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    const unsigned char *code = (const unsigned char *)entry;
    int32_t offset;

    if (!is_of(base, entry) || !is_of(base, entry + 15)) /* entries have 16 bytes */
        return 0;
    if (memcmp(code, mark, sizeof mark) == 0)
        code += sizeof mark;
    code += code[0] == 0xf2; /* bnd */
    if (code[0] != 0xff || code[1] != 0x25)
        return 0;
    memcpy(&offset, code + 2, sizeof offset);
    return (uintptr_t)code + 6 + (uintptr_t)(intptr_t)offset;
}

/* The function of another object entered by the call instruction before a return address in the
 * object at base; NULL: not known, as with a call through a pointer. */
static void *entered_by(const void *base, uintptr_t behind)
{
    const unsigned char *code = (const unsigned char *)behind;
    uintptr_t slot = 0;
    int32_t offset;
    void *entered;

    if (!is_of(base, behind - 6))
        return NULL;
    memcpy(&offset, code - 4, sizeof offset);
    if (code[-5] == 0xe8) /* call entry */
        slot = caller_slot_of(base, behind + (uintptr_t)(intptr_t)offset);
    else if (code[-6] == 0xff && code[-5] == 0x15) /* call *slot(%rip): -fno-plt */
        slot = behind + (uintptr_t)(intptr_t)offset;
    if (slot == 0 || !is_of(base, slot) || !is_of(base, slot + sizeof entered - 1))
        return NULL;
    memcpy(&entered, (const void *)slot, sizeof entered);
    return entered;
}

#else

static void *entered_by(const void *base, uintptr_t behind)
{
    (void)base;
    (void)behind;
    return NULL;
}

#endif

/* The MPI function that was entered by the call instruction before this return address, if that
 * function then jumped to one without a symbol, as MPI_Waitany of MPICH does.  NULL: there is
 * none. */
static const char *jumped_from(const Dl_info *callee, const void *behind)
{
    Dl_info caller, entered;
    const void *target;

    if (dladdr((const char *)behind - 1, &caller) == 0 || caller.dli_fbase == callee->dli_fbase)
        return NULL;
    target = entered_by(caller.dli_fbase, (uintptr_t)behind);
    if (target == NULL || dladdr(target, &entered) == 0 || entered.dli_sname == NULL)
        return NULL;
    return mpi_call(entered.dli_sname);
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
        if (dladdr((char *)frames[i] - 1, &info) == 0)
            continue;
        call = info.dli_sname != NULL ? mpi_call(info.dli_sname) : NULL;
        if (call == NULL && i + 1 < caller->count)
            call = jumped_from(&info, frames[i + 1]);
        if (call == NULL &&
            (has_mpi || info.dli_sname == NULL || strncmp(info.dli_sname, "mbx_", 4) != 0))
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
