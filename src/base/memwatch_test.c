/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memwatch_test.c - after memory was unmapped, by any call, the watch reports it as gone, and
 * no other memory.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "base/memwatch.h"
#include "base/sys.h"
#include "base/unit.h"

#define PAGE    ((size_t)4096)
#define SIZE    (16 * PAGE)
#define ROUNDS  200
#define THREADS 4

static char *map_at(void *where, size_t size, int flags)
{
    char *memory =
        mmap(where, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    memset(memory, 1, size);
    return memory;
}

static uint64_t look(void)
{
    uint64_t gone;

    assert_true(memwatch_check(&gone));
    return gone;
}

static int open_watch(UNUSED void **state)
{
    return memwatch_open();
}

static int close_watch(UNUSED void **state)
{
    memwatch_close();
    assert_int_equal(sys_fds_live(), 0);
    return 0;
}

/* ---- ways to lose a page in the middle ---- */

static void unmap(char *memory)
{
    munmap(memory, SIZE);
}

static void unmap_a_page(char *memory)
{
    munmap(memory + 3 * PAGE, PAGE);
}

static void map_another(char *memory)
{
    map_at(memory, SIZE, MAP_FIXED);
}

static void drop_pages(char *memory)
{
    madvise(memory + PAGE, PAGE, MADV_DONTNEED);
}

static void move(char *memory)
{
    if (mremap(memory, SIZE, 64 * SIZE, MREMAP_MAYMOVE) == MAP_FAILED)
        abort();
}

static void shrink(char *memory)
{
    if (mremap(memory, SIZE, PAGE, 0) == MAP_FAILED)
        abort();
}

static void test_each_way_is_told(UNUSED void **state)
{
    static const struct {
        const char *name;
        void (*lose)(char *memory);
    } ways[] = {{"unmap", unmap},
                {"unmap a page", unmap_a_page},
                {"map another", map_another},
                {"drop pages", drop_pages},
                {"move", move},
                {"shrink", shrink}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const uint64_t before = look();
        char *memory = map_at(NULL, 3 * SIZE, 0) + SIZE; /* with a neighbour on each side */
        struct memwatch_range here, below, above;

        if (ways[i].lose == move)
            map_at(memory + SIZE, SIZE, MAP_FIXED); /* it cannot grow where it is */
        assert_int_equal(memwatch_add(&here, (uintptr_t)memory, SIZE), 0);
        assert_int_equal(memwatch_add(&below, (uintptr_t)memory - SIZE, SIZE), 0);
        assert_int_equal(memwatch_add(&above, (uintptr_t)memory + SIZE, SIZE), 0);
        memory[PAGE] = 2;
        assert_false(memwatch_is_gone(&here));
        ways[i].lose(memory);
        if (!memwatch_is_gone(&here))
            fail_msg("%s: not told", ways[i].name);
        assert_false(memwatch_is_gone(&below));
        assert_false(memwatch_is_gone(&above));
        assert_int_equal(look(), before + 1);
        memwatch_remove(&here);
        memwatch_remove(&below);
        memwatch_remove(&above);
    }
}

static void test_free_is_told(UNUSED void **state)
{
    const size_t size = 4 << 20; /* a mapping of its own, in any C library */
    char *memory = malloc(size);
    const uintptr_t begin = ((uintptr_t)memory + PAGE - 1) / PAGE * PAGE;
    struct memwatch_range range;

    (void)range;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    free(memory);
    assert_false(begin == 0);
    skip(); /* free() unmaps nothing there */
#else
    memset(memory, 1, size);
    assert_int_equal(memwatch_add(&range, begin, size - 2 * PAGE), 0);
    free(memory);
    assert_true(memwatch_is_gone(&range));
    memwatch_remove(&range);
#endif
}

/* Maps the same address again: the watch must tell the new memory from the old. */
static void test_mapped_again_is_watched_again(UNUSED void **state)
{
    char *memory = map_at(NULL, SIZE, 0);

    for (int i = 0; i < ROUNDS; i++) {
        struct memwatch_range range, same;

        assert_int_equal(memwatch_add(&range, (uintptr_t)memory, SIZE), 0);
        assert_int_equal(memwatch_add(&same, (uintptr_t)memory, SIZE), 0);
        memwatch_remove(&same); /* the second registration does not end the first */
        munmap(memory, SIZE);
        map_at(memory, SIZE, MAP_FIXED_NOREPLACE);
        assert_true(memwatch_is_gone(&range));
        memwatch_remove(&range);
    }
    munmap(memory, SIZE);
}

/* ---- memory that is not watched ---- */

static void refuse(void *memory, size_t size, const char *what)
{
    struct memwatch_range range;

    if (memory == MAP_FAILED || memory == NULL)
        fail_msg("no memory: %s", what);
    if (memwatch_add(&range, (uintptr_t)memory, size) != -EOPNOTSUPP)
        fail_msg("is watched: %s", what);
}

static void test_other_memory_is_refused(UNUSED void **state)
{
    char *memory = map_at(NULL, 3 * SIZE, 0);
    int fd = sys_memfd_create("test", 0);
    int segment = shmget(IPC_PRIVATE, SIZE, 0600);
    void *attached = shmat(segment, NULL, 0);

    shmctl(segment, IPC_RMID, NULL);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    refuse(attached, SIZE, "a segment of System V");
    refuse(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), SIZE, "shared, a file");
    refuse(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), SIZE,
           "private, a file");
    refuse(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), SIZE,
           "shared, without a file");
    mprotect(memory, PAGE, PROT_READ);
    refuse(memory, SIZE, "cannot be written");
    munmap(memory + 2 * SIZE, SIZE);
    refuse(memory + SIZE, 2 * SIZE, "its end is not mapped");
    shmdt(attached);
    sys_close(fd);
}

/* ---- threads, failures, the end ---- */

static void *unmap_often(UNUSED void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct memwatch_range range;
        char *memory = map_at(NULL, SIZE, 0);

        if (memwatch_add(&range, (uintptr_t)memory, SIZE) != 0)
            abort();
        munmap(memory, SIZE);
        if (!memwatch_is_gone(&range))
            abort();
        memwatch_remove(&range);
    }
    return NULL;
}

static void test_threads(UNUSED void **state)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, unmap_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *unmap_once(void *memory)
{
    munmap(memory, SIZE);
    return NULL;
}

/* The thread that unmaps has not returned, and the watch has read nothing: the address is
 * already free. */
static void test_being_unmapped(UNUSED void **state)
{
    char *memory = map_at(NULL, SIZE, 0);
    struct memwatch_range range;
    pthread_t thread;
    uint64_t gone;

    assert_int_equal(memwatch_add(&range, (uintptr_t)memory, SIZE), 0);
    assert_true(memwatch_check(&gone));
    assert_int_equal(sys_fail_name("read", SYS_FAIL_ALWAYS, EIO), 0);
    assert_int_equal(pthread_create(&thread, NULL, unmap_once, memory), 0);
    while (msync(memory, SIZE, MS_ASYNC) == 0)
        sys_yield();
    assert_false(memwatch_is_gone(&range));
    assert_false(memwatch_check(&gone));
    sys_fail_none();
    pthread_join(thread, NULL);
    assert_true(memwatch_is_gone(&range));
    assert_true(memwatch_check(&gone));
    memwatch_remove(&range);
}

/* Memory that is still registered with the kernel then can still be unmapped. */
static void test_after_the_last_close(void **state)
{
    char *memory = map_at(NULL, SIZE, 0);
    struct memwatch_range range, part;

    assert_int_equal(memwatch_add(&range, (uintptr_t)memory, SIZE), 0);
    assert_int_equal(memwatch_add(&part, (uintptr_t)memory, PAGE), 0);
    memwatch_remove(&range); /* the rest, outside the part, stays registered */
    memwatch_remove(&part);
    close_watch(state);
    munmap(memory, SIZE);
    assert_int_equal(open_watch(state), 0);
}

static void test_failures(void **state)
{
    static const char *const calls[] = {"userfaultfd", "ioctl", "eventfd"};
    char *memory = map_at(NULL, SIZE, 0);
    struct memwatch_range range;

    close_watch(state);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(sys_fail_name(calls[i], 1, EMFILE), 0);
        assert_int_equal(memwatch_open(), -EMFILE);
        sys_fail_none();
        assert_int_equal(sys_fds_live(), 0);
    }
    assert_int_equal(sys_fail_name("userfaultfd", 1, EPERM), 0);
    assert_int_equal(memwatch_open(), -EOPNOTSUPP);
    assert_int_equal(open_watch(state), 0);
    assert_int_equal(sys_fail_name("ioctl", 1, EBUSY), 0);
    assert_int_equal(memwatch_add(&range, (uintptr_t)memory, SIZE), -EBUSY);
    assert_int_equal(sys_fail_name("open", 1, EMFILE), 0);
    assert_int_equal(memwatch_add(&range, (uintptr_t)memory, SIZE), -EOPNOTSUPP);
    sys_fail_none();
    munmap(memory, SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_way_is_told),
        cmocka_unit_test(test_free_is_told),
        cmocka_unit_test(test_mapped_again_is_watched_again),
        cmocka_unit_test(test_other_memory_is_refused),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_being_unmapped),
        cmocka_unit_test(test_after_the_last_close),
        cmocka_unit_test(test_failures),
    };

    if (memwatch_open() == -EOPNOTSUPP) {
        printf("left out: the kernel does not tell this process what is unmapped\n");
        return 77;
    }
    memwatch_close();
    return cmocka_run_group_tests(tests, open_watch, close_watch);
}
