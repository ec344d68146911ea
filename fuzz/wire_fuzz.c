/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_fuzz.c - an endpoint survives arbitrary packets of a peer, and correct endpoints keep their
 * guarantees.
 *
 *   byzantine ──arbitrary packets──> victim <──messages, reads, writes──> correct
 *    ^─────────────────────────────────┘
 *
 *   user.c               the users of the victim and of the correct endpoint: they send,
 *                        receive, probe, cancel, read and write, and check their guarantees
 *   byzantine.c          the byzantine endpoint's end: it receives its victim's packets, and so
 *                        learns numbers and addresses
 *   byzantine_packets.c  the packets that it sends
 *
 * All three are endpoints of one process and one thread over the loop transport, with a time that
 * advances when the input says so.  At the end the byzantine endpoint is silent, and all messages
 * between the victim and the correct endpoint must arrive; then it is closed, and all operations
 * with it must end; then nothing may be left.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdlib.h>

#include "base/random.h"
#include "core/core.h"
#include "fuzz/byzantine.h"

#define CHECK_STEPS 16 /* steps between two complete checks */

struct fixture {
    struct user victim, correct;
    struct byzantine byzantine;
};

/* ---- open and close ---- */

/* The first two bytes are the settings of the victim and of the correct endpoint: a window that
 * is wide, or so small that messages are deferred; whether receives are advertised, long
 * messages read, deferred ones pulled; a device; a transport that is randomly full and
 * fails. */
static struct mbx_ep *open_one(uint8_t a, uint8_t b)
{
    static const char *const windows[] = {"WINDOW=auto", "WINDOW=0", "WINDOW=1", "WINDOW=2"};
    const char *params[25] = {
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
        "ADVERT_SIZE=1",
        a & 8 ? "ADVERT=always" : "ADVERT=off",
        a & 16 ? "SENDTABLE=no" : "SENDTABLE=yes",
        (b & 7) == 1 ? "RNDV=data" : "RNDV=auto",
        (b & 24) == 8 ? "MATCH_AT=sender" : "MATCH_AT=receiver",
        (b & 96) == 32 ? "FAULT_PERCENT=20" : "FAULT_PERCENT=0",
        "SPLIT_COPY_SIZE=2",
        b & 128 ? "SPLIT_COPY=off" : "SPLIT_COPY=always",
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
    require(peer_use(ep, number) == 0, "peer_use"); /* the peer must exist from now on */
}

static void fixture_open(struct fixture *fix, struct input *in)
{
    static const uint16_t envelopes[] = {0xffff, 0, 1, 2, 5, 16, 64, 0xfffe};
    static const uint16_t payload[] = {0xffff, 0, 1, 8, 64, 0xfffe, 3, 2};
    uint8_t a = take(in), b = take(in), c = take(in);
    struct mbx_address victim, correct, byzantine;
    struct transport_address address;

    random_secret_set(a);
    byzantine_open(&fix->byzantine, envelopes[c & 7] | (uint32_t)payload[c >> 3 & 7] << 16);
    user_open(&fix->victim, open_one(a, b), &fix->correct, 2);
    user_open(&fix->correct, open_one(a, b), &fix->victim, 1);
    mbx_address_get(fix->victim.ep, &victim);
    mbx_address_get(fix->correct.ep, &correct);
    fix->byzantine.transport->ops->address(fix->byzantine.transport, &address);
    memcpy(&byzantine, &address, sizeof byzantine);
    connect_to(fix->victim.ep, &correct, OTHER);
    connect_to(fix->victim.ep, &byzantine, BYZANTINE);
    connect_to(fix->correct.ep, &victim, OTHER);
    byzantine_connect(&fix->byzantine, &fix->victim);
}

static void fixture_close(struct fixture *fix)
{
    mem_fail_at(0);
    user_finish(&fix->victim, &fix->correct);
    user_check(&fix->victim);
    user_check(&fix->correct);
    byzantine_close(&fix->byzantine);
    user_end(&fix->victim, &fix->correct);
    user_check(&fix->victim);
    mbx_close(fix->victim.ep);
    mbx_close(fix->correct.ep);
    user_free(&fix->victim);
    user_free(&fix->correct);
    require(mem_live() == 0, "memory is lost");
}

/* ---- steps ---- */

static void progress(struct user *user)
{
    mbx_progress(user->ep);
    user_take_completions(user);
}

static void step(struct fixture *fix, struct input *in)
{
    uint8_t what = take(in);

    switch (what & 15) {
    case 0:
        byzantine_send_bytes(&fix->byzantine, in);
        break;
    case 1:
    case 2:
    case 3:
        byzantine_send_shaped(&fix->byzantine, in);
        break;
    case 4:
    case 5:
    case 6:
        byzantine_receive(&fix->byzantine);
        byzantine_send_answer(&fix->byzantine, in);
        break;
    case 7:
        byzantine_receive(&fix->byzantine);
        byzantine_access(&fix->byzantine, in);
        break;
    case 8:
    case 9:
    case 10:
        user_act(&fix->victim, in);
        break;
    case 11:
        user_act(&fix->correct, in);
        break;
    case 12:
        progress(&fix->victim);
        break;
    case 13:
        progress(&fix->correct);
        break;
    case 14:
        for (int i = 0; i < 2 + (what >> 5); i++) {
            byzantine_receive(&fix->byzantine);
            progress(&fix->victim);
            progress(&fix->correct);
        }
        break;
    case 15: /* memory will soon run out, or time passes */
        if (what & 128)
            mem_fail_at(1 + (what >> 4 & 7));
        else
            fuzz_time_pass((uint64_t)(what >> 4) * CLOCK_MS);
        break;
    }
    user_take_completions(&fix->victim);
    user_take_completions(&fix->correct);
    ep_check(fix->victim.ep);
    ep_check(fix->correct.ep);
}

/* The log would have a line for each dropped packet: too many. */
static void be_quiet(void *arg, enum log_level level, const char *text)
{
    (void)arg, (void)level, (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    static struct fixture fix;

    log_set_sink(be_quiet, NULL);
    clock_set(fuzz_clock);
    fixture_open(&fix, &in);
    for (unsigned i = 1; in.size != 0; i++) {
        step(&fix, &in);
        if (i % CHECK_STEPS == 0)
            user_check(&fix.victim);
    }
    fixture_close(&fix);
    return 0;
}
