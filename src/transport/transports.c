/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transports.c - the list of transports, and their user parameters.
 *
 * A new transport is a row here; its user parameters are a part of struct transport_settings.
 */
#include "base/base.h"
#include "transport/transport.h"

static const struct transport_ops *const own[] = {
    &transport_shm, &transport_ofi, &transport_verbs, &transport_mux, &transport_mux_verbs,
};

const struct transport_extension *transport_extension;

const struct transport_ops *transport_at(unsigned index)
{
    if (index < ARRAY_COUNT(own))
        return own[index];
    index -= ARRAY_COUNT(own);
    return transport_extension != NULL && index < transport_extension->count
               ? transport_extension->transports[index]
               : NULL;
}

const struct param *transport_param(unsigned index)
{
    const struct transport_ops *ops;

    for (unsigned i = 0; (ops = transport_at(i)) != NULL; i++) {
        if (index < ops->param_count)
            return &ops->params[index];
        index -= (unsigned)ops->param_count;
    }
    return transport_extension != NULL && index < transport_extension->param_count
               ? &transport_extension->params[index]
               : NULL;
}

int transport_open(const struct transport_ops *ops, const struct transport_config *config,
                   struct transport **out)
{
    return transport_extension != NULL ? transport_extension->open(ops, config, out)
                                       : ops->open(config, out);
}
