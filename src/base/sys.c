/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sys.c - each wrapper first checks whether a test wants it to fail, then calls the system.
 *
 * This file uses only the C library and the kernel.  The log writes its lines without these
 * wrappers, so that a line never consumes a failure that is meant for another call.
 */
#include "base/sys.h"

#include <errno.h>
#include <sys/wait.h>
#include <limits.h>
#include <sched.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HAS_SINGLE_THREADED
#endif
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/countdown.h"

static_assert(SYS_FAIL_ALWAYS == COUNTDOWN_ALWAYS, "one meaning");

/* The calls that a test can make fail, by the names that sys_fail_name() knows. */
/* clang-format off */
#define SYS_CALLS(X) \
    X(open) X(close) X(read) X(pread) X(write) X(fstat) X(memfd_create) X(ftruncate) \
    X(fchmod) X(fcntl_seal) X(fcntl_lock) X(fallocate_punch) X(mmap) X(mremap) X(munmap) \
    X(process_vm_readv) X(process_vm_writev) X(fork) X(spawn) X(kill) X(pidfd_open) X(prctl) \
    X(userfaultfd) X(ioctl) X(futex_wait) X(futex_wake) X(poll) X(eventfd) X(socket) \
    X(connect) X(bind) X(listen) X(accept) X(setsockopt) X(filter) X(shutdown) X(sendmsg) \
    X(recvmsg) X(membarrier) X(getrandom)
/* clang-format on */

#define CALL_NUMBER(name) CALL_##name,
#define CALL_NAME(name)   #name,

enum sys_call { SYS_CALLS(CALL_NUMBER) CALL_COUNT };

static const char *const call_names[CALL_COUNT] = {SYS_CALLS(CALL_NAME)};

struct failure {
    _Atomic int64_t countdown;
    _Atomic int errnum;
};

static struct failure fail_any;
static struct failure fail_named[CALL_COUNT];
static _Atomic uint64_t call_counts[CALL_COUNT];
static _Atomic int64_t fds_live;
static _Atomic int64_t maps_live;
static _Atomic uint64_t wake_patience_ns; /* 0: sleeps of SYS_NAP_NS and more end by
                                             themselves */

/* ---- failing ---- */

static bool failure_fires(struct failure *failure)
{
    if (!countdown_fires(&failure->countdown))
        return false;
    errno = failure->errnum;
    return true;
}

/* Counts the call.  True, with errno set, if the wrapper has to fail. */
static bool sys_fails(enum sys_call call)
{
    bool any, named;

    atomic_fetch_add_explicit(&call_counts[call], 1, memory_order_relaxed);
    named = failure_fires(&fail_named[call]); /* both always count this call */
    any = failure_fires(&fail_any);
    return any || named;
}

static void failure_set(struct failure *failure, int64_t n, int errnum)
{
    failure->countdown = 0; /* so that the old count never meets the new number */
    failure->errnum = errnum;
    failure->countdown = n;
}

void sys_fail_at(uint64_t n, int errnum)
{
    assert(n <= INT64_MAX);
    failure_set(&fail_any, (int64_t)n, errnum);
}

int sys_fail_name(const char *name, int64_t n, int errnum)
{
    assert(n >= SYS_FAIL_ALWAYS);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        if (strcmp(call_names[i], name) == 0) {
            failure_set(&fail_named[i], n, errnum);
            return 0;
        }
    }
    return -EINVAL;
}

void sys_fail_none(void)
{
    failure_set(&fail_any, 0, 0);
    for (size_t i = 0; i < CALL_COUNT; i++)
        failure_set(&fail_named[i], 0, 0);
}

void sys_trust_wakes(uint64_t patience_ns)
{
    atomic_store_explicit(&wake_patience_ns, patience_ns, memory_order_relaxed);
}

uint64_t sys_calls(void)
{
    uint64_t calls = 0;

    for (size_t i = 0; i < CALL_COUNT; i++)
        calls += atomic_load_explicit(&call_counts[i], memory_order_relaxed);
    return calls;
}

uint64_t sys_calls_of(const char *name)
{
    size_t i = 0;

    while (i < CALL_COUNT && strcmp(call_names[i], name) != 0)
        i++;
    assert(i < CALL_COUNT);
    return atomic_load_explicit(&call_counts[i], memory_order_relaxed);
}

int64_t sys_fds_live(void)
{
    return atomic_load_explicit(&fds_live, memory_order_relaxed);
}

int64_t sys_maps_live(void)
{
    return atomic_load_explicit(&maps_live, memory_order_relaxed);
}

/* Counts a descriptor that was opened; -1 passes through. */
static int count_fd(int fd)
{
    if (fd >= 0)
        atomic_fetch_add_explicit(&fds_live, 1, memory_order_relaxed);
    return fd;
}

/* ---- files and memory ---- */

int sys_open(const char *path, int flags, mode_t mode)
{
    int fd;

    if (sys_fails(CALL_open))
        return -1;
    do {
        fd = open(path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return count_fd(fd);
}

int sys_close(int fd)
{
    bool fails = sys_fails(CALL_close);
    int errnum = errno;
    int err = close(fd);

    if (err == 0 || errno != EBADF) /* Linux releases fd even if close() fails */
        atomic_fetch_sub_explicit(&fds_live, 1, memory_order_relaxed);
    if (!fails)
        return err;
    errno = errnum;
    return -1;
}

ssize_t sys_read(int fd, void *buffer, size_t size)
{
    ssize_t done;

    if (sys_fails(CALL_read))
        return -1;
    do {
        done = read(fd, buffer, size);
    } while (done < 0 && errno == EINTR);
    return done;
}

ssize_t sys_pread(int fd, void *buffer, size_t size, off_t offset)
{
    ssize_t done;

    if (sys_fails(CALL_pread))
        return -1;
    do {
        done = pread(fd, buffer, size, offset);
    } while (done < 0 && errno == EINTR);
    return done;
}

ssize_t sys_write(int fd, const void *buffer, size_t size)
{
    ssize_t done;

    if (sys_fails(CALL_write))
        return -1;
    do {
        done = write(fd, buffer, size);
    } while (done < 0 && errno == EINTR);
    return done;
}

/* Would the kernel send SIGXFSZ if a file got this size? */
static bool is_too_large(off_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
           (rlim_t)size > limit.rlim_cur;
}

/* The offset at which a write() of this size to a regular file ends; 0: not a regular file. */
static off_t end_of_write(int fd, size_t size)
{
    struct stat file;

    if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode))
        return 0;
    return (off_t)size +
           ((fcntl(fd, F_GETFL) & O_APPEND) != 0 ? file.st_size : lseek(fd, 0, SEEK_CUR));
}

ssize_t sys_write_file(int fd, const void *buffer, size_t size)
{
    if (!is_too_large(end_of_write(fd, size)))
        return sys_write(fd, buffer, size);
    errno = EFBIG;
    return -1;
}

int sys_fstat(int fd, struct stat *status)
{
    return sys_fails(CALL_fstat) ? -1 : fstat(fd, status);
}

int sys_memfd_create(const char *name, unsigned flags)
{
    return sys_fails(CALL_memfd_create) ? -1 : count_fd(memfd_create(name, flags));
}

int sys_ftruncate(int fd, off_t size)
{
    struct stat file;
    int err;

    if (sys_fails(CALL_ftruncate))
        return -1;
    if (is_too_large(size) && fstat(fd, &file) == 0 && size > file.st_size) {
        errno = EFBIG;
        return -1;
    }
    do {
        err = ftruncate(fd, size);
    } while (err < 0 && errno == EINTR);
    return err;
}

int sys_fchmod(int fd, mode_t mode)
{
    return sys_fails(CALL_fchmod) ? -1 : fchmod(fd, mode);
}

int sys_fcntl_seal(int fd, int command, int seals)
{
    assert(command == F_ADD_SEALS || command == F_GET_SEALS);
    return sys_fails(CALL_fcntl_seal) ? -1 : fcntl(fd, command, seals);
}

int sys_fcntl_lock(int fd, int command, struct flock *lock)
{
    assert(command == F_OFD_SETLK || command == F_OFD_GETLK);
    return sys_fails(CALL_fcntl_lock) ? -1 : fcntl(fd, command, lock);
}

int sys_fallocate_punch(int fd, off_t offset, off_t size)
{
    int err;

    if (sys_fails(CALL_fallocate_punch))
        return -1;
    do {
        err = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
    } while (err < 0 && errno == EINTR);
    return err;
}

void *sys_mmap(size_t size, int fd, off_t offset)
{
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *address;

    if (sys_fails(CALL_mmap))
        return NULL;
    address = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (address == MAP_FAILED)
        return NULL;
    atomic_fetch_add_explicit(&maps_live, 1, memory_order_relaxed);
    return address;
}

void *sys_mremap(void *address, size_t size, size_t new_size)
{
    void *moved;

    if (sys_fails(CALL_mremap))
        return NULL;
    moved = mremap(address, size, new_size, MREMAP_MAYMOVE);
    return moved == MAP_FAILED ? NULL : moved;
}

int sys_munmap(void *address, size_t size)
{
    bool fails = sys_fails(CALL_munmap);
    int errnum = errno;
    int err = munmap(address, size);

    if (err == 0)
        atomic_fetch_sub_explicit(&maps_live, 1, memory_order_relaxed);
    if (!fails)
        return err;
    errno = errnum;
    return -1;
}

/* ---- other processes ---- */

ssize_t sys_process_vm_readv(pid_t pid, void *local, uint64_t remote, size_t size)
{
    struct iovec here = {.iov_base = local, .iov_len = size};
    struct iovec there = {.iov_base = (void *)(uintptr_t)remote, .iov_len = size};

    if (sys_fails(CALL_process_vm_readv))
        return -1;
    return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

ssize_t sys_process_vm_writev(pid_t pid, const void *local, uint64_t remote, size_t size)
{
    struct iovec here = {.iov_base = (void *)(uintptr_t)local, .iov_len = size};
    struct iovec there = {.iov_base = (void *)(uintptr_t)remote, .iov_len = size};

    if (sys_fails(CALL_process_vm_writev))
        return -1;
    return process_vm_writev(pid, &here, 1, &there, 1, 0);
}

pid_t sys_fork(void)
{
    return sys_fails(CALL_fork) ? -1 : fork();
}

/* The input and result of a child of sys_spawn(), in memory that both share. */
struct spawn {
    const char *path;
    const char *const *argv; /* or NULL: path alone */
    int fd;
    int errnum;
};

#define SPAWN_FD    3
#define SPAWN_BYTES 65536

/* Runs in a child of a process with threads, so it makes only system calls. */
static int spawn_child(void *arg)
{
    struct spawn *spawn = arg;
    const char *const own[] = {spawn->path, NULL};
    const char *const *argv = spawn->argv != NULL ? spawn->argv : own;
    bool moved = spawn->fd == SPAWN_FD ? syscall(SYS_fcntl, spawn->fd, F_SETFD, 0) == 0
                                       : syscall(SYS_dup3, spawn->fd, SPAWN_FD, 0) == SPAWN_FD;

    if (moved) {
        syscall(SYS_close_range, SPAWN_FD + 1, UINT_MAX, 0);
        syscall(SYS_execve, spawn->path, argv, environ);
    }
    spawn->errnum = errno;
    syscall(SYS_exit_group, 127);
    return 0;
}

/* A process between the application and the program, so that the application gets no signal: it
 * ends as soon as its child has executed the program. */
static int spawn_grandchild(void *arg)
{
    struct spawn *spawn = arg;
    unsigned char *stack = (unsigned char *)arg + SPAWN_BYTES / 2;

    if (clone(spawn_child, stack, CLONE_VFORK, spawn) < 0)
        spawn->errnum = errno;
    syscall(SYS_exit_group, 0);
    return 0;
}

/* Not posix_spawn(): the application must get no SIGCHLD for a program that cannot be
 * executed. */
static pid_t spawn(struct spawn given, int (*child)(void *))
{
    struct spawn *shared;
    unsigned char *memory;
    sigset_t all, old;
    int errnum;
    pid_t pid;

    if (sys_fails(CALL_spawn))
        return -1;
    memory = mmap(NULL, SPAWN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -1;
    shared = (struct spawn *)(void *)memory; /* the stacks follow, from the end of the memory */
    *shared = given;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(child, memory + SPAWN_BYTES, CLONE_VFORK, shared);
    errnum = pid < 0 ? errno : shared->errnum;
    while ((errnum != 0 || child == spawn_grandchild) && pid > 0 &&
           waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    munmap(memory, SPAWN_BYTES);
    errno = errnum;
    return errnum != 0 ? -1 : pid;
}

pid_t sys_spawn(const char *path, int fd)
{
    return spawn((struct spawn){.path = path, .fd = fd}, spawn_child);
}

int sys_spawn_apart(const char *path, const char *const argv[], int fd)
{
    return spawn((struct spawn){.path = path, .argv = argv, .fd = fd}, spawn_grandchild) < 0
               ? -1
               : 0;
}

int sys_kill(pid_t pid, int signal)
{
    return sys_fails(CALL_kill) ? -1 : kill(pid, signal);
}

int sys_pidfd_open(pid_t pid)
{
    return sys_fails(CALL_pidfd_open) ? -1 : count_fd((int)syscall(SYS_pidfd_open, pid, 0));
}

int sys_prctl(int option, unsigned long argument)
{
    return sys_fails(CALL_prctl) ? -1 : prctl(option, argument, 0, 0, 0);
}

int sys_userfaultfd(int flags)
{
    return sys_fails(CALL_userfaultfd)
               ? -1
               : count_fd((int)syscall(SYS_userfaultfd, flags | O_CLOEXEC));
}

int sys_ioctl(int fd, unsigned long request, void *argument)
{
    return sys_fails(CALL_ioctl) ? -1 : ioctl(fd, request, argument);
}

/* ---- waiting ---- */

uint32_t sys_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    return cores > 0 ? (uint32_t)cores : 1;
}

size_t sys_second_cache(void)
{
    long bytes = -1;

#ifdef _SC_LEVEL2_CACHE_SIZE /* some C libraries do not have it */
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : 0;
}

void sys_yield(void)
{
    sched_yield(); /* cannot fail on Linux */
}

static int futex_wait(const _Atomic uint32_t *address, uint32_t value, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                               .tv_nsec = (long)(timeout_ns % 1000000000u)};

    return (int)syscall(SYS_futex, address, FUTEX_WAIT, value,
                        timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
}

/* As futex_wait(), but a timeout means that a wake was lost: it aborts. */
static int futex_trust(const _Atomic uint32_t *address, uint32_t value, uint64_t patience_ns)
{
    int result = futex_wait(address, value, patience_ns);

    if (result == 0 || errno != ETIMEDOUT)
        return result;
    fprintf(stderr, "sys: a wake was lost: none came in %llu ms\n",
            (unsigned long long)(patience_ns / CLOCK_MS));
    abort();
}

int sys_futex_wait(const _Atomic uint32_t *address, uint32_t value, uint64_t timeout_ns)
{
    uint64_t patience_ns = atomic_load_explicit(&wake_patience_ns, memory_order_relaxed);

    if (sys_fails(CALL_futex_wait))
        return -1;
    if (patience_ns != 0 && timeout_ns >= SYS_NAP_NS && timeout_ns != UINT64_MAX)
        return futex_trust(address, value, patience_ns);
    return futex_wait(address, value, timeout_ns);
}

int sys_futex_wake(_Atomic uint32_t *address, int count)
{
    if (sys_fails(CALL_futex_wake))
        return -1;
    return (int)syscall(SYS_futex, address, FUTEX_WAKE, count, NULL, NULL, 0);
}

int sys_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return sys_fails(CALL_poll) ? -1 : poll(fds, count, timeout_ms);
}

int sys_eventfd(unsigned value, int flags)
{
    return sys_fails(CALL_eventfd) ? -1 : count_fd(eventfd(value, flags | EFD_CLOEXEC));
}

int sys_socket(int domain, int type)
{
    return sys_fails(CALL_socket) ? -1 : count_fd(socket(domain, type | SOCK_CLOEXEC, 0));
}

int sys_connect(int fd, const struct sockaddr *to, unsigned size)
{
    return sys_fails(CALL_connect) ? -1 : connect(fd, to, size);
}

int sys_bind(int fd, const struct sockaddr *name, unsigned size)
{
    return sys_fails(CALL_bind) ? -1 : bind(fd, name, size);
}

int sys_listen(int fd, int backlog)
{
    return sys_fails(CALL_listen) ? -1 : listen(fd, backlog);
}

int sys_accept(int fd, struct sockaddr *from, unsigned *size)
{
    return sys_fails(CALL_accept) ? -1 : count_fd(accept4(fd, from, size, SOCK_CLOEXEC));
}

int sys_setsockopt(int fd, int level, int option, int value)
{
    return sys_fails(CALL_setsockopt) ? -1
                                      : setsockopt(fd, level, option, &value, sizeof value);
}

int sys_filter(int fd, const struct sock_fprog *program)
{
    return sys_fails(CALL_filter)
               ? -1
               : setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, program, sizeof *program);
}

int sys_shutdown(int fd, int how)
{
    return sys_fails(CALL_shutdown) ? -1 : shutdown(fd, how);
}

ssize_t sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
    return sys_fails(CALL_sendmsg) ? -1 : sendmsg(fd, message, flags | MSG_NOSIGNAL);
}

static void count_passed_fds(struct msghdr *message)
{
    struct cmsghdr *part;

    for (part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
            atomic_fetch_add_explicit(&fds_live,
                                      (int64_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int)),
                                      memory_order_relaxed);
}

ssize_t sys_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t size =
        sys_fails(CALL_recvmsg) ? -1 : recvmsg(fd, message, flags | MSG_CMSG_CLOEXEC);

    if (size >= 0)
        count_passed_fds(message);
    return size;
}

int sys_membarrier(int command)
{
    return sys_fails(CALL_membarrier) ? -1 : (int)syscall(SYS_membarrier, command, 0, 0);
}

bool sys_has_one_thread(void)
{
#ifdef HAS_SINGLE_THREADED
    return __libc_single_threaded != 0;
#else
    return false;
#endif
}

/* ---- chance ---- */

int sys_getrandom(void *buffer, size_t size)
{
    unsigned char *bytes = buffer;

    if (sys_fails(CALL_getrandom))
        return -1;
    while (size > 0) {
        ssize_t done = getrandom(bytes, size, 0);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        bytes += done;
        size -= (size_t)done;
    }
    return 0;
}
