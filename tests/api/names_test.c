/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names_test.c - the names that a program gives itself come back in its trace, its statistics
 * and the log.
 */
#include "cluster.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/temporary.h"
#include "core/core.h"
#include "trace/trace.h"

#define CONTEXT 61
#define PROGRAM "component Open MPI v4.1.4, package: a test"

/* ---- the log ---- */

static char said[4096];

static void keep_line(void *user, enum mbx_log_level level, const char *text)
{
    size_t used = strlen(said);

    (void)user, (void)level;
    snprintf(said + used, sizeof said - used, "%s\n", text);
}

static void test_wrong_arguments(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_name_program(cl.eps[0], NULL), -EINVAL);
    assert_int_equal(mbx_name_program(cl.eps[0], ""), -EINVAL);
    assert_int_equal(mbx_name_context(cl.eps[0], CONTEXT, NULL, 0), -EINVAL);
    assert_int_equal(mbx_name_context(cl.eps[0], MBX_CONTEXT_MAX + 1, "x", 0), -EINVAL);
    assert_int_equal(mbx_name_peer(cl.eps[0], 99, 0, 0), -EINVAL);
    assert_int_equal(mbx_name_peer(cl.eps[0], MBX_ANY_SOURCE, 0, 0), -EINVAL);
    cluster_close(&cl);
}

static void test_peers_have_the_name_that_was_given(void **state)
{
    char text[NAMES_PEER_TEXT];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_string_equal(names_peer_text(cl.eps[0], 1, text), "peer 1");
    assert_int_equal(mbx_name_peer(cl.eps[0], 1, 0, 7), 0);
    assert_string_equal(names_peer_text(cl.eps[0], 1, text), "rank 7");
    assert_int_equal(mbx_name_peer(cl.eps[0], 1, 3, 2), 0);
    assert_string_equal(names_peer_text(cl.eps[0], 1, text), "rank 2 of job 3");
    assert_string_equal(names_peer_text(cl.eps[0], 0, text), "peer 0");
    cluster_close(&cl);
}

static void send_one(struct cluster *cl)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    char byte;

    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 7, 0, &byte, 1, &silent, NULL), 0);
    assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, 7, "x", 1, &silent, NULL), 0);
    cluster_settle(cl);
}

static void name_all(struct cluster *cl)
{
    char name[300];

    assert_int_equal(mbx_name_program(cl->eps[1], PROGRAM), 0);
    assert_int_equal(mbx_name_context(cl->eps[1], CONTEXT, "before", 2), 0);
    assert_int_equal(mbx_name_peer(cl->eps[1], 0, 0, 40), 0);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(mbx_name_context(cl->eps[1], 5, name, 0), 0);
    send_one(cl);
    assert_int_equal(mbx_name_context(cl->eps[1], CONTEXT, "halo\nexchange", 2), 0);
}

static void test_statistics_have_a_line_for_each_context(void **state)
{
    static char text[65536];
    char path[TEMPORARY_SIZE], param[TEMPORARY_SIZE + 16];
    const char *const more[] = {param, "LOG_LEVEL=info", NULL};
    int fd = mkstemp(temporary_name(path, "names"));
    struct cluster cl;
    ssize_t size;

    assert_true(fd >= 0);
    snprintf(param, sizeof param, "STATS_FILE=%s", path);
    said[0] = '\0';
    mbx_log_callback(keep_line, NULL);
    cluster_open(&cl, *state, 2, more);
    name_all(&cl);
    cluster_close(&cl);
    mbx_log_callback(NULL, NULL);
    size = read(fd, text, sizeof text - 1);
    assert_true(size > 0);
    text[size] = '\0';
    assert_non_null(strstr(text, " text=" PROGRAM "\n"));
    assert_non_null(strstr(text, " id=61 size=2 receives=1 "));
    assert_non_null(strstr(text, " name=halo exchange\n"));
    assert_non_null(strstr(text, " name=nnnn"));
    assert_non_null(strstr(said, ": over Matchbox "));
    assert_non_null(strstr(said, " by the component, Open MPI v4.1.4; transport "));
    assert_non_null(strstr(said, ": matched 1 messages, "));
    close(fd);
    unlink(path);
}

/* An endpoint has several lines of statistics.  If none of them can be written, one warning is
 * enough. */
static void test_statistics_that_cannot_be_written_are_said_once(void **state)
{
    static const char warning[] = "cannot write the statistics to /dev/full: ";
    const char *const more[] = {"STATS_FILE=/dev/full", NULL};
    struct cluster cl;
    int warnings = 0;

    cluster_open(&cl, *state, 2, more);
    name_all(&cl);
    said[0] = '\0';
    mbx_log_callback(keep_line, NULL);
    cluster_close(&cl);
    mbx_log_callback(NULL, NULL);
    for (const char *at = said; (at = strstr(at, warning)) != NULL; at++)
        warnings++;
    assert_int_equal(warnings, 2); /* two endpoints */
}

/* ---- the trace ---- */

/* Collects the names in a trace file.  Does the file have the name of the program? */
static bool read_names(const char *path, char *names, size_t size)
{
    static struct trace_reader reader;
    struct trace_event event;
    char text[NAMES_TEXT_MAX];
    bool is_named = false;

    assert_int_equal(trace_open(&reader, path), 0);
    while (trace_next(&reader, &event) == 1) {
        size_t used = strlen(names);

        is_named |= event.type == TRACE_PROGRAM;
        if (event.type == TRACE_PEER)
            snprintf(names + used, size - used, "peer %u rank %d;", event.source,
                     (int)event.partner - 1);
        else if ((event.type == TRACE_PROGRAM || event.type == TRACE_CONTEXT) &&
                 trace_text_add(text, sizeof text, &event))
            snprintf(names + used, size - used, "%s;", text);
    }
    assert_string_equal(reader.error, "");
    trace_close(&reader);
    return is_named;
}

static void test_trace_has_names_before_what_follows_them(void **state)
{
    char folder[TEMPORARY_SIZE], param[TEMPORARY_SIZE + 16], path[512], names[4096];
    const char *const more[] = {param, NULL};
    struct dirent *entry;
    int named = 0;
    struct cluster cl;
    DIR *dir;

    assert_non_null(mkdtemp(temporary_name(folder, "names")));
    snprintf(param, sizeof param, "TRACE=%s", folder);
    cluster_open(&cl, *state, 2, more);
    name_all(&cl);
    cluster_close(&cl);
    dir = opendir(folder);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        names[0] = '\0';
        if (read_names(path, names, sizeof names)) {
            named++;
            assert_non_null(strstr(names, PROGRAM ";"));
            assert_non_null(strstr(names, "peer 0 rank 40;"));
            assert_non_null(strstr(names, "before;"));
            assert_non_null(strstr(strstr(names, "before;"), "halo exchange;"));
        } else {
            assert_null(strstr(names, PROGRAM));
            assert_null(strstr(names, "rank 40"));
        }
        unlink(path);
    }
    closedir(dir);
    rmdir(folder);
    assert_int_equal(named, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_peers_have_the_name_that_was_given),
        cmocka_unit_test(test_statistics_have_a_line_for_each_context),
        cmocka_unit_test(test_statistics_that_cannot_be_written_are_said_once),
        cmocka_unit_test(test_trace_has_names_before_what_follows_them),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
