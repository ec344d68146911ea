/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.h - puts nodes into an order, given which come before which.
 */
#ifndef SIM_ORDER_H
#define SIM_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order {
    uint32_t nodes;
    uint32_t count, capacity;
    uint32_t *from, *to; /* [count] */
    uint32_t *sorted;    /* [nodes], by order_sort() */
};

void order_init(struct order *o, uint32_t nodes);
void order_fini(struct order *o);

/* Node a comes before node b. */
void order_before(struct order *o, uint32_t a, uint32_t b);

/* Sorts; of nodes between which nothing decides, what became free first comes first.  False:
 * there is a circle, and the first *count of sorted are one, each before the next. */
bool order_sort(struct order *o, uint32_t *count);

#endif
