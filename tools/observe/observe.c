/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.c - inspects endpoints from outside.
 *
 *   find   memory files with the name INSPECT_NAME among the descriptors of this user's processes; root may request
 *          all users
 *   ask    all of them at once, and wait until they have answered
 *   read   the others, from their memory, twice: if both readings are equal, nothing has moved
 *   sort   by job and rank
 *
 * An observer finds endpoints once, and asks often: it does not read the memory of a rank that does not answer.
 *
 * Ranks in core files are not asked, and one reading is enough.
 *
 * A page is never mapped here: it is copied, checked, and then used.
 */
#include "observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "job_name.h"
#include "memory.h"
#include "inspect/blocks.h"
#include "inspect/budget.h"
#include "inspect/walk.h"
#include "tools/common/core_file.h"
#include "tools/common/process.h"
#include "tools/common/tool.h"
#include "tasks.h"

#define ENTRIES_MAX 65536u /* of an endpoint whose memory is read */
#define LINK_NAME   "/memfd:" INSPECT_NAME
#define LINKS_MAX   65536u /* descriptors of a process that are examined */
#define TRIES       3
#define READ_LEAST  CLOCK_S /* CPU time to read the memory of a process */

struct found {
    uint32_t pid;
    int fd;           /* of its page */
    uint64_t started; /* with pid it names the process: numbers are reused */
    uint32_t asked;
    bool has_answered, is_other;
    struct inspect_rank rank;
};

struct finder {
    const struct observe_options *options;
    struct found *all;
    uint32_t count, capacity;
    uint32_t refused;
    char why[OBSERVE_REFUSED];
    uint64_t others_ns; /* left to read the memory of other users' processes */
};

/* ---- refuse ---- */

/* Counts an endpoint of process pid that is not read, with the reason. */
static void refuse(struct finder *finder, const struct inspect_head *head, uint32_t pid,
                   const char *wrong)
{
    finder->refused++;
    if (inspect_head_is_other(head))
        snprintf(finder->why, sizeof finder->why,
                 "process %" PRIu32
                 ": it runs over Matchbox %s, whose pages are of version %" PRIu32
                 "; mbx %s reads pages of version %u",
                 pid, head->library, head->version, mbx_version(), INSPECT_VERSION);
    else
        snprintf(finder->why, sizeof finder->why, "process %" PRIu32 ": %s", pid, wrong);
}

/* The fields in the memory of process pid differ from this build. */
static void refuse_layout(struct finder *finder, const struct inspect_head *head, uint32_t pid)
{
    char wrong[OBSERVE_REFUSED - sizeof "process 4294967295: "];

    snprintf(wrong, sizeof wrong,
             "it runs over Matchbox %s, and mbx %s does not know the layout of its memory",
             head->library, mbx_version());
    refuse(finder, head, pid, wrong);
}

/* ---- find ---- */

static bool page_read(const struct found *found, void *page)
{
    return pread(found->fd, page, INSPECT_PAGE_SIZE, 0) == INSPECT_PAGE_SIZE;
}

static bool is_wanted(const struct observe_options *options, const struct inspect_head *head)
{
    return (options->job == 0 || options->job == head->job) &&
           (options->rank == INSPECT_NOBODY || options->rank == head->rank);
}

/* Adds the page of process pid, which that user owns. */
static int finder_add(struct finder *finder, uint32_t pid, uint32_t user, int fd)
{
    static unsigned char page[INSPECT_PAGE_SIZE];
    struct found *found;
    const char *wrong;

    if (!array_reserve(finder->all, finder->capacity, finder->count + 1))
        return -ENOMEM;
    found = &finder->all[finder->count];
    *found = (struct found){.pid = pid,
                            .fd = fd,
                            .started = process_started((pid_t)pid),
                            .rank.owner = user == geteuid() ? 0 : user + 1};
    if (!page_read(found, page))
        return -EBADMSG;
    memcpy(&found->rank.head, page, sizeof found->rank.head);
    if (found->rank.head.pid != pid && found->rank.head.pid != 0)
        return -ESRCH; /* the page is the parent's: a child inherits the descriptor */
    wrong = inspect_head_check(&found->rank.head, pid);
    if (wrong != NULL) {
        refuse(finder, &found->rank.head, pid, wrong);
        return -EBADMSG;
    }
    if (!is_wanted(finder->options, &found->rank.head))
        return -ENOENT;
    job_name_rank(&found->rank);
    finder->count++;
    return 0;
}

static bool has_name(const char *link, ssize_t size)
{
    const ssize_t length = sizeof LINK_NAME - 1;

    return size >= length && memcmp(link, LINK_NAME, sizeof LINK_NAME - 1) == 0 &&
           (size == length || link[length] == ' ');
}

/* A process can choose any link name.  So a page must be a memory file of the owner of the
 * process, and no more of them are examined than a process can have endpoints. */
static int find_among(struct finder *finder, uint32_t pid, uint32_t user, DIR *folder)
{
    const struct foreign wanted = {
        .kind = FOREIGN_MEMORY, .memory = INSPECT_NAME, .user = user};
    char path[320], link[sizeof LINK_NAME + 16];
    uint32_t pages = 0, links = 0;
    struct dirent *entry;
    int err = 0;

    while (err != -ENOMEM && pages < INSPECT_ENDPOINTS_MAX && links++ < LINKS_MAX &&
           (entry = readdir(folder)) != NULL) {
        int fd;

        if (!has_name(link, readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1)))
            continue;
        pages++;
        snprintf(path, sizeof path, "/proc/%u/fd/%s", pid, entry->d_name);
        fd = foreign_open(path, O_RDWR, &wanted);
        if (fd < 0)
            continue;
        err = finder_add(finder, pid, user, fd);
        if (err != 0)
            sys_close(fd);
    }
    return err == -ENOMEM ? err : 0;
}

static int find_in(struct finder *finder, uint32_t pid)
{
    char path[64];
    uint32_t user;
    DIR *folder;
    int err = 0;

    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    folder = opendir(path);
    if (folder == NULL)
        return 0; /* the process is gone, or must not be read */
    user = foreign_user(pid);
    if (user != FOREIGN_ANYBODY && (user == geteuid() || finder->options->all_users))
        err = find_among(finder, pid, user, folder);
    closedir(folder);
    return err;
}

static int find_all(struct finder *finder)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int err = 0;

    if (proc == NULL)
        return -errno;
    while (err == 0 && (entry = readdir(proc)) != NULL) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);

        if (*end == '\0' && pid != 0 && pid != (unsigned long)getpid())
            err = find_in(finder, (uint32_t)pid);
    }
    closedir(proc);
    return err;
}

/* ---- ask ---- */

static bool ask(struct found *found)
{
    uint32_t number;

    if (pread(found->fd, &number, sizeof number, offsetof(struct inspect_page, ask)) !=
        sizeof number)
        return false;
    found->asked = number + 1;
    return pwrite(found->fd, &found->asked, sizeof found->asked,
                  offsetof(struct inspect_page, ask)) == sizeof found->asked;
}

static int keep_entries(struct inspect_rank *rank, const struct inspect_entry *entries,
                        uint32_t count)
{
    rank->entries = mem_calloc(count + 1, sizeof *entries);
    if (rank->entries == NULL)
        return -ENOMEM;
    if (count != 0)
        memcpy(rank->entries, entries, count * sizeof *entries);
    rank->count = count;
    inspect_mark_kept(rank);
    inspect_sort(rank->entries, count);
    return 0;
}

/* Takes the answer, if it has come: 1; 0: not yet; -ENOMEM. */
static int take_answer(struct found *found)
{
    static _Alignas(struct inspect_page) unsigned char bytes[INSPECT_PAGE_SIZE];
    struct inspect_page *page = (struct inspect_page *)(void *)bytes;
    struct inspect_rank *rank = &found->rank;
    uint32_t turn;

    if (!page_read(found, bytes) || (int32_t)(page->state.answered - found->asked) < 0)
        return 0;
    if (pread(found->fd, &turn, sizeof turn,
              offsetof(struct inspect_page, state) + offsetof(struct inspect_state, turn)) !=
            sizeof turn ||
        turn != page->state.turn || turn % 2 != 0 ||
        inspect_page_check(bytes, found->pid) != NULL)
        return 0;
    memcpy(&rank->state, &page->state, sizeof rank->state);
    rank->checks = page->checks;
    rank->how = INSPECT_ASKED;
    memcpy(rank->head.mpi, page->head.mpi, sizeof rank->head.mpi);
    rank->layout = inspect_mpi_layout(rank->head.mpi);
    rank->text = mem_calloc(1, rank->state.text_size + 1);
    if (rank->text == NULL ||
        keep_entries(rank, inspect_page_entries(page), rank->state.entries) != 0)
        return -ENOMEM;
    memcpy(rank->text, bytes + INSPECT_TEXT_AT, rank->state.text_size);
    text_make_lines_printable(rank->text, ' ');
    return 1;
}

/* A process in state D (waits for a disk or a page) can answer: most leave that state soon. */
static bool can_answer(const struct found *found)
{
    return strchr("TtZX", found->rank.run) == NULL || found->rank.run == 0;
}

/* Processor time to read a process.  Each process of this user gets the time that it had to answer; all
 * processes of other users together get it once. */
static uint64_t time_for(const struct finder *finder, const struct inspect_rank *rank)
{
    return rank->owner != 0 ? finder->others_ns
                            : max_size(finder->options->wait_ns, READ_LEAST);
}

static void time_used(struct finder *finder, const struct inspect_rank *rank, uint64_t begin_ns)
{
    if (rank->owner != 0)
        finder->others_ns -= min_size(clock_thread() - begin_ns, finder->others_ns);
}

/* Reads the threads of ranks that have answered, once all have.  If a process has several pages, only the component's
 * lists threads that have communicated. */
static int read_tasks(struct finder *finder)
{
    uint32_t last = 0;
    int err = 0;

    for (uint32_t i = 0; finder->options->tasks && err == 0 && i < finder->count; i++) {
        struct found *found = &finder->all[i];
        struct inspect_rank *rank = &found->rank;
        uint64_t begin_ns = clock_thread();

        if (!found->has_answered || !(rank->state.flags & INSPECT_STATE_THREADS) ||
            rank->state.callers == 0 || found->pid == last)
            continue;
        last = found->pid;
        err = tasks_read(found->pid, rank->state.answerer, time_for(finder, rank), &rank->tasks,
                         &rank->task_count);
        time_used(finder, rank, begin_ns);
    }
    return err;
}

static int ask_all(struct finder *finder)
{
    uint64_t start = clock_now();
    uint32_t open = 0;

    finder->others_ns = max_size(finder->options->wait_ns, READ_LEAST);
    for (uint32_t i = 0; i < finder->count; i++)
        if (!ask(&finder->all[i]))
            finder->all[i].asked = 0;
    do {
        open = 0;
        for (uint32_t i = 0; i < finder->count; i++) {
            struct found *found = &finder->all[i];
            int answer;

            if (found->has_answered)
                continue;
            found->rank.run = process_state((pid_t)found->pid, found->started);
            if (found->asked == 0)
                continue;
            answer = take_answer(found);
            if (answer < 0)
                return answer;
            found->has_answered = answer == 1;
            open += answer == 0 && can_answer(found);
        }
        if (open != 0)
            usleep(1000);
    } while (open != 0 && clock_now() - start < finder->options->wait_ns);
    return read_tasks(finder);
}

/* ---- read ---- */

struct reading {
    struct inspect_pulse pulse;
    uint32_t counts[INSPECT_KINDS], stored;
    struct inspect_entry *entries;
};

static int read_once(const struct inspect_source *source, uint64_t ep,
                     const struct inspect_map *map, struct reading *reading)
{
    int err = inspect_walk_pulse(map, source, ep, &reading->pulse);

    if (err != 0)
        return err;
    return inspect_walk(map, source, ep, reading->entries, ENTRIES_MAX, &reading->stored,
                        reading->counts);
}

static bool is_same(const struct reading *a, const struct reading *b)
{
    return a->stored == b->stored && memcmp(&a->pulse, &b->pulse, sizeof a->pulse) == 0 &&
           memcmp(a->counts, b->counts, sizeof a->counts) == 0 &&
           memcmp(a->entries, b->entries, a->stored * sizeof *a->entries) == 0;
}

/* Keeps the names that the program has given, in the place that they have after the statistics
 * of a page; there are no statistics. */
static int keep_names(struct inspect_rank *rank, const struct inspect_source *source,
                      const struct inspect_map *map)
{
    rank->text = mem_calloc(1, INSPECT_TEXT_SIZE + 1);
    if (rank->text == NULL)
        return -ENOMEM;
    rank->text[0] = '\n';
    if (inspect_walk_names(map, source, rank->head.ep, rank->entries, rank->count,
                           rank->text + 1, INSPECT_TEXT_SIZE) < 0)
        rank->text[1] = '\0';
    return 0;
}

/* now_ns: on the rank's machine; 0 if the process is over. */
static int keep_reading(struct inspect_rank *rank, const struct inspect_source *source,
                        const struct inspect_map *map, const struct reading *reading,
                        uint64_t now_ns)
{
    int err;

    inspect_walk_program(map, source, rank->head.ep, rank->head.mpi);
    rank->layout = inspect_mpi_layout(rank->head.mpi);
    rank->state = (struct inspect_state){.pulse = reading->pulse, .now_ns = clock_now()};
    memcpy(rank->state.counts, reading->counts, sizeof reading->counts);
    if (inspect_walk_ages(map, source, rank->head.ep, now_ns, reading->entries,
                          reading->stored) != 0)
        for (uint32_t i = 0; i < reading->stored; i++)
            if (reading->entries[i].kind != INSPECT_PROBE)
                reading->entries[i].waited_ms = INSPECT_NOT_KNOWN;
    err = keep_entries(rank, reading->entries, reading->stored);
    return err != 0 ? err : keep_names(rank, source, map);
}

/* Reads the memory of a process that has not answered, within time_ns. */
static int read_memory(struct finder *finder, struct found *found, struct reading two[2],
                       uint64_t time_ns)
{
    struct inspect_rank *rank = &found->rank;
    struct inspect_budget budget;
    struct inspect_blocks blocks;
    struct inspect_map map;
    struct memory memory;
    int err;

    memory_init(&memory, found->pid);
    inspect_budget_init(&budget, &memory.source, INSPECT_BUDGET_READS, time_ns);
    err = inspect_map_read(&budget.source, rank->head.root, &map);

    if (err == -EBADMSG)
        refuse_layout(finder, &rank->head, found->pid);
    inspect_blocks_init(&blocks, &budget.source);
    rank->how = INSPECT_MOVING;
    for (int i = 0; err == 0 && i <= TRIES && rank->how == INSPECT_MOVING; i++) {
        inspect_blocks_forget(&blocks);
        err = read_once(&blocks.source, rank->head.ep, &map, &two[i % 2]);
        if (err == 0 && i > 0 && is_same(&two[0], &two[1]))
            rank->how = INSPECT_READ;
    }
    inspect_blocks_forget(&blocks);
    if (err == 0)
        return keep_reading(rank, &blocks.source, &map, &two[0], clock_now());
    if (err == -ETIME)
        refuse(finder, &rank->head, found->pid,
               "its queues take longer to read than --wait gives it to answer");
    rank->how = INSPECT_FAILED;
    return 0;
}

static int read_found(struct finder *finder, struct found *found, struct reading two[2])
{
    uint64_t begin_ns = clock_thread();
    int err = read_memory(finder, found, two, time_for(finder, &found->rank));

    time_used(finder, &found->rank, begin_ns);
    return err;
}

static int readings_open(struct reading two[2])
{
    for (int i = 0; i < 2; i++) {
        two[i] = (struct reading){.entries = mem_alloc(ENTRIES_MAX * sizeof *two[i].entries)};
        if (two[i].entries == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void readings_close(struct reading two[2])
{
    mem_free(two[0].entries);
    mem_free(two[1].entries);
}

static int read_silent(struct finder *finder)
{
    struct reading two[2] = {{.entries = NULL}, {.entries = NULL}};
    int err = readings_open(two);

    for (uint32_t i = 0; err == 0 && i < finder->count; i++)
        if (!finder->all[i].has_answered)
            err = read_found(finder, &finder->all[i], two);
    readings_close(two);
    return err;
}

/* ---- core files ---- */

/* Reads the endpoint of this page in the core file.  0; -ENOMEM. */
static int read_core(struct finder *finder, const struct core_file *core,
                     const struct inspect_head *head, const struct inspect_map *map,
                     struct reading two[2])
{
    struct inspect_blocks blocks;
    struct inspect_rank *rank;

    if (!array_reserve(finder->all, finder->capacity, finder->count + 1))
        return -ENOMEM;
    finder->all[finder->count] = (struct found){.pid = head->pid, .fd = -1};
    rank = &finder->all[finder->count++].rank;
    rank->head = *head;
    rank->how = INSPECT_CORE;
    job_program_of(core->arguments, core->arguments_size, rank->program);
    inspect_blocks_init(&blocks, &core->source);
    if (read_once(&blocks.source, head->ep, map, &two[0]) == 0)
        return keep_reading(rank, &blocks.source, map, &two[0], 0);
    rank->how = INSPECT_FAILED;
    return 0;
}

/* A core file without shared memory has no pages.  The library's own list of endpoints then
 * gives their addresses; the rank of the process is unknown. */
static int read_core_list(struct finder *finder, struct core_file *core, struct reading two[2])
{
    struct inspect_head head = {
        .pid = core->pid, .rank = INSPECT_NOBODY, .ranks = INSPECT_NOBODY};
    uint32_t at = 0;
    int err = 0;

    while (err == 0 && (head.root = core_symbol(core, "mbx_see_root", &at)) != 0) {
        uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
        struct inspect_map map;
        uint32_t count;

        if (inspect_map_read(&core->source, head.root, &map) != 0)
            continue;
        inspect_walk_endpoints(&map, &core->source, endpoints, &count);
        for (uint32_t i = 0; err == 0 && i < count; i++) {
            head.ep = endpoints[i];
            err = read_core(finder, core, &head, &map, two);
        }
    }
    return err;
}

static int read_core_pages(struct finder *finder, struct core_file *core, struct reading two[2],
                           bool *has_pages)
{
    struct inspect_head head;
    struct inspect_map map;
    uint64_t address;
    uint32_t at = 0;
    int err = 0, known;

    while (err == 0 && (address = core_page(core, &at)) != 0) {
        const char *wrong = "its page cannot be read";

        *has_pages = true;
        head = (struct inspect_head){.version = 0};
        if (core->source.read(&core->source, address, &head, sizeof head) == 0)
            wrong = inspect_head_check(&head, head.pid);
        known = wrong == NULL ? inspect_map_read(&core->source, head.root, &map) : 0;
        if (known != 0 && known != -EBADMSG)
            wrong = "the layout of its memory cannot be read: the library that it had is not "
                    "here any more";
        if (wrong != NULL)
            refuse(finder, &head, head.pid, wrong);
        else if (known != 0)
            refuse_layout(finder, &head, head.pid);
        else if (is_wanted(finder->options, &head))
            err = read_core(finder, core, &head, &map, two);
    }
    return err;
}

static int observe_core(struct finder *finder, const char *path, char why[CORE_WHY])
{
    struct reading two[2] = {{.entries = NULL}, {.entries = NULL}};
    uint32_t before = finder->count;
    bool has_pages = false;
    struct core_file core;
    int err = core_open(&core, path, why);

    if (err != 0)
        return err;
    err = readings_open(two);
    if (err == 0)
        err = read_core_pages(finder, &core, two, &has_pages);
    if (err == 0 && !has_pages)
        err = read_core_list(finder, &core, two);
    readings_close(two);
    core_close(&core);
    if (err == -ENOMEM)
        snprintf(why, CORE_WHY, "no memory");
    if (err == 0 && finder->count == before && !has_pages) {
        snprintf(why, CORE_WHY,
                 "no endpoint of Matchbox is in it: the process was none of a job over "
                 "Matchbox, or had MBX_INSPECT=no, or its library is not here any more");
        err = -ENOENT;
    }
    return err;
}

/* ---- sort ---- */

static int sort_into_jobs(struct finder *finder, struct observed *out)
{
    struct inspect_rank *ranks = mem_calloc(finder->count + 1, sizeof *ranks);
    int err = ranks != NULL ? 0 : -ENOMEM;

    for (uint32_t i = 0; err == 0 && i < finder->count; i++)
        ranks[i] = finder->all[i].rank;
    if (err == 0)
        err = observed_sort(ranks, finder->count, out);
    if (err != 0) {
        mem_free(ranks);
        return err;
    }
    for (uint32_t i = 0; i < finder->count; i++) {
        finder->all[i].rank.entries = NULL;
        finder->all[i].rank.text = NULL;
        finder->all[i].rank.tasks = NULL;
    }
    return 0;
}

static int hand_out(struct finder *finder, int err, struct observed *out)
{
    if (err == 0)
        err = sort_into_jobs(finder, out);
    out->refused = finder->refused;
    memcpy(out->why, finder->why, sizeof out->why);
    return err;
}

static void found_close(struct found *found)
{
    if (found->fd >= 0)
        close(found->fd);
    observed_free_rank(&found->rank);
}

static void finder_close(struct finder *finder)
{
    for (uint32_t i = 0; i < finder->count; i++)
        found_close(&finder->all[i]);
    mem_free(finder->all);
}

static int finish(struct finder *finder, int err, struct observed *out)
{
    err = hand_out(finder, err, out);
    finder_close(finder);
    return err;
}

int observe(const struct observe_options *options, struct observed *out)
{
    struct finder finder = {.options = options};
    int err;

    *out = (struct observed){.count = 0};
    err = find_all(&finder);
    if (err == 0)
        err = ask_all(&finder);
    if (err == 0)
        err = read_silent(&finder);
    return finish(&finder, err, out);
}

/* ---- again and again ---- */

/* Forgets the further endpoints of ranks: who asks again and again asks how ranks do. */
static void keep_matching(struct finder *finder)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < finder->count; i++) {
        bool is_other = false;

        for (uint32_t k = 0; k < finder->count && !is_other; k++)
            is_other = observed_has_more(&finder->all[i].rank, &finder->all[k].rank);
        finder->all[i].is_other = is_other;
    }
    for (uint32_t i = 0; i < finder->count; i++)
        if (finder->all[i].is_other)
            found_close(&finder->all[i]);
        else
            finder->all[kept++] = finder->all[i];
    finder->count = kept;
}

struct observer {
    struct observe_options options;
    struct finder finder;
};

int observer_open(const struct observe_options *options, struct observer **out)
{
    struct observer *observer = mem_calloc(1, sizeof *observer);
    int err;

    if (observer == NULL)
        return -ENOMEM;
    observer->options = *options;
    observer->finder.options = &observer->options;
    err = find_all(&observer->finder);
    if (err != 0) {
        observer_close(observer);
        return err;
    }
    keep_matching(&observer->finder);
    *out = observer;
    return 0;
}

int observer_ask(struct observer *observer, struct observed *out)
{
    struct finder *finder = &observer->finder;

    *out = (struct observed){.count = 0};
    for (uint32_t i = 0; i < finder->count; i++) {
        struct inspect_rank *rank = &finder->all[i].rank;
        struct inspect_rank asked = {.head = rank->head,
                                     .how = INSPECT_FAILED,
                                     .owner = rank->owner,
                                     .started = rank->started};

        memcpy(asked.program, rank->program, sizeof asked.program);
        *rank = asked;
        finder->all[i].has_answered = false;
    }
    return hand_out(finder, ask_all(finder), out);
}

void observer_close(struct observer *observer)
{
    if (observer == NULL)
        return;
    finder_close(&observer->finder);
    mem_free(observer);
}

int observe_cores(const struct observe_options *options, const char *const *paths,
                  uint32_t count, struct observed *out, char why[OBSERVE_WHY])
{
    struct finder finder = {.options = options};
    char wrong[CORE_WHY];
    int err = 0;

    *out = (struct observed){.count = 0};
    for (uint32_t i = 0; err == 0 && i < count; i++) {
        err = observe_core(&finder, paths[i], wrong);
        if (err != 0)
            snprintf(why, OBSERVE_WHY, "%s: %s", paths[i], wrong);
    }
    return finish(&finder, err, out);
}

const char *observe_hint(const struct observe_options *options)
{
    return geteuid() == 0 && !options->all_users ? "; --all-users includes jobs of other users"
                                                 : "";
}

int observe_find(const struct observe_options *options, struct observed *out)
{
    struct finder finder = {.options = options};

    *out = (struct observed){.count = 0};
    return finish(&finder, find_all(&finder), out);
}
