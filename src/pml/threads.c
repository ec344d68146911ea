/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * threads.c - with MPI_THREAD_MULTIPLE, the threads that have communicated: for mbx doctor.
 *
 *   MPI's call ──> thread_send(), ... ──> the function that the module would have without threads
 *                       │
 *                       └── the first time on this thread ──> the thread is listed
 *
 * A thread is listed before its call has any effect: inspect/graph.h says how a rank with several
 * threads is judged.  Open MPI may make progress on a thread that has not called any of these
 * functions, for a window or a file; it is listed when it yields its core for the first time.
 *
 * A call reads one thread-local variable, in the model initial-exec: so this costs three
 * instructions, and the jump to the function one.
 */
#include "pml/pml.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLERS 64

/* The end of this thread's stack; 0: the thread is not listed. */
static __attribute__((tls_model("initial-exec"))) _Thread_local uintptr_t thread_stack_end;

static struct {
    pthread_mutex_t lock;
    _Atomic unsigned count; /* CALLERS + 1: there are more */
    _Atomic uint32_t ids[CALLERS];
    mca_pml_base_module_t usual; /* the module's own functions */
    ompi_request_fns_t requests; /* of MPI, likewise */
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
        if (caller_is_gone(atomic_load_explicit(&callers.ids[i], memory_order_relaxed)))
            return i;
    return CALLERS;
}

/* 1 if it is not known: then nothing is on this stack. */
static uintptr_t stack_end(void)
{
    pthread_attr_t attributes;
    uintptr_t end = 1;
    void *stack;
    size_t size;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return end;
    if (pthread_attr_getstack(&attributes, &stack, &size) == 0)
        end = (uintptr_t)stack + size;
    pthread_attr_destroy(&attributes);
    return end;
}

static OUT_OF_LINE void thread_list(void)
{
    unsigned count, place;

    pthread_mutex_lock(&callers.lock);
    count = atomic_load_explicit(&callers.count, memory_order_relaxed);
    place = caller_place(count);
    if (place < CALLERS)
        atomic_store_explicit(&callers.ids[place], (uint32_t)syscall(SYS_gettid),
                              memory_order_relaxed);
    if (place >= count)
        atomic_store(&callers.count, place + 1);
    pthread_mutex_unlock(&callers.lock);
    thread_stack_end = stack_end();
}

static inline void thread_enter(void)
{
    if (unlikely(thread_stack_end == 0))
        thread_list();
}

void pml_threads_enter(void)
{
    thread_enter();
}

bool pml_thread_is_on_stack(const void *object)
{
    return (uintptr_t)object > (uintptr_t)__builtin_frame_address(0) &&
           (uintptr_t)object < thread_stack_end;
}

/* Callback of the library: mbx_explain_threads(). */
static int threads_listed(unsigned index, uint32_t *id)
{
    if (index >= atomic_load(&callers.count))
        return 0;
    *id = index < CALLERS ? atomic_load_explicit(&callers.ids[index], memory_order_relaxed) : 0;
    return 1;
}

/* ---- the module's functions ---- */

static int thread_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                        mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                        ompi_request_t **request)
{
    thread_enter();
    return callers.usual.pml_isend(buf, count, type, dst, tag, mode, comm, request);
}

static int thread_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    thread_enter();
    return callers.usual.pml_send(buf, count, type, dst, tag, mode, comm);
}

static int thread_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                        ompi_communicator_t *comm, ompi_request_t **request)
{
    thread_enter();
    return callers.usual.pml_irecv(buf, count, type, src, tag, comm, request);
}

static int thread_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                       ompi_communicator_t *comm, ompi_status_public_t *status)
{
    thread_enter();
    return callers.usual.pml_recv(buf, count, type, src, tag, comm, status);
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

static int thread_start_all(size_t count, ompi_request_t **requests)
{
    thread_enter();
    return callers.usual.pml_start(count, requests);
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
    module->pml_start = thread_start_all;
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

static int thread_wait_any(size_t count, ompi_request_t **requests, int *which,
                           ompi_status_public_t *status)
{
    thread_enter();
    return callers.requests.req_wait_any(count, requests, which, status);
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
    thread_enter();
    return callers.requests.req_wait_some(count, requests, done, which, statuses);
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
    (void)mbx_explain_threads(pml.ep, threads_listed);
}
