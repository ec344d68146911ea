/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pml.h - the component for Open MPI: its state, its requests, and the functions that its files
 * share.
 *
 *   component.c ── one endpoint of the library for each process
 *   procs.c        Open MPI's process  -> peer number     address by the modex, peer on first use
 *   lookup.c       addresses, some requested ahead of need
 *   comm.c         rank of communicator -> peer number, and back
 *   generation.c   distinguishes communicators that use the same context id one after the other
 *   send.c recv.c probe.c persistent.c      MPI's calls
 *   request.c      Open MPI's request, with the library's handle inside
 *   progress.c     completions of the library become completions of requests
 *   poller.c       while all is shared, one thread polls for all, and others watch their requests
 *   waits.c        MPI_Wait, MPI_Test and their like
 *   owner.c        one thread owns all this until a second one calls
 *   datatype.c     access to the bytes of a message
 *   blocks.c       packing and unpacking by the description of a datatype
 *   errors.c       conversion of the library's errors to MPI's
 *   threads.c      the threads that have communicated
 *   deaths.c       ends receives from any source after the death of a rank
 *   order*.c       results of calls that depend on time: recorded, replayed, random or traced; they replace functions of the others
 *
 * A message travels under
 *
 *   context id   of the communicator, 32 bits
 *   source       the peer number of the sender
 *   tag          MPI's, 32 bits in two's complement; the upper 32 are the generation of the
 *                communicator, so that no message meets a receive of a later one with this context id
 *   data         the sender's rank in its group, so that a receive from any source knows it
 *
 * MPI_ANY_TAG compares the generation, and the sign bit of MPI's tag: so it matches no negative tag, which collectives
 * use.
 *
 * A request of the library completes Open MPI's by a callback (MBX_DONE).
 *
 * Threads: with MPI_THREAD_MULTIPLE the first calling thread owns the component and its endpoint
 * (base/bias.h), and no lock is taken.  When a second thread calls, all is shared for ever: the
 * library takes its lock (MBX_THREADS=many), and completions are put aside and reported without
 * it.  owner.c, and waits.c for waits, have the functions that MPI calls then.
 */
#ifndef PML_PML_H
#define PML_PML_H

#include "pml/series.h"

#include <matchbox/matchbox.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bias.h"
#include "base/compiler.h"
#include "pml/blocks.h"

#define PML_NAME "matchbox"

/* MPI_ANY_TAG ignores all bits of MPI's tag except the sign bit. */
#define PML_IGNORE_ANY_TAG UINT64_C(0x7fffffff)

/* The position of the generation in a tag, and the mask of MPI's tag. */
#define PML_GENERATION_SHIFT 32
#define PML_TAG_BITS         ((UINT64_C(1) << PML_GENERATION_SHIFT) - 1)

/* Requests begin with a cache line. */
#define PML_LINE 64

struct pml_recv;

struct pml {
    struct mbx_ep *ep;
    bool may_share; /* MPI_THREAD_MULTIPLE */
    /* And a second thread has called, or there is no owner: owner.c.  bias.state says so too, but an atomic load
     * would cost an instruction more at each use. */
    bool is_shared;
    bool is_mpi_waiting;    /* MPI's own loops wait: is_shared, or with ULFM */
    struct pml_recv *spare; /* receives for reuse, unless is_shared: request.c */
    struct bias bias;       /* who owns all this, with may_share */
};

extern struct pml pml;

/* ---- owner.c ---- */

/* With MPI_THREAD_MULTIPLE, after the endpoint has been opened: lets the first calling thread own
 * it, if that is possible, and replaces functions of the module. */
void pml_owner_open(mca_pml_base_module_t *module);

/* The first and the last action of each function that MPI calls with may_share.  Calls may be
 * nested. */
static inline void pml_enter(void)
{
    if (unlikely(pml.may_share))
        bias_enter(&pml.bias);
}

static inline void pml_leave(void)
{
    if (unlikely(pml.may_share))
        bias_leave(&pml.bias);
}

/* Around what may take long, or wait: a second thread may come meanwhile, and all may be shared
 * afterwards. */
static inline bool pml_step_out(void)
{
    return bias_step_out(&pml.bias);
}

static inline void pml_step_in(bool was_inside)
{
    bias_step_in(&pml.bias, was_inside);
}

/* Between the rounds of a wait: lets a second thread in.  True: all is shared. */
static inline bool pml_let_in(void)
{
    if (unlikely(bias_is_wanted(&pml.bias)))
        pml_step_in(pml_step_out());
    return pml.is_shared;
}

/* The nesting depth of completions that call Open MPI's own parts on this thread.  In this model it costs no call of the
 * loader to find it. */
extern __attribute__((tls_model("initial-exec"))) _Thread_local unsigned pml_calling_back;

/* ---- request.c ---- */

/* The MPI_Waitany or MPI_Waitsome that a thread is in: waits.c. */
struct pml_any {
    _Atomic size_t count;      /* 0: it is in none */
    ompi_request_t **requests; /* only this thread reads it */
};

/* A completion that is reported after the return of the library call in which it came:
 * progress.c. */
struct pml_later {
    struct pml_later *next;
    struct mbx_completion completion;
};

/* A persistent request that was never started, for mbx doctor: persistent.c */
struct pml_unstarted {
    struct pml_unstarted *next, *previous;
    struct mbx_unstarted what;
};

/* The part of a request beyond Open MPI's.  A contiguous receive touches only the first word,
 * unless all is shared; that word shares a cache line with the last words of Open MPI's part. */
struct pml_own {
    union {
        mbx_request handle; /* the library's; names nothing once the request is complete */
        struct pml_recv *next_spare; /* while it waits for reuse */
    };
    bool is_converted; /* the request's convertor is in use; datatype.c */
    bool is_unstarted; /* listed as a request that was never started */
    void *copy;        /* in the memory of MPI_Buffer_attach, or NULL */
    union {
        struct pml_blocks blocks; /* for a message that they pack or unpack; datatype.c */
        struct pml_later later;   /* for a completed request */
        struct pml_unstarted unstarted;
    };
    uint64_t event; /* for a receive, for order.c; 0: none */
};

/* Open MPI's request comes first: debuggers read it in the base's free lists. */
typedef struct pml_send {
    mca_pml_base_send_request_t super;
    struct pml_own own;
} pml_send_t;

typedef struct pml_recv {
    mca_pml_base_recv_request_t super;
    struct pml_own own;
} pml_recv_t;

int pml_requests_open(void);

/* Take a request from the base's lists; NULL: no memory. */
pml_send_t *pml_send_take(void);
pml_recv_t *pml_recv_take(void);

/* Returns a request that was never shown to MPI. */
void pml_send_drop(pml_send_t *send);

/* Marks the request as active: not complete, not freed. */
static inline void pml_request_begin(mca_pml_base_request_t *base)
{
    ompi_request_t *request = &base->req_ompi;

    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status.MPI_ERROR = OMPI_SUCCESS;
    request->req_status._cancelled = 0;
    base->req_pml_complete = false;
    base->req_free_called = false;
}

/* Until it completes, a receive's status has no tag: a debugger takes a receive with one for
 * matched.  The wanted rank is kept in the status too: in the cache line that the completion
 * writes. */
static inline void pml_recv_begin(pml_recv_t *recv, int src)
{
    recv->super.req_base.req_ompi.req_status.MPI_SOURCE = src;
    recv->super.req_base.req_ompi.req_status.MPI_TAG = OMPI_ANY_TAG;
    pml_request_begin(&recv->super.req_base);
}

/* Sets the fields that MPI and debuggers read; the request retains its communicator and
 * datatype until it is given back. */
void pml_send_describe(pml_send_t *send, const void *buf, size_t count, ompi_datatype_t *type,
                       int dst, int tag, mca_pml_base_send_mode_t mode,
                       ompi_communicator_t *comm, bool is_persistent);
void pml_recv_describe(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                       int src, int tag, ompi_communicator_t *comm, bool is_persistent);

/* Lets an active send that MPI has freed release its communicator.  Otherwise two processes may
 * each have a communicator that ends only when the other process drops its message, which it
 * does when its own communicator ends. */
void pml_send_let_go(pml_send_t *send);

/* Completes MPI's request, with the error in its status.  The request may be gone
 * afterwards. */
void pml_request_complete(mca_pml_base_request_t *base, struct pml_own *own);

/* req_free of all receives. */
int pml_request_free_recv(ompi_request_t **request);

/* Frees a complete receive for MPI_Wait: without may_share, or with it unless all is shared. */
void pml_recv_end(pml_recv_t *recv);
void pml_recv_end_owned(pml_recv_t *recv);

/* Gives the spare receives to Open MPI's list, from which all threads take theirs. */
void pml_requests_share(void);

/* True if the completion can be reported inside the library call: it then calls nothing else,
 * and no other thread is here.  Requests with something to release are excluded: they have another
 * options.done. */
static inline bool pml_request_is_plain(const mca_pml_base_request_t *base,
                                        const struct mbx_completion *completion)
{
    return likely(completion->error == 0) && likely(base->req_ompi.req_complete_cb == NULL) &&
           likely(!pml.is_shared);
}

/* Puts a completion aside, because its report calls Open MPI or the library: it follows after
 * the library's call has returned.  progress.c */
void pml_report_later(struct pml_later *later, const struct mbx_completion *completion);

/* pml_request_complete() for a plain request.  If MPI has freed it, it completes after the
 * library's call: its return may end its communicator, which calls the library. */
static inline void pml_request_done(mca_pml_base_request_t *base, struct pml_own *own,
                                    const struct mbx_completion *completion)
{
    if (unlikely(base->req_free_called)) {
        pml_report_later(&own->later, completion);
        return;
    }
    base->req_pml_complete = true;
    if (unlikely(base->req_ompi.req_complete != REQUEST_PENDING))
        pml_request_complete(base, own);
    else
        base->req_ompi.req_complete = REQUEST_COMPLETED;
}

/* Returns a complete request that MPI no longer uses: after a blocking call, or a call that
 * failed. */
void pml_request_give_back(mca_pml_base_request_t *base);

/* Waits until no thread is in the last completion of a persistent request. */
void pml_request_settle(const mca_pml_base_request_t *base);

/* ---- lookup.c ---- */

/* Publishes our address for the other processes of our job on this host; pml_lookup() finds
 * it. */
void pml_lookup_share(void);

/* The published address of a process; Open MPI's error. */
int pml_lookup(const ompi_proc_t *proc, struct mbx_address *address);

/* Waits for all requested addresses, and frees them. */
void pml_lookup_close(void);

/* ---- procs.c ---- */

int pml_procs_open(void);
int pml_add_procs(ompi_proc_t **procs, size_t count);
int pml_del_procs(ompi_proc_t **procs, size_t count);

void pml_procs_close(void);

/* The peer number of a process, counted for one more communicator: OMPI_SUCCESS, or Open MPI's
 * error. */
int pml_proc_use(ompi_proc_t *proc, uint32_t *peer);
/* A communicator no longer uses the number. */
void pml_proc_leave(uint32_t peer);
/* Removes closed peers of other jobs that no communicator uses.  Not inside a call of the
 * library. */
void pml_procs_remove(void);

/* ---- comm.c ---- */

#define PML_NO_PEER UINT32_MAX

/* The component's part of a communicator. */
struct pml_comm {
    uint32_t context_id;
    uint32_t rank;       /* ours, as sent in messages */
    uint32_t size;       /* ranks of the (remote) group */
    uint64_t generation; /* in its position in a tag */
    struct pml_comm *next_revoked;
    enum { PML_NOT_REVOKED, PML_COLLECTIVES_REVOKED, PML_REVOKED } revoked; /* failures.c */
    _Atomic uint32_t requests; /* of ours that name it, with may_share: request.c */
    uint64_t ordinal;          /* order.c: number among the communicators with recorded events;
                                * 0: none recorded */
    uint64_t number;         /* among the communicators that this process has made, from 1 on */
    struct order_lane *lane; /* order_lane.c, with threads; NULL: no event yet */
    _Atomic uint32_t peers[]; /* by rank; PML_NO_PEER: not used yet */
};

/* The peer number of a rank, or PML_NO_PEER.  Another thread may write it concurrently; the
 * peer itself is read under the library's lock. */
static inline uint32_t pml_comm_known(const struct pml_comm *own, size_t rank)
{
    return atomic_load_explicit(&own->peers[rank], memory_order_relaxed);
}

static inline struct pml_comm *pml_comm_of(const ompi_communicator_t *comm)
{
    return (struct pml_comm *)comm->c_pml_comm;
}

/* The tag of a communicator's messages. */
static inline uint64_t pml_comm_tag(const struct pml_comm *own, int tag)
{
    return own->generation | (uint32_t)tag;
}

int pml_add_comm(ompi_communicator_t *comm);
int pml_del_comm(ompi_communicator_t *comm);
int pml_comm_find_peer(ompi_communicator_t *comm, int rank, uint32_t *peer);

/* The peer number of a rank: OMPI_SUCCESS, or Open MPI's error. */
static inline int pml_comm_peer(ompi_communicator_t *comm, int rank, uint32_t *peer)
{
    uint32_t found;
    int err;

    *peer = pml_comm_known(pml_comm_of(comm), (size_t)rank);
    if (likely(*peer != PML_NO_PEER))
        return OMPI_SUCCESS;
    err = pml_comm_find_peer(comm, rank, &found); /* local, so that *peer stays in a register */
    if (err == OMPI_SUCCESS)
        *peer = found;
    return err;
}

/* The rank of a message's sender; MPI_UNDEFINED if the message claims a wrong one. */
int pml_comm_rank(ompi_communicator_t *comm, const struct mbx_status *status);

/* The envelope that a receive or a probe matches. */
struct pml_wanted {
    uint32_t source;
    uint32_t context_id;
    uint64_t tag, ignore;
};

static inline int pml_comm_wanted(ompi_communicator_t *comm, int src, int tag,
                                  struct pml_wanted *wanted)
{
    const struct pml_comm *own = pml_comm_of(comm);

    wanted->context_id = own->context_id;
    wanted->tag = pml_comm_tag(own, likely(tag != OMPI_ANY_TAG) ? tag : 0);
    wanted->ignore = likely(tag != OMPI_ANY_TAG) ? 0 : PML_IGNORE_ANY_TAG;
    wanted->source = MBX_ANY_SOURCE;
    return src == OMPI_ANY_SOURCE ? OMPI_SUCCESS : pml_comm_peer(comm, src, &wanted->source);
}

/* Fills the program's status for a message: Open MPI's macro knows which fields to set. */
static inline void pml_status_fill(ompi_status_public_t *status, int source, uint64_t tag,
                                   size_t size)
{
    const ompi_status_public_t filled = {
        .MPI_SOURCE = source, .MPI_TAG = (int)(uint32_t)tag, ._ucount = size};

    OMPI_COPY_STATUS(status, filled, false);
}

/* ---- generation.c ---- */

/* The generation of a new communicator: called once, before anything can fail.  Open MPI's
 * error. */
int pml_generation(const ompi_communicator_t *comm, uint32_t *generation);
void pml_generations_close(void);

/* ---- datatype.c ---- */

/* pml_data_is_flat() for derived datatypes. */
bool pml_data_is_flat_made(const ompi_datatype_t *type, size_t count);

/* True if count elements are contiguous in memory, beginning at *bytes.  Basic datatypes are,
 * and only they are PREDEFINED. */
static inline bool pml_data_is_flat(const ompi_datatype_t *type, size_t count)
{
    return likely(type->super.flags & OPAL_DATATYPE_FLAG_PREDEFINED) ||
           pml_data_is_flat_made(type, count);
}

static inline void *pml_data_flat(const void *buf, const ompi_datatype_t *type)
{
    return (char *)(uintptr_t)buf + type->super.true_lb;
}

static inline size_t pml_data_size(const ompi_datatype_t *type, size_t count)
{
    return type->super.size * count;
}

/* Prepare a layout for the library, by the request's blocks or convertor.  The convertor must
 * be released. */
void pml_data_send(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                   size_t count, const ompi_datatype_t *type, struct mbx_layout *layout);
void pml_data_recv(mca_pml_base_request_t *base, struct pml_own *own, void *buf, size_t count,
                   const ompi_datatype_t *type, struct mbx_layout *layout);
/* Makes a packed copy for MPI_Bsend; Open MPI's error. */
int pml_data_buffer(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                    size_t count, const ompi_datatype_t *type);
/* Called when the message has left, or has arrived. */
void pml_data_release(mca_pml_base_request_t *base, struct pml_own *own);

/* ---- send.c, recv.c, probe.c, persistent.c ---- */

int pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
              mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
              ompi_request_t **request);
int pml_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
             mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);
/* Starts a described send.  Open MPI's error. */
int pml_send_start(pml_send_t *send);
/* Handles the library's completion; pml_request_complete() must follow. */
void pml_send_completed(pml_send_t *send, const struct mbx_completion *completion);
/* options.done of contiguous messages. */
void pml_send_done(const struct mbx_completion *completion);

int pml_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
              ompi_communicator_t *comm, ompi_request_t **request);
int pml_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
             ompi_communicator_t *comm, ompi_status_public_t *status);
int pml_recv_start(pml_recv_t *recv);
void pml_recv_completed(pml_recv_t *recv, const struct mbx_completion *completion);
void pml_recv_done(const struct mbx_completion *completion);

/* For pml_improbe() and pml_mprobe(), a message of NULL stays where it is. */
int pml_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
               ompi_status_public_t *status);
int pml_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status);
int pml_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                ompi_message_t **message, ompi_status_public_t *status);
int pml_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
               ompi_status_public_t *status);
int pml_imrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
               ompi_request_t **request);
int pml_mrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
              ompi_status_public_t *status);

int pml_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                   ompi_request_t **request);
int pml_irecv_init(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
                   ompi_communicator_t *comm, ompi_request_t **request);
int pml_start(size_t count, ompi_request_t **requests);
/* Callback of the library for requests that it does not have: mbx_explain_unstarted(). */
int pml_persistent_unstarted(unsigned index, struct mbx_unstarted *out);
/* Makes a persistent request active, without posting anything. */
void pml_persistent_begin(mca_pml_base_request_t *base);
/* Ends a persistent request. */
void pml_persistent_end(mca_pml_base_request_t *base);

/* ---- progress.c ---- */

int pml_progress_open(void);
/* registered: Open MPI's callback for this component. */
void pml_progress_close(int (*registered)(void));
/* Calls Open MPI's progress once, outside of the component. */
void pml_progress_outside(void);
/* options.done of a request with something to release. */
void pml_later_done(const struct mbx_completion *completion);
/* Open MPI's callback: returns the amount of progress. */
int pml_progress(void);
/* Calls Open MPI's progress once, for a call that does not wait. */
void pml_progress_test(void);

/* Reports the completions from calls of the library that no progress has followed. */
void pml_progress_rest(void);
/* True if the launcher, or the user, says that there are more ranks here than cores. */
bool pml_is_oversubscribed(void);

/* ---- waits.c ---- */

/* Waits until the request is complete. */
void pml_wait(ompi_request_t *request);
/* The wait object of the call of Open MPI that waits for this request of the library; NULL: there is
 * none. */
const void *pml_request_waits(const void *user, enum mbx_queue kind);

/* ---- deaths.c ---- */

/* Without ULFM: ends receives from any source if a rank of their communicator has died.  Not
 * between mbx_peek() and mbx_release(); set pml_deaths_are_due there. */
void pml_deaths_check(void);
extern _Atomic bool pml_deaths_are_due;
/* True if a death ended this cancelled receive; true only once. */
bool pml_deaths_ended(const pml_recv_t *recv);
/* The number of deaths that the program has been told of. */
int pml_deaths_known(void);
/* For a blocking probe from any source that began when `known` deaths were reported:
 * MPI_ERR_OTHER, and one line with the rank, if a rank of its communicator has died since;
 * otherwise OMPI_SUCCESS. */
int pml_deaths_since(ompi_communicator_t *comm, int known);

/* ---- threads.c: only with MPI_THREAD_MULTIPLE ---- */

/* Lists this thread, unless it is listed. */
void pml_threads_meet(void);
/* Lets mbx doctor ask which threads there are. */
void pml_threads_explain(void);
/* Is this object in a frame of a function that this thread is in?  Also false if it is not known,
 * as on the stack of a coroutine. */
bool pml_thread_is_on_stack(const void *object);
/* The MPI_Waitany of this thread; NULL: there is no room for one. */
struct pml_any *pml_threads_any(void);

/* ---- order.c ---- */

/* Is MBX_RECORD, MBX_REPLAY or MBX_SHUFFLE set? */
bool pml_order_is_wanted(void);
/* If so: replaces functions of this module. */
void pml_order_open(mca_pml_base_module_t *module);
/* Opens the record, the replay, or both, once MPI's request functions are replaced.  Open MPI's
 * error. */
int pml_order_start(void);
/* Does not return if the replay has diverged. */
void pml_order_close(void);

/* ---- errors.c ---- */

/* Writes one line: receives from any source of this communicator end, because this rank has
 * died. */
void pml_error_report_any(ompi_communicator_t *comm, int rank);

/* Open MPI's error, which is negative, for an error of a library call. */
int pml_error(int error);
/* The error of a call that sends to a rank, or receives from it: Open MPI's or MPI's error for
 * one of Open MPI's. */
int pml_error_of_call(ompi_communicator_t *comm, int rank, int error);
/* MPI's error for a completion's error; one line says which rank has failed. */
int pml_error_of_rank(ompi_communicator_t *comm, int rank, int error);

#endif
