/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - small MPI programs with the right answers to public reports of MPI libraries.
 *
 * A program has cases.  Each has a name for the required behaviour, with the numbers of the
 * public reports that describe the fault, and the section of MPI 3.1 that has the answer.  All
 * cases are written from the description of the fault. ranks is the smallest number of ranks
 * for a case; further ranks take part, or wait.
 *
 *   PROGRAM            all cases that do not take long
 *   PROGRAM CASE...    these cases
 *   PROGRAM --list     name, ranks, quick or long, numbers; MPI is not started
 *
 * Rank 0 prints "right CASE" for each case.  A wrong answer gives one line and ends the job
 * with status 1.
 */
#ifndef TESTS_REPORTS_REPORT_H
#define TESTS_REPORTS_REPORT_H

#include "../mpi/check.h"

#define LONG 200000 /* bytes: travels by rendezvous */

struct report_case {
    const char *name;
    int ranks;
    bool takes_long;
    const char *reports;
    void (*run)(void);
};

static const struct report_case *report_now;
static int report_provided; /* thread level */

static inline void report_wrong(long long got, long long want, const char *what, int line)
{
    if (got == want)
        return;
    fprintf(stderr, "wrong: %s (%s), rank %d of %d, line %d: %s: got %lld, want %lld\n",
            report_now->name, report_now->reports, rank, ranks, line, what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#define EXPECT_EQUAL(got, want)                                                                \
    report_wrong((long long)(got), (long long)(want), #got, __LINE__)
#define EXPECT(condition) report_wrong((condition) ? 1 : 0, 1, #condition, __LINE__)

static inline int class_of(int err)
{
    int class = MPI_SUCCESS;

    if (err != MPI_SUCCESS)
        MPI_Error_class(err, &class);
    return class;
}

static inline bool is_cancelled(const MPI_Status *status)
{
    int flag = -1;

    MPI_Test_cancelled(status, &flag);
    return flag != 0;
}

static inline int count_of(const MPI_Status *status, MPI_Datatype type)
{
    int count = -1;

    MPI_Get_count(status, type, &count);
    return count;
}

/* Expects a message of size bytes from source, with the pattern of seed. */
static inline void expect_message(const MPI_Status *status, int source, int tag,
                                  const void *buf, int size, unsigned seed)
{
    EXPECT_EQUAL(status->MPI_SOURCE, source);
    EXPECT_EQUAL(status->MPI_TAG, tag);
    EXPECT_EQUAL(count_of(status, MPI_BYTE), size);
    EXPECT_EQUAL(pattern_end(buf, (size_t)size, seed), size);
}

/* An empty status (3.7.3). */
static inline void expect_empty(const MPI_Status *status)
{
    EXPECT_EQUAL(status->MPI_SOURCE, MPI_ANY_SOURCE);
    EXPECT_EQUAL(status->MPI_TAG, MPI_ANY_TAG);
    EXPECT_EQUAL(count_of(status, MPI_BYTE), 0);
    EXPECT(!is_cancelled(status));
}

/* Waits until all earlier messages between ranks have arrived: messages of a pair keep their
 * order. */
static inline void all_arrived(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int to = 0; to < ranks; to++)
        for (int from = 0; from < ranks; from++)
            if (rank == from && from != to)
                MPI_Ssend(NULL, 0, MPI_BYTE, to, 32000, MPI_COMM_WORLD);
            else if (rank == to && from != to)
                MPI_Recv(NULL, 0, MPI_BYTE, from, 32000, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline bool report_is_named(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static inline int report_main(int argc, char **argv, int level, const struct report_case *cases,
                              int count)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < count; i++)
            printf("%s %d %s %s\n", cases[i].name, cases[i].ranks,
                   cases[i].takes_long ? "long" : "quick", cases[i].reports);
        return 0;
    }
    MPI_Init_thread(&argc, &argv, level, &report_provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < count; i++) {
        bool is_named = report_is_named(cases[i].name, argc, argv);

        if (argc > 1 ? !is_named : cases[i].takes_long)
            continue;
        if (cases[i].ranks > ranks || report_provided < level) {
            if (rank == 0)
                printf("skipped %s: %s\n", cases[i].name,
                       report_provided < level ? "threads are not provided"
                                               : "more ranks needed");
            continue;
        }
        report_now = &cases[i];
        MPI_Barrier(MPI_COMM_WORLD);
        cases[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            printf("right %s\n", cases[i].name);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

#endif
