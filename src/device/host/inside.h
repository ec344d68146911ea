/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inside.h - what the files of this folder share besides shadow.h and bypass.h; never leaves it.
 */
#ifndef DEVICE_HOST_INSIDE_H
#define DEVICE_HOST_INSIDE_H

#include "device/host/driver.h"
#include "device/host/offload.h"

/* matched.c: what the shadow tells us; its argument is the endpoint. */
extern const struct shadow_events offload_shadow_events;
/* The same of a device that receives always. */
extern const struct shadow_events offload_inlet_events;

/* second_path.c: three of these, as shadow_events has them. */
struct shadow_recv *offload_on_find(void *ep, struct shadow_message *message);
void offload_on_met(void *ep, struct shadow_message *message, struct shadow_recv *recv);
int offload_on_keep(void *ep, struct shadow_message *message);

/* The endpoint closes; messages are freed where all are. */
void offload_drop_parked(struct offload *offload);

/* calm.c, as struct module and struct device_hooks have them. */
void offload_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new);
bool offload_on_has_seen_all(struct mbx_ep *ep);
void offload_on_stop(struct mbx_ep *ep);

#endif
