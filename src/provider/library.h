/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library.h - the libfabric that loaded us; we do not link to it: loader.c.
 */
#ifndef PROVIDER_LIBRARY_H
#define PROVIDER_LIBRARY_H

#include "provider/compat.h"

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/* The first three are always set; the others may be NULL. */
struct prov_library {
    uint32_t (*version)(void);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    char *(*tostr)(const void *data, enum fi_type type);
    int (*log_enabled)(const struct fi_provider *provider, enum fi_log_level level,
                       enum fi_log_subsys subsystem);
    void (*log)(const struct fi_provider *provider, enum fi_log_level level,
                enum fi_log_subsys subsystem, const char *function, int line,
                const char *format, ...);
    int (*param_define)(const struct fi_provider *provider, const char *name,
                        enum fi_param_type type, const char *help_format, ...);
    int (*param_get)(struct fi_provider *provider, const char *name, void *value);
};
extern struct prov_library prov_library;

/* Our description for that libfabric. */
extern struct fi_provider prov_provider;

/* Writes one line, without its newline, to libfabric's log, if FI_LOG_LEVEL and FI_LOG_PROV
 * allow. */
void prov_log(enum fi_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Would a line of this level be written? */
bool prov_logs(enum fi_log_level level);
/* Names of flags or of a value, valid until the next call; a number where libfabric has none. */
const char *prov_names(const void *data, enum fi_type type, uint64_t number);

#endif
