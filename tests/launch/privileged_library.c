/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * privileged_library - what MBX_VERBS_LIBRARY names in privileged_test.py: it says that its code was run.
 */
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void run(void)
{
    fprintf(stderr, "code of the caller runs as user %u\n", (unsigned)geteuid());
}
