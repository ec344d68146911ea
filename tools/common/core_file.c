/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_file.c - see core_file.h.
 *
 * A core file is not trusted: each number in it is checked before it is used to read anything.
 */
#include "core_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "elf_symbol.h"

#define SEGMENTS_MAX (1u << 20)
#define NOTES_MAX    (UINT64_C(64) << 20)
#define HEAD         4096 /* bytes of a mapped file that identify it */

/* ---- memory in the core file ---- */

static const struct core_segment *segment_of(const struct core_file *core, uint64_t at)
{
    uint32_t low = 0, high = core->segment_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (core->segments[middle].start <= at)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || at - core->segments[low - 1].start >= core->segments[low - 1].in_memory)
        return NULL;
    return &core->segments[low - 1];
}

/* Reads from [at, at + size) as much as the core file has without a gap; returns that size. */
static size_t read_segment(const struct core_file *core, uint64_t at, void *to, size_t size)
{
    const struct core_segment *segment = segment_of(core, at);
    uint64_t from = segment != NULL ? at - segment->start : 0;

    if (segment == NULL || from >= segment->in_file)
        return 0;
    size = min_size(size, segment->in_file - from);
    return elf_read(core->fd, to, size, segment->offset + from) ? size : 0;
}

/* ---- memory of a mapped file ---- */

static const struct core_mapping *mapping_of(const struct core_file *core, uint64_t at)
{
    for (uint32_t i = 0; i < core->mapping_count; i++)
        if (at >= core->mappings[i].start && at < core->mappings[i].end)
            return &core->mappings[i];
    return NULL;
}

/* Does this file still begin with the bytes that the process mapped? */
static bool is_the_same(const struct core_file *core, const char *path, int fd)
{
    unsigned char was[HEAD], is[HEAD];

    for (uint32_t i = 0; i < core->mapping_count; i++)
        if (core->mappings[i].offset == 0 && strcmp(core->mappings[i].path, path) == 0 &&
            read_segment(core, core->mappings[i].start, was, HEAD) == HEAD)
            return elf_read(fd, is, HEAD, 0) && memcmp(was, is, HEAD) == 0;
    return false;
}

/* A core file may name any file. */
static const struct foreign any_file = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};

/* A descriptor of the file, or -1. */
static int open_mapped(struct core_file *core, const char *path)
{
    if (core->file_path != NULL && strcmp(core->file_path, path) == 0)
        return core->file_fd;
    if (core->file_fd >= 0)
        close(core->file_fd);
    core->file_path = path;
    core->file_fd = foreign_open(path, O_RDONLY, &any_file);
    if (core->file_fd >= 0 && !is_the_same(core, path, core->file_fd)) {
        close(core->file_fd);
        core->file_fd = -1;
    }
    return core->file_fd;
}

static size_t read_mapped(struct core_file *core, uint64_t at, void *to, size_t size)
{
    const struct core_mapping *mapping = mapping_of(core, at);
    int fd = mapping != NULL ? open_mapped(core, mapping->path) : -1;

    if (fd < 0)
        return 0;
    size = min_size(size, mapping->end - at);
    return elf_read(fd, to, size, mapping->offset + (at - mapping->start)) ? size : 0;
}

static int read_core(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    struct core_file *core = (struct core_file *)(uintptr_t)source;

    while (size != 0) {
        size_t done = read_segment(core, at, to, size);

        if (done == 0)
            done = read_mapped(core, at, to, size);
        if (done == 0)
            return -EFAULT;
        at += done;
        to = (char *)to + done;
        size -= done;
    }
    return 0;
}

/* ---- opening ---- */

static int refuse(char why[CORE_WHY], int err, const char *text)
{
    snprintf(why, CORE_WHY, "%s", text);
    return err;
}

static const char *machine_name(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "arm64";
    case EM_PPC64:
        return "ppc64";
    case EM_RISCV:
        return "RISC-V";
    default:
        return "another kind";
    }
}

static int check_head(const Elf64_Ehdr *head, char why[CORE_WHY])
{
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(why, -EBADMSG,
                      "it is no ELF file (one that is compressed has to be unpacked first, as "
                      "by `coredumpctl dump`)");
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
        head->e_machine != ELF_MACHINE) {
        snprintf(why, CORE_WHY,
                 "it is of a machine of %s, and can be read on such a machine alone",
                 machine_name(head->e_machine));
        return -EBADMSG;
    }
    if (head->e_type != ET_CORE)
        return refuse(why, -EBADMSG, "it is an ELF file, but no core file: a program?");
    if (head->e_phentsize != sizeof(Elf64_Phdr))
        return refuse(why, -EBADMSG, "it is damaged: its program headers are of a wrong size");
    return 0;
}

/* The number of program headers; 0 if it cannot be determined. */
static uint32_t header_count(const struct core_file *core, const Elf64_Ehdr *head)
{
    Elf64_Shdr first;

    if (head->e_phnum != PN_XNUM)
        return head->e_phnum;
    return head->e_shoff != 0 && elf_read(core->fd, &first, sizeof first, head->e_shoff) &&
                   first.sh_info <= SEGMENTS_MAX
               ? first.sh_info
               : 0;
}

static int by_start(const void *a, const void *b)
{
    const struct core_segment *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static bool is_within(uint64_t offset, uint64_t size, uint64_t all)
{
    return offset <= all && size <= all - offset;
}

static int cut_short(char why[CORE_WHY], uint64_t is, uint64_t must)
{
    snprintf(why, CORE_WHY,
             "it is cut short: it has %llu bytes, and names %llu (ulimit -c, or a full disk?)",
             (unsigned long long)is, (unsigned long long)must);
    return -EBADMSG;
}

/* ---- notes: the mapped files, the process ---- */

/* Parses the note: count and page size, then start, end and page of each mapping, then their
 * names. */
static int take_mappings(struct core_file *core, char *note, size_t size)
{
    uint64_t count, page, place[3];
    char *name, *end = note + size;

    if (size < 2 * sizeof(uint64_t) || end[-1] != '\0')
        return 0;
    memcpy(&count, note, sizeof count);
    memcpy(&page, note + sizeof count, sizeof page);
    if (count > (size - 16) / sizeof place || count > SEGMENTS_MAX || page > (1u << 30))
        return 0;
    core->mappings = mem_calloc(count + 1, sizeof *core->mappings);
    if (core->mappings == NULL)
        return -ENOMEM;
    name = note + 16 + count * sizeof place;
    for (uint64_t i = 0; i < count && name < end; i++) {
        struct core_mapping *mapping = &core->mappings[core->mapping_count];

        memcpy(place, note + 16 + i * sizeof place, sizeof place);
        *mapping = (struct core_mapping){
            .start = place[0], .end = place[1], .offset = place[2] * page, .path = name};
        core->mapping_count += place[1] > place[0] && place[2] <= INT64_MAX / (page + 1);
        name += strlen(name) + 1;
    }
    return 0;
}

/* Reads which process it was.  A blank inside an argument looks like one between two. */
static void take_process(struct core_file *core, const char *note)
{
    struct elf_prpsinfo info;
    char *arguments = core->arguments;
    size_t size;

    static_assert(sizeof info.pr_psargs < CORE_ARGUMENTS, "they end");
    memcpy(&info, note, sizeof info);
    core->pid = (uint32_t)info.pr_pid;
    memcpy(arguments, info.pr_psargs, sizeof info.pr_psargs);
    arguments[sizeof info.pr_psargs] = '\0';
    for (size = strlen(arguments); size > 0 && arguments[size - 1] == ' '; size--)
        arguments[size - 1] = '\0';
    for (size_t i = 0; i < size; i++)
        if (arguments[i] == ' ')
            arguments[i] = '\0';
    core->arguments_size = size != 0 ? size + 1 : 0;
}

static int take_notes(struct core_file *core, const Elf64_Phdr *header)
{
    uint64_t at = 0, size = header->p_filesz;

    if (core->notes != NULL || size > NOTES_MAX)
        return 0;
    core->notes = mem_alloc(size + 1);
    if (core->notes == NULL)
        return -ENOMEM;
    if (!elf_read(core->fd, core->notes, size, header->p_offset))
        return 0;
    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        uint64_t name, bytes;

        memcpy(&note, core->notes + at, sizeof note);
        name = at + sizeof note + ((uint64_t)note.n_namesz + 3) / 4 * 4;
        bytes = ((uint64_t)note.n_descsz + 3) / 4 * 4;
        if (!is_within(name, bytes, size))
            return 0;
        if (note.n_type == NT_PRPSINFO && note.n_descsz >= sizeof(struct elf_prpsinfo))
            take_process(core, core->notes + name);
        if (note.n_type == NT_FILE && core->mappings == NULL &&
            take_mappings(core, core->notes + name, note.n_descsz) != 0)
            return -ENOMEM;
        at = name + bytes;
    }
    return 0;
}

static int take_headers(struct core_file *core, const Elf64_Ehdr *head, uint32_t count,
                        char why[CORE_WHY])
{
    struct stat stat;
    uint64_t all;

    if (fstat(core->fd, &stat) != 0)
        return refuse(why, -errno, strerror(errno));
    all = (uint64_t)stat.st_size;
    core->segments = mem_calloc((size_t)count + 1, sizeof *core->segments);
    if (core->segments == NULL)
        return refuse(why, -ENOMEM, "no memory");
    for (uint32_t i = 0; i < count; i++) {
        Elf64_Phdr header;

        if (head->e_phoff > all ||
            !elf_read(core->fd, &header, sizeof header, head->e_phoff + i * sizeof header))
            return cut_short(why, all, head->e_phoff + count * sizeof header);
        if (header.p_type != PT_LOAD && header.p_type != PT_NOTE)
            continue;
        if (!is_within(header.p_offset, header.p_filesz, all))
            return cut_short(why, all, header.p_offset + header.p_filesz);
        if (header.p_type == PT_NOTE && take_notes(core, &header) != 0)
            return refuse(why, -ENOMEM, "no memory");
        if (header.p_type == PT_LOAD && header.p_memsz >= header.p_filesz &&
            header.p_vaddr <= UINT64_MAX - header.p_memsz)
            core->segments[core->segment_count++] = (struct core_segment){
                header.p_vaddr, header.p_filesz, header.p_memsz, header.p_offset};
    }
    if (core->segment_count == 0)
        return refuse(why, -EBADMSG, "there is no memory in it");
    qsort(core->segments, core->segment_count, sizeof *core->segments, by_start);
    return 0;
}

int core_open(struct core_file *core, const char *path, char why[CORE_WHY])
{
    Elf64_Ehdr head;
    uint32_t count;
    int err = 0;

    *core = (struct core_file){
        .source = {read_core}, .fd = foreign_open(path, O_RDONLY, &any_file), .file_fd = -1};
    if (core->fd == -EINVAL || core->fd == -EISDIR)
        return refuse(why, -EBADMSG, "it is no file");
    if (core->fd < 0)
        return refuse(why, core->fd, strerror(-core->fd));
    if (!elf_read(core->fd, &head, sizeof head, 0))
        err = refuse(why, -EBADMSG, "it is too short for a core file");
    if (err == 0)
        err = check_head(&head, why);
    if (err == 0) {
        count = header_count(core, &head);
        err = count == 0 || count > SEGMENTS_MAX
                  ? refuse(why, -EBADMSG, "it is damaged: it says of no segment where it lies")
                  : take_headers(core, &head, count, why);
    }
    if (err != 0)
        core_close(core);
    return err;
}

void core_close(struct core_file *core)
{
    mem_free(core->segments);
    mem_free(core->mappings);
    mem_free(core->notes);
    if (core->file_fd >= 0)
        close(core->file_fd);
    close(core->fd);
}

/* ---- finding ---- */

uint64_t core_shared(const struct core_file *core, const char magic[8], uint64_t *size,
                     uint32_t *at)
{
    char found[8];

    while (*at < core->segment_count) {
        const struct core_segment *segment = &core->segments[(*at)++];

        if (segment->in_file >= sizeof found &&
            elf_read(core->fd, found, sizeof found, segment->offset) &&
            memcmp(found, magic, sizeof found) == 0) {
            *size = segment->in_file;
            return segment->start;
        }
    }
    return 0;
}

uint64_t core_page(const struct core_file *core, uint32_t *at)
{
    uint64_t address, size;

    do
        address = core_shared(core, INSPECT_MAGIC, &size, at);
    while (address != 0 && size < INSPECT_PAGE_SIZE);
    return address;
}

uint64_t core_symbol(struct core_file *core, const char *name, uint32_t *at)
{
    while (*at < core->mapping_count) {
        const struct core_mapping *mapping = &core->mappings[(*at)++];
        uint64_t linked_at, value;
        int fd;

        if (mapping->offset != 0)
            continue;
        fd = open_mapped(core, mapping->path);
        value = fd >= 0 ? elf_symbol(fd, name, ELF_ALL, &linked_at) : 0;
        if (value != 0)
            return mapping->start + (value - linked_at);
    }
    return 0;
}
