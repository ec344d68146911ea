/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_info.c - properties of this host that decide how messages travel: tried where possible, otherwise read
 * below /proc and /sys.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "base/sys.h"
#include "info.h"

struct facts {
    struct host_fact *all;
    size_t count;
};

static void add(struct facts *f, const char *name, const char *value, const char *about)
{
    struct host_fact *fact = &f->all[f->count++];

    snprintf(fact->name, sizeof fact->name, "%s", name);
    snprintf(fact->value, sizeof fact->value, "%s", value);
    snprintf(fact->about, sizeof fact->about, "%s", about);
}

/* The first line of a small file; false if there is none. */
static bool read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    bool is_read = file != NULL && fgets(line, (int)size, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    return is_read;
}

/* ---- memory of another process ---- */

static volatile uint64_t mark = 4711;

/* Reads our memory from a child, which is not its ancestor, as one rank reads another.  0, or
 * errno. */
static int attach_error(void)
{
    int status = 0;
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0) {
        uint64_t copy = 0;
        ssize_t size = sys_process_vm_readv(parent, &copy, (uintptr_t)&mark, sizeof copy);

        _exit(size == (ssize_t)sizeof copy && copy == mark ? 0 : errno != 0 ? errno : EIO);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static void add_attach(struct facts *f)
{
    char scope[16] = "", text[160];
    bool has_scope = read_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope);
    int error = attach_error();
    /* the library permits attaching to its processes (PR_SET_PTRACER), so 1 does not prevent
     * it */
    bool is_yama = error == EPERM && strcmp(scope, "1") == 0;

    snprintf(text, sizeof text, "%s%s%s",
             error == 0 || is_yama
                 ? "long messages are copied once, by process_vm_readv"
                 : "long messages are copied twice: process_vm_readv ends with ",
             error == 0 || is_yama ? "" : strerror(error), "");
    add(f, "cross-memory attach", error == 0 || is_yama ? "yes" : "no", text);
    add(f, "ptrace scope", has_scope ? scope : "none",
        has_scope ? "kernel.yama.ptrace_scope; 0 and 1 allow cross-memory attach"
                  : "no Yama; nothing of it forbids cross-memory attach");
}

/* ---- the rest ---- */

static void add_namespaces(struct facts *f)
{
    char value[96];
    struct host host;

    if (host_read(&host) != 0) {
        add(f, "namespaces", "unknown", "/proc cannot be read; no endpoint can be opened");
        return;
    }
    snprintf(value, sizeof value, "pid %" PRIu64 ", user %" PRIu64, host.pid_namespace,
             host.user_namespace);
    add(f, "namespaces", value,
        host_is_contained(&host)
            ? "a container: ranks outside of it are reached over the network"
            : "the ones in which the kernel started: this is no container");
    add(f, "memory of processes", host.closed_process != 0 ? "closed" : "shared",
        host.closed_process != 0 ? "not dumpable: nobody maps it"
                                 : "others of this user may map it");
}

static void add_membarrier(struct facts *f)
{
    int commands = sys_membarrier(MEMBARRIER_CMD_QUERY);
    bool is_here = commands >= 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;

    add(f, "membarrier", is_here ? "yes" : "no",
        is_here ? "a sender needs no fence of its own" : "each message costs a fence more");
}

static void add_huge_pages(struct facts *f)
{
    char line[96] = "unknown";

    read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    add(f, "huge pages", line, "transparent ones; always or madvise: large tables use them");
}

static void add_limits(struct facts *f)
{
    struct rlimit limit;
    struct statvfs shm;
    char value[96] = "unlimited";

    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(value, sizeof value, "%" PRIu64 " bytes", (uint64_t)limit.rlim_cur);
    add(f, "locked memory", value, "ulimit -l; adapters need it for what they register");
    if (statvfs("/dev/shm", &shm) != 0)
        snprintf(value, sizeof value, "none");
    else
        snprintf(value, sizeof value, "%" PRIu64 " MiB free",
                 (uint64_t)shm.f_bavail * shm.f_frsize >> 20);
    add(f, "/dev/shm", value,
        "not needed: shared memory has no name; other parts of an MPI use it");
    snprintf(value, sizeof value, "%u", sys_cores());
    add(f, "processors", value, "with more ranks than these, waits give the core away");
}

static void add_adapters(struct facts *f)
{
    char value[96] = "";
    DIR *folder = opendir("/sys/class/infiniband");
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t used = strlen(value);

        if (entry->d_name[0] != '.')
            snprintf(value + used, sizeof value - used, "%s%.40s", used > 0 ? " " : "",
                     entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    add(f, "adapters", value[0] != '\0' ? value : "none",
        "for RDMA (/sys/class/infiniband); mbx info --devices says which match tags");
}

size_t host_facts(struct host_fact facts[HOST_FACTS_MAX])
{
    struct facts f = {.all = facts};

    add_attach(&f);
    add_namespaces(&f);
    add_membarrier(&f);
    add_huge_pages(&f);
    add_limits(&f);
    add_adapters(&f);
    return f.count;
}
