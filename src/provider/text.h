/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.h - addresses as text, and in the format that the client has chosen: text.c.
 */
#ifndef PROVIDER_TEXT_H
#define PROVIDER_TEXT_H

#include "provider/compat.h"

/* Enough for any address and the terminating zero. */
#define PROV_TEXT_SIZE (14 + 2 * MBX_ADDRESS_SIZE + 1)

/* Does this begin like the text of an address? */
bool prov_is_text(const char *text);
/* Makes the text of any 64 bytes. */
void prov_text_make(const struct mbx_address *address, char text[PROV_TEXT_SIZE]);
/* Reads the text of an address. 0; -FI_EINVAL if it is none. */
int prov_text_parse(const char *text, struct mbx_address *address);

/* Size of an address in a format, PROV_ADDR_FORMAT or FI_ADDR_STR. */
size_t prov_address_size(uint32_t format, const struct mbx_address *address);
/* Writes an address to out, at most capacity bytes; *size becomes its full size. 0;
 * -FI_ETOOSMALL if it was truncated. */
int prov_address_put(uint32_t format, const struct mbx_address *address, void *out,
                     size_t capacity, size_t *size);
/* Reads an address from in, which has as many bytes as the format says. 0; -FI_EINVAL. */
int prov_address_take(uint32_t format, const void *in, struct mbx_address *address);

#endif
