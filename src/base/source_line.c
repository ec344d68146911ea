/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source_line.c - see source_line.h.
 */
#include "base/source_line.h"

#include <stddef.h>

#if MBX_LIBDW

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/loaded.h"
#include "base/sys.h"
#include "base/text.h"

/* The functions of libdw that are called. */
static struct {
    void *handle;
    bool is_tried;
    __typeof__(&dwfl_begin) begin;
    __typeof__(&dwfl_end) end;
    __typeof__(&dwfl_linux_proc_report) proc_report;
    __typeof__(&dwfl_report_offline) report_offline;
    __typeof__(&dwfl_offline_section_address) section_address;
    __typeof__(&dwfl_build_id_find_elf) find_no_elf;
    __typeof__(&dwfl_module_getelf) getelf;
    __typeof__(&dwfl_report_end) report_end;
    __typeof__(&dwfl_addrmodule) addrmodule;
    __typeof__(&dwfl_module_getsrc) getsrc;
    __typeof__(&dwfl_lineinfo) lineinfo;
    __typeof__(&dwfl_module_nextcu) nextcu;
    __typeof__(&dwarf_haspc) haspc;
    __typeof__(&dwarf_getsrc_die) getsrc_die;
    __typeof__(&dwarf_linesrc) linesrc;
    __typeof__(&dwarf_lineno) lineno;
    __typeof__(&dwfl_linux_proc_find_elf) find_elf;
    __typeof__(&dwfl_standard_find_debuginfo) find_debuginfo;
} dw;

static bool load(void)
{
    static const char *const libraries[] = {"libdw.so.1", NULL};
    const struct loaded all[] = {
        {"dwfl_begin", &dw.begin},
        {"dwfl_end", &dw.end},
        {"dwfl_linux_proc_report", &dw.proc_report},
        {"dwfl_report_offline", &dw.report_offline},
        {"dwfl_offline_section_address", &dw.section_address},
        {"dwfl_build_id_find_elf", &dw.find_no_elf},
        {"dwfl_module_getelf", &dw.getelf},
        {"dwfl_report_end", &dw.report_end},
        {"dwfl_addrmodule", &dw.addrmodule},
        {"dwfl_module_getsrc", &dw.getsrc},
        {"dwfl_lineinfo", &dw.lineinfo},
        {"dwfl_module_nextcu", &dw.nextcu},
        {"dwarf_haspc", &dw.haspc},
        {"dwarf_getsrc_die", &dw.getsrc_die},
        {"dwarf_linesrc", &dw.linesrc},
        {"dwarf_lineno", &dw.lineno},
        {"dwfl_linux_proc_find_elf", &dw.find_elf},
        {"dwfl_standard_find_debuginfo", &dw.find_debuginfo},
    };

    if (!dw.is_tried)
        dw.handle = loaded_open(libraries, all, ARRAY_COUNT(all));
    dw.is_tried = true;
    return dw.handle != NULL;
}

/* The file of this address, and in *number its line; or NULL.  dwfl_module_getsrc() looks into a table of addresses
 * (.debug_aranges), which clang does not write: each compilation unit is asked instead. */
static const char *find_in_units(Dwfl_Module *module, uint64_t address, int *number)
{
    Dwarf_Die *unit = NULL;
    Dwarf_Addr bias;

    while ((unit = dw.nextcu(module, unit, &bias)) != NULL) {
        Dwarf_Line *line =
            dw.haspc(unit, address - bias) == 1 ? dw.getsrc_die(unit, address - bias) : NULL;

        if (line != NULL && dw.lineno(line, number) == 0)
            return dw.linesrc(line, NULL, NULL);
    }
    return NULL;
}

static const char *find_line(Dwfl *dwfl, uint64_t address, char *words)
{
    Dwfl_Module *module = dw.addrmodule(dwfl, address);
    Dwfl_Line *line = module != NULL ? dw.getsrc(module, address) : NULL;
    const char *file = NULL, *slash;
    int number;

    if (line != NULL)
        file = dw.lineinfo(line, NULL, &number, NULL, NULL, NULL);
    else if (module != NULL)
        file = find_in_units(module, address, &number);
    if (file == NULL)
        return NULL;
    slash = strrchr(file, '/');
    snprintf(words, SOURCE_LINE_MAX, "%.120s:%d", slash != NULL ? slash + 1 : file, number);
    text_make_printable(words, '?', false);
    return words;
}

const char *source_line(uint32_t pid, uint64_t address, char *words)
{
    static char *nowhere; /* NULL: separate debug information is searched in the usual places */
    const char *found = NULL;
    Dwfl_Callbacks callbacks;
    Dwfl *dwfl;

    if (address == 0 || !load())
        return NULL;
    callbacks = (Dwfl_Callbacks){.find_elf = dw.find_elf,
                                 .find_debuginfo = dw.find_debuginfo,
                                 .debuginfo_path = &nowhere};
    dwfl = dw.begin(&callbacks);
    if (dwfl == NULL)
        return NULL;
    if (dw.proc_report(dwfl, (pid_t)pid) == 0 && dw.report_end(dwfl, NULL, NULL) == 0)
        found =
            find_line(dwfl, address - 1, words); /* the call, not the instruction after it */
    dw.end(dwfl);
    return found;
}

/* The path may be a stranger's: nothing but a regular ELF file is given to libdw, which would also unpack archives.  A
 * descriptor, or a negative errno. */
static int open_program(const char *path)
{
    const struct foreign wanted = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
    char magic[4];
    int fd = foreign_open(path, O_RDONLY, &wanted);

    if (fd < 0 || (sys_pread(fd, magic, sizeof magic, 0) == sizeof magic &&
                   memcmp(magic, "\177ELF", 4) == 0))
        return fd;
    sys_close(fd);
    return -ENOEXEC;
}

const char *source_line_in(const char *path, uint64_t address, char *words)
{
    static char *nowhere;
    const char *found = NULL;
    Dwfl_Callbacks callbacks;
    Dwfl_Module *module;
    GElf_Addr bias;
    Dwfl *dwfl;
    int fd;

    if (address == 0 || !load())
        return NULL;
    callbacks = (Dwfl_Callbacks){.find_elf = dw.find_no_elf,
                                 .find_debuginfo = dw.find_debuginfo,
                                 .section_address = dw.section_address,
                                 .debuginfo_path = &nowhere};
    dwfl = dw.begin(&callbacks);
    if (dwfl == NULL)
        return NULL;
    fd = open_program(path);
    module = fd >= 0 ? dw.report_offline(dwfl, path, path, fd) : NULL; /* closes it then */
    if (module == NULL && fd >= 0)
        sys_close(fd);
    if (module != NULL && dw.report_end(dwfl, NULL, NULL) == 0 &&
        dw.getelf(module, &bias) != NULL)
        found = find_line(dwfl, address + bias - 1, words);
    dw.end(dwfl);
    return found;
}

#else

const char *source_line_in(const char *path, uint64_t address, char *words)
{
    (void)path;
    (void)address;
    (void)words;
    return NULL;
}

const char *source_line(uint32_t pid, uint64_t address, char *words)
{
    (void)pid;
    (void)address;
    (void)words;
    return NULL;
}

#endif
