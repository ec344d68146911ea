/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot.h - the job: rank, size, put, get, fence.
 *
 * Start-up differs by launcher, so this is an ops table: `mbx run` is one implementation
 * (run.c), launchers that speak PMIx another (pmix.c), two processes with a socket between them
 * the third (socket.c), a process without a launcher the fourth (single.c).  boot.c chooses.
 *
 * Under `mbx run` all ranks and the launcher share one memory object, the board,
 * inherited as a file descriptor: it never has a name.  kvs_shm.h describes it.  Under PMIx a
 * server of the launcher on each host exchanges the values of the ranks.
 */
#ifndef BOOT_BOOT_H
#define BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOOT_KEY_SIZE  16
#define BOOT_VALUE_MAX 256
#define BOOT_SOCKET    "socket:" /* the beginning of MBX_BOOT for a job over a socket */

struct boot;

struct boot_ops {
    const char *name;

    /* Publishes one value of at most BOOT_VALUE_MAX bytes under this rank and
     * round; visible to the others after the next fence.  In a round all ranks put, or none.
     * 0; -EMSGSIZE; -ENOMEM, -EPROTO the launcher did not accept it. */
    int (*put)(struct boot *b, const void *value, size_t size);

    /* Copies the value that rank put before the last fence; size must be its size.  0; -ENOENT
     * it put nothing; -EPROTO it is damaged or of another size; -ECONNRESET the launcher does
     * not answer. */
    int (*get)(struct boot *b, uint32_t rank, void *value, size_t size);

    /* Waits until every rank has called it.
     * 0; -ECONNRESET a rank has ended without joining or, if the launcher does not report that,
     * did not come within the time-out; -EPROTO an error of the launcher; -EINTR call it again,
     * it continues the same fence. */
    int (*fence)(struct boot *b);

    void (*close)(struct boot *b);
};

struct boot {
    const struct boot_ops *ops;
    uint32_t rank, size;
    uint8_t key[BOOT_KEY_SIZE];
};

/* Opens the job that the environment describes, in this order:
 *
 *   MBX_BOOT=FD:RANK       set by `mbx run` for its ranks
 *   MBX_BOOT=socket:FD:RANK  set by `mbx perf --listen` and `--connect` for themselves: rank
 *                          0 or 1 of two, whose connected stream socket is descriptor FD; it
 *                          stays the caller's
 *   MBX_BOOT=pmix, single  forced by the user
 *   PMIX_NAMESPACE, PMIX_RANK   set by launchers that speak PMIx; every rank must open
 *   nothing                a job of one
 *
 * With any other launcher each rank would become a job of one; that is an error.  timeout_ns
 * limits how long a fence waits for a rank if the launcher says nothing about it; 0 = forever.
 *
 * 0; -ENOTSUP started by an unknown launcher; -EPROTO data of the launcher is damaged;
 * -ECONNRESET a rank has ended or did not open in time; -ENOSYS there is no libpmix; -ENOMEM;
 * system errors. */
int boot_open(uint64_t timeout_ns, struct boot **out);

/* Was this process started as a rank, according to the environment? */
bool boot_has_launcher(void);

/* Are there ranks of the job that share no memory with others?  Under `mbx run` never.  Over a
 * socket the two ranks compare their hosts.  Under PMIx, once a job is open, the hosts that the
 * ranks have published (base/host.h) decide: all ranks get the same result.  The first call in
 * a process asks the launcher for each rank, and later ones use its result.  Before that, and
 * without PMIx, the variables of launchers in the environment decide.
 *
 * 0 and *is_spread; errors as in get, and -EPROTO a rank has not published its host. */
int boot_is_spread(bool *is_spread);

/* Is this process one of several ranks that may share no memory with others of its machine,
 * because it is in a container of its own, or closed (base/host.h)?  Then why continues "this
 * process ...".  False under PMIx once a job is open: boot_is_spread() knows it then. */
#define BOOT_WHY_SIZE 200

bool boot_is_apart(char why[BOOT_WHY_SIZE]);

#endif
