/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - with MBX_LOG_LEVEL=info, for a program that has named itself (names.c): one line
 * that it runs over Matchbox and how, and, when its endpoint is closed, one line with counts.
 *
 *   rank 0 of 4: over Matchbox 0.1.0 by the component, Open MPI v4.1.4; transport shm, ...
 *   rank 0: matched 12 messages, 3 of them unexpected (at most 2 at a time); sent 14; ...
 *
 * It also logs, as a warning, each peer for which a request fails, or that is found to have died:
 *
 *   rank 1 (process 4711) has ended: the peer has closed its endpoint or has died; look at its output
 *
 * A transport warns of a peer with another version of the library (transport/version.h).
 */
#include "base/launcher.h"
#include "core/core.h"
#include "core/names.h"
#include "core/stats.h"

#include <stdio.h>

#define TEXT_MAX 96

/* " of 4" and ", ranks here 2", if a launcher has set them. */
static void report_counts(char of[TEXT_MAX], char here[TEXT_MAX])
{
    of[0] = here[0] = '\0';
    if (launcher_ranks() != NULL)
        snprintf(of, TEXT_MAX, " of %s", launcher_ranks());
    if (launcher_local_ranks() != NULL)
        snprintf(here, TEXT_MAX, ", ranks here %s", launcher_local_ranks());
}

/* Does a program of this way, the first word of what it has named itself, run over ep? */
static bool is_by(const struct mbx_ep *ep, const char *way)
{
    size_t length = strlen(way);

    return strncmp(ep->names.program, way, length) == 0 && ep->names.program[length] == ' ';
}

void report_start(const struct mbx_ep *ep)
{
    const char *program = ep->names.program, *version = strchr(program, ' ');
    char of[TEXT_MAX], here[TEXT_MAX];

    if (version == NULL)
        return;
    report_counts(of, here);
    LOG_INFO("rank %s%s: over Matchbox %s by %s%.*s, %.*s; transport %s, %s%s",
             launcher_rank() != NULL ? launcher_rank() : "?", of, mbx_version(),
             is_by(ep, "ucp") ? "lib" : "the ", (int)(version - program), program,
             (int)strcspn(version + 1, ","), version + 1, ep->net.transport->ops->name,
             ep->settings.threads == THREADS_MANY ? "many threads" : "one thread", here);
}

void report_end(const struct mbx_ep *ep)
{
    struct stats stats;
    uint64_t sent = 0;

    if (ep->names.program[0] == '\0')
        return;
    stats_read(ep, &stats);
    for (int i = 0; i < MBX_PROTOCOLS; i++)
        sent += stats.sent[i];
    LOG_INFO(
        "rank %s: matched %llu messages, %llu of them unexpected (at most %llu at a time); "
        "sent %llu; contacted %llu peers; at most %llu receives were posted",
        launcher_rank() != NULL ? launcher_rank() : "?",
        (unsigned long long)(stats.expected + stats.unexpected),
        (unsigned long long)stats.unexpected, (unsigned long long)stats.unexpected_max,
        (unsigned long long)sent, (unsigned long long)stats.peers,
        (unsigned long long)stats.posted_max);
}

static struct transport_who who_is(const struct peer *peer)
{
    const struct transport_ops *ops = peer->link->transport->ops;

    return ops->who != NULL ? ops->who(peer->link) : (struct transport_who){0};
}

/* "rank 1 (process 4711)", if these are known. */
static void report_peer(const struct peer *peer, char text[TEXT_MAX])
{
    struct transport_who who = who_is(peer);
    int length;

    length = who.rank != 0 ? snprintf(text, TEXT_MAX, "rank %u", who.rank - 1)
                           : snprintf(text, TEXT_MAX, "peer %u", peer->number);
    if (who.pid != 0)
        snprintf(text + length, TEXT_MAX - (size_t)length, " (process %u)", who.pid);
}

void report_end_of(const struct mbx_ep *ep, struct peer *peer, int error)
{
    char text[TEXT_MAX];

    if (peer->health.is_reported || (error != -ENOTCONN && error != -EHOSTUNREACH) ||
        (!is_by(ep, "provider") && !is_by(ep, "ucp")))
        return;
    peer->health.is_reported = true;
    report_peer(peer, text);
    if (error == -EHOSTUNREACH) /* it may be alive: it has another key, or is on another
                                   machine */
        LOG_WARN("%s cannot be reached: it has another MBX_KEY, is on another host without a "
                 "network (mbx info --network), or ended before the first contact",
                 text);
    else
        LOG_WARN("%s has ended: %s; look at its output", text, mbx_strerror(error));
}

void report_death_of(const struct mbx_ep *ep, struct peer *peer)
{
    if (who_is(peer).rank != 0)
        report_end_of(ep, peer, -ENOTCONN);
}

void report_lost(const struct mbx_ep *ep, struct peer *peer, int error)
{
    char text[NAMES_PEER_TEXT];

    if (peer->health.is_loss_reported)
        return;
    peer->health.is_loss_reported = true;
    LOG_WARN("a message to %s was lost after its send was complete: %s; look at the output of "
             "that rank (further ones to it are only counted: send_errors)",
             names_peer_text(ep, peer->number, text), mbx_strerror(error));
}
