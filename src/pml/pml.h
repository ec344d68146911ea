/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pml.h - the component for Open MPI: its state, its requests, and what its files call of each
 * other.
 *
 *   component.c ── one endpoint of the library for each process
 *   procs.c        Open MPI's process  -> peer number     address by the modex, peer on first use
 *   lookup.c       addresses, some asked for ahead
 *   comm.c         rank of communicator -> peer number, and back
 *   generation.c   which use of its context id a communicator is
 *   send.c recv.c probe.c persistent.c      MPI's calls
 *   request.c      Open MPI's request, with the handle of the library's inside
 *   progress.c     completions of the library become completions of requests
 *   datatype.c     where the bytes of a message lie
 *   blocks.c       packing and unpacking by the description of a datatype
 *   errors.c       the library's errors in MPI's words
 *   deaths.c       receives from any source, and ranks that have died
 *   order*.c       results of calls that depend on time: recorded, replayed, random or traced; they replace functions of the others
 *
 * A message travels under
 *
 *   context id   that of the communicator, 32 bits
 *   source       the peer number of the sender
 *   tag          MPI's, 32 bits in two's complement; the upper 32 are the generation of the
 *                communicator, so that no message meets a receive of a later one with this context id
 *   data         the sender's rank in its group, so that a receive from any source knows it
 *
 * MPI_ANY_TAG compares the generation, and of MPI's tag the sign bit alone: it meets no negative tag, which are the
 * collectives'.
 *
 * Threads: with MPI_THREAD_MULTIPLE the library takes its lock (MBX_THREADS=many); without, no
 * lock is taken, and a request of the library completes Open MPI's by a call (MBX_DONE).
 */
#ifndef PML_PML_H
#define PML_PML_H

#include "pml/series.h"

#include <matchbox/matchbox.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "pml/blocks.h"

#define PML_NAME "matchbox"

/* The sign bit of a tag is compared, and the generation. */
#define PML_IGNORE_ANY_TAG UINT64_C(0x7fffffff)

/* Bits of the generation, and all of MPI's. */
#define PML_GENERATION_SHIFT 32
#define PML_TAG_BITS         ((UINT64_C(1) << PML_GENERATION_SHIFT) - 1)

/* Requests begin with a cache line. */
#define PML_LINE 64

struct pml_recv;

struct pml {
    struct mbx_ep *ep;
    bool has_threads;       /* MPI_THREAD_MULTIPLE */
    bool is_mpi_waiting;    /* MPI's own loops wait: threads, or failures it goes on after */
    unsigned done;          /* MBX_DONE, unless there are threads: progress.c */
    struct pml_recv *spare; /* receives that were given back: request.c */
};

extern struct pml pml;

/* How many completions call Open MPI's own parts now, on this thread. */
extern _Thread_local unsigned pml_calling_back;

/* ---- request.c ---- */

enum pml_ends {
    PML_COMPLETE =
        1 << 0,         /* the library, and whoever completes the request, are done with it */
    PML_FREED = 1 << 1, /* MPI is */
};

/* A completion that is told behind the call of the library in which it came: progress.c. */
struct pml_later {
    struct pml_later *next;
    struct mbx_completion completion;
};

/* A persistent request that was never started, for mbx doctor: persistent.c */
struct pml_unstarted {
    struct pml_unstarted *next, *previous;
    struct mbx_unstarted what;
};

/* What a request of either kind has besides Open MPI's part.  Of this a receive into one piece touches, without
 * threads, the first word alone, which lies in a line with the last words of Open MPI's part. */
struct pml_own {
    union {
        mbx_request handle; /* of the library; names nothing once the request is complete */
        struct pml_recv *next_spare; /* of one that is spare */
    };
    _Atomic int ends;  /* enum pml_ends, with threads; with both the request goes back */
    bool is_converted; /* the request's convertor is in use; datatype.c */
    bool is_unstarted; /* it is in the list of those that were never started */
    void *copy;        /* in the memory of MPI_Buffer_attach, or NULL */
    union {
        struct pml_blocks blocks; /* of a message that they pack or unpack; datatype.c */
        struct pml_later later;   /* of one that is complete */
        struct pml_unstarted unstarted;
    };
    uint64_t event; /* of a receive, for order.c; 0: none */
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

/* From the base's lists; NULL: no memory. */
pml_send_t *pml_send_take(void);
pml_recv_t *pml_recv_take(void);

/* A request that was never shown to MPI goes back. */
void pml_send_drop(pml_send_t *send);

/* The request begins: nothing is complete, nobody has freed it. */
static inline void pml_request_begin(mca_pml_base_request_t *base, struct pml_own *own)
{
    ompi_request_t *request = &base->req_ompi;

    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status.MPI_ERROR = OMPI_SUCCESS;
    request->req_status._cancelled = 0;
    base->req_pml_complete = false;
    base->req_free_called = false;
    if (unlikely(pml.has_threads))
        atomic_store_explicit(&own->ends, 0, memory_order_relaxed);
}

/* A debugger takes a receive whose status has a tag for one that has met its message.  Which rank is wanted lies in the
 * status, too: in the line that its completion writes. */
static inline void pml_recv_begin(pml_recv_t *recv, int src)
{
    recv->super.req_base.req_ompi.req_status.MPI_SOURCE = src;
    recv->super.req_base.req_ompi.req_status.MPI_TAG = OMPI_ANY_TAG;
    pml_request_begin(&recv->super.req_base, &recv->own);
}

/* What MPI and debuggers ask of a request; it holds its communicator and datatype until it is
 * given back. */
void pml_send_describe(pml_send_t *send, const void *buf, size_t count, ompi_datatype_t *type,
                       int dst, int tag, mca_pml_base_send_mode_t mode,
                       ompi_communicator_t *comm, bool is_persistent);
void pml_recv_describe(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                       int src, int tag, ompi_communicator_t *comm, bool is_persistent);

/* A send that is active, and that MPI has freed, does not keep its communicator: two processes may each have one that ends
 * when the other process drops its message, which it does when its communicator ends. */
void pml_send_let_go(pml_send_t *send);

/* MPI completes it, with the error that is in its status.  It may be gone afterwards. */
void pml_request_complete(mca_pml_base_request_t *base, struct pml_own *own);

/* MPI frees a receive: req_free of all of them. */
int pml_request_free_recv(ompi_request_t **request);

/* What MPI_Wait does with a receive that is complete, without threads: MPI frees it. */
void pml_recv_end(pml_recv_t *recv);

/* Can the completion of such a request be told within the library, without threads?  Nothing else
 * is called then.  Not if it has something to release, for which there is another options.done. */
static inline bool pml_request_is_plain(const mca_pml_base_request_t *base,
                                        const struct mbx_completion *completion)
{
    return likely(completion->error == 0) && likely(base->req_ompi.req_complete_cb == NULL);
}

/* A completion calls Open MPI or the library: it is told when the library's call has returned.
 * progress.c */
void pml_report_later(struct pml_later *later, const struct mbx_completion *completion);

/* pml_request_complete() of a plain one.  Behind the library's call if MPI has freed it: then it goes
 * back, and with it perhaps its communicator, whose end calls the library. */
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

/* MPI has no further use for it, and it is complete: a blocking call of ours ends, or a call
 * that failed. */
void pml_request_give_back(mca_pml_base_request_t *base);

/* Waits until nobody is in the last completion of a persistent request. */
void pml_request_settle(struct pml_own *own);

/* ---- lookup.c ---- */

/* Lets the processes of our job on this host find our address, as pml_lookup() does. */
void pml_lookup_share(void);

/* The address that a process has published; Open MPI's error. */
int pml_lookup(const ompi_proc_t *proc, struct mbx_address *address);

/* Waits for what is asked for, and forgets all. */
void pml_lookup_close(void);

/* ---- procs.c ---- */

int pml_procs_open(void);
int pml_add_procs(ompi_proc_t **procs, size_t count);
int pml_del_procs(ompi_proc_t **procs, size_t count);

void pml_procs_close(void);

/* The peer number of a process, for one more communicator: OMPI_SUCCESS, or Open MPI's error. */
int pml_proc_use(ompi_proc_t *proc, uint32_t *peer);
/* That communicator has no further use for the number. */
void pml_proc_leave(uint32_t peer);
/* Peers of other jobs that have closed, and that no communicator knows, are removed.  Not within a
 * call of the library. */
void pml_procs_remove(void);

/* ---- comm.c ---- */

#define PML_NO_PEER UINT32_MAX

/* What hangs on a communicator. */
struct pml_comm {
    uint32_t context_id;
    uint32_t rank;       /* ours, as the others know it */
    uint32_t size;       /* ranks that we can talk to */
    uint64_t generation; /* where it lies in a tag */
    struct pml_comm *next_revoked;
    enum { PML_NOT_REVOKED, PML_COLLECTIVES_REVOKED, PML_REVOKED } revoked; /* failures.c */
    uint64_t ordinal;         /* among those with recorded events; 0: it has none: order.c */
    _Atomic uint32_t peers[]; /* of each, or PML_NO_PEER: it was not used yet */
};

/* The peer number of a rank, or PML_NO_PEER.  Another thread may write it now; what it stands for
 * is read under the library's lock. */
static inline uint32_t pml_comm_known(const struct pml_comm *own, size_t rank)
{
    return atomic_load_explicit(&own->peers[rank], memory_order_relaxed);
}

static inline struct pml_comm *pml_comm_of(const ompi_communicator_t *comm)
{
    return (struct pml_comm *)comm->c_pml_comm;
}

/* The tag under which messages of a communicator travel. */
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
    err = pml_comm_find_peer(comm, rank, &found); /* only here does it lie in memory */
    if (err == OMPI_SUCCESS)
        *peer = found;
    return err;
}

/* The rank of the sender of a message; MPI_UNDEFINED: it lies about it. */
int pml_comm_rank(ompi_communicator_t *comm, const struct mbx_status *status);

/* What a receive or a probe asks for. */
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

/* What MPI's status says of a message, in a status of the program: Open MPI's macro knows which fields those are. */
static inline void pml_status_fill(ompi_status_public_t *status, int source, uint64_t tag,
                                   size_t size)
{
    const ompi_status_public_t filled = {
        .MPI_SOURCE = source, .MPI_TAG = (int)(uint32_t)tag, ._ucount = size};

    OMPI_COPY_STATUS(status, filled, false);
}

/* ---- generation.c ---- */

/* Counts a communicator that is made: once, before anything can fail.  Open MPI's error. */
int pml_generation(const ompi_communicator_t *comm, uint32_t *generation);
void pml_generations_close(void);

/* ---- datatype.c ---- */

/* As pml_data_is_flat(), of a datatype that a program has made. */
bool pml_data_is_flat_made(const ompi_datatype_t *type, size_t count);

/* Does a message of so many of these lie in one piece?  Then it begins at *bytes.  Basic datatypes do,
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

/* In pieces, by the blocks or the convertor of the request: what the library is told.  The second
 * one is to be released. */
void pml_data_send(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                   size_t count, const ompi_datatype_t *type, struct mbx_layout *layout);
void pml_data_recv(mca_pml_base_request_t *base, struct pml_own *own, void *buf, size_t count,
                   const ompi_datatype_t *type, struct mbx_layout *layout);
/* A packed copy for MPI_Bsend; Open MPI's error. */
int pml_data_buffer(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                    size_t count, const ompi_datatype_t *type);
/* The message has left, or has come. */
void pml_data_release(mca_pml_base_request_t *base, struct pml_own *own);

/* ---- send.c, recv.c, probe.c, persistent.c ---- */

int pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
              mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
              ompi_request_t **request);
int pml_send(const void *buf, size_t count, ompi_datatype_t *type, int dst, int tag,
             mca_pml_base_send_mode_t mode, ompi_communicator_t *comm);
/* A described send starts.  Open MPI's error. */
int pml_send_start(pml_send_t *send);
/* The library is done with it; pml_request_complete() is next. */
void pml_send_completed(pml_send_t *send, const struct mbx_completion *completion);
/* options.done of what lies in one piece. */
void pml_send_done(const struct mbx_completion *completion);

int pml_irecv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
              ompi_communicator_t *comm, ompi_request_t **request);
int pml_recv(void *buf, size_t count, ompi_datatype_t *type, int src, int tag,
             ompi_communicator_t *comm, ompi_status_public_t *status);
int pml_recv_start(pml_recv_t *recv);
void pml_recv_completed(pml_recv_t *recv, const struct mbx_completion *completion);
void pml_recv_done(const struct mbx_completion *completion);

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
/* As the library asks of a request that is not: mbx_explain_unstarted(). */
int pml_persistent_unstarted(unsigned index, struct mbx_unstarted *out);
/* A persistent request becomes active, and nothing is posted. */
void pml_persistent_begin(mca_pml_base_request_t *base);
/* A persistent request ends. */
void pml_persistent_end(mca_pml_base_request_t *base);

/* ---- progress.c ---- */

int pml_progress_open(void);
void pml_progress_close(void);
/* options.done of a request with something to release. */
void pml_later_done(const struct mbx_completion *completion);
/* Open MPI's callback: how much has moved. */
int pml_progress(void);
/* Open MPI's progress, once, from a call that does not wait. */
void pml_progress_test(void);

/* Reports what has completed within calls of the library, of which the last one may have been followed by no progress. */
void pml_progress_rest(void);
/* Until the request is complete. */
void pml_wait(ompi_request_t *request);
/* Does the launcher, or the user, say that there are more ranks here than cores? */
bool pml_is_oversubscribed(void);

/* ---- deaths.c ---- */

/* Without ULFM: receives from any source on whose communicator a rank has died end.  Not between
 * mbx_peek() and mbx_release(); there the look is due. */
void pml_deaths_check(void);
extern _Atomic bool pml_deaths_are_due;
/* Was this receive, which is cancelled, ended by a death?  It says so once. */
bool pml_deaths_ended(const pml_recv_t *recv);
/* Of how many deaths the program has been told. */
int pml_deaths_known(void);
/* A blocking probe from any source, which began when so many were known: MPI_ERR_OTHER if a rank of
 * its communicator has died since, and one line says which; OMPI_SUCCESS. */
int pml_deaths_since(ompi_communicator_t *comm, int known);

/* ---- order.c ---- */

/* With MBX_RECORD or MBX_REPLAY: functions of this module are replaced. */
void pml_order_open(mca_pml_base_module_t *module);
/* Opens the record, or both, when MPI's functions for requests are ours.  Open MPI's error. */
int pml_order_start(void);
/* Does not return if the replay has diverged. */
void pml_order_close(void);

/* ---- errors.c ---- */

/* One line: receives from any source of this communicator end, as this rank has died. */
void pml_error_report_any(ompi_communicator_t *comm, int rank);

/* Open MPI's error, which is negative, for that of a call of the library. */
int pml_error(int error);
/* Of a call that sends to a rank, or receives from it, Open MPI's or MPI's error for the former. */
int pml_error_of_call(ompi_communicator_t *comm, int rank, int error);
/* MPI's error for that of a completion; one line says which rank has failed. */
int pml_error_of_rank(ompi_communicator_t *comm, int rank, int error);

#endif
