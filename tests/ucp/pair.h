/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - two workers of one process over the files of src/ucp, and a peer that can be killed.
 */
#ifndef TESTS_UCP_PAIR_H
#define TESTS_UCP_PAIR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/unit.h"
#include "ucp/address.h"
#include "ucp/door.h"

extern ucp_context_h context;
extern ucp_worker_h here, there;
extern ucp_ep_h to;         /* from here to there */
extern char last_line[512]; /* of the log: errors and warnings */
extern int lines;

/* A callback of the log, which counts errors and warnings. */
void note(void *user, enum mbx_log_level level, const char *text);

ucs_status_t open_context(void);
ucs_status_t open_worker(ucs_thread_mode_t mode, ucp_worker_h *worker);
ucs_status_t connect_to(ucp_worker_h worker, const void *address, bool reports,
                        ucp_err_handler_cb_t cb, ucp_ep_h *ep);
/* All of it; with UCS_OK or without, close_pair() closes what is open. */
ucs_status_t open_pair(ucs_thread_mode_t mode);
void close_pair(void);

/* Before and after a test: nothing stays allocated. */
int open_both(void **state);
int close_both(void **state);

/* The words of the next active message from here to there, with its number (ucp/am.h). */
uint64_t numbered(uint64_t words);

/* Progress of both, once. */
void turn(void);

/* A process with a worker that makes progress until it is killed. */
pid_t start_peer(unsigned char address[UCPX_ADDRESS_MAX]);
void kill_peer(pid_t child);

#endif
