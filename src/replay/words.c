/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.c - an event as a text.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "replay/replay.h"

static const char *const calls[REPLAY_KINDS] = {
    [REPLAY_RECV] = "MPI_Recv",
    [REPLAY_IRECV] = "MPI_Irecv",
    [REPLAY_START] = "MPI_Start",
    [REPLAY_IPROBE] = "MPI_Iprobe",
    [REPLAY_IMPROBE] = "MPI_Improbe",
    [REPLAY_PROBE] = "MPI_Probe",
    [REPLAY_MPROBE] = "MPI_Mprobe",
    [REPLAY_TEST] = "MPI_Test",
    [REPLAY_TESTALL] = "MPI_Testall",
    [REPLAY_TESTANY] = "MPI_Testany",
    [REPLAY_WAITANY] = "MPI_Waitany",
    [REPLAY_TESTSOME] = "MPI_Testsome",
    [REPLAY_WAITSOME] = "MPI_Waitsome",
    [REPLAY_INDEX] = "  which completed",
    [REPLAY_GET_STATUS] = "MPI_Request_get_status",
    [REPLAY_CHOICE] = "mbx_choice",
    [REPLAY_MBX_RECV] = "mbx_recv",
    [REPLAY_MBX_TRY_RECV] = "mbx_try_recv",
    [REPLAY_MBX_PROBE] = "mbx_probe",
    [REPLAY_MBX_MPROBE] = "mbx_mprobe",
    [REPLAY_MBX_RECV_TAG] = "  whose tag has the upper half",
    [REPLAY_MBX_TEST] = "mbx_test",
    [REPLAY_MBX_WAIT] = "mbx_wait with a timeout",
    [REPLAY_MBX_WAIT_ALL] = "mbx_wait_all with a timeout",
    [REPLAY_MBX_WAIT_SOME] = "mbx_wait_some",
    [REPLAY_MBX_WAIT_ANY] = "mbx_wait_any",
    [REPLAY_MBX_POLL] = "mbx_poll",
    [REPLAY_MBX_CANCEL] = "mbx_cancel",
};

static const char *const numbers[REPLAY_CALLS] = {
    [REPLAY_PROGRESS] = "mbx_progress",
    [REPLAY_READY] = "mbx_ready",
    [REPLAY_IDLE] = "mbx_idle",
    [REPLAY_WAIT_QUEUES] = "mbx_wait_queues",
    [REPLAY_SLEEP] = "mbx_sleep",
    [REPLAY_TRY_SEND] = "mbx_try_send",
    [REPLAY_SEND_AT_ONCE] = "mbx_send with MBX_AT_ONCE",
    [REPLAY_CLOSE] = "mbx_close",
};

static bool is_numbered(const char *name, const char *kind)
{
    size_t length = strlen(kind);

    return strncmp(name, kind, length) == 0 && name[length] != '\0' &&
           name[length + strspn(name + length, "0123456789")] == '\0';
}

bool replay_is_part(const char *name)
{
    return is_numbered(name, REPLAY_SPAWNED) || replay_is_sequence(name);
}

bool replay_is_sequence(const char *name)
{
    return is_numbered(name, REPLAY_COMM) || is_numbered(name, REPLAY_ENDPOINT);
}

static size_t put_source(const struct replay_signature *s, char *text, size_t size)
{
    int length = s->source == REPLAY_ANY ? snprintf(text, size, " from any source")
                                         : snprintf(text, size, " from rank %d", s->source);

    return min_size((size_t)length, size - 1);
}

static size_t put_tag(const struct replay_signature *s, char *text, size_t size)
{
    int length = s->tag == REPLAY_ANY ? snprintf(text, size, ", any tag")
                 : s->kind >= REPLAY_MBX_RECV && s->requests != 0
                     ? snprintf(text, size, ", some tags with bits 0x%x", (unsigned)s->tag)
                     : snprintf(text, size, ", tag %d", s->tag);

    return min_size((size_t)length, size - 1);
}

static bool has_message(uint8_t kind)
{
    return kind < REPLAY_TEST || (kind >= REPLAY_MBX_RECV && kind <= REPLAY_MBX_MPROBE);
}

/* How many requests. */
static void put_requests(const struct replay_signature *s, char *text, size_t size)
{
    bool is_one = s->kind == REPLAY_INDEX || s->kind == REPLAY_TEST ||
                  s->kind == REPLAY_GET_STATUS || s->kind == REPLAY_MBX_RECV_TAG ||
                  s->kind == REPLAY_MBX_TEST || s->kind == REPLAY_MBX_WAIT ||
                  s->kind == REPLAY_MBX_CANCEL;

    if (s->kind == REPLAY_MBX_POLL)
        snprintf(text, size, " of queues %d, up to %u%s entries", s->tag, s->requests,
                 s->requests == REPLAY_REQUESTS_MAX ? " or more" : "");
    else if (!is_one)
        snprintf(text, size, " of %u%s requests", s->requests,
                 s->requests == REPLAY_REQUESTS_MAX ? " or more" : "");
}

/* The name of its call. */
static const char *name_of(const struct replay_signature *s)
{
    if (s->kind == REPLAY_INDEX && s->tag != 0)
        return calls[REPLAY_MBX_RECV_TAG];
    if (s->kind != REPLAY_MBX_CALL)
        return calls[s->kind];
    return s->tag >= 0 && s->tag < REPLAY_CALLS ? numbers[s->tag] : "another call";
}

const char *replay_signature_text(const struct replay_signature *signature, const char *comm,
                                  char text[REPLAY_TEXT])
{
    size_t used = min_size((size_t)snprintf(text, REPLAY_TEXT, "%s", name_of(signature)),
                           REPLAY_TEXT - 1);

    if (signature->kind == REPLAY_CHOICE) {
        snprintf(text + used, REPLAY_TEXT - used, " of site %llu",
                 (unsigned long long)((uint64_t)(uint32_t)signature->source << 32 |
                                      (uint32_t)signature->tag));
        return text;
    }
    if (!has_message(signature->kind)) {
        if (signature->kind != REPLAY_MBX_CALL)
            put_requests(signature, text + used, REPLAY_TEXT - used);
        return text;
    }
    used += put_source(signature, text + used, REPLAY_TEXT - used);
    used += put_tag(signature, text + used, REPLAY_TEXT - used);
    if (signature->kind >= REPLAY_MBX_RECV)
        snprintf(text + used, REPLAY_TEXT - used, ", in context %llu",
                 (unsigned long long)(signature->comm & REPLAY_COMM_MASK));
    else if (comm != NULL)
        snprintf(text + used, REPLAY_TEXT - used, ", on %s", comm);
    else
        snprintf(text + used, REPLAY_TEXT - used, ", on communicator %llu",
                 (unsigned long long)signature->comm);
    return text;
}

const char *replay_outcome_text(const struct replay_outcome *outcome, char text[REPLAY_TEXT])
{
    static const char *const words[REPLAY_RESULTS] = {
        [REPLAY_OPEN] = "no message",     [REPLAY_FALSE] = "false",
        [REPLAY_TRUE] = "true",           [REPLAY_NONE] = "no request is active",
        [REPLAY_CANCELLED] = "cancelled", [REPLAY_FAILED] = "ended by an error",
    };

    if (outcome->result == REPLAY_MESSAGE)
        snprintf(text, REPLAY_TEXT, "rank %d, tag %d", replay_source(outcome),
                 replay_tag(outcome));
    else if (outcome->result == REPLAY_ERROR)
        snprintf(text, REPLAY_TEXT, "error: %s",
                 outcome->value <= INT_MAX && strerrordesc_np((int)outcome->value) != NULL
                     ? strerrordesc_np((int)outcome->value)
                     : "unknown");
    else if (outcome->result == REPLAY_AT || outcome->result == REPLAY_VALUE)
        snprintf(text, REPLAY_TEXT, "%llu", (unsigned long long)outcome->value);
    else
        snprintf(text, REPLAY_TEXT, "%s", words[outcome->result]);
    return text;
}
