/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.h - two endpoints that meet: handshake.c.
 */
#ifndef OFI_HANDSHAKE_H
#define OFI_HANDSHAKE_H

#include "transport/ofi/packet.h"

#define OFI_UNAUTHENTICATED_MAX                                                                \
    64 /* callers that have said HELLO, and not authenticated themselves */

struct ofi;
struct ofi_link;

struct ofi_link_handshake {
    struct ofi_name theirs; /* what we call the peer; id 0: it has not said */
    struct ofi_place words; /* the peer's: cswap.c */
    uint64_t since_ns;      /* when it began */
    uint64_t said_ns;       /* when its last packet was sent, or sent again */
    bool has_warned;        /* CALLING: the user knows that nobody answers */
    bool has_called;        /* OPEN: by our call, so that AUTH was ours */
    uint8_t breaks;         /* connections that ended in it */
};

/* Calls the peer of a NEW link. */
void ofi_handshake_call(struct ofi_link *link);

/* What the packets of a handshake say behind their prefix: ofi_upcalls.fill. */
void ofi_handshake_fill_hello(struct ofi_link *link, unsigned char *body);
void ofi_handshake_fill_welcome(struct ofi_link *link, unsigned char *body);
void ofi_handshake_fill_auth(struct ofi_link *link, unsigned char *body);

/* Packets that have arrived: ofi_upcalls.on_packet.  HELLO is of no link. */
void ofi_handshake_on_hello(struct ofi *ofi, struct ofi_link *none, const void *hello);
void ofi_handshake_on_welcome(struct ofi *ofi, struct ofi_link *link, const void *welcome);
void ofi_handshake_on_auth(struct ofi *ofi, struct ofi_link *link, const void *auth);
void ofi_handshake_on_refused(struct ofi *ofi, struct ofi_link *link, const void *none);
void ofi_handshake_on_ping(struct ofi *ofi, struct ofi_link *link, const void *none);

/* A packet of a handshake, or one on a link that is not open, could not be sent. */
void ofi_handshake_failed(struct ofi_link *link, enum ofi_kind kind, int error);

/* Somebody waits for the peer of a link that is CALLING or ANSWERING. */
void ofi_handshake_tend_calling(struct ofi_link *link, uint64_t now);
void ofi_handshake_tend_answering(struct ofi_link *link, uint64_t now);

#endif
