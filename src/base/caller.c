/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller.c - see caller.h.
 */
#include "base/caller.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <unwind.h>

#include "base/compiler.h"
#include "base/hash.h"

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

/* ---- the walk of the stack ---- */

struct walk {
    int count;
    bool has_begun;
    uint64_t frames[CALLER_FRAMES]; /* return addresses */
    uint64_t slots[CALLER_FRAMES];  /* where they are on the stack; 0: not known */
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *arg)
{
    struct walk *walk = arg;
    uint64_t address = _Unwind_GetIP(context), slot = 0;

    if (!walk->has_begun) { /* caller_walk() itself */
        walk->has_begun = true;
        return _URC_NO_REASON;
    }
    if (address == 0 || walk->count == CALLER_FRAMES)
        return _URC_END_OF_STACK;
#if defined __x86_64__
    /* a call writes the return address below the stack of its function */
    slot = _Unwind_GetCFA(context) - sizeof slot;
#endif
    walk->frames[walk->count] = address;
    walk->slots[walk->count++] = slot;
    return _URC_NO_REASON;
}

static OUT_OF_LINE void caller_walk(struct walk *walk)
{
    walk->count = 0;
    walk->has_begun = false;
    _Unwind_Backtrace(visit, walk);
}

/* Is this the function of another language for a call of MPI, as mpi_recv_, MPI_RECV, pmpi_recv__, mpi_recv_f08_ and ompi_recv_f
 * are for MPI_Recv? */
static bool is_binding(const char *call, const char *symbol)
{
    size_t length = strlen(call);

    if (symbol == NULL)
        return false;
    symbol += symbol[0] == 'p' || symbol[0] == 'P' || symbol[0] == 'o';
    return strncasecmp(call, symbol, length) == 0 &&
           (symbol[length] == '\0' || symbol[length] == '_');
}

/* Finds the call among the frames, and writes its name.  The index of the frame that it returns
 * to; -1: there is none. */
static int find_call(const struct walk *walk, char name[CALLER_CALL])
{
    bool has_mpi = false;
    int found = -1;

    name[0] = '\0';
    for (int i = 0; i < walk->count; i++) {
        Dl_info info;
        const char *call;

        if (dladdr((const char *)(uintptr_t)walk->frames[i] - 1, &info) == 0)
            continue;
        call = info.dli_sname != NULL ? mpi_call(info.dli_sname) : NULL;
        if (call == NULL && i + 1 < walk->count)
            call = jumped_from(&info, (const void *)(uintptr_t)walk->frames[i + 1]);
        if (call == NULL && !(has_mpi && is_binding(name, info.dli_sname)) &&
            (has_mpi || info.dli_sname == NULL || strncmp(info.dli_sname, "mbx_", 4) != 0))
            continue;
        found = i + 1 < walk->count ? i + 1 : -1;
        if (has_mpi && is_binding(name, info.dli_sname))
            continue;
        has_mpi |= call != NULL;
        snprintf(name, CALLER_CALL, "%s", call != NULL ? call : info.dli_sname);
    }
    return found;
}

void caller_find(struct caller *caller)
{
    struct walk walk;
    int at;

    caller_walk(&walk);
    *caller = (struct caller){.count = walk.count};
    memcpy(caller->frames, walk.frames, (size_t)walk.count * sizeof *walk.frames);
    at = find_call(&walk, caller->call);
    caller->address = at >= 0 ? walk.frames[at] : 0;
}

/* ---- learnt distances ---- */

/* From a return address to the next one on the stack; these two are none. */
enum { DISTANCE_END = 0, DISTANCE_VARIES = 1 };

/* A walk of this thread has found slots of one stack, from the first to the last one.  A coroutine has a stack of its own. */
static void see(struct caller_learnt *learnt, uint64_t first, uint64_t last)
{
    if (learnt->thread != (uint64_t)pthread_self() || first > learnt->highest ||
        last < learnt->lowest) { /* perhaps another stack */
        learnt->thread = (uint64_t)pthread_self();
        learnt->lowest = first;
        learnt->highest = last;
        return;
    }
    learnt->lowest = first < learnt->lowest ? first : learnt->lowest;
    learnt->highest = last > learnt->highest ? last : learnt->highest;
}

/* The entry of this address, or the free entry that it would take; NULL: there is no room. */
static OUT_OF_LINE struct caller_step *step_of(struct caller_learnt *learnt, uint64_t address)
{
    uint64_t at = hash_mix(address);

    for (unsigned tries = 0; tries < 8; tries++, at++) {
        struct caller_step *step = &learnt->steps[at % CALLER_STEPS];

        if (step->address == address || step->address == 0)
            return step;
    }
    return NULL;
}

static void learn(struct caller_learnt *learnt, uint64_t address, uint64_t distance)
{
    struct caller_step *step = step_of(learnt, address);

    if (step == NULL)
        return;
    if (distance != DISTANCE_END && (distance % 8 != 0 || distance > UINT32_MAX))
        distance = DISTANCE_VARIES; /* a signal has switched stacks */
    if (step->address == 0)
        *step = (struct caller_step){address, (uint32_t)distance, 1};
    else if (step->distance != distance)
        step->distance = DISTANCE_VARIES;
}

/* The result of a walk from this slot on. */
static OUT_OF_LINE uint64_t walk_and_learn(struct caller_learnt *learnt, uint64_t slot)
{
    char name[CALLER_CALL];
    struct walk walk;
    int i = 0, at;

    learnt->walks++;
    caller_walk(&walk);
    at = find_call(&walk, name);
    if (at < 0)
        return 0;
    while (i < at && walk.slots[i] != slot)
        i++;
    for (; i < at; i++)
        learn(learnt, walk.frames[i], walk.slots[i + 1] - walk.slots[i]);
    learn(learnt, walk.frames[at], DISTANCE_END);
    see(learnt, slot, walk.slots[at]);
    return walk.frames[at];
}

#if defined __x86_64__

/* The address by learnt distances from this slot on; 0: not known, or due to be checked.  It may read
 * what a sanitizer regards as another function's. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static uint64_t
follow(struct caller_learnt *learnt, uint64_t slot)
{
    uint64_t highest = learnt->highest;

    if (learnt->thread != (uint64_t)pthread_self() || slot < learnt->lowest)
        return 0;
    while (slot <= highest) {
        uint64_t address = *(const uint64_t *)(uintptr_t)slot;
        struct caller_step *step = &learnt->steps[hash_mix(address) % CALLER_STEPS];

        if (unlikely(step->address != address) &&
            ((step = step_of(learnt, address)) == NULL || step->address == 0))
            return 0;
        if (step->distance <= DISTANCE_VARIES) {
            if (step->distance == DISTANCE_VARIES)
                return 0;
            step->uses++;
            return (step->uses & (step->uses - 1)) != 0 ? address : 0;
        }
        slot += step->distance;
    }
    return 0;
}

#endif

OUT_OF_LINE uint64_t caller_address(struct caller_learnt *learnt)
{
    uint64_t slot = 0, address = 0;

#if defined __x86_64__
    slot = (uint64_t)(uintptr_t)__builtin_frame_address(0) + 8;
    address = follow(learnt, slot);
#endif
    return likely(address != 0) ? address : walk_and_learn(learnt, slot);
}

int caller_place(uint64_t address, char path[CALLER_PATH], uint64_t *at)
{
    struct link_map *map = NULL;
    char whole[PATH_MAX];
    Dl_info info;
    ssize_t length = 0;

    if (dladdr1((void *)(uintptr_t)address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL)
        return -ENOENT;
    if (map->l_name[0] == '\0') /* the program itself */
        length = readlink("/proc/self/exe", path, CALLER_PATH);
    else if (realpath(map->l_name, whole) != NULL)
        length = snprintf(path, CALLER_PATH, "%s", whole);
    if (length <= 0 || length >= CALLER_PATH)
        return -ENOENT;
    path[length] = '\0';
    *at = address - (uint64_t)map->l_addr;
    return 0;
}
