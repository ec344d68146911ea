/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_site.c - what the environment holds already.
 *
 * A site's profile, or an option of mpiexec, may choose another way for messages.  A program that then
 * runs over something else does not say so: mbx exec reports it before the program starts.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "exec.h"

/* Is word one of those between commas and colons?  A list that begins with ^ names what is not
 * to be taken. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    if (list[0] == '^')
        return false;
    for (const char *at = list; *at != '\0'; at += strspn(at, ",:")) {
        size_t part = strcspn(at, ",:");

        if (part == length && strncmp(at, word, length) == 0)
            return true;
        at += part;
    }
    return false;
}

/* Is this value of a variable what the command needs? */
static bool suits(const struct exec_variable *variable, const char *value)
{
    return strcmp(value, variable->value) == 0 ||
           (variable->word != NULL && has_word(value, variable->word));
}

bool exec_site_agrees(const struct exec_variable *variable)
{
    const char *set = environ_get(variable->name);

    return set == NULL || suits(variable, set);
}

bool exec_site_allows(const struct tool *tool, const struct exec_variable *variables,
                      size_t count)
{
    bool is_allowed = true;

    for (size_t i = 0; i < count; i++) {
        const struct exec_variable *variable = &variables[i];

        if (!variable->is_needed || exec_site_agrees(variable))
            continue;
        tool_error(
            tool,
            "%s=%s is set: messages would not go over Matchbox; unset it, or override it "
            "with --force, which sets %s",
            variable->name, environ_get(variable->name), variable->value);
        is_allowed = false;
    }
    return is_allowed;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

/* Does this word of the command, with the words after it, set this variable to a value that keeps messages away? */
static bool defeats(char **word, const struct exec_variable *variable)
{
    static const char *const mca[] = {"--mca", "-mca", "--gmca", "-gmca", NULL};
    static const char *const exports[] = {"-x", NULL};
    static const char prefix[] = "OMPI_MCA_";
    size_t length = strlen(variable->name);

    if (word[1] == NULL)
        return false;
    if (is_one_of(word[0], mca))
        return word[2] != NULL && strncmp(variable->name, prefix, sizeof prefix - 1) == 0 &&
               strcmp(word[1], variable->name + sizeof prefix - 1) == 0 &&
               !suits(variable, word[2]);
    return is_one_of(word[0], exports) && strncmp(word[1], variable->name, length) == 0 &&
           word[1][length] == '=' && !suits(variable, word[1] + length + 1);
}

bool exec_site_command_allows(const struct tool *tool, char **argv,
                              const struct exec_variable *variables, size_t count)
{
    for (size_t i = 1; argv[0] != NULL && argv[i] != NULL; i++)
        for (size_t v = 0; v < count; v++)
            if (variables[v].is_needed && defeats(argv + i, &variables[v])) {
                bool is_mca = argv[i][1] != 'x';

                tool_error(tool,
                           "%s %s%s%s of the command overrides %s: messages would not go over "
                           "Matchbox; leave it out, "
                           "or run it all the same with --force",
                           argv[i], argv[i + 1], is_mca ? " " : "", is_mca ? argv[i + 2] : "",
                           variables[v].name);
                return false;
            }
    return true;
}

/* Each rank writes its statistics when the job ends, which is too late to learn that it cannot. */
void exec_site_warn_of_statistics(const struct tool *tool)
{
    const char *file = environ_get("MBX_STATS_FILE"),
               *slash = file != NULL ? strrchr(file, '/') : NULL;
    char folder[PATH_MAX];

    if (slash == NULL || slash == file)
        return;
    if (access(file, W_OK) == 0)
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - file), file);
    if (strchr(folder, '%') == NULL && access(folder, W_OK) != 0)
        tool_error(tool,
                   "warning: MBX_STATS_FILE=%s: no file can be made in %s here (%s), and "
                   "statistics that cannot be "
                   "written are lost",
                   file, folder, strerror(errno));
}

/* argv: the words after `podman`.  Is it `podman run` that does not keep the user's number? */
static bool changes_user(char **argv)
{
    bool runs = false;

    for (; *argv != NULL; argv++) {
        runs |= strcmp(*argv, "run") == 0;
        if (strncmp(*argv, "--userns=keep-id", 16) == 0 || strncmp(*argv, "keep-id", 7) == 0)
            return false;
    }
    return runs;
}

/* A user's podman makes him root in the container.  Open MPI's ranks then say to their
 * launcher's PMIx that they are user 0, which the system denies, and MPI_Init ends. */
void exec_site_warn_of_containers(const struct tool *tool, char **argv)
{
    for (size_t i = 1; argv[0] != NULL && argv[i] != NULL && geteuid() != 0; i++) {
        const char *slash = strrchr(argv[i], '/');

        if (strcmp(slash != NULL ? slash + 1 : argv[i], "podman") != 0)
            continue;
        if (changes_user(argv + i + 1))
            tool_error(tool,
                       "warning: each rank would be root in its container, and Open MPI's "
                       "launcher refuses ranks of another user than its own (OPAL ERROR: "
                       "Unreachable); add --userns=keep-id to podman run");
        return;
    }
}
