/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_wait.c - a client that sleeps: the descriptor of a worker, signals, ucp_worker_wait(): 3.15.
 *
 * It has a context of its own, with UCP_FEATURE_WAKEUP, whose workers are `from` and `sleeper`.
 */
#include "contract.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOOKS_MAX 100000 /* of a millisecond each */

static ucp_context_h waking;
static ucp_worker_h from, sleeper;
static ucp_ep_h to_sleeper;
static unsigned char bytes[SHORT_SIZE], in[SHORT_SIZE];
static int fd;

static void open_them(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_config_t *config;

    ucp_config_read(NULL, NULL, &config);
    CHECK("3.15 the feature WAKEUP is there", ucp_init(&params, config, &waking) == UCS_OK);
    ucp_config_release(config);
    if (ucp_worker_create(waking, &worker, &from) != UCS_OK ||
        ucp_worker_create(waking, &worker, &sleeper) != UCS_OK ||
        connect_to(from, sleeper, &to_sleeper) != UCS_OK) {
        CHECK("3.15 workers that wake", false);
    }
}

static void close_them(void)
{
    void *request = ucp_ep_close_nb(to_sleeper, UCP_EP_CLOSE_MODE_FLUSH);

    while (UCS_PTR_IS_PTR(request) && !ucp_request_is_completed(request))
        ucp_worker_progress(from);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    ucp_worker_destroy(from);
    ucp_worker_destroy(sleeper);
    ucp_cleanup(waking);
}

/* ---- messages ---- */

static void send_one(ucp_tag_t tag)
{
    void *request =
        ucp_tag_send_nbx(to_sleeper, bytes, SHORT_SIZE, tag, &(ucp_request_param_t){0});

    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static void *receive_one(ucp_tag_t tag)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};

    return ucp_tag_recv_nbx(sleeper, in, SHORT_SIZE, tag, ALL, &param);
}

static void finish(void *request)
{
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (!ucp_request_is_completed(request))
        if (ucp_worker_progress(from) + ucp_worker_progress(sleeper) == 0)
            poll(NULL, 0, 0);
    ucp_request_free(request);
}

/* Arms the descriptor once there is nothing left to do. */
static void rest(void)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        while (ucp_worker_progress(from) + ucp_worker_progress(sleeper) != 0)
            ;
        if (ucp_worker_arm(sleeper) == UCS_OK)
            return;
    }
    CHECK("3.15 a worker comes to rest", false);
}

static bool is_readable(int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, timeout_ms) == 1;
}

/* Only the sender makes progress. */
static bool becomes_readable(void)
{
    for (int i = 0; i < LOOKS_MAX; i++) {
        if (is_readable(1))
            return true;
        ucp_worker_progress(from);
    }
    return false;
}

/* ---- the descriptor ---- */

static void descriptor(void)
{
    int again = -1;
    void *request;

    CHECK("3.15 a worker has a descriptor", ucp_worker_get_efd(sleeper, &fd) == UCS_OK);
    CHECK("3.15 the same each time",
          ucp_worker_get_efd(sleeper, &again) == UCS_OK && again == fd);
    finish((send_one(30), receive_one(30))); /* the first message connects */
    rest();
    CHECK("3.15 it is not readable while nothing arrives", !is_readable(0));
    send_one(31);
    CHECK("3.15 a message makes it readable", becomes_readable());
    CHECK("3.15 it is not armed while there is something to do",
          ucp_worker_arm(sleeper) == UCS_ERR_BUSY);
    request = receive_one(31);
    finish(request);
    rest();
    CHECK("3.15 afterwards it is", !is_readable(0));
}

static void signals(void)
{
    rest();
    CHECK("3.15 a signal", ucp_worker_signal(sleeper) == UCS_OK);
    CHECK("3.15 makes the descriptor readable", is_readable(1000));
    CHECK("3.15 and is seen when it is armed again", ucp_worker_arm(sleeper) == UCS_ERR_BUSY);
    rest();
    CHECK("3.15 once", !is_readable(0));
    ucp_worker_signal(sleeper);
    ucp_worker_signal(sleeper);
    CHECK("3.15 two signals are seen as one",
          ucp_worker_arm(sleeper) == UCS_ERR_BUSY && (rest(), !is_readable(0)));
}

/* ---- a descriptor of the client's ---- */

/* The sleeper becomes another one while this runs. */
static void own_descriptor(void)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_EVENT_FD |
                                                UCP_WORKER_PARAM_FIELD_USER_DATA,
                                  .user_data = &params};
    ucp_worker_h before = sleeper;
    ucp_ep_h to_before = to_sleeper;
    struct epoll_event event = {0};
    int other;

    fd = params.event_fd = epoll_create1(EPOLL_CLOEXEC);
    CHECK("3.15 a worker adds its event to an epoll set of the client's",
          ucp_worker_create(waking, &params, &sleeper) == UCS_OK &&
              connect_to(from, sleeper, &to_sleeper) == UCS_OK);
    CHECK("3.15 it has no descriptor of its own then",
          UCS_ERR_UNSUPPORTED == ucp_worker_get_efd(sleeper, &other));
    finish((send_one(33), receive_one(33)));
    rest();
    CHECK("3.15 the set has no event while nothing arrives", !is_readable(0));
    send_one(34);
    CHECK("3.15 a message makes one", becomes_readable());
    CHECK("3.15 with the user data of the worker",
          epoll_wait(fd, &event, 1, 0) == 1 && event.data.ptr == &params);
    finish(receive_one(34));
    finish(ucp_ep_close_nb(to_sleeper, UCP_EP_CLOSE_MODE_FLUSH));
    ucp_worker_destroy(sleeper);
    close(fd);
    sleeper = before;
    to_sleeper = to_before;
}

/* ---- sleeping ---- */

static atomic_bool is_over;

static void *signaller(void *arg)
{
    (void)arg;
    ucp_worker_signal(sleeper);
    return NULL;
}

static void *sender(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        send_one(32);
    while (!is_over)
        if (ucp_worker_progress(from) == 0)
            poll(NULL, 0, 1);
    return NULL;
}

static void sleeps(void)
{
    pthread_t thread;
    void *request;

    rest();
    ucp_worker_signal(sleeper);
    CHECK("3.15 ucp_worker_wait returns if there was a signal",
          ucp_worker_wait(sleeper) == UCS_OK);
    rest();
    pthread_create(&thread, NULL, signaller, NULL);
    CHECK("3.15 or when there is one", ucp_worker_wait(sleeper) == UCS_OK);
    pthread_join(thread, NULL);
    pthread_create(&thread, NULL, sender, NULL);
    for (int i = 0; i < 100; i++) {
        request = receive_one(32);
        while (!ucp_request_is_completed(request))
            if (ucp_worker_progress(sleeper) == 0)
                ucp_worker_wait(sleeper);
        ucp_request_free(request);
    }
    is_over = true;
    pthread_join(thread, NULL);
    CHECK("3.15 and when a message arrives", is_filled(in, SHORT_SIZE, 4));
    ucp_worker_wait_mem(sleeper, in);
    CHECK("3.15 ucp_worker_wait_mem returns", true);
}

void wait_contract(void)
{
    CHECK("3.15 without WAKEUP there is no descriptor",
          ucp_worker_get_efd(here, &fd) == UCS_ERR_INVALID_PARAM);
    CHECK("3.15 and no sleep", ucp_worker_arm(here) == UCS_ERR_INVALID_PARAM &&
                                   ucp_worker_wait(here) == UCS_ERR_INVALID_PARAM &&
                                   ucp_worker_signal(here) == UCS_ERR_INVALID_PARAM);
    fill(bytes, SHORT_SIZE, 4);
    open_them();
    descriptor();
    signals();
    own_descriptor();
    sleeps();
    close_them();
}
