/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * boot.h - who is in the job: rank, size, put, get, fence.
 *
 * Start-up differs by launcher, so this is an ops table: `mbx run` is one implementation
 * (run.c), launchers that speak PMIx another (pmix.c), two processes with a socket between them
 * the third (socket.c), a process without a launcher the fourth (single.c).  boot.c chooses.
 *
 * Under `mbx run` all ranks and the launcher share one memory object, the board,
 * inherited as a file descriptor: it never has a name.  kvs_shm.h describes it.  Under PMIx
 * a server of the launcher on each host passes on what the ranks tell it.
 */
#ifndef BOOT_BOOT_H
#define BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOOT_KEY_SIZE  16
#define BOOT_VALUE_MAX 256
#define BOOT_SOCKET    "socket:" /* how MBX_BOOT begins for a job over a socket */

struct boot;

struct boot_ops {
    const char *name;

    /* Publishes one value of at most BOOT_VALUE_MAX bytes under this rank and
     * round; visible to the others after the next fence.  In a round all ranks put, or
     * none.
     * 0; -EMSGSIZE; -ENOMEM, -EPROTO the launcher did not take it. */
    int (*put)(struct boot *b, const void *value, size_t size);

    /* Copies what rank put before the last fence; size must be what was put.
     * 0; -ENOENT it put nothing; -EPROTO it is damaged or of another size;
     * -ECONNRESET the launcher does not answer. */
    int (*get)(struct boot *b, uint32_t rank, void *value, size_t size);

    /* Waits until every rank has called it.
     * 0; -ECONNRESET a rank has ended without joining or, where a launcher does not
     * tell, did not come within the time-out; -EPROTO the launcher is at fault;
     * -EINTR call it again, it goes on with the same fence. */
    int (*fence)(struct boot *b);

    void (*close)(struct boot *b);
};

struct boot {
    const struct boot_ops *ops;
    uint32_t rank, size;
    uint8_t key[BOOT_KEY_SIZE];
};

/* Opens what the environment offers, in this order:
 *
 *   MBX_BOOT=FD:RANK       set by `mbx run` for its ranks
 *   MBX_BOOT=socket:FD:RANK  set by `mbx perf --listen` and `--connect` for themselves: rank
 *                          0 or 1 of two, whose connected stream socket is descriptor FD; it
 *                          stays the caller's
 *   MBX_BOOT=pmix, single  what a user insists on
 *   PMIX_NAMESPACE, PMIX_RANK   set by launchers that speak PMIx; every rank must open
 *   nothing                a job of one
 *
 * A launcher that speaks something else would start as many jobs of one as it was told
 * ranks; that is an error.  timeout_ns is how long a fence waits for a rank of which the
 * launcher tells nothing; 0 = forever.
 *
 * 0; -ENOTSUP started by a launcher that cannot be understood; -EPROTO what the launcher
 * left or says is damaged; -ECONNRESET a rank has ended or did not open in time; -ENOSYS
 * there is no libpmix; -ENOMEM; system errors. */
int boot_open(uint64_t timeout_ns, struct boot **out);

/* Was this process started as a rank, as far as the environment tells? */
bool boot_has_launcher(void);

/* Are there ranks of the job that share no memory with others?  Under `mbx run` never.  Over a
 * socket the two compare what they have told of their hosts.  Under PMIx, once a job is open,
 * what the ranks have told of their hosts (base/host.h) decides: all of them find the same.
 * The first one who asks asks the launcher for each rank, the others learn what he found.
 * Before, and without PMIx, it is what launchers leave in the environment.
 *
 * 0 and *is_spread; errors as of get, and -EPROTO a rank has not told its host. */
int boot_is_spread(bool *is_spread);

/* Is this process one of several ranks, and does it perhaps share no memory with others of its
 * machine, because it is in a container of its own, or closed (base/host.h)?  Then why continues
 * "this process ...".  False under PMIx once a job is open: boot_is_spread() knows it then. */
#define BOOT_WHY_SIZE 200

bool boot_is_apart(char why[BOOT_WHY_SIZE]);

#endif
