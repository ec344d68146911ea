/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outside_line.c - the line of the program at which a rank is in its call.
 *
 * It comes from files that the process has mapped, and from its memory.  If the process is another user's, they may be
 * anything: so large that reading takes for ever, made to crash a reader, or something that blocks who opens or reads it,
 * such as a pipe, or a file of a FUSE of this user.  No check before opening shows the last one: a FUSE may lie below
 * another file system, and the reader (libdw) opens files that the first one names.  So a child reads for such a process,
 * and is killed when its time is over.  All children together have OTHERS_NS.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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

    return poll(&one, 1, (int)(time_ns / CLOCK_MS)) == 1 &&
           read(fd, line, sizeof *line) == sizeof *line;
}

/* In the child. */
static _Noreturn void line_write(const struct python_thread *of, int fd)
{
    struct line line = {.is_unread = false};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    line_find(of, &line);
    _exit(write(fd, &line, sizeof line) == sizeof line ? 0 : 1);
}

static void line_find_apart(const struct python_thread *of, struct line *line)
{
    static uint64_t left_ns = OTHERS_NS;
    uint64_t begin_ns = clock_now();
    int ends[2];
    pid_t child;

    line->is_unread = true;
    if (left_ns < CLOCK_MS || pipe2(ends, O_CLOEXEC) != 0)
        return;
    child = fork();
    if (child == 0)
        line_write(of, ends[1]);
    close(ends[1]);
    if (child > 0 && line_await(ends[0], left_ns, line)) {
        waitpid(child, NULL, 0); /* it ends */
    } else if (child > 0) {
        *line = (struct line){.is_unread = true};
        kill(child, SIGKILL);
        waitpid(child, NULL, WNOHANG); /* a file system may keep it for longer */
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

const char *outside_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX])
{
    struct line line;

    if (rank->reported != NULL)
        snprintf(line.words, sizeof line.words, "%s", rank->reported->line);
    else
        line_of_rank(rank, &line);
    memcpy(words, line.words, sizeof line.words);
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
        line_of_rank(rank, &line);
        words_of_rank(rank, words);
        words_of_process(rank, process);
        if (line.is_unread)
            fprintf(out,
                    "rank %s (%s): no line of its program: the files of another user's process "
                    "are read for %d s at most, and these cannot be read, or take longer\n",
                    words, process, OTHERS_S);
        else if (line.why[0] != '\0')
            fprintf(out, "rank %s (%s): no Python line: %s\n", words, process, line.why);
    }
}
