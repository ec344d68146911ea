/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_fixture.h - endpoints of the libfabric provider in one process, opened through the
 * real libfabric, for tests.
 *
 * Every node has an endpoint, a completion queue and an address vector of its own;
 * fixture_open() inserts every address in every vector.  Failures end the test (cmocka).
 */
#ifndef TESTS_PROVIDER_FIXTURE_H
#define TESTS_PROVIDER_FIXTURE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <time.h>
#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../src/provider/old_names.h"

#define FIXTURE_NODES   3
#define FIXTURE_ADDRESS 64

/* The counters that a node may have. */
enum node_counter {
    NODE_SENDS,
    NODE_RECVS,
    NODE_READS,
    NODE_WRITES,
    NODE_READ_HERE,
    NODE_WRITTEN_HERE,
    NODE_COUNTERS
};

struct node {
    struct fid_cntr *cntr[NODE_COUNTERS]; /* or NULL */
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    char address[FIXTURE_ADDRESS];
};

struct fixture {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct node node[FIXTURE_NODES];
    fi_addr_t addr[FIXTURE_NODES]; /* of node i, the same in every vector */
};

/* How a test's setup differs from the default, which is all zero. */
struct setup {
    enum fi_cq_format format; /* default FI_CQ_FORMAT_TAGGED */
    enum fi_wait_obj wait;
    enum fi_cq_wait_cond wait_cond;
    enum fi_progress progress;
    enum fi_threading threading; /* default FI_THREAD_DOMAIN */
    enum fi_av_type av_type;
    uint64_t caps;                   /* default tagged, untagged, directed, source */
    uint64_t bind_flags;             /* FI_SELECTIVE_COMPLETION */
    uint64_t send_flags, recv_flags; /* op_flags */
    int mr_mode;                     /* in the info that the domain is opened with */
    int mr_offer;                    /* more modes in the hints alone */
    uint64_t counts;                 /* FI_SEND, ...: each node has a counter for each */
    uint64_t tag_format;             /* mem_tag_format */
    bool unknown_peers;              /* insert no addresses */
    bool queueless;                  /* no queues: counters are all there is */
    bool sends_only;                 /* the queue is bound for what this side starts */
    enum fi_wait_obj cntr_wait;      /* default FI_WAIT_UNSPEC */
    bool shared_cq;                  /* all endpoints report to node 0's queue */
};

#define EP(fix, i) ((fix).node[i].ep)

/* May nodes of this machine access each other's memory?  If the environment forbids it, prints
 * that; then a test that needs it is skipped: its exit code is FIXTURE_SKIPPED. */
#define FIXTURE_SKIPPED 77
bool fixture_has_shm(void);

struct fi_info *fixture_hints(const struct setup *setup);
void fixture_open(struct fixture *fix, const struct setup *setup);
void fixture_close(struct fixture *fix);

/* Lets all nodes make progress without reading completions. */
void fixture_progress(struct fixture *fix);

/* Returns when all that a node has sent to another has arrived there, and is unexpected or
 * matched.  Posts a receive of its own and sends a message to it: no other completion may be
 * next at node to. */
void fixture_arrived(struct fixture *fix, int from, int to);

/* When a wait that begins now has failed, by time(); long enough for a busy machine. */
time_t fixture_end(void);

/* Reads one completion of a node, waiting until fixture_end(); -FI_EAVAIL if an error is
 * next. */
ssize_t fixture_read(struct fixture *fix, int node, struct fi_cq_tagged_entry *entry,
                     fi_addr_t *source);

/* Reads the error entry that is next. */
void fixture_read_error(struct fixture *fix, int node, struct fi_cq_err_entry *error);

/* Asserts that nothing completes at node for a while. */
void fixture_is_quiet(struct fixture *fix, int node);

/* Assert that the next completion of a node is for a send; for a receive. */
void expect_send(struct fixture *fix, int node, void *context);
void expect_recv(struct fixture *fix, int node, void *context, size_t len, uint64_t tag);

/* Injects 8 bytes. */
void inject_word(struct fixture *fix, int from, int to, uint64_t tag, uint64_t word);

/* Starts a thread; reports a failure in one, and ends the program, as it cannot assert. */
pthread_t thread_start(void *(*run)(void *), void *arg);
void thread_check(bool ok, const char *what);

/* Fills and checks a pattern that differs from byte to byte and seed to seed. */
void pattern_fill(void *buf, size_t size, unsigned seed);
bool pattern_is(const void *buf, size_t size, unsigned seed);

#endif
