/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake_pmix.h - the answers that a test sets in the fake libpmix.
 *
 * The fake is a job's server inside the process: a value that was put can be got at once, and a
 * fence completes at once, unless the test sets otherwise.  The code under test loads it as
 * libpmix.so.2; the test finds the same one with dlopen() and dlsym("fake_pmix").
 */
#ifndef FAKE_PMIX_H
#define FAKE_PMIX_H

#include <pmix.h>
#include <stdbool.h>

#define FAKE_VALUES 64

struct fake_value {
    char key[64];
    uint32_t rank;
    pmix_data_type_t type;
    uint32_t number;
    size_t size;
    unsigned char bytes[512];
};

struct fake_pmix {
    pmix_status_t init, put, commit, fence, get; /* the results of the calls */
    pmix_status_t fence_answer, get_answer;      /* the later answers */
    bool fence_waits, get_waits;                 /* until fake_pmix_answer() */
    uint32_t rank;
    int inits, finalizes, fences, exchanges;
    struct fake_value values[FAKE_VALUES]; /* key "": no value */
    /* the callbacks of calls that wait */
    pmix_op_cbfunc_t fence_done;
    pmix_value_cbfunc_t get_done;
    void *arg;
};

#endif
