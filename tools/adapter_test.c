/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter_test.c - `mbx adapter-test`: checks that an adapter matches tags as Matchbox expects.
 *
 * The cases are the conformance suite of devices (testing/device), in a separate program next to
 * this one, which runs once for each length of the list.  It reports in the Test Anything
 * Protocol, which is read here.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/mem.h"
#include "tools/common/json.h"
#include "tools/common/tool.h"

#define PROGRAM       "mbx-adapter-test"
#define NOTHING       3 /* exit status, also of PROGRAM: nothing to test */
#define LINE_CAPACITY 512

static const char usage[] =
    "usage: mbx adapter-test [OPTIONS]\n"
    "\n"
    "Example:\n"
    "  mbx adapter-test --device mlx5_0 --verbose\n"
    "\n"
    "Tests whether an adapter that matches tags (IBV_SRQT_TM of libibverbs) does what\n"
    "Matchbox expects: which receive a message matches, in which order completions come,\n"
    "and how a rendezvous ends.  One adapter is enough, because it is connected with\n"
    "itself. docs/internals/devices-verbs.md explains each case.\n"
    "\n"
    "  --device NAME   this device of libibverbs, such as mlx5_0 (default: the first that\n"
    "                  matches)\n"
    "  --library FILE  another library than libibverbs.so.1 (default: MBX_VERBS_LIBRARY)\n"
    "  --brief         without the case that takes 65,536 messages\n"
    "  --verbose       a line for each case\n"
    "  --json          one JSON object, for programs\n"
    "  -h, --help      this text\n"
    "\n"
    "Exit status: 0 all cases that apply have passed; 1 a case has failed; 3 there is no\n"
    "such adapter, or it does not match tags.\n";

static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                        {"library", required_argument, NULL, 'l'},
                                        {"brief", no_argument, NULL, 'b'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"json", no_argument, NULL, 'J'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct asked {
    const struct tool *tool;
    const char *device, *library;
    bool brief, verbose, json;
};

/* The result for one adapter, or for one list. */
struct result {
    uint32_t passed, failed, skipped;
};

struct found {
    char device[64];
    uint32_t tags;
    bool has_rendezvous;
};

/* ---- the program ---- */

/* The path of PROGRAM, next to this program in the build tree or installed; mem_free().  NULL
 * if it does not exist. */
static char *find_program(void)
{
    static const char *const places[] = {"../tests/verbs", MBX_PROVIDER_PLACE};
    char *own = tool_own_path(), *path;
    char *slash = own != NULL ? strrchr(own, '/') : NULL;

    if (slash == NULL) {
        mem_free(own);
        return NULL;
    }
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_COUNT(places); i++) {
        const bool is_whole = places[i][0] == '/';
        const size_t size = strlen(own) + strlen(places[i]) + sizeof PROGRAM + 3;

        path = mem_alloc(size);
        if (path == NULL)
            break;
        snprintf(path, size, "%s%s%s/" PROGRAM, is_whole ? "" : own, is_whole ? "" : "/",
                 places[i]);
        if (access(path, X_OK) == 0) {
            mem_free(own);
            return path;
        }
        mem_free(path);
    }
    mem_free(own);
    return NULL;
}

/* Starts PROGRAM and returns its standard output; NULL if it could not be started. */
static FILE *start(const char *program, const struct asked *asked, uint32_t list, bool is_long,
                   pid_t *pid)
{
    char number[16];
    int ends[2];

    snprintf(number, sizeof number, "%u", list);
    if (pipe(ends) != 0)
        return NULL;
    *pid = fork();
    if (*pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl(program, PROGRAM, asked->library, asked->device, number, is_long ? "yes" : "no",
              (char *)NULL);
        _exit(TOOL_CANNOT_RUN);
    }
    close(ends[1]);
    if (*pid < 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

static int end(const struct asked *asked, FILE *file, pid_t pid)
{
    int status;

    fclose(file);
    if (waitpid(pid, &status, 0) != pid)
        return TOOL_FAILED;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    tool_error(asked->tool, PROGRAM " was ended by signal %d", WTERMSIG(status));
    return TOOL_FAILED;
}

/* ---- output ---- */

static void print_case(const struct asked *asked, uint32_t list, const char *what,
                       const char *name, const char *why)
{
    if (asked->json) {
        json_begin(NULL, '{');
        json_text("name", name);
        json_text("result", what);
        if (why[0] != '\0')
            json_text("why", why);
        json_end('}');
    } else if (asked->verbose || strcmp(what, "failed") == 0) {
        printf("%-7s list %u: %s%s%s\n", what, list, name, why[0] != '\0' ? ": " : "", why);
    }
}

/* Reads the result line of a case: "ok 3 - NAME", "not ok 4 - NAME WHY", or with # SKIP in
 * front of the name.  why: the reason that an earlier line gave for a skip. */
static void read_case(const struct asked *asked, uint32_t list, char *line, const char *why,
                      struct result *result)
{
    static const char skip[] = " # SKIP ", dash[] = " - ";
    char *name = strstr(line, skip);
    const bool is_skipped = name != NULL, is_ok = strncmp(line, "ok ", 3) == 0;
    char *rest;

    name = is_skipped ? name + strlen(skip) : strstr(line, dash);
    if (name == NULL)
        return;
    name += is_skipped ? 0 : strlen(dash);
    rest = name + strcspn(name, " ");
    if (*rest != '\0')
        *rest++ = '\0';
    *(is_skipped ? &result->skipped : is_ok ? &result->passed : &result->failed) += 1;
    print_case(asked, list,
               is_skipped ? "skipped"
               : is_ok    ? "passed"
                          : "failed",
               name, is_skipped ? why : rest);
}

static void read_found(const char *line, struct found *found)
{
    char word[8];

    if (sscanf(line, "device %63s", found->device) == 1 ||
        sscanf(line, "tags %u", &found->tags) == 1)
        return;
    if (sscanf(line, "rendezvous %7s", word) == 1)
        found->has_rendezvous = strcmp(word, "yes") == 0;
}

/* Reads the whole output of PROGRAM.  Returns its exit status. */
static int read_run(const struct asked *asked, const char *program, uint32_t list, bool is_long,
                    struct found *found, struct result *result)
{
    char line[LINE_CAPACITY], why[LINE_CAPACITY] = "";
    pid_t pid;
    FILE *file = start(program, asked, list, is_long, &pid);

    if (file == NULL) {
        tool_error(asked->tool, "%s cannot be started", program);
        return TOOL_FAILED;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        const char *skipped = strstr(line, ": skipped, ");

        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "cannot ", 7) == 0) {
            tool_error(asked->tool, "%s", line + 7);
        } else if (strncmp(line, "ok ", 3) == 0 || strncmp(line, "not ok ", 7) == 0) {
            read_case(asked, list, line, why, result);
            why[0] = '\0';
        } else if (skipped != NULL) {
            snprintf(why, sizeof why, "%s", skipped + strlen(": skipped, "));
        } else if (line[0] == '#' && strncmp(line, "# not ok", 8) != 0 &&
                   strncmp(line, "# ok", 4) != 0) {
            fprintf(stderr, "%s\n", line + 1); /* the reason of a failure, which precedes the
                                                * line of the case */
        } else {
            read_found(line, found);
        }
    }
    return end(asked, file, pid);
}

/* ---- the command ---- */

static void begin(const struct asked *asked, const struct found *found)
{
    if (!asked->json) {
        printf("%s: %u tags, rendezvous %s\n", found->device, found->tags,
               found->has_rendezvous
                   ? "yes"
                   : "no (IBV_TM_CAP_RC is absent): the cases about it do not apply");
        fflush(stdout);
        return;
    }
    json_begin(NULL, '{');
    json_text("device", found->device);
    json_number("tags", found->tags);
    json_bool("rendezvous", found->has_rendezvous);
    json_begin("lists", '[');
}

/* Runs the cases with a list of this length, or of the longest that the adapter has. */
static int run_list(const struct asked *asked, const char *program, uint32_t list, bool is_long,
                    struct result *all)
{
    struct found found = {0};
    struct result result = {0};
    int status;

    if (asked->json) {
        json_begin(NULL, '{');
        json_number("list", list);
        json_begin("cases", '[');
    }
    status = read_run(asked, program, list, is_long, &found, &result);
    if (status != 0 && result.failed == 0) {
        tool_error(asked->tool, "list %u: the cases were not all run", list);
        result.failed++;
    }
    if (asked->json) {
        json_end(']');
        json_end('}');
    } else {
        printf("list %u: %u passed, %u failed, %u do not apply\n", list, result.passed,
               result.failed, result.skipped);
        fflush(stdout);
    }
    all->passed += result.passed;
    all->failed += result.failed;
    all->skipped += result.skipped;
    return status;
}

static int finish(const struct asked *asked, const struct found *found,
                  const struct result *result)
{
    if (asked->json) {
        json_end(']');
        json_number("passed", result->passed);
        json_number("failed", result->failed);
        json_number("skipped", result->skipped);
        json_end('}');
    } else if (result->failed == 0) {
        printf("%s does what Matchbox expects of an adapter that matches tags\n",
               found->device);
    } else {
        printf("%s: %u cases failed; docs/internals/devices-verbs.md says which assumption "
               "each one is about\n",
               found->device, result->failed);
    }
    return tool_flush(asked->tool->name) != 0 || result->failed > 0 ? TOOL_FAILED : TOOL_DONE;
}

static int test(const struct asked *asked, const char *program)
{
    static const uint32_t lists[] = {1, 2, 16, 127};
    struct found found = {0};
    struct result result = {0};
    int status = read_run(asked, program, 0, false, &found, &result);

    if (status != 0)
        return status == NOTHING ? NOTHING : TOOL_FAILED;
    begin(asked, &found);
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        const bool is_last = i + 1 == ARRAY_COUNT(lists) || lists[i] >= found.tags;

        run_list(asked, program, (uint32_t)min_size(lists[i], found.tags),
                 is_last && !asked->brief, &result);
        if (is_last)
            break;
    }
    return finish(asked, &found, &result);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    const char *library = environ_get("MBX_VERBS_LIBRARY");
    struct asked asked = {.tool = tool,
                          .device = "",
                          .library = library != NULL && *library != '\0' ? library
                                                                         : "libibverbs.so.1"};
    int option, status = TOOL_DONE;
    char *program;

    while ((option = tool_option(tool, argc, argv, "+hd:l:bvJ", options, &status)) >= 0) {
        switch (option) {
        case 'd':
            asked.device = optarg;
            break;
        case 'l':
            asked.library = optarg;
            break;
        case 'b':
            asked.brief = true;
            break;
        case 'v':
            asked.verbose = true;
            break;
        case 'J':
            asked.json = true;
            break;
        }
    }
    if (option == -2)
        return status;
    if (optind < argc)
        return tool_usage_error(tool, "there is no argument '%s'", argv[optind]);
    program = find_program();
    if (program == NULL) {
        tool_error(tool, "this Matchbox was built without " PROGRAM
                         ": it needs cmocka, libibverbs' header and -Dtests=true");
        return TOOL_FAILED;
    }
    status = test(&asked, program);
    mem_free(program);
    return status;
}

const struct tool tool_adapter_test = {
    .name = "adapter-test",
    .about = "test whether an adapter matches tags as expected",
    .usage = usage,
    .options = options,
    .run = run,
};
