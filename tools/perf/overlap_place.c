/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_place.c - gives the receiver a core that nothing else may use.
 *
 *   three cores or more   receiver | sender | device, device, ...
 *   two                   receiver | sender and devices
 *   one                   receiver, sender and devices
 *
 * A thread or process inherits the cores of its creator.  So a rank runs on the cores
 * of the devices while it opens its endpoint, and then moves to its own core.
 */
#include "overlap.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/run/bind.h"

static bool intersects(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;

    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* Removes the cpus of drop, unless none would be left. */
static void drop_cpus(cpu_set_t *set, const cpu_set_t *drop)
{
    cpu_set_t rest;

    CPU_AND(&rest, set, drop);
    CPU_XOR(&rest, set, &rest);
    if (CPU_COUNT(&rest) > 0)
        *set = rest;
}

int overlap_place_plan(struct overlap_place *place)
{
    int cores = bind_plan(place->rank, 2);

    if (cores < 0)
        return cores;
    if (sched_getaffinity(0, sizeof place->others, &place->others) < 0)
        return -errno;
    drop_cpus(&place->others, &place->rank[0]);
    drop_cpus(&place->others, &place->rank[1]);
    place->is_shared = intersects(&place->others, &place->rank[1]);
    return 0;
}

int overlap_place_enter(const cpu_set_t *set)
{
    return sched_setaffinity(0, sizeof *set, set) < 0 ? -errno : 0;
}

/* ---- as text ---- */

struct words {
    char *text;
    size_t size, used;
};

static void add(struct words *w, const char *separator, int number)
{
    if (w->used < w->size)
        w->used += (size_t)snprintf(w->text + w->used, w->size - w->used, "%s%d",
                                    w->used > 0 ? separator : "", number);
}

const char *overlap_place_text(const cpu_set_t *set, char *text, size_t size)
{
    struct words w = {text, size, 0};

    text[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int first = cpu;

        if (!CPU_ISSET(cpu, set))
            continue;
        while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, set))
            cpu++;
        add(&w, ",", first);
        if (cpu > first)
            add(&w, "-", cpu);
    }
    return text;
}

/* ---- other processes ---- */

/* Field 39 of a stat file, the 37th after the name; -1 if it cannot be read. */
static int last_cpu(const char *path)
{
    char text[1024];
    const char *p;
    FILE *file = fopen(path, "re");
    size_t size;

    if (file == NULL)
        return -1;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    p = strrchr(text, ')'); /* the name may contain anything */
    for (int field = 2; p != NULL && field < 39; field++)
        p = strchr(p + 1, ' ');
    return p != NULL ? atoi(p + 1) : -1;
}

static void add_children(struct words *w, const char *thread)
{
    char path[80];
    FILE *file;
    int pid, cpu;

    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        if ((cpu = last_cpu(path)) >= 0)
            add(w, ",", cpu);
    }
    if (file != NULL)
        fclose(file);
}

const char *overlap_place_others(char *text, size_t size)
{
    struct words w = {text, size, 0};
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;

    snprintf(text, size, "none");
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        char path[80];
        int cpu;

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        add_children(&w, entry->d_name);
        snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", entry->d_name);
        if (atoi(entry->d_name) != getpid() && (cpu = last_cpu(path)) >= 0)
            add(&w, ",", cpu);
    }
    if (threads != NULL)
        closedir(threads);
    return text;
}
