/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile_page.c - a process that is no rank, and shows a page as a rank does, for
 * hostile_test.py.
 *
 * usage: hostile_page KIND JOB RANK
 *
 *   silent  gives no answer, and has no root of queues
 *   walk    gives no answer, and its root leads to the longest possible queues: all slots are one object
 *   lease   has a lease on its page: a process that opens it waits
 *   many    has more pages than a process has endpoints
 *   names   answers at once, with texts that contain terminal commands
 *   line    answers at once, from a call in this program
 *
 * It prints "ready", and "opened" when somebody opens a page that has a lease; it ends with its
 * input.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "inspect/page.h"
#include "inspect/walk.h"

#define MANY    (INSPECT_ENDPOINTS_MAX + 100)
#define SLOTS   (1u << 21) /* the most that an observer accepts */
#define STRIDE  64u
#define OBJECTS 0x10000u

static struct inspect_root root;
static unsigned char endpoint[0x1000], object[OBJECTS];
static uint64_t chunks[SLOTS];

static int make_file(void)
{
    int fd = memfd_create(INSPECT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, INSPECT_PAGE_SIZE) == 0)
        return fd;
    perror("hostile_page: a page");
    exit(1);
}

static struct inspect_page *make_page(int fd, uint64_t job, uint32_t rank)
{
    struct inspect_page *page =
        mmap(NULL, INSPECT_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED) {
        perror("hostile_page: a page");
        exit(1);
    }
    page->head = (struct inspect_head){.magic = INSPECT_MAGIC,
                                       .version = INSPECT_VERSION,
                                       .size = INSPECT_PAGE_SIZE,
                                       .pid = (uint32_t)getpid(),
                                       .rank = rank,
                                       .ranks = 2,
                                       .job = job,
                                       .address = 1,
                                       .library = "0.1.0"};
    return page;
}

static void set(enum inspect_field field, uint32_t value)
{
    root.at[field].value = value;
}

static void put(uint32_t at, const void *value, size_t size)
{
    memcpy(endpoint + at, value, size);
}

/* Requests and messages share one pool, at the beginning of the endpoint; all its chunks are
 * one object. */
static void make_walk(struct inspect_page *page)
{
    static const char *const names[INSPECT_FIELDS] = {
#define NAME(name) [INSPECT_##name] = #name,
        INSPECT_FIELD_LIST(NAME)
#undef NAME
    };
    uint64_t first = (uint64_t)(uintptr_t)chunks, stride = STRIDE, live = 1;
    uint32_t slots = SLOTS;

    memcpy(root.magic, INSPECT_ROOT_MAGIC, sizeof root.magic);
    root.version = INSPECT_VERSION;
    root.fields = INSPECT_FIELDS;
    memset(root.kinds, INSPECT_SEND, sizeof root.kinds);
    for (unsigned field = 0; field < INSPECT_FIELDS; field++)
        memcpy(root.at[field].name, names[field],
               strlen(names[field]) < INSPECT_FIELD_TEXT ? strlen(names[field])
                                                         : INSPECT_FIELD_TEXT);
    for (size_t i = 0; i < SLOTS; i++)
        chunks[i] = (uint64_t)(uintptr_t)object;
    memset(object, 0xff, sizeof object);
    set(INSPECT_POOL_SLOTS, 8);
    set(INSPECT_POOL_SHIFT, 12); /* 0 */
    set(INSPECT_POOL_STRIDE, 16);
    set(INSPECT_POOL_LIVE_BIT, 24);
    set(INSPECT_SLOT_BYTES, 8);
    set(INSPECT_REQUEST_BYTES, STRIDE - 8);
    set(INSPECT_MESSAGE_BYTES, STRIDE - 8);
    for (unsigned field = INSPECT_EP_ADDRESSES; field <= INSPECT_EP_SENT; field++)
        set((enum inspect_field)field, 64);
    set(INSPECT_EP_PEEKED, 64);
    put(0, &first, sizeof first);
    put(8, &slots, sizeof slots);
    put(16, &stride, sizeof stride);
    put(24, &live, sizeof live);
    page->head.root = (uint64_t)(uintptr_t)&root;
    page->head.ep = (uint64_t)(uintptr_t)endpoint;
}

static void on_open(int signal)
{
    static const char opened[] = "opened\n";

    (void)signal;
    if (write(STDOUT_FILENO, opened, sizeof opened - 1) < 0)
        _exit(1);
}

/* Makes the only descriptor of the page, because a lease permits no other. */
static void make_lease(int fd)
{
    char path[64];
    int only;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    only = open(path, O_RDWR | O_CLOEXEC);
    close(fd);
    signal(SIGIO, on_open);
    if (only >= 0 && fcntl(only, F_SETLEASE, F_WRLCK) == 0)
        return;
    if (only >= 0 && errno == EINVAL) { /* the kernel has none, or they are turned off */
        printf("no lease\n");
        exit(0);
    }
    perror("hostile_page: a lease");
    exit(1);
}

static void answer(struct inspect_page *page)
{
    static const char text[] = "rank=0 pid=1 x=\x1b[2J\x9b"
                               "31m\xc2\x9b"
                               "31m\xff\ncontext 5 2 \x9b"
                               "31m\x1b]0;title\x07\n";

    memcpy((char *)page + INSPECT_TEXT_AT, text, sizeof text - 1);
    page->state.text_size = sizeof text - 1;
    page->checks++;
    atomic_store(&page->state.answered, atomic_load(&page->ask));
}

/* The place in the program is this function. */
static void be_in_a_call(struct inspect_page *page)
{
    memcpy(page->state.call, "MPI_Recv", sizeof "MPI_Recv");
    page->state.caller = (uint64_t)(uintptr_t)&be_in_a_call + 4;
    page->state.entries = page->state.counts[INSPECT_POSTED] = 1;
    *inspect_page_entries(page) =
        (struct inspect_entry){.kind = INSPECT_POSTED, .needs = 1, .peer = INSPECT_NOBODY};
}

static void allow_many(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    const char *kind = argc == 4 ? argv[1] : "";
    uint64_t job = argc == 4 ? strtoull(argv[2], NULL, 16) : 0;
    uint32_t rank = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    int fd = make_file(), flags = fcntl(STDIN_FILENO, F_GETFL);
    struct inspect_page *page = make_page(fd, job, rank);
    char byte;

    if (strcmp(kind, "walk") == 0)
        make_walk(page);
    if (strcmp(kind, "line") == 0)
        be_in_a_call(page);
    if (strcmp(kind, "many") == 0)
        allow_many();
    for (unsigned i = 1; strcmp(kind, "many") == 0 && i < MANY; i++)
        munmap(make_page(make_file(), job, rank), INSPECT_PAGE_SIZE);
    if (strcmp(kind, "lease") == 0) {
        munmap(page, INSPECT_PAGE_SIZE);
        make_lease(fd);
    }
    puts("ready");
    fflush(stdout);
    if (strcmp(kind, "names") != 0 && strcmp(kind, "line") != 0) {
        while (read(STDIN_FILENO, &byte, 1) != 0)
            ; /* continues after a signal */
        return 0;
    }
    fcntl(STDIN_FILENO, F_SETFL, flags | O_NONBLOCK);
    while (read(STDIN_FILENO, &byte, 1) != 0) {
        answer(page);
        usleep(200);
    }
    return 0;
}
