/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatypes.c - random derived datatypes, between neighbours of a ring.
 *
 * The received bytes are compared with the result of MPI_Pack() and MPI_Unpack() for the same
 * bytes, one element at a time, because Open MPI 4.1 packs several elements wrong if their
 * datatype ends with an empty member.  A message of some datatype is sent to a buffer of packed
 * bytes, packed bytes are received into the datatype, and one datatype becomes another one; in
 * all modes, of a few bytes and of megabytes, in windows, into receives that are too short, and
 * with some threads.
 *
 * MPI does not define the content of a buffer that is too short.  With --kept the bytes that
 * fit must be there.
 *
 * --over-ofi leaves out the cases that Open MPI 4.1 handles wrong over any libfabric provider
 * (docs/reference/mpi-bugs.md): synchronous sends whose message a matched probe or a receive
 * that is too short takes, persistent sends of datatypes whose first byte is not at the address
 * of the buffer, and structs with empty members.  MPICH 4.0 counts no elements in a struct with
 * a pair (MPI_DOUBLE_INT), both in MPI_Get_elements() and internally when such a message
 * arrives over libfabric, which then fails: with this bug, pairs are also left out.
 *
 * usage: datatypes [--threads] [--kept] [--over-ofi] [SEED [ROUNDS]]
 */
#include "check.h"

#include <pthread.h>
#include <time.h>

#define DEPTH  4         /* of nested datatypes */
#define MOST   (3 << 20) /* bytes in a message */
#define WINDOW 6

struct messages {
    uint64_t chance;
    MPI_Comm comm; /* of this thread */
    int left, right;
};

static bool has_threads, keeps_what_fits, is_over_ofi, has_no_pairs;
static int rounds = 60;

static uint64_t below(struct messages *m, uint64_t end)
{
    return (uint64_t)next_random(&m->chance) % end;
}

/* ---- datatypes ---- */

static MPI_Datatype basic(struct messages *m)
{
    const MPI_Datatype types[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_DOUBLE_INT};

    return types[below(m, has_no_pairs ? 4 : 5)];
}

static MPI_Aint extent_of(MPI_Datatype type)
{
    MPI_Aint lower, extent;

    MPI_Type_get_extent(type, &lower, &extent);
    return extent;
}

static int size_of(MPI_Datatype type)
{
    int size;

    MPI_Type_size(type, &size);
    return size;
}

/* The displacements ascend, with gaps: no byte occurs twice. */
static MPI_Datatype make_struct(struct messages *m, MPI_Datatype inner)
{
    MPI_Datatype types[4], made;
    MPI_Aint places[4], place = (MPI_Aint)below(m, 16);
    int lengths[4], count = 1 + (int)below(m, 4);

    for (int i = 0; i < count; i++) {
        types[i] = below(m, 2) ? inner : basic(m);
        lengths[i] = (int)below(m, 4);
        if (is_over_ofi && lengths[i] == 0)
            lengths[i] = 1;
        places[i] = place;
        place += lengths[i] * extent_of(types[i]) + (MPI_Aint)below(m, 24);
    }
    MPI_Type_create_struct(count, lengths, places, types, &made);
    return made;
}

static MPI_Datatype make_indexed(struct messages *m, MPI_Datatype inner)
{
    int lengths[12], places[12], count = 1 + (int)below(m, 12), place = (int)below(m, 3);
    MPI_Datatype made;

    for (int i = 0; i < count; i++) {
        lengths[i] = 1 + (int)below(m, 3);
        places[i] = place;
        place += lengths[i] + (int)below(m, 3);
    }
    MPI_Type_indexed(count, lengths, places, inner, &made);
    return made;
}

static MPI_Datatype make_subarray(struct messages *m, MPI_Datatype inner)
{
    int sizes[3], parts[3], from[3], dimensions = 1 + (int)below(m, 3);
    MPI_Datatype made;

    for (int i = 0; i < dimensions; i++) {
        sizes[i] = 1 + (int)below(m, 7);
        parts[i] = 1 + (int)below(m, (uint64_t)sizes[i]);
        from[i] = (int)below(m, (uint64_t)(sizes[i] - parts[i] + 1));
    }
    MPI_Type_create_subarray(dimensions, sizes, parts, from,
                             below(m, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner, &made);
    return made;
}

static MPI_Datatype make_resized(struct messages *m, MPI_Datatype inner)
{
    MPI_Aint lower, extent;
    MPI_Datatype made;

    MPI_Type_get_true_extent(inner, &lower, &extent);
    MPI_Type_create_resized(inner, 0, lower + extent + (MPI_Aint)below(m, 40), &made);
    return made;
}

static MPI_Datatype make_around(struct messages *m, MPI_Datatype inner)
{
    MPI_Datatype made;
    int count = 1 + (int)below(m, 9), length = 1 + (int)below(m, 4);

    switch (below(m, 6)) {
    case 0:
        MPI_Type_vector(count, length, length + (int)below(m, 5), inner, &made);
        return made;
    case 1:
        return make_indexed(m, inner);
    case 2:
        return make_struct(m, inner);
    case 3:
        return make_subarray(m, inner);
    case 4:
        MPI_Type_contiguous(count, inner, &made);
        return made;
    default:
        return make_resized(m, inner);
    }
}

/* Makes a datatype whose lower bounds are not negative, and which has some bytes.  It may have
 * no extent below 1, as Open MPI 5.0 gives some structs with empty members, because data_make()
 * divides by the extent. */
static MPI_Datatype make(struct messages *m)
{
    for (;;) {
        int depth = 1 + (int)below(m, DEPTH);
        MPI_Datatype type;

        MPI_Type_dup(basic(m), &type);
        for (int i = 0; i < depth && extent_of(type) < 40000; i++) {
            MPI_Datatype outer = make_around(m, type);

            MPI_Type_free(&type);
            type = outer;
        }
        if (size_of(type) != 0 && extent_of(type) > 0) {
            MPI_Type_commit(&type);
            return type;
        }
        MPI_Type_free(&type);
    }
}

/* ---- a message ---- */

/* A datatype, a number of its elements, and memory for them; `packed` has their bytes without
 * gaps. */
struct data {
    MPI_Datatype type;
    int count;
    size_t memory, size;
    unsigned char *bytes, *packed;
};

static void *take(size_t size)
{
    void *memory = malloc(size + 1);

    CHECK(memory != NULL);
    return memory;
}

static size_t memory_of(MPI_Datatype type, int count)
{
    MPI_Aint lower, extent;

    MPI_Type_get_true_extent(type, &lower, &extent);
    return (size_t)(lower + extent + extent_of(type) * (count - 1));
}

static void pack(const unsigned char *bytes, int count, MPI_Datatype type, unsigned char *to,
                 int size)
{
    MPI_Aint extent = extent_of(type);
    int position = 0;

    for (int i = 0; i < count; i++)
        MPI_Pack(bytes + i * extent, 1, type, to, size, &position, MPI_COMM_SELF);
    CHECK_EQUAL(position, size);
}

static void unpack(const unsigned char *from, int size, unsigned char *bytes, int count,
                   MPI_Datatype type)
{
    MPI_Aint extent = extent_of(type);
    int position = 0;

    for (int i = 0; i < count; i++)
        MPI_Unpack(from, size, &position, bytes + i * extent, 1, type, MPI_COMM_SELF);
}

/* Makes data, which is short in most cases; the same seed makes the same bytes. */
static struct data data_make(struct messages *m, unsigned seed)
{
    struct data d = {.type = make(m)};
    size_t most = (size_t)1 << below(m, 22);

    most = most < MOST ? most : MOST;
    d.count = 1 + (int)below(m, 1 + most / (size_t)extent_of(d.type));
    d.memory = memory_of(d.type, d.count);
    d.size = (size_t)size_of(d.type) * (size_t)d.count;
    d.bytes = take(d.memory);
    d.packed = take(d.size);
    pattern_fill(d.bytes, d.memory, seed);
    pack(d.bytes, d.count, d.type, d.packed, (int)d.size);
    return d;
}

static void data_free(struct data *d)
{
    MPI_Type_free(&d->type);
    free(d->bytes);
    free(d->packed);
}

/* Checks memory that was a pattern, and into which `count` elements of packed bytes were
 * received. */
static void check_unpacked(const struct data *d, const unsigned char *memory,
                           const unsigned char *packed, int count, unsigned seed)
{
    unsigned char *want = take(d->memory);

    pattern_fill(want, d->memory, seed);
    unpack(packed, (int)d->size, want, count, d->type);
    for (size_t i = 0; i < d->memory; i++)
        if (memory[i] != want[i])
            check_at(memory[i], want[i], "a byte of a derived datatype", __FILE__, (int)i);
    free(want);
}

static void check_count(MPI_Status *status, MPI_Datatype type, long long want)
{
    int count;

    MPI_Get_count(status, type, &count);
    CHECK_EQUAL(count, want);
}

static bool has_gap_in_front(MPI_Datatype type)
{
    MPI_Aint lower, extent;

    MPI_Type_get_true_extent(type, &lower, &extent);
    return lower != 0;
}

enum mode { SYNCHRONOUS, PERSISTENT, STANDARD };

/* is_taken_oddly: by a matched probe, or by a receive that is too short. */
static enum mode mode_of(struct messages *m, MPI_Datatype type, bool is_taken_oddly)
{
    const enum mode modes[] = {SYNCHRONOUS, PERSISTENT, STANDARD, STANDARD};
    enum mode mode = modes[below(m, 4)];

    if (is_over_ofi && ((mode == SYNCHRONOUS && is_taken_oddly) ||
                        (mode == PERSISTENT && has_gap_in_front(type))))
        return STANDARD;
    return mode;
}

/* Begins a send in one of the modes; MPI_Wait completes the request. */
static void begin(struct messages *m, bool is_taken_oddly, const void *buf, int count,
                  MPI_Datatype type, int tag, MPI_Request *request)
{
    switch (mode_of(m, type, is_taken_oddly)) {
    case SYNCHRONOUS:
        MPI_Issend(buf, count, type, m->right, tag, m->comm, request);
        break;
    case PERSISTENT:
        MPI_Send_init(buf, count, type, m->right, tag, m->comm, request);
        MPI_Start(request);
        break;
    case STANDARD:
        MPI_Isend(buf, count, type, m->right, tag, m->comm, request);
    }
}

static void end(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL)
        MPI_Request_free(request);
}

/* Receives by MPI_Recv, or by a matched probe. */
static void receive(struct messages *m, void *buf, int count, MPI_Datatype type, int tag,
                    MPI_Status *status)
{
    MPI_Message message;

    if (below(m, 3) != 0) {
        MPI_Recv(buf, count, type, below(m, 2) ? m->left : MPI_ANY_SOURCE, tag, m->comm,
                 status);
        return;
    }
    MPI_Mprobe(m->left, tag, m->comm, &message, status);
    MPI_Mrecv(buf, count, type, &message, status);
}

/* A datatype is sent, and received as bytes. */
static void is_packed(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    unsigned char *got = take(d.size);
    MPI_Request request;
    MPI_Status status;

    begin(m, true, d.bytes, d.count, d.type, tag, &request);
    receive(m, got, (int)d.size, MPI_PACKED, tag, &status);
    check_count(&status, MPI_PACKED, (long long)d.size);
    CHECK(memcmp(got, d.packed, d.size) == 0);
    end(&request);
    free(got);
    data_free(&d);
}

/* Bytes are sent, and received into a datatype, which is freed while they are under way. */
static void is_unpacked(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    unsigned char *got = take(d.memory);
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    pattern_fill(got, d.memory, 1000);
    MPI_Type_dup(d.type, &type);
    MPI_Irecv(got, d.count, type, m->left, tag, m->comm, &requests[0]);
    MPI_Type_free(&type);
    begin(m, false, d.packed, (int)d.size, MPI_PACKED, tag, &requests[1]);
    MPI_Wait(&requests[0], &statuses[0]);
    check_count(&statuses[0], d.type, d.count);
    check_unpacked(&d, got, d.packed, d.count, 1000);
    end(&requests[1]);
    free(got);
    data_free(&d);
}

/* A window of messages from the datatype to the same one. */
static void is_both(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    MPI_Request out[WINDOW], in[WINDOW];
    unsigned char *got[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        got[i] = take(d.memory);
        pattern_fill(got[i], d.memory, 2000 + (unsigned)i);
        MPI_Irecv(got[i], d.count, d.type, m->left, tag, m->comm, &in[i]);
    }
    for (int i = 0; i < WINDOW; i++)
        begin(m, false, d.bytes, d.count, d.type, tag, &out[i]);
    MPI_Waitall(WINDOW, in, MPI_STATUSES_IGNORE);
    for (int i = 0; i < WINDOW; i++) {
        check_unpacked(&d, got[i], d.packed, d.count, 2000 + (unsigned)i);
        free(got[i]);
        end(&out[i]);
    }
    data_free(&d);
}

/* The receive has space for some of the elements. */
static void is_short(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    unsigned char *got = take(d.memory);
    int capacity = (int)below(m, (uint64_t)d.count);
    MPI_Request request;
    MPI_Status status;
    int err;

    pattern_fill(got, d.memory, 3000);
    begin(m, true, d.bytes, d.count, d.type, tag, &request);
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
    err = MPI_Recv(got, capacity, d.type, m->left, tag, m->comm, &status);
    MPI_Error_class(err, &err);
    CHECK_EQUAL(err, MPI_ERR_TRUNCATE);
    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_ARE_FATAL);
    if (keeps_what_fits)
        check_unpacked(&d, got, d.packed, capacity, 3000);
    end(&request);
    free(got);
    data_free(&d);
}

/* Cancels a receive of a datatype that matches no message. */
static void is_cancelled(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    MPI_Request request;
    MPI_Status status;
    int flag;

    MPI_Irecv(d.bytes, d.count, d.type, m->left, tag, m->comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    check_unpacked(&d, d.bytes, d.packed, 0, (unsigned)tag);
    data_free(&d);
}

static void is_buffered(struct messages *m, int tag)
{
    struct data d = data_make(m, (unsigned)tag);
    int size = (int)d.size + MPI_BSEND_OVERHEAD;
    void *memory = take((size_t)size);
    unsigned char *got = take(d.size);

    MPI_Buffer_attach(memory, size);
    MPI_Bsend(d.bytes, d.count, d.type, m->right, tag, m->comm);
    memset(d.bytes, 0, d.memory);
    MPI_Recv(got, (int)d.size, MPI_PACKED, m->left, tag, m->comm, MPI_STATUS_IGNORE);
    CHECK(memcmp(got, d.packed, d.size) == 0);
    MPI_Buffer_detach(&memory, &size);
    free(memory);
    free(got);
    data_free(&d);
}

/* ---- all ---- */

static void *all(void *arg)
{
    struct messages *m = arg;

    for (int i = 0; i < rounds; i++) {
        is_packed(m, 10 * i);
        is_unpacked(m, 10 * i + 1);
        is_both(m, 10 * i + 2);
        is_short(m, 10 * i + 3);
        is_cancelled(m, 10 * i + 4);
        if (!has_threads) /* a process has only one attached buffer */
            is_buffered(m, 10 * i + 5);
    }
    return NULL;
}

#define THREADS 3

static void all_threads(uint64_t seed)
{
    struct messages m[THREADS];
    pthread_t threads[THREADS];
    int count = has_threads ? THREADS : 1;

    for (int i = 0; i < count; i++) {
        m[i] = (struct messages){.chance = seed + (uint64_t)i * 1000003,
                                 .left = (rank + ranks - 1) % ranks,
                                 .right = (rank + 1) % ranks};
        MPI_Comm_dup(MPI_COMM_WORLD, &m[i].comm);
    }
    if (!has_threads)
        all(&m[0]);
    for (int i = 0; has_threads && i < count; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, all, &m[i]), 0);
    for (int i = 0; has_threads && i < count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        MPI_Comm_free(&m[i].comm);
}

/* Reads the options at the beginning of the command line.  Returns their number. */
static int take_options(int argc, char **argv)
{
    int taken = 0;

    for (; taken + 1 < argc && strncmp(argv[taken + 1], "--", 2) == 0; taken++) {
        has_threads |= strcmp(argv[taken + 1], "--threads") == 0;
        keeps_what_fits |= strcmp(argv[taken + 1], "--kept") == 0;
        is_over_ofi |= strcmp(argv[taken + 1], "--over-ofi") == 0;
    }
    return taken;
}

/* Does MPI_Get_elements() count the elements of a struct of a pair and an int? */
static bool counts_pairs(void)
{
    MPI_Datatype types[2] = {MPI_DOUBLE_INT, MPI_INT}, made;
    MPI_Aint places[2] = {0, 2 * extent_of(MPI_DOUBLE_INT)};
    int lengths[2] = {1, 1}, elements;
    MPI_Status status;

    memset(&status, 0, sizeof status);
    MPI_Type_create_struct(2, lengths, places, types, &made);
    MPI_Type_commit(&made);
    MPI_Status_set_elements(&status, MPI_BYTE, size_of(made));
    MPI_Get_elements(&status, made, &elements);
    MPI_Type_free(&made);
    return elements == 3;
}

int main(int argc, char **argv)
{
    int options = take_options(argc, argv), given;
    uint64_t seed = (uint64_t)time(NULL);

    argc -= options;
    argv += options;
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    if (argc > 2)
        rounds = atoi(argv[2]);
    MPI_Init_thread(NULL, NULL, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("datatypes: seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
    has_no_pairs = is_over_ofi && !counts_pairs();
    if (rank == 0 && has_no_pairs)
        printf("datatypes: without MPI_DOUBLE_INT, of which MPI_Get_elements counts nothing in "
               "a struct\n");
    all_threads(seed);
    return finish("datatypes");
}
