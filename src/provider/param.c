/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.c - Matchbox's parameters in the form of libfabric's parameters.
 *
 *   MBX_EAGER_LIMIT=8K           everywhere
 *   FI_MATCHBOX_EAGER_LIMIT=8K   for the endpoints of this provider
 *
 * libfabric makes the name of a parameter from its provider's name, lists it (fi_info -e,
 * fi_getparams()), reads it from its own sources, and shows at FI_LOG_LEVEL=info what it found.  So
 * each MBX_ parameter that has an effect here is defined as one of libfabric's, under the name
 * that libfabric gives it.  FI_MATCHBOX_ wins, because it is specific to this provider; where both
 * are set and differ, a line says so.  To libfabric, values are texts: the library alone knows
 * their units, and refuses wrong ones.
 *
 * Not defined are parameters that something else decides here: the threads that call an endpoint
 * (fi_domain_attr.threading), the launcher of the ranks, and the format of the tags.
 */
#include "base/environ.h"
#include "base/launcher.h"
#include "provider/library.h"
#include "provider/param.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX     "MBX_"
#define NAME_LIMIT 48

static const char *const left_out[] = {"THREADS", "BOOT", "BOOT_TIMEOUT", "LAUNCHER_HOST",
                                       "DEVICE_TAG_FORMAT"};

/* The defined names, in lower case as libfabric requires.  Written while libfabric loads us, by
 * one thread at a time. */
static char names[PROV_PARAMS_MAX][NAME_LIMIT];
static size_t name_count;
static char unexpected_initial[128]; /* the value of MBX_UNEXPECTED_MEMORY if nobody sets it */

static bool is_left_out(const char *name)
{
    for (size_t i = 0; i < count_of(left_out); i++)
        if (strcmp(name, left_out[i]) == 0)
            return true;
    return false;
}

static void cased(int to(int), const char *name, char out[NAME_LIMIT])
{
    size_t i;

    for (i = 0; name[i] != '\0' && i + 1 < NAME_LIMIT; i++)
        out[i] = (char)to((unsigned char)name[i]);
    out[i] = '\0';
}

static void define(const struct mbx_param *param)
{
    const char *name = param->name + strlen(PREFIX);

    if (strcmp(name, "UNEXPECTED_MEMORY") == 0)
        memcpy(unexpected_initial, param->initial, sizeof unexpected_initial);
    if (param->level > 1 || is_left_out(name) || name_count == PROV_PARAMS_MAX - 3)
        return;
    cased(tolower, name, names[name_count]);
    if (prov_library.param_define != NULL &&
        prov_library.param_define(&prov_provider, names[name_count], FI_PARAM_STRING,
                                  "%s (default: %s; %s). %s says the same outside libfabric.",
                                  param->help,
                                  param->initial[0] != '\0' ? param->initial : "none",
                                  param->range, param->name) == 0)
        name_count++;
}

/* With a malformed MBX_ variable nothing is defined: the library has reported the variable, and
 * refuses to open an endpoint. */
void prov_params_define(void)
{
    struct mbx_param param;

    name_count = 0;
    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        define(&param);
}

/* The value that libfabric has for the parameter, or NULL. */
static const char *from_libfabric(const char *small)
{
    char *value = NULL;

    if (environ_is_privileged() || prov_library.param_get == NULL ||
        prov_library.param_get(&prov_provider, small, &value) != 0 || value == NULL)
        return NULL;
    return value[0] != '\0' ? value : NULL;
}

static const char *from_environment(const char *name)
{
    char variable[sizeof PREFIX + NAME_LIMIT];
    const char *value;

    snprintf(variable, sizeof variable, PREFIX "%s", name);
    value = environ_get(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *prov_param(const char *name)
{
    char small[NAME_LIMIT];
    const char *value;

    cased(tolower, name, small);
    value = from_libfabric(small);
    return value != NULL ? value : from_environment(name);
}

bool prov_is_oversubscribed(void)
{
    return launcher_is_oversubscribed(prov_param("OVERSUBSCRIBED"));
}

bool prov_param_adapter_matches(void)
{
    const char *device = prov_param("DEVICE");

    return device != NULL && strcasecmp(device, "verbs") == 0;
}

/* Bytes, or a number with K, M, G or T; 0 if it is neither. */
static size_t size_of_text(const char *text)
{
    static const char suffixes[] = "KMGT";
    char *end;
    uint64_t number = strtoumax(text, &end, 10);
    const char *suffix;

    if (end == text || *end == '\0')
        return end == text ? 0 : number;
    suffix = strchr(suffixes, toupper((unsigned char)*end));
    if (suffix == NULL || number > UINT64_C(1) << 48)
        return 0;
    return number << (10 * (unsigned)(suffix - suffixes + 1));
}

size_t prov_param_unexpected_memory(void)
{
    const char *value = prov_param("UNEXPECTED_MEMORY");

    return size_of_text(value != NULL ? value : unexpected_initial);
}

/* ---- for an endpoint ---------------------------------------------------------------------- */

void prov_params_init(struct prov_params *params)
{
    *params = (struct prov_params){.count = 0};
}

void prov_params_add(struct prov_params *params, const char *text)
{
    if (params->count < PROV_PARAMS_MAX)
        params->list[params->count++] = text;
}

static void warn_if_both(const char *name, const char *value)
{
    const char *other = from_environment(name);

    if (other != NULL && strcmp(other, value) != 0)
        prov_log(FI_LOG_WARN, "FI_MATCHBOX_%s=%s is used, and not " PREFIX "%s=%s", name, value,
                 name, other);
}

int prov_params_add_all(struct prov_params *params)
{
    const char *values[PROV_PARAMS_MAX];
    char name[NAME_LIMIT];
    size_t size = 1;
    char *at;

    for (size_t i = 0; i < name_count; i++) {
        values[i] = from_libfabric(names[i]);
        if (values[i] != NULL)
            size += strlen(names[i]) + strlen(values[i]) + 2;
    }
    params->text = at = malloc(size);
    if (at == NULL)
        return -FI_ENOMEM;
    *at = '\0';
    for (size_t i = 0; i < name_count; i++) {
        if (values[i] == NULL)
            continue;
        cased(toupper, names[i], name);
        warn_if_both(name, values[i]);
        prov_params_add(params, at);
        at = stpcpy(stpcpy(stpcpy(at, name), "="), values[i]) + 1;
    }
    return 0;
}

void prov_params_fini(struct prov_params *params)
{
    free(params->text);
    params->text = NULL;
}
