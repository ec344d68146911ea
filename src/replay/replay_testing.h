/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay_testing.h - what the tests of records share: a folder for the record of rank 2, and what was logged.
 *
 * A file that includes this also includes cmocka.h.
 */
#ifndef REPLAY_REPLAY_TESTING_H
#define REPLAY_REPLAY_TESTING_H

#include <stddef.h>

#include "base/temporary.h"
#include "replay/replay.h"

extern char folder[TEMPORARY_SIZE], said[8192];
extern const struct replay_job job;

/* Around each test: the folder is made, and nothing is left in it. */
int setup(void **state);
int teardown(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* The path of a file in the folder, until the next call. */
const char *path_of(const char *name);
void remove_records(void);

struct replay_writer *open_writer(void);
struct replay_reader *open_reader(void);

/* Makes the file of places. */
void put_places(const char *text, size_t size);

#endif
