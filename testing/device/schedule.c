/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/schedule.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define UNTOUCHED 0xa5 /* the content of a buffer before its receive ends */

/* Maximum rounds until nothing moves any more. */
#define QUIET_ROUNDS 4000

static void must(struct schedule_run *run, int err)
{
    if (err != 0)
        schedule_wrong(run, "a call that must succeed fails: error %d", err);
}

static struct host_recv *recv_of(struct mbx_match_recv *match)
{
    return container_of(match, struct host_recv, match);
}

static int recv_id(const struct schedule_run *run, const struct host_recv *recv)
{
    return (int)(recv - run->recvs);
}

static int msg_id(const struct schedule_run *run, const struct host_msg *msg)
{
    return (int)(msg - run->msgs);
}

/* ---- receives end ---- */

static void check_bytes(struct schedule_run *run, const struct host_recv *recv)
{
    const struct host_msg *msg = &run->msgs[recv->message];
    size_t size = min_size(recv->size, msg->sent->size);

    if (memcmp(recv->buf, msg->bytes, size) != 0)
        schedule_wrong(run, "receive r%d has not the bytes of m%d", recv_id(run, recv),
                       recv->message);
    if (!schedule_bytes_are(recv->buf + size, sizeof recv->buf - size, UNTOUCHED))
        schedule_wrong(run, "bytes after m%d were written in r%d", recv->message,
                       recv_id(run, recv));
}

static void do_post(struct schedule_run *run, const struct schedule_step *step);

/* The receive ends: its owner has the buffer back, writes something else there, and may post
 * the next receive at once. */
static void end_recv(struct schedule_run *run, struct host_recv *recv, enum end end)
{
    if (recv->end != END_NONE)
        schedule_wrong(run, "receive r%d ends twice", recv_id(run, recv));
    recv->end = end;
    if (end == END_RECEIVED)
        check_bytes(run, recv);
    else if (end == END_CANCELLED &&
             !schedule_bytes_are(recv->buf, sizeof recv->buf, UNTOUCHED))
        schedule_wrong(run, "receive r%d was cancelled, and has been written",
                       recv_id(run, recv));
    memset(recv->buf, SCHEDULE_ENDED, sizeof recv->buf);
    run->sums.received += end == END_RECEIVED;
    run->sums.cancelled += end == END_CANCELLED;
    run->sums.ended_by_loss += end == END_LOST;
    if (recv->follower != NULL)
        do_post(run, recv->follower);
}

static void meet(struct schedule_run *run, struct host_recv *recv, struct host_msg *msg)
{
    if (recv->message >= 0 || msg->recv >= 0)
        schedule_wrong(run, "r%d and m%d meet, but r%d had m%d and m%d had r%d",
                       recv_id(run, recv), msg_id(run, msg), recv_id(run, recv), recv->message,
                       msg_id(run, msg), msg->recv);
    recv->message = msg_id(run, msg);
    msg->recv = recv_id(run, recv);
}

/* ---- messages in software ---- */

/* Software completes a message that has matched its receive, if all of it is there. */
static void advance(struct schedule_run *run, struct host_msg *msg)
{
    struct host_recv *recv = &run->recvs[msg->recv];
    const unsigned char *bytes =
        msg->sent->message == STEPPED_RENDEZVOUS ? msg->bytes : msg->stored;
    size_t size = min_size(recv->size, msg->sent->size);

    if (msg->sent->message != STEPPED_RENDEZVOUS && msg->came < msg->sent->size)
        return;
    if (size > recv->from)
        memcpy(recv->buf + recv->from, bytes + recv->from, size - recv->from);
    msg->fins += msg->sent->wants_fin;
    end_recv(run, recv, END_RECEIVED);
}

static void software_meets(struct schedule_run *run, struct host_recv *recv,
                           struct host_msg *msg)
{
    run->sums.by_software++;
    meet(run, recv, msg);
    advance(run, msg);
}

static void store(struct host_msg *msg, const struct stepped_packet *packet)
{
    memcpy(msg->stored + packet->offset, packet->bytes, packet->length);
    msg->came += packet->length;
}

static void software_fragment(struct schedule_run *run, const struct stepped_packet *packet)
{
    struct host_msg *msg = &run->msgs[packet->message];

    if (msg->is_at_device) /* the device was lost, and the receive has ended */
        return;
    store(msg, packet);
    if (msg->recv >= 0)
        advance(run, msg);
}

/* msg has matched no receive, and waits for one. */
static void keep(struct schedule_run *run, struct host_msg *msg)
{
    must(run, mbx_match_keep(&run->match, &msg->match));
    msg->held = held_keep(&run->shadow, &msg->match.envelope, msg);
}

/* Compares a tagged message that no device has matched with the whole shadow list. */
static void software_arrival(struct schedule_run *run, const struct stepped_packet *packet)
{
    struct host_msg *msg = &run->msgs[packet->message];
    struct mbx_match_recv *met;

    run->heard++;
    msg->match.envelope = msg->sent->envelope;
    store(msg, packet);
    met = mbx_match_find(&run->match, &msg->match.envelope);
    if (met == NULL) {
        keep(run, msg);
        return;
    }
    shadow_taken(&run->shadow, &recv_of(met)->shadow);
    software_meets(run, recv_of(met), msg);
}

static void has_come(struct schedule_run *run, uint32_t message)
{
    if (run->msgs[message].has_arrived)
        schedule_wrong(run, "m%u arrives twice", message);
    run->msgs[message].has_arrived = true;
}

/* A message on the device's path has arrived. */
static void has_arrived(struct schedule_run *run, uint32_t message)
{
    has_come(run, message);
    run->arrivals[run->arrival_count++] = (int)message;
}

/* A message on another path has arrived; or again, if a receive was claimed for it and the
 * claim came too late. */
static void has_arrived_bypassing(struct schedule_run *run, struct host_msg *msg)
{
    int id = msg_id(run, msg), kept = 0;

    for (int i = 0; i < run->bypass_count; i++)
        if (run->bypasses[i] != id)
            run->bypasses[kept++] = run->bypasses[i];
    run->bypasses[kept] = id;
    run->bypass_count = kept + 1;
    msg->heard = run->heard;
}

/* ---- events of the shadow ---- */

static void on_matched(void *arg, struct shadow_recv *shadow,
                       const struct mbx_device_event *event)
{
    struct schedule_run *run = arg;
    struct host_recv *recv = container_of(shadow, struct host_recv, shadow);
    struct host_msg *msg = &run->msgs[event->data];

    bool was_out = recv->is_cancelling || recv->is_found;

    run->heard++;
    if (mbx_match_cancel(&run->match, &recv->match) == was_out)
        schedule_wrong(run, "r%d is matched, and was%s in the engine", recv_id(run, recv),
                       was_out ? "" : " not");
    if (!msg->has_arrived || event->size != msg->sent->size ||
        event->envelope.tag != msg->sent->envelope.tag ||
        event->envelope.source != msg->sent->envelope.source ||
        event->envelope.context_id != msg->sent->envelope.context_id)
        schedule_wrong(run, "r%d gets another envelope than m%d has", recv_id(run, recv),
                       msg_id(run, msg));
    run->sums.by_device++;
    msg->is_at_device = true;
    meet(run, recv, msg);
    if (event->flags & MBX_DEVICE_WHOLE)
        end_recv(run, recv, END_RECEIVED);
}

/* Software continues a rendezvous after this many bytes. */
static void take_over_move(struct schedule_run *run, struct host_recv *recv, uint64_t done)
{
    recv->from = done;
    run->sums.incomplete++;
    advance(run, &run->msgs[recv->message]);
}

static void on_moved(void *arg, struct shadow_recv *shadow,
                     const struct mbx_device_event *event)
{
    struct schedule_run *run = arg;
    struct host_recv *recv = container_of(shadow, struct host_recv, shadow);
    struct host_msg *msg = &run->msgs[recv->message];

    if (recv->message < 0) {
        schedule_wrong(run, "r%d has data and no message", recv_id(run, recv));
        return;
    }
    if (event->type == MBX_DEVICE_DATA_VALID)
        end_recv(run, recv, END_RECEIVED);
    else if (msg->sent->message == STEPPED_RENDEZVOUS)
        take_over_move(run, recv, event->type == MBX_DEVICE_INCOMPLETE ? event->done : 0);
    else
        end_recv(run, recv, END_LOST);
}

static void on_revoked(void *arg, struct shadow_recv *shadow)
{
    struct schedule_run *run = arg;
    struct host_recv *recv = container_of(shadow, struct host_recv, shadow);

    if (!recv->is_cancelling)
        schedule_wrong(run, "r%d is revoked, and nobody wanted it back", recv_id(run, recv));
    end_recv(run, recv, END_CANCELLED);
}

static int on_packet(void *arg, uint32_t peer, const void *memory, size_t size)
{
    struct schedule_run *run = arg;
    const struct stepped_packet *packet = memory;

    if (run->deny > 0) {
        run->deny--;
        run->sums.refused++;
        return -EAGAIN;
    }
    if (size != sizeof *packet || packet->envelope.source != peer)
        schedule_wrong(run, "a packet of %zu bytes from %u is not what was sent", size, peer);
    if (packet->kind == STEPPED_FRAGMENT)
        software_fragment(run, packet);
    else
        software_arrival(run, packet);
    return 0;
}

static void on_lost(void *arg)
{
    struct schedule_run *run = arg;

    if (!run->stepped.is_lost || run->stepped.events_count > 0)
        schedule_wrong(run, "the shadow does not trust the device any more");
    run->is_software_alone = true;
    run->sums.lost++;
}

/* This device reports FIN_SENT in the same step in which it sends the FIN: so no FIN has
 * left. */
static void on_owed(void *arg, uint32_t peer, uint64_t message)
{
    struct schedule_run *run = arg;

    if (peer != run->msgs[message].sent->envelope.source)
        schedule_wrong(run, "a FIN for m%d is owed to another peer, %u", (int)message, peer);
    run->msgs[message].fins++;
    run->sums.owed++;
}

static struct shadow_recv *on_find(void *arg, struct shadow_message *message)
{
    struct schedule_run *run = arg;
    struct mbx_match_recv *met = mbx_match_find(&run->match, &message->envelope);

    has_arrived_bypassing(run, container_of(message, struct host_msg, bypass));
    if (met == NULL)
        return NULL;
    recv_of(met)->is_found = true;
    return &recv_of(met)->shadow;
}

static void on_met(void *arg, struct shadow_message *message, struct shadow_recv *shadow)
{
    struct schedule_run *run = arg;
    struct host_recv *recv = container_of(shadow, struct host_recv, shadow);

    if (!recv->is_found)
        schedule_wrong(run, "r%d meets m%d, and was not found for it", recv_id(run, recv),
                       msg_id(run, container_of(message, struct host_msg, bypass)));
    run->sums.bypass++;
    software_meets(run, recv, container_of(message, struct host_msg, bypass));
}

static int on_keep(void *arg, struct shadow_message *message)
{
    struct schedule_run *run = arg;

    if (run->deny > 0) {
        run->deny--;
        run->sums.refused++;
        return -ENOMEM;
    }
    keep(run, container_of(message, struct host_msg, bypass));
    return 0;
}

static void on_paired(void *arg, struct shadow_recv *shadow, void *message)
{
    struct host_recv *recv = container_of(shadow, struct host_recv, shadow);
    struct host_msg *msg = message;

    if (recv->pair != msg)
        schedule_wrong(arg, "r%d gets the held message m%d, and has met another",
                       recv_id(arg, recv), msg_id(arg, msg));
    software_meets(arg, recv, msg);
}

static const struct shadow_events shadow_events = {
    .owed = on_owed,
    .find = on_find,
    .met = on_met,
    .keep = on_keep,
    .paired = on_paired,
    .matched = on_matched,
    .moved = on_moved,
    .revoked = on_revoked,
    .packet = on_packet,
    .lost = on_lost,
};

/* ---- events of the device ---- */

static void on_fin(void *arg, uint32_t peer, uint32_t message)
{
    struct schedule_run *run = arg;

    (void)peer;
    run->msgs[message].fins++;
}

static void on_arrival(void *arg, uint32_t peer, uint32_t message)
{
    (void)peer;
    has_arrived(arg, message);
}

/* ---- steps ---- */

/* recv, just posted, has found its message; a matched probe takes the message for software. */
static void find(struct schedule_run *run, const struct schedule_step *step,
                 struct host_recv *recv, struct host_msg *msg)
{
    if (step->kind != STEP_TAKE && held_post(&run->shadow, &recv->shadow, &recv->match,
                                             recv->buf, recv->size, msg->held)) {
        recv->pair = msg;
        return;
    }
    if (step->kind == STEP_TAKE)
        held_leave(&run->shadow, msg->held);
    software_meets(run, recv, msg);
}

static void do_post(struct schedule_run *run, const struct schedule_step *step)
{
    struct host_recv *recv = &run->recvs[step->id];
    struct mbx_match_msg *met;

    recv->is_posted = true;
    run->posts[run->post_count++] = step->id;
    recv->size = step->size;
    recv->match.envelope = step->envelope;
    recv->match.ignore = step->ignore;
    memset(recv->buf, UNTOUCHED, sizeof recv->buf);
    must(run, mbx_match_post(&run->match, &recv->match, &met));
    if (met != NULL)
        find(run, step, recv, container_of(met, struct host_msg, match));
    else
        shadow_post(&run->shadow, &recv->shadow, &recv->match, recv->buf, recv->size);
}

static void do_take(struct schedule_run *run, const struct schedule_step *step)
{
    if (mbx_match_peek(&run->match, &step->envelope, step->ignore) != NULL)
        do_post(run, step);
}

static void do_follow(struct schedule_run *run, const struct schedule_step *step)
{
    struct host_recv *recv = &run->recvs[step->target];

    if (!recv->is_posted || recv->end != END_NONE)
        do_post(run, step);
    else if (recv->follower == NULL)
        recv->follower = step;
}

/* A claimed receive is gone, like a cancelled one. */
static void do_cancel(struct schedule_run *run, int target,
                      bool (*ask)(struct shadow *, struct shadow_recv *))
{
    struct host_recv *recv = &run->recvs[target];

    if (!recv->is_posted || !mbx_match_cancel(&run->match, &recv->match))
        return;
    recv->is_cancelling = true;
    if (ask(&run->shadow, &recv->shadow))
        end_recv(run, recv, END_CANCELLED);
}

static void do_recall(struct schedule_run *run)
{
    shadow_recall(&run->shadow);
    run->sums.recalled += run->shadow.recalled;
}

static void do_send(struct schedule_run *run, const struct schedule_step *step)
{
    struct host_msg *msg = &run->msgs[step->id];

    msg->sent = step;
    for (uint32_t i = 0; i < step->size; i++)
        msg->bytes[i] = (unsigned char)(1 + (uint32_t)step->id * 7 + i * 3);
    stepped_send_message(
        &run->stepped, step->envelope.source,
        &(struct stepped_packet){
            .kind = (uint8_t)step->message,
            .wants_fin = step->wants_fin,
            .message = (uint32_t)step->id,
            .envelope = {step->envelope.context_id, step->envelope.source, step->envelope.tag},
            .size = step->size,
            .data = (uint64_t)step->id,
            .breaks_at = step->breaks_at,
        },
        msg->bytes);
}

/* Software reads the wire itself, because the device is lost. */
static bool arrive_alone(struct schedule_run *run, uint32_t peer)
{
    struct stepped_packet packet;

    if (!stepped_take_packet(&run->stepped, peer, &packet))
        return false;
    if (packet.kind == STEPPED_FRAGMENT) {
        software_fragment(run, &packet);
        return true;
    }
    has_arrived(run, packet.message);
    software_arrival(run, &packet);
    return true;
}

/* Software reads a wire that bypasses the device. */
static bool arrive_bypassing(struct schedule_run *run, uint32_t peer)
{
    struct stepped_packet packet;
    struct host_msg *msg;

    if (!stepped_take_packet(&run->stepped, peer, &packet))
        return false;
    if (packet.kind == STEPPED_FRAGMENT) {
        software_fragment(run, &packet);
        return true;
    }
    has_come(run, packet.message);
    msg = &run->msgs[packet.message];
    msg->match.envelope = msg->bypass.envelope = msg->sent->envelope;
    store(msg, &packet);
    bypass_arrive(&run->shadow, &msg->bypass);
    return true;
}

static bool do_arrive(struct schedule_run *run, uint32_t peer)
{
    if (run->schedule->bypass & 1u << peer)
        return arrive_bypassing(run, peer);
    return run->is_software_alone ? arrive_alone(run, peer)
                                  : stepped_arrive(&run->stepped, peer);
}

/* Moves the number-th of the transfers that can move. */
static bool do_move(struct schedule_run *run, int number)
{
    const struct stepped *stepped = &run->stepped;
    int first = -1, n = 0;

    for (uint32_t i = 0; i < stepped->list; i++) {
        if (!stepped_can_move(stepped, i))
            continue;
        if (n++ == number)
            return stepped_move(&run->stepped, i);
        first = first < 0 ? (int)i : first;
    }
    return first >= 0 && stepped_move(&run->stepped, (uint32_t)first);
}

static bool nobody_waits_while_there_is_space(const struct schedule_run *run)
{
    const struct stepped *stepped = &run->stepped;

    return stepped->is_lost || list_is_empty(&run->shadow.waiting) ||
           run->shadow.free_count == 0 || stepped->commands_waiting == stepped->commands ||
           run->shadow.pending.type != 0 || !list_is_empty(&run->shadow.parked);
}

static bool do_poll(struct schedule_run *run, int count)
{
    run->stepped.shows = count == 0 ? UINT32_MAX : (uint32_t)count;
    count = shadow_poll(&run->shadow);
    if (!nobody_waits_while_there_is_space(run))
        schedule_wrong(run, "a receive waits, and there is space for it");
    return count > 0;
}

static void do_step(struct schedule_run *run, const struct schedule_step *step)
{
    switch (step->kind) {
    case STEP_POST:
        do_post(run, step);
        break;
    case STEP_FOLLOW:
        do_follow(run, step);
        break;
    case STEP_CANCEL:
        do_cancel(run, step->target, shadow_cancel);
        break;
    case STEP_CLAIM:
        do_cancel(run, step->target, shadow_reclaim);
        break;
    case STEP_TAKE:
        do_take(run, step);
        break;
    case STEP_SEND:
        do_send(run, step);
        break;
    case STEP_ARRIVE:
        do_arrive(run, step->envelope.source);
        break;
    case STEP_COMMAND:
        stepped_command(&run->stepped);
        break;
    case STEP_MOVE:
        do_move(run, step->target);
        break;
    case STEP_POLL:
        do_poll(run, step->target);
        break;
    case STEP_DENY:
        run->deny = step->target;
        break;
    case STEP_LOSE:
        stepped_lose(&run->stepped);
        break;
    case STEP_RECALL:
        do_recall(run);
        break;
    case STEP_RESUME:
        shadow_resume(&run->shadow);
        break;
    case STEP_KINDS:
        break;
    }
}

/* ---- invariants ---- */

static void check_step(struct schedule_run *run)
{
    if (run->stepped.has_overflowed)
        schedule_wrong(run, "there are more events than tm_events() says");
    else if (run->stepped.has_refused_revoke)
        schedule_wrong(run, "there is no space for a revoke");
    else if (!stepped_is_valid(&run->stepped))
        schedule_wrong(run, "stepped_is_valid() or tm_is_valid() is false");
    else if (!shadow_is_valid(&run->shadow))
        schedule_wrong(run, "shadow_is_valid() is false");
}

/* Runs everything until nothing moves. */
static void become_quiet(struct schedule_run *run)
{
    int rounds = 0, idle = 0;

    run->deny = 0;
    while (idle < 2 && run->why[0] == '\0') { /* the second poll may have something to report */
        bool moved = stepped_command(&run->stepped) || do_move(run, 0);

        for (uint32_t peer = 0; peer < SCHEDULE_PEERS; peer++)
            moved |= do_arrive(run, peer);
        moved |= do_poll(run, 0);
        idle = moved ? 0 : idle + 1;
        check_step(run);
        if (++rounds == QUIET_ROUNDS)
            schedule_wrong(run, "it does not become quiet");
    }
    if (!run->stepped.is_lost && !list_is_empty(&run->stepped.unit.inactive))
        schedule_wrong(run, "all is quiet, and what the device holds is not active");
    if (!list_is_empty(&run->shadow.parked))
        schedule_wrong(run, "all is quiet, and a message is parked");
}

/* Cancels all receives; a receive that follows a cancelled one is posted then, and cancelled
 * too. */
static void cancel_all(struct schedule_run *run)
{
    int posted;

    do {
        posted = run->post_count;
        for (int i = 0; i < posted; i++)
            do_cancel(run, run->posts[i], shadow_cancel);
        become_quiet(run);
    } while (run->post_count > posted);
}

static void check_end(struct schedule_run *run)
{
    become_quiet(run);
    schedule_check_senders(run);
    if (!mbx_match_is_valid(&run->match))
        schedule_wrong(run, "mbx_match_is_valid() is false");
    cancel_all(run);
    schedule_check_end(run);
}

/* ---- a whole schedule ---- */

static uint64_t tag_mask(uint32_t bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static void begin(struct schedule_run *run, const struct schedule *s)
{
    run->ids = 0;
    for (int i = 0; i < s->count; i++)
        run->ids = s->steps[i].id >= run->ids ? s->steps[i].id + 1 : run->ids;
    memset(run->recvs, 0, sizeof run->recvs[0] * (size_t)run->ids);
    memset(run->msgs, 0, sizeof run->msgs[0] * (size_t)run->ids);
    for (int i = 0; i < run->ids; i++)
        run->recvs[i].message = run->msgs[i].recv = -1;
    run->schedule = s;
    run->arrival_count = run->bypass_count = run->post_count = run->heard = run->deny = 0;
    run->is_software_alone = false;
    run->sums = (struct schedule_sums){0};
    run->why[0] = '\0';
    mbx_match_init(&run->match, NULL);
    stepped_init(&run->stepped, &(struct stepped_config){.caps = s->caps | MBX_DEVICE_HOLDS,
                                                         .tag_mask = tag_mask(s->tag_bits),
                                                         .counter_bits = s->counter_bits,
                                                         .clashes = s->clashes});
    run->stepped.on_fin = on_fin;
    run->stepped.on_arrival = on_arrival;
    run->stepped.arg = run;
    must(run, shadow_init(&run->shadow, &(struct shadow_config){.device = &run->stepped.device,
                                                                .list = s->list,
                                                                .untagged = s->untagged,
                                                                .threshold = s->threshold,
                                                                .holds = s->holds,
                                                                .events = &shadow_events,
                                                                .arg = run}));
}

static void end(struct schedule_run *run)
{
    shadow_fini(&run->shadow);
    stepped_fini(&run->stepped);
    mbx_match_fini(&run->match);
}

static int run_steps(struct schedule_run *run, const struct schedule *s)
{
    for (int i = 0; i < s->count; i++) {
        do_step(run, &s->steps[i]);
        check_step(run);
        if (run->why[0] != '\0')
            return i;
    }
    check_end(run);
    return run->why[0] != '\0' ? s->count : -1;
}

static void add_sums(struct schedule_run *run, int steps)
{
    run->sums.schedules = 1;
    run->sums.steps = (uint64_t)steps;
    run->sums.parked = run->shadow.stats.parked;
    run->sums.taken = run->shadow.stats.taken;
    run->sums.cancels_won = run->shadow.stats.cancels_won;
    run->sums.cancels_lost = run->shadow.stats.cancels_lost;
    run->sums.claims_won = run->shadow.stats.reclaims_won;
    run->sums.claims_lost = run->shadow.stats.reclaims_lost;
    run->sums.overlapped = run->shadow.stats.overlapped;
    run->sums.clashed = run->shadow.stats.clashed;
    run->sums.waited = run->shadow.stats.waited;
    run->sums.syncs = run->shadow.stats.syncs;
    run->sums.held = run->shadow.stats.held;
    run->sums.held_matched = run->shadow.stats.held_matched;
    run->sums.unheld = run->shadow.stats.unheld;
}

int schedule_replay(struct schedule_run *run, const struct schedule *s,
                    struct schedule_sums *sums)
{
    uint64_t *to = (uint64_t *)sums;
    const uint64_t *from = (const uint64_t *)&run->sums;
    int failed;

    begin(run, s);
    failed = run_steps(run, s);
    add_sums(run, s->count);
    for (size_t i = 0; sums != NULL && i < sizeof *sums / sizeof *to; i++)
        to[i] += from[i];
    end(run);
    return failed;
}
