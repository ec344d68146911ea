/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compiler.h - hints to the compiler about functions and conditions.  This header includes
 * nothing, so that the provider, which shares nothing else with the library's folders, can use
 * it too.
 */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* For a function that the fast path seldom calls: it is not inlined, so that its callers do not
 * save the registers that only it needs. */
#define OUT_OF_LINE __attribute__((noinline))

/* For a function into which all its calls are inlined, except those marked OUT_OF_LINE. */
#define FLATTEN __attribute__((flatten))

/* For a function that must be inlined into each caller, so that constant arguments are
 * known. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

#endif
