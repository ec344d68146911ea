/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_testing.c - see replay_testing.h.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/unit.h"
#include "replay/replay.h"
#include "replay/replay_testing.h"

char folder[TEMPORARY_SIZE], said[8192];
const struct replay_job job = {.rank = 2, .size = 4, .pid = 77, .arguments = 5, .mpi = 6};

static void note_line(UNUSED void *arg, enum log_level level, const char *text)
{
    size_t used = strlen(said);

    (void)level;
    snprintf(said + used, sizeof said - used, "%s\n", text);
}

int setup(UNUSED void **state)
{
    said[0] = '\0';
    log_set_sink(note_line, NULL);
    return mkdtemp(temporary_name(folder, "replay")) != NULL ? 0 : -1;
}

const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

void remove_records(void)
{
    unlink(path_of("rank-2.mbxrec"));
    unlink(path_of("rank-2.mbxlate"));
    unlink(path_of("rank-2.mbxplaces"));
}

int teardown(UNUSED void **state)
{
    sys_fail_none();
    log_set_sink(NULL, NULL);
    remove_records();
    return rmdir(folder);
}

struct replay_reader *open_reader(void)
{
    struct replay_reader *reader = NULL;
    char error[PATH_MAX + 128] = "";

    if (replay_read_open(folder, 2, &reader, error, sizeof error) < 0)
        fail_msg("%s", error);
    return reader;
}

struct replay_writer *open_writer(void)
{
    struct replay_writer *w = NULL;

    assert_int_equal(replay_write_open(folder, &job, &w), 0);
    return w;
}

void put_places(const char *text, size_t size)
{
    int fd = open(path_of("rank-2.mbxplaces"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_int_equal(write(fd, text, size), size);
    close(fd);
}
