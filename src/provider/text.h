/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - addresses as text, and in the format that the client has chosen: text.c.
 */
#ifndef PROVIDER_TEXT_H
#define PROVIDER_TEXT_H

#include "provider/compat.h"

/* Enough for any address, its end included. */
#define PROV_TEXT_SIZE (14 + 2 * MBX_ADDRESS_SIZE + 1)

/* Does this begin as the text of an address does? */
bool prov_is_text(const char *text);
/* The text of any 64 bytes. */
void prov_text_make(const struct mbx_address *address, char text[PROV_TEXT_SIZE]);
/* The way back.  0; -FI_EINVAL: no such text. */
int prov_text_parse(const char *text, struct mbx_address *address);

/* Bytes of address in a format, PROV_ADDR_FORMAT or FI_ADDR_STR. */
size_t prov_address_size(uint32_t format, const struct mbx_address *address);
/* Writes it to out, at most capacity bytes; *size becomes what it takes.
 * 0; -FI_ETOOSMALL: cut. */
int prov_address_put(uint32_t format, const struct mbx_address *address, void *out,
                     size_t capacity, size_t *size);
/* Reads it from in, which has as many bytes as the format says.  0; -FI_EINVAL. */
int prov_address_take(uint32_t format, const void *in, struct mbx_address *address);

#endif
