/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * object.c - the objects of applications, by handle.
 *
 * A handle is an index and eight bits that change each time the index is reused, so the handle
 * of a destroyed object does not name another object for a while.  In a client's list, queue
 * pairs come first.
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"

static struct object *table[ADAPTER_OBJECTS_MAX + 1]; /* 0 is not used */
static uint8_t generation[ADAPTER_OBJECTS_MAX + 1];
static uint32_t next_index = 1, count, top;

int object_add(struct object *object, enum kind kind, struct client *client)
{
    if (count == ADAPTER_OBJECTS_MAX)
        return -ENOMEM;
    while (table[next_index] != NULL)
        next_index = next_index == ADAPTER_OBJECTS_MAX ? 1 : next_index + 1;
    object->kind = kind;
    object->client = client;
    object->handle = next_index << 8 | ++generation[next_index];
    object->users = 0;
    table[next_index] = object;
    top = next_index > top ? next_index : top;
    next_index = next_index == ADAPTER_OBJECTS_MAX ? 1 : next_index + 1;
    count++;
    list_init_node(&object->node);
    if (kind == KIND_QP)
        list_add_head(&client->objects, &object->node);
    else
        list_add_tail(&client->objects, &object->node);
    return 0;
}

void objects_forget(void)
{
    memset(table, 0, sizeof table);
    count = top = 0;
    next_index = 1;
}

void object_remove(struct object *object)
{
    table[object->handle >> 8] = NULL;
    list_remove(&object->node);
    count--;
}

void *object_any(enum kind kind, uint32_t handle)
{
    struct object *object = handle >> 8 <= ADAPTER_OBJECTS_MAX ? table[handle >> 8] : NULL;

    return object != NULL && object->handle == handle && object->kind == kind ? object : NULL;
}

void *object_find(const struct client *client, enum kind kind, uint32_t handle)
{
    struct object *object = object_any(kind, handle);

    return object != NULL && object->client == client ? object : NULL;
}

void *object_next(enum kind kind, uint32_t *cursor)
{
    while (*cursor < top) {
        struct object *object = table[++*cursor];

        if (object != NULL && object->kind == kind)
            return object;
    }
    return NULL;
}
