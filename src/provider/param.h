/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.h - Matchbox's parameters in the form of libfabric's parameters: param.c.
 */
#ifndef PROVIDER_PARAM_H
#define PROVIDER_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROV_PARAMS_MAX 128 /* per endpoint; three of them may be the provider's own */

/* For mbx_config.params: the values of FI_MATCHBOX_... variables. */
struct prov_params {
    const char *list[PROV_PARAMS_MAX + 1]; /* "NAME=VALUE", NULL after the last */
    size_t count;
    char *text; /* the text of the entries from FI_MATCHBOX_... variables; empty: none */
};

/* Defines the parameters in libfabric: fi_info -e lists them. */
void prov_params_define(void);
/* The value of FI_MATCHBOX_name, otherwise of MBX_name, otherwise NULL; an empty value counts
 * as none. */
const char *prov_param(const char *name);
/* Does the launcher, or the user, say that there are more ranks here than cores? */
bool prov_is_oversubscribed(void);
/* Does an adapter match (MBX_DEVICE=verbs)? */
bool prov_param_adapter_matches(void);
/* The limit in bytes of unexpected messages; 0 if it is not known. */
size_t prov_param_unexpected_memory(void);
/* Initialises an empty list. */
void prov_params_init(struct prov_params *params);
/* Adds one entry; text must live as long as params. */
void prov_params_add(struct prov_params *params, const char *text);
/* Adds the values of all FI_MATCHBOX_... variables, and warns where an MBX_ variable differs.
 * 0, -FI_ENOMEM. */
int prov_params_add_all(struct prov_params *params);
void prov_params_fini(struct prov_params *params);

#endif
