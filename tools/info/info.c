/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info.c - `mbx info`: properties of this library, and its parameters.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <matchbox/device.h>
#include <matchbox/matchbox.h>

#include "base/base.h"
#include "info.h"
#include "tools/common/tool.h"

static const char usage[] =
    "usage: mbx info [OPTIONS]\n"
    "\n"
    "Examples:\n"
    "  mbx info              one screen: what this machine would use, and what is set\n"
    "  mbx info --network    the network between hosts, or why there is none\n"
    "  mbx info --params     parameters, their present values and meaning\n"
    "\n"
    "  --all          everything\n"
    "  --transports   the transports that carry messages\n"
    "  --network      the network to other hosts, or why there is none\n"
    "  --devices      the devices that can match in place of the host, or why they cannot\n"
    "  --protocols    the protocol for each message size\n"
    "  --window       memory limits of unexpected messages in this process\n"
    "  --stats        the statistics of an endpoint (MBX_STATS_FILE): name, unit, meaning\n"
    "  --params       the parameters: environment variable, value, meaning, default,\n"
    "                 range\n"
    "  --params=all   the same, with advanced parameters\n"
    "  --host         what this host allows: memory of other processes, namespaces,\n"
    "                 barriers, huge pages, limits, adapters\n"
    "  --json         one JSON object; without other options it contains everything.  For\n"
    "                 parameters it contains the advanced ones as well\n"
    "  -h, --help     this text\n"
    "\n"
    "A program that is started from here would have these values.\n";

static const struct option options[] = {
    {"all", no_argument, NULL, 'a'},       {"transports", no_argument, NULL, 't'},
    {"network", no_argument, NULL, 'n'},   {"devices", no_argument, NULL, 'd'},
    {"protocols", no_argument, NULL, 'r'}, {"params", optional_argument, NULL, 'p'},
    {"window", no_argument, NULL, 'w'},    {"stats", no_argument, NULL, 's'},
    {"host", no_argument, NULL, 'o'},      {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},      {NULL, 0, NULL, 0}};

static int print_transports(const struct tool *tool)
{
    const char *name, *about;

    (void)tool;
    printf("transports\n");
    for (unsigned i = 0; mbx_transport_get(i, &name, &about) == 0; i++)
        printf("  %-10s %s\n", name, about);
    return TOOL_DONE;
}

static int print_devices(const struct tool *tool)
{
    struct mbx_device_info info;

    (void)tool;
    printf("matching devices\n");
    for (unsigned i = 0; mbx_device_get(i, &info, sizeof info) == 0; i++)
        printf("  %s: %s\n", info.name, info.detail);
    return TOOL_DONE;
}

/* "64K", or the number of bytes if it is not a multiple. */
static const char *size_text(size_t size, char *text, size_t capacity)
{
    static const char units[] = " KMGT";
    unsigned unit = 0;

    if (size == SIZE_MAX)
        return "any";
    while (size != 0 && size % 1024 == 0 && unit < 4) {
        size /= 1024;
        unit++;
    }
    snprintf(text, capacity, unit > 0 ? "%zu%c" : "%zu", size, units[unit]);
    return text;
}

static void print_what(const char *what, const char *value, const char *about)
{
    printf("  %-10s %-14s %s\n", what, value, about);
}

static void print_found(const struct mbx_network *network)
{
    bool is_any = network->message >= (uint64_t)INT64_MAX;
    char version[32], size[32];

    snprintf(version, sizeof version, "%u.%u", network->version >> 16,
             network->version & UINT16_MAX);
    if (network->version != 0) {
        print_what("provider", network->provider, "of libfabric (MBX_OFI_PROVIDER)");
        print_what("interface", network->interface, "or domain (MBX_OFI_INTERFACE)");
        print_what("libfabric", version, "the version that is loaded");
    } else {
        print_what("provider", network->provider, "RDMA adapters, through libibverbs");
        print_what("adapter", network->interface, "and port (MBX_VERBS_DEVICE)");
    }
    print_what("message", size_text(is_any ? SIZE_MAX : network->message, size, sizeof size),
               "largest message of the provider, in bytes");
    print_what("memory", network->reads_memory ? "read" : "packets",
               network->reads_memory ? "the receiver reads long messages"
                                     : "long messages come in packets");
    print_what("words", network->exchanges_words ? "exchanged" : "no",
               network->exchanges_words
                   ? "MBX_MATCH_AT=sender can use remote atomics"
                   : "MBX_MATCH_AT=sender uses claims, not remote atomics");
    print_what("threading", network->threading, "thread level of the provider (FI_THREAD_...)");
}

/* Many machines have no network: that is not an error.  A wrong parameter is. */
static int print_network(const struct tool *tool)
{
    struct mbx_network network;
    int err = mbx_network_get(&network, sizeof network);

    if (err == -EINVAL) {
        tool_error(tool, "the network's parameters cannot be read: %s", mbx_strerror(err));
        return TOOL_FAILED;
    }
    printf("network\n");
    if (err == 0)
        print_found(&network);
    else
        printf("  none: %s (%s); the log says why\n",
               err == -ENODATA   ? "no suitable provider of libfabric, or adapter"
               : err == -ENOTSUP ? "no usable library"
                                 : "it cannot be opened",
               mbx_strerror(err));
    return TOOL_DONE;
}

static void print_rows(const struct mbx_ep *ep)
{
    struct mbx_protocol_row row;
    size_t from = 0;
    char text[32];

    printf("protocols (message size in bytes, both ends included)\n");
    for (unsigned i = 0; mbx_protocol_get(ep, MBX_ANY_SOURCE, i, &row, sizeof row) == 0; i++) {
        printf("  %-10s %zu to %s\n", mbx_protocol_name(row.protocol), from,
               size_text(row.max_size, text, sizeof text));
        from = row.max_size + 1;
    }
}

static void print_amount(const char *what, uint64_t amount, const char *about)
{
    char text[32] = "unlimited";

    if (amount != UINT64_MAX)
        size_text(amount, text, sizeof text);
    printf("  %-10s %-9s %s\n", what, text, about);
}

static void print_limits(const struct mbx_ep *ep)
{
    struct mbx_limits limits;

    mbx_limits_get(ep, &limits, sizeof limits);
    printf("unexpected messages\n");
    print_amount("memory", limits.unexpected, "bytes for messages of all peers, at most");
    print_amount("messages", limits.window,
                 "messages of one peer, at first; further ones wait at their sender");
    print_amount("payload", limits.window_payload,
                 "bytes of data of these, at first; further data waits at its sender");
    print_amount("extra", limits.extra, "bytes of credit for peers that need more");
}

static int print_of_endpoint(const struct tool *tool, void (*print)(const struct mbx_ep *ep))
{
    struct mbx_ep *ep;
    int err = mbx_open(NULL, &ep);

    if (err != 0) {
        tool_error(tool, "no endpoint can be opened: %s", mbx_strerror(err));
        return TOOL_FAILED;
    }
    print(ep);
    mbx_close(ep);
    return TOOL_DONE;
}

static int print_protocols(const struct tool *tool)
{
    return print_of_endpoint(tool, print_rows);
}

static int print_window(const struct tool *tool)
{
    return print_of_endpoint(tool, print_limits);
}

static void print_param(const struct mbx_param *param)
{
    size_t length = strlen(param->unit);
    bool has_unit = length != 0 && strncmp(param->range, param->unit, length) != 0;

    printf("  %s=%s\n", param->name, param->value);
    printf("      %s\n", param->help);
    printf("      default %s, range %s%s%s, from the %s\n",
           param->initial[0] != '\0' ? param->initial : "not set", param->range,
           has_unit ? ", unit " : "", has_unit ? param->unit : "",
           param->is_set ? "environment" : "default");
}

/* Removes all MBX_... variables from the environment. */
static void clear_params(void)
{
    for (char **variable = environ; *variable != NULL;) {
        char name[64];
        size_t length = strcspn(*variable, "=");

        if (strncmp(*variable, "MBX_", 4) != 0 || length >= sizeof name) {
            variable++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, *variable);
        unsetenv(name);
        variable = environ; /* unsetenv() has moved them */
    }
}

/* Prints parameters up to this level (mbx_param.level). */
static int print_params_to(const struct tool *tool, uint32_t level)
{
    struct mbx_param param;
    unsigned index = 0, hidden = 0;
    int err = mbx_param_get(0, &param, sizeof param);

    if (err != 0) {
        tool_error(tool, "the parameters cannot be read: %s", mbx_strerror(err));
        return TOOL_FAILED;
    }
    printf("parameters\n");
    for (; (err = mbx_param_get(index, &param, sizeof param)) == 0; index++)
        if (param.level <= level)
            print_param(&param);
        else
            hidden++;
    if (hidden > 0)
        printf("  %u more are advanced: mbx info --params=all\n", hidden);
    return TOOL_DONE;
}

/* Prints the parameters that the environment has set; fits on one screen. */
static int print_set_params(const struct tool *tool)
{
    struct mbx_param param;
    unsigned count = 0;

    (void)tool;
    printf("parameters that are set (mbx info --params lists all)\n");
    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        if (param.is_set) {
            printf("  %s=%s\n", param.name, param.value);
            count++;
        }
    if (count == 0)
        printf("  none\n");
    return TOOL_DONE;
}

static int print_params(const struct tool *tool)
{
    return print_params_to(tool, 0);
}

static int print_all_params(const struct tool *tool)
{
    return print_params_to(tool, UINT32_MAX);
}

static int print_stats(const struct tool *tool)
{
    struct mbx_stat stat;

    (void)tool;
    printf("statistics\n");
    for (unsigned index = 0; mbx_stat_get(index, &stat, sizeof stat) == 0; index++)
        printf("  %-25s %-5s %s\n", stat.name, stat.unit, stat.about);
    return TOOL_DONE;
}

static int print_host(const struct tool *tool)
{
    struct host_fact facts[HOST_FACTS_MAX];
    size_t count = host_facts(facts);

    (void)tool;
    printf("host\n");
    for (size_t i = 0; i < count; i++)
        printf("  %-20s %s\n      %s\n", facts[i].name, facts[i].value, facts[i].about);
    return TOOL_DONE;
}

/* The parts in the order of printing.  The screen without options has the parts with `screen`,
 * and --all and --json the parts with `all`. */
static const struct part {
    int option;
    enum info_part json;
    int (*print)(const struct tool *tool);
} parts[] = {{'t', INFO_TRANSPORTS, print_transports},
             {'n', INFO_NETWORK, print_network},
             {'d', INFO_DEVICES, print_devices},
             {'r', INFO_PROTOCOLS, print_protocols},
             {'w', INFO_WINDOW, print_window},
             {'s', INFO_STATS, print_stats},
             {'o', INFO_HOST, print_host},
             {'p', INFO_PARAMS, print_params},
             {'P', INFO_PARAMS, print_all_params},
             {'S', INFO_PARAMS, print_set_params}};

static const bool screen[ARRAY_COUNT(parts)] = {true,  true,  true,  true,  true,
                                                false, false, false, false, true};
static const bool all[ARRAY_COUNT(parts)] = {true, true, true,  true, true,
                                             true, true, false, true, false};

/* Users most need the list of parameters when one is set wrongly.  The log has reported it,
 * once and not for each part. */
static int leave_out_wrong_params(const struct tool *tool)
{
    struct mbx_param param;

    if (mbx_param_get(0, &param, sizeof param) != -EINVAL)
        return TOOL_DONE;
    tool_error(tool,
               "a variable MBX_... is wrong (see above); the values below use none of them");
    clear_params();
    return TOOL_FAILED;
}

static int print_parts(const struct tool *tool, const bool *wanted)
{
    int status = TOOL_DONE;

    for (size_t i = 0; i < ARRAY_COUNT(parts) && status == TOOL_DONE; i++)
        if (wanted[i] && parts[i].json == INFO_PARAMS)
            status = leave_out_wrong_params(tool);
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        if (wanted[i] && parts[i].print(tool) != TOOL_DONE)
            status = TOOL_FAILED;
    return status;
}

static int print_json(const struct tool *tool, const bool *wanted)
{
    bool of_json[INFO_PARTS] = {false};

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
        of_json[parts[i].json] |= wanted[i];
    return info_json(tool, of_json);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    bool wanted[ARRAY_COUNT(parts)] = {false}, any = false, json = false, everything = false;
    int option, status = 0;

    while ((option = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        if (option == 'p' && optarg != NULL) {
            if (strcmp(optarg, "all") != 0)
                return tool_usage_error(tool, "--params takes =all or nothing, not '%s'",
                                        optarg);
            option = 'P';
        }
        json |= option == 'j';
        everything |= option == 'a';
        for (size_t i = 0; i < ARRAY_COUNT(parts); i++)
            if (parts[i].option == option)
                wanted[i] = any = true;
    }
    if (option == -2)
        return status;
    if (optind < argc)
        return tool_usage_error(tool, "there is no argument '%s'", argv[optind]);
    if (json)
        return print_json(tool, any && !everything ? wanted : all);
    if (any && !everything)
        return print_parts(tool, wanted);
    printf("matchbox %s\n\n", mbx_version());
    return print_parts(tool, everything ? all : screen);
}

const struct tool tool_info = {
    .name = "info",
    .about = "version, transports, network, devices, protocols by size, parameters",
    .usage = usage,
    .options = options,
    .run = run,
};
