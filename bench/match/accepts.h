/* SPDX-License-Identifier: BSD-3-Clause */
/* accepts.h - would such a receive take such a message?  For the engines written here. */
#ifndef BENCH_MATCH_ACCEPTS_H
#define BENCH_MATCH_ACCEPTS_H

#include "engine.h"

static inline bool accepts(const struct bench_pattern *wanted,
                           const struct match_envelope *message)
{
    return ((wanted->envelope.tag ^ message->tag) & ~wanted->ignore) == 0 &&
           wanted->envelope.context_id == message->context_id &&
           (wanted->envelope.source == message->source ||
            wanted->envelope.source == MATCH_ANY_SOURCE);
}

static inline bool is_exact(const struct bench_pattern *wanted)
{
    return wanted->ignore == 0 && wanted->envelope.source != MATCH_ANY_SOURCE;
}

#endif
