/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_info_test.c - the results of fi_getinfo(), and objects that carry no messages:
 * address vector, event queue, references, unsupported operations.
 */
#include "provider_fixture.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <stdlib.h>
#include <string.h>

static const struct setup plain;

static int ask(struct fi_info *hints, struct fi_info **info)
{
    int err = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);

    fi_freeinfo(hints);
    return err;
}

/* ---- negotiation ---------------------------------------------------------------- */

static void offers_what_clients_need(void **state)
{
    struct fi_info *hints = fixture_hints(&plain), *info;

    (void)state;
    hints->caps = 0;
    assert_int_equal(ask(hints, &info), 0);
    assert_string_equal(info->fabric_attr->prov_name, "matchbox");
    assert_null(info->next);
    assert_int_equal(info->ep_attr->type, FI_EP_RDM);
    assert_int_equal(info->mode, 0);
    assert_int_equal(info->domain_attr->mr_mode, 0);
    assert_true(info->caps & FI_LOCAL_COMM && info->caps & FI_REMOTE_COMM);
    assert_true(info->caps & FI_TAGGED && info->caps & FI_DIRECTED_RECV);
    assert_int_equal(info->domain_attr->cq_data_size, 8);
    assert_true(info->tx_attr->inject_size >= 4096);
    assert_int_equal(info->tx_attr->iov_limit, 8);
    assert_true(info->tx_attr->msg_order & FI_ORDER_SAS);
    assert_non_null(info->src_addr);
    assert_int_equal(info->src_addrlen, FIXTURE_ADDRESS);
    fi_freeinfo(info);
}

static void returns_no_capability_that_changes_meaning_unasked(void **state)
{
    struct fi_info *hints = fixture_hints(&plain), *info;

    (void)state;
    hints->caps = FI_TAGGED;
    assert_int_equal(ask(hints, &info), 0);
    assert_true(info->caps & FI_SEND && info->caps & FI_RECV);
    assert_false(info->caps & FI_DIRECTED_RECV);
    assert_false(info->caps & FI_MSG);
    fi_freeinfo(info);
}

static void echoes_models(void **state)
{
    static const enum fi_threading threadings[] = {FI_THREAD_SAFE, FI_THREAD_FID,
                                                   FI_THREAD_DOMAIN, FI_THREAD_COMPLETION,
                                                   FI_THREAD_ENDPOINT};

    (void)state;
    for (size_t i = 0; i < sizeof threadings / sizeof threadings[0]; i++) {
        struct setup setup = {.threading = threadings[i],
                              .av_type = i % 2 == 0 ? FI_AV_MAP : FI_AV_TABLE};
        struct fi_info *hints = fixture_hints(&setup), *info;

        hints->domain_attr->data_progress = i < 3 ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;
        hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
        assert_int_equal(ask(hints, &info), 0);
        assert_int_equal(info->domain_attr->threading, threadings[i]);
        assert_int_equal(info->domain_attr->av_type, setup.av_type);
        assert_int_equal(info->domain_attr->data_progress,
                         i < 3 ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO);
        assert_int_equal(info->domain_attr->control_progress, FI_PROGRESS_AUTO);
        fi_freeinfo(info);
    }
}

/* libfabric, which lists the names (fi_info -e), adds its prefix to them. */
static void parameters_are_listed(void **state)
{
    struct fi_param *params;
    bool found = false;
    int count;

    (void)state;
    assert_int_equal(fi_getparams(&params, &count), 0);
    for (int i = 0; i < count; i++)
        found |= strcmp(params[i].name, "FI_MATCHBOX_EAGER_LIMIT") == 0;
    fi_freeparams(params);
    assert_true(found);
}

static void a_parameter_of_libfabric_is_heeded(void **state)
{
    struct fixture fix;
    struct fid_ep *ep;

    (void)state;
    fixture_open(&fix, &plain);
    setenv("FI_MATCHBOX_REQUESTS", "no number", 1);
    assert_int_equal(fi_endpoint(fix.domain, fix.info, &ep, NULL), -FI_EINVAL);
    setenv("FI_MATCHBOX_REQUESTS", "1000", 1);
    assert_int_equal(fi_endpoint(fix.domain, fix.info, &ep, NULL), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    unsetenv("FI_MATCHBOX_REQUESTS");
    fixture_close(&fix);
}

/* ---- hints of programs that use libfabric (docs/libfabric.md) ----------------------------------- */

static void hint_openshmem(struct fi_info *h)
{
    h->caps = FI_RMA | FI_WRITE | FI_READ | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_ATOMIC |
              FI_RMA_EVENT | FI_RECV;
    h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    h->domain_attr->data_progress = FI_PROGRESS_AUTO;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->domain_attr->threading = FI_THREAD_SAFE;
    h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    h->domain_attr->av_type = FI_AV_TABLE;
}

static void hint_gasnet(struct fi_info *h)
{
    h->caps = FI_RMA | FI_MSG | FI_MULTI_RECV;
    h->mode = FI_CONTEXT;
    h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    h->domain_attr->threading = FI_THREAD_SAFE;
    h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->domain_attr->av_type = FI_AV_TABLE;
    h->domain_attr->mr_mode =
        FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
}

static void hint_charm(struct fi_info *h)
{
    h->caps = FI_TAGGED | FI_RMA | FI_REMOTE_READ;
    h->mode = FI_CONTEXT;
    h->domain_attr->mode = UINT64_MAX;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->domain_attr->threading = FI_THREAD_UNSPEC;
}

/* The fields of the result that these clients read are as the clients need them. */
static void known_clients_get_what_they_ask_for(void **state)
{
    static const struct {
        void (*hint)(struct fi_info *);
        uint32_t version;
        int mr_mode;
    } clients[] = {
        {hint_openshmem, FI_VERSION(1, 11), 0},
        {hint_gasnet, FI_VERSION(1, 5), 0},
        {hint_charm, FI_VERSION(1, 0), FI_MR_SCALABLE}, /* it ends unless one mode has a name */
    };

    (void)state;
    for (size_t i = 0; i < count_of(clients); i++) {
        struct fi_info *hints = fixture_hints(&plain), *info;

        clients[i].hint(hints);
        assert_int_equal(fi_getinfo(clients[i].version, NULL, NULL, 0, hints, &info), 0);
        assert_int_equal(info->domain_attr->mr_mode, clients[i].mr_mode);
        assert_int_equal(info->caps & hints->caps, hints->caps);
        assert_int_equal(info->mode, 0);
        assert_int_equal(info->domain_attr->max_ep_stx_ctx, 0);
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
}

typedef void spoil_fn(struct fi_info *hints);

static void want_msg_endpoint(struct fi_info *h)
{
    h->ep_attr->type = FI_EP_MSG;
}

static void want_datagrams(struct fi_info *h)
{
    h->ep_attr->type = FI_EP_DGRAM;
}

static void want_multicast(struct fi_info *h)
{
    h->caps |= FI_MULTICAST;
}

static void want_sockaddr(struct fi_info *h)
{
    h->addr_format = FI_SOCKADDR_IN;
}

static void want_other_domain(struct fi_info *h)
{
    h->domain_attr->name = strdup("eth0");
}

static void want_long_inject(struct fi_info *h)
{
    h->tx_attr->inject_size = 1 << 20;
}

static void want_many_pieces(struct fi_info *h)
{
    h->rx_attr->iov_limit = 9;
}

static void want_strict_order(struct fi_info *h)
{
    h->tx_attr->comp_order = FI_ORDER_STRICT;
}

static void want_all_tag_bits(struct fi_info *h)
{
    h->ep_attr->mem_tag_format = UINT64_MAX;
}

static void want_two_contexts(struct fi_info *h)
{
    h->ep_attr->tx_ctx_cnt = 2;
}

static void want_shared_context(struct fi_info *h)
{
    h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
}

static void want_long_data(struct fi_info *h)
{
    h->domain_attr->cq_data_size = 9;
}

static void want_odd_flags(struct fi_info *h)
{
    h->tx_attr->op_flags = FI_COMMIT_COMPLETE;
}

static void refuses_what_it_does_not_do(void **state)
{
    static spoil_fn *const spoil[] = {
        want_msg_endpoint, want_datagrams,    want_multicast,      want_sockaddr,
        want_other_domain, want_long_inject,  want_many_pieces,    want_strict_order,
        want_all_tag_bits, want_two_contexts, want_shared_context, want_long_data,
        want_odd_flags,
    };

    (void)state;
    for (size_t i = 0; i < sizeof spoil / sizeof spoil[0]; i++) {
        struct fi_info *hints = fixture_hints(&plain), *info = NULL;

        spoil[i](hints);
        if (ask(hints, &info) != -FI_ENODATA)
            fail_msg("case %zu was accepted", i);
    }
}

static uint64_t tag_format_for(uint64_t hint)
{
    struct fi_info *hints = fixture_hints(&plain), *info;
    uint64_t format;

    hints->ep_attr->mem_tag_format = hint;
    assert_int_equal(ask(hints, &info), 0);
    format = info->ep_attr->mem_tag_format;
    fi_freeinfo(info);
    return format;
}

/* An adapter compares 47 bits of a tag; a client that needs more has to say which. */
static void as_many_tag_bits_are_offered_as_an_adapter_compares(void **state)
{
    const uint64_t wide = 0x007000007fffffff;

    (void)state;
    assert_int_equal(tag_format_for(0) >> 62, 1);
    assert_int_equal(tag_format_for(wide) >> 62, 1);
    setenv("MBX_DEVICE", "Verbs", 1);
    assert_int_equal(tag_format_for(0) >> 46, 1);
    assert_int_equal(tag_format_for(0x7fffffffffff) >> 46, 1);
    assert_int_equal(tag_format_for(wide), wide);
    unsetenv("MBX_DEVICE");
    setenv("FI_MATCHBOX_DEVICE", "verbs", 1);
    assert_int_equal(tag_format_for(0) >> 46, 1);
    unsetenv("FI_MATCHBOX_DEVICE");
}

static void nobody_is_layered_on_top(void **state)
{
    struct fi_info *info, *i;
    int ours = 0;

    (void)state;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info), 0);
    for (i = info; i != NULL; i = i->next) {
        if (strstr(i->fabric_attr->prov_name, "matchbox") == NULL)
            continue;
        assert_string_equal(i->fabric_attr->prov_name, "matchbox");
        ours++;
    }
    assert_int_equal(ours, 1);
    fi_freeinfo(info);
}

static void takes_node_and_service(void **state)
{
    struct fi_info *hints = fixture_hints(&plain), *info;

    (void)state;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), "localhost", "7471", 0, hints, &info), 0);
    assert_non_null(info->src_addr);
    assert_non_null(info->dest_addr);
    assert_int_equal(info->dest_addrlen, FIXTURE_ADDRESS);
    fi_freeinfo(info);
    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, "7471", FI_SOURCE, hints, &info), 0);
    assert_null(info->dest_addr);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void old_clients_get_old_registration_modes(void **state)
{
    struct fi_info *hints = fixture_hints(&plain), *info;

    (void)state;
    hints->domain_attr->mr_mode = FI_MR_BASIC;
    assert_int_equal(fi_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, hints, &info), 0);
    assert_int_equal(info->domain_attr->mr_mode, FI_MR_BASIC);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* ---- objects ----------------------------------------------------------------------- */

static void objects_in_use_refuse_to_close(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_close(&fix.fabric->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&fix.domain->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&fix.node[0].av->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&fix.node[0].cq->fid), -FI_EBUSY);
    fixture_close(&fix);
}

static void an_endpoint_needs_its_bindings(void **state)
{
    struct fi_av_attr attr = {0};
    struct fi_cq_attr cq_attr = {0};
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_endpoint(fix.domain, fix.info, &ep, NULL), 0);
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), 0);
    assert_int_equal(fi_cq_open(fix.domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_enable(ep), -FI_ENOAV);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_enable(ep), -FI_ENOCQ);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_enable(ep), -FI_ENOCQ);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    fixture_close(&fix);
}

static void unsupported_calls_say_so(void **state)
{
    struct fid_ep *sep;
    struct fixture fix;
    uint64_t word = 0;
    size_t len = sizeof word;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_scalable_ep(fix.domain, fix.info, &sep, NULL), -FI_ENOSYS);
    assert_int_equal(fi_read(fix.node[0].ep, &word, 8, NULL, 0, 0, 0, NULL), -FI_ENOSYS);
    assert_int_equal(
        fi_atomic(fix.node[0].ep, &word, 1, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL),
        -FI_ENOSYS);
    assert_int_equal(fi_getopt(&fix.node[0].ep->fid, FI_OPT_ENDPOINT, 99, &word, &len),
                     -FI_ENOPROTOOPT);
    fixture_close(&fix);
}

static void a_name_needs_space(void **state)
{
    struct fixture fix;
    char name[FIXTURE_ADDRESS];
    size_t len = 8;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_getname(&fix.node[0].ep->fid, name, &len), -FI_ETOOSMALL);
    assert_int_equal(len, FIXTURE_ADDRESS);
    fixture_close(&fix);
}

static void addresses_are_kept_and_found(void **state)
{
    struct fi_av_attr attr = {.type = FI_AV_MAP};
    char many[100][FIXTURE_ADDRESS], back[FIXTURE_ADDRESS], text[256];
    fi_addr_t addr[100], twice;
    size_t len = sizeof back, text_len = sizeof text;
    struct fid_av *av;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), 0);
    for (size_t i = 0; i < 100; i++)
        pattern_fill(many[i], FIXTURE_ADDRESS, (unsigned)i);
    assert_int_equal(fi_av_insert(av, many, 100, addr, 0, NULL), 100);
    assert_int_equal(fi_av_insert(av, many[5], 1, &twice, 0, NULL), 1);
    assert_true(twice != addr[5]);
    for (size_t i = 0; i < 100; i++) {
        len = sizeof back;
        assert_int_equal(fi_av_lookup(av, addr[i], back, &len), 0);
        assert_memory_equal(back, many[i], FIXTURE_ADDRESS);
    }
    assert_non_null(fi_av_straddr(av, many[0], text, &text_len));
    assert_true(strlen(text) > 2 * FIXTURE_ADDRESS && text_len == strlen(text) + 1);
    assert_int_equal(fi_av_remove(av, addr, 100, 0), 0);
    assert_int_equal(fi_av_lookup(av, addr[7], back, &len), -FI_EINVAL);
    assert_int_equal(fi_av_remove(av, addr, 1, 0), -FI_EINVAL);
    assert_int_equal(fi_av_lookup(av, twice, back, &len), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    fixture_close(&fix);
}

static void a_shared_vector_is_refused(void **state)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .name = "everybody"};
    struct fid_av *av;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_av_open(fix.domain, &attr, &av, NULL), -FI_ENOSYS);
    fixture_close(&fix);
}

static void events_come_out_as_written(void **state)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_UNSPEC};
    struct fi_eq_entry in = {.data = 7}, out = {0};
    struct fid_eq *eq;
    struct fixture fix;
    uint32_t event = 0;

    (void)state;
    fixture_open(&fix, &plain);
    assert_int_equal(fi_eq_open(fix.fabric, &attr, &eq, NULL), 0);
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof out, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_sread(eq, &event, &out, sizeof out, 5, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &in, sizeof in, 0), sizeof in);
    assert_int_equal(fi_eq_read(eq, &event, &out, 1, 0), -FI_ETOOSMALL);
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof out, FI_PEEK), sizeof out);
    assert_int_equal(fi_eq_sread(eq, &event, &out, sizeof out, -1, 0), sizeof out);
    assert_int_equal(event, FI_NOTIFY);
    assert_int_equal(out.data, 7);
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof out, 0), -FI_EAGAIN);
    assert_int_equal(fi_close(&eq->fid), 0);
    fixture_close(&fix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_what_clients_need),
        cmocka_unit_test(returns_no_capability_that_changes_meaning_unasked),
        cmocka_unit_test(echoes_models),
        cmocka_unit_test(known_clients_get_what_they_ask_for),
        cmocka_unit_test(parameters_are_listed),
        cmocka_unit_test(a_parameter_of_libfabric_is_heeded),
        cmocka_unit_test(refuses_what_it_does_not_do),
        cmocka_unit_test(as_many_tag_bits_are_offered_as_an_adapter_compares),
        cmocka_unit_test(nobody_is_layered_on_top),
        cmocka_unit_test(takes_node_and_service),
        cmocka_unit_test(old_clients_get_old_registration_modes),
        cmocka_unit_test(objects_in_use_refuse_to_close),
        cmocka_unit_test(an_endpoint_needs_its_bindings),
        cmocka_unit_test(unsupported_calls_say_so),
        cmocka_unit_test(a_name_needs_space),
        cmocka_unit_test(addresses_are_kept_and_found),
        cmocka_unit_test(a_shared_vector_is_refused),
        cmocka_unit_test(events_come_out_as_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
