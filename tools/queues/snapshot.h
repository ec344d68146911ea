/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.h - the report of one mbx to another about the ranks on its host.
 *
 * `mbx queues --snapshot` writes one snapshot: the JSON of queues.h, cut into lines.  A launcher may mix them with lines of other
 * hosts, prefix them with a label, or add its own messages:
 *
 *   @mbx1 STREAM NUMBER COUNT SIZE TEXT CHECK
 *
 *   1        the version of these lines
 *   STREAM   16 hexadecimal digits, different for each snapshot
 *   NUMBER   of this line, from 0; COUNT: the number of lines
 *   SIZE     of TEXT, which may contain spaces
 *   CHECK    8 hexadecimal digits: a hash of everything before it, from the @ on
 *
 * Each line has SNAPSHOT_LINE bytes and is written at once; the last line is padded with spaces.  srun keeps lines of less than 1,024
 * bytes in one piece.  Other launchers read pipes in blocks of some KiB, and mix the blocks; the size of a line divides the size of a
 * block, so no line is torn.  Open MPI's launcher gives its processes a terminal for standard output, which does not keep lines
 * together, and a pipe for standard error: then the lines go there.
 *
 *   lines of a launcher ──> snapshots_add() ──> texts ──> snapshot_read() ──> struct observed of one host
 *
 * The input is not trusted before it is checked: a damaged line is ignored, and a snapshot with a missing line, or
 * an invalid field, is refused as a whole.
 */
#ifndef TOOLS_SNAPSHOT_H
#define TOOLS_SNAPSHOT_H

#include <stdio.h>

#include "tools/observe/observe.h"

#define SNAPSHOT_MARK  "@mbx"
#define SNAPSHOT_LINE  512                 /* divides the size that a pipe takes at once */
#define SNAPSHOT_BYTES ((size_t)256 << 20) /* maximum for all snapshots of an inspection */
#define SNAPSHOT_RANKS 65536u              /* of a host */

/* Writes this text, which has no line feeds, as lines to standard output, or to standard error
 * if that is better.  0; a negative errno. */
int snapshot_write(const char *text, size_t size);

/* Snapshot: the report of one `mbx` to another about the ranks of its host */
struct snapshot {
    uint64_t stream;
    uint32_t next, count; /* the expected line, and the number of lines */
    bool is_damaged;
    bool is_taken; /* a reader has accepted it */
    char *text;
    size_t size;
    uint32_t capacity;
};

#define SNAPSHOT_SOURCES 2

/* The output of one launcher. */
struct snapshots {
    struct snapshot *all;
    uint32_t count, capacity;
    size_t
        *bytes; /* size of all texts of the inspection, by all launchers; NULL: not counted */
    struct {
        char line[4096]; /* an incomplete line */
        size_t used;
        bool is_long; /* the rest of it was dropped */
    } sources[SNAPSHOT_SOURCES];
    unsigned version; /* of lines with another version; 0: none */
    bool is_full;     /* *bytes is more than SNAPSHOT_BYTES, or there are too many snapshots */
    bool has_no_memory;
};

/* Adds the next bytes of this source: a launcher has two outputs. */
void snapshots_add(struct snapshots *snapshots, unsigned source, const char *bytes,
                   size_t size);

/* Called after the last bytes. */
void snapshots_end(struct snapshots *snapshots);

/* Are all of its lines there, and undamaged? */
bool snapshot_is_whole(const struct snapshot *snapshot);

void snapshots_free(struct snapshots *snapshots);

/* Reads a snapshot into one host and its jobs.  NULL; or a description of the fault, valid
 * until the next call.  Undone by observe_free(), even after a fault. */
const char *snapshot_read(const char *text, size_t size, struct observed *out);

#endif
