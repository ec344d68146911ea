/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.c - atomics of 4 and 8 bytes on memory of a peer.
 *
 *   x  the value there       add, and, or, xor   x op operand
 *                            swap                operand
 *                            compare and swap    the value at the result if x == operand, otherwise x
 *
 * The old x comes to the result, if there is one.  A peer performs the atomics of all its peers one after the other; they
 * are not atomic with its own instructions.
 */
#include <string.h>

#include "ucp/access.h"
#include "ucp/datatype.h"

#define SIZE_MAX_OF_ATOMIC 8

/* An access, and its operands. */
struct atomic {
    struct ucpx_access access;
    unsigned char operand[SIZE_MAX_OF_ATOMIC], compare[SIZE_MAX_OF_ATOMIC];
};

static const struct {
    enum mbx_op op;
    bool needs_result;
} ops[UCP_ATOMIC_OP_LAST] = {
    [UCP_ATOMIC_OP_ADD] = {MBX_SUM, false},    [UCP_ATOMIC_OP_SWAP] = {MBX_ATOMIC_WRITE, true},
    [UCP_ATOMIC_OP_CSWAP] = {MBX_CSWAP, true}, [UCP_ATOMIC_OP_AND] = {MBX_BAND, false},
    [UCP_ATOMIC_OP_OR] = {MBX_BOR, false},     [UCP_ATOMIC_OP_XOR] = {MBX_BXOR, false}};

static int start_atomic(const struct ucpx_access *access, const struct mbx_options *options,
                        mbx_request *request)
{
    const struct mbx_atomic_args atomic = {.op = access->op,
                                           .type = access->size == 8 ? MBX_UINT64 : MBX_UINT32,
                                           .count = 1,
                                           .operand = access->from,
                                           .compare = access->compare,
                                           .result = access->to,
                                           .key = access->key->key,
                                           .address = access->at};
    struct mbx_options copies = *options;

    copies.flags |= MBX_COPY; /* the operands are on the caller's stack */
    return mbx_atomic(access->ep->worker->mbx, access->ep->peer, &atomic, &copies, request);
}

/* For a comparison, the new value is at result, and value is what is compared. */
static ucs_status_t atomic_fill(struct atomic *atomic, unsigned op, const void *value,
                                void *result)
{
    struct ucpx_access *access = &atomic->access;

    if (op >= UCP_ATOMIC_OP_LAST || (access->size != 4 && access->size != 8) ||
        access->at % access->size != 0 || (ops[op].needs_result && result == NULL))
        return UCS_ERR_INVALID_PARAM;
    memcpy(atomic->operand, op == UCP_ATOMIC_OP_CSWAP ? result : value, access->size);
    memcpy(atomic->compare, value, access->size);
    access->from = atomic->operand;
    access->compare = op == UCP_ATOMIC_OP_CSWAP ? atomic->compare : NULL;
    access->to = result;
    access->op = ops[op].op;
    access->rights = MBX_REMOTE_WRITE | (result != NULL ? MBX_REMOTE_READ : 0u);
    access->leaves_data = result == NULL;
    access->start = start_atomic;
    return UCS_OK;
}

static struct atomic atomic_of(struct ucp_ep *ep, size_t size, uint64_t at,
                               const struct ucp_rkey *key)
{
    return (struct atomic){.access = {.ep = ep, .key = key, .at = at, .size = size}};
}

/* A value of this size, of one that may be longer. */
static void value_of(unsigned char to[SIZE_MAX_OF_ATOMIC], uint64_t value, size_t size)
{
    uint32_t half = (uint32_t)value;

    memcpy(to, size == 4 ? (const void *)&half : &value, size == 4 ? 4 : 8);
}

/* ---- ucp_atomic_op_nbx ---- */

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer,
                                   size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                                   const ucp_request_param_t *param)
{
    void *result =
        param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER ? param->reply_buffer : NULL;
    struct ucpx_how how;
    struct atomic atomic;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_SEND);

    if (status != UCS_OK)
        return UCS_STATUS_PTR(status);
    if (count != 1 || !(how.mask & UCP_OP_ATTR_FIELD_DATATYPE) ||
        !ucpx_is_contiguous(how.datatype))
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    atomic = atomic_of(ep, (size_t)(how.datatype >> UCP_DATATYPE_SHIFT), remote_addr, rkey);
    status = atomic_fill(&atomic, opcode, buffer, result);
    return status == UCS_OK ? ucpx_access_go(&atomic.access, &how) : UCS_STATUS_PTR(status);
}

/* ---- without a result ---- */

static ucs_status_t post(struct ucp_ep *ep, unsigned op, uint64_t value, size_t size,
                         uint64_t at, const struct ucp_rkey *key)
{
    struct atomic atomic = atomic_of(ep, size, at, key);
    unsigned char bytes[SIZE_MAX_OF_ATOMIC];
    ucs_status_t status;

    value_of(bytes, value, size);
    status = atomic_fill(&atomic, op, bytes, NULL);
    return status == UCS_OK ? ucpx_access_post(&atomic.access) : status;
}

ucs_status_t ucp_atomic_post(ucp_ep_h ep, ucp_atomic_post_op_t opcode, uint64_t value,
                             size_t op_size, uint64_t remote_addr, ucp_rkey_h rkey)
{
    static const unsigned of[UCP_ATOMIC_POST_OP_LAST] = {
        [UCP_ATOMIC_POST_OP_ADD] = UCP_ATOMIC_OP_ADD,
        [UCP_ATOMIC_POST_OP_AND] = UCP_ATOMIC_OP_AND,
        [UCP_ATOMIC_POST_OP_OR] = UCP_ATOMIC_OP_OR,
        [UCP_ATOMIC_POST_OP_XOR] = UCP_ATOMIC_OP_XOR};

    if ((unsigned)opcode >= UCP_ATOMIC_POST_OP_LAST)
        return UCS_ERR_INVALID_PARAM;
    return post(ep, of[opcode], value, op_size, remote_addr, rkey);
}

ucs_status_t ucp_atomic_add32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return post(ep, UCP_ATOMIC_OP_ADD, add, 4, remote_addr, rkey);
}

ucs_status_t ucp_atomic_add64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return post(ep, UCP_ATOMIC_OP_ADD, add, 8, remote_addr, rkey);
}

/* ---- with one ---- */

static ucs_status_t fetch_fill(struct atomic *atomic, unsigned op, uint64_t value, void *result)
{
    unsigned char bytes[SIZE_MAX_OF_ATOMIC];

    value_of(bytes, value, atomic->access.size);
    return result != NULL ? atomic_fill(atomic, op, bytes, result) : UCS_ERR_INVALID_PARAM;
}

ucs_status_ptr_t ucp_atomic_fetch_nb(ucp_ep_h ep, ucp_atomic_fetch_op_t opcode, uint64_t value,
                                     void *result, size_t op_size, uint64_t remote_addr,
                                     ucp_rkey_h rkey, ucp_send_callback_t cb)
{
    static const unsigned of[UCP_ATOMIC_FETCH_OP_LAST] = {
        [UCP_ATOMIC_FETCH_OP_FADD] = UCP_ATOMIC_OP_ADD,
        [UCP_ATOMIC_FETCH_OP_SWAP] = UCP_ATOMIC_OP_SWAP,
        [UCP_ATOMIC_FETCH_OP_CSWAP] = UCP_ATOMIC_OP_CSWAP,
        [UCP_ATOMIC_FETCH_OP_FAND] = UCP_ATOMIC_OP_AND,
        [UCP_ATOMIC_FETCH_OP_FOR] = UCP_ATOMIC_OP_OR,
        [UCP_ATOMIC_FETCH_OP_FXOR] = UCP_ATOMIC_OP_XOR};
    const struct ucpx_how how = {.calls = cb != NULL ? UCPX_CALLS_SEND_NB : UCPX_CALLS_NONE,
                                 .callback.send_nb = cb};
    struct atomic atomic = atomic_of(ep, op_size, remote_addr, rkey);
    ucs_status_t status;

    if ((unsigned)opcode >= UCP_ATOMIC_FETCH_OP_LAST)
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    status = fetch_fill(&atomic, of[opcode], value, result);
    return status == UCS_OK ? ucpx_access_go(&atomic.access, &how) : UCS_STATUS_PTR(status);
}

/* The old value comes to result when it is there. */
static ucs_status_t fetch(struct ucp_ep *ep, unsigned op, uint64_t value, void *result,
                          size_t size, uint64_t at, const struct ucp_rkey *key)
{
    struct atomic atomic = atomic_of(ep, size, at, key);
    ucs_status_t status = fetch_fill(&atomic, op, value, result);

    return status == UCS_OK ? ucpx_access_wait(&atomic.access) : status;
}

ucs_status_t ucp_atomic_fadd32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey,
                               uint32_t *result)
{
    return fetch(ep, UCP_ATOMIC_OP_ADD, add, result, sizeof *result, remote_addr, rkey);
}

ucs_status_t ucp_atomic_fadd64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey,
                               uint64_t *result)
{
    return fetch(ep, UCP_ATOMIC_OP_ADD, add, result, sizeof *result, remote_addr, rkey);
}

ucs_status_t ucp_atomic_swap32(ucp_ep_h ep, uint32_t swap, uint64_t remote_addr,
                               ucp_rkey_h rkey, uint32_t *result)
{
    return fetch(ep, UCP_ATOMIC_OP_SWAP, swap, result, sizeof *result, remote_addr, rkey);
}

ucs_status_t ucp_atomic_swap64(ucp_ep_h ep, uint64_t swap, uint64_t remote_addr,
                               ucp_rkey_h rkey, uint64_t *result)
{
    return fetch(ep, UCP_ATOMIC_OP_SWAP, swap, result, sizeof *result, remote_addr, rkey);
}

/* These two have the new value as an argument, and write only the result. */
ucs_status_t ucp_atomic_cswap32(ucp_ep_h ep, uint32_t compare, uint32_t swap,
                                uint64_t remote_addr, ucp_rkey_h rkey, uint32_t *result)
{
    *result = swap;
    return fetch(ep, UCP_ATOMIC_OP_CSWAP, compare, result, sizeof *result, remote_addr, rkey);
}

ucs_status_t ucp_atomic_cswap64(ucp_ep_h ep, uint64_t compare, uint64_t swap,
                                uint64_t remote_addr, ucp_rkey_h rkey, uint64_t *result)
{
    *result = swap;
    return fetch(ep, UCP_ATOMIC_OP_CSWAP, compare, result, sizeof *result, remote_addr, rkey);
}
