/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * provider_profile_test.c - fi_profile(3) with the installed libfabric: it exists from 1.20 on,
 * and not before (provider_version_test has the other versions).
 */
#include "provider_fixture.h"

#include <stdlib.h>

#include "../../src/provider/profile_names.h"
#include "profile_checks.h"

static void check(const struct setup *setup)
{
    struct fid_profile *profile;
    struct fixture fix;

    fixture_open(&fix, setup);
    if (fi_version() < PROV_PROFILE_SINCE)
        assert_int_equal(profile_open(EP(fix, 0), &profile), -FI_ENOSYS);
    else
        check_profile(
            &(struct profiled){.ep = EP(fix, 0), .cq = fix.node[0].cq, .self = fix.addr[0]},
            getenv("TESTED_MBX"));
    fixture_close(&fix);
}

static void an_endpoint_of_one_thread(void **state)
{
    (void)state;
    check(&(struct setup){0});
}

/* With FI_THREAD_SAFE a callback runs under a lock that reading variables also takes. */
static void an_endpoint_of_many(void **state)
{
    (void)state;
    check(&(struct setup){.threading = FI_THREAD_SAFE});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_of_one_thread),
        cmocka_unit_test(an_endpoint_of_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
