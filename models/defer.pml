/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * defer.pml - a bounded window at the receiver, and matching at the sender beyond it.
 *
 *   source A (three sends)                      receiver             user of the receiver
 *
 *   sent:  s0 s1 | s2 s3 s4                     unexpected <-------- posts a receive
 *          away  | deferred                     posted               cancels it
 *                                               credits owed         probes
 *   ENV(s, payload) ------------------------>
 *   DEFER(e) ------------------------------->   A defers, in epoch e
 *           <------------------------ RTR(r, e)   each open receive, in order; each later one
 *   CLAIM(r, s) ---------------------------->   still open: bound
 *           <------------------------ GRANT(r)   RETIRE(r) to every other deferring source
 *                                               (in wire.h GRANT is RETIRE with the flag WON)
 *   data ===================================>   into the buffer of r
 *           <------------------- CREDIT(n, p)   n envelopes were matched, p payloads freed
 *           <------------------------ FETCH(s)   the payload of an envelope that came alone
 *           <-------------------- PEEK(tag, e)   a probe
 *   PEEKED(s or none) ---------------------->
 *
 *   source B (one send): as source A
 *
 * A source emits envelopes while it has credits.  Without credit it defers the send and all later
 * ones, reports this by DEFER, and gets an RTR for each open receive.  Among its deferred sends and
 * those RTRs it claims a pair that is *mutual first*: the send is the first that the receive
 * accepts, the receive the first that accepts the send; claimed ones still count.  With a
 * credit, and no claim out, it emits again, and that ends the epoch on both sides.
 *
 * A receive has a number, its place in the order of posting.  The receiver keeps no list of
 * its RTRs: a deferring source got one for exactly the open receives that it could match.
 *
 * A matched probe is a receive without a buffer: it is posted, advertised and matched like any
 * other, and the data follows when the user lends a buffer.
 *
 * Steps, each of them one atomic action here.  A source: posts a send; emits; begins to defer;
 * emits again; claims; reads one message; begins to write data; dies; learns that the receiver
 * died.  The receiver: posts; reads one message; returns credits; cancels; receives the message
 * of a matched probe; probes; learns that a source died, after it has shut the path of its
 * data; dies.  The transport: completes a write.
 *
 * Properties (`must` names the one that is violated), when send s and receive r are bound:
 *
 *   V1   no earlier unmatched send of the source of s is accepted by r
 *   V2   no earlier open receive accepts s
 *   ONE  a send is bound once, and so is a receive; a cancelled one never
 *   P1   a probe finds the earliest unmatched message of a source that it accepts, and a
 *        receive that is posted for it gets it
 *
 * at any time:
 *
 *   B1   at most WINDOW unmatched envelopes of a source lie at the receiver
 *   B2   at most POOL payloads of a source lie there
 *   W1   data is written only into a buffer that is lent, of the receive that is bound
 *   E1   a claim arrives in the epoch in which it was made; a grant finds the claim
 *
 * and when nothing moves any more:
 *
 *   NOLOSS  no unmatched send and open receive fit each other
 *   P2      a probe finds a message if there is one
 *   B3      every credit is at its source, or owed, or with an envelope or payload at the receiver
 *   S1      nobody waits for an event that will not come: claims are answered, bound receives
 *           have ended, and with a dead peer each operation that names it
 *
 * A payload takes one unit of the pool, and pools are not shared between sources.  The two
 * sides are in separate files, defer_source.pml and defer_receiver.pml; the possible
 * mistakes are in defer_mistakes.pml.  Every option below is a number, and most are
 * 0 or 1.  models/variants sets them.
 */

/* Sizes. */
#ifndef SENDS /* sends of source A */
#define SENDS 3
#endif
#ifndef SENDS_B /* sends of source B */
#define SENDS_B 1
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef WINDOW /* envelope credits of a source */
#define WINDOW 1
#endif
#ifndef POOL /* payload credits of a source */
#define POOL 0
#endif
#ifndef BATCH /* credits are returned when this many are owed */
#define BATCH 1
#endif
#ifndef LEAVE /* this many credits end an epoch */
#define LEAVE 1
#endif

/* Optional parts. */
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 0
#endif
#ifndef PROBES /* number of probes */
#define PROBES 0
#endif
#ifndef MATCHED_PROBES /* number of receives that may be matched probes */
#define MATCHED_PROBES 0
#endif
#ifndef DATA /* data moves in separate steps */
#define DATA 0
#endif
#ifndef UNORDERED_CLAIMS /* claims are not ordered with envelopes, like network atomics */
#define UNORDERED_CLAIMS 0
#endif
#ifndef SOURCES_FIRST /* a source takes all its possible steps before any other process */
#define SOURCES_FIRST 0
#endif
#ifndef TAGS /* 2: tags A and B; 1: only A */
#define TAGS 2
#endif
#ifndef DIRECTED /* receives from A alone, in addition to receives from any source */
#define DIRECTED 1
#endif
#ifndef DEATHS /* who may die: 0: nobody, 1: one of the sources, 2: the receiver */
#define DEATHS 0
#endif

#include "defer_mistakes.pml"

#define ALL (SENDS + SENDS_B)
#define ANY 2 /* any tag, any source */
#define NONE 9
#define UP_CAPACITY 8 /* messages in flight, more than can occur */
#define DOWN_CAPACITY 12

/* ---- state ----------------------------------------------------------------------- */

/* A send: deferred; claimed; its envelope is emitted, with its payload or waiting for a FETCH; its
 * data may be written; is being written; all of it has left or arrived; given up. */
mtype:send = { future, deferred, claimed, emitted, may_write, being_written, done, given_up };

/* A receive; `found` and `filling` are bound: waits for a buffer; waits for data. */
mtype:receive = { absent, open, found, filling, received, cancelled, failed };

mtype:up = { env, defer, claim, peeked };
mtype:down = { rtr, retire, grant, credit, fetch, peek };

chan unordered_claims[2] = [SENDS] of { byte, byte };
chan up[2] = [UP_CAPACITY] of { mtype:up, byte, byte };
chan down[2] = [DOWN_CAPACITY] of { mtype:down, byte, byte };

/* sources; the sends of A come first */
byte sent[2];               /* number of posted sends */
mtype:send send_state[ALL] = future;
bit tag[ALL];
byte target[ALL];              /* the receive that is claimed, or whose buffer is written, + 1 */
bit demoted[ALL];            /* LOSER_LAST: ordered after the others */
bit is_deferring[2];
byte epoch[2];
byte credits[2] = WINDOW;
byte pool[2] = POOL;
byte advertised[2];               /* set of receives advertised and not retired */
byte first_deferred[2];               /* the first deferred send, or NONE */
byte pair_s[2], pair_r[2];  /* the pair that may be claimed, or NONE */
bit has_claim[2];                 /* a claim is not answered yet */
byte ready[2];              /* set of sends that may write */
byte in_flight;             /* set of sends that are being written */

/* receiver */
byte posted;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];        /* tag, or ANY */
byte want_source[RECEIVES]; /* source, or ANY */
bit is_probe[RECEIVES];     /* a matched probe */
byte unexpected;                  /* set of unexpected envelopes, by send */
byte payloads;              /* set of payloads at the receiver, by send */
byte defer_epoch[2];              /* of a deferring source; 0: it does not defer */
byte owed_credits[2], owed_pool[2]; /* credits to be returned */
byte peeks_open;                 /* set of sources that have not answered PEEK */
byte peek_tag;
byte probed_send;              /* the send that the probe found, + 1: the next receive is for it */
byte cancels, probes, matched_probes;
bit known_dead[2];                /* the receiver knows that this source is dead */

/* deaths, and the end */
bit dead[3];                /* A, B, the receiver */
bit deaths;
bit knows_death[2];              /* a source knows that the receiver is dead */
bit is_final;                 /* nothing moves any more: one last probe */
bit final_found;
byte final_tag = NONE;

/* the true state, not known to any process */
byte got[RECEIVES];         /* send + 1 */
byte bound[ALL];            /* receive + 1 */
byte probed_for[RECEIVES];     /* the send that a probe found, + 1 */

/* Used within one step only: 0 between steps, so that they make no states. */
byte k, n, m, q, r, s, x, y;
bit ok;
mtype:up up_packet;
mtype:down down_packet;

inline step_ends() {
    k = 0; n = 0; m = 0; q = 0; r = 0; s = 0; x = 0; y = 0; ok = 0;
    up_packet = 0;
    down_packet = 0
}

/* ---- rules ----------------------------------------------------------------------- */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

#define FIRST(i) ((i) == 0 -> 0 : SENDS)
#define LAST(i) ((i) == 0 -> SENDS - 1 : ALL - 1)
#define source_of(s) ((s) >= SENDS)
#define bit_of(set, k) (((set) >> (k)) & 1)
#define with(set, k) ((set) | (1 << (k)))
#define without(set, k) ((set) & ~(1 << (k)))
#define only(i) ((i) == 0 -> (1 << SENDS) - 1 : ((1 << SENDS_B) - 1) << SENDS)

#define accepts_tag(t, s) ((t) == ANY || (t) == tag[s])
#define could_match(r, i) (want_source[r] == ANY || want_source[r] == (i))
#define accepts(r, s) (accepts_tag(want[r], s) && could_match(r, source_of(s)))

/* Is send a before send b, of the same source? */
#define before(a, b) (demoted[a] == demoted[b] -> (a) < (b) : !demoted[a])

inline send_up(i, what, a, b) {
    must(len(up[i]) < UP_CAPACITY, "there is space on the way up (the model)");
    up[i]!what, a, b
}

inline send_down(i, what, a, b) {
    must(len(down[i]) < DOWN_CAPACITY, "there is space on the way down (the model)");
    down[i]!what, a, b
}

/* Binds send s and receive r, and checks all MPI rules for a match. */
inline bind(s, r) {
    printf("@ bind %d %d\n", s, r);
    must(got[r] == 0 && bound[s] == 0, "a send and a receive are bound once (ONE)");
    must(receive[r] == open, "only an open receive is bound (ONE)");
    for (k : 0 .. ALL - 1) {
        must(k >= s || source_of(k) != source_of(s) || bound[k] || !accepts(r, k),
             "a receive gets the earliest send of a source (V1)")
    }
    for (k : 0 .. RECEIVES - 1) {
        must(k >= r || receive[k] != open || !accepts(k, s),
             "a send goes to the earliest receive (V2)")
    }
    must(probed_for[r] == 0 || probed_for[r] == s + 1, "a receive gets what the probe found (P1)");
    got[r] = s + 1;
    bound[s] = r + 1
}

/* n: the number of sends of source i in the set. */
inline count(i, set) {
    n = 0;
    for (k : FIRST(i) .. LAST(i)) {
        n = n + bit_of(set, k)
    }
}

/* Writes the data of send s into the buffer of its receive. */
inline land(s) {
    m = target[s] - 1;
    printf("@ land %d %d\n", s, m);
    must(receive[m] == filling && got[m] == s + 1, "data goes into a lent buffer only (W1)");
    receive[m] = received;
    send_state[s] = done;
    in_flight = without(in_flight, s)
}

#include "defer_source.pml"
#include "defer_receiver.pml"

/* ---- the end of a run ------------------------------------------------------------ */

inline check_pairs() {
    for (r : 0 .. RECEIVES - 1) {
        for (s : 0 .. ALL - 1) {
            must(receive[r] != open || bound[s] || dead[source_of(s)] || !accepts(r, s),
                 "no unmatched send and open receive fit each other (NOLOSS)")
        }
        must(receive[r] != filling && receive[r] != found, "a bound receive ends (S1)");
        must(receive[r] != open || want_source[r] == ANY || !dead[want_source[r] & 1],
             "a receive from a dead source fails (S1)")
    }
    for (s : 0 .. ALL - 1) {
        must(dead[source_of(s)] || send_state[s] != claimed, "a claim is answered (S1)");
        must(dead[source_of(s)] || !bound[s] || send_state[s] == done, "a bound send ends (S1)")
    }
}

inline check_credits() {
    for (q : 0 .. 1) {
        count(q, unexpected);
        must(dead[q] || credits[q] + owed_credits[q] + n == WINDOW, "no credit is lost (B3)");
        count(q, payloads);
        must(dead[q] || pool[q] + owed_pool[q] + n == POOL, "no payload credit is lost (B3)")
    }
}

inline check_sends_end() {
    for (s : 0 .. ALL - 1) {
        must(dead[source_of(s)] || send_state[s] == done || send_state[s] == given_up,
             "a send to a dead receiver ends (S1)")
    }
}

inline check_last_probe() {
    for (s : 0 .. ALL - 1) {
        must(final_found || probed_send || final_tag == NONE || bound[s] || dead[source_of(s)] ||
             !accepts_tag(final_tag, s), "a probe finds a message if there is one (P2)")
    }
}

init {
    atomic {
        first_deferred[0] = NONE; first_deferred[1] = NONE;
        pair_r[0] = NONE; pair_r[1] = NONE;
        pair_s[0] = NONE; pair_s[1] = NONE;
        peek_tag = NONE;
        printf("sends of A: %d\n", SENDS);
        run Source(0); run Source(1); run Receiver(); run Transport()
    }
    timeout;
    d_step {
        if
        :: dead[2] -> check_sends_end()
        :: else -> check_pairs(); check_credits()
        fi;
        step_ends();
        is_final = (PROBES > 0)
    }
    timeout;
    d_step { check_last_probe(); step_ends() }
}
