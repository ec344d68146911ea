/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_target.h - the conformance suite over one adapter, with peers on the same adapter.  Test code.
 *
 *   suite ──> proxy ──> verbs  <── in-pairs of verbs_attach  <══  queue pairs of the peers
 *               │ pulls events, and counts the expected ones
 *
 * Nothing here waits for a fixed time: everything that is sent has an end that can be counted.  A
 * message ends in one event of the device, a rendezvous of the hardware in a FIN at its peer, a
 * command in its completion.  run() pulls events until all of these are there, or the device has
 * no untagged buffer left and holds its senders back.
 */
#ifndef TESTING_VERBS_TARGET_H
#define TESTING_VERBS_TARGET_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "device/verbs/verbs.h"
#include "testing/device/conformance.h"

struct verbs_peer;

struct verbs_target {
    struct mbx_device proxy;
    struct mbx_device *device;       /* the verbs device of the proxy */
    struct verbs_peer *peers;        /* [CONFORMANCE_PEERS], once they are connected */
    struct mbx_device_event *events; /* pulled and not polled: count from first, of capacity */
    uint32_t first, count, capacity;
    uint32_t free;   /* untagged buffers */
    uint32_t moving; /* receives matched and not filled */
    uint32_t *from;  /* by handle: the peer of its rendezvous, or NOBODY */
    bool is_lost;
    uint32_t failed;      /* number of links that failed so far */
    uint32_t last_failed; /* the peer of the last failure */
    uint64_t fin_sender;  /* the result of config.fin */
    struct verbs_fin fin; /* ... and its last argument */
    bool knows_fin;
};

/* The adapter of the instances: config.name.  NULL: the first that matches tags. */
extern const char *verbs_target_name;

/* The functions of struct conformance_target. */
void *verbs_target_open(struct mbx_device **device);
void verbs_target_close(void *instance);
void verbs_target_send(void *instance, uint32_t peer,
                       const struct conformance_message *message);
void verbs_target_run(void *instance);
void verbs_target_read(void *instance, const struct mbx_device_event *event, const void *packet,
                       struct conformance_message *message);
uint64_t verbs_target_fins(void *instance, uint32_t peer);

extern const struct conformance_target verbs_target; /* with all of these functions */

/* Sends a header and the bytes after it. */
void verbs_target_send_raw(struct verbs_target *t, uint32_t peer, const struct ibv_tmh *tmh,
                           const void *behind, size_t size);
struct ibv_tmh verbs_target_header(enum ibv_tmh_op opcode, uint32_t app_ctx, uint64_t tag);

/* Consumes a receive by a write with immediate data, which writes no byte. */
void verbs_target_write_imm(struct verbs_target *t, uint32_t peer);

/* A rendezvous of these bytes, registered until close(); rkey 0: they are readable, otherwise
 * this key is sent. */
void verbs_target_send_rndv(struct verbs_target *t, uint32_t peer, uint64_t tag, uint32_t data,
                            const void *bytes, uint32_t size, uint64_t sender, uint32_t rkey);

#endif
