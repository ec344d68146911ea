/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.h - several endpoints in one process, all of them peers.  Test code.
 *
 * A test program is a list of cmocka tests, each given a configuration (transport,
 * faults, limits); world_main() runs them in every configuration, or in those named
 * on the command line:
 *
 *   sizes_test [--quick] [CONFIGURATION...]
 *
 * --quick asks for fewer rounds (sanitizers).  Nothing here sleeps or looks at a
 * clock: waiting is progress of everybody, and what does not come about within
 * world_patience() rounds in which nothing moves has failed.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

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

#define WORLD_MAX        4
#define WORLD_PARAMS_MAX 24

/* Rounds without any movement behind which a test has failed.  With a device that runs
 * elsewhere, or over a network, a round of ours may be none of its. */
int world_patience(void);

struct world {
    const struct world_config *config;
    int count;
    struct mbx_ep *eps[WORLD_MAX]; /* peer number = index, itself included */
    uint64_t mem;                  /* as before the opening */
    int64_t fds, maps;
};

/* main() of a test program.  `each` are run once per configuration; *state is the
 * struct world_config. */
int world_main(int argc, char **argv, const struct CMUnitTest *each, size_t count);

/* The same for a program that is about some configurations: without names on the command line
 * it runs only in those that are meant. */
typedef bool world_meant_fn(const struct world_config *config);
int world_main_for(int argc, char **argv, world_meant_fn *is_meant,
                   const struct CMUnitTest *each, size_t count);

/* A program's own options, before world_main(): each takes what it finds out of argv and
 * returns what is left of argc.  No number behind the option: exit code 2. */
int world_take_flag(int argc, char **argv, const char *option, bool *is_there);
int world_take_number(int argc, char **argv, const char *option, uint64_t *value);

/* A child with a pipe in each direction.  Returns in both: 0 and the child's ends, or its pid
 * and ours; down is to the child. */
pid_t world_fork(int *down, int *up);

bool world_is_quick(void);

/* Opens count endpoints; `more` ("NAME=VALUE", ends with NULL; or NULL) wins over the
 * configuration.  Undone by world_close(). */
void world_open(struct world *w, const struct world_config *config, int count,
                const char *const *more);

/* Opens one endpoint of this configuration, without peers. */
struct mbx_ep *world_open_one(const struct world_config *config, const char *const *more);

/* What peers have beyond their first windows and what may still be lent is what there was (I2
 * of credit.h). */
void world_check_loans(const struct mbx_ep *ep);

/* Closes those that are still open, and checks that nothing leaked. */
void world_close(struct world *w);

/* Closes one of them now. */
int world_close_one(struct world *w, int who);

/* One round of progress of everybody; how much moved. */
int world_progress(struct world *w);

/* Rounds until nothing moves any more. */
void world_settle(struct world *w);

/* Is anything between these endpoints over a network, or goes to one that is closed?  An entry
 * of eps may be NULL. */
bool world_is_under_way(struct mbx_ep *const *eps, int count);

/* Rounds until request of endpoint who is complete. */
void world_wait(struct world *w, int who, mbx_request request,
                struct mbx_completion *completion);

/* As world_wait(), and the completion must have this error. */
void world_wait_error(struct world *w, int who, mbx_request request, int error);

/* mbx_probe() and mbx_mprobe() of endpoint who for what has been sent.  Where it may wait at
 * its sender the sender is asked, and has time to answer; else there is one call, which must
 * know. */
int world_probe(struct world *w, int who, uint32_t source, uint32_t context_id, uint64_t tag,
                uint64_t ignore, struct mbx_status *status);
int world_mprobe(struct world *w, int who, uint32_t source, uint32_t context_id, uint64_t tag,
                 uint64_t ignore, struct mbx_status *status, mbx_message *message);

/* Messages that wait for a receive, wherever they do.  What was taken there waits no more,
 * whether its sender knows it or not. */
uint64_t world_waiting(const struct world *w);

struct stats world_stats(const struct world *w, int who);

/* Rows of the protocol table towards peer; how many. */
int world_protocols(struct mbx_ep *ep, uint32_t peer, struct mbx_protocol_row *rows);

/* A size that travels by this protocol from w->eps[0] to w->eps[1], or 0 if none. */
size_t world_size_of(const struct world *w, enum mbx_protocol protocol);

/* size bytes that differ from place to place; the same for the same seed, never
 * changed.  size + 4096 <= WORLD_DATA_MAX.  Made by one thread: the first call makes all that
 * sizes of up to a million need, so that others may follow. */
#define WORLD_DATA_MAX ((size_t)65 << 20)
const unsigned char *world_data(unsigned seed, size_t size);

/* A buffer between two guards, at an address with this remainder modulo 64. */
struct world_buffer {
    unsigned char *memory, *bytes;
    size_t size;
};
void world_buffer_init(struct world_buffer *b, size_t size, unsigned align);
/* Have the guards, and the bytes from `used` on, been left alone?  Frees it. */
void world_buffer_fini(struct world_buffer *b, size_t used);

/* How many of the bytes, from the first on, are this byte?  size: all. */
size_t world_count_of(const unsigned char *bytes, size_t size, unsigned char byte);

#endif
