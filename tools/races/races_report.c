/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_report.c - groups as text, or as JSON.
 *
 *   receive at solve.c:88 (MPI_Irecv from any source, tag 7, on MPI_COMM_WORLD), 12000 times, rank 0
 *     1204 times: another rank's message could have come first (both: MPI_Send at work.c:41)
 *       first at event 17 of rank 0: rank 3's was taken, rank 5's could have come first
 *       the other order was also seen
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "races.h"
#include "tools/common/json.h"

/* ---- problems ---- */

bool races_problem(struct races_run *run, const char *format, ...)
{
    char(*more)[RACES_PROBLEM];
    va_list args;

    if (run->problem_count == RACES_PROBLEMS_MAX)
        return true;
    more = mem_realloc(run->problems, (run->problem_count + 1) * sizeof *more);
    if (more == NULL)
        return false;
    run->problems = more;
    va_start(args, format);
    vsnprintf(more[run->problem_count++], RACES_PROBLEM, format, args);
    va_end(args);
    return true;
}

/* ---- counts ---- */

static uint64_t count_sites(const struct races_report *report, bool has_races)
{
    uint64_t count = 0;

    for (size_t i = 0; i < report->groups->site_count; i++)
        count += (report->groups->sites[i].races != 0) == has_races;
    return count;
}

static uint64_t count_times(const struct races_report *report, bool has_races)
{
    uint64_t count = 0;

    for (size_t i = 0; i < report->groups->site_count; i++)
        if ((report->groups->sites[i].races != 0) == has_races)
            count += report->groups->sites[i].times;
    return count;
}

/* Sites with an order that was never seen: it comes first in them. */
static uint64_t count_never_seen(const struct races_report *report)
{
    const struct races_groups *all = report->groups;
    uint64_t count = 0;

    for (size_t i = 0; i < all->site_count; i++)
        count += all->sites[i].group_count != 0 &&
                 races_is_never_seen(&all->groups[all->sites[i].first_group]);
    return count;
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- text ---- */

static void print_times(uint64_t times)
{
    if (times == 1)
        printf("once");
    else
        printf("%" PRIu64 " times", times);
}

static void print_site(const struct races_site *site)
{
    printf("%s, ", site->text);
    print_times(site->times);
    if (site->ranks == 1)
        printf(", rank %" PRIu32 "\n", site->first_rank);
    else
        printf(", several ranks\n");
}

static void print_first(const struct races_report *report, const struct races_group *g)
{
    printf("    first at event %" PRIu64 " of rank %" PRIu32, g->event, g->rank);
    if (report->folder_count > 1)
        printf(" in %s", report->folders[g->run]);
    printf(": rank %" PRIu32 "'s was taken, rank %" PRIu32 "'s could have come first\n",
           g->taken_rank, g->other_rank);
}

static void print_seen(const struct races_group *g)
{
    bool is_same = strcmp(g->taken, g->other) == 0;

    if (races_is_never_seen(g))
        printf("    the other order was never seen%s\n",
               is_same ? "" : ", and the two sends differ: look here first");
    else if (g->reversed == g->pairs)
        printf("    the other order was also seen\n");
    else
        printf("    the other order was seen for %" PRIu64 " of %" PRIu64 " pairs of ranks\n",
               g->reversed, g->pairs);
}

static void print_group(const struct races_report *report, const struct races_group *g)
{
    bool is_same = strcmp(g->taken, g->other) == 0;

    printf("  ");
    print_times(g->times);
    if (is_same && g->taken[0] == '\0')
        printf(": another rank's message could have come first\n");
    else if (is_same)
        printf(": another rank's message could have come first (both: %s)\n", g->taken);
    else
        printf(": it took a message (%s)\n"
               "    where another rank's could have come first (%s)\n",
               g->taken, g->other);
    print_first(report, g);
    print_seen(g);
    if (g->is_empty)
        printf("    these messages have no data\n");
}

static void print_sites(const struct races_report *report)
{
    const struct races_groups *all = report->groups;

    for (size_t i = 0; i < all->group_count;) {
        const struct races_site *site = &all->sites[all->groups[i].site];

        print_site(site);
        for (size_t end = i + site->group_count; i < end; i++)
            print_group(report, &all->groups[i]);
    }
}

static void print_rest(const struct races_report *report)
{
    const struct races_groups *all = report->groups;
    uint64_t sites = count_sites(report, false), times = count_times(report, false);
    const char *runs = report->folder_count > 1 ? "these runs" : "this run";

    if (all->site_count == 0 && races_problems(report->problems) == 0)
        printf("no race in %s: no receive or probe from any source got a message\n", runs);
    else if (sites != 0)
        printf("%s in %s: %" PRIu64 " %sreceive%s or probe%s from any source, %" PRIu64
               " time%s\n",
               all->undecided != 0 ? "no race is known" : "no race", runs, sites,
               sites < all->site_count ? "other " : "", plural(sites), plural(sites), times,
               plural(times));
    for (size_t i = 0; report->shows_all && i < all->site_count; i++)
        if (all->sites[i].races == 0) {
            printf("  ");
            print_site(&all->sites[i]);
        }
    if (all->unchecked != 0)
        printf("not checked: %" PRIu64
               " receive%s from any source that the program did not post "
               "itself, or in another thread\n",
               all->unchecked, plural(all->unchecked));
    if (all->undecided != 0)
        printf("not decided: %" PRIu64
               " pair%s of messages that are too far apart; each may be a race\n",
               all->undecided, plural(all->undecided));
}

void races_print(const struct races_report *report)
{
    const struct races_run *problems = report->problems;

    print_sites(report);
    print_rest(report);
    for (size_t i = 0; i < races_problems(problems); i++)
        printf("not complete: %s\n", races_problem_at(problems, i));
}

void races_print_line(const struct races_report *report, const char *folder)
{
    uint64_t sites = count_sites(report, true), never = count_never_seen(report);

    if (sites == 0)
        fprintf(stderr, "matchbox: no receive could have matched differently in this run");
    else
        fprintf(stderr, "matchbox: %" PRIu64 " receive%s could have matched differently", sites,
                plural(sites));
    if (never != 0)
        fprintf(stderr, " (%" PRIu64 " in an order that was never seen)", never);
    if (report->groups->undecided != 0)
        fprintf(stderr, ", but %" PRIu64 " pair%s of messages could not be decided",
                report->groups->undecided, plural(report->groups->undecided));
    if (races_problems(report->problems) != 0)
        fprintf(stderr, ", but this is not complete (%s)",
                races_problem_at(report->problems, 0));
    fprintf(stderr, ": mbx races %s\n", folder);
}

/* ---- JSON ---- */

static void json_group(const struct races_report *report, const struct races_group *g)
{
    json_begin(NULL, '{');
    json_text("taken", g->taken);
    json_text("other", g->other);
    json_number("times", g->times);
    json_number("pairs", g->pairs);
    json_number("reversed", g->reversed);
    json_bool("empty", g->is_empty);
    json_begin("first", '{');
    json_text("run", report->folders[g->run]);
    json_number("rank", g->rank);
    json_number("event", g->event);
    json_number("taken_rank", g->taken_rank);
    json_number("other_rank", g->other_rank);
    json_number("other_message", g->other_number);
    json_end('}');
    json_end('}');
}

static void json_site(const struct races_report *report, uint32_t number)
{
    const struct races_site *site = &report->groups->sites[number];

    json_begin(NULL, '{');
    json_text("call", site->text);
    json_number("times", site->times);
    json_number("races", site->races);
    json_begin("groups", '[');
    for (size_t i = 0; i < site->group_count; i++)
        json_group(report, &report->groups->groups[site->first_group + i]);
    json_end(']');
    json_end('}');
}

void races_print_json(const struct races_report *report)
{
    json_begin(NULL, '{');
    json_begin("calls", '[');
    for (uint32_t i = 0; i < report->groups->site_count; i++)
        json_site(report, i);
    json_end(']');
    json_number("unchecked", report->groups->unchecked);
    json_number("undecided", report->groups->undecided);
    json_begin("problems", '[');
    for (size_t i = 0; i < races_problems(report->problems); i++)
        json_text(NULL, races_problem_at(report->problems, i));
    json_end(']');
    json_end('}');
}
