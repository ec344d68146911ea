/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - a rank that a launcher with PMIx started: Open MPI's mpiexec, prterun, srun.
 *
 *   open      PMIx_Init, the size of the job; each rank publishes which host it is on, and
 *             rank 0 a fresh key; fence 0
 *   put       stored under "matchbox.ROUND" and committed to the server of this host
 *   fence     a fence of all ranks; with a put, the servers exchange the values
 *   get       asks the server of this host, which has it since the fence
 *   spread    gets the host of every rank, at the first call
 *   exit      PMIx_Finalize
 *
 * Session    A process is one rank of one job for as long as it lives, even if it opens and
 *            closes the job repeatedly: the rounds go on, and the launcher is notified when the
 *            process ends.  (A launcher does not let a rank return that has left.)  So the
 *            whole state is in one session, and a struct boot only refers to it.
 *
 * Waiting    Fences and gets are asynchronous calls with a time-out of our own, and a wait for
 *            them can be interrupted by signals: a server may keep a fence open forever if a
 *            rank has ended.  The last of the two holders, the waiter or the library, frees the
 *            call.
 *
 * Exchange   A fence exchanges the values of all ranks: connecting needs all of them.  That is
 *            why all ranks put in a round, or none: fences with and without exchange do not
 *            match.
 *
 * Invariants
 *   I1  session.fences counts the fences that all ranks have passed, after fence 0
 *   I2  session.fence is set only between a fence that was interrupted and its repetition
 *   I3  a broken session stays broken: ranks can no longer agree on a round
 *
 * Data of the server is copied and checked like all data from another process.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "boot/pmix_library.h"
#include "boot/methods.h"

#define RANKS_MAX (UINT32_C(1) << 24) /* more than any job has */
#define KEY_NAME  "matchbox.key"
#define HOST_NAME "matchbox.host"

/* An asynchronous call of the library, which may complete at any time. */
struct call {
    _Atomic uint32_t is_done; /* futex word; the next members are valid then */
    pmix_status_t status;
    pmix_data_type_t type; /* of a get's value */
    uint32_t number;       /* if it is a PMIX_UINT32 */
    size_t size;           /* if it is a PMIX_BYTE_OBJECT: its bytes, as many as fit */
    uint8_t bytes[BOOT_VALUE_MAX];

    _Atomic uint32_t holders;
    pmix_proc_t proc; /* the arguments: the library may read them later */
    pmix_info_t info;
    char key[32];
};

static struct {
    pthread_mutex_t lock; /* jobs of several threads take turns */
    struct pmix_library pmix;
    pid_t pid; /* the process of the session; 0: there is none */
    pmix_proc_t self;
    uint32_t size;
    uint8_t key[BOOT_KEY_SIZE];
    uint64_t timeout_ns;
    uint64_t fences;
    bool has_put; /* in this round */
    bool is_met;  /* fence 0 was passed */
    bool is_open; /* and the key is known */
    bool knows_hosts, is_spread;
    struct call *fence;
    int broken; /* the reason why no fence can succeed any more, or 0 */
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- calls ---- */

static struct call *call_create(void)
{
    struct call *call = mem_calloc(1, sizeof *call);

    if (call == NULL)
        return NULL;
    call->holders = 2;
    memcpy(call->proc.nspace, session.self.nspace, sizeof call->proc.nspace);
    call->proc.rank = PMIX_RANK_WILDCARD;
    return call;
}

static void call_release(struct call *call)
{
    if (atomic_fetch_sub_explicit(&call->holders, 1, memory_order_acq_rel) == 1)
        mem_free(call);
}

/* The library did not accept the call: there will be no answer. */
static void call_abandon(struct call *call)
{
    call_release(call);
    call_release(call);
}

static void call_finish(struct call *call, pmix_status_t status)
{
    call->status = status;
    /* pairs with the acquire in call_wait() */
    atomic_store_explicit(&call->is_done, 1, memory_order_release);
    sys_futex_wake(&call->is_done, 1);
    call_release(call);
}

static void fence_done(pmix_status_t status, void *arg)
{
    call_finish(arg, status);
}

static void get_done(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct call *call = arg;

    if (status == PMIX_SUCCESS && value == NULL)
        status = PMIX_ERR_NOT_FOUND;
    if (status == PMIX_SUCCESS) {
        call->type = value->type;
        if (value->type == PMIX_UINT32)
            call->number = value->data.uint32;
        if (value->type == PMIX_BYTE_OBJECT) {
            call->size = value->data.bo.size;
            if (call->size <= sizeof call->bytes && call->size > 0)
                memcpy(call->bytes, value->data.bo.bytes, call->size);
        }
    }
    call_finish(call, status);
}

static int error_of(pmix_status_t status, const char *what)
{
    if (status == PMIX_SUCCESS)
        return 0;
    LOG_ERROR("%s failed, PMIx status %d %s", what, status, session.pmix.error_string(status));
    return status == PMIX_ERR_NOMEM ? -ENOMEM : -EPROTO;
}

/* Waits for a call.  0 it is complete; -EINTR; -ETIMEDOUT. */
static int call_wait(struct call *call)
{
    uint64_t start = clock_now(), limit = session.timeout_ns;

    /* pairs with the release in call_finish() */
    while (atomic_load_explicit(&call->is_done, memory_order_acquire) == 0) {
        uint64_t waited = clock_now() - start;

        if (limit != 0 && waited >= limit)
            return -ETIMEDOUT;
        if (sys_futex_wait(&call->is_done, 0, limit != 0 ? limit - waited : UINT64_MAX) < 0 &&
            errno == EINTR)
            return -EINTR;
    }
    return 0;
}

static void info_set(pmix_info_t *info, const char *key)
{
    memset(info, 0, sizeof *info);
    snprintf(info->key, sizeof info->key, "%s", key);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

/* ---- put, get ---- */

static int value_put(const char *key, const void *bytes, size_t size)
{
    pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
    uint8_t copy[BOOT_VALUE_MAX];
    int err;

    memcpy(copy, bytes, size);
    value.data.bo.bytes = (char *)copy;
    value.data.bo.size = size;
    err = error_of(session.pmix.put(PMIX_GLOBAL, key, &value), "PMIx_Put");
    return err != 0 ? err : error_of(session.pmix.commit(), "PMIx_Commit");
}

/* Gets the value of rank (or, with the wildcard, of the job) under key.  0 and *out, which the
 * caller releases; -ENOENT there is none; -ECONNRESET no answer. */
static int value_get(uint32_t rank, const char *key, struct call **out)
{
    struct call *call = call_create();
    pmix_status_t status;
    int err;

    if (call == NULL)
        return -ENOMEM;
    call->proc.rank = rank;
    snprintf(call->key, sizeof call->key, "%s", key);
    info_set(&call->info, PMIX_IMMEDIATE);
    status = session.pmix.get_nb(&call->proc, call->key, &call->info, 1, get_done, call);
    if (status != PMIX_SUCCESS) {
        call_abandon(call);
        return status == PMIX_ERR_NOT_FOUND ? -ENOENT : error_of(status, "PMIx_Get");
    }
    while ((err = call_wait(call)) == -EINTR)
        ;
    if (err != 0) {
        LOG_ERROR("the PMIx server gave no answer for rank %u (key %s) in %llu s "
                  "(MBX_BOOT_TIMEOUT): look for a rank or host that did not start, or raise "
                  "the variable",
                  rank, key, (unsigned long long)(session.timeout_ns / CLOCK_S));
        err = -ECONNRESET;
    } else if (call->status == PMIX_ERR_NOT_FOUND) {
        err = -ENOENT;
    } else {
        err = error_of(call->status, "PMIx_Get");
    }
    if (err != 0)
        call_release(call);
    else
        *out = call;
    return err;
}

/* Gets exactly size bytes of rank. */
static int bytes_get(uint32_t rank, const char *key, void *bytes, size_t size)
{
    struct call *call;
    int err = value_get(rank, key, &call);

    if (err != 0)
        return err;
    if (call->type != PMIX_BYTE_OBJECT || call->size != size) {
        LOG_ERROR("rank %u has published damaged data (key %s): all ranks must use the same "
                  "version of Matchbox",
                  rank, key);
        err = -EPROTO;
    } else {
        memcpy(bytes, call->bytes, size);
    }
    call_release(call);
    return err;
}

static char *round_key(uint64_t round, char text[32])
{
    snprintf(text, 32, "matchbox.%llu", (unsigned long long)round);
    return text;
}

/* ---- fence ---- */

static int fence_enter(bool exchange)
{
    struct call *call = call_create();
    pmix_status_t status;

    if (call == NULL)
        return -ENOMEM;
    info_set(&call->info, PMIX_COLLECT_DATA);
    status =
        session.pmix.fence_nb(&call->proc, 1, &call->info, exchange ? 1 : 0, fence_done, call);
    if (status == PMIX_OPERATION_SUCCEEDED) { /* complete at once: there will be no answer */
        call_finish(call, PMIX_SUCCESS);
    } else if (status != PMIX_SUCCESS) {
        call_abandon(call);
        return session.broken = error_of(status, "PMIx_Fence");
    }
    session.fence = call;
    return 0;
}

static int fence_result(const struct call *call, int err)
{
    if (err == -ETIMEDOUT) {
        LOG_ERROR(
            "not every rank has started within %llu s (MBX_BOOT_TIMEOUT): look for a rank "
            "that has ended or does not call MPI_Init, or raise the variable",
            (unsigned long long)(session.timeout_ns / CLOCK_S));
        return -ECONNRESET;
    }
    if (call->status == PMIX_ERR_NOMEM)
        return -ENOMEM;
    if (call->status != PMIX_SUCCESS) {
        error_of(call->status, "the fence of the job");
        return -ECONNRESET; /* servers report various errors if a rank has ended */
    }
    return 0;
}

/* Enters a fence, or continues an interrupted one. */
static int fence_pass(bool exchange)
{
    int err = session.broken;

    if (err == 0 && session.fence == NULL)
        err = fence_enter(exchange);
    if (err != 0)
        return err;
    err = call_wait(session.fence);
    if (err == -EINTR)
        return err;
    err = session.broken = fence_result(session.fence, err);
    call_release(session.fence);
    session.fence = NULL;
    return err;
}

/* ---- the session ---- */

/* A launcher ends the job if a rank ends without finalizing.  A forked child must not
 * finalize. */
static void session_end(void)
{
    if (session.pid == getpid())
        session.pmix.finalize(NULL, 0);
}

static int size_get(uint32_t *size)
{
    struct call *call;
    int err = value_get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &call);

    if (err != 0) {
        LOG_ERROR("the PMIx server does not say how many ranks the job has; start the job with "
                  "mbx run, or another launcher");
        return err == -ENOENT ? -EPROTO : err;
    }
    if (call->type != PMIX_UINT32 || call->number == 0 || call->number > RANKS_MAX ||
        session.self.rank >= call->number) {
        LOG_ERROR("the PMIx server describes an impossible job, type %u, size %u, rank %u; "
                  "start the job with mbx run, or another launcher",
                  call->type, call->number, session.self.rank);
        err = -EPROTO;
    } else {
        *size = call->number;
    }
    call_release(call);
    return err;
}

/* The library creates threads, which must not handle signals. */
static pmix_status_t init_without_signals(void)
{
    sigset_t all, before;
    pmix_status_t status;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    status = session.pmix.init(&session.self, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static int session_begin(void)
{
    int err;

    if (session.pid != 0) {
        if (session.pid == getpid())
            return 0;
        LOG_ERROR("process %d was made by fork() and cannot use its parent's job: open the job "
                  "after fork(), in one of the two",
                  getpid());
        return -EPROTO;
    }
    if ((err = pmix_library_load(&session.pmix)) != 0 ||
        (err = error_of(init_without_signals(), "PMIx_Init")) != 0)
        return err;
    session.pid = getpid();
    atexit(session_end);
    return 0;
}

static int host_publish(void)
{
    uint64_t host;
    int err = host_id(&host);

    return err != 0 ? err : value_put(HOST_NAME, &host, sizeof host);
}

/* Rank 0 makes the key before fence 0. */
static int key_publish(void)
{
    int err = random_secret(session.key, BOOT_KEY_SIZE);

    return err != 0 ? err : value_put(KEY_NAME, session.key, BOOT_KEY_SIZE);
}

/* After fence 0 every rank has the key, and can get the hosts. */
static int pmix_meet(void)
{
    int err = session.broken;

    if (err == 0)
        err = host_publish();
    if (err == 0 && session.self.rank == 0)
        err = key_publish();
    if (err != 0)
        return err;
    while ((err = fence_pass(true)) == -EINTR)
        ;
    return err;
}

static int key_take(void)
{
    int err = bytes_get(0, KEY_NAME, session.key, BOOT_KEY_SIZE);

    if (err != -ENOENT)
        return err;
    LOG_ERROR("rank 0 has published no key for the job: it has ended, or has another version "
              "of Matchbox");
    return -EPROTO;
}

static int session_open(void)
{
    int err = session_begin();

    if (err != 0 || session.is_open)
        return err;
    if (!session.is_met) {
        if ((err = size_get(&session.size)) != 0 || (err = pmix_meet()) != 0)
            return err;
        session.is_met = true;
    }
    err = key_take();
    session.is_open = err == 0;
    return err;
}

static int host_get(uint32_t rank, uint64_t *host)
{
    int err = bytes_get(rank, HOST_NAME, host, sizeof *host);

    if (err != -ENOENT)
        return err;
    LOG_ERROR("rank %u has not said on which host it is: look at the output of that rank",
              rank);
    return -EPROTO;
}

/* Gets every host, without a shortcut at the first difference: all ranks must see the same
 * errors. */
static int hosts_compare(void)
{
    uint64_t first, host;
    bool differ = false;
    int err = host_get(0, &first);

    for (uint32_t rank = 1; err == 0 && rank < session.size; rank++) {
        err = host_get(rank, &host);
        differ |= err == 0 && host != first;
    }
    if (err != 0)
        return err;
    session.is_spread = differ;
    session.knows_hosts = true;
    return 0;
}

int pmix_is_spread(bool *is_spread)
{
    int err = -ENOENT;

    pthread_mutex_lock(&session.lock);
    if (session.is_open && session.pid == getpid())
        err = session.knows_hosts ? 0 : hosts_compare();
    if (err == 0)
        *is_spread = session.is_spread;
    pthread_mutex_unlock(&session.lock);
    return err;
}

/* ---- boot ---- */

static int pmix_put(struct boot *b, const void *value, size_t size)
{
    char key[32];
    int err;

    (void)b;
    if (size > BOOT_VALUE_MAX)
        return -EMSGSIZE;
    pthread_mutex_lock(&session.lock);
    err = value_put(round_key(session.fences + 1, key), value, size);
    session.has_put |= err == 0;
    pthread_mutex_unlock(&session.lock);
    return err;
}

static int pmix_get(struct boot *b, uint32_t rank, void *value, size_t size)
{
    char key[32];
    int err = -ENOENT;

    assert(rank < b->size && size <= BOOT_VALUE_MAX);
    (void)b;
    pthread_mutex_lock(&session.lock);
    if (session.fences > 0)
        err = bytes_get(rank, round_key(session.fences, key), value, size);
    pthread_mutex_unlock(&session.lock);
    return err;
}

static int pmix_fence(struct boot *b)
{
    int err;

    (void)b;
    pthread_mutex_lock(&session.lock);
    pmix_library_keep_users();
    err = fence_pass(session.has_put);
    if (err == 0) {
        session.fences++;
        session.has_put = false;
    }
    pthread_mutex_unlock(&session.lock);
    return err;
}

static void pmix_close(struct boot *b)
{
    mem_free(b);
}

static const struct boot_ops pmix_ops = {
    .name = "PMIx",
    .put = pmix_put,
    .get = pmix_get,
    .fence = pmix_fence,
    .close = pmix_close,
};

int pmix_open(uint64_t timeout_ns, struct boot **out)
{
    struct boot *b = mem_calloc(1, sizeof *b);
    int err;

    if (b == NULL)
        return -ENOMEM;
    pthread_mutex_lock(&session.lock);
    session.timeout_ns = timeout_ns;
    err = session_open();
    pmix_library_keep_users();
    if (err == 0) {
        *b = (struct boot){.ops = &pmix_ops, .rank = session.self.rank, .size = session.size};
        memcpy(b->key, session.key, BOOT_KEY_SIZE);
        *out = b;
    }
    pthread_mutex_unlock(&session.lock);
    if (err != 0)
        mem_free(b);
    return err;
}
