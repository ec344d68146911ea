/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_test.c - compares random histories with the oracle.
 *
 *   match_test [SEEDS [FIRST]]      seeds FIRST .. FIRST+SEEDS-1; by default
 *                                   1 .. 20000, or as many as MATCH_SEEDS
 *
 * history_random.c makes the histories: short ones over a tiny domain, and deep ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "match/history.h"

static unsigned long long seed_first = 1, seed_count = 20000;

/* Every 100th seed makes a deep one too. */
#define DEEP_EVERY 100

static void must_agree(struct history *h, const char *label, uint64_t seed)
{
    struct history_run run;

    if (history_replay(&run, h) < 0)
        return;
    history_report(h, label, seed);
    fail();
}

static void random_histories_agree_with_the_oracle(UNUSED void **state)
{
    struct history h;

    for (uint64_t seed = seed_first; seed - seed_first < seed_count; seed++) {
        history_make(&h, seed);
        must_agree(&h, "seed", seed);
        if (seed % DEEP_EVERY != 0)
            continue;
        history_make_deep(&h, seed / DEEP_EVERY);
        must_agree(&h, "deep seed", seed / DEEP_EVERY);
    }
}

static unsigned long long number(const char *name, const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0') {
        fprintf(stderr, "match_test: %s '%s' is not a number\n", name, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_agree_with_the_oracle),
    };
    const char *seeds = getenv("MATCH_SEEDS");

    bool is_asked = argc == 2 && strcmp(argv[1], "--help") == 0;

    if (argc > 3 || is_asked) {
        fprintf(is_asked ? stdout : stderr, "usage: match_test [SEEDS [FIRST]]\n");
        return is_asked ? 0 : 2;
    }
    if (argc > 1)
        seed_count = number("SEEDS", argv[1]);
    else if (seeds != NULL)
        seed_count = number("MATCH_SEEDS", seeds);
    if (argc > 2)
        seed_first = number("FIRST", argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
