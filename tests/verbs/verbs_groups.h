/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_groups.h - the tests of a verbs device, by subject, a file for each.  verbs_test.c runs each group with an
 * adapter of its own.
 */
#ifndef VERBS_GROUPS_H
#define VERBS_GROUPS_H

#include "base/unit.h"

struct verbs_group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
};

extern const struct verbs_group verbs_bits, verbs_found, verbs_messages, verbs_receives;

/* Packets that no correct peer sends. */
extern const struct verbs_group verbs_broken;

/* With an adapter that matches only eager messages, and with one that matches none. */
extern const struct verbs_group verbs_without_rendezvous, verbs_without_tags;

#endif
