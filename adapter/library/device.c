/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - the device and its attributes.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/environ.h"
#include "base/mem.h"

#define DEVICE(number)                                                                         \
    {                                                                                          \
        .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB,                          \
        .name = LIB_DEVICE_NAME #number, .dev_name = "mbx-adapter" #number                     \
    }

/* Names of the same adapter; ADAPTER_ENV_DEVICES sets their number. */
static struct ibv_device devices[] = {DEVICE(0), DEVICE(1), DEVICE(2), DEVICE(3)};

bool lib_device_is_own(const struct ibv_device *which)
{
    return which >= devices && which < devices + ARRAY_COUNT(devices);
}

/* Calls libibverbs' function of the same name, and returns, if the call is not about our
 * device. */
#define PASS_ON(is_own, name, ...)                                                             \
    do {                                                                                       \
        __typeof__(&name) next_;                                                               \
                                                                                               \
        if (!(is_own) && (next_ = (__typeof__(&name))reach_foreign(#name)) != NULL)            \
            return next_(__VA_ARGS__);                                                         \
    } while (0)

/* ---- the list ---- */

static size_t devices_shown(void)
{
    const char *text = environ_get(ADAPTER_ENV_DEVICES);

    return text == NULL ? 1 : min_size(strtoul(text, NULL, 10), ARRAY_COUNT(devices));
}

API struct ibv_device **ibv_get_device_list(int *count)
{
    const size_t shown = devices_shown();
    struct ibv_device **list = mem_calloc(shown + 1, sizeof(struct ibv_device *));

    if (list == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    for (size_t i = 0; i < shown; i++)
        list[i] = &devices[i];
    if (count != NULL)
        *count = (int)shown;
    return list;
}

API void ibv_free_device_list(struct ibv_device **list)
{
    mem_free(list);
}

API const char *ibv_get_device_name(struct ibv_device *which)
{
    PASS_ON(lib_device_is_own(which), ibv_get_device_name, which);
    return which->name;
}

API int ibv_get_device_index(struct ibv_device *which)
{
    PASS_ON(lib_device_is_own(which), ibv_get_device_index, which);
    return -1;
}

API __be64 ibv_get_device_guid(struct ibv_device *which)
{
    struct ibv_context *context;
    __be64 guid = 0;

    PASS_ON(lib_device_is_own(which), ibv_get_device_guid, which);
    context = ibv_open_device(which);
    if (context != NULL) {
        guid = htobe64(lib_context(context)->guid);
        ibv_close_device(context);
    }
    return guid;
}

/* ---- attributes ---- */

static int fill_attr_over(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct adapter_reply reply;
    const int err = control_query(context, ADAPTER_QUERY_DEVICE, 0, 0, &reply);

    if (err == 0)
        *attr = reply.device;
    return err;
}

static int fill_attr(struct ibv_context *context, struct ibv_device_attr *attr)
{
    if (lib_context(context)->is_over)
        return fill_attr_over(context, attr);
    *attr = (struct ibv_device_attr){
        .fw_ver = "1.0",
        .node_guid = htobe64(lib_context(context)->guid),
        .sys_image_guid = htobe64(lib_context(context)->guid),
        .max_mr_size = UINT64_MAX,
        .page_size_cap = 4096,
        .vendor_id = LIB_VENDOR,
        .vendor_part_id = 1,
        .hw_ver = ADAPTER_VERSION,
        .max_qp = ADAPTER_OBJECTS_MAX,
        .max_qp_wr = ADAPTER_WR_MAX,
        .device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID,
        .max_sge = ADAPTER_SGE_MAX,
        .max_sge_rd = ADAPTER_SGE_MAX,
        .max_cq = ADAPTER_OBJECTS_MAX,
        .max_cqe = ADAPTER_CQE_MAX,
        .max_mr = ADAPTER_OBJECTS_MAX,
        .max_pd = ADAPTER_OBJECTS_MAX,
        .max_qp_rd_atom = ADAPTER_READS_MAX,
        .max_res_rd_atom = ADAPTER_READS_MAX * ADAPTER_OBJECTS_MAX,
        .max_qp_init_rd_atom = ADAPTER_READS_MAX,
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_ah = ADAPTER_OBJECTS_MAX,
        .max_srq = ADAPTER_OBJECTS_MAX,
        .max_srq_wr = ADAPTER_WR_MAX,
        .max_srq_sge = ADAPTER_SGE_MAX,
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
    return 0;
}

API int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    PASS_ON(lib_is_own(context), ibv_query_device, context, attr);
    return fill_attr(context, attr);
}

static int query_device_ex(struct ibv_context *context,
                           const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex all = {.completion_timestamp_mask = UINT64_MAX,
                                     .hca_core_clock = 1000000, /* kHz: nanoseconds */
                                     .device_cap_flags_ex =
                                         IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID};
    int err;

    if (input != NULL && input->comp_mask != 0)
        return EINVAL;
    if (lib_context(context)->tags > 0)
        all.tm_caps = (struct ibv_tm_caps){
            .max_rndv_hdr_size = lib_context(context)->has_rendezvous ? ADAPTER_RNDV_MAX : 0,
            .max_num_tags = lib_context(context)->tags,
            .flags = lib_context(context)->has_rendezvous ? IBV_TM_CAP_RC : 0,
            .max_ops = ADAPTER_WR_MAX,
            .max_sge = 1};
    err = fill_attr(context, &all.orig_attr);
    if (err != 0)
        return err;
    all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
    memset(attr, 0, size);
    memcpy(attr, &all, min_size(size, sizeof all));
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size)
{
    const struct ibv_port_attr all = {.state = IBV_PORT_ACTIVE,
                                      .max_mtu = IBV_MTU_4096,
                                      .active_mtu = IBV_MTU_4096,
                                      .gid_tbl_len = 1,
                                      .max_msg_sz = ADAPTER_MESSAGE_MAX,
                                      .pkey_tbl_len = 1,
                                      .lid = lib_context(context)->lid,
                                      .sm_lid = 1,
                                      .max_vl_num = 1,
                                      .active_width = 2,  /* 4X */
                                      .active_speed = 32, /* EDR */
                                      .phys_state = 5,    /* link up */
                                      .link_layer = IBV_LINK_LAYER_INFINIBAND};

    if (lib_context(context)->is_over) {
        struct adapter_reply reply;
        const int err = control_query(context, ADAPTER_QUERY_PORT, port, 0, &reply);

        if (err == 0)
            memcpy(attr, &reply.port, min_size(size, sizeof reply.port));
        return err;
    }
    if (port != 1)
        return EINVAL;
    memcpy(attr, &all, min_size(size, sizeof all));
    return 0;
}

/* For programs built before struct ibv_port_attr had all of its fields. */
API int ibv_query_port(struct ibv_context *context, uint8_t port,
                       struct _compat_ibv_port_attr *attr)
{
    PASS_ON(lib_is_own(context), ibv_query_port, context, port, attr);
    return query_port(context, port, (struct ibv_port_attr *)attr,
                      offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int gid_over(struct ibv_context *context, uint32_t port, uint32_t index,
                    struct ibv_gid_entry *entry)
{
    struct adapter_reply reply;
    const int err = control_query(context, ADAPTER_QUERY_GID, port, index, &reply);

    *entry = (struct ibv_gid_entry){.gid_index = index, .port_num = port};
    if (err != 0)
        return err;
    entry->gid_type = reply.gid.type;
    entry->ndev_ifindex = reply.gid.interface;
    memcpy(entry->gid.raw, reply.gid.raw, sizeof entry->gid.raw);
    return 0;
}

API int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    PASS_ON(lib_is_own(context), ibv_query_gid, context, port, index, gid);
    if (lib_context(context)->is_over) {
        struct ibv_gid_entry entry;
        const int err = gid_over(context, port, (uint32_t)index, &entry);

        *gid = entry.gid;
        errno = err;
        return err == 0 ? 0 : -1;
    }
    if (port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    gid->global.subnet_prefix = htobe64(UINT64_C(0xfe80) << 48);
    gid->global.interface_id = htobe64(lib_context(context)->guid);
    return 0;
}

/* From libibverbs' private header: enum ibv_gid_type_sysfs, 0 is InfiniBand (and RoCE v1). */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
                       unsigned *type);

API int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
                           unsigned *type)
{
    PASS_ON(lib_is_own(context), ibv_query_gid_type, context, port, index, type);
    *type = 0;
    if (lib_context(context)->is_over) {
        struct ibv_gid_entry entry;
        const int err = gid_over(context, port, index, &entry);

        *type = entry.gid_type == IBV_GID_TYPE_ROCE_V2; /* 0: all other types */
        errno = err;
        return err == 0 ? 0 : -1;
    }
    if (port == 1 && index == 0)
        return 0;
    errno = EINVAL;
    return -1;
}

API int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                          struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct ibv_gid_entry all = {
        .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB};

    PASS_ON(lib_is_own(context), _ibv_query_gid_ex, context, port, index, entry, flags, size);
    if (flags == 0 && lib_context(context)->is_over) {
        const int err = gid_over(context, port, index, &all);

        if (err == 0)
            memcpy(entry, &all, min_size(size, sizeof all));
        return err;
    }
    if (flags != 0 || port != 1 || index != 0)
        return flags != 0 ? EOPNOTSUPP : EINVAL;
    ibv_query_gid(context, 1, 0, &all.gid);
    memcpy(entry, &all, min_size(size, sizeof all));
    return 0;
}

static ssize_t gid_table_over(struct ibv_context *context, struct ibv_gid_entry *entries,
                              size_t max, size_t size)
{
    static const union ibv_gid none;
    struct ibv_device_attr device;
    struct ibv_port_attr attr;
    size_t count = 0;

    if (fill_attr(context, &device) != 0)
        return -EIO;
    for (uint8_t port = 1; port <= device.phys_port_cnt; port++) {
        if (query_port(context, port, &attr, sizeof attr) != 0)
            continue;
        for (int index = 0; index < attr.gid_tbl_len && count < max; index++) {
            struct ibv_gid_entry entry;

            if (gid_over(context, port, (uint32_t)index, &entry) == 0 &&
                memcmp(&entry.gid, &none, sizeof none) != 0)
                memcpy((unsigned char *)entries + size * count++, &entry,
                       min_size(size, sizeof entry));
        }
    }
    return (ssize_t)count;
}

API ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                 size_t max, uint32_t flags, size_t size)
{
    PASS_ON(lib_is_own(context), _ibv_query_gid_table, context, entries, max, flags, size);
    if (max == 0)
        return -EINVAL;
    if (flags == 0 && lib_context(context)->is_over)
        return gid_table_over(context, entries, max, size);
    return _ibv_query_gid_ex(context, 1, 0, entries, flags, size) == 0 ? 1 : -EOPNOTSUPP;
}

API int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    PASS_ON(lib_is_own(context), ibv_query_pkey, context, port, index, pkey);
    if (lib_context(context)->is_over) {
        struct adapter_reply reply;
        const int err =
            control_query(context, ADAPTER_QUERY_PKEY, port, (uint32_t)index, &reply);

        if (err == 0)
            *pkey = reply.pkey;
        errno = err;
        return err == 0 ? 0 : -1;
    }
    if (port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(ADAPTER_PKEY);
    return 0;
}

API int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    PASS_ON(lib_is_own(context), ibv_get_pkey_index, context, port, pkey);
    if (port == 1 && pkey == htobe16(ADAPTER_PKEY))
        return 0;
    errno = EINVAL;
    return -1;
}

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    (void)context;
    if (values->comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
        return EINVAL;
    clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
    return 0;
}

/* ---- names ---- */

/* Programs that run without libibverbs call only this one of its functions that name things. */
API const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const names[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "Work Request Flushed Error",
        [IBV_WC_MW_BIND_ERR] = "memory bind operation error",
        [IBV_WC_BAD_RESP_ERR] = "bad response error",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request error",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "RNR retry counter exceeded",
        [IBV_WC_REM_ABORT_ERR] = "remote aborted error",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout error",
        [IBV_WC_GENERAL_ERR] = "general error",
        [IBV_WC_TM_ERR] = "TM error",
        [IBV_WC_TM_RNDV_INCOMPLETE] = "TM software rendezvous",
    };

    return (size_t)status < ARRAY_COUNT(names) && names[status] != NULL ? names[status]
                                                                        : "unknown";
}

/* ---- opening ---- */

API struct ibv_context *ibv_open_device(struct ibv_device *which)
{
    struct lib_context *context = mem_calloc(1, sizeof *context);
    int err;

    if (context == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    context->verbs = (struct verbs_context){
        .query_port = query_port,
        .query_rt_values = query_rt_values,
        .query_device_ex = query_device_ex,
        .create_cq_ex = lib_create_cq_ex,
        .create_srq_ex = lib_create_srq_ex,
        .post_srq_ops = lib_post_srq_ops,
        .get_srq_num = lib_get_srq_num,
        .create_qp_ex = lib_create_qp_ex,
        .sz = sizeof context->verbs,
        .context = {.device = which,
                    .ops = {.poll_cq = lib_poll_cq,
                            .req_notify_cq = lib_req_notify_cq,
                            .post_srq_recv = lib_post_srq_recv,
                            .post_send = lib_post_send,
                            .post_recv = lib_post_recv},
                    .cmd_fd = -1,
                    .async_fd = -1,
                    .num_comp_vectors = 1,
                    .abi_compat = __VERBS_ABI_IS_EXTENDED},
    };
    pthread_mutex_init(&context->verbs.context.mutex, NULL);
    err = control_open(context);
    if (err != 0) {
        mem_free(context);
        errno = err;
        return NULL;
    }
    return &context->verbs.context;
}

API int ibv_close_device(struct ibv_context *context)
{
    control_close(lib_context(context));
    pthread_mutex_destroy(&context->mutex);
    mem_free(lib_context(context));
    return 0;
}

/* Objects that another process has opened are not supported. */
API struct ibv_context *ibv_import_device(int fd)
{
    (void)fd;
    errno = EOPNOTSUPP;
    return NULL;
}

/* The daemon reads the memory of the process that registered it; a fork does not change that
 * memory. */
API int ibv_fork_init(void)
{
    return 0;
}

API enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}
