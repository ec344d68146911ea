/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * start_program.c - a rank that checks how it was started; the test starts the launcher.
 *
 * usage: start_program rounds SIZE HOSTS | leave
 *
 *   rounds   there are SIZE ranks on HOSTS hosts, their numbers differ, all have one key,
 *            and their values arrive, in many rounds, also after a close and another open
 *   leave    rank 1 does not enter the second fence, and rank 0 must get -ECONNRESET;
 *            it then ends the job with exit code 7
 *
 * Exit code 0 if everything is right, 2 for wrong arguments.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "boot/boot.h"

#define ROUNDS 20
#define LEFT   7

struct card {
    uint32_t rank, round;
    uint64_t host;
    uint8_t key[BOOT_KEY_SIZE];
    uint8_t filler[200]; /* as large as an address may become */
};
static_assert(sizeof(struct card) <= BOOT_VALUE_MAX, "fits");

/* Fails like an assertion; the launcher ends the other ranks. */
static void check(bool is_right, const char *what, const struct boot *b)
{
    if (is_right)
        return;
    fprintf(stderr, "start_program: rank %u of %u: %s\n", b->rank, b->size, what);
    exit(1);
}

static struct boot *open_boot(uint64_t timeout_ns)
{
    struct boot *b;
    int err = boot_open(timeout_ns, &b);

    if (err == 0)
        return b;
    fprintf(stderr, "start_program: boot_open: error %d\n", err);
    exit(1);
}

static uint64_t this_host(void)
{
    uint64_t host;

    return host_id(&host) == 0 ? host : 0;
}

static struct card make_card(const struct boot *b, uint32_t round)
{
    struct card card = {.rank = b->rank, .round = round, .host = this_host()};

    memcpy(card.key, b->key, sizeof card.key);
    memset(card.filler, (int)(b->rank + round), sizeof card.filler);
    return card;
}

/* Makes one round; hosts[rank] gets the host of each rank. */
static void exchange(struct boot *b, uint32_t round, uint64_t *hosts)
{
    struct card mine = make_card(b, round), card;

    check(b->ops->put(b, &mine, sizeof mine) == 0, "put", b);
    check(b->ops->fence(b) == 0, "fence", b);
    for (uint32_t rank = 0; rank < b->size; rank++) {
        check(b->ops->get(b, rank, &card, sizeof card) == 0, "get", b);
        check(card.rank == rank && card.round == round, "somebody else's card", b);
        check(memcmp(card.key, b->key, sizeof card.key) == 0, "another key", b);
        check(card.filler[0] == (uint8_t)(rank + round) &&
                  card.filler[199] == (uint8_t)(rank + round),
              "a damaged card", b);
        hosts[rank] = card.host;
    }
}

static uint32_t count_hosts(const uint64_t *hosts, uint32_t size)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < size; i++) {
        uint32_t first = 0;

        while (hosts[first] != hosts[i])
            first++;
        count += first == i;
    }
    return count;
}

static int run_rounds(uint32_t size, uint32_t hosts_expected)
{
    struct boot *b = open_boot(0);
    uint64_t *hosts = calloc(b->size, sizeof *hosts);
    uint32_t value;

    check(hosts != NULL, "memory", b);
    check(b->size == size, "a job of another size", b);
    check(b->ops->get(b, 0, &value, sizeof value) == -ENOENT, "get before any put", b);
    for (uint32_t round = 1; round <= ROUNDS; round++)
        exchange(b, round, hosts);
    check(count_hosts(hosts, size) == hosts_expected, "another number of hosts", b);
    check(b->ops->fence(b) == 0, "a fence of its own", b);
    b->ops->close(b);
    b = open_boot(0);
    exchange(b, ROUNDS + 1, hosts);
    if (b->rank == 0)
        printf("rounds right, %u ranks, %u hosts, by %s\n", size, hosts_expected, b->ops->name);
    b->ops->close(b);
    free(hosts);
    return 0;
}

static int run_leave(void)
{
    struct boot *b = open_boot(0), *again;
    int err;

    check(b->ops->fence(b) == 0, "the first fence", b);
    while (b->rank == 1)
        pause();                    /* until the launcher ends it */
    again = open_boot(2 * CLOCK_S); /* all ranks have come this far, however slow they are */
    err = again->ops->fence(again);
    check(err == -ECONNRESET, "a fence without a rank", b);
    check(b->ops->fence(b) == -ECONNRESET, "another one", b);
    printf("rank %u was told\n", b->rank);
    again->ops->close(again);
    b->ops->close(b);
    return LEFT;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "rounds") == 0)
        return run_rounds((uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    if (argc == 2 && strcmp(argv[1], "leave") == 0)
        return run_leave();
    fprintf(stderr, "usage: start_program rounds SIZE HOSTS | leave\n");
    return 2;
}
