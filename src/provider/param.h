/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.h - Matchbox's parameters as libfabric's users know parameters: param.c.
 */
#ifndef PROVIDER_PARAM_H
#define PROVIDER_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROV_PARAMS_MAX 128 /* of an endpoint; three of them may be the provider's own */

/* For mbx_config.params: what FI_MATCHBOX_... variables say. */
struct prov_params {
    const char *list[PROV_PARAMS_MAX + 1]; /* "NAME=VALUE", and NULL behind the last */
    size_t count;
    char *text; /* of those that FI_MATCHBOX_... variables say; empty: none */
};

/* Makes the parameters known to libfabric: fi_info -e lists them. */
void prov_params_define(void);
/* The value of FI_MATCHBOX_name, else of MBX_name, else NULL; an empty one is none. */
const char *prov_param(const char *name);
/* Does the launcher, or the user, say that there are more ranks here than cores? */
bool prov_is_oversubscribed(void);
/* Does an adapter match (MBX_DEVICE=verbs)? */
bool prov_param_adapter_matches(void);
/* As many bytes as messages of peers may take before their receive is there; 0 if that is not known. */
size_t prov_param_unexpected_memory(void);
/* Begins a list without any. */
void prov_params_init(struct prov_params *params);
/* Adds one; text has to live as long as params. */
void prov_params_add(struct prov_params *params, const char *text);
/* Adds all that FI_MATCHBOX_... variables say, and warns where an MBX_ variable says otherwise.
 * 0, -FI_ENOMEM. */
int prov_params_add_all(struct prov_params *params);
void prov_params_fini(struct prov_params *params);

#endif
