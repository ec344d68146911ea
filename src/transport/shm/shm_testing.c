/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_testing.c - see shm_testing.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/shm/shm_testing.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/memory.h"

struct board *board;
size_t payload_limit;
bool nodes_pass;

static uint64_t directory_job; /* not 0: there is a directory */
static pid_t running;          /* a child that was not reaped yet, or 0 */
static uint64_t mem_before;
static int64_t fds_before, maps_before;

void story_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, condition);
    _exit(99);
}

/* ---- the board ---- */

void stage_set(uint32_t stage)
{
    atomic_store(&board->stage, stage);
}

/* Does not wait for a child that has ended: it has logged why. */
void stage_await(uint32_t stage)
{
    bool comes = true;

    for (unsigned i = 0; i < PATIENCE_MS && comes && atomic_load(&board->stage) < stage; i++) {
        comes = running == 0 || !has_ended(running);
        usleep(1000);
    }
    CHECK(atomic_load(&board->stage) >= stage);
}

/* ---- contents ---- */

unsigned char byte_of(uint64_t number, size_t i)
{
    return (unsigned char)(number * 131 + i * 7);
}

/* Many sizes, without order. */
static size_t payload_size(uint64_t number)
{
    return number * 41 % payload_limit;
}

/* ---- events of a node ---- */

static int on_accept(void *arg, struct link *link,
                     UNUSED const struct transport_address *address, uint32_t *peer)
{
    struct node *node = arg;

    node->link = link;
    node->accepted++;
    *peer = 0;
    return 0;
}

/* Is it packet `number`, complete? */
bool is_packet(uint64_t number, const void *packet, size_t size)
{
    const unsigned char *payload = (const unsigned char *)packet + sizeof(struct wire_header);
    struct wire_header header;

    if (size != sizeof header + payload_size(number))
        return false;
    memcpy(&header, packet, sizeof header);
    if (header.tag != number)
        return false;
    for (size_t i = 0; i < payload_size(number); i++)
        if (payload[i] != byte_of(number, i))
            return false;
    return true;
}

static int on_deliver(void *arg, UNUSED uint32_t peer, const void *packet, size_t size)
{
    struct node *node = arg;

    if (!is_packet(node->arrived, packet, size))
        node->wrong = true;
    node->arrived++;
    return 0;
}

static void on_dropped(void *arg, const char *reason)
{
    struct node *node = arg;

    node->dropped++;
    node->reason = reason;
}

static const struct transport_events events = {
    .accept = on_accept,
    .deliver = on_deliver,
    .dropped = on_dropped,
};

/* ---- nodes ---- */

struct transport_config config_for(struct node *node)
{
    return (struct transport_config){
        .events = &events,
        .arg = node,
        .key = "one job, one key",
        .peers = 8,
        .settings.shm = {.ring_size = 16 << 10,
                         .attach = true,
                         .directory = directory_job != 0,
                         .job = directory_job,
                         .pass = nodes_pass ? SHM_PASS_ALWAYS : SHM_PASS_NEVER},
    };
}

int node_open_with(struct node *node, const struct transport_config *config)
{
    *node = (struct node){0};
    return transport_shm.open(config, &node->t);
}

int node_open(struct node *node)
{
    struct transport_config config = config_for(node);

    return node_open_with(node, &config);
}

int node_open_as(struct node *node, unsigned i)
{
    int err = node_open(node);

    if (err == 0)
        transport_shm.address(node->t, &board->address[i]);
    return err;
}

void node_close(struct node *node)
{
    node->t->ops->close(node->t);
}

struct shm *inside(const struct node *node)
{
    return shm_of(node->t);
}

struct link *connect_to(struct node *node, unsigned i)
{
    struct link *link = NULL;

    CHECK(transport_shm.connect(node->t, &board->address[i], &link) == 0);
    return link;
}

struct link *attach_to(struct node *node, unsigned i)
{
    struct link *link = connect_to(node, i);
    int err = -EAGAIN;

    for (unsigned n = 0; n < PATIENCE_MS && err == -EAGAIN; n++) {
        err = link_attach(link_of(link));
        if (err == -EAGAIN)
            usleep(1000);
    }
    CHECK(err == 0);
    return link;
}

unsigned slots_taken(const struct node *node)
{
    const struct shm *shm = inside(node);
    unsigned taken = 0;

    for (uint32_t i = 0; i < shm->own->peers; i++)
        taken +=
            atomic_load(&segment_slot(shm->own, i)->sender) != 0 || shm->inbound[i] != NULL;
    return taken;
}

void await_free_slots(struct node *node)
{
    uint64_t deadline = clock_now() + (uint64_t)PATIENCE_NS;

    while (slots_taken(node) != 0 && clock_now() < deadline) {
        transport_shm.wait(node->t, 20 * CLOCK_MS);
        transport_shm.poll(node->t, 64);
    }
    CHECK(slots_taken(node) == 0);
}

/* ---- packets ---- */

int send_number(struct link *link, uint64_t number)
{
    struct wire_header header = {.type = WIRE_EAGER, .version = WIRE_VERSION, .tag = number};
    size_t size = payload_size(number);
    unsigned char payload[PAYLOAD_MAX];

    for (size_t i = 0; i < size; i++)
        payload[i] = byte_of(number, i);
    return transport_shm.send(link, &(struct transport_packet){.header = &header,
                                                               .payload = payload,
                                                               .payload_size = size});
}

void stream(struct node *node, struct link *link, uint64_t first, uint64_t end)
{
    while (first < end) {
        int err = send_number(link, first);

        if (err == 0) {
            first++;
            continue;
        }
        CHECK(err == -EAGAIN);
        node->t->ops->poll(node->t, 16);
        CHECK(transport_shm.wait(node->t, PATIENCE_NS) == 0);
    }
}

void await(struct node *node, uint64_t count)
{
    while (node->arrived < count)
        if (node->t->ops->poll(node->t, 16) == 0)
            CHECK(transport_shm.wait(node->t, PATIENCE_NS) == 0);
    CHECK(!node->wrong);
}

/* ---- children ---- */

/* cmocka continues with the next test after a crash: not in a child. */
static void crash_plainly(void)
{
    static const int signals[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};

    for (unsigned i = 0; i < ARRAY_COUNT(signals); i++)
        signal(signals[i], SIG_DFL);
}

pid_t start(void (*story)(void))
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        running = 0; /* an earlier child is not a child of this process */
        crash_plainly();
        story();
        _exit(0);
    }
    running = child;
    return child;
}

static int wait_for(pid_t child)
{
    int status = -1;

    running = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

bool has_ended(pid_t child)
{
    siginfo_t info = {0};

    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
    return info.si_pid == child;
}

void ended_well(pid_t child)
{
    assert_int_equal(wait_for(child), 0);
}

void kill_unreaped(pid_t child)
{
    siginfo_t info;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
}

void reap(pid_t child)
{
    int status = wait_for(child);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- around each test, and around all ---- */

int set_up(UNUSED void **state)
{
    memset(board, 0, sizeof *board);
    payload_limit = PAYLOAD_MAX;
    mem_before = mem_live();
    fds_before = sys_fds_live();
    maps_before = sys_maps_live();
    return 0;
}

int tear_down(UNUSED void **state)
{
    if (running != 0) {
        kill(running, SIGKILL);
        wait_for(running);
    }
    sys_fail_none();
    assert_int_equal(mem_live(), mem_before);
    assert_int_equal(sys_fds_live(), fds_before);
    assert_int_equal(sys_maps_live(), maps_before);
    return 0;
}

void only_exist(void)
{
    static unsigned char memory[100000];
    struct node node;

    CHECK(node_open_as(&node, 1) == 0);
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = byte_of(5, i);
    CHECK(transport_expose(connect_to(&node, 1), memory, sizeof memory, &board->remote,
                           &board->key) == 0);
    stage_set(1);
    for (;;)
        pause();
}

bool is_passed(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "passed") == 0;
}

/* Most of the tests would log. */
static void be_quiet(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    CHECK(text != NULL);
}

int set_up_all(UNUSED void **state)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* CHECK must not lose lines of cmocka */
    log_set_sink(be_quiet, NULL);
    if (getenv("SHM_TESTING_DIRECTORY") != NULL)
        directory_job = (uint64_t)getpid();
    board = sys_mmap(sizeof *board, -1, 0);
    return board != NULL ? 0 : -1;
}

int tear_down_all(UNUSED void **state)
{
    return sys_munmap(board, sizeof *board);
}
