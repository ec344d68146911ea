/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupt.h - delivers SIGINT, SIGTERM and SIGHUP only during waits, so that the caller can first end what it has started.
 *
 *   interrupt_hold(&held);
 *   while (!interrupt_poll(&held, fds, count, ms))     only here
 *       ...
 *   end what was started
 *   interrupt_release(&held);                          a signal that has come takes its usual effect
 */
#ifndef TOOLS_INTERRUPT_H
#define TOOLS_INTERRUPT_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define INTERRUPTS 3

struct interrupt {
    sigset_t mask; /* and actions, before the hold */
    struct sigaction actions[INTERRUPTS];
};

/* Only one hold at a time. */
void interrupt_hold(struct interrupt *held);

/* As poll().  True: a signal has come. */
bool interrupt_poll(const struct interrupt *held, struct pollfd *fds, uint32_t count, int ms);

/* For a child that executes another program. */
void interrupt_forget(const struct interrupt *held);

void interrupt_release(const struct interrupt *held);

#endif
