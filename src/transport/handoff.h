/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff.h - what a transport may do besides packets: hand the receiving half of an endpoint
 * to somebody else, a thread or another process, which runs it through a second transport
 * object of the same address.
 *
 *   owner                                        receiver
 *   hand_over(t, &handle)           handle --->  take_over(config, &handle, &other)
 *   t: send, read, wait                          other: deliver, accept; send and read too
 *   wake_other(t)                          --->  wait(other) returns
 *   wait(t) returns                        <---  wake_other(other)
 *   take_back(t)                                 close(other), or death
 *   t: all of it again
 *
 * A transport that cannot do this has no table.  One around another transport may have a table
 * without take_over(): the other one is handed over and taken back, and nobody takes over.
 */
#ifndef TRANSPORT_HANDOFF_H
#define TRANSPORT_HANDOFF_H

#include <errno.h>

#include "transport/transport.h"

/* What take_over() must know; bytes that may be passed to another process of this machine. */
struct transport_handle {
    struct transport_address address; /* the endpoint's */
};

struct transport_handoff {
    /* Stops receiving, so that somebody else can: from now on poll() delivers nothing, and
     * what arrives waits for whoever takes over.  All else goes on as before: address, links,
     * send(), read(), expose(), and wait() for space.  Sets *handle.  No other thread may be
     * in wait() of t.
     * 0          *handle is set
     * -EALREADY  it is handed over
     * -ENOTSUP   this transport cannot */
    int (*hand_over)(struct transport *t, struct transport_handle *handle);

    /* Receives in the place of an endpoint that is handed over, of this or another process;
     * config as at open, with the endpoint's key (what says how the endpoint is made is not
     * looked at).  *out is a transport of its own with the endpoint's address:
     *
     * poll()    delivers what arrives, from exactly where t stopped; each peer is presented
     *           to accept() once more, unless connect() has named it
     * wait()    sleeps until there is something to poll, space, or a wake_other()
     * connect() and send()  through links of its own.  At the receiver both halves are the
     *           same peer; what one of them sends is in order, but not what both do
     * read()    as t's, also of t's own memory
     * expose()  -ENOTSUP: its memory is not that of the address
     * close()   before take_back(), and before t is closed; or its process dies.  It ends with
     *           a wake_other()
     *
     * 0          *out is set
     * -EINVAL    no handle of this transport
     * -EHOSTUNREACH  of another machine
     * -ENOENT    there is no such endpoint (any more)
     * -EACCES    of another user, or another key
     * -EBUSY     it is not handed over, or somebody else has taken over
     * -ENOTSUP   this transport cannot
     * -ENOMEM, and the system's */
    int (*take_over)(const struct transport_config *config,
                     const struct transport_handle *handle, struct transport **out);

    /* Receives again, behind the other one, who has closed or died, at any instruction
     * (or, if nobody ever took over, at once).  Per link:
     *
     * - A packet that the other one has delivered (its deliver() returned 0) and released is
     *   not delivered again.  All others are, in order, to t.
     * - So the packet that the other one had begun to deliver and not yet released when it
     *   died comes again, whatever its deliver() had done: at most one packet of the whole
     *   endpoint for each death, since poll() delivers one at a time.  repeats() announces
     *   it, to whoever is offered it.  A close() makes none.
     * - Packets that the other one has sent arrive; its links end.  Senders to t notice
     *   nothing, but that one who slept for space may be woken 100 ms late.
     *
     * No other thread may be in wait() of t.
     *
     * 0          it receives; it may be handed over again
     * -EINVAL    it is not handed over
     * -EBUSY     the other one has neither closed nor died
     * -ENOTSUP   this transport cannot */
    int (*take_back)(struct transport *t);

    /* Makes wait() of the other half return: of whoever has taken over, if t is handed over, or
     * of the endpoint, if t has taken over.  If the other half does not wait now, then its next
     * wait() that has no poll() in front returns at once.  Otherwise does nothing. */
    void (*wake_other)(struct transport *t);
};

/* Is there anybody who could take over? */
static inline bool transport_can_hand_over(const struct transport *t)
{
    return t->ops->handoff != NULL && t->ops->handoff->take_over != NULL;
}

static inline int transport_hand_over(struct transport *t, struct transport_handle *handle)
{
    return t->ops->handoff != NULL ? t->ops->handoff->hand_over(t, handle) : -ENOTSUP;
}

static inline int transport_take_over(const struct transport_ops *ops,
                                      const struct transport_config *config,
                                      const struct transport_handle *handle,
                                      struct transport **out)
{
    return ops->handoff != NULL && ops->handoff->take_over != NULL
               ? ops->handoff->take_over(config, handle, out)
               : -ENOTSUP;
}

static inline int transport_take_back(struct transport *t)
{
    return t->ops->handoff != NULL ? t->ops->handoff->take_back(t) : -ENOTSUP;
}

static inline void transport_wake_other(struct transport *t)
{
    if (t->ops->handoff != NULL)
        t->ops->handoff->wake_other(t);
}

#endif
