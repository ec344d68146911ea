/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cswap.c - words that peers compare and swap.
 *
 * The words are in memory that is registered once; peers learn the place in the handshake.  The
 * provider does every swap (fi_compare_atomic), also our own: an operation of a network adapter
 * on a word is atomic only to operations of the same adapter.
 *
 * A caller that only wants to know whether something has changed loads the word (load_local):
 * an adapter may write there later than it has reported to the peer, but no decision depends on
 * this load.
 *
 * A swap of a peer's word ends when the provider completes it.  For a swap of our own word we
 * wait.  It needs no other process, because both of its ends are here; but other operations
 * complete meanwhile, and the core must not be called now.  So these completions are put aside,
 * and the next poll() begins with them.
 *
 * If a swap does not complete within OWN_NS, or there is no memory to put completions aside,
 * the processor does our own swaps from then on.  These are not atomic to the swaps of an
 * adapter, but they are to the swaps of a provider that swaps inside our own calls, as
 * providers over TCP do.  The late swap does no harm, because the core never gives a word the
 * same value twice.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/ofi/ofi.h"

#define OWN_NS        (2 * CLOCK_S)
#define ENTRIES_FIRST 64

/* ---- completions that are put aside ---- */

/* Makes space for one more completion.  0; -ENOMEM. */
static int aside_reserve(struct ofi_cswap *words)
{
    size_t capacity = words->capacity == 0 ? ENTRIES_FIRST : 2 * words->capacity;
    struct ofi_entry *entries;

    if (words->first + words->count < words->capacity)
        return 0;
    if (words->first != 0) {
        memmove(words->entries, words->entries + words->first,
                words->count * sizeof *words->entries);
        words->first = 0;
        return 0;
    }
    entries = mem_realloc(words->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return -ENOMEM;
    words->entries = entries;
    words->capacity = capacity;
    return 0;
}

bool ofi_cswap_entry(struct ofi *ofi, struct ofi_entry *entry)
{
    struct ofi_cswap *words = &ofi->cswap;

    if (words->count == 0)
        return false;
    *entry = words->entries[words->first++];
    if (--words->count == 0)
        words->first = 0;
    return true;
}

/* Reads a completion of the provider's queue, if there is one. */
static bool read_entry(struct ofi *ofi, struct ofi_entry *out)
{
    struct fi_cq_err_entry failed = {.err_data_size = 0};
    ssize_t count;

    memset(out, 0, sizeof *out);
    count = fi_cq_read(ofi->domain.cq, &out->entry, 1);
    if (count != -FI_EAVAIL)
        return count == 1;
    if (fi_cq_readerr(ofi->domain.cq, &failed, 0) != 1)
        return false;
    out->entry.op_context = failed.op_context;
    out->entry.flags = failed.flags;
    out->error = failed.err != 0 ? failed.err : FI_EIO;
    return true;
}

/* ---- own words ---- */

static int ofi_cswap_start(struct ofi *ofi, struct ofi_rdma_op *op, fi_addr_t to,
                           const struct ofi_place *place, uint64_t index)
{
    void *descriptor = op->local != NULL ? fi_mr_desc(op->local) : NULL;

    return (int)fi_compare_atomic(ofi->domain.ep, &op->desired, 1, descriptor, &op->expected,
                                  descriptor, &op->found, descriptor, to,
                                  place->address + index * sizeof(uint64_t), place->key,
                                  FI_UINT64, FI_CSWAP, &op->operation.context);
}

/* 0: our swap has completed; 1: not yet; -ENOMEM; or the error of the swap. */
static int find_own(struct ofi *ofi)
{
    struct ofi_cswap *words = &ofi->cswap;
    struct ofi_entry *entry;
    int err = aside_reserve(words);

    if (err != 0)
        return err;
    entry = &words->entries[words->first + words->count];
    if (!read_entry(ofi, entry))
        return 1;
    if (entry->entry.op_context == &words->own.operation.context)
        return entry->error == 0 ? 0 : -entry->error;
    words->count++;
    return 1;
}

static int swap_by_provider(struct ofi *ofi, uint64_t index, uint64_t expected,
                            uint64_t desired, uint64_t *found)
{
    struct ofi_cswap *words = &ofi->cswap;
    uint64_t begun = clock_now();
    bool is_started = false;
    int err;

    words->own.expected = expected;
    words->own.desired = desired;
    do {
        if (!is_started) {
            err = ofi_cswap_start(ofi, &words->own, words->self, &words->place, index);
            if (err != 0 && err != -FI_EAGAIN)
                return err;
            is_started = err == 0;
        }
        err = find_own(ofi);
    } while (err > 0 && clock_now() - begun < OWN_NS);
    if (err == 0)
        *found = words->own.found;
    return err > 0 ? -ETIMEDOUT : err;
}

static void swap_by_processor(struct ofi *ofi, uint64_t index, uint64_t expected,
                              uint64_t desired, uint64_t *found)
{
    *found = expected;
    __atomic_compare_exchange_n(&ofi->cswap.bytes[index], found, desired, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static int ofi_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                           uint64_t desired, uint64_t *found)
{
    struct ofi *ofi = ofi_of(t);
    int err;

    if (ofi->cswap.bytes == NULL)
        return -ENOTSUP;
    if (index >= OFI_WORDS)
        return -EINVAL;
    if (!ofi->cswap.is_broken) {
        err = swap_by_provider(ofi, index, expected, desired, found);
        if (err == 0)
            return 0;
        ofi->cswap.is_broken = true;
        LOG_WARN("ofi: the provider fails at an atomic compare-and-swap of this process's own "
                 "memory, error %d %s; if messages are wrong, set MBX_MATCH_AT=receiver",
                 -err, ofi->domain.dl->strerror(-err));
    }
    swap_by_processor(ofi, index, expected, desired, found);
    return 0;
}

static int ofi_load_local(struct transport *t, uint64_t index, uint64_t *found)
{
    const struct ofi_cswap *words = &ofi_of(t)->cswap;

    if (words->bytes == NULL)
        return -ENOTSUP;
    if (index >= OFI_WORDS)
        return -EINVAL;
    *found = __atomic_load_n(&words->bytes[index], __ATOMIC_ACQUIRE);
    return 0;
}

/* ---- words of peers ---- */

static int ofi_cswap(struct link *l, uint64_t index, uint64_t expected, uint64_t desired,
                     uint64_t *found, uint64_t cookie)
{
    struct ofi_link *link = ofi_link_of(l);
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_place place; /* the peer's */
    struct ofi_rdma_op *op;
    int err;

    if (link->net.is_self)
        return ofi_cswap_local(&ofi->base, index, expected, desired, found);
    memcpy(&place, &link->net.offer, sizeof place);
    if (place.count == 0 || cookie == 0 || !ofi->cswap.has_atomics)
        return -ENOTSUP;
    if (index >= place.count)
        return -EINVAL;
    if ((err = ofi_rdma_reach(link)) != 0)
        return err;
    op = ofi_rdma_take(link, OFI_SWAPPING);
    if (op == NULL)
        return -EAGAIN;
    op->expected = expected;
    op->desired = desired;
    op->swap = cookie;
    err = ofi_register(ofi, &op->expected, 3 * sizeof op->expected, FI_READ | FI_WRITE,
                       &op->local);
    if (err == 0)
        err = ofi_cswap_start(ofi, op, link->to, &place, index);
    if (err != 0) {
        ofi_rdma_give(ofi, op);
        return err == -FI_EAGAIN ? -EAGAIN : -ENOTSUP;
    }
    ofi_rdma_begin(op);
    return -EINPROGRESS;
}

/* ---- open and close ---- */

static bool can_swap(const struct ofi *ofi)
{
    size_t count = 0;

    return (ofi->domain.info->caps & FI_ATOMIC) != 0 &&
           fi_compare_atomicvalid(ofi->domain.ep, FI_UINT64, FI_CSWAP, &count) == 0 &&
           count != 0;
}

static int make_words(struct ofi *ofi)
{
    struct ofi_cswap *words = &ofi->cswap;
    size_t size = OFI_WORDS * sizeof *words->bytes;
    int err;

    if (fi_av_insert(ofi->domain.av, ofi->net.self.network, 1, &words->self, 0, NULL) != 1)
        return -EHOSTUNREACH;
    words->own.operation.kind = OFI_OWN;
    err = ofi_register(ofi, &words->own.expected, 3 * sizeof words->own.expected,
                       FI_READ | FI_WRITE, &words->own.local);
    if (err == 0)
        err = ofi_register_keyed(ofi, words->bytes, size, FI_REMOTE_READ | FI_REMOTE_WRITE,
                                 &words->mr);
    if (err != 0)
        return err;
    words->place = (struct ofi_place){
        .address = ofi_domain_asks_for(ofi, FI_MR_VIRT_ADDR) ? (uintptr_t)words->bytes : 0,
        .key = fi_mr_key(words->mr),
        .count = OFI_WORDS,
    };
    return 0;
}

int ofi_cswap_open(struct ofi *ofi)
{
    int err;

    ofi->cswap.has_atomics = can_swap(ofi);
    if (!ofi->cswap.has_atomics) {
        LOG_DEBUG("ofi: provider %s does not compare and swap words of 64 bits",
                  ofi->domain.info->fabric_attr->prov_name);
        return 0;
    }
    ofi->cswap.bytes = mem_alloc_aligned(CACHE_LINE, OFI_WORDS * sizeof *ofi->cswap.bytes);
    if (ofi->cswap.bytes == NULL)
        return -ENOMEM;
    memset(ofi->cswap.bytes, 0, OFI_WORDS * sizeof *ofi->cswap.bytes);
    err = make_words(ofi);
    if (err == 0)
        return 0;
    LOG_DEBUG("ofi: no words for peers, error %d %s", -err, ofi->domain.dl->strerror(-err));
    ofi_cswap_close(ofi);
    return 0;
}

void ofi_cswap_close(struct ofi *ofi)
{
    if (ofi->cswap.own.local != NULL)
        fi_close(&ofi->cswap.own.local->fid);
    if (ofi->cswap.mr != NULL)
        fi_close(&ofi->cswap.mr->fid);
    mem_free(ofi->cswap.bytes);
    mem_free(ofi->cswap.entries);
    memset(&ofi->cswap, 0, sizeof ofi->cswap);
}

const struct transport_atomics ofi_atomics = {
    .cswap = ofi_cswap,
    .cswap_local = ofi_cswap_local,
    .load_local = ofi_load_local,
};
