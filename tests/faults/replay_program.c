/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_program.c - replays a handshake that it has seen on the network, without the job's
 * key.
 *
 * usage: replay_program FOLDER RANKS FLOWS
 *
 * FOLDER has the addresses of the ranks (tests/faults/far_program.c), which are no secret.
 * FLOWS has the captured TCP connections: for each direction of each of them its length, 32
 * bits, and the bytes.  In them the program finds a greeting of two ranks that was answered and
 * proved,
 *
 *   HELLO ──>      its addresses name the caller and the called rank
 *   <── WELCOME    for the id and token in HELLO
 *   AUTH ──>       for the id and token in WELCOME
 *
 * and sends all three to every rank, from an endpoint of its own: each whole, each with one bit
 * of its body changed, for every byte in turn, and each cut.  For every packet and rank it
 * prints a line
 *
 *   KIND to RANK: N of M must be dropped
 *
 * and then `said`.  A packet that is not dropped is a duplicate and ignored: the called rank
 * has already read this HELLO and this AUTH, and the caller has its WELCOME, and checks no
 * other.  When standard input ends, the program prints how many packets it has received, which
 * must be none, and ends.
 *
 * Exit code 0; 1 if something differs from this description; 2 for wrong arguments.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/ofi/ofi.h"

#define RANKS_MAX 8
#define FLOWS_MAX 64
#define PACKET    sizeof(struct net_prefix)
#define ENOUGH    (PACKET + sizeof(struct net_hello))

static struct {
    unsigned char *bytes;
    uint32_t size;
} flows[FLOWS_MAX];
static int flow_count;

static struct transport_address addresses[RANKS_MAX];
static fi_addr_t places[RANKS_MAX];
static int ranks, caller, callee;

static struct packet {
    const char *name;
    size_t size;
    unsigned char bytes[ENOUGH];
} hello = {.name = "HELLO"}, welcome = {.name = "WELCOME"}, auth = {.name = "AUTH"};

static struct transport *transport;
static unsigned heard;

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "replay_program: %s\n", what);
    exit(1);
}

/* ---- captured bytes ---- */

static void read_flows(const char *path)
{
    FILE *file = fopen(path, "r");
    uint32_t size;

    check(file != NULL, path);
    while (flow_count < FLOWS_MAX && fread(&size, sizeof size, 1, file) == 1) {
        unsigned char *bytes = malloc((size_t)size + 1);

        check(bytes != NULL && fread(bytes, 1, size, file) == size, "a flow is cut");
        flows[flow_count].bytes = bytes;
        flows[flow_count++].size = size;
    }
    fclose(file);
}

static void read_addresses(const char *folder)
{
    char path[512];

    for (int i = 0; i < ranks; i++) {
        FILE *file;

        snprintf(path, sizeof path, "%s/address.%d", folder, i);
        file = fopen(path, "r");
        check(file != NULL && fread(&addresses[i], sizeof addresses[i], 1, file) == 1, path);
        fclose(file);
    }
}

/* Finds the next packet of this kind for this id and token, in any flow, from *flow and *at on,
 * which move to the byte after its first.  False: there is none. */
static bool find(enum net_kind kind, uint32_t to, uint64_t token, int *flow, uint32_t *at,
                 struct packet *found)
{
    const struct net_prefix prefix = {
        .kind = (uint8_t)kind, .version = NET_VERSION, .to = to, .token = token};

    found->size = PACKET + net_body_size(kind);
    for (; *flow < flow_count; ++*flow, *at = 0)
        while (*at + found->size <= flows[*flow].size) {
            const unsigned char *bytes = flows[*flow].bytes + (*at)++;

            if (memcmp(bytes, &prefix, sizeof prefix) == 0) {
                memcpy(found->bytes, bytes, found->size);
                return true;
            }
        }
    return false;
}

static int rank_of(const struct transport_address *address)
{
    for (int i = 0; i < ranks; i++)
        if (memcmp(address->network, addresses[i].network, sizeof address->network) == 0)
            return i;
    return -1;
}

/* Finds the greeting of a rank whose call was answered: both ranks may have called. */
static bool find_greeting(void)
{
    struct net_hello called;
    struct net_welcome answered;
    int flow = 0;
    uint32_t at = 0;

    while (find(NET_HELLO, 0, net_own_mark(), &flow, &at, &hello)) {
        int other = 0, third = 0;
        uint32_t from = 0, behind = 0;

        memcpy(&called, hello.bytes + PACKET, sizeof called);
        caller = rank_of(&called.from);
        callee = rank_of(&called.to);
        if (caller < 0 || callee < 0 ||
            !find(NET_WELCOME, called.caller.id, called.caller.token, &other, &from, &welcome))
            continue;
        memcpy(&answered, welcome.bytes + PACKET, sizeof answered);
        if (find(NET_AUTH, answered.callee.id, answered.callee.token, &third, &behind, &auth))
            return true;
    }
    return false;
}

/* ---- an endpoint of its own ---- */

static void on_dropped(void *arg, const char *reason)
{
    (void)arg, (void)reason;
}

static const struct transport_events events = {.dropped = on_dropped};

static void open_endpoint(void)
{
    const struct transport_config config = {.events = &events,
                                            .settings.ofi.provider = "tcp;ofi_rxm"};
    struct ofi *ofi;

    check(transport_ofi.open(&config, &transport) == 0, "no network");
    ofi = ofi_of(transport);
    for (int i = 0; i < ranks; i++)
        check(fi_av_insert(ofi->domain.av, addresses[i].network, 1, &places[i], 0, NULL) == 1,
              "fi_av_insert");
}

/* Makes the provider's progress.  Has a send completed? */
static bool look(void)
{
    struct ofi *ofi = ofi_of(transport);
    struct fi_cq_data_entry entry;
    ssize_t count = fi_cq_read(ofi->domain.cq, &entry, 1);

    check(count == 1 || count == -FI_EAGAIN, "fi_cq_read");
    if (count == 1 && (entry.flags & FI_RECV) != 0)
        heard++;
    return count == 1 && (entry.flags & FI_SEND) != 0;
}

static void send(const struct packet *packet, size_t size, int to)
{
    struct ofi *ofi = ofi_of(transport);
    struct ofi_buffer *buffer = &ofi->tx.buffers[0];
    ssize_t err;

    memcpy(buffer->bytes, packet->bytes, size);
    while ((err = fi_send(ofi->domain.ep, buffer->bytes, size, buffer->descriptor, places[to],
                          &buffer->operation.context)) == -FI_EAGAIN)
        look();
    check(err == 0, "fi_send");
    while (!look())
        ;
}

/* ---- sending ---- */

static void say(struct packet *packet, int to)
{
    bool is_heard = packet != &welcome && to == callee,
         is_answered = packet == &welcome && to == caller;
    unsigned changed = 0;

    send(packet, packet->size, to);
    for (size_t at = PACKET; at < packet->size; at++, changed++) {
        unsigned char bit = (unsigned char)(1u << at % 8);

        packet->bytes[at] ^= bit;
        send(packet, packet->size, to);
        packet->bytes[at] ^= bit;
    }
    send(packet, packet->size - 8, to);
    printf("%s to %d: %u of %u must be dropped\n", packet->name, to,
           is_answered ? 1 : changed + 2 - is_heard, changed + 2);
}

/* Receives until standard input ends. */
static void listen_on(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;

    do
        look();
    while (poll(&input, 1, 1) == 0 || read(STDIN_FILENO, &byte, 1) > 0);
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[2]) < 2 || atoi(argv[2]) > RANKS_MAX) {
        fprintf(stderr, "usage: replay_program FOLDER RANKS FLOWS\n");
        return 2;
    }
    ranks = atoi(argv[2]);
    read_addresses(argv[1]);
    read_flows(argv[3]);
    check(find_greeting(), "no greeting was seen");
    printf("greeting of %d by %d\n", callee, caller);
    open_endpoint();
    for (int to = 0; to < ranks; to++) {
        say(&hello, to);
        say(&welcome, to);
        say(&auth, to);
    }
    printf("said\n");
    fflush(stdout);
    listen_on();
    printf("heard %u\n", heard);
    transport->ops->close(transport);
    return 0;
}
