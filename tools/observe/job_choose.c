/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_choose.c - finds the job that an option --job names.
 *
 * A number of 16 digits is the number of a job.  Any other text is compared with the observed jobs: the number of a job, a process,
 * a program.  A text that fits several jobs selects none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "job_name.h"
#include "observe.h"
#include "tools/common/tool.h"

#define PIDS_MAX 4 /* pids named for a job */

static void say_job(const struct inspect_job *job)
{
    char words[JOB_WORDS];
    uint32_t ranks = observed_ranks(job), said = 0;

    fprintf(stderr, "  job %016" PRIx64 " (%s): %" PRIu32 " rank%s, pid",
            job->ranks[0].head.job, job_words(job, words), ranks, ranks == 1 ? "" : "s");
    for (uint32_t i = 0; i < job->count && said <= PIDS_MAX; i++) {
        if (observed_is_other(job, i))
            continue;
        if (said++ == PIDS_MAX)
            fputs(" ...", stderr);
        else
            fprintf(stderr, " %" PRIu32, job->ranks[i].head.pid);
    }
    fputc('\n', stderr);
}

/* The only job that it means; INSPECT_NOBODY: none, or several. */
static uint32_t find_job(const struct observed *observed, const char *called, uint32_t *count)
{
    uint32_t found = INSPECT_NOBODY;

    *count = 0;
    for (uint32_t i = 0; i < observed->count; i++) {
        if (observed->jobs[i].ranks[0].head.job == job_number(called)) {
            *count = 1;
            return i;
        }
        if (!job_is_called(&observed->jobs[i], called))
            continue;
        found = i;
        ++*count;
    }
    return *count == 1 ? found : INSPECT_NOBODY;
}

int observed_choose(const struct tool *tool, struct observe_options *options,
                    struct observed *observed)
{
    const char *where = observed->host_count != 0
                            ? "of this user on the hosts that have answered"
                        : observed->count != 0 && observed->jobs[0].ranks[0].how == INSPECT_CORE
                            ? "in the core files"
                            : "of this user on this host";
    uint32_t count, found;

    if (options->called == NULL)
        return 0;
    found = find_job(observed, options->called, &count);
    if (found != INSPECT_NOBODY) {
        options->job = observed->jobs[found].ranks[0].head.job;
        options->called = NULL;
        observed_keep(observed, options->job);
        return 0;
    }
    if (count == 0)
        tool_error(tool, "no job %s has the number, the program or a process '%s'%s", where,
                   options->called, observed->count != 0 ? "; there are:" : "");
    else
        tool_error(tool,
                   "--job %s may be any of these; say the number, or a pid:", options->called);
    for (uint32_t i = 0; i < observed->count; i++)
        if (count == 0 || job_is_called(&observed->jobs[i], options->called))
            say_job(&observed->jobs[i]);
    return count == 0 ? TOOL_FAILED : TOOL_USAGE;
}

int observe_choose(const struct tool *tool, struct observe_options *options)
{
    struct observed seen;
    int err, status = TOOL_FAILED;

    if (options->called == NULL)
        return 0;
    err = observe_find(options, &seen);
    if (err != 0)
        tool_error(tool, "cannot look at the processes of this host: %s", strerror(-err));
    else
        status = observed_choose(tool, options, &seen);
    observe_free(&seen);
    return status;
}

void observe_take_job(struct observe_options *options, const char *text)
{
    bool is_number = strlen(text) == 16 && job_number(text) != 0;

    options->job = is_number ? job_number(text) : 0;
    options->called = is_number ? NULL : text;
}
