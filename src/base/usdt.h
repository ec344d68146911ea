/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdt.h - probes in the library that perf, bpftrace, SystemTap and gdb find by name: a `nop`
 * each, and a note in the file that gives the place of the values.  An unused probe costs
 * nothing else; without sys/sdt.h (-Dusdt=disabled) there are no probes.  docs/hangs.md lists
 * them.
 */
#ifndef BASE_USDT_H
#define BASE_USDT_H

#if MBX_USDT

#include <sys/sdt.h>

#define USDT(name, a, b, c, d) DTRACE_PROBE4(matchbox, name, a, b, c, d)

#else

#define USDT(name, a, b, c, d) ((void)0)

#endif

#endif
