/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * info_json.c - `mbx info --json`: one object, a member for each part.
 */
#include <matchbox/device.h>
#include <matchbox/matchbox.h>

#include "base/base.h"
#include "info.h"
#include "tools/common/json.h"

static void json_transports(void)
{
    const char *name, *about;

    json_begin("transports", '[');
    for (unsigned i = 0; mbx_transport_get(i, &name, &about) == 0; i++) {
        json_begin(NULL, '{');
        json_text("name", name);
        json_text("about", about);
        json_end('}');
    }
    json_end(']');
}

/* A missing limit becomes null. */
static void json_limit(const char *name, uint64_t value)
{
    if (value == UINT64_MAX)
        json_null(name);
    else
        json_number(name, value);
}

static void json_network(void)
{
    struct mbx_network network;

    if (mbx_network_get(&network, sizeof network) != 0) {
        json_null("network");
        return;
    }
    json_begin("network", '{');
    json_text("provider", network.provider);
    json_text("interface", network.interface);
    json_number("libfabric_major", network.version >> 16);
    json_number("libfabric_minor", network.version & UINT16_MAX);
    json_limit("message_bytes",
               network.message >= (uint64_t)INT64_MAX ? UINT64_MAX : network.message);
    json_bool("reads_memory", network.reads_memory != 0);
    json_bool("exchanges_words", network.exchanges_words != 0);
    json_text("threading", network.threading);
    json_end('}');
}

static void json_devices(void)
{
    struct mbx_device_info info;

    json_begin("devices", '[');
    for (unsigned i = 0; mbx_device_get(i, &info, sizeof info) == 0; i++) {
        json_begin(NULL, '{');
        json_text("name", info.name);
        json_text("detail", info.detail);
        json_end('}');
    }
    json_end(']');
}

static void json_protocols(const struct mbx_ep *ep)
{
    struct mbx_protocol_row row;

    json_begin("protocols", '[');
    for (unsigned i = 0; mbx_protocol_get(ep, MBX_ANY_SOURCE, i, &row, sizeof row) == 0; i++) {
        json_begin(NULL, '{');
        json_text("name", mbx_protocol_name(row.protocol));
        if (row.max_size == SIZE_MAX)
            json_null("max_bytes");
        else
            json_number("max_bytes", row.max_size);
        json_end('}');
    }
    json_end(']');
}

static void json_window(const struct mbx_ep *ep)
{
    struct mbx_limits limits;

    mbx_limits_get(ep, &limits, sizeof limits);
    json_begin("window", '{');
    json_limit("unexpected_bytes", limits.unexpected);
    json_limit("messages", limits.window);
    json_limit("payload_bytes", limits.window_payload);
    json_limit("extra_bytes", limits.extra);
    json_end('}');
}

static void json_stats(void)
{
    struct mbx_stat stat;

    json_begin("statistics", '[');
    for (unsigned i = 0; mbx_stat_get(i, &stat, sizeof stat) == 0; i++) {
        json_begin(NULL, '{');
        json_text("name", stat.name);
        json_text("unit", stat.unit);
        json_text("about", stat.about);
        json_end('}');
    }
    json_end(']');
}

static void json_params(void)
{
    struct mbx_param param;

    json_begin("parameters", '[');
    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++) {
        json_begin(NULL, '{');
        json_text("name", param.name);
        json_text("value", param.value);
        json_text("default", param.initial);
        json_text("range", param.range);
        json_text("unit", param.unit);
        json_bool("is_set", param.is_set != 0);
        json_bool("is_advanced", param.level != 0);
        json_text("about", param.help);
        json_end('}');
    }
    json_end(']');
}

static void json_host(void)
{
    struct host_fact facts[HOST_FACTS_MAX];
    size_t count = host_facts(facts);

    json_begin("host", '[');
    for (size_t i = 0; i < count; i++) {
        json_begin(NULL, '{');
        json_text("name", facts[i].name);
        json_text("value", facts[i].value);
        json_text("about", facts[i].about);
        json_end('}');
    }
    json_end(']');
}

/* Everything that can fail comes before the first bracket. */
int info_json(const struct tool *tool, const bool wanted[INFO_PARTS])
{
    struct mbx_ep *ep = NULL;
    int err = 0;

    if (wanted[INFO_PROTOCOLS] || wanted[INFO_WINDOW])
        err = mbx_open(NULL, &ep);
    if (err == 0 && wanted[INFO_PARAMS]) {
        struct mbx_param param;

        err = mbx_param_get(0, &param, sizeof param);
    }
    if (err != 0) {
        tool_error(tool, "no endpoint can be opened: %s", mbx_strerror(err));
        if (ep != NULL)
            mbx_close(ep);
        return TOOL_FAILED;
    }
    json_begin(NULL, '{');
    json_text("version", mbx_version());
    if (wanted[INFO_TRANSPORTS])
        json_transports();
    if (wanted[INFO_NETWORK])
        json_network();
    if (wanted[INFO_DEVICES])
        json_devices();
    if (wanted[INFO_PROTOCOLS])
        json_protocols(ep);
    if (wanted[INFO_WINDOW])
        json_window(ep);
    if (wanted[INFO_STATS])
        json_stats();
    if (wanted[INFO_PARAMS])
        json_params();
    if (wanted[INFO_HOST])
        json_host();
    json_end('}');
    if (ep != NULL)
        mbx_close(ep);
    return TOOL_DONE;
}
