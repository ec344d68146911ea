/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * foreign.h - opens a file whose name comes from somebody else: a descriptor of another process, a name in a folder
 * that others write into, a name within a file.
 *
 * Such a name may lead to anything.  To open a device may do something, to open a pipe or a file with a lease waits for
 * whoever made it, and the text of a link below /proc/PID/fd is what the owner of that process likes.  So the file is found
 * first without being opened (O_PATH), looked at, and opened only if it is what was expected; nothing in here waits.
 */
#ifndef BASE_FOREIGN_H
#define BASE_FOREIGN_H

#include <stdint.h>

enum foreign_kind {
    FOREIGN_FILE, /* a regular file */
    FOREIGN_SINGLE, /* a regular file that has no second name, under which it is another's or a link is followed */
    FOREIGN_MEMORY /* a memory file (memfd_create) of the name `memory` */
};

#define FOREIGN_ANYBODY UINT32_MAX

struct foreign {
    enum foreign_kind kind;
    const char *memory;
    uint32_t user; /* who owns it; FOREIGN_ANYBODY: that does not matter */
};

/* A descriptor; a negative errno, among them -EPERM it is another user's, -EINVAL it is not of this kind (a folder: -EISDIR), -EAGAIN it has a
 * lease.  flags are O_RDONLY or O_RDWR.  The descriptor is closed with sys_close(). */
int foreign_open(const char *path, int flags, const struct foreign *wanted);

/* Who owns process pid; FOREIGN_ANYBODY: it is gone, or has the rights of several users. */
uint32_t foreign_user(uint32_t pid);

#endif
