/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what does a flood of unexpected messages cost its receiver?
 * Method     flood_work.h, with messages through matchbox.h.  Run by `mbx run`.
 */
#include <matchbox/matchbox.h>

#include "flood_work.h"

#include <stdlib.h>

#define CONTEXT 1

const char carrier_name[] = "flood";
const char carrier_about[] = "mbx run -n RANKS flood";

static struct mbx_job *job;
static struct mbx_ep *ep;
static mbx_request *requests;

static void must(int err, const char *what)
{
    if (err < 0)
        flood_die("%s: %s", what, mbx_strerror(err));
}

void carrier_open(int *rank, int *ranks)
{
    struct mbx_config config = {.key = NULL};

    must(mbx_job_open(&job), "mbx_job_open");
    config.key = mbx_job_key(job);
    must(mbx_open(&config, &ep), "mbx_open");
    must(mbx_job_connect(job, ep), "mbx_job_connect");
    *rank = (int)mbx_job_rank(job);
    *ranks = (int)mbx_job_size(job);
}

void carrier_slots(size_t count)
{
    requests = flood_alloc(count * sizeof *requests);
}

void carrier_send(size_t slot, enum flood_lane lane, int to, int tag, const void *buf,
                  size_t size, uint64_t mark)
{
    const struct mbx_options options = {.data = mark};

    must(mbx_send(ep, (uint32_t)to, CONTEXT + lane, (uint64_t)tag, buf, size, &options,
                  &requests[slot]),
         "mbx_send");
}

void carrier_recv(size_t slot, enum flood_lane lane, int from, int tag, void *buf, size_t size)
{
    uint32_t source = from == FLOOD_ANY ? MBX_ANY_SOURCE : (uint32_t)from;
    uint64_t ignore = tag == FLOOD_ANY ? UINT64_MAX : 0;

    must(mbx_recv(ep, source, CONTEXT + lane, tag == FLOOD_ANY ? 0 : (uint64_t)tag, ignore, buf,
                  size, NULL, &requests[slot]),
         "mbx_recv");
}

void carrier_wait(size_t slot, struct flood_got *got)
{
    struct mbx_completion done;

    must(mbx_wait(ep, requests[slot], -1, &done), "mbx_wait");
    must(done.error, "a request");
    if (got != NULL)
        *got = (struct flood_got){
            .source = (int)done.status.source,
            .tag = (int)done.status.tag,
            .size = done.status.size,
            .mark = done.status.data,
        };
}

uint64_t carrier_high_water(void)
{
    uint64_t bytes;

    must(mbx_stat_read(ep, "unexpected_bytes_max", &bytes), "mbx_stat_read");
    return bytes;
}

void carrier_close(void)
{
    must(mbx_close(ep), "mbx_close");
    mbx_job_close(job);
    free(requests);
}

int main(int argc, char **argv)
{
    return flood_main(argc, argv);
}
