/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - mbx-adapter: the software adapter of this host, for libmbx-adapter.so.
 *
 * The library starts it when a program opens a device and no adapter answers; it ends with its
 * last client (loop.c).  It has no terminal, and closes all descriptors of the program that
 * started it.
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
#include "base/environ.h"
#include "base/mem.h"
#include "base/sys.h"

static int listener = -1;

/* ---- the socket ---- */

static int open_socket(void)
{
    struct sockaddr_un name;
    const socklen_t size = adapter_address(&name);

    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (const struct sockaddr *)&name, size) != 0 ||
        listen(listener, 64) != 0)
        return -errno;
    return 0;
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

/* Requests the counters of the adapter that runs on this host. */
static int show_counters(void)
{
    struct sockaddr_un name;
    const socklen_t size = adapter_address(&name);
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

/* The adapter would inherit the processor affinity of the program that started it.  This lets
 * it run on any processor, or on the one that the environment names. */
static int choose_processor(void)
{
    const char *text = environ_get(ADAPTER_ENV_CPU);
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
    const char *log = environ_get(ADAPTER_ENV_LOG);
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
                    "ends with its last application; see docs/contributing/adapter.md.  "
                    "--counters prints what\n"
                    "the one that runs here has counted.\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *interface = environ_get(ADAPTER_ENV_INTERFACE);
    int err;

    if (argc == 2 && strcmp(argv[1], "--counters") == 0)
        return show_counters();
    if (argc != 1)
        return usage();
    signal(SIGPIPE, SIG_IGN);
    err = open_socket();
    if (err == -EADDRINUSE)
        return 0; /* another daemon was faster */
    if (err != 0) {
        fprintf(stderr, "mbx-adapter: its socket: %s\n", strerror(-err));
        return 1;
    }
    if (choose_processor() != 0 ||
        tm_read_environment(ADAPTER_ENV_TAGS, ADAPTER_ENV_QUIRKS, ADAPTER_ENV_SEED) != 0 ||
        wire_open(interface != NULL ? interface : "") != 0)
        return 1;
    switch (fork()) {
    case 0:
        leave_everything();
        work(listener);
        close(listener);
        wire_close();
        write_counters(environ_get(ADAPTER_ENV_STATS));
        return 0;
    case -1:
        fprintf(stderr, "mbx-adapter: %s\n", strerror(errno));
        return 1;
    default:
        return 0;
    }
}
