/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * param.c - from texts to settings and back.
 *
 *   param_load_from
 *     take_defaults     of each row
 *     take_environment  each MBX_* variable, over that
 *     take_overrides    each of the caller's, over that
 *     store             writes the values where the rows point
 *
 * The values stay in an array of struct value, the only memory that is allocated, until all
 * texts are known to be valid; so an invalid text leaves the settings unchanged.
 */
#include "base/param.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/nearest.h"

struct value {
    uint64_t number;
    const char *text; /* of a STRING */
};

struct loader {
    const struct param *table;
    size_t count;
    struct value *values;
    char *error;
    size_t error_size;
};

struct suffix {
    const char *text;
    uint64_t factor;
};

static const struct suffix size_suffixes[] = {
    {"", 1},
    {"K", 1u << 10},
    {"KB", 1u << 10},
    {"KiB", 1u << 10},
    {"M", 1u << 20},
    {"MB", 1u << 20},
    {"MiB", 1u << 20},
    {"G", 1u << 30},
    {"GB", 1u << 30},
    {"GiB", 1u << 30},
    {"T", UINT64_C(1) << 40},
    {"TB", UINT64_C(1) << 40},
    {"TiB", UINT64_C(1) << 40},
};
static const struct suffix time_suffixes[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
};

static __attribute__((format(printf, 2, 3))) int refuse(const struct loader *l,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(l->error, l->error_size, format, args);
    va_end(args);
    return -EINVAL;
}

/* ---- texts to values: each returns whether text is a value of the type ---- */

/* Digits only: no sign, no space.  *rest is what follows them. */
static bool read_digits(const char *text, uint64_t *number, const char **rest)
{
    uint64_t sum = 0;

    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(sum, 10u, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum))
            return false;
    *number = sum;
    *rest = text;
    return true;
}

static bool read_with_suffix(const char *text, const struct suffix *suffixes, size_t count,
                             uint64_t *number)
{
    uint64_t digits;
    const char *rest;

    if (!read_digits(text, &digits, &rest))
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(rest, suffixes[i].text) == 0)
            return !__builtin_mul_overflow(digits, suffixes[i].factor, number);
    return false;
}

bool param_read_time(const char *text, const char *unit, uint64_t *ns)
{
    const char *rest;
    char with_unit[32];

    if (strcmp(text, "0") == 0) {
        *ns = 0;
        return true;
    }
    if (unit != NULL && read_digits(text, ns, &rest) && *rest == '\0') {
        snprintf(with_unit, sizeof with_unit, "%" PRIu64 "%s", *ns, unit);
        text = with_unit;
    }
    return read_with_suffix(text, time_suffixes, ARRAY_COUNT(time_suffixes), ns);
}

/* A number, perhaps followed by a space and its unit, as ranges are shown ("1..65536 peers");
 * unit may be NULL. */
static bool read_count(const char *text, const char *unit, uint64_t *number)
{
    const char *rest;
    uint64_t digits;

    if (!read_digits(text, &digits, &rest))
        return false;
    if (*rest != '\0' && (unit == NULL || *rest != ' ' || strcmp(rest + 1, unit) != 0))
        return false;
    *number = digits;
    return true;
}

static bool read_word(const char *text, const char *const *words, uint64_t *number)
{
    for (uint64_t i = 0; words[i] != NULL; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i;
            return true;
        }
    }
    return false;
}

static bool read_bool(const char *text, uint64_t *number)
{
    static const char *const words[] = {"no",   "yes", "off", "on", "false",
                                        "true", "0",   "1",   NULL};

    if (!read_word(text, words, number))
        return false;
    *number &= 1;
    return true;
}

static bool has_limits(const struct param *p)
{
    return p->min != 0 || p->max != 0;
}

static bool is_in_range(const struct param *p, uint64_t number)
{
    return !has_limits(p) || (number >= p->min && number <= p->max);
}

/* A word in place of a number, stored as a number above all others. */
static bool read_name(const struct param *p, const char *text, uint64_t *number)
{
    if (p->choices == NULL || !read_word(text, p->choices, number))
        return false;
    *number = UINT64_MAX - *number;
    return true;
}

/* The word stored as this number, or NULL. */
static const char *param_name_of(const struct param *p, uint64_t number)
{
    for (size_t i = 0; p->choices != NULL && p->choices[i] != NULL; i++)
        if (number == UINT64_MAX - i)
            return p->choices[i];
    return NULL;
}

static bool read_value(const struct param *p, const char *text, struct value *value)
{
    if (p->type != PARAM_CHOICE && read_name(p, text, &value->number))
        return true;
    switch (p->type) {
    case PARAM_SIZE:
        return read_with_suffix(text, size_suffixes, ARRAY_COUNT(size_suffixes),
                                &value->number) &&
               is_in_range(p, value->number);
    case PARAM_COUNT:
        return read_count(text, p->unit, &value->number) && is_in_range(p, value->number);
    case PARAM_TIME:
        return param_read_time(text, p->unit, &value->number) && is_in_range(p, value->number);
    case PARAM_BOOL:
        return read_bool(text, &value->number);
    case PARAM_CHOICE:
        return read_word(text, p->choices, &value->number);
    case PARAM_STRING:
        value->text = text;
        return strlen(text) < PARAM_STRING_MAX;
    case PARAM_FOREIGN:
        return true;
    case PARAM_GONE:
        return false;
    }
    return false;
}

/* ---- values to texts ---- */

static void format_number(uint64_t number, const struct suffix *suffixes, size_t count,
                          char *text, size_t size)
{
    const struct suffix *best = &suffixes[0];

    for (size_t i = 1; i < count; i++)
        if (number % suffixes[i].factor == 0 && suffixes[i].factor > best->factor)
            best = &suffixes[i]; /* the first of several names is the short one */
    if (number == 0)
        snprintf(text, size, "0");
    else
        snprintf(text, size, "%" PRIu64 "%s", number / best->factor, best->text);
}

static void format_value(const struct param *p, uint64_t number, const char *string, char *text,
                         size_t size)
{
    if (p->type != PARAM_CHOICE && param_name_of(p, number) != NULL) {
        snprintf(text, size, "%s", param_name_of(p, number));
        return;
    }
    switch (p->type) {
    case PARAM_SIZE:
        format_number(number, size_suffixes, ARRAY_COUNT(size_suffixes), text, size);
        break;
    case PARAM_COUNT:
        snprintf(text, size, "%" PRIu64, number);
        break;
    case PARAM_TIME:
        format_number(number, time_suffixes, ARRAY_COUNT(time_suffixes), text, size);
        break;
    case PARAM_BOOL:
        snprintf(text, size, "%s", number != 0 ? "yes" : "no");
        break;
    case PARAM_CHOICE:
        snprintf(text, size, "%s", p->choices[number]);
        break;
    case PARAM_STRING:
        snprintf(text, size, "%s", string);
        break;
    case PARAM_FOREIGN:
    case PARAM_GONE:
        snprintf(text, size, "%s", "");
        break;
    }
}

char *param_time_text(uint64_t ns, char *text, size_t size)
{
    format_number(ns, time_suffixes, ARRAY_COUNT(time_suffixes), text, size);
    return text;
}

static bool has_number(const struct param *p)
{
    return p->type != PARAM_STRING && p->type != PARAM_FOREIGN && p->type != PARAM_GONE;
}

char *param_format(const struct param *param, const void *settings, char *text, size_t size)
{
    const char *place = (const char *)settings + param->offset;
    uint64_t number = 0;

    if (has_number(param))
        memcpy(&number, place, sizeof number);
    format_value(param, number, place, text, size);
    return text;
}

/* An example of a number, for a parameter without limits. */
static const char *form_text(const struct param *p)
{
    return p->type == PARAM_SIZE   ? "a size such as 64K"
           : p->type == PARAM_TIME ? "a time such as 10ms"
                                   : "a number";
}

static void format_range(const struct param *p, char *text, size_t size)
{
    const char *unit = p->type == PARAM_COUNT && p->unit != NULL ? p->unit : "";
    const char *space = *unit != '\0' ? " " : "";
    char min[32], max[32];

    if (!has_limits(p)) {
        snprintf(text, size, "%s%s%s", form_text(p), *unit != '\0' ? " of " : "", unit);
        return;
    }
    format_value(p, p->min, "", min, sizeof min);
    format_value(p, p->max, "", max, sizeof max);
    snprintf(text, size, "%s..%s%s%s", min, max, space, unit);
}

static void format_choices(const char *const *choices, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "%s", "");
    for (size_t i = 0; choices[i] != NULL && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "|" : "", choices[i]);
}

char *param_range_text(const struct param *param, char *text, size_t size)
{
    size_t used;

    switch (param->type) {
    case PARAM_SIZE:
    case PARAM_COUNT:
    case PARAM_TIME:
        format_range(param, text, size);
        used = strlen(text);
        if (param->choices != NULL && used + 1 < size) {
            text[used] = '|';
            format_choices(param->choices, text + used + 1, size - used - 1);
        }
        break;
    case PARAM_BOOL:
        snprintf(text, size, "yes|no");
        break;
    case PARAM_CHOICE:
        format_choices(param->choices, text, size);
        break;
    case PARAM_STRING:
        snprintf(text, size, "text of at most %d bytes", PARAM_STRING_MAX - 1);
        break;
    case PARAM_FOREIGN:
        snprintf(text, size, "text");
        break;
    case PARAM_GONE:
        snprintf(text, size, "%s", param->help);
        break;
    }
    return text;
}

/* ---- names ---- */

static bool name_is(const struct param *p, const char *name, size_t length)
{
    size_t own = strlen(p->name);

    if (p->type == PARAM_FOREIGN && own > 0 && p->name[own - 1] == '*')
        return length >= own - 1 && memcmp(name, p->name, own - 1) == 0;
    return length == own && memcmp(name, p->name, own) == 0;
}

static const struct param *find_row(const struct param *table, size_t count, const char *name,
                                    size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (name_is(&table[i], name, length))
            return &table[i];
    return NULL;
}

/* The known name that is nearest to this one; NULL if none is near. */
static const char *nearest_name(const struct loader *l, const char *name, size_t length)
{
    const char *nearest = NULL;
    size_t least = nearest_limit(length);

    if (length > NEAREST_LENGTH_MAX)
        return NULL;
    for (size_t i = 0; i < l->count; i++) {
        const char *known = l->table[i].name;
        size_t known_length = strlen(known);
        size_t distance;

        if (l->table[i].type == PARAM_FOREIGN || l->table[i].type == PARAM_GONE ||
            known_length > NEAREST_LENGTH_MAX)
            continue;
        distance = edit_distance(name, length, known, known_length);
        if (distance < least) {
            least = distance;
            nearest = known;
        }
    }
    return nearest;
}

static int refuse_name(const struct loader *l, const char *name, size_t length)
{
    const char *nearest = nearest_name(l, name, length);

    if (nearest == NULL)
        return refuse(l, "%s%.*s is not a parameter", PARAM_PREFIX, (int)length, name);
    return refuse(l, "%s%.*s is not a parameter, the nearest is %s%s", PARAM_PREFIX,
                  (int)length, name, PARAM_PREFIX, nearest);
}

static int refuse_value(const struct loader *l, const struct param *p, const char *text)
{
    char range[256];
    uint64_t number;
    bool lacks_unit =
        p->type == PARAM_TIME && p->unit == NULL && read_count(text, NULL, &number);

    return refuse(l, "%s%s: \"%s\" is wrong, it must be %s%s", PARAM_PREFIX, p->name, text,
                  param_range_text(p, range, sizeof range),
                  lacks_unit ? ", with its unit: ns, us, ms or s" : "");
}

/* ---- loading ---- */

/* name_and_value is "NAME=VALUE" without the prefix. */
static int take_assignment(struct loader *l, const char *name_and_value)
{
    size_t length = strcspn(name_and_value, "=");
    const struct param *p = find_row(l->table, l->count, name_and_value, length);
    struct value value = {0};

    if (p == NULL)
        return refuse_name(l, name_and_value, length);
    if (p->type == PARAM_GONE)
        return refuse(l, "%s%s is not a parameter any more: %s", PARAM_PREFIX, p->name,
                      p->help);
    if (name_and_value[length] == '\0')
        return refuse(l, "%s%s: a value is missing, write %s=VALUE", PARAM_PREFIX, p->name,
                      p->name);
    if (!read_value(p, name_and_value + length + 1, &value))
        return refuse_value(l, p, name_and_value + length + 1);
    l->values[p - l->table] = value;
    return 0;
}

/* The text after the prefix, or NULL. */
static const char *without_prefix(const char *text)
{
    size_t length = strlen(PARAM_PREFIX);

    return strncmp(text, PARAM_PREFIX, length) == 0 ? text + length : NULL;
}

/* "NAME=": for a number, the same as not set. */
static bool is_empty(const struct loader *l, const char *assignment)
{
    size_t length = strcspn(assignment, "=");
    const struct param *p = find_row(l->table, l->count, assignment, length);

    return p != NULL && has_number(p) && strcmp(assignment + length, "=") == 0;
}

/* MBX_ADAPTER_...: parameters of the software adapter, which is another program. */
static bool is_adapters(const char *assignment)
{
    static const char prefix[] = "ADAPTER_";

    return strncmp(assignment, prefix, sizeof prefix - 1) == 0;
}

static int take_environment(struct loader *l, const char *const *environment)
{
    int err = 0;

    for (; err == 0 && environment != NULL && *environment != NULL; environment++) {
        const char *assignment = without_prefix(*environment);

        if (assignment != NULL && !is_adapters(assignment) && !is_empty(l, assignment))
            err = take_assignment(l, assignment);
    }
    return err;
}

static int take_overrides(struct loader *l, const char *const *overrides)
{
    int err = 0;

    for (; err == 0 && overrides != NULL && *overrides != NULL; overrides++) {
        const char *assignment = without_prefix(*overrides);

        err = take_assignment(l, assignment != NULL ? assignment : *overrides);
    }
    return err;
}

static int take_defaults(struct loader *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct param *p = &l->table[i];

        if (p->type == PARAM_STRING)
            l->values[i].text = "";
        if (p->default_text != NULL && !read_value(p, p->default_text, &l->values[i]))
            return refuse_value(l, p, p->default_text);
    }
    return 0;
}

static void store(const struct loader *l, void *settings)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct param *p = &l->table[i];
        char *place = (char *)settings + p->offset;

        if (p->type == PARAM_STRING)
            snprintf(place, PARAM_STRING_MAX, "%s", l->values[i].text);
        else if (has_number(p))
            memcpy(place, &l->values[i].number, sizeof l->values[i].number);
    }
}

int param_load_from(const struct param *table, size_t count, void *settings,
                    const char *const *environment, const char *const *overrides, char *error,
                    size_t error_size)
{
    struct loader l = {
        .table = table, .count = count, .error = error, .error_size = error_size};
    int err;

    l.values = mem_calloc(count, sizeof *l.values);
    if (l.values == NULL) {
        refuse(&l, "no memory for %zu parameters", count);
        return -ENOMEM;
    }
    err = take_defaults(&l);
    if (err == 0)
        err = take_environment(&l, environment);
    if (err == 0)
        err = take_overrides(&l, overrides);
    if (err == 0)
        store(&l, settings);
    mem_free(l.values);
    return err;
}

/* The first variable of ours that environ_get() hides; NULL: there is none. */
static const char *find_hidden(void)
{
    for (char **variable = environ; *variable != NULL; variable++)
        if (without_prefix(*variable) != NULL &&
            strncmp(*variable, ENVIRON_HARMLESS "=", sizeof ENVIRON_HARMLESS) != 0)
            return *variable;
    return NULL;
}

/* A privileged program sees one variable of the environment, in text; hidden variables are
 * reported once. */
static void reduce_environment(const char *environment[2], char *text, size_t size)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    const char *level = environ_get(ENVIRON_HARMLESS), *hidden = find_hidden();

    if (level != NULL) {
        snprintf(text, size, ENVIRON_HARMLESS "=%s", level);
        environment[0] = text;
    }
    if (hidden != NULL && !atomic_flag_test_and_set(&is_said))
        LOG_WARN(
            "this program has more rights than its caller (set-user-ID, set-group-ID, or "
            "file capabilities): %.*s and all other variables that begin with " PARAM_PREFIX
            " are ignored, except " ENVIRON_HARMLESS "; set parameters in the program",
            (int)strcspn(hidden, "="), hidden);
}

int param_load(const struct param *table, size_t count, void *settings,
               const char *const *overrides, char *error, size_t error_size)
{
    const char *reduced[2] = {NULL};
    char text[64];

    if (!environ_is_privileged())
        return param_load_from(table, count, settings, (const char *const *)environ, overrides,
                               error, error_size);
    reduce_environment(reduced, text, sizeof text);
    return param_load_from(table, count, settings, reduced, overrides, error, error_size);
}
