/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passing.h - segments for processes that cannot open them through /proc.
 *
 * Processes in different pid or user namespaces (containers), or a process that is not
 * dumpable, may not open each other's descriptors below /proc/PID/fd.  They can still share a
 * segment if its owner passes the descriptor (SCM_RIGHTS).  Each such process has a socket with
 * an abstract name, which all processes of its network namespace find, and which ends with the
 * process: nothing remains.  A thread of the process answers there, so that an owner answers
 * even while it computes.
 *
 *   sender                            owner's thread
 *   request: cookie, key check ---->  is it ours, and is the key check right?
 *   reply: descriptor          <----
 *   validate descriptor and head (segment_open.c), map
 *
 * A pid means nothing in another pid namespace.  The number in the socket's name replaces it:
 * it has PASSING_BIT, which no pid has, and the kernel gives a name to one socket at a time.
 * The process is alive if a socket has its name.
 *
 * Any user of the machine can send to such a socket.  The kernel drops messages without a
 * certain part of the process's cookies, which only its own peers were told (passing.c).
 *
 * A process has one number, however many endpoints it has.  A child made by fork() has none
 * until it opens an endpoint of its own.
 */
#ifndef SHM_PASSING_H
#define SHM_PASSING_H

#include <stdbool.h>
#include <stdint.h>

#define PASSING_BIT UINT32_C(0x80000000)

/* A request whose reply may be outstanding.  Zero: there is none. */
struct passing_request {
    bool waits;
    int fd;
    uint64_t nonce;
    uint64_t asked_ns;
};

static inline bool passing_is_number(uint32_t process)
{
    return (process & PASSING_BIT) != 0;
}

/* Makes this process answer, if it does not yet, and counts the callers.  0 and its number;
 * system errors. */
int passing_start(uint32_t *number);

/* A cookie for the next segment of a process that answers: it answers only requests for such
 * cookies. */
uint64_t passing_cookie(void);

/* Undoes one passing_start(). */
void passing_stop(void);

/* Is this the number of this process? */
bool passing_is_own(uint32_t number);

/* Is there a process with this number?  Also true if the system does not say. */
bool passing_is_alive(uint32_t number);

/* The descriptor of the segment with this cookie in another process, for the caller to validate
 * and close; waits briefly for it.  -EAGAIN the reply has not come: call again later, with the
 * same *request; -ENOENT there is no such process or segment; -EACCES it has another key;
 * -EPERM it is another user's; -EPROTO the reply is malformed; system errors. */
int passing_ask(uint32_t number, uint64_t cookie, uint64_t key_check,
                struct passing_request *request);

/* The reply is not needed any more. */
void passing_forget(struct passing_request *request);

#endif
