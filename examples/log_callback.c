/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_callback.c - the library's log as part of the program's own, and parameters in the program.
 *
 * A wrong parameter is refused with a line that says what would be right.  Here that line
 * goes to a function of the program, which counts it and writes it in the program's form.
 *
 * Run:  ./log_callback
 */
#include <matchbox/matchbox.h>

#include <errno.h>
#include <stdio.h>

struct log {
    FILE *to;
    int lines[MBX_LOG_TRACE + 1];
};

static void write_line(void *user, enum mbx_log_level level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    struct log *log = user;

    log->lines[level]++;
    fprintf(log->to, "my program | matchbox | %s | %s\n", names[level], text);
}

static int try_to_open(const char *const *params)
{
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;
    int err = mbx_open(&config, &ep);

    printf("%s: %s\n", params[0], err == 0 ? "an endpoint" : mbx_strerror(err));
    return err == 0 ? mbx_close(ep) : err;
}

int main(void)
{
    static const char *const wrong[] = {"EAGER_LIMIT=8 apples", NULL};
    static const char *const right[] = {"EAGER_LIMIT=8K", NULL};
    struct log log = {.to = stdout};
    int refused, opened;

    mbx_log_callback(write_line, &log);
    refused = try_to_open(wrong);
    opened = try_to_open(right);
    mbx_log_callback(NULL, NULL); /* standard error again */
    printf("%d error(s) in the log\n", log.lines[MBX_LOG_ERROR]);
    return refused != -EINVAL || opened != 0 || log.lines[MBX_LOG_ERROR] != 1;
}
