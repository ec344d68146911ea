/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unsupported.c - entries for everything that is not offered.
 *
 * Clients call through the tables without checking (libfabric's inline functions do
 * not check most entries, and MPICH calls fi_read() even if RMA was not offered).
 * So every entry of a table is set: unimplemented ones return -FI_ENOSYS.
 */
#include "provider/unsupported.h"

#include <sys/uio.h>

int prov_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    (void)fid, (void)bfid, (void)flags;
    return -FI_ENOSYS;
}

int prov_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid, (void)command, (void)arg;
    return -FI_ENOSYS;
}

int prov_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                     void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

int prov_no_tostr(const struct fid *fid, char *buf, size_t len)
{
    (void)fid, (void)buf, (void)len;
    return -FI_ENOSYS;
}

int prov_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    (void)fid, (void)name, (void)flags, (void)ops, (void)context;
    return -FI_ENOSYS;
}

int prov_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                       void *context)
{
    (void)fabric, (void)info, (void)pep, (void)context;
    return -FI_ENOSYS;
}

int prov_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                        void *context)
{
    (void)domain, (void)info, (void)sep, (void)context;
    return -FI_ENOSYS;
}

int prov_no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context)
{
    (void)domain, (void)attr, (void)stx, (void)context;
    return -FI_ENOSYS;
}

int prov_no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx,
                    void *context)
{
    (void)domain, (void)attr, (void)rx, (void)context;
    return -FI_ENOSYS;
}

int prov_no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                             struct fi_collective_attr *attr, uint64_t flags)
{
    (void)domain, (void)coll, (void)attr, (void)flags;
    return -FI_ENOSYS;
}

/* ---- remote memory access --------------------------------------------------------- */

static ssize_t no_rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src,
                           uint64_t addr, uint64_t key, void *context)
{
    (void)ep, (void)buf, (void)len, (void)desc, (void)src, (void)addr, (void)key;
    (void)context;
    return -FI_ENOSYS;
}

/* readv and writev */
static ssize_t no_rma_vector(struct fid_ep *ep, const struct iovec *iov, void **desc,
                             size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                             void *context)
{
    (void)ep, (void)iov, (void)desc, (void)count, (void)peer, (void)addr, (void)key;
    (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_rma_msg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    (void)ep, (void)msg, (void)flags;
    return -FI_ENOSYS;
}

static ssize_t no_rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                            fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    (void)ep, (void)buf, (void)len, (void)desc, (void)dest, (void)addr, (void)key;
    (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t addr, uint64_t key)
{
    (void)ep, (void)buf, (void)len, (void)dest, (void)addr, (void)key;
    return -FI_ENOSYS;
}

static ssize_t no_rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
                                uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                                void *context)
{
    (void)ep, (void)buf, (void)len, (void)desc, (void)data, (void)dest, (void)addr, (void)key;
    (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t addr, uint64_t key)
{
    (void)ep, (void)buf, (void)len, (void)data, (void)dest, (void)addr, (void)key;
    return -FI_ENOSYS;
}

struct fi_ops_rma prov_no_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = no_rma_read,
    .readv = no_rma_vector,
    .readmsg = no_rma_msg,
    .write = no_rma_write,
    .writev = no_rma_vector,
    .writemsg = no_rma_msg,
    .inject = no_rma_inject,
    .writedata = no_rma_writedata,
    .injectdata = no_rma_injectdata,
};

/* ---- atomics ------------------------------------------------------------------------ */

static ssize_t no_atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                               fi_addr_t dest, uint64_t addr, uint64_t key,
                               enum fi_datatype datatype, enum fi_op op, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)dest, (void)addr, (void)key;
    (void)datatype, (void)op, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op, void *context)
{
    (void)ep, (void)iov, (void)desc, (void)count, (void)dest, (void)addr, (void)key;
    (void)datatype, (void)op, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                  uint64_t flags)
{
    (void)ep, (void)msg, (void)flags;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_inject(struct fid_ep *ep, const void *buf, size_t count,
                                fi_addr_t dest, uint64_t addr, uint64_t key,
                                enum fi_datatype datatype, enum fi_op op)
{
    (void)ep, (void)buf, (void)count, (void)dest, (void)addr, (void)key, (void)datatype;
    (void)op;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                   void *result, void *result_desc, fi_addr_t dest,
                                   uint64_t addr, uint64_t key, enum fi_datatype datatype,
                                   enum fi_op op, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc, (void)dest;
    (void)addr, (void)key, (void)datatype, (void)op, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                    size_t count, struct fi_ioc *resultv, void **result_desc,
                                    size_t result_count, fi_addr_t dest, uint64_t addr,
                                    uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                    void *context)
{
    (void)ep, (void)iov, (void)desc, (void)count, (void)resultv, (void)result_desc;
    (void)result_count, (void)dest, (void)addr, (void)key, (void)datatype, (void)op;
    (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                      struct fi_ioc *resultv, void **result_desc,
                                      size_t result_count, uint64_t flags)
{
    (void)ep, (void)msg, (void)resultv, (void)result_desc, (void)result_count, (void)flags;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                   const void *compare, void *compare_desc, void *result,
                                   void *result_desc, fi_addr_t dest, uint64_t addr,
                                   uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                   void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)compare, (void)compare_desc;
    (void)result, (void)result_desc, (void)dest, (void)addr, (void)key, (void)datatype;
    (void)op, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
                                    size_t count, const struct fi_ioc *comparev,
                                    void **compare_desc, size_t compare_count,
                                    struct fi_ioc *resultv, void **result_desc,
                                    size_t result_count, fi_addr_t dest, uint64_t addr,
                                    uint64_t key, enum fi_datatype datatype, enum fi_op op,
                                    void *context)
{
    (void)ep, (void)iov, (void)desc, (void)count, (void)comparev, (void)compare_desc;
    (void)compare_count, (void)resultv, (void)result_desc, (void)result_count, (void)dest;
    (void)addr, (void)key, (void)datatype, (void)op, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                                      const struct fi_ioc *comparev, void **compare_desc,
                                      size_t compare_count, struct fi_ioc *resultv,
                                      void **result_desc, size_t result_count, uint64_t flags)
{
    (void)ep, (void)msg, (void)comparev, (void)compare_desc, (void)compare_count;
    (void)resultv, (void)result_desc, (void)result_count, (void)flags;
    return -FI_ENOSYS;
}

static int no_atomic_valid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
                           size_t *count)
{
    (void)ep, (void)datatype, (void)op, (void)count;
    return -FI_ENOSYS;
}

struct fi_ops_atomic prov_no_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    .write = no_atomic_write,
    .writev = no_atomic_writev,
    .writemsg = no_atomic_writemsg,
    .inject = no_atomic_inject,
    .readwrite = no_atomic_readwrite,
    .readwritev = no_atomic_readwritev,
    .readwritemsg = no_atomic_readwritemsg,
    .compwrite = no_atomic_compwrite,
    .compwritev = no_atomic_compwritev,
    .compwritemsg = no_atomic_compwritemsg,
    .writevalid = no_atomic_valid,
    .readwritevalid = no_atomic_valid,
    .compwritevalid = no_atomic_valid,
};

/* ---- collectives ---------------------------------------------------------------------- */

static ssize_t no_coll_barrier(struct fid_ep *ep, fi_addr_t group, void *context)
{
    (void)ep, (void)group, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_coll_barrier2(struct fid_ep *ep, fi_addr_t group, uint64_t flags,
                                void *context)
{
    (void)ep, (void)group, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_coll_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
                                 fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
                                 uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)group, (void)root, (void)datatype;
    (void)flags, (void)context;
    return -FI_ENOSYS;
}

/* alltoall and allgather */
static ssize_t no_coll_all(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                           void *result, void *result_desc, fi_addr_t group,
                           enum fi_datatype datatype, uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc;
    (void)group, (void)datatype, (void)flags, (void)context;
    return -FI_ENOSYS;
}

/* allreduce and reduce_scatter */
static ssize_t no_coll_reduce_all(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                                  void *result, void *result_desc, fi_addr_t group,
                                  enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                                  void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc;
    (void)group, (void)datatype, (void)op, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_coll_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                              void *result, void *result_desc, fi_addr_t group, fi_addr_t root,
                              enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                              void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc;
    (void)group, (void)root, (void)datatype, (void)op, (void)flags, (void)context;
    return -FI_ENOSYS;
}

/* scatter and gather */
static ssize_t no_coll_rooted(struct fid_ep *ep, const void *buf, size_t count, void *desc,
                              void *result, void *result_desc, fi_addr_t group, fi_addr_t root,
                              enum fi_datatype datatype, uint64_t flags, void *context)
{
    (void)ep, (void)buf, (void)count, (void)desc, (void)result, (void)result_desc;
    (void)group, (void)root, (void)datatype, (void)flags, (void)context;
    return -FI_ENOSYS;
}

static ssize_t no_coll_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
                           struct fi_ioc *resultv, void **result_desc, size_t result_count,
                           uint64_t flags)
{
    (void)ep, (void)msg, (void)resultv, (void)result_desc, (void)result_count, (void)flags;
    return -FI_ENOSYS;
}

struct fi_ops_collective prov_no_collective_ops = {
    .size = sizeof(struct fi_ops_collective),
    .barrier = no_coll_barrier,
    .broadcast = no_coll_broadcast,
    .alltoall = no_coll_all,
    .allreduce = no_coll_reduce_all,
    .allgather = no_coll_all,
    .reduce_scatter = no_coll_reduce_all,
    .reduce = no_coll_reduce,
    .scatter = no_coll_rooted,
    .gather = no_coll_rooted,
    .msg = no_coll_msg,
    .barrier2 = no_coll_barrier2,
};
