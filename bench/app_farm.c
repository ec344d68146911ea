/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * app_farm.c - the message pattern of a master with workers.
 *
 *   rank 0    tasks ─> workers, at most `window` active at each
 *             results <─ any worker, any tag
 *
 * A task is a small tree: its result is a number, and perhaps `branch` further tasks, until
 * `depth` is reached.  The tag gives the kind of the task or result.  The sender and the
 * kind of the next result are unknown, so the master receives from ANY_SOURCE with ANY_TAG:
 * `posted` receives wait at all times, or with --posted 0 it probes and then receives the
 * message that it found.  Workers receive from rank 0 with ANY_TAG, including the end.
 *
 * Self-check  Every result fits its task, no task is answered twice, and the sum
 *             of all results equals the one that rank 0 computes by itself.
 */
#include "app.h"

#define KINDS   7 /* tags 1..KINDS */
#define TAG_END 0
#define WORDS   4 /* of a task or result: number, depth, seed, result */

static long tasks = 400, depth = 2, branch = 2, window = 4, posted = 8, words = 8, work = 200;

static const struct app_option options[] = {
    {"--tasks", "tasks at the root of a tree", 1, 10000000, &tasks},
    {"--depth", "generations of a tree", 1, 8, &depth},
    {"--branch", "tasks that follow from one", 1, 16, &branch},
    {"--window", "tasks under way per worker", 1, 100000, &window},
    {"--posted", "receives that the master keeps posted; 0 it probes", 0, 100000, &posted},
    {"--words", "numbers in a message", WORDS, 1 << 20, &words},
    {"--work", "rounds of computing per task, up to twice", 0, 1000000000, &work},
};

static const char about[] =
    "Master and workers: results come from ANY_SOURCE with ANY_TAG, and lead to more tasks.\n";

/* ---- tasks ---- */

struct task {
    uint64_t number, depth, seed;
};

static int task_kind(const struct task *task)
{
    return 1 + (int)(task->seed % KINDS);
}

static uint64_t task_result(const struct task *task)
{
    uint64_t result = task->seed;
    long rounds = work + (work != 0 ? (long)(task->seed % (uint64_t)work) : 0);

    for (long i = 0; i <= rounds; i++)
        result = app_mix(result, task->depth);
    return result;
}

static void message_fill(uint64_t *message, const struct task *task, uint64_t result)
{
    message[0] = task->number;
    message[1] = task->depth;
    message[2] = task->seed;
    message[3] = result;
    for (long i = WORDS; i < words; i++)
        message[i] = app_mix(result, (uint64_t)i);
}

static struct task message_check(const uint64_t *message)
{
    for (long i = WORDS; i < words; i++)
        CHECK_EQUAL(message[i], app_mix(message[3], (uint64_t)i));
    return (struct task){message[0], message[1], message[2]};
}

/* ---- workers ---- */

static void serve(void)
{
    uint64_t *message = app_alloc((size_t)words, sizeof *message);

    for (;;) {
        struct task task;
        MPI_Status status;

        MPI_Recv(message, (int)words, MPI_UINT64_T, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_END)
            break;
        task = message_check(message);
        CHECK_EQUAL(status.MPI_TAG, task_kind(&task));
        message_fill(message, &task, task_result(&task));
        MPI_Send(message, (int)words, MPI_UINT64_T, 0, task_kind(&task), MPI_COMM_WORLD);
    }
    free(message);
}

/* ---- the master ---- */

/* An active task, and its message. */
struct slot {
    struct task task;
    int is_used;
    MPI_Request request;
    uint64_t *message;
};

struct farm {
    struct task *waiting; /* a stack */
    size_t waiting_count, waiting_capacity;
    struct slot *slots; /* window slots per worker */
    size_t total, made, done;
    uint64_t sum;
    MPI_Request *requests; /* posted */
    uint64_t *in;
};

/* The number of tasks in one tree. */
static size_t tree_size(void)
{
    size_t size = 0, row = 1;

    for (long i = 0; i < depth; i++, row *= (size_t)branch)
        size += row;
    return size;
}

static void farm_add(struct farm *farm, uint64_t task_depth, uint64_t task_seed)
{
    CHECK(farm->made < farm->total && farm->waiting_count < farm->waiting_capacity);
    farm->waiting[farm->waiting_count++] = (struct task){farm->made++, task_depth, task_seed};
}

static struct slot *farm_slot(const struct farm *farm, int worker, long i)
{
    return &farm->slots[(worker - 1) * window + i];
}

/* Sends tasks to the worker until its window is full. */
static void farm_feed(struct farm *farm, int worker)
{
    for (long i = 0; i < window && farm->waiting_count > 0; i++) {
        struct slot *slot = farm_slot(farm, worker, i);

        if (slot->is_used)
            continue;
        slot->task = farm->waiting[--farm->waiting_count];
        slot->is_used = 1;
        message_fill(slot->message, &slot->task, 0);
        MPI_Isend(slot->message, (int)words, MPI_UINT64_T, worker, task_kind(&slot->task),
                  MPI_COMM_WORLD, &slot->request);
    }
}

/* Frees the slot of an answered task, of which there must be exactly one. */
static void farm_answered(struct farm *farm, const struct task *task, int worker)
{
    for (long i = 0; i < window; i++) {
        struct slot *slot = farm_slot(farm, worker, i);

        if (!slot->is_used || slot->task.number != task->number)
            continue;
        CHECK_EQUAL(task->seed, slot->task.seed);
        CHECK_EQUAL(task->depth, slot->task.depth);
        MPI_Wait(&slot->request, MPI_STATUS_IGNORE);
        slot->is_used = 0;
        return;
    }
    check_at((long long)task->number, -1, "a result that nobody asked for", __FILE__, __LINE__);
}

static void farm_take(struct farm *farm, const uint64_t *message, const MPI_Status *status)
{
    struct task task = message_check(message);

    farm_answered(farm, &task, status->MPI_SOURCE);
    CHECK_EQUAL(status->MPI_TAG, task_kind(&task));
    CHECK_EQUAL(message[3], task_result(&task));
    farm->done++;
    farm->sum += message[3];
    if (task.depth + 1 < (uint64_t)depth)
        for (long i = 0; i < branch; i++)
            farm_add(farm, task.depth + 1, app_mix(task.seed, (uint64_t)i));
    for (int worker = 1; worker < ranks; worker++)
        farm_feed(farm, worker);
}

static void farm_post(struct farm *farm, int i)
{
    MPI_Irecv(farm->in + (size_t)i * (size_t)words, (int)words, MPI_UINT64_T, MPI_ANY_SOURCE,
              MPI_ANY_TAG, MPI_COMM_WORLD, &farm->requests[i]);
}

/* Runs the farm with receives that are posted ahead. */
static void farm_run_posted(struct farm *farm)
{
    uint64_t *copy = app_alloc((size_t)words, sizeof *copy);

    for (int i = 0; i < posted; i++)
        farm_post(farm, i);
    for (int worker = 1; worker < ranks; worker++)
        farm_feed(farm, worker);
    while (farm->done < farm->total) {
        MPI_Status status;
        int i;

        MPI_Waitany((int)posted, farm->requests, &i, &status);
        memcpy(copy, farm->in + (size_t)i * (size_t)words, (size_t)words * sizeof *copy);
        farm_post(farm, i);
        farm_take(farm, copy, &status);
    }
    for (int i = 0; i < posted; i++) {
        MPI_Cancel(&farm->requests[i]);
        MPI_Wait(&farm->requests[i], MPI_STATUS_IGNORE);
    }
    free(copy);
}

/* Runs the farm with a probe before each receive. */
static void farm_run_probing(struct farm *farm)
{
    for (int worker = 1; worker < ranks; worker++)
        farm_feed(farm, worker);
    while (farm->done < farm->total) {
        MPI_Status seen, status;

        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &seen);
        MPI_Recv(farm->in, (int)words, MPI_UINT64_T, seen.MPI_SOURCE, seen.MPI_TAG,
                 MPI_COMM_WORLD, &status);
        farm_take(farm, farm->in, &status);
    }
}

/* The sum of a tree, computed locally. */
static uint64_t tree_sum(uint64_t tree_depth, uint64_t tree_seed)
{
    const struct task task = {0, tree_depth, tree_seed};
    uint64_t sum = task_result(&task);

    if (tree_depth + 1 < (uint64_t)depth)
        for (long i = 0; i < branch; i++)
            sum += tree_sum(tree_depth + 1, app_mix(tree_seed, (uint64_t)i));
    return sum;
}

static void farm_check(const struct farm *farm)
{
    uint64_t want = 0;

    for (long i = 0; i < tasks; i++)
        want += tree_sum(0, app_mix(7, (uint64_t)i));
    CHECK_EQUAL(farm->sum, want);
    CHECK_EQUAL(farm->made, farm->total);
    CHECK_EQUAL(farm->waiting_count, 0);
}

static void farm_init(struct farm *farm)
{
    size_t slots = (size_t)(ranks - 1) * (size_t)window;
    size_t receives = posted > 0 ? (size_t)posted : 1;

    *farm = (struct farm){.total = (size_t)tasks * tree_size()};
    farm->waiting_capacity = farm->total;
    farm->waiting = app_alloc(farm->total, sizeof *farm->waiting);
    farm->slots = app_alloc(slots, sizeof *farm->slots);
    for (size_t i = 0; i < slots; i++)
        farm->slots[i].message = app_alloc((size_t)words, sizeof(uint64_t));
    farm->requests = app_alloc(receives, sizeof(MPI_Request));
    farm->in = app_alloc(receives * (size_t)words, sizeof *farm->in);
    for (long i = 0; i < tasks; i++)
        farm_add(farm, 0, app_mix(7, (uint64_t)i));
}

static void farm_fini(struct farm *farm)
{
    for (long i = 0; i < (ranks - 1) * window; i++)
        free(farm->slots[i].message);
    free(farm->waiting);
    free(farm->slots);
    free(farm->requests);
    free(farm->in);
}

static void command(void)
{
    struct farm farm;

    farm_init(&farm);
    if (posted > 0)
        farm_run_posted(&farm);
    else
        farm_run_probing(&farm);
    for (int worker = 1; worker < ranks; worker++)
        MPI_Send(farm.in, (int)words, MPI_UINT64_T, worker, TAG_END, MPI_COMM_WORLD);
    farm_check(&farm);
    printf("app_farm tasks=%zu window=%ld posted=%ld\n", farm.total, window, posted);
    farm_fini(&farm);
}

int main(int argc, char **argv)
{
    app_start(argc, argv, "app_farm", about, options, sizeof options / sizeof options[0]);
    if (rank == 0)
        command();
    else
        serve();
    return finish("app_farm");
}
