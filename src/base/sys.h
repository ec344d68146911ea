/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sys.h - the system calls that can fail, counted, and made to fail by tests.
 *
 * Each wrapper has the arguments and the return convention of its system call
 * (-1 and errno), except where a comment says otherwise.
 *
 * EINTR   open, ftruncate, fallocate_punch, read, pread, write and getrandom try again by
 *         themselves.  poll and futex_wait return it: the caller waits with a
 *         deadline and has to check its other conditions anyway.  The others never report it.
 *         An injected EINTR is always returned.
 *
 * Release If close or munmap is made to fail, it releases first and then reports the failure,
 *         as Linux does for close: no call has to be repeated.
 *
 * Leaks   sys_fds_live() and sys_maps_live() count descriptors and mappings that were opened
 *         here and not yet closed.  They must therefore also be released here.  A child after
 *         fork() inherits the counters.
 *
 * Threads everything here may be called from any thread.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/clock.h"

struct sockaddr; /* <sys/socket.h> declares functions with names that we use */
struct msghdr;
struct sock_fprog; /* <linux/filter.h> */
struct flock;      /* <fcntl.h> */

/* ---- files and memory ---- */

int sys_open(const char *path, int flags, mode_t mode); /* O_CLOEXEC is added */
int sys_close(int fd);
ssize_t sys_read(int fd, void *buffer, size_t size);        /* may be short */
ssize_t sys_write(int fd, const void *buffer, size_t size); /* may be short */

/* As sys_write(), for a file that grows: beyond RLIMIT_FSIZE it fails with EFBIG, where write()
 * sends a signal that ends the process.  sys_ftruncate() does the same. */
ssize_t sys_write_file(int fd, const void *buffer, size_t size);
ssize_t sys_pread(int fd, void *buffer, size_t size, off_t offset);
int sys_fstat(int fd, struct stat *status);
int sys_memfd_create(const char *name, unsigned flags); /* MFD_* */
int sys_ftruncate(int fd, off_t size);
int sys_fchmod(int fd, mode_t mode);

/* command is F_ADD_SEALS (returns 0) or F_GET_SEALS (returns the seals, seals is
 * not used). */
int sys_fcntl_seal(int fd, int command, int seals);

/* command is F_OFD_SETLK or F_OFD_GETLK. */
int sys_fcntl_lock(int fd, int command, struct flock *lock);

/* Gives the pages of [offset, offset+size) back; they read as zero again. */
int sys_fallocate_punch(int fd, off_t offset, off_t size);

/* Maps [offset, offset+size) of fd, shared, readable and writable; fd -1 maps new
 * zero-filled memory, shared with children.  NULL on failure.
 * Released by sys_munmap() with the same address and size. */
void *sys_mmap(size_t size, int fd, off_t offset);

/* Makes a mapping of a file longer, which may move it.  Its address; NULL on failure, and the
 * mapping is unchanged. */
void *sys_mremap(void *address, size_t size, size_t new_size);
int sys_munmap(void *address, size_t size);

/* ---- other processes ---- */

/* Copies [remote, remote+size) of process pid to or from local memory.  Returns the
 * bytes copied, which may be fewer (a hole in the remote memory; more than 2 GiB). */
ssize_t sys_process_vm_readv(pid_t pid, void *local, uint64_t remote, size_t size);
ssize_t sys_process_vm_writev(pid_t pid, const void *local, uint64_t remote, size_t size);

pid_t sys_fork(void);

/* Executes the program at path, without arguments, with this environment, all signals blocked,
 * the standard files, and descriptor fd as its descriptor 3.  The new process is an ordinary
 * child.  Its pid; -1 and errno also if the program cannot be executed. */
pid_t sys_spawn(const char *path, int fd);
/* As sys_spawn(), with arguments (argv ends with NULL), but the new process is not a child: no
 * wait is needed, and this process gets no signal when it ends.  0; -1 and errno. */
int sys_spawn_apart(const char *path, const char *const argv[], int fd);
int sys_kill(pid_t pid, int signal);
int sys_pidfd_open(pid_t pid);

/* For options with one argument, such as PR_SET_PTRACER and PR_SET_PDEATHSIG. */
int sys_prctl(int option, unsigned long argument);

/* ---- the kernel's data about our memory ---- */

int sys_userfaultfd(int flags); /* O_CLOEXEC is added */
int sys_ioctl(int fd, unsigned long request, void *argument);

/* The cores on which the system runs processes, at least 1. */
uint32_t sys_cores(void);

/* Bytes of the level-2 cache of a core; 0: not known. */
size_t sys_second_cache(void);

/* ---- waiting ---- */

/* Yields the core to other threads, if any are ready to run. */
void sys_yield(void);

/* Sleeps while *address == value, at most timeout_ns (UINT64_MAX = forever).  Works
 * between processes.  0 woken (perhaps spuriously); -1: EAGAIN *address had another value,
 * ETIMEDOUT, EINTR. */
int sys_futex_wait(const _Atomic uint32_t *address, uint32_t value, uint64_t timeout_ns);

/* Wakes at most count sleepers; returns how many. */
int sys_futex_wake(_Atomic uint32_t *address, int count);

int sys_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int sys_eventfd(unsigned value, int flags); /* EFD_CLOEXEC is added */
int sys_socket(int domain, int type);       /* SOCK_CLOEXEC is added; default protocol */
int sys_connect(int fd, const struct sockaddr *to, unsigned size);
int sys_bind(int fd, const struct sockaddr *name, unsigned size);
int sys_listen(int fd, int backlog);
int sys_accept(int fd, struct sockaddr *from, unsigned *size); /* SOCK_CLOEXEC is added */
int sys_setsockopt(int fd, int level, int option, int value);

/* Attaches a socket filter (SO_ATTACH_FILTER): messages that the program rejects are dropped
 * when they are sent. */
int sys_filter(int fd, const struct sock_fprog *program);
int sys_shutdown(int fd, int how); /* SHUT_* */
ssize_t sys_sendmsg(int fd, const struct msghdr *message,
                    int flags); /* MSG_NOSIGNAL is added */

/* MSG_CMSG_CLOEXEC is added.  The caller closes the descriptors that arrive (SCM_RIGHTS). */
ssize_t sys_recvmsg(int fd, struct msghdr *message, int flags);
int sys_membarrier(int command);

/* Does this process have only one thread?  False: it has more, or that is not known. */
bool sys_has_one_thread(void);

/* ---- chance ---- */

/* Fills the whole buffer; 0 or -1. */
int sys_getrandom(void *buffer, size_t size);

/* ---- for tests ---- */

/* The n-th wrapped call from now (1 = the next, of any thread) fails with errnum, and no other;
 * 0 switches this off. */
void sys_fail_at(uint64_t n, int errnum);

#define SYS_FAIL_ALWAYS (-1)

/* As sys_fail_at(), but counts only the calls of one wrapper: name is without "sys_", as
 * "process_vm_readv".  n SYS_FAIL_ALWAYS fails every call until n 0 switches it off.  Each name
 * has a setting of its own, independent of sys_fail_at().  Returns 0, or -EINVAL if there is no
 * wrapper of that name. */
int sys_fail_name(const char *name, int64_t n, int errnum);

/* Switches all failures off. */
void sys_fail_none(void);

/* A sleep of this time or longer ends by itself, so that the sleeper checks for a missed
 * wake. */
#define SYS_NAP_NS (50 * CLOCK_MS) /* the usual 100 ms, less the time that has already passed */

/* From now on, here and in children to be forked, a sys_futex_wait() of SYS_NAP_NS or more does
 * not end by itself: a lost wake is no longer repaired by the timeout.  A sleeper that is not
 * woken within patience_ns reports it and aborts.  0, the default: such sleeps end in time. */
void sys_trust_wakes(uint64_t patience_ns);

/* The number of wrapped calls so far in this process, by all its threads; and of calls of the
 * wrapper with this name. */
uint64_t sys_calls(void);
uint64_t sys_calls_of(const char *name);

/* Open descriptors and mappings. */
int64_t sys_fds_live(void);
int64_t sys_maps_live(void);

#endif
