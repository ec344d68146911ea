/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name.h - names of services, by which endpoints of this machine are found: name.c.
 */
#ifndef PROVIDER_NAME_H
#define PROVIDER_NAME_H

#include "provider/compat.h"

struct prov_ep;

/* The part of an endpoint: its published name, unless fd is -1. */
struct prov_ep_name {
    struct mbx_address address;
    int fd;
};

/* Makes the name of a service on a node, which must be this machine. node may be NULL, or the
 * text of an address (text.h), which then is the result, and service is ignored. 0;
 * -FI_ENODATA: another machine, or an unknown one; -FI_EINVAL: no service, or no address. */
int prov_name_make(const char *node, const char *service, uint64_t flags,
                   struct mbx_address *address);
/* Makes the name of a service of this machine. 0; -FI_EINVAL: no service. */
int prov_name_of_service(const char *service, struct mbx_address *address);
bool prov_is_name(const struct mbx_address *address);
/* Removes the names of processes that were killed. */
void prov_name_sweep(void);
/* ep starts without a name. */
void prov_name_init(struct prov_ep *ep);
/* Publishes ep under this name until it closes. -FI_EADDRINUSE: another endpoint has the
 * name. */
int prov_name_publish(struct prov_ep *ep, const struct mbx_address *address);
void prov_name_withdraw(struct prov_ep *ep);
/* The address of the endpoint that published it; -FI_EADDRNOTAVAIL: none. */
int prov_name_find(const struct mbx_address *address, struct mbx_address *real);

#endif
