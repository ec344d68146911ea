/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_testing.h - shared code of the shared memory tests: endpoints that count packets,
 * children that run a story, and a page that all of them see.
 *
 *   test                               child, forked before an endpoint is opened
 *   child = start(story)       --->    story()
 *   node_open_as(&node, 0)             stage_await(1)
 *   stage_set(1)               --->    connect_to(&node, 0)
 *   await(&node, n)            <---    stream(&node, link, 0, n)
 *   ended_well(child)          <---    returns
 *
 * A packet's contents follow from its number, so a receiver can check them: each node receives
 * the numbers from 0 on.
 *
 * CHECK ends the process, in a child as in the test itself: the test cannot continue after it
 * fails.  A file that includes this also includes cmocka.h.
 */
#ifndef SHM_SHM_TESTING_H
#define SHM_SHM_TESTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/patience.h"
#include "transport/shm/shm.h"

#define CHECK(condition) ((condition) ? (void)0 : story_failed(__FILE__, __LINE__, #condition))

void story_failed(const char *file, int line, const char *condition)
    __attribute__((noreturn, cold));

/* ---- the board: memory of test and child ---- */

struct board {
    struct transport_address address[4]; /* by the number given to node_open_as() */
    uint64_t remote, key;                /* of exposed memory */
    _Atomic uint64_t number;             /* the test's own */
    _Atomic uint32_t stage;              /* the step that the story has reached */
    char text[256];                      /* text of the child; each test defines its meaning */
};

extern struct board *board;

/* stage_await() sees all writes to the board before stage_set(). */
void stage_set(uint32_t stage);
void stage_await(uint32_t stage);

/* ---- an endpoint and its packets ---- */

struct node {
    struct transport *t;
    struct link *link; /* accepted last */
    uint64_t arrived;  /* packets: the number that must come next */
    uint32_t accepted, dropped;
    bool wrong; /* a wrong packet came */
    const char *reason;
};

struct transport_config config_for(struct node *node);

/* 0, or the error of open(). */
int node_open_with(struct node *node, const struct transport_config *config);
int node_open(struct node *node);
int node_open_as(struct node *node, unsigned i); /* others find it as number i */
void node_close(struct node *node);

struct link *connect_to(struct node *node, unsigned i);

/* Like connect_to(), and maps the peer's segment: an owner that passes its segment answers only
 * when it gets a core, and until then packets and reads are refused. */
struct link *attach_to(struct node *node, unsigned i);
struct shm *inside(const struct node *node);

/* Slots with a sender, or not yet released. */
unsigned slots_taken(const struct node *node);

/* Polls and sleeps until no slot is taken. */
void await_free_slots(struct node *node);

/* ---- packets ---- */

#define PAYLOAD_MAX 2000

/* Payloads are shorter than this: PAYLOAD_MAX, or what a test sets before it forks. */
extern bool nodes_pass; /* pass segments as descriptors: passing.h */
extern size_t payload_limit;

/* Byte i of a payload, or of memory, with this number. */
unsigned char byte_of(uint64_t number, size_t i);

int send_number(struct link *link, uint64_t number);

/* Is this what send_number() sends? */
bool is_packet(uint64_t number, const void *packet, size_t size);

/* Sends all of [first, end), and sleeps when there is no space. */
void stream(struct node *node, struct link *link, uint64_t first, uint64_t end);

/* Sleeps until count packets have come. */
void await(struct node *node, uint64_t count);

/* ---- children ---- */

/* One child at a time; tear_down() kills a child that a failed test has left. */
pid_t start(void (*story)(void));

bool has_ended(pid_t child);
void ended_well(pid_t child);

/* A story: opens number 1, exposes 100,000 bytes of byte_of(5, i), and waits to be killed. */
void only_exist(void);

/* The child is dead on return, but not reaped: a zombie. */
void kill_unreaped(pid_t child);
void reap(pid_t child);

/* ---- around each test, and around all ---- */

int set_up(void **state);
int tear_down(void **state); /* checks for leaks of memory, descriptors, mappings */

int set_up_all(void **state);
int tear_down_all(void **state);

/* Is "passed" on the command line: segments are passed as descriptors (nodes_pass)? */
bool is_passed(int argc, char **argv);

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
