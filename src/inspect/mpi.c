/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.c - the layouts of the known MPI libraries, a row each.
 *
 * Through the component: context id = communicator, tag = MPI's in the lower 32 bits, and above them the generation of
 * the communicator (pml/generation.c).
 *
 * Through the provider, whose bit 63 says that a message has data (provider/envelope.h):
 *
 *   Open MPI, with remote CQ data    0-31 tag    32-33 protocol    34-62 communicator
 *   MPICH, with remote CQ data       0-30 tag    31-50 communicator    51- protocol
 *
 * Through libucp, whose context id 1 is for tags, and 2 for active messages (ucp/door.h):
 *
 *   MPICH        0-28 tag    29-30 errors, which no receive compares    32-47 sender's rank    48-63 communicator
 *
 * In MPICH's communicator, bit 0 is set for a collective, bits 1 and 2 select ranks of each
 * node, bit 3 is the local group of an intercommunicator, and the rest is the number.  When
 * some ranks make a communicator with messages on another one (MPI_Comm_create_group,
 * MPI_Intercomm_create), the tag is the program's, or 0, with an additional bit
 * (MPIR_TAG_COLL_BIT).
 */
#include "inspect/mpi.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT_TAGGED   1u /* provider/envelope.h, ucp/door.h */
#define CONTEXT_MESSAGES 2u /* ucp/door.h */

/* The bits that a receive with MPI_ANY_TAG ignores, of every MPI: MPICH's over libucp has no others. */
#define ANY_TAG 0x0fffffffu

enum family { OPEN_MPI, MPICH };

/* Where what is in a tag of the provider, or of libucp. */
struct fields {
    unsigned tag_bits, communicator_at, communicator_bits, protocol_at, protocol_bits;
    unsigned source_at, source_bits;
};

static const struct fields component = {.tag_bits = 32};
static const struct fields provider_open_mpi = {.tag_bits = 32,
                                                .communicator_at = 34,
                                                .communicator_bits = 29,
                                                .protocol_at = 32,
                                                .protocol_bits = 2};
static const struct fields provider_mpich = {.tag_bits = 31,
                                             .communicator_at = 31,
                                             .communicator_bits = 20,
                                             .protocol_at = 51,
                                             .protocol_bits = 12};
static const struct fields ucp_mpich = {.tag_bits = 29,
                                        .communicator_at = 48,
                                        .communicator_bits = 16,
                                        .source_at = 32,
                                        .source_bits = 16};

struct inspect_layout {
    const char *way;
    enum family family;
    unsigned first, last; /* versions, as 100 * major + minor */
    const struct fields *fields;
    unsigned synchronous, acknowledgement; /* bits of the protocol; 0: not known */
    /* the tag of the first nonblocking collective; later ones are below it, in MPICH above; 0:
     * not known */
    int32_t nonblocking;
    int32_t group; /* the bit of the tag when some ranks make a communicator; 0: not known */
};

/* MPICH 4.1 has other bits of the protocol than the versions before and after. */
static const struct inspect_layout layouts[] = {
    {"component", OPEN_MPI, 401, 499, &component, 0, 0, -27, 0},
    {"component", OPEN_MPI, 500, 599, &component, 0, 0, -33, 0},
    {"provider", OPEN_MPI, 400, 499, &provider_open_mpi, 1, 2, -27, 0},
    {"provider", OPEN_MPI, 500, 599, &provider_open_mpi, 1, 2, -33, 0},
    {"provider", MPICH, 400, 400, &provider_mpich, 2, 1, 287, 1 << 28},
    {"provider", MPICH, 401, 401, &provider_mpich, 0, 0, 0, 0},
    {"provider", MPICH, 402, 403, &provider_mpich, 8, 1, 0, 0},
    {"ucp", MPICH, 400, 400, &ucp_mpich, 0, 0, 287, 1 << 28},
    {"ucp", MPICH, 401, 403, &ucp_mpich, 0, 0, 0, 1 << 28},
};

/* ---- which layout ---- */

/* The text before the version, for each family. */
static const char *const version_marks[] = {
    [OPEN_MPI] = "Open MPI v",
    [MPICH] = "MPICH Version:",
};

/* 100 * major + minor of "4.1.4, ..."; 0: there is none. */
static unsigned version_number(const char *text)
{
    unsigned major, minor;

    if (sscanf(text, " %3u.%3u", &major, &minor) != 2 || major > 99 || minor > 99)
        return 0;
    return 100 * major + minor;
}

const struct inspect_layout *inspect_mpi_layout(const char *text)
{
    for (size_t i = 0; text != NULL && i < sizeof layouts / sizeof layouts[0]; i++) {
        const struct inspect_layout *row = &layouts[i];
        const char *mark = version_marks[row->family];
        size_t way = strlen(row->way);
        unsigned version;

        if (strncmp(text, row->way, way) != 0 || text[way] != ' ' ||
            strncmp(text + way + 1, mark, strlen(mark)) != 0)
            continue;
        version = version_number(text + way + 1 + strlen(mark));
        if (version >= row->first && version <= row->last)
            return row;
    }
    return NULL;
}

/* ---- collectives by their tags ---- */

/* Open MPI: -10, -11, ... */
static const char *const open_mpi_collectives[] = {
    "allgather",      "allgatherv",
    "allreduce",      "alltoall",
    "alltoallv",      "alltoallw",
    "barrier",        "bcast",
    "exscan",         "gather",
    "gatherv",        "reduce",
    "reduce_scatter", "reduce_scatter_block",
    "scan",           "scatter",
    "scatterv",
};

/* MPICH: 0, 1, ...; entries without a name are operations of the user, or not MPI's */
static const char *const mpich_collectives[] = {
    [1] = "barrier",
    [2] = "bcast",
    [3] = "gather",
    [4] = "gatherv",
    [5] = "scatter",
    [6] = "scatterv",
    [7] = "allgather",
    [8] = "allgatherv",
    [9] = "alltoall",
    [10] = "alltoallv",
    [11] = "reduce",
    [14] = "allreduce",
    [17] = "reduce_scatter",
    [20] = "scan",
    [24] = "exscan",
    [25] = "alltoallw",
    [28] = "reduce_scatter_block",
};

#define OPEN_MPI_FIRST (-10)

static const char *collective_name(const char *const *names, size_t count, int32_t index)
{
    return index >= 0 && (size_t)index < count ? names[index] : NULL;
}

static void open_mpi_collective(const struct inspect_layout *layout, struct inspect_mpi *mpi)
{
    mpi->is_collective = !mpi->is_any_tag && mpi->tag <= OPEN_MPI_FIRST;
    if (!mpi->is_collective)
        return;
    mpi->operation = collective_name(
        open_mpi_collectives, sizeof open_mpi_collectives / sizeof open_mpi_collectives[0],
        OPEN_MPI_FIRST - mpi->tag);
    mpi->is_nonblocking = mpi->operation == NULL && mpi->tag <= layout->nonblocking;
    if (mpi->is_nonblocking) {
        mpi->operation = "nonblocking collective";
        mpi->number = (uint32_t)layout->nonblocking - (uint32_t)mpi->tag + 1;
    }
}

static void mpich_communicator(const struct inspect_layout *layout, struct inspect_mpi *mpi)
{
    static const char *const parts[4] = {[1] = "of a node", [2] = "of one rank per node"};
    uint32_t bits = mpi->communicator;

    mpi->is_collective = bits & 1;
    mpi->part = bits & 8 ? "local group" : parts[bits >> 1 & 3];
    mpi->is_of_node = (bits & 0xe) == 2;
    mpi->communicator = bits >> 4;
    if (!mpi->is_collective || mpi->is_any_tag)
        return;
    mpi->is_of_group = mpi->tag & layout->group;
    if (mpi->is_of_group) {
        mpi->tag &= ~layout->group;
        mpi->operation = "group collective";
        return;
    }
    mpi->operation = collective_name(
        mpich_collectives, sizeof mpich_collectives / sizeof mpich_collectives[0], mpi->tag);
    mpi->is_nonblocking = layout->nonblocking != 0 && mpi->tag >= layout->nonblocking;
    if (mpi->is_nonblocking)
        mpi->operation = "nonblocking collective";
}

/* ---- decoding ---- */

static uint32_t bits_of(uint64_t tag, unsigned at, unsigned count)
{
    return (uint32_t)(tag >> at & ((UINT64_C(1) << count) - 1));
}

static void decode_protocol(const struct inspect_layout *layout, uint64_t tag,
                            struct inspect_mpi *out)
{
    uint32_t bits = bits_of(tag, layout->fields->protocol_at, layout->fields->protocol_bits);

    out->is_synchronous = bits & layout->synchronous;
    out->is_acknowledgement = bits & layout->acknowledgement;
    out->protocol = bits & ~(layout->synchronous | layout->acknowledgement);
}

uint64_t inspect_mpi_source_bits(const struct inspect_layout *layout)
{
    return layout != NULL
               ? ((UINT64_C(1) << layout->fields->source_bits) - 1) << layout->fields->source_at
               : 0;
}

bool inspect_mpi_is_kept_posted(const char *text, uint32_t context_id)
{
    return context_id == CONTEXT_MESSAGES && strncmp(text, "ucp ", 4) == 0;
}

bool inspect_mpi_decode(const struct inspect_layout *layout, uint32_t context_id, uint64_t tag,
                        uint64_t ignore, struct inspect_mpi *out)
{
    uint64_t source_bits = inspect_mpi_source_bits(layout);
    bool is_in_tag;

    if (layout == NULL)
        return false;
    is_in_tag = layout->fields->communicator_bits != 0;
    if (is_in_tag && context_id != CONTEXT_TAGGED)
        return false;
    *out = (struct inspect_mpi){
        .communicator = is_in_tag ? bits_of(tag, layout->fields->communicator_at,
                                            layout->fields->communicator_bits)
                                  : context_id,
        .source = bits_of(tag, layout->fields->source_at, layout->fields->source_bits),
        .has_source = source_bits != 0,
        .is_any_source = source_bits != 0 && (ignore & source_bits) == source_bits,
        .generation = is_in_tag ? 0 : (uint32_t)(tag >> 32),
        .tag = (int32_t)bits_of(tag, 0, layout->fields->tag_bits),
        .is_any_tag = (ignore & ANY_TAG) == ANY_TAG,
    };
    if (is_in_tag)
        decode_protocol(layout, tag & ~ignore, out);
    if (layout->family == OPEN_MPI)
        open_mpi_collective(layout, out);
    else
        mpich_communicator(layout, out);
    return true;
}

const char *inspect_mpi_predefined(const struct inspect_layout *layout, uint32_t communicator)
{
    static const char *const names[] = {"MPI_COMM_WORLD", "MPI_COMM_SELF"};

    return layout != NULL && communicator < 2 ? names[communicator] : NULL;
}

/* ---- words ---- */

const char *inspect_mpi_words(const struct inspect_mpi *mpi, char words[INSPECT_MPI_WORDS])
{
    char protocol[32] = "", what[64];

    if (mpi->is_any_tag)
        snprintf(what, sizeof what, "any tag");
    else if (mpi->operation != NULL && strchr(mpi->operation, ' ') == NULL)
        snprintf(what, sizeof what, "%s", mpi->operation);
    else if (mpi->number != 0)
        snprintf(what, sizeof what, "%s number %" PRIu32, mpi->operation, mpi->number);
    else
        snprintf(what, sizeof what, "%s%stag %" PRId32,
                 mpi->operation != NULL ? mpi->operation
                 : mpi->is_collective   ? "collective"
                                        : "",
                 mpi->is_collective ? " " : "", mpi->tag);
    if (mpi->protocol != 0)
        snprintf(protocol, sizeof protocol, " protocol %x", mpi->protocol);
    snprintf(words, INSPECT_MPI_WORDS, "%s%s%s%s", what,
             mpi->is_synchronous ? " synchronous" : "",
             mpi->is_acknowledgement ? " acknowledgement" : "", protocol);
    return words;
}
