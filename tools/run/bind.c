/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bind.c - the cores of the machine, from hwloc.
 *
 * A core's set has all its hardware threads.  If the machine does not report its cores
 * (some virtual ones), each processing unit counts as a core.
 */
#include "bind.h"

#include <errno.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

/* Restricts the topology to processing units that this process may use. */
static void restrict_to_ours(hwloc_topology_t topology)
{
    hwloc_cpuset_t ours = hwloc_bitmap_alloc();

    if (ours != NULL && hwloc_get_cpubind(topology, ours, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_topology_restrict(topology, ours, 0);
    hwloc_bitmap_free(ours);
}

static int plan(hwloc_topology_t topology, cpu_set_t *sets, uint32_t count)
{
    hwloc_obj_type_t type = HWLOC_OBJ_CORE;
    int cores = hwloc_get_nbobjs_by_type(topology, type);

    if (cores <= 0) {
        type = HWLOC_OBJ_PU;
        cores = hwloc_get_nbobjs_by_type(topology, type);
    }
    if (cores <= 0)
        return -ENODEV;
    for (uint32_t i = 0; i < count; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, type, i % (unsigned)cores);

        if (hwloc_cpuset_to_glibc_sched_affinity(topology, core->cpuset, &sets[i],
                                                 sizeof sets[i]) < 0)
            return -ENODEV;
    }
    return cores;
}

int bind_plan(cpu_set_t *sets, uint32_t count)
{
    hwloc_topology_t topology;
    int result = -ENODEV;

    if (hwloc_topology_init(&topology) < 0)
        return -ENODEV;
    if (hwloc_topology_load(topology) == 0) {
        restrict_to_ours(topology);
        result = plan(topology, sets, count);
    }
    hwloc_topology_destroy(topology);
    return result;
}
