/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - with MPI_THREAD_MULTIPLE, the threads that have communicated: for mbx doctor.
 *
 *   MPI's call ──> bias_enter() ──> not the owner of the component: the thread is listed, the first time
 *
 * A thread is listed before its call has any effect: inspect/graph.h says how a rank with several
 * threads is judged.  A call of the owner (owner.c) costs nothing for this.
 */
#include "pml/pml.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLERS 64

struct caller {
    _Atomic uint32_t id;          /* 0: none */
    _Atomic uintptr_t begin, end; /* of its stack */
    struct pml_any any;
};

/* NULL: this thread is not listed. */
static __attribute__((tls_model("initial-exec"))) _Thread_local struct caller *thread_self;

static struct {
    pthread_mutex_t lock;
    _Atomic unsigned count;         /* CALLERS + 1: there are more */
    struct caller all[CALLERS + 1]; /* the last one is of threads that found no place */
} callers = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool caller_is_gone(uint32_t id)
{
    return syscall(SYS_tgkill, getpid(), (pid_t)id, 0) != 0 && errno == ESRCH;
}

/* A place for one more: a new one, or one of a thread that has ended.  CALLERS: there is none. */
static unsigned caller_place(unsigned count)
{
    if (count < CALLERS)
        return count;
    for (unsigned i = 0; i < CALLERS; i++)
        if (caller_is_gone(atomic_load_explicit(&callers.all[i].id, memory_order_relaxed)))
            return i;
    return CALLERS;
}

/* If its stack is not known, nothing is on it. */
static void caller_take(struct caller *caller)
{
    uintptr_t begin = 0, end = 0;
    pthread_attr_t attributes;
    void *stack;
    size_t size;

    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &stack, &size) == 0) {
            begin = (uintptr_t)stack;
            end = begin + size;
        }
        pthread_attr_destroy(&attributes);
    }
    atomic_store(&caller->end, 0);
    atomic_store(&caller->any.count, 0);
    atomic_store(&caller->id, (uint32_t)syscall(SYS_gettid));
    atomic_store(&caller->begin, begin);
    atomic_store(&caller->end, end);
}

static void thread_list(void)
{
    unsigned count, place;

    pthread_mutex_lock(&callers.lock);
    count = atomic_load_explicit(&callers.count, memory_order_relaxed);
    place = caller_place(count);
    if (place < CALLERS)
        caller_take(&callers.all[place]);
    if (place >= count)
        atomic_store(&callers.count, place + 1);
    pthread_mutex_unlock(&callers.lock);
    thread_self = &callers.all[place];
}

void pml_threads_meet(void)
{
    if (thread_self == NULL)
        thread_list();
}

struct pml_any *pml_threads_any(void)
{
    bool has_place = thread_self != NULL && thread_self != &callers.all[CALLERS];

    return has_place ? &thread_self->any : NULL;
}

bool pml_thread_is_on_stack(const void *object)
{
    return thread_self != NULL && (uintptr_t)object > (uintptr_t)__builtin_frame_address(0) &&
           (uintptr_t)object < atomic_load_explicit(&thread_self->end, memory_order_relaxed);
}

/* Callbacks of the library: mbx_explain_threads(). */
static int threads_listed(unsigned index, uint32_t *id)
{
    if (index >= atomic_load(&callers.count))
        return 0;
    *id = atomic_load_explicit(&callers.all[index].id, memory_order_relaxed);
    return 1;
}

/* The wait object of another thread is on its stack, and may be gone: only its address is used. */
static int threads_waiter(const void *user, enum mbx_queue kind)
{
    uintptr_t by = (uintptr_t)pml_request_waits(user, kind), narrowest = 0;
    unsigned count = atomic_load(&callers.count);
    int found = -1;

    /* A stack may lie in the old range of an ended thread, or in the range of an unlimited stack. */
    for (unsigned i = 0; by != 0 && i < count && i < CALLERS; i++) {
        const struct caller *caller = &callers.all[i];
        uintptr_t begin = atomic_load(&caller->begin);

        if (caller == thread_self || by < begin || by >= atomic_load(&caller->end) ||
            begin < narrowest)
            continue;
        narrowest = begin;
        found = (int)i;
    }
    return found >= 0 && atomic_load(&callers.all[found].any.count) == 0 ? found : -1;
}

void pml_threads_explain(void)
{
    (void)mbx_explain_threads(pml.ep, threads_listed, threads_waiter);
}
