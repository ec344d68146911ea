/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step.c - holds the adapter: it then works piece by piece, on request (ADAPTER_STEP).
 *
 *   a piece   one command of a matching list
 *             one turn of a queue pair, of one frame
 *
 * For tests: the next piece is drawn, from a seed, among all that can be done.  If the
 * application does nothing meanwhile, the seed determines the order of all actions.  Requests
 * of applications are served as usual.  No time passes for queue pairs.  The hold ends when the
 * client that requested it ends.
 */
#include <errno.h>

#include "adapter/daemon/daemon.h"
#include "base/random.h"

static const struct client *holder; /* NULL: the adapter works by itself */

bool step_is_held(void)
{
    return holder != NULL;
}

uint32_t step_frames(uint32_t usual)
{
    return holder != NULL ? 1 : usual;
}

/* Ends the hold: the adapter looks at what was posted meanwhile. */
static void release(void)
{
    struct list *node;

    holder = NULL;
    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        if (client->page != NULL)
            client_doorbell(client);
    }
}

void step_client_ends(const struct client *client)
{
    if (holder == client)
        release();
}

/* Performs a pending command, after skipping *skip of them.  False: there are not so many;
 * *skip has been reduced by their number. */
static bool do_command(uint32_t *skip)
{
    struct list *node, *list;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        list_for_each (list, &client->matching) {
            struct srq *srq = container_of(list, struct srq, matching);

            if (client->is_gone || !tm_has_commands(srq) || (*skip)-- > 0)
                continue;
            tm_command_once(srq);
            return true;
        }
    }
    return false;
}

/* Like do_command(), for the turn of a queue pair. */
static bool do_turn(uint32_t *skip)
{
    struct list *node;

    list_for_each (node, &runnable) {
        if ((*skip)-- > 0)
            continue;
        list_remove(node);
        qp_run(container_of(node, struct qp, run));
        return true;
    }
    return false;
}

static uint32_t count_pieces(void)
{
    struct list *node, *list;
    uint32_t count = 0;

    list_for_each (node, &clients) {
        struct client *client = container_of(node, struct client, node);

        list_for_each (list, &client->matching)
            count +=
                !client->is_gone && tm_has_commands(container_of(list, struct srq, matching));
    }
    list_for_each (node, &runnable)
        count++;
    return count;
}

static uint32_t do_pieces(uint32_t count, uint64_t seed)
{
    struct random random;
    uint32_t done = 0;

    random_seed(&random, seed);
    for (; done < count; done++) {
        uint32_t pieces, skip;

        look_at_doorbells();
        pieces = count_pieces();
        if (pieces == 0)
            break;
        skip = (uint32_t)random_below(&random, pieces);
        if (!do_command(&skip))
            do_turn(&skip);
    }
    return done;
}

int step_perform(const struct client *client, const struct adapter_request *request,
                 struct adapter_reply *reply)
{
    if (holder != NULL && holder != client)
        return -EBUSY;
    if (request->step.count > 0 && holder == NULL)
        return -EINVAL;
    reply->done = do_pieces(request->step.count, request->step.seed);
    if (request->step.hold && holder == NULL)
        holder = client;
    else if (!request->step.hold && holder != NULL)
        release();
    return 0;
}
