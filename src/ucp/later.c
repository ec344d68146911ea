/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * later.c - functions that only headers of libucp newer than 1.13 declare; none is offered.
 *
 * This file includes no header of UCX, so that it is the same with all of them: pointers are pointers, and a status is a
 * signed byte.
 */
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

/* say.c; it returns UCS_ERR_UNSUPPORTED */
int8_t ucpx_unsupported(const char *function);

API int8_t ucp_memh_pack(void *memh, const void *params, void **buffer_p,
                         size_t *buffer_size_p);
API void ucp_memh_buffer_release(void *buffer, const void *params);
API int8_t ucp_rkey_compare(void *worker, void *rkey1, void *rkey2, const void *params,
                            int *result);
API int8_t ucp_dt_query(uint64_t datatype, void *attr);

int8_t ucp_memh_pack(void *memh, const void *params, void **buffer_p, size_t *buffer_size_p)
{
    (void)memh;
    (void)params;
    (void)buffer_p;
    (void)buffer_size_p;
    return ucpx_unsupported(__func__);
}

void ucp_memh_buffer_release(void *buffer, const void *params)
{
    (void)buffer;
    (void)params;
    (void)ucpx_unsupported(__func__);
}

int8_t ucp_rkey_compare(void *worker, void *rkey1, void *rkey2, const void *params, int *result)
{
    (void)worker;
    (void)rkey1;
    (void)rkey2;
    (void)params;
    (void)result;
    return ucpx_unsupported(__func__);
}

int8_t ucp_dt_query(uint64_t datatype, void *attr)
{
    (void)datatype;
    (void)attr;
    return ucpx_unsupported(__func__);
}
