/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * identity.c - which program this process runs, and what it calls that is not recorded.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/sys.h"
#include "replay/replay.h"

/* ---- the build id ---- */

#define NOTE_ALIGN 4u

static void note_take(const unsigned char *notes, size_t size, unsigned char build[20])
{
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = at + sizeof *note, bytes = name + round_up(note->n_namesz, NOTE_ALIGN);

        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            memcmp(notes + name, "GNU", 4) == 0) {
            memcpy(build, notes + bytes, min_size(note->n_descsz, 20));
            return;
        }
        at = bytes + round_up(note->n_descsz, NOTE_ALIGN);
    }
}

/* The program is the first object. */
static int object_take(struct dl_phdr_info *object, size_t size, void *build)
{
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_NOTE)
            note_take((const unsigned char *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr),
                      object->dlpi_phdr[i].p_memsz, build);
    return 1;
}

static uint64_t arguments_hash(void)
{
    static uint64_t words[512];
    int fd = sys_open("/proc/self/cmdline", O_RDONLY, 0);
    ssize_t got = fd >= 0 ? sys_read(fd, words, sizeof words) : 0;

    if (fd >= 0)
        sys_close(fd);
    return hash_bytes(words, round_up(got > 0 ? (size_t)got : 0, 8));
}

void replay_identify(struct replay_job *job)
{
    memset(job->build, 0, sizeof job->build);
    (void)dl_iterate_phdr(object_take, job->build);
    job->arguments = arguments_hash();
    job->pid = (uint32_t)getpid();
    job->wall_ns = clock_wall();
}

/* ---- calls that are not recorded ---- */

/* The first one is seen if it is preloaded. */
static const char *const unseen_of_mpi[] = {
    "MPI_Request_get_status", "MPI_Accumulate",      "MPI_Raccumulate",
    "MPI_Get_accumulate",     "MPI_Rget_accumulate", "MPI_Fetch_and_op",
    "MPI_Compare_and_swap",   "MPI_Psend_init",      "MPI_Precv_init"};

/* The functions of matchbox.h that are not recorded. */
static const char *const unseen_of_native[] = {"mbx_unexpected",
                                               "mbx_watch_unexpected",
                                               "mbx_drop",
                                               "mbx_peer_remove",
                                               "mbx_failed",
                                               "mbx_register",
                                               "mbx_stat_read",
                                               "mbx_stats_read",
                                               "mbx_served_get",
                                               "mbx_region_served",
                                               "mbx_deregister_served",
                                               "mbx_address_find"};

#define UNSEEN_MAX 16
static_assert(ARRAY_COUNT(unseen_of_mpi) <= UNSEEN_MAX &&
                  ARRAY_COUNT(unseen_of_native) <= UNSEEN_MAX,
              "struct search has space for all");

struct search {
    const char *without; /* in the paths of objects that are not searched */
    const char *const *names;
    size_t count;
    bool found[UNSEEN_MAX];
};

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
};

/* Addresses in the table are valid in this process; only the kernel's object has addresses that are not relocated, which
 * are below its base. */
static const void *dynamic_address(const struct dl_phdr_info *object, ElfW(Addr) address)
{
    return (const void *)(address < object->dlpi_addr ? object->dlpi_addr + address : address);
}

static void dynamic_take(const struct dl_phdr_info *object, const ElfW(Dyn) * entry,
                         struct dynamic *d)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            d->symbols = dynamic_address(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            d->names = dynamic_address(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_JMPREL)
            d->relocations[0] = dynamic_address(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_PLTRELSZ)
            d->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
        else if (entry->d_tag == DT_RELA)
            d->relocations[1] = dynamic_address(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_RELASZ)
            d->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
    }
}

/* Is name this call, or its name for Fortran (mpi_accumulate_, mpi_accumulate_f08_), or with P before it? */
static bool is_call(const char *name, const char *call)
{
    size_t length = strlen(call);

    name += (name[0] == 'P' || name[0] == 'p') && (name[1] == 'M' || name[1] == 'm');
    if (strncasecmp(name, call, length) != 0)
        return false;
    name += length;
    if (strncmp(name, "_f08", 4) == 0)
        name += 4;
    return name[strspn(name, "_")] == '\0';
}

static void name_note(struct search *search, const char *name)
{
    for (size_t i = 0; i < search->count; i++)
        if (is_call(name, search->names[i]))
            search->found[i] = true;
}

static int object_search(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct dynamic d = {.symbols = NULL};
    struct search *search = arg;

    (void)size;
    if (strstr(object->dlpi_name, search->without) != NULL)
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic_take(object,
                         (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr), &d);
    for (int table = 0; d.symbols != NULL && d.names != NULL && table < 2; table++)
        for (size_t i = 0; d.relocations[table] != NULL && i < d.counts[table]; i++) {
            const ElfW(Sym) *symbol = &d.symbols[ELF64_R_SYM(d.relocations[table][i].r_info)];

            if (symbol->st_shndx == SHN_UNDEF)
                name_note(search, d.names + symbol->st_name);
        }
    return 0;
}

void replay_unseen_calls(const struct replay_job *job, char *text, size_t size)
{
    struct search search = {.without = job->is_native ? "/libmatchbox" : "/libmpi",
                            .names = job->is_native ? unseen_of_native : unseen_of_mpi,
                            .count = job->is_native ? ARRAY_COUNT(unseen_of_native)
                                                    : ARRAY_COUNT(unseen_of_mpi)};
    size_t used = 0;

    text[0] = '\0';
    (void)dl_iterate_phdr(object_search, &search);
    for (size_t i = job->sees_get_status; i < search.count && used < size; i++)
        if (search.found[i])
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     search.names[i]);
}
