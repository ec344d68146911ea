/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_version_test.c - the one file of the provider under other versions of libfabric.
 *
 * This program is the libfabric: the provider looks for fi_version(), fi_dupinfo(),
 * fi_freeinfo(), and for libfabric's log and parameters, in the library that calls it, and
 * finds the functions below, which claim to be of a certain version and allocate as much as
 * that version.
 *
 *   version   fields appended to struct fi_domain_attr
 *   1.17      none: as in these headers
 *   1.20      max_ep_auth_key
 *   2.0       max_group_id
 *   2.7       max_cntr_value, max_err_cntr_value, max_xpu_ctx_cnt
 *
 * Other structures that have grown (entries of errors, attributes of queues and counters)
 * belong to the client; the provider must not touch fields that it does not know.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "../../src/provider/old_names.h"
#include "../../src/provider/profile_names.h"
#include "profile_checks.h"

#define EXPORTED  __attribute__((visibility("default")))
#define TAIL      64 /* bytes after the last one that a version knows; must not change */
#define UNTOUCHED 0xa5
#define UNIFIED   3 /* FI_PROGRESS_CONTROL_UNIFIED, of 2.0 */

/* Number of bytes that each version has after tclass. */
static const struct version {
    uint32_t number;
    size_t appended;
} versions[] = {
    {FI_VERSION(1, 17), 0},
    {FI_VERSION(1, 20), sizeof(size_t)},
    {FI_VERSION(2, 0), 2 * sizeof(size_t)},
    {FI_VERSION(2, 7), 2 * sizeof(size_t) + 2 * sizeof(uint64_t) + sizeof(size_t)},
};
#define VERSIONS (sizeof versions / sizeof versions[0])

/* ---- the libfabric --------------------------------------------------------------------------
 */

static const struct version *claimed = &versions[0];

EXPORTED uint32_t fi_version(void)
{
    return claimed->number;
}

static size_t domain_attr_size(void)
{
    return sizeof(struct fi_domain_attr) + claimed->appended;
}

static void *zeroed(size_t size)
{
    char *memory = malloc(size + TAIL);

    assert_non_null(memory);
    memset(memory, 0, size);
    memset(memory + size, UNTOUCHED, TAIL);
    return memory;
}

static bool is_untouched(const void *memory, size_t size)
{
    for (size_t i = 0; i < TAIL; i++)
        if (((const unsigned char *)memory)[size + i] != UNTOUCHED)
            return false;
    return true;
}

EXPORTED struct fi_info *fi_dupinfo(const struct fi_info *from)
{
    struct fi_info *info = zeroed(sizeof *info);

    assert_null(from); /* the provider does not call it with one to copy */
    info->tx_attr = zeroed(sizeof *info->tx_attr);
    info->rx_attr = zeroed(sizeof *info->rx_attr);
    info->ep_attr = zeroed(sizeof *info->ep_attr);
    info->domain_attr = zeroed(domain_attr_size());
    info->fabric_attr = zeroed(sizeof *info->fabric_attr);
    return info;
}

EXPORTED void fi_freeinfo(struct fi_info *info)
{
    free(info->src_addr);
    free(info->dest_addr);
    free(info->domain_attr->name);
    free(info->fabric_attr->name);
    free(info->fabric_attr->prov_name);
    free(info->tx_attr);
    free(info->rx_attr);
    free(info->ep_attr);
    free(info->domain_attr);
    free(info->fabric_attr);
    free(info);
}

/* The last line of the log, and the highest level that is enabled. */
static char logged[512];
static enum fi_log_level log_level = FI_LOG_WARN;

EXPORTED int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
                            enum fi_log_subsys subsystem)
{
    (void)subsystem;
    assert_string_equal(prov->name, "matchbox");
    return level <= log_level;
}

EXPORTED void fi_log(const struct fi_provider *prov, enum fi_log_level level,
                     enum fi_log_subsys subsystem, const char *function, int line,
                     const char *format, ...)
{
    va_list arguments;

    (void)function, (void)line;
    assert_true(fi_log_enabled(prov, level, subsystem));
    va_start(arguments, format);
    vsnprintf(logged, sizeof logged, format, arguments);
    va_end(arguments);
}

/* The real libfabric has many names; this one knows a few. */
EXPORTED char *fi_tostr(const void *data, enum fi_type type)
{
    static char text[32];

    text[0] = '\0';
    if (type == FI_TYPE_EP_TYPE && *(const enum fi_ep_type *)data == FI_EP_DGRAM)
        strcpy(text, "FI_EP_DGRAM");
    return text;
}

/* Parameters that were defined, and the value of one of them. */
static char defined[8192];
static const char *set_name, *set_value;

EXPORTED int fi_param_define(const struct fi_provider *prov, const char *name,
                             enum fi_param_type type, const char *help, ...)
{
    char text[1024];
    va_list arguments;

    assert_string_equal(prov->name, "matchbox");
    assert_int_equal(type, FI_PARAM_STRING);
    va_start(arguments, help);
    assert_true(vsnprintf(text, sizeof text, help, arguments) > 20);
    va_end(arguments);
    assert_non_null(strstr(text, "MBX_"));
    assert_true(strlen(defined) + strlen(name) + 2 < sizeof defined);
    strcat(strcat(defined, name), " ");
    return 0;
}

EXPORTED int fi_param_get(struct fi_provider *prov, const char *name, void *value)
{
    assert_string_equal(prov->name, "matchbox");
    if (set_name == NULL || strcmp(name, set_name) != 0)
        return -FI_ENODATA;
    memcpy(value, &set_value, sizeof set_value);
    return 0;
}

/* ---- the provider
 * -----------------------------------------------------------------------------
 */

static struct fi_provider *provider;

/* Loads the provider for a version; calls its initialisation each time, as libfabric does. */
static void load(const struct version *version)
{
    static void *library;
    struct fi_provider *(*init)(void);
    char path[4096];
    void *symbol;

    claimed = version;
    snprintf(path, sizeof path, "%s/libmatchbox-fi.so", getenv("FI_PROVIDER_PATH"));
    if (library == NULL)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    symbol = dlsym(library, "fi_prov_ini");
    assert_non_null(symbol);
    memcpy(&init, &symbol, sizeof init);
    provider = init();
    assert_non_null(provider);
}

static struct fi_info *hints_new(void)
{
    struct fi_info *hints = fi_dupinfo(NULL);

    hints->caps = FI_TAGGED | FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    return hints;
}

/* Returns 0 and *info, or the provider's error; frees the hints. */
static int ask(uint32_t api, struct fi_info *hints, struct fi_info **info)
{
    int err = provider->getinfo(api, NULL, NULL, 0, hints, info);

    fi_freeinfo(hints);
    return err;
}

static bool is_offered(uint32_t api, struct fi_info *hints)
{
    struct fi_info *info;
    int err = ask(api, hints, &info);

    if (err == 0)
        fi_freeinfo(info);
    else
        assert_int_equal(err, -FI_ENODATA);
    return err == 0;
}

/* ---- loading and infos
 * --------------------------------------------------------------------------
 */

/* With a lower number than the library's, newer clients would not see the provider. */
static void it_claims_the_version_of_who_loads_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < VERSIONS; i++) {
        load(&versions[i]);
        assert_int_equal(provider->fi_version, versions[i].number);
        assert_string_equal(provider->name, "matchbox");
        assert_non_null(provider->fabric);
        provider->cleanup();
    }
}

static void infos_are_as_long_as_the_library_makes_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < VERSIONS; i++) {
        struct fi_info *info;
        const char *tail;

        load(&versions[i]);
        assert_int_equal(ask(versions[i].number, hints_new(), &info), 0);
        tail = (const char *)info->domain_attr + sizeof *info->domain_attr;
        for (size_t b = 0; b < versions[i].appended; b++)
            assert_int_equal(tail[b], 0); /* no such limit, no such feature */
        assert_true(is_untouched(info->domain_attr, domain_attr_size()));
        assert_true(is_untouched(info->ep_attr, sizeof *info->ep_attr));
        assert_true(is_untouched(info->tx_attr, sizeof *info->tx_attr));
        assert_true(is_untouched(info->rx_attr, sizeof *info->rx_attr));
        assert_true(is_untouched(info->fabric_attr, sizeof *info->fabric_attr));
        assert_true(is_untouched(info, sizeof *info));
        assert_null(info->fabric_attr->prov_name); /* for the library to fill in */
        fi_freeinfo(info);
    }
}

/* ---- attributes for libfabric's users ------------------------------------------------------- */

static void expect_refused(struct fi_info *hints, const char *reason)
{
    struct fi_info *info;

    logged[0] = '\0';
    assert_int_equal(ask(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    if (strstr(logged, reason) == NULL)
        fail_msg("'%s' does not say '%s'", logged, reason);
    assert_int_equal(logged[strlen(logged) - 1], '\n');
}

static void a_refusal_says_why(void **state)
{
    struct fi_info *hints, *info;

    (void)state;
    load(&versions[0]);
    log_level = FI_LOG_INFO;
    hints = hints_new();
    hints->ep_attr->type = FI_EP_DGRAM;
    expect_refused(hints, "ep_attr->type FI_EP_DGRAM is asked for; FI_EP_RDM is what there is");
    hints = hints_new();
    hints->caps |= FI_MULTICAST; /* a flag without a name here: its number */
    expect_refused(hints, "caps asks for 0x");
    hints = hints_new();
    hints->tx_attr->inject_size = 1 << 20;
    expect_refused(hints, "tx_attr->inject_size asks for 1048576, and 4096 is the most");
    hints = hints_new();
    hints->domain_attr->name = strdup("eth0");
    expect_refused(hints, "domain_attr->name \"eth0\" is asked for");
    hints = hints_new();
    hints->ep_attr->mem_tag_format = UINT64_MAX;
    expect_refused(hints, "63 are offered");
    logged[0] = '\0';
    assert_int_equal(
        provider->getinfo(FI_VERSION(1, 17), "localhost", "no/service", 0, NULL, &info),
        -FI_ENODATA);
    assert_non_null(strstr(logged, "service \"no/service\""));
    log_level = FI_LOG_WARN;
    hints = hints_new();
    hints->ep_attr->type = FI_EP_DGRAM;
    logged[0] = '\0';
    assert_int_equal(ask(FI_VERSION(1, 17), hints, &info), -FI_ENODATA);
    assert_string_equal(logged, ""); /* the log is disabled */
}

static size_t buffered(void)
{
    struct fi_info *info;
    size_t size;

    assert_int_equal(ask(FI_VERSION(1, 17), hints_new(), &info), 0);
    size = info->rx_attr->total_buffered_recv;
    fi_freeinfo(info);
    return size;
}

static void parameters_are_libfabrics_too(void **state)
{
    struct fi_info *hints;

    (void)state;
    defined[0] = '\0';
    load(&versions[0]);
    assert_non_null(strstr(defined, "eager_limit "));
    assert_non_null(strstr(defined, "unexpected_memory "));
    assert_non_null(strstr(defined, "verbs_library ")); /* the last one of the library's list */
    assert_null(strstr(defined, "threads "));
    assert_null(strstr(defined, "boot "));
    assert_int_equal(buffered(), 64 << 20);
    setenv("MBX_UNEXPECTED_MEMORY", "2M", 1);
    assert_int_equal(buffered(), 2 << 20);
    set_name = "unexpected_memory";
    set_value = "12345";
    assert_int_equal(buffered(), 12345); /* the parameter of libfabric wins */
    set_value = "banana";
    assert_int_equal(buffered(), 0); /* nothing is promised; an endpoint is refused */
    set_value = "1k";
    log_level = FI_LOG_INFO;
    hints = hints_new();
    hints->rx_attr->total_buffered_recv = 1025;
    expect_refused(hints, "total_buffered_recv asks for 1025, and 1024 is the most");
    log_level = FI_LOG_WARN;
    set_name = NULL;
    unsetenv("MBX_UNEXPECTED_MEMORY");
}

/* Clients keep these numbers in an int, and some take a negative one for an error. */
static void numbers_of_our_own_are_positive(void **state)
{
    struct fi_info *info;

    (void)state;
    load(&versions[0]);
    assert_int_equal(ask(FI_VERSION(1, 17), hints_new(), &info), 0);
    assert_true((int)info->addr_format > 0 && (int)info->ep_attr->protocol > 0);
    fi_freeinfo(info);
}

/* Before 1.5 there were two named modes, which later versions still accept.  The bits of a mode
 * are what the client then has to do: the provider requires none. */
static void registration_modes_are_those_of_the_version(void **state)
{
    static const struct {
        uint32_t api;
        int hint, wanted;
    } cases[] = {
        {FI_VERSION(1, 4), FI_MR_BASIC, FI_MR_BASIC},
        {FI_VERSION(1, 4), FI_MR_SCALABLE, FI_MR_SCALABLE},
        {FI_VERSION(1, 4), 0, FI_MR_SCALABLE},
        {FI_VERSION(1, 17), 0, 0},
        {FI_VERSION(1, 17), FI_MR_BASIC, FI_MR_BASIC},
        {FI_VERSION(1, 17), FI_MR_SCALABLE, FI_MR_SCALABLE},
        {FI_VERSION(1, 17), FI_MR_VIRT_ADDR | FI_MR_LOCAL, 0},
        {FI_VERSION(2, 0), FI_MR_BASIC, FI_MR_BASIC},
        {FI_VERSION(2, 0), FI_MR_SCALABLE, FI_MR_SCALABLE},
        {FI_VERSION(2, 7), FI_MR_PROV_KEY | FI_MR_ENDPOINT, 0},
        {FI_VERSION(2, 7), 1 << 20, 0},
    };

    (void)state;
    load(&versions[VERSIONS - 1]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fi_info *hints = hints_new(), *info;

        hints->domain_attr->mr_mode = cases[i].hint;
        assert_int_equal(ask(cases[i].api, hints, &info), 0);
        if (info->domain_attr->mr_mode != cases[i].wanted)
            fail_msg("case %zu: mode %#x", i, (unsigned)info->domain_attr->mr_mode);
        fi_freeinfo(info);
    }
}

/* A bit may mean something else in the next version, so unknown bits are not promised. */
static void no_capability_without_a_name_is_promised(void **state)
{
    const uint64_t known = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE |
                           FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE |
                           FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_LOCAL_COMM |
                           FI_REMOTE_COMM | FI_RMA_EVENT;

    (void)state;
    load(&versions[VERSIONS - 1]);
    for (int bit = 0; bit < 64; bit++) {
        struct fi_info *hints = hints_new();

        hints->caps |= UINT64_C(1) << bit;
        if (is_offered(FI_VERSION(2, 7), hints) != ((known >> bit & 1) != 0))
            fail_msg("bit %d", bit);
    }
}

static void models_of_every_version_come_back(void **state)
{
    struct fi_info *hints, *info;

    (void)state;
    load(&versions[VERSIONS - 1]);
    hints = hints_new();
    hints->domain_attr->control_progress = (enum fi_progress)UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    assert_int_equal(ask(FI_VERSION(2, 0), hints, &info), 0);
    assert_int_equal(info->domain_attr->control_progress, UNIFIED);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    /* both types of vector exist: a client that requests neither must not rely on numbers from
     * 0 */
    assert_int_equal(info->domain_attr->av_type, FI_AV_UNSPEC);
    fi_freeinfo(info);

    hints = hints_new();
    hints->domain_attr->data_progress = (enum fi_progress)(UNIFIED + 1);
    assert_false(is_offered(FI_VERSION(2, 0), hints));
    hints = hints_new();
    hints->domain_attr->threading = (enum fi_threading)(FI_THREAD_ENDPOINT + 1);
    assert_false(is_offered(FI_VERSION(2, 0), hints));
    hints = hints_new();
    hints->domain_attr->av_type = (enum fi_av_type)(FI_AV_TABLE + 1);
    assert_false(is_offered(FI_VERSION(2, 0), hints));
    hints = hints_new();
    hints->tx_attr->msg_order = UINT64_C(1) << 50;
    assert_false(is_offered(FI_VERSION(2, 0), hints));
    hints = hints_new();
    hints->domain_attr->auth_key_size = SIZE_MAX; /* keys in the vector, of 1.20 */
    assert_false(is_offered(FI_VERSION(2, 0), hints));
}

/* ---- objects
 * --------------------------------------------------------------------------------------
 */

struct objects {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    struct fid_mr *mr;
};

static char shared[64];

static void objects_open(struct objects *o, uint32_t api)
{
    struct fi_info *hints = hints_new();
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr cntr = {0};
    struct fi_eq_attr eq = {0};
    struct fi_av_attr av = {0};

    hints->caps |= FI_RMA | FI_ATOMIC;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    assert_int_equal(ask(api, hints, &o->info), 0);
    assert_int_equal(provider->fabric(o->info->fabric_attr, &o->fabric, NULL), 0);
    o->fabric->api_version = api; /* as fi_fabric() does */
    assert_int_equal(fi_domain(o->fabric, o->info, &o->domain, NULL), 0);
    assert_int_equal(fi_eq_open(o->fabric, &eq, &o->eq, NULL), 0);
    assert_int_equal(fi_cq_open(o->domain, &cq, &o->cq, NULL), 0);
    assert_int_equal(fi_av_open(o->domain, &av, &o->av, NULL), 0);
    assert_int_equal(fi_cntr_open(o->domain, &cntr, &o->cntr, NULL), 0);
    assert_int_equal(fi_endpoint(o->domain, o->info, &o->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(o->ep, &o->av->fid, 0), 0);
    assert_int_equal(fi_enable(o->ep), 0);
    assert_int_equal(
        fi_mr_reg(o->domain, shared, sizeof shared, FI_REMOTE_READ, 0, 1, 0, &o->mr, NULL), 0);
}

static void objects_close(struct objects *o)
{
    assert_int_equal(fi_close(&o->mr->fid), 0);
    assert_int_equal(fi_close(&o->ep->fid), 0);
    assert_int_equal(fi_close(&o->cntr->fid), 0);
    assert_int_equal(fi_close(&o->av->fid), 0);
    assert_int_equal(fi_close(&o->cq->fid), 0);
    assert_int_equal(fi_close(&o->eq->fid), 0);
    assert_int_equal(fi_close(&o->domain->fid), 0);
    assert_int_equal(fi_close(&o->fabric->fid), 0);
    fi_freeinfo(o->info);
}

/* A table begins with its size; clients call through its entries without a check, and through
 * later entries only if the size includes them. */
static void expect_complete(const void *table, size_t size, const char *name)
{
    size_t own;

    memcpy(&own, table, sizeof own);
    if (own != size)
        fail_msg("%s: size %zu, not %zu", name, own, size);
    for (size_t at = sizeof own; at < size; at += sizeof(void *)) {
        void *entry;

        memcpy(&entry, (const char *)table + at, sizeof entry);
        if (entry == NULL)
            fail_msg("%s: the entry at %zu is empty", name, at);
    }
}

static void every_table_is_complete(void **state)
{
    struct objects o;

    (void)state;
    load(&versions[VERSIONS - 1]);
    objects_open(&o, FI_VERSION(2, 0));
    expect_complete(o.fabric->fid.ops, sizeof(struct fi_ops), "fabric fid");
    expect_complete(o.fabric->ops, sizeof(struct fi_ops_fabric), "fabric");
    expect_complete(o.domain->fid.ops, sizeof(struct fi_ops), "domain fid");
    expect_complete(o.domain->ops, sizeof(struct fi_ops_domain), "domain");
    expect_complete(o.domain->mr, sizeof(struct fi_ops_mr), "mr");
    expect_complete(o.ep->fid.ops, sizeof(struct fi_ops), "endpoint fid");
    expect_complete(o.ep->ops, sizeof(struct fi_ops_ep), "endpoint");
    expect_complete(o.ep->cm, sizeof(struct fi_ops_cm), "cm");
    expect_complete(o.ep->msg, sizeof(struct fi_ops_msg), "msg");
    expect_complete(o.ep->rma, sizeof(struct fi_ops_rma), "rma");
    expect_complete(o.ep->tagged, sizeof(struct fi_ops_tagged), "tagged");
    expect_complete(o.ep->atomic, sizeof(struct fi_ops_atomic), "atomic");
    expect_complete(o.ep->collective, sizeof(struct fi_ops_collective), "collective");
    expect_complete(o.cq->fid.ops, sizeof(struct fi_ops), "cq fid");
    expect_complete(o.cq->ops, sizeof(struct fi_ops_cq), "cq");
    expect_complete(o.av->fid.ops, sizeof(struct fi_ops), "av fid");
    expect_complete(o.av->ops, sizeof(struct fi_ops_av), "av");
    expect_complete(o.cntr->fid.ops, sizeof(struct fi_ops), "counter fid");
    expect_complete(o.cntr->ops, sizeof(struct fi_ops_cntr), "counter");
    expect_complete(o.eq->fid.ops, sizeof(struct fi_ops), "eq fid");
    expect_complete(o.eq->ops, sizeof(struct fi_ops_eq), "eq");
    expect_complete(o.mr->fid.ops, sizeof(struct fi_ops), "mr fid");
    objects_close(&o);
}

/* Clients before 1.5 have shorter entries, clients after 1.17 longer ones. */
static void an_error_entry_is_filled_as_far_as_it_is_known(void **state)
{
    static const struct {
        uint32_t api;
        size_t size;
    } cases[] = {
        {FI_VERSION(1, 4), offsetof(struct fi_cq_err_entry, err_data_size)},
        {FI_VERSION(1, 17), sizeof(struct fi_cq_err_entry)},
        {FI_VERSION(2, 0), sizeof(struct fi_cq_err_entry)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fi_cq_err_entry *entry = zeroed(cases[i].size);
        struct fi_cq_tagged_entry none;
        char word[8];
        struct objects o;

        load(&versions[VERSIONS - 1]);
        objects_open(&o, cases[i].api);
        assert_int_equal(fi_trecv(o.ep, word, sizeof word, NULL, FI_ADDR_UNSPEC, 1, 0, &word),
                         0);
        assert_int_equal(fi_cancel(&o.ep->fid, &word), 0);
        assert_int_equal(fi_cq_read(o.cq, &none, 1), -FI_EAVAIL);
        assert_int_equal(fi_cq_readerr(o.cq, entry, 0), 1);
        assert_int_equal(entry->err, FI_ECANCELED);
        assert_ptr_equal(entry->op_context, &word);
        assert_true(is_untouched(entry, cases[i].size));
        free(entry);
        objects_close(&o);
    }
}

/* Not before 1.20, the first version with the interface. */
static void profiles_are_there_where_libfabric_knows_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < VERSIONS; i++) {
        struct fid_profile *profile;
        struct profiled p;
        struct objects o;
        char name[64];
        size_t size = sizeof name;
        void *ops;

        load(&versions[i]);
        objects_open(&o, FI_VERSION(1, 17));
        if (versions[i].number < FI_VERSION(1, 20)) {
            assert_int_equal(profile_open(o.ep, &profile), -FI_ENOSYS);
        } else {
            p = (struct profiled){.ep = o.ep, .cq = o.cq};
            assert_int_equal(fi_getname(&o.ep->fid, name, &size), 0);
            assert_int_equal(fi_av_insert(o.av, name, 1, &p.self, 0, NULL), 1);
            check_profile(&p, getenv("TESTED_MBX"));
        }
        assert_int_equal(fi_open_ops(&o.domain->fid, PROV_PROFILE_OPS, 0, &ops, NULL),
                         -FI_ENOSYS);
        objects_close(&o);
    }
}

/* As with libfabric's trace hook, which never closes its profile. */
static void a_profile_outlives_its_endpoint(void **state)
{
    struct fid_profile *profile;
    uint64_t value;
    size_t size = sizeof value;
    struct objects o;

    (void)state;
    load(&versions[VERSIONS - 1]);
    objects_open(&o, FI_VERSION(2, 0));
    assert_int_equal(profile_open(o.ep, &profile), 0);
    profile->ops->start_reads(profile, 0);
    objects_close(&o);
    assert_int_equal(profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_COUNT, &value, &size),
                     -FI_EINVAL);
    assert_int_equal(profile->ops->reg_callback(profile, 0, NULL, NULL), -FI_EINVAL);
    profile->ops->start_reads(profile, 0);
    profile->ops->end_reads(profile, 0);
    assert_int_equal(fi_close(&profile->fid), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_claims_the_version_of_who_loads_it),
        cmocka_unit_test(infos_are_as_long_as_the_library_makes_them),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(parameters_are_libfabrics_too),
        cmocka_unit_test(numbers_of_our_own_are_positive),
        cmocka_unit_test(registration_modes_are_those_of_the_version),
        cmocka_unit_test(no_capability_without_a_name_is_promised),
        cmocka_unit_test(models_of_every_version_come_back),
        cmocka_unit_test(every_table_is_complete),
        cmocka_unit_test(an_error_entry_is_filled_as_far_as_it_is_known),
        cmocka_unit_test(profiles_are_there_where_libfabric_knows_them),
        cmocka_unit_test(a_profile_outlives_its_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
