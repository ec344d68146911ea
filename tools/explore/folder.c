/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * folder.c - DIR of `mbx explore`.
 *
 * If a folder has an explore.txt that begins as ours does, it was made here.  Files are removed only from such a folder, and
 * only explore.txt and order-N with the names of explore.h.  All others stay.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/text.h"
#include "explore.h"
#include "replay/replay.h"

#define MARK  "explore.txt"
#define BEGIN "format 1\nmatchbox explore "

const char *explore_path(const struct explore_options *options, uint64_t n, const char *name,
                         char path[EXPLORE_PATH])
{
    snprintf(path, EXPLORE_PATH, "%s/order-%llu%s%s", options->folder, (unsigned long long)n,
             name[0] != '\0' ? "/" : "", name);
    return path;
}

/* ---- removing ---- */

/* "order-12" */
static bool is_order(const char *name)
{
    return strncmp(name, "order-", 6) == 0 && name[6] != '\0' &&
           name[6 + strspn(name + 6, "0123456789")] == '\0';
}

/* "rank-12.mbxrec", "rank-12.mbxlate", "rank-12.mbxplaces" */
static bool is_record(const char *name)
{
    size_t digits = strncmp(name, "rank-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;

    return digits > 0 && (strcmp(name + 5 + digits, ".mbxrec") == 0 ||
                          strcmp(name + 5 + digits, ".mbxlate") == 0 ||
                          strcmp(name + 5 + digits, ".mbxplaces") == 0);
}

/* "matchbox-host-4457-1.trace" */
static bool is_trace(const char *name)
{
    size_t length = strlen(name);

    return strncmp(name, "matchbox-", 9) == 0 && length > 6 &&
           strcmp(name + length - 6, ".trace") == 0;
}

static bool is_of_a_run(const char *name)
{
    static const char *const names[] = {"job.txt", "stdout", "stderr", "check"};

    if (strncmp(name, "replay-", 7) == 0) {
        name += 7;
        if (name[0] >= '2' && name[0] <= '0' + EXPLORE_REPLAYS && name[1] == '-')
            name += 2;
    }
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return is_record(name) || is_trace(name);
}

static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && folder == NULL)
        close(fd);
    return folder;
}

static void remove_order(int parent, const char *name)
{
    DIR *folder = open_folder(parent, name);
    struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (is_of_a_run(entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
        if (replay_is_part(entry->d_name) || strcmp(entry->d_name, EXPLORE_CUT) == 0)
            remove_order(dirfd(folder), entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
}

static void remove_orders(DIR *folder)
{
    struct dirent *entry;

    while ((entry = readdir(folder)) != NULL)
        if (is_order(entry->d_name))
            remove_order(dirfd(folder), entry->d_name);
    unlinkat(dirfd(folder), MARK, 0);
}

void explore_remove_folder(const struct explore_options *options)
{
    DIR *folder = opendir(options->folder);

    if (folder == NULL)
        return;
    remove_orders(folder);
    closedir(folder);
    rmdir(options->folder);
}

/* ---- making ---- */

static bool is_empty(DIR *folder)
{
    struct dirent *entry;

    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return false;
    rewinddir(folder);
    return true;
}

static bool is_ours(DIR *folder)
{
    char begin[sizeof BEGIN - 1] = "";
    int fd = openat(dirfd(folder), MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, begin, sizeof begin) : 0;

    if (fd >= 0)
        close(fd);
    return got == (ssize_t)sizeof begin && memcmp(begin, BEGIN, sizeof begin) == 0;
}

static int write_mark(DIR *folder, const struct explore_options *options)
{
    int fd =
        openat(dirfd(folder), MARK, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    char word[PATH_MAX];

    if (file == NULL)
        return -errno;
    fprintf(file, BEGIN "%s\nseed %llu\n", mbx_version(), (unsigned long long)options->seed);
    for (char **one = options->command; *one != NULL; one++) {
        snprintf(word, sizeof word, "%s", *one);
        text_make_printable(word, '?', false);
        fprintf(file, "word %s\n", word);
    }
    return fclose(file) == 0 ? 0 : -errno;
}

static bool empty(const struct tool *tool, const struct explore_options *options, DIR *folder)
{
    if (is_empty(folder))
        return true;
    if (!options->is_forced)
        tool_error(tool,
                   "%s is not empty: name another folder with --into, or --force removes what "
                   "mbx explore has made there",
                   options->folder);
    else if (!is_ours(folder))
        tool_error(tool, "--force: %s is not a folder that mbx explore has made, and stays",
                   options->folder);
    else {
        rewinddir(folder);
        remove_orders(folder);
        return true;
    }
    return false;
}

bool explore_open_folder(const struct tool *tool, const struct explore_options *options)
{
    bool is_made = mkdir(options->folder, 0700) == 0, is_right = false;
    DIR *folder = is_made || errno == EEXIST ? opendir(options->folder) : NULL;
    int err;

    if (folder == NULL) {
        tool_error(tool, "cannot make the folder %s: %s", options->folder, strerror(errno));
        return false;
    }
    if (!empty(tool, options, folder))
        goto close;
    err = write_mark(folder, options);
    if (err < 0)
        tool_error(tool, "cannot write %s/" MARK ": %s", options->folder, strerror(-err));
    is_right = err == 0;
close:
    closedir(folder);
    return is_right;
}

bool explore_make_order(const struct tool *tool, const struct explore_options *options,
                        uint64_t n)
{
    char path[EXPLORE_PATH];
    struct stat order;

    if (mkdir(explore_path(options, n, "", path), 0700) == 0)
        return true;
    /* nobody else's, and no link */
    if (errno == EEXIST && lstat(path, &order) == 0) {
        if (S_ISDIR(order.st_mode) && order.st_uid == geteuid())
            return true;
        errno = EEXIST;
    }
    tool_error(tool, "cannot make %s: %s", path, strerror(errno));
    return false;
}

/* ---- reports of deadlocks ---- */

/* The text of a file that may be anybody's, or NULL.  Freed with mem_free(). */
static char *text_of(const char *path, size_t *size)
{
    const struct foreign wanted = {.kind = FOREIGN_SINGLE, .user = geteuid()};
    int fd = foreign_open(path, O_RDONLY, &wanted);
    struct stat file;
    char *text = NULL;
    ssize_t got = 0;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &file) == 0 && file.st_size > 0)
        text = mem_alloc((size_t)file.st_size);
    if (text != NULL)
        got = read(fd, text, (size_t)file.st_size);
    sys_close(fd);
    if (text != NULL && got != file.st_size) {
        mem_free(text);
        return NULL;
    }
    *size = (size_t)got;
    return text;
}

/* "matchbox-hang-0123456789abcdef.txt" */
static bool is_hang_file(const char *name)
{
    return strncmp(name, "matchbox-hang-", 14) == 0 &&
           strspn(name + 14, "0123456789abcdef") == 16 && strcmp(name + 30, ".txt") == 0;
}

void explore_remove_hang_files(const char *err)
{
    DIR *folder = opendir(".");
    struct dirent *entry;
    size_t said_size = 0, size = 0;
    char *said = text_of(err, &said_size);

    while (folder != NULL && said != NULL && (entry = readdir(folder)) != NULL) {
        char *text = is_hang_file(entry->d_name) ? text_of(entry->d_name, &size) : NULL;

        if (text != NULL && memmem(said, said_size, text, size) != NULL)
            unlink(entry->d_name);
        mem_free(text);
    }
    mem_free(said);
    if (folder != NULL)
        closedir(folder);
}
