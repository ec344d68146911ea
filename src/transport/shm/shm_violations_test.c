/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_violations_test.c - shared memory with processes that break its protocol.
 *
 * A process that can open a segment can write anything to it at any time.  The tests check that
 * a process without the key is ignored, that a damaged ring costs only the link that damaged
 * it, and that no contents make us access unmapped memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "matchbox/matchbox.h"
#include "transport/siphash.h"
#include "transport/shm/shm_testing.h"

/* ---- proofs ---- */

static void proofs_are_siphash(UNUSED void **state)
{
    static const uint8_t key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

    /* the example of the paper: the bytes 0 to 14 */
    assert_int_equal(siphash(key, key, 15), UINT64_C(0xa129ca6149be45e5));
    assert_int_equal(siphash(key, key, 0), UINT64_C(0x726fdb47dd0e0e31));
    assert_int_equal(siphash(key, key, 8), UINT64_C(0x93f5f5799a932462));
}

/* ---- senders without the key ---- */

static void another_jobs_key_is_refused(UNUSED void **state)
{
    struct node owner, sender;
    struct transport_config config = config_for(&sender);

    assert_int_equal(node_open_as(&owner, 0), 0);
    config.key[15]++;
    assert_int_equal(node_open_with(&sender, &config), 0);
    assert_int_equal(send_number(connect_to(&sender, 0), 0), -EHOSTUNREACH);
    transport_shm.poll(owner.t, 16);
    assert_int_equal(slots_taken(&owner), 0);
    node_close(&sender);
    node_close(&owner);
}

/* A process that can open the segment, but does not know the key. */
static void a_sender_without_proof_is_refused(UNUSED void **state)
{
    struct node owner, byzantine;
    struct link *link;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(node_open(&byzantine), 0);
    link = connect_to(&byzantine, 0);
    assert_int_equal(link_attach(link_of(link)), 0); /* attaches without a check of the key */
    inside(&byzantine)->key[0]++;
    assert_int_equal(send_number(link, 0), 0);
    transport_shm.poll(owner.t, 16);
    assert_int_equal(owner.accepted + owner.arrived, 0);
    assert_int_equal(owner.dropped, 1);
    assert_string_equal(owner.reason, "sender does not know the job's key");
    assert_int_equal(transport_shm.wait(owner.t, CLOCK_MS), -ETIMEDOUT);
    assert_int_equal(send_number(link, 1), -EHOSTUNREACH);
    await_free_slots(&owner);
    node_close(&byzantine);
    node_close(&owner);
}

/* A proof is good for one address ... */
static void a_proof_of_another_sender_is_refused(UNUSED void **state)
{
    struct node owner, byzantine;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(node_open(&byzantine), 0);
    assert_int_equal(send_number(connect_to(&byzantine, 0), 0), 0);
    inside(&owner)->own->slots[0].address.place++;
    transport_shm.poll(owner.t, 16);
    assert_int_equal(owner.accepted + owner.arrived, 0);
    assert_int_equal(owner.dropped, 1);
    node_close(&byzantine);
    await_free_slots(&owner);
    node_close(&owner);
}

/* ... and one receiver: the receiver that got it cannot use it elsewhere. */
static void a_proof_for_another_receiver_is_refused(UNUSED void **state)
{
    struct node owner, byzantine, correct;
    struct segment_slot *given, *used;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(node_open_as(&byzantine, 1), 0);
    assert_int_equal(node_open(&correct), 0);
    assert_int_equal(send_number(connect_to(&correct, 1), 0), 0);
    assert_int_equal(send_number(connect_to(&byzantine, 0), 0), 0);
    given = &inside(&byzantine)->own->slots[0];
    used = &inside(&owner)->own->slots[0];
    used->address = given->address;
    used->proof = given->proof;
    transport_shm.poll(owner.t, 16);
    assert_int_equal(owner.accepted + owner.arrived, 0);
    assert_int_equal(owner.dropped, 1);
    await(&byzantine, 1);
    node_close(&correct);
    await_free_slots(&byzantine);
    node_close(&byzantine);
    await_free_slots(&owner);
    node_close(&owner);
}

/* ---- damage ---- */

/* Overwrites the length in the next record of link. */
static void damage_frame(struct link *link, uint32_t frame)
{
    const struct ring_producer *out = &link_of(link)->out;

    atomic_store(ring_frame(out->shared, (uint32_t)out->tail & (out->cell_count - 1)), frame);
}

static void drop_damaged(uint32_t frame)
{
    struct node owner, byzantine, correct;
    struct link *link;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(node_open(&byzantine), 0);
    assert_int_equal(node_open(&correct), 0);
    link = connect_to(&byzantine, 0);
    assert_int_equal(send_number(link, 0), 0);
    await(&owner, 1);
    damage_frame(link, frame);
    for (unsigned i = 0; i < 5; i++)
        transport_shm.poll(owner.t, 16);
    assert_int_equal(owner.arrived, 1);
    assert_int_equal(owner.dropped, 1);
    assert_string_equal(owner.reason, "damaged ring");
    assert_int_equal(send_number(link, 1), -EHOSTUNREACH);
    assert_int_equal(send_number(connect_to(&correct, 0), 1), 0);
    await(&owner, 2);
    node_close(&byzantine);
    node_close(&correct);
    await_free_slots(&owner);
    node_close(&owner);
}

static void a_damaged_ring_is_dropped(UNUSED void **state)
{
    struct node node;
    uint32_t longest;

    assert_int_equal(node_open(&node), 0);
    longest = ring_max_record(inside(&node)->own->ring_cells);
    node_close(&node);
    drop_damaged(1);
    drop_damaged(RING_FRAME_SIZE - 1);
    drop_damaged(longest + 1);
    drop_damaged(longest * 4); /* longer than the ring */
    drop_damaged(UINT32_MAX - 1);
}

static void a_receiver_that_breaks_the_ring_is_left(UNUSED void **state)
{
    struct node owner, sender;
    struct link *link;
    uint64_t number = 0;
    int err;

    assert_int_equal(node_open_as(&owner, 0), 0);
    assert_int_equal(node_open(&sender), 0);
    link = connect_to(&sender, 0);
    do /* there is no reader, so the mailbox is soon full */
        assert_int_equal(send_number(link, number++), 0);
    while (link_of(link)->state != LINK_OPEN);
    atomic_store(&link_of(link)->out.shared->head, UINT64_MAX / 2);
    while ((err = send_number(link, number)) == 0)
        number++;
    assert_int_equal(err, -ENOTCONN);
    assert_int_equal(send_number(link, number), -ENOTCONN);
    node_close(&sender);
    node_close(&owner);
}

/* ---- noise ---- */

/* Overwrites any byte that others can write: the control page, the slots, the beginning of ring
 * 0. */
static void corrupt_anywhere(struct segment *own, struct random *r)
{
    unsigned char *block = (unsigned char *)own->control,
                  *rest = (unsigned char *)own->file->words;
    size_t block_size = (size_t)((unsigned char *)(own->slots + own->peers) - block);
    size_t rest_size = (size_t)(own->file->rings - rest) + 1024;
    size_t at_byte = sizeof(struct segment_head) +
                     random_below(r, block_size + rest_size - sizeof(struct segment_head));
    unsigned char *at = at_byte < block_size ? block + at_byte : rest + (at_byte - block_size);

    *at = (unsigned char)(random_next(r) >> 56 >> random_below(r, 9)); /* often small */
}

/* Overwrites the frame word of one of the last records of this link, or of the next record. */
static void corrupt_frame(struct shm_link *link, struct random *r)
{
    const struct ring_producer *out = &link->out;
    uint32_t cell = (uint32_t)(out->tail - random_below(r, 4)) & (out->cell_count - 1);
    uint32_t frame = (uint32_t)random_next(r) >> random_below(r, 32);

    if (link_has_slot(link))
        atomic_store(ring_frame(out->shared, cell), frame);
}

/* The life of an endpoint among processes that corrupt its segment. */
static void endure(uint64_t seed)
{
    struct node owner, sender;
    struct shm_link *link;
    struct random r;

    random_seed(&r, seed);
    CHECK(node_open_as(&owner, 0) == 0);
    CHECK(node_open(&sender) == 0);
    link = link_of(connect_to(&sender, 0));
    for (unsigned i = 0; i < 400; i++) {
        struct segment *own = inside(&owner)->own;
        uint64_t dice = random_below(&r, 100);

        if (dice < 30)
            corrupt_anywhere(own, &r);
        else if (dice < 32)
            corrupt_frame(link, &r);
        else if (dice < 60)
            send_number(&link->link, i);
        else if (dice < 70)
            atomic_fetch_add(&own->control->doorbell.count, 1);
        else if (dice < 72)
            inbound_sweep(inside(&owner), 8);
        else
            transport_shm.poll(owner.t, 4);
    }
    node_close(&sender);
    node_close(&owner);
}

/* Runs in a child: if it crashes, the board has the seed. */
static void endure_all(void)
{
    uint64_t mem = mem_live();
    int64_t fds = sys_fds_live(), maps = sys_maps_live();

    for (uint64_t seed = 1; seed <= 1000; seed++) {
        atomic_store(&board->number, seed);
        endure(seed);
        CHECK(mem_live() == mem && sys_fds_live() == fds && sys_maps_live() == maps);
    }
    atomic_store(&board->number, 0);
}

static void noise_in_the_segment_is_survived(UNUSED void **state)
{
    pid_t child = start(endure_all);

    while (!has_ended(child))
        usleep(1000);
    if (atomic_load(&board->number) != 0)
        print_error("seed %u\n", (unsigned)atomic_load(&board->number));
    ended_well(child);
}

/* ---- heads and files of segments ---- */

#define ENOUGH UINT32_MAX /* a stage: the child may end */

/* Maps the segment at address 0 once for each even stage, and reports the result. */
static void attach_on_demand(void)
{
    struct node node;

    stage_await(1);
    CHECK(node_open(&node) == 0);
    for (uint32_t stage = 2;; stage += 2) {
        struct link *link;

        stage_await(stage);
        if (atomic_load(&board->stage) == ENOUGH)
            break;
        link = connect_to(&node, 0);
        atomic_store(&board->number, (uint64_t)-link_attach_all(link_of(link)));
        link_destroy(link_of(link)); /* forgets the link, which nothing else would */
        link_table_fini(&inside(&node)->links);
        stage_set(stage + 1);
    }
    node_close(&node);
}

/* The child's result of mapping address 0 now. */
static int attached_elsewhere(void)
{
    uint32_t stage = atomic_load(&board->stage) + 1;

    stage_set(stage);
    stage_await(stage + 1);
    return -(int)atomic_load(&board->number);
}

/* Opens an owner, and a child that maps its segment. */
static pid_t open_watched(struct node *owner)
{
    pid_t child = start(attach_on_demand);

    assert_int_equal(node_open_as(owner, 0), 0);
    stage_set(1);
    assert_int_equal(attached_elsewhere(), 0);
    return child;
}

static void close_watched(struct node *owner, pid_t child)
{
    assert_int_equal(attached_elsewhere(), 0);
    stage_set(ENOUGH);
    ended_well(child);
    node_close(owner);
}

static void a_damaged_head_is_not_believed(UNUSED void **state)
{
    struct segment_head *head, good, bad[10];
    struct node owner;
    pid_t child = open_watched(&owner);

    head = &inside(&owner)->control->head;
    good = *head;
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++)
        bad[i] = good;
    bad[0].magic++;
    bad[1].cookie++;
    bad[2].key_check++;
    bad[3].peers = 0;
    bad[4].peers++;
    bad[5].peers = UINT32_MAX;
    bad[6].ring_cells *= 2;
    bad[7].ring_cells--;
    bad[8].long_shift = SEGMENT_LONG_SHIFT_MAX + 1;
    bad[9].long_shift ^= 1;
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        *head = bad[i];
        assert_int_equal(attached_elsewhere(), -EHOSTUNREACH);
    }
    *head = good;
    close_watched(&owner, child);
}

/* Keeps the child's log line if it names both versions and the remedy. */
static void note_version(UNUSED void *arg, enum log_level level, const char *text)
{
    char ours[96];

    snprintf(ours, sizeof ours,
             ", this process has Matchbox %s (formats %u and %u):", mbx_version(),
             SEGMENT_VERSION, WIRE_VERSION);
    if (level == LOG_LEVEL_WARN && strstr(text, ours) != NULL &&
        strstr(text, "both processes must use the same version of Matchbox") != NULL &&
        strncmp(text, "shm: pid ", strlen("shm: pid ")) == 0)
        snprintf(board->text, sizeof board->text, "%s", text);
}

static void attach_and_note(void)
{
    log_set_sink(note_version, NULL);
    attach_on_demand();
}

/* Writes the head into the segment's file, and to its control block if that is elsewhere. */
static void put_head(struct node *owner, const struct segment_head *head)
{
    struct segment *own = inside(owner)->own;

    *(struct segment_head *)own->file->base = *head;
    own->control->head = *head;
}

/* The version has an error code of its own, and a log line names both versions. */
static void a_segment_of_another_version_is_named(UNUSED void **state)
{
    static const char *const says[] = {
        "has Matchbox 7.8.9 (formats 10 and 10)",
        "has an earlier version of Matchbox",
    };
    struct segment_head good, bad[4], another;
    pid_t child = start(attach_and_note);
    struct node owner;

    assert_int_equal(node_open_as(&owner, 0), 0);
    stage_set(1);
    good = inside(&owner)->control->head;
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++)
        bad[i] = good;
    bad[0].version =
        (struct version){.format = 10, .packets = 10, .major = 7, .minor = 8, .patch = 9};
    bad[1].magic = UINT64_C(0x38786f626863746d); /* "mtchbox8": no mark, the cookie there */
    memcpy(&bad[1].version, &good.cookie, sizeof bad[1].version);
    bad[1].cookie = 0;
    bad[2].version.packets++;
    bad[3].version.format++;
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        put_head(&owner, &bad[i]);
        board->text[0] = '\0';
        assert_int_equal(attached_elsewhere(), -EPROTONOSUPPORT);
        assert_true(board->text[0] != '\0');
        if (i < ARRAY_COUNT(says))
            assert_non_null(strstr(board->text, says[i]));
    }
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) { /* the same, with another cookie */
        another = bad[i];
        another.cookie++;
        if (i == 1)
            another.version.format ^= 1;
        put_head(&owner, &another);
        board->text[0] = '\0';
        assert_int_equal(attached_elsewhere(), -EHOSTUNREACH);
        assert_true(board->text[0] == '\0');
    }
    board->text[0] = '\0';
    good.version.patch++; /* same formats: compatible */
    put_head(&owner, &good);
    close_watched(&owner, child);
    assert_true(board->text[0] == '\0');
}

static void a_closed_segment_is_not_used(UNUSED void **state)
{
    struct node owner;
    pid_t child = open_watched(&owner);

    atomic_store(&inside(&owner)->control->closed, 1);
    assert_int_equal(attached_elsewhere(), -ENOTCONN);
    atomic_store(&inside(&owner)->control->closed, 0);
    close_watched(&owner, child);
}

/* A file with the contents of a segment; without the seals its owner could truncate it while
 * others have it mapped. */
static int copy_of_segment(const struct segment *s, int seals)
{
    int fd = memfd_create("byzantine", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)s->file->size), 0);
    assert_int_equal(pwrite(fd, s->control, 4096, 0), 4096);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int attached_as(int fd)
{
    const struct transport_address good = board->address[0];
    int err;

    board->address[0].place = (uint32_t)fd;
    err = attached_elsewhere();
    board->address[0] = good;
    close(fd);
    return err;
}

static void what_is_no_sealed_segment_is_not_mapped(UNUSED void **state)
{
    struct node owner;
    pid_t child = open_watched(&owner);
    const struct segment *own = inside(&owner)->own;
    int pipe_ends[2];

    assert_int_equal(attached_as(copy_of_segment(own, F_SEAL_SHRINK)), 0);
    assert_int_equal(attached_as(copy_of_segment(own, 0)), -EHOSTUNREACH);
    assert_int_equal(attached_as(copy_of_segment(own, F_SEAL_GROW)), -EHOSTUNREACH);
    assert_int_equal(attached_as(memfd_create("empty", MFD_CLOEXEC)), -EHOSTUNREACH);
    assert_int_equal(attached_as(open("/dev/zero", O_RDWR | O_CLOEXEC)), -EHOSTUNREACH);
    assert_int_equal(attached_as(open("/", O_RDONLY | O_CLOEXEC)), -EHOSTUNREACH);
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    assert_int_equal(attached_as(pipe_ends[0]), -EHOSTUNREACH);
    assert_int_equal(attached_as(pipe_ends[1]), -EHOSTUNREACH);
    assert_int_equal(attached_as(INT32_MAX), -EHOSTUNREACH);
    close_watched(&owner, child);
}

/* Is a file with a directory entry mapped here? */
static bool maps_a_name(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = false;
    char line[512];

    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, " /dev/shm/") != NULL)
            found = true;
    fclose(maps);
    return found;
}

/* A file without a name disappears however its processes end. */
static void a_segment_keeps_its_size_and_has_no_name(UNUSED void **state)
{
    struct node owner;
    struct stat status;
    int fd;

    assert_int_equal(node_open(&owner), 0);
    fd = inside(&owner)->own->file->fd;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(status.st_nlink, 0);
    assert_false(maps_a_name());
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, status.st_size * 2), -1);
    assert_true(status.st_blocks * 512 < 64 << 10); /* rings cost nothing before use */
    node_close(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(proofs_are_siphash),
        TEST(another_jobs_key_is_refused),
        TEST(a_sender_without_proof_is_refused),
        TEST(a_proof_of_another_sender_is_refused),
        TEST(a_proof_for_another_receiver_is_refused),
        TEST(a_damaged_ring_is_dropped),
        TEST(a_receiver_that_breaks_the_ring_is_left),
        TEST(noise_in_the_segment_is_survived),
        TEST(a_damaged_head_is_not_believed),
        TEST(a_segment_of_another_version_is_named),
        TEST(a_closed_segment_is_not_used),
        TEST(what_is_no_sealed_segment_is_not_mapped),
        TEST(a_segment_keeps_its_size_and_has_no_name),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
