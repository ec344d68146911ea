/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * testing.c - testing.h says it all.
 */
#include "testing/testing.h"

#include "base/base.h"
#include "base/failpoint.h"
#include "testing/fault/failpoints.h"
#include "testing/fault/fault.h"
#include "testing/loop/loop.h"
#include "testing/sim/sim.h"

static const struct transport_ops *const transports[] = {&transport_loop, &transport_sim};

static const struct param params[] = {
    {"FAULT_PERCENT", PARAM_COUNT, "percent", "0", 0, 90, NULL,
     "how often the transport pretends to be full, late or unable", TESTING_AT(fault_percent)},
    {"FAULT_SEED", PARAM_COUNT, NULL, "1", 0, 0, NULL, "seed of these faults",
     TESTING_AT(fault_seed)},
    {"FAULT_DIE", PARAM_STRING, NULL, "", 0, 0, NULL,
     "where this process kills itself: at a trace event, sent-TYPE or got-TYPE of a packet, or "
     "within a read or write",
     TESTING_AT(fault_die)},
    {"FAULT_HOST", PARAM_COUNT, NULL, "0", 0, 0, NULL,
     "processes with different numbers take each other for those of another machine",
     offsetof(struct transport_settings, shm.host)},
};

static int open_transport(const struct transport_ops *ops,
                          const struct transport_config *config, struct transport **out)
{
    const struct testing_settings *settings = testing_settings_of(&config->settings);
    int err = failpoint_check(settings->fault_die);

    if (err != 0)
        return err;
    return settings->fault_percent != 0 || settings->fault_die[0] != '\0'
               ? transport_fault_open(ops, config, out)
               : ops->open(config, out);
}

static bool dies_somewhere(const void *settings)
{
    return testing_settings_of(settings)->fault_die[0] != '\0';
}

static void reached(const void *settings, const char *place)
{
    if (dies_somewhere(settings))
        failpoint_reach(testing_settings_of(settings)->fault_die, "", place);
}

__attribute__((constructor)) static void register_all(void)
{
    static const struct transport_extension extension = {
        .transports = transports,
        .count = ARRAY_COUNT(transports),
        .params = params,
        .param_count = ARRAY_COUNT(params),
        .open = open_transport,
    };
    static const struct failpoint_hook hook = {.is_wanted = dies_somewhere, .reached = reached};

    transport_extension = &extension;
    failpoint_hook = &hook;
}
