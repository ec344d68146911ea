/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_test.c - finds the MPI call that a program is in, from its stack: by a walk, and by learnt distances.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/base.h"
#include "base/caller.h"
#include "base/compiler.h"
#include "base/unit.h"

/* defined in caller_test_calls.c */
int MPI_Recv(void (*look)(void));
int MPI_Waitany(void (*look)(void));
int MPI_Send(void (*look)(void), size_t room);
int mpi_recv_(void (*look)(void));

static struct caller caller;

static void look(void)
{
    caller_find(&caller);
}

static void test_a_call_has_the_name_of_its_function(UNUSED void **state)
{
    assert_int_equal(MPI_Recv(look), 1);
    assert_string_equal(caller.call, "MPI_Recv");
    assert_int_not_equal(caller.address, 0);
}

static bool is_here(uint64_t address)
{
    Dl_info there, here;

    return dladdr((void *)(uintptr_t)address, &there) != 0 &&
           dladdr((void *)(uintptr_t)is_here, &here) != 0 && there.dli_fbase == here.dli_fbase;
}

static void test_a_call_of_fortran_has_the_name_of_c(UNUSED void **state)
{
    assert_int_equal(mpi_recv_(look), 2);
    assert_string_equal(caller.call, "MPI_Recv");
    assert_true(is_here(caller.address));
}

static void test_no_call_has_no_name(UNUSED void **state)
{
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

static int setup(UNUSED void **state)
{
    learnt = (struct caller_learnt){0};
    wrong = 0;
    return 0;
}

static void test_distances_give_what_a_walk_gives(UNUSED void **state)
{
    for (int i = 0; i < CALLS; i++) {
        MPI_Recv(look_both);
        MPI_Recv(look_both); /* another line */
        MPI_Recv(look_deeper);
    }
    assert_int_equal(wrong, 0);
    assert_in_range(learnt.walks, 1, LEARNS ? 100 : 3 * CALLS);
}

/* The frame of MPI_Send has another length at each call. */
static void test_a_distance_that_changes_is_not_used(UNUSED void **state)
{
    for (size_t i = 0; i < CALLS; i++) {
        MPI_Send(look_both, i % 3 == 0 ? 16 : 4096);
        MPI_Recv(look_both);
    }
    assert_int_equal(wrong, 0);
    assert_in_range(learnt.walks, CALLS, LEARNS ? CALLS + 100 : 2 * CALLS);
}

static void *ask(UNUSED void *arg)
{
    for (int i = 0; i < CALLS; i++)
        MPI_Recv(look_both);
    return NULL;
}

/* A thread's stack ends above its first function: nothing is read beyond. */
static void test_each_thread_learns_where_its_stack_ends(UNUSED void **state)
{
    pthread_t thread;

    ask(NULL);
    assert_int_equal(pthread_create(&thread, NULL, ask, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
}

/* As if another library had been loaded at the addresses of an earlier one. */
static void test_a_wrong_distance_is_found_by_a_check(UNUSED void **state)
{
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

/* ---- coroutines ---- */

#if !defined __SANITIZE_ADDRESS__ &&                                                           \
    !defined __SANITIZE_THREAD__ /* they know one stack for each thread */

#define COROUTINE_STACK ((size_t)256 << 10)
#define COROUTINE_GUARD ((size_t)1 << 20)
#define LONG_FRAME      ((size_t)192 << 10)

static ucontext_t main_context, coroutine_context;
static size_t coroutine_room;

static void coroutine(void)
{
    MPI_Recv(
        look_deeper); /* so that a walk has seen more of this stack than the next call needs */
    MPI_Send(look_both, coroutine_room);
}

/* A long frame is learnt on the thread's stack; then the function has a short frame at the end of a stack of its own, after which
 * nothing may be read. */
static void test_a_coroutine_has_its_own_stack(UNUSED void **state)
{
    unsigned char *stack = mmap(NULL, COROUTINE_STACK + COROUTINE_GUARD, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(stack, MAP_FAILED);
    assert_int_equal(mprotect(stack + COROUTINE_STACK, COROUTINE_GUARD, PROT_NONE), 0);
    for (int i = 0; i < 100; i++) {
        MPI_Send(look_both, LONG_FRAME);
        assert_int_equal(getcontext(&coroutine_context), 0);
        coroutine_context.uc_stack.ss_sp = stack;
        coroutine_context.uc_stack.ss_size = COROUTINE_STACK;
        coroutine_context.uc_link = &main_context;
        coroutine_room = 16;
        makecontext(&coroutine_context, coroutine, 0);
        assert_int_equal(swapcontext(&main_context, &coroutine_context), 0);
    }
    assert_int_equal(wrong, 0);
    munmap(stack, COROUTINE_STACK + COROUTINE_GUARD);
}

#endif

static void test_no_call_has_no_address(UNUSED void **state)
{
    for (int i = 0; i < 8; i++)
        assert_int_equal(caller_address(&learnt), 0);
}

#if defined __x86_64__

static void test_a_function_that_has_jumped_is_known_by_the_call(UNUSED void **state)
{
    assert_int_equal(MPI_Waitany(look), 1);
    assert_string_equal(caller.call, "MPI_Waitany");
    assert_int_not_equal(caller.address, 0);
}

/* A call through a slot, as compiled with -fno-plt. */
static void test_so_it_is_by_a_call_through_a_slot(UNUSED void **state)
{
    int result;

    __asm__ volatile("call *MPI_Waitany@GOTPCREL(%%rip)"
                     : "=a"(result)
                     : "D"(look)
                     : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    assert_int_equal(result, 1);
    assert_string_equal(caller.call, "MPI_Waitany");
}

static void test_a_call_through_a_pointer_is_not_known(UNUSED void **state)
{
    int (*volatile call)(void (*)(void)) = MPI_Waitany;

    assert_int_equal(call(look), 1);
    assert_string_equal(caller.call, "");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_has_the_name_of_its_function),
        cmocka_unit_test(test_a_call_of_fortran_has_the_name_of_c),
        cmocka_unit_test(test_no_call_has_no_name),
        cmocka_unit_test_setup(test_distances_give_what_a_walk_gives, setup),
        cmocka_unit_test_setup(test_a_distance_that_changes_is_not_used, setup),
        cmocka_unit_test_setup(test_each_thread_learns_where_its_stack_ends, setup),
        cmocka_unit_test_setup(test_a_wrong_distance_is_found_by_a_check, setup),
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cmocka_unit_test_setup(test_a_coroutine_has_its_own_stack, setup),
#endif
        cmocka_unit_test_setup(test_no_call_has_no_address, setup),
#if defined __x86_64__
        cmocka_unit_test(test_a_function_that_has_jumped_is_known_by_the_call),
        cmocka_unit_test(test_so_it_is_by_a_call_through_a_slot),
        cmocka_unit_test(test_a_call_through_a_pointer_is_not_known),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
