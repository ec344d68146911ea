/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_pair.c - messages between two endpoints on machines that share only a network.
 *
 *   verbs_pair listen PORT              on one
 *   verbs_pair connect ADDRESS PORT     on the other: an IPv4 address
 *   ... stop                            on both: the listener is stopped while messages come
 *
 * The two exchange the addresses of their endpoints over TCP.  Then both send each other
 * messages of several sizes, every third of them synchronous, and receive every other one from
 * any source.  Each prints how many were right, and how many of them a device has matched.  The
 * MBX_ environment sets how they are sent.
 *
 * With `stop` the messages go only to the listener.  It hands its receives to the device, and
 * stops itself (SIGSTOP).  Its child, which has no endpoint, sees it stopped, notifies the
 * sender, learns that all sends have ended, the synchronous ones too, checks that the listener
 * is still stopped, and lets it go on (SIGCONT).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "../../src/base/patience.h"

#define CONTEXT 3
#define ROUNDS  3
#define TRIES   (10 * PATIENCE_S) /* of a tenth of a second: until the other machine is up */
#define WAIT_NS INT64_C(120000000000)

static const size_t sizes[] = {0, 8, 1000, 5000, 8192, 20000, 100000, 1 << 20};
#define SIZES    ((int)(sizeof sizes / sizeof sizes[0]))
#define MESSAGES (ROUNDS * SIZES)

static void fail(const char *what, int error)
{
    fprintf(stderr, "verbs_pair: %s: %s\n", what, mbx_strerror(error));
    exit(1);
}

static void must(const char *what, int error)
{
    if (error < 0)
        fail(what, error);
}

/* ---- the two connect ---- */

static int meet(const char *address, const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    const int one = 1;
    int file = socket(AF_INET, SOCK_STREAM, 0), tries = 0, other;

    if (file < 0)
        fail("socket", -errno);
    if (address == NULL) {
        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(file, (struct sockaddr *)&at, sizeof at) != 0 || listen(file, 1) != 0)
            fail("listen", -errno);
        other = accept(file, NULL, NULL);
        if (other < 0)
            fail("accept", -errno);
        close(file);
        return other;
    }
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
        fail(address, -EINVAL);
    while (connect(file, (struct sockaddr *)&at, sizeof at) != 0) {
        if (++tries == TRIES)
            fail("connect", -errno);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        close(file);
        file = socket(AF_INET, SOCK_STREAM, 0);
    }
    return file;
}

/* Sends and receives as many bytes; meanwhile ep may have to send packets. */
static void swap_bytes(struct mbx_ep *ep, int file, const void *out, void *in, size_t size)
{
    size_t got = 0;

    if (send(file, out, size, MSG_NOSIGNAL) != (ssize_t)size)
        fail("send", -EIO);
    while (got < size) {
        const ssize_t n = recv(file, (char *)in + got, size - got, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            mbx_progress(ep);
            continue;
        }
        if (n <= 0)
            fail("the other side is gone", -EPIPE);
        got += (size_t)n;
    }
}

/* ---- messages ---- */

static unsigned char *in[MESSAGES], *out[MESSAGES];

static unsigned char byte_of(int who, int message, size_t at)
{
    return (unsigned char)(at * 7 + at / 251 + (size_t)message * 13 + (size_t)who);
}

static void check(int from, int message, const struct mbx_completion *done)
{
    const size_t size = sizes[message % SIZES];

    if (done->error != 0 || done->received != size || done->status.tag != (uint64_t)message)
        fail("a receive", done->error != 0 ? done->error : -EPROTO);
    for (size_t i = 0; i < size; i++)
        if (in[message][i] != byte_of(from, message, i)) {
            fprintf(stderr, "verbs_pair: message %d is wrong at byte %zu\n", message, i);
            exit(1);
        }
}

static void exchange(struct mbx_ep *ep, uint32_t peer, int who, int file)
{
    mbx_request recvs[MESSAGES], sends[MESSAGES];
    struct mbx_completion done;
    char word = 0;

    for (int i = 0; i < MESSAGES; i++)
        must("mbx_recv", mbx_recv(ep, i % 2 == 0 ? peer : MBX_ANY_SOURCE, CONTEXT, (uint64_t)i,
                                  0, in[i], sizes[i % SIZES], NULL, &recvs[i]));
    swap_bytes(ep, file, &word, &word, 1);
    for (int i = 0; i < MESSAGES; i++)
        must("mbx_send",
             (i % 3 == 0 ? mbx_ssend : mbx_send)(ep, peer, CONTEXT, (uint64_t)i, out[i],
                                                 sizes[i % SIZES], NULL, &sends[i]));
    for (int i = 0; i < MESSAGES; i++) {
        must("mbx_wait", mbx_wait(ep, recvs[i], WAIT_NS, &done));
        check(1 - who, i, &done);
    }
    for (int i = 0; i < MESSAGES; i++) {
        must("mbx_wait", mbx_wait(ep, sends[i], WAIT_NS, &done));
        must("a send", done.error);
    }
}

/* ---- a listener that is stopped ---- */

/* The state of process pid, as a letter; 'X': it is gone. */
static char state_of(pid_t pid)
{
    char path[64], text[512], *end;
    FILE *file;
    size_t size;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 'X';
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 'X';
}

static void say(int file)
{
    if (send(file, "", 1, MSG_NOSIGNAL) != 1)
        fail("send", -EIO);
}

static void hear(int file)
{
    char word;

    if (recv(file, &word, 1, 0) != 1)
        fail("the other side is gone", -EPIPE);
}

/* Run by the listener's child, which watches its parent. */
static int watch(pid_t listener, const char *port)
{
    int file;
    char state;

    file = meet(NULL, port);
    while ((state = state_of(listener)) != 'T' && state != 'X' && state != 'Z')
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    say(file);
    hear(file);
    if (state_of(listener) != 'T')
        return 1;
    kill(listener, SIGCONT);
    return 0;
}

/* Afterwards they are connected, which takes the software of both. */
static void greet(struct mbx_ep *ep, uint32_t peer)
{
    mbx_request recv, sent;
    struct mbx_completion done;
    char word = 0;

    must("mbx_recv", mbx_recv(ep, peer, CONTEXT + 1, 0, 0, &word, 1, NULL, &recv));
    must("mbx_send", mbx_send(ep, peer, CONTEXT + 1, 0, &word, 1, NULL, &sent));
    must("mbx_wait", mbx_wait(ep, sent, WAIT_NS, &done));
    must("mbx_wait", mbx_wait(ep, recv, WAIT_NS, &done));
    must("a greeting", done.error);
}

/* Waits until its receives have gone to the device. */
static void await_device(struct mbx_ep *ep, uint64_t before)
{
    uint64_t handed = 0;

    while (handed < before + MESSAGES) {
        mbx_progress(ep);
        must("mbx_stat_read", mbx_stat_read(ep, "device_handed", &handed));
    }
    for (int i = 0; i < 1000; i++)
        mbx_progress(ep);
}

static void receive_stopped(struct mbx_ep *ep, uint32_t peer, pid_t child)
{
    mbx_request recvs[MESSAGES];
    struct mbx_completion done;
    uint64_t handed;
    int status;

    must("mbx_stat_read", mbx_stat_read(ep, "device_handed", &handed));
    for (int i = 0; i < MESSAGES; i++)
        must("mbx_recv", mbx_recv(ep, peer, CONTEXT, (uint64_t)i, 0, in[i], sizes[i % SIZES],
                                  NULL, &recvs[i]));
    await_device(ep, handed);
    raise(SIGSTOP);
    for (int i = 0; i < MESSAGES; i++) {
        must("mbx_wait", mbx_wait(ep, recvs[i], WAIT_NS, &done));
        check(1, i, &done);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("the sends have not ended while it was stopped", -ETIMEDOUT);
}

/* A synchronous message without bytes has no memory that an adapter could read: software
 * answers. */
static void send_to_stopped(struct mbx_ep *ep, uint32_t peer, int file)
{
    mbx_request sends[MESSAGES];
    struct mbx_completion done;

    hear(file);
    for (int i = 0; i < MESSAGES; i++)
        must("mbx_send",
             (i % 3 == 0 && sizes[i % SIZES] > 0 ? mbx_ssend : mbx_send)(
                 ep, peer, CONTEXT, (uint64_t)i, out[i], sizes[i % SIZES], NULL, &sends[i]));
    for (int i = 0; i < MESSAGES; i++) {
        must("mbx_wait", mbx_wait(ep, sends[i], WAIT_NS, &done));
        must("a send", done.error);
    }
    say(file);
    close(file);
    printf("%d sends have ended while the receiver was stopped\n", MESSAGES);
}

/* The next port after PORT, where the child listens. */
static const char *port_of_child(const char *port)
{
    static char text[16];

    snprintf(text, sizeof text, "%d", atoi(port) + 1);
    return text;
}

int main(int argc, char **argv)
{
    const int stops = argc > 2 && strcmp(argv[argc - 1], "stop") == 0;
    const int who = (argc -= stops) == 4 && strcmp(argv[1], "connect") == 0;
    pid_t child = 0;
    struct mbx_address own, other;
    uint64_t matched = 0;
    struct mbx_ep *ep;
    uint32_t peer;
    char word = 0;
    int file;

    if (!who && (argc != 3 || strcmp(argv[1], "listen") != 0)) {
        fprintf(stderr, "usage: verbs_pair listen PORT [stop] | connect ADDRESS PORT [stop]\n");
        return 2;
    }
    if (stops && !who) {
        const pid_t listener = getpid();

        child = fork();
        if (child == 0)
            return watch(listener, port_of_child(argv[2]));
    }
    must("mbx_open", mbx_open(NULL, &ep));
    must("mbx_address_get", mbx_address_get(ep, &own));
    file = meet(who ? argv[2] : NULL, argv[argc - 1]);
    swap_bytes(ep, file, &own, &other, sizeof own);
    must("mbx_peer_add", mbx_peer_add(ep, &other, &peer));
    for (int i = 0; i < MESSAGES; i++) {
        in[i] = calloc(1, sizes[i % SIZES] + 1);
        out[i] = malloc(sizes[i % SIZES] + 1);
        if (in[i] == NULL || out[i] == NULL)
            fail("malloc", -ENOMEM);
        for (size_t k = 0; k < sizes[i % SIZES]; k++)
            out[i][k] = byte_of(who, i, k);
    }
    if (stops)
        greet(ep, peer);
    if (!stops)
        exchange(ep, peer, who, file);
    else if (who)
        send_to_stopped(ep, peer, meet(argv[2], port_of_child(argv[3])));
    else
        receive_stopped(ep, peer, child);
    must("mbx_stat_read", mbx_stat_read(ep, "device_matched", &matched));
    swap_bytes(ep, file, &word, &word, 1);
    must("mbx_close", mbx_close(ep));
    printf("%d messages, all right; matched by a device: %d\n", MESSAGES, (int)matched);
    for (int i = 0; i < MESSAGES; i++) {
        free(in[i]);
        free(out[i]);
    }
    close(file);
    return 0;
}
