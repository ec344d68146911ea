/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interrupt.c - see interrupt.h.
 *
 * The signals are blocked except during ppoll(), so none is lost between a check of `came` and the wait.  An ignored signal stays
 * ignored: nohup.
 */
#include "interrupt.h"

#include <stddef.h>

static const int signals[INTERRUPTS] = {SIGINT, SIGTERM, SIGHUP};
static volatile sig_atomic_t came; /* the signal; 0: none */

static void note(int number)
{
    came = number;
}

void interrupt_hold(struct interrupt *held)
{
    struct sigaction action = {.sa_handler = note};
    sigset_t mask;

    came = 0;
    sigemptyset(&mask);
    for (int i = 0; i < INTERRUPTS; i++)
        sigaddset(&mask, signals[i]);
    sigprocmask(SIG_BLOCK, &mask, &held->mask);
    for (int i = 0; i < INTERRUPTS; i++) {
        sigaction(signals[i], NULL, &held->actions[i]);
        if (held->actions[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

bool interrupt_poll(const struct interrupt *held, struct pollfd *fds, uint32_t count, int ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    if (ppoll(fds, count, &limit, &held->mask) < 0)
        for (uint32_t i = 0; i < count; i++)
            fds[i].revents = 0;
    return came != 0;
}

void interrupt_forget(const struct interrupt *held)
{
    for (int i = 0; i < INTERRUPTS; i++)
        sigaction(signals[i], &held->actions[i], NULL);
    sigprocmask(SIG_SETMASK, &held->mask, NULL);
}

void interrupt_release(const struct interrupt *held)
{
    if (came != 0)
        raise(came); /* delivered when the mask is restored */
    interrupt_forget(held);
}
