/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues_json.c - see queues.h.
 */
#include "queues.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "inspect/text.h"
#include "tools/common/escape.h"
#include "tools/observe/diagnose.h"
#include "tools/observe/job_name.h"
#include "tools/observe/words.h"

static const char *how_name(enum inspect_how how)
{
    static const char *const names[] = {[INSPECT_ASKED] = "asked",
                                        [INSPECT_READ] = "read",
                                        [INSPECT_MOVING] = "moving",
                                        [INSPECT_CORE] = "core",
                                        [INSPECT_FAILED] = "failed"};

    return names[how];
}

/* Prints text up to the end of its line. */
static void put_text(FILE *out, const char *text)
{
    static char line[INSPECT_TEXT_SIZE + 1]; /* maximum length in a page */

    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    escape_put_string(out, ESCAPE_JSON, line);
}

static void put_field(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":", name);
    put_text(out, text);
}

/* Prints an array of lines; NULL: an empty one. */
static void put_lines(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":[", name);
    for (bool is_first = true; text != NULL && *text != '\0'; is_first = false) {
        if (!is_first)
            putc(',', out);
        put_text(out, text);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    putc(']', out);
}

/* null if it is unknown. */
static void put_number(FILE *out, const char *name, uint32_t number)
{
    if (number == INSPECT_NOBODY)
        fprintf(out, "\"%s\":null", name);
    else
        fprintf(out, "\"%s\":%" PRIu32, name, number);
}

static const char *truth(bool is_true)
{
    return is_true ? "true" : "false";
}

static void put_entry(FILE *out, const struct inspect_job *job, uint32_t at,
                      const struct inspect_entry *entry)
{
    uint32_t whose = inspect_whose(job, at, entry);
    uint32_t thread = inspect_waiting_thread(&job->ranks[at], entry);
    char words[WORDS_MAX];

    fprintf(out, "{\"kind\":\"%s\",", inspect_kind_name(entry->kind));
    put_number(out, "peer", entry->peer == INSPECT_SOMEBODY ? INSPECT_NOBODY : entry->peer);
    putc(',', out);
    put_number(out, "rank",
               whose != INSPECT_NOBODY ? job->ranks[whose].head.rank : INSPECT_NOBODY);
    fprintf(out,
            ",\"address\":\"%016" PRIx64 "\",\"any_source\":%s,\"context\":%" PRIu32
            ",\"tag\":%" PRIu64 ",\"ignore\":%" PRIu64 ",\"size\":%" PRIu64
            ",\"synchronous\":%s,\"deferred\":%s,\"internal\":%s,\"rts\":%s,\"id\":%" PRIu64
            ",\"age\":%" PRIu64 ",\"count\":%" PRIu32 ",\"needs\":%u,",
            entry->whom, truth(entry->peer == INSPECT_NOBODY), entry->context_id, entry->tag,
            entry->ignore, entry->size, truth(entry->flags & INSPECT_ENTRY_SYNC),
            truth(entry->flags & INSPECT_ENTRY_DEFERRED),
            truth(entry->flags & INSPECT_ENTRY_INTERNAL),
            truth(entry->flags & INSPECT_ENTRY_RTS), entry->id, entry->age,
            entry->kind == INSPECT_PROBE ? entry->count : 0,
            inspect_waiter(entry) == 0 ? entry->needs : 0);
    if (thread != 0)
        fprintf(out, "\"thread\":%" PRIu32 ",", thread);
    put_number(out, "waited_ms",
               entry->kind == INSPECT_PROBE ? INSPECT_NOBODY : entry->waited_ms);
    putc(',', out);
    put_field(out, "words", words_of_entry(job, at, entry, words));
    putc('}', out);
}

/* How long nothing has happened, in 32 bits: at most 49 days; null if it is unknown. */
static void put_still(FILE *out, const struct inspect_rank *rank)
{
    const struct inspect_state *state = &rank->state;
    uint64_t ms = INSPECT_NOBODY;

    if (state->still_ns != 0 && state->still_ns <= state->now_ns)
        ms = min_size((state->now_ns - state->still_ns) / CLOCK_MS, INSPECT_NOBODY - 1);
    put_number(out, "still_ms", (uint32_t)ms);
}

/* Facts that only the rank's own host knows. */
static void put_details(FILE *out, const struct inspect_rank *rank)
{
    char words[OUTSIDE_MAX];
    const char *text = rank->state.call[0] != '\0' ? outside_line(rank, words) : NULL;

    putc(',', out);
    put_field(out, "line", text != NULL ? text : "");
    putc(',', out);
    text = outside_words(rank, words);
    put_field(out, "does", text != NULL ? text : "");
    putc(',', out);
    put_field(out, "apart",
              diagnose_fallbacks(rank) != 0 ? outside_no_attach(rank, words) : "");
}

/* The identity of a rank: its user, host, job and process. */
static void put_head(FILE *out, const struct inspect_rank *rank, const char *host)
{
    const struct inspect_head *head = &rank->head;

    put_number(out, "rank", head->rank);
    putc(',', out);
    put_number(out, "ranks", head->ranks);
    putc(',', out);
    put_field(out, "host",
              rank->reported != NULL      ? rank->reported->host
              : rank->how == INSPECT_CORE ? ""
                                          : host);
    fprintf(out,
            ",\"pid\":%" PRIu32 ",\"address\":\"%016" PRIx64 "\",\"endpoint\":%" PRIu64
            ",\"opened_ns\":%" PRIu64 ",",
            head->pid, head->address, head->ep, head->open_ns);
    put_field(out, "library", head->library);
    putc(',', out);
    put_field(out, "mpi", head->mpi);
    putc(',', out);
    put_field(out, "program", rank->program);
    fprintf(out, ",\"started\":%" PRIu32, rank->started);
}

static bool has_called(const struct inspect_state *state, uint32_t id)
{
    for (uint32_t i = 0; i < state->callers && i < INSPECT_CALLERS; i++)
        if (state->caller_ids[i] == id)
            return true;
    return false;
}

/* The threads of a rank that may have several, for a doctor on another host. */
static void put_tasks(FILE *out, const struct inspect_rank *rank)
{
    fprintf(out, ",\"answerer\":%" PRIu32 ",\"callers\":%" PRIu32 ",\"tasks\":[",
            rank->state.answerer, rank->state.callers);
    for (uint32_t i = 0; i < rank->task_count; i++) {
        const struct inspect_task *task = &rank->tasks[i];

        fprintf(out,
                "%s{\"id\":%" PRIu32 ",\"called\":%s,\"kind\":%u,\"started\":%" PRIu64
                ",\"ran_ns\":%" PRIu64 ",\"word\":%" PRIu64 ",",
                i > 0 ? "," : "", task->id, truth(has_called(&rank->state, task->id)),
                (unsigned)task->kind, task->started, task->ran_ns, task->word);
        put_field(out, "does", task->does);
        putc('}', out);
    }
    putc(']', out);
}

static void put_rank(FILE *out, const struct inspect_job *job, uint32_t at, const char *host,
                     const struct queues_json *wanted)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char run[2] = {rank->run, '\0'};

    putc('{', out);
    put_head(out, rank, host);
    fprintf(out, ",\"seen\":\"%s\",", how_name(rank->how));
    put_field(out, "state", run);
    putc(',', out);
    put_field(out, "call", rank->state.call);
    fprintf(out, ",\"other\":%s", truth(observed_is_other(job, at)));
    fprintf(out, ",\"caller\":%" PRIu64 ",\"threads\":%s,", rank->state.caller,
            truth(rank->state.flags & INSPECT_STATE_THREADS));
    put_still(out, rank);
    fprintf(out,
            ",\"arrived\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64
            ",\"cancelled\":%" PRIu64 ",\"counts\":{",
            rank->state.pulse.arrived, rank->state.pulse.sent, rank->state.pulse.received,
            rank->state.pulse.cancelled);
    for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
        fprintf(out, "%s\"%s\":%" PRIu32, kind > 1 ? "," : "", inspect_kind_name(kind),
                rank->state.counts[kind]);
    fprintf(out, "},\"entries\":[");
    for (uint32_t i = 0; i < rank->count && i < wanted->entries; i++) {
        if (i > 0)
            putc(',', out);
        put_entry(out, job, at, &rank->entries[i]);
    }
    fputs("],", out);
    put_lines(out, "names", inspect_text_names(rank->text));
    if (wanted->stats && rank->text != NULL && rank->text[0] != '\n') {
        putc(',', out);
        put_field(out, "statistics", rank->text);
    }
    if (rank->task_count != 0)
        put_tasks(out, rank);
    if (wanted->details)
        put_details(out, rank);
    putc('}', out);
}

static void put_host(FILE *out, const struct observed_host *host, bool details)
{
    putc('{', out);
    put_field(out, "host", host->name);
    fprintf(out, ",\"id\":\"%016" PRIx64 "\",\"answered\":%s,", host->id,
            truth(host->has_answered));
    put_field(out, "matchbox", host->library);
    fprintf(out, ",\"cores\":%" PRIu32 ",\"refused\":%" PRIu32 ",", host->cores, host->refused);
    put_field(out, "why", host->why);
    if (details) {
        putc(',', out);
        put_lines(out, "others", host->others);
    }
    putc('}', out);
}

/* Describes this host for other hosts. */
static void describe_here(const struct observed *observed, bool details,
                          struct observed_host *here)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t size;
    FILE *out;

    here->has_answered = true;
    here->cores = cores > 0 ? (uint32_t)cores : 0;
    here->refused = observed->refused;
    if (host_id(&here->id) != 0)
        here->id = 0;
    snprintf(here->library, sizeof here->library, "%s", mbx_version());
    snprintf(here->why, sizeof here->why, "%s", observed->why);
    out = details ? open_memstream(&here->others, &size) : NULL;
    if (out != NULL) {
        outside_say_others(out);
        fclose(out);
    }
}

void queues_json(FILE *out, const struct observed *observed, const struct queues_json *wanted)
{
    struct observed_host here = {.others = NULL};
    const struct observed_host *hosts = observed->hosts;
    uint32_t host_count = observed->host_count;

    if (gethostname(here.name, sizeof here.name) != 0)
        here.name[0] = '\0';
    here.name[sizeof here.name - 1] = '\0';
    if (host_count == 0) {
        describe_here(observed, wanted->details, &here);
        hosts = &here;
        host_count = 1;
    }
    fprintf(out, "{\"format\":%u,", QUEUES_FORMAT);
    put_field(out, "matchbox", mbx_version());
    putc(',', out);
    put_field(out, "host", here.name);
    fprintf(out, ",\"hosts\":[");
    for (uint32_t i = 0; i < host_count; i++) {
        if (i > 0)
            putc(',', out);
        put_host(out, &hosts[i], wanted->details);
    }
    fprintf(out, "],\"jobs\":[");
    for (uint32_t j = 0; j < observed->count; j++) {
        const struct inspect_job *job = &observed->jobs[j];
        char words[JOB_WORDS];

        fprintf(out, "%s{\"job\":\"%016" PRIx64 "\",", j > 0 ? "," : "",
                job->ranks[0].head.job);
        put_field(out, "mpi", job->ranks[0].head.mpi);
        putc(',', out);
        put_field(out, "program", job_program(job, words));
        fprintf(out, ",\"started\":%" PRIu32 ",", job_started(job));
        put_number(out, "size", job->size);
        fprintf(out, ",\"ranks\":[");
        for (uint32_t i = 0; i < job->count; i++) {
            if (i > 0)
                putc(',', out);
            put_rank(out, job, i, here.name, wanted);
        }
        fprintf(out, "]}");
    }
    fprintf(out, "]}\n");
    free(here.others);
}
