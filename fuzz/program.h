/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.h - an input of the fuzzer is a program: each byte chooses an action, the following
 * ones its arguments, and every input is valid.
 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t size;
};

/* The next byte; 0 after the end. */
static inline uint8_t take(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

/* Ends the process with the violated property, unless ok. */
void require(bool ok, const char *what);

#endif
