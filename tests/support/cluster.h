/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - several endpoints in one process, all of them peers.  Test code.
 *
 * A test program is a list of cmocka tests, each given a configuration (transport, faults,
 * limits); test_main() runs them in every configuration, or in those named on the command line:
 *
 *   sizes_test [--quick] [CONFIGURATION...]
 *
 * --quick is for sanitizers: fewer rounds.  Nothing here sleeps or reads a clock: to wait is to
 * let all endpoints make progress, and a wait has failed after test_patience() rounds in which
 * nothing moves.
 */
#ifndef TESTS_CLUSTER_H
#define TESTS_CLUSTER_H

#include <matchbox/matchbox.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/unit.h"
#include "configurations.h"
#include "core/core.h"

#define CLUSTER_MAX        4
#define CLUSTER_PARAMS_MAX 24

/* Number of rounds without any movement after which a test has failed.  If a device runs
 * elsewhere, or over a network, it may do nothing in one of these rounds. */
int test_patience(void);

struct cluster {
    const struct configuration *config;
    int count;
    struct mbx_ep *eps[CLUSTER_MAX]; /* peer number = index, itself included */
    uint64_t mem;                    /* as before the opening */
    int64_t fds, maps;
};

/* main() of a test program.  Runs `each` once per configuration; *state is the struct
 * configuration. */
int test_main(int argc, char **argv, const struct CMUnitTest *each, size_t count);

/* test_main() for a program that is about some configurations: if the command line names none,
 * it runs only in those for which is_meant is true. */
typedef bool test_meant_fn(const struct configuration *config);
int test_main_for(int argc, char **argv, test_meant_fn *is_meant, const struct CMUnitTest *each,
                  size_t count);

/* A program's own options, before test_main(): each call removes what it finds from argv and
 * returns the new argc.  No number after the option: exit code 2. */
int test_take_flag(int argc, char **argv, const char *option, bool *is_there);
int test_take_number(int argc, char **argv, const char *option, uint64_t *value);

/* Forks a child with a pipe in each direction.  Returns in both: 0 and the child's ends, or the
 * child's pid and the parent's ends; data in down go to the child. */
pid_t test_fork(int *down, int *up);

bool test_is_quick(void);

/* Opens count endpoints; `more` ("NAME=VALUE", ends with NULL; or NULL) overrides the
 * configuration.  Undone by cluster_close(). */
void cluster_open(struct cluster *cl, const struct configuration *config, int count,
                  const char *const *more);

/* Opens one endpoint of this configuration, without peers. */
struct mbx_ep *cluster_open_one(const struct configuration *config, const char *const *more);

/* The credit that peers have beyond their first windows plus the extra credit left is the total
 * (I2 of credit.h). */
void cluster_check_extra_credit(const struct mbx_ep *ep);

/* Closes the endpoints that are still open, and checks that nothing leaked. */
void cluster_close(struct cluster *cl);

/* Closes one endpoint now. */
int cluster_close_one(struct cluster *cl, int who);

/* One round of progress of all endpoints; returns how much moved. */
int cluster_progress(struct cluster *cl);

/* Runs rounds until nothing moves any more. */
void cluster_settle(struct cluster *cl);

/* Is anything on its way between these endpoints over a network, or to a closed one?  An entry
 * of eps may be NULL. */
bool cluster_is_under_way(struct mbx_ep *const *eps, int count);

/* Runs rounds until request of endpoint who is complete. */
void cluster_wait(struct cluster *cl, int who, mbx_request request,
                  struct mbx_completion *completion);

/* As cluster_wait(), and the completion must have this error. */
void cluster_wait_error(struct cluster *cl, int who, mbx_request request, int error);

/* mbx_probe() and mbx_mprobe() at endpoint who for a message that has been sent.  If it may
 * wait at its sender, these query the sender and give it time to answer; otherwise they make
 * one call, which must find it. */
int cluster_probe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                  uint64_t tag, uint64_t ignore, struct mbx_status *status);
int cluster_mprobe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                   uint64_t tag, uint64_t ignore, struct mbx_status *status,
                   mbx_message *message);

/* Unexpected messages, at the receiver or at the sender.  A message that the receiver has taken
 * is not counted, whether its sender knows it or not. */
uint64_t cluster_waiting(const struct cluster *cl);

struct stats cluster_stats(const struct cluster *cl, int who);

/* May endpoint who use bounce buffers for this peer?  Then all of its buffers must be free:
 * every user has returned its buffer. */
bool cluster_has_buffers(const struct cluster *cl, int who, uint32_t peer);
void cluster_check_buffers(const struct cluster *cl, int who, uint32_t peer);

/* Reads the rows of the protocol table for peer; returns their number. */
int cluster_protocols(struct mbx_ep *ep, uint32_t peer, struct mbx_protocol_row *rows);

/* Returns a size that is sent by this protocol from cl->eps[0] to cl->eps[1], or 0 if none
 * is. */
size_t cluster_size_of(const struct cluster *cl, enum mbx_protocol protocol);

/* Returns size bytes that differ from place to place; the same for the same seed, and never
 * changed. size + 4096 <= SEEDED_BYTES_MAX.  The first call must be made by one thread: it
 * makes all bytes for sizes of up to a million, so that other threads may call after it. */
#define SEEDED_BYTES_MAX ((size_t)65 << 20)
const unsigned char *seeded_bytes(unsigned seed, size_t size);

/* A buffer between two guards, at an address with this remainder modulo 64. */
struct guarded_buffer {
    unsigned char *memory, *bytes;
    size_t size;
};
void guarded_buffer_init(struct guarded_buffer *b, size_t size, unsigned align);
/* Are the guards, and the bytes from `used` on, unchanged?  Frees it. */
void guarded_buffer_fini(struct guarded_buffer *b, size_t used);

/* Returns how many of the bytes, counted from the first, equal this byte. size: all. */
size_t count_of_byte(const unsigned char *bytes, size_t size, unsigned char byte);

#endif
