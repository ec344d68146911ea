/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pure.pml - matching at the sender alone, with a lock word for each receive.
 *
 *   sources A, B                          receiver               user of the receiver
 *
 *   every send is held                    receives, words <----- posts a receive
 *           <--------- RTR(r, slot, g)    to all who may match    cancels it
 *   take(slot, g) ------------------->    word: generation | state | owner
 *           <------------- won or lost    by compare-and-swap, at any time
 *   data, FIN =======================>    into the buffer of r
 *           <---------------- RETIRE(r)   to all others, when the word is seen taken
 *
 * A receive that several sources may match has a word in one of a few slots.  Slots are used
 * again, so the word has a generation, and it is part of what is compared: one operation
 * takes the lock and names the owner.  The network carries it out beside all messages, in no
 * order with them; those of one source in their order, or in none (NO_ORDER).  A source takes a pair that is *mutual first*, as in reach_through.pml; who
 * loses forgets the receive, and the send is where it was.
 *
 * A receive from one source has no word: nobody else can take it.  Its source matches it at
 * once.  To cancel it that source is asked; the answer says whether it was in time.
 *
 * A cancel of a receive that has a word is the same operation on the word, from open to
 * closed.  A slot is free when its word is closed, or its owner has been seen.
 *
 * Steps, each of them one atomic action here.  A source: posts a send; tries to take; hears
 * how that went; reads one message; begins to write data; dies.  The network: carries out one
 * operation on a word; lands a write.  The receiver: posts; sees that a word is taken; begins
 * a cancel; reads one answer; learns that a source died, having shut the way of its data.
 *
 * That way is shut for data alone: an operation on a word that was under way may still be
 * carried out, and a dead source take a receive.  So the receiver looks at the owner of each
 * word that it sees taken.
 *
 * What must hold (`must` names it when it does not): V1, V2, ONE, NOLOSS, W1 and S1 as in
 * reach_through.pml, and
 *
 *   G1  who takes a word takes the receive that it was told of
 *   C1  a receive is not cancelled when it is bound, nor bound when it is cancelled
 *   F1  of a receive that fails because its owner died the receiver knows the owner
 */

/* Sizes. */
#ifndef SENDS /* of source A */
#define SENDS 2
#endif
#ifndef OTHERS /* sends of source B */
#define OTHERS 2
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef SLOTS /* words, 3 at most */
#define SLOTS 2
#endif
#ifndef TAGS /* 2: tags A and B; 1: only A */
#define TAGS 2
#endif

/* What takes part. */
#ifndef DIRECTED /* receives from A alone, besides those from any source */
#define DIRECTED 0
#endif
#ifndef CANCELS /* how many receives the user may cancel */
#define CANCELS 0
#endif
#ifndef MORTAL /* one of the sources may die */
#define MORTAL 0
#endif
#ifndef ONE_TRY /* a source tries for one receive at a time */
#define ONE_TRY 0
#endif
#ifndef TRIED_GONE /* a receive that is tried for does not count for the next try */
#define TRIED_GONE 0
#endif
#ifndef NO_ORDER /* the network keeps no order of the operations on words */
#define NO_ORDER 0
#endif
#ifndef DATA /* data is moved in steps of its own */
#define DATA MORTAL
#endif

/* What is done wrong. */
#ifndef NO_GENERATION /* the word has none */
#define NO_GENERATION 0
#endif
#ifndef ANY_RTR /* a source takes any receive that accepts the send */
#define ANY_RTR 0
#endif
#ifndef ANY_SEND /* a source matches any send that the receive accepts */
#define ANY_SEND 0
#endif
#ifndef CLAIMED_ABSENT /* what is being taken does not count for the next try */
#define CLAIMED_ABSENT 0
#endif
#ifndef FORGET_RTR /* an RTR that no send fits is not kept */
#define FORGET_RTR 0
#endif
#ifndef LOSER_LAST /* a send that lost goes behind the others */
#define LOSER_LAST 0
#endif
#ifndef LOSER_FAILS /* a send that lost is cancelled, and not only its match */
#define LOSER_FAILS 0
#endif
#ifndef ONE_SOURCE /* a receive from any source is advertised to one */
#define ONE_SOURCE 0
#endif
#ifndef NO_RETIRE /* the others are not told that a receive is taken */
#define NO_RETIRE 0
#endif
#ifndef PLAIN_CANCEL /* a cancel looks at the word, and closes it in a second step */
#define PLAIN_CANCEL 0
#endif
#ifndef CANCEL_UNANSWERED /* a cancel of a receive from one source does not wait */
#define CANCEL_UNANSWERED 0
#endif
#ifndef TWO_STEPS /* the lock is taken first, and the owner written then */
#define TWO_STEPS 0
#endif
#ifndef SHUT_LATE /* receives fail before the way of the data is shut */
#define SHUT_LATE 0
#endif
#ifndef OWNER_UNSEEN /* the owner of a taken word is not compared with the dead */
#define OWNER_UNSEEN 0
#endif

#define ALL (SENDS + OTHERS)
#define ANY 2 /* any tag, any source */
#define NONE 9
#define UNNAMED 3 /* an owner that is not written yet */
#define ROOM (3 * RECEIVES)

/* ---- state ----------------------------------------------------------------------- */

/* A send: held; a take is under way; matched; its data is being written; there; given up. */
mtype:send = { future, held, trying, writing, flying, over, undone };

/* A receive; `asked` is one whose source was asked to let it be cancelled; `halted` one
 * about to be cancelled, in two steps. */
mtype:receive = { absent, open, asked, halted, filling, received, cancelled, failed };
mtype:word = { closed, unlocked, taken };
mtype:down = { rtr, retire, ask };

chan down[2] = [ROOM] of { mtype:down, byte, byte, byte }; /* receive, slot, generation */
chan take[2] = [ALL] of { byte, byte, byte };              /* send, slot, generation */
chan result[2] = [ALL] of { byte, bit };                   /* send, won */
chan answers[2] = [RECEIVES] of { byte, bit };             /* receive, was it in time? */

/* sources; the sends of A come first */
byte sent[2];
mtype:send at[ALL] = future;
bit tag[ALL];
byte aim[ALL];             /* the receive that is tried for, or written, + 1 */
bit behind[ALL];           /* LOSER_LAST */
byte told[2];              /* receives advertised and not retired, one bit for each */
byte slot_of[2 * RECEIVES], told_generation[2 * RECEIVES]; /* of source and receive */
byte pair_s[2], pair_r[2]; /* what may be matched, or NONE */
byte ready[2];             /* sends that may write, one bit for each */
byte in_flight;            /* sends that are being written */
byte half;                 /* TWO_STEPS: a send that has locked, and has not written, + 1 */

/* receiver */
byte posted;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];       /* tag, or ANY */
byte want_source[RECEIVES];
byte cancels;
bit lost[2];

/* the words; who has one is known to the receiver alone */
mtype:word word[SLOTS] = closed;
byte owner[SLOTS], generation[SLOTS];
byte holder[SLOTS];        /* receive + 1 */
byte free = 0;             /* a slot, or SLOTS */

/* the world */
bit dead[2];
bit deaths;

/* what is true, whoever knows it */
byte got[RECEIVES];        /* send + 1 */
byte bound[ALL];           /* receive + 1 */
bit released[RECEIVES];    /* its source has let it be cancelled */

/* Used within one step only: 0 between steps, so that they make no states. */
byte k, n, m, q, r, s, x, g;
bit ok;
mtype:down told_so;

inline step_ends() {
    k = 0; n = 0; m = 0; q = 0; r = 0; s = 0; x = 0; g = 0; ok = 0;
    told_so = 0
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
    (receive[r] == open || (receive[r] == asked && !released[r]) || receive[r] == halted)
#define place(i, r) ((i) * RECEIVES + (r))

/* Is send a, of the same source, before send b? */
#define before(a, b) (behind[a] == behind[b] -> (a) < (b) : !behind[a])

/* Send s and receive r are bound: here everything is checked that MPI demands of that. */
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
    m = aim[s] - 1;
    printf("@ land %d %d\n", s, m);
    must(is_open(m) || receive[m] == filling, "data goes into a lent buffer only (W1)");
    must(got[m] == s + 1, "data goes to the receive that is bound (W1)");
    receive[m] = received;
    at[s] = over;
    in_flight = without(in_flight, s)
}

/* ---- source ---------------------------------------------------------------------- */

inline begin_write(s) {
    if
    :: DATA ->
        printf("@ write %d %d\n", s, aim[s] - 1);
        at[s] = flying;
        in_flight = with(in_flight, s)
    :: else -> land(s)
    fi
}

inline matched(s) {
    at[s] = writing;
    if
    :: !DATA -> begin_write(s)
    :: else
    fi
}

/* x: the first send of source i that is held, or tried with, and accepted by receive r. */
inline find_first(i, r) {
    x = NONE;
    for (k : FIRST(i) .. LAST(i)) {
        if
        :: (at[k] == held || (at[k] == trying && !CLAIMED_ABSENT)) && accepts(r, k) ->
            x = (x == NONE || before(k, x) || (ANY_SEND && at[k] == held) -> k : x)
        :: else
        fi
    }
}

/* Is x a deferred send, and r the first receive that accepts it?  Into ok. */
inline is_mutual(i, r) {
    ok = (x != NONE);
    if
    :: ok ->
        ok = (at[x] == held);
        for (k : 0 .. RECEIVES - 1) {
            ok = ok && (k >= r || ANY_RTR || !bit_of(told[i], k) || !accepts(k, x) ||
                        ((CLAIMED_ABSENT || TRIED_GONE) && bit_of(n, k)))
        }
    :: else
    fi
}

/* After each step of source i: what it may do next.  n: the receives that it tries for. */
inline look_around(i) {
    pair_s[i] = NONE;
    pair_r[i] = NONE;
    ready[i] = 0;
    n = 0;
    for (k : FIRST(i) .. LAST(i)) {
        ready[i] = (at[k] == writing -> with(ready[i], k) : ready[i]);
        n = (at[k] == trying -> with(n, aim[k] - 1) : n)
    }
    for (r : 0 .. RECEIVES - 1) {
        if
        :: bit_of(told[i], r) && !bit_of(n, r) && (pair_r[i] == NONE || ANY_RTR) &&
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
    at[s] = held;
    look_around(i)
}

inline match_pair(i) {
    s = pair_s[i];
    r = pair_r[i];
    aim[s] = r + 1;
    if
    :: want_source[r] == ANY ->
        printf("@ take %d %d\n", s, r);
        at[s] = trying;
        take[i]!s, slot_of[place(i, r)], told_generation[place(i, r)]
    :: else ->
        bind(s, r);
        told[i] = without(told[i], r);
        matched(s)
    fi;
    look_around(i)
}

inline hear_result(i) {
    result[i]?s, ok;
    r = aim[s] - 1;
    told[i] = without(told[i], r);
    if
    :: ok -> printf("@ won %d %d\n", s, r); matched(s)
    :: else ->
        printf("@ lost_claim %d %d\n", s, r);
        aim[s] = 0;
        at[s] = (LOSER_FAILS -> undone : held);
        behind[s] = LOSER_LAST
    fi;
    look_around(i)
}

inline take_rtr(i, r, slot, gen) {
    printf("@ got_rtr %d %d %d\n", i, r, gen);
    find_first(i, r);
    ok = (x != NONE || !FORGET_RTR);
    told[i] = (ok -> with(told[i], r) : told[i]);
    slot_of[place(i, r)] = slot;
    told_generation[place(i, r)] = gen
}

/* A receive that is tried for stays: how that went is heard. */
inline take_retire(i, r) {
    printf("@ got_retire %d %d\n", i, r);
    ok = 1;
    for (k : FIRST(i) .. LAST(i)) {
        ok = ok && !(at[k] == trying && aim[k] == r + 1)
    }
    told[i] = (ok -> without(told[i], r) : told[i])
}

inline answer(i, r) {
    ok = bit_of(told[i], r);
    released[r] = ok;
    printf("@ got_ask %d %d %d\n", i, r, ok);
    told[i] = without(told[i], r);
    if
    :: CANCEL_UNANSWERED
    :: else -> answers[i]!r, ok
    fi
}

inline read_down(i) {
    down[i]?told_so, m, q, g;
    if
    :: told_so == rtr -> take_rtr(i, m, q, g)
    :: told_so == retire -> take_retire(i, m)
    :: told_so == ask -> answer(i, m)
    fi;
    look_around(i)
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
        fi; /* that the first send of A has tag A loses nothing */
        d_step { post_send(i) }
       }
    :: d_step { !dead[i] && pair_s[i] != NONE -> match_pair(i) }
    :: d_step { !dead[i] && nempty(result[i]) -> hear_result(i) }
    :: d_step { !dead[i] && nempty(down[i]) -> read_down(i) }
    :: atomic {
        DATA && !dead[i] && ready[i] ->
        do
        :: bit_of(ready[i], chosen) -> break
        :: ready[i] >> (chosen + 1) -> chosen++
        od;
        d_step { begin_write(chosen); chosen = 0; look_around(i) }
       }
    :: d_step { MORTAL && !deaths && !dead[i] ->
        printf("@ die %d\n", i);
        deaths = 1;
        dead[i] = 1;
        step_ends()
       }
    od
}

/* ---- network --------------------------------------------------------------------- */

/* The word of slot m has what the source was told: it is the source's now. */
inline lock(i, s, m) {
    word[m] = taken;
    owner[m] = (TWO_STEPS -> UNNAMED : i);
    must(holder[m] == aim[s], "the word is that of the receive (G1)");
    r = holder[m] - 1;
    bind(s, r);
    half = (TWO_STEPS -> s + 1 : half);
    if
    :: TWO_STEPS
    :: else -> result[i]!s, 1
    fi
}

inline compare_and_swap(i) {
    take[i]?s, m, g;
    if
    :: word[m] == unlocked && (generation[m] == g || NO_GENERATION) -> lock(i, s, m)
    :: else -> result[i]!s, 0
    fi;
    step_ends()
}

/* TWO_STEPS: the second one, by the source. */
inline write_owner() {
    s = half - 1;
    half = 0;
    for (k : 0 .. SLOTS - 1) {
        owner[k] = (word[k] == taken && holder[k] == bound[s] -> source_of(s) : owner[k])
    }
    result[source_of(s)]!s, 1;
    step_ends()
}

/* NO_ORDER: another one is next. */
inline turn(i) {
    take[i]?s, m, g;
    take[i]!s, m, g;
    step_ends()
}

proctype Network() {
    byte chosen;
end:
    do
    :: d_step { !half && nempty(take[0]) -> compare_and_swap(0) }
    :: d_step { !half && nempty(take[1]) -> compare_and_swap(1) }
    :: d_step { NO_ORDER && !half && len(take[0]) > 1 -> turn(0) }
    :: d_step { NO_ORDER && !half && len(take[1]) > 1 -> turn(1) }
    :: d_step { half && !dead[source_of(half - 1)] -> write_owner() }
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

inline look_for_slot() {
    free = SLOTS;
    for (k : 0 .. SLOTS - 1) {
        free = (holder[k] == 0 && free == SLOTS -> k : free)
    }
    step_ends()
}

/* The receive whose number is `posted`; what it wants is chosen. */
inline post_receive() {
    r = posted;
    posted++;
    printf("@ post %d %d %d\n", r, want[r], want_source[r]);
    receive[r] = open;
    if
    :: want_source[r] == ANY ->
        generation[free]++;
        word[free] = unlocked;
        owner[free] = 0;
        holder[free] = r + 1
    :: want_source[r] != ANY && lost[want_source[r] & 1] -> fail(r)
    :: else
    fi;
    for (q : 0 .. 1) {
        if
        :: could_match(r, q) && !lost[q] && receive[r] == open && !(ONE_SOURCE && q) ->
            printf("@ rtr %d %d %d\n", q, r, generation[free % SLOTS]);
            g = (free < SLOTS -> generation[free] : 0);
            down[q]!rtr, r, free, g
        :: else
        fi
    }
    look_for_slot()
}

/* Receive r is not open any more: tell all who were told of it, but source i. */
inline retire_all(r, i) {
    for (q : 0 .. 1) {
        if
        :: q != i && !lost[q] && !NO_RETIRE ->
            printf("@ retire %d %d\n", q, r);
            down[q]!retire, r, 0, 0
        :: else
        fi
    }
}

/* The word of slot m is taken: its slot is free again. */
inline see(m) {
    r = holder[m] - 1;
    x = owner[m];
    printf("@ see %d %d\n", r, x);
    word[m] = closed;
    holder[m] = 0;
    must(x == source_of(got[r] - 1), "the owner is known (F1)");
    receive[r] = (receive[r] == open -> filling : receive[r]);
    retire_all(r, x);
    if
    :: receive[r] == filling && lost[x] && !OWNER_UNSEEN -> fail(r)
    :: else
    fi;
    look_for_slot()
}

/* m: the slot of receive r, or SLOTS. */
inline find_slot(r) {
    m = 0;
    do
    :: m < SLOTS && holder[m] != r + 1 -> m++
    :: else -> break
    od
}

inline close(r, m) {
    word[m] = closed;
    holder[m] = 0;
    receive[r] = cancelled;
    must(got[r] == 0, "a bound receive is not cancelled (C1)");
    retire_all(r, 2)
}

inline begin_cancel(r) {
    find_slot(r);
    if
    :: receive[r] == open && m < SLOTS ->
        if
        :: word[m] == unlocked ->
            printf("@ cancel %d\n", r);
            cancels++;
            if
            :: PLAIN_CANCEL -> receive[r] = halted
            :: else -> close(r, m)
            fi
        :: else
        fi
    :: receive[r] == open && want_source[r] != ANY ->
        printf("@ cancel %d\n", r);
        cancels++;
        receive[r] = (CANCEL_UNANSWERED -> cancelled : asked);
        down[want_source[r] & 1]!ask, r, 0, 0
    :: else
    fi;
    look_for_slot()
}

/* PLAIN_CANCEL: the second step. */
inline end_cancel(r) {
    find_slot(r);
    if
    :: m < SLOTS -> close(r, m)
    :: else -> receive[r] = filling
    fi;
    look_for_slot()
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

/* Receive r, bound to a send of source i or naming it, will get nothing from it. */
inline fail_for(r, i) {
    if
    :: (receive[r] == open || receive[r] == asked) && want_source[r] == i -> fail(r)
    :: receive[r] == filling && source_of(got[r] - 1) == i -> fail(r)
    :: else
    fi
}

inline give_up(i) {
    printf("@ learn 2 %d\n", i);
    lost[i] = 1;
    for (s : FIRST(i) .. LAST(i)) {
        if
        :: at[s] == flying && !SHUT_LATE -> at[s] = undone; in_flight = without(in_flight, s)
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
    :: d_step { word[0] == taken && (!half || owner[0] != UNNAMED) -> see(0) }
    :: d_step { SLOTS > 1 && word[1 % SLOTS] == taken && (!half || owner[1 % SLOTS] != UNNAMED) ->
        see(1 % SLOTS)
       }
    :: d_step { SLOTS > 2 && word[2 % SLOTS] == taken && (!half || owner[2 % SLOTS] != UNNAMED) ->
        see(2 % SLOTS)
       }
    :: d_step { nempty(answers[0]) && !lost[0] -> read_answer(0) }
    :: atomic {
        cancels < CANCELS && posted > 0 ->
        do
        :: chosen + 1 < posted -> chosen++
        :: break
        od;
        d_step { begin_cancel(chosen); chosen = 0 }
       }
    :: d_step { PLAIN_CANCEL && receive[0] == halted -> end_cancel(0) }
    :: d_step { PLAIN_CANCEL && receive[1 % RECEIVES] == halted -> end_cancel(1 % RECEIVES) }
    :: d_step { MORTAL && dead[0] && !lost[0] -> give_up(0) }
    :: d_step { MORTAL && dead[1] && !lost[1] -> give_up(1) }
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
            must(word[k] != taken, "the owner is known (F1)")
        }
        for (r : 0 .. RECEIVES - 1) {
            for (s : 0 .. ALL - 1) {
                must(receive[r] != open || bound[s] || dead[source_of(s)] || !accepts(r, s),
                     "no unmatched send and open receive fit each other (NOLOSS)")
            }
            must(receive[r] != filling && receive[r] != asked && (receive[r] != open || !got[r]),
                 "a bound receive ends (S1)");
            must(receive[r] != open || want_source[r] == ANY || !dead[want_source[r] & 1],
                 "a receive from a dead source fails (S1)")
        }
        for (s : 0 .. ALL - 1) {
            must(dead[source_of(s)] || at[s] != trying, "a try is answered (S1)");
            must(dead[source_of(s)] || !bound[s] || at[s] == over, "a bound send ends (S1)")
        }
        step_ends()
    }
}
