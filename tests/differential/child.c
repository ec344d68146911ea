/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parent never opens the engine's library: each child begins with a fresh one.  A child
 * that is silent for ANSWER_WAIT_MS is killed.
 */
#include "child.h"
#include "base/patience.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO_WAIT_MS  PATIENCE_MS
#define ANSWER_WAIT_MS (8 * ENGINE_STALLED_MS)
#define END_WAIT_S     60 /* an engine that stalls may not end either */

struct hello {
    int err;
    unsigned can;
    char version[ENGINE_VERSION_SIZE];
};

/* Writes all bytes; false if the other side is gone. */
static bool put(int socket, const void *data, size_t size)
{
    const char *next = data;

    while (size != 0) {
        ssize_t n = send(socket, next, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        next += n;
        size -= (size_t)n;
    }
    return true;
}

/* Returns 0; -ETIMEDOUT after timeout_ms (-1: never) of silence; -EIO if the other side is
 * gone. */
static int get(int socket, void *data, size_t size, int timeout_ms)
{
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    char *next = data;

    while (size != 0) {
        int ready = poll(&wait, 1, timeout_ms);
        ssize_t n;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return -ETIMEDOUT;
        n = recv(socket, next, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -EIO;
        next += n;
        size -= (size_t)n;
    }
    return 0;
}

/* ---- the child ---- */

/* Returns false if the parent is gone, or the engine cannot continue. */
static bool serve_history(struct engine *e, int socket, const struct history *h)
{
    int answer, ended = 0;

    if (e->kind->begin(e) != 0) {
        answer = ANSWER_BROKEN;
        put(socket, &answer, sizeof answer);
        return false;
    }
    for (int i = 0; i < h->count; i++) {
        answer = e->kind->answer(e, &h->ops[i]);
        if (!put(socket, &answer, sizeof answer) || answer == ANSWER_STALLED) {
            alarm(END_WAIT_S);
            e->kind->end(e);
            return false;
        }
    }
    e->kind->end(e);
    return put(socket, &ended, sizeof ended);
}

/* Some libraries catch a crash, to write a file into the current folder or to wait for a
 * debugger, and hide how the process died.  Also, a user who interrupts the driver must not end
 * the child before the engine has cleaned up: the child sees that the parent is gone. */
static void own_signals(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    static const int requests[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        signal(crashes[i], SIG_DFL);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        signal(requests[i], SIG_IGN);
}

static void serve(const struct engine_name *name, int socket)
{
    static struct history h;
    struct hello hello = {.err = 0};
    struct engine *e = NULL;

    own_signals(); /* some catch them when they are loaded, */
    hello.err = name->kind->create(name->argument, &e);
    own_signals(); /* some when they are used */
    if (hello.err == 0) {
        e->kind = name->kind;
        e->is_patient = name->is_patient;
        hello.can = e->can;
        memcpy(hello.version, e->version, sizeof hello.version);
    }
    if (!put(socket, &hello, sizeof hello) || hello.err != 0)
        return;
    while (get(socket, &h, sizeof h, -1) == 0 && serve_history(e, socket, &h))
        continue;
    alarm(END_WAIT_S);
    name->kind->destroy(e);
}

/* ---- the parent ---- */

/* Waits until the process has ended, by itself or killed.  Sets death to the way it ended. */
static void bury(struct child *c, bool kill_it)
{
    int status = 0;

    close(c->socket);
    if (kill_it)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    c->pid = 0;
    if (kill_it)
        snprintf(c->death, sizeof c->death, "silent for %d ms, killed", ANSWER_WAIT_MS);
    else if (WIFSIGNALED(status))
        snprintf(c->death, sizeof c->death, "signal %d, %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(c->death, sizeof c->death, "exit code %d", WEXITSTATUS(status));
}

int child_start(struct child *c, const struct engine_name *name)
{
    struct hello hello;
    int sockets[2], err;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) < 0)
        return -errno;
    c->name = *name;
    fflush(NULL);
    c->pid = fork();
    if (c->pid < 0) {
        err = -errno;
        close(sockets[0]);
        close(sockets[1]);
        c->pid = 0;
        return err;
    }
    if (c->pid == 0) {
        close(sockets[0]);
        serve(name, sockets[1]);
        _exit(0);
    }
    close(sockets[1]);
    c->socket = sockets[0];
    err = get(c->socket, &hello, sizeof hello, HELLO_WAIT_MS);
    if (err == 0)
        err = hello.err;
    if (err != 0) {
        bury(c, err == -ETIMEDOUT);
        return err;
    }
    c->can = hello.can;
    memcpy(c->version, hello.version, sizeof c->version);
    return 0;
}

void child_stop(struct child *c)
{
    if (c->pid == 0)
        return;
    shutdown(c->socket, SHUT_RDWR);
    bury(c, false);
}

int child_run(struct child *c, const struct history *h, int *answers)
{
    int err = c->pid == 0 ? child_start(c, &c->name) : 0, ended;

    if (err == 0 && !put(c->socket, h, sizeof *h))
        err = -EIO;
    for (int i = 0; i < h->count; i++) {
        if (err == 0)
            err = get(c->socket, &answers[i], sizeof answers[i], ANSWER_WAIT_MS);
        if (err == 0 && answers[i] != ANSWER_STALLED)
            continue;
        if (err != 0)
            answers[i] = err == -ETIMEDOUT ? ANSWER_STALLED : ANSWER_DIED;
        if (c->pid != 0)
            bury(c, err == -ETIMEDOUT);
        return i + 1;
    }
    err = get(c->socket, &ended, sizeof ended, ANSWER_WAIT_MS);
    if (err != 0)
        bury(c, err == -ETIMEDOUT); /* while it closed: the answers were given */
    return h->count;
}
