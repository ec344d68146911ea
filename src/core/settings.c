/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.c - every parameter of the library, in one table.
 *
 * A parameter is read once, when an endpoint or a job is opened.  Elsewhere the library reads
 * the environment in two places only: for the variables of launchers (src/boot), and to name
 * libfabric's filter in an error (src/transport/ofi/provider.c).
 */
#include "base/environ.h"
#include "base/fill.h"
#include "base/launcher.h"
#include "core/core.h"

#include <stdio.h>

/* tuning.h explains the uses. */
#define ADVERT_SIZE_LEAST  ((uint64_t)32 << 10)
#define SPLIT_COPY_SIZE    ((uint64_t)48 << 10)
#define READ_CHUNK         ((uint64_t)1 << 20)
#define INJECT_LIMIT       ((uint64_t)8 << 10)
#define PEERS_USUAL        1024u
#define PEERS_MOST         65536u
#define CALM_LEAST         256
#define BUFFERS_SIZE       ((uint64_t)512 << 10)
#define DEVICE_SPIN_MOST   (20 * CLOCK_US)
#define DEVICE_ANSWER_MOST (10 * CLOCK_S)

static const char *const threads_names[] = {"one", "many", NULL};
static const char *const device_names[] = {"none",         "soft",  "soft-thread",
                                           "soft-process", "verbs", NULL};
static const char *const match_names[] = {"split", "software", "device", NULL};
static const char *const device_holds_names[] = {"auto", "yes", "no", NULL};
static const char *const match_at_names[] = {"receiver", "sender", NULL};
static const char *const rndv_names[] = {
    [RNDV_AUTO] = "auto",
    [RNDV_READ_ALONE] = "read",
    [RNDV_READ_AND_WRITE] = "read+write",
    [RNDV_READ_AND_SPLIT_COPY] = "read+split",
    [RNDV_INSIST_WRITE] = "write",
    [RNDV_INSIST_SPLIT_COPY] = "split",
    [RNDV_DATA] = "data",
    [RNDV_DATA + 1] = NULL,
};
static const char *const oversubscribed_names[] = {"auto", "yes", "no", NULL};
static const char *const leaks_names[] = {"off", "warn", NULL};
static const char *const trace_for_names[] = {"all", "races", NULL};
static const char *const on_divergence_names[] = {"stop", "go", NULL};
static const char *const hang_then_names[] = {"go-on", "abort", NULL};
static const char *const window_words[] = {"auto", "unlimited", NULL};
static const char *const auto_word[] = {"auto", NULL};
static const char *const unlimited_word[] = {"unlimited", NULL};

#define AT(field)      offsetof(struct settings, field)

#define TRANSPORT_NAME "TRANSPORT"

static const struct param own[] = {
    {"LOG_LEVEL", PARAM_CHOICE, PARAM_USUAL, NULL, "warn", 0, 0, log_level_names,
     "which lines are written to standard error", AT(log_level)},
    {TRANSPORT_NAME, PARAM_CHOICE, PARAM_USUAL, NULL, "auto", 0, 0, NULL,
     "how bytes travel: shm on one machine, ofi over a network (libfabric), verbs over RDMA "
     "adapters; auto: shm, and also ofi if the job has ranks on several hosts",
     AT(transport)},
    {"THREADS", PARAM_CHOICE, PARAM_USUAL, NULL, "one", 0, 0, threads_names,
     "how many threads may call functions of one endpoint: one at a time, or many at once",
     AT(threads)},
    {"EAGER_LIMIT", PARAM_SIZE, PARAM_USUAL, NULL, "auto", 0, WIRE_EAGER_MAX, auto_word,
     "messages up to this size are sent eagerly, longer ones by rendezvous; auto: 16K; on one "
     "machine 64K to a near peer (512K if its receives are posted), 32K to a far one; one "
     "packet with MBX_OVERSUBSCRIBED=yes",
     AT(eager_limit)},
    {"RNDV", PARAM_CHOICE, PARAM_USUAL, NULL, "auto", 0, 0, rndv_names,
     "how longer messages travel: the receiver reads, the sender writes into an advertised "
     "receive, both copy (split), or packets (data); auto: the best of these; write and split: "
     "always, except where only a read is possible",
     AT(rndv)},
    {"MATCH_AT", PARAM_CHOICE, PARAM_USUAL, NULL, "receiver", 0, 0, match_at_names,
     "where messages match: at the receiver, but at the sender if the window is full; or "
     "always at the sender",
     AT(match_at)},
    {"OVERSUBSCRIBED", PARAM_CHOICE, PARAM_USUAL, NULL, "auto", 0, 0, oversubscribed_names,
     "are there more processes than cores?  If so, waits poll briefly, only the receiver "
     "copies, and messages longer than a packet use a rendezvous; auto: if there are more "
     "peers than cores, without the last of these rules",
     AT(oversubscribed)},
    {"UNEXPECTED_MEMORY", PARAM_SIZE, PARAM_USUAL, NULL, "64M", 0, UINT64_C(1) << 48, NULL,
     "most memory for messages that arrive before their receive is posted",
     AT(unexpected_memory)},
    {"SPIN", PARAM_TIME, PARAM_USUAL, NULL, "1ms", 0, 10 * CLOCK_S, NULL,
     "how long a wait polls before it sleeps; at most 5us with more peers than cores (or "
     "MBX_OVERSUBSCRIBED=yes)",
     AT(spin_ns)},
    {"CLOSE_TIMEOUT", PARAM_TIME, PARAM_USUAL, "s", "2s", 0, 3600 * CLOCK_S, NULL,
     "how long a close waits for sends and answers that have no space, and for injected "
     "messages that are not received",
     AT(close_timeout_ns)},
    {"PEER_TIMEOUT", PARAM_TIME, PARAM_USUAL, "s", "2s", 20 * CLOCK_MS, 3600 * CLOCK_S, NULL,
     "how soon a dead peer is detected while an operation depends on it", AT(peer_timeout_ns)},
    {"DEVICE", PARAM_CHOICE, PARAM_USUAL, NULL, "none", 0, 0, device_names,
     "the device that matches: soft in the progress loop, on a thread or in a process; or "
     "verbs, the adapter of MBX_TRANSPORT=verbs or shm+verbs",
     AT(device)},
    {"MATCH", PARAM_CHOICE, PARAM_USUAL, NULL, "split", 0, 0, match_names,
     "with a device: both match (split), only software, or the device wherever it can",
     AT(match)},
    {"STATS_FILE", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "append the statistics to this file at close; %r is the rank, %p the process",
     AT(stats_file)},
    {"KEY", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "the job's key, 32 hexadecimal digits: processes with another key are refused; mbx exec "
     "makes one",
     AT(key)},
    {"TRACE", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "record sends, receives, matches and waits to new files in this folder; mbx trace reads "
     "them",
     AT(trace_folder)},
    {"TRACE_FOR", PARAM_CHOICE, PARAM_USUAL, NULL, "all", 0, 0, trace_for_names,
     "what MBX_TRACE records; races: only what mbx races needs, without waits, protocol steps "
     "and probes that find nothing; mbx exec --races sets it",
     AT(trace_for)},
    {"FLIGHT", PARAM_COUNT, PARAM_USUAL, "events", "0", 0, UINT64_C(1) << 20, NULL,
     "keep at least this many of the last events of each endpoint in memory, for mbx trace "
     "--flight and core files; 0: none",
     AT(flight)},
    {"FLIGHT_FOLDER", PARAM_STRING, PARAM_USUAL, NULL, "", 0, 0, NULL,
     "keep the events of MBX_FLIGHT in files in this folder instead; the file stays if its "
     "endpoint is not closed, for example because the process was killed",
     AT(flight_folder)},
    {"INSPECT", PARAM_BOOL, PARAM_USUAL, NULL, "on", 0, 0, NULL,
     "let processes of this user read the queues of the endpoint (mbx queues, doctor, top)",
     AT(inspect)},
    {"LEAKS", PARAM_CHOICE, PARAM_USUAL, NULL, "off", 0, 0, leaks_names,
     "at close, warn of messages that were never received and of receives that never matched",
     AT(leaks)},
    {"STRICT_SENDS", PARAM_BOOL, PARAM_USUAL, NULL, "off", 0, 0, NULL,
     "MPI_Send of the component for Open MPI completes only when its message is received, so "
     "that a program that depends on buffering hangs and mbx doctor names it",
     AT(strict_sends)},
    {"RECORD", PARAM_FOREIGN, PARAM_USUAL, NULL, NULL, 0, 0, NULL,
     "a new folder in which each rank of the component for Open MPI records the results of "
     "calls "
     "that depend on time; mbx exec --record sets it",
     0},
    {"REPLAY", PARAM_FOREIGN, PARAM_USUAL, NULL, NULL, 0, 0, NULL,
     "the folder of a record whose results the calls of each rank are to have again; mbx exec "
     "--replay sets it",
     0},
    {"REPLAY_ON_DIVERGENCE", PARAM_CHOICE, PARAM_USUAL, NULL, "stop", 0, 0, on_divergence_names,
     "what follows when a replayed rank makes another call than the recorded one: the job ends "
     "with status 87, or that rank continues freely",
     AT(replay_on_divergence)},
    {"SHUFFLE", PARAM_COUNT, PARAM_USUAL, NULL, "0", 0, UINT32_MAX, NULL,
     "the seed of random choices, by the component for Open MPI, wherever MPI leaves a choice; "
     "mbx exec --shuffle sets it; 0: the usual choices",
     AT(shuffle)},
    {"HANG", PARAM_TIME, PARAM_USUAL, "s", "0", 0, 1000000 * CLOCK_S, NULL,
     "if nothing arrives at a waiting rank for this time, run mbx doctor on its host, which "
     "reports a deadlock; 0: never",
     AT(hang_ns)},
    {"HANG_THEN", PARAM_CHOICE, PARAM_USUAL, NULL, "go-on", 0, 0, hang_then_names,
     "what follows such a report of a deadlock; abort: the job ends with status 86, if the "
     "deadlock is certain",
     AT(hang_then)},
    {"BOOT", PARAM_FOREIGN, PARAM_USUAL, NULL, NULL, 0, 0, NULL,
     "which launcher started the ranks: set by mbx run, and by mbx perf for itself; set pmix "
     "or single to insist on it",
     0},
    {"LAUNCHER_HOST", PARAM_FOREIGN, PARAM_ADVANCED, NULL, NULL, 0, 0, NULL,
     "boot and namespaces of the launcher: set by mbx run and mbx exec, so that ranks in "
     "containers are recognised",
     0},
    {"ADAPTER_*", PARAM_FOREIGN, PARAM_ADVANCED, NULL, NULL, 0, 0, NULL,
     "the software adapter's own (docs/contributing/adapter.md)", 0},
    {"EXPLORE_*", PARAM_FOREIGN, PARAM_ADVANCED, NULL, NULL, 0, 0, NULL,
     "what mbx explore tells the programs that it runs (mbx explore --help)", 0},
    {"BOOT_TIMEOUT", PARAM_TIME, PARAM_USUAL, "s", "600s", 0, 1000000 * CLOCK_S, NULL,
     "how long a rank waits, at the start and in a fence, for a rank that does not come; 0: no "
     "limit",
     AT(boot_timeout_ns)},
    {"REQUESTS", PARAM_COUNT, PARAM_ADVANCED, "requests", "unlimited", 1, REQUESTS_MOST,
     unlimited_word,
     "most requests of an endpoint at one time; unlimited: while there is memory",
     AT(requests)},
    {"PEERS_MAX", PARAM_COUNT, PARAM_ADVANCED, "peers", "auto", 1, PEERS_MOST, auto_word,
     "so many senders can have a ring in one endpoint; MBX_UNEXPECTED_MEMORY is divided among "
     "them; auto: 1024, or twice the ranks on this machine, if that is more",
     AT(peers_max)},
    {"WINDOW", PARAM_COUNT, PARAM_ADVANCED, "messages", "auto", 0, 65534, window_words,
     "unmatched messages that one peer may have here; auto: from MBX_UNEXPECTED_MEMORY",
     AT(window)},
    {"WINDOW_PAYLOAD", PARAM_SIZE, PARAM_ADVANCED, NULL, "auto", 0, 4194176, window_words,
     "data of these messages; with 0 they come without data, which is fetched later",
     AT(window_payload)},
    {"DEVICE_LIST", PARAM_COUNT, PARAM_ADVANCED, "receives", "1024", 1, 65536, NULL,
     "receives that the device holds at a time; the size of its command queue follows from it",
     AT(device_list)},
    {"DEVICE_THRESHOLD", PARAM_SIZE, PARAM_ADVANCED, NULL, "auto", 0, 0, auto_word,
     "with split matching, receives with smaller buffers stay in software; auto: 32K, for "
     "verbs 1K",
     AT(device_threshold)},
    {"DEVICE_HOLDS", PARAM_CHOICE, PARAM_ADVANCED, NULL, "auto", 0, 0, device_holds_names,
     "does the device, if it can, also hold unexpected messages and match them with receives "
     "that are posted later?  auto: with MBX_MATCH=device",
     AT(device_holds)},
    {"DEVICE_TAG_FORMAT", PARAM_STRING, PARAM_ADVANCED, NULL, "", 0, 0, NULL,
     "the bits that MBX_DEVICE=verbs compares; empty: 8 bits of the context id and 40 of the "
     "tag; a mem_tag_format of libfabric, in hexadecimal: 47 bits of such tags "
     "(docs/internals/devices-verbs.md); the libfabric provider sets it",
     AT(device_tag_format)},
    {"VERBS_LIBRARY", PARAM_STRING, PARAM_ADVANCED, NULL, "libibverbs.so.1", 0, 0, NULL,
     "the library that gives access to the adapter; libmbx-adapter.so is an adapter in "
     "software",
     AT(verbs_library)},
};

#define GONE(name, instead)                                                                    \
    {                                                                                          \
        name, PARAM_GONE, PARAM_USUAL, NULL, NULL, 0, 0, NULL, instead, 0                      \
    }

/* A user who still sets one of these names is told the replacement. */
static const struct param gone[] = {
    GONE("ANY_SOURCE", "it is MBX_MATCH_AT now, receiver in place of window"),
    GONE("EARLY_DATA",
         "it follows from how a peer is reached: 1K, or 0 where its memory is copied"),
    GONE("RTS_PAYLOAD",
         "it follows from how a peer is reached: 1K, or 0 where its memory is copied"),
    GONE("READ_CHUNK", "it is 1M"),
    GONE("INJECT_LIMIT", "it is 8K, as mbx_limits_get() says"),
    GONE("SEE", "it is MBX_INSPECT now"),
    GONE("SHM_PEERS", "it is MBX_PEERS_MAX now"),
    GONE("SHM_FRONTS", "it is MBX_SHM_DIRECTORY now"),
    GONE("EARLY_RECV", "MBX_RNDV says it now, write in place of always, read+split of off"),
    GONE("EARLY_SIZE", "it follows from MBX_EAGER_LIMIT"),
    GONE("SHARE", "MBX_RNDV says it now, split in place of always, read+write of off"),
    GONE("SHARE_SIZE", "it is constant; MBX_RNDV=read+write leaves such copies out"),
    GONE("HOLD_TAKE", "receivers always take what waits at its sender, where they can"),
    GONE("DEVICE_BUFFERS", "it is 128, and 1024 for MBX_DEVICE=verbs"),
    GONE("DEVICE_SPIN", "MBX_SPIN limits it"),
    GONE("DEVICE_ANSWER", "it is 10s"),
    GONE("DEVICE_PROGRAM", "matchbox-device is looked for next to the library and where it is "
                           "installed"),
};

const struct tuning_extension *tuning_extension;

#define ROWS_MAX       (ARRAY_COUNT(own) + ARRAY_COUNT(gone) + 48)
#define TRANSPORTS_MAX 16

/* All rows: the library's, with the rows of the transports after MBX_TRANSPORT, then the rows
 * of an extension.  Names that are gone come last: another row with such a name takes
 * precedence. */
struct table {
    struct param rows[ROWS_MAX];
    size_t count;                           /* of the parameters that can be set; names that are
                                               gone follow */
    const char *transports[TRANSPORTS_MAX]; /* the possible values of MBX_TRANSPORT */
};

static bool is_of_device(const struct param *row)
{
    return strncmp(row->name, "DEVICE", 6) == 0 || strcmp(row->name, "MATCH") == 0;
}

static void settings_add(struct table *table, const struct param *row, size_t offset)
{
    assert(table->count < ROWS_MAX - ARRAY_COUNT(gone));
    table->rows[table->count] = *row;
    if (!devices_present && is_of_device(row))
        table->rows[table->count].help = "nothing: this library was built without devices";
    table->rows[table->count++].offset += offset;
}

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
    for (unsigned i = 0; (row = transport_param(i)) != NULL; i++)
        settings_add(table, row, AT(transports));
}

static void table_make(struct table *table)
{
    *table = (struct table){.count = 0};
    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        settings_add(table, &own[i], 0);
        if (strcmp(own[i].name, TRANSPORT_NAME) == 0)
            add_transports(table);
    }
    for (size_t i = 0; tuning_extension != NULL && i < tuning_extension->count; i++)
        settings_add(table, &tuning_extension->params[i], AT(tuning));
    memcpy(&table->rows[table->count], gone, sizeof gone);
}

/* ---- derived settings ---- */

/* Replaces the values that an extension has not set. */
static void choose_when(struct tuning *tuning, uint64_t rndv)
{
    static const struct {
        enum tuning_when advert, split_copy;
    } chosen[] = {
        [RNDV_AUTO] = {TUNING_AUTO, TUNING_AUTO},
        [RNDV_READ_ALONE] = {TUNING_OFF, TUNING_OFF},
        [RNDV_READ_AND_WRITE] = {TUNING_AUTO, TUNING_OFF},
        [RNDV_READ_AND_SPLIT_COPY] = {TUNING_OFF, TUNING_AUTO},
        [RNDV_INSIST_WRITE] = {TUNING_ALWAYS, TUNING_OFF},
        [RNDV_INSIST_SPLIT_COPY] = {TUNING_OFF, TUNING_ALWAYS},
        [RNDV_DATA] = {TUNING_OFF, TUNING_OFF},
    };

    if (tuning->advert == TUNING_BY_RNDV)
        tuning->advert = chosen[rndv].advert;
    if (tuning->split_copy == TUNING_BY_RNDV)
        tuning->split_copy = chosen[rndv].split_copy;
}

static uint64_t or_else(uint64_t value, uint64_t usual)
{
    return value == SETTING_AUTO ? usual : value;
}

/* MBX_MATCH_AT=sender: no message leaves, and none can be pulled, before it has won its
 * receive. */
static void match_at_sender(struct settings *s)
{
    s->window = s->window_payload = 0;
    s->tuning.advert = TUNING_OFF;
    s->tuning.sendtable = 0;
    s->tuning.calm_least = INT64_MAX; /* words stay with their receives */
}

/* Each rank on this machine has a place for itself, and one for its device. */
static uint64_t places(void)
{
    uint32_t ranks = launcher_number(launcher_local_ranks());
    uint32_t all = launcher_number(launcher_ranks()); /* LAUNCHER_UNKNOWN: the largest number */

    if (ranks == LAUNCHER_UNKNOWN)
        return PEERS_USUAL;
    ranks = (uint32_t)min_size(ranks, all);
    return ranks <= PEERS_USUAL / 2 ? PEERS_USUAL : min_size(2 * (uint64_t)ranks, PEERS_MOST);
}

static void derive(struct settings *s)
{
    struct tuning *t = &s->tuning;
    uint64_t eager = or_else(s->eager_limit, 0);

    if (s->match_at == MATCH_AT_SENDER)
        match_at_sender(s);
    s->peers_max = or_else(s->peers_max, places());
    choose_when(t, s->rndv);
    t->advert_size =
        or_else(t->advert_size, 2 * eager > ADVERT_SIZE_LEAST ? 2 * eager : ADVERT_SIZE_LEAST);
    t->split_copy_size = or_else(t->split_copy_size, SPLIT_COPY_SIZE);
    t->read_chunk = or_else(t->read_chunk, READ_CHUNK);
    t->inject_limit = or_else(t->inject_limit, INJECT_LIMIT);
    t->buffers_size = or_else(t->buffers_size, or_else(s->eager_limit, BUFFERS_SIZE));
    t->calm_least = or_else(t->calm_least, CALM_LEAST);
    t->device_spin_ns = min_size(s->spin_ns, or_else(t->device_spin_ns, DEVICE_SPIN_MOST));
    t->device_answer_ns = or_else(t->device_answer_ns, DEVICE_ANSWER_MOST);
}

/* The values without an extension, before derive(). */
static const struct tuning tuning_unset = {
    .advert = TUNING_BY_RNDV,
    .split_copy = TUNING_BY_RNDV,
    .advert_size = SETTING_AUTO,
    .split_copy_size = SETTING_AUTO,
    .read_chunk = SETTING_AUTO,
    .rts_payload = SETTING_AUTO,
    .inject_limit = SETTING_AUTO,
    .buffers_size = SETTING_AUTO,
    .sendtable = 1,
    .calm_least = SETTING_AUTO,
    .device_buffers = SETTING_AUTO,
    .device_spin_ns = SETTING_AUTO,
    .device_answer_ns = SETTING_AUTO,
};

static int settings_load_table(struct table *table, struct settings *settings,
                               const char *const *overrides)
{
    char error[512];
    int err;

    table_make(table);
    settings->tuning = tuning_unset;
    err = param_load(table->rows, table->count + ARRAY_COUNT(gone), settings, overrides, error,
                     sizeof error);
    if (err < 0)
        LOG_ERROR("%s", error);
    return err;
}

/* 0; -EINVAL a device is requested that this library does not contain. */
static int refuse_device(const struct settings *s)
{
    bool is_match = s->device == DEVICE_NONE;

    if (devices_present || (is_match && s->match != MATCH_DEVICE))
        return 0;
    LOG_ERROR("%s=%s: this library was built without devices (Meson option devices)",
              is_match ? "MBX_MATCH" : "MBX_DEVICE",
              is_match ? match_names[s->match] : device_names[s->device]);
    return -EINVAL;
}

int settings_load(struct settings *settings, const char *const *overrides)
{
    struct table table;
    int err = settings_load_table(&table, settings, overrides);

    if (err == 0)
        err = refuse_device(settings);
    if (err == 0)
        derive(settings);
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
        LOG_ERROR("MBX_KEY: %zu characters that are not %zu hexadecimal digits; unset it, and "
                  "each job gets a key of its own",
                  strlen(text), 2 * size);
        return -EINVAL;
    }
    for (size_t i = 0; i < size; i++) {
        sscanf(text + 2 * i, "%2x", &byte);
        key[i] = (uint8_t)byte;
    }
    return 0;
}

/* Is it set in the environment, perhaps to an empty value? */
static bool is_set(const struct param *p)
{
    char name[sizeof PARAM_PREFIX + 48];

    snprintf(name, sizeof name, PARAM_PREFIX "%s", p->name);
    return environ_get(name) != NULL;
}

/* The unit of the value; empty if the text contains it, as "1ms" does. */
static const char *unit_of(const struct param *p)
{
    return p->unit != NULL ? p->unit : p->type == PARAM_SIZE ? "bytes" : "";
}

int mbx_param_get(unsigned index, struct mbx_param *out, size_t size)
{
    struct mbx_param param = {.name = ""};
    struct settings now, initial;
    struct table table;
    const struct param *p;
    char error[512];
    int err;

    err = settings_load_table(&table, &now, NULL);
    if (index >= table.count)
        return -ENOENT;
    if (err == 0)
        err =
            param_load_from(table.rows, table.count, &initial, NULL, NULL, error, sizeof error);
    if (err < 0)
        return err;
    p = &table.rows[index];
    snprintf(param.name, sizeof param.name, PARAM_PREFIX "%s", p->name);
    snprintf(param.help, sizeof param.help, "%s", p->help);
    snprintf(param.unit, sizeof param.unit, "%s", unit_of(p));
    param_range_text(p, param.range, sizeof param.range);
    param_format(p, &now, param.value, sizeof param.value);
    param_format(p, &initial, param.initial, sizeof param.initial);
    param.level = (uint32_t)p->level;
    param.is_set = is_set(p);
    return FILL(out, size, param, help);
}

static struct {
    void (*log)(void *user, enum mbx_log_level level, const char *text);
    void *user;
} log_user;

static_assert((int)MBX_LOG_ERROR == LOG_LEVEL_ERROR && (int)MBX_LOG_TRACE == LOG_LEVEL_TRACE,
              "the levels are the same as in log.h");

static void log_to_user(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    log_user.log(log_user.user, (enum mbx_log_level)level, text);
}

void mbx_log_callback(void (*log)(void *user, enum mbx_log_level level, const char *text),
                      void *user)
{
    log_user.log = log;
    log_user.user = user;
    log_set_sink(log != NULL ? log_to_user : NULL, NULL);
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
    case EPROTONOSUPPORT:
        return "the peer uses another version of Matchbox";
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
