/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - mbx-adapter: the software adapter of this host, for libmbx-adapter.so.
 *
 * The library starts it when a device is opened and no adapter answers; it ends with its last
 * client.  It works in one thread: it looks at doorbells, runs queue pairs that have something to
 * do, and sleeps in poll() after SPIN_NS without work.  It belongs to no terminal and holds no
 * descriptor of whoever started it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"
#include "base/sys.h"

#define ROUNDS_BLIND  16             /* of work, until the descriptors are looked at again */
#define FIRST_CLIENT  (10 * CLOCK_S) /* until then one has come, or nobody needs us */
#define FDS_OF_CLIENT 3

struct adapter_counters counters;
unsigned char bounce[FRAME_DATA];
static int listener = -1;

/* ---- the socket ---- */

static socklen_t socket_name(struct sockaddr_un *name)
{
    char text[64];
    const int size = snprintf(text, sizeof text, ADAPTER_SOCKET, (unsigned)geteuid());

    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path + 1, text, (size_t)size); /* abstract: a zero is in front */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);
}

static int open_socket(void)
{
    struct sockaddr_un name;
    const socklen_t size = socket_name(&name);

    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (const struct sockaddr *)&name, size) != 0 ||
        listen(listener, 64) != 0)
        return -errno;
    return 0;
}

/* ---- the loop ---- */

bool look_at_doorbells(void)
{
    bool rang = false;
    struct list *node;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);
        uint64_t now;

        if (client->page == NULL)
            continue;
        now = atomic_load_explicit(&client->page->doorbell, memory_order_acquire);
        if (now == client->doorbell)
            continue;
        client->doorbell = now;
        client_doorbell(client);
        rang = true;
    }
    return rang;
}

static bool run_queue_pairs(void)
{
    struct list now;
    struct list *node;
    bool ran = false;

    list_init(&now);
    list_splice_tail(&now, &runnable);
    while ((node = list_pop_head(&now)) != NULL) {
        qp_run(container_of(node, struct qp, run));
        ran = true;
    }
    return ran;
}

static void end_clients(void)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &clients) {
        struct client *client = container_of(node, struct client, node);

        if (client->is_gone)
            client_end(client);
    }
}

static void set_sleeps(bool sleeps)
{
    struct list *node;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        if (client->page != NULL)
            atomic_store_explicit(&client->page->sleeps, sleeps, memory_order_seq_cst);
    }
}

static int timeout_ms(uint64_t now)
{
    const uint64_t until = qps_wait_until();

    if (until == NEVER)
        return -1;
    return until <= now ? 0 : (int)min_size((until - now) / CLOCK_MS + 1, 1000000);
}

/* Waits at most so long for a descriptor, and serves what is ready. */
static void serve_descriptors(int timeout)
{
    struct list *node, *next;
    uint32_t count = 1, i = 1;
    struct pollfd *fds;

    list_for_each (node, &clients)
        count += FDS_OF_CLIENT;
    fds = mem_calloc(count + wire_count(), sizeof *fds);
    if (fds == NULL)
        return;
    fds[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    list_for_each (node, &clients) {
        const struct client *client = container_of(node, struct client, node);

        fds[i++] = (struct pollfd){.fd = client->sock, .events = POLLIN};
        fds[i++] = (struct pollfd){.fd = client->pidfd, .events = POLLIN};
        fds[i++] = (struct pollfd){.fd = client->doorbell_fd, .events = POLLIN};
    }
    wire_fds(fds + count);
    if (sys_poll(fds, count + wire_count(), timeout) > 0) {
        const uint32_t of_wire = wire_count();

        i = 1;
        list_for_each_safe (node, next, &clients) {
            struct client *client = container_of(node, struct client, node);
            uint64_t rings;

            if (fds[i + 2].revents & POLLIN)
                (void)!read(client->doorbell_fd, &rings, sizeof rings);
            if (fds[i].revents != 0)
                client_serve(client);
            if (fds[i + 1].revents != 0)
                client->is_gone = true;
            i += FDS_OF_CLIENT;
        }
        wire_serve(fds + count, of_wire);
        if (fds[0].revents != 0)
            client_accept(listener);
    }
    mem_free(fds);
}

/* A client that has rung since it was told that we sleep rings again: through its descriptor. */
static void sleep_a_while(void)
{
    set_sleeps(true);
    if (!look_at_doorbells() && list_is_empty(&runnable))
        serve_descriptors(timeout_ms(clock_now()));
    set_sleeps(false);
}

static void work(void)
{
    const uint64_t began = clock_now();
    uint64_t idle_since = 0, crowded_until = 0;
    bool had_client = false;

    for (uint32_t round = 0;; round++) {
        bool rang, dawdles, is_busy;
        uint64_t now;

        while (step_is_held()) {
            serve_descriptors(-1);
            end_clients();
        }
        rang = look_at_doorbells();
        dawdles = tm_dawdle();
        is_busy = run_queue_pairs() || dawdles || rang;
        now = clock_now();
        qps_look_at_clock(now);
        end_clients();
        if (!clients_are_gone())
            had_client = true;
        else if (had_client || now - began > FIRST_CLIENT) {
            client_accept(listener); /* who came meanwhile */
            if (clients_are_gone())
                return;
        }
        if (is_busy) {
            idle_since = 0;
            if (round % ROUNDS_BLIND != 0 && wire_count() == 0)
                continue;
            serve_descriptors(0);
            continue;
        }
        if (idle_since == 0)
            idle_since = now;
        if (!had_client)
            serve_descriptors((int)(FIRST_CLIENT / CLOCK_MS));
        else if (now - idle_since > SPIN_NS || now < crowded_until)
            sleep_a_while();
        else {
            if (round % ROUNDS_BLIND == 0 || wire_count() > 0)
                serve_descriptors(0);
            sys_yield();
            if (clock_now() - now > SPIN_NS)
                crowded_until = now + CROWDED_NS;
        }
    }
}

/* ---- counters ---- */

static void print_counters(FILE *file, const struct adapter_counters *values)
{
#define PRINT(name) fprintf(file, #name " %lu\n", (unsigned long)values->name);
    ADAPTER_COUNTERS_OF(PRINT)
#undef PRINT
}

static void write_counters(const char *path)
{
    FILE *file = path != NULL && *path != '\0' ? fopen(path, "we") : NULL;

    if (file == NULL)
        return;
    print_counters(file, &counters);
    fclose(file);
}

/* Asks the adapter that runs on this host. */
static int show_counters(void)
{
    struct sockaddr_un name;
    const socklen_t size = socket_name(&name);
    const struct adapter_request request = {.op = ADAPTER_COUNTERS};
    struct adapter_reply reply;
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (sock < 0 || connect(sock, (const struct sockaddr *)&name, size) != 0) {
        fprintf(stderr, "mbx-adapter: no adapter runs on this host\n");
        return 1;
    }
    if (send(sock, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
        recv(sock, &reply, sizeof reply, 0) != (ssize_t)sizeof reply || reply.error != 0) {
        fprintf(stderr,
                "mbx-adapter: the adapter of this host does not answer; is it of another "
                "build?\n");
        return 1;
    }
    print_counters(stdout, &reply.counters);
    return 0;
}

/* ---- the beginning ---- */

/* An adapter works wherever its first application has been bound to: here on any processor, or on the
 * one that the environment names. */
static int choose_processor(void)
{
    const char *text = getenv(ADAPTER_ENV_CPU);
    char *end = NULL;
    cpu_set_t set;
    unsigned long number;

    if (text == NULL || text[0] == '\0') {
        memset(&set, 0xff, sizeof set);
        sched_setaffinity(0, sizeof set, &set);
        return 0;
    }
    number = strtoul(text, &end, 10);
    CPU_ZERO(&set);
    if (*end == '\0' && number < CPU_SETSIZE)
        CPU_SET(number, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0)
        return 0;
    fprintf(stderr,
            "mbx-adapter: " ADAPTER_ENV_CPU
            "=%s: it has to be the number of a processor that may "
            "be used here\n",
            text);
    return -EINVAL;
}

static void leave_everything(void)
{
    const char *log = getenv(ADAPTER_ENV_LOG);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int file =
        log != NULL ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : null;

    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(fd == 2 && file >= 0 ? file : null, fd);
    setsid();
    if (chdir("/") != 0)
        _exit(1);
}

static int usage(void)
{
    fprintf(stderr, "usage: mbx-adapter [--counters]\n"
                    "\n"
                    "The software adapter of this host.  libmbx-adapter.so starts it when it "
                    "is needed, and it\n"
                    "ends with its last application; docs/adapter.md says how to use it.  "
                    "--counters prints what\n"
                    "the one that runs here has counted.\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *interface = getenv(ADAPTER_ENV_INTERFACE);
    int err;

    if (argc == 2 && strcmp(argv[1], "--counters") == 0)
        return show_counters();
    if (argc != 1)
        return usage();
    signal(SIGPIPE, SIG_IGN);
    err = open_socket();
    if (err == -EADDRINUSE)
        return 0; /* another one was faster */
    if (err != 0) {
        fprintf(stderr, "mbx-adapter: its socket: %s\n", strerror(-err));
        return 1;
    }
    if (choose_processor() != 0 || tm_read_environment() != 0 ||
        wire_open(interface != NULL ? interface : "") != 0)
        return 1;
    switch (fork()) {
    case 0:
        leave_everything();
        work();
        close(listener);
        wire_close();
        write_counters(getenv(ADAPTER_ENV_STATS));
        return 0;
    case -1:
        fprintf(stderr, "mbx-adapter: %s\n", strerror(errno));
        return 1;
    default:
        return 0;
    }
}
