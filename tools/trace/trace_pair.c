/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_pair.c - halves of messages become messages.
 *
 * Each file gives halves: what it has sent, what has arrived.  Both are sorted by {from, to, context id,
 * tag} and then by their order in the file, and joined one by one.  A half stays alone if the file of the
 * other side is not there, or ends before the message.
 */
#include "trace_reading.h"

#include <stdlib.h>

#include "base/mem.h"

static int compare_halves(const void *a, const void *b)
{
    const struct job_message *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->context_id != y->context_id)
        return x->context_id < y->context_id ? -1 : 1;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* A flight recording does not say how many messages came before it, so its halves stay
 * halves. */
static bool can_pair(const struct job *job, const struct job_message *half)
{
    return half->to != JOB_NOBODY && half->from != JOB_NOBODY &&
           !job->ranks[half->from].is_flight && !job->ranks[half->to].is_flight;
}

static int compare_envelopes(const struct job_message *x, const struct job_message *y)
{
    struct job_message same = *y;

    same.order = x->order;
    return compare_halves(x, &same);
}

bool pair_halves(struct reading *r)
{
    struct job *job = r->job;
    uint32_t *of_send = mem_calloc(r->send_count + 1, sizeof *of_send);
    uint32_t *of_arrival = mem_calloc(r->arrival_count + 1, sizeof *of_arrival);
    size_t s = 0, a = 0;

    job->messages = mem_calloc(r->send_count + r->arrival_count + 1, sizeof *job->messages);
    if (of_send == NULL || of_arrival == NULL || job->messages == NULL) {
        mem_free(of_send);
        mem_free(of_arrival);
        return false;
    }
    if (r->send_count != 0)
        qsort(r->sends, r->send_count, sizeof *r->sends, compare_halves);
    if (r->arrival_count != 0)
        qsort(r->arrivals, r->arrival_count, sizeof *r->arrivals, compare_halves);
    while (s < r->send_count || a < r->arrival_count) {
        int order = s == r->send_count      ? 1
                    : a == r->arrival_count ? -1
                                            : compare_envelopes(&r->sends[s], &r->arrivals[a]);
        struct job_message *m = &job->messages[job->message_count];

        if (order == 0 && !can_pair(job, &r->sends[s]))
            order = -1;
        *m = order <= 0 ? r->sends[s] : r->arrivals[a];
        if (order == 0) {
            m->arrive = r->arrivals[a].arrive;
            m->post = r->arrivals[a].post;
            m->arrive_event = r->arrivals[a].arrive_event;
            m->post_event = r->arrivals[a].post_event;
            m->received = r->arrivals[a].received;
            m->received_event = r->arrivals[a].received_event;
            m->is_unexpected = r->arrivals[a].is_unexpected;
            if (m->error == 0)
                m->error = r->arrivals[a].error;
        }
        if (order <= 0)
            of_send[r->sends[s++].order] = (uint32_t)job->message_count;
        if (order >= 0)
            of_arrival[r->arrivals[a++].order] = (uint32_t)job->message_count;
        m->order = job->message_count++;
    }
    for (size_t i = 0; i < job->step_count; i++) {
        struct job_step *step = &job->steps[i];
        uint32_t half = (uint32_t)step->key;

        if (half != JOB_NOBODY)
            step->message = step->key >> 63 ? of_send[half] : of_arrival[half];
    }
    mem_free(of_send);
    mem_free(of_arrival);
    return true;
}
