/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_rma_test.c - memory regions, reads and writes of the libfabric provider: every form
 * of call moves the bytes that it names and no others, and notifies those it should.
 */
#include "provider_fixture.h"
#include "../../src/base/patience.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CAPS (FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT)
#define BIG  ((size_t)1 << 19)
#define KEY  41
#define ALL  (FI_REMOTE_READ | FI_REMOTE_WRITE)

static const struct setup plain = {.caps = CAPS};
static char here[BIG], there[BIG + 64];
static int contexts[4];

static struct fid_mr *share(struct fixture *fix, void *buf, size_t size, uint64_t access)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(fix->domain, buf, size, access, 0, KEY, 0, &mr, NULL), 0);
    return mr;
}

/* Opens a fixture and a region in `there`. */
static struct fid_mr *open_shared(struct fixture *fix, const struct setup *setup)
{
    fixture_open(fix, setup);
    memset(there, 0x11, sizeof there);
    return share(fix, there, BIG, ALL);
}

static void close_shared(struct fixture *fix, struct fid_mr *mr)
{
    assert_int_equal(fi_close(&mr->fid), 0);
    fixture_close(fix);
}

/* The next completion of node 0 is for an access. */
static void expect_access(struct fixture *fix, void *context, uint64_t flag)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(fixture_read(fix, 0, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags, FI_RMA | flag);
}

static void expect_data(struct fixture *fix, int node, uint64_t data, size_t len)
{
    struct fi_cq_tagged_entry e;
    fi_addr_t source;

    assert_int_equal(fixture_read(fix, node, &e, &source), 1);
    assert_int_equal(e.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_null(e.op_context);
    assert_int_equal(e.data, data);
    assert_int_equal(e.len, len);
    assert_int_equal(source, fix->addr[0]);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void every_size_is_written_and_read(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 100, 4096, 5000, 70000, BIG};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i], at = (BIG - size) / 2;

        pattern_fill(here, size, i);
        memset(there, 0x11, sizeof there);
        assert_int_equal(
            fi_write(EP(fix, 0), here, size, NULL, fix.addr[1], at, KEY, &contexts[0]), 0);
        expect_access(&fix, &contexts[0], FI_WRITE);
        assert_true(pattern_is(there + at, size, i));
        assert_true(there[at + size] == 0x11 && (at == 0 || there[at - 1] == 0x11));
        memset(here, 0, size);
        assert_int_equal(
            fi_read(EP(fix, 0), here, size, NULL, fix.addr[1], at, KEY, &contexts[1]), 0);
        expect_access(&fix, &contexts[1], FI_READ);
        assert_true(pattern_is(here, size, i));
    }
    fixture_is_quiet(&fix, 1);
    close_shared(&fix, mr);
}

static void pieces_are_gathered_and_scattered(void **state)
{
    struct iovec iov[8], big = {here, 600};
    struct fi_rma_iov rma[3] = {{.addr = 1000, .len = 100, .key = KEY},
                                {.addr = 3000, .len = 0, .key = KEY},
                                {.addr = 2000, .len = 500, .key = KEY}};
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .iov_count = 8,
                             .rma_iov = rma,
                             .rma_iov_count = 3,
                             .context = &contexts[2]};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    msg.addr = fix.addr[1];
    pattern_fill(here, 600, 3);
    for (size_t i = 0; i < 8; i++)
        iov[i] = (struct iovec){here + 75 * i, 75};
    assert_int_equal(fi_writev(EP(fix, 0), iov, NULL, 8, fix.addr[1], 50, KEY, &contexts[0]),
                     0);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_true(pattern_is(there + 50, 600, 3));
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, 0), 0);
    expect_access(&fix, &contexts[2], FI_WRITE);
    assert_memory_equal(there + 1000, here, 100);
    assert_memory_equal(there + 2000, here + 100, 500);
    assert_int_equal(there[1100], 0x11);

    memset(here, 0, 600);
    assert_int_equal(fi_readmsg(EP(fix, 0), &msg, FI_COMPLETION), 0);
    expect_access(&fix, &contexts[2], FI_READ);
    assert_true(pattern_is(here, 600, 3));
    memset(here, 0, 600);
    assert_int_equal(fi_readv(EP(fix, 0), &big, NULL, 1, fix.addr[1], 50, KEY, &contexts[1]),
                     0);
    expect_access(&fix, &contexts[1], FI_READ);
    assert_true(pattern_is(here, 600, 3));

    rma[2].len = 499; /* less than the local length */
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, 0), -FI_EINVAL);
    assert_int_equal(fi_readmsg(EP(fix, 0), &msg, FI_PEEK), -FI_EBADFLAGS);
    assert_int_equal(fi_writev(EP(fix, 0), iov, NULL, 9, fix.addr[1], 0, KEY, NULL),
                     -FI_EINVAL);
    fixture_is_quiet(&fix, 0);
    close_shared(&fix, mr);
}

static void an_injected_write_completes_silently(void **state)
{
    struct iovec iov = {here, 3000};
    struct fi_rma_iov rma = {.addr = 0, .len = 3000, .key = KEY};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = &contexts[1]};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    for (unsigned i = 0; i < 100; i++) { /* more than may be in progress */
        pattern_fill(here, 4096, i);
        assert_int_equal(
            fi_inject_write(EP(fix, 0), here, 4096, fix.addr[1], i * 4096 % BIG, KEY), 0);
        memset(here, 0, 4096);
    }
    msg.addr = fix.addr[1];
    pattern_fill(here, 3000, 77);
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, FI_INJECT | FI_DELIVERY_COMPLETE), 0);
    memset(here, 0, 3000);
    expect_access(&fix, &contexts[1], FI_WRITE); /* after all others */
    assert_true(pattern_is(there, 3000, 77));
    for (unsigned i = 1; i < 100; i++)
        assert_true(pattern_is(there + i * 4096, 4096, i));
    fixture_is_quiet(&fix, 0);
    assert_int_equal(fi_inject_write(EP(fix, 0), here, 4097, fix.addr[1], 0, KEY),
                     -FI_EMSGSIZE);
    close_shared(&fix, mr);
}

static void remote_data_is_told_at_the_target(void **state)
{
    struct iovec iov = {here, 100};
    struct fi_rma_iov rma[2] = {{.addr = 0, .len = 60, .key = KEY},
                                {.addr = 99, .len = 40, .key = KEY}};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .rma_iov = rma,
                             .rma_iov_count = 2,
                             .context = &contexts[2],
                             .data = 3};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    msg.addr = fix.addr[1];
    assert_int_equal(fi_writedata(EP(fix, 0), here, BIG, NULL, UINT64_MAX, fix.addr[1], 0, KEY,
                                  &contexts[0]),
                     0);
    expect_data(&fix, 1, UINT64_MAX, BIG);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_int_equal(fi_inject_writedata(EP(fix, 0), here, 8, 2, fix.addr[1], 0, KEY), 0);
    expect_data(&fix, 1, 2, 8);
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, FI_REMOTE_CQ_DATA), 0);
    expect_data(&fix, 1, 3, 40); /* the last of its parts */
    expect_access(&fix, &contexts[2], FI_WRITE);
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, 0), 0);
    expect_access(&fix, &contexts[2], FI_WRITE);
    fixture_is_quiet(&fix, 1);
    close_shared(&fix, mr);
}

/* Three times as many notifications as can wait in a target whose client could read them. */
static void remote_data_that_nobody_can_read_is_dropped(void **state)
{
    static const struct setup setups[] = {
        {.caps = FI_RMA | FI_RMA_EVENT, .sends_only = true},
        {.caps = FI_RMA | FI_RMA_EVENT, .sends_only = true, .progress = FI_PROGRESS_AUTO},
        {.caps = FI_RMA | FI_RMA_EVENT, .sends_only = true, .counts = FI_REMOTE_WRITE},
    };

    (void)state;
    for (size_t s = 0; s < sizeof setups / sizeof setups[0]; s++) {
        struct fid_cntr *written;
        struct fid_mr *mr;
        struct fixture fix;

        mr = open_shared(&fix, &setups[s]);
        written = fix.node[1].cntr[NODE_WRITTEN_HERE];
        for (uint64_t i = 0; i < 3072; i++) {
            memcpy(here, &i, sizeof i);
            assert_int_equal(
                fi_writedata(EP(fix, 0), here, 8, NULL, i, fix.addr[1], 0, KEY, &contexts[0]),
                0);
            expect_access(&fix, &contexts[0], FI_WRITE);
            assert_memory_equal(there, here, sizeof i);
        }
        fixture_is_quiet(&fix, 1);
        if (written != NULL)
            assert_int_equal(fi_cntr_read(written), 3072);
        close_shared(&fix, mr);
    }
}

static void selective_completion_holds_for_accesses(void **state)
{
    struct setup setup = {.caps = CAPS, .bind_flags = FI_SELECTIVE_COMPLETION};
    struct iovec iov = {here, 8};
    struct fi_rma_iov rma = {.addr = 0, .len = 8, .key = KEY};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = &contexts[1]};
    struct fi_cq_err_entry error;
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &setup);
    msg.addr = fix.addr[1];
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY, &contexts[0]), 0);
    assert_int_equal(fi_readmsg(EP(fix, 0), &msg, 0), 0);
    assert_int_equal(fi_writemsg(EP(fix, 0), &msg, FI_COMPLETION), 0);
    expect_access(&fix, &contexts[1], FI_WRITE);
    fixture_is_quiet(&fix, 0);
    /* a failure is always reported */
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], BIG, KEY, &contexts[2]),
                     0);
    fixture_read_error(&fix, 0, &error);
    assert_ptr_equal(error.op_context, &contexts[2]);
    close_shared(&fix, mr);
}

/* ---- regions --------------------------------------------------------------------------------
 */

static void expect_error(struct fixture *fix, int err, uint64_t flag)
{
    struct fi_cq_err_entry error;

    fixture_read_error(fix, 0, &error);
    assert_int_equal(error.err, err);
    assert_ptr_equal(error.op_context, &contexts[3]);
    assert_int_equal(error.flags, FI_RMA | flag);
}

static void what_is_not_allowed_is_an_error(void **state)
{
    struct fid_mr *mr, *again;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    memset(there, 0x11, sizeof there);
    mr = share(&fix, there, 1000, FI_REMOTE_READ);
    assert_int_equal(fi_mr_reg(fix.domain, here, 1, ALL, 0, KEY, 0, &again, NULL), -FI_ENOKEY);
    assert_int_equal(fi_mr_reg(fix.domain, here, 1, ALL, 1, KEY + 1, 0, &again, NULL),
                     -FI_EINVAL);
    assert_int_equal(fi_mr_reg(fix.domain, here, 1, ALL, 0, KEY + 1, FI_PEEK, &again, NULL),
                     -FI_EBADFLAGS);
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY, &contexts[3]), 0);
    expect_error(&fix, FI_EACCES, FI_WRITE);
    assert_int_equal(fi_read(EP(fix, 0), here, 8, NULL, fix.addr[1], 993, KEY, &contexts[3]),
                     0);
    expect_error(&fix, ERANGE, FI_READ);
    assert_int_equal(fi_read(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY + 1, &contexts[3]),
                     0);
    expect_error(&fix, FI_EACCES, FI_READ);
    assert_int_equal(fi_inject_write(EP(fix, 0), here, 8, fix.addr[1], 0, KEY), 0);
    fixture_read_error(&fix, 0, &(struct fi_cq_err_entry){0});
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_read(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY, &contexts[3]), 0);
    expect_error(&fix, FI_EACCES, FI_READ);
    assert_int_equal(there[0], 0x11);
    fixture_close(&fix);
}

static void a_region_is_known_to_all_endpoints(void **state)
{
    struct fid_mr *mr;
    struct fid_ep *later;
    char address[FIXTURE_ADDRESS];
    size_t len = sizeof address;
    fi_addr_t addr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    assert_int_equal(fi_endpoint(fix.domain, fix.info, &later, NULL), 0);
    assert_int_equal(fi_ep_bind(later, &fix.node[1].av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(later, &fix.node[1].cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(later), 0);
    assert_int_equal(fi_getname(&later->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(fix.node[0].av, address, 1, &addr, 0, NULL), 1);
    for (int i = 0; i < 3; i++) {
        char byte = (char)(i + 1);

        assert_int_equal(fi_write(EP(fix, 0), &byte, 1, NULL, i == 2 ? addr : fix.addr[i],
                                  (uint64_t)i, KEY, &contexts[0]),
                         0);
        expect_access(&fix, &contexts[0], FI_WRITE);
    }
    assert_memory_equal(there, "\1\2\3", 3);
    assert_int_equal(fi_close(&fix.domain->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&later->fid), 0);
    close_shared(&fix, mr);
}

/* How the first byte is addressed, and who chooses the key. */
static void every_mode_names_memory_its_way(void **state)
{
    static const int modes[] = {0, FI_MR_VIRT_ADDR, FI_MR_PROV_KEY | FI_MR_VIRT_ADDR,
                                FI_MR_PROV_KEY | FI_MR_ALLOCATED, FI_MR_ENDPOINT};
    struct fid_mr *mr, *other;
    struct fixture fix;

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct setup setup = {.caps = CAPS, .mr_mode = modes[i]};
        uint64_t base = modes[i] & FI_MR_VIRT_ADDR ? (uintptr_t)there : 0;

        fixture_open(&fix, &setup);
        assert_int_equal(fix.info->domain_attr->mr_mode, modes[i]);
        mr = share(&fix, there, BIG, ALL);
        if (modes[i] & FI_MR_PROV_KEY) { /* the same requested key is no collision */
            other = share(&fix, here, 8, ALL);
            assert_true(fi_mr_key(mr) != fi_mr_key(other));
            assert_int_equal(fi_close(&other->fid), 0);
        } else {
            assert_int_equal(fi_mr_key(mr), KEY);
        }
        if (modes[i] & FI_MR_ENDPOINT) {
            assert_int_equal(fi_mr_enable(mr), -FI_EOPBADSTATE);
            assert_int_equal(fi_mr_bind(mr, &EP(fix, 1)->fid, 0), 0);
            assert_int_equal(fi_mr_enable(mr), 0);
            assert_int_equal(
                fi_write(EP(fix, 0), "x", 1, NULL, fix.addr[2], base, KEY, &contexts[3]), 0);
            expect_error(&fix, FI_EACCES, FI_WRITE);
        }
        there[9] = 0;
        assert_int_equal(fi_write(EP(fix, 0), "x", 1, NULL, fix.addr[1], base + 9,
                                  fi_mr_key(mr), &contexts[0]),
                         0);
        expect_access(&fix, &contexts[0], FI_WRITE);
        assert_int_equal(there[9], 'x');
        close_shared(&fix, mr);
    }
}

/* The client could bind regions to endpoints, use virtual addresses and take the provider's
 * keys; the provider does not require it to. */
static void modes_that_a_client_offers_are_not_asked_for(void **state)
{
    static const struct setup setup = {
        .caps = CAPS,
        .mr_offer = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                    FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT};
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fix.info->domain_attr->mr_mode, 0);
    mr = share(&fix, there, BIG, ALL);
    assert_int_equal(fi_mr_key(mr), KEY);
    for (int i = 0; i < FIXTURE_NODES; i++) {
        there[i] = 0;
        assert_int_equal(
            fi_write(EP(fix, 0), "x", 1, NULL, fix.addr[i], (uint64_t)i, KEY, &contexts[0]), 0);
        expect_access(&fix, &contexts[0], FI_WRITE);
        assert_int_equal(there[i], 'x');
    }
    close_shared(&fix, mr);
}

static struct fid_ep *endpoint_open(struct fixture *fix)
{
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(fix->domain, fix->info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &fix->node[2].av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &fix->node[2].cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(ep), 0);
    return ep;
}

/* The region then belongs to no endpoint, and not to the next one that gets the same
 * address. */
static void a_region_does_not_keep_an_endpoint_that_is_closed(void **state)
{
    static const struct setup setup = {.caps = CAPS, .mr_mode = FI_MR_ENDPOINT};
    struct fid_ep *ep;
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    mr = share(&fix, there, BIG, ALL);
    ep = endpoint_open(&fix); /* closed before the region is enabled, */
    assert_int_equal(fi_mr_bind(mr, &ep->fid, 0), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_mr_enable(mr), -FI_EOPBADSTATE);
    ep = endpoint_open(&fix); /* and after that */
    assert_int_equal(fi_mr_bind(mr, &ep->fid, 0), 0);
    assert_int_equal(fi_mr_enable(mr), 0);
    assert_int_equal(fi_mr_bind(mr, &EP(fix, 1)->fid, 0), -FI_EOPBADSTATE);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_mr_enable(mr), -FI_EOPBADSTATE);
    /* another endpoint may have it */
    assert_int_equal(fi_mr_bind(mr, &EP(fix, 1)->fid, 0), 0);
    assert_int_equal(fi_mr_enable(mr), 0);
    there[9] = 0;
    assert_int_equal(fi_write(EP(fix, 0), "x", 1, NULL, fix.addr[1], 9, KEY, &contexts[0]), 0);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_int_equal(there[9], 'x');
    close_shared(&fix, mr);
}

/* As in OpenSHMEM: one region that covers all memory, and addresses are the target's. */
static void a_region_may_be_all_memory(void **state)
{
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    mr = share(&fix, NULL, SIZE_MAX, ALL);
    pattern_fill(here, BIG, 3);
    assert_int_equal(
        fi_write(EP(fix, 0), here, BIG, NULL, fix.addr[1], (uintptr_t)there, KEY, &contexts[0]),
        0);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_true(pattern_is(there, BIG, 3));
    close_shared(&fix, mr);
}

/* fi_mr_regv(), fi_mr_regattr(): one piece, with its attributes. */
static void a_region_may_be_a_vector_of_one(void **state)
{
    struct iovec iov[2] = {{there, 1000}, {there + 1000, 1000}};
    struct fi_mr_attr attr = {.mr_iov = iov,
                              .iov_count = 1,
                              .access = FI_REMOTE_READ,
                              .requested_key = KEY + 1,
                              .context = &contexts[4]};
    struct fid_mr *mr, *by_attributes;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_mr_regv(fix.domain, iov, 2, ALL, 0, KEY, 0, &mr, NULL), -FI_EINVAL);
    assert_int_equal(fi_mr_regv(fix.domain, iov, 1, ALL, 0, KEY, 0, &mr, NULL), 0);
    attr.iov_count = 2;
    assert_int_equal(fi_mr_regattr(fix.domain, &attr, 0, &by_attributes), -FI_EINVAL);
    attr.iov_count = 1;
    assert_int_equal(fi_mr_regattr(fix.domain, &attr, 0, &by_attributes), 0);
    assert_ptr_equal(by_attributes->fid.context, &contexts[4]);
    assert_int_equal(fi_mr_key(by_attributes), KEY + 1);
    pattern_fill(here, 1000, 6);
    assert_int_equal(fi_write(EP(fix, 0), here, 1000, NULL, fix.addr[1], 0, KEY, &contexts[0]),
                     0);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_true(pattern_is(there, 1000, 6));
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY + 1, &contexts[3]),
                     0);
    expect_error(&fix, FI_EACCES, FI_WRITE);
    assert_int_equal(fi_close(&by_attributes->fid), 0);
    close_shared(&fix, mr);
}

static void an_endpoint_without_the_capability_gets_no_access(void **state)
{
    struct setup setup = {.caps = FI_TAGGED};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fix.info->caps & (FI_RMA | FI_ATOMIC), 0);
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY, NULL),
                     -FI_ENOSYS);
    fixture_close(&fix);
}

/* ---- order
 * ------------------------------------------------------------------------------------ */

static void accesses_are_performed_in_order(void **state)
{
    static uint64_t values[60][1000], seen[60];
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    mr = open_shared(&fix, &plain);
    for (unsigned i = 0; i < 60; i++) {
        size_t words = i % 3 == 0 ? 1000 : 2;

        for (size_t k = 0; k < words; k++)
            values[i][k] = i;
        assert_int_equal(
            fi_write(EP(fix, 0), values[i], 8 * words, NULL, fix.addr[1], 0, KEY, NULL), 0);
        assert_int_equal(fi_read(EP(fix, 0), &seen[i], 8, NULL, fix.addr[1], 8 * (words - 1),
                                 KEY, &contexts[0]),
                         0);
    }
    for (unsigned i = 0; i < 60; i++) {
        expect_access(&fix, NULL, FI_WRITE);
        expect_access(&fix, &contexts[0], FI_READ);
        assert_int_equal(seen[i], i);
    }
    close_shared(&fix, mr);
}

/* ---- counters
 * ----------------------------------------------------------------------------------- */

static void await_count(struct fixture *fix, struct fid_cntr *cntr, uint64_t value)
{
    const time_t end = fixture_end();

    while (fi_cntr_read(cntr) != value && time(NULL) < end)
        fixture_progress(fix);
    assert_int_equal(fi_cntr_read(cntr), value);
}

static void both_sides_can_count(void **state)
{
    struct setup setup = {.caps = CAPS,
                          .counts = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE};
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *region;
    struct fid_mr *mr;
    struct fixture fix;
    time_t end;

    (void)state;
    mr = open_shared(&fix, &setup);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &region, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &region->fid, FI_SEND), -FI_EBADFLAGS);
    assert_int_equal(fi_mr_bind(mr, &region->fid, FI_REMOTE_WRITE), 0);
    assert_int_equal(fi_close(&region->fid), -FI_EBUSY);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], 0, KEY, NULL), 0);
        assert_int_equal(fi_inject_write(EP(fix, 0), here, 8, fix.addr[2], 0, KEY), 0);
        assert_int_equal(fi_read(EP(fix, 0), here, BIG, NULL, fix.addr[1], 0, KEY, NULL), 0);
    }
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, fix.addr[1], BIG, KEY, NULL), 0);
    await_count(&fix, fix.node[0].cntr[NODE_WRITES], 10);
    await_count(&fix, fix.node[0].cntr[NODE_READS], 5);
    await_count(&fix, fix.node[1].cntr[NODE_WRITTEN_HERE], 5);
    await_count(&fix, fix.node[2].cntr[NODE_WRITTEN_HERE], 5);
    await_count(&fix, fix.node[1].cntr[NODE_READ_HERE], 5);
    await_count(&fix, region, 10);
    assert_int_equal(fi_cntr_read(fix.node[2].cntr[NODE_READ_HERE]), 0);
    assert_int_equal(fi_cntr_readerr(fix.node[1].cntr[NODE_WRITTEN_HERE]), 0);
    end = fixture_end();
    while (fi_cntr_readerr(fix.node[0].cntr[NODE_WRITES]) != 1 && time(NULL) < end)
        fixture_progress(&fix);
    assert_int_equal(fi_cntr_readerr(fix.node[0].cntr[NODE_WRITES]), 1);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(fi_cntr_read(region), 10);
    assert_int_equal(fi_close(&region->fid), 0);
    fixture_close(&fix);
}

/* ---- accesses that a close performs ------------------------------------------------------ */

/* Over a network it is not known what has arrived. */
static void skip_network(void)
{
    if (getenv("MATCHBOX_TEST_NETWORK") != NULL || getenv("MBX_TRANSPORT") != NULL)
        skip();
}

/* The access is also counted, though its target makes no progress before or after the close. */
static void a_region_that_closes_performs_what_has_arrived(void **state)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_cntr *region;
    struct fid_mr *mr;
    struct fixture fix;

    (void)state;
    skip_network();
    mr = open_shared(&fix, &plain);
    assert_int_equal(fi_cntr_open(fix.domain, &attr, &region, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &region->fid, FI_REMOTE_WRITE), 0);
    assert_int_equal(fi_write(EP(fix, 0), "x", 1, NULL, fix.addr[1], 9, KEY, &contexts[0]), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(there[9], 'x');
    assert_int_equal(fi_cntr_read(region), 1);
    expect_access(&fix, &contexts[0], FI_WRITE);
    assert_int_equal(fi_close(&region->fid), 0);
    fixture_close(&fix);
}

static void an_endpoint_that_closes_performs_what_has_arrived(void **state)
{
    char address[FIXTURE_ADDRESS];
    size_t len = sizeof address;
    struct fid_ep *ep;
    struct fid_mr *mr;
    struct fixture fix;
    fi_addr_t addr;

    (void)state;
    skip_network();
    mr = open_shared(&fix, &plain);
    ep = endpoint_open(&fix);
    assert_int_equal(fi_getname(&ep->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(fix.node[0].av, address, 1, &addr, 0, NULL), 1);
    assert_int_equal(fi_write(EP(fix, 0), "x", 1, NULL, addr, 9, KEY, &contexts[0]), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(there[9], 'x');
    expect_access(&fix, &contexts[0], FI_WRITE);
    close_shared(&fix, mr);
}

/* ---- threads and processes
 * -------------------------------------------------------------------------- */

#define THREADS 4
#define WRITES  60

static struct fixture many;

/* Each thread writes into its own part of the region, through an endpoint that all share. */
static void *writer(void *arg)
{
    unsigned me = (unsigned)(intptr_t)arg;
    char bytes[512];
    ssize_t err;

    for (unsigned i = 0; i < WRITES; i++) {
        pattern_fill(bytes, sizeof bytes, me * WRITES + i);
        do {
            err = fi_inject_write(EP(many, 0), bytes, sizeof bytes, many.addr[1],
                                  (me * WRITES + i) * sizeof bytes, KEY);
        } while (err == -FI_EAGAIN);
        if (err != 0)
            return NULL;
    }
    return many.info;
}

static void threads_may_share_an_endpoint(void **state)
{
    struct setup setup = {.caps = CAPS,
                          .threading = FI_THREAD_SAFE,
                          .counts = FI_SEND | FI_WRITE | FI_REMOTE_WRITE};
    pthread_t thread[THREADS];
    struct fid_mr *mr;
    void *well;

    (void)state;
    mr = open_shared(&many, &setup);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, writer, (void *)(intptr_t)i), 0);
    await_count(&many, many.node[1].cntr[NODE_WRITTEN_HERE], THREADS * WRITES);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &well);
        assert_non_null(well);
    }
    await_count(&many, many.node[0].cntr[NODE_WRITES], THREADS * WRITES);
    for (unsigned i = 0; i < THREADS * WRITES; i++)
        assert_true(pattern_is(there + (size_t)i * 512, 512, i));
    close_shared(&many, mr);
}

/* The child shares memory, sends its address, and serves until it was written to 3 times. */
static int child(int out)
{
    struct setup setup = {.caps = CAPS, .counts = FI_REMOTE_WRITE};
    struct fid_mr *mr;
    struct fixture fix;
    bool well;

    mr = open_shared(&fix, &setup);
    pattern_fill(there, BIG, 5);
    if (write(out, fix.node[0].address, FIXTURE_ADDRESS) != FIXTURE_ADDRESS)
        return 1;
    well = fi_cntr_wait(fix.node[0].cntr[NODE_WRITTEN_HERE], 3, PATIENCE_MS) == 0 &&
           pattern_is(there, BIG, 6);
    close_shared(&fix, mr);
    return well ? 0 : 1;
}

static void another_process_can_be_accessed(void **state)
{
    char address[FIXTURE_ADDRESS];
    int pipes[2], status;
    fi_addr_t addr;
    struct fixture fix;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child(pipes[1]));
    fixture_open(&fix, &plain);
    assert_int_equal(read(pipes[0], address, sizeof address), sizeof address);
    assert_int_equal(fi_av_insert(fix.node[0].av, address, 1, &addr, 0, NULL), 1);
    assert_int_equal(fi_read(EP(fix, 0), here, BIG, NULL, addr, 0, KEY, &contexts[0]), 0);
    expect_access(&fix, &contexts[0], FI_READ);
    assert_true(pattern_is(here, BIG, 5));
    pattern_fill(here, BIG, 6);
    assert_int_equal(fi_write(EP(fix, 0), here, BIG, NULL, addr, 0, KEY, &contexts[1]), 0);
    expect_access(&fix, &contexts[1], FI_WRITE);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, addr, 0, KEY, &contexts[2]), 0);
    expect_access(&fix, &contexts[2], FI_WRITE);
    expect_access(&fix, &contexts[2], FI_WRITE);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* it is gone: the next access fails */
    assert_int_equal(fi_write(EP(fix, 0), here, 8, NULL, addr, 0, KEY, &contexts[3]), 0);
    expect_error(&fix, FI_ENOTCONN, FI_WRITE);
    fixture_close(&fix);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process_can_be_accessed), /* forks: before there are threads */
        cmocka_unit_test(every_size_is_written_and_read),
        cmocka_unit_test(pieces_are_gathered_and_scattered),
        cmocka_unit_test(an_injected_write_completes_silently),
        cmocka_unit_test(remote_data_is_told_at_the_target),
        cmocka_unit_test(remote_data_that_nobody_can_read_is_dropped),
        cmocka_unit_test(selective_completion_holds_for_accesses),
        cmocka_unit_test(what_is_not_allowed_is_an_error),
        cmocka_unit_test(a_region_is_known_to_all_endpoints),
        cmocka_unit_test(every_mode_names_memory_its_way),
        cmocka_unit_test(modes_that_a_client_offers_are_not_asked_for),
        cmocka_unit_test(a_region_does_not_keep_an_endpoint_that_is_closed),
        cmocka_unit_test(a_region_may_be_all_memory),
        cmocka_unit_test(a_region_may_be_a_vector_of_one),
        cmocka_unit_test(an_endpoint_without_the_capability_gets_no_access),
        cmocka_unit_test(accesses_are_performed_in_order),
        cmocka_unit_test(both_sides_can_count),
        cmocka_unit_test(a_region_that_closes_performs_what_has_arrived),
        cmocka_unit_test(an_endpoint_that_closes_performs_what_has_arrived),
        cmocka_unit_test(threads_may_share_an_endpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
