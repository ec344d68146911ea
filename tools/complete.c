/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.c - one table, printed for three shells.
 *
 *   bash   a function that offers words for the command before them
 *   zsh    the same function, through zsh's emulation of bash's completion
 *   fish   a line for each command, word and option
 */
#include "complete.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

struct table {
    const struct tool *const *tools;
    size_t tool_count;
    const char *const (*others)[2];
    size_t other_count;
};

static void print_names(const struct table *t)
{
    for (size_t i = 0; i < t->tool_count; i++)
        printf("%s%s", i > 0 ? " " : "", t->tools[i]->name);
    for (size_t i = 0; i < t->other_count; i++)
        printf(" %s", t->others[i][0]);
}

static void print_words(const struct tool *tool)
{
    const char *space = "";

    for (size_t i = 0; tool->words != NULL && tool->words[i] != NULL; i++, space = " ")
        printf("%s%s", space, tool->words[i]);
    for (const struct option *o = tool->options; o != NULL && o->name != NULL; o++, space = " ")
        printf("%s--%s", space, o->name);
}

/* The words that may follow each command, in the `case` of a shell. */
static void print_cases(const struct table *t, const char *begin, const char *end)
{
    for (size_t i = 0; i < t->tool_count; i++) {
        printf("        %s) %s", t->tools[i]->name, begin);
        print_words(t->tools[i]);
        printf("%s ;;\n", end);
    }
    printf("        help) %s", begin);
    print_names(t);
    printf("%s ;;\n        complete) %sbash zsh fish%s ;;\n        esac\n    fi\n", end, begin,
           end);
}

static void print_bash(const struct table *t)
{
    puts("# bash completion of mbx, printed by `mbx complete bash`");
    puts(
        "_mbx() {\n    local words=\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then");
    fputs("        words='", stdout);
    print_names(t);
    puts("'\n    else\n        case ${COMP_WORDS[1]} in");
    print_cases(t, "words='", "'");
    puts("    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}");
    puts("complete -o default -F _mbx mbx");
}

static void print_zsh(const struct table *t)
{
    puts(
        "#compdef mbx\n# zsh completion of mbx, printed by `mbx complete zsh`\n_mbx_words() {");
    puts("    local -a found\n    if (( CURRENT == 2 )); then");
    fputs("        found=(", stdout);
    print_names(t);
    puts(")\n    else\n        case $words[2] in");
    print_cases(t, "found=(", ")");
    puts("    compadd -- $found || _files\n}\n_mbx_words \"$@\"");
}

/* Prints text in single quotes, and escapes quotes in it. */
static void print_fish_text(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++)
        printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    putchar('\'');
}

static void print_fish_command(const char *name, const char *about)
{
    printf("complete -c mbx -n __fish_use_subcommand -f -a %s -d ", name);
    print_fish_text(about);
    putchar('\n');
}

static void print_fish_tool(const struct tool *tool)
{
    for (size_t i = 0; tool->words != NULL && tool->words[i] != NULL; i++)
        printf("complete -c mbx -n '__fish_seen_subcommand_from %s' -f -a %s\n", tool->name,
               tool->words[i]);
    for (const struct option *o = tool->options; o != NULL && o->name != NULL; o++)
        printf("complete -c mbx -n '__fish_seen_subcommand_from %s' -l %s%s\n", tool->name,
               o->name, o->has_arg == required_argument ? " -r" : "");
}

static void print_fish(const struct table *t)
{
    puts("# fish completion of mbx, printed by `mbx complete fish`");
    for (size_t i = 0; i < t->tool_count; i++)
        print_fish_command(t->tools[i]->name, t->tools[i]->about);
    for (size_t i = 0; i < t->other_count; i++)
        print_fish_command(t->others[i][0], t->others[i][1]);
    for (size_t i = 0; i < t->tool_count; i++)
        print_fish_tool(t->tools[i]);
}

int complete(int argc, char **argv, const struct tool *const *tools, size_t tool_count,
             const char *const (*others)[2], size_t other_count)
{
    const struct table table = {tools, tool_count, others, other_count};
    const char *shell = argc == 2 ? argv[1] : "";

    if (strcmp(shell, "bash") == 0)
        print_bash(&table);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(&table);
    else if (strcmp(shell, "fish") == 0)
        print_fish(&table);
    else {
        fprintf(stderr, "mbx complete: it takes one of bash, zsh and fish%s%s%s\n",
                argc > 1 ? ", not '" : "", argc > 1 ? argv[argc - 1] : "", argc > 1 ? "'" : "");
        return TOOL_USAGE;
    }
    return TOOL_DONE;
}
