/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watchdog.c - one report for each job and hang.
 *
 *   another watchdog exists ───────────────────────────────────────> reports it to the rank; ends
 *   looks twice ──┬── a deadlock ──> the report (and abort) ──┬──> ends when its ranks have moved or are gone
 *                 │                                           └── at ten times MBX_HANG a second report
 *                 └── none ──> looks again ──┬── at ten times MBX_HANG, once: which rank waits for which
 *                                            └── the rank has moved, or is gone ──> ends
 *
 * A verdict with a condition may become a stronger one, which has reports of its own.  When the watch ends, the rank
 * that has started it is told: it may wait on, for a rank that has moved, and starts another watch.
 *
 * An abstract socket with the name of the job shows whether another one exists.  The kernel gives it to one
 * process (of a network namespace), and frees it when that process is killed.  Nothing is left over.
 */
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "base/sys.h"
#include "inspect/hang.h"
#include "tools/common/tool.h"
#include "looks.h"
#include "tools/observe/diagnose.h"

#define AGAIN      10            /* times MBX_HANG: second report */
#define REPORTS    2             /* of one deadlock */
#define EACH_LEAST (CLOCK_S / 2) /* between two inspections */
#define EACH_MOST  (10 * CLOCK_S)

/* How far a rank has come: it has moved if one of these changes. */
struct place {
    uint64_t pulse; /* the sum */
    uint64_t live;  /* operations that have begun and not ended */
};

struct hang {
    const struct watchdog *reported;
    struct observe_options wanted;
    uint64_t between_ns, quiet_ns, begin_ns;
    int pidfd;
    uint64_t said_ns;   /* when a deadlock was reported last; before that, the beginning */
    unsigned reports;   /* with the verdict `said`: REPORTS at most */
    bool has_explained; /* that there is no deadlock */
    enum diagnose_verdict said; /* the strongest one that was reported */
    uint32_t watched;           /* the pid of a deadlocked rank, once there is a report */
    bool is_begun;              /* first is known: */
    struct place first;         /* of the watched rank, when its watch began */
};

static void tell(uint64_t what)
{
    if (write(INSPECT_HANG_FD, &what, sizeof what) != sizeof what)
        return; /* the rank is gone */
}

/* Is this the only watchdog of the job?  If so, it stays the only one until it ends. */
static bool is_alone(uint64_t job)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int used = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                        "matchbox-hang-%" PRIx64 "-%u", job, (unsigned)getuid());
    /* the socket does not listen, so nobody can connect and send anything */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd < 0 ||
           bind(fd, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used)) == 0;
}

/* ---- looks ---- */

/* Sleeps; false: the rank is gone. */
static bool rest(const struct hang *hang, uint64_t ns)
{
    struct pollfd one = {.fd = hang->pidfd, .events = POLLIN};

    return poll(&one, 1, (int)(ns / CLOCK_MS) + 1) == 0;
}

static const struct inspect_rank *rank_of(const struct inspect_job *job, uint32_t pid)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].head.pid == pid)
            return &job->ranks[i];
    return NULL;
}

static struct place place_of(const struct inspect_rank *rank)
{
    static const enum inspect_kind kinds[] = {INSPECT_POSTED, INSPECT_SEND, INSPECT_SENDING,
                                              INSPECT_RECEIVING, INSPECT_ACCESS};
    const struct inspect_pulse *pulse = &rank->state.pulse;
    struct place place = {.pulse = pulse->arrived + pulse->sent + pulse->received +
                                   pulse->cancelled};

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        place.live += rank->state.counts[kinds[i]];
    return place;
}

/* Watches this rank from now on: the hang is over when it has moved. */
static void watch(struct hang *hang, const struct inspect_rank *rank)
{
    hang->watched = rank->head.pid;
    hang->first = place_of(rank);
    hang->is_begun = true;
}

static bool has_moved(const struct hang *hang, const struct inspect_rank *rank)
{
    const struct place now = place_of(rank);

    return now.pulse != hang->first.pulse || now.live != hang->first.live;
}

/* ---- reports ---- */

/* Opens the file for the reports of a job, to append.  In a folder that others can write to,
 * this name may be a link of theirs to a file of ours.  NULL and errno. */
static FILE *report_file(const char *name)
{
    const struct foreign wanted = {.kind = FOREIGN_SINGLE, .user = geteuid()};
    int fd = foreign_open(name, O_RDWR, &wanted);
    FILE *file;

    if (fd == -ENOENT) {
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    lseek(fd, 0, SEEK_END);
    file = fdopen(fd, "a");
    if (file == NULL)
        close(fd);
    return file;
}

static const char *why_no_file(int err)
{
    return err == EPERM || err == EINVAL || err == ELOOP
               ? "there is something of another user's, a link, or no file"
               : strerror(err);
}

/* Writes a report to standard error, in one piece; one of a deadlock also into a file. */
static void report(const struct inspect_job *before, const struct inspect_job *now,
                   const enum inspect_node *nodes, enum diagnose_verdict verdict,
                   const char *about)
{
    bool to_file = verdict != DIAGNOSE_NONE;
    char name[64], *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size), *file;

    if (out == NULL)
        return;
    fprintf(out, "matchbox: MBX_HANG: %s\n", about);
    diagnose_say(out, before, now, nodes, verdict);
    if (fclose(out) != 0)
        return;
    snprintf(name, sizeof name, "matchbox-hang-%016" PRIx64 ".txt", now->ranks[0].head.job);
    file = to_file ? report_file(name) : NULL;
    if (to_file && file == NULL)
        fprintf(stderr, "matchbox: MBX_HANG: cannot write %s: %s\n", name, why_no_file(errno));
    if (file != NULL) {
        fwrite(text, 1, size, file);
        fclose(file);
    }
    for (size_t done = 0; done < size;) {
        ssize_t put = write(STDERR_FILENO, text + done, size - done);

        if (put <= 0)
            break;
        done += (size_t)put;
    }
    free(text);
}

static uint64_t seconds_of(const struct hang *hang)
{
    return (hang->reported->hang_ns + (clock_now() - hang->begin_ns)) / CLOCK_S;
}

static const char *condition_of(enum diagnose_verdict verdict)
{
    return verdict == DIAGNOSE_UNLESS
               ? ", unless a thread that has never communicated sends one"
           : verdict == DIAGNOSE_IF_POLLS ? ", if ranks that poll do nothing else"
                                          : "";
}

static void on_deadlock(struct hang *hang, const struct inspect_job *before,
                        const struct inspect_job *now, const enum inspect_node *nodes,
                        enum diagnose_verdict verdict)
{
    bool is_certain = verdict == DIAGNOSE_DEADLOCK;
    bool aborts = hang->reported->aborts && is_certain;
    char about[160];
    uint32_t first = 0;

    if (verdict > hang->said)
        hang->reports = 0;
    hang->said = verdict > hang->said ? verdict : hang->said;
    if (hang->reports == REPORTS)
        return;
    hang->reports++;
    hang->said_ns = clock_now();
    while (nodes[first] != INSPECT_DEADLOCKED)
        first++;
    watch(hang, &now->ranks[first]);
    snprintf(about, sizeof about, "no message has come for %" PRIu64 " s, and nothing can%s%s",
             seconds_of(hang), condition_of(verdict),
             aborts              ? "; the job is ended (MBX_HANG_THEN=abort)"
             : hang->reports > 1 ? " (again)"
                                 : "");
    report(before, now, nodes, verdict, about);
    if (aborts)
        tell(INSPECT_HANG_ABORT);
}

static void on_none(struct hang *hang, const struct inspect_job *before,
                    const struct inspect_job *now, const enum inspect_node *nodes)
{
    char about[128];

    if (hang->reports != 0 || hang->has_explained ||
        clock_now() - hang->begin_ns < (AGAIN - 1) * hang->reported->hang_ns)
        return;
    hang->has_explained = true;
    snprintf(about, sizeof about,
             "no message has come to a rank for %" PRIu64 " s, but this is no deadlock",
             seconds_of(hang));
    report(before, now, nodes, DIAGNOSE_NONE, about);
}

/* ---- the story ---- */

static int look_at_job(void *hang, struct observed *out)
{
    int err = observe(&((struct hang *)hang)->wanted, out);

    return err == 0 ? observed_keep_matching(out) : err;
}

static int rest_or_end(void *hang, uint64_t ns)
{
    return rest(hang, ns) ? 0 : -ESRCH;
}

/* 0; a negative errno: the rank is gone, or nothing can be seen. */
static int look_at_all(struct hang *hang, struct looks *looks)
{
    const struct looks_ways ways = {.look = look_at_job, .rest = rest_or_end, .arg = hang};
    int err = look_at_job(hang, &looks->all[looks->count++]);

    if (err == 0)
        err = rest_or_end(hang, hang->between_ns);
    if (err == 0)
        err = look_at_job(hang, &looks->all[looks->count++]);
    return err == 0 ? looks_go_on(looks, &ways) : err;
}

static void judge(struct hang *hang, const struct looks *looks, const struct inspect_job *job,
                  enum inspect_node *nodes)
{
    const struct inspect_job was = looks_ranks(&looks->all[looks->count - 2]);
    bool is_late = clock_now() - hang->said_ns >= (AGAIN - 1) * hang->reported->hang_ns;
    enum diagnose_verdict verdict = looks_judge(looks, job, nodes);

    if (verdict == DIAGNOSE_NONE)
        on_none(hang, &was, job, nodes);
    else if (is_late || verdict > hang->said)
        on_deadlock(hang, &was, job, nodes, verdict);
}

/* False: the watch is over. */
static bool look(struct hang *hang)
{
    struct looks looks = {.quiet_ns = hang->quiet_ns};
    const struct inspect_job *job = NULL;
    const struct inspect_rank *watched = NULL;
    enum inspect_node *nodes = NULL;
    bool goes_on;

    if (look_at_all(hang, &looks) == 0 && looks.all[looks.count - 1].count == 1)
        job = &looks.all[looks.count - 1].jobs[0];
    if (job != NULL)
        watched = rank_of(job, hang->watched);
    if (watched != NULL && !hang->is_begun)
        watch(hang, watched);
    if (watched != NULL && !has_moved(hang, watched))
        nodes = mem_calloc(job->count, sizeof *nodes);
    goes_on = nodes != NULL;
    if (goes_on)
        judge(hang, &looks, job, nodes);
    looks_free(&looks);
    mem_free(nodes);
    return goes_on;
}

int watchdog_run(const struct watchdog *watchdog, const struct observe_options *wanted,
                 uint64_t between_ns, uint64_t quiet_ns)
{
    struct hang hang = {.reported = watchdog,
                        .wanted = *wanted,
                        .between_ns = between_ns,
                        .quiet_ns = quiet_ns,
                        .begin_ns = clock_now(),
                        .said_ns = clock_now(),
                        .watched = (uint32_t)watchdog->pid};
    uint64_t each_ns = watchdog->hang_ns / 2;
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* they were blocked by the rank */
    signal(SIGPIPE, SIG_IGN);
    each_ns = each_ns < EACH_LEAST ? EACH_LEAST : each_ns > EACH_MOST ? EACH_MOST : each_ns;
    hang.pidfd = sys_pidfd_open(watchdog->pid);
    if (hang.pidfd < 0)
        return TOOL_FAILED;
    if (!is_alone(wanted->job)) {
        tell(INSPECT_HANG_BUSY);
        return TOOL_DONE;
    }
    while (look(&hang) && rest(&hang, each_ns))
        ;
    if (rest(&hang, 0))
        tell(INSPECT_HANG_OVER);
    return TOOL_DONE;
}
