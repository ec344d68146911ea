/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.c - the envelope of an address.
 *
 *   offset    size  field
 *        0       1  0x30: version 1 of UCX's addresses, with an identity and a name
 *        1       8  identity
 *        9       1  length of the name, n
 *       10       n  name: "matchbox rank 3"
 *     10+n       1  0xff: no further entries
 *     11+n       4  "MBXU"
 *     15+n       2  size of this part, from "MBXU" to its end
 *     17+n       2  UCPX_ADDRESS_VERSION
 *     19+n      64  struct mbx_address
 *     83+n       4  rank
 *     87+n       4  id of the process
 *     91+n       8  job
 *     99+n      20  name of the host
 *    119+n       8  hash of all bytes before it
 *
 * A rank that runs over UCX reads an address without transports, of a worker that has our name: it says so and
 * ends.  A rank that runs over us recognises an address of UCX by its beginning.
 */
#include "ucp/address.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/hash.h"
#include "base/launcher.h"
#include "base/log.h"
#include "ucp/door.h"

#define UCPX_ADDRESS_VERSION 2

#define HEAD                 0x30
#define END                  0xff
#define NAME_AT              10
#define NAME_MAX             (UCPX_NAME_SIZE - 1)
#define NAME_BEGIN           "matchbox"

static const char mark[4] = {'M', 'B', 'X', 'U'};

/* Our part, without padding. */
struct part {
    char mark[4];
    uint16_t size, version;
    struct mbx_address address;
    uint32_t rank, process;
    uint32_t job[2];
    char host[UCPX_HOST_SIZE];
    uint32_t hash[2];
};

static_assert(sizeof(struct part) == 116, "as it is drawn above");
static_assert(NAME_AT + NAME_MAX + 1 + sizeof(struct part) <= UCPX_ADDRESS_MAX,
              "space for all");

static uint64_t hash_of(const void *bytes, size_t size)
{
    unsigned char padded[(UCPX_ADDRESS_MAX + 7) & ~7] = {0};

    memcpy(padded, bytes, size);
    return hash_bytes(padded, round_up(size, 8));
}

static size_t pack_head(const struct ucpx_address *address, unsigned char *bytes)
{
    char name[NAME_MAX + 1];
    size_t length;

    if (address->rank == UCPX_NO_RANK)
        snprintf(name, sizeof name, NAME_BEGIN);
    else
        snprintf(name, sizeof name, NAME_BEGIN " rank %u", address->rank);
    length = strlen(name);
    bytes[0] = HEAD;
    memcpy(bytes + 1, &address->identity, sizeof address->identity);
    bytes[NAME_AT - 1] = (unsigned char)length;
    memcpy(bytes + NAME_AT, name, length);
    bytes[NAME_AT + length] = END;
    return NAME_AT + length + 1;
}

size_t ucpx_address_pack(const struct ucpx_address *address, unsigned char *bytes)
{
    struct part part = {.size = sizeof part,
                        .version = UCPX_ADDRESS_VERSION,
                        .address = address->address,
                        .rank = address->rank,
                        .process = address->who.process};
    size_t at = pack_head(address, bytes);
    uint64_t hash;

    memcpy(part.mark, mark, sizeof mark);
    memcpy(part.job, &address->job, sizeof address->job);
    memcpy(part.host, address->who.host, sizeof part.host);
    memcpy(bytes + at, &part, sizeof part);
    hash = hash_of(bytes, at + offsetof(struct part, hash));
    memcpy(bytes + at + offsetof(struct part, hash), &hash, sizeof hash);
    return at + sizeof part;
}

/* Where our part begins; 0: it is not there. */
static size_t read_head(struct ucpx_address *address, const unsigned char *bytes)
{
    size_t length;

    memset(address->name, 0, sizeof address->name);
    if (bytes[0] != HEAD)
        return 0;
    length = bytes[NAME_AT - 1];
    if (length > NAME_MAX)
        return 0;
    memcpy(address->name, bytes + NAME_AT, length);
    if (length < strlen(NAME_BEGIN) ||
        memcmp(address->name, NAME_BEGIN, strlen(NAME_BEGIN)) != 0)
        return 0;
    memcpy(&address->identity, bytes + 1, sizeof address->identity);
    if (bytes[NAME_AT + length] != END ||
        memcmp(bytes + NAME_AT + length + 1, mark, sizeof mark) != 0)
        return 0;
    return NAME_AT + length + 1;
}

enum ucpx_address_is ucpx_address_read(struct ucpx_address *address, const void *from)
{
    const unsigned char *bytes = from;
    size_t at = read_head(address, bytes);
    struct part part;
    uint64_t hash;

    if (at == 0)
        return UCPX_ADDRESS_OF_UCX;
    memcpy(&part, bytes + at, offsetof(struct part, address));
    if (part.version != UCPX_ADDRESS_VERSION)
        return UCPX_ADDRESS_OF_OTHER_VERSION;
    if (part.size != sizeof part)
        return UCPX_ADDRESS_DAMAGED;
    memcpy(&part, bytes + at, sizeof part);
    memcpy(&hash, part.hash, sizeof hash);
    if (hash != hash_of(bytes, at + offsetof(struct part, hash)))
        return UCPX_ADDRESS_DAMAGED;
    address->address = part.address;
    address->rank = part.rank;
    memcpy(&address->job, part.job, sizeof address->job);
    address->who.process = part.process;
    memcpy(address->who.host, part.host, sizeof part.host);
    address->who.host[sizeof part.host - 1] = '\0';
    return UCPX_ADDRESS_OURS;
}

ucs_status_t ucpx_address_check(struct ucpx_address *address, const void *bytes)
{
    enum ucpx_address_is is = ucpx_address_read(address, bytes);
    char of[UCPX_NAME_SIZE + 16] = "";

    if (address->name[0] != '\0')
        snprintf(of, sizeof of, " of '%s'", address->name);
    switch (is) {
    case UCPX_ADDRESS_OURS:
        return UCS_OK;
    case UCPX_ADDRESS_OF_UCX:
        LOG_ERROR(
            "libucp: received an address of UCX 1.x%s: that rank does not use Matchbox's "
            "libucp (check its LD_LIBRARY_PATH and RPATH); start all ranks with `mbx exec`",
            of);
        return UCS_ERR_UNREACHABLE;
    case UCPX_ADDRESS_OF_OTHER_VERSION:
        LOG_ERROR(
            "libucp: received an address of another version of Matchbox%s; use the same on "
            "all hosts",
            of);
        return UCS_ERR_UNREACHABLE;
    case UCPX_ADDRESS_DAMAGED:
        break;
    }
    LOG_ERROR("libucp: received a damaged address%s; please report this", of);
    return UCS_ERR_INVALID_ADDR;
}

/* ---- this process ---- */

void ucpx_address_describe(struct ucpx_address *address)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID",
                                        "SLURM_STEP_ID"};
    uint64_t job = 0;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        for (const char *at = environ_get(names[i]); at != NULL && *at != '\0'; at++)
            job = hash_spread(job ^ (unsigned char)*at ^ (uint64_t)(i + 1) << 8);
    address->job = job;
    address->rank = launcher_number(launcher_rank());
    address->who = (struct ucpx_who){.process = (uint32_t)getpid()};
    (void)gethostname(address->who.host, sizeof address->who.host - 1);
}
