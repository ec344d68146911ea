/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passing_test.c - segments passed as descriptors: who gets one, who does not, and attempts by
 * impostors or noise.  shm_test.c runs whole endpoints over it, tests/launch/containers_test.py
 * in namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/patience.h"
#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"
#include "transport/shm/passing.h"
#include "transport/shm/segment.h"

#define COOKIE    UINT64_C(0x1111222233334444)
#define KEY_CHECK UINT64_C(0x5555666677778888)
#define NOBODY    65534

/* An owner: a process with a segment, which waits to be killed. */
struct owner {
    pid_t pid;
    struct name {
        uint64_t cookie;
        uint32_t number;
        uint32_t zero;
    } name;
    int ready[2];
};

static struct segment *make_segment(uint64_t cookie)
{
    struct segment_config config = {.peers = 2,
                                    .rings = {.cells = 64},
                                    .cookie = cookie,
                                    .key_check = KEY_CHECK,
                                    .host = 7};
    struct segment *s = NULL;

    assert_int_equal(segment_create(&config, &s), 0);
    return s;
}

static void be_owner(const struct owner *owner)
{
    struct name name = {0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (passing_start(&name.number) != 0)
        _exit(1);
    name.cookie = passing_cookie();
    make_segment(name.cookie)->slots[1].proof = 4711;
    if (write(owner->ready[1], &name, sizeof name) != sizeof name)
        _exit(1);
    for (;;)
        pause();
}

static struct owner start_owner(void)
{
    struct owner owner;

    assert_int_equal(pipe(owner.ready), 0);
    owner.pid = fork();
    assert_true(owner.pid >= 0);
    if (owner.pid == 0)
        be_owner(&owner);
    assert_int_equal(read(owner.ready[0], &owner.name, sizeof owner.name), sizeof owner.name);
    return owner;
}

static void kill_owner(const struct owner *owner)
{
    assert_int_equal(kill(owner->pid, SIGKILL), 0);
    assert_int_equal(waitpid(owner->pid, NULL, 0), owner->pid);
    close(owner->ready[0]);
    close(owner->ready[1]);
}

static void stop(const struct owner *owner)
{
    int status;

    assert_int_equal(kill(owner->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(owner->pid, &status, WUNTRACED), owner->pid);
    assert_true(WIFSTOPPED(status));
}

static struct transport_address address_of(const struct owner *owner)
{
    return (struct transport_address){.kind = ADDRESS_SHM,
                                      .process = owner->name.number,
                                      .place = (uint32_t)owner->pid,
                                      .cookie = owner->name.cookie};
}

/* Repeats the request as often as needed on a busy machine. */
static int ask(uint32_t number, uint64_t cookie, uint64_t key_check)
{
    struct passing_request request = {0};
    int err = -EAGAIN;

    for (int i = 0; i < PATIENCE_MS && err == -EAGAIN; i++) {
        err = passing_ask(number, cookie, key_check, &request);
        if (err == -EAGAIN)
            usleep(1000);
    }
    passing_forget(&request);
    return err;
}

static int attach(const struct owner *owner, uint64_t key_check, struct segment **out)
{
    struct transport_address address = address_of(owner);
    struct passing_request request = {0};
    const struct segment_source from = {
        .address = &address, .key_check = key_check, .request = &request};
    int err = -EAGAIN;

    *out = NULL;
    for (int i = 0; i < PATIENCE_MS && err == -EAGAIN; i++) {
        err = segment_open(&from, SEGMENT_BLOCK, out);
        if (err == -EAGAIN)
            usleep(1000);
    }
    passing_forget(&request);
    return err;
}

static int nothing_is_left(UNUSED void **state)
{
    sys_fail_none();
    assert_int_equal(sys_fds_live(), 0);
    assert_int_equal(sys_maps_live(), 0);
    assert_int_equal(mem_live(), 0);
    return 0;
}

/* ---- correct processes ---- */

static void the_segment_of_another_process_is_mapped(UNUSED void **state)
{
    struct owner owner = start_owner();
    struct segment *s = NULL;

    /* more than once: reading the head does not move the file offset for the next reader */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(attach(&owner, KEY_CHECK, &s), 0);
        assert_int_equal(s->slots[1].proof, 4711);
        assert_int_equal(s->file->host, 7);
        segment_detach(s);
    }
    kill_owner(&owner);
}

static void only_what_exists_is_passed_to_those_who_know_the_key(UNUSED void **state)
{
    struct owner owner = start_owner();
    struct segment *s = NULL;

    assert_int_equal(ask(owner.name.number, owner.name.cookie ^ 1, KEY_CHECK), -ENOENT);
    assert_int_equal(ask(owner.name.number, owner.name.cookie, KEY_CHECK + 1), -EACCES);
    assert_int_equal(ask(owner.name.number ^ 1, owner.name.cookie, KEY_CHECK), -ENOENT);
    assert_int_equal(attach(&owner, KEY_CHECK + 1, &s), -EACCES);
    kill_owner(&owner);
    assert_int_equal(ask(owner.name.number, owner.name.cookie, KEY_CHECK), -ENOENT);
}

static void another_user_gets_nothing(UNUSED void **state)
{
    struct owner owner;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    owner = start_owner();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(setresuid(NOBODY, NOBODY, NOBODY) == 0 &&
                      ask(owner.name.number, owner.name.cookie, KEY_CHECK) == -EPERM
                  ? 0
                  : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    kill_owner(&owner);
}

static void the_end_of_a_process_is_seen(UNUSED void **state)
{
    struct owner owner = start_owner();

    assert_true(process_is_alive(owner.name.number));
    stop(&owner); /* it is alive, although it does not answer */
    assert_true(process_is_alive(owner.name.number));
    kill_owner(&owner);
    assert_false(process_is_alive(owner.name.number));
}

/* A forked child is not mistaken for its parent. */
static void a_child_has_another_number(UNUSED void **state)
{
    uint32_t number, own = 0;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(passing_start(&number), 0);
    assert_true(passing_is_own(number));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool is_parents = passing_is_own(number);

        passing_stop(); /* for the parent's endpoint: does nothing */
        if (read(ends[0], &own, sizeof own) != sizeof own) /* the parent has closed it */
            _exit(1);
#ifdef __SANITIZE_THREAD__ /* no threads after a fork */
        _exit(is_parents || passing_is_alive(number));
#else
        _exit(is_parents || passing_is_alive(number) || passing_start(&own) != 0 ||
              own == number || !passing_is_alive(own));
#endif
    }
    assert_int_equal(passing_start(&own), 0);
    assert_int_equal(own, number);
    passing_stop();
    assert_true(passing_is_alive(number));
    passing_stop();
    assert_int_equal(write(ends[1], &own, sizeof own), sizeof own);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
}

static void an_owner_that_stands_still_is_waited_for(UNUSED void **state)
{
    struct owner owner = start_owner();
    struct passing_request request = {0};
    int fd = -EAGAIN;

    stop(&owner);
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    assert_true(request.waits);
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    kill(owner.pid, SIGCONT);
    for (int i = 0; i < PATIENCE_MS && fd == -EAGAIN; i++) {
        fd = passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request);
        usleep(1000);
    }
    assert_true(fd >= 0);
    assert_false(request.waits);
    sys_close(fd);
    kill_owner(&owner);
}

static void every_failing_call_is_clean(UNUSED void **state)
{
    static const char *const names[] = {"socket",  "filter",  "setsockopt", "bind",
                                        "connect", "sendmsg", "recvmsg",    "getrandom"};
    struct owner owner = start_owner();
    uint32_t number;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct passing_request request = {0};
        int fd;

        assert_int_equal(sys_fail_name(names[i], 1, ENOMEM), 0);
        assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                         -ENOMEM);
        sys_fail_none();
        passing_forget(&request);
        fd = ask(owner.name.number, owner.name.cookie, KEY_CHECK);
        assert_true(fd >= 0);
        sys_close(fd);
        assert_int_equal(sys_fds_live(), 0);
    }
    for (int n = 1;; n++) {
        int err;

        sys_fail_at((uint64_t)n, ENOMEM);
        err = passing_start(&number);
        sys_fail_none();
        if (err == 0)
            break;
        assert_int_equal(err, -ENOMEM);
        assert_int_equal(sys_fds_live(), 0);
    }
    passing_stop();
    kill_owner(&owner);
}

/* ---- hostile processes ---- */

static socklen_t name_of(uint32_t number, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                       (size_t)snprintf(name->sun_path + 1, sizeof name->sun_path - 1,
                                        "matchbox/%08x", number));
}

/* Sends size bytes with up to two descriptors (-1: none), on a connected socket or to a
 * name. */
static void send_with(int socket, const struct msghdr *to, const void *bytes, size_t size,
                      int first, int second)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    int fds[2] = {first, second};
    size_t count = (first >= 0) + (size_t)(second >= 0);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

    if (to != NULL) {
        message.msg_name = to->msg_name;
        message.msg_namelen = to->msg_namelen;
    }
    if (count != 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, count * sizeof(int));
    }
    assert_true(sendmsg(socket, &message, 0) >= 0);
}

/* Malformed requests are not answered, and descriptors that come with them are closed. */
static void noise_is_not_answered(UNUSED void **state)
{
    struct sockaddr_un name;
    struct random random;
    unsigned char bytes[256];
    socklen_t size;
    uint32_t number;
    int socket_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    int64_t fds;

    random_seed(&random, 1);
    assert_int_equal(passing_start(&number), 0);
    fds = sys_fds_live();
    size = name_of(number, &name);
    assert_int_equal(bind(socket_fd,
                          (struct sockaddr *)&(struct sockaddr_un){.sun_family = AF_UNIX},
                          sizeof(sa_family_t)),
                     0);
    assert_int_equal(connect(socket_fd, (struct sockaddr *)&name, size), 0);
    for (unsigned i = 0; i < 1000; i++) {
        for (size_t at = 0; at < sizeof bytes; at++)
            bytes[at] = (unsigned char)random_next(&random);
        send_with(socket_fd, NULL, bytes, random_below(&random, sizeof bytes),
                  i % 3 != 0 ? 0 : -1, i % 3 == 2 ? 1 : -1);
    }
    /* its answer to the next request shows that it has read them */
    assert_int_equal(ask(number, passing_cookie(), KEY_CHECK), -ENOENT);
    assert_int_equal(recv(socket_fd, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    assert_int_equal(sys_fds_live(), fds);
    close(socket_fd);
    passing_stop();
}

/* A single datagram that cannot be received is like an endless flood: there is always another
 * one. */
static void datagrams_without_end_do_not_keep_a_process_from_ending(UNUSED void **state)
{
    struct passing_request request = {0};
    uint32_t number;
    uint64_t calls;

    assert_int_equal(passing_start(&number), 0);
    assert_int_equal(sys_fail_name("recvmsg", SYS_FAIL_ALWAYS, ENOMEM), 0);
    assert_int_equal(passing_ask(number, passing_cookie(), KEY_CHECK, &request), -ENOMEM);
    /* the thread is busy with it */
    calls = sys_calls();
    while (sys_calls() < calls + 100)
        sched_yield();
    passing_stop();
    passing_forget(&request);
}

/* A wrong answer to the request that waits at fd. */
struct lie {
    int64_t magic, nonce, error; /* added to the right values */
    size_t cut;                  /* bytes that are missing */
    int fds[2];
};

static void lie_to(int fd, const struct lie *lie)
{
    uint64_t text[4], reply[3];
    struct sockaddr_un from;
    struct iovec iov = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr message = {
        .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &iov, .msg_iovlen = 1};

    assert_int_equal(recvmsg(fd, &message, 0), sizeof text);
    reply[0] = text[0] + (uint64_t)lie->magic;
    reply[1] = text[1] + (uint64_t)lie->nonce;
    reply[2] = (uint64_t)lie->error;
    send_with(fd, &message, reply, sizeof reply - lie->cut, lie->fds[0], lie->fds[1]);
}

/* The number of a process that never existed, like the next one; no other run of this test uses
 * them. */
static uint32_t number_of_nobody(void)
{
    return PASSING_BIT | (uint32_t)getpid() << 1;
}

/* The result of mapping with an impostor's reply. */
static int attach_to_impostor(const struct lie *lie)
{
    struct owner owner = {.pid = getpid(),
                          .name = {.number = number_of_nobody(), .cookie = COOKIE}};
    struct transport_address address = address_of(&owner);
    struct passing_request request = {0};
    const struct segment_source from = {
        .address = &address, .key_check = KEY_CHECK, .request = &request};
    struct segment *s = NULL;
    struct sockaddr_un name;
    socklen_t size = name_of(owner.name.number, &name);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), err;
    int64_t fds = sys_fds_live(), maps = sys_maps_live();

    assert_int_equal(bind(fd, (struct sockaddr *)&name, size), 0);
    assert_int_equal(segment_open(&from, SEGMENT_BLOCK, &s), -EAGAIN);
    lie_to(fd, lie);
    err = segment_open(&from, SEGMENT_BLOCK, &s);
    if (err == 0)
        segment_detach(s);
    passing_forget(&request);
    close(fd);
    assert_int_equal(sys_fds_live(), fds);
    assert_int_equal(sys_maps_live(), maps);
    return err;
}

static int memory_file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void replies_of_impostors_are_refused(UNUSED void **state)
{
    const struct lie lies[] = {
        {.fds = {-1, -1}},
        {.error = 5, .fds = {0, -1}},
        {.error = -EMFILE, .fds = {0, -1}},
        {.error = INT64_MIN, .fds = {0, 1}},
    };

    const struct lie dropped[] = {
        {.magic = 1, .fds = {0, -1}}, {.magic = INT64_C(1) << 56, .fds = {0, -1}},
        {.nonce = 1, .fds = {0, -1}}, {.nonce = INT64_C(1) << 56, .fds = {0, -1}},
        {.cut = 1, .fds = {0, -1}},   {.cut = 24, .fds = {0, -1}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(lies); i++)
        assert_int_equal(attach_to_impostor(&lies[i]), -EPROTO);
    for (size_t i = 0; i < ARRAY_COUNT(dropped); i++)
        assert_int_equal(attach_to_impostor(&dropped[i]), -EAGAIN);
    assert_int_equal(attach_to_impostor(&(struct lie){.error = -EACCES, .fds = {0, 1}}),
                     -EACCES);
}

/* Descriptors of files that are not segments. */
static void files_of_impostors_are_not_mapped(UNUSED void **state)
{
    int ends[2], zero = open("/dev/zero", O_RDWR), plain = open("/", O_TMPFILE | O_RDWR, 0600);
    int unsealed = memory_file(1 << 20, 0), empty = memory_file(0, F_SEAL_SHRINK);
    int sealed = memory_file(1 << 20, F_SEAL_SHRINK);
    struct segment *s = make_segment(COOKIE);
    struct segment_head head = s->control->head;
    struct segment_head *forged;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {ends[0], -1}}), -ENOENT);
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {zero, ends[1]}}), -ENOENT);
    if (plain >= 0)
        assert_int_equal(attach_to_impostor(&(struct lie){.fds = {plain, -1}}), -ENOENT);
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {unsealed, -1}}), -EPROTO);
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {empty, -1}}), -ENOENT);
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {sealed, -1}}), -ENOENT);
    /* everything is right except the size, then except the key */
    forged = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, sealed, 0);
    assert_true(forged != MAP_FAILED);
    *forged = head;
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {sealed, -1}}), -EPROTO);
    forged->key_check++;
    assert_int_equal(attach_to_impostor(&(struct lie){.fds = {sealed, -1}}), -EACCES);
    munmap(forged, 4096);
    segment_close(s);
    close(sealed);
    close(empty);
    close(unsealed);
    close(plain);
    close(zero);
    close(ends[0]);
    close(ends[1]);
}

static uint64_t now_ns;

static uint64_t set_clock(void)
{
    return now_ns;
}

/* A lost reply is requested again. */
static void a_lost_reply_is_asked_for_again(UNUSED void **state)
{
    struct owner owner = {.name = {.number = number_of_nobody() | 1, .cookie = COOKIE}};
    struct passing_request request = {0};
    struct sockaddr_un name;
    socklen_t size = name_of(owner.name.number, &name);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    unsigned char bytes[64];

    assert_int_equal(bind(fd, (struct sockaddr *)&name, size), 0);
    clock_set(set_clock);
    now_ns = CLOCK_S;
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    now_ns += CLOCK_S / 2;
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    assert_true(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), -1);
    now_ns += CLOCK_S;
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    assert_int_equal(passing_ask(owner.name.number, owner.name.cookie, KEY_CHECK, &request),
                     -EAGAIN);
    assert_true(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
    passing_forget(&request);
    clock_set(NULL);
    close(fd);
}

/* ---- another user, hostile ---- */

static void be_nobody(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(77);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the change of the user has cleared it */
}

/* Has the writing end of this pipe been closed everywhere? */
static bool has_hung_up(int end)
{
    struct pollfd poll_fd = {.fd = end, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLHUP) != 0;
}

/* Sends text with the only copy of a descriptor, and ends.  Does a stopped process have the
 * descriptor then? */
static bool reaches(uint32_t number, const void *text, size_t size)
{
    struct sockaddr_un name;
    socklen_t length = name_of(number, &name);
    int ends[2], status;
    bool has_reached;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

        be_nobody();
        if (connect(fd, (struct sockaddr *)&name, length) == 0)
            send_with(fd, NULL, text, size, ends[1], -1);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    has_reached = !has_hung_up(ends[0]);
    close(ends[0]);
    return has_reached;
}

/* The message is dropped while the descriptor still belongs to the stranger: a process that
 * gets it must close it, which the stranger can delay. */
static void what_strangers_send_does_not_arrive(UNUSED void **state)
{
    struct owner owner;
    uint64_t right[4], text[5] = {0};

    if (geteuid() != 0)
        skip();
    owner = start_owner();
    stop(&owner);
    right[0] = UINT64_C(0x317373617078626d);
    right[1] = right[3] = 0;
    right[2] = owner.name.cookie;
    for (unsigned bit = 0; bit < 64; bit++) {
        memcpy(text, right, sizeof right);
        text[0] ^= UINT64_C(1) << bit;
        assert_false(reaches(owner.name.number, text, sizeof right));
        memcpy(text, right, sizeof right);
        text[2] ^= UINT64_C(1) << bit;
        /* a sender that knows all but the count knows an address; the owner has space for
         * ten */
        if (bit == 0 || bit >= 15)
            assert_int_equal(reaches(owner.name.number, text, sizeof right), bit < 16);
    }
    memcpy(text, right, sizeof right);
    assert_false(reaches(owner.name.number, text, sizeof right - 1));
    assert_false(reaches(owner.name.number, text, sizeof right + 1));
    assert_false(reaches(owner.name.number, text, 0));
    kill_owner(&owner);
}

/* Answers the next request with the only copy of a descriptor, and ends. */
static void answer_as_nobody(uint32_t number, const int ends[2], int ready)
{
    struct sockaddr_un name;
    socklen_t size = name_of(number, &name);
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    be_nobody();
    if (bind(fd, (struct sockaddr *)&name, size) != 0 || write(ready, "", 1) != 1)
        _exit(1);
    lie_to(fd, &(struct lie){.fds = {ends[1], -1}});
    _exit(0);
}

/* Sends a request, gets a reply, reports the result, and goes on. */
static void ask_and_live(uint32_t number, int go, int told)
{
    struct passing_request request = {0};
    int err = -EAGAIN;
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(go, &byte, 1) != 1)
        _exit(1);
    while (err == -EAGAIN)
        err = passing_ask(number, COOKIE, KEY_CHECK, &request);
    passing_forget(&request);
    if (write(told, &err, sizeof err) != sizeof err)
        _exit(1);
    for (;;)
        pause();
}

/* The stranger has the name of a process that has ended: its descriptor is neither taken nor
 * closed. */
static void what_a_stranger_answers_is_left_alone(UNUSED void **state)
{
    uint32_t number = number_of_nobody();
    int go[2], told[2], ends[2], err, status;
    struct pollfd gone;
    pid_t asks, answers;

    if (geteuid() != 0)
        skip();
    assert_true(pipe(go) == 0 && pipe(told) == 0);
    asks = fork();
    if (asks == 0)
        ask_and_live(number, go[0], told[1]);
    assert_int_equal(pipe(ends), 0);
    answers = fork();
    if (answers == 0)
        answer_as_nobody(number, ends, go[1]);
    close(ends[1]);
    assert_int_equal(read(told[0], &err, sizeof err), sizeof err);
    assert_int_equal(err, -EPERM);
    assert_int_equal(waitpid(answers, &status, 0), answers);
    assert_int_equal(status, 0);
    assert_false(has_hung_up(ends[0]));
    kill(asks, SIGKILL);
    assert_int_equal(waitpid(asks, &status, 0), asks);
    gone = (struct pollfd){.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&gone, 1, -1), 1);
    close(ends[0]);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(told[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, nothing_is_left, nothing_is_left)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_segment_of_another_process_is_mapped),
        TEST(only_what_exists_is_passed_to_those_who_know_the_key),
        TEST(another_user_gets_nothing),
        TEST(the_end_of_a_process_is_seen),
        TEST(a_child_has_another_number),
        TEST(an_owner_that_stands_still_is_waited_for),
        TEST(every_failing_call_is_clean),
        TEST(noise_is_not_answered),
        TEST(datagrams_without_end_do_not_keep_a_process_from_ending),
        TEST(replies_of_impostors_are_refused),
        TEST(files_of_impostors_are_not_mapped),
        TEST(a_lost_reply_is_asked_for_again),
        TEST(what_strangers_send_does_not_arrive),
        TEST(what_a_stranger_answers_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
