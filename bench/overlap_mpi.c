/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how much of a transfer happens while the receiver computes?
 * Method     as `mbx perf overlap`, through MPI: rank 0 posts the receives of a window
 *            (MPI_Irecv) and sends GO; rank 1 answers READY with a moment shortly after,
 *            on the clock of the machine that both run on.  From that moment rank 1 sends
 *            the window (MPI_Isend, MPI_Waitall), rank 0 computes without any call and
 *            then waits (MPI_Waitall).  Three times in turn, REPEATS times:
 *              comm     a round with nothing to compute
 *              compute  the same computation alone, made to last about as long as comm, or
 *                       --compute percent of that
 *              both     a round with the computation
 *            overlap_percent = 100 * (1 - (both - max(comm, compute)) / min(comm, compute))
 *            from the medians, overlap_min_percent from the fastest, limited to 0..100.
 *            A round that rank 0 could not begin in time is repeated.  Every message
 *            has a mark at both ends, which is checked.
 *
 * usage: overlap_mpi LABEL [OPTION...] [SIZE...]      (--help says more)
 *
 * The same program is run over each MPI; scripts/bench/overlap does that.
 */
#include <mpi.h>

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../tools/perf/overlap_work.h"

#define TAG_GO       1
#define TAG_READY    2
#define TAG_MESSAGE  3
#define WINDOW_BYTES (256 * 1024)
#define WINDOW_MAX   64
#define WINDOW_LIMIT 4096
#define LARGEST      (1 << 30) /* bytes of a message, and of a window */
#define REPEATS      51
#define WARM_ROUNDS  9
#define LEAD_NS      20000ull /* from the READY to the beginning, initially */
#define LEAD_MAX_NS  100000000ull
#define LATE_NS      5000 /* a sender that begins later is counted */
#define LATE_MOST    1000 /* repeated rounds for one size */
#define NAP_NS       20000

static const char usage[] =
    "usage: mpiexec -n 2 overlap_mpi LABEL [OPTION...] [SIZE...]\n"
    "\n"
    "  LABEL           engine=LABEL in the lines; LABEL:MODE adds mode=MODE\n"
    "  SIZE            bytes of a message; by default all powers of two, 1 KiB to 16 MiB\n"
    "  --repeats N     how often each time is taken (51)\n"
    "  --window N      messages at a time; by default 256 KiB, and 1 to 64 messages\n"
    "  --compute PCT   how long to compute, of the time of the transfer, 1 to 10000 (100)\n"
    "  --cpus R,S      processors of the receiver and the sender; other processes of MPI\n"
    "                  run on other processors, and if there are none, on S\n"
    "  --nap           the sender sleeps 20 us between two looks at its sends, so that a\n"
    "                  device on its processor can work\n"
    "  --help          this text\n"
    "\n"
    "Prints key=value, one line per size.  The head of bench/overlap_mpi.c defines them.\n";

static struct {
    char engine[64], mode[64];
    int repeats, window; /* window 0: by size */
    int percent;         /* the computation, in percent of the transfer's time */
    int cpus[2];         /* -1: any */
    int naps;
    int sizes[64];
    int count;
} o = {.repeats = REPEATS, .percent = 100, .cpus = {-1, -1}};

struct go {
    uint64_t round, lead_ns; /* round 0: there are no more */
};

struct ready {
    uint64_t start_ns, late; /* rounds that the sender began late */
};

static int rank;
static char *buffers;
static MPI_Request requests[WINDOW_LIMIT];
static double step_ns;

/* ---- arguments ---- */

/* Ends the program.  Every rank has the same arguments, so only the first one reports the
 * error. */
static void refuse(const char *what, const char *value)
{
    const char *self = getenv("OMPI_COMM_WORLD_RANK");

    self = self != NULL ? self : getenv("PMI_RANK");
    if (self == NULL || strcmp(self, "0") == 0)
        fprintf(stderr, "overlap_mpi: %s%s%s\n%s", what, value[0] != '\0' ? ": " : "", value,
                usage);
    exit(2);
}

static int take_number(const char *what, const char *text, long min, long max)
{
    char *end;
    long number;

    errno = 0;
    number = text != NULL ? strtol(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || number < min ||
        number > max)
        refuse(what, text != NULL ? text : "no value");
    return (int)number;
}

static void take_cpus(const char *text)
{
    char end;

    if (text == NULL || sscanf(text, "%d,%d%c", &o.cpus[0], &o.cpus[1], &end) != 2 ||
        o.cpus[0] < 0 || o.cpus[1] < 0 || o.cpus[0] >= CPU_SETSIZE || o.cpus[1] >= CPU_SETSIZE)
        refuse("--cpus takes two processors, R,S", text != NULL ? text : "no value");
}

static void take_label(const char *text)
{
    const char *colon = strchr(text, ':');
    int length = colon != NULL ? (int)(colon - text) : (int)strlen(text);

    if (length == 0 || length >= (int)sizeof o.engine || text[0] == '-')
        refuse("a LABEL comes first", text);
    snprintf(o.engine, sizeof o.engine, "%.*s", length, text);
    snprintf(o.mode, sizeof o.mode, "%s", colon != NULL ? colon + 1 : "");
}

static void take_size(const char *text)
{
    if (o.count == (int)(sizeof o.sizes / sizeof o.sizes[0]))
        refuse("there are more than 64 sizes", text);
    o.sizes[o.count++] = take_number("a size is 1 to 1073741824 bytes", text, 1, LARGEST);
}

static int window_of(int size)
{
    int window = WINDOW_BYTES / size;

    if (o.window != 0)
        return o.window;
    return window < 1 ? 1 : window > WINDOW_MAX ? WINDOW_MAX : window;
}

static void check_windows(void)
{
    for (int i = 0; i < o.count; i++)
        if (o.sizes[i] > LARGEST / window_of(o.sizes[i]))
            refuse("a window of messages is more than 1 GiB", "make --window less");
}

static void parse(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        exit(0);
    }
    if (argc < 2)
        refuse("a LABEL is needed", "");
    take_label(argv[1]);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--repeats") == 0)
            o.repeats = take_number("--repeats takes 1 to 100000", argv[++i], 1, 100000);
        else if (strcmp(argv[i], "--window") == 0)
            o.window = take_number("--window takes 1 to 4096", argv[++i], 1, WINDOW_LIMIT);
        else if (strcmp(argv[i], "--compute") == 0)
            o.percent = take_number("--compute takes 1 to 10000", argv[++i], 1, 10000);
        else if (strcmp(argv[i], "--cpus") == 0)
            take_cpus(argv[++i]);
        else if (strcmp(argv[i], "--nap") == 0)
            o.naps = 1;
        else if (argv[i][0] == '-')
            refuse("unknown option", argv[i]);
        else
            take_size(argv[i]);
    }
    for (int size = 1024; o.count == 0 || (size > 1024 && size <= 16 << 20); size *= 2)
        o.sizes[o.count++] = size;
    check_windows();
}

/* ---- places ---- */

static void run_on(const cpu_set_t *set)
{
    if (sched_setaffinity(0, sizeof *set, set) < 0)
        refuse("--cpus: this process may not run there", strerror(errno));
}

/* Called before MPI starts threads: a thread inherits the processors of its creator. */
static void leave_the_cores(void)
{
    cpu_set_t rest;

    if (o.cpus[0] < 0 || sched_getaffinity(0, sizeof rest, &rest) < 0)
        return;
    CPU_CLR(o.cpus[0], &rest);
    if (CPU_COUNT(&rest) > 1)
        CPU_CLR(o.cpus[1], &rest);
    if (CPU_COUNT(&rest) > 0)
        run_on(&rest);
}

static void take_the_core(void)
{
    cpu_set_t own;

    if (o.cpus[rank] < 0)
        return;
    CPU_ZERO(&own);
    CPU_SET(o.cpus[rank], &own);
    run_on(&own);
}

/* ---- messages ---- */

static char *message_at(int size, int i)
{
    return buffers + (size_t)i * (size_t)size;
}

static void check_stamp(int size, int i, uint64_t mark)
{
    if (work_is_stamped(message_at(size, i), (size_t)size, mark))
        return;
    fprintf(stderr, "overlap_mpi: message %d of %d bytes came with other bytes\n", i, size);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the sender ---- */

static void wait_napping(int window)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int done;

    for (;;) {
        MPI_Testall(window, requests, &done, MPI_STATUSES_IGNORE);
        if (done)
            return;
        nanosleep(&nap, NULL);
    }
}

static void send_window(int size, int window)
{
    for (int i = 0; i < window; i++)
        MPI_Isend(message_at(size, i), size, MPI_BYTE, 0, TAG_MESSAGE, MPI_COMM_WORLD,
                  &requests[i]);
    if (o.naps)
        wait_napping(window);
    else
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
}

/* Serves the rounds that the receiver requests for this size. */
static void serve_size(int size)
{
    struct ready ready = {0, 0};
    int window = window_of(size);
    struct go go;

    for (;;) {
        MPI_Recv(&go, sizeof go, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < window; i++)
            work_stamp(message_at(size, i), (size_t)size, go.round + (uint64_t)i);
        ready.start_ns = work_now() + go.lead_ns;
        MPI_Send(&ready, sizeof ready, MPI_BYTE, 0, TAG_READY, MPI_COMM_WORLD);
        if (go.round == 0)
            return;
        while (work_now() < ready.start_ns)
            sched_yield();
        ready.late += work_now() - ready.start_ns > LATE_NS;
        send_window(size, window);
    }
}

/* ---- the receiver ---- */

static struct ready ask(const struct go *go)
{
    struct ready ready;
    MPI_Request answer;

    MPI_Irecv(&ready, sizeof ready, MPI_BYTE, 1, TAG_READY, MPI_COMM_WORLD, &answer);
    MPI_Send(go, sizeof *go, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD);
    MPI_Wait(&answer, MPI_STATUS_IGNORE);
    return ready;
}

/* Nanoseconds of one round; negative: this rank was too late to begin with the sender. */
static double try_round(int size, uint64_t steps, const struct go *go)
{
    int window = window_of(size), is_late;
    struct ready ready;
    uint64_t end;

    for (int i = 0; i < window; i++)
        MPI_Irecv(message_at(size, i), size, MPI_BYTE, 1, TAG_MESSAGE, MPI_COMM_WORLD,
                  &requests[i]);
    ready = ask(go);
    is_late = work_now() >= ready.start_ns;
    if (!is_late) {
        while (work_now() < ready.start_ns)
            ;
        work_compute(steps);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    end = work_now();
    for (int i = 0; i < window; i++)
        check_stamp(size, i, go->round + (uint64_t)i);
    return is_late ? -1 : (double)(end - ready.start_ns);
}

/* Nanoseconds of a round that counts.  The marks in messages of neighbouring rounds differ. */
static double round_of(int size, uint64_t steps, struct go *go)
{
    for (int tries = 0; tries < LATE_MOST; tries++) {
        double ns;

        go->round += (uint64_t)window_of(size);
        if ((ns = try_round(size, steps, go)) >= 0)
            return ns;
        go->lead_ns = go->lead_ns > LEAD_MAX_NS / 2 ? LEAD_MAX_NS : 2 * go->lead_ns;
    }
    fprintf(stderr,
            "overlap_mpi: rank 0 is never on time: does something else use its core?\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double overlap_of(double comm, double work, double both)
{
    double longer = comm > work ? comm : work, shorter = comm > work ? work : comm;

    return 100 * (1 - (both - longer) / shorter);
}

static double kept_within(double percent)
{
    return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

/* Prints the results for one size; sorts the times. */
static void print_size(int size, double *comm, double *work, double *both, uint64_t late)
{
    double *all[] = {comm, work, both}, median[3], raw, longer;

    for (int i = 0; i < 3; i++) {
        qsort(all[i], (size_t)o.repeats, sizeof(double), compare);
        median[i] = all[i][o.repeats / 2];
    }
    raw = overlap_of(median[0], median[1], median[2]);
    longer = median[0] > median[1] ? median[0] : median[1];
    printf("bench=overlap engine=%s%s%s size=%d window=%d overlap_percent=%.1f "
           "overlap_raw_percent=%.1f overlap_min_percent=%.1f both_ratio=%.3f "
           "comm_median_ns=%.0f compute_median_ns=%.0f both_median_ns=%.0f comm_min_ns=%.0f "
           "compute_min_ns=%.0f both_min_ns=%.0f sender_late=%llu repeats=%d\n",
           o.engine, o.mode[0] != '\0' ? " mode=" : "", o.mode, size, window_of(size),
           kept_within(raw), raw, kept_within(overlap_of(comm[0], work[0], both[0])),
           median[2] / longer, median[0], median[1], median[2], comm[0], work[0], both[0],
           (unsigned long long)late, o.repeats);
    fflush(stdout);
}

static void measure_size(int size)
{
    struct go go = {0, LEAD_NS};
    double *comm = malloc(3 * (size_t)o.repeats * sizeof *comm), least = 1e30;
    double *work = comm + o.repeats, *both = work + o.repeats;
    uint64_t steps;

    if (comm == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < WARM_ROUNDS; i++) {
        double ns = round_of(size, 0, &go);

        least = ns < least ? ns : least;
    }
    steps = 1 + (uint64_t)(least / step_ns * o.percent / 100);
    for (int i = 0; i < o.repeats; i++) {
        comm[i] = round_of(size, 0, &go);
        work[i] = work_compute_timed(steps);
        both[i] = round_of(size, steps, &go);
    }
    go.round = 0;
    print_size(size, comm, work, both, ask(&go).late);
    free(comm);
}

static void alloc_buffers(void)
{
    size_t most = 0;

    for (int i = 0; i < o.count; i++) {
        size_t bytes = (size_t)o.sizes[i] * (size_t)window_of(o.sizes[i]);

        most = bytes > most ? bytes : most;
    }
    buffers = aligned_alloc(4096, (most + 4095) / 4096 * 4096);
    if (buffers == NULL) {
        fprintf(stderr, "overlap_mpi: no memory for %zu bytes of messages\n", most);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(buffers, 0x5a, most); /* touches all pages before the clock runs */
}

int main(int argc, char **argv)
{
    int ranks;

    parse(argc, argv);
    leave_the_cores();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        if (rank == 0)
            fprintf(stderr, "overlap_mpi: two ranks are needed, not %d\n", ranks);
        MPI_Finalize();
        return 2;
    }
    take_the_core();
    alloc_buffers();
    if (rank == 0)
        step_ns = work_calibrate();
    for (int i = 0; i < o.count; i++) {
        if (rank == 0)
            measure_size(o.sizes[i]);
        else
            serve_size(o.sizes[i]);
    }
    free(buffers);
    MPI_Finalize();
    return 0;
}
