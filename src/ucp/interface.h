/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface.h - libucp's own header: what it declares is visible outside this library (ucp.map), and nothing else is.
 */
#ifndef UCP_INTERFACE_H
#define UCP_INTERFACE_H

#pragma GCC visibility push(default)
#include <ucp/api/ucp.h>
#pragma GCC visibility pop

#endif
