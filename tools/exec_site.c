/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_site.c - what the environment holds already.
 *
 * A site's profile may choose another way for messages.  A program that is started over Matchbox
 * and runs over something else says nothing of it: so this is said before it starts.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

bool exec_site_agrees(const struct exec_variable *variable)
{
    const char *set = getenv(variable->name);

    if (set == NULL || strcmp(set, variable->value) == 0)
        return true;
    return variable->word != NULL && has_word(set, variable->word);
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
            "with --force (%s)",
            variable->name, getenv(variable->name), variable->value);
        is_allowed = false;
    }
    return is_allowed;
}

/* argv: the words behind `podman`.  Is it `podman run` that does not keep the user's number? */
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
