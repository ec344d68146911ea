/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settling: An arrival is followed by a marker from the same source, a message with a tag that
 * no receive of a history accepts, and a receive for the marker.  By FI_ORDER_SAS and a single
 * path, all earlier messages of this source have arrived when that receive completes, and the
 * completions of a message were written to the completion queue before.  The same is done after
 * a post and a cancel, with a marker from source 0: the receiver has then made progress and
 * written completions in between.  A probe ends with a completion of its own.
 *
 * Endpoints are closed after each history, whatever still waits there, and opened again.
 */
#include "base/base.h" /* before libfabric, which has its own container_of() only if there is none */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "base/clock.h"
#include "engine.h"

#define NODES         (1 + ENGINE_SOURCES)
#define ADDRESS_SIZE  256
#define MARKER        (UINT64_C(1) << 61)
#define CONTEXT_SHIFT 56
#define TAG_BITS      ((UINT64_C(1) << CONTEXT_SHIFT) - 1)
#define PATIENCE_MS   5

enum node_name { RECEIVER, FIRST_SOURCE };

enum role { RECV, SEND, PROBED, MARKER_RECV, MARKER_SEND };

/* An operation under way; a completion names it by its context. */
struct record {
    struct fi_context2 context; /* belongs to the provider while under way */
    enum role role;
    int id;
    bool is_posted, is_done, is_cancelled;
    bool is_refused; /* FI_ENOMSG */
    size_t size;
    unsigned char data[ENGINE_MESSAGE_MAX];
};

struct node {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    char address[ADDRESS_SIZE];
    fi_addr_t to_receiver; /* a source's address of the receiver */
};

struct ofi {
    struct engine engine;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct node nodes[NODES];
    fi_addr_t sources[ENGINE_SOURCES]; /* the receiver's addresses of the sources */
    struct meetings meetings;
    bool is_broken; /* a completion with an error belongs to no operation */
    struct record recvs[HISTORY_MAX], sends[HISTORY_MAX], probe, marker_recv, marker_send;
};

/* ---- opening ---- */

static struct fi_info *make_hints(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

/* Requests the loopback address of network providers; others have no such address. */
static int get_info(const char *provider, struct fi_info **info)
{
    struct fi_info *hints = make_hints(provider);
    int err;

    if (hints == NULL)
        return -ENOMEM;
    err = fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", NULL, FI_SOURCE, hints, info);
    if (err != 0)
        err = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
    fi_freeinfo(hints);
    return err == 0 ? 0 : -ENODEV;
}

static int open_node(struct ofi *o, struct node *n)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4 * HISTORY_MAX};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t size = sizeof n->address;
    int err = 0;

    if ((err = fi_endpoint(o->domain, o->info, &n->ep, NULL)) != 0 ||
        (err = fi_cq_open(o->domain, &cq, &n->cq, NULL)) != 0 ||
        (err = fi_av_open(o->domain, &av, &n->av, NULL)) != 0 ||
        (err = fi_ep_bind(n->ep, &n->av->fid, 0)) != 0 ||
        (err = fi_ep_bind(n->ep, &n->cq->fid, FI_TRANSMIT | FI_RECV)) != 0 ||
        (err = fi_enable(n->ep)) != 0)
        return err;
    return fi_getname(&n->ep->fid, n->address, &size);
}

static int introduce(struct node *to, const struct node *who, fi_addr_t *addr)
{
    return fi_av_insert(to->av, who->address, 1, addr, 0, NULL) == 1 ? 0 : -EIO;
}

static void end(struct engine *e)
{
    struct ofi *o = container_of(e, struct ofi, engine);

    for (int i = 0; i < NODES; i++)
        if (o->nodes[i].ep != NULL)
            fi_close(&o->nodes[i].ep->fid);
    for (int i = 0; i < NODES; i++) {
        if (o->nodes[i].cq != NULL)
            fi_close(&o->nodes[i].cq->fid);
        if (o->nodes[i].av != NULL)
            fi_close(&o->nodes[i].av->fid);
    }
    memset(o->nodes, 0, sizeof o->nodes);
}

static int begin(struct engine *e)
{
    struct ofi *o = container_of(e, struct ofi, engine);
    int err = 0;

    for (int i = 0; i < NODES && err == 0; i++)
        err = open_node(o, &o->nodes[i]);
    for (int i = 0; i < ENGINE_SOURCES && err == 0; i++) {
        struct node *source = &o->nodes[FIRST_SOURCE + i];

        err = introduce(&o->nodes[RECEIVER], source, &o->sources[i]);
        if (err == 0)
            err = introduce(source, &o->nodes[RECEIVER], &source->to_receiver);
    }
    o->is_broken = false;
    memset(o->recvs, 0, sizeof o->recvs);
    if (err != 0)
        end(e);
    return err;
}

/* ---- progress ---- */

static void recv_done(struct ofi *o, struct record *r, size_t size)
{
    r->is_done = true;
    r->size = size;
    if (r->role == RECV)
        meetings_add(&o->meetings, r->id, r->data, size);
}

static void read_error(struct ofi *o, struct node *n)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct record *r;

    if (fi_cq_readerr(n->cq, &error, 0) != 1)
        return;
    r = error.op_context;
    if (r != NULL && r->role == RECV && error.err == FI_ECANCELED)
        r->is_cancelled = true;
    else if (r != NULL && r->role == PROBED && error.err == FI_ENOMSG)
        r->is_refused = true;
    else
        o->is_broken = true;
}

static void progress_node(struct ofi *o, struct node *n)
{
    struct fi_cq_tagged_entry entry;
    ssize_t count;

    while ((count = fi_cq_read(n->cq, &entry, 1)) == 1)
        recv_done(o, entry.op_context, entry.len);
    if (count == -FI_EAVAIL)
        read_error(o, n);
}

static void progress(struct ofi *o)
{
    for (int i = 0; i < NODES; i++)
        progress_node(o, &o->nodes[i]);
}

static uint64_t deadline_ms(unsigned ms)
{
    return clock_now() + ms * CLOCK_MS;
}

static bool wait_for(struct ofi *o, const struct record *r)
{
    uint64_t end_ns = deadline_ms(ENGINE_STALLED_MS);

    while (!r->is_done && !r->is_refused && !o->is_broken && clock_now() < end_ns)
        progress(o);
    return r->is_done || r->is_refused;
}

/* ---- operations ---- */

static uint64_t tag_of(const struct op *op)
{
    return (uint64_t)op->envelope.context_id << CONTEXT_SHIFT | (op->envelope.tag & TAG_BITS);
}

static fi_addr_t source_of(const struct ofi *o, const struct op *op)
{
    return op->envelope.source == MBX_MATCH_ANY_SOURCE ? FI_ADDR_UNSPEC
                                                       : o->sources[op->envelope.source];
}

static struct record *renew(struct record *r, enum role role, int id)
{
    memset(r, 0, offsetof(struct record, data));
    r->role = role;
    r->id = id;
    return r;
}

static bool post(struct ofi *o, struct record *r, fi_addr_t source, uint64_t tag,
                 uint64_t ignore)
{
    uint64_t end_ns = deadline_ms(ENGINE_STALLED_MS);
    ssize_t err;

    while ((err = fi_trecv(o->nodes[RECEIVER].ep, r->data, sizeof r->data, NULL, source, tag,
                           ignore, r)) == -FI_EAGAIN &&
           clock_now() < end_ns)
        progress(o);
    r->is_posted = err == 0;
    return r->is_posted;
}

static bool transmit(struct ofi *o, struct record *r, int source, uint64_t tag, size_t size)
{
    const struct node *n = &o->nodes[FIRST_SOURCE + source];
    uint64_t end_ns = deadline_ms(ENGINE_STALLED_MS);
    ssize_t err;

    while ((err = fi_tsend(n->ep, r->data, size, NULL, n->to_receiver, tag, r)) == -FI_EAGAIN &&
           clock_now() < end_ns)
        progress(o);
    return err == 0;
}

static bool settle(struct ofi *o, int source)
{
    struct record *recv = renew(&o->marker_recv, MARKER_RECV, 0);
    struct record *marker = renew(&o->marker_send, MARKER_SEND, 0);
    uint64_t end_ns;

    if (!transmit(o, marker, source, MARKER, 1) ||
        !post(o, recv, o->sources[source], MARKER, 0) || !wait_for(o, recv) ||
        !wait_for(o, marker))
        return false;
    end_ns = deadline_ms(o->engine.is_patient ? PATIENCE_MS : 0);
    do
        progress(o);
    while (clock_now() < end_ns);
    return true;
}

static int answer_post(struct ofi *o, const struct op *op)
{
    struct record *r = renew(&o->recvs[op->id], RECV, op->id);
    uint64_t ignore = op->ignore & TAG_BITS;

    if (!post(o, r, source_of(o, op), tag_of(op), ignore) || !settle(o, 0))
        return ANSWER_STALLED;
    return meetings_answer(&o->meetings, op);
}

static int answer_arrive(struct ofi *o, const struct op *op)
{
    struct record *r = renew(&o->sends[op->id], SEND, op->id);
    int source = (int)op->envelope.source;

    memset(r->data, op->id, sizeof r->data);
    memcpy(r->data, &op->id, sizeof op->id);
    if (!transmit(o, r, source, tag_of(op), engine_message_size(op->id)) || !wait_for(o, r) ||
        !settle(o, source))
        return ANSWER_STALLED;
    return meetings_answer(&o->meetings, op);
}

/* A receive that was never posted has no context to cancel. */
static int answer_cancel(struct ofi *o, const struct op *op)
{
    struct record *r = &o->recvs[op->target];
    bool was_cancelled = r->is_cancelled;

    if (!r->is_posted)
        return false;
    fi_cancel(&o->nodes[RECEIVER].ep->fid, r);
    if (!settle(o, 0))
        return ANSWER_STALLED;
    return o->meetings.count == 0 ? r->is_cancelled && !was_cancelled : ANSWER_BROKEN;
}

/* PEEK, PEEK | CLAIM, or after the latter the CLAIM of the message found. */
static ssize_t ask(struct ofi *o, const struct op *op, uint64_t flags)
{
    struct record *r = &o->probe;
    struct iovec buffer = {r->data, sizeof r->data};
    struct fi_msg_tagged msg = {.msg_iov = &buffer,
                                .iov_count = 1,
                                .addr = source_of(o, op),
                                .tag = tag_of(op),
                                .ignore = op->ignore & TAG_BITS,
                                .context = r};

    r->is_done = false;
    return fi_trecvmsg(o->nodes[RECEIVER].ep, &msg, flags);
}

static int answer_probe(struct ofi *o, const struct op *op)
{
    struct record *r = renew(&o->probe, PROBED, op->id);
    uint64_t claim = op->kind == OP_PROBE ? FI_CLAIM : 0;

    progress(o);
    if (ask(o, op, FI_PEEK | claim) != 0 || !wait_for(o, r))
        return ANSWER_STALLED;
    if (r->is_refused)
        return ANSWER_NOBODY;
    if (claim != 0 && (ask(o, op, FI_CLAIM) != 0 || !wait_for(o, r)))
        return ANSWER_STALLED;
    if (claim == 0)
        return engine_message_id(r->size);
    meetings_add(&o->meetings, op->id, r->data, r->size);
    return o->meetings.count == 1 ? o->meetings.msg : ANSWER_BROKEN;
}

static int answer(struct engine *e, const struct op *op)
{
    struct ofi *o = container_of(e, struct ofi, engine);
    int got;

    o->meetings = (struct meetings){0};
    if (op->kind == OP_POST)
        got = answer_post(o, op);
    else if (op->kind == OP_ARRIVE)
        got = answer_arrive(o, op);
    else if (op->kind == OP_CANCEL)
        got = answer_cancel(o, op);
    else
        got = answer_probe(o, op);
    return o->is_broken ? ANSWER_BROKEN : got;
}

/* ---- the engine ---- */

/* A provider that cannot peek, or claim, reports that at the first attempt. */
static unsigned find_out_what_it_can(struct ofi *o)
{
    struct op op = {.kind = OP_PEEK, .envelope = {.source = MBX_MATCH_ANY_SOURCE}};
    unsigned can = 1u << OP_POST | 1u << OP_ARRIVE | 1u << OP_CANCEL;

    if (begin(&o->engine) != 0)
        return 0;
    if (answer(&o->engine, &op) == ANSWER_NOBODY)
        can |= 1u << OP_PEEK;
    end(&o->engine);
    op.kind = OP_PROBE;
    if (begin(&o->engine) != 0)
        return 0;
    if (answer(&o->engine, &op) == ANSWER_NOBODY)
        can |= 1u << OP_PROBE;
    end(&o->engine);
    return can;
}

static void destroy(struct engine *e)
{
    struct ofi *o = container_of(e, struct ofi, engine);

    if (o->domain != NULL)
        fi_close(&o->domain->fid);
    if (o->fabric != NULL)
        fi_close(&o->fabric->fid);
    if (o->info != NULL)
        fi_freeinfo(o->info);
    free(o);
}

static void say_version(struct ofi *o)
{
    uint32_t library = fi_version(), provider = o->info->fabric_attr->prov_version;

    snprintf(o->engine.version, sizeof o->engine.version, "libfabric API %u.%u, provider %u.%u",
             FI_MAJOR(library), FI_MINOR(library), FI_MAJOR(provider), FI_MINOR(provider));
}

static int create(const char *argument, struct engine **e)
{
    struct ofi *o = calloc(1, sizeof *o);

    if (o == NULL)
        return -ENOMEM;
    if (argument == NULL || get_info(argument, &o->info) != 0 ||
        fi_fabric(o->info->fabric_attr, &o->fabric, NULL) != 0 ||
        fi_domain(o->fabric, o->info, &o->domain, NULL) != 0 ||
        (o->engine.can = find_out_what_it_can(o)) == 0) {
        destroy(&o->engine);
        return argument == NULL ? -EINVAL : -ENODEV;
    }
    say_version(o);
    *e = &o->engine;
    return 0;
}

const struct engine_kind engine_ofi = {
    .name = "ofi",
    .about = "a provider of libfabric: ofi:shm, 'ofi:tcp;ofi_rxm', ofi:matchbox, ...",
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .end = end,
    .answer = answer,
};
