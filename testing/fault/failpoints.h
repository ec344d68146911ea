/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoints.h - places at which a test has this process die, kill -9.
 *
 * Those of the library (base/failpoint.h) are the events of its trace; those of the transport are
 * here.  Only an endpoint that was told to asks, so that a place costs nothing otherwise.
 */
#ifndef TESTING_FAULT_FAILPOINTS_H
#define TESTING_FAULT_FAILPOINTS_H

/* Places of the transport (fault.c): behind a packet of a type, before one is delivered, when half
 * of what is to be read or written has been. */
#define FAILPOINT_SENT    "sent-"
#define FAILPOINT_GOT     "got-"
#define FAILPOINT_READING "reading"
#define FAILPOINT_WRITING "writing"

/* A name that no place has: all are reached, and nobody dies. */
#define FAILPOINT_NOWHERE "nowhere"

/* Is there a place of this name, or is it "" or NOWHERE?  0; -EINVAL, logged. */
int failpoint_check(const char *place);

/* The place of that name, prefix before name, is reached.  Does not return if it is the wanted
 * one. */
void failpoint_reach(const char *wanted, const char *prefix, const char *name);

/* Called with the name of each place that is reached, before anything else.  NULL: nobody is. */
typedef void failpoint_witness_fn(void *arg, const char *place);
void failpoint_set_witness(failpoint_witness_fn *witness, void *arg);

/* At once, and without any clean-up: kill -9. */
_Noreturn void failpoint_die(void);

#endif
