/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.c - failpoint.h says it all.
 */
#include "base/failpoint.h"

const struct failpoint_hook *failpoint_hook;
