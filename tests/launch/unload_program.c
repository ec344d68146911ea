/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unload_program.c - a program with threads opens an endpoint, closes it, and unloads the library at once, while a thread of
 * the library may still be in the system.
 *
 * usage: unload_program LIBRARY [TIMES] (each time in a process of its own)
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

static pthread_mutex_t standing = PTHREAD_MUTEX_INITIALIZER;

static void *stand_by(void *arg)
{
    pthread_mutex_lock(&standing);
    pthread_mutex_unlock(&standing);
    return arg;
}

static unsigned threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;

    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count - 2; /* without . and .. */
}

static int fail(const char *what)
{
    fprintf(stderr, "unload: %s: %s\n", what, dlerror());
    return 1;
}

/* Runs one test and returns its status.  First waits until no thread of the library is left,
 * which could run into unloaded code. */
static int once(const char *path)
{
    int (*open)(const struct mbx_config *, struct mbx_ep **), (*close)(struct mbx_ep *);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol;
    struct mbx_ep *ep;
    pthread_t other;
    unsigned own;

    if (library == NULL)
        return fail("dlopen");
    symbol = dlsym(library, "mbx_open");
    memcpy(&open, &symbol, sizeof symbol);
    symbol = dlsym(library, "mbx_close");
    memcpy(&close, &symbol, sizeof symbol);
    pthread_mutex_lock(&standing);
    if (open == NULL || close == NULL || pthread_create(&other, NULL, stand_by, NULL) != 0)
        return fail("a function or a thread");
    own = threads();
    if (open(NULL, &ep) != 0 || close(ep) != 0 || dlclose(library) != 0)
        return fail("open, close or dlclose");
    while (threads() > own)
        sched_yield();
    pthread_mutex_unlock(&standing);
    return pthread_join(other, NULL);
}

int main(int argc, char **argv)
{
    int times = argc > 2 ? atoi(argv[2]) : 20, status = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: unload_program LIBRARY [TIMES]\n");
        return 2;
    }
    for (int i = 0; i < times && status == 0; i++) {
        pid_t child = fork();

        if (child == 0)
            return once(argv[1]);
        if (child < 0 || waitpid(child, &status, 0) != child)
            return 1;
    }
    if (status != 0)
        fprintf(stderr, "unload: a process ended with wait status 0x%x\n", (unsigned)status);
    return status != 0;
}
