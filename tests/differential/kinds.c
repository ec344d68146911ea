/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds.c - the engines that this program was built with.
 *
 * HAVE_OFI and HAVE_UCX are set if the development files were there.  Otherwise the program
 * still knows the name, and reports that the engine does not exist on this machine.
 */
#include <errno.h>
#include <stddef.h>

#include "engine.h"

#if !defined(HAVE_OFI) || !defined(HAVE_UCX)
static int create_none(const char *argument, struct engine **e)
{
    (void)argument;
    (void)e;
    return -ENODEV;
}
#endif
#ifndef HAVE_OFI
const struct engine_kind engine_ofi = {
    .name = "ofi", .about = "providers of libfabric: not built in", .create = create_none};
#endif
#ifndef HAVE_UCX
const struct engine_kind engine_ucx = {
    .name = "ucx", .about = "UCX: not built in", .create = create_none};
#endif

const struct engine_kind *const engine_kinds[] = {&engine_match, &engine_ofi, &engine_ucx,
                                                  &engine_wrong, NULL};
