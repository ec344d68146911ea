/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.c - names that a program sets: mbx_name_program(), mbx_name_context(), mbx_name_peer().
 *
 * A writer of names (a trace) compares ep->names.changes with the last change that it has seen,
 * and then the change of each name.
 *
 * A context id keeps its name until it gets another one: so output at the close of an endpoint
 * also names communicators that were freed.
 */
#include "base/array.h"
#include "base/environ.h"
#include "base/launcher.h"
#include "base/text.h"
#include "core/core.h"
#include "core/names.h"
#include "inspect/page.h"

#include <stdio.h>

/* Copies one line: characters that do not print become spaces. */
static void names_copy(char text[NAMES_TEXT_MAX], const char *from)
{
    memset(text, 0, NAMES_TEXT_MAX);
    for (size_t i = 0; i < NAMES_TEXT_MAX - 1 && from[i] != '\0'; i++)
        text[i] = from[i];
    text_make_printable(text, ' ', false);
}

/* ---- finding ---- */

static struct named_context *names_find(const struct mbx_ep *ep, uint32_t id)
{
    for (uint32_t i = 0; i < ep->names.context_count; i++)
        if (ep->names.contexts[i].id == id)
            return &ep->names.contexts[i];
    return NULL;
}

const struct named_context *names_context(const struct mbx_ep *ep, uint32_t id)
{
    return names_find(ep, id);
}

const struct named_peer *names_peer(const struct mbx_ep *ep, uint32_t number)
{
    if (number >= ep->names.peer_slots || ep->names.peers[number].change == 0)
        return NULL;
    return &ep->names.peers[number];
}

const char *names_peer_text(const struct mbx_ep *ep, uint32_t number,
                            char text[NAMES_PEER_TEXT])
{
    const struct named_peer *named = names_peer(ep, number);

    if (named == NULL)
        snprintf(text, NAMES_PEER_TEXT, "peer %u", number);
    else if (named->job == 0)
        snprintf(text, NAMES_PEER_TEXT, "rank %u", named->rank);
    else
        snprintf(text, NAMES_PEER_TEXT, "rank %u of job %u", named->rank, named->job);
    return text;
}

/* ---- naming ---- */

static struct named_context *names_add_context(struct mbx_ep *ep, uint32_t id)
{
    struct ep_names *names = &ep->names;

    if (!array_reserve(names->contexts, names->context_slots, names->context_count + 1))
        return NULL;
    names->contexts[names->context_count] = (struct named_context){.id = id};
    return &names->contexts[names->context_count++];
}

static int names_set_context(struct mbx_ep *ep, uint32_t id, const char *name, uint32_t size)
{
    struct named_context *named = names_find(ep, id);
    char text[NAMES_TEXT_MAX];

    names_copy(text, name);
    if (named == NULL && (named = names_add_context(ep, id)) == NULL)
        return -ENOMEM;
    if (named->change != 0 && named->size == size && strcmp(named->name, text) == 0)
        return 0;
    memcpy(named->name, text, sizeof text);
    named->size = size;
    named->change = ++ep->names.changes;
    return 0;
}

static int names_set_peer(struct mbx_ep *ep, uint32_t number, uint32_t job, uint32_t rank)
{
    struct named_peer *named;

    if (!array_reserve_zeroed(ep->names.peers, ep->names.peer_slots, number + 1))
        return -ENOMEM;
    named = &ep->names.peers[number];
    ep->names.has_others = ep->names.has_others || job != 0;
    if (named->change == 0 || named->job != job || named->rank != rank)
        *named = (struct named_peer){.job = job, .rank = rank, .change = ++ep->names.changes};
    return 0;
}

void names_forget_peer(struct mbx_ep *ep, uint32_t number)
{
    if (number < ep->names.peer_slots)
        ep->names.peers[number] = (struct named_peer){0};
}

/* ---- what has no effect ---- */

/* A record, or replay, that does not happen must not go unnoticed.  One rank of the job is enough. */
static void warn_of_order(void)
{
    uint32_t rank = launcher_number(launcher_rank());
    const char *name;

    if (rank != 0 && rank != LAUNCHER_UNKNOWN)
        return;
    for (size_t i = 0; (name = environ_next_order(&i)) != NULL;)
        LOG_WARN("%s has no effect on messages through libfabric or libucp: only the "
                 "component for Open MPI records and replays (mbx exec --through=pml)",
                 name);
}

int mbx_name_program(struct mbx_ep *ep, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return log_argument("mbx_name_program", "text", 0, "NULL or empty");
    ep_lock(ep);
    names_copy(ep->names.program, text);
    if (ep->observed.page != NULL) /* also for an observer that finds it before it answers */
        memcpy(ep->observed.page->head.mpi, ep->names.program, INSPECT_MPI_TEXT - 1);
    ep->names.program_change = ++ep->names.changes;
    ep_unlock_unchanged(ep);
    if (ep->settings.strict_sends && strncmp(text, "provider", 8) == 0)
        LOG_WARN("MBX_STRICT_SENDS has no effect through the provider: only the component for "
                 "Open MPI has it (mbx exec --through=pml)");
    if (strncmp(text, "component", 9) != 0)
        warn_of_order();
    report_start(ep);
    return 0;
}

int mbx_explain_waits(struct mbx_ep *ep,
                      uint32_t (*waits)(const void *user, enum mbx_queue kind))
{
    ep_lock(ep);
    ep->observed.waits = waits;
    ep_unlock_unchanged(ep);
    return 0;
}

int mbx_explain_threads(struct mbx_ep *ep, int (*threads)(unsigned index, uint32_t *id),
                        int (*waiter)(const void *user, enum mbx_queue kind))
{
    ep_lock(ep);
    ep->observed.threads = threads;
    ep->observed.waiter = waiter;
    ep_unlock_unchanged(ep);
    return 0;
}

int mbx_explain_unstarted(struct mbx_ep *ep,
                          int (*unstarted)(unsigned index, struct mbx_unstarted *out))
{
    ep_lock(ep);
    ep->observed.unstarted = unstarted;
    ep_unlock_unchanged(ep);
    return 0;
}

int mbx_name_context(struct mbx_ep *ep, uint32_t context_id, const char *name, uint32_t size)
{
    int err;

    if (context_id > MBX_CONTEXT_MAX)
        return log_argument("mbx_name_context", "context_id", context_id,
                            "above MBX_CONTEXT_MAX");
    if (name == NULL)
        return log_argument("mbx_name_context", "name", 0, "NULL");
    ep_lock(ep);
    err = names_set_context(ep, context_id, name, size);
    ep_unlock_unchanged(ep);
    return err;
}

int mbx_name_peer(struct mbx_ep *ep, uint32_t peer, uint32_t job, uint32_t rank)
{
    int err = -EINVAL;

    ep_lock(ep);
    if (peer < ep->peers.count && !peer_is_free(ep, peer))
        err = names_set_peer(ep, peer, job, rank);
    ep_unlock_unchanged(ep);
    return err != -EINVAL ? err : log_argument("mbx_name_peer", "peer", peer, "no such peer");
}

void names_fini(struct mbx_ep *ep)
{
    mem_free(ep->names.contexts);
    mem_free(ep->names.peers);
}
