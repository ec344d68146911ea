/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupt.h - SIGINT, SIGTERM and SIGHUP come only where they are waited for, so that what was started is ended first.
 *
 *   interrupt_hold(&held);
 *   while (!interrupt_poll(&held, fds, count, ms))     only here
 *       ...
 *   end what was started
 *   interrupt_release(&held);                          what has come does now what it would have done
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define INTERRUPTS 3

struct interrupt {
    sigset_t mask; /* and actions, as they were */
    struct sigaction actions[INTERRUPTS];
};

/* One at a time. */
void interrupt_hold(struct interrupt *held);

/* As poll().  True: a signal has come. */
bool interrupt_poll(const struct interrupt *held, struct pollfd *fds, uint32_t count, int ms);

/* In a child that executes something else. */
void interrupt_forget(const struct interrupt *held);

void interrupt_release(const struct interrupt *held);

#endif
