/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * configurations.h - the settings in which each behaviour is tested.  Test code.
 *
 * A program whose command line names no configuration runs in the usual ones.
 */
#ifndef TESTS_CONFIGURATIONS_H
#define TESTS_CONFIGURATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* When does a configuration run that nobody names? */
enum configuration_when {
    CONFIGURATION_USUAL,   /* without such a variable in the environment */
    CONFIGURATION_THREADS, /* as USUAL; and with MATCHBOX_TEST_THREADS, then no others */
    CONFIGURATION_RARE,    /* with MATCHBOX_TEST_RARE, then no others */
    CONFIGURATION_NETWORK, /* with MATCHBOX_TEST_NETWORK, then no others */
    CONFIGURATION_VERBS,   /* with MATCHBOX_TEST_VERBS, then no others */
    CONFIGURATION_ADAPTER, /* never: it needs a network adapter */
};

/* Glossary: configuration - the parameters with which a test opens its endpoints */
struct configuration {
    const char *name;
    enum configuration_when when;
    const char *params[9]; /* ends with NULL */
};

/* Ends with a NULL name. */
extern const struct configuration configurations[];

/* Does it run in this environment though nobody names it? */
bool config_is_usual(const struct configuration *config);

/* Unmatched messages that one endpoint of this configuration may have at another: beyond
 * that, they wait at their sender.  UINT64_MAX: more than any test sends. */
uint64_t config_window(const struct configuration *config);

/* Does it set a parameter whose name begins so? */
bool config_has_param(const struct configuration *config, const char *name);

/* Is its transport inside one process, so that no other process can take part? */
bool config_is_loop(const struct configuration *config);

/* Do some operations of its transport fail, or not come about at once? */
bool config_has_faults(const struct configuration *config);

bool config_has_device(const struct configuration *config);

/* Is it one in software (device.h)? */
bool config_has_soft_device(const struct configuration *config);

/* Does a device run beside this process's threads?  Then what it does takes time. */
bool config_is_elsewhere(const struct configuration *config);

/* Is it over verbs?  Then nobody tells that a peer of a process that lives closed before it was met. */
bool config_is_verbs(const struct configuration *config);

/* Is it over a network?  Then what was sent takes time to come, and nobody sees it on its way.
 */
bool config_is_network(const struct configuration *config);

#endif
