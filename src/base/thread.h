/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h - starts a thread of the library, which blocks all signals: they belong to the threads of
 * the application.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0, or a negative errno. */
static inline int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -err;
}

#endif
