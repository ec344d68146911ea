/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.c - a network endpoint over libfabric: opening, polling, waiting, closing.
 *
 *   fabric -> domain -> endpoint (reliable datagrams, messages and RMA)
 *                       completion queue, one for everything, with a descriptor to sleep on
 *                       address vector, one entry for each link
 *
 * Matching is not asked of it.  ofi.h says which part is where, packet.h how two endpoints
 * get to know each other.
 *
 * wait() sleeps on the descriptor of the completion queue and on an eventfd, by which wake()
 * ends it.  fi_trywait() says whether the provider will signal what comes; if it says no, or
 * there is no descriptor, or a packet waits for what signals nothing, it sleeps a slice.
 *
 * close() says BYE on each link and waits a moment until the provider has sent it; what was
 * sent before and is_flushed() is delivered, as far as the network lives.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "transport/ofi/ofi.h"
#include "transport/ofi/params.h"
#include "transport/ofi/part.h"

#define ENTRIES_MAX    16   /* completions read at once */
#define TEND_POLLS     4096 /* between two looks at greetings, and at what does not leave */
#define TEND_SLEEPS    16   /* the same for who sleeps */
#define GOODBYE_NS     (200 * CLOCK_MS)
#define SLICE_MS       50 /* that it sleeps although it will be told: a provider may forget */
#define SLICE_BLIND_MS 1  /* that it sleeps if nobody may tell it */

/* ---- addresses ---- */

static uint8_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return (uint8_t)(hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24);
}

static int make_address(struct ofi *ofi, const struct transport_config *config)
{
    struct transport_address address = {.kind = ADDRESS_OFI, .credit = config->credit};
    size_t size = sizeof address.network;
    int err = fi_getname(&ofi->ep->fid, address.network, &size);

    if (err == -FI_ETOOSMALL || size > sizeof address.network) {
        LOG_ERROR("ofi: addresses of provider %s are %zu bytes long, more than %zu",
                  ofi->info->fabric_attr->prov_name, size, sizeof address.network);
        return -ENOTSUP;
    }
    if (err == 0)
        err = random_secret(&address.cookie, sizeof address.cookie);
    if (err == 0)
        err = host_id(&address.host);
    if (err != 0)
        return err;
    address.network_size = (uint8_t)size;
    address.network_format = (uint8_t)ofi->info->addr_format;
    address.network_provider = hash_of(ofi->info->fabric_attr->prov_name);
    ofi->self = address;
    return 0;
}

static void ofi_address(const struct transport *t, struct transport_address *address)
{
    *address = ofi_of(t)->self;
}

void transport_ofi_rename(struct transport *t, const struct transport_address *address)
{
    assert(ofi_of(t)->id_count == 0);
    ofi_of(t)->self = *address;
}

bool transport_ofi_is_used(const struct transport *t)
{
    return ofi_of(t)->id_count != 0;
}

void transport_ofi_count(const struct transport *t, uint64_t *begun, uint64_t *ended)
{
    *begun = ofi_of(t)->begun;
    *ended = ofi_of(t)->ended;
}

static int ofi_reaches(const struct transport *t, const struct transport_address *address)
{
    return ofi_check_address(ofi_of(t), address);
}

static int ofi_connect(struct transport *t, const struct transport_address *address,
                       struct link **out)
{
    struct ofi_link *link;
    int err = ofi_link_get(ofi_of(t), address, &link);

    if (err != 0)
        return err;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

/* ---- polling ---- */

static struct ofi_buffer *buffer_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_buffer, operation);
}

static struct ofi_rma *rma_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_rma, operation);
}

static struct ofi_receive *receive_of(struct ofi_operation *operation)
{
    return container_of(operation, struct ofi_receive, operation);
}

static struct ofi_operation *operation_of(void *context)
{
    return container_of((struct fi_context2 *)context, struct ofi_operation, context);
}

static void completed(struct ofi *ofi, const struct fi_cq_data_entry *entry)
{
    struct ofi_operation *operation = operation_of(entry->op_context);

    switch (operation->kind) {
    case OFI_SENDING:
        ofi_sent(ofi, buffer_of(operation));
        break;
    case OFI_MOVING:
    case OFI_EXCHANGING:
        ofi_moved(ofi, rma_of(operation), 0);
        break;
    case OFI_OWN:
        break; /* nobody waits for it any more */
    case OFI_RECEIVING: {
        struct ofi_receive *receive = receive_of(operation);
        bool has_packet = (entry->flags & FI_RECV) != 0 && entry->len != 0;
        unsigned char *bytes = ofi->has_multi ? entry->buf : receive->bytes;

        ofi_received(ofi, receive, has_packet ? bytes : NULL, entry->len,
                     (entry->flags & FI_MULTI_RECV) != 0);
        break;
    }
    }
}

/* A packet that was cut off has taken all that was left of its buffer: there is nothing that
 * the provider could keep it for, but not every one says that it lets go. */
static void receive_failed(struct ofi *ofi, struct ofi_receive *receive, uint64_t flags,
                           int error)
{
    bool is_released =
        (flags & FI_MULTI_RECV) != 0 || error == FI_ECANCELED || error == FI_ETRUNC;

    ofi_received(ofi, receive, NULL, 0, is_released);
    if (error != FI_ECANCELED && !ofi->is_closing)
        ofi->events->dropped(ofi->arg, "a packet that the provider could not receive");
}

static void operation_failed(struct ofi *ofi, void *context, uint64_t flags, int error)
{
    struct ofi_operation *operation = operation_of(context);

    LOG_DEBUG("ofi: operation of kind %d failed, error %d %s", (int)operation->kind, error,
              ofi->library->strerror(error));
    switch (operation->kind) {
    case OFI_SENDING:
        ofi_send_failed(ofi, buffer_of(operation), error);
        break;
    case OFI_MOVING:
    case OFI_EXCHANGING:
        ofi_moved(ofi, rma_of(operation), -EIO);
        break;
    case OFI_RECEIVING:
        receive_failed(ofi, receive_of(operation), flags, error);
        break;
    case OFI_OWN:
        break;
    }
}

static void take_error(struct ofi *ofi)
{
    struct fi_cq_err_entry entry = {.err_data_size = 0};

    if (fi_cq_readerr(ofi->cq, &entry, 0) == 1 && entry.op_context != NULL)
        operation_failed(ofi, entry.op_context, entry.flags, entry.err);
}

/* What words.c has read and put aside. */
static OUT_OF_LINE int take_aside(struct ofi *ofi, int budget)
{
    struct ofi_entry aside;
    int taken = 0;

    for (; taken < budget && ofi_words_entry(ofi, &aside); taken++)
        if (aside.error == 0)
            completed(ofi, &aside.entry);
        else if (aside.entry.op_context != NULL)
            operation_failed(ofi, aside.entry.op_context, aside.entry.flags, aside.error);
    return taken;
}

static int take_completions(struct ofi *ofi, int budget)
{
    struct fi_cq_data_entry entries[ENTRIES_MAX];
    size_t most = min_size(ENTRIES_MAX, max_size(1, (size_t)budget));
    ssize_t count;

    if (unlikely(ofi->words.count != 0))
        return take_aside(ofi, (int)most);
    count = fi_cq_read(ofi->cq, entries, most);
    for (ssize_t i = 0; i < count; i++)
        completed(ofi, &entries[i]);
    if (unlikely(count == -FI_EAVAIL)) {
        take_error(ofi);
        return 1;
    }
    return count > 0 ? (int)count : 0;
}

static OUT_OF_LINE void tend(struct ofi *ofi)
{
    ofi->until_tend = TEND_POLLS;
    ofi_tend(ofi);
}

static int ofi_poll(struct transport *t, int budget)
{
    struct ofi *ofi = ofi_of(t);
    int moved = take_completions(ofi, budget);

    if (unlikely(!list_is_empty(&ofi->holding)))
        moved += ofi_deliver_held(ofi);
    if (unlikely(!list_is_empty(&ofi->busy)))
        moved += ofi_push_all(ofi);
    if (unlikely(ofi->to_give != 0))
        ofi_receives_give(ofi);
    if (unlikely(ofi->until_tend-- == 0))
        tend(ofi);
    return moved;
}

static bool ofi_is_flushed(struct transport *t)
{
    return ofi_of(t)->free_count == OFI_BUFFERS;
}

/* ---- waiting ---- */

/* Does something wait that no completion announces? */
static bool is_blind(const struct ofi *ofi)
{
    return ofi->fd < 0 || !list_is_empty(&ofi->busy) || !list_is_empty(&ofi->holding);
}

int transport_ofi_prepare(struct transport *t, int *fd)
{
    struct ofi *ofi = ofi_of(t);
    struct fid *fids[1] = {&ofi->cq->fid};
    int err;

    *fd = ofi->fd;
    if (ofi->until_tend > TEND_SLEEPS)
        ofi->until_tend = TEND_SLEEPS;
    if (ofi->words.count != 0)
        return 1;
    if (is_blind(ofi))
        return -EAGAIN;
    err = ofi->fabric->ops->trywait(ofi->fabric, fids, 1);
    return err == 0 ? 0 : err == -FI_EAGAIN ? 1 : -EAGAIN;
}

static int slice_ms(int64_t left_ns, int most)
{
    int64_t ms = (left_ns + (int64_t)CLOCK_MS - 1) / (int64_t)CLOCK_MS;

    return left_ns < 0 || ms > most ? most : (int)ms;
}

static int sleep_on(struct ofi *ofi, int fd, int ms)
{
    struct pollfd fds[2] = {{.fd = ofi->bell, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    int n, err;
    uint64_t count;

    if (ofi->events->sleeps != NULL)
        ofi->events->sleeps(ofi->arg);
    n = sys_poll(fds, 2, ms);
    err = n < 0 ? errno : 0;
    if (n > 0 && fds[0].revents != 0)
        (void)!sys_read(ofi->bell, &count, sizeof count);
    if (ofi->events->slept != NULL)
        ofi->events->slept(ofi->arg);
    if (n < 0)
        return err == EINTR ? -EINTR : 0;
    return n == 0 ? -ETIMEDOUT : 0;
}

static int ofi_wait(struct transport *t, int64_t timeout_ns)
{
    struct ofi *ofi = ofi_of(t);
    int fd, err, ready = transport_ofi_prepare(t, &fd);
    int most = ready == 0 ? SLICE_MS : SLICE_BLIND_MS;

    if (ready == 1)
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    err = sleep_on(ofi, ready == 0 ? fd : -1, slice_ms(timeout_ns, most));
    if (err == -ETIMEDOUT && (timeout_ns < 0 || timeout_ns > most * (int64_t)CLOCK_MS))
        return 0; /* there is time left: look, and sleep again */
    return err;
}

static void ofi_wake(struct transport *t)
{
    const uint64_t one = 1;

    (void)!sys_write(ofi_of(t)->bell, &one, sizeof one);
}

/* ---- open ---- */

static int failed(const struct ofi *ofi, const char *what, int err)
{
    LOG_ERROR("ofi: %s of provider %s failed, error %d %s", what,
              ofi->info->fabric_attr->prov_name, -err, ofi->library->strerror(-err));
    return err == -FI_ENOMEM ? -ENOMEM : -EIO;
}

static int open_queue(struct ofi *ofi)
{
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = FI_WAIT_FD,
        .size = 2 * (OFI_BUFFERS + OFI_RMA_MAX) +
                OFI_MULTI * (OFI_MULTI_SIZE / sizeof(struct wire_header)) / 8,
    };
    int err = fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);

    ofi->fd = -1;
    if (err == 0) {
        if (fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->fd) != 0)
            ofi->fd = -1;
        return 0;
    }
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
}

static int open_objects(struct ofi *ofi)
{
    struct fi_av_attr av = {.type = ofi->info->domain_attr->av_type};
    int err = ofi->library->fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);

    if (err != 0)
        return failed(ofi, "fi_fabric", err);
    if ((err = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL)) != 0)
        return failed(ofi, "fi_domain", err);
    if (av.type == FI_AV_UNSPEC)
        av.type = FI_AV_TABLE;
    if ((err = fi_av_open(ofi->domain, &av, &ofi->av, NULL)) != 0)
        return failed(ofi, "fi_av_open", err);
    if ((err = open_queue(ofi)) != 0)
        return failed(ofi, "fi_cq_open", err);
    if ((err = fi_endpoint(ofi->domain, ofi->info, &ofi->ep, NULL)) != 0)
        return failed(ofi, "fi_endpoint", err);
    if ((err = fi_ep_bind(ofi->ep, &ofi->av->fid, 0)) != 0 ||
        (err = fi_ep_bind(ofi->ep, &ofi->cq->fid, FI_TRANSMIT | FI_RECV)) != 0)
        return failed(ofi, "fi_ep_bind", err);
    err = fi_enable(ofi->ep);
    return err != 0 ? failed(ofi, "fi_enable", err) : 0;
}

static int open_buffers(struct ofi *ofi)
{
    int err;

    ofi->buffers = mem_alloc_aligned(CACHE_LINE, OFI_BUFFERS * sizeof *ofi->buffers);
    if (ofi->buffers == NULL)
        return -ENOMEM;
    err = ofi_register(ofi, ofi->buffers, OFI_BUFFERS * sizeof *ofi->buffers, FI_SEND,
                       &ofi->buffers_mr);
    if (err != 0)
        return failed(ofi, "fi_mr_reg", err);
    for (size_t i = 0; i < OFI_BUFFERS; i++) {
        struct ofi_buffer *buffer = &ofi->buffers[i];

        buffer->operation.kind = OFI_SENDING;
        buffer->descriptor = ofi->buffers_mr != NULL ? fi_mr_desc(ofi->buffers_mr) : NULL;
        list_init_node(&buffer->node);
        list_add_tail(&ofi->free, &buffer->node);
    }
    ofi->free_count = OFI_BUFFERS;
    return 0;
}

static void set_limits(struct ofi *ofi)
{
    size_t inject = min_size(ofi->info->tx_attr->inject_size, 256);
    size_t least = sizeof(struct ofi_prefix) + sizeof(struct wire_header);

    ofi->inject_max = inject;
    ofi->base.limits = (struct transport_limits){
        .packet_max = OFI_PACKET_MAX,
        .inline_max = max_size(inject, least) - sizeof(struct ofi_prefix),
        .can_read = (ofi->info->caps & FI_RMA) != 0,
        .cswap_words = ofi->words.bytes != NULL ? OFI_WORDS : 0,
    };
}

static void release(struct ofi *ofi)
{
    if (ofi->ep != NULL)
        fi_close(&ofi->ep->fid);
    ofi_receives_close(ofi);
    ofi_words_close(ofi);
    ofi_memory_close(ofi);
    if (ofi->buffers_mr != NULL)
        fi_close(&ofi->buffers_mr->fid);
    if (ofi->cq != NULL)
        fi_close(&ofi->cq->fid);
    if (ofi->av != NULL)
        fi_close(&ofi->av->fid);
    if (ofi->domain != NULL)
        fi_close(&ofi->domain->fid);
    if (ofi->fabric != NULL)
        fi_close(&ofi->fabric->fid);
    if (ofi->info != NULL)
        ofi->library->freeinfo(ofi->info);
    if (ofi->bell >= 0)
        sys_close(ofi->bell);
    for (uint32_t i = 0; i < ofi->id_count; i++)
        ofi_link_destroy(ofi->by_id[i]);
    mem_free(ofi->by_id);
    link_table_fini(&ofi->links);
    mem_free(ofi->buffers);
    explicit_bzero(ofi->key, sizeof ofi->key);
    mem_free(ofi);
}

static struct ofi *create(const struct transport_config *config)
{
    struct ofi *ofi = mem_calloc(1, sizeof *ofi);

    if (ofi == NULL)
        return NULL;
    ofi->base.ops = &transport_ofi;
    ofi->events = config->events;
    ofi->arg = config->arg;
    ofi->timeout_ns = config->settings.ofi.timeout_ns;
    ofi->until_tend = TEND_POLLS;
    ofi->fd = -1;
    memcpy(ofi->key, config->key, sizeof ofi->key);
    list_init(&ofi->busy);
    list_init(&ofi->holding);
    list_init(&ofi->free);
    link_table_init(&ofi->links);
    ofi->bell = sys_eventfd(0, EFD_NONBLOCK);
    if (ofi->bell < 0)
        ofi->bell = -errno; /* open_all() says so */
    return ofi;
}

static int open_all(struct ofi *ofi, const struct transport_config *config)
{
    int err = ofi->bell < 0 ? ofi->bell : ofi_library_get(&ofi->library);

    if (err == 0)
        err = ofi_select(ofi->library, config->settings.ofi.provider,
                         config->settings.ofi.interface, config->wants_cswap, &ofi->info);
    if (err == 0)
        err = open_objects(ofi);
    if (err == 0)
        err = open_buffers(ofi);
    if (err == 0)
        err = ofi_memory_open(ofi);
    if (err == 0)
        err = ofi_receives_open(ofi);
    if (err == 0)
        err = make_address(ofi, config);
    if (err == 0 && config->wants_cswap)
        err = ofi_words_open(ofi);
    return err;
}

/* Once in a process: who has no key lets everybody in who can reach the network. */
static void warn_without_key(const struct transport_config *config)
{
    static const uint8_t none[sizeof config->key];
    static atomic_flag is_said = ATOMIC_FLAG_INIT;

    if (memcmp(config->key, none, sizeof none) == 0 && !atomic_flag_test_and_set(&is_said))
        LOG_WARN("ofi: there is no key (MBX_KEY is empty): whoever reaches this network can "
                 "join; mbx run, mbx exec and mbx_job_key() have one");
}

static int ofi_open(const struct transport_config *config, struct transport **out)
{
    struct ofi *ofi = create(config);
    int err;

    if (ofi == NULL)
        return -ENOMEM;
    err = open_all(ofi, config);
    if (err != 0) {
        release(ofi);
        return err;
    }
    set_limits(ofi);
    warn_without_key(config);
    LOG_DEBUG("ofi: provider %s, domain %s", ofi->info->fabric_attr->prov_name,
              ofi->info->domain_attr->name);
    *out = &ofi->base;
    return 0;
}

/* ---- close ---- */

/* Everything has left, and what was to be read or written is over: tcp;ofi_rxm of
 * libfabric 1.17 does not survive the closing of an endpoint that reads from one which is no
 * more. */
static bool has_said_goodbye(const struct ofi *ofi)
{
    return ofi->free_count == OFI_BUFFERS && list_is_empty(&ofi->busy) && ofi->rma_count == 0;
}

/* Who was answered takes the link for open, or soon will. */
static bool expects_goodbye(const struct ofi_link *link)
{
    return (link->state == OFI_OPEN || link->state == OFI_ANSWERING) && !link->is_self;
}

static void say_goodbye(struct ofi *ofi)
{
    uint64_t start = clock_now();

    for (uint32_t i = 0; i < ofi->id_count; i++)
        if (expects_goodbye(ofi->by_id[i]))
            ofi_owe(ofi->by_id[i], OFI_BYE);
    do {
        ofi_push_all(ofi);
        take_completions(ofi, ENTRIES_MAX);
    } while (!has_said_goodbye(ofi) && clock_now() - start < GOODBYE_NS);
}

static void ofi_close(struct transport *t)
{
    struct ofi *ofi = ofi_of(t);

    ofi->is_closing = true;
    say_goodbye(ofi);
    release(ofi);
}

const struct transport_ops transport_ofi = {
    .name = "ofi",
    .about = "processes of other machines, over a network, through libfabric",
    .params = ofi_params,
    .param_count = OFI_PARAMS,
    .memory = &ofi_memory,
    .atomics = &ofi_atomics,
    .open = ofi_open,
    .close = ofi_close,
    .address = ofi_address,
    .reaches = ofi_reaches,
    .connect = ofi_connect,
    .send = ofi_send,
    .check = ofi_link_check,
    .check_address = ofi_check_unnamed,
    .poll = ofi_poll,
    .wait = ofi_wait,
    .wake = ofi_wake,
    .is_flushed = ofi_is_flushed,
};
