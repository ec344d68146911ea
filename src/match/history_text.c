/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history_text.c - a history as text, one operation on a line.
 *
 *   # an earlier receive from any source precedes a later one from source 2
 *   0 post   ctx 1 src any tag 0x5 ignore 0xff00    -> nobody
 *   1 post   ctx 1 src 2 tag 0x5 any-tag
 *   2 arrive ctx 1 src 2 tag 0x5                    -> 0
 *   3 cancel 1                                      -> taken
 *   first_seq 0xffffffff
 *
 *   number      the operation's name; its position if there is none
 *   operation   post, arrive, post-many, arrive-many, find, meet, keep, peek, probe, take, try
 *               with an envelope; cancel and extract with the name of another operation, or
 *               `nothing`
 *   -> answer   the expected answer: a name or `nobody`; `taken` or `refused` for cancel and extract
 *   settings    first_seq, seed, short_max, classes, hash_bits: struct mbx_match_options;
 *               fail_at: struct history; anywhere
 *
 * Numbers are decimal, or hexadecimal with 0x.  Text after a # is a comment, and so is a line
 * that begins with FAIL: history_report() prints this format.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "match/history.h"

#define LINE_MAX_SIZE 1024

static const char *const names[OP_KINDS] = {
    [OP_POST] = "post",
    [OP_ARRIVE] = "arrive",
    [OP_POST_MANY] = "post-many",
    [OP_ARRIVE_MANY] = "arrive-many",
    [OP_FIND] = "find",
    [OP_MEET] = "meet",
    [OP_KEEP] = "keep",
    [OP_PEEK] = "peek",
    [OP_PROBE] = "probe",
    [OP_CANCEL] = "cancel",
    [OP_EXTRACT] = "extract",
    [OP_TAKE] = "take",
    [OP_TRY] = "try",
};

static bool has_target(enum op_kind kind)
{
    return kind == OP_CANCEL || kind == OP_EXTRACT;
}

/* ---- out ------------------------------------------------------------------- */

/* The position in h of the operation with this id, or -1. */
static int position(const struct history *h, int id)
{
    for (int i = 0; i < h->count; i++)
        if (h->ops[i].id == id)
            return i;
    return -1;
}

static void print_envelope(FILE *out, const struct op *op)
{
    fprintf(out, " ctx %" PRIu32, op->envelope.context_id);
    if (op->envelope.source == MBX_MATCH_ANY_SOURCE)
        fprintf(out, " src any");
    else
        fprintf(out, " src %" PRIu32, op->envelope.source);
    fprintf(out, " tag 0x%" PRIx64, op->envelope.tag);
    if (op->ignore == UINT64_MAX)
        fprintf(out, " any-tag");
    else if (op->ignore != 0)
        fprintf(out, " ignore 0x%" PRIx64, op->ignore);
}

static void print_op(FILE *out, const struct history *h, int i)
{
    const struct op *op = &h->ops[i];

    fprintf(out, "  %d %-6s", i, names[op->kind]);
    if (!has_target(op->kind))
        print_envelope(out, op);
    else if (position(h, op->target) >= 0)
        fprintf(out, " %d", position(h, op->target));
    else
        fprintf(out, " nothing");
    fprintf(out, "\n");
}

static void print_setting(FILE *out, const char *name, uint64_t value)
{
    if (value != 0)
        fprintf(out, "  %s 0x%" PRIx64 "\n", name, value);
}

void history_print(FILE *out, const struct history *h)
{
    for (int i = 0; i < h->count; i++)
        print_op(out, h, i);
    print_setting(out, "first_seq", h->options.first_seq);
    print_setting(out, "seed", h->options.seed);
    print_setting(out, "short_max", h->options.short_max);
    print_setting(out, "classes", h->options.classes);
    print_setting(out, "hash_bits", h->options.hash_bits);
    print_setting(out, "fail_at", h->fail_at);
}

void history_print_answer(FILE *out, const struct history *h, const struct op *op, int answer)
{
    if (answer == ANSWER_BROKEN)
        fprintf(out, "an error");
    else if (has_target(op->kind))
        fprintf(out, "%s", answer ? "taken" : "refused");
    else if (answer == ANSWER_NOBODY)
        fprintf(out, "nobody");
    else
        fprintf(out, "%d", position(h, answer));
}

/* ---- in -------------------------------------------------------------------- */

struct reader {
    const char *name;
    int line;
    char *rest; /* of the line */
    struct history_file *file;
    uint64_t labels[HISTORY_MAX]; /* of the operations */
    char wrong[64];               /* the error message, if there is an error */
    char word[LINE_MAX_SIZE];     /* and its word */
};

static bool history_text_fail(struct reader *r, const char *wrong, const char *word)
{
    snprintf(r->wrong, sizeof r->wrong, "%s", wrong);
    snprintf(r->word, sizeof r->word, "%s", word != NULL ? word : "the end of the line");
    return false;
}

static char *next_word(struct reader *r)
{
    return strtok_r(NULL, " \t\r\n", &r->rest);
}

static bool is_word(const char *word, const char *wanted)
{
    return word != NULL && strcmp(word, wanted) == 0;
}

static bool is_number(const char *word)
{
    return word != NULL && *word >= '0' && *word <= '9';
}

static bool to_number(struct reader *r, const char *word, uint64_t most, uint64_t *value)
{
    bool is_hex = word != NULL && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
    unsigned long long number;
    char *end;

    if (!is_number(word))
        return history_text_fail(r, "a number is expected, not", word);
    errno = 0;
    number = strtoull(word, &end, is_hex ? 16 : 10);
    if (*end != '\0')
        return history_text_fail(r, "this is not a number:", word);
    if (errno != 0 || number > most)
        return history_text_fail(r, "this number is too large:", word);
    *value = number;
    return true;
}

static bool expect(struct reader *r, const char *wanted)
{
    const char *word = next_word(r);

    if (is_word(word, wanted))
        return true;
    history_text_fail(r, "", word);
    snprintf(r->wrong, sizeof r->wrong, "`%s` is expected, not", wanted);
    return false;
}

static bool read_source(struct reader *r, struct op *op)
{
    const char *word = next_word(r);
    uint64_t source;

    if (is_word(word, "any") && op_is_receive(op->kind)) {
        op->envelope.source = MBX_MATCH_ANY_SOURCE;
        return true;
    }
    if (!to_number(r, word, MBX_MATCH_ANY_SOURCE - 1, &source))
        return false;
    op->envelope.source = (uint32_t)source;
    return true;
}

static bool read_envelope(struct reader *r, struct op *op)
{
    uint64_t context_id;

    if (!expect(r, "ctx") || !to_number(r, next_word(r), UINT32_MAX, &context_id) ||
        !expect(r, "src") || !read_source(r, op) || !expect(r, "tag") ||
        !to_number(r, next_word(r), UINT64_MAX, &op->envelope.tag))
        return false;
    op->envelope.context_id = (uint32_t)context_id;
    return true;
}

/* Reads the name of an operation, which must be before the current one or be it. */
static bool read_label(struct reader *r, const char *word, int *id)
{
    uint64_t label;

    if (!to_number(r, word, UINT64_MAX, &label))
        return false;
    for (int i = r->file->history.count; i >= 0; i--) {
        if (r->labels[i] == label) {
            *id = i;
            return true;
        }
    }
    return history_text_fail(r, "no operation before has the name", word);
}

/* `nothing` becomes the cancel or extract itself, which never is queued. */
static bool read_target(struct reader *r, struct op *op)
{
    const char *word = next_word(r);

    op->target = op->id;
    return is_word(word, "nothing") || read_label(r, word, &op->target);
}

static bool read_answer(struct reader *r, const struct op *op)
{
    const char *word = next_word(r);
    int *answer = &r->file->answers[op->id];

    r->file->has_answer[op->id] = true;
    if (has_target(op->kind)) {
        *answer = is_word(word, "taken");
        return *answer || is_word(word, "refused") ||
               history_text_fail(r, "the answer is `taken` or `refused`, not", word);
    }
    *answer = ANSWER_NOBODY;
    return is_word(word, "nobody") || read_label(r, word, answer);
}

/* Reads what may follow an operation. */
static bool read_tail(struct reader *r, struct op *op)
{
    const char *word;

    while ((word = next_word(r)) != NULL) {
        if (is_word(word, "->")) {
            if (!read_answer(r, op))
                return false;
        } else if (is_word(word, "any-tag") && op_is_receive(op->kind)) {
            op->ignore = UINT64_MAX;
        } else if (is_word(word, "ignore") && op_is_receive(op->kind)) {
            if (!to_number(r, next_word(r), UINT64_MAX, &op->ignore))
                return false;
        } else {
            return history_text_fail(r, "this has no meaning here:", word);
        }
    }
    return true;
}

static bool label_is_new(struct reader *r, uint64_t label, const char *word)
{
    for (int i = 0; i < r->file->history.count; i++)
        if (r->labels[i] == label)
            return history_text_fail(r, "an earlier operation has the name", word);
    return true;
}

static bool read_kind(struct reader *r, const char *word, enum op_kind *kind)
{
    for (int i = 0; i < OP_KINDS; i++) {
        if (is_word(word, names[i])) {
            *kind = (enum op_kind)i;
            return true;
        }
    }
    return history_text_fail(r, "this is no operation:", word);
}

static bool read_op(struct reader *r, const char *word)
{
    struct history *h = &r->file->history;
    struct op op = {.id = h->count};
    uint64_t label = (uint64_t)h->count;

    if (h->count == HISTORY_MAX)
        return history_text_fail(r, "there are too many operations, beginning with", word);
    if (is_number(word)) {
        if (!to_number(r, word, UINT64_MAX, &label) || !label_is_new(r, label, word))
            return false;
        word = next_word(r);
    } else if (!label_is_new(r, label, word)) {
        return false;
    }
    if (!read_kind(r, word, &op.kind))
        return false;
    r->labels[op.id] = label;
    if (!(has_target(op.kind) ? read_target(r, &op) : read_envelope(r, &op)) ||
        !read_tail(r, &op))
        return false;
    r->file->lines[op.id] = r->line;
    h->ops[h->count++] = op;
    return true;
}

static bool read_setting(struct reader *r, uint64_t most, uint64_t *value)
{
    const char *word;

    if (!to_number(r, next_word(r), most, value))
        return false;
    word = next_word(r);
    return word == NULL || history_text_fail(r, "this has no meaning here:", word);
}

static bool read_small(struct reader *r, uint32_t *value)
{
    uint64_t number;

    if (!read_setting(r, UINT32_MAX, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool read_line(struct reader *r, char *line)
{
    struct history *h = &r->file->history;
    const char *word;

    line[strcspn(line, "#")] = '\0';
    r->rest = line;
    word = strtok_r(line, " \t\r\n", &r->rest);
    if (word == NULL || is_word(word, "FAIL"))
        return true;
    if (is_word(word, "first_seq"))
        return read_setting(r, UINT64_MAX, &h->options.first_seq);
    if (is_word(word, "seed"))
        return read_setting(r, UINT64_MAX, &h->options.seed);
    if (is_word(word, "short_max"))
        return read_small(r, &h->options.short_max);
    if (is_word(word, "classes"))
        return read_small(r, &h->options.classes);
    if (is_word(word, "hash_bits"))
        return read_small(r, &h->options.hash_bits);
    if (is_word(word, "fail_at"))
        return read_setting(r, INT64_MAX, &h->fail_at);
    return read_op(r, word);
}

int history_read(FILE *in, const char *name, struct history_file *file)
{
    struct reader r = {.name = name, .file = file};
    char line[LINE_MAX_SIZE];

    memset(file, 0, sizeof *file);
    while (fgets(line, sizeof line, in) != NULL) {
        r.line++;
        if (!read_line(&r, line)) {
            fprintf(stderr, "%s:%d: %s '%s'\n", r.name, r.line, r.wrong, r.word);
            return -EINVAL;
        }
    }
    if (ferror(in)) {
        fprintf(stderr, "%s: cannot be read\n", name);
        return -EIO;
    }
    return 0;
}
