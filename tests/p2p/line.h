/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.h - a protocol that does nothing new, as a module: line.c.
 */
#ifndef TESTS_P2P_LINE_H
#define TESTS_P2P_LINE_H

#include "core/core.h"

extern const struct module line_module;

/* Sends that have stood in line so far, and those that have left it with credit. */
extern uint64_t line_came, line_left;

#endif
