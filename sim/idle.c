/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.c - bytes of the C library's allocator, before and after.
 *
 * Question   what does an endpoint cost that has sent nothing, a peer of it whom it only knows
 *            by name, and one with a link?
 * Method     mallinfo2() around opening the endpoints, around making all of them peers of
 *            the first, and around making links to them; so with what the allocator adds to
 *            each block.  Under a sanitizer, whose allocator does not count, it is 0.
 */
#include "idle.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include <matchbox/matchbox.h>

#include "core/core.h"
#include "testing/sim/sim.h"

static size_t bytes_now(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static int add_peers(struct mbx_ep **eps, uint32_t ranks)
{
    struct mbx_address address;
    uint32_t number;
    int err = 0;

    for (uint32_t i = 0; i < ranks && err == 0; i++) {
        mbx_address_get(eps[i], &address);
        err = mbx_peer_add(eps[0], &address, &number);
    }
    return err;
}

/* Each peer of ep becomes more than a name, and nothing is sent. */
static int use_peers(struct mbx_ep *ep, uint32_t ranks)
{
    int err = 0;

    for (uint32_t i = 0; i < ranks && err == 0; i++)
        err = peer_use(ep, i);
    return err;
}

int idle_measure(uint32_t ranks)
{
    static const char *const params[] = {"TRANSPORT=sim", "INSPECT=off", NULL};
    const struct sim_config network = {.seed = 1, .depth = 16, .words = 4, .can_read = true};
    const struct mbx_config config = {.params = params};
    struct mbx_ep **eps = calloc(ranks, sizeof(struct mbx_ep *));
    size_t before, opened, known, used;
    uint32_t open = 0;
    int err = eps != NULL ? sim_begin(&network) : -1;

    if (err != 0)
        return err;
    before = bytes_now();
    while (open < ranks && (err = mbx_open(&config, &eps[open])) == 0)
        open++;
    opened = bytes_now();
    if (err == 0)
        err = add_peers(eps, ranks);
    known = bytes_now();
    if (err == 0)
        err = use_peers(eps[0], ranks);
    used = bytes_now();
    printf("idle ranks=%" PRIu32 " bytes_per_endpoint=%zu bytes_per_peer=%zu "
           "bytes_per_used_peer=%zu\n",
           open, (opened - before) / ranks, (known - opened) / ranks, (used - opened) / ranks);
    while (open > 0)
        mbx_close(eps[--open]);
    sim_end();
    free(eps);
    return err;
}
