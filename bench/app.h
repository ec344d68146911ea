/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app.h - argument parsing for the programs that imitate applications.
 *
 * Every option takes a number.  Rank 0 reports a wrong one, and all ranks exit with
 * status 2; --help needs no launcher.
 */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include <errno.h>

#include "../tests/mpi/check.h"

struct app_option {
    const char *name, *help; /* name with its dashes */
    long min, max;
    long *value; /* contains the default */
};

static inline void app_help(const char *name, const char *about,
                            const struct app_option *options, size_t count)
{
    printf("usage: mpiexec -n RANKS %s [OPTION NUMBER]...\n\n%s\n", name, about);
    for (size_t i = 0; i < count; i++)
        printf("  %-10s %s, %ld..%ld, default %ld\n", options[i].name, options[i].help,
               options[i].min, options[i].max, *options[i].value);
    printf("  %-10s this text\n\n"
           "The last line is \"ok %s ranks=RANKS\", or a rank says what is wrong and the job\n"
           "is aborted with status 1.\n",
           "--help", name);
}

/* The number in text, or a value below min. */
static inline long app_number(const char *text, long min, long max)
{
    char *end;
    long value;

    errno = 0;
    value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value >= min && value <= max ? value
                                                                                     : min - 1;
}

/* Sets one option; returns an error message, or NULL. */
static inline const char *app_set(const struct app_option *options, size_t count,
                                  const char *name, const char *text)
{
    static char error[200];

    for (size_t i = 0; i < count; i++) {
        const struct app_option *o = &options[i];

        if (strcmp(o->name, name) != 0)
            continue;
        *o->value = text != NULL ? app_number(text, o->min, o->max) : o->min - 1;
        if (*o->value >= o->min)
            return NULL;
        snprintf(error, sizeof error, "%s takes a number from %ld to %ld, not '%.60s'", name,
                 o->min, o->max, text != NULL ? text : "");
        return error;
    }
    snprintf(error, sizeof error, "there is no option '%.60s'; --help names them", name);
    return error;
}

/* Reads the arguments and starts MPI; returns only if there is no error. */
static inline void app_start(int argc, char **argv, const char *name, const char *about,
                             const struct app_option *options, size_t count)
{
    const char *error = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            app_help(name, about, options, count);
            exit(0);
        }
    }
    for (int i = 1; i < argc && error == NULL; i += 2)
        error = app_set(options, count, argv[i], argv[i + 1]);
    start(&argc, &argv);
    if (error == NULL)
        return;
    if (rank == 0)
        fprintf(stderr, "%s: %s\n", name, error);
    MPI_Finalize();
    exit(2);
}

/* A hash of two numbers, equal on all ranks. */
static inline uint64_t app_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2))) *
                 UINT64_C(0xbf58476d1ce4e5b9);

    return x ^ (x >> 31);
}

static inline void *app_alloc(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL) {
        fprintf(stderr, "rank %d: no memory for %zu times %zu bytes\n", rank, count, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

#endif
