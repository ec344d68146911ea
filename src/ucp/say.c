/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * say.c - what the door says of itself, and the statuses of the library's errors.
 */
#include "ucp/door.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "door/program.h"

#define FUNCTIONS_MAX 64

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

const char *ucpx_peer_text(const struct ucp_worker *worker, uint32_t number,
                           char text[UCPX_PEER_TEXT])
{
    const struct ucpx_peer *peer = number < worker->peers_known ? &worker->peers[number] : NULL;
    bool is_placed = peer != NULL && peer->who.process != 0;
    int length;

    if (peer != NULL && peer->rank != UCPX_NO_RANK)
        length = snprintf(text, UCPX_PEER_TEXT, "rank %u", peer->rank);
    else
        length = snprintf(text, UCPX_PEER_TEXT, "peer %u", number);
    if (is_placed)
        snprintf(text + length, UCPX_PEER_TEXT - (size_t)length, " (process %u on %s)",
                 peer->who.process, peer->who.host);
    return text;
}

void ucpx_name_program(struct ucp_worker *worker)
{
    if (!worker->is_named)
        worker->is_named = door_name_program(worker->mbx, "ucp");
}
