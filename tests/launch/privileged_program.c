/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * privileged_program - opens and closes endpoints, and reports whether it has more rights than
 * its caller. privileged_test.py makes it set-user-ID.
 */
#include <stdio.h>
#include <sys/auxv.h>

#include <matchbox/matchbox.h>

static void open_and_close(const char *const *params)
{
    const struct mbx_config config = {.params = params};
    struct mbx_ep *ep;
    int err = mbx_open(&config, &ep);

    printf("%s: %s\n", params != NULL ? params[0] : "open", err == 0 ? "ok" : "refused");
    if (err == 0)
        mbx_close(ep);
}

int main(void)
{
    const char *const verbs[] = {"TRANSPORT=verbs", NULL};

    printf("privileged: %s\n", getauxval(AT_SECURE) != 0 ? "yes" : "no");
    open_and_close(NULL);
    open_and_close(verbs);
    return 0;
}
