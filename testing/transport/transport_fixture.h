/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_fixture.h - a fixture of a few endpoints in one thread, over any transport.  Test
 * code.
 *
 * Each node has what its events said.  A packet's contents follow from its number, so a
 * Each node records its events.  A packet's contents follow from its number, so a
 * receiver knows the expected bytes.  Every test ends with all endpoints closed and no
 * memory, descriptors or mappings left (fixture_fini).  Failures end the test (cmocka).
 */
#ifndef TESTING_TRANSPORT_FIXTURE_H
#define TESTING_TRANSPORT_FIXTURE_H

#include "base/base.h"
#include "base/log.h"
#include "base/unit.h"
#include "transport/transport.h"

#define MAX_NODES  4
#define MAX_LINKS  8
#define MAX_PACKET (64 << 10)
#define PATIENCE   20000 /* rounds without the expected event before a test fails */

struct kind {
    const char *name;
    const struct transport_ops *ops;
    uint64_t fault_percent; /* 0: not wrapped */
    const char *network;    /* a provider; NULL: not a network */
};

struct node {
    struct transport *t;
    struct transport_address address;
    struct link *links[MAX_LINKS]; /* by peer number */
    uint32_t link_count;
    uint32_t arrived[MAX_LINKS]; /* packets, by peer */
    uint32_t wrong;              /* packets other than the expected one */
    uint32_t accepted, dropped, done;
    int accept_error;       /* the result of accept() */
    uint32_t deliver_again; /* number of deliveries to refuse */
    uint32_t refusals;
    int read_error;
    void *read_cookie;
    uint64_t swap_cookie; /* of the active swap */
    uint32_t swaps;       /* number of swaps that have ended */
    int swap_error;
    bool is_swapped;
};

struct fixture {
    const struct kind *kind;
    uint64_t answer_ns;
    struct node nodes[MAX_NODES];
    uint64_t mem_before;
    int64_t fds_before, maps_before;
};

extern struct fixture fixture;

/* The log callback of most tests: prints nothing. */
void be_quiet(void *arg, enum log_level level, const char *text);

/* ---- the fixture: fixture_init() gets the state of a test ---- */

void fixture_init(void **state, unsigned nodes);

/* answer_ns: over verbs, a peer that does not answer within this time is given up: nothing else
 * reports that an endpoint of this process has closed before it was met. */
void fixture_init_within(void **state, unsigned nodes, uint64_t answer_ns);
void fixture_fini(void);
int node_open(unsigned i);
void node_close(unsigned i);
int try_link(unsigned from, unsigned to, struct link **out);
struct link *link_to(unsigned from, unsigned to);

/* ---- packets ---- */

/* The bytes of this packet; the first 4 are the transport's. */
void fill(unsigned char *bytes, uint32_t number, size_t size);
int send_sized(struct link *link, uint32_t number, size_t size);
int send_number(struct link *link, uint32_t number);
void send_all(struct link *link, uint32_t first, uint32_t count);

/* Sends until there is really no space; returns the next number. */
uint32_t send_until_full(struct link *link, uint32_t number);

/* Sends until the result is neither -EAGAIN nor success. */
int send_until_error(struct link *link);

int poll_all(void);
void poll_until(const uint32_t *counter, uint32_t value);

/* Polls a few rounds in which nothing more may come. */
void poll_idle(void);

/* ---- the suite ---- */

/* May a test continue without an event that did not come in so many rounds?  On a network this
 * depends on time. */
bool is_patient(unsigned round);

/* The optional table of a transport that the tests are about. */
enum needs { NEEDS_NOTHING, NEEDS_MEMORY, NEEDS_ATOMICS };

/* Runs the tests over every kind of transport on this machine that has the table, or over the
 * named ones; returns the number of failures. */
int run_over_all(int argc, char **argv, const struct CMUnitTest *tests, size_t count,
                 enum needs needs);

#endif
