/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello_fuzz.c - the handshake of two endpoints on a network with an attacker.
 *
 *   first <──────────── network ────────────> second      both have the job's key
 *                          ^                  other_key   has another one
 *                          └── an attacker, who has recorded every packet
 *
 * The three are real endpoints of src/transport/ofi, from the greeting to the delivery, over a
 * provider that is made of lists.  The attacker forwards the sent packets, in the order of
 * each pair, and in addition
 *
 *   repeats   any packet to any endpoint, unchanged, or changed, shortened, lengthened
 *   invents   bytes, and greetings with the right key by endpoints that do not exist
 *
 * The attacker does not exploit what it reads: it repeats a packet with a link's token only
 * unchanged and only if the repetition is no new statement, so not a DATA, and no packet that counts
 * the packets before it, ahead of them (docs/internals/transports.md describes such attacks).
 *
 * Required: only packets that the two endpoints with the key have sent each other are delivered,
 * each once and in order, and only these two are presented.  When the attacker is silent all of them
 * arrive.  After each step the invariants of the three endpoints hold, and every buffer is free,
 * queued, or taken by the provider.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "fuzz/program.h"
#include "transport/ofi/ofi.h"

enum { FIRST, SECOND, OTHER_KEY, ENDPOINTS };

#define PACKETS    400 /* in total, in one program */
#define GUESTS     3   /* endpoints that do not exist */
#define PACKET_MAX 600
#define TIME_MOST  (3 * CLOCK_S) /* that may pass before the end: a greeting may take 10 s */
#define ROUNDS     3000          /* at the end, each of a millisecond */

struct endpoint {
    struct ofi ofi;
    struct fid_ep ep;
    struct fid_av av;
    struct ofi_receive receive;
    struct ofi_link *links[ENDPOINTS];
    struct ofi_buffer *leaving[OFI_BUFFERS]; /* taken by the provider */
    uint32_t leaving_count;
    bool is_full; /* the provider refuses sends */
    bool is_deaf; /* the core has no memory */
    uint64_t sent[ENDPOINTS], got[ENDPOINTS];
};

struct packet {
    uint32_t from, to;
    bool is_delivered;
    size_t size;
    unsigned char bytes[PACKET_MAX];
};

static struct {
    struct endpoint endpoints[ENDPOINTS];
    struct packet packets[PACKETS];
    uint32_t count;
    void *arrived[8 * PACKETS]; /* memory of forwarded packets; receivers may hold it */
    uint32_t arrived_count;
    uint64_t now_ns, passed_ns;
} w;

static struct ofi_buffer buffers[ENDPOINTS][OFI_BUFFERS];

static uint64_t fuzz_clock(void)
{
    return w.now_ns;
}

/* ---- the provider ---- */

static struct endpoint *endpoint_of(struct fid_ep *ep)
{
    return (struct endpoint *)(void *)((char *)ep - offsetof(struct endpoint, ep));
}

static uint32_t number_of(const struct endpoint *endpoint)
{
    return (uint32_t)(endpoint - w.endpoints);
}

static ssize_t leave(struct endpoint *from, const void *bytes, size_t size, fi_addr_t to)
{
    struct packet *packet = &w.packets[w.count];

    if (from->is_full || w.count == PACKETS)
        return -FI_EAGAIN;
    require(size <= PACKET_MAX, "a packet is longer than what was sent");
    *packet = (struct packet){.from = number_of(from), .to = (uint32_t)to, .size = size};
    memcpy(packet->bytes, bytes, size);
    w.count++;
    return 0;
}

static ssize_t provider_send(struct fid_ep *ep, const void *bytes, size_t size, void *desc,
                             fi_addr_t to, void *context)
{
    struct endpoint *from = endpoint_of(ep);
    ssize_t err = leave(from, bytes, size, to);

    (void)desc;
    if (err == 0) {
        struct fi_context2 *place = context;

        from->leaving[from->leaving_count++] =
            (struct ofi_buffer *)(void *)((char *)place -
                                          offsetof(struct ofi_buffer, operation) -
                                          offsetof(struct ofi_operation, context));
    }
    return err;
}

static ssize_t provider_inject(struct fid_ep *ep, const void *bytes, size_t size, fi_addr_t to)
{
    return leave(endpoint_of(ep), bytes, size, to);
}

/* An address is the number of its endpoint. */
static int provider_insert(struct fid_av *av, const void *address, size_t count, fi_addr_t *to,
                           uint64_t flags, void *context)
{
    (void)av, (void)flags, (void)context;
    *to = *(const unsigned char *)address;
    return (int)count;
}

static struct fi_ops_msg provider_msg = {
    .size = sizeof provider_msg, .send = provider_send, .inject = provider_inject};
static struct fi_ops_av provider_av = {.size = sizeof provider_av, .insert = provider_insert};

/* ---- the core ---- */

static int accept_peer(void *arg, struct link *link, const struct transport_address *address,
                       uint32_t *peer)
{
    uint32_t who = address->network[0], here = number_of(arg);

    (void)link;
    require(here != OTHER_KEY && who != OTHER_KEY && who < ENDPOINTS && who != here,
            "somebody is presented who has proved nothing");
    *peer = who;
    return 0;
}

static int deliver(void *arg, uint32_t peer, const void *bytes, size_t size)
{
    struct endpoint *here = arg;
    const struct endpoint *from = &w.endpoints[peer];
    uint64_t number;

    if (here->is_deaf)
        return -EAGAIN;
    require(number_of(here) != OTHER_KEY && peer != OTHER_KEY,
            "a packet of the endpoint with another key");
    require(size >= sizeof(struct wire_header) + sizeof number, "a packet is shortened");
    memcpy(&number, (const char *)bytes + sizeof(struct wire_header), sizeof number);
    require(number == here->got[peer], "a packet comes twice, too early, or never");
    require(size == sizeof(struct wire_header) + sizeof number + number % 100,
            "a packet has another length");
    require(number < from->sent[number_of(here)], "a packet that was not sent");
    here->got[peer]++;
    return 0;
}

static void dropped(void *arg, const char *reason)
{
    (void)arg, (void)reason;
}

static void read_done(void *arg, void *cookie, int error)
{
    (void)arg, (void)cookie, (void)error;
}

static const struct transport_events events = {
    .accept = accept_peer, .deliver = deliver, .read_done = read_done, .dropped = dropped};

/* ---- endpoints ---- */

static struct transport_address address_of(uint32_t who)
{
    return (struct transport_address){.kind = ADDRESS_OFI,
                                      .network_size = 1,
                                      .network_format = 7,
                                      .cookie = 3 * who + 1,
                                      .network = {(uint8_t)who}};
}

static struct fi_fabric_attr fabric_attr = {.prov_name = (char[]){"lists"}};
static struct fi_domain_attr domain_attr;
static struct fi_info provider_info = {.fabric_attr = &fabric_attr,
                                       .domain_attr = &domain_attr};

static void endpoint_open(uint32_t who)
{
    struct endpoint *e = &w.endpoints[who];
    struct ofi *ofi = &e->ofi;

    memset(e, 0, sizeof *e);
    e->ep.msg = &provider_msg;
    e->av.ops = &provider_av;
    ofi->base.ops = &transport_ofi;
    ofi->events = &events;
    ofi->net.ops = &ofi_net_ops;
    ofi->net.name = "ofi";
    ofi->net.events = &events;
    ofi->net.arg = e;
    ofi->arg = e;
    ofi->domain.info = &provider_info;
    ofi->domain.ep = &e->ep;
    ofi->domain.av = &e->av;
    ofi->rx.has_multi = true;
    e->receive.is_given = true;
    ofi->rx.receives = &e->receive;
    ofi->rx.count = 1;
    ofi->tx.inject_max = 128;
    ofi->tx.buffers = buffers[who];
    ofi->net.self = address_of(who);
    memset(ofi->net.key, who == OTHER_KEY ? 1 : 2, sizeof ofi->net.key);
    list_init(&ofi->tx.busy);
    list_init(&ofi->rx.holding);
    list_init(&ofi->tx.free);
    ofi_conns_init(ofi);
    for (size_t i = 0; i < OFI_BUFFERS; i++) {
        list_init_node(&buffers[who][i].node);
        list_add_tail(&ofi->tx.free, &buffers[who][i].node);
    }
    ofi->tx.free_count = OFI_BUFFERS;
}

static void endpoint_close(struct endpoint *e)
{
    struct ofi *ofi = &e->ofi;

    ofi_conns_close(ofi);
}

/* The link to another endpoint, as the core requests it. */
static struct ofi_link *link_to(struct endpoint *e, uint32_t who)
{
    const struct transport_address address = address_of(who);

    if (e->links[who] != NULL)
        return e->links[who];
    require(ofi_link_get(&e->ofi, &address, &e->links[who]) == 0, "no link");
    e->links[who]->member.named = true;
    e->links[who]->member.link.peer = who;
    return e->links[who];
}

static void send_one(struct endpoint *e, uint32_t to)
{
    static const unsigned char payload[128];
    const struct wire_header header = {.type = WIRE_EAGER, .version = WIRE_VERSION};
    const struct transport_packet packet = {
        .header = &header,
        .body = &e->sent[to],
        .body_size = sizeof e->sent[to],
        .payload = payload,
        .payload_size = e->sent[to] % 100,
    };

    if (to == number_of(e))
        return;
    if (ofi_tx_send(&link_to(e, to)->member.link, &packet) == 0)
        e->sent[to]++;
}

/* The provider has sent the packets that it took. */
static void let_go(struct endpoint *e)
{
    for (uint32_t i = 0; i < e->leaving_count; i++)
        ofi_tx_sent(&e->ofi, e->leaving[i]);
    e->leaving_count = 0;
}

static void move(struct endpoint *e)
{
    let_go(e);
    ofi_rx_deliver_held(&e->ofi);
    ofi_tx_push_all(&e->ofi);
}

/* ---- the network ---- */

/* Delivers size bytes, in memory of exactly that size, which a provider need not align. */
static void hand(struct endpoint *to, const void *bytes, size_t size, size_t shift)
{
    unsigned char *memory;

    if (w.arrived_count == ARRAY_COUNT(w.arrived))
        return;
    memory = malloc(size + shift + (size + shift == 0));
    require(memory != NULL, "no memory");
    w.arrived[w.arrived_count++] = memory;
    memcpy(memory + shift, bytes, size);
    ofi_rx_received(&to->ofi, &to->receive, memory + shift, size, false);
}

/* Forwards the oldest packet of this pair that has not arrived.  False: there is none. */
static bool hand_on(uint32_t from, uint32_t to, size_t shift)
{
    for (uint32_t i = 0; i < w.count; i++) {
        struct packet *packet = &w.packets[i];

        if (packet->from != from || packet->to != to || packet->is_delivered)
            continue;
        packet->is_delivered = true;
        hand(&w.endpoints[to], packet->bytes, packet->size, shift);
        return true;
    }
    return false;
}

static void change(struct input *in, unsigned char *bytes, size_t *size)
{
    uint8_t what = take(in);

    switch (what & 3) {
    case 0:
        break;
    case 1: /* changes some bits */
        for (int i = what >> 6; i >= 0; i--) {
            size_t at = (size_t)take(in) << (what >> 2 & 1);

            bytes[at % *size] ^= (unsigned char)(1u << (take(in) & 7));
        }
        break;
    case 2:
        *size -= (size_t)take(in) % *size;
        break;
    case 3:
        *size = (*size + 8u * (1 + (what >> 2 & 7))) % (PACKET_MAX + 1);
        break;
    }
}

/* Repeats a recorded packet. */
static void repeat(struct input *in)
{
    uint8_t which = take(in), to = take(in);
    struct net_prefix before, prefix;
    struct packet packet;

    if (w.count == 0)
        return;
    packet = w.packets[(w.count - 1) - which % w.count];
    memcpy(&before, packet.bytes, sizeof before);
    change(in, packet.bytes, &packet.size);
    if (packet.size >= sizeof prefix) {
        memcpy(&prefix, packet.bytes, sizeof prefix);
        if (prefix.kind == NET_DATA || prefix.kind != before.kind ||
            (net_counts((enum net_kind)prefix.kind) && !packet.is_delivered))
            prefix.token = before.token ^ UINT64_C(1) << (to >> 2);
        memcpy(packet.bytes, &prefix, sizeof prefix);
    }
    hand(&w.endpoints[to % ENDPOINTS], packet.bytes, packet.size, to & 64 ? 4 : 0);
}

static void invent(struct input *in)
{
    unsigned char bytes[PACKET_MAX];
    uint8_t to = take(in);
    size_t size = take(in);

    for (size_t i = 0; i < size; i++)
        bytes[i] = take(in);
    hand(&w.endpoints[to % ENDPOINTS], bytes, size, to & 64 ? 4 : 0);
}

/* A greeting with the right key, from an endpoint that does not exist, and possibly of another
 * version. */
static void greet(struct input *in)
{
    uint8_t what = take(in), to = take(in);
    struct net_prefix prefix = {.kind = NET_HELLO, .version = NET_VERSION};
    unsigned char bytes[sizeof prefix + sizeof(struct net_hello)];
    struct net_hello hello = {
        .from = address_of(ENDPOINTS + what % GUESTS),
        .to = address_of(to % ENDPOINTS),
        .caller = {.id = what, .token = to, .nonce = {what}},
    };
    struct net_transcript greeting;
    uint8_t key[TRANSPORT_KEY_SIZE];

    if (what & 64) { /* the address of another provider, or none at all */
        uint8_t at = take(in) % TRANSPORT_ADDRESS_SIZE;

        ((uint8_t *)&hello.from)[at] ^= take(in);
    }
    memset(&greeting, 0, sizeof greeting);
    greeting.version = version_own(NET_VERSION);
    greeting.version.packets ^= what >> 5 & 1;
    memcpy(&prefix.token, &greeting.version, sizeof greeting.version);
    greeting.caller = hello.from;
    greeting.callee = hello.to;
    greeting.from_caller = hello.caller;
    if (hello.from.network[0] < OTHER_KEY)
        return; /* the sender would be one of the two with the key, which send no false
                 * greetings */
    memset(key, 2, sizeof key);
    net_sign(key, NET_HELLO, &greeting, hello.mac);
    memcpy(bytes, &prefix, sizeof prefix);
    memcpy(bytes + sizeof prefix, &hello, sizeof hello);
    hand(&w.endpoints[what & 128 ? (to >> 2) % ENDPOINTS : to % ENDPOINTS], bytes, sizeof bytes,
         0);
}

/* ---- the whole ---- */

static void pass(uint64_t ns)
{
    if (w.passed_ns + ns > TIME_MOST)
        return;
    w.passed_ns += ns;
    w.now_ns += ns;
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        ofi_keepalive_tend(&w.endpoints[i].ofi);
}

static void step(struct input *in)
{
    uint8_t what = take(in), who = (what >> 4) % ENDPOINTS, other = (what >> 6) % ENDPOINTS;

    switch (what & 15) {
    case 0:
    case 1:
        send_one(&w.endpoints[who], other);
        break;
    case 2:
    case 3:
    case 4:
        hand_on(who, other, 0);
        break;
    case 5:
        hand_on(who, other, 4);
        break;
    case 6:
    case 7:
        move(&w.endpoints[who]);
        break;
    case 8:
        pass((uint64_t)(what >> 4) * 20 * CLOCK_MS);
        break;
    case 9:
    case 10:
        repeat(in);
        break;
    case 11:
        invent(in);
        break;
    case 12:
        greet(in);
        break;
    case 13:
        if (w.endpoints[who].links[other] != NULL)
            ofi_keepalive_check(&w.endpoints[who].links[other]->member.link);
        break;
    case 14:
        w.endpoints[who].is_full = what & 64;
        break;
    case 15:
        w.endpoints[who].is_deaf = what & 64;
        break;
    }
}

/* Checks the invariants of all endpoints, and that the provider has taken each buffer that is
 * neither free nor queued. */
static void look(void)
{
    for (uint32_t i = 0; MBX_CHECKS && i < ENDPOINTS; i++) {
        const struct endpoint *e = &w.endpoints[i];
        uint32_t has = e->ofi.tx.free_count + e->leaving_count;

        require(ofi_is_valid(&e->ofi), "an invariant is broken");
        for (uint32_t k = 0; k < e->ofi.conns.id_count; k++)
            has += e->ofi.conns.by_id[k]->tx.queued;
        require(has == OFI_BUFFERS, "a buffer is lost");
    }
}

/* The attacker is silent: everything that the two have sent each other arrives. */
static void finish(void)
{
    struct endpoint *a = &w.endpoints[FIRST], *b = &w.endpoints[SECOND];

    for (uint32_t i = 0; i < ENDPOINTS; i++)
        w.endpoints[i].is_full = w.endpoints[i].is_deaf = false;
    for (int round = 0; a->got[SECOND] != b->sent[FIRST] || b->got[FIRST] != a->sent[SECOND];
         round++) {
        require(round < ROUNDS, "what was sent does not arrive");
        for (uint32_t i = 0; i < 2; i++)
            move(&w.endpoints[i]);
        while (hand_on(FIRST, SECOND, 0) || hand_on(SECOND, FIRST, 0))
            ;
        w.count = 0;
        w.now_ns += CLOCK_MS;
        ofi_keepalive_tend(&a->ofi);
        ofi_keepalive_tend(&b->ofi);
        look();
    }
}

static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};

    log_set_sink(be_quiet, NULL);
    clock_set(fuzz_clock);
    random_secret_set(take(&in));
    w.count = w.arrived_count = 0;
    w.now_ns = CLOCK_S;
    w.passed_ns = 0;
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        endpoint_open(i);
    while (in.size != 0) {
        step(&in);
        look();
    }
    finish();
    for (uint32_t i = 0; i < ENDPOINTS; i++)
        endpoint_close(&w.endpoints[i]);
    for (uint32_t i = 0; i < w.arrived_count; i++)
        free(w.arrived[i]);
    require(mem_live() == 0, "memory is lost");
    return 0;
}
