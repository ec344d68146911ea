/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datatype.c - where the bytes of a message lie.
 *
 * Those of a contiguous datatype lie in the user's buffer.  All others go through Open MPI's
 * convertor and a buffer of ours, and so does what MPI_Bsend sends, whose buffer is of the
 * memory that MPI_Buffer_attach has given.
 */
#include "pml/pml.h"

#include <stdlib.h>
#include <string.h>

static void data_vector(struct iovec *piece, void *bytes, size_t size)
{
    piece->iov_base = bytes;
    piece->iov_len = size;
}

static int data_pack(void *bytes, size_t size, const void *buf, size_t count,
                     const ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    struct iovec piece;
    uint32_t pieces = 1;
    size_t packed = size;
    int rc;

    data_vector(&piece, bytes, size);
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &type->super, count, buf,
                                             0, &convertor);
    rc = opal_convertor_pack(&convertor, &piece, &pieces, &packed);
    OBJ_DESTRUCT(&convertor);
    return rc < 0 || packed != size ? OMPI_ERROR : OMPI_SUCCESS;
}

static int data_unpack(void *bytes, size_t size, void *buf, size_t count,
                       const ompi_datatype_t *type)
{
    opal_convertor_t convertor;
    struct iovec piece;
    uint32_t pieces = 1;
    size_t unpacked = size;
    int rc;

    data_vector(&piece, bytes, size);
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &type->super, count, buf,
                                             0, &convertor);
    rc = opal_convertor_unpack(&convertor, &piece, &pieces, &unpacked);
    OBJ_DESTRUCT(&convertor);
    return rc < 0 || unpacked != size ? OMPI_ERROR : OMPI_SUCCESS;
}

int pml_data_pack(struct pml_own *own, const void *buf, size_t count,
                  const ompi_datatype_t *type, bool is_buffered)
{
    size_t size = pml_data_size(type, count);
    int err;

    if (size == 0)
        return OMPI_SUCCESS;
    own->is_of_buffer = is_buffered;
    own->temporary = is_buffered ? mca_pml_base_bsend_request_alloc_buf(size) : malloc(size);
    if (own->temporary == NULL)
        return is_buffered ? OMPI_ERR_BUFFER : OMPI_ERR_OUT_OF_RESOURCE;
    err = data_pack(own->temporary, size, buf, count, type);
    if (err != OMPI_SUCCESS)
        pml_data_release(own);
    return err;
}

int pml_data_room(struct pml_own *own, size_t size)
{
    own->is_of_buffer = false;
    own->temporary = malloc(size != 0 ? size : 1);
    return own->temporary == NULL ? OMPI_ERR_OUT_OF_RESOURCE : OMPI_SUCCESS;
}

int pml_data_unpack(struct pml_own *own, void *buf, size_t count, const ompi_datatype_t *type,
                    size_t received)
{
    int err =
        received == 0 ? OMPI_SUCCESS : data_unpack(own->temporary, received, buf, count, type);

    pml_data_release(own);
    return err;
}

void pml_data_release(struct pml_own *own)
{
    if (own->is_of_buffer && own->temporary != NULL)
        mca_pml_base_bsend_request_free(own->temporary);
    else
        free(own->temporary);
    own->temporary = NULL;
}
