/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.h - `mbx perf overlap`: the share of a transfer that happens while the receiver
 * computes.
 *
 *   overlap.c        the command: one pair of ranks for each mode, one table of all
 *   overlap_mode.c   whether software or a device matches: the parameters for it
 *   overlap_place.c  the cores of the processes and threads
 *   overlap_rank.c   the measurement
 */
#ifndef TOOLS_OVERLAP_H
#define TOOLS_OVERLAP_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf.h"
#include "tools/common/tool.h"

struct overlap {
    const struct tool *tool;
    struct perf_sizes sizes;
    uint32_t repeats;
    uint32_t window;  /* 0 = by size */
    uint32_t percent; /* the computation, in percent of the transfer's time */
    bool bind;
    bool json; /* output format */
};

/* `mbx perf overlap`; argv[0] is "overlap".  Returns the exit code. */
int overlap_run(int argc, char **argv);

/* One of the two ranks: rank 0 receives, computes and prints, rank 1 sends.  Returns the exit
 * code. */
int overlap_rank(const struct overlap *o);

/* The number of messages of this size in a window. */
uint32_t overlap_window(const struct overlap *o, size_t size);

/* ---- modes ---- */

/* "software", "early" (in software, with receives that are advertised), or a device: alone
 * ("soft-thread", it matches together with software) or after the value of MBX_MATCH
 * ("device/soft-thread"). */
struct overlap_mode {
    char name[64];
    char match[16];  /* MBX_MATCH */
    char device[32]; /* MBX_DEVICE */
    bool writes; /* MBX_RNDV lets senders write into receives; with a device none do anyway */
};

#define OVERLAP_MODES "software,early,soft,soft-thread,soft-process" /* --modes all */

/* Finds the mode of this name.  False if there is none.  A mode that exists need not be in this
 * build. */
bool overlap_mode_find(const char *name, struct overlap_mode *mode);

/* Do the parameters of this build include the mode? */
bool overlap_mode_is_here(const struct overlap_mode *mode);

/* Sets the environment for the mode, where this build has parameters for it.  0 or a negative
 * errno. */
int overlap_mode_enter(const struct overlap_mode *mode);

/* The mode according to the present parameters. */
void overlap_mode_now(struct overlap_mode *mode);

/* Does the device, or the adapter of the messages, have a thread or a process of its own? */
bool overlap_mode_is_apart(const struct overlap_mode *mode);

/* ---- places ---- */

/* The receiver has a core of its own, and the sender another.  Threads and processes that the
 * library starts (a device) get all other cores, or the sender's if there are none. */
struct overlap_place {
    cpu_set_t rank[2];
    cpu_set_t others;
    bool is_shared; /* the others run on the sender's core */
};

/* Chooses among the cores that this process may use.  0 or a negative errno. */
int overlap_place_plan(struct overlap_place *place);

/* Binds the calling thread, and all that it starts from now on, to set.  0 or a negative
 * errno. */
int overlap_place_enter(const cpu_set_t *set);

/* "0,2-5"; returns text. */
const char *overlap_place_text(const cpu_set_t *set, char *text, size_t size);

/* The processors on which the other threads of this process and its children ran last, as
 * "1,1", or "none"; returns text. */
const char *overlap_place_others(char *text, size_t size);

/* Are the three times inconsistent, because something else ran on these cores?  raw is their
 * overlap in percent; on a quiet machine noise stays within these limits. */
static inline bool overlap_is_disturbed(double raw)
{
    return raw < -25 || raw > 115;
}

#endif
