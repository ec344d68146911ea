/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * install_names.c - a program whose functions have names that a matching engine might use.
 *
 * install_test links it statically with the installed archive.  Two definitions of one name do
 * not link; a definition that takes the place of the library's would return the wrong result.
 */
#include <stddef.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#define UNUSABLE(name)                                                                         \
    int name(void);                                                                            \
    int name(void)                                                                             \
    {                                                                                          \
        return -1;                                                                             \
    }

UNUSABLE(match_init)
UNUSABLE(match_post)
UNUSABLE(match_arrive)
UNUSABLE(match_find)
UNUSABLE(deep_find_class)
UNUSABLE(deep_make)
UNUSABLE(posted_find)
UNUSABLE(table_grow)
UNUSABLE(unexpected_find)
UNUSABLE(log_write)
UNUSABLE(mem_alloc)
UNUSABLE(peer_get)
UNUSABLE(request_complete)

int main(void)
{
    struct mbx_match_recv recv = {.envelope = {1, 2, 3}};
    struct mbx_match_msg msg = {.envelope = {1, 2, 3}}, *none = NULL;
    struct mbx_match_recv *met = NULL;
    struct mbx_match m;
    struct mbx_ep *ep;

    mbx_match_init(&m, NULL);
    if (mbx_match_post(&m, &recv, &none) != 0 || none != NULL ||
        mbx_match_arrive(&m, &msg, &met) != 0 || met != &recv)
        return 1;
    mbx_match_fini(&m);
    if (match_init() + match_post() + match_arrive() + match_find() + deep_find_class() +
            deep_make() + posted_find() + table_grow() + unexpected_find() + log_write() +
            mem_alloc() + peer_get() + request_complete() !=
        -13)
        return 2;
    return mbx_open(NULL, &ep) != 0 || mbx_close(ep) != 0 ? 3 : 0;
}
