/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text.c - addresses as text, and in the format that the client has chosen.
 *
 *   fi_matchbox://service/7471     a name (name.c)
 *   fi_matchbox://8a01...c3        the bytes of an address, two hexadecimal digits each, without
 *                                  the zeros at the end
 *   fi_matchbox://                 no address: for an endpoint which is not open yet
 *
 * fi_av_straddr() gives such a text, and fi_getinfo() and fi_av_insertsvc() take it as a
 * node.  With FI_ADDR_STR, which a client has to request in its hints, fi_getname(),
 * fi_av_insert() and fi_av_lookup() use it too; an array to insert has one text after the other,
 * each with its terminating zero.  Without FI_ADDR_STR an address is 64 opaque bytes: Open MPI has
 * no more space.
 */
#include "provider/fabric.h"
#include "provider/name.h"
#include "provider/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SCHEME       "fi_" PROV_NAME "://"
#define SERVICE      "service/"
#define SERVICE_AT   8 /* offset of the service in a name */
#define SERVICE_SIZE 24

static_assert(sizeof SCHEME + 2 * MBX_ADDRESS_SIZE <= PROV_TEXT_SIZE,
              "space for every address");
static_assert(sizeof SCHEME + sizeof SERVICE + SERVICE_SIZE <= PROV_TEXT_SIZE, "and name");

bool prov_is_text(const char *text)
{
    return strncmp(text, SCHEME, strlen(SCHEME)) == 0;
}

static size_t used_bytes(const struct mbx_address *address)
{
    size_t used = MBX_ADDRESS_SIZE;

    while (used > 0 && address->bytes[used - 1] == 0)
        used--;
    return used;
}

void prov_text_make(const struct mbx_address *address, char text[PROV_TEXT_SIZE])
{
    size_t used = used_bytes(address);
    char *at = text + sprintf(text, SCHEME);

    if (prov_is_name(address)) {
        sprintf(at, SERVICE "%.*s", SERVICE_SIZE, (const char *)&address->bytes[SERVICE_AT]);
        return;
    }
    for (size_t i = 0; i < used; i++)
        at += sprintf(at, "%02x", address->bytes[i]);
}

static int digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));

    return found == NULL ? -1 : (int)(found - digits);
}

static int bytes_parse(const char *text, struct mbx_address *address)
{
    size_t length = strlen(text);

    if (length % 2 != 0 || length > sizeof address->bytes * 2)
        return -FI_EINVAL;
    memset(address, 0, sizeof *address);
    for (size_t i = 0; i < length / 2; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -FI_EINVAL;
        address->bytes[i] = (uint8_t)(high * 16 + low);
    }
    return 0;
}

int prov_text_parse(const char *text, struct mbx_address *address)
{
    if (!prov_is_text(text))
        return -FI_EINVAL;
    text += strlen(SCHEME);
    if (strncmp(text, SERVICE, strlen(SERVICE)) == 0)
        return prov_name_of_service(text + strlen(SERVICE), address);
    return bytes_parse(text, address);
}

size_t prov_address_size(uint32_t format, const struct mbx_address *address)
{
    char text[PROV_TEXT_SIZE];

    if (format != FI_ADDR_STR)
        return sizeof *address;
    prov_text_make(address, text);
    return strlen(text) + 1;
}

int prov_address_put(uint32_t format, const struct mbx_address *address, void *out,
                     size_t capacity, size_t *size)
{
    char text[PROV_TEXT_SIZE];
    const void *from = address;

    *size = sizeof *address;
    if (format == FI_ADDR_STR) {
        prov_text_make(address, text);
        *size = strlen(text) + 1;
        from = text;
    }
    if (out != NULL)
        memcpy(out, from, capacity < *size ? capacity : *size);
    return capacity < *size ? -FI_ETOOSMALL : 0;
}

int prov_address_take(uint32_t format, const void *in, struct mbx_address *address)
{
    if (format == FI_ADDR_STR)
        return prov_text_parse(in, address);
    memcpy(address, in, sizeof *address);
    return 0;
}
