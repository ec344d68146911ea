/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_program.h - the random programs of order_test: made from a seed, shrunk, printed.
 *
 * Every operation has an id that others name, so a program stays meaningful when some
 * operations are dropped.
 */
#ifndef TESTS_ORDER_PROGRAM_H
#define TESTS_ORDER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPS_MAX    56
#define EPS_MAX    3
#define PARAMS_MAX 18
#define NOBODY     (-1)

enum kind {
    SEND,
    SSEND,
    INJECT,
    RECV,
    PROBE,
    MPROBE,
    MRECV,
    DISCARD,
    CANCEL,
    PROGRESS,
    POLL,
    TEST,
    KINDS
};

struct op {
    enum kind kind;
    int id, target; /* target: of mrecv, discard, cancel, test */
    int ep, peer;   /* peer NOBODY: any source */
    uint32_t context_id;
    uint64_t tag, ignore;
    size_t size;
    unsigned queues; /* of poll */
};

enum over { OVER_LOOP, OVER_SHM, OVER_OFI };

struct program {
    uint64_t seed;
    enum over over;
    int eps, count;
    int capacity; /* for RTRs, at each endpoint */
    char params[PARAMS_MAX][32];
    struct op ops[OPS_MAX];
};

extern const char *const kind_names[KINDS];

extern const char *const over_names[];

void program_make(struct program *p, uint64_t seed, enum over over);

/* Drops what the failure does not need, until nothing more can be dropped. */
void program_shrink(struct program *p, bool (*fails)(const struct program *p));

/* Its settings, and a line for each operation. */
void program_print(const struct program *p);

#endif
