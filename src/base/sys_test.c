/* SPDX-License-Identifier: BSD-3-Clause */
/* sys_test.c - each wrapper works, fails on request, and counts what it opened. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/patience.h"
#include "base/sys.h"
#include "base/unit.h"

static _Atomic uint32_t futex_word;

static int reset(UNUSED void **state)
{
    sys_fail_none();
    assert_int_equal(sys_fds_live(), 0);
    assert_int_equal(sys_maps_live(), 0);
    return 0;
}

/* ---- every wrapper fails when its name is told to ---- */

static int do_open(void)
{
    int fd = sys_open("/dev/null", O_RDONLY, 0);

    return fd < 0 ? -1 : close(fd); /* not counted here: only an injected failure gets this
                                       far */
}
static int do_read(void)
{
    char byte;

    return (int)sys_read(-1, &byte, 1);
}
static int do_write(void)
{
    return (int)sys_write(-1, "x", 1);
}
static int do_fstat(void)
{
    struct stat status;

    return sys_fstat(-1, &status);
}
static int do_memfd_create(void)
{
    return sys_memfd_create("test", 0);
}
static int do_ftruncate(void)
{
    return sys_ftruncate(-1, 0);
}
static int do_fchmod(void)
{
    return sys_fchmod(-1, 0);
}
static int do_fcntl_lock(void)
{
    return sys_fcntl_lock(-1, F_OFD_GETLK, &(struct flock){.l_type = F_WRLCK});
}

static int do_fcntl_seal(void)
{
    return sys_fcntl_seal(-1, F_GET_SEALS, 0);
}

static int do_fallocate_punch(void)
{
    return sys_fallocate_punch(-1, 0, 1);
}
static int do_mmap(void)
{
    return sys_mmap(4096, -1, 0) == NULL ? -1 : 0;
}
static int do_mremap(void)
{
    return sys_mremap(NULL, 4096, 8192) == NULL ? -1 : 0;
}
static int do_process_vm_readv(void)
{
    char byte;

    return (int)sys_process_vm_readv(getpid(), &byte, 0, 1);
}
static int do_process_vm_writev(void)
{
    char byte = 0;

    return (int)sys_process_vm_writev(getpid(), &byte, 0, 1);
}
static int do_fork(void)
{
    return sys_fork();
}
static int do_kill(void)
{
    return sys_kill(getpid(), 0);
}
static int do_pidfd_open(void)
{
    return sys_pidfd_open(getpid());
}
static int do_prctl(void)
{
    return sys_prctl(PR_GET_DUMPABLE, 0);
}
static int do_userfaultfd(void)
{
    return sys_userfaultfd(0);
}
static int do_ioctl(void)
{
    return sys_ioctl(-1, 0, NULL);
}
static int do_futex_wait(void)
{
    return sys_futex_wait(&futex_word, 1, 0);
}
static int do_futex_wake(void)
{
    return sys_futex_wake(&futex_word, 1);
}
static int do_poll(void)
{
    return sys_poll(NULL, 0, 0);
}
static int do_eventfd(void)
{
    int fd = sys_eventfd(0, 0);

    return fd < 0 ? fd : sys_close(fd);
}
static int do_socket(void)
{
    int fd = sys_socket(AF_UNIX, SOCK_STREAM);

    return fd < 0 ? fd : sys_close(fd);
}
static int do_connect(void)
{
    return sys_connect(-1, NULL, 0);
}
static int do_bind(void)
{
    return sys_bind(-1, NULL, 0);
}
static int do_listen(void)
{
    return sys_listen(-1, 1);
}
static int do_accept(void)
{
    return sys_accept(-1, NULL, NULL);
}
static int do_setsockopt(void)
{
    return sys_setsockopt(-1, SOL_SOCKET, SO_PASSCRED, 1);
}
static int do_filter(void)
{
    return sys_filter(-1, &(struct sock_fprog){.len = 0});
}
static int do_shutdown(void)
{
    return sys_shutdown(-1, SHUT_RD);
}
static int do_sendmsg(void)
{
    return (int)sys_sendmsg(-1, &(struct msghdr){0}, 0);
}
static int do_recvmsg(void)
{
    return (int)sys_recvmsg(-1, &(struct msghdr){0}, 0);
}
static int do_pread(void)
{
    char byte;

    return (int)sys_pread(-1, &byte, 1, 0);
}
static int do_membarrier(void)
{
    return sys_membarrier(MEMBARRIER_CMD_QUERY);
}
static int do_getrandom(void)
{
    char byte;

    return sys_getrandom(&byte, 1);
}
static int do_close(void)
{
    return sys_close(-1);
}
static int do_munmap(void)
{
    return sys_munmap(NULL, 0);
}

static const struct {
    const char *name;
    int (*call)(void);
} wrappers[] = {
    {"open", do_open},
    {"close", do_close},
    {"read", do_read},
    {"write", do_write},
    {"fstat", do_fstat},
    {"memfd_create", do_memfd_create},
    {"ftruncate", do_ftruncate},
    {"fchmod", do_fchmod},
    {"fcntl_seal", do_fcntl_seal},
    {"fcntl_lock", do_fcntl_lock},
    {"fallocate_punch", do_fallocate_punch},
    {"mmap", do_mmap},
    {"mremap", do_mremap},
    {"munmap", do_munmap},
    {"process_vm_readv", do_process_vm_readv},
    {"process_vm_writev", do_process_vm_writev},
    {"fork", do_fork},
    {"kill", do_kill},
    {"pidfd_open", do_pidfd_open},
    {"prctl", do_prctl},
    {"userfaultfd", do_userfaultfd},
    {"ioctl", do_ioctl},
    {"futex_wait", do_futex_wait},
    {"futex_wake", do_futex_wake},
    {"poll", do_poll},
    {"eventfd", do_eventfd},
    {"socket", do_socket},
    {"connect", do_connect},
    {"bind", do_bind},
    {"listen", do_listen},
    {"accept", do_accept},
    {"setsockopt", do_setsockopt},
    {"filter", do_filter},
    {"shutdown", do_shutdown},
    {"sendmsg", do_sendmsg},
    {"recvmsg", do_recvmsg},
    {"pread", do_pread},
    {"membarrier", do_membarrier},
    {"getrandom", do_getrandom},
};

/* None of these calls reports ENOTUNIQ by itself. */
static void test_each_wrapper_fails_by_name(UNUSED void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(wrappers); i++) {
        uint64_t calls = sys_calls(), its_calls = sys_calls_of(wrappers[i].name);

        assert_int_equal(sys_fail_name(wrappers[i].name, SYS_FAIL_ALWAYS, ENOTUNIQ), 0);
        for (int again = 0; again < 3; again++) {
            errno = 0;
            if (wrappers[i].call() != -1 || errno != ENOTUNIQ)
                fail_msg("%s did not fail", wrappers[i].name);
        }
        assert_int_equal(sys_calls(), calls + 3);
        assert_int_equal(sys_calls_of(wrappers[i].name), its_calls + 3);
        assert_int_equal(sys_fail_name(wrappers[i].name, 0, 0), 0);
    }
    assert_int_equal(sys_fail_name("no_such_call", 1, EIO), -EINVAL);
}

static void test_only_the_nth_call_fails(UNUSED void **state)
{
    for (uint64_t n = 1; n <= 5; n++) {
        sys_fail_at(n, EIO);
        for (uint64_t i = 1; i <= 5; i++) {
            errno = 0;
            assert_int_equal(i % 2 != 0 ? do_poll() : do_kill(), i == n ? -1 : 0);
            assert_int_equal(errno, i == n ? EIO : 0);
        }
    }
    sys_fail_at(2, EIO);
    sys_fail_at(0, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(do_poll(), 0);
}

static void test_a_name_counts_only_its_own_calls(UNUSED void **state)
{
    assert_int_equal(sys_fail_name("poll", 3, EIO), 0);
    assert_int_equal(sys_fail_name("kill", 1, EPERM), 0);
    assert_int_equal(do_poll(), 0);
    assert_int_equal(do_kill(), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(do_kill(), 0);
    assert_int_equal(do_poll(), 0);
    assert_int_equal(do_poll(), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(do_poll(), 0);
}

/* ---- and does its work otherwise ---- */

static void test_memory_file_life(UNUSED void **state)
{
    int fd = sys_memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned char *a, *b;
    struct stat status;

    assert_true(fd >= 0);
    assert_int_equal(sys_fds_live(), 1);
    assert_int_equal(sys_ftruncate(fd, 65536), 0);
    assert_int_equal(sys_fchmod(fd, 0600), 0);
    assert_int_equal(sys_fcntl_seal(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(sys_fcntl_seal(fd, F_GET_SEALS, 0), F_SEAL_SHRINK);
    assert_int_equal(sys_ftruncate(fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(sys_fstat(fd, &status), 0);
    assert_int_equal(status.st_size, 65536);
    a = sys_mmap(65536, fd, 0);
    b = sys_mmap(4096, fd, 4096);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(sys_maps_live(), 2);
    a[4096] = 7;
    assert_int_equal(b[0], 7); /* shared, and the offset is respected */
    assert_int_equal(sys_fallocate_punch(fd, 4096, 4096), 0);
    assert_int_equal(b[0], 0);
    assert_int_equal(sys_munmap(a, 65536), 0);
    assert_int_equal(sys_munmap(b, 4096), 0);
    a = sys_mmap(4096, fd, 0);
    assert_non_null(a);
    a[0] = 9;
    a = sys_mremap(a, 4096, 65536); /* perhaps at another address */
    assert_non_null(a);
    assert_int_equal(a[0], 9);
    a[65535] = 1;
    assert_int_equal(sys_maps_live(), 1);
    assert_int_equal(sys_munmap(a, 65536), 0);
    assert_int_equal(sys_close(fd), 0);
}

static void test_anonymous_mapping_and_impossible_one(UNUSED void **state)
{
    unsigned char *p = sys_mmap(4096, -1, 0);

    assert_non_null(p);
    p[0] = 1;
    assert_int_equal(sys_munmap(p, 4096), 0);
    assert_null(sys_mmap(0, -1, 0));
    assert_int_equal(errno, EINVAL);
}

static void test_failed_release_still_releases(UNUSED void **state)
{
    int fds[2];
    void *p;

    for (size_t i = 0; i < ARRAY_COUNT(fds); i++)
        fds[i] = sys_memfd_create("released", MFD_CLOEXEC);
    assert_int_equal(sys_fds_live(), 2);
    p = sys_mmap(4096, -1, 0);
    sys_fail_name("close", 1, EIO);
    sys_fail_name("munmap", 1, EIO);
    assert_int_equal(sys_close(fds[0]), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    assert_int_equal(sys_munmap(p, 4096), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(sys_close(fds[1]), 0);
    assert_int_equal(sys_close(fds[1]), -1); /* already closed: not counted */
}

static void test_open_read_write(UNUSED void **state)
{
    int fd = sys_open("/dev/zero", O_RDWR, 0);
    char bytes[3] = "xy";

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(sys_read(fd, bytes, 2), 2);
    assert_int_equal(bytes[0] | bytes[1], 0);
    assert_int_equal(sys_write(fd, "ab", 2), 2);
    assert_int_equal(sys_close(fd), 0);
    assert_int_equal(sys_open("/no/such/file", O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOENT);
}

/* Files fail without the signal that the kernel sends for write() and ftruncate(), which ends
 * the process. */
static void test_files_beyond_their_limit_fail(UNUSED void **state)
{
    static const unsigned char bytes[4096];
    int fd = sys_memfd_create("limit", MFD_CLOEXEC);
    struct rlimit old;

    assert_true(fd >= 0);
    signal(SIGXFSZ, SIG_DFL); /* it may have been ignored by our parent */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){sizeof bytes, old.rlim_max}), 0);
    assert_int_equal(sys_write_file(fd, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(sys_write_file(fd, bytes, 1), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(sys_ftruncate(fd, sizeof bytes + 1), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(sys_ftruncate(fd, 1), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(sys_ftruncate(fd, sizeof bytes + 1), 0);
    assert_int_equal(sys_close(fd), 0);
}

static void test_copy_from_and_to_another_process(UNUSED void **state)
{
    char remote[] = "remote text", local[sizeof remote] = "";
    int fds[2], status;
    pid_t child;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    child = sys_fork();
    if (child == 0) { /* exits with 0 if the parent overwrote its text */
        char go;

        _exit(read(fds[0], &go, 1) == 1 && strcmp(remote, "REMOTE text") == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(
        sys_process_vm_readv(child, local, (uint64_t)(uintptr_t)remote, sizeof remote),
        sizeof remote);
    assert_string_equal(local, "remote text");
    assert_int_equal(sys_process_vm_writev(child, "REMOTE", (uint64_t)(uintptr_t)remote, 6), 6);
    assert_int_equal(sys_write(fds[1], "g", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sys_process_vm_readv(getpid(), local, 8, 4), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

static void test_pidfd_tells_the_end_of_a_process(UNUSED void **state)
{
    struct pollfd waiting = {.events = POLLIN};
    pid_t child;

    child = sys_fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    waiting.fd = sys_pidfd_open(child);
    assert_true(waiting.fd >= 0);
    assert_int_equal(sys_poll(&waiting, 1, 0), 0);
    assert_int_equal(sys_kill(child, SIGKILL), 0);
    assert_int_equal(sys_poll(&waiting, 1, PATIENCE_MS), 1);
    assert_int_equal(sys_close(waiting.fd), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void *wake_when_waiting(void *arg)
{
    /* repeated until the sleeper was there: it cannot miss the wake */
    while (sys_futex_wake(&futex_word, 1) == 0)
        sched_yield();
    return arg;
}

static void test_futex_wakes_and_times_out(UNUSED void **state)
{
    uint64_t start = clock_now();
    pthread_t thread;

    futex_word = 5;
    assert_int_equal(sys_futex_wait(&futex_word, 4, UINT64_MAX), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(sys_futex_wait(&futex_word, 5, 2 * CLOCK_MS), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_true(clock_now() - start >= 2 * CLOCK_MS);
    assert_int_equal(sys_futex_wake(&futex_word, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, wake_when_waiting, NULL), 0);
    assert_int_equal(sys_futex_wait(&futex_word, 5, UINT64_MAX), 0);
    pthread_join(thread, NULL);
}

/* Runs in a child, since a sleeper that is not woken aborts.  Returns how the child ended. */
static int nap_in_a_child(uint64_t timeout_ns, uint64_t patience_ns)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); /* instead of cmocka's handler */
        fclose(stderr);
        sys_trust_wakes(patience_ns);
        futex_word = 5;
        _exit(sys_futex_wait(&futex_word, 5, timeout_ns) == -1 && errno == ETIMEDOUT ? 7 : 8);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* This process gets no signal when the spawned one ends, and has no child to wait for. */
static void test_spawns_apart(UNUSED void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "echo $1 >&3", "sh", "word", NULL};
    char text[8] = "";
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(sys_spawn_apart("/bin/sh", argv, ends[1]), 0);
    close(ends[1]);
    assert_int_equal(read(ends[0], text, sizeof text), 5);
    assert_string_equal(text, "word\n");
    assert_int_equal(waitpid(-1, NULL, __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(sys_spawn_apart("/bin/none", argv, ends[0]), -1);
    assert_int_equal(errno, ENOENT);
    close(ends[0]);
}

static void test_naps_that_must_be_woken(UNUSED void **state)
{
    pthread_t thread;

    assert_int_equal(WTERMSIG(nap_in_a_child(SYS_NAP_NS, CLOCK_MS)), SIGABRT);
    assert_int_equal(WEXITSTATUS(nap_in_a_child(SYS_NAP_NS - 1, CLOCK_MS)), 7);
    assert_int_equal(WEXITSTATUS(nap_in_a_child(SYS_NAP_NS, 0)), 7);
    sys_trust_wakes(PATIENCE_NS);
    futex_word = 5;
    assert_int_equal(pthread_create(&thread, NULL, wake_when_waiting, NULL), 0);
    assert_int_equal(sys_futex_wait(&futex_word, 5, SYS_NAP_NS), 0);
    pthread_join(thread, NULL);
    assert_int_equal(sys_futex_wait(&futex_word, 4, SYS_NAP_NS), -1);
    assert_int_equal(errno, EAGAIN);
    sys_trust_wakes(0);
}

static void test_futex_works_between_processes(UNUSED void **state)
{
    _Atomic uint32_t *word = sys_mmap(4096, -1, 0);
    pid_t child;
    int status;

    assert_non_null(word);
    child = sys_fork();
    if (child == 0)
        _exit(sys_futex_wait(word, 0, PATIENCE_NS) == 0 ? 0 : 1);
    while (sys_futex_wake(word, 1) == 0)
        sched_yield();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sys_munmap((void *)word, 4096), 0);
}

static void test_small_ones(UNUSED void **state)
{
    unsigned char bytes[64] = {0}, zeros[64] = {0};

    assert_int_equal(sys_getrandom(bytes, sizeof bytes), 0);
    assert_memory_not_equal(bytes, zeros, sizeof bytes);
    assert_true(sys_membarrier(MEMBARRIER_CMD_QUERY) >= 0);
    assert_true(sys_prctl(PR_GET_DUMPABLE, 0) >= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_wrapper_fails_by_name, reset),
        cmocka_unit_test_teardown(test_only_the_nth_call_fails, reset),
        cmocka_unit_test_teardown(test_a_name_counts_only_its_own_calls, reset),
        cmocka_unit_test_teardown(test_memory_file_life, reset),
        cmocka_unit_test_teardown(test_anonymous_mapping_and_impossible_one, reset),
        cmocka_unit_test_teardown(test_failed_release_still_releases, reset),
        cmocka_unit_test_teardown(test_open_read_write, reset),
        cmocka_unit_test_teardown(test_files_beyond_their_limit_fail, reset),
        cmocka_unit_test_teardown(test_copy_from_and_to_another_process, reset),
        cmocka_unit_test_teardown(test_pidfd_tells_the_end_of_a_process, reset),
        cmocka_unit_test_teardown(test_futex_wakes_and_times_out, reset),
        cmocka_unit_test(test_spawns_apart),
        cmocka_unit_test_teardown(test_naps_that_must_be_woken, reset),
        cmocka_unit_test_teardown(test_futex_works_between_processes, reset),
        cmocka_unit_test_teardown(test_small_ones, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
