/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.c - queries hosts through launchers, see hosts.h.
 *
 *   command ──fork, exec──> launcher ──> mbx queues --snapshot, on one host or on several
 *      its standard output ──> snapshots (snapshot.h)      its standard error ──> its last line, if there is no answer
 *
 * AT_ONCE launchers run at a time.  A launcher that exceeds its time is ended, with the processes that it has started here; if mbx is
 * interrupted, all are.
 */
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "snapshot.h"
#include "tools/common/interrupt.h"
#include "tools/common/process.h"
#include "tools/common/tool.h"

#define AT_ONCE  64
#define LIMIT_NS (30 * CLOCK_S)
#define LOOK_NS  (5 * CLOCK_MS) /* interval to check for the end of one with closed output */
#define TRIES    3              /* with a launcher that mixes the lines of hosts */
#define GRACE_NS CLOCK_S        /* from SIGTERM to SIGKILL, and again after that */
#define SAID     2048

/* ---- options ---- */

int hosts_init(struct hosts *hosts, int argc)
{
    *hosts = (struct hosts){.limit_ns = LIMIT_NS,
                            .launches = mem_calloc((size_t)argc + 1, sizeof *hosts->launches)};
    return hosts->launches != NULL ? 0 : -ENOMEM;
}

int hosts_option(struct hosts *hosts, const struct tool *tool, int option, const char *text)
{
    int err = 0;

    if (option == 'E') {
        hosts->is_all = true;
    } else if (option == 'L') {
        hosts->launches[hosts->launch_count++] = text;
    } else if (option == 'O' && hosts->list != NULL) {
        err = tool_usage_error(tool, "--hosts is given once, with all names in it");
    } else if (option == 'O') {
        hosts->list = text;
    } else if (option == 'X') {
        hosts->mbx = text;
    } else if (option == 'Y') {
        err = tool_time(tool, "--launch-wait", text, "ms", CLOCK_MS, 3600 * CLOCK_S,
                        &hosts->limit_ns);
    } else {
        return -1;
    }
    return err;
}

/* Splits a command line into words: spaces separate, and quotes and backslashes work as in a
 * shell, but no shell runs. `host` replaces %h.  0; -ENOMEM; -EINVAL: a quote does not end, or
 * there is no word. */
static int split(const char *line, const char *host, char ***out)
{
    size_t size = strlen(line) + 1, count = 0, used = 0;
    char **words, *text, quote = '\0';
    bool is_word = false;

    for (const char *c = line; host != NULL && (c = strstr(c, "%h")) != NULL; c += 2)
        size += strlen(host);
    words = mem_calloc(1, (size / 2 + 2) * sizeof *words + size);
    if (words == NULL)
        return -ENOMEM;
    text = (char *)(words + size / 2 + 2);
    for (; *line != '\0'; line++) {
        bool is_space = quote == '\0' && (*line == ' ' || *line == '\t' || *line == '\n');

        if (is_space && is_word)
            text[used++] = '\0';
        if (!is_space && !is_word)
            words[count++] = text + used;
        is_word = !is_space;
        if (is_space)
            continue;
        if (quote == '\0' && (*line == '\'' || *line == '"')) {
            quote = *line;
        } else if (*line == quote) {
            quote = '\0';
        } else if (*line == '\\' && quote != '\'' && line[1] != '\0') {
            text[used++] = *++line;
        } else if (host != NULL && strncmp(line, "%h", 2) == 0) {
            memcpy(text + used, host, strlen(host));
            used += strlen(host);
            line++;
        } else {
            text[used++] = *line;
        }
    }
    *out = words;
    return quote == '\0' && count != 0 ? 0 : -EINVAL;
}

/* For a long command its end, which usually contains the host. */
static void label(const char *text, char to[HOSTS_LABEL])
{
    size_t size = strlen(text);

    if (size < HOSTS_LABEL)
        snprintf(to, HOSTS_LABEL, "%s", text);
    else
        snprintf(to, HOSTS_LABEL, "...%s", text + size - (HOSTS_LABEL - 4));
    text_make_printable(to, '?', false);
}

static int add_command(struct hosts *hosts, const struct tool *tool, const char *launch,
                       const char *host)
{
    struct hosts_command *command = &hosts->commands[hosts->count];
    int err = split(launch, host, &command->words);

    hosts->count++;
    if (err == -ENOMEM) {
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    if (err != 0)
        return tool_usage_error(tool, "--launch takes a command line, not '%s'", launch);
    label(host != NULL ? host : launch, command->label);
    return 0;
}

/* Is it this host?  A launcher may leave out the domain. */
static bool is_here(const char *host)
{
    char name[HOST_NAME_MAX + 1];
    size_t length = strcspn(host, ".");

    if (gethostname(name, sizeof name) != 0)
        return false;
    name[sizeof name - 1] = '\0';
    return strcspn(name, ".") == length && strncmp(name, host, length) == 0;
}

/* --all finds the job by a rank of this host, so this host is asked also if the launcher's list does not have it. */
static int add_here(struct hosts *hosts, const struct tool *tool)
{
    char name[HOST_NAME_MAX + 1];

    if (gethostname(name, sizeof name) != 0)
        name[0] = '\0';
    name[sizeof name - 1] = '\0';
    return add_command(hosts, tool, "env", name);
}

/* Adds one command for each host of the list.  With --all this host needs no launcher. */
static int add_list(struct hosts *hosts, const struct tool *tool)
{
    bool needs_here = hosts->is_all;
    const char *launch =
        hosts->launch_count == 1 ? hosts->launches[0] : "ssh -oBatchMode=yes %h";
    char *list = strdup(hosts->list), *rest = list, *host;
    int status = 0;

    if (list == NULL) {
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    while (status == 0 && (host = strsep(&rest, ",")) != NULL) {
        bool is_local = hosts->is_all && is_here(host);

        if (*host == '\0' || *host == '-')
            status = tool_usage_error(tool, "--hosts takes names with commas between, not '%s'",
                                      hosts->list);
        else
            status = add_command(hosts, tool, is_local ? "env" : launch, host);
        needs_here &= !is_local;
    }
    free(list);
    return status == 0 && needs_here ? add_here(hosts, tool) : status;
}

bool hosts_are_wanted(const struct hosts *hosts)
{
    return hosts->is_all || hosts->launch_count != 0 || hosts->list != NULL;
}

int hosts_prepare(struct hosts *hosts, const struct tool *tool, struct observe_options *wanted)
{
    size_t most;
    int status = 0;

    if (hosts->is_all && hosts->list != NULL)
        return tool_usage_error(tool, "--all finds the hosts: --hosts has no use with it");
    if (hosts->is_all && (status = hosts_find_all(hosts, tool, wanted)) != 0)
        return status;
    most = hosts->launch_count;
    if (hosts->launch_count == 0 && hosts->list == NULL)
        return 0;
    if (hosts->list != NULL &&
        (hosts->launch_count > 1 ||
         (hosts->launch_count == 1 && strstr(hosts->launches[0], "%h") == NULL)))
        return tool_usage_error(tool,
                                "%s takes one --launch, with %%h in the place of a host's name",
                                hosts->is_all ? "--all" : "--hosts");
    for (const char *c = hosts->list; c != NULL && *c != '\0'; c++)
        most += *c == ',';
    /* one more for the last name, and one for this host */
    hosts->commands = mem_calloc(most + 2, sizeof *hosts->commands);
    if (hosts->commands == NULL) {
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    if (hosts->list != NULL)
        return add_list(hosts, tool);
    for (uint32_t i = 0; status == 0 && i < hosts->launch_count; i++)
        status = add_command(hosts, tool, hosts->launches[i], NULL);
    return status;
}

void hosts_fini(struct hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        mem_free(hosts->commands[i].words);
    mem_free(hosts->commands);
    mem_free(hosts->launches);
    hosts_names_free(&hosts->found);
}

/* ---- a launcher that runs ---- */

struct running {
    struct hosts_command *command;
    pid_t pid;
    int out, err;            /* its output pipes; -1: closed */
    uint64_t end_ns;         /* its time limit */
    bool is_late, is_killed; /* SIGTERM, SIGKILL was sent; end_ns is the limit to end */
    bool is_left;            /* it has not ended by then */
    bool is_reaped;
    int status;      /* of waitpid() */
    char said[SAID]; /* the end of its standard error */
    size_t said_size;
    struct snapshots snapshots;
};

/* Executes a launcher in a child of `parent`.  The child ends with mbx, even if mbx is killed
 * before prctl(). */
static void become(struct hosts_command *command, char *const *arguments, int out, int err,
                   pid_t parent, const struct interrupt *held)
{
    size_t words = 0, more = 0;
    char **argv;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    while (command->words[words] != NULL)
        words++;
    while (arguments[more] != NULL)
        more++;
    argv = calloc(words + more + 1, sizeof *argv);
    if (argv == NULL || null < 0)
        _exit(TOOL_CANNOT_RUN);
    memcpy(argv, command->words, words * sizeof *argv);
    memcpy(argv + words, arguments, more * sizeof *argv);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    interrupt_forget(held);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(TOOL_CANNOT_RUN);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? TOOL_NOT_FOUND : TOOL_CANNOT_RUN);
}

struct look {
    struct hosts *hosts;
    char *const *arguments;
    struct hosts_merge merge;
    struct interrupt held;
    size_t bytes; /* total size of all answers */
    bool is_late; /* one of them was late */
    int error;
};

/* Starts a launcher.  0; a negative errno. */
static int start(struct running *running, struct hosts_command *command, struct look *look)
{
    int out[2], err[2], error;
    pid_t self = getpid();

    *running = (struct running){.command = command,
                                .end_ns = clock_now() + look->hosts->limit_ns,
                                .snapshots = {.bytes = &look->bytes}};
    if (pipe2(out, O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(err, O_CLOEXEC) < 0) {
        error = -errno;
        close(out[0]);
        close(out[1]);
        return error;
    }
    running->pid = fork();
    if (running->pid == 0)
        become(command, look->arguments, out[1], err[1], self, &look->held);
    error = running->pid < 0 ? -errno : 0;
    close(out[1]);
    close(err[1]);
    running->out = out[0];
    running->err = err[0];
    if (error != 0) {
        close(out[0]);
        close(err[0]);
    }
    return error;
}

/* Keeps the end of standard error: its last line has the reason of a failure. */
static void keep_said(struct running *running, const char *bytes, size_t size)
{
    size_t drop;

    if (size > SAID) {
        bytes += size - SAID;
        size = SAID;
    }
    drop = running->said_size + size > SAID ? running->said_size + size - SAID : 0;
    memmove(running->said, running->said + drop, running->said_size - drop);
    memcpy(running->said + running->said_size - drop, bytes, size);
    running->said_size += size - drop;
}

static void read_from(struct running *running, int *fd)
{
    char bytes[16384];
    ssize_t size = read(*fd, bytes, sizeof bytes);

    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size <= 0) {
        close(*fd);
        *fd = -1;
    } else {
        bool is_err = fd == &running->err;

        snapshots_add(&running->snapshots, is_err, bytes, (size_t)size);
        if (is_err)
            keep_said(running, bytes, (size_t)size);
    }
}

/* Waits until a launcher prints something or may have ended, or a time limit is reached.  0;
 * -EINTR. */
static int wait_for_any(const struct look *look, struct running *all, uint32_t count)
{
    struct pollfd fds[2 * AT_ONCE];
    uint64_t now = clock_now(), end = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++) {
        fds[2 * i] = (struct pollfd){.fd = all[i].out, .events = POLLIN};
        fds[2 * i + 1] = (struct pollfd){.fd = all[i].err, .events = POLLIN};
        end = all[i].end_ns < end ? all[i].end_ns : end;
        if ((all[i].out < 0 || all[i].is_late) && now + LOOK_NS < end)
            end = now + LOOK_NS;
    }
    if (interrupt_poll(&look->held, fds, 2 * count,
                       end <= now ? 0 : (int)((end - now) / CLOCK_MS) + 1))
        return -EINTR;
    for (uint32_t i = 0; i < count; i++) {
        if (fds[2 * i].revents != 0)
            read_from(&all[i], &all[i].out);
        if (fds[2 * i + 1].revents != 0)
            read_from(&all[i], &all[i].err);
    }
    return 0;
}

static void close_both(struct running *running)
{
    if (running->out >= 0)
        close(running->out);
    if (running->err >= 0)
        close(running->err);
    running->out = running->err = -1;
}

/* Reads the rest of standard error of a launcher that has ended. */
static void read_rest(struct running *running)
{
    struct pollfd one = {.fd = running->err, .events = POLLIN};

    while (running->err >= 0 && poll(&one, 1, 0) > 0)
        read_from(running, &running->err);
}

/* SIGTERM lets a launcher end the processes that it has started elsewhere.  A launcher that
 * remains is killed; one that still remains, in an uninterruptible call, is left alone. */
static void end_late(struct running *running)
{
    if (clock_now() < running->end_ns)
        return;
    if (running->is_killed)
        running->is_left = true;
    else
        kill(running->pid, running->is_late ? SIGKILL : SIGTERM);
    running->is_killed = running->is_late;
    running->is_late = true;
    running->end_ns = clock_now() + GRACE_NS;
}

/* Has the launcher ended, or has it exceeded its time?  Its standard error does not show the
 * end: ssh may leave a process that holds it open (ControlPersist). */
static bool has_ended(struct running *running)
{
    if (running->out < 0 || running->is_late)
        running->is_reaped = waitpid(running->pid, &running->status, WNOHANG) == running->pid;
    if (running->is_reaped)
        read_rest(running);
    else
        end_late(running);
    return running->is_reaped || running->is_left;
}

/* ---- answers ---- */

/* The last line of a launcher's standard error, made printable; lines of snapshots do not
 * count. */
static void last_words(const struct running *running, char *words, size_t size)
{
    size_t end = running->said_size, start = end;

    words[0] = '\0';
    while (words[0] == '\0' && end > 0) {
        for (start = end; start > 0 && running->said[start - 1] != '\n';)
            start--;
        if (memmem(running->said + start, end - start, SNAPSHOT_MARK,
                   sizeof SNAPSHOT_MARK - 1) == NULL)
            snprintf(words, size, "%.*s", (int)(end - start), running->said + start);
        end = start > 0 ? start - 1 : 0;
    }
    for (char *c = words; (c = strchr(c, '\r')) != NULL;)
        *c = ' ';
    text_make_printable(words, '?', false);
}

static void why_none(const struct running *running, uint64_t limit_ns, char *why, size_t size)
{
    char words[128];

    last_words(running, words, sizeof words);
    if (running->is_late)
        snprintf(why, size, "no answer within %" PRIu64 " ms (--launch-wait)%s%s",
                 limit_ns / CLOCK_MS, words[0] != '\0' ? ": " : "", words);
    else if (WIFSIGNALED(running->status))
        snprintf(why, size, "signal %d%s%s", WTERMSIG(running->status),
                 words[0] != '\0' ? ": " : "", words);
    else if (running->status != 0)
        snprintf(why, size, "exit status %d%s%s", WEXITSTATUS(running->status),
                 words[0] != '\0' ? ": " : "", words);
    else if (running->snapshots.version != 0)
        snprintf(why, size,
                 "its mbx writes snapshots in lines of version %u; mbx %s reads version 1",
                 running->snapshots.version, mbx_version());
    else
        snprintf(why, size, "it has printed no snapshot%s%s", words[0] != '\0' ? ": " : "",
                 words);
}

/* Merges the answers.  Returns the number of answers that are mixed with others. */
static uint32_t take_answers(struct look *look, struct running *running)
{
    uint32_t mixed = 0;

    snapshots_end(&running->snapshots);
    if (running->snapshots.has_no_memory)
        look->error = -ENOMEM;
    for (uint32_t i = 0; look->error == 0 && i < running->snapshots.count; i++) {
        struct snapshot *snapshot = &running->snapshots.all[i];
        struct observed one;

        if (!snapshot_is_whole(snapshot)) {
            mixed++;
            continue;
        }
        snapshot->is_taken = snapshot_read(snapshot->text, snapshot->size, &one) == NULL;
        running->command->has_answered |= snapshot->is_taken;
        if (snapshot->is_taken)
            look->error = hosts_merge_add(&look->merge, &one);
        observe_free(&one);
    }
    return mixed;
}

static void say_none(struct look *look, struct hosts_command *command, const char *why)
{
    snprintf(command->why, sizeof command->why, "%s", why);
    look->error = hosts_merge_none(&look->merge, command->label, why);
}

/* Was this reported for a host since `first`?  A launcher may start mbx several times on
 * each. */
static bool is_said(const struct hosts_merge *merge, uint32_t first, const char *why)
{
    for (uint32_t i = first; i < merge->host_count; i++)
        if (strcmp(merge->hosts[i].why, why) == 0)
            return true;
    return false;
}

/* Reports refused answers, unless another answer of the same host was accepted.  Returns the
 * number of mixed ones. */
static uint32_t say_refused(struct look *look, struct running *running)
{
    uint32_t mixed = 0, first = look->merge.host_count;

    for (uint32_t i = 0; look->error == 0 && i < running->snapshots.count; i++) {
        const struct snapshot *snapshot = &running->snapshots.all[i];
        struct observed one;
        const char *wrong;

        if (snapshot->is_taken)
            continue;
        wrong =
            snapshot_read(snapshot->text != NULL ? snapshot->text : "", snapshot->size, &one);
        if (one.host_count != 0 && hosts_merge_has(&look->merge, &one.hosts[0]))
            wrong = NULL;
        else if (!snapshot_is_whole(snapshot))
            mixed++;
        else if (wrong != NULL && !is_said(&look->merge, first, wrong))
            say_none(look, running->command, wrong);
        observe_free(&one);
    }
    return mixed;
}

/* Reports on a launcher that has ended, and is not started again. */
static void finish(struct look *look, struct running *running)
{
    struct hosts_command *command = running->command;
    bool is_one = look->hosts->list != NULL && command->has_answered; /* its one host */
    uint32_t mixed = say_refused(look, running);
    char why[OBSERVE_REFUSED];

    command->is_gone = !command->has_answered;
    if (look->error != 0 || is_one)
        return;
    if (mixed != 0) {
        snprintf(why, sizeof why, "%" PRIu32 " answers are damaged, or have not ended%s", mixed,
                 running->snapshots.is_full ? ": all answers are longer than 256 MiB" : "");
        say_none(look, command, why);
    } else if (running->is_late || running->status != 0 || running->snapshots.count == 0) {
        why_none(running, look->hosts->limit_ns, why, sizeof why);
        say_none(look, command, why);
    }
}

/* ---- a look ---- */

/* A launcher that has mixed the lines of hosts is started again; hosts that have answered are
 * not merged twice. */
static bool is_called_again(const struct running *running, uint32_t mixed, unsigned tries)
{
    return mixed != 0 && tries < TRIES && !running->is_late && running->status == 0 &&
           !running->snapshots.is_full;
}

/* Handles a launcher that has ended; false: it runs again. */
static bool settle(struct look *look, struct running *running)
{
    struct hosts_command *command = running->command;
    uint32_t mixed;
    bool again;

    close_both(running);
    look->is_late |= running->is_late;
    mixed = take_answers(look, running);
    again = look->error == 0 && is_called_again(running, mixed, ++command->tries);
    if (!again)
        finish(look, running);
    snapshots_free(&running->snapshots);
    if (again)
        look->error = start(running, command, look);
    return !again || look->error != 0;
}

/* After an error: ends all running launchers at once. */
static void give_up(struct running *all, uint32_t count)
{
    uint32_t open = count;

    for (uint32_t i = 0; i < count; i++) {
        close_both(&all[i]);
        all[i].end_ns = all[i].is_late ? all[i].end_ns : 0;
    }
    while (open > 0) {
        open = 0;
        for (uint32_t i = 0; i < count; i++)
            open += !all[i].is_reaped && !all[i].is_left && !has_ended(&all[i]);
        usleep(open > 0 ? LOOK_NS / CLOCK_US : 0);
    }
    for (uint32_t i = 0; i < count; i++)
        snapshots_free(&all[i].snapshots);
}

static void call_all(struct look *look)
{
    struct running *all = mem_calloc(AT_ONCE, sizeof *all);
    uint32_t next = 0, count = 0;

    look->error = all != NULL ? 0 : -ENOMEM;
    while (look->error == 0 && (count > 0 || next < look->hosts->count)) {
        while (look->error == 0 && count < AT_ONCE && next < look->hosts->count) {
            struct hosts_command *command = &look->hosts->commands[next++];

            command->tries = 0;
            command->has_answered = false;
            if (command->is_gone)
                look->error = hosts_merge_none(&look->merge, command->label, command->why);
            else if ((look->error = start(&all[count], command, look)) == 0)
                count++;
        }
        if (look->error == 0 && count > 0)
            look->error = wait_for_any(look, all, count);
        for (uint32_t i = count; look->error == 0 && i > 0; i--)
            if (has_ended(&all[i - 1]) && settle(look, &all[i - 1]))
                memmove(&all[i - 1], &all[i], (--count - (i - 1)) * sizeof *all);
    }
    if (all != NULL)
        give_up(all, count);
    mem_free(all);
}

/* The arguments after the words of each launcher. */
struct arguments {
    char *words[16];
    char wait[24], job[24], rank[16];
};

static void make_arguments(struct arguments *arguments, char *mbx,
                           const struct observe_options *wanted, bool stats, bool details)
{
    static char queues[] = "queues", snapshot[] = "--snapshot", wait[] = "--wait",
                job[] = "--job", rank[] = "--rank", more[] = "--details", counts[] = "--stats";
    size_t at = 0;

    snprintf(arguments->wait, sizeof arguments->wait, "%" PRIu64, wanted->wait_ns / CLOCK_MS);
    snprintf(arguments->job, sizeof arguments->job, "%016" PRIx64, wanted->job);
    snprintf(arguments->rank, sizeof arguments->rank, "%" PRIu32, wanted->rank);
    arguments->words[at++] = mbx;
    arguments->words[at++] = queues;
    arguments->words[at++] = snapshot;
    arguments->words[at++] = wait;
    arguments->words[at++] = arguments->wait;
    if (wanted->job != 0) {
        arguments->words[at++] = job;
        arguments->words[at++] = arguments->job;
    }
    if (wanted->rank != INSPECT_NOBODY) {
        arguments->words[at++] = rank;
        arguments->words[at++] = arguments->rank;
    }
    if (stats)
        arguments->words[at++] = counts;
    if (details)
        arguments->words[at++] = more;
    arguments->words[at] = NULL;
}

int hosts_look(struct hosts *hosts, const struct observe_options *wanted, bool stats,
               bool details, struct observed *out)
{
    char *own = hosts->mbx == NULL ? tool_own_path() : NULL, *copy = NULL;
    struct look look = {.hosts = hosts};
    struct arguments arguments;
    uint64_t started;

    *out = (struct observed){.count = 0};
    if (hosts->mbx != NULL)
        copy = strdup(hosts->mbx);
    if (own == NULL && copy == NULL)
        return -ENOMEM;
    make_arguments(&arguments, own != NULL ? own : copy, wanted, stats, details);
    look.arguments = arguments.words;
    signal(SIGCHLD, SIG_DFL); /* if SIGCHLD is ignored, waitpid() finds no child */
    interrupt_hold(&look.held);
    process_adopt_orphans();
    started = process_started(getpid());
    call_all(&look);
    if (look.is_late || look.error != 0)
        process_end_descendants(started); /* processes that a launcher has left */
    process_leave_orphans();
    interrupt_release(&look.held);
    mem_free(own);
    free(copy);
    if (look.error == 0)
        return hosts_merge_end(&look.merge, out);
    hosts_merge_end(&look.merge, out);
    observe_free(out);
    *out = (struct observed){.count = 0};
    return look.error;
}

/* ---- in words ---- */

uint32_t hosts_say(FILE *out, const struct observed *observed)
{
    uint32_t silent = 0;

    for (uint32_t i = 0; i < observed->host_count; i++) {
        const struct observed_host *host = &observed->hosts[i];

        silent += !host->has_answered;
        if (!host->has_answered)
            fprintf(out, "%s has not answered: %s; its ranks are not known\n", host->name,
                    host->why);
        else if (host->refused != 0)
            fprintf(out, "%s: %" PRIu32 " endpoints cannot be read; %s\n", host->name,
                    host->refused, host->why);
        if (host->has_answered && strcmp(host->library, mbx_version()) != 0)
            fprintf(out, "%s has mbx %s, and this is mbx %s\n", host->name, host->library,
                    mbx_version());
    }
    return silent;
}
