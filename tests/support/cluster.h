/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cluster.h - several endpoints in one process, all of them peers.  Test code.
 *
 * A test program is a list of cmocka tests, each given a configuration (transport,
 * faults, limits); test_main() runs them in every configuration, or in those named
 * on the command line:
 *
 *   sizes_test [--quick] [CONFIGURATION...]
 *
 * --quick asks for fewer rounds (sanitizers).  Nothing here sleeps or looks at a
 * clock: waiting is progress of everybody, and what does not come about within
 * test_patience() rounds in which nothing moves has failed.
 */
#ifndef TESTS_CLUSTER_H
#define TESTS_CLUSTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include <matchbox/matchbox.h>

#include "configurations.h"
#include "core/core.h"

#define CLUSTER_MAX        4
#define CLUSTER_PARAMS_MAX 24

/* Rounds without any movement behind which a test has failed.  With a device that runs
 * elsewhere, or over a network, a round of ours may be none of its. */
int test_patience(void);

struct cluster {
    const struct configuration *config;
    int count;
    struct mbx_ep *eps[CLUSTER_MAX]; /* peer number = index, itself included */
    uint64_t mem;                    /* as before the opening */
    int64_t fds, maps;
};

/* main() of a test program.  `each` are run once per configuration; *state is the
 * struct configuration. */
int test_main(int argc, char **argv, const struct CMUnitTest *each, size_t count);

/* The same for a program that is about some configurations: without names on the command line
 * it runs only in those that are meant. */
typedef bool test_meant_fn(const struct configuration *config);
int test_main_for(int argc, char **argv, test_meant_fn *is_meant, const struct CMUnitTest *each,
                  size_t count);

/* A program's own options, before test_main(): each takes what it finds out of argv and
 * returns what is left of argc.  No number behind the option: exit code 2. */
int test_take_flag(int argc, char **argv, const char *option, bool *is_there);
int test_take_number(int argc, char **argv, const char *option, uint64_t *value);

/* A child with a pipe in each direction.  Returns in both: 0 and the child's ends, or its pid
 * and ours; down is to the child. */
pid_t test_fork(int *down, int *up);

bool test_is_quick(void);

/* Opens count endpoints; `more` ("NAME=VALUE", ends with NULL; or NULL) wins over the
 * configuration.  Undone by cluster_close(). */
void cluster_open(struct cluster *cl, const struct configuration *config, int count,
                  const char *const *more);

/* Opens one endpoint of this configuration, without peers. */
struct mbx_ep *cluster_open_one(const struct configuration *config, const char *const *more);

/* What peers have beyond their first windows and what extra credit is left is what there was (I2
 * of credit.h). */
void cluster_check_extra_credit(const struct mbx_ep *ep);

/* Closes those that are still open, and checks that nothing leaked. */
void cluster_close(struct cluster *cl);

/* Closes one of them now. */
int cluster_close_one(struct cluster *cl, int who);

/* One round of progress of everybody; how much moved. */
int cluster_progress(struct cluster *cl);

/* Rounds until nothing moves any more. */
void cluster_settle(struct cluster *cl);

/* Is anything between these endpoints over a network, or goes to one that is closed?  An entry
 * of eps may be NULL. */
bool cluster_is_under_way(struct mbx_ep *const *eps, int count);

/* Rounds until request of endpoint who is complete. */
void cluster_wait(struct cluster *cl, int who, mbx_request request,
                  struct mbx_completion *completion);

/* As cluster_wait(), and the completion must have this error. */
void cluster_wait_error(struct cluster *cl, int who, mbx_request request, int error);

/* mbx_probe() and mbx_mprobe() of endpoint who for what has been sent.  Where it may wait at
 * its sender the sender is asked, and has time to answer; else there is one call, which must
 * know. */
int cluster_probe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                  uint64_t tag, uint64_t ignore, struct mbx_status *status);
int cluster_mprobe(struct cluster *cl, int who, uint32_t source, uint32_t context_id,
                   uint64_t tag, uint64_t ignore, struct mbx_status *status,
                   mbx_message *message);

/* Messages that wait for a receive, wherever they do.  What was taken there waits no more,
 * whether its sender knows it or not. */
uint64_t cluster_waiting(const struct cluster *cl);

struct stats cluster_stats(const struct cluster *cl, int who);

/* May endpoint who use bounce buffers for this peer?  Then all of its buffers must be free: whoever had one has
 * given it back. */
bool cluster_has_buffers(const struct cluster *cl, int who, uint32_t peer);
void cluster_check_buffers(const struct cluster *cl, int who, uint32_t peer);

/* Rows of the protocol table towards peer; how many. */
int cluster_protocols(struct mbx_ep *ep, uint32_t peer, struct mbx_protocol_row *rows);

/* A size that travels by this protocol from cl->eps[0] to cl->eps[1], or 0 if none. */
size_t cluster_size_of(const struct cluster *cl, enum mbx_protocol protocol);

/* size bytes that differ from place to place; the same for the same seed, never
 * changed.  size + 4096 <= SEEDED_BYTES_MAX.  Made by one thread: the first call makes all that
 * sizes of up to a million need, so that others may follow. */
#define SEEDED_BYTES_MAX ((size_t)65 << 20)
const unsigned char *seeded_bytes(unsigned seed, size_t size);

/* A buffer between two guards, at an address with this remainder modulo 64. */
struct guarded_buffer {
    unsigned char *memory, *bytes;
    size_t size;
};
void guarded_buffer_init(struct guarded_buffer *b, size_t size, unsigned align);
/* Have the guards, and the bytes from `used` on, been left alone?  Frees it. */
void guarded_buffer_fini(struct guarded_buffer *b, size_t used);

/* How many of the bytes, from the first on, are this byte?  size: all. */
size_t count_of_byte(const unsigned char *bytes, size_t size, unsigned char byte);

#endif
