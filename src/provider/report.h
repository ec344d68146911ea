/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - detects the MPI that runs over this provider: report.c.
 */
#ifndef PROVIDER_REPORT_H
#define PROVIDER_REPORT_H

#include "provider/compat.h"
#include "provider/ep.h"

/* Reports the MPI to the library at the client's first communication: a client that opens an
 * endpoint and then chooses another provider does not run over this one. */
void prov_report_mpi(struct prov_ep *ep);

#endif
