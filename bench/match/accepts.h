/* SPDX-License-Identifier: BSD-3-Clause */
/* accepts.h - does a receive accept a message?  For the engines written here. */
#ifndef BENCH_MATCH_ACCEPTS_H
#define BENCH_MATCH_ACCEPTS_H

#include "engine.h"

static inline bool accepts(const struct mbx_match_envelope *wanted, uint64_t ignore,
                           const struct mbx_match_envelope *message)
{
    return ((wanted->tag ^ message->tag) & ~ignore) == 0 &&
           wanted->context_id == message->context_id &&
           (wanted->source == message->source || wanted->source == MBX_MATCH_ANY_SOURCE);
}

static inline bool is_exact(const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    return ignore == 0 && wanted->source != MBX_MATCH_ANY_SOURCE;
}

#endif
