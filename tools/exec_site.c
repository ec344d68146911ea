/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exec_site.c - what the environment holds already.
 *
 * A site's profile may choose another way for messages.  A program that is started over Matchbox
 * and runs over something else says nothing of it: so this is said before it starts.
 */
#include <stdlib.h>
#include <string.h>

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
