/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hca.h - the adapter of an endpoint, and objects that all of its links share: hca.c.
 */
#ifndef IB_HCA_H
#define IB_HCA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ib;
struct transport_config;
struct transport_address;

#define IB_SEND_ENTRIES                                                                        \
    256 /* of the completion queue: for the requests of tx.h, rma.h and ud.h */

struct ib_hca {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    char name[64];
    uint8_t port, gid_index, link_layer;
    uint16_t lid;
    union ibv_gid gid;
    enum ibv_mtu mtu;
    uint8_t reads_out,
        reads_in;          /* concurrent RDMA reads of a queue pair, ours and the peer's */
    uint32_t message_max;  /* bytes of one RDMA operation */
    uint32_t receives_max; /* entries of srq */
    uint32_t inline_max;
};

/* Opens the device that the parameters name.  0; -ENODATA or another error, logged. */
int ib_hca_open(struct ib *ib, const struct transport_config *config);
void ib_hca_close(struct ib *ib);

/* Writes what a peer needs to send us datagrams into the network part of an address. */
void ib_hca_address(const struct ib *ib, uint32_t ud_number, uint32_t ud_key,
                    struct transport_address *address);
bool ib_hca_is_address(const struct ib *ib, const struct transport_address *address);

/* The route to an address for which ib_hca_is_address() is true. */
struct ibv_ah_attr ib_hca_route(const struct ib *ib, const struct transport_address *address);
void ib_hca_datagrams(const struct transport_address *address, uint32_t *number, uint32_t *key);

/* A call of libibverbs has failed: logs it. Returns a negative errno. */
int ib_hca_failed(const struct ib *ib, const char *call, int err);

/* Handles async events of the adapter.  True: the adapter is lost. */
bool ib_hca_take_events(struct ib *ib);

#endif
