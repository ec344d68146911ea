/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - performs an atomic on each element.
 *
 *   element in memory ──load──> value of its class ──combine──> value ──store──> element
 *
 * The elements of a class are computed in its widest type: stored in the width of the element,
 * the result is the same as in the element's own type.  (Integers wrap, so their low bits do
 * not depend on the width; a sum or product of two floats, rounded to double and then to float,
 * is rounded correctly.)
 *
 * All atomics of the process are performed under one lock: regions of several endpoints may
 * share memory.
 */
#include <complex.h>

#include "rma/rma.h"

typedef __int128 wide_int;
typedef unsigned __int128 wide_unsigned;
typedef long double _Complex wide_complex;
typedef double _Complex double_complex;

enum class { SIGNED, UNSIGNED, REAL, LONG_REAL, COMPLEX, LONG_COMPLEX };

static const struct {
    enum class class;
    uint8_t size;
} types[MBX_TYPES] = {
    [MBX_INT8] = {SIGNED, 1},
    [MBX_UINT8] = {UNSIGNED, 1},
    [MBX_INT16] = {SIGNED, 2},
    [MBX_UINT16] = {UNSIGNED, 2},
    [MBX_INT32] = {SIGNED, 4},
    [MBX_UINT32] = {UNSIGNED, 4},
    [MBX_INT64] = {SIGNED, 8},
    [MBX_UINT64] = {UNSIGNED, 8},
    [MBX_INT128] = {SIGNED, 16},
    [MBX_UINT128] = {UNSIGNED, 16},
    [MBX_FLOAT] = {REAL, sizeof(float)},
    [MBX_DOUBLE] = {REAL, sizeof(double)},
    [MBX_FLOAT_COMPLEX] = {COMPLEX, sizeof(float _Complex)},
    [MBX_DOUBLE_COMPLEX] = {COMPLEX, sizeof(double _Complex)},
    [MBX_LONG_DOUBLE] = {LONG_REAL, sizeof(long double)},
    [MBX_LONG_DOUBLE_COMPLEX] = {LONG_COMPLEX, sizeof(long double _Complex)},
};

/* The classes for which an operation is defined. */
#define INTEGERS (1u << SIGNED | 1u << UNSIGNED)
#define ORDERED  (INTEGERS | 1u << REAL | 1u << LONG_REAL)
#define ALL      (ORDERED | 1u << COMPLEX | 1u << LONG_COMPLEX)

static const uint8_t meanings[MBX_OPS] = {
    [MBX_MIN] = ORDERED,      [MBX_MAX] = ORDERED,      [MBX_SUM] = ALL,
    [MBX_PROD] = ALL,         [MBX_LOR] = ALL,          [MBX_LAND] = ALL,
    [MBX_BOR] = INTEGERS,     [MBX_BAND] = INTEGERS,    [MBX_LXOR] = ALL,
    [MBX_BXOR] = INTEGERS,    [MBX_ATOMIC_READ] = ALL,  [MBX_ATOMIC_WRITE] = ALL,
    [MBX_CSWAP] = ALL,        [MBX_CSWAP_NE] = ALL,     [MBX_CSWAP_LE] = ORDERED,
    [MBX_CSWAP_LT] = ORDERED, [MBX_CSWAP_GE] = ORDERED, [MBX_CSWAP_GT] = ORDERED,
    [MBX_MSWAP] = INTEGERS,
};

size_t mbx_atomic_size(enum mbx_op op, enum mbx_type type)
{
    if ((unsigned)op >= MBX_OPS || (unsigned)type >= MBX_TYPES)
        return 0;
    return meanings[op] & 1u << types[type].class ? types[type].size : 0;
}

/* ---- integers ---- */

static wide_unsigned load_unsigned(const void *from, size_t size)
{
    wide_unsigned value = 0;

    memcpy((char *)&value + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof value - size : 0),
           from, size);
    return value;
}

static wide_int load_signed(const void *from, size_t size)
{
    unsigned shift = (unsigned)(8 * (sizeof(wide_int) - size));

    /* an arithmetic shift in gcc and clang: the sign fills the bits above the element */
    return (wide_int)(load_unsigned(from, size) << shift) >> shift;
}

static void store_integer(void *to, wide_unsigned value, size_t size)
{
    memcpy(to,
           (char *)&value + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof value - size : 0),
           size);
}

/* Operations that may need an order: x is in memory, y given, c the comparison value.  The
 * signs of y compared with x, and of c compared with x, are -1, 0 or 1. */
static wide_unsigned combine_integer(enum mbx_op op, wide_unsigned x, wide_unsigned y,
                                     wide_unsigned c, int y_to_x, int c_to_x)
{
    switch (op) {
    case MBX_MIN:
        return y_to_x < 0 ? y : x;
    case MBX_MAX:
        return y_to_x > 0 ? y : x;
    case MBX_SUM:
        return x + y;
    case MBX_PROD:
        return x * y;
    case MBX_LOR:
        return x != 0 || y != 0;
    case MBX_LAND:
        return x != 0 && y != 0;
    case MBX_BOR:
        return x | y;
    case MBX_BAND:
        return x & y;
    case MBX_LXOR:
        return (x != 0) != (y != 0);
    case MBX_BXOR:
        return x ^ y;
    case MBX_ATOMIC_READ:
    case MBX_OPS:
        return x;
    case MBX_ATOMIC_WRITE:
        return y;
    case MBX_CSWAP:
        return c_to_x == 0 ? y : x;
    case MBX_CSWAP_NE:
        return c_to_x != 0 ? y : x;
    case MBX_CSWAP_LE:
        return c_to_x <= 0 ? y : x;
    case MBX_CSWAP_LT:
        return c_to_x < 0 ? y : x;
    case MBX_CSWAP_GE:
        return c_to_x >= 0 ? y : x;
    case MBX_CSWAP_GT:
        return c_to_x > 0 ? y : x;
    case MBX_MSWAP:
        return (y & c) | (x & ~c);
    }
    return x;
}

static void update_unsigned(enum mbx_op op, size_t size, void *at, const void *operand,
                            const void *compare)
{
    wide_unsigned x = load_unsigned(at, size), y = load_unsigned(operand, size);
    wide_unsigned c = compare != NULL ? load_unsigned(compare, size) : 0;

    store_integer(at, combine_integer(op, x, y, c, (y > x) - (y < x), (c > x) - (c < x)), size);
}

static void update_signed(enum mbx_op op, size_t size, void *at, const void *operand,
                          const void *compare)
{
    wide_int x = load_signed(at, size), y = load_signed(operand, size);
    wide_int c = compare != NULL ? load_signed(compare, size) : 0;

    store_integer(at,
                  combine_integer(op, (wide_unsigned)x, (wide_unsigned)y, (wide_unsigned)c,
                                  (y > x) - (y < x), (c > x) - (c < x)),
                  size);
}

/* ---- real numbers: comparisons with a NaN are false ---- */

static long double combine_real(enum mbx_op op, long double x, long double y, long double c)
{
    switch (op) {
    case MBX_MIN:
        return y < x ? y : x;
    case MBX_MAX:
        return y > x ? y : x;
    case MBX_SUM:
        return x + y;
    case MBX_PROD:
        return x * y;
    case MBX_LOR:
        return x != 0 || y != 0;
    case MBX_LAND:
        return x != 0 && y != 0;
    case MBX_LXOR:
        return (x != 0) != (y != 0);
    case MBX_ATOMIC_WRITE:
        return y;
    case MBX_CSWAP:
        return c == x ? y : x;
    case MBX_CSWAP_NE:
        return c != x ? y : x;
    case MBX_CSWAP_LE:
        return c <= x ? y : x;
    case MBX_CSWAP_LT:
        return c < x ? y : x;
    case MBX_CSWAP_GE:
        return c >= x ? y : x;
    case MBX_CSWAP_GT:
        return c > x ? y : x;
    case MBX_ATOMIC_READ:
    case MBX_BOR:
    case MBX_BAND:
    case MBX_BXOR:
    case MBX_MSWAP:
    case MBX_OPS:
        break;
    }
    return x;
}

static double load_real(const void *from, size_t size)
{
    double value;
    float narrow;

    if (size == sizeof narrow) {
        memcpy(&narrow, from, sizeof narrow);
        return (double)narrow;
    }
    memcpy(&value, from, sizeof value);
    return value;
}

static void store_real(void *to, double value, size_t size)
{
    float narrow = (float)value;

    memcpy(to, size == sizeof narrow ? (void *)&narrow : (void *)&value, size);
}

/* Sums and products are computed in double, because a third rounding would make them wrong. */
static void update_real(enum mbx_op op, size_t size, void *at, const void *operand,
                        const void *compare)
{
    double x = load_real(at, size), y = load_real(operand, size);
    double c = compare != NULL ? load_real(compare, size) : 0, result;

    if (op == MBX_SUM)
        result = x + y;
    else if (op == MBX_PROD)
        result = x * y;
    else
        result = (double)combine_real(op, x, y, c);
    store_real(at, result, size);
}

static void update_long_real(enum mbx_op op, size_t size, void *at, const void *operand,
                             const void *compare)
{
    long double x, y, c = 0;

    memcpy(&x, at, size);
    memcpy(&y, operand, size);
    if (compare != NULL)
        memcpy(&c, compare, size);
    x = combine_real(op, x, y, c);
    memcpy(at, &x, size);
}

/* ---- complex numbers ---- */

static wide_complex combine_complex(enum mbx_op op, wide_complex x, wide_complex y,
                                    wide_complex c)
{
    switch (op) {
    case MBX_SUM:
        return x + y;
    case MBX_PROD:
        return x * y;
    case MBX_LOR:
        return x != 0 || y != 0;
    case MBX_LAND:
        return x != 0 && y != 0;
    case MBX_LXOR:
        return (x != 0) != (y != 0);
    case MBX_ATOMIC_WRITE:
        return y;
    case MBX_CSWAP:
        return c == x ? y : x;
    case MBX_CSWAP_NE:
        return c != x ? y : x;
    case MBX_MIN:
    case MBX_MAX:
    case MBX_BOR:
    case MBX_BAND:
    case MBX_BXOR:
    case MBX_ATOMIC_READ:
    case MBX_CSWAP_LE:
    case MBX_CSWAP_LT:
    case MBX_CSWAP_GE:
    case MBX_CSWAP_GT:
    case MBX_MSWAP:
    case MBX_OPS:
        break;
    }
    return x;
}

static double_complex load_complex(const void *from, size_t size)
{
    double_complex value;
    float _Complex narrow;

    if (size == sizeof narrow) {
        memcpy(&narrow, from, sizeof narrow);
        return (double_complex)narrow;
    }
    memcpy(&value, from, sizeof value);
    return value;
}

static void store_complex(void *to, double_complex value, size_t size)
{
    float _Complex narrow = (float _Complex)value;

    memcpy(to, size == sizeof narrow ? (void *)&narrow : (void *)&value, size);
}

static void update_complex(enum mbx_op op, size_t size, void *at, const void *operand,
                           const void *compare)
{
    double_complex x = load_complex(at, size), y = load_complex(operand, size);
    double_complex c = compare != NULL ? load_complex(compare, size) : 0, result;

    if (op == MBX_SUM)
        result = x + y;
    else if (op == MBX_PROD)
        result = x * y;
    else
        result = (double_complex)combine_complex(op, x, y, c);
    store_complex(at, result, size);
}

static void update_long_complex(enum mbx_op op, size_t size, void *at, const void *operand,
                                const void *compare)
{
    wide_complex x, y, c = 0;

    memcpy(&x, at, size);
    memcpy(&y, operand, size);
    if (compare != NULL)
        memcpy(&c, compare, size);
    x = combine_complex(op, x, y, c);
    memcpy(at, &x, size);
}

/* ---- all elements ---- */

typedef void update_fn(enum mbx_op op, size_t size, void *at, const void *operand,
                       const void *compare);

static update_fn *const updates[] = {
    [SIGNED] = update_signed,   [UNSIGNED] = update_unsigned,
    [REAL] = update_real,       [LONG_REAL] = update_long_real,
    [COMPLEX] = update_complex, [LONG_COMPLEX] = update_long_complex,
};

static struct lock one_at_a_time;

void atomic_apply(enum mbx_op op, enum mbx_type type, size_t count, void *target, void *operand,
                  const void *compare, bool fetch)
{
    update_fn *update = updates[types[type].class];
    size_t size = types[type].size;
    char before[sizeof(wide_complex)];

    lock_take(&one_at_a_time);
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)target + i * size, *y = (char *)operand + i * size;

        memcpy(before, at, size);
        if (op != MBX_ATOMIC_READ)
            update(op, size, at, y, compare != NULL ? (const char *)compare + i * size : NULL);
        if (fetch)
            memcpy(y, before, size);
    }
    lock_give(&one_at_a_time);
}
