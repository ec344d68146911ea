/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_test.c - the verbs device over the software adapter: the conformance suite, with lists of
 * several lengths and with each way in which adapters may differ, and what only such hardware
 * does.
 *
 * The daemon of the adapter ends with its last application, so a group of tests has a context of
 * its own open, and the next group gets another daemon with other quirks.
 */
#include "verbs_bench.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "verbs/verbs_library.h"
#include "verbs_broken.h"

/* ---- the adapter ----------------------------------------------------------------------- */

static char log_name[] = "/tmp/verbs_test.XXXXXX";

static int daemon_of(struct ibv_context *context)
{
    const int fd = (int)syscall(SYS_pidfd_open, lib_context(context)->pid, 0);

    assert_true(fd >= 0);
    return fd;
}

static void await_end(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

    assert_int_equal(poll(&poll_fd, 1, 60000), 1);
    close(pidfd);
}

/* Of a group of tests: one daemon. */
static struct ibv_context *open_adapter(const char *quirks, const char *seed)
{
    struct ibv_context *context;
    struct ibv_device **list;

    setenv(ADAPTER_ENV_QUIRKS, quirks, 1);
    setenv(ADAPTER_ENV_SEED, seed, 1);
    assert_int_equal(verbs_library_load(), 0);
    list = ibv_get_device_list(NULL);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static void close_adapter(struct ibv_context *context)
{
    const int pidfd = daemon_of(context);

    assert_int_equal(ibv_close_device(context), 0);
    await_end(pidfd);
}

/* The daemon dies, as an adapter that is pulled out. */
static void kill_daemon(struct ibv_context *context)
{
    const int pidfd = daemon_of(context);

    assert_int_equal(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
    await_end(pidfd);
}

static void lose(void *instance)
{
    const struct verbs_target *t = instance;

    kill_daemon(verbs_of(t->device)->context);
}
/* ---- the 64 bits ------------------------------------------------------------------------ */

static void an_envelope_survives_its_tag(void **state)
{
    const struct mbx_device_envelope native = {0xfedc, 0xba98, 0x76543210};
    const struct mbx_device_envelope fabric = {VERBS_FABRIC_CONTEXT, 0xba98, 0xfedc76543210};
    const struct mbx_device_envelope anybody = {1, MBX_DEVICE_ANY_SOURCE_ID, 0};
    struct mbx_device_envelope got;

    (void)state;
    assert_int_equal(verbs_tag(VERBS_NATIVE, &native), 0xfedcba9876543210);
    got = verbs_envelope(VERBS_NATIVE, 0xfedcba9876543210);
    assert_memory_equal(&got, &native, sizeof got);
    assert_int_equal(verbs_mask(VERBS_NATIVE, &native, 0), UINT64_MAX);
    assert_int_equal(verbs_mask(VERBS_NATIVE, &native, 0xff), 0xffffffffffffff00);
    assert_int_equal(verbs_mask(VERBS_NATIVE, &anybody, UINT64_MAX), 0xffff000000000000);

    assert_int_equal(verbs_tag(VERBS_FABRIC, &fabric), 0xba98fedc76543210);
    got = verbs_envelope(VERBS_FABRIC, 0xba98fedc76543210);
    assert_memory_equal(&got, &fabric, sizeof got);
    assert_int_equal(verbs_mask(VERBS_FABRIC, &fabric, 0xff), 0xffffffffffffff00);
    assert_int_equal(verbs_mask(VERBS_FABRIC, &anybody, 0), 0x0000ffffffffffff);
}

static void the_limits_are_those_of_the_layout(void **state)
{
    struct mbx_device_limits limits;
    struct mbx_device *device;

    (void)state;
    assert_int_equal(
        verbs_open(&(struct verbs_config){.peers = 4, .layout = VERBS_FABRIC}, &device), 0);
    device->ops->limits(device, &limits);
    assert_int_equal(limits.tag_bits, 48);
    assert_int_equal(limits.context_bits, 0);
    assert_int_equal(limits.context_id, VERBS_FABRIC_CONTEXT);
    assert_int_equal(limits.untagged_min, VERBS_UNTAGGED_MIN);
    assert_true(limits.caps & MBX_DEVICE_RENDEZVOUS);
    device->ops->close(device);
}

/* ---- messages --------------------------------------------------------------------------- */

/* Several packets: matched with the first, there with the last; the length comes then. */
static void a_long_message_is_matched_before_it_is_there(void **state)
{
    unsigned char sent[6000], got[VERBS_EAGER_MAX];
    struct vbench b;

    (void)state;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (unsigned char)(i * 7 / 3);
    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, 99, sent, sizeof sent);
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_SIZE_LATER);
    assert_int_equal(b.events[0].envelope.tag, 7);
    assert_int_equal(b.events[0].data, 99);
    assert_int_equal(b.events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b.events[1].size, sizeof sent);
    assert_int_equal(b.events[1].done, sizeof sent);
    assert_memory_equal(got, sent, sizeof sent);
    vbench_close(&b);
}

static void a_rendezvous_is_read_and_answered_by_the_adapter(void **state)
{
    unsigned char *sent = mem_alloc(LONG), *got = mem_calloc(1, LONG);
    struct vbench b;

    (void)state;
    for (size_t i = 0; i < LONG; i++)
        sent[i] = (unsigned char)(i * 7 / 3);
    vbench_open_with(&b, got, LONG);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0);
    vbench_poll(&b); /* behind which the FIN is there, or it fails */
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_SIZE_LATER | MBX_DEVICE_BY_RNDV);
    assert_int_equal(b.events[0].data, 99);
    assert_int_equal(b.events[1].type, MBX_DEVICE_DATA_VALID);
    assert_int_equal(b.events[1].error, 0);
    assert_int_equal(b.events[1].size, LONG);
    assert_int_equal(b.events[1].data, 99);
    assert_memory_equal(got, sent, LONG);
    assert_int_equal(verbs_target_fins(b.t, 2), 1);
    vbench_close(&b);
    mem_free(sent);
    mem_free(got);
}

static void is_request(const struct mbx_device_event *event, const void *address, uint64_t size)
{
    assert_int_equal(event->size, size);
    assert_int_equal(event->sender, 11);
    assert_int_equal(event->address, (uintptr_t)address);
    assert_int_equal(event->key, 0x5678);
    assert_int_equal(event->data, 99);
    assert_int_equal(event->done, 0);
    assert_int_equal(event->error, 0);
}

static void expect_incomplete(struct vbench *b, const void *address, uint64_t size)
{
    vbench_poll(b);
    assert_int_equal(b->count, 2);
    assert_int_equal(b->events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b->events[0].flags, MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN);
    is_request(&b->events[0], address, size);
    assert_int_equal(b->events[1].type, MBX_DEVICE_INCOMPLETE);
    is_request(&b->events[1], address, size);
    assert_int_equal(verbs_target_fins(b->t, 2), 0);
}

static void a_rendezvous_that_does_not_fit_says_where_it_is(void **state)
{
    static unsigned char got[VERBS_EAGER_MAX], sent[1];
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got, sizeof got);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    expect_incomplete(&b, sent, LONG);
    vbench_append(&b, 1, 7, got, 5); /* by its bounce buffer */
    vbench_run(&b);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    expect_incomplete(&b, sent, LONG);
    vbench_close(&b);
}

/* Of an adapter that does eager messages alone. */
static void a_rendezvous_that_the_adapter_cannot_do_is_told(void **state)
{
    static unsigned char got[VERBS_EAGER_MAX], sent[1];
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got, sizeof got);
    assert_false(b.limits.caps & MBX_DEVICE_RENDEZVOUS);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, 100, 11, 0x5678);
    expect_incomplete(&b, sent, 100);
    vbench_close(&b);
}

static void an_unexpected_rendezvous_becomes_an_rts(void **state)
{
    static unsigned char sent[1];
    struct wire_packet packet;
    struct vbench b;

    (void)state;
    vbench_open(&b);
    verbs_target_send_rndv(b.t, 2, vbench_tag(2, 7), 99, sent, LONG, 11, 0x5678);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_UNEXPECTED);
    assert_int_equal(b.events[0].peer, 2);
    packet = vbench_packet(&b, &b.events[0]);
    assert_int_equal(packet.header.type, WIRE_RTS);
    assert_int_equal(packet.header.tag, 7);
    assert_int_equal(packet.header.context_id, 1);
    assert_int_equal(packet.header.data, 99);
    assert_int_equal(packet.body.rts.sender, 11);
    assert_int_equal(packet.body.rts.size, LONG);
    assert_int_equal(packet.body.rts.address, (uintptr_t)sent);
    assert_int_equal(packet.body.rts.key, 0x5678);
    vbench_close(&b);
}

static void an_announced_message_says_where_it_is(void **state)
{
    const struct verbs_rts rts = {11, UINT64_C(1) << 33, 0x1234, 0x5678, UINT64_MAX};
    unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got, sizeof got);
    for (int i = 0; i < 2; i++)
        vbench_send(&b, 7, VERBS_ANNOUNCED, &rts, sizeof rts);
    vbench_poll(&b);
    assert_int_equal(b.count, 3);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_int_equal(b.events[0].flags, MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN);
    assert_int_equal(b.events[1].type, MBX_DEVICE_INCOMPLETE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.events[i].sender, rts.sender);
        assert_int_equal(b.events[i].size, rts.size);
        assert_int_equal(b.events[i].address, rts.address);
        assert_int_equal(b.events[i].key, rts.key);
        assert_int_equal(b.events[i].data, rts.data);
        assert_int_equal(b.events[i].done, 0);
    }
    assert_int_equal(b.events[2].type, MBX_DEVICE_UNEXPECTED);
    assert_int_equal(vbench_packet(&b, &b.events[2]).body.rts.address, rts.address);
    vbench_close(&b);
}

/* A packet as on any other wire, of a type that uses all of its header. */
static void a_packet_without_a_tag_comes_whole(void **state)
{
    struct {
        struct wire_header header;
        struct wire_rtr body;
    } packet = {.header = {.what = wire_what(WIRE_RTR),
                           .tag = 0x1122334455667788,
                           .data = 0x99aabbccddeeff00,
                           .context_id = 0xabcdef},
                .body = {1, 2, 3, 4, 5}};
    const unsigned char frame[4] = {IBV_TMH_NO_TAG, 1, 2, 3};
    struct ibv_tmh tmh;
    struct vbench b;

    (void)state;
    vbench_open(&b);
    memcpy(&packet.header.frame, frame, sizeof frame);
    memcpy(&tmh, &packet, sizeof tmh);
    verbs_target_send_raw(b.t, 2, &tmh, (unsigned char *)&packet + sizeof tmh,
                          sizeof packet - sizeof tmh);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_PASSED);
    assert_int_equal(b.events[0].peer, 2);
    assert_int_equal(b.events[0].bytes, sizeof packet);
    assert_memory_equal(vbench_buffer(&b, b.events[0].buffer), &packet, sizeof packet);
    vbench_close(&b);
}

static void a_fin_of_the_hardware_names_its_request(void **state)
{
    const struct ibv_rvh rvh = {htobe64(0x1234), htobe32(0x5678), htobe32(100)};
    const struct ibv_tmh tmh =
        verbs_target_header(IBV_TMH_FIN, VERBS_RNDV | 99, vbench_tag(1, 7));
    struct wire_packet packet;
    struct vbench b;

    (void)state;
    vbench_open(&b);
    b.t->fin_sender = 77;
    b.t->knows_fin = true;
    verbs_target_send_raw(b.t, 2, &tmh, &rvh, sizeof rvh);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_PASSED);
    packet = vbench_packet(&b, &b.events[0]);
    assert_int_equal(packet.header.type, WIRE_FIN);
    assert_int_equal(packet.body.fin.sender, 77);
    assert_int_equal(b.t->fin.tag, vbench_tag(1, 7));
    assert_int_equal(b.t->fin.address, 0x1234);
    assert_int_equal(b.t->fin.key, 0x5678);
    assert_int_equal(b.t->fin.size, 100);
    assert_int_equal(b.t->fin.app_ctx, VERBS_RNDV | 99);
    b.t->knows_fin = false;
    verbs_target_send_raw(b.t, 2, &tmh, &rvh, sizeof rvh);
    vbench_poll(&b);
    vbench_is_nonsense(&b, &b.events[0]);
    vbench_close(&b);
}
/* ---- the end ---------------------------------------------------------------------------- */

/* A receive that was matched must not be matched again when software goes on alone. */
static void what_was_done_before_the_end_is_told(void **state)
{
    unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 7, 5, "good", 4);
    vbench_run(&b);
    verbs_lose(b.t->device, "said by a test");
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[0].type, MBX_DEVICE_MATCHED);
    assert_memory_equal(got, "good", 4);
    assert_int_equal(b.events[1].type, MBX_DEVICE_LOST);
    assert_int_equal(b.device->ops->sync(b.device, 0), -ENODEV);
    vbench_poll(&b);
    assert_int_equal(b.count, 0);
    vbench_close(&b);
}

static void nothing_is_matched_after_the_end(void **state)
{
    unsigned char got[VERBS_EAGER_MAX] = "untouched";
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got, sizeof got);
    vbench_send(&b, 8, 5, "bad", 3); /* connects them */
    vbench_run(&b);
    verbs_lose(b.t->device, "said by a test");
    vbench_send(&b, 7, 0, "good", 4);
    vbench_poll(&b);
    assert_int_equal(b.count, 2);
    assert_int_equal(b.events[1].type, MBX_DEVICE_LOST);
    assert_string_equal(got, "untouched");
    vbench_close(&b);
}

/* ---- handles ---------------------------------------------------------------------------- */

#define ALIKE 6

/* ALIKE receives and messages that all fit each other: those matched before the receives are
 * back must be the oldest of both, in order, and the other messages unexpected.  How many
 * matched. */
static uint32_t take_back_once(void)
{
    unsigned char got[ALIKE][16];
    struct vbench b;
    uint32_t matched = 0, passed = 0, ends = 0;

    vbench_open(&b);
    for (uint32_t i = 0; i < ALIKE; i++)
        vbench_append(&b, i, 7, got[i], sizeof got[i]);
    vbench_run(&b);
    for (uint32_t i = 0; i < ALIKE / 2; i++)
        vbench_send(&b, 7, i, "abc", 3);
    assert_int_equal(b.device->ops->take_back(b.device, 0), 0);
    assert_int_equal(b.device->ops->take_back(b.device, 0), -EAGAIN);
    for (uint32_t i = ALIKE / 2; i < ALIKE; i++)
        vbench_send(&b, 7, i, "abc", 3);
    vbench_poll(&b);
    for (int i = 0; i < b.count; i++) {
        const struct mbx_device_event *event = &b.events[i];

        if (event->type == MBX_DEVICE_MATCHED) {
            assert_int_equal(event->handle, matched);
            assert_int_equal(event->data, matched++);
            assert_int_equal(ends, 0);
        } else if (event->type == MBX_DEVICE_UNEXPECTED) {
            passed++;
        } else {
            assert_int_equal(event->type, MBX_DEVICE_REVOKED_ALL);
            ends++;
        }
    }
    assert_int_equal(matched + passed, ALIKE);
    assert_int_equal(ends, 1);
    vbench_close(&b);
    return matched;
}

/* With an adapter that dawdles, by chance. */
static void what_is_left_is_the_head_while_all_is_taken_back(void **state)
{
    uint32_t seen = 0; /* bit n: n were matched */

    (void)state;
    for (int i = 0; i < 40; i++)
        seen |= 1u << take_back_once();
    if ((seen & (seen - 1)) == 0)
        fail_msg("the adapter does not dawdle: always the same were matched, %#x", seen);
}

static void a_consumed_receive_can_be_revoked(void **state)
{
    unsigned char got[2][VERBS_EAGER_MAX];
    struct vbench b;

    (void)state;
    vbench_open_with(&b, got[0], sizeof got[0]);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    vbench_append(&b, 1, 7, got[1], sizeof got[1]); /* the hardware may use the number again */
    assert_int_equal(b.device->ops->revoke(b.device, 0, 0), 0);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_int_equal(b.events[0].type, MBX_DEVICE_REVOKED);
    assert_int_equal(b.events[0].handle, 0);
    assert_int_equal(b.events[0].error, -ENOENT);
    vbench_close(&b);
}

/* ---- what the caller brings ------------------------------------------------------------- */

static void a_region_of_the_caller_is_not_registered_again(void **state)
{
    static unsigned char got[VERBS_EAGER_MAX];
    struct vbench b;
    struct verbs *v;
    struct ibv_mr *mr;
    struct mbx_device_recv recv = {.envelope = {1, 2, 7}, .buf = got, .size = sizeof got};

    (void)state;
    vbench_open(&b);
    v = verbs_of(b.t->device);
    mr = ibv_reg_mr(v->pd, got, sizeof got, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    recv.region = verbs_region(mr->lkey);
    assert_int_equal(b.device->ops->append(b.device, &recv, 0), 0);
    assert_null(v->entries[0].region);
    vbench_run(&b);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(b.count, 1);
    assert_memory_equal(got, "abc", 3);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    vbench_close(&b);
}

/* ... and stays open behind the device. */
static void a_device_works_on_what_the_caller_has_opened(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct mbx_device *device = NULL;
    const struct verbs_config config = {.peers = 4, .context = context, .pd = pd};

    (void)state;
    ibv_free_device_list(list);
    assert_int_equal(verbs_open(&(struct verbs_config){.context = context}, &device), -EINVAL);
    assert_int_equal(verbs_open(&config, &device), 0);
    assert_int_equal(device->ops->configure(device, 4, 10, VERBS_UNTAGGED_MIN), 0);
    assert_int_equal(verbs_arm(device), 0);
    device->ops->close(device);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_peer_that_has_been_detached_can_come_back(void **state)
{
    struct ibv_qp *qp;
    struct vbench b;

    (void)state;
    vbench_open(&b);
    vbench_send(&b, 7, 1, "abc", 3);
    vbench_poll(&b);
    assert_int_equal(verbs_attach(b.t->device, 2, &qp), -EALREADY);
    verbs_detach(b.t->device, 2);
    assert_int_equal(verbs_attach(b.t->device, 2, &qp), 0);
    vbench_close(&b);
}

/* ---- which hardware --------------------------------------------------------------------- */

static void explain(const char *devices, bool is_there, const char *expected)
{
    char line[160];

    setenv(ADAPTER_ENV_DEVICES, devices, 1);
    assert_int_equal(verbs_explain(line, sizeof line), is_there);
    assert_string_equal(line, expected);
    unsetenv(ADAPTER_ENV_DEVICES);
}

static void one_line_says_what_there_is(void **state)
{
    (void)state;
    explain("1", true, "available (mbx0: max_num_tags 127)");
    explain("0", false, "libibverbs finds no device");
    explain("2", true, "available (mbx0: max_num_tags 127, mbx1: max_num_tags 127)");
}

static void a_device_can_be_named(void **state)
{
    struct mbx_device *device = NULL;

    (void)state;
    setenv(ADAPTER_ENV_DEVICES, "2", 1);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "mbx1"}, &device), 0);
    assert_string_equal(ibv_get_device_name(verbs_of(device)->context->device), "mbx1");
    device->ops->close(device);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "mbx2"}, &device), -ENODEV);
    unsetenv(ADAPTER_ENV_DEVICES);
}

static void an_adapter_that_does_not_match_is_refused(void **state)
{
    struct mbx_device *device = NULL;
    char line[160];

    (void)state;
    assert_int_equal(verbs_open(&(struct verbs_config){0}, &device), -EOPNOTSUPP);
    assert_false(verbs_explain(line, sizeof line));
    assert_string_equal(line, "no device matches tags in hardware (mbx0: max_num_tags 0)");
}

static void the_daemons_have_not_complained(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(stat(log_name, &status), 0);
    if (status.st_size > 0)
        fail_msg("see %s", log_name);
}

/* ---- all -------------------------------------------------------------------------------- */

static int conformance(const char *quirks, uint32_t list, bool is_brief, bool can_be_lost)
{
    struct conformance_target target = verbs_target;
    struct ibv_context *context = can_be_lost ? NULL : open_adapter(quirks, "1");
    char name[100];
    int failed;

    snprintf(name, sizeof name, "device conformance: verbs, list %u, quirks '%s'", list,
             quirks);
    setenv(ADAPTER_ENV_QUIRKS, quirks, 1);
    target.name = name;
    target.list = list;
    target.is_brief = is_brief;
    target.lose = can_be_lost ? lose : NULL;
    failed = conformance_run(&target);
    if (context != NULL)
        close_adapter(context);
    return failed;
}

static int run_group(const char *name, const char *quirks, const char *seed,
                     const struct CMUnitTest *tests, size_t count)
{
    struct ibv_context *context = open_adapter(quirks, seed);
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);

    close_adapter(context);
    return failed;
}

#define RUN(quirks, seed, tests)                                                               \
    run_group("verbs " #tests, quirks, seed, tests, ARRAY_COUNT(tests))

static void prepare(const char *adapter)
{
    int fd;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        printf("in the network namespace of everybody: %s\n", strerror(errno));
    fd = mkstemp(log_name);
    assert_true(fd >= 0);
    close(fd);
    setenv(ADAPTER_ENV_LOG, log_name, 1);
    unsetenv(ADAPTER_ENV_INTERFACE);
    verbs_use(adapter);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest alone[] = {
        cmocka_unit_test(an_envelope_survives_its_tag),
        cmocka_unit_test(the_limits_are_those_of_the_layout),
        cmocka_unit_test(a_long_message_is_matched_before_it_is_there),
        cmocka_unit_test(a_rendezvous_is_read_and_answered_by_the_adapter),
        cmocka_unit_test(a_rendezvous_that_does_not_fit_says_where_it_is),
        cmocka_unit_test(an_unexpected_rendezvous_becomes_an_rts),
        cmocka_unit_test(an_announced_message_says_where_it_is),
        cmocka_unit_test(a_packet_without_a_tag_comes_whole),
        cmocka_unit_test(a_fin_of_the_hardware_names_its_request),
        cmocka_unit_test(what_was_done_before_the_end_is_told),
        cmocka_unit_test(nothing_is_matched_after_the_end),
        cmocka_unit_test(a_consumed_receive_can_be_revoked),
        cmocka_unit_test(a_region_of_the_caller_is_not_registered_again),
        cmocka_unit_test(a_device_works_on_what_the_caller_has_opened),
        cmocka_unit_test(a_peer_that_has_been_detached_can_come_back),
        cmocka_unit_test(one_line_says_what_there_is),
        cmocka_unit_test(a_device_can_be_named),
    };
    static const struct CMUnitTest slowly[] = {
        cmocka_unit_test(what_is_left_is_the_head_while_all_is_taken_back)};
    static const struct CMUnitTest without_rendezvous[] = {
        cmocka_unit_test(a_rendezvous_that_the_adapter_cannot_do_is_told)};
    static const struct CMUnitTest without_tags[] = {
        cmocka_unit_test(an_adapter_that_does_not_match_is_refused)};
    static const struct CMUnitTest last[] = {cmocka_unit_test(the_daemons_have_not_complained)};
    static const uint32_t lists[] = {1, 2, 16, 127};
    static const char *const quirks[] = {"recv,sync", "apart,fin-recv", "eager-only", "dawdle",
                                         "recv,fin-recv,sync,apart,dawdle"};
    int failed = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: verbs_test libmbx-adapter.so\n");
        return 2;
    }
    prepare(argv[1]);
    failed += RUN("", "1", alone);
    failed += run_group("verbs broken", "", "1", verbs_broken_tests, verbs_broken_count);
    failed += RUN("dawdle", "1", slowly);
    failed += RUN("dawdle", "2", slowly);
    failed += RUN("eager-only", "1", without_rendezvous);
    setenv(ADAPTER_ENV_TAGS, "0", 1);
    failed += RUN("", "1", without_tags);
    unsetenv(ADAPTER_ENV_TAGS);
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++)
        failed += conformance("", lists[i], i > 0, false);
    for (size_t i = 0; i < ARRAY_COUNT(quirks); i++)
        failed += conformance(quirks[i], 16, true, false);
    failed += conformance("", 16, true, true);
    failed += _cmocka_run_group_tests("verbs daemons", last, 1, NULL, NULL);
    if (failed == 0)
        unlink(log_name);
    return failed;
}
