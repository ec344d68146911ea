/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * configurations.c - the matrix of settings in which a behaviour is tested. tests/README.md has
 * it as a table.
 */
#include "configurations.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Short names for the table below. */
#define USUAL   CONFIGURATION_USUAL
#define THREADS CONFIGURATION_THREADS
#define RARE    CONFIGURATION_RARE
#define NETWORK CONFIGURATION_NETWORK
#define ADAPTER CONFIGURATION_ADAPTER
#define VERBS   CONFIGURATION_VERBS

/* Everything that fits is handed to the device. */
#define DEVICE(kind, list)                                                                     \
    "DEVICE=" kind, "DEVICE_LIST=" list, "DEVICE_THRESHOLD=0", "DEVICE_SPIN=0",                \
        "DEVICE_ANSWER=900s"

/* The device also holds unexpected messages. */
#define HOLDS "DEVICE_HOLDS=yes"

/* Long messages are read by one side and written by the other, half each. */
#define SHARED "SPLIT_COPY=always", "SPLIT_COPY_SIZE=2"

/* One unmatched message of each peer, without payload. */
#define NARROW "WINDOW=1", "WINDOW_PAYLOAD=0"

/* Over the network of this machine. */
#define TCP(transport) "TRANSPORT=" transport, "OFI_PROVIDER=tcp;ofi_rxm"

const struct configuration configurations[] = {
    {"loop", THREADS, {"TRANSPORT=loop"}},
    {"loop-fault", USUAL, {"TRANSPORT=loop", SHARED, "FAULT_PERCENT=30", "FAULT_SEED=3"}},
    {"loop-depth-1", USUAL, {"TRANSPORT=loop", "LOOP_DEPTH=1", "READ_CHUNK=4K"}},
    {"loop-data", USUAL, {"TRANSPORT=loop", "RNDV=data", "RTS_PAYLOAD=0"}},
    {"loop-eager-0", USUAL, {"TRANSPORT=loop", "EAGER_LIMIT=0", "INJECT_LIMIT=100"}},
    {"loop-eager-1m",
     USUAL,
     {"TRANSPORT=loop", "EAGER_LIMIT=1M", "INJECT_LIMIT=1M", "FAULT_PERCENT=10",
      "WINDOW_PAYLOAD=unlimited", "WINDOW=unlimited"}},
    {"shm", THREADS, {"TRANSPORT=shm"}},
    {"shm-fault", USUAL, {"TRANSPORT=shm", SHARED, "FAULT_PERCENT=30", "FAULT_SEED=5"}},
    {"shm-no-attach", USUAL, {"TRANSPORT=shm", "SHM_ATTACH=no"}},
    {"shm-data-fault", USUAL, {"TRANSPORT=shm", "RNDV=data", "FAULT_PERCENT=10"}},
    {"shm-ring-4k", USUAL, {"TRANSPORT=shm", "SHM_RING_SIZE=4K", "READ_CHUNK=4K", SHARED}},
    {"shm-eager-64", USUAL, {"TRANSPORT=shm", "EAGER_LIMIT=64", "RTS_PAYLOAD=0"}},
    {"shm-eager-1m",
     USUAL,
     {"TRANSPORT=shm", "EAGER_LIMIT=1M", "SHM_RING_SIZE=8K", "WINDOW_PAYLOAD=unlimited",
      "WINDOW=unlimited"}},
    /* messages that wait at their sender: all of them, or all but one of each peer */
    {"loop-window-0", USUAL, {"TRANSPORT=loop", "WINDOW=0"}},
    {"loop-window-0-fault",
     USUAL,
     {"TRANSPORT=loop", "WINDOW=0", "FAULT_PERCENT=30", "FAULT_SEED=9"}},
    {"loop-window-1", USUAL, {"TRANSPORT=loop", NARROW, "LOOP_DEPTH=1"}},
    {"loop-soft-window-1", USUAL, {"TRANSPORT=loop", NARROW, DEVICE("soft", "2")}},
    {"shm-window-0", THREADS, {"TRANSPORT=shm", "WINDOW=0", "SHM_RING_SIZE=4K"}},
    {"shm-window-1-fault", USUAL, {"TRANSPORT=shm", NARROW, "FAULT_PERCENT=30"}},
    {"shm-sender", THREADS, {"TRANSPORT=shm", "MATCH_AT=sender"}},
    /* receives that are advertised to their sender before it sends: nearly all that name one
     * source */
    {"loop-early-fault",
     USUAL,
     {"TRANSPORT=loop", "ADVERT=always", "ADVERT_SIZE=1", "READ_CHUNK=4K", "FAULT_PERCENT=20",
      "FAULT_SEED=11"}},
    {"shm-early", THREADS, {"TRANSPORT=shm", "ADVERT=always", "ADVERT_SIZE=1"}},
    /* with a device: every driver, every length of its list */
    {"loop-soft", USUAL, {"TRANSPORT=loop", DEVICE("soft", "1024")}},
    {"loop-soft-1", USUAL, {"TRANSPORT=loop", DEVICE("soft", "1"), "LOOP_DEPTH=1"}},
    {"loop-soft-2-fault",
     USUAL,
     {"TRANSPORT=loop", DEVICE("soft", "2"), "FAULT_PERCENT=30", "FAULT_SEED=7"}},
    {"loop-soft-data", USUAL, {"TRANSPORT=loop", DEVICE("soft", "16"), HOLDS, "RNDV=data"}},
    {"shm-soft-16", USUAL, {"TRANSPORT=shm", DEVICE("soft", "16")}},
    {"shm-thread", THREADS, {"TRANSPORT=shm", DEVICE("soft-thread", "1024")}},
    {"shm-thread-2",
     THREADS,
     {"TRANSPORT=shm", DEVICE("soft-thread", "2"), HOLDS, "READ_CHUNK=4K"}},
    {"shm-process", USUAL, {"TRANSPORT=shm", DEVICE("soft-process", "1024")}},
    {"shm-process-1",
     USUAL,
     {"TRANSPORT=shm", DEVICE("soft-process", "1"), HOLDS, "SHM_RING_SIZE=4K"}},
    /* over a network */
    {"ofi", NETWORK, {TCP("ofi")}},
    {"ofi-fault", NETWORK, {TCP("ofi"), "FAULT_PERCENT=20", "FAULT_SEED=13"}},
    {"ofi-window-0", NETWORK, {TCP("ofi"), "WINDOW=0"}},
    {"ofi-window-1", NETWORK, {TCP("ofi"), NARROW}},
    {"ofi-sender", NETWORK, {TCP("ofi"), "MATCH_AT=sender"}},
    {"ofi-data", NETWORK, {TCP("ofi"), "RNDV=data"}},
    {"ofi-net", NETWORK, {"TRANSPORT=ofi", "OFI_PROVIDER=net"}},
    /* scripts/hosts/vm makes the adapter */
    {"ofi-verbs", ADAPTER, {"TRANSPORT=ofi", "OFI_PROVIDER=verbs;ofi_rxm"}},
    /* over verbs: the software adapter, where MBX_VERBS_LIBRARY names it */
    {"verbs", VERBS, {"TRANSPORT=verbs"}},
    {"verbs-fault", VERBS, {"TRANSPORT=verbs", "FAULT_PERCENT=20", "FAULT_SEED=15"}},
    {"verbs-few", VERBS, {"TRANSPORT=verbs", "VERBS_WINDOW=1"}},
    {"verbs-window-0", VERBS, {"TRANSPORT=verbs", "WINDOW=0"}},
    {"verbs-window-1", VERBS, {"TRANSPORT=verbs", NARROW}},
    {"verbs-sender", VERBS, {"TRANSPORT=verbs", "MATCH_AT=sender"}},
    {"verbs-data", VERBS, {"TRANSPORT=verbs", "RNDV=data"}},
    /* with adapters that match tags */
    {"verbs-tm", VERBS, {"TRANSPORT=verbs", DEVICE("verbs", "1024")}},
    {"verbs-tm-1", VERBS, {"TRANSPORT=verbs", DEVICE("verbs", "1"), "VERBS_WINDOW=1"}},
    {"verbs-tm-tags", VERBS, {"TRANSPORT=verbs", DEVICE("verbs", "16"), "DEVICE_TAG_FORMAT=1"}},
    {"verbs-tm-window-1", VERBS, {"TRANSPORT=verbs", NARROW, DEVICE("verbs", "2")}},
    {"both-verbs", VERBS, {"TRANSPORT=shm+verbs"}},
    {"both-verbs-tm", VERBS, {"TRANSPORT=shm+verbs", DEVICE("verbs", "1024")}},
    {"both-verbs-tm-1", VERBS, {"TRANSPORT=shm+verbs", NARROW, DEVICE("verbs", "1")}},
    /* shared memory and a network: endpoints 0 and 2 on one host, 1 and 3 on another */
    {"both", NETWORK, {TCP("shm+ofi")}},
    {"both-window-1", NETWORK, {TCP("shm+ofi"), NARROW}},
    /* segments as descriptors, as in containers */
    {"shm-passed", RARE, {"TRANSPORT=shm", "SHM_PASS=always"}},
    /* the drivers with the lengths that the usual ones leave out */
    {"shm-thread-1", RARE, {"TRANSPORT=shm", DEVICE("soft-thread", "1")}},
    {"shm-thread-16", RARE, {"TRANSPORT=shm", DEVICE("soft-thread", "16")}},
    {"shm-process-2", RARE, {"TRANSPORT=shm", DEVICE("soft-process", "2")}},
    {"shm-process-16", RARE, {"TRANSPORT=shm", DEVICE("soft-process", "16")}},
    {NULL, USUAL, {NULL}},
};

bool config_has_param(const struct configuration *config, const char *name)
{
    for (int i = 0; config->params[i] != NULL; i++)
        if (strncmp(config->params[i], name, strlen(name)) == 0)
            return true;
    return false;
}

uint64_t config_window(const struct configuration *config)
{
    if (config_has_param(config, "WINDOW=0") || config_has_param(config, "MATCH_AT=sender"))
        return 0;
    return config_has_param(config, "WINDOW=1") ? 1 : UINT64_MAX;
}

bool config_is_loop(const struct configuration *config)
{
    return config_has_param(config, "TRANSPORT=loop");
}

bool config_has_faults(const struct configuration *config)
{
    return config_has_param(config, "FAULT_PERCENT=");
}

bool config_has_device(const struct configuration *config)
{
    return config_has_param(config, "DEVICE=");
}

bool config_has_soft_device(const struct configuration *config)
{
    return config_has_param(config, "DEVICE=soft");
}

bool config_is_elsewhere(const struct configuration *config)
{
    return config_has_param(config, "DEVICE=soft-") || config_has_param(config, "DEVICE=verbs");
}

bool config_is_verbs(const struct configuration *config)
{
    return strstr(config->params[0], "verbs") != NULL;
}

bool config_is_network(const struct configuration *config)
{
    return strstr(config->params[0], "ofi") != NULL || config_is_verbs(config);
}

bool config_is_usual(const struct configuration *config)
{
    if (getenv("MATCHBOX_TEST_VERBS") != NULL)
        return config->when == CONFIGURATION_VERBS;
    if (getenv("MATCHBOX_TEST_NETWORK") != NULL)
        return config->when == CONFIGURATION_NETWORK;
    if (getenv("MATCHBOX_TEST_RARE") != NULL)
        return config->when == CONFIGURATION_RARE;
    return config->when == CONFIGURATION_THREADS ||
           (config->when == CONFIGURATION_USUAL && getenv("MATCHBOX_TEST_THREADS") == NULL);
}
