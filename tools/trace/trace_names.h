/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_names.h - what the numbers in one file of a trace name.
 *
 * A file numbers its receives, messages and sends, each kind for itself, and uses a number again when its owner is gone: the last
 * one that was put counts.
 */
#ifndef TOOLS_TRACE_NAMES_H
#define TOOLS_TRACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

enum name_kind { NAME_SEND = 1, NAME_RECEIVE, NAME_MESSAGE };

#define NAME_NONE UINT32_MAX

/* The value that names_put() has stored for this name, or NAME_NONE. */
uint32_t names_find(const struct hash *names, enum name_kind kind, uint64_t id);

/* False: no memory. */
bool names_put(struct hash *names, enum name_kind kind, uint64_t id, uint32_t what);

#endif
