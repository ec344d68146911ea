/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.c - see forked.h.
 */
#include "base/launcher.h"
#include "core/forked.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/core.h"

static struct {
    pthread_mutex_t lock;
    struct list all;
    pid_t process;
} open_ones = {.lock = PTHREAD_MUTEX_INITIALIZER, .all = {&open_ones.all, &open_ones.all}};

/* A call in the child has tried to lock an endpoint. */
static void forked_refuse(void)
{
    const char *rank = launcher_rank();

    LOG_ERROR("rank %s: this process was made by fork() from process %ld, and has called MPI "
              "or Matchbox, which only its parent may use: it ends here, and the job goes on. "
              "After fork() call exec or _exit, or "
              "fork before MPI_Init (mbx_open)",
              rank != NULL ? rank : "unknown", (long)open_ones.process);
    _exit(EXIT_FAILURE);
}

static void before_fork(void)
{
    pthread_mutex_lock(&open_ones.lock);
    open_ones.process = getpid();
}

static void after_fork(void)
{
    pthread_mutex_unlock(&open_ones.lock);
}

static void after_fork_in_child(void)
{
    struct list *node;

    list_for_each (node, &open_ones.all)
        wait_refuse(container_of(node, struct mbx_ep, forked.node), forked_refuse);
    list_init(&open_ones.all);
    pthread_mutex_unlock(&open_ones.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void forked_add(struct mbx_ep *ep)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&open_ones.lock);
    list_add_tail(&open_ones.all, &ep->forked.node);
    pthread_mutex_unlock(&open_ones.lock);
}

void forked_remove(struct mbx_ep *ep)
{
    pthread_mutex_lock(&open_ones.lock);
    list_remove(&ep->forked.node);
    pthread_mutex_unlock(&open_ones.lock);
}

bool forked_is_parents(const struct mbx_ep *ep)
{
    return lock_is_refused(&ep->wait.lock);
}
