/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * taking.pml - a receiver takes messages out of its sender's table, beside everything else.
 *
 *   sender                    table                       receiver
 *
 *   shut: learns what is      version: generation,        looks: the version
 *         taken, makes it              busy, taken               then the entries
 *         busy                epoch                              then exchanges the version
 *   acts: posts, reads,       the first sends that               that it saw for the same
 *         claims, leaves      are held; which of                 with one more bit
 *   show: a new generation    them are claimed
 *
 * What else happens between the two, envelopes in a window, DEFER, RTR, CLAIM, GRANT, RETIRE and
 * CREDIT, is that of reach_through.pml, with one sender.  There a claim is decided by messages
 * that keep their order; here the two sides change the same words at any time.
 *
 * Steps, each of them one atomic action.  The sender: shuts the table; then does one thing and
 * shows it again.  The receiver: posts; reads the version; reads the entries and decides;
 * exchanges, or gives up and advertises; reads one message; cancels.
 *
 * What must hold (`must` names it when it does not), when send s and receive r are bound:
 *
 *   V1   no earlier unmatched send is accepted by r
 *   V2   no earlier open receive accepts s
 *   ONE  a send is bound once, and so is a receive; a cancelled one never
 *
 * and when nothing moves any more:
 *
 *   NOLOSS  no unmatched send and open receive fit each other
 *   S1      claims are answered, and the sender knows all that was taken
 *
 * Not here: several senders, probes, payloads, death.
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
#ifndef CANCELS /* how many receives the user may cancel */
#define CANCELS 0
#endif

/* What is done wrong. */
#ifndef NO_SHUT /* the sender acts on what it knew, and looks only then what was taken */
#define NO_SHUT 0
#endif
#ifndef NO_VERSION /* the receiver sets its bit, whatever the version is */
#define NO_VERSION 0
#endif
#ifndef SAME_GENERATION /* what is shown again looks as before */
#define SAME_GENERATION 0
#endif
#ifndef NO_BUSY /* the receiver does not look whether the table is busy */
#define NO_BUSY 0
#endif
#ifndef ANY_EPOCH /* ... nor in which epoch it is */
#define ANY_EPOCH 0
#endif
#ifndef ANY_ENTRY /* it takes any entry that suits, not the first */
#define ANY_ENTRY 0
#endif
#ifndef NO_MARKS /* it does not see what is claimed */
#define NO_MARKS 0
#endif
#ifndef PAST_MARKS /* it takes what stands behind a claimed message that suits */
#define PAST_MARKS 0
#endif
#ifndef ANY_RECEIVE /* it does not look at earlier receives */
#define ANY_RECEIVE 0
#endif
#ifndef NO_RTR /* what has taken nothing is not advertised */
#define NO_RTR 0
#endif

#define ANY 2
#define NONE 9
#define ROOM 12

/* ---- state ----------------------------------------------------------------------- */

mtype:send = { future, held, claimed, away, over };
mtype:receive = { absent, open, taken, cancelled };
mtype:up = { env, hold, claim };
mtype:down = { rtr, retire, grant, credit };

chan up[1] = [ROOM] of { mtype:up, byte, byte };
chan down[1] = [ROOM] of { mtype:down, byte, byte };

/* sender */
byte sent;
mtype:send at[SENDS] = future;
bit tag[SENDS];
bit holding, out, is_shut;
byte epoch, credits = WINDOW;
byte told;    /* receives, one bit for each */
byte aim;     /* the receive that is claimed */
byte pair_s = NONE, pair_r = NONE;

/* the table */
byte generation;
bit busy = 1;
byte bits;    /* taken sends, one bit for each */
byte shown, marks, table_epoch;

/* receiver */
byte posted;
mtype:receive receive[RECEIVES] = absent;
byte want[RECEIVES];
byte kept, heard, granted, cancels;
byte seen_generation, seen_bits, stage, choice = NONE; /* of the receive posted last */
bit seen_busy;

/* what is true, whoever knows it */
byte got[RECEIVES], bound[SENDS];

/* Used within one step only. */
byte k, n, s, r, x, y;
bit ok;
mtype:up said;
mtype:down told_so;

inline step_ends() { k = 0; n = 0; s = 0; r = 0; x = 0; y = 0; ok = 0; said = 0; told_so = 0 }

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
    receive[r] = taken;
    got[r] = s + 1;
    bound[s] = r + 1
}

/* ---- sender ---------------------------------------------------------------------- */

/* What may be claimed: the send is the first that the receive accepts, the receive the first
 * that accepts the send; what is claimed counts. */
inline find_pair() {
    pair_s = NONE; pair_r = NONE;
    for (r : 0 .. RECEIVES - 1) {
        x = NONE;
        for (s : 0 .. SENDS - 1) {
            if
            :: x == NONE && bit_of(told, r) && (at[s] == held || at[s] == claimed) &&
               accepts(r, s) -> x = s
            :: else
            fi
        }
        if
        :: x != NONE && at[x] == held && pair_s == NONE && holding && !out ->
            ok = 1;
            for (k : 0 .. RECEIVES - 1) {
                if
                :: k < r && bit_of(told, k) && accepts(k, x) -> ok = 0
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

inline learn() {
    for (k : 0 .. SENDS - 1) {
        if
        :: bit_of(bits, k) && at[k] == held -> at[k] = over
        :: else
        fi
    }
}

inline show_table() {
    shown = 0; marks = 0; n = 0;
    for (k : 0 .. SENDS - 1) {
        if
        :: (at[k] == held || at[k] == claimed) && n < ENTRIES ->
            shown = with(shown, k);
            n = n + 1;
            if
            :: at[k] == claimed -> marks = with(marks, k)
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
    bits = 0;
    busy = !holding;
    is_shut = 0
}

inline emit(s) { printf("@ emit %d\n", s); at[s] = away; credits = credits - 1; up[0]!env, s, 0 }

/* Emits as far as the credits go, and holds what is left. */
inline leave() {
    told = 0;
    holding = 0;
    for (s : 0 .. SENDS - 1) {
        if
        :: at[s] == held && credits > 0 && !holding -> emit(s)
        :: at[s] == held && credits == 0 && !holding ->
            holding = 1;
            epoch = epoch + 1;
            printf("@ hold %d\n", epoch);
            up[0]!hold, epoch, 0
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
    at[s] = held;
    printf("@ send %d %d\n", s, tag[s]);
    sent = sent + 1;
    if
    :: !holding -> leave()
    :: else
    fi
}

inline read_down() {
    down[0]?told_so, r, x;
    if
    :: told_so == rtr ->
        if
        :: holding && x == epoch -> told = with(told, r)
        :: else
        fi
    :: told_so == retire ->
        told = without(told, r);
        if
        :: out && aim == r && x != NONE -> out = 0; at[x] = held
        :: else
        fi
    :: told_so == grant -> out = 0; at[x] = over
    :: told_so == credit -> credits = credits + 1
    fi
}

#define can_leave (holding && credits > 0 && !out)
#define can_act (sent < SENDS || len(down[0]) > 0 || can_leave || pair_s != NONE || bits != 0)

inline act() {
    find_pair();
    if
    :: can_leave -> leave()
    :: pair_s != NONE ->
        s = pair_s; r = pair_r;
        at[s] = claimed;
        out = 1;
        aim = r;
        told = without(told, r);
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
        holding && !is_shut && can_act ->
            if
            :: NO_SHUT
            :: else -> busy = 1; learn(); bits = 0
            fi;
            printf("@ shut\n");
            is_shut = 1;
            step_ends()
       }
    :: atomic {
        (is_shut || (!holding && can_act)) ->
            act();
            if
            :: NO_SHUT -> learn()
            :: else
            fi;
            show_table();
            find_pair();
            step_ends()
       }
    od
}

/* ---- receiver -------------------------------------------------------------------- */

inline advertise(r) {
    if
    :: heard != 0 && !NO_RTR -> printf("@ rtr %d %d\n", r, heard); down[0]!rtr, r, heard
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
        :: x == NONE && bit_of(kept, s) && accepts(r, s) -> x = s
        :: else
        fi
    }
    if
    :: x != NONE -> kept = without(kept, x); bind(x, r); down[0]!credit, 0, 0
    :: x == NONE && heard != 0 -> stage = 1
    :: else
    fi
}

/* The entry that receive r may take: choice, or NONE. */
inline choose(r) {
    choice = NONE;
    ok = ANY_EPOCH || table_epoch == heard;
    for (s : 0 .. SENDS - 1) {
        if
        :: ok && bit_of(shown, s) && !bit_of(seen_bits, s) && accepts(r, s) &&
           !(bit_of(marks, s) && bit_of(granted, s)) ->
            if
            :: bit_of(marks, s) && PAST_MARKS
            :: bit_of(marks, s) && !PAST_MARKS && !NO_MARKS -> ok = 0
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

inline exchange(r) {
    if
    :: choice != NONE &&
       (NO_VERSION || (generation == seen_generation && busy == seen_busy && bits == seen_bits)) ->
        bits = with(bits, choice);
        printf("@ take %d %d\n", choice, r);
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
    up[0]?said, x, y;
    if
    :: said == env ->
        heard = 0;
        n = NONE;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: n == NONE && receive[r] == open && accepts(r, x) -> n = r
            :: else
            fi
        }
        if
        :: n != NONE -> bind(x, n); down[0]!credit, 0, 0
        :: else -> kept = with(kept, x)
        fi
    :: said == hold ->
        heard = x;
        granted = 0;
        for (r : 0 .. RECEIVES - 1) {
            if
            :: receive[r] == open -> advertise(r)
            :: else
            fi
        }
    :: said == claim ->
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
    :: heard != 0 -> down[0]!retire, k, NONE
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
            seen_bits = bits;
            seen_busy = busy;
            printf("@ look %d\n", generation);
            stage = 2;
            if
            :: busy && !NO_BUSY -> r = posted - 1; exchange(r)
            :: else
            fi;
            step_ends()
       }
    :: atomic { stage == 2 -> choose(posted - 1); stage = 3; step_ends() }
    :: atomic { stage == 3 -> r = posted - 1; exchange(r); step_ends() }
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
        must(!out, "a claim is answered (S1)");
        must(bits == 0, "the sender knows what was taken (S1)");
        for (r : 0 .. RECEIVES - 1) {
            for (s : 0 .. SENDS - 1) {
                must(receive[r] != open || bound[s] || !accepts(r, s),
                     "no unmatched send and open receive fit each other (NOLOSS)")
            }
        }
        step_ends()
    }
}
