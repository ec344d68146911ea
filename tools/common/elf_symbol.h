/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elf_symbol.h - finds a symbol in an ELF file of this kind of machine.  The file is not trusted.
 */
#ifndef TOOLS_ELF_SYMBOL_H
#define TOOLS_ELF_SYMBOL_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#define ELF_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define ELF_MACHINE EM_AARCH64
#else
#define ELF_MACHINE EM_NONE
#endif

/* Reads [at, at + size) of a file; false: it does not have all of it. */
bool elf_read(int fd, void *to, uint64_t size, uint64_t at);

enum elf_tables { ELF_EXPORTED, ELF_ALL };

/* The value of the symbol of this name that the file defines, and that is in these tables; 0: there is none.  *linked_at: the address for which the
 * beginning of the file was linked, so a process that has mapped it at `start` has the symbol at start + value - *linked_at. */
uint64_t elf_symbol(int fd, const char *name, enum elf_tables tables, uint64_t *linked_at);

#endif
