/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_broken.h - tests of a verbs device whose peers break the rules: verbs_broken.c.
 */
#ifndef VERBS_BROKEN_H
#define VERBS_BROKEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

extern const struct CMUnitTest verbs_broken_tests[];
extern const size_t verbs_broken_count;

#endif
