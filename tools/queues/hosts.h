/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - the ranks of a job on several hosts, which a launcher reaches.
 *
 *   --launch 'srun --overlap -N4 --ntasks-per-node=1'     one command, which starts mbx on each host
 *   --launch 'ssh node1' --launch 'ssh node2'             a command for each
 *   --hosts node1,node2 [--launch 'ssh -p 2222 %h']       one of them for each host
 *
 * Each look starts `mbx queues --snapshot` by these commands and waits until all have ended, or their time is over, so a look
 * that begins after another one has ended sees every host after that one saw any.  No clock of another host is looked at.
 *
 * A host that does not answer is named, and its ranks are not there: graph.h takes nobody for blocked who was not seen.
 */
#ifndef TOOLS_HOSTS_H
#define TOOLS_HOSTS_H

#include <stdio.h>

#include "tools/observe/observe.h"

#define HOSTS_LABEL INSPECT_HOST_TEXT

struct hosts_command {
    char **words;            /* of the launcher, without mbx; up to NULL */
    char label[HOSTS_LABEL]; /* the host, or the command */
    bool is_gone;            /* it was called in vain, and is called no more: */
    char why[OBSERVE_REFUSED];
    unsigned tries; /* of this look */
    bool has_answered;
};

struct hosts {
    const char **launches; /* as given; of as many as there are arguments */
    uint32_t launch_count;
    const char *list;  /* of --hosts; or NULL */
    const char *mbx;   /* its path there; NULL: as here */
    uint64_t limit_ns; /* of a look */
    struct hosts_command *commands;
    uint32_t count; /* 0: this host alone */
};

struct tool;

/* Options of a command that can look at several hosts: --launch, --hosts, --mbx, --launch-wait. */
#define HOSTS_OPTIONS                                                                          \
    {"launch", required_argument, NULL, 'L'}, {"hosts", required_argument, NULL, 'O'},         \
        {"mbx", required_argument, NULL, 'X'},                                                 \
    {                                                                                          \
        "launch-wait", required_argument, NULL, 'Y'                                            \
    }

#define HOSTS_USAGE                                                                            \
    "  --launch CMD   ask other hosts: CMD starts mbx on one host or on several, for\n"        \
    "                 example 'ssh node1' or 'srun --overlap -N4 --ntasks-per-node=1'.\n"      \
    "                 May be given more than once.  This host is asked only if CMD starts\n"   \
    "                 mbx here as well\n"                                                      \
    "  --hosts LIST   ask these hosts, separated by commas.  CMD is called for each of\n"      \
    "                 them, and %h in CMD is its name (default CMD: 'ssh -oBatchMode=yes\n"    \
    "                 %h')\n"                                                                  \
    "  --mbx PATH     path of mbx on these hosts (default: its path here).  With ssh a\n"      \
    "                 shell there expands it: quote spaces and special characters for\n"       \
    "                 that shell\n"                                                            \
    "  --launch-wait MS  how long CMD may take (default 30000)\n"

/* Takes one of these options.  0; TOOL_USAGE after naming what is wrong; -1: it is none of them. */
int hosts_option(struct hosts *hosts, const struct tool *tool, int option, const char *text);

/* argc: of the command.  0; -ENOMEM. */
int hosts_init(struct hosts *hosts, int argc);

/* When all options were given: what is called.  0; or the exit status, after saying what is wrong. */
int hosts_prepare(struct hosts *hosts, const struct tool *tool);
void hosts_fini(struct hosts *hosts);

/* Looks at all of them.  details: as in struct queues_json.  0 with out->hosts, of which each has answered or not;
 * -ENOMEM; another negative errno.  Undone by observe_free(). */
int hosts_look(struct hosts *hosts, const struct observe_options *wanted, bool stats,
               bool details, struct observed *out);

/* Which have not answered, or have refused something, and why; a line each.  How many have not. */
uint32_t hosts_say(FILE *out, const struct observed *observed);

/* ---- hosts_merge.c: the snapshots of several hosts become one ---- */

struct hosts_merge {
    struct inspect_rank *ranks;
    uint32_t count, capacity;
    struct observed_host *hosts;
    uint32_t host_count, host_capacity;
};

/* Takes what a host has answered; of one that is there already nothing.  One that has the id of another one, and other ranks, has not
 * answered.  0;
 * -ENOMEM. */
int hosts_merge_add(struct hosts_merge *merge, struct observed *from);

/* Has this host, of which the id and the name are known, answered? */
bool hosts_merge_has(const struct hosts_merge *merge, const struct observed_host *host);

/* A host, or a launcher, that has not answered, and why.  0; -ENOMEM. */
int hosts_merge_none(struct hosts_merge *merge, const char *name, const char *why);

/* All were added.  0; -ENOMEM, and *out is empty.  Ends the merge in any case. */
int hosts_merge_end(struct hosts_merge *merge, struct observed *out);

#endif
