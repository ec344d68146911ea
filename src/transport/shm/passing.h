/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passing.h - segments for processes that cannot open them through /proc.
 *
 * Processes of different pid or user namespaces (containers), or one that is not dumpable, may not open
 * each other's descriptors below /proc/PID/fd.  They share a segment all the same if its owner passes
 * the descriptor (SCM_RIGHTS).  Each such process has a socket with an abstract name, which all
 * processes of its network namespace find, and which ends with the process: nothing can be left
 * behind.  A thread of the process answers there, so that an owner that computes is asked as well as
 * one that makes progress.
 *
 *   who wants the segment             owner's thread
 *   request: cookie, key check ---->  is it ours, and is the key check right?
 *   reply: descriptor          <----
 *   validate descriptor and head (segment_open.c), map
 *
 * A pid means nothing in another pid namespace.  The number in the socket's name takes its place:
 * it has PASSING_BIT, which no pid has, and the kernel gives a name to one socket at a time.  Whether
 * the process lives is seen by whether its name leads to a socket.
 *
 * Any user of the machine can send to such a socket.  The kernel drops what does not know a part of the cookies of the process,
 * which its own users have told nobody but their peers (passing.c).
 *
 * A process has one number, whatever the number of its endpoints.  A child made by fork() has none
 * until it opens an endpoint of its own.
 */
#ifndef SHM_PASSING_H
#define SHM_PASSING_H

#include <stdbool.h>
#include <stdint.h>

#define PASSING_BIT UINT32_C(0x80000000)

/* A request that may wait for its reply.  Zero: there is none. */
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

/* Makes this process answer, if it does not, and counts who needs it.  0 and its number; system
 * errors. */
int passing_start(uint32_t *number);

/* For the next segment of a process that answers: it answers to requests for such cookies alone. */
uint64_t passing_cookie(void);

/* Undoes one passing_start(). */
void passing_stop(void);

/* Is this the number of this process? */
bool passing_is_own(uint32_t number);

/* Is there a process with this number?  Also true where the system does not tell. */
bool passing_is_alive(uint32_t number);

/* The descriptor of the segment with this cookie of another process, for the caller to validate and
 * to close; waits for it a moment.  -EAGAIN the reply has not come: the same call again later, with
 * the same *request; -ENOENT there is no such process or segment; -EACCES it has another key;
 * -EPERM it is another user's; -EPROTO the reply is none; system errors. */
int passing_ask(uint32_t number, uint64_t cookie, uint64_t key_check,
                struct passing_request *request);

/* Nobody waits for the reply any more. */
void passing_forget(struct passing_request *request);

#endif
