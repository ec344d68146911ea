/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype.c - contiguous data, vectors, and generic datatypes, whose client packs and unpacks.
 *
 *   start_pack, packed_size    before the call that starts the operation returns
 *   pack, pack, ...            with offsets from 0 on, without gaps
 *   finish                     when the library needs the data no longer
 *
 * A datatype that is destroyed while operations use it is freed after the last of them.
 */
#include "ucp/datatype.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "ucp/door.h"

struct ucpx_generic {
    ucp_generic_dt_ops_t ops;
    void *context;
    _Atomic unsigned users; /* operations, and the client until it destroys the datatype */
};

static_assert(offsetof(ucp_dt_iov_t, buffer) == offsetof(struct mbx_iovec, base) &&
                  offsetof(ucp_dt_iov_t, length) == offsetof(struct mbx_iovec, size) &&
                  sizeof(ucp_dt_iov_t) == sizeof(struct mbx_iovec),
              "a vector of a client is one of the library");

/* ---- the datatype itself ---- */

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context,
                                   ucp_datatype_t *datatype_p)
{
    struct ucpx_generic *generic = mem_alloc(sizeof *generic);

    if (generic == NULL)
        return UCS_ERR_NO_MEMORY;
    generic->ops = *ops;
    generic->context = context;
    atomic_init(&generic->users, 1);
    *datatype_p = (uintptr_t)generic | UCP_DATATYPE_GENERIC;
    return UCS_OK;
}

static void generic_leave(struct ucpx_generic *generic)
{
    if (atomic_fetch_sub(&generic->users, 1) == 1)
        mem_free(generic);
}

static struct ucpx_generic *generic_of(ucp_datatype_t datatype)
{
    return (struct ucpx_generic *)(uintptr_t)(datatype &
                                              ~(ucp_datatype_t)UCP_DATATYPE_CLASS_MASK);
}

void ucp_dt_destroy(ucp_datatype_t datatype)
{
    if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC)
        generic_leave(generic_of(datatype));
}

/* ---- an operation ---- */

static int64_t pack(void *context, size_t offset, void *to, size_t size)
{
    const struct ucpx_record *record = context;

    return (int64_t)record->generic->ops.pack(record->generic_state, offset, to, size);
}

static int unpack(void *context, size_t offset, const void *from, size_t size)
{
    struct ucpx_record *record = context;
    ucs_status_t status =
        record->generic->ops.unpack(record->generic_state, offset, from, size);

    if (status == UCS_OK)
        return 0;
    record->failure = status;
    return -EIO;
}

void ucpx_data_end(void *context)
{
    struct ucpx_record *record = context;
    struct ucpx_generic *generic = record->generic;

    if (generic == NULL)
        return;
    record->generic = NULL;
    generic->ops.finish(record->generic_state);
    generic_leave(generic);
}

static void begin_generic(struct ucpx_data *data, struct ucpx_record *record, enum ucpx_way way,
                          void *buffer, size_t count, ucp_datatype_t datatype)
{
    struct ucpx_generic *generic = generic_of(datatype);

    atomic_fetch_add(&generic->users, 1);
    record->generic = generic;
    record->generic_state = way == UCPX_PACKS
                                ? generic->ops.start_pack(generic->context, buffer, count)
                                : generic->ops.start_unpack(generic->context, buffer, count);
    data->size = generic->ops.packed_size(record->generic_state);
    data->has_layout = true;
    data->layout = (struct mbx_layout){
        .pack = pack, .unpack = unpack, .end = ucpx_data_end, .context = record};
}

static ucs_status_t begin_vector(struct ucpx_data *data, const ucp_dt_iov_t *parts,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(data->size, parts[i].length, &data->size))
            return UCS_ERR_INVALID_PARAM;
    data->has_layout = count != 0;
    data->layout = (struct mbx_layout){.parts = (const struct mbx_iovec *)(const void *)parts,
                                       .count = count};
    return UCS_OK;
}

ucs_status_t ucpx_data_begin(struct ucpx_data *data, struct ucpx_record *record,
                             enum ucpx_way way, void *buffer, size_t count,
                             ucp_datatype_t datatype)
{
    data->bytes = buffer;
    data->size = 0;
    data->has_layout = false;
    switch (datatype & UCP_DATATYPE_CLASS_MASK) {
    case UCP_DATATYPE_CONTIG:
        return ucpx_contiguous_size(datatype, count, &data->size) ? UCS_OK
                                                                  : UCS_ERR_INVALID_PARAM;
    case UCP_DATATYPE_IOV:
        return begin_vector(data, buffer, count);
    case UCP_DATATYPE_GENERIC:
        begin_generic(data, record, way, buffer, count, datatype);
        return UCS_OK;
    default:
        return UCS_ERR_INVALID_PARAM;
    }
}

/* ---- without the library ---- */

static void copy_vector(const struct ucpx_data *data, unsigned char *bytes, size_t size,
                        enum ucpx_way way)
{
    for (size_t i = 0, at = 0; i < data->layout.count && at < size; i++) {
        const struct mbx_iovec *part = &data->layout.parts[i];
        size_t length = min_size(part->size, size - at);

        if (length != 0 && way == UCPX_PACKS)
            memcpy(bytes + at, part->base, length);
        else if (length != 0)
            memcpy(part->base, bytes + at, length);
        at += length;
    }
}

static ucs_status_t pack_generic(const struct ucpx_data *data, struct ucpx_record *record,
                                 unsigned char *to)
{
    for (size_t at = 0; at < data->size;) {
        int64_t packed = pack(record, at, to + at, data->size - at);

        if (packed <= 0 || (size_t)packed > data->size - at)
            return UCS_ERR_IO_ERROR;
        at += (size_t)packed;
    }
    return UCS_OK;
}

ucs_status_t ucpx_data_pack(const struct ucpx_data *data, struct ucpx_record *record, void *to)
{
    ucs_status_t status = UCS_OK;

    if (record->generic != NULL)
        status = pack_generic(data, record, to);
    else if (data->has_layout)
        copy_vector(data, to, data->size, UCPX_PACKS);
    else if (data->size != 0)
        memcpy(to, data->bytes, data->size);
    ucpx_data_end(record);
    return status;
}

ucs_status_t ucpx_data_unpack(const struct ucpx_data *data, struct ucpx_record *record,
                              const void *from, size_t size)
{
    size_t fits = min_size(size, data->size);
    ucs_status_t status = size > data->size ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK;

    if (record->generic != NULL && fits != 0 && unpack(record, 0, from, fits) != 0)
        status = record->failure;
    else if (record->generic == NULL && data->has_layout)
        copy_vector(data, (unsigned char *)(uintptr_t)from, fits, UCPX_UNPACKS);
    else if (record->generic == NULL && fits != 0)
        memcpy(data->bytes, from, fits);
    ucpx_data_end(record);
    return status;
}
