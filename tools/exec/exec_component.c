/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_component.c - finds out whether the Open MPI of this machine can load the component.
 *
 * A process of its own tries: it loads the component as Open MPI would, with the libmpi that
 * the linker finds, and asks it for its version.  The command may bring another Open MPI; then
 * that one reports that it has no component `matchbox`, and runs nothing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec.h"

#define VERSION_MAX 1024

/* In the new process: writes a line, and ends with 0 if the component can be used. */
static int try_to_load(const char *folder)
{
    char path[PATH_MAX + 32], version[VERSION_MAX] = "", wanted[64];
    int (*get_version)(char *, int *), length;
    const char *series;
    void *handle;

    snprintf(path, sizeof path, "%s/mca_pml_matchbox.so", folder);
    handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    series = dlsym(handle, "mca_pml_matchbox_series");
    *(void **)&get_version = dlsym(handle, "MPI_Get_library_version");
    if (series == NULL || get_version == NULL) {
        printf("%s is no component for Open MPI\n", path);
        return 1;
    }
    get_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    snprintf(wanted, sizeof wanted, "Open MPI v%s.", series);
    if (strncmp(version, wanted, strlen(wanted)) == 0) {
        printf("%s\n", version);
        return 0;
    }
    printf("it was built for Open MPI %s, and here is %s\n", series, version);
    return 1;
}

static void run_child(const char *folder, int out)
{
    int status;

    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    status = try_to_load(folder);
    fflush(stdout);
    _exit(status);
}

/* The first line that the child says. */
static void read_line(int in, char *said, size_t size)
{
    size_t length = 0;
    ssize_t got;

    while (length + 1 < size && (got = read(in, said + length, size - 1 - length)) > 0)
        length += (size_t)got;
    said[length] = '\0';
    said[strcspn(said, "\n")] = '\0';
}

bool exec_component_loads(const char *folder, char *said, size_t size)
{
    int ends[2], status = 1;
    pid_t child;

    snprintf(said, size, "no process to try it");
    if (pipe(ends) < 0)
        return false;
    fflush(NULL);
    child = fork();
    if (child == 0)
        run_child(folder, ends[1]);
    close(ends[1]);
    if (child > 0) {
        read_line(ends[0], said, size);
        if (waitpid(child, &status, 0) != child)
            status = 1;
    }
    close(ends[0]);
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
