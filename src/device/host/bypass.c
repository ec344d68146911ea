/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass.c - see bypass.h.
 */
#include "device/host/bypass.h"

static struct shadow_message *message_of(struct list *node)
{
    return container_of(node, struct shadow_message, node);
}

/* Sources that share a slot only wait for each other. */
static uint32_t source_slot(const struct shadow_message *message)
{
    return message->envelope.source % SHADOW_SOURCES;
}

/* Is a receive being revoked that accepts the message? */
static bool fits_asked(const struct shadow *shadow, const struct shadow_message *message)
{
    struct list *node;

    list_for_each (node, &shadow->asked)
        if (shadow_accepts(container_of(node, struct shadow_recv, node)->match,
                           &message->envelope))
            return true;
    return false;
}

/* ---- the list ---- */

/* next: the message is inserted before this node, or the head of the list. */
static void park(struct shadow *shadow, struct shadow_message *message, struct list *next)
{
    list_add_tail(next, &message->node);
    shadow->parked_from[source_slot(message)]++;
}

static void unpark(struct shadow *shadow, struct shadow_message *message)
{
    list_remove(&message->node);
    shadow->parked_from[source_slot(message)]--;
}

/* ---- one message ---- */

static bool keep(struct shadow *shadow, struct shadow_message *message)
{
    bool is_kept = shadow->events->keep(shadow->arg, message) == 0;

    shadow->must_recheck |= !is_kept;
    return is_kept;
}

/* False: the message has to be parked. */
static bool settle(struct shadow *shadow, struct shadow_message *message)
{
    struct shadow_recv *recv;

    if (fits_asked(shadow, message))
        return false;
    recv = shadow->events->find(shadow->arg, message);
    if (recv == NULL)
        return keep(shadow, message);
    if (!shadow_reclaim(shadow, recv)) {
        recv->message = message;
        message->recv = recv;
        return false;
    }
    shadow->events->met(shadow->arg, message, recv);
    return true;
}

void bypass_arrive(struct shadow *shadow, struct shadow_message *message)
{
    message->recv = NULL;
    list_init_node(&message->node);
    if (shadow->parked_from[source_slot(message)] == 0 && settle(shadow, message))
        return;
    shadow->stats.parked++;
    park(shadow, message, &shadow->parked);
}

/* ---- all messages ---- */

/* False: the message stays parked. */
static bool recheck(struct shadow *shadow, struct shadow_message *message, struct list *next)
{
    if (message->recv != NULL)
        return false;
    unpark(shadow, message);
    if (settle(shadow, message))
        return true;
    park(shadow, message, next);
    return false;
}

void bypass_recheck(struct shadow *shadow)
{
    uint64_t stays = 0; /* bit per source slot: a message of it stays */
    struct list *node, *next;

    if (!shadow->must_recheck)
        return;
    shadow->must_recheck = false;
    list_for_each_safe (node, next, &shadow->parked) {
        uint64_t source = UINT64_C(1) << source_slot(message_of(node));

        if ((stays & source) == 0 && !recheck(shadow, message_of(node), next))
            stays |= source;
    }
}

/* ---- answers ---- */

void bypass_asked(struct shadow *shadow, struct shadow_recv *recv)
{
    list_init_node(&recv->node);
    list_add_tail(&shadow->asked, &recv->node);
}

/* The device has answered about recv. */
static struct shadow_message *answered(struct shadow *shadow, struct shadow_recv *recv)
{
    struct shadow_message *message = recv->message;

    list_remove(&recv->node);
    recv->message = NULL;
    shadow->must_recheck = true;
    if (message != NULL)
        message->recv = NULL;
    return message;
}

void bypass_in_time(struct shadow *shadow, struct shadow_recv *recv)
{
    struct shadow_message *message = answered(shadow, recv);

    if (message == NULL) {
        shadow->events->revoked(shadow->arg, recv);
        return;
    }
    unpark(shadow, message);
    shadow->events->met(shadow->arg, message, recv);
}

void bypass_too_late(struct shadow *shadow, struct shadow_recv *recv)
{
    answered(shadow, recv);
}

/* ---- open, and for tests ---- */

void bypass_init(struct shadow *shadow)
{
    list_init(&shadow->asked);
    list_init(&shadow->parked);
}

static bool asked_are_valid(const struct shadow *shadow)
{
    struct list *node;

    list_for_each (node, &shadow->asked) {
        const struct shadow_recv *recv = container_of(node, struct shadow_recv, node);

        if (recv->state != SHADOW_REVOKING && recv->state != SHADOW_RECLAIMED)
            return false;
        if (recv->message != NULL &&
            (recv->state != SHADOW_RECLAIMED || recv->message->recv != recv))
            return false;
    }
    return true;
}

bool bypass_is_valid(const struct shadow *shadow)
{
    uint32_t from[SHADOW_SOURCES] = {0};
    struct list *node;

    list_for_each (node, &shadow->parked) {
        const struct shadow_message *message = message_of(node);

        if (message->recv != NULL && message->recv->message != message)
            return false;
        if (from[source_slot(message)]++ == 0 && message->recv == NULL &&
            !fits_asked(shadow, message) && !shadow->must_recheck)
            return false;
    }
    for (uint32_t i = 0; i < SHADOW_SOURCES; i++)
        if (from[i] != shadow->parked_from[i])
            return false;
    return asked_are_valid(shadow);
}
