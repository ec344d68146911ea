/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_test.c - finds the MPI call that a program is in, from its stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/caller.h"

/* defined in caller_test_calls.c */
int MPI_Recv(void (*look)(void));
int MPI_Waitany(void (*look)(void));

static struct caller caller;

static void look(void)
{
    caller_find(&caller);
}

static void test_a_call_has_the_name_of_its_function(void **state)
{
    (void)state;
    assert_int_equal(MPI_Recv(look), 1);
    assert_string_equal(caller.call, "MPI_Recv");
    assert_int_not_equal(caller.address, 0);
}

static void test_no_call_has_no_name(void **state)
{
    (void)state;
    look();
    assert_string_equal(caller.call, "");
    assert_int_equal(caller.address, 0);
}

#if defined __x86_64__

static void test_a_function_that_has_jumped_is_known_by_the_call(void **state)
{
    (void)state;
    assert_int_equal(MPI_Waitany(look), 1);
    assert_string_equal(caller.call, "MPI_Waitany");
    assert_int_not_equal(caller.address, 0);
}

/* A call through a slot, as compiled with -fno-plt. */
static void test_so_it_is_by_a_call_through_a_slot(void **state)
{
    int result;

    (void)state;
    __asm__ volatile("call *MPI_Waitany@GOTPCREL(%%rip)"
                     : "=a"(result)
                     : "D"(look)
                     : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    assert_int_equal(result, 1);
    assert_string_equal(caller.call, "MPI_Waitany");
}

static void test_a_call_through_a_pointer_is_not_known(void **state)
{
    int (*volatile call)(void (*)(void)) = MPI_Waitany;

    (void)state;
    assert_int_equal(call(look), 1);
    assert_string_equal(caller.call, "");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_has_the_name_of_its_function),
        cmocka_unit_test(test_no_call_has_no_name),
#if defined __x86_64__
        cmocka_unit_test(test_a_function_that_has_jumped_is_known_by_the_call),
        cmocka_unit_test(test_so_it_is_by_a_call_through_a_slot),
        cmocka_unit_test(test_a_call_through_a_pointer_is_not_known),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
