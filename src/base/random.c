/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.c - xoshiro256** and splitmix64 (Blackman, Vigna), and getrandom().
 */
#include "base/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "base/sys.h"

static struct {
    pthread_mutex_t lock; /* guards the members below */
    bool replaced;
    struct random sequence;
} secret = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t rotate_left(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void random_seed(struct random *r, uint64_t seed)
{
    for (size_t i = 0; i < ARRAY_COUNT(r->state); i++)
        r->state[i] = splitmix_next(&seed);
}

uint64_t random_next(struct random *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *r, uint64_t bound)
{
    uint64_t skip, value;

    assert(bound != 0);
    skip = -bound % bound; /* 2^64 mod bound: the values from here on are a multiple of bound */
    do {
        value = random_next(r);
    } while (value < skip);
    return value % bound;
}

static void fill_from_sequence(unsigned char *bytes, size_t size)
{
    while (size > 0) {
        uint64_t value = random_next(&secret.sequence);
        size_t part = min_size(size, sizeof value);

        memcpy(bytes, &value, part);
        bytes += part;
        size -= part;
    }
}

int random_secret(void *buffer, size_t size)
{
    bool replaced;

    pthread_mutex_lock(&secret.lock);
    replaced = secret.replaced;
    if (replaced)
        fill_from_sequence(buffer, size);
    pthread_mutex_unlock(&secret.lock);
    if (replaced)
        return 0;
    return sys_getrandom(buffer, size) < 0 ? -errno : 0;
}

void random_secret_set(uint64_t seed)
{
    pthread_mutex_lock(&secret.lock);
    secret.replaced = true;
    random_seed(&secret.sequence, seed);
    pthread_mutex_unlock(&secret.lock);
}

void random_secret_reset(void)
{
    pthread_mutex_lock(&secret.lock);
    secret.replaced = false;
    pthread_mutex_unlock(&secret.lock);
}
