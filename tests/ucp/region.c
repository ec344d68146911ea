/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - see region.h.
 */
#include "tests/ucp/region.h"

#include <string.h>

struct guarded memory;
unsigned char data[MEMORY_SIZE + 64], key_bytes[KEY_SIZE];
ucp_mem_h mapped;
ucp_rkey_h key;

ucp_mem_h map(void *bytes, size_t size, unsigned prot)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      (prot != ANY_PROT ? UCP_MEM_MAP_PARAM_FIELD_PROT : 0u),
        .address = bytes,
        .length = size,
        .prot = prot};
    ucp_mem_h mem;

    assert_int_equal(ucp_mem_map(context, &params, &mem), UCS_OK);
    return mem;
}

void pack_key(ucp_mem_h mem, unsigned char bytes[KEY_SIZE])
{
    size_t size;
    void *packed;

    assert_int_equal(ucp_rkey_pack(context, mem, &packed, &size), UCS_OK);
    assert_int_equal(size, KEY_SIZE);
    memcpy(bytes, packed, KEY_SIZE);
    ucp_rkey_buffer_release(packed);
}

ucp_rkey_h key_of(const unsigned char bytes[KEY_SIZE])
{
    ucp_rkey_h unpacked;

    assert_int_equal(ucp_ep_rkey_unpack(to, bytes, &unpacked), UCS_OK);
    return unpacked;
}

ucp_rkey_h forged(size_t offset, uint64_t value)
{
    unsigned char bytes[KEY_SIZE];

    memcpy(bytes, key_bytes, KEY_SIZE);
    if (offset == AT_RIGHTS)
        bytes[offset] = (unsigned char)value;
    else
        memcpy(bytes + offset, &value, sizeof value);
    return key_of(bytes);
}

uint64_t where(const void *bytes)
{
    return (uintptr_t)bytes;
}

void map_all(void)
{
    mapped = map(memory.bytes, MEMORY_SIZE, ANY_PROT);
    pack_key(mapped, key_bytes);
    key = key_of(key_bytes);
}

int open_memory(void **state)
{
    if (open_both(state) != 0)
        return -1;
    memset(&memory, 0x11, sizeof memory);
    memset(data, 0x22, sizeof data);
    map_all();
    return 0;
}

int close_memory(void **state)
{
    ucp_rkey_destroy(key);
    if (mapped != NULL)
        ucp_mem_unmap(context, mapped);
    return close_both(state);
}

bool is_all(const unsigned char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

ucs_status_t finish(void *request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (!UCS_PTR_IS_PTR(request))
        return status;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        turn();
    status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

ucs_status_t flush(void)
{
    return finish(ucp_ep_flush_nb(to, 0, NULL));
}

ucs_status_t flush_worker(void)
{
    return finish(ucp_worker_flush_nb(here, 0, NULL));
}
