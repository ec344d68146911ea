/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tuning.h - values that users do not set: constants, or derived from the parameters.
 *
 *   MBX_RNDV          advert, split_copy  when the protocols other than reading are tried
 *   MBX_EAGER_LIMIT   advert_size         twice the limit, since a shorter message costs less than
 *                                         the announcement; at least ADVERT_SIZE_LEAST
 *                     buffers_size        auto: BUFFERS_SIZE; otherwise the limit
 *   MBX_SPIN          device_spin_ns      at most DEVICE_SPIN_MOST
 *   constants         the others
 *
 * settings_load() sets all of them.  Tests need other values, so a program that links testing/
 * has parameters for them: rows of tuning_extension, whose offsets lead into struct tuning.
 */
#ifndef CORE_TUNING_H
#define CORE_TUNING_H

#include "base/param.h"

/* When is a protocol tried?  BY_RNDV: according to MBX_RNDV; settings_load() replaces it. */
enum tuning_when { TUNING_BY_RNDV, TUNING_AUTO, TUNING_ALWAYS, TUNING_OFF };

struct tuning {
    uint64_t advert, split_copy; /* enum tuning_when */
    uint64_t advert_size;        /* smaller receives are not announced */
    uint64_t split_copy_size;    /* shorter messages are copied by one side */
    uint64_t
        read_chunk; /* bytes that one step of a rendezvous reads before other requests get their
                       turn */
    uint64_t rts_payload;    /* payload bytes in an RTS; auto: rndv.c */
    uint64_t inject_limit;   /* the longest message that may be injected */
    uint64_t buffers_size;   /* the longest message in bounce buffers: p2p/path.h */
    uint64_t sendtable;      /* bool: receivers can pull deferred sends from shared memory */
    uint64_t calm_least;     /* receives without a deferral until the list of open receives is
                                dropped */
    uint64_t device_buffers; /* buffers for messages that a device passes to software; auto:
                                driver.h */
    uint64_t device_spin_ns; /* polling time of a device in another process before it sleeps */
    uint64_t device_answer_ns;             /* the longest time until its first answer */
    char device_program[PARAM_STRING_MAX]; /* "": searched for next to the library */
};

/* More parameters, of a program with testing/.  Set before anything is opened. */
struct tuning_extension {
    const struct param *params;
    size_t count;
};

extern const struct tuning_extension *tuning_extension; /* NULL: there is none */

#endif
