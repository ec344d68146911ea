/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - detects the MPI that is the client, if any, so that traces, statistics and the log
 * can use its terms.
 *
 * Every MPI has MPI_Get_library_version(), which may be called at any time.  If the symbols of the
 * process do not include it, envelopes stay numbers.
 */
#include "door/program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <matchbox/matchbox.h>

/* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is shorter. */
#define VERSION_MAX 8192
#define DOOR_MAX    16 /* with its space */

bool door_name_program(struct mbx_ep *ep, const char *door)
{
    void *found = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    int (*ask)(char *, int *);
    char text[DOOR_MAX + VERSION_MAX];
    int begin = snprintf(text, DOOR_MAX, "%s ", door), length = 0;

    if (found == NULL)
        return false;
    memcpy(&ask, &found, sizeof ask);
    if (ask(text + begin, &length) != 0)
        return true;
    text[sizeof text - 1] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)mbx_name_program(ep, text);
    return true;
}
