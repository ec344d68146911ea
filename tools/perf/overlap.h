/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.h - `mbx perf overlap`: how much of a transfer happens while the receiver
 * computes.
 *
 *   overlap.c        the command: one pair of ranks for each mode, one table of all
 *   overlap_mode.c   who matches, software or a device: the parameters that say so
 *   overlap_place.c  who runs on which core
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
    uint32_t percent; /* the computation, of the transfer's time */
    bool bind;
    bool json; /* what is printed */
};

/* `mbx perf overlap`; argv[0] is "overlap".  The exit code. */
int overlap_run(int argc, char **argv);

/* One of the two ranks: rank 0 receives, computes and prints, rank 1 sends.  The exit
 * code. */
int overlap_rank(const struct overlap *o);

/* How many messages of this size travel at a time. */
uint32_t overlap_window(const struct overlap *o, size_t size);

/* ---- modes ---- */

/* "software", "early" (in software, with receives that are told in advance), or a device, alone
 * ("soft-thread", it matches together with software) or behind what MBX_MATCH shall be
 * ("device/soft-thread"). */
struct overlap_mode {
    char name[64];
    char match[16];  /* MBX_MATCH */
    char device[32]; /* MBX_DEVICE */
    bool writes; /* MBX_RNDV lets senders write into receives; with a device none do anyway */
};

#define OVERLAP_MODES "software,early,soft,soft-thread,soft-process" /* --modes all */

/* The mode called name.  False if there is none of that name; that it exists does not
 * mean that this build has it. */
bool overlap_mode_find(const char *name, struct overlap_mode *mode);

/* Do the parameters of this build know the mode? */
bool overlap_mode_is_here(const struct overlap_mode *mode);

/* Puts the mode into the environment, as far as this build has parameters for it.
 * 0 or a negative errno. */
int overlap_mode_enter(const struct overlap_mode *mode);

/* What the parameters say now. */
void overlap_mode_now(struct overlap_mode *mode);

/* Does the device, or the adapter of the messages, have a thread or a process of its own? */
bool overlap_mode_is_apart(const struct overlap_mode *mode);

/* ---- places ---- */

/* The receiver has a core for itself; the sender has another.  What the library starts
 * beside them (a device) gets all others, and where there are none that of the sender. */
struct overlap_place {
    cpu_set_t rank[2];
    cpu_set_t others;
    bool is_shared; /* the others run on the sender's core */
};

/* Chooses among the cores that this process may use.  0 or a negative errno. */
int overlap_place_plan(struct overlap_place *place);

/* The calling thread, and what it starts from now on, runs on set.  0 or a negative
 * errno. */
int overlap_place_enter(const cpu_set_t *set);

/* "0,2-5"; returns text. */
const char *overlap_place_text(const cpu_set_t *set, char *text, size_t size);

/* The processors on which this process' other threads and its children ran last, as
 * "1,1", or "none"; returns text. */
const char *overlap_place_others(char *text, size_t size);

/* Do the three times contradict each other, because something else ran on these cores?
 * raw is their overlap in percent, which the noise of a quiet machine leaves within these. */
static inline bool overlap_is_disturbed(double raw)
{
    return raw < -25 || raw > 115;
}

#endif
