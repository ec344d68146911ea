/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_names.c - see trace_names.h.
 */
#include "trace_names.h"

struct name {
    uint32_t kind, what;
    uint64_t id;
};

static uint64_t name_hash(const void *arg, const void *slot)
{
    const struct name *name = slot;

    (void)arg;
    return hash_spread(name->id ^ (uint64_t)name->kind << 60);
}

static bool name_is(const void *arg, const void *slot, const void *key)
{
    const struct name *name = slot, *wanted = key;

    (void)arg;
    return name->kind == wanted->kind && name->id == wanted->id;
}

static const struct hash_kind by_id = {sizeof(struct name), name_hash, name_is};

static struct name *slot_of(const struct hash *names, const struct name *name)
{
    return hash_find(names, &by_id, NULL, name_hash(NULL, name), name);
}

uint32_t names_find(const struct hash *names, enum name_kind kind, uint64_t id)
{
    const struct name *slot = slot_of(names, &(struct name){.kind = kind, .id = id});

    return slot != NULL ? slot->what : NAME_NONE;
}

bool names_put(struct hash *names, enum name_kind kind, uint64_t id, uint32_t what)
{
    const struct name name = {.kind = kind, .what = what, .id = id};
    struct name *slot = slot_of(names, &name);

    if (slot == NULL)
        return hash_add(names, &by_id, NULL, &name) == 0;
    slot->what = what;
    return true;
}
