/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract.c - what clients rely on in libucp (docs/ucp.md, the contract), as checks.
 *
 *   contract [PART...]    (default: all)
 *
 * It runs over every libucp: contract_test.py runs it over UCX's own, where that is installed, and over ours, and compares the
 * answers.
 */
#include "contract.h"

#include <sched.h>

/* Turns that find nothing, of which each gives the core away: far more than anything takes. */
#define TURNS_MAX 20000000u

ucp_context_h context;
ucp_worker_h here, there;
ucp_ep_h to, back;
struct seen sent, received;
unsigned inits, cleanups;

/* ---- progress ---- */

void turn(void)
{
    if (ucp_worker_progress(here) + ucp_worker_progress(there) == 0)
        sched_yield();
}

void until(const char *what, bool (*done)(void *arg), void *arg)
{
    for (unsigned turns = 0; !done(arg); turns++) {
        if (turns == TURNS_MAX) {
            printf("%s: it never happens\n", what);
            exit(1);
        }
        turn();
    }
}

static bool is_complete(void *request)
{
    return ucp_request_is_completed(request);
}

void until_complete(void *request)
{
    if (UCS_PTR_IS_PTR(request))
        until("a request completes", is_complete, request);
}

static unsigned wanted;

static bool is_called(void *arg)
{
    return ((struct seen *)arg)->count >= wanted;
}

void until_called(struct seen *seen, unsigned count)
{
    wanted = count;
    until("a callback is called", is_called, seen);
}

/* ---- callbacks ---- */

void on_send(void *request, ucs_status_t status, void *user_data)
{
    sent = (struct seen){sent.count + 1, request, user_data, status, {0, 0}};
}

void on_recv(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
             void *user_data)
{
    received = (struct seen){received.count + 1, request, user_data, status, *info};
}

void on_send_nb(void *request, ucs_status_t status)
{
    on_send(request, status, NULL);
}

void on_recv_nb(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    on_recv(request, status, info, NULL);
}

void forget(void)
{
    memset(&sent, 0, sizeof sent);
    memset(&received, 0, sizeof received);
}

ucp_request_param_t with(uint32_t mask)
{
    return (ucp_request_param_t){.op_attr_mask = mask | UCP_OP_ATTR_FIELD_CALLBACK,
                                 .cb.send = on_send};
}

ucp_request_param_t with_recv(uint32_t mask)
{
    return (ucp_request_param_t){.op_attr_mask = mask | UCP_OP_ATTR_FIELD_CALLBACK,
                                 .cb.recv = on_recv};
}

/* ---- messages ---- */

void fill(unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

bool is_filled(const unsigned char *bytes, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed))
            return false;
    return true;
}

struct probe {
    ucp_tag_t tag;
    ucp_tag_recv_info_t info;
};

static bool has_arrived(void *arg)
{
    struct probe *probe = arg;

    return ucp_tag_probe_nb(there, probe->tag, ALL, 0, &probe->info) != NULL;
}

void unexpected(ucp_tag_t tag, const void *bytes, size_t size)
{
    struct probe probe = {.tag = tag};
    ucp_request_param_t param = {0};
    void *request = ucp_tag_send_nbx(to, bytes, size, tag, &param);

    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    until("a message arrives", has_arrived, &probe);
}

void receive_all(ucp_tag_t tag, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    void *request = ucp_tag_recv_nbx(there, bytes, size, tag, ALL, &param);

    until_complete(request);
    ucp_request_free(request);
    free(bytes);
}

/* ---- opening ---- */

static void init(void *request)
{
    memset(request, 0x5a, CLIENT_SIZE);
    inits++;
}

static void cleanup(void *request)
{
    (void)request;
    cleanups++;
}

/* With noise after it, and not aligned. */
ucs_status_t connect_to(ucp_worker_h from, ucp_worker_h worker, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    unsigned char *copy = malloc(4097);
    ucp_address_t *address;
    ucs_status_t status;
    size_t size;

    memset(copy, 0xa5, 4097);
    if (ucp_worker_get_address(worker, &address, &size) != UCS_OK || size > 4096)
        return UCS_ERR_NO_MEMORY;
    memcpy(copy + 1, address, size);
    ucp_worker_release_address(worker, address);
    params.address = (const ucp_address_t *)(void *)(copy + 1);
    status = ucp_ep_create(from, &params, ep);
    memset(copy, 0, 4097);
    free(copy);
    return status;
}

ucs_status_t open_all(void)
{
    ucp_params_t params = {.field_mask =
                               UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE |
                               UCP_PARAM_FIELD_REQUEST_INIT | UCP_PARAM_FIELD_REQUEST_CLEANUP,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA |
                                       UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64,
                           .request_size = CLIENT_SIZE,
                           .request_init = init,
                           .request_cleanup = cleanup};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_config_t *config;
    ucs_status_t status;

    if (ucp_config_read(NULL, NULL, &config) != UCS_OK)
        return UCS_ERR_NO_MEMORY;
    status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    if (status != UCS_OK || (status = ucp_worker_create(context, &worker, &here)) != UCS_OK ||
        (status = ucp_worker_create(context, &worker, &there)) != UCS_OK ||
        (status = connect_to(here, there, &to)) != UCS_OK)
        return status;
    return connect_to(there, here, &back);
}

static void close_one(ucp_ep_h ep)
{
    void *request = ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);

    CHECK("an endpoint closes", !UCS_PTR_IS_ERR(request));
    until_complete(request);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

void close_all(void)
{
    close_one(to);
    close_one(back);
    ucp_worker_destroy(here);
    ucp_worker_destroy(there);
    CHECK("3.2 each request that was made is cleaned up once", cleanups == inits && inits > 0);
    ucp_cleanup(context);
}

static void same_address(void)
{
    ucp_address_t *one, *two;
    size_t size, again;

    ucp_worker_get_address(here, &one, &size);
    ucp_worker_get_address(here, &two, &again);
    CHECK("3.9 an address is the same when it is asked for again",
          size == again && memcmp(one, two, size) == 0);
    CHECK("3.9 an address has at most 400 bytes", size <= 400);
    ucp_worker_release_address(here, one);
    ucp_worker_release_address(here, two);
}

static const struct part {
    const char *name;
    void (*run)(void);
} parts[] = {{"addresses", same_address},       {"requests", requests_contract},
             {"receives", receives_contract},   {"messages", messages_contract},
             {"datatypes", datatypes_contract}, {"regions", regions_contract},
             {"wait", wait_contract},           {"onesided", onesided_contract}};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(name, argv[i]) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (open_all() != UCS_OK) {
        printf("libucp opens: NO\n");
        return 1;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!is_wanted(parts[i].name, argc, argv))
            continue;
        forget();
        parts[i].run();
    }
    close_all();
    printf("ok contract\n");
    return 0;
}
