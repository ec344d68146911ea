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

/* How messages of an MPI come to Matchbox. */
enum exec_way { EXEC_AUTO, EXEC_COMPONENT, EXEC_PROVIDER, EXEC_UCP };

/* Through what the MPICH of a launcher sends its messages. */
enum exec_device {
    EXEC_NO_MPICH, /* it is a launcher of another MPI, or of none, or its device is not known */
    EXEC_OFI,
    EXEC_UCX,
    EXEC_OTHER_DEVICE,
};

/* The output of the mpichversion of an MPICH. */
struct exec_mpich {
    char device[64], version[32];
    bool has_shm; /* messages of one machine go through shared memory of its own */
};

/* A variable of the command's environment. */
struct exec_variable {
    const char *name, *value;
    const char *word; /* what is set already will do if this word is in its list; NULL: if it is
                         the value */
    bool is_needed;   /* if it is something else, no message goes over Matchbox */
};

/* ---- exec_place.c ---- */

/* Finds the folder of a file that belongs to this program, in the build tree or installed, and
 * stores it in folder[PATH_MAX]. */
bool exec_find_provider(char *folder);
bool exec_find_component(char *folder);
bool exec_find_ucp(char *folder);

/* Says where the provider, or libucp, was sought. */
void exec_say_no_provider(const struct tool *tool);
void exec_say_no_ucp(const struct tool *tool);

/* The library for debuggers itself, or the one that is preloaded for a record, in path[PATH_MAX]. */
bool exec_find_queues(char *path);
bool exec_find_preload(char *path);
bool exec_find_native(char *path);

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

/* The device of the MPICH whose launcher this is. */
enum exec_device exec_mpich_device(const char *program, struct exec_mpich *mpich);

/* Does this way lead messages of such an MPICH to Matchbox?  False after saying why not. */
bool exec_mpich_is_possible(const struct tool *tool, enum exec_device device,
                            const struct exec_mpich *mpich, enum exec_way way);

/* Warns if the launcher of one MPI is to start a program of another one.  argv: the whole command. */
void exec_warn_of_another_mpi(const struct tool *tool, char **argv);

/* The file that execvp() would take for this program, without links, in path[PATH_MAX]; false if there is none. */
bool exec_find_program(const char *program, char *path);

/* ---- exec_ucp.c ---- */

/* Must the library be preloaded, because a program of the command finds another one before LD_LIBRARY_PATH is asked?  Then that is said. argv: the
 * whole command, or NULL. */
bool exec_ucp_is_preloaded(const struct tool *tool, char **argv);

/* Can programs of the command, or of any if argv is NULL, load our libucp of this folder?  False after saying why not. */
bool exec_ucp_is_possible(const struct tool *tool, char **argv, const char *folder);

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

/* Says so if the folder has no record after the command has ended: no process of it used the component. */
void exec_order_warn_of_nothing(const struct tool *tool, const char *folder);

/* Does a folder for the traces of a job exist, without any trace in it?  False after saying no.  is_forced: traces that are
 * there are removed. */
bool exec_order_trace(const struct tool *tool, const char *folder, bool is_forced);

/* Is there a record of as many ranks as the command starts?  The absolute path.  False after saying why not. */
bool exec_order_replay(const struct tool *tool, const char *folder, char *const *command,
                       char path[PATH_MAX]);

#endif
