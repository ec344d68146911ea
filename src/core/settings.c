/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.c - every parameter of the library, in one table.
 *
 * A parameter is read once, when an endpoint or a job is opened.  Elsewhere the library looks
 * at the environment in three places only: for what launchers leave in it (src/boot), to name
 * libfabric's filter in an error (src/transport/ofi/provider.c), and for MBX_DEVICE_PROGRAM where
 * the devices are listed before an endpoint is opened (src/softdev/driver_process.c).
 */
#include "base/fill.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const threads_names[] = {"one", "many", NULL};
static const char *const device_names[] = {"none",         "soft",  "soft-thread",
                                           "soft-process", "verbs", NULL};
static const char *const match_names[] = {"split", "software", "device", NULL};
static const char *const rndv_names[] = {"auto", "data", NULL};

static const char *const any_source_names[] = {"window", "sender", NULL};
static const char *const early_names[] = {"auto", "always", "off", NULL};
static const char *const share_names[] = {"auto", "always", "off", NULL};
static const char *const oversubscribed_names[] = {"auto", "yes", "no", NULL};
static const char *const window_words[] = {"auto", "unlimited", NULL};
static const char *const auto_word[] = {"auto", NULL};

#define AT(field)      offsetof(struct settings, field)

#define TRANSPORT_NAME "TRANSPORT"

static const struct param own[] = {
    {"LOG_LEVEL", PARAM_CHOICE, NULL, "warn", 0, 0, log_level_names,
     "what is written to standard error", AT(log_level)},
    {TRANSPORT_NAME, PARAM_CHOICE, NULL, "auto", 0, 0, NULL,
     "what moves bytes: shm between processes of one machine, ofi over a network; auto: shm, "
     "and ofi besides if the job has ranks on several hosts",
     AT(transport)},
    {"THREADS", PARAM_CHOICE, NULL, "one", 0, 0, threads_names,
     "who may call functions of one endpoint: one thread at a time, or many at once",
     AT(threads)},
    {"EAGER_LIMIT", PARAM_SIZE, NULL, "auto", 0, WIRE_EAGER_MAX, auto_word,
     "messages up to this size are sent eagerly, longer ones by rendezvous; auto: 16K, and one "
     "packet to a peer of this machine whose core is so far away that copies are slow, or with "
     "MBX_OVERSUBSCRIBED=yes",
     AT(eager_limit)},
    {"INJECT_LIMIT", PARAM_SIZE, NULL, "8K", 0, WIRE_EAGER_MAX, NULL,
     "longest message that may be injected", AT(inject_limit)},
    {"EARLY_DATA", PARAM_SIZE, NULL, "auto", 0, WIRE_EAGER_MAX, auto_word,
     "most data that travels with the RTS of a rendezvous; auto: none where the receiver "
     "copies "
     "all of it from the sender's memory, else 1K",
     AT(early_data)},
    {"READ_CHUNK", PARAM_SIZE, NULL, "1M", 4096, UINT64_C(1) << 30, NULL,
     "most that one step of a rendezvous reads before others get their turn", AT(read_chunk)},
    {"RNDV", PARAM_CHOICE, NULL, "auto", 0, 0, rndv_names,
     "how long messages travel: read by the receiver where it can, or always sent as data",
     AT(rndv)},
    {"REQUESTS", PARAM_COUNT, "requests", "1048576", 1, UINT64_C(1) << 30, NULL,
     "most requests, and most kept messages, of an endpoint", AT(requests)},
    {"ANY_SOURCE", PARAM_CHOICE, NULL, "window", 0, 0, any_source_names,
     "where messages are matched: here up to the window, beyond it and with sender always "
     "there",
     AT(any_source)},
    {"EARLY_RECV", PARAM_CHOICE, NULL, "auto", 0, 0, early_names,
     "tell the sender of a receive that waits for it alone, so that it writes there by itself: "
     "where that is of use, always, or never",
     AT(early_recv)},
    {"EARLY_SIZE", PARAM_SIZE, NULL, "32K", 1, UINT64_C(1) << 46, NULL,
     "smaller receives are not told, and smaller messages not written", AT(early_size)},
    {"SHARE", PARAM_CHOICE, NULL, "auto", 0, 0, share_names,
     "who copies long messages within a machine: both sides, each a part, where that is of "
     "use; "
     "always; or the receiver alone",
     AT(share)},
    {"SHARE_SIZE", PARAM_SIZE, NULL, "48K", 2, UINT64_C(1) << 46, NULL,
     "what is shorter, or the end of a message, is copied by one side", AT(share_size)},
    {"OVERSUBSCRIBED", PARAM_CHOICE, NULL, "auto", 0, 0, oversubscribed_names,
     "whether there are more processes than cores, so that waits poll shortly, the receiver "
     "alone "
     "copies, and what does not go into one packet goes by rendezvous; auto: if more peers are "
     "named than there are cores, and without the last of these",
     AT(oversubscribed)},
    {"UNEXPECTED_MEMORY", PARAM_SIZE, NULL, "64M", 0, UINT64_C(1) << 48, NULL,
     "most memory that messages of peers may take before their receive is there",
     AT(unexpected_memory)},
    {"WINDOW", PARAM_COUNT, "messages", "auto", 0, 65534, window_words,
     "messages that one peer may have here unmatched; auto: from MBX_UNEXPECTED_MEMORY",
     AT(window)},
    {"WINDOW_PAYLOAD", PARAM_SIZE, NULL, "auto", 0, 4194176, window_words,
     "payload that comes with these; without it they come alone and the payload is fetched",
     AT(window_payload)},
    {"HOLD_TAKE", PARAM_BOOL, NULL, "yes", 0, 0, NULL,
     "messages that wait at their sender lie where a receiver on the same machine takes them "
     "by itself",
     AT(hold_take)},
    {"SPIN", PARAM_TIME, NULL, "1ms", 0, 10 * CLOCK_S, NULL,
     "how long a wait polls before it sleeps; at most 5us with more peers than cores (or "
     "MBX_OVERSUBSCRIBED=yes)",
     AT(spin_ns)},
    {"CLOSE_TIMEOUT", PARAM_TIME, NULL, "2s", 0, 3600 * CLOCK_S, NULL,
     "how long a close goes on with sends and answers that wait for room, or were injected "
     "and not received",
     AT(close_timeout_ns)},
    {"PEER_TIMEOUT", PARAM_TIME, NULL, "2s", 20 * CLOCK_MS, 3600 * CLOCK_S, NULL,
     "within this time it is noticed that a peer has died for whom something waits",
     AT(peer_timeout_ns)},
    {"SHM_PEERS", PARAM_COUNT, "peers", "1024", 1, 65536, NULL,
     "senders that one endpoint can hold a ring for", AT(shm_peers)},
    {"DEVICE", PARAM_CHOICE, NULL, "none", 0, 0, device_names,
     "what matches beside software: soft in the progress loop, on a thread, in a process",
     AT(device)},
    {"MATCH", PARAM_CHOICE, NULL, "split", 0, 0, match_names,
     "who matches, if there is a device: both, software alone, or the device wherever it can",
     AT(match)},
    {"DEVICE_LIST", PARAM_COUNT, "receives", "1024", 1, 65536, NULL,
     "receives that the device holds at a time; its command room follows from it",
     AT(device_list)},
    {"DEVICE_BUFFERS", PARAM_COUNT, "buffers", "128", 1, 16384, NULL,
     "buffers for messages that the device passes to software", AT(device_buffers)},
    {"DEVICE_THRESHOLD", PARAM_SIZE, NULL, "32K", 0, 0, NULL,
     "receives with smaller buffers stay in software if the matching is split",
     AT(device_threshold)},
    {"DEVICE_SPIN", PARAM_TIME, NULL, "20us", 0, 10 * CLOCK_S, NULL,
     "how long a device on a thread or in a process polls before it sleeps",
     AT(device_spin_ns)},
    {"DEVICE_ANSWER", PARAM_TIME, NULL, "10s", CLOCK_MS, 3600 * CLOCK_S, NULL,
     "how long a device on a thread or in a process may take to begin", AT(device_answer_ns)},
    {"DEVICE_PROGRAM", PARAM_STRING, NULL, "", 0, 0, NULL,
     "the program of soft-process, if it is not beside the library", AT(device_program)},
    {"STATS_FILE", PARAM_STRING, NULL, "", 0, 0, NULL,
     "append the statistics to this file at close; %r is the rank, %p the process",
     AT(stats_file)},
    {"KEY", PARAM_STRING, NULL, "", 0, 0, NULL,
     "the job's key, 32 hexadecimal digits: processes with another one are refused; mbx exec "
     "makes one",
     AT(key)},
    {"TRACE", PARAM_STRING, NULL, "", 0, 0, NULL,
     "record what is matched to new files in this folder; mbx trace reads them",
     AT(trace_folder)},
    {"BOOT", PARAM_FOREIGN, NULL, NULL, 0, 0, NULL,
     "who started the ranks: set by mbx run; pmix or single to insist on it", 0},
    {"BOOT_TIMEOUT", PARAM_TIME, NULL, "600s", 0, 1000000 * CLOCK_S, NULL,
     "how long a fence of the job waits for a rank of which the launcher tells nothing; 0 is "
     "forever",
     AT(boot_timeout_ns)},
};

#define ROWS_MAX       (ARRAY_COUNT(own) + 32)
#define TRANSPORTS_MAX 16

/* All rows: ours, and where MBX_TRANSPORT stands those of the transports behind it. */
struct table {
    struct param rows[ROWS_MAX];
    size_t count;
    const char *transports[TRANSPORTS_MAX]; /* what MBX_TRANSPORT may be */
};

static void add_transports(struct table *table)
{
    const struct transport_ops *ops;
    const struct param *row;

    table->rows[table->count - 1].choices = table->transports;
    table->transports[0] = "auto";
    for (unsigned i = 0; (ops = transport_at(i)) != NULL; i++) {
        assert(i + 2 < TRANSPORTS_MAX);
        table->transports[i + 1] = ops->name;
    }
    for (unsigned i = 0; (row = transport_param(i)) != NULL; i++) {
        assert(table->count < ROWS_MAX);
        table->rows[table->count] = *row;
        table->rows[table->count++].offset += AT(transports);
    }
}

static void table_make(struct table *table)
{
    *table = (struct table){.count = 0};
    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        table->rows[table->count++] = own[i];
        if (strcmp(own[i].name, TRANSPORT_NAME) == 0)
            add_transports(table);
    }
}

int settings_load(struct settings *settings, const char *const *overrides)
{
    struct table table;
    char error[512];
    int err;

    table_make(&table);
    err = param_load(table.rows, table.count, settings, overrides, error, sizeof error);
    if (err < 0)
        LOG_ERROR("%s", error);
    return err;
}

int settings_key(const struct settings *settings, uint8_t *key, size_t size)
{
    const char *text = settings->key;
    unsigned byte;

    memset(key, 0, size);
    if (text[0] == '\0')
        return 0;
    if (strlen(text) != 2 * size || strspn(text, "0123456789abcdefABCDEF") != 2 * size) {
        LOG_ERROR("MBX_KEY: %zu characters that are not %zu hexadecimal digits", strlen(text),
                  2 * size);
        return -EINVAL;
    }
    for (size_t i = 0; i < size; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
    return 0;
}

const char *settings_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    const char *boot = getenv("MBX_BOOT");
    const char *colon = boot != NULL ? strchr(boot, ':') : NULL;

    if (colon != NULL)
        return colon + 1;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (getenv(names[i]) != NULL)
            return getenv(names[i]);
    return NULL;
}

int mbx_param_get(unsigned index, struct mbx_param *out, size_t size)
{
    struct mbx_param param = {.name = ""};
    struct settings now, initial;
    struct table table;
    const struct param *p;
    char error[512];
    int err;

    table_make(&table);
    if (index >= table.count)
        return -ENOENT;
    p = &table.rows[index];
    err = settings_load(&now, NULL);
    if (err == 0)
        err =
            param_load_from(table.rows, table.count, &initial, NULL, NULL, error, sizeof error);
    if (err < 0)
        return err;
    snprintf(param.name, sizeof param.name, PARAM_PREFIX "%s", p->name);
    snprintf(param.help, sizeof param.help, "%s", p->help);
    if (p->unit != NULL)
        snprintf(param.unit, sizeof param.unit, "%s", p->unit);
    param_range_text(p, param.range, sizeof param.range);
    param_format(p, &now, param.value, sizeof param.value);
    param_format(p, &initial, param.initial, sizeof param.initial);
    return FILL(out, size, param, help);
}

#define TEXT(x)  #x
#define VALUE(x) TEXT(x)

const char *mbx_version(void)
{
    return VALUE(MBX_VERSION_MAJOR) "." VALUE(MBX_VERSION_MINOR) "." VALUE(MBX_VERSION_PATCH);
}

const char *mbx_strerror(int error)
{
    switch (error < 0 ? -error : error) {
    case EMSGSIZE:
        return "message truncated or too long";
    case ENOTCONN:
        return "the peer has closed its endpoint or has died";
    case EHOSTUNREACH:
        return "the peer cannot be reached";
    case ESTALE:
        return "no such request or message: it has been used up";
    case EALREADY:
        return "the receive has matched or is complete";
    case ECANCELED:
        return "cancelled";
    case EHOSTDOWN:
        return "a peer has died; the receive from any source still waits";
    case ECONNRESET:
        return "a rank of the job has ended without joining";
    default:
        return strerrordesc_np(error < 0 ? -error : error) != NULL
                   ? strerrordesc_np(error < 0 ? -error : error)
                   : "unknown error";
    }
}
