/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_testing.h - what the tests of traces share: a folder, a story that is recorded and read back, and
 * the bytes of its file.
 *
 *   story = long_at                     which events there are
 *   make_file(n)                        the first n of them are recorded: trace_path(0)
 *   size = load_file(trace_path(0))     the file is in bytes[0..size)
 *   bytes[at] ^= 1                      it is damaged,
 *   put_check(begin, ...)               or forged
 *   store_file(trace_path(0), size)
 *   read_file(trace_path(0), n, ...)    events of the story, and what is said of the rest
 *
 * A file that includes this also includes cmocka.h.
 */
#ifndef TRACE_TRACE_TESTING_H
#define TRACE_TRACE_TESTING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/temporary.h"
#include "trace/trace.h"

/* ---- around each test ---- */

#define TICK_NS 7u

extern char folder[TEMPORARY_SIZE];
extern unsigned warnings;
extern uint64_t now_ns; /* of the clock, which goes on by TICK_NS each time */

/* Nothing is left of files, memory, descriptors, mappings. */
int set_up_folder(void **state);
int tear_down_folder(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_folder, tear_down_folder)

/* ---- stories ---- */

/* The i-th event of a story. */
typedef struct trace_event story_fn(unsigned i);

/* The story that is recorded, and that a file must have; each test begins with event_at. */
extern story_fn *story;

/* All types, and extreme values, occur. */
struct trace_event event_at(unsigned i);

/* All of them are long records. */
struct trace_event long_at(unsigned i);

/* ---- files of events ---- */

extern const struct trace_info job; /* of rank 3 */

/* The n-th file of this process, or of another one. */
const char *trace_path(unsigned n);
const char *trace_path_of(pid_t pid, unsigned n);

int start_recorder(uint32_t rank, struct trace_recorder **recorder);
void record_story(struct trace_recorder *recorder, unsigned count);

/* Writes the file of number 0. */
void make_file(unsigned count);

void assert_event(const struct trace_event *got, const struct trace_event *want);

/* Reads until the end or an error: *count events, each as it was recorded, the close not
 * counted.  Returns what trace_open() or trace_next() said last. */
int read_file(const char *path, unsigned total, unsigned *count, char *error);

/* ---- files as bytes ---- */

#define BYTES_MAX (5000 * TRACE_RECORD_SIZE)

extern unsigned char bytes[BYTES_MAX];

size_t load_file(const char *path);
void store_file(const char *path, size_t size);

/* The size of the record that begins there. */
size_t size_at(const unsigned char *file, size_t at);

/* So many records of the file are whole before there; *begin, if it is not NULL: where the next one begins. */
unsigned records_before(const unsigned char *file, size_t end, size_t *begin);

uint64_t number_at(size_t at, unsigned size);

/* The check of bytes [from, from + size), and the number in it: the formula of docs/reference/trace-format.md. */
void put_check(size_t from, size_t size, size_t at, uint64_t number);

/* ---- tests for records of each size ---- */

/* Files of few and of many events of a story are read as they were recorded. */
void try_round_trips(story_fn *of);

/* The story is killed while its last record is written, for which the file has just space: `torn` bytes of it are
 * missing. */
void try_kill_at_the_end(unsigned whole, size_t torn);

/* A file of so many events of the story is cut after each byte, or each of its bits is turned: what is whole before is read. */
void try_each_cut(unsigned events);
void try_each_bit(unsigned events);

/* The third and the fourth record of a file of ten events, which are of this size, change places.  Returns the size of the file. */
size_t try_swap(size_t record);

/* In the third record of a file of three events, which is of this size, `length` bytes from there on are these, and the check is right:
 * what is said of it. */
const char *said_of_forged(size_t record, size_t at, const unsigned char *forged,
                           size_t length);

#endif
