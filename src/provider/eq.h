/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.h - the event queue: eq.c.
 */
#ifndef PROVIDER_EQ_H
#define PROVIDER_EQ_H

#include "provider/compat.h"
#include "door/idle.h"
#include "provider/wait.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_eq_entry;
struct prov_fabric;

struct prov_eq {
    struct fid_eq fid;
    struct prov_fabric *fabric;
    atomic_uint users;
    pthread_mutex_t lock;
    struct prov_wait wait;
    bool is_writable;
    bool overran; /* an event was lost: no memory */
    struct door_idle idle;
    struct prov_eq_entry *first, **last;
};

int prov_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                 void *context);
bool prov_eq_is_ready(struct prov_eq *eq);
/* Adds an event or error of the provider.  If memory is short, fi_eq_readerr() reports the
 * loss. */
void prov_eq_event(struct prov_eq *eq, uint32_t event, const void *entry, size_t size);
void prov_eq_error(struct prov_eq *eq, const struct fi_eq_err_entry *error);

#endif
