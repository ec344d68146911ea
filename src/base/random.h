/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.h - numbers from a seed, and secrets from the system.
 *
 * struct random (xoshiro256**, seeded through splitmix64) gives the same sequence
 * on every machine for the same seed; it is for tests, simulation and hashing,
 * never for secrets.  random_secret() is for values that an adversary must not guess: hash
 * seeds and the tokens of an address.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state[4];
};

/* Any seed is good, including 0. */
void random_seed(struct random *r, uint64_t seed);

/* 64 random bits. */
uint64_t random_next(struct random *r);

/* Uniform in 0 .. bound-1, without bias; bound must not be 0. */
uint64_t random_below(struct random *r, uint64_t bound);

/* Fills [buffer, buffer+size) from the system's generator.
 * Returns 0, or the negative errno of getrandom(); then the contents are undefined. */
int random_secret(void *buffer, size_t size);

/* From now on random_secret() gives the sequence of this seed: for tests that must repeat.  The
 * whole process shares it; threads take turns. */
void random_secret_set(uint64_t seed);

/* Restores the system's generator. */
void random_secret_reset(void);

#endif
