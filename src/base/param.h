/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.h - the parameters that users can set, described by one table.
 *
 * A parameter is a row: name, type, unit, default, range or choices, help, and where
 * in a settings structure its value goes.  param_load() fills that structure from,
 * in rising priority, the defaults, the environment (MBX_ before the name) and the
 * overrides of the caller.  The module that owns a table owns its settings; nothing
 * is global here.
 *
 *   type          accepted text                             stored as
 *   PARAM_SIZE    digits, then nothing, K, M, G or T (binary) uint64_t bytes
 *   PARAM_COUNT   digits                                    uint64_t
 *   PARAM_TIME    digits, then ns, us, ms or s; 0 alone,     uint64_t nanoseconds
 *                 and other digits alone if there is a unit
 *   PARAM_BOOL    yes no on off true false 1 0              uint64_t 1 or 0
 *   PARAM_CHOICE  one of choices                            uint64_t index of it
 *   PARAM_STRING  fewer than PARAM_STRING_MAX bytes         char[PARAM_STRING_MAX]
 *   PARAM_FOREIGN anything: other code reads it              not at all
 *   PARAM_GONE    nothing: it is no longer a parameter       not at all
 *
 * A SIZE or COUNT with choices also takes these words: choices[i] is stored as
 * UINT64_MAX - i, whatever the range.
 *
 * Letters may be of either case, except in strings.  SIZE also takes KB and KiB, and
 * so on.  A FOREIGN row only makes its name known; if the name ends in '*', all names with that
 * prefix.  A GONE row is the name of a former parameter: it is refused, and its help names the
 * replacement.
 */
#ifndef BASE_PARAM_H
#define BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARAM_PREFIX     "MBX_"
#define PARAM_STRING_MAX 256

enum param_type {
    PARAM_SIZE,
    PARAM_COUNT,
    PARAM_TIME,
    PARAM_BOOL,
    PARAM_CHOICE,
    PARAM_STRING,
    PARAM_FOREIGN,
    PARAM_GONE
};

enum param_level {
    PARAM_USUAL,    /* for every user */
    PARAM_ADVANCED, /* for users who measure the effect */
    PARAM_TEST      /* of programs that test the library; the library itself has none */
};

struct param {
    const char *name; /* without the prefix, as "SHM_RING_SIZE" */
    enum param_type type;
    enum param_level level;
    const char *
        unit; /* of a COUNT, as "messages"; of a TIME, for digits alone, which are refused if it
                 is NULL */
    const char *default_text;   /* as a user would write it; NULL is 0 or "" */
    uint64_t min, max;          /* SIZE, COUNT, TIME; both 0 = no limits */
    const char *const *choices; /* ends with NULL; or NULL, if not a CHOICE */
    const char *help;           /* one sentence, lowercase, no full stop */
    size_t offset;              /* into the settings structure */
};

/* Fills *settings from the defaults of table[0..count), the process environment and
 * overrides (NULL, or "NAME=VALUE" texts ending with NULL; NAME with or without the
 * prefix), which win.
 *
 * Returns 0; -EINVAL a value is malformed or out of range, or a name that begins with
 * MBX_ (in the environment) or any name (in overrides) is not in the table, or is gone; -ENOMEM.
 * error then holds one line that names the parameter, the value, and what would be
 * right (the range, the choices or the nearest known name).  *settings is written
 * only on success, and only where the rows point. */
int param_load(const struct param *table, size_t count, void *settings,
               const char *const *overrides, char *error, size_t error_size);

/* As param_load(), with this environment ("NAME=VALUE" texts ending with NULL; NULL = empty) in
 * place of the process's. */
int param_load_from(const struct param *table, size_t count, void *settings,
                    const char *const *environment, const char *const *overrides, char *error,
                    size_t error_size);

/* Writes the value that settings hold for param, as a user would write it: "64K",
 * "10us", "yes".  The text can be read again without loss.  A text that does not fit is cut.
 * Returns text. */
char *param_format(const struct param *param, const void *settings, char *text, size_t size);

/* Reads a time, in nanoseconds: digits, and ns, us, ms or s; digits alone have this unit ("s"),
 * or are refused if it is NULL.  0 alone is 0.  False: it is not a time. */
bool param_read_time(const char *text, const char *unit, uint64_t *ns);

/* Writes a time as param_read_time() reads it: "300ms".  Returns text. */
char *param_time_text(uint64_t ns, char *text, size_t size);

/* Writes the accepted values: "4K..1G", "1..65536 messages", "yes|no", "loop|shm".  Returns
 * text. */
char *param_range_text(const struct param *param, char *text, size_t size);

#endif
