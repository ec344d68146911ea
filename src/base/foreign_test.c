/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign_test.c - a file other than the expected one is not opened, and nothing waits. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/foreign.h"
#include "base/sys.h"
#include "base/temporary.h"
#include "base/unit.h"

static const struct foreign any_file = {.kind = FOREIGN_FILE, .user = FOREIGN_ANYBODY};
static char folder[TEMPORARY_SIZE];

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Makes a file of this name, with one byte. */
static void make_file(const char *name)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
}

static int make_folder(UNUSED void **state)
{
    return mkdtemp(temporary_name(folder, "foreign")) != NULL ? 0 : -1;
}

static int remove_folder(UNUSED void **state)
{
    return rmdir(folder);
}

/* The result of foreign_open() for a path; a descriptor is read from and closed. */
static int try_path(const char *path, const struct foreign *wanted)
{
    int fd = foreign_open(path, O_RDONLY, wanted);
    char byte;

    if (fd < 0)
        return fd;
    assert_true(sys_read(fd, &byte, 1) >= 0);
    sys_close(fd);
    assert_int_equal(sys_fds_live(), 0);
    return 0;
}

static void a_file_is_opened(UNUSED void **state)
{
    const struct foreign own = {.kind = FOREIGN_FILE, .user = geteuid()},
                         others = {.kind = FOREIGN_FILE, .user = geteuid() + 1};

    make_file("file");
    assert_int_equal(try_path(path_of("file"), &any_file), 0);
    assert_int_equal(try_path(path_of("file"), &own), 0);
    assert_int_equal(try_path(path_of("file"), &others), -EPERM);
    assert_int_equal(try_path(path_of("none"), &any_file), -ENOENT);
    unlink(path_of("file"));
}

/* A pipe is not waited for, and a device is not opened. */
static void a_pipe_and_a_device_are_not(UNUSED void **state)
{
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(try_path(path_of("pipe"), &any_file), -EINVAL);
    unlink(path_of("pipe"));
    assert_int_equal(try_path("/dev/zero", &any_file), -EINVAL);
    assert_int_equal(try_path(folder, &any_file), -EISDIR);
}

static void a_lease_is_not_waited_for(UNUSED void **state)
{
    int fd;

    make_file("leased");
    fd = open(path_of("leased"), O_RDONLY | O_CLOEXEC);
    signal(SIGIO, SIG_IGN);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) { /* some file systems have no leases */
        const int opened = foreign_open(path_of("leased"), O_RDWR, &any_file);

        assert_int_equal(opened, -EAGAIN);
    }
    close(fd);
    unlink(path_of("leased"));
}

static void a_second_name_is_seen(UNUSED void **state)
{
    const struct foreign single = {.kind = FOREIGN_SINGLE, .user = geteuid()};
    char first[PATH_MAX], second[PATH_MAX];

    make_file("first");
    snprintf(first, sizeof first, "%s", path_of("first"));
    snprintf(second, sizeof second, "%s", path_of("second"));
    assert_int_equal(try_path(first, &single), 0);
    assert_int_equal(symlink(first, second), 0);
    assert_int_equal(try_path(second, &single), -EINVAL);
    unlink(second);
    assert_int_equal(link(first, second), 0);
    assert_int_equal(try_path(second, &single), -EINVAL);
    assert_int_equal(try_path(first, &any_file), 0);
    unlink(second);
    unlink(first);
}

/* The link of this descriptor below /proc/self/fd; the caller closes the descriptor. */
static const char *link_of(int fd)
{
    static char path[64];

    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static void a_memory_file_is_known_by_more_than_its_link(UNUSED void **state)
{
    const struct foreign wanted = {
        .kind = FOREIGN_MEMORY, .memory = "matchbox-inspect", .user = geteuid()};
    int memory = memfd_create("matchbox-inspect", MFD_CLOEXEC),
        longer = memfd_create("matchbox-seen", MFD_CLOEXEC), file;
    char text[PATH_MAX];

    assert_int_equal(try_path(link_of(memory), &wanted), 0);
    assert_int_equal(try_path(link_of(longer), &wanted), -EINVAL);
    close(memory);
    close(longer);
    /* a file on disk for which the link has the same text, if its folder is the root of the
     * file system */
    make_file("memfd:matchbox-inspect");
    file = open(path_of("memfd:matchbox-inspect"), O_RDONLY | O_CLOEXEC);
    unlink(path_of("memfd:matchbox-inspect"));
    assert_true(readlink(link_of(file), text, sizeof text) > 0);
    assert_int_equal(try_path(link_of(file), &wanted), -EINVAL);
    close(file);
}

static void the_user_of_a_process_is_known(UNUSED void **state)
{
    assert_int_equal(foreign_user((uint32_t)getpid()), getuid());
    assert_int_equal(foreign_user(1u << 30), FOREIGN_ANYBODY);
    assert_int_equal(sys_fds_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_opened),
        cmocka_unit_test(a_pipe_and_a_device_are_not),
        cmocka_unit_test(a_lease_is_not_waited_for),
        cmocka_unit_test(a_second_name_is_seen),
        cmocka_unit_test(a_memory_file_is_known_by_more_than_its_link),
        cmocka_unit_test(the_user_of_a_process_is_known),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
