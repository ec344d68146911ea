/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_mpich.c - is the command the launcher of an MPICH that cannot reach Matchbox?
 *
 * MPICH reaches it through libfabric alone, if it was built for that (device ch4:ofi); otherwise it
 * runs over something else and says nothing of it.  `mpichversion` beside the launcher tells the
 * device.  A launcher of another MPI, or of no name, is not judged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec.h"

/* The file that execvp() would take, without links; false if there is none. */
static bool resolve(const char *program, char *path)
{
    const char *at = getenv("PATH");

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

    if (!resolve(program, path) || !is_launcher_of_mpich(path))
        return true;
    *strrchr(path, '/') = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(beside, sizeof beside, "%s/%s", path, names[i]);
        if (ask_device(beside, device, size))
            return strncmp(device, "ch4:ofi", 7) == 0;
    }
    return true;
}
