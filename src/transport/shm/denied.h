/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * denied.h - explains why the kernel does not let this process access another one.
 *
 * For log lines: the remedy, and the cause if it can be found afterwards.
 */
#ifndef SHM_DENIED_H
#define SHM_DENIED_H

#include <stdint.h>

#define DENIED_SIZE 256

/* For the process's descriptors: continues "pid 4711 ". */
void denied_descriptor(uint32_t pid, char text[DENIED_SIZE]);

/* For a descriptor that the process does not pass (passing.h): continues "pid 4711 ". */
void denied_passing(char text[DENIED_SIZE]);

/* For the process's memory (process_vm_readv, process_vm_writev): what may have caused this
 * errno. */
void denied_memory(int error, char text[DENIED_SIZE]);

#endif
