/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * death.h - points at which a test has this process die.
 *
 * Code comes by points with names, "got-fin" or "match".  Only who was told to asks here, so
 * that a point costs nothing otherwise.
 */
#ifndef BASE_DEATH_H
#define BASE_DEATH_H

/* A name that no point has: all are come by, and nobody dies. */
#define DEATH_NOWHERE "nowhere"

/* This is the point of that name, prefix before name.  Does not return if it is the wanted one.
 */
void death_come_by(const char *wanted, const char *prefix, const char *name);

/* Called with the name of each point that is come by, before anything else.  NULL: nobody is.
 */
typedef void death_witness_fn(void *arg, const char *point);
void death_set_witness(death_witness_fn *witness, void *arg);

/* At once, and without any clean-up: kill -9. */
_Noreturn void death_now(void);

#endif
