/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_fuzz.c - whatever a peer says, an endpoint survives it, and those that are honest have
 * what they may expect.
 *
 *   liar ──whatever it likes──> victim <──messages, reads, writes──> honest
 *    ^─────────────────────────────┘
 *
 *   honest.c  the users of the victim and of the honest one: they send, receive, probe, cancel,
 *             read and write, and say what must hold
 *   liar.c    the liar's end: it hears its victim, so it knows what is where
 *   lies.c    what it says
 *
 * All three are endpoints of one process and one thread over the loop transport, in a time that
 * passes when the input says so.  At the end the liar is silent, and what the two honest ones
 * have sent each other must arrive; then it is closed, and what waits for it must end; then
 * nothing may be left.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdlib.h>

#include "base/random.h"
#include "core/core.h"
#include "fuzz/liar.h"

#define CHECK_STEPS 16 /* between two looks at everything */

struct fixture {
    struct side victim, honest;
    struct liar liar;
};

/* ---- open and close ---- */

/* The first two bytes are the settings of the two: a window that is wide, or so small that
 * messages are held; whether receives are told in advance, long messages read, held ones taken;
 * a device; a transport that is full and fails as it likes. */
static struct mbx_ep *open_one(uint8_t a, uint8_t b)
{
    static const char *const windows[] = {"WINDOW=auto", "WINDOW=0", "WINDOW=1", "WINDOW=2"};
    const char *params[24] = {
        "TRANSPORT=loop",
        "LOOP_DEPTH=2",
        "EAGER_LIMIT=2K",
        "READ_CHUNK=4K",
        "RTS_PAYLOAD=64",
        "LOG_LEVEL=error",
        "CLOSE_TIMEOUT=0",
        "PEER_TIMEOUT=20ms",
        "REQUESTS=16384",
        windows[a & 3],
        a & 4 ? "WINDOW_PAYLOAD=0" : "WINDOW_PAYLOAD=auto",
        "RPUT_SIZE=1",
        a & 8 ? "RPUT=always" : "RPUT=off",
        a & 16 ? "SENDTABLE=no" : "SENDTABLE=yes",
        (b & 7) == 1 ? "RNDV=data" : "RNDV=auto",
        (b & 24) == 8 ? "MATCH_AT=sender" : "MATCH_AT=receiver",
        (b & 96) == 32 ? "FAULT_PERCENT=20" : "FAULT_PERCENT=0",
        "COOP_SIZE=2",
        b & 128 ? "COOP=off" : "COOP=always",
        "FAULT_SEED=3",
    };
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;
    unsigned i = 0;

    while (params[i] != NULL)
        i++;
    if ((a & 224) == 32) {
        params[i++] = "DEVICE=soft";
        params[i++] = "DEVICE_LIST=2";
        params[i++] = "DEVICE_THRESHOLD=0";
    }
    require(mbx_open(&config, &ep) == 0, "mbx_open");
    return ep;
}

static void connect_to(struct mbx_ep *ep, const struct mbx_address *address, uint32_t as)
{
    uint32_t number;

    require(mbx_peer_add(ep, address, &number) == 0 && number == as, "mbx_peer_add");
    require(peer_use(ep, number) == 0, "peer_use"); /* whatever it says, it is there */
}

static void fixture_open(struct fixture *fix, struct input *in)
{
    static const uint16_t envelopes[] = {0xffff, 0, 1, 2, 5, 16, 64, 0xfffe};
    static const uint16_t payload[] = {0xffff, 0, 1, 8, 64, 0xfffe, 3, 2};
    uint8_t a = take(in), b = take(in), c = take(in);
    struct mbx_address victim, honest, liar;
    struct transport_address address;

    random_secret_set(a);
    liar_open(&fix->liar, envelopes[c & 7] | (uint32_t)payload[c >> 3 & 7] << 16);
    honest_open(&fix->victim, open_one(a, b), &fix->honest, 2);
    honest_open(&fix->honest, open_one(a, b), &fix->victim, 1);
    mbx_address_get(fix->victim.ep, &victim);
    mbx_address_get(fix->honest.ep, &honest);
    fix->liar.transport->ops->address(fix->liar.transport, &address);
    memcpy(&liar, &address, sizeof liar);
    connect_to(fix->victim.ep, &honest, OTHER);
    connect_to(fix->victim.ep, &liar, LIAR);
    connect_to(fix->honest.ep, &victim, OTHER);
    liar_meet(&fix->liar, &fix->victim);
}

static void fixture_close(struct fixture *fix)
{
    mem_fail_at(0);
    honest_finish(&fix->victim, &fix->honest);
    honest_check(&fix->victim);
    honest_check(&fix->honest);
    liar_close(&fix->liar);
    honest_end(&fix->victim, &fix->honest);
    honest_check(&fix->victim);
    mbx_close(fix->victim.ep);
    mbx_close(fix->honest.ep);
    honest_free(&fix->victim);
    honest_free(&fix->honest);
    require(mem_live() == 0, "memory is lost");
}

/* ---- steps ---- */

static void progress(struct side *side)
{
    mbx_progress(side->ep);
    honest_take(side);
}

static void step(struct fixture *fix, struct input *in)
{
    uint8_t what = take(in);

    switch (what & 15) {
    case 0:
        liar_say_bytes(&fix->liar, in);
        break;
    case 1:
    case 2:
    case 3:
        liar_say_something(&fix->liar, in);
        break;
    case 4:
    case 5:
    case 6:
        liar_hear(&fix->liar);
        liar_say_answer(&fix->liar, in);
        break;
    case 7:
        liar_hear(&fix->liar);
        liar_move(&fix->liar, in);
        break;
    case 8:
    case 9:
    case 10:
        honest_act(&fix->victim, in);
        break;
    case 11:
        honest_act(&fix->honest, in);
        break;
    case 12:
        progress(&fix->victim);
        break;
    case 13:
        progress(&fix->honest);
        break;
    case 14:
        for (int i = 0; i < 2 + (what >> 5); i++) {
            liar_hear(&fix->liar);
            progress(&fix->victim);
            progress(&fix->honest);
        }
        break;
    case 15: /* memory runs out soon, or time passes */
        if (what & 128)
            mem_fail_at(1 + (what >> 4 & 7));
        else
            honest_pass((uint64_t)(what >> 4) * CLOCK_MS);
        break;
    }
    honest_take(&fix->victim);
    honest_take(&fix->honest);
    ep_check(fix->victim.ep);
    ep_check(fix->honest.ep);
}

/* What the library has to say of the liar is said too often. */
static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    static struct fixture fix;

    log_set_sink(be_quiet, NULL);
    clock_set(honest_clock);
    fixture_open(&fix, &in);
    for (unsigned i = 1; in.size != 0; i++) {
        step(&fix, &in);
        if (i % CHECK_STEPS == 0)
            honest_check(&fix.victim);
    }
    fixture_close(&fix);
    return 0;
}
