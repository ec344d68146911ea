/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how fast are two ranks of an MPI program, point to point?
 * Method     lat: batches of ROUNDS ping-pongs, MPI_Send and MPI_Recv; latency,
 *            median and fastest batch.  bw: a window of messages one way and one answer,
 *            median and best batch.  rate: as bw, with 8 bytes and a window of 64.
 *            The first tenth of the batches is a warm-up and does not count.
 *            A virtual machine moves its virtual cores, within seconds.  So before and after each
 *            batch the ranks measure the distance of their cores, and a batch counts for a distance
 *            if both measurements agree (distance.h).  Each distance gets a line of output.
 *            With --type the elements of a message have a derived type, at both ends; SIZE is
 *            still the bytes of data, in whole elements, at least one:
 *              vector  MPI_Type_vector: 16 doubles, every other one of 32
 *              blocks  MPI_Type_indexed: 4 blocks of 64, 8, 128 and 56 bytes with gaps
 *              struct  MPI_Type_create_struct: an int, a double and 20 chars, as C lays them out
 *              wide    MPI_Type_vector: 16 times 32 bytes of 64
 *              rows    MPI_Type_create_subarray: the first half of each of 8 rows of 2 KiB
 *              tile    MPI_Type_create_subarray: 128 bytes in the middle of each of 8 rows of 256
 *              record  MPI_Type_create_struct, resized: a double and two ints, 16 bytes of 24
 *
 * usage: mpi_pt2pt [--batches N] [--type vector|blocks|struct|wide|rows|tile|record] LABEL
 *                  lat|bw|rate [SIZE...]
 *
 * The same program is run over each MPI and transport, which LABEL names.  `mbx perf`
 * measures the same through the native interface.
 */
#include <mpi.h>

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "distance.h"

#define BATCHES     60 /* maximum */
#define FEWEST      10
#define ROUNDS      500
#define WINDOW      64

#define WINDOW_LONG ((size_t)32 << 20) /* bytes of a window that is a batch of its own */

static const char *const types[] = {"vector", "blocks", "struct", "wide",
                                    "rows",   "tile",   "record"};

#define TYPES      (sizeof types / sizeof *types)
#define TYPE_NAMES "vector, blocks, struct, wide, rows, tile or record"

static const char usage[] =
    "usage: mpiexec -n 2 mpi_pt2pt [--batches N] [--type "
    "vector|blocks|struct|wide|rows|tile|record] LABEL lat|bw|rate [SIZE...]";

static int rank, batches = BATCHES;
static const char *type_name;            /* NULL: bytes */
static MPI_Datatype type = MPI_BYTE;     /* of an element */
static size_t type_size = 1, extent = 1; /* bytes of data in an element, and its extent */

/* Large messages need fewer rounds for the same time. */
static int rounds_for(size_t size, int least, int most)
{
    size_t bytes = (size_t)4 << 20;
    int rounds = size == 0 ? most : (int)(bytes / size);

    return rounds > most ? most : rounds < least ? least : rounds;
}

/* ---- derived types ---- */

struct record {
    int number;
    double value;
    char text[20];
};

static MPI_Datatype struct_make(int count, const int *lengths, const MPI_Aint *places,
                                const MPI_Datatype *parts, size_t whole)
{
    MPI_Datatype packed, made;

    MPI_Type_create_struct(count, lengths, places, parts, &packed);
    MPI_Type_create_resized(packed, 0, (MPI_Aint)whole, &made);
    MPI_Type_free(&packed);
    return made;
}

static void type_make(void)
{
    MPI_Aint lower, whole;
    int size;

    if (type_name == NULL)
        return;
    if (strcmp(type_name, "vector") == 0) {
        MPI_Type_vector(16, 1, 2, MPI_DOUBLE, &type);
    } else if (strcmp(type_name, "wide") == 0) {
        MPI_Type_vector(16, 4, 8, MPI_DOUBLE, &type);
    } else if (strcmp(type_name, "blocks") == 0) {
        int lengths[] = {64, 8, 128, 56}, places[] = {0, 96, 128, 320};

        MPI_Type_indexed(4, lengths, places, MPI_BYTE, &type);
    } else if (strcmp(type_name, "rows") == 0) {
        int whole_matrix[] = {8, 256}, half[] = {8, 128}, from[] = {0, 0};

        MPI_Type_create_subarray(2, whole_matrix, half, from, MPI_ORDER_C, MPI_DOUBLE, &type);
    } else if (strcmp(type_name, "tile") == 0) {
        int whole_matrix[] = {8, 32}, part[] = {8, 16}, from[] = {0, 8};

        MPI_Type_create_subarray(2, whole_matrix, part, from, MPI_ORDER_C, MPI_DOUBLE, &type);
    } else if (strcmp(type_name, "record") == 0) {
        int lengths[] = {1, 2};
        MPI_Aint places[] = {0, 8};
        MPI_Datatype parts[] = {MPI_DOUBLE, MPI_INT};

        type = struct_make(2, lengths, places, parts, 24);
    } else {
        int lengths[] = {1, 1, 20};
        MPI_Aint places[] = {offsetof(struct record, number), offsetof(struct record, value),
                             offsetof(struct record, text)};
        MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};

        type = struct_make(3, lengths, places, parts, sizeof(struct record));
    }
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lower, &whole);
    type_size = (size_t)size;
    extent = (size_t)whole;
}

/* ---- batches ---- */

/* Seconds for one batch of ping-pongs. */
static double ping_pong(char *buf, int count, int rounds)
{
    MPI_Status status;
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            MPI_Send(buf, count, type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buf, count, type, 1, 1, MPI_COMM_WORLD, &status);
        } else {
            MPI_Recv(buf, count, type, 0, 1, MPI_COMM_WORLD, &status);
            MPI_Send(buf, count, type, 0, 1, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - start;
}

/* Seconds for one batch of windows in one direction, each answered by an empty message. */
static double stream(char *buf, int count, int windows)
{
    MPI_Request requests[WINDOW];
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int w = 0; w < windows; w++) {
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0)
                MPI_Isend(buf, count, type, 1, 1, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(buf, count, type, 0, 1, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
    }
    return MPI_Wtime() - start;
}

/* ---- how far the two cores are from each other ---- */

static _Atomic uint32_t *line; /* 0 when it is rank 0's turn */

/* Maps the line, in memory shared by both ranks. */
static void line_open(void)
{
    char name[64];
    int fd;

    snprintf(name, sizeof name, "/mpi_pt2pt.%ld", (long)getpid());
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    fd = rank == 0 ? shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600) : -1;
    if (rank == 0 && (fd < 0 || ftruncate(fd, 4096) < 0))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0 && (fd = shm_open(name, O_RDWR, 0600)) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        shm_unlink(name);
    line = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (line == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    close(fd);
}

/* The distance, at rank 0; at rank 1 the result is meaningless. */
static enum distance distance_now(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return distance_of(distance_look(MPI_Wtime, line, (uint32_t)rank));
}

/* ---- reports ---- */

static void report(const char *label, const char *what, size_t size, enum distance distance,
                   double *seconds, int count, int messages)
{
    double median, least;

    qsort(seconds, (size_t)count, sizeof *seconds, distance_compare);
    median = seconds[count / 2];
    least = seconds[0];
    printf("bench=%s engine=%s ", what, label);
    if (type_name != NULL)
        printf("type=%s ", type_name);
    printf("size=%zu distance=%s batches=%d ", size, distance_names[distance], count);
    if (what[0] == 'l')
        printf("half_rtt_median_ns=%.1f half_rtt_min_ns=%.1f\n", median / messages * 1e9,
               least / messages * 1e9);
    else
        printf("window=%d median_MB_per_s=%.1f max_MB_per_s=%.1f "
               "median_messages_per_s=%.0f max_messages_per_s=%.0f\n",
               WINDOW, (double)size * messages / median / 1e6,
               (double)size * messages / least / 1e6, messages / median, messages / least);
    fflush(stdout);
}

static void measure(const char *label, const char *what, size_t size)
{
    double seconds[DISTANCES + 1][BATCHES];
    int counts[DISTANCES + 1] = {0};
    int elements = (int)(size / type_size);
    char *buf = malloc((size_t)elements * extent + 1);
    int warm = batches / 10;
    bool is_lat = what[0] == 'l';
    int rounds = is_lat ? rounds_for(size, 4, ROUNDS)
                        : rounds_for(size * WINDOW, size * WINDOW < WINDOW_LONG ? 4 : 1, 100);
    enum distance before;

    if (buf == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buf, 1, (size_t)elements * extent + 1);
    size = (size_t)elements * type_size;
    before = distance_now();
    for (int b = 0; b < batches; b++) {
        double t = is_lat ? ping_pong(buf, elements, rounds) : stream(buf, elements, rounds);
        enum distance behind = distance_now(), d = before == behind ? behind : MIXED;

        if (b >= warm)
            seconds[d][counts[d]++] = t;
        before = behind;
    }
    free(buf);
    for (int d = CORE; rank == 0 && d < DISTANCES; d++)
        if (counts[d] != 0)
            report(label, what, size, (enum distance)d, seconds[d], counts[d],
                   is_lat ? 2 * rounds : WINDOW * rounds);
}

/* The number of bytes in text; SIZE_MAX if it is not a number. */
static size_t to_size(const char *text)
{
    char *end;
    unsigned long long size = strtoull(text, &end, 10);

    return *text >= '0' && *text <= '9' && *end == '\0' && size <= INT_MAX ? (size_t)size
                                                                           : SIZE_MAX;
}

static bool is_type(const char *name)
{
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(name, types[i]) == 0)
            return true;
    return false;
}

/* Removes the options at the front; returns an error message, or NULL. */
static const char *take_options(int *argc, char ***argv)
{
    static char error[200];

    for (; *argc > 2 && strncmp((*argv)[1], "--", 2) == 0; *argc -= 2, *argv += 2) {
        const char *name = (*argv)[1], *value = (*argv)[2];

        if (strcmp(name, "--batches") == 0) {
            size_t count = to_size(value);

            batches = count >= FEWEST && count <= BATCHES ? (int)count : 0;
        } else if (strcmp(name, "--type") == 0 && is_type(value)) {
            type_name = value;
        } else {
            batches = 0;
        }
        if (batches == 0) {
            snprintf(error, sizeof error,
                     "--batches is a number from %d to %d, --type " TYPE_NAMES
                     ", not '%.30s %.60s'",
                     FEWEST, BATCHES, name, value);
            return error;
        }
    }
    return NULL;
}

/* An error message for wrong arguments, or NULL. */
static const char *check(int argc, char **argv, int ranks)
{
    static char error[200];

    if (argc < 3)
        return usage;
    if (strcmp(argv[2], "lat") != 0 && strcmp(argv[2], "bw") != 0 &&
        strcmp(argv[2], "rate") != 0) {
        snprintf(error, sizeof error, "there are lat, bw and rate, no '%.60s'", argv[2]);
        return error;
    }
    for (int i = 3; i < argc; i++) {
        if (to_size(argv[i]) == SIZE_MAX) {
            snprintf(error, sizeof error, "SIZE is a number of bytes from 0 to %d, not '%.60s'",
                     INT_MAX, argv[i]);
            return error;
        }
    }
    return ranks == 2 ? NULL : "it takes two ranks: mpiexec -n 2";
}

/* A message of less than one element would be empty: an error message, or NULL. */
static const char *check_elements(int argc, char **argv)
{
    static char error[200];

    for (int i = 3; i < argc; i++) {
        if (to_size(argv[i]) != 0 && to_size(argv[i]) < type_size) {
            snprintf(error, sizeof error,
                     "SIZE is at least one element of %s, %zu bytes, not '%.60s'", type_name,
                     type_size, argv[i]);
            return error;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *error;
    int ranks;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    error = take_options(&argc, &argv);
    if (error == NULL)
        error = check(argc, argv, ranks);
    if (error == NULL) {
        type_make();
        error = check_elements(argc, argv);
    }
    if (error != NULL) {
        if (rank == 0)
            fprintf(stderr, "mpi_pt2pt: %s\n", error);
        MPI_Finalize();
        return 2;
    }
    line_open();
    if (argc == 3)
        measure(argv[1], argv[2],
                strcmp(argv[2], "bw") == 0 ? (size_t)1 << 20
                : type_size > 8            ? type_size
                                           : 8);
    for (int i = 3; i < argc; i++)
        measure(argv[1], argv[2], to_size(argv[i]));
    if (type_name != NULL)
        MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}
