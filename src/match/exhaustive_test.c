/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exhaustive_test.c - runs every short history on the engine and on the oracle.
 *
 *   exhaustive_test [OPERATIONS | --long]      up to 6 operations, 7 for --long
 *
 * The domain: one context id, 2 sources, 2 tags, and the 4 masks of MPI - source
 * named or any, tag named or any.  An operation is one of
 *
 *   post     9   2 sources x 2 tags, any source x 2 tags, 2 sources x any tag, any any
 *   arrive   4   2 sources x 2 tags
 *   cancel       each receive posted earlier, whether or not it still waits
 *   claim        each message that arrived earlier, likewise
 *
 * and every sequence of up to that many of them is run, without symmetry reduction: 13, 182,
 * 2,717, ... histories.  After its last operation the answers, both queues, the counters and
 * mbx_match_is_valid() are compared, and then all 9 peeks; a peek is not an operation here (the
 * random histories of match_test have it in the middle).  The 2nd, 4th and 6th operation, if it
 * is an arrival, goes through mbx_match_find() first.
 *
 * All histories run three times, with different mbx_match_options (variants).
 *
 * The search is depth first.  A history is run again from the start for each of its extensions,
 * which is cheaper than undoing and needs no support by the engine.  The ages of all histories
 * wrap at 2^64 after the third queued entry.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "match/history.h"

/* Any tag: only the bits in which the tags differ are ignored. */
#define TAG(i)  ((uint64_t)(i) << 40 | 5)
#define ANY_TAG (TAG(0) ^ TAG(1))

static const struct wanted {
    struct mbx_match_envelope envelope;
    uint64_t ignore;
} wanted[] = {
    {{1, 0, TAG(0)}, 0},
    {{1, 0, TAG(1)}, 0},
    {{1, 1, TAG(0)}, 0},
    {{1, 1, TAG(1)}, 0},
    {{1, MBX_MATCH_ANY_SOURCE, TAG(0)}, 0},
    {{1, MBX_MATCH_ANY_SOURCE, TAG(1)}, 0},
    {{1, 0, TAG(1)}, ANY_TAG},
    {{1, 1, TAG(0)}, ANY_TAG},
    {{1, MBX_MATCH_ANY_SOURCE, TAG(0)}, ANY_TAG},
};

static const struct mbx_match_envelope sent[] = {
    {1, 0, TAG(0)}, {1, 0, TAG(1)}, {1, 1, TAG(0)}, {1, 1, TAG(1)}};

static struct history h;
static struct history_run run;
static int depth = 6;
static unsigned long long histories;

/* Checks the last operation of h; the ones before were checked as a shorter history. */
static bool is_right(void)
{
    int last = h.count - 1;

    for (int i = 0; i < last; i++)
        history_do(&run, &h.ops[i]);
    if (!history_do(&run, &h.ops[last]) || !history_check(&run))
        return false;
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        struct op peek = {OP_PEEK, h.count, 0, wanted[i].envelope, wanted[i].ignore};

        if (!history_do(&run, &peek)) {
            h.ops[h.count++] = peek; /* for the report */
            return false;
        }
    }
    return history_check(&run);
}

static bool replay(void)
{
    bool right;

    history_begin(&run, &h.options, h.count);
    right = is_right();
    history_end(&run);
    return right;
}

static void extend(void);

/* Runs h extended by op, and all its extensions. */
static void try_op(struct op op)
{
    op.id = h.count;
    h.ops[h.count++] = op;
    histories++;
    if (!replay()) {
        history_report(&h, "history", histories);
        exit(1);
    }
    if (h.count < depth)
        extend();
    h.count--;
}

static void extend(void)
{
    enum op_kind arrival = h.count % 2 == 1 ? OP_MEET : OP_ARRIVE;

    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++)
        try_op((struct op){OP_POST, 0, 0, wanted[i].envelope, wanted[i].ignore});
    for (size_t i = 0; i < ARRAY_COUNT(sent); i++)
        try_op((struct op){arrival, 0, 0, sent[i], 0});
    for (int i = 0; i < h.count; i++) {
        if (h.ops[i].kind == OP_POST)
            try_op((struct op){.kind = OP_CANCEL, .target = i});
        else if (h.ops[i].kind == OP_ARRIVE || h.ops[i].kind == OP_MEET)
            try_op((struct op){.kind = OP_EXTRACT, .target = i});
    }
}

/* Queues as usual; then, with one operation less because they allocate, with queues that are
 * long from two entries on; then also with few classes and colliding prints. */
static const struct variant {
    struct mbx_match_options options;
    int less;
} variants[] = {
    {{.first_seq = UINT64_MAX - 2}, 0},
    {{.first_seq = UINT64_MAX - 2, .short_max = 1}, 1},
    {{.first_seq = UINT64_MAX - 2, .short_max = 1, .classes = 2, .hash_bits = 1}, 1},
};

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--long") == 0) {
        depth = 7;
    } else if (argc == 2 && strlen(argv[1]) == 1 && argv[1][0] >= '1' && argv[1][0] <= '9') {
        depth = argv[1][0] - '0';
    } else if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: exhaustive_test [OPERATIONS | --long]\n");
        return 0;
    } else if (argc > 1) {
        fprintf(stderr, "exhaustive_test: '%s' is neither --long nor a number from 1 to 9\n",
                argv[argc > 2 ? 2 : 1]);
        return 2;
    }
    for (size_t i = 0; i < ARRAY_COUNT(variants); i++) {
        h.options = variants[i].options;
        depth -= variants[i].less;
        extend();
        depth += variants[i].less;
    }
    printf("operations=%d histories=%llu\n", depth, histories);
    return 0;
}
