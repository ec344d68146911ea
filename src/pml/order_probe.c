/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order_probe.c - probes that are recorded, or replayed (order.c).
 */
#include "pml/order.h"

/* A probe that found this message is replayed: receives that come before it are posted.  False: the replay has diverged. */
static bool find_recorded(struct order_lane *lane, const struct replay_signature *now,
                          const struct replay_outcome *outcome, int src, int tag,
                          const ompi_communicator_t *comm)
{
    if (outcome->result == REPLAY_MESSAGE && order_fits(outcome, src, tag, comm)) {
        order_post_later(lane, replay_source(outcome), replay_tag(outcome), comm);
        return true;
    }
    order_refuse(lane, now, comm, order_why_not(outcome));
    return false;
}

/* The message that is here instead of the recorded one. */
static void compare_size(struct order_lane *lane, const struct replay_signature *now,
                         const struct replay_outcome *then, const ompi_communicator_t *comm,
                         const ompi_status_public_t *status)
{
    struct replay_outcome found = order_outcome_of_status(status, OMPI_SUCCESS);

    if (found.size_class != then->size_class && then->size_class != REPLAY_SIZE_UNKNOWN)
        order_refuse(lane, now, comm, "its message has another size than the recorded one");
}

static void record_probe(struct order_lane *lane, const struct replay_signature *now, int err,
                         int matched, const ompi_status_public_t *status)
{
    order_record(lane, now,
                 matched || err != OMPI_SUCCESS ? order_outcome_of_status(status, err)
                                                : order_outcome(REPLAY_FALSE, 0));
    if (pml_order.is_traced && matched && err == OMPI_SUCCESS)
        order_trace_probe();
}

/* Without a record. */
static int probe_free(int src, int tag, ompi_communicator_t *comm, int *matched,
                      ompi_message_t **message, ompi_status_public_t *status)
{
    if (pml_order.is_shuffled)
        src = order_shuffle_source(src, tag, comm);
    return pml_improbe(src, tag, comm, matched, message, status);
}

/* MPI_Iprobe; with a message, MPI_Improbe. */
static int probe_now(enum replay_kind kind, int src, int tag, ompi_communicator_t *comm,
                     int *matched, ompi_message_t **message, ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    struct order_lane *lane = order_lane(comm);
    struct replay_signature now;
    struct replay_outcome outcome;
    int err;

    if (lane == NULL)
        return pml_improbe(src, tag, comm, matched, message, status);
    now = order_signature(lane, kind, src, tag, comm);
    *matched = 0;
    if (!order_is_replayed(lane, &now, comm, &outcome)) {
        err = probe_free(src, tag, comm, matched, message, out);
    } else if (outcome.result == REPLAY_FALSE) {
        pml_progress_test();
        err = OMPI_SUCCESS;
    } else if (find_recorded(lane, &now, &outcome, src, tag, comm)) {
        err = pml_mprobe(replay_source(&outcome), replay_tag(&outcome), comm, message, out);
        *matched = err == OMPI_SUCCESS;
        if (err == OMPI_SUCCESS)
            compare_size(lane, &now, &outcome, comm, out);
    } else {
        err = pml_improbe(src, tag, comm, matched, message, out);
    }
    record_probe(lane, &now, err, *matched, out);
    order_event_ends(lane);
    return err;
}

static int order_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
                        ompi_status_public_t *status)
{
    return probe_now(REPLAY_IPROBE, src, tag, comm, matched, NULL, status);
}

static int order_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                         ompi_message_t **message, ompi_status_public_t *status)
{
    return probe_now(REPLAY_IMPROBE, src, tag, comm, matched, message, status);
}

/* A blocking probe with a wildcard: what it looks for. */
static void plan_probe(struct order_lane *lane, const struct replay_signature *now,
                       ompi_communicator_t *comm, int *src, int *tag)
{
    struct replay_outcome outcome;

    if (!order_is_replayed(lane, now, comm, &outcome)) {
        if (pml_order.is_shuffled)
            *src = order_shuffle_source(*src, *tag, comm);
        return;
    }
    if (!find_recorded(lane, now, &outcome, *src, *tag, comm))
        return;
    *src = replay_source(&outcome);
    *tag = replay_tag(&outcome);
}

/* MPI_Probe; with a message, MPI_Mprobe. */
static int probe_until(enum replay_kind kind, int src, int tag, ompi_communicator_t *comm,
                       ompi_message_t **message, ompi_status_public_t *status)
{
    ompi_status_public_t own, *out = status != MPI_STATUS_IGNORE ? status : &own;
    bool is_wild = src == OMPI_ANY_SOURCE || tag == OMPI_ANY_TAG;
    struct order_lane *lane = is_wild ? order_lane(comm) : NULL;
    struct replay_signature now;
    int err;

    if (lane == NULL)
        return pml_mprobe(src, tag, comm, message, status);
    now = order_signature(lane, kind, src, tag, comm);
    plan_probe(lane, &now, comm, &src, &tag);
    err = pml_mprobe(src, tag, comm, message, out);
    record_probe(lane, &now, err, true, out);
    order_event_ends(lane);
    return err;
}

static int order_probe(int src, int tag, ompi_communicator_t *comm,
                       ompi_status_public_t *status)
{
    return probe_until(REPLAY_PROBE, src, tag, comm, NULL, status);
}

static int order_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
                        ompi_status_public_t *status)
{
    return probe_until(REPLAY_MPROBE, src, tag, comm, message, status);
}

void order_probe_take(mca_pml_base_module_t *module)
{
    module->pml_iprobe = order_iprobe;
    module->pml_improbe = order_improbe;
    module->pml_probe = order_probe;
    module->pml_mprobe = order_mprobe;
}
