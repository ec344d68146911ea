/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * say.c - what the door says of itself, and the statuses of the library's errors.
 */
#include "ucp/door.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define FUNCTIONS_MAX 64

/* MPI_MAX_LIBRARY_VERSION_STRING of MPICH; Open MPI's is shorter. */
#define VERSION_MAX 8192

static const char way[] = "ucp ";

/* Is it the first time for this function?  Each has its own name in memory. */
static bool is_news(const char *function)
{
    static const char *_Atomic known[FUNCTIONS_MAX];

    for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
        const char *none = NULL;

        if (atomic_compare_exchange_strong(&known[i], &none, function))
            return true;
        if (none == function)
            return false;
    }
    return false;
}

ucs_status_t ucpx_unsupported(const char *function)
{
    if (is_news(function))
        LOG_ERROR("libucp: %s is not supported (UCS_ERR_UNSUPPORTED); run without `mbx exec`",
                  function);
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t ucpx_status(int error)
{
    switch (-error) {
    case 0:
        return UCS_OK;
    case EMSGSIZE:
        return UCS_ERR_MESSAGE_TRUNCATED;
    case ECANCELED:
        return UCS_ERR_CANCELED;
    case ENOMEM:
        return UCS_ERR_NO_MEMORY;
    case EINVAL:
        return UCS_ERR_INVALID_PARAM;
    case ENOTCONN:
        return UCS_ERR_CONNECTION_RESET;
    case EAGAIN: /* it must not wait, and cannot be done now */
        return UCS_ERR_NO_RESOURCE;
    case EACCES: /* an access: no such key, or not this right */
        return UCS_ERR_REJECTED;
    case ERANGE: /* an access beyond the region */
        return UCS_ERR_OUT_OF_RANGE;
    case EHOSTUNREACH:
    case EPROTONOSUPPORT:
        return UCS_ERR_UNREACHABLE;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

/* Every MPI has MPI_Get_library_version(), which may be called at any time. */
void ucpx_name_program(struct ucp_worker *worker)
{
    void *found = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    int (*ask)(char *, int *);
    char text[sizeof way + VERSION_MAX];
    int length = 0;

    if (found == NULL || worker->is_named)
        return;
    worker->is_named = true;
    memcpy(&ask, &found, sizeof ask);
    memcpy(text, way, sizeof way);
    if (ask(text + strlen(way), &length) != 0)
        return;
    text[sizeof text - 1] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)mbx_name_program(worker->mbx, text);
}
