/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unsupported.h - complete tables and entries that answer -FI_ENOSYS: unsupported.c.
 */
#ifndef PROVIDER_UNSUPPORTED_H
#define PROVIDER_UNSUPPORTED_H

#include "provider/compat.h"

extern struct fi_ops_rma prov_no_rma_ops;
extern struct fi_ops_atomic prov_no_atomic_ops;
extern struct fi_ops_collective prov_no_collective_ops;

int prov_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int prov_no_control(struct fid *fid, int command, void *arg);
int prov_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
                     void *context);
int prov_no_tostr(const struct fid *fid, char *buf, size_t len);
int prov_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops,
                    void *context);
int prov_no_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                       void *context);
int prov_no_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
                        void *context);
int prov_no_stx_ctx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                    void *context);
int prov_no_srx_ctx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx,
                    void *context);
int prov_no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                             struct fi_collective_attr *attr, uint64_t flags);

#endif
