/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_test.c - finds the MPI call that a program is in, from its stack: by a walk, and by learnt distances.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/base.h"
#include "base/caller.h"
#include "base/compiler.h"

/* defined in caller_test_calls.c */
int MPI_Recv(void (*look)(void));
int MPI_Waitany(void (*look)(void));
int MPI_Send(void (*look)(void), size_t room);

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

/* ---- learnt distances ---- */

#define CALLS 512

#if defined __x86_64__
#define LEARNS true
#else
#define LEARNS false
#endif

static struct caller_learnt learnt;
static size_t wrong;

/* A level between a call of MPI and the code that asks. */
static OUT_OF_LINE void deeper(unsigned levels)
{
    volatile char room[64];

    room[0] = (char)levels;
    if (levels > 0)
        deeper(levels - 1);
    else
        wrong += caller_address(&learnt) != (caller_find(&caller), caller.address) ||
                 caller.address == 0;
    room[1] = room[0]; /* so that the call above is not a tail call */
}

static void look_both(void)
{
    deeper(0);
}

static void look_deeper(void)
{
    deeper(3);
}

static int setup(void **state)
{
    (void)state;
    learnt = (struct caller_learnt){0};
    wrong = 0;
    return 0;
}

static void test_distances_give_what_a_walk_gives(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        MPI_Recv(look_both);
        MPI_Recv(look_both); /* another line */
        MPI_Recv(look_deeper);
    }
    assert_int_equal(wrong, 0);
    assert_in_range(learnt.walks, 1, LEARNS ? 100 : 3 * CALLS);
}

/* The frame of MPI_Send has another length at each call. */
static void test_a_distance_that_changes_is_not_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < CALLS; i++) {
        MPI_Send(look_both, i % 3 == 0 ? 16 : 4096);
        MPI_Recv(look_both);
    }
    assert_int_equal(wrong, 0);
    assert_in_range(learnt.walks, CALLS, LEARNS ? CALLS + 100 : 2 * CALLS);
}

static void *ask(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++)
        MPI_Recv(look_both);
    return NULL;
}

/* A thread's stack ends above its first function: nothing is read beyond. */
static void test_each_thread_learns_where_its_stack_ends(void **state)
{
    pthread_t thread;

    (void)state;
    ask(NULL);
    assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
}

/* As if another library had been loaded at the addresses of an earlier one. */
static void test_a_wrong_distance_is_found_by_a_check(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        MPI_Recv(look_both);
    for (size_t i = 0; i < CALLER_STEPS; i++)
        learnt.steps[i].distance = 0; /* the last one */
    for (int i = 0; i < 100; i++)
        MPI_Recv(look_both);
    wrong = 0;
    for (int i = 0; i < 100; i++)
        MPI_Recv(look_both);
    assert_int_equal(wrong, 0);
}

static void test_no_call_has_no_address(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(caller_address(&learnt), 0);
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
        cmocka_unit_test_setup(test_distances_give_what_a_walk_gives, setup),
        cmocka_unit_test_setup(test_a_distance_that_changes_is_not_used, setup),
        cmocka_unit_test_setup(test_each_thread_learns_where_its_stack_ends, setup),
        cmocka_unit_test_setup(test_a_wrong_distance_is_found_by_a_check, setup),
        cmocka_unit_test_setup(test_no_call_has_no_address, setup),
#if defined __x86_64__
        cmocka_unit_test(test_a_function_that_has_jumped_is_known_by_the_call),
        cmocka_unit_test(test_so_it_is_by_a_call_through_a_slot),
        cmocka_unit_test(test_a_call_through_a_pointer_is_not_known),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
