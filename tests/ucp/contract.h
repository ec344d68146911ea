/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract.h - two workers of one process that send to each other, and checks of what libucp answers: contract.c.
 */
#ifndef TESTS_UCP_CONTRACT_H
#define TESTS_UCP_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#define CLIENT_SIZE 64 /* of the client's part of a request */
#define LONG_SIZE   ((size_t)1 << 20)
#define SHORT_SIZE  ((size_t)64)
#define ALL         UINT64_MAX /* a mask that compares each bit */

/* The statement is the line of the output, which is the same over every libucp. */
#define CHECK(statement, condition)                                                            \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            printf("%s: NO (%s:%d: %s)\n", statement, __FILE__, __LINE__, #condition);         \
            exit(1);                                                                           \
        }                                                                                      \
        printf("%s: yes\n", statement);                                                        \
    } while (0)

/* The last call of a callback, and how many there were. */
struct seen {
    unsigned count;
    void *request, *user_data;
    ucs_status_t status;
    ucp_tag_recv_info_t info;
};

extern ucp_context_h context;
extern ucp_worker_h here, there;   /* there receives what is sent to `to` */
extern ucp_ep_h to, back;          /* from here to there, and the other way */
extern struct seen sent, received; /* by callbacks */
extern unsigned inits, cleanups;   /* of requests */

/* Makes an endpoint of `from` to this worker. */
ucs_status_t connect_to(ucp_worker_h from, ucp_worker_h worker, ucp_ep_h *ep);

/* Progress of both, once; and until done(arg), for which there is a limit. */
void turn(void);
void until(const char *what, bool (*done)(void *arg), void *arg);
void until_complete(void *request);
void until_called(struct seen *seen, unsigned count);

void on_send(void *request, ucs_status_t status, void *user_data);
void on_recv(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
             void *user_data);
void on_send_nb(void *request, ucs_status_t status);
void on_recv_nb(void *request, ucs_status_t status, ucp_tag_recv_info_t *info);
void forget(void); /* what callbacks have seen */

ucp_request_param_t with(uint32_t mask);      /* and on_send */
ucp_request_param_t with_recv(uint32_t mask); /* and on_recv */
/* A message that has arrived there and waits for its receive. */
void unexpected(ucp_tag_t tag, const void *bytes, size_t size);
void receive_all(ucp_tag_t tag, size_t size); /* takes one, whatever it holds */

void fill(unsigned char *bytes, size_t size, unsigned seed);
bool is_filled(const unsigned char *bytes, size_t size, unsigned seed);

/* The parts of the contract. */
void requests_contract(void);
void receives_contract(void);
void messages_contract(void);
void datatypes_contract(void);
void regions_contract(void);
void wait_contract(void);
void onesided_contract(void);
ucs_status_t open_all(void);
void close_all(void);

#endif
