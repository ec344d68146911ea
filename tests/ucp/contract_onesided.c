/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contract_onesided.c - keys, puts, gets, atomics, and what a flush promises of them: 3.16.
 *
 * UCX's shared memory accesses the memory at once; ours waits for progress of its owner.  So these checks ask only what both
 * promise, and the functions that wait access memory of their own worker.
 */
#include "contract.h"

static unsigned char source[LONG_SIZE], in[LONG_SIZE];
static unsigned char *memory; /* of LONG_SIZE, and some numbers after it */
static ucp_mem_h mapped;
static ucp_ep_h self;
static ucp_rkey_h key, own_key;

/* The numbers that atomics change. */
static uint64_t *number(unsigned i)
{
    return (uint64_t *)(void *)(memory + LONG_SIZE) + i;
}

static uint32_t *half(unsigned i)
{
    return (uint32_t *)(void *)number(i);
}

static uint64_t at(const void *where)
{
    return (uintptr_t)where;
}

static ucs_status_t complete(void *request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        until_complete(request);
        status = ucp_request_check_status(request);
        ucp_request_free(request);
    }
    return status;
}

static ucs_status_t flush(void)
{
    return complete(ucp_ep_flush_nb(to, 0, on_send_nb));
}

static ucs_status_t flush_worker(void)
{
    ucp_request_param_t param = with(0);

    return complete(ucp_worker_flush_nbx(here, &param));
}

static bool is_accepted(ucs_status_t status)
{
    return status == UCS_OK || status == UCS_INPROGRESS;
}

/* ---- keys ---- */

static void opened(void)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = LONG_SIZE + 4096,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    size_t size;
    void *bytes;

    CHECK("3.16 memory is mapped", ucp_mem_map(context, &params, &mapped) == UCS_OK &&
                                       ucp_mem_query(mapped, &attr) == UCS_OK);
    memory = attr.address;
    memset(memory, 0, params.length);
    CHECK("3.16 its key is packed", ucp_rkey_pack(context, mapped, &bytes, &size) == UCS_OK);
    CHECK("3.16 and unpacked", ucp_ep_rkey_unpack(to, bytes, &key) == UCS_OK);
    CHECK("3.16 an endpoint may lead to its own worker",
          connect_to(here, here, &self) == UCS_OK);
    CHECK("3.16 where the key is good, too",
          ucp_ep_rkey_unpack(self, bytes, &own_key) == UCS_OK);
    ucp_rkey_buffer_release(bytes);
}

static void empty_memory(void)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_ADDRESS,
                                   .length = 0,
                                   .address = NULL};
    ucp_mem_h none;
    ucp_rkey_h its;
    size_t size;
    void *bytes;

    CHECK("3.16 memory without bytes is mapped",
          ucp_mem_map(context, &params, &none) == UCS_OK);
    CHECK("3.16 and has a key", ucp_rkey_pack(context, none, &bytes, &size) == UCS_OK &&
                                    ucp_ep_rkey_unpack(to, bytes, &its) == UCS_OK);
    CHECK("3.16 a put of no bytes is complete", ucp_put_nbi(to, source, 0, 0, its) == UCS_OK);
    CHECK("3.16 a get of no bytes is complete", ucp_get_nbi(to, in, 0, 0, its) == UCS_OK);
    ucp_rkey_destroy(its);
    ucp_rkey_buffer_release(bytes);
    ucp_mem_unmap(context, none);
}

/* ---- puts ---- */

static void put_of(size_t size, unsigned seed)
{
    fill(source, size, seed);
    CHECK("3.16 a put without a request is accepted",
          is_accepted(ucp_put_nbi(to, source, size, at(memory), key)));
    CHECK("3.16 a flush succeeds", flush() == UCS_OK);
    CHECK("3.16 and the bytes are there", is_filled(memory, size, seed));
}

static void puts_without_requests(void)
{
    ucs_status_t status;

    put_of(8, 1);
    put_of(LONG_SIZE, 2);
    put_of(9000, 3);
    fill(source, 8, 4);
    status = ucp_put_nbi(to, source, 8, at(memory), key);
    CHECK("3.16 a short put is complete when the call returns", status == UCS_OK);
    memset(source, 0, 8);
    CHECK("3.16 a flush of the worker waits for it", flush_worker() == UCS_OK);
    CHECK("3.16 and its bytes are those of the call", is_filled(memory, 8, 4));
}

static void puts_with_requests(void)
{
    ucp_request_param_t param =
        with(UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_USER_DATA);
    void *request;

    fill(source, LONG_SIZE, 5);
    forget();
    request = ucp_put_nb(to, source, LONG_SIZE, at(memory), key, on_send_nb);
    CHECK("3.16 a put with a callback is accepted", !UCS_PTR_IS_ERR(request));
    if (request != NULL)
        until_called(&sent, 1);
    CHECK("3.16 its callback is called if it has a request",
          sent.count == (request != NULL) && sent.request == request && sent.status == UCS_OK);
    if (request != NULL)
        ucp_request_free(request);
    CHECK("3.16 the bytes are there after a flush",
          flush() == UCS_OK && is_filled(memory, LONG_SIZE, 5));
    param.user_data = &param;
    forget();
    request = ucp_put_nbx(to, source, 8, at(memory), key, &param);
    CHECK("3.16 with NO_IMM_CMPL a put has a request", UCS_PTR_IS_PTR(request));
    until_called(&sent, 1);
    CHECK("3.16 and its callback the client's data",
          sent.request == request && sent.user_data == &param && sent.status == UCS_OK);
    ucp_request_free(request);
    CHECK("3.16 and a flush waits for the put itself",
          flush() == UCS_OK && is_filled(memory, 8, 5));
}

/* ---- gets ---- */

static void get_of(size_t size, unsigned seed)
{
    fill(memory, size, seed);
    memset(in, 0, size);
    CHECK("3.16 a get without a request is accepted",
          is_accepted(ucp_get_nbi(to, in, size, at(memory), key)));
    CHECK("3.16 a flush waits for it", flush() == UCS_OK && is_filled(in, size, seed));
}

static void gets(void)
{
    ucp_request_param_t param = with(0);
    void *request;

    get_of(8, 6);
    get_of(LONG_SIZE, 7);
    get_of(9000, 8);
    fill(memory, LONG_SIZE, 9);
    request = ucp_get_nb(to, in, LONG_SIZE, at(memory), key, on_send_nb);
    CHECK("3.16 a get with a callback is accepted", !UCS_PTR_IS_ERR(request));
    CHECK("3.16 and its bytes are here when it is complete",
          complete(request) == UCS_OK && is_filled(in, LONG_SIZE, 9));
    memset(in, 0, 100);
    request = ucp_get_nbx(to, in, 100, at(memory), key, &param);
    CHECK("3.16 ucp_get_nbx is the same", complete(request) == UCS_OK && is_filled(in, 100, 9));
    fill(source, 100, 10);
    CHECK("3.16 a get follows the put before it",
          is_accepted(ucp_put_nbi(to, source, 100, at(memory), key)) &&
              ucp_worker_fence(here) == UCS_OK &&
              is_accepted(ucp_get_nbi(to, in, 100, at(memory), key)) && flush() == UCS_OK &&
              is_filled(in, 100, 10));
}

/* ---- the client's memory for a request ---- */

static void client_s_memory(void)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST};
    unsigned char *noise;
    void *request;

    CHECK("3.16 requests have a size", ucp_context_query(context, &attr) == UCS_OK);
    noise = malloc(attr.request_size + CLIENT_SIZE);
    memset(noise, 0xc3, attr.request_size + CLIENT_SIZE);
    param.request = noise + attr.request_size;
    fill(memory, LONG_SIZE, 11);
    request = ucp_get_nbx(to, in, LONG_SIZE, at(memory), key, &param);
    CHECK("3.16 a get in the client's memory is accepted",
          request == NULL || request == param.request);
    until_complete(request);
    CHECK("3.16 and completes", is_filled(in, LONG_SIZE, 11));
    free(noise);
}

/* ---- atomics ---- */

static void posted(void)
{
    *number(0) = 100;
    *half(1) = UINT32_MAX;
    half(1)[1] = 7;
    CHECK("3.16 an atomic without a result is complete when the call returns",
          ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 11, 8, at(number(0)), key) == UCS_OK);
    CHECK("3.16 also of 4 bytes",
          ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 2, 4, at(half(1)), key) == UCS_OK);
    CHECK("3.16 a flush waits for atomics", flush() == UCS_OK);
    CHECK("3.16 8 bytes are added to", *number(0) == 111);
    CHECK("3.16 4 bytes wrap", half(1)[0] == 1 && half(1)[1] == 7);
    *number(0) = 0xff;
    CHECK("3.16 and, or, xor are done in their order",
          ucp_atomic_post(to, UCP_ATOMIC_POST_OP_AND, 0x3c, 8, at(number(0)), key) == UCS_OK &&
              ucp_atomic_post(to, UCP_ATOMIC_POST_OP_OR, 0x100, 8, at(number(0)), key) ==
                  UCS_OK &&
              ucp_atomic_post(to, UCP_ATOMIC_POST_OP_XOR, 0xff, 8, at(number(0)), key) ==
                  UCS_OK &&
              flush() == UCS_OK && *number(0) == (((0xff & 0x3c) | 0x100) ^ 0xff));
}

static uint64_t fetched(ucp_atomic_fetch_op_t op, uint64_t value, uint64_t result, size_t size)
{
    void *request =
        ucp_atomic_fetch_nb(to, op, value, &result, size, at(number(2)), key, on_send_nb);

    CHECK("3.16 an atomic with a result completes", complete(request) == UCS_OK);
    return result;
}

/* Not the other three: UCX 1.13 stores another value than the interface says (over shared memory). */
static void fetches(void)
{
    *number(2) = 5;
    CHECK("3.16 fetch and add returns the old value",
          fetched(UCP_ATOMIC_FETCH_OP_FADD, 3, 0, 8) == 5 && *number(2) == 8);
    CHECK("3.16 so does swap",
          fetched(UCP_ATOMIC_FETCH_OP_SWAP, 20, 0, 8) == 8 && *number(2) == 20);
    CHECK("3.16 compare and swap writes the value at the result",
          fetched(UCP_ATOMIC_FETCH_OP_CSWAP, 20, 30, 8) == 20 && *number(2) == 30);
    CHECK("3.16 but not if another value is there",
          fetched(UCP_ATOMIC_FETCH_OP_CSWAP, 20, 40, 8) == 30 && *number(2) == 30);
    CHECK("3.16 a result of 4 bytes leaves those after it alone",
          fetched(UCP_ATOMIC_FETCH_OP_FADD, 1, UINT64_C(9) << 32, 4) ==
              ((UINT64_C(9) << 32) | 30));
}

static void by_nbx(void)
{
    ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_DATATYPE);
    uint64_t operand = 4, reply = 50;

    param.datatype = ucp_dt_make_contig(8);
    *number(3) = 40;
    CHECK("3.16 ucp_atomic_op_nbx needs no result",
          complete(ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_ADD, &operand, 1, at(number(3)), key,
                                     &param)) == UCS_OK &&
              flush() == UCS_OK && *number(3) == 44);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.reply_buffer = &reply;
    operand = 44;
    CHECK("3.16 and compares with its operand",
          complete(ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_CSWAP, &operand, 1, at(number(3)), key,
                                     &param)) == UCS_OK &&
              reply == 44 && *number(3) == 50);
    param.datatype = ucp_dt_make_contig(4);
    *half(4) = 0xf0;
    operand = 0x0f;
    reply = 0;
    CHECK("3.16 also of 4 bytes",
          complete(ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_ADD, &operand, 1, at(half(4)), key,
                                     &param)) == UCS_OK &&
              reply == 0xf0 && *half(4) == 0xff);
}

/* ---- functions that wait ---- */

static void that_wait(void)
{
    uint64_t result = 0;
    uint32_t small = 0;

    fill(source, LONG_SIZE, 12);
    CHECK("3.16 ucp_put returns",
          ucp_put(self, source, LONG_SIZE, at(memory), own_key) == UCS_OK);
    CHECK("3.16 the bytes are there after ucp_ep_flush",
          ucp_ep_flush(self) == UCS_OK && is_filled(memory, LONG_SIZE, 12));
    CHECK("3.16 ucp_get returns with the bytes",
          ucp_get(self, in, LONG_SIZE, at(memory), own_key) == UCS_OK &&
              is_filled(in, LONG_SIZE, 12));
    *number(5) = 1;
    *half(6) = 1;
    CHECK("3.16 ucp_atomic_add64, ucp_atomic_add32",
          ucp_atomic_add64(self, 2, at(number(5)), own_key) == UCS_OK &&
              ucp_atomic_add32(self, 3, at(half(6)), own_key) == UCS_OK &&
              ucp_worker_flush(here) == UCS_OK && *number(5) == 3 && *half(6) == 4);
    CHECK("3.16 ucp_atomic_fadd64",
          ucp_atomic_fadd64(self, 1, at(number(5)), own_key, &result) == UCS_OK && result == 3);
    CHECK("3.16 ucp_atomic_fadd32",
          ucp_atomic_fadd32(self, 1, at(half(6)), own_key, &small) == UCS_OK && small == 4);
    CHECK("3.16 ucp_atomic_swap64",
          ucp_atomic_swap64(self, 9, at(number(5)), own_key, &result) == UCS_OK && result == 4);
    CHECK("3.16 ucp_atomic_swap32",
          ucp_atomic_swap32(self, 9, at(half(6)), own_key, &small) == UCS_OK && small == 5);
    CHECK("3.16 ucp_atomic_cswap64",
          ucp_atomic_cswap64(self, 9, 10, at(number(5)), own_key, &result) == UCS_OK &&
              result == 9 && *number(5) == 10);
    CHECK("3.16 ucp_atomic_cswap32",
          ucp_atomic_cswap32(self, 8, 10, at(half(6)), own_key, &small) == UCS_OK &&
              small == 9 && *half(6) == 9);
}

/* ---- mistakes ---- */

static void refused(void)
{
    ucp_request_param_t param = with(UCP_OP_ATTR_FIELD_DATATYPE);
    uint64_t operand = 1;

    CHECK("3.16 an atomic of 2 bytes is refused",
          ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 1, 2, at(number(0)), key) ==
              UCS_ERR_INVALID_PARAM);
    CHECK("3.16 so is one that is not aligned",
          ucp_atomic_post(to, UCP_ATOMIC_POST_OP_ADD, 1, 8, at(number(0)) + 1, key) ==
              UCS_ERR_INVALID_PARAM);
    param.datatype = ucp_dt_make_contig(8);
    CHECK("3.16 and one of two elements",
          UCS_PTR_STATUS(ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_ADD, &operand, 2, at(number(0)),
                                           key, &param)) == UCS_ERR_INVALID_PARAM);
    param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_DATATYPE;
    CHECK("3.16 and one without a datatype",
          UCS_PTR_STATUS(ucp_atomic_op_nbx(to, UCP_ATOMIC_OP_ADD, &operand, 1, at(number(0)),
                                           key, &param)) == UCS_ERR_INVALID_PARAM);
}

void onesided_contract(void)
{
    opened();
    empty_memory();
    puts_without_requests();
    puts_with_requests();
    gets();
    client_s_memory();
    posted();
    fetches();
    by_nbx();
    that_wait();
    refused();
    ucp_rkey_destroy(own_key);
    ucp_rkey_destroy(key);
    CHECK("3.16 the endpoint to its own worker closes",
          complete(ucp_ep_close_nb(self, UCP_EP_CLOSE_MODE_FLUSH)) == UCS_OK);
    CHECK("3.16 and the memory is given back", ucp_mem_unmap(context, mapped) == UCS_OK);
}
