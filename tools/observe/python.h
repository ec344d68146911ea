/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python.h - the line of a Python program at which a thread of another process is.
 *
 *   python.c        finds the interpreter in the process: the symbol _PyRuntime of the program or of libpython
 *   python_stack.c  follows its structures
 *
 *     _PyRuntime ──> interpreters ──> threads ──> frames ──> code ──> file, name, table of lines
 *                                     by the kernel's number  the innermost one first
 *
 * The process is not stopped, and nothing in it runs for this: its memory is read from outside.  No debug information is
 * needed.  Where the fields are depends on the version:
 *
 *   3.11, 3.12   constants
 *   3.13, 3.14   _PyRuntime begins with a table of offsets.  The table itself differs by version
 *   others       no line
 *
 * That memory is not trusted, and it may change while it is read.  So each list has an end here, each length a limit,
 * texts are made printable, and the stack is read twice: there is no line unless both readings agree.
 */
#ifndef TOOLS_PYTHON_H
#define TOOLS_PYTHON_H

#include <stdbool.h>

#include "inspect/walk.h"

#define PYTHON_LINE 128 /* bytes of a line in words */
#define PYTHON_WHY  96

/* A thread of a process, and the address in it to which its call of MPI returns; 0: not known. */
struct python_thread {
    uint32_t pid, number;
    uint64_t caller;
};

/* The result of python_find(), from the mapped files of a process. */
struct python_place {
    uint64_t runtime;    /* the address of _PyRuntime; 0: the process runs no Python */
    uint64_t version_at; /* of the number of the version; 0: before 3.11 */
    bool is_binding;     /* as below */
};

void python_find(const struct python_thread *thread, struct python_place *place);

/* Writes "halo.py:8 in exchange" to words.  False: there is no line; then why has the reason, or is empty if the process runs no
 * Python.  *is_binding: the call of MPI was made by mpi4py, whose own lines say nothing to its users. */
bool python_line(const struct python_thread *thread, char words[PYTHON_LINE],
                 char why[PYTHON_WHY], bool *is_binding);

/* ---- python_stack.c ---- */

/* The number of a version, as the program has it: 0x030b02f0 is 3.11.2. */
#define PYTHON_OLD UINT64_C(0) /* before 3.11 */

/* As python_line(), with _PyRuntime at this address of the source. */
bool python_stack_line(const struct inspect_source *source, uint64_t runtime, uint64_t version,
                       uint32_t number, char words[PYTHON_LINE], char why[PYTHON_WHY]);

#endif
