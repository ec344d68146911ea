/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_embed.c - the matching engine alone, inside another runtime.
 *
 * The runtime here is a mailbox: workers send it lines of text, and a caller that wants
 * a line gets it when both are there.  The entries of the engine are members of the
 * runtime's own structures, which container_of() finds after a match.
 *
 *   cc match_embed.c -lmatchbox-match
 */
#include <matchbox/match.h>

#include <stdio.h>

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

enum { CHAT = 1 };                 /* a context id */
enum { GREETING = 1, RESULT = 2 }; /* tags */

struct line { /* a message of this runtime */
    const char *text;
    struct mbx_match_msg match;
};

struct wish { /* a receive of this runtime */
    const char *name;
    struct mbx_match_recv match;
};

static void meet(struct mbx_match_recv *recv, struct mbx_match_msg *msg)
{
    const struct wish *wish = container_of(recv, struct wish, match);
    const struct line *line = container_of(msg, struct line, match);

    printf("%s gets \"%s\" from %u\n", wish->name, line->text, msg->envelope.source);
}

static int want(struct mbx_match *box, struct wish *wish, uint32_t source, uint64_t tag,
                uint64_t ignore)
{
    struct mbx_match_msg *msg;
    int err;

    wish->match.envelope = (struct mbx_match_envelope){CHAT, source, tag};
    wish->match.ignore = ignore;
    err = mbx_match_post(box, &wish->match, &msg);
    if (err == 0 && msg != NULL)
        meet(&wish->match, msg);
    return err;
}

static int say(struct mbx_match *box, struct line *line, uint32_t source, uint64_t tag)
{
    struct mbx_match_recv *recv;
    int err;

    line->match.envelope = (struct mbx_match_envelope){CHAT, source, tag};
    err = mbx_match_arrive(box, &line->match, &recv);
    if (err == 0 && recv != NULL)
        meet(recv, &line->match);
    return err;
}

int main(void)
{
    struct line lines[] = {{.text = "hello"}, {.text = "42"}, {.text = "43"}, {.text = "bye"}};
    struct wish first = {.name = "first"}, directed = {.name = "directed"};
    struct wish late = {.name = "late"}, never = {.name = "never"};
    struct mbx_match_counters count;
    struct mbx_match box;
    int err = 0;

    mbx_match_init(&box, NULL);
    err |= want(&box, &first, MBX_MATCH_ANY_SOURCE, RESULT, 0);
    err |= want(&box, &directed, 7, RESULT, 0);
    err |= say(&box, &lines[0], 7, GREETING); /* nobody wants it yet */
    err |= say(&box, &lines[1], 7, RESULT);   /* first: it was posted first */
    err |= say(&box, &lines[2], 7, RESULT);   /* directed */
    err |= say(&box, &lines[3], 8, GREETING);
    err |= want(&box, &late, MBX_MATCH_ANY_SOURCE, 0, UINT64_MAX); /* "hello", the older */
    err |= want(&box, &never, 9, RESULT, 0);
    if (mbx_match_cancel(&box, &never.match))
        printf("%s gave up\n", never.name);
    for (struct mbx_match_msg *m = NULL; (m = mbx_match_next_msg(&box, m)) != NULL;)
        printf("unread: \"%s\"\n", container_of(m, struct line, match)->text);
    mbx_match_counters_get(&box, &count);
    err |= count.met_arrivals != 2 || count.met_posts != 1;
    mbx_match_fini(&box);
    return err != 0;
}
