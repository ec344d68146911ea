/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.c - detects the MPI that runs over this provider, if any, so that traces, statistics and
 * the log can use its terms.
 *
 * Every MPI has MPI_Get_library_version(), which may be called at any time.  If the symbols of the
 * process do not include it, envelopes stay numbers.
 */
#include "provider/report.h"

#include <dlfcn.h>
#include <string.h>

/* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is shorter. */
#define VERSION_MAX 8192

static const char way[] = "provider ";

/* An MPI matches by tagged messages.  It may open another endpoint, for one-sided accesses: Open MPI's btl/ofi
 * does, also while its messages travel over the component. */
static bool is_for_messages(const struct prov_ep *ep)
{
    return (ep->caps & FI_TAGGED) != 0;
}

void prov_report_mpi(struct prov_ep *ep)
{
    void *found = is_for_messages(ep) ? dlsym(RTLD_DEFAULT, "MPI_Get_library_version") : NULL;
    int (*ask)(char *, int *);
    char text[sizeof way + VERSION_MAX];
    int length = 0;

    if (found == NULL)
        return;
    memcpy(&ask, &found, sizeof ask);
    memcpy(text, way, sizeof way);
    if (ask(text + strlen(way), &length) != 0)
        return;
    text[sizeof text - 1] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)mbx_name_program(ep->mbx, text);
}
