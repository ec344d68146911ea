/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * python_stack.c - see python.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/text.h"
#include "python.h"

#define THREADS_MAX 16384u              /* and interpreters, of a process */
#define FRAMES_MAX  64u                 /* of a thread: the innermost ones */
#define STEPS_MAX   256u                /* with frames that stand for a call from C */
#define CODE_MAX    (UINT64_C(1) << 28) /* bytes of instructions of a function, */
#define LINES_MAX   (UINT64_C(1) << 22) /* of its table of lines, */
#define TEXT_MAX    65536u              /* characters of a name */
#define TEXT_LAST   480u                /* that are read of it, at its end */
#define OFFSET_MAX  (UINT64_C(1) << 24)

/* ---- where the fields are ---- */

enum python_field {
    RUNTIME_INTERPRETERS,
    INTERPRETER_NEXT,
    INTERPRETER_THREADS,
    THREAD_NEXT,
    THREAD_NUMBER, /* the kernel's */
    THREAD_FRAME,  /* with a holder: of the holder */
    FRAME_PREVIOUS,
    FRAME_CODE,
    FRAME_INSTRUCTION,
    FRAME_OWNER, /* 0: every frame is of a function */
    CODE_FILE,
    CODE_NAME,
    CODE_LINES, /* a string of bytes */
    CODE_FIRST_LINE,
    CODE_INSTRUCTIONS,
    BYTES_SIZE,
    BYTES_DATA,
    TEXT_STATE,
    TEXT_LENGTH,
    TEXT_DATA, /* if all characters are ASCII; otherwise more is before it */
    PYTHON_FIELDS
};

struct python_layout {
    uint64_t at[PYTHON_FIELDS]; /* offsets in bytes */
    bool has_holder;            /* of the current frame of a thread */
    uint64_t holder_frame;
    uint64_t text_more; /* bytes before the characters of a text that is not ASCII */
    unsigned kind_bit;  /* of the state of a text: 3 bits of kind; compact; ASCII */
    uint64_t marks;     /* bits of a reference to code that are not part of its address */
};

/* 3.11 and 3.12. */
static const struct python_layout constants[] = {
    {.at = {[RUNTIME_INTERPRETERS] = 40, [INTERPRETER_NEXT] = 0, [INTERPRETER_THREADS] = 16,
            [THREAD_NEXT] = 8,           [THREAD_NUMBER] = 160,  [THREAD_FRAME] = 56,
            [FRAME_PREVIOUS] = 48,       [FRAME_CODE] = 32,      [FRAME_INSTRUCTION] = 56,
            [FRAME_OWNER] = 0,           [CODE_FILE] = 112,      [CODE_NAME] = 120,
            [CODE_LINES] = 136,          [CODE_FIRST_LINE] = 72, [CODE_INSTRUCTIONS] = 184,
            [BYTES_SIZE] = 16,           [BYTES_DATA] = 32,      [TEXT_STATE] = 32,
            [TEXT_LENGTH] = 16,          [TEXT_DATA] = 48},
     .has_holder = true,
     .holder_frame = 8,
     .text_more = 24,
     .kind_bit = 2},
    {.at = {[RUNTIME_INTERPRETERS] = 40, [INTERPRETER_NEXT] = 0, [INTERPRETER_THREADS] = 72,
            [THREAD_NEXT] = 8,           [THREAD_NUMBER] = 144,  [THREAD_FRAME] = 56,
            [FRAME_PREVIOUS] = 8,        [FRAME_CODE] = 0,       [FRAME_INSTRUCTION] = 56,
            [FRAME_OWNER] = 70,          [CODE_FILE] = 112,      [CODE_NAME] = 120,
            [CODE_LINES] = 136,          [CODE_FIRST_LINE] = 68, [CODE_INSTRUCTIONS] = 192,
            [BYTES_SIZE] = 16,           [BYTES_DATA] = 32,      [TEXT_STATE] = 32,
            [TEXT_LENGTH] = 16,          [TEXT_DATA] = 40},
     .has_holder = true,
     .holder_frame = 0,
     .text_more = 16,
     .kind_bit = 2},
};

#define TABLE_COOKIE  "xdebugpy"
#define TABLE_VERSION 1 /* words of 64 bits */
#define TABLE_NO_LOCK 2
#define TABLE_WORDS   80

/* 3.13 and 3.14: which word of the table has the offset of a field. */
static const struct {
    uint8_t word[PYTHON_FIELDS];
    unsigned kind_bit;
    uint64_t marks;
} tables[] = {
    {.word = {[RUNTIME_INTERPRETERS] = 5, [INTERPRETER_NEXT] = 8, [INTERPRETER_THREADS] = 9,
              [THREAD_NEXT] = 21,         [THREAD_NUMBER] = 25,   [THREAD_FRAME] = 23,
              [FRAME_PREVIOUS] = 29,      [FRAME_CODE] = 30,      [FRAME_INSTRUCTION] = 31,
              [FRAME_OWNER] = 33,         [CODE_FILE] = 35,       [CODE_NAME] = 36,
              [CODE_LINES] = 38,          [CODE_FIRST_LINE] = 39, [CODE_INSTRUCTIONS] = 43,
              [BYTES_SIZE] = 65,          [BYTES_DATA] = 66,      [TEXT_STATE] = 68,
              [TEXT_LENGTH] = 69,         [TEXT_DATA] = 70},
     .kind_bit = 2},
    {.word = {[RUNTIME_INTERPRETERS] = 5, [INTERPRETER_NEXT] = 8, [INTERPRETER_THREADS] = 9,
              [THREAD_NEXT] = 22,         [THREAD_NUMBER] = 26,   [THREAD_FRAME] = 24,
              [FRAME_PREVIOUS] = 30,      [FRAME_CODE] = 31,      [FRAME_INSTRUCTION] = 32,
              [FRAME_OWNER] = 34,         [CODE_FILE] = 37,       [CODE_NAME] = 38,
              [CODE_LINES] = 40,          [CODE_FIRST_LINE] = 41, [CODE_INSTRUCTIONS] = 45,
              [BYTES_SIZE] = 71,          [BYTES_DATA] = 72,      [TEXT_STATE] = 74,
              [TEXT_LENGTH] = 75,         [TEXT_DATA] = 76},
     .kind_bit = 16,
     .marks = 3},
};

/* ---- reading ---- */

struct python_reader {
    const struct inspect_source *source;
    struct python_layout layout;
    const char *wrong; /* NULL, or what; then each read gives 0 */
};

static void python_damaged(struct python_reader *reader, bool is_so)
{
    if (is_so && reader->wrong == NULL)
        reader->wrong = "the memory of the process is not as this version of Python has it";
}

static void python_read(struct python_reader *reader, uint64_t at, void *to, size_t size)
{
    if (reader->wrong == NULL && reader->source->read(reader->source, at, to, size) != 0)
        reader->wrong = "the memory of the process cannot be read";
    if (reader->wrong != NULL)
        memset(to, 0, size);
}

static uint64_t python_word(struct python_reader *reader, uint64_t at)
{
    uint64_t word;

    python_read(reader, at, &word, sizeof word);
    return word;
}

static uint64_t python_get(struct python_reader *reader, uint64_t object,
                           enum python_field field)
{
    return python_word(reader, object + reader->layout.at[field]);
}

/* ---- the version ---- */

static bool refuse_version(char why[PYTHON_WHY], uint64_t version, const char *what)
{
    snprintf(why, PYTHON_WHY, "version %u.%u.%u%s %s", (unsigned)(version >> 24 & 0xff),
             (unsigned)(version >> 16 & 0xff), (unsigned)(version >> 8 & 0xff),
             (version >> 4 & 0xf) < 0xc ? " (before its release)" : "", what);
    return false;
}

/* Takes the offsets from the table at the beginning of _PyRuntime. */
static bool take_table(struct python_reader *reader, uint64_t runtime, uint64_t version,
                       unsigned which, char why[PYTHON_WHY])
{
    struct python_layout *layout = &reader->layout;
    uint64_t table[TABLE_WORDS];
    bool is_right;

    python_read(reader, runtime, table, sizeof table); /* zeros, if it fails */
    is_right =
        memcmp(table, TABLE_COOKIE, sizeof *table) == 0 && table[TABLE_VERSION] == version;
    if (is_right && table[TABLE_NO_LOCK] != 0)
        return refuse_version(why, version, "is built without its global lock");
    *layout = (struct python_layout){
        .text_more = 16, .kind_bit = tables[which].kind_bit, .marks = tables[which].marks};
    for (unsigned i = 0; i < PYTHON_FIELDS; i++) {
        layout->at[i] = table[tables[which].word[i]];
        is_right = is_right && layout->at[i] < OFFSET_MAX;
    }
    return is_right ||
           refuse_version(why, version, "has another table of offsets than is known");
}

static bool take_layout(struct python_reader *reader, uint64_t runtime, uint64_t version,
                        char why[PYTHON_WHY])
{
    uint64_t minor = (version >> 16) - 0x300;

    if (version == PYTHON_OLD) {
        snprintf(why, PYTHON_WHY, "a version before 3.11 is unknown");
        return false;
    }
    if (minor < 11 || minor > 14 || (version >> 4 & 0xf) < 0xc)
        return refuse_version(why, version, "is unknown");
    if (minor >= 13)
        return take_table(reader, runtime, version, minor == 14, why);
    reader->layout = constants[minor == 12];
    return true;
}

/* ---- the stack of a thread ---- */

/* The thread with this number; 0: there is none, or two have it. */
static uint64_t find_thread(struct python_reader *reader, uint64_t runtime, uint32_t number)
{
    uint64_t found = 0, interpreter = python_get(reader, runtime, RUNTIME_INTERPRETERS);
    uint32_t seen = 0;

    for (; interpreter != 0; interpreter = python_get(reader, interpreter, INTERPRETER_NEXT)) {
        uint64_t thread = python_get(reader, interpreter, INTERPRETER_THREADS);

        python_damaged(reader, ++seen > THREADS_MAX);
        for (; thread != 0; thread = python_get(reader, thread, THREAD_NEXT)) {
            python_damaged(reader, ++seen > THREADS_MAX);
            if (python_get(reader, thread, THREAD_NUMBER) != number || reader->wrong != NULL)
                continue;
            if (found != 0)
                reader->wrong = "the thread that calls MPI occurs twice";
            found = thread;
        }
    }
    return reader->wrong == NULL ? found : 0;
}

struct python_frame {
    uint64_t at, code, instruction;
};

struct python_stack {
    uint64_t thread;
    uint32_t count;
    struct python_frame frames[FRAMES_MAX]; /* the innermost one first */
};

/* Does this frame stand for a call from C, and for no function? */
static bool is_of_no_function(struct python_reader *reader, uint64_t frame)
{
    uint8_t owner = 0;

    if (reader->layout.at[FRAME_OWNER] != 0)
        python_read(reader, frame + reader->layout.at[FRAME_OWNER], &owner, sizeof owner);
    return owner >= 3;
}

static void read_stack(struct python_reader *reader, uint64_t runtime, uint32_t number,
                       struct python_stack *stack)
{
    uint64_t frame;

    memset(stack, 0, sizeof *stack);
    stack->thread = find_thread(reader, runtime, number);
    if (stack->thread == 0)
        return;
    frame = python_get(reader, stack->thread, THREAD_FRAME);
    if (reader->layout.has_holder && frame != 0)
        frame = python_word(reader, frame + reader->layout.holder_frame);
    for (uint32_t steps = 0; frame != 0 && stack->count < FRAMES_MAX && steps < STEPS_MAX;
         steps++) {
        if (!is_of_no_function(reader, frame))
            stack->frames[stack->count++] = (struct python_frame){
                frame, python_get(reader, frame, FRAME_CODE) & ~reader->layout.marks,
                python_get(reader, frame, FRAME_INSTRUCTION)};
        frame = python_get(reader, frame, FRAME_PREVIOUS);
    }
}

/* ---- texts ---- */

/* Writes a character in UTF-8; the number of its bytes. */
static size_t put_character(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | (c >> 18 & 7));
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

#define TEXT_BYTES (TEXT_LAST * 4 + 1)

/* Reads the text at this address, or its end if it is long.  It may not be shown as it is. */
static void read_text(struct python_reader *reader, uint64_t at, char text[TEXT_BYTES])
{
    uint32_t state = (uint32_t)python_get(reader, at, TEXT_STATE) >> reader->layout.kind_bit;
    uint64_t length = python_get(reader, at, TEXT_LENGTH), last;
    uint32_t kind = state & 7;
    bool is_compact = (state & 8) != 0, is_ascii = (state & 16) != 0;
    unsigned char bytes[TEXT_LAST * 4];
    size_t used = 0;

    python_damaged(reader, !is_compact || (kind != 1 && kind != 2 && kind != 4) ||
                               (is_ascii && kind != 1) || length > TEXT_MAX);
    if (reader->wrong != NULL)
        length = 0;
    last = min_size(length, TEXT_LAST);
    at += reader->layout.at[TEXT_DATA] + (is_ascii ? 0 : reader->layout.text_more) +
          (length - last) * kind;
    python_read(reader, at, bytes, last * kind);
    for (uint64_t i = 0; i < last; i++) {
        uint32_t c = 0;

        memcpy(&c, bytes + i * kind, kind); /* the lowest byte is the first one */
        used += put_character(text + used, c == 0 ? '?' : c);
    }
    text[used] = '\0';
}

/* ---- lines ---- */

struct line_table {
    const unsigned char *at, *end;
};

/* Takes a number: six bits in each byte, the lowest first, and another byte follows where bit 6 is set. */
static uint32_t take_number(struct line_table *table)
{
    uint32_t number = 0;

    for (unsigned shift = 0; table->at < table->end; shift += 6) {
        unsigned char byte = *table->at++;

        if (shift < 30)
            number |= (byte & 63u) << shift;
        if ((byte & 64) == 0)
            break;
    }
    return number;
}

/* Which kind an entry is of, by the four bits next to its mark; smaller ones are on the line before. */
enum line_kind {
    LINE_IS_NEAR = 10, /* and 11, 12: so many lines later, less 10 */
    LINE_ONLY = 13,
    LINE_AND_COLUMNS = 14,
    LINE_NONE = 15
};

/* Takes an entry: how many lines it is later than the one before, and how many bytes of instructions it is about. */
static int64_t take_entry(struct line_table *table, unsigned *kind, uint64_t *bytes)
{
    unsigned char first = *table->at++;
    int64_t later = 0;
    uint32_t number;

    *kind = first >> 3 & 15;
    *bytes = ((first & 7u) + 1) * 2;
    if (*kind == LINE_ONLY || *kind == LINE_AND_COLUMNS) {
        number = take_number(table);
        later = (number & 1) != 0 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
    } else if (*kind >= LINE_IS_NEAR && *kind < LINE_ONLY) {
        later = *kind - LINE_IS_NEAR;
    }
    while (table->at < table->end && (*table->at & 128) == 0) /* columns */
        table->at++;
    return later;
}

/* The line of the instruction at this offset in bytes; 0: it has none. */
static int64_t find_line(struct line_table table, int64_t line, uint64_t offset)
{
    uint64_t from = 0;

    while (table.at < table.end) {
        unsigned kind;
        uint64_t bytes;

        line += take_entry(&table, &kind, &bytes);
        if (offset < from + bytes)
            return kind != LINE_NONE ? line : 0;
        from += bytes;
    }
    return 0;
}

static int64_t line_of(struct python_reader *reader, const struct python_frame *frame)
{
    uint64_t lines = python_get(reader, frame->code, CODE_LINES);
    uint64_t size = python_get(reader, lines, BYTES_SIZE);
    uint64_t offset = frame->instruction - (frame->code + reader->layout.at[CODE_INSTRUCTIONS]);
    int32_t first = (int32_t)python_get(reader, frame->code, CODE_FIRST_LINE);
    unsigned char *bytes = NULL;
    int64_t line = 0;

    if (size != 0 && size <= LINES_MAX && offset <= CODE_MAX)
        bytes = mem_alloc(size);
    if (bytes != NULL) {
        python_read(reader, lines + reader->layout.at[BYTES_DATA], bytes, size);
        line = find_line((struct line_table){bytes, bytes + size}, first, offset);
        mem_free(bytes);
    }
    python_damaged(reader, line <= 0 || line > INT32_MAX);
    return line;
}

/* ---- which frame is shown ---- */

/* Is this a file of a module through which programs call MPI, or start and join threads? */
static bool is_of_a_module(const char *path)
{
    static const char threading[] = "/threading.py";
    size_t length = strlen(path);

    return strncmp(path, "<frozen ", 8) == 0 || strstr(path, "/mpi4py/") != NULL ||
           (length >= sizeof threading - 1 &&
            strcmp(path + length - (sizeof threading - 1), threading) == 0);
}

/* The innermost frame of the program's own; of a module, if there is none. */
static const struct python_frame *choose_frame(struct python_reader *reader,
                                               const struct python_stack *stack,
                                               char path[TEXT_BYTES])
{
    for (uint32_t i = 0; i < stack->count && reader->wrong == NULL; i++) {
        read_text(reader, python_get(reader, stack->frames[i].code, CODE_FILE), path);
        if (!is_of_a_module(path))
            return &stack->frames[i];
    }
    read_text(reader, python_get(reader, stack->frames[0].code, CODE_FILE), path);
    return &stack->frames[0];
}

static void say_frame(struct python_reader *reader, const struct python_stack *stack,
                      char words[PYTHON_LINE])
{
    char path[TEXT_BYTES], name[TEXT_BYTES];
    const struct python_frame *frame = choose_frame(reader, stack, path);
    const char *slash = strrchr(path, '/');
    int64_t line = line_of(reader, frame);

    read_text(reader, python_get(reader, frame->code, CODE_NAME), name);
    snprintf(words, PYTHON_LINE, "%.60s:%d in %.40s", slash != NULL ? slash + 1 : path,
             (int)line, name);
    text_make_printable(words, '?', false);
}

bool python_stack_line(const struct inspect_source *source, uint64_t runtime, uint64_t version,
                       uint32_t number, char words[PYTHON_LINE], char why[PYTHON_WHY])
{
    struct python_reader reader = {.source = source};
    struct python_stack stack, again;

    why[0] = '\0';
    if (!take_layout(&reader, runtime, version, why))
        return false;
    read_stack(&reader, runtime, number, &stack);
    if (stack.count != 0)
        say_frame(&reader, &stack, words);
    else if (reader.wrong == NULL)
        reader.wrong = "the thread that calls MPI runs no function of Python";
    read_stack(&reader, runtime, number, &again);
    if (reader.wrong == NULL && memcmp(&stack, &again, sizeof stack) != 0)
        reader.wrong = "its program has gone on meanwhile";
    if (reader.wrong != NULL)
        snprintf(why, PYTHON_WHY, "%s", reader.wrong);
    return reader.wrong == NULL;
}
