/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * labels.h - optional operations of a transport: endpoints of a job on one machine find each
 * other's addresses without the launcher.
 *
 * An endpoint gives itself a label, a number that others can compute, for example from its
 * rank; others look up the address by the label.  No call waits, and none makes a system call.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_LABELS_H
#define TRANSPORT_LABELS_H

#include <errno.h>

#include "transport/transport.h"

/* Label: a number by which other endpoints on the same machine find an address */
struct transport_labels {
    /* Lets others find our address by this label, which is not 0, until close().
     * 0; -ENOTSUP; -EEXIST an open endpoint has this label; -ENOSPC */
    int (*share)(struct transport *t, uint64_t label, const struct transport_address *address);
    /* The address with this label, which has not been validated.  0; -ENOENT */
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
