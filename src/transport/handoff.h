/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handoff.h - optional operations of a transport: hand the receiving half of an endpoint to a
 * thread or another process, which runs it through a second transport object with the same
 * address.
 *
 *   owner                                        receiver
 *   hand_over(t, &handle)           handle --->  take_over(config, &handle, &other)
 *   t: send, read, wait                          other: deliver, accept; send and read too
 *   wake_other(t)                          --->  wait(other) returns
 *   wait(t) returns                        <---  wake_other(other)
 *   take_back(t)                                 close(other), or death
 *   t: does everything again
 *
 * A transport that cannot do this has no table.  A transport that wraps another may have a
 * table without take_over(): the wrapped one can be handed over and taken back, but not taken
 * over.
 */
#ifndef TRANSPORT_HANDOFF_H
#define TRANSPORT_HANDOFF_H

#include <errno.h>

#include "transport/transport.h"

/* The argument of take_over(): bytes that may be passed to another process of this machine. */
struct transport_handle {
    struct transport_address address; /* the endpoint's */
};

struct transport_handoff {
    /* Stops receiving, so that another transport object can: from now on poll() delivers
     * nothing, and arriving packets wait for take_over().  Everything else goes on as before:
     * address, links, send(), read(), expose(), and wait() for space.  Sets *handle.  No other
     * thread may be in wait() of t.
     * 0          *handle is set
     * -EALREADY  it is handed over already
     * -ENOTSUP   this transport cannot */
    int (*hand_over)(struct transport *t, struct transport_handle *handle);

    /* Receives instead of an endpoint that is handed over, of this or another process; config
     * is as at open, with the endpoint's key (settings of how to make the endpoint are
     * ignored).  *out is a separate transport object with the endpoint's address:
     *
     * poll()    delivers arriving packets, from exactly where t stopped; each peer is presented
     *           to accept() once more, unless connect() has named it
     * wait()    sleeps until there is something to poll, space, or a wake_other()
     * connect() and send()  through links of its own.  At the receiver both halves are the
     *           same peer; what one of them sends is in order, but not what both do
     * read()    as t's, also of t's own memory
     * expose()  -ENOTSUP: its memory is not the memory at the address
     * close()   must come before take_back(), and before t is closed; unless its process dies.
     *           It ends with a wake_other()
     *
     * 0          *out is set
     * -EINVAL    no handle of this transport
     * -EHOSTUNREACH  the endpoint is on another machine
     * -ENOENT    there is no such endpoint (any more)
     * -EACCES    another user, or another key
     * -EBUSY     it is not handed over, or was taken over already
     * -ENOTSUP   this transport cannot
     * -ENOMEM, and errors of the system */
    int (*take_over)(const struct transport_config *config,
                     const struct transport_handle *handle, struct transport **out);

    /* Receives again after the other object, which has closed or died at any instruction (or at
     * once, if there was no take_over()).  For each link:
     *
     * - A packet that the other object has delivered (its deliver() returned 0) and released is
     *   not delivered again.  All others are delivered, in order, by t.
     * - So the packet that the other object had begun to deliver and not yet released when it
     *   died is repeated, whatever its deliver() had done: at most one packet of the whole
     *   endpoint for each death, since poll() delivers one at a time.  repeats() is
     *   called before each offer of it.  A close() causes none.
     * - Packets that the other object has sent arrive; its links end.  Senders to t notice
     *   nothing, except that a sender that slept for space may be woken 100 ms late.
     *
     * No other thread may be in wait() of t.
     *
     * 0          t receives; it may be handed over again
     * -EINVAL    it is not handed over
     * -EBUSY     the other object has neither closed nor died
     * -ENOTSUP   this transport cannot */
    int (*take_back)(struct transport *t);

    /* Makes wait() of the other half return: of the object that has taken over, if t is handed
     * over, or of the endpoint, if t has taken over.  If the other half is not in wait() now,
     * its next wait() without a poll() before it returns at once.  Otherwise does nothing. */
    void (*wake_other)(struct transport *t);
};

/* Can another object take over? */
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
