/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app_amr.c - the message pattern of a code with adaptive mesh refinement.
 *
 *   +-------+---+---+      A square of blocks.  Each block that a moving circle crosses is
 *   |       | 4 | 5 |      split into four, repeatedly.  The leaves, along a Morton curve,
 *   |   0   +---+---+      are distributed to the ranks in equal parts.  In each step every
 *   |       | 6 | 7 |      leaf sends each of its fields to every adjacent leaf.
 *   +-------+---+---+
 *
 * Properties that matter for matching
 *   many tags     each field of each link (from leaf, to leaf) has its own tag
 *   other order   receives are posted in the order of the receiver's leaves, messages are
 *                 sent in a new random order in each step
 *   new partners  a regrid changes leaves, owners and links; leaves move to new owners;
 *                 in the first step, messages from new leaves are received from
 *                 ANY_SOURCE
 *
 * Self-check  Every rank also computes the whole mesh without messages.  The content of every
 *             message, and at each regrid the sum over the job, must agree with that.
 *
 * No message of another regrid can match a receive of this one, though tags are reused:
 * the sum over the job separates them.
 */
#include "app.h"

#define FACES 4

static long roots = 8, levels = 2, cells = 8, fields = 4, steps = 20, regrid = 4, seed = 1;

static const struct app_option options[] = {
    {"--roots", "blocks along each side of the square, unrefined", 1, 64, &roots},
    {"--levels", "how often a block may be split", 0, 4, &levels},
    {"--cells", "numbers in a message", 1, 1 << 16, &cells},
    {"--fields", "messages per link and step", 1, 1024, &fields},
    {"--steps", "steps", 1, 1000000, &steps},
    {"--regrid", "steps between two regrids", 1, 1000000, &regrid},
    {"--seed", "of the orders in which messages are sent", 0, 1000000000, &seed},
};

static const char about[] = "Adaptive mesh refinement: blocks exchange their faces under many "
                            "tags, and change\nneighbours and owners as the mesh does.\n";

struct leaf {
    int level, x, y; /* level, and position in units of its level */
    int owner;
    int is_new;     /* did not exist before the last regrid */
    uint64_t value; /* as computed without messages */
};

/* Two adjacent leaves: `from` sends to `to`. */
struct link {
    int from, to;
    int tag; /* of its first field; unique at the receiving rank */
};

/* The mesh, equal on every rank. */
struct mesh {
    struct leaf *leaves;
    int count;
    int *cover; /* finest cell -> the leaf that covers it */
    struct link *links;
    int link_count;
};

static MPI_Comm moving; /* for leaves that change their owner */
static int fine;        /* finest cells along a side */

/* ---- the mesh ---- */

/* Does the circle of this step cross the square of `size` finest cells at (x, y)? */
static int crosses(int x, int y, int size, long step)
{
    long c = fine / 2, r = fine / 8 + step % (fine / 2 + 1);
    long nx = x > c ? x - c : x + size < c ? c - x - size : 0;
    long ny = y > c ? y - c : y + size < c ? c - y - size : 0;
    long fx = labs(x - c) > labs(x + size - c) ? labs(x - c) : labs(x + size - c);
    long fy = labs(y - c) > labs(y + size - c) ? labs(y - c) : labs(y + size - c);

    return nx * nx + ny * ny <= r * r && r * r <= fx * fx + fy * fy;
}

static void mesh_add(struct mesh *mesh, int level, int x, int y, long step)
{
    int size = fine / (int)roots >> level;

    if (level < levels && crosses(x * size, y * size, size, step)) {
        for (int child = 0; child < 4; child++)
            mesh_add(mesh, level + 1, 2 * x + child % 2, 2 * y + child / 2, step);
        return;
    }
    for (int i = 0; i < size * size; i++)
        mesh->cover[(y * size + i / size) * fine + x * size + i % size] = mesh->count;
    mesh->leaves[mesh->count++] = (struct leaf){.level = level, .x = x, .y = y};
}

/* Adds the root blocks along the Morton curve. */
static void mesh_add_roots(struct mesh *mesh, int x, int y, int size, long step)
{
    if (x >= roots || y >= roots)
        return;
    if (size == 1) {
        mesh_add(mesh, 0, x, y, step);
        return;
    }
    for (int i = 0; i < 4; i++)
        mesh_add_roots(mesh, x + i % 2 * size / 2, y + i / 2 * size / 2, size / 2, step);
}

/* The leaf beyond the k-th finest cell of a face; opposite sides of the square are connected (a
 * torus). */
static int beyond(const struct mesh *mesh, const struct leaf *leaf, int face, int k)
{
    int size = fine / (int)roots >> leaf->level;
    int x = leaf->x * size + (face == 0 ? -1 : face == 1 ? size : k);
    int y = leaf->y * size + (face == 2 ? -1 : face == 3 ? size : k);

    return mesh->cover[(y + fine) % fine * fine + (x + fine) % fine];
}

/* Links each leaf with all leaves beyond its faces, except itself. */
static void mesh_link(struct mesh *mesh)
{
    int *next_tag = app_alloc((size_t)ranks, sizeof *next_tag);

    for (int to = 0; to < mesh->count; to++) {
        const struct leaf *leaf = &mesh->leaves[to];
        int size = fine / (int)roots >> leaf->level;

        for (int at = 0, last = -1; at < FACES * size; at++) {
            int from = beyond(mesh, leaf, at / size, at % size);

            if ((from == last && at % size != 0) || from == to)
                continue;
            mesh->links[mesh->link_count++] = (struct link){from, to, next_tag[leaf->owner]};
            next_tag[leaf->owner] += (int)fields;
            last = from;
        }
    }
    free(next_tag);
}

static struct mesh *mesh_make(long step)
{
    struct mesh *mesh = app_alloc(1, sizeof *mesh);
    size_t most = (size_t)fine * (size_t)fine;
    int side = 1;

    while (side < roots)
        side *= 2;
    mesh->leaves = app_alloc(most, sizeof *mesh->leaves);
    mesh->cover = app_alloc(most, sizeof *mesh->cover);
    mesh->links = app_alloc(FACES * most, sizeof *mesh->links);
    mesh_add_roots(mesh, 0, 0, side, step);
    for (int i = 0; i < mesh->count; i++)
        mesh->leaves[i].owner = (int)((long)i * ranks / mesh->count);
    mesh_link(mesh);
    return mesh;
}

static void mesh_free(struct mesh *mesh)
{
    free(mesh->leaves);
    free(mesh->cover);
    free(mesh->links);
    free(mesh);
}

/* ---- what the cells hold ---- */

static void cells_fill(uint64_t *out, uint64_t value, int link, long field)
{
    out[0] = value;
    for (long i = 1; i < cells; i++)
        out[i] = app_mix(value, (uint64_t)(link * fields + field) * 65536 + (uint64_t)i);
}

static void cells_check(const uint64_t *in, uint64_t value, int link, long field)
{
    CHECK_EQUAL(in[0], value);
    for (long i = 1; i < cells; i++)
        CHECK_EQUAL(in[i],
                    app_mix(value, (uint64_t)(link * fields + field) * 65536 + (uint64_t)i));
}

/* ---- one step ---- */

/* The fields of some links, and their requests. */
struct batch {
    int *of; /* link * fields + field */
    MPI_Request *requests;
    uint64_t *memory;
    int count;
};

/* Chooses the fields that this rank receives, or sends. */
static void batch_choose(struct batch *batch, const struct mesh *mesh, int receives)
{
    batch->count = 0;
    for (int l = 0; l < mesh->link_count; l++) {
        int from = mesh->leaves[mesh->links[l].from].owner;
        int to = mesh->leaves[mesh->links[l].to].owner;

        if (from == to || (receives ? to : from) != rank)
            continue;
        for (int f = 0; f < fields; f++)
            batch->of[batch->count++] = l * (int)fields + f;
    }
}

static void batch_make(struct batch *batch, const struct mesh *mesh, int receives)
{
    batch->of = app_alloc((size_t)mesh->link_count * (size_t)fields, sizeof *batch->of);
    batch_choose(batch, mesh, receives);
    batch->requests = app_alloc((size_t)batch->count, sizeof(MPI_Request));
    batch->memory = app_alloc((size_t)batch->count * (size_t)cells, sizeof *batch->memory);
}

static void batch_free(struct batch *batch)
{
    free(batch->of);
    free(batch->requests);
    free(batch->memory);
}

static uint64_t *batch_cells(const struct batch *batch, int i)
{
    return batch->memory + (size_t)i * (size_t)cells;
}

static void batch_shuffle(struct batch *batch, uint64_t *random)
{
    for (int i = batch->count - 1; i > 0; i--) {
        int other = (int)(next_random(random) % (unsigned)(i + 1)), of = batch->of[i];

        batch->of[i] = batch->of[other];
        batch->of[other] = of;
    }
}

static void post_receives(struct batch *in, const struct mesh *mesh, int is_first)
{
    for (int i = 0; i < in->count; i++) {
        const struct link *link = &mesh->links[in->of[i] / fields];
        const struct leaf *from = &mesh->leaves[link->from];

        MPI_Irecv(batch_cells(in, i), (int)cells, MPI_UINT64_T,
                  is_first && from->is_new ? MPI_ANY_SOURCE : from->owner,
                  link->tag + in->of[i] % (int)fields, MPI_COMM_WORLD, &in->requests[i]);
    }
}

static void send_fields(struct batch *out, const struct mesh *mesh, const uint64_t *mine)
{
    for (int i = 0; i < out->count; i++) {
        int l = out->of[i] / (int)fields, field = out->of[i] % (int)fields;
        const struct link *link = &mesh->links[l];

        cells_fill(batch_cells(out, i), mine[link->from], l, field);
        MPI_Isend(batch_cells(out, i), (int)cells, MPI_UINT64_T, mesh->leaves[link->to].owner,
                  link->tag + field, MPI_COMM_WORLD, &out->requests[i]);
    }
}

/* One exchange.  `mine` has the values of this rank's leaves; the value that link l delivers is
 * stored in `beside[l]`. */
static void exchange(const struct mesh *mesh, const uint64_t *mine, uint64_t *beside,
                     int is_first, uint64_t *random)
{
    struct batch in, out;

    batch_make(&in, mesh, 1);
    batch_make(&out, mesh, 0);
    batch_shuffle(&out, random);
    post_receives(&in, mesh, is_first);
    send_fields(&out, mesh, mine);
    for (int l = 0; l < mesh->link_count; l++)
        beside[l] = mine[mesh->links[l].from]; /* links within this rank */
    MPI_Waitall(in.count, in.requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < in.count; i++) {
        int l = in.of[i] / (int)fields;

        cells_check(batch_cells(&in, i), mesh->leaves[mesh->links[l].from].value, l,
                    in.of[i] % fields);
        beside[l] = batch_cells(&in, i)[0];
    }
    MPI_Waitall(out.count, out.requests, MPI_STATUSES_IGNORE);
    batch_free(&in);
    batch_free(&out);
}

/* Computes the next value of every leaf from its own and the adjacent values. */
static void advance(const struct mesh *mesh, uint64_t *values, const uint64_t *beside)
{
    for (int l = 0; l < mesh->link_count; l++)
        values[mesh->links[l].to] = app_mix(values[mesh->links[l].to], beside[l]);
}

/* A step: with messages for this rank's leaves, and without for all leaves. */
static void do_step(struct mesh *mesh, uint64_t *mine, int is_first, uint64_t *random)
{
    uint64_t *beside = app_alloc((size_t)mesh->link_count, sizeof *beside);
    uint64_t *all = app_alloc((size_t)mesh->count, sizeof *all);

    exchange(mesh, mine, beside, is_first, random);
    advance(mesh, mine, beside);
    for (int i = 0; i < mesh->count; i++)
        all[i] = mesh->leaves[i].value;
    for (int l = 0; l < mesh->link_count; l++)
        beside[l] = mesh->leaves[mesh->links[l].from].value;
    advance(mesh, all, beside);
    for (int i = 0; i < mesh->count; i++) {
        mesh->leaves[i].value = all[i];
        if (mesh->leaves[i].owner == rank)
            CHECK_EQUAL(mine[i], all[i]);
    }
    free(beside);
    free(all);
}

/* ---- regrid ---- */

/* Compares the sum over the job with the sum computed without messages. */
static void check_sum(const struct mesh *mesh, const uint64_t *mine)
{
    uint64_t own = 0, sum, want = 0;

    for (int i = 0; i < mesh->count; i++) {
        own += mesh->leaves[i].owner == rank ? mine[i] : 0;
        want += mesh->leaves[i].value;
    }
    MPI_Allreduce(&own, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, want);
}

/* A part of an old leaf in a new one. */
struct piece {
    int from, to;
    MPI_Request request;
    uint64_t value;
};

/* Lists all pieces, in an order common to all ranks; returns their number. */
static int find_pieces(const struct mesh *old, const struct mesh *new, struct piece *pieces)
{
    int count = 0;

    for (int to = 0; to < new->count; to++) {
        const struct leaf *leaf = &new->leaves[to];
        int size = fine / (int)roots >> leaf->level, last = -1;

        for (int i = 0; i < size * size; i++) {
            int from =
                old->cover[(leaf->y * size + i / size) * fine + leaf->x * size + i % size];
            const struct leaf *was = &old->leaves[from];

            /* the corner of a piece: of the old leaf, or of the new one within it */
            if (i != 0 &&
                (was->level <= leaf->level || from == last ||
                 was->x * (fine / (int)roots >> was->level) != leaf->x * size + i % size ||
                 was->y * (fine / (int)roots >> was->level) != leaf->y * size + i / size))
                continue;
            last = from;
            pieces[count++] = (struct piece){.from = from, .to = to};
        }
    }
    return count;
}

static uint64_t piece_value(const struct leaf *old, const struct leaf *new, uint64_t value)
{
    return old->level == new->level
               ? value
               : app_mix(value, (uint64_t) new->x * 4096 + (uint64_t) new->y);
}

/* Sends and receives the pieces whose owner changes, from any source. */
static void move_pieces(const struct mesh *old, const struct mesh *new, struct piece *pieces,
                        int count, const uint64_t *mine)
{
    for (int i = 0; i < count; i++) {
        int from = old->leaves[pieces[i].from].owner, to = new->leaves[pieces[i].to].owner;

        pieces[i].request = MPI_REQUEST_NULL;
        if (to == rank && from != rank)
            MPI_Irecv(&pieces[i].value, 1, MPI_UINT64_T, MPI_ANY_SOURCE, i, moving,
                      &pieces[i].request);
    }
    for (int i = count - 1; i >= 0; i--) {
        int from = old->leaves[pieces[i].from].owner, to = new->leaves[pieces[i].to].owner;

        if (from != rank)
            continue;
        pieces[i].value = mine[pieces[i].from];
        if (to != rank)
            MPI_Isend(&pieces[i].value, 1, MPI_UINT64_T, to, i, moving, &pieces[i].request);
    }
    for (int i = 0; i < count; i++)
        MPI_Wait(&pieces[i].request, MPI_STATUS_IGNORE);
}

/* Computes the values of the new leaves from the pieces that this rank has received, and of all
 * leaves without messages. */
static uint64_t *join_pieces(const struct mesh *old, struct mesh *new,
                             const struct piece *pieces, int count)
{
    uint64_t *mine = app_alloc((size_t) new->count, sizeof *mine);

    for (int i = 0; i < count; i++) {
        const struct leaf *was = &old->leaves[pieces[i].from];
        struct leaf *leaf = &new->leaves[pieces[i].to];
        int is_one = was->level <= leaf->level; /* the only piece of its leaf */
        uint64_t value = piece_value(was, leaf, was->value);

        leaf->is_new = was->level != leaf->level;
        leaf->value = is_one ? value : app_mix(leaf->value, value);
        if (leaf->owner != rank)
            continue;
        CHECK_EQUAL(pieces[i].value, was->value);
        value = piece_value(was, leaf, pieces[i].value);
        mine[pieces[i].to] = is_one ? value : app_mix(mine[pieces[i].to], value);
    }
    return mine;
}

static void do_regrid(struct mesh **mesh, uint64_t **mine, long step)
{
    struct mesh *old = *mesh, *new = mesh_make(step);
    struct piece *pieces = app_alloc((size_t)fine * (size_t)fine, sizeof *pieces);
    uint64_t *values;
    int count;

    check_sum(old, *mine);
    count = find_pieces(old, new, pieces);
    move_pieces(old, new, pieces, count, *mine);
    values = join_pieces(old, new, pieces, count);
    free(pieces);
    free(*mine);
    mesh_free(old);
    *mesh = new;
    *mine = values;
}

/* ---- the program ---- */

/* Checks that MPI has enough tags for the largest possible number of fields. */
static void check_tags(void)
{
    long want = FACES * fields * fine * fine;
    int *most, found;

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    if (!found || want <= *most)
        return;
    if (rank == 0)
        fprintf(stderr,
                "app_amr: up to %ld tags, and this MPI has %d: fewer --roots, --levels "
                "or --fields, please\n",
                want, *most);
    MPI_Finalize();
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t random, *mine;
    struct mesh *mesh;

    app_start(argc, argv, "app_amr", about, options, sizeof options / sizeof options[0]);
    fine = (int)roots << levels;
    check_tags();
    MPI_Comm_dup(MPI_COMM_WORLD, &moving);
    random = (uint64_t)seed * 1000003 + (uint64_t)rank;
    mesh = mesh_make(0);
    mine = app_alloc((size_t)mesh->count, sizeof *mine);
    for (int i = 0; i < mesh->count; i++)
        mine[i] = mesh->leaves[i].value = app_mix((uint64_t)seed, (uint64_t)i);
    for (long step = 0; step < steps; step++) {
        if (step != 0 && step % regrid == 0)
            do_regrid(&mesh, &mine, step);
        do_step(mesh, mine, step % regrid == 0, &random);
    }
    check_sum(mesh, mine);
    if (rank == 0)
        printf("app_amr leaves=%d links=%d fields=%ld steps=%ld\n", mesh->count,
               mesh->link_count, fields, steps);
    free(mine);
    mesh_free(mesh);
    MPI_Comm_free(&moving);
    return finish("app_amr");
}
