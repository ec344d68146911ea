/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.c - see snapshot.h.
 */
#include "msgq/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/mem.h"
#include "inspect/blocks.h"
#include "inspect/job.h"
#include "inspect/text.h"

#define ENTRIES_MAX 65536u /* of an endpoint */
#define NAMES_SIZE  65536u

/* ---- communicators ---- */

static const struct msgq_endpoint *endpoint_of(const struct msgq_snapshot *snapshot,
                                               const struct msgq_communicator *communicator)
{
    return &snapshot->endpoints[communicator->endpoint];
}

bool snapshot_belongs(const struct msgq_snapshot *snapshot,
                      const struct msgq_communicator *communicator,
                      const struct inspect_entry *entry, struct inspect_mpi *mpi)
{
    const struct inspect_layout *layout = endpoint_of(snapshot, communicator)->layout;
    bool is_mpi = inspect_mpi_decode(layout, entry->context_id, entry->tag, entry->ignore, mpi);

    return is_mpi == communicator->is_mpi &&
           communicator->number == (is_mpi ? mpi->communicator : entry->context_id);
}

/* The communicator of an envelope, made if needed; NULL: no memory. */
static struct msgq_communicator *communicator_for(struct msgq_snapshot *snapshot,
                                                  uint32_t endpoint,
                                                  const struct inspect_entry *entry)
{
    struct msgq_communicator *new;
    const char *name = NULL;
    struct inspect_mpi mpi;

    for (uint32_t i = snapshot->communicator_count; i-- > 0;)
        if (snapshot->communicators[i].endpoint == endpoint &&
            snapshot_belongs(snapshot, &snapshot->communicators[i], entry, &mpi))
            return &snapshot->communicators[i];
    if (!array_reserve(snapshot->communicators, snapshot->communicator_slots,
                       snapshot->communicator_count + 1))
        return NULL;
    new = &snapshot->communicators[snapshot->communicator_count++];
    *new = (struct msgq_communicator){.endpoint = endpoint, .number = entry->context_id};
    new->is_mpi = inspect_mpi_decode(endpoint_of(snapshot, new)->layout, entry->context_id,
                                     entry->tag, entry->ignore, &mpi);
    if (new->is_mpi) {
        new->number = mpi.communicator;
        name = inspect_mpi_predefined(endpoint_of(snapshot, new)->layout, mpi.communicator);
        new->is_world = name != NULL &&strcmp(name, "MPI_COMM_WORLD") == 0;
    }
    if (name != NULL)
        snprintf(new->name, sizeof new->name, "%s", name);
    else
        snprintf(new->name, sizeof new->name, "%s %" PRIu32,
                 new->is_mpi ? "communicator" : "context", new->number);
    if ((new->is_world || !new->is_mpi) && endpoint_of(snapshot, new)->ranks != INSPECT_NOBODY)
        new->size = endpoint_of(snapshot, new)->ranks;
    return new;
}

/* Makes the communicators that the program has named. */
static int take_names(struct msgq_snapshot *snapshot, uint32_t endpoint, const char *text)
{
    struct inspect_line line;

    while (inspect_text_line(&text, &line)) {
        struct inspect_entry entry = {.kind = INSPECT_POSTED, .context_id = line.number};
        struct msgq_communicator *named;

        if (line.kind != INSPECT_LINE_CONTEXT)
            continue;
        named = communicator_for(snapshot, endpoint, &entry);
        if (named == NULL)
            return -ENOMEM;
        named->size = line.value;
        if (!named->is_world && line.name[0] != '\0')
            snprintf(named->name, sizeof named->name, "%s", line.name);
    }
    return 0;
}

/* ---- endpoints ---- */

static void take_head(struct msgq_endpoint *endpoint, const struct inspect_map *map,
                      const struct inspect_source *source)
{
    struct inspect_head head;
    uint64_t page;

    endpoint->rank = endpoint->ranks = INSPECT_NOBODY;
    if (source->read(source, endpoint->ep + map->offsets[INSPECT_EP_PAGE], &page,
                     sizeof page) != 0 ||
        page == 0 || source->read(source, page, &head, sizeof head) != 0 ||
        inspect_head_check(&head, head.pid) != NULL)
        return;
    endpoint->rank = head.rank;
    endpoint->ranks = head.ranks;
    endpoint->job = head.job;
    endpoint->address = head.address;
}

/* Removes the receives that are none of the program. */
static uint32_t keep_program_s(struct inspect_entry *entries, uint32_t count,
                               const char *program)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++)
        if (entries[i].kind != INSPECT_POSTED ||
            !inspect_mpi_is_kept_posted(program, entries[i].context_id))
            entries[kept++] = entries[i];
    return kept;
}

static int take_entries(struct msgq_endpoint *endpoint, const struct inspect_map *map,
                        const struct inspect_source *source, const char *program)
{
    struct inspect_entry *entries = mem_alloc(ENTRIES_MAX * sizeof *entries);
    uint32_t counts[INSPECT_KINDS];
    int err = -ENOMEM;

    if (entries != NULL)
        err = inspect_walk(map, source, endpoint->ep, entries, ENTRIES_MAX, &endpoint->count,
                           counts);
    if (err == 0) {
        endpoint->count = keep_program_s(entries, endpoint->count, program);
        inspect_walk_ages(map, source, endpoint->ep, 0, entries, endpoint->count);
        inspect_sort(entries, endpoint->count);
        endpoint->entries = mem_realloc(entries, (endpoint->count + 1) * sizeof *entries);
        return endpoint->entries != NULL ? 0 : -ENOMEM;
    }
    mem_free(entries);
    return err;
}

static int take_endpoint(struct msgq_snapshot *snapshot, const struct inspect_source *source,
                         uint64_t ep)
{
    uint32_t index = snapshot->endpoint_count;
    struct msgq_endpoint *more =
        mem_realloc(snapshot->endpoints, (index + 1) * sizeof *snapshot->endpoints);
    char program[INSPECT_MPI_TEXT], *names;
    int err;

    if (more == NULL)
        return -ENOMEM;
    snapshot->endpoints = more;
    more[index] = (struct msgq_endpoint){.ep = ep};
    snapshot->endpoint_count++;
    take_head(&more[index], &snapshot->map, source);
    inspect_walk_program(&snapshot->map, source, ep, program);
    more[index].layout = inspect_mpi_layout(program);
    err = take_entries(&more[index], &snapshot->map, source, program);
    names = mem_calloc(1, NAMES_SIZE);
    if (names == NULL)
        return -ENOMEM;
    if (err == 0 &&
        inspect_walk_names(&snapshot->map, source, ep, NULL, 0, names, NAMES_SIZE) >= 0)
        err = take_names(snapshot, index, names);
    mem_free(names);
    for (uint32_t i = 0; err == 0 && i < snapshot->endpoints[index].count; i++)
        if (snapshot->endpoints[index].entries[i].kind !=
                INSPECT_ACCESS && /* which has no envelope */
            communicator_for(snapshot, index, &snapshot->endpoints[index].entries[i]) == NULL)
            err = -ENOMEM;
    return err;
}

int snapshot_take(struct msgq_snapshot *snapshot, const struct inspect_source *source,
                  uint64_t root)
{
    uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
    struct inspect_blocks blocks;
    uint32_t count = 0;
    int err;

    *snapshot = (struct msgq_snapshot){.endpoints = NULL};
    inspect_blocks_init(&blocks, source);
    err = inspect_map_read(&blocks.source, root, &snapshot->map);
    if (err == 0)
        err = inspect_walk_endpoints(&snapshot->map, &blocks.source, endpoints, &count);
    for (uint32_t i = 0; err == 0 && i < count; i++)
        err = take_endpoint(snapshot, &blocks.source, endpoints[i]);
    if (err != 0)
        snapshot_free(snapshot);
    return err;
}

void snapshot_free(struct msgq_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->endpoint_count; i++)
        mem_free(snapshot->endpoints[i].entries);
    mem_free(snapshot->endpoints);
    mem_free(snapshot->communicators);
    *snapshot = (struct msgq_snapshot){.endpoints = NULL};
}
