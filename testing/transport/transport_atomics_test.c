/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_atomics_test.c - words that several endpoints compare and exchange, over each
 * transport that has them.
 */
#include "transport/atomics.h"
#include "testing/transport/transport_fixture.h"

#include <errno.h>

#define WORD   3
#define EACH   200 /* increments by each endpoint */
#define ACTORS 3   /* endpoint 0 owns the word */

/* ---- one exchange ---- */

/* Completes one exchange of the owner's word by endpoint `who`.  True: the word had the
 * expected value; *error says whether that is certain. */
static bool exchange_to_end(unsigned who, struct link *link, uint64_t expected,
                            uint64_t desired, int *error)
{
    struct node *node = &fixture.nodes[who];
    uint32_t ended = node->swaps;
    uint64_t found = 0;
    int err = -EAGAIN;

    node->swap_cookie++;
    for (unsigned round = 0; is_patient(round) && err == -EAGAIN; round++) {
        err = transport_cswap(link, WORD, expected, desired, &found, node->swap_cookie);
        if (err == -EAGAIN)
            poll_all();
    }
    if (err == -EINPROGRESS) {
        poll_until(&node->swaps, ended + 1);
        *error = node->swap_error;
        return node->is_swapped;
    }
    *error = err;
    return err == 0 && found == expected;
}

static uint64_t own_word(void)
{
    struct transport *t = fixture.nodes[0].t;
    uint64_t found = 0;

    assert_int_equal(transport_cswap_local(t, WORD, 0, 0, &found), 0);
    if (t->ops->atomics->load_local != NULL) {
        uint64_t seen = ~found;

        assert_int_equal(transport_load_local(t, WORD, &seen), 0);
        assert_int_equal(seen, found);
        assert_int_equal(transport_load_local(t, UINT64_MAX, &seen), -EINVAL);
    }
    return found;
}

/* Opens links from the others to the owner. */
static void meet(struct link *links[ACTORS])
{
    for (unsigned who = 1; who < ACTORS; who++) {
        uint32_t ended;

        links[who] = link_to(who, 0);
        ended = fixture.nodes[0].arrived[who - 1];
        send_all(links[who], 0, 1);
        poll_until(&fixture.nodes[0].arrived[who - 1], ended + 1);
    }
}

/* ---- tests ---- */

static void a_word_is_swapped_once(void **state)
{
    struct link *links[ACTORS];
    int error;

    fixture_init(state, ACTORS);
    if (fixture.nodes[0].t->limits.cswap_words == 0) {
        fixture_fini();
        skip();
    }
    meet(links);
    do /* a failed one may have been done */
        if (exchange_to_end(1, links[1], 0, 7, &error))
            assert_int_equal(error, 0);
    while (error != 0);
    assert_int_equal(own_word(), 7);
    do
        assert_false(exchange_to_end(2, links[2], 0, 8, &error));
    while (error != 0);
    assert_int_equal(own_word(), 7);
    fixture_fini();
}

/* Each endpoint adds one, EACH times, and no increment is lost. */
static void nobody_falls_into_an_exchange(void **state)
{
    struct transport *owner;
    struct link *links[ACTORS];
    uint32_t left[ACTORS] = {EACH, EACH, EACH}, unknown = 0;
    uint64_t seen[ACTORS] = {0};

    fixture_init(state, ACTORS);
    owner = fixture.nodes[0].t;
    if (owner->limits.cswap_words == 0) {
        fixture_fini();
        skip();
    }
    meet(links);
    while (left[0] + left[1] + left[2] != 0) {
        uint64_t found;
        int error;

        if (left[0] != 0) {
            assert_int_equal(transport_cswap_local(owner, WORD, seen[0], seen[0] + 1, &found),
                             0);
            left[0] -= found == seen[0];
            seen[0] = found == seen[0] ? found + 1 : found;
        }
        for (unsigned who = 1; who < ACTORS; who++) {
            if (left[who] == 0)
                continue;
            if (exchange_to_end(who, links[who], seen[who], seen[who] + 1, &error)) {
                left[who]--;
                seen[who]++;
            } else {
                unknown += error != 0;
                seen[who] = own_word();
            }
        }
    }
    assert_in_range(own_word(), ACTORS * EACH, ACTORS * EACH + unknown);
    if (fixture.kind->fault_percent == 0)
        assert_int_equal(unknown, 0);
    fixture_fini();
}

static void there_are_no_others(void **state)
{
    struct transport *owner;
    struct link *links[ACTORS];
    uint64_t found = 77;
    uint64_t end;

    fixture_init(state, ACTORS);
    owner = fixture.nodes[0].t;
    end = owner->limits.cswap_words + owner->limits.table_words;
    if (end == 0) {
        fixture_fini();
        skip();
    }
    meet(links);
    assert_int_equal(transport_cswap_local(owner, end, 0, 1, &found), -EINVAL);
    assert_int_equal(transport_cswap_local(owner, UINT64_MAX, 0, 1, &found), -EINVAL);
    if (fixture.kind->fault_percent == 0) { /* with faults, the error would come later */
        assert_int_equal(transport_cswap(links[1], end, 0, 1, &found, 1), -EINVAL);
        assert_int_equal(transport_cswap(links[1], UINT64_MAX, 0, 1, &found, 1), -EINVAL);
    }
    assert_int_equal(found, 77);
    fixture_fini();
}

/* An endpoint that waits for an exchange is notified when its peer goes. */
static void an_exchange_ends_with_its_owner(void **state)
{
    struct link *links[ACTORS];
    uint64_t found;
    int err;

    fixture_init(state, ACTORS);
    if (fixture.nodes[0].t->limits.cswap_words == 0) {
        fixture_fini();
        skip();
    }
    meet(links);
    fixture.nodes[1].swap_cookie = 5;
    err = transport_cswap(links[1], WORD, 0, 1, &found, 5);
    node_close(0);
    if (err == -EINPROGRESS)
        poll_until(&fixture.nodes[1].swaps, 1);
    else
        assert_int_equal(err, 0);
    fixture_fini();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_is_swapped_once),
        cmocka_unit_test(nobody_falls_into_an_exchange),
        cmocka_unit_test(there_are_no_others),
        cmocka_unit_test(an_exchange_ends_with_its_owner),
    };

    return run_over_all(argc, argv, tests, ARRAY_COUNT(tests), NEEDS_ATOMICS);
}
