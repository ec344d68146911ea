/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile_checks.c - sends messages to the endpoint itself, and compares the profile, `mbx
 * queues` and the calls for events with the messages sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "../../src/provider/old_names.h"
#include "../../src/provider/profile_names.h"
#include "profile_checks.h"

#define COUNT       5
#define DATA_OF     77
#define UNTOUCHED   0xa5
#define LONG_ENOUGH 100000

static const size_t sizes[COUNT] = {0, 3, 900, 20, LONG_ENOUGH};
static char bytes[LONG_ENOUGH], recv_buf[LONG_ENOUGH];

int profile_open(struct fid_ep *ep, struct fid_profile **profile)
{
    void *ops;
    int err = fi_open_ops(&ep->fid, PROV_PROFILE_OPS, 0, &ops, NULL);

    *profile = err == 0 ? container_of(ops, struct fid_profile, ops) : NULL;
    return err;
}

static uint64_t number(struct fid_profile *profile, uint32_t id)
{
    uint64_t value = UINT64_MAX;
    size_t size = sizeof value;

    assert_int_equal(profile->ops->read_var(profile, id, &value, &size), sizeof value);
    assert_int_equal(size, sizeof value);
    return value;
}

/* Reads the entries, at most COUNT; returns their number. */
static size_t queue(struct fid_profile *profile, struct prov_profile_entry *entries)
{
    size_t size = COUNT * sizeof *entries;
    ssize_t got = profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_QUEUE, entries, &size);

    assert_true(got >= 0);
    assert_int_equal(got, size);
    assert_int_equal(size % sizeof *entries, 0);
    return size / sizeof *entries;
}

/* Message i: the last one is untagged, the one before it has remote data. */
static void send_one(const struct profiled *p, int i)
{
    static int context;
    ssize_t err;

    do {
        struct fi_cq_tagged_entry done;

        fi_cq_read(p->cq, &done, 1);
        if (i == COUNT - 1)
            err = fi_send(p->ep, bytes, sizes[i], NULL, p->self, &context);
        else if (i == COUNT - 2)
            err = fi_tinjectdata(p->ep, bytes, sizes[i], DATA_OF, p->self, (uint64_t)i);
        else
            err = fi_tinject(p->ep, bytes, sizes[i], p->self, (uint64_t)i);
    } while (err == -FI_EAGAIN);
    assert_int_equal(err, 0);
}

static void check_entry(const struct profiled *p, const struct prov_profile_entry *entry, int i)
{
    const bool is_tagged = i != COUNT - 1, has_data = i == COUNT - 2;

    assert_int_equal(entry->len, sizes[i]);
    assert_int_equal(entry->tag, is_tagged ? i : 0);
    assert_int_equal(entry->data, has_data ? DATA_OF : 0);
    assert_int_equal(entry->flags, FI_RECV | (is_tagged ? FI_TAGGED : FI_MSG) |
                                       (has_data ? FI_REMOTE_CQ_DATA : 0));
    assert_int_equal(entry->src_addr, p->self);
    assert_null(entry->op_context);
    assert_null(entry->buf);
    assert_null(entry->err_data);
    assert_int_equal(entry->err, 0);
    assert_int_equal(entry->olen, 0);
}

/* The messages from first to last are unexpected; `mbx queues` has to agree. */
static void check_queue(const struct profiled *p, struct fid_profile *profile, int first,
                        int last)
{
    struct prov_profile_entry entries[COUNT];
    const size_t count = (size_t)(last - first + 1);

    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), count);
    assert_int_equal(queue(profile, entries), count);
    for (int i = first; i <= last; i++)
        check_entry(p, &entries[i - first], i);
}

static uint64_t number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

static void check_queues_tool(struct fid_profile *profile, const char *mbx)
{
    static char text[1 << 20];
    struct prov_profile_entry entries[COUNT];
    size_t count = queue(profile, entries), seen = 0;
    char command[4096], who[64];
    char *at, *end;
    FILE *pipe;

    if (mbx == NULL)
        return;
    snprintf(command, sizeof command, "'%s' queues --json --job %ld", mbx, (long)getpid());
    pipe = popen(command, "r");
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    snprintf(who, sizeof who, "\"pid\":%ld,", (long)getpid());
    at = strstr(text, who);
    if (at == NULL)
        fail_msg("mbx queues does not show this process: %s", text);
    end = strstr(at + 1, "\"pid\":");
    if (end != NULL)
        *end = '\0';
    while ((at = strstr(at, "{\"kind\":\"unexpected\"")) != NULL) {
        uint64_t tag = number_behind(at, "\"tag\":");
        bool is_found = false;

        for (size_t i = 0; i < count; i++)
            is_found |=
                entries[i].tag == (tag & INT64_MAX) &&
                entries[i].len == number_behind(at, "\"size\":") &&
                (entries[i].flags & FI_TAGGED ? 1 : 2) == number_behind(at, "\"context\":");
        assert_true(is_found);
        seen++;
        at++;
    }
    assert_int_equal(seen, count);
}

static void check_lists(struct fid_profile *profile)
{
    struct fi_profile_desc list[16];
    size_t count = 0;

    assert_int_equal(profile->ops->query_vars(profile, NULL, &count), 0);
    assert_int_equal(count, 4);
    assert_int_equal(profile->ops->query_vars(profile, list, NULL), -FI_EINVAL);
    count = 1;
    memset(&list[1], UNTOUCHED, sizeof list[1]);
    assert_int_equal(profile->ops->query_vars(profile, list, &count), 1);
    assert_int_equal(count, 4);
    assert_int_equal(((unsigned char *)&list[1])[0], UNTOUCHED);
    count = count_of(list);
    assert_int_equal(profile->ops->query_vars(profile, list, &count), 4);
    for (size_t i = 0; i < 4; i++) {
        const bool is_queue = list[i].id == PROV_VAR_UNEXPECTED_QUEUE;

        assert_non_null(list[i].name);
        assert_non_null(list[i].desc);
        assert_int_equal(list[i].datatype_sel, is_queue ? fi_defined_type : fi_primitive_type);
        assert_int_equal(list[i].size,
                         is_queue ? sizeof(struct prov_profile_entry) : sizeof(uint64_t));
        if (is_queue)
            assert_int_equal(list[i].datatype.defined, PROV_CQ_ERR_ENTRY);
        else
            assert_int_equal(list[i].datatype.primitive, FI_UINT64);
    }
    count = count_of(list);
    assert_int_equal(profile->ops->query_events(profile, list, &count), PROV_PROFILE_EVENTS);
    for (uint32_t i = 0; i < PROV_PROFILE_EVENTS; i++)
        assert_int_equal(list[i].id, i);
}

/* The arguments of the callbacks. */
static struct {
    const struct profiled *p;
    int came[2 * COUNT], took[2 * COUNT], came_count, took_count;
    uint64_t waiting; /* by these */
} told;

static int index_of(const struct prov_profile_entry *entry)
{
    return entry->flags & FI_TAGGED ? (int)entry->tag : COUNT - 1;
}

/* Reads within the callback agree with its arguments. */
static int hear(struct fid_profile *profile, struct fi_profile_desc *event, void *param,
                size_t size, void *context)
{
    struct prov_profile_entry entries[COUNT], *entry = param;
    int i = index_of(entry), waits = 0;
    size_t count;

    assert_ptr_equal(context, &told);
    assert_int_equal(size, sizeof *entry);
    check_entry(told.p, entry, i);
    if (event->id == PROV_EVENT_UNEXPECTED_CAME) {
        told.came[told.came_count++] = i;
        told.waiting++;
    } else {
        assert_int_equal(event->id, PROV_EVENT_UNEXPECTED_TAKEN);
        told.took[told.took_count++] = i;
        told.waiting--;
    }
    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), told.waiting);
    count = queue(profile, entries);
    assert_int_equal(count, told.waiting);
    for (size_t e = 0; e < count; e++)
        waits += index_of(&entries[e]) == i;
    assert_int_equal(waits, event->id == PROV_EVENT_UNEXPECTED_CAME);
    /* everything else is refused there */
    assert_int_equal(profile->ops->reg_callback(profile, event->id, hear, NULL), -FI_EBUSY);
    assert_int_equal(fi_close(&profile->fid), -FI_EBUSY);
    return 0;
}

static void progress_until(const struct profiled *p, const int *counter, int wanted)
{
    while (*counter < wanted) {
        struct fi_cq_tagged_entry done;
        ssize_t n = fi_cq_read(p->cq, &done, 1);

        assert_true(n == 1 || n == -FI_EAGAIN);
    }
    assert_int_equal(*counter, wanted);
}

/* Waits until so many messages are unexpected. */
static void arrive(const struct profiled *p, struct fid_profile *profile, uint64_t wanted)
{
    while (number(profile, PROV_VAR_UNEXPECTED_COUNT) < wanted) {
        struct fi_cq_tagged_entry done;

        fi_cq_read(p->cq, &done, 1);
    }
}

/* Receives message i with a receive that is posted after it has arrived. */
static void receive(const struct profiled *p, int i)
{
    struct fi_cq_tagged_entry done = {0};
    int context;

    if (i == COUNT - 1)
        assert_int_equal(
            fi_recv(p->ep, recv_buf, sizeof recv_buf, NULL, FI_ADDR_UNSPEC, &context), 0);
    else
        assert_int_equal(fi_trecv(p->ep, recv_buf, sizeof recv_buf, NULL, FI_ADDR_UNSPEC,
                                  (uint64_t)i, 0, &context),
                         0);
    while (done.op_context != &context)
        assert_true(fi_cq_read(p->cq, &done, 1) != -FI_EAVAIL);
    assert_int_equal(done.len, sizes[i]);
}

static void claim(const struct profiled *p, int i)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = (uint64_t)i};
    struct fi_context context[2];
    struct fi_cq_tagged_entry done = {0};

    msg.context = context;
    do
        assert_int_equal(fi_trecvmsg(p->ep, &msg, FI_PEEK | FI_CLAIM), 0);
    while (fi_cq_read(p->cq, &done, 1) != 1);
    assert_ptr_equal(done.op_context, context);
    assert_int_equal(fi_trecvmsg(p->ep, &msg, FI_CLAIM | FI_DISCARD), 0);
    while (fi_cq_read(p->cq, &done, 1) != 1)
        continue;
}

static void check_events(const struct profiled *p)
{
    struct fid_profile *profile, *second;

    memset(&told, 0, sizeof told);
    told.p = p;
    assert_int_equal(profile_open(p->ep, &profile), 0);
    assert_int_equal(profile_open(p->ep, &second), 0); /* reports nothing */
    assert_int_equal(profile->ops->reg_callback(profile, PROV_PROFILE_EVENTS, hear, &told),
                     -FI_EINVAL);
    for (uint32_t id = 0; id < PROV_PROFILE_EVENTS; id++)
        assert_int_equal(profile->ops->reg_callback(profile, id, hear, &told), 0);
    for (int i = 0; i < COUNT; i++) {
        send_one(p, i);
        progress_until(p, &told.came_count, i + 1);
        assert_int_equal(told.came[i], i);
    }
    assert_int_equal(told.took_count, 0);
    receive(p, 2);
    receive(p, 0);
    receive(p, COUNT - 1);
    claim(p, 1);
    assert_int_equal(told.took_count, 4);
    assert_int_equal(told.took[0], 2);
    assert_int_equal(told.took[1], 0);
    assert_int_equal(told.took[2], COUNT - 1);
    assert_int_equal(told.took[3], 1);
    assert_int_equal(
        profile->ops->reg_callback(profile, PROV_EVENT_UNEXPECTED_TAKEN, NULL, NULL), 0);
    receive(p, 3); /* no callback runs */
    assert_int_equal(told.took_count, 4);
    assert_int_equal(fi_close(&profile->fid), 0);
    send_one(p, 0);
    arrive(p, second, 1);
    assert_int_equal(told.came_count, COUNT);
    receive(p, 0);
    assert_int_equal(fi_close(&second->fid), 0);
}

/* Between start and end the values remain as they were at the start. */
static void check_reads(const struct profiled *p, struct fid_profile *profile)
{
    struct prov_profile_entry entries[COUNT];
    uint64_t memory;

    profile->ops->start_reads(profile, 0);
    memory = number(profile, PROV_VAR_MEMORY);
    for (int i = 0; i < COUNT; i++)
        receive(p, i);
    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), COUNT);
    assert_int_equal(queue(profile, entries), COUNT);
    assert_int_equal(number(profile, PROV_VAR_MEMORY), memory);
    profile->ops->end_reads(profile, 0);
    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), 0);
    assert_int_equal(queue(profile, entries), 0);
    profile->ops->start_reads(profile, 0);
    send_one(p, 0);
    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), 0);
    profile->ops->reset(profile, 0);
    arrive(p, profile, 1);
    receive(p, 0);
}

static void check_refusals(const struct profiled *p, struct fid_profile *profile)
{
    struct prov_profile_entry entries[COUNT];
    uint64_t value;
    size_t size = sizeof value;
    void *ops;

    assert_int_equal(profile->ops->read_var(profile, 99, &value, &size), -FI_EINVAL);
    assert_int_equal(profile->ops->read_var(profile, 2, &value, &size), -FI_EINVAL);
    assert_int_equal(profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_COUNT, &value, NULL),
                     -FI_EINVAL);
    size = 7;
    assert_int_equal(profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_COUNT, &value, &size),
                     -FI_ETOOSMALL);
    assert_int_equal(size, 8);
    size = COUNT * sizeof *entries - 1;
    memset(entries, UNTOUCHED, sizeof entries);
    assert_int_equal(profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_QUEUE, entries, &size),
                     -FI_ETOOSMALL);
    assert_int_equal(size, COUNT * sizeof *entries);
    assert_int_equal(((unsigned char *)entries)[0], UNTOUCHED);
    size = 0;
    assert_int_equal(profile->ops->read_var(profile, PROV_VAR_UNEXPECTED_QUEUE, NULL, &size),
                     -FI_ETOOSMALL); /* how a client learns the size to provide */
    assert_int_equal(size, COUNT * sizeof *entries);
    assert_int_equal(fi_open_ops(&p->ep->fid, "something", 0, &ops, NULL), -FI_ENOSYS);
    assert_int_equal(fi_open_ops(&p->ep->fid, PROV_PROFILE_OPS, 1, &ops, NULL), -FI_EBADFLAGS);
    assert_int_equal(fi_open_ops(&p->ep->fid, PROV_PROFILE_OPS, 0, NULL, NULL), -FI_EINVAL);
    assert_int_equal(fi_open_ops(&p->cq->fid, PROV_PROFILE_OPS, 0, &ops, NULL), -FI_ENOSYS);
}

void check_profile(const struct profiled *p, const char *mbx)
{
    struct fid_profile *profile;
    uint64_t memory;

    assert_int_equal(profile_open(p->ep, &profile), 0);
    assert_int_equal(profile->fid.fclass, PROV_CLASS_PROFILE);
    assert_int_equal(profile->ops->size, sizeof *profile->ops);
    check_lists(profile);
    assert_int_equal(number(profile, PROV_VAR_UNEXPECTED_COUNT), 0);
    memory = number(profile, PROV_VAR_MEMORY);
    for (int i = 0; i < COUNT; i++)
        send_one(p, i);
    arrive(p, profile, COUNT);
    check_queue(p, profile, 0, COUNT - 1);
    assert_true(number(profile, PROV_VAR_CONNECTIONS) >= 1);
    assert_true(number(profile, PROV_VAR_MEMORY) > memory);
    check_queues_tool(profile, mbx);
    check_refusals(p, profile);
    check_reads(p, profile);
    assert_int_equal(fi_close(&profile->fid), 0);
    check_events(p);
}
