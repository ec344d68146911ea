/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.c - opens and closes endpoints.
 */
#include "base/fill.h"
#include "base/check.h"
#include "base/host.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/random.h"
#include "boot/boot.h"
#include "base/launcher.h"
#include "core/core.h"
#include "rma/rma.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "defer/defer.h"
#include "lib/across.h"
#include "lib/devices.h"
#include "lib/inspect.h"
#include "device/host/offload.h"
#include "transport/verbs/verbs_library.h"

static const struct transport_events events = {
    .accept = peer_accept,
    .deliver = deliver_packet,
    .read_done = progress_io_done,
    .cswap_done = by_sender_exchanged,
    .dropped = progress_dropped,
    .sleeps = wait_sleeps,
    .slept = wait_slept,
};

/* Has only a check. */
static const struct module across_module = {
    .name = "invariants of several folders",
    .is_valid = MBX_CHECKS ? credit_is_valid : NULL,
};

/* All modules above core.  Their hooks are called in this order. */
static const struct module *const modules[] = {
    &module_extension,    /* of a program that adds one */
    &request_module,      /* core */
    &recv_module,         /* p2p */
    &send_module,         /* p2p */
    &eager_module,        /* p2p */
    &rndv_module,         /* p2p */
    &rndv_pieces_module,  /* p2p */
    &withdraw_module,     /* p2p */
    &drop_module,         /* p2p */
    &pieces_module,       /* core */
    &credit_module,       /* p2p */
    &offload_module,      /* device/host, or devices_absent.c */
    &advert_recv_module,  /* advert */
    &split_copy_module,   /* advert */
    &advert_send_module,  /* advert */
    &backlog_module,      /* defer */
    &receiver_module,     /* defer */
    &remote_probe_module, /* defer */
    &access_module,       /* rma */
    &target_module,       /* rma */
    &across_module,       /* lib */
    NULL,
};

int mbx_transport_get(unsigned index, const char **name, const char **about)
{
    const struct transport_ops *ops = transport_at(index);

    if (ops == NULL)
        return -ENOENT;
    *name = ops->name;
    *about = ops->about;
    return 0;
}

/* Opens the transport in MBX_TRANSPORT. */
static int endpoint_open_named(struct mbx_ep *ep, const struct transport_config *config)
{
    return transport_open(transport_at((unsigned)ep->settings.transport - 1), config,
                          &ep->net.transport);
}

/* The ranks with which a process that is apart shares memory. */
static const char *shares_words(const struct transport_config *config)
{
    return config->settings.shm.pass == SHM_PASS_ALWAYS
               ? "ranks of its network namespace and user share memory by passed descriptors"
               : "ranks of its namespaces share memory";
}

/* A process that is apart is also reached over the network; without a network only ranks that
 * share its memory can reach it. */
static int endpoint_open_apart(struct mbx_ep *ep, const struct transport_config *config,
                               const char *why)
{
    int err = transport_open(&transport_mux, config, &ep->net.transport);

    if (err == 0) {
        LOG_INFO(
            "transport shm+ofi: this process %s; %s, all others are reached over the network",
            why, shares_words(config));
        return 0;
    }
    LOG_WARN(
        "transport shm: there is no network (error %d %s), and this process %s: %s, all others "
        "cannot be reached; MBX_TRANSPORT=shm accepts this, and mbx info --network says what "
        "the network lacks",
        -err, mbx_strerror(err), why, shares_words(config));
    return transport_open(&transport_shm, config, &ep->net.transport);
}

/* MBX_TRANSPORT=auto.  why: the reason why this process is apart; NULL: it is not. */
static int endpoint_open_chosen(struct mbx_ep *ep, const struct transport_config *config,
                                bool is_spread, const char *why)
{
    if (is_spread) {
        LOG_INFO("transport shm+ofi: the job has ranks on several hosts");
        return transport_open(&transport_mux, config, &ep->net.transport);
    }
    if (why != NULL)
        return endpoint_open_apart(ep, config, why);
    LOG_INFO("transport shm: %s",
             ep->settings.device != DEVICE_NONE
                 ? "with a matching device it is automatic; MBX_TRANSPORT chooses another"
                 : "no rank of the job is known to be on another host");
    return transport_open(&transport_shm, config, &ep->net.transport);
}

/* MBX_SHM_PASS: decides for auto; an endpoint with a matching device passes nothing. */
static void endpoint_passing(const struct settings *s, bool is_apart, uint64_t *pass)
{
    if (s->device != DEVICE_NONE) {
        if (*pass == SHM_PASS_ALWAYS)
            LOG_WARN("MBX_SHM_PASS=always has no effect with a matching device (MBX_DEVICE)");
        *pass = SHM_PASS_NEVER;
    } else if (*pass == SHM_PASS_AUTO) {
        *pass = is_apart ? SHM_PASS_ALWAYS : SHM_PASS_NEVER;
    }
}

/* In a job whose ranks have published their hosts, it is not known which of them are in
 * containers, and whether these are on this machine. */
static bool endpoint_is_contained(void)
{
    struct host host;

    return host_read(&host) == 0 && (host_is_contained(&host) || host.closed_process != 0);
}

static int endpoint_open(struct mbx_ep *ep, struct transport_config *config)
{
    const struct settings *s = &ep->settings;
    char why[BOOT_WHY_SIZE];
    bool is_spread = false, has_device = s->device != DEVICE_NONE;
    bool is_apart = !has_device && boot_is_apart(why);
    int err = has_device || s->transport != 0 ? 0 : boot_is_spread(&is_spread);

    if (err < 0)
        return err;
    endpoint_passing(s, is_apart || (is_spread && endpoint_is_contained()),
                     &config->settings.shm.pass);
    return s->transport == 0
               ? endpoint_open_chosen(ep, config, is_spread, is_apart ? why : NULL)
               : endpoint_open_named(ep, config);
}

static int endpoint_transport(struct mbx_ep *ep, const uint8_t *key)
{
    const struct settings *s = &ep->settings;
    struct transport_config config = {
        .events = s->device == DEVICE_NONE ? &events : &device_events,
        .arg = ep,
        .credit = credit_welcome(ep),
        .peers = s->peers_max,
        .wants_cswap = s->match_at == MATCH_AT_SENDER,
        .rank = launcher_number(launcher_rank()) + 1, /* 0: not known */
        .settings = s->transports,
    };
    int err = 0;

    if (key != NULL)
        memcpy(config.key, key, sizeof config.key);
    else
        err = settings_key(s, config.key, sizeof config.key);
    if (err < 0)
        return err;
    config.settings.shm.job = inspect_job(config.key);
    config.settings.shm.shares_cores = s->oversubscribed == OVERSUBSCRIBED_YES;
    verbs_use(s->verbs_library);
    err = endpoint_open(ep, &config);
    if (err < 0)
        return err;
    progress_polled(ep);
    ep->net.config = config;
    return 0;
}

static void endpoint_limits(struct mbx_ep *ep)
{
    path_open(ep);
    ep->limits.reported.inject = ep->settings.tuning.inject_limit;
    ep->limits.reported.atomic = access_atomic_max(ep);
    credit_limits(ep, &ep->limits.reported);
}

int mbx_open(const struct mbx_config *config, struct mbx_ep **out)
{
    struct mbx_ep *ep;
    int err;

    if (config != NULL && config->flags != 0)
        return log_argument("mbx_open", "config->flags", config->flags, "unknown flag");
    ep = mem_calloc(1, sizeof *ep);
    if (ep == NULL)
        return -ENOMEM;
    err = settings_load(&ep->settings, config != NULL ? config->params : NULL);
    if (err < 0)
        goto free_ep;
    log_level_set((enum log_level)ep->settings.log_level);
    err = random_secret(&ep->contexts.seed, sizeof ep->contexts.seed);
    if (err < 0)
        goto free_ep;
    ep->wait.has_threads = ep->wait.detours = ep->settings.threads == THREADS_MANY;
    ep->progress.due = DUE_MOVE; /* cleared by the first round, if there is no work */
    ep->limits.cores = sys_cores();
    pool_init(&ep->requests.pool, request_size(ep->settings.device != DEVICE_NONE), 128,
              (uint32_t)min_size(ep->settings.requests, REQUESTS_MOST));
    pool_init(&ep->messages, sizeof(struct message), 128, POOL_MAX_OBJECTS); /* credit.h */
    list_init(&ep->progress.busy);
    list_init(&ep->progress.active);
    list_init(&ep->wait.waiters);
    list_init(&ep->requests.done[MBX_SENDS]);
    list_init(&ep->requests.done[MBX_RECVS]);
    list_init(&ep->requests.done[MBX_ACCESS]);
    list_init(&ep->requests.done[MBX_EVENTS]);
    list_init(&ep->progress.works);
    ep->liveness.has_seen_all = true;
    ep->modules.list = modules;
    module_register(ep);
    ep_defer(ep)->capacity = BACKLOG_RTRS;
    ep->modules.watched_from = ep->modules.watched_always = SIZE_MAX;
    credit_open(ep);
    err = endpoint_transport(ep, config != NULL ? config->key : NULL);
    if (err < 0)
        goto free_pools;
    err = lockword_init(ep);
    if (err < 0)
        goto close_transport;
    err = module_open(ep);
    if (err < 0)
        goto close_lockwords;
    ep->liveness.next = peer_own_hash(ep);
    endpoint_limits(ep);
    tracepoint_open(ep);
    inspect_open(ep);
    forked_add(ep);
    *out = ep;
    return 0;

close_lockwords:
    lockword_fini(ep);
close_transport:
    ep->net.transport->ops->close(ep->net.transport);
free_pools:
    pool_fini(&ep->messages);
    pool_fini(&ep->requests.pool);
free_ep:
    mem_free(ep);
    return err;
}

int mbx_limits_get(const struct mbx_ep *ep, struct mbx_limits *limits, size_t size)
{
    return FILL(limits, size, ep->limits.reported, extra);
}

/* Performs the requests of peers, and sends everything that waits for space, and injected
 * messages that wait here for their receive, until all have left or time is up. */
static int endpoint_drain(struct mbx_ep *ep)
{
    uint64_t start = clock_now();

    progress_arrived(ep);
    for (uint32_t i = 0; i < ep->peers.count; i++) /* other controls only serve later
                                                      messages */
        if (peer_is_used(ep, i))
            peer_get(ep, i)->owes &= ep->modules.owes_closing;
    module_stop(ep);
    while (!list_is_empty(&ep->progress.busy) ||
           !ep->net.transport->ops->is_flushed(ep->net.transport) ||
           ep->requests.injected != 0 || !module_is_flushed(ep)) {
        uint64_t gone = clock_now() - start, left;

        if (gone >= ep->settings.close_timeout_ns) {
            if (ep->requests.injected != 0)
                LOG_WARN("%u messages are lost: their sends were complete, and their receivers "
                         "did not receive them within %llu ms of the close; raise "
                         "MBX_CLOSE_TIMEOUT",
                         ep->requests.injected,
                         (unsigned long long)(ep->settings.close_timeout_ns / CLOCK_MS));
            return -ETIMEDOUT;
        }
        if (progress_round(ep) == 0) {
            left = ep->settings.close_timeout_ns - gone;
            wait_closing(ep, (int64_t)min_size(left, (size_t)liveness_ns(ep)));
            progress_check_soon(ep); /* check whether the peers are still alive */
        }
    }
    return 0;
}

static void endpoint_free_message(void *arg, void *object)
{
    message_drop(arg, object);
}

static void endpoint_forget_buffer(void *arg, void *object)
{
    struct request *req = object;

    (void)arg;
    if (request_is_in_pieces(req))
        pieces_forget_buffer(req->pieces);
}

static void endpoint_free_request(void *arg, void *object)
{
    struct request *req = object;

    if (req->flags & REQUEST_COPIED)
        mem_free(req->buf);
    if (request_is_in_pieces(req))
        pieces_end(arg, req, -ECANCELED);
}

int mbx_close(struct mbx_ep *ep)
{
    int err;

    if (forked_is_parents(ep))
        return -EPERM;
    forked_remove(ep);
    event_fd_close(ep);
    ep_lock(ep);
    err = endpoint_drain(ep);
    ep_unlock(ep);
    stats_write(ep);
    report_end(ep);
    inspect_leaks(ep);
    inspect_close(ep);
    tracepoint_close(ep);
    module_close(ep);
    pool_for_each(&ep->requests.pool, endpoint_forget_buffer, ep);
    ep->net.transport->ops->close(ep->net.transport);
    pool_for_each(&ep->messages, endpoint_free_message, ep);
    pool_for_each(&ep->requests.pool, endpoint_free_request, ep);
    module_fini(ep);
    lockword_fini(ep);
    context_fini(ep); /* takes queued entries off its queues, so it comes before the pools */
    pool_fini(&ep->messages);
    pool_fini(&ep->requests.pool);
    peer_fini(ep);
    names_fini(ep);
    mem_free(ep);
    return err;
}
