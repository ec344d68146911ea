/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   `latency`  does latency grow with N posted receives that nothing matches?
 *            expected   what does a message cost when N receives with different tags are
 *                       posted and the messages come in the reverse order?
 *            unexpected what does a message cost when the N messages come first and are
 *                       received in the reverse order?
 *            there      what does an MPI_Recv cost when N messages have arrived and are
 *                       received in order of arrival?
 *            there_back what does it cost when the newest message is received first?
 * Method     two ranks.  `latency`: both post N receives that nothing matches yet, then batches
 *            of ping-pongs, receive posted first; at last the N are sent.  Every WILD-th receive
 *            is ANY_SOURCE (8; 0: none).  expected and unexpected: the time of rank 1 from its first
 *            receive (unexpected: from the arrival of the first message that it waits for) to
 *            the last completion, divided by N: posting, matching and moving 8 bytes.
 *            there, there_back: the time of the N calls of MPI_Recv alone, divided by N.
 *            Batches until SECONDS have passed; the first is a warm-up and does not count.
 *            Each message contains its tag, which is checked.
 *
 * usage: `mpi_match LABEL latency|expected|unexpected|there|there_back N[,N...] [SECONDS [WILD]]`
 *
 * The same program is run over each MPI; scripts/bench/match does that, with a time limit.
 */
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES_MOST 200
#define ROUNDS       50
#define COUNTS_MOST  16
#define TAG_BALL     1
#define TAG_READY    2
#define TAG_FIRST    10 /* tags of the N; the standard guarantees 32767, all have more */

/* Times of one batch at the rank that reports, per message. */
struct timing {
    double post_s, match_s;
};

static const char usage[] =
    "usage: mpiexec -n 2 mpi_match LABEL latency|expected|unexpected|there|there_back N[,N...] "
    "[SECONDS [WILD]]";

static const char *const modes[] = {"latency", "expected", "unexpected", "there", "there_back"};

static int rank, count, wild_every = 8;
static MPI_Request *requests;
static uint64_t *landed, *sent;

static void fail(const char *what, long got, long wanted)
{
    fprintf(stderr, "mpi_match: rank %d: %s: %ld, and not %ld\n", rank, what, got, wanted);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int tag_of(int i)
{
    return TAG_FIRST + i;
}

/* Posts receive i. */
static void post(int i)
{
    int is_wild = wild_every != 0 && i % wild_every == wild_every - 1;
    int source = is_wild ? MPI_ANY_SOURCE : 1 - rank;

    MPI_Irecv(&landed[i], 1, MPI_UINT64_T, source, tag_of(i), MPI_COMM_WORLD, &requests[i]);
}

static void send_start(int is_reverse)
{
    for (int n = 0; n < count; n++) {
        int i = is_reverse ? count - 1 - n : n;

        sent[i] = (uint64_t)i;
        MPI_Isend(&sent[i], 1, MPI_UINT64_T, 1 - rank, tag_of(i), MPI_COMM_WORLD, &requests[i]);
    }
}

static void send_end(void)
{
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

static void check_landed(void)
{
    for (int i = 0; i < count; i++)
        if (landed[i] != (uint64_t)i)
            fail("a receive got the message of another tag", (long)landed[i], i);
    memset(landed, 0xff, (size_t)count * sizeof *landed);
}

/* One rank signals to the other that it is ready.  Not by a barrier, whose messages would be in
 * the queues too. */
static void signal_ready(void)
{
    MPI_Send(NULL, 0, MPI_BYTE, 1 - rank, TAG_READY, MPI_COMM_WORLD);
}

static void await_ready(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, TAG_READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static struct timing expected(void)
{
    struct timing t = {0, 0};
    double start, posted;

    if (rank == 0) {
        await_ready();
        send_start(1);
        send_end();
        return t;
    }
    start = MPI_Wtime();
    for (int i = 0; i < count; i++)
        post(i);
    posted = MPI_Wtime();
    signal_ready();
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    t.match_s = MPI_Wtime() - posted;
    t.post_s = posted - start;
    check_landed();
    return t;
}

/* Messages of one sender do not overtake each other, so all N have arrived when the last has.
 * But MPI need not buffer so many: the others stay at the sender, which must not wait for them
 * before the receiver receives. */
static struct timing unexpected(void)
{
    struct timing t = {0, 0};
    double start, arrived;

    if (rank == 0) {
        await_ready();
        send_start(0);
        signal_ready();
        send_end();
        return t;
    }
    signal_ready();
    start = MPI_Wtime();
    await_ready();
    arrived = MPI_Wtime();
    for (int i = count - 1; i >= 0; i--)
        post(i);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    t.match_s = MPI_Wtime() - arrived;
    t.post_s = arrived - start; /* here: the time of the arrivals */
    check_landed();
    return t;
}

/* Receives message i by a blocking call. */
static void take(int i)
{
    int is_wild = wild_every != 0 && i % wild_every == wild_every - 1;

    MPI_Recv(&landed[i], 1, MPI_UINT64_T, is_wild ? MPI_ANY_SOURCE : 1 - rank, tag_of(i),
             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static struct timing there(int is_back)
{
    struct timing t = {0, 0};
    double arrived;

    if (rank == 0) {
        await_ready();
        send_start(0);
        signal_ready();
        send_end();
        return t;
    }
    signal_ready();
    await_ready();
    arrived = MPI_Wtime();
    for (int n = 0; n < count; n++)
        take(is_back ? count - 1 - n : n);
    t.match_s = MPI_Wtime() - arrived;
    check_landed();
    return t;
}

static void ball(int is_first)
{
    uint64_t in = UINT64_MAX, out = 7;
    MPI_Request request;

    MPI_Irecv(&in, 1, MPI_UINT64_T, 1 - rank, TAG_BALL, MPI_COMM_WORLD, &request);
    if (is_first)
        MPI_Send(&out, 1, MPI_UINT64_T, 1 - rank, TAG_BALL, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!is_first)
        MPI_Send(&out, 1, MPI_UINT64_T, 1 - rank, TAG_BALL, MPI_COMM_WORLD);
    if (in != out)
        fail("a ball brought", (long)in, (long)out);
}

/* In seconds. */
static struct timing latency(void)
{
    struct timing t = {0, 0};
    double start = MPI_Wtime();

    for (int i = 0; i < ROUNDS; i++)
        ball(rank == 0);
    t.match_s = (MPI_Wtime() - start) / ROUNDS / 2;
    return t;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Rank 0 decides whether there is another batch. */
static int goes_on(double start, double seconds, int batches)
{
    int more = batches < 2 || (batches <= BATCHES_MOST && MPI_Wtime() - start < seconds);

    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static void report(const char *label, const char *what, struct timing *t, int batches)
{
    static double match[BATCHES_MOST], total[BATCHES_MOST];
    double per = strcmp(what, "latency") == 0 ? 1e9 : 1e9 / count;

    for (int i = 0; i < batches; i++) {
        match[i] = t[i].match_s * per;
        total[i] = (t[i].match_s + t[i].post_s) * per;
    }
    qsort(match, (size_t)batches, sizeof *match, compare);
    qsort(total, (size_t)batches, sizeof *total, compare);
    printf("bench=mpi_%s engine=%s depth=%d wild_every=%d median_ns=%.1f min_ns=%.1f ", what,
           label, count, wild_every, total[batches / 2], total[0]);
    if (per < 1e9)
        printf("receive_median_ns=%.1f receive_min_ns=%.1f ", match[batches / 2], match[0]);
    printf("repeats=%d\n", batches);
    fflush(stdout);
}

static void run(const char *label, const char *what, double seconds)
{
    static struct timing t[BATCHES_MOST + 1];
    int is_latency = strcmp(what, "latency") == 0, batches = 0;
    int reporter = is_latency ? 0 : 1;
    double start = MPI_Wtime();

    for (int i = 0; is_latency && i < count; i++)
        MPI_Irecv(&landed[i], 1, MPI_UINT64_T, 1 - rank, tag_of(i), MPI_COMM_WORLD,
                  &requests[i]);
    while (goes_on(start, seconds, batches))
        t[batches++] = is_latency                        ? latency()
                       : strcmp(what, "expected") == 0   ? expected()
                       : strcmp(what, "unexpected") == 0 ? unexpected()
                                                         : there(what[5] != '\0');
    if (rank == reporter)
        report(label, what, t + 1, batches - 1);
    if (!is_latency)
        return;
    for (int i = 0; i < count; i++) { /* in the order of posting: cheap in every MPI */
        sent[i] = (uint64_t)i;
        MPI_Send(&sent[i], 1, MPI_UINT64_T, 1 - rank, tag_of(i), MPI_COMM_WORLD);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    check_landed();
}

static int is_mode(const char *what)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(what, modes[i]) == 0)
            return 1;
    return 0;
}

/* Parses a list like 1,16,256 into counts; returns their number, 0 if it is not such a list. */
static int to_counts(const char *text, long most, int *counts)
{
    char *end;

    for (int n = 0; n < COUNTS_MOST; text = end + 1) {
        long value = strtol(text, &end, 10);

        if (end == text || value < 1 || value > most || (*end != ',' && *end != '\0'))
            return 0;
        counts[n++] = (int)value;
        if (*end == '\0')
            return n;
    }
    return 0;
}

/* Sets counts, *depths and *seconds; returns an error message for wrong arguments, or NULL. */
static const char *parse(int argc, char **argv, int ranks, int *counts, int *depths,
                         double *seconds)
{
    static char error[200];
    int flag, *tag_most;
    char *end;
    long n;

    if (argc < 4)
        return usage;
    if (argc > 6) {
        snprintf(error, sizeof error, "there is no argument '%.60s'", argv[6]);
        return error;
    }
    if (!is_mode(argv[2])) {
        snprintf(error, sizeof error,
                 "there are latency, expected, unexpected, there and there_back, no '%.60s'",
                 argv[2]);
        return error;
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_most, &flag);
    *depths = flag ? to_counts(argv[3], *tag_most - TAG_FIRST, counts) : 0;
    if (*depths == 0) {
        snprintf(error, sizeof error,
                 "N is a number from 1 to %d, or up to %d of them, not '%.60s'",
                 flag ? *tag_most - TAG_FIRST : 0, COUNTS_MOST, argv[3]);
        return error;
    }
    if (argc > 4) {
        *seconds = strtod(argv[4], &end);
        if (end == argv[4] || *end != '\0' || !(*seconds >= 0)) {
            snprintf(error, sizeof error, "SECONDS is a number, not '%.60s'", argv[4]);
            return error;
        }
    }
    if (argc > 5) {
        n = strtol(argv[5], &end, 10);
        if (end == argv[5] || *end != '\0' || n < 0 || n > 1000000) {
            snprintf(error, sizeof error, "WILD is a number from 0 to 1000000, not '%.60s'",
                     argv[5]);
            return error;
        }
        wild_every = (int)n;
    }
    return ranks == 2 ? NULL : "it takes two ranks: mpiexec -n 2";
}

int main(int argc, char **argv)
{
    int ranks, counts[COUNTS_MOST], depths, most = 0;
    double seconds = 0.5;
    const char *error;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s\n", usage);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    error = parse(argc, argv, ranks, counts, &depths, &seconds);
    if (error != NULL) {
        if (rank == 0)
            fprintf(stderr, "mpi_match: %s\n", error);
        MPI_Finalize();
        return 2;
    }
    for (int i = 0; i < depths; i++)
        most = counts[i] > most ? counts[i] : most;
    requests = calloc((size_t)most, sizeof *requests);
    landed = malloc((size_t)most * sizeof *landed);
    sent = malloc((size_t)most * sizeof *sent);
    if (requests == NULL || landed == NULL || sent == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(landed, 0xff, (size_t)most * sizeof *landed);
    for (int i = 0; i < depths; i++) {
        count = counts[i];
        run(argv[1], argv[2], seconds);
    }
    free(requests);
    free(landed);
    free(sent);
    MPI_Finalize();
    return 0;
}
