/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_regions.c - see verbs_regions.h.
 *
 * Whether memory can be watched follows from its mapping, and finding that costs more than many
 * registrations.  So memory is kept only when it is requested for the second time.
 */
#include "transport/verbs/verbs_regions.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <sys/resource.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/verbs/verbs_library.h"

#define PAGE       ((uintptr_t)4096)
#define KEPT_MAX   512
#define SLOTS      512
#define USUAL_MOST ((uint64_t)1 << 30)

/* Requested addresses.  Not a struct hash: a new address displaces an old one, so the table
 * never grows. */
struct slot {
    struct verbs_region *region; /* the kept region that last covered it; or NULL */
    uintptr_t begin;             /* the address requested last; 0: none */
};

struct verbs_regions {
    struct ibv_pd *pd;
    struct list kept;
    uint32_t kept_count;
    bool is_watching;
    uint64_t bytes, bytes_max;
    uint64_t seen_gone; /* the result of memwatch_check() when all kept regions were mapped */
    struct verbs_regions_stats stats;
    struct slot slots[SLOTS];
};

static struct slot *verbs_regions_slot_of(struct verbs_regions *regions, uintptr_t begin)
{
    return &regions->slots[hash_mix(begin / 64) % SLOTS];
}

/* ---- open and close ---- */

static uint64_t usual_bytes(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return 0;
    return limit.rlim_cur / 4 < USUAL_MOST ? limit.rlim_cur / 4 : USUAL_MOST;
}

static bool start_watching(void)
{
    int err;

    /* libibverbs then marks pages at registration and at deregistration, and cannot mark them
     * once they are unmapped */
    if (verbs_library_minds_fork()) {
        LOG_DEBUG("verbs: registrations are not kept, because libibverbs prepares for fork()");
        return false;
    }
    err = memwatch_open();
    if (err != 0)
        LOG_DEBUG(
            "verbs: registrations are not kept, because this process cannot learn what is "
            "unmapped (userfaultfd): error %d",
            -err);
    return err == 0;
}

struct verbs_regions *verbs_regions_open(struct ibv_pd *pd, uint64_t bytes_max)
{
    struct verbs_regions *regions = mem_calloc(1, sizeof *regions);

    if (regions == NULL)
        return NULL;
    list_init(&regions->kept);
    regions->pd = pd;
    regions->bytes_max = bytes_max == UINT64_MAX ? usual_bytes() : bytes_max;
    regions->is_watching = regions->bytes_max != 0 && start_watching();
    return regions;
}

/* ---- the end of a region ---- */

static void verbs_regions_destroy(struct verbs_region *region)
{
    ibv_dereg_mr(region->mr);
    mem_free(region);
}

static uint64_t bytes_of(const struct verbs_region *region)
{
    return region->range.end - region->range.begin;
}

/* The region is not found any more; its users still put it. */
static void verbs_regions_forget(struct verbs_region *region)
{
    struct verbs_regions *regions = region->regions;

    for (size_t i = 0; i < SLOTS; i++)
        if (regions->slots[i].region == region)
            regions->slots[i].region = NULL;
    memwatch_remove(&region->range);
    list_remove(&region->node);
    regions->kept_count--;
    regions->bytes -= bytes_of(region);
    if (region->uses == 0)
        verbs_regions_destroy(region);
}

void verbs_region_put(struct verbs_region *region)
{
    assert(region->uses > 0);
    if (--region->uses == 0 && !list_is_linked(&region->node))
        verbs_regions_destroy(region);
}

void verbs_regions_close(struct verbs_regions *regions)
{
    if (regions == NULL)
        return;
    LOG_DEBUG("verbs: %" PRIu64 " registrations, %" PRIu64 " spared, %" PRIu64
              " let go of because their memory was unmapped",
              regions->stats.made, regions->stats.found, regions->stats.gone);
    while (!list_is_empty(&regions->kept))
        verbs_regions_forget(container_of(regions->kept.next, struct verbs_region, node));
    if (regions->is_watching)
        memwatch_close();
    mem_free(regions);
}

/* Drops regions whose memory is gone.  Can the others be used, and new ones be kept? */
static bool check_gone(struct verbs_regions *regions)
{
    struct list *node = regions->kept.next;
    uint64_t gone;
    bool is_calm;

    if (!regions->is_watching)
        return false;
    is_calm = memwatch_check(&gone);
    if (likely(gone == regions->seen_gone))
        return is_calm;
    regions->seen_gone = gone;
    while (node != &regions->kept) {
        struct verbs_region *region = container_of(node, struct verbs_region, node);

        node = node->next;
        if (memwatch_is_gone(&region->range)) {
            regions->stats.gone++;
            verbs_regions_forget(region);
        }
    }
    return is_calm;
}

void verbs_regions_tend(struct verbs_regions *regions)
{
    check_gone(regions);
}

/* Drops the least recently used region.  False: all are in use. */
static bool drop_oldest(struct verbs_regions *regions)
{
    struct list *node;

    for (node = regions->kept.prev; node != &regions->kept; node = node->prev) {
        struct verbs_region *region = container_of(node, struct verbs_region, node);

        if (region->uses == 0) {
            verbs_regions_forget(region);
            return true;
        }
    }
    return false;
}

/* ---- getting one ---- */

static bool covers(const struct verbs_region *region, uintptr_t begin, size_t size, int access)
{
    return region->range.begin <= begin && size <= region->range.end - begin &&
           begin < region->range.end && (access & ~region->access) == 0;
}

static struct verbs_region *verbs_regions_find(struct verbs_regions *regions, struct slot *slot,
                                               uintptr_t begin, size_t size, int access)
{
    struct list *node;

    if (slot->region != NULL && covers(slot->region, begin, size, access))
        return slot->region;
    list_for_each (node, &regions->kept) {
        struct verbs_region *region = container_of(node, struct verbs_region, node);

        if (covers(region, begin, size, access)) {
            slot->region = region;
            return region;
        }
    }
    return NULL;
}

static struct verbs_region *verbs_regions_create(struct verbs_regions *regions, int access)
{
    struct verbs_region *region = mem_calloc(1, sizeof *region);

    if (region == NULL)
        return NULL;
    list_init_node(&region->node);
    region->regions = regions;
    region->access = access;
    return region;
}

/* Registers the region; drops unused kept regions if memory is short.  False and errno. */
static bool enter(struct verbs_region *region, uintptr_t begin, size_t size)
{
    struct verbs_regions *regions = region->regions;

    /* in parentheses: the macro of that name handles optional flags, which it cannot exclude
     * here */
    do
        region->mr = (ibv_reg_mr)(regions->pd, (void *)begin, size, region->access);
    while (region->mr == NULL && errno == ENOMEM && drop_oldest(regions));
    regions->stats.made += region->mr != NULL;
    return region->mr != NULL;
}

/* Makes space for this many more bytes. */
static bool make_space(struct verbs_regions *regions, uint64_t bytes)
{
    if (bytes > regions->bytes_max)
        return false;
    while (regions->bytes > regions->bytes_max - bytes || regions->kept_count == KEPT_MAX)
        if (!drop_oldest(regions))
            return false;
    return true;
}

/* Drops the regions that a new, larger one makes needless. */
static void forget_within(struct verbs_regions *regions, const struct verbs_region *larger)
{
    struct list *node = regions->kept.next;

    while (node != &regions->kept) {
        struct verbs_region *region = container_of(node, struct verbs_region, node);

        node = node->next;
        if (region->uses == 0 &&
            covers(larger, region->range.begin, bytes_of(region), region->access))
            verbs_regions_forget(region);
    }
}

/* Registers whole pages, and keeps the region.  NULL: they cannot be watched, or there is no
 * space. */
static struct verbs_region *keep(struct verbs_regions *regions, uintptr_t begin, size_t size,
                                 int access)
{
    const uintptr_t from = begin / PAGE * PAGE, to = (begin + size + PAGE - 1) / PAGE * PAGE;
    struct verbs_region *region = verbs_regions_create(regions, access);

    if (region == NULL)
        return NULL;
    if (!make_space(regions, to - from) || memwatch_add(&region->range, from, to - from) != 0) {
        mem_free(region);
        return NULL;
    }
    if (!enter(region, from, to - from)) {
        memwatch_remove(&region->range);
        mem_free(region);
        return NULL;
    }
    forget_within(regions, region);
    list_add_head(&regions->kept, &region->node);
    regions->kept_count++;
    regions->bytes += bytes_of(region);
    return region;
}

/* Registers these bytes, for one use.  NULL and errno. */
static struct verbs_region *use_once(struct verbs_regions *regions, uintptr_t begin,
                                     size_t size, int access)
{
    struct verbs_region *region = verbs_regions_create(regions, access);

    if (region == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (!enter(region, begin, size)) {
        const int err = errno;

        mem_free(region);
        errno = err;
        return NULL;
    }
    return region;
}

/* A region that is kept, or will be; or NULL. */
static struct verbs_region *get_kept(struct verbs_regions *regions, uintptr_t begin,
                                     size_t size, int access)
{
    struct slot *slot = verbs_regions_slot_of(regions, begin);
    struct verbs_region *region = verbs_regions_find(regions, slot, begin, size, access);

    if (region != NULL) {
        regions->stats.found++;
        list_remove(&region->node);
        list_add_head(&regions->kept, &region->node);
    } else if (slot->begin == begin) {
        region = keep(regions, begin, size, access);
        slot->region = region;
    }
    slot->begin = begin;
    return region;
}

struct verbs_region *verbs_region_get(struct verbs_regions *regions, const void *buf,
                                      size_t size, int access)
{
    const uintptr_t begin = (uintptr_t)buf;
    struct verbs_region *region = NULL;

    assert(size > 0);
    if (check_gone(regions))
        region = get_kept(regions, begin, size, access);
    if (region == NULL)
        region = use_once(regions, begin, size, access);
    if (region != NULL)
        region->uses++;
    return region;
}

void verbs_regions_stats(const struct verbs_regions *regions, struct verbs_regions_stats *stats)
{
    *stats = regions->stats;
    stats->bytes = regions->bytes;
}
