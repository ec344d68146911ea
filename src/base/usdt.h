/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usdt.h - places in the library that perf, bpftrace, SystemTap and gdb find by name: a `nop` each, and a note in the
 * file of where the values lie at that place.  Nobody who does not look pays more; without sys/sdt.h (-Dusdt=disabled) there is
 * nothing.  docs/hangs.md lists them.
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
