/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_words.c - events in the words of the program that was traced.
 *
 * A peer's rank is known from the program, or else from the trace of the process at the peer's
 * address, if this is also read.
 */
#include "trace_words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

int trace_compare_ranks(const struct trace_info *x, const struct trace_info *y)
{
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->endpoint > y->endpoint) - (x->endpoint < y->endpoint);
}

void trace_words_init(struct trace_words *words, const struct trace_ranks *ranks)
{
    *words = (struct trace_words){.ranks = ranks};
}

void trace_words_fini(struct trace_words *words)
{
    mem_free(words->communicators);
    hash_fini(&words->by_number);
    mem_free(words->peers);
}

/* ---- communicators ---- */

static uint64_t communicator_hash(const void *words, const void *slot)
{
    return hash_spread(
        ((const struct trace_words *)words)->communicators[hash_number(slot) - 1].number);
}

static bool communicator_is(const void *words, const void *slot, const void *number)
{
    return ((const struct trace_words *)words)->communicators[hash_number(slot) - 1].number ==
           *(const uint32_t *)number;
}

static const struct hash_kind by_number = {sizeof(uint32_t), communicator_hash,
                                           communicator_is};

/* The slot of the last communicator of this number, or NULL. */
static uint32_t *communicator_slot(const struct trace_words *words, uint32_t number)
{
    return hash_find(&words->by_number, &by_number, words, hash_spread(number), &number);
}

static struct trace_communicator *communicator_find(const struct trace_words *words,
                                                    uint32_t number)
{
    uint32_t place = hash_number(communicator_slot(words, number));

    return place != 0 ? &words->communicators[place - 1] : NULL;
}

/* From now on this number belongs to a new communicator.  NULL: no memory. */
static struct trace_communicator *communicator_new(struct trace_words *words, uint32_t number)
{
    const char *name = inspect_mpi_predefined(words->layout, number);
    struct trace_communicator *found;
    uint32_t *slot, place;

    if (!array_reserve(words->communicators, words->communicator_slots,
                       words->communicator_count + 1) ||
        hash_reserve(&words->by_number, &by_number, words) != 0)
        return NULL;
    slot = communicator_slot(words, number);
    found = &words->communicators[words->communicator_count++];
    *found = (struct trace_communicator){.number = number};
    place = (uint32_t)words->communicator_count;
    if (slot != NULL)
        *slot = place;
    else
        (void)hash_add(&words->by_number, &by_number, words, &place);
    snprintf(found->name, sizeof found->name, "%s", name != NULL ? name : "");
    return found;
}

/* Known or new; NULL: no memory. */
static struct trace_communicator *communicator_get(struct trace_words *words, uint32_t number)
{
    struct trace_communicator *found = communicator_find(words, number);

    return found != NULL ? found : communicator_new(words, number);
}

/* Has the MPI given this name, and not the program? */
static bool is_given_by_mpi(const char *name)
{
    return name[0] == '\0' || strncmp(name, "MPI COMMUNICATOR ", 17) == 0;
}

/* Is what has this size and this name another communicator, of the same number?  MPI gives numbers again.  The name that it gives
 * may be followed by one of the program's. */
static bool is_another(const struct trace_communicator *known, uint32_t size, const char *name)
{
    if (known->size == 0 || known->receives + known->messages == 0)
        return false;
    return known->size != size || (strcmp(known->name, name) != 0 &&
                                   (!is_given_by_mpi(known->name) || is_given_by_mpi(name)));
}

static int name_communicator(struct trace_words *words, const struct trace_event *e)
{
    struct trace_communicator *communicator;
    uint32_t size = (uint32_t)e->tag;

    if (!trace_text_add(words->naming, sizeof words->naming, e))
        return 0; /* the rest of the name follows */
    communicator = communicator_get(words, e->context_id);
    if (communicator != NULL && is_another(communicator, size, words->naming))
        communicator = communicator_new(words, e->context_id);
    if (communicator == NULL)
        return -ENOMEM;
    communicator->size = size;
    memcpy(communicator->name, words->naming, sizeof communicator->name);
    return 0;
}

static int count_event(struct trace_words *words, const struct trace_event *e)
{
    struct trace_communicator *communicator;
    struct inspect_mpi mpi;

    if ((e->type != TRACE_POST && e->type != TRACE_ARRIVE) ||
        !inspect_mpi_decode(words->layout, e->context_id, e->tag, e->ignore, &mpi))
        return 0;
    communicator = communicator_get(words, mpi.communicator);
    if (communicator == NULL)
        return -ENOMEM;
    if (e->type == TRACE_POST) {
        communicator->receives++;
        communicator->receives_waited += e->partner == 0;
    } else {
        communicator->messages++;
        communicator->messages_waited += e->partner == 0;
    }
    return 0;
}

/* ---- peers ---- */

/* Finds the rank of the peer in another file that is read: the peer's process has one rank alone. */
static void find_rank(const struct trace_words *words, const struct trace_event *e,
                      struct trace_peer *peer)
{
    const struct trace_ranks *ranks = words->ranks;

    for (size_t i = 0; i < ranks->count; i++) {
        const struct trace_info *info = ranks->files[i];

        if (info == NULL || info->pid != e->entry || info->host != e->tag ||
            info->rank == TRACE_RANK_UNKNOWN)
            continue;
        peer->is_known = true;
        peer->rank = info->rank;
    }
}

static int name_peer(struct trace_words *words, const struct trace_event *e)
{
    struct trace_peer peer = {0};

    if (!array_reserve_zeroed(words->peers, words->peer_slots, (uint64_t)e->source + 1))
        return -ENOMEM;
    if (e->partner != 0)
        peer = (struct trace_peer){true, (uint32_t)e->ignore, (uint32_t)(e->partner - 1)};
    else if (e->entry != 0)
        find_rank(words, e, &peer);
    words->peers[e->source] = peer;
    return 0;
}

/* ---- events ---- */

int trace_words_event(struct trace_words *words, const struct trace_event *event)
{
    switch ((unsigned)event->type) {
    case TRACE_PROGRAM:
        if (trace_text_add(words->program, sizeof words->program, event))
            words->layout = inspect_mpi_layout(words->program);
        return 0;
    case TRACE_CONTEXT:
        return name_communicator(words, event);
    case TRACE_PEER:
        return name_peer(words, event);
    default:
        return count_event(words, event);
    }
}

/* ---- as text ---- */

/* Through libucp receives have any source, and their tags name the rank in the communicator. */
static void put_any_source(const struct inspect_mpi *mpi, char *text, size_t size)
{
    bool is_of_job = mpi->communicator == 0 && mpi->part == NULL;

    if (!mpi->has_source || mpi->is_any_source)
        snprintf(text, size, "MPI_ANY_SOURCE");
    else
        snprintf(text, size, "rank %" PRIu32 "%s", mpi->source, is_of_job ? "" : " of it");
}

static void put_source(const struct trace_words *words, uint32_t source,
                       const struct inspect_mpi *mpi, char *text, size_t size)
{
    const struct trace_peer *peer = source < words->peer_slots ? &words->peers[source] : NULL;

    if (source == TRACE_ANY_SOURCE)
        put_any_source(mpi, text, size);
    else if (peer == NULL || !peer->is_known)
        snprintf(text, size, "peer %" PRIu32, source);
    else if (peer->job == 0)
        snprintf(text, size, "rank %" PRIu32, peer->rank);
    else
        snprintf(text, size, "rank %" PRIu32 " of job %" PRIu32, peer->rank, peer->job);
}

const char *trace_words_communicator(const struct trace_words *words,
                                     const struct inspect_mpi *mpi, char *text, size_t size)
{
    const struct trace_communicator *found = communicator_find(words, mpi->communicator);
    const char *name = found != NULL && found->name[0] != '\0'
                           ? found->name
                           : inspect_mpi_predefined(words->layout, mpi->communicator);
    int used = name != NULL ? snprintf(text, size, "%s", name)
                            : snprintf(text, size, "communicator %" PRIu32, mpi->communicator);

    if (mpi->part != NULL)
        snprintf(text + used, size - (size_t)used, " (%s)", mpi->part);
    return text;
}

const char *trace_words_envelope(const struct trace_words *words, const struct trace_event *e,
                                 char text[TRACE_ENVELOPE_TEXT])
{
    char source[64] = "*", ignore[32] = "", communicator[192], tag[INSPECT_MPI_WORDS];
    uint64_t mask = trace_is_travel(e->type)
                        ? 0
                        : e->ignore; /* of a message that travels it is an amount */
    bool is_sent = trace_is_sent(e->type);
    struct inspect_mpi mpi;

    if (inspect_mpi_decode(words->layout, e->context_id, e->tag, mask, &mpi)) {
        put_source(words, e->source, &mpi, source, sizeof source);
        trace_words_communicator(words, &mpi, communicator, sizeof communicator);
        snprintf(text, TRACE_ENVELOPE_TEXT, "%s %s %s %s", communicator,
                 is_sent ? "to" : "from", source, inspect_mpi_words(&mpi, tag));
        text_make_printable(text, '?', false); /* a name may have been cut within a character */
        return text;
    }
    if (e->source != TRACE_ANY_SOURCE)
        snprintf(source, sizeof source, "%" PRIu32, e->source);
    if (mask != 0)
        snprintf(ignore, sizeof ignore, " ignore %" PRIx64, mask);
    snprintf(text, TRACE_ENVELOPE_TEXT, "context %" PRIu32 " %s %s tag %" PRIx64 "%s",
             e->context_id, is_sent ? "to" : "source", source, e->tag, ignore);
    return text;
}

const char *trace_words_ignore(const struct trace_words *words, uint64_t ignore, char text[24])
{
    struct inspect_mpi mpi;

    if (inspect_mpi_decode(words->layout, 1, 0, ignore, &mpi))
        snprintf(text, 24, "%s", mpi.is_any_tag ? "MPI_ANY_TAG" : "one tag");
    else
        snprintf(text, 24, "%" PRIx64, ignore);
    return text;
}
