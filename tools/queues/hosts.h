/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - the ranks of a job on several hosts, which a launcher reaches.
 *
 *   --launch 'srun --overlap -N4 --ntasks-per-node=1'     one command, which starts mbx on each host
 *   --launch 'ssh node1' --launch 'ssh node2'             a command for each
 *   --hosts node1,node2 [--launch 'ssh -p 2222 %h']       this command for each host
 *   --all [--launch 'ssh -p 2222 %h']                     the hosts that the job's launcher has named to a rank here
 *                                                         (hosts_names.h), and its way to reach them
 *
 * Each inspection starts `mbx queues --snapshot` by these commands and waits until all have ended, or their time is over.  So an
 * inspection that begins after another has ended inspects every host later than the other one did.  No clock of another host is used.
 *
 * A host that does not answer is named, and its ranks are missing: graph.h treats no missing rank as blocked.
 */
#ifndef TOOLS_HOSTS_H
#define TOOLS_HOSTS_H

#include <stdio.h>

#include "hosts_names.h"
#include "tools/observe/observe.h"

#define HOSTS_LABEL INSPECT_HOST_TEXT

struct hosts_command {
    char **words;            /* of the launcher, without mbx; up to NULL */
    char label[HOSTS_LABEL]; /* the host, or the command */
    bool is_gone;            /* it has not answered, and is not started again: */
    char why[OBSERVE_REFUSED];
    unsigned tries; /* in this inspection */
    bool has_answered;
};

struct hosts {
    const char **launches; /* as given; has space for as many as there are arguments */
    uint32_t launch_count;
    const char *list; /* the value of --hosts; or NULL */
    bool is_all;      /* --all; then `list` and `launches` may be of found: */
    struct hosts_way found;
    const char *mbx;   /* path of mbx on the hosts; NULL: as here */
    uint64_t limit_ns; /* of an inspection */
    struct hosts_command *commands;
    uint32_t count; /* 0: only this host */
};

struct tool;

/* Options of a command that can inspect several hosts: --all, --launch, --hosts, --mbx,
 * --launch-wait. */
#define HOSTS_OPTIONS                                                                          \
    {"all", no_argument, NULL, 'E'}, {"launch", required_argument, NULL, 'L'},                 \
        {"hosts", required_argument, NULL, 'O'}, {"mbx", required_argument, NULL, 'X'},        \
    {                                                                                          \
        "launch-wait", required_argument, NULL, 'Y'                                            \
    }

#define HOSTS_USAGE                                                                            \
    "  --all          ask all hosts of the job, as Slurm, PBS or Open MPI 4.1 has named\n"     \
    "                 them, by srun, by Open MPI's plm_rsh_agent or by ssh.  A rank of the\n"  \
    "                 job must run on this host.  Elsewhere use --hosts\n"                     \
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

/* Takes one of these options.  0; TOOL_USAGE after an error message; -1: it is none of them. */
int hosts_option(struct hosts *hosts, const struct tool *tool, int option, const char *text);

/* argc: of the command.  0; -ENOMEM. */
int hosts_init(struct hosts *hosts, int argc);

/* Are other hosts to be asked, by these options? */
bool hosts_are_wanted(const struct hosts *hosts);

/* Called after all options: makes the commands.  With --all it chooses the job of `wanted` on this host.  0; or the exit
 * status, after an error message. */
int hosts_prepare(struct hosts *hosts, const struct tool *tool, struct observe_options *wanted);
void hosts_fini(struct hosts *hosts);

/* --all: finds the list and the launcher.  As hosts_prepare().  hosts_all.c */
int hosts_find_all(struct hosts *hosts, const struct tool *tool,
                   struct observe_options *wanted);

/* Inspects all hosts.  details: as in struct queues_json.  0 with out->hosts, each of which has
 * answered or not; -ENOMEM; another negative errno.  Undone by observe_free(). */
int hosts_look(struct hosts *hosts, const struct observe_options *wanted, bool stats,
               bool details, struct observed *out);

/* Reports hosts that have not answered, or have refused something, and the reason; a line
 * each.  Returns the number of hosts that have not answered. */
uint32_t hosts_say(FILE *out, const struct observed *observed);

/* ---- hosts_merge.c: the snapshots of several hosts become one ---- */

struct hosts_merge {
    struct inspect_rank *ranks;
    uint32_t count, capacity;
    struct observed_host *hosts;
    uint32_t host_count, host_capacity;
};

/* Adds the answer of a host, unless the host was added before.  A host with the id of another
 * one, but other ranks, counts as not having answered.  0; -ENOMEM. */
int hosts_merge_add(struct hosts_merge *merge, struct observed *from);

/* Has this host, with this id and name, answered? */
bool hosts_merge_has(const struct hosts_merge *merge, const struct observed_host *host);

/* Adds a host, or a launcher, that has not answered, with the reason.  0; -ENOMEM. */
int hosts_merge_none(struct hosts_merge *merge, const char *name, const char *why);

/* Ends the merge after the last host.  0; -ENOMEM, and *out is empty. */
int hosts_merge_end(struct hosts_merge *merge, struct observed *out);

#endif
