/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoints.h - places at which a test has this process die, kill -9.
 *
 * The places of the library (base/failpoint.h) are the events of its trace; the places of the
 * transport are listed here.  They are checked only in an endpoint with MBX_FAULT_DIE, so a place
 * costs nothing otherwise.
 */
#ifndef TESTING_FAULT_FAILPOINTS_H
#define TESTING_FAULT_FAILPOINTS_H

/* Places of the transport (fault.c): after a packet of a type, before one is delivered, in the
 * middle of a read or a write. */
#define FAILPOINT_SENT    "sent-"
#define FAILPOINT_GOT     "got-"
#define FAILPOINT_READING "reading"
#define FAILPOINT_WRITING "writing"

/* A name that no place has: all places are reached, and nobody dies. */
#define FAILPOINT_NOWHERE "nowhere"

/* Is place the name of a place, "" or NOWHERE?  0; -EINVAL, logged. */
int failpoint_check(const char *place);

/* Called at each place; its name is prefix followed by name.  Does not return if it is the
 * wanted one. */
void failpoint_reach(const char *wanted, const char *prefix, const char *name);

/* Called first at each place, with its name.  NULL: no callback. */
typedef void failpoint_witness_fn(void *arg, const char *place);
void failpoint_set_witness(failpoint_witness_fn *witness, void *arg);

/* Ends the process at once, without any clean-up: kill -9. */
_Noreturn void failpoint_die(void);

#endif
