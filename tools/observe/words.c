/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.c - see words.h.
 */
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"
#include "inspect/text.h"

const char *words_of_rank(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    if (rank->head.rank == INSPECT_NOBODY)
        snprintf(words, WORDS_MAX, "?");
    else if (rank->part == 0)
        snprintf(words, WORDS_MAX, "%" PRIu32, rank->head.rank);
    else
        snprintf(words, WORDS_MAX, "%" PRIu32 " of job %" PRIu32, rank->head.rank,
                 rank->part + 1);
    return words;
}

const char *words_of_process(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    int used = snprintf(words, WORDS_MAX, "pid %" PRIu32 "%s%s", rank->head.pid,
                        rank->reported != NULL ? " on " : "",
                        rank->reported != NULL ? rank->reported->host : "");

    if (rank->owner != 0)
        snprintf(words + used, WORDS_MAX - (size_t)used, " of user %" PRIu32, rank->owner - 1);
    return words;
}

/* The name that the program has given to a peer.  It is needed for ranks that are not
 * observed. */
static bool given_rank(const struct inspect_rank *rank, uint32_t peer, uint32_t *given)
{
    const char *at = inspect_text_names(rank->text);
    struct inspect_line line;

    while (inspect_text_line(&at, &line))
        if (line.kind == INSPECT_LINE_PEER && line.number == peer) {
            *given = line.value;
            return true;
        }
    return false;
}

/* "1", "rank 1 of it": of a receive or probe whose rank in the communicator only its tag names.  False: there is none. */
static bool named_by_tag(const struct inspect_rank *rank, const struct inspect_entry *entry,
                         char words[WORDS_MAX])
{
    struct inspect_mpi mpi;
    const char *name;

    if ((entry->peer != INSPECT_NOBODY && entry->peer != INSPECT_SOMEBODY) ||
        !inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi) ||
        !mpi.has_source || mpi.is_any_source)
        return false;
    name = inspect_mpi_predefined(rank->layout, mpi.communicator);
    snprintf(words, WORDS_MAX,
             name != NULL && mpi.part == NULL ? "%" PRIu32 : "rank %" PRIu32 " of it",
             mpi.source);
    return true;
}

const char *words_of_peer(const struct inspect_job *job, uint32_t at,
                          const struct inspect_entry *entry, char words[WORDS_MAX])
{
    uint32_t whose = inspect_whose(job, at, entry), given;

    if (whose == INSPECT_NOBODY && named_by_tag(&job->ranks[at], entry, words))
        return words;
    if (entry->peer == INSPECT_NOBODY)
        snprintf(words, WORDS_MAX, "any source");
    else if (whose == INSPECT_NOBODY && given_rank(&job->ranks[at], entry->peer, &given))
        snprintf(words, WORDS_MAX, "%" PRIu32, given);
    else if (whose == INSPECT_NOBODY || job->ranks[whose].head.rank == INSPECT_NOBODY)
        snprintf(words, WORDS_MAX, "peer %" PRIu32, entry->peer);
    else
        words_of_rank(&job->ranks[whose], words);
    return words;
}

/* The name that the program has given to a context id; an empty one counts as none. */
static bool given_name(const struct inspect_rank *rank, uint32_t context_id,
                       char name[INSPECT_NAME_TEXT])
{
    const char *at = inspect_text_names(rank->text);
    struct inspect_line line;

    while (inspect_text_line(&at, &line))
        if (line.kind == INSPECT_LINE_CONTEXT && line.number == context_id) {
            memcpy(name, line.name, INSPECT_NAME_TEXT);
            return name[0] != '\0';
        }
    return false;
}

const char *words_of_communicator(const struct inspect_rank *rank,
                                  const struct inspect_entry *entry, char words[WORDS_MAX])
{
    struct inspect_mpi mpi;
    char given[INSPECT_NAME_TEXT];
    const char *name;

    if (!inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi)) {
        snprintf(words, WORDS_MAX, "context %" PRIu32, entry->context_id);
        return words;
    }
    name = inspect_mpi_predefined(rank->layout, mpi.communicator);
    if (name != NULL)
        snprintf(words, WORDS_MAX, "%s", name);
    else if (given_name(rank, entry->context_id, given))
        snprintf(words, WORDS_MAX, "communicator %" PRIu32 " \"%s\"", mpi.communicator, given);
    else
        snprintf(words, WORDS_MAX, "communicator %" PRIu32, mpi.communicator);
    return words;
}

/* "tag 7", without the communicator. */
static const char *tag_words(const struct inspect_rank *rank, const struct inspect_entry *entry,
                             char words[WORDS_MAX])
{
    char mpi_words[INSPECT_MPI_WORDS];
    struct inspect_mpi mpi;

    if (inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi))
        snprintf(words, WORDS_MAX, "%s", inspect_mpi_words(&mpi, mpi_words));
    else if (entry->ignore == UINT64_MAX)
        snprintf(words, WORDS_MAX, "any tag");
    else if (entry->ignore != 0)
        snprintf(words, WORDS_MAX, "tag %" PRIu64 " ignoring bits 0x%" PRIx64, entry->tag,
                 entry->ignore);
    else
        snprintf(words, WORDS_MAX, "tag %" PRIu64, entry->tag);
    return words;
}

const char *words_of_envelope(const struct inspect_rank *rank,
                              const struct inspect_entry *entry, char words[WORDS_MAX])
{
    char tag[WORDS_MAX], communicator[WORDS_MAX];

    snprintf(words, WORDS_MAX, "%.80s on %.80s", tag_words(rank, entry, tag),
             words_of_communicator(rank, entry, communicator));
    text_make_printable(words, '?', false); /* a name may be truncated within a character */
    return words;
}

const char *words_of_entry(const struct inspect_job *job, uint32_t at,
                           const struct inspect_entry *entry, char words[WORDS_MAX])
{
    const struct inspect_rank *rank = &job->ranks[at];
    bool goes = entry->kind == INSPECT_SEND || entry->kind == INSPECT_SENDING ||
                entry->kind == INSPECT_ACCESS;
    char peer[WORDS_MAX], tag[WORDS_MAX], communicator[WORDS_MAX];

    snprintf(words, WORDS_MAX, "%s %.24s, %.64s, %.48s, %" PRIu64 " bytes",
             goes ? "to" : "from", words_of_peer(job, at, entry, peer),
             tag_words(rank, entry, tag), words_of_communicator(rank, entry, communicator),
             entry->size);
    text_make_printable(words, '?', false);
    return words;
}
