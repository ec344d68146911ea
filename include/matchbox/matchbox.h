/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matchbox.h - MPI tag matching and its protocols, as a library.
 *
 * An endpoint sends messages to peers and matches what arrives to receives by
 * the rules of MPI:
 *
 *   - a message carries an envelope: context id, source, tag;
 *   - a receive names a context id, a source or MBX_ANY_SOURCE, a tag and 64
 *     ignore bits (1 = not compared).  It accepts a message when the context ids
 *     are equal, the source is equal or any, and
 *     ((message tag ^ receive tag) & ~ignore) == 0.  There is no tag that stands for
 *     any: all 64 bits are the user's, and tag 0 with MBX_IGNORE_ALL accepts every tag;
 *   - a message goes to the earliest posted receive that accepts it, a receive
 *     takes the earliest message that it accepts, and messages of one sender on
 *     one context id are taken in the order in which they were sent;
 *   - the length takes no part in matching.
 *
 * Small messages travel eagerly, larger ones by rendezvous: the sender announces
 * (RTS), the receiver reads the data straight into the posted buffer and
 * acknowledges (FIN).
 *
 * Everything is nonblocking except the mbx_wait calls, mbx_sleep() and the mbx_job_
 * calls that say so.  Nothing moves outside mbx_progress() and the calls that
 * are documented to make progress.
 *
 * Calls that wait give the core away while nothing moves: they sleep, or let others have it
 * now and then (sched_yield(2)).  Calls that only look never do: mbx_test(), mbx_progress(),
 * mbx_poll(), probes, and a wait with a timeout of 0.  A loop of these keeps its core for a
 * whole time slice, while the peer that it waits for may be without one: with more processes
 * than cores it should call sched_yield(), one of the mbx_wait calls, or mbx_sleep() behind
 * some tens of looks that have found nothing.
 *
 * Errors     0 or a positive count is success; errors are negative errno values.
 *            Outputs are written only on success.
 * Threads    With MBX_THREADS=one (the default) one thread at a time per endpoint.
 *            With MBX_THREADS=many any number: the calls of one endpoint take its
 *            lock, one after the other, and the waits let the others in.
 *            Either way endpoints are independent of each other.  A call that names no
 *            endpoint may be made by any thread, but for the mbx_job_ calls: one thread
 *            at a time per job.
 *            What differs is said at the call.  docs/internals/threads.md says what it costs.
 * Fork       an endpoint is its process's alone.  In a child that fork() has made a call that
 *            uses it logs an error and ends the child; mbx_close() does nothing, and returns
 *            -EPERM.  The child may execute a program, end, or open endpoints of its own.
 * Structures can grow, and a program that was compiled with an earlier header goes on working:
 *            - those that a call fills (mbx_param, mbx_limits, mbx_served, mbx_stat,
 *              mbx_protocol_row, mbx_network, and mbx_device_info of device.h) are passed
 *              with their size, sizeof *x.  The call writes no more than that, and 0 to what
 *              this version does not know.  -EINVAL: the size is smaller than any version's.
 *            - those that a call reads (mbx_config, mbx_options, mbx_region, mbx_atomic_args,
 *              mbx_sleep_hooks) have flags.  A member that a later version adds is read only
 *              if a flag says that it is there; a flag that this version does not know is
 *              -EINVAL.  Members that a program does not name are 0 (designated
 *              initialisers).
 *            - mbx_address, mbx_status and mbx_completion stay as they are: what a later
 *              version knows besides is asked for by a call of its own.
 *
 * Contents   I    Simple programs: version and errors, endpoints, jobs, sending, receiving,
 *                 waiting for requests.
 *            II   Loops of one's own: completion queues, sleeping, a descriptor for epoll.
 *            III  For experts: completions where they lie, one-sided accesses, peers that die,
 *                 messages that wait for a receive, what an endpoint can do, parameters, names
 *                 for people, statistics.
 * Fields     The comment of a call has those that apply to it.  Order: what is in which order.
 *            Units: of its numbers.  Returns: the result, and every error.  Ownership: who has
 *            the memory.  Threads: what differs from the above.  Progress: whether it makes any
 *            (a call of a const endpoint never does), and whether it blocks.  Source: where
 *            it is.
 *
 * This header is the only authority on the API.
 */
#ifndef MATCHBOX_MATCHBOX_H
#define MATCHBOX_MATCHBOX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MBX_API __attribute__((visibility("default")))
#else
#define MBX_API
#endif

#define MBX_VERSION_MAJOR 0
#define MBX_VERSION_MINOR 1
#define MBX_VERSION_PATCH 0

#define MBX_ANY_SOURCE    UINT32_MAX  /* source of a receive or probe: anybody */
#define MBX_IGNORE_ALL    UINT64_MAX  /* ignore bits: any tag will do, whatever tag is given */
#define MBX_CONTEXT_MAX   0xfffeffffu /* context ids above are the library's own */
#define MBX_ADDRESS_SIZE  64

struct mbx_ep;  /* endpoint */
struct mbx_job; /* the processes started together */

/* A request or a matched message by number.  Never 0; a number that has been
 * used up is recognised and refused, not confused with a later one. */
typedef uint64_t mbx_request;
typedef uint64_t mbx_message;

/* Where an endpoint can be reached.  Opaque bytes of one fixed length, to be
 * copied to other processes by whatever means the caller has. */
struct mbx_address {
    uint8_t bytes[MBX_ADDRESS_SIZE];
};

/* ===========================================================================
 * I    Simple programs
 * =========================================================================== */

/* ---- version and errors ---------------------------------------------------------------- */

/*
 * mbx_version - the version of the library.
 *
 * Returns    a text, for example "0.1.0".
 * Ownership  the text is constant.
 * Threads    any.
 * Source     src/core/settings.c
 */
MBX_API const char *mbx_version(void);

/*
 * mbx_strerror - one line for an error of this library, negative or positive errno.
 *
 * Returns    a text, for every number.
 * Ownership  the text is constant.
 * Threads    any.
 * Source     src/core/settings.c
 */
MBX_API const char *mbx_strerror(int error);

enum mbx_log_level {
    MBX_LOG_ERROR, /* an operation fails, or the library cannot go on */
    MBX_LOG_WARN,  /* it goes on, but not as one would expect */
    MBX_LOG_INFO,  /* once: what was chosen */
    MBX_LOG_DEBUG, /* once for each connection, or seldom; and which argument it is, and its
                      value, that a call returns -EINVAL for */
    MBX_LOG_TRACE, /* each message */
};

/*
 * mbx_log_callback - give the lines of the log to a function, instead of to standard error.
 *
 * MBX_LOG_LEVEL says which ones there are.  log is called with user and each line, without a
 * prefix and a newline; NULL: standard error again.  It makes no call of this library.
 *
 * Ownership  text is valid until log returns.
 * Threads    of the whole process: call it while no other thread is in a call of this library.
 *            log may be called by any thread that is, and by those that the library starts,
 *            several at one time.
 * Source     src/core/settings.c
 */
MBX_API void mbx_log_callback(void (*log)(void *user, enum mbx_log_level level,
                                          const char *text),
                              void *user);

/* ---- endpoints ------------------------------------------------------------------------- */

struct mbx_config {
    /* "NAME=VALUE" parameters without the MBX_ prefix, NULL-terminated; they win
     * over the environment.  May be NULL. */
    const char *const *params;
    /* 128 random bits that all members of a job share; peers with another key are
     * refused.  NULL: MBX_KEY, or, without that, all zero: any peer of the same user that
     * has no key either may connect. */
    const uint8_t *key;
    unsigned flags; /* 0 */
};

/*
 * mbx_open - open an endpoint.
 *
 * config may be NULL: all parameters from the MBX_ environment.
 *
 * Returns    0; -EINVAL unknown or malformed parameter, parameters that contradict each other
 *            (named in the log), or unknown flag; -ENOMEM; -ENOTSUP or -ENODATA there is no
 *            network that could be used (as mbx_network_get()); -ENODEV or -ETIMEDOUT the device
 *            of MBX_DEVICE does not begin; or the error of the system call that failed.
 * Ownership  *ep is the caller's until mbx_close().
 * Threads    any.
 * Progress   none; may wait for a device, or for an answer of the launcher.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_open(const struct mbx_config *config, struct mbx_ep **ep);

/*
 * mbx_close - close an endpoint.
 *
 * Messages that were completed towards the caller stay deliverable.  Sends that
 * are still waiting for room are pushed for at most MBX_CLOSE_TIMEOUT, and so are
 * injected messages that wait here for their receive (docs/internals/flow-control.md).  What
 * peers had sent by now is taken in first: accesses to our memory that have arrived are
 * performed, unless their bytes have to be asked for, and answered for at most as long.
 * What is pending after that is abandoned, and so are all receives, and sends that a peer
 * has been told of and has not fetched or matched: who needs them waits for them
 * before.  Buffers may be reused when the call returns.  Peers see -ENOTCONN on their
 * next send to us; what else they had started that needs our answer ends so, too, when
 * they have found out.
 * Handles, completions and the endpoint itself are dead afterwards: using them is
 * a programming error that is not detected.
 *
 * Returns    0; -ETIMEDOUT sends or answers that waited for room, or injected messages,
 *            were abandoned (the endpoint is closed all the same; it is logged).
 * Threads    the last call: with MBX_THREADS=many, too, all others on this endpoint
 *            have returned before it begins, and none begins afterwards.
 * Progress   makes progress on sends; may block up to MBX_CLOSE_TIMEOUT.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_close(struct mbx_ep *ep);

/*
 * mbx_address_get - the address under which others reach ep.
 *
 * Returns    0.
 * Threads    any, also with MBX_THREADS=one.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_get(const struct mbx_ep *ep, struct mbx_address *address);

/*
 * mbx_address_share - let the endpoints of this job on this machine find the address of ep by a label.
 *
 * For programs that get addresses from a launcher, which takes longer for each.  The label is a number that the
 * others can work out, as one made of a rank, and of all that tells the job from others: endpoints of two jobs that
 * their launchers call the same find each other's labels.  Until ep closes the label is its own; ep may have several.
 * The label of a process that was killed stays.
 *
 * Returns    0; -EINVAL label is 0; -ENOTSUP ep is not in a file in which the endpoints of a job find each other
 *            (MBX_SHM_FRONTS=no, MBX_SHM_PASS, no job, another transport, or 512 endpoints have been there before), so
 *            addresses have to be exchanged otherwise; -EEXIST an endpoint has this label, ep included, that has not closed;
 *            -ENOSPC 512 labels have been used in this job and on this machine.
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_share(struct mbx_ep *ep, uint64_t label);

/*
 * mbx_address_find - the address that an endpoint of this job on this machine shares under a label.
 *
 * It is as that endpoint has written it: mbx_peer_add() checks it, as any address.  It may be that of a process that was killed.
 *
 * Returns    0; -ENOENT nobody shares one under this label (yet, or any more), or ep is not where others share theirs (see above).
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_find(const struct mbx_ep *ep, uint64_t label,
                             struct mbx_address *address);

/*
 * mbx_address_text - address as printable text, always terminated; cut to whole bytes if size is
 * too small (the text of all has 2 * MBX_ADDRESS_SIZE characters).
 *
 * Units      size in bytes, of buf; 0: nothing is written.
 * Returns    buf.
 * Ownership  buf is the caller's.
 * Threads    any.
 * Source     src/core/peer.c
 */
MBX_API const char *mbx_address_text(const struct mbx_address *address, char *buf, size_t size);

/*
 * mbx_peer_add - make the endpoint at address a peer of ep.
 *
 * Peers are numbered 0, 1, 2, ... in the order in which they become known, by
 * this call or because they sent something; an address has one number, so adding
 * it again returns that number.  The endpoint's own address may be added.
 * Nothing is sent, so a wrong but well-formed address is only noticed by the
 * first send to it (-ENOTCONN, -EHOSTUNREACH or, if it is of another version of this
 * library, -EPROTONOSUPPORT in its completion).  A peer that
 * is only named costs at most 200 bytes; the rest is made when it is first used.
 *
 * Order      of the numbers: that in which peers become known, but for those that mbx_peer_remove()
 *            has made free.
 * Returns    0; -EINVAL no well-formed address; -EHOSTUNREACH no open transport
 *            reaches it; -ENOMEM.
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_peer_add(struct mbx_ep *ep, const struct mbx_address *address, uint32_t *peer);

/*
 * mbx_peer_address - the address of a peer by number.
 *
 * Returns    0; -EINVAL no such peer.
 * Source     src/core/peer.c
 */
MBX_API int mbx_peer_address(const struct mbx_ep *ep, uint32_t peer,
                             struct mbx_address *address);

/*
 * mbx_peer_remove - forget a peer that has closed; its number may then be given to another one.
 *
 * For programs whose peers come and go: without it what a peer costs, and its number, last as long as
 * the endpoint.  A peer that was only named, and never used, can be removed at any time.  If the endpoint
 * is added again, or sends something, it gets a number as if it had never been known.
 *
 * Until the number is given again, sends and accesses to it are refused (-EINVAL), and receives from it
 * wait; who keeps numbers anywhere has to forget this one.
 *
 * Returns    0; -EBUSY the peer has not closed, or its messages have not all been delivered (progress
 *            does that), or something refers to it: a request that is not over or whose completion is
 *            unread, or a message without a receive; or it has died (mbx_failed() names it): another
 *            time; -EOPNOTSUPP never: it is reached over a network, or there is a trace (MBX_TRACE,
 *            which names peers by number) or a matching device; -EINVAL no such peer; -ENOMEM.
 * Progress   none.
 * Source     src/core/peer_remove.c
 */
MBX_API int mbx_peer_remove(struct mbx_ep *ep, uint32_t peer);

/* ---- jobs ------------------------------------------------------------------------------ */

/*
 * mbx_job_open - learn who else was started with this process.
 *
 * Under `mbx run` this is the job it started, and under a launcher that speaks PMIx (Open
 * MPI's mpiexec, prterun, srun --mpi=pmix) the launcher's; without a launcher it is a job
 * of one rank.  A launcher that speaks neither is an error: the ranks would all be jobs of
 * one.  MBX_BOOT=single makes them so; see docs/library.md.
 *
 * Returns    0; -ENOTSUP the launcher speaks neither; -EPROTO what it left in the
 *            environment, or says, is damaged; -ECONNRESET a rank has ended without
 *            joining; -ENOSYS there is no libpmix; -EINVAL a parameter is wrong;
 *            -ENOMEM; or the error of the system call that failed.
 * Ownership  *job is the caller's until mbx_job_close().
 * Threads    one at a time.
 * Progress   under PMIx the first one of a process blocks until every rank has called it.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_open(struct mbx_job **job);

/*
 * mbx_job_close - forget the job.  Endpoints stay as they are.
 *
 * Threads    the last call of this job.
 * Progress   none; under PMIx the launcher may be asked to let this rank go.
 * Source     src/lib/job.c
 */
MBX_API void mbx_job_close(struct mbx_job *job);

/*
 * mbx_job_rank, mbx_job_size - which of how many ranks this process is.
 *
 * Returns    the rank, from 0 on; how many there are, at least 1.
 * Threads    one at a time per job.
 * Source     src/lib/job.c
 */
MBX_API uint32_t mbx_job_rank(const struct mbx_job *job);
MBX_API uint32_t mbx_job_size(const struct mbx_job *job);

/*
 * mbx_job_key - the job's 128-bit key, for mbx_config.key.
 *
 * Returns    16 bytes.
 * Ownership  the library's, until mbx_job_close().
 * Threads    one at a time per job.
 * Source     src/lib/job.c
 */
MBX_API const uint8_t *mbx_job_key(const struct mbx_job *job);

/*
 * mbx_job_connect - make every rank of the job a peer of ep, peer number = rank.
 *
 * Collective: every rank calls it once per endpoint, in the same order.  ep must
 * have no peers yet.
 *
 * Returns    0; -EBUSY ep already has peers; -ECONNRESET a rank of the job has
 *            ended without joining; -EPROTO what the ranks share is damaged; -EINTR;
 *            -ENOMEM; -EINVAL or -EHOSTUNREACH a rank uses another transport.
 * Order      of the peers: by rank.
 * Threads    one at a time per job; other threads use ep only after it has returned.
 * Progress   makes none.  Blocks until all have joined.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_connect(struct mbx_job *job, struct mbx_ep *ep);

/*
 * mbx_job_fence - wait until every rank of the job has called it.
 *
 * Returns    0; -ECONNRESET a rank has ended without joining or, under PMIx, did not come
 *            within MBX_BOOT_TIMEOUT; no fence succeeds any more; -EPROTO what the ranks share
 *            is damaged; -ENOMEM; -EINTR: call again, it goes on with the same fence.
 * Threads    one at a time per job.
 * Progress   makes none.  Blocks.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_fence(struct mbx_job *job);

/* ---- sending --------------------------------------------------------------------------- */

enum mbx_flags {
    /* No completion entry on success; an error still makes one.  Such a request
     * has no handle: *request is set to 0. */
    MBX_SILENT = 1 << 0,
    /* mbx_write: the owner of the region finds an entry with options.data in its queue
     * MBX_EVENTS. */
    MBX_REMOTE_DATA = 1 << 1,
    /* mbx_write, mbx_atomic: what is written, and compared with, may be reused when the call
     * returns.  mbx_send, mbx_ssend: the data may; with MBX_LAYOUT, it is packed then.  Of all but
     * atomics at most mbx_limits.inject bytes. */
    MBX_COPY = 1 << 2,
    /* mbx_send: if the message has left, and buf may be reused, when the call returns, then it
     * returns 1, *request is set to 0, and there is no completion entry. */
    MBX_AT_ONCE = 1 << 3,
    /* mbx_send, mbx_ssend, mbx_recv, mbx_mrecv: the data lies where options.layout says, and not
     * at buf. */
    MBX_LAYOUT = 1 << 4,
    /* options.done is called when the request is complete, and there is no completion entry. */
    MBX_DONE = 1 << 5,
};

struct mbx_layout;
struct mbx_completion;

/* What rarely matters of an operation.  NULL means all zero. */
struct mbx_options {
    void *user;                      /* returned in the completion */
    uint64_t data;                   /* sends: travels with the envelope, not matched */
    unsigned flags;                  /* enum mbx_flags */
    const struct mbx_layout *layout; /* MBX_LAYOUT */
    /* MBX_DONE: called once, in place of a completion entry, with what the entry would say; with
     * MBX_SILENT for an error alone.  completion is valid until it returns, and its request is a
     * dead handle.  It is called by the thread that is in a call of this endpoint: the one that
     * starts the operation, then before that call returns, or any that makes progress, mbx_close()
     * included; with MBX_THREADS=many under the lock of the
     * endpoint.  It makes no call of this endpoint, and does not leave by longjmp() or an
     * exception.  The handle of such a request is for mbx_cancel() alone: a call that waits for
     * it or tests it says -EINVAL. */
    void (*done)(const struct mbx_completion *completion);
};

/* A part of a vector; the members are those of POSIX's struct iovec. */
struct mbx_iovec {
    void *base;
    size_t size;
};

/*
 * struct mbx_layout - where the data of a message lies, if it is not in one buffer: in the parts
 * of a vector, or where callbacks pack it from and unpack it to (a datatype library).
 *
 *   const struct mbx_layout layout = {.parts = parts, .count = 3};
 *   const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};
 *
 *   mbx_send(ep, peer, context_id, tag, NULL, size, &options, &request);
 *
 * The data is the first size bytes of the parts, one behind the other; a part may be empty.
 * Or it is size bytes that pack() brings and unpack() takes:
 *
 *   pack       writes the bytes from offset on to `to`, at most size of them.  size is all that
 *              is left of the data, or at least 256.  Returns how many it has written, at least
 *              1: if that is less than size it is asked for the others later; or a negative
 *              errno.
 *   unpack     takes the bytes [offset, offset + size), which have come.  Returns 0 or a negative
 *              errno.
 *   end        may be NULL.  The library is done with the layout: once for each call that has
 *              returned 0 or 1 (also from within that call), before its completion can be read,
 *              or from mbx_close().  What the vector or the callbacks lead to may be reused.  A
 *              send may come so far before it is complete.
 *
 * Everything about messages is as without a layout: matching, order, limits, truncation, cancel.
 * A peer cannot tell: one side may have a layout and the other one not, or another one.
 *
 * Order      of the offsets: from 0 on, without gaps, each byte once.  What does not fit into the
 *            receive is not unpacked; it may be packed or not.
 * Threads    callbacks are called by the thread that is in a call of this endpoint: the one that
 *            starts the operation, or any that makes progress; one callback at a time.  With
 *            MBX_THREADS=many under the lock of the endpoint.  A callback makes no call of this
 *            endpoint, and does not leave by longjmp() or an exception.
 * Errors     what a callback returns, if negative, becomes the error of the completion (-EIO if it
 *            is no answer: 0 or more than size packed bytes, positive of unpack()), and no
 *            other is called but end().  The other side ends, too: a receive whose sender cannot
 *            pack with -EIO, behind what had come; a send whose receiver cannot unpack as if all
 *            had been received.
 * Units      bytes.
 * Ownership  the structure is read by the call alone; parts, and what they or the callbacks lead
 *            to, are lent to the library until end(), or the completion, and for sends with
 *            MBX_COPY until the call returns.
 * Memory     of the library: a short message is packed at once; of a longer one at most two pieces
 *            of 64 KiB for each request whose data is moving, packed and unpacked while others
 *            travel, and at most 256 of them for an endpoint.  Over shared memory a sender packs
 *            into memory that the receiver sees, 2 MiB for an endpoint at most.
 * Source     src/core/pieces.c, src/p2p/rndv_pieces.c
 */
struct mbx_layout {
    const struct mbx_iovec *parts; /* count of them; or NULL: callbacks */
    size_t count;
    int64_t (*pack)(void *context, size_t offset, void *to, size_t size);       /* sends */
    int (*unpack)(void *context, size_t offset, const void *from, size_t size); /* receives */
    void (*end)(void *context);
    void *context;  /* of the callbacks */
    unsigned flags; /* 0 */
};

/*
 * mbx_send - start sending one message.
 *
 * Sends [buf, buf+size) to peer under {context_id, tag}.  It completes as soon as
 * buf may be reused: at once if the message travels eagerly and there is room, or
 * when the receiver has read it.
 *
 * Order      Messages to one peer on one context id are matched in the order of
 *            these calls.
 * Threads    the order of calls in two threads is the order in which they get the
 *            lock; who needs another one orders the threads.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; 1 with MBX_AT_ONCE alone: see there; -EINVAL no such peer, reserved
 *            context id, NULL buf, unknown flag, longer than mbx_limits.message, or a layout
 *            that is none or shorter than size; -EMSGSIZE with MBX_COPY alone: longer than
 *            mbx_limits.inject; -ENOMEM no request left, or no memory for what the first use of a peer
 *            makes.  An unreachable or closed peer is no error here: the request
 *            completes with -ENOTCONN, -EHOSTUNREACH or -EPROTONOSUPPORT.  Or with -ENOMEM, and nothing
 *            is sent, if the message has to wait for the receiver and there is no
 *            memory for that.
 * Ownership  buf is lent to the library until the request completes.  request may
 *            be NULL; then the completion queue is the only way to learn of it.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                     const void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request);

/*
 * mbx_ssend - as mbx_send, but it completes only after a receive (or a matched probe's mbx_mrecv)
 * has taken the message.
 *
 * Order      with the messages of mbx_send(): that of the calls.
 * Units      as mbx_send().
 * Returns    0; the errors of mbx_send().  MBX_AT_ONCE has no effect.
 * Ownership  as mbx_send().
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_ssend(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                      const void *buf, size_t size, const struct mbx_options *options,
                      mbx_request *request);

/*
 * mbx_inject - send a message whose buffer may be reused when the call returns.
 *
 * There is no completion.  If the message cannot be delivered later (the peer has
 * gone), that is logged and counted (send_errors), not reported.
 *
 * Order      with the messages of mbx_send(): that of the calls.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL as mbx_send; -EMSGSIZE longer than mbx_limits.inject;
 *            -ENOMEM no room to keep a copy; -ENOTCONN, -EHOSTUNREACH or
 *            -EPROTONOSUPPORT the peer is known to be gone, or of another version.
 * Ownership  buf is the caller's.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                       const void *buf, size_t size, uint64_t data);

/*
 * mbx_try_send - as mbx_send, if the message can leave at once; there is no request.
 *
 * What a send costs least: when it returns 1 the message has left, and buf may be reused.  When it
 * returns 0 nothing has happened, and mbx_send() does what it takes: the message is longer than a
 * packet, or waits for room, for credit, behind another one, or the peer is gone.
 *
 * Order      with the messages of mbx_send(): that of the calls that have sent.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    1 it has left; 0 it has not; -EINVAL and -ENOMEM as mbx_send().
 * Ownership  buf is the caller's.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_try_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                         const void *buf, size_t size, uint64_t data);

/* ---- receiving ------------------------------------------------------------------------- */

/*
 * mbx_recv - start receiving one message.
 *
 * Posts [buf, buf+size) for the oldest message accepted by {context_id, source,
 * tag, ignore}.  If such a message already arrived it is taken at once; otherwise
 * the receive waits in post order.  source is a peer number or MBX_ANY_SOURCE.
 *
 * Order      see the head of this file (MPI-4.1, section 3.5).
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, reserved context id, NULL buf, unknown
 *            flag, or a layout that is none or shorter than size; -ENOMEM no request left, or
 *            the posted queue could not grow.
 *            A longer message is not an error here: the request completes with
 *            error -EMSGSIZE and the first size bytes written.
 * Ownership  buf is lent to the library until the request completes or its
 *            cancellation is reported.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/recv.c; matching in src/match/match.c
 */
MBX_API int mbx_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                     uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request);

/* Of a message: what a probe found, or mbx_try_recv() has received. */
struct mbx_status {
    uint32_t context_id;
    uint32_t source; /* peer number */
    uint64_t tag;
    uint64_t data; /* the sender's options.data */
    size_t size;   /* bytes of the whole message */
};

/*
 * mbx_try_recv - as mbx_recv, if the message is there and can be received at once; there is no
 * request.
 *
 * What a receive costs least: when it returns 1, the message that mbx_recv() would have taken is
 * in buf, and *status says which one it was.  When it returns 0 nothing has happened, and mbx_recv()
 * does what it takes: no such message has arrived, or the oldest one is longer than size, or not
 * all of it is here, or it was sent by mbx_ssend(), or MBX_TRACE is set, or a device holds messages
 * (MBX_DEVICE_HOLDS).
 *
 * Order      with the receives of mbx_recv(): that of the calls that have received.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    1 received; 0 it is not; -EINVAL as mbx_recv().
 * Ownership  buf is the caller's.
 * Progress   never blocks; does not call mbx_progress(): what has not been looked at since the
 *            last one has not arrived.
 * Source     src/p2p/try_recv.c
 */
MBX_API int mbx_try_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                         uint64_t ignore, void *buf, size_t size, struct mbx_status *status);

/*
 * mbx_probe - what would a receive with these arguments take now?
 *
 * Takes nothing.  Makes progress once if nothing is there yet.
 *
 * Returns    1 and *status; 0 nothing there; -ENOTCONN nothing is there, and source has died;
 *            -EHOSTDOWN nothing is there, source is MBX_ANY_SOURCE, and a peer has died of which
 *            mbx_failed_ack() was not told: the message may still come, probe again; -EINVAL as
 *            mbx_recv.
 * Threads    with MBX_THREADS=many another thread may take the message before this one
 *            receives it: mbx_mprobe() takes it at once.
 * Progress   makes progress once if nothing is there; never blocks.
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_probe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                      uint64_t ignore, struct mbx_status *status);

/*
 * mbx_mprobe - matched probe: as mbx_probe, and takes the message out of the queue
 * for exactly one later mbx_mrecv() or mbx_discard(); nobody else sees it.
 *
 * Returns    1, *status and *message; 0, -ENOTCONN, -EHOSTDOWN or -EINVAL as mbx_probe; -ENOMEM
 *            the message waits at its sender, and there is no room to keep it here.
 * Ownership  *message is the caller's until mbx_mrecv(), mbx_discard() or
 *            mbx_close().
 * Progress   makes progress once if nothing is there; never blocks.
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_mprobe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                       uint64_t ignore, struct mbx_status *status, mbx_message *message);

/*
 * mbx_mrecv - receive the message of a matched probe.
 *
 * Order      none: matched probes may be received in any order.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -ESTALE message is not (or no longer) held; -EINVAL NULL buf or unknown flag;
 *            -ENOMEM no request left (the message stays held).
 * Ownership  as mbx_recv, and so is the completion.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_mrecv(struct mbx_ep *ep, mbx_message message, void *buf, size_t size,
                      const struct mbx_options *options, mbx_request *request);

/*
 * mbx_discard - drop the message of a matched probe; its sender completes as if it had been
 * received.
 *
 * Returns    0; -ESTALE message is not (or no longer) held; -ENOMEM no request left (the message
 *            stays held).
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_discard(struct mbx_ep *ep, mbx_message message);

/*
 * mbx_context_open - this context id is used from now on, and messages of its earlier uses go.
 *
 * For programs that use a context id again, as an MPI does when a communicator is freed: a message that nobody
 * has received, and one that comes late, must not meet a receive of the next use.  So the uses are told apart by
 * bits of the tag, those that are 0 in ignore; all messages, receives and probes of one use have the same there, and
 * that matches them right.  These calls are about memory: what no receive can want any more is dropped when it has
 * come, as mbx_discard() does; its sender completes.
 *
 * Dropped is, now and from now on, what differs from tag in these bits.  What waits at its sender stays there; it takes
 * nothing here.  An id that is open may be opened again, with other bits.
 *
 * Returns    0; -EINVAL context_id is above MBX_CONTEXT_MAX; -ENOMEM.
 * Progress   none.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_context_open(struct mbx_ep *ep, uint32_t context_id, uint64_t tag,
                             uint64_t ignore);

/*
 * mbx_context_close - this use of a context id is over.
 *
 * Dropped is, until it is opened again, what has the bits that it was opened with.  Other messages wait: a peer
 * may begin with the next use before this endpoint does.
 *
 * Returns    0; -EINVAL context_id is not open.
 * Progress   none.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_context_close(struct mbx_ep *ep, uint32_t context_id);

/*
 * mbx_drop - drop the messages that have come and that a receive of any source with these arguments would take.
 *
 * Returns    how many; -EINVAL context_id is above MBX_CONTEXT_MAX; -ENOMEM some may be there still.
 * Progress   none: what has not been looked at since the last one has not come.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_drop(struct mbx_ep *ep, uint32_t context_id, uint64_t tag, uint64_t ignore);

/*
 * mbx_cancel - take back a receive, or a send, that has not matched.
 *
 * The request always ends in one completion: -ECANCELED if this call was in time,
 * the normal one otherwise.
 *
 * Sends      A message that waits at its sender is taken back there.  The receiver is asked for
 *            a synchronous one, and for one that goes by rendezvous: it gives the message
 *            back if no receive and no matched probe has it, once it makes progress.  Others are
 *            complete when they have left.
 *
 * Returns    0 cancelled, or, if a device has the receive, or it is a send, on its way: the
 *            completion tells; -EINPROGRESS it still is, since an earlier call; -ECANCELED it was
 *            cancelled before; -EALREADY it has matched or is complete, or is a send that cannot
 *            be taken back; -ESTALE no such request (its completion was already read);
 *            -EOPNOTSUPP it is neither.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/recv.c, src/p2p/withdraw.c
 */
MBX_API int mbx_cancel(struct mbx_ep *ep, mbx_request request);

/* ---- waiting for requests --------------------------------------------------------------
 *
 * Which calls are for which loop; a program needs one row.
 *
 *   loop                      looks                           sleeps
 *   one request               mbx_test                        mbx_wait
 *   an array of requests      mbx_wait_all, _some, _any       mbx_wait_all, _some, _any
 *                             with a timeout of 0
 *   a completion queue        mbx_progress, mbx_poll          mbx_wait_queues
 *   polling as fast as can be mbx_idle, mbx_progress,         -
 *                             mbx_peek, mbx_release
 *   a loop of one's own       mbx_progress, mbx_ready,        mbx_sleep, mbx_wake
 *                             mbx_poll
 *   an event loop (epoll)     mbx_progress, mbx_ready,        mbx_fd, mbx_arm, mbx_disarm
 *                             mbx_poll
 */

enum mbx_queue {
    MBX_SENDS = 1 << 0,    /* completed sends */
    MBX_RECVS = 1 << 1,    /* completed receives */
    MBX_ACCESS = 1 << 2,   /* completed reads, writes and atomics of ours */
    MBX_EVENTS = 1 << 3,   /* writes of others that carried data (MBX_REMOTE_DATA) */
    MBX_FAILURES = 1 << 4, /* no completions: receives from any source that still wait, and a
                              peer has died meanwhile */
};

struct mbx_completion {
    mbx_request request;
    void *user; /* options.user */
    int error;  /* 0; -EMSGSIZE truncated; -ECANCELED; -ENOTCONN; -EHOSTUNREACH;
                   -EPROTONOSUPPORT the peer has another version of this library; ...;
                   MBX_FAILURES: -EHOSTDOWN */
    enum mbx_queue kind;
    size_t received;          /* bytes written to the buffer (or sent) */
    struct mbx_status status; /* receives: of the message, if it matched; size is
                                 its full length.  Sends: as given, source = peer.
                                 MBX_ACCESS and MBX_EVENTS: source = peer, tag = key
                                 of the region.  MBX_FAILURES: as asked for, but
                                 source = the peer that has died, the last if several */
};

/*
 * mbx_test - is this request complete?  If so, takes its entry from the queue.
 *
 * Returns    1 and *completion (may be NULL); 0 not yet; -ESTALE no such request:
 *            its completion was already taken; -EHOSTDOWN it is a receive from any source
 *            that still waits, and a peer has died: see mbx_failed(); -EINVAL MBX_DONE.
 * Threads    any number may ask for the same request; one gets it.
 * Progress   makes progress once if the request is not complete; never blocks.
 * Source     src/core/completion.c
 */
MBX_API int mbx_test(struct mbx_ep *ep, mbx_request request, struct mbx_completion *completion);

/*
 * mbx_wait - wait until a request is complete and take its entry from the queue.
 *
 * Polls for MBX_SPIN, then sleeps until a peer has something for us.  When nothing has moved
 * for 50 us, and when the time is up, it lets others have the core.  With a timeout of 0 it
 * only looks.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0 and *completion (may be NULL; the request's own error is in it);
 *            -EHOSTDOWN as mbx_test(); -ETIMEDOUT; -ESTALE no such request: already waited
 *            for, or read from the queue, also by another thread meanwhile; -EINTR a signal
 *            arrived while asleep; -EINVAL MBX_DONE: options.done is called instead.
 * Threads    any number may wait in one endpoint, also for the same request: one gets
 *            it.  One of them polls and sleeps for all; others come and go as they like.
 * Progress   makes progress.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_wait(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
                     struct mbx_completion *completion);

/*
 * mbx_wait_all - wait until all requests of an array are complete, and take their entries.
 *
 * requests[i] == 0 stands for no request.  Where one is complete completions[i] is its entry,
 * unless completions is NULL, and requests[i] becomes 0.  Three kinds of entries come from no
 * completion: error -ESTALE or -EINVAL, there is no such request, or it is none to wait for (as
 * mbx_wait() returns them), and
 * kind MBX_FAILURES, error -EHOSTDOWN: a receive from any source that still waits, and a peer has
 * died; then requests[i] stays what it is.
 *
 * Order      none: the requests may become complete in any order.
 * Units      timeout_ns in nanoseconds for all of them; negative: no limit; 0: makes progress
 *            once and takes what is complete.
 * Returns    how many ended with an error, so 0 is all well; -ETIMEDOUT or -EINTR not all are
 *            complete: those that are have been taken all the same; -EINVAL count is negative,
 *            or requests NULL and count not 0.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_all(struct mbx_ep *ep, mbx_request *requests, int count,
                         int64_t timeout_ns, struct mbx_completion *completions);

/*
 * mbx_wait_some - wait until at least one request of an array is complete, and take the entries
 * of all that are.
 *
 * As mbx_wait_all(), but the entries stand one behind the other: completions[k], unless
 * completions is NULL, is that of the request that was in requests[indices[k]].  Both have room
 * for count.
 *
 * Order      none: the requests may become complete in any order.
 * Units      timeout_ns as mbx_wait_all().
 * Returns    how many entries there are; 0 only if there is no request in the array;
 *            -ETIMEDOUT; -EINTR; -EINVAL as mbx_wait_all(), or indices is NULL.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_some(struct mbx_ep *ep, mbx_request *requests, int count,
                          int64_t timeout_ns, int *indices, struct mbx_completion *completions);

/*
 * mbx_wait_any - as mbx_wait_some(), but takes one entry: of those that are complete the one
 * that is first in the array.
 *
 * completion may be NULL.
 *
 * Order      none, but for that.
 * Units      timeout_ns as mbx_wait_all().
 * Returns    1 and *index; 0 there is no request in the array; -ETIMEDOUT; -EINTR; -EINVAL as
 *            mbx_wait_all(), or index is NULL.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_any(struct mbx_ep *ep, mbx_request *requests, int count,
                         int64_t timeout_ns, int *index, struct mbx_completion *completion);

/*
 * mbx_progress - move everything that can move: deliver what arrived, continue
 * rendezvous, push what waited for room.
 *
 * Returns    how many messages and steps moved, 0 if nothing did.
 * Progress   makes progress once; never blocks.
 * Source     src/core/progress.c
 */
MBX_API int mbx_progress(struct mbx_ep *ep);

/* ===========================================================================
 * II   Loops of one's own
 * =========================================================================== */

/* ---- completion queues ----------------------------------------------------------------- */

/*
 * mbx_poll - read completions, oldest first per queue, in the order of enum mbx_queue.
 *
 * queues is one of enum mbx_queue, or several.  The handles of the returned requests
 * are dead, but for those of MBX_FAILURES: see there.  The queues never overflow: a completed
 * request is its own entry.
 *
 * Order      of one queue: that in which they completed.
 * Returns    how many of at most count entries were written (0 = none);
 *            -EINVAL queues names no queue, or entries is NULL.
 * Threads    an entry is given to one thread.  It may be that of a request for which
 *            another one waits; that one gets -ESTALE.
 * Progress   none; see mbx_progress().
 * Source     src/core/completion.c
 */
MBX_API int mbx_poll(struct mbx_ep *ep, unsigned queues, struct mbx_completion *entries,
                     int count);

/*
 * mbx_ready - would mbx_poll(ep, queues) return an entry?
 *
 * Returns    1; 0; -EINVAL queues names no queue.
 * Progress   none.
 * Source     src/core/wait.c
 */
MBX_API int mbx_ready(struct mbx_ep *ep, unsigned queues);

/*
 * mbx_wait_queues - wait until mbx_poll(ep, queues) would return an entry, as mbx_wait() does.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0; -ETIMEDOUT; -EINTR; -EINVAL queues names no queue.
 * Threads    all that wait return when there is an entry, and one of them will find it.
 * Progress   makes progress.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_wait_queues(struct mbx_ep *ep, unsigned queues, int64_t timeout_ns);

/* ---- sleeping -------------------------------------------------------------------------- */

/* What mbx_sleep() calls; either may be NULL. */
struct mbx_sleep_hooks {
    void (*sleeps)(void *arg); /* the thread is about to sleep, */
    void (*slept)(void *arg);  /* and has slept */
    void *arg;
    unsigned flags; /* 0 */
};

/*
 * mbx_sleep - sleep until there may be something to do for mbx_progress().
 *
 * For a thread with a loop of its own that makes progress, looks at what has come of it,
 * and sleeps when mbx_progress() has returned 0.  Unlike mbx_wait_queues() it is woken by
 * whatever arrives, not by completions alone.  hooks may be NULL.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0 something may have come; also early.  -ETIMEDOUT; -EINTR a signal arrived;
 *            -EBUSY another thread waits in this endpoint; -EINVAL unknown flag.
 * Threads    between hooks->sleeps and hooks->slept other threads may make all calls
 *            but mbx_close() and those that wait, with MBX_THREADS=one, too: a caller
 *            that guards the endpoint with a lock of its own releases it in sleeps() and
 *            acquires it again in slept().  With MBX_THREADS=one the other threads call
 *            mbx_wake() if they leave something to do.
 * Progress   none.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_sleep(struct mbx_ep *ep, int64_t timeout_ns,
                      const struct mbx_sleep_hooks *hooks);

/*
 * mbx_wake - makes the mbx_sleep() of another thread return, or, if it is about to sleep, not
 * sleep.
 *
 * Threads    any, also with MBX_THREADS=one.
 * Progress   none.
 * Source     src/core/wait.c
 */
MBX_API void mbx_wake(struct mbx_ep *ep);

/* ---- a descriptor ---------------------------------------------------------------------- */

/*
 * mbx_fd, mbx_arm, mbx_disarm - a descriptor for an event loop: poll(2), epoll(7), a library's.
 *
 *   fd = mbx_fd(ep);                        once; wait for it to be readable
 *   for (;;) {
 *       while (mbx_progress(ep) > 0 || mbx_ready(ep, queues))
 *           ... mbx_poll(ep, queues, ...) ...
 *       if (mbx_arm(ep) == 0)               last of all before the loop sleeps
 *           epoll_wait(...);                fd, and whatever else there is
 *   }
 *
 * mbx_fd() returns the same descriptor each time; it is read and written by this library alone,
 * and closed by mbx_close().  mbx_arm() makes progress once, and if there is nothing to do or to
 * read arms the descriptor: it becomes readable as soon as there may be something for
 * mbx_progress(), or by mbx_wake(), now and then without a reason, and stays so until
 * mbx_arm() or mbx_disarm().  Nothing that comes between the look and the sleep is missed.
 * What the caller itself starts after mbx_arm() and before it sleeps, may be; and a message
 * for which there is no room here (docs/internals/flow-control.md) says nothing until a receive wants it.
 *
 * The first mbx_fd() starts a thread, which sleeps for the caller.
 *
 * Returns    mbx_fd(): the descriptor; -ENOMEM, -EAGAIN no thread, or the error of the system
 *            call that failed.  mbx_arm(): 0 armed; 1 there is something to do or to read
 *            now, and it is not armed; -EINVAL mbx_fd() was not called.  mbx_disarm(): 0;
 *            -EINVAL.
 * Ownership  the descriptor is the library's, until mbx_close().
 * Threads    one at a time.  With MBX_THREADS=one a call that waits may disarm.  With
 *            MBX_THREADS=many other threads may wait in this endpoint meanwhile; as long as
 *            one does, the descriptor tells of completions alone, and not of messages that a
 *            probe would find.
 * Progress   mbx_arm() makes progress once; none of them blocks.
 * Source     src/core/event_fd.c; examples/event_loop.c is a whole program
 */
MBX_API int mbx_fd(struct mbx_ep *ep);
MBX_API int mbx_arm(struct mbx_ep *ep);
MBX_API int mbx_disarm(struct mbx_ep *ep);

/* ===========================================================================
 * III  For experts
 * =========================================================================== */

/* ---- completions where they lie -------------------------------------------------------- */

/*
 * mbx_peek, mbx_release - read a completion where it lies, without a copy.
 *
 *   while ((c = mbx_peek(ep, queues)) != NULL) {
 *       ... c->user ...
 *       mbx_release(ep, c);
 *   }
 *
 * mbx_peek() returns what mbx_poll() would return first, or NULL: nothing, or queues names no
 * queue.  MBX_FAILURES is left out: such entries lie nowhere.  mbx_release() takes the entry
 * from its queue, and the handle is dead.  In between it may be read, and every other call is
 * allowed but those that take entries: mbx_poll(), mbx_test(), mbx_wait().
 *
 * Returns    mbx_peek(): the entry, or NULL.
 * Ownership  the entry is the library's; it may be read until mbx_release().
 * Threads    for one thread that alone takes entries of these queues; no other one waits for
 *            such a request.
 * Progress   none; see mbx_progress().
 * Source     src/core/completion.c
 */
MBX_API const struct mbx_completion *mbx_peek(struct mbx_ep *ep, unsigned queues);
MBX_API void mbx_release(struct mbx_ep *ep, const struct mbx_completion *completion);

/*
 * mbx_idle - is there nothing to move, and nothing to read?
 *
 * For who looks in a loop of their own: as long as nothing comes, it is a look at one word,
 * where mbx_progress() and mbx_poll() are calls.
 *
 *   if (!mbx_idle(ep)) {
 *       mbx_progress(ep);
 *       ... mbx_poll() ...
 *   }
 *
 * Returns    1: mbx_progress() would move nothing now, and no queue has an entry;
 *            0: this is not known.  Also 0 now and then, for what has to be looked at
 *            now and then: so whoever calls mbx_progress() when it is 0 misses nothing.
 *            Always 0 with MBX_THREADS=many, with a matching device, and while anything
 *            but shared memory is in use.
 * Threads    as all calls of an endpoint without MBX_THREADS=many: one at a time.
 * Progress   none.
 * Source     src/core/progress.c
 */
MBX_API int mbx_idle(struct mbx_ep *ep);

/* ---- one-sided -------------------------------------------------------------------------
 *
 * A peer reads, writes and updates memory that we have registered, and we its, without a
 * receive.  Such an access names a region by its key, and an address in it; it is performed
 * by the progress of the region's owner, and by nobody else.  From this follows
 *
 *   rights     are looked at when the access is performed, and again for each part of a long
 *              one; the owner trusts no address of a peer
 *   order      accesses of one endpoint to one peer are performed in the order of the calls,
 *              each after the one before is complete; messages are not ordered with them
 *   atomicity  atomics of all peers, and of all endpoints of one process, are performed one
 *              after the other, element by element; against the owner's own instructions,
 *              reads and writes nothing is promised
 *   the end    mbx_deregister() performs what has arrived, and returns when nothing reads or
 *              writes the region any more, and nothing will
 *   copies     long ones are moved once, straight between the buffers, by the owner, where
 *              the transport can do that (process_vm_readv, process_vm_writev)
 *   progress   an owner that makes none lets its peers wait
 *   close      mbx_close() performs and answers what has arrived; it pushes none of ours: who
 *              needs them waits for them before
 *
 * An access completes in the queue MBX_ACCESS when it has been performed; of a write, the
 * bytes are then in the region.  Errors of its completion: -EACCES no such key, or not this
 * right; -ERANGE beyond the region; -ENOTCONN or -EHOSTUNREACH the peer is gone; then a
 * read or write may have been performed in part.
 */

enum mbx_rights {
    MBX_REMOTE_READ = 1 << 0,  /* reads, and atomics that bring a result */
    MBX_REMOTE_WRITE = 1 << 1, /* writes and atomics */
};

/* Memory that peers may access. */
struct mbx_region {
    void *buf;
    size_t size;
    /* What peers call the first byte: 0, or the address of buf, or anything; address + size
     * does not exceed 2^64 - 1. */
    uint64_t address;
    unsigned rights; /* enum mbx_rights */
    unsigned flags;  /* 0 */
};

/*
 * mbx_register - let all peers of ep access region, under a key of the caller's choice.
 *
 * Regions may overlap.
 *
 * Returns    0; -EEXIST the key is in use; -EINVAL unknown rights or flags, or addresses that wrap;
 *            -ENOMEM.
 * Ownership  the memory is lent to the library until mbx_deregister() or mbx_close().
 * Progress   none.
 * Source     src/rma/region.c
 */
MBX_API int mbx_register(struct mbx_ep *ep, uint64_t key, const struct mbx_region *region);

/*
 * mbx_deregister - end that.
 *
 * Accesses that have arrived are performed first, as far as they do not need their peer:
 * not those whose bytes have to be asked for, and what is behind such a one.  All others
 * end with -EACCES at their peers.  When this returns, the memory is the caller's again:
 * nobody reads or writes it.
 *
 * Returns    0; -ENOENT no such key.
 * Progress   makes progress at least once, and while the transport moves bytes of accesses that
 *            have arrived; never waits for a peer to act, except where its processor moves them
 *            (over TCP): then for its progress, or its end.
 * Source     src/rma/region.c
 */
MBX_API int mbx_deregister(struct mbx_ep *ep, uint64_t key);

/* Accesses of peers that were performed without an error.  An atomic that modifies is a write,
 * and one that brings a result a read; so most of those that bring one are both. */
struct mbx_served {
    uint64_t reads;
    uint64_t writes;
    uint64_t both; /* of these, the atomics that are counted in each */
};

/*
 * mbx_served_get - how many there were since ep was opened.
 *
 * Units      size is sizeof *served (Structures, above).
 * Returns    0; -EINVAL size.
 * Source     src/rma/region.c
 */
MBX_API int mbx_served_get(const struct mbx_ep *ep, struct mbx_served *served, size_t size);

/*
 * mbx_region_served - the accesses to one region, since it was registered.
 *
 * Units      size is sizeof *served (Structures, above).
 * Returns    0; -ENOENT no such key; -EINVAL size.
 * Source     src/rma/region.c
 */
MBX_API int mbx_region_served(const struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                              size_t size);

/*
 * mbx_deregister_served - mbx_deregister(), and all accesses to the region until then.
 *
 * Units      size is sizeof *served (Structures, above).
 * Returns    0; -ENOENT no such key; -EINVAL size, and nothing was done.
 * Progress   as mbx_deregister().
 * Source     src/rma/region.c
 */
MBX_API int mbx_deregister_served(struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                                  size_t size);

/*
 * mbx_write - start writing [buf, buf+size) to a region of peer.
 *
 * Order      above: after what this endpoint has started there before.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, NULL buf, unknown flag, an address that wraps, or
 *            longer than mbx_limits.message; -EMSGSIZE too long for MBX_COPY; -ENOMEM no request
 *            left, no room to keep a copy, or no memory for what the first use of a peer makes.
 * Ownership  buf is lent to the library until the request completes, unless MBX_COPY.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/rma/origin.c; at the owner src/rma/target.c
 */
MBX_API int mbx_write(struct mbx_ep *ep, uint32_t peer, const void *buf, size_t size,
                      uint64_t key, uint64_t address, const struct mbx_options *options,
                      mbx_request *request);

/*
 * mbx_read - start reading size bytes of a region of peer into buf.
 *
 * Order      above: after what this endpoint has started there before.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, NULL buf, a flag but MBX_SILENT, an address that wraps, or
 *            longer than mbx_limits.message; -ENOMEM no request left, or no memory for what the
 *            first use of a peer makes.
 * Ownership  buf is lent to the library until the request completes.  If ep is closed while a
 *            read is under way, its peer may still write to buf for a moment: wait for it before.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/rma/origin.c
 */
MBX_API int mbx_read(struct mbx_ep *ep, uint32_t peer, void *buf, size_t size, uint64_t key,
                     uint64_t address, const struct mbx_options *options, mbx_request *request);

/* Elements of an atomic, in the representation of this machine. */
enum mbx_type {
    MBX_INT8,
    MBX_UINT8,
    MBX_INT16,
    MBX_UINT16,
    MBX_INT32,
    MBX_UINT32,
    MBX_INT64,
    MBX_UINT64,
    MBX_FLOAT,
    MBX_DOUBLE,
    MBX_FLOAT_COMPLEX,
    MBX_DOUBLE_COMPLEX,
    MBX_LONG_DOUBLE,
    MBX_LONG_DOUBLE_COMPLEX,
    MBX_INT128,
    MBX_UINT128,
    MBX_TYPES
};

/* What becomes of each element there (x), given an operand (y) and, from MBX_CSWAP on, what it
 * is compared with (c). */
enum mbx_op {
    MBX_MIN,  /* the smaller of x and y; not complex */
    MBX_MAX,  /* the larger; not complex */
    MBX_SUM,  /* x + y; integers wrap */
    MBX_PROD, /* x * y; integers wrap */
    MBX_LOR,  /* x || y */
    MBX_LAND, /* x && y */
    MBX_BOR,  /* x | y; integers */
    MBX_BAND, /* x & y; integers */
    MBX_LXOR, /* !x != !y */
    MBX_BXOR, /* x ^ y; integers */
    MBX_ATOMIC_READ,
    MBX_ATOMIC_WRITE, /* y */
    MBX_CSWAP,        /* y if c == x */
    MBX_CSWAP_NE,     /* y if c != x */
    MBX_CSWAP_LE,     /* y if c <= x; not complex, as the following */
    MBX_CSWAP_LT,     /* y if c < x */
    MBX_CSWAP_GE,     /* y if c >= x */
    MBX_CSWAP_GT,     /* y if c > x */
    MBX_MSWAP,        /* (y & c) | (x & ~c); integers */
    MBX_OPS
};

/* One atomic, of count elements. */
struct mbx_atomic_args {
    enum mbx_op op;
    enum mbx_type type;
    size_t count;
    const void *operand; /* MBX_ATOMIC_READ: NULL */
    const void *compare; /* from MBX_CSWAP on; else NULL */
    void *result;        /* what was there before; or NULL, but for MBX_ATOMIC_READ */
    uint64_t key, address;
    unsigned flags; /* 0; those of the operation are in mbx_options */
};

/*
 * mbx_atomic_size - how long an element is.
 *
 * Returns    bytes; 0 if there is no such operation on this type.
 * Threads    any.
 * Source     src/rma/atomic.c
 */
MBX_API size_t mbx_atomic_size(enum mbx_op op, enum mbx_type type);

/*
 * mbx_atomic - start an atomic update of memory of peer.
 *
 * Order      above: after what this endpoint has started there before.
 * Returns    0; -EOPNOTSUPP no such operation on this type; -EINVAL no such peer, unknown
 *            flag, no elements, a pointer missing or not wanted, or an address that wraps;
 *            -EMSGSIZE more than mbx_limits.atomic; -ENOMEM as mbx_write().
 * Ownership  operand, compare and result are lent to the library until the request
 *            completes; with MBX_COPY, result alone.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/rma/origin.c; at the owner src/rma/target.c, src/rma/atomic.c
 */
MBX_API int mbx_atomic(struct mbx_ep *ep, uint32_t peer, const struct mbx_atomic_args *atomic,
                       const struct mbx_options *options, mbx_request *request);

/* ---- peers that die -------------------------------------------------------------------- */

/*
 * mbx_failed - which peers are known to have died?
 *
 * A peer has died if its process has ended without mbx_close().  That is noticed, within
 * MBX_PEER_TIMEOUT and while this endpoint makes progress, of those peers for whom some
 * request here waits, or a probe that is called again and again; over a network, for a receive from any source, of those that this
 * endpoint has to do with, and of a few others.  What needs that peer alone then ends with
 * -ENOTCONN.  A receive from any source may still be met by somebody else: it stays posted,
 * and can be matched and cancelled as before.  It is told once, and once more for each peer
 * that dies later, in whichever of these ways comes first:
 *
 *   mbx_wait() or mbx_test() of it returns -EHOSTDOWN
 *   mbx_poll() with MBX_FAILURES gives an entry with its handle, which stays alive
 *
 * A receive from any source that is posted later is told in the same way, until
 * mbx_failed_ack() says that these deaths are known.
 *
 * Returns    how many; the numbers of the first of them, at most count, are written to peers,
 *            in the order in which they were found.  peers may be NULL if count is 0.
 * Source     src/core/failure.c
 */
MBX_API int mbx_failed(const struct mbx_ep *ep, uint32_t *peers, int count);

/*
 * mbx_failed_ack - no receive is told any more of the peers that mbx_failed() names now.
 *
 * Returns    how many these are.
 * Progress   none.
 * Source     src/core/failure.c
 */
MBX_API int mbx_failed_ack(struct mbx_ep *ep);

/* ---- messages that wait for a receive -------------------------------------------------- */

/*
 * mbx_unexpected - list the unexpected messages of ep: those that have come and that no receive has taken.
 *
 * Those of one context id stand together, in the order in which they came.
 *
 * Returns    how many there are; of these the first ones, at most count, are written to messages, which may
 *            be NULL if count is 0.  -EINVAL count is negative, or messages NULL and count not 0; -ENOMEM.
 * Source     src/p2p/unexpected.c
 */
MBX_API int mbx_unexpected(const struct mbx_ep *ep, struct mbx_status *messages, int count);

/*
 * mbx_watch_unexpected - be told of each message that has no receive.
 *
 * watch is called with has_come 1 when a message has become unexpected, and with 0 when a receive or a
 * matched probe has taken it: when it is in the queue already, or not any more.  So its calls come in the order in
 * which the messages came, and in which they were taken.  NULL: nobody is told any more, as at the
 * beginning.  What is unexpected already is not told.  While somebody is told, mbx_try_recv() leaves all
 * messages to mbx_recv().
 *
 * Returns    0.
 * Ownership  message is valid until watch returns.
 * Threads    watch is called by the thread whose call or progress has moved the message, under the lock of
 *            ep.  Of the library it may call mbx_unexpected(), mbx_stat_read() and mbx_stats_read() of ep, and only
 *            with MBX_THREADS=one.
 * Progress   none.
 * Source     src/p2p/unexpected.c
 */
MBX_API int mbx_watch_unexpected(struct mbx_ep *ep,
                                 void (*watch)(void *user, int has_come,
                                               const struct mbx_status *message),
                                 void *user);

/* ---- what an endpoint can do ----------------------------------------------------------- */

struct mbx_limits {
    size_t inject;  /* largest message of mbx_inject() */
    size_t message; /* largest message of mbx_send(), read and write */
    size_t atomic;  /* bytes of the operands of one mbx_atomic(), at most */
    /* what messages without a receive may cost here (docs/internals/flow-control.md); bytes,
     * UINT64_MAX: no limit */
    uint64_t unexpected;     /* all of them */
    uint64_t window;         /* messages of one peer, at first */
    uint64_t window_payload; /* bytes with these */
    uint64_t extra;          /* bytes for peers that want more */
};

/*
 * mbx_limits_get - what this endpoint can carry.
 *
 * Units      size is sizeof *limits (Structures, above).
 * Returns    0; -EINVAL size.
 * Threads    any, also with MBX_THREADS=one.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_limits_get(const struct mbx_ep *ep, struct mbx_limits *limits, size_t size);

enum mbx_protocol {
    MBX_INLINE,     /* eager, header and payload in one cache line */
    MBX_SHORT,      /* eager, one packet */
    MBX_BOUNCE,     /* eager, several packets */
    MBX_RNDV_READ,  /* rendezvous, the receiver reads (RTS, read, FIN) */
    MBX_RNDV_DATA,  /* rendezvous, the sender streams (RTS, CTS, DATA) */
    MBX_RNDV_WRITE, /* the sender writes into a receive that it was told of (ADVERTISE, WRITE) */
    MBX_PROTOCOLS
};

/*
 * mbx_protocol_name - what a protocol is called.
 *
 * Returns    "inline", "short", "bounce", "rndv-read", "rndv-data", "rndv-write"; NULL for
 *            another number.
 * Ownership  the text is constant.
 * Threads    any.
 * Source     src/p2p/path.c
 */
MBX_API const char *mbx_protocol_name(enum mbx_protocol protocol);

/* One row of the protocol table: messages that are longer than the row before says, and of at most max_size
 * bytes, travel by this protocol. */
struct mbx_protocol_row {
    enum mbx_protocol protocol;
    size_t max_size;
};

/*
 * mbx_protocol_get - row index (0, 1, ...) of the table for a peer: how a message would travel if it were sent now.
 *
 * A protocol can have two rows: while bounce buffers are free, messages too long for packets use them.  If peer is
 * MBX_ANY_SOURCE, or nothing was sent to it yet, the table says how its first messages would travel.
 *
 * Some messages travel otherwise, and a statistic counts them:
 *
 *   sent_rndv-write   the receiver has announced where the message goes
 *   rerouted          there was no credit for an eager message, its buffers were used while it waited, or its receiver
 *                     did not read the packets: it became a rendezvous
 *   read_fallbacks    a rendezvous could not be read, and was sent as data
 *   deferrals         the message waits at its sender until a receive is known
 *
 * Not counted: injected messages are always eager. A message in pieces, or one that the adapter of its receiver could not
 * match, may be a rendezvous though its size says eager.
 *
 * Units      size is sizeof *row (Structures, above).
 * Returns    0; -ENOENT no more rows; -EINVAL no such peer, or size.
 * Source     src/p2p/path.c
 */
MBX_API int mbx_protocol_get(const struct mbx_ep *ep, uint32_t peer, unsigned index,
                             struct mbx_protocol_row *row, size_t size);

/*
 * mbx_transport_get - name and one-line description of transport number index (0, 1, ...) of
 * this library.
 *
 * Returns    0; -ENOENT no transport of that number (the end of the list).
 * Ownership  the texts are constant.
 * Threads    any.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_transport_get(unsigned index, const char **name, const char **about);

/* What carries messages to other machines. */
struct mbx_network {
    char provider[64];        /* libfabric's name of it: "tcp;ofi_rxm" */
    char interface[64];       /* and of its domain: "eth0", "mlx5_0" */
    char threading[16];       /* what it allows to threads: FI_THREAD_..., in small letters */
    uint32_t version;         /* libfabric's: (its first number << 16) + its second */
    uint64_t message;         /* bytes of a message of the provider, at most */
    uint32_t reads_memory;    /* 1: the receiver reads long messages; 0: they come in packets */
    uint32_t exchanges_words; /* 1: MBX_MATCH_AT=sender can use words there; 0: claims */
};

/*
 * mbx_network_get - describe the network that an endpoint would use.
 *
 * That is the one of MBX_TRANSPORT=ofi, chosen by MBX_OFI_PROVIDER and MBX_OFI_INTERFACE; it is
 * opened for this and closed again, whatever MBX_TRANSPORT is.
 *
 * Units      size is sizeof *network (Structures, above).
 * Returns    0; -ENOTSUP this library was built without libfabric, or libfabric is not
 *            installed or too old; -ENODATA libfabric has no provider that would do;
 *            -EINVAL a parameter is wrong, or size; -ENOMEM; or the provider's reason why it cannot be
 *            opened.  The log says which.
 * Threads    any.
 * Progress   none; libfabric may look for adapters for half a second.
 * Source     src/lib/network.c
 */
MBX_API int mbx_network_get(struct mbx_network *network, size_t size);

/* ---- parameters ------------------------------------------------------------------------ */

struct mbx_param {
    char name[48];     /* environment variable, "MBX_..." */
    char unit[16];     /* "bytes", "messages", ...; empty: the value says it, or has none */
    char value[128];   /* as set now, formatted */
    char initial[128]; /* the default */
    char range[128];   /* what is accepted */
    char help[256];
    uint32_t level; /* 0: for every user; 1: advanced; 2: of a program that tests the library */
    uint32_t is_set; /* 1: the environment says the value; 0: it is the default */
};

/*
 * mbx_param_get - describe parameter number index (0, 1, ...).
 *
 * Units      size is sizeof *param (Structures, above).
 * Returns    0; -ENOENT no parameter of that number (the end of the list);
 *            -EINVAL size, or the environment holds an unknown or malformed MBX_ variable
 *            (named in the log); -ENOMEM.
 * Threads    any.
 * Source     src/core/settings.c
 */
MBX_API int mbx_param_get(unsigned index, struct mbx_param *param, size_t size);

/* ---- names for people ------------------------------------------------------------------ */

/*
 * mbx_name_program - say what the envelopes of ep mean.
 *
 * An MPI library that runs over ep names itself, so that mbx trace, the statistics and the log speak
 * its words: text is `WAY VERSION`, where WAY says how communicator and tag lie in an envelope
 * (`component`: the context id is the communicator, the tag is MPI's in 32 bits; `provider`: both are
 * in the tag, as the MPI's libfabric layer puts them there) and VERSION is what
 * MPI_Get_library_version() gives.  Nothing but these words depends on it.
 *
 * Returns    0; -EINVAL text is NULL or empty.
 * Ownership  text is copied, up to 127 bytes.
 * Progress   none.
 * Source     src/core/names.c; the layouts that are known: src/inspect/mpi.c
 */
MBX_API int mbx_name_program(struct mbx_ep *ep, const char *text);

/*
 * mbx_explain_waits - say which requests a call of an MPI library waits for.
 *
 * For mbx doctor: waits is called for a request that is not complete, with its options' user pointer
 * and its queue, when somebody asks what ep waits for.  It returns 0 if no call waits for that request, or
 * if that is not known; else how many of those that a call waits for have to end until that call returns:
 * their number of MPI_Waitall, 1 of MPI_Waitany.  waits may be NULL: nobody tells.
 *
 * Returns    0.
 * Threads    waits is called under the lock of ep, by a thread that makes progress; it may call nothing of
 *            the library.
 * Progress   none.
 * Source     src/core/names.c, src/lib/inspect.c
 */
MBX_API int mbx_explain_waits(struct mbx_ep *ep,
                              uint32_t (*waits)(const void *user, enum mbx_queue kind));

/* A send or receive that an MPI library has described, and that was never started: MPI_Send_init, MPI_Recv_init. */
struct mbx_unstarted {
    uint32_t is_send;    /* 1: a send; 0: a receive */
    uint32_t context_id; /* what it will be started with */
    uint32_t peer;       /* of a receive also MBX_ANY_SOURCE */
    uint64_t tag, ignore;
};

/*
 * mbx_explain_unstarted - say which operations an MPI library has described and never started.
 *
 * For mbx doctor: unstarted is called with index 0, 1, ... until it returns 0, when somebody asks what ep waits for; it fills
 * in *out and returns 1 while there is one with that index.  unstarted may be NULL: nobody tells.
 *
 * Returns    0.
 * Threads    unstarted is called under the lock of ep, by a thread that makes progress; it may call nothing
 *            of the library.
 * Progress   none.
 * Source     src/core/names.c, src/lib/inspect.c
 */
MBX_API int mbx_explain_unstarted(struct mbx_ep *ep,
                                  int (*unstarted)(unsigned index, struct mbx_unstarted *out));

/*
 * mbx_name_context - name a context id, as a communicator is named; size is how many ranks it has,
 * or 0: not known.
 *
 * It keeps the name until it gets another one.
 *
 * Units      size in ranks.
 * Returns    0; -EINVAL context_id is above MBX_CONTEXT_MAX, or name is NULL; -ENOMEM.
 * Ownership  name is copied, up to 127 bytes.
 * Progress   none.
 * Source     src/core/names.c
 */
MBX_API int mbx_name_context(struct mbx_ep *ep, uint32_t context_id, const char *name,
                             uint32_t size);

/*
 * mbx_name_peer - say which rank a peer is: its rank among the processes that were started with it
 * (MPI_COMM_WORLD).  job is 0 for those that were started with this process, and another number for
 * each other job (MPI_Comm_spawn, MPI_Comm_connect).
 *
 * Returns    0; -EINVAL no such peer; -ENOMEM.
 * Progress   none.
 * Source     src/core/names.c
 */
MBX_API int mbx_name_peer(struct mbx_ep *ep, uint32_t peer, uint32_t job, uint32_t rank);

/* ---- statistics ------------------------------------------------------------------------ */

/* A statistic: what it is called and what it counts.  The texts are constant. */
struct mbx_stat {
    const char *name;  /* "expected", "sent_bytes_short", ... */
    const char *unit;  /* "bytes", or "" of a plain count */
    const char *about; /* one line */
};

/*
 * mbx_stat_get - describe statistic number index (0, 1, ...).
 *
 * The names stay as they are; a later version may have more of them, in another order.
 *
 * Units      size is sizeof *stat (Structures, above).
 * Returns    0; -ENOENT no statistic of that number (the end of the list); -EINVAL size.
 * Ownership  what stat points to is the library's, constant, and never freed.
 * Threads    any.
 * Progress   none.
 * Source     src/core/stats.c; all of them in src/core/stats_table.c
 */
MBX_API int mbx_stat_get(unsigned index, struct mbx_stat *stat, size_t size);

/*
 * mbx_stat_read - the value of the statistic of this name.
 *
 * Counts begin with 0 when ep is opened; names that end in _now are what there is now, and in
 * _max the most there was.
 *
 * Returns    0 and *value; -ENOENT there is no statistic of this name.
 * Progress   none.
 * Source     src/core/stats.c
 */
MBX_API int mbx_stat_read(const struct mbx_ep *ep, const char *name, uint64_t *value);

/*
 * mbx_stats_read - the values of all statistics, taken at one time.
 *
 * values[i] is that of statistic number i.
 *
 * Returns    how many there are; of these at most count are written.  values may be NULL if
 *            count is 0.  -EINVAL count is negative, or values NULL and count not 0.
 * Progress   none.
 * Source     src/core/stats.c
 */
MBX_API int mbx_stats_read(const struct mbx_ep *ep, uint64_t *values, int count);

#ifdef __cplusplus
}
#endif
#endif
