/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * testing.c - see testing.h.
 */
#include "testing/testing.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "core/tuning.h"
#include "testing/count/count.h"
#include "testing/fault/failpoints.h"
#include "testing/fault/fault.h"
#include "testing/loop/loop.h"
#include "testing/sim/sim.h"
#include "wire/wire.h"

static const struct transport_ops *const transports[] = {&transport_loop, &transport_sim,
                                                         &transport_count};

/* ---- parameters ---- */

static const struct param params[] = {
    {"FAULT_PERCENT", PARAM_COUNT, PARAM_TEST, "percent", "0", 0, 90, NULL,
     "how often the transport pretends to be full, late or unable", TESTING_AT(fault_percent)},
    {"FAULT_SEED", PARAM_COUNT, PARAM_TEST, NULL, "1", 0, 0, NULL, "seed of these faults",
     TESTING_AT(fault_seed)},
    {"FAULT_DIE", PARAM_STRING, PARAM_TEST, NULL, "", 0, 0, NULL,
     "where this process kills itself: at a trace event, sent-TYPE or got-TYPE of a packet, or "
     "within a read or write",
     TESTING_AT(fault_die)},
    {"FAULT_HOST", PARAM_COUNT, PARAM_TEST, NULL, "0", 0, 0, NULL,
     "processes with different numbers take each other for processes of another machine",
     offsetof(struct transport_settings, shm.host)},
};

static const char *const when_names[] = {
    [TUNING_BY_RNDV] = "rndv", [TUNING_AUTO] = "auto",  [TUNING_ALWAYS] = "always",
    [TUNING_OFF] = "off",      [TUNING_OFF + 1] = NULL,
};
static const char *const auto_word[] = {"auto", NULL};

#define TUNING_AT(field) offsetof(struct tuning, field)

/* Parameters that users do not set (core/tuning.h), so that tests can. */
static const struct param tuning[] = {
    {"ADVERT", PARAM_CHOICE, PARAM_TEST, NULL, "rndv", 0, 0, when_names,
     "announce a receive that waits for one sender alone, so that this one writes there: as "
     "MBX_RNDV says, where that is of use, always, or never",
     TUNING_AT(advert)},
    {"ADVERT_SIZE", PARAM_SIZE, PARAM_TEST, NULL, "auto", 1, UINT64_C(1) << 46, auto_word,
     "smaller receives are not announced, and smaller messages not written",
     TUNING_AT(advert_size)},
    {"SPLIT_COPY", PARAM_CHOICE, PARAM_TEST, NULL, "rndv", 0, 0, when_names,
     "both sides copy a long message within a machine: as MBX_RNDV says, where that is of use, "
     "always, or never",
     TUNING_AT(split_copy)},
    {"SPLIT_COPY_SIZE", PARAM_SIZE, PARAM_TEST, NULL, "auto", 2, UINT64_C(1) << 46, auto_word,
     "what is shorter, or the end of a message, is copied by one side",
     TUNING_AT(split_copy_size)},
    {"READ_CHUNK", PARAM_SIZE, PARAM_TEST, NULL, "auto", 4096, UINT64_C(1) << 30, auto_word,
     "most that one step of a rendezvous reads before others get their turn",
     TUNING_AT(read_chunk)},
    {"RTS_PAYLOAD", PARAM_SIZE, PARAM_TEST, NULL, "auto", 0, WIRE_EAGER_MAX, auto_word,
     "most data that travels with the RTS of a rendezvous", TUNING_AT(rts_payload)},
    {"INJECT_LIMIT", PARAM_SIZE, PARAM_TEST, NULL, "auto", 0, WIRE_EAGER_MAX, auto_word,
     "longest message that may be injected", TUNING_AT(inject_limit)},
    {"BUFFERS_SIZE", PARAM_SIZE, PARAM_TEST, NULL, "auto", 1, UINT64_C(1) << 20, auto_word,
     "the longest message that is copied into bounce buffers, for a peer that allows all of "
     "them",
     TUNING_AT(buffers_size)},
    {"SENDTABLE", PARAM_BOOL, PARAM_TEST, NULL, "yes", 0, 0, NULL,
     "deferred sends lie in a table, out of which a receiver on the same machine pulls them "
     "by itself",
     TUNING_AT(sendtable)},
    {"CALM_LEAST", PARAM_COUNT, PARAM_TEST, "receives", "auto", 0, UINT64_C(1) << 46, auto_word,
     "receives that leave without a deferral before open receives are listed no longer",
     TUNING_AT(calm_least)},
    {"DEVICE_BUFFERS", PARAM_COUNT, PARAM_TEST, "buffers", "auto", 1, 16384, auto_word,
     "buffers for messages that the device passes to software", TUNING_AT(device_buffers)},
    {"DEVICE_SPIN", PARAM_TIME, PARAM_TEST, NULL, "auto", 0, 10 * CLOCK_S, auto_word,
     "how long a device on a thread or in a process polls before it sleeps",
     TUNING_AT(device_spin_ns)},
    {"DEVICE_ANSWER", PARAM_TIME, PARAM_TEST, NULL, "auto", CLOCK_MS, 3600 * CLOCK_S, auto_word,
     "how long a device on a thread or in a process may take to begin",
     TUNING_AT(device_answer_ns)},
    {"DEVICE_PROGRAM", PARAM_STRING, PARAM_TEST, NULL, "", 0, 0, NULL,
     "the program of soft-process, if it is not in the folder of the library",
     TUNING_AT(device_program)},
};

/* ---- transports ---- */

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

    static const struct tuning_extension more = {tuning, ARRAY_COUNT(tuning)};

    transport_extension = &extension;
    tuning_extension = &more;
    failpoint_hook = &hook;
}
