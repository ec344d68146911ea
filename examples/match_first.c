/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_first.c - the shortest program with the matching engine: a receive and a message meet.
 *
 *   cc match_first.c $(pkg-config --cflags --libs matchbox-match) && ./a.out
 */
#include <matchbox/match.h>

int main(void)
{
    struct mbx_match_recv recv = {.envelope = {.context_id = 1, .source = 3, .tag = 7}};
    struct mbx_match_msg msg = {.envelope = {.context_id = 1, .source = 3, .tag = 7}}, *early;
    struct mbx_match_recv *taker;
    struct mbx_match m;

    mbx_match_init(&m, NULL);
    mbx_match_post(&m, &recv, &early);  /* early is NULL: nothing has arrived, so recv waits */
    mbx_match_arrive(&m, &msg, &taker); /* taker is &recv: it was posted first */
    mbx_match_fini(&m);
    return early != NULL || taker != &recv;
}
