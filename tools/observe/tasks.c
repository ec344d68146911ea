/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tasks.c - see tasks.h.
 *
 *   /proc/PID/maps                  where code is, and of whom; which memory is private
 *   /proc/PID/task/TID/syscall      the system call of a thread, its arguments, and its stack pointer
 *   .../stat, .../schedstat         when it has started, and how long it has run
 *
 * A thread that sleeps until another thread of its process wakes it is in a futex call without a time
 * limit, on a word of private memory.  The innermost part of its stack holds no return address into
 * an MPI: otherwise it may wait for a thread of MPI, which a message from elsewhere wakes.
 *
 * A thread of a library has return addresses into such a library, and none into the program.  Stale
 * addresses on its stack can only make it look like a thread of the program.
 *
 * Everything else, and everything that cannot be read, is a thread that may go on by itself.
 */
#include "tasks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "diagnose.h"
#include "maps.h"

#define STACK_MAX   65536u /* bytes of a stack that are read */
#define STACK_INNER 1024u  /* the part in which a sleeping call and its caller are */
#define CALL_BYTES  7      /* of the longest call instruction */

enum region_kind {
    REGION_DATA,    /* private, and writable */
    REGION_COMMON,  /* code that libraries and programs use: of libc, libevent */
    REGION_LIBRARY, /* code of a library that has threads */
    REGION_MPI,
    REGION_PROGRAM
};

struct region {
    uint64_t begin, end;
    enum region_kind kind;
};

struct process {
    uint32_t pid;
    struct region *regions; /* by address */
    uint32_t count, capacity;
    bool has_mpi;      /* a library of MPI is loaded */
    uint64_t until_ns; /* of the processor time of this thread: then it takes too long */
};

/* ---- memory ---- */

static bool is_any_of(const char *name, const char *const *libraries)
{
    while (*libraries != NULL && !maps_is_library(name, *libraries))
        libraries++;
    return *libraries != NULL;
}

static enum region_kind code_kind(const char *path)
{
    static const char *const common[] = {"libc.so",  "libc-2", "libpthread", "ld-linux",
                                         "libevent", "ld-2",   "[vdso]",     NULL};
    static const char *const library[] = {
        "libopen-pal", "libopen-rte", "libpmix", "libprrte",  "libmatchbox",
        "libfabric",   "libucs",      "libuct",  "libucm",    "libucp",
        "libibverbs",  "librdmacm",   "mca_",    "pmix_mca_", NULL};
    static const char *const mpi[] = {"libmpi",       "libmpich",    "libmpifort", "libmpicxx",
                                      "libmpichfort", "libmpichcxx", NULL};
    const char *name = maps_file_name(path);

    return is_any_of(name, common)    ? REGION_COMMON
           : is_any_of(name, library) ? REGION_LIBRARY
           : is_any_of(name, mpi)     ? REGION_MPI
                                      : REGION_PROGRAM;
}

/* False: the range is of no use. */
static bool region_of(const struct maps_range *range, struct region *region)
{
    *region = (struct region){.begin = range->start, .end = range->end};
    if (range->access[2] == 'x')
        region->kind = code_kind(range->path);
    else if (range->access[1] == 'w' && range->access[3] == 'p')
        region->kind = REGION_DATA;
    else
        return false;
    return true;
}

/* 0; -ENOMEM; -ESRCH it cannot be read. */
static int regions_read(struct process *process)
{
    struct maps_range range;
    struct maps maps;
    int err = maps_open(&maps, process->pid) ? 0 : -ESRCH;

    while (err == 0 && maps_next(&maps, &range)) {
        struct region region;

        if (!region_of(&range, &region))
            continue;
        if (!array_reserve(process->regions, process->capacity, process->count + 1))
            err = -ENOMEM;
        if (err == 0)
            process->regions[process->count++] = region;
        process->has_mpi |= region.kind == REGION_MPI;
    }
    maps_close(&maps);
    /* what was not read may be the program's */
    return err == 0 && maps.left == 0 ? -ESRCH : err;
}

static const struct region *region_at(const struct process *process, uint64_t address)
{
    uint32_t low = 0, high = process->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (process->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < process->count && process->regions[low].begin <= address
               ? &process->regions[low]
               : NULL;
}

/* ---- stacks ---- */

#if defined __x86_64__

/* The length of the call instruction through a register or memory that begins with these two bytes;
 * 0: it is none. */
static unsigned call_length(unsigned char opcode, unsigned char operand, unsigned char index)
{
    unsigned mode = operand >> 6, of = operand & 7;

    if (opcode != 0xff || (operand >> 3 & 7) != 2)
        return 0;
    if (mode == 3)
        return 2;
    if (mode == 0)
        return of == 5 ? 6 : of != 4 ? 2 : (index & 7) == 5 ? 7 : 3;
    return (mode == 1 ? 3u : 6u) + (of == 4);
}

/* Is it the address after a call instruction? */
static bool is_return(const struct process *process, uint64_t address)
{
    unsigned char code[CALL_BYTES + 1] = {0};

    if (sys_process_vm_readv((pid_t)process->pid, code, address - CALL_BYTES, CALL_BYTES) !=
        CALL_BYTES)
        return true; /* not known: as if it were one */
    if (code[CALL_BYTES - 5] == 0xe8)
        return true;
    for (unsigned length = 2; length <= CALL_BYTES; length++) {
        const unsigned char *at = code + CALL_BYTES - length;

        if (call_length(at[0], at[1], at[2]) == length)
            return true;
    }
    return false;
}

static bool holds(const struct process *process, uint64_t word, enum region_kind kind)
{
    const struct region *region = region_at(process, word);

    return region != NULL && region->kind == kind && is_return(process, word);
}

/* Copies at most `size` bytes of the stack; returns the number of words. */
static size_t stack_read(const struct process *process, uint64_t pointer, uint64_t *words,
                         size_t size)
{
    const struct region *region = region_at(process, pointer);

    if (region == NULL || region->kind != REGION_DATA || pointer % sizeof *words != 0)
        return 0;
    size = min_size(size, region->end - pointer);
    return sys_process_vm_readv((pid_t)process->pid, words, pointer, size) == (ssize_t)size
               ? size / sizeof *words
               : 0;
}

/* The number of words up to the thread's control block, which begins with its own address, and has it
 * again in its third word; 0: it is not there. */
static size_t stack_length(uint64_t pointer, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i + 2 < count; i++)
        if (words[i] == pointer + i * sizeof *words && words[i + 2] == words[i])
            return i;
    return 0;
}

static bool is_of_library(const struct process *process, uint64_t pointer)
{
    static uint64_t words[STACK_MAX / sizeof(uint64_t)];
    size_t count = stack_read(process, pointer, words, sizeof words);
    bool is_library = false;

    count = stack_length(pointer, words, count);
    for (size_t i = 0; i < count; i++) {
        if (holds(process, words[i], REGION_PROGRAM) || holds(process, words[i], REGION_MPI))
            return false;
        is_library |= holds(process, words[i], REGION_LIBRARY);
    }
    return is_library;
}

/* May the thread be in a call of MPI, or of a library below it?  An MPI that is linked statically looks
 * like the program. */
static bool is_in_mpi(const struct process *process, uint64_t pointer)
{
    uint64_t words[STACK_INNER / sizeof(uint64_t)];
    size_t count = stack_read(process, pointer, words, sizeof words);

    for (size_t i = 0; i < count; i++)
        if (holds(process, words[i], REGION_MPI) || holds(process, words[i], REGION_LIBRARY))
            return true;
    return count == 0 || !process->has_mpi;
}

#else

/* Return addresses are not recognised. */
static bool is_of_library(const struct process *process, uint64_t pointer)
{
    (void)process;
    (void)pointer;
    return false;
}

static bool is_in_mpi(const struct process *process, uint64_t pointer)
{
    (void)process;
    (void)pointer;
    return true;
}

#endif

/* ---- a thread ---- */

/* Reads a file of a thread; false: it is not readable. */
static bool task_text(const struct process *process, uint32_t id, const char *name, char *text,
                      size_t size)
{
    char path[80];
    size_t used;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task/%" PRIu32 "/%s", process->pid, id,
             name);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    used = fread(text, 1, size - 1, file);
    text[used] = '\0';
    fclose(file);
    return used != 0;
}

/* Does this system call sleep until a thread of its process wakes it?  The flag that says "private" does
 * not matter: pthread_join() does not set it. */
static bool is_sleep(const struct process *process, long number, const uint64_t *arguments)
{
    const struct region *region = region_at(process, arguments[0]);
    uint64_t operation = arguments[1] & (uint64_t)FUTEX_CMD_MASK;

    return number == SYS_futex && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) &&
           arguments[3] == 0 && region != NULL && region->kind == REGION_DATA;
}

/* The system call first, and then the time that it has run: so a thread that was asleep at both looks,
 * with the same time, has slept in between. */
static void task_examine(const struct process *process, struct inspect_task *task)
{
    char text[256], words[OUTSIDE_MAX];
    uint64_t arguments[6] = {0}, pointer = 0;
    long number = -1;
    int count = 0;

    if (!task_text(process, task->id, "syscall", text, sizeof text)) {
        snprintf(task->does, sizeof task->does, "cannot be read");
        return;
    }
    if (strncmp(text, "running", 7) == 0) {
        snprintf(task->does, sizeof task->does, "computes");
        return;
    }
    count = sscanf(text,
                   "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
                   " %" SCNx64,
                   &number, &arguments[0], &arguments[1], &arguments[2], &arguments[3],
                   &arguments[4], &arguments[5], &pointer);
    snprintf(task->does, sizeof task->does, "%.*s", INSPECT_TASK_TEXT - 1,
             outside_call(process->pid, text, words));
    text_make_printable(task->does, '?', false); /* a character may have been cut */
    if (count != 8)
        return;
    if (task->id != process->pid && is_of_library(process, pointer)) {
        task->kind = INSPECT_TASK_OF_LIBRARY;
    } else if (is_sleep(process, number, arguments)) {
        task->kind = is_in_mpi(process, pointer) ? INSPECT_TASK_IN_MPI : INSPECT_TASK_SLEEPS;
        task->word = arguments[0];
    }
}

/* A number that grows when the thread runs: the time and how often.  False: it is not known; some
 * kernels write zeros. */
static bool task_ran(const struct process *process, uint32_t id, uint64_t *ran)
{
    uint64_t ran_ns, times;
    char text[128];

    if (!task_text(process, id, "schedstat", text, sizeof text) ||
        sscanf(text, "%" SCNu64 " %*u %" SCNu64, &ran_ns, &times) != 2 || times == 0)
        return false;
    *ran = ran_ns + times;
    return true;
}

/* False: the thread is gone. */
static bool task_read(const struct process *process, uint32_t id, uint32_t caller,
                      struct inspect_task *task)
{
    char text[512];
    const char *end;

    *task = (struct inspect_task){.id = id, .kind = INSPECT_TASK_BUSY};
    if (id != caller)
        task_examine(process, task);
    if (!task_text(process, id, "stat", text, sizeof text) ||
        (end = strrchr(text, ')')) == NULL ||
        sscanf(end + 1,
               " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%" SCNu64,
               &task->started) != 1)
        return false;
    if (!task_ran(process, id, &task->ran_ns) && task->kind != INSPECT_TASK_OF_LIBRARY)
        task->kind = INSPECT_TASK_BUSY; /* it may have run */
    return true;
}

static int tasks_list(const struct process *process, uint32_t caller,
                      struct inspect_task **tasks, uint32_t *count)
{
    uint32_t capacity = 0;
    struct dirent *entry;
    char path[64];
    DIR *folder;
    int err = 0;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/task", process->pid);
    folder = opendir(path);
    while (folder != NULL && err == 0 && (entry = readdir(folder)) != NULL) {
        unsigned long id = strtoul(entry->d_name, NULL, 10);

        if (id == 0)
            continue;
        if (*count == INSPECT_TASKS || clock_thread() >= process->until_ns) {
            *count = 0;
            break;
        }
        if (!array_reserve(*tasks, capacity, *count + 1))
            err = -ENOMEM;
        else
            *count += task_read(process, (uint32_t)id, caller, &(*tasks)[*count]);
    }
    if (folder != NULL)
        closedir(folder);
    return err;
}

int tasks_read(uint32_t pid, uint32_t caller, uint64_t limit_ns, struct inspect_task **tasks,
               uint32_t *count)
{
    struct process process = {.pid = pid, .until_ns = clock_thread() + limit_ns};
    int err = 0;

    *tasks = NULL;
    *count = 0;
    if (limit_ns == 0)
        return 0;
    err = regions_read(&process);
    if (err == 0)
        err = tasks_list(&process, caller, tasks, count);
    mem_free(process.regions);
    return err == -ESRCH ? 0 : err;
}
