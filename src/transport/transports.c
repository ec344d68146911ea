/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transports.c - which transports there are.
 *
 * A new one is a row here; what users can set of it is a part of struct transport_settings.
 */
#include "base/base.h"
#include "transport/loop/loop.h"
#include "transport/sim/sim.h"

static const struct transport_ops *const all[] = {
    &transport_shm, &transport_ofi, &transport_mux, &transport_loop, &transport_sim,
};

const struct transport_ops *transport_at(unsigned index)
{
    return index < ARRAY_COUNT(all) ? all[index] : NULL;
}
