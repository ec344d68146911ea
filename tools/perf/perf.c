/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.c - `mbx perf`: starts two ranks of itself, or is one of them.
 *
 * Called by a user, it runs `mbx perf` with the same arguments as a job of two ranks, bound to
 * two cores.  Called within a job (so `mbx run -n 2 mbx perf lat` works too), it measures.
 * With --listen and --connect it first makes a job of two hosts (perf_pair.c).  It uses only the
 * public API.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/mem.h"
#include "boot/boot.h"
#include "overlap.h"
#include "perf_pair.h"
#include "tools/run/launch.h"

#define MAX_WINDOW 4096

static const char usage[] =
    "usage: mbx perf lat|bw|rate|depth|flood [OPTIONS]\n"
    "       mbx perf overlap [OPTIONS]     (mbx perf overlap --help lists them)\n"
    "\n"
    "Examples:\n"
    "  mbx perf lat                          latency of 8 bytes on this machine\n"
    "  mbx perf bw --sizes 4K-4M             bandwidth\n"
    "  a$ mbx perf lat --listen              latency between hosts a and b: first on a,\n"
    "  b$ mbx perf lat --connect a           then on b\n"
    "\n"
    "  lat      half of the time of a round trip; and in turn with it the bare transfer of a\n"
    "           cache line between the same two cores\n"
    "  bw       bandwidth: bytes per second, a burst of messages at a time\n"
    "  rate     messages per second, a burst at a time\n"
    "  depth    time of one match at the end of a long queue of posted receives, or of\n"
    "           unexpected messages.  Receives name their source, or use any source\n"
    "  flood    unexpected messages: how many the receiver keeps, in how much memory, and\n"
    "           the time to receive all of them, the last one first\n"
    "  overlap  how much of a transfer happens while the receiver computes\n"
    "\n"
    "  -s, --size SIZE       bytes of a message (K, M, G); lat, rate, depth: 8, bw: 1M,\n"
    "                        flood: 1K\n"
    "      --sizes A,B,...   several sizes, one line each\n"
    "      --sizes A-B       all powers of two from A to B\n"
    "  -i, --iterations N    approximate number of messages of a measurement; flood:\n"
    "                        messages in a flood (10000)\n"
    "  -w, --window N        messages at a time, at most 4096; bw: 16, rate: 64\n"
    "  -t, --threads N       rate: threads of each rank, in one endpoint (1)\n"
    "  -d, --depths A,B,...  depth: lengths of the queue, as --sizes (1,16,256,4096)\n"
    "      --no-bind         let the system choose the cores; --bind is the default\n"
    "      --json            a JSON object per line in place of key=value\n"
    "      --listen          be one rank of two hosts, and wait for the other one\n"
    "      --connect HOST    be the other rank, which prints the results\n"
    "      --port N          port of the host that listens (18515)\n"
    "  -h, --help            this text\n"
    "\n"
    "Without --listen and --connect, both ranks run on this machine.  With them, give\n"
    "both sides the same options.  The port carries only the start and the\n"
    "synchronisation.  The messages use the network that MBX_TRANSPORT, MBX_OFI_PROVIDER\n"
    "and MBX_OFI_INTERFACE select (mbx info --network).\n"
    "\n"
    "Any process that can reach the port can be the other rank.  If both sides have the\n"
    "same MBX_KEY, only a process that knows it can.\n"
    "\n"
    "A launcher can also start the two ranks: mpiexec -n 2 --host a,b mbx perf lat, or\n"
    "srun --mpi=pmix -N 2 -n 2 mbx perf lat.  On two hosts the system chooses the cores,\n"
    "and lat measures no cache line.\n"
    "\n"
    "Prints key=value, one line per size: the median and the best of 51 repeats.\n";

#define MAX_THREADS 256
#define MAX_DEPTH   UINT64_C(1000000)

enum {
    OPTION_SIZES = 256,
    OPTION_BIND,
    OPTION_NO_BIND,
    OPTION_JSON,
    OPTION_LISTEN,
    OPTION_CONNECT,
    OPTION_PORT
};

static const struct option options[] = {{"size", required_argument, NULL, 's'},
                                        {"sizes", required_argument, NULL, OPTION_SIZES},
                                        {"iterations", required_argument, NULL, 'i'},
                                        {"window", required_argument, NULL, 'w'},
                                        {"threads", required_argument, NULL, 't'},
                                        {"depths", required_argument, NULL, 'd'},
                                        {"bind", no_argument, NULL, OPTION_BIND},
                                        {"no-bind", no_argument, NULL, OPTION_NO_BIND},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        {"listen", no_argument, NULL, OPTION_LISTEN},
                                        {"connect", required_argument, NULL, OPTION_CONNECT},
                                        {"port", required_argument, NULL, OPTION_PORT},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct kind {
    const char *name;
    int (*measure)(struct perf *p, const struct perf_case *c);
    size_t size;
    uint32_t window;
    uint64_t bytes, messages; /* limits of the default iterations */
};

static const struct kind kinds[] = {
    {"lat", perf_latency, 8, 1, UINT64_C(1) << 30, 100000},
    {"bw", perf_bandwidth, 1 << 20, 16, UINT64_C(4) << 30, 100000},
    {"rate", perf_rate, 8, 64, UINT64_C(4) << 30, 2000000},
    {"depth", perf_depth, 8, 1, UINT64_C(1) << 30, 1},
    {"flood", perf_flood, 1024, 1, UINT64_C(1) << 30, 10000},
};

struct request {
    const struct kind *kind;
    struct perf_sizes sizes, depths;
    uint64_t iterations; /* 0: by size */
    uint32_t window;     /* 0: the default of the kind */
    uint32_t threads;    /* 0: not given */
    bool bind, json;
    struct perf_pair pair;
};

/* ---- arguments ---- */

static int take_option(const struct tool *tool, int option, char *value, struct request *r)
{
    uint64_t number = 0;
    int err = 0;

    switch (option) {
    case 's':
        err = perf_take_size(tool, &r->sizes, value);
        break;
    case OPTION_SIZES:
        err = perf_take_sizes(tool, "--sizes", PERF_BYTES, &r->sizes, value);
        break;
    case 'i':
        err = tool_number(tool, "--iterations", value, 1, UINT64_C(1) << 40, &r->iterations);
        break;
    case 'w':
        err = tool_number(tool, "--window", value, 1, MAX_WINDOW, &number);
        r->window = (uint32_t)number;
        break;
    case 't':
        err = tool_number(tool, "--threads", value, 1, MAX_THREADS, &number);
        r->threads = (uint32_t)number;
        break;
    case 'd':
        err = perf_take_sizes(tool, "--depths", MAX_DEPTH, &r->depths, value);
        break;
    case OPTION_JSON:
        r->json = true;
        break;
    case OPTION_LISTEN:
        r->pair.listens = true;
        break;
    case OPTION_CONNECT:
        r->pair.host = value;
        break;
    case OPTION_PORT:
        err = tool_number(tool, "--port", value, 1, 65535, &number);
        r->pair.port = value;
        break;
    default:
        r->bind = option == OPTION_BIND;
        break;
    }
    return err;
}

static const char *const words[] = {"lat", "bw", "rate", "depth", "flood", "overlap", NULL};

static const char *word_at(const void *list, size_t i)
{
    return ((const char *const *)list)[i];
}

/* The kind may come before or after the options. */
static int take_kind(const struct tool *tool, int argc, char **argv, struct request *r)
{
    if (optind == argc)
        return tool_usage_error(tool,
                                "name what to measure: lat, bw, rate, depth, flood or overlap");
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, argv[optind]) == 0)
            r->kind = &kinds[i];
    if (strcmp(argv[optind], "overlap") == 0)
        return tool_usage_error(tool, "'overlap' stands before its options");
    if (r->kind == NULL) {
        const char *nearest = tool_nearest(argv[optind], word_at, words);

        return tool_usage_error(
            tool, "cannot measure '%s', only lat, bw, rate, depth, flood and overlap%s%s%s",
            argv[optind], nearest != NULL ? "; did you mean '" : "",
            nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
    }
    optind++;
    return 0;
}

static bool is_pair(const struct request *r)
{
    return r->pair.listens || r->pair.host != NULL;
}

static bool has_key(void)
{
    const char *key = environ_get("MBX_KEY");

    return key != NULL && key[0] != '\0';
}

/* Checks that the options fit the kind. */
static int check(const struct tool *tool, struct request *r)
{
    static const struct perf_sizes depths = {.size = {1, 16, 256, 4096}, .count = 4};

    if (r->threads != 0 && r->kind->measure != perf_rate)
        return tool_usage_error(tool, "--threads is for rate, not for %s", r->kind->name);
    if (r->depths.count != 0 && r->kind->measure != perf_depth)
        return tool_usage_error(tool, "--depths is for depth, not for %s", r->kind->name);
    if (r->pair.listens && r->pair.host != NULL)
        return tool_usage_error(tool, "--listen is for one host, --connect for the other one");
    if (r->pair.port != NULL && !is_pair(r))
        return tool_usage_error(tool, "--port is for --listen and --connect");
    if (is_pair(r) && boot_has_launcher())
        return tool_usage_error(
            tool,
            "--%s is for two hosts without a launcher, and this process was "
            "started by one",
            r->pair.listens ? "listen" : "connect");
    if (r->depths.count == 0)
        r->depths = depths;
    return 0;
}

static int parse(const struct tool *tool, int argc, char **argv, struct request *r)
{
    int option, status = 0;

    for (;;) {
        while ((option = tool_option(tool, argc, argv, "+:s:i:w:t:d:h", options, &status)) >= 0)
            if ((status = take_option(tool, option, optarg, r)) != 0)
                return status;
        if (option == -2)
            return status != 0 ? status : -1;
        if (r->kind != NULL)
            break;
        if ((status = take_kind(tool, argc, argv, r)) != 0)
            return status;
    }
    if (optind < argc)
        return tool_usage_error(tool, "there is no argument '%s'", argv[optind]);
    if ((status = check(tool, r)) != 0)
        return status;
    if (r->sizes.count == 0)
        r->sizes.size[r->sizes.count++] = r->kind->size;
    if (r->window == 0)
        r->window = r->kind->window;
    return 0;
}

/* ---- a rank ---- */

static struct perf_case case_of(const struct request *r, size_t size)
{
    uint64_t by_bytes = r->kind->bytes / max_size(size, 1);
    uint64_t iterations = r->iterations;

    if (iterations == 0)
        iterations = min_size(r->kind->messages, max_size(by_bytes, 1));
    return (struct perf_case){
        .size = size, .iterations = iterations, .window = r->window, .threads = r->threads};
}

static int alloc_buffers(struct perf *p, const struct request *r)
{
    for (unsigned i = 0; i < r->sizes.count; i++)
        p->capacity = max_size(p->capacity, max_size(r->sizes.size[i], CACHE_LINE));
    p->send = mem_alloc_aligned(4096, p->capacity);
    p->recv = mem_alloc_aligned(4096, p->capacity);
    if (p->send == NULL || p->recv == NULL)
        return -ENOMEM;
    memset(p->send, 0x5a, p->capacity); /* touches all pages before the clock runs */
    memset(p->recv, 0, p->capacity);
    return 0;
}

static int open_rank(struct perf *p, const struct request *r)
{
    static const char *const many[] = {"THREADS=many", NULL};
    struct mbx_config config = {.params = r->threads > 1 ? many : NULL};
    int err;

    if (mbx_job_size(p->job) != 2) {
        tool_error(p->tool, "two ranks are needed, this job has %u", mbx_job_size(p->job));
        return -EINVAL;
    }
    p->rank = mbx_job_rank(p->job);
    p->peer = 1 - p->rank;
    if (!is_pair(r) || !has_key()) /* a pair uses the key that the user has set */
        config.key = mbx_job_key(p->job);
    if ((err = mbx_open(&config, &p->ep)) != 0)
        return err;
    return mbx_job_connect(p->job, p->ep);
}

static int measure_size(struct perf *p, const struct request *r, size_t size)
{
    struct perf_case c = case_of(r, size);
    int err = 0;

    if (r->threads > 1)
        return perf_rate_of_threads(p, &c);
    if (r->kind->measure != perf_depth)
        return r->kind->measure(p, &c);
    for (unsigned i = 0; i < r->depths.count && err == 0; i++) {
        c.depth = (uint32_t)r->depths.size[i];
        err = perf_depth(p, &c);
    }
    return err;
}

static int measure(struct perf *p, const struct request *r)
{
    int err = 0;

    if (r->kind->measure == perf_latency)
        err = perf_line_open(p);
    for (unsigned i = 0; i < r->sizes.count && err == 0; i++)
        err = measure_size(p, r, r->sizes.size[i]);
    perf_line_close(p);
    return err;
}

static int run_rank(const struct tool *tool, const struct request *r)
{
    struct perf p = {.tool = tool, .json = r->json};
    int err = mbx_job_open(&p.job);

    if (err == 0 && (err = open_rank(&p, r)) == 0 && (err = alloc_buffers(&p, r)) == 0)
        err = measure(&p, r);
    if (err != 0)
        tool_error(tool, "rank %u cannot measure: %s", p.rank, mbx_strerror(err));
    if (p.ep != NULL)
        mbx_close(p.ep);
    if (p.job != NULL)
        mbx_job_close(p.job);
    mem_free(p.send);
    mem_free(p.recv);
    return err == 0 ? TOOL_DONE : TOOL_FAILED;
}

/* ---- two hosts ---- */

static size_t add_list(char *text, size_t used, const char *name, const struct perf_sizes *list)
{
    for (unsigned i = 0; i < list->count; i++)
        used += (size_t)snprintf(text + used, PERF_TEXT_SIZE - used, "%s%zu",
                                 i == 0 ? name : ",", list->size[i]);
    return used;
}

/* Describes the measurement; equal texts mean equal measurements. */
static void describe(const struct request *r, char text[PERF_TEXT_SIZE])
{
    size_t used = (size_t)snprintf(
        text, PERF_TEXT_SIZE, "Matchbox %s, %s MBX_KEY, %s, window %u, threads %u",
        mbx_version(), has_key() ? "with" : "without", r->kind->name, r->window, r->threads);

    if (r->iterations != 0)
        used += (size_t)snprintf(text + used, PERF_TEXT_SIZE - used, ", iterations %llu",
                                 (unsigned long long)r->iterations);
    used = add_list(text, used, ", sizes ", &r->sizes);
    if (r->kind->measure == perf_depth)
        add_list(text, used, ", depths ", &r->depths);
}

/* The arguments without --listen, for the user at the other host. */
static void say_again(int argc, char **argv, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < argc && used < size; i++)
        if (strncmp(argv[i], "--l", 3) != 0)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : " ", argv[i]);
}

static int run_pair(const struct tool *tool, const struct request *r, int argc, char **argv)
{
    char text[PERF_TEXT_SIZE], again[1024];
    int status;

    describe(r, text);
    say_again(argc, argv, again, sizeof again);
    status = perf_pair_meet(tool, &r->pair, text, again);
    return status != 0 ? status : run_rank(tool, r);
}

/* ---- the launcher ---- */

/* Runs this program with the same arguments as a job. */
static int launch_self(const struct tool *tool, const struct request *r, int argc, char **argv)
{
    struct launch launch = {.tool = tool, .ranks = 2, .bind = r->bind};
    char **arguments = mem_calloc((size_t)argc + 2, sizeof *arguments);
    char *path = tool_own_path();
    int status = TOOL_FAILED;

    if (arguments == NULL || path == NULL) {
        tool_error(
            tool,
            "cannot find this program, because /proc/self/exe cannot be read; mount /proc");
        goto free_all;
    }
    arguments[0] = path;
    memcpy(arguments + 1, argv, (size_t)argc * sizeof *argv);
    launch.argv = arguments;
    status = launch_job(&launch);

free_all:
    mem_free(path);
    mem_free(arguments);
    return status;
}

/* The ranks get a copy, because parsing --sizes writes into the argument. */
static char **copy_arguments(int argc, char **argv)
{
    char **copy = mem_calloc((size_t)argc + 1, sizeof *copy);

    for (int i = 0; copy != NULL && i < argc; i++)
        copy[i] = strdup(argv[i]);
    return copy;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct request r = {.bind = true};
    char **original;
    int status;

    if (argc > 1 && strcmp(argv[1], "overlap") == 0)
        return overlap_run(argc - 1, argv + 1);
    original = copy_arguments(argc, argv);
    status = original != NULL ? parse(tool, argc, argv, &r) : TOOL_FAILED;
    if (status == 0 && is_pair(&r))
        status = run_pair(tool, &r, argc, original);
    else if (status == 0 && boot_has_launcher())
        status = run_rank(tool, &r);
    else if (status == 0)
        status = launch_self(tool, &r, argc, original);
    for (int i = 0; original != NULL && i < argc; i++)
        free(original[i]);
    mem_free(original);
    return status == -1 ? TOOL_DONE : status;
}

const struct tool tool_perf = {
    .name = "perf",
    .about = "measure latency, bandwidth, rate, long queues, a flood or overlap of two ranks",
    .usage = usage,
    .options = options,
    .words = words,
    .run = run,
};
