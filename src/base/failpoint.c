/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failpoint.c - see failpoint.h.
 */
#include "base/failpoint.h"

const struct failpoint_hook *failpoint_hook;
