/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python.c - see python.h.
 */
#include "python.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/foreign.h"
#include "base/sys.h"
#include "inspect/budget.h"
#include "maps.h"
#include "memory.h"
#include "tools/common/elf_symbol.h"

#define READS_MAX (1u << 16)
#define TIME_MAX  (200 * CLOCK_MS) /* of this thread */
#define FILES_MAX 4                /* in which the symbols are searched */
#define PATH_MOST (PATH_MAX + 32)

/* Opens the file of this range, if it may have the interpreter: the program, or libpython.  A descriptor; or -1. */
static int open_file(uint32_t pid, const struct maps_range *range, const char *program)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    bool is_program = strcmp(range->path, program) == 0;
    char path[PATH_MOST];

    if (range->offset != 0 ||
        (!is_program && !maps_is_library(maps_file_name(range->path), "libpython3")))
        return -1;
    if (is_program)
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", pid);
    else
        snprintf(path, sizeof path, "/proc/%" PRIu32 "/root%s", pid, range->path);
    return foreign_open(path, O_RDONLY, &wanted);
}

/* Extensions need the symbols of the interpreter, so it exports them: the large table of all symbols is
 * not read. */
static uint64_t find_symbol(int fd, const struct maps_range *range, const char *name)
{
    uint64_t linked_at, value = elf_symbol(fd, name, ELF_EXPORTED, &linked_at);

    return value != 0 ? range->start + (value - linked_at) : 0;
}

void python_find(const struct python_thread *thread, struct python_place *place)
{
    char path[64], program[PATH_MAX];
    struct maps_range range;
    uint32_t files = 0;
    struct maps maps;
    ssize_t length;
    bool is_open;

    *place = (struct python_place){.runtime = 0};
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/exe", thread->pid);
    length = readlink(path, program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    is_open = maps_open(&maps, thread->pid);
    while (is_open && maps_next(&maps, &range)) {
        int fd;

        if (range.path[0] != '/')
            continue;
        place->is_binding |= thread->caller >= range.start && thread->caller < range.end &&
                             strstr(range.path, "/mpi4py/") != NULL;
        fd = place->runtime == 0 && files < FILES_MAX ? open_file(thread->pid, &range, program)
                                                      : -1;
        if (fd < 0)
            continue;
        files++;
        place->runtime = find_symbol(fd, &range, "_PyRuntime");
        if (place->runtime != 0)
            place->version_at = find_symbol(fd, &range, "Py_Version");
        sys_close(fd);
    }
    maps_close(&maps);
}

bool python_line(const struct python_thread *thread, char words[PYTHON_LINE],
                 char why[PYTHON_WHY], bool *is_binding)
{
    struct python_place place;
    struct inspect_budget budget;
    struct memory memory;
    uint64_t version = PYTHON_OLD;

    python_find(thread, &place);
    *is_binding = place.is_binding;
    why[0] = '\0';
    if (place.runtime == 0)
        return false;
    if (thread->number ==
        0) { /* no thread has this number, and some that have not begun have none */
        snprintf(why, PYTHON_WHY, "the thread that calls MPI is not known");
        return false;
    }
    memory_init(&memory, thread->pid);
    inspect_budget_init(&budget, &memory.source, READS_MAX, TIME_MAX);
    if (place.version_at != 0 &&
        budget.source.read(&budget.source, place.version_at, &version, sizeof version) != 0) {
        snprintf(why, PYTHON_WHY, "the memory of the process cannot be read");
        return false;
    }
    return python_stack_line(&budget.source, place.runtime, version, thread->number, words,
                             why);
}
