/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_multi_test.c - buffers that take many messages (FI_MULTI_RECV): where each message
 * goes if there are ordinary receives as well; when the buffer is returned; cancel.
 *
 * The last test runs random histories against a one-page model, and prints the seed and the
 * shortest history that still fails.
 */
#include "provider_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY (FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE)
#define LONG (1 << 20)

static const struct setup many = {.caps = MANY};
static char in_buf[4 * LONG], out_buf[LONG];
static int contexts[8]; /* their addresses are the op contexts */

static void set_min(struct fixture *fix, size_t min)
{
    assert_int_equal(
        fi_setopt(&EP(*fix, 1)->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof min),
        0);
}

static void post_many(struct fixture *fix, void *buf, size_t len, fi_addr_t from, void *context)
{
    struct iovec iov = {buf, len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from, .context = context};

    assert_int_equal(fi_recvmsg(EP(*fix, 1), &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
}

static void send_from(struct fixture *fix, int from, size_t size, unsigned seed)
{
    pattern_fill(out_buf, size, seed);
    assert_int_equal(fi_send(EP(*fix, from), out_buf, size, NULL, fix->addr[1], &contexts[7]),
                     0);
}

/* The next completion at node 1 is for a message in a buffer. */
static void expect_part(struct fixture *fix, void *context, const char *at, size_t size,
                        unsigned seed, bool last)
{
    struct fi_cq_tagged_entry e;

    assert_int_equal(fixture_read(fix, 1, &e, NULL), 1);
    assert_ptr_equal(e.op_context, context);
    assert_int_equal(e.flags, FI_RECV | FI_MSG | (last ? FI_MULTI_RECV : 0));
    assert_ptr_equal(e.buf, at);
    assert_int_equal(e.len, size);
    assert_true(pattern_is(at, size, seed));
}

static void expect_cancelled(struct fixture *fix, void *context)
{
    struct fi_cq_err_entry error;

    fixture_read_error(fix, 1, &error);
    assert_ptr_equal(error.op_context, context);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_int_equal(error.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
}

/* ---- one buffer ----------------------------------------------------------------------- */

static void messages_lie_one_after_another(void **state)
{
    static const size_t sizes[] = {8, 0, 100, 3000, 1};
    char *at = in_buf;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    set_min(&fix, 10);
    post_many(&fix, in_buf, 8 + 100 + 3000 + 1 + 9, FI_ADDR_UNSPEC, &contexts[0]);
    for (unsigned i = 0; i < 5; i++) {
        send_from(&fix, 0, sizes[i], i);
        expect_part(&fix, &contexts[0], at, sizes[i], i, i == 4);
        at += sizes[i];
    }
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void what_came_before_the_buffer_is_taken_too(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    for (unsigned i = 0; i < 3; i++)
        send_from(&fix, 0, 50, i);
    fixture_arrived(&fix, 0, 1);
    post_many(&fix, in_buf, 1000, FI_ADDR_UNSPEC, &contexts[0]);
    for (unsigned i = 0; i < 3; i++)
        expect_part(&fix, &contexts[0], in_buf + (size_t)i * 50, 50, i, false);
    fixture_close(&fix);
}

static void the_last_space_is_used_to_the_last_byte(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    set_min(&fix, 0);
    post_many(&fix, in_buf, 100, FI_ADDR_UNSPEC, &contexts[0]);
    for (unsigned i = 0; i < 4; i++) {
        send_from(&fix, 0, 25, i);
        expect_part(&fix, &contexts[0], in_buf + (size_t)i * 25, 25, i, i == 3);
    }
    fixture_close(&fix);
}

static void too_long_a_message_is_cut_and_ends_the_buffer(void **state)
{
    struct fi_cq_err_entry error;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    post_many(&fix, in_buf, 500, FI_ADDR_UNSPEC, &contexts[0]);
    send_from(&fix, 0, 300, 1);
    expect_part(&fix, &contexts[0], in_buf, 300, 1, false);
    send_from(&fix, 0, 300, 2);
    fixture_read_error(&fix, 1, &error);
    assert_ptr_equal(error.op_context, &contexts[0]);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.len, 200);
    assert_int_equal(error.olen, 100);
    assert_ptr_equal(error.buf, in_buf + 300);
    assert_true(error.flags & FI_MULTI_RECV);
    assert_true(pattern_is(in_buf + 300, 200, 2));
    fixture_close(&fix);
}

/* The long message is read in steps; the short one may complete before it. */
static void the_buffer_comes_back_when_all_is_in_it(void **state)
{
    struct fi_cq_tagged_entry e;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    set_min(&fix, 10);
    post_many(&fix, in_buf, LONG + 10, FI_ADDR_UNSPEC, &contexts[0]);
    pattern_fill(out_buf, LONG, 3);
    assert_int_equal(fi_send(EP(fix, 0), out_buf, LONG, NULL, fix.addr[1], NULL), 0);
    assert_int_equal(fi_inject(EP(fix, 0), out_buf, 10, fix.addr[1]), 0);
    assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
    assert_int_equal(e.flags, FI_RECV | FI_MSG);
    assert_int_equal(fixture_read(&fix, 1, &e, NULL), 1);
    assert_int_equal(e.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
    assert_true(pattern_is(in_buf, LONG, 3));
    assert_true(pattern_is(in_buf + LONG, 10, 3));
    fixture_close(&fix);
}

static void the_endpoints_own_flags_count_too(void **state)
{
    struct setup setup = {.caps = MANY, .recv_flags = FI_MULTI_RECV | FI_COMPLETION};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    assert_int_equal(fi_recv(EP(fix, 1), in_buf, 1000, NULL, FI_ADDR_UNSPEC, &contexts[0]), 0);
    for (unsigned i = 0; i < 2; i++) {
        send_from(&fix, 0, 100, i);
        expect_part(&fix, &contexts[0], in_buf + (size_t)i * 100, 100, i, false);
    }
    fixture_close(&fix);
}

/* Without FI_COMPLETION only the end of the buffer is reported. */
static void a_quiet_buffer_tells_its_end(void **state)
{
    struct setup setup = {.caps = MANY, .bind_flags = FI_SELECTIVE_COMPLETION};
    struct iovec iov = {in_buf, 300};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = &contexts[0]};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &setup);
    msg.addr = FI_ADDR_UNSPEC;
    assert_int_equal(fi_recvmsg(EP(fix, 1), &msg, FI_MULTI_RECV), 0);
    for (unsigned i = 0; i < 3; i++)
        send_from(&fix, 0, 100, i);
    expect_part(&fix, &contexts[0], in_buf + 200, 100, 2, true);
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void wrong_arguments_are_refused(void **state)
{
    struct iovec iov[2] = {{in_buf, 10}, {in_buf + 10, 10}};
    struct fi_msg msg = {.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC};
    struct fi_msg_tagged tagged = {.msg_iov = iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    static const struct setup plain;
    size_t value = 77, len = sizeof value;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    assert_int_equal(fi_recvmsg(EP(fix, 1), &msg, FI_MULTI_RECV), -FI_EINVAL);
    msg.iov_count = 0;
    assert_int_equal(fi_recvmsg(EP(fix, 1), &msg, FI_MULTI_RECV), -FI_EINVAL);
    assert_int_equal(fi_trecvmsg(EP(fix, 1), &tagged, FI_MULTI_RECV), -FI_EBADFLAGS);
    set_min(&fix, 4711);
    assert_int_equal(
        fi_getopt(&EP(fix, 1)->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len), 0);
    assert_int_equal(value, 4711);
    len = 4;
    assert_int_equal(
        fi_getopt(&EP(fix, 1)->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len),
        -FI_ETOOSMALL);
    assert_int_equal(len, sizeof value);
    assert_int_equal(
        fi_setopt(&EP(fix, 1)->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 4),
        -FI_EINVAL);
    assert_int_equal(
        fi_setopt(&EP(fix, 1)->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, len),
        -FI_ENOPROTOOPT);
    fixture_close(&fix);
    fixture_open(&fix, &plain); /* caps do not include FI_MULTI_RECV */
    msg.iov_count = 1;
    assert_int_equal(fi_recvmsg(EP(fix, 1), &msg, FI_MULTI_RECV), -FI_EBADFLAGS);
    fixture_close(&fix);
}

/* ---- cancel ---------------------------------------------------------------------------- */

static void a_cancelled_buffer_comes_back(void **state)
{
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    post_many(&fix, in_buf, 1000, FI_ADDR_UNSPEC, &contexts[0]);
    post_many(&fix, in_buf + 1000, 1000, FI_ADDR_UNSPEC, &contexts[1]);
    send_from(&fix, 0, 100, 1);
    expect_part(&fix, &contexts[0], in_buf, 100, 1, false);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), 0);
    expect_cancelled(&fix, &contexts[0]);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), -FI_ENOENT);
    send_from(&fix, 0, 100, 2);
    expect_part(&fix, &contexts[1], in_buf + 1000, 100, 2, false);
    fixture_close(&fix);
}

/* Node 1 has matched the long message, and its sender does not know yet. */
static void a_cancel_waits_for_what_is_under_way(void **state)
{
    struct fi_cq_tagged_entry e;
    struct fi_cq_err_entry error;
    struct fixture fix;
    ssize_t n;

    (void)state;
    fixture_open(&fix, &many);
    pattern_fill(out_buf, LONG, 5);
    assert_int_equal(fi_send(EP(fix, 0), out_buf, LONG, NULL, fix.addr[1], &contexts[7]), 0);
    fixture_arrived(&fix, 0, 1);
    post_many(&fix, in_buf, 2 * LONG, FI_ADDR_UNSPEC, &contexts[0]);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[0]), 0);
    n = fixture_read(&fix, 1, &e, NULL);
    assert_int_equal(n, 1); /* first the message, whole */
    assert_int_equal(e.flags, FI_RECV | FI_MSG);
    assert_int_equal(e.len, LONG);
    assert_true(pattern_is(in_buf, LONG, 5));
    fixture_read_error(&fix, 1, &error);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_ptr_equal(error.op_context, &contexts[0]);
    fixture_is_quiet(&fix, 1);
    fixture_close(&fix);
}

static void a_single_receive_after_a_buffer_can_be_cancelled(void **state)
{
    struct fi_cq_err_entry error;
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    post_many(&fix, in_buf, 1000, FI_ADDR_UNSPEC, &contexts[0]);
    assert_int_equal(fi_recv(EP(fix, 1), in_buf + 1000, 8, NULL, FI_ADDR_UNSPEC, &contexts[1]),
                     0);
    assert_int_equal(fi_cancel(&EP(fix, 1)->fid, &contexts[1]), 0);
    fixture_read_error(&fix, 1, &error);
    assert_ptr_equal(error.op_context, &contexts[1]);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_int_equal(error.flags, FI_RECV | FI_MSG);
    fixture_close(&fix);
}

/* Closing an endpoint with buffers, parts and receives in progress leaks nothing. */
static void an_endpoint_closes_with_buffers_in_use(void **state)
{
    struct iovec pieces[2] = {{in_buf, 8}, {in_buf + 8, 8}};
    struct fixture fix;

    (void)state;
    fixture_open(&fix, &many);
    assert_int_equal(fi_send(EP(fix, 0), out_buf, LONG, NULL, fix.addr[1], NULL), 0);
    fixture_arrived(&fix, 0, 1);
    post_many(&fix, in_buf, 2 * LONG, FI_ADDR_UNSPEC, &contexts[0]);
    post_many(&fix, in_buf + 2 * LONG, 1000, fix.addr[2], &contexts[1]);
    assert_int_equal(fi_recvv(EP(fix, 1), pieces, NULL, 2, FI_ADDR_UNSPEC, &contexts[2]), 0);
    fixture_close(&fix);
}

/* ---- against a model --------------------------------------------------------------------- */

/*
 * A history is a list of steps.  The model keeps receives in the order of posting and messages
 * in the order of arrival; each new one is matched with the first of the other kind that
 * accepts it.  Each message carries its number; after each step all messages sent have arrived,
 * because a tagged message sent after them has.
 */
enum kind { SEND, POST_MANY, POST_ONE, CANCEL, KINDS };

struct step {
    enum kind kind;
    int who;     /* SEND: from 0 or 2.  Posts: 0, 2, or -1 any.  CANCEL: which step */
    size_t size; /* bytes */
};

#define STEPS 40
#define SLOT  512

struct model_recv {
    bool is_there, many;
    int who;
    size_t used, size;
};

struct model {
    struct model_recv recv[STEPS];
    bool waits[STEPS];                      /* the message of this step has no receive yet */
    int recv_of[STEPS];                     /* matched by the message of this step */
    size_t at[STEPS];                       /* and where it lies there */
    bool cancelled[STEPS], released[STEPS]; /* receives */
    bool last[STEPS];                       /* messages that end a buffer */
};

static const size_t min_capacity = 64;

static bool model_meets(const struct model *m, const struct step *steps, int recv, int message)
{
    const struct model_recv *r = &m->recv[recv];

    return r->is_there && (r->who < 0 || r->who == steps[message].who);
}

static void model_join(struct model *m, const struct step *steps, int recv, int message)
{
    struct model_recv *r = &m->recv[recv];
    size_t capacity = r->size - r->used, size = steps[message].size;

    m->waits[message] = false;
    m->recv_of[message] = recv;
    m->at[message] = r->used;
    r->used += size < capacity ? size : capacity;
    if (!r->many || r->size - r->used < min_capacity || r->size == r->used) {
        r->is_there = false;
        m->last[message] = r->many;
    }
}

static void model_step(struct model *m, const struct step *steps, int now)
{
    const struct step *s = &steps[now];

    m->recv_of[now] = -1;
    if (s->kind == SEND) {
        m->waits[now] = true;
        for (int r = 0; r < now && m->waits[now]; r++)
            if (model_meets(m, steps, r, now))
                model_join(m, steps, r, now);
    } else if (s->kind == CANCEL) {
        m->cancelled[s->who] = m->recv[s->who].is_there;
        m->recv[s->who].is_there = false;
    } else {
        m->recv[now] = (struct model_recv){true, s->kind == POST_MANY, s->who, 0, s->size};
        for (int i = 0; i < now; i++)
            if (m->waits[i] && model_meets(m, steps, now, i))
                model_join(m, steps, now, i);
    }
}

struct played {
    char buf[STEPS][SLOT];
    int recv_of[STEPS];
    size_t at[STEPS];
    bool last[STEPS], cancelled[STEPS];
    bool wrong;
};

static struct fixture fixture;
static struct played played;

static int message_of(const char *at)
{
    int number;

    memcpy(&number, at, sizeof number);
    return number;
}

static void played_error(struct played *p)
{
    struct fi_cq_err_entry e = {0};

    if (fi_cq_readerr(fixture.node[1].cq, &e, 0) != 1) {
        p->wrong = true;
        return;
    }
    int recv = (int)((char(*)[SLOT])e.op_context - p->buf);

    if (e.err == FI_ECANCELED) {
        p->cancelled[recv] = true;
    } else if (e.err == FI_ETRUNC && e.len >= sizeof(int)) {
        const char *at = e.buf != NULL ? e.buf : e.op_context;
        int message = message_of(at);

        p->recv_of[message] = recv;
        p->at[message] = (size_t)(at - p->buf[recv]);
        p->last[message] = e.flags & FI_MULTI_RECV;
    } else if (e.err != FI_ETRUNC) {
        p->wrong = true;
    }
}

static void played_message(struct played *p, const struct fi_cq_tagged_entry *e)
{
    const char *at = e->buf != NULL ? e->buf : e->op_context;
    int recv = (int)((char(*)[SLOT])e->op_context - p->buf);
    int message = message_of(at);

    p->recv_of[message] = recv;
    p->at[message] = (size_t)(at - p->buf[recv]);
    p->last[message] = e->flags & FI_MULTI_RECV;
}

static void played_drain(struct played *p)
{
    struct fi_cq_tagged_entry e;
    ssize_t n;

    while ((n = fi_cq_read(fixture.node[1].cq, &e, 1)) == 1 || n == -FI_EAVAIL) {
        if (n == -FI_EAVAIL)
            played_error(p);
        else
            played_message(p, &e);
    }
}

/* Everything sent so far has arrived. */
static void played_settle(struct played *p, int from)
{
    uint64_t word = 0;
    struct fi_cq_tagged_entry e;
    bool marked = false;

    assert_int_equal(fi_trecv(EP(fixture, 1), &word, 8, NULL, fixture.addr[from], 1, 0, &word),
                     0);
    inject_word(&fixture, from, 1, 1, 1);
    for (int i = 0; i < 1000000 && !marked; i++) {
        ssize_t n;

        fixture_progress(&fixture);
        n = fi_cq_read(fixture.node[1].cq, &e, 1);
        if (n == -FI_EAVAIL)
            played_error(p);
        else if (n == 1 && e.op_context == &word)
            marked = true;
        else if (n == 1)
            played_message(p, &e);
    }
    assert_true(marked);
    for (int i = 0; i < 4; i++) {
        fixture_progress(&fixture);
        played_drain(p);
    }
}

static void played_step(struct played *p, const struct step *steps, int now)
{
    const struct step *s = &steps[now];
    char message[SLOT];
    struct iovec iov = {p->buf[now], s->size};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = p->buf[now]};

    p->recv_of[now] = -1;
    if (s->kind == POST_MANY || s->kind == POST_ONE)
        msg.addr = s->who < 0 ? FI_ADDR_UNSPEC : fixture.addr[s->who];
    switch (s->kind) {
    case SEND:
        memset(message, 0x55, sizeof message);
        memcpy(message, &now, sizeof now);
        assert_int_equal(fi_inject(EP(fixture, s->who), message, s->size, fixture.addr[1]), 0);
        played_settle(p, s->who);
        break;
    case POST_MANY:
    case POST_ONE:
        assert_int_equal(fi_recvmsg(EP(fixture, 1), &msg,
                                    FI_COMPLETION | (s->kind == POST_MANY ? FI_MULTI_RECV : 0)),
                         0);
        break;
    case CANCEL:
        fi_cancel(&EP(fixture, 1)->fid, p->buf[s->who]);
        break;
    case KINDS:
        break;
    }
    played_drain(p);
}

/* Does this history fail? */
static bool history_fails(const struct step *steps, int count)
{
    struct model model = {0};
    bool fails = false;

    fixture_open(&fixture, &many);
    memset(&played, 0, sizeof played);
    for (int i = 0; i < count; i++) {
        model_step(&model, steps, i);
        played_step(&played, steps, i);
    }
    for (int i = 0; i < 10; i++) {
        fixture_progress(&fixture);
        played_drain(&played);
    }
    for (int i = 0; i < count && !fails; i++) {
        if (steps[i].kind == SEND)
            fails = played.recv_of[i] != model.recv_of[i] ||
                    (model.recv_of[i] >= 0 &&
                     (played.at[i] != model.at[i] || played.last[i] != model.last[i]));
        else
            fails = played.cancelled[i] != model.cancelled[i];
    }
    fixture_close(&fixture);
    return fails || played.wrong;
}

/* Each receive is cancelled at most once: its buffer is its context. */
static int random_history(struct step *steps, unsigned *seed)
{
    static const int who[] = {-1, -1, 0, 2};
    int count = 5 + rand_r(seed) % (STEPS - 5);

    for (int i = 0; i < count; i++) {
        int dice = rand_r(seed) % 10;
        struct step s = {dice < 5 ? SEND : dice < 7 ? POST_MANY : POST_ONE, 0, 0};

        if (s.kind == SEND) {
            s.who = rand_r(seed) % 2 * 2;
            s.size = 4 + (size_t)(rand_r(seed) % 60);
        } else {
            s.who = who[rand_r(seed) % 4];
            s.size = s.kind == POST_ONE ? SLOT : 100 + (size_t)(rand_r(seed) % 400);
        }
        if (i > 0 && dice == 9) {
            int victim = rand_r(seed) % i;

            if (steps[victim].kind == POST_MANY || steps[victim].kind == POST_ONE)
                s = (struct step){CANCEL, victim, 0};
        }
        steps[i] = s;
    }
    return count;
}

/* The history without step n; and without a cancel of that step. */
static int without(struct step *to, const struct step *from, int count, int n)
{
    int kept = 0, place[STEPS];

    for (int i = 0; i < count; i++) {
        bool goes = i == n || (from[i].kind == CANCEL && place[from[i].who] < 0);

        place[i] = goes ? -1 : kept;
        if (goes)
            continue;
        to[kept] = from[i];
        if (from[i].kind == CANCEL)
            to[kept].who = place[from[i].who];
        kept++;
    }
    return kept;
}

static void print_history(unsigned seed, const struct step *steps, int count)
{
    static const char *const names[] = {"send", "post many", "post one", "cancel"};

    printf("FAIL seed %u, shortest history:\n", seed);
    for (int i = 0; i < count; i++)
        printf("  %d %s who %d size %zu\n", i, names[steps[i].kind], steps[i].who,
               steps[i].size);
}

static void shrink_and_fail(unsigned seed, struct step *steps, int count)
{
    struct step fewer[STEPS];

    for (int i = 0; i < count;) {
        int left = without(fewer, steps, count, i);

        if (history_fails(fewer, left)) {
            memcpy(steps, fewer, sizeof fewer);
            count = left;
            i = 0;
        } else {
            i++;
        }
    }
    print_history(seed, steps, count);
    fail();
}

static void every_message_goes_where_the_model_says(void **state)
{
    struct step steps[STEPS];

    (void)state;
    for (unsigned n = 1; n <= 60; n++) {
        unsigned seed = n;
        int count = random_history(steps, &seed);

        if (history_fails(steps, count))
            shrink_and_fail(n, steps, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_lie_one_after_another),
        cmocka_unit_test(what_came_before_the_buffer_is_taken_too),
        cmocka_unit_test(the_last_space_is_used_to_the_last_byte),
        cmocka_unit_test(too_long_a_message_is_cut_and_ends_the_buffer),
        cmocka_unit_test(the_buffer_comes_back_when_all_is_in_it),
        cmocka_unit_test(the_endpoints_own_flags_count_too),
        cmocka_unit_test(a_quiet_buffer_tells_its_end),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_cancelled_buffer_comes_back),
        cmocka_unit_test(a_cancel_waits_for_what_is_under_way),
        cmocka_unit_test(a_single_receive_after_a_buffer_can_be_cancelled),
        cmocka_unit_test(an_endpoint_closes_with_buffers_in_use),
        cmocka_unit_test(every_message_goes_where_the_model_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
