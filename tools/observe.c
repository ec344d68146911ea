/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.c - looking at endpoints from outside.
 *
 *   find   memory files of the name SEE_NAME among the descriptors of all processes that this user
 *          may look into
 *   ask    all of them at once, and wait until they have answered
 *   read   those that have not, in their memory, twice: what is the same twice holds still
 *   sort   by job and rank
 *
 * Nothing of a page is mapped here: it is copied, checked, and then used.
 */
#include "observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "see/walk.h"
#include "tool.h"

#define ENTRIES_MAX 65536u /* of an endpoint that is read from outside */
#define LINK_NAME   "/memfd:" SEE_NAME
#define TRIES       3
#define BLOCK       4096 /* read at a time from the memory of another process */

struct found {
    uint32_t pid;
    int fd;
    uint32_t asked;
    bool has_answered;
    struct see_rank rank;
};

struct finder {
    const struct observe_options *options;
    struct found *all;
    uint32_t count, room;
    uint32_t refused;
    char why[96];
};

/* ---- find ---- */

static bool page_read(const struct found *found, void *page)
{
    return pread(found->fd, page, SEE_PAGE_SIZE, 0) == SEE_PAGE_SIZE;
}

static char run_of(uint32_t pid)
{
    char path[64], text[512];
    FILE *file;
    const char *end;
    size_t size;

    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static bool is_wanted(const struct observe_options *options, const struct see_head *head)
{
    return (options->job == 0 || options->job == head->job) &&
           (options->rank == SEE_NOBODY || options->rank == head->rank);
}

static int finder_add(struct finder *finder, uint32_t pid, int fd)
{
    static unsigned char page[SEE_PAGE_SIZE];
    struct found *found;
    const char *wrong;

    if (finder->count == finder->room) {
        uint32_t room = finder->room == 0 ? 16 : finder->room * 2;
        struct found *all = mem_realloc(finder->all, room * sizeof *all);

        if (all == NULL)
            return -ENOMEM;
        finder->all = all;
        finder->room = room;
    }
    found = &finder->all[finder->count];
    *found = (struct found){.pid = pid, .fd = fd};
    if (!page_read(found, page))
        return -EBADMSG;
    memcpy(&found->rank.head, page, sizeof found->rank.head);
    if (found->rank.head.pid != pid && found->rank.head.pid != 0)
        return -ESRCH; /* a child of it, which has the descriptor too */
    wrong = see_head_check(&found->rank.head, pid);
    if (wrong != NULL) {
        finder->refused++;
        snprintf(finder->why, sizeof finder->why, "process %u: %s", pid, wrong);
        return -EBADMSG;
    }
    if (!is_wanted(finder->options, &found->rank.head))
        return -ENOENT;
    finder->count++;
    return 0;
}

static int find_in(struct finder *finder, uint32_t pid)
{
    char path[64], link[sizeof LINK_NAME + 16];
    struct dirent *entry;
    DIR *folder;
    int err = 0;

    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    folder = opendir(path);
    if (folder == NULL)
        return 0; /* another user's, or gone */
    while (err == 0 && (entry = readdir(folder)) != NULL) {
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
        int fd;

        if (size < (ssize_t)sizeof LINK_NAME - 1 ||
            memcmp(link, LINK_NAME, sizeof LINK_NAME - 1) != 0 ||
            (link[sizeof LINK_NAME - 1] != ' ' && size != (ssize_t)sizeof LINK_NAME - 1))
            continue;
        fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            continue;
        err = finder_add(finder, pid, fd);
        if (err != 0)
            close(fd);
        if (err != -ENOMEM)
            err = 0;
    }
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

    if (pread(found->fd, &number, sizeof number, offsetof(struct see_page, ask)) !=
        sizeof number)
        return false;
    found->asked = number + 1;
    return pwrite(found->fd, &found->asked, sizeof found->asked,
                  offsetof(struct see_page, ask)) == sizeof found->asked;
}

static int keep_entries(struct see_rank *rank, const struct see_entry *entries, uint32_t count)
{
    rank->entries = mem_calloc(count + 1, sizeof *entries);
    if (rank->entries == NULL)
        return -ENOMEM;
    if (count != 0)
        memcpy(rank->entries, entries, count * sizeof *entries);
    rank->count = count;
    see_sort(rank->entries, count);
    return 0;
}

/* The answer, if it is there.  1 it is, 0 it is not yet; -ENOMEM. */
static int take_answer(struct found *found)
{
    static _Alignas(struct see_page) unsigned char bytes[SEE_PAGE_SIZE];
    struct see_page *page = (struct see_page *)(void *)bytes;
    struct see_rank *rank = &found->rank;
    uint32_t turn;

    if (!page_read(found, bytes) || (int32_t)(page->state.answered - found->asked) < 0)
        return 0;
    if (pread(found->fd, &turn, sizeof turn,
              offsetof(struct see_page, state) + offsetof(struct see_state, turn)) !=
            sizeof turn ||
        turn != page->state.turn || turn % 2 != 0 || see_page_check(bytes, found->pid) != NULL)
        return 0;
    memcpy(&rank->state, &page->state, sizeof rank->state);
    rank->looks = page->looks;
    rank->how = SEE_ASKED;
    memcpy(rank->head.mpi, page->head.mpi, sizeof rank->head.mpi);
    rank->layout = see_mpi_layout(rank->head.mpi);
    rank->text = mem_calloc(1, rank->state.text_size + 1);
    if (rank->text == NULL ||
        keep_entries(rank, see_page_entries(page), rank->state.entries) != 0)
        return -ENOMEM;
    memcpy(rank->text, bytes + SEE_TEXT_AT, rank->state.text_size);
    for (char *c = rank->text; *c != '\0'; c++)
        if ((*c < ' ' || *c > '~') && *c != '\n')
            *c = ' ';
    return 1;
}

/* One that waits for a disk or a page (D) is waited for: most do for a moment. */
static bool can_answer(const struct found *found)
{
    return strchr("TtZX", found->rank.run) == NULL || found->rank.run == 0;
}

static int ask_all(struct finder *finder)
{
    uint64_t start = clock_now();
    uint32_t open = 0;

    for (uint32_t i = 0; i < finder->count; i++)
        if (!ask(&finder->all[i]))
            finder->all[i].asked = 0;
    do {
        open = 0;
        for (uint32_t i = 0; i < finder->count; i++) {
            struct found *found = &finder->all[i];
            int answer;

            found->rank.run = run_of(found->pid);
            if (found->has_answered || found->asked == 0)
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
    return 0;
}

/* ---- read ---- */

/* The memory of another process, a block of it kept. */
struct other {
    struct see_source source;
    pid_t pid;
    uint64_t block;
    unsigned char bytes[BLOCK];
};

static int read_all(const struct other *other, uint64_t at, void *to, size_t size)
{
    ssize_t done = sys_process_vm_readv(other->pid, to, at, size);

    return done == (ssize_t)size ? 0 : done < 0 ? -errno : -EFAULT;
}

static int read_other(const struct see_source *source, uint64_t at, void *to, size_t size)
{
    struct other *other = (struct other *)(uintptr_t)source;
    uint64_t block = at / BLOCK * BLOCK;

    if (at + size > block + BLOCK)
        return read_all(other, at, to, size);
    if (block != other->block) {
        int err = read_all(other, block, other->bytes, BLOCK);

        other->block = err == 0 ? block : 0;
        if (err != 0)
            return err;
    }
    memcpy(to, other->bytes + (at - block), size);
    return 0;
}

struct reading {
    struct see_pulse pulse;
    uint32_t counts[SEE_KINDS], stored;
    struct see_entry *entries;
};

static int read_once(const struct found *found, const struct see_root *root,
                     struct reading *reading)
{
    struct other other = {.source = {read_other}, .pid = (pid_t)found->pid};
    uint64_t ep = found->rank.head.ep;
    int err = see_walk_pulse(root, &other.source, ep, &reading->pulse);

    if (err != 0)
        return err;
    return see_walk(root, &other.source, ep, reading->entries, ENTRIES_MAX, &reading->stored,
                    reading->counts);
}

static bool is_same(const struct reading *a, const struct reading *b)
{
    return a->stored == b->stored && memcmp(&a->pulse, &b->pulse, sizeof a->pulse) == 0 &&
           memcmp(a->counts, b->counts, sizeof a->counts) == 0 &&
           memcmp(a->entries, b->entries, a->stored * sizeof *a->entries) == 0;
}

static int read_memory(struct found *found, struct reading two[2])
{
    struct other other = {.source = {read_other}, .pid = (pid_t)found->pid};
    struct see_rank *rank = &found->rank;
    struct see_root root;
    int err = read_all(&other, rank->head.root, &root, sizeof root);

    if (err == 0 && !see_root_is_valid(&root))
        err = -EBADMSG;
    rank->how = SEE_MOVING;
    for (int i = 0; err == 0 && i <= TRIES && rank->how == SEE_MOVING; i++) {
        err = read_once(found, &root, &two[i % 2]);
        if (err == 0 && i > 0 && is_same(&two[0], &two[1]))
            rank->how = SEE_READ;
    }
    if (err != 0) {
        rank->how = SEE_FAILED;
        return 0;
    }
    if (read_all(&other, rank->head.ep + root.offsets[SEE_EP_PROGRAM], rank->head.mpi,
                 sizeof rank->head.mpi) != 0)
        rank->head.mpi[0] = '\0';
    rank->head.mpi[sizeof rank->head.mpi - 1] = '\0';
    for (char *c = rank->head.mpi; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = ' ';
    rank->layout = see_mpi_layout(rank->head.mpi);
    rank->state = (struct see_state){.pulse = two[0].pulse, .now_ns = clock_now()};
    memcpy(rank->state.counts, two[0].counts, sizeof two[0].counts);
    return keep_entries(rank, two[0].entries, two[0].stored);
}

static int read_silent(struct finder *finder)
{
    struct reading two[2] = {{.stored = 0}, {.stored = 0}};
    int err = 0;

    for (int i = 0; i < 2; i++) {
        two[i].entries = mem_alloc(ENTRIES_MAX * sizeof *two[i].entries);
        if (two[i].entries == NULL)
            err = -ENOMEM;
    }
    for (uint32_t i = 0; err == 0 && i < finder->count; i++)
        if (!finder->all[i].has_answered)
            err = read_memory(&finder->all[i], two);
    mem_free(two[0].entries);
    mem_free(two[1].entries);
    return err;
}

/* ---- sort ---- */

static int by_job(const void *a, const void *b)
{
    const struct see_rank *x = &((const struct found *)a)->rank;
    const struct see_rank *y = &((const struct found *)b)->rank;

    if (x->head.job != y->head.job)
        return x->head.job < y->head.job ? -1 : 1;
    if (x->head.rank != y->head.rank)
        return x->head.rank < y->head.rank ? -1 : 1;
    if (x->head.pid != y->head.pid)
        return x->head.pid < y->head.pid ? -1 : 1;
    return (x->head.open_ns > y->head.open_ns) - (x->head.open_ns < y->head.open_ns);
}

static int sort_into_jobs(struct finder *finder, struct observed *out)
{
    struct see_rank *ranks = mem_calloc(finder->count + 1, sizeof *ranks);

    out->jobs = mem_calloc(finder->count + 1, sizeof *out->jobs);
    if (ranks == NULL || out->jobs == NULL) {
        mem_free(ranks);
        return -ENOMEM;
    }
    if (finder->count != 0)
        qsort(finder->all, finder->count, sizeof *finder->all, by_job);
    for (uint32_t i = 0; i < finder->count; i++) {
        struct see_job *job = &out->jobs[out->count];

        ranks[i] = finder->all[i].rank;
        if (i == 0 || ranks[i].head.job != ranks[i - 1].head.job) {
            out->jobs[out->count++] = (struct see_job){.ranks = &ranks[i], .size = SEE_NOBODY};
        } else {
            job--;
        }
        job->count++;
        if (ranks[i].head.ranks != SEE_NOBODY)
            job->size = ranks[i].head.ranks;
        finder->all[i].rank.entries = NULL;
        finder->all[i].rank.text = NULL;
    }
    if (out->count == 0)
        mem_free(ranks);
    return 0;
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
    if (err == 0)
        err = sort_into_jobs(&finder, out);
    out->refused = finder.refused;
    memcpy(out->why, finder.why, sizeof out->why);
    for (uint32_t i = 0; i < finder.count; i++) {
        close(finder.all[i].fd);
        mem_free(finder.all[i].rank.entries);
        mem_free(finder.all[i].rank.text);
    }
    mem_free(finder.all);
    return err;
}

void observe_free(struct observed *observed)
{
    for (uint32_t i = 0; i < observed->count; i++)
        for (uint32_t r = 0; r < observed->jobs[i].count; r++) {
            mem_free(observed->jobs[i].ranks[r].entries);
            mem_free(observed->jobs[i].ranks[r].text);
        }
    if (observed->count != 0)
        mem_free(observed->jobs[0].ranks);
    mem_free(observed->jobs);
}

int observe_parse_job(const struct tool *tool, const char *text, uint64_t *job)
{
    char *end;

    errno = 0;
    *job = strtoull(text, &end, 16);
    if (*text == '\0' || *end != '\0' || errno != 0 || *job == 0)
        return tool_usage_error(tool,
                                "--job takes the number behind `job` in the output, not "
                                "'%s'",
                                text);
    return 0;
}
