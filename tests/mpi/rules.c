/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules.c - random programs, and an oracle that checks whether MPI permits their matches.
 *
 *   rules [--threads N] [--rounds N] [--seed N] [--no-truncation] [--mixed]
 *
 * In each round every rank, in each of its threads, sends to any rank, posts receives with and
 * without wildcards (some too short, some persistent), probes, takes messages by matched
 * probes, tests and cancels, on CONTEXTS communicators that all threads share, with few tags: a
 * message that fits one receive fits many.  Nobody waits meanwhile, so that every order of
 * events occurs.  At the end all messages are taken.  Then rules_oracle.h gets the messages
 * that each rank took, and the messages that the others have sent.  Contents, sizes, senders,
 * tags and truncation are also compared.
 *
 * With one thread the program requests no thread support from MPI: another path through the
 * library.  Half of the rounds have synchronous sends, the other half matched probes: over
 * libfabric Open MPI 4.1.4 never completes a synchronous send whose message a matched probe has
 * taken. --mixed: both in all rounds. --no-truncation: as in p2p.c.
 */
#include "check.h"
#include "rules_oracle.h"

#include <pthread.h>
#include <stdatomic.h>

#define CONTEXTS    3
#define TAGS        3
#define THREADS_MAX 8
#define OPS         160 /* of a rank in a round, in all its threads */
#define LONGEST     70000
#define BEHIND      8 /* bytes after a buffer, which nobody may write */

/* The first bytes of each message. */
struct head {
    uint32_t number; /* counted among the messages of its sender in this round */
    uint16_t from, round;
};

/* A message, as its sender reports it to the others after the round. */
struct told {
    struct rules_send send;
    int to, size, number;
};

struct message {
    struct told told;
    MPI_Request request;
    bool is_persistent;
    unsigned char *buf;
};

struct take {
    struct rules_take rule;
    MPI_Request request; /* MPI_REQUEST_NULL: over */
    bool is_persistent, is_short;
    int capacity;
    unsigned char *buf;
    int from, number; /* by the content of the message; from -1: cancelled */
    int source, tag;  /* by the status */
    int size;
};

struct worker {
    uint64_t random;
    int first_number, steps;
    int sent, taken;
    struct message messages[OPS];
    struct take **takes;
};

static const int lengths[] = {(int)sizeof(struct head), 9, 40, 300, 1000, 5000, 20000, LONGEST};

static MPI_Comm comms[CONTEXTS];
static struct worker workers[THREADS_MAX];
static int threads = 1, rounds = 12, current_round;
static uint64_t seed = 1;
static bool has_truncation = true, is_mixed;
static atomic_uint_fast64_t clock_now = 1;

static uint64_t now(void)
{
    return atomic_fetch_add(&clock_now, 1);
}

/* Are some sends of this round synchronous? */
static bool may_be_synchronous(void)
{
    return is_mixed || current_round / 2 % 2 == 1;
}

/* Are there matched probes, and receives that are too short, in this round? */
static bool may_probe(void)
{
    return is_mixed || current_round / 2 % 2 == 0;
}

static int draw(struct worker *w, int below)
{
    return (int)(next_random(&w->random) % (unsigned)below);
}

/* The last communicator has its ranks in reverse order; this function translates in both
 * directions. */
static int rank_in(int context, int of)
{
    return context == CONTEXTS - 1 && of >= 0 ? ranks - 1 - of : of;
}

/* ---- sending ------------------------------------------------------------------------- */

static void message_fill(struct message *m)
{
    struct head head = {(uint32_t)m->told.number, (uint16_t)rank, (uint16_t)current_round};

    m->buf = malloc((size_t)m->told.size);
    pattern_fill(m->buf, (size_t)m->told.size, head.number);
    memcpy(m->buf, &head, sizeof head);
}

static void send_one(struct worker *w)
{
    struct message *m = &w->messages[w->sent];
    struct rules_send *send = &m->told.send;
    int kind = draw(w, 6), to;

    *m = (struct message){
        .told = {.send = {.from = rank, .context = draw(w, CONTEXTS), .tag = draw(w, TAGS)},
                 .to = draw(w, ranks),
                 .size = lengths[draw(w, sizeof lengths / sizeof lengths[0])],
                 .number = w->first_number + w->sent++},
        .is_persistent = kind == 0};
    message_fill(m);
    to = rank_in(send->context, m->told.to);
    if (m->is_persistent)
        MPI_Send_init(m->buf, m->told.size, MPI_BYTE, to, send->tag, comms[send->context],
                      &m->request);
    send->begin = now();
    if (m->is_persistent)
        MPI_Start(&m->request);
    else if (kind == 1 && may_be_synchronous())
        MPI_Issend(m->buf, m->told.size, MPI_BYTE, to, send->tag, comms[send->context],
                   &m->request);
    else
        MPI_Isend(m->buf, m->told.size, MPI_BYTE, to, send->tag, comms[send->context],
                  &m->request);
    send->end = now();
}

/* ---- receiving ---- */

static struct take *take_new(struct worker *w, int context, int source, int tag, int capacity)
{
    struct take *t = malloc(sizeof *t);

    *t = (struct take){.rule = {.context = context, .source = source, .tag = tag},
                       .request = MPI_REQUEST_NULL,
                       .capacity = capacity,
                       .from = -1};
    t->buf = malloc((size_t)capacity + BEHIND);
    memset(t->buf, 0xdd, (size_t)capacity + BEHIND);
    w->takes = realloc(w->takes, ((size_t)w->taken + 1) * sizeof(struct take *));
    w->takes[w->taken++] = t;
    return t;
}

/* Makes a take with any source, any tag, both or neither. */
static struct take *take_any(struct worker *w, int capacity)
{
    int context = draw(w, CONTEXTS);
    int source = draw(w, 2) == 0 ? RULES_ANY : draw(w, ranks);
    int tag = draw(w, 2) == 0 ? RULES_ANY : draw(w, TAGS);

    return take_new(w, context, source, tag, capacity);
}

static int mpi_source(const struct take *t)
{
    return t->rule.source == RULES_ANY ? MPI_ANY_SOURCE
                                       : rank_in(t->rule.context, t->rule.source);
}

static int mpi_tag(const struct take *t)
{
    return t->rule.tag == RULES_ANY ? MPI_ANY_TAG : t->rule.tag;
}

/* Identifies the message by its first bytes, and compares all its bytes. */
static void take_read(struct take *t)
{
    int there = t->is_short ? t->capacity : t->size;
    struct head head;

    CHECK(there >= (int)sizeof head && there <= t->capacity);
    memcpy(&head, t->buf, sizeof head);
    CHECK_EQUAL(head.round, current_round & 0xffff);
    t->from = head.from;
    t->number = (int)head.number;
    pattern_fill(t->buf, sizeof head, head.number);
    CHECK_EQUAL(pattern_end(t->buf, (size_t)there, head.number), there);
    for (int i = there; i < t->capacity + BEHIND; i++)
        CHECK_EQUAL(t->buf[i], 0xdd);
}

/* Ends a take with the error and the status of MPI. */
static void take_end(struct take *t, int err, const MPI_Status *status)
{
    int class, cancelled;

    t->rule.over = now();
    if (t->is_persistent && t->request != MPI_REQUEST_NULL) /* Open MPI frees one that failed */
        MPI_Request_free(&t->request);
    t->request = MPI_REQUEST_NULL;
    MPI_Error_class(err, &class);
    CHECK(class == MPI_SUCCESS || (class == MPI_ERR_TRUNCATE && has_truncation));
    MPI_Test_cancelled(status, &cancelled);
    if (!cancelled) {
        t->is_short = class == MPI_ERR_TRUNCATE;
        t->source = rank_in(t->rule.context, status->MPI_SOURCE);
        t->tag = status->MPI_TAG;
        MPI_Get_count(status, MPI_BYTE, &t->size);
        take_read(t);
    }
    free(t->buf);
    t->buf = NULL;
}

static int draw_capacity(struct worker *w)
{
    return has_truncation && may_probe() && draw(w, 4) == 0 ? lengths[draw(w, 6)] : LONGEST;
}

static void post_one(struct worker *w)
{
    struct take *t = take_any(w, draw_capacity(w));
    MPI_Comm comm = comms[t->rule.context];

    t->is_persistent = draw(w, 6) == 0;
    if (t->is_persistent)
        MPI_Recv_init(t->buf, t->capacity, MPI_BYTE, mpi_source(t), mpi_tag(t), comm,
                      &t->request);
    t->rule.begin = now();
    if (t->is_persistent)
        MPI_Start(&t->request);
    else
        MPI_Irecv(t->buf, t->capacity, MPI_BYTE, mpi_source(t), mpi_tag(t), comm, &t->request);
    t->rule.end = now();
}

/* Tests a receive; a receive that is over stays as it is. */
static void test_one(struct take *t)
{
    MPI_Status status;
    int done, err;

    if (t->request == MPI_REQUEST_NULL)
        return;
    err = MPI_Test(&t->request, &done, &status);
    if (done || err != MPI_SUCCESS)
        take_end(t, err, &status);
}

static void cancel_one(struct take *t)
{
    MPI_Status status;

    if (t->request == MPI_REQUEST_NULL)
        return;
    t->rule.cancel = now();
    MPI_Cancel(&t->request);
    take_end(t, MPI_Wait(&t->request, &status), &status);
}

static struct take *some_take(struct worker *w)
{
    return w->taken > 0 ? w->takes[draw(w, w->taken)] : NULL;
}

/* Takes a message by a matched probe that waits, or does not.  Returns whether there was
 * one. */
static bool take_matched(struct take *t, bool waits)
{
    MPI_Message message;
    MPI_Status status;
    int flag = 1;

    t->rule.begin = now();
    if (waits)
        MPI_Mprobe(mpi_source(t), mpi_tag(t), comms[t->rule.context], &message, &status);
    else
        MPI_Improbe(mpi_source(t), mpi_tag(t), comms[t->rule.context], &flag, &message,
                    &status);
    t->rule.end = now();
    if (flag)
        take_end(t, MPI_Mrecv(t->buf, t->capacity, MPI_BYTE, &message, &status), &status);
    return flag;
}

/* A receive with the source and tag of a probe gets the message that the probe has seen, if no
 * other thread takes it.  Returns whether there was one. */
static bool take_probed(struct worker *w, struct take *t, bool waits)
{
    MPI_Status status;
    struct take *receive;
    int flag = 1, size;

    t->rule.is_probe = true;
    t->rule.begin = now();
    if (waits)
        MPI_Probe(mpi_source(t), mpi_tag(t), comms[t->rule.context], &status);
    else
        MPI_Iprobe(mpi_source(t), mpi_tag(t), comms[t->rule.context], &flag, &status);
    t->rule.end = t->rule.over = now();
    if (!flag)
        return false;
    MPI_Get_count(&status, MPI_BYTE, &size);
    receive = take_new(w, t->rule.context, rank_in(t->rule.context, status.MPI_SOURCE),
                       status.MPI_TAG, LONGEST);
    receive->rule.begin = now();
    MPI_Recv(receive->buf, LONGEST, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
             comms[t->rule.context], &status);
    receive->rule.end = now();
    take_end(receive, MPI_SUCCESS, &status);
    CHECK_EQUAL(receive->size, size);
    t->from = receive->from, t->number = receive->number;
    t->source = receive->source, t->tag = receive->tag, t->size = size;
    free(t->buf);
    t->buf = NULL;
    return true;
}

/* Takes a message by a probe of either kind; without a message the take is removed. */
static void take_by_probe(struct worker *w, struct take *t, bool waits, bool is_matched)
{
    if (is_matched ? take_matched(t, waits) : take_probed(w, t, waits))
        return;
    free(t->buf);
    free(t);
    w->taken--;
}

/* ---- a round --------------------------------------------------------------------------- */

static void step(struct worker *w)
{
    int dice = draw(w, 16);

    if (dice < 6)
        send_one(w);
    else if (dice < 11)
        post_one(w);
    else if (dice < 13 && some_take(w) != NULL)
        test_one(some_take(w));
    else if (dice == 13 && some_take(w) != NULL)
        cancel_one(some_take(w));
    else if (dice == 14 && may_probe())
        take_by_probe(w, take_any(w, draw_capacity(w)), false, true);
    else if (dice == 15 && threads == 1)
        take_by_probe(w, take_any(w, LONGEST), false, false);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < w->steps; i++)
        step(w);
    return NULL;
}

/* Counts the messages of each context for this rank. */
static void count_expected(int expected[CONTEXTS])
{
    int *sent = calloc((size_t)ranks * CONTEXTS, sizeof *sent);
    int *coming = calloc((size_t)ranks * CONTEXTS, sizeof *coming);

    for (int i = 0; i < threads; i++)
        for (int k = 0; k < workers[i].sent; k++) {
            const struct told *told = &workers[i].messages[k].told;

            sent[told->to * CONTEXTS + told->send.context]++;
        }
    MPI_Alltoall(sent, CONTEXTS, MPI_INT, coming, CONTEXTS, MPI_INT, MPI_COMM_WORLD);
    memset(expected, 0, CONTEXTS * sizeof *expected);
    for (int i = 0; i < ranks * CONTEXTS; i++)
        expected[i % CONTEXTS] += coming[i];
    free(coming);
    free(sent);
}

/* Subtracts the messages that were taken.  Returns how many are left in all. */
static int count_left(const int expected[CONTEXTS], int left[CONTEXTS])
{
    int all = 0;

    memcpy(left, expected, CONTEXTS * sizeof *left);
    for (int i = 0; i < threads; i++)
        for (int k = 0; k < workers[i].taken; k++) {
            const struct take *t = workers[i].takes[k];

            left[t->rule.context] -= t->from >= 0 && !t->rule.is_probe;
        }
    for (int i = 0; i < CONTEXTS; i++)
        all += left[i];
    return all;
}

static void all_takes(void (*what)(struct take *))
{
    for (int i = 0; i < threads; i++)
        for (int k = 0; k < workers[i].taken; k++)
            what(workers[i].takes[k]);
}

/* Takes all messages that arrive, by the receives that wait or by probes; then cancels the
 * receives. */
static void drain_beside(const int expected[CONTEXTS])
{
    int left[CONTEXTS];

    while (count_left(expected, left) > 0) {
        all_takes(test_one);
        for (int i = 0; i < CONTEXTS; i++)
            take_by_probe(&workers[0], take_new(&workers[0], i, RULES_ANY, RULES_ANY, LONGEST),
                          false, may_probe());
    }
    all_takes(cancel_one);
    CHECK_EQUAL(count_left(expected, left), 0); /* no message was left for them */
}

/* Cancels the receives first; the takes for the other messages wait for each. */
static void drain_behind(const int expected[CONTEXTS])
{
    int left[CONTEXTS];

    all_takes(cancel_one);
    count_left(expected, left);
    for (int i = 0; i < CONTEXTS; i++) {
        for (int k = 0; k < left[i]; k++) {
            struct take *t = take_new(&workers[0], i, RULES_ANY, RULES_ANY, LONGEST);
            MPI_Status status;

            if (k % 3 < 2) {
                take_by_probe(&workers[0], t, true, k % 3 == 0 && may_probe());
            } else {
                t->rule.begin = now();
                MPI_Recv(t->buf, t->capacity, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i],
                         &status);
                t->rule.end = now();
                take_end(t, MPI_SUCCESS, &status);
            }
        }
    }
    CHECK_EQUAL(count_left(expected, left), 0);
}

/* ---- results ---- */

/* Returns all messages of the round to this rank, as their senders report them. */
static struct told *gather(int *count)
{
    int bytes = 0, all = 0, *sizes = calloc((size_t)ranks, sizeof *sizes);
    int *places = calloc((size_t)ranks, sizeof *places);
    struct told *mine = malloc(THREADS_MAX * OPS * sizeof *mine), *told;

    for (int i = 0; i < threads; i++)
        for (int k = 0; k < workers[i].sent; k++) {
            mine[bytes / (int)sizeof *mine] = workers[i].messages[k].told;
            bytes += (int)sizeof *mine;
        }
    MPI_Allgather(&bytes, 1, MPI_INT, sizes, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        places[i] = all;
        all += sizes[i];
    }
    told = malloc((size_t)all + 1);
    MPI_Allgatherv(mine, bytes, MPI_BYTE, told, sizes, places, MPI_BYTE, MPI_COMM_WORLD);
    *count = 0;
    for (int i = 0; i < all / (int)sizeof *told; i++)
        if (told[i].to == rank)
            told[(*count)++] = told[i];
    free(mine);
    free(places);
    free(sizes);
    return told;
}

/* Returns the index of the message that a take got. */
static int find(const struct told *told, int count, const struct take *t)
{
    if (t->from < 0)
        return RULES_CANCELLED;
    for (int i = 0; i < count; i++) {
        if (told[i].send.from != t->from || told[i].number != t->number)
            continue;
        CHECK_EQUAL(t->source, t->from);
        /* for a truncated message Open MPI 4 reports the tag of the receive, 0 for any tag */
        if (!t->is_short || t->rule.tag != RULES_ANY)
            CHECK_EQUAL(t->tag, told[i].send.tag);
        CHECK_EQUAL(t->is_short, !t->rule.is_probe && told[i].size > t->capacity);
        if (!t->is_short)
            CHECK_EQUAL(t->size, told[i].size);
        return i;
    }
    CHECK(false); /* nobody has sent this message here */
    return RULES_CANCELLED;
}

static void judge(void)
{
    static char why[4000];
    int count, takes = 0, all = 0;
    struct told *told = gather(&count);
    struct rules_send *sends = malloc(((size_t)count + 1) * sizeof *sends);
    struct rules_take *rules;

    for (int i = 0; i < count; i++)
        sends[i] = told[i].send;
    for (int i = 0; i < threads; i++)
        all += workers[i].taken;
    rules = malloc(((size_t)all + 1) * sizeof *rules);
    for (int i = 0; i < threads; i++)
        for (int k = 0; k < workers[i].taken; k++) {
            rules[takes] = workers[i].takes[k]->rule;
            rules[takes++].got = find(told, count, workers[i].takes[k]);
        }
    if (!rules_allow(&(struct rules_history){sends, count, rules, takes}, why, sizeof why)) {
        fprintf(stderr, "rank %d of %d: round %d of seed %llu, %d threads:\n%s", rank, ranks,
                current_round, (unsigned long long)seed, threads, why);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    free(rules);
    free(sends);
    free(told);
}

static void worker_end(struct worker *w)
{
    for (int i = 0; i < w->sent; i++) {
        struct message *m = &w->messages[i];

        MPI_Wait(&m->request, MPI_STATUS_IGNORE);
        if (m->is_persistent)
            MPI_Request_free(&m->request);
        free(m->buf);
    }
    for (int i = 0; i < w->taken; i++)
        free(w->takes[i]);
    free(w->takes);
    w->takes = NULL;
    w->sent = w->taken = 0;
}

static void one_round(void)
{
    int expected[CONTEXTS];
    pthread_t others[THREADS_MAX];

    for (int i = 0; i < threads; i++) {
        workers[i].random =
            ((seed * 1000 + (uint64_t)current_round) * 1000 + (uint64_t)rank) * THREADS_MAX +
            (uint64_t)i;
        workers[i].first_number = i * OPS;
        workers[i].steps = OPS / threads;
        next_random(&workers[i].random);
        if (i > 0)
            CHECK_EQUAL(pthread_create(&others[i], NULL, work, &workers[i]), 0);
    }
    work(&workers[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    count_expected(expected);
    if (current_round % 2 == 0)
        drain_beside(expected);
    else
        drain_behind(expected);
    judge();
    for (int i = 0; i < threads; i++)
        worker_end(&workers[i]);
}

/* ---- start ---- */

static int read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        long value = i + 1 < argc ? strtol(argv[i + 1], NULL, 10) : 0;

        if (strcmp(argv[i], "--no-truncation") == 0) {
            has_truncation = false;
            continue;
        }
        if (strcmp(argv[i], "--mixed") == 0) {
            is_mixed = true;
            continue;
        }
        if (strcmp(argv[i], "--threads") == 0 && value >= 1 && value <= THREADS_MAX)
            threads = (int)value;
        else if (strcmp(argv[i], "--rounds") == 0 && value >= 1 && value < 1000000)
            rounds = (int)value;
        else if (strcmp(argv[i], "--seed") == 0 && value >= 1)
            seed = (uint64_t)value;
        else
            return -1;
        i++;
    }
    return 0;
}

static void start_with_threads(int *argc, char ***argv)
{
    int provided;

    if (threads == 1) {
        start(argc, argv);
        return;
    }
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
}

int main(int argc, char **argv)
{
    if (read_arguments(argc, argv) != 0) {
        fprintf(stderr,
                "usage: rules [--threads 1-%d] [--rounds N] [--seed N] "
                "[--no-truncation] [--mixed]\n",
                THREADS_MAX);
        return 2;
    }
    start_with_threads(&argc, &argv);
    for (int i = 0; i < CONTEXTS; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, 0, i == CONTEXTS - 1 ? -rank : rank, &comms[i]);
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    }
    for (current_round = 0; current_round < rounds; current_round++)
        one_round();
    for (int i = 0; i < CONTEXTS; i++)
        MPI_Comm_free(&comms[i]);
    return finish("rules");
}
