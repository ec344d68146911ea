/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux.h - shm and a network (ofi or verbs) as one transport: mux.c.
 */
#ifndef TRANSPORT_MUX_H
#define TRANSPORT_MUX_H

#include "transport/transport.h"

/* The transport to poll in every round: t itself, or only its shm part while the network has
 * met no peer; then t must also be polled, but less often. */
struct transport *transport_polled(struct transport *t);

/* The part of t that reaches other machines: the network of a mux, otherwise t itself. */
struct transport *transport_network(struct transport *t);

#endif
