/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bias.c - the slow paths of bias.h: the first call of a thread, and the end of the ownership.
 */
#include "base/bias.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/sys.h"

/* A thread that waits for the owner to leave polls so often, then yields so often, and then sleeps for BIAS_NAP_NS at a
 * time.  Most calls are over while it polls. */
#define BIAS_SPINS    100
#define BIAS_YIELDS   1000
#define BIAS_NAP_NS   CLOCK_MS
#define BIAS_DRAIN_NS (10 * CLOCK_MS)

/* An owner that is inside for so long is reported. */
#define BIAS_STUCK_NS (5 * CLOCK_S)

bool bias_open(struct bias *bias, const struct bias_use *use, bool may_own)
{
    const int needed =
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED;
    int known = sys_membarrier(MEMBARRIER_CMD_QUERY);

    *bias = (struct bias){.use = use};
    if (may_own && known >= 0 && (known & needed) == needed)
        return true;
    atomic_store(&bias->owner, BIAS_NOBODY);
    atomic_store(&bias->state, BIAS_SHARED);
    return false;
}

/* One turn of a wait for a word to change from `seen`. */
static void bias_wait_turn(const _Atomic uint32_t *word, uint32_t seen, unsigned turn)
{
    if (turn < BIAS_SPINS)
        cpu_relax();
    else if (turn < BIAS_SPINS + BIAS_YIELDS)
        sys_yield();
    else
        (void)sys_futex_wait(word, seen, BIAS_NAP_NS); /* the caller looks again in any case */
}

/* ---- a second thread ---- */

/* A barrier in every running thread of the process.  The process registers only now, because that takes up to 20 ms in a
 * process with several threads: a program with one calling thread never needs it. */
static void bias_barrier(void)
{
    uint64_t start_ns;

    (void)sys_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
    if (sys_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0)
        return;
    start_ns = clock_now();
    while (clock_now() - start_ns < BIAS_DRAIN_NS)
        sys_yield();
}

static void bias_report(const struct bias *bias)
{
    const char *rank = launcher_rank();
    int owner = atomic_load_explicit(&bias->thread, memory_order_relaxed);

    LOG_WARN(
        "rank %s: thread %ld waits for thread %d, which has been inside MPI for 5 s without "
        "a step; if it is stopped, by a debugger or a signal, continue it; if it has ended "
        "inside a call, the program must let its calls return first",
        rank != NULL ? rank : "unknown", syscall(SYS_gettid), owner);
}

/* Waits until the owner is outside.  False: it never will be. */
static bool bias_await_owner(const struct bias *bias)
{
    uint64_t start_ns = clock_now();
    bool is_reported = false;
    uint32_t inside;

    for (unsigned turn = 0;
         (inside = atomic_load_explicit(&bias->inside, memory_order_acquire)) != 0; turn++) {
        if (bias->use->is_gone())
            return false;
        bias_wait_turn(&bias->inside, inside, turn);
        if (!is_reported && clock_now() - start_ns >= BIAS_STUCK_NS) {
            bias_report(bias);
            is_reported = true;
        }
    }
    return true;
}

/* For the thread that has revoked. */
static void bias_take_away(struct bias *bias)
{
    bias_barrier();
    if (!bias_await_owner(bias))
        return;
    bias->use->share(bias);
    atomic_store_explicit(&bias->owner, BIAS_NOBODY, memory_order_relaxed);
    atomic_store_explicit(&bias->state, BIAS_SHARED, memory_order_release);
    sys_futex_wake(&bias->state, INT32_MAX);
}

/* For all others. */
static void bias_await_share(const struct bias *bias)
{
    for (unsigned turn = 0;
         atomic_load_explicit(&bias->state, memory_order_acquire) != BIAS_SHARED &&
         !bias->use->is_gone();
         turn++)
        bias_wait_turn(&bias->state, BIAS_REVOKED, turn);
}

/* ---- entering ---- */

OUT_OF_LINE void bias_give_up(struct bias *bias)
{
    if (atomic_load_explicit(&bias->inside, memory_order_relaxed) > 1)
        return; /* nested: the other thread waits for the outermost call */
    /* not bias_leave(): there may be no owner any more */
    atomic_store_explicit(&bias->inside, 0, memory_order_release);
    bias_await_share(bias);
}

/* Makes the caller the owner, unless there is or was one. */
static bool bias_claim(struct bias *bias)
{
    uintptr_t nobody = 0;

    if (!atomic_compare_exchange_strong(&bias->owner, &nobody, bias_self()))
        return false;
    atomic_store_explicit(&bias->thread, (int32_t)syscall(SYS_gettid), memory_order_relaxed);
    return true;
}

OUT_OF_LINE void bias_enter_slowly(struct bias *bias)
{
    uint32_t owned = BIAS_OWNED;

    if (!bias->use->has_begun())
        return;
    bias->use->meets();
    if (atomic_load_explicit(&bias->state, memory_order_acquire) == BIAS_SHARED) {
        return;
    } else if (bias_claim(bias)) {
        bias_enter(bias);
    } else if (atomic_compare_exchange_strong(&bias->state, &owned, BIAS_REVOKED)) {
        bias_take_away(bias);
    } else {
        bias_await_share(bias);
    }
}
