/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm.c - the shared memory transport between processes of one machine.
 *
 *   sender                                        receiver
 *   shm_send: write into the receiver's ring      shm_poll: look at each hot ring, and
 *             publish                                       at the doorbell for the rest
 *             armed? ring the bell     ------->   shm_wait: arm, barrier, look, sleep
 *
 * An inline packet is one cache line written and one line read; nothing else moves while the
 * receiver polls.  The rings lie in the receiver's segment (segment.h); bell.h explains the
 * bell, link.c links, inbound.c inbound rings, and handoff.c how another process receives
 * instead of the owner.  This file opens and closes an endpoint; shm_packets.c and shm_wait.c
 * have the calls of the drawing.
 *
 * Neither side shows the job's key: each proves that it knows the key (siphash.h), the receiver
 * when it is mapped, the sender when its first packet is read.
 *
 * A killed process is noticed by polling: an endpoint that waits or polls for long asks the
 * system about some of its peers at intervals (sweep).
 *
 * Threads: one at a time per endpoint, except for one that sleeps in shm_wait(): its
 * preparations for the sleep stay valid whatever other threads do, because they are not a state
 * of the endpoint.  The rings that it has armed are now cold rings, which ring the bell until a
 * poll makes them hot again; and if the bell has rung since the sleep began, the sleeper wakes,
 * whichever thread answers.  Different threads may use different endpoints of a process.  An
 * endpoint is not usable in a child after fork().
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "transport/labels.h"
#include "transport/shm/shm.h"

#define INLINE_MAX    RING_CELL_SIZE
#define PEERS_DEFAULT 1024

/* ---- links ---- */

static int shm_check(struct link *l)
{
    return link_check(link_of(l));
}

static struct transport_who shm_who(struct link *l)
{
    return link_who(link_of(l));
}

static void shm_address(const struct transport *t, struct transport_address *address)
{
    *address = shm_of(t)->address;
}

static void say_unreachable(const struct shm *shm, const struct transport_address *address)
{
    bool is_passed = address->kind == ADDRESS_SHM && passing_is_number(address->process);
    const char *why = "it is on another machine, or one of the two is in another pid or user "
                      "namespace (a container) "
                      "or not dumpable, and only one of the two passes descriptors: "
                      "MBX_SHM_PASS=always for all ranks "
                      "shares memory with it";

    if (is_passed && shm->passes)
        why = "it is on another machine, in another network namespace (give containers the "
              "namespace of their host, as podman --net=host does), or of another user outside "
              "of its "
              "container";
    else if (!is_passed && !shm->passes)
        why =
            "it is on another machine, in another pid or user namespace (a container), or not "
            "dumpable: MBX_SHM_PASS=always for all ranks shares memory with it on one machine";
    LOG_WARN("shm: pid %u cannot be reached: %s; MBX_TRANSPORT=shm+ofi for all ranks reaches "
             "it over "
             "the network",
             is_passed ? address->place : address->process, why);
}

static int shm_reaches(const struct transport *t, const struct transport_address *address)
{
    int err = link_check_address(shm_of(t), address);

    if (err == -EHOSTUNREACH)
        say_unreachable(shm_of(t), address);
    return err;
}

/* Like link_check() of a link without traffic. */
static int shm_is_there(const struct transport *t, const struct transport_address *address)
{
    const struct shm *shm = shm_of(t);
    int err = link_check_address(shm, address);

    if (err != 0)
        return err;
    return address->process == shm->process || process_is_alive(address->process) ? 0
                                                                                  : -EHOSTDOWN;
}

static int shm_connect(struct transport *t, const struct transport_address *address,
                       struct link **out)
{
    struct shm_link *link;
    int err = link_get(shm_of(t), address, &link);

    if (err != 0)
        return err;
    link->named = true;
    *out = &link->link;
    return 0;
}

static bool shm_is_over(struct link *link)
{
    return link_is_over(link_of(link));
}

static void shm_forget(struct link *link)
{
    struct shm_link *own = link_of(link);

    link_table_remove_link(&shm_of(link->transport)->links, &own->link);
    link_destroy(own);
}

static bool shm_is_flushed(struct transport *t)
{
    (void)t;
    return true; /* packets are in the receivers' memory */
}

/* ---- open and close ---- */

static int check_config(const struct transport_config *config)
{
    uint64_t bytes = rings_choose(config).bytes;

    if (bytes < RINGS_BYTES_MIN || bytes > RINGS_BYTES_MAX) {
        LOG_ERROR("shm: a ring of %" PRIu64 " bytes is out of range %" PRIu64 "..%" PRIu64,
                  bytes, RINGS_BYTES_MIN, RINGS_BYTES_MAX);
        return -EINVAL;
    }
    if (config->peers > SEGMENT_PEERS_MAX) {
        LOG_ERROR("shm: %" PRIu64 " peers are too many: set MBX_PEERS_MAX to at most %u",
                  config->peers, SEGMENT_PEERS_MAX);
        return -EINVAL;
    }
    return 0;
}

/* Without passing, peers in other namespaces are reached over the network, or not at all. */
static void start_passing(struct shm *shm)
{
    int err = passing_start(&shm->process);

    shm->passes = err == 0;
    if (err != 0)
        LOG_WARN(
            "shm: cannot pass descriptors (SCM_RIGHTS over an abstract socket), error %d %s: "
            "this process shares no memory with ranks in other namespaces (containers); "
            "MBX_TRANSPORT=shm+ofi for all ranks reaches them over the network",
            -err, strerror(-err));
}

/* Makes the address, except for the descriptor. */
static int shm_make_address(struct shm *shm, const struct transport_config *config)
{
    struct transport_address *address = &shm->address;
    int err = 0;

    *address = (struct transport_address){
        .kind = ADDRESS_SHM, .process = shm->process, .credit = config->credit};
    if (shm->passes)
        address->cookie = passing_cookie();
    else
        err = random_secret(&address->cookie, sizeof address->cookie);
    if (err == 0)
        err = host_id(&shm->host);
    address->host = shm->host;
    if (err == 0 && shm->passes)
        err = host_meeting_id(&address->host);
    if (err != 0)
        return err;
    shm->host ^= config->settings.shm.host;
    address->host ^= config->settings.shm.host;
    if (config->network != NULL)
        address_copy_network(address, config->network);
    return 0;
}

static int create_segment(struct shm *shm, const struct transport_config *config)
{
    struct segment_config segment = {
        .peers = config->peers != 0 ? (uint32_t)config->peers : PEERS_DEFAULT,
        .rings = rings_choose(config).rings,
        .cookie = shm->address.cookie,
        .key_check = shm_owner_proof(shm, &shm->address),
        .host = shm->host,
        .needs_fence = !bell_can_barrier(),
        .rank = config->rank,
        /* a passed segment has its control block in its own file */
        .job = config->settings.shm.directory && !shm->passes ? config->settings.shm.job : 0,
    };
    int err = segment_create(&segment, &shm->own);

    if (err != 0) {
        LOG_ERROR(
            "shm: cannot make a segment, error %d %s; raise ulimit -n, or the memory limit",
            -err, strerror(-err));
        return err;
    }
    shm->address.place = shm->passes ? (uint32_t)getpid() : (uint32_t)shm->own->file->fd;
    return 0;
}

static int create_tables(struct shm *shm)
{
    shm->hot = mem_calloc(shm->own->peers, sizeof(struct inbound *));
    shm->inbound = mem_calloc(shm->own->peers, sizeof(struct inbound *));
    return shm->hot != NULL && shm->inbound != NULL ? 0 : -ENOMEM;
}

static void allow_reads(const struct shm *shm)
{
    /* with Yama, only a parent could read otherwise; without Yama this call fails */
    if (shm->attach)
        sys_prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
}

struct shm *shm_create(const struct transport_config *config)
{
    struct shm *shm = mem_calloc(1, sizeof *shm);
    enum bell_state state;

    if (shm == NULL)
        return NULL;
    shm->events = config->events;
    shm->arg = config->arg;
    shm->attach = config->settings.shm.attach != 0;
    shm->base.hint =
        (struct transport_hint){.word = transport_word_set(), .left = SHM_TEND_POLLS};
    memcpy(shm->key, config->key, sizeof shm->key);
    list_init(&shm->blocked);
    link_table_init(&shm->links, &link_naming);
    shm->process = (uint32_t)getpid();
    state = bell_register();
    shm->registers = state == BELL_REGISTERS;
    shm->fence = state != BELL_REGISTERED;
    return shm;
}

int shm_enter(struct shm *shm, const struct transport_config *config)
{
    const struct rings_choice rings = rings_choose(config);

    shm->control = shm->own->control;
    shm_hear(shm, &shm->control->doorbell);
    shm->fence = shm->fence || shm->own->needs_fence;
    bounce_init(shm, rings.second_cache);
    shm->base.ops = &transport_shm;
    shm->base.limits = (struct transport_limits){
        .packet_max = rings.packet_max,
        .inline_max = INLINE_MAX,
        .stays_armed = true,
        .can_read = shm->attach,
        .is_copy = true,
        .cswap_words = SEGMENT_WORDS,
        .table_words = SEGMENT_TABLE,
        .is_instant = true,
        .check_costs = true,
    };
    return create_tables(shm);
}

void shm_destroy(struct shm *shm)
{
    struct link *link;
    size_t position = 0;

    while ((link = link_table_next_link(&shm->links, &position)) != NULL)
        link_destroy(link_of(link));
    link_table_fini(&shm->links);
    if (shm->passes)
        passing_stop();
    mem_free(shm->inbound);
    mem_free(shm->hot);
    explicit_bzero(shm->key, sizeof shm->key);
    mem_free(shm);
}

static int shm_open_endpoint(const struct transport_config *config, struct transport **out)
{
    struct shm *shm;
    int err = check_config(config);

    if (err != 0)
        return err;
    shm = shm_create(config);
    if (shm == NULL)
        return -ENOMEM;
    if (config->settings.shm.pass == SHM_PASS_ALWAYS)
        start_passing(shm);
    err = shm_make_address(shm, config);
    if (err != 0)
        goto destroy_shm;
    err = create_segment(shm, config);
    if (err != 0)
        goto destroy_shm;
    err = shm_enter(shm, config);
    if (err != 0)
        goto close_segment;
    allow_reads(shm);
    *out = &shm->base;
    return 0;

close_segment:
    segment_close(shm->own);
destroy_shm:
    shm_destroy(shm);
    return err;
}

static void shm_close(struct transport *t)
{
    struct shm *shm = shm_of(t);
    struct segment *own = shm->own;

    inbound_close_all(shm);
    shm_destroy(shm);
    segment_close(own);
}

static int shm_share(struct transport *t, uint64_t label,
                     const struct transport_address *address)
{
    return segment_share(shm_of(t)->own, label, address);
}

static int shm_find(const struct transport *t, uint64_t label,
                    struct transport_address *address)
{
    return segment_find(shm_of(t)->own, label, address);
}

#define AT(field) offsetof(struct transport_settings, shm.field)

static const char *const pass_names[] = {
    [SHM_PASS_AUTO] = "auto", [SHM_PASS_ALWAYS] = "always", [SHM_PASS_NEVER] = "never", NULL};

static const char *const auto_word[] = {"auto", NULL};

static const struct param params[] = {
    {"SHM_RING_SIZE", PARAM_SIZE, PARAM_ADVANCED, NULL, "auto", RINGS_BYTES_MIN,
     RINGS_BYTES_MAX, auto_word,
     "shared memory of one sender and one receiver, rounded down to a power of two; auto: 16K, "
     "or 32K with MBX_OVERSUBSCRIBED=yes; 64K for the first eight senders if the second cache "
     "of a core has 2M or more",
     AT(ring_size)},
    {"SHM_ATTACH", PARAM_BOOL, PARAM_ADVANCED, NULL, "yes", 0, 0, NULL,
     "read other processes' memory (cross-memory attach)", AT(attach)},
    {"SHM_DIRECTORY", PARAM_BOOL, PARAM_ADVANCED, NULL, "yes", 0, 0, NULL,
     "ranks of a job on one machine find each other's queues in one file", AT(directory)},
    {"SHM_PASS", PARAM_CHOICE, PARAM_ADVANCED, NULL, "auto", 0, 0, pass_names,
     "share memory by passed descriptors (SCM_RIGHTS over an abstract socket), which work "
     "across pid and user namespaces; auto: if a rank may be in a container of its own; "
     "always: set it for all ranks if only some are in containers",
     AT(pass)},
};

const struct transport_ops transport_shm = {
    .name = "shm",
    .about = "processes of one machine, through shared memory",
    .params = params,
    .param_count = ARRAY_COUNT(params),
    .memory = &shm_memory,
    .atomics = &shm_atomics,
    .handoff = &shm_handoff,
    .compose = &(const struct transport_compose){.send = shm_compose},
    .bounce = &shm_bounce,
    .labels = &(const struct transport_labels){.share = shm_share, .find = shm_find},
    .open = shm_open_endpoint,
    .close = shm_close,
    .address = shm_address,
    .reaches = shm_reaches,
    .connect = shm_connect,
    .send = shm_send,
    .send_eager = shm_send_eager,
    .check = shm_check,
    .check_address = shm_is_there,
    .who = shm_who,
    .is_over = shm_is_over,
    .forget = shm_forget,
    .poll = shm_poll,
    .wait = shm_wait,
    .wake = shm_wake,
    .is_flushed = shm_is_flushed,
};
