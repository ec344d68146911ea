/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held_adapter.c - see held_adapter.h.
 */
#include "held_adapter.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapter/abi.h"
#include "base/sys.h"

static int sock = -1;

static int ask(bool hold, uint32_t count, uint64_t seed, uint32_t *done)
{
    const struct adapter_request request = {
        .op = ADAPTER_STEP, .step = {.hold = hold, .count = count, .seed = seed}};
    struct adapter_reply reply;

    if (send(sock, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
        recv(sock, &reply, sizeof reply, 0) != (ssize_t)sizeof reply)
        return -ECONNRESET;
    *done = reply.done;
    return -reply.error;
}

int held_adapter_begin(void)
{
    struct sockaddr_un name;
    const socklen_t size = adapter_address(&name);
    uint32_t done;

    assert(sock < 0);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (const struct sockaddr *)&name, size) != 0)
        return -errno;
    return ask(true, 0, 0, &done);
}

uint32_t held_adapter_step(uint32_t count, uint64_t seed)
{
    uint32_t done = 0;
    int err = ask(true, count, seed, &done);

    assert(err == 0);
    (void)err;
    return done;
}

void held_adapter_end(void)
{
    sys_close(sock); /* the hold ends with its client */
    sock = -1;
}
