/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel_test.c - a device program accepts only a channel of its own version, and logs which
 * version another channel has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/unit.h"
#include "device/soft/channel.h"

#define LIST     4
#define COMMANDS 16
#define UNTAGGED 4

static char said[512];

static void note(void *arg, enum log_level level, const char *text)
{
    (void)arg, (void)level;
    snprintf(said, sizeof said, "%s", text);
}

static int attach(int fd)
{
    struct channel *found;
    size_t size;
    int err = channel_attach(fd, &size, &found);

    if (err == 0)
        sys_munmap(found, size);
    return err;
}

static void a_channel_of_another_version_is_named(UNUSED void **state)
{
    const struct version own = version_own(CHANNEL_VERSION);
    const size_t size = channel_bytes(LIST, COMMANDS, UNTAGGED);
    struct channel *channel;
    char ours[96];
    int fd;

    snprintf(ours, sizeof ours, "this process has Matchbox %u.%u.%u (formats %u and %u): both",
             own.major, own.minor, own.patch, own.format, own.packets);
    assert_int_equal(channel_create(size, &fd, &channel), 0);
    assert_int_equal(attach(fd), -EPROTO); /* it is empty */
    channel_init(channel, LIST, COMMANDS, UNTAGGED);
    assert_int_equal(attach(fd), 0);

    channel->version =
        (struct version){.format = 77, .packets = 78, .major = 7, .minor = 8, .patch = 9};
    channel->layout++;
    said[0] = '\0';
    assert_int_equal(attach(fd), -EPROTONOSUPPORT);
    assert_non_null(strstr(said, "the library that has started this process has Matchbox 7.8.9 "
                                 "(formats 77 and 78)"));
    assert_non_null(strstr(said, ours));

    channel->version = own; /* of another build */
    assert_int_equal(attach(fd), -EPROTO);
    channel_destroy(channel, size, fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_of_another_version_is_named),
    };

    log_set_sink(note, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
