/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * statuses.c - the status and the error of each call that takes a status.
 *
 * A status is a variable of the program, with any content.  So each status is filled with a
 * pattern before the call that gets it.  After the call its source, tag, size and cancelled
 * flag are correct for the message, and MPI_ERROR is unchanged, unless the call has several
 * statuses (MPI-3.1, 3.2.5).
 *
 *   rank 0   orders messages, receives them in every way, and checks each status
 *   rank 1   sends what was ordered
 *
 * A message has arrived before the call, as a probe shows, or arrives while the receive waits.
 *
 * With --show each status is a line, which does not depend on time: over Open MPI's own layer
 * the lines must be the same, except the lines with "(better)", where that layer is wrong.
 *
 * usage: statuses [--show] [--whatever]     --whatever: nothing is checked
 */
#include "check.h"

#define PATTERN 0xa5
#define LONG    25000 /* ints */
#define MIX     6
#define ROUNDS  240

/* Marks errors of Open MPI's own layer: it forgets the errors of persistent requests
 * (progress.c of the component). */
#define BETTER " (better)"

enum when { THERE, COMES };

static const char *const when_names[] = {"there", "comes"};

enum mode { STANDARD, SYNCHRONOUS, BUFFERED, END };

static const char *const mode_names[] = {"standard", "synchronous", "buffered"};

/* An order for rank 1: messages with tags from `tag` on. */
struct order {
    int mode, tag, count, is_vector;
    int sizes[MIX];
};

static MPI_Comm control;    /* orders */
static MPI_Datatype vector; /* an int, and space for another one */
static bool is_shown, is_unchecked;
static int places[MIX][2 * LONG];

static bool untouched(int value)
{
    int pattern;

    memset(&pattern, PATTERN, sizeof pattern);
    return value == pattern;
}

static int class_of(int error)
{
    int class = MPI_SUCCESS;

    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    return class;
}

static const char *class_name(int error)
{
    if (untouched(error))
        return "untouched";
    switch (class_of(error)) {
    case MPI_SUCCESS:
        return "success";
    case MPI_ERR_TRUNCATE:
        return "truncate";
    case MPI_ERR_IN_STATUS:
        return "in-status";
    case MPI_ERR_PENDING:
        return "pending";
    default:
        return "another";
    }
}

static void wrong(const char *label, const char *what, long long got, long long want)
{
    if (is_unchecked || got == want)
        return;
    fprintf(stderr, "%s: %s: got %lld, want %lld\n", label, what, got, want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static MPI_Status *filled(MPI_Status *status, int count)
{
    memset(status, PATTERN, (size_t)count * sizeof *status);
    return status;
}

/* ---- sending ---- */

static void obey(const struct order *order)
{
    static int data[2 * LONG];
    MPI_Request requests[MIX];
    MPI_Datatype type = order->is_vector ? vector : MPI_INT;
    int (*const send[])(const void *, int, MPI_Datatype, int, int, MPI_Comm,
                        MPI_Request *) = {MPI_Isend, MPI_Issend, MPI_Ibsend};

    for (int i = 0; i < order->count; i++)
        send[order->mode](data, order->sizes[i], type, 0, order->tag + i, MPI_COMM_WORLD,
                          &requests[i]);
    MPI_Waitall(order->count, requests, MPI_STATUSES_IGNORE);
}

static void serve(void)
{
    static char attached[4 * MIX * LONG * sizeof(int)];
    struct order order;
    void *detached;
    int size;

    MPI_Buffer_attach(attached, (int)sizeof attached);
    for (;;) {
        MPI_Recv(&order, sizeof order, MPI_BYTE, 0, 0, control, MPI_STATUS_IGNORE);
        if (order.mode == END)
            break;
        obey(&order);
    }
    MPI_Buffer_detach(&detached, &size);
}

static void tell(const struct order *order)
{
    MPI_Send(order, sizeof *order, MPI_BYTE, 1, 0, control);
}

/* ---- one status ---- */

struct one {
    char label[160];
    struct order order;
    enum when when;
    bool is_any, is_short;
    MPI_Datatype type;
    int capacity; /* elements that fit into the buffer */
};

static int source_of(const struct one *one)
{
    return one->is_any ? MPI_ANY_SOURCE : 1;
}

static int tag_of(const struct one *one)
{
    return one->is_any ? MPI_ANY_TAG : one->order.tag;
}

/* Makes rank 1 send the message of `one`; waits until it has arrived, if it should be there. */
static void comes(const struct one *one, bool is_posted)
{
    tell(&one->order);
    if (one->when == THERE && !is_posted)
        MPI_Probe(1, one->order.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* is_whole: prints the size; for a message that is too long, MPI does not define it. */
static void print(const char *label, const char *call, int error, const MPI_Status *status,
                  bool is_whole)
{
    MPI_Count bytes;
    int cancelled;

    if (!is_shown)
        return;
    MPI_Test_cancelled(status, &cancelled);
    MPI_Get_elements_x(status, MPI_BYTE, &bytes);
    printf("%s %s: %s; source %d tag %d cancelled %d error %s", label, call, class_name(error),
           status->MPI_SOURCE, status->MPI_TAG, cancelled, class_name(status->MPI_ERROR));
    if (is_whole)
        printf(" bytes %lld", (long long)bytes);
    putchar('\n');
}

/* Checks the error and the status of that message, from a call with one status or with
 * several. */
static void see(const struct one *one, const char *call, int error, const MPI_Status *status,
                bool is_several, bool is_probe)
{
    bool is_error = one->is_short && !is_probe;
    MPI_Count bytes;
    int cancelled, want = is_error ? MPI_ERR_TRUNCATE : MPI_SUCCESS;

    print(one->label, call, error, status, !is_error);
    MPI_Test_cancelled(status, &cancelled);
    MPI_Get_elements_x(status, MPI_BYTE, &bytes);
    wrong(one->label, "returns", class_of(error),
          is_error && is_several ? MPI_ERR_IN_STATUS : want);
    wrong(one->label, "source", status->MPI_SOURCE, 1);
    wrong(one->label, "tag", status->MPI_TAG, one->order.tag);
    wrong(one->label, "cancelled", cancelled, 0);
    if (!is_error)
        wrong(one->label, "bytes", bytes, one->order.sizes[0] * (long long)sizeof(int));
    if (is_several)
        wrong(one->label, "MPI_ERROR", class_of(status->MPI_ERROR), want);
    else
        wrong(one->label, "MPI_ERROR is untouched", untouched(status->MPI_ERROR), true);
}

static void receive(const struct one *one)
{
    MPI_Status status;

    comes(one, false);
    filled(&status, 1);
    see(one, "recv",
        MPI_Recv(places[0], one->capacity, one->type, source_of(one), tag_of(one),
                 MPI_COMM_WORLD, &status),
        &status, false, false);
}

static void exchange(const struct one *one)
{
    MPI_Status status;
    int error, sent = 0;

    comes(one, false);
    filled(&status, 1);
    error = MPI_Sendrecv(&sent, 1, MPI_INT, MPI_PROC_NULL, 0, places[0], one->capacity,
                         one->type, source_of(one), tag_of(one), MPI_COMM_WORLD, &status);
    see(one, "sendrecv", error, &status, false, false);
    comes(one, false);
    filled(&status, 1);
    error = MPI_Sendrecv_replace(places[0], one->capacity, one->type, MPI_PROC_NULL, 0,
                                 source_of(one), tag_of(one), MPI_COMM_WORLD, &status);
    see(one, "sendrecv-replace", error, &status, false, false);
}

static void probe(const struct one *one)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag = 0, error;

    comes(one, false);
    filled(&status, 1);
    error = MPI_Probe(source_of(one), tag_of(one), MPI_COMM_WORLD, &status);
    see(one, "probe", error, &status, false, true);
    do {
        filled(&status, 1);
        error = MPI_Iprobe(source_of(one), tag_of(one), MPI_COMM_WORLD, &flag, &status);
    } while (error == MPI_SUCCESS && !flag);
    see(one, "iprobe", error, &status, false, true);
    filled(&status, 1);
    error = MPI_Mprobe(source_of(one), tag_of(one), MPI_COMM_WORLD, &message, &status);
    see(one, "mprobe", error, &status, false, true);
    filled(&status, 1);
    error = MPI_Mrecv(places[0], one->capacity, one->type, &message, &status);
    see(one, "mrecv", error, &status, false, false);

    comes(one, false);
    for (flag = 0, error = MPI_SUCCESS; error == MPI_SUCCESS && !flag;) {
        filled(&status, 1);
        error =
            MPI_Improbe(source_of(one), tag_of(one), MPI_COMM_WORLD, &flag, &message, &status);
    }
    see(one, "improbe", error, &status, false, true);
    MPI_Imrecv(places[0], one->capacity, one->type, &message, &request);
    filled(&status, 1);
    see(one, "imrecv, wait", MPI_Wait(&request, &status), &status, false, false);
}

/* The way in which a request is completed. */
enum ending { WAIT, TEST, WAITANY, TESTANY, WAITSOME, TESTSOME, WAITALL, TESTALL, ENDINGS };

static const char *const ending_names[] = {"wait",     "test",     "waitany", "testany",
                                           "waitsome", "testsome", "waitall", "testall"};

static bool ending_is_several(enum ending ending)
{
    return ending >= WAITSOME;
}

static int end(enum ending ending, MPI_Request *request, MPI_Status *status)
{
    int flag = 0, which = 0, count = 0, error = MPI_SUCCESS;

    while (error == MPI_SUCCESS && !flag) {
        filled(status, 1);
        flag = 1;
        switch (ending) {
        case WAIT:
            return MPI_Wait(request, status);
        case WAITANY:
            return MPI_Waitany(1, request, &which, status);
        case WAITALL:
            return MPI_Waitall(1, request, status);
        case WAITSOME:
            return MPI_Waitsome(1, request, &count, &which, status);
        case TEST:
            error = MPI_Test(request, &flag, status);
            break;
        case TESTANY:
            error = MPI_Testany(1, request, &which, &flag, status);
            break;
        case TESTALL:
            error = MPI_Testall(1, request, &flag, status);
            break;
        case TESTSOME:
            error = MPI_Testsome(1, request, &count, &which, status);
            flag = count != 0;
            break;
        case ENDINGS:
            break;
        }
    }
    return error;
}

static void get_status(const struct one *one, MPI_Request request)
{
    MPI_Status status;
    int flag, error;

    do {
        filled(&status, 1);
        error = MPI_Request_get_status(request, &flag, &status);
    } while (error == MPI_SUCCESS && !flag);
    print(one->label, "get-status", error, &status, !one->is_short);
    wrong(one->label, "get-status: source", status.MPI_SOURCE, 1);
    wrong(one->label, "get-status: tag", status.MPI_TAG, one->order.tag);
    wrong(one->label, "get-status: MPI_ERROR is untouched", untouched(status.MPI_ERROR), true);
}

/* is_complete: the message has matched its receive before the call that ends the request. */
static void end_one(const struct one *one, enum ending ending, bool is_persistent,
                    bool is_complete)
{
    bool is_better = one->is_short && is_persistent &&
                     (ending == WAITALL || ending == TESTALL || ending == TESTANY);
    char call[80];
    MPI_Request request;
    MPI_Status status;

    snprintf(call, sizeof call, "%s%s%s%s", is_persistent ? "persistent, " : "",
             is_complete ? "complete, " : "", ending_names[ending], is_better ? BETTER : "");
    if (one->when == THERE)
        comes(one, false);
    if (is_persistent) {
        MPI_Recv_init(places[0], one->capacity, one->type, source_of(one), tag_of(one),
                      MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    } else {
        MPI_Irecv(places[0], one->capacity, one->type, source_of(one), tag_of(one),
                  MPI_COMM_WORLD, &request);
    }
    if (one->when == COMES)
        comes(one, true);
    if (is_complete)
        get_status(one, request);
    see(one, call, end(ending, &request, &status), &status, ending_is_several(ending), false);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
}

static void every_way(const struct one *one)
{
    receive(one);
    exchange(one);
    probe(one);
    for (int way = 0; way < 4 * ENDINGS; way++)
        end_one(one, way / 4, way & 1, way & 2);
}

/* Tests every mode and size, with space for the whole message or not; one piece or several, and
 * source and tag named or not, in turn. */
static void messages(void)
{
    static const int sizes[] = {0, 7, LONG};
    struct one one = {.order = {.count = 1}};

    for (int n = 0; n < 3 * 3 * 2 * 2; n++) {
        int size = sizes[n / 3 % 3];

        one.order.mode = n % 3;
        one.order.sizes[0] = size;
        one.is_short = n / 9 % 2;
        one.when = n / 18;
        one.order.is_vector = (n % 3 + n / 9) % 2;
        one.is_any = (n / 3 + n / 9) % 2;
        one.type = one.order.is_vector ? vector : MPI_INT;
        one.capacity = one.is_short ? size / 2 : size;
        if (one.is_short && size == 0)
            continue;
        one.order.tag = n + 1;
        snprintf(one.label, sizeof one.label, "%s %s of %d%s%s%s", mode_names[one.order.mode],
                 when_names[one.when], size, one.order.is_vector ? " in pieces" : "",
                 one.is_any ? " for any" : "", one.is_short ? " too long" : "");
        every_way(&one);
    }
}

/* ---- no message ---- */

static void inspect_none(const char *label, const char *call, int error,
                         const MPI_Status *status, int source, int cancelled, bool is_several)
{
    int got;

    MPI_Test_cancelled(status, &got);
    wrong(label, "returns", class_of(error), MPI_SUCCESS);
    wrong(label, "cancelled", got, cancelled);
    if (is_several)
        wrong(label, "MPI_ERROR", status->MPI_ERROR, MPI_SUCCESS);
    else
        wrong(label, "MPI_ERROR is untouched", untouched(status->MPI_ERROR), true);
    if (cancelled)
        return; /* nothing else is defined */
    print(label, call, error, status, true);
    wrong(label, "source", status->MPI_SOURCE, source);
    wrong(label, "tag", status->MPI_TAG, MPI_ANY_TAG);
}

static void nobody(void)
{
    MPI_Status status;
    MPI_Message message;
    int flag = 0, error, sent = 0;

    error =
        MPI_Recv(places[0], 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, filled(&status, 1));
    inspect_none("nobody", "recv", error, &status, MPI_PROC_NULL, 0, false);
    error = MPI_Sendrecv(&sent, 1, MPI_INT, MPI_PROC_NULL, 1, places[0], 1, MPI_INT,
                         MPI_PROC_NULL, 5, MPI_COMM_WORLD, filled(&status, 1));
    inspect_none("nobody", "sendrecv", error, &status, MPI_PROC_NULL, 0, false);
    error = MPI_Probe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, filled(&status, 1));
    inspect_none("nobody", "probe", error, &status, MPI_PROC_NULL, 0, false);
    error = MPI_Iprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, filled(&status, 1));
    inspect_none("nobody", "iprobe", error, &status, MPI_PROC_NULL, 0, false);
    wrong("nobody", "iprobe's flag", flag, 1);
    error = MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &message, filled(&status, 1));
    inspect_none("nobody", "mprobe", error, &status, MPI_PROC_NULL, 0, false);
    error = MPI_Mrecv(places[0], 1, MPI_INT, &message, filled(&status, 1));
    inspect_none("nobody", "mrecv", error, &status, MPI_PROC_NULL, 0, false);
}

enum none { NULL_REQUEST, INACTIVE, FROM_NOBODY, CANCELLED, CANCELLED_PERSISTENT, NONES };

static const char *const none_names[] = {"null", "inactive", "from nobody", "cancelled",
                                         "cancelled persistent"};

static MPI_Request none_make(enum none none)
{
    MPI_Request request = MPI_REQUEST_NULL;

    switch (none) {
    case FROM_NOBODY:
        MPI_Irecv(places[0], 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request);
        break;
    case CANCELLED:
        MPI_Irecv(places[0], 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        break;
    case INACTIVE:
    case CANCELLED_PERSISTENT:
        MPI_Recv_init(places[0], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
        if (none == INACTIVE)
            break;
        MPI_Start(&request);
        MPI_Cancel(&request);
        break;
    case NULL_REQUEST:
    case NONES:
        break;
    }
    return request;
}

/* MPI_Waitsome and MPI_Testsome write no status if none of several requests is active. */
static void no_message(enum none none, enum ending ending)
{
    bool is_active = none != NULL_REQUEST && none != INACTIVE;
    MPI_Request request = none_make(none);
    MPI_Status status;
    int error;

    if (!is_active && (ending == WAITSOME || ending == TESTSOME))
        return;
    error = end(ending, &request, &status);
    inspect_none(none_names[none], ending_names[ending], error, &status,
                 none == FROM_NOBODY ? MPI_PROC_NULL : MPI_ANY_SOURCE, none >= CANCELLED,
                 ending_is_several(ending));
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
}

/* ---- several requests, some of which are too short ---- */

enum member {
    PLAIN,
    PERSISTENT,
    MEMBER_NULL,
    MEMBER_INACTIVE,
    GENERALIZED,
    SENT,
    SENT_PERSISTENT,
    REVOKED, /* a receive that is cancelled */
    MEMBERS
};

struct mix {
    enum member members[MIX];
    bool is_short[MIX], is_reversed; /* the first request is for the last message */
    MPI_Request requests[MIX];
    struct order order;
};

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 77;
    status->MPI_TAG = 78;
    return MPI_SUCCESS;
}

static int forget(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int is_complete)
{
    (void)extra;
    (void)is_complete;
    return MPI_SUCCESS;
}

static bool mix_receives(const struct mix *mix, int i)
{
    return mix->members[i] == PLAIN || mix->members[i] == PERSISTENT;
}

/* Returns the message of the order that this request receives. */
static int mix_message(const struct mix *mix, int i)
{
    return mix->is_reversed ? MIX - 1 - i : i;
}

static int mix_tag(const struct mix *mix, int i)
{
    return mix->order.tag + mix_message(mix, i);
}

static void mix_start(struct mix *mix, int i)
{
    MPI_Request *request = &mix->requests[i];
    int capacity = mix->order.sizes[mix_message(mix, i)] - mix->is_short[i];
    static int sent;

    *request = MPI_REQUEST_NULL;
    switch (mix->members[i]) {
    case PLAIN:
        MPI_Irecv(places[i], capacity, MPI_INT, 1, mix_tag(mix, i), MPI_COMM_WORLD, request);
        break;
    case PERSISTENT:
        MPI_Recv_init(places[i], capacity, MPI_INT, 1, mix_tag(mix, i), MPI_COMM_WORLD,
                      request);
        MPI_Start(request);
        break;
    case MEMBER_INACTIVE:
        MPI_Recv_init(places[i], 1, MPI_INT, 1, 9, MPI_COMM_WORLD, request);
        break;
    case GENERALIZED:
        MPI_Grequest_start(query, forget, no_cancel, NULL, request);
        MPI_Grequest_complete(*request);
        break;
    case SENT:
        MPI_Isend(&sent, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request);
        break;
    case SENT_PERSISTENT:
        MPI_Send_init(&sent, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, request);
        MPI_Start(request);
        break;
    case REVOKED:
        MPI_Irecv(places[i], 1, MPI_INT, 1, 9, MPI_COMM_WORLD, request);
        MPI_Cancel(request);
        break;
    case MEMBER_NULL:
    case MEMBERS:
        break;
    }
}

/* Returns the error that the request must have. */
static int mix_error(const struct mix *mix, int i)
{
    return mix_receives(mix, i) && mix->is_short[i] ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

static void mix_see(struct mix *mix, const char *label, int i, MPI_Status *status)
{
    int cancelled, error = class_of(status->MPI_ERROR);

    if (error == MPI_ERR_PENDING)
        error = class_of(MPI_Wait(&mix->requests[i], filled(status, 1)));
    wrong(label, "the error of one", error, mix_error(mix, i));
    MPI_Test_cancelled(status, &cancelled);
    wrong(label, "one is cancelled", cancelled, mix->members[i] == REVOKED);
    if (mix_receives(mix, i))
        wrong(label, "the tag of one", status->MPI_TAG, mix_tag(mix, i));
    if (mix->members[i] == GENERALIZED)
        wrong(label, "the tag of a generalized one", status->MPI_TAG, 78);
}

static void mix_settle(struct mix *mix)
{
    for (int i = 0; i < MIX; i++) {
        if (mix->requests[i] == MPI_REQUEST_NULL)
            continue;
        MPI_Wait(&mix->requests[i], MPI_STATUS_IGNORE);
        if (mix->requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&mix->requests[i]);
    }
}

static void mix_complete(const struct mix *mix)
{
    for (int i = 0, flag = 0; i < MIX; i++, flag = 0)
        while (mix_receives(mix, i) && !flag)
            MPI_Request_get_status(mix->requests[i], &flag, MPI_STATUS_IGNORE);
}

/* At least one receive is too short: the call returns MPI_ERR_IN_STATUS, whenever its message
 * came. */
static void mixed(int round, uint64_t *seed)
{
    bool is_complete = round & 1, is_tested = round & 2, has_statuses = round & 4;
    MPI_Status statuses[MIX];
    char label[80];
    struct mix mix = {.order = {.tag = 1000, .count = MIX}, .is_reversed = round & 8};
    int error = MPI_SUCCESS, flag = 0;

    snprintf(label, sizeof label, "round %d: %s%s%s of several", round,
             is_complete ? "complete, " : "", is_tested ? "testall" : "waitall",
             has_statuses ? "" : " without statuses");
    for (int i = 0; i < MIX; i++) {
        mix.members[i] = next_random(seed) % 2 ? next_random(seed) % MEMBERS : PERSISTENT;
        mix.is_short[i] = next_random(seed) % 8 == 0;
        mix.order.sizes[i] = next_random(seed) % 4 == 0 ? LONG : 5;
    }
    mix.members[round % MIX] = round / MIX % 2 ? PLAIN : PERSISTENT;
    mix.is_short[round % MIX] = true;
    for (int i = 0; i < MIX; i++)
        mix_start(&mix, i);
    tell(&mix.order);
    if (is_complete)
        mix_complete(&mix);
    while (!flag && error == MPI_SUCCESS) {
        MPI_Status *out = has_statuses ? filled(statuses, MIX) : MPI_STATUSES_IGNORE;

        flag = 1;
        error = is_tested ? MPI_Testall(MIX, mix.requests, &flag, out)
                          : MPI_Waitall(MIX, mix.requests, out);
    }
    wrong(label, "returns", class_of(error), MPI_ERR_IN_STATUS);
    for (int i = 0; i < MIX && has_statuses; i++)
        mix_see(&mix, label, i, &statuses[i]);
    mix_settle(&mix);
    /* the messages without a receive */
    for (int i = 0; i < MIX; i++)
        if (!mix_receives(&mix, i))
            MPI_Recv(places[i], LONG, MPI_INT, 1, mix_tag(&mix, i), MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static void look(void)
{
    struct order stop = {.mode = END};
    uint64_t seed = 7;

    messages();
    nobody();
    for (int i = 0; i < NONES * ENDINGS; i++)
        no_message(i / ENDINGS, i % ENDINGS);
    for (int round = 0; round < ROUNDS; round++)
        mixed(round, &seed);
    tell(&stop);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        is_shown |= strcmp(argv[i], "--show") == 0;
        is_unchecked |= strcmp(argv[i], "--whatever") == 0;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &control);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &vector);
    MPI_Type_commit(&vector);
    if (rank == 0)
        look();
    else if (rank == 1)
        serve();
    MPI_Type_free(&vector);
    MPI_Comm_free(&control);
    return finish("statuses");
}
