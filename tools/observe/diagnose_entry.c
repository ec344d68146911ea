/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose_entry.c - an operation that a rank waits for, and why nothing completes it.
 *
 *   receive   messages that it almost accepts, and what differs
 *   send      its receiver keeps no more messages of this sender (credit), or has not received it
 *   either    the other side has described its operation (MPI_Send_init, MPI_Recv_init), and never started it
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "diagnose_lines.h"
#include "words.h"

/* ---- messages that a receive nearly takes ---- */

bool diagnose_is_other_part(const struct inspect_mpi *a, const struct inspect_mpi *b)
{
    return a->part != b->part &&
           (a->part == NULL || b->part == NULL || strcmp(a->part, b->part) != 0);
}

/* The reason why two tags differ.  A message of a collective is distinguished from one of the
 * program. */
static const char *why_of_tags(const struct inspect_mpi *wanted, const struct inspect_mpi *is)
{
    if (wanted->is_collective != is->is_collective)
        return is->is_collective ? "it belongs to a collective" : "it belongs to no collective";
    if (wanted->number != 0 && is->number != 0)
        return is->number < wanted->number ? "it belongs to an earlier nonblocking collective"
                                           : "it belongs to a later nonblocking collective";
    return is->is_collective ? "it belongs to another collective" : "the tag differs";
}

/* For a receive and a message of two communicators: do the tags agree?  Tags of nonblocking
 * collectives are not compared. */
static bool is_same_in_other(const struct inspect_mpi *wanted, const struct inspect_mpi *is)
{
    if (wanted->is_collective != is->is_collective || wanted->is_of_group != is->is_of_group)
        return false;
    return wanted->is_any_tag || wanted->tag == is->tag ||
           (wanted->is_nonblocking && is->is_nonblocking);
}

/* Compares the communicator and the tag of a message at rank with a receive's.  Where the MPI
 * packs both into the tag, also with the source, they are separated.  Only collectives use the
 * parts of a communicator.  *tag: how the tag differs, or NULL. */
static void compare(const struct inspect_rank *rank, const struct inspect_entry *receive,
                    const struct inspect_entry *message, bool *other_communicator,
                    const char **tag)
{
    uint64_t differ = (receive->tag ^ message->tag) &
                      ~(receive->ignore | inspect_mpi_source_bits(rank->layout));
    struct inspect_mpi wanted, is;

    *other_communicator = receive->context_id != message->context_id;
    *tag = differ != 0 ? "the tag differs" : NULL;
    if (differ == 0 ||
        !inspect_mpi_decode(rank->layout, receive->context_id, receive->tag, receive->ignore,
                            &wanted) ||
        !inspect_mpi_decode(rank->layout, message->context_id, message->tag, 0, &is))
        return;
    *other_communicator |=
        wanted.communicator != is.communicator || wanted.generation != is.generation ||
        (wanted.is_collective == is.is_collective && diagnose_is_other_part(&wanted, &is));
    *tag = !*other_communicator              ? why_of_tags(&wanted, &is)
           : !is_same_in_other(&wanted, &is) ? "the tag differs"
                                             : NULL;
}

static bool is_any_tag(const struct inspect_rank *rank, const struct inspect_entry *receive)
{
    struct inspect_mpi mpi;

    return receive->ignore == UINT64_MAX ||
           (inspect_mpi_decode(rank->layout, receive->context_id, receive->tag, receive->ignore,
                               &mpi) &&
            mpi.is_any_tag);
}

static bool is_other_source(const struct inspect_rank *rank,
                            const struct inspect_entry *receive,
                            const struct inspect_entry *message, uint64_t sender)
{
    uint64_t differ = (receive->tag ^ message->tag) & ~receive->ignore;

    if (receive->peer == INSPECT_NOBODY)
        return (differ & inspect_mpi_source_bits(rank->layout)) != 0;
    return receive->whom != sender;
}

/* Returns the difference if a message differs from this receive in only one respect, or agrees
 * only in the tag that the receive names; otherwise NULL. */
static const char *near_miss(const struct inspect_rank *rank,
                             const struct inspect_entry *receive,
                             const struct inspect_entry *message, uint64_t sender)
{
    bool other_source = is_other_source(rank, receive, message, sender);
    bool other_communicator;
    const char *tag;

    compare(rank, receive, message, &other_communicator, &tag);
    if (tag != NULL)
        return other_communicator || other_source ? NULL : tag;
    if (other_source && other_communicator)
        return is_any_tag(rank, receive) ? NULL : "the source and the communicator differ";
    return other_communicator ? "the communicator differs"
           : other_source     ? "the source differs"
                              : NULL;
}

/* The number of unexpected messages of a rank like this one; 0 if an earlier entry is one of
 * them. */
static uint32_t count_alike(const struct inspect_rank *rank, uint32_t which)
{
    const struct inspect_entry *message = &rank->entries[which];
    uint32_t count = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *other = &rank->entries[i];

        if (other->kind != INSPECT_UNEXPECTED || other->context_id != message->context_id ||
            other->tag != message->tag || other->whom != message->whom)
            continue;
        if (i < which)
            return 0;
        count++;
    }
    return count;
}

#define MISSES_MAX 8 /* kinds of near misses */

/* Reports unexpected messages that nearly match this receive of job->ranks[at]. */
static void say_near_misses(FILE *out, const struct inspect_job *job, uint32_t at,
                            const struct inspect_entry *receive)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char peer[WORDS_MAX], envelope[WORDS_MAX];
    uint32_t shown = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *message = &rank->entries[i];
        const char *why = message->kind == INSPECT_UNEXPECTED
                              ? near_miss(rank, receive, message, message->whom)
                              : NULL;
        uint32_t alike = why != NULL ? count_alike(rank, i) : 0;

        if (alike == 0)
            continue;
        if (shown++ == MISSES_MAX) {
            fprintf(out, "    and others are unexpected there (mbx queues)\n");
            break;
        }
        fprintf(out, "    %s from %s is unexpected there: %s",
                words_of_envelope(rank, message, envelope),
                words_of_peer(job, at, message, peer), why);
        if (alike > 1)
            fprintf(out, " (%" PRIu32 " such messages are shown)", alike);
        fputc('\n', out);
    }
}

/* ---- sends that are not received ---- */

/* Reports a send that has not left because its receiver accepts no more unexpected messages. */
void diagnose_say_window(FILE *out, const struct inspect_job *job, uint32_t whose,
                         const struct inspect_entry *entry)
{
    char words[WORDS_MAX];

    if (!(entry->flags & INSPECT_ENTRY_DEFERRED) || whose == INSPECT_NOBODY ||
        job->ranks[whose].state.counts[INSPECT_UNEXPECTED] == 0)
        return;
    words_of_rank(&job->ranks[whose], words);
    fprintf(out,
            "    the space for unexpected messages is used up: rank %s holds %" PRIu32
            " messages that it has not received, and keeps no more of this sender "
            "(MBX_UNEXPECTED_MEMORY)\n",
            words, job->ranks[whose].state.counts[INSPECT_UNEXPECTED]);
}

/* Open MPI waits for the acknowledgement of a synchronous send in a receive of its own. */
bool diagnose_is_acknowledgement(const struct inspect_rank *rank,
                                 const struct inspect_entry *entry)
{
    struct inspect_mpi mpi;

    return entry->kind == INSPECT_POSTED &&
           inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore,
                              &mpi) &&
           mpi.is_acknowledgement;
}

/* "its send to 1 (tag 7 on MPI_COMM_WORLD, 4 bytes) is not received by 1" */
static void say_send(FILE *out, const struct inspect_rank *rank,
                     const struct inspect_entry *entry, const char *peer)
{
    static const char acknowledged[] = " acknowledgement";
    char envelope[WORDS_MAX], *cut;

    words_of_envelope(rank, entry, envelope);
    cut = strstr(envelope, acknowledged);
    if (cut != NULL)
        memmove(cut, cut + sizeof acknowledged - 1, strlen(cut + sizeof acknowledged - 1) + 1);
    fprintf(out, "  its send to %s (%s", peer, envelope);
    if (entry->kind == INSPECT_SEND)
        fprintf(out, ", %" PRIu64 " bytes", entry->size);
    fprintf(out, ") is not received by %s", peer);
}

/* ---- requests that were never started ---- */

/* Reads the next line `unstarted send|receive CONTEXT TAG IGNORE WHOM` of a page's text.
 * False: there is none. */
static bool next_unstarted(const char **at, bool *is_send, struct inspect_entry *entry)
{
    while (*at != NULL && (*at = strchr(*at, '\n')) != NULL) {
        char kind[8];

        ++*at;
        if (strncmp(*at, "unstarted ", 10) != 0)
            continue;
        *entry = (struct inspect_entry){.kind = INSPECT_NONE};
        if (sscanf(*at + 10, "%7s %" SCNu32 " %" SCNu64 " %" SCNu64 " %16" SCNx64, kind,
                   &entry->context_id, &entry->tag, &entry->ignore, &entry->whom) != 5)
            continue;
        *is_send = strcmp(kind, "send") == 0;
        entry->peer = entry->whom == 0 ? INSPECT_NOBODY : 0;
        return true;
    }
    return false;
}

/* Would the other rank's operation complete this one if it were started? */
static bool would_end(const struct inspect_job *job, uint32_t at,
                      const struct inspect_entry *entry, uint32_t whose, bool is_send,
                      const struct inspect_entry *unstarted)
{
    if (is_send)
        return entry->kind == INSPECT_POSTED &&
               unstarted->whom == job->ranks[at].head.address &&
               inspect_accepts(job, at, entry, whose, unstarted);
    return entry->kind == INSPECT_SEND && inspect_accepts(job, whose, unstarted, at, entry);
}

/* Reports that the other rank has called MPI_Send_init, or MPI_Recv_init, for this operation,
 * but not MPI_Start. */
static void say_unstarted(FILE *out, const struct inspect_job *job, uint32_t at,
                          const struct inspect_entry *entry, uint32_t whose)
{
    const char *text = whose != INSPECT_NOBODY ? job->ranks[whose].text : NULL;
    struct inspect_entry unstarted;
    char words[WORDS_MAX];
    bool is_send;

    while (next_unstarted(&text, &is_send, &unstarted))
        if (would_end(job, at, entry, whose, is_send, &unstarted)) {
            fprintf(out, "    rank %s has described this %s (%s) and never started it\n",
                    words_of_rank(&job->ranks[whose], words), is_send ? "send" : "receive",
                    is_send ? "MPI_Send_init" : "MPI_Recv_init");
            return;
        }
}

/* ---- the operation ---- */

void diagnose_say_entry(FILE *out, const struct inspect_job *job,
                        const enum inspect_node *nodes, uint32_t at,
                        const struct inspect_entry *entry)
{
    const struct inspect_rank *rank = &job->ranks[at];
    uint32_t whose = inspect_whose(job, at, entry);
    char peer[WORDS_MAX], envelope[WORDS_MAX];
    bool is_send;

    words_of_peer(job, at, entry, peer);
    is_send = entry->kind == INSPECT_SEND || diagnose_is_acknowledgement(rank, entry);
    if (is_send)
        say_send(out, rank, entry, peer);
    else
        fprintf(out, "  it waits for %s from %s", words_of_envelope(rank, entry, envelope),
                peer);
    if (whose == at)
        fprintf(out, ", which is itself");
    else if (whose != INSPECT_NOBODY && nodes[whose] == INSPECT_OVER)
        fprintf(out, ", which is in %s", job->ranks[whose].state.call);
    else if (is_send && whose != INSPECT_NOBODY && inspect_is_probed(job, whose, at, entry))
        fprintf(out, ", where a matched probe has taken it");
    else if (entry->peer == INSPECT_NOBODY)
        fprintf(out, ", and nobody is left to send it");
    else if (whose != INSPECT_NOBODY)
        fprintf(out, inspect_polls(&job->ranks[whose]) ? ", which polls" : ", which waits too");
    fputc('\n', out);
    if (is_send)
        diagnose_say_window(out, job, whose, entry);
    else
        say_near_misses(out, job, at, entry);
    say_unstarted(out, job, at, entry, whose);
}
