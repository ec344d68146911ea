/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile_names.c - a program that gives its communicators names with terminal commands, forged
 * lines, or invalid UTF-8, for hostile_test.py.  It sends itself a message on each, prints
 * "ready PID", and ends with its input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

static const char *const names[] = {"\x1b[2J\x1b]0;title\x07",
                                    "\xc2\x9b"
                                    "31m in UTF-8",
                                    "\x9b"
                                    "31m raw",
                                    "\xff\xfe no UTF-8",
                                    "a\nmatchbox[1]: error: forged\nb",
                                    "</script><script>alert(1)</script>",
                                    "\"><img src=x onerror=alert(2)>",
                                    "\xe2\x80\xae turned",
                                    "; Note over r0: forged #59;",
                                    "gr\xc3\xbc\xc3\x9f"};

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "hostile_names: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

int main(void)
{
    struct mbx_job *job;
    struct mbx_ep *ep;
    char out = 1, in;

    must(mbx_job_open(&job), "mbx_job_open");
    must(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    must(mbx_name_program(ep, "component Open MPI v4.1.4\x9b"), "mbx_name_program");
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct mbx_completion completion;
        mbx_request send, receive;

        must(mbx_name_context(ep, 5 + i, names[i], 1), "mbx_name_context");
        must(mbx_send(ep, 0, 5 + i, 7, &out, 1, NULL, &send), "mbx_send");
        must(mbx_recv(ep, 0, 5 + i, 7, 0, &in, 1, NULL, &receive), "mbx_recv");
        must(mbx_wait(ep, receive, -1, &completion), "mbx_wait");
        must(mbx_wait(ep, send, -1, &completion), "mbx_wait");
        must(mbx_recv(ep, 0, 5 + i, 8, 0, &in, 1, NULL, &receive), "mbx_recv");
    }
    printf("ready %ld\n", (long)getpid());
    fflush(stdout);
    fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
    while (read(STDIN_FILENO, &in, 1) != 0) {
        mbx_progress(ep);
        usleep(1000);
    }
    mbx_close(ep);
    mbx_job_close(job);
    return 0;
}
