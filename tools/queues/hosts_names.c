/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_names.c - see hosts_names.h.
 */
#include "hosts_names.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define HOST 256
#define LINE 1024

/* ---- lists ---- */

struct names {
    FILE *out;
    unsigned count;
};

/* A name goes into a command line. */
static bool is_name(const char *name)
{
    if (*name == '\0' || *name == '-')
        return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && strchr("._-:", *name) == NULL)
            return false;
    return true;
}

static bool add_name(struct names *names, const char *name)
{
    if (!is_name(name) || names->count == HOSTS_NAMES_MAX)
        return false;
    fprintf(names->out, "%s%s", names->count++ != 0 ? "," : "", name);
    return true;
}

/* The digits at *at: their number, and how many there are.  False: there are none, or too many. */
static bool take_number(const char **at, unsigned *number, int *digits)
{
    const char *start = *at;

    *number = 0;
    for (; isdigit((unsigned char)**at) && *at - start < 9; ++*at)
        *number = *number * 10 + (unsigned)(**at - '0');
    *digits = (int)(*at - start);
    return *digits != 0 && !isdigit((unsigned char)**at);
}

/* The names of prefix[ranges]suffix.  width 0: as many digits as the first number of each range. */
static bool add_ranges(struct names *names, const char *prefix, const char *ranges, int width,
                       const char *suffix)
{
    unsigned first, last;
    int digits, unused;
    char name[HOST];

    do {
        if (!take_number(&ranges, &first, &digits))
            return false;
        last = first;
        if (*ranges == '-' && (ranges++, !take_number(&ranges, &last, &unused)))
            return false;
        if (last < first)
            return false;
        for (unsigned i = first; i <= last; i++) {
            int size = snprintf(name, sizeof name, "%s%0*u%s", prefix,
                                width != 0 ? width : digits, i, suffix);

            if (size >= (int)sizeof name || !add_name(names, name))
                return false;
        }
    } while (*ranges == ',' && *++ranges != '\0');
    return *ranges == '\0';
}

/* One item of a list, which this cuts into its parts. */
static bool add_item(struct names *names, char *item)
{
    char *open = strchr(item, '['), *close = open != NULL ? strchr(open, ']') : NULL;
    const char *ranges;
    unsigned width = 0;
    int digits;

    if (open == NULL)
        return add_name(names, item);
    if (close == NULL)
        return false;
    ranges = open + 1;
    *open = *close = '\0';
    if (strchr(ranges, ':') != NULL &&
        (!take_number(&ranges, &width, &digits) || *ranges++ != ':' || width > 9))
        return false;
    return add_ranges(names, item, ranges, (int)width, close + 1);
}

/* The end of the item at `at`: a comma outside of brackets, or the end of the list. */
static char *item_end(char *at)
{
    bool is_inside = false;

    for (; *at != '\0' && (is_inside || *at != ','); at++)
        is_inside = *at == '[' || (is_inside && *at != ']');
    return at;
}

static bool add_list(struct names *names, char *list)
{
    bool is_right = true, is_last;

    do {
        char *end = item_end(list);

        is_last = *end == '\0';
        *end = '\0';
        is_right = add_item(names, list);
        list = end + 1;
    } while (is_right && !is_last);
    return is_right;
}

/* Closes the list; NULL if it is not right. */
static char *names_end(struct names *names, char **text, bool is_right)
{
    is_right &= fclose(names->out) == 0;
    if (is_right)
        return *text;
    free(*text);
    return NULL;
}

char *hosts_names_expand(const char *list)
{
    char *copy = strndup(list, strcspn(list, "@")), *text = NULL;
    size_t size = 0;
    struct names names = {.out = copy != NULL ? open_memstream(&text, &size) : NULL};

    if (names.out != NULL)
        text = names_end(&names, &text, add_list(&names, copy));
    free(copy);
    return text;
}

/* The different lines of a file, in their order. */
static char *read_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    char line[LINE], last[LINE] = "", *text = NULL;
    size_t size = 0;
    struct names names = {.out = file != NULL ? open_memstream(&text, &size) : NULL};
    bool is_right = true;

    while (names.out != NULL && is_right && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, last) != 0) /* a host's lines follow each other */
            is_right = add_name(&names, line);
        memcpy(last, line, sizeof last);
    }
    if (file != NULL)
        fclose(file);
    return names.out != NULL ? names_end(&names, &text, is_right && names.count != 0) : NULL;
}

/* ---- the environment ---- */

const char *hosts_names_variable(const char *text, size_t size, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = text; at < text + size; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=' && at[length + 1] != '\0')
            return at + length + 1;
    return NULL;
}

static const char node_regex[] = "orte_node_regex";

char *hosts_names_of_command(const char *text, size_t size)
{
    const char *at = memmem(text, size, node_regex, strlen(node_regex));
    const char *end = text + size;

    if (at == NULL)
        return NULL;
    for (at += strlen(node_regex); at < end - 1 && (*at == ' ' || *at == '"' || *at == '\0');)
        at++;
    return strndup(at, strcspn(at, " \""));
}

static bool is_number(const char *text)
{
    return text != NULL && text[strspn(text, "0123456789")] == '\0' && strlen(text) < 20;
}

static char *command_of(const char *format, const char *one, const char *other)
{
    char line[LINE];
    int size = snprintf(line, sizeof line, format, one, other);

    return size < (int)sizeof line ? strdup(line) : NULL;
}

static bool is_there(const char *command, hosts_has_program *has_program)
{
    char program[LINE];

    snprintf(program, sizeof program, "%.*s", (int)strcspn(command, " \t"), command);
    return has_program(program);
}

/* One command of a list, which this cuts off, without spaces around it. */
static char *take_agent(char **list)
{
    char *agent = strsep(list, ":"), *end;

    agent += strspn(agent, " \t");
    for (end = agent + strlen(agent); end > agent && strchr(" \t", end[-1]) != NULL;)
        *--end = '\0';
    return agent;
}

/* The first command of Open MPI's list of agents whose program is there.  If none is, the first one: its error says
 * what is missing.  NULL: the usual ssh, or there is no memory. */
static char *agent_of(const char *list, hosts_has_program *has_program)
{
    char *copy = strdup(list), *rest = copy, *command = NULL;
    const char *chosen = NULL;

    while (rest != NULL) {
        const char *agent = take_agent(&rest);
        bool is_good = *agent != '\0' && is_there(agent, has_program);

        if (*agent != '\0' && (chosen == NULL || is_good))
            chosen = agent;
        if (is_good)
            break;
    }
    if (chosen != NULL && strcmp(chosen, "ssh") != 0)
        command = command_of("%s %%h%s", chosen, "");
    free(copy);
    return command;
}

bool hosts_names_find(const char *text, size_t size, const char *regex, bool needs_list,
                      hosts_has_program *has_program, struct hosts_way *way)
{
    const char *job = hosts_names_variable(text, size, "SLURM_JOB_ID");
    const char *nodes = hosts_names_variable(text, size, "SLURM_JOB_NUM_NODES");
    const char *list = hosts_names_variable(text, size, "SLURM_JOB_NODELIST");
    const char *file = hosts_names_variable(text, size, "PBS_NODEFILE");
    const char *agent = hosts_names_variable(text, size, "OMPI_MCA_plm_rsh_agent");

    *way = (struct hosts_way){.list = NULL};
    if (is_number(job) && is_number(nodes) && !needs_list) {
        way->launch =
            command_of("srun --jobid=%s --overlap -N%s --ntasks-per-node=1", job, nodes);
        return way->launch != NULL;
    }
    way->list = list != NULL ? hosts_names_expand(list) : NULL;
    if (way->list == NULL && file != NULL) /* PBS writes it on the first host only */
        way->list = read_lines(file);
    list = hosts_names_variable(text, size, "OMPI_MCA_orte_node_regex");
    if (way->list == NULL && (list != NULL || regex != NULL))
        way->list = hosts_names_expand(list != NULL ? list : regex);
    if (way->list != NULL && agent != NULL)
        way->launch = agent_of(agent, has_program);
    return way->list != NULL;
}

void hosts_names_free(struct hosts_way *way)
{
    free(way->list);
    free(way->launch);
}
