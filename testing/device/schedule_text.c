/* SPDX-License-Identifier: BSD-3-Clause */
#include "testing/device/schedule.h"

#include <string.h>

/* ---- shrinking ---- */

/* Removes these steps, and all after the failure, from s, if it then still fails. */
static bool drop(struct schedule *s, int first, int count, struct schedule_run *run)
{
    struct schedule shorter = *s;
    int failed;

    shorter.count -= count;
    memmove(&shorter.steps[first], &shorter.steps[first + count],
            sizeof shorter.steps[0] * (size_t)(shorter.count - first));
    failed = schedule_replay(run, &shorter, NULL);
    if (failed < 0)
        return false;
    if (failed < shorter.count)
        shorter.count = failed + 1;
    *s = shorter;
    return true;
}

static bool drop_runs(struct schedule *s, int length, struct schedule_run *run)
{
    bool dropped = false;

    for (int i = s->count - length; i >= 0; i -= length)
        if (i + length <= s->count && drop(s, i, length, run))
            dropped = true;
    return dropped;
}

/* Removes two steps that only make sense together, such as a send and its arrival. */
static bool drop_pair(struct schedule *s, struct schedule_run *run)
{
    for (int i = s->count - 1; i > 0; i--) {
        for (int j = i - 1; j >= 0; j--) {
            struct schedule shorter = *s;

            shorter.count--;
            memmove(&shorter.steps[i], &shorter.steps[i + 1],
                    sizeof shorter.steps[0] * (size_t)(shorter.count - i));
            if (drop(&shorter, j, 1, run)) {
                *s = shorter;
                return true;
            }
        }
    }
    return false;
}

static void shrink(struct schedule *s, struct schedule_run *run)
{
    for (int length = s->count / 2; length > 1; length /= 2)
        drop_runs(s, length, run);
    while (drop_runs(s, 1, run) || drop_pair(s, run))
        ;
}

/* ---- printing ---- */

static void print_envelope(FILE *out, const struct schedule_step *step)
{
    fprintf(out, " ctx %u", step->envelope.context_id);
    if (step->envelope.source == MBX_MATCH_ANY_SOURCE)
        fprintf(out, " any-source");
    else
        fprintf(out, " src %u", step->envelope.source);
    if (step->ignore == UINT64_MAX)
        fprintf(out, " any-tag");
    else
        fprintf(out, " tag %llu", (unsigned long long)step->envelope.tag);
    if (step->ignore != 0 && step->ignore != UINT64_MAX)
        fprintf(out, " ignore %#llx", (unsigned long long)step->ignore);
    fprintf(out, ", %u bytes", step->size);
}

static void print_send(FILE *out, const struct schedule_step *step)
{
    fprintf(out, "send    m%d", step->id);
    print_envelope(out, step);
    if (step->message == STEPPED_RENDEZVOUS)
        fprintf(out, ", rendezvous");
    else if (step->wants_fin)
        fprintf(out, ", synchronous");
    if (step->message == STEPPED_RENDEZVOUS && step->breaks_at < step->size)
        fprintf(out, " that the device can do up to byte %u", step->breaks_at);
}

static void print_step(FILE *out, const struct schedule_step *step)
{
    switch (step->kind) {
    case STEP_POST:
        fprintf(out, "post    r%d", step->id);
        print_envelope(out, step);
        break;
    case STEP_FOLLOW:
        fprintf(out, "when r%d ends, post r%d", step->target, step->id);
        print_envelope(out, step);
        break;
    case STEP_CANCEL:
        fprintf(out, "cancel  r%d", step->target);
        break;
    case STEP_CLAIM:
        fprintf(out, "claim   r%d", step->target);
        break;
    case STEP_TAKE:
        fprintf(out, "take    for r%d", step->id);
        print_envelope(out, step);
        break;
    case STEP_SEND:
        print_send(out, step);
        break;
    case STEP_ARRIVE:
        fprintf(out, "arrive  a packet from %u", step->envelope.source);
        break;
    case STEP_COMMAND:
        fprintf(out, "command performed");
        break;
    case STEP_MOVE:
        fprintf(out, "move    transfer %d", step->target);
        break;
    case STEP_POLL:
        if (step->target == 0)
            fprintf(out, "poll    all");
        else
            fprintf(out, "poll    %d events", step->target);
        break;
    case STEP_DENY:
        fprintf(out, "deny    the next %d messages", step->target);
        break;
    case STEP_LOSE:
        fprintf(out, "lose    the device");
        break;
    case STEP_RECALL:
        fprintf(out, "recall  all receives");
        break;
    case STEP_RESUME:
        fprintf(out, "resume  receives again");
        break;
    case STEP_KINDS:
        break;
    }
    fprintf(out, "\n");
}

static void print_schedule(FILE *out, const struct schedule *s)
{
    static const char *const caps[] = {"masks", "any-source", "rendezvous", "truncates"};

    fprintf(out,
            "  list %u, untagged %u, counter %u bits, tags %u bits, threshold %llu, device can",
            s->list, s->untagged, s->counter_bits, s->tag_bits,
            (unsigned long long)s->threshold);
    for (unsigned i = 0; i < 4; i++)
        if (s->caps & 1u << i)
            fprintf(out, " %s", caps[i]);
    for (unsigned i = 0; i < SCHEDULE_PEERS; i++)
        if (s->bypass & 1u << i)
            fprintf(out, ", %u bypasses it", i);
    if (s->holds)
        fprintf(out, ", and holds messages");
    if (s->clashes != 0)
        fprintf(out, ", refuses what has a size that it has mod %u", s->clashes);
    fprintf(out, "\n");
    for (int i = 0; i < s->count; i++) {
        fprintf(out, "  %2d ", i);
        print_step(out, &s->steps[i]);
    }
}

void schedule_report(struct schedule *s, struct schedule_run *run, uint64_t seed)
{
    int failed = schedule_replay(run, s, NULL);

    if (failed >= 0 && failed < s->count)
        s->count = failed + 1;
    shrink(s, run);
    failed = schedule_replay(run, s, NULL);
    fprintf(stderr, "FAIL seed %llu, shortest schedule:\n", (unsigned long long)seed);
    print_schedule(stderr, s);
    if (failed < s->count)
        fprintf(stderr, "# after step %d: %s\n", failed, run->why);
    else
        fprintf(stderr, "# when all has run to the end: %s\n", run->why);
}
