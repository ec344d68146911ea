/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked_test.c - a child of fork() calls an endpoint of its parent: the call ends the child
 * with a line that says why, and disturbs nobody else.
 */
#include "cluster.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/patience.h"

#define CONTEXT 31
#define KEY     5

static char byte;
static mbx_request pending;
static struct mbx_completion completion;

static void sends(struct mbx_ep *ep)
{
    mbx_send(ep, 1, CONTEXT, 1, &byte, 1, NULL, &pending);
}

static void sends_at_once(struct mbx_ep *ep)
{
    mbx_try_send(ep, 1, CONTEXT, 1, &byte, 1, 0);
}

static void sends_to_the_end(struct mbx_ep *ep)
{
    mbx_ssend(ep, 1, CONTEXT, 1, &byte, 1, NULL, &pending);
}

static void injects(struct mbx_ep *ep)
{
    mbx_inject(ep, 1, CONTEXT, 1, &byte, 1, 0);
}

static void receives(struct mbx_ep *ep)
{
    mbx_recv(ep, 1, CONTEXT, 1, 0, &byte, 1, NULL, &pending);
}

static void receives_at_once(struct mbx_ep *ep)
{
    mbx_try_recv(ep, 1, CONTEXT, 1, 0, &byte, 1, &completion.status);
}

static void probes(struct mbx_ep *ep)
{
    mbx_probe(ep, 1, CONTEXT, 1, 0, &completion.status);
}

static void cancels(struct mbx_ep *ep)
{
    mbx_cancel(ep, pending);
}

static void tests(struct mbx_ep *ep)
{
    mbx_test(ep, pending, &completion);
}

static void waits(struct mbx_ep *ep)
{
    mbx_wait(ep, pending, -1, &completion);
}

static void waits_for_any(struct mbx_ep *ep)
{
    mbx_wait_queues(ep, MBX_RECVS, -1);
}

static void makes_progress(struct mbx_ep *ep)
{
    while (mbx_idle(ep) || mbx_progress(ep) >= 0)
        ;
}

static void polls(struct mbx_ep *ep)
{
    mbx_poll(ep, MBX_RECVS, &completion, 1);
}

static void sleeps(struct mbx_ep *ep)
{
    mbx_sleep(ep, -1, NULL);
}

static void writes(struct mbx_ep *ep)
{
    mbx_write(ep, 1, &byte, 1, KEY, 0, NULL, &pending);
}

static void registers(struct mbx_ep *ep)
{
    mbx_register(ep, KEY,
                 &(struct mbx_region){.buf = &byte, .size = 1, .rights = MBX_REMOTE_READ});
}

/* Calls does() in a child.  Returns the child's exit code; text gets its standard error. */
static int in_child(struct mbx_ep *ep, void (*does)(struct mbx_ep *ep), char *text, size_t size)
{
    int ends[2], status;
    size_t used = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        log_set_sink(NULL, NULL);
        dup2(ends[1], STDERR_FILENO);
        close(ends[1]);
        alarm(PATIENCE_S);
        does(ep);
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void exchange(struct cluster *cl)
{
    mbx_request sent, received;

    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 2, 0, NULL, 0, NULL, &received), 0);
    assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, 2, NULL, 0, NULL, &sent), 0);
    cluster_wait(cl, 1, received, &completion);
    cluster_wait(cl, 0, sent, &completion);
}

static void test_a_call_ends_the_child(void **state)
{
    static void (*const calls[])(struct mbx_ep * ep) = {
        sends,          sends_at_once, sends_to_the_end,
        injects,        receives,      receives_at_once,
        probes,         cancels,       tests,
        waits,          polls,         waits_for_any,
        sleeps,         writes,        registers,
        makes_progress,
    };
    char text[1000], parent[100];
    struct cluster cl;
    mbx_request own;

    cluster_open(&cl, *state, 2, NULL);
    exchange(&cl);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 3, 0, NULL, 0, NULL, &own), 0);
    pending = own;
    snprintf(parent, sizeof parent, "was made by fork() from process %ld, ", (long)getpid());
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        assert_int_equal(in_child(cl.eps[0], calls[i], text, sizeof text), EXIT_FAILURE);
        assert_non_null(strstr(text, parent));
    }
    exchange(&cl);
    assert_int_equal(mbx_cancel(cl.eps[0], own), 0);
    cluster_wait_error(&cl, 0, own, -ECANCELED);
    cluster_close(&cl);
}

static void closes(struct mbx_ep *ep)
{
    _exit(mbx_close(ep) == -EPERM ? 7 : 8);
}

static void executes(struct mbx_ep *ep)
{
    (void)ep;
    execl("/bin/sh", "sh", "-c", "exit 9", NULL);
}

static void ends(struct mbx_ep *ep)
{
    (void)ep;
    exit(10);
}

/* Also a child of the child, which has none of its own. */
static void forks(struct mbx_ep *ep)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        makes_progress(ep);
    _exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? 10 + WEXITSTATUS(status) : 0);
}

static void test_what_calls_nothing_is_no_error(void **state)
{
    static const struct {
        void (*does)(struct mbx_ep *ep);
        int code;
        bool is_told;
    } children[] = {{closes, 7, false},
                    {executes, 9, false},
                    {ends, 10, false},
                    {forks, 10 + EXIT_FAILURE, true}};
    struct cluster cl;
    char text[1000];

    cluster_open(&cl, *state, 2, NULL);
    exchange(&cl);
    for (size_t i = 0; i < ARRAY_COUNT(children); i++) {
        assert_int_equal(in_child(cl.eps[0], children[i].does, text, sizeof text),
                         children[i].code);
        assert_int_equal(strstr(text, "fork()") != NULL, children[i].is_told);
        exchange(&cl);
    }
    cluster_close(&cl);
}

static const struct configuration *used;

static void opens_its_own(struct mbx_ep *ep)
{
    struct mbx_ep *own = cluster_open_one(used, NULL);
    struct mbx_address address;
    mbx_request sent, received;
    uint32_t self;

    (void)ep;
    if (mbx_address_get(own, &address) != 0 || mbx_peer_add(own, &address, &self) != 0 ||
        mbx_recv(own, self, CONTEXT, 1, 0, &byte, 1, NULL, &received) != 0 ||
        mbx_send(own, self, CONTEXT, 1, "x", 1, NULL, &sent) != 0 ||
        mbx_wait(own, received, -1, &completion) != 0 ||
        mbx_wait(own, sent, -1, &completion) != 0)
        _exit(1);
    _exit(mbx_close(own) == 0 && byte == 'x' ? 11 : 12);
}

static void test_a_child_may_have_its_own(void **state)
{
    struct cluster cl;
    char text[1000];

    used = *state;
    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(in_child(cl.eps[0], opens_its_own, text, sizeof text), 11);
    exchange(&cl);
    cluster_close(&cl);
}

static bool is_meant(const struct configuration *config)
{
    return strcmp(config->name, "loop") == 0 || strcmp(config->name, "shm") == 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest each[] = {
        cmocka_unit_test(test_a_call_ends_the_child),
        cmocka_unit_test(test_what_calls_nothing_is_no_error),
        cmocka_unit_test(test_a_child_may_have_its_own),
    };

    return test_main_for(argc, argv, is_meant, each, ARRAY_COUNT(each));
}
