/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report.h - which MPI runs over this provider: report.c.
 */
#ifndef PROVIDER_REPORT_H
#define PROVIDER_REPORT_H

#include "provider/compat.h"
#include "provider/ep.h"

/* The library hears it when the client first has to do with somebody: who opens an endpoint and
 * then takes another provider does not run over this one. */
void prov_report_mpi(struct prov_ep *ep);

#endif
