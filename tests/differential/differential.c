/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * differential.c - where do other matchers depart from MPI's rules?
 *
 * An engine and the oracle execute random histories (history_random.c), or histories from
 * files.  A history with different answers is shrunk to the shortest that still differs.  New
 * processes then execute it CONFIRMATIONS more times, and wait longer before they report that
 * an operation had no result: only a difference that appears every time is called a departure,
 * because a slow engine is not a wrong one.
 *
 * Operations that only match.h has (bulk calls, find, keep) become the plain ones; probes of
 * engines that cannot peek become posts.  A claim becomes a probe that takes the message it
 * shows.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "child.h"

#define CONFIRMATIONS      3
#define ENGINES_MAX        16
#define USAGE_ERROR        2
#define NOT_HERE           77

#define WITHOUT_ANY_SOURCE (1u << OP_KINDS)
#define WITHOUT_IGNORE     (2u << OP_KINDS)

static const char help[] =
    "usage: differential [OPTION...] [FILE...]\n"
    "\n"
    "Does random histories, or those of the FILEs, on matching engines and on the oracle, and\n"
    "prints the shortest history on which an engine departs from MPI's rules.\n"
    "\n"
    "  --engine NAME    only this one (may be given again); see --list\n"
    "  --seeds N        histories of N seeds for each engine; 200 unless told\n"
    "  --first N        beginning with seed N; 1 unless told\n"
    "  --deep           histories of hundreds of operations\n"
    "  --without LIST   of peek, probe, cancel, any-source, ignore, with commas between them:\n"
    "                   no such operations; no receives from anybody; no ignore bits\n"
    "  --patient        wait longer before an operation counts as settled\n"
    "  --list           the engines, and which of them are here\n"
    "  --help\n"
    "\n"
    "Exit code: 0 no departure; 1 a departure; 2 usage; 77 an engine asked for is not here.\n";

static const char *const default_engines[] = {"match",        "ofi:shm",  "ofi:tcp;ofi_rxm",
                                              "ofi:matchbox", "ucx:self", "ucx"};

struct settings {
    struct engine_name engines[ENGINES_MAX];
    int engine_count;
    bool were_named; /* the user named them */
    uint64_t first, seeds;
    bool is_deep, is_patient;
    unsigned without; /* 1u << kind, WITHOUT_* */
    char *const *files;
};

/* One running engine, and its last answer. */
struct trial {
    struct child child;
    int got, expected;
    unsigned long long histories, operations;
};

/* ---- histories for engines ---- */

static enum op_kind plain_kind(enum op_kind kind)
{
    switch (kind) {
    case OP_POST_MANY:
    case OP_TAKE:
    case OP_TRY:
        return OP_POST;
    case OP_ARRIVE_MANY:
    case OP_MEET:
    case OP_KEEP:
    case OP_FIND:
        return OP_ARRIVE;
    case OP_EXTRACT:
        return OP_PROBE;
    case OP_POST:
    case OP_ARRIVE:
    case OP_PEEK:
    case OP_PROBE:
    case OP_CANCEL:
    case OP_KINDS:
        break;
    }
    return kind;
}

static void make_plain(struct history *h, unsigned can, unsigned without)
{
    for (int i = 0; i < h->count; i++) {
        struct op *op = &h->ops[i];

        op->kind = plain_kind(op->kind);
        if ((can & ~without & 1u << op->kind) == 0)
            op->kind = OP_POST;
        if (without & WITHOUT_ANY_SOURCE && op->envelope.source == MBX_MATCH_ANY_SOURCE)
            op->envelope.source = 0;
        if (without & WITHOUT_IGNORE)
            op->ignore = 0;
    }
}

/* Returns the operation at which the engine departs from the rules, or -1: a
 * history_fails_fn. */
static int departs(void *arg, const struct history *h)
{
    static struct oracle oracle;
    struct trial *t = arg;
    int answers[HISTORY_MAX];
    int count = child_run(&t->child, h, answers);

    t->histories++;
    t->operations += (unsigned long long)count;
    oracle_init(&oracle);
    for (int i = 0; i < count; i++) {
        t->got = answers[i];
        t->expected = history_oracle_answer(&oracle, &h->ops[i]);
        if (t->got != t->expected)
            return i;
    }
    return -1;
}

/* Does the engine depart every time, in new and patient processes, at the last operation? */
static bool is_confirmed(struct trial *t, const struct history *h)
{
    struct engine_name name = t->child.name;

    name.is_patient = true;
    for (int i = 0; i < CONFIRMATIONS; i++) {
        child_stop(&t->child);
        t->child.name = name;
        if (departs(t, h) != h->count - 1)
            return false;
    }
    return true;
}

static void print_answer(const struct trial *t, const struct history *h, int answer)
{
    if (answer == ANSWER_STALLED)
        printf("does not end");
    else if (answer == ANSWER_DIED)
        printf("dies (%s)", t->child.death);
    else
        history_print_answer(stdout, h, &h->ops[h->count - 1], answer);
}

static void report(const struct trial *t, const struct history *h, const char *from)
{
    printf("FAIL %s (%s) %s, shortest history:\n", t->child.name.text, t->child.version, from);
    history_print(stdout, h);
    printf("# %s ", t->child.name.text);
    print_answer(t, h, t->got);
    printf(", rules ");
    print_answer(t, h, t->expected);
    printf("\n");
}

/* Does the engine depart on h?  Reports it, with the origin of h. */
static bool try_history(struct trial *t, const struct settings *s, struct history *h,
                        const char *from)
{
    h->options = (struct mbx_match_options){.first_seq = 0};
    h->fail_at = 0;
    make_plain(h, t->child.can, s->without);
    if (departs(t, h) < 0)
        return false;
    history_shrink(h, departs, t);
    if (!is_confirmed(t, h)) {
        printf("# %s %s: departed once and not again, with %d operations left\n",
               t->child.name.text, from, h->count);
        return false;
    }
    report(t, h, from);
    return true;
}

/* ---- engines ---- */

static bool try_seeds(struct trial *t, const struct settings *s)
{
    static struct history h;
    char from[64];

    for (uint64_t seed = s->first; seed - s->first < s->seeds; seed++) {
        if (s->is_deep)
            history_make_deep(&h, seed);
        else
            history_make(&h, seed);
        snprintf(from, sizeof from, "%sseed %llu", s->is_deep ? "deep " : "",
                 (unsigned long long)seed);
        if (try_history(t, s, &h, from))
            return true;
    }
    return false;
}

/* The files were already read once, so reading succeeds. */
static bool try_files(struct trial *t, const struct settings *s)
{
    static struct history_file file;
    bool departed = false;

    for (int i = 0; s->files[i] != NULL; i++) {
        FILE *in = fopen(s->files[i], "r");

        if (in == NULL || history_read(in, s->files[i], &file) != 0)
            exit(USAGE_ERROR);
        fclose(in);
        departed = try_history(t, s, &file.history, s->files[i]) || departed;
    }
    return departed;
}

static void print_kinds(unsigned can)
{
    static const char *const names[OP_KINDS] = {[OP_POST] = "post",
                                                [OP_ARRIVE] = "arrive",
                                                [OP_PEEK] = "peek",
                                                [OP_PROBE] = "probe",
                                                [OP_CANCEL] = "cancel"};
    const char *comma = "";

    for (int kind = 0; kind < OP_KINDS; kind++) {
        if ((can & 1u << kind) != 0 && names[kind] != NULL) {
            printf("%s%s", comma, names[kind]);
            comma = ",";
        }
    }
}

/* Returns 0, 1 or NOT_HERE, the exit code. */
static int try_engine(const struct settings *s, const struct engine_name *name)
{
    static struct trial t;
    uint64_t start = clock_now();
    bool departed;
    int err;

    t = (struct trial){.got = 0};
    err = child_start(&t.child, name);
    if (err != 0) {
        printf("engine=%s available=no reason='%s'\n", name->text, strerror(-err));
        return NOT_HERE;
    }
    departed = s->files[0] != NULL ? try_files(&t, s) : try_seeds(&t, s);
    child_stop(&t.child);
    printf("engine=%s version='%s' kinds=", name->text, t.child.version);
    print_kinds(t.child.can & ~s->without);
    printf(" histories=%llu operations=%llu departs=%s seconds=%.1f\n", t.histories,
           t.operations, departed ? "yes" : "no", (double)(clock_now() - start) / CLOCK_S);
    fflush(stdout);
    return departed;
}

static int list_engines(const struct settings *s)
{
    printf("engines:\n");
    for (int i = 0; engine_kinds[i] != NULL; i++)
        printf("  %-6s %s\n", engine_kinds[i]->name, engine_kinds[i]->about);
    printf("here:\n");
    for (int i = 0; i < s->engine_count; i++) {
        struct child c = {.pid = 0};
        int err = child_start(&c, &s->engines[i]);

        printf("  %-16s %s\n", s->engines[i].text, err == 0 ? c.version : strerror(-err));
        child_stop(&c);
    }
    return 0;
}

/* ---- command line ---- */

static const char *argument_of(const char *text)
{
    const char *colon = strchr(text, ':');

    return colon != NULL ? colon + 1 : NULL;
}

static bool add_engine(struct settings *s, const char *text)
{
    size_t length = strcspn(text, ":");

    for (int i = 0; engine_kinds[i] != NULL; i++) {
        const char *name = engine_kinds[i]->name;

        if (strlen(name) != length || strncmp(text, name, length) != 0)
            continue;
        if (s->engine_count == ENGINES_MAX)
            return false;
        s->engines[s->engine_count++] = (struct engine_name){
            .kind = engine_kinds[i], .argument = argument_of(text), .text = text};
        return true;
    }
    return false;
}

static void add_default_engines(struct settings *s)
{
    for (size_t i = 0; i < ARRAY_COUNT(default_engines); i++)
        add_engine(s, default_engines[i]);
}

_Noreturn static void usage_error(const char *what, const char *value)
{
    fprintf(stderr, "differential: %s '%s'; --help says what there is\n", what, value);
    exit(USAGE_ERROR);
}

static uint64_t to_number(const char *option, const char *text)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
        fprintf(stderr, "differential: %s takes a number, got '%s'\n", option, text);
        exit(USAGE_ERROR);
    }
    return value;
}

static unsigned to_without(char *text)
{
    static const struct {
        const char *name;
        unsigned bit;
    } words[] = {{"peek", 1u << OP_PEEK},
                 {"probe", 1u << OP_PROBE},
                 {"cancel", 1u << OP_CANCEL},
                 {"any-source", WITHOUT_ANY_SOURCE},
                 {"ignore", WITHOUT_IGNORE}};
    unsigned without = 0;
    char *rest = NULL;

    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        size_t i = 0;

        while (i < ARRAY_COUNT(words) && strcmp(words[i].name, word) != 0)
            i++;
        if (i == ARRAY_COUNT(words))
            usage_error("--without knows no", word);
        without |= words[i].bit;
    }
    return without;
}

/* Can engines execute every envelope? */
static void check_history(const char *name, const struct history_file *file)
{
    for (int i = 0; i < file->history.count; i++) {
        const struct mbx_match_envelope *e = &file->history.ops[i].envelope;

        if ((e->source < ENGINE_SOURCES || e->source == MBX_MATCH_ANY_SOURCE) &&
            e->context_id <= ENGINE_CONTEXT_MAX && e->tag >> ENGINE_TAG_BITS == 0)
            continue;
        fprintf(stderr,
                "differential: %s:%d: engines have sources below %d, context ids up to %d and "
                "tags of %d bits\n",
                name, file->lines[i], ENGINE_SOURCES, ENGINE_CONTEXT_MAX, ENGINE_TAG_BITS);
        exit(USAGE_ERROR);
    }
}

/* Errors in a file are reported before any engine runs. */
static void check_files(const struct settings *s)
{
    static struct history_file file;

    for (int i = 0; s->files[i] != NULL; i++) {
        FILE *in = fopen(s->files[i], "r");

        if (in == NULL)
            usage_error("cannot open", s->files[i]);
        if (history_read(in, s->files[i], &file) != 0)
            exit(USAGE_ERROR);
        fclose(in);
        check_history(s->files[i], &file);
    }
}

enum { ENGINE = 'e', SEEDS = 's', FIRST = 'f', DEEP = 'd', WITHOUT = 'w', PATIENT = 'p' };
enum { LIST = 'l', HELP = 'h' };

/* Returns whether the command only requests a list. */
static bool parse(struct settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"engine", required_argument, NULL, ENGINE},
        {"seeds", required_argument, NULL, SEEDS},
        {"first", required_argument, NULL, FIRST},
        {"deep", no_argument, NULL, DEEP},
        {"without", required_argument, NULL, WITHOUT},
        {"patient", no_argument, NULL, PATIENT},
        {"list", no_argument, NULL, LIST},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    bool lists = false;
    int option;

    *s = (struct settings){.first = 1, .seeds = 200};
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case ENGINE:
            if (!add_engine(s, optarg))
                usage_error("there is no engine", optarg);
            s->were_named = true;
            break;
        case SEEDS:
            s->seeds = to_number("--seeds", optarg);
            break;
        case FIRST:
            s->first = to_number("--first", optarg);
            break;
        case DEEP:
            s->is_deep = true;
            break;
        case WITHOUT:
            s->without = to_without(optarg);
            break;
        case PATIENT:
            s->is_patient = true;
            break;
        case LIST:
            lists = true;
            break;
        case HELP:
            fputs(help, stdout);
            exit(0);
        default:
            exit(USAGE_ERROR); /* getopt has printed the reason */
        }
    }
    s->files = &argv[optind];
    return lists;
}

int main(int argc, char **argv)
{
    static struct settings s;
    bool lists = parse(&s, argc, argv);
    int code = 0;

    if (!s.were_named)
        add_default_engines(&s);
    if (lists)
        return list_engines(&s);
    check_files(&s);
    for (int i = 0; i < s.engine_count; i++) {
        int result;

        s.engines[i].is_patient = s.is_patient;
        result = try_engine(&s, &s.engines[i]);
        if (result == 1 || (result == NOT_HERE && s.were_named && code == 0))
            code = result;
    }
    return code;
}
