/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how many instructions does a tagged message of 8 bytes cost through libucp's interface?
 * Method     a worker is its own peer.  expected() posts a receive with the mask of MPICH, which two error bits of a tag
 *            are not part of, sends, makes progress until the receive is complete, and frees its request.
 *            unexpected() sends, and receives when the message has arrived.  With LD_LIBRARY_PATH it runs over
 *            UCX's own library or over Matchbox's:
 *
 *              valgrind --tool=callgrind --toggle-collect=expected ./self_ucp
 *
 *            divided by ROUNDS (bench/self_round.c).
 *
 *   self_ucp [ROUNDS]
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <ucp/api/ucp.h>

#define ROUNDS 10000
#define MASK   UINT64_C(0xffffffff9fffffff)

/* Callgrind selects functions by name. */
void expected(ucp_worker_h worker, ucp_ep_h self, uint64_t rounds);
void unexpected(ucp_worker_h worker, ucp_ep_h self, uint64_t rounds);

static void require(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "self_ucp: %s failed\n", what);
    exit(1);
}

static void ignore(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                   void *user_data)
{
    (void)request, (void)info, (void)user_data;
    require(status == UCS_OK, "a receive");
}

static void send_to(ucp_ep_h self, const uint64_t *out)
{
    const ucp_request_param_t param = {0};

    require(ucp_tag_send_nbx(self, out, sizeof *out, 1, &param) == NULL, "ucp_tag_send_nbx");
}

/* As MPICH does: a receive always has a request and a callback. */
static void *receive(ucp_worker_h worker, uint64_t *in)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                       UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv = ignore};
    void *request = ucp_tag_recv_nbx(worker, in, sizeof *in, 1, MASK, &param);

    require(UCS_PTR_IS_PTR(request), "ucp_tag_recv_nbx");
    return request;
}

static void complete(ucp_worker_h worker, void *request)
{
    while (!ucp_request_is_completed(request))
        ucp_worker_progress(worker);
    ucp_request_free(request);
}

__attribute__((noinline)) void expected(ucp_worker_h worker, ucp_ep_h self, uint64_t rounds)
{
    for (uint64_t out = 0, in = 0; out < rounds; out++) {
        void *request = receive(worker, &in);

        send_to(self, &out);
        complete(worker, request);
        require(in == out, "the content of a message");
    }
}

__attribute__((noinline)) void unexpected(ucp_worker_h worker, ucp_ep_h self, uint64_t rounds)
{
    for (uint64_t out = 0, in = 0; out < rounds; out++) {
        send_to(self, &out);
        ucp_worker_progress(worker);
        complete(worker, receive(worker, &in));
        require(in == out, "the content of a message");
    }
}

static ucp_context_h open_context(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    ucp_context_h context;

    require(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    return context;
}

static ucp_worker_h open_worker(ucp_context_h context)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_worker_h worker;

    require(ucp_worker_create(context, &params, &worker) == UCS_OK, "ucp_worker_create");
    return worker;
}

static ucp_ep_h open_self(ucp_worker_h worker)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t size;
    ucp_ep_h self;

    require(ucp_worker_get_address(worker, &address, &size) == UCS_OK,
            "ucp_worker_get_address");
    params.address = address;
    require(ucp_ep_create(worker, &params, &self) == UCS_OK, "ucp_ep_create");
    ucp_worker_release_address(worker, address);
    return self;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    uint64_t rounds = argc > 1 ? strtoull(argv[1], &end, 10) : ROUNDS;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h self;

    if (argc > 2 || rounds == 0 || (end != NULL && *end != '\0')) {
        fprintf(stderr, "usage: self_ucp [ROUNDS]\n");
        return 2;
    }
    context = open_context();
    worker = open_worker(context);
    self = open_self(worker);
    expected(worker, self, rounds);
    unexpected(worker, self, rounds);
    ucp_ep_destroy(self);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
