/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caller_test_calls.c - MPI functions as an MPI library has them, for caller_test.c; each calls
 * back.
 */
#include "base/base.h"

#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT int MPI_Recv(void (*look)(void));

EXPORT int MPI_Recv(void (*look)(void))
{
    look();
    return 1; /* so that the call above is not a tail call */
}

EXPORT int mpi_recv_(void (*look)(void));

/* As Fortran calls it. */
EXPORT int mpi_recv_(void (*look)(void))
{
    return 2 * MPI_Recv(look);
}

EXPORT int MPI_Send(void (*look)(void), size_t room);

/* With a frame of another length for another room. */
EXPORT int MPI_Send(void (*look)(void), size_t room)
{
    volatile char *more = __builtin_alloca(room);

    more[room - 1] = 1;
    look();
    return more[room - 1];
}

/* MPI_Waitany jumps to a function that is not exported, as compilers do for a tail call. */
#if defined __x86_64__
__asm__(".text\n"
        ".globl MPI_Waitany\n"
        ".type MPI_Waitany, @function\n"
        "MPI_Waitany:\n"
        "    .cfi_startproc\n"
        "    jmp internal_Waitany\n"
        "    .cfi_endproc\n"
        ".size MPI_Waitany, . - MPI_Waitany\n"
        ".type internal_Waitany, @function\n"
        "internal_Waitany:\n"
        "    .cfi_startproc\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call *%rdi\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    movl $1, %eax\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size internal_Waitany, . - internal_Waitany\n"
        ".section .note.GNU-stack,\"\",@progbits\n"
        ".text\n");
#endif
