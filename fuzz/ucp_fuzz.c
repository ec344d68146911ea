/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_fuzz.c - libucp over Matchbox, fed with what no correct peer sends.
 *
 *   address    the address of a worker with other contents, or other bytes
 *   key        a remote key with other bytes, and accesses with it
 *   messages   active messages that a hostile peer has written past the interface, and messages of a correct one
 *
 *   hostile ──anything──> victim <──active messages── correct
 *
 * The first byte of an input chooses one.  A refusal is an error and one message; a call that succeeds logs nothing.  Accesses
 * change the memory of their key alone.  All active messages of the correct peer are handled, in order, also when the
 * hostile one has announced data that it never sends.  At the end nothing is left in memory.
 *
 * Built with -fsanitize=fuzzer, or with standalone.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "fuzz/program.h"
#include "ucp/door.h"

#define REGION_SIZE  512
#define KEY_SIZE     32
#define MESSAGE_SIZE 9000 /* more than a short active message */
#define KEPT_MAX     64
#define ROUNDS_MOST  100000
#define REGION_BYTE  0x11
#define DATA_BYTE    0x22

static ucp_context_h context;
static ucp_worker_h victim, hostile, correct;
static ucp_ep_h from_hostile, from_correct; /* to the victim */
static unsigned lines;                      /* errors and warnings of the log */
static char last_line[256];

/* ---- open and close ---- */

static void count_line(void *user, enum mbx_log_level level, const char *text)
{
    (void)user;
    if (level > MBX_LOG_WARN)
        return;
    lines++;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static void expect_lines(bool is_one, ucs_status_t status)
{
    if (lines != is_one)
        fprintf(stderr, "status %d, %u messages, the last one: %s\n", status, lines, last_line);
    require(lines == is_one, "a refusal is one message");
    lines = 0;
}

static ucp_worker_h worker_open(void)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_worker_h worker;

    require(ucp_worker_create(context, &params, &worker) == UCS_OK, "ucp_worker_create");
    return worker;
}

static ucs_status_t connect_to(ucp_worker_h worker, const void *address, ucp_ep_h *ep)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address = address};

    return ucp_ep_create(worker, &params, ep);
}

static ucp_ep_h connect_workers(ucp_worker_h from, ucp_worker_h to)
{
    ucp_address_t *address;
    ucp_ep_h ep;
    size_t size;

    require(ucp_worker_get_address(to, &address, &size) == UCS_OK, "ucp_worker_get_address");
    require(connect_to(from, address, &ep) == UCS_OK, "ucp_ep_create");
    ucp_worker_release_address(to, address);
    return ep;
}

static void open_context(const char *transport)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM |
                                             UCP_FEATURE_RMA | UCP_FEATURE_AMO64};

    require(setenv("MBX_TRANSPORT", transport, 1) == 0, "setenv");
    require(setenv("MBX_CLOSE_TIMEOUT", "0", 1) == 0, "setenv");
    mbx_log_callback(count_line, NULL);
    require(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    victim = worker_open();
    lines = 0;
}

static void close_context(void)
{
    ucp_worker_destroy(victim);
    ucp_cleanup(context);
    require(mem_live() == 0, "memory is lost");
}

static void turn(void)
{
    ucp_worker_progress(hostile);
    ucp_worker_progress(victim);
    if (correct != NULL)
        ucp_worker_progress(correct);
    require(ucpx_worker_is_valid(victim), "an invariant of the victim");
}

static void finish(void *request)
{
    for (unsigned i = 0; UCS_PTR_IS_PTR(request) && !ucp_request_is_completed(request); i++) {
        require(i < ROUNDS_MOST, "a request does not end");
        turn();
    }
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

/* ---- addresses ---- */

/* Other contents, in an envelope that is right. */
static size_t other_address(struct input *in, unsigned char *bytes)
{
    struct ucpx_address address = {.identity = take(in), .rank = take(in)};

    ucpx_address_describe(&address);
    require(mbx_address_get(victim->mbx, &address.address) == 0, "mbx_address_get");
    for (unsigned changes = take(in) % 8; changes != 0; changes--) {
        size_t at = take(in) % sizeof address.address.bytes;

        address.address.bytes[at] = take(in);
    }
    if (take(in) % 4 == 0)
        memset(address.who.host, take(in), sizeof address.who.host);
    return ucpx_address_pack(&address, bytes);
}

/* Nobody calls it: its process may be any.  The memory ends where the longest address does. */
static void address(struct input *in, bool is_packed)
{
    unsigned char *bytes = calloc(1, UCPX_ADDRESS_MAX);
    ucp_worker_address_attr_t attr = {.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID};
    ucs_status_t asked, status;
    ucp_ep_h ep = NULL;

    require(bytes != NULL, "no memory");
    if (is_packed) {
        size_t size = other_address(in, bytes);

        for (unsigned changes = take(in) % 4; changes != 0; changes--) {
            size_t at = take(in) % size;

            bytes[at] = take(in);
        }
    } else {
        memcpy(bytes, in->data, min_size(in->size, UCPX_ADDRESS_MAX));
    }
    asked = ucp_worker_address_query((ucp_address_t *)bytes, &attr);
    expect_lines(asked != UCS_OK, asked);
    status = connect_to(victim, bytes, &ep);
    expect_lines(status != UCS_OK, status);
    require(asked == UCS_OK || status != UCS_OK, "an address is taken that is none");
    require((status == UCS_OK) == (ep != NULL), "a handle without an address");
    free(bytes);
}

/* ---- keys ---- */

static struct {
    unsigned char before[REGION_SIZE], bytes[REGION_SIZE], after[REGION_SIZE];
} memory __attribute__((aligned(8)));

static bool is_all(const unsigned char *bytes, unsigned char value)
{
    for (size_t i = 0; i < REGION_SIZE; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

static void access_once(struct input *in, ucp_rkey_h key)
{
    static unsigned char data[4 * REGION_SIZE] __attribute__((aligned(8)));
    uint64_t at = (uintptr_t)memory.bytes + 8 * (uint64_t)take(in);
    size_t size = 16 * (size_t)take(in) % sizeof data;

    memset(data, DATA_BYTE, sizeof data);
    if (take(in) % 8 == 0)
        at -= 8 * (uint64_t)take(in);
    switch (take(in) % 4) {
    case 0:
        (void)ucp_put_nbi(from_hostile, data, size, at, key);
        break;
    case 1:
        finish(ucp_get_nb(from_hostile, data, size, at, key, NULL));
        break;
    case 2:
        (void)ucp_atomic_post(from_hostile, UCP_ATOMIC_POST_OP_XOR, 1, 8, at, key);
        break;
    default:
        finish(ucp_atomic_fetch_nb(from_hostile, UCP_ATOMIC_FETCH_OP_SWAP, 1, data, 8, at, key,
                                   NULL));
    }
}

static void use_key(struct input *in, const unsigned char *bytes)
{
    ucp_rkey_h key;
    ucs_status_t status;

    lines = 0;
    status = ucp_ep_rkey_unpack(from_hostile, bytes, &key);
    expect_lines(status == UCS_ERR_INVALID_PARAM, status);
    if (status != UCS_OK)
        return;
    for (unsigned count = take(in) % 8; count != 0; count--)
        access_once(in, key);
    finish(ucp_worker_flush_nb(hostile, 0, NULL));
    ucp_rkey_destroy(key);
}

static void keys(struct input *in)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                       UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = memory.bytes,
                                         .length = REGION_SIZE};
    unsigned char bytes[KEY_SIZE];
    ucp_mem_h mapped;
    void *packed;
    size_t size;

    memset(&memory, REGION_BYTE, sizeof memory);
    hostile = worker_open();
    from_hostile = connect_workers(hostile, victim);
    require(ucp_mem_map(context, &params, &mapped) == UCS_OK, "ucp_mem_map");
    require(ucp_rkey_pack(context, mapped, &packed, &size) == UCS_OK && size == KEY_SIZE,
            "ucp_rkey_pack");
    while (in->size != 0) {
        memcpy(bytes, packed, KEY_SIZE);
        for (unsigned changes = take(in) % 4; changes != 0; changes--) {
            size_t at = take(in) % KEY_SIZE;

            bytes[at] = take(in);
        }
        use_key(in, bytes);
    }
    require(is_all(memory.before, REGION_BYTE) && is_all(memory.after, REGION_BYTE),
            "an access leaves the region");
    ucp_rkey_buffer_release(packed);
    ucp_mem_unmap(context, mapped);
    ucp_worker_destroy(hostile);
}

/* ---- active messages ---- */

enum { ID_WHOLE, ID_KEEP, ID_LATER, ID_NOW, ID_NONE, ID_CORRECT, IDS };

/* The state of the victim's client. */
static void *kept[KEPT_MAX];
static unsigned kept_count, sent_count, handled_count;
static uint32_t correct_number; /* the victim's peer */
static unsigned char into[MESSAGE_SIZE];

static size_t size_of(unsigned number)
{
    static const size_t sizes[] = {4, 100, MESSAGE_SIZE};

    return sizes[number % ARRAY_COUNT(sizes)];
}

/* The handlers look at all bytes that they are given: AddressSanitizer sees where they are. */
static void look_at(const void *bytes, size_t size)
{
    const volatile unsigned char *seen = bytes;

    for (size_t i = 0; i < size; i++)
        (void)seen[i];
}

static bool keep(void *data)
{
    if (kept_count == KEPT_MAX)
        return false;
    kept[kept_count++] = data;
    return true;
}

static ucs_status_t on_whole(void *arg, void *data, size_t length, ucp_ep_h reply,
                             unsigned flags)
{
    (void)arg;
    (void)reply;
    (void)flags;
    look_at(data, length);
    return UCS_OK;
}

static ucs_status_t on_keep(void *arg, void *data, size_t length, ucp_ep_h reply,
                            unsigned flags)
{
    (void)on_whole(arg, data, length, reply, flags);
    return keep(data) ? UCS_INPROGRESS : UCS_OK;
}

static void receive(void *data)
{
    void *request =
        ucp_am_recv_data_nbx(victim, data, into, sizeof into, &(ucp_request_param_t){0});

    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
}

static ucs_status_t on_later(void *arg, const void *header, size_t header_length, void *data,
                             size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg;
    look_at(header, header_length);
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
        look_at(data, length);
    if (param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA))
        return keep(data) ? UCS_INPROGRESS : UCS_OK;
    return UCS_OK;
}

static ucs_status_t on_now(void *arg, const void *header, size_t header_length, void *data,
                           size_t length, const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)length;
    look_at(header, header_length);
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        receive(data);
        return UCS_INPROGRESS;
    }
    return UCS_OK;
}

/* The hostile peer may send to this id as well. */
static ucs_status_t on_correct(void *arg, const void *header, size_t header_length, void *data,
                               size_t length, const ucp_am_recv_param_t *param)
{
    unsigned number = 0;

    (void)arg;
    if (param->reply_ep == NULL || param->reply_ep->peer != correct_number) {
        look_at(header, header_length);
        return UCS_OK;
    }
    require(header_length == sizeof number && length == size_of(handled_count),
            "a message of another length");
    memcpy(&number, header, sizeof number);
    require(number == handled_count, "a message out of order");
    look_at(data, length);
    require(memcmp(data, &number, sizeof number) == 0, "a message with other bytes");
    handled_count++;
    return UCS_OK;
}

static void set_recv_handler(unsigned id, ucp_am_recv_callback_t cb)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id = id,
                                          .cb = cb};

    require(ucp_worker_set_am_recv_handler(victim, &param) == UCS_OK, "a handler");
}

static void send_correct(void)
{
    static unsigned char bytes[MESSAGE_SIZE];
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags =
                                           UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER};
    size_t size = size_of(sent_count);

    memcpy(bytes, &sent_count, sizeof sent_count);
    finish(ucp_am_send_nbx(from_correct, ID_CORRECT, &sent_count, sizeof sent_count, bytes,
                           size, &param));
    sent_count++;
}

/* Past the interface; it is lost if the hostile worker can take no more. */
static void send_raw(uint32_t id, uint64_t tag, uint64_t words, const void *bytes, size_t size)
{
    struct ucpx_peer *peer = &hostile->peers[from_hostile->peer];

    if (id == UCPX_ID_MESSAGES)
        words |= (uint64_t)peer->sent << 16;
    if (mbx_inject(hostile->mbx, from_hostile->peer, id, tag, bytes, size, words) == 0)
        peer->sent += id == UCPX_ID_MESSAGES;
}

static uint64_t number(struct input *in)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       7,
                                       8,
                                       9,
                                       16,
                                       24,
                                       1000,
                                       UCPX_AM_HEADER,
                                       UCPX_AM_SHORT,
                                       UCPX_AM_SHORT + 1,
                                       MESSAGE_SIZE,
                                       UINT16_MAX,
                                       UINT64_C(1) << 62,
                                       UINT64_MAX};
    uint8_t which = take(in);

    return which < 200 ? numbers[which % ARRAY_COUNT(numbers)] : take(in);
}

static void send_short(struct input *in)
{
    static const unsigned char bytes[MESSAGE_SIZE];
    uint64_t header = number(in), data = number(in), tag = take(in) % IDS;
    uint8_t how = take(in);
    uint64_t size = header == 0 ? data : (data + 7) / 8 * 8 + header;

    if (how & 1)
        size = number(in);
    if (how & 2)
        tag |= (uint64_t)take(in) << (16 + how / 4 % 40);
    if (how >= 240) /* a wrong number, and the next ones */
        hostile->peers[from_hostile->peer].sent += take(in);
    send_raw(UCPX_ID_MESSAGES, tag, (header & UINT16_MAX) | data << 32, bytes,
             size < sizeof bytes ? size : sizeof bytes);
}

static void announce(struct input *in)
{
    const struct ucpx_long parts = {.number = take(in) % 8, .size = number(in)};
    uint64_t tag = UCPX_AM_LONG | (take(in) % IDS);
    uint8_t how = take(in);

    if (how & 1)
        tag |= UCPX_AM_WHOLE;
    if (how & 2)
        tag |= UCPX_AM_REPLY;
    send_raw(UCPX_ID_MESSAGES, tag, (uint64_t)sizeof parts << 32, &parts, sizeof parts);
}

static void send_data(struct input *in)
{
    static const unsigned char bytes[MESSAGE_SIZE];
    uint64_t which = take(in) % 8, size = number(in);

    send_raw(UCPX_ID_DATA, which, 0, bytes, size < sizeof bytes ? size : sizeof bytes);
}

static void use_kept(struct input *in)
{
    bool is_received = take(in) & 1;
    unsigned which;
    void *data;

    if (kept_count == 0)
        return;
    which = take(in) % kept_count;
    data = kept[which];
    kept[which] = kept[--kept_count];
    if (is_received)
        receive(data);
    else
        ucp_am_data_release(victim, data);
}

static void step(struct input *in)
{
    switch (take(in) % 8) {
    case 0:
    case 1:
        send_short(in);
        break;
    case 2:
        announce(in);
        break;
    case 3:
        send_data(in);
        break;
    case 4:
        send_correct();
        break;
    case 5:
        use_kept(in);
        break;
    default:
        for (unsigned turns = 1 + take(in) % 4; turns != 0; turns--)
            turn();
    }
}

static void open_peers(void)
{
    kept_count = sent_count = handled_count = 0;
    hostile = worker_open();
    correct = worker_open();
    correct_number = connect_workers(victim, correct)->peer;
    from_hostile = connect_workers(hostile, victim);
    from_correct = connect_workers(correct, victim);
    require(ucp_worker_set_am_handler(victim, ID_WHOLE, on_whole, NULL,
                                      UCP_AM_FLAG_WHOLE_MSG) == UCS_OK &&
                ucp_worker_set_am_handler(victim, ID_KEEP, on_keep, NULL,
                                          UCP_AM_FLAG_WHOLE_MSG |
                                              UCP_AM_FLAG_PERSISTENT_DATA) == UCS_OK,
            "a handler");
    set_recv_handler(ID_LATER, on_later);
    set_recv_handler(ID_NOW, on_now);
    set_recv_handler(ID_CORRECT, on_correct);
}

static void messages(struct input *in)
{
    open_peers();
    while (in->size != 0)
        step(in);
    send_correct();
    for (unsigned i = 0; handled_count < sent_count; i++) {
        require(i < ROUNDS_MOST, "a message of the correct peer is not handled");
        turn();
    }
    ucp_worker_destroy(hostile);
    ucp_worker_destroy(correct);
    correct = NULL;
}

/* ---- the target ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned how = take(&in);

    open_context(how % 8 < 2 ? "shm" : "loop");
    if (how % 8 < 2)
        address(&in, how % 8 == 0);
    else if (how % 8 < 4)
        keys(&in);
    else
        messages(&in);
    close_context();
    return 0;
}
