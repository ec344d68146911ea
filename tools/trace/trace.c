/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c - `mbx trace`: what MBX_TRACE has recorded, as text.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/mem.h"
#include "replay.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"
#include "trace/trace.h"
#include "trace_flight.h"
#include "trace_job.h"
#include "trace_otf2.h"
#include "trace_words.h"

static const char usage[] =
    "usage: mbx trace [--summary | --html PAGE | --chart KIND | --perfetto OUT |\n"
    "                  --otf2 FOLDER] FILE...\n"
    "       mbx trace [...] --flight [PROCESS...]\n"
    "\n"
    "Examples:\n"
    "  mkdir traces; MBX_TRACE=traces mbx exec mpiexec -n 4 ./program\n"
    "  mbx trace --html job.html traces/*.trace\n"
    "  mbx trace --summary traces/*.trace\n"
    "\n"
    "Prints what an endpoint has sent, received and matched, and when it waited.\n"
    "MBX_TRACE=FOLDER writes a file for each endpoint: FOLDER/matchbox-HOST-PID-N.trace.\n"
    "Give the files of all ranks to see which rank waited for which other rank.\n"
    "\n"
    "  --summary      totals in place of events: counts, longest queues, masks, and the\n"
    "                 length of a search through a plain list.  Each table has a line per\n"
    "                 rank.  Also shows which rank waited for which\n"
    "  --html PAGE    writes a page of the job for a browser: a timeline with messages\n"
    "                 and waits, queue depths, tables.  The page needs no other file and\n"
    "                 no network\n"
    "  --chart KIND   prints the first messages as a sequence chart: svg, or mermaid\n"
    "                 (text that many web sites draw)\n"
    "  --messages N   for --chart: how many messages (default: 20)\n"
    "  --perfetto OUT  writes a trace for ui.perfetto.dev: ranks are processes, messages\n"
    "                 are flows\n"
    "  --otf2 FOLDER  writes an OTF2 trace into this new folder, for Vampir and Scalasca\n"
    "  --flight       in place of files, reads the last events of the processes named, or\n"
    "                 of all processes of this user on this host; they must run with\n"
    "                 MBX_FLIGHT=N\n"
    "  -h, --help     this text\n"
    "\n"
    "A FILE may also be a core file.  If the process ran with MBX_FLIGHT, the core file\n"
    "has its last events.\n"
    "\n"
    "Each event is one line: microseconds since the recording began, kind of event,\n"
    "context id, source (* is any), tag, ignored bits, and the matching entry.  Receives\n"
    "are r1, r2 and so on, and messages m1, m2.  All numbers except source and context id\n"
    "are hexadecimal.  For a known MPI library, the line shows MPI's communicator, rank\n"
    "and tag.\n"
    "\n"
    "mbx also replays each trace through a plain list.  Exit status: 1 if a file cannot\n"
    "be read to its end, or a match contradicts MPI's order.\n";

#define RANK_TEXT_MAX 24

static const struct option options[] = {{"summary", no_argument, NULL, 's'},
                                        {"html", required_argument, NULL, 'p'},
                                        {"chart", required_argument, NULL, 'c'},
                                        {"messages", required_argument, NULL, 'm'},
                                        {"perfetto", required_argument, NULL, 'f'},
                                        {"flight", no_argument, NULL, 'F'},
                                        {"otf2", required_argument, NULL, 'o'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* One file: its header and what became of it. */
struct traced {
    struct trace_info info;
    struct replay replay;
    struct trace_words words;
    bool is_flight; /* the last events alone: they cannot be replayed, and are in no table */
};

/* ---- events ---- */

/* The rank; or process and endpoint, where nobody said which rank this was. */
static const char *rank_text(const struct trace_info *info, char *text, size_t size)
{
    if (info->rank != TRACE_RANK_UNKNOWN)
        snprintf(text, size, "%" PRIu32, info->rank);
    else
        snprintf(text, size, "%" PRIu32 "-%" PRIu32, info->pid, info->endpoint);
    return text;
}

static const char *protocol_text(const struct trace_event *e)
{
    const char *name = mbx_protocol_name((enum mbx_protocol)((e->amount & 0xff) - 1));

    return name != NULL ? name : "unknown protocol";
}

static void print_error(uint64_t error)
{
    if (error != 0)
        printf(", %s", error < 4096 ? mbx_strerror(-(int)error) : "unknown error");
}

/* "r1f" for whom the event is about, and what came of it. */
static void print_outcome(const struct trace_event *e)
{
    switch (e->type) {
    case TRACE_POST:
        printf(e->partner != 0 ? "r%" PRIx64 " takes m%" PRIx64 : "r%" PRIx64 " waits",
               e->entry, e->partner);
        break;
    case TRACE_ARRIVE:
        if (e->partner != 0)
            printf("meets r%" PRIx64, e->partner);
        else
            printf("m%" PRIx64 " waits", e->entry);
        break;
    case TRACE_CANCEL:
        printf("r%" PRIx64, e->entry);
        break;
    case TRACE_PEEK:
        if (e->partner != 0)
            printf("sees m%" PRIx64, e->partner);
        else
            printf("sees nothing");
        break;
    case TRACE_CLAIM:
    case TRACE_DISCARD:
    case TRACE_DROP:
        printf("m%" PRIx64, e->entry);
        break;
    case TRACE_TAKE:
        printf("m%" PRIx64 " goes to r%" PRIx64, e->entry, e->partner);
        break;
    case TRACE_DEFER:
        printf("epoch %" PRIu64, e->entry);
        break;
    case TRACE_RTR:
        printf("r%" PRIx64 " in epoch %" PRIu64, e->entry, e->partner);
        break;
    case TRACE_MATCH:
    case TRACE_LOCK:
    case TRACE_LOST:
    case TRACE_WRITE:
        printf("s%" PRIx64 " for r%" PRIx64, e->entry, e->partner);
        break;
    case TRACE_PUBLISH:
        printf("epoch %" PRIu64 " with %" PRIu64, e->entry, e->partner);
        break;
    case TRACE_PULL:
        printf("r%" PRIx64 " takes s%" PRIx64, e->entry, e->partner);
        break;
    case TRACE_GRANT:
    case TRACE_PULLED:
        printf("s%" PRIx64, e->entry);
        break;
    case TRACE_VOID:
        printf("r%" PRIx64, e->partner);
        break;
    case TRACE_ADVERTISE:
    case TRACE_RETIRE:
        printf("r%" PRIx64, e->entry);
        break;
    case TRACE_SEND:
        printf("%" PRIu64 " bytes, message %" PRIu64, e->amount, e->entry);
        break;
    case TRACE_LEAVE:
        printf("message %" PRIu64 " is s%" PRIx64 ", %s", e->entry, e->partner,
               protocol_text(e));
        break;
    case TRACE_SENT:
        if (e->entry != 0)
            printf("s%" PRIx64 ", %s", e->entry, protocol_text(e));
        else
            printf("message %" PRIu64 ", %s", e->partner, protocol_text(e));
        print_error(e->amount >> 8);
        break;
    case TRACE_RECEIVED:
        printf("r%" PRIx64 " %" PRIu64 " bytes", e->entry, e->amount);
        print_error(e->partner);
        break;
    case TRACE_RTS:
    case TRACE_DATA:
        printf("s%" PRIx64 " %" PRIu64 " bytes", e->entry, e->amount);
        break;
    case TRACE_CTS:
    case TRACE_READ:
    case TRACE_SHARE:
        printf("r%" PRIx64 " %" PRIu64 " bytes", e->entry, e->amount);
        break;
    case TRACE_AT:
        printf(e->partner == TRACE_AT_COMES  ? "the program comes to place %" PRIu64
               : e->partner == TRACE_AT_CALL ? "it was called at place %" PRIu64
                                             : "it waits at place %" PRIu64,
               e->entry);
        break;
    case TRACE_EVENT:
        printf(e->partner != 0 ? "event %" PRIu64 " of the record: r%" PRIx64
                               : "event %" PRIu64 " of the record",
               e->entry, e->partner);
        break;
    case TRACE_REPORTED:
        printf("%" PRIx64, e->entry);
        break;
    case TRACE_FIN:
    case TRACE_HAND:
        printf("r%" PRIx64, e->entry);
        break;
    case TRACE_WAIT:
        printf("since %.3f us", (double)e->amount / 1e3);
        break;
    case TRACE_WAITED:
        printf("%.3f us, until %.3f us ago", (double)e->amount / 1e3, (double)e->partner / 1e3);
        break;
    case TRACE_CLOCK:
    case TRACE_CLOSE:
    case TRACE_PROGRAM:
    case TRACE_CONTEXT:
    case TRACE_PEER:
    case TRACE_PLACE:
    case TRACE_TYPES:
        break;
    }
}

/* A place, once its text is whole. */
static void print_place(const struct trace_event *e)
{
    static char text[2048];

    if (trace_text_add(text, sizeof text, e))
        printf("place %" PRIu32 ": %s\n", e->context_id, text);
}

static void print_event(const struct trace_words *words, const struct trace_event *e,
                        uint64_t ns)
{
    char envelope[TRACE_ENVELOPE_TEXT];

    if (e->type == TRACE_PLACE)
        print_place(e);
    if (trace_is_name(e->type) || e->type == TRACE_CLOCK)
        return;
    printf("%9" PRIu64 ".%03u %s", ns / 1000, (unsigned)(ns % 1000), trace_type_name(e->type));
    if (e->type == TRACE_CLOSE) {
        putchar('\n');
        return;
    }
    if (!trace_has_envelope(e->type)) {
        printf("%*s ", (int)(sizeof "received" - 1 - strlen(trace_type_name(e->type))), "");
        print_outcome(e);
    } else {
        printf("%*s %s ", (int)(sizeof "received" - 1 - strlen(trace_type_name(e->type))), "",
               trace_words_envelope(words, e, envelope));
        print_outcome(e);
    }
    putchar('\n');
}

static void print_title(const char *path, const struct trace_reader *reader)
{
    const struct trace_info *info = &reader->info;
    bool is_copy = strncmp(path, "/proc/self/", strlen("/proc/self/")) == 0;

    printf("%s: process %" PRIu32 ", endpoint %" PRIu32, is_copy ? "core file" : path,
           info->pid, info->endpoint);
    if (info->rank != TRACE_RANK_UNKNOWN)
        printf(", rank %" PRIu32, info->rank);
    if (trace_is_flight(reader))
        printf(": the last %" PRIu64 " of %" PRIu64 " records", reader->count - reader->number,
               reader->count);
    putchar('\n');
}

/* ---- reading one file ---- */

/* Reads to the end, or to where it goes wrong; that is said.  TOOL_DONE or TOOL_FAILED. */
static int read_events(const struct tool *tool, struct trace_reader *reader,
                       struct traced *traced, bool list)
{
    struct replay *replay = &traced->replay;
    struct trace_event event;
    int result, err;

    while ((result = trace_next(reader, &event)) == 1) {
        err = trace_words_event(&traced->words, &event);
        replay->source_bits = inspect_mpi_source_bits(traced->words.layout);
        if (list && err == 0)
            print_event(&traced->words, &event, replay->ns + event.delta_ns);
        if (traced->is_flight)
            replay->ns += event.delta_ns;
        else if (err == 0)
            err = replay_event(replay, &event);
        if (err < 0) {
            tool_error(tool, "%s: %s", reader->path,
                       err == -ENOMEM ? "no memory" : replay->error);
            return TOOL_FAILED;
        }
    }
    if (result < 0)
        tool_error(tool, "%s", reader->error);
    if (replay->wrong != 0) {
        tool_error(tool, "%s: %" PRIu64 " answers break MPI's order; the first: %s",
                   reader->path, replay->wrong, replay->error);
        tool_error(tool, "this is a bug of Matchbox: please report it with this file");
    }
    return result < 0 || replay->wrong != 0 ? TOOL_FAILED : TOOL_DONE;
}

static int read_file(const struct tool *tool, const char *path, struct traced *traced,
                     bool list)
{
    static struct trace_reader reader;
    int status;

    if (trace_open(&reader, path) < 0) {
        tool_error(tool, "%s", reader.error);
        return TOOL_FAILED;
    }
    traced->info = reader.info;
    traced->is_flight = trace_is_flight(&reader);
    if (list || traced->is_flight)
        print_title(path, &reader);
    status = read_events(tool, &reader, traced, list);
    trace_close(&reader);
    return status;
}

/* ---- the summary ---- */

static double share(uint64_t part, uint64_t whole)
{
    return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void print_counts(const struct traced *files, size_t count, int width)
{
    printf("\n%*s %9s %9s %9s %9s %9s %9s %8s %8s %8s %8s %9s\n", width, "rank", "records",
           "seconds", "receives", "waited", "messages", "waited", "cancels", "probes", "found",
           "claims", "contexts");
    for (size_t i = 0; i < count; i++) {
        const struct replay *r = &files[i].replay;
        char rank[RANK_TEXT_MAX];

        if (r->records == 0)
            continue;
        printf("%*s %9" PRIu64 " %9.3f %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
               " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %9" PRIu64 "\n",
               width, rank_text(&files[i].info, rank, sizeof rank), r->records,
               (double)r->ns / 1e9, r->events[TRACE_POST], r->waited[TRACE_POST],
               r->events[TRACE_ARRIVE], r->waited[TRACE_ARRIVE], r->events[TRACE_CANCEL],
               r->events[TRACE_PEEK], r->found, r->events[TRACE_CLAIM], r->contexts);
    }
}

static void print_queues(const struct traced *files, size_t count, int width)
{
    printf("\n%*s %14s %18s %12s %8s %12s %12s\n", width, "rank", "longest posted",
           "longest unexpected", "any source %", "masks", "never met", "never taken");
    for (size_t i = 0; i < count; i++) {
        const struct replay *r = &files[i].replay;
        char rank[RANK_TEXT_MAX];

        if (r->records == 0)
            continue;
        printf("%*s %14" PRIu64 " %18" PRIu64 " %12.1f %8zu %12" PRIu64 " %12" PRIu64 "\n",
               width, rank_text(&files[i].info, rank, sizeof rank), r->posted_max,
               r->unexpected_max, share(r->any_source, r->events[TRACE_POST]), r->mask_count,
               r->left_recvs, r->left_msgs);
    }
}

static void print_walks(const struct traced *files, size_t count, int width)
{
    static const char *const names[REPLAY_SEARCHES] = {"message", "receive", "probe"};

    printf("\nentries that a plain list walks; in %% of all searches of the line\n"
           "%*s %-8s %9s %9s %9s %7s %7s %7s %7s %8s %7s\n",
           width, "rank", "by a", "searches", "mean", "most", "0", "1", "2-15", "16-255",
           "256-4095", "more");
    for (size_t i = 0; i < count; i++) {
        for (int s = 0; s < REPLAY_SEARCHES; s++) {
            const struct replay_walks *w = &files[i].replay.walks[s];
            char rank[RANK_TEXT_MAX];

            if (w->count == 0)
                continue;
            printf("%*s %-8s %9" PRIu64 " %9.2f %9" PRIu64, width,
                   rank_text(&files[i].info, rank, sizeof rank), names[s], w->count,
                   (double)w->steps / (double)w->count, w->max);
            for (int range = 0; range < REPLAY_RANGES; range++)
                printf(" %*.1f", range == 4 ? 8 : 7, share(w->ranges[range], w->count));
            putchar('\n');
        }
    }
}

/* Prints the communicators by the names that the program gave them, if its MPI is known. */
static void print_communicators(const struct traced *files, size_t count, int width)
{
    bool is_begun = false;

    for (size_t i = 0; i < count; i++) {
        const struct trace_words *words = &files[i].words;
        char rank[RANK_TEXT_MAX];

        for (size_t c = 0; words->layout != NULL && c < words->communicator_count; c++) {
            const struct trace_communicator *one = &words->communicators[c];
            char size[16] = "?";

            if (one->receives + one->messages == 0)
                continue;
            if (!is_begun)
                printf("\n%*s %6s %6s %9s %9s %9s %9s  %s\n", width, "rank", "number", "ranks",
                       "receives", "waited", "messages", "waited", "communicator");
            is_begun = true;
            if (one->size != 0)
                snprintf(size, sizeof size, "%" PRIu32, one->size);
            printf("%*s %6" PRIu32 " %6s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64
                   "  %s\n",
                   width, rank_text(&files[i].info, rank, sizeof rank), one->number, size,
                   one->receives, one->receives_waited, one->messages, one->messages_waited,
                   one->name[0] != '\0' ? one->name : "-");
        }
    }
}

static void print_masks(const struct traced *files, size_t count, int width)
{
    printf("\n%*s %-6s %16s %9s %7s\n", width, "rank", "source", "ignored bits", "receives",
           "%");
    for (size_t i = 0; i < count; i++) {
        const struct replay *r = &files[i].replay;
        char rank[RANK_TEXT_MAX], ignore[24];

        for (size_t m = 0; m < r->mask_count; m++)
            printf("%*s %-6s %16s %9" PRIu64 " %7.1f\n", width,
                   rank_text(&files[i].info, rank, sizeof rank),
                   r->masks[m].any_source ? "any" : "one",
                   trace_words_ignore(&files[i].words, r->masks[m].ignore, ignore),
                   r->masks[m].posts, share(r->masks[m].posts, r->events[TRACE_POST]));
    }
}

/* The width of the first column. */
static int rank_width(const struct traced *files, size_t count)
{
    size_t width = sizeof "rank" - 1;
    char rank[RANK_TEXT_MAX];

    for (size_t i = 0; i < count; i++)
        if (files[i].replay.records != 0)
            width = max_size(width, strlen(rank_text(&files[i].info, rank, sizeof rank)));
    return (int)width;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct traced *x = a, *y = b;

    return trace_compare_ranks(&x->info, &y->info);
}

static void print_summary(struct traced *files, size_t count)
{
    int width = rank_width(files, count);
    size_t whole = 0;

    for (size_t i = 0; i < count; i++)
        whole += !files[i].is_flight;
    if (whole == 0)
        return; /* of the last events alone there is no table */
    qsort(files, count, sizeof *files, compare_ranks);
    print_counts(files, count, width);
    print_queues(files, count, width);
    print_walks(files, count, width);
    print_masks(files, count, width);
    print_communicators(files, count, width);
}

/* ---- the command ---- */

/* The headers of all files: which rank each process is. */
static void read_ranks(char **paths, struct traced *files, const struct trace_info **infos,
                       size_t count)
{
    static struct trace_reader reader;

    for (size_t i = 0; i < count; i++) {
        infos[i] = NULL;
        if (trace_open(&reader, paths[i]) < 0)
            continue; /* it is said when it is read */
        files[i].info = reader.info;
        infos[i] = &files[i].info;
        trace_close(&reader);
    }
}

static int read_files(const struct tool *tool, char **paths, size_t count, bool summary)
{
    struct traced *files = mem_calloc(count, sizeof *files);
    const struct trace_info **infos = mem_calloc(count, sizeof *infos);
    const struct trace_ranks ranks = {.files = infos, .count = count};
    int status = TOOL_DONE;
    size_t ready = 0;

    for (; files != NULL && infos != NULL && ready < count; ready++) {
        replay_init(&files[ready].replay);
        trace_words_init(&files[ready].words, &ranks);
    }
    if (ready < count) {
        tool_error(tool, "no memory for %zu files", count);
        status = TOOL_FAILED;
    } else {
        read_ranks(paths, files, infos, count);
        for (size_t i = 0; i < count; i++)
            if (read_file(tool, paths[i], &files[i], !summary) != TOOL_DONE)
                status = TOOL_FAILED;
        if (summary)
            print_summary(files, count);
    }
    while (ready > 0) {
        trace_words_fini(&files[--ready].words);
        replay_fini(&files[ready].replay);
    }
    mem_free(infos);
    mem_free(files);
    return status;
}

/* ---- all files side by side ---- */

/* The job of these files; what is not whole is said, if it is not said elsewhere.  TOOL_DONE; TOOL_FAILED,
 * and there is no job if it is not even read. */
static int read_job(const struct tool *tool, char **paths, size_t count, struct job *job,
                    bool is_shown)
{
    int status = TOOL_DONE;

    if (job_read(job, paths, count) < 0) {
        tool_error(tool, "no memory for %zu files", count);
        return TOOL_FAILED;
    }
    for (size_t i = 0; i < count && is_shown; i++) {
        if (job->ranks[i].error[0] == '\0')
            continue;
        tool_error(tool, "%s", job->ranks[i].error);
        status = TOOL_FAILED;
    }
    return status;
}

static int print_waits(const struct tool *tool, char **paths, size_t count)
{
    struct job job;
    int status = read_job(tool, paths, count, &job, false);

    if (job.rank_count != 0)
        job_print_waits(&job);
    job_free(&job);
    return status;
}

/* Is that a trace?  `mbx trace --html *.trace` would write its page over the first of them. */
static bool is_trace(const char *path)
{
    static struct trace_reader reader;
    struct stat there; /* who opens a pipe waits for its other end */
    bool is_one =
        stat(path, &there) == 0 && S_ISREG(there.st_mode) && trace_open(&reader, path) == 0;

    if (is_one)
        trace_close(&reader);
    return is_one;
}

/* Writes the job of these files to one file. */
static int write_job(const struct tool *tool, char **paths, size_t count, const char *page,
                     int (*write)(const struct job *job, const char *path))
{
    struct job job;
    int status = read_job(tool, paths, count, &job, true);
    size_t read = 0;
    int err = 0;

    for (size_t i = 0; i < job.rank_count; i++)
        read += job.ranks[i].is_read;
    if (read != 0)
        err = write(&job, page);
    job_free(&job);
    if (err == 0)
        return status;
    tool_error(tool, "%s: cannot be written: %s", page, strerrordesc_np(-err));
    return TOOL_FAILED;
}

static int print_chart(const struct tool *tool, char **paths, size_t count, const char *kind,
                       uint64_t messages)
{
    struct job job;
    int status = read_job(tool, paths, count, &job, true), err = 0;

    if (job.rank_count != 0)
        err = job_print_chart(&job, strcmp(kind, "svg") == 0, (size_t)messages);
    if (err < 0) {
        tool_error(tool, err == -ENOENT ? "no message is in the traces of both its ranks: "
                                          "give the traces of all ranks"
                                        : "no memory for a chart");
        status = TOOL_FAILED;
    }
    job_free(&job);
    return status;
}

/* The output that the user wants. */
struct wanted {
    bool summary;
    bool flight;
    const char *page, *chart, *perfetto, *otf2;
    uint64_t messages;
};

/* 0; or TOOL_USAGE. */
static int check_wanted(const struct tool *tool, const struct wanted *w)
{
    const char *out = w->page != NULL ? w->page : w->perfetto;

    if (w->chart != NULL && strcmp(w->chart, "svg") != 0 && strcmp(w->chart, "mermaid") != 0)
        return tool_usage_error(tool, "--chart %s: it is svg or mermaid", w->chart);
    if (w->summary + (w->page != NULL) + (w->chart != NULL) + (w->perfetto != NULL) +
            (w->otf2 != NULL) >
        1)
        return tool_usage_error(
            tool, "--summary, --html, --chart, --perfetto and --otf2: one of them at a time");
    if (out != NULL && is_trace(out))
        return tool_usage_error(tool, "%s %s: that is a trace, and would be overwritten",
                                w->page != NULL ? "--html" : "--perfetto", out);
    return 0;
}

static int run_wanted(const struct tool *tool, const struct wanted *w, char **paths,
                      size_t count)
{
    int status;

    job_line_of = source_line_in;
    if (w->page != NULL)
        return write_job(tool, paths, count, w->page, job_write_html);
    if (w->perfetto != NULL)
        return write_job(tool, paths, count, w->perfetto, job_write_perfetto);
    if (w->otf2 != NULL && job_otf2_missing() != NULL) {
        tool_error(tool, "--otf2: %s", job_otf2_missing());
        return TOOL_FAILED;
    }
    if (w->otf2 != NULL)
        return write_job(tool, paths, count, w->otf2, job_write_otf2);
    if (w->chart != NULL)
        return print_chart(tool, paths, count, w->chart, w->messages);
    status = read_files(tool, paths, count, w->summary);
    if (w->summary && print_waits(tool, paths, count) != TOOL_DONE)
        status = TOOL_FAILED;
    return status;
}

static int run_on(const struct tool *tool, const struct wanted *wanted, char **arguments,
                  int count)
{
    struct trace_paths paths = {.count = 0};
    int status = wanted->flight ? trace_paths_living(tool, arguments, count, &paths)
                                : trace_paths_files(tool, arguments, count, &paths);

    if (status == 0)
        status = run_wanted(tool, wanted, paths.paths, paths.count);
    trace_paths_free(&paths);
    return status;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct wanted wanted = {.messages = 20};
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        switch (option) {
        case 'p':
            wanted.page = optarg;
            break;
        case 'c':
            wanted.chart = optarg;
            break;
        case 'f':
            wanted.perfetto = optarg;
            break;
        case 'o':
            wanted.otf2 = optarg;
            break;
        case 'F':
            wanted.flight = true;
            break;
        case 'm':
            status = tool_number(tool, "--messages", optarg, 1, 10000, &wanted.messages);
            break;
        default:
            wanted.summary = true;
        }
        if (status != 0)
            return status;
    }
    if (option == -2)
        return status;
    if (optind == argc && !wanted.flight)
        return tool_usage_error(tool, "FILE is missing");
    status = check_wanted(tool, &wanted);
    return status != 0 ? status : run_on(tool, &wanted, argv + optind, argc - optind);
}

const struct tool tool_trace = {
    .name = "trace",
    .about = "show the events that MBX_TRACE has recorded, as text or as a page",
    .usage = usage,
    .options = options,
    .run = run,
};
