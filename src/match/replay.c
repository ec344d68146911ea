/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - runs histories from files on the engine and on the oracle.
 *
 *   match_replay [--print] FILE...
 *
 * The first operation at which they differ, or at which the oracle differs from the answer in
 * the file, is printed as FILE:LINE.  history_text.c describes the format; the random,
 * exhaustive and fuzz tests print it when they fail.  - is standard input.
 *
 * Exit code: 0 all agree; 1 one does not; 2 usage, or a file that is not a history.
 */
#include <errno.h>
#include <string.h>

#include "match/history.h"

static const char usage[] =
    "usage: match_replay [--print] FILE...\n"
    "\n"
    "Does the histories in the files on the matching engine and on its oracle, and says where\n"
    "they differ.  FILE may be - for standard input.\n"
    "\n"
    "  --print   show each operation and the oracle's answer\n";

static void say_answer(const struct history *h, const struct op *op, const char *who,
                       int answer)
{
    printf("%s ", who);
    history_print_answer(stdout, h, op, answer);
}

/* Compares the engine with the oracle. */
static bool engine_agrees(const char *name, const struct history_file *file)
{
    static struct history_run run;
    const struct history *h = &file->history;
    int wrong = history_replay(&run, h);

    if (wrong < 0)
        return true;
    printf("%s:%d: %s", name, file->lines[wrong], run.why);
    if (run.got != run.expected) {
        say_answer(h, &h->ops[wrong], ": engine", run.got);
        say_answer(h, &h->ops[wrong], ", oracle", run.expected);
    }
    printf("\n");
    return false;
}

/* Compares the oracle with the answers in the file. */
static bool oracle_agrees(const char *name, const struct history_file *file, bool prints)
{
    static struct oracle oracle;
    const struct history *h = &file->history;

    oracle_init(&oracle);
    for (int i = 0; i < h->count; i++) {
        int answer = history_oracle_answer(&oracle, &h->ops[i]);

        if (prints) {
            printf("%s:%d:", name, file->lines[i]);
            say_answer(h, &h->ops[i], "", answer);
            printf("\n");
        }
        if (file->has_answer[i] && answer != file->answers[i]) {
            printf("%s:%d: the oracle differs from the file", name, file->lines[i]);
            say_answer(h, &h->ops[i], ": oracle", answer);
            say_answer(h, &h->ops[i], ", file", file->answers[i]);
            printf("\n");
            return false;
        }
    }
    return true;
}

static int read_history(const char *name, struct history_file *file)
{
    bool is_stdin = strcmp(name, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(name, "r");
    int err;

    if (in == NULL) {
        fprintf(stderr, "match_replay: %s: %s\n", name, strerror(errno));
        return -EIO;
    }
    err = history_read(in, name, file);
    if (!is_stdin)
        fclose(in);
    return err;
}

int main(int argc, char **argv)
{
    static struct history_file file;
    bool prints = argc > 1 && strcmp(argv[1], "--print") == 0;
    int operations = 0, wrong = 0, first = prints ? 2 : 1;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (first >= argc || (argv[first][0] == '-' && argv[first][1] != '\0')) {
        if (first < argc)
            fprintf(stderr, "match_replay: no option '%s'\n", argv[first]);
        fputs(usage, stderr);
        return 2;
    }
    for (int i = first; i < argc; i++) {
        if (read_history(argv[i], &file) < 0)
            return 2;
        operations += file.history.count;
        wrong += !oracle_agrees(argv[i], &file, prints) || !engine_agrees(argv[i], &file);
    }
    printf("histories=%d operations=%d wrong=%d\n", argc - first, operations, wrong);
    return wrong != 0;
}
