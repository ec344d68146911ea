/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.c - see pair.h.
 */
#include "tests/ucp/pair.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

ucp_context_h context;
ucp_worker_h here, there;
ucp_ep_h to;

/* ---- the log ---- */

char last_line[512];
int lines;

void note(void *user, enum mbx_log_level level, const char *text)
{
    (void)user;
    if (level > MBX_LOG_WARN)
        return;
    snprintf(last_line, sizeof last_line, "%s", text);
    lines++;
}

/* ---- two workers ---- */

ucs_status_t connect_to(ucp_worker_h worker, const void *address, bool reports,
                        ucp_err_handler_cb_t cb, ucp_ep_h *ep)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = reports ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = cb, .arg = &here}};

    return ucp_ep_create(worker, &params, ep);
}

ucs_status_t open_worker(ucs_thread_mode_t mode, ucp_worker_h *worker)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = mode};

    return ucp_worker_create(context, &params, worker);
}

ucs_status_t open_context(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM};

    return ucp_init(&params, NULL, &context);
}

ucs_status_t open_pair(ucs_thread_mode_t mode)
{
    ucp_address_t *address;
    ucs_status_t status;
    size_t size;

    context = NULL;
    here = there = NULL;
    if ((status = open_context()) != UCS_OK || (status = open_worker(mode, &here)) != UCS_OK ||
        (status = open_worker(mode, &there)) != UCS_OK ||
        (status = ucp_worker_get_address(there, &address, &size)) != UCS_OK)
        return status;
    status = connect_to(here, address, false, NULL, &to);
    ucp_worker_release_address(there, address);
    return status;
}

void close_pair(void)
{
    if (here != NULL)
        ucp_worker_destroy(here);
    if (there != NULL)
        ucp_worker_destroy(there);
    if (context != NULL)
        ucp_cleanup(context);
}

int open_both(UNUSED void **state)
{
    lines = 0;
    mbx_log_callback(note, NULL);
    return open_pair(UCS_THREAD_MODE_SINGLE) == UCS_OK ? 0 : -1;
}

int close_both(UNUSED void **state)
{
    close_pair();
    mbx_log_callback(NULL, NULL);
    return mem_live() == 0 ? 0 : -1;
}

uint64_t numbered(uint64_t words)
{
    return (words & ~UINT64_C(0xffff0000)) | (uint64_t)here->peers[to->peer].sent++ << 16;
}

void turn(void)
{
    if (ucp_worker_progress(here) + ucp_worker_progress(there) == 0)
        sched_yield();
}

/* Opens a worker, says its address, and makes progress until it is killed. */
static void live(int out)
{
    unsigned char bytes[UCPX_ADDRESS_MAX] = {0};
    ucp_address_t *address;
    ucp_worker_h worker;
    size_t size;

    if (open_context() != UCS_OK || open_worker(UCS_THREAD_MODE_SINGLE, &worker) != UCS_OK ||
        ucp_worker_get_address(worker, &address, &size) != UCS_OK)
        _exit(1);
    memcpy(bytes, address, size);
    if (write(out, bytes, sizeof bytes) != sizeof bytes)
        _exit(1);
    for (;;)
        if (ucp_worker_progress(worker) == 0)
            sched_yield();
}

pid_t start_peer(unsigned char address[UCPX_ADDRESS_MAX])
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0)
        live(ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], address, UCPX_ADDRESS_MAX), UCPX_ADDRESS_MAX);
    close(ends[0]);
    return child;
}

void kill_peer(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
