/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python_fuzz.c - the stack of a real Python program is read, but some of the read bytes are changed: the reader ends,
 * and gives a line that may be shown, or none.
 *
 * The program is a child that waits for its input.  For each change, the bytes of an input give the number of the read, the
 * position, the size and the new value.  Without a Python that can be read here, only garbage is read.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/text.h"
#include "fuzz/program.h"
#include "tools/observe/memory.h"
#include "tools/observe/python.h"

#define CHANGES_MAX 8
#define READS_MAX   40000 /* then reading fails, so that no input takes long */
#define TRIES_MAX   100000

static const char program[] = "import os\n"
                              "def outer(wait):\n"
                              "    return [x for x in sorted([1], key=lambda _: inner(wait))]\n"
                              "def inner(wait):\n"
                              "    if wait:\n"
                              "        os.write(1, b'r')\n"
                              "        os.read(0, 1)\n" /* line 7 */
                              "outer(True)\n";
static const char shown[] = "<string>:7 in inner";

static struct memory child;
static uint64_t runtime, version;

static struct {
    unsigned read, at, size;
    uint64_t value;
} changes[CHANGES_MAX];
static unsigned change_count, reads;

static uint64_t number(struct input *in)
{
    static const uint64_t edges[] = {0,       1,          UINT64_MAX, INT64_MAX,     UINT32_MAX,
                                     1u << 7, UINT16_MAX, 4096,       UINT64_MAX - 7};
    unsigned kind = take(in);

    if (kind < 64)
        return edges[kind % ARRAY_COUNT(edges)];
    if (kind < 96)
        return runtime + take(in);
    if (kind < 160)
        return take(in);
    return (uint64_t)take(in) << 24 | (uint64_t)take(in) << 16 | (uint64_t)take(in) << 8 |
           take(in);
}

static int read_changed(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    (void)source;
    reads++;
    if (reads >= READS_MAX || child.source.read(&child.source, at, to, size) != 0)
        return -EFAULT;
    for (unsigned i = 0; i < change_count && size != 0; i++) {
        size_t first = changes[i].at % size;

        if (changes[i].read == reads)
            memcpy((unsigned char *)to + first, &changes[i].value,
                   min_size(size - first, changes[i].size));
    }
    return 0;
}

/* Waits until the child waits in its line, unless it is a Python that has none. */
static void await_line(void)
{
    char words[PYTHON_LINE], why[PYTHON_WHY];

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        if (python_stack_line(&child.source, runtime, version, child.pid, words, why)
                ? strcmp(words, shown) == 0
                : strstr(why, "unknown") != NULL)
            return;
        sched_yield();
    }
}

/* Starts the child; it ends with its input, when this process does. */
static void start(void)
{
    struct python_thread thread = {.pid = 0};
    struct python_place place;
    int in[2], out[2];
    char byte;
    pid_t pid;

    require(pipe(in) == 0 && pipe(out) == 0, "no pipes");
    pid = fork();
    require(pid >= 0, "no process");
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp("python3", "python3", "-c", program, (char *)NULL);
        _exit(1);
    }
    close(out[1]);
    memory_init(&child, (uint32_t)pid);
    if (read(out[0], &byte, 1) != 1)
        return;
    thread.pid = (uint32_t)pid;
    python_find(&thread, &place);
    runtime = place.runtime;
    if (place.version_at != 0)
        child.source.read(&child.source, place.version_at, &version, sizeof version);
    if (runtime != 0)
        await_line();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct inspect_source source = {read_changed};
    struct input in = {data, size};
    char words[PYTHON_LINE], why[PYTHON_WHY], copy[PYTHON_LINE];

    if (child.pid == 0)
        start();
    for (change_count = 0; change_count < CHANGES_MAX && in.size != 0; change_count++) {
        changes[change_count].read = take(&in) | (unsigned)(take(&in) % 2) << 8;
        changes[change_count].at = take(&in);
        changes[change_count].size = 1u << take(&in) % 4;
        changes[change_count].value = number(&in);
    }
    reads = 0;
    if (python_stack_line(&source, runtime, version, child.pid, words, why)) {
        require(memchr(words, '\0', sizeof words) != NULL, "the line does not end");
        memcpy(copy, words, sizeof copy);
        text_make_printable(copy, '?', false);
        require(strcmp(copy, words) == 0, "the line may not be shown");
        require(change_count != 0 || strcmp(words, shown) == 0, "it is another line");
    } else {
        require(memchr(why, '\0', sizeof why) != NULL && why[0] != '\0', "no reason");
        if (change_count == 0 && strstr(why, "unknown") == NULL && runtime != 0) {
            fprintf(stderr, "%s\n", why);
            require(false, "the program has no line");
        }
    }
    return 0;
}
