/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name.h - names of services, under which endpoints of this machine are found: name.c.
 */
#ifndef PROVIDER_NAME_H
#define PROVIDER_NAME_H

#include "provider/compat.h"

struct prov_ep;

/* An endpoint's part: the name as published, unless fd is -1. */
struct prov_ep_name {
    struct mbx_address address;
    int fd;
};

/* The name of a service on a node, which must be this machine; node may be NULL, or the text of an
 * address (text.h), which then is the result, and service is not looked at.
 * 0; -FI_ENODATA another machine, or an unknown one; -FI_EINVAL no service, or no address. */
int prov_name_make(const char *node, const char *service, uint64_t flags,
                   struct mbx_address *address);
/* The name of a service of this machine.  0; -FI_EINVAL no service. */
int prov_name_of_service(const char *service, struct mbx_address *address);
bool prov_is_name(const struct mbx_address *address);
/* Removes what processes that were killed have published. */
void prov_name_sweep(void);
/* ep has no name. */
void prov_name_init(struct prov_ep *ep);
/* ep can be found under this name until it closes.  -FI_EADDRINUSE: another one can. */
int prov_name_publish(struct prov_ep *ep, const struct mbx_address *address);
void prov_name_withdraw(struct prov_ep *ep);
/* The address of who has published it; -FI_EADDRNOTAVAIL: nobody. */
int prov_name_find(const struct mbx_address *address, struct mbx_address *real);

#endif
