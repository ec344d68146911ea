/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside_line.c - the line of the program at which a rank is in its call.
 *
 * It comes from files that the process has mapped, and from its memory.  If the process is another user's, they may be
 * anything: so large that reading takes for ever, made to crash a reader, or something that blocks whoever opens or reads
 * it, such as a pipe, or a file of a FUSE of this user.  No check before opening shows the last one: a FUSE may lie below
 * another file system, and the reader (libdw) opens files that the first one names.  So a child reads for such a process,
 * and is killed when its time is over.  All children of a report together have OTHERS_NS.  A child of root opens files as the user
 * of the process, and keeps nothing open that a caller of the tool waits for: a FUSE may keep it from ending.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/text.h"
#include "diagnose.h"
#include "python.h"
#include "words.h"

#define OTHERS_S  5
#define OTHERS_NS (OTHERS_S * CLOCK_S) /* for the lines of all processes of other users */

struct line {
    char words[OUTSIDE_MAX]; /* empty: there is none */
    char why[PYTHON_WHY];    /* there is no line of Python, although it runs Python */
    bool is_unread;          /* or its files were not read */
};

static void line_find(const struct python_thread *of, struct line *line)
{
    char python[PYTHON_LINE], source[OUTSIDE_MAX];
    bool is_binding, has_python = python_line(of, python, line->why, &is_binding);
    bool has_source =
        !(has_python && is_binding) && source_line(of->pid, of->caller, source) != NULL;

    if (has_python && has_source)
        snprintf(line->words, sizeof line->words, "%.30s, from %.115s", source, python);
    else if (has_python || has_source)
        snprintf(line->words, sizeof line->words, "%s", has_python ? python : source);
}

/* Waits for the line of a child that writes it to fd; false: it has not come in time. */
static bool line_await(int fd, uint64_t time_ns, struct line *line)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    uint64_t until_ns = clock_now() + time_ns, now_ns;
    int count;

    do {
        now_ns = clock_now();
        count = now_ns < until_ns ? poll(&one, 1, (int)((until_ns - now_ns) / CLOCK_MS)) : 0;
    } while (count < 0 && errno == EINTR);
    return count == 1 && read(fd, line, sizeof *line) == sizeof *line;
}

/* Closes all files but fd, which it moves.  -1: it failed. */
static int child_files(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (null < 0 || fd < 0)
        return -1;
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (dup2(null, i) < 0)
            return -1;
    if ((fd > STDERR_FILENO + 1 && close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0) != 0) ||
        close_range((unsigned)fd + 1, ~0u, 0) != 0)
        return -1;
    return fd;
}

/* Root opens files with the rights of the process; it may still read its memory. */
static bool child_rights(uint32_t pid)
{
    const struct rlimit none = {0, 0};
    char path[32];
    struct stat stat_of;

    (void)setrlimit(RLIMIT_CORE, &none);
    if (geteuid() != 0)
        return true;
    snprintf(path, sizeof path, "/proc/%u", pid);
    if (stat(path, &stat_of) != 0 || setgroups(0, NULL) != 0)
        return false;
    setfsgid(stat_of.st_gid);
    setfsuid(stat_of.st_uid);
    return (uid_t)setfsuid((uid_t)-1) == stat_of.st_uid;
}

static void child_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* handlers of the tool may write to the terminal */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child. */
static _Noreturn void line_write(const struct python_thread *of, pid_t parent, int fd)
{
    struct line line = {.is_unread = false};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    child_signals();
    fd = child_files(fd);
    if (getppid() != parent || fd < 0 || !child_rights(of->pid))
        _exit(1);
    line_find(of, &line);
    _exit(write(fd, &line, sizeof line) == sizeof line ? 0 : 1);
}

/* A file system may keep it for longer: then a later call reaps it. */
static void child_reap(pid_t child)
{
    static pid_t left[16];
    static unsigned next;

    for (unsigned i = 0; i < ARRAY_COUNT(left); i++)
        if (left[i] != 0 && waitpid(left[i], NULL, WNOHANG) != 0)
            left[i] = 0;
    if (waitpid(child, NULL, WNOHANG) == 0)
        left[next++ % ARRAY_COUNT(left)] = child;
}

static uint64_t left_ns = OTHERS_NS; /* for children of this report */

void outside_begin(void)
{
    left_ns = OTHERS_NS;
}

static void line_find_apart(const struct python_thread *of, struct line *line)
{
    uint64_t begin_ns = clock_now();
    pid_t child, self = getpid();
    int ends[2];

    line->is_unread = true;
    if (left_ns < CLOCK_MS || pipe2(ends, O_CLOEXEC) != 0)
        return;
    child = fork();
    if (child == 0)
        line_write(of, self, ends[1]);
    close(ends[1]);
    if (child > 0) {
        if (!line_await(ends[0], left_ns, line))
            *line = (struct line){.is_unread = true};
        kill(child, SIGKILL);
        child_reap(child);
    }
    close(ends[0]);
    left_ns -= min_size(clock_now() - begin_ns, left_ns);
}

/* Finds the line of a rank of this host. */
static void line_of_rank(const struct inspect_rank *rank, struct line *line)
{
    const struct python_thread of = {rank->head.pid, rank->state.answerer, rank->state.caller};

    *line = (struct line){.is_unread = false};
    if (rank->owner != 0)
        line_find_apart(&of, line);
    else
        line_find(&of, line);
    line->words[sizeof line->words - 1] = line->why[sizeof line->why - 1] = '\0';
    text_make_printable(line->words, '?', false); /* a name may be cut within a character */
    text_make_printable(line->why, '?', false);
}

/* Only why there is no line of Python, of a rank of this user. */
static void line_of_python(const struct inspect_rank *rank, struct line *line)
{
    const struct python_thread of = {rank->head.pid, rank->state.answerer, rank->state.caller};
    char python[PYTHON_LINE];
    bool is_binding;

    *line = (struct line){.is_unread = false};
    (void)python_line(&of, python, line->why, &is_binding);
    text_make_printable(line->why, '?', false);
}

bool outside_read_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX])
{
    struct line line = {.is_unread = false};

    if (rank->reported != NULL)
        snprintf(line.words, sizeof line.words, "%s", rank->reported->line);
    else
        line_of_rank(rank, &line);
    memcpy(words, line.words, sizeof line.words);
    return !line.is_unread;
}

const char *outside_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX])
{
    (void)outside_read_line(rank, words);
    return words[0] != '\0' ? words : NULL;
}

void outside_say_no_line(FILE *out, const struct inspect_job *job)
{
    char words[WORDS_MAX], process[WORDS_MAX];
    struct line line;

    for (uint32_t i = 0; i < job->count; i++) {
        const struct inspect_rank *rank = &job->ranks[i];

        if (rank->reported != NULL || rank->how != INSPECT_ASKED || rank->state.call[0] == '\0')
            continue;
        if (rank->owner != 0)
            line_of_rank(rank, &line);
        else
            line_of_python(rank, &line);
        words_of_rank(rank, words);
        words_of_process(rank, process);
        if (line.is_unread)
            fprintf(out,
                    "rank %s (%s): no line of its program: the files of other users' processes "
                    "are read for %d s in all, and these cannot be read, or take longer\n",
                    words, process, OTHERS_S);
        else if (line.why[0] != '\0')
            fprintf(out, "rank %s (%s): no Python line: %s\n", words, process, line.why);
    }
}
