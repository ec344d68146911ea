/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_event.c - the cost of a trace event.
 *
 * Question   how long does it take to record an event, the pages of the file included?
 * Method     record COUNT events: into a new file in FOLDER, where each event differs from an earlier
 *            one only in its numbers, or from all (so that it needs a long record); into a flight
 *            recording of 4,096 events in memory.  As many times read the clock, and the processor's
 *            counter (base/ticks.h, in both ways).  In turns, REPEATS times; the median and the
 *            fastest repeat.  The file is removed again.
 *
 * usage: trace_event FOLDER [COUNT [REPEATS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "trace/trace.h"

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(const char *what, double *ns, unsigned long repeats)
{
    qsort(ns, repeats, sizeof *ns, compare);
    printf("bench=trace_event what=%s median_ns=%.1f min_ns=%.1f repeats=%lu\n", what,
           ns[repeats / 2], ns[0], repeats);
}

/* Removes the file of this process. */
static void remove_file(const char *folder)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/matchbox-00000000-%ld-0.trace", folder, (long)getpid());
    unlink(path);
}

/* folder NULL: into a flight recording.  The tag of each event is tag_step higher than the
 * previous one. */
static double record_all(const char *folder, unsigned long count, uint64_t tag_step)
{
    struct trace_info info = {.rank = 0};
    struct trace_recorder *recorder;
    uint64_t start, end;
    int err = folder != NULL ? trace_start(folder, &info, &recorder)
                             : trace_start_flight(NULL, 4096, &info, &recorder);

    if (err < 0) {
        fprintf(stderr, "trace_event: %s: %s\n", folder != NULL ? folder : "memory",
                strerror(-err));
        exit(1);
    }
    start = clock_now();
    for (unsigned long i = 0; i < count; i++)
        trace_record(recorder, &(struct trace_event){.type = TRACE_ARRIVE,
                                                     .context_id = 1,
                                                     .source = 2,
                                                     .tag = i * tag_step,
                                                     .partner = i + 1});
    end = clock_now();
    trace_stop(recorder);
    if (folder != NULL)
        remove_file(folder);
    return (double)(end - start) / (double)count;
}

static double read_clock(unsigned long count)
{
    uint64_t start = clock_now(), sum = 0;

    for (unsigned long i = 0; i < count; i++)
        sum += clock_now();
    return sum != 0 ? (double)(clock_now() - start) / (double)count : 0;
}

static double read_ticks(unsigned long count, uint64_t read(struct ticks *))
{
    struct ticks ticks;
    uint64_t start, sum = 0;

    ticks_start(&ticks);
    for (start = clock_now(); clock_now() - start < 20 * CLOCK_MS;) /* it measures its rate */
        read(&ticks);
    start = clock_now();
    for (unsigned long i = 0; i < count; i++)
        sum += read(&ticks);
    return sum != 0 ? (double)(clock_now() - start) / (double)count : 0;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;
    unsigned long repeats = argc > 3 ? strtoul(argv[3], NULL, 10) : 15;
    double *events, *longs, *flights, *clocks, *ticks, *behind;

    if (argc < 2 || count == 0 || repeats == 0) {
        fprintf(stderr, "usage: trace_event FOLDER [COUNT [REPEATS]]\n");
        return 2;
    }
    events = mem_calloc(repeats, sizeof *events);
    longs = mem_calloc(repeats, sizeof *longs);
    flights = mem_calloc(repeats, sizeof *flights);
    clocks = mem_calloc(repeats, sizeof *clocks);
    ticks = mem_calloc(repeats, sizeof *ticks);
    behind = mem_calloc(repeats, sizeof *behind);
    if (events == NULL || longs == NULL || flights == NULL || clocks == NULL || ticks == NULL ||
        behind == NULL)
        return 1;
    for (unsigned long i = 0; i < repeats; i++) {
        events[i] = record_all(argv[1], count, 0);
        longs[i] = record_all(argv[1], count, 1);
        flights[i] = record_all(NULL, count, 0);
        clocks[i] = read_clock(count);
        ticks[i] = read_ticks(count, ticks_now);
        behind[i] = read_ticks(count, ticks_now_behind);
    }
    print("event", events, repeats);
    print("event_long", longs, repeats);
    print("flight", flights, repeats);
    print("clock", clocks, repeats);
    print("ticks", ticks, repeats);
    print("ticks_behind", behind, repeats);
    mem_free(events);
    mem_free(longs);
    mem_free(flights);
    mem_free(clocks);
    mem_free(ticks);
    mem_free(behind);
    return 0;
}
