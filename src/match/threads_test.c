/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads_test.c - engines of different context ids share nothing.
 *
 * Two threads, each with an engine of its own and no lock, do the same work, deep enough for
 * tables to be made and freed.  For ThreadSanitizer: any report means that the engines share
 * memory.
 */
#include <matchbox/match.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/unit.h"

#define DEPTH  3000
#define ROUNDS 3

struct worker {
    uint32_t context_id;
    uint64_t met; /* messages and receives that matched */
    struct mbx_match_recv recvs[DEPTH];
    struct mbx_match_msg msgs[DEPTH];
};

/* A failed check of cmocka calls longjmp, which must not happen in a thread. */
static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "threads_test: %s\n", what);
    abort();
}

static struct mbx_match_envelope envelope(const struct worker *w, uint32_t i)
{
    return (struct mbx_match_envelope){w->context_id, i % 5, i};
}

/* Every third receive takes any source, and every seventh of these ignores one bit of the
 * tag. */
static void post_all(struct worker *w, struct mbx_match *m)
{
    for (uint32_t i = 0; i < DEPTH; i++) {
        struct mbx_match_recv *recv = &w->recvs[i];
        struct mbx_match_msg *found;

        *recv = (struct mbx_match_recv){.envelope = envelope(w, i)};
        if (i % 3 == 0)
            recv->envelope.source = MBX_MATCH_ANY_SOURCE;
        if (i % 21 == 0)
            recv->ignore = UINT64_C(1) << 40;
        check(mbx_match_post(m, recv, &found) == 0 && found == NULL, "mbx_match_post");
    }
}

static void meet_all(struct worker *w, struct mbx_match *m)
{
    for (uint32_t i = DEPTH; i-- > 0;) {
        const struct mbx_match_envelope e = envelope(w, i);

        if (i % 4 == 0)
            check(mbx_match_cancel(m, &w->recvs[i]), "mbx_match_cancel");
        else
            check(mbx_match_find(m, &e) == &w->recvs[i], "mbx_match_find");
        w->met++;
    }
}

static void keep_and_post(struct worker *w, struct mbx_match *m)
{
    for (uint32_t i = 0; i < DEPTH; i++) {
        w->msgs[i] = (struct mbx_match_msg){.envelope = envelope(w, i)};
        check(mbx_match_find(m, &w->msgs[i].envelope) == NULL, "mbx_match_find of nothing");
        check(mbx_match_keep(m, &w->msgs[i]) == 0, "mbx_match_keep");
    }
    for (uint32_t i = DEPTH; i-- > 0;) {
        struct mbx_match_msg *found;

        w->recvs[i] = (struct mbx_match_recv){.envelope = envelope(w, i)};
        check(mbx_match_post(m, &w->recvs[i], &found) == 0 && found == &w->msgs[i],
              "mbx_match_post of what has come");
        w->met++;
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int round = 0; round < ROUNDS; round++) {
        struct mbx_match m;

        mbx_match_init(&m, &(struct mbx_match_options){.seed = 7});
        post_all(w, &m);
        meet_all(w, &m);
        keep_and_post(w, &m);
        check(mbx_match_is_valid(&m), "mbx_match_is_valid");
        mbx_match_fini(&m);
    }
    return NULL;
}

static void test_two_engines_two_threads(UNUSED void **state)
{
    static struct worker workers[2] = {{.context_id = 1}, {.context_id = 2}};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].met, 2 * ROUNDS * DEPTH);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_engines_two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
