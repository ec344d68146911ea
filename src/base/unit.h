/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit.h - what a program of unit tests includes: cmocka, and the headers that cmocka.h needs before
 * it.
 */
#ifndef BASE_UNIT_H
#define BASE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* For the parameter of each test. */
#define UNUSED __attribute__((unused))

#endif
