/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_launcher.c - finds out which MPI the launcher belongs to, and whether it suits the
 * program.
 *
 * MPICH reaches Matchbox through libfabric (device ch4:ofi) or libucp (ch4:ucx); with another device it runs
 * over something else and does not say so.  `mpichversion` in the folder of the launcher tells the device.
 * The launcher of one MPI starts a program of another one as many jobs of one rank each, usually without an
 * error.  A launcher of a third MPI, or one with an unknown name, is not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"
#include "exec.h"
#include "tools/common/program.h"

bool exec_find_program(const char *program, char *path)
{
    const char *at = environ_get("PATH");

    if (strchr(program, '/') != NULL)
        return realpath(program, path) != NULL;
    while (at != NULL && *at != '\0') {
        char candidate[2 * PATH_MAX];
        size_t length = strcspn(at, ":");

        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, at, program);
        if (access(candidate, X_OK) == 0)
            return realpath(candidate, path) != NULL;
        at += length + strspn(at + length, ":");
    }
    return false;
}

/* MPICH's launchers are called mpiexec.mpich, mpiexec.hydra, or, if MPICH is the only MPI, have
 * another name that is a link to mpiexec.hydra. */
static bool is_launcher_of_mpich(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    return strncmp(name, "mpi", 3) == 0 &&
           (strstr(name, "mpich") != NULL || strstr(name, "hydra") != NULL);
}

/* Debian's links lead to orterun and prterun; in Open MPI 5 mpirun is a program of its own. */
static bool is_launcher_of_open_mpi(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char beside[2 * PATH_MAX];

    if (strcmp(name, "orterun") == 0 || strcmp(name, "prterun") == 0 ||
        strstr(name, "openmpi") != NULL)
        return true;
    snprintf(beside, sizeof beside, "%.*sompi_info", (int)(name - path), path);
    return (strcmp(name, "mpirun") == 0 || strcmp(name, "mpiexec") == 0) &&
           access(beside, X_OK) == 0;
}

/* Reads the first word after a title, if the line has this title. */
static void read_word(const char *line, const char *title, char *word, size_t size)
{
    size_t length = strlen(title);
    const char *at = line + length;

    if (strncmp(line, title, length) != 0)
        return;
    at += strspn(at, " \t");
    snprintf(word, size, "%.*s", (int)strcspn(at, " \t\n"), at);
}

/* Was it configured with modules for shared memory? */
static bool names_shm(const char *line)
{
    static const char option[] = "--with-ch4-shmmods=";
    const char *at = strstr(line, option);

    return at != NULL && strspn(at + strlen(option), " \t\n'") == 0 &&
           strncmp(at + strlen(option), "none", 4) != 0;
}

/* Reads the output of this program.  False: it names no device. */
static bool ask_mpich(const char *program, struct exec_mpich *mpich)
{
    char command[2 * PATH_MAX + 64], line[4096];
    FILE *out;

    *mpich = (struct exec_mpich){.device = ""};
    if (access(program, X_OK) != 0 || strchr(program, '\'') != NULL)
        return false;
    snprintf(command, sizeof command, "'%s' 2>/dev/null", program);
    out = popen(command, "r");
    if (out == NULL)
        return false;
    while (fgets(line, sizeof line, out) != NULL) {
        read_word(line, "MPICH Device:", mpich->device, sizeof mpich->device);
        read_word(line, "MPICH Version:", mpich->version, sizeof mpich->version);
        mpich->has_shm = mpich->has_shm || names_shm(line);
    }
    pclose(out);
    return mpich->device[0] != '\0';
}

static enum exec_device device_of(const char *device)
{
    if (strncmp(device, "ch4:ofi", 7) == 0)
        return EXEC_OFI;
    return strncmp(device, "ch4:ucx", 7) == 0 ? EXEC_UCX : EXEC_OTHER_DEVICE;
}

enum exec_device exec_mpich_device(const char *program, struct exec_mpich *mpich)
{
    static const char *const names[] = {"mpichversion.mpich", "mpichversion"};
    char path[PATH_MAX], beside[2 * PATH_MAX];

    if (!exec_find_program(program, path) || !is_launcher_of_mpich(path))
        return EXEC_NO_MPICH;
    *strrchr(path, '/') = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(beside, sizeof beside, "%s/%s", path, names[i]);
        if (ask_mpich(beside, mpich))
            return device_of(mpich->device);
    }
    return EXEC_NO_MPICH;
}

bool exec_mpich_is_possible(const struct tool *tool, enum exec_device device,
                            const struct exec_mpich *mpich, enum exec_way way)
{
    bool is_other_way = (device == EXEC_UCX && way != EXEC_AUTO && way != EXEC_UCP) ||
                        (device == EXEC_OFI && way == EXEC_UCP);

    if (device == EXEC_OTHER_DEVICE)
        tool_error(
            tool,
            "this mpiexec's MPICH has device %s, which uses neither libucp nor libfabric and "
            "cannot run over "
            "Matchbox; use an MPICH with ch4:ucx or ch4:ofi; --force runs it all the same",
            mpich->device);
    else if (is_other_way)
        tool_error(tool,
                   "this mpiexec's MPICH has device %s, whose messages would go another way; "
                   "leave --through away; "
                   "--force runs it all the same",
                   mpich->device);
    return device != EXEC_OTHER_DEVICE && !is_other_way;
}

static const char *mpi_name(enum program_mpi mpi)
{
    return mpi == PROGRAM_MPICH ? "MPICH" : "Open MPI";
}

static bool is_program(const char *path)
{
    struct stat file;

    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

void exec_warn_of_another_mpi(const struct tool *tool, char **argv)
{
    enum program_mpi launcher, found = PROGRAM_NO_MPI;
    char path[PATH_MAX];

    if (!exec_find_program(argv[0], path))
        return;
    if (is_launcher_of_mpich(path))
        launcher = PROGRAM_MPICH;
    else if (is_launcher_of_open_mpi(path))
        launcher = PROGRAM_OPEN_MPI;
    else
        return;
    for (size_t i = 1; argv[i] != NULL && found == PROGRAM_NO_MPI; i++) {
        found = is_program(argv[i]) ? program_mpi(argv[i]) : PROGRAM_NO_MPI;
        if ((found == PROGRAM_MPICH || found == PROGRAM_OPEN_MPI) && found != launcher)
            tool_error(tool,
                       "warning: %s is a program of %s, and %s is the launcher of %s: each "
                       "rank may be a job of "
                       "its own; start it by the launcher of its MPI",
                       argv[i], mpi_name(found), argv[0], mpi_name(launcher));
    }
}
