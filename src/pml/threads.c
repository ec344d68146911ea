/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - with MPI_THREAD_MULTIPLE, the threads that have communicated: for mbx doctor.
 *
 *   MPI's call ──> thread_send(), ... ──> the function that the module would have otherwise
 *                       │
 *                       └── the first time on this thread ──> the thread is listed
 *
 * A thread is listed before its call has any effect: inspect/graph.h says how a rank with several
 * threads is judged.  Open MPI may make progress on a thread that has not called any of these
 * functions, for a window or a file; it is listed when it yields its core for the first time.
 *
 * A call reads one thread-local variable, in the model initial-exec: so this costs four instructions,
 * and up to two more where arguments are on the stack.
 */
#include "pml/pml.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLERS 64

struct caller {
    _Atomic uint32_t id; /* 0: none */
    _Atomic int
        waits_any; /* calls that end with one of several requests, which may not be ours */
    _Atomic uintptr_t begin, end; /* of its stack */
};

/* NULL: this thread is not listed. */
static __attribute__((tls_model("initial-exec"))) _Thread_local struct caller *thread_self;

static struct {
    pthread_mutex_t lock;
    _Atomic unsigned count;         /* CALLERS + 1: there are more */
    struct caller all[CALLERS + 1]; /* the last one is of threads that found no place */
    mca_pml_base_module_t usual;    /* the module's own functions */
    ompi_request_fns_t requests;    /* of MPI, likewise */
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
    atomic_store(&caller->waits_any, 0);
    atomic_store(&caller->id, (uint32_t)syscall(SYS_gettid));
    atomic_store(&caller->begin, begin);
    atomic_store(&caller->end, end);
}

static OUT_OF_LINE void thread_list(void)
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

static inline void thread_enter(void)
{
    if (unlikely(thread_self == NULL))
        thread_list();
}

void pml_threads_enter(void)
{
    thread_enter();
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
    return found >= 0 && atomic_load(&callers.all[found].waits_any) == 0 ? found : -1;
}

/* ---- the module's functions ---- */

/* Functions with more than six arguments have one of their own for the first call of a thread: so
 * arguments on the stack stay where they are. */

static OUT_OF_LINE int thread_first_isend(const void *buf, size_t count, ompi_datatype_t *type,
                                          int dst, int tag, mca_pml_base_send_mode_t mode,
                                          ompi_communicator_t *comm, ompi_request_t **request)
{
    thread_list();
    return callers.usual.pml_isend(buf, count, type, dst, tag, mode, comm, request);
}

static int thread_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                        ompi_request_t **request)
{
    return likely(thread_self != NULL)
               ? callers.usual.pml_isend(buf, count, type, dst, tag, mode, comm, request)
               : thread_first_isend(buf, count, type, dst, tag, mode, comm, request);
}

static OUT_OF_LINE int thread_first_send(const void *buf, size_t count, ompi_datatype_t *type,
                                         int dst, int tag, mca_pml_base_send_mode_t mode,
                                         ompi_communicator_t *comm)
{
    thread_list();
    return callers.usual.pml_send(buf, count, type, dst, tag, mode, comm);
}

static int thread_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    return likely(thread_self != NULL)
               ? callers.usual.pml_send(buf, count, type, dst, tag, mode, comm)
               : thread_first_send(buf, count, type, dst, tag, mode, comm);
}

static OUT_OF_LINE int thread_first_irecv(void *buf, size_t count, ompi_datatype_t *type,
                                          int src, int tag, ompi_communicator_t *comm,
                                          ompi_request_t **request)
{
    thread_list();
    return callers.usual.pml_irecv(buf, count, type, src, tag, comm, request);
}

static int thread_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                        ompi_communicator_t *comm, ompi_request_t **request)
{
    return likely(thread_self != NULL)
               ? callers.usual.pml_irecv(buf, count, type, src, tag, comm, request)
               : thread_first_irecv(buf, count, type, src, tag, comm, request);
}

static OUT_OF_LINE int thread_first_recv(void *buf, size_t count, ompi_datatype_t *type,
                                         int src, int tag, ompi_communicator_t *comm,
                                         ompi_status_public_t *status)
{
    thread_list();
    return callers.usual.pml_recv(buf, count, type, src, tag, comm, status);
}

static int thread_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                       ompi_communicator_t *comm, ompi_status_public_t *status)
{
    return likely(thread_self != NULL)
               ? callers.usual.pml_recv(buf, count, type, src, tag, comm, status)
               : thread_first_recv(buf, count, type, src, tag, comm, status);
}

static int thread_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                         ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_iprobe(src, tag, comm, matched, status);
}

static int thread_probe(int src, int tag, ompi_communicator_t *comm,
                        ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_probe(src, tag, comm, status);
}

static int thread_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                          ompi_message_t **message, ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_improbe(src, tag, comm, matched, message, status);
}

static int thread_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                         ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_mprobe(src, tag, comm, message, status);
}

static int thread_imrecv(void *buf, size_t count, ompi_datatype_t *type,
                         ompi_message_t **message, ompi_request_t **request)
{
    thread_enter();
    return callers.usual.pml_imrecv(buf, count, type, message, request);
}

static int thread_mrecv(void *buf, size_t count, ompi_datatype_t *type,
                        ompi_message_t **message, ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_mrecv(buf, count, type, message, status);
}

void pml_threads_take_module(mca_pml_base_module_t *module)
{
    callers.usual = *module;
    module->pml_isend = thread_isend;
    module->pml_send = thread_send;
    module->pml_irecv = thread_irecv;
    module->pml_recv = thread_recv;
    module->pml_iprobe = thread_iprobe;
    module->pml_probe = thread_probe;
    module->pml_improbe = thread_improbe;
    module->pml_mprobe = thread_mprobe;
    module->pml_imrecv = thread_imrecv;
    module->pml_mrecv = thread_mrecv;
}

/* ---- MPI's functions for requests ---- */

static int thread_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    thread_enter();
    return callers.requests.req_test(request, done, status);
}

static int thread_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                           ompi_status_public_t *status)
{
    thread_enter();
    return callers.requests.req_test_any(count, requests, which, done, status);
}

static int thread_test_all(size_t count, ompi_request_t **requests, int *done,
                           ompi_status_public_t *statuses)
{
    thread_enter();
    return callers.requests.req_test_all(count, requests, done, statuses);
}

static int thread_test_some(size_t count, ompi_request_t **requests, int *done, int *which,
                            ompi_status_public_t *statuses)
{
    thread_enter();
    return callers.requests.req_test_some(count, requests, done, which, statuses);
}

static int thread_wait(ompi_request_t **request, ompi_status_public_t *status)
{
    thread_enter();
    return callers.requests.req_wait(request, status);
}

/* Only this thread writes its count. */
static inline void thread_waits_any(int more)
{
    int count = atomic_load_explicit(&thread_self->waits_any, memory_order_relaxed);

    atomic_store_explicit(&thread_self->waits_any, count + more, memory_order_release);
}

static int thread_wait_any(size_t count, ompi_request_t **requests, int *which,
                           ompi_status_public_t *status)
{
    int err;

    thread_enter();
    thread_waits_any(1);
    err = callers.requests.req_wait_any(count, requests, which, status);
    thread_waits_any(-1);
    return err;
}

static int thread_wait_all(size_t count, ompi_request_t **requests,
                           ompi_status_public_t *statuses)
{
    thread_enter();
    return callers.requests.req_wait_all(count, requests, statuses);
}

static int thread_wait_some(size_t count, ompi_request_t **requests, int *done, int *which,
                            ompi_status_public_t *statuses)
{
    int err;

    thread_enter();
    thread_waits_any(1);
    err = callers.requests.req_wait_some(count, requests, done, which, statuses);
    thread_waits_any(-1);
    return err;
}

void pml_threads_take_requests(void)
{
    callers.requests = ompi_request_functions;
    ompi_request_functions.req_test = thread_test;
    ompi_request_functions.req_test_any = thread_test_any;
    ompi_request_functions.req_test_all = thread_test_all;
    ompi_request_functions.req_test_some = thread_test_some;
    ompi_request_functions.req_wait = thread_wait;
    ompi_request_functions.req_wait_any = thread_wait_any;
    ompi_request_functions.req_wait_all = thread_wait_all;
    ompi_request_functions.req_wait_some = thread_wait_some;
    (void)mbx_explain_threads(pml.ep, threads_listed, threads_waiter);
}
