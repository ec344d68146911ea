/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * later.c - functions that only headers of libucp newer than 1.13 declare.
 *
 * This file includes no header of UCX, so that it is the same with all of them: pointers are pointers, and a status is a
 * signed byte.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "ucp/region.h"

/* ucs_status_t */
#define OK            0
#define NO_MEMORY     (-4)
#define INVALID_PARAM (-5)

/* ucp_memh_pack_params_t: its only field, and its only flag, which wants a handle for another process */
#define FIELD_FLAGS UINT64_C(1)
#define FLAG_EXPORT UINT64_C(1)

struct pack_params {
    uint64_t field_mask, flags;
};

#define API __attribute__((visibility("default")))

/* say.c; it returns UCS_ERR_UNSUPPORTED */
int8_t ucpx_unsupported(const char *function);

API int8_t ucp_memh_pack(struct ucp_mem *memh, const struct pack_params *params,
                         void **buffer_p, size_t *buffer_size_p);
API void ucp_memh_buffer_release(void *buffer, const void *params);
API int8_t ucp_rkey_compare(void *worker, struct ucp_rkey *rkey1, struct ucp_rkey *rkey2,
                            const uint64_t *params, int *result);
API int8_t ucp_dt_query(uint64_t datatype, void *attr);

/* As ucp_rkey_pack(). */
int8_t ucp_memh_pack(struct ucp_mem *memh, const struct pack_params *params, void **buffer_p,
                     size_t *buffer_size_p)
{
    void *bytes;

    if (params->field_mask & FIELD_FLAGS && params->flags & FLAG_EXPORT)
        return ucpx_unsupported("ucp_memh_pack for another process");
    bytes = ucpx_key_pack(memh, buffer_size_p);
    if (bytes == NULL)
        return NO_MEMORY;
    *buffer_p = bytes;
    return OK;
}

void ucp_memh_buffer_release(void *buffer, const void *params)
{
    (void)params;
    mem_free(buffer);
}

/* The params are a mask of fields, of which there are none. */
int8_t ucp_rkey_compare(void *worker, struct ucp_rkey *rkey1, struct ucp_rkey *rkey2,
                        const uint64_t *params, int *result)
{
    (void)worker;
    if (*params != 0 || result == NULL)
        return INVALID_PARAM;
    *result = ucpx_keys_compare(rkey1, rkey2);
    return OK;
}

int8_t ucp_dt_query(uint64_t datatype, void *attr)
{
    (void)datatype;
    (void)attr;
    return ucpx_unsupported(__func__);
}
