/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elf_symbol.c - see elf_symbol.h.
 */
#include "elf_symbol.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"

#define SYMBOLS_MAX (UINT64_C(1) << 22)
#define NAMES_MAX   (UINT64_C(64) << 20)
#define TABLES_MAX  4   /* symbol tables in a file: there are two */
#define AT_ONCE     128 /* symbols that are read together */

bool elf_read(int fd, void *to, uint64_t size, uint64_t at)
{
    return at <= INT64_MAX && size <= INT64_MAX - at &&
           pread(fd, to, size, (off_t)at) == (ssize_t)size;
}

/* The value of a symbol of this name in the table, whose names are these. */
static uint64_t find_among(int fd, const Elf64_Shdr *table, const char *text, uint64_t size,
                           const char *name)
{
    uint64_t count = table->sh_size / sizeof(Elf64_Sym), length = strlen(name) + 1;
    Elf64_Sym symbols[AT_ONCE];

    for (uint64_t i = 0; i < count; i++) {
        const Elf64_Sym *symbol = &symbols[i % AT_ONCE];

        if (i % AT_ONCE == 0 &&
            !elf_read(fd, symbols, min_size(count - i, AT_ONCE) * sizeof *symbols,
                      table->sh_offset + i * sizeof *symbols))
            return 0;
        if (symbol->st_shndx != SHN_UNDEF && symbol->st_name <= size &&
            length <= size - symbol->st_name &&
            memcmp(text + symbol->st_name, name, length) == 0 && symbol->st_value != 0)
            return symbol->st_value;
    }
    return 0;
}

static uint64_t find_in_table(int fd, const Elf64_Shdr *table, const Elf64_Shdr *names,
                              const char *name)
{
    uint64_t value = 0;
    char *text;

    if (table->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX || names->sh_size > NAMES_MAX)
        return 0;
    text = mem_alloc(names->sh_size + 1);
    if (text != NULL && elf_read(fd, text, names->sh_size, names->sh_offset))
        value = find_among(fd, table, text, names->sh_size, name);
    mem_free(text);
    return value;
}

uint64_t elf_symbol(int fd, const char *name, enum elf_tables tables, uint64_t *linked_at)
{
    Elf64_Ehdr head;
    uint64_t value = 0;

    *linked_at = 0;
    if (!elf_read(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != ELF_MACHINE)
        return 0;
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr header;

        if (elf_read(fd, &header, sizeof header, head.e_phoff + i * sizeof header) &&
            header.p_type == PT_LOAD && header.p_offset == 0)
            *linked_at = header.p_vaddr;
    }
    for (uint32_t i = 0, count = 0; value == 0 && i < head.e_shnum; i++) {
        Elf64_Shdr table, names;

        if (elf_read(fd, &table, sizeof table, head.e_shoff + i * sizeof table) &&
            (table.sh_type == SHT_DYNSYM ||
             (tables == ELF_ALL && table.sh_type == SHT_SYMTAB)) &&
            table.sh_link < head.e_shnum && count++ < TABLES_MAX &&
            elf_read(fd, &names, sizeof names, head.e_shoff + table.sh_link * sizeof names))
            value = find_in_table(fd, &table, &names, name);
    }
    return value;
}
