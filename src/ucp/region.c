/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * region.c - memory that a client maps, and the keys with which peers access it.
 *
 *   ucp_mem_map     registers the memory with each worker of the context, under a number that is used once
 *   ucp_rkey_pack   writes this number, the addresses and the rights into 32 bytes for the peers
 *   unpack          reads them; they come from another process and may say anything
 *
 * Mapping succeeds for host memory, and allocates if it is asked to: MPI_Win_allocate of MPICH takes its memory from
 * here.  Peers use the address that the memory has here.  A key is not a secret and proves nothing: the library of the
 * memory's owner checks number, range and rights of each access.
 *
 * Invariants
 *   I1  each region of a context is registered with each of its workers, except empty ones and those without rights, and
 *       ones that are being unmapped
 *
 * Threads   the lock of the context guards its lists.  A thread that holds it may take the lock of a worker, and not the
 *           other way round.  No thread holds either of them while it waits for a peer, which may need them to make progress.
 */
#include "ucp/region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ucp/door.h"

#define RIGHTS ((unsigned)(MBX_REMOTE_READ | MBX_REMOTE_WRITE))

struct ucp_mem {
    struct list link; /* in the list of the context */
    void *address;
    size_t length;
    uint64_t key;
    unsigned rights; /* of peers; enum mbx_rights */
    bool is_ours;    /* mapped here */
    bool is_leaving; /* it is being unmapped */
};

/* The bytes that travel. */
struct key_bytes {
    char mark[7];
    uint8_t rights;
    uint64_t key, address, length;
};

static_assert(sizeof(struct key_bytes) == 32, "the same in each process");

static const char mark[sizeof((struct key_bytes *)0)->mark] = "MBXUKEY";

/* ---- the regions of the workers ---- */

static bool is_registered(const struct ucp_mem *mem)
{
    return mem->length != 0 && mem->rights != 0;
}

static int worker_add(struct ucp_worker *worker, const struct ucp_mem *mem)
{
    const struct mbx_region region = {.buf = mem->address,
                                      .size = mem->length,
                                      .address = (uintptr_t)mem->address,
                                      .rights = mem->rights};
    int err;

    if (!is_registered(mem))
        return 0;
    ucpx_lock(worker);
    err = mbx_register(worker->mbx, mem->key, &region);
    ucpx_unlock(worker);
    return err;
}

/* False: a peer is still accessing it. */
static bool worker_remove(struct ucp_worker *worker, const struct ucp_mem *mem)
{
    int err;

    if (!is_registered(mem))
        return true;
    ucpx_lock(worker);
    err = mbx_try_deregister(worker->mbx, mem->key);
    ucpx_unlock(worker);
    return err != -EAGAIN;
}

static int add_to_all(struct ucp_context *context, const struct ucp_mem *mem)
{
    struct list *node;
    int err = 0;

    list_for_each (node, &context->workers)
        if (err == 0)
            err = worker_add(container_of(node, struct ucp_worker, link), mem);
    return err;
}

/* True: no worker has it any more, and it is in no list. */
static bool remove_from_all(struct ucp_context *context, struct ucp_mem *mem)
{
    struct list *node;
    bool is_done = true;

    pthread_mutex_lock(&context->lock);
    mem->is_leaving = true;
    list_for_each (node, &context->workers)
        if (!worker_remove(container_of(node, struct ucp_worker, link), mem))
            is_done = false;
    if (is_done)
        list_remove(&mem->link);
    pthread_mutex_unlock(&context->lock);
    return is_done;
}

/* A worker that is not added to the list is closed by the caller, which ends its regions. */
ucs_status_t ucpx_regions_enter(struct ucp_worker *worker)
{
    struct ucp_context *context = worker->context;
    struct list *node;
    int err = 0;

    pthread_mutex_lock(&context->lock);
    list_for_each (node, &context->regions) {
        const struct ucp_mem *mem = container_of(node, const struct ucp_mem, link);

        if (err == 0 && !mem->is_leaving)
            err = worker_add(worker, mem);
    }
    if (err == 0)
        list_add_tail(&context->workers, &worker->link);
    pthread_mutex_unlock(&context->lock);
    return ucpx_status(err);
}

/* True: the worker has no region any more, and gets none. */
static bool remove_all(struct ucp_worker *worker)
{
    struct ucp_context *context = worker->context;
    struct list *node;
    bool is_done = true;

    pthread_mutex_lock(&context->lock);
    list_for_each (node, &context->regions)
        if (!worker_remove(worker, container_of(node, struct ucp_mem, link)))
            is_done = false;
    if (is_done)
        list_remove(&worker->link);
    pthread_mutex_unlock(&context->lock);
    return is_done;
}

/* Otherwise the close of the worker would serve a region that another thread has unmapped meanwhile. */
void ucpx_regions_leave(struct ucp_worker *worker)
{
    while (!remove_all(worker))
        sys_yield();
}

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

static unsigned rights_of(const ucp_mem_map_params_t *params)
{
    if (!(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_PROT))
        return RIGHTS;
    return (params->prot & UCP_MEM_MAP_PROT_REMOTE_READ ? MBX_REMOTE_READ : 0u) |
           (params->prot & UCP_MEM_MAP_PROT_REMOTE_WRITE ? MBX_REMOTE_WRITE : 0u);
}

static bool lies_somewhere(const struct ucp_mem *mem)
{
    return mem->length == 0 ||
           (mem->address != NULL && mem->length <= UINTPTR_MAX - (uintptr_t)mem->address);
}

static ucs_status_t mem_fill(struct ucp_mem *mem, const ucp_mem_map_params_t *params)
{
    uint64_t fields = params->field_mask;
    unsigned flags = fields & UCP_MEM_MAP_PARAM_FIELD_FLAGS ? params->flags : 0;

    mem->address = fields & UCP_MEM_MAP_PARAM_FIELD_ADDRESS ? params->address : NULL;
    mem->length = params->length;
    mem->rights = rights_of(params);
    mem->is_ours = flags & UCP_MEM_MAP_ALLOCATE && mem->length != 0;
    if (flags & UCP_MEM_MAP_FIXED && (!(flags & UCP_MEM_MAP_ALLOCATE) || mem->address == NULL ||
                                      (uintptr_t)mem->address % page_round(1) != 0))
        return UCS_ERR_INVALID_PARAM;
    if (!mem->is_ours)
        return lies_somewhere(mem) ? UCS_OK : UCS_ERR_INVALID_PARAM;
    mem->address = map_pages(mem->address, page_round(mem->length), flags & UCP_MEM_MAP_FIXED);
    return mem->address != NULL ? UCS_OK : UCS_ERR_NO_MEMORY;
}

static bool is_host_memory(const ucp_mem_map_params_t *params)
{
    return !(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) ||
           ucpx_device_memory(params->memory_type) == NULL;
}

static void mem_give_back(struct ucp_mem *mem)
{
    if (mem->is_ours)
        munmap(mem->address, page_round(mem->length));
    mem_free(mem);
}

static void mem_leave(struct ucp_context *context, struct ucp_mem *mem)
{
    while (!remove_from_all(context, mem))
        sys_yield();
}

/* With all workers, or with none. */
static ucs_status_t mem_enter(struct ucp_context *context, struct ucp_mem *mem)
{
    int err;

    pthread_mutex_lock(&context->lock);
    mem->key = context->next_key++;
    err = add_to_all(context, mem);
    list_add_tail(&context->regions, &mem->link);
    pthread_mutex_unlock(&context->lock);
    if (err < 0)
        mem_leave(context, mem);
    return ucpx_status(err);
}

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
                         ucp_mem_h *memh_p)
{
    struct ucp_mem *mem;
    ucs_status_t status;

    if (!(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_LENGTH))
        return UCS_ERR_INVALID_PARAM;
    if (!is_host_memory(params))
        return ucpx_unsupported("ucp_mem_map for memory other than the host's");
    mem = mem_calloc(1, sizeof *mem);
    if (mem == NULL)
        return UCS_ERR_NO_MEMORY;
    status = mem_fill(mem, params);
    if (status != UCS_OK) {
        mem_free(mem);
        return status;
    }
    status = mem_enter(context, mem);
    if (status != UCS_OK) {
        mem_give_back(mem);
        return status;
    }
    *memh_p = mem;
    return UCS_OK;
}

/* When this returns, no peer accesses the memory, and none will. */
ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    mem_leave(context, memh);
    mem_give_back(memh);
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

void *ucpx_key_pack(const struct ucp_mem *mem, size_t *size)
{
    struct key_bytes *bytes = mem_alloc(sizeof *bytes);

    if (bytes == NULL)
        return NULL;
    *bytes = (struct key_bytes){.rights = (uint8_t)mem->rights,
                                .key = mem->key,
                                .address = (uintptr_t)mem->address,
                                .length = mem->length};
    memcpy(bytes->mark, mark, sizeof mark);
    *size = sizeof *bytes;
    return bytes;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **rkey_buffer_p,
                           size_t *size_p)
{
    void *bytes = ucpx_key_pack(memh, size_p);

    (void)context;
    if (bytes == NULL)
        return UCS_ERR_NO_MEMORY;
    *rkey_buffer_p = bytes;
    return UCS_OK;
}

void ucp_rkey_buffer_release(void *rkey_buffer)
{
    mem_free(rkey_buffer);
}

/* If the mark is not ours, nothing after it is read.  UCS_OK; otherwise the log says what is wrong. */
static ucs_status_t key_check(const struct ucp_ep *ep, const void *rkey_buffer,
                              struct key_bytes *bytes)
{
    char text[UCPX_PEER_TEXT];

    if (memcmp(rkey_buffer, mark, sizeof mark) != 0) {
        LOG_ERROR(
            "libucp: received a remote key for %s that is not Matchbox's; start all ranks "
            "with `mbx exec`",
            ucpx_peer_text(ep->worker, ep->peer, text));
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(bytes, rkey_buffer, sizeof *bytes);
    if (!(bytes->rights & ~RIGHTS) && bytes->length <= UINT64_MAX - bytes->address)
        return UCS_OK;
    LOG_ERROR("libucp: received a damaged remote key for %s; please report this",
              ucpx_peer_text(ep->worker, ep->peer, text));
    return UCS_ERR_INVALID_PARAM;
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p)
{
    struct key_bytes bytes;
    struct ucp_rkey *key;
    ucs_status_t status = key_check(ep, rkey_buffer, &bytes);

    if (status != UCS_OK)
        return status;
    if (bytes.rights == 0)
        return UCS_ERR_UNREACHABLE;
    key = mem_alloc(sizeof *key);
    if (key == NULL)
        return UCS_ERR_NO_MEMORY;
    *key = (struct ucp_rkey){.key = bytes.key,
                             .address = bytes.address,
                             .length = bytes.length,
                             .rights = bytes.rights};
    *rkey_p = key;
    return UCS_OK;
}

int ucpx_keys_compare(const struct ucp_rkey *a, const struct ucp_rkey *b)
{
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (int)a->rights - (int)b->rights;
}

/* The memory of a peer is not mapped here. */
ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p)
{
    (void)rkey;
    (void)raddr;
    (void)addr_p;
    return UCS_ERR_UNREACHABLE;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    mem_free(rkey);
}
