/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype.h - what a client's buffer, count and datatype are to the library: datatype.c.
 */
#ifndef UCP_DATATYPE_H
#define UCP_DATATYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "ucp/record.h"

struct ucpx_data {
    void *bytes;
    size_t size;
    bool has_layout;
    struct mbx_layout layout;
};

enum ucpx_way { UCPX_PACKS, UCPX_UNPACKS };

static inline bool ucpx_is_contiguous(ucp_datatype_t datatype)
{
    return (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG;
}

/* Bytes of count contiguous elements.  False: more than a size_t. */
static inline bool ucpx_contiguous_size(ucp_datatype_t datatype, size_t count, size_t *size)
{
    return !__builtin_mul_overflow((size_t)(datatype >> UCP_DATATYPE_SHIFT), count, size);
}

/* Describes the data of an operation.  With a generic datatype this begins to pack or to unpack, and the record
 * keeps it until ucpx_data_end().  Not UCS_OK: nothing has begun. */
ucs_status_t ucpx_data_begin(struct ucpx_data *data, struct ucpx_record *record,
                             enum ucpx_way way, void *buffer, size_t count,
                             ucp_datatype_t datatype);

/* The datatype is not needed any more.  The library calls it for data with a layout that it has taken. */
void ucpx_data_end(void *record);

/* Packs all of the data into to[data->size], and ends it.  UCS_OK, or the function that packs has failed. */
ucs_status_t ucpx_data_pack(const struct ucpx_data *data, struct ucpx_record *record, void *to);
/* Unpacks size bytes into the data, as many as fit, and ends it. */
ucs_status_t ucpx_data_unpack(const struct ucpx_data *data, struct ucpx_record *record,
                              const void *from, size_t size);

#endif
