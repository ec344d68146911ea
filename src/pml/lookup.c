/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lookup.c - looks up the addresses that processes have published in the modex.
 *
 * A query to PMIx wakes its thread, and the answer wakes us: with 64 processes that all meet,
 * that was half of the time of a first contact.  So a process that has met n others requests, with
 * the next address, up to n more that it may need: of processes of its job and host with the ranks
 * nearest to the wanted one.  It waits only for the wanted one.  A job in which each rank
 * communicates with few others requests at most twice as many addresses as it needs.
 *
 *   NULL ---> ASKED ---> THERE ---> NULL    the process is met: its address is used once
 *               +-----> ABSENT              the server must be queried for it: one at a time
 *
 * Before any query: the processes of a job on one host find each other's addresses in a file that they share
 * (mbx_address_share).  The label there is a hash of the launcher's identity, the job and the rank.  PMIx is queried
 * for the others: processes of other hosts and other jobs, processes that have not shared theirs yet, and
 * all processes where there is no such file.
 *
 * Queries ahead of need search only the data that the server has on this host
 * (PMIX_OPTIONAL), so each is answered soon, whether the process has published its address or not.
 *
 * Threads: pml_lookup() is called by one thread at a time.  The answers come in PMIx's thread, which
 * takes `lock` and no other lock.  After an answer that thread still has to return through the
 * component.  So before Open MPI unloads the component, pml_lookup_close() makes one more query and
 * waits for its answer: PMIx answers queries in order.
 */
#include "base/environ.h"
#include "pml/pml.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern PML_COMPONENT_TYPE mca_pml_matchbox_component;

enum lookup_state { LOOKUP_ASKED, LOOKUP_THERE, LOOKUP_ABSENT };

struct lookup {
    enum lookup_state state;
    struct mbx_address address; /* THERE */
};

static struct {
    struct lookup **asked; /* by rank of our job; or NULL */
    uint32_t ranks;
    uint32_t met; /* number of processes of our job and host */
    uint32_t under_way;
    pthread_mutex_t lock; /* guards states, addresses and under_way */
    pthread_cond_t answered;
} ahead = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

/* ---- without PMIx ---- */

/* One step of the FNV-1a hash. */
static uint64_t label_add(uint64_t label, const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < size; i++)
        label = (label ^ byte[i]) * UINT64_C(0x100000001b3);
    return label;
}

/* The label of the process with this rank of our job, if it is on this host; 0 if nothing
 * identifies our job.  The job's number has only 16 bits of its launcher; the address of the
 * launcher's server is unique while the launcher lives. */
static uint64_t label_of(uint32_t rank)
{
    static const char *const servers[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                          "PMIX_SERVER_URI3", "PMIX_SERVER_URI21",
                                          "PMIX_SERVER_URI2"};
    const char *job = environ_get("PMIX_NAMESPACE"), *server = NULL;
    uint64_t label = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < sizeof servers / sizeof servers[0] && server == NULL; i++)
        server = environ_get(servers[i]);
    if (job == NULL || server == NULL)
        return 0;
    label = label_add(label, server, strlen(server) + 1);
    label = label_add(label, job, strlen(job) + 1);
    return label_add(label, &rank, sizeof rank);
}

void pml_lookup_share(void)
{
    uint64_t label = label_of(ompi_proc_local()->super.proc_name.vpid);

    if (label != 0)
        (void)mbx_address_share(pml.ep, label); /* if it fails, PMIx has the address */
}

static bool lookup_is_near(const ompi_proc_t *proc)
{
    return proc->super.proc_name.jobid == ompi_proc_local()->super.proc_name.jobid &&
           OPAL_PROC_ON_LOCAL_NODE(proc->super.proc_flags);
}

static bool lookup_shared(const ompi_proc_t *proc, struct mbx_address *address)
{
    uint64_t label = label_of(proc->super.proc_name.vpid);

    return label != 0 && mbx_address_find(pml.ep, label, address) == 0;
}

/* ---- asking ahead ---- */

/* Called in PMIx's thread.  The bytes belong to PMIx; the library checks the address in
 * them. */
static void lookup_answered(void *arg, const void *bytes, size_t size)
{
    struct lookup *lookup = arg;

    pthread_mutex_lock(&ahead.lock);
    lookup->state =
        bytes != NULL && size == sizeof lookup->address ? LOOKUP_THERE : LOOKUP_ABSENT;
    if (lookup->state == LOOKUP_THERE)
        memcpy(&lookup->address, bytes, size);
    ahead.under_way--;
    pthread_cond_broadcast(&ahead.answered);
    pthread_mutex_unlock(&ahead.lock);
}

static bool lookup_make_table(void)
{
    if (ahead.asked != NULL)
        return true;
    ahead.ranks = pml_series_ranks();
    ahead.asked = calloc(ahead.ranks, sizeof(struct lookup *));
    return ahead.asked != NULL;
}

/* Requests an address ahead of need.  False if that fails; the address is then looked up when
 * the process is met. */
static bool lookup_ask(uint32_t rank)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);

    if (lookup == NULL)
        return false;
    pthread_mutex_lock(&ahead.lock);
    ahead.under_way++;
    pthread_mutex_unlock(&ahead.lock);
    ahead.asked[rank] = lookup;
    if (pml_series_ask(&mca_pml_matchbox_component.pmlm_version, rank, lookup_answered, lookup))
        return true;
    pthread_mutex_lock(&ahead.lock);
    ahead.under_way--;
    pthread_mutex_unlock(&ahead.lock);
    ahead.asked[rank] = NULL;
    free(lookup);
    return false;
}

/* Is this process on this host, and neither met nor requested yet? */
static bool lookup_is_worth(uint32_t rank)
{
    opal_process_name_t name = ompi_proc_local()->super.proc_name;
    const opal_proc_t *proc;

    if (ahead.asked[rank] != NULL || rank == name.vpid)
        return false;
    name.vpid = rank;
    proc = ompi_proc_lookup(name);
    return proc != NULL && OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags) &&
           ((const ompi_proc_t *)proc)->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] == NULL;
}

/* Requests the address of rank and of up to `more` others, the nearest ranks first. */
static void lookup_ask_around(uint32_t rank, uint32_t more)
{
    uint32_t far = 4 * more;

    if (!lookup_ask(rank))
        return;
    for (uint32_t distance = 1; more > 0 && distance <= far; distance++) {
        uint32_t ranks[2] = {rank - distance, rank + distance}; /* wraps around below 0 */

        for (int i = 0; i < 2 && more > 0; i++)
            if (ranks[i] < ahead.ranks && lookup_is_worth(ranks[i])) {
                if (!lookup_ask(ranks[i]))
                    return;
                more--;
            }
    }
}

/* Waits for a requested address, and frees its entry.  True: the address was found. */
static bool lookup_take(uint32_t rank, struct mbx_address *address)
{
    struct lookup *lookup = ahead.asked[rank];
    bool is_there;

    pthread_mutex_lock(&ahead.lock);
    while (lookup->state == LOOKUP_ASKED)
        pthread_cond_wait(&ahead.answered, &ahead.lock);
    pthread_mutex_unlock(&ahead.lock);
    is_there = lookup->state == LOOKUP_THERE;
    if (is_there)
        *address = lookup->address;
    ahead.asked[rank] = NULL;
    free(lookup);
    return is_there;
}

/* Looks up a process of our job and host, with others ahead of need.  False:
 * pml_series_lookup() must do it. */
static bool lookup_ahead(const ompi_proc_t *proc, struct mbx_address *address)
{
    uint32_t rank = proc->super.proc_name.vpid;

    if (!lookup_make_table() || rank >= ahead.ranks)
        return false;
    ahead.met++;
    if (ahead.asked[rank] == NULL && ahead.met > 1)
        lookup_ask_around(rank, ahead.met - 1);
    return ahead.asked[rank] != NULL && lookup_take(rank, address);
}

/* ---- one process ---- */

int pml_lookup(const ompi_proc_t *proc, struct mbx_address *address)
{
    void *bytes = NULL;
    size_t size = 0;
    int err;

    if (lookup_is_near(proc) && (lookup_shared(proc, address) || lookup_ahead(proc, address)))
        return OMPI_SUCCESS;
    err = pml_series_lookup(&mca_pml_matchbox_component.pmlm_version, proc, &bytes, &size);
    if (err == OMPI_SUCCESS && size != sizeof *address)
        err = OMPI_ERR_NOT_FOUND;
    if (err == OMPI_SUCCESS)
        memcpy(address, bytes, sizeof *address);
    free(bytes);
    return err;
}

void pml_lookup_close(void)
{
    pthread_mutex_lock(&ahead.lock);
    while (ahead.under_way != 0)
        pthread_cond_wait(&ahead.answered, &ahead.lock);
    pthread_mutex_unlock(&ahead.lock);
    if (ahead.asked == NULL)
        return;
    pml_series_settle(&mca_pml_matchbox_component.pmlm_version);
    for (uint32_t rank = 0; rank < ahead.ranks; rank++)
        free(ahead.asked[rank]);
    free(ahead.asked);
    ahead.asked = NULL;
    ahead.met = 0;
}
