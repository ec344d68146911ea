/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_memory.c - reads /proc/self; allocates nothing, because that would change the result.
 */
#include "flood_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES     4096
#define INTERVAL_NS 2000000L

static struct {
    pthread_t thread;
    atomic_bool is_over;
    unsigned count;
    struct memory_sample samples[SAMPLES];
} watch;

/* The value of a line "NAME:  123 kB" of /proc/self/status; 0: there is none. */
static uint64_t status_kib(const char *name)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    const char *line;

    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    line = strstr(text, name);
    return line != NULL ? strtoull(line + strlen(name), NULL, 10) : 0;
}

uint64_t memory_kib(void)
{
    return status_kib("VmRSS:");
}

uint64_t memory_peak_kib(void)
{
    return status_kib("VmHWM:");
}

bool memory_peak_reset(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool is_done = fd >= 0 && write(fd, "5", 1) == 1;

    if (fd >= 0)
        close(fd);
    return is_done;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Drops every other sample. */
static void thin_out(void)
{
    for (unsigned i = 0; 2 * i < watch.count; i++)
        watch.samples[i] = watch.samples[2 * i];
    watch.count /= 2;
}

static void *watching(void *arg)
{
    struct timespec interval = {.tv_nsec = INTERVAL_NS};
    uint64_t start_ms = now_ms();

    (void)arg;
    while (!atomic_load(&watch.is_over)) {
        watch.samples[watch.count++] =
            (struct memory_sample){now_ms() - start_ms, memory_kib()};
        if (watch.count == SAMPLES) {
            thin_out();
            if (interval.tv_nsec < 500000000L)
                interval.tv_nsec *= 2;
        }
        nanosleep(&interval, NULL);
    }
    return NULL;
}

bool memory_watch(void)
{
    memset(watch.samples, 0xff, sizeof watch.samples); /* touched to make it resident */
    watch.count = 0;
    atomic_store(&watch.is_over, false);
    return pthread_create(&watch.thread, NULL, watching, NULL) == 0;
}

unsigned memory_unwatch(const struct memory_sample **samples)
{
    atomic_store(&watch.is_over, true);
    pthread_join(watch.thread, NULL);
    *samples = watch.samples;
    return watch.count;
}
