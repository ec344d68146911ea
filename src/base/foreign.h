/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foreign.h - opens a file whose name comes from somebody else: a descriptor of another process, a name in a folder
 * that others write into, a name within a file.
 *
 * Such a name may lead to anything.  Opening a device may have side effects, opening a pipe or
 * a file with a lease waits for its owner, and the text of a link below /proc/PID/fd is chosen
 * by the owner of that process.  So the file is first found without being opened (O_PATH),
 * checked, and opened only if it is the expected one; nothing here waits.
 */
#ifndef BASE_FOREIGN_H
#define BASE_FOREIGN_H

#include <stdint.h>

enum foreign_kind {
    FOREIGN_FILE,   /* a regular file */
    FOREIGN_SINGLE, /* a regular file without a second name, through which it could be another
                       user's or a link be followed */
    FOREIGN_MEMORY  /* a memory file (memfd_create) named `memory` */
};

#define FOREIGN_ANYBODY UINT32_MAX

struct foreign {
    enum foreign_kind kind;
    const char *memory;
    uint32_t user; /* the owner; FOREIGN_ANYBODY: any */
};

/* A descriptor; a negative errno, among them -EPERM another user's, -EINVAL not of this kind (a
 * folder: -EISDIR), -EAGAIN it has a lease.  flags are O_RDONLY or O_RDWR.  The descriptor is
 * closed with sys_close(). */
int foreign_open(const char *path, int flags, const struct foreign *wanted);

/* The user who owns process pid; FOREIGN_ANYBODY: it is gone, or has the rights of several
 * users. */
uint32_t foreign_user(uint32_t pid);

#endif
