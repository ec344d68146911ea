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
enum world_when {
    WORLD_USUAL,   /* without MATCHBOX_TEST_RARE and MATCHBOX_TEST_NETWORK in the environment */
    WORLD_RARE,    /* with MATCHBOX_TEST_RARE, then no others */
    WORLD_NETWORK, /* with MATCHBOX_TEST_NETWORK, then no others */
    WORLD_ADAPTER, /* never: it needs a network adapter */
};

struct world_config {
    const char *name;
    enum world_when when;
    const char *params[9]; /* ends with NULL */
};

/* Ends with a NULL name. */
extern const struct world_config world_configs[];

/* Does it run in this environment though nobody names it? */
bool world_is_usual(const struct world_config *config);

/* Unmatched messages that one endpoint of this configuration may have at another: beyond
 * that, they wait at their sender.  UINT64_MAX: more than any test sends. */
uint64_t world_window(const struct world_config *config);

/* Does it set a parameter whose name begins so? */
bool world_has_param(const struct world_config *config, const char *name);

/* Is its transport inside one process, so that no other process can take part? */
bool world_is_loop(const struct world_config *config);

/* Do some operations of its transport fail, or not come about at once? */
bool world_has_faults(const struct world_config *config);

bool world_has_device(const struct world_config *config);

/* Does a device run beside this process's threads?  Then what it does takes time. */
bool world_is_elsewhere(const struct world_config *config);

/* Is it over a network?  Then what was sent takes time to come, and nobody sees it on its way.
 */
bool world_is_network(const struct world_config *config);

#endif
