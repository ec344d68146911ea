/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h - the two ways in which boot_open() opens: under `mbx run`, and alone.
 */
#ifndef BOOT_RUN_H
#define BOOT_RUN_H

#include "boot/boot.h"

/* text is the value of MBX_BOOT.  Errors as boot_open(). */
int run_open(const char *text, struct boot **out);

/* A job of one rank.  0; -ENOMEM; the error of getrandom. */
int single_open(struct boot **out);

#endif
