/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic_test.c - an atomic has the same result as the expression in C, in the element's type.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/unit.h"
#include "rma/rma.h"

/* Applies op to one element, at an address that is not aligned. */
static void apply(enum mbx_op op, enum mbx_type type, void *x, const void *y, const void *c)
{
    size_t size = mbx_atomic_size(op, type);
    char there[33], given[33], compared[33];

    memcpy(there + 1, x, size);
    memcpy(given + 1, y, size);
    if (c != NULL)
        memcpy(compared + 1, c, size);
    atomic_apply(op, type, 1, there + 1, given + 1, c != NULL ? compared + 1 : NULL, true);
    assert_memory_equal(given + 1, x, size); /* the previous value */
    memcpy(x, there + 1, size);
}

static int8_t int8(enum mbx_op op, int8_t x, int8_t y)
{
    apply(op, MBX_INT8, &x, &y, NULL);
    return x;
}

static uint8_t uint8(enum mbx_op op, uint8_t x, uint8_t y)
{
    apply(op, MBX_UINT8, &x, &y, NULL);
    return x;
}

static int64_t int64(enum mbx_op op, int64_t x, int64_t y)
{
    apply(op, MBX_INT64, &x, &y, NULL);
    return x;
}

static uint64_t uint64(enum mbx_op op, uint64_t x, uint64_t y)
{
    apply(op, MBX_UINT64, &x, &y, NULL);
    return x;
}

static float single(enum mbx_op op, float x, float y)
{
    apply(op, MBX_FLOAT, &x, &y, NULL);
    return x;
}

static double real(enum mbx_op op, double x, double y)
{
    apply(op, MBX_DOUBLE, &x, &y, NULL);
    return x;
}

static void narrow_integers_wrap_and_keep_their_sign(UNUSED void **state)
{
    for (int x = -128; x < 128; x += 3) {
        for (int y = -128; y < 128; y += 5) {
            unsigned ux = (unsigned)x & 255, uy = (unsigned)y & 255;

            assert_int_equal(int8(MBX_SUM, (int8_t)x, (int8_t)y), (int8_t)(x + y));
            assert_int_equal(int8(MBX_PROD, (int8_t)x, (int8_t)y), (int8_t)(x * y));
            assert_int_equal(int8(MBX_MIN, (int8_t)x, (int8_t)y), x < y ? x : y);
            assert_int_equal(int8(MBX_MAX, (int8_t)x, (int8_t)y), x > y ? x : y);
            assert_int_equal(int8(MBX_BXOR, (int8_t)x, (int8_t)y), (int8_t)(x ^ y));
            assert_int_equal(uint8(MBX_SUM, (uint8_t)ux, (uint8_t)uy), (uint8_t)(ux + uy));
            assert_int_equal(uint8(MBX_MIN, (uint8_t)ux, (uint8_t)uy), ux < uy ? ux : uy);
            assert_int_equal(uint8(MBX_MAX, (uint8_t)ux, (uint8_t)uy), ux > uy ? ux : uy);
            assert_int_equal(uint8(MBX_BOR, (uint8_t)ux, (uint8_t)uy), ux | uy);
            assert_int_equal(uint8(MBX_BAND, (uint8_t)ux, (uint8_t)uy), ux & uy);
            assert_int_equal(uint8(MBX_LOR, (uint8_t)ux, (uint8_t)uy), ux || uy);
            assert_int_equal(uint8(MBX_LAND, (uint8_t)ux, (uint8_t)uy), ux && uy);
            assert_int_equal(uint8(MBX_LXOR, (uint8_t)ux, (uint8_t)uy), !ux != !uy);
        }
    }
}

static void wide_integers_keep_all_bits(UNUSED void **state)
{
    unsigned __int128 x = (unsigned __int128)7 << 100, y = (unsigned __int128)1 << 127;
    __int128 a = -5, b = (__int128)1 << 90;

    assert_true(uint64(MBX_SUM, UINT64_MAX, 2) == 1);
    assert_true(uint64(MBX_MAX, UINT64_MAX, 2) == UINT64_MAX);
    assert_true(int64(MBX_MAX, -1, 2) == 2);
    assert_true(int64(MBX_MIN, INT64_MIN, INT64_MAX) == INT64_MIN);
    assert_true(uint64(MBX_PROD, UINT64_C(0x123456789abcdef1), UINT64_C(0xfedcba9876543211)) ==
                UINT64_C(0x123456789abcdef1) * UINT64_C(0xfedcba9876543211));
    apply(MBX_MAX, MBX_UINT128, &x, &y, NULL);
    assert_true(x == y);
    apply(MBX_MIN, MBX_INT128, &b, &a, NULL);
    assert_true(b == -5);
}

/* c is below, at and above x; which of the comparisons store y? */
static void a_swap_depends_on_what_is_compared(UNUSED void **state)
{
    static const struct {
        enum mbx_op op;
        int swaps[3];
    } cases[] = {
        {MBX_CSWAP, {0, 1, 0}},    {MBX_CSWAP_NE, {1, 0, 1}}, {MBX_CSWAP_LE, {1, 1, 0}},
        {MBX_CSWAP_LT, {1, 0, 0}}, {MBX_CSWAP_GE, {0, 1, 1}}, {MBX_CSWAP_GT, {0, 0, 1}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (int k = 0; k < 3; k++) {
            enum mbx_op op = cases[i].op;
            int32_t x = 5, y = 99, c = k - 1 + x;
            uint16_t ux = 40000, uy = 99, uc = (uint16_t)(ux + k - 1);
            double dx = -0.5, dy = 99, dc = dx + (k - 1) * 0.25;
            long double lx = 1e100L, ly = 99, lc;
            float _Complex zx = 1 + 2 * I, zy = 99, zc = k == 1 ? zx : (float)k;
            bool is_ordered = op != MBX_CSWAP && op != MBX_CSWAP_NE;

            lc = k == 0 ? 0 : k == 1 ? lx : 2 * lx;
            apply(op, MBX_INT32, &x, &y, &c);
            apply(op, MBX_UINT16, &ux, &uy, &uc);
            apply(op, MBX_DOUBLE, &dx, &dy, &dc);
            apply(op, MBX_LONG_DOUBLE, &lx, &ly, &lc);
            assert_int_equal(x == 99, cases[i].swaps[k]);
            assert_int_equal(ux == 99, cases[i].swaps[k]);
            assert_int_equal(dx == 99, cases[i].swaps[k]);
            assert_int_equal(lx == 99, cases[i].swaps[k]);
            assert_int_equal(mbx_atomic_size(op, MBX_FLOAT_COMPLEX), is_ordered ? 0 : 8);
            if (is_ordered)
                continue;
            apply(op, MBX_FLOAT_COMPLEX, &zx, &zy, &zc);
            assert_int_equal(zx == 99, cases[i].swaps[k]);
        }
    }
}

static void a_masked_swap_takes_the_masked_bits(UNUSED void **state)
{
    uint32_t x = 0xff00ff00, y = 0x12345678, c = 0x0000ffff;

    apply(MBX_MSWAP, MBX_UINT32, &x, &y, &c);
    assert_int_equal(x, 0xff005678);
}

static void real_numbers_are_rounded_once(UNUSED void **state)
{
    volatile float a = 0.1f, b = 0.7f, third = a + b, product = a * b;
    volatile double da = 0.1, db = 0.7, sum = da + db, dproduct = da * db;
    long double la = 1, lb = 1e-19L;

    assert_true(single(MBX_SUM, a, b) == third);
    assert_true(single(MBX_PROD, a, b) == product);
    assert_true(real(MBX_SUM, da, db) == sum);
    assert_true(real(MBX_PROD, da, db) == dproduct);
    assert_true(real(MBX_MIN, -1.5, 0.5) == -1.5 && real(MBX_MAX, -1.5, 0.5) == 0.5);
    assert_true(real(MBX_LAND, 0.5, 0.25) == 1 && real(MBX_LXOR, 0.5, 0) == 1);
    assert_true(isnan(real(MBX_SUM, NAN, 1)));
    apply(MBX_SUM, MBX_LONG_DOUBLE, &la, &lb, NULL);
    assert_true(la == 1 + 1e-19L);
}

static void complex_numbers_are_multiplied(UNUSED void **state)
{
    double _Complex x = 1 + 2 * I, y = 3 - 1 * I;
    long double _Complex lx = 1 + 2 * I, ly = 3 - 1 * I;
    float _Complex f = 2 * I, g = 2 * I;

    apply(MBX_PROD, MBX_DOUBLE_COMPLEX, &x, &y, NULL);
    assert_true(creal(x) == 5 && cimag(x) == 5);
    apply(MBX_SUM, MBX_LONG_DOUBLE_COMPLEX, &lx, &ly, NULL);
    assert_true(creall(lx) == 4 && cimagl(lx) == 1);
    apply(MBX_PROD, MBX_FLOAT_COMPLEX, &f, &g, NULL);
    assert_true(f == -4);
    apply(MBX_LAND, MBX_FLOAT_COMPLEX, &f, &g, NULL);
    assert_true(f == 1);
}

static void reads_and_writes_change_nothing_else(UNUSED void **state)
{
    uint16_t cells[5] = {1, 2, 3, 4, 5}, given[3] = {70, 80, 90};

    atomic_apply(MBX_ATOMIC_WRITE, MBX_UINT16, 3, cells + 1, given, NULL, false);
    assert_true(cells[0] == 1 && cells[1] == 70 && cells[3] == 90 && cells[4] == 5);
    assert_int_equal(given[0], 70);
    atomic_apply(MBX_ATOMIC_READ, MBX_UINT16, 3, cells, given, NULL, true);
    assert_true(cells[0] == 1 && given[0] == 1 && given[1] == 70 && given[2] == 80);
}

static void what_means_nothing_has_no_size(UNUSED void **state)
{
    assert_int_equal(mbx_atomic_size(MBX_BOR, MBX_FLOAT), 0);
    assert_int_equal(mbx_atomic_size(MBX_MSWAP, MBX_DOUBLE), 0);
    assert_int_equal(mbx_atomic_size(MBX_MIN, MBX_DOUBLE_COMPLEX), 0);
    assert_int_equal(mbx_atomic_size(MBX_OPS, MBX_INT8), 0);
    assert_int_equal(mbx_atomic_size(MBX_SUM, MBX_TYPES), 0);
    assert_int_equal(mbx_atomic_size(MBX_SUM, MBX_INT128), 16);
    assert_int_equal(mbx_atomic_size(MBX_SUM, MBX_LONG_DOUBLE), sizeof(long double));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_integers_wrap_and_keep_their_sign),
        cmocka_unit_test(wide_integers_keep_all_bits),
        cmocka_unit_test(a_swap_depends_on_what_is_compared),
        cmocka_unit_test(a_masked_swap_takes_the_masked_bits),
        cmocka_unit_test(real_numbers_are_rounded_once),
        cmocka_unit_test(complex_numbers_are_multiplied),
        cmocka_unit_test(reads_and_writes_change_nothing_else),
        cmocka_unit_test(what_means_nothing_has_no_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
