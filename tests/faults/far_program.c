/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * far_program.c - a rank on a host of its own, whose network or machine the test disturbs.
 *
 * usage: far_program FOLDER RANK RANKS talk | vanish
 *
 * A launcher would notice a failure before we do, so there is none: the ranks write their
 * addresses into FOLDER, and marks (FOLDER/MARK.RANK) when they have reached a point.  The
 * other ranks and the test wait for marks.
 *
 *   talk    every rank sends to every other by several protocols, round by round, until the test
 *           makes the mark `enough`; nothing may fail, whatever the network does meanwhile;
 *           the mark `dropped` has the number of dropped packets; rank 0 pauses between rounds, to
 *           leave a core to the processes that disturb
 *   vanish  the last rank vanishes while rank 0 waits to receive from it, to send to it, and
 *           from any source, and the others wait to receive; all get errors, and continue
 *
 * Exit code 0 if everything is right, 1 if not, 2 for wrong arguments.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"

#define RANKS_MAX 8
#define DATA      1 /* context ids */
#define NEVER     2
#define LONG      ((size_t)300000)
#define TALK_MARK 3 /* rounds after which a rank makes the mark `talks` */

static const size_t sizes[] = {8, 5000, LONG};
#define SIZES ((int)ARRAY_COUNT(sizes))

static const char *folder;
static uint32_t rank, ranks;
static struct mbx_ep *ep;
static unsigned char out[LONG], in[RANKS_MAX][3][LONG];

static void check(bool is_right, const char *what, int result)
{
    if (is_right)
        return;
    fprintf(stderr, "far_program: rank %u of %u: %s: %d %s\n", rank, ranks, what, result,
            result < 0 ? mbx_strerror(result) : "");
    exit(1);
}

/* ---- the folder ---- */

static const char *path_of(const char *mark, uint32_t of)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s.%u", folder, mark, of);
    return path;
}

static bool is_marked(const char *mark, uint32_t of)
{
    return access(path_of(mark, of), F_OK) == 0;
}

/* Writes a mark; when it becomes visible, it is complete. */
static void put(const char *mark, const void *bytes, size_t size)
{
    char hidden[512];
    FILE *file;

    snprintf(hidden, sizeof hidden, "%s", path_of("hidden", rank));
    file = fopen(hidden, "w");
    check(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, mark, 0);
    check(rename(hidden, path_of(mark, rank)) == 0, mark, -errno);
}

static void put_mark(const char *mark)
{
    put(mark, "", 0);
}

/* ---- meeting ---- */

static void get_address(uint32_t of, struct mbx_address *address)
{
    FILE *file;

    while (!is_marked("address", of))
        usleep(1000);
    file = fopen(path_of("address", of), "r");
    check(file != NULL && fread(address, 1, sizeof *address, file) == sizeof *address,
          "the address of a rank", 0);
    fclose(file);
}

static void meet(void)
{
    static const char *const params[] = {"CLOSE_TIMEOUT=900s", NULL};
    const struct mbx_config config = {.params = params};
    struct mbx_address address;
    uint32_t number;
    int err = mbx_open(&config, &ep);

    check(err == 0, "mbx_open", err);
    check(mbx_address_get(ep, &address) == 0, "the own address", 0);
    put("address", &address, sizeof address);
    for (uint32_t of = 0; of < ranks; of++) {
        get_address(of, &address);
        err = mbx_peer_add(ep, &address, &number);
        check(err == 0 && number == of, "mbx_peer_add", err);
    }
}

/* ---- talk ---- */

static int finish(mbx_request request, int64_t timeout_ns)
{
    struct mbx_completion done;
    int err;

    do
        err = mbx_wait(ep, request, timeout_ns, &done);
    while (err == -EINTR || err == -EHOSTDOWN);
    return err != 0 ? err : done.error;
}

static mbx_request receive(uint32_t from, uint32_t context_id, void *buf, size_t size)
{
    mbx_request request = 0;
    int err = mbx_recv(ep, from, context_id, 0, 0, buf, size, NULL, &request);

    check(err == 0, "mbx_recv", err);
    return request;
}

static mbx_request send(uint32_t to, uint32_t context_id, size_t size)
{
    mbx_request request = 0;
    int err = mbx_send(ep, to, context_id, 0, out, size, NULL, &request);

    check(err == 0, "mbx_send", err);
    return request;
}

/* The first byte of a message says whether this is the last round, the second is the sender,
 * the last is the round. */
static void check_round(unsigned round, uint32_t of)
{
    for (int i = 0; i < SIZES; i++)
        check(in[of][i][1] == (unsigned char)of &&
                  in[of][i][sizes[i] - 1] == (unsigned char)round,
              "a message is another one", 0);
}

/* Exchanges messages with the ranks below `end`.  Is it the last round? */
static bool talk_once(unsigned round, bool is_last, uint32_t end)
{
    mbx_request requests[RANKS_MAX][6];

    out[0] = is_last;
    out[1] = (unsigned char)rank;
    for (int i = 0; i < SIZES; i++)
        out[sizes[i] - 1] = (unsigned char)round;
    for (uint32_t other = 0; other < end; other++)
        for (int i = 0; other != rank && i < SIZES; i++) {
            requests[other][i] = receive(other, DATA, in[other][i], sizes[i]);
            requests[other][SIZES + i] = send(other, DATA, sizes[i]);
        }
    for (uint32_t other = 0; other < end; other++)
        for (int i = 0; other != rank && i < 2 * SIZES; i++) {
            int err = finish(requests[other][i], -1);

            check(err == 0, i < SIZES ? "a receive" : "a send", err);
        }
    for (uint32_t other = 0; other < end; other++)
        if (other != rank)
            check_round(round, other);
    return rank == 0 ? is_last : in[0][0][0] != 0;
}

static void tell_dropped(void)
{
    static uint64_t told = UINT64_MAX;
    struct stats stats;
    char text[32];

    stats_read(ep, &stats);
    if (stats.dropped_packets == told)
        return;
    told = stats.dropped_packets;
    put("dropped", text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)told));
}

static void talk(void)
{
    bool is_last = false;

    for (unsigned round = 1; !is_last; round++) {
        tell_dropped();
        is_last = talk_once(round, rank == 0 && is_marked("enough", 0), ranks);
        if (round == TALK_MARK)
            put_mark("talks");
        if (rank == 0)
            usleep(2000);
    }
    tell_dropped();
}

/* ---- vanish ---- */

/* Waits until this rank vanishes. */
static void wait_for_the_end(void)
{
    finish(receive(0, NEVER, in[0][0], 8), -1);
}

static void expect_end(mbx_request request, const char *what)
{
    int err = finish(request, -1);

    check(err == -ENOTCONN, what, err);
}

static void expect_reported(mbx_request any)
{
    struct mbx_completion done;
    int err;

    while ((err = mbx_wait(ep, any, -1, &done)) == -EINTR)
        ;
    check(err == -EHOSTDOWN, "a receive from any source is told", err);
    check(mbx_cancel(ep, any) == 0, "it is cancelled", 0);
    err = finish(any, -1);
    check(err == -ECANCELED, "it is cancelled", err);
}

static void vanish(void)
{
    uint32_t last = ranks - 1;
    mbx_request from, any, to = 0;

    talk_once(1, true, ranks);
    if (rank == last) {
        put_mark("waits");
        wait_for_the_end();
        return;
    }
    from = receive(last, NEVER, in[last][0], 8);
    any = receive(MBX_ANY_SOURCE, NEVER, in[last][1], 8);
    if (rank == 0)
        to = send(last, DATA, LONG);
    mbx_progress(ep);
    put_mark("waits");
    expect_end(from, "a receive from who has vanished");
    if (rank == 0)
        expect_end(to, "a send to who has vanished");
    expect_reported(any);
    talk_once(2, true, last);
}

int main(int argc, char **argv)
{
    if (argc != 5 || atoi(argv[2]) < 0 || atoi(argv[3]) < 2 || atoi(argv[3]) > RANKS_MAX ||
        atoi(argv[2]) >= atoi(argv[3]) ||
        (strcmp(argv[4], "talk") != 0 && strcmp(argv[4], "vanish") != 0)) {
        fprintf(stderr, "usage: far_program FOLDER RANK RANKS talk | vanish\n");
        return 2;
    }
    alarm(PATIENCE_S);
    folder = argv[1];
    rank = (uint32_t)atoi(argv[2]);
    ranks = (uint32_t)atoi(argv[3]);
    meet();
    if (strcmp(argv[4], "talk") == 0)
        talk();
    else
        vanish();
    check(mbx_close(ep) == 0, "mbx_close", 0);
    printf("%s right, rank %u\n", argv[4], rank);
    return 0;
}
