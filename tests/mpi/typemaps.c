/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * typemaps.c - random datatypes of every shape, compared with the map of their bytes by MPI's
 * rules.
 *
 * Each datatype is made together with its typemap: the displacement of each of its bytes, in
 * their order.  So only extents come from the MPI library, and MPI_Pack() is not trusted.
 * Displacements and bounds may be negative, descend, and occur twice (such a datatype is only
 * sent); members may be empty; extents may be shorter than the bytes; the buffer may be
 * MPI_BOTTOM.
 *
 * The test makes no negative extents, no vectors whose blocks go back by their length or less,
 * and no vectors with a stride of -1 byte, which Open MPI takes for 0 if the elements have no
 * extent: Open MPI 4.1 and 5.0 describe some of these wrong, and ob1 also sends other bytes
 * than MPI's rules define.
 *
 *   rank 0            rank 1
 *   datatype   ──>    bytes        compared with the typemap
 *   bytes      ──>    datatype     compared, also the memory between the bytes
 *
 * usage: typemaps [SEED [ROUNDS]]
 */
#include "check.h"

#include <time.h>

#define MOST_BYTES    400   /* in one element */
#define MOST_MEMORY   65536 /* of a message, on both sides of the address of its buffer */
#define MOST_ELEMENTS 40
#define LEAST_EXTENT  0

struct shape {
    MPI_Datatype type;
    int size;
    long places[MOST_BYTES];
    long extent;
};

static uint64_t chance;

static long between(long least, long most)
{
    return least + (long)(next_random(&chance) % (unsigned)(most - least + 1));
}

/* ---- shapes ---- */

/* Bytes have no alignment, which would lengthen extents in ways that MPI leaves open. */
static struct shape shape_basic(void)
{
    struct shape s = {.size = between(0, 1) ? 1 : 4};

    s.extent = s.size;
    for (int i = 0; i < s.size; i++)
        s.places[i] = i;
    MPI_Type_contiguous(s.size, MPI_BYTE, &s.type);
    return s;
}

/* Adds `count` elements of `inner`, the first at `place`.  False: too many bytes. */
static bool shape_add(struct shape *s, const struct shape *inner, long place, int count)
{
    if (s->size + count * inner->size > MOST_BYTES)
        return false;
    for (int n = 0; n < count; n++)
        for (int i = 0; i < inner->size; i++)
            s->places[s->size++] = place + n * inner->extent + inner->places[i];
    return true;
}

static bool make_contiguous(struct shape *s, const struct shape *inner)
{
    int count = (int)between(0, 5);

    MPI_Type_contiguous(count, inner->type, &s->type);
    return shape_add(s, inner, 0, count);
}

static bool make_vector(struct shape *s, const struct shape *inner)
{
    int count = (int)between(1, 5), length = (int)between(1, 3);
    MPI_Aint stride = (MPI_Aint)between(-60, 60);
    bool is_right = true;

    if (-stride <= length * inner->extent || stride == -1)
        stride = stride < 0 ? -stride : stride; /* see above */

    for (int i = 0; is_right && i < count; i++)
        is_right = shape_add(s, inner, i * (long)stride, length);
    MPI_Type_create_hvector(count, length, stride, inner->type, &s->type);
    return is_right;
}

static bool make_indexed(struct shape *s, const struct shape *inner)
{
    int lengths[5], count = (int)between(1, 5);
    MPI_Aint places[5];
    bool is_right = true;

    for (int i = 0; i < count; i++) {
        lengths[i] = (int)between(0, 3);
        places[i] = (MPI_Aint)between(-60, 60);
        is_right = is_right && shape_add(s, inner, (long)places[i], lengths[i]);
    }
    MPI_Type_create_hindexed(count, lengths, places, inner->type, &s->type);
    return is_right;
}

static bool make_struct(struct shape *s, const struct shape *inner)
{
    struct shape other = shape_basic();
    MPI_Datatype types[4];
    int lengths[4], count = (int)between(1, 4);
    MPI_Aint places[4];
    bool is_right = true;

    for (int i = 0; i < count; i++) {
        const struct shape *member = between(0, 1) ? inner : &other;

        types[i] = member->type;
        lengths[i] = (int)between(0, 2);
        places[i] = (MPI_Aint)between(-50, 50);
        is_right = is_right && shape_add(s, member, (long)places[i], lengths[i]);
    }
    MPI_Type_create_struct(count, lengths, places, types, &s->type);
    MPI_Type_free(&other.type);
    return is_right;
}

static bool make_resized(struct shape *s, const struct shape *inner)
{
    MPI_Aint lower = (MPI_Aint)between(-20, 20), extent = (MPI_Aint)between(LEAST_EXTENT, 90);

    MPI_Type_create_resized(inner->type, lower, extent, &s->type);
    return shape_add(s, inner, 0, 1);
}

static bool make_around(struct shape *s, const struct shape *inner)
{
    memset(s, 0, sizeof *s);
    switch (between(0, 4)) {
    case 0:
        return make_contiguous(s, inner);
    case 1:
        return make_vector(s, inner);
    case 2:
        return make_indexed(s, inner);
    case 3:
        return make_struct(s, inner);
    default:
        return make_resized(s, inner);
    }
}

static struct shape make(void)
{
    struct shape s = shape_basic(), outer;
    long depth = between(1, 5);
    bool is_right = true;
    MPI_Aint lower, extent;

    for (long i = 0; is_right && i < depth; i++) {
        is_right = make_around(&outer, &s);
        MPI_Type_free(is_right ? &s.type : &outer.type);
        if (is_right) {
            MPI_Type_get_extent(outer.type, &lower, &extent);
            s = outer;
            s.extent = (long)extent;
        }
    }
    MPI_Type_commit(&s.type);
    return s;
}

/* ---- messages ---- */

static unsigned char memory[2 * MOST_MEMORY], want[2 * MOST_MEMORY];

static long place_of(const struct shape *s, long element, int byte)
{
    return MOST_MEMORY + element * s->extent + s->places[byte];
}

/* Do this many elements lie in the memory? *is_apart: has each byte a place of its own? */
static bool lies_there(const struct shape *s, long count, bool *is_apart)
{
    memset(want, 0, sizeof want);
    *is_apart = true;
    for (long e = 0; e < count; e++)
        for (int i = 0; i < s->size; i++) {
            long place = place_of(s, e, i);

            if (place < 0 || place >= 2 * MOST_MEMORY)
                return false;
            *is_apart &= want[place]++ == 0;
        }
    return true;
}

/* Returns the buffer and the datatype for the send: either these, or the same bytes relative to
 * MPI_BOTTOM. */
static void *begin(const struct shape *s, MPI_Datatype *type)
{
    void *buf = memory + MOST_MEMORY;
    int one = 1;
    MPI_Aint address;

    if (between(0, 3) != 0) {
        MPI_Type_dup(s->type, type);
        return buf;
    }
    MPI_Get_address(buf, &address);
    MPI_Type_create_hindexed(1, &one, &address, s->type, type);
    MPI_Type_commit(type);
    return MPI_BOTTOM;
}

static void send_shape(const struct shape *s, long count, int tag)
{
    MPI_Datatype type;
    void *buf = begin(s, &type);
    MPI_Request request;

    pattern_fill(memory, sizeof memory, (unsigned)tag);
    MPI_Isend(buf, (int)count, type, 1, tag, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void receive_bytes(const struct shape *s, long count, int tag)
{
    unsigned char *got = memory;
    long bytes = count * s->size;

    between(0, 3);
    memset(got, 0, (size_t)bytes + 1);
    MPI_Recv(got, (int)bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long e = 0; e < count; e++)
        for (int i = 0; i < s->size; i++) {
            size_t place = (size_t)place_of(s, e, i);

            check_at(got[e * s->size + i], pattern_at(place, (unsigned)tag),
                     "a byte that was sent", __FILE__, (int)(e * s->size + i));
        }
}

static void send_bytes(const struct shape *s, long count, int tag)
{
    between(0, 3);
    pattern_fill(memory, (size_t)(count * s->size), (unsigned)tag);
    MPI_Send(memory, (int)(count * s->size), MPI_BYTE, 1, tag, MPI_COMM_WORLD);
}

static void receive_shape(const struct shape *s, long count, int tag)
{
    MPI_Datatype type;
    void *buf = begin(s, &type);
    MPI_Request request;

    pattern_fill(memory, sizeof memory, 9);
    memcpy(want, memory, sizeof want);
    for (long e = 0; e < count; e++)
        for (int i = 0; i < s->size; i++)
            want[place_of(s, e, i)] = pattern_at((size_t)(e * s->size + i), (unsigned)tag);
    MPI_Irecv(buf, (int)count, type, 0, tag, MPI_COMM_WORLD, &request);
    MPI_Type_free(&type);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * MOST_MEMORY; i++)
        check_at(memory[i], want[i], "a byte around one that was received", __FILE__,
                 i - MOST_MEMORY);
}

static void one_round(int tag)
{
    struct shape s = make();
    long count = between(0, 3) ? between(0, 5) : between(0, MOST_ELEMENTS);
    bool is_apart;

    if (lies_there(&s, count, &is_apart)) {
        if (rank == 0)
            send_shape(&s, count, tag);
        else if (rank == 1)
            receive_bytes(&s, count, tag);
        if (is_apart && rank == 0)
            send_bytes(&s, count, tag + 1);
        else if (is_apart && rank == 1)
            receive_shape(&s, count, tag + 1);
    }
    MPI_Type_free(&s.type);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    int rounds = argc > 2 ? atoi(argv[2]) : 500;

    start(&argc, &argv);
    MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("typemaps: seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
    for (int i = 0; i < rounds; i++) {
        chance = seed + (uint64_t)i * 1000003;
        one_round(2 * i);
    }
    return finish("typemaps");
}
