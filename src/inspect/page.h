/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page.h - the page of an endpoint, which observers read.
 *
 * A page is a memory file of INSPECT_PAGE_SIZE bytes, one for each endpoint (MBX_INSPECT), which observers of
 * the same user find by its name among the descriptors of the process, /proc/PID/fd/N.  The
 * endpoint writes it; the observer writes one word, `ask`.
 *
 *   offset
 *        0   head     identity; constant while the endpoint is open, except `ranks` and `mpi`
 *      256   checks   the number of slow checks: the endpoint makes progress while it grows
 *      320   ask      the number of the observer's question
 *      384   state    the last answer
 *     4096   text     its statistics, as in MBX_STATS_FILE, and lines `context ID SIZE NAME`, ...
 *    12288   entries  its queues
 *
 * An observer writes a new number into `ask` and waits until `answered` is that number.  The
 * answer is consistent if `turn` is even, and the same before and after the page was read.  An
 * endpoint that does not answer makes no progress; then its memory does not change, and the
 * observer reads it from outside: `root` is the address of its layout (walk.h).
 *
 * The library trusts nothing in its page: it only reads and compares `ask`, and keeps its state
 * elsewhere.  An observer does not trust the page either: inspect_page_check().
 *
 * There is no payload in a page, no key of the job, and no content of a buffer.
 */
#ifndef INSPECT_PAGE_H
#define INSPECT_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSPECT_NAME      "matchbox-inspect" /* of the memory file */
#define INSPECT_MAGIC     "MBXSEE1"
#define INSPECT_VERSION   2u
#define INSPECT_PAGE_SIZE 65536u
#define INSPECT_NOBODY    UINT32_MAX /* rank, ranks: not known; peer: any, or none */
#define INSPECT_SOMEBODY                                                                       \
    (UINT32_MAX - 1) /* peer: a rank that only the tag names (inspect_resolve) */
#define INSPECT_NOT_KNOWN  UINT32_MAX /* of a time */
#define INSPECT_MPI_TEXT   96
#define INSPECT_CALL_TEXT  40
#define INSPECT_FRAMES     24
#define INSPECT_CALLERS    64 /* threads that are listed */
#define INSPECT_TEXT_AT    4096
#define INSPECT_TEXT_SIZE  8192
#define INSPECT_ENTRIES_AT 12288
#define INSPECT_ENTRIES    ((INSPECT_PAGE_SIZE - INSPECT_ENTRIES_AT) / 64)

struct inspect_head {
    char magic[8];
    uint32_t version, size;
    uint32_t pid;
    uint32_t rank, ranks; /* from the launcher, or from mbx_job_connect() */
    uint32_t zero;
    uint64_t job;     /* the same in all ranks of a job; derived from its key, which it does not
                reveal */
    uint64_t address; /* inspect_address_name() of the endpoint's address */
    uint64_t root;    /* the address of its struct inspect_root */
    uint64_t ep;      /* the address of the endpoint */
    uint64_t open_ns;
    char library[16]; /* the version of the library */
    char mpi
        [INSPECT_MPI_TEXT]; /* `WAY VERSION` of the MPI (inspect/mpi.h), once it is known; or empty: none */
};

static_assert(sizeof(struct inspect_head) <= 256, "checks follow");
static_assert(offsetof(struct inspect_head, root) == 48, "read by tools/gdb/matchbox-gdb.py");

/* The kinds of entries of a rank. */
enum inspect_kind {
    INSPECT_NONE,
    INSPECT_POSTED,     /* a receive that waits for a message */
    INSPECT_UNEXPECTED, /* a message that waits for a receive */
    INSPECT_SEND,       /* a send that waits for its receive */
    INSPECT_SENDING,    /* a send on its way */
    INSPECT_RECEIVING,  /* a receive that has matched, and is being filled */
    INSPECT_ACCESS,     /* a one-sided access by us */
    INSPECT_PROBE,      /* not a request: the last probe, which found nothing */
    INSPECT_PROBED,     /* a message that a matched probe has taken, without a receive so far */
    INSPECT_KINDS
};

enum inspect_entry_flags {
    INSPECT_ENTRY_SYNC = 1 << 0, /* a synchronous send */
    INSPECT_ENTRY_INTERNAL =
        1 << 1, /* without a completion: injected, discarded; POSTED: kept posted for libucp */
    INSPECT_ENTRY_DEFERRED =
        1 << 2, /* a send that has not left: its receiver's window is used up */
    INSPECT_ENTRY_RTS =
        1 << 3, /* UNEXPECTED, PROBED: only the RTS has come, so its send is not complete */
};

struct inspect_entry {
    uint8_t kind; /* enum inspect_kind */
    uint8_t flags;
    uint16_t needs; /* the call that the program is in waits for this operation, and ends when
                       this number of operations with `needs` have ended; 0: not known; above
                       INSPECT_NEEDS_MOST: another thread waits for it, inspect_waiter() */
    uint32_t context_id;
    uint32_t
        peer; /* its number at that endpoint; INSPECT_NOBODY: any source; INSPECT_SOMEBODY */
    union {
        uint32_t count;     /* PROBE: the number of probes that found nothing */
        uint32_t waited_ms; /* other kinds: the least time that it has been there, or
                          INSPECT_NOT_KNOWN */
    };
    uint64_t tag, ignore, size;
    uint64_t id;   /* unique among the requests and messages of this endpoint */
    uint64_t age;  /* smaller is older, among entries of the same kind and context id */
    uint64_t whom; /* inspect_address_name() of that peer, or 0 */
};

static_assert(sizeof(struct inspect_entry) == 64, "page format");

#define INSPECT_NEEDS_MOST 0xff00u

/* 1 + the index in caller_ids of a thread that waits for this operation, and has not answered; 0: it
 * is not known, or there is none. */
static inline uint32_t inspect_waiter(const struct inspect_entry *entry)
{
    return entry->needs > INSPECT_NEEDS_MOST ? entry->needs - INSPECT_NEEDS_MOST : 0;
}

/* The progress of an endpoint: if none of these changes, nothing has happened. */
struct inspect_pulse {
    uint64_t arrived;   /* messages */
    uint64_t sent;      /* messages that have gone */
    uint64_t received;  /* messages whose receive is complete */
    uint64_t cancelled; /* receives */
};

struct inspect_state {
    _Atomic uint32_t answered;
    _Atomic uint32_t turn;
    uint64_t checks, now_ns;
    struct inspect_pulse pulse;
    uint32_t counts[INSPECT_KINDS]; /* of all entries */
    uint32_t entries;               /* in the page: at most INSPECT_ENTRIES */
    uint32_t text_size;
    uint32_t frames;
    char call
        [INSPECT_CALL_TEXT]; /* the call of MPI, or of the library, that the program is in; or
                                empty */
    uint64_t caller;         /* the return address of that call in the program, or 0 */
    uint64_t stack[INSPECT_FRAMES];
    uint32_t flags; /* enum inspect_state_flags */
    uint32_t zero;
    uint64_t still_ns; /* the time since which nothing has happened here, to 0.1 s; or 0: not
                     known */
    /* With INSPECT_STATE_THREADS; a library before 0.1.0 leaves zeros. */
    uint32_t
        answerer;     /* the thread that has answered, whose stack this is, as its own namespace
                          numbers it; 0: not known */
    uint32_t callers; /* threads that have communicated, some of which may have ended; more
                          than INSPECT_CALLERS: not all are listed; 0: not known */
    uint32_t caller_ids[INSPECT_CALLERS]; /* the kernel's numbers of these threads */
};

enum inspect_state_flags {
    INSPECT_STATE_THREADS = 1 << 0, /* several threads may make calls (MPI_THREAD_MULTIPLE) */
    INSPECT_STATE_OTHERS =
        1 << 1, /* has met processes of other jobs (MPI_Comm_spawn, MPI_Comm_connect) */
};

/* Glossary: page - the memory file in which an endpoint answers observers */
struct inspect_page {
    struct inspect_head head;
    _Alignas(256) _Atomic uint64_t checks;
    _Alignas(64) _Atomic uint32_t ask;
    _Alignas(64) struct inspect_state state;
};

static_assert(offsetof(struct inspect_page, checks) == 256, "page format");
static_assert(offsetof(struct inspect_page, ask) == 320, "page format");
static_assert(offsetof(struct inspect_page, state) == 384, "page format");
static_assert(sizeof(struct inspect_page) <= INSPECT_TEXT_AT, "page format");

/* A name for a transport's address, without the bytes [skip, skip + 4); never 0. */
uint64_t inspect_address_name(const void *address, size_t size, size_t skip);

/* Is it a page of another version?  Then only its magic, version and library are valid. */
bool inspect_head_is_other(const struct inspect_head *head);

/* The error in this head of a page of process pid, or NULL. */
const char *inspect_head_check(const struct inspect_head *head, uint32_t pid);

/* The error in this copy of a page of process pid, or NULL; *page is INSPECT_PAGE_SIZE
 * bytes. */
const char *inspect_page_check(const void *page, uint32_t pid);

static inline struct inspect_entry *inspect_page_entries(struct inspect_page *page)
{
    return (struct inspect_entry *)(void *)((char *)page + INSPECT_ENTRIES_AT);
}

const char *inspect_kind_name(unsigned kind);

#endif
