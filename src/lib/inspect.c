/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inspect.c - answers the observers of an endpoint.
 *
 * progress_slow_check() compares the number of the question with the number of the last answer,
 * so the cost without observers is small.  An answer costs some tens of microseconds, and there
 * is at most one in ANSWER_EACH_NS, whatever an observer writes into the page.
 */
#include "lib/inspect.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/launcher.h"
#include "base/caller.h"
#include "base/environ.h"
#include "base/lock.h"
#include "base/sys.h"
#include "core/core.h"
#include "inspect/mpi.h"
#include "inspect/polls.h"
#include "transport/siphash.h"

#define ANSWER_EACH_NS (10 * CLOCK_MS)

/* ---- the process and its rank ---- */

static_assert(INSPECT_NOBODY == LAUNCHER_UNKNOWN, "ranks that nobody says");

/* Appends the launcher's names of the job to text; returns the length. */
static size_t add_job_names(char *text, size_t size, size_t used)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
                                        "PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"};

    for (size_t i = 0; i < ARRAY_COUNT(names) && used < size; i++)
        if (environ_get(names[i]) != NULL)
            used += (size_t)snprintf(text + used, size - used, " %s", environ_get(names[i]));
    return min_size(used, size - 1);
}

/* A number that the ranks of a job share: from its key, and from its launcher's names for
 * it. */
static uint64_t job_number(const struct mbx_ep *ep)
{
    char text[512] = "matchbox-inspect";

    return siphash(ep->net.config.key, text, add_job_names(text, sizeof text, strlen(text)));
}

uint64_t inspect_job(const uint8_t key[TRANSPORT_KEY_SIZE])
{
    static const uint8_t none[TRANSPORT_KEY_SIZE];
    char text[512] = "matchbox-shm";
    size_t begin = strlen(text), used = add_job_names(text, sizeof text, begin);

    if (used == begin && memcmp(key, none, sizeof none) == 0)
        return 0;
    return siphash(key, text, used);
}

static void fill_head(struct mbx_ep *ep, struct inspect_head *head)
{
    struct transport_address own;

    ep->net.transport->ops->address(ep->net.transport, &own);
    *head = (struct inspect_head){
        .magic = INSPECT_MAGIC,
        .version = INSPECT_VERSION,
        .size = INSPECT_PAGE_SIZE,
        .pid = (uint32_t)getpid(),
        .rank = launcher_number(launcher_rank()),
        .ranks = launcher_number(launcher_ranks()),
        .job = job_number(ep),
        .address =
            inspect_address_name(&own, sizeof own, offsetof(struct transport_address, credit)),
        .root = inspect_root_address(),
        .ep = (uint64_t)(uintptr_t)ep,
        .open_ns = clock_now(),
    };
    snprintf(head->library, sizeof head->library, "%s", mbx_version());
}

/* ---- an answer ---- */

static int read_own(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    (void)source;
    memcpy(to, (const void *)(uintptr_t)at, size);
    return 0;
}

static const struct inspect_source own_memory = {.read = read_own};

/* The mark of an operation for which another thread waits; 0: none. */
static uint32_t mark_of_waiter(const struct mbx_ep *ep, const struct request *req)
{
    int waiter = ep->observed.waiter != NULL
                     ? ep->observed.waiter(req->completion.user, req->completion.kind)
                     : -1;

    return waiter >= 0 && waiter < INSPECT_CALLERS ? INSPECT_NEEDS_MOST + 1 + (uint32_t)waiter
                                                   : 0;
}

/* Marks the operations for which the program's current call waits. */
static void mark_awaited(const struct mbx_ep *ep, struct inspect_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct request *req;
        uint32_t needs = 0;

        if (entries[i].kind == INSPECT_UNEXPECTED || entries[i].kind == INSPECT_PROBED ||
            entries[i].kind == INSPECT_PROBE)
            continue;
        req = request_find(ep, entries[i].id);
        if (req == NULL)
            continue;
        needs = wait_is_for(ep, entries[i].id);
        if (needs == 0 && ep->observed.waits != NULL)
            needs = ep->observed.waits(req->completion.user, req->completion.kind);
        needs = (uint32_t)min_size(needs, INSPECT_NEEDS_MOST);
        entries[i].needs = (uint16_t)(needs != 0 ? needs : mark_of_waiter(ep, req));
    }
}

static_assert(INSPECT_CHECK_ROUNDS == PROGRESS_SLOW_CHECK, "observers count rounds");
static_assert(CALLER_FRAMES == INSPECT_FRAMES && CALLER_CALL == INSPECT_CALL_TEXT,
              "of one length");

/* The call that the program is in: the outermost one of MPI, or otherwise of the library.  In a
 * statically linked program the calls have no symbols, but the library knows its own waits. */
static void check_stack(const struct mbx_ep *ep, struct inspect_state *state)
{
    const char *own = wait_call(ep);
    struct caller caller;

    caller_find(&caller);
    state->frames = (uint32_t)caller.count;
    state->caller = caller.address;
    memcpy(state->call, caller.call, sizeof state->call);
    memcpy(state->stack, caller.frames, (size_t)caller.count * sizeof *state->stack);
    if (state->call[0] == '\0' && own != NULL)
        snprintf(state->call, sizeof state->call, "%s", own);
}

/* A line for each peer of an entry whose rank the program has named: a rank that is not seen
 * has no page with its rank. */
static size_t fill_peers(const struct mbx_ep *ep, struct inspect_page *page, char *text,
                         size_t size)
{
    const struct inspect_entry *entries = inspect_page_entries(page);
    uint32_t last = INSPECT_NOBODY;
    size_t used = 0;

    for (uint32_t i = 0; i < page->state.entries; i++) {
        const struct named_peer *named;
        int more;

        if (entries[i].peer == last || (named = names_peer(ep, entries[i].peer)) == NULL)
            continue;
        last = entries[i].peer;
        more = snprintf(text + used, size - used, "peer %u %u\n", last, named->rank);
        if (more < 0 || (size_t)more >= size - used)
            break;
        used += (size_t)more;
    }
    return used;
}

#define UNSTARTED_MAX 32 /* the most that are shown */

/* A line for each operation that the program has described and never started. */
static size_t fill_unstarted(const struct mbx_ep *ep, char *text, size_t size)
{
    struct mbx_unstarted one;
    size_t used = 0;

    for (unsigned i = 0; ep->observed.unstarted != NULL && !ep->wait.has_threads &&
                         i < UNSTARTED_MAX && ep->observed.unstarted(i, &one) == 1;
         i++) {
        uint64_t whom = one.peer < ep->peers.count
                            ? inspect_address_name(&ep->peers.addresses[one.peer],
                                                   sizeof ep->peers.addresses[0],
                                                   offsetof(struct transport_address, credit))
                            : 0;
        int more = snprintf(text + used, size - used,
                            "unstarted %s %u %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n",
                            one.is_send ? "send" : "receive", one.context_id, one.tag,
                            one.ignore, whom);

        if (more < 0 || (size_t)more >= size - used)
            break;
        used += (size_t)more;
    }
    return used;
}

/* The statistics, and a line for each context id and peer that the program has named, and for
 * each operation that it has described and not started, while there is space.  Returns the
 * length. */
static uint32_t fill_text(const struct mbx_ep *ep, struct inspect_page *page)
{
    char *text = (char *)page + INSPECT_TEXT_AT;
    size_t used = stats_line(ep, text, INSPECT_TEXT_SIZE);

    for (uint32_t i = 0; i < ep->names.context_count; i++) {
        const struct named_context *named = &ep->names.contexts[i];
        int more = snprintf(text + used, INSPECT_TEXT_SIZE - used, "context %u %u %s\n",
                            named->id, named->size, named->name);

        if (more < 0 || (size_t)more >= INSPECT_TEXT_SIZE - used)
            break;
        used += (size_t)more;
    }
    used += fill_peers(ep, page, text + used, INSPECT_TEXT_SIZE - used);
    return (uint32_t)(used + fill_unstarted(ep, text + used, INSPECT_TEXT_SIZE - used));
}

/* The threads that have communicated, and this one. */
static void fill_callers(const struct mbx_ep *ep, struct inspect_state *state)
{
    uint32_t id, count = 0;

    memset(state->caller_ids, 0, sizeof state->caller_ids);
    while (count <= INSPECT_CALLERS && ep->observed.threads != NULL &&
           ep->observed.threads(count, &id) == 1) {
        if (count < INSPECT_CALLERS)
            state->caller_ids[count] = id;
        count++;
    }
    state->callers = count;
    state->answerer = (uint32_t)gettid();
}

static void fill_state(struct mbx_ep *ep, struct inspect_page *page)
{
    struct inspect_state *state = &page->state;
    uint64_t at = (uint64_t)(uintptr_t)ep;

    state->checks = ep->observed.checks;
    state->now_ns = clock_now();
    ages_update(ep, state->now_ns);
    inspect_walk_pulse(&inspect_own_map, &own_memory, at, &state->pulse);
    inspect_walk(&inspect_own_map, &own_memory, at, inspect_page_entries(page), INSPECT_ENTRIES,
                 &state->entries, state->counts);
    inspect_walk_ages(&inspect_own_map, &own_memory, at, state->now_ns,
                      inspect_page_entries(page), state->entries);
    mark_awaited(ep, inspect_page_entries(page), state->entries);
    state->flags = (ep->settings.threads == THREADS_MANY ? INSPECT_STATE_THREADS : 0) |
                   (ep->names.has_others ? INSPECT_STATE_OTHERS : 0);
    fill_callers(ep, state);
    state->still_ns = ep_inspect(ep)->still_ns;
    state->text_size = fill_text(ep, page);
    check_stack(ep, state);
}

/* Called by progress, under the lock of the endpoint. */
static void inspect_answer(struct mbx_ep *ep)
{
    struct inspect_page *page = ep->observed.page;
    uint32_t ask = atomic_load_explicit(&page->ask, memory_order_relaxed);
    uint64_t now_ns = clock_now();

    if (now_ns - ep_inspect(ep)->answered_ns < ANSWER_EACH_NS)
        return;
    atomic_store_explicit(&page->state.turn, ++ep_inspect(ep)->turn, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    fill_state(ep, page);
    atomic_store_explicit(&page->state.turn, ++ep_inspect(ep)->turn, memory_order_release);
    ep->observed.answered = ask;
    ep_inspect(ep)->answered_ns =
        clock_now(); /* after the answer, so that the next one is no earlier */
    atomic_store_explicit(&page->state.answered, ask, memory_order_release);
}

/* ---- from open to close ---- */

static struct inspect_page *make_page(int *fd)
{
    struct inspect_page *page = NULL;

    *fd = sys_memfd_create(INSPECT_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return NULL;
    if (sys_ftruncate(*fd, INSPECT_PAGE_SIZE) == 0 &&
        sys_fcntl_seal(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        page = sys_mmap(INSPECT_PAGE_SIZE, *fd, 0);
    if (page == NULL)
        sys_close(*fd);
    return page;
}

void inspect_ranks(struct mbx_ep *ep, uint32_t ranks)
{
    if (ep->observed.page != NULL && launcher_number(launcher_ranks()) == INSPECT_NOBODY)
        ep->observed.page->head.ranks = ranks;
}

static struct lock endpoints_lock;

static void list_endpoint(struct mbx_ep *ep)
{
    lock_take(&endpoints_lock);
    ep_inspect(ep)->next = inspect_endpoints;
    ep_inspect(ep)->at = &inspect_endpoints;
    if (inspect_endpoints != NULL)
        ep_inspect(inspect_endpoints)->at = &ep_inspect(ep)->next;
    inspect_endpoints = ep;
    debugger_announce();
    lock_give(&endpoints_lock);
}

/* Under the lock, another endpoint's end may write to this one. */
static void unlist_endpoint(struct mbx_ep *ep)
{
    lock_take(&endpoints_lock);
    if (ep_inspect(ep)->at != NULL) {
        *ep_inspect(ep)->at = ep_inspect(ep)->next;
        if (ep_inspect(ep)->next != NULL)
            ep_inspect(ep_inspect(ep)->next)->at = ep_inspect(ep)->at;
        ep_inspect(ep)->at = NULL;
        if (inspect_endpoints == NULL)
            debugger_forget();
    }
    lock_give(&endpoints_lock);
}

void inspect_open(struct mbx_ep *ep)
{
    if (!ep->settings.inspect && ep->settings.hang_ns != 0)
        LOG_WARN("MBX_HANG has no effect with MBX_INSPECT=no; set MBX_INSPECT=yes");
    if (!ep->settings.inspect)
        return;
    list_endpoint(ep);
    ep->observed.page = make_page(&ep_inspect(ep)->fd);
    if (ep->observed.page == NULL) {
        LOG_DEBUG("no page for mbx queues: %s", mbx_strerror(errno));
        return;
    }
    fill_head(ep, &ep->observed.page->head);
    ep->observed.answer = inspect_answer;
    hang_open(ep);
}

void inspect_close(struct mbx_ep *ep)
{
    unlist_endpoint(ep);
    ages_close(ep);
    if (ep->observed.page == NULL)
        return;
    hang_close(ep);
    sys_munmap(ep->observed.page, INSPECT_PAGE_SIZE);
    sys_close(ep_inspect(ep)->fd);
    ep->observed.page = NULL;
}

/* ---- operations that are left at the end ---- */

#define LEAK_KINDS 5 /* the kinds that are distinguished */

struct leak {
    struct inspect_entry entry;
    uint64_t count;
};

struct leaks {
    struct leak kinds[LEAK_KINDS];
    uint64_t count;
    uint32_t known;
};

static void leak_add(struct leaks *leaks, const struct inspect_entry *entry)
{
    uint32_t i = 0;

    leaks->count++;
    while (i < leaks->known && (leaks->kinds[i].entry.context_id != entry->context_id ||
                                leaks->kinds[i].entry.peer != entry->peer ||
                                leaks->kinds[i].entry.tag != entry->tag))
        i++;
    if (i == LEAK_KINDS)
        return;
    if (i == leaks->known)
        leaks->kinds[leaks->known++].entry = *entry;
    leaks->kinds[i].count++;
}

/* "tag 8 on MPI_COMM_WORLD"; numbers, if their meaning is not known. */
static const char *leak_words(const struct mbx_ep *ep, const struct inspect_entry *entry,
                              char words[128])
{
    const struct inspect_layout *layout = inspect_mpi_layout(ep->names.program);
    const struct named_context *named = names_context(ep, entry->context_id);
    char tag[INSPECT_MPI_WORDS];
    struct inspect_mpi mpi;

    if (!inspect_mpi_decode(layout, entry->context_id, entry->tag, entry->ignore, &mpi))
        snprintf(words, 128, "context %u, tag %llu", entry->context_id,
                 (unsigned long long)entry->tag);
    else if (inspect_mpi_predefined(layout, mpi.communicator) != NULL)
        snprintf(words, 128, "%.64s on %s", inspect_mpi_words(&mpi, tag),
                 inspect_mpi_predefined(layout, mpi.communicator));
    else
        snprintf(words, 128, "%.48s on communicator %u%s%.32s%s", inspect_mpi_words(&mpi, tag),
                 mpi.communicator, named != NULL ? " \"" : "", named != NULL ? named->name : "",
                 named != NULL ? "\"" : "");
    return words;
}

static void leak_say(const struct mbx_ep *ep, const struct leaks *leaks, const char *what)
{
    char text[LOG_LINE_MAX], peer[NAMES_PEER_TEXT], envelope[128];
    const char *rank = launcher_rank();
    size_t used = 0;
    uint64_t reported = 0;

    if (leaks->count == 0)
        return;
    for (uint32_t i = 0; i < leaks->known && used < sizeof text; i++) {
        const struct inspect_entry *entry = &leaks->kinds[i].entry;

        if (entry->peer == MBX_ANY_SOURCE)
            snprintf(peer, sizeof peer, "any source");
        else
            names_peer_text(ep, entry->peer, peer);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%llu from %s, %s, %llu bytes",
                             i > 0 ? "; " : "", (unsigned long long)leaks->kinds[i].count, peer,
                             leak_words(ep, entry, envelope), (unsigned long long)entry->size);
        reported += leaks->kinds[i].count;
    }
    LOG_WARN("rank %s ends with %llu %s: %s%s", rank != NULL ? rank : "unknown",
             (unsigned long long)leaks->count, what, text,
             reported < leaks->count ? "; and others" : "");
}

void inspect_leaks(const struct mbx_ep *ep)
{
    uint32_t capacity = pool_live(&ep->requests.pool) + pool_live(&ep->messages), stored;
    uint32_t counts[INSPECT_KINDS];
    struct leaks messages = {.count = 0}, receives = {.count = 0};
    struct inspect_entry *entries;

    if (!ep->settings.leaks || capacity == 0)
        return;
    entries = mem_calloc(capacity + 1, sizeof *entries); /* and one for a probe */
    if (entries == NULL)
        return;
    inspect_walk(&inspect_own_map, &own_memory, (uint64_t)(uintptr_t)ep, entries, capacity + 1,
                 &stored, counts);
    for (uint32_t i = 0; i < stored; i++)
        if (entries[i].kind == INSPECT_UNEXPECTED)
            leak_add(&messages, &entries[i]);
        else if (entries[i].kind == INSPECT_POSTED &&
                 !inspect_mpi_is_kept_posted(ep->names.program, entries[i].context_id))
            leak_add(&receives, &entries[i]);
    mem_free(entries);
    leak_say(ep, &messages, "messages that nobody received");
    leak_say(ep, &receives, "receives that matched no message");
}
