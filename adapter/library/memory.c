/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - protection domains, memory regions, address handles.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "adapter/library/library.h"
#include "base/mem.h"

static void *fail(int err)
{
    errno = err;
    return NULL;
}

/* ---- domains ---- */

API struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    const struct adapter_request request = {.op = ADAPTER_ALLOC_PD};
    struct adapter_reply reply;
    struct ibv_pd *pd = mem_calloc(1, sizeof *pd);
    int err = pd == NULL ? ENOMEM : control(lib_context(context), &request, &reply, -1, NULL);

    if (err != 0) {
        mem_free(pd);
        return fail(err);
    }
    pd->context = context;
    pd->handle = reply.handle;
    return pd;
}

API int ibv_dealloc_pd(struct ibv_pd *pd)
{
    const int err = control_destroy(pd->context, pd->handle);

    if (err == 0)
        mem_free(pd);
    return err;
}

API struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    (void)context, (void)handle;
    return fail(EOPNOTSUPP);
}

API void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}

/* ---- regions ---- */

API struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned access)
{
    const struct adapter_request request = {.op = ADAPTER_REG_MR,
                                            .mr = {.addr = (uintptr_t)addr,
                                                   .length = length,
                                                   .iova = iova,
                                                   .pd = pd->handle,
                                                   .access = access}};
    struct adapter_reply reply;
    struct ibv_mr *mr;
    int err;

    if (!lib_is_own(pd->context)) {
        __typeof__(&ibv_reg_mr_iova2) next =
            (__typeof__(&ibv_reg_mr_iova2))reach_foreign("ibv_reg_mr_iova2");

        return next != NULL ? next(pd, addr, length, iova, access) : fail(EOPNOTSUPP);
    }
    mr = mem_calloc(1, sizeof *mr);
    err = mr == NULL ? ENOMEM : control(lib_context(pd->context), &request, &reply, -1, NULL);

    if (err != 0) {
        mem_free(mr);
        return fail(err);
    }
    *mr = (struct ibv_mr){.context = pd->context,
                          .pd = pd,
                          .addr = addr,
                          .length = length,
                          .handle = reply.handle,
                          .lkey = reply.mr.lkey,
                          .rkey = reply.mr.rkey};
    return mr;
}

API struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

API struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                   int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

API struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                     uint64_t iova, int fd, int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    return fail(EOPNOTSUPP);
}

API int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                     int access)
{
    const struct adapter_request request = {.op = ADAPTER_REREG_MR,
                                            .handle = mr->handle,
                                            .mr = {.addr = (uintptr_t)addr,
                                                   .length = length,
                                                   .pd = pd != NULL ? pd->handle : 0,
                                                   .access = (uint32_t)access,
                                                   .flags = (uint32_t)flags}};
    struct adapter_reply reply;
    int err;

    if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 ||
        ((flags & IBV_REREG_MR_CHANGE_PD) && pd == NULL) ||
        ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (addr == NULL || length == 0))) {
        errno = EINVAL;
        return IBV_REREG_MR_ERR_INPUT;
    }
    err = control(lib_context(mr->context), &request, &reply, -1, NULL);
    if (err != 0) {
        errno = err;
        return IBV_REREG_MR_ERR_INPUT;
    }
    mr->lkey = reply.mr.lkey;
    mr->rkey = reply.mr.rkey;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        mr->pd = pd;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        mr->addr = addr;
        mr->length = length;
    }
    return 0;
}

API int ibv_dereg_mr(struct ibv_mr *mr)
{
    const int err = control_destroy(mr->context, mr->handle);

    if (err == 0)
        mem_free(mr);
    return err;
}

API struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    (void)pd, (void)handle;
    return fail(EOPNOTSUPP);
}

API void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

/* ---- address handles ---- */

API struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct lib_ah *ah;

    if (!lib_context(pd->context)->is_over &&
        (attr->port_num != 1 || (attr->is_global && attr->grh.sgid_index != 0)))
        return fail(EINVAL);
    ah = mem_calloc(1, sizeof *ah);
    if (ah == NULL)
        return fail(ENOMEM);
    ah->ah.context = pd->context;
    ah->ah.pd = pd;
    ah->to.lid = attr->dlid;
    ah->to.is_global = attr->is_global != 0;
    ah->to.sl = attr->sl;
    ah->to.port = attr->port_num;
    ah->to.sgid_index = attr->grh.sgid_index;
    ah->to.hop_limit = attr->grh.hop_limit;
    ah->to.traffic_class = attr->grh.traffic_class;
    ah->to.flow_label = attr->grh.flow_label;
    memcpy(ah->to.gid, attr->grh.dgid.raw, sizeof ah->to.gid);
    return &ah->ah;
}

API int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                            struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    if (lib_context(context)->is_over)
        return EOPNOTSUPP; /* the sgid_index depends on the adapter's link layer */
    *attr = (struct ibv_ah_attr){.dlid = wc->slid, .sl = wc->sl, .port_num = port};
    if (wc->wc_flags & IBV_WC_GRH) {
        attr->is_global = 1;
        attr->grh.dgid = grh->sgid;
        attr->grh.hop_limit = 64;
    }
    return 0;
}

API struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                         struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr attr;

    const int err = ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr);

    if (err != 0)
        return fail(err);
    return ibv_create_ah(pd, &attr);
}

API int ibv_destroy_ah(struct ibv_ah *ah)
{
    mem_free(container_of(ah, struct lib_ah, ah));
    return 0;
}
