/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mux.h - shm and a network, ofi or verbs, as one transport: mux.c.
 */
#ifndef TRANSPORT_MUX_H
#define TRANSPORT_MUX_H

#include "transport/transport.h"

/* What has to be polled in every round: t itself, or its part shm as long as nobody was met
 * over the network; then t is to be polled now and then. */
struct transport *transport_polled(struct transport *t);

/* The part of t that reaches other machines: the network in mux, else t itself. */
struct transport *transport_network(struct transport *t);

#endif
