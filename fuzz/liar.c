/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liar.c - the liar's end of the transport.
 *
 * It reads and writes nothing of the victim but what it was told of: the loop transport knows
 * what is exposed, but not to whom, and another endpoint's memory is none of its business.
 * What it may scribble on at any time is what the rules lend it: the words of receives that it
 * is told of, and the table that the victim shows it.  What is another one's there is out of
 * its reach here; in shared memory nothing protects it (docs/faults.md).
 */
#include "fuzz/liar.h"

#include <stdio.h>
#include <stdlib.h>

#include "sendside/backlog.h"
#include "sendside/sendtable.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"
#include "transport/atomics.h"
#include "transport/memory.h"

/* States of a word. */
#define WORD_OPEN  (UINT64_C(1) << 24)
#define WORD_TAKEN (UINT64_C(2) << 24)

/* ---- hearing ---- */

/* Each packet that an honest endpoint sends is well-formed. */
static int heard(void *arg, uint32_t peer, const void *bytes, size_t size)
{
    struct liar *liar = arg;
    struct wire_packet packet;
    struct lie *lie = &liar->heard[liar->heard_count++ % HEARD];
    const char *reason;

    (void)peer;
    require(wire_check(bytes, size, &packet, &reason) == 0, "the victim sends nonsense");
    *lie = (struct lie){.header = packet.header, .payload_size = packet.payload_size};
    memcpy(lie->body, &packet.body, wire_body_size(packet.header.type));
    return 0;
}

static int accepted(void *arg, struct link *link, const struct transport_address *address,
                    uint32_t *peer)
{
    (void)arg, (void)link, (void)address;
    *peer = 0;
    return 0;
}

static void moved(void *arg, void *cookie, int error)
{
    (void)arg, (void)cookie, (void)error;
}

static void dropped(void *arg, const char *reason)
{
    (void)arg, (void)reason;
}

static const struct transport_events events = {
    .accept = accepted, .deliver = heard, .read_done = moved, .dropped = dropped};

void liar_hear(struct liar *liar)
{
    liar->transport->ops->poll(liar->transport, HEARD);
}

const struct lie *liar_last(const struct liar *liar, enum wire_type type)
{
    uint32_t count = liar->heard_count < HEARD ? liar->heard_count : HEARD;

    for (uint32_t i = 1; i <= count; i++) {
        const struct lie *lie = &liar->heard[(liar->heard_count - i) % HEARD];

        if (lie->header.type == type)
            return lie;
    }
    return NULL;
}

/* ---- telling ---- */

/* A packet that is malformed is counted, and nothing else, where no device has a turn when
 * something comes. */
static void check_malformed(const struct liar *liar, const struct stats *before)
{
    struct stats expected = *before, after;

    stats_read(liar->victim->ep, &after);
    expected.dropped_packets++;
    require(memcmp(&expected, &after, sizeof after) == 0,
            "a malformed packet is more than counted");
}

void liar_tell(struct liar *liar, const void *packet, size_t size)
{
    struct mbx_ep *ep = liar->victim->ep;
    unsigned char *exact = malloc(size != 0 ? size : 1);
    struct wire_packet parsed;
    struct stats before;
    const char *reason;
    int err;

    memcpy(exact, packet, size);
    stats_read(ep, &before);
    err = ep->net.config.events->deliver(ep, LIAR, exact, size);
    require(err == 0 || err == -EAGAIN, "a packet ends with another error");
    if (ep->offload == NULL && wire_check(exact, size, &parsed, &reason) < 0)
        check_malformed(liar, &before);
    free(exact);
    honest_take(liar->victim);
}

/* ---- memory ---- */

/* A word of the victim's, as another process reaches it. */
static uint64_t exchange(const struct liar *liar, uint64_t index, uint64_t expected,
                         uint64_t desired)
{
    struct transport *theirs = liar->victim->ep->net.transport;
    uint64_t found = expected;

    transport_cswap_local(theirs, index, expected, desired, &found);
    return found;
}

/* The word of a receive that it was told of (core/lockword.h): by the rules; or, of one that is
 * lent to it alone, anything. */
static void take_word(struct liar *liar, struct input *in)
{
    uint8_t what = take(in);
    const struct lie *lie = liar_last(liar, what & 1 ? WIRE_ANNOUNCE : WIRE_RTR);
    uint64_t name, owner_id, index, generation, word;

    if (lie == NULL)
        return;
    name = lie->body[lie->header.type == WIRE_ANNOUNCE ? 4 : 3];
    owner_id = lie->body[lie->header.type == WIRE_ANNOUNCE ? 5 : 4];
    index = (uint32_t)name - 1;
    generation = name >> 32 << 32;
    if (name != 0 && (what < 200 || lie->header.type == WIRE_RTR))
        exchange(liar, index, generation | WORD_OPEN, generation | WORD_TAKEN | owner_id);
    else if (name != 0 && (word = exchange(liar, index, 0, 0)) >> 32 == name >> 32)
        exchange(liar, index, word, take_number(in));
}

/* Is the table still the liar's?  It may be for another one by now. */
static bool is_for_liar(const struct liar *liar, uint64_t index)
{
    const struct backlog *backlog = peer_get(liar->victim->ep, LIAR)->sendside.backlog;

    return backlog != NULL && backlog->sendtable != NULL && backlog->sendtable->index == index;
}

/* A table of the victim's, which shows what is held for the liar: takes one, or anything. */
static void take_held(struct liar *liar, struct input *in)
{
    const struct lie *defer = liar_last(liar, WIRE_DEFER);
    uint64_t version, next;
    uint8_t what = take(in);

    if (defer == NULL || defer->body[3] == 0 || !is_for_liar(liar, defer->body[3]))
        return;
    version = exchange(liar, defer->body[3], 0, 0);
    next = what < 128   ? version | sendtable_bit(what & 31)
           : what < 192 ? version ^ UINT64_C(1) << (what & 63)
                        : take_number(in);
    if (what < 224 && (version & SENDTABLE_BUSY) != 0)
        return;
    exchange(liar, defer->body[3], version, next);
}

/* A table of its own, with entries of which most make sense. */
static void show_table(struct liar *liar, struct input *in)
{
    uint64_t index = LIAR_TABLE, head[SENDTABLE_HEAD] = {0}, entry[SENDTABLE_ENTRY];
    uint8_t what = take(in), count = what & 3;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t how = take(in);
        bool is_inside = how & 1;
        size_t size = is_inside ? how >> 3 : (how & 2 ? 5000 : 100);

        memset(entry, LIAR_BYTE, sizeof entry);
        entry[SENDTABLE_CONTEXT] = (how >> 2 & 1) | (uint64_t)is_inside << 32;
        entry[SENDTABLE_TAG] = how >> 3 & 3;
        entry[SENDTABLE_DATA] = how;
        entry[SENDTABLE_SIZE] = how == 255 ? take_number(in) : size;
        entry[SENDTABLE_ADDRESS] = how & 128 ? take_number(in) : liar->address;
        entry[SENDTABLE_KEY] = liar->key;
        entry[SENDTABLE_SENDER] = how & 64 ? 0 : ++liar->request;
        transport_store(liar->transport, sendtable_at(index, i), entry, SENDTABLE_ENTRY);
    }
    head[SENDTABLE_EPOCH] = what & 64 ? take_number(in) : liar->epoch;
    head[SENDTABLE_COUNT] =
        what & 128 ? take_number(in) : count | (what & 4 ? SENDTABLE_ALL : 0);
    head[SENDTABLE_CLAIMED] = what >> 3 & 7;
    head[SENDTABLE_VERSION] = what == 255 ? take_number(in) : what;
    transport_store(liar->transport, index, head, SENDTABLE_HEAD);
}

/* Into the buffer of a receive that the victim has lent it, or beside. */
static void write_announced(struct liar *liar, struct input *in)
{
    const struct lie *announce = liar_last(liar, WIRE_ANNOUNCE);
    uint8_t what = take(in);
    uint64_t size, at = what & 2 ? take_number(in) : 0;

    if (announce == NULL)
        return;
    size = what & 4 ? 1u + what : announce->body[6];
    if (size <= LIAR_MEMORY)
        transport_write(liar->link, announce->body[7] + at, announce->body[8], liar->memory,
                        size, NULL);
    liar_hear(liar); /* the transport ends every other write in a poll */
}

/* Reads what the victim has exposed to it, as it was told. */
static void read_exposed(struct liar *liar, struct input *in)
{
    static unsigned char here[LIAR_MEMORY];
    const struct lie *rts = liar_last(liar, WIRE_RTS);
    uint8_t what = take(in);

    if (rts == NULL || rts->body[1] > sizeof here)
        return;
    transport_read(liar->link, here, rts->body[2] + (what & 1 ? what : 0), rts->body[3],
                   rts->body[1], NULL);
    liar_hear(liar);
}

void liar_move(struct liar *liar, struct input *in)
{
    uint8_t what = take(in);

    switch (what % 5) {
    case 0:
        take_word(liar, in);
        break;
    case 1:
        take_held(liar, in);
        break;
    case 2:
        show_table(liar, in);
        break;
    case 3:
        write_announced(liar, in);
        break;
    case 4:
        read_exposed(liar, in);
        break;
    }
}

/* ---- the whole ---- */

void liar_open(struct liar *liar, uint32_t welcome)
{
    struct transport_config config = {.events = &events, .arg = liar, .credit = welcome};

    testing_settings(&config.settings)->loop_depth = 8;
    memset(liar, 0, sizeof *liar);
    memset(liar->memory, LIAR_BYTE, sizeof liar->memory);
    require(transport_loop.open(&config, &liar->transport) == 0, "the liar cannot be opened");
}

void liar_meet(struct liar *liar, struct side *victim)
{
    struct transport_address address;
    struct mbx_address theirs;

    mbx_address_get(victim->ep, &theirs);
    memcpy(&address, &theirs, sizeof address);
    require(liar->transport->ops->connect(liar->transport, &address, &liar->link) == 0,
            "the liar cannot reach its victim");
    require(transport_expose(liar->link, liar->memory, sizeof liar->memory, &liar->address,
                             &liar->key) == 0 &&
                transport_expose(liar->link, liar->inbox, sizeof liar->inbox,
                                 &liar->inbox_address, &liar->inbox_key) == 0,
            "the liar cannot expose its memory");
    liar->victim = victim;
}

void liar_close(struct liar *liar)
{
    liar->transport->ops->close(liar->transport);
}
