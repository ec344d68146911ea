/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockword.pml - matching at the sender alone, with a lock word for each receive.
 *
 *   sources A, B                          receiver               user of the receiver
 *
 *   every send is deferred                receives, words <----- posts a receive
 *           <--------- RTR(r, slot, g)    to all who may match    cancels it
 *   cswap(slot, g) ------------------>    word: generation | state | owner
 *           <------------- won or lost    by compare-and-swap, at any time
 *   data, FIN =======================>    into the buffer of r
 *           <---------------- RETIRE(r)   to all others, when the word is seen taken
 *
 * A receive that several sources may match has a word in one of a few slots.  Slots are
 * reused, so the word has a generation, which is part of the comparison: one operation
 * takes the lock and names the owner.  The network carries it out without any order with
 * messages; operations of one source are in order, or not (NO_ORDER).  A source tries to take
 * a pair that is *mutual first*, as in defer.pml; a source that loses forgets the receive, and
 * the send returns to its place.
 *
 * A receive from one source has no word: nobody else can take it.  Its source matches it at
 * once.  To cancel it, the receiver asks that source; the answer says whether it was in time.
 *
 * The cancel of a receive with a word is a compare-and-swap of the word too, from open to
 * closed.  A slot is free when its word is closed, or its owner has been seen.
 *
 * Steps, each of them one atomic action here.  A source: posts a send; tries to take a word;
 * reads the result; reads one message; begins to write data; dies.  The network: carries out one
 * operation on a word; completes a write.  The receiver: posts; sees that a word is taken; begins
 * a cancel; reads one answer; learns that a source died, after it has shut the path of its data.
 *
 * Only the path of data is shut: an operation on a word that was in flight may still be
 * carried out, and a dead source may take a receive.  So the receiver checks the owner of each
 * word that it sees taken.
 *
 * Properties (`must` names the one that is violated): V1, V2, ONE, NOLOSS, W1 and S1 as in
 * defer.pml, and
 *
 *   G1  a source that takes a word takes the receive of its RTR
 *   C1  a receive is not cancelled when it is bound, nor bound when it is cancelled
 *   F1  if a receive fails because its owner died, the receiver knows the owner
 */

/* Sizes. */
#ifndef SENDS /* sends of source A */
#define SENDS 2
#endif
#ifndef SENDS_B /* sends of source B */
#define SENDS_B 2
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef SLOTS /* words, at most 3 */
#define SLOTS 2
#endif
#ifndef TAGS /* 2: tags A and B; 1: only A */
#define TAGS 2
#endif

/* Optional parts. */
#ifndef DIRECTED /* receives from A alone, in addition to receives from any source */
#define DIRECTED 0
#endif
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 0
#endif
#ifndef DEATHS /* one of the sources may die */
#define DEATHS 0
#endif
#ifndef ONE_TRY /* a source tries for one receive at a time */
#define ONE_TRY 0
#endif
#ifndef TRIED_GONE /* a receive that a source tries to take does not count for the next try */
#define TRIED_GONE 0
#endif
#ifndef NO_ORDER /* the network does not order operations on words */
#define NO_ORDER 0
#endif
#ifndef DATA /* data moves in separate steps */
#define DATA DEATHS
#endif

/* Mistakes. */
#ifndef NO_GENERATION /* the word has no generation */
#define NO_GENERATION 0
#endif
#ifndef ANY_RTR /* a source tries for any receive that accepts the send */
#define ANY_RTR 0
#endif
#ifndef ANY_SEND /* a source matches any send that the receive accepts */
#define ANY_SEND 0
#endif
#ifndef CLAIMED_ABSENT /* a receive that is being taken does not count for the next try */
#define CLAIMED_ABSENT 0
#endif
#ifndef FORGET_RTR /* an RTR that no send fits is not kept */
#define FORGET_RTR 0
#endif
#ifndef LOSER_LAST /* a send that lost is ordered after the others */
#define LOSER_LAST 0
#endif
#ifndef LOSER_FAILS /* a send that lost is cancelled, instead of only its match */
#define LOSER_FAILS 0
#endif
#ifndef ONE_SOURCE /* a receive from any source is advertised to only one */
#define ONE_SOURCE 0
#endif
#ifndef NO_RETIRE /* no RETIRE for a taken receive is sent to the others */
#define NO_RETIRE 0
#endif
#ifndef PLAIN_CANCEL /* a cancel reads the word, and closes it in a second step */
#define PLAIN_CANCEL 0
#endif
#ifndef CANCEL_UNANSWERED /* a cancel of a receive from one source does not wait */
#define CANCEL_UNANSWERED 0
#endif
#ifndef TWO_STEPS /* the lock is taken in one step, and the owner written in a second */
#define TWO_STEPS 0
#endif
#ifndef SHUT_LATE /* receives fail before the path of the data is shut */
#define SHUT_LATE 0
#endif
#ifndef OWNER_UNSEEN /* the owner of a taken word is not checked against dead sources */
#define OWNER_UNSEEN 0
#endif

#define ALL (SENDS + SENDS_B)
#define ANY 2 /* any tag, any source */
#define NONE 9
#define UNNAMED 3 /* an owner that is not written yet */
#define CAPACITY (3 * RECEIVES)

/* ---- state ----------------------------------------------------------------------- */

/* A send: deferred; a compare-and-swap is in flight; matched; its data is being written; complete;
 * given up. */
mtype:send = { future, deferred, locking, may_write, being_written, done, given_up };

/* A receive; cancel_asked: its source was asked to let it be cancelled; cancel_begun: a cancel in
 * two steps has begun. */
mtype:receive = { absent, open, cancel_asked, cancel_begun, filling, received, cancelled, failed };
mtype:lockword = { closed, unlocked, taken };
mtype:down = { rtr, retire, ask };

chan down[2] = [CAPACITY] of { mtype:down, byte, byte, byte }; /* receive, slot, generation */
chan cswaps[2] = [ALL] of { byte, byte, byte };              /* send, slot, generation */
chan results[2] = [ALL] of { byte, bit };                   /* send, won */
chan answers[2] = [RECEIVES] of { byte, bit };             /* receive, was it in time? */

/* sources; the sends of A come first */
byte sent[2];
mtype:send send_state[ALL] = future;
bit tag[ALL];
byte target[ALL]; /* the receive that it tries to take, or whose buffer is written, + 1 */
bit demoted[ALL];           /* LOSER_LAST */
byte advertised[2];              /* set of receives advertised and not retired */
byte slot_of[2 * RECEIVES], advertised_generation[2 * RECEIVES]; /* by source and receive */
byte pair_s[2], pair_r[2]; /* the pair that may be matched, or NONE */
byte ready[2];             /* set of sends that may write */
byte in_flight;            /* set of sends that are being written */
byte half_locked; /* TWO_STEPS: a send that has locked, but not written the owner, + 1 */

/* receiver */
byte posted;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];       /* tag, or ANY */
byte want_source[RECEIVES];
byte cancels;
bit known_dead[2];

/* the words; only the receiver knows which receive has one */
mtype:lockword lockword[SLOTS] = closed;
byte owner[SLOTS], generation[SLOTS];
byte word_receive[SLOTS];        /* receive + 1 */
byte free = 0;             /* a slot, or SLOTS */

/* deaths */
bit dead[2];
bit deaths;

/* the true state, not known to any process */
byte got[RECEIVES];        /* send + 1 */
byte bound[ALL];           /* receive + 1 */
bit released[RECEIVES];    /* its source has let it be cancelled */

/* Used within one step only: 0 between steps, so that they make no states. */
byte k, n, m, q, r, s, x, g;
bit ok;
mtype:down down_packet;

inline step_ends() {
    k = 0; n = 0; m = 0; q = 0; r = 0; s = 0; x = 0; g = 0; ok = 0;
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
#define could_match(r, i) (want_source[r] == ANY || want_source[r] == (i))
#define accepts(r, s) ((want[r] == ANY || want[r] == tag[s]) && could_match(r, source_of(s)))
#define is_open(r) \
    (receive[r] == open || (receive[r] == cancel_asked && !released[r]) || receive[r] == cancel_begun)
#define place(i, r) ((i) * RECEIVES + (r))

/* Is send a before send b, of the same source? */
#define before(a, b) (demoted[a] == demoted[b] -> (a) < (b) : !demoted[a])

/* Binds send s and receive r, and checks all MPI rules for a match. */
inline bind(s, r) {
    printf("@ bind %d %d\n", s, r);
    must(got[r] == 0 && bound[s] == 0, "a send and a receive are bound once (ONE)");
    must(receive[r] != cancelled, "a cancelled receive is not bound (C1)");
    for (k : 0 .. ALL - 1) {
        must(k >= s || source_of(k) != source_of(s) || bound[k] || !accepts(r, k),
             "a receive gets the earliest send of a source (V1)")
    }
    for (k : 0 .. RECEIVES - 1) {
        must(k >= r || got[k] || !is_open(k) || !accepts(k, s),
             "a send goes to the earliest receive (V2)")
    }
    got[r] = s + 1;
    bound[s] = r + 1
}

inline land(s) {
    m = target[s] - 1;
    printf("@ land %d %d\n", s, m);
    must(is_open(m) || receive[m] == filling, "data goes into a lent buffer only (W1)");
    must(got[m] == s + 1, "data goes to the receive that is bound (W1)");
    receive[m] = received;
    send_state[s] = done;
    in_flight = without(in_flight, s)
}

/* ---- source ---------------------------------------------------------------------- */

inline begin_write(s) {
    if
    :: DATA ->
        printf("@ write %d %d\n", s, target[s] - 1);
        send_state[s] = being_written;
        in_flight = with(in_flight, s)
    :: else -> land(s)
    fi
}

inline matched(s) {
    send_state[s] = may_write;
    if
    :: !DATA -> begin_write(s)
    :: else
    fi
}

/* x: the first send of source i that is deferred, or being tried, and that receive r accepts. */
inline find_first(i, r) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: (send_state[k] == deferred || (send_state[k] == locking && !CLAIMED_ABSENT)) &&
           accepts(r, k) ->
            x = (x == NONE || before(k, x) || (ANY_SEND && send_state[k] == deferred) -> k : x)
        :: else
        fi
    }
}

/* ok: x is a deferred send, and r the first receive that accepts it. */
inline is_mutual(i, r) {
    ok = (x != NONE);
    if
    :: ok ->
        ok = (send_state[x] == deferred);
        for (k : 0 .. RECEIVES - 1) {
            ok = ok && (k >= r || ANY_RTR || !bit_of(advertised[i], k) || !accepts(k, x) ||
                        ((CLAIMED_ABSENT || TRIED_GONE) && bit_of(n, k)))
        }
    :: else
    fi
}

/* After each step of source i: computes its next possible steps.  n: the receives that it tries to
 * take. */
inline update_choices(i) {
    pair_s[i] = NONE;
    pair_r[i] = NONE;
    ready[i] = 0;
    n = 0;
    for (k : FIRST(i) .. LAST(i)) {
        ready[i] = (send_state[k] == may_write -> with(ready[i], k) : ready[i]);
        n = (send_state[k] == locking -> with(n, target[k] - 1) : n)
    }
    for (r : 0 .. RECEIVES - 1) {
        if
        :: bit_of(advertised[i], r) && !bit_of(n, r) && (pair_r[i] == NONE || ANY_RTR) &&
           !(ONE_TRY && n) ->
            find_first(i, r);
            is_mutual(i, r);
            pair_r[i] = (ok -> r : pair_r[i]);
            pair_s[i] = (ok -> x : pair_s[i])
        :: else
        fi
    }
    step_ends()
}

inline post_send(i) {
    s = FIRST(i) + sent[i];
    sent[i]++;
    printf("@ send %d %d\n", s, tag[s]);
    send_state[s] = deferred;
    update_choices(i)
}

inline match_pair(i) {
    s = pair_s[i];
    r = pair_r[i];
    target[s] = r + 1;
    if
    :: want_source[r] == ANY ->
        printf("@ lock %d %d\n", s, r);
        send_state[s] = locking;
        cswaps[i]!s, slot_of[place(i, r)], advertised_generation[place(i, r)]
    :: else ->
        bind(s, r);
        advertised[i] = without(advertised[i], r);
        matched(s)
    fi;
    update_choices(i)
}

inline read_result(i) {
    results[i]?s, ok;
    r = target[s] - 1;
    advertised[i] = without(advertised[i], r);
    if
    :: ok -> printf("@ won %d %d\n", s, r); matched(s)
    :: else ->
        printf("@ lost_claim %d %d\n", s, r);
        target[s] = 0;
        send_state[s] = (LOSER_FAILS -> given_up : deferred);
        demoted[s] = LOSER_LAST
    fi;
    update_choices(i)
}

inline read_rtr(i, r, slot, gen) {
    printf("@ got_rtr %d %d %d\n", i, r, gen);
    find_first(i, r);
    ok = (x != NONE || !FORGET_RTR);
    advertised[i] = (ok -> with(advertised[i], r) : advertised[i]);
    slot_of[place(i, r)] = slot;
    advertised_generation[place(i, r)] = gen
}

/* A receive that the source tries to take stays: the result will be read. */
inline read_retire(i, r) {
    printf("@ got_retire %d %d\n", i, r);
    ok = 1;
    for (k : FIRST(i) .. LAST(i)) {
        ok = ok && !(send_state[k] == locking && target[k] == r + 1)
    }
    advertised[i] = (ok -> without(advertised[i], r) : advertised[i])
}

inline answer_cancel(i, r) {
    ok = bit_of(advertised[i], r);
    released[r] = ok;
    printf("@ got_ask %d %d %d\n", i, r, ok);
    advertised[i] = without(advertised[i], r);
    if
    :: CANCEL_UNANSWERED
    :: else -> answers[i]!r, ok
    fi
}

inline read_down(i) {
    down[i]?down_packet, m, q, g;
    if
    :: down_packet == rtr -> read_rtr(i, m, q, g)
    :: down_packet == retire -> read_retire(i, m)
    :: down_packet == ask -> answer_cancel(i, m)
    fi;
    update_choices(i)
}

proctype Source(byte i) {
    byte chosen;
end:
    do
    :: atomic {
        !dead[i] && sent[i] < LAST(i) + 1 - FIRST(i) ->
        if
        :: tag[FIRST(i) + sent[i]] = 0
        :: TAGS > 1 && sent[i] + i > 0 -> tag[FIRST(i) + sent[i]] = 1
        fi; /* the first send of A may have tag A without loss of generality */
        d_step { post_send(i) }
       }
    :: d_step { !dead[i] && pair_s[i] != NONE -> match_pair(i) }
    :: d_step { !dead[i] && nempty(results[i]) -> read_result(i) }
    :: d_step { !dead[i] && nempty(down[i]) -> read_down(i) }
    :: atomic {
        DATA && !dead[i] && ready[i] ->
        do
        :: bit_of(ready[i], chosen) -> break
        :: ready[i] >> (chosen + 1) -> chosen++
        od;
        d_step { begin_write(chosen); chosen = 0; update_choices(i) }
       }
    :: d_step { DEATHS && !deaths && !dead[i] ->
        printf("@ die %d\n", i);
        deaths = 1;
        dead[i] = 1;
        step_ends()
       }
    od
}

/* ---- network --------------------------------------------------------------------- */

/* The word of slot m equals the value in the RTR: the source takes it. */
inline lock(i, s, m) {
    lockword[m] = taken;
    owner[m] = (TWO_STEPS -> UNNAMED : i);
    must(word_receive[m] == target[s], "the word names the receive (G1)");
    r = word_receive[m] - 1;
    bind(s, r);
    half_locked = (TWO_STEPS -> s + 1 : half_locked);
    if
    :: TWO_STEPS
    :: else -> results[i]!s, 1
    fi
}

inline compare_and_swap(i) {
    cswaps[i]?s, m, g;
    if
    :: lockword[m] == unlocked && (generation[m] == g || NO_GENERATION) -> lock(i, s, m)
    :: else -> results[i]!s, 0
    fi;
    step_ends()
}

/* TWO_STEPS: the second step of the source. */
inline write_owner() {
    s = half_locked - 1;
    half_locked = 0;
    for (k : 0 .. SLOTS - 1) {
        owner[k] = (lockword[k] == taken && word_receive[k] == bound[s] -> source_of(s) : owner[k])
    }
    results[source_of(s)]!s, 1;
    step_ends()
}

/* NO_ORDER: another operation is next. */
inline reorder(i) {
    cswaps[i]?s, m, g;
    cswaps[i]!s, m, g;
    step_ends()
}

proctype Network() {
    byte chosen;
end:
    do
    :: d_step { !half_locked && nempty(cswaps[0]) -> compare_and_swap(0) }
    :: d_step { !half_locked && nempty(cswaps[1]) -> compare_and_swap(1) }
    :: d_step { NO_ORDER && !half_locked && len(cswaps[0]) > 1 -> reorder(0) }
    :: d_step { NO_ORDER && !half_locked && len(cswaps[1]) > 1 -> reorder(1) }
    :: d_step { half_locked && !dead[source_of(half_locked - 1)] -> write_owner() }
    :: atomic {
        DATA && in_flight ->
        do
        :: bit_of(in_flight, chosen) -> break
        :: in_flight >> (chosen + 1) -> chosen++
        od;
        d_step { land(chosen); chosen = 0; step_ends() }
       }
    od
}

/* ---- receiver -------------------------------------------------------------------- */

inline fail(r) {
    printf("@ fail %d\n", r);
    receive[r] = failed
}

inline find_free_slot() {
    free = SLOTS;
    for (k : 0 .. SLOTS - 1) {
        free = (word_receive[k] == 0 && free == SLOTS -> k : free)
    }
    step_ends()
}

/* Posts the receive with the number `posted`; its envelope is chosen. */
inline post_receive() {
    r = posted;
    posted++;
    printf("@ post %d %d %d\n", r, want[r], want_source[r]);
    receive[r] = open;
    if
    :: want_source[r] == ANY ->
        generation[free]++;
        lockword[free] = unlocked;
        owner[free] = 0;
        word_receive[free] = r + 1
    :: want_source[r] != ANY && known_dead[want_source[r] & 1] -> fail(r)
    :: else
    fi;
    for (q : 0 .. 1) {
        if
        :: could_match(r, q) && !known_dead[q] && receive[r] == open && !(ONE_SOURCE && q) ->
            printf("@ rtr %d %d %d\n", q, r, generation[free % SLOTS]);
            g = (free < SLOTS -> generation[free] : 0);
            down[q]!rtr, r, free, g
        :: else
        fi
    }
    find_free_slot()
}

/* Receive r is no longer open: RETIRE to all sources that got its RTR, except source i. */
inline retire_all(r, i) {
    for (q : 0 .. 1) {
        if
        :: q != i && !known_dead[q] && !NO_RETIRE ->
            printf("@ retire %d %d\n", q, r);
            down[q]!retire, r, 0, 0
        :: else
        fi
    }
}

/* The word of slot m is taken: its slot is free again. */
inline inspect_taken(m) {
    r = word_receive[m] - 1;
    x = owner[m];
    printf("@ inspect_taken %d %d\n", r, x);
    lockword[m] = closed;
    word_receive[m] = 0;
    must(x == source_of(got[r] - 1), "the owner is known (F1)");
    receive[r] = (receive[r] == open -> filling : receive[r]);
    retire_all(r, x);
    if
    :: receive[r] == filling && known_dead[x] && !OWNER_UNSEEN -> fail(r)
    :: else
    fi;
    find_free_slot()
}

/* m: the slot of receive r, or SLOTS. */
inline find_slot(r) {
    m = 0;
    do
    :: m < SLOTS && word_receive[m] != r + 1 -> m++
    :: else -> break
    od
}

inline close(r, m) {
    lockword[m] = closed;
    word_receive[m] = 0;
    receive[r] = cancelled;
    must(got[r] == 0, "a bound receive is not cancelled (C1)");
    retire_all(r, 2)
}

inline begin_cancel(r) {
    find_slot(r);
    if
    :: receive[r] == open && m < SLOTS ->
        if
        :: lockword[m] == unlocked ->
            printf("@ cancel %d\n", r);
            cancels++;
            if
            :: PLAIN_CANCEL -> receive[r] = cancel_begun
            :: else -> close(r, m)
            fi
        :: else
        fi
    :: receive[r] == open && want_source[r] != ANY ->
        printf("@ cancel %d\n", r);
        cancels++;
        receive[r] = (CANCEL_UNANSWERED -> cancelled : cancel_asked);
        down[want_source[r] & 1]!ask, r, 0, 0
    :: else
    fi;
    find_free_slot()
}

/* PLAIN_CANCEL: the second step. */
inline end_cancel(r) {
    find_slot(r);
    if
    :: m < SLOTS -> close(r, m)
    :: else -> receive[r] = filling
    fi;
    find_free_slot()
}

inline read_answer(i) {
    answers[i]?r, ok;
    if
    :: ok ->
        must(got[r] == 0, "a bound receive is not cancelled (C1)");
        receive[r] = cancelled
    :: else
    fi;
    step_ends()
}

/* Fails receive r, if it is bound to a send of source i or names it. */
inline fail_for(r, i) {
    if
    :: (receive[r] == open || receive[r] == cancel_asked) && want_source[r] == i -> fail(r)
    :: receive[r] == filling && source_of(got[r] - 1) == i -> fail(r)
    :: else
    fi
}

inline give_up(i) {
    printf("@ learn 2 %d\n", i);
    known_dead[i] = 1;
    for (s : FIRST(i) .. LAST(i)) {
        if
        :: send_state[s] == being_written && !SHUT_LATE ->
            send_state[s] = given_up;
            in_flight = without(in_flight, s)
        :: else
        fi
    }
    for (r : 0 .. RECEIVES - 1) {
        fail_for(r, i)
    }
    step_ends()
}

proctype Receiver() {
    byte chosen;
end:
    do
    :: atomic {
        posted < RECEIVES && free < SLOTS ->
        if
        :: want[posted] = 0
        :: TAGS > 1 -> want[posted] = 1
        :: TAGS > 1 -> want[posted] = ANY
        fi;
        if
        :: DIRECTED -> want_source[posted] = 0
        :: want_source[posted] = ANY
        fi;
        d_step { post_receive() }
       }
    :: d_step { lockword[0] == taken && (!half_locked || owner[0] != UNNAMED) -> inspect_taken(0) }
    :: d_step {
        SLOTS > 1 && lockword[1 % SLOTS] == taken &&
            (!half_locked || owner[1 % SLOTS] != UNNAMED) ->
        inspect_taken(1 % SLOTS)
       }
    :: d_step {
        SLOTS > 2 && lockword[2 % SLOTS] == taken &&
            (!half_locked || owner[2 % SLOTS] != UNNAMED) ->
        inspect_taken(2 % SLOTS)
       }
    :: d_step { nempty(answers[0]) && !known_dead[0] -> read_answer(0) }
    :: atomic {
        cancels < CANCELS && posted > 0 ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { begin_cancel(chosen); chosen = 0 }
       }
    :: d_step { PLAIN_CANCEL && receive[0] == cancel_begun -> end_cancel(0) }
    :: d_step { PLAIN_CANCEL && receive[1 % RECEIVES] == cancel_begun -> end_cancel(1 % RECEIVES) }
    :: d_step { DEATHS && dead[0] && !known_dead[0] -> give_up(0) }
    :: d_step { DEATHS && dead[1] && !known_dead[1] -> give_up(1) }
    od
}

/* ---- the end of a run ------------------------------------------------------------ */

init {
    atomic {
        pair_r[0] = NONE; pair_r[1] = NONE;
        pair_s[0] = NONE; pair_s[1] = NONE;
        printf("sends of A: %d\n", SENDS);
        run Source(0); run Source(1); run Network(); run Receiver()
    }
    timeout;
    d_step {
        for (k : 0 .. SLOTS - 1) {
            must(lockword[k] != taken, "the owner is known (F1)")
        }
        for (r : 0 .. RECEIVES - 1) {
            for (s : 0 .. ALL - 1) {
                must(receive[r] != open || bound[s] || dead[source_of(s)] || !accepts(r, s),
                     "no unmatched send and open receive fit each other (NOLOSS)")
            }
            must(receive[r] != filling && receive[r] != cancel_asked && (receive[r] != open || !got[r]),
                 "a bound receive ends (S1)");
            must(receive[r] != open || want_source[r] == ANY || !dead[want_source[r] & 1],
                 "a receive from a dead source fails (S1)")
        }
        for (s : 0 .. ALL - 1) {
            must(dead[source_of(s)] || send_state[s] != locking, "a try is answered (S1)");
            must(dead[source_of(s)] || !bound[s] || send_state[s] == done, "a bound send ends (S1)")
        }
        step_ends()
    }
}
