/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter_suite.c - the conformance suite on one adapter, with a list of one length; `mbx
 * adapter-test` runs it and reads its output.
 *
 *   mbx-adapter-test LIBRARY DEVICE LIST LONG
 *
 * LIBRARY is loaded as libibverbs.  DEVICE may be empty: the first that matches tags.  LIST 0:
 * only prints what there is.  LONG yes: includes the case that takes 65,536 messages.
 *
 *   device NAME            the device that it found
 *   tags 127
 *   rendezvous yes
 *   cannot WHY             or the reason why nothing can be tested; exit status 3
 *
 * After that, on standard output, the Test Anything Protocol as cmocka prints it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "device/verbs/verbs_state.h"
#include "testing/device/verbs_target.h"
#include "transport/verbs/verbs_library.h"

#define CANNOT 3

/* Says in a user's words what the error of libibverbs means. */
static int cannot(const char *device, int err)
{
    char line[160];

    verbs_explain(line, sizeof line);
    if (device == NULL)
        printf("cannot %s\n", line);
    else if (err == -ENODEV)
        printf("cannot there is no device '%s': %s\n", device, line);
    else if (err == -EOPNOTSUPP)
        printf("cannot %s does not match tags: %s\n", device, line);
    else
        printf("cannot %s: %s: %s\n", device, strerror(-err), line);
    return CANNOT;
}

static int describe(void)
{
    struct mbx_device_limits limits;
    struct mbx_device *device;
    int err = verbs_open(
        &(struct verbs_config){.name = verbs_target_name, .peers = CONFORMANCE_PEERS}, &device);

    if (err != 0)
        return cannot(verbs_target_name, err);
    device->ops->limits(device, &limits);
    printf("device %s\ntags %u\nrendezvous %s\n",
           ibv_get_device_name(verbs_of(device)->context->device), limits.list,
           limits.caps & MBX_DEVICE_RENDEZVOUS ? "yes" : "no");
    fflush(stdout);
    device->ops->close(device);
    return 0;
}

int main(int argc, char **argv)
{
    struct conformance_target target = verbs_target;
    int err;

    if (argc != 5) {
        fprintf(stderr, "usage: mbx-adapter-test LIBRARY DEVICE LIST yes|no\n"
                        "\n"
                        "A part of `mbx adapter-test`.\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    verbs_use(argv[1]);
    verbs_target_name = argv[2][0] != '\0' ? argv[2] : NULL;
    target.list = (uint32_t)strtoul(argv[3], NULL, 10);
    target.is_brief = strcmp(argv[4], "yes") != 0;
    err = describe();
    if (err != 0 || target.list == 0)
        return err;
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return conformance_run(&target) != 0;
}
