/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * series_5_0_threads.h - the type of Open MPI's locks, where its headers do not have it.
 *
 * Open MPI 5.0 chooses its threads when it is built; its installed headers include headers of the
 * choice, which Debian does not install.  The choice is pthreads: a lock is a pthread_mutex_t, a
 * condition a pthread_cond_t.  Both lie within structures of Open MPI, whose sizes
 * pml_series_fits() compares when the component is loaded.
 */
#ifndef PML_SERIES_5_0_THREADS_H
#define PML_SERIES_5_0_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
typedef pthread_key_t opal_tsd_key_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER  PTHREAD_COND_INITIALIZER

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex,
                                                  bool is_recursive)
{
    (void)is_recursive; /* no header uses it */
    return pthread_mutex_init(mutex, NULL);
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return pthread_mutex_trylock(mutex) != 0;
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return pthread_cond_init(cond, NULL);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    pthread_cond_signal(cond);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    pthread_cond_destroy(cond);
}

static inline void opal_thread_yield(void)
{
    sched_yield();
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **value)
{
    *value = pthread_getspecific(key);
    return 0;
}

#endif
