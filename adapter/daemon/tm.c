/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm.c - shared receive queues that match tags (IBV_SRQT_TM), and the rendezvous.
 *
 *   commands ──> struct tm_unit: the list ──┐
 *   untagged buffers (queue.c) ─────────────┼──> completions
 *   messages of RC queue pairs ─────────────┘
 *
 *   EAGER meets an entry   its data goes into the entry's buffer: MATCH, then DATA_VALID, both in one
 *                          completion if the message is one packet
 *   RNDV meets an entry    MATCH; the adapter reads the data from its sender (RDMA READ), answers with
 *                          FIN, which is the request's own headers, and completes with DATA_VALID
 *   neither                an untagged buffer takes the whole message: TM_RECV without flags, counted
 *                          as unexpected; entries that are appended later become active when software
 *                          has reported that it has handled as many
 *   NO_TAG, FIN            an untagged buffer: TM_NO_TAG
 *
 * READ and FIN leave on the queue pair on which the request came.  Its send queue belongs to
 * the adapter: a ring in the adapter's memory, with the requests that the program would have
 * posted.
 *
 * Invariants
 *   T1  a handle of a program becomes free when the last completion that names it is polled
 *   T2  a matched entry is released exactly once, by the completion with DATA_VALID or an error
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/daemon/daemon.h"
#include "base/environ.h"
#include "base/mem.h"
#include "base/random.h"
#include "device/soft/tm_unit.h"

#define SENDS_MORE 16 /* requests more than two for each entry */

struct slot {
    uint64_t wr_id;
    struct ibv_sge sge;
    uint32_t bytes; /* length of a rendezvous message */
};

struct tm_list {
    struct tm_unit unit;
    struct slot *slots; /* [list], by handle */
    uint32_t list;
    struct cq *cq;
    struct adapter_ring *ring;
    struct adapter_command *commands;
    uint32_t size; /* of the ring */
    uint64_t head;
    bool has_failed; /* has the last DEL failed? */
};

/* ---- switches ---- */

static const struct {
    const char *name;
    enum quirk quirk;
} quirks[] = {
    {"recv", QUIRK_PLAIN_RECV}, {"fin-recv", QUIRK_FIN_RECV},     {"sync", QUIRK_SYNC},
    {"apart", QUIRK_APART},     {"eager-only", QUIRK_EAGER_ONLY}, {"dawdle", QUIRK_DAWDLE},
    {"hasty", QUIRK_HASTY},     {"unfenced", QUIRK_UNFENCED}};

/* The generator of QUIRK_DAWDLE. */
static struct random chance;

static int read_quirk(const char *name, const char *word, size_t length)
{
    for (size_t i = 0; i < ARRAY_COUNT(quirks); i++) {
        if (strlen(quirks[i].name) == length && memcmp(quirks[i].name, word, length) == 0) {
            host.quirks |= quirks[i].quirk;
            return 0;
        }
    }
    fprintf(stderr,
            "mbx-adapter: %s: there is no '%.*s'; there are recv, fin-recv, sync, "
            "apart, eager-only, dawdle, hasty and unfenced, with commas between them\n",
            name, (int)length, word);
    return -EINVAL;
}

int tm_read_environment(const char *tags_name, const char *quirks_name, const char *seed_name)
{
    const char *tags = environ_get(tags_name);
    const char *words = environ_get(quirks_name);
    const char *seed = environ_get(seed_name);
    char *end = NULL;

    random_seed(&chance, seed != NULL ? strtoul(seed, NULL, 10) : 1);

    host.tags = ADAPTER_TAGS_USUAL;
    if (tags != NULL) {
        const unsigned long value = strtoul(tags, &end, 10);

        if (*tags < '0' || *tags > '9' || *end != '\0' || value > ADAPTER_TAGS_MAX) {
            fprintf(stderr, "mbx-adapter: %s=%s: 0 to %u entries\n", tags_name, tags,
                    ADAPTER_TAGS_MAX);
            return -EINVAL;
        }
        host.tags = (uint32_t)value;
    }
    for (; words != NULL && *words != '\0'; words += *words == ',') {
        const size_t length = strcspn(words, ",");

        if (read_quirk(quirks_name, words, length) != 0)
            return -EINVAL;
        words += length;
    }
    return 0;
}

/* ---- making and ending ---- */

/* The unit's events: only whether a DEL has found its entry matters here. */
static void emitted(void *arg, const struct mbx_device_event *event)
{
    ((struct tm_list *)arg)->has_failed = event->error != 0;
}

int tm_create(struct srq *srq, struct cq *cq, void *ring, uint32_t tags, uint32_t ops)
{
    struct tm_list *tm = mem_calloc(1, sizeof *tm);

    if (tm == NULL)
        return -ENOMEM;
    tm->slots = mem_calloc(tags, sizeof *tm->slots);
    if (tm->slots == NULL ||
        tm_init(&tm->unit, &(struct tm_config){.list = tags, .emit = emitted, .arg = tm}) !=
            0) {
        mem_free(tm->slots);
        mem_free(tm);
        return -ENOMEM;
    }
    tm->list = tags;
    tm->cq = cq;
    cq->object.users++;
    tm->ring = ring;
    tm->commands = (struct adapter_command *)(tm->ring + 1);
    tm->size = ops;
    srq->tm = tm;
    return 0;
}

void tm_destroy(struct srq *srq)
{
    struct tm_list *tm = srq->tm;

    if (tm == NULL)
        return;
    tm->cq->object.users--;
    tm_fini(&tm->unit);
    mem_free(tm->slots);
    mem_free(tm);
}

int tm_attach(struct qp *qp)
{
    const uint32_t count = 2 * qp->srq->tm->list + SENDS_MORE;

    qp->cap.max_send_sge = 1;
    qp->cap.max_inline_data = ADAPTER_RNDV_MAX;
    qp->send_stride = adapter_send_stride(1, ADAPTER_RNDV_MAX);
    qp->send_ring = mem_calloc(1, sizeof *qp->send_ring + count * qp->send_stride);
    if (qp->send_ring == NULL)
        return -ENOMEM;
    qp->send_entries = (unsigned char *)(qp->send_ring + 1);
    qp->send_size = count;
    qp->tm_handle = TM_NONE;
    return 0;
}

void tm_detach(struct qp *qp)
{
    mem_free(qp->send_ring);
}

/* ---- completions ---- */

static void complete(struct srq *srq, struct adapter_cqe cqe)
{
    cqe.srq = srq->object.handle;
    if (host.quirks & QUIRK_SYNC)
        cqe.flags |= IBV_WC_TM_SYNC_REQ;
    cq_push(srq->tm->cq, &cqe, true);
}

static struct adapter_cqe of_slot(const struct tm_list *tm, uint32_t handle)
{
    return (struct adapter_cqe){
        .wr_id = tm->slots[handle].wr_id, .opcode = IBV_WC_TM_RECV, .handle = handle};
}

static void complete_match(struct qp *qp, uint32_t handle)
{
    struct adapter_cqe cqe = of_slot(qp->srq->tm, handle);

    cqe.qp_num = qp->number;
    cqe.flags = IBV_WC_TM_MATCH;
    cqe.tag = be64toh(qp->tmh.tag);
    cqe.app_ctx = be32toh(qp->tmh.app_ctx);
    complete(qp->srq, cqe);
}

/* The last completion of a matched entry. */
static void complete_data(struct qp *qp, uint32_t handle, enum ibv_wc_status status,
                          uint32_t bytes, bool with_match)
{
    struct tm_list *tm = qp->srq->tm;
    struct adapter_cqe cqe = of_slot(tm, handle);

    cqe.qp_num = qp->number;
    cqe.status = status;
    cqe.byte_len = bytes;
    cqe.releases = 1;
    cqe.flags = IBV_WC_TM_DATA_VALID | (with_match ? IBV_WC_TM_MATCH : 0);
    if (with_match) {
        cqe.tag = be64toh(qp->tmh.tag);
        cqe.app_ctx = be32toh(qp->tmh.app_ctx);
    }
    tm_release(&tm->unit, &tm->unit.entries[handle]);
    complete(qp->srq, cqe);
}

/* ---- commands ---- */

/* The count of handled messages that software has reported. */
static uint16_t handled_by(const struct tm_list *tm, const struct adapter_command *command)
{
    if (host.quirks & QUIRK_HASTY)
        return tm->unit.found;
    return command->flags & IBV_OPS_TM_SYNC ? (uint16_t)command->unexpected : tm->unit.handled;
}

static bool perform(struct srq *srq, const struct adapter_command *command)
{
    struct tm_list *tm = srq->tm;
    const bool is_add = command->opcode == IBV_WR_TAG_ADD;
    const bool is_del = command->opcode == IBV_WR_TAG_DEL;
    const struct tm_command unit_command = {.type = is_add   ? TM_APPEND
                                                    : is_del ? TM_REVOKE
                                                             : TM_SYNC,
                                            .handled = handled_by(tm, command),
                                            .handle = command->handle,
                                            .envelope.tag = command->tag,
                                            .ignore = ~command->mask};
    struct adapter_cqe cqe = {.wr_id = command->wr_id,
                              .opcode = is_add   ? IBV_WC_TM_ADD
                                        : is_del ? IBV_WC_TM_DEL
                                                 : IBV_WC_TM_SYNC,
                              .handle = command->handle,
                              .commands = tm->head};

    if (command->opcode > IBV_WR_TAG_SYNC ||
        ((is_add || is_del) && command->handle >= tm->list))
        return false;
    /* before the entry is active: it may become active, and meet a message, at once */
    if (is_add && tm->unit.entries[command->handle].state == TM_FREE)
        tm->slots[command->handle] =
            (struct slot){.wr_id = command->recv_wr_id, .sge = command->sge};
    if (tm_command(&tm->unit, &unit_command) != 0)
        return false;
    if (is_del && tm->has_failed)
        cqe.status = IBV_WC_TM_ERR;
    cqe.releases = is_add ? 1 : is_del ? (tm->has_failed ? 1 : 2) : 0;
    if (!tm_is_in_sync(&tm->unit))
        cqe.flags |= IBV_WC_TM_SYNC_REQ;
    if (command->flags & IBV_OPS_SIGNALED)
        complete(srq, cqe);
    return true;
}

bool tm_has_commands(struct srq *srq)
{
    const struct tm_list *tm = srq->tm;
    const uint64_t tail = atomic_load_explicit(&tm->ring->tail, memory_order_acquire);

    if (tail - tm->head > tm->size)
        client_broke(srq->object.client, "the index of a queue of commands");
    return tail != tm->head && !srq->object.client->is_gone;
}

void tm_command_once(struct srq *srq)
{
    struct tm_list *tm = srq->tm;
    const struct adapter_command command = tm->commands[tm->head % tm->size];

    tm->head++;
    atomic_store_explicit(&tm->ring->head, tm->head, memory_order_release);
    if (!perform(srq, &command))
        client_broke(srq->object.client, "a command for a matching list, or its handle,");
}

void tm_commands(struct srq *srq)
{
    while (tm_has_commands(srq)) {
        if ((host.quirks & QUIRK_DAWDLE) && random_below(&chance, 3) > 0)
            return; /* tm_dawdle() goes on */
        tm_command_once(srq);
    }
}

bool tm_dawdle(void)
{
    bool has_more = false;
    struct list *node, *list;

    if (!(host.quirks & QUIRK_DAWDLE))
        return false;
    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        list_for_each (list, &client->matching) {
            struct srq *srq = container_of(list, struct srq, matching);

            tm_commands(srq);
            has_more |= tm_has_commands(srq);
        }
    }
    return has_more;
}

/* ---- messages that arrive ---- */

static bool has_space_to_send(const struct qp *qp)
{
    const uint64_t tail = atomic_load_explicit(&qp->send_ring->tail, memory_order_relaxed);

    return tail - qp->acked + 2 <= qp->send_size;
}

static bool has_untagged(struct srq *srq)
{
    const uint64_t tail = atomic_load_explicit(&srq->queue.ring->tail, memory_order_acquire);

    if (tail >= ADAPTER_UNTAGGED_MIN)
        return true;
    client_say(
        srq->object.client,
        "a queue that matches tags works when %u untagged buffers have been posted; here "
        "were %lu",
        ADAPTER_UNTAGGED_MIN, (unsigned long)tail);
    return false;
}

static bool is_tagged(const struct ibv_tmh *tmh)
{
    return tmh->opcode == IBV_TMH_EAGER || tmh->opcode == IBV_TMH_RNDV;
}

static enum tm_begun begin_matched(struct qp *qp, const struct frame *frame, uint32_t handle)
{
    const struct slot *slot = &qp->srq->tm->slots[handle];
    const uint64_t payload = frame->total - sizeof qp->tmh;

    qp->tm_is_apart = false;
    if (qp->tmh.opcode == IBV_TMH_RNDV) {
        qp->tm_handle = handle;
        return TM_BEGUN;
    }
    if (payload > slot->sge.length) {
        complete_data(qp, handle, IBV_WC_LOC_LEN_ERR, (uint32_t)payload, true);
        return TM_TOO_SHORT;
    }
    qp->tm_handle = handle;
    qp->tm_is_apart = (host.quirks & QUIRK_APART) || frame->total > 128u << qp->attr.path_mtu;
    if (qp->tm_is_apart)
        complete_match(qp, handle);
    return TM_BEGUN;
}

enum tm_begun tm_begin(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    struct tm_list *tm = qp->srq->tm;
    struct tm_entry *entry = NULL;
    bool is_rndv;

    if (qp->tm_handle != TM_NONE || qp->has_recv)
        return TM_BEGUN; /* repeated after it was matched */
    if (frame->size < sizeof qp->tmh)
        return TM_REFUSED;
    memcpy(&qp->tmh, data, sizeof qp->tmh);
    is_rndv = qp->tmh.opcode == IBV_TMH_RNDV;
    if (qp->tmh.opcode > IBV_TMH_EAGER ||
        (is_rndv && (frame->total < sizeof qp->tmh + sizeof(struct ibv_rvh) ||
                     frame->total > ADAPTER_RNDV_MAX || frame->size != frame->total ||
                     !(frame->flags & FRAME_LAST))))
        return TM_REFUSED;
    if (!has_untagged(qp->srq) || (is_rndv && !has_space_to_send(qp)))
        return TM_NOT_READY;
    if (is_tagged(&qp->tmh))
        entry = tm_match(&tm->unit, &(struct mbx_device_envelope){.tag = be64toh(qp->tmh.tag)});
    if (entry != NULL)
        return begin_matched(qp, frame, tm_handle(&tm->unit, entry));
    if (qp_take_recv(qp, &qp->recv_work) == 0)
        return TM_NOT_READY;
    qp->has_recv = true;
    if (frame->total <= sge_length(qp->recv_work.sge, qp->recv_work.wr.num_sge))
        return TM_BEGUN;
    qp->has_recv = false;
    complete(qp->srq, (struct adapter_cqe){.wr_id = qp->recv_work.wr.wr_id,
                                           .status = IBV_WC_LOC_LEN_ERR,
                                           .opcode = IBV_WC_TM_RECV,
                                           .qp_num = qp->number,
                                           .byte_len = (uint32_t)frame->total});
    return TM_TOO_SHORT;
}

int tm_land(struct qp *qp, const struct frame *frame, const unsigned char *data,
            const char **why)
{
    const struct slot *slot;
    const uint64_t header = sizeof qp->tmh;
    const size_t skipped = frame->offset == 0 ? sizeof qp->tmh : 0;

    if (qp->has_recv)
        return scatter(qp->srq->pd, qp->recv_work.sge, qp->recv_work.wr.num_sge, frame->offset,
                       data, frame->size, why);
    if (qp->tmh.opcode == IBV_TMH_RNDV || frame->size == skipped)
        return 0;
    slot = &qp->srq->tm->slots[qp->tm_handle];
    return scatter(qp->srq->pd, &slot->sge, 1, frame->offset + skipped - header, data + skipped,
                   frame->size - skipped, why);
}

static void post(struct qp *qp, const struct adapter_send *send, const void *behind,
                 size_t size)
{
    const uint64_t tail = atomic_load_explicit(&qp->send_ring->tail, memory_order_relaxed);
    unsigned char *entry = qp->send_entries + tail % qp->send_size * qp->send_stride;

    memcpy(entry, send, sizeof *send);
    memcpy(entry + sizeof *send, behind, size);
    atomic_store_explicit(&qp->send_ring->tail, tail + 1, memory_order_relaxed);
}

/* Posts a FIN: the sender's headers go back to report that the data has been read. */
static void post_fin(struct qp *qp, const unsigned char *request)
{
    struct adapter_send send = {.wr_id = TM_NONE,
                                .opcode = IBV_WR_SEND,
                                .flags = IBV_SEND_INLINE | IBV_SEND_FENCE,
                                .inline_size = sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh)};
    unsigned char fin[sizeof(struct ibv_tmh) + sizeof(struct ibv_rvh)];

    memcpy(fin, request, sizeof fin);
    fin[offsetof(struct ibv_tmh, opcode)] = IBV_TMH_FIN;
    post(qp, &send, fin, sizeof fin);
}

/* Leaves the rendezvous to software: the request goes into the matched buffer. */
static void give_to_software(struct qp *qp, uint32_t handle, const struct frame *frame,
                             const unsigned char *data)
{
    const struct slot *slot = &qp->srq->tm->slots[handle];
    const char *why = "it is shorter than the headers of a rendezvous that does not fit";

    counters.tm_incomplete++;
    if (frame->total > slot->sge.length ||
        scatter(qp->srq->pd, &slot->sge, 1, 0, data, frame->size, &why) != 0) {
        client_say(qp->object.client, "the buffer of a receive: %s", why);
        complete_data(qp, handle, IBV_WC_LOC_PROT_ERR, 0, true);
        qp_fail(qp);
        return;
    }
    complete_data(qp, handle, IBV_WC_TM_RNDV_INCOMPLETE, (uint32_t)frame->total, true);
}

static void fetch(struct qp *qp, uint32_t handle, const struct frame *frame,
                  const unsigned char *data)
{
    struct slot *slot = &qp->srq->tm->slots[handle];
    struct adapter_send send = {.wr_id = handle, .opcode = IBV_WR_RDMA_READ, .num_sge = 1};
    struct ibv_rvh rvh;
    struct ibv_sge sge = slot->sge;

    memcpy(&rvh, data + sizeof(struct ibv_tmh), sizeof rvh);
    slot->bytes = be32toh(rvh.len);
    if ((host.quirks & QUIRK_EAGER_ONLY) || slot->bytes > sge.length) {
        give_to_software(qp, handle, frame, data);
        return;
    }
    counters.tm_matched_rndv++;
    complete_match(qp, handle);
    send.remote_addr = be64toh(rvh.va);
    send.rkey = be32toh(rvh.rkey);
    sge.length = slot->bytes;
    post(qp, &send, &sge, sizeof sge);
    post_fin(qp, data);
    qp_wake(qp);
}

void tm_sent(struct qp *qp, const struct send_work *work, enum ibv_wc_status status)
{
    const uint32_t handle = (uint32_t)work->wr.wr_id;

    if (handle == TM_NONE)
        counters.tm_fins += status == IBV_WC_SUCCESS;
    else
        complete_data(qp, handle, status, qp->srq->tm->slots[handle].bytes, false);
}

/* The message is complete in an untagged buffer. */
static void end_unmatched(struct qp *qp, const struct frame *frame)
{
    const bool is_unexpected = is_tagged(&qp->tmh);
    const bool is_plain = (is_unexpected && (host.quirks & QUIRK_PLAIN_RECV)) ||
                          (qp->tmh.opcode == IBV_TMH_FIN && (host.quirks & QUIRK_FIN_RECV));

    qp->has_recv = false;
    if (is_unexpected) {
        counters.tm_unexpected++;
        tm_found(&qp->srq->tm->unit);
    } else {
        counters.tm_no_tag++;
    }
    complete(qp->srq, (struct adapter_cqe){.wr_id = qp->recv_work.wr.wr_id,
                                           .opcode = is_plain        ? IBV_WC_RECV
                                                     : is_unexpected ? IBV_WC_TM_RECV
                                                                     : IBV_WC_TM_NO_TAG,
                                           .qp_num = qp->number,
                                           .src_qp = frame->from,
                                           .byte_len = (uint32_t)frame->total});
}

void tm_end(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const uint32_t handle = qp->tm_handle;

    qp->tm_handle = TM_NONE;
    if (handle == TM_NONE) {
        end_unmatched(qp, frame);
    } else if (qp->tmh.opcode == IBV_TMH_RNDV) {
        fetch(qp, handle, frame, data);
    } else {
        counters.tm_matched_eager++;
        complete_data(qp, handle, IBV_WC_SUCCESS, (uint32_t)(frame->total - sizeof qp->tmh),
                      !qp->tm_is_apart);
    }
}

void tm_abandon(struct qp *qp, enum ibv_wc_status status)
{
    const uint32_t handle = qp->tm_handle;

    if (handle == TM_NONE)
        return;
    qp->tm_handle = TM_NONE;
    complete_data(qp, handle, status, 0, !qp->tm_is_apart);
}
