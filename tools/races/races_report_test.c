/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_report_test.c - what `mbx races` prints, and its exit status, for runs that are made up.
 *
 * A run is a list of messages that rank 0 receives from any source, in this order; its senders never wait.  No file is read:
 * races_read() is a function of this test.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/unit.h"
#include "races.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"

#define RANKS 3

struct sent {
    uint32_t from, tag, line; /* line: or 0, it is not known */
};

/* races_read() returns this for a folder. */
struct made_up {
    const struct sent *sent;
    uint32_t count, open; /* open: so many other receives are never complete */
    bool is_any_tag;
    const char *problem; /* or NULL */
    int err;
};

static const struct made_up *folders; /* the folder "N" is folders[N] */

/* ---- in place of other files ---- */

const char *(*job_line_of)(const char *path, uint64_t at, char *words);

const char *source_line_in(UNUSED const char *path, uint64_t address, char *words)
{
    (void)address;
    (void)words;
    return NULL;
}

const char *job_place_text(UNUSED const struct job *job, uint32_t place,
                           char text[JOB_PLACE_TEXT])
{
    if (place == JOB_NOBODY)
        return NULL;
    snprintf(text, JOB_PLACE_TEXT, "MPI_Send at work.c:%u", (unsigned)place);
    return text;
}

const char *job_message_communicator(UNUSED const struct job *job,
                                     const struct job_message *message,
                                     UNUSED char text[JOB_COMMUNICATOR_TEXT])
{
    (void)message;
    return "MPI_COMM_WORLD";
}

static void make_ranks(struct races_run *run, uint32_t ops)
{
    run->job.rank_count = RANKS;
    run->job.ranks = mem_calloc(RANKS, sizeof *run->job.ranks);
    run->traces.ranks = mem_calloc(RANKS, sizeof *run->traces.ranks);
    for (uint32_t i = 0; i < RANKS; i++) {
        run->job.ranks[i].ops = mem_calloc(ops, sizeof *run->job.ranks[i].ops);
        run->traces.ranks[i].info.rank = i;
    }
}

static void add_op(struct races_run *run, uint32_t rank, enum races_op_kind kind, uint32_t what)
{
    struct races_rank *r = &run->job.ranks[rank];

    r->ops[r->count++] = (struct races_op){kind, what};
}

/* A receive that stays open has a tag that no message has. */
static void make_receive(struct races_run *run, const struct made_up *made, uint32_t message)
{
    uint32_t number = run->job.receive_count++;
    bool has_message = message != RACES_NONE;
    uint32_t tag = has_message ? run->job.messages[message].tag : UINT32_C(1) << 30;

    run->job.receives[number] =
        (struct races_receive){.source = RACES_ANY,
                               .tag = tag,
                               .message = message,
                               .is_any_tag = has_message && made->is_any_tag,
                               .is_checked = true};
    run->events[number] = (struct races_event){
        .number = number + 1,
        .signature = {.kind = REPLAY_IRECV,
                      .source = REPLAY_ANY,
                      .tag = has_message && made->is_any_tag ? REPLAY_ANY : (int32_t)tag},
        .place = JOB_NOBODY};
    add_op(run, 0, RACES_POST, number);
    if (has_message)
        add_op(run, 0, RACES_REPORT, number);
}

int races_read(struct races_run *run, const char *folder)
{
    const struct made_up *made = &folders[atoi(folder)];
    uint32_t receives = made->count + made->open;

    *run = (struct races_run){.folder = folder};
    make_ranks(run, 2 * receives + 1);
    run->job.message_count = made->count;
    run->job.messages = mem_calloc(made->count + 1, sizeof *run->job.messages);
    run->comms = mem_calloc(1, sizeof *run->comms);
    run->sends = mem_calloc(made->count + 1, sizeof *run->sends);
    run->job.receives = mem_calloc(receives + 1, sizeof *run->job.receives);
    run->events = mem_calloc(receives + 1, sizeof *run->events);
    for (uint32_t i = 0; i < made->open; i++)
        make_receive(run, made, RACES_NONE);
    for (uint32_t i = 0; i < made->count; i++) {
        run->job.messages[i] = (struct races_message){.from = made->sent[i].from,
                                                      .tag = made->sent[i].tag,
                                                      .receive = run->job.receive_count};
        run->sends[i] = (struct races_send){
            .place = made->sent[i].line != 0 ? made->sent[i].line : JOB_NOBODY};
        add_op(run, made->sent[i].from, RACES_SEND, i);
        make_receive(run, made, i);
    }
    if (made->problem != NULL)
        (void)races_problem(run, "%s", made->problem);
    return made->err;
}

void races_run_free(struct races_run *run)
{
    for (uint32_t i = 0; i < RANKS; i++)
        mem_free(run->job.ranks[i].ops);
    mem_free(run->job.ranks);
    mem_free(run->traces.ranks);
    mem_free(run->job.messages);
    mem_free(run->comms);
    mem_free(run->sends);
    mem_free(run->job.receives);
    mem_free(run->events);
}

/* ---- the command ---- */

/* Its exit status, and in said what it prints: "mbx races OPTION 0 1 ..." of so many folders. */
static int races(const struct made_up *made, uint32_t count, const char *option, char *said,
                 size_t size)
{
    char words[4][8] = {"races", "", "0", "1"};
    char *args[] = {words[0], words[1], words[2], words[3], NULL};
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO), status;

    assert_non_null(file);
    folders = made;
    snprintf(words[1], sizeof words[1], "%s", option);
    args[2 + count] = NULL;
    optind = 0; /* it begins anew */
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    status = tool_races.run(&tool_races, 2 + (int)count, args);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    fclose(file);
    return status;
}

static void says(const char *said, const char *text)
{
    if (strstr(said, text) == NULL)
        fail_msg("'%s' is not in:\n%s", text, said);
}

static void says_not(const char *said, const char *text)
{
    if (strstr(said, text) != NULL)
        fail_msg("'%s' is in:\n%s", text, said);
}

/* ---- which order was seen ---- */

/* In the first run rank 1's tag 4 comes before rank 2's tag 9. */
static const struct sent first[] = {{1, 4, 0}, {2, 9, 0}};

#define NEVER "never seen, and the two sends differ"

/* Rank 2's message came before rank 1's, but it was another message. */
static void test_other_tag(UNUSED void **state)
{
    static const struct sent other[] = {{2, 4, 0}, {1, 4, 0}};
    static const struct made_up made[] = {{.sent = first, .count = 2, .is_any_tag = true},
                                          {.sent = other, .count = 2, .is_any_tag = true}};
    char said[4096];

    assert_int_equal(races(made, 2, "-a", said, sizeof said), RACES_FOUND);
    says(said, "(tag 4)\n    where another rank's could have come first (tag 9)");
    says(said, NEVER);
    says_not(said, "also seen");
}

static void test_both_orders(UNUSED void **state)
{
    static const struct sent other[] = {{2, 9, 0}, {1, 4, 0}};
    static const struct made_up made[] = {{.sent = first, .count = 2, .is_any_tag = true},
                                          {.sent = other, .count = 2, .is_any_tag = true}};
    char said[4096];

    assert_int_equal(races(made, 2, "-a", said, sizeof said), RACES_FOUND);
    says(said, "(tag 4)\n    where another rank's could have come first (tag 9)");
    says(said, "(tag 9)\n    where another rank's could have come first (tag 4)");
    says(said, "the other order was also seen\n");
    says_not(said, "never seen");
}

/* ---- what is not known ---- */

static void test_undecided(UNUSED void **state)
{
    static const struct sent same[] = {{1, 4, 0}, {2, 4, 0}};
    static const struct made_up made[] = {{.sent = same, .count = 2, .open = 30000},
                                          {.sent = same, .count = 2}};
    char said[4096];

    assert_int_equal(races(made, 1, "-a", said, sizeof said), TOOL_FAILED);
    says(said, "no race is known in this run: 1 receive or probe from any source, 2 times\n");
    says(said, "not decided: 1 pair of messages that are too far apart; each may be a race\n");
    assert_int_equal(races(made, 2, "-a", said, sizeof said), RACES_FOUND);
    says(said, "not decided: 1 pair");
}

/* Whatever else is wrong. */
static void test_no_memory(UNUSED void **state)
{
    static const struct sent same[] = {{1, 4, 0}, {2, 4, 0}};
    static const struct made_up made[] = {
        {.sent = same, .count = 2, .problem = "a record is missing"},
        {.sent = same, .count = 2, .err = -ENOMEM}};
    char said[4096];

    assert_int_equal(races(made, 2, "-a", said, sizeof said), TOOL_FAILED);
    says(said, "not complete: a record is missing\nnot complete: no memory\n");
    assert_int_equal(races(made, 2, "-j", said, sizeof said), TOOL_FAILED);
    says(said, "\"a record is missing\"");
    says(said, "\"no memory\"");
}

/* Each allocation fails once. */
static void test_each_allocation(UNUSED void **state)
{
    static const struct made_up made[] = {{.sent = first, .count = 2, .is_any_tag = true}};
    uint64_t live = mem_live();

    folders = made;
    for (uint64_t n = 1;; n++) {
        struct races_groups groups = {.site_count = 0};
        struct races_run run;
        int err;

        assert_int_equal(races_read(&run, "0"), 0);
        mem_fail_at(n);
        err = races_add(&groups, &run, 0);
        if (mem_fail_left() != 0)
            n = UINT64_MAX;
        mem_fail_at(0);
        assert_int_equal(err, n == UINT64_MAX ? 0 : -ENOMEM);
        races_finish(&groups);
        races_groups_free(&groups);
        races_run_free(&run);
        assert_int_equal(mem_live(), live);
        if (n == UINT64_MAX)
            return;
    }
}

/* ---- the order of the report ---- */

/* Both receives have groups that come first, with two different sends, and groups that come last. */
static void test_groups_of_a_receive(UNUSED void **state)
{
    static const struct sent sent[] = {{1, 4, 11}, {2, 4, 12}, {1, 4, 13}, {2, 4, 13},
                                       {1, 5, 11}, {2, 5, 12}, {1, 5, 13}, {2, 5, 13}};
    static const struct made_up made[] = {{.sent = sent, .count = 8}};
    char said[8192], *second;

    assert_int_equal(races(made, 1, "-a", said, sizeof said), RACES_FOUND);
    second = strstr(said, "receive (MPI_Irecv from any source, tag 5");
    assert_non_null(second);
    says(second, "first at event 5");
    says(second, "(both: MPI_Send at work.c:13)");
    second[0] = '\0';
    says(said, "receive (MPI_Irecv from any source, tag 4");
    says(said, "first at event 1");
    says(said, "(both: MPI_Send at work.c:13)");
    assert_int_equal(races(made, 1, "-j", said, sizeof said), RACES_FOUND);
    second = strstr(said, "tag 5");
    assert_non_null(second);
    says(second, "\"event\": 5,");
    says_not(second, "\"event\": 3,");
}

/* ---- many tags ---- */

#define TAGS 2048

static uint64_t comparisons;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
    comparisons++;
    return __real_strcmp(a, b);
}

/* Groups of a site are together, and each site knows its own. */
static void groups_are_together(const struct races_groups *g)
{
    size_t count = 0;

    for (uint32_t i = 0; i < g->site_count; i++) {
        const struct races_site *site = &g->sites[i];

        for (size_t k = 0; k < site->group_count; k++)
            assert_int_equal(g->groups[site->first_group + k].site, i);
        count += site->group_count;
    }
    assert_int_equal(count, g->group_count);
}

/* Each tag is a group: texts are compared so often as a sort does it, and not each with each. */
static void check_many(bool is_any_tag, size_t sites)
{
    static struct sent sent[2 * TAGS];
    struct made_up made = {.sent = sent, .count = 2 * TAGS, .is_any_tag = is_any_tag};
    struct races_groups groups = {.site_count = 0};
    struct races_run run;

    for (uint32_t i = 0; i < 2 * TAGS; i++)
        sent[i] = (struct sent){1 + i % 2, i / 2, 0};
    folders = &made;
    assert_int_equal(races_read(&run, "0"), 0);
    comparisons = 0;
    assert_int_equal(races_add(&groups, &run, 0), 0);
    races_finish(&groups);
    assert_int_equal(groups.site_count, sites);
    assert_true(groups.group_count >= TAGS);
    assert_true(comparisons > 0);
    assert_true(comparisons / groups.group_count <= 100);
    groups_are_together(&groups);
    races_groups_free(&groups);
    races_run_free(&run);
}

static void test_many_tags(UNUSED void **state)
{
    check_many(true, 1);
    check_many(false, TAGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_tag),       cmocka_unit_test(test_both_orders),
        cmocka_unit_test(test_undecided),       cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_each_allocation), cmocka_unit_test(test_groups_of_a_receive),
        cmocka_unit_test(test_many_tags)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
