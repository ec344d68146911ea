/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core_fuzz.c - an observer reads arbitrary memory of a process, or a core file, and ends.
 *
 *   memory   an endpoint of this process with receives, unexpected messages and names is read as by `mbx queues`, but
 *            some of the read bytes are changed: addresses, offsets and counts have arbitrary values
 *   core     an ELF core file with some changed bytes is opened, and searched for pages and symbols
 *
 * The first byte of an input chooses one.  For each change, the following bytes give the number of the read (memory) or the
 * offset (core), the position, and the new value.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "fuzz/program.h"
#include "inspect/walk.h"
#include "tools/common/core_file.h"

#define CAPACITY    64
#define CHANGES_MAX 8
#define READS_MAX   20000 /* then reading fails, so that no input takes long */

/* Small numbers, edge values, and addresses of this process. */
static uint64_t number(struct input *in)
{
    static const uint64_t edges[] = {
        UINT64_MAX, INT64_MAX, UINT32_MAX,     INT32_MAX,         1u << 21,          1u << 24,
        4096,       65536,     UINT64_MAX - 7, (uint64_t)1 << 47, (uint64_t)1 << 63, 0};
    unsigned kind = take(in);

    if (kind < 64)
        return edges[kind % ARRAY_COUNT(edges)];
    if (kind < 96)
        return (uint64_t)(uintptr_t)edges + take(in);
    if (kind < 160)
        return take(in);
    return (uint64_t)take(in) << 24 | (uint64_t)take(in) << 16 | (uint64_t)take(in) << 8 |
           take(in);
}

/* ---- memory ---- */

extern const struct inspect_root mbx_see_root;

static struct mbx_ep *endpoints[2];
static char buffer[64];

static struct {
    unsigned read, at, size;
    uint64_t value;
} changes[CHANGES_MAX];
static unsigned change_count, reads;

static int read_changed(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    struct iovec here = {to, size}, there = {(void *)(uintptr_t)at, size};

    (void)source;
    if (reads++ >= READS_MAX ||
        process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)size)
        return -EFAULT;
    for (unsigned i = 0; i < change_count && size != 0; i++) {
        size_t first = changes[i].at % size;

        if (changes[i].read == reads)
            memcpy((unsigned char *)to + first, &changes[i].value,
                   min_size(size - first, changes[i].size));
    }
    return 0;
}

static void open_endpoints(void)
{
    static const char *const params[] = {"TRANSPORT=loop", "WINDOW=unlimited", NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_address address;
    mbx_request request;
    uint32_t peer;

    for (int i = 0; i < 2; i++)
        require(mbx_open(&config, &endpoints[i]) == 0, "no endpoint");
    for (int i = 0; i < 2; i++)
        require(mbx_address_get(endpoints[1 - i], &address) == 0 &&
                    mbx_peer_add(endpoints[i], &address, &peer) == 0 &&
                    mbx_name_peer(endpoints[i], peer, 0, 1) == 0,
                "no peer");
    require(mbx_name_program(endpoints[0], "component a program") == 0 &&
                mbx_name_context(endpoints[0], 1, "a context", 2) == 0,
            "no names");
    for (uint64_t tag = 0; tag < 20; tag++)
        require(
            mbx_recv(endpoints[0], 0, 1, tag + 100, 0, buffer, sizeof buffer, NULL, &request) ==
                    0 &&
                mbx_send(endpoints[1], 0, 1, tag, buffer, sizeof buffer, NULL, &request) == 0,
            "no messages");
    for (int i = 0; i < 1000; i++) {
        mbx_progress(endpoints[0]);
        mbx_progress(endpoints[1]);
    }
}

static void close_endpoints(void)
{
    for (int i = 0; i < 2; i++)
        if (endpoints[i] != NULL)
            mbx_close(endpoints[i]);
}

static void walk_memory(struct input *in)
{
    static const struct inspect_source source = {read_changed};
    static struct inspect_entry entries[CAPACITY];
    uint64_t addresses[INSPECT_ENDPOINTS_MAX];
    uint32_t counts[INSPECT_KINDS], count, stored, rank;
    struct inspect_pulse pulse;
    struct inspect_map map;
    char text[512];
    uint64_t posted = 0, unexpected = 0;
    bool is_right;

    if (endpoints[0] == NULL) {
        open_endpoints();
        atexit(close_endpoints);
    }
    for (change_count = 0; change_count < CHANGES_MAX && in->size != 0; change_count++) {
        changes[change_count].read = take(in) | (unsigned)take(in) % 4 << 8;
        changes[change_count].at = take(in);
        changes[change_count].size = 1u << take(in) % 4;
        changes[change_count].value = number(in);
    }
    is_right = change_count == 0;
    reads = 0;
    if (inspect_map_read(&source, (uint64_t)(uintptr_t)&mbx_see_root, &map) != 0) {
        require(!is_right, "the layout is not read");
        return;
    }
    inspect_walk_endpoints(&map, &source, addresses, &count);
    for (uint32_t i = 0; i < min_size(count, 4); i++) {
        uint64_t ep = addresses[i];

        stored = 0;
        if (inspect_walk(&map, &source, ep, entries, CAPACITY, &stored, counts) == 0) {
            posted += counts[INSPECT_POSTED];
            unexpected += counts[INSPECT_UNEXPECTED];
        }
        require(stored <= CAPACITY, "more is stored than there is space");
        for (uint32_t e = 0; e < stored; e++)
            require(entries[e].kind > INSPECT_NONE && entries[e].kind < INSPECT_KINDS,
                    "an entry is of no kind");
        inspect_walk_ages(&map, &source, ep, 0, entries, stored);
        inspect_walk_pulse(&map, &source, ep, &pulse);
        if (inspect_walk_names(&map, &source, ep, entries, stored, text, sizeof text) >= 0)
            require(memchr(text, '\0', sizeof text) != NULL, "names do not end");
        inspect_walk_rank(&map, &source, ep, 1, &rank);
        inspect_walk_program(&map, &source, ep, text);
        require(memchr(text, '\0', INSPECT_MPI_TEXT) != NULL, "a program's text does not end");
    }
    require(!is_right || (posted == 20 && unexpected == 20), "the queues are others");
}

/* ---- core files ---- */

#define CORE_SIZE (sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr) + 512 + 3 * 4096)

static unsigned char core[CORE_SIZE];

/* Makes a core file with three segments and a note that names two mapped files. */
static void make_core(void)
{
    size_t at = sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr), note = at;
    Elf64_Ehdr head = {.e_type = ET_CORE,
                       .e_phoff = sizeof head,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 4};
    Elf64_Nhdr file = {.n_namesz = 5, .n_descsz = 16 + 2 * 24 + 2 * 16, .n_type = NT_FILE};
    uint64_t words[] = {2, 1, 0x10000, 0x20000, 0, 0x30000, 0x40000, 0};
    Elf64_Phdr notes = {
        .p_type = PT_NOTE, .p_offset = note, .p_filesz = 12 + 8 + 16 + 2 * 24 + 2 * 16};

#if defined(__x86_64__)
    head.e_machine = EM_X86_64;
#else
    head.e_machine = EM_AARCH64;
#endif
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    memset(core, 0, sizeof core);
    memcpy(core, &head, sizeof head);
    memcpy(core + sizeof head, &notes, sizeof notes);
    memcpy(core + at, &file, sizeof file);
    memcpy(core + at + 12, "CORE", 5);
    memcpy(core + at + 20, words, sizeof words);
    memcpy(core + at + 20 + sizeof words, "/proc/self/exe\0/dev/shm\0", 25);
    for (uint64_t i = 0; i < 3; i++) {
        Elf64_Phdr load = {.p_type = PT_LOAD,
                           .p_offset = note + 512 + i * 4096,
                           .p_vaddr = 0x10000 * (i + 1),
                           .p_filesz = 4096,
                           .p_memsz = 0x8000};

        memcpy(core + sizeof head + (i + 1) * sizeof load, &load, sizeof load);
    }
}

static void read_core(struct input *in)
{
    static char path[64];
    char why[CORE_WHY];
    struct core_file opened;
    uint32_t at = 0;
    uint64_t word;
    FILE *file;

    make_core();
    while (in->size != 0) {
        size_t place = (size_t)(take(in) | take(in) << 8) %
                       (take(in) % 4 != 0 ? sizeof(Elf64_Ehdr) + 4 * sizeof(Elf64_Phdr) + 148
                                          : sizeof core);
        size_t size = (size_t)1 << take(in) % 4;
        uint64_t value = number(in);

        memcpy(core + place, &value, min_size(size, sizeof core - place));
    }
    if (path[0] == '\0')
        snprintf(path, sizeof path, "/dev/shm/core-fuzz.%d", (int)getpid());
    file = fopen(path, "wb");
    require(file != NULL && fwrite(core, 1, sizeof core, file) == sizeof core &&
                fclose(file) == 0,
            "a core file cannot be written");
    if (core_open(&opened, path, why) == 0) {
        core_page(&opened, &at);
        at = 0;
        while (core_symbol(&opened, "mbx_see_root", &at) != 0) {
        }
        for (uint64_t address = 0x10000; address < 0x50000; address += 0x7ff8)
            opened.source.read(&opened.source, address, &word, sizeof word);
        for (uint64_t address = UINT64_MAX - 16; address > 16; address += 8)
            opened.source.read(&opened.source, address, &word, sizeof word);
        core_close(&opened);
    } else {
        require(memchr(why, '\0', sizeof why) != NULL && why[0] != '\0', "no reason");
    }
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    if (take(&in) % 2 == 0)
        walk_memory(&in);
    else
        read_core(&in);
    return 0;
}
