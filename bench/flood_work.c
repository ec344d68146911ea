/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_work.c - options, the messages, the order of the receives, and the checks.
 *
 * The message that a receive must get follows from the earlier receives: the first message with
 * its tag from its source (once that is known) that was not received before.
 *
 * Memory that the receiver needs for itself (buffers, the marks of received messages) is touched
 * before the resident memory is first measured.
 */
#include "flood_work.h"

#include "flood_memory.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RECEIVER    0
#define SIZES_MAX   16
#define PERIOD      4093 /* of the pattern */
#define PROGRESS_NS 5000000000u

enum order { LAST, IN_ORDER, ANY, ANY_TAG, LAST_ANY, WANTED, SHUFFLED, ORDERS };

static const struct {
    const char *name, *about;
} orders[] = {
    [LAST] = {"last", "by tag, the last sent first, sources in turn"},
    [IN_ORDER] = {"in-order", "by tag, the first sent first, sources in turn"},
    [ANY] = {"any", "any source, any tag"},
    [ANY_TAG] = {"any-tag", "any tag, sources in turn"},
    [LAST_ANY] = {"last-any", "by tag, the last sent first, any source"},
    [WANTED] = {"wanted", "the last tag of each source, then any source, any tag"},
    [SHUFFLED] = {"shuffled", "by tag, without any order, sources in turn"},
};
_Static_assert(sizeof orders / sizeof orders[0] == ORDERS, "an order has no name");

static struct {
    const char *label;
    uint64_t messages;
    uint64_t sizes[SIZES_MAX];
    unsigned size_count;
    enum order orders[ORDERS];
    unsigned order_count;
    uint64_t batch, sleep_ms, limit, samples;
    bool is_mixed, is_resident_free, is_reporting;
} o = {.label = "flood", .messages = 1000, .batch = 64, .sleep_ms = 500};

static int rank, ranks;
static uint64_t senders;
static unsigned char *pattern;
static unsigned char *seen; /* at the receiver: [sender * messages + message] */
static uint64_t *next; /* at the receiver: by sender, all messages before it were received */
static unsigned char *batch; /* buffers */
static uint64_t buffer_size, first_kib;

/* One flood. */
struct flood {
    enum order order;
    const uint64_t *sizes;
    unsigned size_count;
};

/* The envelope of a receive. */
struct want {
    int source, tag; /* or FLOOD_ANY */
};

/* ---- the end ---- */

/* Is this the first rank?  Before the carrier is started. */
static bool is_first_rank(void)
{
    const char *boot = getenv("MBX_BOOT"), *self = getenv("OMPI_COMM_WORLD_RANK");

    if (self == NULL)
        self = getenv("PMI_RANK");
    if (self == NULL && boot != NULL && strrchr(boot, ':') != NULL)
        self = strrchr(boot, ':') + 1;
    return self == NULL || strcmp(self, "0") == 0;
}

void flood_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: rank %d: ", carrier_name, rank);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *flood_alloc(size_t size)
{
    void *memory = malloc(size != 0 ? size : 1);

    if (memory == NULL)
        flood_die("no memory for %zu bytes", size);
    return memory;
}

/* ---- options ---- */

static void print_usage(FILE *out)
{
    fprintf(out,
            "usage: %s [OPTION...]\n"
            "\n"
            "Ranks 1 and up flood rank 0, which sleeps first and then receives.\n"
            "\n"
            "  --messages M      of each sender (1000)\n"
            "  --sizes A,B,...   bytes of a message (0,1,100,10000); a flood for each\n"
            "  --mix             one flood, in which the sizes take turns\n"
            "  --orders A,B,...  in which they are received (last); a flood for each, of\n",
            carrier_about);
    for (int i = 0; i < ORDERS; i++)
        fprintf(out, "                      %-10s%s\n", orders[i].name, orders[i].about);
    fprintf(out,
            "  --batch N         receives that are posted at a time, by halves (64)\n"
            "  --sleep-ms N      how long the receiver sleeps (500)\n"
            "  --limit BYTES     fail if the library says that it has kept more for\n"
            "                    unexpected messages, or if the resident memory of rank 0\n"
            "                    has grown by this and a tenth\n"
            "  --no-resident     do not compare the resident memory with the limit\n"
            "  --samples N       print up to N samples of the resident memory of rank 0\n"
            "  --progress        say on stderr how far it is\n"
            "  --label WORD      engine=WORD in what is printed\n"
            "  --help            this text\n"
            "\n"
            "Prints key=value, one line for each flood; exit code 1 if anything is wrong.\n");
}

/* All ranks have the same arguments, so only the first one reports an error. */
static void refuse(const char *option, const char *value)
{
    if (is_first_rank()) {
        fprintf(stderr, "%s: %s: '%s' is not possible\n\n", carrier_name, option, value);
        print_usage(stderr);
    }
    exit(2);
}

static uint64_t take_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t number;

    errno = 0;
    number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < least ||
        number > most)
        refuse(option, text);
    return number;
}

static void take_sizes(char *text)
{
    o.size_count = 0;
    for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        if (o.size_count == SIZES_MAX)
            refuse("--sizes has more than 16", word);
        o.sizes[o.size_count++] = take_number("--sizes", word, 0, 1 << 24);
    }
    if (o.size_count == 0)
        refuse("--sizes", "");
}

static enum order order_named(const char *name)
{
    int i = 0;

    while (i < ORDERS && strcmp(orders[i].name, name) != 0)
        i++;
    if (i == ORDERS)
        refuse("--orders", name);
    return (enum order)i;
}

static void take_orders(char *text)
{
    o.order_count = 0;
    for (char *word = strtok(text, ","); word != NULL; word = strtok(NULL, ",")) {
        if (o.order_count == ORDERS)
            refuse("--orders has one twice", word);
        o.orders[o.order_count++] = order_named(word);
    }
    if (o.order_count == 0)
        refuse("--orders", "");
}

static const struct option options[] = {{"messages", required_argument, NULL, 'm'},
                                        {"sizes", required_argument, NULL, 's'},
                                        {"mix", no_argument, NULL, 'x'},
                                        {"orders", required_argument, NULL, 'o'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"sleep-ms", required_argument, NULL, 'z'},
                                        {"limit", required_argument, NULL, 'l'},
                                        {"no-resident", no_argument, NULL, 'r'},
                                        {"samples", required_argument, NULL, 'a'},
                                        {"progress", no_argument, NULL, 'p'},
                                        {"label", required_argument, NULL, 'n'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static void take_option(int option, char *value)
{
    switch (option) {
    case 'm':
        o.messages = take_number("--messages", value, 1, 1 << 20);
        break;
    case 's':
        take_sizes(value);
        break;
    case 'x':
        o.is_mixed = true;
        break;
    case 'o':
        take_orders(value);
        break;
    case 'b':
        o.batch = take_number("--batch", value, 1, 1 << 16);
        break;
    case 'z':
        o.sleep_ms = take_number("--sleep-ms", value, 0, 3600 * 1000);
        break;
    case 'l':
        o.limit = take_number("--limit", value, 1, UINT64_MAX / 2);
        break;
    case 'r':
        o.is_resident_free = true;
        break;
    case 'a':
        o.samples = take_number("--samples", value, 1, 100000);
        break;
    case 'p':
        o.is_reporting = true;
        break;
    case 'n':
        o.label = value;
        break;
    case 'h':
        if (is_first_rank())
            print_usage(stdout);
        exit(0);
    default:
        if (is_first_rank())
            print_usage(stderr);
        exit(2);
    }
}

static void take_options(int argc, char **argv)
{
    static const uint64_t sizes[] = {0, 1, 100, 10000};
    int option;

    memcpy(o.sizes, sizes, sizeof sizes);
    o.size_count = sizeof sizes / sizeof sizes[0];
    o.order_count = 1; /* the default: last */
    opterr = is_first_rank();
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        take_option(option, optarg);
    if (optind < argc)
        refuse("argument", argv[optind]);
}

/* ---- messages ---- */

static void pattern_make(void)
{
    uint32_t state = 1;

    pattern = flood_alloc(PERIOD + buffer_size);
    for (size_t i = 0; i < PERIOD + buffer_size; i++) {
        state = state * 1103515245u + 12345u;
        pattern[i] = (unsigned char)(state >> 16);
        if (i > 0 && pattern[i] == pattern[i - 1])
            pattern[i] ^= 1; /* neighbours differ: one byte distinguishes two messages */
    }
}

static const unsigned char *content(int sender, uint64_t message)
{
    return &pattern[(message + (uint64_t)sender * 61) % PERIOD];
}

static uint64_t size_of(const struct flood *flood, uint64_t message)
{
    return flood->sizes[message % flood->size_count];
}

static int tag_of(uint64_t message)
{
    return (int)(message / 2);
}

/* ---- order ---- */

/* A number that is coprime to the number of messages. */
static uint64_t shuffle_step(void)
{
    uint64_t step = o.messages * 5 / 8 + 1;

    for (;; step++) {
        uint64_t a = step, b = o.messages;

        while (b != 0) {
            uint64_t rest = a % b;

            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

static struct want want_of(enum order order, uint64_t k)
{
    static uint64_t step;
    uint64_t n = k / senders, backwards = o.messages - 1 - n;
    int source = 1 + (int)(k % senders);

    if (step == 0)
        step = shuffle_step();
    switch (order) {
    case LAST:
        return (struct want){source, tag_of(backwards)};
    case IN_ORDER:
        return (struct want){source, tag_of(n)};
    case ANY_TAG:
        return (struct want){source, FLOOD_ANY};
    case LAST_ANY:
        return (struct want){FLOOD_ANY, tag_of(backwards)};
    case WANTED:
        if (n == 0)
            return (struct want){source, tag_of(backwards)};
        break;
    case SHUFFLED:
        return (struct want){source, tag_of((n * step + (uint64_t)source) % o.messages)};
    case ANY:
    case ORDERS:
        break;
    }
    return (struct want){FLOOD_ANY, FLOOD_ANY};
}

/* The message that this receive must have got from this source. */
static uint64_t expected(const struct want *want, int source)
{
    const unsigned char *marks = &seen[(uint64_t)(source - 1) * o.messages];
    uint64_t *first = &next[source - 1], message;

    while (*first < o.messages && marks[*first])
        ++*first;
    if (want->tag == FLOOD_ANY)
        return *first;
    message = 2 * (uint64_t)want->tag;
    return marks[message] ? message + 1 : message;
}

static void check(const struct flood *flood, const struct want *want,
                  const struct flood_got *got, const unsigned char *buf)
{
    uint64_t message, size;

    if (got->source < 1 || got->source >= ranks ||
        (want->source != FLOOD_ANY && got->source != want->source))
        flood_die("a receive from %d got a message from %d", want->source, got->source);
    message = expected(want, got->source);
    if (message >= o.messages || got->tag != tag_of(message))
        flood_die("from %d, expected message %llu, got tag %d", got->source,
                  (unsigned long long)message, got->tag);
    if (got->mark != FLOOD_NO_MARK && got->mark != message)
        flood_die("from %d, expected message %llu, got %llu", got->source,
                  (unsigned long long)message, (unsigned long long)got->mark);
    size = size_of(flood, message);
    if (got->size != size || memcmp(buf, content(got->source, message), size) != 0)
        flood_die("message %llu from %d has %zu bytes of %llu, or they are wrong",
                  (unsigned long long)message, got->source, got->size,
                  (unsigned long long)size);
    seen[(uint64_t)(got->source - 1) * o.messages + message] = 1;
}

/* ---- time ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static void report_progress(const struct flood *flood, uint64_t done, uint64_t *reported_ns)
{
    uint64_t ns = now_ns();

    if (!o.is_reporting || ns - *reported_ns < PROGRESS_NS)
        return;
    *reported_ns = ns;
    fprintf(stderr, "%s: size %llu%s, %s: %llu of %llu received, resident memory +%lld KiB\n",
            carrier_name, (unsigned long long)flood->sizes[0],
            flood->size_count > 1 ? " and more" : "", orders[flood->order].name,
            (unsigned long long)done, (unsigned long long)(senders * o.messages),
            (long long)(memory_kib() - first_kib));
}

/* ---- sender and receiver ---- */

/* Waits for all ranks; at the receiver, *most_kib and *all_kib are the maximum and the sum of
 * the senders' grown_kib. */
static void fence(uint64_t grown_kib, uint64_t *most_kib, uint64_t *all_kib)
{
    uint64_t said, most = 0, all = 0;

    for (uint64_t i = 1; rank == RECEIVER && i <= senders; i++) {
        carrier_recv(0, FENCE_LANE, (int)i, 0, &said, sizeof said);
        carrier_wait(0, NULL);
        most = said > most ? said : most;
        all += said;
    }
    for (uint64_t i = 1; rank == RECEIVER && i <= senders; i++) {
        carrier_send(0, FENCE_LANE, (int)i, 0, &all, sizeof all, 0);
        carrier_wait(0, NULL);
    }
    if (rank != RECEIVER) {
        carrier_send(0, FENCE_LANE, RECEIVER, 0, &grown_kib, sizeof grown_kib, 0);
        carrier_wait(0, NULL);
        carrier_recv(0, FENCE_LANE, RECEIVER, 0, &said, sizeof said);
        carrier_wait(0, NULL);
    }
    if (most_kib != NULL) {
        *most_kib = most;
        *all_kib = all;
    }
}

static void send_all(const struct flood *flood)
{
    for (uint64_t i = 0; i < o.messages; i++)
        carrier_send(i, FLOOD_LANE, RECEIVER, tag_of(i), content(rank, i), size_of(flood, i),
                     i);
    for (uint64_t i = 0; i < o.messages; i++)
        carrier_wait(i, NULL);
}

/* Posts receives k .. end-1, each of which has a slot. */
static void receive_begin(const struct flood *flood, uint64_t k, uint64_t end)
{
    for (; k < end; k++) {
        const struct want want = want_of(flood->order, k);

        carrier_recv(k % o.batch, FLOOD_LANE, want.source, want.tag,
                     &batch[k % o.batch * buffer_size], buffer_size);
    }
}

static void receive_end(const struct flood *flood, uint64_t k, uint64_t end)
{
    for (; k < end; k++) {
        const struct want want = want_of(flood->order, k);
        struct flood_got got;

        carrier_wait(k % o.batch, &got);
        check(flood, &want, &got, &batch[k % o.batch * buffer_size]);
    }
}

/* While one half of the receives of a batch is waited for, the other half is posted. */
static void receive_all(const struct flood *flood)
{
    uint64_t all = senders * o.messages, reported_ns = now_ns();
    uint64_t half = o.batch < 2 ? 1 : o.batch / 2, posted = 0;

    memset(seen, 0, all);
    memset(next, 0, senders * sizeof *next);
    for (uint64_t k = 0; k < all; k += half) {
        uint64_t end = k + half < all ? k + half : all;
        uint64_t ahead = k + o.batch < all ? k + o.batch : all;

        receive_begin(flood, posted, ahead);
        posted = ahead;
        receive_end(flood, k, end);
        report_progress(flood, end, &reported_ns);
    }
}

/* ---- a flood ---- */

static void print_flood(const struct flood *flood, uint64_t took_ns, uint64_t grown_kib,
                        uint64_t senders_most_kib, uint64_t senders_all_kib)
{
    char size[24];

    snprintf(size, sizeof size, "%llu", (unsigned long long)flood->sizes[0]);
    printf("bench=flood engine=%s senders=%llu messages=%llu size=%s order=%s batch=%llu "
           "took_s=%.3f per_message_us=%.3f grown_kib=%llu high_water_bytes=%llu "
           "sender_grown_max_kib=%llu senders_grown_kib=%llu\n",
           o.label, (unsigned long long)senders, (unsigned long long)o.messages,
           flood->size_count > 1 ? "mixed" : size, orders[flood->order].name,
           (unsigned long long)o.batch, (double)took_ns / 1e9,
           (double)took_ns / 1e3 / (double)(senders * o.messages),
           (unsigned long long)grown_kib, (unsigned long long)carrier_high_water(),
           (unsigned long long)senders_most_kib, (unsigned long long)senders_all_kib);
    fflush(stdout);
}

static void check_limit(uint64_t grown_kib)
{
    if (o.limit == 0)
        return;
    if (carrier_high_water() > o.limit)
        flood_die("%llu bytes were kept for unexpected messages, the limit is %llu",
                  (unsigned long long)carrier_high_water(), (unsigned long long)o.limit);
    if (!o.is_resident_free && grown_kib * 1024 > o.limit + o.limit / 10)
        flood_die("the resident memory has grown by %llu bytes, the limit is %llu and a tenth",
                  (unsigned long long)grown_kib * 1024, (unsigned long long)o.limit);
}

/* Growth since the first flood, so memory that an earlier flood has left counts. */
static uint64_t grown(void)
{
    uint64_t kib = memory_peak_kib();

    return kib > first_kib ? kib - first_kib : 0;
}

static void flood_run(const struct flood *flood)
{
    uint64_t start_ns, most_kib, all_kib, grown_kib;

    fence(0, NULL, NULL);
    if (first_kib == 0) {
        first_kib = memory_kib();
        if (!memory_peak_reset() && o.limit != 0)
            flood_die("the peak of the resident memory cannot be set back: %s",
                      strerror(errno));
    }
    start_ns = now_ns();
    if (rank == RECEIVER) {
        sleep_ms(o.sleep_ms);
        receive_all(flood);
    } else {
        send_all(flood);
    }
    grown_kib = grown();
    fence(grown_kib, &most_kib, &all_kib);
    if (rank != RECEIVER)
        return;
    print_flood(flood, now_ns() - start_ns - o.sleep_ms * 1000000, grown_kib, most_kib,
                all_kib);
    check_limit(grown_kib);
}

static void run_sizes(enum order order)
{
    if (o.is_mixed) {
        flood_run(&(struct flood){order, o.sizes, o.size_count});
        return;
    }
    for (unsigned i = 0; i < o.size_count; i++)
        flood_run(&(struct flood){order, &o.sizes[i], 1});
}

/* ---- the program ---- */

static void *alloc_touched(size_t size)
{
    return memset(flood_alloc(size), 1, size);
}

static void prepare(void)
{
    buffer_size = 1;
    for (unsigned i = 0; i < o.size_count; i++)
        buffer_size = o.sizes[i] > buffer_size ? o.sizes[i] : buffer_size;
    pattern_make();
    carrier_slots(rank == RECEIVER ? o.batch : o.messages);
    if (rank != RECEIVER)
        return;
    batch = alloc_touched(o.batch * buffer_size);
    seen = alloc_touched(senders * o.messages);
    next = alloc_touched(senders * sizeof *next);
}

static void print_samples(void)
{
    const struct memory_sample *samples;
    uint64_t count = memory_unwatch(&samples), shown = count < o.samples ? count : o.samples;

    for (uint64_t i = 0; i < shown; i++) {
        const struct memory_sample *sample = &samples[i * count / shown];

        printf("bench=flood_memory engine=%s ms=%llu resident_kib=%llu first_kib=%llu\n",
               o.label, (unsigned long long)sample->ms, (unsigned long long)sample->kib,
               (unsigned long long)first_kib);
    }
}

int flood_main(int argc, char **argv)
{
    take_options(argc, argv);
    carrier_open(&rank, &ranks);
    if (ranks < 2)
        flood_die("there are no senders: it needs 2 ranks or more, started by %s",
                  carrier_about);
    senders = (uint64_t)ranks - 1;
    prepare();
    if (rank == RECEIVER && o.samples != 0 && !memory_watch())
        flood_die("no thread for the samples");
    for (unsigned i = 0; i < o.order_count; i++)
        run_sizes(o.orders[i]);
    if (rank == RECEIVER && o.samples != 0)
        print_samples();
    carrier_close();
    free(pattern);
    free(batch);
    free(seen);
    free(next);
    return 0;
}
