/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hang.c - measures how long nothing has happened in an endpoint, and with MBX_HANG reports a
 * hang.
 *
 * There is no thread: liveness_check(), and repeated probes, check whether something has
 * happened since the last check.  If nothing has happened for MBX_HANG, this rank starts `mbx
 * doctor --from-watchdog`, a separate process, which is not a child of the application.  It
 * inspects all ranks of the job on this host from outside, while this rank continues to
 * answer.  Only one of the processes that the ranks of a job start stays
 * (tools/doctor/watchdog.c); the others report that they are not needed, and their rank tries
 * again later.
 *
 *   nothing has happened for MBX_HANG ──> start ──┬── HANG_BUSY  another one is running: again in MBX_HANG
 *                                                 ├── HANG_OVER  it has ended: again in MBX_HANG
 *                                                 ├── HANG_ABORT the job is deadlocked, and has to end
 *                                                 └── nothing    it reports, or waits; or it was killed: again in
 *                                                                RESTART times MBX_HANG
 *   something happens ──> back to the beginning
 *
 * A rank does not see that the process was killed.  Another one that it starts then stays, and otherwise ends at once.
 *
 * The process reports through an eventfd that no other process has: no observer can end a rank.  It stays open when
 * something happens here: the process may then watch another rank, and still find that the job is deadlocked.
 */
#include "lib/inspect.h"

#include <limits.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/program.h"
#include "base/sys.h"
#include "core/core.h"
#include "inspect/hang.h"

/* A rank that has made no check for this long did not only wait. */
#define GAP_NS CLOCK_S

/* Times MBX_HANG: after the second report of a process that lives (tools/doctor/watchdog.c). */
#define RESTART 20

/* A sum that changes with each event. */
static uint64_t happened(const struct mbx_ep *ep)
{
    uint64_t sum = ep->stats.expected + ep->stats.unexpected + ep->stats.cancelled +
                   pool_live(&ep->requests.pool);

    for (unsigned i = 0; i < MBX_PROTOCOLS; i++)
        sum += ep->stats.sent[i] + ep->stats.received[i];
    return sum;
}

/* ---- the process that reports ---- */

static void reporter_leave(struct mbx_ep *ep)
{
    if (ep_inspect(ep)->reporter >= 0)
        sys_close(ep_inspect(ep)->reporter);
    ep_inspect(ep)->reporter = -1;
}

static void reporter_start(struct mbx_ep *ep, uint64_t now_ns)
{
    char path[PATH_MAX], pid[24], job[24], hang[24];
    const char *const argv[] = {
        path,     "doctor", "--from-watchdog",
        pid,      "--job",  job,
        "--hang", hang,     ep->settings.hang_then == HANG_ABORT ? "--abort" : NULL,
        NULL};
    int err = 0;

    ep_inspect(ep)->retry_ns = now_ns + RESTART * ep->settings.hang_ns;
    if (!program_find("mbx", MBX_TOOL_INSTALLED, path, sizeof path)) {
        LOG_WARN("MBX_HANG: nothing has arrived at this rank for %llu s, and there is no %s to "
                 "say why; install mbx next to the library, or run mbx doctor on this host",
                 (unsigned long long)((now_ns - ep_inspect(ep)->still_ns) / CLOCK_S), path);
        ep_inspect(ep)->retry_ns = UINT64_MAX; /* until something happens */
        return;
    }
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    snprintf(job, sizeof job, "%016llx", (unsigned long long)ep->observed.page->head.job);
    snprintf(hang, sizeof hang, "%llu", (unsigned long long)(ep->settings.hang_ns / CLOCK_MS));
    if (ep_inspect(ep)->reporter < 0)
        ep_inspect(ep)->reporter = sys_eventfd(0, EFD_NONBLOCK);
    if (ep_inspect(ep)->reporter < 0 ||
        sys_spawn_apart(path, argv, ep_inspect(ep)->reporter) < 0) {
        err = errno;
        LOG_WARN("MBX_HANG: cannot start %s: %s; run mbx doctor on this host", path,
                 mbx_strerror(err));
        ep_inspect(ep)->retry_ns = now_ns + ep->settings.hang_ns;
    }
}

/* Handles the report of the process. */
static void reporter_hear(struct mbx_ep *ep, uint64_t now_ns)
{
    uint64_t reported;

    if (ep_inspect(ep)->reporter < 0 ||
        sys_read(ep_inspect(ep)->reporter, &reported, sizeof reported) != sizeof reported)
        return;
    if (reported >= INSPECT_HANG_ABORT) {
        LOG_ERROR(
            "this rank ends the job: it is deadlocked, and MBX_HANG_THEN=abort (status %d)",
            INSPECT_HANG_STATUS);
        _exit(INSPECT_HANG_STATUS);
    }
    ep_inspect(ep)->retry_ns = now_ns + ep->settings.hang_ns;
}

/* ---- looks ---- */

static void hang_watch(struct mbx_ep *ep)
{
    uint64_t now_ns = clock_now(), sum = happened(ep), hang_ns = ep->settings.hang_ns;
    uint64_t gap_ns = hang_ns / 2 > GAP_NS ? hang_ns / 2 : GAP_NS;

    if (sum != ep_inspect(ep)->happened || now_ns - ep_inspect(ep)->watched_ns > gap_ns) {
        ep_inspect(ep)->still_ns = now_ns;
        ep_inspect(ep)->retry_ns = now_ns + hang_ns;
    }
    ep_inspect(ep)->happened = sum;
    ep_inspect(ep)->watched_ns = now_ns;
    ages_update(ep, now_ns);
    if (hang_ns == 0)
        return;
    reporter_hear(ep, now_ns);
    if (now_ns >= ep_inspect(ep)->retry_ns)
        reporter_start(ep, now_ns);
}

void hang_open(struct mbx_ep *ep)
{
    ep_inspect(ep)->reporter = -1;
    ep->observed.watch = hang_watch;
}

void hang_close(struct mbx_ep *ep)
{
    reporter_leave(ep);
    ep->observed.watch = NULL;
}
