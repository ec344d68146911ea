/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.h - an example of a protocol, as a module: line.c.
 */
#ifndef TESTS_P2P_LINE_H
#define TESTS_P2P_LINE_H

#include "core/core.h"

extern const struct module line_module;

/* The number of sends that have waited in line so far, and of sends that have left it with
 * credit. */
extern uint64_t line_came, line_left;

#endif
