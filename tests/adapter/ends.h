/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ends.h - connections over the software adapter, for its tests: two ends in this process, or one of them
 * in another, which is stopped.
 *
 * Where a function fails, the test does.
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
    uint32_t tags; /* with a shared queue that matches */
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
/* The next completion. */
struct ibv_wc next_of(struct end *end);
void expect(struct end *end, uint64_t id, enum ibv_wc_status status);
void expect_event(struct end *end, enum ibv_event_type type);
enum ibv_qp_state state_of(struct end *end);
/* The adapter that runs has ended: the next one has the environment of whoever opens a device. */
void end_adapter(void);
/* This program again, with two descriptors as arguments; what it says first. */
struct told start_other(struct other *other);
/* The other is connected with us, and stopped. */
void connect_other(struct other *other, struct end *end, const struct told *told,
                   const struct options *options);
/* Its status, when it has ended. */
int end_other(struct other *other);

/* Before the tests: a network namespace of its own, so that nobody shares its adapter, if that is allowed. */
void ends_prepare(void);
/* A test, the last one: nothing was printed in the daemons, by a sanitizer for example. */
void the_daemons_have_not_complained(void **state);
/* After the tests. */
void ends_clean(void);

#endif
