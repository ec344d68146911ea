/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tell.c - what a rank says of itself with MBX_LOG_LEVEL=info: that it runs over Matchbox and how,
 * and in the end what was matched.
 */
#include "pml/pml.h"

#include <string.h>

/* The value of a parameter of the library, or "?". */
static const char *tell_param(const char *name, struct mbx_param *param)
{
    for (unsigned i = 0; mbx_param_get(i, param, sizeof *param) == 0; i++)
        if (strcmp(param->name, name) == 0)
            return param->value;
    return "?";
}

static bool tell_is_wanted(void)
{
    static const char *const levels[] = {"info", "debug", "trace"};
    struct mbx_param param;
    const char *level = tell_param("MBX_LOG_LEVEL", &param);

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(level, levels[i]) == 0)
            return true;
    return false;
}

static unsigned tell_rank(void)
{
    return ompi_proc_local()->super.proc_name.vpid;
}

void pml_tell_start(void)
{
    struct mbx_param param;

    if (!tell_is_wanted())
        return;
    opal_output(
        0,
        "matchbox: rank %u of %d: over Matchbox %s, by the component for Open MPI " PML_SERIES
        ", transport %s, %s",
        tell_rank(), ompi_proc_world_size(), mbx_version(), tell_param("MBX_TRANSPORT", &param),
        pml.has_threads ? "many threads" : "one thread");
}

/* The sum of the statistics whose names begin so. */
static uint64_t tell_sum(const char *begin)
{
    struct mbx_stat stat;
    uint64_t sum = 0, value;

    for (unsigned i = 0; mbx_stat_get(i, &stat, sizeof stat) == 0; i++)
        if (strncmp(stat.name, begin, strlen(begin)) == 0 &&
            strstr(stat.name, "_bytes_") == NULL &&
            mbx_stat_read(pml.ep, stat.name, &value) == 0)
            sum += value;
    return sum;
}

static uint64_t tell_stat(const char *name)
{
    uint64_t value = 0;

    (void)mbx_stat_read(pml.ep, name, &value);
    return value;
}

void pml_tell_end(void)
{
    uint64_t expected, unexpected;

    if (!tell_is_wanted())
        return;
    expected = tell_stat("expected");
    unexpected = tell_stat("unexpected");
    opal_output(
        0,
        "matchbox: rank %u: matched %llu messages, %llu of them unexpected (at most %llu at "
        "a time); sent %llu; at most %llu receives were posted",
        tell_rank(), (unsigned long long)(expected + unexpected),
        (unsigned long long)unexpected, (unsigned long long)tell_stat("unexpected_max"),
        (unsigned long long)tell_sum("sent_"), (unsigned long long)tell_stat("posted_max"));
}
