/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk.c - which functions does a message go through?
 *
 * The library it is linked with is compiled with -finstrument-functions: each function calls
 * the hook below when it is entered.  Two endpoints of this process exchange messages over
 * shared memory, as required by the named walk:
 *
 *   message      a short, a fragmented and a rendezvous message that are expected, and three
 *                that are not (docs/internals/life-of-a-message.md)
 *   rendezvous   a long one, whose receive waits (docs/internals/architecture.md, also the next ones)
 *   deferred     a short one without credit, claimed for a receive that is posted later
 *   device       a short one, whose receive a device in the loop has
 *
 * Then it prints the address of every function entered, relative to main, one per line, with
 * the word "unexpected" before addresses of unexpected messages; scripts/check/walk turns them
 * into names and compares them with the document.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <matchbox/matchbox.h>

#define ENTRIES     (1 << 20)
#define SMALL_SIZE  100
#define MEDIUM_SIZE 10000
#define LARGE_SIZE  (1 << 20)
#define SIZES       3

int main(int argc, char **argv);

static void *entered[ENTRIES];
static size_t count, expected_count;
static int recording;

__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function,
                                                                      void *caller);
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function,
                                                                     void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    if (recording && count < ENTRIES)
        entered[count++] = function;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}

static struct mbx_ep *sender, *receiver;
static uint32_t to_receiver;
static const size_t sizes[SIZES] = {SMALL_SIZE, MEDIUM_SIZE, LARGE_SIZE};
static unsigned char out[LARGE_SIZE], in[SIZES][LARGE_SIZE];

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "walk: %s\n", what);
    exit(1);
}

static void send_one(size_t size, mbx_request *request)
{
    require(mbx_send(sender, to_receiver, 0, size, out, size, NULL, request) == 0, "mbx_send");
}

static void recv_one(size_t size, void *buf, mbx_request *request)
{
    require(mbx_recv(receiver, MBX_ANY_SOURCE, 0, size, 0, buf, size, NULL, request) == 0,
            "mbx_recv");
}

/* Makes progress on both sides until the request of ep completes. */
static void finish(struct mbx_ep *ep, mbx_request request)
{
    struct mbx_completion done;
    int result;

    do {
        mbx_progress(receiver);
        mbx_progress(sender);
        result = mbx_test(ep, request, &done);
    } while (result == 0);
    require(result == 1 && done.error == 0, "a message failed");
}

static void open_pair(const char *const *params)
{
    struct mbx_config config = {.params = params};
    struct mbx_address address;

    require(mbx_open(&config, &sender) == 0 && mbx_open(&config, &receiver) == 0, "mbx_open");
    require(mbx_address_get(receiver, &address) == 0 &&
                mbx_peer_add(sender, &address, &to_receiver) == 0,
            "mbx_peer_add");
}

/* The first contact makes the connection; it is not part of the walk. */
static void connect_pair(void)
{
    mbx_request sent, received;

    recv_one(1, in[0], &received);
    send_one(1, &sent);
    finish(receiver, received);
    finish(sender, sent);
}

static void recv_all(mbx_request *received)
{
    for (int i = 0; i < SIZES; i++)
        recv_one(sizes[i], in[i], &received[i]);
}

static void send_all(mbx_request *sent)
{
    for (int i = 0; i < SIZES; i++)
        send_one(sizes[i], &sent[i]);
}

static void finish_all(const mbx_request *sent, const mbx_request *received)
{
    for (int i = 0; i < SIZES; i++) {
        finish(receiver, received[i]);
        finish(sender, sent[i]);
        require(memcmp(in[i], out, sizes[i]) == 0, "the content is wrong");
        memset(in[i], 0, sizes[i]);
    }
}

static void expected(void)
{
    mbx_request sent[SIZES], received[SIZES];

    recv_all(received);
    send_all(sent);
    finish_all(sent, received);
}

static void unexpected(void)
{
    mbx_request sent[SIZES], received[SIZES];

    send_all(sent);
    for (int i = 0; i < 100; i++) {
        mbx_progress(receiver);
        mbx_progress(sender);
    }
    recv_all(received);
    finish_all(sent, received);
}

/* Posts the receive before the send, or after it.  Both sides have time for progress before the
 * second of the two. */
static void one(size_t size, bool is_posted_first)
{
    mbx_request sent, received;

    if (is_posted_first)
        recv_one(size, in[0], &received);
    else
        send_one(size, &sent);
    for (int i = 0; i < 100; i++) {
        mbx_progress(sender);
        mbx_progress(receiver);
    }
    if (is_posted_first)
        send_one(size, &sent);
    else
        recv_one(size, in[0], &received);
    finish(receiver, received);
    finish(sender, sent);
    require(memcmp(in[0], out, size) == 0, "the content is wrong");
}

static void all_messages(void)
{
    expected();
    expected_count = count;
    unexpected();
}

static void rendezvous(void)
{
    one(LARGE_SIZE, true);
}

static void deferred(void)
{
    one(SMALL_SIZE, false);
}

static void device(void)
{
    one(SMALL_SIZE, true);
}

static const struct walk {
    const char *name;
    void (*run)(void);
    bool is_first; /* of this pair, so that the walk connects and begins an epoch */
    const char *params[6];
} walks[] = {
    {"message", all_messages, false, {"TRANSPORT=shm", NULL}},
    {"rendezvous", rendezvous, false, {"TRANSPORT=shm", "SPLIT_COPY=off", "ADVERT=off", NULL}},
    {"deferred", deferred, true, {"TRANSPORT=shm", "WINDOW=0", "SENDTABLE=no", NULL}},
    {"device", device, false, {"TRANSPORT=shm", "DEVICE=soft", "DEVICE_THRESHOLD=0", NULL}},
};

static const struct walk *walk_named(const char *name)
{
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++)
        if (strcmp(walks[i].name, name) == 0)
            return &walks[i];
    require(0, "there is no such walk");
    return NULL;
}

int main(int argc, char **argv)
{
    const struct walk *walk = walk_named(argc > 1 ? argv[1] : "message");

    memset(out, 0x5a, sizeof out);
    open_pair(walk->params);
    if (!walk->is_first)
        connect_pair();
    recording = 1;
    walk->run();
    recording = 0;
    mbx_close(sender);
    mbx_close(receiver);
    for (size_t i = 0; i < count; i++)
        printf(i == expected_count && i != 0 ? "unexpected\n%ld\n" : "%ld\n",
               (long)((intptr_t)entered[i] - (intptr_t)&main));
    return 0;
}
