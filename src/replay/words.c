/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.c - an event as a text.
 */
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
};

static bool is_numbered(const char *name, const char *kind)
{
    size_t length = strlen(kind);

    return strncmp(name, kind, length) == 0 && name[length] != '\0' &&
           name[length + strspn(name + length, "0123456789")] == '\0';
}

bool replay_is_part(const char *name)
{
    return is_numbered(name, REPLAY_SPAWNED) || is_numbered(name, REPLAY_COMM);
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
                                      : snprintf(text, size, ", tag %d", s->tag);

    return min_size((size_t)length, size - 1);
}

const char *replay_signature_text(const struct replay_signature *signature, const char *comm,
                                  char text[REPLAY_TEXT])
{
    size_t used = min_size((size_t)snprintf(text, REPLAY_TEXT, "%s", calls[signature->kind]),
                           REPLAY_TEXT - 1);

    if (signature->kind == REPLAY_CHOICE) {
        snprintf(text + used, REPLAY_TEXT - used, " of site %llu",
                 (unsigned long long)((uint64_t)(uint32_t)signature->source << 32 |
                                      (uint32_t)signature->tag));
        return text;
    }
    if (signature->kind >= REPLAY_TEST) {
        if (signature->kind != REPLAY_INDEX && signature->kind != REPLAY_TEST &&
            signature->kind != REPLAY_GET_STATUS)
            snprintf(text + used, REPLAY_TEXT - used, " of %u%s requests", signature->requests,
                     signature->requests == REPLAY_REQUESTS_MAX ? " or more" : "");
        return text;
    }
    used += put_source(signature, text + used, REPLAY_TEXT - used);
    used += put_tag(signature, text + used, REPLAY_TEXT - used);
    if (comm != NULL)
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
    else if (outcome->result == REPLAY_AT || outcome->result == REPLAY_VALUE)
        snprintf(text, REPLAY_TEXT, "%llu", (unsigned long long)outcome->value);
    else
        snprintf(text, REPLAY_TEXT, "%s", words[outcome->result]);
    return text;
}
