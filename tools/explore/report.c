/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - what is said at the end.
 *
 *   explore: 20 runs, 12 different orders: 17 end as run 1 does, 2 deadlock, 1 exits with status 1
 *     run 7: deadlock; the first event that differs from run 1: rank 0, event 102: ...
 *       forced: event 102 of rank 0 took rank 2's message (MPI_Send at load.c:77) instead of rank 1's (MPI_Send at setup.c:9)
 *       repeats in its replay; to repeat it: mbx exec --replay explore/order-7 mpiexec -n 4 ./a.out
 */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "explore.h"

#define DIVERGED 87 /* the exit status of a replay that does */

/* ---- the first line ---- */

static const struct explore_result *result_of(const struct explore_search *s, uint64_t n)
{
    return &s->runs[n - 1].result;
}

static uint64_t count_alike(const struct explore_search *s, uint64_t n)
{
    uint64_t count = 0;

    for (uint64_t i = 1; i <= s->count; i++)
        count += !s->runs[i - 1].is_missed && explore_is_same(result_of(s, i), result_of(s, n));
    return count;
}

static uint64_t count_missed(const struct explore_search *s)
{
    uint64_t count = 0;

    for (uint64_t i = 1; i <= s->count; i++)
        count += s->runs[i - 1].is_missed;
    return count;
}

static bool is_first_of_its_kind(const struct explore_search *s, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        if (!s->runs[i - 1].is_missed && explore_is_same(result_of(s, i), result_of(s, n)))
            return false;
    return !s->runs[n - 1].is_missed;
}

static void print_first(const struct explore_search *s)
{
    uint64_t alike = count_alike(s, 1);
    char text[96];

    if (s->count == 1)
        fputs(explore_result_text(result_of(s, 1), text), stdout);
    else if (alike == s->count - count_missed(s))
        printf("all end as run 1 does (%s)", explore_result_text(result_of(s, 1), text));
    else
        printf("%" PRIu64 " end%s as run 1 does%s%s%s", alike, alike == 1 ? "s" : "",
               explore_is_told(s, 1) ? " (" : "",
               explore_is_told(s, 1) ? explore_result_text(result_of(s, 1), text) : "",
               explore_is_told(s, 1) ? ")" : "");
}

/* Is there more to try? */
static void print_known(const struct explore_search *s)
{
    uint64_t untried = explore_untried(s);

    if (s->is_exhausted && !s->is_unforceable && s->problem[0] == '\0' &&
        s->options->mix >= s->count)
        printf(", and no other is known");
    else if (untried != 0)
        printf(", and %" PRIu64 " other match%s not tried", untried,
               untried == 1 ? " was" : "es were");
    printf(": ");
}

static void print_head(const struct explore_search *s)
{
    char text[96];

    bool is_cut_off = s->count < s->options->runs && !s->is_exhausted;

    printf("explore: %" PRIu64, s->count);
    if (is_cut_off)
        printf(" of %" PRIu64, s->options->runs);
    printf(" run%s, ", (is_cut_off ? s->options->runs : s->count) == 1 ? "" : "s");
    if (s->orders == 1)
        printf("one order");
    else
        printf("%" PRIu32 " different orders", s->orders);
    print_known(s);
    print_first(s);
    for (uint64_t n = 2; n <= s->count; n++)
        if (is_first_of_its_kind(s, n))
            printf(", %s", explore_count_text(result_of(s, n), count_alike(s, n), text));
    if (count_missed(s) != 0)
        printf(", %" PRIu64 " not enforced", count_missed(s));
    putchar('\n');
    if (s->problem[0] != '\0')
        printf("  not complete: %s\n", s->problem);
    if (s->is_unforceable)
        puts("  no message can be forced: calls of several threads, or calls that are not "
             "recorded, "
             "decide; --shuffle=N\n"
             "  makes random choices");
}

/* ---- forced matches ---- */

static void print_sent(const char *text)
{
    if (text[0] != '\0')
        printf(" (%s)", text);
}

static void print_forced(const struct explore_search *s, uint64_t n)
{
    const struct explore_run *run = &s->runs[n - 1];

    for (uint32_t i = 0; i < run->forced_count; i++) {
        const struct explore_alternative *one = &run->all_forced[i];
        const struct races_group *group = &s->groups.groups[one->group];

        printf("    forced: event %" PRIu64 " of rank %" PRIu32 ", %s, takes rank %" PRIu32
               "'s message",
               one->event, one->rank, s->groups.sites[group->site].text, one->from);
        print_sent(group->other);
        printf(" instead of rank %" PRIu32 "'s", one->taken);
        print_sent(group->taken);
        putchar('\n');
    }
}

static void print_fewer(const struct explore_search *s, uint64_t n)
{
    uint64_t fewer = explore_find_fewer(s, n);

    if (fewer != 0)
        printf("    fails with fewer forced matches: run %" PRIu64 "\n", fewer);
}

/* ---- the event ---- */

static bool asks_the_same(const struct replay_event *a, const struct replay_event *b)
{
    return a->signature.kind == b->signature.kind && a->signature.comm == b->signature.comm &&
           a->signature.source == b->signature.source && a->signature.tag == b->signature.tag;
}

/* A call that got another message says more than one that got none, and that more than what followed from it. */
static int weight(const struct order_difference *d)
{
    const struct replay_event *a = &d->events[0], *b = &d->events[1];

    if (a->times == 0 || b->times == 0)
        return 1;
    if (!asks_the_same(a, b))
        return 2;
    return a->outcome.result == REPLAY_OPEN || b->outcome.result == REPLAY_OPEN ? 3 : 4;
}

/* The heaviest difference of all ranks; events[0] is the event of the run, events[1] of run 1. */
static bool find_event(const struct explore_search *s, uint64_t n, uint32_t *rank,
                       struct order_difference *found)
{
    char ours[EXPLORE_PATH], first[EXPLORE_PATH], error[ORDER_ERROR];
    const char *const folders[2] = {explore_path(s->options, n, "", ours),
                                    explore_path(s->options, 1, "", first)};
    struct order_difference one;
    int most = 0;

    for (uint32_t r = 0; r < s->ranks; r++)
        if (order_compare(folders, r, true, &one, error) == 0 && one.is_there &&
            weight(&one) > most) {
            most = weight(&one);
            *found = one;
            *rank = r;
        }
    return most > 0;
}

static void print_outcome(const struct replay_event *event)
{
    char text[REPLAY_TEXT];

    fputs(event->times == 0 ? "no further event" : replay_outcome_text(&event->outcome, text),
          stdout);
}

static void print_event(const struct explore_search *s, uint64_t n)
{
    struct order_difference d;
    const struct replay_event *ours = &d.events[0], *first = &d.events[1], *named;
    char call[REPLAY_TEXT], line[ORDER_LINE];
    uint32_t rank;

    if (s->runs[n - 1].order == 0) {
        printf("; it has no record");
        return;
    }
    if (s->runs[n - 1].order == s->runs[0].order) {
        printf("; its messages came in the same order as in run 1");
        return;
    }
    if (!find_event(s, n, &rank, &d))
        return;
    named = ours->times != 0 ? ours : first;
    printf("; the first event that differs from run 1: rank %" PRIu32 ", event %" PRIu64 ": ",
           rank, named->number);
    if (ours->times != 0)
        printf("%s%s: ", replay_signature_text(&ours->signature, NULL, call),
               order_line(&d.places[0], line));
    print_outcome(ours);
    printf(" (run 1: ");
    if (first->times != 0 && (ours->times == 0 || !asks_the_same(ours, first)))
        printf("%s%s: ", replay_signature_text(&first->signature, NULL, call),
               order_line(&d.places[1], line));
    print_outcome(first);
    putchar(')');
}

/* ---- the output ---- */

static void print_output(const struct explore_search *s, uint64_t n)
{
    char first[EXPLORE_PATH], path[EXPLORE_PATH], ours[EXPLORE_LINE_SIZE],
        theirs[EXPLORE_LINE_SIZE];
    bool is_other;
    size_t line;

    if (!result_of(s, n)->is_other_output ||
        explore_compare_output(s->options->output, explore_path(s->options, 1, "stdout", first),
                               explore_path(s->options, n, "stdout", path), &is_other, theirs,
                               ours, &line) < 0)
        return;
    printf(": ");
    if (line > 0)
        printf("line %zu: ", line);
    if (ours[0] != '\0')
        printf("'%s' (run 1: %s%s%s)", ours, theirs[0] != '\0' ? "'" : "",
               theirs[0] != '\0' ? theirs : "no such line", theirs[0] != '\0' ? "'" : "");
    else
        printf("'%s' of run 1 is missing", theirs);
}

/* ---- runs ---- */

static bool is_plain(const char *word)
{
    return word[0] != '\0' && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                                                "TUVWXYZ0123456789_@%+=:,./-")] == '\0';
}

/* As a shell reads it. */
static void print_word(const char *word)
{
    if (is_plain(word)) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static const char *replay_text(const struct explore_run *run, char text[96])
{
    if (run->replayed.kind == EXPLORE_STATUS_IS && run->replayed.number == DIVERGED)
        return "it diverges: see replay-stderr";
    if (explore_is_same(&run->replayed, &run->result))
        return "again another output";
    return explore_result_text(&run->replayed, text);
}

static void print_replay(const struct explore_search *s, uint64_t n)
{
    const struct explore_run *run = &s->runs[n - 1];
    char path[EXPLORE_PATH], text[96];

    if (run->result.kind == EXPLORE_DEADLOCK)
        printf("    who waits for whom: %s\n", explore_path(s->options, n, "stderr", path));
    fputs("    ", stdout);
    if (run->replay == EXPLORE_REPEATS)
        printf("repeats in its replay; ");
    if (run->replay == EXPLORE_REPEATS_NOT && run->repeated != 0)
        printf("fails in %" PRIu32 " of %" PRIu32 " replays; ", run->repeated, run->replays);
    else if (run->replay == EXPLORE_REPEATS_NOT)
        printf("does not repeat in its replay (%s); ", replay_text(run, text));
    if (run->replay == EXPLORE_REPLAY_REFUSED)
        printf("cannot be replayed (%s); ", explore_path(s->options, n, "replay-stderr", path));
    printf("to repeat it: mbx exec --replay ");
    print_word(explore_path(s->options, n, "", path));
    for (char **word = s->options->command; *word != NULL; word++) {
        putchar(' ');
        print_word(*word);
    }
    putchar('\n');
}

void explore_report(const struct explore_search *s)
{
    char text[96];

    if (s->count == 0)
        return;
    print_head(s);
    for (uint64_t n = 1; n <= s->count; n++) {
        if (!explore_is_told(s, n))
            continue;
        printf("  run %" PRIu64 ": %s", n, explore_result_text(result_of(s, n), text));
        if (n > 1) {
            print_output(s, n);
            print_event(s, n);
        }
        putchar('\n');
        print_forced(s, n);
        print_fewer(s, n);
        if (s->runs[n - 1].order != 0)
            print_replay(s, n);
    }
}
