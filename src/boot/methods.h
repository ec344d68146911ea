/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * methods.h - the ways in which boot_open() opens: under `mbx run`, by PMIx, over a socket, and
 * alone.
 */
#ifndef BOOT_METHODS_H
#define BOOT_METHODS_H

#include "boot/boot.h"

/* text is the value of MBX_BOOT, "FD:RANK".  Errors as boot_open(). */
int run_open(const char *text, struct boot **out);

/* Connects to the PMIx server that the environment names.  Errors as boot_open(). */
int pmix_open(uint64_t timeout_ns, struct boot **out);

/* boot_is_spread() of the job that is open in this process; -ENOENT: there is none. */
int pmix_is_spread(bool *is_spread);

/* Does text, the value of MBX_BOOT or NULL, describe a job of two ranks over a socket? */
bool socket_is_meant(const char *text);

/* Opens such a job: sends this host and a key to the other rank, and waits for its frame.
 * Errors as boot_open(). */
int socket_open(const char *text, uint64_t timeout_ns, struct boot **out);

/* boot_is_spread() of that job; -ENOENT: none is open in this process. */
int socket_is_spread(bool *is_spread);

/* Are there other ranks, according to the environment, for which boot_is_spread() has no
 * answer? */
bool boot_has_others(void);

/* A job of one rank.  0; -ENOMEM; the error of getrandom. */
int single_open(struct boot **out);

#endif
