/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_program.c - see order_program.h.
 */
#include "order_program.h"

#include <stdio.h>
#include <string.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/random.h"

const char *const kind_names[KINDS] = {"send",   "ssend",    "inject", "recv",
                                       "probe",  "mprobe",   "mrecv",  "discard",
                                       "cancel", "progress", "poll",   "test"};

const char *const over_names[] = {"loop", "shm", "ofi"};

static const size_t sizes[] = {0, 1, 8, 40, 300, 470, 600, 1500, 5000, 9000, 20000};

static enum kind random_kind(struct random *r)
{
    static const enum kind often[] = {SEND, SEND, SEND,     SSEND,    INJECT,   RECV,
                                      RECV, RECV, RECV,     PROBE,    MPROBE,   MRECV,
                                      POLL, TEST, PROGRESS, PROGRESS, PROGRESS, PROGRESS};

    return random_below(r, 12) == 0 ? (enum kind)random_below(r, KINDS)
                                    : often[random_below(r, ARRAY_COUNT(often))];
}

/* Uses one context and few tags, so that many receives match many messages. */
static void op_narrow(struct op *op)
{
    op->context_id = 0;
    op->tag &= 1;
    op->peer = op->kind <= INJECT ? 0 : op->peer;
    op->ep = op->kind <= INJECT ? (op->ep == 0 ? 1 : op->ep) : op->kind <= DISCARD ? 0 : op->ep;
}

/* One of a few probes, repeated; the answers need progress. */
static void op_probing(struct op *op, struct random *r)
{
    uint64_t what = random_below(r, 8);

    if (op->kind <= INJECT || what == 0)
        return;
    op->kind = what < 4 ? PROGRESS : what < 5 ? PROBE : MPROBE;
    op->ep = what < 4 ? (int)(what & 1) : 0;
    op->peer = NOBODY;
    op->context_id = 0;
    op->tag &= 1;
    op->ignore = random_below(r, 3) == 0 ? 0 : MBX_IGNORE_ALL;
}

static struct op random_op(struct random *r, int eps, int id)
{
    static const uint64_t ignores[] = {0, 0, 1, 2, MBX_IGNORE_ALL};
    struct op op = {
        .kind = random_kind(r),
        .id = id,
        .target = (int)random_below(r, (uint64_t)id + 1),
        .ep = (int)random_below(r, (uint64_t)eps),
        .peer = (int)random_below(r, (uint64_t)eps),
        .context_id = random_below(r, 4) == 0 ? MBX_CONTEXT_MAX : 0,
        .tag = random_below(r, 3),
        .ignore = ignores[random_below(r, ARRAY_COUNT(ignores))],
        .size = sizes[random_below(r, ARRAY_COUNT(sizes))],
        .queues = (unsigned)random_below(r, 3) + 1,
    };

    if (op.kind == INJECT)
        op.size = min_size(op.size, 40);
    if (op.kind == RECV || op.kind == PROBE || op.kind == MPROBE) {
        if (random_below(r, 3) == 0)
            op.peer = NOBODY;
        if (random_below(r, 4) != 0)
            op.size = 20000;
    }
    return op;
}

/* Draws from a generator of its own, so that older seeds keep their meaning. */
static int early_params(struct program *p, int i)
{
    static const char *const when[] = {"off", "auto", "always", "always"};
    static const char *const size[] = {"1", "1", "600", "8K"};
    static const char *const calm[] = {"0", "auto"};
    struct random r;

    random_seed(&r, ~(p->seed * 2 + (p->over != OVER_LOOP)));
    snprintf(p->params[i++], 32, "ADVERT=%s", when[random_below(&r, 4)]);
    snprintf(p->params[i++], 32, "ADVERT_SIZE=%s", size[random_below(&r, 4)]);
    snprintf(p->params[i++], 32, "SPLIT_COPY=%s", when[random_below(&r, 4)]);
    snprintf(p->params[i++], 32, "SPLIT_COPY_SIZE=2");
    snprintf(p->params[i++], 32, "CALM_LEAST=%s", calm[random_below(&r, 2)]);
    return i;
}

void program_make(struct program *p, uint64_t seed, enum over over)
{
    static const char *const windows[] = {"0", "0", "1", "2", "5", "auto"};
    static const char *const any[] = {"receiver", "receiver", "sender"};
    static const int faults[] = {0, 0, 20, 50};
    static const char *const eager[] = {"0", "600", "2000", "8K"};
    struct random r;
    bool is_narrow, is_probing;
    int i = 0;

    random_seed(&r, seed * 2 + (over != OVER_LOOP));
    *p = (struct program){.seed = seed, .over = over, .count = OPS_MAX};
    p->eps = 2 + (int)random_below(&r, 2);
    snprintf(p->params[i++], 32, "TRANSPORT=%s", over_names[over]);
    snprintf(p->params[i++], 32, "FAULT_PERCENT=%d", faults[random_below(&r, 4)]);
    snprintf(p->params[i++], 32, "EAGER_LIMIT=%s", eager[random_below(&r, 4)]);
    snprintf(p->params[i++], 32, "RNDV=%s", random_below(&r, 3) == 0 ? "data" : "auto");
    snprintf(p->params[i++], 32, "RTS_PAYLOAD=%d", (int)random_below(&r, 3) * 200);
    snprintf(p->params[i++], 32, "READ_CHUNK=4K");
    snprintf(p->params[i++], 32, "MATCH_AT=%s", any[random_below(&r, 3)]);
    snprintf(p->params[i++], 32, "WINDOW=%s", windows[random_below(&r, ARRAY_COUNT(windows))]);
    snprintf(p->params[i++], 32, "SENDTABLE=%s", random_below(&r, 2) == 0 ? "no" : "yes");
    snprintf(p->params[i++], 32, "WINDOW_PAYLOAD=%s", random_below(&r, 2) == 0 ? "0" : "auto");
    if (over == OVER_SHM)
        snprintf(p->params[i++], 32, "SHM_RING_SIZE=4K");
    else if (over == OVER_OFI)
        snprintf(p->params[i++], 32, "OFI_PROVIDER=tcp;ofi_rxm");
    else
        snprintf(p->params[i++], 32, "LOOP_DEPTH=%d", 1 + (int)random_below(&r, 4));
    i = early_params(p, i);
    p->capacity = random_below(&r, 2) == 0 ? 1 + (int)random_below(&r, 4) : 256;
    is_narrow = random_below(&r, 2) == 0;
    is_probing = is_narrow && random_below(&r, 2) == 0;
    for (int id = 0; id < OPS_MAX; id++) {
        p->ops[id] = random_op(&r, p->eps, id);
        if (is_narrow)
            op_narrow(&p->ops[id]);
        if (is_probing)
            op_probing(&p->ops[id], &r);
    }
}

void program_shrink(struct program *p, bool (*fails)(const struct program *p))
{
    bool dropped;

    do {
        dropped = false;
        for (int i = p->count - 1; i >= 0; i--) {
            struct program less = *p;

            memmove(&less.ops[i], &less.ops[i + 1],
                    (size_t)(p->count - i - 1) * sizeof less.ops[0]);
            less.count--;
            if (fails(&less)) {
                *p = less;
                dropped = true;
            }
        }
    } while (dropped);
}

/* Prints the envelope of a send, receive or probe. */
static void op_print_envelope(const struct op *op)
{
    bool is_message = op->kind <= INJECT;

    if (op->peer == NOBODY)
        printf(" from any");
    else
        printf(" %s %d", is_message ? "to" : "from", op->peer);
    printf(" ctx %u tag %llu", op->context_id, (unsigned long long)op->tag);
    if (!is_message)
        printf(" ignore %llx", (unsigned long long)op->ignore);
    printf(" size %zu", op->size);
}

static void op_print(const struct op *op)
{
    printf("  %2d ep %d %-8s", op->id, op->ep, kind_names[op->kind]);
    if (op->kind == MRECV || op->kind == DISCARD || op->kind == CANCEL || op->kind == TEST)
        printf(" of %d", op->target);
    else if (op->kind <= MPROBE)
        op_print_envelope(op);
    printf("\n");
}

void program_print(const struct program *p)
{
    printf(" ");
    for (int i = 0; i < PARAMS_MAX && p->params[i][0] != '\0'; i++)
        printf(" %s", p->params[i]);
    printf(", RTR capacity %d\n", p->capacity);
    for (int i = 0; i < p->count; i++)
        op_print(&p->ops[i]);
}
