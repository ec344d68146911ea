/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_ucp.c - the way through libucp, for MPICH with the device ch4:ucx.
 *
 * Our libucp.so.0 stands alone in its folder, which LD_LIBRARY_PATH names first: programs that need no libucp are as they
 * were.  LD_PRELOAD, which loads it into every process, is taken only where a program's RPATH leads to another libucp,
 * because an RPATH comes before LD_LIBRARY_PATH.  UCX's other libraries stay UCX's.
 *
 * Conditions that would keep messages off Matchbox are reported before anything starts.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/mem.h"
#include "exec.h"

#define LIBRARY  "libucp.so.0"
#define FILE_MAX ((off_t)64 << 20)

/* ---- the RPATH of a program ---- */

struct image {
    unsigned char *bytes;
    size_t size;
};

/* Reads a file that begins as an ELF file of 64 bits; NULL bytes: it is none, or too long. */
static struct image image_read(const char *path)
{
    struct image image = {NULL, 0};
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got;

    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size <= FILE_MAX &&
        (image.bytes = mem_alloc((size_t)file.st_size + 1)) != NULL) {
        while ((got = read(fd, image.bytes + image.size, (size_t)file.st_size - image.size)) >
               0)
            image.size += (size_t)got;
        image.bytes[image.size] = '\0';
    }
    if (fd >= 0)
        close(fd);
    if (image.size < sizeof(Elf64_Ehdr) || memcmp(image.bytes, ELFMAG, SELFMAG) != 0 ||
        image.bytes[EI_CLASS] != ELFCLASS64) {
        mem_free(image.bytes);
        image.bytes = NULL;
    }
    return image;
}

/* The section of this kind, if all of it is in the file. */
static bool find_section(const struct image *image, uint32_t kind, Elf64_Shdr *section)
{
    Elf64_Ehdr head;

    memcpy(&head, image->bytes, sizeof head);
    for (size_t i = 0; i < head.e_shnum; i++) {
        size_t at = head.e_shoff + i * sizeof *section;

        if (head.e_shoff > image->size || at > image->size - sizeof *section)
            return false;
        memcpy(section, image->bytes + at, sizeof *section);
        if (section->sh_type == kind && section->sh_offset <= image->size &&
            section->sh_size <= image->size - section->sh_offset)
            return true;
    }
    return false;
}

/* The text at this place of the names that belong to the dynamic section, or NULL. */
static const char *dynamic_text(const struct image *image, const Elf64_Shdr *dynamic,
                                uint64_t at)
{
    Elf64_Ehdr head;
    Elf64_Shdr names;
    size_t place;

    memcpy(&head, image->bytes, sizeof head);
    place = head.e_shoff + (size_t)dynamic->sh_link * sizeof names;
    if (dynamic->sh_link >= head.e_shnum || place > image->size - sizeof names)
        return NULL;
    memcpy(&names, image->bytes + place, sizeof names);
    if (names.sh_offset > image->size || at >= image->size - names.sh_offset)
        return NULL;
    return (const char *)image->bytes + names.sh_offset + at;
}

/* DT_RPATH, which counts only where there is no DT_RUNPATH; or NULL. */
static const char *image_rpath(const struct image *image)
{
    const char *rpath = NULL;
    Elf64_Shdr dynamic;
    Elf64_Dyn entry;

    if (!find_section(image, SHT_DYNAMIC, &dynamic))
        return NULL;
    for (size_t at = 0; at + sizeof entry <= dynamic.sh_size; at += sizeof entry) {
        memcpy(&entry, image->bytes + dynamic.sh_offset + at, sizeof entry);
        if (entry.d_tag == DT_RUNPATH)
            return NULL;
        if (entry.d_tag == DT_RPATH)
            rpath = dynamic_text(image, &dynamic, entry.d_un.d_val);
    }
    return rpath;
}

/* Is there a libucp in this folder, where $ORIGIN is the folder of the program? */
static bool has_library(const char *folder, size_t length, const char *program)
{
    static const char origin[] = "$ORIGIN";
    size_t skip = length >= strlen(origin) && strncmp(folder, origin, strlen(origin)) == 0
                      ? strlen(origin)
                      : 0;
    size_t own = skip != 0 ? (size_t)(strrchr(program, '/') - program) : 0;
    char path[3 * PATH_MAX];

    if (length > PATH_MAX)
        return false;
    snprintf(path, sizeof path, "%.*s%.*s/" LIBRARY, (int)own, program, (int)(length - skip),
             folder + skip);
    return access(path, F_OK) == 0;
}

/* Copies the RPATH's folder with another libucp. */
static bool leads_elsewhere(const char *program, char folder[PATH_MAX])
{
    struct image image = image_read(program);
    const char *at = image.bytes != NULL ? image_rpath(&image) : NULL;
    bool is_found = false;

    while (at != NULL && *at != '\0' && !is_found) {
        size_t length = strcspn(at, ":");

        is_found = has_library(at, length, program);
        if (is_found)
            snprintf(folder, PATH_MAX, "%.*s", (int)length, at);
        at += length + strspn(at + length, ":");
    }
    mem_free(image.bytes);
    return is_found;
}

/* ---- the programs of the command ---- */

static bool has_more_rights(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 && S_ISREG(file.st_mode) &&
           (file.st_mode & (S_ISUID | S_ISGID) ||
            getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Is every program one into which the loader puts our library? */
static bool programs_take_it(const struct tool *tool, char **argv)
{
    char path[PATH_MAX];

    for (size_t i = 0; argv[i] != NULL; i++) {
        if (!exec_find_program(argv[i], path) || !has_more_rights(path))
            continue;
        tool_error(tool,
                   "%s is set-user-ID or has file capabilities: the loader ignores "
                   "LD_LIBRARY_PATH for it, and its messages "
                   "would not go over Matchbox; run a copy without these rights",
                   path);
        return false;
    }
    return true;
}

bool exec_ucp_is_preloaded(const struct tool *tool, char **argv)
{
    char path[PATH_MAX], folder[PATH_MAX];

    for (size_t i = 0; argv != NULL && argv[i] != NULL; i++) {
        if (!exec_find_program(argv[i], path) || !leads_elsewhere(path, folder))
            continue;
        tool_error(tool,
                   "the RPATH of %s (%s) has another libucp.so.0: using LD_PRELOAD instead of "
                   "LD_LIBRARY_PATH",
                   argv[i], folder);
        return true;
    }
    return false;
}

/* ---- settings and installed libraries ---- */

/* MPICH also needs libucs.  Another process tries to load it, because the library executes code when it is loaded. */
static bool libucs_loads(void)
{
    int status = 1;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(dlopen("libucs.so.0", RTLD_LAZY | RTLD_LOCAL) == NULL);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static bool nothing_is_preloaded(const struct tool *tool, const char *folder)
{
    const char *set = environ_get("LD_PRELOAD");
    const char *at = set != NULL ? strstr(set, "libucp") : NULL;
    size_t length = strlen(folder);

    if (at == NULL ||
        ((size_t)(at - set) > length && strncmp(at - length - 1, folder, length) == 0))
        return true;
    tool_error(
        tool,
        "LD_PRELOAD=%s names another libucp: messages would not go over Matchbox; unset it",
        set);
    return false;
}

static void say_variables(const struct tool *tool)
{
    static const char *const names[] = {"UCX_TLS", "UCX_NET_DEVICES", "UCX_RNDV_THRESH"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (environ_get(names[i]) != NULL)
            tool_error(tool,
                       "%s has no effect over Matchbox; set MBX_ parameters instead (mbx info)",
                       names[i]);
}

bool exec_ucp_is_possible(const struct tool *tool, char **argv, const char *folder)
{
    if (!nothing_is_preloaded(tool, folder) || (argv != NULL && !programs_take_it(tool, argv)))
        return false;
    say_variables(tool);
    if (libucs_loads())
        return true;
    tool_error(tool, "libucs.so.0 cannot be loaded, which programs of libucp need; install UCX "
                     "(Debian: libucx0)");
    return false;
}
