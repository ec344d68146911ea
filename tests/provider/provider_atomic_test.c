/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_atomic_test.c - atomics of the libfabric provider: every operation on every type, in
 * every form of call, gives the result in libfabric's table; and none is lost between threads,
 * endpoints and processes.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <complex.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>

#define CAPS  (FI_MSG | FI_RMA | FI_ATOMIC)
#define KEY   5
#define COUNT 6 /* elements of a call */
#define ALL   (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define OPS   ((int)FI_ATOMIC_OP_LAST)
#define TYPES ((int)FI_UINT128 + 1)

static const struct setup plain = {.caps = CAPS};
static int contexts[4];

/* ---- elements by type ------------------------------------------------------------------- */

static const size_t sizes[TYPES] = {
    [FI_INT8] = 1,
    [FI_UINT8] = 1,
    [FI_INT16] = 2,
    [FI_UINT16] = 2,
    [FI_INT32] = 4,
    [FI_UINT32] = 4,
    [FI_INT64] = 8,
    [FI_UINT64] = 8,
    [FI_FLOAT] = sizeof(float),
    [FI_DOUBLE] = sizeof(double),
    [FI_FLOAT_COMPLEX] = sizeof(float _Complex),
    [FI_DOUBLE_COMPLEX] = sizeof(double _Complex),
    [FI_LONG_DOUBLE] = sizeof(long double),
    [FI_LONG_DOUBLE_COMPLEX] = sizeof(long double _Complex),
    [FI_INT128] = 16,
    [FI_UINT128] = 16,
};

/* Small whole numbers, which every type can hold: so one oracle is enough for all types. */
static void element_set(void *elements, size_t i, enum fi_datatype type, int value)
{
    char *at = (char *)elements + i * sizes[type];
    float f = (float)value;
    double d = value;
    long double l = value;
    float _Complex fc = f;
    double _Complex dc = d;
    long double _Complex lc = l;
    __int128 whole = value;

    memset(at, 0, sizes[type]);
    switch ((int)type) {
    case FI_FLOAT:
        memcpy(at, &f, sizeof f);
        break;
    case FI_DOUBLE:
        memcpy(at, &d, sizeof d);
        break;
    case FI_LONG_DOUBLE:
        memcpy(at, &l, 10); /* the rest is padding */
        if (sizeof l != 16 || (unsigned char)__LDBL_MANT_DIG__ != 64)
            memcpy(at, &l, sizeof l);
        break;
    case FI_FLOAT_COMPLEX:
        memcpy(at, &fc, sizeof fc);
        break;
    case FI_DOUBLE_COMPLEX:
        memcpy(at, &dc, sizeof dc);
        break;
    case FI_LONG_DOUBLE_COMPLEX:
        memcpy(at, &lc, sizeof lc);
        break;
    default: /* the low bytes: first, as these machines are little-endian */
        memcpy(at, &whole, sizes[type]);
        break;
    }
}

static int element_get(const void *elements, size_t i, enum fi_datatype type)
{
    const char *at = (const char *)elements + i * sizes[type];
    long double _Complex lc;
    double _Complex dc;
    float _Complex fc;
    signed char first;
    long double l;
    double d;
    float f;

    switch ((int)type) {
    case FI_FLOAT:
        memcpy(&f, at, sizeof f);
        return (int)f;
    case FI_DOUBLE:
        memcpy(&d, at, sizeof d);
        return (int)d;
    case FI_LONG_DOUBLE:
        memcpy(&l, at, sizeof l);
        return (int)l;
    case FI_FLOAT_COMPLEX:
        memcpy(&fc, at, sizeof fc);
        return cimagf(fc) == 0 ? (int)crealf(fc) : INT32_MIN;
    case FI_DOUBLE_COMPLEX:
        memcpy(&dc, at, sizeof dc);
        return cimag(dc) == 0 ? (int)creal(dc) : INT32_MIN;
    case FI_LONG_DOUBLE_COMPLEX:
        memcpy(&lc, at, sizeof lc);
        return cimagl(lc) == 0 ? (int)creall(lc) : INT32_MIN;
    default:
        memcpy(&first, at, 1);
        return first;
    }
}

/* ---- the oracle ---------------------------------------------------------------------------
 */

static bool is_integer(enum fi_datatype type)
{
    return type <= FI_UINT64 || type >= FI_INT128;
}

static bool is_complex(enum fi_datatype type)
{
    return type == FI_FLOAT_COMPLEX || type == FI_DOUBLE_COMPLEX ||
           type == FI_LONG_DOUBLE_COMPLEX;
}

static bool is_meaningful(enum fi_op op, enum fi_datatype type)
{
    if (op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP)
        return is_integer(type);
    if (op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT))
        return !is_complex(type);
    return true;
}

static int expected(enum fi_op op, int x, int y, int c)
{
    switch ((int)op) {
    case FI_MIN:
        return x < y ? x : y;
    case FI_MAX:
        return x > y ? x : y;
    case FI_SUM:
        return x + y;
    case FI_PROD:
        return x * y;
    case FI_LOR:
        return x || y;
    case FI_LAND:
        return x && y;
    case FI_BOR:
        return x | y;
    case FI_BAND:
        return x & y;
    case FI_LXOR:
        return !x != !y;
    case FI_BXOR:
        return x ^ y;
    case FI_ATOMIC_READ:
        return x;
    case FI_ATOMIC_WRITE:
        return y;
    case FI_CSWAP:
        return c == x ? y : x;
    case FI_CSWAP_NE:
        return c != x ? y : x;
    case FI_CSWAP_LE:
        return c <= x ? y : x;
    case FI_CSWAP_LT:
        return c < x ? y : x;
    case FI_CSWAP_GE:
        return c >= x ? y : x;
    case FI_CSWAP_GT:
        return c > x ? y : x;
    default: /* FI_MSWAP */
        return (y & c) | (x & ~c);
    }
}

/* ---- all of them, in all forms --------------------------------------------------------------
 */

enum form { BASE, FETCH, COMPARE, FORMS };

/* Does libfabric's table have this call? */
static bool exists(enum form form, enum fi_op op, enum fi_datatype type)
{
    if (!is_meaningful(op, type))
        return false;
    if (form == COMPARE)
        return op >= FI_CSWAP;
    return op < FI_CSWAP && (form == FETCH || op != FI_ATOMIC_READ);
}

static const int xs[COUNT] = {0, 3, 5, 2, 0, 7}, ys[COUNT] = {4, 0, 5, 6, 0, 1},
                 cs[COUNT] = {0, 4, 5, 1, 3, 7};

static struct {
    char there[COUNT * 32], y[COUNT * 32], c[COUNT * 32], result[COUNT * 32];
} e;

static void elements_fill(enum fi_datatype type)
{
    for (size_t i = 0; i < COUNT; i++) {
        element_set(e.there, i, type, xs[i]);
        element_set(e.y, i, type, ys[i]);
        element_set(e.c, i, type, cs[i]);
        element_set(e.result, i, type, 99);
    }
}

static void elements_check(enum form form, enum fi_op op, enum fi_datatype type)
{
    for (size_t i = 0; i < COUNT; i++) {
        int got = element_get(e.there, i, type), want = expected(op, xs[i], ys[i], cs[i]);
        int before = element_get(e.result, i, type);

        if (got == want && before == (form == BASE ? 99 : xs[i]))
            continue;
        fprintf(stderr, "form %d op %d type %d element %zu: %d instead of %d, before %d\n",
                (int)form, (int)op, (int)type, i, got, want, before);
        fail();
    }
}

static void expect_atomic(struct fixture *fix, void *context, uint64_t flag)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fixture_read(fix, 0, &entry, NULL), 1);
    assert_ptr_equal(entry.op_context, context);
    assert_int_equal(entry.flags, FI_ATOMIC | flag);
}

static ssize_t call_one(struct fixture *fix, enum form form, enum fi_op op,
                        enum fi_datatype type)
{
    void *y = op == FI_ATOMIC_READ ? NULL : e.y;

    switch (form) {
    case BASE:
        return fi_atomic(EP(*fix, 0), y, COUNT, NULL, fix->addr[1], 0, KEY, type, op,
                         &contexts[0]);
    case FETCH:
        return fi_fetch_atomic(EP(*fix, 0), y, COUNT, NULL, e.result, NULL, fix->addr[1], 0,
                               KEY, type, op, &contexts[0]);
    case COMPARE:
    case FORMS:
        break;
    }
    return fi_compare_atomic(EP(*fix, 0), y, COUNT, NULL, e.c, NULL, e.result, NULL,
                             fix->addr[1], 0, KEY, type, op, &contexts[0]);
}

/* Makes the call in pieces: 2 and 4 elements, 3 and 3, 1 and 5. */
static ssize_t call_vector(struct fixture *fix, enum form form, enum fi_op op,
                           enum fi_datatype type)
{
    size_t s = sizes[type];
    struct fi_ioc y[2] = {{e.y, 2}, {e.y + 2 * s, 4}};
    struct fi_ioc c[2] = {{e.c, 3}, {e.c + 3 * s, 3}};
    struct fi_ioc r[2] = {{e.result, 1}, {e.result + s, 5}};

    switch (form) {
    case BASE:
        return fi_atomicv(EP(*fix, 0), y, NULL, 2, fix->addr[1], 0, KEY, type, op,
                          &contexts[0]);
    case FETCH:
        return fi_fetch_atomicv(EP(*fix, 0), y, NULL, 2, r, NULL, 2, fix->addr[1], 0, KEY, type,
                                op, &contexts[0]);
    case COMPARE:
    case FORMS:
        break;
    }
    return fi_compare_atomicv(EP(*fix, 0), y, NULL, 2, c, NULL, 2, r, NULL, 2, fix->addr[1], 0,
                              KEY, type, op, &contexts[0]);
}

static ssize_t call_msg(struct fixture *fix, enum form form, enum fi_op op,
                        enum fi_datatype type)
{
    size_t s = sizes[type];
    struct fi_ioc y = {e.y, COUNT}, c = {e.c, COUNT}, r = {e.result, COUNT};
    struct fi_rma_ioc rma[2] = {{0, 4, KEY}, {4 * s, 2, KEY}};
    struct fi_msg_atomic msg = {.msg_iov = &y,
                                .iov_count = 1,
                                .addr = fix->addr[1],
                                .rma_iov = rma,
                                .rma_iov_count = 2,
                                .datatype = type,
                                .op = op,
                                .context = &contexts[0]};

    switch (form) {
    case BASE:
        return fi_atomicmsg(EP(*fix, 0), &msg, FI_DELIVERY_COMPLETE);
    case FETCH:
        return fi_fetch_atomicmsg(EP(*fix, 0), &msg, &r, NULL, 1, 0);
    case COMPARE:
    case FORMS:
        break;
    }
    return fi_compare_atomicmsg(EP(*fix, 0), &msg, &c, NULL, 1, &r, NULL, 1, 0);
}

typedef ssize_t call_fn(struct fixture *fix, enum form form, enum fi_op op,
                        enum fi_datatype type);

static void try_one(struct fixture *fix, call_fn *call, enum form form, enum fi_op op,
                    enum fi_datatype type)
{
    elements_fill(type);
    if (!exists(form, op, type)) {
        assert_int_equal(call(fix, form, op, type), -FI_EOPNOTSUPP);
        return;
    }
    assert_int_equal(call(fix, form, op, type), 0);
    expect_atomic(fix, &contexts[0], form == BASE ? FI_WRITE : FI_READ);
    elements_check(form, op, type);
}

static struct fid_mr *share(struct fixture *fix, void *buf, size_t size)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(fix->domain, buf, size, ALL, 0, KEY, 0, &mr, NULL), 0);
    return mr;
}

static void every_operation_on_every_type_in_every_form(void **state)
{
    static call_fn *const calls[] = {call_one, call_vector, call_msg};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    mr = share(&fix, e.there, sizeof e.there);
    for (size_t call = 0; call < sizeof calls / sizeof calls[0]; call++)
        for (int type = 0; type < TYPES; type++)
            for (int op = 0; op < OPS; op++)
                for (int form = 0; form < FORMS; form++)
                    try_one(&fix, calls[call], (enum form)form, (enum fi_op)op,
                            (enum fi_datatype)type);
    assert_int_equal(fi_close(&mr->fid), 0);
    fixture_close(&fix);
}

static int ask_valid(struct fixture *fix, enum form form, enum fi_op op, enum fi_datatype type,
                     size_t *count)
{
    return form == BASE    ? fi_atomicvalid(EP(*fix, 0), type, op, count)
           : form == FETCH ? fi_fetch_atomicvalid(EP(*fix, 0), type, op, count)
                           : fi_compare_atomicvalid(EP(*fix, 0), type, op, count);
}

static void what_there_is_can_be_asked(void **state)
{
    static const uint64_t flags[FORMS] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    struct fi_atomic_attr attr;
    struct fixture fix;
    size_t count;

    (void)state;
    fixture_open(&fix, &plain);
    for (int type = 0; type < TYPES; type++) {
        for (int op = 0; op < OPS; op++) {
            for (int form = 0; form < FORMS; form++) {
                bool is_there = exists(form, op, type);
                int want = is_there ? 0 : -FI_EOPNOTSUPP;

                count = 0;
                attr = (struct fi_atomic_attr){0};
                assert_int_equal(ask_valid(&fix, form, op, type, &count), want);
                assert_int_equal(fi_query_atomic(fix.domain, type, op, &attr, flags[form]),
                                 want);
                assert_int_equal(attr.count, count);
                assert_int_equal(attr.size, is_there ? sizes[type] : 0);
                assert_true(!is_there || count >= 12);
            }
        }
    }
    assert_int_equal(fi_query_atomic(fix.domain, FI_INT8, FI_SUM, &attr, FI_SEND),
                     -FI_EBADFLAGS);
    for (int form = 0; form < FORMS; form++)
        assert_int_equal(
            fi_query_atomic(fix.domain, FI_INT8, FI_SUM, &attr, FI_TAGGED | flags[form]),
            -FI_EOPNOTSUPP);
    assert_int_equal(fi_atomicvalid(EP(fix, 0), FI_INT8, (enum fi_op)FI_ATOMIC_OP_LAST, &count),
                     -FI_EOPNOTSUPP);
    fixture_close(&fix);
}

/* ---- limits and errors
 * ------------------------------------------------------------------------ */

static void as_many_as_were_promised_and_no_more(void **state)
{
    static uint8_t cells[8192], ones[8192], before[8192];
    struct fid_mr *mr;
    struct fixture fix;
    size_t count;

    (void)state;
    fixture_open(&fix, &plain);
    mr = share(&fix, cells, sizeof cells);
    memset(ones, 1, sizeof ones);
    assert_int_equal(fi_fetch_atomicvalid(EP(fix, 0), FI_UINT8, FI_SUM, &count), 0);
    assert_true(count < sizeof cells);
    assert_int_equal(fi_fetch_atomic(EP(fix, 0), ones, count, NULL, before, NULL, fix.addr[1],
                                     0, KEY, FI_UINT8, FI_SUM, &contexts[1]),
                     0);
    expect_atomic(&fix, &contexts[1], FI_READ);
    assert_true(cells[0] == 1 && cells[count - 1] == 1 && cells[count] == 0);
    assert_int_equal(fi_atomic(EP(fix, 0), ones, count + 1, NULL, fix.addr[1], 0, KEY, FI_UINT8,
                               FI_SUM, NULL),
                     -FI_EMSGSIZE);
    assert_int_equal(
        fi_atomic(EP(fix, 0), ones, 0, NULL, fix.addr[1], 0, KEY, FI_UINT8, FI_SUM, NULL),
        -FI_EINVAL);
    assert_int_equal(fi_close(&mr->fid), 0);
    fixture_close(&fix);
}

static void injected_ones_are_all_performed(void **state)
{
    struct fi_cq_err_entry error;
    uint64_t cell = 0, one = 1;
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    mr = share(&fix, &cell, sizeof cell);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(
            fi_inject_atomic(EP(fix, 0), &one, 1, fix.addr[1], 0, KEY, FI_UINT64, FI_SUM), 0);
        one = 77; /* the buffer may be reused */
        one = 1;
    }
    assert_int_equal(fi_atomic(EP(fix, 0), &one, 1, NULL, fix.addr[1], 0, KEY, FI_UINT64,
                               FI_SUM, &contexts[1]),
                     0);
    expect_atomic(&fix, &contexts[1], FI_WRITE);
    assert_int_equal(cell, 201);
    assert_int_equal(fi_atomic(EP(fix, 0), &one, 1, NULL, fix.addr[1], 4, KEY, FI_UINT64,
                               FI_SUM, &contexts[2]),
                     0);
    fixture_read_error(&fix, 0, &error);
    assert_int_equal(error.err, ERANGE);
    assert_ptr_equal(error.op_context, &contexts[2]);
    assert_int_equal(cell, 201);
    assert_int_equal(fi_close(&mr->fid), 0);
    fixture_close(&fix);
}

#define INJECTED 40 /* more than leave at once */
#define LONGEST  (2048 / 8)

static struct {
    size_t count; /* in one call */
    uint64_t cells[LONGEST], y[LONGEST], c[LONGEST], before[INJECTED][2][LONGEST];
} injected;

/* Adds 1, or stores 3 (i + 1) where that has left 3 i + 1; the operands are overwritten after
 * the call. */
static void inject_one(struct fixture *fix, unsigned i, enum form form, bool by_flags)
{
    struct fi_ioc y = {injected.y, injected.count}, c = {injected.c, injected.count},
                  r = {injected.before[i][form == COMPARE], injected.count};
    struct fi_rma_ioc rma = {0, injected.count, KEY};
    struct fi_msg_atomic msg = {.msg_iov = &y,
                                .iov_count = 1,
                                .addr = fix->addr[1],
                                .rma_iov = &rma,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = form == FETCH ? FI_SUM : FI_CSWAP,
                                .context = &contexts[0]};
    ssize_t err;

    for (size_t k = 0; k < injected.count; k++) {
        injected.y[k] = form == FETCH ? 1 : 3 * i + 3;
        injected.c[k] = 3 * i + 1;
    }
    if (form == FETCH)
        err = by_flags ? fi_fetch_atomicmsg(EP(*fix, 0), &msg, &r, NULL, 1, FI_INJECT)
                       : fi_fetch_atomicv(EP(*fix, 0), &y, NULL, 1, &r, NULL, 1, fix->addr[1],
                                          0, KEY, FI_UINT64, FI_SUM, &contexts[0]);
    else
        err = by_flags
                  ? fi_compare_atomicmsg(EP(*fix, 0), &msg, &c, NULL, 1, &r, NULL, 1, FI_INJECT)
                  : fi_compare_atomicv(EP(*fix, 0), &y, NULL, 1, &c, NULL, 1, &r, NULL, 1,
                                       fix->addr[1], 0, KEY, FI_UINT64, FI_CSWAP, &contexts[0]);
    assert_int_equal(err, 0);
    memset(injected.y, 0xff, sizeof injected.y);
    memset(injected.c, 0xff, sizeof injected.c);
}

static void what_is_injected_may_change_in_every_form(void **state)
{
    static const struct setup always = {.caps = CAPS, .send_flags = FI_INJECT | FI_COMPLETION};
    static const struct setup *const setups[] = {&plain, &always};

    (void)state;
    for (int n = 0; n < 2; n++) {
        struct fid_mr *mr;
        struct fixture fix;

        fixture_open(&fix, setups[n]);
        memset(&injected, 0, sizeof injected);
        mr = share(&fix, injected.cells, sizeof injected.cells);
        assert_int_equal(
            fi_compare_atomicvalid(EP(fix, 0), FI_UINT64, FI_CSWAP, &injected.count), 0);
        assert_true(injected.count <= LONGEST &&
                    16 * injected.count <= fix.info->tx_attr->inject_size);
        for (unsigned i = 0; i < INJECTED; i++) {
            inject_one(&fix, i, FETCH, n == 0);
            inject_one(&fix, i, COMPARE, n == 0);
        }
        for (unsigned i = 0; i < 2 * INJECTED; i++)
            expect_atomic(&fix, &contexts[0], FI_READ);
        for (size_t k = 0; k < injected.count; k++) {
            assert_int_equal(injected.cells[k], 3 * INJECTED);
            for (unsigned i = 0; i < INJECTED; i++) {
                assert_int_equal(injected.before[i][0][k], 3 * i);
                assert_int_equal(injected.before[i][1][k], 3 * i + 1);
            }
        }
        assert_int_equal(fi_close(&mr->fid), 0);
        fixture_close(&fix);
    }
}

/* ---- counters of the target ---------------------------------------------------------------- */

static struct fid_cntr *region_counter(struct fixture *fix, struct fid_mr *mr,
                                       uint64_t accesses)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *cntr;

    assert_int_equal(fi_cntr_open(fix->domain, &attr, &cntr, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &cntr->fid, accesses), 0);
    return cntr;
}

/* A region's counters go by what the atomic does (fi_mr(3)): one that returns a result reads,
 * and one that modifies writes.  An endpoint's counters go by its form (fi_endpoint(3)): the
 * base form is a write, the others are reads. */
static void the_target_counts_what_is_done_to_it(void **state)
{
    static const struct setup setup = {.caps = CAPS | FI_RMA_EVENT,
                                       .counts = FI_REMOTE_READ | FI_REMOTE_WRITE};
    static const struct {
        enum form form;
        enum fi_op op;
    } done[] = {{BASE, FI_SUM},     {BASE, FI_ATOMIC_WRITE},  {FETCH, FI_ATOMIC_READ},
                {FETCH, FI_SUM},    {FETCH, FI_ATOMIC_WRITE}, {COMPARE, FI_CSWAP},
                {COMPARE, FI_MSWAP}};
    const size_t all = sizeof done / sizeof done[0];
    struct fid_cntr *reads, *writes, *both;
    struct fid_mr *mr, *other;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    mr = share(&fix, e.there, sizeof e.there);
    reads = region_counter(&fix, mr, FI_REMOTE_READ);
    writes = region_counter(&fix, mr, FI_REMOTE_WRITE);
    for (size_t i = 0; i < all; i++) {
        assert_int_equal(call_one(&fix, done[i].form, done[i].op, FI_UINT64), 0);
        expect_atomic(&fix, &contexts[0], done[i].form == BASE ? FI_WRITE : FI_READ);
    }
    assert_int_equal(fi_cntr_read(reads), all - 2);
    assert_int_equal(fi_cntr_read(writes), all - 1);
    assert_int_equal(fi_cntr_read(fix.node[1].cntr[NODE_READ_HERE]), all - 2);
    assert_int_equal(fi_cntr_read(fix.node[1].cntr[NODE_WRITTEN_HERE]), 2);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_cntr_read(writes), all - 1);
    /* a counter of both kinds counts each access once, also after the region has been closed */
    other = share(&fix, e.there, sizeof e.there);
    both = region_counter(&fix, other, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t i = 0; i < all; i++) {
        assert_int_equal(call_one(&fix, done[i].form, done[i].op, FI_UINT64), 0);
        expect_atomic(&fix, &contexts[0], done[i].form == BASE ? FI_WRITE : FI_READ);
        if (i % 2)
            assert_int_equal(fi_cntr_read(both), i + 1);
    }
    assert_int_equal(fi_close(&other->fid), 0);
    assert_int_equal(fi_cntr_read(both), all);
    assert_int_equal(fi_close(&reads->fid), 0);
    assert_int_equal(fi_close(&writes->fid), 0);
    assert_int_equal(fi_close(&both->fid), 0);
    fixture_close(&fix);
}

/* ---- many at a time
 * ------------------------------------------------------------------------------- */

#define EACH 300

static struct fixture many;

/* Adds through node me; half of the calls fetch the old value. */
static void *adder(void *arg)
{
    int me = (int)(intptr_t)arg;
    struct fid_cntr *reads = many.node[me].cntr[NODE_READS];
    uint64_t one = 1, before[EACH];
    ssize_t err = 0;

    for (int i = 0; i < EACH && err == 0; i++) {
        do {
            err = i % 2 ? fi_inject_atomic(EP(many, me), &one, 1,
                                           many.addr[i / 2 % FIXTURE_NODES], 0, KEY, FI_UINT64,
                                           FI_SUM)
                        : fi_fetch_atomic(EP(many, me), &one, 1, NULL, &before[i], NULL,
                                          many.addr[i / 2 % FIXTURE_NODES], 0, KEY, FI_UINT64,
                                          FI_SUM, NULL);
        } while (err == -FI_EAGAIN);
    }
    return err == 0 && fi_cntr_wait(reads, EACH / 2, PATIENCE_MS) == 0 ? many.info : NULL;
}

/* Three endpoints of one domain, each with its own thread, update the same memory through each
 * other. */
static void none_is_lost_between_threads(void **state)
{
    struct setup setup = {.caps = CAPS,
                          .threading = FI_THREAD_SAFE,
                          .counts = FI_SEND | FI_READ | FI_WRITE | FI_REMOTE_WRITE};
    pthread_t thread[FIXTURE_NODES];
    uint64_t cell = 0;
    struct fid_mr *mr;
    void *well;

    (void)state;
    fixture_open(&many, &setup);
    mr = share(&many, &cell, sizeof cell);
    for (int i = 0; i < FIXTURE_NODES; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, adder, (void *)(intptr_t)i), 0);
    for (int i = 0; i < FIXTURE_NODES; i++) /* nodes that are done must still serve */
        while (fi_cntr_read(many.node[i].cntr[NODE_WRITES]) != EACH / 2 ||
               fi_cntr_read(many.node[i].cntr[NODE_READS]) != EACH / 2)
            fixture_progress(&many);
    for (int i = 0; i < FIXTURE_NODES; i++) {
        pthread_join(thread[i], &well);
        assert_non_null(well);
    }
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(cell, FIXTURE_NODES * EACH);
    fixture_close(&many);
}

struct board {
    char address[2][FIXTURE_ADDRESS];
    _Atomic int ready, done;
    uint64_t cell;
};

/* Each of two processes adds to memory of the first, which also adds to its own. */
static int add_from(struct board *board, int me)
{
    struct setup setup = {.caps = CAPS, .counts = FI_SEND | FI_WRITE};
    struct fid_mr *mr = NULL;
    uint64_t one = 1;
    fi_addr_t addr;
    struct fixture fix;
    bool well = true;

    fixture_open(&fix, &setup);
    if (me == 0)
        mr = share(&fix, &board->cell, sizeof board->cell);
    memcpy(board->address[me], fix.node[0].address, FIXTURE_ADDRESS);
    board->ready++;
    while (board->ready < 2)
        fixture_progress(&fix);
    if (fi_av_insert(fix.node[0].av, board->address[0], 1, &addr, 0, NULL) != 1)
        return 1;
    for (int i = 0; i < EACH; i++)
        while (fi_inject_atomic(EP(fix, 0), &one, 1, addr, 0, KEY, FI_UINT64, FI_SUM) != 0)
            continue;
    well = fi_cntr_wait(fix.node[0].cntr[NODE_WRITES], EACH, PATIENCE_MS) == 0;
    board->done++;
    while (board->done < 2)
        fixture_progress(&fix);
    if (mr != NULL)
        fi_close(&mr->fid);
    fixture_close(&fix);
    return well ? 0 : 1;
}

static void none_is_lost_between_processes(void **state)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t pid;

    (void)state;
    assert_ptr_not_equal(board, MAP_FAILED);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(add_from(board, 1));
    assert_int_equal(add_from(board, 0), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(board->cell, 2 * EACH);
    munmap(board, sizeof *board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_lost_between_processes), /* forks: before there are threads */
        cmocka_unit_test(every_operation_on_every_type_in_every_form),
        cmocka_unit_test(what_there_is_can_be_asked),
        cmocka_unit_test(as_many_as_were_promised_and_no_more),
        cmocka_unit_test(injected_ones_are_all_performed),
        cmocka_unit_test(what_is_injected_may_change_in_every_form),
        cmocka_unit_test(the_target_counts_what_is_done_to_it),
        cmocka_unit_test(none_is_lost_between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
