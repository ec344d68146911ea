/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendtable.pml - a receiver pulls messages out of its sender's table, in parallel with the
 * messages of defer.pml.
 *
 *   sender                    table                       receiver
 *
 *   shut: learns which sends  version: generation,        reads the version,
 *         were pulled, makes           busy, pulled               then the entries,
 *         it busy             epoch                              then exchanges the version
 *   acts: posts, reads,       the first deferred                 that it read for the same
 *         claims, emits       sends; which of                    with one more bit
 *   publishes it again, with  them are claimed
 *         a new generation
 *
 * Everything else between the two, envelopes in a window, DEFER, RTR, CLAIM, GRANT, RETIRE and
 * CREDIT, is as in defer.pml, with one sender.  There a claim is decided by messages
 * that keep their order; here the two sides change the same words at any time.
 *
 * Steps, each of them one atomic action.  The sender: shuts the table; then does one thing and
 * publishes it again.  The receiver: posts; reads the version; reads the entries and decides;
 * exchanges, or gives up and advertises; reads one message; cancels.
 *
 * Properties (`must` names the one that is violated), when send s and receive r are bound:
 *
 *   V1   no earlier unmatched send is accepted by r
 *   V2   no earlier open receive accepts s
 *   ONE  a send is bound once, and so is a receive; a cancelled one never
 *
 * and when nothing moves any more:
 *
 *   NOLOSS  no unmatched send and open receive fit each other
 *   S1      claims are answered, and the sender knows all sends that were pulled
 *
 * Omitted: several senders, probes, payloads, death.
 */

/* Sizes. */
#ifndef SENDS
#define SENDS 3
#endif
#ifndef RECEIVES
#define RECEIVES 3
#endif
#ifndef WINDOW /* envelope credits */
#define WINDOW 0
#endif
#ifndef ENTRIES /* of the table */
#define ENTRIES 2
#endif
#ifndef CANCELS /* number of receives that the user may cancel */
#define CANCELS 0
#endif

/* Mistakes. */
#ifndef NO_SHUT /* the sender acts on its old knowledge, and only then checks for pulled sends */
#define NO_SHUT 0
#endif
#ifndef NO_VERSION /* the receiver sets its bit with any version */
#define NO_VERSION 0
#endif
#ifndef SAME_GENERATION /* a table that is published again keeps its generation */
#define SAME_GENERATION 0
#endif
#ifndef NO_BUSY /* the receiver does not check whether the table is busy */
#define NO_BUSY 0
#endif
#ifndef ANY_EPOCH /* the receiver does not check the epoch */
#define ANY_EPOCH 0
#endif
#ifndef ANY_ENTRY /* the receiver pulls any entry that fits, not the first */
#define ANY_ENTRY 0
#endif
#ifndef NO_MARKS /* the receiver does not see claimed marks */
#define NO_MARKS 0
#endif
#ifndef PAST_MARKS /* the receiver pulls an entry after a claimed message that fits */
#define PAST_MARKS 0
#endif
#ifndef ANY_RECEIVE /* the receiver does not check earlier receives */
#define ANY_RECEIVE 0
#endif
#ifndef NO_RTR /* a receive that has pulled nothing is not advertised */
#define NO_RTR 0
#endif

#define ANY 2
#define NONE 9
#define CAPACITY 12

/* ---- state ----------------------------------------------------------------------- */

mtype:send = { future, deferred, claimed, emitted, done };
mtype:receive = { absent, open, matched, cancelled };
mtype:up = { env, defer, claim };
mtype:down = { rtr, retire, grant, credit };

chan up[1] = [CAPACITY] of { mtype:up, byte, byte };
chan down[1] = [CAPACITY] of { mtype:down, byte, byte };

/* sender */
byte sent;
mtype:send send_state[SENDS] = future;
bit tag[SENDS];
bit is_deferring, has_claim, is_shut;
byte epoch, credits = WINDOW;
byte advertised;    /* set of receives */
byte claimed_receive; /* the receive that is claimed */
byte pair_s = NONE, pair_r = NONE;

/* the table */
byte generation;
bit busy = 1;
byte pulled_bits; /* set of pulled sends */
byte published, claimed_marks, table_epoch;

/* receiver */
byte posted;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];
byte unexpected, defer_epoch, granted, cancels;
byte seen_generation, seen_bits, stage, choice = NONE; /* of the receive posted last */
bit seen_busy;

/* the true state, not known to any process */
byte got[RECEIVES], bound[SENDS];

/* Used within one step only. */
byte k, n, s, r, x, y;
bit ok;
mtype:up up_packet;
mtype:down down_packet;

inline step_ends() { k = 0; n = 0; s = 0; r = 0; x = 0; y = 0; ok = 0; up_packet = 0; down_packet = 0 }

/* ---- rules ----------------------------------------------------------------------- */

#define must(truth, name) \
    if :: (truth) :: else -> printf("broken: "); printf(name); printf("\n"); assert(false) fi

#define bit_of(set, k) (((set) >> (k)) & 1)
#define with(set, k) ((set) | (1 << (k)))
#define without(set, k) ((set) & ~(1 << (k)))
#define accepts(r, s) (want[r] == ANY || want[r] == tag[s])

inline bind(s, r) {
    printf("@ bind %d %d\n", s, r);
    must(got[r] == 0 && bound[s] == 0, "a send and a receive are bound once (ONE)");
    must(receive[r] == open, "only an open receive is bound (ONE)");
    for (k : 0 .. SENDS - 1) {
        must(k >= s || bound[k] || k >= sent || !accepts(r, k),
             "a receive gets the earliest send (V1)")
    }
    for (k : 0 .. RECEIVES - 1) {
        must(k >= r || receive[k] != open || !accepts(k, s),
             "a send goes to the earliest receive (V2)")
    }
    receive[r] = matched;
    got[r] = s + 1;
    bound[s] = r + 1
}

/* ---- sender ---------------------------------------------------------------------- */

/* The pair that may be claimed: the send is the first that the receive accepts, the receive the
 * first that accepts the send; claimed ones count. */
inline find_pair() {
    pair_s = NONE; pair_r = NONE;
    for (r : 0 .. RECEIVES - 1) {
        x = NONE;
        for (s : 0 .. SENDS - 1) {
            if
            :: x == NONE && bit_of(advertised, r) && (send_state[s] == deferred || send_state[s] == claimed) &&
               accepts(r, s) -> x = s
            :: else
            fi
        }
        if
        :: x != NONE && send_state[x] == deferred && pair_s == NONE && is_deferring && !has_claim ->
            ok = 1;
            for (k : 0 .. RECEIVES - 1) {
                if
                :: k < r && bit_of(advertised, k) && accepts(k, x) -> ok = 0
                :: else
                fi
            }
            if
            :: ok -> pair_s = x; pair_r = r
            :: else
            fi
        :: else
        fi
    }
}

inline note_pulled() {
    for (k : 0 .. SENDS - 1) {
        if
        :: bit_of(pulled_bits, k) && send_state[k] == deferred -> send_state[k] = done
        :: else
        fi
    }
}

inline publish() {
    published = 0; claimed_marks = 0; n = 0;
    for (k : 0 .. SENDS - 1) {
        if
        :: (send_state[k] == deferred || send_state[k] == claimed) && n < ENTRIES ->
            published = with(published, k);
            n = n + 1;
            if
            :: send_state[k] == claimed -> claimed_marks = with(claimed_marks, k)
            :: else
            fi
        :: else
        fi
    }
    if
    :: SAME_GENERATION
    :: else -> generation = generation + 1
    fi;
    table_epoch = epoch;
    pulled_bits = 0;
    busy = !is_deferring;
    is_shut = 0
}

inline emit(s) { printf("@ emit %d\n", s); send_state[s] = emitted; credits = credits - 1; up[0]!env, s, 0 }

/* Emits while there is credit, and defers the rest. */
inline emit_or_defer() {
    advertised = 0;
    is_deferring = 0;
    for (s : 0 .. SENDS - 1) {
        if
        :: send_state[s] == deferred && credits > 0 && !is_deferring -> emit(s)
        :: send_state[s] == deferred && credits == 0 && !is_deferring ->
            is_deferring = 1;
            epoch = epoch + 1;
            printf("@ defer %d\n", epoch);
            up[0]!defer, epoch, 0
        :: else
        fi
    }
}

inline post_send() {
    s = sent;
    if
    :: tag[s] = 0
    :: tag[s] = 1
    fi;
    send_state[s] = deferred;
    printf("@ send %d %d\n", s, tag[s]);
    sent = sent + 1;
    if
    :: !is_deferring -> emit_or_defer()
    :: else
    fi
}

inline read_down() {
    down[0]?down_packet, r, x;
    if
    :: down_packet == rtr ->
        if
        :: is_deferring && x == epoch -> advertised = with(advertised, r)
        :: else
        fi
    :: down_packet == retire ->
        advertised = without(advertised, r);
        if
        :: has_claim && claimed_receive == r && x != NONE -> has_claim = 0; send_state[x] = deferred
        :: else
        fi
    :: down_packet == grant -> has_claim = 0; send_state[x] = done
    :: down_packet == credit -> credits = credits + 1
    fi
}

#define can_leave (is_deferring && credits > 0 && !has_claim)
#define can_act (sent < SENDS || len(down[0]) > 0 || can_leave || pair_s != NONE || pulled_bits != 0)

inline act() {
    find_pair();
    if
    :: can_leave -> emit_or_defer()
    :: pair_s != NONE ->
        s = pair_s; r = pair_r;
        send_state[s] = claimed;
        has_claim = 1;
        claimed_receive = r;
        advertised = without(advertised, r);
        printf("@ claim %d %d\n", s, r);
        up[0]!claim, r, s
    :: sent < SENDS -> post_send()
    :: len(down[0]) > 0 -> read_down()
    :: else
    fi
}

proctype Sender() {
    end:
    do
    :: atomic {
        is_deferring && !is_shut && can_act ->
            if
            :: NO_SHUT
            :: else -> busy = 1; note_pulled(); pulled_bits = 0
            fi;
            printf("@ shut\n");
            is_shut = 1;
            step_ends()
       }
    :: atomic {
        (is_shut || (!is_deferring && can_act)) ->
            act();
            if
            :: NO_SHUT -> note_pulled()
            :: else
            fi;
            publish();
            find_pair();
            step_ends()
       }
    od
}

/* ---- receiver -------------------------------------------------------------------- */

inline advertise(r) {
    if
    :: defer_epoch != 0 && !NO_RTR -> printf("@ rtr %d %d\n", r, defer_epoch); down[0]!rtr, r, defer_epoch
    :: else
    fi
}

inline post_receive() {
    r = posted;
    if
    :: want[r] = 0
    :: want[r] = 1
    :: want[r] = ANY
    fi;
    receive[r] = open;
    printf("@ post %d %d\n", r, want[r]);
    posted = posted + 1;
    x = NONE;
    for (s : 0 .. SENDS - 1) {
        if
        :: x == NONE && bit_of(unexpected, s) && accepts(r, s) -> x = s
        :: else
        fi
    }
    if
    :: x != NONE -> unexpected = without(unexpected, x); bind(x, r); down[0]!credit, 0, 0
    :: x == NONE && defer_epoch != 0 -> stage = 1
    :: else
    fi
}

/* choice: the entry that receive r may pull, or NONE. */
inline find_entry(r) {
    choice = NONE;
    ok = ANY_EPOCH || table_epoch == defer_epoch;
    for (s : 0 .. SENDS - 1) {
        if
        :: ok && bit_of(published, s) && !bit_of(seen_bits, s) && accepts(r, s) &&
           !(bit_of(claimed_marks, s) && bit_of(granted, s)) ->
            if
            :: bit_of(claimed_marks, s) && PAST_MARKS
            :: bit_of(claimed_marks, s) && !PAST_MARKS && !NO_MARKS -> ok = 0
            :: else ->
                choice = s;
                if
                :: 1 -> ok = 0
                :: ANY_ENTRY
                fi
            fi
        :: else
        fi
    }
    if
    :: choice != NONE && !ANY_RECEIVE ->
        for (k : 0 .. RECEIVES - 1) {
            if
            :: choice != NONE && k < r && receive[k] == open && accepts(k, choice) -> choice = NONE
            :: else
            fi
        }
    :: else
    fi
}

inline pull(r) {
    if
    :: choice != NONE &&
       (NO_VERSION || (generation == seen_generation && busy == seen_busy && pulled_bits == seen_bits)) ->
        pulled_bits = with(pulled_bits, choice);
        printf("@ pull %d %d\n", choice, r);
        bind(choice, r)
    :: else -> advertise(r)
    fi;
    choice = NONE;
    stage = 0;
    seen_generation = 0;
    seen_bits = 0;
    seen_busy = 0
}

inline read_up() {
    up[0]?up_packet, x, y;
    if
    :: up_packet == env ->
        defer_epoch = 0;
        n = NONE;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: n == NONE && receive[r] == open && accepts(r, x) -> n = r
            :: else
            fi
        }
        if
        :: n != NONE -> bind(x, n); down[0]!credit, 0, 0
        :: else -> unexpected = with(unexpected, x)
        fi
    :: up_packet == defer ->
        defer_epoch = x;
        granted = 0;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: receive[r] == open -> advertise(r)
            :: else
            fi
        }
    :: up_packet == claim ->
        if
        :: receive[x] == open -> bind(y, x); granted = with(granted, y); down[0]!grant, x, y
        :: else -> down[0]!retire, x, y
        fi
    fi
}

#define may_cancel(k) \
    (stage == 0 && cancels < CANCELS && (k) < RECEIVES && receive[(k) % RECEIVES] == open)

inline cancel(k) {
    receive[(k) % RECEIVES] = cancelled;
    cancels = cancels + 1;
    if
    :: defer_epoch != 0 -> down[0]!retire, k, NONE
    :: else
    fi
}

proctype Receiver() {
    end:
    do
    :: atomic { stage == 0 && posted < RECEIVES -> post_receive(); step_ends() }
    :: atomic { stage == 0 && len(up[0]) > 0 -> read_up(); step_ends() }
    :: atomic {
        stage == 1 ->
            seen_generation = generation;
            seen_bits = pulled_bits;
            seen_busy = busy;
            printf("@ read_version %d\n", generation);
            stage = 2;
            if
            :: busy && !NO_BUSY -> r = posted - 1; pull(r)
            :: else
            fi;
            step_ends()
       }
    :: atomic { stage == 2 -> find_entry(posted - 1); stage = 3; step_ends() }
    :: atomic { stage == 3 -> r = posted - 1; pull(r); step_ends() }
    :: atomic { may_cancel(0) -> cancel(0); step_ends() }
    :: atomic { may_cancel(1) -> cancel(1); step_ends() }
    :: atomic { may_cancel(2) -> cancel(2); step_ends() }
    od
}

/* ---- the end of a run ------------------------------------------------------------ */

init {
    atomic { run Sender(); run Receiver() }
    timeout;
    d_step {
        must(!has_claim, "a claim is answered (S1)");
        must(pulled_bits == 0, "the sender knows what was taken (S1)");
        for (r : 0 .. RECEIVES - 1) {
            for (s : 0 .. SENDS - 1) {
                must(receive[r] != open || bound[s] || !accepts(r, s),
                     "no unmatched send and open receive fit each other (NOLOSS)")
            }
        }
        step_ends()
    }
}
