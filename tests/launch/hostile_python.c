/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile_python.c - a rank that is no Python program, and has the symbols and structures of one, for
 * python_memory_test.py.
 *
 * usage: hostile_python KIND
 *
 *   right    the structures of Python 3.11, with one thread in "solve.py", line 7, in "exchange"
 *   others   the same with one thing wrong, see kinds[]
 *
 * It prints "ready PID", and then waits for a message of itself that never comes.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <matchbox/matchbox.h>

#define VISIBLE __attribute__((visibility("default")))

extern uint64_t _PyRuntime[2048], Py_Version;
VISIBLE uint64_t _PyRuntime[2048], Py_Version = 0x030b02f0; /* 3.11.2 */

/* Objects, as words of 8 bytes. */
static uint64_t interpreter[8], thread[32], other_thread[32], holder[2], frame[16], code[64],
    file[64], name[64], lines[64];

static uint64_t address(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

static void make_text(uint64_t *object, unsigned kind, const void *characters, uint64_t length)
{
    object[2] = length;
    object[4] = kind << 2 | 1u << 5 | (kind == 1 ? 1u << 6 : 0); /* compact; ASCII */
    memcpy(object + (kind == 1 ? 6 : 9), characters, length * kind);
}

static void make_lines(const char *bytes, uint64_t size)
{
    lines[2] = size;
    memcpy(lines + 4, bytes, size);
}

static void make_right(void)
{
    _PyRuntime[5] = address(interpreter);
    interpreter[2] = address(thread);
    thread[20] = (uint64_t)syscall(SYS_gettid);
    thread[7] = address(holder);
    holder[1] = address(frame);
    frame[4] = address(code);
    frame[7] = address(code + 23); /* its first instruction */
    code[14] = address(file);
    code[15] = address(name);
    code[17] = address(lines);
    code[9] = 7;
    make_text(file, 1, "/home/a/solve.py", 16);
    make_text(name, 1, "exchange", 8);
    make_lines("\x80\x00", 2); /* one instruction, in the first line */
}

/* ---- what is wrong ---- */

static void right(void)
{
}

static void garbage(void)
{
    uint64_t x = 88172645463325252;

    for (unsigned i = 0; i < 2048; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        _PyRuntime[i] = x;
    }
}

/* 3.13 with a table of arbitrary offsets, of which none is large. */
static void table(void)
{
    garbage();
    for (unsigned i = 0; i < 2048; i++)
        _PyRuntime[i] %= 4096;
    memcpy(_PyRuntime, "xdebugpy", 8);
    _PyRuntime[1] = Py_Version = 0x030d01f0;
    _PyRuntime[2] = 0;
}

static void large_table(void)
{
    table();
    _PyRuntime[43] = UINT64_MAX;
}

static void no_table(void)
{
    Py_Version = 0x030e00f0;
}

static void no_lock(void)
{
    table();
    _PyRuntime[1] = Py_Version = 0x030e00f0;
    _PyRuntime[2] = 1;
}

static void unknown(void)
{
    Py_Version = 0x030f00f0;
}

static void unreleased(void)
{
    Py_Version = 0x030e00a3;
}

static void old(void)
{
    Py_Version = 0;
}

static void nonsense(void)
{
    Py_Version = UINT64_MAX;
}

static void another_number(void)
{
    thread[20]++;
}

static void twice(void)
{
    memcpy(other_thread, thread, sizeof thread);
    thread[1] = address(other_thread);
}

static void threads_in_a_ring(void)
{
    twice();
    other_thread[20]++;
    other_thread[1] = address(other_thread);
}

static void interpreters_in_a_ring(void)
{
    interpreter[0] = address(interpreter);
    interpreter[2] = 0;
}

static void frames_in_a_ring(void)
{
    frame[6] = address(frame);
}

static void no_frame(void)
{
    holder[1] = 0;
}

static void frame_nowhere(void)
{
    holder[1] = 8;
}

static void long_name(void)
{
    name[2] = UINT64_MAX / 2;
}

static void no_kind(void)
{
    name[4] = 7 << 2 | 1u << 5;
}

static void long_lines(void)
{
    lines[2] = 1u << 26;
}

static void lines_without_an_end(void)
{
    memset(lines + 4, 0xff, sizeof lines - 32);
    lines[2] = sizeof lines - 32;
}

static void numbers_without_an_end(void)
{
    memset(lines + 4, 0x7f, sizeof lines - 32);
    memcpy(lines + 4, "\xe8", 1);
    lines[2] = sizeof lines - 32;
}

static void before_the_function(void)
{
    frame[7] -= 2;
}

static void after_the_function(void)
{
    frame[7] += 2;
}

static void commands(void)
{
    static const uint16_t characters[] = {'/',    0x1b,   '[',  '2',  'J',   0x9b,
                                          0x202e, 0xd800, '\n', 0xe4, 0x3bb, 0};

    make_text(file, 2, characters, sizeof characters / sizeof *characters);
    make_text(name, 1, "\033]0;x\007", 6);
}

static uint64_t frames[1024][16];

/* The thread is in another frame all the time. */
static void *move(void *unused)
{
    (void)unused;
    for (unsigned i = 0;; i++)
        *(volatile uint64_t *)&holder[1] = address(frames[i % 1024]);
    return NULL;
}

static void restless(void)
{
    pthread_t mover;

    for (unsigned i = 0; i < 1024; i++)
        memcpy(frames[i], frame, sizeof frame);
    if (pthread_create(&mover, NULL, move, NULL) != 0)
        exit(1);
}

static const struct {
    const char *name;
    void (*make)(void);
} kinds[] = {
    {"right", right},
    {"garbage", garbage},
    {"table", table},
    {"large_table", large_table},
    {"no_table", no_table},
    {"no_lock", no_lock},
    {"unknown", unknown},
    {"unreleased", unreleased},
    {"old", old},
    {"nonsense", nonsense},
    {"another_number", another_number},
    {"twice", twice},
    {"threads_in_a_ring", threads_in_a_ring},
    {"interpreters_in_a_ring", interpreters_in_a_ring},
    {"frames_in_a_ring", frames_in_a_ring},
    {"no_frame", no_frame},
    {"frame_nowhere", frame_nowhere},
    {"long_name", long_name},
    {"no_kind", no_kind},
    {"long_lines", long_lines},
    {"lines_without_an_end", lines_without_an_end},
    {"numbers_without_an_end", numbers_without_an_end},
    {"before_the_function", before_the_function},
    {"after_the_function", after_the_function},
    {"commands", commands},
    {"restless", restless},
};

static void must(int err, const char *what)
{
    if (err >= 0)
        return;
    fprintf(stderr, "hostile_python: %s: %s\n", what, mbx_strerror(err));
    exit(1);
}

int main(int argc, char **argv)
{
    struct mbx_completion completion;
    struct mbx_job *job;
    struct mbx_ep *ep;
    mbx_request request;
    char byte;

    make_right();
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (argc == 2 && strcmp(argv[1], kinds[i].name) == 0)
            kinds[i].make();
    must(mbx_job_open(&job), "mbx_job_open");
    must(mbx_open(&(struct mbx_config){.key = mbx_job_key(job)}, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    must(mbx_recv(ep, 0, 1, 7, 0, &byte, 1, NULL, &request), "mbx_recv");
    printf("ready %ld\n", (long)getpid());
    fflush(stdout);
    must(mbx_wait(ep, request, -1, &completion), "mbx_wait");
    return 2;
}
