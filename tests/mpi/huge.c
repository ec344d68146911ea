/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * huge.c - messages with more bytes than an int can count: more than 2^31, or a multiple of
 * that.
 *
 * Rank 0 sends to rank 1, one message at a time: elements of 4,104 bytes, without gaps or with
 * holes of 248 bytes between them, on either side.  The receive is posted, or not, or follows a
 * probe or a matched probe, or has a buffer that is too short.  All bytes are compared, also in
 * the holes.
 *
 * usage: mpiexec -n 2 huge [TIMES]     TIMES 2^31 bytes, and a few elements (default 1)
 *
 * The program needs two buffers, and with holes as many again, for an MPI that packs.  It first
 * checks the free memory, and prints which parts it leaves out for lack of it.
 */
#include "check.h"

#define ELEMENT 4104 /* bytes */
#define EXTENT  4352
#define WORDS   (ELEMENT / 8)
#define HOLE    UINT64_C(0xdeadbeefdeadbeef)

enum { TAG = 5, READY };

static int64_t count; /* elements; an int can hold the number */
static uint64_t *buffer;
static MPI_Datatype dense, loose;

/* The way in which a message matches its receive. */
enum way { POSTED, UNEXPECTED, PROBED, MATCHED };

static const char *const ways[] = {"posted", "unexpected", "probed",
                                   "taken by a matched probe"};

static uint64_t word_of(uint64_t at, uint64_t seed)
{
    return (at + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed;
}

static size_t words_to(MPI_Datatype type)
{
    return (type == dense ? ELEMENT : EXTENT) / 8;
}

/* Each element has WORDS words of the message; its other words are holes. */
static void fill(MPI_Datatype type, uint64_t seed)
{
    uint64_t *at = buffer;

    for (int64_t i = 0; i < count; i++)
        for (size_t k = 0; k < words_to(type); k++)
            *at++ = k < WORDS ? word_of((uint64_t)i * WORDS + k, seed) : HOLE;
}

static void empty(MPI_Datatype type)
{
    size_t words = (size_t)count * words_to(type);

    for (size_t k = 0; k < words; k++)
        buffer[k] = HOLE;
}

/* The first `elements` have arrived, and nothing else was written. */
static void verify(MPI_Datatype type, int64_t elements, uint64_t seed)
{
    const uint64_t *at = buffer;

    for (int64_t i = 0; i < count; i++)
        for (size_t k = 0; k < words_to(type); k++, at++) {
            uint64_t want =
                i < elements && k < WORDS ? word_of((uint64_t)i * WORDS + k, seed) : HOLE;

            if (*at != want) {
                fprintf(stderr, "element %lld, word %zu\n", (long long)i, k);
                CHECK_EQUAL(*at, want);
            }
        }
}

static void check_status(MPI_Status *status, MPI_Datatype type, int64_t elements)
{
    MPI_Count bytes;
    int got;

    CHECK_EQUAL(status->MPI_SOURCE, 0);
    CHECK_EQUAL(status->MPI_TAG, TAG);
    MPI_Get_count(status, type, &got);
    CHECK_EQUAL(got, elements);
    MPI_Get_elements_x(status, MPI_BYTE, &bytes);
    CHECK_EQUAL(bytes, elements * ELEMENT);
}

static void send_it(MPI_Datatype type, enum way way)
{
    MPI_Request request;

    if (way == POSTED) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buffer, (int)count, type, 1, TAG, MPI_COMM_WORLD);
        return;
    }
    MPI_Isend(buffer, (int)count, type, 1, TAG, MPI_COMM_WORLD, &request);
    MPI_Send(NULL, 0, MPI_BYTE, 1, READY, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive_it(MPI_Datatype type, enum way way)
{
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;

    if (way == POSTED) {
        MPI_Irecv(buffer, (int)count, type, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        check_status(&status, type, count);
        return;
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (way == PROBED) {
        MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        check_status(&status, type, count);
    }
    if (way == MATCHED) {
        MPI_Mprobe(0, TAG, MPI_COMM_WORLD, &message, &status);
        check_status(&status, type, count);
        MPI_Mrecv(buffer, (int)count, type, &message, &status);
    } else {
        MPI_Recv(buffer, (int)count, type, 0, TAG, MPI_COMM_WORLD, &status);
    }
    check_status(&status, type, count);
}

static const char *name_of(MPI_Datatype type)
{
    return type == dense ? "dense" : "holes";
}

static void case_of(MPI_Datatype from, MPI_Datatype to, enum way way)
{
    static uint64_t seed;
    double begin;

    seed++;
    if (rank == 0)
        fill(from, seed);
    else
        empty(to);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (rank == 0) {
        send_it(from, way);
    } else {
        receive_it(to, way);
        printf("huge: %lld bytes, %s to %s, %s: %.2f s\n", (long long)(count * ELEMENT),
               name_of(from), name_of(to), ways[way], MPI_Wtime() - begin);
        fflush(stdout);
        verify(to, count, seed);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A receive that is too short by two elements, or by all except two. */
static void truncated(int64_t elements)
{
    MPI_Status status;
    int class;

    if (rank == 0) {
        fill(dense, 99);
        send_it(dense, UNEXPECTED);
        return;
    }
    empty(dense);
    MPI_Recv(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Recv(buffer, (int)elements, dense, 0, TAG, MPI_COMM_WORLD, &status),
                    &class);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
    /* the content of such a buffer is undefined; the bytes after it must be untouched */
    for (int64_t i = elements * WORDS; i < count * WORDS; i++)
        CHECK_EQUAL(buffer[i], HOLE);
}

/* Returns the bytes that the system has available, or 0 if unknown. */
static uint64_t memory_there(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    unsigned long long kib = 0;
    char line[200];

    while (file != NULL && kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
            kib = 0;
    if (file != NULL)
        fclose(file);
    return kib << 10;
}

/* Is there memory for this number of buffers of this size?  Rank 0 checks, and prints a line if
 * not. */
static bool there_is(int buffers, uint64_t size, const char *what)
{
    uint64_t need = (uint64_t)buffers * size + (UINT64_C(256) << 20), there = memory_there();
    int enough = there >= need;

    MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (!enough && rank == 0)
        printf("huge: left out: %s, which need %llu MiB, and %llu MiB are available\n", what,
               (unsigned long long)(need >> 20), (unsigned long long)(there >> 20));
    return enough;
}

static void make_types(void)
{
    MPI_Datatype element;

    MPI_Type_contiguous(ELEMENT, MPI_BYTE, &dense);
    MPI_Type_commit(&dense);
    MPI_Type_contiguous(ELEMENT, MPI_BYTE, &element);
    MPI_Type_create_resized(element, 0, EXTENT, &loose);
    MPI_Type_commit(&loose);
    MPI_Type_free(&element);
}

static void allocate(MPI_Datatype type)
{
    buffer = malloc((size_t)count * words_to(type) * 8);
    CHECK(buffer != NULL);
}

int main(int argc, char **argv)
{
    char none[] = "", *end = none;
    long times = argc > 1 ? strtol(argv[1], &end, 10) : 1;

    start(&argc, &argv);
    if (ranks != 2 || argc > 2 || *end != '\0' || times < 1 || times > 64) {
        if (rank == 0)
            fprintf(stderr, "huge: 2 ranks, and 1 to 64 times 2^31 bytes; got %d ranks%s%s\n",
                    ranks, argc > 1 ? ", " : "", argc > 1 ? argv[1] : "");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    count = ((int64_t)times << 31) / ELEMENT + 5;
    make_types();
    if (there_is(2, (uint64_t)count * ELEMENT, "all messages")) {
        allocate(dense);
        for (enum way way = POSTED; way <= MATCHED; way++)
            case_of(dense, dense, way);
        truncated(count - 2);
        truncated(2);
        free(buffer);
        if (there_is(4, (uint64_t)count * EXTENT, "messages with holes")) {
            allocate(loose);
            case_of(loose, dense, POSTED);
            case_of(dense, loose, POSTED);
            case_of(loose, loose, UNEXPECTED);
            free(buffer);
        }
    }
    MPI_Type_free(&dense);
    MPI_Type_free(&loose);
    return finish("huge");
}
