/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * denied.h - why the kernel does not let this process look into another one.
 *
 * For log lines: what can be found out afterwards, and what the user can do about it.
 */
#ifndef SHM_DENIED_H
#define SHM_DENIED_H

#include <stdint.h>

#define DENIED_SIZE 256

/* Of the process's descriptors: continues "pid 4711 ". */
void denied_descriptor(uint32_t pid, char text[DENIED_SIZE]);

/* Of a descriptor that it does not pass (passing.h): continues "pid 4711 ". */
void denied_passing(char text[DENIED_SIZE]);

/* Of its memory (process_vm_readv, process_vm_writev), by this errno: who may have forbidden it. */
void denied_memory(int error, char text[DENIED_SIZE]);

#endif
