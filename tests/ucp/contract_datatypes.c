/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_datatypes.c - vectors and generic datatypes, mapped memory: 3.12, 3.14.
 */
#include "contract.h"

static unsigned char bytes[LONG_SIZE], in[LONG_SIZE];

/* ---- vectors ---- */

static void vectors(size_t size)
{
    ucp_dt_iov_t out[3] = {
        {bytes, size / 3}, {bytes + size / 3, 0}, {bytes + size / 3, size - size / 3}};
    ucp_dt_iov_t into[2] = {{in, size / 2}, {in + size / 2, size - size / 2}};
    ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_DATATYPE),
                        recv = with_recv(UCP_OP_ATTR_FIELD_DATATYPE);
    void *send, *request;

    param.datatype = recv.datatype = ucp_dt_make_iov();
    memset(in, 0, size);
    forget();
    request = ucp_tag_recv_nbx(there, into, 2, 30, ALL, &recv);
    send = ucp_tag_send_nbx(to, out, 3, 30, &param);
    until_called(&received, 1);
    CHECK("3.14 a vector is sent and received",
          received.status == UCS_OK && received.info.length == size && is_filled(in, size, 2));
    until_complete(send);
    if (UCS_PTR_IS_PTR(send))
        ucp_request_free(send);
    ucp_request_free(request);
}

/* ---- a generic datatype: each second byte ---- */

static struct state {
    unsigned char *at;
    size_t size, next;
    bool in_order;
} states[2];

static unsigned started, finished;

static void *start(void *context_of, unsigned char *at, size_t count)
{
    struct state *state = &states[started++ % 2];

    *state = (struct state){at, count, 0, context_of == &started};
    return state;
}

static void *start_pack(void *context_of, const void *buffer, size_t count)
{
    return start(context_of, (unsigned char *)(uintptr_t)buffer, count);
}

static void *start_unpack(void *context_of, void *buffer, size_t count)
{
    return start(context_of, buffer, count);
}

static size_t packed_size(void *state)
{
    return ((struct state *)state)->size;
}

static size_t pack(void *arg, size_t offset, void *dest, size_t max_length)
{
    struct state *state = arg;
    size_t size = state->size - offset < max_length ? state->size - offset : max_length;

    for (size_t i = 0; i < size; i++)
        ((unsigned char *)dest)[i] = state->at[2 * (offset + i)];
    state->in_order = state->in_order && offset == state->next;
    state->next = offset + size;
    return size;
}

static ucs_status_t unpack(void *arg, size_t offset, const void *src, size_t length)
{
    struct state *state = arg;

    for (size_t i = 0; i < length; i++)
        state->at[2 * (offset + i)] = ((const unsigned char *)src)[i];
    state->next += length;
    return UCS_OK;
}

static void finish(void *state)
{
    (void)state;
    finished++;
}

static bool are_finished(void *arg)
{
    (void)arg;
    return started == finished;
}

static bool is_each_second(size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (in[2 * i] != bytes[2 * i] || in[2 * i + 1] != 0)
            return false;
    return true;
}

static void generic(size_t count)
{
    const ucp_generic_dt_ops_t ops = {start_pack, start_unpack, packed_size,
                                      pack,       unpack,       finish};
    ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_DATATYPE),
                        recv = with_recv(UCP_OP_ATTR_FIELD_DATATYPE);
    ucp_datatype_t datatype;
    void *send, *request;

    CHECK("3.14 a generic datatype is made",
          ucp_dt_create_generic(&ops, &started, &datatype) == UCS_OK);
    param.datatype = recv.datatype = datatype;
    memset(in, 0, sizeof in);
    forget();
    started = finished = 0;
    request = ucp_tag_recv_nbx(there, in, count, 31, ALL, &recv);
    CHECK("3.14 unpacking starts within the call", started == 1);
    send = ucp_tag_send_nbx(to, bytes, count, 31, &param);
    CHECK("3.14 so does packing", started == 2);
    until_called(&received, 1);
    CHECK("3.14 each byte is packed and unpacked",
          received.status == UCS_OK && received.info.length == count && is_each_second(count));
    until_complete(send);
    if (UCS_PTR_IS_PTR(send))
        ucp_request_free(send);
    ucp_request_free(request);
    until("finish is called", are_finished, NULL);
    CHECK("3.14 finish is called once for each",
          finished == 2 && states[0].next == count && states[1].next == count);
    ucp_dt_destroy(datatype);
}

void datatypes_contract(void)
{
    fill(bytes, LONG_SIZE, 2);
    vectors(60);
    vectors(7000);
    vectors(LONG_SIZE);
    generic(20);
    generic(4000);
    generic(LONG_SIZE / 2);
}

/* ---- 3.12 ---- */

void regions_contract(void)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = 100000,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask =
                               UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
    ucp_mem_h memory;
    size_t size;
    void *key;

    CHECK("3.12 memory is allocated", ucp_mem_map(context, &params, &memory) == UCS_OK);
    CHECK("3.12 and can be found", ucp_mem_query(memory, &attr) == UCS_OK &&
                                       attr.address != NULL && attr.length >= 100000);
    memset(attr.address, 1, 100000);
    CHECK("3.12 it has a key",
          ucp_rkey_pack(context, memory, &key, &size) == UCS_OK && size > 0);
    ucp_rkey_buffer_release(key);
    CHECK("3.12 and is given back", ucp_mem_unmap(context, memory) == UCS_OK);
    params = (ucp_mem_map_params_t){.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                  UCP_MEM_MAP_PARAM_FIELD_ADDRESS,
                                    .length = sizeof in,
                                    .address = in};
    CHECK("3.12 memory of the client is mapped",
          ucp_mem_map(context, &params, &memory) == UCS_OK);
    CHECK("3.12 where it is",
          ucp_mem_query(memory, &attr) == UCS_OK && (unsigned char *)attr.address <= in);
    ucp_mem_unmap(context, memory);
    params.address = NULL;
    CHECK("3.12 but not memory that is nowhere",
          ucp_mem_map(context, &params, &memory) == UCS_ERR_INVALID_PARAM);
}
