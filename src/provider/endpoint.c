/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.c - the endpoint: open, bind, enable, options, close.
 *
 * The Matchbox endpoint is opened with ours, so that fi_getname() works before
 * fi_enable().  Whether all bindings exist is checked at fi_enable().
 */
#include "provider/cancel.h"
#include "provider/data.h"
#include "provider/ep.h"
#include "provider/envelope.h"
#include "provider/eq.h"
#include "provider/fabric.h"
#include "door/idle.h"
#include "provider/library.h"
#include "provider/mr.h"
#include "provider/name.h"
#include "provider/param.h"
#include "provider/profile.h"
#include "provider/rma.h"
#include "provider/text.h"
#include "provider/unsupported.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct prov_ep *ep_of_fid(struct fid *fid)
{
    return container_of(fid, struct prov_ep, fid.fid);
}

/* ---- options -------------------------------------------------------------------------- */

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    size_t capacity = *len;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    *len = sizeof(size_t);
    if (capacity < sizeof(size_t))
        return -FI_ETOOSMALL;
    memcpy(value, &ep_of_fid(fid)->multi.min, sizeof(size_t));
    return 0;
}

/* The new minimum applies to buffers that are posted from now on. */
static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    struct prov_ep *ep = ep_of_fid(fid);
    size_t min;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV)
        return -FI_ENOPROTOOPT;
    if (len < sizeof min)
        return -FI_EINVAL;
    memcpy(&min, value, sizeof min);
    prov_ep_lock(ep);
    prov_multi_set_min(ep, min);
    prov_ep_unlock(ep);
    return 0;
}

static int ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)tx, (void)context;
    return -FI_ENOSYS;
}

static int ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx,
                     void *context)
{
    (void)sep, (void)index, (void)attr, (void)rx, (void)context;
    return -FI_ENOSYS;
}

/* The queues have no fixed depth: there is always space. */
static ssize_t ep_rx_size_left(struct fid_ep *fid)
{
    return (ssize_t)prov_ep_of(fid)->recv.size;
}

static ssize_t ep_tx_size_left(struct fid_ep *fid)
{
    return (ssize_t)prov_ep_of(fid)->send.size;
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = prov_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = ep_tx_ctx,
    .rx_ctx = ep_rx_ctx,
    .rx_size_left = ep_rx_size_left,
    .tx_size_left = ep_tx_size_left,
};

/* ---- names ------------------------------------------------------------------------------ */

/* Reads an address of size bytes; false if they are none. */
static bool name_take(uint32_t format, const void *in, size_t size, struct mbx_address *address)
{
    if (format != FI_ADDR_STR && size != sizeof *address)
        return false;
    if (format == FI_ADDR_STR && memchr(in, '\0', size) == NULL)
        return false;
    return prov_address_take(format, in, address) == 0;
}

/* Matchbox chooses an endpoint's address; the client can choose a service name. */
static int ep_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct prov_ep *ep = ep_of_fid(fid);
    struct mbx_address name;

    if (addr == NULL || !name_take(ep->domain->addr_format, addr, addrlen, &name))
        return -FI_EINVAL;
    if (!prov_is_name(&name))
        return -FI_EOPNOTSUPP;
    return ep->enabled ? -FI_EOPBADSTATE : prov_name_publish(ep, &name);
}

static_assert(sizeof(struct mbx_address) <= FI_NAME_MAX, "Open MPI has space for no more");

static int ep_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct prov_ep *ep = ep_of_fid(fid);
    struct mbx_address address;
    int err = mbx_address_get(ep->mbx, &address);

    if (err < 0)
        return err;
    return prov_address_put(ep->domain->addr_format, &address, addr, *addrlen, addrlen);
}

static int ep_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    (void)ep, (void)addr, (void)addrlen;
    return -FI_ENOSYS;
}

static int ep_connect(struct fid_ep *ep, const void *addr, const void *param, size_t len)
{
    (void)ep, (void)addr, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int ep_listen(struct fid_pep *pep)
{
    (void)pep;
    return -FI_ENOSYS;
}

static int ep_accept(struct fid_ep *ep, const void *param, size_t len)
{
    (void)ep, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int ep_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
    (void)pep, (void)handle, (void)param, (void)len;
    return -FI_ENOSYS;
}

static int ep_shutdown(struct fid_ep *ep, uint64_t flags)
{
    (void)ep, (void)flags;
    return -FI_ENOSYS;
}

static int ep_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                   void *context)
{
    (void)ep, (void)addr, (void)flags, (void)mc, (void)context;
    return -FI_ENOSYS;
}

static struct fi_ops_cm ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = ep_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = ep_listen,
    .accept = ep_accept,
    .reject = ep_reject,
    .shutdown = ep_shutdown,
    .join = ep_join,
};

static struct fi_ops_tagged tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = prov_trecv,
    .recvv = prov_trecvv,
    .recvmsg = prov_trecvmsg,
    .send = prov_tsend,
    .sendv = prov_tsendv,
    .sendmsg = prov_tsendmsg,
    .inject = prov_tinject,
    .senddata = prov_tsenddata,
    .injectdata = prov_tinjectdata,
};

static struct fi_ops_msg msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = prov_recv,
    .recvv = prov_recvv,
    .recvmsg = prov_recvmsg,
    .send = prov_send,
    .sendv = prov_sendv,
    .sendmsg = prov_sendmsg,
    .inject = prov_inject,
    .senddata = prov_senddata,
    .injectdata = prov_injectdata,
};

prov_finish_fn *const prov_op_finish[PROV_OP_KINDS] = {
    [PROV_OP_READ] = prov_access_finish,
    [PROV_OP_WRITE] = prov_access_finish,
    [PROV_OP_PART] = prov_multi_finish_part,
    [PROV_OP_SENTINEL] = prov_multi_finish_sentinel,
};

/* ---- bind and enable ------------------------------------------------------------------------
 */

static int ep_bind_cq(struct prov_ep *ep, struct prov_cq *cq, uint64_t flags)
{
    unsigned queues = (flags & FI_TRANSMIT ? ep->cqs.send_queues : 0) |
                      (flags & FI_RECV ? ep->cqs.recv_queues : 0);
    bool selective = flags & FI_SELECTIVE_COMPLETION;
    int err;

    if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) || queues == 0)
        return -FI_EBADFLAGS;
    err = prov_cq_bind(cq, ep, queues);
    if (err < 0)
        return err;
    prov_ep_lock(ep);
    if (queues & MBX_SENDS)
        prov_send_set_selective(ep, selective);
    if (queues & MBX_RECVS)
        prov_recv_set_selective(ep, selective);
    prov_ep_unlock(ep);
    prov_cq_ring(cq); /* waiters do not know of ep */
    return 0;
}

static int ep_bind_eq(struct prov_ep *ep, struct prov_eq *eq)
{
    if (ep->eq != NULL)
        return -FI_EINVAL;
    atomic_fetch_add(&eq->users, 1);
    ep->eq = eq;
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct prov_ep *ep = ep_of_fid(fid);

    if (ep->enabled)
        return -FI_EOPBADSTATE;
    switch (bfid->fclass) {
    case FI_CLASS_CQ:
        return ep_bind_cq(ep, container_of(bfid, struct prov_cq, fid.fid), flags);
    case FI_CLASS_AV:
        return prov_av_bind(container_of(bfid, struct prov_av, fid.fid), ep);
    case FI_CLASS_EQ:
        return ep_bind_eq(ep, container_of(bfid, struct prov_eq, fid.fid));
    case FI_CLASS_CNTR:
        return prov_cntr_bind(container_of(bfid, struct prov_cntr, fid.fid), ep, flags);
    default:
        return -FI_EINVAL;
    }
}

static int ep_enable(struct prov_ep *ep)
{
    int err;

    if (ep->av.vector == NULL)
        return -FI_ENOAV;
    if ((ep->caps & FI_SEND && ep->cqs.send == NULL && ep->cntrs.of[PROV_COUNT_SEND] == NULL) ||
        (ep->caps & FI_RECV && ep->cqs.recv == NULL && ep->cntrs.of[PROV_COUNT_RECV] == NULL))
        return -FI_ENOCQ;
    prov_ep_lock(ep);
    prov_ep_cqs_enable(ep);
    prov_ep_unlock(ep);
    if (ep->domain->auto_progress && (err = prov_thread_always(ep)) < 0)
        return err;
    ep->enabled = true;
    return 0;
}

static int ep_getflags(const struct prov_ep *ep, uint64_t *flags)
{
    bool send = *flags & FI_TRANSMIT, recv = *flags & FI_RECV;

    if (send == recv)
        return -FI_EINVAL;
    *flags = send ? ep->send.flags : ep->recv.flags;
    return 0;
}

static int ep_setflags(struct prov_ep *ep, uint64_t flags)
{
    bool send = flags & FI_TRANSMIT, recv = flags & FI_RECV;

    if (send == recv)
        return -FI_EINVAL;
    flags &= ~(FI_TRANSMIT | FI_RECV);
    if (send)
        prov_send_set_flags(ep, flags);
    else
        prov_recv_set_flags(ep, flags);
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct prov_ep *ep = ep_of_fid(fid);

    switch (command) {
    case FI_ENABLE:
        return ep_enable(ep);
    case FI_GETOPSFLAG:
        return ep_getflags(ep, arg);
    case FI_SETOPSFLAG:
        return ep_setflags(ep, *(uint64_t *)arg);
    default:
        return -FI_ENOSYS;
    }
}

/* ---- close and open
 * --------------------------------------------------------------------------- */

static int ep_close(struct fid *fid)
{
    struct prov_ep *ep = ep_of_fid(fid);

    /* Waiters of these objects may arm the thread, until the objects have dropped the
     * endpoint. */
    prov_mr_leave(ep);
    prov_cntr_unbind(ep);
    prov_ep_cqs_unbind(ep);
    prov_thread_fini(ep);
    prov_av_unbind(ep);
    if (ep->eq != NULL)
        atomic_fetch_sub(&ep->eq->users, 1);
    prov_name_withdraw(ep);
    prov_profiles_leave(ep);
    /* Sends that could not be delivered in time are logged by the Matchbox endpoint; ours is
     * closed. */
    mbx_close(ep->mbx);
    prov_multi_free(ep);
    prov_ops_free(&ep->ops);
    prov_claims_free(ep);
    prov_index_free(ep);
    atomic_fetch_sub(&ep->domain->users, 1);
    pthread_mutex_destroy(&ep->lock);
    free(ep);
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = prov_profile_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static void ep_configure(struct prov_ep *ep, const struct fi_info *info)
{
    struct mbx_limits limits;

    mbx_limits_get(ep->mbx, &limits, sizeof limits);
    ep->atomic_limit = limits.atomic;
    ep->locks = prov_needs_locks(ep->domain->threading) || ep->domain->auto_progress ||
                (prov_is_accessed(info->caps) && ep->domain->threading == FI_THREAD_COMPLETION);
    ep->caps = info->caps;
    prov_send_init(ep, limits.inject, info->tx_attr);
    prov_recv_init(ep, info->rx_attr);
    prov_multi_init(ep);
    prov_ep_cqs_init(ep);
}

/* Publishes the source of the client's fi_getinfo(), if it is a name. */
static int ep_publish(struct prov_ep *ep, const struct fi_info *info)
{
    struct mbx_address name;

    prov_name_sweep();
    if (info->src_addr == NULL ||
        !name_take(ep->domain->addr_format, info->src_addr, info->src_addrlen, &name))
        return 0;
    return prov_is_name(&name) ? prov_name_publish(ep, &name) : 0;
}

/* Adds the format of tags as a parameter; an adapter derives the compared bits from it. text
 * must live as long as params. */
static void ep_text_of_tags(struct prov_params *params, const struct fi_info *info, char *text,
                            size_t size)
{
    const uint64_t format =
        info->ep_attr != NULL ? info->ep_attr->mem_tag_format & ~PROV_HAS_DATA : 0;

    snprintf(text, size, "DEVICE_TAG_FORMAT=%" PRIx64,
             format != 0 ? format : PROV_TAG_FORMAT_DEVICE);
    prov_params_add(params, text);
}

static int ep_open_mbx(struct prov_ep *ep, const struct fi_info *info)
{
    struct prov_params params;
    char tags[48];
    int err;

    prov_params_init(&params);
    /* prov_ep_lock() guards our own data too, so the library needs no second lock */
    prov_params_add(&params, "THREADS=one");
    if (prov_is_oversubscribed())
        prov_params_add(&params, "OVERSUBSCRIBED=yes");
    if (prov_param_adapter_matches())
        ep_text_of_tags(&params, info, tags, sizeof tags);
    err = prov_params_add_all(&params);
    if (err == 0)
        err = mbx_open(&(struct mbx_config){.params = params.list}, &ep->mbx);
    if (err == -EINVAL && params.text != NULL && params.text[0] != '\0')
        prov_log(FI_LOG_WARN, "no endpoint: what the line before calls MBX_... may be set as "
                              "FI_MATCHBOX_...");
    prov_params_fini(&params);
    return err;
}

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **fid,
                 void *context)
{
    struct prov_ep *ep;
    int err;

    if (info == NULL || (info->ep_attr != NULL && info->ep_attr->type != FI_EP_RDM &&
                         info->ep_attr->type != FI_EP_UNSPEC))
        return -FI_EINVAL;
    ep = calloc(1, sizeof *ep);
    if (ep == NULL)
        return -FI_ENOMEM;
    ep->domain = container_of(domain, struct prov_domain, fid);
    err = ep_open_mbx(ep, info);
    if (err < 0)
        goto free_ep;
    err = prov_op_slab_add(&ep->ops);
    if (err < 0)
        goto close_mbx;
    prov_name_init(ep);
    err = ep_publish(ep, info);
    if (err < 0)
        goto free_slabs;
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &ep_cm_ops;
    ep->fid.msg = &msg_ops;
    ep->fid.rma = info->caps & FI_RMA ? &prov_rma_ops : &prov_no_rma_ops;
    ep->fid.tagged = &tagged_ops;
    ep->fid.atomic = info->caps & FI_ATOMIC ? &prov_atomic_ops : &prov_no_atomic_ops;
    ep->fid.collective = &prov_no_collective_ops;
    ep_configure(ep, info);
    pthread_mutex_init(&ep->lock, NULL);
    door_idle_init(&ep->idle, prov_is_oversubscribed());
    prov_thread_init(ep);
    prov_cntr_listen_regions(ep);
    err = info->caps & (FI_RMA | FI_ATOMIC) ? prov_mr_join(ep) : 0;
    if (err < 0)
        goto stop_thread;
    atomic_fetch_add(&ep->domain->users, 1);
    *fid = &ep->fid;
    return 0;

stop_thread:
    prov_thread_fini(ep);
    pthread_mutex_destroy(&ep->lock);
    prov_name_withdraw(ep);
free_slabs:
    prov_ops_free(&ep->ops);
close_mbx:
    mbx_close(ep->mbx);
free_ep:
    free(ep);
    return err;
}
