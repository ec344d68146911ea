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

/* When does a configuration run that the command line does not name? */
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

/* Does it run in this environment if it is not named? */
bool config_is_usual(const struct configuration *config);

/* The number of unmatched messages that one endpoint of this configuration may have at another;
 * more wait at their sender.  UINT64_MAX: more than any test sends. */
uint64_t config_window(const struct configuration *config);

/* Does it set a parameter whose name begins with this? */
bool config_has_param(const struct configuration *config, const char *name);

/* Is its transport inside one process, so that no other process can take part? */
bool config_is_loop(const struct configuration *config);

/* Do some operations of its transport fail, or complete late? */
bool config_has_faults(const struct configuration *config);

bool config_has_device(const struct configuration *config);

/* Is its device one in software (device.h)? */
bool config_has_soft_device(const struct configuration *config);

/* Does a device run in parallel with this process's threads?  Then its operations take time. */
bool config_is_elsewhere(const struct configuration *config);

/* Is it over verbs?  Then nothing reports that a peer closed before it was connected, if its
 * process lives. */
bool config_is_verbs(const struct configuration *config);

/* Is it over a network?  Then messages take time to arrive, and cannot be seen on their way. */
bool config_is_network(const struct configuration *config);

#endif
