/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper.c - the process that matches tags over another adapter, for one program.
 *
 *   program  ──────────────────────── one address space ──────────────────────  helper
 *   threads of the program                                                      loop.c
 *   keeper: a thread that waits for the helper's end  ──── clone(CLONE_VM) ───>
 *
 * The helper is a process of its own, so it works while the program is stopped, as an adapter
 * does.  It shares the program's memory, so it can register that memory with the adapter
 * beneath, which reads and writes it.  It opens the adapter's files itself, because the kernel
 * lets no other process use them.
 *
 * It runs with the thread-local memory and the stack of the keeper, which meanwhile stays in
 * one system call that uses neither.  While messages move, it allocates nothing and takes no
 * lock of the C library that a stopped thread of the program could hold.  The kernel ends it
 * with the keeper, and so with the program (PR_SET_PDEATHSIG).  The first open context starts
 * it, and it ends with the last one.
 */
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "adapter/over/over.h"
#include "base/environ.h"

#define STACK      ((size_t)1 << 20)
#define STACK_KEPT ((size_t)64 << 10) /* the keeper's own part of the stack */

struct host host;

static struct {
    pid_t owner; /* the process that started it; 0: nobody */
    pid_t pid;
    pthread_t keeper;
    sem_t begun;
    int error;
    int listener; /* the helper's end of a pair of sockets, and */
    int channel;  /* the program's, or -1 */
    uint32_t users;
    _Atomic bool has_ended;
} helper;

/* ---- the work ---- */

static int prepare(void)
{
    int err;

    objects_forget();
    list_init(&clients);
    counters = (struct adapter_counters){0};
    host = (struct host){.is_over = true, .only = helper.owner};
    err = tm_read_environment(OVER_ENV_LIST, OVER_ENV_QUIRKS, OVER_ENV_SEED);
    if (err == 0)
        err = over_open();
    if (err == 0)
        host.guid = be64toh(over.device.node_guid);
    return err;
}

static void write_counters(void)
{
    const char *path = environ_get(OVER_ENV_STATS);
    FILE *file = path != NULL && *path != '\0' ? fopen(path, "ae") : NULL;

    if (file == NULL)
        return;
#define PRINT(name) fprintf(file, #name " %lu\n", (unsigned long)counters.name);
    ADAPTER_COUNTERS_OF(PRINT)
#undef PRINT
    fclose(file);
}

static void serve(void)
{
    struct list *node, *next;

    helper.error = -prepare();
    if (helper.error != 0)
        return;
    helper.pid = getpid();
    sem_post(&helper.begun);
    work(helper.listener);
    list_for_each_safe (node, next, &clients) /* the adapter beneath is lost */
        client_end(container_of(node, struct client, node));
    over_close();
    write_counters();
    close(helper.listener);
}

/* ---- the process ---- */

/* The helper has copies of all descriptors, and closes them: the program's own descriptors must
 * not stay open longer than the program wants. */
static void leave_descriptors(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    dup2(null, 0);
    dup2(null, 1);
    if (helper.listener != 3)
        dup2(helper.listener, 3);
    helper.listener = 3;
    fcntl(3, F_SETFD, FD_CLOEXEC);
    syscall(SYS_close_range, 4u, ~0u, 0u);
}

static int run(void *arg)
{
    (void)arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != helper.owner)
        return 1; /* the program has ended meanwhile */
    prctl(PR_SET_NAME, "mbx-tags");
    setsid();
    leave_descriptors();
    serve();
    return 0;
}

static void *keep(void *arg)
{
    char *const stack = (char *)__builtin_frame_address(0) - STACK_KEPT;
    pid_t pid;

    (void)arg;
    if (environ_get(OVER_ENV_THREAD) != NULL) {
        serve();
    } else {
        pid = clone(run, (void *)((uintptr_t)stack & ~(uintptr_t)63), CLONE_VM, NULL);
        if (pid < 0)
            helper.error = errno;
        else
            syscall(SYS_wait4, pid, NULL, __WALL, NULL);
    }
    atomic_store(&helper.has_ended, true);
    sem_post(&helper.begun); /* if the helper has not started at all */
    return NULL;
}

static int start_keeper(void)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int err;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&helper.keeper, &attr, keep, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

/* ---- for the library ---- */

/* The sockets have no name, so other users cannot send them descriptors. */
static int make_channel(void)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    helper.channel = ends[0];
    helper.listener = ends[1];
    return 0;
}

static void join(void)
{
    pthread_join(helper.keeper, NULL);
    close(helper.channel);
    helper.owner = 0;
}

int reach_start(void)
{
    int err, listener;

    if (helper.owner == getpid())
        join(); /* the helper has ended before its users */
    memset(&helper, 0, sizeof helper);
    err = make_channel();
    if (err != 0)
        return err;
    listener = helper.listener; /* the helper gives its copy another number */
    helper.owner = getpid();
    sem_init(&helper.begun, 0, 0);
    err = start_keeper();
    if (err != 0) {
        helper.owner = 0;
        close(helper.channel);
    } else {
        while (sem_wait(&helper.begun) != 0)
            ;
        if (atomic_load(&helper.has_ended)) {
            err = helper.error != 0 ? helper.error : EIO;
            join();
        }
    }
    if (err != 0 || helper.pid != getpid())
        close(listener);
    return err;
}

/* Sends the helper an end of a new connection. */
static int pass(int end)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    char byte = 0;
    struct iovec part = {&byte, sizeof byte};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};

    memcpy(CMSG_DATA(&control.head), &end, sizeof end);
    while (sendmsg(helper.channel, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

int reach_connect(void)
{
    int ends[2], err;

    if (helper.owner != getpid() || atomic_load(&helper.has_ended) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    err = pass(ends[1]);
    close(ends[1]);
    if (err == 0)
        return ends[0];
    close(ends[0]);
    return -1;
}

int reach_allow(int sock)
{
    (void)sock;
    return 0; /* it shares our memory */
}

void reach_opened(void)
{
    helper.users++;
}

void reach_closed(pid_t pid)
{
    if (helper.owner != getpid() || helper.pid != pid || --helper.users > 0)
        return;
    join();
}

void *reach_foreign(const char *name)
{
    return over.library != NULL ? dlsym(over.library, name) : dlsym(RTLD_NEXT, name);
}
