/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * byzantine.c - the byzantine endpoint's end of the transport.
 *
 * It reads and writes only memory of the victim that packets have named: the loop transport
 * knows what is exposed, but not to whom, and another endpoint's memory is outside this test.
 * It may overwrite, at any time, what the rules lend it: the words of receives that it
 * knows of, and the table that the victim shows it.  The words and tables of others are out of
 * its reach here; in shared memory nothing protects them (docs/internals/faults.md).
 */
#include "fuzz/byzantine.h"

#include <stdio.h>
#include <stdlib.h>

#include "defer/backlog.h"
#include "defer/sendtable.h"
#include "testing/loop/loop.h"
#include "testing/testing.h"
#include "transport/atomics.h"
#include "transport/memory.h"

/* States of a word. */
#define WORD_OPEN  (UINT64_C(1) << 24)
#define WORD_TAKEN (UINT64_C(2) << 24)

/* ---- receiving ---- */

/* Each packet from a correct endpoint must be well-formed. */
static int received(void *arg, uint32_t peer, const void *bytes, size_t size)
{
    struct byzantine *byzantine = arg;
    struct wire_packet packet;
    struct forged *forged = &byzantine->kept[byzantine->kept_count++ % KEPT];
    const char *reason;

    (void)peer;
    require(wire_check(bytes, size, &packet, &reason) == 0, "the victim sends nonsense");
    *forged = (struct forged){.header = packet.header, .payload_size = packet.payload_size};
    memcpy(forged->body, &packet.body, wire_body_size(packet.header.type));
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
    .accept = accepted, .deliver = received, .read_done = moved, .dropped = dropped};

void byzantine_receive(struct byzantine *byzantine)
{
    byzantine->transport->ops->poll(byzantine->transport, KEPT);
}

const struct forged *byzantine_last(const struct byzantine *byzantine, enum wire_type type)
{
    uint32_t count = byzantine->kept_count < KEPT ? byzantine->kept_count : KEPT;

    for (uint32_t i = 1; i <= count; i++) {
        const struct forged *forged = &byzantine->kept[(byzantine->kept_count - i) % KEPT];

        if (forged->header.type == type)
            return forged;
    }
    return NULL;
}

/* ---- sending ---- */

/* A malformed packet must only be counted, unless a device takes a step at each arrival. */
static void check_malformed(const struct byzantine *byzantine, const struct stats *before)
{
    struct stats expected = *before, after;

    stats_read(byzantine->victim->ep, &after);
    expected.dropped_packets++;
    require(memcmp(&expected, &after, sizeof after) == 0,
            "a malformed packet is more than counted");
}

void byzantine_deliver(struct byzantine *byzantine, const void *packet, size_t size)
{
    struct mbx_ep *ep = byzantine->victim->ep;
    unsigned char *exact = malloc(size != 0 ? size : 1);
    struct wire_packet parsed;
    struct stats before;
    const char *reason;
    int err;

    require(exact != NULL, "no memory");
    memcpy(exact, packet, size);
    stats_read(ep, &before);
    err = ep->net.config.events->deliver(ep, BYZANTINE, exact, size);
    require(err == 0 || err == -EAGAIN, "a packet ends with another error");
    if (ep->offload == NULL && wire_check(exact, size, &parsed, &reason) < 0)
        check_malformed(byzantine, &before);
    free(exact);
    user_take_completions(byzantine->victim);
}

/* ---- memory ---- */

/* Compares and exchanges a word of the victim, as another process would. */
static uint64_t exchange(const struct byzantine *byzantine, uint64_t index, uint64_t expected,
                         uint64_t desired)
{
    struct transport *theirs = byzantine->victim->ep->net.transport;
    uint64_t found = expected;

    transport_cswap_local(theirs, index, expected, desired, &found);
    return found;
}

/* Takes the word of a receive that a packet has named (core/lockword.h): by the rules; or, if
 * the word is lent only to this endpoint, in any way. */
static void take_word(struct byzantine *byzantine, struct input *in)
{
    uint8_t what = take(in);
    const struct forged *forged =
        byzantine_last(byzantine, what & 1 ? WIRE_ADVERTISE : WIRE_RTR);
    uint64_t name, owner_id, index, generation, word;

    if (forged == NULL)
        return;
    name = forged->body[forged->header.type == WIRE_ADVERTISE ? 4 : 3];
    owner_id = forged->body[forged->header.type == WIRE_ADVERTISE ? 5 : 4];
    index = (uint32_t)name - 1;
    generation = name >> 32 << 32;
    if (name != 0 && (what < 200 || forged->header.type == WIRE_RTR))
        exchange(byzantine, index, generation | WORD_OPEN, generation | WORD_TAKEN | owner_id);
    else if (name != 0 && (word = exchange(byzantine, index, 0, 0)) >> 32 == name >> 32)
        exchange(byzantine, index, word, take_number(in));
}

/* Does the table still belong to the byzantine endpoint?  It may belong to another one by
 * now. */
static bool is_for_byzantine(const struct byzantine *byzantine, uint64_t index)
{
    const struct backlog *backlog = peer_get(byzantine->victim->ep, BYZANTINE)->backlog;

    return backlog != NULL && backlog->sendtable != NULL && backlog->sendtable->index == index;
}

/* Uses a send table of the victim, with sends deferred for the byzantine endpoint: pulls one,
 * or writes anything. */
static void take_held(struct byzantine *byzantine, struct input *in)
{
    const struct forged *defer = byzantine_last(byzantine, WIRE_DEFER);
    uint64_t version, next;
    uint8_t what = take(in);

    if (defer == NULL || defer->body[3] == 0 || !is_for_byzantine(byzantine, defer->body[3]))
        return;
    version = exchange(byzantine, defer->body[3], 0, 0);
    next = what < 128   ? version | sendtable_bit(what & 31)
           : what < 192 ? version ^ UINT64_C(1) << (what & 63)
                        : take_number(in);
    if (what < 224 && (version & SENDTABLE_BUSY) != 0)
        return;
    exchange(byzantine, defer->body[3], version, next);
}

/* Shows a table of its own, in which most entries are valid. */
static void show_table(struct byzantine *byzantine, struct input *in)
{
    uint64_t index = BYZANTINE_TABLE, head[SENDTABLE_HEAD] = {0}, entry[SENDTABLE_ENTRY];
    uint8_t what = take(in), count = what & 3;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t how = take(in);
        bool is_inside = how & 1;
        size_t size = is_inside ? how >> 3 : (how & 2 ? 5000 : 100);

        memset(entry, BYZANTINE_BYTE, sizeof entry);
        entry[SENDTABLE_CONTEXT] = (how >> 2 & 1) | (uint64_t)is_inside << 32;
        entry[SENDTABLE_TAG] = how >> 3 & 3;
        entry[SENDTABLE_DATA] = how;
        entry[SENDTABLE_SIZE] = how == 255 ? take_number(in) : size;
        entry[SENDTABLE_ADDRESS] = how & 128 ? take_number(in) : byzantine->address;
        entry[SENDTABLE_KEY] = byzantine->key;
        entry[SENDTABLE_SENDER] = how & 64 ? 0 : ++byzantine->request;
        transport_store(byzantine->transport, sendtable_at(index, i), entry, SENDTABLE_ENTRY);
    }
    head[SENDTABLE_EPOCH] = what & 64 ? take_number(in) : byzantine->epoch;
    head[SENDTABLE_COUNT] =
        what & 128 ? take_number(in) : count | (what & 4 ? SENDTABLE_ALL : 0);
    head[SENDTABLE_CLAIMED] = what >> 3 & 7;
    head[SENDTABLE_VERSION] = what == 255 ? take_number(in) : what;
    transport_store(byzantine->transport, index, head, SENDTABLE_HEAD);
}

/* Writes into the buffer of a receive that the victim has lent it, or outside of it. */
static void write_announced(struct byzantine *byzantine, struct input *in)
{
    const struct forged *announce = byzantine_last(byzantine, WIRE_ADVERTISE);
    uint8_t what = take(in);
    uint64_t size, at = what & 2 ? take_number(in) : 0;

    if (announce == NULL)
        return;
    size = what & 4 ? 1u + what : announce->body[6];
    if (size <= BYZANTINE_MEMORY)
        transport_write(byzantine->link, announce->body[7] + at, announce->body[8],
                        byzantine->memory, size, NULL);
    byzantine_receive(byzantine); /* the transport completes every other write in a poll */
}

/* Reads memory that the victim has exposed to it, as a packet has named it. */
static void read_exposed(struct byzantine *byzantine, struct input *in)
{
    static unsigned char here[BYZANTINE_MEMORY];
    const struct forged *rts = byzantine_last(byzantine, WIRE_RTS);
    uint8_t what = take(in);

    if (rts == NULL || rts->body[1] > sizeof here)
        return;
    transport_read(byzantine->link, here, rts->body[2] + (what & 1 ? what : 0), rts->body[3],
                   rts->body[1], NULL);
    byzantine_receive(byzantine);
}

void byzantine_access(struct byzantine *byzantine, struct input *in)
{
    uint8_t what = take(in);

    switch (what % 5) {
    case 0:
        take_word(byzantine, in);
        break;
    case 1:
        take_held(byzantine, in);
        break;
    case 2:
        show_table(byzantine, in);
        break;
    case 3:
        write_announced(byzantine, in);
        break;
    case 4:
        read_exposed(byzantine, in);
        break;
    }
}

/* ---- the whole ---- */

void byzantine_open(struct byzantine *byzantine, uint32_t welcome)
{
    struct transport_config config = {.events = &events, .arg = byzantine, .credit = welcome};

    testing_settings(&config.settings)->loop_depth = 8;
    memset(byzantine, 0, sizeof *byzantine);
    memset(byzantine->memory, BYZANTINE_BYTE, sizeof byzantine->memory);
    require(transport_loop.open(&config, &byzantine->transport) == 0,
            "the byzantine cannot be opened");
}

void byzantine_connect(struct byzantine *byzantine, struct user *victim)
{
    struct transport_address address;
    struct mbx_address theirs;

    mbx_address_get(victim->ep, &theirs);
    memcpy(&address, &theirs, sizeof address);
    require(byzantine->transport->ops->connect(byzantine->transport, &address,
                                               &byzantine->link) == 0,
            "the byzantine endpoint cannot reach its victim");
    require(transport_expose(byzantine->link, byzantine->memory, sizeof byzantine->memory,
                             &byzantine->address, &byzantine->key) == 0 &&
                transport_expose(byzantine->link, byzantine->inbox, sizeof byzantine->inbox,
                                 &byzantine->inbox_address, &byzantine->inbox_key) == 0,
            "the byzantine endpoint cannot expose its memory");
    byzantine->victim = victim;
}

void byzantine_close(struct byzantine *byzantine)
{
    byzantine->transport->ops->close(byzantine->transport);
}
