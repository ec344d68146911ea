/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * looks.h - the looks that a diagnosis needs: two, and more for a job whose ranks poll.
 *
 *   look ── between_ns ──> look ──┬── a deadlock, or ranks that go on ──────────────> the verdict
 *                                 └── all wait or poll: LOOKS - 2 more, each after LOOKS_EACH_NS ──> the verdict
 */
#ifndef TOOLS_LOOKS_H
#define TOOLS_LOOKS_H

#include "base/clock.h"
#include "tools/observe/diagnose.h"
#include "tools/observe/observe.h"

/* Ranks that poll have been seen so often, over 3 s. */
#define LOOKS         5u
#define LOOKS_EACH_NS CLOCK_S

struct looks {
    struct observed all[LOOKS];
    uint32_t count;
    uint64_t quiet_ns; /* ranks that poll are judged after so long without a message */
};

/* Looks, or rests before the next look: 0; a negative errno. */
struct looks_ways {
    int (*look)(void *arg, struct observed *out);
    int (*rest)(void *arg, uint64_t ns);
    void *arg;
};

/* After two looks: looks again, LOOKS in all, while the ranks of some job do nothing but wait and poll.  0; the
 * negative errno of a way. */
int looks_go_on(struct looks *looks, const struct looks_ways *ways);

/* All ranks of a look: it may have joined jobs in another way than the next one. */
struct inspect_job looks_ranks(const struct observed *observed);

/* The verdict on a job of the last look.  nodes has space for its ranks, and gets their states. */
enum diagnose_verdict looks_judge(const struct looks *looks, const struct inspect_job *job,
                                  enum inspect_node *nodes);

void looks_free(struct looks *looks);

#endif
