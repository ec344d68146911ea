/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * solve.c - a system of linear equations by MUMPS, for ./dev soak replays.
 *
 * usage: solve EDGE
 *
 * The equations describe a flow through a cube of EDGE^3 points.  MUMPS receives contributions from any source and
 * adds them in the order in which they come, so the last digits of the solution differ from run to run.  Rank 0 prints
 * `solution HASH, off by ERROR`, over all bits of all unknowns.
 */
#include <dmumps_c.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define COMMUNICATOR_WORLD (-987654) /* as MUMPS has it */
enum job { JOB_BEGIN = -1, JOB_END = -2, JOB_SOLVE = 6 };

static void add(DMUMPS_STRUC_C *m, int row, int column, double value)
{
    m->irn[m->nnz] = row + 1;
    m->jcn[m->nnz] = column + 1;
    m->a[m->nnz++] = value;
    m->rhs[row] += value * (column % 10 + 1); /* so that unknown i is i % 10 + 1 */
}

static void fill(DMUMPS_STRUC_C *m, int edge)
{
    int step[3] = {1, edge, edge * edge};

    m->n = edge * edge * edge;
    m->irn = calloc((size_t)m->n * 7, sizeof m->irn[0]);
    m->jcn = calloc((size_t)m->n * 7, sizeof m->jcn[0]);
    m->a = calloc((size_t)m->n * 7, sizeof m->a[0]);
    m->rhs = calloc((size_t)m->n, sizeof m->rhs[0]);
    for (int row = 0; row < m->n; row++) {
        add(m, row, row, 6.5 + row % 7 * 0.125);
        for (int i = 0; i < 3; i++) {
            if (row / step[i] % edge > 0)
                add(m, row, row - step[i], -1.25);
            if (row / step[i] % edge < edge - 1)
                add(m, row, row + step[i], -0.75);
        }
    }
}

static void say_solution(const DMUMPS_STRUC_C *m)
{
    const unsigned char *bytes = (const unsigned char *)m->rhs;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    double off = 0;

    for (size_t i = 0; i < (size_t)m->n * sizeof m->rhs[0]; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    for (int i = 0; i < m->n; i++)
        off = fmax(off, fabs(m->rhs[i] - (i % 10 + 1)));
    printf("solution %016llx, off by %g\n", (unsigned long long)hash, off);
}

int main(int argc, char **argv)
{
    DMUMPS_STRUC_C m = {.par = 1, .sym = 0, .comm_fortran = COMMUNICATOR_WORLD};
    int rank, edge = argc == 2 ? atoi(argv[1]) : 0, failed;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (edge < 1 || edge > 100) {
        fprintf(stderr, "usage: solve EDGE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    m.job = JOB_BEGIN;
    dmumps_c(&m);
    if (rank == 0)
        fill(&m, edge);
    for (int i = 0; i < 4; i++)
        m.icntl[i] = 0; /* no output */
    m.job = JOB_SOLVE;
    dmumps_c(&m);
    failed = m.infog[0];
    if (rank == 0 && failed == 0)
        say_solution(&m);
    m.job = JOB_END;
    dmumps_c(&m);
    MPI_Finalize();
    return failed != 0;
}
