/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * labels.h - how endpoints of a job on one machine find each other's addresses without asking its launcher.
 *
 * An endpoint gives itself a label, a number that others can work out, as one made of its rank; who looks for that
 * label finds its address.  Nobody waits, and nothing is asked of the system.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_LABELS_H
#define TRANSPORT_LABELS_H

#include <errno.h>

#include "transport/transport.h"

/* Glossary: label - a number by which other endpoints on the same machine find an address */
struct transport_labels {
    /* Others find our address by this label, which is not 0, from now on, until close().
     * 0; -ENOTSUP; -EEXIST an endpoint that is open has it; -ENOSPC */
    int (*share)(struct transport *t, uint64_t label, const struct transport_address *address);
    /* The address with this label, as it was found: nobody has checked it.  0; -ENOENT */
    int (*find)(const struct transport *t, uint64_t label, struct transport_address *address);
};

static inline int transport_share(struct transport *t, uint64_t label,
                                  const struct transport_address *address)
{
    return t->ops->labels != NULL ? t->ops->labels->share(t, label, address) : -ENOTSUP;
}

static inline int transport_find(const struct transport *t, uint64_t label,
                                 struct transport_address *address)
{
    return t->ops->labels != NULL ? t->ops->labels->find(t, label, address) : -ENOENT;
}

#endif
