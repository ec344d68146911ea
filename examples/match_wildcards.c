/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_wildcards.c - MPI's matching in another runtime: communicators, MPI_ANY_SOURCE,
 * MPI_ANY_TAG, and tags of the runtime itself that MPI_ANY_TAG must not match.
 *
 *   context id   the communicator
 *   source       the rank in it
 *   tag          bit 63        set in messages of the runtime itself (a barrier, say)
 *                bits 0 to 30  MPI's tag
 *
 * A receive for MPI_ANY_TAG ignores the bits of MPI's tag, but not bit 63.
 *
 *   cc match_wildcards.c -lmatchbox-match
 */
#include <matchbox/match.h>

#include <stddef.h>
#include <stdio.h>

#define ANY         (-1)
#define OF_RUNTIME  (UINT64_C(1) << 63)
#define MPI_TAG_ALL UINT64_C(0x7fffffff)

enum { WORLD = 1, ROWS = 2 };

struct receive {
    const char *name;
    const char *got;
    struct mbx_match_recv match;
};

struct message {
    const char *text;
    struct mbx_match_msg match;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static void post(struct mbx_match *m, struct receive *recv, uint32_t comm, int source, int tag)
{
    struct mbx_match_msg *found;

    recv->match.envelope = (struct mbx_match_envelope){
        comm, source == ANY ? MBX_MATCH_ANY_SOURCE : (uint32_t)source,
        tag == ANY ? 0 : (uint64_t)tag};
    recv->match.ignore = tag == ANY ? MPI_TAG_ALL : 0;
    if (mbx_match_post(m, &recv->match, &found) == 0 && found != NULL)
        recv->got = container_of(found, struct message, match)->text;
}

static void arrive(struct mbx_match *m, struct message *message, uint32_t comm, int source,
                   uint64_t tag)
{
    struct mbx_match_recv *found;

    message->match.envelope = (struct mbx_match_envelope){comm, (uint32_t)source, tag};
    if (mbx_match_arrive(m, &message->match, &found) == 0 && found != NULL)
        container_of(found, struct receive, match)->got = message->text;
}

static int is(const struct receive *recv, const char *text)
{
    printf("%-24s %s\n", recv->name, recv->got == NULL ? "waits" : recv->got);
    return recv->got == text;
}

int main(void)
{
    static const char one[] = "tag 5 of rank 3", two[] = "tag 6 of rank 3", row[] = "row 0";
    struct receive any = {.name = "any source, any tag"}, third = {.name = "rank 3, any tag"};
    struct receive exact = {.name = "rank 3, tag 5"}, other = {.name = "any of ROWS"};
    struct message barrier = {.text = "barrier"}, first = {.text = one}, second = {.text = two};
    struct message of_row = {.text = row};
    struct mbx_match m;
    int right;

    mbx_match_init(&m, NULL);
    post(&m, &any, WORLD, ANY, ANY);
    post(&m, &third, WORLD, 3, ANY);
    post(&m, &exact, WORLD, 3, 5);
    post(&m, &other, ROWS, ANY, ANY);
    arrive(&m, &barrier, WORLD, 3, OF_RUNTIME); /* no wildcard of MPI matches it */
    arrive(&m, &first, WORLD, 3, 5);  /* three accept it: the one posted first has it */
    arrive(&m, &second, WORLD, 3, 6); /* the next one that accepts it */
    arrive(&m, &of_row, ROWS, 0, 5);  /* another communicator */
    right = is(&any, one) & is(&third, two) & is(&exact, NULL) & is(&other, row);
    right &= mbx_match_cancel(&m, &exact.match);
    mbx_match_fini(&m);
    return !right;
}
