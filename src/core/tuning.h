/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuning.h - what users do not set: it is constant, or follows from the parameters.
 *
 *   MBX_RNDV          advert, split_copy       how eagerly the protocols beside reading are tried
 *   MBX_EAGER_LIMIT   advert_size        twice the limit: below, a message costs less than the
 *                                      announcement; at least ADVERT_SIZE_LEAST
 *                     buffers_size        auto: BUFFERS_SIZE; else the limit
 *   MBX_SPIN          device_spin_ns   at most DEVICE_SPIN_MOST
 *   constants         the others
 *
 * settings_load() sets it all.  Tests want other values, so a program that links testing/ has
 * parameters for them: rows of tuning_extension, whose offsets lead into struct tuning.
 */
#ifndef CORE_TUNING_H
#define CORE_TUNING_H

#include "base/param.h"

/* When is a protocol tried?  BY_RNDV: as MBX_RNDV says; settings_load() leaves none of these. */
enum tuning_when { TUNING_BY_RNDV, TUNING_AUTO, TUNING_ALWAYS, TUNING_OFF };

struct tuning {
    uint64_t advert, split_copy; /* enum tuning_when */
    uint64_t advert_size;        /* smaller receives are not announced */
    uint64_t split_copy_size;    /* shorter messages are copied by one side */
    uint64_t
        read_chunk; /* one step of a rendezvous reads so much before others get their turn */
    uint64_t rts_payload;    /* so much travels with an RTS; auto: rndv.c */
    uint64_t inject_limit;   /* the longest message that may be injected */
    uint64_t buffers_size;   /* the longest message in bounce buffers: p2p/path.h */
    uint64_t sendtable;      /* bool: deferred sends lie where their receiver pulls them */
    uint64_t calm_least;     /* receives without a deferral before open receives have no list */
    uint64_t device_buffers; /* for what a device passes to software; auto: driver.h */
    uint64_t device_spin_ns; /* a device elsewhere polls so long before it sleeps */
    uint64_t device_answer_ns;             /* and may take so long to begin */
    char device_program[PARAM_STRING_MAX]; /* "": looked for beside the library */
};

/* Rows of a program that has more parameters (testing/).  Set before anything is opened. */
struct tuning_extension {
    const struct param *params;
    size_t count;
};

extern const struct tuning_extension *tuning_extension; /* NULL: there is none */

#endif
