/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_names.h - the hosts of a job, and how its launcher reaches them, from the environment of one of its ranks.
 *
 *   SLURM_JOB_ID, SLURM_JOB_NUM_NODES      srun --overlap reaches all; SLURM_JOB_NODELIST names them
 *   PBS_NODEFILE                           the file has a line for each rank
 *   OMPI_MCA_orte_node_regex               Open MPI 4.1's mpiexec names them, with its own host; it does not tell
 *                                          ranks on this host, and has the list in the commands that it starts
 *   OMPI_MCA_plm_rsh_agent                 the command that it has used in place of ssh; of several, with colons
 *                                          between, the first whose program is there
 *
 * Launchers write long lists short: node[01-16,20], or h[2:1-16] for h01 to h16.
 */
#ifndef TOOLS_HOSTS_NAMES_H
#define TOOLS_HOSTS_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define HOSTS_NAMES_MAX 65536u

/* Writes a list that a launcher has shortened in full, with commas between the names; whatever follows an @ does not
 * count.  NULL: it is not such a list, it has more than HOSTS_NAMES_MAX names or one that could be an option of ssh,
 * or there is no memory.  Freed with free(). */
char *hosts_names_expand(const char *list);

struct hosts_way {
    char *list;   /* of the hosts; NULL: the launcher knows them */
    char *launch; /* a command, with %h if there is a list; NULL: ssh */
};

/* The value of a variable in an environment as in /proc/PID/environ; NULL: it is not set.  text ends with a zero
 * byte. */
const char *hosts_names_variable(const char *text, size_t size, const char *name);

/* The list in a command by which Open MPI 4.1's mpiexec has started a host, from /proc/PID/cmdline; NULL: there is
 * none.  text ends with a zero byte.  Freed with free(). */
char *hosts_names_of_command(const char *text, size_t size);

/* Is there such a program, at this path or in PATH? */
typedef bool hosts_has_program(const char *program);

/* regex: from hosts_names_of_command(), or NULL.  needs_list: a launcher that knows the hosts is of no use.  False: the
 * hosts are not named, or there is no memory. */
bool hosts_names_find(const char *text, size_t size, const char *regex, bool needs_list,
                      hosts_has_program *has_program, struct hosts_way *way);
void hosts_names_free(struct hosts_way *way);

#endif
