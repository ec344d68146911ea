/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c - ucp_init_version(): what a client asks for, and what it is refused.
 *
 * Nothing is opened before the first worker.  Features that are not offered are refused here, where a client can still do
 * something else.
 */
#include "ucp/door.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

#define VERSION_MAJOR   1u
#define VERSION_MINOR   22u
#define VERSION_RELEASE 0u

/* of 1.18; our headers may be older */
#define FEATURE_EXPORTED_MEMH (UINT64_C(1) << 7)

#define FEATURES_OFFERED                                                                       \
    (UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 |               \
     UCP_FEATURE_WAKEUP | UCP_FEATURE_AM)

static const char *feature_name(uint64_t feature)
{
    switch (feature) {
    case UCP_FEATURE_STREAM:
        return "STREAM";
    case FEATURE_EXPORTED_MEMH:
        return "EXPORTED_MEMH";
    default:
        return "of a newer libucp";
    }
}

static ucs_status_t check_params(unsigned major, const ucp_params_t *params)
{
    uint64_t features = params->field_mask & UCP_PARAM_FIELD_FEATURES ? params->features : 0;
    uint64_t others = features & ~(uint64_t)FEATURES_OFFERED;

    if (major != VERSION_MAJOR) {
        LOG_ERROR("libucp: the program needs version %u of libucp's interface; this is version "
                  "%u; run "
                  "without `mbx exec`",
                  major, VERSION_MAJOR);
        return UCS_ERR_NOT_IMPLEMENTED;
    }
    if (others != 0) {
        LOG_ERROR("libucp: ucp_init feature %s is not supported (UCS_ERR_UNSUPPORTED); run "
                  "without `mbx exec`",
                  feature_name(others & -others));
        return UCS_ERR_UNSUPPORTED;
    }
    return UCS_OK;
}

static void context_fill(struct ucp_context *context, const ucp_params_t *params)
{
    if (params->field_mask & UCP_PARAM_FIELD_FEATURES)
        context->features = params->features;
    if (params->field_mask & UCP_PARAM_FIELD_REQUEST_SIZE)
        context->request_size = params->request_size;
    if (params->field_mask & UCP_PARAM_FIELD_REQUEST_INIT)
        context->request_init = params->request_init;
    if (params->field_mask & UCP_PARAM_FIELD_REQUEST_CLEANUP)
        context->request_cleanup = params->request_cleanup;
    if (params->field_mask & UCP_PARAM_FIELD_MT_WORKERS_SHARED)
        context->is_shared = params->mt_workers_shared != 0;
    snprintf(context->name, sizeof context->name, "%s",
             params->field_mask & UCP_PARAM_FIELD_NAME ? params->name : "matchbox");
    pthread_mutex_init(&context->lock, NULL);
    list_init(&context->workers);
    list_init(&context->regions);
}

ucs_status_t ucp_init_version(unsigned api_major_version, unsigned api_minor_version,
                              const ucp_params_t *params, const ucp_config_t *config,
                              ucp_context_h *context_p)
{
    ucs_status_t status = check_params(api_major_version, params);
    struct ucp_context *context;

    (void)api_minor_version;
    (void)config;
    if (status != UCS_OK)
        return status;
    context = mem_calloc(1, sizeof *context);
    if (context == NULL)
        return UCS_ERR_NO_MEMORY;
    context_fill(context, params);
    *context_p = context;
    return UCS_OK;
}

void ucp_cleanup(ucp_context_h context_p)
{
    pthread_mutex_destroy(&context_p->lock);
    mem_free(context_p);
}

/* ---- what it says of itself ---- */

void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number)
{
    *major_version = VERSION_MAJOR;
    *minor_version = VERSION_MINOR;
    *release_number = VERSION_RELEASE;
}

const char *ucp_get_version_string(void)
{
    return "1.22.0";
}

ucs_status_t ucp_lib_query(ucp_lib_attr_t *attr)
{
    if (attr->field_mask & UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL)
        attr->max_thread_level = UCS_THREAD_MODE_MULTI;
    return UCS_OK;
}

ucs_status_t ucp_context_query(ucp_context_h context_p, ucp_context_attr_t *attr)
{
    if (attr->field_mask & UCP_ATTR_FIELD_REQUEST_SIZE)
        attr->request_size = UCPX_RECORD_SIZE;
    if (attr->field_mask & UCP_ATTR_FIELD_THREAD_MODE)
        attr->thread_mode = UCS_THREAD_MODE_MULTI;
    if (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
        attr->memory_types = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    if (attr->field_mask & UCP_ATTR_FIELD_NAME)
        snprintf(attr->name, sizeof attr->name, "%s", context_p->name);
    return UCS_OK;
}

void ucp_context_print_info(const ucp_context_h context, FILE *stream)
{
    fprintf(stream, "#\n# context %s of libucp over Matchbox %s, features 0x%" PRIx64 "\n#\n",
            context->name, mbx_version(), context->features);
}
