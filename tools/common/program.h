/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - detects the MPI that a program was linked with, by the names of libraries in its file.
 */
#ifndef TOOLS_PROGRAM_H
#define TOOLS_PROGRAM_H

enum program_mpi {
    PROGRAM_NO_MPI,    /* none, or the file cannot be read */
    PROGRAM_OTHER_MPI, /* libmpi.so without a known version */
    PROGRAM_OPEN_MPI,  /* libmpi.so.40: its series 3 to 5 */
    PROGRAM_MPICH,     /* libmpich.so, or libmpi.so.12, its ABI */
};

enum program_mpi program_mpi(const char *path);

#endif
