/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.h - what one mbx tells another of the ranks on its host.
 *
 * `mbx queues --snapshot` writes one snapshot: the JSON of queues.h, cut into lines that a launcher may mix with those of other
 * hosts, put a label before, or surround with what it says itself:
 *
 *   @mbx1 STREAM NUMBER COUNT SIZE TEXT CHECK
 *
 *   1        the version of these lines
 *   STREAM   16 hexadecimal digits, others for each snapshot
 *   NUMBER   of this line, from 0; COUNT: how many there are
 *   SIZE     of TEXT, which may contain spaces
 *   CHECK    8 hexadecimal digits: a hash of all that is before it, from the @ on
 *
 * Each line is of SNAPSHOT_LINE bytes and written at once; the last one ends with spaces.  srun keeps lines of less than 1,024 bytes in one
 * piece.  Other launchers read pipes in blocks of some KiB, and mix the blocks: as lines are a part of these, none is torn.
 * Open MPI's gives its processes a terminal for standard output, in whose stream nothing holds lines together, and a pipe for
 * standard error: then the lines go there.
 *
 *   lines of a launcher ──> snapshots_add() ──> texts ──> snapshot_read() ──> struct observed of one host
 *
 * All of it is bad input until it was looked at: a line that is damaged counts for nothing, and a snapshot of which a line
 * is missing, or a field is not what it can be, is refused as a whole.
 */
#ifndef TOOLS_SNAPSHOT_H
#define TOOLS_SNAPSHOT_H

#include <stdio.h>

#include "tools/observe/observe.h"

#define SNAPSHOT_MARK  "@mbx"
#define SNAPSHOT_LINE  512                 /* a divisor of what a pipe takes at once */
#define SNAPSHOT_BYTES ((size_t)256 << 20) /* of all snapshots of a look, at most */
#define SNAPSHOT_RANKS 65536u              /* of a host */

/* The lines of this text, which has no line feeds, to standard output, or to standard error if that is the better way.
 * 0; a negative errno. */
int snapshot_write(const char *text, size_t size);

/* Glossary: snapshot - the report of one `mbx` to another about the ranks of its host */
struct snapshot {
    uint64_t stream;
    uint32_t next, count; /* the line that is due, of so many */
    bool is_damaged;
    bool is_taken; /* by who has read it */
    char *text;
    size_t size, capacity;
};

#define SNAPSHOT_SOURCES 2

/* What one launcher prints. */
struct snapshots {
    struct snapshot *all;
    uint32_t count, capacity;
    size_t
        *bytes; /* of all texts of the look, which has several launchers; NULL: not counted */
    struct {
        char line[4096]; /* that has not ended */
        size_t used;
        bool is_long; /* more of it was dropped */
    } sources[SNAPSHOT_SOURCES];
    unsigned version; /* of lines of another version; 0: there are none */
    bool is_full;     /* *bytes is more than SNAPSHOT_BYTES, or there are too many snapshots */
    bool has_no_memory;
};

/* The next bytes of this source: a launcher has two outputs. */
void snapshots_add(struct snapshots *snapshots, unsigned source, const char *bytes,
                   size_t size);

/* All were given. */
void snapshots_end(struct snapshots *snapshots);

/* Has all of its lines come, as they were written? */
bool snapshot_is_whole(const struct snapshot *snapshot);

void snapshots_free(struct snapshots *snapshots);

/* What it says, as one host and its jobs.  NULL; or what is wrong with it, in words, which hold until the next call.  Undone by
 * observe_free(), also if something is wrong. */
const char *snapshot_read(const char *text, size_t size, struct observed *out);

#endif
