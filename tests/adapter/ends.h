/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends.h - connections over the software adapter, for its tests: two ends in this process, or
 * one end in another process, which stops itself.
 *
 * A function that fails makes the test fail.
 */
#ifndef TESTS_ADAPTER_ENDS_H
#define TESTS_ADAPTER_ENDS_H

#include "adapter/library/library.h"
#include "base/clock.h"

#define BYTES (1u << 20)
#define ALL                                                                                    \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
     IBV_ACCESS_REMOTE_ATOMIC)

/* One end of a connection, in a device context of its own. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    unsigned char *bytes;
};

struct options {
    uint32_t cqe, srq;
    uint32_t tags; /* the shared queue matches this many tags, or 0 */
    uint8_t rnr_retry, retry_cnt, timeout;
    int access;
};

extern const struct options usual;

struct told {
    uint32_t qpn, rkey;
    uint64_t addr;
};

struct other {
    pid_t pid;
    int in, out;
};

void open_end(struct end *end, const struct options *options);
void close_end(struct end *end);
void connect_to(struct end *end, uint32_t qpn, const struct options *options);
void open_pair(struct end *a, struct end *b, const struct options *options);
struct ibv_sge part(struct end *end, uint32_t offset, uint32_t size);
void post_recv(struct end *end, uint64_t id, uint32_t offset, uint32_t size);
void post(struct end *end, enum ibv_wr_opcode opcode, uint64_t id, uint32_t size, uint64_t addr,
          uint32_t rkey, unsigned flags);
/* Polls for the next completion and returns it. */
struct ibv_wc next_of(struct end *end);
void expect(struct end *end, uint64_t id, enum ibv_wc_status status);
void expect_event(struct end *end, enum ibv_event_type type);
enum ibv_qp_state state_of(struct end *end);
/* Ends the running adapter: the next daemon has the environment of the process that opens a
 * device. */
void end_adapter(void);
/* Starts this program again, with two descriptors as arguments.  Returns its first report. */
struct told start_other(struct other *other);
/* Connects the other process to this end, and waits until it has stopped. */
void connect_other(struct other *other, struct end *end, const struct told *told,
                   const struct options *options);
/* Waits until the other process has ended.  Returns its status. */
int end_other(struct other *other);

/* Call before the tests: enters a network namespace of its own, if permitted, so that nobody
 * shares its adapter. */
void ends_prepare(void);
/* The last test: the daemons, and their sanitizers, have printed nothing. */
void the_daemons_have_not_complained(void **state);
void ends_clean(void);

#endif
