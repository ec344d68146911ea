/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_otf2.c - a job as a trace of OTF2, for Vampir and Scalasca, by OTF2's own library,
 * which is loaded when it is asked for.
 *
 *   machine, host           nodes of the system tree
 *   a rank                  a process and its location, which has the number of the rank's file,
 *                           in the region `program` from its first event to its last one
 *   a wait                  a region with the name of what was awaited
 *   a message               MpiSend where it is sent, MpiRecv where its receive is complete
 *   a communicator          one of all locations: the traces do not name the members
 */
#include "trace_otf2.h"

#include <errno.h>
#include <unistd.h>

#if MBX_OTF2

#include <otf2/otf2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"
#include "base/loaded.h"

/* The functions of OTF2 that are called. */
static struct {
    void *handle;
    __typeof__(&OTF2_Archive_Open) open;
    __typeof__(&OTF2_Archive_SetFlushCallbacks) set_flush;
    __typeof__(&OTF2_Archive_SetSerialCollectiveCallbacks) set_serial;
    __typeof__(&OTF2_Archive_OpenEvtFiles) open_events;
    __typeof__(&OTF2_Archive_GetEvtWriter) get_events;
    __typeof__(&OTF2_Archive_CloseEvtWriter) close_writer;
    __typeof__(&OTF2_Archive_CloseEvtFiles) close_events;
    __typeof__(&OTF2_Archive_OpenDefFiles) open_definitions;
    __typeof__(&OTF2_Archive_GetDefWriter) get_definitions;
    __typeof__(&OTF2_Archive_CloseDefWriter) close_definition_writer;
    __typeof__(&OTF2_Archive_CloseDefFiles) close_definitions;
    __typeof__(&OTF2_Archive_GetGlobalDefWriter) get_global;
    __typeof__(&OTF2_Archive_CloseGlobalDefWriter) close_global;
    __typeof__(&OTF2_Archive_Close) close;
    __typeof__(&OTF2_EvtWriter_Enter) enter;
    __typeof__(&OTF2_EvtWriter_Leave) leave;
    __typeof__(&OTF2_EvtWriter_MpiSend) send;
    __typeof__(&OTF2_EvtWriter_MpiRecv) recv;
    __typeof__(&OTF2_GlobalDefWriter_WriteClockProperties) clock;
    __typeof__(&OTF2_GlobalDefWriter_WriteString) string;
    __typeof__(&OTF2_GlobalDefWriter_WriteRegion) region;
    __typeof__(&OTF2_GlobalDefWriter_WriteSystemTreeNode) node;
    __typeof__(&OTF2_GlobalDefWriter_WriteLocationGroup) process;
    __typeof__(&OTF2_GlobalDefWriter_WriteLocation) location;
    __typeof__(&OTF2_GlobalDefWriter_WriteGroup) group;
    __typeof__(&OTF2_GlobalDefWriter_WriteComm) communicator;
} otf2;

const char *job_otf2_missing(void)
{
    static const char *const libraries[] = {"libopen-trace-format2.so.10", "libotf2.so.10",
                                            NULL};
    const struct loaded all[] = {
        {"OTF2_Archive_Open", &otf2.open},
        {"OTF2_Archive_SetFlushCallbacks", &otf2.set_flush},
        {"OTF2_Archive_SetSerialCollectiveCallbacks", &otf2.set_serial},
        {"OTF2_Archive_OpenEvtFiles", &otf2.open_events},
        {"OTF2_Archive_GetEvtWriter", &otf2.get_events},
        {"OTF2_Archive_CloseEvtWriter", &otf2.close_writer},
        {"OTF2_Archive_CloseEvtFiles", &otf2.close_events},
        {"OTF2_Archive_OpenDefFiles", &otf2.open_definitions},
        {"OTF2_Archive_GetDefWriter", &otf2.get_definitions},
        {"OTF2_Archive_CloseDefWriter", &otf2.close_definition_writer},
        {"OTF2_Archive_CloseDefFiles", &otf2.close_definitions},
        {"OTF2_Archive_GetGlobalDefWriter", &otf2.get_global},
        {"OTF2_Archive_CloseGlobalDefWriter", &otf2.close_global},
        {"OTF2_Archive_Close", &otf2.close},
        {"OTF2_EvtWriter_Enter", &otf2.enter},
        {"OTF2_EvtWriter_Leave", &otf2.leave},
        {"OTF2_EvtWriter_MpiSend", &otf2.send},
        {"OTF2_EvtWriter_MpiRecv", &otf2.recv},
        {"OTF2_GlobalDefWriter_WriteClockProperties", &otf2.clock},
        {"OTF2_GlobalDefWriter_WriteString", &otf2.string},
        {"OTF2_GlobalDefWriter_WriteRegion", &otf2.region},
        {"OTF2_GlobalDefWriter_WriteSystemTreeNode", &otf2.node},
        {"OTF2_GlobalDefWriter_WriteLocationGroup", &otf2.process},
        {"OTF2_GlobalDefWriter_WriteLocation", &otf2.location},
        {"OTF2_GlobalDefWriter_WriteGroup", &otf2.group},
        {"OTF2_GlobalDefWriter_WriteComm", &otf2.communicator},
    };

    if (otf2.handle == NULL)
        otf2.handle = loaded_open(libraries, all, ARRAY_COUNT(all));
    return otf2.handle != NULL ? NULL
                               : "libopen-trace-format2.so.10 cannot be loaded (Debian: "
                                 "libopen-trace-format2-10)";
}

/* ---- output ---- */

enum { REGION_PROGRAM, REGION_WAIT }; /* REGION_WAIT + kind */

enum what { AT_LEAVE, AT_ENTER, AT_SEND, AT_RECV };

/* An event of a location. */
struct event {
    uint64_t time;
    size_t order;     /* of the events of one time: as they were added */
    uint32_t rank;    /* its index */
    uint32_t message; /* SEND, RECV: its index */
    uint32_t region;  /* ENTER, LEAVE */
    enum what what;
};

/* Several context ids may be of one communicator. */
struct communicator {
    char name[JOB_COMMUNICATOR_TEXT];
};

struct writing {
    const struct job *job;
    OTF2_Archive *archive;
    struct event *events;
    size_t count;
    uint64_t *counts; /* events of each rank */
    struct communicator *communicators;
    uint32_t *of_message; /* its communicator */
    uint32_t communicator_count, communicator_capacity;
    uint32_t strings;
    bool is_wrong;
};

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static void add(struct writing *w, uint32_t rank, uint64_t time, enum what what,
                uint32_t region, uint32_t message)
{
    if (rank == JOB_NOBODY || time == JOB_NEVER)
        return;
    w->events[w->count] = (struct event){.time = time,
                                         .order = w->count,
                                         .rank = rank,
                                         .message = message,
                                         .region = region,
                                         .what = what};
    w->count++;
    w->counts[rank]++;
}

/* False: no memory. */
static bool add_communicator(struct writing *w, uint32_t message)
{
    char name[JOB_COMMUNICATOR_TEXT];
    uint32_t i = 0;

    job_message_communicator(w->job, &w->job->messages[message], name);
    while (i < w->communicator_count && strcmp(w->communicators[i].name, name) != 0)
        i++;
    w->of_message[message] = i;
    if (i < w->communicator_count)
        return true;
    if (!array_reserve(w->communicators, w->communicator_capacity, i + 1))
        return false;
    memcpy(w->communicators[w->communicator_count++].name, name, sizeof name);
    return true;
}

/* A message of which both sides are known is a send and, once it is received, a receive. */
static bool collect(struct writing *w)
{
    const struct job *job = w->job;
    size_t most = 2 * (job->rank_count + job->message_count + job->wait_count) + 1;

    w->events = mem_calloc(most, sizeof *w->events);
    w->counts = mem_calloc(job->rank_count + 1, sizeof *w->counts);
    w->of_message = mem_calloc(job->message_count + 1, sizeof *w->of_message);
    if (w->events == NULL || w->counts == NULL || w->of_message == NULL)
        return false;
    for (uint32_t i = 0; i < job->rank_count; i++)
        if (job->ranks[i].is_read)
            add(w, i, job->ranks[i].first, AT_ENTER, REGION_PROGRAM, 0);
    for (uint32_t i = 0; i < job->wait_count; i++) {
        const struct job_wait *wait = &job->waits[i];

        add(w, wait->rank, wait->from, AT_ENTER, REGION_WAIT + wait->kind, 0);
        add(w, wait->rank, max_size(wait->from, wait->to), AT_LEAVE, REGION_WAIT + wait->kind,
            0);
    }
    for (uint32_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];

        if (m->from == JOB_NOBODY || m->to == JOB_NOBODY)
            continue;
        if (!add_communicator(w, i))
            return false;
        add(w, m->from, m->send, AT_SEND, 0, i);
        add(w, m->to, m->received, AT_RECV, 0, i);
    }
    for (uint32_t i = 0; i < job->rank_count; i++)
        if (job->ranks[i].is_read)
            add(w, i, job->ranks[i].last, AT_LEAVE, REGION_PROGRAM, 0);
    return true;
}

static void check(struct writing *w, OTF2_ErrorCode code)
{
    w->is_wrong |= code != OTF2_SUCCESS;
}

/* ---- events ---- */

static void write_message(struct writing *w, OTF2_EvtWriter *out, const struct event *e)
{
    const struct job_message *m = &w->job->messages[e->message];
    uint32_t communicator = w->of_message[e->message], tag = job_message_tag(w->job, m);
    uint64_t size = m->size != JOB_NEVER ? m->size : 0;

    if (e->what == AT_SEND)
        check(w, otf2.send(out, NULL, e->time, m->to, communicator, tag, size));
    else
        check(w, otf2.recv(out, NULL, e->time, m->from, communicator, tag, size));
}

static void write_event(struct writing *w, OTF2_EvtWriter *out, const struct event *e)
{
    switch (e->what) {
    case AT_ENTER:
        check(w, otf2.enter(out, NULL, e->time, e->region));
        break;
    case AT_LEAVE:
        check(w, otf2.leave(out, NULL, e->time, e->region));
        break;
    case AT_SEND:
    case AT_RECV:
        write_message(w, out, e);
        break;
    }
}

static void write_events(struct writing *w)
{
    size_t at = 0;

    if (w->count != 0)
        qsort(w->events, w->count, sizeof *w->events, compare_events);
    check(w, otf2.open_events(w->archive));
    for (uint32_t rank = 0; rank < w->job->rank_count; rank++) {
        OTF2_EvtWriter *out = otf2.get_events(w->archive, rank);

        w->is_wrong |= out == NULL;
        for (; out != NULL && at < w->count && w->events[at].rank == rank; at++)
            write_event(w, out, &w->events[at]);
        if (out != NULL)
            check(w, otf2.close_writer(w->archive, out));
    }
    check(w, otf2.close_events(w->archive));
}

/* ---- definitions ---- */

/* A text becomes a string; its number. */
static uint32_t put_string(struct writing *w, OTF2_GlobalDefWriter *out, const char *text)
{
    check(w, otf2.string(out, w->strings, text));
    return w->strings++;
}

static void define_regions(struct writing *w, OTF2_GlobalDefWriter *out)
{
    uint32_t none = put_string(w, out, ""), name = put_string(w, out, "program");

    check(w, otf2.region(out, REGION_PROGRAM, name, name, none, OTF2_REGION_ROLE_FUNCTION,
                         OTF2_PARADIGM_USER, OTF2_REGION_FLAG_NONE, none, 0, 0));
    for (int kind = 0; kind < WAIT_KINDS; kind++) {
        char text[64];

        snprintf(text, sizeof text, "wait: %s", job_wait_text((enum job_wait_kind)kind));
        name = put_string(w, out, text);
        check(w, otf2.region(out, (OTF2_RegionRef)(REGION_WAIT + kind), name, name, none,
                             OTF2_REGION_ROLE_ARTIFICIAL, OTF2_PARADIGM_MPI,
                             OTF2_REGION_FLAG_NONE, none, 0, 0));
    }
}

/* The first rank on the same host: its number is the number of the host's node. */
static uint32_t host_of(const struct job *job, uint32_t rank)
{
    uint32_t i = 0;

    while (job->ranks[i].info.host != job->ranks[rank].info.host)
        i++;
    return i;
}

static void define_ranks(struct writing *w, OTF2_GlobalDefWriter *out)
{
    const struct job *job = w->job;
    uint32_t machine = put_string(w, out, "machine"), host = put_string(w, out, "host");

    check(w, otf2.node(out, 0, put_string(w, out, "job"), machine,
                       OTF2_UNDEFINED_SYSTEM_TREE_NODE));
    for (uint32_t i = 0; i < job->rank_count; i++) {
        uint32_t node = host_of(job, i), name;
        char text[64];

        if (node == i) {
            snprintf(text, sizeof text, "host %016llx",
                     (unsigned long long)job->ranks[i].info.host);
            check(w, otf2.node(out, 1 + node, put_string(w, out, text), host, 0));
        }
        name = put_string(w, out, job_rank_text(job, i, text));
        check(w, otf2.process(out, i, name, OTF2_LOCATION_GROUP_TYPE_PROCESS, 1 + node,
                              OTF2_UNDEFINED_LOCATION_GROUP));
        check(w, otf2.location(out, i, name, OTF2_LOCATION_TYPE_CPU_THREAD, w->counts[i], i));
    }
}

/* False: no memory. */
static bool define_communicators(struct writing *w, OTF2_GlobalDefWriter *out)
{
    uint32_t count = (uint32_t)w->job->rank_count, none = put_string(w, out, "");
    uint64_t *members = mem_calloc(count + 1, sizeof *members);

    if (members == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        members[i] = i;
    check(w, otf2.group(out, 0, none, OTF2_GROUP_TYPE_COMM_LOCATIONS, OTF2_PARADIGM_MPI,
                        OTF2_GROUP_FLAG_NONE, count, members));
    check(w, otf2.group(out, 1, none, OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                        OTF2_GROUP_FLAG_NONE, count, members));
    mem_free(members);
    for (uint32_t i = 0; i < w->communicator_count; i++)
        check(w, otf2.communicator(out, i, put_string(w, out, w->communicators[i].name), 1,
                                   OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE));
    return true;
}

static bool write_definitions(struct writing *w)
{
    OTF2_GlobalDefWriter *out = otf2.get_global(w->archive);
    bool is_done;

    w->is_wrong |= out == NULL;
    if (out == NULL)
        return true;
    check(w, otf2.clock(out, 1000000000, 0, w->job->duration + 1, OTF2_UNDEFINED_TIMESTAMP));
    define_regions(w, out);
    define_ranks(w, out);
    is_done = define_communicators(w, out);
    check(w, otf2.close_global(w->archive, out));
    return is_done;
}

/* Each location has a file of definitions of its own, which is empty. */
static void write_local_definitions(struct writing *w)
{
    check(w, otf2.open_definitions(w->archive));
    for (uint32_t rank = 0; rank < w->job->rank_count; rank++) {
        OTF2_DefWriter *out = otf2.get_definitions(w->archive, rank);

        w->is_wrong |= out == NULL;
        if (out != NULL)
            check(w, otf2.close_definition_writer(w->archive, out));
    }
    check(w, otf2.close_definitions(w->archive));
}

static OTF2_FlushType before_flush(void *arg, OTF2_FileType type, OTF2_LocationRef location,
                                   void *caller, bool final)
{
    (void)arg, (void)type, (void)location, (void)caller, (void) final;
    return OTF2_FLUSH;
}

static OTF2_TimeStamp after_flush(void *arg, OTF2_FileType type, OTF2_LocationRef location)
{
    (void)arg, (void)type, (void)location;
    return 0;
}

static bool write_archive(struct writing *w, const char *folder)
{
    static const OTF2_FlushCallbacks callbacks = {.otf2_pre_flush = before_flush,
                                                  .otf2_post_flush = after_flush};
    bool is_done;

    w->archive = otf2.open(folder, "traces", OTF2_FILEMODE_WRITE,
                           OTF2_CHUNK_SIZE_EVENTS_DEFAULT, OTF2_CHUNK_SIZE_DEFINITIONS_DEFAULT,
                           OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    w->is_wrong = w->archive == NULL;
    if (w->is_wrong)
        return true;
    check(w, otf2.set_flush(w->archive, &callbacks, NULL));
    check(w, otf2.set_serial(w->archive));
    write_events(w);
    write_local_definitions(w);
    is_done = write_definitions(w);
    check(w, otf2.close(w->archive));
    return is_done;
}

int job_write_otf2(const struct job *job, const char *folder)
{
    struct writing w = {.job = job};
    bool is_done;

    if (access(folder, F_OK) == 0)
        return -EEXIST;
    is_done = collect(&w) && write_archive(&w, folder);
    mem_free(w.events);
    mem_free(w.counts);
    mem_free(w.of_message);
    mem_free(w.communicators);
    if (!is_done)
        return -ENOMEM;
    return w.is_wrong ? -EIO : 0;
}

#else

const char *job_otf2_missing(void)
{
    return "this mbx was built without OTF2's headers (Debian: libotf2-trace-dev; Meson's "
           "option "
           "otf2)";
}

int job_write_otf2(const struct job *job, const char *folder)
{
    (void)job;
    (void)folder;
    return -ENOSYS;
}

#endif
