/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_order.c - the folders of `mbx exec --record` and `--replay`.
 *
 * A folder has a record of each rank, which the rank makes, and job.txt, which tells people where they come from.  A job that
 * ranks spawn has a folder in it, spawn-N, and so have the events of a communicator, comm-N, in a program with threads, and
 * of a further endpoint, ep-N, in a program without MPI.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/text.h"
#include "exec.h"
#include "replay/replay.h"

#define JOB   "job.txt"
#define BEGIN "format 1\nmatchbox "

/* ---- contents of a folder ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), wanted = strlen(end);

    return length > wanted && strcmp(name + length - wanted, end) == 0;
}

/* "rank-12.mbxrec", "rank-12.mbxlate", "rank-12.mbxplaces" */
static bool is_record(const char *name)
{
    size_t digits;

    if (strncmp(name, "rank-", 5) != 0)
        return false;
    digits = strspn(name + 5, "0123456789");
    return digits > 0 && (strcmp(name + 5 + digits, ".mbxrec") == 0 ||
                          strcmp(name + 5 + digits, ".mbxlate") == 0 ||
                          strcmp(name + 5 + digits, ".mbxplaces") == 0);
}

/* Has a job.txt been written here? */
static bool is_job(int folder, const char *name)
{
    int fd = strcmp(name, JOB) == 0
                 ? openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    char begin[sizeof BEGIN - 1] = "";
    ssize_t got = fd >= 0 ? read(fd, begin, sizeof begin) : 0;

    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof begin && memcmp(begin, BEGIN, sizeof begin) == 0;
}

static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && folder == NULL)
        close(fd);
    return folder;
}

/* How many records are there.  removes: they are removed, and job.txt.  Closes entries. */
static int records_in(DIR *entries, bool removes)
{
    struct dirent *entry;
    int count = 0;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_record(entry->d_name))
            count += ends_with(entry->d_name, ".mbxrec");
        if (removes && (is_record(entry->d_name) || is_job(dirfd(entries), entry->d_name)))
            unlinkat(dirfd(entries), entry->d_name, 0);
        if (!replay_is_part(entry->d_name))
            continue;
        count += records_in(open_folder(dirfd(entries), entry->d_name), removes);
        if (removes)
            unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
    }
    if (entries != NULL)
        closedir(entries);
    return count;
}

static int records(const char *folder, bool removes)
{
    return records_in(opendir(folder), removes);
}

/* ---- --record ---- */

static void put_line(FILE *file, const char *name, const char *value)
{
    char line[PATH_MAX];

    snprintf(line, sizeof line, "%s", value);
    text_make_printable(line, '?', false);
    fprintf(file, "%s %s\n", name, line);
}

static void put_job(FILE *file, char *const *command)
{
    extern char **environ;
    char text[PATH_MAX];
    time_t now = time(NULL);
    struct tm tm;

    put_line(file, "format", "1");
    put_line(file, "matchbox", mbx_version());
    if (gmtime_r(&now, &tm) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
        put_line(file, "time", text);
    if (gethostname(text, sizeof text) == 0)
        put_line(file, "host", text);
    if (getcwd(text, sizeof text) != NULL)
        put_line(file, "folder", text);
    for (; *command != NULL; command++)
        put_line(file, "word", *command);
    for (char **one = environ; *one != NULL; one++)
        if (strncmp(*one, "MBX_", 4) == 0 && strncmp(*one, "MBX_KEY=", 8) != 0)
            put_line(file, "set", *one);
}

static bool write_job(const struct tool *tool, const char *folder, char *const *command)
{
    char path[PATH_MAX + sizeof JOB];
    FILE *file;
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, JOB);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file != NULL)
        put_job(file, command);
    if (file != NULL && fclose(file) == 0)
        return true;
    tool_error(tool, "cannot write %s: %s", path, strerror(errno));
    return false;
}

bool exec_order_record(const struct tool *tool, const char *folder, bool is_forced,
                       char *const *command, char path[PATH_MAX])
{
    if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
        tool_error(tool, "--record: cannot make %s: %s", folder, strerror(errno));
        return false;
    }
    if (realpath(folder, path) == NULL) {
        tool_error(tool, "--record: %s: %s", folder, strerror(errno));
        return false;
    }
    if (records(path, is_forced) > 0 && !is_forced) {
        tool_error(tool,
                   "%s has records already; name another folder, or --force replaces them",
                   folder);
        return false;
    }
    (void)records(path, true); /* a job.txt, or outcomes, without records */
    return write_job(tool, path, command);
}

void exec_order_warn_of_nothing(const struct tool *tool, const char *folder)
{
    if (records(folder, false) == 0)
        tool_error(
            tool,
            "nothing was recorded in %s: no process of the command ran over the component "
            "for Open MPI, or connected an endpoint of libmatchbox.so, on this host",
            folder);
}

/* ---- --races ---- */

static bool is_trace(const char *name)
{
    return strncmp(name, "matchbox-", 9) == 0 && ends_with(name, ".trace");
}

bool exec_order_trace(const struct tool *tool, const char *folder, bool is_forced)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    int count = 0;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (!is_trace(entry->d_name))
            continue;
        count++;
        if (is_forced)
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL)
        closedir(entries);
    if (count == 0 || is_forced)
        return true;
    tool_error(tool, "%s has traces already; name another folder, or --force replaces them",
               folder);
    return false;
}

/* ---- --replay ---- */

/* How many ranks a launcher is to start, if that is said once; 0: nobody knows. */
static unsigned long ranks_of(char *const *command)
{
    static const char *const options[] = {"-n", "-np", "--np", "--n"};
    unsigned long ranks = 0;
    int found = 0;

    for (size_t i = 1; command[0] != NULL && command[i] != NULL; i++) {
        if (strcmp(command[i], ":") == 0)
            return 0;
        if (command[i][0] != '-' && strchr(command[i], '/') != NULL &&
            access(command[i], X_OK) == 0)
            break; /* the program; its options follow */
        for (size_t o = 0; o < sizeof options / sizeof options[0] && command[i + 1] != NULL;
             o++)
            if (strcmp(command[i], options[o]) == 0 &&
                isdigit((unsigned char)command[i + 1][0]) && found++ == 0)
                ranks = strtoul(command[i + 1], NULL, 10);
    }
    return found == 1 ? ranks : 0;
}

bool exec_order_replay(const struct tool *tool, const char *folder, char *const *command,
                       char path[PATH_MAX])
{
    char error[PATH_MAX + 128];
    struct replay_reader *reader;
    unsigned long ranks = ranks_of(command), recorded;

    if (realpath(folder, path) == NULL) {
        tool_error(tool, "--replay: %s: %s", folder, strerror(errno));
        return false;
    }
    if (replay_read_open(path, 0, &reader, error, sizeof error) < 0) {
        tool_error(tool, "--replay: %s", error);
        return false;
    }
    recorded = replay_read_job(reader)->size;
    replay_read_close(reader);
    if (ranks == 0 || ranks == recorded)
        return true;
    tool_error(tool, "%s has records of %lu ranks, but %s starts %lu", folder, recorded,
               command[0], ranks);
    return false;
}
