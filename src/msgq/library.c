/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.c - libmatchbox-msgq.so: shows the queues of a stopped rank to a debugger
 * (interface.h).
 *
 *   mqs_setup_process             keeps the debugger's functions
 *   mqs_update_communicator_list  reads everything at once: msgq/snapshot.c
 *   the iterators                 walk the data that was read
 *
 * It needs one symbol of the process, mbx_see_root, no type and no debug information.  Ranks
 * are ranks in MPI_COMM_WORLD for every communicator, since the groups of the others are not
 * known here.  The rank of a peer was set by the program (the component for Open MPI does
 * that), or is found by its address, if the debugger has shown that process before.
 */
#include "msgq/interface.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "msgq/snapshot.h"

enum {
    NO_MEMORY = mqs_first_user_code,
    NO_SYMBOL,
    NOT_READ,
    NOT_UNDERSTOOD,
    NO_COMMUNICATOR,
    OTHER_TARGET
};

struct _mqs_image_info {
    const mqs_image_callbacks *calls;
};

struct _mqs_process_info {
    struct inspect_source source; /* must be first: see read_process() */
    const mqs_process_callbacks *calls;
    mqs_process *process;
    struct msgq_snapshot snapshot;
    uint32_t communicator; /* index of the current one */
    mqs_op_class class;
    uint32_t entry; /* index of the next */
};

static const mqs_basic_callbacks *basic;

/* ---- the library itself ---- */

void mqs_setup_basic_callbacks(const mqs_basic_callbacks *calls)
{
    basic = calls;
}

char *mqs_version_string(void)
{
    static char text[] = "Matchbox message queues";

    return text;
}

int mqs_version_compatibility(void)
{
    return MSGQ_COMPATIBILITY;
}

int mqs_dll_taddr_width(void)
{
    return (int)sizeof(mqs_taddr_t);
}

char *mqs_dll_error_string(int code)
{
    static const char *const texts[] = {
        [NO_MEMORY - mqs_first_user_code] = "no memory",
        [NO_SYMBOL - mqs_first_user_code] =
            "the process has no symbol mbx_see_root: it does not run over Matchbox",
        [NOT_READ - mqs_first_user_code] = "the memory of the process cannot be read",
        [NOT_UNDERSTOOD - mqs_first_user_code] =
            "the process runs over another version of Matchbox than this library: `mbx queues` "
            "says over "
            "which",
        [NO_COMMUNICATOR - mqs_first_user_code] = "no communicator was selected",
        [OTHER_TARGET - mqs_first_user_code] =
            "the process is of another kind of machine than this library",
    };
    const char *text = "an error that is none of this library";

    if (code >= mqs_first_user_code &&
        (size_t)(code - mqs_first_user_code) < ARRAY_COUNT(texts))
        text = texts[code - mqs_first_user_code];
    return (char *)(uintptr_t)text;
}

/* ---- images ---- */

int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *calls)
{
    mqs_image_info *info = basic->mqs_malloc_fp(sizeof *info);

    if (info == NULL)
        return NO_MEMORY;
    info->calls = calls;
    basic->mqs_put_image_info_fp(image, info);
    return mqs_ok;
}

/* Only a process shows whether a program runs over Matchbox, since libraries are loaded while
 * it starts. */
int mqs_image_has_queues(mqs_image *image, char **message)
{
    (void)image;
    *message = NULL;
    return mqs_ok;
}

void mqs_destroy_image_info(mqs_image_info *info)
{
    basic->mqs_free_fp(info);
}

/* ---- processes ---- */

static int read_process(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    const mqs_process_info *info = (const mqs_process_info *)(const void *)source;

    return info->calls->mqs_fetch_data_fp(info->process, at, (int)size, to) == mqs_ok ? 0
                                                                                      : -EFAULT;
}

int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *calls)
{
    mqs_process_info *info = basic->mqs_malloc_fp(sizeof *info);

    if (info == NULL)
        return NO_MEMORY;
    *info = (mqs_process_info){.source = {read_process}, .calls = calls, .process = process};
    basic->mqs_put_process_info_fp(process, info);
    return mqs_ok;
}

void mqs_destroy_process_info(mqs_process_info *info)
{
    snapshot_free(&info->snapshot);
    basic->mqs_free_fp(info);
}

static mqs_process_info *info_of(mqs_process *process)
{
    return basic->mqs_get_process_info_fp(process);
}

static int find_root(mqs_process *process, const mqs_process_info *info, mqs_taddr_t *root)
{
    static char name[] = "mbx_see_root";
    mqs_image *image = info->calls->mqs_get_image_fp(process);
    const mqs_image_callbacks *calls = basic->mqs_get_image_info_fp(image)->calls;
    mqs_target_type_sizes sizes;

    calls->mqs_get_type_sizes_fp(process, &sizes);
    if (sizes.pointer_size != (int)sizeof(uint64_t))
        return OTHER_TARGET;
    return calls->mqs_find_symbol_fp(image, name, root) == mqs_ok ? mqs_ok : NO_SYMBOL;
}

int mqs_process_has_queues(mqs_process *process, char **message)
{
    static char none[] = "%s: no symbol mbx_see_root, so it does not run over Matchbox, or its "
                         "libraries are not loaded yet";
    static char other[] = "%s: of another kind of machine than libmatchbox-msgq.so";
    mqs_taddr_t root;
    int status = find_root(process, info_of(process), &root);

    *message = status == NO_SYMBOL ? none : status == OTHER_TARGET ? other : NULL;
    return status;
}

/* ---- which rank has which address: of all processes that were shown ---- */

static struct known {
    uint64_t job, address;
    uint32_t rank;
} * known;
static uint32_t known_count;

static void know(const struct msgq_endpoint *endpoint)
{
    struct known *more;

    for (uint32_t i = 0; i < known_count; i++)
        if (known[i].job == endpoint->job && known[i].address == endpoint->address) {
            known[i].rank = endpoint->rank;
            return;
        }
    if (endpoint->rank == INSPECT_NOBODY || endpoint->address == 0)
        return;
    more = mem_realloc(known, (known_count + 1) * sizeof *known);
    if (more == NULL)
        return;
    known = more;
    known[known_count++] = (struct known){endpoint->job, endpoint->address, endpoint->rank};
}

static uint32_t known_rank(uint64_t job, uint64_t address)
{
    for (uint32_t i = 0; i < known_count; i++)
        if (known[i].job == job && known[i].address == address)
            return known[i].rank;
    return INSPECT_NOBODY;
}

static void know_all(const struct msgq_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->endpoint_count; i++)
        know(&snapshot->endpoints[i]);
}

int mqs_update_communicator_list(mqs_process *process)
{
    mqs_process_info *info = info_of(process);
    mqs_taddr_t root;
    int status = find_root(process, info, &root);

    if (status != mqs_ok)
        return status;
    snapshot_free(&info->snapshot);
    info->communicator = UINT32_MAX;
    switch (snapshot_take(&info->snapshot, &info->source, root)) {
    case 0:
        know_all(&info->snapshot);
        return mqs_ok;
    case -ENOMEM:
        return NO_MEMORY;
    case -EBADMSG:
        return NOT_UNDERSTOOD;
    default:
        return NOT_READ;
    }
}

/* ---- communicators ---- */

/* The current communicator; NULL: none. */
static const struct msgq_communicator *current(const mqs_process_info *info)
{
    return info->communicator < info->snapshot.communicator_count
               ? &info->snapshot.communicators[info->communicator]
               : NULL;
}

int mqs_setup_communicator_iterator(mqs_process *process)
{
    mqs_process_info *info = info_of(process);

    info->communicator = 0;
    return current(info) != NULL ? mqs_ok : mqs_end_of_list;
}

int mqs_next_communicator(mqs_process *process)
{
    mqs_process_info *info = info_of(process);

    if (current(info) == NULL)
        return mqs_end_of_list;
    info->communicator++;
    return current(info) != NULL ? mqs_ok : mqs_end_of_list;
}

static mqs_tword_t own_rank(const mqs_process_info *info, uint32_t endpoint)
{
    uint32_t rank = info->snapshot.endpoints[endpoint].rank;

    return rank != INSPECT_NOBODY ? (mqs_tword_t)rank
                                  : info->calls->mqs_get_global_rank_fp(info->process);
}

int mqs_get_communicator(mqs_process *process, mqs_communicator *out)
{
    const mqs_process_info *info = info_of(process);
    const struct msgq_communicator *from = current(info);

    if (from == NULL)
        return NO_COMMUNICATOR;
    *out = (mqs_communicator){
        .unique_id =
            (mqs_taddr_t)from->endpoint << 33 | (mqs_taddr_t)from->is_mpi << 32 | from->number,
        .local_rank = own_rank(info, from->endpoint),
        .size = from->size,
    };
    memcpy(out->name, from->name, sizeof out->name);
    return mqs_ok;
}

int mqs_get_comm_group(mqs_process *process, int *ranks)
{
    const struct msgq_communicator *from = current(info_of(process));

    if (from == NULL)
        return NO_COMMUNICATOR;
    if (!from->is_world)
        return mqs_no_information;
    for (uint32_t i = 0; i < from->size; i++)
        ranks[i] = (int)i;
    return mqs_ok;
}

/* ---- operations ---- */

int mqs_setup_operation_iterator(mqs_process *process, int class)
{
    mqs_process_info *info = info_of(process);

    if (current(info) == NULL)
        return NO_COMMUNICATOR;
    if (class != mqs_pending_sends && class != mqs_pending_receives &&
        class != mqs_unexpected_messages)
        return mqs_no_information;
    info->class = (mqs_op_class) class;
    info->entry = 0;
    return mqs_ok;
}

static bool is_of(mqs_op_class class, unsigned kind)
{
    switch (class) {
    case mqs_pending_sends:
        return kind == INSPECT_SEND || kind == INSPECT_SENDING;
    case mqs_pending_receives:
        return kind == INSPECT_POSTED || kind == INSPECT_RECEIVING;
    case mqs_unexpected_messages:
        return kind == INSPECT_UNEXPECTED || kind == INSPECT_PROBED;
    }
    return false;
}

/* The rank of the peer, or its number at the endpoint, if the rank is not known.  A receive from any source of the library
 * may be one from a certain source of the MPI, which then is in its tag. */
static mqs_tword_t rank_of(const mqs_process_info *info,
                           const struct msgq_communicator *communicator,
                           const struct inspect_entry *entry, const struct inspect_mpi *mpi,
                           bool *is_named)
{
    const struct msgq_endpoint *endpoint = &info->snapshot.endpoints[communicator->endpoint];
    uint32_t rank = INSPECT_NOBODY;

    *is_named = true;
    if (entry->peer == INSPECT_NOBODY)
        return communicator->is_world && mpi->part == NULL && mpi->has_source &&
                       !mpi->is_any_source
                   ? (mqs_tword_t)mpi->source
                   : MQS_INVALID_PROCESS;
    if (inspect_walk_rank(&info->snapshot.map, &info->source, endpoint->ep, entry->peer,
                          &rank) != 0 ||
        rank == INSPECT_NOBODY)
        rank = known_rank(endpoint->job, entry->whom);
    *is_named = rank != INSPECT_NOBODY;
    return (mqs_tword_t)(*is_named ? rank : entry->peer);
}

static void fill_text(mqs_pending_operation *out, const struct inspect_entry *entry,
                      const struct msgq_communicator *communicator,
                      const struct inspect_mpi *mpi, bool is_named)
{
    const char *operation =
        communicator->is_mpi && mpi->operation != NULL ? mpi->operation : "";
    bool is_sync = (entry->flags & INSPECT_ENTRY_SYNC) != 0 ||
                   (communicator->is_mpi && mpi->is_synchronous);

    snprintf(out->extra_text[0], sizeof out->extra_text[0], "%s%s%s%.24s",
             inspect_kind_name(entry->kind), is_sync ? ", synchronous" : "",
             operation[0] != '\0' ? ", " : "", operation);
    snprintf(out->extra_text[1], sizeof out->extra_text[1],
             "context %" PRIu32 " tag %" PRIu64 " ignore 0x%" PRIx64, entry->context_id,
             entry->tag, entry->ignore);
    if (entry->waited_ms != INSPECT_NOT_KNOWN)
        snprintf(out->extra_text[3], sizeof out->extra_text[3],
                 "waited %.1f s before it was stopped", (double)entry->waited_ms / 1000);
    if (!is_named)
        snprintf(out->extra_text[2], sizeof out->extra_text[2],
                 "peer %" PRIu32 " of the endpoint: its rank is not known", entry->peer);
}

static void fill(const mqs_process_info *info, const struct msgq_communicator *communicator,
                 const struct inspect_entry *entry, const struct inspect_mpi *mpi,
                 mqs_pending_operation *out)
{
    bool is_moving = entry->kind == INSPECT_SENDING || entry->kind == INSPECT_RECEIVING ||
                     entry->kind == INSPECT_PROBED;
    bool is_named;

    *out = (mqs_pending_operation){
        .status = is_moving ? mqs_st_matched : mqs_st_pending,
        .desired_global_rank = rank_of(info, communicator, entry, mpi, &is_named),
        .tag_wild = communicator->is_mpi ? mpi->is_any_tag : entry->ignore == UINT64_MAX,
        .desired_tag = communicator->is_mpi ? mpi->tag : (mqs_tword_t)entry->tag,
        .desired_length = (mqs_tword_t)entry->size,
        .system_buffer = entry->kind == INSPECT_UNEXPECTED || entry->kind == INSPECT_PROBED,
    };
    out->desired_local_rank = out->desired_global_rank;
    if (entry->kind != INSPECT_POSTED) {
        out->actual_local_rank = out->actual_global_rank = out->desired_global_rank;
        out->actual_tag = out->desired_tag;
        out->actual_length = out->desired_length;
    }
    fill_text(out, entry, communicator, mpi, is_named);
}

int mqs_next_operation(mqs_process *process, mqs_pending_operation *out)
{
    mqs_process_info *info = info_of(process);
    const struct msgq_communicator *communicator = current(info);
    const struct msgq_endpoint *endpoint;

    if (communicator == NULL)
        return NO_COMMUNICATOR;
    endpoint = &info->snapshot.endpoints[communicator->endpoint];
    while (info->entry < endpoint->count) {
        const struct inspect_entry *entry = &endpoint->entries[info->entry++];
        struct inspect_mpi mpi;

        if (!is_of(info->class, entry->kind) ||
            !snapshot_belongs(&info->snapshot, communicator, entry, &mpi))
            continue;
        fill(info, communicator, entry, &mpi, out);
        return mqs_ok;
    }
    return mqs_end_of_list;
}
