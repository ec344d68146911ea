/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * privileged_library - the library that privileged_test.py names in MBX_VERBS_LIBRARY: it
 * reports that its code ran.
 */
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void run(void)
{
    fprintf(stderr, "code of the caller runs as user %u\n", (unsigned)geteuid());
}
