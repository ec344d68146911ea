! SPDX-License-Identifier: BSD-3-Clause
!
! Two ranks wait for each other's message, in Fortran; for languages_test.py.  With -DF08 it uses the module mpi_f08.
program stuck_fortran
#ifdef F08
    use mpi_f08
#else
    use mpi
#endif
    implicit none
    integer :: rank, error

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call exchange(1 - rank)
    call MPI_Finalize(error)
contains
    subroutine exchange(other)
        integer, intent(in) :: other
        integer :: value(4)

        call MPI_Recv(value, 4, MPI_INTEGER, other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    end subroutine
end program
