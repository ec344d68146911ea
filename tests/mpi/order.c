/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - messages of one sender with one tag are received in the order in which they were
 * sent, whatever mixture of wildcards receives them and whatever their length.
 *
 * Every rank sends EACH messages to every rank, including itself, with tags 0..TAGS-1 and
 * lengths that travel by different protocols, all numbered.  The receives are posted from
 * special to general, so that every one of them can match:
 *
 *   some {source, tag}, some {ANY_SOURCE, tag}, the rest {ANY_SOURCE, ANY_TAG}
 *
 * A receive that accepts one message of a {source, tag} accepts all of them; so along the
 * posting order, the numbers of each {source, tag} must increase.
 */
#include "check.h"

#define EACH      48
#define TAGS      3
#define LENGTHS   5
#define MAX_BYTES 40000

struct head {
    int source, tag, number, length;
};

struct receive {
    MPI_Request request;
    unsigned char *buf;
};

static const int lengths[LENGTHS] = {(int)sizeof(struct head), 40, 1000, 9000, MAX_BYTES};

static void message_fill(unsigned char *buf, int to, int number)
{
    struct head head = {rank, number % TAGS, number, lengths[(number * 7 + to) % LENGTHS]};

    pattern_fill(buf, (size_t)head.length, (unsigned)number);
    memcpy(buf, &head, sizeof head);
}

static void send_all(MPI_Request *requests, unsigned char *bufs)
{
    for (int number = 0; number < EACH; number++) {
        for (int to = 0; to < ranks; to++) {
            int at = number * ranks + to;
            unsigned char *buf = bufs + (size_t)at * MAX_BYTES;
            struct head head;

            message_fill(buf, to, number);
            memcpy(&head, buf, sizeof head);
            if (number % 11 == 5)
                MPI_Issend(buf, head.length, MPI_BYTE, to, head.tag, MPI_COMM_WORLD,
                           &requests[at]);
            else
                MPI_Isend(buf, head.length, MPI_BYTE, to, head.tag, MPI_COMM_WORLD,
                          &requests[at]);
        }
    }
}

static void post_one(struct receive *r, int source, int tag)
{
    MPI_Irecv(r->buf, MAX_BYTES, MPI_BYTE, source, tag, MPI_COMM_WORLD, &r->request);
}

/* A third of the receives is of each kind; the order of the directed ones is random. */
static int post_all(struct receive *receives, uint64_t *random)
{
    int posted = 0, total = ranks * EACH;
    int pairs = ranks * TAGS;

    for (int round = 0; round < EACH / TAGS / 3; round++) {
        int first = (int)(next_random(random) % (unsigned)pairs);

        for (int i = 0; i < pairs; i++)
            post_one(&receives[posted++], (first + i) % pairs / TAGS,
                     (first + i) % pairs % TAGS);
    }
    for (int i = 0; i < ranks * EACH / 3; i++)
        post_one(&receives[posted++], MPI_ANY_SOURCE, i % TAGS);
    while (posted < total)
        post_one(&receives[posted++], MPI_ANY_SOURCE, MPI_ANY_TAG);
    return posted;
}

static void check_all(struct receive *receives, int count)
{
    int *last = malloc((size_t)ranks * TAGS * sizeof *last);

    for (int i = 0; i < ranks * TAGS; i++)
        last[i] = -1;
    for (int i = 0; i < count; i++) {
        MPI_Status status;
        struct head head;
        int got;

        MPI_Wait(&receives[i].request, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        memcpy(&head, receives[i].buf, sizeof head);
        CHECK_EQUAL(head.source, status.MPI_SOURCE);
        CHECK_EQUAL(head.tag, status.MPI_TAG);
        CHECK_EQUAL(head.length, got);
        CHECK_EQUAL(lengths[(head.number * 7 + rank) % LENGTHS], got);
        CHECK(head.number > last[head.source * TAGS + head.tag]);
        last[head.source * TAGS + head.tag] = head.number;
        pattern_fill(receives[i].buf, sizeof head, (unsigned)head.number);
        CHECK_EQUAL(pattern_end(receives[i].buf, (size_t)got, (unsigned)head.number), got);
    }
    for (int i = 0; i < ranks * TAGS; i++)
        CHECK_EQUAL(last[i], EACH - TAGS + i % TAGS);
    free(last);
}

int main(int argc, char **argv)
{
    uint64_t random;
    int total;
    MPI_Request *sends;
    struct receive *receives;
    unsigned char *out, *in;

    start(&argc, &argv);
    total = ranks * EACH;
    random = (uint64_t)rank;
    sends = calloc((size_t)total, sizeof *sends);
    receives = calloc((size_t)total, sizeof *receives);
    out = malloc((size_t)total * MAX_BYTES);
    in = malloc((size_t)total * MAX_BYTES);
    for (int i = 0; i < total; i++)
        receives[i].buf = in + (size_t)i * MAX_BYTES;

    for (int round = 0; round < 4; round++) {
        int posted = 0;

        /* receives first, sends first, or without a barrier */
        if (round % 3 == 0) {
            posted = post_all(receives, &random);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        send_all(sends, out);
        if (round % 3 == 1)
            MPI_Barrier(MPI_COMM_WORLD);
        if (round % 3 != 0)
            posted = post_all(receives, &random);
        check_all(receives, posted);
        MPI_Waitall(total, sends, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(in);
    free(out);
    free(receives);
    free(sends);
    return finish("order");
}
