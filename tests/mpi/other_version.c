/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * other_version.c - two ranks whose libraries have different versions.
 *
 *   mpiexec -n 2 other_version FIFO [--fatal]
 *
 * Rank 0 writes the marks of Matchbox 7.8.9 (src/transport/version.h) into the heads of its
 * segments, reports that through the FIFO, and waits there until rank 1 has ended.  Rank 1
 * sends to it, which gives MPI_ERR_OTHER; with --fatal errors end the job.  No rank finalizes.
 */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT 65536 /* heads of segments begin at multiples of this */

/* Changes the marks of all heads in this file.  Returns their number. */
static int mark_file(int fd)
{
    static const unsigned char mark[8] = {99, 99, 7, 8, 9};
    struct stat status;
    char magic[8];
    int found = 0;

    CHECK_EQUAL(fstat(fd, &status), 0);
    for (off_t at = 0; at < status.st_size; at += UNIT)
        if (pread(fd, magic, sizeof magic, at) == sizeof magic &&
            memcmp(magic, "mtchbox:", sizeof magic) == 0)
            found += pwrite(fd, mark, sizeof mark, at + (off_t)sizeof magic) == sizeof mark;
    return found;
}

static int mark_all(void)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = 0;

    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        char path[280], target[64] = "";

        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 &&
            strncmp(target, "/memfd:matchbox ", strlen("/memfd:matchbox ")) == 0)
            found += mark_file(atoi(entry->d_name));
    }
    closedir(folder);
    return found;
}

int main(int argc, char **argv)
{
    int is_fatal = argc > 2 && strcmp(argv[2], "--fatal") == 0, value = 1, class;
    char byte = 1;

    start(&argc, &argv);
    CHECK(argc > 1);
    if (rank == 0) {
        int fifo;

        CHECK(mark_all() > 0);
        fifo = open(argv[1], O_WRONLY); /* waits until rank 1 opens it */
        CHECK_EQUAL(write(fifo, &byte, 1), 1);
        close(fifo);
        fifo = open(argv[1], O_RDONLY);
        CHECK_EQUAL(read(fifo, &byte, 1), 1);
    } else if (rank == 1) {
        int fifo = open(argv[1], O_RDONLY);

        CHECK_EQUAL(read(fifo, &byte, 1), 1);
        close(fifo);
        if (!is_fatal)
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Error_class(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD), &class);
        CHECK_EQUAL(class, MPI_ERR_OTHER);
        printf("ok other_version\n");
        fflush(stdout);
        fifo = open(argv[1], O_WRONLY);
        CHECK_EQUAL(write(fifo, &byte, 1), 1);
    }
    _exit(0);
}
