/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_name.c - which link an address names, and the proof that its owner knows the key.
 */
#include <errno.h>

#include "base/hash.h"
#include "base/mem.h"
#include "transport/siphash.h"
#include "transport/shm/shm.h"

uint64_t shm_proof(const struct shm *shm, uint64_t cookie,
                   const struct transport_address *sender)
{
    struct {
        uint64_t cookie;
        struct transport_address sender;
    } text = {.cookie = cookie};

    text.sender = *sender;
    return siphash(shm->key, &text, sizeof text);
}

uint64_t shm_owner_proof(const struct shm *shm, const struct transport_address *owner)
{
    struct transport_address network = {0};

    address_copy_network(&network, owner);
    return shm_proof(shm, owner->cookie, &network);
}

int link_check_address(const struct shm *shm, const struct transport_address *address)
{
    bool is_passed = passing_is_number(address->process);

    if (address->kind != ADDRESS_SHM || address->process == 0 || address->place > INT32_MAX)
        return -EINVAL;
    if (address->host != shm->address.host)
        return -EHOSTUNREACH;
    /* a host never equals a meeting place */
    return is_passed == passing_is_number(shm->address.process) ? 0 : -EINVAL;
}

/* The parts of an address that tell a link from all others of this endpoint. */
struct link_name {
    uint64_t cookie, proof;
    uint32_t process, place, credit;
};

static struct link_name link_name_of(const struct shm *shm,
                                     const struct transport_address *address)
{
    return (struct link_name){
        .cookie = address->cookie,
        .proof = shm_owner_proof(shm, address),
        .process = address->process,
        .place = address->place,
        .credit = address->credit,
    };
}

/* A cookie is 64 random bits; an owner that chooses it otherwise makes its own lookup
 * slower. */
static uint32_t cookie_hash(uint64_t cookie)
{
    return (uint32_t)hash_mix(cookie);
}

static uint32_t link_hash(const struct link *link)
{
    return cookie_hash(container_of(link, struct shm_link, link)->cookie);
}

/* Does the link lead there, whatever the credit? */
static bool link_leads_to(const struct shm_link *link, const struct link_name *name)
{
    return link->cookie == name->cookie && link->proof == name->proof &&
           link->process == name->process && link->place == name->place;
}

static bool link_is_named(const struct link *l, const void *name)
{
    const struct shm_link *link = container_of(l, struct shm_link, link);

    return link_leads_to(link, name) &&
           link->credit == ((const struct link_name *)name)->credit;
}

const struct link_naming link_naming = {.hash = link_hash, .is = link_is_named};

struct transport_address link_address(const struct shm_link *link)
{
    return (struct transport_address){
        .kind = ADDRESS_SHM,
        .process = link->process,
        .place = link->place,
        .credit = link->credit,
        .cookie = link->cookie,
        .host = shm_of(link->link.transport)->address.host,
    };
}

static struct shm_link *link_make(struct shm *shm, const struct link_name *name)
{
    struct shm_link *link = mem_calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->link.transport = &shm->base;
    link->cookie = name->cookie;
    link->proof = name->proof;
    link->process = name->process;
    link->place = name->place;
    link->credit = name->credit;
    if (link_table_add_link(&shm->links, &link->link) == 0)
        return link;
    mem_free(link);
    return NULL;
}

int link_get(struct shm *shm, const struct transport_address *address, struct shm_link **out)
{
    int err = link_check_address(shm, address);
    struct shm_link *link;
    struct link_name name;
    struct link *known;

    if (err != 0)
        return err;
    name = link_name_of(shm, address);
    known = link_table_find_by(&shm->links, cookie_hash(name.cookie), &name);
    link = known != NULL ? link_of(known) : link_make(shm, &name);
    if (link == NULL)
        return -ENOMEM;
    *out = link;
    return 0;
}

bool link_has_address(const struct shm *shm, const struct shm_link *link,
                      const struct transport_address *address)
{
    struct link_name name;

    if (address->cookie != link->cookie || link_check_address(shm, address) != 0)
        return false;
    name = link_name_of(shm, address);
    return link_leads_to(link, &name);
}
