/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * looks.c - see looks.h.
 */
#include "looks.h"

#include "base/mem.h"
#include "inspect/polls.h"

struct inspect_job looks_ranks(const struct observed *observed)
{
    struct inspect_job all = {.count = 0, .size = INSPECT_NOBODY};

    for (uint32_t i = 0; i < observed->count; i++)
        all.count += observed->jobs[i].count;
    if (observed->count != 0)
        all.ranks = observed->jobs[0].ranks;
    return all;
}

/* Do the ranks of a job of the last look only wait and poll, by these looks? */
static bool only_poll(const struct looks *looks, const struct inspect_job *job,
                      enum inspect_node *nodes)
{
    struct inspect_job before[LOOKS];

    for (uint32_t i = 0; i + 1 < looks->count; i++)
        before[i] = looks_ranks(&looks->all[i]);
    return inspect_only_polls(before, looks->count - 1, job, looks->quiet_ns, nodes);
}

static enum diagnose_verdict judge_pair(const struct looks *looks,
                                        const struct inspect_job *job, enum inspect_node *nodes)
{
    const struct inspect_job before = looks_ranks(&looks->all[looks->count - 2]);

    return diagnose_judge(&before, job, nodes);
}

enum diagnose_verdict looks_judge(const struct looks *looks, const struct inspect_job *job,
                                  enum inspect_node *nodes)
{
    enum diagnose_verdict verdict = judge_pair(looks, job, nodes);

    if (verdict != DIAGNOSE_NONE || looks->count < LOOKS)
        return verdict;
    return only_poll(looks, job, nodes) ? DIAGNOSE_IF_POLLS : judge_pair(looks, job, nodes);
}

/* Does a job need another look? */
static bool is_open(const struct looks *looks)
{
    const struct observed *now = &looks->all[looks->count - 1];
    bool is_open = false;

    for (uint32_t i = 0; i < now->count && !is_open; i++) {
        enum inspect_node *nodes = mem_calloc(now->jobs[i].count, sizeof *nodes);

        is_open = nodes != NULL && judge_pair(looks, &now->jobs[i], nodes) == DIAGNOSE_NONE &&
                  only_poll(looks, &now->jobs[i], nodes);
        mem_free(nodes);
    }
    return is_open;
}

int looks_go_on(struct looks *looks, const struct looks_ways *ways)
{
    int err = 0;

    while (err == 0 && looks->count < LOOKS && is_open(looks)) {
        err = ways->rest(ways->arg, LOOKS_EACH_NS);
        if (err == 0)
            err = ways->look(ways->arg, &looks->all[looks->count++]);
    }
    return err;
}

void looks_free(struct looks *looks)
{
    for (uint32_t i = 0; i < looks->count; i++)
        observe_free(&looks->all[i]);
    looks->count = 0;
}
