/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_launcher.c - whose launcher is the command, and does it suit?
 *
 * MPICH reaches Matchbox through libfabric alone, if it was built for that (device ch4:ofi); otherwise
 * it runs over something else and says nothing of it.  `mpichversion` beside the launcher tells the
 * device.  And the launcher of one MPI starts a program of another one as so many jobs of one rank,
 * mostly without a word.  A launcher of a third MPI, or of no name, is not judged.
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

/* MPICH's launchers are called mpiexec.mpich, mpiexec.hydra, or, where it is alone, mpiexec.hydra
 * behind a link. */
static bool is_launcher_of_mpich(const char *path)
{
    const char *name = strrchr(path, '/') + 1;

    return strncmp(name, "mpi", 3) == 0 &&
           (strstr(name, "mpich") != NULL || strstr(name, "hydra") != NULL);
}

/* orterun and prterun are behind the links of Debian; in Open MPI 5 mpirun is a program of its own. */
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

/* The device that this program tells, in device[size]. */
static bool ask_device(const char *program, char *device, size_t size)
{
    char command[2 * PATH_MAX + 64], line[512];
    FILE *out;

    if (access(program, X_OK) != 0 || strchr(program, '\'') != NULL)
        return false;
    snprintf(command, sizeof command, "'%s' 2>/dev/null", program);
    out = popen(command, "r");
    if (out == NULL)
        return false;
    device[0] = '\0';
    while (fgets(line, sizeof line, out) != NULL)
        if (strncmp(line, "MPICH Device:", 13) == 0) {
            const char *text = line + 13 + strspn(line + 13, " \t");

            snprintf(device, size, "%.*s", (int)strcspn(text, " \t\n"), text);
        }
    pclose(out);
    return device[0] != '\0';
}

bool exec_mpich_reaches(const char *program, char *device, size_t size)
{
    static const char *const names[] = {"mpichversion.mpich", "mpichversion"};
    char path[PATH_MAX], beside[2 * PATH_MAX];

    if (!exec_find_program(program, path) || !is_launcher_of_mpich(path))
        return true;
    *strrchr(path, '/') = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(beside, sizeof beside, "%s/%s", path, names[i]);
        if (ask_device(beside, device, size))
            return strncmp(device, "ch4:ofi", 7) == 0;
    }
    return true;
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
