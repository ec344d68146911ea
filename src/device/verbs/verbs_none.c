/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_none.c - the functions of verbs.h for a build without libibverbs.
 */
#include "device/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>

int verbs_open(const struct verbs_config *config, struct mbx_device **device)
{
    (void)config;
    (void)device;
    return -EOPNOTSUPP;
}

int verbs_attach(struct mbx_device *device, uint32_t peer, struct ibv_qp **qp)
{
    (void)device;
    (void)peer;
    (void)qp;
    return -EOPNOTSUPP;
}

void verbs_detach(struct mbx_device *device, uint32_t peer)
{
    (void)device;
    (void)peer;
}

int verbs_arm(struct mbx_device *device)
{
    (void)device;
    return -ENODEV;
}

bool verbs_lie_down(struct mbx_device *device)
{
    (void)device;
    return false;
}

uint64_t verbs_empties(const struct mbx_device *device)
{
    (void)device;
    return 0;
}

uint64_t verbs_idles(const struct mbx_device *device)
{
    (void)device;
    return 0;
}

struct ibv_cq *verbs_queue(struct mbx_device *device)
{
    (void)device;
    return NULL;
}

uint32_t verbs_untagged(const struct mbx_device *device)
{
    (void)device;
    return 0;
}

void verbs_lose(struct mbx_device *device, const char *why)
{
    (void)device;
    (void)why;
}

bool verbs_explain(char *line, size_t size)
{
    snprintf(line, size, "not built in");
    return false;
}
