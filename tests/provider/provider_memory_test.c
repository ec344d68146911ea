/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_memory_test.c - buffers for many messages when memory is short, and when peers die.
 *
 * Tests only src/provider/multi.c, over a one-page Matchbox: messages wait in a queue,
 * mbx_mprobe() takes them out, and mbx_mrecv() receives them at once.  Either that call or the
 * allocation of records can fail for lack of memory, which no client can cause at will in the
 * real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "provider/envelope.h"
#include "provider/ep.h"
#include "provider/event.h"

#define MESSAGES 16
#define NOBODY   (-1)

/* ---- a Matchbox ------------------------------------------------------------------------- */

/* A message is unexpected, was taken out, was received. */
enum stage { AWAY, WAITING, TAKEN, RECEIVED };

static struct {
    enum stage stage;
    uint32_t source;
    size_t size;
    struct prov_op *op; /* of the receive that took it */
    void *context, *buf;
} messages[MESSAGES];

static struct prov_ep ep;
static struct prov_op *sentinels[MESSAGES];
static int arrived, guarded, cancelled;
static int asked, refused; /* how often memory was requested; which request fails */
static bool is_short;

static bool memory_is_there(void)
{
    return ++asked != refused && !is_short;
}

int mbx_mprobe(struct mbx_ep *mbx, uint32_t source, uint32_t context_id, uint64_t tag,
               uint64_t ignore, struct mbx_status *status, mbx_message *message)
{
    (void)mbx, (void)tag, (void)ignore;
    assert_int_equal(context_id, PROV_UNTAGGED);
    for (int i = 0; i < arrived; i++) {
        if (messages[i].stage != WAITING ||
            (source != MBX_ANY_SOURCE && source != messages[i].source))
            continue;
        messages[i].stage = TAKEN;
        *status = (struct mbx_status){.source = messages[i].source, .size = messages[i].size};
        *message = (mbx_message)i + 1;
        return 1;
    }
    return 0;
}

int mbx_mrecv(struct mbx_ep *mbx, mbx_message message, void *buf, size_t size,
              const struct mbx_options *options, mbx_request *request)
{
    int i = (int)message - 1;

    (void)mbx, (void)size;
    assert_int_equal(messages[i].stage, TAKEN);
    if (!memory_is_there())
        return -ENOMEM;
    messages[i].stage = RECEIVED;
    messages[i].op = options->user;
    messages[i].context = messages[i].op->context;
    messages[i].buf = buf;
    *request = 1;
    return 0;
}

/* Only sentinels are posted here. */
int mbx_recv(struct mbx_ep *mbx, uint32_t source, uint32_t context_id, uint64_t tag,
             uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
             mbx_request *request)
{
    (void)mbx, (void)tag, (void)ignore, (void)buf;
    assert_int_equal(context_id, PROV_SENTINEL);
    assert_int_not_equal(source, MBX_ANY_SOURCE);
    assert_int_equal(size, 0);
    if (!memory_is_there())
        return -ENOMEM;
    sentinels[guarded++] = options->user;
    *request = (mbx_request)guarded;
    return 0;
}

int mbx_cancel(struct mbx_ep *mbx, mbx_request request)
{
    (void)mbx, (void)request;
    cancelled++;
    return 0;
}

/* ---- the rest of the provider -------------------------------------------------------------
 */

/* Adds one record each time, so that any of them may be the one that cannot be allocated. */
int prov_op_slab_add(struct prov_ep_ops *ops)
{
    struct prov_op_slab *slab;

    if (!memory_is_there())
        return -FI_ENOMEM;
    slab = calloc(1, sizeof *slab);
    assert_non_null(slab);
    slab->next = ops->slabs;
    ops->slabs = slab;
    prov_op_put(ops, &slab->ops[0]);
    return 0;
}

void prov_event_cancelled(struct prov_event *event, void *context, bool many)
{
    *event = (struct prov_event){
        .context = context, .flags = many ? FI_MULTI_RECV : 0, .error = FI_ECANCELED};
}

int prov_event_error(int error)
{
    return -error;
}

void prov_bounce_finish(struct prov_op *op, const struct mbx_completion *c)
{
    (void)op, (void)c;
    fail();
}

fi_addr_t prov_av_find(struct prov_ep *owner, uint32_t peer)
{
    (void)owner;
    return peer;
}

void prov_index_remove(struct prov_op *op)
{
    (void)op;
    fail();
}

void prov_wait_ring_armed(struct prov_wait *fix, atomic_bool *armed)
{
    (void)fix, (void)armed;
    fail();
}

/* ---- cases without memory --------------------------------------------------------------- */

static char recv_buf[1000];

static void begin(void)
{
    memset(&ep, 0, sizeof ep);
    memset(messages, 0, sizeof messages);
    arrived = guarded = cancelled = asked = refused = 0;
    is_short = false;
}

static void end(void)
{
    assert_int_equal(ep.multi.unguarded, 0);
    prov_multi_free(&ep);
    while (ep.ops.slabs != NULL) {
        struct prov_op_slab *slab = ep.ops.slabs;

        ep.ops.slabs = slab->next;
        free(slab);
    }
}

/* As in receive.c, which retries until there is memory. */
static struct prov_op *post(uint32_t source, size_t size, bool many, void *context)
{
    struct prov_op *op;

    while ((op = prov_op_get(&ep.ops)) == NULL)
        continue;
    op->kind = PROV_OP_RECV;
    op->context = context;
    assert_int_equal(prov_multi_post(&ep, op, source, recv_buf, size, many), 0);
    return op;
}

static void arrive(uint32_t source, size_t size)
{
    messages[arrived].stage = WAITING;
    messages[arrived].source = source;
    messages[arrived++].size = size;
    prov_multi_pull(&ep);
}

static void expect_received(int message, const void *context, size_t at)
{
    assert_int_equal(messages[message].stage, RECEIVED);
    assert_ptr_equal(messages[message].context, context);
    assert_ptr_equal(messages[message].buf, recv_buf + at);
}

/* Completes a message; returns what the client sees. */
static unsigned completes(int message, struct prov_event *event)
{
    const struct mbx_completion c = {.kind = MBX_RECVS,
                                     .user = messages[message].op,
                                     .status = {.size = messages[message].size},
                                     .received = messages[message].size};

    return prov_multi_finish_part(&ep, messages[message].op, &c, event);
}

/* Ends a sentinel because its peer has died. */
static bool dies(int sentinel, struct prov_event *event)
{
    const struct mbx_completion c = {.kind = MBX_RECVS, .error = -ENOTCONN};

    return prov_multi_finish_sentinel(&ep, sentinels[sentinel], &c, event) != 0;
}

static int a, b, c; /* their addresses are contexts */

/* The receive that a message has matched cannot be cancelled any more; otherwise the message
 * would have no receive, and messages of other peers would wait for it for ever. */
static void what_waits_for_memory_has_matched(void **state)
{
    struct prov_op *first;

    (void)state;
    begin();
    first = post(0, 100, false, &a);
    post(2, 100, false, &b);
    is_short = true;
    arrive(0, 8);
    arrive(2, 8);
    assert_int_equal(messages[1].stage, WAITING);
    assert_int_equal(prov_multi_cancel(&ep, first), -FI_ENOENT);
    is_short = false;
    prov_multi_pull(&ep);
    expect_received(0, &a, 0);
    expect_received(1, &b, 0);
    assert_false(prov_multi_is_busy(&ep.multi));
    end();
}

static void a_cancelled_buffer_waits_for_what_waits_for_memory(void **state)
{
    struct prov_event event;
    struct prov_op *first;

    (void)state;
    begin();
    first = post(0, 8, true, &a); /* it will be full */
    post(2, 100, false, &b);
    is_short = true;
    arrive(0, 8);
    assert_int_equal(prov_multi_cancel(&ep, first), -FI_EINPROGRESS);
    arrive(0, 9); /* too late for that buffer */
    arrive(2, 8);
    is_short = false;
    prov_multi_pull(&ep);
    expect_received(0, &a, 0);
    assert_int_equal(messages[1].stage, WAITING);
    expect_received(2, &b, 0);
    assert_int_equal(completes(0, &event), PROV_FINISH_EVENT | PROV_FINISH_CANCELLED);
    assert_ptr_equal(event.context, &a);
    assert_int_equal(event.flags & FI_MULTI_RECV, 0);
    post(MBX_ANY_SOURCE, 100, false, &c);
    expect_received(1, &c, 0);
    end();
}

/* Runs the same steps each time; the n-th request for memory fails. */
static void play(int n)
{
    begin();
    refused = n;
    post(1, 100, false, &a);
    post(MBX_ANY_SOURCE, 20, true, &b);
    post(2, 100, true, &c);
    arrive(2, 8);
    arrive(1, 8);
    arrive(1, 8);
    arrive(2, 8); /* no space in b */
    arrive(2, 30);
    post(2, 100, false, &a);
    arrive(3, 1); /* no receive accepts it */
    for (int i = 0; i < 3; i++)
        prov_multi_pull(&ep);
    assert_int_equal(ep.multi.unguarded, 0);
}

static void a_shortage_changes_nothing(void **state)
{
    static const struct {
        void *context;
        size_t at;
    } want[] = {{&b, 0}, {&a, 0}, {&b, 8}, {&b, 16}, {&c, 0}};
    int most;

    (void)state;
    play(0);
    most = asked;
    end();
    assert_true(most > 10);
    for (int n = 0; n <= most; n++) {
        play(n);
        for (int i = 0; i < 5; i++)
            expect_received(i, want[i].context, want[i].at);
        assert_int_equal(messages[5].stage, WAITING);
        end();
    }
}

static void what_the_dead_had_sent_comes_first(void **state)
{
    struct prov_event event;

    (void)state;
    begin();
    post(1, 100, false, &a);
    post(2, 100, false, &b);
    post(1, 100, true, &c);
    messages[0].source = 1; /* arrived, and not yet taken */
    messages[0].stage = WAITING;
    arrived = 1;
    assert_false(dies(0, &event));
    expect_received(0, &a, 0);
    assert_true(dies(2, &event));
    assert_ptr_equal(event.context, &c);
    assert_int_equal(event.error, FI_ENOTCONN);
    assert_int_equal(event.flags, FI_MULTI_RECV);
    arrive(2, 8); /* matched by the message of this step */
    expect_received(1, &b, 0);
    assert_int_equal(cancelled, 2); /* the sentinels of a and b */
    assert_false(prov_multi_is_busy(&ep.multi));
    end();
}

/* A message that waits for memory may hide another one from the dead peer. */
static void a_death_while_memory_is_short_is_told_later(void **state)
{
    struct prov_event event;

    (void)state;
    begin();
    post(1, 100, false, &a);
    post(2, 100, false, &b);
    is_short = true;
    arrive(1, 8);
    assert_false(dies(1, &event));
    is_short = false;
    prov_multi_pull(&ep);
    expect_received(0, &a, 0);
    assert_int_equal(guarded, 3);
    assert_true(dies(2, &event));
    assert_ptr_equal(event.context, &b);
    end();
}

/* Messages that the buffer has taken are still in progress: the last one returns it. */
static void a_buffer_of_the_dead_comes_back_with_its_parts(void **state)
{
    struct prov_event event;

    (void)state;
    begin();
    post(1, 100, true, &a);
    arrive(1, 8);
    assert_false(dies(0, &event));
    assert_false(prov_multi_is_busy(&ep.multi));
    assert_int_equal(completes(0, &event), PROV_FINISH_EVENT);
    assert_ptr_equal(event.buf, recv_buf);
    assert_int_equal(event.flags & FI_MULTI_RECV, FI_MULTI_RECV);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_for_memory_has_matched),
        cmocka_unit_test(a_cancelled_buffer_waits_for_what_waits_for_memory),
        cmocka_unit_test(a_shortage_changes_nothing),
        cmocka_unit_test(what_the_dead_had_sent_comes_first),
        cmocka_unit_test(a_death_while_memory_is_short_is_told_later),
        cmocka_unit_test(a_buffer_of_the_dead_comes_back_with_its_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
