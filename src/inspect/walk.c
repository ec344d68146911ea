/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.c - see walk.h.
 *
 * The data may be invalid: the process may be running meanwhile, or its memory may be corrupt.
 * So every number is checked before it is used to read memory.
 */
#include "inspect/walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"

#define OBJECT_MAX    4096       /* bytes of a request or message, with its slot */
#define SLOTS_MAX     (1u << 21) /* the most that are read */
#define PEERS_MAX     (1u << 24)
#define PROTOCOLS_MAX 64
#define FIELDS_MAX    1024
#define CONTEXTS_MAX  65536u

struct walk {
    const struct inspect_map *map;
    const struct inspect_source *source;
    uint64_t addresses; /* of the peers */
    uint32_t peers;
    uint32_t
        named; /* the peer whose name was read last: entries of one peer are often next to each
                  other */
    uint64_t name; /* 0: none was read */
    struct inspect_entry *entries;
    uint32_t capacity, *stored, *counts;
};

struct envelope {
    uint32_t context_id, source;
    uint64_t tag;
};

/* ---- the layout ---- */

static bool map_is_valid(const struct inspect_map *map)
{
    const uint32_t *at = map->offsets;

    return at[INSPECT_SLOT_BYTES] >= sizeof(uint64_t) && at[INSPECT_SLOT_BYTES] <= OBJECT_MAX &&
           at[INSPECT_REQUEST_BYTES] <= OBJECT_MAX - at[INSPECT_SLOT_BYTES] &&
           at[INSPECT_MESSAGE_BYTES] <= OBJECT_MAX - at[INSPECT_SLOT_BYTES] &&
           at[INSPECT_ADDRESS_BYTES] <= OBJECT_MAX && at[INSPECT_PROTOCOLS] <= PROTOCOLS_MAX &&
           at[INSPECT_CONTEXT_BYTES] <= OBJECT_MAX && at[INSPECT_NAMED_BYTES] <= OBJECT_MAX;
}

static enum inspect_field field_of(const char name[INSPECT_FIELD_TEXT])
{
    static const char *const names[INSPECT_FIELDS] = {
#define NAME(name) [INSPECT_##name] = #name,
        INSPECT_FIELD_LIST(NAME)
#undef NAME
    };
    unsigned field = 0;

    while (field < INSPECT_FIELDS && strncmp(names[field], name, INSPECT_FIELD_TEXT) != 0)
        field++;
    return (enum inspect_field)field;
}

int inspect_map_read(const struct inspect_source *source, uint64_t root,
                     struct inspect_map *map)
{
    __typeof__(((struct inspect_root *)0)->at[0]) at;
    bool has[INSPECT_FIELDS] = {false};
    struct inspect_root head;
    uint32_t found = 0;
    int err = source->read(source, root, &head, offsetof(struct inspect_root, at));

    if (err != 0)
        return err;
    if (memcmp(head.magic, INSPECT_ROOT_MAGIC, sizeof head.magic) != 0 ||
        head.version != INSPECT_VERSION || head.fields > FIELDS_MAX)
        return -EBADMSG;
    map->endpoints = (uint64_t)(uintptr_t)head.endpoints;
    memcpy(map->kinds, head.kinds, sizeof map->kinds);
    for (uint32_t i = 0; i < head.fields; i++) {
        enum inspect_field field;

        err = source->read(source, root + offsetof(struct inspect_root, at) + i * sizeof at,
                           &at, sizeof at);
        if (err != 0)
            return err;
        field = field_of(at.name);
        if (field == INSPECT_FIELDS)
            continue;
        found += !has[field];
        has[field] = true;
        map->offsets[field] = at.value;
    }
    return found == INSPECT_FIELDS && map_is_valid(map) ? 0 : -EBADMSG;
}

static int get(const struct walk *walk, uint64_t at, void *to, size_t size)
{
    return walk->source->read(walk->source, at, to, size);
}

static int get_field(const struct walk *walk, uint64_t at, enum inspect_field field, void *to,
                     size_t size)
{
    return get(walk, at + walk->map->offsets[field], to, size);
}

/* ---- fields of an object that was read ---- */

/* Copies a field of the object: false if it is not inside the object. */
static bool walk_take(const struct walk *walk, const unsigned char *object, size_t size,
                      enum inspect_field field, size_t more, void *to, size_t length)
{
    size_t at = (size_t)walk->map->offsets[field] + more;

    if (at > size || length > size - at)
        return false;
    memcpy(to, object + at, length);
    return true;
}

#define TAKE(field, more, to) walk_take(walk, object, size, field, more, to, sizeof *(to))

/* The name of a peer, or 0. */
static uint64_t walk_name_of(struct walk *walk, uint32_t peer)
{
    unsigned char address[OBJECT_MAX];
    size_t size = walk->map->offsets[INSPECT_ADDRESS_BYTES];

    if (walk->name != 0 && peer == walk->named)
        return walk->name;
    if (peer >= walk->peers || get(walk, walk->addresses + peer * size, address, size) != 0)
        return 0;
    walk->named = peer;
    walk->name = inspect_address_name(address, size, walk->map->offsets[INSPECT_ADDRESS_SKIP]);
    return walk->name;
}

static void walk_add(struct walk *walk, const struct inspect_entry *entry)
{
    walk->counts[entry->kind]++;
    if (*walk->stored >= walk->capacity)
        return;
    walk->entries[*walk->stored] = *entry;
    walk->entries[*walk->stored].whom = walk_name_of(walk, entry->peer);
    (*walk->stored)++;
}

/* Adds the entry of a request.  0; -EBADMSG. */
static int add_request(struct walk *walk, const unsigned char *object, size_t size, uint64_t id)
{
    const uint32_t *value = walk->map->offsets;
    struct inspect_entry entry = {.id = id, .waited_ms = INSPECT_NOT_KNOWN};
    struct envelope envelope;
    uint32_t flags, queued;
    uint8_t state;

    if (!TAKE(INSPECT_REQUEST_STATE, 0, &state) || !TAKE(INSPECT_REQUEST_FLAGS, 0, &flags))
        return -EBADMSG;
    entry.kind = walk->map->kinds[state];
    if (entry.kind == INSPECT_NONE || entry.kind >= INSPECT_KINDS)
        return 0;
    entry.flags =
        (uint8_t)((flags & value[INSPECT_VALUE_SYNC] ? INSPECT_ENTRY_SYNC : 0) |
                  (flags & value[INSPECT_VALUE_INTERNAL] ? INSPECT_ENTRY_INTERNAL : 0) |
                  (state == value[INSPECT_VALUE_DEFERRED] ? INSPECT_ENTRY_DEFERRED : 0));
    if (entry.kind == INSPECT_POSTED) {
        if (!TAKE(INSPECT_REQUEST_QUEUED, 0, &queued))
            return -EBADMSG;
        if (queued != value[INSPECT_VALUE_QUEUED])
            return 0; /* it is entering or leaving its queue */
        if (!TAKE(INSPECT_REQUEST_ENVELOPE, 0, &envelope) ||
            !TAKE(INSPECT_REQUEST_IGNORE, 0, &entry.ignore) ||
            !TAKE(INSPECT_REQUEST_SEQ, 0, &entry.age) ||
            !TAKE(INSPECT_REQUEST_SIZE, 0, &entry.size))
            return -EBADMSG;
        entry.context_id = envelope.context_id;
        entry.peer = envelope.source;
        entry.tag = envelope.tag;
    } else if (!TAKE(INSPECT_REQUEST_STATUS, value[INSPECT_STATUS_CONTEXT],
                     &entry.context_id) ||
               !TAKE(INSPECT_REQUEST_STATUS, value[INSPECT_STATUS_SOURCE], &entry.peer) ||
               !TAKE(INSPECT_REQUEST_STATUS, value[INSPECT_STATUS_TAG], &entry.tag) ||
               !TAKE(INSPECT_REQUEST_STATUS, value[INSPECT_STATUS_SIZE], &entry.size)) {
        return -EBADMSG;
    }
    walk_add(walk, &entry);
    return 0;
}

static int add_message(struct walk *walk, const unsigned char *object, size_t size, uint64_t id)
{
    const uint32_t *value = walk->map->offsets;
    struct inspect_entry entry = {
        .kind = INSPECT_UNEXPECTED, .id = id, .waited_ms = INSPECT_NOT_KNOWN};
    struct envelope envelope;
    uint32_t queued, held;
    uint64_t more;

    if (!TAKE(INSPECT_MESSAGE_QUEUED, 0, &queued) ||
        !TAKE(INSPECT_MESSAGE_ENVELOPE, 0, &envelope) ||
        !TAKE(INSPECT_MESSAGE_SEQ, 0, &entry.age) || !TAKE(INSPECT_MESSAGE_SIZE, 0, &held))
        return -EBADMSG;
    if (queued != value[INSPECT_VALUE_QUEUED]) {
        if (entry.age != id)
            return 0; /* not yet in its queue, or about to match a receive */
        entry.kind = INSPECT_PROBED;
    }
    entry.context_id = envelope.context_id;
    entry.peer = envelope.source;
    entry.tag = envelope.tag;
    entry.size = held;
    if (held == value[INSPECT_VALUE_RTS]) {
        if (!TAKE(INSPECT_MESSAGE_RTS_SIZE, 0, &entry.size))
            return -EBADMSG;
        entry.flags = INSPECT_ENTRY_RTS;
    }
    if (held == value[INSPECT_VALUE_LONG] &&
        (!TAKE(INSPECT_MESSAGE_MORE, 0, &more) ||
         get_field(walk, more, INSPECT_MORE_SIZE, &entry.size, sizeof entry.size) != 0))
        return -EBADMSG;
    walk_add(walk, &entry);
    return 0;
}

/* ---- pools ---- */

typedef int visit_fn(struct walk *walk, const unsigned char *object, size_t size, uint64_t id);

static int walk_pool(struct walk *walk, uint64_t pool, size_t size, visit_fn *visit)
{
    uint64_t chunks, stride, live_bit, chunk = 0;
    uint32_t slots, shift, last = UINT32_MAX;
    unsigned char object[OBJECT_MAX];
    size_t slot_bytes = walk->map->offsets[INSPECT_SLOT_BYTES];
    int err = get_field(walk, pool, INSPECT_POOL_CHUNKS, &chunks, sizeof chunks);

    if (err == 0)
        err = get_field(walk, pool, INSPECT_POOL_SLOTS, &slots, sizeof slots);
    if (err == 0)
        err = get_field(walk, pool, INSPECT_POOL_SHIFT, &shift, sizeof shift);
    if (err == 0)
        err = get_field(walk, pool, INSPECT_POOL_STRIDE, &stride, sizeof stride);
    if (err == 0)
        err = get_field(walk, pool, INSPECT_POOL_LIVE_BIT, &live_bit, sizeof live_bit);
    if (err != 0)
        return err;
    if (shift > 31 || stride < slot_bytes + size || stride > OBJECT_MAX || slots > SLOTS_MAX)
        return -EBADMSG;
    for (uint32_t i = 0; i < slots; i++) {
        uint64_t id;

        if (i >> shift != last) {
            last = i >> shift;
            err = get(walk, chunks + last * sizeof chunk, &chunk, sizeof chunk);
            if (err != 0)
                return err;
        }
        err = get(walk, chunk + (i & ((1u << shift) - 1)) * stride, object, slot_bytes + size);
        if (err != 0)
            return err;
        memcpy(&id, object, sizeof id);
        if ((id & live_bit) != 0)
            err = visit(walk, object + slot_bytes, size, id);
        if (err != 0)
            return err;
    }
    return 0;
}

/* Adds the probe that found nothing, if there was one. */
static int walk_peek(struct walk *walk, uint64_t ep)
{
    struct inspect_entry entry = {.kind = INSPECT_PROBE};
    struct envelope envelope;
    int err = get_field(walk, ep, INSPECT_EP_PEEKED, &entry.count, sizeof entry.count);

    if (err != 0 || entry.count == 0)
        return err;
    err = get_field(walk, ep, INSPECT_EP_PEEK, &envelope, sizeof envelope);
    if (err == 0)
        err = get_field(walk, ep, INSPECT_EP_PEEK_IGNORE, &entry.ignore, sizeof entry.ignore);
    if (err != 0)
        return err;
    entry.context_id = envelope.context_id;
    entry.peer = envelope.source;
    entry.tag = envelope.tag;
    walk_add(walk, &entry);
    return 0;
}

/* Entries that a rank may wait for come first: if there is not enough space, unexpected
 * messages are left out. */
int inspect_walk(const struct inspect_map *map, const struct inspect_source *source,
                 uint64_t ep, struct inspect_entry *entries, uint32_t capacity,
                 uint32_t *stored, uint32_t counts[INSPECT_KINDS])
{
    struct walk walk = {.map = map,
                        .source = source,
                        .entries = entries,
                        .capacity = capacity,
                        .stored = stored,
                        .counts = counts};
    const uint32_t *at = map->offsets;
    int err;

    *stored = 0;
    memset(counts, 0, INSPECT_KINDS * sizeof *counts);
    err = get_field(&walk, ep, INSPECT_EP_ADDRESSES, &walk.addresses, sizeof walk.addresses);
    if (err == 0)
        err = get_field(&walk, ep, INSPECT_EP_PEERS, &walk.peers, sizeof walk.peers);
    if (err == 0 && walk.peers > PEERS_MAX)
        err = -EBADMSG;
    if (err == 0)
        err = walk_peek(&walk, ep);
    if (err == 0)
        err = walk_pool(&walk, ep + at[INSPECT_EP_REQUESTS], at[INSPECT_REQUEST_BYTES],
                        add_request);
    if (err == 0)
        err = walk_pool(&walk, ep + at[INSPECT_EP_MESSAGES], at[INSPECT_MESSAGE_BYTES],
                        add_message);
    return err;
}

/* ---- ages ---- */

/* The notes on a pool: the objects seen at its places. */
struct notes {
    uint64_t seen, index_mask;
    uint32_t places;
};

static int get_notes(const struct walk *walk, uint64_t ep, enum inspect_field pool,
                     enum inspect_field ages, struct notes *notes)
{
    uint64_t at = ep + walk->map->offsets[ages];
    int err = get_field(walk, at, INSPECT_AGES_SEEN, &notes->seen, sizeof notes->seen);

    if (err == 0)
        err = get_field(walk, at, INSPECT_AGES_PLACES, &notes->places, sizeof notes->places);
    if (err == 0)
        err = get_field(walk, ep + walk->map->offsets[pool], INSPECT_POOL_INDEX_MASK,
                        &notes->index_mask, sizeof notes->index_mask);
    return err;
}

static int set_age(const struct walk *walk, const struct notes *notes, uint64_t now_ns,
                   struct inspect_entry *entry)
{
    uint64_t index = entry->id & notes->index_mask, id, since_ns, at;
    int err;

    if (index >= notes->places)
        return 0;
    at = notes->seen + index * walk->map->offsets[INSPECT_AGE_BYTES];
    err = get_field(walk, at, INSPECT_AGE_ID, &id, sizeof id);
    if (err == 0)
        err = get_field(walk, at, INSPECT_AGE_SINCE, &since_ns, sizeof since_ns);
    if (err != 0 || id != entry->id || since_ns > now_ns)
        return err;
    entry->waited_ms = (uint32_t)min_size((now_ns - since_ns) / 1000000, INSPECT_NOT_KNOWN - 1);
    return 0;
}

int inspect_walk_ages(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint64_t now_ns, struct inspect_entry *entries,
                      uint32_t count)
{
    struct walk walk = {.map = map, .source = source};
    struct notes requests, messages;
    int err = get_notes(&walk, ep, INSPECT_EP_REQUESTS, INSPECT_EP_REQUEST_AGES, &requests);

    if (err == 0)
        err = get_notes(&walk, ep, INSPECT_EP_MESSAGES, INSPECT_EP_MESSAGE_AGES, &messages);
    if (err == 0 && now_ns == 0)
        err = get_field(&walk, ep, INSPECT_EP_LOOKED, &now_ns, sizeof now_ns);
    for (uint32_t i = 0; err == 0 && i < count; i++) {
        bool is_message =
            entries[i].kind == INSPECT_UNEXPECTED || entries[i].kind == INSPECT_PROBED;

        if (entries[i].kind != INSPECT_PROBE)
            err = set_age(&walk, is_message ? &messages : &requests, now_ns, &entries[i]);
    }
    return err;
}

static int sum_up(const struct walk *walk, uint64_t ep, enum inspect_field field, uint64_t *sum)
{
    uint64_t values[PROTOCOLS_MAX];
    uint32_t count = walk->map->offsets[INSPECT_PROTOCOLS];
    int err = get_field(walk, ep, field, values, count * sizeof values[0]);

    *sum = 0;
    for (uint32_t i = 0; err == 0 && i < count; i++)
        *sum += values[i];
    return err;
}

int inspect_walk_pulse(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, struct inspect_pulse *pulse)
{
    struct walk walk = {.map = map, .source = source};
    uint64_t expected = 0, unexpected = 0;
    int err = get_field(&walk, ep, INSPECT_EP_EXPECTED, &expected, sizeof expected);

    if (err == 0)
        err = get_field(&walk, ep, INSPECT_EP_UNEXPECTED, &unexpected, sizeof unexpected);
    if (err == 0)
        err = get_field(&walk, ep, INSPECT_EP_CANCELLED, &pulse->cancelled,
                        sizeof pulse->cancelled);
    if (err == 0)
        err = sum_up(&walk, ep, INSPECT_EP_SENT, &pulse->sent);
    if (err == 0)
        err = sum_up(&walk, ep, INSPECT_EP_RECEIVED, &pulse->received);
    pulse->arrived = expected + unexpected;
    return err;
}

/* ---- names given by the program ---- */

/* Does an object of this size have space for a field of this length? */
static bool has_field(const struct walk *walk, enum inspect_field bytes,
                      enum inspect_field field, size_t length)
{
    size_t size = walk->map->offsets[bytes], at = walk->map->offsets[field];

    return at <= size && length <= size - at;
}

/* Makes it printable, and one line. */
static void make_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    text_make_printable(text, ' ', false);
}

static int walk_contexts(const struct walk *walk, uint64_t ep, char *text, size_t size)
{
    uint64_t contexts;
    uint32_t count;
    size_t used = 0;
    int err = get_field(walk, ep, INSPECT_EP_CONTEXTS, &contexts, sizeof contexts);

    if (err == 0)
        err = get_field(walk, ep, INSPECT_EP_CONTEXT_COUNT, &count, sizeof count);
    if (err != 0)
        return err;
    if (count > CONTEXTS_MAX ||
        !has_field(walk, INSPECT_CONTEXT_BYTES, INSPECT_CONTEXT_ID, 4) ||
        !has_field(walk, INSPECT_CONTEXT_BYTES, INSPECT_CONTEXT_SIZE, 4) ||
        !has_field(walk, INSPECT_CONTEXT_BYTES, INSPECT_CONTEXT_NAME, INSPECT_NAME_TEXT))
        return -EBADMSG;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = contexts + (uint64_t)i * walk->map->offsets[INSPECT_CONTEXT_BYTES];
        char name[INSPECT_NAME_TEXT];
        uint32_t id, ranks;
        int more;

        err = get_field(walk, at, INSPECT_CONTEXT_ID, &id, sizeof id);
        if (err == 0)
            err = get_field(walk, at, INSPECT_CONTEXT_SIZE, &ranks, sizeof ranks);
        if (err == 0)
            err = get_field(walk, at, INSPECT_CONTEXT_NAME, name, sizeof name);
        if (err != 0)
            return err;
        make_text(name, sizeof name);
        more = snprintf(text + used, size - used, "context %u %u %s\n", id, ranks, name);
        if (more < 0 || (size_t)more >= size - used)
            break;
        used += (size_t)more;
    }
    text[used] = '\0';
    return (int)used;
}

int inspect_walk_rank(const struct inspect_map *map, const struct inspect_source *source,
                      uint64_t ep, uint32_t peer, uint32_t *rank)
{
    struct walk walk = {.map = map, .source = source};
    uint64_t peers, at;
    uint32_t slots, job, change;
    int err = get_field(&walk, ep, INSPECT_EP_NAMED_PEERS, &peers, sizeof peers);

    *rank = INSPECT_NOBODY;
    if (err == 0)
        err = get_field(&walk, ep, INSPECT_EP_NAMED_SLOTS, &slots, sizeof slots);
    if (err != 0 || peer >= slots)
        return err;
    at = peers + (uint64_t)peer * map->offsets[INSPECT_NAMED_BYTES];
    err = get_field(&walk, at, INSPECT_NAMED_CHANGE, &change, sizeof change);
    if (err == 0)
        err = get_field(&walk, at, INSPECT_NAMED_JOB, &job, sizeof job);
    if (err == 0 && change != 0 && job == 0)
        err = get_field(&walk, at, INSPECT_NAMED_RANK, rank, sizeof *rank);
    return err;
}

static int walk_peers(const struct walk *walk, uint64_t ep, const struct inspect_entry *entries,
                      uint32_t count, char *text, size_t size)
{
    uint32_t last = INSPECT_NOBODY, rank;
    size_t used = 0;

    for (uint32_t i = 0; i < count; i++) {
        int more, err;

        if (entries[i].peer == last)
            continue;
        last = entries[i].peer;
        err = inspect_walk_rank(walk->map, walk->source, ep, last, &rank);
        if (err != 0)
            return err;
        if (rank == INSPECT_NOBODY)
            continue;
        more = snprintf(text + used, size - used, "peer %u %u\n", last, rank);
        if (more < 0 || (size_t)more >= size - used)
            break;
        used += (size_t)more;
    }
    text[used] = '\0';
    return (int)used;
}

int inspect_walk_names(const struct inspect_map *map, const struct inspect_source *source,
                       uint64_t ep, const struct inspect_entry *entries, uint32_t count,
                       char *text, size_t size)
{
    struct walk walk = {.map = map, .source = source};
    int used = walk_contexts(&walk, ep, text, size), more;

    if (used < 0)
        return used;
    more = walk_peers(&walk, ep, entries, count, text + used, size - (size_t)used);
    return more < 0 ? more : used + more;
}

int inspect_walk_program(const struct inspect_map *map, const struct inspect_source *source,
                         uint64_t ep, char text[INSPECT_MPI_TEXT])
{
    struct walk walk = {.map = map, .source = source};
    int err = get_field(&walk, ep, INSPECT_EP_PROGRAM, text, INSPECT_MPI_TEXT);

    if (err == 0)
        make_text(text, INSPECT_MPI_TEXT);
    else
        text[0] = '\0';
    return err;
}

static bool is_among(const uint64_t *endpoints, uint32_t count, uint64_t ep)
{
    for (uint32_t i = 0; i < count; i++)
        if (endpoints[i] == ep)
            return true;
    return false;
}

int inspect_walk_endpoints(const struct inspect_map *map, const struct inspect_source *source,
                           uint64_t endpoints[INSPECT_ENDPOINTS_MAX], uint32_t *count)
{
    uint64_t at = map->endpoints, ep;

    for (*count = 0; *count < INSPECT_ENDPOINTS_MAX; at = ep + map->offsets[INSPECT_EP_NEXT]) {
        int err = source->read(source, at, &ep, sizeof ep);

        if (err != 0)
            return err;
        if (ep == 0 || is_among(endpoints, *count, ep))
            return 0;
        endpoints[(*count)++] = ep;
    }
    return 0;
}
