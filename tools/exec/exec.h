/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec.h - the parts of `mbx exec`.
 */
#ifndef TOOLS_EXEC_H
#define TOOLS_EXEC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/common/tool.h"

/* How messages of Open MPI come to Matchbox. */
enum exec_way { EXEC_AUTO, EXEC_COMPONENT, EXEC_PROVIDER };

/* A variable of the command's environment. */
struct exec_variable {
    const char *name, *value;
    const char *word; /* what is set already will do if this word is in its list; NULL: if it is
                         the value */
    bool is_needed;   /* if it is something else, no message goes over Matchbox */
};

/* ---- exec_place.c ---- */

/* The folder of a file that is beside this program, in the build tree or installed; in
 * folder[PATH_MAX]. */
bool exec_find_provider(char *folder);
bool exec_find_component(char *folder);

/* Says where the provider was sought. */
void exec_say_no_provider(const struct tool *tool);

/* The library for debuggers itself, in path[PATH_MAX]. */
bool exec_find_queues(char *path);

/* ---- exec_component.c ---- */

/* Can the Open MPI of this machine load the component of this folder?  The reason why not, or
 * what has loaded it, in said[size]. */
bool exec_component_loads(const char *folder, char *said, size_t size);

/* ---- exec_site.c ---- */

/* Is a variable, as it is now, what the command needs? */
bool exec_site_agrees(const struct exec_variable *variable);

/* Names what is set already and would keep messages from Matchbox, and how to cure it.  False:
 * there is something. */
bool exec_site_allows(const struct tool *tool, const struct exec_variable *variables,
                      size_t count);

/* Names what the command itself sets (mpiexec --mca pml ob1, -x OMPI_MCA_pml=ob1) and would keep messages
 * from Matchbox.  False: there is something.  argv: the whole command. */
bool exec_site_command_allows(const struct tool *tool, char **argv,
                              const struct exec_variable *variables, size_t count);

/* Warns if the folder of MBX_STATS_FILE is not there, or may not be written, on this host. */
void exec_site_warn_of_statistics(const struct tool *tool);

/* Warns if each rank is to run in a container in which it is another user, which the launcher
 * would refuse.  argv: the whole command. */
void exec_site_warn_of_containers(const struct tool *tool, char **argv);

/* ---- exec_launcher.c ---- */

/* Can the MPICH whose launcher this is reach Matchbox?  If not, its device is in device[size].
 * True also of a launcher of another MPI, or of none. */
bool exec_mpich_reaches(const char *program, char *device, size_t size);

/* Warns if the launcher of one MPI is to start a program of another one.  argv: the whole command. */
void exec_warn_of_another_mpi(const struct tool *tool, char **argv);

/* The file that execvp() would take for this program, without links, in path[PATH_MAX]; false if there is none. */
bool exec_find_program(const char *program, char *path);

/* ---- exec_summary.c ---- */

/* Makes a folder for the statistics of what is executed, and sets MBX_STATS_FILE.  False after saying why not. */
bool exec_summary_open(const struct tool *tool, char folder[PATH_MAX]);

/* Executes command in a process of its own, says what all of its processes have done together, and removes the folder.  The exit
 * status of the command. */
int exec_summary_run(const struct tool *tool, const char *folder, char **command);

/* Executes command in a process of its own.  Its exit status; -1 after saying why it could not be started. */
int exec_wait(const struct tool *tool, char **command);

/* ---- exec_order.c ---- */

/* Makes the folder for records, and writes job.txt into it.  Its absolute path.  False after saying why not; is_forced: records
 * that are there are removed. */
bool exec_order_record(const struct tool *tool, const char *folder, bool is_forced,
                       char *const *command, char path[PATH_MAX]);

/* Is a folder for traces of a job, which is there, without any?  False after saying no; is_forced: those that are there are
 * removed. */
bool exec_order_trace(const struct tool *tool, const char *folder, bool is_forced);

/* Is there a record of as many ranks as the command starts?  The absolute path.  False after saying why not. */
bool exec_order_replay(const struct tool *tool, const char *folder, char *const *command,
                       char path[PATH_MAX]);

#endif
