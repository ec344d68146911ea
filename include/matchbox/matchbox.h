/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matchbox.h - MPI tag matching and its protocols, as a library.
 *
 * This header is the only authority on the API.
 *
 * An endpoint sends messages to peers.  It matches messages that arrive to receives by the rules
 * of MPI:
 *
 *   - a message carries an envelope: context id, source, tag;
 *   - a receive names a context id, a source or MBX_ANY_SOURCE, a tag and 64 ignore bits (1: this
 *     bit of the tag is not compared);
 *   - a receive accepts a message if the context ids are equal, the source is equal or
 *     MBX_ANY_SOURCE, and ((message tag ^ receive tag) & ~ignore) == 0;
 *   - no tag means "any tag", because all 64 bits belong to the user: a receive with tag 0 and
 *     MBX_IGNORE_ALL accepts every tag;
 *   - a message goes to the earliest posted receive that accepts it, and a receive takes the
 *     earliest message that it accepts;
 *   - messages of one sender on one context id are matched in the order in which they were sent;
 *   - the length of a message takes no part in matching.
 *
 * Small messages are sent eagerly.  Larger ones use a rendezvous: the sender sends an RTS, the
 * receiver reads the data straight into the posted buffer and acknowledges it with a FIN.
 *
 * All calls are nonblocking except the mbx_wait calls, mbx_sleep() and the mbx_job_ calls that say
 * so.  Nothing moves except in mbx_progress() and in the calls that are documented to make
 * progress.
 *
 * Calls that wait release the core while nothing moves: they sleep or call sched_yield(2) from
 * time to time.  Calls that only check never release it: mbx_test(), mbx_progress(), mbx_poll(),
 * probes, and a wait with a timeout of 0.  A loop of such calls keeps its core for a whole time
 * slice, even if the peer that it waits for needs that core.  With more processes than cores, such
 * a loop should call sched_yield(), mbx_sleep() or one of the mbx_wait calls after some tens of
 * checks that have found nothing.
 *
 * Errors     0 or a positive count is success; errors are negative errno values.  Outputs are
 *            written only on success.
 * Threads    With MBX_THREADS=one (the default), one thread at a time uses an endpoint.  With
 *            MBX_THREADS=many, any number of threads may: each call takes the lock of the
 *            endpoint, and calls that wait release it.  In both cases endpoints are independent of
 *            each other.  A call that takes no endpoint may be made by any thread, except the
 *            mbx_job_ calls: one thread at a time per job.  The comment of a call names its
 *            differences from these rules.  docs/internals/threads.md says what threads cost.
 * Fork       An endpoint belongs to the process that opened it.  In a child made by fork(), a call
 *            that uses the endpoint logs an error and ends the child; only mbx_close() does
 *            nothing and returns -EPERM.  The child may execute a program, end, or open endpoints
 *            of its own.
 * Versions   Structures can grow, and a program that was compiled with an earlier header keeps
 *            working.
 *            - Structures that a call fills: mbx_param, mbx_limits, mbx_served, mbx_stat,
 *              mbx_protocol_row, mbx_network, and mbx_device_info of device.h.  Pass them with
 *              their size, sizeof *x.  The call writes no more than this size, and writes 0 to
 *              members that this version does not know.  It returns -EINVAL if the size is
 *              smaller than in the first version.
 *            - Structures that a call reads: mbx_config, mbx_options, mbx_region,
 *              mbx_atomic_args, mbx_sleep_hooks.  They have flags.  A member that a later version
 *              adds is read only if a flag says that it is set.  An unknown flag is -EINVAL.  Set
 *              all other members to 0, for example with designated initialisers.
 *            - mbx_address, mbx_status and mbx_completion never change.  A later version will
 *              provide new information by new calls.
 *
 * Contents   I    Simple programs: version and errors, endpoints, jobs, sending, receiving,
 *                 waiting for requests.
 *            II   Event loops: completion queues, sleeping, a descriptor for epoll.
 *            III  For experts: completions without a copy, one-sided access, peers that die,
 *                 unexpected messages, limits of an endpoint, parameters, names for people,
 *                 statistics.
 * Fields     The comment of a call has the fields that apply to it.  Order: which order holds.
 *            Units: of its numbers.  Returns: the result and every error.  Ownership: the owner
 *            of the memory.  Threads: differences from the rules above.  Progress: whether the
 *            call makes progress (with a const endpoint it never does), and whether it blocks.
 *            Source: the file that defines it.
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

#define MBX_ANY_SOURCE    UINT32_MAX  /* source of a receive or probe: any peer */
#define MBX_IGNORE_ALL    UINT64_MAX  /* ignore bits: accept any tag */
#define MBX_CONTEXT_MAX   0xfffeffffu /* the library uses higher context ids itself */
#define MBX_ADDRESS_SIZE  64

struct mbx_ep;  /* endpoint */
struct mbx_job; /* the processes started together */

/* The number of a request or of a matched message.  It is never 0.  The library recognises and
 * refuses a number that is no longer valid, and never confuses it with a later one. */
typedef uint64_t mbx_request;
typedef uint64_t mbx_message;

/* The address of an endpoint: opaque bytes of one fixed length.  The caller copies them to other
 * processes by any means. */
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
 * mbx_strerror - one line about an error of this library, a negative or positive errno.
 *
 * Returns    a text, for every number.
 * Ownership  the text is constant.
 * Threads    any.
 * Source     src/core/settings.c
 */
MBX_API const char *mbx_strerror(int error);

/* The levels of the log. */
enum mbx_log_level {
    MBX_LOG_ERROR, /* an operation fails, or the library cannot continue */
    MBX_LOG_WARN,  /* the library continues, but not as a user would expect */
    MBX_LOG_INFO,  /* once: the choices made at open */
    MBX_LOG_DEBUG, /* once for each connection, or rarely; also the name and value of an
                      argument for which a call returns -EINVAL */
    MBX_LOG_TRACE, /* for each message */
};

/*
 * mbx_log_callback - pass the lines of the log to a function, instead of standard error.
 *
 * MBX_LOG_LEVEL selects the lines.  The library calls log with user and with each line, without a
 * prefix and without a newline.  NULL selects standard error again.  log must not call this
 * library.
 *
 * Ownership  text is valid until log returns.
 * Threads    this call sets the log of the whole process: make it while no other thread is in a
 *            call of this library.  Several threads may call log at the same time, among them
 *            threads that the library starts.
 * Source     src/core/settings.c
 */
MBX_API void mbx_log_callback(void (*log)(void *user, enum mbx_log_level level,
                                          const char *text),
                              void *user);

/* ---- endpoints ------------------------------------------------------------------------- */

/* The configuration of an endpoint. */
struct mbx_config {
    /* Parameters "NAME=VALUE" without the prefix MBX_, ended by NULL.  They override the
     * environment.  May be NULL. */
    const char *const *params;
    /* The key of the job: 128 random bits that its members share.  Peers with another key are
     * refused.  NULL: the value of MBX_KEY.  Without that the key is zero, and any process of
     * the same user that also has no key may connect. */
    const uint8_t *key;
    unsigned flags; /* 0 */
};

/*
 * mbx_open - open an endpoint.
 *
 * config may be NULL; then all parameters come from the environment (MBX_...).
 *
 * Returns    0; -EINVAL a parameter is unknown or malformed, or parameters contradict each other
 *            (the log names them), or a flag is unknown; -ENOMEM; -ENOTSUP or -ENODATA no usable
 *            network (as mbx_network_get()); -ENODEV or -ETIMEDOUT the device of MBX_DEVICE does
 *            not start; or the error of the system call that failed.
 * Ownership  *ep belongs to the caller until mbx_close().
 * Threads    any.
 * Progress   none; may wait for a device, or for an answer of the launcher.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_open(const struct mbx_config *config, struct mbx_ep **ep);

/*
 * mbx_close - close an endpoint.
 *
 * Before the call returns:
 *
 *   - Messages whose sends are complete can still be delivered.
 *   - Sends that wait for space, and injected messages that wait here for their receive, are
 *     pushed for at most MBX_CLOSE_TIMEOUT (docs/internals/flow-control.md).
 *   - Accesses of peers to our memory that have arrived are performed, unless they need more data
 *     from the peer.  The answers are also pushed for at most MBX_CLOSE_TIMEOUT.
 *
 * Everything that is still pending then is abandoned: all receives, and also sends that the peer
 * knows but has not fetched or matched.  Wait for these sends before closing.  The caller may reuse
 * all buffers when the call returns.  Peers get -ENOTCONN from their next send to this endpoint.
 * Their earlier operations that need an answer from it end with -ENOTCONN when they notice.
 *
 * The endpoint and all its handles and completions are dead afterwards.  Using them is a
 * programming error that is not detected.
 *
 * Returns    0; -ETIMEDOUT sends, answers or injected messages that waited for space were
 *            abandoned.  In that case the endpoint is closed too, and the log says so.
 * Threads    this is the last call on the endpoint.  All other calls must have returned before it
 *            begins, also with MBX_THREADS=many.
 * Progress   makes progress on sends; may block up to MBX_CLOSE_TIMEOUT.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_close(struct mbx_ep *ep);

/*
 * mbx_address_get - the address by which others reach ep.
 *
 * Returns    0.
 * Threads    any, also with MBX_THREADS=one.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_get(const struct mbx_ep *ep, struct mbx_address *address);

/*
 * mbx_address_share - publish the address of ep under a label, for endpoints of this job on this
 * machine.
 *
 * For programs that otherwise get addresses from a launcher, which takes longer for each address.
 * The other processes must be able to compute the label, for example from a rank.  The label must
 * also identify the job: two jobs find each other's labels if their launchers give both the same
 * name.  An endpoint may have several labels, and owns them until it closes.  The label of a killed process stays.
 *
 * Returns    0; -EINVAL label is 0.  -ENOTSUP ep is not in the directory in which endpoints of a
 *            job find each other, so the program must exchange addresses in another way.  Causes:
 *            MBX_SHM_DIRECTORY=no, MBX_SHM_PASS, no job, another transport, or 512 earlier endpoints.
 *            -EEXIST an open endpoint, perhaps ep itself, has this label.
 *            -ENOSPC 512 labels have been used in this job on this machine.
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_share(struct mbx_ep *ep, uint64_t label);

/*
 * mbx_address_find - find the address that an endpoint of this job on this machine has published
 * under a label.
 *
 * The call returns the address as that endpoint wrote it; mbx_peer_add() checks it.  The address may
 * belong to a process that was killed.
 *
 * Returns    0; -ENOENT no endpoint publishes an address under this label now, or ep is not in the
 *            directory (see mbx_address_share()).
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_address_find(const struct mbx_ep *ep, uint64_t label,
                             struct mbx_address *address);

/*
 * mbx_address_text - write an address as printable text, always terminated.
 *
 * The whole text has 2 * MBX_ADDRESS_SIZE characters.  If size is too small, it is cut after a whole
 * byte of the address.
 *
 * Units      size in bytes, of buf; 0: nothing is written.
 * Returns    buf.
 * Ownership  buf belongs to the caller.
 * Threads    any.
 * Source     src/core/peer.c
 */
MBX_API const char *mbx_address_text(const struct mbx_address *address, char *buf, size_t size);

/*
 * mbx_peer_add - make the endpoint at address a peer of ep.
 *
 * Peers get the numbers 0, 1, 2, ... in the order in which they become known: by this call, or
 * because they sent something.  An address has one number, so adding it again returns the same
 * number.  The endpoint's own address may be added.
 *
 * The call sends nothing.  If the address is well formed, and its endpoint is missing or has another
 * version, the first send reports it in its completion: -ENOTCONN, -EHOSTUNREACH or, for another version of this
 * library, -EPROTONOSUPPORT.  An added peer costs at most 200 bytes; its first use allocates the
 * rest.
 *
 * Order      peers are numbered in the order in which they become known, except for numbers that
 *            mbx_peer_remove() has made free.
 * Returns    0; -EINVAL the address is not well formed; -EHOSTUNREACH no open transport reaches it;
 *            -ENOMEM.
 * Progress   none.
 * Source     src/core/peer.c
 */
MBX_API int mbx_peer_add(struct mbx_ep *ep, const struct mbx_address *address, uint32_t *peer);

/*
 * mbx_peer_address - the address of the peer with this number.
 *
 * Returns    0; -EINVAL no such peer.
 * Source     src/core/peer.c
 */
MBX_API int mbx_peer_address(const struct mbx_ep *ep, uint32_t peer,
                             struct mbx_address *address);

/*
 * mbx_peer_remove - forget a peer that has closed; another peer may get its number later.
 *
 * For programs whose peers come and go.  Without this call, a peer's memory and number stay in use
 * as long as ep is open.  A peer that was added, to which this endpoint has sent nothing and from
 * which it has seen nothing, can be removed at any time.  If the same endpoint is added again, or sends something, it gets a number as a new peer does.
 *
 * Until another peer gets the number, sends and accesses to it fail with -EINVAL, and receives from
 * it wait.  A program that stores peer numbers must forget this one.
 *
 * Returns    0; -EBUSY the peer has not closed, or some of its messages are not delivered yet: make
 *            progress and call again.  Or something refers to it: complete the request, read the
 *            completion, receive or drop the message.  Or the peer has died: it keeps its number
 *            for ever (mbx_failed() names it).
 *            -EOPNOTSUPP this peer can never be removed: it is reached over a network, or there is
 *            a trace (MBX_TRACE, which names peers by number), or a matching device.
 *            -EINVAL no such peer; -ENOMEM.
 * Progress   none.
 * Source     src/core/peer_remove.c
 */
MBX_API int mbx_peer_remove(struct mbx_ep *ep, uint32_t peer);

/* ---- jobs ------------------------------------------------------------------------------ */

/*
 * mbx_job_open - find out which processes were started together with this one.
 *
 * Under `mbx run`, the job is the one that `mbx run` started.  Under a launcher that speaks PMIx (Open
 * MPI's mpiexec, prterun, srun --mpi=pmix), it is the launcher's job.  Without a launcher it is a job
 * of one rank.  Any other launcher is an error, because each rank would form a job of its own;
 * MBX_BOOT=single accepts this (docs/library.md).
 *
 * Returns    0; -ENOTSUP the launcher does not speak PMIx; -EPROTO its environment or its answers are
 *            damaged; -ECONNRESET a rank has ended without joining; -ENOSYS libpmix cannot be
 *            loaded; -EINVAL a parameter is wrong; -ENOMEM; or the error of the system call
 *            that failed.
 * Ownership  *job belongs to the caller until mbx_job_close().
 * Threads    one at a time.
 * Progress   under PMIx, the first call in a process blocks until every rank has called it.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_open(struct mbx_job **job);

/*
 * mbx_job_close - forget the job.  Its endpoints stay open.
 *
 * Threads    this is the last call on the job.
 * Progress   none; under PMIx this rank may ask the launcher for permission to leave.
 * Source     src/lib/job.c
 */
MBX_API void mbx_job_close(struct mbx_job *job);

/*
 * mbx_job_rank, mbx_job_size - the rank of this process, and the number of ranks.
 *
 * Returns    the rank, from 0 on; the number of ranks, at least 1.
 * Threads    one at a time per job.
 * Source     src/lib/job.c
 */
MBX_API uint32_t mbx_job_rank(const struct mbx_job *job);
MBX_API uint32_t mbx_job_size(const struct mbx_job *job);

/*
 * mbx_job_key - the job's key of 128 bits, for mbx_config.key.
 *
 * Returns    16 bytes.
 * Ownership  the bytes belong to the library, and are valid until mbx_job_close().
 * Threads    one at a time per job.
 * Source     src/lib/job.c
 */
MBX_API const uint8_t *mbx_job_key(const struct mbx_job *job);

/*
 * mbx_job_connect - make every rank of the job a peer of ep; the peer number is the rank.
 *
 * This call is collective: every rank calls it once per endpoint, in the same order.  ep must have
 * no peers yet.
 *
 * Returns    0; -EBUSY ep already has peers; -ECONNRESET a rank of the job has ended without
 *            joining; -EPROTO the shared data of the job is damaged; -EINTR; -ENOMEM;
 *            -EINVAL or -EHOSTUNREACH a rank uses another transport.
 * Order      of the peers: by rank.
 * Threads    one at a time per job; other threads use ep only after it has returned.
 * Progress   none.  Blocks until all ranks have joined.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_connect(struct mbx_job *job, struct mbx_ep *ep);

/*
 * mbx_job_fence - wait until every rank of the job has called this.
 *
 * Returns    0; -ECONNRESET a rank has ended without joining or, under PMIx, did not call within
 *            MBX_BOOT_TIMEOUT, and every later fence fails too; -EPROTO the shared data of the job
 *            is damaged; -ENOMEM; -EINTR: call again to continue with the same fence.
 * Threads    one at a time per job.
 * Progress   none.  Blocks.
 * Source     src/lib/job.c
 */
MBX_API int mbx_job_fence(struct mbx_job *job);

/* ---- sending --------------------------------------------------------------------------- */

/* Flags of an operation, in mbx_options. */
enum mbx_flags {
    /* Success creates no completion entry; an error still creates one.  The request has no
     * handle: *request is set to 0. */
    MBX_SILENT = 1 << 0,
    /* mbx_write: the owner of the region gets an entry with options.data in its queue
     * MBX_EVENTS. */
    MBX_REMOTE_DATA = 1 << 1,
    /* mbx_write, mbx_atomic, mbx_send, mbx_ssend: the caller may reuse the data, the operand and
     * the comparison value when the call returns.  With MBX_LAYOUT the call packs the data.  The
     * data of a send or write has at most mbx_limits.inject bytes. */
    MBX_COPY = 1 << 2,
    /* mbx_send: if the message has left when the call returns, and buf may be reused, the call
     * returns 1, sets *request to 0, and creates no completion entry. */
    MBX_AT_ONCE = 1 << 3,
    /* mbx_send, mbx_ssend, mbx_recv, mbx_mrecv: the data is not at buf, but where options.layout
     * says. */
    MBX_LAYOUT = 1 << 4,
    /* The library calls options.done when the request is complete, and creates no completion
     * entry. */
    MBX_DONE = 1 << 5,
};

struct mbx_layout;
struct mbx_completion;

/* Options of an operation that most calls do not need.  NULL means all zero. */
struct mbx_options {
    void *user;                      /* returned in the completion */
    uint64_t data;                   /* sends: sent with the envelope, not matched */
    unsigned flags;                  /* enum mbx_flags */
    const struct mbx_layout *layout; /* MBX_LAYOUT */
    /* MBX_DONE: the completion callback.  The library calls it once, with the contents of the
     * completion entry that it replaces; with MBX_SILENT only after an error.  completion is valid
     * until the callback returns, and the handle in it is dead.
     * The calling thread is in a call of this endpoint: either the call that starts the operation,
     * before it returns, or any call that makes progress, including mbx_close().  With
     * MBX_THREADS=many the thread holds the lock of the endpoint.  The callback must not call this
     * endpoint, and must not leave by longjmp() or an exception.
     * Only mbx_cancel() accepts the handle of such a request: calls that wait for it or test it
     * return -EINVAL. */
    void (*done)(const struct mbx_completion *completion);
};

/* A part of a vector.  The members equal POSIX's struct iovec. */
struct mbx_iovec {
    void *base;
    size_t size;
};

/*
 * struct mbx_layout - describes non-contiguous data of a message.
 *
 * The data lies in the parts of a vector, or callbacks pack and unpack it (a datatype library).
 *
 *   const struct mbx_layout layout = {.parts = parts, .count = 3};
 *   const struct mbx_options options = {.flags = MBX_LAYOUT, .layout = &layout};
 *
 *   mbx_send(ep, peer, context_id, tag, NULL, size, &options, &request);
 *
 * With a vector, the data is the first size bytes of the parts in order; a part may be empty.  With
 * callbacks, the data is size bytes that pack() produces and unpack() consumes:
 *
 *   pack       writes up to size bytes of the data, from offset on, to `to`.  size is at
 *              least 256, or the rest of the data if that is less.  Returns how many bytes it has written, at least 1, or a
 *              negative errno.  If it writes fewer than size, the library asks for the rest later.
 *   unpack     consumes the bytes [offset, offset + size), which have arrived.  Returns 0 or a
 *              negative errno.
 *   end        may be NULL.  The library calls it when it no longer needs the layout: once for
 *              each send or receive call that returns 0 or 1, perhaps before that call returns.
 *              It is called before the completion can be read, or in mbx_close().  After it the caller
 *              may reuse the vector, the data and the context of the callbacks.  For a send this can be
 *              long before it is complete.
 *
 * A layout does not change matching, order, limits, truncation or cancel.  A peer
 * cannot see it: each side may have a layout or none.
 *
 * Order      of the offsets: from 0 on, without gaps, each byte once.  Data that does not fit into
 *            the receive is not unpacked; it may be packed or not.
 * Threads    Callbacks run in the thread that is in a call of this endpoint: either the call that
 *            starts the operation, or any call that makes progress.  One callback runs at a time.
 *            With MBX_THREADS=many the thread holds the lock of the endpoint.  A callback must not
 *            call this endpoint, and must not leave by longjmp() or an exception.
 * Errors     A negative result of a callback becomes the error of the completion.  An invalid
 *            result becomes -EIO: 0 or more than size packed bytes, or a positive result of
 *            unpack().  After that the library calls only end().  The other side also completes: a
 *            receive whose sender cannot pack gets -EIO after the data that has arrived; a send
 *            whose receiver cannot unpack completes as if all data had been received.
 * Units      bytes.
 * Ownership  The library reads the structure only during the call.  The parts, the data and the
 *            context of the callbacks belong to the library until end() or the completion; for
 *            sends with MBX_COPY, until the call returns.
 * Memory     The library packs a short message at once.  For a longer one it uses at most two
 *            buffers of 64 KiB per request, while other data is being sent, and at most 256 per
 *            endpoint.  Over shared memory a sender packs into memory that the receiver reads, at
 *            most 2 MiB per endpoint.
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
 * Sends [buf, buf+size) to peer under {context_id, tag}.  The send is complete as soon as buf may be
 * reused: at once if the message is sent eagerly and there is space, otherwise when the receiver has
 * read it.
 *
 * Order      Messages to one peer on one context id are matched in the order of these calls.
 * Threads    Calls of two threads take effect in the order in which they get the lock.  If the
 *            order matters, synchronise the threads.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; 1 only with MBX_AT_ONCE, see there.
 *            -EINVAL no such peer, reserved context id, NULL buf, unknown flag, longer than
 *            mbx_limits.message, or an invalid layout, or a layout shorter than size.
 *            -EMSGSIZE only with MBX_COPY: longer than mbx_limits.inject.
 *            -ENOMEM no request is left, or there is no memory for the first use of a peer.
 *            An unreachable or closed peer is not an error of the call: the request completes with
 *            -ENOTCONN, -EHOSTUNREACH or -EPROTONOSUPPORT.  It completes with -ENOMEM, and nothing
 *            is sent, if the message must wait for the receiver and there is no memory for that.
 * Ownership  buf belongs to the library until the request completes.  request may be NULL; then
 *            only the completion queue reports the completion.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                     const void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request);

/*
 * mbx_ssend - as mbx_send, but completes only after the message has matched.
 *
 * After a matched probe it completes when mbx_mrecv() has received the message.
 *
 * Order      with the messages of mbx_send(): the order of the calls.
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
 * There is no completion.  If the message cannot be delivered later, because the peer has gone, the
 * library logs this and counts it (send_errors), but reports no error.
 *
 * Order      with the messages of mbx_send(): the order of the calls.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL as mbx_send; -EMSGSIZE longer than mbx_limits.inject;
 *            -ENOMEM no memory for a copy; -ENOTCONN, -EHOSTUNREACH or -EPROTONOSUPPORT the peer is
 *            known to be gone, or to have another version.
 * Ownership  buf belongs to the caller.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_inject(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                       const void *buf, size_t size, uint64_t data);

/*
 * mbx_try_send - as mbx_send, if the message can leave at once; there is no request.
 *
 * This is the cheapest way to send.  If it returns 1, the message has left, and buf may be reused.  If
 * it returns 0, nothing has happened, and the caller uses mbx_send().  Reasons for 0: the message is
 * longer than a packet, or it must wait for space, for credit or for an earlier message, or the peer
 * is gone.
 *
 * Order      with the messages of mbx_send(): the order of the calls that have sent.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    1 the message has left; 0 it has not; -EINVAL and -ENOMEM as mbx_send().
 * Ownership  buf belongs to the caller.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/send.c
 */
MBX_API int mbx_try_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                         const void *buf, size_t size, uint64_t data);

/* ---- receiving ------------------------------------------------------------------------- */

/*
 * mbx_recv - start receiving one message.
 *
 * Posts [buf, buf+size) for the oldest message accepted by {context_id, source, tag, ignore}.  If such
 * a message has already arrived, the receive takes it at once; otherwise it waits in post order.
 * source is a peer number or MBX_ANY_SOURCE.
 *
 * Order      see the head of matchbox.h (MPI-4.1, section 3.5).
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, reserved context id, NULL buf, unknown flag, or an invalid
 *            layout, or a layout shorter than size; -ENOMEM no request is left, or there is no
 *            memory for the first use of a context id or for a layout.
 *            A longer message is not an error of the call: the request completes with error -EMSGSIZE,
 *            and the first size bytes are written.
 * Ownership  buf belongs to the library until the request completes or is reported as cancelled.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/recv.c; matching in src/match/match.c
 */
MBX_API int mbx_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                     uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request);

/* The message that a probe has found, or that mbx_try_recv() has received. */
struct mbx_status {
    uint32_t context_id;
    uint32_t source; /* peer number */
    uint64_t tag;
    uint64_t data; /* the sender's options.data */
    size_t size;   /* bytes of the whole message */
};

/*
 * mbx_try_recv - as mbx_recv, if the message can be received at once; there is no request.
 *
 * This is the cheapest way to receive.  If it returns 1, buf contains the message that mbx_recv()
 * would have taken, and *status describes it.  If it returns 0, nothing has happened, and the caller
 * uses mbx_recv().  Reasons for 0:
 *
 *   - no such message has arrived, or not all of its data;
 *   - the oldest such message is longer than size, or was sent by mbx_ssend();
 *   - MBX_TRACE is set, or a device holds messages (MBX_DEVICE_HOLDS).
 *
 * Order      with the receives of mbx_recv(): the order of the calls that have received.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    1 received; 0 not received; -EINVAL as mbx_recv().
 * Ownership  buf belongs to the caller.
 * Progress   never blocks; does not call mbx_progress(): a message counts as arrived only after
 *            progress has seen it.
 * Source     src/p2p/try_recv.c
 */
MBX_API int mbx_try_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                         uint64_t ignore, void *buf, size_t size, struct mbx_status *status);

/*
 * mbx_probe - find the message that a receive with these arguments would take now.
 *
 * The message stays in the queue.  If there is none, the call makes progress once.
 *
 * Returns    1 and *status; 0 there is no message; -EINVAL as mbx_recv.
 *            -ENOTCONN there is no message, and source has died.
 *            -EHOSTDOWN there is no message, source is MBX_ANY_SOURCE, and a peer has died that
 *            mbx_failed_ack() has not acknowledged.  A message may still come: probe again.
 * Threads    with MBX_THREADS=many another thread may take the message before this thread receives
 *            it; mbx_mprobe() takes it at once.
 * Progress   makes progress once if there is no message; never blocks.
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_probe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                      uint64_t ignore, struct mbx_status *status);

/*
 * mbx_mprobe - matched probe: as mbx_probe, and takes the message out of the queue.
 *
 * Exactly one later mbx_mrecv() or mbx_discard() receives or drops the message; no other receive or
 * probe finds it.
 *
 * Returns    1, *status and *message; 0, -ENOTCONN, -EHOSTDOWN or -EINVAL as mbx_probe; -ENOMEM the
 *            message waits at its sender, and there is no space to keep it here.
 * Ownership  *message belongs to the caller until mbx_mrecv(), mbx_discard() or mbx_close().
 * Progress   makes progress once if there is no message; never blocks.
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_mprobe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                       uint64_t ignore, struct mbx_status *status, mbx_message *message);

/*
 * mbx_mrecv - receive the message of a matched probe.
 *
 * Order      none: the messages of matched probes may be received in any order.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -ESTALE no matched probe holds this message, or it no longer does; -EINVAL NULL buf
 *            or unknown flag; -ENOMEM no request is left (the message stays held).
 * Ownership  buf and the completion as mbx_recv().
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_mrecv(struct mbx_ep *ep, mbx_message message, void *buf, size_t size,
                      const struct mbx_options *options, mbx_request *request);

/*
 * mbx_discard - drop the message of a matched probe; its send completes as if it had been received.
 *
 * Returns    0; -ESTALE no matched probe holds this message, or it no longer does; -ENOMEM no
 *            request is left (the message stays held).
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/probe.c
 */
MBX_API int mbx_discard(struct mbx_ep *ep, mbx_message message);

/*
 * mbx_context_open - begin a new use of a context id, and drop messages of its earlier uses.
 *
 * For programs that reuse a context id, as an MPI library does after a communicator is freed.  A
 * message of an earlier use must not match a receive of the new use, even if it arrives late.  Such a
 * program therefore gives each use of the id its own value in some bits of the tag: the bits that are 0
 * in ignore.  All messages, receives and probes of one use have this value, so matching keeps the uses
 * apart.
 *
 * Matching is right without this call; its purpose is to free memory.  From now on, the endpoint drops every message on this context id that
 * differs from tag in these bits, as mbx_discard() does; its send completes.  A deferred message stays
 * at its sender and takes no memory here.  An open id may be opened again, with other bits.
 *
 * Returns    0; -EINVAL context_id is above MBX_CONTEXT_MAX; -ENOMEM.
 * Progress   none.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_context_open(struct mbx_ep *ep, uint32_t context_id, uint64_t tag,
                             uint64_t ignore);

/*
 * mbx_context_close - end the present use of a context id.
 *
 * Until the id is opened again, the endpoint drops messages with the bits that the id was opened with.
 * Other messages wait, because a peer may begin the next use before this endpoint does.
 *
 * Returns    0; -EINVAL context_id is not open.
 * Progress   none.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_context_close(struct mbx_ep *ep, uint32_t context_id);

/*
 * mbx_drop - drop the arrived messages that a receive from any source with these arguments would take.
 *
 * Returns    how many; -EINVAL context_id is above MBX_CONTEXT_MAX; -ENOMEM some may remain.
 * Progress   none: a message counts as arrived only after progress has seen it.
 * Source     src/p2p/drop.c
 */
MBX_API int mbx_drop(struct mbx_ep *ep, uint32_t context_id, uint64_t tag, uint64_t ignore);

/*
 * mbx_cancel - cancel a receive, or a send, that has not matched.
 *
 * The request always ends in one completion: -ECANCELED if this call was in time, otherwise the
 * normal one.
 *
 * Sends      A message that waits at its sender is taken back there.  For a synchronous send, and
 *            for a rendezvous, the sender asks the receiver.  The receiver returns the message,
 *            once it makes progress, if no receive and no matched probe has taken it.  Every other
 *            send is complete when its message has left.
 *
 * Returns    0 cancelled; for a send, or a receive that a device has, the cancellation may be under
 *            way, and the completion reports its result.
 *            -EINPROGRESS an earlier cancellation is still under way.
 *            -ECANCELED it was cancelled before.
 *            -EALREADY it has matched or is complete, or it is a send that cannot be taken back.
 *            -ESTALE no such request (its completion has been read).
 *            -EOPNOTSUPP the request is neither a send nor a receive.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/p2p/recv.c, src/p2p/withdraw.c
 */
MBX_API int mbx_cancel(struct mbx_ep *ep, mbx_request request);

/* ---- waiting for requests --------------------------------------------------------------
 *
 * Which calls belong to which loop.  A program needs one row.
 *
 *   loop                      checks                          sleeps
 *   one request               mbx_test                        mbx_wait
 *   an array of requests      mbx_wait_all, _some, _any       mbx_wait_all, _some, _any
 *                             with a timeout of 0
 *   a completion queue        mbx_progress, mbx_poll          mbx_wait_queues
 *   polling at full speed     mbx_idle, mbx_progress,         -
 *                             mbx_peek, mbx_release
 *   your own loop             mbx_progress, mbx_ready,        mbx_sleep, mbx_wake
 *                             mbx_poll
 *   an event loop (epoll)     mbx_progress, mbx_ready,        mbx_fd, mbx_arm, mbx_disarm
 *                             mbx_poll
 */

/* The completion queues of an endpoint. */
enum mbx_queue {
    MBX_SENDS = 1 << 0,    /* completed sends */
    MBX_RECVS = 1 << 1,    /* completed receives */
    MBX_ACCESS = 1 << 2,   /* completed reads, writes and atomics that this endpoint started */
    MBX_EVENTS = 1 << 3,   /* writes of peers that carried data (MBX_REMOTE_DATA) */
    MBX_FAILURES = 1 << 4, /* not completions: receives from any source that still wait after a
                              peer has died */
};

/* A completed operation: an entry of a completion queue. */
struct mbx_completion {
    mbx_request request;
    void *user; /* options.user */
    int error;  /* 0; -EMSGSIZE truncated; -ECANCELED; -ENOTCONN; -EHOSTUNREACH;
                   -EPROTONOSUPPORT the peer has another version of this library; ...;
                   MBX_FAILURES: -EHOSTDOWN */
    enum mbx_queue kind;
    size_t received;          /* bytes written to the buffer (or sent) */
    struct mbx_status status; /* Receives: the message, if one matched; size is its full
                                 length.  Sends: the arguments; source = peer.
                                 MBX_ACCESS and MBX_EVENTS: source = peer, tag = key
                                 of the region.  MBX_FAILURES: the arguments of the
                                 receive, but source = the peer that died last */
};

/*
 * mbx_test - is this request complete?  If so, take its entry from the queue.
 *
 * Returns    1 and *completion (may be NULL); 0 not yet; -ESTALE no such request: its completion
 *            was already taken; -EHOSTDOWN it is a receive from any source that still waits, and a
 *            peer has died: see mbx_failed(); -EINVAL it was started with MBX_DONE.
 * Threads    several threads may test the same request; one of them gets the completion.
 * Progress   makes progress once if the request is not complete; never blocks.
 * Source     src/core/completion.c
 */
MBX_API int mbx_test(struct mbx_ep *ep, mbx_request request, struct mbx_completion *completion);

/*
 * mbx_wait - wait until a request is complete and take its entry from the queue.
 *
 * Polls for the time that MBX_SPIN gives, then sleeps until a peer has sent something.  It yields the core when nothing
 * has moved for 50 us, and when the timeout ends.  With a timeout of 0 it only checks.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0 and *completion (may be NULL), which contains the error of the request itself;
 *            -EHOSTDOWN as mbx_test(); -ETIMEDOUT; -EINTR a signal arrived during sleep.
 *            -ESTALE no such request: its completion was taken before, perhaps by another thread.
 *            -EINVAL it was started with MBX_DONE: the library calls options.done instead.
 * Threads    any number may wait in one endpoint, even for the same request; then one gets it.  One
 *            waiting thread polls and sleeps for all of them.
 * Progress   makes progress.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_wait(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
                     struct mbx_completion *completion);

/*
 * mbx_wait_all - wait until all requests of an array are complete, and take their entries.
 *
 * requests[i] == 0 stands for no request.  When a request is complete, completions[i] becomes its
 * entry, unless completions is NULL, and requests[i] becomes 0.
 *
 * Entries with these errors do not come from a completion:
 *
 *   -ESTALE or -EINVAL    mbx_wait() would refuse this request with that error; requests[i] becomes 0
 *   -EHOSTDOWN            kind is MBX_FAILURES: a receive from any source still waits, and a peer has
 *                         died; requests[i] does not change
 *
 * Order      none: the requests may become complete in any order.
 * Units      timeout_ns in nanoseconds, for the whole array; negative: no limit; 0: make progress
 *            once and take the completions.
 * Returns    how many requests ended with an error, so 0 is success.  -ETIMEDOUT or -EINTR some are
 *            not complete; the completions of the others have been taken.  -EINVAL count is
 *            negative, or requests is NULL and count is not 0.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_all(struct mbx_ep *ep, mbx_request *requests, int count,
                         int64_t timeout_ns, struct mbx_completion *completions);

/*
 * mbx_wait_some - wait until at least one request of an array is complete, and take the entries of
 * all complete ones.
 *
 * As mbx_wait_all(), but without gaps: indices[k] says which request became complete, and
 * completions[k] is its entry, unless completions is NULL.  Both arrays have space for count.
 *
 * Order      none: the requests may become complete in any order.
 * Units      timeout_ns as mbx_wait_all().
 * Returns    how many entries there are; 0 only if the array contains no request; -ETIMEDOUT;
 *            -EINTR; -EINVAL as mbx_wait_all(), or indices is NULL.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_some(struct mbx_ep *ep, mbx_request *requests, int count,
                          int64_t timeout_ns, int *indices, struct mbx_completion *completions);

/*
 * mbx_wait_any - as mbx_wait_some(), but takes one entry.
 *
 * completion may be NULL.
 *
 * Order      if several requests are complete, the call takes the first one in the array.
 * Units      timeout_ns as mbx_wait_all().
 * Returns    1 and *index; 0 the array contains no request; -ETIMEDOUT; -EINTR; -EINVAL as
 *            mbx_wait_all(), or index is NULL.
 * Threads    as mbx_wait().
 * Progress   makes progress.  Blocks, unless timeout_ns is 0.
 * Source     src/core/wait_array.c
 */
MBX_API int mbx_wait_any(struct mbx_ep *ep, mbx_request *requests, int count,
                         int64_t timeout_ns, int *index, struct mbx_completion *completion);

/*
 * mbx_progress - make progress: deliver arrived messages, continue rendezvous, retry what waited for
 * space.
 *
 * Returns    how many messages and steps moved; 0 if nothing did.
 * Progress   makes progress once; never blocks.
 * Source     src/core/progress.c
 */
MBX_API int mbx_progress(struct mbx_ep *ep);

/* ===========================================================================
 * II   Event loops
 * =========================================================================== */

/* ---- completion queues ----------------------------------------------------------------- */

/*
 * mbx_poll - read completions: oldest first in each queue, queue by queue in the order of enum
 * mbx_queue.
 *
 * queues is one value of enum mbx_queue, or several.  The handles of the returned requests are dead,
 * except with MBX_FAILURES: see there.  The queues never overflow, because a completed request is its
 * own entry.
 *
 * Order      in one queue: the order of completion.
 * Returns    how many of at most count entries were written (0: none); -EINVAL queues names no
 *            queue, or entries is NULL.
 * Threads    each entry goes to one thread.  If another thread waits for this request, that thread
 *            gets -ESTALE.
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
 * mbx_wait_queues - wait as mbx_wait() does, until mbx_poll(ep, queues) would return an entry.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0; -ETIMEDOUT; -EINTR; -EINVAL queues names no queue.
 * Threads    all waiting threads return when there is an entry, and one of them will find it.
 * Progress   makes progress.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_wait_queues(struct mbx_ep *ep, unsigned queues, int64_t timeout_ns);

/* ---- sleeping -------------------------------------------------------------------------- */

/* The functions that mbx_sleep() calls; each may be NULL. */
struct mbx_sleep_hooks {
    void (*sleeps)(void *arg); /* the thread is about to sleep */
    void (*slept)(void *arg);  /* the thread has slept */
    void *arg;
    unsigned flags; /* 0 */
};

/*
 * mbx_sleep - sleep until there may be something to do for mbx_progress().
 *
 * For a thread with its own loop, which makes progress, handles the results, and sleeps when
 * mbx_progress() has returned 0.  Unlike mbx_wait_queues(), it wakes for anything that arrives, not
 * only for completions.  hooks may be NULL.
 *
 * Units      timeout_ns in nanoseconds; negative: no limit.
 * Returns    0 something may have arrived; the call may also return early without a reason.
 *            -ETIMEDOUT; -EINTR a signal arrived; -EBUSY another thread waits in this endpoint;
 *            -EINVAL unknown flag.
 * Threads    Between hooks->sleeps and hooks->slept, other threads may make all calls except
 *            mbx_close() and calls that wait.  This holds with MBX_THREADS=one as well: a caller that
 *            guards the endpoint by its own lock releases it in sleeps() and takes it again in
 *            slept().  With MBX_THREADS=one the other threads call mbx_wake() after they have
 *            started an operation.
 * Progress   none.  Blocks.
 * Source     src/core/wait.c
 */
MBX_API int mbx_sleep(struct mbx_ep *ep, int64_t timeout_ns,
                      const struct mbx_sleep_hooks *hooks);

/*
 * mbx_wake - make the mbx_sleep() of another thread return; if that thread is about to sleep, it does
 * not.
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
 *   fd = mbx_fd(ep); // once; wait for it to be readable
 *   for (;;) {
 *       while (mbx_progress(ep) > 0 || mbx_ready(ep, queues))
 *           handle(entries, mbx_poll(ep, queues, entries, count));
 *       if (mbx_arm(ep) == 0) // the last call before the loop sleeps
 *           epoll_wait(epoll, events, 2, -1); // fd, and other descriptors
 *   }
 *
 * mbx_fd() returns the same descriptor each time.  Only this library reads, writes and closes it
 * (mbx_close() does).  The first call starts a thread, which sleeps for the caller.
 *
 * A call of mbx_arm() makes progress once.  If then there is nothing to do and nothing to read, it
 * arms the descriptor.  The descriptor becomes readable as soon as there may be something for
 * mbx_progress(), after mbx_wake(), and occasionally without a reason.  It stays readable until
 * mbx_arm() or mbx_disarm().  The loop misses nothing that arrives between the check and the sleep.
 *
 * It can miss two things: an operation that the caller itself starts after mbx_arm() and before it
 * sleeps, and a message for which there is no space here, until a receive accepts it
 * (docs/internals/flow-control.md).
 *
 * Returns    mbx_fd(): the descriptor; -ENOMEM, -EAGAIN no thread could be started, or the error of
 *            the system call that failed.
 *            mbx_arm(): 0 armed; 1 not armed, because there is something to do or to read now;
 *            -EINVAL mbx_fd() was not called.
 *            mbx_disarm(): 0; -EINVAL as mbx_arm().
 * Ownership  the descriptor belongs to the library, and is valid until mbx_close().
 * Threads    one at a time.  With MBX_THREADS=one a call that waits may disarm.  With
 *            MBX_THREADS=many other threads may wait in this endpoint at the same time.  While one
 *            does, the descriptor reports only completions, and not messages that a probe would
 *            find.
 * Progress   mbx_arm() makes progress once; none of the three blocks.
 * Source     src/core/event_fd.c; examples/event_loop.c is a whole program
 */
MBX_API int mbx_fd(struct mbx_ep *ep);
MBX_API int mbx_arm(struct mbx_ep *ep);
MBX_API int mbx_disarm(struct mbx_ep *ep);

/* ===========================================================================
 * III  For experts
 * =========================================================================== */

/* ---- completions without a copy -------------------------------------------------------- */

/*
 * mbx_peek, mbx_release - read a completion in place, without a copy.
 *
 *   while ((c = mbx_peek(ep, queues)) != NULL) {
 *       handle(c, 1);
 *       mbx_release(ep, c);
 *   }
 *
 * mbx_peek() returns the entry that mbx_poll() would return first.  It returns NULL if there is none, or
 * if queues names no queue.  It never returns entries of MBX_FAILURES, which have no place in memory.
 * mbx_release() takes the entry from its queue, and then the handle is dead.  Between the two calls, all
 * other calls are allowed except mbx_poll(), mbx_test(), mbx_wait() and others that take entries.
 *
 * Returns    mbx_peek(): the entry, or NULL.
 * Ownership  the entry belongs to the library; it may be read until mbx_release().
 * Threads    only one thread takes entries of these queues, and no other thread waits for such a
 *            request.
 * Progress   none; see mbx_progress().
 * Source     src/core/completion.c
 */
MBX_API const struct mbx_completion *mbx_peek(struct mbx_ep *ep, unsigned queues);
MBX_API void mbx_release(struct mbx_ep *ep, const struct mbx_completion *completion);

/*
 * mbx_idle - is there nothing to move, and nothing to read?
 *
 * For programs that poll in their own loop: while nothing arrives, mbx_idle() reads one word, which
 * costs less than calls of mbx_progress() and mbx_poll().
 *
 *   if (!mbx_idle(ep)) {
 *       mbx_progress(ep);
 *       handle(entries, mbx_poll(ep, queues, entries, count));
 *   }
 *
 * Returns    1: mbx_progress() would move nothing now, and no queue has an entry.
 *            0: the answer is not known.  It is sometimes 0 so that the caller performs checks that
 *            are due from time to time; a loop that calls mbx_progress() then misses nothing.
 *            It is always 0 with MBX_THREADS=many, with a matching device, and while a
 *            transport other than shared memory is in use.
 * Threads    as all calls of an endpoint without MBX_THREADS=many: one at a time.
 * Progress   none.
 * Source     src/core/progress.c
 */
MBX_API int mbx_idle(struct mbx_ep *ep);

/* ---- one-sided -------------------------------------------------------------------------
 *
 * A peer reads, writes and updates memory that we have registered, and we access its memory in the
 * same way, without a receive.  An access names a region by its key, and an address in the region.
 * Only the progress of the region's owner performs it.  From this follows:
 *
 *   rights     The owner checks rights when it performs the access, and again for each part of a
 *              long access.  It trusts no address of a peer.
 *   order      Accesses of one endpoint to one peer are performed in the order of the calls, each
 *              one after the previous one is complete.  Messages are not ordered with them.
 *   atomicity  Atomics of all peers, and of all endpoints of one process, are performed one after
 *              the other, element by element.  They are not atomic with respect to the owner's own
 *              instructions, or to reads and writes.
 *   the end    mbx_deregister() performs the accesses that have arrived.  When it returns, nothing
 *              reads or writes the region, and nothing will.
 *   copies     The owner copies the data of a long access once, straight between the buffers, if
 *              the transport supports that (process_vm_readv, process_vm_writev).
 *   progress   If an owner makes no progress, its peers wait.
 *   close      mbx_close() performs and answers accesses that have arrived.  It does not push the
 *              accesses that this endpoint has started: wait for them before closing.
 *
 * A completed access creates an entry in the queue MBX_ACCESS; the bytes of a write are then in the
 * region.  Errors of the entry: -EACCES no such key, or not this right; -ERANGE beyond the region;
 * -ENOTCONN or -EHOSTUNREACH the peer is gone, and a read or write may have been performed in part.
 */

/* The rights of peers to a region. */
enum mbx_rights {
    MBX_REMOTE_READ = 1 << 0,  /* reads, and atomics that return a result */
    MBX_REMOTE_WRITE = 1 << 1, /* writes and atomics */
};

/* Memory that peers may access. */
struct mbx_region {
    void *buf;
    size_t size;
    /* The address that peers use for the first byte: 0, the address of buf, or any other.
     * address + size must not exceed 2^64 - 1. */
    uint64_t address;
    unsigned rights; /* enum mbx_rights */
    unsigned flags;  /* 0 */
};

/*
 * mbx_register - let all peers of ep access region, under a key that the caller chooses.
 *
 * Regions may overlap.
 *
 * Returns    0; -EEXIST the key is in use; -EINVAL unknown rights or flags, or addresses that wrap;
 *            -ENOMEM.
 * Ownership  the memory belongs to the library until mbx_deregister() or mbx_close().
 * Progress   none.
 * Source     src/rma/region.c
 */
MBX_API int mbx_register(struct mbx_ep *ep, uint64_t key, const struct mbx_region *region);

/*
 * mbx_deregister - end the access of peers to a region.
 *
 * Accesses that have arrived are performed first, if they need no more data from their peer.  An access
 * that does, all accesses after it, and all later ones end with -EACCES at their peers.  When this call
 * returns, the memory belongs to the caller again, and no peer reads or writes it.
 *
 * Returns    0; -ENOENT no such key.
 * Progress   makes progress at least once, and continues while the transport moves bytes of accesses
 *            that have arrived.  It never waits for a peer, except if the peer's processor moves the
 *            bytes (over TCP); then it waits for the peer's progress or end.
 * Source     src/rma/region.c
 */
MBX_API int mbx_deregister(struct mbx_ep *ep, uint64_t key);

/*
 * mbx_try_deregister - as mbx_deregister(), but never waits.
 *
 * For a caller with a lock that other threads need: it releases the lock before it calls again.
 *
 * Returns    0; -EAGAIN the transport moves bytes of the region, and the caller calls again until the
 *            result is another one; -ENOENT no such key.
 * Progress   makes progress; never blocks.
 * Source     src/rma/region.c
 */
MBX_API int mbx_try_deregister(struct mbx_ep *ep, uint64_t key);

/* Accesses of peers that were performed without an error.  An atomic that modifies counts as a
 * write, and one that returns a result counts as a read, so many atomics count as both. */
struct mbx_served {
    uint64_t reads;
    uint64_t writes;
    uint64_t both; /* atomics that both counters contain */
};

/*
 * mbx_served_get - the number of accesses since ep was opened.
 *
 * Units      size is sizeof *served (matchbox.h, Versions).
 * Returns    0; -EINVAL size.
 * Source     src/rma/region.c
 */
MBX_API int mbx_served_get(const struct mbx_ep *ep, struct mbx_served *served, size_t size);

/*
 * mbx_region_served - the number of accesses to one region since it was registered.
 *
 * Units      size is sizeof *served (matchbox.h, Versions).
 * Returns    0; -ENOENT no such key; -EINVAL size.
 * Source     src/rma/region.c
 */
MBX_API int mbx_region_served(const struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                              size_t size);

/*
 * mbx_deregister_served - as mbx_deregister(), and returns the number of all accesses to the region.
 *
 * Units      size is sizeof *served (matchbox.h, Versions).
 * Returns    0; -ENOENT no such key; -EINVAL size, and nothing was done.
 * Progress   as mbx_deregister().
 * Source     src/rma/region.c
 */
MBX_API int mbx_deregister_served(struct mbx_ep *ep, uint64_t key, struct mbx_served *served,
                                  size_t size);

/*
 * mbx_write - start writing [buf, buf+size) to a region of peer.
 *
 * Order      after the accesses that this endpoint has started to this peer before.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, NULL buf, unknown flag, an address that wraps, or longer than
 *            mbx_limits.message; -EMSGSIZE too long for MBX_COPY; -ENOMEM no request is left, no
 *            memory for a copy, or no memory for the first use of a peer.
 * Ownership  buf belongs to the library until the request completes, unless MBX_COPY is set.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/rma/origin.c; at the owner src/rma/target.c
 */
MBX_API int mbx_write(struct mbx_ep *ep, uint32_t peer, const void *buf, size_t size,
                      uint64_t key, uint64_t address, const struct mbx_options *options,
                      mbx_request *request);

/*
 * mbx_read - start reading size bytes of a region of peer into buf.
 *
 * Order      after the accesses that this endpoint has started to this peer before.
 * Units      size in bytes; 0 is allowed and then buf may be NULL.
 * Returns    0; -EINVAL no such peer, NULL buf, a flag other than MBX_SILENT, an address that wraps, or
 *            longer than mbx_limits.message; -ENOMEM no request is left, or no memory for the first
 *            use of a peer.
 * Ownership  buf belongs to the library until the request completes.  If ep is closed during a read,
 *            the peer may still write to buf for a moment: wait for the read before closing.
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

/* The new value of each element x, for an operand y and, from MBX_CSWAP on, a comparison value c. */
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
    MBX_CSWAP_LE,     /* y if c <= x; this and the next three: not complex */
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
    const void *compare; /* from MBX_CSWAP on; otherwise NULL */
    void *result;        /* receives the old values; may be NULL, except for MBX_ATOMIC_READ */
    uint64_t key, address;
    unsigned flags; /* 0; mbx_options has the flags of the operation */
};

/*
 * mbx_atomic_size - the size of an element.
 *
 * Returns    bytes; 0 if there is no such operation on this type.
 * Threads    any.
 * Source     src/rma/atomic.c
 */
MBX_API size_t mbx_atomic_size(enum mbx_op op, enum mbx_type type);

/*
 * mbx_atomic - start an atomic update of memory of peer.
 *
 * Order      after the accesses that this endpoint has started to this peer before.
 * Returns    0; -EOPNOTSUPP no such operation on this type; -EINVAL no such peer, unknown flag, no
 *            elements, a pointer that is missing or must be NULL, or an address that wraps;
 *            -EMSGSIZE more than mbx_limits.atomic; -ENOMEM as mbx_write().
 * Ownership  operand, compare and result belong to the library until the request completes; with
 *            MBX_COPY, only result.
 * Progress   never blocks; does not call mbx_progress().
 * Source     src/rma/origin.c; at the owner src/rma/target.c, src/rma/atomic.c
 */
MBX_API int mbx_atomic(struct mbx_ep *ep, uint32_t peer, const struct mbx_atomic_args *atomic,
                       const struct mbx_options *options, mbx_request *request);

/* ---- peers that die -------------------------------------------------------------------- */

/*
 * mbx_failed - which peers are known to have died?
 *
 * A peer has died if its process has ended without mbx_close().  This endpoint notices a death within
 * MBX_PEER_TIMEOUT while it makes progress, if a request needs the peer, or a probe that the program
 * repeats.  For a receive from any source over a network, it checks only peers with which it has
 * exchanged something, and a few others.
 *
 * Requests that need only this peer end with -ENOTCONN.  A receive from any source can still match a
 * message of another peer.  It stays posted, and can be matched and cancelled as before.  The library
 * reports the death for this receive once, and once more for each peer that dies later.  The first of
 * these two calls reports it:
 *
 *   mbx_wait() or mbx_test() of the receive returns -EHOSTDOWN
 *   mbx_poll() with MBX_FAILURES returns an entry with its handle, which stays alive
 *
 * The library reports known deaths in the same way for every receive from any source that is posted
 * later, until mbx_failed_ack() acknowledges them.
 *
 * Returns    how many.  The call writes the first numbers, at most count, to peers, in the order in
 *            which the deaths were found.  peers may be NULL if count is 0.
 * Source     src/core/failure.c
 */
MBX_API int mbx_failed(const struct mbx_ep *ep, uint32_t *peers, int count);

/*
 * mbx_failed_ack - acknowledge the peers that mbx_failed() names now: receives no longer report them.
 *
 * Returns    how many peers these are.
 * Progress   none.
 * Source     src/core/failure.c
 */
MBX_API int mbx_failed_ack(struct mbx_ep *ep);

/* ---- unexpected messages --------------------------------------------------------------- */

/*
 * mbx_unexpected - list the unexpected messages of ep: arrived messages that no receive has taken.
 *
 * Messages of one context id are listed together, in the order in which they arrived.
 *
 * Returns    how many there are.  The call writes the first ones, at most count, to messages, which may
 *            be NULL if count is 0.  -EINVAL count is negative, or messages is NULL and count is not
 *            0; -ENOMEM.
 * Source     src/p2p/unexpected.c
 */
MBX_API int mbx_unexpected(const struct mbx_ep *ep, struct mbx_status *messages, int count);

/*
 * mbx_watch_unexpected - call a function for each message that becomes unexpected, and again when it is
 * taken.
 *
 * The library calls watch with has_come 1 after a message has entered the queue of unexpected messages.
 * It calls watch with 0 after a receive or a matched probe has taken the message out of the queue.  So
 * the calls have the order in which messages arrive and are taken.  Messages that are unexpected before
 * this call are not reported.  watch may be NULL, as at the beginning: no reports.  While watch is set,
 * mbx_try_recv() always returns 0.
 *
 * Returns    0.
 * Ownership  message is valid until watch returns.
 * Threads    watch runs in the thread whose call or progress has moved the message, under the lock of
 *            ep.  It may call only mbx_unexpected(), mbx_stat_read() and mbx_stats_read() of ep, and
 *            only with MBX_THREADS=one.
 * Progress   none.
 * Source     src/p2p/unexpected.c
 */
MBX_API int mbx_watch_unexpected(struct mbx_ep *ep,
                                 void (*watch)(void *user, int has_come,
                                               const struct mbx_status *message),
                                 void *user);

/* ---- what an endpoint can do ----------------------------------------------------------- */

/* The limits of an endpoint. */
struct mbx_limits {
    size_t inject;  /* largest message of mbx_inject() */
    size_t message; /* largest message of mbx_send(), mbx_read() and mbx_write() */
    size_t atomic;  /* most bytes of the operands of one mbx_atomic() */
    /* Limits of unexpected messages here (docs/internals/flow-control.md).  UINT64_MAX: no limit. */
    uint64_t unexpected;     /* bytes for messages of all peers together */
    uint64_t window;         /* messages of one peer, at first */
    uint64_t window_payload; /* bytes of data of these messages */
    uint64_t extra;          /* bytes of credit for peers that need more */
};

/*
 * mbx_limits_get - the limits of this endpoint.
 *
 * Units      size is sizeof *limits (matchbox.h, Versions).
 * Returns    0; -EINVAL size.
 * Threads    any, also with MBX_THREADS=one.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_limits_get(const struct mbx_ep *ep, struct mbx_limits *limits, size_t size);

/* The protocols that carry messages. */
enum mbx_protocol {
    MBX_INLINE,     /* eager, header and payload in one cache line */
    MBX_SHORT,      /* eager, one packet */
    MBX_BOUNCE,     /* eager, several packets */
    MBX_RNDV_READ,  /* rendezvous, the receiver reads (RTS, read, FIN) */
    MBX_RNDV_DATA,  /* rendezvous, the sender sends packets (RTS, CTS, DATA) */
    MBX_RNDV_WRITE, /* the sender writes into an advertised receive (ADVERTISE, WRITE) */
    MBX_PROTOCOLS
};

/*
 * mbx_protocol_name - the name of a protocol.
 *
 * Returns    "inline", "short", "bounce", "rndv-read", "rndv-data", "rndv-write"; NULL for
 *            another number.
 * Ownership  the text is constant.
 * Threads    any.
 * Source     src/p2p/path.c
 */
MBX_API const char *mbx_protocol_name(enum mbx_protocol protocol);

/* One row of the protocol table.  This protocol carries messages of at most max_size bytes that are
 * longer than max_size of the previous row. */
struct mbx_protocol_row {
    enum mbx_protocol protocol;
    size_t max_size;
};

/*
 * mbx_protocol_get - row index (0, 1, ...) of the protocol table for a peer: which protocol would carry a
 * message that is sent now?
 *
 * A protocol can have two rows: while bounce buffers are free, messages too long for packets use them.
 * If peer is MBX_ANY_SOURCE, or nothing was sent to it yet, the table describes its first messages.
 *
 * Some messages use another protocol, and a statistic counts them:
 *
 *   sent_rndv-write   the receiver has advertised where the message goes
 *   rerouted          an eager message became a rendezvous, because there was no credit, or its buffers
 *                     were used while it waited, or the receiver did not read its packets
 *   read_fallbacks    the data of a rendezvous could not be read, and was sent in packets
 *   deferrals         the message waits at its sender until a receive is known
 *
 * Injected messages are always eager, and are not counted.  A message of non-contiguous data, or one that
 * the receiver's adapter could not match, may use a rendezvous although its size is in an eager row.
 *
 * Units      size is sizeof *row (matchbox.h, Versions).
 * Returns    0; -ENOENT no more rows; -EINVAL no such peer, or size.
 * Source     src/p2p/path.c
 */
MBX_API int mbx_protocol_get(const struct mbx_ep *ep, uint32_t peer, unsigned index,
                             struct mbx_protocol_row *row, size_t size);

/*
 * mbx_transport_get - the name and a one-line description of transport number index (0, 1, ...) of
 * this library.
 *
 * Returns    0; -ENOENT no transport with that number (the end of the list).
 * Ownership  the texts are constant.
 * Threads    any.
 * Source     src/lib/endpoint.c
 */
MBX_API int mbx_transport_get(unsigned index, const char **name, const char **about);

/* The network that carries messages to other machines. */
struct mbx_network {
    char provider[64];        /* libfabric's name of the provider: "tcp;ofi_rxm" */
    char interface[64];       /* libfabric's name of the domain: "eth0", "mlx5_0" */
    char threading[16];       /* its thread level: FI_THREAD_..., in small letters */
    uint32_t version;         /* of libfabric: (major << 16) + minor */
    uint64_t message;         /* the largest message of the provider, in bytes */
    uint32_t reads_memory;    /* 1: the receiver reads long messages; 0: they come in packets */
    uint32_t exchanges_words; /* 1: MBX_MATCH_AT=sender can use remote atomics; 0: claims */
};

/*
 * mbx_network_get - describe the network that an endpoint would use.
 *
 * This is the network of MBX_TRANSPORT=ofi, chosen by MBX_OFI_PROVIDER and MBX_OFI_INTERFACE.  The call
 * opens it and closes it again, whatever the value of MBX_TRANSPORT is.
 *
 * Units      size is sizeof *network (matchbox.h, Versions).
 * Returns    0; -ENOTSUP this library was built without libfabric, or libfabric is not installed or
 *            too old; -ENODATA libfabric has no suitable provider; -EINVAL a parameter or size is
 *            wrong; -ENOMEM; or the provider's error when it was opened.  The log names the reason.
 * Threads    any.
 * Progress   none; libfabric may search for adapters for half a second.
 * Source     src/lib/network.c
 */
MBX_API int mbx_network_get(struct mbx_network *network, size_t size);

/* ---- parameters ------------------------------------------------------------------------ */

/* A parameter and its value. */
struct mbx_param {
    char name[48];     /* environment variable, "MBX_..." */
    char unit[16];     /* "bytes", "messages", ...; empty: the value has none, or contains it */
    char value[128];   /* the present value, formatted */
    char initial[128]; /* the default */
    char range[128];   /* the accepted values */
    char help[256];
    uint32_t level;  /* 0: for every user; 1: advanced; 2: for programs that test the library */
    uint32_t is_set; /* 1: the environment sets the value; 0: it is the default */
};

/*
 * mbx_param_get - describe parameter number index (0, 1, ...).
 *
 * Units      size is sizeof *param (matchbox.h, Versions).
 * Returns    0; -ENOENT no parameter with that number (the end of the list); -EINVAL size, or the
 *            environment holds an unknown or malformed MBX_ variable (the log names it); -ENOMEM.
 * Threads    any.
 * Source     src/core/settings.c
 */
MBX_API int mbx_param_get(unsigned index, struct mbx_param *param, size_t size);

/* ---- names for people ------------------------------------------------------------------ */

/*
 * mbx_name_program - describe the meaning of the envelopes of ep.
 *
 * An MPI library that runs over ep calls this, so that mbx trace, the statistics and the log can use MPI's
 * terms.  text is `WAY VERSION`.  VERSION is the text of MPI_Get_library_version().  WAY says how the
 * library stores communicator and tag in an envelope:
 *
 *   component   the context id is the communicator, and the tag is MPI's, in 32 bits
 *   provider    the tag contains both, as the MPI's libfabric layer stores them
 *   ucp         the tag contains both, as the MPI's UCX layer stores them
 *
 * text has no other effect.
 *
 * Returns    0; -EINVAL text is NULL or empty.
 * Ownership  text is copied, up to 127 bytes.
 * Progress   none.
 * Source     src/core/names.c; the layouts that are known: src/inspect/mpi.c
 */
MBX_API int mbx_name_program(struct mbx_ep *ep, const char *text);

/*
 * mbx_explain_waits - report which requests a call of an MPI library waits for.
 *
 * For mbx doctor.  When a process asks what ep waits for, the library calls waits for each incomplete
 * request, with the user pointer of its options and with its queue.  The result is 0 if no call waits
 * for that request, or if this is not known.  Otherwise it is the number of requests that must be
 * complete before the call returns: all requests of an MPI_Waitall, 1 for an MPI_Waitany.  If waits is
 * NULL, there are no reports.
 *
 * Returns    0.
 * Threads    waits runs under the lock of ep, in a thread that makes progress; it must not call the
 *            library.  With MBX_THREADS=many it reports the waits of that thread only.
 * Progress   none.
 * Source     src/core/names.c, src/lib/inspect.c
 */
MBX_API int mbx_explain_waits(struct mbx_ep *ep,
                              uint32_t (*waits)(const void *user, enum mbx_queue kind));

/*
 * mbx_explain_threads - report which threads of this process have communicated, and for what they wait.
 *
 * For mbx doctor, with MBX_THREADS=many.  When a process asks what ep waits for, the library calls
 * threads with index 0, 1 and so on, until it returns 0.  If there is a thread with that index, threads
 * stores the kernel's number of it (gettid) in *id and returns 1.  A thread is reported from its first
 * call that may send, receive, probe or wait, before that call has any effect.  A thread that has ended
 * may be reported as well.  If threads is NULL, no thread is known, and the rank is not judged.
 *
 * The library also calls waiter for each incomplete request that mbx_explain_waits() does not report,
 * with the same arguments.  The result is the index of a thread that sleeps until this request is
 * complete, perhaps with others, or -1.  It is -1 as well if the thread may go on although this request
 * is not complete.
 *
 * Returns    0.
 * Threads    both run under the lock of ep, in a thread that makes progress; they must not call the
 *            library.
 * Progress   none.
 * Source     src/core/names.c, src/lib/inspect.c
 */
MBX_API int mbx_explain_threads(struct mbx_ep *ep, int (*threads)(unsigned index, uint32_t *id),
                                int (*waiter)(const void *user, enum mbx_queue kind));

/* A persistent send or receive (MPI_Send_init, MPI_Recv_init) that the program has created and never
 * started. */
struct mbx_unstarted {
    uint32_t is_send;    /* 1: a send; 0: a receive */
    uint32_t context_id; /* the arguments with which it will be started */
    uint32_t peer;       /* for a receive also MBX_ANY_SOURCE */
    uint64_t tag, ignore;
};

/*
 * mbx_explain_unstarted - report persistent operations that were created and never started.
 *
 * For mbx doctor.  When a process asks what ep waits for, the library calls unstarted with index 0, 1
 * and so on, until it returns 0.  If there is an operation with that index, unstarted fills in *out and
 * returns 1.  If unstarted is NULL, there are no reports.
 *
 * Returns    0.
 * Threads    unstarted runs under the lock of ep, in a thread that makes progress; it must not call the
 *            library.
 * Progress   none.
 * Source     src/core/names.c, src/lib/inspect.c
 */
MBX_API int mbx_explain_unstarted(struct mbx_ep *ep,
                                  int (*unstarted)(unsigned index, struct mbx_unstarted *out));

/*
 * mbx_name_context - name a context id, for example after a communicator.
 *
 * size is the number of its ranks; 0 means not known.  The context id keeps the name until it gets
 * another one.
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
 * mbx_name_peer - report which rank a peer is.
 *
 * rank is its rank among the processes that were started together with it (MPI_COMM_WORLD).  job is 0 for
 * processes that were started together with this one.  Each other job has another number
 * (MPI_Comm_spawn, MPI_Comm_connect).
 *
 * Returns    0; -EINVAL no such peer; -ENOMEM.
 * Progress   none.
 * Source     src/core/names.c
 */
MBX_API int mbx_name_peer(struct mbx_ep *ep, uint32_t peer, uint32_t job, uint32_t rank);

/* The notes of mbx_trace_note(). */
enum mbx_note {
    /* request, or if it is 0 the last probe, is the event of this number in a record; if that is another
     * call, the record had so many events at the last send or note */
    MBX_NOTE_EVENT = 1,
    /* the program has been told that request, a send or a receive, is complete; number is 0 */
    MBX_NOTE_REPORTED,
    /* the last send or note was made where the program now calls from; request and number are 0 */
    MBX_NOTE_CALL
};

/*
 * mbx_trace_note - add to the trace of ep what the library cannot see.
 *
 * For mbx races: an MPI library that runs over ep knows which of its calls has told the program of a
 * completion, and which receives and probes a record has.  Without a trace the call has no effect.
 *
 * Returns    0; -EINVAL what is unknown, or request or number is 0 where it must not be, or is not where
 *            it must be.
 * Progress   none.
 * Source     src/p2p/tracer.c
 */
MBX_API int mbx_trace_note(struct mbx_ep *ep, enum mbx_note what, mbx_request request,
                           uint64_t number);

/* ---- choices of a program -------------------------------------------------------------- */

/* The results of mbx_choice(). */
enum mbx_chosen {
    MBX_CHOICE_FREE = 0, /* nothing is recorded or replayed */
    MBX_CHOICE_RECORDED, /* *value is in the record */
    MBX_CHOICE_REPLAYED  /* *value is the recorded one */
};

/*
 * mbx_choice - record a value that differs from run to run, or get the recorded one.
 *
 * For programs under `mbx exec --record` and `--replay` (docs/same-answer.md).  A program that reads the
 * time, a random seed, or a file that changes, passes what it has read through this function before it uses
 * it.  A replay then stores the recorded value in *value.  The call is an event of the record: a replayed
 * program must make the same calls, with the same sites, in the same order among its recorded calls of MPI.
 *
 *   uint64_t seconds = (uint64_t)time(NULL);
 *   mbx_choice(1, &seconds);
 *
 * site is any number; a divergence is reported by it.
 *
 * Order      as a call of MPI whose result depends on time.
 * Returns    MBX_CHOICE_RECORDED; MBX_CHOICE_REPLAYED; -EINVAL value is NULL; MBX_CHOICE_FREE: nothing is recorded
 *            or replayed, and *value is as before.  The call returns MBX_CHOICE_FREE without `mbx exec`, before
 *            MPI_Init, after MPI_Finalize, in a callback of MPI, and in a second thread.  Without MPI it does so
 *            before mbx_job_connect(), and after mbx_close() of the first endpoint.
 * Threads    the thread that makes the recorded calls of MPI; with several such threads, the one that makes them
 *            on MPI_COMM_WORLD; without MPI, the one that uses the first endpoint.  A call from another thread is
 *            not recorded, and makes the whole record useless, as recorded calls of MPI by two threads on one
 *            communicator do: a warning says so, and `mbx exec --replay` refuses the record.
 * Progress   none.
 * Source     src/pml/preload.c, src/pml/order.c; without MPI src/native/calls.c; without `mbx exec` src/lib/choice.c
 */
MBX_API int mbx_choice(uint64_t site, uint64_t *value);

/* ---- statistics ------------------------------------------------------------------------ */

/* The name and the meaning of a statistic.  The texts are constant. */
struct mbx_stat {
    const char *name;  /* "expected", "sent_bytes_short", ... */
    const char *unit;  /* "bytes", or "" for a plain count */
    const char *about; /* one line */
};

/*
 * mbx_stat_get - describe statistic number index (0, 1, ...).
 *
 * A later version keeps the names; it may add statistics, and may change their order.
 *
 * Units      size is sizeof *stat (matchbox.h, Versions).
 * Returns    0; -ENOENT no statistic with that number (the end of the list); -EINVAL size.
 * Ownership  the texts that stat points to belong to the library; they are constant and never freed.
 * Threads    any.
 * Progress   none.
 * Source     src/core/stats.c; all of them in src/core/stats_table.c
 */
MBX_API int mbx_stat_get(unsigned index, struct mbx_stat *stat, size_t size);

/*
 * mbx_stat_read - the value of the statistic with this name.
 *
 * A count is 0 when ep is opened.  A name that ends in _now is the present amount, and a name that ends
 * in _max is the largest amount so far.
 *
 * Returns    0 and *value; -ENOENT no statistic with this name.
 * Progress   none.
 * Source     src/core/stats.c
 */
MBX_API int mbx_stat_read(const struct mbx_ep *ep, const char *name, uint64_t *value);

/*
 * mbx_stats_read - the values of all statistics at one time.
 *
 * values[i] is the value of statistic number i.
 *
 * Returns    how many there are.  The call writes at most count values.  values may be NULL if count is
 *            0.  -EINVAL count is negative, or values is NULL and count is not 0.
 * Progress   none.
 * Source     src/core/stats.c
 */
MBX_API int mbx_stats_read(const struct mbx_ep *ep, uint64_t *values, int count);

#ifdef __cplusplus
}
#endif
#endif
