/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inside.h - declarations that only the files of this folder share.
 */
#ifndef DEVICE_HOST_INSIDE_H
#define DEVICE_HOST_INSIDE_H

#include "device/host/driver.h"
#include "device/host/offload.h"

/* matched.c: handles the shadow's events; their argument is the endpoint. */
extern const struct shadow_events offload_shadow_events;
/* For a device that always receives. */
extern const struct shadow_events offload_inlet_events;

/* second_path.c: find, met and keep of shadow_events. */
struct shadow_recv *offload_on_find(void *ep, struct shadow_message *message);
void offload_on_met(void *ep, struct shadow_message *message, struct shadow_recv *recv);
int offload_on_keep(void *ep, struct shadow_message *message);

/* The endpoint closes.  The messages themselves are freed with all others. */
void offload_drop_parked(struct offload *offload);

/* calm.c: hooks of struct module and struct device_hooks. */
void offload_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new);
bool offload_on_has_seen_all(struct mbx_ep *ep);
void offload_on_stop(struct mbx_ep *ep);

#endif
