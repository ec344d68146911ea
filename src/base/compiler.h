/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compiler.h - what a function or a condition tells the compiler.  This header includes nothing,
 * so that the provider, which shares nothing else with the library's folders, uses it too.
 */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Before a function that the short path calls seldom: it stays a call, so that the
 * registers that only it needs are not saved by those who seldom call it. */
#define OUT_OF_LINE __attribute__((noinline))

/* Before a function into which all that it calls is compiled, but for what is OUT_OF_LINE. */
#define FLATTEN __attribute__((flatten))

/* Before a function that exists to be compiled into each of its callers, with what they know
 * of its arguments. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

#endif
