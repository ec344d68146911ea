/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype.c - access to the bytes of a message.
 *
 *   contiguous     in the user's buffer                          (pml.h)
 *   any other      packed and unpacked, a piece at a time, while other pieces travel: the library
 *                  calls for it, in the order of the bytes
 *   MPI_Bsend's    packed as a whole into memory of MPI_Buffer_attach
 *
 * blocks.c packs, or Open MPI's convertor for datatypes whose loops are nested too deeply for
 * blocks.c.  The convertor belongs to the request, from pml_data_send() or pml_data_recv() to
 * pml_data_release(); blocks need no release.
 */
#include "pml/pml.h"

#include <errno.h>

/* NO_GAPS is not checked: a struct with an empty last member has that flag too, though its
 * extent ends after its bytes. */
OUT_OF_LINE bool pml_data_is_flat_made(const ompi_datatype_t *type, size_t count)
{
    const opal_datatype_t *data = &type->super;

    return (data->flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) &&
           (count <= 1 || (size_t)(data->ub - data->lb) == data->size);
}

/* Moves the convertor to offset, unless it is there.  The library calls in order, so it is. */
static void data_seek(opal_convertor_t *convertor, size_t offset)
{
    if (convertor->bConverted != offset)
        opal_convertor_set_position(convertor, &offset);
}

static int64_t data_pack_blocks(void *context, size_t offset, void *to, size_t size)
{
    (void)offset; /* the library calls in order */
    pml_blocks_pack(context, to, size);
    return (int64_t)size;
}

static int data_unpack_blocks(void *context, size_t offset, const void *from, size_t size)
{
    (void)offset;
    pml_blocks_unpack(context, from, size);
    return 0;
}

static int64_t data_pack(void *context, size_t offset, void *to, size_t size)
{
    opal_convertor_t *convertor = context;
    struct iovec piece = {to, size};
    uint32_t pieces = 1;
    size_t packed = size;

    data_seek(convertor, offset);
    if (opal_convertor_pack(convertor, &piece, &pieces, &packed) < 0 || packed == 0)
        return -EIO;
    return (int64_t)packed;
}

static int data_unpack(void *context, size_t offset, const void *from, size_t size)
{
    opal_convertor_t *convertor = context;
    struct iovec piece = {(void *)(uintptr_t)from, size};
    uint32_t pieces = 1;
    size_t unpacked = size;

    data_seek(convertor, offset);
    if (opal_convertor_unpack(convertor, &piece, &pieces, &unpacked) < 0 || unpacked != size)
        return -EIO;
    return 0;
}

static void data_prepare_send(opal_convertor_t *convertor, const void *buf, size_t count,
                              const ompi_datatype_t *type)
{
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf,
                                             0, convertor);
}

void pml_data_send(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                   size_t count, const ompi_datatype_t *type, struct mbx_layout *layout)
{
    if (likely(pml_blocks_suit(type))) {
        pml_blocks_begin(&own->blocks, buf, count, type);
        *layout = (struct mbx_layout){.pack = data_pack_blocks, .context = &own->blocks};
        return;
    }
    data_prepare_send(&base->req_convertor, buf, count, type);
    own->is_converted = true;
    *layout = (struct mbx_layout){.pack = data_pack, .context = &base->req_convertor};
}

void pml_data_recv(mca_pml_base_request_t *base, struct pml_own *own, void *buf, size_t count,
                   const ompi_datatype_t *type, struct mbx_layout *layout)
{
    if (likely(pml_blocks_suit(type))) {
        pml_blocks_begin(&own->blocks, buf, count, type);
        *layout = (struct mbx_layout){.unpack = data_unpack_blocks, .context = &own->blocks};
        return;
    }
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buf,
                                             0, &base->req_convertor);
    own->is_converted = true;
    *layout = (struct mbx_layout){.unpack = data_unpack, .context = &base->req_convertor};
}

/* Packs the whole message at once. */
static int data_pack_all(const struct mbx_layout *layout, char *to, size_t size)
{
    int64_t packed;

    for (size_t done = 0; done < size; done += (size_t)packed) {
        packed = layout->pack(layout->context, done, to + done, size - done);
        if (packed < 0)
            return OMPI_ERROR;
    }
    return OMPI_SUCCESS;
}

int pml_data_buffer(mca_pml_base_request_t *base, struct pml_own *own, const void *buf,
                    size_t count, const ompi_datatype_t *type)
{
    size_t size = pml_data_size(type, count);
    struct mbx_layout layout;
    int err;

    if (size == 0)
        return OMPI_SUCCESS;
    own->copy = mca_pml_base_bsend_request_alloc_buf(size);
    if (own->copy == NULL)
        return OMPI_ERR_BUFFER;
    pml_data_send(base, own, buf, count, type, &layout);
    err = data_pack_all(&layout, own->copy, size);
    if (own->is_converted)
        opal_convertor_cleanup(&base->req_convertor);
    own->is_converted = false;
    if (err != OMPI_SUCCESS)
        pml_data_release(base, own);
    return err;
}

void pml_data_release(mca_pml_base_request_t *base, struct pml_own *own)
{
    if (own->copy != NULL)
        mca_pml_base_bsend_request_free(own->copy);
    own->copy = NULL;
    if (own->is_converted)
        opal_convertor_cleanup(&base->req_convertor);
    own->is_converted = false;
}
