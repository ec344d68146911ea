/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name.c - node and service: a name under which an endpoint can be found by a process that does
 * not have its address.
 *
 *   server   fi_getinfo(NULL, "7471", FI_SOURCE) -> src_addr is the name "7471"
 *            fi_endpoint(info)                    -> the name is published
 *   client   fi_getinfo("localhost", "7471")      -> dest_addr is the name "7471"
 *            fi_av_insert(dest_addr)              -> looks it up
 *
 *   offset size  layout of a name, which is as long as an address
 *      0     8   magic: no transport's addresses begin so
 *      8    24   the service, padded with zeros
 *     32    32   zeros
 *
 * Services are numbers as in TCP, or words of at most 23 letters, digits and "._-".  They
 * belong to a user of this machine: a published name is a file of ours in NAME_FOLDER that
 * holds the address, and is locked as long as the endpoint is open.  A file without a lock
 * was left by a process that died.  It is taken over, or removed by the next endpoint of the
 * same user, whatever its name.  The content of a file is trusted only if the file is ours, and
 * Matchbox checks the address as any other.
 *
 * The publisher of a name locks the whole file; a process that removes it locks its first byte,
 * for a moment.
 *
 * A node must be this machine: the files of another machine are not visible.
 */
#include "base/foreign.h"
#include "base/sys.h"
#include "provider/ep.h"
#include "provider/name.h"
#include "provider/text.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_FOLDER "/dev/shm"
#define NAME_PREFIX "matchbox-name-"
#define SERVICE_MAX 23

static const uint8_t magic[8] = {0xff, 'm', 'b', 'x', 'n', 'a', 'm', 'e'};

struct name {
    uint8_t magic[8];
    char service[SERVICE_MAX + 1];
    uint8_t zero[MBX_ADDRESS_SIZE - 8 - SERVICE_MAX - 1];
};

static_assert(sizeof(struct name) == MBX_ADDRESS_SIZE, "a name is as long as an address");

bool prov_is_name(const struct mbx_address *address)
{
    return memcmp(address->bytes, magic, sizeof magic) == 0;
}

/* ---- from text ------------------------------------------------------------------------- */

static bool service_is_valid(const char *service)
{
    size_t length = strlen(service);

    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)service[i]) && strchr("._-", service[i]) == NULL)
            return false;
    return length > 0 && length <= SERVICE_MAX;
}

/* Is this an address of this machine?  A socket can be bound to no other. */
static bool address_is_local(const struct addrinfo *found)
{
    int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is;

    if (fd < 0)
        return false;
    is = bind(fd, found->ai_addr, found->ai_addrlen) == 0;
    close(fd);
    return is;
}

static bool node_is_local(const char *node, bool is_numeric)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                                   .ai_flags = is_numeric ? AI_NUMERICHOST : 0};
    struct addrinfo *list;
    bool is = false;

    if (getaddrinfo(node, NULL, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *at = list; at != NULL && !is; at = at->ai_next)
        is = address_is_local(at);
    freeaddrinfo(list);
    return is;
}

int prov_name_make(const char *node, const char *service, uint64_t flags,
                   struct mbx_address *address)
{
    if (node != NULL && prov_is_text(node))
        return prov_text_parse(node, address);
    if (node != NULL && !node_is_local(node, flags & FI_NUMERICHOST))
        return -FI_ENODATA;
    return service == NULL ? -FI_EINVAL : prov_name_of_service(service, address);
}

int prov_name_of_service(const char *service, struct mbx_address *address)
{
    struct name name = {.service = ""};

    if (!service_is_valid(service))
        return -FI_EINVAL;
    memcpy(name.magic, magic, sizeof magic);
    snprintf(name.service, sizeof name.service, "%s", service);
    memcpy(address, &name, sizeof name);
    return 0;
}

/* Reads a name from an address, whose bytes are not trusted. */
static int prov_name_of(const struct mbx_address *address, struct name *name)
{
    memcpy(name, address, sizeof *name);
    if (name->service[SERVICE_MAX] != '\0' || !service_is_valid(name->service))
        return -FI_EINVAL;
    return 0;
}

/* ---- files ------------------------------------------------------------------------------- */

static void path_of(const struct name *name, char *path, size_t size)
{
    snprintf(path, size, NAME_FOLDER "/" NAME_PREFIX "%u-%s", (unsigned)geteuid(),
             name->service);
}

/* Opens the file of a name, if it is ours alone: through a second link, which another user may
 * have given to a file of ours, we would write into that file.  Returns a descriptor or a
 * negative errno. */
static int file_open(const char *path, int flags)
{
    const struct foreign wanted = {.kind = FOREIGN_SINGLE, .user = geteuid()};

    return foreign_open(path, flags, &wanted);
}

/* Does path still name the file of fd?  Its former owner may have removed it before we locked
 * it. */
static bool prov_name_is_there(int fd, const char *path)
{
    struct stat ours, theirs;

    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

/* Is the file locked by its publisher?  The first byte, which a remover locks, does not
 * count. */
static bool is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Locks the first size bytes; 0: all.  The lock belongs to the open file, not to the process:
 * the publisher of a name may look it up itself. */
static int file_lock(int fd, off_t size)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = size};

    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    if (errno != EAGAIN && errno != EACCES)
        return -errno;
    return is_locked(fd) ? -FI_EADDRINUSE : -FI_EAGAIN;
}

/* Returns a locked file, or an error.  Another process may be removing the present file. */
static int file_take(const char *path)
{
    for (;;) {
        int fd = file_open(path, O_RDWR), err;

        if (fd == -ENOENT) {
            fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
            if (fd < 0 && errno == EEXIST)
                continue; /* another process created it first */
            if (fd < 0)
                return -errno;
        }
        if (fd < 0)
            return -FI_EACCES;
        err = file_lock(fd, 0);
        if (err == 0 && prov_name_is_there(fd, path))
            return fd;
        close(fd);
        if (err == -FI_EAGAIN)
            sys_yield();
        else if (err < 0)
            return err;
    }
}

static void file_remove_if_dead(const char *path)
{
    int fd = file_open(path, O_RDWR);

    if (fd < 0)
        return;
    if (file_lock(fd, 1) == 0 && prov_name_is_there(fd, path))
        unlink(path);
    close(fd);
}

void prov_name_sweep(void)
{
    char prefix[sizeof NAME_PREFIX + 16], path[sizeof NAME_FOLDER + NAME_MAX + 1];
    DIR *folder = opendir(NAME_FOLDER);
    struct dirent *entry;

    if (folder == NULL)
        return;
    snprintf(prefix, sizeof prefix, NAME_PREFIX "%u-", (unsigned)geteuid());
    while ((entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof path, NAME_FOLDER "/%s", entry->d_name);
        file_remove_if_dead(path);
    }
    closedir(folder);
}

void prov_name_init(struct prov_ep *ep)
{
    ep->name.fd = -1;
}

int prov_name_publish(struct prov_ep *ep, const struct mbx_address *address)
{
    struct mbx_address real;
    struct name name;
    char path[128];
    int fd, err = prov_name_of(address, &name);

    if (err < 0)
        return err;
    path_of(&name, path, sizeof path);
    fd = file_take(path);
    if (fd < 0)
        return fd;
    mbx_address_get(ep->mbx, &real);
    if (pwrite(fd, &real, sizeof real, 0) != (ssize_t)sizeof real) {
        unlink(path);
        close(fd);
        return -FI_ENOSPC;
    }
    prov_name_withdraw(ep);
    ep->name.address = *address;
    ep->name.fd = fd;
    return 0;
}

void prov_name_withdraw(struct prov_ep *ep)
{
    struct name name;
    char path[128];

    if (ep->name.fd < 0)
        return;
    if (prov_name_of(&ep->name.address, &name) == 0) {
        path_of(&name, path, sizeof path);
        unlink(path); /* before the lock is released */
    }
    close(ep->name.fd);
    ep->name.fd = -1;
}

int prov_name_find(const struct mbx_address *address, struct mbx_address *real)
{
    struct mbx_address found;
    struct name name;
    char path[128];
    int fd, err = prov_name_of(address, &name);

    if (err < 0)
        return err;
    path_of(&name, path, sizeof path);
    fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return -FI_EADDRNOTAVAIL;
    if (!is_locked(fd) || pread(fd, &found, sizeof found, 0) != (ssize_t)sizeof found ||
        prov_is_name(&found))
        err = -FI_EADDRNOTAVAIL;
    else
        *real = found;
    close(fd);
    return err;
}
