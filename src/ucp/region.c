/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - memory that a client maps, and keys that no peer can use.
 *
 * Mapping succeeds for host memory, and allocates if it is asked to: MPI_Win_allocate of MPICH takes its memory from
 * here.  One-sided calls are not offered: ucp_ep_rkey_unpack() says that a key's memory is unreachable, and its clients
 * then use active messages.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "ucp/door.h"

#define KEY_SIZE 32

static const char key_mark[8] = "MBXUKEY";

struct ucp_mem {
    void *address;
    size_t length;
    bool is_ours; /* mapped here */
};

/* ---- mapping ---- */

static size_t page_round(size_t size)
{
    return round_up(size == 0 ? 1 : size, (size_t)sysconf(_SC_PAGESIZE));
}

/* Memory at the address that the client names, or anywhere. */
static void *map_pages(void *at, size_t size, bool is_fixed)
{
    void *pages =
        mmap(at, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (is_fixed ? MAP_FIXED_NOREPLACE : 0), -1, 0);

    if (pages == MAP_FAILED)
        return NULL;
    if (!is_fixed || pages == at)
        return pages;
    munmap(pages, size);
    return NULL;
}

static ucs_status_t mem_fill(struct ucp_mem *mem, const ucp_mem_map_params_t *params)
{
    uint64_t fields = params->field_mask;
    unsigned flags = fields & UCP_MEM_MAP_PARAM_FIELD_FLAGS ? params->flags : 0;

    mem->address = fields & UCP_MEM_MAP_PARAM_FIELD_ADDRESS ? params->address : NULL;
    mem->length = params->length;
    mem->is_ours = flags & UCP_MEM_MAP_ALLOCATE && mem->length != 0;
    if (flags & UCP_MEM_MAP_FIXED && (!(flags & UCP_MEM_MAP_ALLOCATE) || mem->address == NULL ||
                                      (uintptr_t)mem->address % page_round(1) != 0))
        return UCS_ERR_INVALID_PARAM;
    if (!mem->is_ours)
        return mem->address == NULL && mem->length != 0 ? UCS_ERR_INVALID_PARAM : UCS_OK;
    mem->address = map_pages(mem->address, page_round(mem->length), flags & UCP_MEM_MAP_FIXED);
    return mem->address != NULL ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static bool is_host_memory(const ucp_mem_map_params_t *params)
{
    return !(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) ||
           params->memory_type == UCS_MEMORY_TYPE_HOST ||
           params->memory_type >= UCS_MEMORY_TYPE_LAST;
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
                         ucp_mem_h *memh_p)
{
    struct ucp_mem *mem;
    ucs_status_t status;

    (void)context;
    if (!(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_LENGTH))
        return UCS_ERR_INVALID_PARAM;
    if (!is_host_memory(params))
        return ucpx_unsupported("ucp_mem_map for memory other than the host's");
    mem = mem_alloc(sizeof *mem);
    if (mem == NULL)
        return UCS_ERR_NO_MEMORY;
    status = mem_fill(mem, params);
    if (status != UCS_OK) {
        mem_free(mem);
        return status;
    }
    *memh_p = mem;
    return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    (void)context;
    if (memh->is_ours)
        munmap(memh->address, page_round(memh->length));
    mem_free(memh);
    return UCS_OK;
}

ucs_status_t ucp_mem_query(const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_ADDRESS)
        attr->address = memh->address;
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_LENGTH)
        attr->length = memh->length;
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_MEM_TYPE)
        attr->mem_type = UCS_MEMORY_TYPE_HOST;
    return UCS_OK;
}

ucs_status_t ucp_mem_advise(ucp_context_h context, ucp_mem_h memh,
                            ucp_mem_advise_params_t *params)
{
    (void)context;
    (void)memh;
    (void)params;
    return UCS_OK;
}

void ucp_mem_print_info(const char *mem_size, ucp_context_h context, FILE *stream)
{
    (void)context;
    fprintf(stream,
            "#\n# memory of %s bytes: mapped from the system by libucp over Matchbox\n#\n",
            mem_size);
}

/* ---- keys ---- */

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **rkey_buffer_p,
                           size_t *size_p)
{
    unsigned char *key = mem_calloc(1, KEY_SIZE);

    (void)context;
    (void)memh;
    if (key == NULL)
        return UCS_ERR_NO_MEMORY;
    memcpy(key, key_mark, sizeof key_mark);
    *rkey_buffer_p = key;
    *size_p = KEY_SIZE;
    return UCS_OK;
}

void ucp_rkey_buffer_release(void *rkey_buffer)
{
    mem_free(rkey_buffer);
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p)
{
    (void)ep;
    (void)rkey_p;
    return memcmp(rkey_buffer, key_mark, sizeof key_mark) == 0 ? UCS_ERR_UNREACHABLE
                                                               : UCS_ERR_INVALID_PARAM;
}

/* No key has been unpacked. */
ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p)
{
    (void)rkey;
    (void)raddr;
    (void)addr_p;
    return UCS_ERR_UNREACHABLE;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    (void)rkey;
}
