/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept_keys.c - loaded before an MPI program: PMIx answers late, and the program checks that
 * each key it was asked for has not changed.
 *
 * PMIx keeps the pointer to the key of PMIx_Get_nb() and reads it in its own thread.  Here that
 * thread answers only when another thread waits for the answer: after anything that thread does
 * to its key once the call has returned.  A key that has changed ends the program; otherwise
 * each process prints how many were kept.  MALLOC_PERTURB_ changes keys that were freed.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "matchbox"

struct question {
    pmix_value_cbfunc_t answer;
    void *arg;
    const char *key;
    char copy[PMIX_MAX_KEYLEN + 1];
    unsigned asked_at; /* the number of waits that had begun */
};

static _Atomic unsigned waits, kept;

static void find(void *function, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    memcpy(function, &symbol, sizeof symbol);
}

__attribute__((visibility("default"))) int pthread_cond_wait(pthread_cond_t *cond,
                                                             pthread_mutex_t *lock)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *);

    if (real == NULL)
        find(&real, "pthread_cond_wait");
    atomic_fetch_add(&waits, 1);
    return real(cond, lock);
}

static void answered(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct question *question = arg;

    while (atomic_load(&waits) == question->asked_at)
        sched_yield();
    if (strncmp(question->key, question->copy, PMIX_MAX_KEYLEN) != 0) {
        fprintf(stderr, "kept_keys: PMIx was asked for '%s', and the key has changed\n",
                question->copy);
        abort();
    }
    atomic_fetch_add(&kept, 1);
    question->answer(status, value, question->arg);
    free(question);
}

__attribute__((visibility("default"))) pmix_status_t
PMIx_Get_nb(const pmix_proc_t *proc, const char key[], const pmix_info_t info[], size_t count,
            pmix_value_cbfunc_t answer, void *arg)
{
    static pmix_status_t (*real)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                                 pmix_value_cbfunc_t, void *);
    struct question *question;

    if (real == NULL)
        find(&real, "PMIx_Get_nb");
    if (key == NULL || strstr(key, NAME) == NULL)
        return real(proc, key, info, count, answer, arg);
    question = calloc(1, sizeof *question);
    *question = (struct question){
        .answer = answer, .arg = arg, .key = key, .asked_at = atomic_load(&waits)};
    snprintf(question->copy, sizeof question->copy, "%s", key);
    return real(proc, key, info, count, answered, question);
}

__attribute__((destructor)) static void tell(void)
{
    if (kept != 0)
        fprintf(stderr, "kept_keys: %u keys kept\n", kept);
}
