/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile_names.h - fi_profile(3): its tables and numbers, which libfabric 1.17's headers lack.
 *
 * libfabric has them since 1.20, and more variables since 2.0; existing numbers never change.
 * Where the headers have some of them, the compiler compares.
 */
#ifndef PROVIDER_PROFILE_NAMES_H
#define PROVIDER_PROFILE_NAMES_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#define PROV_PROFILE_SINCE FI_VERSION(1, 20)
#define PROV_PROFILE_OPS   "fi_profile_ops" /* the name for fi_open_ops() */
#define PROV_CLASS_PROFILE 30               /* FI_CLASS_PROFILE, from 2.0 */
#define PROV_CQ_ERR_ENTRY  33               /* FI_TYPE_CQ_ERR_ENTRY of enum fi_type */

enum prov_var {
    PROV_VAR_UNEXPECTED_COUNT = 0, /* FI_VAR_UNEXP_MSG_CNT, and so on */
    PROV_VAR_UNEXPECTED_QUEUE = 1,
    PROV_VAR_CONNECTIONS = 3,
    PROV_VAR_MEMORY = 7,
};

enum prov_profile_event {
    PROV_EVENT_UNEXPECTED_CAME = 0, /* FI_EVENT_UNEXP_MSG_RECVD */
    PROV_EVENT_UNEXPECTED_TAKEN = 1,
    PROV_PROFILE_EVENTS
};

/* struct fi_cq_err_entry as of 1.20, which added its last member. */
struct prov_profile_entry {
    void *op_context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    size_t olen;
    int err, prov_errno;
    void *err_data;
    size_t err_data_size;
    fi_addr_t src_addr;
};

static_assert(offsetof(struct prov_profile_entry, err_data_size) ==
                  offsetof(struct fi_cq_err_entry, err_data_size),
              "struct fi_cq_err_entry");

#if defined(__has_include) && __has_include(<rdma/fi_profile.h>)
#include <rdma/fi_profile.h>
#define PROV_SAME(theirs, ours) static_assert((int)(theirs) == (int)(ours), #theirs)
static_assert(sizeof(struct prov_profile_entry) == sizeof(struct fi_cq_err_entry),
              "struct fi_cq_err_entry");
PROV_SAME(FI_VAR_UNEXP_MSG_CNT, PROV_VAR_UNEXPECTED_COUNT);
PROV_SAME(FI_VAR_UNEXP_MSG_QUEUE, PROV_VAR_UNEXPECTED_QUEUE);
PROV_SAME(FI_EVENT_UNEXP_MSG_RECVD, PROV_EVENT_UNEXPECTED_CAME);
PROV_SAME(FI_EVENT_UNEXP_MSG_MATCHED, PROV_EVENT_UNEXPECTED_TAKEN);
PROV_SAME(FI_TYPE_CQ_ERR_ENTRY, PROV_CQ_ERR_ENTRY);
#if FI_MAJOR_VERSION >= 2
PROV_SAME(FI_VAR_CONNECTION_CNT, PROV_VAR_CONNECTIONS);
PROV_SAME(FI_VAR_OFI_MEM, PROV_VAR_MEMORY);
PROV_SAME(FI_CLASS_PROFILE, PROV_CLASS_PROFILE);
#endif
#else

enum fi_profile_type { fi_primitive_type, fi_defined_type };

struct fi_profile_desc {
    uint32_t id;
    enum fi_profile_type datatype_sel;
    union {
        enum fi_datatype primitive;
        enum fi_type defined;
    } datatype;
    uint64_t flags;
    size_t size;
    const char *name, *desc;
};

struct fid_profile;

struct fi_profile_ops {
    size_t size;
    void (*reset)(struct fid_profile *profile, uint64_t flags);
    ssize_t (*query_vars)(struct fid_profile *profile, struct fi_profile_desc *list,
                          size_t *count);
    ssize_t (*query_events)(struct fid_profile *profile, struct fi_profile_desc *list,
                            size_t *count);
    ssize_t (*read_var)(struct fid_profile *profile, uint32_t id, void *data, size_t *size);
    int (*reg_callback)(struct fid_profile *profile, uint32_t id,
                        int (*callback)(struct fid_profile *profile,
                                        struct fi_profile_desc *event, void *param, size_t size,
                                        void *context),
                        void *context);
    void (*start_reads)(struct fid_profile *profile, uint64_t flags);
    void (*end_reads)(struct fid_profile *profile, uint64_t flags);
};

struct fid_profile {
    struct fid fid;
    struct fi_profile_ops *ops;
};

#endif
#endif
