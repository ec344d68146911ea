/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_pmix.c - a libpmix whose answers fake_pmix.h sets.
 */
#include "fake_pmix.h"

#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED struct fake_pmix fake_pmix;

EXPORTED pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    if (fake_pmix.init != PMIX_SUCCESS)
        return fake_pmix.init;
    memset(proc, 0, sizeof *proc);
    snprintf(proc->nspace, sizeof proc->nspace, "fake");
    proc->rank = fake_pmix.rank;
    fake_pmix.inits++;
    return PMIX_SUCCESS;
}

EXPORTED pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    fake_pmix.finalizes++;
    return PMIX_SUCCESS;
}

static struct fake_value *find(uint32_t rank, const char *key)
{
    for (int i = 0; i < FAKE_VALUES; i++)
        if (fake_pmix.values[i].rank == rank && strcmp(fake_pmix.values[i].key, key) == 0)
            return &fake_pmix.values[i];
    return NULL;
}

EXPORTED pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *val)
{
    struct fake_value *v = find(fake_pmix.rank, key);

    for (int i = 0; v == NULL && i < FAKE_VALUES; i++)
        if (fake_pmix.values[i].key[0] == '\0')
            v = &fake_pmix.values[i];
    if (fake_pmix.put != PMIX_SUCCESS || scope != PMIX_GLOBAL || v == NULL)
        return fake_pmix.put != PMIX_SUCCESS ? fake_pmix.put : PMIX_ERR_BAD_PARAM;
    snprintf(v->key, sizeof v->key, "%s", key);
    v->rank = fake_pmix.rank;
    v->type = val->type;
    v->size = val->data.bo.size;
    memcpy(v->bytes, val->data.bo.bytes, v->size);
    return PMIX_SUCCESS;
}

EXPORTED pmix_status_t PMIx_Commit(void)
{
    return fake_pmix.commit;
}

EXPORTED pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs,
                                     const pmix_info_t info[], size_t ninfo,
                                     pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    (void)procs;
    (void)nprocs;
    if (fake_pmix.fence != PMIX_SUCCESS)
        return fake_pmix.fence;
    fake_pmix.fences++;
    fake_pmix.exchanges += ninfo == 1 && strcmp(info[0].key, PMIX_COLLECT_DATA) == 0;
    if (fake_pmix.fence_waits) {
        fake_pmix.fence_done = cbfunc;
        fake_pmix.arg = cbdata;
    } else {
        cbfunc(fake_pmix.fence_answer, cbdata);
    }
    return PMIX_SUCCESS;
}

EXPORTED pmix_status_t PMIx_Get_nb(const pmix_proc_t *proc, const char key[],
                                   const pmix_info_t info[], size_t ninfo,
                                   pmix_value_cbfunc_t cbfunc, void *cbdata)
{
    struct fake_value *v = find(proc->rank, key);
    pmix_value_t value = {.type = PMIX_UNDEF};

    (void)info;
    (void)ninfo;
    if (fake_pmix.get != PMIX_SUCCESS)
        return fake_pmix.get;
    if (fake_pmix.get_waits) {
        fake_pmix.get_done = cbfunc;
        fake_pmix.arg = cbdata;
        return PMIX_SUCCESS;
    }
    if (fake_pmix.get_answer != PMIX_SUCCESS || v == NULL) {
        cbfunc(v == NULL ? PMIX_ERR_NOT_FOUND : fake_pmix.get_answer, NULL, cbdata);
        return PMIX_SUCCESS;
    }
    value.type = v->type;
    if (v->type == PMIX_UINT32) {
        value.data.uint32 = v->number;
    } else {
        value.data.bo.bytes = (char *)v->bytes;
        value.data.bo.size = v->size;
    }
    cbfunc(PMIX_SUCCESS, &value, cbdata);
    return PMIX_SUCCESS;
}

EXPORTED const char *PMIx_Error_string(pmix_status_t status)
{
    return status == PMIX_SUCCESS ? "SUCCESS" : "FAKE";
}
